"""Small data, and programs that may be missing, under the names that the documents use. Data in
published forms need NumPy and SciPy; the rest is the standard library."""

import ast
import importlib.util
import os
import random
import shutil
import struct
import sys
import zipfile

from harness import ROOT, run

# What published.py writes.
PUBLISHED = ("flickr", "reddit", "arxiv", "papers100M", "tolokers.npz", "Penn94.mat", "musae_git", "snap",
             "web", "mesh", "planetoid", "mine.npz", "wikics", "hm-categories")
HAS_SCIPY = all(importlib.util.find_spec(name) for name in ("numpy", "scipy"))

TORCHRUN = '''#!{python}
"""Starts ranks on this machine as torchrun does."""
import os, socket, subprocess, sys
words = sys.argv[1:]
count = int(words[words.index("--nproc-per-node") + 1])
program = words[words.index("--no-python") + 1:]
with socket.socket() as free:
    free.bind(("localhost", 0))
    port = str(free.getsockname()[1])
ranks = [subprocess.Popen(program, env={{**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank),
                                        "WORLD_SIZE": str(count), "MASTER_ADDR": "localhost",
                                        "MASTER_PORT": port}}) for rank in range(count)]
sys.exit(max([rank.wait() for rank in ranks]))
'''


def npy(values, kind, shape):
    """The bytes of an .npy file; `kind` is a format of `struct`."""
    dtype = {"i": "<i4", "q": "<i8", "f": "<f4", "b": "|i1"}[kind]
    header = repr({"descr": dtype, "fortran_order": False, "shape": shape})
    assert ast.literal_eval(header)
    header = header.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + \
        struct.pack(f"<{len(values)}{kind}", *values)


def write_cora(path, nodes=270, columns=143, classes=7, edges=540):
    """An archive with the members of Cora's, a tenth of its size: sparse features, no split. Seeded."""
    draw = random.Random(1)
    labels = [draw.randrange(classes) for _ in range(nodes)]
    links = [sorted({draw.randrange(nodes) for _ in range(edges // nodes)}) for _ in range(nodes)]
    words = [sorted({(label * 20 + draw.randrange(30)) % columns for _ in range(18)})
             for label in labels]

    def sparse(name, rows, width):
        ends = [0]
        for row in rows:
            ends.append(ends[-1] + len(row))
        members = [item for row in rows for item in row]
        return {f"{name}_data": npy([1.0] * len(members), "f", (len(members),)),
                f"{name}_indices": npy(members, "i", (len(members),)),
                f"{name}_indptr": npy(ends, "i", (len(ends),)),
                f"{name}_shape": npy([len(rows), width], "q", (2,))}

    arrays = {**sparse("adj", links, nodes), **sparse("attr", words, columns),
              "labels": npy(labels, "b", (nodes,))}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in arrays.items():
            archive.writestr(f"{name}.npy", data)


def write_edge_list(folder, nodes=60):
    """An edge list with features, labels and masks."""
    os.makedirs(folder)
    draw = random.Random(2)
    labels = [node % 3 for node in range(nodes)]
    with open(os.path.join(folder, "edges.csv"), "w", encoding="utf-8") as file:
        for node in range(nodes):
            file.write(f"{node},{(node + 3) % nodes}\n{node},{draw.randrange(nodes)}\n")
    features = [float(labels[node] == column % 3) for node in range(nodes) for column in range(6)]
    arrays = {"features": npy(features, "f", (nodes, 6)), "labels": npy(labels, "i", (nodes,))}
    for share, name in enumerate(("train", "val", "test")):
        mask = [int(node // 3 % 3 == share) for node in range(nodes)]
        arrays[f"{name}_mask"] = npy(mask, "b", (nodes,))
    for name, data in arrays.items():
        with open(os.path.join(folder, f"{name}.npy"), "wb") as file:
            file.write(data)


def write_snap(folder):
    """A graph as SNAP publishes it; numbers of nodes have gaps."""
    for name, lines in (("email-Eu-core", ["# a comment", "0 7", "7 9", "3 0"]),
                        ("email-Eu-core-department-labels", ["0 1", "3 0", "7 1"])):
        with open(os.path.join(folder, f"{name}.txt"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


def make_sandbox(folder, command):
    """Fills a folder with data and programs, and returns the environment in which to use it."""
    programs = os.path.join(folder, "bin")
    os.makedirs(programs)
    os.symlink(command, os.path.join(programs, "heliograph"))
    os.symlink(sys.executable, os.path.join(programs, "python3"))
    if not shutil.which("torchrun"):
        path = os.path.join(programs, "torchrun")
        with open(path, "w", encoding="utf-8") as file:
            file.write(TORCHRUN.format(python=sys.executable))
        os.chmod(path, 0o755)
    cora = os.path.join(ROOT, os.pardir, "shared", "data", "cora.npz")
    if os.path.exists(cora):
        os.symlink(os.path.abspath(cora), os.path.join(folder, "cora.npz"))
    else:
        write_cora(os.path.join(folder, "cora.npz"))
    write_edge_list(os.path.join(folder, "my_graph"))
    if HAS_SCIPY:
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "published.py")
        done = run(sys.executable, script, folder)
        assert done.returncode == 0, done.stderr
    os.symlink(os.path.join(ROOT, "experiments"), os.path.join(folder, "experiments"))
    write_snap(folder)
    with open(os.path.join(folder, "hosts"), "w", encoding="utf-8") as file:
        file.write("localhost slots=8\n")
    done = run(command, "generate", "--nodes", "400", "--edges", "2400", "--features", "24",
               "--classes", "5", "--seed", "3", "--quiet", "--out", os.path.join(folder, "graph"))
    assert done.returncode == 0, done.stderr
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("OMPI_", "PMIX_", "HELIOGRAPH_"))}
    return {**kept, "PATH": programs + os.pathsep + os.environ["PATH"]}

#!/usr/bin/env python3
"""Time and memory of importing graphs in the forms in which they are published.

Writes random graphs with the nodes, edges and columns of a published one, times a scale, in its form,
and runs `heliograph import --out` on them. "Anonymous" is the most memory that no file backs, sampled
from /proc 20 times a second: features and lists of edges of large archives are mapped files, which the
system drops when it needs memory. It is compared with the graph that is built (4 bytes an entry, 8 a
node). Prints a table. Needs NumPy, SciPy and, at scale 1, 30 GB of disk; ogbn-papers100M takes about
150 GB times the scale.

Usage: memory/published.py --out runs/published [--form NAME ...] [--scale 1]
"""

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import time
import zipfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from command import add_command_option, find_command, require_modules

require_modules("numpy", "scipy")
import numpy as np
import scipy.sparse

from print_table import format_table, human_bytes

HEADER = ["form", "nodes", "edges listed", "files", "seconds", "anonymous", "a listed edge",
          "beyond the graph, a listed edge"]


def digits(values, width):
    """The decimal digits of whole numbers as rows of bytes."""
    powers = 10 ** np.arange(width - 1, -1, -1)
    return (values[:, None] // powers % 10 + ord("0")).astype("u1")


def write_gzip(path, rows, blocks=64):
    """Writes `rows(begin, end)`, bytes of a table's rows, block by block."""
    count, text = rows
    with gzip.open(path, "wb", compresslevel=1) as file:
        for i in range(blocks):
            file.write(text(count * i // blocks, count * (i + 1) // blocks).tobytes())


def split_of(nodes, generator):
    """Training, validation and test nodes in equal parts."""
    return np.array_split(generator.permutation(nodes), 3)


def write_tables(folder, nodes, edges, cols, generator):
    """Tables of the Open Graph Benchmark, such as those of ogbn-products."""
    raw, split = os.path.join(folder, "raw"), os.path.join(folder, "split", "random")
    os.makedirs(raw)
    os.makedirs(split)

    def edge_rows(begin, end):
        text = np.full((end - begin, 18), ord("\n"), "u1")
        text[:, :8] = digits(generator.integers(0, nodes, end - begin), 8)
        text[:, 8] = ord(",")
        text[:, 9:17] = digits(generator.integers(0, nodes, end - begin), 8)
        return text

    def feature_rows(begin, end):
        text = np.full((end - begin, 2 * cols), ord(","), "u1")
        text[:, 0::2] = generator.integers(ord("0"), ord("9") + 1, (end - begin, cols), "u1")
        text[:, -1] = ord("\n")
        return text

    def numbers(name, values):
        with gzip.open(name + ".csv.gz", "wt", compresslevel=1) as file:
            file.write("".join(f"{value}\n" for value in values))

    write_gzip(os.path.join(raw, "edge.csv.gz"), (edges, edge_rows))
    write_gzip(os.path.join(raw, "node-feat.csv.gz"), (nodes, feature_rows))
    numbers(os.path.join(raw, "node-label"), generator.integers(0, 47, nodes))
    numbers(os.path.join(raw, "num-node-list"), [nodes])
    numbers(os.path.join(raw, "num-edge-list"), [edges])
    for name, part in zip(("train", "valid", "test"), split_of(nodes, generator)):
        numbers(os.path.join(split, name), part)


def write_array(archive, name, dtype, shape, values, blocks=64):
    """Adds an array to an archive in blocks. `values(n)`: the next n rows of a tall array, or the next
    n values of another."""
    with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False,
                  "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        rows = shape[0] if len(shape) == 2 and shape[0] > shape[1] else int(np.prod(shape))
        for i in range(blocks):
            count = rows * (i + 1) // blocks - rows * i // blocks
            file.write(values(count).astype(dtype).tobytes())


def write_archives(folder, nodes, edges, cols, generator):
    """Archives of the Open Graph Benchmark, such as those of ogbn-papers100M."""
    raw = os.path.join(folder, "raw")
    os.makedirs(raw)
    row = generator.standard_normal((1, cols))
    with zipfile.ZipFile(os.path.join(raw, "data.npz"), "w", zipfile.ZIP_DEFLATED,
                         compresslevel=1) as archive:
        write_array(archive, "node_feat", "f4", (nodes, cols), lambda n: np.repeat(row, n, axis=0))
        write_array(archive, "edge_index", "i8", (2, edges), lambda n: generator.integers(0, nodes, n))
        for name, number in (("num_nodes_list", nodes), ("num_edges_list", edges)):
            write_array(archive, name, "i8", (1,), lambda n, number=number: np.full(n, number))
    labels = generator.integers(0, 172, (nodes, 1)).astype("f4")
    labels[generator.random(nodes) > 0.014] = np.nan  # Few papers have a label.
    np.savez_compressed(os.path.join(raw, "node-label.npz"), node_label=labels)


def write_graphsaint(folder, nodes, edges, cols, generator):
    """The files of GraphSAINT, such as those of Reddit."""
    os.makedirs(folder)
    ends = generator.integers(0, nodes, (2, edges))
    matrix = scipy.sparse.csr_matrix((np.ones(edges, bool), ends), shape=(nodes, nodes))
    scipy.sparse.save_npz(os.path.join(folder, "adj_full.npz"), matrix)
    np.save(os.path.join(folder, "feats.npy"), generator.standard_normal((nodes, cols)))
    classes = generator.integers(0, 41, nodes).tolist()
    with open(os.path.join(folder, "class_map.json"), "w", encoding="utf-8") as file:
        json.dump(dict(enumerate(classes)), file)
    parts = zip(("tr", "va", "te"), (part.tolist() for part in split_of(nodes, generator)))
    with open(os.path.join(folder, "role.json"), "w", encoding="utf-8") as file:
        json.dump(dict(parts), file)


FORMS = {  # Nodes, listed edges and columns as published.
    "graphsaint-reddit": (write_graphsaint, 232_965, 23_213_838, 602),
    "ogbn-products": (write_tables, 2_449_029, 61_859_140, 100),
    "ogbn-papers100M": (write_archives, 111_059_956, 1_615_685_872, 128),
}


def anonymous_bytes(pid):
    """The memory of a process that no file backs; 0 after its end."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            return sum(1024 * int(line.split()[1]) for line in file if line.startswith("RssAnon"))
    except FileNotFoundError:
        return 0


def measure(command):
    """Runs a command and returns its seconds and the most anonymous memory it took."""
    start, most = time.monotonic(), 0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        most = max(most, anonymous_bytes(process.pid))
        time.sleep(0.05)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return time.monotonic() - start, most


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder for graphs, which are removed at the end")
    parser.add_argument("--form", nargs="+", choices=FORMS, default=list(FORMS)[:2])
    parser.add_argument("--scale", type=float, default=1.0, help="times nodes and edges")
    add_command_option(parser)
    options = parser.parse_args()
    command, rows = find_command(options.heliograph), []
    for name in options.form:
        write, *sizes, cols = FORMS[name]
        nodes, edges = (int(options.scale * size) for size in sizes)
        source, target = (os.path.join(options.out, name + end) for end in ("", "-native"))
        write(source, nodes, edges, cols, np.random.default_rng(1))
        files = sum(os.path.getsize(os.path.join(folder, file))
                    for folder, _, names in os.walk(source) for file in names)
        seconds, most = measure([command, "import", "--data", source, "--out", target, "--quiet"])
        graph = 8 * nodes + os.path.getsize(os.path.join(target, "neighbours.bin"))
        shutil.rmtree(source)
        shutil.rmtree(target)
        rows.append([name, f"{nodes:,}", f"{edges:,}", human_bytes(files), f"{seconds:.0f}",
                     human_bytes(most), f"{most / edges:.1f} B", f"{(most - graph) / edges:.1f} B"])
    print(format_table(HEADER, rows))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Makes the seeds of the fuzz targets anew: make_corpus.py HELIOGRAPH, the path of the command.

Needs NumPy and SciPy. Removes only the seeds, good-* and bad-*, so what fuzzing found stays. The
files of an input are written as tests/fuzz/support/input_files.hpp reads them.
"""

import gzip
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "graph_io"))
import fixtures  # noqa: E402

CORPUS = FOLDER / "corpus"

# A text form by its parts: each has the arrays of fixtures.sides beside it.
METIS = {"plain": "% six\n6 3\n2 5\n1 4\n%\n\n2\n1\n\n",
         "weighted": "6 3 011\n7 2 0.5 5 1\n7 1 .5 4 3\n7\n7 2 3\n7 1 1\n7\n",
         "sizes": "6 3 110 2\n9 7 8 2 5\n9 7 8 1 4\n9 7 8\n9 7 8 2\n9 7 8 1\n9 7 8\n"}
MUSAE = {"edges.csv": "id_1,id_2\n0,1\n1,0\n0,1\n2,2\n3,1\n4,0\n",
         "features.json": '{"0": [0, 2], "1": [], "2": [1], "3": [0, 2], "4": [1], "5": [2, 0, 1]}',
         "target.csv": 'id,name,page_type\n0,"a, b",tv\n1,c,gov\n2,"d ""e""",tv\n3,f,\n4,g,gov\n5,h,tv\n'}
TWITCH = {"X_edges.csv": "from,to\n0,1\n2,1\n", "X.json": '{"0": [5], "1": [7, 5], "2": []}',
          "X_target.csv": "id,days,mature,new_id\n73,1459,False,2\n17,12,True,0\n9,3,False,1\n"}

GRAPHLAND = {
    "info.yaml": "task: multiclass_classification\nnumerical_features_names:\n- age\n- share\n"
                 "fraction_features_names: [share]\ncategorical_features_names: ['kind']\n"
                 "target_name: group\nnotes:\n  nested: {a: 1}\n",
    "features.csv": "node_id,kind,age,share,other\n0,5,1,0.25,9\n1,-3,,0.5,9\n2,0,2,,9\n3,5,1,1,9\n",
    "targets.csv": "node_id,group\n0,0.0\n1,1.0\n2,\n3,1.0\n",
    "edgelist.csv": "source,target\n0,1\n1,0\n3,2\n3,3\n",
    "split_masks_RL.csv": "node_id,train,val,test\n0,True,False,False\n1,False,True,False\n"
                          "2,False,False,False\n3,False,False,True\n"}
WIKICS = ('{"features": [[1, 0, 2], [0, -1.5, 0], [7, 8e1, 9]], "labels": [0, 1, 1], '
          '"links": [[1, 1], [0], []], "train_masks": [[true, false, false], [0, 1, 0]], '
          '"val_masks": [[false, true, false], [1, 0, 0]], "stopping_masks": [{"a": [[null]]}], '
          '"test_mask": [0, 0, 1]}')


def bundle(files):
    """The bytes of an input with these files, by name."""
    out = b""
    for name, content in files.items():
        content = content.encode() if isinstance(content, str) else content
        assert b"@@ " not in content, name
        out += b"@@ " + name.encode() + b"\n" + content
    return out


def sections(state):
    """The sections of a state file, by name."""
    found, at = {}, 8
    while True:
        name_bytes, size = struct.unpack_from("<QQ", state, at)
        at += 16
        name = state[at:at + name_bytes].decode()
        at += -(-name_bytes // 8) * 8
        if name == "end":
            return found
        found[name] = state[at:at + size]
        at += -(-size // 8) * 8 + 8


def parts_of(path, name):
    """A file as an input holds it, by name: archives, state files and weights in their parts."""
    content = path.read_bytes()
    if path.suffix == ".npz":
        with zipfile.ZipFile(path) as archive:
            return {f"{name}/{member}": archive.read(member) for member in archive.namelist()}
    if path.suffix == ".state":
        return {f"{name}/{section}": payload for section, payload in sections(content).items()}
    if path.suffix == ".safetensors":
        end = 8 + struct.unpack_from("<Q", content)[0]
        return {f"{name}/header": content[8:end].rstrip(), f"{name}/data": content[end:]}
    return {name: content}


def folder(path, prefix=""):
    """The files of a folder, by name; manifests last, with marks for sizes and checksums."""
    paths = sorted((p for p in path.rglob("*") if p.is_file()),
                   key=lambda p: (p.name.startswith("manifest"), p.suffix == ".xxh64", p))
    files = {}
    for file in paths:
        name = prefix + file.relative_to(path).as_posix()
        if file.name == "manifest.json":
            manifest = json.loads(file.read_text())
            put_marks(manifest, name[:-len("manifest.json")])
            if "files" in manifest:  # A checkpoint's ends in its own checksum.
                manifest["xxh64"] = "{{xxh64}}"
            text = json.dumps(manifest, indent=2) + "\n"
            files[name] = re.sub(r'"(\{\{bytes [^"]*)"', r"\1", text)
        elif file.name == "manifest.xxh64":
            files[name] = re.sub("[0-9a-f]{16}", "{{xxh64 %s}}" % name.replace(".xxh64", ".json"),
                                 file.read_text())
        else:
            files.update(parts_of(file, name))
    return files


def put_marks(value, prefix):
    """Puts marks in place of sizes and checksums of files that a manifest lists."""
    if isinstance(value, list):
        for item in value:
            put_marks(item, prefix)
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        listed = isinstance(item, dict) and set(item) == {"bytes", "xxh64"}
        entry, name = (item, key) if listed else (value, value.get("file"))
        if name is not None:
            for what in {"bytes", "xxh64"} & set(entry):
                entry[what] = "{{%s %s%s}}" % (what, prefix, name)
        put_marks(item, prefix)


def changed(content, old, new):
    """The content with `new` in place of the first `old`."""
    assert old in content, old
    return content.replace(old, new, 1)


def npy(dtype, shape, data=b""):
    """A .npy file of any claims."""
    header = str({"descr": dtype, "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + data


def claims():
    """Findings: short files that claimed memory for 2,000,000,000 nodes or 10^15 numbers."""
    many = 2_000_000_000
    market = "%%MatrixMarket matrix "
    yield "edge_list", "bad-features-without-columns", {
        "options": "0l", "edges.csv": "0,1\n",
        "features.mtx": f"{market}array real general\n{many} 0\n"}
    yield "matrix_market", "bad-pickled-labels", {
        "graph.mtx": f"{market}coordinate pattern general\n{many} {many} 0\n",
        "labels.npy": npy("|O", (many,), b"x")}
    yield "ogb", "bad-labels-without-columns", {
        "raw/data.npz/num_nodes_list.npy": npy("<i8", (1,), struct.pack("<q", many)),
        "raw/data.npz/node_feat.npy": npy("<f4", (1, 1), bytes(4)),
        "raw/data.npz/edge_index.npy": npy("<i8", (2, 0)),
        "raw/node-label.npz/node_label.npy": npy("<f4", (many, 0))}
    yield "npz", "bad-pickled-list-of-a-split", {
        "x.npz/edges.npy": npy("<i4", (1, 2), bytes(8)), "x.npz/x.npy": npy("<f4", (2, 1), bytes(8)),
        "x.npz/y.npy": npy("<i4", (2,), bytes(8)), **{
            f"x.npz/{name}_idx.npy": npy("|O", (10**15,)) for name in ("train", "val", "test")}}


def options(letters, files):
    return {"options": letters, **files}


def data_sets(temporary):
    """Inputs of the target data_set by form and name."""
    made = {}
    for function in ("npz", "npz_names", "npz_numbers", "graphsaint", "dgl_reddit", "ogb",
                     "facebook100", "edge_lists", "market"):
        made[function] = temporary / function
        made[function].mkdir()
        getattr(fixtures, function)(made[function])
    sides = folder(fixtures.sides(temporary / "sides"))
    for name in ("cora", "tolokers", "dense", "extras", "multilabel"):
        yield "npz", f"good-{name}", parts_of(made["npz"] / f"{name}.npz", "x.npz")
    for name in ("pyg", "weighted", "dgl", "ends"):
        yield "npz", f"good-{name}", parts_of(made["npz_names"] / f"{name}.npz", "x.npz")
    yield "npz", "good-from_one", options("1", parts_of(made["npz_names"] / "from_one.npz", "x.npz"))
    yield "npz", "good-unlabelled", options(
        "ls", parts_of(made["npz_names"] / "unlabelled.npz", "x.npz"))
    yield "npz", "good-numbers", options("r", parts_of(made["npz_numbers"] / "numbers.npz", "x.npz"))
    deflated = {"x.npz": (made["npz"] / "cora_deflated.npz").read_bytes()}
    yield "npz", "good-deflated", deflated
    yield "npz", "bad-both", parts_of(made["npz_names"] / "both.npz", "x.npz")
    flags = made["graphsaint"] / "flags"
    yield "graphsaint", "good-flags", folder(flags)
    shutil.rmtree(flags)
    yield "graphsaint", "good-classes", folder(made["graphsaint"])
    yield "dgl_reddit", "good-coo", folder(made["dgl_reddit"])
    for name in ("tables", "edges", "archives"):
        yield "ogb", f"good-{name}", unpacked(folder(made["ogb"] / name))
    yield "ogb", "good-compressed", folder(made["ogb"] / "tables")
    few = unpacked(folder(made["ogb"] / "edges"))
    # Finding: one row of features of edges made memory of so many columns for every node.
    few.update({"raw/edge.csv.gz": "0,1\n", "raw/num-edge-list.csv.gz": "1\n",
                "raw/num-node-list.csv.gz": "9000\n",
                "raw/node-label.csv.gz": gzip.compress(b"0\n1\n" * 4500, mtime=0),
                "raw/edge-feat.csv.gz": gzip.compress(b"0," * 4000 + b"0\n", mtime=0)})
    yield "ogb", "bad-one-wide-row-for-many-nodes", few
    for name in ("full", "packed", "small", "bool"):
        yield "facebook100", f"good-{name}", parts_of(made["facebook100"] / f"{name}.mat", "x.mat")
    yield "facebook100", "good-year", options(
        "y", parts_of(made["facebook100"] / "full.mat", "x.mat"))
    yield "edge_list", "good-csv", options("0", folder(made["edge_lists"] / "csv0"))
    yield "edge_list", "good-tsv", options("1d", folder(made["edge_lists"] / "tsv1"))
    for name in ("general", "pattern", "symmetric", "sparse", "dense"):
        yield "matrix_market", f"good-{name}", folder(made["market"] / name)
    for name, text in METIS.items():
        yield "metis", f"good-{name}", {"x.graph": text, **sides}
    yield "metis", "bad-one-sided", {"x.graph": "6 1\n2\n\n\n\n\n\n", **sides}
    yield "musae", "good-pages", MUSAE
    yield "musae", "good-twitch", TWITCH
    yield "graphland", "good-classes", GRAPHLAND
    yield "graphland", "good-numbers", {**GRAPHLAND, "info.yaml": changed(
        GRAPHLAND["info.yaml"], "multiclass_classification", "regression")}
    yield "graphland", "bad-nested-names", {**GRAPHLAND, "info.yaml": changed(
        GRAPHLAND["info.yaml"], "[share]", "[[share]]")}
    yield "wikics", "good-two-splits", {"data.json": WIKICS}
    yield "wikics", "bad-link-beyond", {"data.json": changed(WIKICS, "[0], []", "[3], []")}
    yield "musae", "good-numbers", options("r", {**MUSAE, "target.csv": "id,target\n0,1.5\n1,\n2,-2\n"
                                                 "3,1e3\n4,0\n5,7\n"})


def unpacked(files):
    """The files with the text of those that gzip packed, which is read under the same name."""
    return {name: gzip.decompress(content) if name.endswith(".gz") else content
            for name, content in files.items()}


def main():
    command = os.path.abspath(sys.argv[1])
    for old in CORPUS.rglob("*"):
        if old.name.startswith(("good-", "bad-")):
            old.unlink()

    def put(target, name, content):
        path = CORPUS / target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def run(*words):
        done = subprocess.run([command, *map(str, words)], capture_output=True, text=True,
                              check=False, cwd=temporary)
        assert done.returncode == 0, f"{words}: {done.stderr}"

    with tempfile.TemporaryDirectory() as name:
        temporary = pathlib.Path(name)
        for form, seed, files in [*data_sets(temporary), *claims()]:
            put(f"data_set/{form}", seed, bundle(files))

        archive = temporary / "npz"
        run("import", "--data", archive / "extras.npz", "--out", "native", "--quiet")
        run("import", "--data", archive / "multilabel.npz", "--out", "labels", "--quiet")
        run("import", "--data", archive / "tolokers.npz", "--out", "dense", "--quiet")
        run("import", "--data", temporary / "npz_names/weighted.npz", "--out", "weighted",
            "--keep-direction", "--quiet")
        run("import", "--data", temporary / "npz_numbers/numbers.npz", "--out", "numbers",
            "--regression", "--quiet")
        for data in ("native", "labels", "dense", "weighted", "numbers"):
            put("data_set/native", f"good-{data}", bundle(folder(temporary / data)))

        small = ["--hidden", 4, "--layers", 2, "--quiet", "--threads-per-rank", 1]
        for data, extra in (("native", []), ("weighted", []), ("dense", ["--normalize", "standard"])):
            run("partition", "--data", data, "--parts", 2, "--out", f"shards-{data}", *extra,
                "--quiet")
            shards = bundle(folder(temporary / f"shards-{data}"))
            put("shards", f"good-{data}", shards)
            if data == "native":  # Finding: rank 0 waited for a row of rank 1 that nobody sent.
                plan = struct.pack("<5iBB", 0, 0, 1, 1, 0, 1, 1)  # Peer, row sent, both covers.
                other = struct.pack("<5iBB", 0, 0, 1, 1, 0, 1, 0)
                put("shards", "bad-covers-differ", changed(shards, plan, other))
        # Findings: all of these were accepted. `shards` are those with statistics.
        for seed, old, new in (("more-nodes-than-rows", b'"nodes": 6', b'"nodes": 2000000000'),
                               ("count-below-0", b'"training_nodes": 2', b'"training_nodes": -2'),
                               ("too-few-statistics", b"      2.0,\n", b""),
                               ("unknown-task", b'"multiclass"', b'"multi"')):
            put("shards", f"bad-{seed}", changed(shards, old, new))
        for model in ("gcn", "sage", "gat", "gcnii"):
            out = temporary / f"run-{model}"
            run("train", "--data", "native", "--model", model, "--epochs", 2, "--out", out.name,
                *small, "--parts", 2, "--bits", "auto:2" if model == "sage" else 1, "--staleness", 1,
                "--stale-sites", "all", "--checkpoint-every", 2, "--verify", 2,
                *(["--guard"] if model == "gat" else []))
            put("weights", f"good-{model}",
                bundle(parts_of(out / "best.safetensors", "x.safetensors")))
            if model == "gcnii":
                continue
            files = folder(temporary / "native", "data/")
            files.update(folder(out / "checkpoints/epoch-000002", "checkpoint/"))
            put("checkpoint", f"good-{model}", bundle(files))
            if model == "gat":
                guard = bytearray(files["checkpoint/run.state/guard"])
                struct.pack_into("<q", guard, 8, 99)
                files["checkpoint/run.state/guard"] = bytes(guard)
                put("checkpoint", "bad-raised-too-often", bundle(files))
            if model == "gcn":  # Finding: the sum of these numbers of bytes overflowed.
                reports = bytearray(files["checkpoint/run.state/reports"])
                for epoch in range(2):
                    struct.pack_into("<q", reports, epoch * 144 + 96, 2**62)
                files["checkpoint/run.state/reports"] = bytes(reports)
                put("checkpoint", "bad-too-many-bytes-sent", bundle(files))
                files = folder(temporary / "native", "data/")  # Finding: likewise, in fp32.
                files.update(folder(out / "checkpoints/epoch-000002", "checkpoint/"))
                sent = files["checkpoint/rank-00000.state/sent"]
                files["checkpoint/rank-00000.state/sent"] = struct.pack("<q", 2**50 - 1) + sent[8:]
                put("checkpoint", "bad-exchanges-of-no-run", bundle(files))
        run("train", "--data", "numbers", "--model", "gin", "--epochs", 1, "--out", "run-numbers",
            "--normalize", "row", "--split", "random:60/20/20", *small)
        put("weights", "good-regression",
            bundle(parts_of(temporary / "run-numbers/best.safetensors", "x.safetensors")))

        text = json.loads((temporary / "run-gcn/run.json").read_text())
        text = {key: text[key] for key in ("format", "format_version", "status", "options")}
        text["working_directory"] = "."
        text["options"]["checkpoint-every"] = 0
        text = json.dumps(text, indent=1)
        put("config", "good-run", text)
        put("config", "good-few", '{"model": "gat", "bits": 1, "lr": 1e-2, "split": "random:60/20/20",'
            '\n "split_seed": 3, "stratified": true, "staleness": 2, "data": "cora"}')
        put("config", "bad-key", '{"epoch": 3}')
        # Finding: an exception of the JSON library.
        put("config", "bad-working-directory-is-a-number",
            '{"format": "heliograph-run", "options": {}, "working_directory": 5}')
        run_files = {"run.json": text, **folder(temporary / "run-gcn/checkpoints", "checkpoints/")}
        run_files.update(parts_of(temporary / "run-gcn/best.safetensors", "best.safetensors"))
        run_files["metrics.jsonl"] = (temporary / "run-gcn/metrics.jsonl").read_text()
        put("run_directory", "whole", bundle(run_files))
        put("run_directory", "begun", bundle({".run.json.next": text, "metrics.jsonl": ""}))

    put("owners", "good-two", bundle({"options": "26", "x": "0\n1\n0\n1 \n1\n0\n"}))
    put("owners", "bad-part", bundle({"options": "26", "x": "0\n2\n0\n1\n1\n0\n"}))
    put("owners", "good-array", bundle(
        {"options": "23", "x.npy": npy("<i4", (3,), struct.pack("<3i", 0, 1, 0))}))
    put("owners", "bad-pickled", bundle({"options": "23", "x.npy": npy("|O", (3,), bytes(12))}))
    put("owners", "good-dgl", bundle(
        {"options": "23", "partition_meta.json": '{"num_parts": 2}', "_N.txt": "0\n1\n0\n"}))
    for bits in range(6):
        put("packed_rows", f"good-{1 << bits}-bits",
            bytes([bits, bits % 2, bits % 3, bits % 4, 39]) + bytes(range(256)) * 3)

    def frame(kind, text=b"", code=5):
        return struct.pack("<4sBBHiiii", b"HLW1", kind, 1, len(text), 1, 7, 2, code) + text

    put("watch_frames", "good-all", b"".join(frame(kind) for kind in range(7)))
    put("watch_frames", "good-text", frame(1, b"out of memory", 4) + frame(2, b"was lost"))
    put("watch_frames", "bad-magic", b"GET / HTTP/1.1\r\nHost: node1\r\n\r\n")
    plain = [bytes([kind, 0, 0]) for kind in range(11)]
    stopped = bytes([0x1b, 0, 4]) + b"gone"
    call, answer, choose, table, connected, refused, ended, challenge, proof = (
        plain[kind] for kind in (1, 2, 3, 4, 5, 7, 8, 9, 10))
    put("rendezvous", "called", b"\0" + call + proof + choose + connected)
    put("rendezvous", "called-refused", b"\0" + call + bytes([10, 0, 1, 1]))
    put("rendezvous", "caller", b"\1" + challenge + answer + table + connected)
    put("rendezvous", "caller-refused", b"\1" + bytes([0x17, 0, 5]) + b"go on")
    put("rendezvous", "caller-ended", b"\1" + challenge + answer + ended + refused)
    put("rendezvous", "caller-stopped", b"\1" + challenge + answer + table + stopped)


main()

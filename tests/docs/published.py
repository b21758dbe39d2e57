#!/usr/bin/env python3
"""Writes the small graph of tests/graph_io/fixtures.py in the published forms, under the names that
docs/data.md uses: published.py FOLDER. Needs NumPy and SciPy."""

import importlib.util
import json
import pathlib
import pickle
import shutil
import sys

import numpy as np
import scipy.sparse

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "graph_io" / "fixtures.py"
spec = importlib.util.spec_from_file_location("fixtures", FIXTURES)
fixtures = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fixtures)


def musae(folder):
    edges = "".join(f"{u},{v}\n" for u, v in fixtures.EDGES)
    (folder / "musae_git_edges.csv").write_text("id_1,id_2\n" + edges)
    (folder / "musae_git_features.json").write_text(json.dumps({v: [v % 3, 3] for v in range(6)}))
    (folder / "musae_git_target.csv").write_text(
        "id,name,ml_target\n" + "".join(f"{v},n{v},{v % 2}\n" for v in range(6)))


def planetoid(folder):
    one_hot = np.eye(3)[np.abs(fixtures.LABELS)]
    rows = scipy.sparse.csr_matrix(fixtures.FEATURES)
    neighbours = {v: [int(u) for w, u in fixtures.EDGES if w == v] for v in range(6)}
    for name, part in {"x": rows[:2], "allx": rows[:4], "tx": rows[[5, 4]], "y": one_hot[:2],
                       "ally": one_hot[:4], "ty": one_hot[[5, 4]], "graph": neighbours}.items():
        (folder / f"ind.cora.{name}").write_bytes(pickle.dumps(part, 2))
    (folder / "ind.cora.test.index").write_text("5\n4\n")


def wikics(folder):
    links = [[int(u) for w, u in fixtures.EDGES if w == v] for v in range(6)]
    labels = np.maximum(fixtures.LABELS, 0).tolist()
    masks = {"train_masks": [[v < 3 for v in range(6)]], "val_masks": [[v == 3 for v in range(6)]],
             "test_mask": [v > 3 for v in range(6)]}
    (folder / "data.json").write_text(json.dumps(
        {"features": fixtures.FEATURES.tolist(), "labels": labels, "links": links, **masks}))


def graphland(folder):
    def table(name, header, row):
        lines = [header, *(",".join(map(str, [v, *row(v)])) for v in range(6))]
        (folder / name).write_text("\n".join(lines) + "\n")

    (folder / "info.yaml").write_text(
        "task: multiclass_classification\ntarget_name: kind\nnumerical_features_names: [size]\n"
        "fraction_features_names: []\ncategorical_features_names: [colour]\n")
    table("features.csv", "node_id,size,colour", lambda v: ("" if v == 2 else v / 2, v % 3))
    table("targets.csv", "node_id,kind", lambda v: (v % 2,))
    table("split_masks_RL.csv", "node_id,train,val,test", lambda v: (v < 2, 1 < v < 4, v > 3))
    edges = "".join(f"{u},{v}\n" for u, v in fixtures.EDGES)
    (folder / "edgelist.csv").write_text("source,target\n" + edges)


def archives(folder):
    """The graph as arrays, and, where the library is installed, in forms that convert.py reads."""
    arrays = {"edge_index": fixtures.EDGES.T, "x": fixtures.FEATURES, "y": fixtures.LABELS}
    arrays.update({f"{name}_mask": mask[0] for name, mask in fixtures.MASKS.items()})
    np.savez(folder / "mine.npz", **arrays)
    if importlib.util.find_spec("torch"):
        import torch
        tensors = {name: torch.tensor(array) for name, array in arrays.items()}
        torch.save(tensors, folder / "data.pt")
        if importlib.util.find_spec("dgl"):
            import dgl
            graph = dgl.graph(tuple(tensors.pop("edge_index")), num_nodes=6)
            graph.ndata.update(tensors)
            dgl.save_graphs(str(folder / "graph.bin"), [graph])
    if importlib.util.find_spec("pyarrow"):
        import pyarrow
        from pyarrow import parquet
        (folder / "tables").mkdir()
        ends = dict(zip(("src", "dst"), arrays.pop("edge_index")))
        parquet.write_table(pyarrow.table(ends), folder / "tables" / "edges.parquet")
        nodes = pyarrow.table({**arrays, "x": list(arrays["x"])})
        parquet.write_table(nodes, folder / "tables" / "nodes.parquet")


def main():
    out = pathlib.Path(sys.argv[1])

    def place(name, write, *parts):
        """Moves what `write` makes, or the part of it with this path, to this name."""
        made = out / ".made"
        made.mkdir()
        write(made)
        (made.joinpath(*parts)).rename(out / name)
        shutil.rmtree(made, ignore_errors=True)

    place("flickr", fixtures.graphsaint)
    place("reddit", fixtures.dgl_reddit)
    place("arxiv", fixtures.ogb, "tables")
    place("papers100M", fixtures.ogb, "archives")
    place("tolokers.npz", fixtures.npz, "tolokers.npz")
    place("Penn94.mat", fixtures.facebook100, "packed.mat")
    place("musae_git", musae)
    place("snap", fixtures.edge_lists, "csv0")
    (out / "snap" / "edges.csv").rename(out / "snap" / "edges.tsv")
    place("web", fixtures.market, "general")
    place("mesh", fixtures.sides)
    (out / "mesh" / "graph.graph").write_text("6 3\n2 5\n1 4\n\n2\n1\n\n")
    place("planetoid", planetoid)
    place("wikics", wikics)
    place("hm-categories", graphland)
    archives(out)


if __name__ == "__main__":
    main()

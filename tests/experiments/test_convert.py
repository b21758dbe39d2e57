#!/usr/bin/env python3
"""Tests of experiments/datasets/convert.py. Forms whose library is missing are skipped by name.

Usage: test_convert.py --heliograph PATH"""

import argparse
import collections
import importlib.util
import os
import pickle
import sys
import unittest

try:
    import numpy as np
    import scipy.sparse
except ImportError as error:
    print(f"skipped: {error.name} is not installed")
    sys.exit(77)

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from harness import ROOT, FolderTest, run

CONVERT = os.path.join(ROOT, "experiments", "datasets", "convert.py")
sys.path.append(os.path.dirname(CONVERT))
import convert
NODES, COLUMNS, CLASSES = 30, 5, 3


def needs(*modules):
    """Skips a test unless this Python has these modules."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"{', '.join(missing)} is not installed")


def graph():
    """Edges, features, labels and masks of a graph. Seeded."""
    draw = np.random.default_rng(1)
    roles = np.arange(NODES) % 3
    return {"edge_index": draw.integers(0, NODES, (2, 80)),
            "x": draw.random((NODES, COLUMNS), np.float32), "y": np.arange(NODES) % CLASSES,
            **{f"{name}_mask": roles == i for i, name in enumerate(("train", "val", "test"))}}


class ConvertTest(FolderTest):
    heliograph = None

    def convert(self, *words, environment=None):
        self.out = self.path("out.npz")
        env = {**os.environ, **(environment or {})}
        return run(sys.executable, CONVERT, *words, "--out", self.out, env=env)

    def converted(self, *words):
        """The arrays that the script writes, from which the command trains an epoch."""
        self.passes(self.convert(*words))
        self.passes(run(self.heliograph, "train", "--data", self.out, "--epochs", "1", "--quiet"))
        with np.load(self.out) as archive:
            return dict(archive)

    def refused(self, text, *words, environment=None):
        done = self.convert(*words, environment=environment)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(text, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertFalse(os.path.exists(self.out))

    def same(self, arrays, expected):
        for name, array in expected.items():
            np.testing.assert_array_equal(arrays[name], array, name)


class Planetoid(ConvertTest):
    """Nodes 0-4 train, 5-19 are the other nodes of allx, the rest tests; node 26 is isolated, and
    the files of test nodes lack it."""

    def setUp(self):
        super().setUp()
        draw = np.random.default_rng(2)
        self.features = scipy.sparse.random(NODES, COLUMNS, 0.4, "csr", np.float32, draw)
        self.one_hot = np.eye(CLASSES, dtype=np.int32)[np.arange(NODES) % CLASSES]
        self.test = draw.permutation(np.setdiff1d(np.arange(20, NODES), [26]))
        self.edges = collections.defaultdict(list)
        for node in range(NODES):
            if node != 26:
                self.edges[node] = [int(u) for u in draw.integers(0, 20, 2)]
        self.parts = {"x": self.features[:5], "tx": self.features[self.test],
                      "allx": self.features[:20], "y": self.one_hot[:5],
                      "ty": self.one_hot[self.test], "ally": self.one_hot[:20], "graph": self.edges}
        self.write_parts()

    def write_parts(self):
        for name, part in self.parts.items():
            # Protocol 2 has Python 2's names; SciPy has moved the class since the files were made.
            text = pickle.dumps(part, 2).replace(b"scipy.sparse._csr\n", b"scipy.sparse.csr\n")
            with open(self.path(f"ind.tiny.{name}"), "wb") as file:
                file.write(text)
        self.write("ind.tiny.test.index", "".join(f"{node}\n" for node in self.test))

    def check(self, arrays):
        dense = self.features.toarray()
        dense[26] = 0
        labels = self.one_hot.argmax(1)
        labels[26] = -1
        rows = scipy.sparse.csr_matrix((arrays["attr_data"], arrays["attr_indices"],
                                        arrays["attr_indptr"]), arrays["attr_shape"])
        np.testing.assert_array_equal(rows.toarray(), dense)
        self.assertEqual(arrays["attr_data"].dtype, np.float32)
        nodes = np.arange(NODES)
        self.same(arrays, {"y": labels, "train_mask": nodes < 5,
                           "val_mask": (nodes >= 5) & (nodes < 20),
                           "test_mask": (nodes >= 20) & (nodes != 26)})
        pairs = sorted((u, v) for u, ends in self.edges.items() for v in ends)
        self.assertEqual(sorted(zip(*arrays["edge_index"].tolist())), pairs)

    def test_test_nodes_are_put_in_order_and_isolated_ones_added(self):
        self.check(self.converted(self.path("ind.tiny")))

    def test_a_folder_of_one_graph_is_enough(self):
        self.check(self.converted(self.folder))
        self.write("ind.other.graph", "")
        done = self.convert(self.folder, "--overwrite")
        self.assertIn("nor the files ind.* of one graph", done.stderr)

    def test_a_pickle_of_anything_else_is_not_run(self):
        self.parts["graph"] = Runs(self.path("ran"))
        self.write_parts()
        self.refused("system, which is no matrix", self.path("ind.tiny"))
        self.assertFalse(os.path.exists(self.path("ran")))

    def test_files_that_do_not_fit_are_named(self):
        self.parts["tx"] = self.features[self.test[:-1]]
        self.write_parts()
        self.refused("ind.tiny.test.index does not fit", self.path("ind.tiny"))
        for part, value in (("graph", [0, 1]), ("ally", np.arange(20)), ("tx", {})):
            kept, self.parts[part] = self.parts[part], value
            self.write_parts()
            self.refused(f"ind.tiny.{part} holds a {type(value).__name__}, no", self.path("ind.tiny"))
            self.parts[part] = kept
        os.remove(self.path("ind.tiny.allx"))
        self.refused("ind.tiny.allx: No such file", self.path("ind.tiny"))


class Runs:
    """A pickle of it makes a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


class Torch(ConvertTest):
    def save(self, data):
        import torch
        torch.save(data, self.path("data.pt"))
        return self.path("data.pt")

    @needs("torch")
    def test_a_dict_of_tensors(self):
        import torch
        path = self.save({k: torch.tensor(v) for k, v in graph().items()})
        self.same(self.converted(path), graph())

    @needs("torch", "torch_geometric")
    def test_data_and_the_processed_file_of_a_data_set(self):
        import torch
        from torch_geometric.data import Data, InMemoryDataset
        data = Data(**{k: torch.tensor(v) for k, v in graph().items()})
        self.same(self.converted(self.save(data)), graph())
        whole, slices = InMemoryDataset.collate([data])
        processed = self.save((whole.to_dict(), slices, Data))
        self.same(self.converted(processed, "--overwrite"), graph())
        os.remove(self.out)
        whole, slices = InMemoryDataset.collate([data, data])
        self.refused("several graphs", self.save((whole.to_dict(), slices, Data)))

    @needs("torch")
    def test_other_objects_are_loaded_only_on_request(self):
        import torch
        tensors = {k: torch.tensor(v) for k, v in graph().items()}
        path = self.save({**tensors, "more": Runs(self.path("ran"))})
        self.refused("--trust does it", path)
        self.assertFalse(os.path.exists(self.path("ran")))
        self.same(self.converted(path, "--trust"), graph())
        self.assertTrue(os.path.exists(self.path("ran")))


class Dgl(ConvertTest):
    @needs("dgl")
    def test_a_graph_with_features_labels_and_masks(self):
        import dgl
        import torch
        arrays = {k: torch.tensor(v) for k, v in graph().items()}
        made = dgl.graph(tuple(arrays.pop("edge_index")), num_nodes=NODES)
        made.ndata["feat"], made.ndata["label"] = arrays.pop("x"), arrays.pop("y")
        made.ndata.update(arrays)
        made.edata["w"] = torch.ones(80)
        dgl.save_graphs(self.path("graph.bin"), [made])
        expected = graph()
        source, target = expected.pop("edge_index")
        expected.update(src=source, dst=target, feat=expected.pop("x"), label=expected.pop("y"),
                        edge_weight=np.ones(80))
        self.same(self.converted(self.path("graph.bin")), expected)


class Parquet(ConvertTest):
    @needs("pyarrow")
    def test_names_of_nodes_and_classes(self):
        import pyarrow
        from pyarrow import parquet
        arrays = graph()
        ids = [f"n{(7 * node) % NODES:02}" for node in range(NODES)]
        names = ["red", "green", "blue"]
        columns = {"id": ids, "label": [None, *(names[c] for c in arrays["y"][1:])],
                   "split": [("train", "valid", "test")[node % 3] for node in range(NODES)],
                   "note": ["text"] * NODES}
        edges = {end: [ids[v] for v in nodes]
                 for end, nodes in zip(("src", "dst"), arrays["edge_index"])}
        expected = {**arrays, "y": np.array([sorted(names).index(names[c]) for c in arrays["y"]])}
        expected["y"][0] = -1
        single = {f"c{i}": arrays["x"][:, i] for i in range(COLUMNS)}
        for features in (single, {"x": list(arrays["x"])}):
            parquet.write_table(pyarrow.table({**columns, **features}), self.path("nodes.parquet"))
            parquet.write_table(pyarrow.table(edges), self.path("edges.parquet"))
            read = self.converted(self.folder, "--overwrite")
            self.same(read, {**expected, "class_names": np.array(sorted(names))})
        os.remove(self.out)
        edges["src"][4] = "stranger"
        parquet.write_table(pyarrow.table(edges), self.path("edges.parquet"))
        self.refused("edge 4 ends at 'stranger'", self.folder)
        edges["src"][4] = None
        parquet.write_table(pyarrow.table(edges), self.path("edges.parquet"))
        self.refused("the column src has no value in row 4", self.folder)
        numbers = {end: arrays["edge_index"][i] for i, end in enumerate(("src", "dst"))}
        parquet.write_table(pyarrow.table(numbers), self.path("edges.parquet"))
        self.refused("not of one type, but integers and text", self.folder)
        for kind in ("datetime64[ns]", "bool"):
            ids = np.arange(NODES) % 2 if kind == "bool" else np.arange(NODES)
            parquet.write_table(pyarrow.table({**columns, "id": ids.astype(kind)}),
                                self.path("nodes.parquet"))
            self.refused(f"not of one type, but integers and values of the type {kind}", self.folder)
        parquet.write_table(pyarrow.table({end: numbers[end] > 0 for end in numbers}),
                            self.path("edges.parquet"))
        self.refused("the ids of nodes are values of the type bool, neither", self.folder)
        parquet.write_table(pyarrow.table(numbers), self.path("edges.parquet"))
        ragged = {"x": [[1.0, 2.0], *[[3.0]] * (NODES - 1)]}
        parquet.write_table(pyarrow.table(ragged), self.path("nodes.parquet"))
        self.refused("the column x: row 1 is not a list", self.folder)
        os.remove(self.path("edges.parquet"))
        self.refused("edges.parquet does not exist", self.folder)

    @needs("pyarrow")
    def test_ids_that_no_double_holds(self):
        from pyarrow import parquet, table
        arrays = graph()
        write = lambda name, columns: parquet.write_table(table(columns), self.path(f"{name}.parquet"))
        node_columns = {name: array for name, array in arrays.items() if name != "edge_index"}
        node_columns["x"] = arrays["x"][:, 0]
        for first in (2**53 + 1, 2**63 + 5):
            ids = np.arange(NODES, dtype=np.uint64) + np.uint64(first)
            ends = ids[arrays["edge_index"]]
            if first < 2**63:
                ends = ends.astype(np.int64)
            write("nodes", {"id": ids, **node_columns})
            write("edges", {"src": ends[0], "dst": ends[1], "w": np.ones(80), "weights": np.ones(80)})
            read = self.converted(self.folder, "--overwrite")
            self.same(read, {"edge_index": arrays["edge_index"], "edge_weight": np.ones(80),
                             "x": arrays["x"][:, :1]})
        done = self.convert(self.folder, "--overwrite")
        self.assertIn("columns of edges that are not used: weights", done.stderr)
        os.remove(self.out)
        write("edges", {"src": -arrays["edge_index"][0], "dst": arrays["edge_index"][1]})
        self.refused("some ids are below 0 and some do not fit", self.folder)
        write("edges", {"src": ends[0] * 1.0, "dst": ends[1]})
        self.refused("not of one type, but decimals and integers", self.folder)
        write("nodes", {**node_columns, "id": [{"a": i} for i in range(NODES)]})
        write("edges", {end: [{"a": int(v)} for v in arrays["edge_index"][0]] for end in ("src", "dst")})
        self.refused("the ids of nodes are values of the type dict, neither", self.folder)
        write("edges", {"src": [b"0"] * 80, "dst": ["0"] * 80})
        self.refused("but text and values of the type", self.folder)
        write("edges", {"src": ends[0], "dst": ends[1], "source": ends[0]})
        self.refused("the edges have both columns src and source", self.folder)
        write("edges", {"src": ends[0], "dst": ends[1], "w": np.ones(80), "weight": np.ones(80)})
        self.refused("the edges have both columns weight and w", self.folder)

    @needs("pyarrow")
    def test_columns_of_another_type_are_named(self):
        from pyarrow import parquet, table
        arrays = graph()
        write = lambda name, columns: parquet.write_table(table(columns), self.path(f"{name}.parquet"))
        write("edges", {"src": arrays["edge_index"][0], "dst": arrays["edge_index"][1]})
        masks = {name: mask for name, mask in arrays.items() if name.endswith("_mask")}
        for columns, text in (
                ({"x": [["1"]] * NODES}, "the column x has lists of string, not of numbers"),
                ({"x": ["1"] * NODES}, "the nodes have no features"),
                ({"id": []}, "nodes.parquet has no rows"),
                ({"x": np.ones(NODES), "split": ["train"] * NODES, **masks},
                 "the nodes have both columns split and train_mask"),
                ({"x": np.ones(NODES), "train_mask": [None, *[True] * (NODES - 1)]},
                 "the column train_mask has no value in row 0")):
            write("nodes", columns)
            self.refused(text, self.folder)

    def test_missing_numbers_stay_unlabelled(self):
        values, names = convert.classes([0.5, None, float("nan"), -1.0])
        np.testing.assert_array_equal(values, [0.5, np.nan, np.nan, -1.0])
        self.assertIsNone(names)
        values, names = convert.classes([None, [0, 1], [1, 1]])
        np.testing.assert_array_equal(values, [[-1, -1], [0, 1], [1, 1]])
        with self.assertRaisesRegex(SystemExit, "row 1 is not a list of 2 numbers"):
            convert.classes([[0, 1], [1]])


class Command(ConvertTest):
    def test_a_missing_library_is_named(self):
        for name, file in (("torch", "a.pt"), ("dgl", "a.bin"), ("pyarrow", "nodes.parquet")):
            self.write(f"missing/{name}.py", f"raise ImportError('gone', name='{name}')")
            path = self.write(file, "")
            self.refused(f"need the package {name}: {name} is not installed",
                         self.folder if name == "pyarrow" else path,
                         environment={"PYTHONPATH": self.path("missing")})

    def test_other_files_are_refused(self):
        self.refused("does not exist", self.path("none.pt"))
        self.refused("is none of .pt", self.write("a.csv", "0,1"))
        self.refused("neither nodes.parquet", self.folder)
        with open(self.path("out.npz"), "wb"):
            pass
        done = self.convert(self.path("a.csv"))
        self.assertIn("exists; choose another name or add --overwrite", done.stderr)
        os.remove(self.out)
        os.mkfifo(self.out)
        done = self.convert(self.path("a.csv"), "--overwrite")
        self.assertIn("is no file: it is not replaced", done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--heliograph", required=True)
    options, rest = parser.parse_known_args()
    ConvertTest.heliograph = os.path.abspath(options.heliograph)
    unittest.main(argv=sys.argv[:1] + rest)

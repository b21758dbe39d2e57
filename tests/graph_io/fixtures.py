"""Writes test files with NumPy and SciPy: fixtures.py FUNCTION FOLDER."""

import gzip
import json
import pathlib
import sys
import zipfile

import numpy as np
import scipy.io
import scipy.sparse

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]


def npy_dtypes(folder):
    """One 2 x 3 array of zeros and ones for each dtype, in both orders, and odd values."""
    values = np.array([[0, 1, 1], [1, 0, 0]])
    for dtype in DTYPES:
        name = dtype.replace("?", "b1")
        np.save(folder / f"{name}.npy", values.astype(dtype))
        np.save(folder / f"{name}_fortran.npy", np.asfortranarray(values.astype(dtype)))
    np.save(folder / "half.npy", np.array([1.5, -2.25, 6e-8, 65504, np.inf, np.nan, -0.0], "f2"))
    np.save(folder / "big_endian.npy", values.astype(">i4"))
    np.save(folder / "object.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.save(folder / "structured.npy", np.zeros(2, dtype=[("a", "<i4")]))
    np.save(folder / "complex.npy", np.zeros(2, dtype="c8"))
    np.save(folder / "strings.npy", np.array(["tv", "gr\u00fcn", "\u4e2d\u56fd", "\U0001f600"]))
    np.save(folder / "scalar.npy", np.array(7))
    np.save(folder / "empty.npy", np.zeros((0, 3), "f4"))
    np.save(folder / "u8_big.npy", np.array([2**63], "u8"))
    np.save(folder / "f8_big.npy", np.array([[1.0, 2.0], [3.0, 1e39]]))
    np.save(folder / "f8_part.npy", np.array([1.0, 2.5]))
    np.save(folder / "three.npy", np.asfortranarray(np.zeros((2, 2, 2), "i4")))
    for version in [(1, 0), (2, 0), (3, 0)]:
        with open(folder / f"version{version[0]}.npy", "wb") as file:
            np.lib.format.write_array(file, values.astype("i4"), version=version)


def check_written(folder):
    """Reads back what write_npy wrote; a mismatch ends with an error."""
    flat = np.load(folder / "flat.npy")
    assert flat.dtype == np.int32 and flat.shape == (3,), (flat.dtype, flat.shape)
    assert flat.tolist() == [1, -2, 2**31 - 1]
    table = np.load(folder / "table.npy")
    assert table.dtype == np.float32 and table.shape == (2, 3), (table.dtype, table.shape)
    assert table.tolist() == [[0.5, 1.5, 2.5], [-1, 0, 3]]
    assert np.load(folder / "empty.npy").shape == (0, 4)


def check_archive(folder):
    """Reads what save_npz wrote of small_dense(), with two splits and with one."""
    edges = [(0, 1), (0, 3), (1, 0), (1, 2), (2, 1), (2, 3), (3, 0), (3, 2)]
    for name in ("small", "one"):
        arrays = dict(np.load(folder / f"{name}.npz"))
        assert list(arrays) == ["edge_index", "x", "y", "train_mask", "val_mask", "test_mask",
                                "class_names"], list(arrays)
        assert arrays["edge_index"].dtype == arrays["y"].dtype == np.int64
        assert sorted(zip(*arrays["edge_index"].tolist())) == edges
        assert arrays["x"].dtype == np.float32 and arrays["x"][1].tolist() == [3, -4]
        assert arrays["y"].tolist() == [0, 1, 1, 0, -1]
        assert arrays["class_names"].tolist() == ["tree", "gr\u00fcn"]
        masks = [arrays[f"{role}_mask"] for role in ("train", "val", "test")]
        assert all(mask.dtype == bool for mask in masks)
        splits = [mask.reshape(5, -1).T.tolist() for mask in masks]
        assert splits[0][0] == [1, 1, 0, 0, 0] and masks[0].shape == (5, 2)[:2 if name == "small" else 1]
        if name == "small":
            assert [split[1] for split in splits] == [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 1, 0]]


# One graph in every form: 6 nodes, node 5 isolated; 0-1 twice, 1-0 once, a self-loop at 2, 3-1, 4-0.
EDGES = np.array([[0, 1], [1, 0], [0, 1], [2, 2], [3, 1], [4, 0]])
FEATURES = np.array([[1, 0, 2], [0, 0, 0], [0, 3, 0], [4, 0, 0.5], [0, -1, 0], [7, 8, 9]], "f4")
LABELS = np.array([0, 1, 2, 1, 0, -1], "i8")
MASKS = {
    "train": np.array([[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0]], bool),
    "val": np.array([[0, 0, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0]], bool),
    "test": np.array([[0, 0, 0, 1, 1, 1], [0, 1, 0, 0, 1, 0]], bool),
}
MULTILABELS = np.array([[1, 0], [0, 0], [1, 1], [-1, -1], [0, 1], [1, 0]], "i1")


def graphsaint(folder):
    """The graph as GraphSAINT publishes it, with one class a node and, in folder/flags, several."""
    (folder / "flags").mkdir(parents=True)
    for place, classes in ((folder, LABELS), (folder / "flags", MULTILABELS)):
        matrix = scipy.sparse.csr_matrix((np.full(6, 7.5), EDGES.T), shape=(6, 6))
        scipy.sparse.save_npz(place / "adj_full.npz", matrix)
        np.save(place / "feats.npy", FEATURES.astype("f8"))
        (place / "class_map.json").write_text(json.dumps({str(v): c.tolist()
                                                          for v, c in enumerate(classes)}))
        (place / "role.json").write_text('{"tr": [1, 0], "va": [2], "te": [3, 4]}')


def graphsaint_sizes(folder):
    """Folders of GraphSAINT whose graph or features have the wrong shape."""
    for name, shape, features in (("transposed", (6, 6), FEATURES.T), ("five", (5, 5), FEATURES),
                                  ("wide", (6, 7), FEATURES)):
        graphsaint(folder / name)
        scipy.sparse.save_npz(folder / name / "adj_full.npz", scipy.sparse.csr_matrix(shape))
        np.save(folder / name / "feats.npy", features)


def dgl_reddit(folder, features=FEATURES, labels=LABELS, types=(1, 1, 2, 3, 3, 3)):
    """The graph as DGL publishes Reddit."""
    folder.mkdir(exist_ok=True)
    matrix = scipy.sparse.coo_matrix((np.ones(6), EDGES.T), shape=(6, 6))
    scipy.sparse.save_npz(folder / "reddit_graph.npz", matrix)
    np.savez(folder / "reddit_data.npz", feature=features, label=labels,
             node_types=np.array(types), node_ids=np.arange(6))


def dgl_reddit_sizes(folder):
    dgl_reddit(folder / "transposed", features=FEATURES.T)
    dgl_reddit(folder / "short", labels=LABELS[:5])
    dgl_reddit(folder / "graph", FEATURES[:5], LABELS[:5])
    dgl_reddit(folder / "named_types", types=["train", "train", "val", "test", "test", "test"])


def ogb_bad(folder):
    """Changed archives of the Open Graph Benchmark."""
    for name, changes in (("from_one", {"edge_index": EDGES.T + 2}), ("short", {"node_feat": FEATURES[:5]})):
        raw = folder / name / "raw"
        raw.mkdir(parents=True)
        np.savez(raw / "data.npz", **{"edge_index": EDGES.T, "node_feat": FEATURES,
                                      "num_nodes_list": np.array([6]), **changes})
        np.savez(raw / "node-label.npz", node_label=np.maximum(LABELS, 0)[:, None])


def write_table(path, rows):
    """A table without a header, compressed by gzip; NaN is an empty field, quoted if it is alone."""
    lines = (",".join("" if item != item else str(item) for item in row) or '""' for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))


def ogb(folder):
    """The graph as downloads of the Open Graph Benchmark unpack: tables, features of edges, archives."""
    for name in ("tables", "edges", "archives"):
        raw = folder / name / "raw"
        for part, nodes in (("train", [0, 1]), ("valid", [2]), ("test", [3, 4])):
            write_table(folder / name / "split" / "time" / f"{part}.csv.gz", [[v] for v in nodes])
        if name == "archives":
            raw.mkdir()
            np.savez_compressed(raw / "data.npz", edge_index=EDGES.T, node_feat=FEATURES,
                                num_nodes_list=np.array([6]), num_edges_list=np.array([6]),
                                node_year=np.zeros((6, 1), "i8"))
            labels = np.where(LABELS < 0, np.nan, LABELS).astype("f4")
            np.savez_compressed(raw / "node-label.npz", node_label=labels[:, None])
            continue
        write_table(raw / "edge.csv.gz", EDGES)
        write_table(raw / "num-node-list.csv.gz", [[6]])
        write_table(raw / "num-edge-list.csv.gz", [[6]])
        if name == "tables":
            write_table(raw / "node-feat.csv.gz", FEATURES)
            write_table(raw / "node-label.csv.gz", [[v if v >= 0 else np.nan] for v in LABELS])
            write_table(raw / "node_year.csv.gz", [[2000]] * 6)
        else:
            write_table(raw / "edge-feat.csv.gz", [[e, 0.5] for e in range(6)])
            write_table(raw / "node-label.csv.gz", np.maximum(MULTILABELS, 0))


def facebook100(folder):
    """A graph as Facebook100 is published, and what SciPy reads of it as archives."""
    info = np.array([[1, 2, 105, 0, 166, 2006, 3001], [1, 1, 0, 0, 166, 2007, 0],
                     [2, 2, 105, 91, 0, 2006, 3001], [1, 0, 33, 0, 170, 0, 17],
                     [0, 1, 33, 105, 170, 2007, 65000], [5, 2, 0, 0, 0, 2004, 0]])
    ones = scipy.sparse.coo_matrix((np.ones(6), EDGES.T), shape=(6, 6))
    matrix = scipy.sparse.csc_matrix((ones + ones.T) > 0)
    others = {"note": "text", "z": np.ones(2) * 1j, "cell": np.array([{"a": 1}, "b"], object)}
    for name, number, compress in (("full", "f8", False), ("packed", "f8", True),
                                   ("small", "u2", True), ("bool", "i4", False)):
        kind = bool if name == "bool" else "f8"
        scipy.io.savemat(folder / f"{name}.mat", do_compression=compress, mdict={
            **others, "A": matrix.astype(kind), "local_info": info.astype(number), "last": 1})
    read = scipy.io.loadmat(folder / "packed.mat")
    adjacency, info = read["A"].tocsr(), read["local_info"].astype("i8")
    for target, column in (("gender", 1), ("year", 5)):
        blocks = [info[:, [c]] == np.setdiff1d(info[:, c], 0) for c in range(7) if c != column]
        features = scipy.sparse.csr_matrix(np.hstack(blocks).astype("f4"))
        labels = np.searchsorted(np.setdiff1d(info[:, column], 0), info[:, column])
        np.savez(folder / f"{target}.npz", adj_indptr=adjacency.indptr, adj_indices=adjacency.indices,
                 adj_shape=adjacency.shape, attr_data=features.data, attr_indices=features.indices,
                 attr_indptr=features.indptr, attr_shape=features.shape,
                 labels=np.where(info[:, column] == 0, -1, labels))


def bad_coo(folder):
    """Matrices as scipy.sparse.save_npz would not write them."""
    for name, shape, row, col, form in (("wide", 2**31 - 1, [0], [1], "coo"), ("far", 6, [1], [6], "coo"),
                                        ("uneven", 6, [0], [1, 2], "coo"), ("named", 6, [0], [1], "\x1b")):
        np.savez(folder / f"{name}.npz", shape=np.array([shape, shape]), row=np.array(row),
                 col=np.array(col), format=np.array(form.encode()))


def cora_members(**changes):
    """Members of a cora-style archive; a change of None drops the member."""
    data = np.ones(5, "f4")
    data[4] = 2.5
    indptr = np.array([0, 1, 2, 3, 4, 5, 5], "i4")
    indices = np.array([1, 0, 2, 1, 0], "i4")
    attributes = scipy.sparse.csr_matrix(FEATURES)
    members = {
        "adj_data": data, "adj_indices": indices, "adj_indptr": indptr,
        "adj_shape": np.array([6, 6]),
        "attr_data": attributes.data, "attr_indices": attributes.indices,
        "attr_indptr": attributes.indptr, "attr_shape": np.array(attributes.shape),
        "labels": LABELS.astype("i1"),
    }
    members.update(changes)
    return {name: array for name, array in members.items() if array is not None}


def tolokers_members(**changes):
    members = {
        "node_features": FEATURES, "node_labels": LABELS, "edges": EDGES,
        "train_masks": MASKS["train"], "val_masks": MASKS["val"], "test_masks": MASKS["test"],
    }
    members.update(changes)
    return {name: array for name, array in members.items() if array is not None}


def npz(folder):
    np.savez(folder / "cora.npz", **cora_members())
    np.savez_compressed(folder / "cora_deflated.npz", **cora_members())
    np.savez(folder / "tolokers.npz", **tolokers_members())
    np.savez_compressed(folder / "tolokers_deflated.npz", **tolokers_members())
    dense = cora_members(attr_data=None, attr_indices=None, attr_indptr=None, attr_shape=None,
                         attr_matrix=np.asfortranarray(FEATURES.astype("f8")))
    np.savez(folder / "dense.npz", **dense)
    names = np.array(["a", "gr\u00fcn", "c", "never seen"])
    np.savez(folder / "extras.npz", **cora_members(
        class_names=names, train_masks=MASKS["train"], val_masks=MASKS["val"],
        test_masks=MASKS["test"]))
    np.savez(folder / "pickled_extra.npz", **cora_members(
        class_names=np.array([{"a": 1}], dtype=object),
        node_names=np.array([{"a": 1}], dtype=object)))
    np.savez(folder / "multilabel.npz", **cora_members(
        labels=MULTILABELS, train_masks=MASKS["train"][0], val_masks=MASKS["val"][0],
        test_masks=MASKS["test"][0]))
    shuffled = cora_members(attr_data=np.array([2, 1, 5, 1], "f4"),
                            attr_indices=np.array([2, 0, 1, 1]),
                            attr_indptr=np.array([0, 2, 4, 4, 4, 4, 4]))
    np.savez(folder / "unsorted.npz", **shuffled)


def npz_names(folder):
    """Archives with the names of PyTorch Geometric and DGL, and faulty ones."""
    masks = {f"{name}_mask": mask.T for name, mask in MASKS.items()}
    lists = {"train_idx": [0, 1], "valid_idx": [[2]], "test_idx": [3, 4, 5]}
    pyg = {"edge_index": EDGES.T, "x": FEATURES, "y": LABELS[:, None]}
    np.savez(folder / "pyg.npz", edge_attr=np.ones((6, 2)), **pyg, **masks)
    weights = np.array([2, 2, 2, 5, 0.5, 1])
    np.savez(folder / "weighted.npz", edge_weight=weights, **pyg, **masks)
    np.savez(folder / "ones.npz", edge_weight=np.ones((6, 1)), **pyg, **masks)
    np.savez(folder / "few_weights.npz", edge_weight=weights[:5], **pyg, **masks)
    np.savez(folder / "nan_weight.npz", edge_weight=[2, 2, 2, 5, np.nan, 1], **pyg, **masks)
    np.savez(folder / "tiny_weight.npz", edge_weight=[2, 1, 2, 1e-60, 0.5, 1], **pyg, **masks)
    np.savez(folder / "two_weights.npz", edge_weight=[2, 1, 2, 5, 0.5, 1], **pyg, **masks)
    np.savez(folder / "dgl.npz", edges=EDGES, feat=FEATURES, label=LABELS, **lists)
    np.savez(folder / "from_one.npz", **{**pyg, "edge_index": np.vstack([EDGES, [5, 5]]).T + 1})
    np.savez(folder / "two_edges.npz", **{**pyg, "edge_index": np.array([[0, 0], [1, 4]])})
    np.savez(folder / "both.npz", **pyg, **masks, **lists)
    np.savez(folder / "other_names.npz", nodes=FEATURES, target=LABELS, edge_index=EDGES.T)
    np.savez(folder / "no_y.npz", x=FEATURES, target=LABELS, edge_index=EDGES.T)
    np.savez(folder / "nan.npz", **{**pyg, "y": np.array([0, 1, np.nan, 1, 0, 1])})
    np.savez(folder / "short.npz", **{**pyg, "y": LABELS[:4]})
    source, target = EDGES.T
    np.savez(folder / "ends.npz", src=source, dst=target, feature=FEATURES, label=LABELS, **lists)
    np.savez(folder / "ends_short.npz", src=source, dst=target[1:], feat=FEATURES, label=LABELS)
    np.savez(folder / "one_end.npz", src=source, feat=FEATURES, label=LABELS)
    np.savez(folder / "transposed.npz", **{**pyg, "x": FEATURES.T})
    np.savez(folder / "few_rows.npz", **{**pyg, "x": FEATURES[:4]})
    np.savez(folder / "adjacency.npz", **cora_members(
        adj_shape=np.array([9, 9]), adj_indptr=np.array([0, 1, 2, 3, 4] + [5] * 5)))
    np.savez(folder / "one_test_mask.npz", **pyg, **{**masks, "test_mask": np.eye(6, dtype=bool)[4]})
    np.savez(folder / "bad_mask.npz", **pyg, **{**masks, "val_mask": np.zeros((6, 2), bool)})
    np.savez(folder / "one_mask.npz", **pyg, train_mask=masks["train_mask"])
    np.savez(folder / "unlabelled.npz", edge_index=EDGES.T, x=FEATURES, **masks)
    np.savez(folder / "lists_from_one.npz", **pyg, train_idx=[1, 2], val_idx=[3], test_idx=[5, 6])
    np.savez(folder / "lists_of_flags.npz", **pyg, train_idx=np.eye(6, dtype=bool)[0], val_idx=[1],
             test_idx=[2])
    np.savez(folder / "lists_of_numbers.npz", **pyg, train_idx=[3], val_idx=[0, 1, 0, 0, 0, 0],
             test_idx=[2])
    np.savez(folder / "lists_twice.npz", **pyg, train_idx=[3, 1, 3], val_idx=[0], test_idx=[2])
    np.savez(folder / "lists_beyond.npz", **pyg, train_idx=[1, 2], val_idx=[3], test_idx=[5, 7])


def npz_numbers(folder):
    nan, inf = float("nan"), float("inf")
    for name, labels in (("numbers", [0.5, -1, 2, 3, 4e9, nan]), ("whole", [3, 1, 2, 3, 0, -1]),
                         ("columns", [[0, 1]] * 6), ("infinite", [1, inf, 2, 3, 4, 5])):
        np.savez(folder / f"{name}.npz", **cora_members(labels=np.array(labels)))


def npz_bad(folder):
    def cora(name, **changes):
        np.savez(folder / f"{name}.npz", **cora_members(**changes))

    def tolokers(name, **changes):
        np.savez(folder / f"{name}.npz", **tolokers_members(**changes))

    cora("pickled_labels", labels=np.array([{"a": 1}] * 6, dtype=object))
    cora("no_labels", labels=None)
    cora("no_graph", adj_indptr=None)
    cora("no_features", attr_indptr=None)
    cora("no_shape", adj_shape=None)
    cora("not_square", adj_shape=np.array([6, 7]))
    cora("column", adj_indices=np.array([1, 0, 6, 1, 0]))
    cora("column_from_one", adj_indices=np.array([1, 2, 6, 1, 2]))
    cora("rows", attr_matrix=FEATURES[:5])
    cora("falls", adj_indptr=np.array([0, 3, 2, 3, 4, 5, 5]))
    cora("ends", adj_indptr=np.array([0, 1, 2, 3, 4, 4, 4]))
    cora("short_data", adj_data=np.ones(4, "f4"))
    cora("label_low", labels=np.array([0, 1, -2, 1, 0, -1]))
    cora("label_high", labels=np.array([0, 1, 70000, 1, 0, -1]))
    cora("label_none", labels=np.full(6, -1))
    cora("label_rows", labels=np.zeros(5, "i4"))
    cora("label_part", labels=np.array([[1, 0]] * 5 + [[-1, 0]]))
    cora("label_two", labels=np.array([[1, 0]] * 5 + [[2, 0]]))
    cora("label_axes", labels=np.zeros((6, 2, 2), "i4"))
    cora("label_float", labels=np.array([0, 1, 1.5, 1, 0, -1]))
    cora("few_names", class_names=np.array(["a", "b"]))
    values = cora_members()["attr_data"].copy()
    values[3] = np.nan
    cora("sparse_nan", attr_data=values)
    cora("huge", adj_shape=np.array([2**31, 2**31]))
    features = FEATURES.copy()
    features[4, 2] = np.inf
    features[5, 0] = np.nan
    tolokers("inf", node_features=features)
    tolokers("feature_axes", node_features=FEATURES.ravel())
    tolokers("feature_strings", node_features=np.array([["a"] * 3] * 6))
    tolokers("edge_range", edges=np.array([[0, 1], [2, 6]]))
    tolokers("edge_shape", edges=np.zeros((3, 3), "i8"))
    tolokers("overlap", val_masks=MASKS["train"])
    tolokers("empty", val_masks=np.zeros((2, 6), bool))
    tolokers("mask_list", train_masks=np.array([0, 2]))
    tolokers("mask_shape", val_masks=MASKS["val"][:, :5])
    tolokers("mask_splits", val_masks=MASKS["val"][[0, 1, 1]])
    tolokers("mask_value", val_masks=MASKS["val"] * 2)
    tolokers("mask_missing", val_masks=None)
    cora("twice")
    with zipfile.ZipFile(folder / "twice.npz", "a") as archive:
        archive.writestr("labels.npy", archive.read("labels.npy"))
    np.savez(folder / "no_nodes.npz", edges=np.zeros((0, 2), np.int64),
             node_features=np.zeros((0, 2), np.float32), node_labels=np.zeros(0, np.int64),
             train_masks=np.zeros(0, bool), val_masks=np.zeros(0, bool),
             test_masks=np.zeros(0, bool))
    only = np.zeros((2, 6), bool)
    only[:, 5] = True
    tolokers("mask_unlabelled", test_masks=only)


def sides(folder):
    """features.npy and labels.npy beside a graph."""
    folder.mkdir(exist_ok=True)
    np.save(folder / "features.npy", FEATURES)
    np.save(folder / "labels.npy", LABELS)
    return folder


def lines(edges, separator, base):
    return "".join(separator.join(str(x + base) for x in edge) + "\n" for edge in edges)


def edge_lists(folder):
    plain = sides(folder / "csv0")
    (plain / "edges.csv").write_text(lines(EDGES, ",", 0))
    for name, mask in MASKS.items():
        np.save(plain / f"{name}_mask.npy", mask)
    decorated = sides(folder / "tsv1")
    weighted = lines(EDGES, "\t", 1).replace("1\t2\n", "1\t2\t0.5\n")
    text = "# a comment\n\nsource\ttarget\tweight\n" + weighted.replace(
        "2\t1\n", "2\t1\t.5\n").replace("\n", "\r\n")
    (decorated / "edges.tsv").write_bytes(b"\xef\xbb\xbf" + text.rstrip().encode())
    for name, mask in MASKS.items():
        np.save(decorated / f"{name}_index.npy", np.flatnonzero(mask[0])[::-1])
    np.save(decorated / "class_names.npy", np.array(["a", "b", "c"]))


def market(folder):
    graph = scipy.sparse.coo_matrix((np.ones(6), (EDGES[:, 0], EDGES[:, 1])), shape=(6, 6))
    general = sides(folder / "general")
    scipy.io.mmwrite(general / "graph.mtx", graph)
    pattern = sides(folder / "pattern")
    scipy.io.mmwrite(pattern / "roads.mtx", graph, field="pattern")
    both = (graph + graph.T).tocsr()
    symmetric = sides(folder / "symmetric")
    scipy.io.mmwrite(symmetric / "graph.mtx", both, symmetry="symmetric")
    sparse = sides(folder / "sparse")
    scipy.io.mmwrite(sparse / "graph.mtx", both.astype("i4"), field="integer", symmetry="general")
    scipy.io.mmwrite(sparse / "features.mtx", scipy.sparse.csr_matrix(FEATURES))
    (sparse / "features.npy").unlink()
    dense = sides(folder / "dense")
    scipy.io.mmwrite(dense / "graph.mtx", graph)
    scipy.io.mmwrite(dense / "features.mtx", FEATURES)
    (dense / "features.npy").unlink()


if __name__ == "__main__":
    globals()[sys.argv[1]](pathlib.Path(sys.argv[2]))

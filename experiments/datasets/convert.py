#!/usr/bin/env python3
"""Converts a graph whose form needs a library of its own to the .npz that `heliograph` reads.

  convert.py data.pt --out graph.npz           PyTorch Geometric: a Data object, its dict, or the
                                               processed file of a data set of one graph (torch)
  convert.py graph.bin --out graph.npz         DGL: what dgl.save_graphs writes (dgl)
  convert.py FOLDER --out graph.npz            nodes.parquet and edges.parquet (pyarrow)
  convert.py FOLDER/ind.cora --out cora.npz    Planetoid: ind.cora.x, .tx, .allx, ... (scipy)

Then `heliograph train --data graph.npz --epochs 1`. Arrays keep their names; docs/data.md lists
those that are read.

Parquet: edges have the columns src and dst (or source and target) and perhaps edge_weight, weight
or w. Nodes may have id, to which edges refer (without it, edges refer to rows, from 0); label, numbers or names, null if
unlabelled; split with train, val and test, or train_mask, val_mask and test_mask; and features: a
column of lists x, or all other columns of numbers in their order.

A .pt file is a pickle, and a pickle can run any code when it is loaded. By default only tensors and
PyTorch Geometric's own classes are loaded from it; --trust loads whatever is in it: use it only for
files that you would run as a program. Of Planetoid's pickles only matrices, arrays and lists are
read, whatever else they hold.
"""

import argparse
import codecs
import collections
import copyreg
import importlib
import os
import pickle
import re
import sys

try:
    import numpy as np
except ImportError:
    sys.exit("convert.py: NumPy is missing for this Python: install python3-numpy and run it with "
             "/usr/bin/python3")

WEIGHTS = ("edge_weight", "weight", "w")
SPLITS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}


def library(name, what):
    """The module of this name; exits with a message that says what it is needed for."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        sys.exit(f"convert.py: {what} need the package {name.split('.')[0]}: {error.name or error} "
                 f"is not installed for {sys.executable}")


def one_of(names, table, what):
    """The value of the first of `names` that `table` has; exits if it has none."""
    for name in names:
        if name in table:
            return table[name]
    sys.exit(f"convert.py: {what} lack {' or '.join(names)}; they have {', '.join(table)}")


def numbers(values):
    """Tensors of a dict as arrays under the same names."""
    is_tensor = library("torch", "tensors").is_tensor
    return {name: value.detach().cpu().numpy() for name, value in values.items()
            if is_tensor(value) and not value.is_sparse}


def load_pt(path, trust):
    """What torch.load reads of a .pt file; exits if that is more than tensors and PyG's classes."""
    torch = library("torch", "files of PyTorch")
    safe = []
    try:
        geometric = importlib.import_module("torch_geometric.data")
    except ImportError:
        pass
    else:
        for place, names in (("data", ("Data", "DataEdgeAttr", "DataTensorAttr")),
                             ("storage", ("BaseStorage", "NodeStorage", "EdgeStorage",
                                          "GlobalStorage"))):
            module = importlib.import_module(f"{geometric.__name__}.{place}")
            safe += [getattr(module, name) for name in names if hasattr(module, name)]
    if hasattr(torch.serialization, "add_safe_globals"):
        torch.serialization.add_safe_globals(safe)
    try:
        return torch.load(path, map_location="cpu", weights_only=not trust)
    except pickle.UnpicklingError as error:
        other = re.search(r"GLOBAL (\S+)", str(error))
        sys.exit(f"convert.py: {path} holds {other[1] if other else 'something'} beside tensors "
                 "and PyTorch Geometric's classes. Loading it can run any code: --trust does it")
    except ModuleNotFoundError as error:
        sys.exit(f"convert.py: {path} holds objects of {error.name}, which is not installed for "
                 f"{sys.executable}")
    except (RuntimeError, EOFError, OSError) as error:
        sys.exit(f"convert.py: {path} cannot be read: {str(error).splitlines()[0]}")


def from_pyg(path, trust):
    """A Data object, its dict, or (data, slices, ...) of an InMemoryDataset."""
    data = load_pt(path, trust)
    if isinstance(data, (tuple, list)) and data:
        slices = data[1] if len(data) > 1 else None
        if isinstance(slices, dict) and any(len(ends) > 2 for ends in slices.values()):
            sys.exit(f"convert.py: {path} holds several graphs; one graph is converted")
        data = data[0]
    if hasattr(data, "to_dict"):
        data = data.to_dict()
    if not isinstance(data, dict):
        sys.exit(f"convert.py: {path} holds a {type(data).__name__}, no Data of one graph")
    data = {name: value for name, value in data.items() if value is not None}
    if "adj_t" in data and "edge_index" not in data:
        sys.exit(f"convert.py: {path} has adj_t in place of edge_index: save it without "
                 "ToSparseTensor")
    arrays = numbers(data)
    one_of(("edge_index",), arrays, f"the tensors of {path}")
    return arrays


def from_dgl(path, _):
    """One graph with one type of nodes and edges."""
    dgl = library("dgl", "files of DGL")
    graphs, labels = dgl.load_graphs(path)
    if len(graphs) != 1:
        sys.exit(f"convert.py: {path} holds {len(graphs)} graphs; one graph is converted")
    graph = graphs[0]
    if len(graph.ntypes) != 1 or len(graph.etypes) != 1:
        sys.exit(f"convert.py: {path} has several types of nodes or edges; one of each is "
                 "converted")
    arrays = numbers({**labels, **graph.ndata})
    arrays["src"], arrays["dst"] = (ends.numpy() for ends in graph.edges())
    weights = [name for name in WEIGHTS if name in graph.edata]
    if weights:
        arrays["edge_weight"] = graph.edata[weights[0]].numpy()
    return arrays


def width_of(what, rows, may_lack=False):
    """The length of all lists; exits if they differ or lack a value, or one is None unless `may_lack`."""
    width = len(next((row for row in rows if row is not None), ()))
    for i, row in enumerate(rows):
        if not may_lack if row is None else len(row) != width or None in row:
            sys.exit(f"convert.py: the {what}: row {i} is not a list of {width} numbers")
    return width


def classes(values):
    """Class ids and names, numbers, or rows of 0 and 1; None and NaN are unlabelled. Whole numbers are
    ids already."""
    known = [value for value in values if value is not None and value == value]
    if known and isinstance(known[0], list):
        width = width_of("labels", values, may_lack=True)
        return np.array([[-1] * width if row is None else row for row in values]), None
    if not any(isinstance(value, str) for value in known):
        return np.array([np.nan if v is None else v for v in values]), None
    names = sorted(set(map(str, known)))
    ids = {name: i for i, name in enumerate(names)}
    return np.array([ids.get(str(value), -1) for value in values]), np.array(names)


def alike(ids, ends):
    """Ids of nodes and ends of edges as arrays of one type; NumPy compares int64 and uint64 as floats.
    Exits if they are of several types."""
    def kind(array):
        known = {"i": "integers", "u": "integers", "f": "decimals", "U": "text"}
        if array.dtype.kind != "O":
            return known.get(array.dtype.kind, f"values of the type {array.dtype.name}")
        return "text" if isinstance(array[0], str) else f"values of the type {type(array[0]).__name__}"

    kinds = {kind(array) for array in (ids, *ends) if len(array)}
    if len(kinds) > 1:
        sys.exit("convert.py: the ids of nodes and the ends of edges are not of one type, but "
                 f"{' and '.join(sorted(kinds))}")
    if not kinds <= {"integers", "decimals", "text"}:
        sys.exit(f"convert.py: the ids of nodes are {kinds.pop()}, neither numbers nor text")
    if kinds != {"integers"}:
        return ids, ends
    negative = any(array.min(initial=0) < 0 for array in (ids, *ends))
    if negative and any(int(array.max(initial=0)) >= 2**63 for array in (ids, *ends)):
        sys.exit("convert.py: some ids are below 0 and some do not fit in 64 bits with a sign")
    dtype = np.int64 if negative else np.uint64
    return ids.astype(dtype), [end.astype(dtype) for end in ends]


def without_doubles(names, table, what):
    """Those of `names` that `table` has, at most one; exits if they are more."""
    found = [name for name in names if name in table]
    if len(found) > 1:
        sys.exit(f"convert.py: the {what} have both columns {found[0]} and {found[1]}: leave one out")
    return found


def feature_rows(name, column):
    """A column of lists of numbers as rows; None if it holds no lists."""
    import pyarrow
    of = pyarrow.types
    if not any(test(column.type) for test in (of.is_list, of.is_large_list, of.is_fixed_size_list)):
        return None
    values = column.type.value_type
    if not (of.is_integer(values) or of.is_floating(values) or of.is_boolean(values)):
        sys.exit(f"convert.py: the column {name} has lists of {values}, not of numbers")
    rows = column.to_pylist()
    width_of(f"column {name}", rows)
    return np.array(rows, np.float32)


def from_parquet(folder, _):
    parquet = library("pyarrow.parquet", "Parquet files")

    def path_of(name):
        return os.path.join(folder, f"{name}.parquet")

    def read(name):
        path = path_of(name)
        if not os.path.exists(path):
            sys.exit(f"convert.py: {path} does not exist")
        try:
            table = parquet.read_table(path)
        except (OSError, ValueError) as error:
            sys.exit(f"convert.py: {path}: {error}")
        return {name: table[name] for name in table.column_names}

    nodes, edges = read("nodes"), read("edges")
    if not nodes or not len(next(iter(nodes.values()))):
        sys.exit(f"convert.py: {path_of('nodes')} has no rows")
    ends = []
    for names in (("src", "source"), ("dst", "target")):
        without_doubles(names, edges, "edges")
        ends.append(one_of(names, edges, "the edges"))
    weights = without_doubles(WEIGHTS, edges, "edges")
    masks = [name for name in nodes if name.endswith("_mask")]
    used = [name for name in ("src", "source", "dst", "target", *weights) if name in edges]
    for table, names in ((nodes, ["id", *masks]), (edges, used)):
        for name in names:
            if name in table and table[name].null_count:
                row = table[name].to_pylist().index(None)
                sys.exit(f"convert.py: the column {name} has no value in row {row}")
    ends = [end.to_numpy() for end in ends]
    arrays = {}
    has_ids = "id" in nodes
    ids, ends = alike(nodes.pop("id").to_numpy() if has_ids else ends[0], ends)
    if has_ids:
        order = np.argsort(ids)
        if (ids[order[1:]] == ids[order[:-1]]).any():
            sys.exit("convert.py: two nodes have the same id")
        for i, end in enumerate(ends):
            place = np.minimum(np.searchsorted(ids, end, sorter=order), len(ids) - 1)
            unknown = np.flatnonzero(ids[order[place]] != end)
            if len(unknown):
                sys.exit(f"convert.py: edge {unknown[0]} ends at {end[unknown[0]]!r}, which is no "
                         "id of a node")
            ends[i] = order[place]
    arrays["edge_index"] = np.stack(ends)
    for name in weights:
        arrays["edge_weight"] = edges[name].to_numpy()
    for name in without_doubles(("label", "y"), nodes, "nodes"):
        arrays["y"], names = classes(nodes.pop(name).to_pylist())
        if names is not None:
            arrays["class_names"] = names
    if "split" in nodes:
        if masks:
            sys.exit(f"convert.py: the nodes have both columns split and {masks[0]}: leave one out")
        words = nodes.pop("split").to_pylist()
        unknown = {str(word) for word in words if word and str(word).lower() not in SPLITS}
        if unknown:
            sys.exit(f"convert.py: the column split has {min(unknown)!r}, which is none of "
                     f"{', '.join(SPLITS)}")
        roles = [SPLITS.get(str(word).lower()) for word in words]
        for role in ("train", "val", "test"):
            arrays[f"{role}_mask"] = np.array([r == role for r in roles])
    for name in masks:
        arrays[name] = nodes.pop(name).to_numpy()
    for name in ("x", "feat", "features"):
        if name in nodes and "x" not in arrays:
            rows = feature_rows(name, nodes[name])
            if rows is not None:
                arrays["x"] = rows
                del nodes[name]
    if "x" not in arrays:
        columns = {name: column.to_numpy() for name, column in nodes.items()}
        features = [name for name, column in columns.items() if column.dtype.kind in "biuf"]
        if not features:
            sys.exit("convert.py: the nodes have no features: no column x, and none of numbers")
        arrays["x"] = np.stack([columns[name] for name in features], 1).astype(np.float32)
        nodes = {name: None for name in nodes if name not in features}
    for what, names in (("nodes", nodes), ("edges", [name for name in edges if name not in used])):
        if names:
            print(f"columns of {what} that are not used: {', '.join(names)}", file=sys.stderr)
    return arrays


class Matrices(pickle.Unpickler):
    """Unpickles only arrays, CSR matrices and lists by node, under all names that they have had."""

    def find_class(self, module, name):
        sparse = library("scipy.sparse", "the files of Planetoid")
        core = importlib.import_module(np.ndarray.__reduce__(np.zeros(1))[0].__module__)
        known = {"csr_matrix": sparse.csr_matrix, "ndarray": np.ndarray, "dtype": np.dtype,
                 "_reconstruct": core._reconstruct, "defaultdict": collections.defaultdict,
                 "list": list, "object": object, "encode": codecs.encode,
                 "_reconstructor": copyreg._reconstructor}
        places = ("numpy", "scipy.sparse", "collections", "builtins", "__builtin__", "_codecs",
                  "copyreg", "copy_reg")
        if name in known and any(module == p or module.startswith(f"{p}.") for p in places):
            return known[name]
        raise pickle.UnpicklingError(f"it holds a {module}.{name}, which is no matrix")


def from_planetoid(prefix, _):
    """The files PREFIX.x, .tx, .allx, .y, .ty, .ally, .graph and .test.index, split as usual."""
    sparse = library("scipy.sparse", "the files of Planetoid")

    def read(part):
        path = f"{prefix}.{part}"
        try:
            with open(path, "rb") as file:
                return Matrices(file, encoding="latin1").load()
        except (OSError, pickle.UnpicklingError, EOFError) as error:
            sys.exit(f"convert.py: {path}: {getattr(error, 'strerror', None) or error}")

    parts = {part: read(part) for part in ("x", "tx", "allx", "y", "ty", "ally", "graph")}
    for part, value in parts.items():
        if not (isinstance(value, dict) if part == "graph" else len(getattr(value, "shape", ())) == 2):
            sys.exit(f"convert.py: {prefix}.{part} holds a {type(value).__name__}, no "
                     f"{'dict of neighbours' if part == 'graph' else 'matrix'}")
    x, tx, allx, y, ty, ally, graph = parts.values()
    try:
        test = np.loadtxt(f"{prefix}.test.index", dtype=np.int64, ndmin=1)
    except (OSError, ValueError) as error:
        sys.exit(f"convert.py: {prefix}.test.index: {error}")
    first, count = len(ally), len(test)
    if count == 0 or test.min() < first or len(set(test)) != count or tx.shape[0] != count or len(ty) != count:
        sys.exit(f"convert.py: {prefix}.test.index does not fit {prefix}.tx, .ty and .ally")
    # Rows of tx are in the order of the file. Citeseer lacks some numbers: isolated nodes without
    # features and label.
    nodes = max(int(test.max()) + 1, first + count)
    place = sparse.csr_matrix((np.ones(count, tx.dtype), (test - first, np.arange(count))),
                              shape=(nodes - first, count))
    features = sparse.vstack([sparse.csr_matrix(allx), place @ sparse.csr_matrix(tx)]).tocsr()
    one_hot = np.zeros((nodes, ally.shape[1]))
    one_hot[:first], one_hot[test] = ally, ty
    masks = np.zeros((3, nodes), bool)
    masks[0, :len(y)] = masks[2, test] = True
    masks[1, len(y):min(len(y) + 500, first)] = True
    edges = np.array([(u, v) for u, neighbours in graph.items() for v in neighbours], np.int64)
    return {"edge_index": edges.reshape(-1, 2).T,
            "attr_data": features.data.astype(np.float32), "attr_indices": features.indices,
            "attr_indptr": features.indptr, "attr_shape": np.array(features.shape),
            "y": np.where(one_hot.any(1), one_hot.argmax(1), -1),
            **{f"{name}_mask": mask for name, mask in zip(("train", "val", "test"), masks)}}


def reader_of(path):
    """The function that reads `path`; exits if it is of no known form."""
    if os.path.isdir(path):
        if os.path.exists(os.path.join(path, "nodes.parquet")):
            return from_parquet, path
        graphs = [name for name in sorted(os.listdir(path)) if name.startswith("ind.")
                  and name.endswith(".graph")]
        if len(graphs) == 1:
            return from_planetoid, os.path.join(path, graphs[0][:-len(".graph")])
        sys.exit(f"convert.py: {path} has neither nodes.parquet and edges.parquet nor the files "
                 "ind.* of one graph")
    if os.path.exists(f"{path}.graph"):
        return from_planetoid, path
    if not os.path.exists(path):
        sys.exit(f"convert.py: {path} does not exist")
    forms = {".pt": from_pyg, ".pth": from_pyg, ".bin": from_dgl, ".dgl": from_dgl}
    extension = os.path.splitext(path)[1]
    if extension not in forms:
        sys.exit(f"convert.py: {path} is none of {', '.join(forms)}, a folder with nodes.parquet, "
                 "or a prefix ind.NAME")
    return forms[extension], path


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", help="a .pt or .bin file, a folder, or a prefix such as ind.cora")
    parser.add_argument("--out", required=True, help="the .npz to write")
    parser.add_argument("--overwrite", action="store_true", help="replace --out if it exists")
    parser.add_argument("--trust", action="store_true",
                        help="load any pickle in a .pt file, which can run code")
    options = parser.parse_args()
    if not options.out.endswith(".npz"):
        parser.error(f"--out {options.out} is no .npz")
    if os.path.exists(options.out) and not options.overwrite:
        parser.error(f"--out {options.out} exists; choose another name or add --overwrite")
    if os.path.exists(options.out) and not os.path.isfile(options.out):
        parser.error(f"--out {options.out} is no file: it is not replaced")
    read, path = reader_of(options.input)
    arrays = read(path, options.trust)
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    odd = [name for name, array in arrays.items() if array.dtype.kind not in "biufU"]
    if odd:
        sys.exit(f"convert.py: {odd[0]} holds {arrays[odd[0]].dtype} values, not numbers")
    partial = f"{options.out}.partial-{os.getpid()}.npz"
    try:
        np.savez(partial, **arrays)
        os.replace(partial, options.out)
    except OSError as error:
        sys.exit(f"convert.py: {options.out} cannot be written: {error.strerror}")
    finally:
        if os.path.exists(partial):
            os.remove(partial)
    print("\n".join(f"  {name:14} {array.dtype} {array.shape}" for name, array in arrays.items()))


if __name__ == "__main__":
    main()

"""Reads a native graph directory, or the shard of one rank (docs/formats.md), into NumPy arrays."""

import json
import os
from dataclasses import dataclass

import numpy as np

TRAINING, VALIDATION, TEST = 1, 2, 3  # roles of nodes


class Unsupported(Exception):
    """A graph that the comparison cannot train on; the text says why."""


@dataclass
class NativeGraph:
    offsets: np.ndarray     # int64, nodes + 1
    neighbours: np.ndarray  # int32; row v is neighbours[offsets[v]:offsets[v + 1]], ascending
    features: np.ndarray    # float32, nodes x columns
    class_of: np.ndarray    # int32, nodes; -1 is unlabelled
    role: np.ndarray        # uint8, nodes; of a directory, those of its first split
    classes: int
    weights: np.ndarray = None  # float32, of the edge of each neighbour; None if all are 1

    @property
    def nodes(self):
        return len(self.offsets) - 1

    @property
    def training(self):
        return (self.role == TRAINING) & (self.class_of >= 0)

    @property
    def degrees(self):
        return np.diff(self.offsets)


def read_native(folder, weighted=False):
    """Reads the graph of `folder`. Raises Unsupported unless it is undirected, with dense features
    and one class a node, and without weights of edges unless `weighted`."""
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    if manifest["format"] != "heliograph-graph" or manifest["version"] not in (1, 2):
        raise Unsupported(f"{folder} is not a native graph directory of version 1 or 2")
    if manifest["directed"] or manifest["features"]["sparse"] or (
            manifest["labels"]["task"] != "multiclass"):
        raise Unsupported(f"{folder}: only undirected graphs with dense features and one class a "
                          "node are compared")
    listed = {array["name"]: array for array in manifest["arrays"]}

    def array(name):
        entry = listed[name]
        values = np.fromfile(os.path.join(folder, entry["file"]), entry["dtype"])
        if len(values) != entry["count"]:
            raise Unsupported(f"{folder}: {entry['file']} holds {len(values)} values, not "
                              f"{entry['count']}")
        return values

    if "edge_weights" in listed and not weighted:
        raise Unsupported(f"{folder}: edges have weights, which are compared only with PyG's sums "
                          "over an edge_index")
    return NativeGraph(offsets=array("offsets"), neighbours=array("neighbours"),
                       features=array("features").reshape(manifest["nodes"], -1),
                       class_of=array("class_of"), classes=manifest["labels"]["classes"],
                       role=array("role_0"),
                       weights=array("edge_weights") if "edge_weights" in listed else None)


def read_shard(folder):
    """Reads the shard that `partition --parts 1` wrote: with the split, and the normalised features,
    of a run with the same options. Raises Unsupported unless the graph is undirected, without weights
    of edges and with one class a node."""
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    if (manifest["format"], manifest["version"]) != ("heliograph-shards", 4):
        raise Unsupported(f"{folder} holds no shards of version 4")
    if (manifest["directed"] or "edge_weights" in manifest or
            manifest["labels"]["task"] != "multiclass"):
        raise Unsupported(f"{folder}: only undirected graphs without weights of edges and with one "
                          "class a node are compared")
    if len(manifest["ranks"]) != 1:
        raise Unsupported(f"{folder} has {len(manifest['ranks'])} shards, not one")
    entry = manifest["ranks"][0]
    arrays = {}
    with open(os.path.join(folder, entry["file"]), "rb") as file:
        file.seek(24)
        for listed in entry["arrays"]:
            arrays[listed["name"]] = np.fromfile(file, listed["dtype"], listed["count"])
    nodes = manifest["nodes"]
    if manifest["features"]["sparse"]:
        features = np.zeros((nodes, manifest["features"]["cols"]), np.float32)
        rows = np.repeat(np.arange(nodes), np.diff(arrays["feature_offsets"]))
        features[rows, arrays["feature_columns"]] = arrays["feature_values"]
    else:
        features = arrays["features"].reshape(nodes, -1)
    return NativeGraph(offsets=arrays["in_inner_offsets"], neighbours=arrays["in_inner_columns"],
                       features=features, class_of=arrays["class_of"],
                       classes=manifest["labels"]["classes"], role=arrays["role"])

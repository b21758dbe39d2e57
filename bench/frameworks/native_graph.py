"""Reads a native graph directory (docs/formats.md) into NumPy arrays."""

import json
import os
from dataclasses import dataclass

import numpy as np

TRAINING = 1  # the role of a training node


class Unsupported(Exception):
    """A graph that the comparison cannot train on; the text says why."""


@dataclass
class NativeGraph:
    offsets: np.ndarray     # int64, nodes + 1
    neighbours: np.ndarray  # int32; row v is neighbours[offsets[v]:offsets[v + 1]], ascending
    features: np.ndarray    # float32, nodes x columns
    class_of: np.ndarray    # int32, nodes; -1 is unlabelled
    training: np.ndarray    # bool, nodes; training nodes of the first split
    classes: int

    @property
    def nodes(self):
        return len(self.offsets) - 1

    @property
    def degrees(self):
        return np.diff(self.offsets)


def read_native(folder):
    """Reads the graph of `folder`. Raises Unsupported unless it is undirected, with dense features
    and one class a node."""
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    if (manifest["format"], manifest["version"]) != ("heliograph-graph", 1):
        raise Unsupported(f"{folder} is not a native graph directory of version 1")
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

    class_of = array("class_of")
    return NativeGraph(offsets=array("offsets"), neighbours=array("neighbours"),
                       features=array("features").reshape(manifest["nodes"], -1),
                       class_of=class_of, classes=manifest["labels"]["classes"],
                       training=(array("role_0") == TRAINING) & (class_of >= 0))

#!/usr/bin/env python3
"""Trains a recipe in PyG or DGL for train.py. Usage: torch_side.py JOB.json RESULT.json

The job holds `framework` (pyg or dgl), `train` (flags of the command), `seed`, `shard` (the graph with
split and normalised features), `weights`, a file of the engine that describes the model, and `same_start`:
whether training begins with its values. The result holds the job, the best epoch by validation score, and
its validation and test scores.
"""

import importlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
EXPERIMENTS = os.path.dirname(HERE)
sys.path[:0] = [EXPERIMENTS, os.path.join(os.path.dirname(EXPERIMENTS), "bench", "frameworks")]

import numpy as np
import torch
from torch.nn import functional

from json_file import read_json, write_json
from native_graph import TEST, VALIDATION, read_shard
from run_files import read_weights
from torch_model import Network, Weights
from torch_training import make_optimizer, targets

# Flags of training that this script follows, with the command's defaults.
FOLLOWED = {"epochs": 200, "lr": 0.01, "weight-decay": 0, "eval-every": 1, "metric": "auto"}
# Flags that the model's options or the shard hold, or that mean nothing there.
ELSEWHERE = {"model", "layers", "hidden", "dropout", "input-dropout", "norm", "activation", "residual",
             "pre-norm", "input-linear", "output-linear", "jk", "feed-forward", "hops", "teleport",
             "eps-learned", "theta", "alpha", "heads", "normalize", "parts", "precompute"}
VARIANTS = {"pyg": "csr-int64", "dgl": "int32"}


def area_under_curve(scores, positive):
    """Area under the ROC curve; equal scores count half."""
    _, place, count = np.unique(scores, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]  # of equal scores: their mean
    positives = int(positive.sum())
    below = rank[positive].sum() - positives * (positives + 1) / 2
    return float(below / (positives * (len(scores) - positives)))


def make_score(metric, classes):
    """A function of logits and classes of some nodes."""
    if metric == "auto":
        metric = "auc" if classes == 2 else "accuracy"
    if metric == "accuracy":
        return lambda logits, wanted: float((logits.argmax(1) == wanted).mean())
    if metric == "auc":
        return lambda logits, wanted: area_under_curve(logits[:, 1] - logits[:, 0], wanted == 1)
    raise ValueError(f"this script has no metric {metric}")


def train(job):
    unknown = sorted(set(job["train"]) - set(FOLLOWED) - ELSEWHERE)
    if unknown:
        raise ValueError(f"this script does not follow --{unknown[0]}")
    flags = FOLLOWED | {name: type(FOLLOWED[name])(value) if name != "lr" and name != "weight-decay"
                        else float(value) for name, value in job["train"].items() if name in FOLLOWED}
    torch.manual_seed(job["seed"])
    graph = read_shard(job["shard"])
    features, target = torch.from_numpy(graph.features), targets(graph, "cpu")
    options, tensors = read_weights(job["weights"])
    name = job["framework"]
    framework = importlib.import_module(f"with_{name}").Framework(graph, VARIANTS[name])
    network = Network(options, Weights(tensors, copy=job["same_start"]), framework, features)
    optimizer = make_optimizer(network, flags["lr"], flags["weight-decay"])
    score = make_score(flags["metric"], graph.classes)
    sets = [np.flatnonzero(graph.role == role) for role in (VALIDATION, TEST)]
    best = {"val": -np.inf}
    for epoch in range(flags["epochs"]):
        network.train()
        optimizer.zero_grad(set_to_none=True)
        functional.cross_entropy(network(features), target).backward()
        optimizer.step()
        if (epoch + 1) % flags["eval-every"] == 0 or epoch + 1 == flags["epochs"]:
            network.eval()
            with torch.no_grad():
                logits = network(features).numpy()
            val, test = (score(logits[rows], graph.class_of[rows]) for rows in sets)
            if val > best["val"]:
                best = {"epoch": epoch, "val": val, "test": test}
    return best


def main():
    job = read_json(sys.argv[1])
    kept = {name: job[name] for name in ("framework", "train", "seed", "split", "same_start")}
    write_json(sys.argv[2], {"job": kept, **train(job)})


if __name__ == "__main__":
    main()

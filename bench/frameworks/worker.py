#!/usr/bin/env python3
"""Trains once in one framework. Usage: worker.py JOB.json RESULT.json

The job holds framework (pytorch, pyg, dgl), variant, data, model, layers, hidden, norm, precompute,
seed, lr, weight_decay, epochs and threads. The result holds losses and seconds of each epoch,
loaded_bytes (the process with its modules loaded), training_bytes (peak of training) and versions.
"""

import importlib
import json
import sys


def memory(field):
    """Returns a field of /proc/self/status in bytes."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field + ":"))


def reset_peak():
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def blas_library():
    """Names of the system's BLAS libraries in this process, or None, as wheels bundle their own."""
    with open("/proc/self/maps", encoding="utf-8") as file:
        mapped = {line.split()[-1] for line in file if "blas" in line and "python" not in line}
    names = sorted(path.split("/")[-1] for path in mapped)
    return ", ".join(names) or None


def run(job):
    import torch
    torch.set_num_threads(job["threads"])
    framework = importlib.import_module("with_" + job["framework"])
    loaded = memory("VmRSS")

    from initial_weights import initial_weights, layer_widths
    from native_graph import read_native
    from torch_model import Network, train
    graph = read_native(job["data"])
    features = torch.from_numpy(graph.features)
    widths = layer_widths(job["layers"], graph.features.shape[1], job["hidden"], graph.classes)
    weights = initial_weights(job["seed"], job["model"], job["norm"], widths)
    layers = framework.convolutions(graph, features, weights, job)
    network = Network(layers, widths, job["norm"])
    graph.offsets = graph.neighbours = None  # the framework has its own copies
    reset_peak()
    losses, seconds = train(network, graph, features, job)
    return {"losses": losses, "seconds": seconds, "loaded_bytes": loaded,
            "training_bytes": memory("VmHWM"),
            "versions": framework.versions() | {"blas": blas_library()}}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)
    result = run(job)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()

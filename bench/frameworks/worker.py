#!/usr/bin/env python3
"""One training in one framework, in a process of its own: worker.py JOB.json RESULT.json.

The job: framework (pytorch, pyg, dgl), variant, data, model, layers, hidden, norm, precompute, seed,
lr, weight_decay, epochs, threads. The result: losses, seconds (both an epoch), bytes (of the
process once its modules are loaded, and the peak of training alone), versions.
"""

import importlib
import json
import sys


def memory(field):
    """A field of /proc/self/status, in bytes."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field + ":"))


def reset_peak():
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def blas_library():
    """The system's BLAS that this process has mapped, or None: wheels bring one of their own."""
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
    graph.offsets = graph.neighbours = None  # What the framework needs of them, it holds.
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

#!/usr/bin/env python3
"""Runs one job in one framework. Usage: worker.py JOB.json RESULT.json

The job holds framework (pytorch, pyg, dgl), variant, data, weights (a file of the engine, which also
describes the model) and threads. To train it has precompute, lr, weight_decay and epochs; the result
holds losses and seconds of each epoch, loaded_bytes (the process with its modules loaded),
training_bytes (peak of training) and versions. With `numbers` instead, the name of an .npz archive
to write, it computes one step: the logits of evaluation, and loss and gradients of training.
"""

import importlib
import json
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "experiments"))


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


def compute_numbers(torch, network, weights, graph, features, path):
    """Writes `logits`, `loss` and a gradient for each parameter, `gradient.NAME`."""
    import numpy as np
    from torch_training import targets
    network.eval()
    with torch.no_grad():
        logits = network(features).numpy()
    network.train()
    loss = torch.nn.functional.cross_entropy(network(features), targets(graph, features.device))
    loss.backward()
    np.savez(path, logits=logits, loss=loss.item(),
             **{"gradient." + name: value for name, value in weights.gradients().items()})


def run(job):
    import torch
    torch.set_num_threads(job["threads"])
    framework = importlib.import_module("with_" + job["framework"])
    loaded = memory("VmRSS")

    from native_graph import read_native
    from run_files import read_weights
    from torch_model import Network, Weights
    from torch_training import train
    graph = read_native(job["data"], job["framework"] == "pyg" and "gather" in job["variant"])
    features = torch.from_numpy(graph.features)
    options, tensors = read_weights(job["weights"])
    weights = Weights(tensors)
    network = Network(options, weights, framework.Framework(graph, job["variant"]), features,
                      job.get("precompute", False))
    versions = framework.versions() | {"blas": blas_library()}
    if "numbers" in job:
        compute_numbers(torch, network, weights, graph, features, job["numbers"])
        return {"versions": versions}
    graph.offsets = graph.neighbours = None  # the framework has its own copies
    reset_peak()
    losses, seconds = train(network, graph, features, job)
    return {"losses": losses, "seconds": seconds, "loaded_bytes": loaded,
            "training_bytes": memory("VmHWM"), "versions": versions}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)
    result = run(job)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()

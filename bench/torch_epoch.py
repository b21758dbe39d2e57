#!/usr/bin/env python3
"""Trains the model of compare_frameworks.py in PyTorch, and in PyG if it is installed, on one
native graph on a CUDA device, and writes losses, seconds an epoch and peak device memory as JSON.
Tries the variants of a framework in turn; the file lists each from its start, and the reason if it
fails. An epoch includes the wait for the device, since its loss is read.

Usage: torch_epoch.py --data GRAPH --json FILE [--model gcn|sage] [--layers N] [--hidden N]
                      [--epochs N] [--device cuda|cpu]
"""

import argparse
import functools
import gc
import importlib
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "frameworks"), os.path.join(os.path.dirname(HERE), "experiments")]
from json_file import write_json

WARMUP = 3  # first epochs that are not timed, as in scripts/gpu_check/epochs.py
SEED = 1


def sparse_layers(torch, graph, features, weights, job):
    """Convolutions over a sparse CSR matrix on the device."""
    from torch_aggregation import make_csr
    from torch_model import Dense
    from with_pytorch import Convolution
    index = getattr(torch, job["variant"].split("-")[1])
    device = features.device
    forward = make_csr(graph, job["model"], index).to(device)
    backward = forward if job["model"] == "gcn" else make_csr(graph, job["model"], index,
                                                              transposed=True).to(device)
    products = (lambda x: forward @ x, lambda x: backward @ x)
    layers = [Convolution(layer, products) for layer in weights]
    layers[0] = Dense(weights[0], products[0](features))
    return layers


def pyg_layers(torch, graph, features, weights, job):
    """PyG's layers over a sparse CSR matrix or an edge_index; the latter writes a row an edge."""
    from torch_aggregation import make_csr
    from torch_model import Dense
    from with_pyg import Convolution, make_edges, make_layer
    kind = job["variant"].split("-")[0]
    matrix = make_csr(graph, job["model"], torch.int64)
    aggregated = matrix.to(features.device) @ features
    adjacency = make_edges(matrix, job["model"]) if kind == "gather" else (matrix,)
    adjacency = tuple(part.to(features.device) for part in adjacency)
    layers = [Convolution(make_layer(layer, kind, job["model"]), adjacency) for layer in weights]
    layers[0] = Dense(weights[0], aggregated)
    return layers


FRAMEWORKS = {
    "pytorch": (sparse_layers, ["csr-int32", "csr-int64"]),
    "pyg": (pyg_layers, ["csr-int64", "gather-int64"]),
}


@functools.cache
def read_graph(folder):
    """Reads a graph once for all variants, since a large one takes long."""
    from native_graph import read_native
    return read_native(folder)


def train_once(torch, make_layers, job):
    from initial_weights import initial_weights, layer_widths
    from torch_model import Network, train
    graph = read_graph(job["data"])
    device = torch.device(job["device"])
    features = torch.from_numpy(graph.features).to(device)
    widths = layer_widths(job["layers"], graph.features.shape[1], job["hidden"], graph.classes)
    weights = initial_weights(SEED, job["model"], "layer", widths)
    with torch.no_grad():
        layers = make_layers(torch, graph, features, weights, job)
    network = Network(layers, widths, "layer").to(device)
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    losses, seconds = train(network, graph, features, job)
    peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else None
    return {"losses": losses, "seconds": seconds, "median": statistics.median(seconds[WARMUP:]),
            "device_bytes": peak}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--json", required=True)
    parser.add_argument("--model", default="sage", choices=["gcn", "sage"])
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=13)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    options = parser.parse_args()
    if options.epochs <= WARMUP:
        parser.error(f"--epochs must be more than {WARMUP}, the epochs that are not timed")
    try:
        import torch
    except ImportError as error:
        sys.exit(f"torch_epoch.py: {error}")
    if options.device == "cuda" and not torch.cuda.is_available():
        print("no CUDA device that PyTorch can use", file=sys.stderr)
        return 3

    torch.set_float32_matmul_precision("highest")  # some containers set TF32
    job = {name: getattr(options, name) for name in ("data", "model", "layers", "hidden", "epochs",
                                                     "device")}
    job |= {"lr": 0.01, "weight_decay": 0.0, "precompute": True}
    results = []
    for framework, (make_layers, variants) in FRAMEWORKS.items():
        module = {"pytorch": "torch", "pyg": "torch_geometric"}[framework]
        for variant in variants:
            result = {"framework": framework, "variant": variant,
                      "data": os.path.basename(os.path.normpath(options.data)), "error": "cut off"}
            results.append(result)
            write_json(options.json, results)
            try:
                result["version"] = importlib.import_module(module).__version__
                result |= train_once(torch, make_layers, {**job, "variant": variant})
                del result["error"]
            except Exception as error:  # any failure: the other variants are still tried
                result["error"] = f"{type(error).__name__}: {error}".split("\n", maxsplit=1)[0]
            write_json(options.json, results)
            if options.device == "cuda":
                gc.collect()  # modules hold reference cycles
                torch.cuda.empty_cache()
            print(f"{framework} {variant}: {result.get('median', result.get('error'))}",
                  file=sys.stderr)
    return 0 if any("median" in result for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())

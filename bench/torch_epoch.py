#!/usr/bin/env python3
"""Trains the model of compare_frameworks.py in PyTorch, and in PyG if it is installed, on one
native graph on a CUDA device, and writes losses, seconds an epoch and peak device memory as JSON.
The weights are those with which the command begins. Tries the variants of a framework in turn; the
file lists each from its start, and the reason if it fails. An epoch includes the wait for the device,
since its loss is read.

Usage: torch_epoch.py --data GRAPH --json FILE [--model gcn|sage] [--layers N] [--hidden N]
                      [--epochs N] [--device cuda|cpu] [--heliograph PATH]
"""

import argparse
import functools
import gc
import importlib
import os
import statistics
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "frameworks"), os.path.join(os.path.dirname(HERE), "experiments")]
from command import add_command_option, find_command, run
from json_file import write_json
from run_files import read_weights

WARMUP = 3  # first epochs that are not timed, as in scripts/gpu_check/epochs.py
SEED = 1


FRAMEWORKS = {
    "pytorch": ["mm-int32", "mm-int64"],
    "pyg": ["csr-int64", "gather-int64"],
}


@functools.cache
def read_graph(folder):
    """Reads a graph once for all variants, since a large one takes long."""
    from native_graph import read_native
    return read_native(folder)


@functools.cache
def initial_weights(command, data, *flags):
    """Returns read_weights() of the weights with which the command begins."""
    with tempfile.TemporaryDirectory(prefix="torch-epoch-") as folder:
        run(command, "train", "--quiet", "--data", data, "--out", os.path.join(folder, "run"),
            "--epochs", "1", "--eval-every", "0", "--lr", "1e-30", "--dropout", "0", *flags)
        return read_weights(os.path.join(folder, "run", "best.safetensors"))


def train_once(torch, module, job):
    from torch_model import Network, Weights
    from torch_training import train
    graph = read_graph(job["data"])
    device = torch.device(job["device"])
    features = torch.from_numpy(graph.features).to(device)
    options, tensors = initial_weights(job["command"], job["data"], "--seed", str(SEED), "--model",
                                       job["model"], "--layers", str(job["layers"]), "--hidden",
                                       str(job["hidden"]))
    framework = module.Framework(graph, job["variant"], device)
    network = Network(options, Weights(tensors), framework, features, precompute=True).to(device)
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
    add_command_option(parser)
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
    job |= {"lr": 0.01, "weight_decay": 0.0, "command": find_command(options.heliograph)}
    results = []
    for framework, variants in FRAMEWORKS.items():
        package = {"pytorch": "torch", "pyg": "torch_geometric"}[framework]
        for variant in variants:
            result = {"framework": framework, "variant": variant,
                      "data": os.path.basename(os.path.normpath(options.data)), "error": "cut off"}
            results.append(result)
            write_json(options.json, results)
            try:
                result["version"] = importlib.import_module(package).__version__
                result |= train_once(torch, importlib.import_module("with_" + framework),
                                     {**job, "variant": variant})
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

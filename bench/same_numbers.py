#!/usr/bin/env python3
"""Compares logits and gradients of Heliograph (one rank, fp32) with those of PyG, DGL and PyTorch from
the same weights, and prints the largest differences for each model and framework.

The weights are those after a few epochs of training, so that biases, norms and gates have done
something. Logits are those of evaluation, relative to the largest logit. Loss and gradients are those
of a training step without dropout; a gradient's difference is relative to the largest value in the
gradient of the same parameter. An activation that is 0 up to rounding may fall on either side of
ReLU's kink, so a single gradient that differs by about 1e-4 may be correct: another --seed tells. The
scores of gatv2 have a kink for each column of each edge, and a difference there is about 1e-3. Exit
code 1: a difference exceeds --tolerance, or nothing was compared.

With --weighted, the edges of the generated graph have weights, and models that normalise as GCN are
compared with PyG; PyG's layers of the other models take no weights.

The environments of the frameworks are those of compare_frameworks.py (--venv, --install).

Usage: same_numbers.py --venv DIR [--models gin,dagnn] [--data GRAPH | --weighted]
"""

import argparse
import os
import shlex
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "frameworks"), os.path.join(os.path.dirname(HERE), "experiments")]
import environments
from command import (CommandFailed, add_command_option, find_command, read_metrics, require_modules,
                     run)

require_modules("numpy")
import numpy as np
from contestants import PythonFramework, all_frameworks, mark_unusable
from native_graph import read_native
from print_table import format_table
from processes import ProcessFailed
from run_files import first_gradients

BLOCKS = ("--residual identity --pre-norm --input-linear --output-linear --activation gelu "
          "--feed-forward 2")
MODELS = {
    "gcn": "--model gcn",
    "gcn-batch": "--model gcn --norm batch",
    "gcn-linear": "--model gcn --residual linear --output-linear",
    "gcn-blocks": f"--model gcn {BLOCKS}",
    "sage": "--model sage",
    "sage-batch": "--model sage --norm batch --input-linear --residual identity",
    "sage-blocks": f"--model sage {BLOCKS}",
    "gin": "--model gin",
    "gin-learned": "--model gin --norm batch --eps-learned --activation elu",
    "appnp": "--model appnp --layers 2",
    "dagnn": "--model dagnn --layers 2 --hops 12",
    "jknet": "--model jknet --layers 8",
    "jknet-max": "--model jknet --jk max",
    "gcnii": "--model gcnii --layers 8",
    "gat": "--model gat --output-heads 3",
    "gat-averaged": "--model gat --no-concat-heads --norm batch --negative-slope 0.1 --heads 3",
    "gat-linear": "--model gat --residual linear --output-linear --heads 1",
    "gatv2": "--model gatv2 --output-heads 3",
    "gatv2-averaged": "--model gatv2 --layers 2 --no-concat-heads --norm batch --heads 2",
    "gat-sep": "--model gat-sep",
    "gat-sep-blocks": f"--model gat-sep {BLOCKS}",
}


WEIGHTED = ("gcn", "gcn-batch", "gcn-linear", "appnp", "dagnn", "jknet", "gcnii")


def give_weights(command, data, folder):
    """Gives the edges of the native graph at `data` weights from 0.25 to 2, by their ends."""
    graph, archive = read_native(data), os.path.join(folder, "weighted.npz")
    targets = np.repeat(np.arange(graph.nodes), graph.degrees)
    np.savez(archive, src=graph.neighbours, dst=targets, x=graph.features, y=graph.class_of,
             edge_weight=(1 + (graph.neighbours + targets) % 8) / 4, train_mask=graph.role == 1,
             val_mask=graph.role == 2, test_mask=graph.role == 3)
    run(command, "import", "--data", archive, "--out", data, "--overwrite", "--quiet")


def engine_numbers(command, data, flags, threads, folder):
    """Returns (path of the weights, numbers of one step from them) as worker.py names them."""
    trained, step = os.path.join(folder, "trained"), os.path.join(folder, "step")
    logits = os.path.join(folder, "logits.npy")
    weights = os.path.join(trained, "best.safetensors")
    common = ["--quiet", "--overwrite", "--threads-per-rank", str(threads)]
    flags = ["--data", data, *flags, "--dropout", "0", "--eval-every", "0", *common]
    run(command, "train", *flags, "--epochs", "5", "--out", trained)
    run(command, "train", *flags, "--epochs", "1", "--checkpoint-every", "1", "--init-from", weights,
        "--out", step)
    run(command, "eval", "--checkpoint", weights, "--data", data, "--save-logits", logits, *common)
    numbers = {"logits": np.load(logits), "loss": np.array(read_metrics(step)[0]["loss"])}
    for name, values in first_gradients(step).items():
        numbers["gradient." + name] = np.array(values)
    return weights, numbers


def largest_differences(ours, theirs):
    """Returns relative differences of logits, loss and gradients, and the parameter of the last."""
    if set(ours) != set(theirs):
        raise ValueError("only one side has " + ", ".join(sorted(set(ours) ^ set(theirs))))

    def difference(name):
        one, other = ours[name], theirs[name].reshape(ours[name].shape)
        found = np.abs(one - other).max() / np.abs(other).max()
        return float(found) if np.isfinite(found) else np.inf

    gradients = {name: difference(name) for name in ours if name.startswith("gradient.")}
    worst = max(gradients, key=gradients.get)
    return (difference("logits"), difference("loss"), gradients[worst],
            worst.removeprefix("gradient."))


def compare(command, data, models, frameworks, options, folder):
    """Returns (rows of the table, whether any difference was found to be too large)."""
    rows, failed = [], False
    for model in models:
        flags = ["--hidden", str(options.hidden), "--seed", str(options.seed), *shlex.split(MODELS[model])]
        weights, ours = engine_numbers(command, data, flags, options.threads, folder)
        for one in frameworks:
            job = {"data": data, "weights": weights, "threads": options.threads,
                   "numbers": os.path.join(folder, "numbers.npz")}
            try:
                one.run(job, folder)
                with np.load(job["numbers"]) as archive:
                    found = largest_differences(ours, dict(archive))
            except (ProcessFailed, ValueError) as error:
                rows.append([model, f"{one.name} {one.variant}", str(error)] + [""] * 3 + ["FAILED"])
                failed = True
                continue
            passed = max(found[:3]) <= options.tolerance
            failed = failed or not passed
            rows.append([model, f"{one.name} {one.variant}", *(f"{d:.1e}" for d in found[:3]),
                         found[3], "yes" if passed else "NO"])
    return rows, failed


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", help=f"some of {', '.join(MODELS)} (default: all)")
    parser.add_argument("--frameworks",
                        help="some of debian, pytorch, pyg, dgl (default: pyg,dgl)")
    parser.add_argument("--weighted", action="store_true",
                        help="give the generated graph's edges weights")
    parser.add_argument("--data", help="a native graph directory (default: a generated one of 3000 "
                                       "nodes and 15,000 edges)")
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1, help="of the weights (default: 1)")
    parser.add_argument("--tolerance", type=float, default=1e-5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    environments.add_options(parser)
    add_command_option(parser)
    options = parser.parse_args()
    if options.weighted and options.data:
        parser.error("--weighted changes the generated graph: leave out --data")
    options.models = options.models or ",".join(WEIGHTED if options.weighted else MODELS)
    options.frameworks = options.frameworks or ("pyg" if options.weighted else "pyg,dgl")
    options.models = options.models.split(",")
    for model in options.models:
        if model not in MODELS:
            parser.error(f"--models: {model} is not one of {', '.join(MODELS)}")
    return options


def main():
    options = parse()
    command = find_command(options.heliograph)
    everyone = all_frameworks(options.venv, options.debian_python)
    frameworks = []
    for key in options.frameworks.split(","):
        if key not in everyone or key.endswith("-bag"):
            sys.exit(f"same_numbers.py: --frameworks: {key} is not one of debian, pytorch, pyg, dgl")
        frameworks.append(everyone[key])
    if options.install:
        environments.install_for(options.venv, frameworks)
    mark_unusable(frameworks, options.threads)
    usable = []
    for one in frameworks:
        if one.unusable:
            print(f"{one.name}: {one.unusable}")
            continue
        one.variant = one.reference_variant
        usable.append(one)
    if not usable:
        sys.exit("same_numbers.py: no framework is installed: give --venv DIR --install")
    with tempfile.TemporaryDirectory(prefix="same-numbers-") as folder:
        try:
            data = os.path.abspath(options.data) if options.data else os.path.join(folder, "graph")
            if not options.data:
                run(command, "generate", "--nodes", "3000", "--edges", "15000", "--features", "50",
                    "--classes", "7", "--out", data, "--quiet")
            if options.weighted:
                give_weights(command, data, folder)
            rows, failed = compare(command, data, options.models, usable, options, folder)
        except CommandFailed as error:
            sys.exit(f"same_numbers.py: {error}")
    print(format_table(["model", "framework", "logits", "loss", "gradients", "most in", "same"], rows))
    if failed:
        sys.exit(f"same_numbers.py: a difference exceeds {options.tolerance:g}, or a run failed")


if __name__ == "__main__":
    main()

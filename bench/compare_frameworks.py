#!/usr/bin/env python3
"""Trains one model on one generated graph in Heliograph (one rank, fp32), PyTorch, PyG and DGL, and
prints seconds an epoch and peak memory side by side.

All start from the same weights, take the same steps (no dropout, Adam, full batch) and use the same
number of threads; the losses of every epoch must agree, or the exit code is 1. Every training runs
in a process of its own; the contestants take turns, so that other load on the machine affects all of
them. A time is the median over the epochs of all rounds after the warm-up: forward, loss, backward
and step, without evaluation. The table also has the fastest epoch, which depends least on other
load. If a framework has several variants, short trials choose the fastest.

Debian's PyTorch runs in /usr/bin/python3 (packages python3-torch, python3-numpy and an optimised
BLAS, libopenblas0-openmp); PyTorch, PyG and DGL of the package index are in virtual environments
under --venv, which --install makes (about 11 GB). The table names what is not installed.

Usage: compare_frameworks.py --preset reddit --scale 0.1 [--venv DIR [--install]] [--model MODEL]
                             [-- other options of the model, such as --jk max]
"""

import argparse
import os
import statistics
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "frameworks"), os.path.join(os.path.dirname(HERE), "experiments")]
import environments
from command import add_command_option, find_command
from contestants import (Heliograph, all_frameworks, available_bytes, gathered_bytes,
                         mark_unusable, median_seconds)
from json_file import read_json, write_json
from print_table import format_table
from processes import ProcessFailed, run_measured

AGGREGATES_FEATURES = ("gcn", "sage", "gin", "jknet")  # models that can do so beforehand


def make_contestants(options):
    everyone = {"heliograph": Heliograph(name="Heliograph", command=find_command(options.heliograph)),
                **all_frameworks(options.venv, options.debian_python)}
    if options.frameworks:
        wanted = ["heliograph"] + [f for f in options.frameworks.split(",") if f != "heliograph"]
        unknown = [f for f in wanted if f not in everyone]
        if unknown:
            sys.exit(f"--frameworks: {unknown[0]} is not one of {', '.join(everyone)}")
        everyone = {key: everyone[key] for key in wanted}
    return list(everyone.values())


def run_once(one, job, folder, what):
    """Runs one training and prints a line about it."""
    try:
        result = one.run(job, folder)
    except ProcessFailed as error:
        print(f"{what}: {one.name} {one.variant}: {error}", file=sys.stderr)
        raise
    print(f"{what}: {one.name} {one.variant}: {statistics.median(result['seconds'][1:]):.3f} s",
          file=sys.stderr)
    return result


def choose_variants(contestants, job, folder):
    """Sets each contestant's variant to the one with the fastest epoch in a short trial."""
    trial = {**job, "epochs": 3}
    gathered = gathered_bytes(job, count_entries(job["data"]))
    for one in contestants:
        if one.unusable or not one.trial_variants:
            continue
        if len(one.trial_variants) == 1:
            one.variant = one.trial_variants[0]
            continue
        times, errors = {}, []
        for one.variant in one.trial_variants:
            if one.variant.startswith("gather") and gathered > available_bytes() / 2:
                errors.append(f"{one.variant} not tried: would hold {gathered / 1e9:.0f} GB")
                continue
            try:
                result = run_once(one, trial, folder, "trial")
                times[one.variant] = min(result["seconds"][1:])
            except ProcessFailed as error:
                errors.append(f"{one.variant}: {error}")
        one.notes = [f"{v} {t:.3f} s" for v, t in times.items()] + errors
        if times:
            one.variant = min(times, key=times.get)
        else:
            one.unusable = errors[0]


def measure(contestants, job, rounds, folder):
    """Returns {name: [result of each round]}; each round begins with another contestant."""
    results = {one.name: [] for one in contestants}
    for turn in range(rounds):
        order = contestants[turn % len(contestants):] + contestants[:turn % len(contestants)]
        for one in order:
            if one.unusable:
                continue
            try:
                results[one.name].append(run_once(one, job, folder, f"round {turn + 1}"))
            except ProcessFailed as error:
                one.unusable = str(error)
    return results


def largest_difference(losses, reference):
    """Largest relative difference of two lists of losses."""
    return max(abs(a - b) / abs(b) for a, b in zip(losses, reference))


def compare(contestants, results, warmup):
    """Returns a dict for each contestant; the losses of the first are the reference."""
    rows = []
    for one in contestants:
        row = {"name": one.name, "variant": one.variant, "unusable": one.unusable,
               "trials": one.notes}
        runs = results[one.name]
        if runs and not one.unusable:
            pooled = [s for run in runs for s in run["seconds"][warmup:]]
            row.update(
                seconds=statistics.median(pooled), fastest_seconds=min(pooled),
                round_seconds=[median_seconds(run["seconds"], warmup) for run in runs],
                bytes=max(run["bytes"] for run in runs),
                training_bytes=max(run["training_bytes"] for run in runs),
                loaded_bytes=max(run["loaded_bytes"] for run in runs),
                losses=runs[0]["losses"], versions=runs[0]["versions"],
                difference=max(largest_difference(run["losses"], rows[0]["losses"]) if rows else 0.0
                               for run in runs))
        rows.append(row)
    return rows


def describe(row):
    """One line on a contestant: versions, variant and times of the trials."""
    words = [f"{name} {value}" for name, value in row.get("versions", {}).items() if value]
    if row["variant"]:
        words.append(row["variant"])
    if row["trials"]:
        words.append("trials: " + "; ".join(row["trials"]))
    if row["unusable"]:
        words.append(row["unusable"])
    return f"- {row['name']}: {', '.join(words)}" if words else ""


def make_table(rows):
    first, cells = rows[0], []
    for row in rows:
        if "seconds" not in row:
            cells.append([row["name"], "absent"] + [""] * 8)
            continue
        cells.append([row["name"], f"{row['seconds']:.3f}",
                      "/".join(f"{s:.3f}" for s in row["round_seconds"]),
                      f"{row['seconds'] / first['seconds']:.2f}x",
                      f"{row['fastest_seconds']:.3f}",
                      f"{row['fastest_seconds'] / first['fastest_seconds']:.2f}x",
                      f"{row['bytes'] / 1e6:.0f} MB",
                      f"{row['loaded_bytes'] / 1e6:.0f} MB",
                      f"{row['bytes'] / first['bytes']:.2f}x", f"{row['difference']:.1e}"])
    header = ["framework", "s an epoch", "each round", "time", "fastest", "time", "peak",
              "without data", "memory", "loss differs by"]
    return "\n".join([format_table(header, cells), *filter(None, map(describe, rows))])


def count_entries(data):
    """Number of neighbours in all rows of a native graph."""
    arrays = read_json(os.path.join(data, "manifest.json"))["arrays"]
    return next(a["count"] for a in arrays if a["name"] == "neighbours")


def prepare_graph(command, options, folder):
    if options.data:
        return options.data
    out = os.path.join(folder, "graph")
    run_measured([command, "generate", "--preset", options.preset, "--scale", str(options.scale),
                  "--seed", str(options.seed), "--out", out, "--quiet"])
    return out


def make_job(options, data):
    model = [part for name in ("model", "layers", "hidden", "norm", "seed")
             for part in ("--" + name, str(getattr(options, name)))]
    return {"data": os.path.abspath(data), "model": model + options.flags, "widest": options.hidden,
            **{name: getattr(options, name) for name in ("lr", "weight_decay", "epochs", "threads")}}


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    graph = parser.add_argument_group("graph")
    graph.add_argument("--preset", choices=["reddit", "products"], default="reddit")
    graph.add_argument("--scale", type=float, default=0.1)
    graph.add_argument("--data", help="a native graph directory instead of a generated one")
    model = parser.add_argument_group("model")
    model.add_argument("--model", default="gcn", help="as for `train` (default: gcn)")
    model.add_argument("--layers", type=int, default=3)
    model.add_argument("--hidden", type=int, default=128)
    model.add_argument("--norm", default="auto", help="as for `train` (default: auto)")
    model.add_argument("--precompute", choices=["on", "off", "both"], default="both",
                       help="compute the first aggregation once before the first epoch, in all "
                            "frameworks, or in every epoch (default: both, with a table each, for "
                            f"{', '.join(AGGREGATES_FEATURES)})")
    model.add_argument("--lr", type=float, default=0.01)
    model.add_argument("--weight-decay", type=float, default=5e-4)
    model.add_argument("--seed", type=int, default=1)
    how = parser.add_argument_group("measuring")
    how.add_argument("--epochs", type=int, default=14)
    how.add_argument("--warmup", type=int, default=3, help="first epochs of each run that are not timed")
    how.add_argument("--rounds", type=int, default=2)
    how.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    how.add_argument("--tolerance", type=float, default=1e-3,
                     help="largest relative difference of a loss from Heliograph's (default: 1e-3)")
    how.add_argument("--frameworks", help="some of heliograph, debian, debian-bag, pytorch, "
                                          "pytorch-bag, pyg, dgl (default: all)")
    environments.add_options(how)
    how.add_argument("--out", metavar="FILE", help="write all results as JSON")
    add_command_option(parser)
    own = sys.argv[1:]
    end = own.index("--") if "--" in own else len(own)
    options = parser.parse_args(own[:end])
    options.flags = own[end + 1:]
    if options.install and not options.venv:
        parser.error("--install needs --venv DIR")
    if not 0 <= options.warmup < options.epochs:
        parser.error("--warmup must be at least 0 and below --epochs")
    if min(options.rounds, options.threads, options.layers, options.hidden) < 1:
        parser.error("--rounds, --threads, --layers and --hidden must be at least 1")
    return options


def main():
    options = parse()
    contestants = make_contestants(options)
    if options.install:
        environments.install_for(options.venv, contestants[1:])
    mark_unusable(contestants[1:], options.threads)
    modes = {"on": [True], "off": [False], "both": [True, False]}[options.precompute]
    if options.model not in AGGREGATES_FEATURES:
        modes = [True]
    tables, wrong = [], []
    with tempfile.TemporaryDirectory(prefix="frameworks-") as folder:
        try:
            data = prepare_graph(contestants[0].command, options, folder)
            job = make_job(options, data)
            job["weights"] = contestants[0].initial_weights(job, folder)
        except ProcessFailed as error:
            sys.exit(f"compare_frameworks.py: {error}")
        for job["precompute"] in modes:
            choose_variants(contestants, job, folder)
            rows = compare(contestants, measure(contestants, job, options.rounds, folder),
                           options.warmup)
            if "seconds" not in rows[0]:
                sys.exit(f"compare_frameworks.py: Heliograph: {rows[0]['unusable']}")
            tables.append({"job": dict(job), "rows": rows})
            when = "" if job["precompute"] else ", sums of features in every epoch"
            print(f"\n{' '.join(job['model'])}, {options.threads} threads{when}\n{make_table(rows)}",
                  flush=True)
            wrong += [row["name"] for row in rows
                      if not row.get("difference", 0.0) <= options.tolerance]
            wrong += [row["name"] for row in rows if "seconds" not in row and row["variant"]]
    if options.out:
        write_json(options.out, tables)
    if wrong:
        sys.exit(f"compare_frameworks.py: failed, or losses differ by more than "
                 f"{options.tolerance:g}: {', '.join(dict.fromkeys(wrong))}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Measures how cost grows with the graph: seconds and peak memory of generating, partitioning and
training, for products-shaped graphs of about 1 to 100 million undirected edges.

For each size it runs `generate`, `partition` (METIS, --parts), and an fp32 and a 1-bit training of
a GCN over that partition. Each command is a process of its own, whose peak memory the kernel counts.
A size is written to --out as soon as it is measured and is not measured again with the same
settings, so a table can be made in several sittings. Prints a Markdown table with the exponent of each cost:
the slope of a straight line through log(cost) over log(edges), which is 1 for linear growth.

Usage: scaling.py --out scaling.json [--sizes 1,3,10,30,100] [--folder DIR]
"""

import argparse
import math
import os
import shutil
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "frameworks"), os.path.join(os.path.dirname(HERE), "experiments")]
from command import add_command_option, find_command, read_metrics
from json_file import read_json, write_json
from print_table import format_table
from processes import ProcessFailed, run_measured

PRODUCTS_EDGES = 61_859_140  # edges of the preset at scale 1
COSTS = {  # heading of each cost
    "generate_seconds": "generate", "generate_bytes": "peak",
    "partition_seconds": "partition", "partition_bytes": "peak",
    "epoch_32_seconds": "epoch, fp32", "train_32_bytes": "peak",
    "epoch_1_seconds": "epoch, 1 bit", "train_1_bytes": "peak",
}


def timed(line):
    """Runs a command and returns (seconds, peak bytes)."""
    begin = time.perf_counter()
    peak = run_measured(line)
    return time.perf_counter() - begin, peak


def measure(command, millions, options, folder):
    """Returns a dict of the graph's sizes and its costs."""
    graph, parts = os.path.join(folder, "graph"), os.path.join(folder, "parts.txt")
    run, found = os.path.join(folder, "run"), {}
    found["generate_seconds"], found["generate_bytes"] = timed(
        [command, "generate", "--preset", "products", "--scale",
         repr(millions * 1e6 / PRODUCTS_EDGES), "--out", graph, "--overwrite", "--quiet"])
    manifest = read_json(os.path.join(graph, "manifest.json"))
    entries = next(a["count"] for a in manifest["arrays"] if a["name"] == "neighbours")
    found["nodes"], found["edges"] = manifest["nodes"], entries // 2
    found["partition_seconds"], found["partition_bytes"] = timed(
        [command, "partition", "--data", graph, "--parts", str(options.parts), "--partitioner",
         options.partitioner, "--owners", parts, "--overwrite", "--quiet"])
    for bits in (32, 1):
        _, found[f"train_{bits}_bytes"] = timed(
            [command, "train", "--data", graph, "--parts", str(options.parts), "--partitioner",
             f"file:{parts}", "--model", "gcn", "--layers", str(options.layers), "--hidden",
             str(options.hidden), "--bits", str(bits), "--epochs", str(options.epochs),
             "--eval-every", str(options.epochs), "--out", run, "--overwrite", "--quiet"])
        seconds = [line["seconds"] for line in read_metrics(run)]
        found[f"epoch_{bits}_seconds"] = statistics.median(seconds[options.warmup:])
    shutil.rmtree(graph)
    return found


def exponent(edges, costs):
    """Slope of the least-squares line of log(cost) over log(edges); None for a single size."""
    if len(edges) < 2:
        return None
    x, y = [math.log(e) for e in edges], [math.log(c) for c in costs]
    mean_x, mean_y = statistics.fmean(x), statistics.fmean(y)
    return (sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y))
            / sum((a - mean_x) ** 2 for a in x))


def make_table(sizes):
    """Markdown table of the measured sizes, smallest first."""
    sizes = sorted(sizes, key=lambda size: size["edges"])

    def cell(cost, value):
        return f"{value / 1e9:.2f} GB" if cost.endswith("bytes") else f"{value:.3g} s"

    rows = [[f"{s['edges'] / 1e6:.2f} M", f"{s['nodes'] / 1e6:.3f} M"]
            + [cell(cost, s[cost]) for cost in COSTS] for s in sizes]
    slopes = [exponent([s["edges"] for s in sizes], [s[cost] for s in sizes]) for cost in COSTS]
    rows.append(["exponent", ""] + ["-" if e is None else f"{e:.2f}" for e in slopes])
    return format_table(["edges", "nodes", *COSTS.values()], rows)


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, metavar="FILE", help="JSON file of the measured sizes")
    parser.add_argument("--sizes", default="1,3,10,30,100",
                        help="millions of undirected edges (default: 1,3,10,30,100)")
    parser.add_argument("--folder", help="folder in which graphs are made and removed (default: "
                                         "temporary; 100 million edges take 3 GB)")
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--partitioner", default="metis")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--warmup", type=int, default=2, help="first epochs that are not timed")
    add_command_option(parser)
    options = parser.parse_args()
    try:
        options.sizes = [float(text) for text in options.sizes.split(",")]
    except ValueError:
        parser.error(f"--sizes {options.sizes}: not numbers separated by commas")
    if min(options.sizes) <= 0 or not 0 <= options.warmup < options.epochs:
        parser.error("sizes must be above 0, and --warmup at least 0 and below --epochs")
    return options


def main():
    options = parse()
    command = find_command(options.heliograph)
    settings = {name: getattr(options, name)
                for name in ("parts", "partitioner", "layers", "hidden", "epochs", "warmup")}
    kept = read_json(options.out) if os.path.exists(options.out) else []
    table = []
    for millions in options.sizes:
        key = {"millions": millions, **settings}
        found = next((entry["costs"] for entry in kept if entry["settings"] == key), None)
        if found is None:
            print(f"{millions:g} million edges", file=sys.stderr)
            with tempfile.TemporaryDirectory(prefix="scaling-", dir=options.folder) as folder:
                try:
                    found = measure(command, millions, options, folder)
                except ProcessFailed as error:
                    sys.exit(f"scaling.py: {millions:g} million edges: {error}")
            kept.append({"settings": key, "costs": found})
            write_json(options.out, kept)
        table.append(found)
    print(make_table(table))


if __name__ == "__main__":
    main()

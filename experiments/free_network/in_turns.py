#!/usr/bin/env python3
"""Compares the speed and memory of two builds of the command, or of two settings of one build.

Trains on the graphs of docs/performance.md, with one rank and four, fp32 and 1 bit, with both
commands in turn, and prints the median epoch and peak memory of each. "Each turn" is the smallest
and largest ratio after : before of a turn's medians, which shows the noise of the machine;
"fastest" is the ratio of the fastest epochs. Standard library only.

Usage: free_network/in_turns.py --before PATH --after PATH [--turns 3] [--epochs 25] [--only NAME]
                                [-- FLAGS of the command after]
"""

import argparse
import os
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from command import CommandFailed, find_command, make_flags, run
from epochs import train
from print_table import format_table

GRAPHS = {"Reddit-shaped": {"preset": "reddit", "scale": 0.1},
          "products-shaped": {"preset": "products", "scale": 0.05}}
RUNS = {"1 rank": {"parts": 1}}
for partitioner in ("metis", "random"):
    for bits in (32, 1):
        RUNS[f"4 ranks, {partitioner}, {'fp32' if bits == 32 else '1 bit'}"] = {
            "parts": 4, "partitioner": partitioner, "bits": bits}
MODEL = {"model": "gcn", "layers": 3, "hidden": 128}


def row(name, seconds, peaks):
    """A line of the table from [seconds of epochs] of each turn and the peaks, of both sides."""
    before, after = (sum(side, []) for side in seconds)
    turns = [statistics.median(b) / statistics.median(a) for a, b in zip(*seconds)]
    median_before, median_after = statistics.median(before), statistics.median(after)
    peak_before, peak_after = (statistics.median(side) for side in peaks)
    return [name, f"{1e3 * median_before:.1f} ms", f"{1e3 * median_after:.1f} ms",
            f"{median_after / median_before:.3f}", f"{min(turns):.3f} to {max(turns):.3f}",
            f"{min(after) / min(before):.3f}", f"{peak_before / 2**20:,.0f} MiB",
            f"{peak_after / 2**20:,.0f} MiB", f"{peak_after / peak_before:.3f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", required=True, metavar="PATH", help="the reference command")
    parser.add_argument("--after", required=True, metavar="PATH", help="the command to compare")
    parser.add_argument("--turns", type=int, default=3, help="runs of each command and setting")
    parser.add_argument("--epochs", type=int, default=25, help="timed epochs of a run")
    parser.add_argument("--only", default="", metavar="NAME",
                        help="only settings whose names contain NAME")
    parser.add_argument("flags", nargs="*", metavar="-- FLAGS",
                        help="flags of the command after, such as -- --exchange auto")
    options = parser.parse_args()
    commands = find_command(options.before), find_command(options.after)

    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for graph, shape in GRAPHS.items():
            chosen = {f"{graph}, {name}": flags for name, flags in RUNS.items()
                      if options.only in f"{graph}, {name}"}
            data = os.path.join(scratch, graph)
            try:
                if chosen:
                    run(commands[0], "generate", *make_flags({**shape, "seed": 1, "out": data}))
                for name, flags in chosen.items():
                    seconds, peaks = ([], []), ([], [])
                    for _ in range(options.turns):
                        for side, command in enumerate(commands):
                            times, summary = train(command, options.epochs,
                                                   {**MODEL, **flags, "data": data}, scratch,
                                                   *(options.flags if side == 1 else ()))
                            seconds[side].append(times)
                            peaks[side].append(summary["peak_rss_bytes"])
                    rows.append(row(name, seconds, peaks))
                    print(f"measured: {name}", file=sys.stderr, flush=True)
            except CommandFailed as error:
                sys.exit(str(error))
    print(format_table(["setting", "epoch before", "after", "after : before", "each turn",
                        "fastest", "peak before", "after", "after : before"], rows))


if __name__ == "__main__":
    main()

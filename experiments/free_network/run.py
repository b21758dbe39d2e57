#!/usr/bin/env python3
"""Measures whether a 1-bit epoch is faster than an fp32 one when the network costs nothing.

Trains with fp32 and with 1 bit in turn, on links as fast as memory, and prints the ratio of the
median epochs beside a prediction. heliograph_bench measures aggregation and encoding at the sizes
of a rank's part, and
    predicted 1-bit epoch = fp32 epoch - (time of these kernels in fp32 - their time at 1 bit).
The prediction assumes that the ranks' threads keep all cores busy. Standard library only.

Usage: free_network/run.py --data DIR --partitioner random [--epochs 25] [--rounds 2]
       [-- FLAGS OF heliograph train ...]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from command import CommandFailed, add_command_option, find_command
from epochs import train
from predict import exchanged_widths, kernel_seconds, mean_part, predicted_epoch
from print_table import format_table


def bench(options, part, width):
    """Returns Google Benchmark's entries for one rank's kernels at `width` columns."""
    done = subprocess.run(
        [options.bench, f"--rows={part.halo_rows}", f"--outputs={part.inner_rows}",
         f"--degree={part.degree}", f"--width={width}",
         "--benchmark_filter=^(halo_aggregate/packed|encode)/(1|32)/",
         "--benchmark_format=json", "--benchmark_min_time=0.3"],
        capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["benchmarks"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--partitioner", default="metis")
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--model", default="gcn")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=25, help="timed epochs of a run")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each setting")
    parser.add_argument("--bench", help="heliograph_bench (default: beside the command)")
    parser.add_argument("flags", nargs="*", help="flags of every run, after --")
    add_command_option(parser)
    options = parser.parse_args()
    options.command = find_command(options.heliograph)
    if options.bench is None:
        options.bench = os.path.join(os.path.dirname(options.command), "bench", "heliograph_bench")
    if not os.access(options.bench, os.X_OK):
        sys.exit(f"{options.bench} is not built: give --bench PATH")

    settings = {name: getattr(options, name)
                for name in ("data", "parts", "partitioner", "model", "layers", "hidden")}
    seconds, summaries = {32: [], 1: []}, {}
    with tempfile.TemporaryDirectory() as scratch:
        for _ in range(options.rounds):
            for bits in seconds:
                try:
                    times, summaries[bits] = train(
                        options.command, options.epochs, {**settings, "bits": bits}, scratch,
                        *options.flags)
                except CommandFailed as error:
                    sys.exit(str(error))
                seconds[bits] += times
    median = {bits: statistics.median(times) for bits, times in seconds.items()}
    partition = summaries[32]["partition"]
    halo = sum(partition["halo_edges"])
    part = mean_part(summaries[32])
    widths = exchanged_widths(summaries[32])
    kernels = {width: kernel_seconds(bench(options, part, width), part) for width in set(widths)}
    cores = len(os.sched_getaffinity(0))
    predicted = predicted_epoch(median[32], widths, kernels, options.parts, cores)
    print(format_table(
        ["parts", "halo edges", "fp32 epoch", "1-bit epoch", "1 bit : fp32", "predicted",
         "fp32 peak", "1-bit peak"],
        [[f"{options.parts}, {options.partitioner}",
          f"{halo / (halo + sum(partition['inner_edges'])):.0%}",
          f"{1e3 * median[32]:.1f} ms", f"{1e3 * median[1]:.1f} ms",
          f"{median[1] / median[32]:.2f}", f"{predicted / median[32]:.2f}",
          *(f"{summaries[bits]['peak_rss_bytes'] / 2**20:,.0f} MiB" for bits in (32, 1))]]))


if __name__ == "__main__":
    main()

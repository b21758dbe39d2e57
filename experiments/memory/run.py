#!/usr/bin/env python3
"""Shows that 1 bit saves the memory of fp32 halos, so that nothing decodes them unnoticed.

Trains at 32 bits and at 1 bit, in random and METIS parts, synchronous and with all exchanges an epoch late, with
evaluation in between, and compares the peak resident memory of training. The halos that an fp32 run
must hold follow from its counted bytes: for S = 0 those of the largest site, since all sites share
its buffers; otherwise S + 1 times those of a whole epoch. Prints a table, which also compares the
saved bytes with one epoch's halos; exits 1 if 1 bit saves less than --at-least of the fp32 halos.
Standard library only.

Usage: memory/run.py --out runs/memory [--data DIR | --scale 0.05]
"""

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from command import CommandFailed, add_command_option, find_command, make_flags, run
from json_file import read_json
from print_table import format_table, human_bytes

HEADER = ["parts", "S", "fp32 halos held", "of an epoch", "peak, fp32", "peak, 1 bit", "saved",
          "of held", "of an epoch's"]


def fp32_halos(summary):
    """Returns fp32 bytes (of the largest site, of all sites) in one epoch over all links."""
    passes = {}
    for link in summary["halo_traffic"]:
        key = link["site"]
        passes[key] = passes.get(key, 0) + link["fp32_bytes"]
    total = sum(passes.values()) / summary["epochs"]
    return (max(passes.values()) / summary["epochs"] if passes else 0), total


def held_halos(summary):
    """Bytes of received rows that an fp32 run with this summary's staleness holds."""
    widest, total = fp32_halos(summary)
    slots = summary["staleness"] + 1
    return widest if slots == 1 else slots * total


def compare(fp32, one_bit):
    """Returns (halos held, halos of an epoch, bytes saved by 1 bit) for equal staleness."""
    saved = fp32["peak_rss_bytes"] - one_bit["peak_rss_bytes"]
    return held_halos(fp32), fp32_halos(fp32)[1], saved


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder for graph and summaries")
    parser.add_argument("--data", help="a data set (default: a products-shaped graph is generated)")
    parser.add_argument("--scale", type=float, default=0.05, help="scale of the generated graph")
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--at-least", type=float, default=0.8,
                        help="share of the fp32 halos that must be saved")
    add_command_option(parser)
    options = parser.parse_args()
    command = find_command(options.heliograph)
    os.makedirs(options.out, exist_ok=True)
    data = options.data or os.path.join(options.out, f"products-{options.scale}")
    rows, worst = [], float("inf")
    try:
        if not os.path.exists(data):
            run(command, "generate", "--preset", "products", "--scale", str(options.scale),
                "--seed", "1", "--out", data)
        for partitioner in ("random", "metis"):
            for staleness in (0, 1):
                summaries = {}
                for bits in (32, 1):
                    path = os.path.join(options.out, f"{partitioner}-S{staleness}-{bits}.json")
                    run(command, "train", *make_flags({
                        "data": data, "parts": options.parts, "partitioner": partitioner,
                        "model": "gcn", "layers": 3, "hidden": options.hidden, "seed": 1,
                        "epochs": options.epochs, "eval-every": 2, "bits": bits,
                        "staleness": staleness, "quiet": True, "summary": path,
                        **({"stale-sites": "all"} if staleness else {})}))
                    summaries[bits] = read_json(path)
                held, epoch, saved = compare(summaries[32], summaries[1])
                if held == 0:
                    sys.exit(f"{data}: no rows cross between {options.parts} parts")
                worst = min(worst, saved / held)
                rows.append([partitioner, str(staleness), human_bytes(held), human_bytes(epoch),
                             human_bytes(summaries[32]["peak_rss_bytes"]),
                             human_bytes(summaries[1]["peak_rss_bytes"]), human_bytes(saved),
                             f"{100 * saved / held:.0f} %", f"{100 * saved / epoch:.0f} %"])
    except CommandFailed as failure:
        sys.exit(str(failure))
    print(format_table(HEADER, rows))
    if worst < options.at_least:
        sys.exit(f"1 bit saves {100 * worst:.0f} % of the fp32 halos, less than "
                 f"{100 * options.at_least:.0f} %")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Chooses the link speed at which an fp32 synchronous epoch waits RATIO times as long as it computes.

Usage: choose_link.py SUMMARY.json RATIO [GBPS]
SUMMARY is that of a synchronous fp32 run, over links of GBPS each or, without it, unshaped ones.
Prints two numbers: waiting : computing as measured, and the Gbit/s to try next. Standard library
only.
"""

import json
import sys

MARGIN = 1.03  # Aim a little slower, so that the measured ratio lands above the wanted one.


def parts(summary):
    """(seconds an epoch waits for node rows, seconds it computes); all-reduce is neither."""
    waiting = summary["seconds"]["exposed_comm"]
    return waiting, sum(summary["seconds"].values()) - waiting - summary["seconds"]["allreduce"]


def measured_ratio(summary):
    """Waiting : computing of the run."""
    waiting, computing = parts(summary)
    return waiting / computing


def next_gbps(summary, ratio, gbps=None):
    """Gbit/s of each directed link at which the run would wait `ratio` times its computing."""
    waiting, computing = parts(summary)
    wanted = ratio * computing * MARGIN
    if gbps:  # Waiting is in inverse proportion to the speed.
        return gbps * waiting / wanted
    traffic = summary["bytes_per_epoch"]
    links = summary["ranks"] * (summary["ranks"] - 1)
    return (traffic["halo_forward"] + traffic["halo_backward"]) / links * 8e-9 / wanted


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__.strip())
    with open(sys.argv[1], encoding="utf-8") as file:
        summary = json.load(file)
    gbps = float(sys.argv[3]) if len(sys.argv) == 4 else None
    print(f"{measured_ratio(summary):.2f} {next_gbps(summary, float(sys.argv[2]), gbps):.4g}")


if __name__ == "__main__":
    main()

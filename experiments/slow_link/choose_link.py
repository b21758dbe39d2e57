#!/usr/bin/env python3
"""Chooses the link speed at which a synchronous fp32 epoch waits RATIO times its computing.

Usage: choose_link.py SUMMARY.json RATIO [GBPS]
SUMMARY is that of a synchronous fp32 run over links of GBPS each or, without GBPS, of no limit.
Prints two numbers: the measured waiting : computing, and the Gbit/s to try next. Standard library
only.
"""

import json
import sys

MARGIN = 1.03  # aims at a slightly slower link, so that the measured ratio is above the wanted one


def parts(summary):
    """Returns (seconds an epoch waits for node rows, seconds it computes), without all-reduce."""
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
    if gbps:  # waiting is inversely proportional to the speed
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

#!/usr/bin/env python3
"""Compares the memory that a rank's process takes while it loads its shard with the shard's size.

Cuts graphs into shards, trains one epoch on each under mpirun with a process for each rank, and
compares `loading_bytes` (most resident memory taken between the first and the last byte read) with
`shard_bytes` (the files). Prints a table; exits 1 if loading takes more than --at-most of the
files. Standard library only; needs mpirun.

Usage: memory/loading.py --out runs/loading [--data DIR ...] [--ranks 4] [--scale 0.1]
"""

import argparse
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from command import CommandFailed, add_command_option, find_command, run
from json_file import read_json
from print_table import format_table, human_bytes

HEADER = ["data", "features", "ranks", "shards", "largest", "taken while loading", "of the shards"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder for graphs, shards and summaries")
    parser.add_argument("--data", nargs="+",
                        help="data sets (default: a products-shaped graph is generated)")
    parser.add_argument("--split", default="0", help="split of the data sets (default: the first)")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--scale", type=float, default=0.1, help="scale of the generated graph")
    parser.add_argument("--at-most", type=float, default=1.2,
                        help="largest memory allowed, as a multiple of the shards' size")
    add_command_option(parser)
    options = parser.parse_args()
    command = find_command(options.heliograph)
    mpirun = shutil.which("mpirun")
    if not mpirun:
        sys.exit("mpirun is not installed: apt-get install openmpi-bin")
    if os.geteuid() == 0:  # as in containers; Open MPI needs both variables
        os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    os.makedirs(options.out, exist_ok=True)
    graphs = options.data or [os.path.join(options.out, f"products-{options.scale}")]
    rows, worst = [], 0.0
    try:
        if not options.data and not os.path.exists(graphs[0]):
            run(command, "generate", "--preset", "products", "--scale", str(options.scale),
                "--seed", "1", "--quiet", "--out", graphs[0])
        for data in graphs:
            name = os.path.basename(os.path.normpath(data))
            shards = os.path.join(options.out, f"{name}-shards")
            summary = os.path.join(options.out, f"{name}.json")
            run(command, "partition", "--data", data, "--parts", str(options.ranks), "--partitioner",
                "random", "--split", options.split, "--out", shards, "--overwrite", "--quiet")
            run(mpirun, "--oversubscribe", "-n", str(options.ranks), command, "train", "--data",
                shards, "--epochs", "1", "--quiet", "--summary", summary)
            result = read_json(summary)
            files = [os.path.getsize(os.path.join(shards, name)) for name in os.listdir(shards)
                     if name.endswith(".shard")]
            if sum(files) != result["shard_bytes"]:
                sys.exit(f"{shards}: {sum(files)} bytes of shards, but the ranks count "
                         f"{result['shard_bytes']}")
            share = result["loading_bytes"] / result["shard_bytes"]
            worst = max(worst, share)
            sparse = read_json(os.path.join(shards, "manifest.json"))["features"]["sparse"]
            rows.append([name, "sparse" if sparse else "dense", str(options.ranks),
                         human_bytes(sum(files)), human_bytes(max(files)),
                         human_bytes(result["loading_bytes"]), f"{share:.2f}"])
    except CommandFailed as failure:
        sys.exit(str(failure))
    print(format_table(HEADER, rows))
    if worst > options.at_most:
        sys.exit(f"loading takes {worst:.2f} times the shards, more than {options.at_most:.2f}")


if __name__ == "__main__":
    main()

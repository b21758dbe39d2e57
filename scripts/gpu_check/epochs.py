#!/usr/bin/env python3
"""Times whole epochs on a device: a small graph with and without CUDA graphs, Reddit- and
products-shaped graphs in fp32 and 1 bit with 1, 2 and 4 ranks, and one rank with --tf32. A time is
the median over the epochs after the first ones, without evaluation. The file lists each row from
its start. Graphs and partitions in --work, whose names tell their sizes, are used again.

Usage: epochs.py --heliograph PATH --work DIR --json FILE [--graphs A,B] [--scale X]
                 [--ranks 1,2,4] [--epochs N] [--partitioner metis|contiguous] [--prepare]
Exit codes: 0; 1 a run failed.
"""

import argparse
import os
import statistics
import sys

from comparisons import check_numbers
from runs import CUT_OFF, FAILURES, reason, run, train
# From experiments/, which `runs` has added to the path.
from json_file import read_json, write_json

WARMUP = 3  # CUDA graphs are made up to the third epoch
NEVER = 1_000_000_000  # epochs between evaluations
MODEL = {"model": "sage", "layers": 3, "hidden": 128, "dropout": 0, "seed": 1, "lr": 0.01,
         "weight_decay": 0}
SMALL = "small"  # launches dominate its epochs, of which many are timed
SMALL_TIMES = 20
SHAPES = {SMALL: ["--nodes", "3000", "--edges", "40000", "--features", "48", "--classes", "8"]}
LIMIT = 900  # seconds that a run may take


class Epochs:
    def __init__(self, options):
        self.options = options
        self.rows = []

    def path(self, name):
        return os.path.join(self.options.work, name)

    def run(self, *arguments):
        run(self.options.heliograph, *arguments, limit=LIMIT)

    def attempt(self, row, action):
        """Adds the row and runs `action`, which returns more of it. Returns False if it fails."""
        self.rows.append(row)
        row["error"] = CUT_OFF
        write_json(self.options.json, self.rows)
        try:
            row |= action() or {}
            del row["error"]
            print({name: row[name] for name in row if name not in ("losses", "seconds")}, flush=True)
        except FAILURES as error:
            row["error"] = reason(error)
            print(f"{row}: {error}", flush=True)
        write_json(self.options.json, self.rows)
        return "error" not in row

    def generate(self, graph):
        """Makes a graph and returns the name of its folder; None if it fails."""
        if graph in SHAPES:
            shape = SHAPES[graph]
            name = "-".join([graph, shape[1], shape[3]])
        else:
            shape = ["--preset", graph, "--scale", self.options.scale]
            name = f"{graph}-{self.options.scale}"
        made = {"graph": graph, "data": name, "what": "generate"}
        if os.path.isdir(self.path(name)) or self.attempt(
                made, lambda: self.run("generate", "--quiet", *shape, "--out", self.path(name))):
            return name
        return None

    def partition(self, graph, data, parts):
        """Partitions a graph and returns the file of owners; None if it fails."""
        owners = self.path(f"{data}.{self.options.partitioner}-{parts}.owners")

        def cut():
            self.run("partition", "--data", self.path(data), "--parts", str(parts), "--partitioner",
                     self.options.partitioner, "--owners", owners + ".partial", "--overwrite")
            os.replace(owners + ".partial", owners)

        row = {"graph": graph, "data": data, "what": "partition", "ranks": parts}
        return owners if os.path.exists(owners) or self.attempt(row, cut) else None

    def train(self, graph, data, owners, parts, bits, more):
        count = self.options.epochs * (SMALL_TIMES if graph == SMALL else 1)
        cut = {"partitioner": f"file:{owners}"} if owners else {}
        losses, seconds = train(self.options.heliograph, self.path("run"), LIMIT,
                                data=self.path(data), device="cuda", transport="threads",
                                parts=parts, bits=bits, epochs=count, eval_every=NEVER,
                                summary=self.path("summary.json"), **MODEL, **cut, **more)
        check_numbers(losses, count, "losses")
        check_numbers(seconds, count, "seconds")
        said = read_json(self.path("summary.json"))
        return {"losses": losses, "seconds": seconds,
                "median": statistics.median(seconds[WARMUP:]), "phases": said["seconds"],
                "memory": said["memory"], "halo_bytes": said["bytes_per_epoch"]}

    def time(self, graph):
        data = self.generate(graph)
        if data is None:
            return
        for parts in map(int, self.options.ranks.split(",")):
            owners = self.partition(graph, data, parts) if parts > 1 else ""
            if owners is None or self.options.prepare:
                continue
            # Bits, and further options.
            settings = [(32, {"tf32": False}), (1, {"tf32": False})][:parts]
            if parts == 1:
                settings.append((32, {"tf32": True}))
            if graph == SMALL:
                settings = [(32, {"tf32": False, "cuda_graphs": how}) for how in ("off", "on")]
            for bits, more in settings:
                row = {"graph": graph, "data": data, "what": "train", "ranks": parts, "bits": bits,
                       "warmup": WARMUP, **more}
                self.attempt(row, lambda: self.train(graph, data, owners, parts, bits, more))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--heliograph", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--json", required=True)
    parser.add_argument("--graphs", default=f"{SMALL},reddit,products")
    parser.add_argument("--scale", default="1")
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--epochs", type=int, default=13)
    parser.add_argument("--partitioner", default="metis", choices=["metis", "contiguous"])
    parser.add_argument("--prepare", action="store_true", help="only make graphs and partitions")
    options = parser.parse_args()
    if options.epochs <= WARMUP:
        parser.error(f"--epochs must be more than {WARMUP}, the epochs that are not timed")
    os.makedirs(options.work, exist_ok=True)
    epochs = Epochs(options)
    for graph in options.graphs.split(","):
        epochs.time(graph)
    return 1 if any("error" in row for row in epochs.rows) else 0


if __name__ == "__main__":
    sys.exit(main())

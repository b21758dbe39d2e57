#!/usr/bin/env python3
"""Times whole epochs on a device: a small graph with CUDA graphs and without, Reddit- and
products-shaped graphs in fp32 and 1 bit, 1, 2 and 4 ranks, and one rank with --tf32. A time is the
median over the epochs after the first ones, evaluation left out. The file holds each row as soon as
it is begun. Graphs and partitions that lie in --work are used again: their names say what they are.

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
# Where `runs` has made modules of experiments/ known.
from json_file import read_json, write_json

WARMUP = 3  # CUDA graphs are made up to the third epoch.
NEVER = 1_000_000_000  # Epochs between evaluations.
MODEL = {"model": "sage", "layers": 3, "hidden": 128, "dropout": 0, "seed": 1, "lr": 0.01,
         "weight_decay": 0}
SMALL = "small"  # Its epochs are as long as their launches: many are timed.
SMALL_TIMES = 20
SHAPES = {SMALL: ["--nodes", "3000", "--edges", "40000", "--features", "48", "--classes", "8"]}
LIMIT = 900  # Seconds of a run.


class Epochs:
    def __init__(self, options):
        self.options = options
        self.rows = []

    def path(self, name):
        return os.path.join(self.options.work, name)

    def run(self, *arguments):
        run(self.options.heliograph, *arguments, limit=LIMIT)

    def attempt(self, row, action):
        """Adds the row, whatever becomes of it."""
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
        """The name of the graph's folder, which says the graph's size; None where it failed."""
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
        """The file of owners; None where it failed."""
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
            # Bits, and what else differs.
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
    parser.add_argument("--prepare", action="store_true", help="make graphs and partitions only")
    options = parser.parse_args()
    if options.epochs <= WARMUP:
        parser.error(f"--epochs must be more than the {WARMUP} that are not counted")
    os.makedirs(options.work, exist_ok=True)
    epochs = Epochs(options)
    for graph in options.graphs.split(","):
        epochs.time(graph)
    return 1 if any("error" in row for row in epochs.rows) else 0


if __name__ == "__main__":
    sys.exit(main())

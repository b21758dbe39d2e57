#!/usr/bin/env python3
"""Times whole epochs on a device: a small graph with and without CUDA graphs, Reddit- and
products-shaped graphs in fp32 and 1 bit with 1, 2 and 4 ranks, and one rank with --tf32; with --pair
Reddit's shape with two ranks by each transport. A time is the median over the epochs after the first
ones, without evaluation. The file lists each row from its start. Graphs and partitions in --work,
whose names tell their sizes, are used again.

Usage: epochs.py --heliograph PATH --work DIR --json FILE [--device cuda|cpu] [--graphs A,B]
                 [--scale X] [--ranks 1,2,4] [--epochs N] [--partitioner metis|contiguous]
                 [--prepare | --pair]
Exit codes: 0; 1 a run failed.
"""

import argparse
import os
import shutil
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
PAIR = [{"transport": "threads"}, {"transport": "nccl"}, {"transport": "nccl", "nccl_register": True}]
PAIR_MPI = [{"transport": "mpi", "cuda_aware_mpi": how} for how in ("off", "on")]


class Epochs:
    def __init__(self, options):
        self.options = options
        self.rows = []
        self.lacking = set()  # graphs that could not be made

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
        if name in self.lacking:
            return None
        if os.path.isdir(self.path(name)) or self.attempt(
                made, lambda: self.run("generate", "--quiet", *shape, "--out", self.path(name))):
            return name
        self.lacking.add(name)
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
        processes = more.get("transport") == "mpi"
        before = ("mpirun", "-n", str(parts)) if processes else ()
        if not processes:
            cut = {"transport": "threads", "parts": parts, **cut}
        losses, seconds = train(self.options.heliograph, self.path("run"), LIMIT, before,
                                data=self.path(data), device=self.options.device, bits=bits,
                                epochs=count, eval_every=NEVER,
                                summary=self.path("summary.json"), **MODEL, **{**cut, **more})
        check_numbers(losses, count, "losses")
        check_numbers(seconds, count, "seconds")
        said = read_json(self.path("summary.json"))
        return {"losses": losses, "seconds": seconds, "shape": self.shape(data),
                "hidden": MODEL["hidden"], "median": statistics.median(seconds[WARMUP:]),
                "phases": said["seconds"],
                "memory": said["memory"], "halo_bytes": said["bytes_per_epoch"],
                "fp32_halo_bytes": said["fp32_bytes_per_epoch"]}

    def shape(self, data):
        manifest = read_json(os.path.join(self.path(data), "manifest.json"))
        counts = {array["name"]: array["count"] for array in manifest["arrays"]}
        return {"nodes": manifest["nodes"], "edges": counts["neighbours"],
                "features": manifest["features"]["cols"], "classes": manifest["labels"]["classes"]}

    def settings(self, graph, parts):
        """Bits, and further options, of the runs of a graph. A CPU has no TF32 and no CUDA graphs."""
        if self.options.pair:
            mpi = "mpi built" in run(self.options.heliograph, "info") and shutil.which("mpirun")
            return [(32, {"tf32": False, **how}) for how in PAIR + (PAIR_MPI if mpi else [])]
        on_gpu = self.options.device == "cuda"
        if graph == SMALL and on_gpu:
            return [(32, {"tf32": False, "cuda_graphs": how}) for how in ("off", "on")]
        found = [(32, {"tf32": False}), (1, {"tf32": False})][:parts]
        return found + ([(32, {"tf32": True})] if parts == 1 and on_gpu else [])

    def time(self, graph, parts):
        data = self.generate(graph)
        owners = self.partition(graph, data, parts) if data and parts > 1 else ""
        if data is None or owners is None or self.options.prepare:
            return
        for bits, more in self.settings(graph, parts):
            row = {"graph": graph, "data": data, "what": "train", "ranks": parts, "bits": bits,
                   "warmup": WARMUP, **more}
            self.attempt(row, lambda: self.train(graph, data, owners, parts, bits, more))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--heliograph", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--json", required=True)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--graphs", default=f"{SMALL},reddit,products")
    parser.add_argument("--scale", default="1")
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--epochs", type=int, default=13)
    parser.add_argument("--partitioner", default="metis", choices=["metis", "contiguous"])
    parser.add_argument("--prepare", action="store_true", help="only make graphs and partitions")
    parser.add_argument("--pair", action="store_true", help="compare transports between two GPUs")
    options = parser.parse_args()
    if options.epochs <= WARMUP:
        parser.error(f"--epochs must be more than {WARMUP}, the epochs that are not timed")
    os.makedirs(options.work, exist_ok=True)
    epochs = Epochs(options)
    if options.pair:
        options.graphs, options.ranks = "reddit", "2"
    # What is cut off has one rank on every graph first.
    for parts in map(int, options.ranks.split(",")):
        for graph in options.graphs.split(","):
            epochs.time(graph, parts)
    return 1 if any("error" in row for row in epochs.rows) else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Times whole epochs on a device: Reddit- and products-shaped graphs, fp32 and 1 bit, 1, 2 and 4
ranks, and one rank with --tf32. A time is the median over the epochs after the first ones,
evaluation left out.

Usage: epochs.py --heliograph PATH --work DIR --json FILE [--device cuda|cpu] [--graphs A,B]
                 [--scale X] [--ranks 1,2,4] [--epochs N] [--partitioner metis|contiguous]
Exit codes: 0; 1 a run failed.
"""

import argparse
import json
import os
import statistics
import sys

from runs import RunFailed, call, train

WARMUP = 2
NEVER = 1_000_000_000  # Epochs between evaluations.
MODEL = {"model": "sage", "layers": 3, "hidden": 128, "dropout": 0, "seed": 1, "lr": 0.01}
SMALL = "small"  # Its epochs are as long as their launches.
SHAPES = {SMALL: ["--nodes", 3000, "--edges", 40000, "--features", 48, "--classes", 8]}


def measure(options, data, owners, parts, bits, **more):
    folder = os.path.join(options.work, "run")
    summary = os.path.join(options.work, "summary.json")
    cut = {"partitioner": f"file:{owners}"} if owners else {}
    losses, seconds = train(options.heliograph, folder, data=data, device=options.device,
                            transport="threads", parts=parts, bits=bits, epochs=options.epochs,
                            eval_every=NEVER, summary=summary, **MODEL, **cut, **more)
    with open(summary, encoding="utf-8") as file:
        said = json.load(file)
    return {"losses": losses, "seconds": seconds, "median": statistics.median(seconds[WARMUP:]),
            "phases": said["seconds"], "memory": said["memory"],
            "halo_bytes": said["bytes_per_epoch"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--heliograph", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--json", required=True)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--graphs", default=f"reddit,products,{SMALL}")
    parser.add_argument("--scale", default="1")
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--partitioner", default="metis", choices=["metis", "contiguous"])
    options = parser.parse_args()
    if options.epochs <= WARMUP:
        parser.error(f"--epochs must be more than the {WARMUP} that are not counted")
    os.makedirs(options.work, exist_ok=True)
    rows = []

    def attempt(row, action):
        """Adds the row, whatever becomes of it."""
        rows.append(row)
        try:
            row |= action() or {}
        except (RunFailed, OSError, KeyError) as error:
            row["error"] = str(error)
        print({name: row[name] for name in row if name not in ("losses", "seconds")}, flush=True)
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
        return "error" not in row

    for graph in options.graphs.split(","):
        data = os.path.join(options.work, graph)
        if not os.path.isdir(data):
            made = {"graph": graph, "what": "generate"}
            shape = SHAPES.get(graph, ["--preset", graph, "--scale", options.scale])
            if not attempt(made, lambda: call(options.heliograph, "generate", "--quiet", *shape,
                                              "--out", data)):
                continue
        for parts in map(int, options.ranks.split(",")):
            owners = os.path.join(options.work, f"{graph}.{parts}.owners") if parts > 1 else ""
            if owners and not attempt(
                    {"graph": graph, "what": "partition", "ranks": parts},
                    lambda: call(options.heliograph, "partition", "--data", data, "--parts", parts,
                                 "--partitioner", options.partitioner, "--owners", owners)):
                continue
            # Bits, and what else differs.
            settings = [(32, {"tf32": False}), (1, {"tf32": False})][:parts]
            if parts == 1 and options.device == "cuda":
                settings.append((32, {"tf32": True}))
            if graph == SMALL and options.device == "cuda":
                settings = [(32, {"tf32": False, "cuda_graphs": how}) for how in ("off", "on")]
            for bits, more in settings:
                attempt({"graph": graph, "what": "train", "ranks": parts, "bits": bits, **more},
                        lambda: measure(options, data, owners, parts, bits, **more))
    return 1 if any("error" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Holds training on a device against the CPU: single steps from the same weights (loss and gradient
of each parameter), with --tf32 too, and the losses of 20 epochs, with 1, 2 and 4 ranks on one
device.

Usage: oracle.py --heliograph PATH --work DIR --json FILE [--device cuda|cpu]
                 [--transport threads|nccl] [--ranks 1,2,4] [--quick]
Exit codes: 0 all within bounds, 1 something is not, or a run failed.
"""

import argparse
import json
import math
import os
import shutil
import sys

from runs import RunFailed, call, first_gradients, train

# Relative. At 32 bits a step differs by the order of fp32 sums only. With fewer bits, such a
# difference now and then moves a value to the code beside it, a whole step of its row away.
STEP_LOSS = {32: 1e-5, 1: 1e-3}
STEP_GRADIENT = {32: 1e-4, 1: 2e-2}
EPOCH_LOSS = {32: 5e-3, 1: 5e-2}
# A factor of each product is off by a share of 2^-10 at most, layer after layer, either way.
TF32_STEP = {"loss": 2e-3, "gradient": 2e-2}
EPOCHS = 20

GRAPHS = {
    "classes": ["--nodes", 3000, "--edges", 40000, "--features", 48, "--classes", 8],
    "labels": ["--nodes", 2000, "--edges", 15000, "--features", 33, "--classes", 9,
               "--multilabel"],
}


def relative(a, b):
    return abs(a - b) / max(abs(b), 1e-12)


def distance(a, b):
    return math.sqrt(math.fsum((x - y) ** 2 for x, y in zip(a, b, strict=True)))


def gradient_difference(ours, theirs):
    """The largest difference of a parameter's gradient, relative to that gradient's norm."""
    if set(ours) != set(theirs) or not theirs:
        raise RunFailed("the checkpoints do not hold the same parameters")
    return max(distance(ours[name], theirs[name]) / max(math.hypot(*theirs[name]), 1e-12)
               for name in theirs)


class Oracle:
    def __init__(self, options):
        self.options = options
        self.rows = []

    def folder(self, name):
        return os.path.join(self.options.work, name)

    def run(self, device, epochs, case, **more):
        transport = "threads" if device == "cpu" else self.options.transport
        losses, _ = train(self.options.heliograph, self.folder(device), device=device,
                          transport=transport, epochs=epochs, partitioner="contiguous",
                          **case, **more)
        return losses

    def compare(self, kind, case, measure, bounds):
        """A row of the report; `measure` returns a difference for each name in `bounds`."""
        row = {"kind": kind, **case, "data": os.path.basename(case["data"])}
        try:
            row["differences"] = measure()
            row["bounds"] = bounds
            row["passed"] = all(row["differences"][name] <= bound
                                for name, bound in bounds.items())
        except (RunFailed, OSError, KeyError, ValueError) as error:
            row |= {"passed": False, "error": str(error)}
        self.rows.append(row)
        said = row.get("error") or ", ".join(f"{name} {value:.1e} (bound {bounds[name]:.0e})"
                                             for name, value in row["differences"].items())
        print(f"{'ok ' if row['passed'] else 'BAD'} {kind}: {row['data']} {case['model']}, "
              f"{case['bits']} bits, {case['parts']} ranks, seed {case['seed']}: {said}", flush=True)

    def step(self, case, tf32=False):
        def measure():
            found = {}
            for device in ("cpu", self.options.device):
                folder = self.folder(device)
                loss = self.run(device, 1, case, checkpoint_every=1,
                                tf32=tf32 and device != "cpu")[0]
                found[device] = loss, first_gradients(folder)
                shutil.rmtree(folder)
            (loss, gradients), (wanted, wanted_gradients) = (found[self.options.device],
                                                             found["cpu"])
            return {"loss": relative(loss, wanted),
                    "gradient": gradient_difference(gradients, wanted_gradients)}

        bounds = {"loss": STEP_LOSS[case["bits"]], "gradient": STEP_GRADIENT[case["bits"]]}
        if tf32:
            self.compare("tf32 step", case, measure, TF32_STEP)
        else:
            self.compare("step", case, measure, bounds)

    def epochs(self, case):
        def measure():
            losses = self.run(self.options.device, EPOCHS, case)
            wanted = self.run("cpu", EPOCHS, case)
            return {"loss": max(relative(a, b) for a, b in zip(losses, wanted, strict=True))}

        self.compare("epochs", case, measure, {"loss": EPOCH_LOSS[case["bits"]]})

    def across_ranks(self, case):
        """A device with several ranks against one rank of the CPU."""
        def measure():
            loss = self.run(self.options.device, 1, case)[0]
            wanted = self.run("cpu", 1, {**case, "parts": 1})[0]
            return {"loss": relative(loss, wanted)}

        self.compare("ranks", case, measure, {"loss": STEP_LOSS[32]})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--heliograph", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--json", required=True)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--transport", default="threads", choices=["threads", "nccl"])
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--quick", action="store_true", help="one graph, one model, one seed")
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    oracle = Oracle(options)
    graphs = list(GRAPHS)[:1] if options.quick else list(GRAPHS)
    models = ["sage"] if options.quick else ["sage", "gcn"]
    for graph in graphs:
        data = oracle.folder(graph)
        call(options.heliograph, "generate", "--quiet", "--overwrite", "--out", data,
             *GRAPHS[graph])
        for model in models:
            for parts in map(int, options.ranks.split(",")):
                for bits in (32,) if parts == 1 else (32, 1):
                    case = {"data": data, "model": model, "hidden": 64, "parts": parts,
                            "bits": bits, "seed": 1}
                    for seed in (1,) if options.quick else (1, 2, 3):
                        oracle.step({**case, "seed": seed})
                    oracle.epochs(case)
                if parts == 1 and options.device == "cuda":
                    oracle.step(case, tf32=True)
                if parts > 1:
                    oracle.across_ranks({**case, "bits": 32})
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump(oracle.rows, file, indent=1)
    return 0 if all(row["passed"] for row in oracle.rows) else 1


if __name__ == "__main__":
    sys.exit(main())

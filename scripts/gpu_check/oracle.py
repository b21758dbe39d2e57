#!/usr/bin/env python3
"""Compares training on a device with the CPU: single steps from the same weights (loss and gradient
of each parameter), also with --tf32, and the losses of 20 epochs, also with stale rows, with 1, 2 and
4 ranks on one device. The file has a row for each comparison from the start; results are filled in.

Usage: oracle.py --heliograph PATH --work DIR --json FILE [--device cuda|cpu]
                 [--transport threads|nccl] [--ranks 1,2,4] [--quick]
Exit codes: 0 all within bounds; 1 a difference is not, or a run failed.
"""

import argparse
import os
import shutil
import sys

from comparisons import gradient_difference, loss_difference, within
from runs import CUT_OFF, FAILURES, reason, run, train
# From experiments/, which `runs` has added to the path.
from json_file import write_json
from run_files import first_gradients

# Bounds of relative differences. At 32 bits a step differs only by the order of fp32 sums. With
# fewer bits, such a difference sometimes moves a value to the next code, one step of its row away.
STEP_LOSS = {32: 1e-5, 1: 1e-3}
STEP_GRADIENT = {32: 1e-4, 1: 2e-2}
EPOCH_LOSS = {32: 5e-3, 1: 5e-2}
# TF32 changes a factor of each product by a relative 2^-10 at most, in every layer.
TF32_STEP = {"loss": 2e-3, "gradient": 2e-2}
EPOCHS = 20
LIMIT = 120  # seconds that a run may take, so that one that hangs leaves time for others

GRAPHS = {
    "classes": ["--nodes", 3000, "--edges", 40000, "--features", 48, "--classes", 8],
    "labels": ["--nodes", 2000, "--edges", 15000, "--features", 33, "--classes", 9,
               "--multilabel"],
}


class Oracle:
    def __init__(self, options):
        self.options = options
        self.rows = []
        self.measures = []
        self.generated = set()

    def folder(self, name):
        return os.path.join(self.options.work, name)

    def graph(self, name):
        if name not in self.generated:
            run(self.options.heliograph, "generate", "--quiet", "--overwrite", "--out",
                self.folder(name), *map(str, GRAPHS[name]), limit=LIMIT)
            self.generated.add(name)
        return self.folder(name)

    def train(self, device, epochs, case, **more):
        where = {"cpu": "cpu", "device": self.options.device}[device]
        transport = "threads" if device == "cpu" else self.options.transport
        losses, _ = train(self.options.heliograph, self.folder(device), LIMIT, device=where,
                          transport=transport, epochs=epochs, partitioner="contiguous",
                          **{**case, "data": self.graph(case["data"])}, **more)
        return losses

    def plan(self, kind, case, measure, bounds):
        """Adds a row to the report; `measure` returns a difference for each name in `bounds`."""
        self.rows.append({"kind": kind, **case, "bounds": bounds, "passed": False,
                          "error": "not run"})
        self.measures.append(measure)

    def plan_step(self, case, tf32=False):
        def measure():
            found = {}
            for device in ("cpu", "device"):
                folder = self.folder(device)
                losses = self.train(device, 1, case, checkpoint_every=1,
                                    tf32=tf32 and device != "cpu")
                found[device] = losses, first_gradients(folder)
                shutil.rmtree(folder)
            (losses, gradients), (wanted, wanted_gradients) = found["device"], found["cpu"]
            return {"loss": loss_difference(losses, wanted, 1),
                    "gradient": gradient_difference(gradients, wanted_gradients)}

        if tf32:
            self.plan("tf32 step", case, measure, TF32_STEP)
        else:
            self.plan("step", case, measure, {"loss": STEP_LOSS[case["bits"]],
                                              "gradient": STEP_GRADIENT[case["bits"]]})

    def plan_epochs(self, case):
        def measure():
            losses = self.train("device", EPOCHS, case)
            return {"loss": loss_difference(losses, self.train("cpu", EPOCHS, case), EPOCHS)}

        self.plan("epochs", case, measure, {"loss": EPOCH_LOSS[case["bits"]]})

    def plan_across_ranks(self, case):
        """Compares a step of several ranks on the device with a step of one rank on the CPU."""
        def measure():
            losses = self.train("device", 1, case)
            return {"loss": loss_difference(losses, self.train("cpu", 1, {**case, "parts": 1}), 1)}

        self.plan("ranks", case, measure, {"loss": STEP_LOSS[32]})

    def measure(self):
        """Fills in the rows. Returns whether all are within their bounds."""
        plan = list(zip(self.rows, self.measures, strict=True))
        plan.sort(key=lambda planned: planned[0]["seed"])  # what is cut off has some of every kind
        for row, measure in plan:
            row["error"] = CUT_OFF
            write_json(self.options.json, self.rows)
            try:
                row["differences"] = measure()
                row["passed"] = within(row["differences"], row["bounds"])
                del row["error"]
                said = ", ".join(f"{name} {value:.1e} (bound {row['bounds'][name]:.0e})"
                                 for name, value in row["differences"].items())
            except FAILURES as error:
                row["error"] = reason(error)
                said = str(error)
            print(f"{'ok ' if row['passed'] else 'BAD'} {row['kind']}: {row['data']} "
                  f"{row['model']}, {row['bits']} bits, {row['parts']} ranks, seed {row['seed']}: "
                  f"{said}", flush=True)
        write_json(self.options.json, self.rows)
        return bool(self.rows) and all(row["passed"] for row in self.rows)


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
    for graph in list(GRAPHS)[:1] if options.quick else GRAPHS:
        for model in ["sage"] if options.quick else ["sage", "gcn"]:
            for parts in map(int, options.ranks.split(",")):
                for bits in (32,) if parts == 1 else (32, 1):
                    case = {"data": graph, "model": model, "hidden": 64, "parts": parts,
                            "bits": bits, "seed": 1}
                    for seed in (1,) if options.quick else (1, 2, 3):
                        oracle.plan_step({**case, "seed": seed})
                    oracle.plan_epochs(case)
                if parts == 1 and options.device == "cuda":
                    oracle.plan_step(case, tf32=True)
                elif parts > 1:
                    oracle.plan_across_ranks({**case, "bits": 32})
                    # Over NCCL, halos and weights are in flight at once.
                    oracle.plan_epochs({**case, "bits": 32, "staleness": 2, "stale-sites": "all"})
    return 0 if oracle.measure() else 1


if __name__ == "__main__":
    sys.exit(main())

"""The contestants. Each run trains once in a process of its own and returns one result.

A result holds losses and seconds of each epoch, `bytes` (peak of the process), `training_bytes`
(peak while training), `loaded_bytes` (the program before it reads any data) and versions.
"""

import os
import statistics
from dataclasses import dataclass, field

from command import read_metrics
from environments import child_environment, interpreter, why_unusable
from json_file import read_json, write_json
from processes import run_measured

HERE = os.path.dirname(os.path.abspath(__file__))
SPARSE = ["mm-int32", "mm-int64", "reduce-int32", "reduce-int64"]
MODULES = {"pytorch": ["numpy", "torch"], "pyg": ["torch_geometric"], "dgl": ["torch", "dgl"]}
NO_STEP = "1e-30"  # a learning rate that leaves weights as they are


@dataclass
class Contestant:
    name: str
    trial_variants: list = field(default_factory=list)  # the fastest of them is measured
    variant: str = ""
    unusable: str = ""  # the reason why it cannot be measured, if any
    notes: list = field(default_factory=list)

    def run(self, job, folder):
        raise NotImplementedError


@dataclass
class Heliograph(Contestant):
    command: str = ""

    def initial_weights(self, job, folder):
        """Writes the weights with which everyone begins, and returns their path."""
        out = os.path.join(folder, "initial")
        run_measured([self.command, "train", "--quiet", "--out", out, "--epochs", "1", "--lr",
                      NO_STEP, *self.flags(job)], child_environment(job["threads"]))
        return os.path.join(out, "best.safetensors")

    @staticmethod
    def flags(job):
        return ["--data", job["data"], *job["model"], "--dropout", "0", "--parts", "1",
                "--eval-every", "0", "--threads-per-rank", str(job["threads"])]

    def run(self, job, folder):
        out, summary = os.path.join(folder, "run"), os.path.join(folder, "summary.json")
        line = [self.command, "train", "--quiet", "--overwrite", "--out", out, "--summary", summary,
                "--init-from", job["weights"], *self.flags(job)]
        for name in ("lr", "weight_decay", "epochs"):
            line += ["--" + name.replace("_", "-"), str(job[name])]
        if not job["precompute"]:
            line.append("--no-precompute")
        peak = run_measured(line, child_environment(job["threads"]))
        epochs, training = read_metrics(out), read_json(summary)["peak_rss_bytes"]
        return {"losses": [e["loss"] for e in epochs], "seconds": [e["seconds"] for e in epochs],
                "bytes": peak, "training_bytes": training,
                "loaded_bytes": run_measured([self.command, "info"]), "versions": {}}


@dataclass
class PythonFramework(Contestant):
    python: str = ""
    framework: str = ""  # names the module with_<framework>.py
    reference_variant: str = ""  # the usual way to use the framework

    def run(self, job, folder):
        asked, answered = os.path.join(folder, "job.json"), os.path.join(folder, "result.json")
        write_json(asked, {**job, "framework": self.framework, "variant": self.variant})
        peak = run_measured([self.python, "-B", "-W", "ignore", os.path.join(HERE, "worker.py"),
                             asked, answered], child_environment(job["threads"]))
        return {**read_json(answered), "bytes": peak}


def all_frameworks(folder, debian_python):
    """Returns {name on the command line: framework}; `folder` has the virtual environments."""
    def rival(name, python, framework, variants, usual):
        return PythonFramework(name=name, python=python, framework=framework,
                               trial_variants=variants, reference_variant=usual)

    pytorch, dgl = (interpreter(folder, name) if folder else "" for name in ("pytorch", "dgl"))
    return {
        "debian": rival("PyTorch of Debian, sparse", debian_python, "pytorch", SPARSE, "mm-int64"),
        "debian-bag": rival("PyTorch of Debian, embedding_bag", debian_python, "pytorch", ["bag"],
                            "bag"),
        "pytorch": rival("PyTorch, sparse", pytorch, "pytorch", SPARSE, "mm-int64"),
        "pytorch-bag": rival("PyTorch, embedding_bag", pytorch, "pytorch", ["bag"], "bag"),
        "pyg": rival("PyG", pytorch, "pyg",
                     ["csr-int32", "csr-int64", "reduce-int64", "gather-int64"], "gather-int64"),
        "dgl": rival("DGL", dgl, "dgl", ["int32", "int64"], "int64"),
    }


def mark_unusable(frameworks, threads):
    for one in frameworks:
        one.unusable = why_unusable(one.python, MODULES[one.framework], threads) or ""


def gathered_bytes(job, entries):
    """Approximate memory of PyG with a row for each edge: rows, weighted rows and gradient."""
    return 3 * 4 * entries * job["widest"]


def available_bytes():
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))


def median_seconds(seconds, warmup):
    return statistics.median(seconds[warmup:])

"""The contestants. Each run trains once in a process of its own and returns one result.

A result holds losses and seconds of each epoch, `bytes` (peak of the process), `training_bytes`
(peak while training), `loaded_bytes` (the program before it reads any data) and versions.
"""

import os
import statistics
from dataclasses import dataclass, field

from command import read_metrics
from environments import child_environment
from json_file import read_json, write_json
from processes import run_measured

HERE = os.path.dirname(os.path.abspath(__file__))
NEVER = 1_000_000_000  # epochs between evaluations


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

    def run(self, job, folder):
        out, summary = os.path.join(folder, "run"), os.path.join(folder, "summary.json")
        line = [self.command, "train", "--quiet", "--overwrite", "--out", out, "--summary", summary,
                "--dropout", "0", "--parts", "1", "--eval-every", str(NEVER),
                "--threads-per-rank", str(job["threads"])]
        for name in ("data", "model", "layers", "hidden", "norm", "seed", "lr", "weight_decay",
                     "epochs"):
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

    def run(self, job, folder):
        asked, answered = os.path.join(folder, "job.json"), os.path.join(folder, "result.json")
        write_json(asked, {**job, "framework": self.framework, "variant": self.variant})
        peak = run_measured([self.python, "-B", "-W", "ignore", os.path.join(HERE, "worker.py"),
                             asked, answered], child_environment(job["threads"]))
        return {**read_json(answered), "bytes": peak}


def gathered_bytes(job, entries):
    """Approximate memory of PyG with a row for each edge: rows, weighted rows and gradient."""
    return 3 * 4 * entries * job["hidden"]


def available_bytes():
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))


def median_seconds(seconds, warmup):
    return statistics.median(seconds[warmup:])

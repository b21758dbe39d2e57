"""Training runs of the fault campaign: their flags, the files that they write, and whether two of
them have the same results, bit for bit. Standard library only."""

import glob
import json
import os
import re
import subprocess
import sys
import time
from typing import NamedTuple

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from command import make_flags
from json_file import read_json
from jobs import ENVIRONMENT, over_mpirun

# The fields of run.json's result that may differ from run to run.
TIMES = ("epoch_seconds", "seconds", "setup_seconds", "peak_rss_bytes", "setup_peak_rss_bytes",
         "memory")
SECONDS = 60  # The longest that a command may take.


class Cell(NamedTuple):
    """One setting of a campaign."""
    ranks: int
    bits: int
    staleness: int
    every: int  # epochs between checkpoints
    epochs: int
    tcp: bool = False  # Whether messages go by TCP, although ranks of one host could share memory.

    def __str__(self):
        return (f"{self.ranks} ranks, {self.bits} bits, S = {self.staleness}, saved every "
                f"{self.every}")

    @property
    def key(self):
        return "-".join(map(str, map(int, self)))


class Outcome(NamedTuple):
    """How a command ended."""
    code: int  # The exit code, -signal, or None if the command had to be killed.
    said: str


def run_words(line, seconds=SECONDS):
    """Runs a command to its end."""
    try:
        done = subprocess.run(line, env={**os.environ, **ENVIRONMENT}, cwd="/", text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False,
                              stderr=subprocess.STDOUT, errors="replace", timeout=seconds,
                              start_new_session=True)
    except subprocess.TimeoutExpired as late:
        return Outcome(None, f"did not end within {seconds} s: {late.output or b''}")
    return Outcome(done.returncode, done.stdout)


class Runs:
    """Makes the command lines for one heliograph command and one data set."""

    def __init__(self, command, data):
        self.command, self.data = command, data

    def generate(self, nodes, edges):
        done = run_words([self.command, "generate", "--nodes", str(nodes), "--edges", str(edges),
                          "--features", "24", "--classes", "5", "--seed", "3", "--quiet", "--out",
                          self.data])
        if done.code != 0:
            sys.exit(f"{self.command} generate: exit code {done.code}\n{done.said}")

    def train(self, cell, out, more=()):
        """Returns the words of a training command whose ranks are mpirun's processes."""
        return [self.command, "train", *make_flags({
            "data": self.data, "hidden": 32, "layers": 3, "epochs": cell.epochs, "eval-every": 7,
            "bits": cell.bits, "staleness": cell.staleness, "stale-sites": "all", "checkpoint-every": cell.every,
            "threads-per-rank": 1, "quiet": True, "out": out}), *more]

    def train_threads(self, cell, out, more=()):
        return self.train(cell, out, ["--transport", "threads", "--parts", str(cell.ranks), *more])

    def resume(self, cell, point, by, more=()):
        """Resumes a run or a checkpoint, by "threads" or by "mpirun"."""
        words = [self.command, "train", "--resume", point, "--quiet", *more]
        if by == "threads":
            return run_words([*words, "--transport", "threads"])
        return run_words([*over_mpirun(cell.ranks), *words, "--transport", "mpi"])


def status(run):
    """Returns the status in run.json, or None while that file does not exist."""
    try:
        return read_json(os.path.join(run, "run.json"))["status"]
    except FileNotFoundError:
        return None


def completed_by(run, when):
    """Whether a run had written all its results at a time of time.monotonic()."""
    if status(run) != "completed":
        return False
    age = time.time() - os.stat(os.path.join(run, "run.json")).st_mtime
    return time.monotonic() - age <= when


def checkpoints(run):
    """Returns {epoch: path} of the complete checkpoints of a run, the newest last."""
    found = glob.glob(os.path.join(run, "checkpoints", "epoch-*"))
    return {int(path.rpartition("-")[2]): path for path in sorted(found)}


def epochs_written(run):
    """Returns the number of lines of metrics.jsonl."""
    try:
        with open(os.path.join(run, "metrics.jsonl"), "rb") as file:
            return file.read().count(b"\n")
    except FileNotFoundError:
        return 0


def read_bytes(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def traces(run):
    """Returns the results of a finished run, without times, as {name: bytes}. Raises OSError,
    KeyError or ValueError if a result is missing or malformed."""
    result = read_json(os.path.join(run, "run.json"))["result"]
    saved = checkpoints(run)
    if not saved:
        raise ValueError(f"{run}: no checkpoint at its end")
    last = max(saved)
    return {
        "metrics.jsonl": re.sub(rb'"seconds": ?[^,}]+', b"", read_bytes(run, "metrics.jsonl")),
        "predictions.npy": read_bytes(run, "predictions.npy"),
        "the result in run.json": json.dumps(
            {key: value for key, value in result.items() if key not in TIMES}).encode(),
        "the epochs of the last checkpoint": str(last).encode(),
        "the weights": read_bytes(saved[last], "weights.safetensors"),
    }


def differences(run, reference):
    """Returns a sentence for each result of a run that is not, bit for bit, that of `reference`."""
    expected = traces(reference)
    try:
        found = traces(run)
    except (OSError, KeyError, ValueError, AttributeError) as error:
        return [f"no finished run: {error}"]
    return [f"{name} differs" for name in expected if found[name] != expected[name]]


def resume_errors(runs, cell, point, by, reference, out=None):
    """Resumes a run or a checkpoint (into `out`, if given). Returns a sentence for each error."""
    done = runs.resume(cell, point, by, ["--out", out] if out else [])
    name = os.path.basename(point)
    if done.code != 0:
        return [f"--resume {name} by {by}: exit code {done.code}: {done.said.strip()[-500:]}"]
    return [f"--resume {name} by {by}: {sentence}"
            for sentence in differences(out or point, reference)]


def restart_errors(runs, cell, run, reference):
    """Checks a run that had saved nothing: --resume must say so, and a new run with --overwrite
    must succeed. Returns a sentence for each error."""
    wrong = []
    refused = runs.resume(cell, run, "threads")
    if refused.code != 3 or not re.search("no checkpoint|no such directory", refused.said):
        wrong.append(f"--resume of a run that saved nothing: exit code {refused.code}: "
                     f"{refused.said.strip()[-500:]}")
    done = run_words(runs.train_threads(cell, run, ["--overwrite"]))
    if done.code != 0:
        return [*wrong, f"--overwrite: exit code {done.code}: {done.said.strip()[-500:]}"]
    return wrong + [f"--overwrite: {sentence}" for sentence in differences(run, reference)]

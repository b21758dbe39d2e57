"""Trains and times epochs, for the other scripts of this folder."""

if __name__ == "__main__":
    raise SystemExit("epochs.py is a part of run.py: start that")

import os

from command import make_flags, read_metrics, run
from json_file import read_json

WARM_UP = 5  # first epochs of a run, which are not timed


def train(command, epochs, settings, scratch, *flags):
    """Trains once, evaluating at the end. Returns (seconds of `epochs` epochs, summary)."""
    out, summary = os.path.join(scratch, "run"), os.path.join(scratch, "summary.json")
    run(command, "train", *make_flags({
        **settings, "epochs": epochs + WARM_UP, "eval-every": 1000, "seed": 1, "out": out,
        "overwrite": True, "summary": summary, "quiet": True}), *flags)
    return [line["seconds"] for line in read_metrics(out)][WARM_UP:], read_json(summary)

"""Trains and times epochs: what the scripts beside this file share."""

import os

from command import make_flags, read_metrics, run
from json_file import read_json

WARM_UP = 5  # epochs of a run that are left out


def train(command, epochs, settings, scratch, *flags):
    """(seconds of `epochs` epochs, summary) of one run, which evaluates at its end only."""
    out, summary = os.path.join(scratch, "run"), os.path.join(scratch, "summary.json")
    run(command, "train", *make_flags({
        **settings, "epochs": epochs + WARM_UP, "eval-every": 1000, "seed": 1, "out": out,
        "overwrite": True, "summary": summary, "quiet": True}), *flags)
    return [line["seconds"] for line in read_metrics(out)][WARM_UP:], read_json(summary)

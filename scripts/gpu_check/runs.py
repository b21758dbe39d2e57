"""Runs the `heliograph` command and reads its losses and times."""

import os
import struct
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "experiments"))
from command import CommandFailed, make_flags, read_metrics, run

# The exceptions that a run, or reading its results, can raise.
FAILURES = (CommandFailed, OSError, LookupError, TypeError, ValueError, struct.error)
CUT_OFF = "cut off"  # the error of a measurement until it is complete


def reason(error):
    """Describes an error in one line; for a command, its exit code and the end of its output."""
    first, *words = str(error).split("\n")
    if isinstance(error, CommandFailed):
        return ": ".join([first.split(": ")[0], *words[-1:]])
    return f"{type(error).__name__}: {first}"


def train(command, folder, limit, before=(), **options):
    """Trains for at most `limit` seconds and returns (losses, seconds) of the epochs. `before`: words
    before the command, of what starts its processes."""
    flags = make_flags({name.replace("_", "-"): value for name, value in options.items()})
    run(*before, command, "train", "--quiet", "--overwrite", "--out", folder, *flags, limit=limit)
    epochs = read_metrics(folder)
    return [e["loss"] for e in epochs], [e["seconds"] for e in epochs]

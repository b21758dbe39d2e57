"""Runs the `heliograph` command and reads its results: losses, times, gradients of a step."""

import array
import os
import struct
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "experiments"))
from command import CommandFailed, make_flags, read_metrics, run

BETA1 = 0.9  # of Adam: the first moment after one step is 1 - BETA1 times the gradient
# The exceptions that a run, or reading its results, can raise.
FAILURES = (CommandFailed, OSError, LookupError, TypeError, ValueError, struct.error)
CUT_OFF = "cut off"  # the error of a measurement until it is complete


def reason(error):
    """Describes an error in one line; for a command, its exit code and the end of its output."""
    first, *words = str(error).split("\n")
    if isinstance(error, CommandFailed):
        return ": ".join([first.split(": ")[0], *words[-1:]])
    return f"{type(error).__name__}: {first}"


def train(command, folder, limit, **options):
    """Trains for at most `limit` seconds and returns (losses, seconds) of the epochs."""
    flags = make_flags({name.replace("_", "-"): value for name, value in options.items()})
    run(command, "train", "--quiet", "--overwrite", "--out", folder, *flags, limit=limit)
    epochs = read_metrics(folder)
    return [e["loss"] for e in epochs], [e["seconds"] for e in epochs]


def read_sections(path):
    """Returns {name: payload} of the sections of a state file (docs/checkpoints.md)."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:8] != b"HGSTATE1":
        raise ValueError(f"{path} is not a state file")
    sections, at = {}, 8

    def padded(count):
        return (count + 7) // 8 * 8

    while at < len(data):
        name_bytes, payload_bytes = struct.unpack_from("<QQ", data, at)
        name = data[at + 16:at + 16 + name_bytes].decode("ascii")
        begin = at + 16 + padded(name_bytes)
        sections[name] = data[begin:begin + payload_bytes]
        if len(sections[name]) != payload_bytes:
            raise ValueError(f"{path} ends within {name}")
        at = begin + padded(payload_bytes) + 8
    return sections


def first_gradients(folder):
    """Returns {parameter: gradient} of the first step of a run that saved a checkpoint after it."""
    sections = read_sections(os.path.join(folder, "checkpoints", "epoch-000001", "run.state"))
    prefix = "first_moment."
    return {name[len(prefix):]: [m / (1 - BETA1) for m in array.array("f", payload)]
            for name, payload in sections.items() if name.startswith(prefix)}

"""Runs of the `heliograph` command, and what they leave: losses, times, gradients of a step."""

import array
import os
import struct
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "experiments"))
from command import CommandFailed, make_flags, read_metrics, run

BETA1 = 0.9  # Adam's, so that its first moment after one step is 0.1 of that step's gradient.
# What a run, or reading what it left, can end in.
FAILURES = (CommandFailed, OSError, LookupError, TypeError, ValueError, struct.error)
CUT_OFF = "cut off"  # Of what is being measured, until it is done.


def reason(error):
    """One line: of a command its exit code and its last words."""
    first, *words = str(error).split("\n")
    if isinstance(error, CommandFailed):
        return ": ".join([first.split(": ")[0], *words[-1:]])
    return f"{type(error).__name__}: {first}"


def train(command, folder, limit, **options):
    """(losses, seconds) of each epoch, from a run of `limit` seconds at most."""
    flags = make_flags({name.replace("_", "-"): value for name, value in options.items()})
    run(command, "train", "--quiet", "--overwrite", "--out", folder, *flags, limit=limit)
    epochs = read_metrics(folder)
    return [e["loss"] for e in epochs], [e["seconds"] for e in epochs]


def read_sections(path):
    """{name: payload} of a state file (docs/checkpoints.md)."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:8] != b"HGSTATE1":
        raise ValueError(f"{path} is no state file")
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
    """{parameter: gradient of the first step} of a run of one epoch that saved a checkpoint."""
    sections = read_sections(os.path.join(folder, "checkpoints", "epoch-000001", "run.state"))
    prefix = "first_moment."
    return {name[len(prefix):]: [m / (1 - BETA1) for m in array.array("f", payload)]
            for name, payload in sections.items() if name.startswith(prefix)}

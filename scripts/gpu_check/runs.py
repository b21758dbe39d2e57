"""Runs of the `heliograph` command, and what they leave: losses, gradients of a step, summaries."""

import array
import json
import os
import struct
import subprocess

BETA1 = 0.9  # Adam's, so that its first moment after one step is 0.1 of that step's gradient.


class RunFailed(Exception):
    """The command ended with another exit code than 0; the text holds its last words."""


def call(command, *arguments):
    done = subprocess.run([command, *map(str, arguments)], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        last = done.stderr.strip().split("\n")[-1]
        raise RunFailed(f"exit code {done.returncode}: {last}")


def train(command, folder, **options):
    """(losses, seconds) of each epoch. Options that are True or False are switches."""
    flags = []
    for name, value in options.items():
        if value is not False:
            flags += ["--" + name.replace("_", "-")] + ([] if value is True else [str(value)])
    call(command, "train", "--quiet", "--overwrite", "--out", folder, *flags)
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
        epochs = [json.loads(line) for line in file]
    return [e["loss"] for e in epochs], [e["seconds"] for e in epochs]


def read_sections(path):
    """{name: payload} of a state file (docs/checkpoints.md)."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:8] != b"HGSTATE1":
        raise RunFailed(f"{path} is no state file")
    sections, at = {}, 8

    def padded(count):
        return (count + 7) // 8 * 8

    while at < len(data):
        name_bytes, payload_bytes = struct.unpack_from("<QQ", data, at)
        name = data[at + 16:at + 16 + name_bytes].decode("ascii")
        begin = at + 16 + padded(name_bytes)
        sections[name] = data[begin:begin + payload_bytes]
        at = begin + padded(payload_bytes) + 8
    return sections


def first_gradients(folder):
    """{parameter: gradient of the first step} of a run of one epoch that saved a checkpoint."""
    sections = read_sections(os.path.join(folder, "checkpoints", "epoch-000001", "run.state"))
    prefix = "first_moment."
    return {name[len(prefix):]: [m / (1 - BETA1) for m in array.array("f", payload)]
            for name, payload in sections.items() if name.startswith(prefix)}

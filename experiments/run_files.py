"""Reads weights and gradients that the command leaves in files (docs/checkpoints.md)."""

import array
import json
import os
import struct

BETA1 = 0.9  # of Adam: the first moment after one step is 1 - BETA1 times the gradient


def read_weights(path):
    """Returns (options of the model by flag name, {tensor: fp32 NumPy array}) of a .safetensors
    file."""
    import numpy as np
    with open(path, "rb") as file:
        data = file.read()
    begin = 8 + struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:begin])
    options = json.loads(header.pop("__metadata__")["model"])["options"]
    tensors = {}
    for name, entry in header.items():
        first, end = entry["data_offsets"]
        values = np.frombuffer(data, "<f4", (end - first) // 4, begin + first)
        tensors[name] = values.reshape(entry["shape"])
    return options, tensors


def read_sections(path):
    """Returns {name: payload} of the sections of a state file."""
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

"""Reads weights and gradients that the command leaves in files (docs/checkpoints.md)."""

import array
import glob
import json
import math
import os
import struct

BETA1 = 0.9  # of Adam: the first moment after one step is 1 - BETA1 times the gradient


def read_header(path):
    """Returns (options of the model by flag name, {tensor: its entry}, bytes of the file, where the
    tensors begin) of a .safetensors file."""
    with open(path, "rb") as file:
        data = file.read()
    begin = 8 + struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:begin])
    return json.loads(header.pop("__metadata__")["model"])["options"], header, data, begin


def read_weights(path):
    """Returns (options of the model by flag name, {tensor: fp32 NumPy array}) of a .safetensors
    file."""
    import numpy as np
    options, header, data, begin = read_header(path)
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
    """Returns {parameter: gradient} of the first step of a run with gradients of 32 bits that saved a
    checkpoint after it."""
    checkpoint = os.path.join(folder, "checkpoints", "epoch-000001")
    files = sorted(glob.glob(os.path.join(checkpoint, "rank-*.state")))
    flat = {}  # A value's place among the parameters, and its gradient.
    for rank, path in enumerate(files):
        sections = read_sections(path)
        moments = iter(array.array("f", sections["first_moments"]))
        for begin, end in struct.iter_unpack("<qq", sections["ranges"]):
            count = end - begin
            mine = range(begin + count * rank // len(files), begin + count * (rank + 1) // len(files))
            flat.update((i, next(moments) / (1 - BETA1)) for i in mine)
    gradients, at = {}, 0
    for name, entry in read_header(os.path.join(checkpoint, "weights.safetensors"))[1].items():
        if at >= len(flat):
            break  # The tensors that follow are statistics, which have no gradients.
        size = math.prod(entry["shape"])
        gradients[name] = [flat[i] for i in range(at, at + size)]
        at += (size + 15) // 16 * 16
    return gradients

"""Heliograph's initial weights in NumPy, so that every framework starts from the same ones: uniform
values (Glorot & Bengio 2010, eq. 16) from the engine's counter-based draws (src/core/noise.hpp,
src/layers/parameters.cpp)."""

import numpy as np

MASK = (1 << 64) - 1
GOLDEN = 0x9e3779b97f4a7c15
PURPOSE_INITIALISATION = 3


def mix64(x):
    """mix64 of src/core/noise.hpp for arrays of uint64."""
    x = x ^ (x >> np.uint64(30))
    x = x * np.uint64(0xbf58476d1ce4e5b9)
    x = x ^ (x >> np.uint64(27))
    x = x * np.uint64(0x94d049bb133111eb)
    return x ^ (x >> np.uint64(31))


def mix64_of(x):
    """mix64 of one Python integer."""
    return int(mix64(np.array([x & MASK], np.uint64))[0])


def stream_key(seed, purpose, epoch, layer, direction):
    key = mix64_of(seed + GOLDEN)
    key = mix64_of(key ^ (epoch * 0xd1342543de82ef95 + 1) & MASK)
    return mix64_of(key ^ (purpose << 40 | direction << 32 | layer))


def noise_words(keys, columns):
    """noise_word of src/core/noise.hpp: uint32, keys x columns."""
    keys = keys[:, None]
    low = (keys & np.uint64(0xffffffff)).astype(np.uint32)
    high = (keys >> np.uint64(32)).astype(np.uint32)
    x = np.arange(columns, dtype=np.uint32)[None, :] * np.uint32(0x9e3779b9) + low
    x = x ^ (x >> np.uint32(16))
    x = x * np.uint32(0x7feb352d)
    x = x ^ (x >> np.uint32(15)) ^ high
    x = x * np.uint32(0x846ca68b)
    return x ^ (x >> np.uint32(16))


def draw_weights(seed, parameter, rows, cols):
    """Initial values of the engine's parameter number `parameter`: float32, rows x cols."""
    stream = np.uint64(stream_key(seed, PURPOSE_INITIALISATION, 0, parameter, 0))
    nodes = np.arange(rows, dtype=np.uint64) + np.uint64(GOLDEN)
    words = noise_words(mix64(stream ^ mix64(nodes)), cols)
    bound = np.sqrt(6.0 / (rows + cols))
    return ((2 * ((words + 0.5) / 4294967296.0) - 1) * bound).astype(np.float32)


def layer_widths(layers, features, hidden, classes):
    """Returns [(in, out)] with a pair for each layer."""
    widths = [features] + [hidden] * (layers - 1) + [classes]
    return list(zip(widths[:-1], widths[1:]))


def initial_weights(seed, model, norm, widths):
    """Returns a dict for each layer: `weight` of the aggregated input, in x out, and for SAGE
    `self_weight` of the node's own row. Biases start at 0, gains of LayerNorm at 1."""
    layers, parameter = [], 0
    for number, (rows, cols) in enumerate(widths):
        names = ["weight"] if model == "gcn" else ["weight", "self_weight"]
        layers.append({name: draw_weights(seed, parameter + i, rows, cols)
                       for i, name in enumerate(names)})
        last = number == len(widths) - 1
        parameter += len(names) + (3 if norm == "layer" and not last else 1)  # bias, gain, shift
    return layers

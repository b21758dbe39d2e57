"""What a measurement should take, from the bytes and operations that it needs and the rates of the
device: what it is held against. A ratio of measured to predicted time far above 1 is a fault to find,
one below 1 a fault of the prediction. Figures that are estimates say so."""

# Word of the device's name: bytes a second of a copy, read and written; the same of the second-level
# cache; bytes of that cache; fp32 and TF32 operations a second. Copies: 90 % of NVIDIA's memory
# bandwidth (H100 3.35 TB/s, H100 NVL 3.9, H100 PCIe 2.0, H200 4.8, A100 80 GB 2.04 and 40 GB 1.56).
# Cache: about 5.5 TB/s on an H100, and of the others as much more than a copy as there.
CACHE_OF_COPY = 5.5 / 3.0
DEVICES = {
    "H100 PCIe": (1.8e12, None, 50e6, 51e12, 378e12),
    "H100 NVL": (3.5e12, 5.5e12, 50e6, 60e12, 417e12),
    "H100": (3.0e12, 5.5e12, 50e6, 67e12, 494e12),
    "H200": (4.3e12, 5.5e12, 50e6, 67e12, 494e12),
    "A100-SXM4-40GB": (1.4e12, None, 40e6, 19.5e12, 156e12),
    "A100-PCIE-40GB": (1.4e12, None, 40e6, 19.5e12, 156e12),
    "A100": (1.8e12, None, 40e6, 19.5e12, 156e12),
}
# Estimates, in seconds: the shortest kernel, a launch by the host, a kernel in a graph, and an
# exchange of halos with its waits of the host, or over NCCL, which the device orders.
KERNEL, LAUNCH, IN_GRAPH, EXCHANGE, NCCL_EXCHANGE = 2e-6, 3e-6, 1.5e-6, 75e-6, 15e-6
LAUNCHES = 36  # kernels and products of an epoch of three layers on one rank (docs/gpu_design.md)


class Rates:
    """Rates of devices of this name; of one that is not known, those that were measured."""

    def __init__(self, name, copy=0, flops=0, devices=1):
        self.devices = devices
        word = next((word for word in DEVICES if word in name), None)
        known = DEVICES.get(word, (copy, None, 0, flops, 8 * flops))
        self.copy, cache, self.cache_bytes, self.flops, self.tf32_flops = known
        self.cache = cache or self.copy * CACHE_OF_COPY
        self.source = (f"NVIDIA's figures of {word}" if word else
                       "the measured copy and product, since the device is not known")

    def kernel(self, once, gathered=0, source=0, flops=0, tf32=False):
        """Seconds of a kernel that moves `once` bytes, each counted once, or `gathered` with the rows
        of `source` bytes counted for each edge. Rows that do not fit into the cache miss it."""
        if not self.copy:
            return None
        memory = once
        if source:
            missed = max(0, 1 - self.cache_bytes / source) * (gathered - once + source)
            memory = once - source + max(source, missed)
        seconds = [KERNEL, memory / self.copy, gathered / self.cache]
        rate = self.tf32_flops if tf32 else self.flops
        return max(seconds + ([flops / rate] if rate else []))


def measured_kernel(kernel, rates):
    """Seconds that a kernel of bench.json should take; None if no rate is known."""
    return rates.kernel(kernel["bytes_once"], kernel["bytes_gathered"], kernel["bytes_source"],
                        kernel["flops"], "/tf32" in kernel["name"])


def epoch(row, rates, fused=True):
    """Seconds that an epoch of epochs.json should take: three GraphSAGE layers, of which the first
    has its sums of neighbours precomputed; ranks share out the devices. Unless `fused`, as in
    PyTorch: with a value an edge, and bias, LayerNorm and ReLU in passes of their own."""
    shape, ranks = row["shape"], row["ranks"]
    if not rates.copy:
        return None
    nodes, edges, hidden = shape["nodes"], shape["edges"], row["hidden"]
    widths = [shape["features"], hidden, hidden, shape["classes"]]
    tf32 = row["tf32"]

    def rows(count, width):
        return rates.kernel(4 * nodes * width * count)

    def product(a, b):
        return rates.kernel(4 * nodes * (a + b), flops=2 * nodes * a * b, tf32=tf32)

    def aggregation(width):
        source, structure = 4 * nodes * width, edges * (4 if fused else 8) + 8 * nodes
        return rates.kernel(structure + 2 * source, structure + source + 4 * edges * width, source)

    seconds = rows(2, widths[-1])  # loss
    for layer, (a, b) in enumerate(zip(widths, widths[1:])):
        # Products of own and summed rows: forward, gradients of weights and, but for the first
        # layer, of inputs.
        seconds += 2 * (3 if layer else 2) * product(a, b)
        if layer:
            seconds += 2 * aggregation(min(a, b))
        if layer < 2:
            seconds += rows(5 if fused else 13, b)  # norm and activation, forward and backward
    seconds /= min(ranks, rates.devices)
    if ranks > 1:  # encoding, copying and receiving, at the rate of one device's memory
        halo = row["halo_bytes"]["halo_forward"] + row["halo_bytes"]["halo_backward"]
        exchange = NCCL_EXCHANGE if row.get("transport") == "nccl" else EXCHANGE
        seconds += (row["fp32_halo_bytes"] + 3 * halo) / rates.copy + 4 * exchange
    each = IN_GRAPH if row.get("cuda_graphs") == "on" else LAUNCH
    return max(seconds, ranks * LAUNCHES * each / min(ranks, rates.devices))

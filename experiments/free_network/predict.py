"""Predicts the time of a 1-bit epoch from that of an fp32 epoch and the rates of the kernels."""

from typing import NamedTuple


class Part(NamedTuple):
    """The mean part of a run: its rows, halo rows and halo edges a row. The latter are rounded: the
    part has `scale` times the edges of a graph with this degree."""
    inner_rows: int
    halo_rows: int
    degree: int
    scale: float


def mean_part(summary):
    partition, ranks = summary["partition"], summary["ranks"]
    inner = max(1, sum(partition["inner_nodes"]) // ranks)
    edges = sum(partition["halo_edges"]) / ranks
    degree = max(1, round(edges / inner))
    return Part(inner, max(1, sum(partition["halo_nodes"]) // ranks), degree,
                edges / (degree * inner))


def exchanged_widths(summary):
    """Returns the columns of every exchange of an epoch, an entry for each site."""
    rows = sum(summary["partition"]["halo_nodes"]) * summary["epochs"]
    totals = {}
    for link in summary["halo_traffic"]:
        totals[link["site"]] = totals.get(link["site"], 0) + link["fp32_bytes"]
    return [round(total / (4 * rows)) for total in totals.values()]


def kernel_seconds(benchmarks, part):
    """Returns {"halo_aggregate/packed/1": seconds, ...} from Google Benchmark's entries."""
    seconds = {}
    for entry in benchmarks:
        name = entry["name"].removesuffix("/real_time")
        edges = part.scale if name.startswith("halo_aggregate") else 1.0
        seconds[name] = 1e-3 * entry["real_time"] * edges  # reported in milliseconds
    return seconds


def predicted_epoch(fp32_epoch, widths, kernels, ranks, cores):
    """Seconds of a 1-bit epoch: the fp32 epoch less the difference of its kernels' times. `kernels`
    is {width: kernel_seconds()}. Assumes that the ranks share cores that are never idle."""
    saved = 0.0
    for width in widths:
        for kernel in ("halo_aggregate/packed", "encode"):
            saved += kernels[width][f"{kernel}/32"] - kernels[width][f"{kernel}/1"]
    return fp32_epoch - saved * ranks / min(cores, ranks)

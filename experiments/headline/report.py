"""Makes the tables and the curve of the headline experiment from the results of measure.py."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import limits
from print_table import format_table, gradient_bytes, halo_bytes, human_bytes, total_bytes

LIMIT_NOTE = (
    "waiting: exposed for node rows + for weight gradients, of the mean rank. wall: mean time from "
    "one epoch's end to the next, statistics and bookkeeping included; ratios are of it. link: the least time in which the busiest "
    "link carries the row's bytes. limit: the first row's wall over the longer of link and the row's "
    "computing, which was measured over links without limit.")


def milliseconds(seconds):
    return "-" if seconds is None else f"{1e3 * seconds:.1f} ms"


def measured_ratio(results):
    """r: the time of vanilla's epoch without computing, as a multiple of computing."""
    compute = results["compute_seconds"]
    first = next(iter(results["table"].values()))
    return (limits.epoch_seconds(first) - compute) / compute


def speed_ups(results):
    """Returns {run: (speed-up over the first run, limit of the speed-up)}."""
    runs = results["table"]
    free = next(point["runs"] for point in results["curve"] if point["mbit"] is None)
    first = limits.epoch_seconds(next(iter(runs.values())))
    return {name: (first / limits.epoch_seconds(run),
                   first / limits.least_seconds(run, free.get(name, run), results["mbit"],
                                                results["framed"]))
            for name, run in runs.items()}


def headline_table(results):
    gains = speed_ups(results)
    rows = []
    for name, run in results["table"].items():
        faster, limit = gains[name]
        limited = "not limited" not in name
        seconds = run["seconds"]
        link = limits.transfer_seconds(run, results["mbit"], results["framed"])
        rows.append([
            name, milliseconds(run["epoch_seconds"]["median"]),
            milliseconds(run["epoch_seconds"]["p95"]), milliseconds(run["wall_seconds"]),
            f"{1e3 * seconds['exposed_comm']:.1f} + {1e3 * seconds['allreduce']:.1f} ms",
            milliseconds(link) if limited else "-",
            human_bytes(halo_bytes(run)), human_bytes(gradient_bytes(run)),
            human_bytes(total_bytes(run)), f"{faster:.1f}x",
            f"{limit:.1f}x" if limited else "-", f"{faster / limit:.0%}" if limited else "-",
            f"{results['scores'][name]:.4f}"])
    heading = ["run", "epoch", "p95", "wall", "waiting", "link", "node rows", "gradients",
               "bytes an epoch", "faster by", "limit", "of it", "test score"]
    return (f"waiting : computing of the first row: {measured_ratio(results):.1f}\n\n"
            + format_table(heading, rows))


def curve_table(results):
    """Table of speed-ups over vanilla at the same link rate, from slow links to unlimited ones."""
    names = list(results["curve"][0]["runs"])
    rows = []
    for point in results["curve"]:
        runs = point["runs"]
        vanilla = limits.epoch_seconds(runs[names[0]])
        rate = "not limited" if point["mbit"] is None else f"{point['mbit']:.4g} Mbit/s"
        rows.append([rate, milliseconds(vanilla)] + [
            f"{vanilla / limits.epoch_seconds(runs[name]):.2f}x" for name in names[1:]])
    return format_table(["link", names[0], *names[1:]], rows)


def draw_curve(results, path):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    points = results["curve"]
    names = list(points[0]["runs"])
    limited = [p["mbit"] for p in points if p["mbit"] is not None]
    rates = [p["mbit"] or 4 * max(limited) for p in points]
    figure, axes = pyplot.subplots(figsize=(7, 4.2))
    for name in names[1:]:
        axes.plot(rates, [limits.epoch_seconds(p["runs"][names[0]])
                          / limits.epoch_seconds(p["runs"][name]) for p in points],
                  marker="o", label=name)
    axes.axhline(1, color="grey", linewidth=0.8)
    axes.axvline(results["mbit"], color="grey", linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(rates, [f"{r:.0f}" for r in limited] + ["no\nlimit"])
    axes.minorticks_off()
    ticks = [1, 2, 5, 10, 20, 40]
    axes.set_yticks(ticks, [f"{t}x" for t in ticks])
    axes.set_xlabel("rate of each host's link, Mbit/s")
    axes.set_ylabel(f"faster than {names[0]}")
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)

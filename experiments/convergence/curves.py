"""Plots score against epochs, seconds and bytes: a line for the mean of a setting's runs and a band
for one standard deviation. Colours say bits, dashes staleness, markers what else differs."""

if __name__ == "__main__":
    raise SystemExit("curves.py is a part of sweep.py: start that")

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import EngFormatter

from command import read_metrics

# The palette of Okabe and Ito, which is distinguishable with any colour vision, by bits.
COLOURS = {32: "#000000", 16: "#56B4E9", 8: "#009E73", 4: "#E69F00", 2: "#CC79A7", 1: "#0072B2"}
DASHES = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)))  # By staleness.
MARKERS = (None, "o", "s", "^", "D", "v")  # Of settings with the same bits and staleness.
MOST_BANDS = 4  # More bands hide each other.


def line_styles(summaries):
    """A style for each of these summaries, one a setting."""
    styles, seen = [], []
    for summary in summaries:
        kind = (summary["bits_forward"], summary["staleness"])
        styles.append({"color": COLOURS[kind[0]], "linestyle": DASHES[min(kind[1], 3)],
                       "marker": MARKERS[seen.count(kind) % len(MARKERS)], "markersize": 4,
                       "linewidth": 1.6 if len(summaries) <= MOST_BANDS else 1.0})
        seen.append(kind)
    return styles


def read_curves(runs):
    """Returns epochs, seconds, bytes (means over runs, cumulative at each evaluated epoch) and
    scores [runs, evaluations] of one setting, cut to the length of the shortest run."""
    lines = [read_metrics(r.directory) for r in runs]
    length = min(map(len, lines))
    evaluated = [i for i in range(length)
                 if all(run[i].get("test_metric") is not None for run in lines)]

    def totals(member):
        return np.cumsum([[line[member] for line in run[:length]] for run in lines], axis=1).mean(0)

    scores = np.array([[run[i]["test_metric"] for i in evaluated] for run in lines])
    return (np.array(evaluated) + 1, totals("seconds")[evaluated], totals("bytes")[evaluated],
            scores)


def draw_curves(path, settings, runs, title, score):
    """Writes the figure to `path`."""
    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False,
                         "axes.grid": True, "grid.color": "#e6e6e6", "grid.linewidth": 0.8,
                         "axes.axisbelow": True})
    figure, axes = plt.subplots(1, 3, figsize=(11, 4.4), sharey=True)
    figure.subplots_adjust(left=0.07, right=0.985, top=0.79, bottom=0.13, wspace=0.08)
    low, high = [], []
    by_setting = {name: [r for r in runs if r.setting == name] for name in settings}
    by_setting = {name: found for name, found in by_setting.items() if found}
    styles = line_styles([found[0].summary() for found in by_setting.values()])
    for style, (name, of_setting) in zip(styles, by_setting.items()):
        epochs, seconds, volume, scores = read_curves(of_setting)
        mean = scores.mean(0)
        deviation = scores.std(0, ddof=1) if len(scores) > 1 else np.zeros_like(mean)
        late = len(mean) // 2
        low.append((mean - deviation)[late:].min())
        high.append((mean + deviation).max())
        for axis, x in zip(axes, (epochs, seconds, volume)):
            axis.plot(x, mean, label=name, markevery=max(1, len(x) // 8), **style)
            if len(by_setting) <= MOST_BANDS:
                axis.fill_between(x, mean - deviation, mean + deviation, color=style["color"],
                                  alpha=0.15, linewidth=0)
    axes[0].set(xlabel="epochs", ylabel=f"test {score}")
    # The low scores of the first epochs would compress the range of interest.
    span = max(max(high) - min(low), 1e-3)
    axes[0].set_ylim(min(low) - span, max(high) + 0.1 * span)
    axes[1].set(xlabel="training time (s)")
    axes[1].set_xlim(left=0)
    axes[2].set(xlabel="bytes sent: node rows and gradients", xscale="log")
    axes[2].xaxis.set_major_formatter(EngFormatter(unit="B"))
    handles, labels = axes[0].get_legend_handles_labels()
    figure.suptitle(title, x=0.065, y=0.975, ha="left", fontsize=12, fontweight="bold")
    figure.legend(handles, labels, loc="upper left", bbox_to_anchor=(0.055, 0.93),
                  ncols=min(len(labels), 5), frameon=False, handlelength=3, columnspacing=1.6)
    figure.savefig(path, dpi=160)
    plt.close(figure)

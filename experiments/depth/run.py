#!/usr/bin/env python3
"""Trains deep models at several bits and lags, and compares scores, bytes, and seconds on a slow network.

Usage: run.py --data tolokers=PATH --data debian_section=PATH --out DIR [--models sage6,gcn8,gcnii16,gat4]
              [--seeds N] [--jobs N] [--score-only]

The name of a data set is that of its config in ../convergence, of which each model replaces the layers
and the learning rate. The rate is, of LEARNING_RATES, the one with the best validation score of fp32 at
seed 1. Every pair of data set and model is a sweep in DIR/DATA-MODEL, so the script can be stopped and
started again. Epochs are then timed over links (--link-gbps) on which a synchronous fp32 epoch waits 41
times as long as it computes, unless --score-only is given; times need an idle machine and --jobs 1.
"Lowest late" is the default of --staleness 1, the lowest backward exchange; attention has "1 and 4 bits",
forward and backward.

Writes DIR/table.md, and for each data set DIR/DATA.png: test score against bytes and, where epochs were
timed, against seconds, in the mean over seeds.
Needs NumPy, SciPy and Matplotlib.
"""

import argparse
import os
import sys
from statistics import mean

HERE = os.path.dirname(os.path.abspath(__file__))
EXPERIMENTS = os.path.dirname(HERE)
CONVERGENCE = os.path.join(EXPERIMENTS, "convergence")
sys.path[:0] = [EXPERIMENTS, CONVERGENCE, os.path.join(EXPERIMENTS, "headline")]
from command import CommandFailed, find_command, require_modules

require_modules("numpy", "scipy", "matplotlib")
import matplotlib.pyplot as plt
import sweep
from curves import read_curves
from json_file import write_json
from limits import computing, epoch_seconds, first_rate
from matplotlib.ticker import EngFormatter
from print_table import format_table, human_bytes, total_bytes
from runner import Runner
from tables import differences_of, name_of_score, paired

LEARNING_RATES = ("0.001", "0.003", "0.01")
RATIO = 41  # Waiting to computing of a synchronous fp32 epoch, as in Sylvie's measurement.
TIMED_EPOCHS, FP32_EPOCHS = 12, 3  # Those of fp32 are long.
RANKS = 4
MODELS = {
    "sage6": {"model": "sage", "layers": 6},
    "gcn8": {"model": "gcn", "layers": 8},
    "gcnii16": {"model": "gcnii", "layers": 16},
    "gat4": {"model": "gat", "layers": 4, "heads": 4},
}
FP32 = "fp32"
LATE = {"lowest late": "--staleness 1", "all late": "--staleness 1 --stale-sites all"}
# Of fp32, few bits, more bits, and few bits with the lowest backward and with all exchanges late: the
# palette of Okabe and Ito, which is distinguishable with any colour vision.
COLOURS = ("#000000", "#0072B2", "#E69F00", "#009E73", "#D55E00")
WORST = 0.3  # How far below the best score a figure ends at most.


def settings_of(model):
    """{name: flags}. Attention has rows of 1 and 2 bits and gradient rows of 4, as it has no `auto`."""
    name, few, more = "1 bit", "--bits 1", {"auto": "--bits auto"}
    if MODELS[model]["model"] == "gat":
        name, few = "1 and 4 bits", "--bits-forward 1 --bits-backward 4"
        more = {"2 and 4 bits": "--bits-forward 2 --bits-backward 4"}
    return ({FP32: "--bits 32", name: few} | more |
            {f"{name}, {which}": f"{few} {flags}" for which, flags in LATE.items()})


class Pair:
    """A data set and a model: a sweep over learning rates, and one over settings."""

    def __init__(self, options, graph, data, model):
        self.options, self.graph, self.data, self.model = options, graph, data, model
        self.config = sweep.read_config(os.path.join(CONVERGENCE, f"{graph}.json"))
        self.config |= {"bits": [], "staleness": []}
        self.config["train"] |= {**MODELS[model], "parts": RANKS, "eval-every": 5}
        self.folder = os.path.join(options.out, f"{graph}-{model}")
        self.settings, self.runs, self.epoch_seconds = settings_of(model), {}, {}

    def sweep(self, name, settings, seeds):
        """Trains, and returns {setting: its runs}. Exits if a run fails."""
        folder = os.path.join(self.folder, name)
        os.makedirs(folder, exist_ok=True)
        path = folder + ".json"
        write_json(path, {**self.config, "settings": settings, "seeds": seeds})
        sweep.call(path, "--data", self.data, "--out", folder, "--jobs", str(self.options.jobs), "--heliograph",
                   self.options.heliograph, *["--overwrite"] * self.options.overwrite)
        return {setting: [sweep.Results(folder, setting, seed) for seed in range(1, seeds + 1)]
                for setting in settings}

    def train(self):
        """Chooses the learning rate and trains every setting with it."""
        rates = self.sweep("rates", {f"lr {lr}": f"--bits 32 --lr {lr}" for lr in LEARNING_RATES}, 1)
        best = max(rates, key=lambda name: rates[name][0].summary()["val_metric"])
        self.config["train"]["lr"] = float(best.removeprefix("lr "))
        self.runs = self.sweep("scores", self.settings, self.options.seeds)

    def time(self):
        """Times epochs of every setting over links on which those of fp32 wait."""
        flags = {**self.config["train"], "data": self.data, "seed": 1, "eval-every": 0}
        runner = Runner(self.options.heliograph, "threads", RANKS, os.path.join(self.folder, "timed"), flags)

        def timed(name, mbit, epochs):
            given = sweep.flags_in(self.settings[name].split(), "bits", "bits-forward", "bits-backward",
                                   "staleness", "stale-sites")
            return runner.train(sweep.slug_of(name), mbit, epochs, given)

        free = timed(FP32, None, TIMED_EPOCHS)
        mbit = first_rate(free, computing(free), RATIO, framed=False)
        for name in self.settings:
            epochs = FP32_EPOCHS if name == FP32 else TIMED_EPOCHS
            self.epoch_seconds[name] = epoch_seconds(timed(name, mbit, epochs))


def make_table(pairs):
    """A row for each pair and setting, with paired differences to fp32."""
    rows = []
    for pair in pairs:
        summaries = {name: {run.seed: run.summary() for run in runs} for name, runs in pair.runs.items()}
        scores = {name: {seed: s["test_metric"] for seed, s in found.items()}
                  for name, found in summaries.items()}
        metric = name_of_score(s["metric"] for found in summaries.values() for s in found.values())
        _, factor, form = differences_of(metric)
        for name in pair.settings:
            seconds = pair.epoch_seconds.get(name)
            rows.append([f"{pair.graph}, {pair.model}, lr {pair.config['train']['lr']:g}" if name == FP32 else "",
                         name, f"{mean(scores[name].values()):.4f}",
                         "" if name == FP32 else paired(scores[name], scores[FP32], factor, form),
                         human_bytes(mean(map(total_bytes, summaries[name].values()))),
                         "-" if seconds is None else f"{1e3 * seconds:.0f} ms"])
    return format_table(["graph and model", "setting", "mean test score", "points against fp32 [95 %]",
                         "bytes an epoch", f"epoch, links of {RATIO} : 1"], rows)


def draw(path, pairs):
    """A column for each model: score against bytes, and below against seconds if they were measured."""
    timed = all(pair.epoch_seconds for pair in pairs)
    figure, axes = plt.subplots(1 + timed, len(pairs), squeeze=False,
                                figsize=(1 + 3.2 * len(pairs), 1.2 + 2.6 * (1 + timed)))
    for column, pair in zip(axes.T, pairs):
        highest, lowest = 0, 1
        for colour, name in zip(COLOURS, pair.settings):
            epochs, _, volume, scores = read_curves(pair.runs[name])
            score = scores.mean(0)
            highest, lowest = max(highest, score.max()), min(lowest, score[len(score) // 2:].min())
            column[0].plot(volume, score, label=name, color=colour)
            if timed:
                column[1].plot(epochs * pair.epoch_seconds[name], score, color=colour)
        for axis in column:
            axis.set(xscale="log", ylim=(max(lowest - 0.02, highest - WORST), highest + 0.01))
        column[0].set(title=f"{pair.model}, lr {pair.config['train']['lr']:g}", xlabel="bytes sent")
        column[0].xaxis.set_major_formatter(EngFormatter(unit="B"))
        column[-1].set_xlabel(f"seconds over links of {RATIO} : 1" if timed else "bytes sent")
        column[0].legend(fontsize=7, frameon=False, loc="upper left")
    for row in axes:
        row[0].set_ylabel("test score")
    figure.suptitle(pairs[0].config["title"], ha="left", x=0.02, fontweight="bold")
    figure.tight_layout()
    figure.savefig(path, dpi=160)
    plt.close(figure)


def named(text):
    graph, equals, path = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text} is not NAME=PATH")
    return graph, os.path.abspath(path)


def models(text):
    names = text.split(",")
    for name in names:
        if name not in MODELS:
            raise argparse.ArgumentTypeError(f"no such model: {name}")
    return names


def main():
    parser = sweep.make_parser(__doc__)
    parser.add_argument("--data", action="append", required=True, type=named, metavar="NAME=PATH")
    parser.add_argument("--models", default=list(MODELS), type=models,
                        help=f"some of {', '.join(MODELS)}")
    parser.add_argument("--jobs", type=sweep.count, default=1, help="runs at a time (default: 1)")
    parser.add_argument("--score-only", action="store_true", help="time no epochs over slow links")
    options = parser.parse_args()
    options.heliograph, options.seeds = find_command(options.heliograph), options.seeds or 3
    pairs = [Pair(options, graph, path, model) for graph, path in options.data for model in options.models]
    for pair in pairs:
        print(f"{pair.graph}, {pair.model}", flush=True)
        pair.train()
        if options.score_only:
            continue
        try:
            pair.time()
        except CommandFailed as error:
            sys.exit(f"run.py: {error}")
    table = make_table(pairs)
    with open(os.path.join(options.out, "table.md"), "w", encoding="utf-8") as file:
        file.write(table + "\n")
    for graph in dict.fromkeys(pair.graph for pair in pairs):
        draw(os.path.join(options.out, f"{graph}.png"), [pair for pair in pairs if pair.graph == graph])
    print(f"\n{table}")


if __name__ == "__main__":
    main()

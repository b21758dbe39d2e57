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

import csv
import os
import sys
from statistics import mean
from types import SimpleNamespace

HERE = os.path.dirname(os.path.abspath(__file__))
EXPERIMENTS = os.path.dirname(HERE)
CONVERGENCE = os.path.join(EXPERIMENTS, "convergence")
sys.path[:0] = [EXPERIMENTS, CONVERGENCE, os.path.join(EXPERIMENTS, "headline")]
from command import CommandFailed, find_command, require_modules

require_modules("numpy", "scipy", "matplotlib")
import matplotlib.pyplot as plt
import sweep
from curves import read_curves
from json_file import read_json, write_json
from limits import computing, epoch_seconds, first_rate
from matplotlib.ticker import EngFormatter
from print_table import format_table, human_bytes, total_bytes
from runner import Runner
from tables import differences_of, name_of_score, with_interval

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
        self.settings, self.rows, self.epoch_seconds = settings_of(model), {}, {}

    def sweep(self, name, settings, seeds):
        """Trains, and returns the rows of runs.csv: {setting: {seed: row}}. Exits if a run fails."""
        folder = os.path.join(self.folder, name)
        os.makedirs(folder, exist_ok=True)
        path = folder + ".json"
        write_json(path, {**self.config, "settings": settings, "seeds": seeds})
        sys.argv[1:] = [path, "--data", self.data, "--out", folder, "--jobs", str(self.options.jobs),
                        "--heliograph", self.options.heliograph, *["--overwrite"] * self.options.overwrite]
        try:
            sweep.main()
        except SystemExit as end:
            if end.code:
                raise
        rows = {}
        with open(os.path.join(folder, "runs.csv"), encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                rows.setdefault(row["setting"], {})[int(row["seed"])] = row
        return rows

    def train(self):
        """Chooses the learning rate and trains every setting with it."""
        rates = self.sweep("rates", {f"lr {lr}": f"--bits 32 --lr {lr}" for lr in LEARNING_RATES}, 1)
        best = max(rates, key=lambda name: float(rates[name][1]["val_metric"]))
        self.config["train"]["lr"] = float(best.removeprefix("lr "))
        self.rows = self.sweep("scores", self.settings, self.options.seeds)

    def runs_of(self, setting):
        """The runs of a setting as the functions of curves.py read them."""
        def run(seed):
            path = os.path.join(self.folder, "scores", "runs", f"{sweep.slug_of(setting)}.seed-{seed}")
            return SimpleNamespace(directory=path, summary=lambda: read_json(path + ".summary.json"))
        return [run(seed) for seed in self.rows[setting]]

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
        metric = name_of_score({row["metric"] for by_seed in pair.rows.values() for row in by_seed.values()})
        _, factor, form = differences_of(metric)
        reference = pair.rows[FP32]
        for name in pair.settings:
            by_seed = pair.rows[name]
            differences = [factor * (float(row["test_metric"]) - float(reference[seed]["test_metric"]))
                           for seed, row in by_seed.items()]
            size = mean(total_bytes(run.summary()) for run in pair.runs_of(name))
            seconds = pair.epoch_seconds.get(name)
            rows.append([f"{pair.graph}, {pair.model}, lr {pair.config['train']['lr']:g}" if name == FP32 else "",
                         name, f"{mean(float(row['test_metric']) for row in by_seed.values()):.4f}",
                         "" if name == FP32 else with_interval(differences, form), human_bytes(size),
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
            epochs, _, volume, scores = read_curves(pair.runs_of(name))
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
        column[0].legend(fontsize=7, frameon=False, loc="lower right")
    for row in axes:
        row[0].set_ylabel("test score")
    figure.suptitle(pairs[0].config["title"], ha="left", x=0.02, fontweight="bold")
    figure.tight_layout()
    figure.savefig(path, dpi=160)
    plt.close(figure)


def main():
    parser = sweep.make_parser(__doc__)
    parser.add_argument("--data", action="append", required=True, metavar="NAME=PATH")
    parser.add_argument("--models", default=",".join(MODELS), help=f"some of {', '.join(MODELS)}")
    parser.add_argument("--jobs", type=sweep.count, default=1, help="runs at a time (default: 1)")
    parser.add_argument("--score-only", action="store_true", help="time no epochs over slow links")
    options = parser.parse_args()
    options.heliograph, options.seeds = find_command(options.heliograph), options.seeds or 3
    models = options.models.split(",")
    unknown = [name for name in models if name not in MODELS]
    if unknown:
        parser.error(f"no such model: {unknown[0]}")
    pairs = []
    for item in options.data:
        graph, equals, path = item.partition("=")
        if not equals:
            parser.error(f"{item} is not NAME=PATH")
        pairs += [Pair(options, graph, os.path.abspath(path), model) for model in models]
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

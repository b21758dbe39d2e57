#!/usr/bin/env python3
"""Measures the speed-up by 1 bit and staleness on a network as slow as in the published
measurement. Chooses the link rate at which a vanilla fp32 epoch waits RATIO times as long as it
computes, trains with every setting at that and other rates, and writes table.md, curve.md,
curve.png and results.json. Called by run.sh, which makes graph and partition.
"""

import argparse
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import limits
from command import CommandFailed, add_command_option, find_command
from json_file import write_json
from print_table import human_bytes, total_bytes
from report import LIMIT_NOTE, curve_table, draw_curve, headline_table
from runner import Runner

PUBLISHED_RATIO = 41.0  # 5.931 s of waiting to 0.145 s of computing
RATIO_TOLERANCE = 0.03
PROBES = 4
STEADY_EPOCHS = 11  # of which the command does not count the first 5
# As in published systems: every layer aggregates first, the first aggregation is precomputed, and rows
# travel once all of them are made.
VANILLA = {"bits": 32, "staleness": 0, "exchange": "boundary", "no-transform-first": True, "row-blocks": 1}
# The fewest bytes.
FEWEST = {"bits": 1, "exchange": "cover", "kept-columns": True, "gradient-bits": 8}
SETTINGS = {
    "vanilla fp32, S = 0": VANILLA,
    "fp32, S = 0": {"bits": 32, "staleness": 0},
    "fp32, S = 1": {"bits": 32, "staleness": 1, "stale-sites": "all"},
    "1-bit rows alone, S = 0": {"bits": 1, "staleness": 0},
    "1-bit rows alone, S = 1": {"bits": 1, "staleness": 1, "stale-sites": "all"},
    "1-bit, S = 0": {**FEWEST, "staleness": 0},
    "1-bit, S = 1": {**FEWEST, "staleness": 1, "stale-sites": "all"},
}
FREE = "fp32, S = 0, links not limited"


class RateNotFound(Exception):
    pass


def slug(name):
    return name.replace(", ", "-").replace(" = ", "").replace(" ", "-")


class Headline:
    def __init__(self, options):
        self.options = options
        self.runner = Runner(options.heliograph, options.transport, options.hosts, options.out, {
            "data": options.data, "parts": options.hosts,
            "partitioner": f"file:{options.partition}", "model": "gcn", "layers": 3, "hidden": 128,
            "dropout": 0.3, "lr": 0.01, "seed": 1, "eval-every": 100000})
        self.begin = time.monotonic()

    def say(self, text):
        print(f"[{time.monotonic() - self.begin:4.0f} s] {text}", flush=True)

    def train(self, name, settings, mbit, epochs):
        rate = "free" if mbit is None else f"{mbit:.4g}mbit"
        result = self.runner.train(f"{slug(name)}-{rate}", mbit, epochs, settings)
        self.say(f"{name}, {'links not limited' if mbit is None else f'{mbit:.4g} Mbit/s'}: epoch "
                 f"{1e3 * result['epoch_seconds']['median']:.1f} ms, waiting "
                 f"{1e3 * limits.exposed(result):.1f} ms")
        return result

    def epochs_for(self, settings):
        """Number of epochs: few for fp32, whose epochs are long and even, more at 1 bit. Stale
        epochs are steady once the number of messages in flight no longer grows."""
        if settings["bits"] < 32:
            return self.options.epochs
        return max(self.options.slow_epochs, STEADY_EPOCHS if settings["staleness"] else 0)

    def choose_rate(self):
        """Returns (seconds of computing, Mbit/s at which vanilla waits RATIO times as long)."""
        free = self.train("vanilla fp32, S = 0", VANILLA, None, self.options.epochs)
        compute, ratio = limits.computing(free), self.options.ratio
        mbit = limits.first_rate(free, compute, ratio, self.runner.framed)
        for _ in range(PROBES):
            probe = self.train("probe", VANILLA, mbit, self.options.probe_epochs)
            epoch = limits.epoch_seconds(probe)
            reached = (epoch - compute) / compute
            if abs(reached / ratio - 1) < RATIO_TOLERANCE:
                return compute, mbit
            mbit = limits.next_rate(mbit, epoch, compute, ratio)
        raise RateNotFound(f"no link rate was found at which vanilla fp32 waits {ratio:g} times as "
                           f"long as it computes: the last of {PROBES} probes waited {reached:.1f} "
                           "times as long")

    def scores(self):
        """Test score of each setting, from longer runs on threads with fast links: the age of
        values is exact, so scores depend neither on links nor on transport."""
        threads = self.runner.on_threads()
        return {name: threads.train(f"score-{slug(name)}", None, self.options.score_epochs,
                                    {**settings, "eval-every": 5})["test_metric"]
                for name, settings in SETTINGS.items()}

    def run(self):
        compute, mbit = self.choose_rate()
        table = {name: self.train(name, settings, mbit, self.epochs_for(settings))
                 for name, settings in SETTINGS.items()}
        table[FREE] = self.train("fp32, S = 0", SETTINGS["fp32, S = 0"], None, self.options.epochs)
        scores = self.scores()
        scores[FREE] = scores["fp32, S = 0"]
        curve = {1.0: {name: table[name] for name in SETTINGS}}
        for factor in self.options.factors:
            curve[factor] = {
                name: self.train(name, settings, factor * mbit,
                                 max(self.options.curve_epochs,
                                     STEADY_EPOCHS if settings["staleness"] else 0))
                for name, settings in SETTINGS.items()}
        curve[None] = {name: self.train(name, settings, None, self.options.epochs)
                       for name, settings in SETTINGS.items()}
        return {"compute_seconds": compute, "mbit": mbit, "ratio_wanted": self.options.ratio,
                "transport": self.options.transport, "hosts": self.options.hosts,
                "framed": self.runner.framed, "scores": scores, "table": table,
                "curve": [{"factor": factor, "mbit": factor and factor * mbit, "runs": runs}
                          for factor, runs in sorted(curve.items(),
                                                     key=lambda item: item[0] or 1e9)]}


def write_reports(results, out):
    first = next(iter(results["table"].values()))
    text = "\n".join([
        f"{results['hosts']} hosts, {results['transport']}, links of {results['mbit']:.4g} Mbit/s; "
        f"computing {1e3 * results['compute_seconds']:.1f} ms; vanilla exchanges "
        f"{human_bytes(total_bytes(first))} an epoch", "",
        headline_table(results), "", LIMIT_NOTE])
    curve = curve_table(results)
    for name, content in (("table.md", text), ("curve.md", curve)):
        with open(os.path.join(out, name), "w", encoding="utf-8") as file:
            file.write(content + "\n")
    draw_curve(results, os.path.join(out, "curve.png"))
    print(f"\n{text}\n\n{curve}\n\nWritten to {out}: table.md, curve.md, curve.png, results.json")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--partition", required=True, help="file with an owner on each line")
    parser.add_argument("--out", required=True)
    parser.add_argument("--transport", choices=("mpi", "threads"), default="mpi")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--ratio", type=float, default=PUBLISHED_RATIO,
                        help="waiting : computing of vanilla fp32 (default: as published)")
    parser.add_argument("--epochs", type=int, default=45)
    parser.add_argument("--slow-epochs", type=int, default=13)
    parser.add_argument("--probe-epochs", type=int, default=3)
    parser.add_argument("--curve-epochs", type=int, default=4)
    parser.add_argument("--score-epochs", type=int, default=60)
    parser.add_argument("--factors", type=lambda text: [float(f) for f in text.split(",")],
                        default=[2, 4, 8, 16, 64],
                        help="further link rates of the curve, as factors of the chosen one")
    add_command_option(parser)
    options = parser.parse_args()
    options.heliograph = find_command(options.heliograph)
    os.makedirs(options.out, exist_ok=True)
    try:
        results = Headline(options).run()
    except (CommandFailed, RateNotFound) as error:
        sys.exit(str(error))
    write_json(os.path.join(options.out, "results.json"), results)
    write_reports(results, options.out)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Trains one data set at several bits, stalenesses and seeds through the command, and compares.

Usage: sweep.py CONFIG.json --data PATH --out DIR [--bits 32,1] [--staleness 0,1] [--seeds 5]
                [--setting 'NAME=FLAGS' ...] [--jobs N] [-- FLAGS of every run]

The config (cora.json and its siblings) holds the flags of `heliograph train`, the settings to
compare and the number of seeds; flags here override it. Every setting gets the same seeds, splits
and partition. Writes to DIR:
  runs.csv     one line a run
  table.md     mean and deviation of each setting and its paired difference to the first setting,
               with 95 % intervals
  curves.png   score against epochs, seconds and bytes
  runs/        the run directories and summaries

It can be stopped and started again: a run that has a summary and the same flags is not repeated.
Such runs of further seeds in DIR count too. An error of a flag or of the data stops it.
Times are only comparable with --jobs 1 on an idle machine.
Needs NumPy, SciPy and Matplotlib.
"""

import argparse
import concurrent.futures
import glob
import os
import re
import shlex
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from command import (USAGE_ERRORS, CommandFailed, add_command_option, find_command, make_flags,
                     require_modules, run)

require_modules("numpy", "scipy", "matplotlib")
from curves import draw_curves
from json_file import read_json, write_json
from tables import make_table, write_csv

NEEDED_KEYS = {"title", "score", "train", "bits", "staleness", "seeds"}
# Recipes (experiments/recipes/train.py) have "generate" and "published" too.
CONFIG_KEYS = NEEDED_KEYS | {"splits_in_file", "split", "settings", "generate", "published"}


def read_config(path):
    try:
        config = read_json(path)
    except (OSError, ValueError) as error:
        sys.exit(f"sweep.py: cannot read the config {path}: {error}; see the *.json files beside "
                 "sweep.py")
    unknown = sorted(set(config) - CONFIG_KEYS)
    if unknown:
        sys.exit(f"sweep.py: {path} has an unknown key \"{unknown[0]}\"; known are "
                 f"{', '.join(sorted(CONFIG_KEYS))}")
    missing = sorted(NEEDED_KEYS - set(config))
    if missing:
        sys.exit(f"sweep.py: {path} lacks the key \"{missing[0]}\"")
    return config


def list_settings(config, options):
    """Returns {name: flags}: first bits x staleness, then the named settings."""
    settings = {}
    for staleness in options.staleness or config["staleness"]:
        for bits in options.bits or config["bits"]:
            name = ("fp32" if bits == 32 else f"{bits}-bit") + f", S = {staleness}"
            settings[name] = ["--bits", str(bits), "--staleness", str(staleness)]
    for name, flags in config.get("settings", {}).items():
        settings[name] = shlex.split(flags)
    for setting in options.setting:
        name, equals, flags = setting.partition("=--")  # A name may hold "S = 1".
        if not equals:
            sys.exit(f"sweep.py: --setting {setting} is not NAME=FLAGS, with flags that begin with --")
        settings[name] = shlex.split("--" + flags)
    return settings


def split_of(config, seed):
    """The seed's split: one drawn at random, or the next of those in the file."""
    if config.get("splits_in_file"):
        return {"split": seed % config["splits_in_file"]}
    return {"split": config.get("split", "random:60/20/20"), "split-seed": seed}


class Run:
    """One training run: its flags and the paths of its results."""

    def __init__(self, options, config, name, flags, seed):
        self.setting, self.seed = name, seed
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
        self.directory = os.path.join(options.out, "runs", f"{slug}.seed-{seed}")
        self.summary_file = self.directory + ".summary.json"
        given = {word.split("=")[0] for word in (*flags, *options.flags)}
        train = {name: value for name, value in {**config["train"], **split_of(config, seed)}.items()
                 if f"--{name}" not in given}
        self.flags = ["--data", os.path.abspath(options.data), *make_flags(train), *flags, "--seed",
                      str(seed), *options.flags]

    def finished(self):
        """Whether a summary exists that was made with the same flags."""
        try:
            return read_json(self.directory + ".flags.json") == self.flags and bool(self.summary())
        except (OSError, ValueError):
            return False

    def summary(self):
        return read_json(self.summary_file)

    def train(self, command):
        """Trains the run; one that is stopped does not count as finished. Raises CommandFailed."""
        for leftover in (self.summary_file, self.directory + ".flags.json"):
            if os.path.exists(leftover):
                os.remove(leftover)
        run(command, "train", *self.flags, "--out", self.directory, "--overwrite", "--quiet",
            "--summary", self.summary_file)
        write_json(self.directory + ".flags.json", self.flags)


def seeds_beyond(directory, last):
    """Seeds above `last` of which the folder of a sweep has runs, ascending."""
    names = glob.glob(os.path.join(glob.escape(directory), "runs", "*.seed-*.flags.json"))
    found = {int(re.search(r"seed-(\d+)\.flags\.json$", name)[1]) for name in names}
    return sorted(seed for seed in found if seed > last)


def train_all(runs, command, jobs):
    """Trains the unfinished runs, `jobs` at a time. Returns a message for each that failed. Exits at
    the first error of flags or data, which other runs may have too."""
    stopped = threading.Event()

    def train(this):
        """Whether the run was trained, and not left out after such an error."""
        if stopped.is_set():
            return False
        try:
            this.train(command)
        except CommandFailed as error:
            if error.code in USAGE_ERRORS:
                stopped.set()
            raise
        return True

    pending = [r for r in runs if not r.finished()]
    print(f"{len(runs) - len(pending)} of {len(runs)} runs are there already", flush=True)
    failures = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(train, r): r for r in pending}
        try:
            for done, future in enumerate(concurrent.futures.as_completed(futures), 1):
                this = futures[future]
                label = f"[{done}/{len(pending)}] {this.setting}, seed {this.seed}"
                try:
                    if not future.result():
                        continue
                    print(f"{label}: {this.summary()['test_metric']:.4f}", flush=True)
                except CommandFailed as error:
                    if error.code in USAGE_ERRORS:
                        sys.exit(f"{label}: {error}")
                    failures.append(f"{label}: {error}")
                    print(f"{label}: FAILED", flush=True)
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            sys.exit("stopped; repeat the command to continue")
    return failures


def integers(text):
    return [int(part) for part in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", metavar="CONFIG.json")
    parser.add_argument("--data", required=True, help="data set, as for `train --data`")
    parser.add_argument("--out", required=True, help="folder for results")
    parser.add_argument("--bits", type=integers, help="comma-separated")
    parser.add_argument("--staleness", type=integers, help="comma-separated")
    parser.add_argument("--seeds", type=int, help="seeds 1 to N")
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=FLAGS",
                        help="another setting, e.g. '1-bit, S = 1, warm-up=--bits 1 --staleness 1 "
                             "--warmup-epochs 20'")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time (default: 1)")
    add_command_option(parser)
    own = sys.argv[1:]
    end = own.index("--") if "--" in own else len(own)
    options = parser.parse_args(own[:end])
    options.flags = own[end + 1:]
    if options.jobs < 1:
        parser.error(f"--jobs {options.jobs} is below 1")
    command = find_command(options.heliograph)
    config = read_config(options.config)
    settings = list_settings(config, options)
    last_seed = options.seeds or config["seeds"]

    os.makedirs(os.path.join(options.out, "runs"), exist_ok=True)

    def runs_of(seeds):
        return [Run(options, config, name, flags, seed)
                for seed in seeds for name, flags in settings.items()]

    runs = runs_of(range(1, last_seed + 1))
    failures = train_all(runs, command, options.jobs)
    complete = [r for r in runs + runs_of(seeds_beyond(options.out, last_seed)) if r.finished()]
    if complete:
        write_csv(os.path.join(options.out, "runs.csv"), complete)
        table = make_table(list(settings), complete, config["score"])
        with open(os.path.join(options.out, "table.md"), "w", encoding="utf-8") as file:
            file.write(table + "\n")
        draw_curves(os.path.join(options.out, "curves.png"), list(settings), complete,
                    config["title"], config["score"])
        print(f"\n{table}\n\nruns.csv, table.md and curves.png lie in {options.out}")
    for failure in failures:
        print(f"\n{failure}", file=sys.stderr)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Trains one data set at several bits, stalenesses and seeds through the command, and compares.

Usage: sweep.py CONFIG.json --data PATH --out DIR [--bits 32,1] [--staleness 0,1] [--seeds 5]
                [--setting 'NAME=FLAGS' ...] [--jobs N] [--overwrite] [-- FLAGS of every run]

The config (cora.json and its siblings; experiments/README.md lists its keys) holds the flags of
`heliograph train`, the settings to compare and the number of seeds; flags here override it. Every
setting gets the same seeds, splits and partition: seed s trains on split s of the data set, modulo
their number, or draws the s-th random one if there are none. Writes to DIR:
  runs.csv     one line a run
  table.md     mean and deviation of each setting and its paired difference to the first setting,
               with 95 % intervals
  curves.png   score against epochs, seconds and bytes
  runs/        the run directories and summaries
  settings.json  the settings of all sweeps in DIR

It can be stopped and started again: a run that has a summary and the same flags is not repeated, and
one that was made with other flags is only replaced with --overwrite. Runs of further seeds and of
earlier settings in DIR count too if the flags of every run are the same. An error of a flag or of the
data stops it with exit code 2 or 3.
Times are only comparable with --jobs 1 on an idle machine.
Needs NumPy, SciPy and Matplotlib.
"""

import argparse
import concurrent.futures
import glob
import json
import os
import re
import shlex
import signal
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from command import (USAGE_ERRORS, CommandFailed, add_command_option, find_command, make_flags,
                     require_modules, run, stop_commands)

require_modules("numpy", "scipy", "matplotlib")
from json_file import read_json, write_json
from tables import make_table, name_of_score, write_csv

NEEDED_KEYS = {"title", "train", "bits", "staleness", "seeds"}
TEXT = ("a text", lambda value: isinstance(value, str))
TEXTS = ("an object of texts", lambda value: isinstance(value, dict) and
         all(isinstance(item, str) for item in value.values()))
NUMBERS = ("a list of whole numbers", lambda value: isinstance(value, list) and
           all(type(item) is int for item in value))
# What each key's value must be. Recipes (experiments/recipes/train.py) have the last two.
CONFIG_KEYS = {
    "title": TEXT, "bits": NUMBERS, "staleness": NUMBERS, "settings": TEXTS,
    "train": ("an object of flags", lambda value: isinstance(value, dict)),
    "seeds": ("a whole number from 1", lambda value: type(value) is int and value >= 1),
    "split": ("a text or a whole number", lambda value: type(value) in (int, str)),
    "generate": TEXT, "published": TEXTS}
RANDOM_SPLIT = "random:60/20/20"  # Of data that hold no splits.


def refuse(sentence):
    print(f"sweep.py: {sentence}", file=sys.stderr)
    sys.exit(2)


def read_config(path):
    try:
        config = read_json(path)
    except (OSError, ValueError) as error:
        refuse(f"cannot read the config {path}: {error}; see the *.json files beside sweep.py")
    if not isinstance(config, dict):
        refuse(f"{path} holds no JSON object")
    unknown = sorted(set(config) - set(CONFIG_KEYS))
    if unknown:
        refuse(f"{path} has an unknown key \"{unknown[0]}\"; known are "
               f"{', '.join(sorted(CONFIG_KEYS))}")
    missing = sorted(NEEDED_KEYS - set(config))
    if missing:
        refuse(f"{path} lacks {', '.join(missing)}; experiments/README.md says what each key means")
    for key, value in config.items():
        must, holds = CONFIG_KEYS[key]
        if not holds(value):
            refuse(f"{path}: \"{key}\" is {json.dumps(value)}; it must be {must}")
    return config


def make_folder(path):
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        refuse(f"cannot make the folder {path}: {error.strerror}; name another --out")


def make_sweep_folder(out):
    """Makes the folder of a sweep. Refuses one that holds other things, such as a graph."""
    runs = os.path.join(out, "runs")
    if os.path.isdir(out) and os.listdir(out) and not os.path.isdir(runs):
        refuse(f"--out {out} holds other files than a sweep's; name a new folder")
    make_folder(runs)


def slug_of(name):
    """What names the run folders of a setting."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def list_settings(config, options):
    """Returns {name: flags}: first bits x staleness, then the named settings."""
    settings, by_slug = {}, {}

    def add(name, flags):
        slug = slug_of(name)
        if not slug:
            refuse(f"the setting \"{name}\" needs a name with a letter a-z or a digit")
        if slug in by_slug:
            refuse(f"the settings \"{by_slug[slug]}\" and \"{name}\" would share the run folders "
                   f"{slug}.seed-N; give each a name with letters or digits of its own")
        by_slug[slug] = name
        try:
            settings[name] = shlex.split(flags)
        except ValueError as error:
            refuse(f"the flags of the setting \"{name}\": {error}")
        if flags_in(settings[name], "split", "split-seed"):
            refuse(f"the setting \"{name}\" has splits of its own: settings are compared on the same "
                   "splits: give --split after --")

    for staleness in options.staleness or config["staleness"]:
        for bits in options.bits or config["bits"]:
            name = ("fp32" if bits == 32 else f"{bits}-bit") + f", S = {staleness}"
            late = " --stale-sites all" if staleness > 0 else ""
            add(name, f"--bits {bits} --staleness {staleness}{late}")
    for name, flags in config.get("settings", {}).items():
        add(name, flags)
    for setting in options.setting:
        name, equals, flags = setting.partition("=--")  # A name may hold "S = 1".
        if not equals:
            refuse(f"--setting {setting} is not NAME=FLAGS, with flags that begin with --")
        add(name, "--" + flags)
    if not settings:
        refuse("there is no setting to train: give both bits and staleness, or settings")
    return settings


def add_earlier_settings(out, settings):
    """Returns `settings` with those of earlier sweeps in this folder, and keeps them there."""
    path, slugs = os.path.join(out, "settings.json"), set(map(slug_of, settings))
    earlier = read_json(path) if os.path.exists(path) else {}
    everything = settings | {name: flags for name, flags in earlier.items()
                             if slug_of(name) not in slugs}
    write_json(path, everything)
    return everything


def flags_in(words, *names):
    """{name: value} of these flags among the words of a command line; True for those without."""
    found = {}
    for word, following in zip(words, [*words[1:], "--"]):
        name, equals, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and name in names:
            found[name] = value if equals else following.startswith("--") or following
    return found


def given_split(config, flags):
    """The value of --split in `flags` or else in the config; None if neither has one."""
    return flags_in(flags, "split").get("split", config.get("split", config["train"].get("split")))


def count_splits(config, command, data, flags):
    """How many splits the data set holds; None if `flags` or the config say which to take. Says which
    splits the seeds get. Raises CommandFailed."""
    split = given_split(config, flags)
    fixed = flags_in(flags, "split-seed").get("split-seed")
    drawn = "seed s draws the s-th of" if fixed is None else f"every seed draws number {fixed} of"
    if split is not None:
        print(f"splits: every seed trains on --split {split}" if str(split).isdigit() else
              f"splits: {drawn} --split {split}", flush=True)
        return None
    reading = flags_in([*make_flags(config["train"]), *flags], "format", "index-base",
                       "keep-direction", "ignore-weights", "regression", "target")
    text = run(command, "import", "--data", data, "--log-level", "error", *make_flags(reading))
    count = int(re.search(r"^ *splits +(\d+)$", text, re.MULTILINE)[1])
    print(f"splits: {data} holds {count}; seed s trains on split s modulo {count}" if count else
          f"splits: {data} holds none; {drawn} --split {RANDOM_SPLIT}", flush=True)
    return count


def split_of(split, count, seed, flags):
    """The flags for a seed: `split`, or if it is None, one of `count` in the data or a random one, which
    --split-seed in `flags` draws for every seed."""
    if split is None:
        split = seed % count if count else RANDOM_SPLIT
    if str(split).isdigit():
        return {"split": split}
    return {"split": split, "split-seed": flags_in(flags, "split-seed").get("split-seed", seed)}


class Results:
    """The results of a setting and seed in the folder of a sweep."""

    def __init__(self, out, name, seed):
        self.setting, self.seed = name, seed
        self.directory = os.path.join(out, "runs", f"{slug_of(name)}.seed-{seed}")
        self.summary_file = self.directory + ".summary.json"

    def summary(self):
        return read_json(self.summary_file)


class Run(Results):
    """One training run: its flags and its results."""

    def __init__(self, options, config, splits, name, flags, seed):
        super().__init__(options.out, name, seed)
        given = {word.split("=")[0] for word in (*flags, *options.flags)}
        split = split_of(given_split(config, options.flags), splits, seed, options.flags)
        train = {name: value for name, value in {**config["train"], **split}.items()
                 if f"--{name}" not in given}
        self.flags = ["--data", os.path.abspath(options.data), *make_flags(train), *flags, "--seed",
                      str(seed), *options.flags]

    def has_other_flags(self):
        """Whether its folder has a run that was made with other flags."""
        try:
            return read_json(self.directory + ".flags.json") != self.flags
        except (OSError, ValueError):
            return False

    def finished(self):
        """Whether a summary with a score exists that was made with the same flags."""
        try:
            return (read_json(self.directory + ".flags.json") == self.flags
                    and self.summary()["test_metric"] is not None)
        except (OSError, ValueError):
            return False

    def train(self, command):
        """Trains the run; one that is stopped does not count as finished. Raises CommandFailed."""
        for leftover in (self.summary_file, self.directory + ".flags.json"):
            if os.path.exists(leftover):
                os.remove(leftover)
        run(command, "train", *self.flags, "--out", self.directory, "--overwrite", "--quiet",
            "--summary", self.summary_file)
        if self.summary()["test_metric"] is None:
            raise CommandFailed("the run has no test score to compare; it needs labelled test nodes "
                                "and an --eval-every above 0", USAGE_ERRORS[0])
        write_json(self.directory + ".flags.json", self.flags)


def seeds_of_runs(out):
    """The seed of each trained run in the folder of a sweep."""
    names = glob.glob(os.path.join(glob.escape(out), "runs", "*.seed-*.flags.json"))
    return [int(re.search(r"seed-(\d+)\.flags\.json$", name)[1]) for name in names]


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

    def stop(*_):  # Nobody sends SIGTERM to the runs, unlike a terminal's SIGINT.
        stop_commands()
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
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
                        print(f"{label}: {error}", file=sys.stderr)
                        sys.exit(error.code)
                    failures.append(f"{label}: {error}")
                    print(f"{label}: FAILED", flush=True)
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            sys.exit("stopped; repeat the command to continue")
    return failures


def integers(text):
    return [int(part) for part in text.split(",")]


def count(text):
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return int(text)


class Once(argparse.Action):
    """Stores the value of an option that may be given once."""

    given = False

    def __call__(self, parser, namespace, values, option_string=None):
        if self.given:
            raise argparse.ArgumentError(self, "given twice")
        self.given = True
        setattr(namespace, self.dest, values)


def make_parser(description):
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.register("action", None, Once)
    parser.add_argument("--out", required=True, help="folder for results")
    parser.add_argument("--seeds", type=count, help="seeds 1 to N")
    parser.add_argument("--overwrite", action="store_true",
                        help="replace runs in --out that have other flags")
    add_command_option(parser)
    return parser


def parse(parser):
    """Returns the options; `flags` are the words after --."""
    own = sys.argv[1:]
    end = own.index("--") if "--" in own else len(own)
    options = parser.parse_args(own[:end])
    options.flags = own[end + 1:]
    return options


def main():
    parser = make_parser(__doc__)
    parser.add_argument("config", metavar="CONFIG.json")
    parser.add_argument("--data", required=True, help="data set, as for `train --data`")
    parser.add_argument("--bits", type=integers, help="comma-separated")
    parser.add_argument("--staleness", type=integers, help="comma-separated")
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=FLAGS",
                        help="another setting, e.g. '1-bit, S = 1, warm-up=--bits 1 --staleness 1 "
                             "--warmup-epochs 20'")
    parser.add_argument("--jobs", type=count, default=1, help="runs at a time (default: 1)")
    options = parse(parser)
    command = find_command(options.heliograph)
    config = read_config(options.config)
    settings = list_settings(config, options)
    last_seed = options.seeds or config["seeds"]

    def runs_of(names, seeds):
        return [Run(options, config, splits, name, everything[name], seed)
                for seed in seeds for name in names]

    make_sweep_folder(options.out)
    try:
        splits = count_splits(config, command, options.data, options.flags)
    except CommandFailed as error:
        print(f"sweep.py: {error}", file=sys.stderr)
        sys.exit(error.code or 1)
    seeds, everything = range(1, last_seed + 1), settings
    runs = runs_of(settings, seeds)
    others = [r.directory for r in runs if r.has_other_flags()]
    if others and not options.overwrite:
        refuse(f"{len(others)} of {len(runs)} runs were made with other flags, first {others[0]} (its "
               f"flags are in {others[0]}.flags.json); name another --out, or replace them with "
               "--overwrite")
    everything = add_earlier_settings(options.out, settings)
    failures = train_all(runs, command, options.jobs)
    further = [name for name in everything if name not in settings]
    trained = seeds_of_runs(options.out)
    beyond = sorted({seed for seed in trained if seed > last_seed})
    complete = [r for r in runs + runs_of(everything, beyond) + runs_of(further, seeds)
                if r.finished()]
    if complete:
        from curves import draw_curves  # Here, since Matplotlib takes a second to load.
        write_csv(os.path.join(options.out, "runs.csv"), complete)
        try:
            score = name_of_score(r.summary()["metric"] for r in complete)
        except ValueError as error:
            refuse(error)
        table = make_table(list(everything), complete, score)
        with open(os.path.join(options.out, "table.md"), "w", encoding="utf-8") as file:
            file.write(table + "\n")
        draw_curves(os.path.join(options.out, "curves.png"), list(everything), complete,
                    config["title"], score)
        print(f"\n{table}\n\nruns.csv, table.md and curves.png lie in {options.out}")
    if len(trained) > len(complete):
        print(f"{len(trained) - len(complete)} more runs in {options.out} have other flags, so the table "
              "lacks them")
    for failure in failures:
        print(f"\n{failure}", file=sys.stderr)
    sys.exit(1 if failures else 0)


def call(*words):
    """Runs a sweep with this command line, which prints its own table. Exits if a run fails."""
    sys.argv[1:] = words
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise


if __name__ == "__main__":
    main()

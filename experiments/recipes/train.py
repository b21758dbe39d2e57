#!/usr/bin/env python3
"""Trains a recipe with Heliograph, and in PyG or DGL on the same splits, and prints them beside the
published score.

Usage: train.py RECIPE.json --out DIR [--data PATH] [--seeds N] [--pyg PYTHON] [--dgl PYTHON]
                [--same-start] [--overwrite] [-- FLAGS of every run]

A recipe is a config of convergence/sweep.py, which trains our side into DIR/ours: fp32, 1 bit, and
1 bit with rows of one epoch ago. "published" names published scores; "generate" holds flags of
`heliograph generate`, whose graph takes the place of --data. With --pyg, a Python that has PyTorch and
PyG, PyG trains the same model with the same optimizer in DIR/pyg, from its own initial weights, on the
nodes and normalised features that `heliograph partition` gives for the same seed; likewise DGL
(bench/compare_frameworks.py --venv DIR --install makes DIR/pytorch/bin/python and DIR/dgl/bin/python).
With --same-start they begin with Heliograph's initial weights instead, but for about 1e-20 where those
are 0, and with --norm batch with running statistics of one epoch.
Scores are test scores at the epoch with the best validation score. It can be stopped and started again.
Writes DIR/recipe.md.
Needs NumPy, SciPy and Matplotlib.
"""

import csv
import os
import shlex
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), os.path.join(os.path.dirname(HERE), "convergence")]
from command import CommandFailed, find_command, make_flags, require_modules, run

require_modules("numpy", "scipy", "matplotlib")
import sweep
from json_file import read_json, write_json
from print_table import format_table
from tables import differences_of, name_of_score, paired, with_interval

FRAMEWORKS = {"PyG": "torch_geometric", "DGL": "dgl"}  # and their modules


def train_ours(data, command, options):
    """Runs the sweep, which prints its own table. Exits if a run fails."""
    sweep.call(options.recipe, "--data", data, "--out", os.path.join(options.out, "ours"), "--heliograph",
               command, "--seeds", str(options.seeds), *["--overwrite"] * options.overwrite, "--",
               *options.flags)


def require_frameworks(options):
    """Exits unless the Python that is given for a framework has it."""
    for name, module in FRAMEWORKS.items():
        python = getattr(options, name.lower())
        if not python:
            continue
        try:
            done = subprocess.run([python, "-W", "ignore", "-c", f"import {module}"], capture_output=True,
                                  text=True, check=False)
            reason = (done.stderr.strip().split("\n") or [""])[-1] if done.returncode else ""
        except OSError as error:
            reason = error.strerror
        if reason:
            sys.exit(f"train.py: --{name.lower()} {python}: {reason}")


def settings_of(recipe, flags):
    """The recipe's flags of `train`, with those of the command line, which are name and value each."""
    if len(flags) % 2 or any(not name.startswith("--") for name in flags[::2]):
        sys.exit("train.py: with --pyg and --dgl, give flags after -- as --NAME VALUE")
    return recipe["train"] | {name[2:]: value for name, value in zip(flags[::2], flags[1::2])}


def train_reference(framework, recipe, data, command, seed, split, options):
    """Trains one seed in PyG or DGL, unless it is there, and returns its test score."""
    folder = os.path.join(options.out, framework.lower(), f"seed-{seed}")
    settings = settings_of(recipe, options.flags)
    job = {"framework": framework.lower(), "train": settings, "seed": seed, "split": split,
           "same_start": options.same_start}
    result = os.path.join(folder, "result.json")
    if os.path.exists(result) and {"same_start": False} | read_json(result)["job"] == job:
        return read_json(result)["test"]
    shard = os.path.join(folder, "shard")
    shaping = job["split"] | {name: settings[name] for name in ("normalize",) if name in settings}
    os.makedirs(folder, exist_ok=True)
    run(command, "partition", "--data", data, "--parts", "1", "--out", shard, "--overwrite", "--quiet",
        *make_flags(shaping))
    ours = os.path.join(options.out, "ours", "runs", f"fp32-s-0.seed-{seed}")
    if options.same_start:
        # A step at this rate leaves every weight as it is, except that zeros become about 1e-20.
        ours = os.path.join(folder, "start")
        run(command, "train", "--data", data, "--out", ours, "--overwrite", "--quiet", "--seed", str(seed),
            *make_flags(settings | split | {"parts": 1, "epochs": 1, "lr": 1e-20}))
    weights = os.path.join(ours, "best.safetensors")
    write_json(os.path.join(folder, "job.json"), {**job, "shard": shard, "weights": weights})
    python = getattr(options, framework.lower())
    done = subprocess.run([python, "-B", "-W", "ignore", os.path.join(HERE, "torch_side.py"),
                           os.path.join(folder, "job.json"), result], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().split("\n") or [""])[-1]
        sys.exit(f"train.py: {framework}, seed {seed}: {reason}")
    print(f"{framework}, seed {seed}: {read_json(result)['test']:.4f}", flush=True)
    return read_json(result)["test"]


def our_scores(options):
    """{setting: {seed: test score}} of the runs in the sweep's runs.csv, and what the score is."""
    scores, metrics = {}, set()
    with open(os.path.join(options.out, "ours", "runs.csv"), encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            scores.setdefault(row["setting"], {})[int(row["seed"])] = float(row["test_metric"])
            metrics.add(row["metric"])
    return scores, name_of_score(metrics)


def make_table(recipe, scores, score):
    """`scores` is {side: {seed: test score}} and `score` what they are. Differences are to PyG
    and DGL, if they are there, and to the first of ours, fp32."""
    unit, *form = differences_of(score)
    references = [name for name in scores if name in FRAMEWORKS]
    references.append(next(name for name in scores if name not in FRAMEWORKS))
    rows = [[f"published: {name}", "", value] + [""] * len(references)
            for name, value in recipe.get("published", {}).items()]
    for place, (name, by_seed) in enumerate(scores.items()):
        rows.append([name, str(len(by_seed)), with_interval(list(by_seed.values()), ".4f"),
                     *(paired(by_seed, scores[other], *form) if list(scores).index(other) < place else ""
                       for other in references)])
    return format_table(["", "seeds", f"mean {score} [95 %]",
                         *(f"{unit} against {other} [95 %]" for other in references)], rows)


def parse():
    parser = sweep.make_parser(__doc__)
    parser.add_argument("recipe", metavar="RECIPE.json")
    parser.add_argument("--data", help="data set, as for `train --data`")
    for name in FRAMEWORKS:
        parser.add_argument(f"--{name.lower()}", metavar="PYTHON",
                            help=f"a Python with {name}, which trains too")
    parser.add_argument("--same-start", action="store_true",
                        help="PyG and DGL begin with Heliograph's initial weights")
    return parser, sweep.parse(parser)


def main():
    parser, options = parse()
    recipe = sweep.read_config(options.recipe)
    if ("generate" in recipe) == bool(options.data):
        parser.error("--data is needed" if not options.data else
                     f"{options.recipe} generates its graph, so it takes no --data")
    if options.same_start and not any(getattr(options, name.lower()) for name in FRAMEWORKS):
        parser.error("--same-start is for --pyg and --dgl")
    require_frameworks(options)
    command = find_command(options.heliograph)
    options.seeds = options.seeds or recipe["seeds"]
    sweep.make_folder(options.out)
    data = options.data or os.path.join(options.out, "graph")
    try:
        if "generate" in recipe and not os.path.exists(data):
            run(command, "generate", *shlex.split(recipe["generate"]), "--out", data, "--quiet")
        train_ours(data, command, options)
        scores = {}
        for framework in (name for name in FRAMEWORKS if getattr(options, name.lower())):
            split = sweep.given_split(recipe, options.flags)
            splits = sweep.count_splits(recipe, command, data, options.flags)
            scores[framework] = {
                seed: train_reference(framework, recipe, data, command, seed,
                                      sweep.split_of(split, splits, seed, options.flags), options)
                for seed in range(1, options.seeds + 1)}
    except CommandFailed as error:
        sys.exit(f"train.py: {error}")
    ours, score = our_scores(options)
    table = make_table(recipe, scores | ours, score)
    with open(os.path.join(options.out, "recipe.md"), "w", encoding="utf-8") as file:
        file.write(f"{recipe['title']}\n\n{table}\n")
    print(f"\n{table}")


if __name__ == "__main__":
    main()

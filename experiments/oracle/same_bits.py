#!/usr/bin/env python3
"""Shows that two builds of the command compute the same bits.

Makes small graphs, trains, resumes and evaluates with each setting of settings.py by both commands,
and compares what they write, except times and memory: each line of metrics.jsonl, the summary,
predictions, scores, weights of checkpoints and evaluations. Values and files that only AFTER writes
are not compared. Both train on BEFORE's graphs. AFTER may refuse the format version of a file that
BEFORE wrote, and BEFORE may lack an option; both are printed. Prints a line for each setting; exits
1 if any differs. Needs NumPy.

Usage: oracle/same_bits.py --before PATH --after PATH --out DIR [--only NAME] [--cora cora.npz]
"""

import argparse
import glob
import json
import os
import re
import shlex
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from command import ROOT, CommandFailed, find_command, run
from settings import GRAPHS, SETTINGS, TRAIN

LIMIT = 300  # seconds that one call may take
NUMBERS = ("metrics.jsonl", "summary.json", "eval.json")
BYTES = (".npy", "manifest.xxh64")  # the latter covers all of a graph
TIMES = {"seconds", "epoch_seconds", "setup_seconds"}
MEMORY = {"peak_rss_bytes", "setup_peak_rss_bytes", "loading_bytes", "memory"}
NAMES = {"checkpoint", "layer", "direction", "site"}  # a path, and a build's names for exchanges
OTHER = {"evaluation_bytes"}  # also counts messages that describe the ranks
NOT_COMPARED = TIMES | MEMORY | NAMES | OTHER


def call(command, words, values):
    run(command, *(word.format(**values) for word in shlex.split(words)), "--quiet", limit=LIMIT)


def train(first, command, setting, graphs, folder):
    """Writes a setting's files to `folder`: `first` trains, and `command` makes the later call."""
    graph, flags, then = (*setting, None)[:3]
    values = {"graph": graphs[graph], "epochs": 4 if then else 8,
              "run": os.path.join(folder, "run"), "eval": os.path.join(folder, "eval"),
              "summary": os.path.join(folder, "summary.json")}
    call(first, f"{TRAIN} {flags}", values)
    if then:
        call(command, then, values)


def leaves(where, value):
    """Yields (where, value) for each value to compare in a JSON object or list."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in inner:
        if key in NOT_COMPARED:
            continue
        if isinstance(item, (dict, list)):
            yield from leaves(f"{where} {key}", item)
        else:
            yield f"{where} {key}", item


def tensors(path):
    """Yields (name, bytes) of each tensor of a safetensors file, whose metadata may differ."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    for name, entry in header.items():
        if name != "__metadata__":
            yield name, data[slice(*entry["data_offsets"])]


def read(folder):
    """Returns {where: value} of everything to compare in `folder`, epochs first."""
    values = {}
    paths = glob.glob(os.path.join(folder, "**"), recursive=True)
    for path in sorted(paths, key=lambda path: (not path.endswith("metrics.jsonl"), path)):
        name = os.path.relpath(path, folder)
        if name.endswith(NUMBERS):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            parts = text.splitlines() if name.endswith(".jsonl") else [text]
            for number, part in enumerate(parts):
                where = f"{name}, epoch {number}," if len(parts) > 1 else f"{name},"
                values |= leaves(where, json.loads(part, parse_float=str, parse_int=str))
        elif name.endswith("weights.safetensors"):
            values |= {f"{name}, {tensor}": data for tensor, data in tensors(path)}
        elif name.endswith(BYTES):
            with open(path, "rb") as file:
                values[name] = file.read()
    return values


def difference(before, after):
    """Describes the first value of `before` that differs; None if there is none."""
    for where, value in before.items():
        other = after.get(where, "nothing")
        if value != other:
            return f"{where}: " + ("other bytes" if bytes in (type(value), type(other))
                                   else f"{value} before, {other} after")
    return None if before else "nothing was written"


def folder_of(name, options):
    return os.path.join(options.out, re.sub(r"\W+", "-", name))


def compare(name, options, write):
    """Calls write(command, folder) for both commands, prints the first difference and returns
    whether there is one."""
    sides = []
    for side in ("before", "after"):
        folder = os.path.join(folder_of(name, options), side)
        os.makedirs(folder)
        try:
            write(getattr(options, side), folder)
            sides.append(read(folder))
        except CommandFailed as error:
            refusal = None
            if side == "before":
                refusal = re.search("unknown flag.*|must be.*, not.*", str(error))
            elif name.startswith(("BEFORE", "shards")):  # BEFORE wrote the checkpoint or the shards.
                refusal = re.search("has format version.*", str(error))
            print(f"{name}: " + (f"refused {side}: {refusal[0]}" if refusal
                                 else f"{side}: {error}"))
            return not refusal
    found = difference(*sides)
    print(f"{name}: {found or 'equal'}", flush=True)
    return found is not None


def make_graphs(names, options):
    """Makes the graphs. Returns ({name: path} of BEFORE's graphs, number of graphs that differ)."""
    sources = {"cora": options.cora}
    differ = 0
    for source, flags in (("sparse", ()), ("weighted", ("--weighted",))):
        if not any(f"{{{source}}}" in GRAPHS[name] for name in names):
            continue
        sources[source] = os.path.join(options.out, f"{source}.npz")
        run(sys.executable, os.path.join(ROOT, "experiments", "memory", "sparse_graph.py"), "--out",
            sources[source], "--nodes", "3000", "--edges", "15000", "--words", "10", "--of", "400",
            *flags)
    for name in names:
        title = f"graph {name}"
        differ += compare(title, options, lambda command, folder: call(
            command, f"{GRAPHS[name]} --out {{out}}",
            {**sources, "out": os.path.join(folder, "graph")}))
        sources[name] = os.path.join(folder_of(title, options), "before", "graph")
    return sources, differ


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", required=True, metavar="PATH", help="the reference command")
    parser.add_argument("--after", required=True, metavar="PATH", help="the command to compare")
    parser.add_argument("--out", required=True, help="new folder for the files of both")
    parser.add_argument("--only", default="", metavar="NAME",
                        help="only settings whose names contain NAME")
    parser.add_argument("--cora", default=os.path.join(ROOT, "..", "shared", "data", "cora.npz"),
                        help="(default: shared/data/cora.npz beside the checkout, if it exists)")
    options = parser.parse_args()
    options.before, options.after = find_command(options.before), find_command(options.after)
    chosen = {name: setting for name, setting in SETTINGS.items() if options.only in name
              and (setting[0] != "cora" or os.path.exists(options.cora))}
    if not chosen:
        parser.error(f"no setting has {options.only} in its name")
    if os.path.exists(options.out):
        parser.error(f"{options.out} exists")
    os.makedirs(options.out)

    begin = time.monotonic()
    used = {graph for graph, *_ in chosen.values()}
    used |= {"dense"} if "shards" in used else set()  # shards are cut from it
    graphs, differ = make_graphs([name for name in GRAPHS if name in used], options)
    for name, setting in chosen.items():
        differ += compare(name, options, lambda command, folder: train(
            options.before if name.startswith("BEFORE") else command, command, setting, graphs,
            folder))
    print(f"{len(used)} graphs and {len(chosen)} settings: {differ} differ "
          f"({time.monotonic() - begin:.0f} s)")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()

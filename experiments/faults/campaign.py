#!/usr/bin/env python3
"""Kills ranks, cuts links and makes saves fail, and counts how often the promises of
docs/reliability.md were kept. Writes every trial to OUT/trials.json, the shares to OUT/table.md,
and the whole output of each failed trial to OUT/failures. The exit code is 0 only if no trial
failed. Standard library only.

  kill  SIGKILL of a random rank at a random moment, with 2, 4 and 8 ranks. The survivors must name
        the rank and end with 5 within 2 s, and the resumed run must have the same results, bit for
        bit.
  stop  SIGSTOP of a random rank. The survivors must name it and end with 5 within the limit of
        silence + 2 s.
  cut   A cut link between 4 emulated hosts. The ranks on each side must name a rank of the other
        side and end like those of stop. Needs root.
  save  SIGKILL at every system call of three saves, and ENOSPC and EIO in every call that can fail.
        Needs strace.
  term  SIGTERM at a random moment. The run must save a checkpoint and end with 143, and the resumed
        run must have the same results, bit for bit.

Usage: experiments/faults/campaign.py --out runs/faults [--quick] [--only kill,stop]
"""

import argparse
import datetime
import os
import random
import shutil
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), HERE]
import processes
from command import add_command_option, find_command
from jobs import JobFailed
from json_file import read_json, write_json
from lost_ranks import Cut, Kill, Stop
from report import make_report
from runs import Runs, run_words
from saves import Save
from terminations import Term

CAMPAIGNS = {campaign.name: campaign for campaign in (Kill, Stop, Cut, Save, Term)}
QUICK = {"kill": 6, "stop": 2, "cut": 2, "save": 0.08, "term": 6}
# If this many moments in a row come after the end of their runs, the measured lengths are wrong.
DRAWS = 50


def what_lacks(names):
    """The reason why these campaigns cannot run here, or None."""
    for name, tool in (("kill", "mpirun"), ("stop", "mpirun"), ("term", "mpirun"),
                       ("cut", "mpirun"), ("cut", "ip"), ("save", "strace")):
        if name in names and not shutil.which(tool):
            return f"{name} needs {tool}"
    if "cut" in names and os.geteuid() != 0:
        return "cut needs root, for network namespaces"
    return None


class Recorder:
    """Collects trials, and writes them to OUT/trials.json beside those of other campaigns."""

    def __init__(self, out):
        self.out, self.path = out, os.path.join(out, "trials.json")
        self.campaigns = {}
        if os.path.exists(self.path):
            self.campaigns = read_json(self.path)

    def write(self):
        write_json(self.path, self.campaigns)
        with open(os.path.join(self.out, "table.md"), "w", encoding="utf-8") as file:
            file.write(make_report(self.campaigns))


def wrong_in(trial):
    return [f"{kind}: {sentence}" for kind, sentences in trial["faults"].items()
            for sentence in sentences]


def keep(trial, name, folder, out):
    """Moves the output of a failed trial to OUT/failures, and prints what was wrong."""
    kept = os.path.join(out, "failures", f"{name}-{trial['number']}")
    shutil.rmtree(kept, ignore_errors=True)
    os.makedirs(os.path.dirname(kept), exist_ok=True)
    shutil.move(folder, kept)
    print(f"{name} {trial['number']}: WRONG; its output is in {kept}", flush=True)
    for sentence in wrong_in(trial):
        print(f"  {sentence}", flush=True)
    job = os.path.join(kept, "job")
    for file in sorted(os.listdir(job)) if os.path.isdir(job) else []:
        if file == "out" or file.startswith("err."):
            with open(os.path.join(job, file), encoding="utf-8", errors="replace") as text:
                print("".join(f"  [{file}] {line}" for line in text), end="", flush=True)


def run_campaign(campaign, wanted, options, recorder):
    """Runs the trials of a campaign. Returns whether all of them passed."""
    name, begin = campaign.name, time.monotonic()
    about = {"seed": options.seed, "version": options.version, "seconds": 0.0, "drawn_again": 0,
             "started": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
             "trials": []}
    recorder.campaigns[name] = about
    count = campaign.count(wanted)
    folder = os.path.join(options.out, "trial")
    for number in range(count):
        draw = random.Random(f"{options.seed} {name} {number}")
        for _ in range(DRAWS):
            shutil.rmtree(folder, ignore_errors=True)
            trial = campaign.trial(number, draw, folder)
            if trial:
                break
            processes.end_all()
            about["drawn_again"] += 1
        else:
            raise JobFailed(f"{name} {number}: the run was over {DRAWS} times before its moment")
        about["trials"].append({"number": number, **trial})
        about["seconds"] = round(time.monotonic() - begin, 1)
        if wrong_in(trial):
            keep(about["trials"][-1], name, folder, options.out)
        if number % 10 == 9 or number + 1 == count:
            wrong = sum(bool(wrong_in(each)) for each in about["trials"])
            print(f"{name}: {number + 1} of {count}, wrong {wrong}, {about['seconds']:.0f} s",
                  flush=True)
            recorder.write()
    return not any(map(wrong_in, about["trials"]))


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, metavar="DIR")
    parser.add_argument("--only", default=",".join(CAMPAIGNS), metavar="NAME,...",
                        help=f"of {', '.join(CAMPAIGNS)} (default: all)")
    parser.add_argument("--count", type=float, default=1.0, metavar="X",
                        help="so many times the usual number of trials: "
                             + ", ".join(f"{name} {campaign.usual}"
                                         for name, campaign in CAMPAIGNS.items()
                                         if hasattr(campaign, "usual"))
                             + ", save every call (X at most 1)")
    parser.add_argument("--quick", action="store_true", help="a few of each, under 2 minutes")
    parser.add_argument("--seed", type=int, default=1, help="of ranks and moments (default 1)")
    add_command_option(parser)
    options = parser.parse_args(arguments)
    options.only = options.only.split(",")
    for name in options.only:
        if name not in CAMPAIGNS:
            parser.error(f"--only {name}: there are {', '.join(CAMPAIGNS)}")
    if not 0 < options.count < float("inf"):
        parser.error(f"--count {options.count:g}: a number above 0 is needed")
    return options


def wanted_of(name, options):
    if options.quick:
        return QUICK[name]
    if name == "save":
        return min(1.0, options.count)
    return max(1, round(CAMPAIGNS[name].usual * options.count))


def main(arguments=None):
    options = parse(arguments)
    lacks = what_lacks(options.only)
    if lacks:
        sys.exit(f"{lacks}; --only leaves it out")
    options.out = os.path.realpath(options.out)
    os.makedirs(options.out, exist_ok=True)
    # The command is copied, so that a rebuild does not change a campaign that is running.
    command = os.path.join(options.out, "heliograph")
    shutil.copy2(find_command(options.heliograph), command)
    options.version = run_words([command, "--version"]).said.strip()
    print(f"seed {options.seed}, {options.version}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    processes.adopt_orphans()
    recorder = Recorder(options.out)
    shutil.rmtree(os.path.join(options.out, "graph"), ignore_errors=True)
    runs = Runs(command, os.path.join(options.out, "graph"))
    good = True
    try:
        runs.generate(8000, 60000)
        for name in options.only:
            campaign = CAMPAIGNS[name](runs, options.out)
            good = run_campaign(campaign, wanted_of(name, options), options, recorder) and good
        with open(os.path.join(options.out, "table.md"), encoding="utf-8") as file:
            print(f"\n{file.read()}")
    except JobFailed as failure:
        print(f"the campaign cannot go on: {failure}", file=sys.stderr)
        good = False
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        processes.end_all()
        if "cut" in options.only:
            Cut.clean()
        recorder.write()
        shutil.rmtree(os.path.join(options.out, "trial"), ignore_errors=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

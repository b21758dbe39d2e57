#!/usr/bin/env python3
"""Tests of sweeps (experiments/convergence). A stand-in takes the place of the command."""

import argparse
import contextlib
import csv
import io
import json
import os
import re
import subprocess
import sys
import time
import unittest
from unittest import mock

try:
    import matplotlib
    import numpy
    import scipy
except ImportError as error:
    print(f"skipped: {error.name} is not installed")
    sys.exit(77)

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from harness import ROOT, FolderTest, call, run

EXPERIMENTS = os.path.join(ROOT, "experiments")
SWEEP = os.path.join(EXPERIMENTS, "convergence", "sweep.py")
sys.path += [os.path.dirname(SWEEP), os.path.join(EXPERIMENTS, "depth")]
import run as depth
import sweep
FAKE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_heliograph.py")


class Sweep(FolderTest):
    def sweep(self, *flags, config=os.path.join(EXPERIMENTS, "convergence", "tolokers.json"),
              **environment):
        calls = self.write("calls", "")
        done = call(sweep, config, "--data", "tolokers.npz", "--out", self.path("out"),
                    "--heliograph", FAKE, *([] if "--seeds" in flags else ["--seeds", "3"]), *flags,
                    **{"FAKE_CALLS": calls, "FAKE_SPLITS": "10", **environment})
        return done, [call for call in self.read("calls").splitlines() if call.startswith("train")]

    def table(self):
        lines = self.read("out", "table.md").splitlines()
        return {cells[0]: cells[1:] for cells in
                ([c.strip() for c in line.strip("|").split("|")] for line in lines[2:]
                 if line.startswith("|"))}

    def test_compares_by_pairs_and_goes_on_where_it_stopped(self):
        done, calls = self.sweep()
        self.assertEqual((done.returncode, len(calls)), (0, 12), done.stderr)
        self.assertIn("--split 2 --bits 1 --staleness 1 --stale-sites all --seed 2", "\n".join(calls))
        table = self.table()
        self.assertEqual(list(table), ["fp32, S = 0", "1-bit, S = 0", "fp32, S = 1",
                                       "1-bit, S = 1"])
        # Seeds score 0.81, 0.82, 0.83; one bit takes 2 points from each: no spread to see.
        self.assertEqual(table["fp32, S = 0"][:4], ["3", "0.8200 [0.7952, 0.8448]", "0.0100", "-"])
        self.assertEqual(table["1-bit, S = 0"][3], "-2.00 [-]")
        self.assertIn("all values are equal", self.read("out", "table.md"))
        self.assertEqual(table["fp32, S = 1"][3], "-0.20 [-0.45, +0.05]")
        rows = csv.DictReader(self.read("out", "runs.csv").splitlines())
        self.assertEqual(len(list(rows)), 12)
        self.assertGreater(os.path.getsize(self.path("out", "curves.png")), 10_000)

        self.assertEqual(self.sweep()[1], [])
        os.remove(self.path("out", "runs", "1-bit-s-0.seed-2.summary.json"))
        self.assertEqual(len(self.sweep()[1]), 1)
        
    def test_runs_with_other_flags_are_replaced_only_when_told_to(self):
        fp32 = ("--bits", "32", "--staleness", "0")
        self.sweep(*fp32)
        before = self.read("out", "runs.csv")
        text = self.refused_flags(*fp32, "--seeds", "4", "--", "--lr", "0.1")
        self.assertIn(f"3 of 4 runs were made with other flags, first "
                      f"{self.path('out', 'runs', 'fp32-s-0.seed-1')} ", text)
        self.assertIn("--overwrite", text)
        self.assertEqual(self.read("out", "runs.csv"), before)
        self.assertEqual(self.sweep(*fp32)[1], [])
        self.assertEqual(len(self.sweep(*fp32, "--overwrite", "--", "--lr", "0.1")[1]), 3)

    def test_earlier_settings_stay_in_the_table_if_their_flags_fit(self):
        self.sweep("--staleness", "0", "--setting", "warm=--bits 1 --staleness 1 --warmup-epochs 9")
        done, calls = self.sweep("--bits", "32", "--staleness", "0", "--seeds", "2")
        self.assertEqual((done.returncode, calls), (0, []), done.stderr)
        self.assertEqual({name: row[0] for name, row in self.table().items()},
                         {"fp32, S = 0": "3", "1-bit, S = 0": "3", "warm": "3"})
        self.assertEqual(len(self.read("out", "runs.csv").splitlines()), 1 + 9)
        # The setting's own flags are others now, so its runs are too.
        self.assertIn("warm.seed-1 ", self.refused_flags("--setting", "warm=--bits 2"))

    def test_extra_settings_are_compared_too(self):
        done, calls = self.sweep("--bits", "32", "--staleness", "0", "--setting",
                                 "1-bit, S = 1, warm-up=--bits 1 --staleness 1 --warmup-epochs 9")
        self.assertEqual((done.returncode, len(calls)), (0, 6), done.stderr)
        self.assertEqual(list(self.table()), ["fp32, S = 0", "1-bit, S = 1, warm-up"])

    def test_a_failed_run_is_named_and_the_others_count(self):
        done, _ = self.sweep(FAKE_FAIL="--bits 1 --staleness 0 --seed 2")
        self.assertEqual(done.returncode, 1)
        self.assertIn("told to fail", done.stderr)
        self.assertEqual(self.table()["1-bit, S = 0"][0], "2")
        self.assertEqual(len(self.sweep()[1]), 1)

    def test_an_error_of_flags_or_data_stops_it(self):
        for code in ("2", "3"):
            done, calls = self.sweep(FAKE_FAIL="--bits 32", FAKE_CODE=code)
            self.assertEqual((done.returncode, len(calls)), (int(code), 1), done.stderr)
            self.assertEqual(done.stderr.count("told to fail"), 1, done.stderr)

    def test_runs_of_further_seeds_stay_in_the_table(self):
        fp32 = ("--bits", "32", "--staleness", "0")
        self.sweep(*fp32)
        self.assertEqual(self.sweep(*fp32, "--seeds", "2")[1], [])
        self.assertEqual(self.table()["fp32, S = 0"][0], "3")
        done, _ = self.sweep(*fp32, "--seeds", "2", "--overwrite", "--", "--lr", "0.1")
        self.assertEqual(self.table()["fp32, S = 0"][0], "2")
        self.assertIn("1 more runs in", done.stdout)

    def refused_flags(self, *flags, trains=0):
        """What sweep.py says of flags that it refuses after so many runs."""
        done, calls = self.sweep(*flags)
        self.assertEqual((done.returncode, len(calls)), (2, trains), done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        return done.stderr

    def test_settings_with_one_folder_are_refused(self):
        for names in (("a", "a"), ("1-bit A", "1-bit/A"), ("fp32, S = 0", None)):
            flags = [word for name in names if name for word in ("--setting", f"{name}=--bits 2")]
            self.assertIn("would share the run folders", self.refused_flags(*flags))
        self.assertIn('"fp32, S = 0" and', self.refused_flags("--bits", "32,1,32"))
        self.assertIn('"a" has splits of its own',
                      self.refused_flags("--setting", "a=--bits 2 --split 1"))
        self.assertIn("needs a name", self.refused_flags("--setting", "--bits 1=--bits 1",
                                                         "--setting", "++=--bits 1"))

    def test_options_that_contradict_or_repeat_are_refused(self):
        for option in ("--jobs", "--seeds"):
            self.assertIn(f"argument {option}: -1 is below 1", self.bare(option, "-1"))
            self.assertIn(f"argument {option}: 0 is below 1", self.bare(option, "0"))
        self.assertIn("argument --bits: given twice", self.bare("--bits", "32", "--bits", "1"))
        config = self.write("none.json", self.tolokers().replace('"seeds": 20', '"seeds": 0'))
        self.assertIn('none.json: "seeds" is 0; it must be a whole number from 1', self.bare(config=config))

    def tolokers(self):
        with open(os.path.join(EXPERIMENTS, "convergence", "tolokers.json"), encoding="utf-8") as file:
            return file.read()

    def bare(self, *flags, config=None):
        """As `refused_flags`, without --seeds of its own."""
        config = config or self.write("config.json", self.tolokers())
        done = call(sweep, config, "--data", "d", "--out", self.path("out"), "--heliograph", FAKE,
                    *flags, FAKE_CALLS=self.path("calls"))
        self.assertEqual((done.returncode, os.path.exists(self.path("calls"))), (2, False), done.stderr)
        return done.stderr

    def test_values_of_the_wrong_type_are_named(self):
        for key, value, must in (
                ("bits", 32, "a list of whole numbers"), ("bits", ["32"], "a list of whole numbers"),
                ("staleness", 0, "a list of whole numbers"),
                ("staleness", [True], "a list of whole numbers"),
                ("settings", ["a"], "an object of texts"), ("settings", {"a": 1}, "an object of texts"),
                ("train", "epochs 3", "an object of flags"), ("title", 1, "a text"),
                ("split", [1], "a text or a whole number"),
                ("seeds", "2", "a whole number from 1"), ("seeds", 1.5, "a whole number from 1")):
            config = json.loads(self.tolokers()) | {key: value}
            line = self.bare(config=self.write("config.json", json.dumps(config)))
            self.assertIn(f'config.json: "{key}" is {json.dumps(value)}; it must be {must}', line)
            self.assertEqual(line.count("\n"), 1, line)
        for text, words in (("[]", "holds no JSON object"),
                            (json.dumps(json.loads(self.tolokers()) | {"bits": []}), "no setting"),
                            (json.dumps(json.loads(self.tolokers()) | {"settings": {"a": "--x '"}}),
                             'the flags of the setting "a": No closing quotation')):
            self.assertIn(words, self.bare(config=self.write("config.json", text)))
        self.assertEqual(os.listdir(self.folder), ["config.json"])

    def test_a_run_without_a_score_stops_it(self):
        for _ in range(2):  # It does not count as done either.
            text = self.refused_flags("--", "--eval-every", "0", trains=1)
            self.assertIn("fp32, S = 0, seed 1: the run has no test score", text)
            self.assertEqual(text.count("\n"), 1, text)

    def test_the_metric_of_the_runs_names_the_score(self):
        self.sweep("--bits", "32", "--staleness", "0", "--", "--metric", "macro-f1")
        self.assertIn("mean macro-F1 [95 %]", self.read("out", "table.md"))
        self.assertIn("metric,test_metric", self.read("out", "runs.csv"))
        # An RMSE has the unit of its targets, so its differences are no hundredths.
        self.sweep("--bits", "32,1", "--staleness", "0", "--overwrite", "--", "--metric", "rmse")
        self.assertIn("difference against fp32, S = 0 [95 %]", self.read("out", "table.md"))
        self.assertEqual(self.table()["1-bit, S = 0"][3], "-0.0200 [-]")
        text = self.refused_flags("--bits", "32", "--staleness", "0", "--overwrite", "--setting",
                                  "other=--metric f1", trains=6)
        self.assertIn("several metrics (auc, f1); give all settings the same --metric", text)

    def test_a_stopped_sweep_stops_its_run(self):
        hangs = self.path("hangs")
        environment = {**os.environ, "FAKE_CALLS": self.write("calls", ""), "FAKE_HANG": hangs}
        config = os.path.join(EXPERIMENTS, "convergence", "tolokers.json")
        with subprocess.Popen([sys.executable, SWEEP, config, "--data", "d", "--out",
                               self.path("out"), "--heliograph", FAKE, "--seeds", "1"],
                              env=environment, stderr=subprocess.PIPE, text=True) as process:
            while not os.path.exists(hangs) or not self.read("hangs"):
                self.assertIsNone(process.poll())
                time.sleep(0.01)
            process.terminate()
            self.assertEqual(process.wait(), 1)
            self.assertIn("stopped; repeat the command to continue", process.stderr.read())
        with self.assertRaises(ProcessLookupError):
            os.kill(int(self.read("hangs")), 0)

    def test_a_folder_with_other_things_is_refused(self):
        self.write("file", "")
        os.mkdir(self.path("graph"))
        self.write(os.path.join("graph", "manifest.json"), "{}")
        for out, words in (("file", "cannot make the folder"), ("graph", "holds other files")):
            script = (SWEEP, os.path.join(EXPERIMENTS, "convergence", "tolokers.json"))
            self.assertIn(words, self.refused(*script, out=self.path(out)))
        self.assertEqual(os.listdir(self.path("graph")), ["manifest.json"])

    def test_two_seeds_have_no_interval(self):
        self.sweep("--bits", "32", "--seeds", "2")
        self.assertEqual(self.table()["fp32, S = 1"][1:4], ["0.8135 [-]", "0.0064", "-0.15 [-]"])
        self.assertIn("fewer than 3 seeds", self.read("out", "table.md"))

    def refused(self, *words, code=2, out=None):
        """The one line with which sweep.py ends."""
        done = run(sys.executable, *words, "--data", "d", "--out", out or self.path("out"),
                   "--heliograph", FAKE)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (code, 1), done.stderr)
        return done.stderr

    def test_a_missing_library_or_config_is_named_in_one_line(self):
        line = self.refused("-S", SWEEP, "cora.json", code=1)
        for words in ("numpy, scipy, matplotlib", "scripts/install_dependencies.sh experiments"):
            self.assertIn(words, line)
        self.assertIn("cannot read the config absent.json", self.refused(SWEEP, "absent.json"))
        config = self.write("bad.json", '{"title": "t"}')
        self.assertIn("bad.json lacks bits, seeds, staleness, train; experiments/README.md",
                      self.refused(SWEEP, config))

    def test_the_splits_of_the_data_are_used_unless_another_is_given(self):
        def splits(*flags, count="2", train=(), **keys):
            """The splits of seeds 1 to 3, and what is said of them."""
            config = {"train": {"lr": 1, **dict(train)}, **keys}
            environment = {"FAKE_CALLS": self.path("calls"), "FAKE_SPLITS": count}
            said = io.StringIO()
            with mock.patch.dict(os.environ, environment), contextlib.redirect_stdout(said):
                found = sweep.count_splits(config, FAKE, "d.npz", flags)
            options = argparse.Namespace(out="out", data="d.npz", flags=flags)
            runs = [" ".join(sweep.Run(options, config, found, "fp32", ["--bits", "32"], seed).flags)
                    for seed in (1, 2, 3)]
            return ([" ".join(re.findall(r"--split(?:-seed)?[ =](\S+)", run)) for run in runs],
                    said.getvalue())

        drawn = [f"random:60/20/20 {seed}" for seed in (1, 2, 3)]
        self.assertEqual(splits(), (["1", "0", "1"], "splits: d.npz holds 2; seed s trains on split s "
                                                     "modulo 2\n"))
        self.assertEqual(splits(count="0"), (drawn, "splits: d.npz holds none; seed s draws the s-th of "
                                                    "--split random:60/20/20\n"))
        self.assertEqual(splits(split="random:60/20/20"),
                         (drawn, "splits: seed s draws the s-th of --split random:60/20/20\n"))
        self.assertEqual(splits("--split-seed", "7", count="0"),
                         (["random:60/20/20 7"] * 3, "splits: d.npz holds none; every seed draws number 7 "
                                                     "of --split random:60/20/20\n"))
        self.assertEqual(splits(split=4), (["4"] * 3, "splits: every seed trains on --split 4\n"))
        self.assertEqual(splits(train={"split": 3})[0], ["3"] * 3)
        self.assertEqual(splits("--split", "0", split="random:60/20/20")[0], ["0"] * 3)
        self.assertEqual(splits("--split=random:5/5/5", split=4)[0],
                         [f"{seed} random:5/5/5" for seed in (1, 2, 3)])

    def test_data_are_counted_as_they_are_read(self):
        done, calls = self.sweep("--", "--index-base", "1", "--keep-direction", "--target", "y",
                                 "--lr", "0.1", FAKE_FAIL="train", FAKE_CODE="2")
        self.assertEqual((done.returncode, len(calls)), (2, 1), done.stderr)
        self.assertIn("import --data tolokers.npz --log-level error --index-base 1 --keep-direction "
                      "--target y\n",
                      self.read("calls"))
        done, calls = self.sweep(FAKE_FAIL="import", FAKE_CODE="3")
        self.assertEqual((done.returncode, calls), (3, []))
        self.assertIn("told to fail", done.stderr)


class Depth(FolderTest):
    def train(self, *flags):
        calls = self.write("calls", "")
        done = call(depth, "--data", "tolokers=tolokers.npz", "--out", self.path("out"),
                    "--heliograph", FAKE, *flags, FAKE_CALLS=calls, FAKE_SPLITS="10",
                    FAKE_POOR_RATE="0.001")
        return done, [call for call in self.read("calls").splitlines() if call.startswith("train")]

    def test_takes_the_best_rate_of_fp32_and_compares_by_pairs(self):
        done, calls = self.train("--models", "sage6,gat4", "--score-only")
        self.assertEqual((done.returncode, len(calls)), (0, 2 * (3 + 15)), done.stderr)
        self.assertEqual(sum("--lr 0.003" in call for call in calls), 2 * (1 + 15))
        rows = [[cell.strip() for cell in line.strip("|").split("|")]
                for line in self.read("out", "table.md").splitlines()[2:]]
        self.assertEqual([row[1] for row in rows[:5]],
                         ["fp32", "1 bit", "auto", "1 bit, lowest late", "1 bit, all late"])
        self.assertEqual(rows[0][0], "tolokers, sage6, lr 0.003")
        # Seeds score 0.81, 0.82, 0.83; one bit takes 2 points from each, and lag 0.1 for each seed.
        self.assertEqual(rows[1][2:5], ["0.8000", "-2.00 [-]", "1.05 kB"])
        self.assertEqual(rows[3][3], "-2.20 [-2.45, -1.95]")
        self.assertEqual(sum("--bits-forward 1 --bits-backward 4 --staleness 1" in c for c in calls), 6)
        self.assertGreater(os.path.getsize(self.path("out", "tolokers.png")), 10_000)
        self.assertEqual(self.train("--models", "sage6,gat4", "--score-only")[1], [])

    def test_refuses_what_it_does_not_know(self):
        for flags, words in ((("--models", "sage7"), "no such model: sage7"),
                             (("--data", "graph"), "graph is not NAME=PATH"),
                             (("--data", "no_such=graph"), "cannot read the config")):
            done, calls = self.train(*flags)
            self.assertEqual((done.returncode, calls), (2, []), done.stderr)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Tests of the fault campaign, which must find what is wrong, with stand-ins for mpirun and the command.
With --heliograph PATH: some trials of the real command instead, where mpirun is installed."""

import contextlib
import io
import itertools
import os
import shutil
import sys
import tempfile
import time
import unittest
from unittest import mock

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from harness import ROOT, FolderTest, run

HERE = os.path.dirname(os.path.abspath(__file__))
FAULTS = os.path.join(ROOT, "experiments", "faults")
sys.path[:0] = [os.path.dirname(FAULTS), FAULTS]

import campaign
import lost_ranks
import processes
import report
import runs
import saves
from runs import Cell, Outcome
from terminations import Term

HELIOGRAPH = None
SMALL = Cell(3, 1, 0, 4, 40)
NOTICED = 5.0  # More than the campaign allows, as other tests may run beside these.


class Quarter:
    """A stand-in for random numbers: draws a quarter of a run's length, and rank 1."""

    @staticmethod
    def uniform(low, high):
        return (3 * low + high) / 4

    @staticmethod
    def randrange(_):
        return 1


class WithMpirun(FolderTest):
    """Tests in which mpirun is the stand-in."""

    def setUp(self):
        super().setUp()
        os.symlink(os.path.join(HERE, "fake_mpirun.py"), self.path("mpirun"))
        self.set_environment("PATH", f"{self.folder}:{os.environ['PATH']}")

    def set_environment(self, name, value):
        self.enterContext(mock.patch.dict(os.environ, {name: value}))


class Trials(WithMpirun):
    """Whole trials of a command that keeps its promises or breaks one."""

    lengths = {}  # Of undisturbed runs, which the tests share.

    @classmethod
    def setUpClass(cls):
        cls.shared = cls.enterClassContext(tempfile.TemporaryDirectory())
        processes.adopt_orphans()
        cls.addClassCleanup(processes.end_all)

    def setUp(self):
        super().setUp()
        self.addCleanup(processes.end_all)
        self.enterContext(mock.patch.object(lost_ranks, "NOTICED", NOTICED))

    def trial(self, kind, fault="", number=0, cell=SMALL):
        """One trial of a campaign on a cell. Its undisturbed run has no faults."""
        made = type("Small", (kind,), {"cells": (cell,) * 12, "short": 0.5})(
            runs.Runs(os.path.join(HERE, "fake_training.py"), self.path("data")), self.shared)
        made.lengths = self.lengths
        self.set_environment("FAKE_NOTICED", str(NOTICED))
        for _ in range(5):  # As the campaign does: a busy machine may be late for a moment of a run.
            self.set_environment("FAKE", "")
            made.run_undisturbed(cell)
            self.set_environment("FAKE", fault)
            shutil.rmtree(self.path(f"trial-{number}"), ignore_errors=True)
            trial = made.trial(number, Quarter, self.path(f"trial-{number}"))
            if trial is not None:
                return {"number": number, **trial}
            processes.end_all()
            self.lengths.clear()  # Perhaps the machine was busier when they were measured.
        self.fail("the run was over")

    def wrong(self, *arguments, **more):
        return campaign.wrong_in(self.trial(*arguments, **more))

    def test_a_killed_rank(self):
        trial = self.trial(lost_ranks.Kill)
        self.assertEqual(campaign.wrong_in(trial), [])
        self.assertEqual(sorted(trial["seconds"]), [0, 2])
        self.assertGreater(trial["saved"], 0)
        self.assertIn("1 of 1 (100 %)", report.kill_table([trial]))

    def test_a_rank_killed_after_its_run_is_no_trial(self):
        answers = itertools.chain([True], itertools.repeat(False))
        with mock.patch.object(lost_ranks, "completed_by", side_effect=answers) as asked:
            self.trial(lost_ranks.Kill)
        self.assertGreaterEqual(asked.call_count, 2)

    def test_a_run_goes_on_by_mpirun(self):
        trial = self.trial(lost_ranks.Kill, number=12)
        self.assertEqual(campaign.wrong_in(trial), [])
        self.assertEqual(trial["resumed_by"], "mpirun")

    def test_a_run_that_saved_nothing_begins_anew(self):
        trial = self.trial(lost_ranks.Kill, cell=SMALL._replace(every=1000))
        self.assertEqual((campaign.wrong_in(trial), trial["saved"]), ([], 0))
        self.assertEqual(report.kill_table([trial]).splitlines()[2].split("|")[-3:-1],
                         [" - ", " 1 of 1 (100 %) "])

    def test_a_survivor_that_lingers_is_found(self):
        wrong = self.wrong(lost_ranks.Kill, "lingers")
        self.assertTrue(any("did not end by itself" in each or " took " in each for each in wrong),
                        wrong)

    def test_a_survivor_that_names_nobody_is_found(self):
        wrong = self.wrong(lost_ranks.Kill, "silent")
        self.assertEqual(len([each for each in wrong if "did not say who" in each]), 2, wrong)

    def test_a_run_is_completed_by_a_time(self):
        self.write("run/run.json", '{"status": "completed"}')
        self.assertTrue(runs.completed_by(self.path("run"), time.monotonic()))
        self.assertFalse(runs.completed_by(self.path("run"), time.monotonic() - 1))
        self.write("run/run.json", '{"status": "failed"}')
        self.assertFalse(runs.completed_by(self.path("run"), time.monotonic()))

    def test_another_exit_code_is_found(self):
        wrong = self.wrong(lost_ranks.Kill, "code")
        self.assertEqual(len([each for each in wrong if "ended with 1" in each]), 2, wrong)

    def test_a_resume_that_differs_is_found(self):
        trial = self.trial(lost_ranks.Kill, "differs")
        self.assertEqual(trial["faults"]["exit"], [])
        self.assertRegex(trial["faults"]["resume"][0], "metrics.jsonl differs")
        self.assertIn("0 of 1 (0 %)", report.kill_table([trial]))

    def test_a_process_that_is_left_is_found(self):
        trial = self.trial(lost_ranks.Kill, "orphan")
        self.assertEqual(trial["faults"]["exit"], [])
        self.assertRegex(" ".join(trial["faults"]["orphans"]), "is left: sleep 30")

    def test_a_stopped_rank(self):
        trial = self.trial(lost_ranks.Stop)
        self.assertEqual(campaign.wrong_in(trial), [])
        self.assertGreater(min(trial["seconds"].values()), 0.3)
        self.assertEqual(processes.left_over(), [])

    def test_a_survivor_of_a_stop_that_lingers_is_found(self):
        wrong = self.wrong(lost_ranks.Stop, "lingers")
        self.assertTrue(any(" took " in each for each in wrong), wrong)

    def test_a_request_to_stop(self):
        for number, by in ((0, "threads"), (1, "mpirun")):
            trial = self.trial(Term, number=number)
            self.assertEqual((campaign.wrong_in(trial), trial["ran_by"]), ([], by))

    def test_a_request_that_is_not_saved_is_found(self):
        for number in (0, 1):
            wrong = self.wrong(Term, "unsaved", number=number, cell=SMALL._replace(every=1000))
            self.assertTrue(any("0 were saved" in each for each in wrong), wrong)


class Survivors(unittest.TestCase):
    def test_only_the_lost_one_is_the_right_name(self):
        said = "heliograph: error: rank 12 was lost on host a while training: its process"
        self.assertTrue(lost_ranks.names_lost(said, {12}))
        self.assertFalse(lost_ranks.names_lost(said, {1}))
        self.assertFalse(lost_ranks.names_lost("rank 1: out of memory", {1}))
        self.assertFalse(lost_ranks.names_lost(None, {1}))


class Differences(FolderTest):
    """Every file that is compared matters, and times do not."""

    def make_run(self, name, **changed):
        texts = {"metrics.jsonl": '{"epoch":0,"loss":0.5,"seconds":%s}\n' % changed.get("time", 1),
                 "predictions.npy": "predictions",
                 "run.json": '{"status": "completed", "result": {"bytes": 7, "seconds": %s}}'
                             % changed.get("time", 1),
                 "checkpoints/epoch-000001/weights.safetensors": "weights"}
        for file, text in {**texts, **changed.get("files", {})}.items():
            if text is not None:
                self.write(f"{name}/{file}", text)
        return self.path(name)

    def test_all_of_them(self):
        same = self.make_run("a")
        self.assertEqual(runs.differences(self.make_run("b", time=2), same), [])
        for number, (file, text, says) in enumerate((
                ("metrics.jsonl", '{"epoch":0,"loss":0.25,"seconds":1}\n', "metrics.jsonl"),
                ("predictions.npy", "predictionz", "predictions.npy"),
                ("run.json", '{"result": {"bytes": 8, "seconds": 1}}', "the result"),
                ("checkpoints/epoch-000001/weights.safetensors", "weightz", "the weights"),
                ("predictions.npy", None, "no finished run"),
                ("run.json", '{"result": null}', "no finished run"))):
            other = self.make_run(f"other-{number}", files={file: text})
            found = runs.differences(other, same)
            self.assertEqual(len(found), 1, found)
            self.assertIn(says, found[0])


TRACE = """\
7 openat(AT_FDCWD</>, "/run/data/nodes.npy", O_RDONLY) = 3</run/data/nodes.npy>
8 mkdir("/r/checkpoints", 0777) = 0
8 openat(AT_FDCWD</>, "/r", O_RDONLY|O_DIRECTORY) = 5</r>
8 fsync(5</r>) = 0
9 openat(AT_FDCWD</>, "/r/checkpoints/.epoch-000002.partial/rank-00001.state", O_WRONLY|O_CREAT, 0666 <unfinished ...>
8 write(5</r/checkpoints/.epoch-000002.partial/run.state>, ""..., 9) = 9
9 <... openat resumed>) = 6</r/checkpoints/.epoch-000002.partial/rank-00001.state>
8 rename("/r/checkpoints/.epoch-000002.partial", "/r/checkpoints/epoch-000002") = 0
8 fsync(5</r>) = 0
8 rename("/r/checkpoints/epoch-000002", "/r/checkpoints/.epoch-000002.replaced") = 0
8 unlinkat(5</r/checkpoints/.epoch-000002.replaced>, "run.state", 0) = 0
8 +++ exited with 0 +++
"""


class Saves(FolderTest):
    def test_every_call_on_checkpoints_is_a_point(self):
        points = saves.read_points(TRACE, "/r")
        self.assertEqual([(p.call, p.path.rpartition("/")[2], p.nth, p.kind) for p in points],
                         [("mkdir", "checkpoints", 1, "other"), ("openat", "r", 1, "other"),
                          ("fsync", "r", 1, "other"), ("openat", "rank-00001.state", 1, "create"),
                          ("write", "run.state", 1, "other"),
                          ("rename", ".epoch-000002.partial", 1, "publish"),
                          ("fsync", "r", 2, "other"),
                          ("rename", "epoch-000002", 1, "remove"),
                          ("unlinkat", ".epoch-000002.replaced", 1, "remove")])
        self.assertEqual([saves.can_fail(p) for p in points],
                         [True, False, True, True, True, True, True, True, False])

    def made(self):
        return saves.Save(None, self.folder)

    def test_a_lost_checkpoint_is_found(self):
        self.write("run/metrics.jsonl", "1\n2\n3\n")
        os.makedirs(self.path("run", "checkpoints", ".epoch-000002.partial"))
        self.assertEqual(len(self.made().judge_rest(self.path("run"))), 1)
        os.rename(self.path("run", "checkpoints", ".epoch-000002.partial"),
                  self.path("run", "checkpoints", "epoch-000002"))
        self.assertEqual(self.made().judge_rest(self.path("run")), [])
        self.write("run/metrics.jsonl", "1\n2\n")  # The first save may not have been over.
        shutil.rmtree(self.path("run", "checkpoints", "epoch-000002"))
        self.assertEqual(self.made().judge_rest(self.path("run")), [])

    def test_a_failure_must_end_as_it_was_asked(self):
        write = saves.Point("write", "x", 1, "other")
        said = Outcome(4, "error: the checkpoint after 2 epochs was not saved: cannot write")
        judge = self.made().judge_failure
        self.assertEqual(judge(write, "stop", said, None), [])
        self.assertEqual(len(judge(write, "stop", said._replace(code=1), None)), 1)
        self.assertEqual(len(judge(write, "continue", said, None)), 1)
        self.assertEqual(len(judge(write, "stop", said._replace(said=""), None)), 1)


class WrittenCampaign:
    """A campaign of three trials, whose results the test sets."""
    name, kinds, usual = "term", ("exit", "resume", "orphans"), 3

    def __init__(self, wrong):
        self.wrong, self.drawn = wrong, []

    def count(self, wanted):
        return wanted

    def trial(self, number, draw, folder):
        os.makedirs(os.path.join(folder, "run"))
        self.drawn.append(draw.random())
        if len(self.drawn) == 1:
            return None  # Over before its moment.
        return {"ran_by": "threads", "seconds": {"0": 0.25}, "saved": 4,
                "faults": {"exit": self.wrong if number == 1 else [], "resume": [], "orphans": []}}


class Whole(WithMpirun):
    def run_written(self, wrong, seed="5"):
        written = WrittenCampaign(wrong)
        made = mock.Mock(return_value=written, usual=3)
        said = io.StringIO()
        with mock.patch.dict(campaign.CAMPAIGNS, term=made), contextlib.redirect_stdout(said):
            code = campaign.main(["--out", self.path("out"), "--only", "term", "--seed", seed,
                                  "--heliograph", os.path.join(HERE, "fake_training.py")])
        return code, said.getvalue(), self.read("out", "table.md"), written.drawn

    def test_all_is_well(self):
        code, said, table, drawn = self.run_written([])
        self.assertEqual(code, 0)
        self.assertIn("seed 5", said)
        self.assertIn("3 of 3 (100 %)", table)
        self.assertIn("In 1 more the run was over", table)
        self.assertEqual(os.path.exists(self.path("out", "failures")), False)
        self.assertEqual(drawn, self.run_written([])[3])
        self.assertNotEqual(drawn, self.run_written([], "6")[3])

    def test_one_fault_fails_the_campaign_and_is_kept(self):
        code, said, table, _ = self.run_written(["rank 1 ended with 1"])
        self.assertEqual(code, 1)
        self.assertIn("exit: rank 1 ended with 1", said)
        self.assertIn("2 of 3 (66.6 %)", table)
        self.assertTrue(os.path.isdir(self.path("out", "failures", "term-1", "run")))


class Real(FolderTest):
    """A few trials of the command that was built."""

    def campaign(self, only, count):
        done = run(sys.executable, "-B", os.path.join(FAULTS, "campaign.py"), "--out",
                   self.path("out"), "--only", only, "--count", count, "--heliograph", HELIOGRAPH,
                   timeout=240)
        self.assertIn("(100 %)", self.passes(done).stdout)

    def test_ranks(self):
        info = self.passes(run(HELIOGRAPH, "info"))
        if not shutil.which("mpirun") or "mpi" not in info.stdout.lower():
            self.skipTest("no MPI")
        self.campaign("kill,term", "0.01")


if __name__ == "__main__":
    if "--heliograph" in sys.argv:
        at = sys.argv.index("--heliograph")
        HELIOGRAPH = sys.argv[at + 1]
        sys.argv[at:at + 2] = ["Real"]
    else:
        del Real
    unittest.main()

#!/usr/bin/env python3
"""Tests of the headline experiment. A simulated network takes the place of runs."""

import argparse
import contextlib
import importlib.util
import os
import sys
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from harness import ROOT, FolderTest, wait_until

HEADLINE = os.path.join(ROOT, "experiments", "headline")
sys.path[:0] = [os.path.dirname(HEADLINE), HEADLINE]

import limits
import measure
import print_table
import report
import runner

LACKS = None if importlib.util.find_spec("matplotlib") else "Matplotlib is not installed"
COMPUTE = 0.1  # seconds of an epoch


def summary(epoch, waiting, halo, traffic=(), reduced=0, ranks=2, epochs=10):
    return {"epoch_seconds": {"median": epoch, "p95": epoch}, "ranks": ranks, "epochs": epochs,
            "seconds": {"gemm": epoch - waiting, "exposed_comm": waiting, "allreduce": 0.0},
            "bytes_per_epoch": {"halo_forward": halo / 2, "halo_backward": halo / 2,
                                "allreduce": reduced},
            "halo_traffic": list(traffic), "test_metric": 0.5, "wall_seconds": epoch,
            "dropped_epochs": 0}


class Limits(unittest.TestCase):
    def test_by_hand(self):
        run = summary(5.0, 4.0, 1000, reduced=24)
        free = summary(0.8, 0.3, 0)
        self.assertEqual(limits.least_seconds(run, free, 1.0), 0.5)  # Computing is what is left.
        self.assertAlmostEqual(limits.least_seconds(run, free, 1e-4, framed=False), 12 * 8e-2)
        self.assertEqual(limits.computing(run), 1.0)
        self.assertEqual(print_table.total_bytes(run), 1024)

    def test_the_busiest_link_is_of_the_host_with_the_most_either_way(self):
        links = [{"from": 0, "to": 1, "bytes": 500}, {"from": 2, "to": 1, "bytes": 300},
                 {"from": 1, "to": 0, "bytes": 600}]
        run = summary(1.0, 0.5, 0, links, reduced=90, ranks=3)
        # Host 1 receives 80 an epoch, and a third of the gradients.
        self.assertEqual(limits.busiest_link_bytes(run), 80 + 30)
        self.assertAlmostEqual(limits.transfer_seconds(run, 1e-3, framed=False), 0.88)
        self.assertAlmostEqual(limits.transfer_seconds(run, 1e-3), 0.88 * 9014 / 8948)

    def test_waiting_goes_with_the_inverse_of_the_rate(self):
        self.assertAlmostEqual(limits.next_rate(100, 3.0, 1.0, 4), 50)


class CommandLine(unittest.TestCase):
    def line(self, transport, mbit):
        return " ".join(runner.Runner("helio", transport, 4, "out", {}).command_line(
            mbit, {"bits": 1}))

    def test_threads(self):
        self.assertEqual(self.line("threads", None), "helio train --bits 1")
        # A host's link of 300 Mbit/s serves three peers.
        self.assertEqual(self.line("threads", 300), "helio train --bits 1 --link-gbps 0.1")

    def test_mpi(self):
        self.assertTrue(self.line("mpi", 250).endswith(
            "emulated_cluster.sh --hosts 4 --mbit 250 -- helio train --bits 1 --transport mpi"))
        self.assertNotIn("--mbit", self.line("mpi", None))


class WallTime(FolderTest):
    def test_lines_are_noted_as_they_come(self):
        clock = runner.LineClock(self.write("lines", ""))
        clock.start()
        with open(self.path("lines"), "a", encoding="utf-8") as file:
            for count in (1, 4):
                file.write("line\n" * (count - len(clock.seen)))
                file.flush()
                wait_until(lambda: len(clock.seen) == count, f"{count} lines are noted")
        clock.over.set()
        clock.join()
        self.assertLess(clock.seen[0], clock.seen[1])


class Simulated:
    """A network that carries vanilla's 1e9 bytes and less; S = 1 hides what it can."""
    framed = True

    def __init__(self, jam=0.0):
        self.jam, self.calls = jam, []

    def on_threads(self):
        return self

    def train(self, name, mbit, epochs, settings):
        self.calls.append((name, mbit, epochs))
        halo = 1e9 if "no-transform-first" in settings else 7e8
        halo /= 32 / settings["bits"]
        link = {"from": 0, "to": 1, "bytes": halo * epochs}
        run = summary(COMPUTE, 0.0, halo, [link], epochs=epochs)
        if mbit is not None:
            travel = limits.transfer_seconds(run, mbit) + self.jam * COMPUTE
            epoch = max(COMPUTE, travel) if settings["staleness"] else COMPUTE + travel
            run = summary(epoch, epoch - COMPUTE, halo, [link], epochs=epochs)
        return run


class Headline(FolderTest):
    def headline(self, simulated):
        options = argparse.Namespace(heliograph="helio", transport="mpi", hosts=4, out="out",
                                     data="data", partition="parts", ratio=41.0, epochs=45,
                                     slow_epochs=13, probe_epochs=3, curve_epochs=4,
                                     score_epochs=9, factors=[0.5, 64])
        headline = measure.Headline(options)
        headline.runner = simulated
        headline.say = lambda text: None
        return headline

    def test_the_rate_is_corrected_until_the_ratio_is_as_published(self):
        # A part of the waiting does not depend on bytes as the first guess has it.
        results = self.headline(Simulated(jam=10)).run()
        self.assertAlmostEqual(report.measured_ratio(results), 41, delta=41 * 0.03)

    def test_a_rate_that_is_not_found_is_said(self):
        with self.assertRaisesRegex(measure.RateNotFound, "waited 10"):
            self.headline(Simulated(jam=100)).choose_rate()

    def test_gains_and_limits(self):
        simulated = Simulated()
        results = self.headline(simulated).run()
        gains = report.speed_ups(results)
        stale, limit = gains["1-bit, S = 1"]
        # 1 / 45.7 of the bytes: all of them travel while it computes.
        self.assertAlmostEqual(stale, 42, delta=0.1)
        self.assertAlmostEqual(limit, 42, delta=0.1)
        fresh, _ = gains["1-bit, S = 0"]
        self.assertAlmostEqual(fresh, 42 / (1 + 41 * 0.7 / 32), delta=0.1)
        stale, limit = gains["fp32, S = 1"]
        self.assertAlmostEqual(stale, limit, delta=0.01)
        self.assertEqual([p["factor"] for p in results["curve"]], [0.5, 1.0, 64, None])
        # Stale runs are long enough for the command to leave out its first epochs.
        for name, _, epochs in simulated.calls:
            if name.startswith("fp32-S1") or name.startswith("1-bit-S1"):
                self.assertGreaterEqual(epochs, 11)

    @unittest.skipIf(LACKS, LACKS)
    def test_reports(self):
        results = self.headline(Simulated()).run()
        with contextlib.redirect_stdout(None):
            measure.write_reports(results, self.folder)
        table, curve = self.read("table.md"), self.read("curve.md")
        self.assertGreater(os.path.getsize(self.path("curve.png")), 10_000)
        self.assertIn("waiting : computing of the first row: 41.0", table)
        row = next(line for line in table.splitlines() if line.startswith("| 1-bit, S = 1"))
        self.assertIn("42.0x", row)
        self.assertIn("100%", row)
        self.assertEqual(curve.splitlines()[-1].split("|")[1].strip(), "not limited")


if __name__ == "__main__":
    unittest.main()

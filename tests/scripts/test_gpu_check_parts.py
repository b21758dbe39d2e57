#!/usr/bin/env python3
"""Tests of the parts of scripts/gpu_check.sh, without a GPU: test_gpu_check_parts.py
PATH_OF_THE_COMMAND."""

import json
import os
import signal
import subprocess
import sys
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from harness import ROOT, FolderTest, run, wait_until
from stand_in import stand_in

PARTS = os.path.join(ROOT, "scripts", "gpu_check")
sys.path.insert(0, PARTS)
import comparisons


class Comparisons(unittest.TestCase):
    def test_gradients_that_are_missing_or_no_numbers_do_not_compare(self):
        theirs = {"a": [3.0, 4.0], "b": [0.0, 1.0]}
        self.assertAlmostEqual(comparisons.gradient_difference({"a": [3.0, 4.5], "b": [0.0, 1.0]},
                                                               theirs), 0.1)
        nan, inf = float("nan"), float("inf")
        for ours in ({"a": [3.0, 4.0], "b": [0.0, nan]}, {"a": [3.0, inf], "b": [0.0, 1.0]},
                     {"a": [3.0, 4.0]}, {"a": [3.0, 4.0], "b": [0.0]}, {"a": [], "b": []}, {}):
            with self.assertRaises(ValueError):
                comparisons.gradient_difference(ours, theirs)
            with self.assertRaises(ValueError):
                comparisons.gradient_difference(theirs, ours)
        for nothing in ({}, {"a": []}, {"a": [0.0]}, {"a": [nan]}):
            with self.assertRaises(ValueError):
                comparisons.gradient_difference(nothing, nothing)

    def test_only_differences_up_to_their_bounds_pass(self):
        for differences, passes in (({"loss": 0.1}, True), ({"loss": 0.11}, False), ({}, False),
                                    ({"loss": float("nan")}, False), ({"gradient": 0}, False),
                                    ({"loss": float("-inf")}, False)):
            self.assertEqual(comparisons.within(differences, {"loss": 0.1}), passes)
        self.assertFalse(comparisons.within({}, {}))


class Parts(FolderTest):
    def line(self, name, *arguments):
        return [sys.executable, "-B", os.path.join(PARTS, name), *arguments]

    def with_stand_in(self, name, *arguments, **how):
        """The line of a part whose command is the stand-in of that kind."""
        return self.line(name + ".py", "--heliograph",
                         self.write("heliograph", stand_in(**how), 0o700), "--work",
                         self.path("work"), "--json", self.path(name + ".json"), *arguments)

    def oracle(self, wrong, losses="", ranks="1,2"):
        done = run(*self.with_stand_in("oracle", "--quick", "--ranks", ranks, wrong=wrong,
                                       losses=losses))
        return done, self.read_json("oracle.json")

    def epochs(self, graphs, *arguments):
        done = run(*self.with_stand_in("epochs", "--graphs", graphs, "--ranks", "1,2", "--epochs",
                                       "4", *arguments))
        return done, self.read_json("epochs.json")

    def write_json(self, name, value):
        self.write(name, json.dumps(value))

    def table(self):
        self.passes(run(*self.line("table.py", self.folder)))
        return self.read("table.md")

    def test_a_device_that_agrees_passes(self):
        done, rows = self.oracle({})
        self.passes(done)
        self.assertEqual({row["kind"] for row in rows}, {"step", "tf32 step", "epochs", "ranks"})
        self.assertIn("| step | 32 | 2 | 2 | 2 |", self.table())
        self.assertIn("| tf32 step | 32 | 1 | 1 | 1 |", self.table())

    def test_other_weights_are_found(self):
        done, rows = self.oracle({"--seed": "2"})
        self.assertEqual(done.returncode, 1)
        self.assertFalse(any(row["passed"] for row in rows if row["kind"] != "epochs"))

    def test_fewer_bits_are_found_in_the_gradient(self):
        done, rows = self.oracle({"--bits": "8"})
        self.assertEqual(done.returncode, 1)
        steps = [row for row in rows if row["kind"] == "step" and row["parts"] == 2]
        self.assertEqual([row["passed"] for row in steps], [False, False])
        self.assertGreater(steps[0]["differences"]["gradient"], steps[0]["bounds"]["gradient"])

    def test_losses_that_are_no_numbers_or_too_few_are_found(self):
        for losses, said in (("losses[-1] = float('nan')", "nan is not a finite number"),
                             ("losses[-1] = float('inf')", "inf is not a finite number"),
                             ("losses[-1] = None", "None is not a finite number"),
                             ("losses.pop()", "values, not "),
                             ("losses.clear()", "0 values, not ")):
            with self.subTest(losses=losses):
                done, rows = self.oracle({}, losses, ranks="1")
                self.assertEqual(done.returncode, 1)
                self.assertFalse(any(row["passed"] for row in rows))
                self.assertIn(said, rows[-2]["error"])
                self.assertIn(said, self.table())

    def test_a_run_that_fails_is_named(self):
        done, rows = self.oracle({"--hidden": "-1"})
        self.assertEqual(done.returncode, 1)
        self.assertRegex(rows[0]["error"], "^exit code 2: .*hidden")
        self.assertRegex(done.stdout, "exit code 2: .*heliograph train --quiet .*--hidden 64")
        self.assertIn("none measured", self.table())

    def test_what_is_cut_off_keeps_what_was_measured(self):
        # The third run on the device never ends.
        part = subprocess.Popen(self.with_stand_in("oracle", "--quick", "--ranks", "1", before="""
    open(sys.argv[0] + ".runs", "a").write("x")
    while os.path.getsize(sys.argv[0] + ".runs") == 3: time.sleep(0.1)
"""), stdout=subprocess.DEVNULL, start_new_session=True)
        wait_until(lambda: os.path.exists(self.path("heliograph.runs"))
                   and os.path.getsize(self.path("heliograph.runs")) == 3, "the third run begins")
        os.killpg(part.pid, signal.SIGKILL)
        part.wait()
        rows = self.read_json("oracle.json")
        self.assertEqual([(row["passed"], row.get("error")) for row in rows],
                         [(True, None), (True, None), (False, "cut off")])
        self.assertIn("| tf32 step | 32 | 1 | 0 | 0 | none measured | cut off |", self.table())

    def test_epochs_are_timed_and_a_failure_keeps_the_rest(self):
        done, rows = self.epochs("nonsense,reddit", "--scale", "0.002")
        self.assertEqual(done.returncode, 1)
        self.assertIn("error", rows[0])
        trained = [(row["ranks"], row["bits"], row["tf32"]) for row in rows if row["what"] == "train"]
        self.assertEqual(trained, [(1, 32, False), (1, 32, True), (2, 32, False), (2, 1, False)])
        text = self.table()
        self.assertIn("| reddit-0.002 | Heliograph, 32 bits, TF32 | 1 |", text)
        self.assertIn("| nonsense-0.002 | generate |  | exit code 2: ", text)
        self.assertIn("x as fast as fp32", text)

    def test_a_graph_of_another_scale_is_another_one(self):
        sizes = []
        for scale in ("0.002", "0.003", "0.002"):
            done, rows = self.epochs("reddit", "--scale", scale, "--partitioner", "contiguous")
            self.passes(done)
            self.assertEqual({row["data"] for row in rows}, {f"reddit-{scale}"})
            sizes.append(next(row for row in rows if row["what"] == "train")["losses"])
        self.assertEqual([row["what"] for row in rows], ["train"] * 4)  # Nothing is made again.
        self.assertEqual(sizes[0], sizes[2])
        self.assertNotEqual(sizes[0], sizes[1])

    def test_times_of_another_graph_or_training_are_not_compared(self):
        ours = {"graph": "reddit", "data": "reddit-1", "what": "train", "ranks": 1, "bits": 32,
                "tf32": False, "median": 0.5, "losses": [3, 2, 1], "memory": {"total": 1e9}}
        other = {**ours, "ranks": 2, "median": 0.25}
        graphs = {"data": "small-1-1", "graph": "small"}
        self.write_json("epochs.json", [ours, other, {**ours, **graphs, "cuda_graphs": "off"},
                                   {**ours, **graphs, "cuda_graphs": "on"}])
        text = self.table()
        self.assertNotIn("other losses", text)
        self.assertIn("1.00 x as fast as without CUDA graphs", text)
        self.write_json("epochs.json", [ours, {**other, "losses": [3, 2, float("nan")]},
                                   {**ours, **graphs, "cuda_graphs": "off"},
                                   {**ours, **graphs, "cuda_graphs": "on", "losses": [3, 2, 1.01]}])
        text = self.table()
        self.assertIn("other losses: [3, 2, nan], one rank's are [3, 2, 1]", text)
        self.assertIn("other losses than without CUDA graphs", text)
        theirs = {"framework": "pytorch", "variant": "csr-int32", "median": 1.0}
        self.write_json("epochs.json", [ours])
        for data, losses, said in (("reddit-1", [3, 2, 1], "2.00 x Heliograph's one rank"),
                                   ("reddit-2", [3, 2, 1], "another graph than reddit-1"),
                                   ("reddit-1", [3, 2, 1.1], "other losses"),
                                   ("reddit-1", [3, 2], "other losses"),
                                   ("reddit-1", [3, float("nan"), 1], "other losses")):
            self.write_json("torch_reddit.json", [{**theirs, "data": data, "losses": losses}])
            self.assertIn(said, self.table())

    def test_a_small_graph_is_timed_with_cuda_graphs_and_without(self):
        done, rows = self.epochs("small")
        self.passes(done)
        rows = [row for row in rows if row["what"] == "train"]
        self.assertEqual([(row["ranks"], row["bits"], row["cuda_graphs"]) for row in rows],
                         [(1, 32, "off"), (1, 32, "on"), (2, 32, "off"), (2, 32, "on")])
        rows[1]["median"], rows[0]["median"] = 0.001, 0.0025
        self.write_json("epochs.json", rows)
        text = self.table()
        self.assertIn("| small-3000-40000 | Heliograph, 32 bits, CUDA graphs | 1 | 1 |", text)
        self.assertIn("2.50 x as fast as without CUDA graphs", text)
        self.assertNotIn("PyTorch", text)

    def test_a_table_of_nothing_says_so(self):
        text = self.table()
        for words in ("No step was run", "Twin tests, tests: no result", "against the CPU: no result",
                      "Micro-benchmarks: no result", "Epochs: no result"):
            self.assertIn(words, text)

    def test_micro_benchmarks_are_shares_of_copy_and_product(self):
        kernels = [("copy", 1e-3, 2e9, 2e9, 0), ("gemm/large", 1e-3, 1e6, 1e6, 5e10),
                   ("encode/1", 2e-3, 3.2e9, 3.2e9, 0),
                   ("aggregate_halo/1", 1e-3, 1e9, 1.6e9, 0),
                   ("decode_then_aggregate/1", 7e-3, 1e9, 9e9, 0),
                   ("aggregate_inner", 3e-3, 1e9, 9e9, 0),
                   ("aggregate_inner/cusparse", 4e-3, 1e9, 9e9, 0)]
        names = ("name", "seconds", "bytes_once", "bytes_gathered", "flops")
        said = {"rows": 1, "outputs": 1, "degree": 1, "width": 1, "copy_bytes_per_second": 2e12,
                "gemm_flops": 5e13, "kernels": [dict(zip(names, row)) for row in kernels]}
        self.write_json("bench.json", said)
        text = self.table()
        self.assertIn("| encode/1 | 2000.0 | 1600 | 80 % |", text)
        self.assertIn("| aggregate_halo/1 | 1000.0 | 1000 | 50 % | 80 % |", text)
        self.assertIn("7.0 times as fast as decoding", text)
        self.assertIn("takes 0.75 times as long as cuSPARSE's product", text)
        self.write_json("bench.json", {**said, "copy_bytes_per_second": 0, "gemm_flops": 0})
        self.assertIn("| encode/1 | 2000.0 | 1600 | ? |", self.table())

    def test_a_result_that_cannot_be_read_takes_nothing_from_the_others(self):
        self.write_json("bench.json", {"kernels": []})
        self.write_json("oracle.json", [{"kind": "step"}])
        self.write("tests.log", "[ RUN      ] A.One\n[       OK ] A.One (3 ms)\n"
                   "[ RUN      ] A.Two\n[  FAILED  ] A.Two (0 ms)\n[ RUN      ] A.Three\n")
        text = self.table()
        self.assertIn("bench.json cannot be read: KeyError", text)
        self.assertIn("oracle.json cannot be read: KeyError", text)
        self.assertIn("tests: 1 passed, 1 failed, 0 skipped. Ended within: A.Three. Failed: A.Two.",
                      text)


if __name__ == "__main__":
    unittest.main()

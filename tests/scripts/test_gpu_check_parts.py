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
import predictions


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


class Predictions(unittest.TestCase):
    def test_a_kernel_takes_as_long_as_its_bytes_or_its_operations(self):
        h100 = predictions.Rates("NVIDIA H100 80GB HBM3, compute capability 9.0", 1e12, 1e12)
        self.assertAlmostEqual(h100.kernel(3e9), 1e-3)
        self.assertAlmostEqual(h100.kernel(3e9, flops=134e9), 2e-3)
        self.assertAlmostEqual(h100.kernel(3e9, flops=134e9, tf32=True), 1e-3)
        self.assertEqual(h100.kernel(1000), predictions.KERNEL)
        # Rows that fit into the cache are gathered at its rate; of others a part is not there.
        self.assertAlmostEqual(h100.kernel(30e6, 5.5e9, 30e6), 1e-3)
        self.assertAlmostEqual(h100.kernel(200e6, 4e9, 200e6), 1e-3)
        self.assertAlmostEqual(h100.kernel(1e12, 1e12, 1e12), 1 / 3)

    def test_devices_have_their_own_rates(self):
        for name, copy in (("NVIDIA H200", 4.3e12), ("NVIDIA A100-SXM4-40GB", 1.4e12),
                           ("NVIDIA H100 PCIe", 1.8e12), ("NVIDIA A100-SXM4-80GB", 1.8e12),
                           ("Another GPU", 7e11)):
            self.assertAlmostEqual(predictions.Rates(name, 7e11, 1e12).kernel(copy), 1)
        self.assertIsNone(predictions.Rates("Another GPU").kernel(1e9))
        self.assertIsNone(predictions.epoch({**EPOCH}, predictions.Rates("Another GPU")))

    def test_an_epoch_of_a_large_graph_is_bytes_and_of_a_small_one_launches(self):
        h100 = predictions.Rates("NVIDIA H100")
        one = predictions.epoch(EPOCH, h100)
        self.assertGreater(one, 114e6 * 4 * 128 * 2 / 5.5e12)
        self.assertGreater(predictions.epoch(EPOCH, h100, fused=False), one)
        self.assertLess(predictions.epoch({**EPOCH, "tf32": True}, h100), one)
        two = {**EPOCH, "ranks": 2}
        self.assertAlmostEqual(predictions.epoch(two, h100) - one,
                               (1e9 + 3 * 1e9) / 3e12 + 4 * predictions.EXCHANGE)
        self.assertAlmostEqual(
            predictions.epoch(two, h100) - predictions.epoch({**two, "transport": "nccl"}, h100),
            4 * (predictions.EXCHANGE - predictions.NCCL_EXCHANGE))
        pair = predictions.Rates("NVIDIA H100", devices=2)
        self.assertAlmostEqual(predictions.epoch(EPOCH, pair), one)
        self.assertAlmostEqual(predictions.epoch(two, h100) - predictions.epoch(two, pair), one / 2)
        small = {**EPOCH, "shape": {"nodes": 3000, "edges": 40000, "features": 48, "classes": 8}}
        self.assertAlmostEqual(predictions.epoch(small, h100), 36 * predictions.LAUNCH)
        self.assertLess(predictions.epoch({**small, "cuda_graphs": "on"}, h100),
                        predictions.epoch(small, h100))


EPOCH = {"ranks": 1, "tf32": False, "hidden": 128,
         "shape": {"nodes": 232965, "edges": 114e6, "features": 602, "classes": 41},
         "halo_bytes": {"halo_forward": 4e8, "halo_backward": 6e8}, "fp32_halo_bytes": 1e9}


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
        self.assertEqual([(row["parts"], row["kind"]) for row in rows if "staleness" in row],
                         [(2, "epochs")])
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

    def test_two_gpus_are_timed_by_each_transport(self):
        done = run(*self.with_stand_in("epochs", "--pair", "--epochs", "4", "--scale", "0.002",
                                       "--partitioner", "contiguous"),
                   env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"})
        self.passes(done)
        rows = [row for row in self.read_json("epochs.json") if row["what"] == "train"]
        how = [(row["transport"], row.get("nccl_register"), row.get("cuda_aware_mpi")) for row in rows]
        self.assertEqual(how[:3], [("threads", None, None), ("nccl", None, None), ("nccl", True, None)])
        self.assertIn(how[3:], ([], [("mpi", None, "off"), ("mpi", None, "on")]))
        self.assertEqual({(row["ranks"], tuple(row["losses"])) for row in rows},
                         {(2, tuple(rows[0]["losses"]))})

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
        ours = {**EPOCH, "graph": "reddit", "data": "reddit-1", "what": "train", "bits": 32,
                "median": 0.5, "losses": [3, 2, 1], "memory": {"total": 1e9}}
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
        self.assertIn("| small-3000-40000 | Heliograph, 32 bits, CUDA graphs | 1 | 1 | ? | ? |", text)
        self.assertIn("| CUDA graphs, than launches | ", text)
        self.assertIn(" to 2.50 x as fast | graphs stay |", text)
        self.write("gpus.txt", "NVIDIA H100\n")
        self.assertRegex(self.table(), r"CUDA graphs \| 1 \| 1 \| 0\.\d+ \| \d")
        self.assertIn("2.50 x as fast as without CUDA graphs", text)
        self.assertNotIn("PyTorch", text)

    def test_a_table_of_nothing_says_so(self):
        text = self.table()
        for words in ("No step was run", "Twin tests, tests: no result", "against the CPU: no result",
                      "Micro-benchmarks: no result", "Epochs: no result"):
            self.assertIn(words, text)

    def bench(self, *kernels, **more):
        """Writes a bench.json of these kernels: (name, seconds, bytes, more fields)."""
        said = {"rows": 1, "outputs": 1, "copy_bytes_per_second": 2e12, "gemm_flops": 5e13, **more}
        said["kernels"] = [{"subtracted": 0, "bytes_gathered": bytes_, "bytes_source": 0, "flops": 0,
                            "repeats": None, "name": name, "seconds": seconds, "bytes_once": bytes_,
                            **(fields[0] if fields else {})}
                           for name, seconds, bytes_, *fields in kernels]
        self.write_json("bench.json", said)
        return self.table()

    def test_micro_benchmarks_have_predictions_and_shares(self):
        kernels = [("copy", 1e-3, 2e9), ("gemm/large", 1e-3, 1e6, {"flops": 5e10}),
                   ("softmax_cross_entropy", 2e-3, 3.2e9, {"subtracted": 2e-5})]
        text = self.bench(*kernels)
        self.assertIn("| copy | 1000.0 | 1000 | 1.00 | 2000 | 100 % |", text)
        self.assertIn("(less a wait of 20.0 us) | 2000.0 | 1600 | 1.25 | 1600 | 80 % |", text)
        self.assertIn("Predictions: the measured copy", text)
        self.assertIn("| 2000.0 | ? | ? | 1600 | ? |",
                      self.bench(*kernels, copy_bytes_per_second=0, gemm_flops=0))
        self.write("gpus.txt", "NVIDIA H100 80GB HBM3, compute capability 9.0\n")
        text = self.bench(*kernels)
        self.assertIn("| copy | 1000.0 | 666.7 | 1.50 | 2000 | 100 % |", text)
        self.assertIn("Predictions: NVIDIA's figures of H100", text)

    def test_each_feature_has_the_line_that_decides(self):
        text = self.table()
        self.assertEqual(text.count("| not measured |"), 7)
        again, other = {"repeats": True}, {"repeats": False}
        fast = [("gradient/9x9x9/pedantic", 3e-3, 1e9, again),
                ("gradient/9x9x9/default", 1e-3, 1e9, again),
                ("gradient/8x8x8/pedantic", 1e-3, 1e9, again),
                ("gradient/8x8x8/default", 1e-3, 1e9, again),
                ("gemm_then_bias", 1e-3, 1e9), ("gemm_bias", 1e-3, 1e9),
                ("decode_then_aggregate/1/d5/w4", 7e-3, 1e9), ("aggregate_halo/1/d5/w4", 1e-3, 1e9),
                ("aggregate_inner_cusparse/d5/w4", 3e-3, 1e9), ("aggregate_inner/d5/w4", 4e-3, 1e9)]
        text = self.bench(*fast)
        self.assertRegex(text, r"pedantic mode \| 1.00 to 3.00 x as fast \| use default mode: every")
        self.assertRegex(text, r"by a pass \| 1.00 x as fast \| epilogues go \|")
        self.assertRegex(text, r"then aggregating \| 7.00 x as fast \| the packed kernel stays \|")
        self.assertRegex(text, r"CSR_ALG2\) \| 0.75 x as fast \| use cuSPARSE \|")
        text = self.bench(*fast[:3], ("gradient/8x8x8/default", 1e-3, 1e9, other))
        self.assertIn("| keep pedantic mode: default mode did not repeat its bits |", text)
        row = {**EPOCH, "graph": "reddit", "data": "reddit-1", "what": "train", "ranks": 2, "bits": 32,
               "losses": [3, 2, 1], "memory": {"total": 1e9}}
        self.write_json("pair.json", [
            {**row, "median": 1.0, "transport": "threads"}, {**row, "median": 2.0, "transport": "nccl"},
            {**row, "median": 1.0, "transport": "nccl", "nccl_register": True},
            {**row, "median": 2.0, "transport": "mpi", "cuda_aware_mpi": "off"},
            {**row, "median": 1.99, "transport": "mpi", "cuda_aware_mpi": "on"}])
        text = self.table()
        self.assertRegex(text, r"NCCL \(two GPUs\) \| 2.00 x as fast \| registration stays \|")
        self.assertRegex(text, r"staging \(two GPUs\) \| 1.01 x as fast \| CUDA-aware MPI goes \|")
        self.assertIn("Heliograph, 32 bits, nccl, registered | 2 | 1000 |", text)
        self.assertIn("1.00 x as fast as threads", text)
        self.write_json("pair.json", [
            {**row, "median": 1.0, "transport": "threads"},
            {**row, "median": 2.0, "transport": "nccl"},
            {**row, "median": 1.0, "transport": "nccl", "nccl_register": True, "losses": [3, 2, 9]}])
        text = self.table()
        self.assertIn("NCCL (two GPUs) | not measured |", text)
        self.assertIn("other losses: [3, 2, 9], not [3, 2, 1]", text)

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

#!/usr/bin/env python3
"""Tests of the scripts under bench/, on tiny graphs: test_bench.py PATH_OF_THE_COMMAND."""

import json
import os
import shutil
import sys
import unittest

try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is not installed")
    sys.exit(77)

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from harness import ROOT, FolderTest, run

BENCH = os.path.join(ROOT, "bench")
sys.path[:0] = [BENCH, os.path.join(BENCH, "frameworks"), os.path.join(ROOT, "experiments")]
COMMAND = sys.argv.pop()

import compare_frameworks
import native_graph
import numpy_model
import same_numbers
import scaling
from command import make_flags
from contestants import NO_STEP
from environments import why_unusable
from json_file import read_json
from processes import ProcessFailed, run_measured
from run_files import read_weights

# The bounds of fp32 rows with fp64 sums (--reproducible) against fp64 throughout. Adam's first steps
# are whole steps even where a gradient is near 0, so later losses differ by more than rounding.
FP32_LOSS = 1e-6
FP32_STEPS = 5e-5


def python_with_torch():
    candidates = [sys.executable, "/usr/bin/python3"]
    return next((p for p in candidates if why_unusable(p, ["numpy", "torch"]) is None), None)


TORCH = python_with_torch()


class OnAGraph(FolderTest):
    def setUp(self):
        super().setUp()
        self.graph = self.path("graph")
        self.generate(self.graph)

    @staticmethod
    def generate(out, *flags, classes=5):
        run_measured([COMMAND, "generate", "--nodes", "300", "--edges", "900", "--features", "13",
                      "--classes", str(classes), "--out", out, "--quiet", *flags])


class NativeGraph(OnAGraph):
    def test_arrays_are_a_symmetric_graph_with_labels(self):
        graph = native_graph.read_native(self.graph)
        self.assertEqual((graph.nodes, graph.features.shape, graph.classes), (300, (300, 13), 5))
        rows = np.repeat(np.arange(300), graph.degrees)
        edges = set(zip(rows.tolist(), graph.neighbours.tolist()))
        self.assertEqual(len(edges), len(graph.neighbours))
        self.assertEqual(edges, {(b, a) for a, b in edges})
        self.assertEqual(int(graph.training.sum()), 180)

    def test_a_short_file_is_refused_by_name(self):
        damaged = self.path("damaged")
        shutil.copytree(self.graph, damaged)
        os.truncate(os.path.join(damaged, "features.bin"), 100)
        with self.assertRaisesRegex(native_graph.Unsupported, "features.bin"):
            native_graph.read_native(damaged)

    def test_a_shard_has_the_graph_with_a_split_and_normalised_features(self):
        run_measured([COMMAND, "partition", "--data", self.graph, "--parts", "1", "--split",
                      "per-class:10/50/60", "--normalize", "row", "--out", self.path("shard"),
                      "--quiet"])
        whole, shard = native_graph.read_native(self.graph), native_graph.read_shard(
            self.path("shard"))
        np.testing.assert_array_equal(shard.offsets, whole.offsets)
        np.testing.assert_array_equal(shard.neighbours, whole.neighbours)
        np.testing.assert_array_equal(shard.class_of, whole.class_of)
        self.assertEqual([int((shard.role == r).sum()) for r in (1, 2, 3)], [50, 50, 60])
        sums = np.abs(whole.features).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(shard.features, whole.features / sums, rtol=1e-6)
        with self.assertRaisesRegex(native_graph.Unsupported, "no shards"):
            native_graph.read_shard(self.graph)

    def test_several_labels_a_node_are_refused(self):
        several = self.path("several")
        self.generate(several, "--multilabel")
        with self.assertRaisesRegex(native_graph.Unsupported, "one class"):
            native_graph.read_native(several)


class SameNumbers(OnAGraph):
    """The weights, model and steps of the NumPy model have the losses of the engine."""

    def train(self, folder, model, norm, layers, seed, *flags):
        run_measured([COMMAND, "train", "--data", self.graph, "--model", model, "--norm", norm,
                      "--layers", str(layers), "--hidden", "7", "--dropout", "0", "--seed", str(seed),
                      "--reproducible", "--eval-every", "0", "--out", self.path(folder),
                      "--overwrite", "--quiet", *flags])

    def engine_losses(self, *case):
        self.train("run", *case, "--epochs", "5", "--lr", "0.02", "--weight-decay", "0.01")
        return np.array([json.loads(line)["loss"]
                         for line in self.read("run", "metrics.jsonl").splitlines()])

    def numpy_losses(self, model, norm, layers, seed):
        self.train("initial", model, norm, layers, seed, "--epochs", "1", "--lr", NO_STEP)
        options, tensors = read_weights(self.path("initial", "best.safetensors"))
        self.assertEqual((options["model"], options["layers"]), (model, layers))
        network = numpy_model.NumpyModel(native_graph.read_native(self.graph), tensors, layers)
        return np.array(numpy_model.train(network, 5, 0.02, 0.01))

    def test_losses_are_those_of_the_engine(self):
        for model in ("gcn", "sage"):
            for norm in ("layer", "none"):
                for layers in (1, 2, 3):
                    with self.subTest(model=model, norm=norm, layers=layers):
                        case = (model, norm, layers, 2**40 + 3)
                        here, there = self.numpy_losses(*case), self.engine_losses(*case)
                        np.testing.assert_allclose(here[0], there[0], rtol=FP32_LOSS)
                        np.testing.assert_allclose(here, there, rtol=FP32_STEPS)

    def test_another_seed_gives_other_losses(self):
        there, here = self.engine_losses("gcn", "layer", 2, 1), self.numpy_losses("gcn", "layer", 2, 2)
        self.assertGreater(abs(there[0] - here[0]) / there[0], 100 * FP32_LOSS)


class SameNumbersAsFrameworks(OnAGraph):
    def compare(self, *flags):
        return run(sys.executable, "-B", os.path.join(BENCH, "same_numbers.py"), "--heliograph",
                   COMMAND, "--data", self.graph, "--threads", "1", "--hidden", "8",
                   "--debian-python", TORCH or "", "--frameworks", "debian", *flags)

    @unittest.skipUnless(TORCH, "PyTorch is not installed")
    def test_models_are_those_of_pytorch(self):
        models = ("sage-blocks", "gin-learned", "dagnn", "jknet-max", "gcnii")
        done = self.passes(self.compare("--models", ",".join(models)))
        for model in models:
            self.assertRegex(done.stdout, rf"\| {model} +\| PyTorch.*\| +yes \|")

    @unittest.skipUnless(TORCH, "PyTorch is not installed")
    def test_other_numbers_are_an_error(self):
        done = self.compare("--models", "gin", "--tolerance", "1e-12")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"\| gin .*\| +NO \|")

    def test_no_framework_is_an_error(self):
        done = self.compare("--debian-python", self.path("nowhere"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("no framework is installed", done.stderr)

    def test_a_gradient_differs_relative_to_the_largest_of_its_parameter(self):
        ours = {"logits": np.array([2.0, 4.0]), "loss": np.array(1.0),
                "gradient.a": np.array([1.0, -200.0]), "gradient.b": np.array([1e-3, 0.0])}
        theirs = {**ours, "gradient.a": np.array([[2.0, -200.0]]), "gradient.b": np.array([2e-3, 0])}
        self.assertEqual(same_numbers.largest_differences(ours, theirs), (0, 0, 0.5, "b"))
        with self.assertRaisesRegex(ValueError, "gradient.b"):
            same_numbers.largest_differences({k: ours[k] for k in list(ours)[:3]}, theirs)
        theirs["loss"] = np.array(np.nan)
        self.assertEqual(same_numbers.largest_differences(ours, theirs)[1], np.inf)


class Recipes(OnAGraph):
    def test_the_command_takes_the_flags_of_every_recipe(self):
        self.generate(self.path("two"), classes=2)
        folder = os.path.join(ROOT, "experiments", "recipes")
        recipes = [name for name in sorted(os.listdir(folder)) if name.endswith(".json")]
        self.assertIn("dagnn_cora.json", recipes)
        for name in recipes:
            with self.subTest(recipe=name):
                flags = make_flags(read_json(os.path.join(folder, name))["train"] | {"epochs": 1})
                run_measured([COMMAND, "train", "--data", self.path("two"), "--quiet", *flags])


class CompareFrameworks(OnAGraph):
    def compare(self, *flags):
        return run(sys.executable, "-B", os.path.join(BENCH, "compare_frameworks.py"),
                   "--heliograph", COMMAND, "--data", self.graph, "--epochs", "4", "--warmup", "1",
                   "--rounds", "2", "--threads", "1", "--hidden", "8", "--layers", "2", "--out",
                   self.path("compared.json"), *flags)

    def test_what_is_absent_is_named(self):
        done = self.passes(self.compare("--frameworks", "dgl,pyg", "--venv", self.path("nowhere")))
        self.assertRegex(done.stdout, r"\| DGL +\| +absent")
        self.assertIn("- PyG: not installed", done.stdout)
        on, off = self.read_json("compared.json")
        self.assertEqual((on["job"]["precompute"], off["job"]["precompute"]), (True, False))
        self.assertEqual(len(on["rows"][0]["round_seconds"]), 2)
        np.testing.assert_allclose(on["rows"][0]["losses"], off["rows"][0]["losses"], rtol=1e-4)

    def test_unknown_frameworks_are_refused(self):
        done = self.compare("--frameworks", "dgl,nothing")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("nothing is not one of", done.stderr)

    @unittest.skipUnless(TORCH, "PyTorch is not installed")
    def test_pytorch_takes_the_same_steps(self):
        for model, count in (("gcn", 2), ("sage", 2), ("dagnn", 1)):
            with self.subTest(model=model):
                self.passes(self.compare("--frameworks", "debian-bag", "--debian-python", TORCH,
                                         "--model", model))
                tables = self.read_json("compared.json")
                self.assertEqual(len(tables), count)  # dagnn sums no features
                for table in tables:
                    row = table["rows"][1]
                    self.assertLess(row["difference"], 1e-4)
                    self.assertGreater(row["seconds"], 0)
                    self.assertGreater(row["bytes"], row["loaded_bytes"])

    @unittest.skipUnless(TORCH, "PyTorch is not installed")
    def test_other_losses_are_an_error(self):
        done = self.compare("--frameworks", "debian-bag", "--debian-python", TORCH, "--tolerance",
                            "1e-16", "--precompute", "on")
        self.assertEqual(done.returncode, 1)
        self.assertIn("losses differ by more than 1e-16: PyTorch of Debian, embedding_bag",
                      done.stderr)

    def test_a_difference_is_the_largest_of_all_epochs(self):
        self.assertAlmostEqual(compare_frameworks.largest_difference([1, 2.2, 3], [1, 2, 4]), 0.25)

    def test_a_process_that_fails_is_named_with_its_last_words(self):
        with self.assertRaisesRegex(ProcessFailed, "exit code 3: gone"):
            run_measured([sys.executable, "-c", "import sys; print('gone'); sys.exit(3)"])

    def test_a_peak_is_that_of_the_process(self):
        peak = run_measured([sys.executable, "-c", "x = b'1' * 150_000_000"])
        self.assertGreater(peak, 150_000_000)
        self.assertLess(peak, 300_000_000)


class Scaling(FolderTest):
    def scale(self, *flags):
        return run(sys.executable, "-B", os.path.join(BENCH, "scaling.py"), "--heliograph", COMMAND,
                   "--out", self.path("scaling.json"), "--epochs", "3", "--warmup", "1", "--hidden",
                   "8", *flags)

    def test_sizes_are_measured_once(self):
        first = self.passes(self.scale("--sizes", "0.01"))
        second = self.scale("--sizes", "0.03,0.01")
        self.assertEqual(second.stderr, "0.03 million edges\n")
        self.assertEqual(second.stdout.split("\n")[2], first.stdout.split("\n")[2])
        self.assertEqual(self.scale("--sizes", "0.01", "--parts", "2").stderr,
                         "0.01 million edges\n")
        self.assertEqual(os.listdir(self.folder), ["scaling.json"])

    def test_a_command_that_fails_is_named(self):
        done = self.scale("--sizes", "0.01", "--partitioner", "nonsense")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nonsense", done.stderr)

    def test_the_exponent_is_the_slope_of_the_logarithms(self):
        self.assertAlmostEqual(scaling.exponent([1, 10, 100], [3, 300, 30000]), 2)
        self.assertAlmostEqual(scaling.exponent([5, 50], [2, 2]), 0)
        self.assertIsNone(scaling.exponent([5], [2]))


if __name__ == "__main__":
    unittest.main()

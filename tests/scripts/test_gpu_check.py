#!/usr/bin/env python3
"""Tests of scripts/gpu_check.sh and its parts, without a GPU: test_gpu_check.py PATH_OF_THE_COMMAND.

Where the parts train on a device, a stand-in for the command trains on the CPU instead, right or
wrong as the test says."""

import json
import os
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "scripts", "gpu_check.sh")
PARTS = os.path.join(ROOT, "scripts", "gpu_check")
COMMAND = os.path.abspath(sys.argv.pop())

# On the "device" a flag has the value of the stand-in, not the one that was given. A CPU knows no
# TF32 and no CUDA graphs.
STAND_IN = """#!{python}
import os, sys
words = sys.argv[1:]
if "cuda" in words:
    words[words.index("cuda")] = "cpu"
    words = [word for word in words if word != "--tf32"]
    if "--cuda-graphs" in words:
        words[words.index("--cuda-graphs") + 1] = "off"
    for flag, value in {wrong!r}.items():
        words[words.index(flag) + 1] = value
os.execv({command!r}, [{command!r}] + words)
"""


class Parts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def stand_in(self, wrong):
        with open(self.path("heliograph"), "w", encoding="utf-8") as file:
            file.write(STAND_IN.format(python=sys.executable, command=COMMAND, wrong=wrong))
        os.chmod(self.path("heliograph"), stat.S_IRWXU)
        return self.path("heliograph")

    def part(self, name, *arguments):
        return subprocess.run([sys.executable, "-B", os.path.join(PARTS, name), *arguments],
                              capture_output=True, text=True, check=False)

    def oracle(self, wrong):
        done = self.part("oracle.py", "--heliograph", self.stand_in(wrong), "--quick", "--ranks",
                         "1,2", "--work", self.path("work"), "--json", self.path("oracle.json"))
        with open(self.path("oracle.json"), encoding="utf-8") as file:
            return done, json.load(file)

    def table(self):
        self.assertEqual(self.part("table.py", self.folder).returncode, 0)
        with open(self.path("table.md"), encoding="utf-8") as file:
            return file.read()

    def test_a_device_that_agrees_passes(self):
        done, rows = self.oracle({})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual({row["kind"] for row in rows}, {"step", "tf32 step", "epochs", "ranks"})
        self.assertIn("| step | 32 | 2 | 2 |", self.table())
        self.assertIn("| tf32 step | 32 | 1 | 1 |", self.table())

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

    def test_a_run_that_fails_is_named(self):
        done, rows = self.oracle({"--hidden": "-1"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("exit code 2", rows[0]["error"])
        self.assertIn("none measured", self.table())

    def test_epochs_are_timed_and_a_failure_keeps_the_rest(self):
        done = self.part("epochs.py", "--heliograph", self.stand_in({}), "--work",
                         self.path("work"), "--json", self.path("epochs.json"), "--graphs",
                         "nonsense,reddit", "--scale", "0.002", "--ranks", "1,2", "--epochs", "3")
        self.assertEqual(done.returncode, 1)
        with open(self.path("epochs.json"), encoding="utf-8") as file:
            rows = json.load(file)
        self.assertIn("error", rows[0])
        trained = [(row["ranks"], row["bits"], row["tf32"]) for row in rows if row["what"] == "train"]
        self.assertEqual(trained, [(1, 32, False), (1, 32, True), (2, 32, False), (2, 1, False)])
        text = self.table()
        self.assertIn("| reddit | Heliograph, 32 bits, TF32 | 1 |", text)
        self.assertIn("| nonsense | generate |", text)
        self.assertIn("x as fast as fp32", text)

    def test_a_small_graph_is_timed_with_cuda_graphs_and_without(self):
        done = self.part("epochs.py", "--heliograph", self.stand_in({}), "--work",
                         self.path("work"), "--json", self.path("epochs.json"), "--graphs",
                         "small", "--ranks", "1,2", "--epochs", "3")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(self.path("epochs.json"), encoding="utf-8") as file:
            rows = [row for row in json.load(file) if row["what"] == "train"]
        self.assertEqual([(row["ranks"], row["bits"], row["cuda_graphs"]) for row in rows],
                         [(1, 32, "off"), (1, 32, "on"), (2, 32, "off"), (2, 32, "on")])
        rows[1]["median"], rows[0]["median"] = 0.001, 0.0025
        with open(self.path("epochs.json"), "w", encoding="utf-8") as file:
            json.dump(rows, file)
        text = self.table()
        self.assertIn("| small | Heliograph, 32 bits, CUDA graphs | 1 | 1.0 |", text)
        self.assertIn("2.50 x as fast as without CUDA graphs", text)
        self.assertNotIn("PyTorch", text)

    def test_a_table_of_nothing_says_so(self):
        text = self.table()
        for words in ("No step was run", "Twin tests: no result", "against the CPU: no result",
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
        with open(self.path("bench.json"), "w", encoding="utf-8") as file:
            json.dump(said, file)
        text = self.table()
        self.assertIn("| encode/1 | 2000.0 | 1600 | 80 % |", text)
        self.assertIn("| aggregate_halo/1 | 1000.0 | 1000 | 50 % | 80 % |", text)
        self.assertIn("7.0 times as fast as decoding", text)
        self.assertIn("takes 0.75 times as long as cuSPARSE's product", text)


class Script(unittest.TestCase):
    """On a machine of stand-ins, where a build is made by putting others into its folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.write("tools/cmake", '[ "$1" != --version ] || echo cmake version 3.30.1')
        self.write("tools/nvcc", "echo release 13")

    def write(self, name, body):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/bash\n{body}\n")
        os.chmod(path, stat.S_IRWXU)

    def run_script(self, *arguments):
        path = os.path.join(self.folder, "tools") + os.pathsep + os.environ["PATH"]
        return subprocess.run([SCRIPT, "--out", os.path.join(self.folder, "out"), "--build",
                               os.path.join(self.folder, "build"), *arguments],
                              capture_output=True, text=True, check=False,
                              env={**os.environ, "PATH": path})

    def build(self, devices, tests):
        self.write("build/heliograph", "")
        with open(os.path.join(self.folder, "build", "heliograph"), "w", encoding="utf-8") as file:
            file.write(STAND_IN.format(python=sys.executable, command=COMMAND, wrong={}))
        self.write("build/bench/heliograph_device_bench", devices)
        self.write("build/tests/test_cuda_device", tests)

    def test_unknown_options_and_steps_are_refused(self):
        for arguments in (["--nonsense"], ["--steps", "tests,nonsense"], ["--scale"]):
            done = self.run_script(*arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_a_missing_bundle_and_an_old_cmake_are_named(self):
        done = self.run_script("--bundle", os.path.join(self.folder, "none.tar.xz"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("none.tar.xz does not exist", done.stderr)
        self.write("tools/cmake", "echo cmake version 3.22.1")
        done = self.run_script()
        self.assertEqual(done.returncode, 2)
        self.assertIn("CMake is 3.22.1; 3.25 or newer is needed", done.stderr)

    def test_a_build_that_fails_shows_its_end(self):
        self.write("tools/cmake", '[ "$1" != --version ] && { echo broken; exit 1; }\n'
                                  "echo cmake version 3.30.1")
        done = self.run_script()
        self.assertEqual(done.returncode, 1)
        self.assertIn("broken\ngpu_check.sh: the build failed", done.stderr)

    def test_without_a_device_it_says_so_after_the_build(self):
        self.build("echo no CUDA device >&2; exit 3", "exit 0")
        done = self.run_script()
        self.assertEqual(done.returncode, 3)
        self.assertIn("built, but there is no CUDA device here: no CUDA device", done.stderr)
        self.assertEqual(self.run_script("--build-only").returncode, 0)

    def test_steps_that_fail_are_named_and_the_others_run(self):
        self.build('[ "$1" != --devices ] || { echo 1; exit; }\nexit 0', "echo a twin differs; exit 1")
        done = self.run_script("--steps", "tests,nccl,bench,epochs,torch", "--scale", "0.002",
                               "--partitioner", "contiguous")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("a twin differs", done.stderr)
        with open(os.path.join(self.folder, "out", "steps.tsv"), encoding="utf-8") as file:
            said = {name: result for name, result, _ in
                    (line.split("\t") for line in file.read().strip().split("\n"))}
        self.assertEqual(said["tests"], "failed: exit code 1")
        self.assertEqual(said["nccl"], "not run: it takes two GPUs")
        self.assertEqual(said["bench"], "passed")
        self.assertEqual(said["epochs"], "passed")
        self.assertIn("torch_products", said)  # Whatever PyTorch finds here.
        with open(os.path.join(self.folder, "out", "table.md"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn("| tests | failed: exit code 1 |", text)
        self.assertIn("- 1 CUDA devices", text)
        self.assertIn("| products | Heliograph, 1 bits | 4 |", text)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Tests of scripts/gpu_check.sh on a machine of stand-ins, without a GPU: test_gpu_check.py
PATH_OF_THE_COMMAND."""

import os
import signal
import subprocess
import sys
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from harness import ROOT, FolderTest, run, wait_until
from stand_in import stand_in

SCRIPT = os.path.join(ROOT, "scripts", "gpu_check.sh")

NVCC = """[ "$1" != --version ] || {{ echo release 13; exit; }}
while [ "$1" != -o ]; do shift; done
printf '#!/bin/bash\\n%s\\n' {probe!r} >"$2"
chmod +x "$2"
"""


BENCH = """{"rows": 1, "outputs": 1, "copy_bytes_per_second": 2e12, "gemm_flops": 5e13, "kernels": [
{"name": "copy", "seconds": 1e-3, "subtracted": 0, "bytes_once": 2e9, "bytes_gathered": 2e9,
"bytes_source": 0, "flops": 0, "repeats": null}]}"""


class Script(FolderTest):
    """Runs the script on a machine of stand-ins, where a build puts other stand-ins into its folder."""

    def setUp(self):
        super().setUp()
        self.tool("tools/cmake", '[ "$1" != --version ] || echo cmake version 3.30.1')
        self.tool("tools/nvcc", NVCC.format(probe="echo 1; echo A GPU"))

    def tool(self, name, body):
        self.write(name, f"#!/bin/bash\n{body}\n", 0o700)

    def line(self, *arguments):
        return [SCRIPT, "--out", self.path("out"), "--build", self.path("build"), *arguments]

    def run_script(self, *arguments, **variables):
        return run(*self.line(*arguments), env={**self.environment(), **variables})

    def environment(self):
        """An environment in which no variable names a real tool."""
        path = self.path("tools") + os.pathsep + os.environ["PATH"]
        real = {name: value for name, value in os.environ.items()
                if name not in ("CUDACXX", "CUDAHOSTCXX", "CUDA_HOME", "CXX")}
        return {**real, "PATH": path}

    def build(self, bench, tests):
        # A tenth of the graph "small" suffices here: it is trained for hundreds of epochs.
        small = stand_in().replace("sys.argv[1:]", "[{'3000': '300', '40000': '4000'}.get(word, word) "
                                   "for word in sys.argv[1:]]", 1)
        self.write("build/heliograph", small, 0o700)
        self.tool("build/bench/heliograph_device_bench", bench)
        self.tool("build/tests/test_cuda_device", tests)

    def said(self):
        """{step: result}"""
        lines = [line.split("\t") for line in self.read("build/results/steps.tsv").splitlines()]
        self.assertEqual({len(line) for line in lines}, {4})
        return {line[0]: line[1] for line in lines}

    def table(self):
        return self.read("out", "table.md")

    def test_unknown_options_and_steps_are_refused(self):
        for arguments in (["--nonsense"], ["--steps", "tests,nonsense"], ["--scale"], ["--call", "4"],
                          ["--scale", "../1"], ["--minutes", "soon"], ["--partitioner", "scotch"]):
            done = self.run_script(*arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_a_missing_bundle_and_an_old_cmake_are_named(self):
        done = self.run_script("--bundle", self.path("none.tar.xz"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("none.tar.xz does not exist", done.stderr)
        self.tool("tools/cmake", "echo cmake version 3.22.1")
        done = self.run_script()
        self.assertEqual(done.returncode, 2)
        self.assertIn("CMake is 3.22.1; 3.25 or newer is needed", done.stderr)

    def test_a_build_that_fails_shows_its_end(self):
        self.tool("tools/cmake", '[ "$1" != --version ] && { echo broken; exit 1; }\n'
                                  "echo cmake version 3.30.1")
        done = self.run_script()
        self.assertEqual(done.returncode, 1)
        self.assertIn("broken\ngpu_check.sh: the build failed", done.stderr)
        self.assertEqual(self.said()["configure"], "failed: exit code 1")

    def test_without_a_device_it_says_so_before_the_build(self):
        self.tool("tools/nvcc", NVCC.format(probe="echo driver too old >&2; exit 3"))
        done = self.run_script()
        self.assertEqual(done.returncode, 3)
        self.assertIn("this machine has no CUDA device: driver too old", done.stderr)
        self.assertFalse(os.path.exists(self.path("build/results/steps.tsv")))

    def test_three_dry_calls_run_every_step_and_say_that_they_are_dry(self):
        self.tool("tools/nvcc", NVCC.format(probe="echo driver too old >&2; exit 3"))
        self.tool("tools/cmake", f'echo "$*" >>{self.folder}/built\n'
                                 '[ "$1" != --version ] || echo cmake version 3.30.1')
        self.build("exit 9", "echo '[  SKIPPED ] A.One (0 ms)'; echo '[  SKIPPED ] A.Two (0 ms)'; "
                             "echo '[  SKIPPED ] A.Two'")
        self.tool("build/tests/device_bench_emulated",
                  'for last; do true; done; cp %s "${last#--json=}"' % self.write("bench", BENCH))
        steps = {"configure", "build", "graphs"}
        for call, more, end in (
                ("1", {"tests", "bench"}, "Next: %s --out %s --build %s --dry --call 2\n"),
                ("2", {"oracle", "memcheck", "racecheck"},
                 "Next: %s --out %s --build %s --dry --call 3\n"),
                ("3", {"epochs", "torch_reddit", "torch_products"},
                 "All three calls are done: the results are in %s/table.md")):
            with self.subTest(call=call):
                done = self.run_script("--dry", "--call", call)
                self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
                steps |= more
                self.assertEqual(set(self.said()), steps)
                self.assertIn(end % (SCRIPT, self.path("out"), self.path("build"))
                              if call != "3" else end % self.path("out"), done.stdout)
                self.assertEqual(set(os.listdir(self.path("out"))), {"table.md", "results.tar.gz"})
        self.assertIn("device_bench_emulated", self.read("built"))
        self.assertEqual(self.read("built").count("--target"), 1)  # by the first call only
        said = self.said()
        self.assertEqual(said["tests"], "dry: 2 tests skip without a device")
        self.assertEqual({said[step] for step in ("bench", "oracle", "epochs", "graphs")},
                         {"passed, dry"})
        self.assertEqual({said[step] for step in ("memcheck", "racecheck")}, {"not run: dry"})
        text = self.table()
        self.assertIn("# GPU check: DRY RUN\n\n- DRY RUN: no GPU", text)
        self.assertEqual(text.count("| none: dry run |"), 7)
        self.assertIn("| reddit-0.002 | Heliograph, 1 bits | 4 |", text)
        self.assertIn("| copy | 1000.0 |", text)
        self.assertIn("| step | 32 | ", text)
        packed = run("tar", "-tzf", self.path("out", "results.tar.gz")).stdout
        for name in ("build.log", "tests.log", "bench.json", "oracle.json", "epochs.json"):
            self.assertIn(f"results/{name}\n", packed)
        self.tool("tools/nvcc", NVCC.format(probe="echo 1; echo A GPU"))
        done = self.run_script("--call", "1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("holds results of DRY RUN", done.stderr)

    def test_a_step_that_fails_in_a_dry_run_is_a_failure(self):
        self.tool("tools/nvcc", NVCC.format(probe="exit 3"))
        self.build("exit 0", "exit 1")
        self.assertEqual(self.run_script("--dry", "--steps", "tests").returncode, 1)
        self.assertEqual(self.said()["tests"], "failed: exit code 1")

    def test_graphs_that_the_first_call_leaves_unfinished_are_no_failure(self):
        slow = stand_in().replace("import json, os", "import json, os, time\n"
                                  "'generate' in os.sys.argv and time.sleep(60)\nimport json, os", 1)
        self.build("exit 0", "echo '[       OK ] A.One (0 ms)'")
        self.write("build/heliograph", slow, 0o700)
        done = self.run_script("--call", "1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.said()["graphs"], "incomplete: the next call goes on")

    def test_a_compiler_that_does_not_fit_is_named_before_the_build(self):
        self.tool("tools/nvcc", "echo unsupported GNU version; exit 1")
        done = self.run_script("--call", "1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("unsupported GNU version\ngpu_check.sh: nvcc cannot compile C++20", done.stderr)

    def test_a_bundle_that_does_not_fit_is_named_before_the_build(self):
        here = os.uname().machine
        for manifest, said in (
                (f"machine {here}x\nlibc 2.1\nlibstdc++ 3.4.1", f"is for {here}x, not {here}"),
                (f"machine {here}\nlibc 99.1\nlibstdc++ 3.4.1", "needs GNU C library 99.1, this machine has 2."),
                (f"machine {here}\nlibc 2.1\nlibstdc++ 3.4.999", "GLIBCXX_3.4.999, that of c++ has 3.4."),
                (f"machine {here}\nlibc 2.1\nlibstdc++ 3.4.1", None)):
            self.write("bundle/MANIFEST", manifest + "\n")
            self.build("exit 0", "echo '[       OK ] A.One (0 ms)'")
            done = self.run_script("--steps", "tests", "--bundle", self.path("bundle"))
            self.assertEqual(done.returncode, 2 if said else 0, done.stderr)
            self.assertIn(said or "", done.stderr)

    def test_steps_that_fail_are_named_and_the_others_run(self):
        self.build("exit 0", "echo a twin differs; exit 1")
        self.write("build/results/bench.json", "[]")
        done = self.run_script("--steps", "tests,pair,bench,epochs,torch", "--scale", "0.002",
                               "--partitioner", "contiguous")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("a twin differs", done.stderr)
        said = self.said()
        self.assertEqual(said["tests"], "failed: exit code 1")
        self.assertEqual(said["pair"], "not run: it takes two GPUs")
        self.assertEqual(said["bench"], "passed")
        self.assertEqual(said["epochs"], "passed")
        self.assertEqual(said["graphs"], "passed")
        self.assertIn("torch_products", said)  # Whatever PyTorch finds here.
        self.assertFalse(os.path.exists(self.path("build/results/bench.json")))
        text = self.table()
        self.assertIn("| tests | failed: exit code 1 |", text)
        self.assertIn("- A GPU\n- 1 CUDA devices", text)
        self.assertIn("| products-0.002 | Heliograph, 1 bits | 4 |", text)

    def test_two_gpus_are_compared_where_the_build_has_nccl(self):
        self.tool("tools/nvcc", NVCC.format(probe="echo 2; echo A GPU; echo A GPU"))
        for nccl, said in (("nccl not built", {"pair": "not run: built without NCCL"}),
                           ("nccl built", {"nccl": "failed: exit code 1",
                                           "pair": "failed: exit code 1"})):
            self.build("exit 0", "exit 0")
            self.tool("build/heliograph",
                      f'[ "$1" = info ] || exit 7; echo "  transports  threads built; {nccl}"')
            self.run_script("--steps", "pair")
            self.assertEqual({step: self.said().get(step) for step in said}, said)

    def test_tests_of_which_none_ran_have_not_passed(self):
        self.build("exit 0", "echo '[  SKIPPED ] A.One (0 ms)'")
        self.assertEqual(self.run_script("--steps", "tests").returncode, 1)
        self.assertEqual(self.said()["tests"], "failed: tests did not run")
        self.assertIn("tests: 0 passed, 0 failed, 1 skipped", self.table())
        self.build("exit 0", "echo '[       OK ] A.One (0 ms)'; echo no CUDA device; "
                             "echo '[  SKIPPED ] A.Two (0 ms)'")
        self.assertEqual(self.run_script("--steps", "tests").returncode, 1)
        self.build("exit 0", "echo '[       OK ] A.One (0 ms)'")
        self.assertEqual(self.run_script("--steps", "tests").returncode, 0)

    def test_results_of_another_gpu_are_not_mixed_in(self):
        self.build("exit 0", "echo '[       OK ] A.One (0 ms)'")
        self.assertEqual(self.run_script("--steps", "tests").returncode, 0)
        self.tool("tools/nvcc", NVCC.format(probe="echo 1; echo Another GPU"))
        done = self.run_script("--steps", "tests")
        self.assertEqual(done.returncode, 2)
        self.assertIn("holds results of A GPU: give another folder by --build", done.stderr)

    def test_what_a_container_sets_does_not_change_the_arithmetic(self):
        self.build("exit 0", "echo '[       OK ] A.One (0 ms)'\n"
                             '[ -z "$NVIDIA_TF32_OVERRIDE$CUDA_LAUNCH_BLOCKING" ]')
        done = self.run_script("--steps", "tests", NVIDIA_TF32_OVERRIDE="1", CUDA_LAUNCH_BLOCKING="1")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_minutes_that_are_over_are_named(self):
        done = self.run_script("--minutes", "0.001")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.said()["configure"], "not run: the 0.001 minutes are over")

    def test_what_is_left_of_the_minutes_is_a_limit(self):
        self.tool("tools/timeout", f'echo "$2" >>{self.folder}/limits; shift 2; exec "$@"')
        self.build("exit 0", "echo '[       OK ] A.One (0 ms)'")
        for minutes, least, most in (("1", 1, 60), ("3", 61, 180), ("100", 240, 240)):
            self.assertEqual(self.run_script("--steps", "tests", "--minutes", minutes).returncode, 0)
            limit = int(self.read("limits").split()[-1])
            self.assertTrue(least <= limit <= most, limit)

    def test_the_table_is_there_before_the_next_step_ends(self):
        table = self.path("out", "table.md")
        self.build(f"cp {table} {self.folder}/meanwhile", "echo '[       OK ] A.One (0 ms)'")
        self.assertEqual(self.run_script("--steps", "tests,bench").returncode, 0)
        text = self.read("meanwhile")
        self.assertIn("| tests | passed |", text)
        self.assertIn("tests: 1 passed, 0 failed", text)
        self.assertRegex(text, r"\| bench \| begun at [0-9:]+ UTC, not ended \|")

    def test_a_signal_ends_the_step_and_leaves_the_table(self):
        self.build(f"trap 'touch {self.folder}/asked; exit 1' TERM; touch {self.folder}/there\n"
                   "while true; do sleep 0.01; done", "echo '[       OK ] A.One (0 ms)'")
        script = subprocess.Popen(self.line("--steps", "tests,bench,torch"),
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                  env=self.environment())
        wait_until(lambda: os.path.exists(self.path("there")), "the benchmark has begun")
        script.terminate()
        self.assertIn("cut off by SIGTERM in bench", script.communicate()[1])
        self.assertEqual(script.returncode, 128 + signal.SIGTERM)
        self.assertTrue(os.path.exists(self.path("asked")))
        self.assertIn("| bench | cut off by SIGTERM |", self.table())
        self.assertIn("| tests | passed |", self.table())
        self.assertNotIn("torch_reddit", self.said())


if __name__ == "__main__":
    unittest.main()

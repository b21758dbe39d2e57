#!/usr/bin/env python3
"""Tests of heliograph_device_bench, built for the emulated device: test_device_bench.py PATH_OF_IT."""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.path.abspath(sys.argv.pop())
SMALL = ["--rows=64", "--outputs=33", "--degree=5", "--width=40", "--gemm=32", "--seconds=0.001"]
PARTS = ("copy", "gemm/large", "gemm/layer/tf32", "gemm_bias", "encode/1", "aggregate_halo/1",
         "aggregate_inner", "aggregate_inner_bf16", "norm_act_backward", "softmax_cross_entropy",
         "adam")


class DeviceBench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = os.path.join(folder.name, "bench.json")

    def line(self, *flags):
        return [PROGRAM, *SMALL, f"--json={self.file}", *flags]

    def read(self):
        with open(self.file, encoding="utf-8") as file:
            said = json.load(file)
        return said, {kernel["name"]: kernel["seconds"] for kernel in said["kernels"]}

    def test_all_kernels_are_measured(self):
        done = subprocess.run(self.line("--copy-mib=1"), capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        said, seconds = self.read()
        self.assertGreater(said["copy_bytes_per_second"], 0)
        self.assertGreater(said["gemm_flops"], 0)
        for name in PARTS:
            self.assertGreater(seconds[name], 0)
            self.assertIn(name + " ", done.stdout)

    def test_a_part_that_fails_is_named_and_takes_nothing_from_the_others(self):
        done = subprocess.run(self.line("--copy-mib=1000000000"), capture_output=True, text=True,
                              check=False)  # More than a process can address.
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "copies: ")
        said, seconds = self.read()
        self.assertEqual(said["copy_bytes_per_second"], 0)
        self.assertGreater(said["gemm_flops"], 0)
        self.assertEqual(set(PARTS) - set(seconds), {"copy"})

    def test_each_kernel_is_in_the_file_when_it_is_measured(self):
        bench = subprocess.Popen(self.line("--copy-mib=1", "--seconds=0.5"),
                                 stdout=subprocess.DEVNULL)
        self.addCleanup(bench.wait)
        self.addCleanup(bench.kill)
        while not os.path.exists(self.file):
            self.assertIsNone(bench.poll())
            time.sleep(0.001)
        bench.kill()
        bench.wait()
        _, seconds = self.read()
        self.assertIn("copy", seconds)
        self.assertNotIn("adam", seconds)

    def test_what_is_no_option_or_no_size_is_refused(self):
        for flag in ("--nonsense", "--rows=0", "--seconds=nan"):
            done = subprocess.run(self.line(flag), capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()

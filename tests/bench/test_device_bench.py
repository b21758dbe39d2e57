#!/usr/bin/env python3
"""Tests of heliograph_device_bench, built for the emulated device: test_device_bench.py PATH_OF_IT."""

import os
import subprocess
import sys
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from harness import FolderTest, run, wait_until

PROGRAM = os.path.abspath(sys.argv.pop())
SMALL = ["--rows=64", "--outputs=33", "--degrees=5,9", "--widths=40,7", "--gemm=32",
         "--gradient-rows=4", "--seconds=0.001"]
PARTS = ("copy", "gemm/large", "gemm/layer/tf32", "gemm_bias", "gradient/232965x602x256/pedantic",
         "gradient/232965x602x256/default", "encode/1", "aggregate_halo/16/d5/w40",
         "aggregate_halo/1/d9/w7", "aggregate_inner/d9/w40", "aggregate_inner_bf16/d5/w7",
         "norm_act_backward", "softmax_cross_entropy", "adam")


class DeviceBench(FolderTest):
    def line(self, *flags):
        return [PROGRAM, *SMALL, f"--json={self.path('bench.json')}", *flags]

    def results(self):
        said = self.read_json("bench.json")
        return said, {kernel["name"]: kernel["seconds"] for kernel in said["kernels"]}

    def test_all_kernels_are_measured(self):
        done = self.passes(run(*self.line("--copy-mib=1")))
        said, seconds = self.results()
        self.assertGreater(said["copy_bytes_per_second"], 0)
        self.assertGreater(said["gemm_flops"], 0)
        for name in PARTS:
            self.assertGreater(seconds[name], 0)
            self.assertIn(name + " ", done.stdout)
        kernels = {kernel["name"]: kernel for kernel in said["kernels"]}
        self.assertGreater(kernels["softmax_cross_entropy"]["subtracted"], 0)
        self.assertEqual({kernel["subtracted"] for name, kernel in kernels.items()
                          if name != "softmax_cross_entropy"}, {0})
        self.assertEqual({kernel["repeats"] for name, kernel in kernels.items()
                          if name.startswith("gradient/")}, {True})
        gathered = kernels["aggregate_inner/d9/w40"]
        self.assertEqual(gathered["bytes_source"], 64 * 40 * 4)
        self.assertEqual(gathered["bytes_gathered"] - gathered["bytes_once"],
                         (33 * 9 - 64) * 40 * 4)

    def test_a_part_that_fails_is_named_and_takes_nothing_from_the_others(self):
        done = run(*self.line("--copy-mib=1000000000"))  # More than a process can address.
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "copies: ")
        said, seconds = self.results()
        self.assertEqual(said["copy_bytes_per_second"], 0)
        self.assertGreater(said["gemm_flops"], 0)
        self.assertEqual(set(PARTS) - set(seconds), {"copy"})

    def test_each_kernel_is_in_the_file_when_it_is_measured(self):
        bench = subprocess.Popen(self.line("--copy-mib=1", "--seconds=0.5"),
                                 stdout=subprocess.DEVNULL)
        self.addCleanup(bench.wait)
        self.addCleanup(bench.kill)
        wait_until(lambda: os.path.exists(self.path("bench.json")) or bench.poll() is not None,
                   "the file is there")
        bench.kill()
        bench.wait()
        _, seconds = self.results()
        self.assertIn("copy", seconds)
        self.assertNotIn("adam", seconds)

    def test_what_is_no_option_or_no_size_is_refused(self):
        for flag in ("--nonsense", "--rows=0", "--seconds=nan", "--widths=", "--degrees=3,0"):
            done = run(*self.line(flag))
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Tests the results that bench/torch_epoch.py writes where variants fail, with a stand-in for PyTorch."""

import os
import sys
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from harness import ROOT, FolderTest, run

# Each variant begins by asking for the version. The stand-in then copies the results and fails.
TORCH = """
import os, shutil
class cuda:
    is_available = staticmethod(lambda: True)
    empty_cache = staticmethod(lambda: None)
def set_float32_matmul_precision(precision):
    assert precision == "highest"
copies = []
def __getattr__(name):
    if name != "__version__":
        raise AttributeError(name)
    copies.append(0)
    shutil.copy(os.environ["RESULTS"], os.environ["RESULTS"] + str(len(copies)))
    raise ZeroDivisionError("of this variant")
"""


class TorchEpoch(FolderTest):
    def test_each_variant_is_in_the_file_as_it_begins_and_with_what_ended_it(self):
        self.write("torch.py", TORCH)
        results = self.path("results.json")
        done = run(sys.executable, "-B", os.path.join(ROOT, "bench", "torch_epoch.py"), "--data",
                   self.path("reddit-1"), "--json", results, "--heliograph", sys.executable,
                   env={**os.environ, "PYTHONPATH": self.folder, "RESULTS": results})
        self.assertEqual(done.returncode, 1, done.stderr)
        first, second, last = ([row["error"] for row in self.read_json("results.json" + copy)]
                               for copy in ("1", "2", ""))
        why = "ZeroDivisionError: of this variant"
        self.assertEqual((first, second), (["cut off"], [why, "cut off"]))
        self.assertEqual(last[:2], [why, why])
        self.assertEqual(len(last), 4)
        self.assertEqual({row["data"] for row in self.read_json("results.json")}, {"reddit-1"})


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Tests of what bench/torch_epoch.py leaves where variants fail, with a stand-in for PyTorch."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
                      "bench", "torch_epoch.py")

# Asked for its version, as each variant begins, it keeps a copy of the results, and fails.
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


class TorchEpoch(unittest.TestCase):
    def test_each_variant_is_in_the_file_as_it_begins_and_with_what_ended_it(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "torch.py"), "w", encoding="utf-8") as file:
                file.write(TORCH)
            results = os.path.join(folder, "results.json")
            done = subprocess.run(
                [sys.executable, "-B", SCRIPT, "--data", os.path.join(folder, "reddit-1"), "--json",
                 results], capture_output=True, text=True, check=False,
                env={**os.environ, "PYTHONPATH": folder, "RESULTS": results})
            self.assertEqual(done.returncode, 1, done.stderr)
            said = []
            for name in (results + "1", results + "2", results):
                with open(name, encoding="utf-8") as file:
                    said.append([row["error"] for row in json.load(file)])
            why = "ZeroDivisionError: of this variant"
            self.assertEqual(said[:2], [["cut off"], [why, "cut off"]])
            self.assertEqual(said[2][:2], [why, why])
            self.assertEqual(len(said[2]), 4)
            with open(results, encoding="utf-8") as file:
                self.assertEqual({row["data"] for row in json.load(file)}, {"reddit-1"})


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Scripts without arguments explain themselves and refuse arguments before they do anything."""

import os
import shutil
import sys
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from harness import ROOT, FolderTest, run

SCRIPTS = ("quickstart.sh", "test.sh", "test_arm.sh")


class Arguments(FolderTest):
    def start(self, name, argument):
        """Runs a script where it finds no program with which it could install or build."""
        for tool in ("dirname", "sed"):
            if not os.path.exists(self.path(tool)):
                os.symlink(shutil.which(tool), self.path(tool))
        return run(shutil.which("bash"), name, argument, cwd=os.path.join(ROOT, "scripts"),
                   env={"PATH": self.folder})

    def test_help_is_the_first_comment(self):
        for name in SCRIPTS:
            done = self.start(name, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            self.assertIn("Environment: ", done.stdout)
            self.assertNotIn("#", done.stdout)

    def test_anything_else_is_refused(self):
        for name in SCRIPTS:
            done = self.start(name, "--fast")
            self.assertEqual((done.returncode, done.stdout), (2, ""), name)
            self.assertIn('"--fast" was given', done.stderr)


if __name__ == "__main__":
    unittest.main()

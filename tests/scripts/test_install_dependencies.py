#!/usr/bin/env python3
"""Tests of scripts/install_dependencies.sh on a machine of stand-ins: nothing is installed."""

import os
import shutil
import sys
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from harness import ROOT, FolderTest, run

SCRIPT = os.path.join(ROOT, "scripts", "install_dependencies.sh")
TOOLS = ("bash", "env", "grep", "head", "mktemp", "rm", "sort", "tail")
STAND_INS = {
    # Packages are installed if "installed" names them; apt-get fails while "failures" has lines.
    "dpkg-query": 'grep -qx "${!#}" installed && echo installed',
    "apt-get": 'echo "$*" >>calls; [ ! -s failures ] || { tail -n +2 failures >f; cat f >failures; '
               'echo "404 Not Found"; exit 100; }',
    "apt-cache": "cat lists",
    "id": "echo $FAKE_UID",
}


class InstallDependencies(FolderTest):
    def setUp(self):
        super().setUp()
        for name, body in STAND_INS.items():
            self.write(name, f"#!{shutil.which('bash')}\n{body}\n", 0o755)
        for tool in TOOLS + ("cat",):
            os.symlink(shutil.which(tool), self.path(tool))
        self.write("failures", "")
        self.write("calls", "")
        self.write("lists", "Package: hello\n")
        self.write("installed", "")

    def install(self, *groups, uid=0):
        """(the ended process, the calls of apt-get)"""
        done = run("bash", SCRIPT, *groups, cwd=self.folder,
                   env={"PATH": self.folder, "FAKE_UID": str(uid)})
        return done, self.read("calls").splitlines()

    def test_only_what_is_missing_is_installed(self):
        self.write("installed", "python3\n")
        done, calls = self.install("quickstart")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(calls), 1)
        self.assertIn("install --no-install-recommends", calls[0])
        self.assertTrue(calls[0].endswith(" python3-numpy"), calls)

    def test_nothing_missing_nothing_done(self):
        self.write("installed", "python3\npython3-numpy\n")
        done, calls = self.install("quickstart", uid=1000)
        self.assertEqual((done.returncode, calls, done.stdout), (0, [], ""))

    def test_lists_are_fetched_where_the_first_try_fails(self):
        self.write("failures", "once\n")
        done, calls = self.install("test")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([("update" in call.split()) for call in calls], [False, True, False])

    def test_lists_are_fetched_for_the_quickstart(self):
        self.write("lists", "")
        self.write("installed", "python3\npython3-numpy\n")
        done, calls = self.install("quickstart")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([call.split()[-1] for call in calls], ["update"])

    def test_a_failure_is_told(self):
        self.write("failures", "1\n2\n3\n")
        done, calls = self.install("build")
        self.assertEqual(done.returncode, 1)
        self.assertIn("404 Not Found", done.stderr)
        self.assertIn("failed", done.stderr)
        self.assertEqual(len(calls), 2)

    def test_without_root_and_sudo_it_says_what_to_run(self):
        done, calls = self.install("quickstart", uid=1000)
        self.assertEqual((done.returncode, calls), (1, []))
        self.assertIn("apt-get install python3 python3-numpy", done.stderr)

    def test_an_unknown_group_is_refused(self):
        done, calls = self.install("tests")
        self.assertEqual((done.returncode, calls), (1, []))
        self.assertIn("tests", done.stderr)


if __name__ == "__main__":
    unittest.main()

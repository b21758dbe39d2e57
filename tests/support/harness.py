"""What the tests written in Python share: how they run a command, wait, and use a folder of their own.
Standard library only."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run(*words, **options):
    """The process once it has ended, whatever its exit code, with its output as text."""
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False, **options)


def call(script, *words, **environment):
    """Calls the `main` of a script that was imported, with these words and variables. Returns what `run`
    would. This spares the script's imports, which take more than a second for Matplotlib and SciPy."""
    out, messages, code = io.StringIO(), io.StringIO(), 0
    with (mock.patch.object(sys, "argv", [script.__file__, *words]),
          mock.patch.dict(os.environ, environment),
          contextlib.redirect_stdout(out), contextlib.redirect_stderr(messages)):
        try:
            script.main()
        except SystemExit as end:
            code = end.code or 0
            if isinstance(code, str):
                print(code, file=sys.stderr)
                code = 1
    return subprocess.CompletedProcess(words, code, out.getvalue(), messages.getvalue())


def read(*names):
    """The text of the file whose path these names make."""
    with open(os.path.join(*names), encoding="utf-8") as file:
        return file.read()


def wait_until(holds, what, seconds=120):
    """Returns when `holds()` is true. Throws AssertionError(what) if that takes too long."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.005)


class FolderTest(unittest.TestCase):
    """Gives each test an empty folder, `self.folder`, which is removed after the test."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text, mode=0o644):
        """Writes a file in the test's folder, makes the folders above it, and returns its path."""
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def read(self, *names):
        return read(self.folder, *names)

    def read_json(self, *names):
        return json.loads(self.read(*names))

    def passes(self, done):
        """Fails the test unless this process has ended with exit code 0; returns the process."""
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

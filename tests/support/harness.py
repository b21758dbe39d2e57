"""What the tests written in Python share: how they run a command, wait, and use a folder of their own.
Standard library only."""

import json
import os
import subprocess
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run(*words, **options):
    """The process once it has ended, whatever its exit code, with its output as text."""
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False, **options)


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

"""Runs a program to its end and measures its peak memory."""

import os
import subprocess
import tempfile


class ProcessFailed(Exception):
    """The program failed; the text is its exit code and the last line of its output."""


def run_measured(line, environment=None):
    """Runs the command `line` and returns its peak resident bytes. Raises ProcessFailed."""
    with tempfile.TemporaryFile() as words:
        child = subprocess.Popen(line, env=environment, stdin=subprocess.DEVNULL, stdout=words,
                                 stderr=words)
        try:
            _, status, usage = os.wait4(child.pid, 0)
        except BaseException:
            child.kill()
            child.wait()
            raise
        child.returncode = os.waitstatus_to_exitcode(status)  # reaped by wait4, not by Popen
        if child.returncode != 0:
            words.seek(0)
            last = words.read().decode("utf-8", "replace").strip().split("\n")[-1:]
            raise ProcessFailed(" ".join([f"exit code {child.returncode}:", *last]).strip())
    return usage.ru_maxrss * 1024

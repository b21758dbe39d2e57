"""Runs one program to its end and says how much memory it took at most."""

import os
import subprocess
import tempfile


class ProcessFailed(Exception):
    """The program ended with another exit code than 0; the text holds its last words."""


def run_measured(line, environment=None):
    """Peak resident bytes of the process. Raises ProcessFailed."""
    with tempfile.TemporaryFile() as words:
        child = subprocess.Popen(line, env=environment, stdin=subprocess.DEVNULL, stdout=words,
                                 stderr=words)
        try:
            _, status, usage = os.wait4(child.pid, 0)
        except BaseException:
            child.kill()
            child.wait()
            raise
        child.returncode = os.waitstatus_to_exitcode(status)  # Reaped here, not by Popen.
        if child.returncode != 0:
            words.seek(0)
            last = words.read().decode("utf-8", "replace").strip().split("\n")[-1:]
            raise ProcessFailed(" ".join([f"exit code {child.returncode}:", *last]).strip())
    return usage.ru_maxrss * 1024

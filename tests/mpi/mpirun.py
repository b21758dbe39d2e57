"""Starts programs under mpirun and tells how each process ended. Standard library only."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# Containers run tests as root and have few cores; neither is the product's business.
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

# Outlives a process, in a group of its own, and writes down how it ended.
WRAPPER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "experiments",
                       "faults", "rank_wrapper.py")
WRITTEN_SECONDS = 30


def find_mpirun():
    return shutil.which("mpirun")


class Job:
    """A program under mpirun, each process in a wrapper."""

    def __init__(self, ranks, words, mpirun_words=(), folder=None):
        self.ranks = ranks
        self.folder = folder or tempfile.mkdtemp()
        self.process = subprocess.Popen(
            [find_mpirun(), "--oversubscribe", "-n", str(ranks), *mpirun_words, sys.executable,
             WRAPPER, self.folder, *words],
            env={**os.environ, **ENVIRONMENT}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def pid(self, rank, seconds=30):
        path = os.path.join(self.folder, f"pid.{rank}")
        end = time.monotonic() + seconds
        while not os.path.exists(path):
            if time.monotonic() > end:
                raise RuntimeError(f"rank {rank} did not start")
            time.sleep(0.005)
        with open(path) as file:
            return int(file.read())

    def wait_until_met(self, seconds=60):
        """Returns when every process watches the others."""
        end = time.monotonic() + seconds
        for rank in range(self.ranks):
            tasks = f"/proc/{self.pid(rank)}/task"
            while not self.has_thread(tasks, "rank watch"):
                if time.monotonic() > end or self.process.poll() is not None:
                    raise RuntimeError(f"rank {rank} did not meet the others: {self.err(rank)}")
                time.sleep(0.002)

    @staticmethod
    def has_thread(tasks, name):
        try:
            for task in os.listdir(tasks):
                with open(os.path.join(tasks, task, "comm")) as file:
                    if file.read().strip() == name:
                        return True
        except OSError:
            pass
        return False

    def signal(self, rank, number):
        """Returns when it was sent, or None if the process had ended."""
        try:
            os.kill(self.pid(rank), number)
        except ProcessLookupError:
            return None
        return time.monotonic()

    def wait(self, seconds=120):
        """mpirun's exit code."""
        try:
            self.out, _ = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            states = "\n".join(map(self.state, range(self.ranks)))
            for rank in range(self.ranks):
                self.signal(rank, signal.SIGKILL)
            self.process.kill()
            self.process.communicate()
            raise RuntimeError(f"the job did not end within {seconds} s:\n{states}")
        return self.process.returncode

    def end(self, rank):
        """(exit code or -signal, when) of a process; mpirun may end before it is written down."""
        path = os.path.join(self.folder, f"end.{rank}")
        deadline = time.monotonic() + WRITTEN_SECONDS
        while not os.path.exists(path):
            if time.monotonic() > deadline:
                return None, None
            time.sleep(0.005)
        with open(path) as file:
            code, when = file.read().split()
        return int(code), float(when)

    def state(self, rank):
        """A rank's threads and where they wait, or its end, and what it has said."""
        threads = []
        tasks = f"/proc/{self.pid(rank)}/task"
        for task in os.listdir(tasks) if rank in self.living() else []:
            with contextlib.suppress(OSError):
                threads.append(" ".join(open(os.path.join(tasks, task, file)).read().strip()
                                        for file in ("comm", "wchan")))
        ended = os.path.join(self.folder, f"end.{rank}")
        end = open(ended).read() if os.path.exists(ended) else "not written down"
        return f"rank {rank}: threads {threads}; end {end}; said: {self.err(rank)}"

    def err(self, rank):
        with open(os.path.join(self.folder, f"err.{rank}"), errors="replace") as file:
            return file.read()

    def living(self):
        """Ranks whose processes live."""
        alive = []
        for rank in range(self.ranks):
            pid = self.pid(rank)
            try:
                with open(f"/proc/{pid}/stat") as file:
                    state = file.read().rsplit(")", 1)[1].split()[0]
                if state != "Z":
                    alive.append(rank)
            except OSError:
                pass
        return alive

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def losses(run):
    """The losses of a run directory, as they are written."""
    with open(os.path.join(run, "metrics.jsonl")) as file:
        return [re.search(r'"loss": ?([^,}]+)', line)[1] for line in file]

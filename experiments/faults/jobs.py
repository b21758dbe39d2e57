"""Starts ranks as processes by mpirun, on this host or over an emulated cluster. A wrapper around
each rank records how and when it ended. Standard library only."""

import os
import signal
import subprocess
import sys
import time

import processes

HERE = os.path.dirname(os.path.abspath(__file__))
WRAPPER = [sys.executable, "-I", "-S", os.path.join(HERE, "rank_wrapper.py")]
CLUSTER = os.path.join(os.path.dirname(HERE), "emulated_cluster.sh")
# Containers run as root, which Open MPI refuses without these.
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
START_SECONDS = 60


class JobFailed(Exception):
    """A job failed before the point at which a trial can begin."""


def over_mpirun(ranks, *more):
    return ["mpirun", "--oversubscribe", "-n", str(ranks), *more]


def over_cluster(name, hosts, seconds):
    return ["bash", CLUSTER, "--name", name, "--hosts", str(hosts), "--limit", str(seconds), "--"]


def start(line, out):
    """Starts a process that Ctrl-C does not reach. Its output goes to the file `out`."""
    with open(out, "wb") as file:
        return subprocess.Popen(line, env={**os.environ, **ENVIRONMENT}, cwd="/",
                                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                                start_new_session=True)


def has_thread(pid, name):
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/comm", encoding="utf-8") as file:
                if file.read().strip() == name:
                    return True
    except OSError:
        pass
    return False


class Job:
    """A command that runs once for each rank. `folder` holds its records: `out` is the launcher's
    output, and each rank R has `pid.R`, `err.R` (its messages) and `end.R` (how it ended)."""

    def __init__(self, launch, ranks, words, folder):
        os.makedirs(folder)
        self.ranks, self.folder = ranks, folder
        self.process = start([*launch, *WRAPPER, folder, *words], os.path.join(folder, "out"))

    def read(self, name):
        try:
            with open(os.path.join(self.folder, name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def wait_until_met(self):
        """Returns the time at which every process watches the others. Throws JobFailed."""
        deadline = time.monotonic() + START_SECONDS
        waiting = set(range(self.ranks))
        while waiting:
            for rank in sorted(waiting):
                pid = self.read(f"pid.{rank}")
                if not pid or not has_thread(pid, "rank watch"):
                    break
                waiting.remove(rank)
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise JobFailed(f"the ranks did not meet: {self.words()}")
            time.sleep(0.002)
        return time.monotonic()

    def signal(self, rank, number):
        """Sends a signal to a rank. Returns the time, or None if the process has ended."""
        pid, now = int(self.read(f"pid.{rank}")), time.monotonic()
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return None
        return now

    def end(self, rank):
        """Returns the exit code (or -signal) of a rank and the time of its end. (None, None) if it
        still runs, or was killed together with its wrapper."""
        text = self.read(f"end.{rank}")
        if not text:
            return None, None
        code, when = text.split()
        return int(code), float(when)

    def wait(self, seconds):
        """Waits for the launcher. Returns its exit code, or None if it takes longer."""
        try:
            return self.process.wait(max(0, seconds))
        except subprocess.TimeoutExpired:
            return None

    def wait_for_ends(self, ranks, until):
        """Waits until each of these ranks has a record of its end (mpirun does not wait for them),
        until no process is left that could write one, or until the time `until`."""
        while time.monotonic() < until and any(self.end(rank)[0] is None for rank in ranks):
            if self.process.poll() is not None and not processes.living():
                return
            time.sleep(0.005)

    def ask_to_end(self):
        """Sends SIGTERM to the launcher, twice if needed: Open MPI waits for hosts that it cannot
        reach until it gets the second one."""
        for _ in range(2):
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGTERM)
                self.wait(1)

    def words(self):
        """Returns the messages of the launcher and the ranks."""
        parts = [("launcher", self.read("out"))]
        parts += [(f"rank {rank}", self.read(f"err.{rank}")) for rank in range(self.ranks)]
        return "\n".join(f"[{name}] {text.strip()}" for name, text in parts if text)

"""Starts the processes of a run as torchrun would, by variables of their environment, and tells how
each ended. Standard library only."""

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import tempfile
import time

# Variables of a launcher that has started this test; its processes must not see them.
OTHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
          "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
          "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PMIX_RANK")


PORTS = itertools.count(os.getpid() * 61)


def free_port():
    """A free port below those that the system gives to connections; each process begins its search
    elsewhere."""
    for place in itertools.islice(PORTS, 1000):
        with socket.socket() as probe:
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", 12000 + place % 20000))
                return probe.getsockname()[1]
    raise OSError("a thousand ports are taken")


def environment(**variables):
    clean = {name: value for name, value in os.environ.items() if name not in OTHERS}
    return {**clean, **{name: str(value) for name, value in variables.items()}}


def variables_of(rank, ranks, port, **more):
    return {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks,
            "MASTER_ADDR": "localhost", "MASTER_PORT": port, **more}


class Run:
    """`ranks` processes of a command; the last starts first."""

    def __init__(self, ranks, words, **variables):
        self.ranks = ranks
        self.folder = tempfile.TemporaryDirectory()
        port = free_port()
        self.processes = [None] * ranks
        for rank in reversed(range(ranks)):
            with open(self.path("err", rank), "wb") as err, open(self.path("out", rank),
                                                                 "wb") as out:
                self.processes[rank] = subprocess.Popen(
                    words, env=environment(**variables_of(rank, ranks, port, **variables)),
                    stdin=subprocess.DEVNULL, stdout=out, stderr=err)

    def path(self, stream, rank):
        return os.path.join(self.folder.name, f"{stream}.{rank}")

    def text(self, stream, rank):
        with open(self.path(stream, rank), errors="replace") as file:
            return file.read()

    def err(self, rank):
        return self.text("err", rank)

    def out(self, rank):
        return self.text("out", rank)

    def wait_until_met(self, seconds=60):
        """Returns when every process watches the others."""
        end = time.monotonic() + seconds
        for rank, process in enumerate(self.processes):
            while not self.has_thread(process.pid, "rank watch"):
                if time.monotonic() > end or process.poll() is not None:
                    raise RuntimeError(f"rank {rank} did not meet the others: {self.err(rank)}")
                time.sleep(0.002)

    @staticmethod
    def has_thread(pid, name):
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/comm") as file:
                    if file.read().strip() == name:
                        return True
        except OSError:
            pass
        return False

    def signal(self, rank, number):
        """Sends a signal and returns when."""
        self.processes[rank].send_signal(number)
        return time.monotonic()

    def ends(self, seconds=120, but=()):
        """The exit code of each rank and when it ended. Both are None for ranks in `but` and for
        those that were late; all that still run are killed."""
        deadline = time.monotonic() + seconds
        found = [None] * self.ranks
        left = [rank for rank in range(self.ranks) if rank not in but]
        while left and time.monotonic() < deadline:
            for rank in list(left):
                if self.processes[rank].poll() is not None:
                    found[rank] = (self.processes[rank].returncode, time.monotonic())
                    left.remove(rank)
            time.sleep(0.002)
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
        return [end or (None, None) for end in found]

    def codes(self, seconds=120):
        return [code for code, _ in self.ends(seconds)]

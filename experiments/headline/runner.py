"""Trains over links of a given rate, by MPI on emulated hosts or on threads."""

import os
import shutil
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from command import CommandFailed, make_flags
from json_file import read_json

CLUSTER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                       "emulated_cluster.sh")
POLL_SECONDS = 0.005


class LineClock(threading.Thread):
    """Records when each line of a growing file is first seen."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path, self.seen, self.over = path, [], threading.Event()

    def run(self):
        size = 0
        while not self.over.wait(POLL_SECONDS):
            try:
                grown = os.path.getsize(self.path)
            except OSError:
                continue
            if grown == size:
                continue
            with open(self.path, "rb") as file:
                file.seek(size)
                lines = file.read(grown - size).count(b"\n")
            size = grown
            self.seen += [time.monotonic()] * lines


class Runner:
    """Trains settings with the same data, partition and model."""

    def __init__(self, command, transport, hosts, out, flags):
        self.command, self.transport, self.hosts = command, transport, hosts
        self.out, self.flags = out, flags

    @property
    def framed(self):
        """Whether the rate of a link counts Ethernet headers."""
        return self.transport == "mpi"

    def on_threads(self):
        return Runner(self.command, "threads", self.hosts, self.out, self.flags)

    def command_line(self, mbit, flags):
        train = [self.command, "train", *make_flags(flags)]
        if self.transport == "threads":
            # Peers share a host's link, but threads have a link for each peer.
            if mbit is not None:
                train += ["--link-gbps", f"{1e-3 * mbit / (self.hosts - 1):.6g}"]
            return train
        rate = [] if mbit is None else ["--mbit", f"{mbit:.6g}"]
        return ["bash", CLUSTER, "--hosts", str(self.hosts), *rate, "--", *train, "--transport",
                "mpi"]

    def train(self, name, mbit, epochs, settings):
        """Trains over links of `mbit` (None is unlimited). Returns the summary, with the mean time
        between the ends of epochs, without the last epoch and its evaluation, as "wall_seconds".
        Raises CommandFailed."""
        folder, summary = os.path.join(self.out, "runs", name), os.path.join(
            self.out, "runs", f"{name}.json")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        flags = {**self.flags, "epochs": epochs, **settings, "out": folder, "overwrite": True,
                 "summary": summary, "quiet": True}
        line = self.command_line(mbit, flags)
        clock = LineClock(os.path.join(folder, "metrics.jsonl"))
        clock.start()
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        clock.over.set()
        clock.join()
        if done.returncode != 0:
            last = "\n".join(done.stderr.strip().split("\n")[-8:])
            raise CommandFailed(f"exit code {done.returncode}: {' '.join(line)}\n{last}")
        result = read_json(summary)
        timed = clock.seen[max(0, result["dropped_epochs"] - 1):-1]
        result["wall_seconds"] = ((timed[-1] - timed[0]) / (len(timed) - 1)
                                  if len(timed) > 1 else None)
        return result

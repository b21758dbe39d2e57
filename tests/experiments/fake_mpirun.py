#!/usr/bin/env python3
"""Stands in for mpirun: starts a command for each rank, in process groups of their own. When one fails,
the others get SIGTERM, and SIGKILL a second later. The exit code is that of the first failure."""

import os
import signal
import subprocess
import sys
import time

words = sys.argv[1:]
at = words.index("-n")
count, command = int(words[at + 1]), words[at + 2:]
ranks = [subprocess.Popen(command, process_group=0,
                          env={**os.environ, "FAKE_JOB": str(os.getpid()),
                               "OMPI_COMM_WORLD_RANK": str(rank),
                               "OMPI_COMM_WORLD_SIZE": str(count)}) for rank in range(count)]


def send(number):
    for rank in ranks:
        if rank.poll() is None:
            os.killpg(rank.pid, number)


first = kill_at = None
while any(rank.poll() is None for rank in ranks):
    failed = [rank.returncode for rank in ranks if rank.returncode not in (None, 0)]
    if failed and first is None:
        first, kill_at = failed[0], time.monotonic() + 1
        send(signal.SIGTERM)
    if kill_at and time.monotonic() > kill_at:
        send(signal.SIGKILL)
    time.sleep(0.01)
codes = [rank.returncode for rank in ranks if rank.returncode != 0]
first = first if first is not None else (codes[0] if codes else 0)
sys.exit(first if first >= 0 else 128 - first)

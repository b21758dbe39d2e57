"""Finds and ends all descendants of this process, even if their parents have ended. Standard
library only."""

import ctypes
import os
import signal
import time

PR_SET_CHILD_SUBREAPER = 36
VANISH_SECONDS = 0.5  # The time that the system may take to remove killed processes.


def adopt_orphans():
    """From now on a process that loses its parent becomes a child of this one, so that none escapes
    `living`. Throws OSError."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def state_of(pid):
    """Returns the state and the parent of a process as /proc has them, or None if there is no such
    process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], int(fields[1])


def reap():
    """Reaps dead orphans. Call it only while nothing waits for a subprocess of this process."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        pass


def living():
    """Returns {pid: state} of all descendants that have not ended. T means stopped."""
    states = {int(name): state_of(name) for name in os.listdir("/proc") if name.isdigit()}
    children = {}
    for pid, known in states.items():
        if known:
            children.setdefault(known[1], []).append(pid)
    found, front = {}, [os.getpid()]
    while front:
        for pid in children.get(front.pop(), ()):
            front.append(pid)
            if states[pid][0] not in "ZX":
                found[pid] = states[pid][0]
    return found


def left_over():
    """Returns a sentence for each descendant that still lives shortly after a job has ended."""
    end = time.monotonic() + VANISH_SECONDS
    while True:
        reap()
        found = living()
        if not found or time.monotonic() > end:
            break
        time.sleep(0.01)
    sentences = []
    for pid, state in found.items():
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                words = file.read().replace("\0", " ").strip()
        except OSError:
            continue
        sentences.append(f"process {pid} (state {state}) is left: {words[:200]}")
    return sentences


def end_all():
    """Kills every descendant."""
    for _ in range(100):
        found = living()
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        reap()
        if not found:
            return
        time.sleep(0.01)

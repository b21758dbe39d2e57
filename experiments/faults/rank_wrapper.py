"""Runs one process of a job and records its number, its messages, and how and when it ended.

There are three processes, so that no record is lost if mpirun kills: mpirun starts this one; the
command runs in its process group and gets every signal that mpirun sends to the group; and the one
that waits for the command and writes the records has a group of its own.

Usage: rank_wrapper.py FOLDER COMMAND [ARGUMENT ...], started by mpirun or with torchrun's variables
"""

import os
import signal
import sys
import time


def write(name, text):
    """Writes a file and then renames it, so that readers see the whole file or none."""
    with open(name + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(name + ".new", name)


def end_like(code):
    """Ends this process as the command ended, so that mpirun sees the same as without a wrapper."""
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


folder, command = sys.argv[1], sys.argv[2:]
rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["RANK"]
group, (heard, told) = os.getpgrp(), os.pipe()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() != 0:
    os.close(told)
    code = os.read(heard, 16)
    end_like(int(code) if code else 1)

os.setpgid(0, 0)
words = os.path.join(folder, f"err.{rank}")
child = os.posix_spawnp(
    command[0], command, os.environ, setpgroup=group, setsigdef=[signal.SIGTERM, signal.SIGINT],
    file_actions=[(os.POSIX_SPAWN_OPEN, 2, words, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)])
nothing = os.open(os.devnull, os.O_RDWR)
for stream in range(3):  # mpirun waits until no process holds the streams that it has opened.
    os.dup2(nothing, stream)
write(os.path.join(folder, f"pid.{rank}"), str(child))
code, now = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), time.monotonic()
signal.signal(signal.SIGPIPE, signal.SIG_IGN)
try:
    os.write(told, str(code).encode())
except BrokenPipeError:
    pass  # mpirun has killed the process that reads this.
write(os.path.join(folder, f"end.{rank}"), f"{code} {now}")

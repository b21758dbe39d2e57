"""Trials in which strace kills a run at one system call of a save, or makes that call fail.
Standard library only."""

import os
import re
import shutil
from typing import NamedTuple

import processes
from runs import (Cell, checkpoints, differences, epochs_written, restart_errors, resume_errors,
                  run_words)

# Calls that change or close files. Faults in calls that only read could not damage a save.
CALLS = ("mkdir", "mkdirat", "openat", "creat", "write", "pwrite64", "writev", "ftruncate", "fsync",
         "fdatasync", "rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "close")
LINE = re.compile(r"^(\d+) +(\w+)\((.*)$")
RESULT = re.compile(r"\) += .*$")


class Point(NamedTuple):
    """One system call of a run: the `nth` call of this name with which a thread touches `path`."""
    call: str
    path: str
    nth: int
    kind: str  # "publish", "remove", "create", "other"


def read_points(trace, run):
    """Returns a Point for every call of a trace (strace -f -y) that touches the checkpoints of a
    run, without duplicates."""
    folder = os.path.join(run, "checkpoints")
    counts, points = {}, {}
    for line in trace.splitlines():
        match = LINE.match(line)
        if not match or match[2] not in CALLS:
            continue
        thread, call, arguments = match[1], match[2], RESULT.sub("", match[3])
        touched = [p for p in re.findall(r'[<"](/[^>"]*)[>"]', arguments)
                   if p == run or p == folder or p.startswith(folder + "/")]
        # For renames, strace compares a path with the first name only.
        for path in touched[:1] if call.startswith("rename") else dict.fromkeys(touched):
            counts[thread, call, path] = counts.get((thread, call, path), 0) + 1
        if touched:
            point = Point(call, touched[0], counts[thread, call, touched[0]],
                          kind_of(call, touched, arguments))
            points.setdefault(point[:3], point)
    return list(points.values())


def kind_of(call, touched, arguments):
    if call.startswith("rename"):
        return "publish" if touched[0].endswith(".partial") else "remove"
    if call.startswith(("unlink", "rmdir")):
        return "remove"
    return "create" if call == "openat" and "O_CREAT" in arguments else "other"


def can_fail(point):
    """Whether the run must notice a failure of this call. A save does not depend on the removal of
    old checkpoints, nor on directories that it only reads. The run's own directory is made before
    any save."""
    if point.path == ".":
        return False
    return (point.call in ("mkdir", "mkdirat", "write", "pwrite64", "writev", "fsync", "fdatasync")
            or point.kind in ("create", "publish")
            or (point.call.startswith("rename") and point.kind == "remove"))


def shown(point, run):
    return f"{point.call} {point.nth} of {os.path.relpath(point.path, run)}"


class Save:
    """Trials on a run of threads that saves three times; the third save removes the first
    checkpoint. For each system call, one trial kills the run there, and others make the call fail
    if it can."""
    name = "save"
    kinds = ("left", "resume", "orphans")
    cell = Cell(2, 1, 1, 2, 6)

    def __init__(self, runs, out):
        self.runs, self.out = runs, out
        self.whole = os.path.join(out, "undisturbed", "save")

    def words(self, run, *more):
        words = self.runs.train_threads(self.cell, run, more)
        return [word for word in words if word != "--quiet"]  # A failed save prints a warning.

    def strace(self, run, more, log, *options):
        return run_words(["strace", "-f", "-y", "-s", "0", "-o", log, "-e",
                          "trace=" + ",".join("?" + call for call in CALLS), *options,
                          *self.words(run, *more)])

    def prepare(self):
        """Runs once undisturbed, and once under strace to list the calls. Raises RuntimeError if
        one of these runs fails."""
        shutil.rmtree(self.whole, ignore_errors=True)
        done = run_words(self.words(self.whole))
        if done.code != 0:
            raise RuntimeError(f"an undisturbed run failed: {done.said}")
        traced, log = self.whole + "-traced", self.whole + ".strace"
        shutil.rmtree(traced, ignore_errors=True)
        done = self.strace(traced, [], log)
        if done.code != 0:
            raise RuntimeError(f"strace: exit code {done.code}: {done.said}")
        wrong = differences(traced, self.whole)
        if wrong:
            raise RuntimeError(f"a traced run differs: {wrong}")
        with open(log, encoding="utf-8", errors="replace") as file:
            points = [point._replace(path=os.path.relpath(point.path, traced))
                      for point in read_points(file.read(), traced)]
        self.plan = [(point, "KILL", None) for point in points]
        self.plan += [(point, error, option) for point in points if can_fail(point)
                      for error in ("ENOSPC", "EIO") for option in ("continue", "stop")]

    def count(self, wanted):
        """Prepares the trials. Returns how many the share `wanted` of them is."""
        self.prepare()
        self.stride = 1 / wanted
        return max(1, round(len(self.plan) * wanted))

    def trial(self, number, _, folder):
        point, what, option = self.plan[min(len(self.plan) - 1, int(number * self.stride))]
        run = os.path.join(folder, "run")
        os.makedirs(folder)
        path = os.path.normpath(os.path.join(run, point.path))
        done, reached = self.inject(point, path, what, option, run, folder)
        if os.path.exists(run):
            shutil.copytree(run, os.path.join(folder, "as-it-was-left"))
        if what == "KILL":
            left = [] if done.code == -9 else [f"exit code {done.code}, not killed: {done.said}"]
        else:
            left = self.judge_failure(point, option, done, run)
        if not reached:
            left.append("the call was not reached")
        left += self.judge_rest(run)
        saved = checkpoints(run)
        orphans = processes.left_over()
        return {"point": shown(point._replace(path=path), run), "kind": point.kind,
                "injected": what, "on_save_failure": option, "code": done.code,
                "saved": sorted(saved), "epochs_written": epochs_written(run),
                "faults": {"left": left, "resume": self.judge_resume(run, folder),
                           "orphans": orphans}}

    def inject(self, point, path, what, option, run, folder):
        """Runs with a fault at one call. Returns the outcome, and whether the call was reached."""
        how = "signal=KILL" if what == "KILL" else f"error={what}"
        log = os.path.join(folder, "strace")
        more = ["--on-save-failure", option] if option else []
        done = self.strace(run, more, log, "-P", path, "-e",
                           f"inject={point.call}:{how}:when={point.nth}")
        with open(log, encoding="utf-8", errors="replace") as file:
            text = file.read()
        return done, ("killed by SIGKILL" if what == "KILL" else "(INJECTED)") in text

    def judge_failure(self, point, option, done, run):
        """Returns a sentence for each error in how the run handled the failure of a call."""
        # If only the removal of an old checkpoint fails, the new one is complete.
        spared = point.kind == "remove"
        code = 4 if option == "stop" and not spared else 0
        wrong = []
        if done.code != code:
            wrong.append(f"exit code {done.code}, not {code}: {done.said.strip()[-300:]}")
        if ("stays" if spared else "was not saved") not in done.said:
            wrong.append(f"no word of the failure: {done.said.strip()[-300:]}")
        if done.code == 0:
            wrong += [sentence for sentence in differences(run, self.whole)
                      if not sentence.startswith(("the weights", "the epochs"))]
        return wrong

    def judge_rest(self, run):
        """Returns an error if the checkpoint before the one that was being made is missing."""
        every = self.cell.every
        # An epoch's line is written before its checkpoint is begun.
        before = (epochs_written(run) - 1) // every * every
        newest = max(checkpoints(run), default=0)
        return [f"the newest checkpoint is of epoch {newest}, not {before}"] * (newest < before)

    def judge_resume(self, run, folder):
        """Resumes every checkpoint that is left, the newest one in its own run. Returns a sentence
        for each error."""
        saved = list(checkpoints(run).values())
        if not saved:
            return restart_errors(self.runs, self.cell, run, self.whole)
        wrong = []
        for path in saved[:-1]:
            apart = os.path.join(folder, os.path.basename(path))
            wrong += resume_errors(self.runs, self.cell, path, "threads", self.whole, apart)
        return wrong + resume_errors(self.runs, self.cell, run, "threads", self.whole)

"""Trials that lose a rank of a running job: killed, stopped, or cut off. Standard library only."""

import os
import re
import shutil
import signal
import subprocess
import time

import processes
from jobs import CLUSTER, Job, JobFailed, over_cluster, over_mpirun
from runs import Cell, checkpoints, completed_by, restart_errors, resume_errors, status

NOTICED = 2.0  # Seconds within which survivors must end, from when they can notice a loss.
# Seconds that a rank may take to notice a closed connection. If rank 0 has completed the run before,
# it no longer needs the rank.
HEARD = 0.05
HOSTS = 4


def names_lost(words, lost):
    """Whether the messages of a rank name one of the ranks in the set `lost` as lost."""
    found = re.search(r"error: rank (\d+)\b.*lost on host", words or "")
    return bool(found) and int(found[1]) in lost


def judge_survivors(job, lost, since, limit):
    """Returns {rank: seconds until it ended}, and a sentence for each error. `lost` maps each
    survivor to a set of ranks, one of which it must name."""
    seconds, wrong = {}, []
    for rank, named in lost.items():
        code, when = job.end(rank)
        if code is None:
            wrong.append(f"rank {rank} did not end by itself")
            continue
        seconds[rank] = round(when - since, 4)
        if code != 5:
            wrong.append(f"rank {rank} ended with {code}")
        if when - since > limit:
            wrong.append(f"rank {rank} took {when - since:.2f} s")
        if not names_lost(job.read(f"err.{rank}"), named):
            wrong.append(f"rank {rank} did not say who was lost")
    return seconds, wrong


class LostRank:
    """The base of the campaigns that lose ranks. A trial starts a job, waits until its ranks have
    met, waits for a random time up to the length of an undisturbed run, and makes the job lose a
    rank."""
    cells = ()

    def __init__(self, runs, out):
        self.runs, self.out = runs, out
        self.lengths = {}  # Seconds that an undisturbed run takes, by cell.

    def count(self, wanted):
        return wanted

    def launch(self, cell, more=()):
        """Returns the words of the command that starts the ranks of a cell."""
        tcp = ["--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo"]
        return over_mpirun(cell.ranks, *(tcp if cell.tcp else []))

    def reference(self, cell):
        return os.path.join(self.out, "undisturbed", cell.key)

    def run_undisturbed(self, cell):
        """Runs a cell without a fault, and measures the time, if that is not done yet. Throws
        JobFailed."""
        if cell not in self.lengths:
            run, folder = self.reference(cell), os.path.join(self.out, "undisturbed", "jobs",
                                                              cell.key)
            for path in (run, folder):
                shutil.rmtree(path, ignore_errors=True)
            job = Job(self.launch(cell), cell.ranks, self.runs.train(cell, run), folder)
            met = job.wait_until_met()
            if job.wait(60) != 0 or status(run) != "completed":
                raise JobFailed(f"an undisturbed run failed: {cell}: {job.words()}")
            self.lengths[cell] = max(job.end(rank)[1] for rank in range(cell.ranks)) - met

    def begin(self, cell, draw, folder, more=()):
        """Starts a job and waits for a random moment. Returns (job, moment), or (job, None) if the
        run ended before."""
        self.run_undisturbed(cell)
        run = os.path.join(folder, "run")
        job = Job(self.launch(cell), cell.ranks, self.runs.train(cell, run, more),
                  os.path.join(folder, "job"))
        met = job.wait_until_met()
        moment = draw.uniform(0, self.lengths[cell])
        time.sleep(max(0, met + moment - time.monotonic()))
        return job, None if status(run) == "completed" else moment

    def go_on(self, cell, run, turn):
        """Copies the run's directory and then resumes the run, by mpirun and by threads in turns,
        or starts it anew if it had saved nothing. Returns how it was resumed (None if it was started
        anew), and a sentence for each error."""
        if os.path.exists(run):
            shutil.copytree(run, os.path.join(os.path.dirname(run), "as-it-was-left"))
        if not checkpoints(run):
            return None, restart_errors(self.runs, cell, run, self.reference(cell))
        by = "mpirun" if turn % 2 else "threads"
        return by, resume_errors(self.runs, cell, run, by, self.reference(cell))

    def about(self, cell, lost, moment):
        return {"cell": cell._asdict(), "rank": lost, "moment": round(moment, 4)}


class Kill(LostRank):
    """SIGKILL of a rank. Runs are resumed by threads and by mpirun in turns."""
    name = "kill"
    kinds = ("exit", "resume", "orphans")
    cells = tuple(Cell(ranks, bits, staleness, every, epochs, tcp)
                  for ranks, epochs in ((2, 130), (4, 110), (8, 90))
                  for bits, staleness, every, tcp in ((32, 0, 5, False), (1, 0, 2, True),
                                                      (32, 2, 2, True), (1, 2, 5, False)))
    usual = 300

    def trial(self, number, draw, folder):
        # Consecutive trials differ in their numbers of ranks, so that a short campaign has all.
        cell = self.cells[number % 3 * 4 + number // 3 % 4]
        run = os.path.join(folder, "run")
        job, moment = self.begin(cell, draw, folder)
        lost = draw.randrange(cell.ranks)
        killed = None if moment is None else job.signal(lost, signal.SIGKILL)
        launcher = job.wait(30)
        if killed is None:
            return None
        done = time.monotonic()
        if launcher is None:
            job.ask_to_end()
        job.wait_for_ends(range(cell.ranks), killed + NOTICED + 1)
        code, ended = job.end(lost)
        if code not in (-signal.SIGKILL, None):
            return None  # The rank had already ended at that moment.
        if completed_by(run, (ended or killed) + HEARD):
            return None  # The others wait for the rank in MPI_Finalize until mpirun ends them.
        others = [rank for rank in range(cell.ranks) if rank != lost]
        seconds, wrong = judge_survivors(job, {rank: {lost} for rank in others}, killed, NOTICED)
        orphans = processes.left_over()
        processes.end_all()
        saved = checkpoints(run)
        by, resume = self.go_on(cell, run, number // 12)
        return {**self.about(cell, lost, moment), "seconds": seconds, "launcher": launcher,
                "launcher_seconds": round(done - killed, 4), "saved": max(saved, default=0),
                "resumed_by": by,
                "faults": {"exit": wrong, "resume": resume, "orphans": orphans}}


class Silent(LostRank):
    """The base of campaigns in which a rank falls silent. --silence-* sets the limit of silence,
    but a few trials use the default."""
    short = 2.0
    default = 9.0
    cells = ()

    def limit(self, number):
        """Every tenth trial has the default limit."""
        return self.default if number % 10 == 9 else self.short

    def flags(self, limit):
        if limit == self.default:
            return []
        return [word for phase in ("loading", "training", "saving")
                for word in (f"--silence-{phase}", str(limit))]


class Stop(Silent):
    """SIGSTOP of a rank. mpirun must not leave the stopped process behind."""
    name = "stop"
    kinds = ("exit", "orphans")
    cells = tuple(cell for cell in Kill.cells if cell.bits == 1)
    usual = 50

    def trial(self, number, draw, folder):
        cell, limit = self.cells[number % 3 * 2 + number // 3 % 2], self.limit(number)
        run = os.path.join(folder, "run")
        job, moment = self.begin(cell, draw, folder, self.flags(limit))
        lost = draw.randrange(cell.ranks)
        stopped = None if moment is None else job.signal(lost, signal.SIGSTOP)
        if stopped is None or status(run) == "completed":
            job.signal(lost, signal.SIGCONT)
            job.wait(30)
            return None
        launcher = job.wait(limit + NOTICED + 10)
        done = time.monotonic()
        others = [rank for rank in range(cell.ranks) if rank != lost]
        job.wait_for_ends(others, stopped + limit + NOTICED + 1)
        orphans = processes.left_over()
        stopped_ended = job.end(lost)[0]
        if launcher is None:
            job.ask_to_end()
        seconds, wrong = judge_survivors(job, {rank: {lost} for rank in others}, stopped,
                                         limit + NOTICED)
        processes.end_all()
        return {**self.about(cell, lost, moment), "limit": limit, "seconds": seconds,
                "launcher": launcher, "launcher_seconds": round(done - stopped, 4),
                "stopped_ended": stopped_ended, "faults": {"exit": wrong, "orphans": orphans}}


class Cut(Silent):
    """The link of one of four hosts is cut, in both directions."""
    name = "cut"
    kinds = ("exit", "orphans")
    cells = tuple(Cell(HOSTS, bits, staleness, every, 90)
                  for bits, staleness, every in ((32, 0, 5), (1, 2, 5)))
    usual = 50
    cluster = f"hgf{os.getpid()}"

    def launch(self, cell, more=()):
        return over_cluster(self.cluster, HOSTS, 60)

    def trial(self, number, draw, folder):
        cell, limit = self.cells[number % 2], self.limit(number)
        run = os.path.join(folder, "run")
        job, moment = self.begin(cell, draw, folder, self.flags(limit))
        lost = draw.randrange(HOSTS)
        if moment is None:
            job.wait(30)
            return None
        cut = time.monotonic()
        self.link(lost, "nomaster")
        if status(run) == "completed":
            self.link(lost, "master", "bridge")
            job.wait(30)
            return None
        everyone = range(HOSTS)
        job.wait_for_ends(everyone, cut + limit + NOTICED + 3)
        seconds, wrong = judge_survivors(
            job, {rank: {lost} if rank != lost else set(everyone) - {lost} for rank in everyone},
            cut, limit + NOTICED)
        launcher = job.wait(1)
        done = time.monotonic()
        if launcher is None:
            job.ask_to_end()
            job.wait(15)
        left = processes.left_over() + self.left_over()
        processes.end_all()
        self.clean()
        return {**self.about(cell, lost, moment), "limit": limit, "seconds": seconds,
                "launcher": launcher, "launcher_seconds": round(done - cut, 4),
                "faults": {"exit": wrong, "orphans": left}}

    def link(self, rank, *state):
        subprocess.run(["ip", "-n", f"{self.cluster}-switch", "link", "set", f"port{rank + 1}",
                        *state], check=True)

    def left_over(self):
        listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
        return [f"the namespace {name} is left" for name in re.findall(
            rf"^{self.cluster}-\S+", listed.stdout, re.MULTILINE)]

    @staticmethod
    def clean():
        """Removes what is left of clusters whose script was killed."""
        subprocess.run(["bash", CLUSTER, "--clean"], check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

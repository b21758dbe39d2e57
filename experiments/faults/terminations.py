"""Trials that ask a run to stop, by SIGTERM at random moments. Standard library only."""

import os
import shutil
import signal
import time

import processes
from jobs import JobFailed, start
from lost_ranks import LostRank
from runs import Cell, checkpoints, epochs_written, status

AT_THE_END_ONLY = 1000  # Epochs between checkpoints: more than a run has, so only SIGTERM saves.


class Term(LostRank):
    """SIGTERM, in turns to a run of threads and to the process of rank 0 of a run by mpirun."""
    name = "term"
    kinds = ("exit", "resume", "orphans")
    cells = tuple(Cell(4, bits, staleness, every, 130) for bits, staleness, every in
                  ((32, 0, AT_THE_END_ONLY), (1, 2, 5), (32, 2, 5), (1, 0, AT_THE_END_ONLY)))
    usual = 100

    def __init__(self, runs, out):
        super().__init__(runs, out)
        self.thread_lengths = {}  # The same as `lengths` for runs of threads.

    def run_undisturbed(self, cell):
        super().run_undisturbed(cell)
        if cell not in self.thread_lengths:
            folder = os.path.join(self.out, "undisturbed", "threads", cell.key)
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
            process, begun = self.start_threads(cell, folder)
            if process.wait(60) != 0:
                raise JobFailed(f"an undisturbed run failed: {cell}: {folder}")
            self.thread_lengths[cell] = time.monotonic() - begun

    def start_threads(self, cell, folder):
        """Starts a run. Returns its process, and the time at which its run directory existed."""
        run = os.path.join(folder, "run")
        process = start(self.runs.train_threads(cell, run), os.path.join(folder, "out"))
        while status(run) is None:
            if process.poll() is not None:
                raise JobFailed(f"a run did not begin: {folder}")
            time.sleep(0.001)
        return process, time.monotonic()

    def stop_threads(self, cell, draw, folder):
        """Stops a run of threads. Returns the moment, the seconds until the run ended, its exit
        code and a sentence for each error; None if it had ended before."""
        self.run_undisturbed(cell)
        process, begun = self.start_threads(cell, folder)
        moment = draw.uniform(0, self.thread_lengths[cell])
        time.sleep(max(0, begun + moment - time.monotonic()))
        asked = time.monotonic()
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
        if code == 0 and status(os.path.join(folder, "run")) == "completed":
            return None
        return moment, time.monotonic() - asked, code, []

    def stop_processes(self, cell, draw, folder):
        """Stops a run by mpirun. Returns the same as stop_threads."""
        job, moment = self.begin(cell, draw, folder)
        asked = None if moment is None else job.signal(0, signal.SIGTERM)
        launcher = job.wait(60)
        job.wait_for_ends(range(cell.ranks), time.monotonic() + 5)
        code, when = job.end(0)
        if asked is None or (code == 0 and status(os.path.join(folder, "run")) == "completed"):
            return None
        wrong = [f"rank {rank} ended with {job.end(rank)[0]}" for rank in range(1, cell.ranks)
                 if job.end(rank)[0] != 143]
        if launcher != 143:
            wrong.append(f"mpirun ended with {launcher}")
        return moment, (when or time.monotonic()) - asked, code, wrong

    def trial(self, number, draw, folder):
        cell, over = self.cells[number // 2 % 4], "mpirun" if number % 2 else "threads"
        run = os.path.join(folder, "run")
        os.makedirs(folder)
        stop = self.stop_threads if over == "threads" else self.stop_processes
        stopped = stop(cell, draw, folder)
        if stopped is None:
            return None
        moment, seconds, code, wrong = stopped
        if code != 143:
            wrong.insert(0, f"exit code {code}")
        orphans = processes.left_over()
        processes.end_all()
        saved, written = max(checkpoints(run), default=0), epochs_written(run)
        if saved != written:
            wrong.append(f"{written} epochs had run, {saved} were saved")
        by, resume = self.go_on(cell, run, number // 8)
        return {**self.about(cell, 0, moment), "ran_by": over, "seconds": {"0": round(seconds, 4)},
                "code": code, "saved": saved, "resumed_by": by,
                "faults": {"exit": wrong, "resume": resume, "orphans": orphans}}

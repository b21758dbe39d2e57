"""The case `signals` of test_tcp.py: what signals to one or all processes do. Standard library only."""

import contextlib
import json
import os
import re
import signal
import subprocess
import time

from torchrun_jobs import codes_of, environment, has_epochs, require_codes, start, variables_of
from harness import read, wait_until
from rank_tests import endless, epochs_of, make_graph, new_folder, require, result_of


def handles(process, number):
    """Whether the process takes the signal itself instead of being killed by it."""
    blocked = int(re.search(r"SigBlk:\s*(\w+)", read(f"/proc/{process.pid}/status"))[1], 16)
    return blocked >> (number - 1) & 1


@contextlib.contextmanager
def starved_signal_thread(pid):
    """Lets the process's thread that waits for signals run rarely: at the lowest priority, on a core
    that four other processes keep busy. Where the system forbids that, it runs as always."""
    folder = f"/proc/{pid}/task"
    def waiting():
        return [name for name in os.listdir(folder) if read(folder, name, "comm").strip() == "signals"]
    wait_until(waiting, "a thread waits for signals")  # A thread names itself once it runs.
    threads = waiting()
    require(len(threads) == 1, f"{len(threads)} threads wait for signals")
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(4)]
    with contextlib.suppress(OSError):
        os.sched_setscheduler(int(threads[0]), os.SCHED_IDLE, os.sched_param(0))
        for number in (int(threads[0]), *(process.pid for process in busy)):
            os.sched_setaffinity(number, {min(os.sched_getaffinity(0))})
    try:
        time.sleep(0.2)  # Until they are busy.
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def signals(options):
    """A request to stop saves; one before the ranks have met ends the process at once."""
    data = make_graph(options)
    # A terminal sends SIGINT to every process.
    for number, told, expected in ((signal.SIGTERM, [0], [143, 143, 143]),
                                   (signal.SIGTERM, [2], [143, 143, 143]),
                                   (signal.SIGTERM, [0, 1, 2], [143, 143, 143]),
                                   (signal.SIGINT, [0, 1], [130, 130])):
        out = new_folder(options)
        ranks = len(expected)
        job = start(options, ranks, endless(options, data, "--bits", "1", "--staleness", "1",
                                            "--out", out))
        wait_until(lambda: has_epochs(out, 5), f"{out} has 5 epochs")
        # Rank 0's request to stop may end rank 1 before that takes its own signal.
        with starved_signal_thread(job.read("pid.1")) if ranks == 2 else contextlib.nullcontext():
            for rank in told:
                job.signal(rank, number)
            require_codes(job, expected, f"{number.name} to {told}")
        require('"status": "interrupted"' in read(out, "run.json"), "run.json")
        name = number.name if 0 in told else "a signal to another process"
        require(f'"signal": "{name}"' in read(out, "run.json"), f"run.json: {name}")
        done = len(epochs_of(out))
        require_codes(start(options, ranks, [options.heliograph, "train", "--resume", out,
                                             "--epochs", str(done + 2), "--quiet"]),
                      [0] * ranks, "going on")
        result_of(out, done + 2)

    # A second signal, to another process than rank 0.
    out = new_folder(options)
    job = start(options, 3, endless(options, data, "--out", out))
    wait_until(lambda: has_epochs(out, 5), f"{out} has 5 epochs")
    job.signal(0, signal.SIGSTOP)  # So that no epoch ends between the signals.
    job.signal(1, signal.SIGINT)
    job.signal(1, signal.SIGTERM)
    wait_until(lambda: job.end(1)[0] is not None, "rank 1 has ended")
    job.signal(0, signal.SIGCONT)
    require_codes(job, [130, 130, 130], "two signals to rank 1")
    run = json.loads(read(out, "run.json"))
    require(run["status"] == "interrupted" and run["signal"] == "a signal to another process", str(run))

    # Rank 0 names its own signal in one message, whether it or another process gets a second one.
    for twice in (0, 1):
        out = new_folder(options)
        words = [word for word in endless(options, data, "--out", out) if word != "--quiet"]
        job = start(options, 3, words)
        wait_until(lambda: has_epochs(out, 5), f"{out} has 5 epochs")
        job.signal(2, signal.SIGSTOP)  # So that no epoch ends between the signals.
        job.signal(0, signal.SIGINT)
        wait_until(lambda: "stopping at the end" in job.read("err.0"), "rank 0 stops")
        job.signal(twice, signal.SIGINT)
        job.signal(twice, signal.SIGTERM)
        wait_until(lambda: job.end(twice)[0] is not None, f"rank {twice} has ended")
        job.signal(2, signal.SIGCONT)
        require_codes(job, [130, 130, 130], f"a second signal to rank {twice}")
        words, run = job.read("err.0"), json.loads(read(out, "run.json"))
        require(re.findall(r"stopped by (\w+)", words) == ["SIGINT"], words)
        require(run["status"] == "interrupted" and run["signal"] == "SIGINT", str(run))

    # In the first epoch, which is long. Each process ends with the code of its own signal.
    for told, numbers, codes, more in (([0, 1, 2], [signal.SIGINT, signal.SIGINT], {130}, []),
                                       ([1], [signal.SIGINT, signal.SIGTERM], {130, 143}, []),
                                       ([0, 1, 2], [signal.SIGTERM], {143}, ["--overwrite"])):
        out = new_folder(options)
        job = start(options, 3, [options.heliograph, "train", "--data", data, "--epochs", "1000000",
                                 "--hidden", "1500", "--threads-per-rank", "1", "--out", out, *more])
        wait_until(lambda: os.path.exists(os.path.join(out, "run.json")), f"{out} has a run")
        for number in numbers:
            for rank in told:
                job.signal(rank, number)
            time.sleep(0.05)
        require(set(codes_of(job)) <= codes, f"{numbers} to {told}: {job.words()}")
        words, run = job.read("err.0"), json.loads(read(out, "run.json"))
        # Rank 0 may hear of another process's signal before it takes its own.
        names = {"a signal to another process", *(number.name for number in numbers if 0 in told)}
        require(run["status"] == "interrupted" and run["signal"] in names, str(run))
        require(re.findall("stopped by ([^;]*?)(?: at once)?;", words) == [run["signal"]], words)

    # A launcher sends SIGTERM to the rest of a run that has failed: it has not stopped the run.
    out = new_folder(options)
    job = start(options, 2, [options.heliograph, "train", "--data", data, "--epochs", "1000000",
                             "--hidden", "1500", "--threads-per-rank", "1", "--out", out])
    wait_until(lambda: os.path.exists(os.path.join(out, "run.json")), f"{out} has a run")
    for number in (signal.SIGINT, signal.SIGINT):
        job.signal(1, number)
        time.sleep(0.05)
    wait_until(lambda: job.end(1)[0] is not None, "rank 1 has ended")
    job.signal(0, signal.SIGTERM)
    require_codes(job, [130, 130], "SIGTERM after rank 1 was stopped")
    words, run = job.read("err.0"), json.loads(read(out, "run.json"))
    require(run["signal"] == "a signal to another process", str(run))
    require(re.findall("stopped by ([^;]*?)(?: at once)?;", words) == [run["signal"]], words)

    # Without --out. An epoch takes seconds, so that SIGTERM would end the process by force in it.
    process = subprocess.Popen(
        [options.heliograph, "train", "--data", data, "--parts", "2", "--layers", "2", "--eval-every",
         "99", "--link-latency-us", "400000"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if "/200: loss" in line:
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    require(process.returncode == 130 and "epoch time" in out, f"{process.returncode}: {out}")
    require("; without --out nothing is saved, and the result is only printed" in err, err)

    for rank in (0, 1):
        for number in (signal.SIGTERM, signal.SIGINT):
            process = subprocess.Popen(
                [options.heliograph, "train", "--data", data], stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE, text=True, env=environment(**variables_of(2, rank)))
            wait_until(lambda: handles(process, number), f"{number.name} is taken")
            process.send_signal(number)
            _, err = process.communicate(timeout=30)  # It waits for the others for longer.
            require(process.returncode == 128 + number and "before all ranks had met" in err,
                    f"{number.name} alone: {process.returncode}, {err}")

    # While the ranks meet, one tells the others, which end with 130 if they get no signal.
    variables = variables_of(3)
    met = [subprocess.Popen([options.heliograph, "train", "--data", data], stdin=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True,
                            env=environment(**{**variables, "RANK": rank, "LOCAL_RANK": rank}))
           for rank in (0, 1)]
    for line in met[0].stderr:
        if "waiting for rank 2 of 3" in line:  # So rank 1 is connected.
            break
    met[1].send_signal(signal.SIGTERM)
    for process, code in zip(met, (130, 143)):
        _, err = process.communicate(timeout=30)
        require(process.returncode == code and "stopped by SIGTERM before all ranks" in err,
                f"SIGTERM to rank 1 of 3: {process.returncode}, {err}")

#!/usr/bin/env python3
"""Tests of ranks as processes that find each other by torchrun's variables. They need neither MPI
nor PyTorch. Each case exits 0 if it holds, 1 if not.

Usage: test_tcp.py CASE --heliograph build/heliograph
"""

import argparse
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "support")]
from patience import PATIENCE, silences
from processes import Run, environment, free_port, variables_of

ENDED = "ended without a word"


class Failed(Exception):
    pass


def require(holds, sentence):
    if not holds:
        raise Failed(sentence)


def make_graph(options, folder, nodes=400):
    path = os.path.join(folder, "graph")
    subprocess.run([options.heliograph, "generate", "--nodes", str(nodes), "--edges",
                    str(nodes * 6), "--features", "24", "--classes", "5", "--seed", "3", "--quiet",
                    "--out", path], check=True)
    return path


def lines(run):
    """The lines of metrics.jsonl without times: losses, scores, bytes and lags, as written."""
    with open(os.path.join(run, "metrics.jsonl")) as file:
        return [re.sub(r'"seconds": ?[^,}]+', "", line) for line in file]


def predictions(run):
    with open(os.path.join(run, "predictions.npy"), "rb") as file:
        return file.read()


def alone(words, **variables):
    return subprocess.run(words, env=environment(**variables), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120)


def require_all(run, expected, what):
    codes = run.codes()
    words = "\n".join(run.err(rank) for rank in range(run.ranks))
    require(codes == expected, f"{what}: {codes}, not {expected}: {words}")


def oracle(options):
    """Losses, scores, bytes and predictions of K processes are those of K threads, to the bit."""
    with tempfile.TemporaryDirectory() as folder:
        data = make_graph(options, folder)
        for model, bits, staleness in (("gcn", 32, 0), ("gcn", 1, 1), ("sage", 1, 0),
                                       ("sage", 32, 1), ("sage", 1, 2)):
            for count in (2, 4):
                words = [options.heliograph, "train", "--data", data, "--model", model,
                         "--hidden", "16", "--epochs", "8", "--bits", str(bits), "--staleness",
                         str(staleness), "--threads-per-rank", "1", "--overwrite", "--quiet",
                         "--out"]
                runs = [os.path.join(folder, name) for name in ("tcp", "threads")]
                name = f"{model}, {bits} bits, S = {staleness}, K = {count}"
                require_all(Run(count, [*words, runs[0]]), [0] * count, name)
                done = alone([*words, runs[1], "--parts", str(count)])
                require(done.returncode == 0, done.stderr)
                found, expected = lines(runs[0]), lines(runs[1])
                require(len(expected) == 8, f"{name}: {len(expected)} epochs")
                require(found == expected, f"{name}: {found} by TCP, {expected} by threads")
                require(predictions(runs[0]) == predictions(runs[1]),
                        f"{name}: predictions differ")


def resume(options):
    """A run that goes on from a checkpoint has the bits of one that did not stop."""
    with tempfile.TemporaryDirectory() as folder:
        data = make_graph(options, folder)
        for staleness in (0, 1):
            words = [options.heliograph, "train", "--data", data, "--hidden", "16", "--bits", "1",
                     "--staleness", str(staleness), "--threads-per-rank", "1", "--quiet",
                     "--overwrite"]
            whole, cut = (os.path.join(folder, name) for name in ("whole", "cut"))
            for out, epochs in ((whole, "9"), (cut, "5")):
                require_all(Run(3, [*words, "--epochs", epochs, "--out", out,
                                    "--checkpoint-every", "5"]), [0, 0, 0], "saving")
            require_all(Run(3, [options.heliograph, "train", "--resume", cut, "--epochs", "9",
                                "--quiet"]), [0, 0, 0], "going on")
            require(len(lines(whole)) == 9, f"{len(lines(whole))} epochs")
            require(lines(cut) == lines(whole),
                    f"S = {staleness}: {lines(cut)} resumed, {lines(whole)} whole")


def command(options):
    """What the command says and writes depends on the variables that it finds."""
    with tempfile.TemporaryDirectory() as folder:
        data = make_graph(options, folder)
        words = [options.heliograph, "train", "--data", data, "--epochs", "3", "--hidden", "8"]
        out = os.path.join(folder, "run")

        run = Run(3, [*words, "--out", out])
        require_all(run, [0, 0, 0], "three processes")
        require("3 ranks" in run.err(0), run.err(0))  # --parts is the number of processes.
        require("test accuracy" in run.out(0), run.out(0))
        require(run.out(1) + run.out(2) + run.err(1) + run.err(2) == "", "others speak too")
        require(len(lines(out)) == 3, "metrics.jsonl")

        require_all(Run(2, [*words, "--transport", "tcp", "--quiet"]), [0, 0], "--transport tcp")

        # torchrun listens at MASTER_PORT itself.
        with socket.create_server(("", 0)) as store:
            require_all(Run(2, [*words, "--quiet"], MASTER_PORT=store.getsockname()[1],
                            TORCHELASTIC_USE_AGENT_STORE="True"), [0, 0], "agent's store")
            run = Run(2, [*words, "--quiet", "--timeout", "3"],
                      MASTER_PORT=store.getsockname()[1])
            require_all(run, [4, 5], "a port that is taken")
            require("cannot listen at port" in run.err(0), run.err(0))

        run = Run(2, [*words, "--parts", "5"])
        codes = run.codes()
        require(set(codes) <= {2, 5} and 2 in codes, str(codes))
        require("--parts 5 with 2 processes" in run.err(0) + run.err(1), run.err(0) + run.err(1))

        run = Run(2, [*words, "--transport", "threads"])
        require_all(run, [2, 2], "threads")
        require("2 processes were started, and each would train" in run.err(0), run.err(0))

        run = Run(2, [*words, "--transport", "mpi"])  # Nothing has started MPI.
        require_all(run, [2, 2], "MPI of one process each")

        run = Run(2, [*words, "--link-gbps", "1", "--transport", "tcp"])
        require_all(run, [2, 2], "a shaped link")

        run = Run(2, [*words, "--data", os.path.join(folder, "none")])
        codes = run.codes()
        # Either may be the first to find out, and then the other may hear of it before it looks.
        require(3 in codes and set(codes) <= {3, 5}, f"{codes}: {run.err(0)} {run.err(1)}")
        require((run.err(0) + run.err(1)).count("heliograph: error") == 1, run.err(0) + run.err(1))

        run = Run(2, [*words, "--lr", "1e30", "--epochs", "30"])
        codes = run.codes()
        require(6 in codes and set(codes) <= {5, 6}, f"{codes}: {run.err(0)} {run.err(1)}")

        for missing in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
            some = variables_of(0, 2, free_port())
            del some[missing]
            done = alone(words, **some)
            require(done.returncode == 2 and f"but not {missing}" in done.stderr,
                    f"{missing}: {done.returncode}, {done.stderr}")
        done = alone(words, **variables_of(2, 2, free_port()))
        require(done.returncode == 2 and "RANK=2" in done.stderr, done.stderr)
        done = alone([*words, "--transport", "tcp"])
        require(done.returncode == 2 and "has no RANK" in done.stderr, done.stderr)

        done = alone([*words, "--quiet", "--parts", "2"], RANK=0, WORLD_SIZE=1)
        require(done.returncode == 0, done.stderr)  # One process trains with threads.
        done = alone([*words, "--quiet", "--transport", "tcp"], RANK=0, WORLD_SIZE=1)
        require(done.returncode == 0, done.stderr)

        done = alone([*words, "--timeout", "0.5"], **variables_of(0, 3, free_port()))
        require(done.returncode == 5 and "rank 1 and 1 more have not called" in done.stderr,
                f"{done.returncode}: {done.stderr}")

        done = alone([options.heliograph, "info"])
        require("tcp built" in done.stdout, done.stdout)


def start(options, count, data, *more):
    return Run(count, [options.heliograph, "train", "--data", data, "--epochs", "1000000",
                       "--hidden", "16", "--eval-every", "1000000", "--threads-per-rank", "1",
                       "--quiet", *more])


def require_named(run, lost, sent, how, what):
    """Requires that every survivor ended with 5, in time, and named the lost rank and how."""
    for rank, (code, when) in enumerate(run.ends(PATIENCE, but=(lost,))):
        if rank == lost:
            continue
        text = run.err(rank)
        require(code == 5, f"{what}: rank {rank} ended with {code}: {text}")
        require(when - sent < PATIENCE / 2, f"{what}: rank {rank} took {when - sent:.2f} s")
        require(f"error: rank {lost}" in text and "lost on host" in text and re.search(how, text),
                f"{what}: rank {rank} said {text!r}")


def lost_rank(options):
    random.seed(7)
    with tempfile.TemporaryDirectory() as folder:
        data = make_graph(options, folder, 3000)
        for repeat in range(9):
            count = 2 + repeat % 3
            lost = repeat % count
            delay = random.uniform(0, 1.5)
            run = start(options, count, data, *silences())
            run.wait_until_met()
            time.sleep(delay)
            killed = run.signal(lost, signal.SIGKILL)
            require_named(run, lost, killed, ENDED,
                          f"SIGKILL of {lost} of {count} after {delay:.2f} s")

        run = start(options, 3, data, *silences(training=2))
        run.wait_until_met()
        time.sleep(1)
        stopped = run.signal(1, signal.SIGSTOP)
        require_named(run, 1, stopped, "no sign of life for [2-9]", "SIGSTOP")


def wait_for_epochs(path, count, seconds=30):
    end = time.monotonic() + seconds
    while True:
        try:
            if len(lines(path)) >= count:
                return
        except FileNotFoundError:
            pass
        require(time.monotonic() < end, f"{path} has not {count} epochs")
        time.sleep(0.01)


def wait_until_blocked(process, number, seconds=30):
    """Returns once the process handles the signal itself instead of being killed by it."""
    end = time.monotonic() + seconds
    while True:
        with open(f"/proc/{process.pid}/status") as file:
            blocked = int(re.search(r"SigBlk:\s*(\w+)", file.read())[1], 16)
        if blocked >> (number - 1) & 1:
            return
        require(time.monotonic() < end, f"{number.name} is not taken")
        time.sleep(0.01)


def signals(options):
    """A request to stop saves the run; before the ranks have met it ends the process at once."""
    with tempfile.TemporaryDirectory() as folder:
        data = make_graph(options, folder)
        words = ("--bits", "1", "--staleness", "1", "--out")
        for told, expected in (([0], [143, 0, 0]), ([0, 1, 2], [143, 143, 143])):
            out = os.path.join(folder, f"run-{len(told)}")
            run = start(options, 3, data, *words, out)
            wait_for_epochs(out, 5)
            for rank in told:
                run.signal(rank, signal.SIGTERM)
            require_all(run, expected, f"SIGTERM to {told}")
            with open(os.path.join(out, "run.json"), encoding="utf-8") as file:
                require('"status": "interrupted"' in file.read(), "run.json")
            done = len(lines(out))
            going_on = Run(3, [options.heliograph, "train", "--resume", out, "--epochs",
                               str(done + 2), "--quiet"])
            require_all(going_on, [0, 0, 0], "going on")
            require(len(lines(out)) == done + 2, f"{len(lines(out))} epochs, not {done + 2}")

        out = os.path.join(folder, "run")
        run = start(options, 2, data, *words, out)
        wait_for_epochs(out, 5)
        for rank in range(2):
            run.signal(rank, signal.SIGINT)  # As a terminal sends it.
        require_all(run, [130, 130], "SIGINT")

        for rank in (0, 1):
            for number in (signal.SIGTERM, signal.SIGINT):
                process = subprocess.Popen(
                    [options.heliograph, "train", "--data", data], stdin=subprocess.DEVNULL,
                    stderr=subprocess.PIPE, text=True,
                    env=environment(**variables_of(rank, 2, free_port())))
                wait_until_blocked(process, number)
                process.send_signal(number)
                _, err = process.communicate(timeout=30)  # Shorter than its wait for the others.
                require(process.returncode == 128 + number and "before all ranks had met" in err,
                        f"{number.name} alone: {process.returncode}, {err}")


CASES = {"oracle": oracle, "command": command, "lost_rank": lost_rank, "resume": resume,
         "signals": signals}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=sorted(CASES))
    parser.add_argument("--heliograph", required=True)
    options = parser.parse_args()
    try:
        CASES[options.case](options)
    except Failed as failure:
        print(failure)
        return 1
    print(f"{options.case}: holds")
    return 0


if __name__ == "__main__":
    sys.exit(main())

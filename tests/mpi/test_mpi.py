#!/usr/bin/env python3
"""Tests of ranks as MPI processes. Each case exits 0 if it holds, 1 if not, 77 if it cannot run.

Usage: test_mpi.py CASE --program test_mpi_ranks --heliograph build/heliograph
                   --emulated heliograph_emulated
"""

import argparse
import collections
import glob
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "support")]
from mpirun import ENVIRONMENT, Job, find_mpirun, losses
from patience import PATIENCE, silences

ENDED = "ended without a word"
FAULTS = ("Sizes", "LargeSizes", "Exception", "Abort", "Deadline", "InFlight")


class Failed(Exception):
    pass


def require(holds, sentence):
    if not holds:
        raise Failed(sentence)


def mpirun(ranks, words, seconds=300):
    return subprocess.run([find_mpirun(), "--oversubscribe", "-n", str(ranks), *words],
                          env={**os.environ, **ENVIRONMENT}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=seconds)


def make_graph(options, folder, nodes=400):
    path = os.path.join(folder, "graph")
    subprocess.run([options.heliograph, "generate", "--nodes", str(nodes), "--edges",
                    str(nodes * 6), "--features", "24", "--classes", "5", "--seed", "3", "--quiet",
                    "--out", path], check=True)
    return path


def ranks(options, count):
    done = mpirun(count, [options.program, "--gtest_filter=-Fault*", "--gtest_brief=1"])
    require(done.returncode == 0, f"{done.returncode}: {done.stdout}\n{done.stderr}")
    require(done.stdout.count("PASSED") == count, done.stdout)


def callers_mpi(options):
    """The same where the program has called MPI_Init itself."""
    done = mpirun(2, ["-x", "HELIOGRAPH_TEST_MPI_INIT=1", options.program,
                      "--gtest_filter=-Fault*", "--gtest_brief=1"])
    require(done.returncode == 0, f"{done.returncode}: {done.stdout}\n{done.stderr}")
    require(done.stdout.count("PASSED") == 2, done.stdout)


def faults(options):
    for count in (2, 3):
        for fault in FAULTS:
            with tempfile.TemporaryDirectory() as folder:
                done = mpirun(count, ["-x", f"HELIOGRAPH_TEST_MET={folder}", options.program,
                                      f"--gtest_filter=Fault{fault}.*"], 60)
            require(done.stdout.count("as expected") == count,
                    f"{fault}, {count} ranks: {done.stdout}\n{done.stderr}")


def oracle(options):
    """The losses of K processes are those of K threads, to the bit."""
    with tempfile.TemporaryDirectory() as folder:
        data = make_graph(options, folder)
        for model in ("gcn", "sage"):
            for bits, staleness in ((32, 0), (1, 0), (32, 2), (1, 2)):
                for count in (2, 4, 8):
                    words = ["train", "--data", data, "--model", model, "--layers", "3",
                             "--hidden", "16", "--epochs", "8", "--bits", str(bits), "--staleness",
                             str(staleness), "--reproducible", "--threads-per-rank", "1",
                             "--overwrite", "--quiet", "--out"]
                    runs = [os.path.join(folder, name) for name in ("mpi", "threads")]
                    done = mpirun(count, [options.heliograph, *words, runs[0]])
                    require(done.returncode == 0, done.stderr)
                    subprocess.run([options.heliograph, *words, runs[1], "--parts", str(count)],
                                   check=True)
                    name = f"{model}, {bits} bits, S = {staleness}, K = {count}"
                    found, expected = losses(runs[0]), losses(runs[1])
                    require(len(expected) == 8, f"{name}: {len(expected)} losses")
                    require(found == expected, f"{name}: {found} by MPI, {expected} by threads")
                    with open(os.path.join(runs[0], "predictions.npy"), "rb") as a:
                        with open(os.path.join(runs[1], "predictions.npy"), "rb") as b:
                            require(a.read() == b.read(), f"{name}: predictions differ")


def resume(options):
    """A run of processes that goes on from a checkpoint has the bits of one that did not stop."""
    with tempfile.TemporaryDirectory() as folder:
        data = make_graph(options, folder)
        for staleness in (0, 2):
            words = [options.heliograph, "train", "--data", data, "--hidden", "16", "--bits", "1",
                     "--staleness", str(staleness), "--threads-per-rank", "1", "--quiet",
                     "--overwrite"]
            whole, cut = (os.path.join(folder, name) for name in ("whole", "cut"))
            for out, epochs in ((whole, "9"), (cut, "5")):
                done = mpirun(3, [*words, "--epochs", epochs, "--out", out,
                                  "--checkpoint-every", "5"])
                require(done.returncode == 0, done.stderr)
            done = mpirun(3, [options.heliograph, "train", "--resume", cut, "--epochs", "9",
                              "--quiet"])
            require(done.returncode == 0, done.stderr)
            require(len(losses(whole)) == 9, f"{len(losses(whole))} losses")
            require(losses(cut) == losses(whole),
                    f"S = {staleness}: {losses(cut)} resumed, {losses(whole)} whole")


def command(options):
    """What the command says and writes when mpirun starts it."""
    with tempfile.TemporaryDirectory() as folder:
        data = make_graph(options, folder)
        words = [options.heliograph, "train", "--data", data, "--epochs", "3", "--hidden", "8"]
        out = os.path.join(folder, "run")

        done = mpirun(3, [*words, "--out", out])
        require(done.returncode == 0, done.stderr)
        require("3 ranks" in done.stderr, done.stderr)  # --parts is the number of processes.
        require(done.stdout.count("test accuracy") == 1, done.stdout)  # Rank 0 alone speaks.
        require(len(losses(out)) == 3, "metrics.jsonl")

        done = mpirun(1, [*words, "--quiet"])
        require(done.returncode == 0 and done.stdout == "", done.stdout + done.stderr)

        done = mpirun(2, [*words, "--parts", "5"])
        require(done.returncode == 2, str(done.returncode))
        require(done.stderr.count("--parts 5 with 2 processes") == 1, done.stderr)

        done = mpirun(2, [*words, "--transport", "threads"])
        require(done.returncode == 2 and "each would train" in done.stderr, done.stderr)

        done = mpirun(2, [*words, "--data", os.path.join(folder, "none")])
        require(done.returncode == 3, f"{done.returncode}: {done.stderr}")
        require(done.stderr.count("heliograph: error") == 1, done.stderr)

        # Values overflow on every rank, perhaps in different rows: who met it first says so.
        done = mpirun(2, [*words, "--lr", "1e30", "--epochs", "30"])
        require(done.returncode == 6, f"{done.returncode}: {done.stderr}")
        require(1 <= done.stderr.count("heliograph: error") <= 2, done.stderr)

        alone = subprocess.run([*words, "--transport", "mpi", "--quiet"], text=True,
                               env={**os.environ, **ENVIRONMENT}, capture_output=True)
        require(alone.returncode == 0, alone.stderr)


def require_named(job, lost, killed, how, what):
    """Every survivor ended with 5 before its patience did, and named the lost rank, and how."""
    for rank in range(job.ranks):
        if rank == lost:
            continue
        code, when = job.end(rank)
        require(code == 5, f"{what}: rank {rank} ended with {code}: {job.err(rank)}")
        require(when - killed < PATIENCE / 2, f"{what}: rank {rank} took {when - killed:.2f} s")
        text = job.err(rank)
        require(f"error: rank {lost}" in text and "lost on host" in text and re.search(how, text),
                f"{what}: rank {rank} said {text!r}")
    require(not job.living(), f"{what}: processes are left over")


def start(options, folder, count, data, *more):
    return Job(count, [options.heliograph, "train", "--data", data, "--epochs", "1000000",
                       "--hidden", "16", "--eval-every", "1000000", "--threads-per-rank", "1",
                       "--quiet", *more], folder=tempfile.mkdtemp(dir=folder))


def lost_rank(options):
    random.seed(7)
    with tempfile.TemporaryDirectory() as folder:
        data = make_graph(options, folder, 3000)
        for repeat in range(12):
            count = 2 + repeat % 3
            lost = repeat % count
            delay = random.uniform(0, 1.5)
            job = start(options, folder, count, data, *silences())
            job.wait_until_met()  # A rank that dies before is mpirun's to notice.
            time.sleep(delay)
            killed = job.signal(lost, signal.SIGKILL)
            code = job.wait()
            require_named(job, lost, killed, ENDED,
                          f"SIGKILL of {lost} of {count} after {delay:.2f} s")
            require(code != 0, "mpirun returned 0")

        job = start(options, folder, 3, data, *silences(training=2))
        job.wait_until_met()
        time.sleep(1)
        stopped = job.signal(1, signal.SIGSTOP)
        job.wait()
        require_named(job, 1, stopped, "no sign of life for [2-9]", "SIGSTOP")


def lost_at_the_end(options):
    """Rank 0 writes its results, into a pipe that nobody reads yet; the others have nothing left to
    do. One that is killed or stopped then is lost all the same."""
    for number, how in ((signal.SIGKILL, ENDED), (signal.SIGSTOP, "no sign of life for [1-9]")):
        for reads in (False, True):
            if reads and number == signal.SIGKILL:
                continue  # Once all have said goodbye, a killed one is mpirun's to notice.
            what = f"{number.name} at the end, results {'read' if reads else 'stuck'}"
            with tempfile.TemporaryDirectory() as folder:
                data, pipe = make_graph(options, folder), os.path.join(folder, "summary")
                os.mkfifo(pipe)
                job = Job(3, [options.heliograph, "train", "--data", data, "--epochs", "3",
                              "--hidden", "16", "--threads-per-rank", "1", "--quiet",
                              *silences(saving=1), "--summary", pipe, "--out",
                              os.path.join(folder, "run")], folder=folder)
                wait_for_status(os.path.join(folder, "run"), "completed")
                time.sleep(0.3)
                sent = job.signal(1, number)
                if reads:
                    with open(pipe, encoding="utf-8") as file:
                        require("test_metric" in file.read(), f"{what}: no summary")
                job.wait()
                require_named(job, 1, sent, how, what)


def wait_for_status(run, status, seconds=30):
    end = time.monotonic() + seconds
    while True:
        try:
            with open(os.path.join(run, "run.json"), encoding="utf-8") as file:
                if f'"status": "{status}"' in file.read():
                    return
        except FileNotFoundError:
            pass
        require(time.monotonic() < end, f"{run} did not become {status}")
        time.sleep(0.01)


def device_words(options, data, staleness):
    return [options.emulated, "train", "--data", data, "--device", "cuda", "--layers", "3",
            "--hidden", "16", "--epochs", "6", "--bits", "1", "--staleness", str(staleness),
            "--threads-per-rank", "1", "--overwrite", "--quiet"]


def result_of(run):
    """Losses and predictions of a run directory, to the bit."""
    require(len(losses(run)) == 6, f"{len(losses(run))} losses")
    with open(os.path.join(run, "predictions.npy"), "rb") as file:
        return losses(run), file.read()


def threads_on_devices(folder, words, count):
    run = os.path.join(folder, "threads")
    subprocess.run([*words, "--transport", "threads", "--parts", str(count), "--out", run],
                   check=True)
    return result_of(run)


def is_cuda_aware(run):
    with open(os.path.join(run, "run.json"), encoding="utf-8") as file:
        return json.load(file)["cuda_aware_mpi"]


def cuda(options):
    """Ranks on (emulated) devices as processes: staged messages, the bits of ranks that are threads."""
    with tempfile.TemporaryDirectory() as folder:
        data = make_graph(options, folder)
        for count, staleness in ((2, 0), (4, 2)):
            words = device_words(options, data, staleness)
            run = os.path.join(folder, "mpi")
            done = mpirun(count, [*words, "--transport", "mpi", "--out", run])
            require(done.returncode == 0, f"{done.returncode}: {done.stderr}")
            require(result_of(run) == threads_on_devices(folder, words, count),
                    f"{count} processes, S = {staleness}: other results than threads")
            require(is_cuda_aware(run) is False, "run.json: cuda_aware_mpi")
        done = mpirun(2, [*words, "--transport", "mpi", "--cuda-aware-mpi", "on"])
        require(done.returncode == 2, f"{done.returncode}: {done.stderr}")
        require("--cuda-aware-mpi on: this MPI library does not say" in done.stderr, done.stderr)


AWARE = ["-x", "HELIOGRAPH_EMULATED_CUDA_AWARE_MPI=1"]
# --cuda-aware-mpi and what it decides; "on" is tried with 2 ranks alone, as it does what "auto" does.
SETTINGS = {2: [("off", False), ("auto", True), ("on", True)],
            4: [("off", False), ("auto", True)]}


def calls_of(path):
    """Calls on the emulated devices by function, of all processes together; removes the files."""
    calls = collections.Counter()
    for name in glob.glob(path + ".*"):
        with open(name, encoding="utf-8") as file:
            for line in file:
                function, count = line.split()
                calls[function] += int(count)
        os.remove(name)
    return calls


def cuda_aware(options):
    """Messages that MPI is handed in memory of the devices: the same bits, and nothing is staged."""
    with tempfile.TemporaryDirectory() as folder:
        data, run = make_graph(options, folder), os.path.join(folder, "mpi")
        noted = os.path.join(folder, "calls")
        for count, staleness in ((2, 0), (4, 2)):
            words = [*device_words(options, data, staleness), "--transport", "mpi", "--out", run]
            what = f"{count} processes, S = {staleness}"
            # Of each rank: S = 0 has one slot, else each of four exchanges S + 1; two buffers.
            buffers = count * 2 * (1 if staleness == 0 else 4 * (staleness + 1))
            results, calls = [], []
            for setting, chosen in SETTINGS[count]:
                done = mpirun(count, [*AWARE, "-x", f"HELIOGRAPH_EMULATED_CALLS={noted}",
                                      *words, "--cuda-aware-mpi", setting])
                require(done.returncode == 0, f"{what}: {done.returncode}: {done.stderr}")
                require(is_cuda_aware(run) is chosen, f"{what}: run.json: cuda_aware_mpi")
                results.append(result_of(run))
                calls.append(calls_of(noted))
            require(all(result == results[0] for result in results), f"{what}: results differ")
            require(results[0] == threads_on_devices(folder, device_words(
                options, data, staleness), count), f"{what}: other results than threads")
            for aware in calls[1:]:
                require(aware["cudaMalloc"] == buffers and aware["cudaFree"] == buffers,
                        f"{what}: {aware}")
                staging = calls[0]["cudaMallocHost"] - aware["cudaMallocHost"]
                require(staging == buffers, f"{what}: {staging} buffers for staging")
                require(aware["cudaMemcpyAsync"] < calls[0]["cudaMemcpyAsync"], what)
            require(calls[0]["cudaMalloc"] == 0, what)

        # One end of a message on a device, the other staged: what travels is the same.
        words = device_words(options, data, 2)
        mixed = mpirun(1, [*AWARE, *words, "--transport", "mpi", "--out", run, ":", "-n", "1",
                           *words, "--transport", "mpi"])
        require(mixed.returncode == 0, mixed.stderr)
        require(is_cuda_aware(run) is True, "run.json: cuda_aware_mpi of rank 0")
        require(result_of(run) == threads_on_devices(folder, words, 2), "mixed: other results")


def cuda_lost_rank(options):
    """A process on a device that is killed is named by the others, staged and not."""
    with tempfile.TemporaryDirectory() as folder:
        data = make_graph(options, folder)
        for aware in ([], AWARE):
            words = [*device_words(options, data, 2), "--transport", "mpi", *silences()]
            words[words.index("--epochs") + 1] = "1000000"
            job = Job(3, words, mpirun_words=aware, folder=tempfile.mkdtemp(dir=folder))
            job.wait_until_met()
            time.sleep(3)
            killed = job.signal(1, signal.SIGKILL)
            require(job.wait() != 0, "mpirun returned 0")
            require_named(job, 1, killed, ENDED, f"SIGKILL, {'CUDA-aware' if aware else 'staged'}")


CASES = {"faults": faults, "cuda": cuda, "cuda_aware": cuda_aware,
         "cuda_lost_rank": cuda_lost_rank, "oracle": oracle, "command": command, "lost_rank": lost_rank,
         "resume": resume, "callers_mpi": callers_mpi, "lost_at_the_end": lost_at_the_end,
         **{f"ranks_{k}": (lambda options, k=k: ranks(options, k)) for k in (2, 3, 4)}}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=sorted(CASES))
    parser.add_argument("--program", required=True)
    parser.add_argument("--heliograph", required=True)
    parser.add_argument("--emulated", help="the command on emulated CUDA devices", required=True)
    options = parser.parse_args()
    if options.program == "none":
        print("skipped: this build has no MPI transport")
        return 77
    if not find_mpirun():
        print("skipped: there is no mpirun")
        return 77
    try:
        CASES[options.case](options)
    except Failed as failure:
        print(failure)
        return 1
    print(f"{options.case}: holds")
    return 0


if __name__ == "__main__":
    sys.exit(main())

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
import shutil
import signal
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from harness import read, run, wait_until
from rank_tests import (ENDED, check_agreement, check_evaluation, check_launchers, check_oracle,
                        check_resume, endless, make_graph, new_folder, require, require_named,
                        result_of, run_case, silences, wait_for)
import processes
from jobs import ENVIRONMENT, Job, over_mpirun

FAULTS = ("Sizes", "LargeSizes", "Exception", "Unwinding", "Abort", "Deadline", "InFlight", "Callback")


def mpirun(ranks, words, seconds=300):
    return run(*over_mpirun(ranks, *words), env={**os.environ, **ENVIRONMENT}, timeout=seconds)


def train(ranks, words):
    done = mpirun(ranks, words)
    require(done.returncode == 0, f"{words}: {done.returncode}: {done.stdout}\n{done.stderr}")
    return done


def ranks(options, count, *mpirun_words):
    done = train(count, [*mpirun_words, options.program, "--gtest_filter=-Fault*",
                         "--gtest_brief=1"])
    require(done.stdout.count("PASSED") == count, done.stdout)


def callers_mpi(options):
    """The same where the program has called MPI_Init itself."""
    ranks(options, 2, "-x", "HELIOGRAPH_TEST_MPI_INIT=1")


def faults(options):
    for count in (2, 3):
        for fault in FAULTS:
            folder = tempfile.mkdtemp(dir=options.folder)
            done = mpirun(count, ["-x", f"HELIOGRAPH_TEST_MET={folder}", options.program,
                                  f"--gtest_filter=Fault{fault}.*"], 60)
            require(done.stdout.count("as expected") == count,
                    f"{fault}, {count} ranks: {done.stdout}\n{done.stderr}")


def oracle(options):
    cells = [(model, bits, staleness) for model in ("gcn", "sage")
             for bits, staleness in ((32, 0), (1, 0), (32, 2), (1, 2))]
    check_oracle(options, train, cells, (2, 4, 8), "--layers", "3", "--reproducible")


def resume(options):
    check_resume(options, train, (0, 2))


def evaluation(options):
    check_evaluation(options, train)


def launchers(options):
    def refuse(count, words):
        done = mpirun(count, words)
        require(done.returncode == 2, f"{done.returncode}: {done.stderr}")
        return done.stderr
    check_launchers(options, train, refuse)


def agreement(options):
    def differing(first, second):
        done = mpirun(1, [*first, ":", "-n", "1", *second])
        return done.stderr
    check_agreement(options, differing)


def command(options):
    """What the command says and writes when mpirun starts it."""
    begin, data = [options.heliograph, "train", "--hidden", "8"], ["--data", make_graph(options)]
    words = [*begin, *data, "--epochs", "3"]
    out = os.path.join(options.folder, "run")

    done = train(3, [*words, "--out", out])
    require("3 ranks" in done.stderr, done.stderr)  # --parts is the number of processes.
    require(done.stdout.count("test accuracy") == 1, done.stdout)  # Only rank 0 prints results.
    result_of(out, 3)

    done = train(1, [*words, "--quiet"])
    require(done.stdout == "", done.stdout)

    done = mpirun(2, [*words, "--parts", "5"])
    require(done.returncode == 2, str(done.returncode))
    require(done.stderr.count("--parts 5 with 2 processes") == 1, done.stderr)

    done = mpirun(2, [*words, "--transport", "threads"])
    require(done.returncode == 2 and "each would train" in done.stderr, done.stderr)

    done = mpirun(2, [*begin, "--data", os.path.join(options.folder, "none")])
    require(done.returncode == 3, f"{done.returncode}: {done.stderr}")
    require(done.stderr.count("heliograph: error") == 1, done.stderr)

    # Values overflow on every rank, perhaps in different rows: each rank may report its own.
    done = mpirun(2, [*begin, *data, "--lr", "1e30", "--epochs", "30"])
    require(done.returncode == 6, f"{done.returncode}: {done.stderr}")
    require(1 <= done.stderr.count("heliograph: error") <= 2, done.stderr)

    alone = run(*words, "--transport", "mpi", "--quiet", env={**os.environ, **ENVIRONMENT})
    require(alone.returncode == 0, alone.stderr)


def start(options, ranks, words, *mpirun_words):
    job = Job(over_mpirun(ranks, *mpirun_words), ranks, words, new_folder(options))
    job.wait_until_met()  # A rank that is lost before is noticed by mpirun.
    return job


def require_loss(job, lost, number, how, what):
    """Once this signal is sent to a rank, mpirun fails and the survivors name that rank."""
    since = job.signal(lost, number)
    require(wait_for(job) != 0, f"{what}: mpirun returned 0")
    require_named(job, lost, since, how, what)
    left = processes.left_over()
    require(not left, f"{what}: {left}")


def lost_rank(options):
    random.seed(7)
    data = make_graph(options, 3000)
    for repeat in range(12):
        count = 2 + repeat % 3
        lost = repeat % count
        delay = random.uniform(0, 1.5)
        job = start(options, count, endless(options, data, *silences()))
        time.sleep(delay)
        require_loss(job, lost, signal.SIGKILL, ENDED,
                     f"SIGKILL of {lost} of {count} after {delay:.2f} s")

    job = start(options, 3, endless(options, data, *silences(training=2)))
    time.sleep(1)
    require_loss(job, 1, signal.SIGSTOP, "no sign of life for [2-9]", "SIGSTOP")


def lost_at_the_end(options):
    """Rank 0 writes its results into a pipe that nobody reads yet, and the others have nothing left to
    do. A rank that is killed or stopped then is still reported as lost."""
    data = make_graph(options)
    # On a busy machine rank 1 may be stopped before it has told the others that it saves. Then the
    # limit of training counts, which must therefore be short as well.
    limits = silences(training=5, saving=1)
    # After all ranks have said goodbye, mpirun is the one that notices a killed rank.
    for number, how, reads in ((signal.SIGKILL, ENDED, False),
                               (signal.SIGSTOP, "no sign of life for [1-9]", False),
                               (signal.SIGSTOP, "no sign of life for [1-9]", True)):
        what = f"{number.name} at the end, results {'read' if reads else 'stuck'}"
        out = new_folder(options)
        pipe = out + ".summary"
        os.mkfifo(pipe)
        job = start(options, 3, [options.heliograph, "train", "--data", data, "--epochs", "3",
                                 "--hidden", "16", "--threads-per-rank", "1", "--quiet",
                                 *limits, "--summary", pipe, "--out", out])
        wait_until(lambda: os.path.exists(os.path.join(out, "run.json")) and
                   '"status": "completed"' in read(out, "run.json"), f"{out} is completed")
        time.sleep(0.3)
        since = job.signal(1, number)
        if reads:
            require("test_metric" in read(pipe), f"{what}: no summary")
        wait_for(job)
        require_named(job, 1, since, how, what)
        left = processes.left_over()
        require(not left, f"{what}: {left}")


def device_words(options, data, staleness, epochs=6):
    return [options.emulated, "train", "--data", data, "--device", "cuda", "--layers", "3",
            "--hidden", "16", "--epochs", str(epochs), "--bits", "1", "--staleness", str(staleness), "--stale-sites", "all",
            "--threads-per-rank", "1", "--quiet"]


def threads_on_devices(options, words, count):
    out = os.path.join(options.folder, "threads")
    done = run(*words, "--transport", "threads", "--parts", str(count), "--overwrite", "--out",
               out)
    require(done.returncode == 0, done.stderr)
    return result_of(out, 6)


def is_cuda_aware(out):
    return json.loads(read(out, "run.json"))["cuda_aware_mpi"]


def cuda(options):
    """Ranks on (emulated) devices as processes stage their messages and have the bits of threads."""
    data, out = make_graph(options), os.path.join(options.folder, "mpi")
    for count, staleness in ((2, 0), (4, 2)):
        words = device_words(options, data, staleness)
        train(count, [*words, "--transport", "mpi", "--overwrite", "--out", out])
        require(result_of(out, 6) == threads_on_devices(options, words, count),
                f"{count} processes, S = {staleness}: other results than threads")
        require(is_cuda_aware(out) is False, "run.json: cuda_aware_mpi")
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
        for line in read(name).splitlines():
            function, count = line.split()
            calls[function] += int(count)
        os.remove(name)
    return calls


def cuda_aware(options):
    """MPI takes messages from the devices' memory: nothing is staged, and the bits are the same."""
    data, out = make_graph(options), os.path.join(options.folder, "mpi")
    noted = os.path.join(options.folder, "calls")
    for count, staleness in ((2, 0), (4, 2)):
        words = device_words(options, data, staleness)
        what = f"{count} processes, S = {staleness}"
        # A rank has one slot where S = 0, else S + 1 for each of four exchanges; each has two buffers.
        buffers = count * 2 * (1 if staleness == 0 else 4 * (staleness + 1))
        results, calls = [], []
        for setting, chosen in SETTINGS[count]:
            train(count, [*AWARE, "-x", f"HELIOGRAPH_EMULATED_CALLS={noted}", *words,
                          "--transport", "mpi", "--overwrite", "--out", out, "--cuda-aware-mpi",
                          setting])
            require(is_cuda_aware(out) is chosen, f"{what}: run.json: cuda_aware_mpi")
            results.append(result_of(out, 6))
            calls.append(calls_of(noted))
        require(all(result == results[0] for result in results), f"{what}: results differ")
        require(results[0] == threads_on_devices(options, words, count),
                f"{what}: other results than threads")
        for aware in calls[1:]:
            require(aware["cudaMalloc"] == buffers and aware["cudaFree"] == buffers,
                    f"{what}: {aware}")
            staging = calls[0]["cudaMallocHost"] - aware["cudaMallocHost"]
            require(staging == buffers, f"{what}: {staging} buffers for staging")
            require(aware["cudaMemcpyAsync"] < calls[0]["cudaMemcpyAsync"], what)
        require(calls[0]["cudaMalloc"] == 0, what)

    # Where only one end of a message is staged, what travels is the same.
    words = device_words(options, data, 2)
    words_to_out = [*words, "--transport", "mpi", "--overwrite", "--out", out]
    train(1, [*AWARE, *words_to_out, ":", "-n", "1", *words_to_out])
    require(is_cuda_aware(out) is True, "run.json: cuda_aware_mpi of rank 0")
    require(result_of(out, 6) == threads_on_devices(options, words, 2), "mixed: other results")


def cuda_lost_rank(options):
    """The others name a process on a device that is killed, whether messages are staged or not."""
    data = make_graph(options)
    for aware in ([], AWARE):
        words = [*device_words(options, data, 2, 1000000), "--transport", "mpi", *silences()]
        job = start(options, 3, words, *aware)
        time.sleep(3)
        require_loss(job, 1, signal.SIGKILL, ENDED,
                     f"SIGKILL, {'CUDA-aware' if aware else 'staged'}")


CASES = {**{case.__name__: case for case in (
    agreement, callers_mpi, command, cuda, cuda_aware, cuda_lost_rank, evaluation, faults,
    launchers, lost_at_the_end, lost_rank, oracle, resume)},
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
    if not shutil.which("mpirun"):
        print("skipped: there is no mpirun")
        return 77
    run_case(CASES, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Tests of ranks as processes that find each other by torchrun's variables. They need neither MPI
nor PyTorch. Each case exits 0 if it holds, 1 if not.

Usage: test_tcp.py CASE --heliograph build/heliograph
"""

import argparse
import collections
import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from harness import read, run, wait_until
from rank_tests import (ENDED, check_damage, check_evaluation, check_launchers, check_oracle,
                        check_resume, endless, epochs_of, make_graph, new_folder, require,
                        require_named, result_of, run_case, silences, wait_for)
from signal_case import signals
from torchrun_jobs import (LAUNCHER, alone, codes_of, environment, free_port, has_epochs,
                           require_codes, start, variables_of)


def oracle(options):
    check_oracle(options, lambda count, words: require_codes(
        start(options, count, words), [0] * count, words),
        (("gcn", 32, 0), ("gcn", 1, 1), ("sage", 1, 0), ("sage", 32, 1), ("sage", 1, 2)), (2, 4))


def resume(options):
    check_resume(options, lambda count, words: require_codes(
        start(options, count, words), [0] * count, words), (0, 1))

    # The shape of links between threads is not that of a network.
    out = os.path.join(options.folder, "shaped")
    done = run(options.heliograph, "train", "--data", os.path.join(options.folder, "graph"), "--parts",
               "2", "--epochs", "2", "--link-gbps", "100", "--link-latency-us", "1", "--checkpoint-every",
               "2", "--quiet", "--out", out)
    require(done.returncode == 0, done.stderr)
    for more in ([], ["--transport", "tcp"]):
        words = [options.heliograph, "train", "--resume", out, "--epochs", "3", *more, "--out"]
        job = require_codes(start(options, 2, [*words, new_folder(options)]), [0, 0], words)
        require("so the resumed run leaves out --link-gbps 100 and --link-latency-us 1 from "
                "now on\n"
                in job.read("err.0"), job.words())
        job = start(options, 2, [*words, new_folder(options), "--link-gbps", "1"])
        require(set(codes_of(job)) == {2} and "shape the links between threads" in job.words(), job.words())


def evaluation(options):
    check_evaluation(options, lambda count, words: require_codes(
        start(options, count, words), [0] * count, words))


def contents(folder):
    """{path: bytes} of the files in a folder."""
    found = {}
    for where, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(where, name), "rb") as file:
                found[os.path.join(where, name)] = file.read()
    return found


def stands_still(pid):
    """Whether every thread of the process is stopped."""
    tasks = f"/proc/{pid}/task"
    return all(read(tasks, task, "stat").rpartition(")")[2].split()[0] == "T" for task in os.listdir(tasks))


def overwrite(options):
    """A run that fails before its first epoch leaves the run that it would replace."""
    out = new_folder(options)
    words = [options.heliograph, "train", "--data", make_graph(options), "--hidden", "2000", "--epochs",
             "1", "--checkpoint-every", "1", "--quiet", "--out", out]
    require_codes(start(options, 2, words), [0, 0], "the first run")
    before = contents(out)
    for more in (["--split", "7"], ["--memory-limit-mib", "1"], ["--parts", "3"]):
        codes = codes_of(start(options, 2, [*words, "--overwrite", *more]))
        require(0 not in codes, str(codes))
        require(contents(out) == before, f"{more}: files of the earlier run have changed")
    for lost in (0, 1):
        job = start(options, 2, [*words, "--overwrite", *silences()])
        job.wait_until_met()
        job.signal(lost, signal.SIGKILL)
        wait_for(job)
        begun = len(epochs_of(out)) == 1 and read(out, "run.json").encode() not in before.values()
        require(contents(out) == before or begun, f"{lost} killed: neither the old run nor the new one")

    # Epochs are short, and rank 0 stands still while its signal comes before the first one has ended.
    words = [*words[:words.index("--hidden")], "--epochs", "100000", "--quiet", "--out", out,
             "--hidden", "8", "--overwrite", *silences()]
    untouched = False
    while not untouched:
        before = contents(out)
        job = start(options, 2, words)
        job.wait_until_met()
        job.signal(0, signal.SIGSTOP)
        wait_until(lambda: stands_still(job.read("pid.0")), "rank 0 stands still")
        untouched = contents(out) == before
        job.signal(0, signal.SIGTERM)
        job.signal(0, signal.SIGCONT)
        codes = codes_of(job)
        require(codes == [143, 130 if untouched else 143], f"{codes}: {job.words()}")
    require(contents(out) == before, "a stopped run has replaced the earlier one")


def damage(options):
    def refuse(words):
        job = start(options, 3, words)
        codes = codes_of(job)
        require(codes == [3, 3, 3], f"{codes}: {job.words()}")
        return job.words()
    check_damage(options, lambda count, words: require_codes(
        start(options, count, words), [0] * count, words), refuse)


def launchers(options):
    def refuse(count, words):
        job = start(options, count, words)
        codes = codes_of(job)
        require(set(codes) == {2}, f"{codes}: {job.words()}")
        return job.words()
    check_launchers(options, lambda count, words: require_codes(
        start(options, count, words), [0] * count, words), refuse)


def command(options):
    """What the command says and writes, by the variables that it finds."""
    begin, data = [options.heliograph, "train", "--hidden", "8"], ["--data", make_graph(options)]
    words = [*begin, *data, "--epochs", "3"]
    out = os.path.join(options.folder, "run")

    job = require_codes(start(options, 3, [*words, "--out", out]), [0, 0, 0], "three processes")
    require("3 ranks" in job.read("err.0"), job.words())  # --parts is the number of processes.
    require("test accuracy" in job.read("out.0"), job.read("out.0"))
    others = "".join(map(job.read, ("out.1", "out.2", "err.1", "err.2")))
    lines = [line for line in others.splitlines() if "waiting for rank 0" not in line]
    require(not lines, f"others speak too: {others}")
    result_of(out, 3)

    require_codes(start(options, 2, [*words, "--transport", "tcp", "--quiet"]), [0, 0],
                  "--transport tcp")

    # torchrun listens at MASTER_PORT itself.
    with socket.create_server(("", 0)) as store:
        port = store.getsockname()[1]
        require_codes(start(options, 2, [*words, "--quiet"], MASTER_PORT=port,
                            TORCHELASTIC_USE_AGENT_STORE="True"), [0, 0], "agent's store")
        job = require_codes(start(options, 2, [*words, "--quiet", "--timeout", "3"],
                                  MASTER_PORT=port), [4, 5], "a port that is taken")
        require("cannot listen at port" in job.read("err.0"), job.words())

    # Whoever waits long says for whom, unless it is to be quiet.
    for rank, awaited in ((0, "waiting for rank 1 and 1 more of 3 at localhost:"),
                          (1, "waiting for rank 0 at localhost:")):
        for more in ([], ["--quiet"]):
            done = alone(*words, "--timeout", "3", *more, **variables_of(3, rank))
            require(done.returncode == 5 and (awaited in done.stderr) == (not more), done.stderr)

    # No rank waits for others that must fail as it does.
    done = alone(*words, "--parts", "5", **variables_of(2))
    require(done.returncode == 2 and "--parts 5 with 2 processes" in done.stderr, done.stderr)
    shards = os.path.join(options.folder, "shards")
    done = alone(options.heliograph, "partition", *data, "--parts", "3", "--out", shards)
    require(done.returncode == 0, done.stderr)
    done = alone(*begin, "--data", shards, **variables_of(2))
    require(done.returncode == 2 and "the shards are of 3 ranks, but the launcher started 2 "
            "processes" in done.stderr, done.stderr)

    # A rank that ends before it has met the others tells them, whichever it is.
    differs = 'if [ "$RANK" = "$0" ]; then set -- "$@" --bits 3; fi; exec "$@"'
    for wrong in (0, 2):
        job = require_codes(start(options, 3, ["sh", "-c", differs, str(wrong), *words]), [2] * 3,
                            "a flag that is wrong on one rank")
        require("--bits must be 1, 2" in job.words(), job.words())
    # Where not all come, those that do hear of it too.
    absent = 'if [ "$RANK" = 1 ]; then exit 0; fi; ' + differs
    job = require_codes(start(options, 3, ["sh", "-c", absent, "2", *words]), [5, 0, 2],
                        "a flag that is wrong on one rank, and a rank that does not come")
    require("rank 2: --bits must be 1, 2" in job.read("err.0"), job.words())

    # Either rank may be the first to fail, and then the other may hear of that before it fails too.
    missing = ["--data", os.path.join(options.folder, "none")]
    for more, code, said in ((missing, 3, "error"),
                             ([*data, "--lr", "1e30", "--epochs", "30"], 6, "error")):
        out = new_folder(options)
        job = start(options, 2, [*begin, *more, "--out", out])
        codes = codes_of(job)
        require(codes == [code] * 2, f"{more}: {codes}: {job.words()}")
        require(said in job.words(), job.words())
        if code == 6:
            error = json.loads(read(out, "run.json"))["error"]
            require(error["exit_code"] == 6 and "in flight" not in error["message"], f"{error}")
        require(code != 3 or job.words().count("heliograph: error") == 1, job.words())

    job = require_codes(start(options, 2, [*words, "--transport", "threads"]), [2, 2], "threads")
    require("2 processes were started, and each would train" in job.read("err.0"), job.words())
    require_codes(start(options, 2, [*words, "--transport", "mpi"]), [2, 2],
                  "MPI, which nothing has started")
    require_codes(start(options, 2, [*words, "--link-gbps", "1", "--transport", "tcp"]), [2, 2],
                  "a shaped link")

    for missing in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        some = variables_of(2)
        del some[missing]
        for more in ([], ["--transport", "threads"]):
            done = alone(*words, *more, **some)
            require(done.returncode == 2 and f"but not {missing}" in done.stderr,
                    f"{missing}: {done.returncode}, {done.stderr}")
    done = alone(*words, **variables_of(2, 2))
    require(done.returncode == 2 and "RANK=2" in done.stderr, done.stderr)
    done = alone(*words, "--transport", "tcp")
    require(done.returncode == 2 and "has no RANK" in done.stderr, done.stderr)

    # One process: its ranks are threads, unless it is told otherwise.
    for more in (["--parts", "2"], ["--transport", "tcp"]):
        done = alone(*words, "--quiet", *more, RANK=0, WORLD_SIZE=1)
        require(done.returncode == 0, done.stderr)

    done = alone(*words, "--timeout", "0.5", **variables_of(3))
    require(done.returncode == 5 and "rank 1 and 1 more have not called" in done.stderr,
            f"{done.returncode}: {done.stderr}")

    done = alone(options.heliograph, "info")
    require("tcp built" in done.stdout, done.stdout)


def lost_rank(options):
    random.seed(7)
    data = make_graph(options, 3000)
    for repeat in range(9):
        count = 2 + repeat % 3
        lost = repeat % count
        delay = random.uniform(0, 1.5)
        job = start(options, count, endless(options, data, *silences()))
        job.wait_until_met()
        time.sleep(delay)
        killed = job.signal(lost, signal.SIGKILL)
        require_named(job, lost, killed, ENDED, f"SIGKILL of {lost} of {count} after {delay:.2f} s")

    job = start(options, 3, endless(options, data, *silences(training=2)))
    job.wait_until_met()
    time.sleep(1)
    stopped = job.signal(1, signal.SIGSTOP)
    require_named(job, 1, stopped, "no sign of life for [2-9]", "SIGSTOP")


def advice(options):
    """After a loss the lowest survivor says how to go on."""
    data = make_graph(options)
    for lost, speaks in ((0, 1), (2, 0)):
        for more, said in ((["--checkpoint-every", "2"], "the newest checkpoint is that after "
                            r"\d+ epochs: continue with \"heliograph train --resume \S+\", by any launcher "
                            "with as many processes, or in one process"),
                           (["--checkpoint-every", "1000000"], "no checkpoint was saved")):
            out = new_folder(options)
            job = start(options, 3, endless(options, data, *silences(), *more, "--out", out))
            wait_until(lambda: has_epochs(out, 5), f"{out} has 5 epochs")
            job.signal(lost, signal.SIGKILL)
            wait_for(job)
            for rank in {0, 1, 2} - {lost}:
                words = job.read(f"err.{rank}")
                require(bool(re.search(said, words)) == (rank == speaks), f"{rank}: {words}")


def stuck_results(options):
    """Rank 0 writes its results into a pipe that nobody reads: that ends all ranks."""
    pipe = new_folder(options)
    os.mkfifo(pipe)
    words = [options.heliograph, "train", "--data", make_graph(options), "--epochs", "2", "--hidden",
             "8", "--quiet", "--timeout", "4", "--summary", pipe]
    job = require_codes(start(options, 2, words), [4, 4], "a pipe that nobody reads")
    require(f"rank 0: writing --summary {pipe} takes longer than --timeout, 4 s"
            in job.read("err.0"), job.words())


class Strangers(threading.Thread):
    """Connects to a port of this host again and again until `stop`. Keeps the last 100 connections:
    some are silent, some send what no rank sends."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.count, self.ended = port, 0, threading.Event()
        self.start()

    def run(self):
        held = collections.deque(maxlen=100)
        while not self.ended.is_set():
            with contextlib.suppress(OSError):
                held.append(socket.create_connection(("127.0.0.1", self.port), 1))
                self.count += 1
                if self.count % 2:
                    held[-1].send(b"HLGRAPH\n" + os.urandom(self.count % 200))

    def stop(self):
        self.ended.set()
        self.join()


def run_key(options):
    """Ranks meet while strangers call, and only those that have the key."""
    key = "a key that nothing may show"
    out, port = os.path.join(options.folder, "run"), free_port()
    words = [options.heliograph, "train", "--data", make_graph(options), "--epochs", "3",
             "--hidden", "8"]
    strangers = Strangers(port)
    job = require_codes(start(options, 3, [*words, "--out", out], MASTER_PORT=port,
                              HELIOGRAPH_RUN_KEY=key), [0, 0, 0], "among strangers")
    strangers.stop()
    require(strangers.count > 0, "nobody has called")
    result_of(out, 3)
    written = [os.path.join(folder, name) for place in (out, job.folder)
               for folder, _, names in os.walk(place) for name in names]
    shown = [path for path in written if key.encode() in open(path, "rb").read()]
    require(len(written) > 5 and not shown, f"the key is in {shown}")

    port = free_port()
    ranks = [subprocess.Popen(
        [*words, "--timeout", "5"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
        env=environment(**variables_of(2, rank, MASTER_PORT=port, HELIOGRAPH_RUN_KEY=own)))
        for rank, own in enumerate((key, "another key"))]
    said = [rank.communicate(timeout=60)[1] for rank in ranks]
    require([rank.returncode for rank in ranks] == [5, 2], said)
    require(f"rank 0 at localhost:{port} refuses rank 1: its HELIOGRAPH_RUN_KEY" in said[1], said[1])
    require("rank 1 has not called" in said[0] and "HELIOGRAPH_RUN_KEY" in said[0], said[0])
    require(not re.search(f"{key}|another key", "".join(said)), "an error shows a key")


CASES = {case.__name__: case for case in (
    advice, command, damage, evaluation, launchers, lost_rank, oracle, overwrite, resume, run_key,
    signals, stuck_results)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=sorted(CASES))
    parser.add_argument("--heliograph", required=True)
    options = parser.parse_args()
    for name in LAUNCHER:
        os.environ.pop(name, None)
    run_case(CASES, options)


if __name__ == "__main__":
    main()

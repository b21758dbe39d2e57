"""Starts ranks as processes that have torchrun's variables. Standard library only."""

import contextlib
import itertools
import os
import socket
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from harness import run
from rank_tests import epochs_of, new_folder, require, wait_for
from jobs import Job

# Variables of a launcher that may have started this test; the ranks of the test must not see them.
LAUNCHER = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
            "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
            "HELIOGRAPH_RUN_KEY", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PMIX_RANK")
PORTS = itertools.count(os.getpid() * 61)
# Starts the last rank first; each prints into a file of its own.
EACH_RANK = ('for rank in $(seq $((WORLD_SIZE - 1)) -1 0); do '
             'RANK=$rank LOCAL_RANK=$rank "$@" >"$0.$rank" & done; wait')


def free_port():
    """A port that is free, below those that the system gives to connections."""
    for place in itertools.islice(PORTS, 1000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", 12000 + place % 20000))
            return probe.getsockname()[1]
    raise OSError("a thousand ports are taken")


def variables_of(ranks, rank=0, **more):
    return {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks,
            "MASTER_ADDR": "localhost", "MASTER_PORT": free_port(), **more}


def start(options, ranks, words, **variables):
    """A job of processes that have torchrun's variables."""
    settings = [f"{name}={value}" for name, value in variables_of(ranks, **variables).items()]
    folder = new_folder(options)
    return Job(["env", *settings, "sh", "-c", EACH_RANK, os.path.join(folder, "out")], ranks, words,
               folder)


def environment(**variables):
    return {**os.environ, **{name: str(value) for name, value in variables.items()}}


def alone(*words, **variables):
    return run(*words, env=environment(**variables), timeout=120)


def codes_of(job):
    wait_for(job)
    return [job.end(rank)[0] for rank in range(job.ranks)]


def require_codes(job, expected, what):
    codes = codes_of(job)
    require(codes == expected, f"{what}: {codes}, not {expected}: {job.words()}")
    return job


def has_epochs(out, count):
    return (os.path.exists(os.path.join(out, "metrics.jsonl"))
            and len(epochs_of(out)) >= count)

"""What the tests of ranks as processes share, whether mpirun or torchrun's variables start the ranks.
Standard library only."""

import contextlib
import json
import os
import re
import struct
import sys
import tempfile
import time

from harness import ROOT, read, run

sys.path.insert(0, os.path.join(ROOT, "experiments", "faults"))
import processes
from jobs import Job
from lost_ranks import judge_survivors

# Seconds of silence after which a rank counts as lost, unless a test shortens them. A loss that is
# noticed by other means must end the survivors within half of them.
PATIENCE = 60
ENDED = "ended without a word"  # What a survivor says of a rank that was killed.


def silences(**shorter):
    """The flags that set each phase's limit of silence to PATIENCE, or to the seconds given here."""
    limits = {"loading": PATIENCE, "training": PATIENCE, "saving": PATIENCE, **shorter}
    return [word for phase, seconds in limits.items()
            for word in (f"--silence-{phase}", str(seconds))]


def require(holds, sentence):
    if not holds:
        raise AssertionError(sentence)


def make_graph(options, nodes=400):
    path = os.path.join(options.folder, "graph")
    done = run(options.heliograph, "generate", "--nodes", str(nodes), "--edges", str(nodes * 6),
               "--features", "24", "--classes", "5", "--seed", "3", "--quiet", "--out", path)
    require(done.returncode == 0, done.stderr)
    return path


def write_npy(path, kind, shape, values):
    header = f"{{'descr': '<{kind}4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        file.write(struct.pack(f"<{len(values)}{kind}", *values))


def make_edge_list(options, nodes=60):
    """A ring whose edges have weights, listed in one direction each."""
    path = new_folder(options)
    os.mkdir(path)
    with open(os.path.join(path, "edges.csv"), "w") as file:
        file.writelines(f"{v},{(v + 1) % nodes},{1 + v % 3}\n" for v in range(nodes))
    write_npy(os.path.join(path, "labels.npy"), "i", (nodes,), [v % 2 for v in range(nodes)])
    write_npy(os.path.join(path, "features.npy"), "f", (nodes, 2), [1.0] * (2 * nodes))
    return path


def epochs_of(out):
    """The lines of metrics.jsonl without times: losses, scores, bytes and lags as they are written."""
    return [re.sub(r'"seconds": ?[^,}]+', "", line)
            for line in read(out, "metrics.jsonl").splitlines()]


def result_of(out, epochs):
    """(epochs, predictions) of a run directory, to the bit."""
    lines = epochs_of(out)
    require(len(lines) == epochs, f"{out}: {len(lines)} epochs, not {epochs}")
    return lines, result_bytes(out)


def check_oracle(options, train, cells, counts, *more):
    """The results of `count` processes, which `train(count, words)` runs, are those of as many threads,
    to the bit, also if passes run in other blocks. A cell is (model, bits, staleness)."""
    data = make_graph(options)
    for model, bits, staleness in cells:
        for count in counts:
            words = [options.heliograph, "train", "--data", data, "--model", model, "--hidden", "16",
                     "--epochs", "8", "--bits", str(bits), "--staleness", str(staleness), "--stale-sites", "all",
                     "--threads-per-rank", "1", "--overwrite", "--quiet", *more, "--out"]
            outs = [os.path.join(options.folder, name) for name in ("processes", "threads")]
            train(count, [*words, outs[0], "--row-blocks", "3"])
            done = run(*words, outs[1], "--parts", str(count), "--transport", "threads")
            require(done.returncode == 0, done.stderr)
            found, expected = (result_of(out, 8) for out in outs)
            require(found == expected, f"{model}, {bits} bits, S = {staleness}, K = {count}: "
                    f"{found[0]} by processes, {expected[0]} by threads")


def check_resume(options, train, stalenesses):
    """A run of processes that goes on from a checkpoint has the bits of one that did not stop."""
    data = make_graph(options)
    for staleness in stalenesses:
        words = [options.heliograph, "train", "--data", data, "--hidden", "16", "--bits", "1",
                 "--staleness", str(staleness), "--stale-sites", "all", "--threads-per-rank", "1", "--quiet", "--overwrite",
                 "--checkpoint-every", "5"]
        whole, cut = (os.path.join(options.folder, name) for name in ("whole", "cut"))
        train(3, [*words, "--epochs", "9", "--out", whole])
        train(3, [*words, "--epochs", "5", "--out", cut])
        train(3, [options.heliograph, "train", "--resume", cut, "--epochs", "9", "--quiet"])
        require(result_of(cut, 9) == result_of(whole, 9), f"S = {staleness}: the results differ")


def check_evaluation(options, start):
    """Processes, which `start(count, words)` runs, score a run's weights as the run reported, on the
    data set and on shards."""
    data = make_graph(options)
    out, shards = (os.path.join(options.folder, name) for name in ("run", "shards"))
    start(2, [options.heliograph, "train", "--data", data, "--hidden", "16", "--epochs", "8",
              "--normalize", "standard", "--threads-per-rank", "1", "--quiet", "--out", out])
    done = run(options.heliograph, "partition", "--data", data, "--parts", "2", "--normalize",
               "standard", "--quiet", "--out", shards)
    require(done.returncode == 0, done.stderr)
    reported = json.loads(read(out, "run.json"))["result"]
    for count, scored in ((2, data), (3, data), (2, shards)):
        scores = new_folder(options)
        start(count, [options.heliograph, "eval", "--checkpoint", out, "--data", scored, "--quiet",
                      "--out", scores])
        found = json.loads(read(scores, "eval.json"))
        require(found["ranks"] == count, str(found))
        if count == 2:
            require(all(found[key] == reported[key] for key in ("val_metric", "test_metric")),
                    f"{found}, not {reported}")
            require(result_bytes(scores) == result_bytes(out), f"{scored}: other predictions")


def result_bytes(folder):
    with open(os.path.join(folder, "predictions.npy"), "rb") as file:
        return file.read()


def check_damage(options, train, refuse):
    """Each process checks the files of a checkpoint that it reads, and names itself if one is damaged.
    `refuse(words)` returns what three processes say that do not end with 0."""
    out = new_folder(options)
    train(3, [options.heliograph, "train", "--data", make_graph(options), "--hidden", "16",
              "--epochs", "4", "--checkpoint-every", "2", "--quiet", "--out", out])
    path = os.path.join(out, "checkpoints", "epoch-000004", "rank-00002.state")
    with open(path, "r+b") as file:
        file.truncate(os.path.getsize(path) - 1)
    said = refuse([options.heliograph, "train", "--resume", out, "--epochs", "6"])
    require(re.search(r"error: rank 2: \S+rank-00002.state: .*before it is whole: \S+000002", said),
            said)


def check_launchers(options, train, refuse):
    """A run goes on, or is repeated from its run.json, however its ranks are started: as processes,
    which `train(count, words)` runs, or as threads. `refuse(count, words)` returns what processes say
    that end with 2."""
    def alone(count, words):
        done = run(*words, *(["--parts", str(count)] if "--data" in words else []))
        require(done.returncode == 0, f"{words}: {done.stderr}")

    words = [options.heliograph, "train", "--data", make_graph(options), "--hidden", "16", "--bits",
             "1", "--staleness", "1", "--stale-sites", "all", "--quiet", "--checkpoint-every", "5"]
    whole = os.path.join(options.folder, "whole")
    alone(2, [*words, "--epochs", "9", "--out", whole])
    for begins, goes_on in ((train, alone), (alone, train)):
        out, again = new_folder(options), new_folder(options)
        begins(2, [*words, "--epochs", "5", "--out", out])
        goes_on(2, [options.heliograph, "train", "--resume", out, "--epochs", "9", "--quiet"])
        require(result_of(out, 9) == result_of(whole, 9), "other results by another launcher")
        begins(2, [options.heliograph, "train", "--config", os.path.join(out, "run.json"), "--quiet",
                   "--out", again])
        require(result_of(again, 9) == result_of(whole, 9), "other results from run.json")
        asked = json.loads(read(out, "run.json"))
        require(asked["options"]["transport"] == "auto" and asked["options"]["threads-per-rank"] == 0,
                asked["options"])
    require(asked["resolved"]["transport"] in ("mpi", "tcp"), asked["resolved"])
    said = refuse(3, [options.heliograph, "train", "--resume", out])
    require("the checkpoint is of 2 ranks, but the launcher started 3 processes" in said, said)


def check_agreement(options, differing):
    """Ranks that differ end with 7 and say in what. `differing(first, second)` returns what two
    processes say that run these words."""
    model = [options.heliograph, "train", "--data", make_graph(options), "--hidden", "8", "--quiet"]
    words = [*model, "--epochs", "1000000"]
    out = new_folder(options)
    saves = ["--overwrite", "--out", out]
    for first, second, what in ((saves, [], "whether --out is given"),
                                ([], saves, "whether --out is given"),
                                (saves, [*saves, "--on-save-failure", "stop"], "--on-save-failure"),
                                ([], ["--bits-forward", "2"], "--bits-forward")):
        said = differing([*words, *first], [*words, *second])
        require(said.count(f"rank 1 differs from rank 0 in {what}:") == 1, f"{second}: {said}")
        require(not os.path.exists(os.path.join(out, "checkpoints")), "a checkpoint")
    listed = [options.heliograph, "train", "--data", make_edge_list(options), "--index-base", "0",
              "--split", "random:60/20/20", "--hidden", "8", "--quiet", "--epochs", "1000000"]
    for flag, what in (("--keep-direction", "the direction of edges (--keep-direction)"),
                       ("--ignore-weights", "the weights of edges (--ignore-weights)")):
        said = differing([*listed, flag], listed)
        require(said.count(f"rank 1 differs from rank 0 in {what}:") == 1, f"{flag}: {said}")
    words = [*model, "--epochs", "1", "--overwrite", "--out"]
    said = differing([*words, out], [*words, out + "/../job", "--memory-limit-mib", "4000"])
    require("differs" not in said and "error" not in said, said)


def endless(options, data, *more):
    """A training that ends only if something ends it."""
    return [options.heliograph, "train", "--data", data, "--epochs", "1000000", "--hidden", "16",
            "--eval-every", "1000000", "--threads-per-rank", "1", "--quiet", *more]


def new_folder(options):
    """A path in the test's folder at which nothing exists yet."""
    return os.path.join(tempfile.mkdtemp(dir=options.folder), "job")


def where_threads_wait():
    """One line for each thread of the test's descendants: its name and the kernel function it is in."""
    lines = []
    for pid in processes.living():
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):
                name, where = (read(f"/proc/{pid}/task/{task}", file).strip()
                               for file in ("comm", "wchan"))
                lines.append(f"process {pid}: {name} in {where}")
    return "\n".join(lines)


def wait_for(job, seconds=120):
    """The launcher's exit code, once it is known how each rank ended."""
    end = time.monotonic() + seconds
    code = job.wait(seconds)
    require(code is not None, f"the job did not end:\n{job.words()}\n{where_threads_wait()}")
    job.wait_for_ends(range(job.ranks), end)
    return code


def require_named(job, lost, since, how, what):
    """Each survivor ended with 5 soon after the loss, and said who was lost, where, and `how`."""
    others = [rank for rank in range(job.ranks) if rank != lost]
    job.wait_for_ends(others, time.monotonic() + PATIENCE)
    _, wrong = judge_survivors(job, dict.fromkeys(others, {lost}), since, PATIENCE / 2)
    wrong += [f"rank {rank} did not say: {how}" for rank in others
              if not re.search(how, job.read(f"err.{rank}") or "")]
    require(not wrong, f"{what}: {wrong}\n{job.words()}")


def run_case(cases, options):
    """Runs the case that the options name, in an empty folder; whatever it started is ended."""
    processes.adopt_orphans()
    with tempfile.TemporaryDirectory() as options.folder:
        try:
            cases[options.case](options)
        finally:
            processes.end_all()
    print(f"{options.case}: holds")

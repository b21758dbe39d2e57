"""A stand-in for the `heliograph` command on a machine without a GPU. Where it is asked to train on a
device, it trains on the CPU instead, rightly or wrongly as a test asks."""

import os
import sys

COMMAND = os.path.abspath(sys.argv.pop())  # The real one.

# On the "device" a flag has the value of the stand-in, not the one that was given, and the losses of
# the run are what `losses` makes of them. A CPU knows no TF32, no CUDA graphs, no NCCL and no MPI that
# takes device memory.
STAND_IN = """#!{python}
import json, os, subprocess, sys, time
words = sys.argv[1:]
device = "cuda" in words
if device:
    {before}
    words[words.index("cuda")] = "cpu"
    words = [{{"nccl": "threads"}}.get(word, word) for word in words
             if word not in ("--tf32", "--nccl-register")]
    if "--cuda-aware-mpi" in words:
        at = words.index("--cuda-aware-mpi")
        del words[at:at + 2]
    if "--cuda-graphs" in words:
        words[words.index("--cuda-graphs") + 1] = "off"
    for flag, value in {wrong!r}.items():
        words[words.index(flag) + 1] = value
if not device or not {losses!r}:
    os.execv({command!r}, [{command!r}] + words)
subprocess.run([{command!r}] + words, check=True)
path = os.path.join(words[words.index("--out") + 1], "metrics.jsonl")
with open(path) as file:
    rows = [json.loads(line) for line in file]
losses = [row["loss"] for row in rows]
{losses}
with open(path, "w") as file:
    for row, loss in zip(rows, losses):
        file.write(json.dumps({{**row, "loss": loss}}) + "\\n")
"""


def stand_in(wrong=None, losses="", before=""):
    """The text of the stand-in. Each run on the "device" first does `before`."""
    return STAND_IN.format(python=sys.executable, command=COMMAND, wrong=wrong or {}, losses=losses,
                           before=before or "pass")

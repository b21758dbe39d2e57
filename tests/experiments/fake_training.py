#!/usr/bin/env python3
"""Stands in for the command in tests of the fault campaign. Its ranks watch each other through /proc, its
epochs are sleeps, and its checkpoints hold only their number. FAKE names faults:

  lingers   a survivor ends half a second too late: the limit is FAKE_NOTICED seconds
  silent    a survivor does not say who was lost
  code      a survivor ends with another code than 5
  differs   a run that went on has other losses
  orphan    rank 0 leaves a process behind when another is lost
  unsaved   SIGTERM ends the run without a checkpoint
"""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time

FAULTS = os.environ.get("FAKE", "").split(",")
EPOCH_SECONDS = 0.01

if sys.argv[1] == "--version":
    print("fake 1")
    sys.exit(0)
flags, name = {}, None
for word in sys.argv[2:]:
    if word.startswith("--"):
        name = word[2:]
        flags[name] = True
    else:
        flags[name] = word
if sys.argv[1] == "generate":
    os.makedirs(flags["out"])
    sys.exit(0)

processes = flags.get("transport") != "threads" and "OMPI_COMM_WORLD_RANK" in os.environ
rank = int(os.environ["OMPI_COMM_WORLD_RANK"]) if processes else 0
ranks = int(os.environ["OMPI_COMM_WORLD_SIZE"]) if processes else 1
asked = []
signal.signal(signal.SIGTERM,
              signal.SIG_IGN if rank != 0 else lambda *_: asked.append(True))


def newest(run):
    folder = os.path.join(run, "checkpoints")
    saved = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return int(saved[-1].rpartition("-")[2]) if saved else 0


def write(path, text):
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(path + ".new", path)


run = flags.get("resume", flags.get("out"))
begin = 0
if "resume" in flags:
    begin = newest(run)
    if begin == 0:
        print(f"heliograph: error: --resume {run}: the run has no checkpoint", file=sys.stderr)
        sys.exit(3)
    with open(os.path.join(run, "run.json"), encoding="utf-8") as file:
        flags = {**json.load(file)["options"], **flags}
elif rank == 0 and "overwrite" in flags:
    shutil.rmtree(run)
epochs, every = int(flags["epochs"]), int(flags["checkpoint-every"])
silence = float(flags.get("silence-training", 10))
shared = os.path.join(run, "ranks-" + os.environ.get("FAKE_JOB", ""))


def state_of(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def write_run(status):
    write(os.path.join(run, "run.json"), json.dumps(
        {"status": status, "options": {"epochs": epochs, "checkpoint-every": every},
         "result": {"epochs": epochs}}))


peers, silent_since = {}, {}


def meet():
    os.makedirs(shared, exist_ok=True)
    write(os.path.join(shared, str(rank)), str(os.getpid()))
    while len(peers) < ranks:
        for other in range(ranks):
            path = os.path.join(shared, str(other))
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    peers[other] = int(file.read())
        time.sleep(0.002)
    ctypes.CDLL(None).prctl(15, b"rank watch")


def look_for_losses():
    if os.path.exists(os.path.join(shared, "bye")):
        return
    for other, pid in peers.items():
        state = state_of(pid)
        if state != "T":
            silent_since.pop(other, None)
        elif time.monotonic() - silent_since.setdefault(other, time.monotonic()) > silence:
            end_survivor(other)
        if state in "XZ" and not os.path.exists(os.path.join(shared, "bye")):
            end_survivor(other)


def end_survivor(lost):
    # A survivor that ends first looks lost too, so the others name the rank that it has named.
    told = os.path.join(shared, "lost")
    if os.path.exists(told):
        with open(told, encoding="utf-8") as file:
            lost = int(file.read())
    else:
        with open(f"{told}.{rank}", "w", encoding="utf-8") as file:
            file.write(str(lost))
        os.rename(file.name, told)
    if "orphan" in FAULTS and rank == 0:
        subprocess.Popen(["sleep", "30"], start_new_session=True)
    if "lingers" in FAULTS:
        time.sleep(float(os.environ["FAKE_NOTICED"]) + 0.5)
    if "silent" not in FAULTS:
        print(f"heliograph: error: rank {lost} was lost on host fake while training",
              file=sys.stderr)
    sys.exit(1 if "code" in FAULTS else 5)


def save(done):
    folder = os.path.join(run, "checkpoints", f"epoch-{done:06}")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "weights.safetensors"), "w", encoding="utf-8") as file:
        file.write(f"weights {done}")
    for old in sorted(os.listdir(os.path.dirname(folder)))[:-2]:
        shutil.rmtree(os.path.join(run, "checkpoints", old))


if processes:
    meet()
if rank != 0:
    bye = os.path.join(shared, "bye")
    while not os.path.exists(bye):
        look_for_losses()
        time.sleep(0.005)
    with open(bye, encoding="utf-8") as file:
        sys.exit(int(file.read()))

os.makedirs(run, exist_ok=True)
metrics = os.path.join(run, "metrics.jsonl")
kept = []
if begin:
    with open(metrics, encoding="utf-8") as file:
        kept = file.readlines()[:begin]
with open(metrics, "w", encoding="utf-8") as file:
    file.writelines(kept)
write_run("running")
code = 0
for epoch in range(begin, epochs):
    time.sleep(EPOCH_SECONDS)
    if processes:
        look_for_losses()
        while silent_since:  # Its messages are missing.
            time.sleep(EPOCH_SECONDS)
            look_for_losses()
    loss = 1 / (epoch + 1) + (0.5 if "differs" in FAULTS and begin else 0)
    with open(metrics, "a", encoding="utf-8") as file:
        file.write(json.dumps({"epoch": epoch, "loss": loss, "seconds": time.monotonic()}) + "\n")
    if asked:
        code = 143
        if "unsaved" not in FAULTS:
            save(epoch + 1)
        break
    if (epoch + 1) % every == 0 or epoch + 1 == epochs:
        save(epoch + 1)
with open(os.path.join(run, "predictions.npy"), "w", encoding="utf-8") as file:
    file.write("predictions")
write_run("completed" if code == 0 else "interrupted")
if processes:
    write(os.path.join(shared, "bye"), str(code))
sys.exit(code)

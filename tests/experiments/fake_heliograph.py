#!/usr/bin/env python3
"""Stands in for the command in tests of the experiments. `train` writes the files that the command
would write, with contents that follow from the flags; `import` without --out prints that the data
have FAKE_SPLITS (default 0) splits; other commands write one file in --out.
Appends each call to the file FAKE_CALLS. Fails with exit code FAKE_CODE (default 6) and prints
FAKE_WORDS where FAKE_FAIL is among its flags. Adds FAKE_ADDS to the loss of epoch 3. Takes 0.1 from
the score where --lr is FAKE_POOR_RATE. Where
FAKE_HANG is set, `train` writes its process number to that file and sleeps for a minute."""

import json
import os
import sys
import time

flags, name = {}, None
for word in sys.argv[2:]:
    if word.startswith("--"):
        name = word[2:]
        flags[name] = True
    else:
        flags[name] = word

with open(os.environ["FAKE_CALLS"], "a", encoding="utf-8") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\n")
if os.environ.get("FAKE_FAIL", "\0") in " ".join(sys.argv[1:]):
    print(f"fake: told to fail{os.environ.get('FAKE_WORDS', '')}", file=sys.stderr)
    sys.exit(int(os.environ.get("FAKE_CODE", "6")))

if sys.argv[1] == "import" and "out" not in flags:
    print(f"data: 4 nodes\n  nodes         4\n  splits        {os.environ.get('FAKE_SPLITS', '0')}")
    sys.exit(0)

if sys.argv[1] == "train" and "FAKE_HANG" in os.environ:
    with open(os.environ["FAKE_HANG"], "w", encoding="utf-8") as file:
        file.write(str(os.getpid()))
    time.sleep(60)

flags.setdefault("out", flags.get("resume"))
os.makedirs(flags["out"], exist_ok=True)
if sys.argv[1] != "train":
    with open(os.path.join(flags["out"], "manifest.xxh64"), "w", encoding="utf-8") as file:
        file.write(sys.argv[1])
    sys.exit(0)

seed, epochs = int(flags.get("seed", 1)), int(flags["epochs"])
bits = flags.get("bits", 32)
bits, staleness = 1 if bits == "auto" else int(bits), int(flags.get("staleness", 0))
score = 0.8 + 0.01 * seed - (0.02 if bits == 1 else 0) - 0.001 * seed * staleness
score -= 0.1 if flags.get("lr") == os.environ.get("FAKE_POOR_RATE", "") else 0
score = None if flags.get("eval-every") == "0" else score
with open(os.path.join(flags["out"], "metrics.jsonl"), "w", encoding="utf-8") as file:
    for epoch in range(epochs):
        evaluated = epoch % 2 == 1 or epoch == epochs - 1
        reached = score * (1 - 0.5 ** (epoch + 1)) if evaluated and score else None
        loss = 1 / (epoch + 1) + (float(os.environ.get("FAKE_ADDS", "0")) if epoch == 3 else 0)
        file.write(json.dumps({"epoch": epoch, "loss": loss, "val_metric": reached,
                               "test_metric": reached, "seconds": 0.1, "bytes": 1000 * bits,
                               "lag": 0, "lr": 0.01}) + "\n")
with open(flags.get("summary", os.devnull), "w", encoding="utf-8") as file:
    json.dump({"metric": flags.get("metric", "accuracy"), "test_metric": score, "val_metric": score, "best_epoch": epochs - 1,
               "epochs": epochs, "epoch_seconds": {"median": 0.1, "p95": 0.2},
               "seconds": {"aggregate": 0.01, "gemm": 0.01, "encode": 0.0,
                           "exposed_comm": 0.06, "allreduce": 0.01, "other": 0.01},
               "bytes_per_epoch": {"halo_forward": 600 * bits, "halo_backward": 400 * bits,
                                   "allreduce": 50},
               "fp32_bytes_per_epoch": 32050, "peak_rss_bytes": 1, "ranks": 4,
               "bits": bits, "bits_forward": bits, "bits_backward": bits, "staleness": staleness}, file)

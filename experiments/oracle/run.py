#!/usr/bin/env python3
"""Shows that K ranks compute what one rank computes.

Trains with --reproducible at 32 bits and no staleness over 1, 2, 4 and 7 ranks. The loss of every
epoch must differ from one rank's by at most 1e-6 (relative), and the predictions at the end must be
equal. Prints a table; exits 1 if anything differs. Needs NumPy. With --transport mpi, ranks are
processes under mpirun, which the environment configures (OMPI_MCA_...).

Usage: oracle/run.py --data cora.npz --data tolokers.npz [--epochs 50] [--transport mpi]
"""

import argparse
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from command import (CommandFailed, add_command_option, find_command, make_flags, read_metrics,
                     require_modules, run)
from print_table import format_table

require_modules("numpy")
import numpy as np

TOLERANCE = 1e-6
RANKS = (1, 2, 4, 7)


def train(command, transport, data, model, ranks, epochs, out):
    """Trains once and returns (losses [epochs], predictions)."""
    launcher = ["mpirun", "--oversubscribe", "-n", str(ranks)] if transport == "mpi" else []
    run(*launcher, command, "train", *make_flags({
        "data": data, "model": model, "parts": ranks, "epochs": epochs, "eval-every": 10,
        "layers": 3, "hidden": 64, "dropout": 0.5, "lr": 0.01, "bits": 32, "staleness": 0,
        "seed": 1, "split": "random:60/20/20", "split-seed": 1, "reproducible": True,
        "out": out, "overwrite": True, "quiet": True}))
    losses = np.array([line["loss"] for line in read_metrics(out)])
    return losses, np.load(os.path.join(out, "predictions.npy"))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", required=True, help="a data set; repeatable")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--transport", choices=("threads", "mpi"), default="threads")
    add_command_option(parser)
    options = parser.parse_args()
    command = find_command(options.heliograph)

    rows, failed = [], False
    with tempfile.TemporaryDirectory() as scratch:
        for data in options.data:
            name = os.path.splitext(os.path.basename(os.path.normpath(data)))[0]
            for model in ("gcn", "sage"):
                reference = None
                for ranks in RANKS:
                    try:
                        losses, predictions = train(command, options.transport, data, model, ranks,
                                                    options.epochs, os.path.join(scratch, "run"))
                    except CommandFailed as error:
                        sys.exit(f"{name}, {model}, {ranks} ranks: {error}")
                    if losses.size != options.epochs or not np.isfinite(losses).all():
                        sys.exit(f"{name}, {model}, {ranks} ranks: metrics.jsonl holds "
                                 f"{losses.size} losses, not {options.epochs} finite ones")
                    if reference is None:
                        reference = losses, predictions
                    difference = np.max(np.abs(losses - reference[0]) / np.abs(reference[0]))
                    unequal = int(np.sum(predictions != reference[1]))
                    holds = difference <= TOLERANCE and unequal == 0
                    failed |= not holds
                    rows.append([name, model, str(ranks), f"{losses[0]:.6f}", f"{losses[-1]:.6f}",
                                 f"{difference:.1e}", str(unequal), "yes" if holds else "NO"])
    print(format_table(["data", "model", "ranks", "first loss", "last loss",
                        "largest relative difference", "predictions that differ", "holds"], rows))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

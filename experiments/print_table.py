#!/usr/bin/env python3
"""Prints --summary files of the command as one table, with each row compared to the first.

Usage: print_table.py NAME=SUMMARY.json [NAME=SUMMARY.json ...] [--columns COLUMN,...]
Standard library only.
"""

import argparse
import json
import sys


def human_bytes(count):
    """1234567 -> "1.23 MB": three digits, in powers of 1000."""
    units = ["B", "kB", "MB", "GB", "TB"]
    while count >= 999.5 and len(units) > 1:
        count /= 1000
        units.pop(0)
    decimals = 0 if units[0] == "B" or count >= 99.95 else 1 if count >= 9.995 else 2
    return f"{count:.{decimals}f} {units[0]}"


def halo_bytes(summary):
    """Bytes of node rows that ranks exchange in an epoch, forward and backward."""
    traffic = summary["bytes_per_epoch"]
    return traffic["halo_forward"] + traffic["halo_backward"]


def gradient_bytes(summary):
    """Bytes of weight gradients, which ranks sum in fp32, in an epoch."""
    return summary["bytes_per_epoch"]["allreduce"]


def total_bytes(summary):
    return halo_bytes(summary) + gradient_bytes(summary)


def ratio(first, this):
    return f"{first / this:.1f}x" if this > 0 else "-"


def compared(count, summary, first):
    """"2.84 MB (26.7x less)": the bytes that `count` finds in a summary, against the first's."""
    this, other = count(summary), count(first)
    less = f" ({ratio(other, this)} less)" if this < other else ""
    return human_bytes(this) + less


# The heading of each column, and a function of a row's and the first row's summary.
COLUMNS = {
    "score": ("test score", lambda s, _: "-" if s["test_metric"] is None
              else f"{s['test_metric']:.4f}"),
    "epoch": ("epoch", lambda s, _: f"{1e3 * s['epoch_seconds']['median']:.1f} ms"),
    "p95": ("p95", lambda s, _: f"{1e3 * s['epoch_seconds']['p95']:.1f} ms"),
    "faster": ("faster by", lambda s, f: ratio(f["epoch_seconds"]["median"],
                                               s["epoch_seconds"]["median"])),
    "waiting": ("waiting", lambda s, _: f"{1e3 * s['seconds']['exposed_comm']:.1f} ms"),
    "reduce": ("all-reduce", lambda s, _: f"{1e3 * s['seconds']['allreduce']:.1f} ms"),
    "rows": ("node rows", lambda s, f: compared(halo_bytes, s, f)),
    "gradients": ("gradients", lambda s, _: human_bytes(gradient_bytes(s))),
    "total": ("bytes an epoch", lambda s, f: compared(total_bytes, s, f)),
}
DEFAULT_COLUMNS = "score,epoch,faster,rows,gradients,total"


def format_table(header, rows):
    """Markdown table, padded for a terminal; the first column is left-aligned, the others right."""
    widths = [max(len(row[i]) for row in [header] + rows) for i in range(len(header))]

    def line(cells):
        padded = [c.ljust(w) if i == 0 else c.rjust(w)
                  for i, (c, w) in enumerate(zip(cells, widths))]
        return "| " + " | ".join(padded) + " |"

    rule = "|" + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":"
                          for i, w in enumerate(widths)) + "|"
    return "\n".join([line(header), rule] + [line(row) for row in rows])


def make_table(named_summaries, columns):
    """Table of [(name, summary), ...]; ratios are to the first."""
    first = named_summaries[0][1]
    header = ["run"] + [COLUMNS[c][0] for c in columns]
    return format_table(header, [[name] + [COLUMNS[c][1](summary, first) for c in columns]
                                 for name, summary in named_summaries])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="NAME=SUMMARY.json")
    parser.add_argument("--columns", default=DEFAULT_COLUMNS,
                        help=f"some of {', '.join(COLUMNS)} (default: {DEFAULT_COLUMNS})")
    options = parser.parse_args()
    columns = options.columns.split(",")
    unknown = [c for c in columns if c not in COLUMNS]
    if unknown:
        parser.error(f"no such column: {unknown[0]}")
    named = []
    for run in options.runs:
        name, equals, path = run.rpartition("=")
        if not equals:
            parser.error(f"{run} is not NAME=SUMMARY.json")
        try:
            with open(path, encoding="utf-8") as file:
                named.append((name, json.load(file)))
        except (OSError, ValueError) as error:
            sys.exit(f"print_table.py: {path}: {error}")
    try:
        print(make_table(named, columns))
    except KeyError as error:
        sys.exit(f"print_table.py: a summary has no member {error}")


if __name__ == "__main__":
    main()

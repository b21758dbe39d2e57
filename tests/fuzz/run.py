#!/usr/bin/env python3
"""Fuzzes each target with libFuzzer for some seconds of CPU time and prints a table.

Usage: run.py [--build FOLDER] [--seconds N] [TARGET[/FORM]...]
New inputs go to FOLDER/corpus, and findings to FOLDER/findings. Standard library only."""

import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

FOLDER = pathlib.Path(__file__).resolve().parent
# No input justifies a larger allocation, more memory or more time.
LIMITS = ["-malloc_limit_mb=256", "-rss_limit_mb=1024", "-timeout=10", "-max_len=65536"]


def corpora():
    """The corpora by name: one for each target and, of data sets, for each form."""
    for target in sorted((FOLDER / "corpus").iterdir()):
        forms = [path for path in sorted(target.iterdir()) if path.is_dir()]
        yield from (path.relative_to(FOLDER / "corpus").as_posix() for path in forms or [target])


def cpu_seconds(pid):
    """User and system time of a process, in seconds."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def fuzz(name, build, seconds):
    """Fuzzes one corpus. Returns executions, CPU seconds, edges covered and the new findings."""
    new, findings = build / "corpus" / name, build / "findings"
    new.mkdir(parents=True, exist_ok=True)
    findings.mkdir(parents=True, exist_ok=True)
    prefix = name.replace("/", ".") + "-"
    log = findings / f"{prefix}log"
    before = set(findings.glob(f"{prefix}*"))
    command = [build / "tests" / f"fuzz_{name.split('/')[0]}", *LIMITS, "-print_final_stats=1",
               "-reload=0", f"-artifact_prefix={findings}/{prefix}", new, FOLDER / "corpus" / name]
    with open(log, "wb") as file:
        with subprocess.Popen(command, stdout=file, stderr=file) as process:
            used, asked = 0.0, False
            while process.poll() is None:
                used = max(used, cpu_seconds(process.pid))
                if used >= seconds and not asked:
                    process.send_signal(signal.SIGUSR1)  # libFuzzer ends with its statistics.
                    asked = True
                time.sleep(0.2)
    text = log.read_text(errors="replace")
    runs = re.findall(r"number_of_executed_units: (\d+)", text) or re.findall(r"#(\d+)\t", text)
    edges = re.findall(r" cov: (\d+)", text)
    found = sorted(set(findings.glob(f"{prefix}*")) - before - {log})
    if process.returncode != 0 and not found:
        sys.exit(f"{name} ended with {process.returncode}; see {log}")
    return int((runs or ["0"])[-1]), used, int((edges or ["0"])[-1]), found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=FOLDER.parents[1] / "build" / "fuzz")
    parser.add_argument("--seconds", type=float, default=900, help="CPU time of each corpus")
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    args = parser.parse_args()
    names = [name for name in corpora()
             if not args.targets or name in args.targets or name.split("/")[0] in args.targets]
    print("| corpus | executions | CPU time | edges | findings |\n|---|---:|---:|---:|---|")
    any_found = False
    for name in names:
        runs, used, edges, found = fuzz(name, args.build, args.seconds)
        any_found = any_found or bool(found)
        print(f"| {name} | {runs:,} | {used:.0f} s | {edges:,} | "
              f"{', '.join(path.name for path in found) or 'none'} |", flush=True)
    sys.exit(1 if any_found else 0)


main()

#!/usr/bin/env python3
"""Makes one Markdown table of what scripts/gpu_check.sh left in a folder: table.py FOLDER. What is
not there, or failed, is named as that."""

import json
import math
import os
import sys

PACKED = "aggregate_halo/1"
DECODED = "decode_then_aggregate/1"
INNER = "aggregate_inner"
CUSPARSE = "aggregate_inner/cusparse"


def read(folder, name):
    """The JSON of a file, or None."""
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def read_lines(folder, name):
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return file.read().strip().split("\n")
    except OSError:
        return []


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def steps(folder):
    rows = [line.split("\t") for line in read_lines(folder, "steps.tsv") if line]
    if not rows:
        return "No step was run."
    return table(["step", "result", "seconds"], rows)


def twin_tests(folder):
    said = read(folder, "tests.json")
    if said is None:
        return "Twin tests: no result."
    skipped = sum(case.get("result") == "SKIPPED" for suite in said["testsuites"]
                  for case in suite["testsuite"])
    bad = said["failures"] + said.get("errors", 0)
    return f"Twin tests: {said['tests'] - skipped - bad} passed, {bad} failed, {skipped} skipped."


def oracle(folder, name, what):
    said = read(folder, name)
    if said is None:
        return f"{what}: no result."
    rows = []
    for kind in ("step", "tf32 step", "ranks", "epochs"):
        for bits in (32, 1):
            cases = [row for row in said if row["kind"] == kind and row["bits"] == bits]
            if not cases:
                continue
            worst = {}
            for row in cases:
                for name, value in row.get("differences", {}).items():
                    worst[name] = max(worst.get(name, 0), value)
            differences = ", ".join(f"{name} {value:.1e}" for name, value in worst.items())
            rows.append([kind, bits, len(cases), sum(row["passed"] for row in cases),
                         differences or "none measured"])
    return table([what, "bits", "cases", "within bounds", "largest difference"], rows)


def micro(folder):
    said = read(folder, "bench.json")
    if said is None:
        return "Micro-benchmarks: no result."
    copy, gemm = said["copy_bytes_per_second"], said["gemm_flops"]
    rows, seconds = [], {}
    for kernel in said["kernels"]:
        time = seconds[kernel["name"]] = kernel["seconds"]
        once, gathered = kernel["bytes_once"] / time, kernel["bytes_gathered"] / time
        product = f"{100 * kernel['flops'] / time / gemm:.0f} %" if kernel["flops"] else ""
        again = f"{100 * gathered / copy:.0f} %" if gathered > once else ""
        rows.append([kernel["name"], f"{time * 1e6:.1f}", f"{once / 1e9:.0f}",
                     f"{100 * once / copy:.0f} %", again, product])
    text = (f"Copy: {copy / 1e9:.0f} GB/s read and written; large product: {gemm / 1e12:.1f} "
            f"TFLOP/s. {said['rows']} rows, {said['outputs']} outputs of degree {said['degree']}, "
            f"width {said['width']}.\n\n")
    text += table(["kernel", "us", "GB/s, each byte once", "of copy", "of copy, rows by edge",
                   "of large product"], rows)
    if PACKED in seconds and DECODED in seconds:
        text += (f"\n\nPacked aggregation at 1 bit is {seconds[DECODED] / seconds[PACKED]:.1f} "
                 "times as fast as decoding and then aggregating.")
    if INNER in seconds and CUSPARSE in seconds:
        text += (f"\n\nInner aggregation takes {seconds[INNER] / seconds[CUSPARSE]:.2f} times as "
                 "long as cuSPARSE's product (CSR_ALG2).")
    return text


def torch_rows(folder, graph, ours):
    """Of PyTorch and PyG on this graph; `ours` is Heliograph's single rank, or None."""
    said = read(folder, f"torch_{graph}.json")
    if said is None:
        return [[graph, "PyTorch", "", "no result", "", ""]]
    rows = []
    for result in said:
        name = f"{result['framework']} {result['variant']}"
        if "median" not in result:
            rows.append([graph, name, "", result.get("error", "no result"), "", ""])
            continue
        note = ""
        if ours is not None:
            same = math.isclose(result["losses"][0], ours["losses"][0], rel_tol=1e-3)
            note = (f"{result['median'] / ours['median']:.2f} x Heliograph's one rank" if same
                    else f"another first loss: {result['losses'][0]}")
        memory = result.get("device_bytes")
        rows.append([graph, name, 1, f"{1e3 * result['median']:.1f}",
                     f"{memory / 1e9:.2f}" if memory else "", note])
    return rows


def epochs(folder):
    said = read(folder, "epochs.json")
    if said is None:
        return "Epochs: no result."
    rows = []
    for graph in dict.fromkeys(row["graph"] for row in said):
        runs = [row for row in said if row["graph"] == graph]
        trained = {(row["ranks"], row["bits"]): row
                   for row in runs
                   if "median" in row and not row["tf32"] and row.get("cuda_graphs") != "on"}
        for row in runs:
            what = {"train": f"Heliograph, {row.get('bits')} bits"}.get(row["what"], row["what"])
            if "error" in row:
                rows.append([graph, what, row.get("ranks", ""), row["error"], "", ""])
            elif row["what"] == "train":
                exact = trained.get((row["ranks"], 32))
                note = ""
                if row["tf32"]:
                    what += ", TF32"
                if row.get("cuda_graphs") == "on":
                    what += ", CUDA graphs"
                    if exact:
                        note = (f"{exact['median'] / row['median']:.2f} x as fast as without CUDA "
                                "graphs")
                elif exact and row is not exact:
                    note = f"{exact['median'] / row['median']:.2f} x as fast as fp32"
                rows.append([graph, what, row["ranks"], f"{1e3 * row['median']:.1f}",
                             f"{row['memory']['total'] / 1e9:.2f}", note])
        if not any("cuda_graphs" in row for row in runs):  # Of the graphs that PyTorch is timed on.
            rows += torch_rows(folder, graph, trained.get((1, 32)))
    return table(["graph", "what", "ranks", "ms an epoch", "GB", ""], rows)


def main():
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        print("usage: table.py FOLDER", file=sys.stderr)
        return 2
    folder = sys.argv[1]
    parts = ["# GPU check", "\n".join(f"- {line}" for line in read_lines(folder, "machine.txt")),
             steps(folder), twin_tests(folder), oracle(folder, "oracle.json", "against the CPU"),
             oracle(folder, "nccl.json", "NCCL, against the CPU"), micro(folder), epochs(folder)]
    text = "\n\n".join(part for part in parts if part) + "\n"
    with open(os.path.join(folder, "table.md"), "w", encoding="utf-8") as file:
        file.write(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

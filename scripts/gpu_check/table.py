#!/usr/bin/env python3
"""Makes a Markdown report of the results of scripts/gpu_check.sh, and names those that are missing,
failed, cut off or unreadable. Usage: table.py FOLDER"""

import math
import os
import re
import sys

import predictions
from runs import FAILURES

# From experiments/, which `runs` has added to the path.
from json_file import read_json

STAYS = 1.05  # how many times as fast a feature must be for its lines to pay


def read(folder, name):
    """Reads a JSON file; None if it does not exist."""
    path = os.path.join(folder, name)
    return read_json(path) if os.path.exists(path) else None


def read_lines(folder, name):
    try:
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
            return file.read().strip().split("\n")
    except FileNotFoundError:
        return []


def cell(value):
    return str(value).replace("|", "/").replace("\n", " ")


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(map(cell, row)) + " |" for row in rows]
    return "\n".join(lines)


def machine(folder):
    return "\n".join(f"- {line}" for line in read_lines(folder, "machine.txt"))


def dry(folder):
    return "DRY RUN" in " ".join(read_lines(folder, "gpus.txt"))


def steps(folder):
    rows = [line.split("\t") for line in read_lines(folder, "steps.tsv") if line]
    if not rows:
        return "No step was run."
    return table(["step", "result", "seconds", "commit"], rows)


def twin_tests(folder, step):
    """Summarises a log of GoogleTest. A test that was cut off has a start but no end in it."""
    ends, last = {}, ""
    for line in read_lines(folder, f"{step}.log"):
        said = re.match(r"\[ +(RUN|OK|FAILED|SKIPPED) +\] (\S+?)(,|$| \(\d+ ms\))", line)
        if said:
            ends[said[2]] = said[1]
        elif " SUMMARY: " in line:
            last = " " + line.strip("= ") + "."
    if not ends:
        return f"Twin tests, {step}: no result.{last}"
    named = {kind: [name for name, end in ends.items() if end == kind] for kind in ("RUN", "FAILED")}
    count = {kind: list(ends.values()).count(kind) for kind in ("OK", "SKIPPED")}
    text = (f"Twin tests, {step}: {count['OK']} passed, {len(named['FAILED'])} failed, "
            f"{count['SKIPPED']} skipped.{last}")
    if named["RUN"]:
        text += f" Ended within: {', '.join(named['RUN'])}."
    if named["FAILED"]:
        text += f" Failed: {', '.join(named['FAILED'])}."
    return text


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
            found = [row["differences"] for row in cases if "differences" in row]
            worst = {name: max(row[name] for row in found) for name in (found[0] if found else ())}
            differences = ", ".join(f"{name} {value:.1e}" for name, value in worst.items())
            errors = dict.fromkeys(row["error"] for row in cases if "error" in row)
            rows.append([kind, bits, len(cases), len(found), sum(row["passed"] for row in cases),
                         differences or "none measured", "; ".join(errors)])
    return table([what, "bits", "cases", "measured", "within bounds", "largest difference", "else"],
                 rows)


def share(value, whole):
    return f"{100 * value / whole:.0f} %" if whole else "?"


def rates(folder):
    """The rates of the device for predictions."""
    said = read(folder, "bench.json") or {}
    gpus = read_lines(folder, "gpus.txt") or [""]
    return predictions.Rates(gpus[0], said.get("copy_bytes_per_second", 0),
                             said.get("gemm_flops", 0), len(gpus))


def against(seconds, predicted, unit):
    """Cells of a predicted time, and of the measured one divided by it."""
    return [f"{predicted * unit:.4g}", f"{seconds / predicted:.2f}"] if predicted else ["?", "?"]


def micro(folder):
    said = read(folder, "bench.json")
    if said is None:
        return "Micro-benchmarks: no result."
    copy, gemm = said["copy_bytes_per_second"], said["gemm_flops"]  # 0 if not measured
    device = rates(folder)
    rows = []
    for kernel in said["kernels"]:
        time = kernel["seconds"]
        once = kernel["bytes_once"] / time
        product = share(kernel["flops"] / time, gemm) if kernel["flops"] else ""
        name = kernel["name"]
        if kernel["subtracted"]:
            name += f" (less a wait of {kernel['subtracted'] * 1e6:.1f} us)"
        rows.append([name, f"{time * 1e6:.1f}",
                     *against(time, predictions.measured_kernel(kernel, device), 1e6),
                     f"{once / 1e9:.0f}", share(once, copy), product])
    return (f"Copy: {copy / 1e9:.0f} GB/s read and written; large product: {gemm / 1e12:.1f} "
            f"TFLOP/s. {said['rows']} rows, {said['outputs']} outputs; dN and wN: degree and width. "
            f"Times are between events, without the host's waits. Predictions: {device.source}.\n\n"
            + table(["kernel", "us", "predicted", "ratio", "GB/s, each byte once", "of copy",
                     "of large product"], rows))


def span(ratios):
    return f"{min(ratios):.2f} to {max(ratios):.2f}" if len(ratios) > 1 else f"{ratios[0]:.2f}"


def ratios(seconds, slow, fast):
    """How many times as fast as each kernel that begins with `slow` its counterpart is."""
    pairs = [(name, fast + name[len(slow):]) for name in seconds if name.startswith(slow)]
    return [seconds[name] / seconds[other] for name, other in pairs if other in seconds]


def epoch_ratios(rows, of, slow, fast):
    """The same of epochs that have the same losses and differ in what the option `of` is."""
    def measured(value):
        return {(row["data"], row["ranks"]): row for row in rows
                if "median" in row and row.get(of) == value}
    pairs = [(row, measured(fast).get(which)) for which, row in measured(slow).items()]
    return [row["median"] / other["median"] for row, other in pairs
            if other and same_losses(row["losses"], other["losses"])]


def decisions(folder):
    """Whether each feature stays, a line each."""
    kernels = (read(folder, "bench.json") or {}).get("kernels", [])
    seconds = {kernel["name"]: kernel["seconds"] for kernel in kernels}
    small = read(folder, "epochs.json") or []
    pair = read(folder, "pair.json") or []
    nccl = [row | {"register": row.get("nccl_register", False)} for row in pair
            if row.get("transport") == "nccl"]
    rows = []

    def line(what, found, yes, no, holds=True):
        if not found:
            rows.append([what, "not measured", ""])
        else:
            rows.append([what, f"{span(found)} x as fast",
                         yes if holds and max(found) >= STAYS else no])

    modes = {mode: {kernel["name"].removesuffix(mode): kernel for kernel in kernels
                    if kernel["name"].endswith(mode)} for mode in ("/pedantic", "/default")}
    default = modes["/default"]
    again = all(kernel["repeats"] for kernel in default.values())
    line("weight gradients in cuBLAS's default fp32 mode, than in pedantic mode",
         [kernel["seconds"] / default[name]["seconds"]
          for name, kernel in modes["/pedantic"].items() if name in default],
         "use default mode: every product repeated its bits",
         "keep pedantic mode" + ("" if again else ": default mode did not repeat its bits"), again)
    line("biases as the product writes, than by a pass",
         ratios(seconds, "gemm_then_bias", "gemm_bias"), "epilogues stay", "epilogues go")
    line("CUDA graphs, than launches", epoch_ratios(small, "cuda_graphs", "off", "on"),
         "graphs stay", "graphs go")
    line("packed rows of 1 bit, than decoding and then aggregating",
         ratios(seconds, "decode_then_aggregate/1", "aggregate_halo/1"),
         "the packed kernel stays", "decode first")
    line("our inner aggregation, than cuSPARSE's (CSR_ALG2)",
         ratios(seconds, "aggregate_inner_cusparse", "aggregate_inner"),
         "ours stays where it is faster", "use cuSPARSE")
    line("buffers registered with NCCL (two GPUs)", epoch_ratios(nccl, "register", False, True),
         "registration stays", "registration goes")
    line("a CUDA-aware MPI, than staging (two GPUs)",
         epoch_ratios(pair, "cuda_aware_mpi", "off", "on"), "CUDA-aware MPI stays",
         "CUDA-aware MPI goes")
    if dry(folder):
        rows = [[*row[:2], "none: dry run"] for row in rows]
    return table(["how fast are", "measured", f"verdict: {STAYS} x somewhere is enough"], rows)


def same_losses(ours, theirs):
    """Whether the first losses, which rounding hardly affects, agree."""
    return len(ours) >= 3 and all(math.isclose(a, b, rel_tol=1e-3)
                                  for a, b in zip(ours[:3], theirs[:3], strict=True))


def torch_rows(folder, graph, data, ours):
    """Rows of PyTorch and PyG on this graph; `ours` is Heliograph's row of one rank, or None."""
    said = read(folder, f"torch_{graph}.json")
    if said is None:
        return [[data, "PyTorch", "", "no result", "", "", "", ""]]
    predicted = predictions.epoch(ours, rates(folder), fused=False) if ours else None
    rows = []
    for result in said:
        name = f"{result['framework']} {result['variant']}"
        if "median" not in result:
            rows.append([result["data"], name, "", result["error"], "", "", "", ""])
            continue
        note = ""
        if result["data"] != data:
            note = f"another graph than {data}"
        elif ours is not None:
            same = same_losses(result["losses"], ours["losses"])
            note = (f"{result['median'] / ours['median']:.2f} x Heliograph's one rank" if same
                    else f"other losses: {result['losses'][:3]}, not {ours['losses'][:3]}")
        memory = result.get("device_bytes")
        rows.append([result["data"], name, 1, milliseconds(result["median"]),
                     *against(result["median"], predicted, 1e3),
                     f"{memory / 1e9:.2f}" if memory else "", note])
    return rows


def milliseconds(seconds):
    return f"{1e3 * seconds:.4g}"


def epochs(folder, name):
    said = read(folder, f"{name}.json")
    if said is None:
        return f"{name.capitalize()}: no result."
    rows, device = [], rates(folder)
    for data in dict.fromkeys(row["data"] for row in said):
        runs = [row for row in said if row["data"] == data]
        trained = {(row["ranks"], row["bits"]): row
                   for row in runs
                   if "median" in row and not row["tf32"] and row.get("cuda_graphs") != "on"
                   and row.get("transport") in (None, "threads")}
        for row in runs:
            what = {"train": f"Heliograph, {row.get('bits')} bits"}.get(row["what"], row["what"])
            if row.get("tf32"):
                what += ", TF32"
            if row.get("cuda_graphs") == "on":
                what += ", CUDA graphs"
            if "transport" in row:
                what += f", {row['transport']}" + ", registered" * row.get("nccl_register", False)
            if "cuda_aware_mpi" in row:
                what += f", CUDA-aware {row['cuda_aware_mpi']}"
            if "error" in row:
                rows.append([data, what, row.get("ranks", ""), row["error"], "", "", "", ""])
            elif row["what"] == "train":
                exact = trained.get((row["ranks"], 32))
                note = ""
                one = trained.get((1, 32))
                if row.get("cuda_graphs") == "on":
                    if exact and exact["losses"] != row["losses"]:
                        note = "other losses than without CUDA graphs"
                    elif exact:
                        note = (f"{exact['median'] / row['median']:.2f} x as fast as without CUDA "
                                "graphs")
                elif one and row is exact and not same_losses(row["losses"], one["losses"]):
                    note = f"other losses: {row['losses'][:3]}, one rank's are {one['losses'][:3]}"
                elif "transport" in row and exact and row is not exact:
                    note = (f"{exact['median'] / row['median']:.2f} x as fast as threads"
                            if same_losses(row["losses"], exact["losses"])
                            else f"other losses: {row['losses'][:3]}, not {exact['losses'][:3]}")
                elif exact and row is not exact:
                    note = f"{exact['median'] / row['median']:.2f} x as fast as fp32"
                rows.append([data, what, row["ranks"], milliseconds(row["median"]),
                             *against(row["median"], predictions.epoch(row, device), 1e3),
                             f"{row['memory']['total'] / 1e9:.2f}", note])
        if name == "epochs" and runs[0]["graph"] != "small":  # PyTorch is timed on the others
            rows += torch_rows(folder, runs[0]["graph"], data, trained.get((1, 32)))
    return table(["graph", name, "ranks", "ms an epoch", "predicted", "ratio", "GB", ""], rows)


def section(name, make, *arguments):
    """Makes a section, or a message if it cannot be made."""
    try:
        return make(*arguments)
    except (*FAILURES, AttributeError, ZeroDivisionError) as error:
        return f"{name} cannot be read: {type(error).__name__}: {cell(error)}"


def main():
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        print("usage: table.py FOLDER", file=sys.stderr)
        return 2
    folder = sys.argv[1]
    parts = ["# GPU check" + ": DRY RUN" * dry(folder), section("machine.txt", machine, folder),
             section("steps.tsv", steps, folder)]
    parts += [section(f"{step}.log", twin_tests, folder, step)
              for step in ("tests", "memcheck", "racecheck")]
    parts += [section("oracle.json", oracle, folder, "oracle.json", "against the CPU"),
              section("nccl.json", oracle, folder, "nccl.json", "NCCL, against the CPU"),
              section("decisions", decisions, folder), section("bench.json", micro, folder),
              section("epochs.json", epochs, folder, "epochs")]
    if os.path.exists(os.path.join(folder, "pair.json")):
        parts.append(section("pair.json", epochs, folder, "pair"))
    text = "\n\n".join(part for part in parts if part) + "\n"
    path = os.path.join(folder, "table.md")
    with open(path + ".partial", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".partial", path)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The table of a fault campaign. Standard library only."""

import collections
import statistics


def held(trials, kind):
    """Returns how many trials had no fault of this kind, such as "299 of 300 (99.6 %)". The share
    is rounded down."""
    if not trials:
        return "-"
    good = sum(not trial["faults"][kind] for trial in trials)
    return f"{good} of {len(trials)} ({int(1000 * good / len(trials)) / 10:g} %)"


def last_seconds(trials):
    """Returns as text the [median, maximum] of the seconds until the last rank had ended."""
    times = [max(trial["seconds"].values()) for trial in trials if trial["seconds"]]
    if not times:
        return ["-", "-"]
    return [f"{statistics.median(times):.2f} s", f"{max(times):.2f} s"]


def grouped(trials, key, total="all"):
    """Groups trials by `key`. Returns [(name, trials)]; the last of several groups holds all."""
    groups = collections.defaultdict(list)
    for trial in trials:
        groups[key(trial)].append(trial)
    rows = sorted(groups.items())
    return rows if len(rows) < 2 else [*rows, (total, trials)]


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|---" + "|---:" * (len(header) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def codes(trials, key):
    """Returns how many trials have each value of `key`, such as "137 (290), 5 (10)"."""
    counted = collections.Counter(str(trial[key]) for trial in trials)
    return ", ".join(f"{code} ({count})" for code, count in counted.most_common())


def kill_table(trials):
    rows = []
    for ranks, some in grouped(trials, lambda trial: f"{trial['cell']['ranks']}, "
                               + ("TCP" if trial["cell"]["tcp"] else "shared memory")):
        saved = [trial for trial in some if trial["saved"]]
        rows.append([ranks, len(some), held(some, "exit"), *last_seconds(some),
                     held(saved, "resume"),
                     held([trial for trial in some if not trial["saved"]], "resume")])
    return table(["ranks, messages by", "SIGKILLs", "every survivor ended with 5 and named it within 2 s",
                  "last survivor, median", "worst", "went on with the same bits",
                  "nothing saved yet: said so, began anew with the same bits"], rows) + (
        f"\n\nExit codes of mpirun: {codes(trials, 'launcher')}. "
        f"Nothing left behind: {held(trials, 'orphans')}.")


def silence_table(what, who):
    def make(trials):
        rows = [[name if name == "all" else f"{name:g} s", len(some), held(some, "exit"),
                 *last_seconds(some), held(some, "orphans")]
                for name, some in grouped(trials, lambda trial: trial["limit"])]
        returned = [trial["launcher_seconds"] - trial["limit"] for trial in trials
                    if trial["launcher"] is not None]
        late = (f"mpirun had returned by itself {max(returned):.1f} s after the limit at the latest "
                f"in {len(returned)} of {len(trials)}" if returned else
                "mpirun never returned by itself")
        return table(["limit of silence", what,
                      f"{who} ended with 5 and named one of those lost to it within limit + 2 s",
                      "last one, median", "worst", "nothing left behind"], rows) + (
            f"\n\nExit codes of mpirun: {codes(trials, 'launcher')}; {late}.")
    return make


def save_table(trials):
    killed = [trial for trial in trials if trial["injected"] == "KILL"]
    failed = [trial for trial in trials if trial["injected"] != "KILL"]
    parts = []
    for some, header, key in (
            (killed, "SIGKILL at", lambda trial: trial["point"].split()[0]),
            (failed, "failure, --on-save-failure",
             lambda trial: f"{trial['injected']}, {trial['on_save_failure']}")):
        rows = []
        for name, group in grouped(some, key):
            saved = [trial for trial in group if trial["saved"]]
            rows.append([name, len(group), held(group, "left"), held(saved, "resume"),
                         held([t for t in group if not t["saved"]], "resume")])
        parts.append(table([header, "calls", "the checkpoint before was there, exit code as said",
                            "every checkpoint left went on with the same bits",
                            "nothing saved yet: said so, began anew with the same bits"], rows))
    return "\n\n".join(parts)


def term_table(trials):
    rows = []
    for name, some in grouped(trials, lambda trial: trial["ran_by"]):
        saved = [trial for trial in some if trial["saved"]]
        rows.append([name, len(some), held(some, "exit"), *last_seconds(some),
                     held(saved, "resume"), held([t for t in some if not t["saved"]], "resume")])
    return table(["ranks by", "SIGTERMs", "ended with 143, every epoch saved", "ended after, median",
                  "worst", "went on with the same bits",
                  "no epoch had ended: said so, began anew with the same bits"], rows)


TABLES = {
    "kill": ("SIGKILL of a rank", kill_table),
    "stop": ("SIGSTOP of a rank", silence_table("SIGSTOPs", "every survivor")),
    "cut": ("A cut link, 4 emulated hosts", silence_table("cuts", "every rank on both sides")),
    "save": ("SIGKILL, ENOSPC and EIO in a save", save_table),
    "term": ("SIGTERM", term_table),
}


def make_report(campaigns):
    """Returns the report as Markdown. `campaigns` is the content of trials.json."""
    parts = []
    for name, (title, make) in TABLES.items():
        about = campaigns.get(name)
        if not about or not about["trials"]:
            continue
        head = (f"Seed {about['seed']}, {about['version']}; {about['seconds'] / 60:.1f} minutes; "
                f"{about['started']}.")
        if about["drawn_again"]:
            head += (f" In {about['drawn_again']} more the run was over before the moment came: "
                     "drawn again.")
        parts += [f"## {title}", make(about["trials"]), head]
    return "\n\n".join(parts) + "\n"

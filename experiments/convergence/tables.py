"""Makes runs.csv and a Markdown table from finished runs."""

if __name__ == "__main__":
    raise SystemExit("tables.py is a part of sweep.py: start that")

import csv
import math
import statistics

from print_table import format_table, gradient_bytes, halo_bytes, human_bytes, total_bytes

ROUNDING = 1e-9  # Points by which equal differences differ in floating point, at most.
FEWEST = 3  # With 2 seeds, t is 12.7, so the interval of a score mostly leaves the range of scores.
SCORE_NAMES = {"accuracy": "accuracy", "f1": "micro-F1", "macro-f1": "macro-F1", "auc": "ROC AUC",
               "ap": "average precision", "r2": "R²", "rmse": "RMSE"}
NO_INTERVAL = (f"[-]: no interval, since there are fewer than {FEWEST} seeds or all values "
               "are equal, which does not show how much they vary.")


def t_interval(differences):
    """Half width of the 95 % confidence interval of a mean (Student's t). None for fewer than
    FEWEST values, and for equal ones: scores are counts of nodes, so their spread is smaller than they resolve, not 0."""
    from scipy import stats
    count = len(differences)
    if count < FEWEST or statistics.stdev(differences) < ROUNDING:
        return None
    return stats.t.ppf(0.975, count - 1) * statistics.stdev(differences) / math.sqrt(count)


def with_interval(values, form):
    """The mean and its 95 % confidence interval, with each number in the format `form`."""
    mean, half = statistics.mean(values), t_interval(values)
    if half is None:
        return f"{mean:{form}} [-]"
    return f"{mean:{form}} [{mean - half:{form}}, {mean + half:{form}}]"


def paired(these, others, factor, form):
    """The mean difference of scores {seed: score} over the seeds of both, times `factor`, with its 95 %
    interval; "-" if they share none."""
    both = sorted(set(these) & set(others))
    return with_interval([factor * (these[s] - others[s]) for s in both], form) if both else "-"


def name_of_score(metrics):
    """What scores of these metrics, one a run, are called. Raises ValueError if they are several."""
    different = sorted(set(metrics))
    if len(different) > 1:
        raise ValueError("the runs cannot be compared, because their scores are of several metrics "
                         f"({', '.join(different)}); give all settings the same --metric")
    return SCORE_NAMES[different[0]]


def differences_of(score):
    """What differences of this score are called, how many of them a score of 1 is, and their format:
    points are hundredths of scores that are 1 at best."""
    return ("difference", 1, "+.4f") if score == SCORE_NAMES["rmse"] else ("points", 100, "+.2f")


def write_csv(path, runs):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["setting", "seed", "bits_forward", "bits_backward", "staleness",
                         "metric", "test_metric", "val_metric", "best_epoch", "epochs", "epoch_seconds_median", "epoch_seconds_p95",
                         "exposed_comm_seconds", "halo_bytes_per_epoch",
                         "allreduce_bytes_per_epoch", "fp32_bytes_per_epoch", "peak_rss_bytes"])
        for r in runs:
            s = r.summary()
            writer.writerow([r.setting, r.seed, s["bits_forward"], s["bits_backward"],
                             s["staleness"], s["metric"], s["test_metric"], s["val_metric"],
                             s["best_epoch"], s["epochs"],
                             s["epoch_seconds"]["median"], s["epoch_seconds"]["p95"],
                             s["seconds"]["exposed_comm"], halo_bytes(s),
                             gradient_bytes(s), s["fp32_bytes_per_epoch"],
                             s["peak_rss_bytes"]])


def make_table(settings, runs, score):
    """Table with a row for each setting. Differences are to the first setting over the seeds of
    both."""
    unit, factor, form = differences_of(score)
    summaries = {name: {r.seed: r.summary() for r in runs if r.setting == name}
                 for name in settings}
    by_seed_of = {name: {seed: s["test_metric"] for seed, s in found.items()}
                  for name, found in summaries.items()}
    rows = []
    for name in settings:
        by_seed = summaries[name]
        if not by_seed:
            continue
        scores = list(by_seed_of[name].values())
        difference = "-"
        if name != settings[0]:
            difference = paired(by_seed_of[name], by_seed_of[settings[0]], factor, form)
        deviation = f"{statistics.stdev(scores):.4f}" if len(scores) > 1 else "-"
        epoch = statistics.median(s["epoch_seconds"]["median"] for s in by_seed.values())
        rows.append([name, str(len(scores)), with_interval(scores, ".4f"), deviation,
                     difference, f"{1e3 * epoch:.1f} ms",
                     *(human_bytes(statistics.mean(map(count, by_seed.values())))
                       for count in (halo_bytes, gradient_bytes, total_bytes))])
    table = format_table(["setting", "seeds", f"mean {score} [95 %]", "deviation",
                          f"{unit} against {settings[0]} [95 %]", "epoch", "node rows",
                          "gradients", "bytes an epoch"], rows)
    return f"{table}\n\n{NO_INTERVAL}" if "[-]" in table else table

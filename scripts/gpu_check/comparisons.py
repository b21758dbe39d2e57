"""Differences between the numbers of two runs. Missing, empty or non-finite numbers raise
ValueError, since comparisons with NaN are always false."""

import math

LEAST = 1e-12  # least reference of a relative difference


def check_numbers(values, count, what):
    if len(values) != count or count == 0:
        raise ValueError(f"{what}: {len(values)} values, not {count or 'some'}")
    for value in values:
        if not isinstance(value, (int, float)) or not math.isfinite(value):
            raise ValueError(f"{what}: {value} is not a finite number")


def loss_difference(ours, theirs, count):
    """Largest relative difference of two lists of `count` losses."""
    check_numbers(theirs, count, "losses of the reference")
    check_numbers(ours, count, "losses")
    return max(abs(a - b) / max(abs(b), LEAST) for a, b in zip(ours, theirs, strict=True))


def distance(a, b):
    return math.sqrt(math.fsum((x - y) ** 2 for x, y in zip(a, b, strict=True)))


def gradient_difference(ours, theirs):
    """Largest distance of a parameter's two gradients, relative to the norm of the reference."""
    if not theirs or set(ours) != set(theirs):
        raise ValueError(f"parameters {sorted(ours)}, not those of the reference: {sorted(theirs)}")
    for name, values in theirs.items():
        check_numbers(values, len(values), f"gradient of {name} of the reference")
        check_numbers(ours[name], len(values), f"gradient of {name}")
    if not any(map(any, theirs.values())):
        raise ValueError("every gradient of the reference is 0")
    return max(distance(ours[name], theirs[name]) / max(math.hypot(*theirs[name]), LEAST)
               for name in theirs)


def within(differences, bounds):
    """Whether each bound has a difference, and each difference is at most its bound."""
    return (bool(bounds) and set(differences) == set(bounds)
            and all(0 <= differences[name] <= bounds[name] for name in bounds))

#!/usr/bin/env python3
"""Checks that the project keeps its own rules (checks.py), or that a check finds violations.

Usage: house.py CHECK --root DIR [--compiler CXX]     exits 0 held, 1 broken, 77 skipped
       house.py CHECK --self-test                     plants each violation and expects it named
Standard library only.
"""

import argparse
import os
import sys
import tempfile

from checks import CHECKS, CLEAN, PLANTS, Skip

SKIPPED = 77


def write(root, path, contents):
    target = os.path.join(root, path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "w", encoding="utf-8") as file:
        file.write(contents)


def report(name, violations):
    """Prints what a check found; returns the exit code."""
    if isinstance(violations, Skip):
        print(f"skipped {name}: {violations.reason}")
        return SKIPPED
    for violation in violations:
        print(violation)
    print(f"{name}: {'held' if not violations else f'{len(violations)} violations'}")
    return 1 if violations else 0


def self_test(name, options):
    """Checks that a clean tree passes and that each planted violation alone is named."""
    failures = []
    with tempfile.TemporaryDirectory() as root:
        for path, contents in CLEAN.items():
            write(root, path, contents)
        violations = CHECKS[name](root, **options)
        if isinstance(violations, Skip):
            return report(name, violations)
        if violations:
            failures.append(f"a clean tree fails: {violations}")
        for path, contents, words in PLANTS[name]:
            write(root, path, contents)
            violations = CHECKS[name](root, **options)
            os.remove(os.path.join(root, path))
            if not any(words in violation for violation in violations):
                failures.append(f"{path}: planted, but not named ({words!r}): {violations}")
    for failure in failures:
        print(failure)
    print(f"{name}: {len(PLANTS[name]) - len(failures)} of {len(PLANTS[name])} plants found")
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("check", choices=sorted(CHECKS))
    parser.add_argument("--root", help="the project's folder")
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    options = {"compiler": arguments.compiler}
    if arguments.self_test:
        sys.exit(self_test(arguments.check, options))
    if not arguments.root:
        parser.error("--root is required")
    sys.exit(report(arguments.check, CHECKS[arguments.check](arguments.root, **options)))


if __name__ == "__main__":
    main()

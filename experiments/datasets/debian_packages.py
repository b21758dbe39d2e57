#!/usr/bin/env python3
"""Builds the graph of Debian packages from this machine's own package lists.

Nodes      packages, sorted by name.
Edges      package -> packages in its Depends, Pre-Depends, Recommends, Suggests and Enhances.
           Every alternative of "a | b" counts. A virtual package stands for the packages that
           provide it, the first --providers of them by name.
Features   the words of the one-line description, hashed into --columns columns (CRC-32), with rows
           of unit length. Section and Tag are not used.
Labels     --target section: one class a package, without the archive area ("contrib/").
           --target tag: one column for each tag that at least --min-tag-count packages have;
           packages without tags have a row of -1.
Splits     --splits random splits of the labelled packages, 60/20/20, from --split-seed.

The file is the .npz form of CSR triples that `heliograph import` reads (docs/formats.md). The same
lists and options give the same bytes. Needs NumPy. Reads the output of `apt-cache dumpavail`, or a
file with the same contents.
"""

import argparse
import collections
import re
import shutil
import subprocess
import sys
import zlib

try:
    import numpy as np
except ImportError:
    sys.exit("debian_packages.py: NumPy is missing for this Python: install python3-numpy and run "
             "it with /usr/bin/python3")

RELATIONS = ("Depends", "Pre-Depends", "Recommends", "Suggests", "Enhances")
FIELDS = frozenset(RELATIONS + ("Package", "Provides", "Description", "Section", "Tag"))
WORD = re.compile(r"[a-z0-9][a-z0-9+#]*")
BRACES = re.compile(r"([\w:-]*)\{([^}]*)\}")


def read_lists(path):
    """Returns the text of the package lists; exits with a message if there are none."""
    if path:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    else:
        if not shutil.which("apt-cache"):
            sys.exit("debian_packages.py: apt-cache was not found: this graph is built from the "
                     "package lists of a Debian machine")
        done = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, check=False)
        if done.returncode != 0:
            sys.exit("debian_packages.py: apt-cache dumpavail failed: "
                     + done.stderr.decode(errors="replace").strip())
        text = done.stdout.decode("utf-8", errors="replace")
    if "Package:" not in text:
        sys.exit("debian_packages.py: there are no package lists here: run `apt-get update` first")
    return text


def parse(text):
    """Returns {package: {field: value}} with the fields in use and the first version of a name."""
    packages = {}
    for stanza in text.split("\n\n"):
        fields, field = {}, None
        for line in stanza.split("\n"):
            if line[:1] in (" ", "\t"):
                # Continuation lines of a description are its long form, which some lists lack.
                if field in fields and field != "Description":
                    fields[field] += " " + line.strip()
            else:
                field, _, value = line.partition(":")
                if field in FIELDS:
                    fields[field] = value.strip()
        if "Package" in fields:
            packages.setdefault(fields["Package"], fields)
    return packages


def names_in(relation):
    """Yields the names in "a (>= 1) | b:any, c [amd64]" without versions and qualifiers."""
    for alternative in re.split(r"[,|]", relation):
        name = re.split(r"[\s(\[:<]", alternative.strip(), maxsplit=1)[0]
        if name:
            yield name


def find_edges(packages, order, providers):
    """Sorted unique (source, target) pairs without loops, as an int64 array [edges, 2]."""
    number = {name: i for i, name in enumerate(order)}
    provided = collections.defaultdict(list)
    for name in order:
        for virtual in set(names_in(packages[name].get("Provides", ""))):
            provided[virtual].append(number[name])
    edges = set()
    for source, name in enumerate(order):
        for relation in RELATIONS:
            for target in names_in(packages[name].get(relation, "")):
                if target in number:
                    edges.add((source, number[target]))
                else:
                    followed = provided.get(target, [])
                    edges.update((source, t) for t in (followed[:providers] if providers
                                                       else followed))
    edges = sorted((s, t) for s, t in edges if s != t)
    return np.array(edges, dtype=np.int64).reshape(-1, 2)


def hash_words(packages, order, columns):
    """Returns CSR (values float32, columns int32, offsets int64) of the descriptions' words."""
    values, indices, offsets = [], [], [0]
    for name in order:
        words = set(WORD.findall(packages[name].get("Description", "").lower()))
        counts = collections.Counter(zlib.crc32(word.encode()) % columns for word in words)
        norm = sum(c * c for c in counts.values()) ** 0.5
        for column in sorted(counts):
            indices.append(column)
            values.append(counts[column] / norm)
        offsets.append(len(indices))
    return (np.array(values, dtype=np.float32), np.array(indices, dtype=np.int32),
            np.array(offsets, dtype=np.int64))


def tags_of(fields):
    """Returns the set of a package's tags; "a::{b,c}" is short for "a::b, a::c"."""
    text = BRACES.sub(lambda m: ", ".join(m[1] + part.strip() for part in m[2].split(",")),
                      fields.get("Tag", ""))
    return {tag.strip() for tag in text.split(",") if tag.strip()}


def section_labels(packages, order):
    """Returns (labels int64 [nodes], -1 for no section; class names)."""
    sections = [packages[name].get("Section", "").rsplit("/", 1)[-1] for name in order]
    names = sorted(set(sections) - {""})
    number = {name: i for i, name in enumerate(names)}
    return np.array([number.get(s, -1) for s in sections], dtype=np.int64), names


def tag_labels(packages, order, min_count):
    """Returns (indicators int8 [nodes, tags], rows of -1 for no tags; tag names)."""
    tags = [tags_of(packages[name]) for name in order]
    counts = collections.Counter(tag for of_package in tags for tag in of_package)
    names = sorted(tag for tag, count in counts.items() if count >= min_count)
    if not names:
        sys.exit(f"debian_packages.py: no tag has {min_count} packages: lower --min-tag-count")
    number = {name: i for i, name in enumerate(names)}
    labels = np.full((len(order), len(names)), -1, dtype=np.int8)
    for node, of_package in enumerate(tags):
        if of_package:
            labels[node] = 0
            labels[node, [number[tag] for tag in of_package if tag in number]] = 1
    return labels, names


def random_masks(labelled, splits, seed):
    """Bool masks (train, validation, test), each [splits, nodes], 60/20/20 of `labelled`."""
    nodes = np.flatnonzero(labelled)
    masks = [np.zeros((splits, labelled.size), dtype=bool) for _ in range(3)]
    for split in range(splits):
        shuffled = np.random.RandomState([seed, split]).permutation(nodes)
        first, second = int(0.6 * nodes.size), int(0.8 * nodes.size)
        for mask, part in zip(masks, np.split(shuffled, [first, second])):
            mask[split, part] = True
    return masks


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=("section", "tag"), required=True)
    parser.add_argument("--out", required=True, help="the .npz file to write")
    parser.add_argument("--dump", help="a file with package lists, instead of apt-cache dumpavail")
    parser.add_argument("--columns", type=int, default=512, help="feature columns (default: 512)")
    parser.add_argument("--providers", type=int, default=8,
                        help="most providers of a virtual package; 0 means all (default: 8)")
    parser.add_argument("--min-tag-count", type=int, default=100,
                        help="fewest packages of a tag that counts (default: 100)")
    parser.add_argument("--splits", type=int, default=5, help="random splits (default: 5)")
    parser.add_argument("--split-seed", type=int, default=0, help="seed of the splits (default: 0)")
    options = parser.parse_args()
    for flag, value, least in (("--columns", options.columns, 1), ("--splits", options.splits, 1),
                               ("--providers", options.providers, 0),
                               ("--split-seed", options.split_seed, 0)):
        if value < least:
            parser.error(f"{flag} {value} is below {least}")

    packages = parse(read_lists(options.dump))
    order = sorted(packages)
    nodes = len(order)
    edges = find_edges(packages, order, options.providers)
    values, columns, offsets = hash_words(packages, order, options.columns)
    if options.target == "section":
        labels, class_names = section_labels(packages, order)
        labelled = labels >= 0
    else:
        labels, class_names = tag_labels(packages, order, options.min_tag_count)
        labelled = labels[:, 0] >= 0
    train, validation, test = random_masks(labelled, options.splits, options.split_seed)

    np.savez_compressed(
        options.out if options.out.endswith(".npz") else options.out + ".npz",
        adj_data=np.ones(len(edges), dtype=np.float32),
        adj_indices=edges[:, 1].astype(np.int32),
        adj_indptr=np.concatenate([[0], np.cumsum(np.bincount(edges[:, 0], minlength=nodes))]),
        adj_shape=np.array([nodes, nodes], dtype=np.int64),
        attr_data=values, attr_indices=columns, attr_indptr=offsets,
        attr_shape=np.array([nodes, options.columns], dtype=np.int64),
        labels=labels, class_names=np.array(class_names),
        train_masks=train, val_masks=validation, test_masks=test)
    print(f"{nodes:,} packages, {len(edges):,} directed edges, {len(values):,} feature values in "
          f"{options.columns} columns; {int(labelled.sum()):,} labelled, {len(class_names)} "
          f"{'sections' if options.target == 'section' else 'tags'}; {options.splits} splits")


if __name__ == "__main__":
    main()

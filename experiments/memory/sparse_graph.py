#!/usr/bin/env python3
"""Makes a random graph with sparse features as a NumPy archive for `heliograph import`.
memory/loading.py measures on it the cost of reading such features.

Edges join pairs of nodes drawn uniformly; each node has `--words` distinct words, drawn uniformly,
each with the value 1; labels are drawn uniformly. With --weighted, edges have weights from 0.125 to 2
that follow from their ends. Needs NumPy.

Usage: memory/sparse_graph.py --out graph.npz [--nodes 200000] [--edges 1000000]
           [--words 50] [--of 4000] [--seed 1] [--weighted]
"""

import argparse

import numpy as np


def distinct_words(random, nodes, words, of):
    """Returns nodes x words word ids, ascending and distinct in each row: one of each of `words`
    equal parts of the vocabulary."""
    starts = np.arange(words) * of // words
    ends = (np.arange(words) + 1) * of // words
    return (starts + random.integers(0, ends - starts, size=(nodes, words))).astype(np.int32)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="the archive to write")
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--words", type=int, default=50, help="words of each node")
    parser.add_argument("--of", type=int, default=4000, help="words of the vocabulary (columns)")
    parser.add_argument("--classes", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--weighted", action="store_true", help="give edges weights")
    options = parser.parse_args()
    if options.words > options.of:
        parser.error("--words is more than --of")
    random = np.random.default_rng(options.seed)
    words = distinct_words(random, options.nodes, options.words, options.of)
    edges = random.integers(0, options.nodes, size=(options.edges, 2))
    # An edge that is drawn twice or in reverse has the same weight.
    weights = {"edge_weight": (1 + edges.sum(axis=1) % 16) / 8} if options.weighted else {}
    np.savez(options.out, **weights,
             edges=edges,
             attr_data=np.ones(words.size, dtype=np.float32),
             attr_indices=words.ravel(),
             attr_indptr=np.arange(options.nodes + 1, dtype=np.int64) * options.words,
             attr_shape=np.array([options.nodes, options.of]),
             labels=random.integers(0, options.classes, size=options.nodes))


if __name__ == "__main__":
    main()

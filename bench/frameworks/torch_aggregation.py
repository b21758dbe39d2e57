"""Aggregation over the graph with PyTorch's own operations. Each has both A and A^T, so that the
backward pass multiplies as fast as the forward pass; `Aggregate` makes a pair differentiable."""

import numpy as np
import torch


class Aggregate(torch.autograd.Function):
    """Differentiable A x, with gradient A^T d, from functions that compute the two."""

    @staticmethod
    def forward(ctx, x, forward, backward):
        ctx.multiply = backward
        return forward(x)

    @staticmethod
    def backward(ctx, d):
        return ctx.multiply(d), None, None


def scales(graph, sums):
    """Returns the float32 arrays R and C, None for ones, of A = R (S + I) C if sums are "symmetric",
    else of A = R S C, where S is the adjacency: a "mean" or a "sum"."""
    degrees = graph.degrees.astype(np.float64)
    if sums == "symmetric":
        both = (1 / np.sqrt(degrees + 1)).astype(np.float32)
        return both, both
    if sums == "sum":
        return None, None
    return np.divide(1, degrees, out=np.zeros_like(degrees),
                     where=degrees > 0).astype(np.float32), None


def structure(graph, sums):
    """Returns (offsets, columns) of S + I for symmetric sums, else of S."""
    if sums != "symmetric":
        return graph.offsets, graph.neighbours
    # Each row's own column is inserted so that the row stays ascending.
    rows = np.repeat(np.arange(graph.nodes, dtype=np.int32), graph.degrees)
    below = np.bincount(rows[graph.neighbours < rows], minlength=graph.nodes)
    columns = np.insert(graph.neighbours, graph.offsets[:-1] + below,
                        np.arange(graph.nodes, dtype=np.int32))
    return graph.offsets + np.arange(graph.nodes + 1), columns


def normalised_values(offsets, columns, row_scale, column_scale):
    values = np.repeat(row_scale, np.diff(offsets))
    if column_scale is not None:
        values *= column_scale[columns]
    return values


def make_csr(graph, sums, index, transposed=False):
    """Returns A, or A^T, as a torch.sparse_csr tensor with fp32 values and index dtype `index`."""
    offsets, columns = structure(graph, sums)
    row_scale, column_scale = scales(graph, sums)
    if transposed:  # the structure is symmetric
        row_scale, column_scale = column_scale, row_scale
    if row_scale is None:
        row_scale = np.ones(graph.nodes, np.float32)
    values = normalised_values(offsets, columns, row_scale, column_scale)
    return torch.sparse_csr_tensor(torch.from_numpy(offsets).to(index),
                                   torch.from_numpy(columns).to(index),
                                   torch.from_numpy(values), (graph.nodes, graph.nodes))


def csr_products(graph, sums, index, reduced, device):
    """Functions of A x and A^T x by torch.sparse.mm; `reduced` selects its form with reduce="sum",
    whose kernel is PyTorch's own instead of MKL's."""
    a = make_csr(graph, sums, index).to(device)
    transposed = a if sums != "mean" else make_csr(graph, sums, index, transposed=True).to(device)

    def by(matrix):
        if reduced:
            return lambda x: torch.sparse.mm(matrix, x, "sum")
        return lambda x: matrix @ x

    return by(a), by(transposed)


def bag_products(graph, sums):
    """Functions of A x and A^T x by embedding_bag, which sums rows between two scalings."""
    offsets, columns = structure(graph, sums)
    offsets = torch.from_numpy(offsets).to(torch.int32)
    columns = torch.from_numpy(columns)
    row_scale, column_scale = (None if s is None else torch.from_numpy(s)[:, None]
                               for s in scales(graph, sums))

    def by(left, right):
        def multiply(x):
            x = x.contiguous() if right is None else x * right
            y = torch.nn.functional.embedding_bag(columns, x, offsets, mode="sum",
                                                  include_last_offset=True)
            return y if left is None else y.mul_(left)
        return multiply

    return by(row_scale, column_scale), by(column_scale, row_scale)


def make_products(graph, sums, variant, device):
    """Functions of A x and A^T x for one of the variants of worker.py."""
    if variant == "bag":
        return bag_products(graph, sums)
    index = torch.int32 if variant.endswith("int32") else torch.int64
    return csr_products(graph, sums, index, variant.startswith("reduce"), device)

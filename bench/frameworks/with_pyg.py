"""PyTorch Geometric's GCNConv and SAGEConv over an adjacency that is normalised once.

Variant `csr` gives the layers a torch.sparse_csr tensor, for which PyG has fused sums on a CPU.
Variant `reduce` sums by torch.sparse.mm with reduce="sum", the operation that PyG calls for a
SparseTensor; the package torch-sparse itself is on the index as source only. Variant `gather` is
PyG's usual edge_index, which writes a row for each edge and is tried only if the rows fit.
"""

import torch
import torch_geometric
from torch import nn
from torch_geometric.nn import GCNConv, SAGEConv
from torch_geometric.utils import spmm

from torch_aggregation import make_csr
from torch_model import Dense


class Convolution(nn.Module):
    """A layer with its adjacency: a matrix, or an edge_index with, for GCN, edge weights."""

    def __init__(self, layer, adjacency):
        super().__init__()
        self.layer, self.adjacency = layer, adjacency

    def forward(self, x):
        return self.layer(x, *self.adjacency)


def copy_weights(linear, weight):
    with torch.no_grad():
        linear.weight.copy_(torch.from_numpy(weight.T))
        if linear.bias is not None:
            linear.bias.zero_()


class ReducedGCN(GCNConv):
    def message_and_aggregate(self, adj_t, x):
        return torch.sparse.mm(adj_t, x, "sum")


class ReducedSAGE(SAGEConv):
    def message_and_aggregate(self, adj_t, x):
        return torch.sparse.mm(adj_t, x[0], "sum")


def make_layer(weights, kind, model):
    rows, cols = weights["weight"].shape
    if model == "gcn":  # the adjacency is already normalised
        layer = (ReducedGCN if kind == "reduce" else GCNConv)(rows, cols, normalize=False)
        copy_weights(layer.lin, weights["weight"])
        return layer
    # SAGE's adjacency is normalised too, except for an edge_index, which has no values.
    layer = (ReducedSAGE if kind == "reduce" else SAGEConv)(
        rows, cols, aggr="mean" if kind == "gather" else "sum")
    copy_weights(layer.lin_l, weights["weight"])
    copy_weights(layer.lin_r, weights["self_weight"])
    return layer


def make_edges(matrix, model):
    """Returns (edge_index[, edge_weight]) of a CSR matrix whose rows are targets."""
    rows = torch.repeat_interleave(torch.arange(matrix.shape[0]), matrix.crow_indices().diff())
    edges = torch.stack([matrix.col_indices(), rows])
    return (edges, matrix.values()) if model == "gcn" else (edges,)


def convolutions(graph, features, weights, job):
    kind, index = job["variant"].split("-")
    matrix = make_csr(graph, job["model"], getattr(torch, index))
    adjacency = make_edges(matrix, job["model"]) if kind == "gather" else (matrix,)
    layers = [Convolution(make_layer(layer, kind, job["model"]), adjacency) for layer in weights]
    if job["precompute"]:
        with torch.no_grad():
            layers[0] = Dense(weights[0], spmm(matrix, features, "sum"))
    return layers


def versions():
    return {"torch_geometric": torch_geometric.__version__, "torch": torch.__version__}

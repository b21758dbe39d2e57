"""DGL's GraphConv and SAGEConv over a DGLGraph that has both sparse formats."""

import dgl
import torch
from dgl.nn.pytorch import GraphConv, SAGEConv
from torch import nn

from torch_aggregation import structure
from torch_model import Dense

COLUMNS = 256


class Convolution(nn.Module):
    def __init__(self, layer, graph):
        super().__init__()
        self.layer, self.graph = layer, graph

    def forward(self, x):
        return self.layer(self.graph, x)


def make_layer(weights, model):
    rows, cols = weights["weight"].shape
    with torch.no_grad():
        if model == "gcn":
            layer = GraphConv(rows, cols, norm="both")
            layer.weight.copy_(torch.from_numpy(weights["weight"]))
        else:
            layer = SAGEConv(rows, cols, "mean")
            layer.fc_neigh.weight.copy_(torch.from_numpy(weights["weight"].T))
            layer.fc_self.weight.copy_(torch.from_numpy(weights["self_weight"].T))
            layer.fc_self.bias.zero_()
    return layer


def aggregate_once(graph, model, x):
    """Returns A x, computed by DGL's own sums."""
    degrees = graph.in_degrees().float().clamp(min=1)[:, None]
    scale = degrees.rsqrt() if model == "gcn" else 1 / degrees
    y = torch.empty_like(x)
    # In blocks of columns, as DGL 2.1 has crashed on sums of 512 columns and more.
    for begin in range(0, x.shape[1], COLUMNS):
        block = x[:, begin:begin + COLUMNS].contiguous()
        if model == "gcn":
            block = block * scale
        y[:, begin:begin + COLUMNS] = dgl.ops.copy_u_sum(graph, block) * scale
    return y


def convolutions(graph, features, weights, job):
    offsets, columns = structure(graph, job["model"])
    index = torch.int32 if job["variant"].endswith("int32") else torch.int64
    made = dgl.graph(("csc", (torch.from_numpy(offsets).to(index),
                              torch.from_numpy(columns).to(index), [])), num_nodes=graph.nodes)
    made.create_formats_()
    layers = [Convolution(make_layer(layer, job["model"]), made) for layer in weights]
    if job["precompute"]:
        layers[0] = Dense(weights[0], aggregate_once(made, job["model"], features))
    return layers


def versions():
    return {"dgl": dgl.__version__, "torch": torch.__version__}

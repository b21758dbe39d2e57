"""DGL's own layers over a DGLGraph that has both sparse formats."""

import dgl
import torch
from dgl.nn.pytorch import (APPNPConv, GATConv, GATv2Conv, GCN2Conv, GINConv, GraphConv, JumpingKnowledge, SAGEConv)
from torch import nn

import torch_model
from torch_aggregation import structure

COLUMNS = 256


class OnGraph(nn.Module):
    def __init__(self, layer, graph):
        super().__init__()
        self.layer, self.graph = layer, graph

    def forward(self, *x):
        return self.layer(self.graph, *x)


class Heads(nn.Module):
    """Heads side by side, or their mean."""

    def __init__(self, layer, average):
        super().__init__()
        self.layer, self.average = layer, average

    def forward(self, x):
        y = self.layer(x)
        return y.mean(1) if self.average else y.flatten(1)


class Sum(nn.Module):
    """A x by DGL's own sums, in blocks of columns, as DGL 2.1 has crashed on sums of 512 columns and
    more."""

    def __init__(self, graph, sums):
        super().__init__()
        degrees = graph.in_degrees().float().clamp(min=1)[:, None]
        self.graph = graph
        self.left = {"symmetric": degrees.rsqrt(), "mean": 1 / degrees, "sum": None}[sums]
        self.right = self.left if sums == "symmetric" else None

    def forward(self, x):
        x = x if self.right is None else x * self.right
        y = torch.cat([dgl.ops.copy_u_sum(self.graph, block.contiguous())
                       for block in x.split(COLUMNS, 1)], 1)
        return y if self.left is None else y * self.left


class Framework(torch_model.Framework):
    def __init__(self, graph, variant, device="cpu"):
        self.native, self.device, self.made = graph, device, {}
        self.index = torch.int32 if variant.endswith("int32") else torch.int64

    def graph(self, sums, numbered=False):
        """`numbered`: edges have numbers, without which DGL 2.1 crashes in GATConv's backward."""
        key = sums == "symmetric", numbered
        if key not in self.made:
            offsets, columns = structure(self.native, sums)
            numbers = torch.arange(len(columns) if numbered else 0).to(self.index)
            made = dgl.graph(("csc", (torch.from_numpy(offsets).to(self.index),
                                      torch.from_numpy(columns).to(self.index), numbers)),
                             num_nodes=self.native.nodes)
            made.create_formats_()
            self.made[key] = made.to(self.device)
        return self.made[key]

    def aggregate(self, sums):
        return Sum(self.graph(sums), sums)

    def convolution(self, weights, sums, name, bias):
        weight = torch_model.weight_name(weights, name)
        rows, cols = weights.tensors[weight].shape
        has_bias = bias in weights.tensors
        if sums == "symmetric":
            layer = GraphConv(rows, cols, norm="both", bias=has_bias)
            weights.bind(weight, layer.weight)
            weights.bind_bias(bias, layer.bias)
        else:
            layer = SAGEConv(rows, cols, "mean", bias=has_bias)
            weights.bind(weight, layer.fc_neigh.weight, transposed=True)
            weights.bind(name + ".self_weight", layer.fc_self.weight, transposed=True)
            weights.bind_bias(bias, layer.fc_self.bias)
        return OnGraph(layer, self.graph(sums))

    def gin(self, weights, name, mlp):
        learned = name + ".epsilon" in weights.tensors
        layer = GINConv(mlp, "sum", learn_eps=learned)
        if learned:
            weights.bind(name + ".epsilon", layer.eps)
        return OnGraph(layer, self.graph("sum"))

    def gcn2(self, weights, name, number, alpha, theta):
        width = weights.tensors[name + ".weight"].shape[0]
        layer = GCN2Conv(width, number + 1, alpha, theta, bias=name + ".bias" in weights.tensors)
        weights.bind(name + ".weight", layer.weight1)
        weights.bind_bias(name + ".bias", layer.bias)
        return OnGraph(layer, self.graph("symmetric"))

    def attention(self, weights, name, average, options):
        dynamic, rows, heads, cols = self.attention_shape(weights, name)
        layer = (GATv2Conv if dynamic else GATConv)(
            rows, cols, heads, attn_drop=options["attention-dropout"],
            negative_slope=options["negative-slope"], bias=False)
        if dynamic:
            weights.bind(name + ".source.weight", layer.fc_src.weight, transposed=True)
            weights.bind(name + ".target.weight", layer.fc_dst.weight, transposed=True)
            weights.bind(name + ".vector", layer.attn)
        else:
            weights.bind(name + ".input.weight", layer.fc.weight, transposed=True)
            weights.bind(name + ".source", layer.attn_l)
            weights.bind(name + ".target", layer.attn_r)
        return Heads(OnGraph(layer, self.graph("symmetric", numbered=True)), average)

    def appnp(self, hops, teleport):
        return OnGraph(APPNPConv(hops, teleport), self.graph("symmetric"))

    def join(self, mode):
        return JumpingKnowledge(mode)


def versions():
    return {"dgl": dgl.__version__, "torch": torch.__version__}

"""PyTorch Geometric's own layers.

Variant `gather` is PyG's usual edge_index, which PyG normalises itself and which writes a row for
each edge. Variant `csr` gives the layers a torch.sparse_csr tensor with normalised values, for which
PyG has fused sums on a CPU. Variant `reduce` sums by torch.sparse.mm with reduce="sum", the
operation that PyG calls for a SparseTensor; the package torch-sparse itself is on the index as
source only.
"""

import torch
import torch_geometric
from torch import nn
from torch_geometric.nn import (APPNP, GATConv, GATv2Conv, GCN2Conv, GCNConv, GINConv,
                                JumpingKnowledge, SAGEConv, SimpleConv)
from torch_geometric.nn.conv.gcn_conv import gcn_norm

import torch_model
from native_graph import Unsupported
from torch_aggregation import make_csr


def message_and_aggregate(self, adj_t, x):
    return torch.sparse.mm(adj_t, x[0] if isinstance(x, tuple) else x, "sum")


# The layer classes with sums by torch.sparse.mm with reduce="sum". PyG tells classes apart by name.
REDUCED = {kind: type("Reduced" + kind.__name__, (kind,),
                      {"message_and_aggregate": message_and_aggregate, "__module__": __name__})
           for kind in (APPNP, GCN2Conv, GCNConv, GINConv, SAGEConv, SimpleConv)}


class OnGraph(nn.Module):
    """A layer with its adjacency, and a bias if the layer itself has none."""

    def __init__(self, layer, adjacency, bias=None):
        super().__init__()
        self.layer, self.adjacency, self.bias = layer, adjacency, bias

    def forward(self, *x):
        y = self.layer(*x, *self.adjacency)
        return y if self.bias is None else y + self.bias


class Framework(torch_model.Framework):
    def __init__(self, graph, variant, device="cpu"):
        self.graph, self.device, self.made = graph, device, {}
        self.kind, index = variant.split("-")
        self.index = getattr(torch, index)
        # PyG normalises an edge_index and keeps the result.
        self.normalising = {"cached": True} if self.kind == "gather" else {"normalize": False}

    def adjacency(self, sums):
        """The arguments after x of a layer: an edge_index, or a normalised matrix."""
        if self.kind == "gather":
            sums = "sum"
        if sums not in self.made:
            matrix = make_csr(self.graph, sums, self.index)
            if self.kind == "gather":
                rows = torch.repeat_interleave(torch.arange(matrix.shape[0]),
                                               matrix.crow_indices().diff())
                matrix = torch.stack([matrix.col_indices(), rows])
            self.made[sums] = (matrix.to(self.device),)
            if self.graph.weights is not None:
                self.made[sums] += (torch.from_numpy(self.graph.weights).to(self.device),)
        return self.made[sums]

    def require_no_weights(self, layer):
        if self.graph.weights is not None:
            raise Unsupported(f"PyG's {layer} takes no weights of edges")

    def make(self, kind, *arguments, **options):
        return (REDUCED[kind] if self.kind == "reduce" else kind)(*arguments, **options)

    def aggregate(self, sums):
        if self.kind != "gather":
            return OnGraph(self.make(SimpleConv), self.adjacency(sums))
        if sums != "symmetric":
            return OnGraph(SimpleConv(aggr=sums), self.adjacency(sums))
        if "normalised" not in self.made:
            self.made["normalised"] = gcn_norm(*self.adjacency("sum"), num_nodes=self.graph.nodes)
        return OnGraph(SimpleConv(), self.made["normalised"])

    def convolution(self, weights, sums, name, bias):
        weight = torch_model.weight_name(weights, name)
        rows, cols = weights.tensors[weight].shape
        has_bias = bias in weights.tensors
        if sums == "symmetric":
            layer = self.make(GCNConv, rows, cols, bias=has_bias, **self.normalising)
            linear, vector = layer.lin, layer.bias
        else:  # A matrix is divided by the degrees already.
            self.require_no_weights("SAGEConv")
            layer = self.make(SAGEConv, rows, cols, bias=has_bias,
                              aggr="mean" if self.kind == "gather" else "sum")
            linear, vector = layer.lin_l, layer.lin_l.bias
            weights.bind(name + ".self_weight", layer.lin_r.weight, transposed=True)
        weights.bind(weight, linear.weight, transposed=True)
        weights.bind_bias(bias, vector)
        return OnGraph(layer, self.adjacency(sums))

    def gin(self, weights, name, mlp):
        self.require_no_weights("GINConv")
        learned = name + ".epsilon" in weights.tensors
        layer = self.make(GINConv, nn.Identity(), train_eps=learned)
        layer.nn = mlp  # the constructor would initialise it again
        if learned:
            weights.bind(name + ".epsilon", layer.eps)
        return OnGraph(layer, self.adjacency("sum"))

    def gcn2(self, weights, name, number, alpha, theta):
        width = weights.tensors[name + ".weight"].shape[0]
        layer = self.make(GCN2Conv, width, alpha, theta, number + 1, **self.normalising)
        weights.bind(name + ".weight", layer.weight1)
        return OnGraph(layer, self.adjacency("symmetric"), self.bias_of(weights, name))

    def attention(self, weights, name, average, options):
        self.require_no_weights("attention")
        dynamic, rows, heads, cols = self.attention_shape(weights, name)
        layer = (GATv2Conv if dynamic else GATConv)(
            rows, cols, heads, concat=not average, bias=False, add_self_loops=False,
            negative_slope=options["negative-slope"], dropout=options["attention-dropout"])
        if dynamic:
            weights.bind(name + ".source.weight", layer.lin_l.weight, transposed=True)
            weights.bind(name + ".target.weight", layer.lin_r.weight, transposed=True)
            weights.bind(name + ".vector", layer.att)
        else:
            weights.bind(name + ".input.weight", layer.lin.weight, transposed=True)
            weights.bind(name + ".source", layer.att_src)
            weights.bind(name + ".target", layer.att_dst)
        if "loops" not in self.made:  # Whatever the variant, attention reads an edge_index.
            index = make_csr(self.graph, "sum", self.index)
            rows = torch.repeat_interleave(torch.arange(self.graph.nodes), index.crow_indices().diff())
            own = torch.arange(self.graph.nodes)
            self.made["loops"] = (torch.stack([torch.cat([index.col_indices(), own]),
                                               torch.cat([rows, own])]).to(self.device),)
        return OnGraph(layer, self.made["loops"])

    def appnp(self, hops, teleport):
        return OnGraph(self.make(APPNP, hops, teleport, **self.normalising),
                       self.adjacency("symmetric"))

    def join(self, mode):
        return JumpingKnowledge(mode)


def versions():
    return {"torch_geometric": torch_geometric.__version__, "torch": torch.__version__}

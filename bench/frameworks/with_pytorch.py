"""Plain PyTorch, with A as a sparse matrix or as bags of rows; x W is computed first if it is
narrower than x."""

import torch
from torch import nn

from torch_aggregation import Aggregate, make_products
from torch_model import Dense


class Convolution(nn.Module):
    def __init__(self, weights, products):
        super().__init__()
        self.products = products
        self.weight = nn.Parameter(torch.from_numpy(weights["weight"]))
        self.self_weight = None
        if "self_weight" in weights:
            self.self_weight = nn.Parameter(torch.from_numpy(weights["self_weight"]))
        self.bias = nn.Parameter(torch.zeros(self.weight.shape[1]))
        self.transform_first = self.weight.shape[1] < self.weight.shape[0]

    def forward(self, x):
        if self.transform_first:
            y = Aggregate.apply(x @ self.weight, *self.products) + self.bias
        else:
            y = torch.addmm(self.bias, Aggregate.apply(x, *self.products), self.weight)
        return y if self.self_weight is None else torch.addmm(y, x, self.self_weight)


def convolutions(graph, features, weights, job):
    products = make_products(graph, job["model"], job["variant"])
    layers = [Convolution(layer, products) for layer in weights]
    if job["precompute"]:
        layers[0] = Dense(weights[0], products[0](features))
    return layers


def versions():
    return {"torch": torch.__version__}

"""Plain PyTorch, with A as a sparse matrix or as bags of rows; layers as torch_model builds them
from sums over neighbours."""

import torch
from torch import nn

import torch_model
from torch_aggregation import Aggregate, make_products


class Sum(nn.Module):
    def __init__(self, products):
        super().__init__()
        self.products = products

    def forward(self, x):
        return Aggregate.apply(x, *self.products)


class Framework(torch_model.Framework):
    def __init__(self, graph, variant, device="cpu"):
        self.graph, self.variant, self.device, self.made = graph, variant, device, {}

    def aggregate(self, sums):
        if sums not in self.made:
            self.made[sums] = Sum(make_products(self.graph, sums, self.variant, self.device))
        return self.made[sums]


def versions():
    return {"torch": torch.__version__}

"""The model and the training loop that PyTorch, PyG and DGL share: a stack of each framework's own
convolutions, with LayerNorm and ReLU between them."""

import time

import torch
from torch import nn
from torch.nn import functional


class Dense(nn.Module):
    """A first layer with A x computed beforehand: (A x) W and, for SAGE, the node's own row."""

    def __init__(self, weights, aggregated):
        super().__init__()
        self.aggregated = aggregated
        self.weight = nn.Parameter(torch.from_numpy(weights["weight"]))
        self.self_weight = None
        if "self_weight" in weights:
            self.self_weight = nn.Parameter(torch.from_numpy(weights["self_weight"]))
        self.bias = nn.Parameter(torch.zeros(self.weight.shape[1]))

    def forward(self, x):
        y = torch.addmm(self.bias, self.aggregated, self.weight)
        return y if self.self_weight is None else torch.addmm(y, x, self.self_weight)


class Network(nn.Module):
    def __init__(self, convolutions, widths, norm):
        super().__init__()
        self.convolutions = nn.ModuleList(convolutions)
        self.norms = nn.ModuleList(
            nn.LayerNorm(out, eps=1e-5) if norm == "layer" else nn.Identity()
            for _, out in widths[:-1])

    def forward(self, x):
        for convolution, norm in zip(self.convolutions, self.norms):
            x = torch.relu(norm(convolution(x)))
        return self.convolutions[-1](x)


def train(network, graph, features, job):
    """Trains and returns the losses before each step and the seconds of each step."""
    decayed = [p for p in network.parameters() if p.dim() == 2]
    others = [p for p in network.parameters() if p.dim() != 2]
    optimizer = torch.optim.Adam([{"params": decayed, "weight_decay": job["weight_decay"]},
                                  {"params": others}], lr=job["lr"], betas=(0.9, 0.999), eps=1e-8)
    # The loss ignores class -100, so no rows of training nodes need to be gathered.
    target = torch.from_numpy(graph.class_of).long()
    target[~torch.from_numpy(graph.training)] = -100
    target = target.to(features.device)
    losses, seconds = [], []
    for _ in range(job["epochs"]):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(network(features), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
    return losses, seconds

"""The training loop that PyTorch, PyG and DGL share."""

import time

import torch
from torch.nn import functional


def targets(graph, device):
    """Classes of the training nodes; -100, which the loss ignores, elsewhere, so that no rows of
    training nodes need to be gathered."""
    wanted = torch.from_numpy(graph.class_of).long()
    wanted[~torch.from_numpy(graph.training)] = -100
    return wanted.to(device)


def make_optimizer(network, lr, weight_decay):
    decayed = [p for p in network.parameters() if p.dim() == 2]
    others = [p for p in network.parameters() if p.dim() != 2]
    return torch.optim.Adam([{"params": decayed, "weight_decay": weight_decay},
                             {"params": others}], lr=lr, betas=(0.9, 0.999), eps=1e-8)


def train(network, graph, features, job):
    """Trains and returns the losses before each step and the seconds of each step."""
    optimizer = make_optimizer(network, job["lr"], job["weight_decay"])
    target = targets(graph, features.device)
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

"""The model of the comparison in NumPy and fp64: a readable, slow reference for tests on small
graphs, with which the other frameworks must agree."""

import numpy as np

EPSILON_NORM = 1e-5
BETA1, BETA2, EPSILON_ADAM = 0.9, 0.999, 1e-8


def make_aggregation(graph, model):
    """Returns functions that compute A x and A^T x for x of nodes x columns. With adjacency S, A is
    D^-1/2 (S + I) D^-1/2 for GCN (Kipf & Welling 2017), D^-1 S for SAGE (Hamilton et al. 2017)."""
    degrees = graph.degrees.astype(np.float64)
    target = np.repeat(np.arange(graph.nodes), graph.degrees)

    def sum_neighbours(x):
        out = np.zeros_like(x)
        np.add.at(out, target, x[graph.neighbours])
        return out

    if model == "gcn":
        scale = 1 / np.sqrt(degrees + 1)[:, None]

        def symmetric(x):
            return scale * (sum_neighbours(scale * x) + scale * x)

        return symmetric, symmetric
    scale = np.divide(1, degrees, out=np.zeros_like(degrees), where=degrees > 0)[:, None]
    return (lambda x: scale * sum_neighbours(x)), (lambda x: sum_neighbours(scale * x))


def normalise_rows(y):
    """LayerNorm without gain and shift. Returns the rows and 1 / their standard deviation."""
    centred = y - y.mean(axis=1, keepdims=True)
    inverse = 1 / np.sqrt((centred ** 2).mean(axis=1, keepdims=True) + EPSILON_NORM)
    return centred * inverse, inverse


class NumpyModel:
    """The gcn or sage model of `layers` layers with the tensors of the engine."""

    def __init__(self, graph, tensors, layers):
        self.model = "sage" if "layers.0.self_weight" in tensors else "gcn"
        self.graph = graph
        self.aggregate, self.aggregate_back = make_aggregation(graph, self.model)
        names = {"neighbour_weight": "weight", "norm_gain": "gain", "norm_shift": "shift"}
        self.layers = [{} for _ in range(layers)]
        for name, value in tensors.items():
            _, number, short = name.split(".")
            self.layers[int(number)][names.get(short, short)] = value.astype(np.float64)

    def loss_and_gradients(self):
        """Mean cross-entropy over the training nodes, and a dict of gradients for each layer."""
        x, kept = self.graph.features.astype(np.float64), []
        for number, p in enumerate(self.layers):
            aggregated = self.aggregate(x)
            y = aggregated @ p["weight"] + p["bias"]
            if self.model == "sage":
                y += x @ p["self_weight"]
            normal, inverse = normalise_rows(y) if "gain" in p else (y, None)
            z = normal * p["gain"] + p["shift"] if "gain" in p else normal
            kept.append((x, aggregated, normal, inverse, z))
            x = np.maximum(z, 0) if number < len(self.layers) - 1 else z

        rows = np.flatnonzero(self.graph.training)
        wanted = self.graph.class_of[rows]
        logits = x[rows] - x[rows].max(axis=1, keepdims=True)
        shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        loss = -np.log(shares[np.arange(len(rows)), wanted]).mean()
        shares[np.arange(len(rows)), wanted] -= 1
        d = np.zeros_like(x)
        d[rows] = shares / len(rows)

        gradients = [{} for _ in self.layers]
        for number in reversed(range(len(self.layers))):
            p, g = self.layers[number], gradients[number]
            x, aggregated, normal, inverse, z = kept[number]
            if number < len(self.layers) - 1:
                d = d * (z > 0)
            if "gain" in p:
                g["gain"], g["shift"] = (d * normal).sum(axis=0), d.sum(axis=0)
                d = d * p["gain"]
                d = inverse * (d - d.mean(axis=1, keepdims=True)
                               - normal * (d * normal).mean(axis=1, keepdims=True))
            g["bias"] = d.sum(axis=0)
            g["weight"] = aggregated.T @ d
            below = self.aggregate_back(d @ p["weight"].T)
            if self.model == "sage":
                g["self_weight"] = x.T @ d
                below = below + d @ p["self_weight"].T
            d = below
        return loss, gradients


def train(network, epochs, lr, weight_decay):
    """Adam (Kingma & Ba 2015, algorithm 1) with L2 on weights; returns the loss before each step."""
    moments = [{name: (np.zeros_like(v), np.zeros_like(v)) for name, v in layer.items()}
               for layer in network.layers]
    losses = []
    for step in range(1, epochs + 1):
        loss, gradients = network.loss_and_gradients()
        losses.append(float(loss))
        for layer, held, found in zip(network.layers, moments, gradients):
            for name, value in layer.items():
                g = found[name] + (weight_decay * value if name.endswith("weight") else 0)
                m = BETA1 * held[name][0] + (1 - BETA1) * g
                v = BETA2 * held[name][1] + (1 - BETA2) * g * g
                held[name] = (m, v)
                value -= lr * (m / (1 - BETA1 ** step)) / (
                    np.sqrt(v / (1 - BETA2 ** step)) + EPSILON_ADAM)
    return losses

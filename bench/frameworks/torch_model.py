"""The models of docs/models.md in PyTorch, as a stack of a framework's own layers. The options and
tensors of a weights file of the engine describe the model, so all frameworks build any of them
here, and each tensor of the file has one parameter."""

import math

import torch
from torch import nn
from torch.nn import functional

FUNCTIONS = {"relu": torch.relu, "gelu": functional.gelu, "elu": functional.elu}
SUMS = {"sage": "mean", "gin": "sum"}  # how a model sums neighbours; the others: "symmetric"
ATTENTION = ("gat", "gat-sep", "gatv2")


class Weights:
    """Tensors of the engine, and the parameter of a module that each is bound to. Without `copy`,
    modules keep the values with which their framework initialised them."""

    def __init__(self, tensors, copy=True):
        self.tensors, self.copy, self.bound = tensors, copy, {}

    def bind(self, name, parameter, transposed=False):
        if self.copy:
            value = torch.from_numpy(self.tensors[name].copy())
            with torch.no_grad():
                parameter.copy_(value.T if transposed else value)
        self.bound[name] = parameter, transposed

    def bind_bias(self, name, parameter):
        """Binds a bias, or checks that neither side has one."""
        if (name in self.tensors) != (parameter is not None):
            raise ValueError(f"{name} is on one side only")
        if parameter is not None:
            self.bind(name, parameter)

    def linear(self, name, bias=""):
        """The product with matrix `name`, plus the vector `bias` if the engine has it."""
        rows, cols = self.tensors[name].shape
        made = nn.Linear(rows, cols, bias=bias in self.tensors)
        self.bind(name, made.weight, transposed=True)
        if made.bias is not None:
            self.bind(bias, made.bias)
        return made

    def norm(self, name):
        """The LayerNorm or BatchNorm called `name`; the identity if there is none."""
        gain = self.tensors.get(name + ".norm_gain")
        if gain is None:
            return nn.Identity()
        batch = name + ".running_mean" in self.tensors
        made = (nn.BatchNorm1d if batch else nn.LayerNorm)(len(gain), eps=1e-5)
        self.bind(name + ".norm_gain", made.weight)
        self.bind(name + ".norm_shift", made.bias)
        if batch:
            self.bind(name + ".running_mean", made.running_mean)
            self.bind(name + ".running_variance", made.running_var)
        return made

    def gradients(self):
        """{name: gradient} of the last backward pass, in the engine's shapes."""
        return {name: (p.grad.T if transposed else p.grad).cpu().numpy()
                for name, (p, transposed) in self.bound.items() if p.grad is not None}


def weight_name(weights, name):
    """The name of the weight of the sums over neighbours in layer `name`."""
    both = name + ".self_weight" in weights.tensors
    return f"{name}.{'neighbour_weight' if both else 'weight'}"


class Framework:
    """A framework's layers on one graph. Here they are built from its sums over neighbours;
    frameworks that have layers of their own override them."""

    def aggregate(self, sums):
        """A module that computes A x, with "symmetric" sums (D^-1/2 (S + I) D^-1/2), their "mean"
        (D^-1 S) or "sum" (S), where S is the adjacency."""
        raise NotImplementedError

    def convolution(self, weights, sums, name, bias):
        """A x W + bias; if sums are means, GraphSAGE's A x W + x W_self + bias."""
        made = Convolution(self.aggregate(sums), weights.linear(weight_name(weights, name), bias))
        return Plus(made, weights.linear(name + ".self_weight")) if sums == "mean" else made

    def gin(self, weights, name, mlp):
        epsilon = nn.Parameter(torch.zeros(1)) if name + ".epsilon" in weights.tensors else None
        if epsilon is not None:
            weights.bind(name + ".epsilon", epsilon)
        return Isomorphism(self.aggregate("sum"), mlp, epsilon)

    def gcn2(self, weights, name, number, alpha, theta):
        return Returning(self.aggregate("symmetric"), weights.linear(f"{name}.weight"), alpha,
                         math.log(theta / (number + 1) + 1),
                         self.bias_of(weights, name))

    def attention(self, weights, name, average, options):
        """Graph attention by the tensors `name`.*, whose heads are side by side or averaged."""
        raise NotImplementedError

    @staticmethod
    def attention_shape(weights, name):
        """Returns (whether scores are dynamic, columns of x, heads, columns of a head)."""
        dynamic = name + ".vector" in weights.tensors
        product, scores = (".source.weight", ".vector") if dynamic else (".input.weight", ".source")
        return (dynamic, weights.tensors[name + product].shape[0],
                *weights.tensors[name + scores].shape)

    def appnp(self, hops, teleport):
        return PageRank(self.aggregate("symmetric"), hops, teleport)

    def join(self, mode):
        """A module that joins a list of matrices: "cat" or "max"."""
        return Join(mode)

    @staticmethod
    def bias_of(weights, name):
        """A parameter for the bias of a layer that has none in this framework, or None."""
        if name + ".bias" not in weights.tensors:
            return None
        made = nn.Parameter(torch.zeros(weights.tensors[name + ".bias"].shape))
        weights.bind(name + ".bias", made)
        return made


class Convolution(nn.Module):
    """A x W + bias, with the product first if it is narrower than x."""

    def __init__(self, aggregate, linear):
        super().__init__()
        self.aggregate, self.linear = aggregate, linear

    def forward(self, x):
        if self.linear.out_features >= self.linear.in_features:
            return self.linear(self.aggregate(x))
        y = self.aggregate(functional.linear(x, self.linear.weight))
        return y if self.linear.bias is None else y + self.linear.bias


class Isomorphism(nn.Module):
    def __init__(self, aggregate, mlp, epsilon):
        super().__init__()
        self.aggregate, self.mlp, self.epsilon = aggregate, mlp, epsilon

    def forward(self, x):
        own = x if self.epsilon is None else (1 + self.epsilon) * x
        return self.mlp(self.aggregate(x) + own)


class Returning(nn.Module):
    """A layer of GCNII."""

    def __init__(self, aggregate, linear, alpha, beta, bias):
        super().__init__()
        self.aggregate, self.linear, self.alpha, self.beta = aggregate, linear, alpha, beta
        self.bias = bias

    def forward(self, x, root):
        r = torch.lerp(self.aggregate(x), root, self.alpha)
        y = torch.lerp(r, self.linear(r), self.beta)
        return y if self.bias is None else y + self.bias


class PageRank(nn.Module):
    def __init__(self, aggregate, hops, teleport):
        super().__init__()
        self.aggregate, self.hops, self.teleport = aggregate, hops, teleport

    def forward(self, x):
        root = x
        for _ in range(self.hops):
            x = torch.lerp(self.aggregate(x), root, self.teleport)
        return x


class Join(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.mode = mode

    def forward(self, parts):
        return torch.cat(parts, 1) if self.mode == "cat" else torch.stack(parts).amax(0)


class Plus(nn.Module):
    """The sum of what two modules make of x."""

    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x):
        return self.first(x) + self.second(x)


class Chain(nn.Sequential):
    """Modules one after the other, then the sum with a parameter, unless that is None."""

    def __init__(self, *modules, bias=None):
        super().__init__(*modules)
        self.last_bias = bias

    def forward(self, x):
        y = super().forward(x)
        return y if self.last_bias is None else y + self.last_bias


class Constant(nn.Module):
    """Gives a matrix that was computed beforehand, such as A x, to a module."""

    def __init__(self, value, module):
        super().__init__()
        self.module = module
        self.register_buffer("value", value, persistent=False)

    def forward(self, _):
        return self.module(self.value)


class Function(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.function = FUNCTIONS[name]

    def forward(self, x):
        return self.function(x)


def make_layer(options, weights, framework, number, aggregated):
    """The product of layer `number`, with the two products of GIN and of --feed-forward."""
    model, name = options["model"], f"layers.{number}"
    if model in ("appnp", "dagnn"):
        return weights.linear(name + ".weight", name + ".bias")
    if model in ATTENTION:
        return make_attention(options, weights, framework, name)
    sums = SUMS.get(model, "symmetric")
    if model != "gin" and not options["feed-forward"]:
        return make_convolution(weights, framework, sums, name, name + ".bias", aggregated)
    wide = options["feed-forward"] > 0
    bias = name + (".output.bias" if name + ".output.bias" in weights.tensors else ".bias")
    tail = [weights.norm(name + ".inner"), Function("gelu" if wide else options["activation"]),
            nn.Dropout(options["dropout"]), weights.linear(name + ".output.weight", bias)]
    if wide:
        return nn.Sequential(
            make_convolution(weights, framework, sums, name, name + ".inner.bias", aggregated), *tail)
    mlp = nn.Sequential(weights.linear(name + ".weight", name + ".inner.bias"), *tail)
    return framework.gin(weights, name, mlp) if aggregated is None else Constant(aggregated, mlp)


def make_attention(options, weights, framework, name):
    """A layer of attention, and the linear maps of its output and of its input."""
    has = weights.tensors.__contains__
    mapped = has(name + ".neighbour_weight") or has(name + ".weight")
    logits = name == f"layers.{options['layers'] - 1}" and not has("output_linear.weight")
    average = (logits and not mapped) or not options["concat-heads"]
    made = framework.attention(weights, name + ".attention", average, options)
    wide = options["feed-forward"] > 0
    bias = name + (".attention.bias" if has(name + ".attention.bias") else
                   ".inner.bias" if wide else ".bias")
    if not has(name + ".self_weight") and not mapped:
        return Chain(made, bias=framework.bias_of(weights, bias.removesuffix(".bias")))
    if mapped:
        made = Chain(made, weights.linear(name + ".neighbour_weight", bias))
        bias = ""
    if has(name + ".self_weight"):
        made = Plus(made, weights.linear(name + ".self_weight", bias))
    if not wide:
        return made
    return nn.Sequential(made, Function("gelu"), nn.Dropout(options["dropout"]),
                         weights.linear(name + ".output.weight", name + ".bias"))


def make_convolution(weights, framework, sums, name, bias, aggregated):
    if aggregated is None:
        made = framework.convolution(weights, sums, name, bias)
        adds = sums != "mean"
    else:
        made = Constant(aggregated, weights.linear(weight_name(weights, name), bias))
        adds = True
    if adds and name + ".self_weight" in weights.tensors:
        return Plus(made, weights.linear(name + ".self_weight"))
    return made


class Network(nn.Module):
    """The model of `options` (of read_weights). With `precompute`, A x is computed here, once."""

    def __init__(self, options, weights, framework, features, precompute=False):
        super().__init__()
        self.options = options
        model, has = options["model"], weights.tensors.__contains__
        dropout = options["dropout"]
        self.act, self.drop = FUNCTIONS[options["activation"]], nn.Dropout(dropout)
        self.drop_input = nn.Dropout(options.get("input-dropout", dropout))
        self.input = None
        if has("input_linear.weight"):
            self.input = weights.linear("input_linear.weight", "input_linear.bias")
        names = [f"layers.{l}" for l in range(options["layers"])]
        self.pre_norms = nn.ModuleList(weights.norm(n + ".pre_norm") for n in names)
        self.norms = nn.ModuleList(weights.norm(n) for n in names)
        if model == "gcnii":
            self.layers = nn.ModuleList(
                framework.gcn2(weights, name, l, options["alpha"], options["theta"])
                for l, name in enumerate(names))
        else:
            aggregated = self.first_sum(framework, features) if precompute else None
            self.layers = nn.ModuleList(
                make_layer(options, weights, framework, l, None if l else aggregated)
                for l in range(len(names)))
        jk = "concat" if (model, options["jk"]) == ("jknet", "none") else options["jk"]
        self.join = None if jk == "none" else framework.join({"concat": "cat"}.get(jk, jk))
        self.output_norm = weights.norm("output_norm")
        self.output = None
        if has("output_linear.weight"):
            self.output = weights.linear("output_linear.weight", "output_linear.bias")
        self.hops = self.gate = None
        if model == "appnp":
            self.hops = framework.appnp(options["hops"], options["teleport"])
        if model == "dagnn":
            self.hops, self.gate = framework.aggregate("symmetric"), weights.linear(
                "gate.score_weight")
        left = set(weights.tensors) - set(weights.bound) - {"features.mean", "features.deviation"}
        if left:
            raise ValueError(f"no parameter for {', '.join(sorted(left))}")

    def first_sum(self, framework, features):
        """What the first layer multiplies by its weight; None if it has to be summed each time."""
        o = self.options
        if o["model"] in ("appnp", "dagnn", *ATTENTION) or o["input-linear"] or o["eps-learned"]:
            return None
        with torch.no_grad():
            aggregated = framework.aggregate(SUMS.get(o["model"], "symmetric"))(features)
            return aggregated + features if o["model"] == "gin" else aggregated

    def forward(self, x):
        o = self.options
        x = self.drop_input(x)
        if self.input is not None:
            x = self.act(self.input(x))
        root, outputs = x, []
        if self.input is not None:
            x = self.drop(x)
        for number, layer in enumerate(self.layers):
            last = number == len(self.layers) - 1 and self.output is None
            x = self.run_layer(number, layer, x, root, last)
            outputs.append(x)
        if self.join is not None:
            x = self.join(outputs)
        if self.output is not None:
            if o["pre-norm"]:
                x = self.drop(self.output_norm(x))
            x = self.output(x)
        if self.gate is not None:
            return self.gated(x)
        return x if self.hops is None else self.hops(x)

    def run_layer(self, number, layer, x, root, last):
        o = self.options
        if o["pre-norm"]:
            u = self.pre_norms[number](x)
            u = self.drop(u if o["feed-forward"] else self.act(u))
            return x + layer(u)
        y = layer(x, root) if o["model"] == "gcnii" else layer(x)
        if last:
            return y
        y = self.act(self.norms[number](y))
        adds = o["residual"] == "identity" and y.shape == x.shape
        return self.drop(y + x if adds else y)

    def gated(self, x):
        """The sum over all numbers of hops of sigmoid(Z s) Z."""
        out = torch.sigmoid(self.gate(x)) * x
        for _ in range(self.options["hops"]):
            x = self.hops(x)
            out = out + torch.sigmoid(self.gate(x)) * x
        return out

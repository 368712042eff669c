# SPDX-License-Identifier: Apache-2.0
"""torch.nn's modules as operations of a chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from .compile.values import written

# What a module is now: texts of its ops and their tensors, or why it is none.
Spelled = tuple[list[str], list[torch.Tensor]] | str
# Tells the shape (N, C, space...) of what a module is given; None before there is a call.
ShapeOf = Callable[[], Sequence[Any]] | None


def _affine(module: Any, words: list[str], name: str, statistics: tuple[torch.Tensor, ...] = ()) -> Spelled:
    weight, bias = module.weight, module.bias
    if weight is None and bias is not None:
        return "it has a bias and no weight"
    operands = [*statistics]
    if weight is not None:
        words.append("affine")
        operands += [weight, bias if bias is not None else torch.zeros_like(weight)]
    if module.eps != 1e-5:
        words.append(f"eps={written(module.eps)}")
    return [f"{name}({', '.join(words)})" if words else name], operands


def _batch_norm(module: Any) -> Spelled:
    if module.training or module.running_mean is None:
        return "it normalises by the batch's own statistics"
    return _affine(module, [], "batch_norm", (module.running_mean, module.running_var))


def _instance_norm(module: Any) -> Spelled:
    if module.running_mean is not None:
        return "it updates running statistics" if module.training else _affine(
            module, [], "batch_norm", (module.running_mean, module.running_var))
    return _affine(module, [], "instance_norm")


def _group_norm(module: Any) -> Spelled:
    return _affine(module, [str(module.num_groups)], "group_norm")


def _layer_norm(module: Any) -> Spelled:
    return _affine(module, [f"trailing={len(module.normalized_shape)}"], "layer_norm")


def _sizes(value: Any) -> str:
    return str(value) if isinstance(value, int) else "x".join(map(str, value))


def _pool(name: str) -> Callable[[Any], Spelled]:
    def spelling(module: Any) -> Spelled:
        if getattr(module, "return_indices", False) or getattr(module, "divisor_override", None) is not None:
            return "it has indices or a divisor of its own"
        if set(_sizes(getattr(module, "dilation", 1)).split("x")) != {"1"}:
            return "it has dilation"
        words = [_sizes(module.kernel_size), f"stride={_sizes(module.stride)}", f"padding={_sizes(module.padding)}"]
        if module.ceil_mode:
            words.append("ceil")
        if not getattr(module, "count_include_pad", True):
            words.append("count_include_pad=false")
        return [f"{name}({', '.join(words)})"], []

    return spelling


def _adaptive(name: str) -> Callable[[Any, ShapeOf], Spelled]:
    """Windows of one size, side by side, where the sizes divide; until they are known, they may."""

    def spelling(module: Any, shape_of: ShapeOf) -> Spelled:
        size = module.output_size
        if getattr(module, "return_indices", False):
            return "it has indices"
        sizes = set(size) if isinstance(size, (tuple, list)) else {size}
        if name == "avg_pool" and sizes == {1}:
            return ["global_avg_pool"], []
        if shape_of is None:
            return [], []
        space = shape_of()[2:]
        wanted = size if isinstance(size, (tuple, list)) else (size,) * len(space)
        wanted = [have if count is None else count for have, count in zip(space, wanted)]
        if not space or len(wanted) != len(space) or any(count < 1 or have % count for have, count in zip(space, wanted)):
            return "its windows differ"
        return [f"{name}({_sizes([have // count for have, count in zip(space, wanted)])})"], []

    return spelling


def _dropout(module: Any) -> Spelled:
    return "it is active" if module.training and module.p > 0 else ([], [])


def _prelu(module: Any, channels: int) -> Spelled:
    return ["prelu"], [module.weight.expand(channels) if module.weight.numel() == 1 else module.weight]


def _text(make: Callable[[Any], str]) -> Callable[[Any], Spelled]:
    return lambda module: ([make(module)], [])


def _softmax(*ops: str) -> Callable[[Any], Spelled]:
    return lambda module: ([*ops], []) if module.dim == 1 else "it is not over channels"


def _softshrink(module: Any) -> Spelled:
    limit = float(module.lambd)
    return ["keep(@x)", f"clamp({written(-limit)}, {written(limit)})", "mul(-1)", "add(@x)"], []


def _rms_norm(module: Any) -> Spelled:
    return "it normalises the last axes, and the vocabulary has it over channels alone"


MODULES: dict[type[nn.Module], Callable[[Any], Spelled]] = {
    nn.Identity: lambda module: ([], []),
    nn.ReLU: _text(lambda module: "relu"),
    nn.ReLU6: _text(lambda module: "relu6"),
    nn.SELU: _text(lambda module: "selu"),
    nn.CELU: _text(lambda module: f"celu({written(module.alpha)})"),
    nn.Softsign: _text(lambda module: "softsign"),
    nn.LogSigmoid: _text(lambda module: "logsigmoid"),
    nn.Hardshrink: _text(lambda module: f"hardshrink({written(module.lambd)})"),
    nn.Threshold: _text(lambda module: f"threshold({written(module.threshold)}, {written(module.value)})"),
    nn.LeakyReLU: _text(lambda module: f"leaky_relu({written(module.negative_slope)})"),
    nn.ELU: _text(lambda module: f"elu({written(module.alpha)})"),
    nn.GELU: _text(lambda module: "gelu(tanh)" if module.approximate == "tanh" else "gelu"),
    nn.SiLU: _text(lambda module: "silu"),
    nn.Sigmoid: _text(lambda module: "sigmoid"),
    nn.Tanh: _text(lambda module: "tanh"),
    nn.Hardtanh: _text(lambda module: f"hardtanh({written(module.min_val)}, {written(module.max_val)})"),
    nn.Hardswish: _text(lambda module: "hardswish"),
    nn.Hardsigmoid: _text(lambda module: "hardsigmoid"),
    nn.Mish: _text(lambda module: "mish"),
    nn.Softplus: _text(lambda module: f"softplus({written(module.beta)}, {written(module.threshold)})"),
    nn.Softmax: _softmax("softmax"),
    nn.LogSoftmax: _softmax("log_softmax"),
    nn.Softmin: _softmax("mul(-1)", "softmax"),
    nn.Softshrink: _softshrink,
    nn.Tanhshrink: lambda module: (["keep(@x)", "tanh", "mul(-1)", "add(@x)"], []),
    nn.RMSNorm: _rms_norm,
    nn.Softmax2d: _text(lambda module: "softmax"),
    nn.LayerNorm: _layer_norm,
    nn.GroupNorm: _group_norm,
    **dict.fromkeys((nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d), _batch_norm),
    **dict.fromkeys((nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d), _instance_norm),
    **dict.fromkeys((nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d), _pool("max_pool")),
    **dict.fromkeys((nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d), _pool("avg_pool")),
    **dict.fromkeys((nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout), _dropout),
}
# Those that are other ops for other shapes.
_BY_SHAPE: dict[type[nn.Module], Callable[[Any, ShapeOf], Spelled]] = {
    **dict.fromkeys((nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d), _adaptive("avg_pool")),
    **dict.fromkeys((nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d), _adaptive("max_pool")),
}


# Those for which axis 1 is the channels', whether there is a batch or not.
BY_POSITION = (nn.Softmax, nn.LogSoftmax, nn.Softmin, nn.PReLU, nn.GroupNorm, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def spelled(module: nn.Module, channels: int, shape_of: ShapeOf = None) -> Spelled:
    """A module behind so many channels in the vocabulary, in the state it is in; modules derived from torch.nn's may do
    something else. In the texts, words that begin with @ stand for names of kept values.
    """
    if type(module) is nn.PReLU:
        return _prelu(module, channels)
    if type(module) in _BY_SHAPE:
        return _BY_SHAPE[type(module)](module, shape_of)
    spelling = MODULES.get(type(module))
    return "the vocabulary has no such module" if spelling is None else spelling(module)


def has_hooks(module: nn.Module) -> bool:
    """Whether something else listens to a module's calls."""
    names = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(getattr(module, name, None) for name in names) or "forward" in module.__dict__

# SPDX-License-Identifier: Apache-2.0
"""Norms, by PyTorch's functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, Node

from .names import bind
from .steps import Operand, Running, Step
from .values import number, tensor_of, written

_ARGUMENTS = "its arguments are not understood"


def _like(make: str, node: Node) -> Operand:
    """Zeros or ones where a norm has only one of weight and bias."""
    function = {"zeros": torch.zeros_like, "ones": torch.ones_like}[make]

    def build(graph: Graph, like: Node) -> Node:
        return graph.call_function(function, (like,))

    return Operand(node, build)


def _affine(weight: Any, bias: Any) -> list[Operand] | str:
    if not isinstance(weight, Node) and not isinstance(bias, Node):
        return [] if weight is None and bias is None else _ARGUMENTS
    if not isinstance(weight, Node):
        return [_like("ones", bias), Operand(bias)]
    return [Operand(weight), Operand(bias) if isinstance(bias, Node) else _like("zeros", weight)]


def _norm(
    running: Running, node: Node, words: list[str], name: str, given: dict[str, Any], statistics: tuple[Any, ...] = ()
) -> Step | str:
    eps = number(given["eps"])
    affine = _affine(given["weight"], given["bias"])
    if eps is None or isinstance(affine, str):
        return _ARGUMENTS
    operands = [*(Operand(value) for value in statistics), *affine]
    tensors = [tensor_of(operand.node) for operand in operands]
    dtype = running.dtype
    types = {tensor.dtype for tensor in tensors if tensor is not None}
    if None in tensors or len(types) > 1 or not types <= {dtype, torch.float32}:
        return "its weights are of another type than the value, or of several"
    if affine:
        words = [*words, "affine"]
    if eps != 1e-5:
        words = [*words, f"eps={written(eps)}"]
    if types and types != {dtype}:
        words = [*words, "dtype=f32"]
    return Step(node, (f"{name}({', '.join(words)})" if words else name,), tuple(operands))


def _layer_norm(running: Running, node: Node) -> Step | str:
    given = bind(node, "normalized_shape", weight=None, bias=None, eps=1e-5, cudnn_enable=True)
    if given is None or not isinstance(given["normalized_shape"], (tuple, list)):
        return _ARGUMENTS
    count = len(given["normalized_shape"])
    over = running.axes[-count:]
    if over == ((1,),):
        words = ["channels"]
    elif running.plain and count < running.rank:
        words = [f"trailing={count}"]
    else:
        return "normalises other axes than channels, or the last ones"
    return _norm(running, node, words, "layer_norm", given)


def _group_norm(running: Running, node: Node) -> Step | str:
    given = bind(node, "num_groups", weight=None, bias=None, eps=1e-5, cudnn_enabled=True)
    if given is None or not isinstance(given["num_groups"], int) or not running.plain:
        return _ARGUMENTS
    return _norm(running, node, [str(given["num_groups"])], "group_norm", given)


def _instance_norm(running: Running, node: Node) -> Step | str:
    given = bind(
        node, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5,
        cudnn_enabled=True)
    if given is None:  # ATen's own has the weights first
        return _ARGUMENTS
    if not running.plain:
        return _ARGUMENTS
    if given["use_input_stats"] is False:
        return _given(running, node, given)
    if given["running_mean"] is not None or given["running_var"] is not None:
        return "updates running statistics"
    return _norm(running, node, [], "instance_norm", given)


def _batch_norm(running: Running, node: Node) -> Step | str:
    aten = isinstance(node.target, torch._ops.OpOverload) or node.target is torch.batch_norm
    order = ("weight", "bias", "running_mean", "running_var") if aten else (
        "running_mean", "running_var", "weight", "bias")
    given = bind(
        node, **dict.fromkeys(order), training=False, momentum=0.1, eps=1e-5, cudnn_enabled=True)
    if given is None or not running.batch_first:
        return _ARGUMENTS
    if given["training"] is not False or given["running_mean"] is None or given["running_var"] is None:
        return "normalises by the batch's own statistics"
    return _given(running, node, given)


def _given(running: Running, node: Node, given: dict[str, Any]) -> Step | str:
    statistics = given["running_mean"], given["running_var"]
    if not all(isinstance(value, Node) for value in statistics):
        return _ARGUMENTS
    return _norm(running, node, [], "batch_norm", given, statistics)


def _rms_norm(running: Running, node: Node) -> Step | str:
    given = bind(node, "normalized_shape", weight=None, eps=None)
    if given is None or not isinstance(given["normalized_shape"], (tuple, list)):
        return _ARGUMENTS
    if running.axes[-len(given["normalized_shape"]) :] != ((1,),):
        return "normalises other axes than channels"
    dtype = running.tensor.dtype
    eps = number(torch.finfo(dtype).eps if given["eps"] is None else given["eps"])
    weight = given["weight"]
    tensor = tensor_of(weight)
    if eps is None or dtype.itemsize == 2 or (weight is not None and (tensor is None or tensor.dtype != dtype)):
        return _ARGUMENTS
    ops = (f"rms_norm(channels, eps={written(eps)})",)
    times = "mul(channel)" if dtype == running.dtype else "mul(channel, dtype=f32)"
    return Step(node, ops) if weight is None else Step(node, (*ops, times), (Operand(weight),))


NORMS: dict[str, Callable[[Running, Node], Step | str]] = {
    "layer_norm": _layer_norm,
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "batch_norm": _batch_norm,
    "rms_norm": _rms_norm,
}

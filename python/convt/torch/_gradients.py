# SPDX-License-Identifier: Apache-2.0
"""The operators' gradients: PyTorch's own, of prologue and chain in its operations; the convolution's result is computed
again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from . import _chain, _reference


def _is_affine(op: _chain.Op) -> bool:
    """Whether the op's derivative is the same wherever it is taken."""
    if op.name in ("bias", "avg_pool", "sum_pool", "global_avg_pool", "sum", "mean", "keep"):
        return True
    term = op.parameters.get("other")
    return (op.name in ("add", "sub") and term != "conv") or (op.name in ("mul", "div") and isinstance(term, (int, float)))


class _Recorded:
    """A function of a tensor and of operands, evaluated once, and its gradients."""

    def __init__(self, function: Any, start: torch.Tensor, operands: Sequence[torch.Tensor], wanted: Sequence[bool]) -> None:
        with torch.enable_grad():
            self._start = start.detach().requires_grad_()
            self._terms = [operand.detach().requires_grad_(want) for operand, want in zip(operands, wanted)]
            self._result = function(self._start, self._terms)
        self.value = self._result.detach()

    def gradients(self, grad: torch.Tensor) -> tuple[Any, list[Any]]:
        """That of the tensor, and those of the operands: None for one that is not wanted."""
        leaves = [self._start, *(term for term in self._terms if term.requires_grad)]
        of_start, *found = torch.autograd.grad(self._result, leaves, grad, allow_unused=True)
        return of_start, [found.pop(0) if term.requires_grad else None for term in self._terms]


def gradients(
    ctx: Any, grad: torch.Tensor, for_input: bool, for_weight: bool, wanted: Sequence[bool]
) -> tuple[Any, Any, list[Any]]:
    """Of input, weight and operands; None for those that are not wanted."""
    if torch.is_grad_enabled():
        raise RuntimeError(
            "convt: a second derivative of a fused transposed convolution was asked for (create_graph=True), and there is "
            "none: use torch.nn.functional's where you differentiate twice")
    input, weight, *operands = ctx.saved_tensors
    call = _chain.parse(ctx.text, input.dim() - 2)
    first = call.prologue_operands
    before, after = operands[:first], operands[first:]
    prologue = None
    if call.prologue:
        prologue = _Recorded(lambda x, terms: _reference.prologue(x, terms, call), input, before, wanted[:first])
        input = prologue.value
    grads_before: list[Any] = [None] * first
    grads_after: list[Any] = [None] * len(after)
    only_bias = len(call.chain) == 1 and call.chain[0].name == "bias"
    if call.chain and not only_bias:
        fields = _chain.fields_in(ctx.text)
        if all(map(_is_affine, call.chain)):
            shape = _chain.output_shape(_chain.parse(fields, input.dim() - 2), input.shape, weight.shape)
            conv = input.new_zeros(shape)
        else:
            conv = torch.ops.convt.conv_transpose.default(input, weight, [], fields, "", ctx.packed)
        chain = _Recorded(lambda x, terms: _reference.chain(x, terms, call), conv, after, wanted[first:])
        grad, grads_after = chain.gradients(grad)
    through = for_input or any(wanted[:first])  # whether the gradient goes on in front of the convolution
    mask = [through, for_weight, only_bias and wanted[first]]
    if grad is None or not any(mask):
        return None, None, grads_before + grads_after
    of_input, of_weight, of_bias = torch.ops.aten.convolution_backward(
        grad, input, weight, after[0].shape if mask[2] else None, call.stride, call.padding, call.dilation, True,
        call.output_padding, call.groups, mask)
    if mask[2]:
        grads_after[0] = of_bias.to(after[0].dtype)
    if prologue is not None and through:
        of_input, grads_before = prologue.gradients(of_input)
    return of_input if for_input else None, of_weight, grads_before + grads_after

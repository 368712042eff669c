# SPDX-License-Identifier: Apache-2.0
"""torch.nn.ConvTranspose1d, 2d and 3d with operations before and behind them in the same pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from .. import _library
from .._op import Op
from ._freeze import contents
from ._functional import _conv_transpose

Epilogue = str | Op | Sequence[str | Op]
_Kept = tuple[str, str, tuple[str, ...]]


class _ConvTranspose:
    """What the three modules share."""

    prologue: tuple[_Kept, ...]
    epilogue: tuple[_Kept, ...]
    weight: torch.Tensor
    bias: torch.Tensor | None

    def _set_chains(self, prologue: Epilogue, epilogue: Epilogue) -> None:
        self.prologue = self._kept("prologue", prologue)
        self.epilogue = self._kept("epilogue", epilogue)
        self._packed = 0

    def _kept(self, chain: str, ops: Epilogue) -> tuple[_Kept, ...]:
        """Each op's two texts and the names of its tensors, which become the module's parameters or buffers."""
        kept: list[_Kept] = []
        for position, op in enumerate([ops] if isinstance(ops, (str, Op)) else ops):
            if not isinstance(op, Op):
                kept.append((str(op).strip(), str(op).strip(), ()))
                continue
            names = []
            for index, operand in enumerate(op.operands):
                name = f"{chain}_{position}_{index}"
                if isinstance(operand, nn.Parameter):
                    self.register_parameter(name, operand)  # type: ignore[attr-defined]
                else:
                    self.register_buffer(name, torch.as_tensor(operand))  # type: ignore[attr-defined]
                names.append(name)
            kept.append((op.text_for(True), op.text_for(False), tuple(names)))
        return tuple(kept)

    def freeze(self) -> Any:
        """Packs the weight once for each size of input, from now on: its contents must not change any more."""
        self._packed = contents(self.weight)
        return self

    def _chain(self, ops: tuple[_Kept, ...], dtype: torch.dtype) -> tuple[str, list[torch.Tensor]]:
        texts, operands = [], []
        for same, f32, names in ops:
            own = [getattr(self, name) for name in names]
            texts.append(same if all(operand.dtype == dtype for operand in own) else f32)
            operands += own
        return " | ".join(texts), operands

    def forward(self, input: torch.Tensor, output_size: Sequence[int] | None = None) -> torch.Tensor:
        """The convolution of an input, and the chain; `output_size` as torch.nn's."""
        module: Any = self
        dims = len(module.kernel_size)
        if module.padding_mode != "zeros":
            raise ValueError("only zeros are padded with")
        output_padding = module._output_padding(
            input, output_size, module.stride, module.padding, module.kernel_size, dims, module.dilation)
        dtype = input.dtype
        if torch.is_autocast_enabled(input.device.type):
            dtype = torch.get_autocast_dtype(input.device.type)
        before, first = self._chain(self.prologue, dtype)
        chain, operands = self._chain(self.epilogue, dtype)
        return _conv_transpose(
            dims, input, self.weight, self.bias, module.stride, module.padding, tuple(output_padding), module.groups,
            module.dilation, chain, None, None, [*first, *operands], self._packed, before)

    def extra_repr(self) -> str:
        """torch.nn's, and the two chains."""
        text = super().extra_repr()  # type: ignore[misc]
        for name, ops in (("prologue", self.prologue), ("epilogue", self.epilogue)):
            chain = " | ".join(same for same, _, _ in ops)
            text += f", {name}={chain!r}" if chain else ""
        return str(text)

    def _load_from_state_dict(self, *arguments: Any, **keywords: Any) -> None:
        super()._load_from_state_dict(*arguments, **keywords)  # type: ignore[misc]
        if self._packed:
            self.freeze()

    def _apply(self, *arguments: Any, **keywords: Any) -> Any:
        result = super()._apply(*arguments, **keywords)  # type: ignore[misc]
        if self._packed:
            self.freeze()
        return result

    @classmethod
    def like(cls, module: Any, epilogue: Epilogue = ()) -> Any:
        """A module with the parameters themselves of one of torch.nn's, and an epilogue."""
        if module.padding_mode != "zeros":
            raise _library.ConvtError(f"padding_mode: only zeros are padded with (got {module.padding_mode})")
        with torch.device("meta"):
            made: Any = cls(  # type: ignore[call-arg]
                module.in_channels, module.out_channels, module.kernel_size, module.stride, module.padding,
                module.output_padding, module.groups, module.bias is not None, module.dilation,
                epilogue=epilogue)
        made.weight, made.bias = module.weight, module.bias
        return made.train(module.training)


class ConvTranspose1d(_ConvTranspose, nn.ConvTranspose1d):
    """torch.nn.ConvTranspose1d, with `prologue` and `epilogue`: convt.ops, whose tensors become the module's, or text."""

    def __init__(self, *arguments: Any, prologue: Epilogue = (), epilogue: Epilogue = (), **keywords: Any) -> None:
        nn.ConvTranspose1d.__init__(self, *arguments, **keywords)
        self._set_chains(prologue, epilogue)


class ConvTranspose2d(_ConvTranspose, nn.ConvTranspose2d):
    """torch.nn.ConvTranspose2d, with `prologue` and `epilogue`: convt.ops, whose tensors become the module's, or text.

    >>> up = convt.torch.nn.ConvTranspose2d(8, 4, 2, stride=2, epilogue=["layer_norm(channels)", convt.ops.gelu()])
    >>> up(torch.ones(1, 8, 5, 5)).shape, list(up.state_dict())
    (torch.Size([1, 4, 10, 10]), ['weight', 'bias'])
    """

    def __init__(self, *arguments: Any, prologue: Epilogue = (), epilogue: Epilogue = (), **keywords: Any) -> None:
        nn.ConvTranspose2d.__init__(self, *arguments, **keywords)
        self._set_chains(prologue, epilogue)


class ConvTranspose3d(_ConvTranspose, nn.ConvTranspose3d):
    """torch.nn.ConvTranspose3d, with `prologue` and `epilogue`: convt.ops, whose tensors become the module's, or text."""

    def __init__(self, *arguments: Any, prologue: Epilogue = (), epilogue: Epilogue = (), **keywords: Any) -> None:
        nn.ConvTranspose3d.__init__(self, *arguments, **keywords)
        self._set_chains(prologue, epilogue)

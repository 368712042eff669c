# SPDX-License-Identifier: Apache-2.0
"""torch.nn.ConvTranspose1d, 2d and 3d with a chain of operations behind them in the same pass."""

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


class _ConvTranspose:
    """What the three modules share."""

    epilogue: tuple[tuple[str, str, tuple[str, ...]], ...]
    weight: torch.Tensor
    bias: torch.Tensor | None

    def _set_epilogue(self, epilogue: Epilogue) -> None:
        """Keeps each op's two texts and the names of its tensors, which become the module's parameters or buffers."""
        if isinstance(epilogue, (str, Op)):
            epilogue = [epilogue]
        kept: list[tuple[str, str, tuple[str, ...]]] = []
        for position, op in enumerate(epilogue):
            if not isinstance(op, Op):
                kept.append((str(op).strip(), str(op).strip(), ()))
                continue
            names = []
            for index, operand in enumerate(op.operands):
                name = f"epilogue_{position}_{index}"
                if isinstance(operand, nn.Parameter):
                    self.register_parameter(name, operand)  # type: ignore[attr-defined]
                else:
                    self.register_buffer(name, torch.as_tensor(operand))  # type: ignore[attr-defined]
                names.append(name)
            kept.append((op.text_for(True), op.text_for(False), tuple(names)))
        self.epilogue = tuple(kept)
        self._packed = 0

    def freeze(self) -> Any:
        """Packs the weight once for each size of input, from now on: its contents must not change any more."""
        self._packed = contents(self.weight)
        return self

    def _chain(self, dtype: torch.dtype) -> tuple[str, list[torch.Tensor]]:
        texts, operands = [], []
        for same, f32, names in self.epilogue:
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
        chain, operands = self._chain(dtype)
        return _conv_transpose(
            dims, input, self.weight, self.bias, module.stride, module.padding, tuple(output_padding), module.groups,
            module.dilation, chain, None, None, operands, self._packed)

    def extra_repr(self) -> str:
        """torch.nn's, and the epilogue."""
        text = super().extra_repr()  # type: ignore[misc]
        chain = " | ".join(same for same, _, _ in self.epilogue)
        return f"{text}, epilogue={chain!r}" if chain else text

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
    """torch.nn.ConvTranspose1d, with `epilogue`: convt.ops, whose tensors become the module's, or text."""

    def __init__(self, *arguments: Any, epilogue: Epilogue = (), **keywords: Any) -> None:
        nn.ConvTranspose1d.__init__(self, *arguments, **keywords)
        self._set_epilogue(epilogue)


class ConvTranspose2d(_ConvTranspose, nn.ConvTranspose2d):
    """torch.nn.ConvTranspose2d, with `epilogue`: convt.ops, whose tensors become the module's, or text."""

    def __init__(self, *arguments: Any, epilogue: Epilogue = (), **keywords: Any) -> None:
        nn.ConvTranspose2d.__init__(self, *arguments, **keywords)
        self._set_epilogue(epilogue)


class ConvTranspose3d(_ConvTranspose, nn.ConvTranspose3d):
    """torch.nn.ConvTranspose3d, with `epilogue`: convt.ops, whose tensors become the module's, or text."""

    def __init__(self, *arguments: Any, epilogue: Epilogue = (), **keywords: Any) -> None:
        nn.ConvTranspose3d.__init__(self, *arguments, **keywords)
        self._set_epilogue(epilogue)

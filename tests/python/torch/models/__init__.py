# SPDX-License-Identifier: Apache-2.0
"""Small models with transposed convolutions, in the ways people write them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import nn


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    #: The chains that are to be taken at inference, one per transposed convolution; None for one that is to be left.
    chains: tuple[str | None, ...]
    #: The same under bfloat16 autocast, without "dtype=f32"; None: as above, or it is not looked at.
    autocast: tuple[str | None, ...] | None = None
    #: Sizes of which axes may change between calls.
    dynamic: tuple[int, ...] = (0,)
    inputs: int = 1
    #: Through Inductor too, in the short run of the tests.
    short: bool = False
    #: Nothing but inference in the short run.
    brief: bool = False
    #: Whether eager PyTorch can differentiate it.
    trains: bool = True

    def build(self, training: bool = False) -> nn.Module:
        torch.manual_seed(len(self.name))
        module = self.make()
        with torch.no_grad():  # as after training: no norm is the identity
            for name, buffer in module.named_buffers():
                if name.endswith("running_mean"):
                    buffer.normal_(0, 0.2)
                elif name.endswith("running_var"):
                    buffer.uniform_(0.5, 1.5)
            for part in module.modules():
                if isinstance(part, (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm)) and part.weight is not None:
                    part.weight.uniform_(0.5, 1.5)
                    if part.bias is not None:
                        part.bias.normal_(0, 0.2)
        return module.train(training)

    def example(self, grown: int = 0) -> list[torch.Tensor]:
        """Inputs, with so many more elements along the axes that may change."""
        shape = [size + grown if axis in self.dynamic else size for axis, size in enumerate(self.shape)]
        generator = torch.Generator().manual_seed(1)
        return [torch.randn(shape, generator=generator) for _ in range(self.inputs)]


MODELS: list[Model] = []


def model(shape: tuple[int, ...], *chains: str | None, **fields: Any) -> Callable[[Any], Any]:
    """Adds a class of models, or a function that makes one."""

    def add(make: Any) -> Any:
        MODELS.append(Model(make.__name__, make, shape, chains, **fields))
        return make

    return add


from . import (  # noqa: E402, F401: they add theirs
    around, audio, autocast, chains, decoders, edges, gans, handwritten, kept, plain, published, spellings)

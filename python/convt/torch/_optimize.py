# SPDX-License-Identifier: Apache-2.0
"""optimize(): transposed convolutions of an existing model, and the modules behind them, by convt's."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch import nn as torch_nn

from . import _chain, nn
from ._functional import _conv_transpose
from ._modules import BY_POSITION, Spelled, has_hooks, spelled

_ROOT = "it is the model itself, which cannot be swapped in place: the modules of convt.torch.nn have like(model)"


class Skipped(torch_nn.Module):
    """Stands where a module stood that a fused convolution runs now: same parameters, same state_dict, no work."""

    def __init__(self, module: torch_nn.Module) -> None:
        super().__init__()
        self.__dict__["inner"] = module  # not a child: its parameters are this module's own
        self._parameters, self._buffers = module._parameters, module._buffers
        self._non_persistent_buffers_set = module._non_persistent_buffers_set
        self.training = module.training

    def __deepcopy__(self, memo: dict[int, Any]) -> Skipped:
        import copy

        return type(self)(copy.deepcopy(self.__dict__["inner"], memo))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.__dict__["inner"],)

    def train(self, mode: bool = True) -> Skipped:
        super().train(mode)
        self.__dict__["inner"].train(mode)
        return self

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return value

    def extra_repr(self) -> str:
        return f"{self.__dict__['inner']}, run by the convolution before it"


class Fused(nn._ConvTranspose):
    """A transposed convolution that runs the modules behind it, as they are at the time: norms in training mode, active
    dropout and whatever else is no operation of a chain run behind it, one by one."""

    def _set_tail(self, tail: list[torch_nn.Module]) -> Any:
        self.__dict__["tail"] = tail
        return self

    def forward(self, input: torch.Tensor, output_size: Any = None) -> torch.Tensor:
        module: Any = self
        dims = len(module.kernel_size)
        output_padding = tuple(module._output_padding(
            input, output_size, module.stride, module.padding, module.kernel_size, dims, module.dilation))
        rest = list(self.__dict__["tail"])
        texts: list[str] = []
        operands: list[torch.Tensor] = []

        def shape() -> list[Any]:
            """Of the result so far; nothing where Dynamo captures the call, which cannot look into the library's tables."""
            if torch.compiler.is_dynamo_compiling():
                return []
            text = _chain.fields(module.stride, module.padding, output_padding, module.groups, module.dilation, "ieee",
                                 " | ".join(texts))
            batch = input.shape if input.dim() == dims + 2 else (1, *input.shape)
            return _chain.output_shape(_chain.parse(text, dims), batch, self.weight.shape)

        while rest:
            found = spelled(rest[0], module.out_channels, shape)
            if isinstance(found, str) or has_hooks(rest[0]):
                break
            if input.dim() == dims + 1 and isinstance(rest[0], BY_POSITION):
                break
            # A norm that is over the wrong axes, or a tensor of another type, is for PyTorch to refuse or to convert.
            if any(operand.dtype not in (input.dtype, torch.float32) for operand in found[1]):
                break
            f32 = any(operand.dtype != input.dtype for operand in found[1]) or torch.is_autocast_enabled(
                input.device.type)
            name = f"v{len(texts)}"
            texts += [_with_f32(text) if f32 and found[1] else text.replace("@x", name) for text in found[0]]
            operands += found[1]
            rest.pop(0)
        result = _conv_transpose(
            dims, input, self.weight, self.bias, module.stride, module.padding, output_padding, module.groups,
            module.dilation, " | ".join(texts), None, None, operands, self._packed)
        for after in rest:
            result = after(result)
        return result

    def extra_repr(self) -> str:
        return ", ".join([super().extra_repr(), *(str(module) for module in self.__dict__["tail"])])


class _Fused1d(Fused, nn.ConvTranspose1d):
    pass


class _Fused2d(Fused, nn.ConvTranspose2d):
    pass


class _Fused3d(Fused, nn.ConvTranspose3d):
    pass


_FUSED: dict[type[torch_nn.Module], type[Any]] = {
    torch_nn.ConvTranspose1d: _Fused1d,
    torch_nn.ConvTranspose2d: _Fused2d,
    torch_nn.ConvTranspose3d: _Fused3d,
}


def _with_f32(text: str) -> str:
    return f"{text[:-1]}, dtype=f32)" if text.endswith(")") else f"{text}(dtype=f32)"


@dataclasses.dataclass
class Swap:
    """A transposed convolution of a model, and what became of it."""

    name: str
    taken: bool
    modules: list[str]  #: names of the modules that it runs now
    reason: str  #: why not more, or why it was left

    def __str__(self) -> str:
        if not self.taken:
            return f"{self.name}: left: {self.reason}"
        behind = f" with {', '.join(self.modules)}" if self.modules else ""
        return f"{self.name}: swapped{behind}; {self.reason}"


@dataclasses.dataclass
class Report:
    """What optimize() did."""

    swaps: list[Swap]

    def __iter__(self) -> Iterator[Swap]:
        return iter(self.swaps)

    def __len__(self) -> int:
        return len(self.swaps)

    def __str__(self) -> str:
        taken = sum(swap.taken for swap in self.swaps)
        return "\n".join([f"{taken} of {len(self.swaps)} transposed convolutions were swapped",
                          *(f"  {swap}" for swap in self.swaps)])


class _Tracer(fx.Tracer):
    """Sees the calls of torch.nn's modules, and looks into all others."""

    def is_leaf_module(self, m: torch_nn.Module, module_qualified_name: str) -> bool:
        return type(m).__module__.startswith("torch.nn.modules") and not isinstance(
            m, (torch_nn.Sequential, torch_nn.ModuleList, torch_nn.ModuleDict))


def _followers(model: torch_nn.Module, prefix: str = "") -> dict[str, tuple[str | None, str]]:
    """For each module of torch.nn that is called once the one that alone takes its result, or why there is none.

    A part of the model that cannot be traced (its forward branches on values, say) is looked at part by part.
    """
    try:
        graph = _Tracer().trace(model)
    except Exception:  # whatever a model's own code raises when it is given proxies
        found: dict[str, tuple[str | None, str]] = {}
        for name, child in model.named_children():
            found.update(_followers(child, f"{prefix}{name}."))
        return found
    calls: dict[str, list[fx.Node]] = {}
    for node in graph.nodes:
        if node.op == "call_module":
            calls.setdefault(str(node.target), []).append(node)
    found = {}
    for name, nodes in calls.items():
        found[prefix + name] = _follower(nodes, calls, prefix)
    return found


def _follower(nodes: list[fx.Node], calls: dict[str, list[fx.Node]], prefix: str) -> tuple[str | None, str]:
    if len(nodes) > 1:
        return None, "it is called several times"
    users = list(nodes[0].users)
    if len(users) != 1:
        return None, f"its result is used {len(users)} times"
    user = users[0]
    if user.op != "call_module":
        return None, "its result goes to no module" if user.op != "output" else "its result is the model's"
    if len(calls[str(user.target)]) > 1 or len(user.args) != 1 or user.kwargs:
        return None, f"{prefix}{user.target} is called several times, or with more"
    return prefix + str(user.target), ""


def _set(model: torch_nn.Module, name: str, module: torch_nn.Module) -> None:
    parent, _, own = name.rpartition(".")
    setattr(model.get_submodule(parent), own, module)


def _fusable(module: torch_nn.Module, channels: int) -> Spelled:
    """What a module is in the vocabulary where it does not train."""
    was = module.training
    module.training = False
    try:
        return spelled(module, channels)
    finally:
        module.training = was


def optimize(model: torch_nn.Module, *, freeze: bool = False) -> Report:
    """Swaps transposed convolutions of a model, in place, for convt's, with the norms, activations and pools behind them.

    The parameters stay the same objects, and state_dict() stays the same. Norms in training mode and active dropout keep
    their meaning: they run behind the convolution while they are so. With `freeze` weights are packed once; they must not
    change any more. The report says what was swapped, and what was left and why.

    >>> model = torch.nn.Sequential(torch.nn.ConvTranspose2d(8, 4, 2, stride=2), torch.nn.PReLU(), torch.nn.Flatten())
    >>> print(convt.torch.optimize(model))
    1 of 1 transposed convolutions were swapped
      0: swapped with 1; ends: 2: the vocabulary has no such module
    """
    duplicates = _shared(model)
    followers = _followers(model)
    swaps: list[Swap] = []
    for name, module in list(model.named_modules()):
        kind = _FUSED.get(type(module))
        if kind is None:
            if isinstance(module, torch_nn.modules.conv._ConvTransposeNd) and not isinstance(module, nn._ConvTranspose):
                swaps.append(Swap(name, False, [], f"{type(module).__name__} is derived from torch.nn's"))
            continue
        if has_hooks(module) or module.padding_mode != "zeros" or id(module) in duplicates or not name:
            reason = "it has hooks" if has_hooks(module) else _ROOT if not name else "it is used twice"
            swaps.append(Swap(name, False, [], reason))
            continue
        tail: list[torch_nn.Module] = []
        absorbed: list[str] = []
        following, reason = followers.get(name, (None, "what follows it could not be traced"))
        while following is not None:
            after = model.get_submodule(following)
            found = _fusable(after, module.out_channels)
            if has_hooks(after) or id(after) in duplicates or isinstance(found, str):
                reason = f"{following}: {found if isinstance(found, str) else 'it has hooks, or is used twice'}"
                break
            tail.append(after)
            absorbed.append(following)
            following, reason = followers.get(following, (None, "what follows it could not be traced"))
        fused = kind.like(module)._set_tail(tail)
        if freeze:
            fused.freeze()
        _set(model, name, fused)
        for own, after in zip(absorbed, tail):
            _set(model, own, Skipped(after))
        swaps.append(Swap(name, True, absorbed, f"ends: {reason}"))
    return Report(swaps)


def _shared(model: torch_nn.Module) -> set[int]:
    """Modules that have more than one place in a model."""
    seen: set[int] = set()
    shared: set[int] = set()
    for _, module in model.named_modules(remove_duplicate=False):
        (shared if id(module) in seen else seen).add(id(module))
    return shared

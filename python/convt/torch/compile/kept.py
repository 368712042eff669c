# SPDX-License-Identifier: Apache-2.0
"""What is made of the running value and, later, of itself again: x * hardswish(x), x - mean(x), residuals, gates.

The chain keeps the value under a name, and takes it by that name later. It goes along one way; whatever it meets of its
own past must be a value that it came by.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from torch.fx import Node

from .names import MISSING, bind, first, name_of, writes_in_place
from .spellings import SPELLINGS
from .steps import Operand, Running, Step
from .values import number, same, tensor_of

_MOST_VALUES = 24
_MOST_TRIES = 256
_BINARY = ("add", "sub", "rsub", "mul", "div")


@dataclasses.dataclass(frozen=True)
class _Way:
    """A way from the value that is kept: the values it came by, and how it came from each to the next."""

    values: tuple[Running, ...]
    steps: tuple[Step, ...] = ()  # to each value but the first
    kept: tuple[int | None, ...] = ()  # for each step the place of the value it takes by name
    seen: tuple[tuple[Node, int], ...] = ()  # nodes and the places of the values that they are

    @property
    def places(self) -> dict[Node, int]:
        return dict(self.seen)

    @property
    def taken(self) -> set[Node]:
        return {node for node, _ in self.seen} | {node for step in self.steps for node in step.through}

    def and_then(self, step: Step, kept: int | None) -> _Way:
        value = self.values[-1].after(step)
        if kept is not None:  # which may be larger along axes that were reduced meanwhile
            sizes = zip(self.values[-1].sizes, self.values[kept].sizes)
            value = dataclasses.replace(value, parts=tuple(b if same(a, 1) else a for a, b in sizes))
        return _Way((*self.values, value), (*self.steps, step), (*self.kept, kept),
                    (*self.seen, (step.last, len(self.values))))

    def with_copies(self) -> _Way:
        """With the nodes that are the last value as well: copies of it."""
        seen = dict(self.seen)
        place = len(self.values) - 1
        waiting = [node for node, at in self.seen if at == place]
        while waiting:
            node = waiting.pop()
            for user in node.users:
                step = None if user in seen or writes_in_place(user) else _spelled(self._value(node), user)
                if step is not None and not step.ops and step.axes is None:
                    seen[user] = place
                    waiting.append(user)
        return dataclasses.replace(self, seen=tuple(seen.items()))

    def _value(self, node: Node) -> Running:
        return dataclasses.replace(self.values[-1], node=node)

    def is_closed(self) -> bool:
        """Whether nothing but the last value is used elsewhere."""
        taken, last = self.taken, self.values[-1].node
        return len(self.values) > 1 and all(set(node.users) <= taken for node in taken - {last})

    def onward(self, made: set[Node]) -> Iterator[_Way]:
        """The ways that are one step longer. `made` are the nodes that depend on the kept value."""
        places = self.places
        place = len(self.values) - 1
        for node in [node for node, at in self.seen if at == place]:
            for user in node.users:
                if user in places or writes_in_place(user):
                    continue
                others = [places.get(value) for value in user.all_input_nodes if value in made and value is not node]
                step: Step | None = None
                kept: int | None = None
                if not others and _squares(user):
                    step = Step(user, ("pow(2)",)) if name_of(user) == "mul" else None
                elif name_of(user) in _BINARY and others:
                    kept = others[0]
                    step = None if kept is None or len(others) > 1 else self._combined(user, node, kept)
                elif not others:
                    step = _spelled(self._value(node), user)
                if step is not None:
                    yield self.and_then(step, kept)

    def _combined(self, user: Node, node: Node, kept: int) -> Step | None:
        """The last value with an earlier one."""
        given = bind(user, "other", alpha=1)
        result = tensor_of(user)
        if given is None or given["other"] is MISSING or number(given["alpha"]) != 1 or result is None:
            return None
        if self.values[kept].axes != self.values[-1].axes or not self.values[-1].may_be(result):
            return None
        name = name_of(user)
        turned = (first(user) is not node) != (name == "rsub")
        word = f"@{kept}"  # which becomes a name: see Step.ops
        if name in ("sub", "rsub"):
            return Step(user, ("mul(-1)", f"add({word})") if turned else (f"sub({word})",))
        if name == "div" and turned:
            return Step(user, ("pow(-1)", f"mul({word})"))
        return Step(user, (f"{name}({word})",))


def _squares(node: Node) -> bool:
    """Whether a node combines a value with itself."""
    return len(node.args) == 2 and node.args[0] is node.args[1]


def _spelled(running: Running, user: Node) -> Step | None:
    spelling = SPELLINGS.get(name_of(user))
    if spelling is None or user.kwargs.get("out") is not None or len(user.all_input_nodes) != len(set(user.all_input_nodes)):
        return None
    step = spelling(running, user)
    if isinstance(step, str) or step.crop:
        return None
    result = tensor_of(step.last)
    if result is None or not running.may_be(result):
        return None
    return step


def _made_of(start: Node) -> set[Node]:
    """The nodes that depend on a node's result."""
    made = {start}
    node = start.next
    while node.op != "root":
        if any(value in made for value in node.all_input_nodes):
            made.add(node)
        node = node.next
    return made


def _search(way: _Way, made: set[Node], tries: list[int]) -> _Way | None:
    """The first way, deepest first, on which all that was made of the kept value has come together."""
    tries[0] += 1
    if way.is_closed():
        return way
    if len(way.values) > _MOST_VALUES or tries[0] > _MOST_TRIES:
        return None
    for longer in way.with_copies().onward(made):
        found = _search(longer, made, tries)
        if found is not None:
            return found
    return None


def kept(running: Running) -> Step | None:
    """The step to where the value and all that was made of it have come together."""
    way = _search(_Way((running,), seen=((running.node, 0),)), _made_of(running.node), [0])
    if way is None:
        return None
    names = {place for place in way.kept if place is not None}
    ops: list[str] = []
    operands: list[Operand] = []
    for place, step in enumerate(way.steps):
        ops += [f"keep(@{place})"] if place in names else []
        ops += step.ops
        operands += step.operands
    last = way.values[-1]
    through = tuple(node for node in way.taken if node not in (running.node, last.node))
    return Step(last.node, tuple(ops), tuple(operands), axes=last.axes, through=through)

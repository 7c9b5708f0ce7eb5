"""Programs as text and back, so that another process need not lower them again.

    text = JSON: [nodes, program]
    node = [op, dtype, shape, argument, sources], in the order of their numbers
    part = number, text, null | [its kind, its parts …]

Programs that are kernels and copies alone have a text; those with loops, branches and
calls of the host have none. What people are told of a kernel but its lines is in it.
"""

from __future__ import annotations

import json
from dataclasses import fields
from functools import cache
from typing import Any, cast

import numpy as np

from ftrace.lower.kernel import (
    Axis,
    BufferSpec,
    Kernel,
    KernelInfo,
    Store,
    fma_p,
    load_p,
    param_p,
    range_p,
    reduce_p,
)
from ftrace.lower.math.decompose import BUILT_IN, DECOMPOSITIONS
from ftrace.lower.memory import Lifetime
from ftrace.lower.program import CopySlot, Program, RunKernel, Slot
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node, Op, make_node
from ftrace.trace.primitives.record import PRIMITIVES

_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        Axis, BufferSpec, CopySlot, Kernel, KernelInfo, Lifetime, Program, RunKernel,
        Slot, Store,
    )
}  # fmt: skip
_OPS: dict[str, Op] = {
    op.name: op for op in (param_p, range_p, load_p, reduce_p, fma_p)
}
#: What `isinstance` is asked for, so that the parts stay untyped.
_LIST: tuple[type[Any], ...] = (list,)
_PLAIN = (type(None), bool, int, str)


class _NoTextError(Exception):
    """A part of a program has no text."""


def program_text(program: Program) -> str | None:
    """The text of a program; None if it has none."""
    writer = _Writer()
    try:
        whole = writer.part(program)
    except _NoTextError:
        return None
    return json.dumps([writer.nodes, whole], separators=(",", ":"))


def program_of(text: str) -> Program | None:
    """The program that `program_text` wrote; None for any other text."""
    try:
        nodes, whole = json.loads(text)
        found = _Reader(nodes).part(whole)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return None
    return found if isinstance(found, Program) else None


def _op_of(name: str) -> Op:
    if name in DECOMPOSITIONS and name not in BUILT_IN:
        raise _NoTextError  # a user's function: another process may have another
    return _OPS[name] if name in _OPS else PRIMITIVES[name]


@cache
def _field_names(kind: type[Any]) -> tuple[str, ...]:
    if issubclass(kind, tuple):
        return cast("Any", kind)._fields
    return tuple(field.name for field in fields(kind))


class _Writer:
    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self._numbers: dict[Node, int] = {}

    def part(self, value: Any) -> Any:
        kind = cast("type[Any]", type(value))
        if kind in _PLAIN:
            return value
        if kind is Node:
            return ["%", self._number(value)]
        if kind is tuple:
            return ["(", *[self.part(v) for v in value]]
        if kind is frozenset:
            parts = [self.part(v) for v in value]
            if not all(isinstance(p, int) for p in parts):
                raise _NoTextError
            return ["{", *sorted(parts)]
        if kind is bytes:
            return ["b", value.hex()]
        if isinstance(value, np.dtype):
            return ["d", str(cast("np.dtype[Any]", value))]
        if kind is KernelInfo:
            value = KernelInfo(
                value.name, (), value.operations, value.bytes, value.nodes
            )
        if _KINDS.get(kind.__name__) is not kind:
            raise _NoTextError
        parts = [self.part(getattr(value, name)) for name in _field_names(kind)]
        return [kind.__name__, *parts]

    def _number(self, node: Node) -> int:
        pending = [node]
        while pending:
            last = pending[-1]
            missing = [s for s in last.src if s not in self._numbers]
            if missing:
                pending.extend(missing)
                continue
            pending.pop()
            if last not in self._numbers:
                self.nodes.append(self._row(last))
                self._numbers[last] = len(self._numbers)
        return self._numbers[node]

    def _row(self, node: Node) -> Any:
        aval, op = node.aval, node.op
        try:
            known = _op_of(op.name) is op
        except KeyError:
            known = False
        if not known or aval != ShapedArray.of(aval.shape, aval.dtype):
            raise _NoTextError
        shape = self.part(aval.shape)
        sources = [self._numbers[s] for s in node.src]
        return [op.name, str(aval.dtype), shape, self.part(node.arg), sources]


class _Reader:
    def __init__(self, rows: list[Any]) -> None:
        self._nodes: list[Node] = []
        for row in rows:
            self._nodes.append(self._node(*row))

    def _node(
        self, name: str, dtype: str, shape: Any, argument: Any, sources: list[int]
    ) -> Node:
        aval = ShapedArray.of(self.part(shape), _dtype(dtype))
        src = tuple([self._nodes[s] for s in sources])
        return make_node(_op_of(name), aval, src, self.part(argument))

    def part(self, value: Any) -> Any:
        if not isinstance(value, _LIST):
            return value
        kind: str = value[0]
        parts: list[Any] = value[1:]
        if kind == "%":
            number: int = parts[0]
            return self._nodes[number]
        if kind == "b":
            return bytes.fromhex(parts[0])
        if kind == "d":
            return _dtype(parts[0])
        found: list[Any] = [self.part(p) for p in parts]
        if kind == "(":
            return tuple(found)
        if kind == "{":
            return frozenset(found)
        return _KINDS[kind](*found)


@cache
def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(name)

"""A kernel, or a graph, as text: the same in every process, another for every other.

    one line per expression, sources first:   op type argument sources
    then the fields of the kernel, with expressions by their lines

Bodies of loops and branches are arguments: they have such a text of their own.

What a cache on disk is keyed by: no address, no serial number and no order of a set
goes into it. `str(kernel)` is for people: it leaves out dtypes, for example.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, cast

import numpy as np

from ftrace import dtypes
from ftrace.digest import sha256
from ftrace.lower.kernel import Kernel
from ftrace.lower.users import OF_USERS
from ftrace.tables import memo
from ftrace.trace.avals import Bundle, ShapedArray
from ftrace.trace.calls.bodies import HOLDERS, bodies_of
from ftrace.trace.calls.inline import inline_calls
from ftrace.trace.graph import Body, Graph, Node, nodes_of, operations_of, toposort

_PLAIN = frozenset((type(None), bool, int, float, str, bytes))


class _NoTextError(Exception):
    """Something in a kernel has no text that every process would give it."""


def kernel_identity(kernel: Kernel) -> str | None:
    """The text of a kernel; equal kernels have equal texts, others have not.

    None if something in it has no text here: a dynamic dimension, or a function of the
    user, of which the name does not tell what it computes.
    """
    try:
        return _identity(kernel)
    except _NoTextError:
        return None


def graph_identity(graph: Graph, *settings: Any) -> str | None:
    """The text of a graph, and of what else decides how it is lowered.

    None if it has effects or dynamic dimensions, or holds functions.
    """
    if graph.effects:
        return None
    try:
        outputs = tuple(inline_calls(graph.outputs))
        nodes = list(dict.fromkeys((*toposort(outputs), *graph.inputs)))
        return _identity((graph.inputs, outputs, settings), nodes)
    except _NoTextError:
        return None


def size_of_graph(graph: Graph) -> int:
    """How many nodes it has, those of bodies included."""
    count, pending, seen = 0, [graph.outputs], set[Body]()
    while pending:
        outputs = pending.pop()
        ops = operations_of(outputs)
        count += sum(ops.values())
        holds = any(op.family in HOLDERS for op in ops)
        for node in nodes_of(outputs) if holds else ():
            for body in bodies_of(node.arg):
                if body not in seen:
                    seen.add(body)
                    pending.append(body.outputs)
    return count


def _identity(whole: Any, nodes: list[Node] | None = None) -> str:
    if nodes is None:
        nodes = toposort(list(_nodes_in(whole)))
    numbers = {node: str(number) for number, node in enumerate(nodes)}
    lines: list[str] = []
    types: dict[ShapedArray, str] = {}
    for node in nodes:
        source = " ".join([numbers[s] for s in node.src])
        arg, name, aval = node.arg, node.op.name, node.aval
        argument = "" if arg is None else _text(arg, numbers)
        if name in OF_USERS:
            raise _NoTextError
        if aval not in types:
            types[aval] = _type(aval)
        lines.append(f"{name} {types[aval]} {argument}: {source}")
    lines.append(_text(whole, numbers))
    return "\n".join(lines)


def _type(aval: ShapedArray) -> str:
    """The name of a type, of several results too."""
    kind = type(aval)
    if kind is Bundle:
        return f"({' '.join(map(_type, aval.items))})"
    if kind is not ShapedArray:  # of what people do not see: a stack, a token
        return f"{kind.__name__} {aval!r}"
    shape = _text(aval.shape, {}) if aval.shape else ""
    return f"{dtypes.name_of(aval.dtype)} {shape}{'w' if aval.weak_type else ''}"


@memo(64)
def _body(body: Body) -> str:
    """A short name of a body, by its text."""
    text = _identity((body.inputs, body.outputs))
    return sha256(text.encode()).hex()


def _nodes_in(value: Any) -> Iterator[Node]:
    """The expressions in a kernel's fields, in order."""
    if isinstance(value, Node):
        yield value
    elif isinstance(value, tuple):
        for part in cast("tuple[Any, ...]", value):
            yield from _nodes_in(part)
    elif is_dataclass(value) and not isinstance(value, Body):
        for field in fields(value):
            yield from _nodes_in(getattr(value, field.name))


def _text(value: Any, numbers: dict[Node, str]) -> str:
    if type(value) in _PLAIN:
        return repr(value)
    if isinstance(value, Node):
        if value not in numbers:  # of a body
            raise _NoTextError
        return "%" + numbers[value]
    if isinstance(value, tuple):
        parts = cast("tuple[Any, ...]", value)
        return f"({' '.join([_text(part, numbers) for part in parts])})"
    if isinstance(value, frozenset):
        members = cast("frozenset[Any]", value)
        return f"{{{' '.join(sorted(_text(part, numbers) for part in members))}}}"
    if isinstance(value, np.dtype):
        return dtypes.name_of(cast("np.dtype[Any]", value))
    if isinstance(value, Body):
        return f"body {_body(value)}"
    if is_dataclass(value) and type(value).__module__.startswith("ftrace."):
        parts = tuple(getattr(value, field.name) for field in fields(value))
        return type(value).__name__ + _text(parts, numbers)
    raise _NoTextError

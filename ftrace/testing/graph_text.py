"""Graphs as text: as JSON, and as a program of Python that makes the same nodes again.

    graph  = {"inputs": [[type, argument] …], "nodes": [row …], "outputs": [number …]}
    row    = [operation, type, argument, numbers of the operands, line]
    line   = [file, number, function] | null: of the user
    type   = [dtype, shape, is it weak?] | {"stack": [element, lanes]} | null: inferred
    part   = number, text, null | [part …] | {what it is: its parts}

Numbers count inputs and nodes together. Another version of ftrace reads it if it has
the operations, with arguments of the same form. Nothing is ever unpickled: of what a
text names only primitives are called, and dataclasses of ftrace made.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np

from ftrace import dtypes
from ftrace.errors import FileFormatError, GraphError, origin_elsewhere
from ftrace.trace import graph as g
from ftrace.trace.avals import ShapedArray, Stack
from ftrace.trace.primitives.primitive import Array, Compound, find_record, item_p
from ftrace.trace.primitives.sources import variable
from ftrace.trace.tracing.scopes import current_scope, scope_of
from ftrace.trace.tracing.tracer import Tracer
from ftrace.transforms.array_files import find_dtype

_ATOMS = (type(None), bool, int, float, str)
#: Elements of an array that is written number by number.
_FEW_ELEMENTS = 32


class NoTextError(GraphError):
    """A graph holds something that another process does not have: a function."""


# Parts.


def encode(value: Any) -> Any:
    """The argument of an operation as JSON.

    Raises:
      NoTextError: it holds a function of the user, or something else without a text.
    """
    kind = cast("type[Any]", type(value))
    if kind in _ATOMS:
        return value
    if kind is tuple:
        return [encode(x) for x in value]
    if kind is frozenset:
        return {"set": sorted(map(encode, value), key=json.dumps)}
    if kind is bytes:
        return {"bytes": value.hex()}
    if isinstance(value, np.dtype):
        return {"dtype": dtypes.name_of(cast("np.dtype[Any]", value))}
    if kind is g.Body:
        return {"body": graph_rows(value.inputs, value.outputs)}
    if kind in (ShapedArray, Stack):
        return {"type": _type(value)}
    if kind.__module__.startswith("ftrace.") and _names(kind):
        parts = [encode(getattr(value, name)) for name in _names(kind)]
        return {f"{kind.__module__}:{kind.__qualname__}": parts}
    raise NoTextError(f"{value!r:.60} has no text: another process does not have it")


def _names(kind: type[Any]) -> tuple[str, ...]:
    """The names of the parts of a class that is made of its parts alone."""
    if is_dataclass(kind):
        return tuple([field.name for field in fields(kind) if field.init])
    return getattr(kind, "_fields", ())


def decode(value: Any) -> Any:
    """What `encode` has written."""
    if isinstance(value, (list, tuple)):
        return tuple([decode(x) for x in cast("list[Any]", value)])
    if not isinstance(value, dict):
        return value
    ((kind, parts),) = cast("dict[str, Any]", value).items()
    if kind == "set":
        return frozenset(map(decode, parts))
    if kind == "bytes":
        return bytes.fromhex(parts)
    if kind == "dtype":
        return find_dtype(parts)
    if kind == "body":
        graph = graph_of(parts)
        return g.Body(graph.inputs, graph.outputs)
    if kind == "type":
        return _type_of(parts)
    home, _, name = kind.partition(":")
    found = getattr(import_module(home), name) if home.startswith("ftrace.") else None
    if not isinstance(found, type) or not _names(found):
        raise FileFormatError(f"{kind} is no kind of arguments that ftrace has")
    return found(*map(decode, parts))


def _type(aval: Any) -> Any:
    if type(aval) is ShapedArray:
        return [dtypes.name_of(aval.dtype), encode(aval.shape), aval.weak_type]
    if type(aval) is Stack:
        return {"stack": [_type(aval.element), encode(aval.lanes)]}
    raise NoTextError(f"a value of type {aval!r} has no text")


def _type_of(row: Any) -> ShapedArray:
    if isinstance(row, dict):
        element, lanes = cast("dict[str, Any]", row)["stack"]
        return Stack.of_element(_type_of(element), decode(lanes))
    dtype, shape, *weak = row
    return ShapedArray.of(decode(shape), find_dtype(dtype), bool(*weak))


# Graphs.


def graph_rows(inputs: Sequence[g.Node], outputs: Sequence[g.Node]) -> dict[str, Any]:
    """A graph as JSON.

    Raises:
      NoTextError: it calls a function of the user.
    """
    numbers = {node: i for i, node in enumerate(inputs)}
    rows: list[Any] = []
    for node in g.toposort(outputs, inputs):
        inferred = isinstance(node.op, Compound) or node.op is item_p
        at = node.origin
        line = at and [Path(at.file).name, at.line, at.function]
        rows.append([
            node.op.name, None if inferred else _type(node.aval), encode(node.arg),
            [numbers[s] for s in node.src], line,
        ])  # fmt: skip
        numbers[node] = len(numbers)
    types = [[_type(n.aval), encode(n.arg)] for n in inputs]
    return {"inputs": types, "nodes": rows, "outputs": [numbers[n] for n in outputs]}


def graph_of(text: Any) -> g.Graph:
    """The graph that `graph_rows` wrote."""
    rows: list[Any] = text["inputs"]
    nodes = [variable(_type_of(t), *decode(arg)) for t, arg in rows]
    inputs, given = tuple(nodes), cast("list[Any]", text["nodes"])
    for name, aval, arg, operands, line in given:
        numbers: list[int] = operands
        place: list[Any] = line or ["unknown", 0, "unknown"]
        with g.making_nodes_of(origin_elsewhere(*place)):
            nodes.append(_node(name, aval, arg, [nodes[i] for i in numbers]))
    ends: list[int] = text["outputs"]
    return g.Graph(inputs, tuple([nodes[i] for i in ends]))


def _node(name: str, aval: Any, arg: Any, operands: Sequence[g.Node]) -> g.Node:
    op: g.Op = item_p if name == item_p.name else find_record(name)
    if aval is None:
        return op(*operands, arg=decode(arg))
    return g.make_node(op, _type_of(aval), tuple(operands), decode(arg))


# Programs.


def operation(name: str, aval: Any, *operands: Any, arg: Any = None) -> Any:
    """An operation by its name, in a function that is traced: the same node again.

    Args:
      name: of a primitive.
      aval: the type of the result, as (dtype, shape) or with whether it is weak; None
        of an operation with several results.
      operands: traced values, of the shapes and dtypes that it wants.
      arg: its argument, as `encode` writes it.

    Returns:
      A traced value; several results are a list.
    """
    scope: Any = scope_of(operands) or current_scope()
    if scope is None:
        raise GraphError(f"operation: {name} is for functions that are traced; jit it")
    nodes: list[g.Node] = [scope.lift(x) for x in operands]
    with g.making_nodes_of(None):
        node = _node(name, aval, arg, nodes)
        if not isinstance(node.op, Compound):
            return Tracer(node, scope)
        count = len(node.aval.items)
        return [Tracer(item_p(node, arg=i), scope) for i in range(count)]


def numbers(dtype: str, shape: Sequence[int], text: str) -> Array:
    """The array whose bytes are in a text, compressed."""
    whole = zlib.decompress(base64.b64decode(text))
    found: Array = np.frombuffer(whole, find_dtype(dtype))
    return found.reshape(shape)


def array_text(array: Array) -> str:
    """Code that makes an array of these bits."""
    name, shape = dtypes.name_of(array.dtype), array.shape
    plain = array.dtype.kind in "biuf" and array.dtype.isbuiltin == 1
    if plain and array.size <= _FEW_ELEMENTS and np.isfinite(array).all():
        return f'np.array({array.tolist()}, "{name}").reshape({shape})'
    packed = zlib.compress(np.ascontiguousarray(array).tobytes(), 9)
    return f'numbers("{name}", {shape}, "{base64.b64encode(packed).decode()}")'


def function_text(graph: g.Graph) -> str:
    """A function `program` that makes the nodes of a graph when it is traced.

    Raises:
      NoTextError: it calls a function of the user.
    """
    names = {node: f"x{i}" for i, node in enumerate(graph.inputs)}
    lines = [f"def program({', '.join(names.values())}):"]
    for node in g.toposort(graph.outputs, graph.inputs):
        if node.op is item_p:
            names[node] = f"{names[node.src[0]]}[{node.arg}]"
            continue
        names[node] = f"v{len(lines)}"
        inferred = isinstance(node.op, Compound)
        aval = None if inferred else tuple(decode(_type(node.aval)))
        parts = [repr(node.op.name), repr(aval), *[names[s] for s in node.src]]
        arg = encode(node.arg)
        parts += [] if arg is None else [f"arg={arg!r}"]
        comments = [str(node.origin)] if node.origin is not None else []
        comments += [str(g.constant_value(node))] if node.op.name == "const" else []
        note = f"  # {', '.join(comments)}" if comments else ""
        lines.append(f"    {names[node]} = operation({', '.join(parts)}){note}")
    results = "".join([f"{names[node]}, " for node in graph.outputs])
    return "\n".join([*lines, f"    return ({results})"])

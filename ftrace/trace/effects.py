"""Effects: what the world notices, in the order of the program.

    callback_p(token, *operands, arg=Callback) -> token, *results
    pure_callback_p(*operands, arg=Callback) -> *results

An effect takes the token of the effect before it and gives a new one. So effects keep
their order; equal ones are different nodes, and none is done twice; and as the last
token is an output of the program, none is dropped. A pure callback has no token: it may
be dropped, merged with an equal one, and done again.

An effect belongs to the innermost open scope, whatever its operands are. Where every
open scope has values for its arguments it happens at once.

A token of value `REHEARSAL` tells an effect not to happen. Python gets one when it asks
for a value in the midst of a function, and what is computed again for a derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.arrays.array import Array
from ftrace.errors import ConcretizationTypeError, DerivativeError
from ftrace.errors.user_line import user_origin
from ftrace.trace.avals import REHEARSAL, TOKEN, ShapedArray
from ftrace.trace.callback import Callback, Same, Static, promised
from ftrace.trace.evaluate import settle
from ftrace.trace.graph import Body, Node, constant_bits, make_node
from ftrace.trace.primitives.broadcast import broadcast_leading
from ftrace.trace.primitives.elementwise import stop_gradient
from ftrace.trace.primitives.movement import reshape
from ftrace.trace.primitives.primitive import Compound, Results, compound_of
from ftrace.trace.primitives.sources import const_p, is_variable
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.scopes import (
    Scope,
    asarray,
    current_scope,
    open_scopes,
    owned,
    scope_of,
)
from ftrace.trace.tracing.trace import current_token
from ftrace.trace.tracing.tracer import Tracer, Value, aval_of, concrete, is_value

#: What vmap may make of a pure callback.
METHODS = (
    "sequential", "sequential_unrolled", "expand_dims", "broadcast_all",
    "legacy_vectorized",
)  # fmt: skip

_TUPLE: type[Any] = tuple


# The records.


def _infer(arg: Callback, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
    return (TOKEN, *arg.types)


def _value(avals: Any, arg: Callback, token: Any, *operands: Any) -> list[Any]:
    if int(token) != REHEARSAL:
        return [token, *arg(operands)]
    if arg.results:
        raise ConcretizationTypeError(
            f"a value was needed that depends on what {arg.name} returns, the function "
            f"of {arg.kind}, before its turn has come or after it; an effect happens "
            "once, in the order of the program. Do not ask for the value (if, float, "
            "print) after a jitted function, vmap or a loop with effects, or call it "
            "outside of what is differentiated",
            arg.origin,
        )
    return [token]


def _jvp(node: Node, tangents: Results) -> Results:
    arg: Callback = node.arg
    if any(dtypes.is_inexact(a.dtype) for a in arg.results):
        raise _no_derivative(arg)
    return [None] * len(node.aval.items)


def _no_derivative(arg: Callback) -> DerivativeError:
    return DerivativeError(
        f"{arg.kind} has no derivative: nothing is known of what {arg.name} computes; "
        "call it in a function under ftrace.custom_jvp or ftrace.custom_vjp that gives "
        "the derivative, or pass it ftrace.lax.stop_gradient of its arguments",
        arg.origin,
    )


def _batch(
    node: Node, src: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> tuple[list[Node], list[bool]]:
    """Once per lane, one after the other: in one step of the program."""
    arg: Callback = node.arg
    if not any(batched):
        results = callback_p.results(*src, arg=arg)
        return results, [False] * len(results)
    wide = replace(arg, lanes=((size, batched[1:]), *arg.lanes))
    token, *results = callback_p.results(*src, arg=wide)
    return [token, *results], [False, *[True] * len(results)]


callback_p = Compound(
    "callback", "host", _infer, _value, _batch, jvp=_jvp, pure=False,
    doc="calls a Python function, once, in its turn", show=str,
)  # fmt: skip


def _infer_pure(arg: Callback, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
    return arg.types


def _value_pure(avals: Any, arg: Callback, *operands: Any) -> list[Any]:
    return arg(operands)


def _batch_pure(
    node: Node, src: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> tuple[list[Node], list[bool]]:
    arg: Callback = node.arg
    if arg.method.startswith("sequential"):
        wide = replace(arg, lanes=((size, batched), *arg.lanes))
    else:
        types = tuple(a.with_shape((size, *a.shape)) for a in arg.results)
        wide = replace(arg, results=types)
        src = tuple(
            s if has else _with_lanes(s, arg.method, size)
            for s, has in zip(src, batched, strict=True)
        )
    results = pure_callback_p.results(*src, arg=wide)
    return results, [True] * len(results)


def _with_lanes(node: Node, method: str, size: int) -> Node:
    """An operand that all lanes share, as the callback wants to see it."""
    if method == "expand_dims":
        return reshape(node, (1, *node.shape))
    if method == "broadcast_all":
        return broadcast_leading(node, (size, *node.shape))
    return node


pure_callback_p = Compound(
    "pure_callback", "host", _infer_pure, _value_pure, _batch_pure, jvp=_jvp,
    doc="calls a Python function of its operands alone", show=str,
)  # fmt: skip


def rehearsal() -> Node:
    """The token for what is computed again and has had its effects."""
    return make_node(const_p, TOKEN, (), constant_bits(REHEARSAL, TOKEN.dtype))


def check_repeatable(nodes: Sequence[Node]) -> None:
    """Raises where a loop would have to call back again for the values it got.

    Raises:
      DerivativeError: the nodes, or a body in them, use what an io_callback returns.
    """
    pending = list(nodes)
    seen: set[Node] = set()
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        pending.extend(node.src)
        for body in _bodies(node.arg):
            pending.extend(body.outputs)
        if node.op is callback_p and node.arg.results:
            arg: Callback = node.arg
            raise DerivativeError(
                "this derivative runs a while_loop again for what it remembers, and "
                f"the loop calls {arg.name} by {arg.kind}, which must not be called "
                "again; pass the values in, or have a loop of a known length (scan)",
                arg.origin,
            )


def _bodies(arg: Any) -> list[Body]:
    """The bodies that the argument of a node holds."""
    if not is_dataclass(arg):
        return []
    found: list[Body] = []
    for field in fields(arg):
        value: Any = getattr(arg, field.name)
        parts = value if isinstance(value, _TUPLE) else (value,)
        found += [part for part in parts if isinstance(part, Body)]
    return found


# On values.


def call_back(
    kind: str,
    function: Callable[..., Any],
    specs: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    method: str = "",
    static_numbers: bool = False,
) -> Any:
    """Calls a function of arrays: now, or when the graph runs that is being traced.

    Args:
      kind: the function that the user wrote, for messages.
      function: gets `args` and `kwargs` with arrays in place of traced values.
      specs: a tree of what has shape and dtype: the types of the result.
      args, kwargs: trees; leaves that are no arrays are passed on as they are.
      method: of a pure callback: what vmap makes of it. Without it, it is an effect.
      static_numbers: Python numbers are passed on as they are, too.

    Returns:
      What the function returns: arrays in the structure of `specs`.

    Raises:
      ArgumentError: `function` is not callable.
      TreeError, ShapeError, DtypeError: called now, it did not return what `specs` say.
      DerivativeError: called now, for arguments that are being differentiated.
    """
    tree.check_callable(function, kind)
    leaves, treedef = tree.flatten((args, kwargs))
    static = [None if _is_operand(x, static_numbers) else Static.of(x) for x in leaves]
    operands = [x for x, s in zip(leaves, static, strict=True) if s is None]
    types, structure = promised(kind, specs)
    origin = user_origin()
    arg = Callback(
        kind, Same.of(function), treedef, tuple(static), structure, types,
        method=method or "sequential", origin=origin,
        site=(id(origin.code), origin.offset) if origin and not method else None,
    )  # fmt: skip
    scope = _staging_scope()
    if method and scope is None:
        scope = scope_of(operands)
    if scope is None:
        return tree.unflatten(structure, _call_now(arg, operands))
    results = (_stage_pure if method else _stage)(arg, operands, scope)
    return tree.unflatten(structure, [Tracer(node, scope) for node in results])


def _is_operand(leaf: Any, static_numbers: bool) -> bool:
    if static_numbers and isinstance(leaf, (bool, int, float, complex)):
        return isinstance(leaf, np.generic)
    return is_value(leaf)


def _staging_scope() -> Scope | None:
    """The scope to which what happens now belongs; None if it happens at once.

    It is recorded where an argument has no value, and where earlier effects are still
    to come: those of a jitted function or a loop, of which a derivative is taken.
    """
    if all(s.bound and not s.isolated and not s.tokens for s in open_scopes()):
        return None
    return current_scope()


def _stage(arg: Callback, operands: Sequence[Value], scope: Scope) -> list[Node]:
    nodes = [scope.lift(x) for x in operands]
    token, *results = callback_p.results(current_token(scope), *nodes, arg=arg)
    scope.tokens = (scope.tokens[0], token)
    return results


def _stage_pure(arg: Callback, operands: Sequence[Value], scope: Scope) -> list[Node]:
    return pure_callback_p.results(*[scope.lift(x) for x in operands], arg=arg)


def _call_now(arg: Callback, operands: Sequence[Value]) -> list[Array]:
    """The results of a call with values."""
    if any(dtypes.is_inexact(a.dtype) for a in arg.results):
        for x in operands:
            if isinstance(x, Tracer) and _varies(x.node):
                raise _no_derivative(arg)
    results = arg([_valued(x) for x in operands])
    return [
        Array.of(settle(value, aval.dtype))
        for value, aval in zip(results, arg.types, strict=True)
    ]


def _valued(value: Value) -> Array:
    if isinstance(value, Tracer):
        return Array.of(np.asarray(concrete(value)), aval_of(value).weak_type)
    return asarray(owned(value))


def _varies(node: Node) -> bool:
    """Does it depend on an argument, other than through `stop_gradient` or integers?"""
    scopes = open_scopes()
    seen: set[Node] = set()
    pending = [node]
    while pending:
        found = pending.pop()
        several = compound_of(found) is not None
        if found in seen or not (several or dtypes.is_inexact(found.dtype)):
            continue
        seen.add(found)
        if is_variable(found):
            depth, position = found.arg
            scope = next(s for s in scopes if s.depth == depth)
            if position < len(scope.inputs) - len(scope.captured):
                return True
        elif found.op is not stop_gradient:
            pending.extend(found.src)
    return False

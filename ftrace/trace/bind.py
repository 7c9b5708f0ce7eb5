"""Operations on values: recorded where one of them is traced, else done at once.

bind           a primitive, on operands of the right shapes and dtypes
bind_compound  an operation with several results, likewise
elementwise    a primitive after promotion and broadcasting
"""

# The eager path reads the slots of an Array: its properties would cost as much again.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import DynamicDimensionError, ShapeError, called_function
from ftrace.ground import settings
from ftrace.ground.errstate import ignore_errors, restore_errors
from ftrace.ground.tables import memo
from ftrace.trace import evaluate
from ftrace.trace.arrays.array import Array, is_array, is_away, put_somewhere, recording
from ftrace.trace.avals import Shape, ShapedArray, pairs_of
from ftrace.trace.backend import backend
from ftrace.trace.eager.composite import do_placed, is_of_host, run_fused
from ftrace.trace.graph import Node, make_node, origin_now, provenance
from ftrace.trace.primitives.elementwise import cast_p
from ftrace.trace.primitives.primitive import Compound, Primitive
from ftrace.trace.primitives.reference import convert
from ftrace.trace.symbolic import any_dynamic, bounds, is_dynamic, same_size
from ftrace.trace.tiering import ASKED, count_operation
from ftrace.trace.tracing.scopes import asarray, current_scope, scope_of
from ftrace.trace.tracing.tracer import (
    NUMPY,
    Tracer,
    Value,
    aval_of,
    stack,
    wrap_integer,
)


def bind(op: Primitive, *operands: Value, arg: Any = None) -> Any:
    """Applies a primitive to values: records it if one is traced, else does it.

    The operands already have the shapes and dtypes that the primitive requires.
    """
    if all(type(x) is Array for x in operands):
        return _bind_now(op, operands, arg)
    scope = scope_of(operands)
    if scope is not None:
        node = op(*[scope.lift(x) for x in operands], arg=arg)
        return Tracer(node, scope, origin_now(node))
    arrays = [asarray(x) for x in operands]
    placed = do_placed(bind, op, arrays, arg=arg)
    if placed is not NotImplemented:
        return placed
    put_somewhere(arrays)  # raises where they are apart
    return _bind_now(op, arrays, arg)


@memo(4096)
def _infer(op: Primitive, arg: Any, types: tuple[Any, ...]) -> ShapedArray | None:
    """The type of a result, for (shape, dtype, weak_type) of each operand.

    None where it is done in wider dtypes.
    """
    if op.widens([dtype for _, dtype, _ in types]):
        return None
    return op.infer(arg, *[ShapedArray.of(*t) for t in types])


def _bind_wide(op: Primitive, operands: Sequence[Array], arg: Any) -> Any:
    """`bind` of arrays of few bits: done in a wide dtype, and rounded."""
    aval = op.infer(arg, *[aval_of(x) for x in operands])
    found = bind(op, *map(_widen, operands), arg=arg)
    return _recast(found, aval.dtype)


def _widen(x: Array) -> Any:
    return _recast(x, dtypes.widen(x.dtype))


def _recast(x: Any, dtype: np.dtype[Any]) -> Any:
    return x if x.dtype == dtype else bind(cast_p, x, arg=(dtype, x.weak_type))


def _bind_now(op: Primitive, operands: Sequence[Array], arg: Any) -> Any:
    """`bind` of arrays: those of the host NumPy does, in a few µs."""
    for x in operands:
        if not (x._buffer is None or x._buffer.device.host):
            return run_fused(lambda *xs: bind(op, *xs, arg=arg), operands)
    types = tuple([(x._shape, x._dtype, x.weak_type) for x in operands])
    aval = _infer(op, arg, types)
    if aval is None:
        return _bind_wide(op, operands, arg)
    if is_dynamic(aval.size):
        scope = current_scope()
        assert scope is not None  # a dynamic dimension exists in a trace only
        return Tracer(op(*[scope.lift(x) for x in operands], arg=arg), scope)
    values = [x._host if x._host is not None else x.numpy() for x in operands]
    if aval.size >= ASKED:
        evaluate.require_memory_for(op, aval, values)
    token = ignore_errors()
    try:
        result = op.numpy(aval, arg, *values)
    except MemoryError:
        raise evaluate.no_memory(op.name, aval) from None
    finally:
        restore_errors(token)
    if type(result) is not np.ndarray or result.dtype != aval.dtype:
        result = evaluate.settle(result, aval.dtype)
    made = Array(aval.shape, aval.dtype, aval.weak_type, None, result)
    count_operation()
    if recording.tape is not None:
        recording.tape.note_primitive(op, aval, arg, operands, made)
    return made


def do_now(
    function: Callable[..., Any], *operands: Any, dtype: np.dtype[Any], weak: bool
) -> Array | None:
    """`function(*operands)` in NumPy, for a composition that it has as well.

    None where an operand is no array of the host or is large, or where NumPy refuses:
    the composition has the messages.
    """
    values: list[Any] = []
    for x in operands:
        if type(x) is not Array or not (x._buffer is None or x._buffer.device.host):
            return None
        value = x._host if x._host is not None else x.numpy()
        if value.size >= ASKED:
            return None
        values.append(value)
    token = ignore_errors()
    try:
        result = function(*values)
    except (ValueError, MemoryError):
        return None
    finally:
        restore_errors(token)
    made = Array.of(evaluate.settle(result, dtype), weak)
    if recording.tape is not None:
        recording.tape.note(function, operands, made)
    return made


def bind_compound(op: Compound, *operands: Value, arg: Any = None) -> list[Any]:
    """`bind` of an operation with several results, which are returned as a list.

    Concrete operands are taken to the host, where the results are.

    Raises:
      OutOfMemoryError: the host has no memory for a result.
    """
    scope = scope_of(operands)
    if scope is not None:
        nodes = op.results(*[scope.lift(x) for x in operands], arg=arg)
        return [Tracer(node, scope) for node in nodes]
    arrays = [asarray(x) for x in operands]
    placed = do_placed(bind_compound, op, arrays, arg=arg)
    if placed is not NotImplemented:
        return placed
    put_somewhere(arrays)  # raises where they are apart
    avals = op.infer(arg, *[aval_of(x) for x in arrays])
    if op.widens([x.dtype for x in arrays]):
        found = bind_compound(op, *map(_widen, arrays), arg=arg)
        return [_recast(x, a.dtype) for x, a in zip(found, avals, strict=True)]
    for aval in avals:
        evaluate.require_memory(op.name, aval)
    compiled = backend().run_operation(op, arg, arrays)
    if compiled is not None:
        return compiled
    with np.errstate(all="ignore"):
        try:
            values = op.numpy(avals, arg, *[x.numpy() for x in arrays])
        except MemoryError:
            raise evaluate.no_memory(
                op.name, max(avals, key=evaluate.nbytes_of)
            ) from None
    results = [
        Array.of(evaluate.settle(value, aval.dtype), aval.weak_type)
        for value, aval in zip(values, avals, strict=True)
    ]
    if recording.tape is not None and is_of_host(op):
        recording.tape.note_results(op, avals, arg, arrays, results)
    return results


def elementwise(
    op: Primitive,
    *operands: Value,
    dtype: np.dtype[Any] | None = None,
    inexact: bool = False,
) -> Any:
    """An elementwise primitive after promotion and broadcasting, as NumPy does it.

    Args:
      op: the primitive.
      operands: values of any shapes that broadcast together.
      dtype: compute in this dtype instead of the promoted one.
      inexact: integers and bools are promoted to the default float.

    Raises:
      ShapeError: the shapes do not broadcast.
      DtypeError: the primitive is not defined for the promoted dtype.
    """
    # The common case of a trace first: values of one type and numbers.
    if dtype is None and len(stack.scopes) > stack.floor:
        traced = _elementwise_traced(op, operands, inexact)
        if traced is not None:
            return traced
    avals = [aval_of(x) for x in operands]
    pairs, scope = pairs_of(avals), scope_of(operands)
    if scope is None and not any(hasattr(x, "dtype") for x in operands):
        scope = current_scope()  # numbers alone: a constant of the function
    if scope is not None:
        compute, weak = _compute_type(pairs, dtype, inexact)
        shape = broadcast_shapes(op, [a.shape for a in avals])
        nodes = [scope.lift_to(x, compute, shape, weak) for x in operands]
        node = op(*nodes)
        return Tracer(node, scope, origin_now(node))
    arrays = [x for x in operands if is_array(x)]
    if Array.any_placed:
        put_somewhere(arrays)  # raises where they are apart
        placed = do_placed(elementwise, op, operands, dtype=dtype, inexact=inexact)
        if placed is not NotImplemented:
            return placed
    if is_away(arrays):
        return run_fused(
            lambda *xs: elementwise(op, *xs, dtype=dtype, inexact=inexact), operands
        )
    return _elementwise_now(op, operands, pairs, dtype, inexact)


def _elementwise_traced(
    op: Primitive, operands: Sequence[Value], inexact: bool
) -> Tracer | None:
    """`elementwise` of values of the innermost scope, which need no cast, and numbers.

    None for all others.
    """
    scope = stack.scopes[-1]
    kinds: list[Any] = []
    for x in operands:
        kind = x.__class__
        if kind is Tracer:
            if x.scope is not scope:
                return None
            kinds.append(x.node.aval)
        elif kind is float or (kind is int and -(2**31) <= x < 2**31):
            kinds.append(kind)
        else:
            return None
    x64 = settings.current().enable_x64
    types = _common_types(op, tuple(kinds), inexact, x64)
    if types is None:
        return None
    aval, result = types
    nodes: list[Node] = []
    for x in operands:
        if x.__class__ is Tracer:
            nodes.append(x.node)
        else:
            x = wrap_integer(x, aval.dtype)
            nodes.append(scope.number(x, aval.dtype, aval.shape, aval.weak_type))
    node = make_node(op, result, tuple(nodes))
    return Tracer(node, scope, provenance.caller or origin_now(node))


@memo(4096)
def _common_types(
    op: Primitive,
    kinds: tuple[Any, ...],
    inexact: bool,
    x64: bool | None,  # part of the key: promotion depends on it
) -> tuple[ShapedArray, ShapedArray] | None:
    """The type of all operands that are traced, and that of the result.

    None if it is not computed in that type.
    """
    avals = [kind for kind in kinds if isinstance(kind, ShapedArray)]
    if not avals or any(aval is not avals[0] for aval in avals):
        return None
    first = avals[0]
    scalars = {float: dtypes.default_dtype("f"), int: dtypes.default_dtype("i")}
    pairs = tuple(
        [
            (scalars[kind], True) if kind in scalars else (first.dtype, first.weak_type)
            for kind in kinds
        ]
    )
    found = _compute_type(pairs, None, inexact)
    if found != (first.dtype, first.weak_type) or op.widens([first.dtype]):
        return None
    return first, op.infer(None, *[first] * len(kinds))


def _compute_type(
    pairs: tuple[tuple[np.dtype[Any], bool], ...],
    dtype: np.dtype[Any] | None,
    inexact: bool,
) -> tuple[np.dtype[Any], bool]:
    """In which (dtype, weak_type) an elementwise primitive computes."""
    if dtype is not None:
        return dtype, False
    dtype, weak = dtypes.promote(*pairs)
    return (dtypes.to_inexact(dtype), weak) if inexact else (dtype, weak)


@memo(4096)
def _plan(
    op: Primitive,
    pairs: tuple[tuple[np.dtype[Any], bool], ...],
    dtype: np.dtype[Any] | None,
    inexact: bool,
    x64: bool | None,  # part of the key: promotion depends on it
) -> tuple[np.dtype[Any], ShapedArray | None]:
    """The dtype to compute in, and the type of an element of the result.

    That is None where it is computed in a wider dtype, and rounded.
    """
    compute, weak = _compute_type(pairs, dtype, inexact)
    operand = ShapedArray.of((), compute, weak)
    found = op.infer(None, *[operand] * len(pairs))
    return compute, None if op.widens([compute]) else found


def _elementwise_now(
    op: Primitive,
    operands: Sequence[Value],
    pairs: tuple[tuple[np.dtype[Any], bool], ...],
    dtype: np.dtype[Any] | None,
    inexact: bool,
) -> Array:
    """`elementwise` of arrays of the host and numbers; NumPy broadcasts them."""
    compute, aval = _plan(op, pairs, dtype, inexact, settings.current().enable_x64)
    if aval is None:
        return _elementwise_wide(op, operands, compute)
    arrays: list[Any] = []
    token = ignore_errors()
    try:
        for x in operands:
            if type(x) is Array:
                array = x._host if x._host is not None else x.numpy()
            else:
                x = wrap_integer(x, compute)
                kept = type(x) in (int, float) or (
                    type(x) is complex and dtypes.is_complex(compute)
                )
                if kept or dtypes.is_number_in(x, compute):
                    arrays.append(compute.type(x))
                    continue
                number: Any = x
                array = number if isinstance(x, NUMPY) else asarray(x).numpy()
            # Most arrays of one dtype share the object, and its comparison is slow.
            same = array.dtype is compute or array.dtype == compute
            arrays.append(array if same else convert(array, compute))
        try:
            most = 1
            for array in arrays:
                most *= array.size
            if most >= ASKED:
                _require_memory_for_all(op, aval, arrays)
            result = op.numpy(aval, None, *arrays)
        except ValueError:
            broadcast_shapes(op, [array.shape for array in arrays])
            raise
        except MemoryError:
            shape = broadcast_shapes(op, [array.shape for array in arrays])
            raise evaluate.no_memory(op.name, aval.with_shape(shape)) from None
    finally:
        restore_errors(token)
    if type(result) is not np.ndarray or result.dtype != aval.dtype:
        result = evaluate.settle(result, aval.dtype)
    made = Array(result.shape, aval.dtype, aval.weak_type, None, result)
    count_operation()
    if recording.tape is not None:
        recording.tape.note_elementwise(op, aval, operands, compute, made)
    return made


def _elementwise_wide(
    op: Primitive, operands: Sequence[Value], compute: np.dtype[Any]
) -> Array:
    """`elementwise` in a wider dtype, rounded to that which it has in `compute`."""
    same = [_recast(asarray(x), compute) for x in operands]
    found = elementwise(op, *map(_widen, same))
    operand = ShapedArray.of((), compute)
    return _recast(found, op.infer(None, *[operand] * len(same)).dtype)


def _require_memory_for_all(op: Primitive, aval: ShapedArray, arrays: Any) -> None:
    shape = broadcast_shapes(op, [array.shape for array in arrays])
    evaluate.require_memory(op.name, aval.with_shape(shape))


def check_decided(name: str, sizes: Collection[Any]) -> None:
    """Raises where sizes that must be equal may be, and are not known to be."""
    if not any_dynamic(sizes):
        return
    low = max(bounds(n)[0] for n in sizes)
    high = min(bounds(n)[1] for n in sizes)
    if low <= high:
        listed = " and ".join(sorted(map(str, sizes)))
        raise DynamicDimensionError(
            f"{name}: sizes {listed} meet in one axis, which is right only where they "
            "are equal, and the function is compiled once for all sizes of a dynamic "
            "dimension. Where they are always equal give the axes one name in "
            "`dynamic`; a size that is fixed is left out of it"
        )


def broadcast_shapes(name: str | Primitive, shapes: Sequence[Shape]) -> Shape:
    """The shape to which all of them broadcast, by NumPy's rules.

    Raises:
      ShapeError: two sizes of an axis differ and neither is 1.
    """
    first = shapes[0]
    if all(same_size(shape, first) for shape in shapes):
        return first
    ndim = max(map(len, shapes))
    padded = [(1,) * (ndim - len(shape)) + tuple(shape) for shape in shapes]
    result: list[int] = []
    for sizes in zip(*padded, strict=True):
        distinct = {n for n in sizes if not same_size(n, 1)}
        if len(distinct) > 1:
            name = name if isinstance(name, str) else called_function(name.name)
            check_decided(name, distinct)
            listed = " and ".join(map(str, shapes))
            raise ShapeError(
                f"{name}: shapes {listed} do not broadcast: sizes "
                f"{' and '.join(map(str, sorted(distinct)))} meet in one axis; "
                "reshape or transpose one of them"
            )
        result.append(distinct.pop() if distinct else 1)
    return tuple(result)

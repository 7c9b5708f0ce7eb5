"""Where the extremum stands: argmax and argmin, as reductions of positions.

m = max(x);  index = min(position where x == m or x is NaN)

Of a long vector the greatest of each block are found first: only the block that has the
greatest of these is looked through once more.
"""

from __future__ import annotations

from typing import Any

from ftrace import dtypes
from ftrace.errors import DtypeError, ValueRangeError
from ftrace.numpy.axes import (
    as_value,
    canonical_axis,
    choose,
    expand,
    full,
    iota,
    no_out,
    reshape,
)
from ftrace.numpy.reductions import reduced
from ftrace.trace.dims import any_dynamic
from ftrace.trace.eager import member
from ftrace.trace.fused import run_fused
from ftrace.trace.operations import bind, do_now
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.indexing import gather_p
from ftrace.trace.primitives.record import Primitive
from ftrace.trace.primitives.reduction import identity, reduce_max_p, reduce_min_p
from ftrace.trace.sizes import upper_bound
from ftrace.trace.tracer import Value

__all__ = ["argmax", "argmin", "nanargmax", "nanargmin"]


def _position(
    name: str, primitive: Primitive, a: Value, axis: int | None, keepdims: bool
) -> Any:
    a = as_value(a)
    if dtypes.is_complex(a.dtype):
        raise DtypeError(f"{name} is not defined for {a.dtype.name}; compare abs(x)")
    shape = a.shape
    if axis is None:
        a, axis, kept = reshape(a, (a.size,)), 0, (1,) * len(shape)
    else:
        axis = canonical_axis(axis, a.ndim, name)
        kept = (*shape[:axis], 1, *shape[axis + 1 :])
    if a.shape[axis] == 0:
        raise ValueRangeError(
            f"{name}: the array of shape {shape} has no elements along its axis {axis}"
        )
    result = position_of(primitive, a, axis)
    return reshape(result, kept if keepdims else drop_sizes(result.shape, axis))


def position_of(primitive: Primitive, a: Any, axis: int) -> Any:
    """Where the extremum stands first along `axis`, which stays with size 1."""
    found = _found_now(primitive, a, axis)
    if found is not None:
        return found
    return run_fused(first_position, [a], primitive=primitive, axis=axis)


def drop_sizes(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """A shape without one of its axes."""
    return (*shape[:axis], *shape[axis + 1 :])


def _found_now(primitive: Primitive, a: Any, axis: int) -> Any:
    """`first_position` by NumPy, where it has that; else None."""
    if a.dtype.kind not in "biuf" or a.shape[axis] > dtypes.limits(dtypes.int32)[1]:
        return None
    function = _greatest if primitive is reduce_max_p else _least
    integer = dtypes.default_dtype("i")
    return do_now(function, a, dtype=integer, weak=False, more=(axis,))


def _greatest(x: Any, axis: int) -> Any:
    return x.argmax(axis, keepdims=True)


def _least(x: Any, axis: int) -> Any:
    return x.argmin(axis, keepdims=True)


def first_position(a: Any, primitive: Primitive, axis: int) -> Any:
    """Where the extremum stands first along `axis`, which stays with size 1."""
    length = _block_length(a.shape)
    return (
        _first(a, primitive, axis) if not length else _of_blocks(a, primitive, length)
    )


#: A vector of so many elements has blocks, and so many elements has each at the least.
_LONG, _BLOCK = 1 << 16, 1 << 12


def _block_length(shape: tuple[Any, ...]) -> int:
    """Elements of a block of a long vector: a divisor; 0 if it has none."""
    if len(shape) != 1 or any_dynamic(shape) or shape[0] < _LONG:
        return 0
    lengths = range(_BLOCK, 4 * _BLOCK)
    return next((n for n in lengths if shape[0] % n == 0), 0)


def _of_blocks(a: Any, primitive: Primitive, length: int) -> Any:
    count = a.shape[0] // length
    rows = reshape(a, (count, length))
    block = _first(reshape(bind(primitive, rows, arg=(1,)), (count,)), primitive, 0)
    row = reshape(bind(gather_p, rows, block, arg=(0,)), (length,))
    begin = bind(p.mul, block, full((1,), length, block.dtype))
    return bind(p.add, begin, _first(row, primitive, 0))


def _first(a: Any, primitive: Primitive, axis: int) -> Any:
    size = a.shape[axis]
    extremum = expand(bind(primitive, a, arg=(axis,)), a.shape)
    here = bind(p.eq, a, extremum)
    if dtypes.is_float(a.dtype):
        here = bind(p.bit_or, here, bind(p.ne, a, a))
    dtype = dtypes.default_dtype("i")
    if upper_bound(size) > dtypes.limits(dtype)[1]:
        dtype = dtypes.int64
    numbers = iota(dtype, a.shape, axis)
    beyond = full(a.shape, size - 1, dtype)
    return bind(reduce_min_p, bind(p.select, here, numbers, beyond), arg=(axis,))


def _nan_position(
    name: str, primitive: Primitive, a: Value, axis: int | None, keepdims: bool
) -> Any:
    a = as_value(a)
    if not dtypes.is_float(a.dtype):
        return _position(name, primitive, a, axis, keepdims)
    missing = bind(p.ne, a, a)
    filled = choose(missing, full((), identity(primitive, a.dtype), a.dtype), a)
    found = _position(name, primitive, filled, axis, keepdims)
    axes = tuple(range(a.ndim)) if axis is None else (axis % a.ndim,)
    nothing = reduced(reduce_min_p, missing, axes, keepdims)
    return choose(nothing, full((), -1, found.dtype), found)


def _positions(name: str, primitive: Primitive, skip_nan: bool = False):
    find = _nan_position if skip_nan else _position

    def positions(
        a: Value,
        axis: int | None = None,
        out: None = None,
        keepdims: bool | None = None,
    ) -> Any:
        no_out(name, out)
        return find(name, primitive, a, axis, bool(keepdims))

    return positions


@member(_positions, reduce_max_p)
def argmax():
    """The index of the first greatest element; the first NaN where there is one.

    Args:
      a: the array.
      axis: along which to look; None counts in the flattened array.
      out: not supported.
      keepdims: the axis stays, with size 1.

    Raises:
      ValueRangeError: the axis has no elements.
    """


@member(_positions, reduce_min_p)
def argmin():
    """The index of the first least element; the first NaN where there is one.

    Arguments and errors are those of `argmax`.
    """


@member(_positions, reduce_max_p, skip_nan=True)
def nanargmax():
    """The index of the first greatest element, NaN left out; -1 where all are NaN.

    Arguments and errors are those of `argmax`.
    """


@member(_positions, reduce_min_p, skip_nan=True)
def nanargmin():
    """The index of the first least element, NaN left out; -1 where all are NaN.

    Arguments and errors are those of `argmax`.
    """

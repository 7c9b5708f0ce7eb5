"""New arrays: of one value, of evenly spaced numbers, and their grids and windows.

Inside a traced function zeros and ones are constants of the graph, so that they are
folded into what uses them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace import dtypes, errors
from ftrace.numpy import axes as ax, elementwise as ew
from ftrace.numpy.arithmetic import power
from ftrace.numpy.creation import Dtype, array, astype, dtype_or, from_number
from ftrace.numpy.data_types import type_like
from ftrace.numpy.floats import i0
from ftrace.numpy.indexing import index_entries
from ftrace.numpy.joining import concatenate, stack
from ftrace.numpy.shape import broadcast_arrays
from ftrace.trace.arrays.array import Array
from ftrace.trace.avals import Shape
from ftrace.trace.backend import backend
from ftrace.trace.bind import broadcast_shapes
from ftrace.trace.eager.composite import run_fused
from ftrace.trace.eager.function_objects import Eager, member
from ftrace.trace.eager.result_memory import own, place_like
from ftrace.trace.primitives.reference import convert
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic import any_dynamic, is_dynamic
from ftrace.trace.tracing.tracer import Tracer, Value, aval_of, is_value, wrap_integer

__all__ = [
    "arange", "bartlett", "blackman", "c_", "empty", "empty_like", "fromfunction",
    "full", "full_like", "geomspace", "hamming", "hanning", "index_exp", "indices",
    "kaiser", "linspace", "logspace", "meshgrid", "mgrid", "ogrid", "ones", "ones_like",
    "r_", "s_", "zeros", "zeros_like",
]  # fmt: skip

# One value everywhere.


def _of_one_value(name: str, value: int):
    def fill(shape: Any, dtype: Dtype = None) -> Any:
        """An array of one value.

        Args:
          shape: an int or several.
          dtype: of the elements; None is float32.

        Raises:
          ShapeError: a size is negative.
        """
        target = dtype_or(dtype, dtypes.default_dtype("f"))
        return ax.full(ax.check_sizes(shape, name), value, target)

    return fill


@member(_of_one_value, 0)
def zeros():
    """Zeros of a shape, float32 by default, where NumPy has float64.

    Example:
      >>> fnp.zeros((2, 3))
      Array([[0., 0., 0.],
             [0., 0., 0.]], dtype=float32)
      >>> fnp.zeros(2, dtype=int)
      Array([0, 0], dtype=int32)
    """


@member(_of_one_value, 1)
def ones():
    """Ones of a shape, float32 by default, where NumPy has float64.

    Example:
      >>> fnp.ones((2, 3))
      Array([[1., 1., 1.],
             [1., 1., 1.]], dtype=float32)
    """


@member(_of_one_value, 0)
def empty():
    """Zeros of a shape, float32 by default: memory is never left as it was found.

    Example:
      >>> fnp.empty(2)
      Array([0., 0.], dtype=float32)
    """


def full(shape: Any, fill_value: Any, dtype: Dtype = None) -> Any:
    """`fill_value`, a number or an array, broadcast to a shape.

    Args:
      shape: an int or several.
      fill_value: a number, or an array that broadcasts to the shape.
      dtype: of the elements; None is that of `fill_value`.

    Raises:
      ShapeError: it does not broadcast, or a size is negative.

    Example:
      >>> fnp.full((2, 2), 7)
      Array([[7, 7],
             [7, 7]], dtype=int32, weak_type=True)
      >>> fnp.full((2, 2), fnp.array([1.0, 2.0]))
      Array([[1., 2.],
             [1., 2.]], dtype=float32)
    """
    return fill("full", ax.check_sizes(shape, "full"), fill_value, dtype)


def fill(name: str, target: Shape, fill_value: Any, dtype: Dtype) -> Any:
    fill_value = dtypes.as_number(fill_value)
    if not isinstance(fill_value, (bool, int, float, complex)):
        value = array(fill_value, dtype, copy=False)
        weak = value.weak_type
        value = ax.cast(value, dtypes.strong_dtype(value.dtype, weak), weak)
        return ax.broadcast_to(value, target, name)
    if dtype is not None:
        fill_value = wrap_integer(fill_value, dtypes.as_dtype(dtype))
    return from_number(fill_value, dtype, target)


def _like(name: str, value: int):
    def like(a: Any, dtype: Dtype = None, shape: Any = None) -> Any:
        """An array of one value, like another one.

        Args:
          a: an array, or anything that has a shape and a dtype.
          dtype: of the elements; None is that of `a`.
          shape: None is that of `a`.

        Raises:
          ShapeError: a size is negative.
        """
        aval = type_like(a)
        target = aval.shape if shape is None else ax.check_sizes(shape, name)
        weak = aval.weak_type and dtype is None
        return place_like(ax.full(target, value, dtype_or(dtype, aval.dtype), weak), a)

    return like


@member(_like, 0)
def zeros_like():
    """Zeros of the shape and dtype of `a`, or as given.

    Example:
      >>> fnp.zeros_like(fnp.array([1, 2]))
      Array([0, 0], dtype=int32)
    """


@member(_like, 1)
def ones_like():
    """Ones of the shape and dtype of `a`, or as given.

    Example:
      >>> fnp.ones_like(fnp.array([1, 2]), dtype=float)
      Array([1., 1.], dtype=float32)
    """


def empty_like(prototype: Any, dtype: Dtype = None, shape: Any = None) -> Any:
    """Zeros of the shape and dtype of `prototype`, or as given.

    Args:
      prototype: an array, or anything that has a shape and a dtype.
      dtype: of the elements; None is that of `prototype`.
      shape: None is that of `prototype`.

    Raises:
      ShapeError: a size is negative.

    Example:
      >>> fnp.empty_like(fnp.array([1, 2]))
      Array([0, 0], dtype=int32)
    """
    return _like("empty_like", 0)(prototype, dtype, shape)


def full_like(a: Any, fill_value: Any, dtype: Dtype = None, shape: Any = None) -> Any:
    """`fill_value` in the shape and dtype of `a`, or as given.

    Args:
      a: an array, or anything that has a shape and a dtype.
      fill_value: a number, or an array that broadcasts to the shape.
      dtype: of the elements; None is that of `a`.
      shape: None is that of `a`.

    Raises:
      ShapeError: it does not broadcast, or a size is negative.

    Example:
      >>> fnp.full_like(fnp.array([1, 2]), 7)
      Array([7, 7], dtype=int32)
    """
    aval = type_like(dtypes.as_number(a))
    target = aval.shape if shape is None else ax.check_sizes(shape, "full_like")
    natural = dtypes.strong_dtype(aval.dtype, aval.weak_type)
    made = fill("full_like", target, fill_value, dtype_or(dtype, natural))
    return place_like(made, a)


# Evenly spaced numbers.


#: NumPy without its stubs, which leave too much unknown.
_host: Any = np


def arange(start: Any, stop: Any = None, step: Any = None, dtype: Dtype = None) -> Any:
    """Numbers from `start` up to, without, `stop`.

    Args:
      start: the first one; alone it is `stop`, and the first one is 0.
      stop: where they end.
      step: how far they are apart, by default 1.
      dtype: of the result, by default what the arguments promote to.

    Returns:
      ⌈(stop - start) / step⌉ numbers; int32, or float32 if one of them is a float.

    Raises:
      ArgumentError: an argument is no number.
      ConcretizationTypeError: an argument is traced.
      DtypeError: the dtype is bool.
      ValueRangeError: the step is 0, or an argument infinite, NaN or complex.

    Example:
      >>> fnp.arange(4)
      Array([0, 1, 2, 3], dtype=int32)
      >>> fnp.arange(1, 10, 3)
      Array([1, 4, 7], dtype=int32)
      >>> fnp.arange(0, 1, 0.25)
      Array([0.  , 0.25, 0.5 , 0.75], dtype=float32)
    """
    start, stop, step = map(dtypes.as_number, (start, stop, step))
    given = [x for x in (start, stop, step) if x is not None]
    if stop is None:
        start, stop = 0, start
        if type(stop) is int and step is None and stop > 0:
            target = _numeric(dtype_or(dtype, dtypes.scalar_type(stop)[0]))
            return ax.iota(target, (stop,), 0)
    if any_dynamic((start, stop, step)):
        return _dynamic_range(start, stop, 1 if step is None else step, dtype)
    bounds = [_read_number(x) for x in (start, stop, 1 if step is None else step)]
    types = [_read_number(x)[1] for x in given]
    natural = dtypes.strong_dtype(*dtypes.promote(*types))
    target = _numeric(dtype_or(dtype, natural))
    first, last, gap = [value for value, _ in bounds]
    for value in (first, last, gap):
        if type(value) is complex or (type(value) is float and value - value != 0):
            raise errors.ValueRangeError(
                f"arange takes finite real numbers, got {value}"
            )
    if gap == 0:
        raise errors.ZeroStepError("arange: the step must not be 0")
    count = max(0, math.ceil((last - first) / gap))
    whole = first == int(first) and gap == int(gap)
    if count == 0:
        return ax.full((0,), 0, target)
    if (first, gap) == (0, 1) or (whole and dtypes.is_integer(target)):
        result = ax.iota(target, (count,), 0)
        result = ew.multiply(result, int(gap)) if gap != 1 else result
        return ew.add(result, int(first)) if first != 0 else result
    # Other steps round as in NumPy: the values are data, not a formula of the index.
    wide = target if target.itemsize > 2 else dtypes.float32
    values: Any = np.arange(first, last, gap, dtype=wide)
    return Array.of(convert(values, target))


def _numeric(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype == dtypes.bool_:
        raise errors.DtypeError(
            "arange: the dtype must be numeric, got bool; compare a range with a "
            "number, or cast it with .astype(bool)"
        )
    return dtype


def _dynamic_range(start: Any, stop: Any, step: Any, dtype: Dtype) -> Any:
    """A range with a dynamic dimension in it: whole numbers only."""
    for x in (start, stop, step):
        if not is_dynamic(x) and type(x) is not int:
            raise errors.ArgumentError(
                "arange: beside a dynamic dimension the other arguments must be Python "
                f"integers, got {x!r}"
            )
    count = -((start - stop) // step)
    target = dtype_or(dtype, dtypes.scalar_type(0)[0])
    result = ax.iota(target, (count,), 0)
    result = result if not is_dynamic(step) and step == 1 else ew.multiply(result, step)
    return result if not is_dynamic(start) and start == 0 else ew.add(result, start)


def _read_number(x: Any) -> tuple[Any, tuple[np.dtype[Any], bool]]:
    """A Python number and its (dtype, weak_type)."""
    if not is_value(x) or aval_of(x).shape != ():
        raise errors.ArgumentError(f"arange takes numbers, got {x!r:.60}")
    aval = aval_of(x)
    if isinstance(x, (int, float, complex)):
        number = x
    elif isinstance(x, Tracer):
        number = int(x) if dtypes.is_integer(x.dtype) else float(x.item())
    else:
        number = np.asarray(x).item()
    return number, (aval.dtype, aval.weak_type)


def linspace(
    start: Value,
    stop: Value,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Dtype = None,
    axis: int = 0,
) -> Any:
    """`num` evenly spaced numbers from `start` to `stop`, along a new axis.

    Args:
      start, stop: numbers, or arrays, which broadcast.
      num: how many.
      endpoint: `stop` is the last one; if false, it would be the next.
      retstep: return (numbers, distance between them).
      dtype: of the result; None is float32, or what the ends are promoted to.
      axis: where the result has the new axis.

    Returns:
      The numbers; with `retstep` a pair, with the distance between them.

    Raises:
      ValueRangeError: `num` is negative.

    Example:
      >>> fnp.linspace(0, 1, 5)
      Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
      >>> fnp.linspace(0, 1, 4, endpoint=False)
      Array([0.  , 0.25, 0.5 , 0.75], dtype=float32)
      >>> fnp.linspace(fnp.array([0, 10]), 20, 3)
      Array([[ 0., 10.],
             [10., 15.],
             [20., 20.]], dtype=float32)
    """
    num = ax.check_count(num, "linspace: num")
    start, stop = _end(start), _end(stop)
    natural, weak = ew.common_type(start, stop)
    compute = dtypes.strong_dtype(dtypes.to_inexact(natural), weak)
    target = dtype_or(dtype, compute)
    if dtypes.is_inexact(target):
        compute = dtypes.promote((compute, False), (dtypes.widen(target), False))[0]
    start, stop = ax.cast(start, compute), ax.cast(stop, compute)
    shape = broadcast_shapes("linspace", [start.shape, stop.shape])
    axis = ax.canonical_axis(axis, len(shape) + 1, "linspace")
    gaps = num - 1 if endpoint else num
    start, stop = ax.broadcast_to(start, shape), ax.broadcast_to(stop, shape)
    result = run_fused(_blend, [start, stop], num=num, gaps=gaps)
    if dtypes.is_integer(target):
        result = ew.floor_values(result)
    result = ax.cast(ax.move_axis(result, 0, axis), target)
    if not retstep:
        return result
    return result, (stop - start) / gaps if gaps > 0 else ax.full((), math.nan, compute)


def _end(x: Any) -> Any:
    """A number, an array or nested lists of numbers."""
    return x if is_value(x) else array(x, copy=False)


def _blend(start: Any, stop: Any, num: int, gaps: int) -> Any:
    """start·(1 - t) + stop·t for t = i/gaps; at the end `stop` itself."""
    if num == 0:
        return ax.full((0, *start.shape), 0, start.dtype)
    if gaps < 1:
        return ax.reshape(start, (1, *start.shape))
    real = dtypes.real_dtype(start.dtype)
    t = ax.iota(real, ax.line(start.ndim + 1, 0, num), 0) / gaps
    part = ax.cast(t, start.dtype)
    blended = start * (1 - part) + stop * part
    return blended if num == gaps else ax.choose(t == 1, stop, blended)


def logspace(
    start: Value,
    stop: Value,
    num: int = 50,
    endpoint: bool = True,
    base: Value = 10.0,
    dtype: Dtype = None,
    axis: int = 0,
) -> Any:
    """`base` to powers that are evenly spaced from `start` to `stop`.

    Args:
      start, stop: the exponents at the ends; numbers, or arrays, which broadcast.
      num: how many.
      endpoint: `stop` is the last exponent; if false, it would be the next.
      base: what is raised to them.
      dtype: of the result; None is float32, or what the ends are promoted to.
      axis: where the result has the new axis.

    Raises:
      ValueRangeError: `num` is negative.

    Example:
      >>> fnp.logspace(0, 3, 4, base=2)
      Array([1., 2., 4., 8.], dtype=float32)
    """
    result = power(base, linspace(start, stop, num, endpoint, axis=axis))
    return result if dtype is None else astype(result, dtype)


def geomspace(
    start: Value,
    stop: Value,
    num: int = 50,
    endpoint: bool = True,
    dtype: Dtype = None,
    axis: int = 0,
) -> Any:
    """`num` numbers from `start` to `stop`, each the same multiple of the last.

    Args:
      start, stop: the ends; numbers, or arrays, which broadcast; not 0, of one sign.
      num: how many.
      endpoint: `stop` is the last one; if false, it would be the next.
      dtype: of the result; None is float32, or what the ends are promoted to.
      axis: where the result has the new axis.

    Raises:
      ValueRangeError: `num` is negative.

    Example:
      >>> fnp.geomspace(1, 1000, 4).round(2)
      Array([   1.,   10.,  100., 1000.], dtype=float32)
    """
    start, stop = ew.promote_inexact(_end(start), _end(stop))
    target = dtype_or(dtype, dtypes.strong_dtype(start.dtype, start.weak_type))
    # The sign is taken out, and given back to the result.
    factor = ew.sign(start)
    exponents = linspace(ew.log(start / factor), ew.log(stop / factor), num, endpoint)
    result = factor * power(math.e, exponents)
    place = ax.iota(dtypes.int32, (result.shape[0],) + (1,) * (result.ndim - 1), 0)
    if num > 0:
        result = ax.choose(place == 0, start, result)
    if endpoint and num > 1:
        result = ax.choose(place == num - 1, stop, result)
    axis = ax.canonical_axis(axis, result.ndim, "geomspace")
    return ax.cast(ax.move_axis(result, 0, axis), target)


# Grids.


def meshgrid(
    *xi: Value, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> list[Any]:
    """Coordinate arrays of a grid, one per vector; with `sparse` not yet repeated.

    Args:
      *xi: vectors, or numbers.
      copy: accepted, without effect.
      sparse: each array has size 1 along the axes of the others.
      indexing: "xy": the first vector runs along the columns, the second along the
        rows; "ij": each runs along its own axis.

    Returns:
      A list of arrays.

    Raises:
      ShapeError: a vector has more than one axis.
      ValueRangeError: `indexing` is neither "xy" nor "ij".

    Example:
      >>> x, y = fnp.meshgrid(fnp.array([1, 2, 3]), fnp.array([10, 20]))
      >>> x
      Array([[1, 2, 3],
             [1, 2, 3]], dtype=int32)
      >>> y
      Array([[10, 10, 10],
             [20, 20, 20]], dtype=int32)
    """
    errors.one_of("meshgrid: indexing", indexing, ("xy", "ij"))
    vectors = [ax.as_value(x) for x in xi]
    if any(v.ndim > 1 for v in vectors):
        shapes = ", ".join(str(v.shape) for v in vectors)
        raise errors.ShapeError(f"meshgrid takes vectors, got shapes {shapes}")
    ndim = len(vectors)
    places = list(range(ndim))
    if indexing == "xy" and ndim > 1:
        places[:2] = [1, 0]
    lines = [
        ax.reshape(v, ax.line(ndim, place, v.size))
        for place, v in zip(places, vectors, strict=True)
    ]
    return lines if sparse else broadcast_arrays(*lines)


def indices(
    dimensions: Sequence[int], dtype: Dtype = None, sparse: bool = False
) -> Any:
    """The index of every element of a shape, one array per axis.

    Args:
      dimensions: the shape.
      dtype: of the indices; None is int32.
      sparse: a tuple of arrays that broadcast to the shape, instead.

    Returns:
      An array (axes, *dimensions), or the tuple.

    Example:
      >>> rows, columns = fnp.indices((2, 3))
      >>> rows
      Array([[0, 0, 0],
             [1, 1, 1]], dtype=int32)
      >>> columns
      Array([[0, 1, 2],
             [0, 1, 2]], dtype=int32)
    """
    shape = ax.check_sizes(dimensions, "indices")
    target = dtype_or(dtype, dtypes.default_dtype("i"))
    places = [ax.iota(target, (n,), 0) for n in shape]
    found = meshgrid(*places, sparse=sparse, indexing="ij")
    if sparse:
        return tuple(found)
    return stack(found) if shape else ax.full((0,), 0, target)


def fromfunction(
    function: Callable[..., Any],
    shape: Any,
    *,
    dtype: str | type[Any] | np.dtype[Any] | None = float,
    **kwargs: Any,
) -> Any:
    """`function` of the index along each axis, mapped over all places of a shape.

    What the function returns for one place stands behind the axes of the shape. Unlike
    NumPy's, it is given one place at a time, under `vmap`.

    Args:
      function: of as many scalars as there are axes.
      shape: an int or several.
      dtype: of the indices.
      **kwargs: passed to the function.

    Example:
      >>> fnp.fromfunction(lambda i, j: 10 * i + j, (2, 3), dtype=int)
      Array([[ 0,  1,  2],
             [10, 11, 12]], dtype=int32)
    """
    tree.check_callable(function, "fromfunction")
    sizes = ax.check_sizes(shape, "fromfunction")
    target = dtypes.as_dtype(dtype)

    def mapped(*places: Any) -> Any:
        return function(*places, **kwargs)

    for axis in reversed(range(len(sizes))):
        axes = tuple(0 if a == axis else None for a in range(len(sizes)))
        mapped = backend().vmap(mapped, axes)
    return mapped(*[ax.iota(target, (n,), 0) for n in sizes])


def _slice_range(key: slice) -> Any:
    """a:b:s as arange; a:b:nj as linspace of n numbers, the end included."""
    start = 0 if key.start is None else key.start
    if isinstance(key.step, complex):
        return linspace(start, key.stop, int(abs(key.step)))
    return arange(start, key.stop, key.step)


class _Grid:
    """`mgrid[a:b, c:d]` and `ogrid[a:b, c:d]`."""

    def __init__(self, sparse: bool) -> None:
        self.sparse = sparse

    def __repr__(self) -> str:
        return "ogrid" if self.sparse else "mgrid"

    def __getitem__(self, key: slice | tuple[slice, ...]) -> Any:
        return _grid(key, self.sparse)


def _grid_of(key: slice | tuple[slice, ...], sparse: bool) -> Any:
    if isinstance(key, slice):
        return _slice_range(key)
    if not key:
        return [] if sparse else array([], dtypes.default_dtype("i"))
    lines = [_slice_range(part) for part in key]
    types = [(a.dtype, a.weak_type) for a in map(aval_of, lines)]
    dtype = dtypes.promote(*types)[0]
    grids = meshgrid(*[ax.cast(x, dtype) for x in lines], indexing="ij", sparse=sparse)
    return grids if sparse else stack(grids)


_grid = Eager(_grid_of, (), __name__)
mgrid = _Grid(sparse=False)
ogrid = _Grid(sparse=True)


class _Joined:
    """`r_[...]` joins ranges and arrays along the first axis, `c_[...]` as columns.

    Numbers in a string before them say otherwise: the axis along which to join, how
    many axes each has at least, and before which of these its own stand (-1: the last);
    "r" makes a row of what has one axis, "c" a column.
    """

    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers

    def __repr__(self) -> str:
        return "c_" if self.numbers else "r_"

    def __getitem__(self, key: Any) -> Any:
        return own(self._join(key), (key,), {})

    def _join(self, key: Any) -> Any:
        parts, numbers = index_entries(key), self.numbers
        directive = parts[0] if parts and type(parts[0]) is str else ""
        if directive in ("r", "c"):
            found = self._join(tuple(parts[1:]))
            shape = (1, found.size) if directive == "r" else (found.size, 1)
            return ax.reshape(found, shape) if found.ndim == 1 else found
        if directive:
            numbers, parts = self._numbers_of(directive), parts[1:]
        axis, ndim, place = numbers
        arrays = [
            _slice_range(part) if type(part) is slice else array(part, copy=False)
            for part in map(dtypes.as_number, parts)
        ]
        return concatenate([_with_axes(x, ndim, place) for x in arrays], axis)

    def _numbers_of(self, text: str) -> tuple[int, ...]:
        given = text.split(",")
        try:
            numbers = (*map(int, given), *self.numbers[len(given) :])
            axis, ndim, place = numbers
        except ValueError:
            raise errors.ValueRangeError(
                f"a directive is one to three integers, separated by commas: {text!r}"
            ) from None
        if not (-ndim <= axis < max(ndim, 1) and -ndim <= place < ndim):
            raise errors.ValueRangeError(
                f"the directive {text!r} names an axis beyond {ndim}"
            )
        return numbers


def _with_axes(x: Any, ndim: int, place: int) -> Any:
    """At least as many axes; the array's own begin at a place among them."""
    if (lack := ndim - x.ndim) <= 0:
        return x
    before = min(place if place >= 0 else place + lack + 1, lack)
    return ax.reshape(x, (1,) * before + x.shape + (1,) * (lack - before))


r_ = _Joined(0, 1, -1)
c_ = _Joined(-1, 2, 0)

#: What stands between the brackets, as a value.
s_, index_exp = np.s_, np.index_exp


# Windows.


def _window(name: str) -> Callable[[int], Any]:
    numbers = getattr(_host, name)

    def window(M: int) -> Any:
        """A window.

        Args:
          M: how many points; a Python number, known while tracing.

        Returns:
          (M,) float32; ones for M = 1.

        Raises:
          ValueRangeError: M is negative.
        """
        return _known_floats(numbers(_points(M, name)))

    return window


def _points(M: Any, name: str) -> int:
    """How many points: what is between two integers is the lower one."""
    whole = math.floor(M) if type(M) is float and math.isfinite(M) else M
    return ax.check_count(whole, f"{name}: M")


def _known_floats(numbers: Any) -> Any:
    return ax.constant(Array.of(numbers.astype(dtypes.default_dtype("f"))))


@member(_window)
def hanning():
    """A raised cosine of M points from 0 to 0: (1 - cos(2πn/(M - 1))) / 2.

    Example:
      >>> fnp.hanning(5).round(3)
      Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """


@member(_window)
def hamming():
    """A raised cosine of M points from 0.08 to 0.08: 0.54 - 0.46·cos(2πn/(M - 1)).

    Example:
      >>> fnp.hamming(5).round(3)
      Array([0.08, 0.54, 1.  , 0.54, 0.08], dtype=float32)
    """


@member(_window)
def blackman():
    """Two cosines of M points from 0 to 0.

    With t = n/(M - 1) it is 0.42 - 0.5·cos(2πt) + 0.08·cos(4πt).

    Example:
      >>> abs(fnp.blackman(5)).round(3)
      Array([0.  , 0.34, 1.  , 0.34, 0.  ], dtype=float32)
    """


@member(_window)
def bartlett():
    """A triangle of M points from 0 to 0.

    Example:
      >>> fnp.bartlett(5)
      Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """


def kaiser(M: int, beta: Value) -> Any:
    """I₀(beta·√(1 - x²))/I₀(beta) at M points x from -1 to 1.

    Args:
      M: how many points; a Python number, known while tracing.
      beta: how narrow it is; 0 is a rectangle.

    Returns:
      (M,) float32.

    Raises:
      ShapeError: M is negative.

    Example:
      >>> fnp.kaiser(5, 0.0)
      Array([1., 1., 1., 1., 1.], dtype=float32)
    """
    size = _points(M, "kaiser")
    x = np.linspace(-1, 1, size) if size > 1 else np.zeros(size)
    arc = _known_floats(np.sqrt(1 - x * x))
    return ew.divide(i0(ew.multiply(arc, beta)), i0(beta))

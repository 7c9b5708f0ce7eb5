"""Sums in NumPy: along axes, and of products.

NumPy adds pairs of pairs along the axis on which elements lie side by side. Along any
other one it adds row after row to the same total, whose rounding error grows with their
number. Many rows are added in parts here, and then these:

    x[n, c]  ->  reshape x[t, n/t, c]  ->  sum over t  ->  the same of x[n/t, c]

Sums of products are products of matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from operator import itemgetter, methodcaller
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.ground.tables import memo
from ftrace.trace.avals import Shape
from ftrace.trace.primitives.reference import multiplication

Array = Any  # numpy.ndarray

_add: Any = np.add  # the stubs know nothing of Any
_reduce = _add.reduce

#: So many terms NumPy may add in any order; more of them where the sum takes no longer
#: than to cut it would, as compiled code does.
_FEW_TERMS, _FEW_TERMS_OF_SMALL, _SMALL = 32, 128, 1 << 14
#: From so many terms on a sum along neighbours is as good in NumPy.
_PAIRS = 8
#: Shapes and axes for which it is remembered how they are added up.
_PLANS_CACHED = 1024


def sum_along(x: Array, axes: Shape, dtype: np.dtype[Any]) -> Array:
    """The sum along axes, which stay with size 1, added up in `dtype`."""
    function, more = sum_of(x.shape, axes, dtype)
    return function(x, *more)


@memo(_PLANS_CACHED)
def sum_of(
    shape: Shape, axes: Shape, dtype: np.dtype[Any]
) -> tuple[Callable[..., Array], tuple[Any, ...]]:
    """The same for arrays of a shape: a function, and what it takes after the array."""
    terms = prod([shape[a] for a in axes])
    if terms == 1:
        return np.array, (dtype,)  # NumPy adds 0, and -0 becomes 0
    size = prod(shape)
    is_short = terms <= _FEW_TERMS or (terms <= _FEW_TERMS_OF_SMALL and size <= _SMALL)
    if is_short or dtype.kind not in "fc" or terms == max(shape) == size:
        return _reduce, (axes, dtype, None, True, 0)  # of -0 alone it is +0
    return partial(_sum, axes, dtype), ()


def _sum(axes: Shape, dtype: np.dtype[Any], x: Array) -> Array:
    """Of arrays with many terms: first of neighbours, then of each axis across."""
    x = x.astype(dtype, copy=False)
    left = {a for a in axes if x.shape[a] != 1}
    while left:
        taken = _neighbours(x, left)
        if prod([x.shape[a] for a in taken]) < _PAIRS:
            taken = (max(left, key=x.shape.__getitem__),)
            while x.shape[taken[0]] > _FEW_TERMS:
                x = _add_chunks(x, taken[0])
        x = _reduce(x, taken, None, None, True, 0)
        left.difference_update(taken)
    return x


def _neighbours(x: Array, axes: set[int]) -> Shape:
    """The axes on which terms lie side by side, as if they were one."""
    found: list[int] = []
    reach = None
    far = [a for a, n in enumerate(x.shape) if n != 1]
    for a in sorted(far, key=lambda a: (abs(x.strides[a]), -a)):
        # What repeats has no neighbours: NumPy adds it up one by one.
        if a not in axes or not x.strides[a] or reach not in (None, x.strides[a]):
            break
        found.append(a)
        reach = x.strides[a] * x.shape[a]
    return tuple(found)


def _add_chunks(x: Array, axis: int) -> Array:
    """The sums of terms that are far apart, of which there are `_FEW_TERMS` or less."""
    shape, size = x.shape, x.shape[axis]
    terms = min(_FEW_TERMS, math.isqrt(size))
    rows = size // terms
    whole = (slice(None),) * axis
    used = x[(*whole, slice(terms * rows))]
    cut = used.reshape(*shape[:axis], terms, rows, *shape[axis + 1 :])
    found = _reduce(cut, axis)
    if rest := size - terms * rows:
        first = found[(*whole, slice(rest))]
        first += x[(*whole, slice(terms * rows, None))]
    return found


# Sums at places.

#: Terms for each place from which on they do not meet the total one by one.
_CROWD = 4
#: So many terms of float64 make a part.
_CHUNK = 1 << 14


def add_at(x: Array, index: Any, values: Array) -> None:
    """`x[index] += values`, as often as each place is in the index.

    Where many terms meet in few places they are added up in float64; those of float64
    in parts, as compiled code does, and then these.
    """
    count = values.size
    arrays: Any = index if index.__class__ is tuple else (index,)
    if count == 1:  # for all places
        count = max(map(np.size, arrays))
    few = count < _FEW_TERMS_OF_SMALL or count < _CROWD * x.size
    if few or x.dtype.kind in "biu":
        _add.at(x, index, values)
        return
    wide = np.dtype(np.complex128 if x.dtype.kind == "c" else np.float64)
    if x.dtype != wide:
        total = x.astype(wide)
        _add.at(total, index, values.astype(wide))
        with np.errstate(over="ignore"):
            x[...] = total
    elif _is_by_rows(x, arrays, values):
        each = max(_CHUNK, _CROWD * x.size)
        for i in range(0, len(values), each):
            part = x if i == 0 else -np.zeros_like(x)  # -0.0 changes nothing
            rows = slice(i, i + each)
            _add.at(part, tuple([a[rows] for a in arrays]), values[rows])
            if i:
                x += part
    else:
        _add.at(x, index, values)


def _is_by_rows(x: Array, arrays: Any, values: Array) -> bool:
    """Is there a row of values for each element of the indices, vectors of integers?"""
    return values.ndim == x.ndim - len(arrays) + 1 and all(
        type(a) is np.ndarray and a.dtype.kind in "iu" and a.shape == values.shape[:1]
        for a in arrays
    )


# Sums of products: as matrix products, so that the product is never stored.
#
#     out[…] = sum over `axes` of x[…]·y[…]
#
# Along some axes an operand only repeats its elements (size 1, or stride 0). Where each
# operand repeats what the other does not, this is a matrix product, and BLAS does it,
# as it does the product of vectors; where one of them never repeats, it is multiply and
# add. Along an axis that is summed,
# an operand of stride 0 counts as one that does not repeat: a matrix of ones is a
# matrix. Where there is one product only to be added up, it is the result: −0 stays −0,
# to which BLAS adds 0.

#: Integers up to this size, and sums of them, are exact in float64.
_EXACT = 1 << 53
#: So few products of integers NumPy adds up itself.
_FEW_PRODUCTS = 1 << 12
#: From so many terms on sums of products are long, if there are so few of them: parts
#: of so many terms are added up each by itself.
_LONG, _FEW_SUMS, _TERMS_OF_PART = 1 << 12, 1 << 8, 1 << 10
#: Strides of operands for which one product is prepared.
_STRIDES_CACHED = 16


class _Layout(NamedTuple):
    """How an operand becomes a stack of matrices: take, permute, reshape."""

    take: tuple[Any, ...]
    order: tuple[int, ...]
    shape: tuple[int, ...]


class _Recipe(NamedTuple):
    left: _Layout
    right: _Layout
    permuted: tuple[int, ...]  # the shape of the product, an axis per kept axis
    order: tuple[int, ...]  # of the kept axes
    retained: tuple[int, ...]  # the shape of the result, with the axes that were summed


_Way = Callable[[Array, Array], Array]


class PreparedProduct:
    """The sum of x·y over some axes, all decided once for the strides of the operands.

    Args:
      shape: of the product; operands are of one dtype, of sizes 1 or these.
      axes: the axes to sum over; they stay with size 1.
      out: shape and dtype of the result.
    """

    def __init__(self, shape: tuple[int, ...], axes: tuple[int, ...], out: Any) -> None:
        self._given = shape, axes, out
        self._ways: dict[Any, _Way] = {}

    def __call__(self, x: Array, y: Array) -> Array:
        key = x.shape, x.strides, y.shape, y.strides
        way = self._ways.get(key)
        if way is None:
            if len(self._ways) >= _STRIDES_CACHED:
                self._ways.clear()
            way = self._ways[key] = self._way(x, y)
        return way(x, y)

    def _way(self, x: Array, y: Array) -> _Way:
        """What a call does for operands of these shapes and strides."""
        shape, axes, out = self._given
        x_repeats, y_repeats = _repeats(x, shape, axes), _repeats(y, shape, axes)
        recipe = _recipe(shape, x_repeats, y_repeats, axes)
        if recipe is None:
            return self._multiply_and_add(x, y)
        wide = dtypes.float32 if dtypes.is_half(out.dtype) else None
        left, right = (
            _views_for(x, recipe.left, wide),
            _views_for(y, recipe.right, wide),
        )
        a, b = _see(x, left), _see(y, right)
        many = dtypes.is_integer(out.dtype) and a.size * b.shape[-1] > _FEW_PRODUCTS
        multiply = _integer_product if many else product_of(a, b)
        made = (*recipe.left.shape[:-1], recipe.right.shape[-1])
        in_order = recipe.order == tuple(range(len(recipe.order)))
        last: list[_View] = []
        if not in_order:
            last += [_reshaped(recipe.permuted), _permuted(recipe.order)]
        if not in_order or made != recipe.retained:
            last.append(_reshaped(recipe.retained))
        if recipe.retained != out.shape:  # both operands repeat along an axis
            last.append(partial(np.broadcast_to, shape=out.shape))
        if wide is not None:
            last.append(methodcaller("astype", out.dtype))
        if not (left or right):
            return (lambda x, y: _see(multiply(x, y), last)) if last else multiply
        return lambda x, y: _see(multiply(_see(x, left), _see(y, right)), last)

    def _multiply_and_add(self, x: Array, y: Array) -> _Way:
        """The product and its sum in two steps."""
        shape, axes, out = self._given
        half = dtypes.is_half(out.dtype)
        multiply: Any = multiplication(out)
        if half:  # exact before the sum
            multiply = partial(np.multiply, dtype=np.float32)
        add, more = sum_of(shape, axes, dtypes.float32 if half else out.dtype)
        whole = np.broadcast_shapes(x.shape, y.shape) == shape

        def way(x: Array, y: Array) -> Array:
            product = multiply(x, y)
            product = product if whole else np.broadcast_to(product, shape)
            return add(product, *more).astype(out.dtype, copy=False)

        return way


# How an array is looked at, step by step.

_View = Callable[[Array], Array]
_permuted: Callable[[tuple[int, ...]], _View] = partial(methodcaller, "transpose")
_reshaped: Callable[[tuple[int, ...]], _View] = partial(methodcaller, "reshape")


def _see(x: Array, views: Sequence[_View]) -> Array:
    for view in views:
        x = view(x)
    return x


def _views_for(x: Array, layout: _Layout, dtype: np.dtype[Any] | None) -> list[_View]:
    """The steps from an array to the matrices of a layout, in memory as BLAS wants."""
    views: list[_View] = []
    if any(part != slice(None) for part in layout.take):
        views.append(itemgetter(layout.take))
    if layout.order != tuple(range(len(layout.order))):
        views.append(_permuted(layout.order))
    if dtype is not None:
        views.append(methodcaller("astype", dtype))
    arranged = _see(x, views)
    if arranged.shape != layout.shape:
        views.append(_reshaped(layout.shape))
    shaped = arranged.reshape(layout.shape)
    if blas_ready(shaped) is not shaped:
        views.append(np.ascontiguousarray)
    return views


def _repeats(
    x: Array, shape: tuple[int, ...], axes: tuple[int, ...]
) -> tuple[bool, ...]:
    sizes = enumerate(zip(x.strides, x.shape, shape, strict=True))
    return tuple(
        [
            n != 1 and (m == 1 or (step == 0 and a not in axes))
            for a, (step, m, n) in sizes
        ]
    )


@memo(1024)
def _recipe(
    shape: tuple[int, ...],
    x_repeats: tuple[bool, ...],
    y_repeats: tuple[bool, ...],
    axes: tuple[int, ...],
) -> _Recipe | None:
    ndim = range(len(shape))
    in_x = {a for a in ndim if not x_repeats[a]}
    in_y = {a for a in ndim if not y_repeats[a]}
    both = in_x & in_y
    inner = [a for a in axes if shape[a] != 1]
    rows = [a for a in ndim if a in in_x and a not in in_y]
    columns = [a for a in ndim if a in in_y and a not in in_x]
    neither = [a for a in ndim if shape[a] != 1 and a not in in_x and a not in in_y]
    batch = [a for a in ndim if a in both and a not in axes]
    repeats = rows or columns or neither or all(shape[a] == 1 for a in batch)
    if 0 in shape or not (repeats and inner) or not both.issuperset(inner):
        # Nothing repeats or is added up, or a sum over the axis of one operand alone.
        return None

    def layout(groups: list[list[int]]) -> _Layout:
        used = [a for group in groups for a in group]
        take = tuple(slice(None) if a in used else 0 for a in ndim)
        position = {a: i for i, a in enumerate(sorted(used))}
        order = tuple(position[a] for a in used)
        sizes = tuple(prod(shape[a] for a in group) for group in groups)
        return _Layout(take, order, sizes if batch else sizes[1:])

    kept = [*batch, *rows, *columns]
    return _Recipe(
        layout([batch, rows, inner]),
        layout([batch, inner, columns]),
        tuple(shape[a] for a in kept),
        tuple(sorted(range(len(kept)), key=kept.__getitem__)),
        tuple(shape[a] if a in kept else 1 for a in ndim),
    )


def product_of(left: Array, right: Array) -> Callable[[Array, Array], Array]:
    """What multiplies matrices of such shapes, strides and dtypes.

    BLAS adds few sums up one term after the other, but those of a vector and rows that
    lie along it. Long ones are added up in parts here.
    """
    terms, columns = right.shape[-2:]
    rows = prod(left.shape[:-1])
    if terms < _LONG or rows * columns > _FEW_SUMS or left.dtype.kind not in "fc":
        return np.matmul
    along = left if columns == 1 else right.swapaxes(-1, -2) if rows == 1 else None
    if along is not None and along.strides[-1] == along.itemsize:
        return np.matmul
    return product_of_chunks(left.shape, right.shape, left.dtype)


def product_of_chunks(
    left: tuple[int, ...], right: tuple[int, ...], dtype: np.dtype[Any]
) -> Callable[[Array, Array], Array]:
    """The product for these shapes; parts divide all terms if they can."""
    *rows, terms = left
    *batch, _, columns = right
    sizes = range(_TERMS_OF_PART, 2 * _TERMS_OF_PART)
    part = next((n for n in sizes if terms % n == 0), _TERMS_OF_PART)
    parts = terms // part
    used = parts * part
    cuts = (*rows, parts, part), (*batch, parts, part, columns)
    lead = np.broadcast_shapes(tuple(rows[:-1]), tuple(batch))
    add, more = sum_of((*lead, parts, rows[-1], columns), (len(lead),), dtype)
    shape = *lead, rows[-1], columns

    def of_parts(x: Array, y: Array) -> Array:
        sums = np.matmul(x.reshape(cuts[0]).swapaxes(-2, -3), y.reshape(cuts[1]))
        return add(sums, *more).reshape(shape)

    if used == terms:
        return of_parts

    def of_parts_and_rest(x: Array, y: Array) -> Array:
        total = of_parts(x[..., :used], y[..., :used, :])
        total += np.matmul(x[..., used:], y[..., used:, :])
        return total

    return of_parts_and_rest


def blas_ready(x: Array) -> Array:
    """NumPy hands a matrix to BLAS only if its rows or its columns are contiguous."""
    row, column = x.strides[-2:]
    height, width = x.shape[-2:]
    item = x.itemsize
    if (column == item and row >= width * item) or (
        row == item and column >= height * item
    ):
        return x
    return np.ascontiguousarray(x)


def _integer_product(a: Array, b: Array) -> Array:
    """Through BLAS in float64 wherever that is exact: NumPy's own loop is slow."""
    exact = exact_product(a, b)
    return np.matmul(a, b) if exact is None else exact.astype(a.dtype)


def exact_product(a: Array, b: Array) -> Array | None:
    """The product of integers by BLAS, as int64; None where float64 may round it."""
    if (
        not a.size
        or not b.size
        or _magnitude(a) * _magnitude(b) * a.shape[-1] >= _EXACT
    ):
        return None
    return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)


def _magnitude(x: Array) -> int:
    return max(abs(int(x.max())), abs(int(x.min())))

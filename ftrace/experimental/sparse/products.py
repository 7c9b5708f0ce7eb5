"""Products, sums and indexing of sparse arrays, and their operators."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ftrace import dtypes, errors, lax, numpy as fnp
from ftrace.experimental.sparse import bcoo, movement
from ftrace.experimental.sparse.bcoo import BCOO, OPERATORS
from ftrace.numpy import axes as ax
from ftrace.numpy.linear import alike
from ftrace.trace.eager.checked_calls import uncheck, without_checks
from ftrace.trace.eager.precision import check_precision
from ftrace.trace.tracing.tracer import Tracer, is_value
from ftrace.transforms.vmap import vmap

__all__ = [
    "bcoo_conv_general_dilated", "bcoo_dot_general", "bcoo_dot_general_sampled",
    "bcoo_multiply_dense", "bcoo_multiply_sparse",
]  # fmt: skip

Numbers = tuple[
    tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]
]


# Contractions.


def bcoo_dot_general(
    lhs: Any, rhs: Any, *, dimension_numbers: Numbers, precision: Any = None,
    preferred_element_type: Any = None, out_sharding: Any = None,
) -> Any:  # fmt: skip
    """`lax.dot_general` where one operand or both are sparse.

    Args:
      lhs, rhs: arrays, at least one of them sparse.
      dimension_numbers: ((contracting of lhs, of rhs), (batch of lhs, of rhs)).
      precision: accepted, without effect.
      preferred_element_type: the dtype of the result.
      out_sharding: accepted, without effect.

    Returns:
      A dense array; of two sparse ones a sparse one.

    Raises:
      ShapeError: contracted or batch axes differ in size.
    """
    check_precision("bcoo_dot_general", precision)
    (lc, rc), (lb, rb) = ([[int(i) for i in axes] for axes in pair]
                          for pair in dimension_numbers)  # fmt: skip
    left, right = [*lb, *lc], [*rb, *rc]
    sizes = [lhs.shape[i] for i in left], [rhs.shape[i] for i in right]
    if sizes[0] != sizes[1]:
        raise errors.ShapeError(
            f"bcoo_dot_general: the axes {left} of {lhs.shape} and {right} of "
            f"{rhs.shape} differ in size"
        )
    if preferred_element_type is not None:
        lhs, rhs = (x.astype(preferred_element_type) for x in (lhs, rhs))
    if isinstance(lhs, BCOO) and isinstance(rhs, BCOO):
        return _both_sparse(lhs, rhs, left, right, len(lb))
    if isinstance(lhs, BCOO):
        return _one_sparse(bcoo.all_sparse(lhs), fnp.asarray(rhs), left, right, len(lb))
    found = _one_sparse(bcoo.all_sparse(rhs), fnp.asarray(lhs), right, left, len(rb))
    middle = len(rb) + rhs.ndim - len(right)
    return fnp.transpose(
        found, (*range(len(rb)), *range(middle, found.ndim), *range(len(rb), middle))
    )


def _free_axes(ndim: int, taken: Sequence[int]) -> list[int]:
    return [i for i in range(ndim) if i not in taken]


def _one_sparse(
    lhs: BCOO, rhs: Any, left: Sequence[int], right: Sequence[int], batch: int
) -> Any:
    """Each stored element times the part of `rhs` that it meets, where it goes."""
    free_left, free_right = _free_axes(lhs.ndim, left), _free_axes(rhs.ndim, right)
    rhs = fnp.transpose(rhs, (*right, *free_right))
    rest = tuple(rhs.shape[len(right) :])
    places = bcoo.columns(lhs.indices)
    met = bcoo.gather(rhs, tuple([places[i] for i in left])) if left else rhs[None]
    data = bcoo.mask(lhs.data, bcoo.inside(lhs.indices, lhs.shape))
    data, met = alike(data, met)
    product = data.reshape(-1, *(1,) * len(rest)) * met
    kept = [*left[:batch], *free_left]
    shape = (*[lhs.shape[i] for i in kept], *rest)
    return bcoo.scatter(product, tuple([places[i] for i in kept]), shape)


def _both_sparse(
    lhs: BCOO, rhs: BCOO, left: Sequence[int], right: Sequence[int], batch: int
) -> BCOO:
    """All pairs of stored elements that meet."""
    lhs, rhs = bcoo.all_sparse(lhs), bcoo.all_sparse(rhs)
    free_left, free_right = _free_axes(lhs.ndim, left), _free_axes(rhs.ndim, right)
    data, meet = _pairs(lhs, rhs, [*zip(left, right, strict=True)])
    kept = [*left[:batch], *free_left]
    rows = [lhs.indices[:, None, i] for i in kept]
    rows += [rhs.indices[None, :, i] for i in free_right]
    shape = [*[lhs.shape[i] for i in kept], *[rhs.shape[i] for i in free_right]]
    return _collect(data, meet, rows, shape)


def _pairs(lhs: BCOO, rhs: BCOO, axes: Sequence[tuple[int, int]]) -> tuple[Any, Any]:
    """The products of all pairs of stored elements, and which of them meet."""
    of_lhs, of_rhs = (bcoo.inside(x.indices, x.shape) for x in (lhs, rhs))
    meet = of_lhs[:, None] & of_rhs
    for i, j in axes:
        meet = meet & (lhs.indices[:, None, i] == rhs.indices[None, :, j])
    x, y = alike(lhs.data, rhs.data)
    return fnp.where(meet, x[:, None] * y, 0).astype(x.dtype), meet


def _collect(data: Any, keep: Any, rows: Sequence[Any], shape: Sequence[int]) -> BCOO:
    """The sparse array of these elements, each index once."""
    indices = bcoo.stack(rows, keep, shape, np.int32).reshape(data.size, len(shape))
    made = BCOO((data.ravel(), indices), shape=shape)
    return bcoo.bcoo_sum_duplicates(made, min(data.size, math.prod(shape)))


def _matmul(x: Any, y: Any) -> Any:
    if not all(isinstance(a, BCOO) or is_value(a) for a in (x, y)):
        return NotImplemented
    n, m = (a.ndim if isinstance(a, BCOO) else np.ndim(a) for a in (x, y))
    if not n or not m:
        raise errors.ShapeError("matmul needs an axis of each operand, got a scalar")
    count = min(n, m) - 2
    if max(n, m) > 2 and (n != m or x.shape[:count] != y.shape[:count]):
        if min(n, m) > 2:
            raise errors.ShapeError(
                "matmul of sparse arrays broadcasts no batches, got shapes "
                f"{x.shape} and {y.shape}"
            )
        count = 0
    batch = list(range(max(count, 0)))
    contract = [n - 1], [max(m - 2, 0)]
    found = bcoo_dot_general(x, y, dimension_numbers=(contract, (batch, batch)))
    if batch or m <= 2 or n > 2:
        return found
    order = (*range(n - 1, found.ndim - 1), *range(n - 1), found.ndim - 1)
    if isinstance(found, BCOO):
        return movement.bcoo_transpose(found, permutation=order)
    return fnp.transpose(found, order)


def bcoo_dot_general_sampled(
    A: Any, B: Any, indices: Any, *, dimension_numbers: Numbers
) -> Any:
    """The elements of `lax.dot_general(A, B)` at sparse indices.

    Args:
      A, B: dense arrays.
      indices: (nse, axes), or (batch, …, nse, axes) for the first axes of the result;
        where these are no batch axes, first ones of A and B, the product is made whole.
      dimension_numbers: as in `lax.dot_general`.
    """
    rows = fnp.asarray(indices)
    if rows.ndim > 2:
        (lc, rc), (lb, rb) = dimension_numbers
        if not lb or lb[0] or rb[0]:
            whole = lax.dot_general(A, B, dimension_numbers)
            return bcoo.batch(_at_rows, rows.ndim - 2)(whole, rows)
        less = [[i - 1 for i in axes] for axes in (lc, rc, lb[1:], rb[1:])]
        numbers = (less[0], less[1]), (less[2], less[3])
        inner = partial(bcoo_dot_general_sampled, dimension_numbers=numbers)
        return vmap(inner)(fnp.asarray(A), fnp.asarray(B), rows)
    from_left = [*dimension_numbers[1][0], *dimension_numbers[0][0]]
    from_right = [*dimension_numbers[1][1], *dimension_numbers[0][1]]
    a, b, places = fnp.asarray(A), fnp.asarray(B), bcoo.columns(rows)
    batch = len(dimension_numbers[1][0])
    free_a, free_b = _free_axes(a.ndim, from_left), _free_axes(b.ndim, from_right)
    kept_a = (*from_left[:batch], *free_a)
    kept_b = (*from_right[:batch], *free_b)
    a = fnp.transpose(a, (*kept_a, *from_left[batch:]))
    b = fnp.transpose(b, (*kept_b, *from_right[batch:]))
    of_a = places[: len(kept_a)]
    of_b = (*places[:batch], *places[len(kept_a) :])
    x, y = bcoo.gather(a, of_a), bcoo.gather(b, of_b)
    return (x * y).sum(tuple(range(1, x.ndim)))


def _at_rows(x: Any, rows: Any) -> Any:
    return bcoo.gather(x, bcoo.columns(rows))


# Convolutions.


def bcoo_conv_general_dilated(
    lhs: Any, rhs: Any, *, window_strides: Sequence[int], padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None, dimension_numbers: Any = None,
    feature_group_count: int = 1, batch_group_count: int = 1, precision: Any = None,
    preferred_element_type: Any = None, out_sharding: Any = None,
) -> BCOO:  # fmt: skip
    """`lax.conv_general_dilated` of two signals (1, 1, n), sparse or dense.

    Each stored element meets each of the other signal.

    Args:
      lhs, rhs: the signals.
      window_strides, lhs_dilation, rhs_dilation: 1 along the one axis.
      padding: ((before, after),), or the name of a rule.
      dimension_numbers: as in `lax.conv_general_dilated`.
      feature_group_count, batch_group_count: 1.
      precision: accepted, without effect.
      preferred_element_type: the dtype of the result.
      out_sharding: accepted, without effect.

    Raises:
      MissingRuleError: there are other axes, strides, dilations or groups.
    """
    check_precision("bcoo_conv_general_dilated", precision)
    counts = [feature_group_count], [batch_group_count], lhs_dilation, rhs_dilation
    plain = all(x is None or list(x) == [1] for x in (*counts, window_strides))
    shapes = np.shape(lhs), np.shape(rhs)
    if not plain or any(s[:2] != (1, 1) or len(s) != 3 for s in shapes):
        raise errors.MissingRuleError(
            "bcoo_conv_general_dilated: for signals (1, 1, n) with steps of 1 alone, "
            f"got shapes {shapes[0]} and {shapes[1]}"
        )
    (n, m) = [s[2] for s in shapes]
    if isinstance(padding, str):
        padding = lax.padtype_to_pads((n,), (m,), (1,), padding)
    ((low, high),) = padding
    size = max(0, n + low + high - m + 1)
    (x, at), (y, by) = map(_elements, (lhs, rhs))
    places = fnp.ravel(at[:, None] + low - by)
    keep = (places >= 0) & (places < size)
    data = bcoo.mask(fnp.ravel(x[:, None] * y), keep)
    indices = bcoo.stack([places], keep, (size,), at.dtype)
    return BCOO((data[None, None], indices[None, None]), shape=(1, 1, size))


def _elements(signal: Any) -> tuple[Any, Any]:
    if not isinstance(signal, BCOO):
        return fnp.asarray(signal)[0, 0], fnp.arange(signal.shape[2])
    flat = bcoo.all_sparse(signal)
    keep = bcoo.inside(flat.indices, flat.shape)
    return bcoo.mask(flat.data, keep), flat.indices[:, 2]


# Elementwise.


def bcoo_multiply_dense(sp_mat: BCOO, v: Any) -> Any:
    """The data of a sparse array times a dense one, which broadcasts to its shape.

    Args:
      sp_mat: a BCOO.
      v: a dense array, or a number.

    Returns:
      The data of the product, at the same indices.

    Raises:
      ShapeError: the product has another shape.
    """
    return _with_dense(operator.mul, sp_mat, v)


def _with_dense(function: Callable[[Any, Any], Any], sp_mat: BCOO, v: Any) -> Any:
    if not np.ndim(v):
        return function(sp_mat.data, v)
    x = fnp.asarray(v)
    if np.broadcast_shapes(x.shape, sp_mat.shape) != sp_mat.shape:
        raise errors.ShapeError(
            f"the product of a sparse array of shape {sp_mat.shape} and a dense one of "
            f"shape {x.shape} would have another shape than the sparse one"
        )
    x = x.reshape(*(1,) * (sp_mat.ndim - x.ndim), *x.shape)
    k = sp_mat.n_batch
    x = fnp.broadcast_to(x, (*sp_mat.batch_shape, *x.shape[k:]))
    sizes = x.shape[k:]

    def apply(data: Any, indices: Any, x: Any) -> Any:
        places = zip(bcoo.columns(indices), sizes, strict=False)
        found = tuple([fnp.clip(p, 0, max(n - 1, 0)) for p, n in places])
        if not found or not x.size:
            return function(data, x if x.size else fnp.ones((), x.dtype))
        return function(data, x[found])

    return bcoo.each_batch(apply, sp_mat, x)


def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """The products of the elements of two sparse arrays, of as many axes.

    Args:
      lhs, rhs: two BCOO; their shapes broadcast.
    """
    if lhs.ndim != rhs.ndim:
        raise errors.ShapeError(
            "bcoo_multiply_sparse: arrays with as many axes are required, got "
            f"{lhs.shape} and {rhs.shape}"
        )
    shape = np.broadcast_shapes(lhs.shape, rhs.shape)
    x, y = bcoo.all_sparse(lhs), bcoo.all_sparse(rhs)
    both = [i for i in range(x.ndim) if x.shape[i] == y.shape[i]]
    data, meet = _pairs(x, y, [(i, i) for i in both])
    rows = [fnp.maximum(x.indices[:, None, i], y.indices[None, :, i])
            for i in range(x.ndim)]  # fmt: skip
    return _collect(data, meet, rows, shape)


def _multiply(x: BCOO, y: Any) -> Any:
    if isinstance(y, BCOO):
        return bcoo_multiply_sparse(x, y)
    return bcoo.replace(x, bcoo_multiply_dense(x, y)) if is_value(y) else NotImplemented


def _divide(x: BCOO, y: Any) -> Any:
    if isinstance(y, BCOO) or not is_value(y):
        return NotImplemented
    return bcoo.replace(x, _with_dense(operator.truediv, x, y))


def _add(x: BCOO, y: Any) -> Any:
    if not isinstance(y, BCOO):
        if is_value(y):
            raise errors.UnsupportedError(
                "the sum of a sparse and a dense array is dense: write x.todense() + y"
            )
        return NotImplemented
    if x.shape != y.shape:
        raise errors.ShapeError(
            f"sparse arrays of shapes {x.shape} and {y.shape} do not add"
        )
    if (x.n_batch, x.n_dense) != (y.n_batch, y.n_dense):
        x, y = bcoo.all_sparse(x), bcoo.all_sparse(y)
    parts = zip(bcoo.full_batch(x), bcoo.full_batch(y), strict=True)
    data, indices = (fnp.concatenate(pair, x.n_batch) for pair in parts)
    return BCOO((data, indices), shape=x.shape)


def _negative(x: BCOO) -> BCOO:
    return bcoo.replace(x, -x.data)


def _of_unique(function: Callable[[Any], Any]) -> Callable[[BCOO], BCOO]:
    """A function that is zero at zero, of the elements."""

    def apply(x: BCOO) -> BCOO:
        x = x if x.unique_indices else bcoo.bcoo_sum_duplicates(x, x.nse)
        return bcoo.replace(x, function(x.data))

    return apply


def _power(x: BCOO, y: Any) -> BCOO:
    if not is_value(y) or isinstance(y, Tracer) or not np.all(np.asarray(y) > 0):
        raise errors.MissingRuleError(
            f"a power of a sparse array is sparse for positive exponents, got {y!r}"
        )

    def power(x: Any) -> Any:
        return x**y

    return _of_unique(power)(x)


def _sum(x: BCOO, axis: Any = None) -> Any:
    axes = ax.canonical_axes(axis, x.ndim, "sum")
    found = movement.bcoo_reduce_sum(x, axes=axes)
    return found if found.ndim else found.todense()


def _reshape(x: BCOO, *shape: Any) -> BCOO:
    sizes: Any = shape
    if len(shape) == 1 and not isinstance(shape[0], int):
        sizes = shape[0]
    return movement.bcoo_reshape(x, new_sizes=[operator.index(n) for n in sizes])


# Indexing.


def _getitem(mat: BCOO, index: Any) -> BCOO:
    """Integers, slices, None and an Ellipsis, as NumPy has them."""
    parts: list[Any] = []
    parts += index if isinstance(index, tuple) else [index]
    used = sum(p is not None and p is not Ellipsis for p in parts)
    if used > mat.ndim:
        raise errors.IndexBoundsError(
            f"too many indices: a sparse array of shape {mat.shape} has {mat.ndim} axes"
        )
    if not any(p is Ellipsis for p in parts):
        parts.append(Ellipsis)
    at = next(i for i, p in enumerate(parts) if p is Ellipsis)
    parts[at : at + 1] = [slice(None)] * (mat.ndim - used)
    places = [p for p in parts if p is not None]
    rows = [_along(p, i, mat.shape) for i, p in enumerate(places)]
    gone = [i for i, p in enumerate(places) if not isinstance(p, slice)]
    found = movement.take_slice(mat, *[[row[i] for row in rows] for i in range(3)])
    found = movement.bcoo_squeeze(found, dimensions=gone) if gone else found
    left: list[Any] = [p for p in parts if p is None or isinstance(p, slice)]
    if None not in left:
        return found
    kept = [i for i, p in enumerate(left) if p is not None]
    sizes = dict(zip(kept, found.shape, strict=True))
    shape = [sizes.get(i, 1) for i in range(len(left))]
    return movement.bcoo_broadcast_in_dim(found, shape=shape, broadcast_dimensions=kept)


def _along(part: Any, axis: int, shape: Any) -> tuple[Any, int, int]:
    """Start, number of elements and step of an index along an axis."""
    size, place = shape[axis], part
    if isinstance(part, Tracer) and part.ndim == 0 and dtypes.is_integer(part.dtype):
        return fnp.clip(fnp.where(part < 0, part + size, place), 0, size - 1), 1, 1
    try:
        found = range(size)[part]
    except TypeError:
        raise errors.ArgumentError(
            "sparse arrays are indexed by integers, slices, None and Ellipsis, got "
            f"{type(part).__name__}; index the dense array, or multiply by a selection"
        ) from None
    except IndexError:
        raise errors.IndexBoundsError(
            f"index {part} is out of bounds for axis {axis} of size {size} of a "
            f"sparse array of shape {shape}"
        ) from None
    if isinstance(found, range):
        return found.start if found else 0, len(found), found.step
    return found, 1, 1


_OPERATORS: dict[str, Callable[..., Any]] = {
    "matmul": _matmul, "rmatmul": lambda x, y: _matmul(y, x), "mul": _multiply,
    "rmul": _multiply, "truediv": _divide, "add": _add, "radd": _add,
    "sub": lambda x, y: _add(x, -y if isinstance(y, BCOO) else y),
    "rsub": lambda x, y: _add(_negative(x), y), "pow": _power,
    "neg": _negative, "abs": _of_unique(fnp.abs), "getitem": _getitem, "sum": _sum,
    "reshape": _reshape,
    "transpose": lambda x, order: movement.bcoo_transpose(x, permutation=order),
}  # fmt: skip
OPERATORS.update({name: without_checks(f) for name, f in _OPERATORS.items()})
uncheck(__name__)

"""Linear algebra: factorisations, systems, norms, and products of chains.

import ftrace.numpy as fnp
fnp.linalg.solve(a, b)

Matrices are in the last two axes; the axes before them are batches. LAPACK computes
factorisations on the host, as steps of the program.
"""

# ruff: noqa: F403

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

from ftrace import dtypes
from ftrace.errors import ArgumentError, ShapeError, ValueRangeError, one_of
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.numpy import axes as ax, elementwise as ew, factorizations, linear, logic
from ftrace.numpy.arithmetic import by_squaring
from ftrace.numpy.data_types import finfo
from ftrace.numpy.factorizations import *
from ftrace.numpy.factorizations import eigvalsh, matrices, norm, square, svdvals
from ftrace.numpy.joining import sequence_of
from ftrace.numpy.linear import label_sizes, matmul, matrix_transpose, tensordot, vecdot
from ftrace.numpy.matrices import eye
from ftrace.numpy.reductions import sum as add_up
from ftrace.numpy.statistics import squared_magnitude
from ftrace.trace.bind import bind, bind_compound, broadcast_shapes
from ftrace.trace.eager.composite import run_fused
from ftrace.trace.eager.precision import check_precision
from ftrace.trace.linalg_compositions import det_p, least_squares_p, pinv_p
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.library import systems
from ftrace.trace.symbolic import sample
from ftrace.trace.tracing.tracer import Value, aval_of

__all__ = [
    "SlogdetResult", "cond", "cross", "det", "diagonal", "inv", "lstsq", "matmul",
    "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "outer", "pinv",
    "slogdet", "solve", "tensordot", "tensorinv", "tensorsolve", "trace", "vecdot",
]  # fmt: skip
__all__ += factorizations.__all__


class SlogdetResult(NamedTuple):
    """Determinants as sign (or phase) and the logarithm of their size."""

    sign: Any
    logabsdet: Any


# Systems.


def solve(a: Value, b: Value) -> Any:
    """The x of a·x = b.

    A singular matrix gives infinities or NaN.

    Args:
      a: (…, n, n).
      b: (n,), a vector; or (…, n, k). The axes before broadcast.

    Returns:
      (…, n) for a vector, else (…, n, k).

    Raises:
      ShapeError: the shapes do not fit.
      DtypeError: the dtype is float16 or bfloat16.

    Example:
      >>> a = fnp.array([[2.0, 1.0], [1.0, 3.0]])
      >>> fnp.linalg.solve(a, fnp.array([3.0, 5.0]))
      Array([0.8, 1.4], dtype=float32)
    """
    x, y = ew.promote_inexact(square("solve", a), ax.as_value(b))
    return solve_by("solve", _solve, x, y)


def solve_by(name: str, function: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """X of a·X = b by a function of (…, n, n) and (…, n, k); b may be a vector (n,)."""
    n = a.shape[-1]
    if b.ndim == 0 or b.shape[max(b.ndim - 2, 0)] != n:
        raise ShapeError(
            f"{name}: for matrices of shape {a.shape}, b must be ({n},) or "
            f"(…, {n}, k), got {b.shape}; several vectors are the columns of a matrix"
        )
    return by_columns(partial(_broadcast_solve, name, function, a), b)


def by_columns(function: Callable[[Any], Any], b: Any) -> Any:
    """A function of (…, n, k); a vector (n,) is a column."""
    if b.ndim != 1:
        return function(b)
    result = function(ax.insert_axes(b, (1,)))
    return ax.drop_axes(result, (result.ndim - 1,))


def _broadcast_solve(
    name: str, function: Callable[[Any, Any], Any], a: Any, b: Any
) -> Any:
    """A function of (…, n, n) and (…, n, k), whose axes before broadcast."""
    if a.ndim == 2:
        return over_columns(partial(function, a), b)
    lead = broadcast_shapes(name, [a.shape[:-2], b.shape[:-2]])
    return function(*[ax.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (a, b)])


def _solve(a: Any, b: Any) -> Any:
    factors, _, order = bind_compound(systems.lu_p, bind(p.stop_gradient, a))
    return bind_compound(systems.lu_solve_p, a, factors, order, b, arg=systems.Op())[0]


def over_columns(function: Callable[[Any], Any], b: Any) -> Any:
    """A function of (n, k), for all (…, n, k) at once: they are columns of one."""
    if b.ndim == 2:
        return function(b)
    rows = b.ndim - 2
    moved = ax.move_axis(b, rows, 0)
    n, rest = moved.shape[0], moved.shape[1:]
    result = function(ax.reshape(moved, (n, prod(rest))))
    return ax.move_axis(ax.reshape(result, (result.shape[0], *rest)), 0, rows)


def inv(a: Value) -> Any:
    """The inverses of matrices; infinities or NaN where there are none.

    To solve equations write `solve`, which is quicker and loses less to rounding.

    Args:
      a: (…, n, n).

    Returns:
      (…, n, n).

    Raises:
      ShapeError: the matrices are not square.
      DtypeError: the dtype is float16 or bfloat16.

    Example:
      >>> fnp.linalg.inv(fnp.array([[2.0, 0.0], [1.0, 4.0]]))
      Array([[ 0.5  ,  0.   ],
             [-0.125,  0.25 ]], dtype=float32)
    """
    x = square("inv", a)
    identity = ax.broadcast_to(eye(x.shape[-1], dtype=x.dtype), x.shape)
    return _broadcast_solve("solve", _solve, x, identity)


# Determinants.


def det(a: Value) -> Any:
    """The determinants of matrices. Singular ones have a derivative, too.

    Args:
      a: (…, n, n).

    Returns:
      (…).

    Raises:
      ShapeError: the matrices are not square.
      DtypeError: float16 or bfloat16, and more than 3 rows.

    Example:
      >>> fnp.linalg.det(fnp.array([[1.0, 2.0], [3.0, 4.0]]))
      Array(-2., dtype=float32)
      >>> ft.grad(fnp.linalg.det)(fnp.array([[1.0, 2.0], [2.0, 4.0]]))  # the adjugate
      Array([[ 4., -2.],
             [-2.,  1.]], dtype=float32)
    """
    x = square("det", a)
    if 1 <= x.shape[-1] <= 3:
        return run_fused(_short_det, [x])
    return bind_compound(det_p, x)[0]


def _short_det(x: Any) -> Any:
    """Of up to 3 rows: by the first of them, as arithmetic that fuses."""
    n = x.shape[-1]
    rows = [[x[..., i, j] for j in range(n)] for i in range(n)]

    def minor(j: int, k: int) -> Any:
        """Of the last two rows and the columns j and k."""
        return rows[-2][j] * rows[-1][k] - rows[-2][k] * rows[-1][j]

    if n == 1:
        return rows[0][0]
    if n == 2:
        return minor(0, 1)
    first, second, third = rows[0]
    return first * minor(1, 2) + second * minor(2, 0) + third * minor(0, 1)


def slogdet(a: Value, *, method: str | None = None) -> SlogdetResult:
    """The signs and the logarithms of the sizes of determinants.

    Args:
      a: (…, n, n).
      method: "lu" or "qr" are accepted; both give the same.

    Returns:
      (sign, logabsdet), each (…): det = sign·exp(logabsdet). Of a singular matrix they
      are 0 and -inf. It overflows for no size, as `det` does.

    Raises:
      ValueRangeError: the method is unknown.
      ShapeError: the matrices are not square.
      DtypeError: the dtype is float16 or bfloat16.

    Example:
      >>> sign, log = fnp.linalg.slogdet(-100.0 * fnp.eye(41))
      >>> sign, log  # 41·log 100
      (Array(-1., dtype=float32), Array(188.81198, dtype=float32))
    """
    one_of("slogdet: method", method, (None, "lu", "qr"))
    return SlogdetResult(*bind_compound(systems.slogdet_p, square("slogdet", a)))


# Pseudoinverse and least squares.


def epsilon(x: Any) -> float:
    """The spacing of numbers at 1 in the dtype of a value."""
    return float(finfo(dtypes.real_dtype(x.dtype)).eps)


def pinv(
    a: Value,
    rtol: Value | None = None,
    hermitian: bool = False,
    *,
    rcond: Value | None = None,
) -> Any:
    """The pseudoinverses of matrices; the derivative is that at constant rank.

    Args:
      a: (…, m, n).
      rtol: singular values of no more than `rtol` times the greatest count as zero:
        one number, or one per matrix; by default 10·max(m, n)·ε.
      hermitian: `a` is.
      rcond: another name of `rtol`.

    Returns:
      (…, n, m).

    Raises:
      ArgumentError: both `rtol` and `rcond` are given.
      ShapeError: there are fewer than two axes; not square, but `hermitian`.
      DtypeError: the dtype is float16 or bfloat16.

    Example:
      >>> fnp.linalg.pinv(fnp.array([[1.0, 0.0], [0.0, 0.0], [0.0, 2.0]]))
      Array([[1. , 0. , 0. ],
             [0. , 0. , 0.5]], dtype=float32)
    """
    if rtol is not None and rcond is not None:
        raise ValueRangeError("pinv: rtol and rcond are one argument; give one of them")
    x = (square if hermitian else matrices)("pinv", a)
    limit: Any = rtol if rtol is not None else rcond
    if limit is None:
        limit = 10 * max(x.shape[-2:]) * epsilon(x)
    limit = ax.broadcast_to(
        ax.cast(limit, dtypes.real_dtype(x.dtype)), x.shape[:-2], "pinv: rtol"
    )
    limit = bind(p.stop_gradient, limit)
    return bind_compound(pinv_p, x, limit, arg=bool(hermitian))[0]


def lstsq(
    a: Value, b: Value, rcond: float | None = None, *, numpy_resid: bool = False
) -> tuple[Any, Any, Any, Any]:
    """The x that makes |b - a·x| least; of several the shortest.

    Args:
      a: (m, n).
      b: (m,) or (m, k).
      rcond: singular values below `rcond` times the greatest count as zero; by default
        max(m, n)·ε, and ε where it is negative.
      numpy_resid: the residuals are empty where NumPy's are: where `a` has not rank n,
        or no more rows than columns. This needs the value of the rank.

    Returns:
      (x, the squared lengths of the residuals, the rank, the singular values).

    Raises:
      ShapeError: the shapes do not fit.
      DtypeError: the dtype is float16 or bfloat16.

    Example:
      >>> x = fnp.array([0.0, 1.0, 2.0])
      >>> a = fnp.stack([x, fnp.ones(3)], axis=1)  # a straight line
      >>> solution, residuals, rank, s = fnp.linalg.lstsq(a, fnp.array([1.0, 3.0, 5.0]))
      >>> fnp.round(solution, 4), rank
      (Array([2., 1.], dtype=float32), Array(2, dtype=int32))
    """
    x, y = ew.promote_inexact(ax.as_value(a), ax.as_value(b))
    if x.ndim != 2 or y.ndim not in (1, 2) or y.shape[0] != x.shape[0]:
        raise ShapeError(
            "lstsq: a must be (m, n) and b (m,) or (m, k), got shapes "
            f"{x.shape} and {y.shape}; apply vmap for several systems"
        )
    m, n = x.shape
    columns = y if y.ndim == 2 else ax.insert_axes(y, (1,))
    limit = epsilon(x) * max(m, n) if rcond is None else float(rcond)
    limit = epsilon(x) if limit < 0 else limit
    least = ax.full((), limit, dtypes.real_dtype(x.dtype))
    result, values = bind_compound(least_squares_p, x, columns, least)
    residuals = squared_magnitude(columns - matmul(x, result)).sum(0)
    rank = add_up(values > values[:1] * limit)
    if numpy_resid and (m <= n or int(rank) < n):
        residuals = ax.full((0,), 0, residuals.dtype)
    if y.ndim == 1:
        result = ax.drop_axes(result, (1,))
    return result, residuals, rank, values


# Powers and tensors.


def matrix_power(a: Value, n: int) -> Any:
    """Square matrices to an integer power, by repeated squaring.

    Args:
      a: (…, k, k).
      n: the power; a negative one is that of the inverse.

    Returns:
      (…, k, k).

    Raises:
      ShapeError: the last two axes differ in size.

    Example:
      >>> fnp.linalg.matrix_power(fnp.array([[1, 1], [1, 0]]), 10)
      Array([[89, 55],
             [55, 34]], dtype=int32)
    """
    x = ax.as_value(a)
    square("matrix_power", x)
    power = ax.static_int(n, "matrix_power: n")
    if power < 0:
        x, power = inv(x), -power
    if power == 0:
        return ax.broadcast_to(eye(x.shape[-1], dtype=x.dtype), x.shape)
    return by_squaring(matmul, x, power)


def tensorinv(a: Value, ind: int = 2) -> Any:
    """The inverse of `tensordot(a, ·, ind)`.

    Args:
      a: an array whose first `ind` sizes have the product of the others.
      ind: how many axes are the rows.

    Returns:
      An array with the shape `a.shape[ind:] + a.shape[:ind]`.

    Raises:
      ValueRangeError: `ind` is not positive.
      ShapeError: the products of the sizes differ.

    Example:
      >>> a = fnp.eye(6).reshape(2, 3, 6)
      >>> fnp.linalg.tensorinv(a).shape
      (6, 2, 3)
    """
    x = ew.inexact(a)
    count = ax.static_int(ind, "tensorinv: ind", 1)
    rows, columns = x.shape[:count], x.shape[count:]
    if prod(rows) != prod(columns):
        raise ShapeError(
            f"tensorinv: the first {count} sizes of {x.shape} must have the product of "
            "the others"
        )
    return ax.reshape(
        inv(ax.reshape(x, (prod(rows), prod(columns)))), (*columns, *rows)
    )


def tensorsolve(a: Value, b: Value, axes: Sequence[int] | None = None) -> Any:
    """The x of `tensordot(a, x, x.ndim) = b`.

    Args:
      a: an array with the sizes of b, then those of x.
      b: an array.
      axes: axes of `a` that are moved to the end first.

    Returns:
      An array of the sizes of x.

    Raises:
      ShapeError: the product of the sizes of x is not that of the sizes of b.

    Example:
      >>> a = 2 * fnp.eye(6).reshape(2, 3, 6)
      >>> fnp.linalg.tensorsolve(a, fnp.ones((2, 3)))
      Array([0.5, 0.5, 0.5, 0.5, 0.5, 0.5], dtype=float32)
    """
    x, y = ew.inexact(a), ax.as_value(b)
    if axes is not None:
        last = ax.canonical_axes(tuple(axes), x.ndim, "tensorsolve")
        x = ax.permute(x, (*[i for i in range(x.ndim) if i not in last], *last))
    rows, columns = x.shape[: y.ndim], x.shape[y.ndim :]
    if prod(rows) != prod(columns) or prod(rows) != prod(y.shape):
        raise ShapeError(
            f"tensorsolve: the first {y.ndim} sizes of a, {x.shape}, must have the "
            f"product of the others and of those of b, {y.shape}"
        )
    matrix = ax.reshape(x, (prod(rows), prod(columns)))
    return ax.reshape(solve(matrix, ax.reshape(y, (y.size,))), columns)


# What singular values tell.


def cond(x: Value, p: Any = None) -> Any:
    """The condition numbers of matrices: how much a solution magnifies an error.

    Args:
      x: (…, m, n), not empty.
      p: None or 2, the ratio of the singular values; -2, its inverse; else the norm of
        square matrices times that of their inverses: see `norm`.

    Returns:
      (…), infinite for singular matrices.

    Raises:
      ShapeError: the matrices are empty, or not square for this norm.

    Example:
      >>> fnp.linalg.cond(fnp.array([[100.0, 0.0], [0.0, 2.0]]))
      Array(50., dtype=float32)
    """
    matrix = matrices("cond", x)
    if 0 in matrix.shape[-2:]:
        raise ShapeError(f"cond: empty matrices have no condition: {matrix.shape}")
    if p in (None, 2, -2):
        values = svdvals(matrix)
        high, low = values.max(-1), values.min(-1)
        pair = (low, high) if p == -2 else (high, low)
        return pair[0] / pair[1]
    matrix = square("cond", matrix)
    result = norm(matrix, p, (-2, -1)) * norm(inv(matrix), p, (-2, -1))
    # The norm of an inverse that does not exist is infinite, unless x has NaN.
    given = logic.isnan(matrix).any((-2, -1))
    infinite = logic.isnan(result) & ~given
    return ax.choose(infinite, ax.full((), math.inf, result.dtype), result)


def matrix_rank(
    M: Value, rtol: Value | None = None, *, hermitian: bool = False, tol: Any = None
) -> Any:
    """How many singular values of matrices are not small.

    Args:
      M: (…, m, n); of fewer axes: is any element not zero?
      rtol: what is small (not relative to anything, as in JAX); by default
        max(m, n)·ε times the greatest singular value.
      hermitian: M is.
      tol: another name of `rtol`.

    Returns:
      (…), int32.

    Raises:
      ArgumentError: both are given.

    Example:
      >>> fnp.linalg.matrix_rank(fnp.array([[1.0, 2.0], [2.0, 4.0]]))
      Array(1, dtype=int32)
    """
    if rtol is not None and tol is not None:
        raise ArgumentError("matrix_rank: only one of tol or rtol may be specified.")
    limit: Any = rtol if rtol is not None else tol
    matrix = ew.inexact(M)
    if matrix.ndim < 2:
        return ax.cast((matrix != 0).any(), dtypes.int32)
    if hermitian:
        values = abs(eigvalsh(square("matrix_rank", matrix)))
    else:
        values = svdvals(matrix)
    if limit is None:
        scale = max(matrix.shape[-2:]) * epsilon(matrix)
        limit = values.max(-1) * scale
    limit = ew.inexact(limit)
    return add_up(values > ax.insert_axes(limit, (limit.ndim,)), -1)


# Products.


def multi_dot(arrays: Sequence[Value], *, precision: Any = None) -> Any:
    """The product of two or more matrices, multiplied in the cheapest order.

    Args:
      arrays: matrices (m, k), (k, …), …, (…, n). The first and the last may be vectors.
      precision: accepted, without effect.

    Returns:
      (m, n), without the axis of a vector.

    Raises:
      ValueRangeError: there are fewer than two arrays.
      ShapeError: one has the wrong number of axes, or two neighbours do not fit.

    Example:
      >>> a, b, c = fnp.ones((10, 100)), fnp.ones((100, 5)), fnp.ones((5, 50))
      >>> fnp.linalg.multi_dot([a, b, c]).shape  # by (a·b)·c
      (10, 50)
    """
    check_precision("multi_dot", precision)
    values = sequence_of("multi_dot", arrays)
    if len(values) < 2:
        raise ValueRangeError(
            f"multi_dot: at least two arrays are required, got {len(values)}"
        )
    for i, x in enumerate(values):
        outermost = i in (0, len(values) - 1)
        if x.ndim != 2 and not (outermost and x.ndim == 1):
            raise ShapeError(
                f"multi_dot: array {i} must have two axes{' or one' * outermost}, got "
                f"{aval_of(x)!r}"
            )
    count = len(values)
    terms = [(i, i + 1) if x.ndim == 2 else (i or 1,) for i, x in enumerate(values)]
    sizes = label_sizes("multi_dot", [x.shape for x in values], terms, ())
    cuts = _chain_order([sample(sizes.get(i, 1)) for i in range(count + 1)])

    def product(low: int, high: int) -> Any:
        if low == high:
            return values[low]
        cut = cuts[low, high]
        return matmul(product(low, cut), product(cut + 1, high))

    return product(0, count - 1)


def _chain_order(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where to cut each interval of a chain of matrices (Cormen et al., 15.2)."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    cuts: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for low in range(count - length):
            high = low + length
            around = sizes[low] * sizes[high + 1]
            cost[low, high], cuts[low, high] = min(
                (cost[low, cut] + cost[cut + 1, high] + around * sizes[cut + 1], cut)
                for cut in range(low, high)
            )
    return cuts


# The array API's forms of functions of ftrace.numpy.


def cross(x1: Value, x2: Value, /, *, axis: int = -1) -> Any:
    """The cross product of vectors of 3 components along `axis`.

    Args:
      x1, x2: arrays whose other axes broadcast.
      axis: of the components.

    Raises:
      ShapeError: there are not 3 components.

    Example:
      >>> fnp.linalg.cross(fnp.array([1, 0, 0]), fnp.array([0, 1, 0]))
      Array([0, 0, 1], dtype=int32)
    """
    for x in (aval_of(x1), aval_of(x2)):
        if not x.shape or x.shape[axis] != 3:
            raise ShapeError(
                f"linalg.cross: 3 components are required along axis {axis}, got "
                f"{x.shape}"
            )
    return linear.cross(x1, x2, axis=axis)


def outer(x1: Value, x2: Value, /) -> Any:
    """Every element of one vector times every element of another.

    Args:
      x1: (m,).
      x2: (n,).

    Returns:
      (m, n). Unlike `fnp.outer` it flattens nothing.

    Raises:
      ShapeError: an operand has another number of axes than one.

    Example:
      >>> fnp.linalg.outer(fnp.array([1, 2]), fnp.array([3, 4, 5]))
      Array([[ 3,  4,  5],
             [ 6,  8, 10]], dtype=int32)
    """
    for x in (x1, x2):
        ax.vector(x, "linalg.outer: each operand")
    return linear.outer(x1, x2)


def diagonal(x: Value, /, *, offset: int = 0) -> Any:
    """The diagonals of matrices in the last two axes.

    Args:
      x: (…, m, n).
      offset: above (positive) or below (negative) the main diagonal.

    Returns:
      (…, k), with the size k of the diagonal.

    Raises:
      ShapeError: there are fewer than two axes.

    Example:
      >>> fnp.linalg.diagonal(fnp.array([[1, 2], [3, 4]]), offset=1)
      Array([2], dtype=int32)
    """
    return linear.check_diagonal("linalg.diagonal", x, offset, -2, -1)


def trace(x: Value, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums of the diagonals of matrices in the last two axes.

    Args:
      x: (…, m, n).
      offset: above (positive) or below (negative) the main diagonal.
      dtype: in which to add, by default that of x.

    Returns:
      (…). `fnp.trace` takes the first two axes instead.

    Raises:
      ShapeError: there are fewer than two axes.

    Example:
      >>> fnp.linalg.trace(fnp.array([[1, 2], [3, 4]]))
      Array(5, dtype=int32)
    """
    return linear.trace(x, offset, -2, -1, dtype)

"""LAPACK by NumPy and SciPy, on arrays with any leading axes.

NumPy raises for all of a batch where one matrix fails; here a matrix that has no
factorisation is NaN, and the others have results. SciPy is an extra; what only it has
(LU, triangular systems) is written in NumPy too, a step per row for all matrices of a
batch at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from math import prod
from typing import Any, cast as cast_to

import numpy

from ftrace.errors import MissingExtraError

Array = Any  # of NumPy, whose stubs leave too much unknown
np: Any = numpy  # whose stubs leave too much unknown


# NumPy's functions of stacked matrices.


def stack(x: Array, core: int = 2) -> Array:
    """`x` with its leading axes as one."""
    lead = x.shape[: x.ndim - core]
    return x.reshape(prod(lead), *x.shape[x.ndim - core :])


def or_nan(
    function: Callable[[Array], Any], avals: Sequence[Any], a: Array
) -> Sequence[Array]:
    """The results of a batched function of NumPy; NaN for a matrix that fails.

    Args:
      avals: types of the results, or what has their shapes and dtypes.
    """

    def several(x: Array) -> tuple[Array, ...]:
        value = function(x)
        return tuple(cast_to(Any, value)) if isinstance(value, tuple) else (value,)

    try:
        return several(a)
    except np.linalg.LinAlgError:
        return each(several, avals, a)


def each(
    function: Callable[..., Sequence[Array]], avals: Sequence[Any], *arrays: Array
) -> list[Array]:
    """The results of a function of single matrices, for each of a batch."""
    results = [np.empty(a.shape, a.dtype) for a in avals]
    for index in np.ndindex(*arrays[0].shape[:-2]):
        try:
            values = function(*[x[index] for x in arrays])
        except np.linalg.LinAlgError:
            values = [np.nan] * len(results)
        # LAPACK's info, which is last, is no result.
        for result, value in zip(results, values, strict=False):
            result[index] = value
    return results


def of_each(
    function: Callable[..., Sequence[Array]],
) -> Callable[..., Sequence[Array]]:
    """A meaning of `each`; NaN where an operand is not finite, or has no elements."""

    def check(*matrices: Array) -> Sequence[Array]:
        if not all(x.size and np.isfinite(x).all() for x in matrices):
            raise np.linalg.LinAlgError
        return function(*matrices)

    def compute(avals: Any, arg: None, *arrays: Array) -> Sequence[Array]:
        return each(check, avals, *arrays)

    return compute


# The calls of SciPy.


@cache
def has_scipy() -> bool:
    """Is SciPy installed? To know takes no import of it."""
    return find_spec("scipy") is not None


@cache
def scipy_linalg() -> Any | None:
    """`scipy.linalg`, or None where SciPy is not installed."""
    try:
        import scipy.linalg
    except ImportError:
        return None
    return scipy.linalg


def need_scipy(what: str) -> Any:
    """`scipy.linalg`.

    Raises:
      MissingExtraError: SciPy is not installed.
    """
    found = scipy_linalg()
    if found is None:
        raise MissingExtraError(
            f"{what} needs SciPy: install it with pip install 'ftrace[scipy]'"
        )
    return found


@cache
def routine(family: str, name: str, dtype: Any) -> Any:
    """A routine of BLAS or LAPACK for a dtype."""
    linalg = need_scipy(name)
    find = linalg.get_blas_funcs if family == "blas" else linalg.get_lapack_funcs
    return find(name, dtype=dtype)


# Cholesky.

#: Rows from which SciPy's routine is worth its import: it is several times faster.
_WORTH_SCIPY = 128


def cholesky(a: Array) -> Array:
    """L of a = L·Lᴴ; NaN where there is none."""
    n = a.shape[-1]
    if n < _WORTH_SCIPY or a.size == 0 or scipy_linalg() is None:
        return np.tril(or_nan(np.linalg.cholesky, [a], a)[0])
    potrf = routine("lapack", "potrf", a.dtype)
    result = np.empty(a.shape, a.dtype)
    for factor, matrix in zip(stack(result), stack(a), strict=True):
        # LAPACK is column-major: our lower triangle is its upper one, without a copy.
        found, failed = potrf(matrix.T, lower=0, clean=0)
        factor[...] = np.nan if failed else found.T
    return np.tril(result)


# Triangular systems.


def solve_triangular(
    a: Array, b: Array, lower: bool, trans: bool, conj: bool, unit: bool
) -> Array:
    """X of op(a) X = b, for triangular a; the other triangle is not read.

    A zero on the diagonal gives infinities and NaN.
    """
    if conj and np.iscomplexobj(a):
        a = a.conj()
    if scipy_linalg() is None or prod(b.shape[:-2]) > 4 * b.shape[-2] or not b.size:
        return substitute(a, b, lower, trans, unit)
    if b.ndim == 2:
        return np.ascontiguousarray(_substitute(a, b, lower, trans, unit))
    result = np.empty(b.shape, b.dtype)
    for x, left, right in zip(stack(result), stack(a), stack(b), strict=True):
        x[...] = _substitute(left, right, lower, trans, unit)
    return result


def _substitute(a: Array, b: Array, lower: bool, trans: bool, unit: bool) -> Array:
    """Of one system."""
    trsm = routine("blas", "trsm", b.dtype)
    # BLAS is column-major: it sees the transposes, Xᵀ op(a)ᵀ = bᵀ, without a copy.
    # The operands are alpha, a, b, side, lower, trans_a, diag.
    found = trsm(1, a.T, b.T, 1, not lower, trans, unit).T
    # What is infinite or NaN stays so until the row that is computed last.
    if not np.isfinite(found[-1 if lower != trans else 0]).all():
        # BLAS works in blocks, in which NaN spreads to rows that come before it.
        return substitute(a, b, lower, trans, unit)
    return found


def substitute(a: Array, b: Array, lower: bool, trans: bool, unit: bool) -> Array:
    """Substitution row by row, for all matrices of a batch at once."""
    if trans:
        a, lower = a.swapaxes(-1, -2), not lower
    n = a.shape[-1]
    x = np.array(b)
    for row in range(n) if lower else reversed(range(n)):
        known = slice(0, row) if lower else slice(row + 1, n)
        x[..., row, :] -= (a[..., row, None, known] @ x[..., known, :])[..., 0, :]
        if not unit:
            x[..., row, :] /= a[..., row, row, None]
    return x


# LU.


def lu(a: Array) -> tuple[Array, Array]:
    """(L and U in one matrix, the row exchanged with each row): partial pivoting."""
    lead, least = a.shape[:-2], min(a.shape[-2:])
    if scipy_linalg() is None or prod(lead) > 4 * least:
        return eliminate(a)
    if not lead:
        return _factorise(a)
    factors, pivots = np.empty(a.shape, a.dtype), np.empty((*lead, least), np.int32)
    results = stack(factors), stack(pivots, 1)
    for lu, exchanges, matrix in zip(*results, stack(a), strict=True):
        lu[...], exchanges[...] = _factorise(matrix)
    return factors, pivots


def _factorise(a: Array) -> tuple[Array, Array]:
    """Of one matrix."""
    found, pivots, _ = routine("lapack", "getrf", a.dtype)(a)
    factors = np.ascontiguousarray(found)
    if factors.dtype.kind == "c":
        _spread_nan(factors)
    elif not np.isfinite(factors).all():
        # Which of several NaN is a pivot depends on BLAS's code for a processor.
        return eliminate(a)
    return factors, pivots


def _spread_nan(factors: Array) -> None:
    """What is computed from a pivot that is NaN is NaN, also where BLAS left it out."""
    (found,) = np.nonzero(np.isnan(np.diagonal(factors)))
    if found.size:
        factors[found[0] + 1 :, found[0] :] = np.nan


def eliminate(a: Array) -> tuple[Array, Array]:
    """Gauss's elimination column by column, for all matrices of a batch at once."""
    lead, (m, n) = a.shape[:-2], a.shape[-2:]
    x = np.array(stack(a))
    least, lanes = min(m, n), np.arange(len(x))
    pivots = np.empty((len(x), least), np.int32)
    for j in range(least):
        size = _magnitude(x[:, j:, j])
        chosen = j + np.argmax(np.where(np.isnan(size), -1, size), axis=-1)
        pivots[:, j] = chosen
        row = x[lanes, chosen]
        x[lanes, chosen] = x[:, j]
        x[:, j] = row
        pivot = x[:, j, j, None]
        # A column of zeros stays, as in LAPACK: dividing it would make it NaN.
        x[:, j + 1 :, j] /= np.where(pivot == 0, np.ones((), x.dtype), pivot)
        x[:, j + 1 :, j + 1 :] -= x[:, j + 1 :, j, None] * x[:, j, None, j + 1 :]
    return x.reshape(a.shape), pivots.reshape(*lead, least)


def _magnitude(x: Array) -> Array:
    """What LAPACK compares: |Re| + |Im|."""
    return np.abs(x.real) + np.abs(x.imag) if np.iscomplexobj(x) else np.abs(x)


def permutation(pivots: Array, size: int) -> Array:
    """The order of the rows after exchanging row i with row pivots[i], one by one."""
    orders: list[list[int]] = []
    for exchanges in stack(pivots, 1).tolist():
        rows = list(range(size))
        for i, chosen in enumerate(exchanges):
            rows[i], rows[chosen] = rows[chosen], rows[i]
        orders.append(rows)
    return np.array(orders, np.int32).reshape(*pivots.shape[:-1], size)


def solve_lu(factors: Array, order: Array, b: Array, trans: bool, conj: bool) -> Array:
    """X of op(A) X = b, where A[order] = L U."""
    if trans:
        y = solve_triangular(factors, b, False, True, conj, False)
        y = solve_triangular(factors, y, True, True, conj, True)
        x = np.empty_like(y)
        np.put_along_axis(x, order[..., None].astype(np.intp), y, -2)
        return x
    if b.ndim == 2:
        y = b[order]
    else:
        y = np.take_along_axis(b, order[..., None].astype(np.intp), -2)
    y = solve_triangular(factors, y, True, False, conj, True)
    return solve_triangular(factors, y, False, False, conj, False)

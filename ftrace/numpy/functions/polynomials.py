"""Polynomials: vectors of coefficients, highest power first."""

from __future__ import annotations

from math import perm
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import ShapeError, ValueRangeError
from ftrace.numpy import axes as ax, elementwise as ew
from ftrace.numpy.factorizations import eigvals
from ftrace.numpy.functions.curves import convolve
from ftrace.numpy.linalg import epsilon, inv, lstsq
from ftrace.numpy.linear import matmul, outer
from ftrace.numpy.matrices import vander
from ftrace.numpy.shape import atleast_1d, concatenate, ravel, unstack
from ftrace.numpy.sorting import argsort
from ftrace.trace.bind import broadcast_shapes
from ftrace.trace.tracing.tracer import Value

__all__ = [
    "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub",
    "polyval", "roots",
]  # fmt: skip


def polyval(p: Value, x: Value, *, unroll: int = 16) -> Any:
    """The polynomial with coefficients p, highest power first, at x: Horner's rule."""
    p, x = ew.promote_together(p, x)
    if p.ndim < 1:
        raise ShapeError("polyval takes a vector of coefficients")
    shape = broadcast_shapes("polyval", [p.shape[1:], x.shape])
    if p.shape[0] == 0:
        return ax.full(shape, 0, p.dtype)
    first, *rest = unstack(p)
    result = ax.broadcast_to(first, shape)
    for coefficient in rest:
        result = result * x + coefficient
    return result


def _align(name: str, a1: Value, a2: Value) -> tuple[Any, Any]:
    """Two polynomials of one length: zeros for the powers that one lacks."""
    first, second = (atleast_1d(x) for x in ew.promote_together(a1, a2))
    if first.ndim != 1 or second.ndim != 1:
        raise ShapeError(
            f"{name} takes two vectors, got shapes {first.shape} and {second.shape}"
        )
    length = max(first.shape[0], second.shape[0])
    grown = [ax.pad(p, ((length - p.shape[0], 0, 0),)) for p in (first, second)]
    return grown[0], grown[1]


def polyadd(a1: Value, a2: Value) -> Any:
    """The sum of two polynomials."""
    return ew.add(*_align("polyadd", a1, a2))


def polysub(a1: Value, a2: Value) -> Any:
    """The difference of two polynomials."""
    return ew.subtract(*_align("polysub", a1, a2))


def polymul(a1: Value, a2: Value, *, trim_leading_zeros: bool = False) -> Any:
    """The product of two polynomials, with coefficients in a float dtype."""
    first, second = ew.promote_inexact(atleast_1d(a1), atleast_1d(a2))
    if trim_leading_zeros:
        first, second = _trim(first), _trim(second)
    if 0 in (first.shape[0], second.shape[0]):
        return ax.full((1,), 0, first.dtype)
    return convolve(first, second)


def _trim(p: Any) -> Any:
    (places,) = np.nonzero(np.asarray(p))
    return p[int(places[0]) if places.size else p.shape[0] :]


def polydiv(u: Value, v: Value, *, trim_leading_zeros: bool = False) -> tuple[Any, Any]:
    """The quotient and the remainder of two polynomials.

    Raises:
      ShapeError: the divisor is empty.
    """
    rest, divisor = ew.promote_inexact(atleast_1d(u), atleast_1d(v))
    if divisor.shape[0] == 0:
        raise ShapeError("polydiv: the divisor has no coefficients")
    steps = rest.shape[0] - divisor.shape[0] + 1
    if steps < 1:
        return ax.full((1,), 0, rest.dtype), rest
    found: list[Any] = []
    for i in range(steps):
        factor = rest[i : i + 1] / divisor[:1]
        found.append(factor)
        rest = rest - ax.pad(factor * divisor, ((i, steps - 1 - i, 0),))
    if trim_leading_zeros:
        rest = _trim(rest)
    return concatenate(found), rest


def polyder(p: Value, m: int = 1) -> Any:
    """The m-th derivative of a polynomial.

    Raises:
      ValueRangeError: m is negative.
    """
    m = ax.check_count(m, "polyder: m")
    (p,) = ew.promote_inexact(p)
    if m == 0:
        return p
    size = p.shape[0]
    if size <= m:
        return ax.full((0,), 0, p.dtype)
    factors = [float(perm(power, m)) for power in range(size - 1, m - 1, -1)]
    return p[: size - m] * _row(factors, p)


def polyint(p: Value, m: int = 1, k: Value | None = None) -> Any:
    """The m-th integral of a polynomial, with the constants k (0).

    Raises:
      ValueRangeError: m is negative.
      ShapeError: there are not m constants.
    """
    m = ax.check_count(m, "polyint: m")
    (p,) = ew.promote_inexact(p)
    constants = ax.full((m,), 0, p.dtype) if k is None else ravel(k)
    if constants.shape[0] == 1 and m > 1:
        constants = ax.broadcast_to(constants, (m,))
    if constants.shape[0] != m:
        raise ShapeError(f"polyint: {constants.shape[0]} constants for m={m}")
    for i in range(m):
        divisors = [float(n) for n in range(p.shape[0], 0, -1)]
        constant = ax.cast(constants[i : i + 1], p.dtype)
        p = concatenate([p / _row(divisors, p), constant])
    return p


def _row(values: list[float], like: Any) -> Any:
    return ax.cast(ax.as_value(np.asarray(values, np.float64)), like.dtype)


# Roots, and fits.


def poly(seq_of_zeros: Value) -> Any:
    """The polynomial with these roots and the leading coefficient 1.

    Args:
      seq_of_zeros: (n,); or a matrix (n, n), whose eigenvalues are taken.

    Returns:
      (n + 1,) floats, complex where the roots are; without roots, the number 1.

    Raises:
      ShapeError: it is neither.
    """
    (x,) = ew.promote_inexact(atleast_1d(seq_of_zeros))
    if x.ndim == 2 and x.shape[0] == x.shape[1] and x.shape[0]:
        x = eigvals(x)
    if x.ndim != 1:
        raise ShapeError(
            f"poly takes a vector, or a square matrix that is not empty; got {x.shape}"
        )
    one = ax.full((1,), 1, x.dtype)
    if not x.shape[0]:
        return ax.reshape(one, ())
    zero, result = ax.full((1,), 0, x.dtype), one
    for i in range(x.shape[0]):
        shifted = concatenate([zero, result])
        result = concatenate([result, zero]) - x[i] * shifted
    return result


def roots(p: Value, *, strip_zeros: bool = True) -> Any:
    """The roots of a polynomial: the eigenvalues of its companion matrix.

    Args:
      p: (n,) coefficients.
      strip_zeros: zeros at the ends are taken away, so that there are as many roots as
        the degree says; their number must be known. Without it there are n - 1, of
        which those that do not exist are NaN and the last.

    Returns:
      A vector of complex numbers.

    Raises:
      ShapeError: p is no vector.
      ConcretizationTypeError: zeros are stripped, and p is traced.
    """
    (x,) = ew.promote_inexact(ax.vector(p, "roots: p"))
    size = x.shape[0]
    if size < 2:
        return ax.full((0,), 0, dtypes.complex_dtype(x.dtype))
    if not strip_zeros:
        leading = ew.equal(x, 0).cumprod().sum()
        filled = ax.choose(leading == size, 1, x)
        places = ax.iota(dtypes.int32, (size,), 0) + leading
        found = _roots(filled[places % size])  # leading zeros go to the end
        found = found[argsort(found == 0)]
        exists = ax.iota(dtypes.int32, (size - 1,), 0) < size - 1 - leading
        return ax.choose(exists, found, complex(np.nan, np.nan))
    (places,) = np.nonzero(np.asarray(x))
    if not places.size:
        return ax.full((0,), 0, dtypes.complex_dtype(x.dtype))
    first, last = int(places[0]), int(places[-1])
    found = _roots(x[first : last + 1])
    return concatenate([found, ax.full((size - 1 - last,), 0, found.dtype)])


def _roots(p: Any) -> Any:
    """Those of a polynomial whose first coefficient is not 0."""
    degree = p.shape[0] - 1
    if not degree:
        return ax.full((0,), 0, dtypes.complex_dtype(p.dtype))
    below: Any = np.eye(degree - 1, degree, dtype=p.dtype)
    return eigvals(concatenate([-p[None, 1:] / p[0], below]))


def polyfit(
    x: Value,
    y: Value,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: Value | None = None,
    cov: bool | str = False,
) -> Any:
    """The polynomial of a degree that is nearest to points, by least squares.

    Args:
      x: (m,).
      y: (m,) or (m, k).
      deg: the degree.
      rcond: singular values below `rcond` times the greatest count as zero; by default
        m·ε.
      full: return (p, residuals, rank, singular values, rcond).
      w: (m,) weights of the points.
      cov: return (p, covariance of p); "unscaled" for weights that are 1/σ.

    Returns:
      p: (deg + 1,) or (deg + 1, k).

    Raises:
      ShapeError: the shapes do not fit.
      ValueRangeError: deg is negative, or there are too few points for a covariance.
    """
    count = ax.check_count(deg, "polyfit: deg") + 1
    places, values = ew.promote_inexact(x, y)
    size = places.shape[0] if places.ndim == 1 else 0
    if not size or values.ndim not in (1, 2) or values.shape[0] != size:
        raise ShapeError(
            "polyfit: x must be (m,) and y (m,) or (m, k), with m > 0; got the shapes "
            f"{places.shape} and {values.shape}"
        )
    limit = size * epsilon(places) if rcond is None else rcond
    rows = vander(places, count)
    if w is not None:
        weights = ax.cast(ax.as_value(w), places.dtype)
        if weights.shape != (size,):
            raise ShapeError(f"polyfit: w must be ({size},), got {weights.shape}")
        rows = rows * weights[:, None]
        values = values * (weights[:, None] if values.ndim == 2 else weights)
    scale = ew.sqrt((rows * rows).sum(0))
    rows = rows / scale
    found, residuals, rank, singular = lstsq(rows, values, limit)
    found = found / (scale[:, None] if values.ndim == 2 else scale)
    if full:
        return found, residuals, rank, singular, ax.cast(limit, places.dtype)
    if not cov:
        return found
    spread = inv(matmul(rows.T, rows)) / outer(scale, scale)
    if cov != "unscaled":
        if size <= count:
            raise ValueRangeError(
                f"polyfit: a covariance needs more than {count} points, got {size}; "
                'write cov="unscaled"'
            )
        factor = residuals / (size - count)
        spread = spread[:, :, None] * factor if values.ndim == 2 else spread * factor
    return found, spread

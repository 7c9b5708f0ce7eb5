"""Polynomials as vectors of coefficients, highest power first; convolution."""

from __future__ import annotations

from math import perm
from typing import Any

import numpy as np

from ftrace.errors import ShapeError, one_of
from ftrace.numpy import axes as ax
from ftrace.numpy import elementwise as ew
from ftrace.numpy.joining import concatenate
from ftrace.numpy.linear import contract, finished, promoted
from ftrace.numpy.shape import atleast_1d, ravel, unstack
from ftrace.trace.bind import broadcast_shapes, do_now
from ftrace.trace.eager.composite import run_fused
from ftrace.trace.tracing.tracer import Value

__all__ = [
    "convolve", "correlate", "polyadd", "polyder", "polydiv", "polyint", "polymul",
    "polysub", "polyval",
]  # fmt: skip


# Convolution.


def convolve(
    a: Value,
    v: Value,
    mode: str = "full",
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """The convolution of two vectors: y[n] = Σ a[k]·v[n - k].

    Args:
      a, v: vectors.
      mode: "full", "same" (as long as the longer), or "valid" (full overlap only).
      precision: accepted; products are always as precise as their dtype.
      preferred_element_type: the dtype to add up in.

    Raises:
      ShapeError: an operand is no vector, or empty.
      ValueRangeError: there is no such mode.
    """
    return _convolved("convolve", a, v, mode, preferred_element_type)


def correlate(
    a: Value,
    v: Value,
    mode: str = "valid",
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """The correlation of two vectors: y[n] = Σ a[n + k]·conj(v[k]).

    Arguments and errors are those of `convolve`.
    """
    v = _vector("correlate", v)
    a = _vector("correlate", a)
    if v.shape[0] > a.shape[0] and mode != "full":
        # NumPy exchanges the operands, and turns the result round.
        swapped = _convolved(
            "correlate", ew.conjugate(v), ax.flip(a, (0,)), mode, preferred_element_type
        )
        return ax.flip(swapped, (0,))
    other = ax.flip(ew.conjugate(v), (0,))
    return _convolved("correlate", a, other, mode, preferred_element_type)


def _vector(name: str, x: Value) -> Any:
    x = ax.as_value(x)
    if x.ndim != 1 or x.shape[0] == 0:
        raise ShapeError(f"{name} takes two vectors that are not empty, got {x.shape}")
    return x


def _convolved(name: str, a: Value, v: Value, mode: str, preferred: Any) -> Any:
    one_of(f"{name}: mode", mode, ("full", "same", "valid"))
    vectors = ew.promote_inexact(_vector(name, a), _vector(name, v))
    (x, y), final = promoted(*vectors, preferred_element_type=preferred)
    if y.shape[0] > x.shape[0]:
        x, y = y, x
    reach = y.shape[0]
    before, after = {
        "full": (reach - 1, reach - 1),
        "same": (reach // 2, reach - 1 - reach // 2),
        "valid": (0, 0),
    }[mode]

    if x.dtype == y.dtype and x.dtype.char in "fd":
        weak = x.weak_type and y.weak_type
        more = (before, after)
        now = do_now(_convolved_now, x, y, dtype=x.dtype, weak=weak, more=more)
        if now is not None:
            return finished(now, final)

    def windowed(x: Any, y: Any) -> Any:
        lanes = ax.slide(ax.pad(x, ((before, after, 0),)), 0, ax.Window(reach))
        return contract(name, lanes, ax.flip(y, (0,)), "kn", "k", "n")

    return finished(run_fused(windowed, [x, y]), final)


def _convolved_now(x: Any, y: Any, before: int, after: int) -> Any:
    """Zeros beside x are multiplied as well: beside infinity they are NaN."""
    return np.convolve(np.pad(x, (before, after)), y, "valid")


# Polynomials.


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


def _aligned(name: str, a1: Value, a2: Value) -> tuple[Any, Any]:
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
    return ew.add(*_aligned("polyadd", a1, a2))


def polysub(a1: Value, a2: Value) -> Any:
    """The difference of two polynomials."""
    return ew.subtract(*_aligned("polysub", a1, a2))


def polymul(a1: Value, a2: Value, *, trim_leading_zeros: bool = False) -> Any:
    """The product of two polynomials, with coefficients in a float dtype."""
    first, second = ew.promote_inexact(atleast_1d(a1), atleast_1d(a2))
    if trim_leading_zeros:
        first, second = _trimmed(first), _trimmed(second)
    if 0 in (first.shape[0], second.shape[0]):
        return ax.full((1,), 0, first.dtype)
    return convolve(first, second)


def _trimmed(p: Any) -> Any:
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
        rest = _trimmed(rest)
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

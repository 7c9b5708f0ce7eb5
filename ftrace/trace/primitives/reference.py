"""What elementwise primitives mean in NumPy, where no function of it says just that.

Functions of arrays of one shape and dtype; special functions stand in `special.py`,
the greater and the lesser in `minmax.py`, casts in `cast_numpy.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.trace.avals import ShapedArray
from ftrace.trace.primitives.primitive import Array

Ufunc = Callable[..., Any]

_where: Any = np.where  # the stubs know nothing of Any

# Arithmetic.


def mul_zero(x: Any, y: Any) -> Any:
    """x·y, and zero where either is zero."""
    with np.errstate(all="ignore"):
        return np.where((x == 0) | (y == 0), np.zeros((), x.dtype), x * y)


def divide(x: Any, y: Any) -> Any:
    """Integers truncate; division by zero gives -1, as XLA does."""
    if dtypes.is_complex(x.dtype):
        return _divide_complex(x, y)
    if not dtypes.is_integer(x.dtype):
        return np.true_divide(x, y)
    lowest = np.iinfo(x.dtype).min
    overflow = (y == -1) & (x == lowest) if lowest else np.False_
    safe = np.where((y == 0) | overflow, np.ones((), y.dtype), y)
    quotient = x // safe
    inexact = (x - quotient * safe != 0) & ((x < 0) != (safe < 0))
    quotient = quotient + inexact.astype(x.dtype)
    return np.where(y == 0, np.asarray(-1).astype(x.dtype), quotient)


def division(aval: ShapedArray) -> Ufunc:
    """`divide` for one dtype, which need not be asked for again."""
    return np.true_divide if dtypes.kind(aval.dtype) == "f" else divide


def _divide_complex(x: Any, y: Any) -> Any:
    """NumPy multiplies by an inverse, which is infinite for the least divisors."""
    value = np.true_divide(x, y)
    if _is_bounded(value):
        return value
    wide = np.abs(y.real) >= np.abs(y.imag)
    p, q = _where(wide, y.real, y.imag), _where(wide, y.imag, y.real)
    a, b = _where(wide, x.real, x.imag), _where(wide, x.imag, x.real)
    r = q / p
    below = p + q * r
    imaginary = _where(wide, b - a * r, a * r - b)
    smith = make_complex((a + b * r) / below, imaginary / below)
    return _where(np.isfinite(y) & (y != 0), smith, value)


def multiply(x: Any, y: Any) -> Any:
    """NumPy rounds both products of a part where complex64 runs backwards."""
    if getattr(x, "dtype", None) is dtypes.complex64:
        plain = x.flags.forc and y.flags.forc
        if not plain and min((*x.strides, *y.strides)) < 0:
            x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
    return np.multiply(x, y)


def multiplication(aval: ShapedArray) -> Ufunc:
    """`multiply` for one dtype."""
    return multiply if dtypes.is_complex(aval.dtype) else np.multiply


def square(x: Any) -> Any:
    """Of complex numbers, without a difference of infinite squares."""
    value = np.multiply(x, x)
    if _is_bounded(value):
        return value
    re, im = x.real, x.imag
    return make_complex((re - im) * (re + im), 2 * (re * im))


def _is_bounded(value: Any) -> bool:
    """Is every part finite, and so small that one product can tell?"""
    flat = value.ravel()
    return abs(flat.dot(flat)) < np.inf


def remainder(x: Any, y: Any) -> Any:
    """The sign of the dividend; x for a zero integer divisor, as XLA does."""
    if not dtypes.is_integer(x.dtype):
        return np.fmod(x, y)
    overflow = (y == -1) if np.iinfo(x.dtype).min else np.False_
    safe = np.where((y == 0) | overflow, np.ones((), y.dtype), y)
    return np.where(y == 0, x, np.fmod(x, safe))


#: Of so many floats and more, what is asked first costs as much as it spares.
_FEW_TO_ASK = 1 << 16


def square_bound(x: Any) -> Any:
    """A bound of all squares of a few floats, or NaN where nothing is known.

    A rounded sum of squares is never less than the greatest of them, in any order:
    rounding is monotonic. So one product bounds all elements.
    """
    if x.dtype.char not in "fd" or x.size >= _FEW_TO_ASK:
        return np.nan
    vdot: Any = np.vdot  # whose stubs know no type of what comes out
    return vdot(x, x)


def power(x: Any, y: Any) -> Any:
    """`np.power`; of the one exponent 1/2 the root, with a power's values at its ends.

    Powers of -0 and -infinity are 0 and infinity.
    """
    if not _is_half(y, x.shape) or x.dtype.kind != "f":
        return np.power(x, y)
    root = np.sqrt(x) + x.dtype.type(0)
    if square_bound(x) < np.inf:
        return root
    return _where(x == -np.inf, -x, root)


def power_of_any(x: Any, y: Any) -> Any:
    """Of complex numbers; NumPy multiplies infinities for a small whole exponent."""
    if x.dtype.kind != "c":
        return power(x, y)
    value = np.power(x, y)
    if _is_bounded(value) and _is_bounded(x + y):
        return value
    log: Any = np.log(x)
    exponent = multiply(y, log)
    other = np.exp(exponent)
    other = _where((x == 0) & (y.real > 0), 0, _where(y == 0, 1, other))
    return _where(np.isfinite(value) & np.isfinite(exponent), value, other)


def _is_half(y: Any, shape: Sequence[int]) -> bool:
    """Is it 1/2, once or again and again to that shape?"""
    if y.ndim == 0:
        return y.dtype.kind == "f" and bool(y == 0.5)
    if any(y.strides) or not y.size or y.shape != shape:
        return False
    return y.dtype.kind == "f" and bool(y.flat[0] == 0.5)


def sign(x: Any) -> Any:
    """-1, 0 or 1 with the sign of zero kept; x/|x| of complex numbers."""
    if dtypes.kind(x.dtype) == "f":
        return np.where(np.isnan(x) | (x == 0), x, np.copysign(np.ones((), x.dtype), x))
    if dtypes.is_complex(x.dtype):  # of an infinity NumPy gives its direction
        length = np.abs(x)
        scale = np.where(length < 1, 2.0**60, np.where(length == np.inf, 0.25, 1))
        scale = scale.astype(length.dtype)
        re, im = x.real * scale, x.imag * scale
        length = np.where(x == 0, scale, np.hypot(re, im))
        return make_complex(re / length, im / length)
    return np.sign(x)


def expm1(x: Any) -> Any:
    """NumPy's complex one multiplies infinity by 0, and subtracts infinities."""
    if x.dtype.kind != "c":
        return np.expm1(x)
    near = np.expm1(x)
    if _is_bounded(near):
        return near
    value: Any = np.asarray(np.exp(x))
    value.real -= 1
    np.copyto(value.real, near.real, where=np.abs(x.real) < 1)
    return value


def log1p(x: Any) -> Any:
    """NumPy adds 1 to a complex x, however small; |1 + x|² - 1 = re·(2 + re) + im²."""
    if x.dtype.kind != "c":
        return np.log1p(x)
    above: Any = np.array(x)
    above.real += 1
    value: Any = np.asarray(np.log(above))
    re, im = x.real, x.imag
    excess = re * (2 + re) + im * im
    np.copyto(value.real, np.log1p(excess) / 2, where=np.abs(x) < 0.5)
    return value


def rsqrt(x: Any) -> Any:
    if x.dtype.kind == "c":
        return divide(x.dtype.type(1), np.sqrt(x))
    return np.reciprocal(np.sqrt(x))


def logistic(x: Any) -> Any:
    """e^x rather than 1/e^-x where x is negative: it is denormal, not infinite."""
    if x.dtype.kind == "c":
        left = x.real < 0
        part = np.exp(_where(left, x, -x))
        return divide(_where(left, part, x.dtype.type(1)), 1 + part)
    part = np.exp(-np.abs(x))
    return _where(x < 0, part, x.dtype.type(1)) / (1 + part)


def nextafter(x: Any, y: Any) -> Any:
    """NumPy's; of equal ones y, which for 16 bits it takes to be x: zeros differ."""
    return _where(x == y, y, np.nextafter(x, y))


def make_complex(x: Any, y: Any) -> Any:
    shape = np.broadcast_shapes(x.shape, y.shape)
    result = np.empty(shape, dtypes.complex_dtype(x.dtype))
    result.real, result.imag = x, y
    return result


# Bits. Shifts by the width or more give 0, or the sign.


def _unsigned(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(f"u{dtype.itemsize}")


def _shifted(
    shift: Ufunc, x: Array, n: Array, beyond: Array, view: np.dtype[Any]
) -> Array:
    width = 8 * x.dtype.itemsize
    alike = n.size and not any(n.strides)  # one distance: look at it once
    if alike and 0 <= n[(0,) * n.ndim] < width:
        return shift(x.view(view), n.view(view)).view(x.dtype)
    outside: Array = (n < 0) | (n >= width)
    safe: Array = np.where(outside, np.zeros((), n.dtype), n)
    result = shift(x.view(view), safe.view(view)).view(x.dtype)
    return np.where(outside, np.asarray(beyond), result)


def shift_left(x: Array, n: Array) -> Array:
    x, n = np.asarray(x), np.asarray(n)
    return _shifted(np.left_shift, x, n, np.zeros((), x.dtype), x.dtype)


def shift_right_logical(x: Any, n: Any) -> Any:
    x, n = np.asarray(x), np.asarray(n)
    return _shifted(np.right_shift, x, n, np.zeros((), x.dtype), _unsigned(x.dtype))


def shift_right_arithmetic(x: Any, n: Any) -> Any:
    x, n = np.asarray(x), np.asarray(n)
    beyond = np.where(x < 0, np.asarray(-1).astype(x.dtype), np.zeros((), x.dtype))
    return _shifted(np.right_shift, x, n, beyond, x.dtype)


def popcount(x: Any) -> Any:
    """NumPy counts the bits of |x|."""
    x = np.asarray(x)
    return np.bitwise_count(x.view(_unsigned(x.dtype))).astype(x.dtype)

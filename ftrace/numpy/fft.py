"""Frequencies and the order of spectra."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ftrace import dtypes
from ftrace.errors import ValueRangeError
from ftrace.numpy.axes import canonical_axes, cast, full, iota, shape_of, static_int
from ftrace.numpy.creation import Dtype, dtype_or
from ftrace.numpy.elementwise import add, divide, multiply
from ftrace.numpy.joining import concatenate
from ftrace.numpy.padding import roll
from ftrace.trace.tracer import Value

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def _count(name: str, n: Any) -> int:
    count = static_int(n, f"{name}: n")
    if count < 1:
        raise ValueRangeError(f"{name}: n must be positive, got {count}")
    return count


def _range(start: int, count: int, dtype: Any) -> Any:
    if count == 0:
        return full((0,), 0, dtype)
    return add(cast(iota(dtypes.int32, (count,), 0), dtype), start)


def fftfreq(n: int, d: Value = 1.0, *, dtype: Dtype = None, device: Any = None) -> Any:
    """The frequencies of a transform of n samples that are d apart."""
    count = _count("fftfreq", n)
    target = dtype_or(dtype, dtypes.default_dtype("f"))
    positive = (count + 1) // 2
    first = _range(0, positive, target)
    numbers = concatenate([first, _range(positive - count, count - positive, target)])
    return divide(numbers, cast(multiply(d, count), target))


def rfftfreq(n: int, d: Value = 1.0, *, dtype: Dtype = None, device: Any = None) -> Any:
    """The frequencies of a transform of n real samples that are d apart."""
    count = _count("rfftfreq", n)
    target = dtype_or(dtype, dtypes.default_dtype("f"))
    return divide(_range(0, count // 2 + 1, target), cast(multiply(d, count), target))


def _shifted(name: str, x: Value, axes: Any, sign: int) -> Any:
    shape = shape_of(x)
    places = canonical_axes(axes, len(shape), name)
    halves = [shape[a] // 2 if sign > 0 else -(shape[a] // 2) for a in places]
    return roll(x, halves, places)


def fftshift(x: Value, axes: int | Sequence[int] | None = None) -> Any:
    """The zero frequency moved to the middle."""
    return _shifted("fftshift", x, axes, 1)


def ifftshift(x: Value, axes: int | Sequence[int] | None = None) -> Any:
    """The zero frequency moved back from the middle to the front."""
    return _shifted("ifftshift", x, axes, -1)

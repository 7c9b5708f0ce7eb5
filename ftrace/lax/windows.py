"""Reductions over sliding windows under JAX's `lax` names: pooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace.errors import ArgumentError, ShapeError, ValueRangeError
from ftrace.lax.elementwise import check_dtypes
from ftrace.lax.reductions import Monoid, is_identity, recognise
from ftrace.numpy.axes import as_value, cast, check_shape, drop_axes, static_int
from ftrace.numpy.windows import Window, slide_all
from ftrace.trace.fused import run_fused
from ftrace.trace.operations import bind, elementwise
from ftrace.trace.primitives.reduction import identity
from ftrace.trace.tracer import Value, aval_of

__all__ = ["padtype_to_pads", "reduce_window"]

Padding = str | Sequence[Sequence[int]]


def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str,
) -> list[tuple[int, int]]:
    """What "SAME", "SAME_LOWER" or "VALID" adds before and after each axis.

    "SAME" gives ⌈size / stride⌉ places, with what is left over at the end,
    "SAME_LOWER" at the beginning.

    Raises:
      ValueRangeError: it is none of them.
    """
    kind = padding.upper()
    if kind not in ("SAME", "SAME_LOWER", "VALID"):
        raise ValueRangeError(
            f"padding must be 'SAME', 'SAME_LOWER', 'VALID' or pairs of counts, got "
            f"{padding!r}"
        )
    pads: list[tuple[int, int]] = []
    for n, window, step in zip(in_shape, window_shape, window_strides, strict=True):
        total = (
            max((-(-n // step) - 1) * step + window - n, 0) if kind != "VALID" else 0
        )
        low = total - total // 2 if kind == "SAME_LOWER" else total // 2
        pads.append((low, total - low))
    return pads


def check_padding(name: str, padding: Any, count: int) -> list[tuple[int, int]]:
    """Pairs (before, after), one per axis.

    Raises:
      ValueRangeError: they are not that.
    """
    try:
        pads = [(static_int(lo, name), static_int(hi, name)) for lo, hi in padding]
    except (TypeError, ValueError, ArgumentError):
        pads = []
    if len(pads) != count:
        raise ValueRangeError(
            f"{name}: padding must be a string or {count} pairs (before, after), got "
            f"{padding!r}"
        )
    return pads


def check_counts(
    name: str, what: str, counts: Sequence[int] | None, ndim: int
) -> tuple[int, ...]:
    """One positive number per axis; None stands for ones.

    Raises:
      ShapeError: there are more or fewer, or one is too small.
    """
    if counts is None:
        return (1,) * ndim
    found = check_shape(tuple(counts), name)
    if len(found) != ndim or any(n < 1 for n in found):
        raise ShapeError(
            f"{name}: {what} must hold {ndim} numbers of at least 1, got {found}"
        )
    return found


def reduce_window(
    operand: Value,
    init_value: Value,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Sums, products, maxima or minima of windows.

    Args:
      operand: the array.
      init_value: what padding holds and every window begins with: a scalar. What
        changes nothing, as 0 in a sum, may be of another dtype.
      computation: a function of two values; `lax.add`, `lax.mul`, `lax.max`,
        `lax.min`, or another that does one of these.
      window_dimensions: the size of the window along each axis.
      window_strides: how far each place moves it.
      padding: "SAME", "SAME_LOWER", "VALID", or (before, after) per axis.
      base_dilation: how far the elements of the operand are spread.
      window_dilation: how far the elements of the window are apart.

    Raises:
      ArgumentError: the function is another one.
      ShapeError: there is not one number per axis.
    """
    name = "lax.reduce_window"
    x = as_value(operand)
    dtype = x.dtype
    if aval_of(init_value).shape != ():
        raise ShapeError(
            f"{name}: init_value must be a scalar: {aval_of(init_value)!r}"
        )
    monoid = recognise(computation, dtype)
    if monoid is None:
        raise ArgumentError(
            f"{name}: the function must be lax.add, lax.mul, lax.max or lax.min of its "
            f"two arguments, got {getattr(computation, '__name__', computation)}"
        )
    begins = is_identity(monoid, init_value, dtype)
    if not begins:
        check_dtypes("reduce_window", x, init_value)
    sizes = check_counts(name, "window_dimensions", window_dimensions, x.ndim)
    strides = check_counts(name, "window_strides", window_strides, x.ndim)
    spread = check_counts(name, "base_dilation", base_dilation, x.ndim)
    dilation = check_counts(name, "window_dilation", window_dilation, x.ndim)
    if isinstance(padding, str):
        reaches = [(n - 1) * d + 1 for n, d in zip(sizes, dilation, strict=True)]
        pads = padtype_to_pads(x.shape, reaches, strides, padding)
    else:
        pads = check_padding(name, padding, x.ndim)
    rows = zip(sizes, strides, dilation, pads, spread, strict=True)
    windows = tuple(Window(n, s, d, lo, hi, gap - 1) for n, s, d, (lo, hi), gap in rows)
    operands = [x]
    if not begins:
        operands.append(cast(init_value, dtype))
    return run_fused(_reduce_windows, operands, monoid=monoid, windows=windows)


def _reduce_windows(
    x: Any, *init: Any, monoid: Monoid, windows: tuple[Window, ...]
) -> Any:
    fill = init[0] if init else identity(monoid.reduction, x.dtype)
    if any(w.outputs(n) == 0 for w, n in zip(windows, x.shape, strict=True)):
        shape = tuple(w.outputs(n) for w, n in zip(windows, x.shape, strict=True))
        return as_value(np.zeros(shape, x.dtype))
    seen = slide_all(x, windows, fill)
    axes = tuple(range(seen.ndim - x.ndim))
    result = drop_axes(bind(monoid.reduction, seen, arg=axes), axes) if axes else seen
    return elementwise(monoid.combine, init[0], result) if init else result

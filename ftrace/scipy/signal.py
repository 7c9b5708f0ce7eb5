"""Convolution and correlation of arrays, computed directly."""

from __future__ import annotations

from typing import Any

from ftrace import dtypes
from ftrace.errors import ShapeError, ValueRangeError
from ftrace.lax.convolution import conv_general_dilated
from ftrace.numpy.axes import as_value, cast, drop_axes, flip, insert_axes
from ftrace.numpy.contraction import promoted
from ftrace.numpy.linear import conjugated
from ftrace.trace.eager import make_all_eager
from ftrace.trace.tracer import Value

__all__ = ["convolve", "convolve2d", "correlate", "correlate2d"]


def convolve(
    in1: Value,
    in2: Value,
    mode: str = "full",
    method: str = "auto",
    precision: Any = None,
) -> Any:
    """The convolution of two arrays with as many axes.

    Args:
      in1, in2: one must be at least as large as the other along each axis.
      mode: "full", all there is; "same", as much as in1, from the middle; "valid",
        where they overlap entirely.
      method: accepted, without effect: the direct method is used.
      precision: accepted, without effect.

    Raises:
      ShapeError: the shapes do not fit.
      ValueRangeError: the mode is unknown.
    """
    return _convolve("convolve", in1, in2, mode)


def correlate(
    in1: Value,
    in2: Value,
    mode: str = "full",
    method: str = "auto",
    precision: Any = None,
) -> Any:
    """The correlation of two arrays with as many axes; arguments as in `convolve`."""
    return _convolve("correlate", in1, _mirrored(in2), mode)


def convolve2d(
    in1: Value,
    in2: Value,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Any:
    """`convolve` of matrices; beyond them there are zeros."""
    _check_matrices("convolve2d", in1, in2, boundary, fillvalue)
    return _convolve("convolve2d", in1, in2, mode)


def correlate2d(
    in1: Value,
    in2: Value,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Any:
    """`correlate` of matrices; beyond them there are zeros."""
    _check_matrices("correlate2d", in1, in2, boundary, fillvalue)
    return _convolve("correlate2d", in1, _mirrored(in2), mode)


def _mirrored(x: Value) -> Any:
    x = conjugated(x)
    return flip(x, range(x.ndim))


def _check_matrices(
    name: str, in1: Value, in2: Value, boundary: str, fillvalue: float
) -> None:
    if boundary != "fill" or fillvalue != 0:
        raise ValueRangeError(
            f"{name}: only boundary='fill' with fillvalue=0 is supported; pad the "
            "input first, with ftrace.numpy.pad"
        )
    shapes = [as_value(x).shape for x in (in1, in2)]
    if any(len(shape) != 2 for shape in shapes):
        raise ShapeError(
            f"{name}: matrices are required, got the shapes {shapes[0]} and {shapes[1]}"
        )


def _convolve(name: str, in1: Value, in2: Value, mode: str) -> Any:
    if mode not in ("full", "same", "valid"):
        raise ValueRangeError(
            f"{name}: mode must be 'full', 'same' or 'valid', got {mode!r}"
        )
    (x, k), _ = promoted(in1, in2)
    if not dtypes.is_inexact(x.dtype):
        wide = dtypes.to_inexact(x.dtype)
        x, k = cast(x, wide), cast(k, wide)
    if x.ndim != k.ndim or not x.ndim or 0 in (*x.shape, *k.shape):
        raise ShapeError(
            f"{name}: two arrays with as many axes and without empty ones are "
            f"required, got the shapes {x.shape} and {k.shape}"
        )
    wanted = x.shape
    if all(n <= m for n, m in zip(x.shape, k.shape, strict=True)):
        x, k = k, x
    elif any(n < m for n, m in zip(x.shape, k.shape, strict=True)):
        raise ShapeError(
            f"{name}: one operand must be at least as large as the other along each "
            f"axis, got the shapes {x.shape} and {k.shape}"
        )
    pads: list[tuple[int, int]] = []
    for n, m, out in zip(x.shape, k.shape, wanted, strict=True):
        before = after = 0 if mode == "valid" else m - 1
        if mode == "same":
            whole = n + m - 1
            start = (whole - out) // 2
            before, after = before - start, after - (whole - out - start)
        pads.append((before, after))
    x = insert_axes(x, (0, 1))
    k = insert_axes(flip(k, range(k.ndim)), (0, 1))
    return drop_axes(conv_general_dilated(x, k, (1,) * len(pads), pads), (0, 1))


make_all_eager(__name__)

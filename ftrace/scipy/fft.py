"""JAX's `scipy.fft`: cosine transforms, of types 2 and 3.

    type 2    y[k] = 2·Σ x[j]·cos(πk(2j + 1)/2n)
    type 3    its transpose but for y[0], and its inverse but for a factor 2n

`norm` is None or "backward": the inverse divides by 2n; "forward": the other one does;
"ortho": both are orthogonal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import ShapeError, UnsupportedError, one_of
from ftrace.lax.elementwise import complex as make_complex
from ftrace.numpy import axes as ax, elementwise as ew
from ftrace.numpy.fft import resize
from ftrace.trace.eager.dispatch import publish
from ftrace.trace.eager.function_objects import member
from ftrace.trace.tracing.tracer import Value

__all__ = ["dct", "dctn", "idct", "idctn"]

np: Any = numpy  # whose stubs leave too much unknown


def _along(name: str):
    def along(
        x: Value,
        type: int = 2,
        n: int | None = None,
        axis: int = -1,
        norm: str | None = None,
    ) -> Any:
        one_of(f"{name}: type", type, (2, 3), UnsupportedError)
        one_of(f"{name}: norm", norm, (None, "backward", "forward", "ortho"))
        value = ew.inexact(x)
        if value.dtype.itemsize == 2:
            value = value.astype(dtypes.float32)  # 16 bits are too few to transform in
        if dtypes.is_complex(value.dtype):
            parts = value.real, value.imag
            return make_complex(*[along(x, type, n, axis, norm) for x in parts])
        place = ax.canonical_axis(axis, value.ndim, name)
        value = ax.move_axis(value, place, value.ndim - 1)
        length = ax.static_int(value.shape[-1] if n is None else n, f"{name}: n", 1)
        value = resize(value, value.ndim - 1, length)
        inverse = name == "idct"
        if (type == 2) != inverse:
            result = _second(value, length, norm, inverse)
        else:
            result = _third(value, length, norm, inverse)
        return ax.move_axis(result, result.ndim - 1, place)

    return along


@member(_along)
def dct():
    """The cosine transform along one axis.

    Args:
      x: real, or complex: its parts are transformed.
      type: 2 or 3.
      n: the length; the axis is cut or padded with zeros to it.
      axis: along which.
      norm: see the module.

    Raises:
      ValueRangeError: the type, the length or the norm is not one of these.
      AxisError: there is no such axis.

    Example:
      >>> ft.scipy.fft.dct(fnp.array([1.0, 1.0, 1.0]))
      Array([6., 0., 0.], dtype=float32)
    """


@member(_along)
def idct():
    """The inverse of `dct`.

    Args:
      x, type, n, axis, norm: as those of `dct`.

    Example:
      >>> ft.scipy.fft.idct(ft.scipy.fft.dct(fnp.array([1.0, 2.0])))
      Array([1., 2.], dtype=float32)
    """


def _along_several(name: str, along: Callable[..., Any]):
    def along_several(
        x: Value,
        type: int = 2,
        s: int | Sequence[int] | None = None,
        axes: int | Sequence[int] | None = None,
        norm: str | None = None,
    ) -> Any:
        value = ew.inexact(x)
        sizes = None if s is None else ax.check_shape(s, name)
        if axes is None:
            count = value.ndim if sizes is None else len(sizes)
            axes = tuple(range(-min(count, value.ndim), 0))
        places = ax.canonical_axes(axes, value.ndim, name)
        lengths = [None] * len(places) if sizes is None else sizes
        if len(lengths) != len(places):
            raise ShapeError(
                f"{name}: one length per axis is required, got {lengths} for the axes "
                f"{places}"
            )
        for axis, n in zip(places, lengths, strict=True):
            value = along(value, type, n, axis, norm)
        return value

    return along_several


@member(_along_several, dct)
def dctn():
    """`dct` along several axes.

    Args:
      x: real.
      type: 2 or 3.
      s: the length of each axis.
      axes: along which; by default the last ones that `s` has lengths for, or all.
      norm: see the module.

    Raises:
      ShapeError: `s` and `axes` differ in number.
      ValueRangeError, DtypeError, AxisError: see `dct`.

    Example:
      >>> ft.scipy.fft.dctn(fnp.ones((2, 2)))
      Array([[16.,  0.],
             [ 0.,  0.]], dtype=float32)
    """


@member(_along_several, idct)
def idctn():
    """The inverse of `dctn`.

    Args:
      x, type, s, axes, norm: as those of `dctn`.

    Example:
      >>> ft.scipy.fft.idctn(ft.scipy.fft.dctn(fnp.ones((2, 2))))
      Array([[1., 1.],
             [1., 1.]], dtype=float32)
    """


def _scales(n: int, norm: Any, inverse: bool) -> Any:
    """What each frequency is multiplied with: the first is a case of its own."""
    if norm == "ortho":
        scales = np.full(n, math.sqrt(1 / (2 * n)))
        scales[0] = math.sqrt(1 / (4 * n))
        return scales
    divides = inverse == (norm != "forward")
    return np.full(n, 1 / (2 * n) if divides else 1.0)


def _turns(x: Any, n: int, sign: int) -> Any:
    """exp(±iπk/2n), in the complex dtype of x."""
    turns = np.exp(sign * 0.5j * np.pi * np.arange(n) / n)
    return turns.astype(np.result_type(x.dtype, np.complex64))


def _second(x: Any, n: int, norm: Any, inverse: bool) -> Any:
    """By a transform of twice the length, of which half the elements are zeros."""
    spectrum = ax.shrink_axis(fnp.fft.rfft(x, 2 * n), x.ndim - 1, 0, n)
    values = 2 * fnp.real(spectrum * _turns(x, n, -1))
    return values * _scales(n, norm, inverse).astype(x.dtype)


def _third(x: Any, n: int, norm: Any, inverse: bool) -> Any:
    """The same backwards. Where type 2 is orthogonal, this is its transpose."""
    scales = _scales(n, norm, inverse) * (4 * n)
    if norm != "ortho":
        scales[0] /= 2
    values = x * scales.astype(x.dtype) * _turns(x, n, 1)
    return ax.shrink_axis(fnp.real(fnp.fft.ifft(values, 2 * n)), x.ndim - 1, 0, n)


publish(__name__)

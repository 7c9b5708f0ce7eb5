"""Fourier transforms, their frequencies, and the order of spectra.

Transforms run along one axis or several, after cutting or padding them with zeros to
the lengths that are asked for. `norm` says what is divided by the number n of
elements: "backward" (the default) the inverse transform, "forward" the other one, and
"ortho" both, by √n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ftrace import dtypes
from ftrace.errors import AxisError, DtypeError, ShapeError, one_of
from ftrace.numpy import axes as ax, elementwise as ew
from ftrace.numpy.creation import Dtype, asarray, dtype_or
from ftrace.numpy.padding import roll
from ftrace.trace.bind import bind_compound, elementwise
from ftrace.trace.eager.function_objects import member
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.library.fft import Fourier, fft_p
from ftrace.trace.tracing.tracer import Value

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn",
    "ifftshift", "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq",
    "rfftn",
]  # fmt: skip

Lengths = Sequence[int] | None

#: By kind of transform: which norms multiply by n to which power.
_FORWARD = {None: 0.0, "backward": 0.0, "ortho": -0.5, "forward": -1.0}
_INVERSE = {None: 0.0, "backward": 0.0, "ortho": 0.5, "forward": 1.0}

_LAST_TWO = (-2, -1)


# Transforms.


def _along_one(kind: str):
    def along_one(
        a: Value, n: int | None = None, axis: int = -1, norm: str | None = None
    ) -> Any:
        lengths = None if n is None else (ax.static_int(n, f"{kind}: n"),)
        return _transform(kind, kind, a, lengths, (axis,), norm)

    return along_one


@member(_along_one)
def fft():
    """The Fourier transform along one axis: y[k] = Σ a[j]·exp(-2πi·jk/n).

    Args:
      a: float or complex.
      n: the length; the axis is cut or padded to it.
      axis: along which.
      norm: see the module.

    Returns:
      A complex array.
      A complex array, of n elements along the axis; complex64 of float32.

    Raises:
      AxisError: there is no such axis.
      ValueRangeError: the length is not positive, or the norm unknown.

    Example:
      >>> fnp.fft.fft(fnp.array([1.0, 2.0, 3.0, 4.0]))
      Array([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j], dtype=complex64)
      >>> fnp.fft.fft(fnp.array([1.0, 1.0]), n=4).real
      Array([2., 1., 0., 1.], dtype=float32)
    """


@member(_along_one)
def ifft():
    """The inverse of `fft`: x[j] = Σ a[k]·exp(2πi·jk/n) / n.

    Args:
      a: float or complex.
      n: the length; the axis is cut or padded to it.
      axis: along which.
      norm: "backward" (the default, divides by n), "forward" or "ortho"; see the
        module.

    Returns:
      A complex array, of n elements along the axis.

    Raises:
      AxisError: there is no such axis.
      ValueRangeError: the length is not positive, or the norm unknown.

    Example:
      >>> fnp.fft.ifft(fnp.fft.fft(fnp.array([1.0, 2.0, 4.0]))).real
      Array([1., 2., 4.], dtype=float32)
    """


@member(_along_one)
def rfft():
    """The first n//2 + 1 elements of `fft` of a real array: the others mirror them.

    Args:
      a: float32 or float64; integers become floats.
      n: the length of the signal; the axis is cut or padded to it.
      axis: along which.
      norm: "backward" (the default), "forward" (divides by n) or "ortho"; see the
        module.

    Returns:
      A complex array, of n//2 + 1 elements along the axis.

    Raises:
      DtypeError: the array is complex, float16 or bfloat16.
      AxisError, ValueRangeError: see `fft`.

    Example:
      >>> fnp.fft.rfft(fnp.array([1.0, 0.0, -1.0, 0.0]))
      Array([0.+0.j, 2.+0.j, 0.+0.j], dtype=complex64)
    """


@member(_along_one)
def irfft():
    """The inverse of `rfft`, of length n.

    Args:
      a: the first half of a spectrum, float or complex.
      n: the length of the signal, by default twice (the axis's size - 1): give it where
        that is odd.
      axis: along which.
      norm: "backward" (the default, divides by n), "forward" or "ortho"; see the
        module.

    Returns:
      A real array, of n elements along the axis.

    Raises:
      AxisError, ValueRangeError: see `fft`.

    Example:
      >>> fnp.fft.irfft(fnp.fft.rfft(fnp.array([1.0, 2.0, 3.0])), n=3)
      Array([1., 2., 3.], dtype=float32)
    """


def hfft(
    a: Value, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Any:
    """`fft` of a signal that mirrors itself, given its first half: a real spectrum.

    Args:
      a: the first half of the signal, float or complex.
      n: the length of the result, by default twice (the axis's size - 1).
      axis: along which.
      norm: "backward" (the default), "forward" (divides by n) or "ortho"; see the
        module.

    Returns:
      A real array, of n elements along the axis.

    Raises:
      AxisError, ValueRangeError: see `fft`.

    Example:
      >>> fnp.fft.hfft(fnp.array([1.0, 1.0, 1.0]))
      Array([4., 0., 0., 0.], dtype=float32)
    """
    return irfft(ew.conjugate(a), n, axis, _opposite(norm))


def ihfft(
    a: Value, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Any:
    """The inverse of `hfft`: half of a signal, from its real spectrum.

    Args:
      a: a real spectrum; integers become floats.
      n: its length; the axis is cut or padded to it.
      axis: along which.
      norm: "backward" (the default, divides by n), "forward" or "ortho"; see the
        module.

    Returns:
      A complex array, of n//2 + 1 elements along the axis.

    Raises:
      DtypeError: the spectrum is complex, float16 or bfloat16.
      AxisError, ValueRangeError: see `fft`.

    Example:
      >>> fnp.fft.ihfft(fnp.array([4.0, 0.0, 0.0, 0.0]))
      Array([1.-0.j, 1.-0.j, 1.-0.j], dtype=complex64)
    """
    return ew.conjugate(rfft(asarray(a), n, axis, _opposite(norm)))


def _along_several(name: str, default: tuple[int, int] | None = None):
    def along_several(
        a: Value,
        s: Lengths = None,
        axes: Sequence[int] | None = default,
        norm: str | None = None,
    ) -> Any:
        kind = name[:-1]
        s = s if s is None else ax.several(s, f"{name}: s")
        axes = axes if axes is None else ax.several(axes, f"{name}: axes")
        if default and len(axes or ()) != 2:
            raise AxisError(f"{name}: two axes are required, got {axes!r}; use {kind}n")
        return _transform(name, kind, a, s, axes, norm)

    return along_several


@member(_along_several, _LAST_TWO)
def fft2():
    """`fftn` along two axes.

    Args:
      a: float or complex.
      s: two lengths; the axes are cut or padded to them.
      axes: two axes.
      norm: see the module.

    Returns:
      A complex array.

    Raises:
      AxisError, ShapeError, ValueRangeError: see `fftn`.

    Example:
      >>> fnp.fft.fft2(fnp.array([[1.0, 2.0], [3.0, 4.0]]))
      Array([[10.+0.j, -2.+0.j],
             [-4.+0.j,  0.+0.j]], dtype=complex64)
    """


@member(_along_several, _LAST_TWO)
def ifft2():
    """`ifftn` along two axes: the inverse of `fft2`.

    Args:
      a: float or complex.
      s: two lengths; the axes are cut or padded to them.
      axes: two axes.
      norm: see the module.

    Returns:
      A complex array.

    Raises:
      AxisError, ShapeError, ValueRangeError: see `fftn`.

    Example:
      >>> fnp.fft.ifft2(fnp.array([[4.0, 0.0], [0.0, 0.0]])).real
      Array([[1., 1.],
             [1., 1.]], dtype=float32)
    """


@member(_along_several, _LAST_TWO)
def rfft2():
    """`rfftn` along two axes: half of the spectrum of a real image.

    Args:
      a: float32 or float64; integers become floats.
      s: two lengths; the axes are cut or padded to them.
      axes: two axes; the last is the one that is halved.
      norm: see the module.

    Returns:
      A complex array, of n//2 + 1 elements along the last of the axes.

    Raises:
      DtypeError: the array is complex, float16 or bfloat16.
      AxisError, ShapeError, ValueRangeError: see `fftn`.

    Example:
      >>> fnp.fft.rfft2(fnp.ones((4, 6))).shape
      (4, 4)
    """


@member(_along_several, _LAST_TWO)
def irfft2():
    """`irfftn` along two axes: the inverse of `rfft2`.

    Args:
      a: half of a spectrum, float or complex.
      s: the two lengths of the result; the last is by default twice (the size - 1).
      axes: two axes.
      norm: see the module.

    Returns:
      A real array.

    Raises:
      AxisError, ShapeError, ValueRangeError: see `fftn`.

    Example:
      >>> fnp.fft.irfft2(fnp.fft.rfft2(fnp.array([[1.0, 2.0], [3.0, 4.0]])))
      Array([[1., 2.],
             [3., 4.]], dtype=float32)
    """


@member(_along_several)
def fftn():
    """`fft` along several axes.

    Args:
      a: float or complex.
      s: the length of each axis; it is cut or padded to it.
      axes: along which; by default the last ones that `s` has lengths for, or all.
      norm: see the module.

    Returns:
      A complex array.

    Raises:
      AxisError: there is no such axis, or it is named twice.
      ShapeError: `s` and `axes` differ in number.
      ValueRangeError: a length is not positive, or the norm unknown.

    Example:
      >>> fnp.fft.fftn(fnp.ones((2, 3))).real
      Array([[6., 0., 0.],
             [0., 0., 0.]], dtype=float32)
    """


@member(_along_several)
def ifftn():
    """The inverse of `fftn`.

    Args:
      a: float or complex.
      s: the length of each axis; it is cut or padded to it.
      axes: along which; by default the last ones that `s` has lengths for, or all.
      norm: see the module.

    Returns:
      A complex array.

    Raises:
      AxisError, ShapeError, ValueRangeError: see `fftn`.

    Example:
      >>> fnp.fft.ifftn(fnp.fft.fftn(fnp.array([[1.0, 2.0], [3.0, 4.0]]))).real
      Array([[1., 2.],
             [3., 4.]], dtype=float32)
    """


@member(_along_several)
def rfftn():
    """`rfft` along the last of several axes, then `fft` along the others.

    Args:
      a: float32 or float64; integers become floats.
      s: the length of each axis; it is cut or padded to it.
      axes: along which; by default the last ones that `s` has lengths for, or all.
      norm: see the module.

    Returns:
      A complex array, of n//2 + 1 elements along the last of the axes.

    Raises:
      DtypeError: the array is complex, float16 or bfloat16.
      AxisError, ShapeError, ValueRangeError: see `fftn`.

    Example:
      >>> fnp.fft.rfftn(fnp.ones((2, 4)))
      Array([[8.+0.j, 0.+0.j, 0.+0.j],
             [0.+0.j, 0.+0.j, 0.+0.j]], dtype=complex64)
    """


@member(_along_several)
def irfftn():
    """The inverse of `rfftn`.

    Args:
      a: half of a spectrum, float or complex.
      s: the length of each axis of the result; the last is by default twice (the size -
        1).
      axes: along which; by default the last ones that `s` has lengths for, or all.
      norm: see the module.

    Returns:
      A real array.

    Raises:
      AxisError, ShapeError, ValueRangeError: see `fftn`.

    Example:
      >>> fnp.fft.irfftn(fnp.fft.rfftn(fnp.array([[1.0, 2.0], [3.0, 4.0]])))
      Array([[1., 2.],
             [3., 4.]], dtype=float32)
    """


def _opposite(norm: str | None) -> str | None:
    """The norm under which an inverse transform is scaled like this forward one."""
    swapped = {None: "forward", "backward": "forward", "forward": "backward"}
    return swapped.get(norm, norm)


def _transform(name: str, kind: str, a: Value, s: Any, axes: Any, norm: Any) -> Any:
    x = ax.as_value(a)
    one_of(f"{name}: norm", norm, _FORWARD)
    places = _axes(name, x, s, axes)
    if not places:
        return _convert(name, kind, x)
    lengths = _lengths(name, kind, x, s, places)
    x = _convert(name, kind, x)
    sizes = list(lengths)
    if kind == "irfft":
        sizes[-1] = lengths[-1] // 2 + 1
    if 0 in lengths:
        return _fft_empty(x, kind, places, lengths)
    for axis, size in zip(places, sizes, strict=True):
        x = resize(x, axis, size)
    order = (*[i for i in range(x.ndim) if i not in places], *places)
    moved = ax.permute(x, order)
    (y,) = bind_compound(fft_p, moved, arg=Fourier(kind, lengths))
    power = (_INVERSE if kind[0] == "i" else _FORWARD)[norm]
    if power:
        y = elementwise(p.mul, y, math.prod(lengths) ** power)
    return ax.permute(y, ax.inverse(order))


def _fft_empty(x: Any, kind: str, axes: Sequence[int], lengths: Sequence[int]) -> Any:
    """The transform of no elements."""
    shape, dtype = list(x.shape), dtypes.complex_dtype(dtypes.real_dtype(x.dtype))
    for axis, size in zip(axes, lengths, strict=True):
        shape[axis] = size
    if kind == "irfft":
        dtype = dtypes.real_dtype(dtype)
    if kind == "rfft":
        shape[axes[-1]] = lengths[-1] // 2 + 1
    return ax.full(tuple(shape), 0, dtype)


def _axes(name: str, x: Any, s: Any, axes: Any) -> tuple[int, ...]:
    if axes is None:
        count = x.ndim if s is None else len(s)
        if count > x.ndim:
            raise ShapeError(f"{name}: {count} lengths for an array of shape {x.shape}")
        return tuple(range(x.ndim - count, x.ndim))
    return ax.canonical_axes(axes, x.ndim, name)


def _lengths(
    name: str, kind: str, x: Any, s: Any, axes: tuple[int, ...]
) -> tuple[int, ...]:
    if s is not None:
        lengths = tuple(ax.static_int(n, f"{name}: a length", 1) for n in s)
        if len(lengths) != len(axes):
            raise ShapeError(
                f"{name}: one length per axis is required, got {lengths} for the axes "
                f"{axes}"
            )
    else:
        lengths = tuple(x.shape[i] for i in axes)
        if kind == "irfft":
            lengths = (*lengths[:-1], max(2 * (lengths[-1] - 1), 0))
    return lengths


def _convert(name: str, kind: str, x: Any) -> Any:
    """In the dtype that the transform takes."""
    if kind == "rfft":
        if dtypes.is_complex(x.dtype) or dtypes.is_half(x.dtype):
            raise DtypeError(
                f"{name}: the array must be float32 or float64, got {x.dtype}; use "
                f"{name.replace('r', '', 1)} for complex ones, or .astype('float32')"
            )
        return ax.cast(x, dtypes.to_inexact(x.dtype))
    if dtypes.is_complex(x.dtype):
        return x
    return ax.cast(x, dtypes.complex_dtype(dtypes.to_inexact(x.dtype)))


def resize(x: Any, axis: int, size: int) -> Any:
    """The axis cut, or padded with zeros at its end."""
    x = ax.shrink_axis(x, axis, 0, min(size, x.shape[axis]))
    return ax.pad_axis(x, axis, 0, size - x.shape[axis])


# Frequencies, and the order of spectra.


def _frequencies(name: str, real: bool):
    def frequencies(n: int, d: Value = 1.0, *, dtype: Dtype = None) -> Any:
        """Frequencies of a transform.

        Args:
          n: how many samples.
          d: the time between two of them.
          dtype: a float dtype, by default float32.

        Returns:
          A vector, in cycles per unit of d.
        """
        count = ax.static_int(n, f"{name}: n", 0)
        target = dtype_or(dtype, dtypes.default_dtype("f"))
        numbers = ax.iota(dtypes.int32, (count // 2 + 1 if real else count,), 0)
        if not real:
            numbers = ax.choose(numbers < (count + 1) // 2, numbers, numbers - count)
        return ax.cast(numbers, target) / ax.cast(ew.multiply(d, count), target)

    return frequencies


@member(_frequencies, real=False)
def fftfreq():
    """The frequencies of a transform of n samples d apart: [0, 1, …, -2, -1]/(n·d).

    They are in the order of `fft`: negative ones come last.

    Example:
      >>> fnp.fft.fftfreq(5, 0.1)
      Array([ 0.,  2.,  4., -4., -2.], dtype=float32)
    """


@member(_frequencies, real=True)
def rfftfreq():
    """The n//2 + 1 frequencies of a transform of n real samples: [0, 1, …]/(n·d).

    They are in the order of `rfft`.

    Example:
      >>> fnp.fft.rfftfreq(4, 0.5)
      Array([0. , 0.5, 1. ], dtype=float32)
    """


def _shift(name: str, x: Value, axes: Any, sign: int) -> Any:
    shape = ax.shape_of(x)
    places = ax.canonical_axes(axes, len(shape), name)
    halves = [shape[a] // 2 if sign > 0 else -(shape[a] // 2) for a in places]
    return roll(x, halves, places)


def fftshift(x: Value, axes: int | Sequence[int] | None = None) -> Any:
    """The zero frequency moved to the middle.

    Args:
      x: an array in the order of `fft`.
      axes: an axis or several; None is all.

    Returns:
      Of the shape and dtype of x: element 0 stands at n//2.

    Raises:
      AxisError: there is no such axis.

    Example:
      >>> fnp.fft.fftshift(fnp.array([0, 1, 2, -2, -1]))
      Array([-2, -1,  0,  1,  2], dtype=int32)
    """
    return _shift("fftshift", x, axes, 1)


def ifftshift(x: Value, axes: int | Sequence[int] | None = None) -> Any:
    """The zero frequency moved back from the middle to the front.

    Args:
      x: an array in the order of `fftshift`.
      axes: an axis or several; None is all.

    Returns:
      Of the shape and dtype of x.

    Raises:
      AxisError: there is no such axis.

    Example:
      >>> fnp.fft.ifftshift(fnp.array([-2, -1, 0, 1, 2]))
      Array([ 0,  1,  2, -2, -1], dtype=int32)
    """
    return _shift("ifftshift", x, axes, -1)

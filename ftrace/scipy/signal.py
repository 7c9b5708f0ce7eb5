"""Convolution and correlation of arrays, directly and by transforms; spectra."""

from __future__ import annotations

from typing import Any

from ftrace import dtypes
from ftrace.errors import ShapeError, ValueRangeError, one_of
from ftrace.lax.convolution import conv_general_dilated
from ftrace.numpy import axes as ax, fft
from ftrace.numpy.elementwise import conjugate
from ftrace.numpy.linear import alike
from ftrace.scipy.spectral import csd, detrend, istft, stft, welch
from ftrace.trace.eager.dispatch import member, publish
from ftrace.trace.tracing.tracer import Value

__all__ = [
    "convolve", "convolve2d", "correlate", "correlate2d", "csd", "detrend",
    "fftconvolve", "istft", "stft", "welch",
]  # fmt: skip


def _convolution(name: str, mirrored: bool):
    def convolution(
        in1: Value,
        in2: Value,
        mode: str = "full",
        method: str = "auto",
        precision: Any = None,
    ) -> Any:
        return _convolve(name, in1, _mirror(in2) if mirrored else in2, mode)

    return convolution


@member(_convolution, mirrored=False)
def convolve():
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


@member(_convolution, mirrored=True)
def correlate():
    """The correlation of two arrays with as many axes; arguments as in `convolve`."""


def _convolution_of_matrices(name: str, mirrored: bool):
    def convolution(
        in1: Value,
        in2: Value,
        mode: str = "full",
        boundary: str = "fill",
        fillvalue: float = 0,
        precision: Any = None,
    ) -> Any:
        _check_matrices(name, in1, in2, boundary, fillvalue)
        other = _mirror(in2) if mirrored else in2
        return _convolve(name, in1, other, mode, late=int(mirrored))

    return convolution


@member(_convolution_of_matrices, mirrored=False)
def convolve2d():
    """`convolve` of matrices; beyond them there are zeros."""


@member(_convolution_of_matrices, mirrored=True)
def correlate2d():
    """`correlate` of matrices; beyond them there are zeros."""


def fftconvolve(in1: Value, in2: Value, mode: str = "full", axes: Any = None) -> Any:
    """`convolve` by Fourier transforms: sooner done where both operands are long.

    Args:
      in1, in2: as many axes each.
      mode: as in `convolve`; one must be at least as large as the other along each axis
        for "valid" alone.
      axes: along which axes, by default all; the others broadcast.

    Raises:
      ShapeError: the shapes do not fit.
      ValueRangeError: the mode is unknown.
      AxisError: there is no such axis.
    """
    x, k = _operands("fftconvolve", in1, in2, mode)
    along = ax.canonical_axes(axes, x.ndim, "fftconvolve")
    pairs = [(x.shape[a], k.shape[a]) for a in along]
    if mode == "valid" and not (
        all(n >= m for n, m in pairs) or all(n <= m for n, m in pairs)
    ):
        raise _unordered("fftconvolve", x.shape, k.shape)
    sizes = [_smooth(n + m - 1) for n, m in pairs]
    if dtypes.is_complex(x.dtype):
        product = fft.fftn(x, sizes, along) * fft.fftn(k, sizes, along)
        result = fft.ifftn(product, sizes, along)
    else:
        product = fft.rfftn(x, sizes, along) * fft.rfftn(k, sizes, along)
        result = fft.irfftn(product, sizes, along)
    kept = [slice(None)] * x.ndim
    for a, (n, m) in zip(along, pairs, strict=True):
        whole = n + m - 1
        size = {"full": whole, "same": n, "valid": abs(n - m) + 1}[mode]
        start = (whole - size) // 2
        kept[a] = slice(start, start + size)
    return result[tuple(kept)].astype(x.dtype)


def _smooth(size: int) -> int:
    """The least number from `size` on that has no factor above 5."""
    while True:
        rest = size
        for factor in (2, 3, 5):
            while rest % factor == 0:
                rest //= factor
        if rest == 1:
            return size
        size += 1


def _mirror(x: Value) -> Any:
    x = conjugate(x)
    return ax.flip(x, range(x.ndim))


def _check_matrices(
    name: str, in1: Value, in2: Value, boundary: str, fillvalue: float
) -> None:
    if boundary != "fill" or fillvalue != 0:
        raise ValueRangeError(
            f"{name}: only boundary='fill' with fillvalue=0 is supported; pad the "
            "input first, with ftrace.numpy.pad"
        )
    shapes = [ax.as_value(x).shape for x in (in1, in2)]
    if any(len(shape) != 2 for shape in shapes):
        raise ShapeError(
            f"{name}: matrices are required, got the shapes {shapes[0]} and {shapes[1]}"
        )


def _operands(name: str, in1: Value, in2: Value, mode: str) -> tuple[Any, Any]:
    """The operands in one inexact dtype."""
    one_of(f"{name}: mode", mode, ("full", "same", "valid"))
    x, k = alike(in1, in2)
    if not dtypes.is_inexact(x.dtype):
        wide = dtypes.to_inexact(x.dtype)
        x, k = ax.cast(x, wide), ax.cast(k, wide)
    if x.ndim != k.ndim or not x.ndim or 0 in (*x.shape, *k.shape):
        raise ShapeError(
            f"{name}: two arrays with as many axes and without empty ones are "
            f"required, got the shapes {x.shape} and {k.shape}"
        )
    return x, k


def _unordered(name: str, first: Any, second: Any) -> ShapeError:
    return ShapeError(
        f"{name}: one operand must be at least as large as the other along each axis, "
        f"got the shapes {first} and {second}"
    )


def _convolve(name: str, in1: Value, in2: Value, mode: str, late: int = 0) -> Any:
    """The convolution; `late` is 1 where the middle of an even size is its second."""
    x, k = _operands(name, in1, in2, mode)
    wanted = x.shape
    if all(n <= m for n, m in zip(x.shape, k.shape, strict=True)):
        x, k = k, x
    elif any(n < m for n, m in zip(x.shape, k.shape, strict=True)):
        raise _unordered(name, x.shape, k.shape)
    pads: list[tuple[int, int]] = []
    for n, m, out in zip(x.shape, k.shape, wanted, strict=True):
        before = after = 0 if mode == "valid" else m - 1
        if mode == "same":
            whole = n + m - 1
            start = (whole - out + late) // 2
            before, after = before - start, after - (whole - out - start)
        pads.append((before, after))
    x = ax.insert_axes(x, (0, 1))
    k = ax.insert_axes(ax.flip(k, range(k.ndim)), (0, 1))
    return ax.drop_axes(conv_general_dilated(x, k, (1,) * len(pads), pads), (0, 1))


publish(__name__)

"""Convolution, correlation, and spectra of signals.

stft, istft   the Fourier transform of each of some windows that overlap, and back
csd, welch    the mean of their products: Welch, The use of fast Fourier transform for
              the estimation of power spectra (1967)
detrend       less the constant or the lines that fit best
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from ftrace import dtypes, errors, numpy as fnp
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lax.convolution import conv_general_dilated
from ftrace.numpy import axes as ax, elementwise as ew, fft
from ftrace.numpy.linear import alike
from ftrace.trace.eager.dispatch import publish
from ftrace.trace.eager.function_objects import member
from ftrace.trace.eager.precision import check_precision
from ftrace.trace.tracing.tracer import Value

__all__ = [
    "convolve", "convolve2d", "correlate", "correlate2d", "csd", "detrend",
    "fftconvolve", "istft", "stft", "welch",
]  # fmt: skip


_TYPES = ("constant", "linear")
_BOUNDARIES = {
    "even": "reflect",
    "odd": "reflect",
    "constant": "edge",
    "zeros": "constant",
}


def detrend(
    data: Value, axis: int = -1, type: str = "linear", bp: Any = 0,
    overwrite_data: None = None,
) -> Any:  # fmt: skip
    """`data`, less the line, or the constant, that fits it best along an axis.

    Args:
      data: numbers; integers become floats.
      axis: along which.
      type: "linear" or "constant".
      bp: positions at which another line begins.
      overwrite_data: not supported; data is never changed.

    Raises:
      ValueRangeError: the type is another, or a position lies outside.
      UnsupportedError: `overwrite_data` is given.

    Example:
      >>> fnp.round(ft.scipy.signal.detrend(fnp.array([1.0, 2.0, 4.0])), 3)
      Array([ 0.167, -0.333,  0.167], dtype=float32)
    """
    if overwrite_data is not None:
        raise errors.UnsupportedError(
            "detrend: arrays are immutable; leave out overwrite_data"
        )
    errors.one_of("detrend: type", type, _TYPES)
    x = ew.inexact(fnp.asarray(data))
    if type == "constant":
        return x - x.mean(axis, keepdims=True)
    x = fnp.moveaxis(x, axis, -1)
    size = x.shape[-1]
    bounds = np.unique([0, *np.ravel(bp), size])
    if bounds[0] < 0 or bounds[-1] > size:
        raise errors.ValueRangeError(
            f"detrend: bp must lie between 0 and {size}, the size of the axis, got {bp}"
        )
    parts: list[Any] = []
    for start, stop in pairwise(bounds):
        # An orthonormal basis of the lines: what is left is orthogonal to it.
        count = int(stop - start)
        lines = np.stack([np.ones(count), np.arange(count)], -1)
        basis = ax.cast(np.linalg.qr(lines)[0], x.dtype)
        part = x[..., start:stop]
        parts.append(part - (part @ basis) @ basis.T)
    return fnp.moveaxis(fnp.concatenate(parts, -1), -1, axis)


def stft(
    x: Value, fs: Value = 1.0, window: Any = "hann", nperseg: int = 256,
    noverlap: int | None = None, nfft: int | None = None, detrend: Any = False,
    return_onesided: bool = True, boundary: str | None = "zeros", padded: bool = True,
    axis: int = -1,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """The Fourier transforms of windows that overlap.

    Args:
      x: the signal.
      fs: samples per unit of time.
      window: an array, or the name of a window of SciPy's, or a tuple of name and
        parameters; SciPy must be there for all but "hann".
      nperseg: the length of a window; of an array it is its own.
      noverlap: by how much two overlap, by default half.
      nfft: the length of a transform, by default that of a window.
      detrend: of each window: False, "constant", "linear", or a function of segments.
      return_onesided: of real signals only frequencies from 0.
      boundary: how it goes on before and after: None, "zeros", "even", "odd" or
        "constant".
      padded: zeros fill the last window.
      axis: along which.

    Returns:
      frequencies, times, and the transforms, whose last axis is time.

    Raises:
      ValueRangeError, ShapeError: the lengths or a name do not fit.

    Example:
      >>> f, t, Z = ft.scipy.signal.stft(fnp.ones(64), nperseg=16)
      >>> Z.shape
      (9, 9)
    """
    if boundary is not None:
        errors.one_of("stft: boundary", boundary, (None, *_BOUNDARIES))
    x, axis = _signal(x, axis)
    if x.size == 0:
        return _no_segments(x.shape, x.dtype)
    spectrum = _Spectrum.of(
        "stft", x, window, nperseg, noverlap, nfft, detrend, return_onesided
    )
    x = _extend(x, boundary, spectrum.size // 2)
    if padded:
        missing = -(x.shape[-1] - spectrum.size) % spectrum.step % spectrum.size
        x = _append_zeros(x, missing)
    found = spectrum.of_segments(x) / spectrum.window.sum()
    half = spectrum.size / 2
    dtype = dtypes.real_dtype(x.dtype)
    last = x.shape[-1] - half + 1
    times = fnp.arange(half, last, spectrum.step, dtype=dtype) / fs
    if boundary is not None:
        times = times - half / fs
    return spectrum.frequencies(fs), times, fnp.moveaxis(found, -2, axis)


def csd(
    x: Value, y: Value | None, fs: Value = 1.0, window: Any = "hann",
    nperseg: int | None = None, noverlap: int | None = None, nfft: int | None = None,
    detrend: Any = "constant", return_onesided: bool = True, scaling: str = "density",
    axis: int = -1, average: str = "mean",
) -> tuple[Any, Any]:  # fmt: skip
    """The cross power spectral density of two signals, by Welch's method.

    Args:
      x, y: the signals; the shorter one is filled with zeros. None: y is x, and the
        result is real.
      fs, window, nperseg, noverlap, nfft, detrend, return_onesided, axis: as in `stft`.
      scaling: "density", or "spectrum", the power itself.
      average: over the windows: "mean" or "median".

    Returns:
      frequencies, and the densities.

    Raises:
      ValueRangeError, ShapeError: the lengths, the shapes or a name do not fit.

    Example:
      >>> f, P = ft.scipy.signal.csd(fnp.ones(64), fnp.ones(64), nperseg=16)
      >>> P.shape
      (9,)
    """
    return _csd("csd", x, y, fs, window, nperseg, noverlap, nfft, detrend,
                return_onesided, scaling, axis, average)  # fmt: skip


def welch(
    x: Value, fs: Value = 1.0, window: Any = "hann", nperseg: int | None = None,
    noverlap: int | None = None, nfft: int | None = None, detrend: Any = "constant",
    return_onesided: bool = True, scaling: str = "density", axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Any]:  # fmt: skip
    """The power spectral density of a signal: `csd` of it with itself.

    Args:
      x: the signal.
      fs, window, nperseg, noverlap, nfft, detrend, return_onesided: as of `csd`.
      scaling, axis, average: likewise.

    Example:
      >>> f, P = ft.scipy.signal.welch(fnp.ones(64), nperseg=16)
      >>> P.shape
      (9,)
    """
    return _csd("welch", x, None, fs, window, nperseg, noverlap, nfft, detrend,
                return_onesided, scaling, axis, average)  # fmt: skip


def _csd(
    name: str, x: Value, y: Value | None, fs: Value, window: Any, nperseg: int | None,
    noverlap: int | None, nfft: int | None, detrend: Any, onesided: bool, scaling: str,
    axis: int, average: str,
) -> tuple[Any, Any]:  # fmt: skip
    errors.one_of(f"{name}: scaling", scaling, ("density", "spectrum"))
    errors.one_of(f"{name}: average", average, ("mean", "median"))
    own = y is None
    x, where = _signal(x, axis)
    other: Any = x
    if y is not None:
        other, _ = _signal(y, axis)
        x, other = alike(x, other)
        pairs = [*zip(x.shape[:-1], other.shape[:-1], strict=False)]
        if x.ndim != other.ndim or any(n != m and 1 not in (n, m) for n, m in pairs):
            raise errors.ShapeError(
                f"{name}: x and y must have as many axes, and broadcast but for the "
                f"one of time, got {x.shape} and {other.shape} with that one last"
            )
    if x.size == 0 or other.size == 0:
        outer = np.broadcast_shapes(x.shape[:-1], other.shape[:-1])
        shape = (*outer, min(x.shape[-1], other.shape[-1]))
        f, _, found = _no_segments(shape, x.dtype)
        return f, fnp.moveaxis(found.real if own else found, -1, where)
    size = max(x.shape[-1], other.shape[-1])
    both = dtypes.is_complex(x.dtype)
    spectrum = _Spectrum.of(
        name, x, window, nperseg, noverlap, nfft, detrend, onesided and not both
    )
    first = spectrum.of_segments(_append_zeros(x, size - x.shape[-1]))
    second = first
    if not own:
        padded = _append_zeros(other, size - other.shape[-1])
        second = spectrum.of_segments(padded)
    win = spectrum.window
    scale = fs * (win * win).sum() if scaling == "density" else fnp.square(win.sum())
    found = fnp.conj(first) * second / scale
    if spectrum.onesided:  # the negative frequencies are the same
        last = None if spectrum.nfft % 2 else -1
        found = found.at[..., 1:last, :].multiply(2)
    found = found.real if own else found
    if average == "mean":
        found = found.mean(-1)
    else:
        found = _median(found) / _median_bias(found.shape[-1])
    return spectrum.frequencies(fs), fnp.moveaxis(found, -1, where)


def istft(
    Zxx: Value, fs: Value = 1.0, window: Any = "hann", nperseg: int | None = None,
    noverlap: int | None = None, nfft: int | None = None, input_onesided: bool = True,
    boundary: bool = True, time_axis: int = -1, freq_axis: int = -2,
) -> tuple[Any, Any]:  # fmt: skip
    """The signal of which these are the Fourier transforms; the inverse of `stft`.

    Args:
      Zxx: what `stft` returned.
      fs, window, noverlap: as it was given them.
      nperseg, nfft: likewise; by default what fits the number of frequencies.
      input_onesided: there are only frequencies from 0.
      boundary: the signal had been extended.
      time_axis, freq_axis: axes of Zxx.

    Returns:
      times, and the signal.

    Raises:
      ShapeError, AxisError, ValueRangeError: axes or lengths do not fit.

    Example:
      >>> f, t, Z = ft.scipy.signal.stft(fnp.ones(64), nperseg=16)
      >>> ft.scipy.signal.istft(Z, nperseg=16)[1].shape
      (64,)
    """
    z = ax.as_value(Zxx)
    if z.ndim < 2:
        raise errors.ShapeError(f"istft: two axes are required, got shape {z.shape}")
    along = [ax.canonical_axis(a, z.ndim, "istft") for a in (freq_axis, time_axis)]
    if along[0] == along[1]:
        raise errors.ValueRangeError(
            f"istft: freq_axis and time_axis must differ, got {freq_axis} twice"
        )
    z = fnp.moveaxis(
        ax.cast(z, dtypes.complex_dtype(dtypes.real_dtype(z.dtype))), along, (-2, -1)
    )
    count = 2 * (z.shape[-2] - 1) if input_onesided else z.shape[-2]
    size = ax.static_int(nperseg or count, "istft: nperseg")
    if nfft is None:
        length = count + (input_onesided and size == count + 1)
    else:
        length = ax.static_int(nfft, "istft: nfft")
    step = size - ax.static_int(noverlap or size // 2, "istft: noverlap")
    _check_lengths("istft", size, step, length)
    inverse = fft.irfft if input_onesided else fft.ifft
    parts = inverse(z, n=length, axis=-2)[..., :size, :]
    win, _ = _window("istft", window, size, size, dtypes.real_dtype(parts.dtype))
    parts = fnp.swapaxes(parts, -1, -2) * (win * win.sum())
    whole = _overlap(parts, step)
    weight = _overlap(fnp.broadcast_to(win * win, parts.shape[-2:]), step)
    if boundary:
        inner = slice(size // 2, -(size // 2) or None)
        whole, weight = whole[..., inner], weight[inner]
    whole = whole / fnp.where(weight > 1e-10, weight, 1)
    whole = fnp.moveaxis(whole, -1, along[1] - (along[0] < along[1]))
    # As many as SciPy and JAX have: of the first axis, whichever that is.
    return fnp.arange(whole.shape[0], dtype=dtypes.real_dtype(whole.dtype)) / fs, whole


# Segments.


@dataclass(frozen=True)
class _Spectrum:
    """How segments are transformed.

    Attributes:
      window: what each is multiplied with.
      size: its length.
      step: from the beginning of one to that of the next.
      nfft: the length of a transform.
      trend: what is taken from each, or None.
      onesided: only frequencies from 0.
    """

    window: Any
    size: int
    step: int
    nfft: int
    trend: Callable[[Any], Any] | None
    onesided: bool

    @staticmethod
    def of(
        name: str, x: Any, window: Any, nperseg: int | None, noverlap: int | None,
        nfft: int | None, trend: Any, onesided: bool,
    ) -> _Spectrum:  # fmt: skip
        if onesided and dtypes.is_complex(x.dtype):
            errors.warn_user(
                f"{name}: a complex signal has two sides; say return_onesided=False"
            )
            onesided = False
        if nperseg is not None:
            nperseg = ax.static_int(nperseg, f"{name}: nperseg")
        win, size = _window(name, window, nperseg, x.shape[-1], x.dtype)
        overlap = size // 2
        if noverlap is not None:
            overlap = ax.static_int(noverlap, f"{name}: noverlap")
        length = size if nfft is None else ax.static_int(nfft, f"{name}: nfft")
        _check_lengths(name, size, size - overlap, length)
        function: Callable[[Any], Any] | None = trend if callable(trend) else None
        if isinstance(trend, str):
            errors.one_of(f"{name}: detrend", trend, _TYPES)
            function = partial(detrend, type=trend)

        return _Spectrum(win, size, size - overlap, length, function, onesided)

    def of_segments(self, x: Any) -> Any:
        """The transforms of (…, n): (…, frequencies, segments)."""
        count = (x.shape[-1] - self.size) // self.step + 1
        segments = x[..., _positions(count, self.step, self.size)]
        if self.trend is not None:
            segments = self.trend(segments)
        segments = segments * self.window
        transform = fft.rfft if self.onesided else fft.fft
        return fnp.swapaxes(transform(segments, n=self.nfft), -1, -2)

    def frequencies(self, fs: Value) -> Any:
        dtype = dtypes.real_dtype(self.window.dtype)
        count = self.nfft // 2 + 1 if self.onesided else self.nfft
        numbers = np.arange(count) if self.onesided else np.fft.fftfreq(count) * count
        return ax.cast(numbers, dtype) * (fs / self.nfft)


def _check_lengths(name: str, size: int, step: int, length: int) -> None:
    if size < 1:
        raise errors.ValueRangeError(f"{name}: nperseg must be positive, got {size}")
    if length < size:
        raise errors.ValueRangeError(
            f"{name}: nfft must not be less than nperseg, {size}, got {length}"
        )
    if step < 1:
        raise errors.ValueRangeError(
            f"{name}: noverlap must be less than nperseg, {size}, got {size - step}"
        )


def _window(
    name: str, window: Any, size: int | None, most: int, dtype: Any
) -> tuple[Any, int]:
    """The window as an array, and its length."""
    if not isinstance(window, (str, tuple)):
        win = ax.cast(window, dtype)
        if win.ndim != 1 or win.size > most or size not in (None, win.size):
            raise errors.ValueRangeError(
                f"{name}: window must be a vector of nperseg elements, at most as many "
                f"as the signal has ({most}), got shape {win.shape}, nperseg={size}"
            )
        return win, win.size
    size = most if size is None else size
    if size > most:
        errors.warn_user(
            f"{name}: nperseg={size} is more than the signal has; it becomes {most}"
        )
        size = most
    if window == "hann":
        return ax.cast(np.sin(np.pi * np.arange(size) / max(size, 2)) ** 2
                    if size > 1 else np.ones(1), dtype), size  # fmt: skip
    try:
        from scipy import signal
    except ImportError:
        raise errors.MissingExtraError(
            f"{name}: the window {window!r} needs SciPy: pip install scipy; or give "
            "the window as an array"
        ) from None
    made: Any = signal
    return ax.cast(np.asarray(made.get_window(window, size)), dtype), size


def _signal(x: Value, axis: int) -> tuple[Any, int]:
    """The signal along its last axis, and where that was."""
    x = ew.inexact(x)
    axis = ax.canonical_axis(axis, x.ndim, "axis")
    return fnp.moveaxis(x, axis, -1), axis


def _no_segments(shape: Any, dtype: Any) -> tuple[Any, Any, Any]:
    real = fnp.zeros(shape, dtypes.real_dtype(dtype))
    return real, real, fnp.zeros(shape, dtypes.complex_dtype(dtypes.real_dtype(dtype)))


def _append_zeros(x: Any, count: int) -> Any:
    return ax.pad_axis(x, x.ndim - 1, 0, count) if count else x


def _extend(x: Any, boundary: str | None, count: int) -> Any:
    """The signal with so many elements more on both sides."""
    if boundary is None or not count:
        return x
    if boundary in ("odd", "even") and count > x.shape[-1] - 1:
        raise errors.ValueRangeError(
            f"stft: the boundary {boundary!r} of {count} elements needs a longer "
            f"signal, got {x.shape[-1]}"
        )
    more = {"reflect_type": "odd"} if boundary == "odd" else {}
    pads = [(0, 0)] * (x.ndim - 1) + [(count, count)]
    return fnp.pad(x, pads, _BOUNDARIES[boundary], **more)


def _positions(count: int, step: int, size: int) -> Any:
    """The positions of the elements of segments."""
    first, inner = (ax.iota(np.dtype(np.int32), (n,), 0) for n in (count, size))
    return step * first[:, None] + inner


def _overlap(parts: Any, step: int) -> Any:
    """The sum of segments (…, count, size), each so many elements further on."""
    count, size = parts.shape[-2:]
    whole = fnp.zeros((*parts.shape[:-2], step * (count - 1) + size), parts.dtype)
    return whole.at[..., _positions(count, step, size)].add(parts)


def _median(x: Any) -> Any:
    if not dtypes.is_complex(x.dtype):
        return fnp.median(x, -1)
    return fnp.median(x.real, -1) + 1j * fnp.median(x.imag, -1)


def _median_bias(count: int) -> float:
    """What the median of so many exponential variables is more than their mean.

    Allen and others: FINDCHIRP, Physical Review D 85 (2012), appendix B.
    """
    even = np.arange(2.0, count, 2)
    return float(1 + np.sum(1 / (even + 1) - 1 / even))


def _convolution(name: str, mirrored: bool):
    def convolution(
        in1: Value,
        in2: Value,
        mode: str = "full",
        method: str = "auto",
        precision: Any = None,
    ) -> Any:
        check_precision(name, precision)
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

    Example:
      >>> x, y = fnp.array([1.0, 2.0, 3.0]), fnp.array([1.0, 10.0])
      >>> ft.scipy.signal.convolve(x, y, mode="same")
      Array([ 1., 12., 23.], dtype=float32)
    """


@member(_convolution, mirrored=True)
def correlate():
    """The correlation of two arrays with as many axes; arguments as in `convolve`.

    Args:
      in1, in2, mode, method, precision: as those of `convolve`.

    Example:
      >>> ft.scipy.signal.correlate(fnp.array([1.0, 2.0, 3.0]), fnp.array([0.0, 1.0]))
      Array([1., 2., 3., 0.], dtype=float32)
    """


def _convolution_of_matrices(name: str, mirrored: bool):
    def convolution(
        in1: Value,
        in2: Value,
        mode: str = "full",
        boundary: str = "fill",
        fillvalue: float = 0,
        precision: Any = None,
    ) -> Any:
        check_precision(name, precision)
        if boundary != "fill" or fillvalue != 0:
            raise errors.UnsupportedError(
                f"{name}: only boundary='fill' with fillvalue=0 is supported; pad the "
                "input first, with ftrace.numpy.pad"
            )
        shapes = [ax.as_value(x).shape for x in (in1, in2)]
        if any(len(shape) != 2 for shape in shapes):
            raise errors.ShapeError(
                f"{name}: matrices are required, got shapes {shapes[0]} and {shapes[1]}"
            )
        other = _mirror(in2) if mirrored else in2
        return _convolve(name, in1, other, mode, late=int(mirrored))

    return convolution


@member(_convolution_of_matrices, mirrored=False)
def convolve2d():
    """`convolve` of matrices; beyond them there are zeros.

    Args:
      in1, in2: matrices.
      mode, precision: as those of `convolve`.
      boundary: "fill".
      fillvalue: 0.

    Example:
      >>> ft.scipy.signal.convolve2d(fnp.ones((2, 2)), fnp.ones((2, 2)))
      Array([[1., 2., 1.],
             [2., 4., 2.],
             [1., 2., 1.]], dtype=float32)
    """


@member(_convolution_of_matrices, mirrored=True)
def correlate2d():
    """`correlate` of matrices; beyond them there are zeros.

    Args:
      in1, in2: matrices.
      mode, precision: as those of `correlate`.
      boundary: "fill".
      fillvalue: 0.

    Example:
      >>> ft.scipy.signal.correlate2d(fnp.ones((2, 2)), fnp.eye(2))
      Array([[1., 1., 0.],
             [1., 2., 1.],
             [0., 1., 1.]], dtype=float32)
    """


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

    Example:
      >>> ft.scipy.signal.fftconvolve(fnp.array([1.0, 2.0]), fnp.array([1.0, 10.0]))
      Array([ 1., 12., 20.], dtype=float32)
    """
    x, k = _operands("fftconvolve", in1, in2, mode)
    along = ax.canonical_axes(axes, x.ndim, "fftconvolve")
    pairs = [(x.shape[a], k.shape[a]) for a in along]
    if mode == "valid" and not (
        all(n >= m for n, m in pairs) or all(n <= m for n, m in pairs)
    ):
        raise _order_error("fftconvolve", x.shape, k.shape)
    sizes = [1 << (n + m - 2).bit_length() for n, m in pairs]
    real = not dtypes.is_complex(x.dtype)
    forth, back = (fft.rfftn, fft.irfftn) if real else (fft.fftn, fft.ifftn)
    result = back(forth(x, sizes, along) * forth(k, sizes, along), sizes, along)
    kept = [slice(None)] * x.ndim
    for a, (n, m) in zip(along, pairs, strict=True):
        whole = n + m - 1
        size = {"full": whole, "same": n, "valid": abs(n - m) + 1}[mode]
        start = (whole - size) // 2
        kept[a] = slice(start, start + size)
    return result[tuple(kept)].astype(x.dtype)


def _mirror(x: Value) -> Any:
    x = ew.conjugate(x)
    return ax.flip(x, range(x.ndim))


def _operands(name: str, in1: Value, in2: Value, mode: str) -> tuple[Any, Any]:
    """The operands in one inexact dtype."""
    errors.one_of(f"{name}: mode", mode, ("full", "same", "valid"))
    x, k = alike(in1, in2)
    if not dtypes.is_inexact(x.dtype):
        wide = dtypes.to_inexact(x.dtype)
        x, k = ax.cast(x, wide), ax.cast(k, wide)
    if x.ndim != k.ndim or not x.ndim or 0 in (*x.shape, *k.shape):
        raise errors.ShapeError(
            f"{name}: two arrays with as many axes and without empty ones are "
            f"required, got shapes {x.shape} and {k.shape}"
        )
    return x, k


def _order_error(name: str, first: Any, second: Any) -> errors.ShapeError:
    return errors.ShapeError(
        f"{name}: one operand must be at least as large as the other along each axis, "
        f"got shapes {first} and {second}"
    )


def _convolve(name: str, in1: Value, in2: Value, mode: str, late: int = 0) -> Any:
    """The convolution; `late` is 1 where the middle of an even size is its second."""
    x, k = _operands(name, in1, in2, mode)
    wanted = x.shape
    if all(n <= m for n, m in zip(x.shape, k.shape, strict=True)):
        x, k = k, x
    elif any(n < m for n, m in zip(x.shape, k.shape, strict=True)):
        raise _order_error(name, x.shape, k.shape)
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

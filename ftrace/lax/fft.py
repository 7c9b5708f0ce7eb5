"""Fourier transforms over the last axes, under JAX's `lax` names."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from ftrace import dtypes
from ftrace.errors import one_of
from ftrace.numpy import axes as ax
from ftrace.trace.bind import bind_compound
from ftrace.trace.primitives.library.fft import KINDS, Fourier, fft_p
from ftrace.trace.tracing.tracer import Value

__all__ = ["FftType", "fft"]


class FftType(enum.IntEnum):
    """The kinds of transform."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


def fft(x: Value, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Any:
    """The Fourier transform over as many last axes as there are lengths.

    Args:
      x: real for RFFT, else complex; a real operand is converted.
      fft_type: "fft", "ifft", "rfft" or "irfft", or the member of `FftType`.
      fft_lengths: the sizes of the axes: on its real side, of a transform that has one,
        whose other side holds n//2 + 1 elements.

    Returns:
      A complex array; of "irfft" a real one.

    Raises:
      ValueRangeError: the kind is unknown.
      ShapeError: the axes do not have these lengths.
      DtypeError: RFFT of complex numbers, or a dtype of 16 bits.

    Example:
      >>> lax.fft(fnp.array([1.0, 0.0, 0.0, 0.0]), "fft", (4,))
      Array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    name = fft_type.name if isinstance(fft_type, FftType) else str(fft_type)
    kind = name.lower()
    one_of("fft: fft_type", kind, KINDS)
    lengths = tuple(ax.static_int(n, "fft: fft_lengths") for n in fft_lengths)
    operand = ax.as_value(x)
    if not dtypes.is_inexact(operand.dtype):
        operand = ax.cast(operand, dtypes.to_inexact(operand.dtype))
    wide = operand.dtype in (dtypes.float32, dtypes.float64)
    if kind != "rfft" and wide:
        operand = ax.cast(operand, dtypes.complex_dtype(operand.dtype))
    if not lengths:
        return operand
    return bind_compound(fft_p, operand, arg=Fourier(kind, lengths))[0]

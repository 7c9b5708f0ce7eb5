"""Fourier transforms over the last axes, of NumPy where a device has none.

    fft_p(x, arg=Fourier(kind, lengths)) -> y

    fft, ifft    complex -> complex       lengths are those of the axes
    rfft         real (…, n) -> complex (…, n//2 + 1)
    irfft        complex (…, n//2 + 1) -> real (…, n)

The inverse ones divide by the number of elements, as NumPy's do by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy

from ftrace import dtypes
from ftrace.errors import DtypeError, ShapeError
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.trace.avals import Shape, ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives.elementwise import bit_or, conj, eq, mul, real, select
from ftrace.trace.primitives.library import library_op
from ftrace.trace.primitives.movement import pad
from ftrace.trace.primitives.primitive import Array, CompiledFrom, Results
from ftrace.trace.primitives.sources import const_like, iota
from ftrace.trace.symbolic import same_size

np: Any = numpy  # whose stubs leave too much unknown

KINDS = ("fft", "ifft", "rfft", "irfft")


class Fourier(NamedTuple):
    """The argument of fft: which transform, and the lengths of the real side."""

    kind: str
    lengths: Shape


def fourier(x: Node, kind: str, lengths: Shape) -> Node:
    """`fft_p` of a node."""
    return fft_p.results(x, arg=Fourier(kind, lengths))[0]


def _infer(arg: Fourier, x: ShapedArray) -> tuple[ShapedArray, ...]:
    kind, lengths = arg
    count = len(lengths)
    library_op.need_lapack(kind, x)
    if dtypes.is_complex(x.dtype) == (kind == "rfft"):
        wanted = "float" if kind == "rfft" else "complex"
        raise DtypeError(f"{kind}: a {wanted} array is required, got {x!r}")
    if x.ndim < count or count == 0:
        raise ShapeError(
            f"{kind}: at least one axis, and {count} of the operand, are transformed; "
            f"got {x!r}"
        )
    if min(lengths) < 1:
        raise ShapeError(f"{kind}: lengths must be positive, got {lengths}")
    half = (*lengths[:-1], lengths[-1] // 2 + 1)
    wanted_shape = half if kind == "irfft" else lengths
    if not same_size(x.shape[x.ndim - count :], wanted_shape):
        raise ShapeError(
            f"{kind}: the last axes must be {wanted_shape} for the lengths {lengths}, "
            f"got {x!r}; pad or slice them"
        )
    lead = x.shape[: x.ndim - count]
    if kind == "irfft":
        return (library_op.real_of(x, (*lead, *lengths)),)
    return (library_op.complex_of(x, (*lead, *half)) if kind == "rfft" else x,)


def _value(avals: Any, arg: Fourier, x: Array) -> Sequence[Array]:
    kind, lengths = arg
    if not x.size:
        return [np.zeros(a.shape, a.dtype) for a in avals]
    if len(lengths) == 1:
        found = getattr(np.fft, kind)(x, lengths[0])
    else:
        axes = tuple(range(-len(lengths), 0))
        found = getattr(np.fft, f"{kind}n")(x, lengths, axes)
    return [found]


def _tangent(node: Node, x: Node, t: Node) -> Results:
    return fft_p.results(t, arg=node.arg)


def _transpose(node: Node, cotangents: Results, linear: tuple[bool, ...]) -> Results:
    """The matrix of a transform is symmetric; a real side takes one half of it.

    rfft is fft of a real array, of which half is kept: its transpose is the real part
    of fft, of the half with zeros for the rest. irfft adds up conjugate pairs: each
    element of the half counts twice, but those that are their own partner.
    """
    (ct,) = cotangents
    assert ct is not None
    kind, lengths = node.arg
    if kind in ("fft", "ifft"):
        return (fourier(ct, kind, lengths),)
    if kind == "rfft":
        after = lengths[-1] - ct.shape[-1]
        full = pad(ct, (*[(0, 0, 0)] * (ct.ndim - 1), (0, after, 0)))
        return (real(fourier(full, "fft", lengths)),)
    half = conj(fourier(ct, "rfft", lengths))
    number = iota(dtypes.int32, half.shape, half.ndim - 1)
    alone = eq(number, const_like(number, 0))
    if lengths[-1] % 2 == 0:
        alone = bit_or(alone, eq(number, const_like(number, lengths[-1] // 2)))
    size = prod(lengths)
    once, twice = const_like(half, 1 / size), const_like(half, 2 / size)
    return (mul(half, select(alone, once, twice)),)


fft_p = library_op.host(
    "fft", _infer, _value, _tangent, transpose=_transpose,
    compiled_from=CompiledFrom(1 << 13), core=0,
    doc="Fourier transforms over the last axes",
)  # fmt: skip

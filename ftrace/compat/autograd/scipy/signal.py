"""Convolutions along some axes, with sums over products along others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as onp

import ftrace.numpy as fnp
from ftrace import lax
from ftrace.compat.autograd.core import to_numpy

Axes = Sequence[Sequence[int]]


def convolve(
    A: Any, B: Any, axes: Axes | None = None, dot_axes: Axes | None = None,
    mode: str = "full",
) -> Any:  # fmt: skip
    """The convolution of A and B.

    Args:
      A, B: arrays.
      axes: along which to convolve, of A and of B; all by default.
      dot_axes: along which products are added up, of A and of B.
      mode: "full", "same" (as A) or "valid".

    Returns:
      An array of the other axes of A, those of B, and the convolved ones.

    Raises:
      ValueError: no such mode; or neither array contains the other, in mode "valid".
    """
    if mode not in ("valid", "full", "same"):
        raise ValueError(f'mode must be "valid", "full" or "same", got {mode!r}')
    every = [list(range(onp.ndim(x))) for x in (A, B)]
    chosen, dots = axes or every, dot_axes or [(), ()]
    a, others_a = _arrange(A, chosen[0], dots[0])
    b, others_b = _arrange(B, chosen[1], dots[1])
    sizes = list(zip(a.shape[2:], b.shape[2:], strict=True))
    swapped = mode == "valid" and any(m < n for m, n in sizes)
    if swapped:
        if any(m > n for m, n in sizes):
            raise ValueError(
                "One array must be larger than the other along all convolved dimensions"
            )
        a, b = b, a
    flipped = fnp.flip(b, tuple(range(2, b.ndim)))
    padding = [_padding(size, mode) for size in flipped.shape[2:]]
    out = lax.conv_general_dilated(a, flipped, [1] * len(padding), padding)
    out = fnp.swapaxes(out, 0, 1) if swapped else out
    return to_numpy(fnp.reshape(out, (*others_a, *others_b, *out.shape[2:])))


def _padding(size: int, mode: str) -> tuple[int, int]:
    """What stands around A so that B, of some size, is everywhere beside it."""
    before = {"valid": 0, "full": size - 1, "same": size - 1 - (size - 1) // 2}[mode]
    return before, {"valid": 0, "full": size - 1, "same": (size - 1) // 2}[mode]


def _arrange(x: Any, axes: Sequence[int], dots: Sequence[int]) -> tuple[Any, Any]:
    """Other axes as one, axes of sums as one, axes of windows; the others' sizes."""
    x = fnp.asarray(x)
    x = x if x.dtype.kind in "fc" else fnp.asarray(x, onp.float64)
    axes, dots = [a % x.ndim for a in axes], [a % x.ndim for a in dots]
    rest = [a for a in range(x.ndim) if a not in axes and a not in dots]
    sizes = [[x.shape[a] for a in group] for group in (rest, dots, axes)]
    x = fnp.transpose(x, (*rest, *dots, *axes))
    shape = (math.prod(sizes[0]), math.prod(sizes[1]), *sizes[2])
    return fnp.reshape(x, shape), tuple(sizes[0])

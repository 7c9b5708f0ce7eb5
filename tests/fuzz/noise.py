"""How far rounding may carry each element of a result.

A bound from the program itself, not a tolerance: the program is run again with every
rounded operation, and what it takes, moved by random amounts of a few units in the
last place. Where the results stay, no rounding explains a difference; where they
spread, a difference within a multiple of the spread is what rounding does (stochastic
arithmetic; Vignes 1993, Parker 1997). Numbers that rounding leaves alone, small whole
ones, are not moved, so that ties and comparisons of exact values stay exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import ftrace as ft
from tests.fuzz.program import Program, is_float
from tests.fuzz.ways import OURS, apply, arguments, arrays, function

#: Beyond it the next whole number is not what a small sum gives.
WHOLE = 256


@dataclass
class Noise:
    """`noise(units, x)` in a program's text: x, moved by that many units at random.

    Attributes:
      seed: of the random amounts.
      scale: multiplies the units.
      flush: numbers below the smallest normal one count as 0 instead.
    """

    seed: int
    scale: float = 1.0
    flush: bool = False

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def __call__(self, units: float, x: Any) -> Any:
        if not hasattr(x, "dtype") or not is_float(np.dtype(x.dtype)):
            return x
        fnp, dtype = ft.numpy, np.dtype(x.dtype)
        limits = ml_dtypes.finfo(dtype)
        if self.flush:
            if dtype not in ("f4", "f8"):
                return x
            return fnp.where(fnp.abs(x) < limits.tiny, x * 0, x)
        if not units:
            return x
        amounts = self.random.uniform(-1, 1, x.shape) * units * self.scale
        factor = np.asarray(1 + amounts * float(limits.eps))
        if (
            self.seed % 2
        ):  # in which order large numbers are added decides what overflows
            huge = fnp.abs(x) > float(limits.max) / 1024
            x = fnp.where(huge, x * dtype.type(2.0**-12), x)
        moved = x * factor.astype(dtype)
        if dtype.kind == "c":
            return moved
        exact = (x == fnp.round(x)) & (fnp.abs(x) <= WHOLE)
        return moved if units > 2 else fnp.where(exact, x, moved)


def spread(
    program: Program, transform: str, reference: list[Any], noises: list[Noise]
) -> list[Any]:
    """For each element of each result the greatest difference that the noises make."""
    found = [np.zeros(r.shape) for r in reference]
    for noise in noises:
        f = apply(transform, function(program, OURS, noise), program, OURS)
        moved = arrays(f(*arguments(transform, program, OURS)))
        for place, (now, then) in enumerate(zip(moved, reference, strict=True)):
            if now.shape == then.shape and now.dtype == then.dtype:
                found[place] = np.maximum(found[place], distance(now, then))
    return found


def distance(a: Any, b: Any) -> Any:
    """|a - b| of each element; infinite from NaN or infinity to anything else."""
    with np.errstate(all="ignore"):
        wide = "c16" if a.dtype.kind == "c" else "f8"
        if a.dtype.kind in "biu":
            apart = np.where(a == b, 0.0, np.abs(a.astype("f8") - b.astype("f8")))
            return np.where((a != b) & (apart == 0), 1.0, apart)
        a, b = a.astype(wide), b.astype(wide)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if wide == "c16":
            same |= np.isinf(a) & np.isinf(b)
        apart = np.where(same, 0.0, np.abs(a - b))
    return np.where(np.isnan(apart), np.inf, apart)

"""How far rounding may carry each element of a result.

A bound from the program itself, not a tolerance: the program is run again with every
rounded operation, and what it takes, moved by random amounts of a few units in the
last place. Where the results stay, no rounding explains a difference; where they
spread, a difference within a multiple of the spread is what rounding does (stochastic
arithmetic; Vignes 1993, Parker 1997). Numbers that rounding leaves alone, small whole
ones, are not moved, so that ties and comparisons of exact values stay exact.
"""

from __future__ import annotations

from collections.abc import Iterator
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
      derivatives: these are moved too; each step of a derivative rounds.
      flush: numbers below the smallest normal one count as 0 instead.
    """

    seed: int
    scale: float = 1.0
    derivatives: bool = False
    flush: bool = False

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def __call__(self, units: float, x: Any) -> Any:
        if not hasattr(x, "dtype") or not is_float(np.dtype(x.dtype)):
            return x
        if self.flush:
            limits = ml_dtypes.finfo(x.dtype)
            small = ft.numpy.abs(x) < limits.tiny
            kept = np.dtype(x.dtype) == np.float16  # float32 holds these
            lost = ft.lax.stop_gradient(ft.numpy.where(small, x, 0))
            return x if kept else x - lost
        if not self.scale:
            return x
        if not self.derivatives:
            return self._move(x, units) if units else x
        factor = self._factor(x, max(units, 1))
        move: Any = ft.custom_jvp(lambda x: self._move(x, units) if units else x)
        move.defjvp(lambda p, t: (move(*p), self._stored(t[0] * factor)))
        return move(x)

    def _stored(self, x: Any) -> Any:
        """Rounded, if it is one of the numbers of 16 bits that kernels keep wider."""
        if np.dtype(x.dtype).itemsize == 2 and not self.seed % 2:
            return ft.lax.optimization_barrier(x)
        return x

    def _factor(self, x: Any, units: float) -> Any:
        dtype = np.dtype(x.dtype)
        alike = self.seed % 4 == 2  # what is equal stays so
        shape = (1,) * len(x.shape) if alike else x.shape
        amounts: Any = self.random.uniform(-1, 1, shape)
        if dtype.kind == "c":  # the error is a part of the whole, not of each part
            amounts = amounts + 1j * self.random.uniform(-1, 1, shape)
        amounts = amounts * (units * self.scale * float(ml_dtypes.finfo(dtype).eps))
        return np.asarray(1 + amounts).astype(dtype)

    def _move(self, x: Any, units: float) -> Any:
        fnp, dtype = ft.numpy, np.dtype(x.dtype)
        factor = self._factor(x, units)
        x = self._stored(x)
        if self.seed % 2:  # in which order large numbers are added, they overflow
            huge = fnp.abs(x) > float(ml_dtypes.finfo(dtype).max) / 1024
            x = fnp.where(huge, x * dtype.type(2.0**-12), x)
        moved = x * factor
        if dtype.kind != "c":
            limits = ml_dtypes.finfo(dtype)
            step = self.random.uniform(-units, units, x.shape).round()
            step = (step * float(limits.smallest_subnormal)).astype(dtype)
            moved = fnp.where(fnp.abs(x) < limits.tiny, x + step, moved)
        if units <= 2 and dtype.kind != "c":
            exact = (x == fnp.round(x)) & (fnp.abs(x) <= WHOLE)
            moved = fnp.where(exact, x, moved)
        return self._stored(moved)


def spreads(
    programs: list[tuple[Program, Noise]], transform: str, reference: list[Any]
) -> Iterator[list[Any]]:
    """The greatest difference so far of each element of each result, noise by noise."""
    found = [np.zeros(r.shape) for r in reference]
    for variant, noise in programs:
        for place, now in enumerate(_moved(variant, transform, noise)):
            then = reference[place]
            if now.shape == then.shape and is_float(now.dtype) == is_float(then.dtype):
                now = now.astype(then.dtype)
                found[place] = np.maximum(found[place], distance(now, then))
        yield list(found)


def _moved(program: Program, transform: str, noise: Noise) -> list[Any]:
    f = apply(transform, function(program, OURS, noise), program, OURS)
    try:
        return arrays(f(*arguments(transform, program, OURS)))
    except ft.errors.FtraceError:
        if not noise.scale:  # bits of 16-bit floats are of no wider ones
            return []
        raise


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
            same |= ~np.isfinite(a) & ~np.isfinite(b)  # which of the parts is not said
        apart = np.where(same, 0.0, np.abs(a - b))
    return np.where(np.isnan(apart), np.inf, apart)

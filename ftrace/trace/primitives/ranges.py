"""Where the results of elementwise primitives are, of where their operands are.

    Interval   bounds of a float, unless it is NaN
    Range      of the first operand, of the last one, and of whether they are one and
               the same: bounds of the result, and: is it NaN only where an operand is?

The functions are the `range` of records whose bounds hang on the operands.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from ftrace.ground.fast_dataclasses import NamedTuple

_INFINITY: Final = math.inf


class Interval(NamedTuple):
    """Bounds; an infinite one may be reached."""

    low: float
    high: float

    @property
    def finite(self) -> bool:
        return self.low > -_INFINITY and self.high < _INFINITY

    @property
    def has_zero(self) -> bool:
        return self.low <= 0 <= self.high


ANYTHING: Final = Interval(-_INFINITY, _INFINITY)
Range = Callable[[Interval, Interval, bool], tuple[Interval, bool]]


def multiply(a: Interval, b: Interval, same: bool) -> Interval:
    """Of products of which zero times infinity is zero."""
    ends = [0.0 if x == 0 or y == 0 else x * y for x in a for y in b]
    return Interval(0.0 if same else min(ends), max(ends))


def of_neg(a: Interval, b: Interval, same: bool) -> tuple[Interval, bool]:
    return Interval(-a.high, -a.low), True


def of_add(a: Interval, b: Interval, same: bool) -> tuple[Interval, bool]:
    low = -_INFINITY if -_INFINITY in (a.low, b.low) else a.low + b.low
    high = _INFINITY if _INFINITY in (a.high, b.high) else a.high + b.high
    opposite = not (a.finite or b.finite) and not (
        min(a.low, b.low) > -_INFINITY or max(a.high, b.high) < _INFINITY
    )
    return Interval(low, high), not opposite


def of_sub(a: Interval, b: Interval, same: bool) -> tuple[Interval, bool]:
    return of_add(a, Interval(-b.high, -b.low), same)


def of_mul(a: Interval, b: Interval, same: bool) -> tuple[Interval, bool]:
    safe = same or (a.finite and b.finite) or not (a.has_zero or b.has_zero)
    safe = safe or (a.finite and not a.has_zero) or (b.finite and not b.has_zero)
    return multiply(a, b, same), safe


def of_div(a: Interval, b: Interval, same: bool) -> tuple[Interval, bool]:
    if b.has_zero:
        return ANYTHING, False
    inverse = Interval(1 / b.high, 1 / b.low)
    return multiply(a, inverse, False), a.finite or b.finite


def of_max(a: Interval, b: Interval, same: bool) -> tuple[Interval, bool]:
    return Interval(max(a.low, b.low), max(a.high, b.high)), True


def of_min(a: Interval, b: Interval, same: bool) -> tuple[Interval, bool]:
    return Interval(min(a.low, b.low), min(a.high, b.high)), True


def of_abs(a: Interval, b: Interval, same: bool) -> tuple[Interval, bool]:
    low, high = sorted((abs(a.low), abs(a.high)))
    return Interval(0.0 if a.has_zero else low, high), True


def of_operand(a: Interval, b: Interval, same: bool) -> tuple[Interval, bool]:
    return a, True


def of_exp(a: Interval, b: Interval, same: bool) -> tuple[Interval, bool]:
    return Interval(0.0, math.exp(a.high) * 1.1 if a.high < 600 else _INFINITY), True


def of_sqrt(a: Interval, b: Interval, same: bool) -> tuple[Interval, bool]:
    return Interval(0.0, math.sqrt(max(a.high, 0.0))), a.low >= 0


def of_rsqrt(a: Interval, b: Interval, same: bool) -> tuple[Interval, bool]:
    if a.low <= 0:
        return ANYTHING, False  # of -0 it is -infinity
    return Interval(0.0, 1.1 / math.sqrt(a.low)), True


def of_wave(a: Interval, b: Interval, same: bool) -> tuple[Interval, bool]:
    """Of sine and cosine."""
    return Interval(-1.1, 1.1), a.finite

"""What lowering asks of sizes, which may be numbers or dynamic dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import Any

from ftrace.trace.symbolic.dim import Dim, bounds, same_size
from ftrace.trace.symbolic.polynomial import Quotient, Symbol

#: What a dimension is taken for where cost is estimated.
_SAMPLE = 1024

#: Sizes of dynamic dimensions, by name.
Sizes = Mapping[str, int]


def surely_less(a: Any, b: Any) -> bool:
    """Is a < b for all sizes?"""
    if type(a) is not Dim and type(b) is not Dim:
        return a < b
    return bounds(b - a)[0] > 0


def surely_at_most(a: Any, b: Any) -> bool:
    """Is a <= b for all sizes?"""
    if type(a) is not Dim and type(b) is not Dim:
        return a <= b
    return bounds(b - a)[0] >= 0


def lower_bound(size: Any) -> int:
    return bounds(size)[0]


def upper_bound(size: Any) -> int:
    return bounds(size)[1]


def common_divisor(*values: Any) -> Any:
    """A number or a Dim that divides all of the values: not always the greatest."""
    numbers = [v for v in values if type(v) is not Dim]
    dims = [v for v in values if type(v) is Dim]
    if not dims:
        return gcd(*numbers)
    contents = gcd(*numbers, *[c for d in dims for _, c in d.terms])
    nonzero = [v for v in values if type(v) is Dim or v != 0]
    for candidate in dims:
        if all(_divides(candidate, v) for v in nonzero):
            return candidate
    return contents


def _divides(divisor: Dim, value: Any) -> bool:
    if bounds(divisor)[0] <= 0:
        return False
    rest: Any = value - value // divisor * divisor
    return same_size(rest, 0)


def sample(size: Any) -> int:
    """A size that it may have, for estimates of cost."""
    if type(size) is not Dim:
        return size
    return evaluate(size, _Samples())


class _Samples(dict[str, int]):
    """For each name a size in the middle of things; `_value` looks at the ranges."""

    def __missing__(self, name: str) -> int:
        return _SAMPLE


def evaluate(size: Any, sizes: Sizes) -> int:
    """The number that a size is, given those of the named dimensions."""
    if type(size) is not Dim:
        return size
    total = 0
    for monomial, coefficient in size.terms:
        for atom, power in monomial:
            coefficient *= _value(atom, sizes) ** power
        total += coefficient
    return total


def _value(atom: Symbol | Quotient, sizes: Sizes) -> int:
    if isinstance(atom, Symbol):
        found = sizes[atom.name]
        inside = isinstance(sizes, _Samples)
        return min(max(found, atom.min), atom.max) if inside else found
    return evaluate(atom.numerator, sizes) // evaluate(atom.divisor, sizes)


def evaluate_shape(shape: tuple[Any, ...], sizes: Sizes) -> tuple[int, ...]:
    return tuple([evaluate(n, sizes) for n in shape])

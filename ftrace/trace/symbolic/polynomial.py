"""Polynomials with integer coefficients, as dicts: the arithmetic of `dim.py`.

terms    = {monomial: coefficient, …}
monomial = ((atom, power), …), sorted; () is the constant's
atom     = Symbol, a named size | Quotient, the floor of a division
"""

from __future__ import annotations

from typing import Any

from ftrace.ground.fast_dataclasses import NamedTuple


class Symbol(NamedTuple):
    """A named size and its range."""

    name: str
    min: int
    max: int


class Quotient(NamedTuple):
    """floor(numerator / divisor); the divisor is positive."""

    numerator: Any
    divisor: Any


#: Atoms with their powers, sorted.
Monomial = tuple[tuple[Any, int], ...]
Terms = dict[Monomial, int]


def term_order(term: tuple[Monomial, int]) -> tuple[int, str]:
    """Higher degrees first, the constant last."""
    return -sum(power for _, power in term[0]), repr(term[0])


def added(a: Terms, b: Terms, sign: int = 1) -> Terms:
    total = dict(a)
    for monomial, coefficient in b.items():
        total[monomial] = total.get(monomial, 0) + sign * coefficient
    return total


def multiplied(a: Terms, b: Terms) -> Terms:
    total: Terms = {}
    for left, c in a.items():
        for right, d in b.items():
            monomial = _joined(left, right)
            total[monomial] = total.get(monomial, 0) + c * d
    return total


def _joined(left: Monomial, right: Monomial) -> Monomial:
    powers = dict(left)
    for atom, power in right:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items(), key=repr))


def _without(whole: Monomial, part: Monomial) -> Monomial | None:
    """`whole` divided by `part`; None where it does not divide."""
    powers = dict(whole)
    for atom, power in part:
        left = powers.get(atom, 0) - power
        if left < 0:
            return None
        powers[atom] = left
    return tuple(sorted([p for p in powers.items() if p[1]], key=repr))


def divided(a: Terms, b: Terms) -> tuple[Terms, Terms]:
    """(q, r) with a = q·b + r, where no term of r holds the first term of b."""
    (leading, factor), *_ = sorted(b.items(), key=term_order)
    if factor < 0:  # of a positive divisor as n - m: there is nothing to gain
        return {}, a
    whole: Terms = {}
    rest: Terms = {}
    left = {m: c for m, c in a.items() if c}
    for _ in range(64):
        if not left:
            return whole, rest
        monomial, coefficient = min(left.items(), key=term_order)
        over = _without(monomial, leading)
        times = coefficient // factor if over is not None else 0
        if over is None or times == 0:
            rest[monomial] = rest.get(monomial, 0) + left.pop(monomial)
            continue
        whole[over] = whole.get(over, 0) + times
        left = added(left, multiplied({over: times}, b), -1)
        rest[monomial] = rest.get(monomial, 0) + left.pop(monomial, 0)
        left = {m: c for m, c in left.items() if c}
    return {}, a

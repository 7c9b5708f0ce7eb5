"""What can be said of index expressions: which are affine, and how large they get.

    affine    index = constant + the sum of coefficient · atom
    interval  least and greatest value

An atom is a range, or an expression that is not linear (a division, a load).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import gcd

from ftrace import dtypes
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.iota_indices import combine_limits
from ftrace.lower.kernel.ir import INDEX, axis_of, range_p
from ftrace.trace.graph import Node, constant_value, toposort
from ftrace.trace.primitives.sources import const_p
from ftrace.trace.symbolic.bounds import upper_bound
from ftrace.trace.symbolic.dim import same_size

Interval = tuple[int, int]
_LIMIT = 1 << 62


@dataclass(frozen=True, eq=False)
class Affine:
    """constant + the sum of coefficient · atom; no coefficient is zero."""

    constant: int
    terms: dict[Node, int]

    def shifted(self, by: int) -> Affine:
        return Affine(self.constant + by, self.terms)

    def scaled(self, by: int) -> Affine:
        if by == 0:
            return Affine(0, {})
        return Affine(self.constant * by, {n: c * by for n, c in self.terms.items()})

    def plus(self, other: Affine, sign: int = 1) -> Affine:
        terms = dict(self.terms)
        for node, coefficient in other.terms.items():
            total = terms.get(node, 0) + sign * coefficient
            if total:
                terms[node] = total
            else:
                del terms[node]
        return Affine(self.constant + sign * other.constant, terms)

    def divisor(self) -> int:
        """A number that divides it whatever the atoms are; 0 if it is zero."""
        found = abs(self.constant)
        for coefficient in self.terms.values():
            found = gcd(found, coefficient)
        return found

    def bounds(self, known: Mapping[Node, Interval | None]) -> Interval | None:
        """The least and the greatest value, of what is known of the atoms."""
        low = high = self.constant
        for atom, coefficient in self.terms.items():
            found = known[atom]
            if found is None:
                return None
            ends = coefficient * found[0], coefficient * found[1]
            low, high = low + min(ends), high + max(ends)
        return low, high


def affine_form(node: Node, known: Mapping[Node, Affine]) -> Affine:
    """The form of an index; by itself an atom where it is not linear.

    Args:
      node: the index.
      known: the forms of its sources.
    """
    name = node.op.name
    if node.op is const_p:
        return Affine(int(constant_value(node)), {})
    if node.op is not range_p and len(node.src) == 2 and node.src[1] in known:
        a, b = (known.get(s) for s in node.src)
        if a is not None and b is not None:
            if name == "add":
                return a.plus(b)
            if name == "sub":
                return a.plus(b, -1)
            if name == "mul" and not b.terms:
                return a.scaled(b.constant)
            if name == "mul" and not a.terms:
                return b.scaled(a.constant)
    if node.op is range_p and same_size(axis_of(node).size, 1):
        return Affine(0, {})
    return Affine(0, {node: 1})


def affine_forms(roots: Iterable[Node]) -> dict[Node, Affine]:
    """Those expressions below the roots that are affine in the ranges."""
    forms: dict[Node, Affine] = {}
    for node in toposort(roots):
        if node.dtype is INDEX and node.shape == ():
            forms[node] = affine_form(node, forms)
    return {
        node: form
        for node, form in forms.items()
        if all(atom.op is range_p for atom in form.terms)
    }


def intervals(roots: Iterable[Node]) -> dict[Node, Interval | None]:
    """The interval of each expression below the roots."""
    known: dict[Node, Interval | None] = {}
    for node in toposort(roots):
        known[node] = interval_of(node, known)
    return known


def interval_of(
    node: Node,
    known: Mapping[Node, Interval | None],
) -> Interval | None:
    """Least and greatest value of an integer; None if it may be anything."""
    if node.shape != () or dtypes.kind(node.dtype) not in "biu":
        return None
    if node.op is range_p:
        return 0, max(upper_bound(axis_of(node).size) - 1, 0)
    if node.src and node.dtype.itemsize < 8:
        low, high = dtypes.limits(node.dtype)
        return int(low), int(high)
    found = combine_limits(node, known.__getitem__)
    if found is None or found[0] < -_LIMIT or found[1] > _LIMIT:
        return None
    return found

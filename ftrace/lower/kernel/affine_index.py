"""Index arithmetic: where an element of a value comes from.

    Index = Σ coefficient·atom + constant
    atom  = range | index // n | index % n | the value of an index array

Movement becomes arithmetic on indices: `source_index` says which element of the
operand an element of the result is, and under which conditions there is one. Sums are
kept in normal form, and intervals and divisibility simplify them as they are made:

    (8·i + j) // 8  -> i          where 0 <= j < 8
    (i // 8)·8 + i % 8  -> i

Sizes, coefficients and divisors may be dynamic (`trace/symbolic/dim.py`): what is not
known for all sizes is not simplified.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

from ftrace.errors import GraphError
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.ground.tables import memo
from ftrace.lower.analysis.axis_alignment import reshape_groups
from ftrace.lower.kernel.ir import INDEX, make_range
from ftrace.trace.avals import Shape
from ftrace.trace.graph import Node
from ftrace.trace.primitives import elementwise as p, movement
from ftrace.trace.primitives.broadcast import expand_p
from ftrace.trace.primitives.sources import const
from ftrace.trace.symbolic.bounds import (
    common_divisor,
    sample,
    surely_at_most,
    surely_less,
)
from ftrace.trace.symbolic.dim import is_dynamic, same_size

#: Results of each function that are remembered; those of a large program's recur soon.
REMEMBERED = 1 << 14
#: And of whole indices, which are the same ones layer after layer.
RECENT = 1 << 10


class Atom(NamedTuple):
    """What an index is a sum of.

    Attributes:
      kind: "range", "div", "rem" or "value".
      number: of the range or value; 0 for the others.
      size: atoms run over 0 … size - 1.
      reduced: a range that a reduce closes.
      inner: for div and rem the index that is divided.
      divisor: and by what.
      ranges: the ranges that a value depends on.
    """

    kind: str
    number: int
    size: int
    reduced: bool = False
    inner: Index | None = None
    divisor: int = 1
    ranges: frozenset[Any] = frozenset()


class Index(NamedTuple):
    """A sum of atoms with coefficients, sorted, and a constant."""

    terms: tuple[tuple[Atom, int], ...]
    constant: int

    def __add__(self, other: Index | int) -> Index:  # type: ignore[override]
        if not isinstance(other, Index):
            return Index(self.terms, self.constant + other)
        return add_indices(self, other)

    def __mul__(self, factor: int) -> Index:  # type: ignore[override]
        if same_size(factor, 0):
            return ZERO
        if same_size(factor, 1):
            return self
        terms = tuple((atom, c * factor) for atom, c in self.terms)
        return Index(terms, self.constant * factor)

    def __sub__(self, other: Index) -> Index:
        return add_indices(self, other * -1)


ZERO = Index((), 0)


class Condition(NamedTuple):
    """low <= position < high."""

    position: Index
    low: int
    high: int


#: All of the conditions hold; None in its place: never.
Valid = frozenset[Condition]
ALWAYS: Valid = frozenset()


def range_index(number: int, size: int, reduced: bool = False) -> Index:
    """The index that is a range by itself; a range of one value is 0."""
    if same_size(size, 1):
        return ZERO
    return Index(((Atom("range", number, size, reduced), 1),), 0)


def value_index(number: int, size: int, ranges: frozenset[Atom]) -> Index:
    """The index that is read from an integer array."""
    return Index(((Atom("value", number, size, False, None, 1, ranges), 1),), 0)


def constant_index(value: int) -> Index:
    return Index((), value)


@memo(REMEMBERED)
def add_indices(x: Index, y: Index) -> Index:
    coefficients = dict(x.terms)
    for atom, coefficient in y.terms:
        coefficients[atom] = coefficients.get(atom, 0) + coefficient
    return _normal(coefficients, x.constant + y.constant)


def _normal(coefficients: dict[Atom, int], constant: int) -> Index:
    """Joins what was divided: (x // n)·n·k + (x % n)·k -> x·k."""
    terms = {a: c for a, c in coefficients.items() if not same_size(c, 0)}
    for atom, coefficient in terms.items():
        if atom.kind == "rem":
            assert atom.inner is not None
            quotient = divide(atom.inner, atom.divisor)
            if len(quotient.terms) == 1 and same_size(quotient.constant, 0):
                ((top, scale),) = quotient.terms
                if same_size(terms.get(top), scale * coefficient * atom.divisor):
                    rest = {a: c for a, c in terms.items() if a not in (atom, top)}
                    whole = atom.inner * coefficient
                    return add_indices(_normal(rest, constant), whole)
    if len(terms) < 2:
        return Index(tuple(terms.items()), constant)
    return Index(tuple(sorted(terms.items(), key=_order)), constant)


def _order(term: tuple[Atom, int]) -> tuple[str, int, int, str]:
    atom = term[0]
    inner = "" if atom.inner is None else repr(atom.inner)
    if is_dynamic(atom.divisor):
        inner = f"{inner} {atom.divisor}"
    return atom.kind, atom.number, sample(atom.divisor), inner


@memo(REMEMBERED)
def bounds(index: Index) -> tuple[int, int]:
    """The least and the greatest value."""
    low = high = index.constant
    for atom, coefficient in index.terms:
        least, greatest = _atom_bounds(atom)
        if coefficient > 0:
            low, high = low + coefficient * least, high + coefficient * greatest
        else:
            low, high = low + coefficient * greatest, high + coefficient * least
    return low, high


def _atom_bounds(atom: Atom) -> tuple[int, int]:
    if atom.kind in ("div", "rem"):
        assert atom.inner is not None
        low, high = bounds(atom.inner)
        if atom.kind == "div":
            return low // atom.divisor, high // atom.divisor
        if surely_at_most(0, low) and surely_less(high, atom.divisor):
            return low, high
        return 0, atom.divisor - 1
    return 0, atom.size - 1


@memo(REMEMBERED)
def divide(index: Index, divisor: int) -> Index:
    """index // divisor, rounded down."""
    if same_size(divisor, 1):
        return index
    whole, rest = _split(index, divisor)
    low, high = bounds(rest)
    if same_size(low // divisor, high // divisor):
        return whole + low // divisor
    common = common_divisor(divisor, *[c for _, c in rest.terms])
    if not same_size(common, 1):
        # (c·x + d) // (c·n) = (x + d // c) // n
        terms = tuple((a, c // common) for a, c in rest.terms)
        smaller = Index(terms, rest.constant // common)
        return add_indices(whole, divide(smaller, divisor // common))
    step, high, _ = _step_and_rest(rest, divisor)
    if not same_size(step, 1):  # (c·x + y) // (c·n) = x // n where 0 <= y < c
        return add_indices(whole, divide(high, divisor // step))
    if len(rest.terms) == 1 and same_size(rest.constant, 0):
        ((atom, coefficient),) = rest.terms
        if atom.kind == "div" and same_size(coefficient, 1):
            # (x // a) // b -> x // (a·b)
            assert atom.inner is not None
            return add_indices(whole, divide(atom.inner, atom.divisor * divisor))
    shift = low // divisor  # keep what is divided from being negative
    rest = rest + -shift * divisor
    atom = Atom("div", 0, 0, False, rest, divisor)
    return add_indices(whole + shift, Index(((atom, 1),), 0))


@memo(REMEMBERED)
def remainder(index: Index, divisor: int) -> Index:
    """index % divisor, not negative."""
    if same_size(divisor, 1):
        return ZERO
    _, rest = _split(index, divisor)
    low, high = bounds(rest)
    if same_size(low // divisor, high // divisor):
        return rest + -(low // divisor) * divisor
    if len(rest.terms) == 1 and same_size(rest.constant, 0):
        ((atom, coefficient),) = rest.terms
        divides = same_size(coefficient, 1) and same_size(atom.divisor % divisor, 0)
        if atom.kind == "rem" and divides:
            assert atom.inner is not None
            return remainder(atom.inner, divisor)
    step, top, below = _step_and_rest(rest, divisor)
    if not same_size(step, 1):  # (c·x + y) % (c·n) = (x % n)·c + y where 0 <= y < c
        return add_indices(remainder(top, divisor // step) * step, below)
    rest = rest + -(low // divisor) * divisor
    return Index(((Atom("rem", 0, 0, False, rest, divisor), 1),), 0)


def _split(index: Index, divisor: int) -> tuple[Index, Index]:
    """(q, r) with index = q·divisor + r, where r keeps what does not divide."""
    whole: dict[Atom, int] = {}
    rest: dict[Atom, int] = {}
    for atom, coefficient in index.terms:
        quotient, left = divmod(coefficient, divisor)
        if same_size(left, 0):
            whole[atom] = quotient
        else:
            rest[atom] = coefficient
    quotient, left = divmod(index.constant, divisor)
    return _normal(whole, quotient), _normal(rest, left)


def _step_and_rest(index: Index, divisor: int) -> tuple[int, Index, Index]:
    """(c, x, y) with index = c·x + y, c a divisor of `divisor` and 0 <= y < c.

    c is the largest there is; 1 if there is no other.
    """
    steps = {common_divisor(coefficient, divisor) for _, coefficient in index.terms}
    for step in sorted(steps, key=sample, reverse=True):
        if same_size(step, 1):
            break
        whole = {a for a, c in index.terms if same_size(c % step, 0)}
        high = {a: c // step for a, c in index.terms if a in whole}
        low = {a: c for a, c in index.terms if a not in whole}
        quotient, left = divmod(index.constant, step)
        below = _normal(low, left)
        least, greatest = bounds(below)
        if high and surely_at_most(0, least) and surely_less(greatest, step):
            return step, _normal(high, quotient), below
    return 1, index, ZERO


def require(valid: Valid | None, index: Index, low: int, high: int) -> Valid | None:
    """`valid` and low <= index < high; None where that never holds."""
    if valid is None:
        return None
    least, greatest = bounds(index)
    if surely_less(greatest, low) or surely_at_most(high, least):
        return None
    if is_within(index, low, high):
        return valid
    return valid | {Condition(index, low, high)}


def is_within(index: Index, low: int, high: int) -> bool:
    """Is low <= index < high surely?"""
    least, greatest = bounds(index)
    return surely_at_most(low, least) and surely_less(greatest, high)


def flatten_index(indices: Iterable[Index], shape: Shape) -> Index:
    """The row-major position of an element."""
    return _flattened(tuple(indices), shape)


@memo(RECENT)
def _flattened(indices: tuple[Index, ...], shape: Shape) -> Index:
    total = ZERO
    step = 1
    for index, size in zip(reversed(indices), reversed(shape), strict=True):
        total = add_indices(total, index * step)
        step *= size
    return total


@memo(RECENT)
def unflatten_index(position: Index, shape: Shape) -> tuple[Index, ...]:
    """The index along each axis of the element at a row-major position."""
    result: list[Index] = []
    for axis, size in enumerate(shape):
        # Without elements every index will do.
        outer = divide(position, max(prod(shape[axis + 1 :]), 1))
        result.append(outer if not result else remainder(outer, max(size, 1)))
    return tuple(result)


Position = tuple[tuple[Index, ...], Valid | None]


def source_index(
    node: Node, indices: tuple[Index, ...], valid: Valid | None
) -> Position:
    """Which element of the operand of a movement is the element at `indices`.

    Returns:
      (indices, valid): there is none where `valid` does not hold: the element is 0.
    """
    arg: Any = node.arg
    op = node.op
    if op is expand_p:
        pairs = zip(indices, node.src[0].shape, strict=True)
        return tuple([ZERO if same_size(n, 1) else i for i, n in pairs]), valid
    if op is movement.permute_p:
        result = [ZERO] * len(indices)
        for axis, index in zip(arg, indices, strict=True):
            result[axis] = index
        return tuple(result), valid
    if op is movement.reshape_p:
        return _reshaped(indices, node.shape, node.src[0].shape), valid
    if op is movement.shrink_p:
        lows = zip(indices, arg, strict=True)
        return tuple([i + low for i, (low, _) in lows]), valid
    if op is movement.stride_p:
        sizes = node.src[0].shape
        return tuple(
            i * step if step > 0 else i * step + (size - 1)
            for i, step, size in zip(indices, arg, sizes, strict=True)
        ), valid
    if op is movement.pad_p:
        return _padded(node, indices, valid)
    if op is movement.shear_p or op is movement.unshear_p:
        return _slid(node, indices, valid)
    raise GraphError(f"{node!r} is not a movement")


def _slid(node: Node, indices: tuple[Index, ...], valid: Valid | None) -> Position:
    """The index along the axis that slides, of a shear or an unshear."""
    shear: movement.Shear = node.arg
    size = node.src[0].shape[shear.axis]
    index, window = indices[shear.axis], indices[shear.window] * shear.dilation
    if node.op is movement.shear_p:
        position = index * shear.stride + window
        valid = require(valid, position, 0, size)
    else:
        position, valid = _divided(index - window, shear.stride, size, valid)
    return (*indices[: shear.axis], position, *indices[shear.axis + 1 :]), valid


@memo(RECENT)
def _reshaped(
    indices: tuple[Index, ...], shape: Shape, source: Shape
) -> tuple[Index, ...]:
    """Axis by axis where the shapes agree, through row-major positions elsewhere."""
    result: list[Index] = []
    for ours, theirs in reshape_groups(shape, source):
        group = indices[ours]
        if len(group) == len(source[theirs]) == 1:
            result += group
        else:
            position = flatten_index(group, shape[ours])
            result += unflatten_index(position, source[theirs])
    return tuple(result)


def _divided(
    position: Index, step: int, size: int, valid: Valid | None
) -> tuple[Index, Valid | None]:
    """position / step, where that is a whole number in 0 … size - 1."""
    if same_size(step, 1):
        return position, require(valid, position, 0, size)
    valid = require(valid, position, 0, (size - 1) * step + 1)
    low, _ = bounds(position)
    shift = -(low // step) * step if low < 0 else 0
    valid = require(valid, remainder(position + shift, step), 0, 1)
    return divide(position + shift, step) + -(shift // step), valid


def _padded(node: Node, indices: tuple[Index, ...], valid: Valid | None) -> Position:
    result: list[Index] = []
    pads: movement.Pads = node.arg
    sizes = node.src[0].shape
    for index, (before, _, between), size in zip(indices, pads, sizes, strict=True):
        position = index + -before
        position, valid = _divided(position, between + 1, size, valid)
        result.append(position)
    return tuple(result), valid


@memo(REMEMBERED)
def complexity(index: Index) -> int:
    """How many atoms it holds, at any depth."""
    inner = [complexity(a.inner) for a, _ in index.terms if a.inner is not None]
    return len(index.terms) + sum(inner)


def ranges_of(index: Index) -> frozenset[Atom]:
    """The ranges that an index depends on."""
    return ranges_of_all((index,))


@memo(RECENT)
def ranges_of_all(indices: tuple[Index, ...]) -> frozenset[Atom]:
    found: set[Atom] = set()
    for index in indices:
        for atom, _ in index.terms:
            if atom.kind == "range":  # nearly all of them
                found.add(atom)
            else:
                found |= atom.ranges if atom.inner is None else ranges_of(atom.inner)
    return frozenset(found)


def value_numbers(indices: Iterable[Index]) -> list[int]:
    """The numbers of the index arrays that the indices depend on."""
    found: dict[int, None] = {}
    pending = list(indices)
    while pending:
        for atom, _ in pending.pop().terms:
            if atom.kind == "value":
                found[atom.number] = None
            elif atom.inner is not None:
                pending.append(atom.inner)
    return list(found)


def range_node(atom: Atom) -> Node:
    return make_range(atom.number, atom.size, atom.reduced)


def render_index(index: Index, values: dict[int, Node]) -> Node:
    """The index as an expression of a kernel.

    Args:
      index: the sum.
      values: the expressions of index arrays, by number.
    """
    total: Node | None = None
    for atom, coefficient in index.terms:
        if atom.kind == "range":
            part = range_node(atom)
        elif atom.kind == "value":
            part = values[atom.number]
        else:
            assert atom.inner is not None
            inner = render_index(atom.inner, values)
            part = (p.div if atom.kind == "div" else p.rem)(
                inner, _literal(atom.divisor)
            )
        if not same_size(coefficient, 1):
            part = p.mul(part, _literal(coefficient))
        total = part if total is None else p.add(total, part)
    if total is None:
        return _literal(index.constant)
    if same_size(index.constant, 0):
        return total
    return p.add(total, _literal(index.constant))


def render_valid(valid: Valid, values: dict[int, Node]) -> Node | None:
    """The conditions as a predicate; None where there are none."""
    total: Node | None = None
    for condition in sorted(valid, key=repr):
        index = render_index(condition.position, values)
        low, high = bounds(condition.position)
        parts: list[Node] = []
        if same_size(condition.high, condition.low + 1):
            parts.append(p.eq(index, _literal(condition.low)))
        else:
            if not surely_at_most(condition.low, low):
                parts.append(p.ge(index, _literal(condition.low)))
            if not surely_less(high, condition.high):
                parts.append(p.lt(index, _literal(condition.high)))
        for part in parts:
            total = part if total is None else p.bit_and(total, part)
    return total


def _literal(value: int) -> Node:
    return const(value, INDEX)

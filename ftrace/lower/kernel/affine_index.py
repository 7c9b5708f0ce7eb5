"""Index arithmetic: where an element of a value comes from.

    Index = Σ coefficient·atom + constant
    atom  = range | index // n | index % n | the value of an index array

Atoms are expressions of kernels, so that an index is one as well (`render_index`), and
what a kernel computes is an index again (`affine_form`): all that is not linear is an
atom.

Movement becomes arithmetic on indices: `source_index` says which element of the
operand an element of the result is, and under which conditions there is one. Sums are
kept in normal form, and intervals and divisibility simplify them as they are made:

    (8·i + j) // 8  -> i          where 0 <= j < 8
    (i // 8)·8 + i % 8  -> i

Sizes, coefficients and divisors may be dynamic (`trace/symbolic.py`): what is not
known for all sizes is not simplified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial, reduce
from math import gcd, prod
from typing import Any

from ftrace.errors import GraphError
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.ground.tables import memo
from ftrace.lower.analysis import reshape_groups
from ftrace.lower.kernel import ir
from ftrace.lower.kernel.integer_bounds import Interval
from ftrace.trace import symbolic as sym
from ftrace.trace.avals import Shape
from ftrace.trace.graph import Node, constant_value, make_node, substitute, toposort
from ftrace.trace.primitives import broadcast as bc, elementwise as p, movement as mv
from ftrace.trace.primitives.sources import const, const_p, dim_p

#: Results of each function that are remembered; those of a large program's recur soon.
#: 15,086 results of the rows of training and convolutions are computed, with 2¹⁰
#: 15,263, with 2¹⁴ 15,088.
REMEMBERED = 1 << 12


class Index(NamedTuple):
    """A sum of atoms with coefficients, and a constant.

    Attributes:
      pairs: atoms and their coefficients, none of which is zero. Those of a sum that
        is made here are sorted; a kernel's are in the order in which it adds them up.
    """

    pairs: tuple[tuple[Node, int], ...]
    constant: int

    @property
    def terms(self) -> dict[Node, int]:
        """The coefficient of each atom."""
        return dict(self.pairs)

    def __add__(self, other: Index | int) -> Index:  # type: ignore[override]
        if not isinstance(other, Index):
            return Index(self.pairs, self.constant + other)
        return add_indices(self, other)

    def __mul__(self, factor: int) -> Index:  # type: ignore[override]
        if sym.same_size(factor, 0):
            return ZERO
        if sym.same_size(factor, 1):
            return self
        pairs = tuple((atom, c * factor) for atom, c in self.pairs)
        return Index(pairs, self.constant * factor)

    def __sub__(self, other: Index) -> Index:
        return add_indices(self, other * -1)

    def only(self, keep: Callable[[Node], bool]) -> Index:
        """The terms of some atoms, and the constant."""
        return Index(tuple([t for t in self.pairs if keep(t[0])]), self.constant)

    def over(self, new: Mapping[Node, Index]) -> Index:
        """The sum with others in the place of some atoms."""
        terms: dict[Node, int] = {}
        constant = self.constant
        for atom, coefficient in self.pairs:
            part = new.get(atom)
            if part is None:
                terms[atom] = terms.get(atom, 0) + coefficient
            else:
                _add_terms(terms, part, coefficient)
                constant += part.constant * coefficient
        return sum_of_terms(terms, constant)

    def common_divisor(self) -> int:
        """A number that divides it whatever the atoms are; 0 if it is zero."""
        return gcd(self.constant, *[c for _, c in self.pairs])


ZERO = Index((), 0)


class Condition(NamedTuple):
    """low <= position < high."""

    position: Index
    low: int
    high: int


#: All of the conditions hold; None in its place: never.
Valid = frozenset[Condition]
ALWAYS: Valid = frozenset()

# Atoms.


class Value(NamedTuple):
    """What stands for the value of an index array until that is built.

    Attributes:
      number: of the value.
      size: it is one of 0 … size - 1.
      ranges: those that it depends on.
    """

    number: int
    size: int
    ranges: frozenset[Node]


value_p = ir.KernelOp("value")


def index_of_atom(atom: Node) -> Index:
    return Index(((atom, 1),), 0)


@memo(REMEMBERED)
def range_index(number: int, size: int, reduced: bool = False) -> Index:
    """The index that is a range by itself; a range of one value is 0."""
    if sym.same_size(size, 1):
        return ZERO
    return index_of_atom(ir.make_range(number, size, reduced))


def value_index(number: int, size: int, ranges: frozenset[Node]) -> Index:
    """The index that is read from an integer array."""
    value = Value(number, size, ranges)
    return index_of_atom(make_node(value_p, ir.INDEX_AVAL, (), value))


def constant_index(value: int) -> Index:
    return Index((), value)


def size_of(atom: Node) -> int:
    """A range or a value is one of 0 … size - 1."""
    return atom.arg.size


@memo(REMEMBERED)
def division_of(atom: Node) -> tuple[Index, int] | None:
    """(x, n) of x // n and x % n; None of other atoms."""
    if atom.op is not p.div and atom.op is not p.rem:
        return None
    forms = affine_forms(atom.src, sizes=True)
    top, bottom = (forms[s] for s in atom.src)
    return None if bottom.pairs else (top, bottom.constant)


def atom_of(index: Index) -> Node | None:
    """The atom that an index is by itself, if it is one."""
    if len(index.pairs) != 1 or not sym.same_size(index.constant, 0):
        return None
    ((atom, coefficient),) = index.pairs
    return atom if sym.same_size(coefficient, 1) else None


# Sums.


@memo(REMEMBERED)
def add_indices(x: Index, y: Index) -> Index:
    return _normal(_add_terms(x.terms, y, 1), x.constant + y.constant)


def _add_terms(terms: dict[Node, int], index: Index, times: int) -> dict[Node, int]:
    """The coefficients with those of an index added to them, so many times."""
    for atom, coefficient in index.pairs:
        terms[atom] = terms.get(atom, 0) + coefficient * times
    return terms


def sum_of_terms(terms: Mapping[Node, int], constant: int) -> Index:
    """The index of these terms, in their order."""
    return Index(
        tuple([t for t in terms.items() if sym.is_dynamic(t[1]) or t[1]]), constant
    )


def _normal(coefficients: dict[Node, int], constant: int) -> Index:
    """Joins what was divided: (x // n)·n·k + (x % n)·k -> x·k."""
    terms = {a: c for a, c in coefficients.items() if not sym.same_size(c, 0)}
    for atom, coefficient in terms.items():
        division = division_of(atom) if atom.op is p.rem else None
        if division is not None:
            inner, divisor = division
            quotient = divide(inner, divisor)
            if len(quotient.pairs) == 1 and sym.same_size(quotient.constant, 0):
                ((top, scale),) = quotient.pairs
                if sym.same_size(terms.get(top), scale * coefficient * divisor):
                    rest = {a: c for a, c in terms.items() if a not in (atom, top)}
                    return add_indices(_normal(rest, constant), inner * coefficient)
    if len(terms) < 2:
        return Index(tuple(terms.items()), constant)
    return Index(tuple(sorted(terms.items(), key=_order)), constant)


def _order(term: tuple[Node, int]) -> tuple[str, int, int, str]:
    atom = term[0]
    if atom.op is ir.range_p or atom.op is value_p:
        return atom.op.name, atom.arg.number, 1, ""
    division = division_of(atom)
    if division is None:
        return atom.op.name, 0, 1, ""
    inner, divisor = division
    text = _text_of(inner)
    if sym.is_dynamic(divisor):
        text = f"{text} {divisor}"
    return atom.op.name, 0, sym.sample(divisor), text


@memo(REMEMBERED)
def _text_of(index: Index) -> str:
    """What tells indices apart in each process, so that it gives them an order."""
    parts = [f"{_order(term)} {term[1]}" for term in index.pairs]
    return f"{parts} {index.constant}"


@memo(REMEMBERED)
def bounds(index: Index) -> Interval:
    """The least and the greatest value."""
    found = bounds_over(index, _atom_bounds)
    assert found is not None
    return found


def bounds_over(index: Index, of: Callable[[Node], Interval | None]) -> Interval | None:
    """The same, of what is known of the atoms; None where one may be anything."""
    low = high = index.constant
    for atom, coefficient in index.pairs:
        found = of(atom)
        if found is None:
            return None
        least, greatest = found
        if coefficient > 0:
            low, high = low + coefficient * least, high + coefficient * greatest
        else:
            low, high = low + coefficient * greatest, high + coefficient * least
    return low, high


def _atom_bounds(atom: Node) -> Interval:
    division = division_of(atom)
    if division is None:
        return 0, size_of(atom) - 1
    inner, divisor = division
    low, high = bounds(inner)
    if atom.op is p.div:
        return low // divisor, high // divisor
    if sym.surely_at_most(0, low) and sym.surely_less(high, divisor):
        return low, high
    return 0, divisor - 1


@memo(REMEMBERED)
def divide(index: Index, divisor: int) -> Index:
    """index // divisor, rounded down."""
    if sym.same_size(divisor, 1):
        return index
    whole, rest = _split(index, divisor)
    low, high = bounds(rest)
    if sym.same_size(low // divisor, high // divisor):
        return whole + low // divisor
    common = sym.common_divisor(divisor, *[c for _, c in rest.pairs])
    if not sym.same_size(common, 1):
        # (c·x + d) // (c·n) = (x + d // c) // n
        pairs = tuple((a, c // common) for a, c in rest.pairs)
        smaller = Index(pairs, rest.constant // common)
        return add_indices(whole, divide(smaller, divisor // common))
    step, high, _ = _step_and_rest(rest, divisor)
    if not sym.same_size(step, 1):  # (c·x + y) // (c·n) = x // n where 0 <= y < c
        return add_indices(whole, divide(high, divisor // step))
    division = _division_by(p.div, rest)
    if division is not None:  # (x // a) // b -> x // (a·b)
        inner, by = division
        return add_indices(whole, divide(inner, by * divisor))
    shift = low // divisor  # keep what is divided from being negative
    rest = rest + -shift * divisor
    return add_indices(whole + shift, _divide_by(p.div, rest, divisor))


@memo(REMEMBERED)
def remainder(index: Index, divisor: int) -> Index:
    """index % divisor, not negative."""
    if sym.same_size(divisor, 1):
        return ZERO
    _, rest = _split(index, divisor)
    low, high = bounds(rest)
    if sym.same_size(low // divisor, high // divisor):
        return rest + -(low // divisor) * divisor
    division = _division_by(p.rem, rest)
    if division is not None and sym.same_size(division[1] % divisor, 0):
        return remainder(division[0], divisor)
    step, top, below = _step_and_rest(rest, divisor)
    if not sym.same_size(step, 1):  # (c·x + y) % (c·n) = (x % n)·c + y where 0 <= y < c
        return add_indices(remainder(top, divisor // step) * step, below)
    rest = rest + -(low // divisor) * divisor
    return _divide_by(p.rem, rest, divisor)


def _divide_by(op: Any, index: Index, divisor: int) -> Index:
    return index_of_atom(_operation(op, render_index(index), _literal(divisor)))


def _division_by(op: Any, index: Index) -> tuple[Index, int] | None:
    """(x, n) if the index is op(x, n) by itself."""
    atom = atom_of(index)
    return division_of(atom) if atom is not None and atom.op is op else None


def _split(index: Index, divisor: int) -> tuple[Index, Index]:
    """(q, r) with index = q·divisor + r, where r keeps what does not divide."""
    whole: dict[Node, int] = {}
    rest: dict[Node, int] = {}
    for atom, coefficient in index.pairs:
        quotient, left = divmod(coefficient, divisor)
        if sym.same_size(left, 0):
            whole[atom] = quotient
        else:
            rest[atom] = coefficient
    quotient, left = divmod(index.constant, divisor)
    return _normal(whole, quotient), _normal(rest, left)


def _step_and_rest(index: Index, divisor: int) -> tuple[int, Index, Index]:
    """(c, x, y) with index = c·x + y, c a divisor of `divisor` and 0 <= y < c.

    c is the largest there is; 1 if there is no other.
    """
    steps = {sym.common_divisor(coefficient, divisor) for _, coefficient in index.pairs}
    for step in sorted(steps, key=sym.sample, reverse=True):
        if sym.same_size(step, 1):
            break
        whole = {a for a, c in index.pairs if sym.same_size(c % step, 0)}
        high = {a: c // step for a, c in index.pairs if a in whole}
        low = {a: c for a, c in index.pairs if a not in whole}
        quotient, left = divmod(index.constant, step)
        below = _normal(low, left)
        least, greatest = bounds(below)
        if high and sym.surely_at_most(0, least) and sym.surely_less(greatest, step):
            return step, _normal(high, quotient), below
    return 1, index, ZERO


def is_injective(steps: Iterable[tuple[int, int]]) -> bool:
    """Is the sum of step · x, over x < size for each (step, size), never the same?

    It is not if each step is larger than all that the smaller ones can add up to.
    """
    reach = 0
    for step, size in sorted(steps, key=lambda pair: abs(sym.sample(pair[0]))):
        length = step if sym.surely_less(0, step) else -step
        if not sym.surely_less(reach, length):
            return False
        reach += length * (size - 1)
    return True


def require(valid: Valid | None, index: Index, low: int, high: int) -> Valid | None:
    """`valid` and low <= index < high; None where that never holds."""
    if valid is None:
        return None
    least, greatest = bounds(index)
    if sym.surely_less(greatest, low) or sym.surely_at_most(high, least):
        return None
    if is_within(index, low, high):
        return valid
    return valid | {Condition(index, low, high)}


def is_within(index: Index, low: int, high: int) -> bool:
    """Is low <= index < high surely?"""
    least, greatest = bounds(index)
    return sym.surely_at_most(low, least) and sym.surely_less(greatest, high)


@memo(REMEMBERED)
def flatten_index(indices: tuple[Index, ...], shape: Shape) -> Index:
    """The row-major position of an element."""
    total = ZERO
    step = 1
    for index, size in zip(reversed(indices), reversed(shape), strict=True):
        total = add_indices(total, index * step)
        step *= size
    return total


@memo(REMEMBERED)
def unflatten_index(position: Index, shape: Shape) -> tuple[Index, ...]:
    """The index along each axis of the element at a row-major position."""
    result: list[Index] = []
    for axis, size in enumerate(shape):
        # Without elements every index will do.
        outer = divide(position, max(prod(shape[axis + 1 :]), 1))
        result.append(outer if not result else remainder(outer, max(size, 1)))
    return tuple(result)


SourceIndex = tuple[tuple[Index, ...], Valid | None]


def source_index(
    node: Node, indices: tuple[Index, ...], valid: Valid | None
) -> SourceIndex:
    """Which element of the operand of a movement is the element at `indices`.

    Returns:
      (indices, valid): there is none where `valid` does not hold: the element is 0.
    """
    arg: Any = node.arg
    op = node.op
    if op is bc.expand_p:
        pairs = zip(indices, node.src[0].shape, strict=True)
        return tuple([ZERO if sym.same_size(n, 1) else i for i, n in pairs]), valid
    if op is mv.permute_p:
        result = [ZERO] * len(indices)
        for axis, index in zip(arg, indices, strict=True):
            result[axis] = index
        return tuple(result), valid
    if op is mv.reshape_p:
        return _reshape(indices, node.shape, node.src[0].shape), valid
    if op is mv.shrink_p:
        lows = zip(indices, arg, strict=True)
        return tuple([i + low for i, (low, _) in lows]), valid
    if op is mv.stride_p:
        sizes = node.src[0].shape
        return tuple(
            i * step if step > 0 else i * step + (size - 1)
            for i, step, size in zip(indices, arg, sizes, strict=True)
        ), valid
    if op is mv.pad_p:
        return _pad(node, indices, valid)
    if op is mv.shear_p or op is mv.unshear_p:
        return _slid(node, indices, valid)
    raise GraphError(f"{node!r} is not a movement")


def _slid(node: Node, indices: tuple[Index, ...], valid: Valid | None) -> SourceIndex:
    """The index along the axis that slides, of a shear or an unshear."""
    shear: mv.Shear = node.arg
    size = node.src[0].shape[shear.axis]
    index, window = indices[shear.axis], indices[shear.window] * shear.dilation
    if node.op is mv.shear_p:
        position = index * shear.stride + window
        valid = require(valid, position, 0, size)
    else:
        position, valid = _divide_exactly(index - window, shear.stride, size, valid)
    return (*indices[: shear.axis], position, *indices[shear.axis + 1 :]), valid


@memo(REMEMBERED)
def _reshape(
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


def _divide_exactly(
    position: Index, step: int, size: int, valid: Valid | None
) -> tuple[Index, Valid | None]:
    """position / step, where that is a whole number in 0 … size - 1."""
    if sym.same_size(step, 1):
        return position, require(valid, position, 0, size)
    valid = require(valid, position, 0, (size - 1) * step + 1)
    low, _ = bounds(position)
    shift = -(low // step) * step if low < 0 else 0
    valid = require(valid, remainder(position + shift, step), 0, 1)
    return divide(position + shift, step) + -(shift // step), valid


def _pad(node: Node, indices: tuple[Index, ...], valid: Valid | None) -> SourceIndex:
    result: list[Index] = []
    pads: mv.Pads = node.arg
    sizes = node.src[0].shape
    for index, (before, _, between), size in zip(indices, pads, sizes, strict=True):
        position = index + -before
        position, valid = _divide_exactly(position, between + 1, size, valid)
        result.append(position)
    return tuple(result), valid


def values_in(indices: Iterable[Index]) -> list[Node]:
    """The values of index arrays that the indices depend on."""
    return [a for index in indices for a in atoms_in(index) if a.op is value_p]


@memo(REMEMBERED)
def divisions_in(index: Index) -> tuple[tuple[Index, int], ...]:
    """(x, n) of its quotients and remainders, at any depth."""
    found = [division_of(a) for a in atoms_in(index) if a.op is not ir.range_p]
    return tuple([division for division in found if division is not None])


@memo(REMEMBERED)
def atoms_in(index: Index) -> tuple[Node, ...]:
    """Its atoms, at any depth: their number says how complex it is."""
    found = [atom for atom, _ in index.pairs]
    for atom in found:  # grows
        division = division_of(atom)
        if division is not None:
            found += [a for a, _ in division[0].pairs]
    return tuple(found)


def ranges_of(index: Index) -> frozenset[Node]:
    """The ranges that an index depends on."""
    return ranges_of_all((index,))


@memo(REMEMBERED)
def ranges_of_all(indices: tuple[Index, ...]) -> frozenset[Node]:
    found: set[Node] = set()
    for index in indices:
        for atom in atoms_in(index):
            if atom.op is ir.range_p:  # nearly all of them
                found.add(atom)
            elif atom.op is value_p:
                found |= atom.arg.ranges
    return frozenset(found)


# Indices and expressions.


def render_index(index: Index, value_of: Callable[[Node], Node] | None = None) -> Node:
    """The index as an expression of a kernel.

    Args:
      index: the sum.
      value_of: gives the expression of a value of an index array.
    """
    terms = [
        atom if sym.same_size(n, 1) else _operation(p.mul, atom, _literal(n))
        for atom, n in index.pairs
    ]
    if not terms or not sym.same_size(index.constant, 0):
        terms.append(_literal(index.constant))
    total = reduce(partial(_operation, p.add), terms)
    known = {v: value_of(v) for v in values_in([index])} if value_of else {}
    return substitute([total], known)[0] if known else total


def affine_form(node: Node, known: Mapping[Node, Index], sizes: bool = False) -> Index:
    """What an expression is as an index; an atom where it is not linear.

    Args:
      node: the expression.
      known: the forms of its sources.
      sizes: dynamic sizes are numbers like others; else they are atoms.
    """
    if node.op is const_p:
        return Index((), int(constant_value(node)))
    if node.op is dim_p and sizes:
        return Index((), node.arg)
    if node.op is ir.range_p and sym.same_size(ir.axis_of(node).size, 1):
        return ZERO
    if len(node.src) == 2 and node.src[1] in known:
        a, b = (known.get(s) for s in node.src)
        found = None if a is None or b is None else combine(node.op, a, b)
        if found is not None:
            return found
    return index_of_atom(node)


def combine(op: Any, a: Index, b: Index) -> Index | None:
    """a + b, a - b or a · b; None where that is not linear."""
    if op is p.add or op is p.sub:
        sign = 1 if op is p.add else -1
        terms = _add_terms(a.terms, b, sign)
        return sum_of_terms(terms, a.constant + sign * b.constant)
    if op is p.mul and not b.pairs:
        return a * b.constant
    return b * a.constant if op is p.mul and not a.pairs else None


def affine_forms(roots: Iterable[Node], sizes: bool = False) -> dict[Node, Index]:
    """What the expressions below the roots are as indices."""
    forms: dict[Node, Index] = {}
    for node in toposort(roots):
        if node.dtype is ir.INDEX and node.shape == ():
            forms[node] = affine_form(node, forms, sizes)
    return forms


def is_affine(index: Index) -> bool:
    """Is it a sum of ranges?"""
    return all(atom.op is ir.range_p for atom, _ in index.pairs)


def render_valid(valid: Valid, value_of: Callable[[Node], Node]) -> Node | None:
    """The conditions as a predicate; None where there are none."""
    parts: list[Node] = []
    ordered = sorted(valid, key=lambda c: f"{_text_of(c.position)} {c.low} {c.high}")
    for condition in ordered:
        index = render_index(condition.position, value_of)
        low, high = bounds(condition.position)
        if sym.same_size(condition.high, condition.low + 1):
            parts.append(p.eq(index, _literal(condition.low)))
        else:
            if not sym.surely_at_most(condition.low, low):
                parts.append(p.ge(index, _literal(condition.low)))
            if not sym.surely_less(high, condition.high):
                parts.append(p.lt(index, _literal(condition.high)))
    return reduce(p.bit_and, parts) if parts else None


def _literal(value: int) -> Node:
    return const(value, ir.INDEX)


def _operation(op: Any, x: Node, y: Node) -> Node:
    return make_node(op, ir.INDEX_AVAL, (x, y))

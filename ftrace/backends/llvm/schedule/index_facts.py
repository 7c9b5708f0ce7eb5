"""What is known of a kernel's index arithmetic before it runs.

    affine    index = constant + the sum of coefficient · atom
    interval  least and greatest value
    stride    how much it grows from one lane of a vector range to the next

An atom is a range, or an expression that is not linear (a division, a load). All
three are computed once per node, sources first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from ftrace import dtypes
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.lower.kernel import affine_index as ix, ir
from ftrace.lower.kernel.integer_bounds import Interval, fits, interval_of
from ftrace.lower.legalize.term import RARE
from ftrace.trace.graph import Node, Op, constant_value, substitute, toposort, walk
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.sources import const, const_p

#: Indices below it may be computed in 32 bits.
_NARROW = 1 << 31
_HALF = _NARROW // 2
#: Comparisons, and what they are with their operands exchanged.
_EXCHANGED: dict[Op, Op] = {p.lt: p.gt, p.le: p.ge, p.gt: p.lt, p.ge: p.le}


@dataclass(frozen=True, eq=False)
class AccessCondition:
    """A part of what makes an access valid: low <= form < high.

    Attributes:
      nodes: the same as expressions.
      form: None where they are not comparisons of an index with constants.
      low, high: None is no bound.
    """

    nodes: tuple[Node, ...]
    form: ix.Index | None = None
    low: int | None = None
    high: int | None = None


class Bound(NamedTuple):
    """A comparison of an index: form < limit if it is `below`, else limit <= form.

    Attributes:
      form: a sum of terms, without a constant.
    """

    form: ix.Index
    limit: int
    below: bool


class Facts:
    """Facts about the expressions below some roots; `learn` adds more roots.

    Args:
      free: of some expressions what is known otherwise: registers of a lane.
      aligned: do vectors begin at multiples of their length?

    Attributes:
      free: the ranges on which an expression depends.
      affine: of every expression that is an index.
      interval: of every integer; None if it may be anything.
      rare: by their condition, the selects whose first value is rarely taken.
    """

    def __init__(
        self,
        roots: list[Node],
        free: Mapping[Node, frozenset[Node]] = MappingProxyType({}),
        aligned: bool = True,
    ) -> None:
        self.free: dict[Node, frozenset[Node]] = dict(free)
        self._vectors_aligned = aligned
        self.affine: dict[Node, ix.Index] = {}
        self.interval: dict[Node, Interval | None] = {}
        self.rare: dict[Node, list[Node]] = {}
        self._conditions: dict[Node, list[AccessCondition]] = {}
        self._strides: dict[tuple[Node, int], dict[Node, int | None]] = {}
        self.learn(roots)

    def learn(self, roots: list[Node]) -> None:
        new = toposort(roots, self.interval)
        ir.add_free_ranges(self.free, new)
        for node in new:
            self.interval[node] = interval_of(node, self.interval)
            if node.arg == RARE:
                self.rare.setdefault(node.src[0], []).append(node)
            if node.dtype is ir.INDEX and node.shape == ():
                self.affine[node] = ix.affine_form(node, self.affine)

    def conditions(self, valid: Node | None) -> list[AccessCondition]:
        """The conditions that together make `valid`."""
        if valid is None:
            return []
        found = self._conditions.get(valid)
        if found is None:
            found = self._conditions[valid] = self._conjuncts(valid)
        return found

    def narrow_form(self, form: ix.Index) -> bool:
        """Do 32 bits hold every value of this sum, and differences of two?"""
        found = ix.bounds_over(form, self.interval.__getitem__)
        return found is not None and found[0] >= -_HALF and found[1] < _HALF

    def constant(self, node: Node) -> int | None:
        """The value of an index that does not vary."""
        form = self.affine.get(node)
        return form.constant if form is not None and not form.pairs else None

    def narrow(self, node: Node) -> bool:
        """Do 32 bits with a sign hold every value of this index?"""
        found = self.interval[node]
        return found is not None and found[0] >= -_NARROW and found[1] < _NARROW

    def stride(self, node: Node, vector: Node, lanes: int) -> int | None:
        """What the index grows by per lane, or None where that is not one number.

        The vector range `vector` is at a multiple of `lanes` in the first lane.
        """
        if vector not in self.free[node]:
            return 0
        known = self._strides.setdefault((vector, lanes), {})
        if node in known:
            return known[node]
        for n in toposort([node], known):
            if n.dtype is ir.INDEX and vector in self.free.get(n, ()):
                known[n] = self._stride(n, vector, lanes)
        return known.get(node)

    def form_stride(self, form: ix.Index, vector: Node, lanes: int) -> int | None:
        """The same of a sum of terms."""
        total = 0
        for atom, coefficient in form.pairs:
            part = self.stride(atom, vector, lanes)
            if part is None:
                return None
            total += coefficient * part
        return total

    def _stride(self, node: Node, vector: Node, lanes: int) -> int | None:
        if node is vector:
            return 1
        form = self.affine[node]
        if node not in form.terms:
            return self.form_stride(form, vector, lanes)
        if node.op not in (p.div, p.rem) or not self._vectors_aligned:
            return None
        # (lanes·a·n + a·lane) div c, where a·lanes divides c: all lanes fall into one.
        top, bottom = node.src
        step, by = self.stride(top, vector, lanes), self.constant(bottom)
        low = self.interval[top]
        if not step or step < 0 or not by or by < 0 or by % (step * lanes):
            return None
        if low is None or low[0] < 0 or not self._is_aligned(top, vector, step * lanes):
            return None
        return 0 if node.op is p.div else step

    def _is_aligned(self, node: Node, vector: Node, by: int) -> bool:
        """Is the first lane's value a multiple of `by`?"""
        form = self.affine[node]
        rest = form.only(lambda atom: atom is not vector)
        if vector not in form.terms or any(vector in self.free[a] for a in rest.terms):
            return False
        return rest.common_divisor() % by == 0

    def bound_of(self, node: Node) -> Bound | None:
        """What a comparison of an index with a constant says."""
        op = node.op
        if op not in _EXCHANGED:
            return None
        left, right = (self._index(s) for s in node.src)
        if left is None or right is None:
            return None
        if not left.pairs:
            left, right, op = right, left, _EXCHANGED[op]
        if right.pairs or not left.pairs:
            return None
        limit = right.constant - left.constant + (op in (p.le, p.gt))
        return Bound(ix.Index(left.pairs, 0), limit, op in (p.lt, p.le))

    def _index(self, node: Node) -> ix.Index | None:
        """An index, also as a number of another integer dtype that holds it."""
        inner = node
        while inner.op is p.cast_p and dtypes.is_integer(inner.dtype):
            (source,) = inner.src
            if not dtypes.is_integer(source.dtype):
                break
            if not fits(inner, self.interval.get(source)):
                break
            inner = source
        if inner.op is const_p and dtypes.is_integer(inner.dtype):
            return ix.constant_index(int(constant_value(inner)))
        return self.affine.get(inner) or self.affine.get(node)

    def _conjuncts(self, valid: Node) -> list[AccessCondition]:
        """The parts of a conjunction; bounds of the same sum are joined."""
        bounds: dict[frozenset[tuple[Node, int]], AccessCondition] = {}
        others: list[AccessCondition] = []
        for node in conjuncts(valid):
            bound = self.bound_of(node)
            if bound is None:
                others.append(AccessCondition((node,)))
                continue
            form, limit, below = bound
            key = frozenset(form.pairs)
            old = bounds.get(key, AccessCondition((), form))
            low, high = old.low, old.high
            if below:
                high = limit if high is None else min(high, limit)
            else:
                low = limit if low is None else max(low, limit)
            if low is not None and high is not None:
                high = max(low, high)  # there may be nothing between them
            bounds[key] = AccessCondition((*old.nodes, node), form, low, high)
        return [*bounds.values(), *others]


def facts_of(kernel: ir.Kernel) -> Facts:
    """Facts about the expressions of a kernel."""
    return Facts([*kernel.roots, *kernel.axes])


def conjuncts(valid: Node) -> Iterator[Node]:
    """The parts of a conjunction, the last one first."""
    found = walk([valid], lambda node: node.src if node.op is p.bit_and else ())
    return (node for node in found if node.op is not p.bit_and)


def index_of(load: Node) -> Node:
    """The index of a load."""
    return load.src[1]


# Expressions of indices, written anew.


def sum_of(terms: Sequence[Node]) -> Node:
    total = const(0, ir.INDEX)
    for term in terms:
        total = p.add(total, term)
    return total


def replace_in_stores(
    stores: Sequence[ir.Store], found: dict[Node, Node]
) -> list[ir.Store]:
    """The stores over other expressions."""
    own = [store.expressions for store in stores]
    new = [dict(zip(e, substitute(e, found), strict=True)) for e in own]
    return [store.over(known) for store, known in zip(stores, new, strict=True)]

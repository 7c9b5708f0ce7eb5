"""Contractions: sums of products whose operands each lack an axis of the other.

    out[i, j] = f(the sum over k of a(i, k) · b(j, k), …)

The *columns* are the axes of b, the one that is contiguous in memory last; the *row*
axis is one of a's. A unit is a block of rows and columns:

    for each block of k:
        panel b[k, j] <- b(j, k)              any expression, turned where it is turned
        panel c[i, j] <- c[i, j] + the sum    in tiles of registers
    out <- f(c)

Blocks of k have a fixed size: the result does not depend on how blocks are shared.
Sums along columns without a second operand run in the same way, without panel b.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ftrace.devices.llvm.facts import Facts
from ftrace.devices.llvm.nest import Span, digits, identity, lowest
from ftrace.devices.llvm.staging import Dim, Panel, Stage, sum_of
from ftrace.devices.llvm.target import Target
from ftrace.devices.llvm.tiling import Steps, cut, register_tile
from ftrace.devices.llvm.types import Type
from ftrace.devices.llvm.values import Opened
from ftrace.lower.kernel import (
    INDEX,
    Kernel,
    Store,
    axis_of,
    load_p,
    reduce,
    reduce_p,
)
from ftrace.lower.place import Let, Loop, ReduceLoop, Statement
from ftrace.trace.graph import Node, substitute, toposort
from ftrace.trace.primitives.elementwise import mul, sub
from ftrace.trace.primitives.source import const

#: Vectors in a row of a panel, and rows of it: 768 bytes × 512 stay in L2.
_VECTORS = 12
_DEPTH = 512
#: Rows of a block: each element of panel b is used so often.
_HEIGHT = 256
_LEAST_HEIGHT = 64


@dataclass(frozen=True, eq=False)
class Cut:
    """A list of ranges in blocks.

    Attributes:
      outer: ranges that are run one by one around the blocks.
      split: the range that is cut; None where a block is all of the inner ones.
      size: of a block of `split`.
      inner: ranges that are whole in a block.
    """

    outer: tuple[Node, ...]
    split: Node | None
    size: int
    inner: tuple[Node, ...]

    @property
    def within(self) -> tuple[Node, ...]:
        """The ranges that run in a block, outermost first."""
        return self.inner if self.split is None else (self.split, *self.inner)

    @property
    def extents(self) -> tuple[int, ...]:
        sizes = tuple(axis_of(r).size for r in self.inner)
        return sizes if self.split is None else (self.size, *sizes)

    @property
    def length(self) -> int:
        return prod(self.extents)

    @property
    def blocks(self) -> int:
        return 1 if self.split is None else -(-axis_of(self.split).size // self.size)

    def dims(self, start: Node | None, weight: int = 1) -> list[Dim]:
        """The ranges of a block as the digits of one number."""
        found: list[Dim] = []
        for node, size in zip(self.within[::-1], self.extents[::-1], strict=True):
            found.append(Dim(node, start if node is self.split else None, weight))
            weight *= size
        return found[::-1]


def cut_ranges(ranges: Sequence[Node], length: int, multiple: int = 1) -> Cut:
    """Blocks of about `length`: inner ranges are whole, one is split evenly.

    `multiple` divides the size of a block of the innermost range, if that is split.
    """
    inner: list[Node] = []
    rest = list(ranges)
    width = 1
    while rest and width * axis_of(rest[-1]).size * 3 <= length * 4:
        inner.insert(0, rest.pop())
        width *= axis_of(inner[0]).size
    if not rest or width * 2 > length:
        return Cut(tuple(rest), None, 1, tuple(inner))
    split = rest.pop()
    size = axis_of(split).size
    step = multiple if not inner else 1
    most = max(length // width // step, 1)
    units = -(-size // step)
    each = -(-units // -(-units // most)) * step
    return Cut(tuple(rest), split, each, tuple(inner))


@dataclass(frozen=True, eq=False)
class Contraction:
    """How a kernel runs as a contraction.

    Attributes:
      outer: axes that both operands have, or neither; and rows beyond `row`.
      row: the axis of the tiles' rows; None if there is no second operand.
      columns: the axes of the columns.
      ranges: what is summed over.
      operands: the expressions that stand in panel b.
      reduces: the sums.
    """

    outer: tuple[Node, ...]
    row: Node | None
    columns: tuple[Node, ...]
    ranges: tuple[Node, ...]
    operands: tuple[Node, ...]
    reduces: tuple[Node, ...]


def find_contraction(
    kernel: Kernel, block: Sequence[Statement], facts: Facts
) -> Contraction | None:
    """The kernel as a contraction, if it is one."""
    loop = _only_reduce(kernel, block)
    column = _contiguous_axis(kernel, facts)
    if loop is None or column is None:
        return None
    free = facts.free
    terms = [r.src[0] for r in loop.reduces]
    loads = [n for n in toposort(terms) if n.op is load_p]
    moving = [n for n in loads if column in free[n]]
    if not moving or not all(column in free[r] for r in loop.reduces):
        return None
    right = frozenset[Node]().union(*[free[n] for n in moving])
    left = frozenset[Node]().union(*[free[n] for n in loads if n not in moving])
    axes = [a for a in kernel.axes if axis_of(a).size > 1]
    rows = [a for a in axes if a in left and a not in right]
    columns = [a for a in axes if a in right and a not in left]
    if column not in columns:
        return None
    row = max(rows, key=lambda a: axis_of(a).size) if rows else None
    columns.remove(column)
    columns.append(column)
    outer = tuple(a for a in kernel.axes if a is not row and a not in columns)
    operands = _operands(terms, frozenset(rows), frozenset(columns), facts)
    return Contraction(
        outer, row, tuple(columns), loop.ranges, tuple(operands), tuple(loop.reduces)
    )


def _only_reduce(kernel: Kernel, block: Sequence[Statement]) -> ReduceLoop | None:
    """The one reduce loop of a kernel, inside all of its axes."""
    if kernel.ordered or any(store.combine for store in kernel.stores):
        return None
    while True:
        inner = [s for s in block if not isinstance(s, Let)]
        if len(inner) != 1 or not isinstance(inner[0], Loop):
            break
        block = inner[0].body
    loops = [s for s in block if isinstance(s, ReduceLoop)]
    if len(loops) != 1 or any(isinstance(s, Loop) for s in block):
        return None
    (loop,) = loops
    if not all(isinstance(s, Let) for s in loop.body):
        return None
    return loop if all(axis_of(r).size for r in loop.ranges) else None


def _contiguous_axis(kernel: Kernel, facts: Facts) -> Node | None:
    """The axis along which the first store is contiguous."""
    form = facts.affine[kernel.stores[0].index]
    for axis in reversed(kernel.axes):
        if form.terms.get(axis) == 1 and axis_of(axis).size > 1:
            return axis
    return None


def _operands(
    terms: Sequence[Node], rows: frozenset[Node], columns: frozenset[Node], facts: Facts
) -> list[Node]:
    """The largest expressions that depend on columns and not on rows."""
    found: list[Node] = []
    pending = list(terms)
    seen = set(pending)
    while pending:
        node = pending.pop()
        free = facts.free[node]
        if not free & columns:
            continue
        if not free & rows and node.op.name != "const":
            found.append(node)
            continue
        for source in node.src:
            if source not in seen and source.shape == ():
                seen.add(source)
                pending.append(source)
    return found


def is_plain(node: Node, column: Node, facts: Facts) -> bool:
    """Is it a load that needs no panel: contiguous, and nowhere masked?"""
    if node.op is not load_p or len(node.src) > 2:
        return False
    form = facts.affine[node.src[1]]
    others = [a for a in form.terms if a is not column]
    return form.terms.get(column) == 1 and all(column not in facts.free[a] for a in others)


def is_worthwhile(plan: Contraction, facts: Facts, target: Target) -> bool:
    """Do blocks pay? Small plain products run as well straight from memory."""
    column = plan.columns[-1]
    depth = prod(axis_of(r).size for r in plan.ranges)
    width = prod(axis_of(a).size for a in plan.columns)
    item = max(n.dtype.itemsize for n in plan.operands)
    plain = all(is_plain(n, column, facts) for n in plan.operands)
    bytes_ = depth * width * item
    if plan.row is None:
        long = bytes_ > target.l2 // 2 and depth > 64 and width * item >= 4096
        return plain and len(plan.columns) == 1 and long
    height = axis_of(plan.row).size
    if height < 4 or depth < 4 or width < 4:
        return False
    if not plain:
        return height * depth * width >= 1 << 14
    pitch = _row_bytes(plan, column, facts) * item
    aliased = pitch % 2048 == 0 and bytes_ > target.l1
    return height >= 16 and (bytes_ > target.l2 * 3 // 4 or (aliased and depth > 256))


def _row_bytes(plan: Contraction, column: Node, facts: Facts) -> int:
    """From one row of an operand to the next, in elements."""
    form = facts.affine[plan.operands[0].src[1]]
    return max(abs(form.terms.get(r, 0)) for r in plan.ranges)


class ContractionCode:
    """Emits a contraction into a stage."""

    def __init__(self, plan: Contraction, stage: Stage) -> None:
        self.plan = plan
        self.stage = stage
        self.facts = stage.facts
        target = stage.target
        column = plan.columns[-1]
        plain = all(is_plain(n, column, self.facts) for n in plan.operands)
        self.staged = plan.operands if plan.row is not None else ()
        widest = max(n.dtype.itemsize for n in (*plan.operands, *plan.reduces))
        self.lanes = target.vector_bytes // widest
        vectors = _VECTORS if plan.row is not None else 1 << 30
        self.columns = cut_ranges(plan.columns, vectors * self.lanes, self.lanes)
        self.plain = plain

    def emit(self) -> int:
        raise NotImplementedError

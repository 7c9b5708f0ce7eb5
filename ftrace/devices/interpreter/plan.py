"""What the interpreter knows of a kernel before it runs it.

Which loads and stores are strided views of their buffers, which sums are matrix
products, which values must be computed at all, how large a block of each range may be,
and after which statement a value is needed no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ftrace import dtypes
from ftrace.devices.affine_forms import Affine, affine_forms, intervals
from ftrace.lower.kernel.ir import (
    INDEX,
    Kernel,
    Store,
    axis_of,
    free_ranges,
    load_p,
    param_p,
    reduce_p,
)
from ftrace.lower.kernel.loop_tree import Let, Loop, ReduceLoop, Statement, place
from ftrace.trace.graph import Node

Ranges = tuple[Node, ...]

#: No value that is stored while a kernel runs takes more.
BLOCK_BYTES = 64 << 20

#: Elements that are fetched one by one in the time it takes to copy one run of them.
PATCH_SIZE = 256


class KernelPlan:
    """What is known of a kernel before it runs.

    Attributes:
      kernel: what it evaluates.
      block: the kernel's statements (see `lower/kernel/loop_tree.py`).
      ranges: for each value its ranges, which are the axes of its array.
      affine: the indices that are affine.
      views: the loads and stores that are strided views of their buffers.
      patches: the masked loads that are a few strided views beside zeros.
      contractions: the reduces that are done as matrix products.
      needed: what is computed: no index of a view, no product of a contraction.
      extents: how much of each range one block takes.
      released: the values that nothing needs after a statement.
    """

    def __init__(self, kernel: Kernel, limit: int = BLOCK_BYTES) -> None:
        self.kernel = kernel
        self.block = place(kernel)
        nodes = kernel.nodes
        order = _loop_order(kernel, nodes)
        free = free_ranges([e for store in kernel.stores for e in store.expressions])
        self.ranges = {n: tuple(sorted(free[n], key=order.__getitem__)) for n in nodes}
        self.affine = affine_forms(nodes)
        self.store_ranges = {
            store: _store_ranges(kernel, store, self.ranges) for store in kernel.stores
        }
        self.contractions = {n for n in nodes if self._is_contraction(n)}
        self.views: set[Node | Store] = {
            n
            for n in nodes
            if n.op is load_p and len(n.src) == 2 and n.src[1] in self.affine
        }
        self.views |= {store for store in kernel.stores if self._is_view(store)}
        self.patches = {n for n in nodes if self._is_patched(n)}
        self.needed = self._find_needed()
        self.extents = self._choose_extents(nodes, order, limit)
        self.blocked = {
            r for r, extent in self.extents.items() if extent < axis_of(r).size
        }
        self.written = frozenset(store.buffer for store in kernel.stores)
        self.released: dict[Statement, list[Node]] = {}
        self._find_last_uses(self.block, set())

    def _is_contraction(self, node: Node) -> bool:
        """Is it a sum of a product that is larger than both of its operands?"""
        if node.op is not reduce_p or node.arg != "add":
            return False
        value = node.src[0]
        if value.op.name not in ("mul", "mul_zero") or value.dtype == dtypes.bool_:
            return False
        size = len(self.ranges[value])
        covered = {r for s in value.src for r in self.ranges[s]}
        closed_alone = [r for r in node.src[1:] if r not in covered]
        return not closed_alone and all(len(self.ranges[s]) < size for s in value.src)

    def _is_patched(self, node: Node) -> bool:
        """A masked load at an affine index whose mask is few runs of many elements."""
        if (
            node.op is not load_p
            or len(node.src) == 2
            or node.src[1] not in self.affine
        ):
            return False
        mask = [axis_of(r).size for r in self.ranges[node.src[2]]]
        runs = prod(mask) // max(mask, default=1) if all(mask) else 1
        return runs * PATCH_SIZE <= prod(axis_of(r).size for r in self.ranges[node])

    def _is_view(self, store: Store) -> bool:
        """Does it hit every element once, at an affine index?"""
        form = self.affine.get(store.index)
        if form is None or store.valid is not None or store.combine:
            return False
        found = form.bounds(intervals(form.terms))
        size = self.kernel.buffers[store.buffer].size
        inside = found is not None and 0 <= found[0] <= found[1] < size
        return inside and _each_once(form, self.store_ranges[store])

    def _find_needed(self) -> set[Node]:
        pending: list[Node] = []
        for store in self.kernel.stores:
            viewed = store in self.views
            pending += [store.value] if viewed else store.expressions
        needed: set[Node] = set()
        while pending:
            node = pending.pop()
            if node in needed or node.op is param_p:
                continue
            needed.add(node)
            if node in self.contractions:
                pending += [*node.src[0].src, *node.src[1:]]
            elif node in self.patches:
                pending.append(node.src[2])
            elif node not in self.views:
                pending += node.src
        return needed

    def _find_last_uses(self, block: Sequence[Statement], kept: set[Node]) -> set[Node]:
        """Fills `released` for a block and those inside; the values that it uses.

        Values of the block that are `kept` are used by the loop around it.
        """
        last: dict[Node, Statement] = {}
        for statement in block:
            own = self._operands(statement)
            used = set(own)
            if isinstance(statement, (Loop, ReduceLoop)):
                used |= self._find_last_uses(statement.body, own)
                for node in own.intersection(_defined(statement.body)):
                    self._release(node, statement)
            last.update(dict.fromkeys(used, statement))
        for node in _defined(block):
            if node in last and node not in kept:
                self._release(node, last[node])
        return set(last)

    def _release(self, node: Node, after: Statement) -> None:
        # What does not vary with a blocked range is kept for its next block.
        if self.blocked <= set(self.ranges[node]):
            self.released.setdefault(after, []).append(node)

    def _operands(self, statement: Statement) -> set[Node]:
        """The values that a statement itself uses."""
        if isinstance(statement, Let):
            node = statement.node
            if node not in self.needed or node in self.views:
                return set()
            return {node.src[2]} if node in self.patches else set(node.src)
        if isinstance(statement, Store):
            viewed = statement in self.views
            return {statement.value} if viewed else set(statement.expressions)
        used: set[Node] = set()
        for node in statement.reduces if isinstance(statement, ReduceLoop) else ():
            value = node.src[0]
            used.update(value.src if node in self.contractions else (value,))
        return used

    def _choose_extents(
        self, nodes: Sequence[Node], order: dict[Node, int], limit: int
    ) -> dict[Node, int]:
        """The largest value gives up its outermost range first, until all fit."""
        extents = {r: max(axis_of(r).size, 1) for r in order}
        axes = self.kernel.axes
        values = {(self.ranges[n], n.dtype.itemsize) for n in nodes if n in self.needed}
        values |= {
            (ranges, INDEX.itemsize)
            for store, ranges in self.store_ranges.items()
            if store not in self.views
        }
        while True:
            sizes = [
                (prod(extents[r] for r in ranges) * item, ranges)
                for ranges, item in values
            ]
            size, ranges = max(sizes, default=(0, ()), key=lambda pair: pair[0])
            if size <= limit:
                return extents
            if self.kernel.ordered:
                # Blocks must not change the order of the stores: an axis is cut
                # only where the axes around it run one by one.
                ranges = (*axes, *[r for r in ranges if r not in axes])
            cut = next((r for r in ranges if extents[r] > 1), None)
            if cut is None:
                return extents
            extents[cut] = max(extents[cut] * limit // size, 1)


def _defined(block: Sequence[Statement]) -> list[Node]:
    """The values that are computed in a block itself."""
    found: list[Node] = []
    for statement in block:
        if isinstance(statement, Let):
            found.append(statement.node)
        elif isinstance(statement, ReduceLoop):
            found += statement.reduces
    return found


def _loop_order(kernel: Kernel, nodes: Sequence[Node]) -> dict[Node, int]:
    """The position of each range: the kernel's axes, then those of the reduces."""
    ranges = dict.fromkeys(kernel.axes)
    for node in nodes:
        if node.op is reduce_p:
            ranges.update(dict.fromkeys(node.src[1:]))
    return {r: position for position, r in enumerate(ranges)}


def _store_ranges(kernel: Kernel, store: Store, ranges: dict[Node, Ranges]) -> Ranges:
    """The loops around a store; one that combines runs in every ordered loop."""
    needed = {r for e in store.expressions for r in ranges[e]}
    if store.combine:
        needed |= {a for a in kernel.axes if axis_of(a).number in kernel.ordered}
    return tuple(axis for axis in kernel.axes if axis in needed)


def _each_once(form: Affine, ranges: Ranges) -> bool:
    """Does an affine index hit every element at most once?"""
    reach = 0
    steps = sorted((abs(form.terms.get(r, 0)), axis_of(r).size) for r in ranges)
    for step, size in steps:
        if size > 1 and step <= reach:
            return False
        reach += step * (size - 1)
    return True

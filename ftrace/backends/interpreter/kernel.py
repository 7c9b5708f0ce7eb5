"""A kernel evaluated in NumPy: the meaning of the loops, as directly as NumPy says it.

Every range is one NumPy axis. A value is an array with an axis for each range that it
depends on and for no other, in the order of the loops; operands are broadcast to each
other where they meet. A reduce is a ufunc's `reduce` over the axes of its ranges. A
load is a strided view of the buffer where its index is affine, and fancy indexing
elsewhere; a store is the same on the left side of an assignment.

Loops run over *blocks* of their ranges, so large that one block is nearly always
everything, and so small that no value exceeds `BLOCK_BYTES`. The sum of a product over
ranges of both its factors is a matrix product: the product itself is never stored.

The plan of a kernel is made before it runs: which loads and stores are strided views,
which sums are matrix products, which values must be computed at all, how large a block
of each range may be, and after which statement a value is needed no more.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import GraphError
from ftrace.lower.kernel import affine_index as ix, ir
from ftrace.lower.kernel.integer_bounds import intervals
from ftrace.lower.kernel.loop_tree import Let, Loop, ReduceLoop, Statement, place
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.numpy_contraction import PreparedProduct
from ftrace.trace.primitives import minmax
from ftrace.trace.primitives.blocked_sums import sum_along
from ftrace.trace.primitives.primitive import Primitive
from ftrace.trace.primitives.reduction import identity_of

Array = Any  # of NumPy, whose stubs leave too much unknown
Ranges = tuple[Node, ...]

#: No value that is stored while a kernel runs takes more.
BLOCK_BYTES = 64 << 20


class KernelPlan:
    """What is known of a kernel before it runs.

    Attributes:
      kernel: what it evaluates.
      block: the kernel's statements (see `lower/kernel/loop_tree.py`).
      ranges: for each value its ranges, which are the axes of its array.
      affine: what each index is a sum of.
      views: the loads and stores that are strided views of their buffers.
      contractions: the reduces that are done as matrix products.
      needed: what is computed: no index of a view, no product of a contraction.
      extents: how much of each range one block takes.
      released: the values that nothing needs after a statement.
    """

    def __init__(self, kernel: ir.Kernel, limit: int = BLOCK_BYTES) -> None:
        self.kernel = kernel
        self.block = place(kernel)
        nodes = kernel.nodes
        order = _loop_order(kernel, nodes)
        free = ir.free_ranges(kernel.roots)
        self.ranges = {n: tuple(sorted(free[n], key=order.__getitem__)) for n in nodes}
        self.affine = ix.affine_forms(nodes)
        self.store_ranges = {
            store: _store_ranges(kernel, store, self.ranges) for store in kernel.stores
        }
        self.contractions = {n for n in nodes if self._is_contraction(n)}
        self.views: set[Node | ir.Store] = {
            n
            for n in nodes
            if n.op is ir.load_p and len(n.src) == 2
            if ix.is_affine(self.affine[n.src[1]])
        }
        self.views |= {store for store in kernel.stores if self._is_view(store)}
        self.needed = self._find_needed()
        self.extents = self._choose_extents(nodes, order, limit)
        self.written = frozenset(store.buffer for store in kernel.stores)
        self.released: dict[Statement, list[Node]] = {}
        self._find_last_uses(self.block, set())

    def _is_contraction(self, node: Node) -> bool:
        """Is it a sum of a product that is larger than both of its operands?"""
        if node.op is not ir.reduce_p or node.arg != "add":
            return False
        value = node.src[0]
        if value.op.name not in ("mul", "mul_zero") or value.dtype == dtypes.bool_:
            return False
        size, closed = len(self.ranges[value]), set(node.src[1:])
        return all(
            closed <= set(self.ranges[s]) and len(self.ranges[s]) < size
            for s in value.src
        )

    def _is_view(self, store: ir.Store) -> bool:
        """Does it hit every element once, at an affine index?"""
        form = self.affine[store.index]
        if not ix.is_affine(form) or store.valid is not None or store.combine:
            return False
        found = ix.bounds_over(form, intervals(form.terms).__getitem__)
        size = self.kernel.buffers[store.buffer].size
        inside = found is not None and 0 <= found[0] <= found[1] < size
        terms, ranges = form.terms, self.store_ranges[store]
        sizes = [(terms.get(r, 0), ix.size_of(r)) for r in ranges]
        return inside and ix.tells_apart([s for s in sizes if s[1] > 1])

    def _find_needed(self) -> set[Node]:
        pending: list[Node] = []
        for store in self.kernel.stores:
            viewed = store in self.views
            pending += [store.value] if viewed else store.expressions
        needed: set[Node] = set()
        while pending:
            node = pending.pop()
            if node in needed or node.op is ir.param_p:
                continue
            needed.add(node)
            if node in self.contractions:
                pending += [*node.src[0].src, *node.src[1:]]
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
                released = own.intersection(_defined(statement.body))
                self.released.setdefault(statement, []).extend(released)
            last.update(dict.fromkeys(used, statement))
        for node in _defined(block):
            if node in last and node not in kept:
                self.released.setdefault(last[node], []).append(node)
        return set(last)

    def _operands(self, statement: Statement) -> set[Node]:
        """The values that a statement itself uses."""
        if isinstance(statement, Let):
            node = statement.node
            unread = node not in self.needed or node in self.views
            return set() if unread else set(node.src)
        if isinstance(statement, ir.Store):
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
        extents = {r: max(ir.axis_of(r).size, 1) for r in order}
        axes = self.kernel.axes
        values = {(self.ranges[n], n.dtype.itemsize) for n in nodes if n in self.needed}
        values |= {
            (ranges, ir.INDEX.itemsize)
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


def _loop_order(kernel: ir.Kernel, nodes: Sequence[Node]) -> dict[Node, int]:
    """The position of each range: the kernel's axes, then those of the reduces."""
    ranges = dict.fromkeys(kernel.axes)
    for node in nodes:
        if node.op is ir.reduce_p:
            ranges.update(dict.fromkeys(node.src[1:]))
    return {r: position for position, r in enumerate(ranges)}


def _store_ranges(
    kernel: ir.Kernel, store: ir.Store, ranges: dict[Node, Ranges]
) -> Ranges:
    """The loops around a store; one that combines runs in every ordered loop."""
    needed = {r for e in store.expressions for r in ranges[e]}
    if store.combine:
        needed |= kernel.ordered_axes
    return tuple(axis for axis in kernel.axes if axis in needed)


_COMBINE: dict[str, Any] = {
    "add": np.add,
    "mul": np.multiply,
    "max": minmax.maximum,
    "min": minmax.minimum,
}


class _Product(PreparedProduct):
    """A sum of products of blocks; where it is no product of matrices it is stored."""

    def stored(self, x: Array, y: Array) -> Callable[[Array, Array], Array]:
        _, axes, out = self._given
        return lambda x, y: sum_along(np.multiply(x, y), axes, out.dtype)


class Evaluation:
    """One run of a kernel on the bytes of its buffers.

    Args:
      plan: of the kernel.
      memories: for each buffer its bytes, as an array of uint8.
      aliased: a buffer that is written overlaps one that is read, so that a view
        of what was read could change under our hands.
    """

    def __init__(
        self, plan: KernelPlan, memories: Sequence[Array], aliased: bool
    ) -> None:
        self.plan = plan
        self.memories = memories
        self.buffers = [
            memory[: spec.size * spec.dtype.itemsize].view(spec.dtype)
            for memory, spec in zip(memories, plan.kernel.buffers, strict=True)
        ]
        self.aliased = aliased
        self.values: dict[Node, Array] = {}
        self.start = dict.fromkeys(plan.extents, 0)
        self.extent = {r: min(e, ir.axis_of(r).size) for r, e in plan.extents.items()}

    def run(self) -> None:
        with np.errstate(all="ignore"):
            self._run_block(self.plan.block)

    def _run_block(self, block: Sequence[Statement]) -> None:
        """Statements in order; it recurses as deep as loops are nested, no deeper."""
        for statement in block:
            if isinstance(statement, Let):
                if statement.node in self.plan.needed:
                    self.values[statement.node] = self._evaluate(statement.node)
            elif isinstance(statement, ir.Store):
                self._store(statement)
            elif isinstance(statement, Loop):
                for _ in self._blocks((statement.axis,)):
                    self._run_block(statement.body)
            else:
                self._run_reduce(statement)
            for node in self.plan.released.get(statement, ()):
                self.values.pop(node, None)

    def _blocks(self, ranges: Ranges) -> Iterator[None]:
        """Sets `start` and `extent` to each block of the ranges in turn."""
        steps = [
            [(r, start) for start in range(0, ir.axis_of(r).size, self.plan.extents[r])]
            for r in ranges
        ]
        for corner in itertools.product(*steps):
            for r, start in corner:
                self.start[r] = start
                self.extent[r] = min(self.plan.extents[r], ir.axis_of(r).size - start)
            yield

    # Values.

    def _value(self, node: Node, ranges: Ranges) -> Array:
        """The value of a node with an axis, of size 1 if need be, for each range."""
        if node.op is ir.range_p:
            first = self.start[node]
            value = np.arange(first, first + self.extent[node], dtype=ir.INDEX)
        else:
            value = self.values[node]
        have = self.plan.ranges[node]
        if have == ranges or not have:
            return value
        return value[tuple(slice(None) if r in have else None for r in ranges)]

    def _shape(self, ranges: Ranges) -> tuple[int, ...]:
        return tuple(self.extent[r] for r in ranges)

    def _evaluate(self, node: Node) -> Array:
        if node.op is ir.load_p:
            return self._load(node)
        ranges = self.plan.ranges[node]
        operands = [self._value(s, ranges) for s in node.src]
        if node.op is ir.fma_p:
            a, b, c = operands
            return np.asarray(a * b + c)
        record = node.op
        assert isinstance(record, Primitive), f"{node!r} has no meaning in a kernel"
        if node.op.name == "complex":  # it takes operands of one shape
            operands = list(np.broadcast_arrays(*operands))
        result = np.asarray(record.numpy(node.aval, node.arg, *operands))
        return result.astype(node.dtype, copy=False)

    # Memory.

    def _load(self, node: Node) -> Array:
        number: Any = node.src[0].arg
        index = node.src[1]
        ranges = self.plan.ranges[node]
        buffer = self.buffers[number]
        if node in self.plan.views:
            view = self._view(node, number, self.plan.affine[index], ranges)
            copied = self.aliased or number in self.plan.written
            return view.copy() if copied else view
        at = self._value(index, ranges)
        if len(node.src) == 2:
            return buffer[self._check_bounds(node, at, buffer.size)]
        valid = self._value(node.src[2], ranges)
        if not buffer.size:
            return np.zeros(self._shape(ranges), node.dtype)
        at = self._check_bounds(node, np.where(valid, at, 0), buffer.size)
        return np.where(valid, buffer[at], np.zeros((), node.dtype))

    def _view(self, node: Node, number: int, form: ix.Index, ranges: Ranges) -> Array:
        """The elements of a buffer at an affine index, without a copy."""
        spec = self.plan.kernel.buffers[number]
        item = spec.dtype.itemsize
        shape = self._shape(ranges)
        if 0 in shape:
            return np.empty(shape, spec.dtype)
        strides = [form.terms.get(r, 0) for r in ranges]
        first = form.constant + sum(c * self.start[r] for r, c in form.terms.items())
        ends = [c * (n - 1) for c, n in zip(strides, shape, strict=True)]
        low = first + sum(min(end, 0) for end in ends)
        high = first + sum(max(end, 0) for end in ends)
        if low < 0 or high >= spec.size:
            raise _out_of_bounds(node, low, high, spec.size)
        memory = self.memories[number].data
        return np.ndarray(
            shape, spec.dtype, memory, first * item, [c * item for c in strides]
        )

    def _check_bounds(self, node: Node, index: Array, size: int) -> Array:
        """NumPy takes negative indices from the end; a kernel must not."""
        if index.size and (index.min() < 0 or index.max() >= size):
            raise _out_of_bounds(node, index.min(), index.max(), size)
        return index

    def _store(self, store: ir.Store) -> None:
        ranges = self.plan.store_ranges[store]
        value = self._value(store.value, ranges)
        if store in self.plan.views:
            form = self.plan.affine[store.index]
            self._view(store.value, store.buffer, form, ranges)[...] = value
            return
        shape = self._shape(ranges)
        index = np.broadcast_to(self._value(store.index, ranges), shape).ravel()
        value = np.broadcast_to(value, shape).ravel()
        if store.valid is not None:
            valid = self._value(store.valid, ranges)
            kept = np.broadcast_to(valid, shape).ravel()
            index, value = index[kept], value[kept]
        buffer = self.buffers[store.buffer]
        index = self._check_bounds(store.value, index, buffer.size)
        if store.combine:
            _COMBINE[store.combine].at(buffer, index, value)
        else:
            buffer[index] = value

    # Reduces.

    def _run_reduce(self, loop: ReduceLoop) -> None:
        totals: dict[Node, Array] = {}
        for _ in self._blocks(loop.ranges):
            self._run_block(loop.body)
            for node in loop.reduces:
                part = self._reduce_block(node)
                total = totals.get(node)
                combine = _COMBINE[str(node.arg)]
                totals[node] = part if total is None else combine(total, part)
        for node in loop.reduces:
            total = totals.get(node)
            if total is None:  # a range of size 0
                shape = self._shape(self.plan.ranges[node])
                total = np.full(shape, identity_of(node.arg, node.dtype), node.dtype)
            self.values[node] = np.asarray(total).astype(node.dtype, copy=False)

    def _reduce_block(self, node: Node) -> Array:
        """The reduce over the block of its ranges that `start` and `extent` say."""
        dtype = _accumulator(node)
        if node in self.plan.contractions:
            operands = [self._value(s, self.plan.ranges[s]) for s in node.src[0].src]
            if node.src[0].op.name == "mul" or all(_finite(x) for x in operands):
                return self._contract(node, dtype)
            self.values[node.src[0]] = self._evaluate(node.src[0])
        value = node.src[0]
        closed = node.src[1:]
        absent = tuple(r for r in closed if r not in self.plan.ranges[value])
        ranges = (*absent, *self.plan.ranges[value])
        # A value that does not depend on a range counts once per iteration of it.
        shape = self._shape(absent) + (1,) * (len(ranges) - len(absent))
        array = self._value(value, ranges)
        array = np.broadcast_to(array, np.broadcast_shapes(array.shape, shape))
        axes = tuple(i for i, r in enumerate(ranges) if r in closed)
        if node.arg == "add":
            return sum_along(array, axes, dtype).squeeze(axes)
        return _COMBINE[str(node.arg)].reduce(array, axis=axes, dtype=dtype)

    def _contract(self, node: Node, dtype: np.dtype[Any]) -> Array:
        product = node.src[0]
        ranges = self.plan.ranges[product]
        shape = self._shape(ranges)
        axes = tuple(i for i, r in enumerate(ranges) if r in node.src[1:])
        kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
        x, y = (self._value(s, ranges).astype(dtype, copy=False) for s in product.src)

        multiply = _Product(shape, axes, ShapedArray.of(kept, dtype))
        return multiply(x, y).squeeze(axes)


def _out_of_bounds(node: Node, low: int, high: int, size: int) -> GraphError:
    return GraphError(
        f"a kernel reaches for {low} … {high} of a buffer of {size} elements",
        node.origin,
    )


def _finite(x: Array) -> bool:
    return bool(np.isfinite(x).all())


def _accumulator(node: Node) -> np.dtype[Any]:
    """16-bit floats are added and multiplied in 32 bits."""
    narrow = dtypes.is_half(node.dtype)
    return dtypes.float32 if narrow and node.arg in ("add", "mul") else node.dtype

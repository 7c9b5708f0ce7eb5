"""A kernel evaluated in NumPy: the meaning of the loops, as directly as NumPy says it.

Every range is one NumPy axis. A value is an array with an axis for each range that it
depends on and for no other, in the order of the loops; operands are broadcast to each
other where they meet. A reduce is a ufunc's `reduce` over the axes of its ranges. A
load is a strided view of the buffer where its index is affine, and fancy indexing
elsewhere; a store is the same on the left side of an assignment.

Loops run over *blocks* of their ranges, so large that one block is nearly always
everything, and so small that no value exceeds `BLOCK_BYTES`. The sum of a product is
a matrix product: the product itself is never stored. There

    out[…] = sum over `closed` of a[…]·b[…]

and each axis of an operand is named by the range that it runs over; an operand has no
axis for a range that it does not depend on.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.devices.affine_forms import Affine
from ftrace.devices.interpreter.plan import KernelPlan, Ranges
from ftrace.errors import GraphError
from ftrace.lower.kernel.ir import INDEX, Store, axis_of, fma_p, load_p, range_p
from ftrace.lower.kernel.loop_tree import Let, Loop, ReduceLoop, Statement
from ftrace.trace.graph import Node
from ftrace.trace.numpy_contraction import blas_ready, exact_product, product_of
from ftrace.trace.primitives import minmax
from ftrace.trace.primitives.blocked_sums import sum_along
from ftrace.trace.primitives.primitive import Primitive
from ftrace.trace.primitives.reduction import identity_of

Names = Sequence[Hashable]


def contract(
    a: Array,
    a_ranges: Names,
    b: Array,
    b_ranges: Names,
    closed: Names,
    out: Names,
    dtype: np.dtype[Any],
) -> Array:
    """The sum of a·b over the ranges `closed`, with axes in the order of `out`.

    Args:
      a, b: operands, an axis per range.
      closed: ranges to sum over; each is a range of both operands or of one.
      out: the ranges of the result; each is a range of a or b.
      dtype: in which the products are added.
    """
    a, a_ranges = _sum_alone(a, a_ranges, b_ranges, closed, dtype)
    b, b_ranges = _sum_alone(b, b_ranges, a_ranges, closed, dtype)
    shared = [r for r in out if r in a_ranges and r in b_ranges]
    rows = [r for r in out if r in a_ranges and r not in b_ranges]
    columns = [r for r in out if r in b_ranges and r not in a_ranges]
    inner = [r for r in a_ranges if r in closed]
    sizes = dict(zip(a_ranges, a.shape, strict=True))
    sizes |= dict(zip(b_ranges, b.shape, strict=True))
    left = _matrices(a, a_ranges, shared, rows, inner)
    right = _matrices(b, b_ranges, shared, inner, columns)
    product = matmul(left, right, dtype)
    order = [*shared, *rows, *columns]
    product = product.reshape([sizes[r] for r in order])
    return product.transpose([order.index(r) for r in out])


def _sum_alone(
    x: Array, ranges: Names, other: Names, closed: Names, dtype: np.dtype[Any]
) -> tuple[Array, Names]:
    """Adds along the closed ranges that the other operand does not have."""
    axes = tuple(i for i, r in enumerate(ranges) if r in closed and r not in other)
    if not axes:
        return x, ranges
    kept = [r for i, r in enumerate(ranges) if i not in axes]
    return sum_along(x, axes, dtype).squeeze(axes), kept


def _matrices(
    x: Array, ranges: Names, shared: Names, rows: Names, columns: Names
) -> Array:
    """`x` as a stack of matrices."""
    groups = [[list(ranges).index(r) for r in part] for part in (shared, rows, columns)]
    shape = [prod(x.shape[axis] for axis in group) for group in groups]
    return x.transpose([axis for group in groups for axis in group]).reshape(shape)


def matmul(a: Array, b: Array, dtype: np.dtype[Any]) -> Array:
    """Stacks of matrices multiplied; through BLAS wherever the result is the same."""
    exact = exact_product(a, b) if dtypes.kind(dtype) in "iu" else None
    if exact is not None:
        return exact.astype(dtype)
    a, b = (blas_ready(x.astype(dtype, copy=False)) for x in (a, b))
    return product_of(a, b)(a, b)


Array = Any  # of NumPy, whose stubs leave too much unknown

#: So few elements are reduced one by one.
FEW = 16

_COMBINE: dict[str, Any] = {
    "add": np.add,
    "mul": np.multiply,
    "max": minmax.maximum,
    "min": minmax.minimum,
}


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
        self.computed_at: dict[Node, tuple[int, ...]] = {}
        self.start = dict.fromkeys(plan.extents, 0)
        self.extent = {r: min(e, axis_of(r).size) for r, e in plan.extents.items()}

    def run(self) -> None:
        with np.errstate(all="ignore"):
            self._run_block(self.plan.block)

    def _run_block(self, block: Sequence[Statement]) -> None:
        """Statements in order; it recurses as deep as loops are nested, no deeper."""
        for statement in block:
            if isinstance(statement, Let):
                self._compute(statement.node)
            elif isinstance(statement, Store):
                self._store(statement)
            elif isinstance(statement, Loop):
                for _ in self._blocks((statement.axis,)):
                    self._run_block(statement.body)
            else:
                self._run_reduce(statement)
            for node in self.plan.released.get(statement, ()):
                self.values.pop(node, None)
                self.computed_at.pop(node, None)

    def _blocks(self, ranges: Ranges) -> Iterator[None]:
        """Sets `start` and `extent` to each block of the ranges in turn."""
        steps = [
            [(r, start) for start in range(0, axis_of(r).size, self.plan.extents[r])]
            for r in ranges
        ]
        for corner in itertools.product(*steps):
            for r, start in corner:
                self.start[r] = start
                self.extent[r] = min(self.plan.extents[r], axis_of(r).size - start)
            yield

    # Values.

    def _compute(self, node: Node) -> None:
        if node not in self.plan.needed:
            return
        if self.plan.blocked:
            # Computed already, for this same block of the ranges that it depends on?
            here = tuple(self.start[r] for r in self.plan.ranges[node])
            if self.computed_at.get(node) == here:
                return
            self.computed_at[node] = here
        self.values[node] = self._evaluate(node)

    def _value(self, node: Node, ranges: Ranges) -> Array:
        """The value of a node with an axis, of size 1 if need be, for each range."""
        if node.op is range_p:
            first = self.start[node]
            value = np.arange(first, first + self.extent[node], dtype=INDEX)
        else:
            value = self.values[node]
        have = self.plan.ranges[node]
        if have == ranges or not have:
            return value
        return value[tuple(slice(None) if r in have else None for r in ranges)]

    def _shape(self, ranges: Ranges) -> tuple[int, ...]:
        return tuple(self.extent[r] for r in ranges)

    def _evaluate(self, node: Node) -> Array:
        if node.op is load_p:
            return self._load(node)
        ranges = self.plan.ranges[node]
        operands = [self._value(s, ranges) for s in node.src]
        if node.op is fma_p:
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
        if node in self.plan.patches:
            return self._load_patches(node)
        at = self._value(index, ranges)
        if len(node.src) == 2:
            return buffer[self._checked(node, at, buffer.size)]
        valid = self._value(node.src[2], ranges)
        if not buffer.size:
            return np.zeros(self._shape(ranges), node.dtype)
        at = self._checked(node, np.where(valid, at, 0), buffer.size)
        return np.where(valid, buffer[at], np.zeros((), node.dtype))

    def _load_patches(self, node: Node) -> Array:
        """Zeros, and a view for each box in which the mask is true."""
        number: Any = node.src[0].arg
        buffer, index, valid = node.src
        ranges = self.plan.ranges[node]
        form = self.plan.affine[index]
        masked = self.plan.ranges[valid]
        result = np.zeros(self._shape(ranges), buffer.dtype)
        for corner in _boxes(self._value(valid, masked)):
            box = dict(zip(masked, corner, strict=True))
            place = tuple(box.get(r, slice(None)) for r in ranges)
            result[place] = self._view(node, number, form, ranges, box)
        return result

    def _view(
        self,
        node: Node,
        number: int,
        form: Affine,
        ranges: Ranges,
        box: Mapping[Node, slice] = MappingProxyType({}),
    ) -> Array:
        """The elements of a buffer at an affine index, without a copy.

        Of the ranges in `box` only that part is taken.
        """
        spec = self.plan.kernel.buffers[number]
        item = spec.dtype.itemsize
        starts = {r: box[r].start if r in box else 0 for r in ranges}
        shape = tuple(
            box[r].stop - box[r].start if r in box else self.extent[r] for r in ranges
        )
        if 0 in shape:
            return np.empty(shape, spec.dtype)
        strides = [form.terms.get(r, 0) for r in ranges]
        first = form.constant
        for r, coefficient in form.terms.items():
            first += coefficient * (self.start[r] + starts[r])
        ends = [c * (n - 1) for c, n in zip(strides, shape, strict=True)]
        low = first + sum(min(end, 0) for end in ends)
        high = first + sum(max(end, 0) for end in ends)
        if low < 0 or high >= spec.size:
            raise _out_of_bounds(node, low, high, spec.size)
        memory = self.memories[number].data
        return np.ndarray(
            shape, spec.dtype, memory, first * item, [c * item for c in strides]
        )

    def _checked(self, node: Node, index: Array, size: int) -> Array:
        """NumPy takes negative indices from the end; a kernel must not."""
        if index.size and (index.min() < 0 or index.max() >= size):
            raise _out_of_bounds(node, index.min(), index.max(), size)
        return index

    def _store(self, store: Store) -> None:
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
        index = self._checked(store.value, index, buffer.size)
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
                return self._contract(node, operands, dtype)
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
        return _reduce(_COMBINE[str(node.arg)], array, axes, dtype)

    def _contract(
        self, node: Node, operands: list[Array], dtype: np.dtype[Any]
    ) -> Array:
        x, y = node.src[0].src
        ranges = self.plan.ranges
        return contract(
            operands[0], ranges[x], operands[1], ranges[y],
            closed=node.src[1:], out=ranges[node], dtype=dtype,
        )  # fmt: skip


def _reduce(
    ufunc: Any, array: Array, axes: tuple[int, ...], dtype: np.dtype[Any]
) -> Array:
    """`ufunc.reduce`; over a few elements one by one, where NumPy's loop is slow."""
    count = prod(array.shape[axis] for axis in axes)
    if not 1 < count <= FEW or array.size < FEW * count:
        if ufunc is np.add:
            return sum_along(array, axes, dtype).squeeze(axes)
        return ufunc.reduce(array, axis=axes, dtype=dtype)
    parts = np.moveaxis(array, axes, range(len(axes)))
    corners: Any = np.ndindex(*parts.shape[: len(axes)])
    total = parts[next(corners)].astype(dtype)
    for corner in corners:
        ufunc(total, parts[corner], out=total, dtype=dtype)
    if ufunc is np.add:
        total += dtype.type(0)  # a sum begins with +0: of -0 alone it is +0
    return total


def _boxes(mask: Array) -> Iterator[tuple[slice, ...]]:
    """Where a mask is true: runs along its longest axis."""
    if mask.ndim == 0:
        yield from [()] if mask else []
        return
    axis = int(np.argmax(mask.shape))
    rows = np.moveaxis(mask, axis, -1)
    corners: Any = np.ndindex(*rows.shape[:-1])
    for corner in corners:
        edges: Any = np.flatnonzero(np.diff(rows[corner], prepend=False, append=False))
        for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            box = [slice(i, i + 1) for i in corner]
            box.insert(axis, slice(first, last))
            yield tuple(box)


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

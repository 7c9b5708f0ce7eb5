"""Random programs: graphs over every family of primitives, drawn by hypothesis."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ftrace import dtypes
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Graph, Node
from ftrace.trace.primitives import elementwise as e, movement as m, reduction as r
from ftrace.trace.primitives.broadcast import expand, reduce_sum, reduce_sum_p
from ftrace.trace.primitives.indexing import gather, scatter
from ftrace.trace.primitives.sources import const, iota, variable

UNARY = (e.sin, e.tanh, e.neg, e.absolute, e.exp, e.cos, e.logistic, e.atan)
BINARY = (e.add, e.sub, e.mul, e.maximum, e.minimum, e.mul_zero)
SIZES = (1, 1, 2, 3, 4, 5, 7)
LIMIT = 600  # elements of one value


@dataclass
class Program:
    """Values so far, and how each new one is drawn from them."""

    draw: Any
    values: list[Node] = field(default_factory=list)
    inputs: list[Node] = field(default_factory=list)

    def input(self, shape: tuple[int, ...], dtype: Any = dtypes.float32) -> Node:
        node = variable(ShapedArray.of(shape, dtype), 0, len(self.inputs))
        self.inputs.append(node)
        return node

    def pick(self, strategy: Any) -> Any:
        return self.draw(strategy)

    def value(self) -> Node:
        """Mostly a recent one, so that programs grow deep."""
        recent = self.values if self.pick(st.integers(0, 4)) == 0 else self.values[-3:]
        return self.pick(st.sampled_from(recent))

    def axis(self, x: Node) -> int:
        return self.pick(st.integers(0, x.ndim - 1))

    def step(self) -> None:
        kinds = [
            self.unary, self.binary, self.permute, self.reshape, self.expand,
            self.pad, self.shrink, self.stride, self.shear, self.reduce, self.spread,
            self.gather, self.scatter, self.product, self.select, self.unary,
            self.binary, self.spread, self.spread, self.binary,
        ]  # fmt: skip
        made = self.pick(st.sampled_from(kinds))(self.value())
        if made is not None and 0 < made.size <= LIMIT and made.ndim <= 5:
            self.values.append(made)

    def unary(self, x: Node) -> Node:
        op = self.pick(st.sampled_from(UNARY))
        return op(e.sin(x)) if op is e.exp else op(x)

    def like(self, x: Node) -> Node:
        same = [v for v in self.values if v.shape == x.shape]
        return self.pick(st.sampled_from(same))

    def binary(self, x: Node) -> Node:
        return self.pick(st.sampled_from(BINARY))(x, self.like(x))

    def select(self, x: Node) -> Node:
        y = self.like(x)
        if x.ndim and self.pick(st.booleans()):
            axis = self.axis(x)
            position = e.cast(iota(dtypes.int32, x.shape, axis), dtypes.float32)
            return e.select(e.lt(position, e.const_like(x, 2)), x, y)
        return e.select(e.lt(x, y), x, const(0.5, dtypes.float32, x.shape))

    def permute(self, x: Node) -> Node:
        return m.permute(x, tuple(self.pick(st.permutations(range(x.ndim)))))

    def reshape(self, x: Node) -> Node:
        sizes: list[int] = []
        rest = x.size
        while rest > 1:
            factors = [f for f in range(2, rest + 1) if rest % f == 0]
            sizes.append(self.pick(st.sampled_from(factors)))
            rest //= sizes[-1]
        if self.pick(st.booleans()):
            sizes.insert(self.pick(st.integers(0, len(sizes))), 1)
        return m.reshape(x, tuple(sizes))

    def expand(self, x: Node) -> Node:
        size = self.pick(st.sampled_from(SIZES))
        where = self.pick(st.integers(0, x.ndim))
        x = m.reshape(x, (*x.shape[:where], 1, *x.shape[where:]))
        return expand(x, (*x.shape[:where], size, *x.shape[where + 1 :]))

    def pad(self, x: Node) -> Node:
        small = st.integers(0, 2)
        pads = tuple(
            (self.pick(small), self.pick(small), self.pick(st.integers(0, 1)))
            for _ in x.shape
        )
        return m.pad(x, pads)

    def shrink(self, x: Node) -> Node:
        bounds: list[tuple[int, int]] = []
        for n in x.shape:
            start = self.pick(st.integers(0, n - 1))
            bounds.append((start, self.pick(st.integers(start + 1, n))))
        return m.shrink(x, tuple(bounds))

    def stride(self, x: Node) -> Node:
        steps = st.sampled_from((1, 1, -1, 2, -2, 3))
        return m.stride(x, tuple(self.pick(steps) for _ in x.shape))

    def shear(self, x: Node) -> Node | None:
        if x.ndim < 2:
            return None
        axis, window = self.pick(st.permutations(range(x.ndim)))[:2]
        step, dilation = self.pick(st.integers(1, 2)), self.pick(st.integers(1, 2))
        size = self.pick(st.integers(1, 6))
        op = self.pick(st.sampled_from((m.shear_p, m.unshear_p)))
        return op(x, arg=m.Shear(axis, window, step, dilation, size))

    def axes(self, x: Node) -> tuple[int, ...]:
        return tuple(a for a in range(x.ndim) if self.pick(st.booleans()))

    def reduce(self, x: Node) -> Node:
        axes = self.axes(x)
        op = self.pick(st.sampled_from((reduce_sum_p, r.reduce_max_p, r.reduce_min_p)))
        return r.reduce(op, x, axes)

    def spread(self, x: Node) -> Node:
        """A reduce, back in the shape of its operand: rows as in a softmax."""
        reduced = self.reduce(x)
        other = expand(reduced, x.shape)
        return self.pick(st.sampled_from(BINARY))(x, other)

    def indices(self, shape: tuple[int, ...], size: int, low: int = 0) -> Node:
        node = self.input(shape, dtypes.int32)
        self.bounds[node] = (low, size)
        return node

    bounds: dict[Node, tuple[int, int]] = field(default_factory=dict)

    def gather(self, x: Node) -> Node | None:
        if x.ndim == 0:
            return None
        axis = self.axis(x)
        shape = tuple(self.pick(st.lists(st.sampled_from(SIZES), max_size=2)))
        return gather(x, [self.indices(shape, x.shape[axis])], (axis,))

    def scatter(self, x: Node) -> Node | None:
        if x.ndim == 0:
            return None
        axis = self.axis(x)
        shape = tuple(self.pick(st.lists(st.sampled_from(SIZES), max_size=1)))
        index = self.indices(shape, x.shape[axis] + 1, -1)
        rest = tuple(n for a, n in enumerate(x.shape) if a != axis)
        wanted = shape + rest
        found = [v for v in self.values if v.shape == wanted]
        updates = self.pick(st.sampled_from(found)) if found else self.input(wanted)
        kind = self.pick(st.sampled_from(("add", "set", "max")))
        return scatter(x, updates, [index], (axis,), kind)

    def product(self, x: Node) -> Node | None:
        """A matrix product with a second value of two axes."""
        pairs = [
            v
            for v in self.values
            if v.ndim == 2 and x.ndim == 2 and v.shape[0] == x.shape[1]
        ]
        if not pairs:
            return None
        y = self.pick(st.sampled_from(pairs))
        full = (x.shape[0], y.shape[1], x.shape[1])
        left = expand(m.reshape(x, (full[0], 1, full[2])), full)
        right = m.reshape(m.permute(y, (1, 0)), (1, full[1], full[2]))
        return m.reshape(reduce_sum(e.mul(left, expand(right, full)), (2,)), full[:2])


@st.composite
def programs(draw: Any, steps: int = 12) -> tuple[Graph, list[Any]]:
    """(graph, arrays): a random graph of at most three outputs, and its arguments."""
    program = Program(draw)
    for _ in range(draw(st.integers(1, 3))):
        shape = tuple(draw(st.lists(st.sampled_from(SIZES), max_size=3)))
        program.values.append(program.input(shape))
    for _ in range(draw(st.integers(min(steps, 6), steps))):
        program.step()
    count = draw(st.integers(1, 3))
    last = program.values[-count:]
    outputs = last + [program.value() for _ in range(draw(st.integers(0, 1)))]
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    arrays: list[Any] = []
    for node in program.inputs:
        if node in program.bounds:
            low, high = program.bounds[node]
            arrays.append(rng.integers(low, high, node.shape).astype(np.int32))
        else:
            arrays.append(rng.uniform(-2, 2, node.shape).astype(np.float32))
    return Graph(tuple(program.inputs), tuple(outputs)), arrays

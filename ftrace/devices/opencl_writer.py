"""The text of a kernel in OpenCL C: its placed loops, with each axis in its role.

    const int i0 = get_group_id(0);                  a group per row
    float s2 = -INFINITY;                            its lanes reduce it together
    for (int t = 0; t < 8; ++t) { … }
    …
    for (int i1 = lid; i1 < 1000; i1 += 128)         and share the axis inside
      b1[…] = …;

Index arithmetic is done in int where every value fits, in long elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import prod

import numpy as np

from ftrace import dtypes
from ftrace.devices.affine import affine_forms, index_bounds
from ftrace.devices.opencl_launch import Launch, Traits, choose_launch
from ftrace.devices.opencl_scalars import (
    C_TYPES,
    combine,
    expression,
    is_short_float,
    literal,
    narrow,
    widen,
)
from ftrace.lower.kernel import Kernel, Store, axis_of, load_p, param_p
from ftrace.lower.place import Let, Loop, ReduceLoop, Statement, place
from ftrace.trace.graph import Node, constant_value, toposort

#: A sum longer than this is added up in blocks of `SUM_BLOCK`, for its rounding error.
LONG_SUM = 1024
SUM_BLOCK = 256

_INT_LIMIT = 1 << 31
_COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "cast"))


Sizes = tuple[tuple[int, ...], tuple[int, ...]]


class Writer:
    """The text of one kernel while it is written.

    Attributes:
      names: how each value that has been computed is written.
      used: the helper functions that were called.
      local: declarations of local memory.
    """

    def __init__(self, kernel: Kernel, traits: Traits) -> None:
        self.kernel = kernel
        self.traits = traits
        self.block = place(kernel)
        nodes = kernel.nodes
        self.forms = affine_forms(nodes)
        self.ints = {
            node
            for node, (low, high) in index_bounds(nodes).items()
            if -_INT_LIMIT < low and high < _INT_LIMIT
        }
        self.launch = Launch({})
        self.alone = False  # inside a reduce that the lanes share
        self.names: dict[Node, str] = {}
        self.used: set[str] = set()
        self.local: list[str] = []
        self.lines: list[str] = []
        self.indent = 1
        self.counter = 0

    # Text.

    def line(self, text: str) -> None:
        self.lines.append("  " * self.indent + text)

    @contextmanager
    def braces(self, head: str) -> Iterator[None]:
        """A block `head { … }`."""
        self.line(f"{head} {{" if head else "{")
        self.indent += 1
        yield
        self.indent -= 1
        self.line("}")

    def fresh(self, prefix: str = "v") -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    # Values.

    def c_type(self, node: Node) -> str:
        return "int" if node in self.ints else C_TYPES[node.dtype]

    def let(self, node: Node) -> None:
        """Computes a node into a new variable; a constant is written where it is used."""
        if node.op.name == "const":
            value = constant_value(node)
            as_int = node in self.ints
            self.names[node] = literal(value, dtypes.int32 if as_int else node.dtype)
            return
        text = self.load(node) if node.op is load_p else self.compute(node)
        name = self.fresh()
        self.line(f"const {self.c_type(node)} {name} = {text};")
        self.names[node] = name

    def compute(self, node: Node) -> str:
        operands: list[str] = []
        plain = node in self.ints or node.op.name in _COMPARISONS
        for source in node.src:
            name = self.names[source]
            widened = source in self.ints and not plain
            operands.append(f"(long){name}" if widened else name)
        if node in self.ints:
            return _int_expression(node, operands)
        return expression(node, operands, self.used)

    def load(self, node: Node) -> str:
        number = node.src[0].arg
        element = f"b{number}[{self.names[node.src[1]]}]"
        if len(node.src) == 2:
            return element
        return f"{self.names[node.src[2]]} ? {element} : {literal(0, node.dtype)}"

    def values_below(
        self, roots: Iterable[Node], given: dict[Node, str]
    ) -> dict[Node, str]:
        """Computes the roots and what they need here, with names given for some."""
        outer = self.names
        self.names = dict(given)
        for node in _needed(roots, given):
            if node.op is not param_p:
                self.let(node)
        found, self.names = self.names, outer
        return found

    # Loops.

    def write_loops(self) -> Sizes:
        """The kernel in the roles that `choose_launch` gives its axes."""
        self.launch = choose_launch(self.kernel, self.block, self.forms, self.traits)
        if self.launch.lanes:
            sizes = self._open_group()
        else:
            sizes = self.open_items(self.launch.axes("item"))
        self._write(self.block, 0)
        return sizes

    def _open_group(self) -> Sizes:
        lanes = self.launch.lanes
        axes = self.launch.axes("group")
        self.line("const int lid = get_local_id(0);")
        self.unflatten("get_group_id(0)", axes)
        count = prod(axis_of(axis).size for axis in axes)
        return (max(count, 1) * lanes,), (lanes,)

    def open_items(self, axes: tuple[Node, ...]) -> Sizes:
        """Defines the axes by the global ids: the innermost first, then all others."""
        sizes = [axis_of(axis).size for axis in axes]
        if len(axes) > 1 and sizes[-1] >= 8:
            counts = sizes[-1], prod(sizes[:-1])
            groups = axes[-1:], axes[:-1]
        else:
            counts, groups = (prod(sizes),), (axes,)
        local = _local_sizes(counts, self.traits)
        padded: list[int] = []
        for dimension, (count, part) in enumerate(zip(counts, groups, strict=True)):
            width = local[dimension]
            padded.append(-(-max(count, 1) // width) * width)
            if padded[-1] != count:
                self.line(f"if (get_global_id({dimension}) >= {count}) return;")
            self.unflatten(f"get_global_id({dimension})", part)
        return tuple(padded), local

    def unflatten(self, position: str, axes: Sequence[Node]) -> None:
        """Defines the axes by one number that runs over all of them, row-major."""
        sizes = [axis_of(axis).size for axis in axes]
        if not axes:
            return
        if len(axes) == 1:
            self.define(axes[0], position)
            return
        kind = "int" if prod(sizes) < _INT_LIMIT else "long"
        whole = self.fresh("g")
        self.line(f"const {kind} {whole} = {position};")
        below = 1
        for number in reversed(range(len(axes))):
            text = f"{whole} / {below}" if below > 1 else whole
            if number:
                text = f"({text}) % {sizes[number]}" if below > 1 else f"{text} % {sizes[number]}"
            self.define(axes[number], text)
            below *= max(sizes[number], 1)

    def define(self, axis: Node, text: str) -> None:
        """Names a range; `text` is its value."""
        name = self.range_name(axis)
        self.line(f"const {self.c_type(axis)} {name} = {text};")

    def range_name(self, axis: Node) -> str:
        given = axis_of(axis)
        name = f"{'r' if given.reduced else 'i'}{given.number}"
        self.names[axis] = name
        if given.size < _INT_LIMIT:
            self.ints.add(axis)
        return name

    def _write(self, block: Sequence[Statement], depth: int) -> None:
        """Statements in order; `depth` axes are around them."""
        for statement in block:
            if isinstance(statement, Let):
                self.let(statement.node)
            elif isinstance(statement, Store):
                self._guarded_store(statement, depth)
            elif isinstance(statement, ReduceLoop):
                self._write_reduce(statement, depth)
            else:
                self._write_axis(statement, depth)

    def _write_axis(self, loop: Loop, depth: int) -> None:
        role = self.launch.roles[loop.axis]
        if role in ("item", "group"):
            self._write(loop.body, depth + 1)
            return
        if role == "lane":
            axes, body = _nested(loop)
            count = prod(axis_of(axis).size for axis in axes)
            if len(axes) == 1 or len(axes) == len(self.launch.axes("lane")):
                at = self.fresh("t")
                head = f"for (int {at} = lid; {at} < {count}; {at} += {self.launch.lanes})"
                with self.braces(head):
                    self.unflatten(at, axes)
                    self._write(body, depth + len(axes))
                return
            if not self._is_innermost(loop):
                role = "serial"
        with self.braces(self.for_loop(loop.axis)):
            self._write(loop.body, depth + 1)

    def _is_innermost(self, loop: Loop) -> bool:
        return loop.axis is self.kernel.axes[-1]

    def for_loop(self, axis: Node, start: str = "0", stop: str = "") -> str:
        name = self.range_name(axis)
        stop = stop or str(axis_of(axis).size)
        return f"for ({self.c_type(axis)} {name} = {start}; {name} < {stop}; ++{name})"

    # Stores.

    def _guarded_store(self, store: Store, depth: int) -> None:
        """A store outside some axes: one of the items that share it does it."""
        inner = self.kernel.axes[depth:]
        roles = self.launch.roles
        guards = [f"{self.names[axis]} == 0" for axis in inner if roles[axis] == "item"]
        if self.launch.lanes and not any(
            roles[axis] == "lane" for axis in self.kernel.axes[:depth]
        ):
            guards.append("lid == 0")
        if guards:
            with self.braces(f"if ({' && '.join(guards)})"):
                self.store(store)
        else:
            self.store(store)

    def store(self, store: Store) -> None:
        value = self.names[store.value]
        target = f"b{store.buffer}[{self.names[store.index]}]"
        if store.combine:
            dtype = self.kernel.buffers[store.buffer].dtype
            value = combine(store.combine, dtype, target, value, self.used)
        text = f"{target} = {value};"
        if store.valid is not None:
            text = f"if ({self.names[store.valid]}) {text}"
        self.line(text)

    # Reduces.

    def _write_reduce(self, loop: ReduceLoop, depth: int) -> None:
        axes = self.kernel.axes[:depth]
        roles = self.launch.roles
        together = self.launch.lanes and not self.alone
        together = together and all(roles[axis] != "lane" for axis in axes)
        totals = [self._open_total(node) for node in loop.reduces]
        if together:
            self.alone = True
            self._reduce_together(loop, totals, depth)
            self.alone = False
        else:
            self._reduce_alone(loop, totals, depth)
        for node, total in zip(loop.reduces, totals, strict=True):
            self._close_total(node, total)

    def _open_total(self, node: Node) -> str:
        name = self.fresh("s")
        dtype = accumulator(node)
        self.line(f"{C_TYPES[dtype]} {name} = {literal(_identity(node, dtype), dtype)};")
        return name

    def _close_total(self, node: Node, total: str) -> None:
        if is_short_float(node.dtype):
            name = self.fresh()
            self.line(f"const ushort {name} = {narrow(total, node.dtype, self.used)};")
            total = name
        self.names[node] = total

    def add_to(self, node: Node, total: str, value: str) -> None:
        text = combine(str(node.arg), accumulator(node), total, value, self.used)
        self.line(f"{total} = {text};")

    def _reduce_body(self, loop: ReduceLoop, totals: Sequence[str], depth: int) -> None:
        self._write(loop.body, depth)
        for node, total in zip(loop.reduces, totals, strict=True):
            value = self.names[node.src[0]]
            if is_short_float(node.dtype):
                value = widen(value, node.dtype, self.used)
            self.add_to(node, total, value)

    def _reduce_alone(self, loop: ReduceLoop, totals: list[str], depth: int) -> None:
        """Nested loops; a long sum of floats in blocks."""
        *outer, last = loop.ranges
        size = axis_of(last).size
        self.open_loops([self.for_loop(r) for r in outer])
        sums = any(n.arg == "add" and dtypes.is_inexact(n.dtype) for n in loop.reduces)
        if sums and size > LONG_SUM:
            first = self.fresh("t")
            head = f"for (int {first} = 0; {first} < {size}; {first} += {SUM_BLOCK})"
            with self.braces(head):
                parts = [self._open_total(node) for node in loop.reduces]
                stop = f"min({first} + {SUM_BLOCK}, {size})"
                with self.braces(self.for_loop(last, first, stop)):
                    self._reduce_body(loop, parts, depth)
                for node, total, part in zip(loop.reduces, totals, parts, strict=True):
                    self.add_to(node, total, part)
        else:
            with self.braces(self.for_loop(last)):
                self._reduce_body(loop, totals, depth)
        self.close_loops(len(outer))

    def open_loops(self, heads: Sequence[str]) -> None:
        for head in heads:
            self.line(f"{head} {{")
            self.indent += 1

    def close_loops(self, count: int) -> None:
        for _ in range(count):
            self.indent -= 1
            self.line("}")

    def _reduce_together(self, loop: ReduceLoop, totals: list[str], depth: int) -> None:
        """Each lane takes every n-th element; then a tree in local memory.

        All lanes run the same number of iterations, so that an implementation that
        runs a group as loops over its lanes can exchange the two loops.
        """
        lanes = self.launch.lanes
        ranges = loop.ranges
        if axis_of(ranges[-1]).size >= lanes:
            self.open_loops([self.for_loop(r) for r in ranges[:-1]])
            opened, ranges = len(ranges) - 1, ranges[-1:]
        else:
            opened = 0
        count = prod(axis_of(r).size for r in ranges)
        whole, rest = divmod(count, lanes)
        if whole:
            at = self.fresh("t")
            with self.braces(f"for (int {at} = 0; {at} < {whole}; ++{at})"):
                self.unflatten(f"{at} * {lanes} + lid", ranges)
                self._reduce_body(loop, totals, depth)
        if rest:
            with self.braces(f"if (lid < {rest})"):
                self.unflatten(f"{whole * lanes} + lid", ranges)
                self._reduce_body(loop, totals, depth)
        self.close_loops(opened)
        for node, total in zip(loop.reduces, totals, strict=True):
            self._reduce_lanes(node, total)

    def _reduce_lanes(self, node: Node, total: str) -> None:
        lanes = self.launch.lanes
        if lanes == 1:
            return
        c_type = C_TYPES[accumulator(node)]
        shared = self.fresh("w")
        self.local.append(f"__local {c_type} {shared}[{lanes}];")
        self.line(f"{shared}[lid] = {total};")
        self.line("barrier(CLK_LOCAL_MEM_FENCE);")
        step = self.fresh("t")
        with self.braces(f"for (int {step} = {lanes // 2}; {step} > 0; {step} >>= 1)"):
            with self.braces(f"if (lid < {step})"):
                self.add_to(node, f"{shared}[lid]", f"{shared}[lid + {step}]")
            self.line("barrier(CLK_LOCAL_MEM_FENCE);")
        self.line(f"{total} = {shared}[0];")


def accumulator(node: Node) -> np.dtype[np.generic]:
    """16-bit floats are accumulated in 32 bits."""
    return dtypes.float32 if is_short_float(node.dtype) else node.dtype


def _identity(node: Node, dtype: np.dtype[np.generic]) -> object:
    low, high = dtypes.limits(dtype)
    return {"add": 0, "mul": 1, "max": low, "min": high}[str(node.arg)]


def _int_expression(node: Node, x: list[str]) -> str:
    """Index arithmetic whose values all fit an int."""
    name = node.op.name
    if name == "select":
        return f"{x[0]} ? {x[1]} : {x[2]}"
    if name == "neg":
        return f"-{x[0]}"
    if name in ("max", "min"):
        return f"{name}({x[0]}, {x[1]})"
    symbol = {"add": "+", "sub": "-", "mul": "*", "div": "/", "rem": "%"}[name]
    return f"{x[0]} {symbol} {x[1]}"


def _nested(loop: Loop) -> tuple[list[Node], Sequence[Statement]]:
    """The axes of loops that hold nothing but each other, and what is inside them."""
    axes = [loop.axis]
    body: Sequence[Statement] = loop.body
    while len(body) == 1 and isinstance(body[0], Loop):
        axes.append(body[0].axis)
        body = body[0].body
    return axes, body


def _needed(roots: Iterable[Node], given: dict[Node, str]) -> list[Node]:
    """What the roots need besides the nodes that are given, sources first."""
    found = {root for root in roots if root not in given}
    pending = list(found)
    while pending:
        for source in pending.pop().src:
            if source not in found and source not in given:
                found.add(source)
                pending.append(source)
    return sorted(found, key=lambda node: node.serial)


def _local_sizes(counts: Sequence[int], traits: Traits) -> tuple[int, ...]:
    """Work-items of a group in each dimension: divisors of the counts if possible."""
    budget = min(256 if traits.cpu else 128, traits.max_group)
    sizes: list[int] = []
    for count in counts:
        width = _divisor(count, budget)
        sizes.append(width)
        budget = max(budget // width, 1)
    return tuple(sizes)


def _divisor(count: int, limit: int) -> int:
    """The largest divisor of `count` up to a limit, unless it is much smaller."""
    if count <= limit:
        return max(count, 1)
    found = next(width for width in range(limit, 0, -1) if count % width == 0)
    return found if found * 4 >= limit else limit

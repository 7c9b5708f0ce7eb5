"""Kernels as OpenCL C: their loops, with each axis in the role of its launch.

    const int i0 = get_group_id(0);                  a group per row
    float s2 = -INFINITY;                            its lanes reduce it together
    for (int t3 = 0; t3 < 8; ++t3) { … }
    …
    for (int t9 = 0; t9 < 8; ++t9) { … }             and share the axis inside

The code is that of GPUs everywhere: PoCL, which runs it on a CPU, is for tests.

Sums of products (matmul, convolution) are tiled in registers:

    out[…, m, …, n, …] = f(sum over k of x·y)      x does not vary with n, y not with m

A work-item computes `height` × `width` results: for each k it takes `height` elements
of x and `width` of y, and multiplies each with each. A tile that would reach beyond
the end is moved back; what it shares with the tile before it is computed by both and
stored by the other. x and y are any expressions: an elementwise function of loads, a
masked load.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.backends.opencl import scalar_ops
from ftrace.backends.opencl.scalar_ops import C_TYPES, literal
from ftrace.backends.opencl.writer import GROUP, Sizes, Traits, Writer, choose_launch
from ftrace.errors import DeviceError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel import ir, loop_tree
from ftrace.lower.kernel.affine_index import Index
from ftrace.lower.kernel.loop_tree import Let, Loop, ReduceLoop, Statement
from ftrace.trace.graph import Node, toposort
from ftrace.trace.primitives.reduction import identity_of
from ftrace.trace.symbolic import is_dynamic, same_size, sample, upper_bound

# Sums of products, tiled in registers.

#: Fewer terms than this are not worth a tile.
SHORTEST = 4
#: Rows and columns of a tile.
TILE_SIDE = 4
#: An operand of more nodes is written once, in a loop over the tile, and not unrolled.
UNROLLED = 16

_DTYPES = (dtypes.float32, dtypes.float64, dtypes.int32, dtypes.uint32, dtypes.int64)


@dataclass(frozen=True)
class Tile:
    """A kernel that is one sum of a product, of which work-items have tiles.

    Attributes:
      total: the reduce.
      x, y: the factors; x varies with `rows` and y with `columns`, not the reverse.
      rows, columns: the axes that are tiled.
      height, width: of a tile, in results.
    """

    total: Node
    x: Node
    y: Node
    rows: Node
    columns: Node
    height: int
    width: int


def find_tile(
    kernel: ir.Kernel, block: Sequence[Statement], forms: dict[Node, Index]
) -> Tile | None:
    """How a kernel is tiled, if it is a contraction that is worth it."""
    if kernel.is_dynamic:  # a tile is moved back where it does not fit: it must fit
        return None
    loop = loop_tree.reduce_loop(kernel, block)
    if loop is None or len(loop.reduces) != 1 or 0 in kernel.shape:
        return None
    (total,) = loop.reduces
    length = prod(ir.axis_of(r).size for r in loop.ranges)
    if ir.product_of(total) is None or total.dtype not in _DTYPES or length < SHORTEST:
        return None
    free = ir.free_ranges(kernel.roots)
    for store in kernel.stores:
        if frozenset().union(*[free[e] for e in store.expressions]) != set(kernel.axes):
            return None
    return _orient(total, free, kernel.axes, forms)


def _orient(
    total: Node,
    free: dict[Node, frozenset[Node]],
    axes: Sequence[Node],
    forms: dict[Node, Index],
) -> Tile | None:
    """Chooses which factor has the columns: the one that runs along memory."""
    first, second = total.src[0].src
    best: tuple[tuple[bool, int], Tile] | None = None
    for x, y in ((first, second), (second, first)):
        rows = [a for a in axes if a in free[x] and a not in free[y]]
        columns = [a for a in axes if a in free[y] and a not in free[x]]
        if not rows or not columns:
            return None
        for column in columns:
            row = max(rows, key=lambda axis: ir.axis_of(axis).size)
            height, width = (min(ir.axis_of(a).size, TILE_SIDE) for a in (row, column))
            along = any(
                abs(forms[node.src[1]].terms.get(column, 0)) == 1
                for node in toposort([y])
                if node.op is ir.load_p and node.src[1] in forms
            )
            if best is None or (along, width) > best[0]:
                found = Tile(total, x, y, row, column, height, width)
                best = (along, width), found
    assert best is not None
    return best[1] if best[1].height * best[1].width > 1 else None


def write_tile(writer: Writer, plan: Tile) -> Sizes:
    """Writes the kernel; the result is its launch."""
    sizes = _open_tiles(writer, plan)
    c_type = C_TYPES[plan.total.dtype]
    cells = [(i, j) for i in range(plan.height) for j in range(plan.width)]
    for i, j in cells:
        writer.line(f"{c_type} c{i}_{j} = {literal(0, plan.total.dtype)};")
    with writer.braces(*[writer.for_loop(r) for r in plan.total.src[1:]]):
        ranges = dict(writer.names)
        columns = _values(writer, plan.y, plan.columns, "n_at", plan.width, ranges)
        rows = _values(writer, plan.x, plan.rows, "m_at", plan.height, ranges)
        writer.used.add(multiply_add := f"multiply_add_{c_type}")
        for i, j in cells:
            operands = f"{rows[i]}, {columns[j]}, c{i}_{j}"
            writer.line(f"c{i}_{j} = {multiply_add}({operands});")
    _write_results(writer, plan, ", ".join(f"c{i}_{j}" for i, j in cells))
    return sizes


def _open_tiles(writer: Writer, plan: Tile) -> Sizes:
    """Defines the axes that are not tiled, and where the tile begins.

    Neighbours read neighbouring columns.
    """
    others = [a for a in writer.kernel.axes if a not in (plan.rows, plan.columns)]
    counts: list[int] = []
    named = [("n", plan.columns, plan.width), ("m", plan.rows, plan.height)]
    for dimension, (letter, axis, extent) in enumerate(named):
        size = ir.axis_of(axis).size
        writer.line(f"const int {letter}_from = get_global_id({dimension}) * {extent};")
        writer.line(f"if ({letter}_from >= {size}) return;")
        last = size - extent
        at = f"{letter}_from < {last} ? {letter}_from : {last}"
        writer.line(f"const int {letter}_at = {at};")
        counts.append(-(-size // extent))
    counts.append(prod(ir.axis_of(axis).size for axis in others))
    writer.unflatten("get_global_id(2)", others)
    local = (min(counts[0], 8), min(counts[1], 8), 1)
    padded = [-(-n // width) * width for n, width in zip(counts, local, strict=True)]
    return tuple(padded), local


def _values(
    writer: Writer,
    value: Node,
    axis: Node,
    start: str,
    count: int,
    given: dict[Node, str],
) -> list[str]:
    """The elements of a factor in the tile: at `count` positions of an axis."""
    if len(toposort([value])) <= UNROLLED:
        places = [f"({start} + {i})" if i else start for i in range(count)]
        return [
            writer.values_below([value], {**given, axis: place})[value]
            for place in places
        ]
    array, j, position = (writer.fresh(prefix) for prefix in "xjp")
    writer.line(f"{C_TYPES[value.dtype]} {array}[{count}];")
    writer.line("#pragma unroll")
    with writer.braces(f"for (int {j} = 0; {j} < {count}; ++{j})"):
        writer.line(f"const int {position} = {start} + {j};")
        found = writer.values_below([value], {**given, axis: position})
        writer.line(f"{array}[{j}] = {found[value]};")
    return [f"{array}[{i}]" for i in range(count)]


def _write_results(writer: Writer, plan: Tile, cells: str) -> None:
    """What follows the sum, and the stores, for each result of the tile."""
    c_type = C_TYPES[plan.total.dtype]
    writer.line(f"{c_type} out[{plan.height * plan.width}] = {{{cells}}};")
    m, n = writer.range_name(plan.rows), writer.range_name(plan.columns)
    with (
        writer.braces(f"for (int i = m_from - m_at; i < {plan.height}; ++i)"),
        writer.braces(f"for (int j = n_from - n_at; j < {plan.width}; ++j)"),
    ):
        writer.line(f"const int {m} = m_at + i, {n} = n_at + j;")
        writer.line(f"const {c_type} sum = out[i * {plan.width} + j];")
        given = {**writer.names, plan.total: "sum"}
        kernel, outer = writer.kernel, writer.names
        writer.names = writer.values_below(kernel.roots, given)
        for store in kernel.stores:
            writer.store(store)
        writer.names = outer


# Kernels, loop by loop.

#: A sum longer than this is added up in blocks of `SUM_BLOCK`, for its rounding error.
LONG_SUM = 1024
SUM_BLOCK = 256
#: Work-items of a group along an axis whose size only a call knows.
DYNAMIC_WIDTH = 16

BARRIER = "barrier(CLK_LOCAL_MEM_FENCE);"


def write_loops(writer: Writer) -> Sizes:
    """Writes the kernel; the result is its launch."""
    return _Loops(writer).write()


class _Loops:
    """The state of one call of `write_loops`.

    Attributes:
      alone: inside a reduce that the lanes share: those inside are each lane's own.
      padding: conditions that a work-item beyond the end does not fulfil.
    """

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.axes = writer.kernel.axes
        self.launch = choose_launch(
            writer.kernel, writer.block, writer.forms, writer.traits
        )
        self.roles = self.launch.roles
        self.alone = False
        self.padding: list[str] = []

    def write(self) -> Sizes:
        sizes = self._open_group() if self.launch.lanes else self._open_items()
        self._write(self.writer.block, 0)
        return sizes

    def _open_group(self) -> Sizes:
        axes = self.launch.axes("group")
        count = prod(ir.axis_of(axis).size for axis in axes)
        lanes = self.launch.lanes
        self.writer.line("const int lid = get_local_id(0);")
        self.writer.unflatten("get_group_id(0)", axes)
        return (count * lanes,), (lanes,)

    def _open_items(self) -> Sizes:
        """Defines the axes by the global ids: the innermost first, then all others."""
        writer, axes = self.writer, self.launch.axes("item")
        sizes = [ir.axis_of(axis).size for axis in axes]
        if len(axes) > 1 and sample(sizes[-1]) >= 8:
            counts = [sizes[-1], prod(sizes[:-1])]
            groups = [axes[-1:], axes[:-1]]
        else:
            counts, groups = [prod(sizes)], [axes]
        local = _local_sizes(counts, writer.traits)
        padded: list[int] = []
        for dimension, (count, part) in enumerate(zip(counts, groups, strict=True)):
            width = local[dimension]
            padded.append(-(-count // width) * width)
            position = f"get_global_id({dimension})"
            if not same_size(padded[-1], count):
                # Work-items beyond the end compute the last element once more.
                end, last = writer.number(count), writer.number(count - 1)
                self.padding.append(f"{position} < {end}")
                position = f"{position} < {end} ? {position} : {last}"
            writer.unflatten(position, part)
        return tuple(padded), local

    def _write(self, block: Sequence[Statement], depth: int) -> None:
        """Statements in order; `depth` axes are around them."""
        for statement in block:
            if isinstance(statement, Let):
                self.writer.let(statement.node)
            elif isinstance(statement, ir.Store):
                self._write_store(statement, depth)
            elif isinstance(statement, ReduceLoop):
                self._write_reduce(statement, depth)
            else:
                self._write_axis(statement, depth)

    # Axes.

    def _write_axis(self, loop: Loop, depth: int) -> None:
        role = self.roles[loop.axis]
        if role in ("item", "group"):
            self._write(loop.body, depth + 1)
            return
        if role == "lane":
            axes, body = _perfect_nest(loop)
            if axes[-1] is self.axes[-1]:
                self._share(axes, lambda: self._write(body, depth + len(axes)))
                return
        with self.writer.braces(self.writer.for_loop(loop.axis)):
            self._write(loop.body, depth + 1)

    def _share(self, ranges: Sequence[Node], body: Callable[[], None]) -> None:
        """Runs the body for all values of the ranges: each lane takes every n-th."""
        writer, lanes = self.writer, self.launch.lanes
        whole, rest = divmod(prod(ir.axis_of(r).size for r in ranges), lanes)
        if is_dynamic(whole) or whole:
            at = writer.fresh("t")
            head = f"for (int {at} = 0; {at} < {writer.number(whole)}; ++{at})"
            with writer.braces(head), self._run_lanes(lanes):
                writer.unflatten(f"{at} * {lanes} + lid", ranges)
                body()
        if is_dynamic(rest) or rest:
            with self._run_lanes(rest):
                writer.unflatten(f"{writer.number(whole * lanes)} + lid", ranges)
                body()

    def _run_lanes(self, count: Any) -> AbstractContextManager[None]:
        """A block that the first `count` lanes run."""
        text = self.writer.number(count)
        everyone = count == self.launch.lanes
        return self.writer.braces("" if everyone else f"if (lid < {text})")

    def _write_store(self, store: ir.Store, depth: int) -> None:
        """A store outside some axes: one of the work-items that share it does it."""
        roles, names = self.roles, self.writer.names
        outside = self.axes[depth:]
        guards = list(self.padding)
        guards += [f"{names[axis]} == 0" for axis in outside if roles[axis] == "item"]
        if self.launch.lanes and not self._is_shared(depth):
            guards.append("lid == 0")
        if guards:
            with self.writer.braces(f"if ({' && '.join(guards)})"):
                self.writer.store(store)
        else:
            self.writer.store(store)

    def _is_shared(self, depth: int) -> bool:
        """Do the lanes stand at different elements here?"""
        return any(self.roles[axis] == "lane" for axis in self.axes[:depth])

    # Reduces.

    def _write_reduce(self, loop: ReduceLoop, depth: int) -> None:
        if self.launch.lanes and not self.alone and not self._is_shared(depth):
            self.alone = True
            totals = self._reduce_together(loop, depth)
            self.alone = False
        else:
            totals = [self._open_total(node) for node in loop.reduces]
            self._reduce_alone(loop, totals, depth)
        for node, total in zip(loop.reduces, totals, strict=True):
            self._close_total(node, total)

    def _open_total(self, node: Node) -> str:
        name = self.writer.fresh("s")
        dtype = accumulator(node)
        start = scalar_ops.literal(identity_of(node.arg, dtype), dtype)
        self.writer.line(f"{scalar_ops.C_TYPES[dtype]} {name} = {start};")
        return name

    def _close_total(self, node: Node, total: str) -> None:
        if dtypes.is_half(node.dtype):
            name = self.writer.fresh()
            value = scalar_ops.narrow(total, node.dtype, self.writer.used)
            self.writer.line(f"const ushort {name} = {value};")
            total = name
        self.writer.names[node] = total

    def _add_to(self, node: Node, total: str, value: str) -> None:
        dtype = accumulator(node)
        text = scalar_ops.combine(str(node.arg), dtype, total, value, self.writer.used)
        self.writer.line(f"{total} = {text};")

    def _reduce_body(self, loop: ReduceLoop, totals: Sequence[str], depth: int) -> None:
        self._write(loop.body, depth)
        for node, total in zip(loop.reduces, totals, strict=True):
            value = self.writer.names[node.src[0]]
            if dtypes.is_half(node.dtype):
                value = scalar_ops.widen(value, node.dtype, self.writer.used)
            self._add_to(node, total, value)

    def _reduce_alone(self, loop: ReduceLoop, totals: list[str], depth: int) -> None:
        """Nested loops; a long sum of floats in blocks."""
        writer = self.writer
        *outer, last = loop.ranges
        size = upper_bound(ir.axis_of(last).size)
        sums = any(n.arg == "add" and dtypes.is_inexact(n.dtype) for n in loop.reduces)
        with writer.braces(*[writer.for_loop(r) for r in outer]):
            if sums and size > LONG_SUM:
                self._sum_in_blocks(loop, totals, depth)
            else:
                with writer.braces(writer.for_loop(last)):
                    self._reduce_body(loop, totals, depth)

    def _sum_in_blocks(self, loop: ReduceLoop, totals: list[str], depth: int) -> None:
        writer, last = self.writer, loop.ranges[-1]
        size = ir.axis_of(last).size
        first, stop = writer.fresh("t"), writer.fresh("t")
        end, late = writer.number(size), writer.number(size - SUM_BLOCK)
        head = f"for (int {first} = 0; {first} < {end}; {first} += {SUM_BLOCK})"
        with writer.braces(head):
            inside = f"{first} < {late} ? {first} + {SUM_BLOCK} : {end}"
            writer.line(f"const int {stop} = {inside};")
            parts = [self._open_total(node) for node in loop.reduces]
            with writer.braces(writer.for_loop(last, first, stop)):
                self._reduce_body(loop, parts, depth)
            for node, total, part in zip(loop.reduces, totals, parts, strict=True):
                self._add_to(node, total, part)

    def _reduce_together(self, loop: ReduceLoop, depth: int) -> list[str]:
        """Each lane reduces its share; then a tree combines what they have."""
        ranges = loop.ranges
        totals = [self._open_total(node) for node in loop.reduces]
        innermost = sample(ir.axis_of(ranges[-1]).size)
        outer = ranges[:-1] if innermost >= self.launch.lanes else ()
        with self.writer.braces(*[self.writer.for_loop(r) for r in outer]):
            inner = ranges[len(outer) :]
            self._share(inner, lambda: self._reduce_body(loop, totals, depth))
        return list(map(self._combine_lanes, loop.reduces, totals))

    def _combine_lanes(self, node: Node, total: str) -> str:
        """The lanes' totals are combined in local memory."""
        writer, lanes = self.writer, self.launch.lanes
        if lanes == 1:
            return total
        shared, step = writer.fresh("w"), writer.fresh("t")
        writer.local.append(
            f"__local {scalar_ops.C_TYPES[accumulator(node)]} {shared}[{lanes}];"
        )
        writer.line(f"{shared}[lid] = {total};")
        writer.line(BARRIER)
        head = f"for (int {step} = {lanes // 2}; {step} > 0; {step} >>= 1)"
        with writer.braces(head):
            with writer.braces(f"if (lid < {step})"):
                self._add_to(node, f"{shared}[lid]", f"{shared}[lid + {step}]")
            writer.line(BARRIER)
        writer.line(f"{total} = {shared}[0];")
        return total


def accumulator(node: Node) -> np.dtype[np.generic]:
    """16-bit floats are accumulated in 32 bits."""
    return dtypes.float32 if dtypes.is_half(node.dtype) else node.dtype


def _perfect_nest(loop: Loop) -> tuple[list[Node], Sequence[Statement]]:
    """The axes of loops that hold nothing but each other, and what is inside them."""
    axes = [loop.axis]
    body: Sequence[Statement] = loop.body
    while len(body) == 1 and isinstance(body[0], Loop):
        axes.append(body[0].axis)
        body = body[0].body
    return axes, body


def _local_sizes(counts: Sequence[int], traits: Traits) -> tuple[int, ...]:
    """Work-items of a group in each dimension: divisors of the counts if possible."""
    budget = min(GROUP, traits.max_group)
    sizes: list[int] = []
    for count in counts:
        sizes.append(_width(count, budget))
        budget = max(budget // sizes[-1], 1)
    return tuple(sizes)


def _width(count: int, limit: int) -> int:
    """The largest divisor of `count` up to a limit, or that if all are much smaller."""
    if is_dynamic(count):
        return min(DYNAMIC_WIDTH, limit)
    if count <= limit:
        return max(count, 1)
    found = next(width for width in range(limit, 0, -1) if count % width == 0)
    return found if found * 4 >= limit else limit


@dataclass(frozen=True)
class Rendered:
    """The source of a kernel and how it is launched.

    Attributes:
      name: of the C function: made of a hash of its text.
      function: its text.
      helpers: names of the functions that it calls.
      global_size, local_size: work-items in all, and in a group.
      dims: sizes that are known at calls only, which the function takes as the
        elements of its last parameter. `global_size` may hold such sizes, too.
    """

    name: str
    function: str
    helpers: frozenset[str]
    global_size: tuple[Any, ...]
    local_size: tuple[int, ...]
    dims: tuple[Any, ...] = ()


def program_source(kernels: Sequence[Rendered]) -> str:
    """One source text with several kernels and the helpers of all of them."""
    helpers = sorted({name for kernel in kernels for name in kernel.helpers})
    functions = [scalar_ops.helper_source(name) for name in helpers]
    parts = ["#pragma OPENCL FP_CONTRACT OFF\n", *functions]
    return "\n".join([*parts, *dict.fromkeys(kernel.function for kernel in kernels)])


def render(kernel: ir.Kernel, traits: Traits) -> Rendered:
    """The OpenCL C of a kernel.

    Args:
      kernel: legalised: it holds operations of `scalar_ops.SUPPORTED` only.
      traits: of the device.

    Raises:
      DeviceError: the kernel computes in float64 and the device does not.
    """
    if not traits.doubles and any(n.dtype == dtypes.float64 for n in kernel.nodes):
        raise DeviceError(
            "this OpenCL device has no float64 (cl_khr_fp64); convert the arrays with "
            ".astype('float32')"
        )
    writer = Writer(kernel, traits)
    tile = find_tile(kernel, writer.block, writer.forms)
    if tile is not None:
        sizes = write_tile(writer, tile)
    else:
        sizes = write_loops(writer)
    return _finish(writer, *sizes)


def _finish(
    writer: Writer, global_size: tuple[Any, ...], local_size: tuple[int, ...]
) -> Rendered:
    listed: list[str] = []
    for number, spec in enumerate(writer.kernel.buffers):
        constant = "" if spec.written else "const "
        c_type = scalar_ops.C_TYPES[spec.dtype]
        listed.append(f"__global {constant}{c_type} *b{number}")
    if writer.dims:
        listed.append("__global const long *dims")
    parameters = ", ".join(listed)
    local = [f"  {declaration}" for declaration in writer.local]
    body = "\n".join([*local, *writer.head(), *writer.lines])
    text = f"({parameters}) {{\n{body}\n}}\n"
    digest = hashlib.sha256(f"{text}{global_size}{local_size}".encode()).hexdigest()
    name = f"k{digest[:12]}"
    return Rendered(
        name,
        f"__kernel void {name}{text}",
        frozenset(writer.used),
        global_size,
        local_size,
        tuple(writer.dims),
    )

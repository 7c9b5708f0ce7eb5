"""Sums of products (matmul, convolution) in OpenCL C, blocked in registers.

    out[…, m, …, n, …] = f(sum over k of x·y)      x does not vary with n, y not with m

A work-item computes `height` × `width` results: for each k it takes `height` elements
of x and `width` of y, and multiplies each with each. A block that would reach beyond
the end is moved back; what it shares with the block before it is computed by both and
stored by the other.

x and y are any expressions: an elementwise function of loads, a masked load.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ftrace import dtypes
from ftrace.backends.opencl.scalar_ops import C_TYPES, literal
from ftrace.backends.opencl.writer import Sizes, Writer, reduce_loops
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.affine_index import Index
from ftrace.lower.kernel.ir import Kernel, axis_of, free_ranges, load_p
from ftrace.lower.kernel.loop_tree import ReduceLoop, Statement
from ftrace.trace.graph import Node, toposort

#: Fewer terms than this are not worth a block.
SHORTEST = 4
#: Rows and columns of a block.
MOST = 4
#: An operand of more nodes is written once, in a loop over the block, and not unrolled.
UNROLLED = 16

_DTYPES = (dtypes.float32, dtypes.float64, dtypes.int32, dtypes.uint32, dtypes.int64)


@dataclass(frozen=True)
class Contraction:
    """A kernel that is one sum of a product.

    Attributes:
      total: the reduce.
      x, y: the factors; x varies with `rows` and y with `columns`, not the reverse.
      rows, columns: the axes that are blocked.
      height, width: of a block, in results.
    """

    total: Node
    x: Node
    y: Node
    rows: Node
    columns: Node
    height: int
    width: int


def find_contraction(
    kernel: Kernel, block: Sequence[Statement], forms: dict[Node, Index]
) -> Contraction | None:
    """The kernel as a contraction, if it is one that is worth blocking."""
    if kernel.is_dynamic:  # a block is moved back where it does not fit: it must fit
        return None
    loops = reduce_loops(block)
    if [depth for depth, _ in loops] != [len(kernel.axes)]:
        return None  # not one loop that stands inside all axes
    loop = loops[0][1]
    if len(loop.reduces) != 1 or any(isinstance(s, ReduceLoop) for s in loop.body):
        return None
    if kernel.ordered or 0 in kernel.shape:
        return None
    (total,) = loop.reduces
    product = total.src[0]
    length = prod(axis_of(r).size for r in loop.ranges)
    if total.arg != "add" or product.op.name != "mul" or length < SHORTEST:
        return None
    if total.dtype not in _DTYPES:
        return None
    free = free_ranges(kernel.roots)
    for store in kernel.stores:
        if frozenset().union(*[free[e] for e in store.expressions]) != set(kernel.axes):
            return None
    return _orient(total, free, kernel.axes, forms)


def _orient(
    total: Node,
    free: dict[Node, frozenset[Node]],
    axes: Sequence[Node],
    forms: dict[Node, Index],
) -> Contraction | None:
    """Chooses which factor has the columns: the one that runs along memory."""
    first, second = total.src[0].src
    best: tuple[tuple[bool, int], Contraction] | None = None
    for x, y in ((first, second), (second, first)):
        rows = [a for a in axes if a in free[x] and a not in free[y]]
        columns = [a for a in axes if a in free[y] and a not in free[x]]
        if not rows or not columns:
            return None
        for column in columns:
            row = max(rows, key=lambda axis: axis_of(axis).size)
            height, width = (min(axis_of(a).size, MOST) for a in (row, column))
            along = any(
                abs(forms[node.src[1]].terms.get(column, 0)) == 1
                for node in toposort([y])
                if node.op is load_p and node.src[1] in forms
            )
            if best is None or (along, width) > best[0]:
                found = Contraction(total, x, y, row, column, height, width)
                best = (along, width), found
    assert best is not None
    return best[1] if best[1].height * best[1].width > 1 else None


def write_contraction(writer: Writer, plan: Contraction) -> Sizes:
    """Writes the kernel; the result is its launch."""
    sizes = _open_blocks(writer, plan)
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


def _open_blocks(writer: Writer, plan: Contraction) -> Sizes:
    """Defines the axes that are not blocked, and where the block begins.

    Neighbours read neighbouring columns.
    """
    others = [a for a in writer.kernel.axes if a not in (plan.rows, plan.columns)]
    counts: list[int] = []
    named = [("n", plan.columns, plan.width), ("m", plan.rows, plan.height)]
    for dimension, (letter, axis, extent) in enumerate(named):
        size = axis_of(axis).size
        writer.line(f"const int {letter}_from = get_global_id({dimension}) * {extent};")
        writer.line(f"if ({letter}_from >= {size}) return;")
        last = size - extent
        at = f"{letter}_from < {last} ? {letter}_from : {last}"
        writer.line(f"const int {letter}_at = {at};")
        counts.append(-(-size // extent))
    counts.append(prod(axis_of(axis).size for axis in others))
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
    """The elements of a factor in the block: at `count` positions of an axis."""
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


def _write_results(writer: Writer, plan: Contraction, cells: str) -> None:
    """What follows the sum, and the stores, for each result of the block."""
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

"""Sums of products (matmul, convolution) in OpenCL C, blocked in registers.

    out[…, m, …, n, …] = f(sum over k of x·y)      x does not vary with n, y not with m

A work-item computes `height` × `width` results: for each k it takes `height` elements
of x and `width` of y, and multiplies each with each. The results of a row are vectors.
A block that would reach beyond the end is moved back; what it shares with the block
before it is computed by both and stored by the other.

On PoCL a convolution takes a thirteenth of the time of loops, a product a third.

x and y are any expressions: an elementwise function of loads, a masked load. A load of
y that runs along memory with n is a vector load.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ftrace import dtypes
from ftrace.backends.opencl.scalar_ops import C_TYPES, literal
from ftrace.backends.opencl.writer import Sizes, Traits, Writer, reduce_loops
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.affine_index import Index
from ftrace.lower.kernel.ir import Kernel, axis_of, free_ranges, load_p
from ftrace.lower.kernel.loop_tree import ReduceLoop, Statement
from ftrace.trace.graph import Node, toposort

#: Fewer terms than this are not worth a block.
SHORTEST = 4
#: An operand of more nodes is written once, in a loop over the rows, and not unrolled.
UNROLLED = 16

_DTYPES = (dtypes.float32, dtypes.float64, dtypes.int32, dtypes.uint32, dtypes.int64)


@dataclass(frozen=True)
class Contraction:
    """A kernel that is one sum of a product.

    Attributes:
      total: the reduce.
      x, y: the factors; x varies with `rows` and y with `columns`, not the reverse.
      rows, columns: the axes that are blocked.
      height: results in a block along `rows`.
      lanes, vectors: a block is `vectors` vectors of `lanes` results wide.
    """

    total: Node
    x: Node
    y: Node
    rows: Node
    columns: Node
    height: int
    lanes: int
    vectors: int

    @property
    def width(self) -> int:
        return self.lanes * self.vectors


def find_contraction(
    kernel: Kernel, block: Sequence[Statement], forms: dict[Node, Index], traits: Traits
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
    return _orient(total, free, kernel.axes, forms, traits)


def _orient(
    total: Node,
    free: dict[Node, frozenset[Node]],
    axes: Sequence[Node],
    forms: dict[Node, Index],
    traits: Traits,
) -> Contraction | None:
    """Chooses which factor gives the vectors: the one that runs along memory."""
    first, second = total.src[0].src
    best: tuple[tuple[bool, int], Contraction] | None = None
    for x, y in ((first, second), (second, first)):
        rows = [a for a in axes if a in free[x] and a not in free[y]]
        columns = [a for a in axes if a in free[y] and a not in free[x]]
        if not rows or not columns:
            return None
        for column in columns:
            size = axis_of(column).size
            row = max(rows, key=lambda axis: axis_of(axis).size)
            height, lanes, vectors = _block_shape(
                axis_of(row).size, size, total.dtype.itemsize, traits
            )
            along = any(
                abs(forms[node.src[1]].terms.get(column, 0)) == 1
                for node in toposort([y])
                if node.op is load_p and node.src[1] in forms
            )
            rank = (along, lanes * vectors)
            if best is None or rank > best[0]:
                found = Contraction(total, x, y, row, column, height, lanes, vectors)
                best = rank, found
    assert best is not None
    return best[1] if best[1].height * best[1].width > 1 else None


def _block_shape(
    rows: int, columns: int, itemsize: int, traits: Traits
) -> tuple[int, int, int]:
    """(height, lanes, vectors) for a device's registers."""
    most = max(traits.vector * 4 // itemsize, 2) if traits.cpu else 4
    lanes = min(most, 1 << (columns.bit_length() - 1))
    vectors = 2 if traits.cpu and columns >= 2 * lanes else 1
    tallest = 8 if traits.vector >= 16 else 6
    if not traits.cpu:
        tallest = 4
    blocks = -(-rows // tallest)
    return -(-rows // blocks), lanes, vectors


def write_contraction(writer: Writer, plan: Contraction) -> Sizes:
    """Writes the kernel; the result is its launch."""
    sizes = _open_blocks(writer, plan)
    vector = _vector(plan)
    for i, v in _cells(plan):
        writer.line(f"{vector} c{i}_{v} = {literal(0, plan.total.dtype)};")
    with writer.braces(*[writer.for_loop(r) for r in plan.total.src[1:]]):
        ranges = dict(writer.names)
        columns = _column_vectors(writer, plan, ranges, vector)
        rows = _row_values(writer, plan, ranges)
        writer.used.add(multiply_add := f"multiply_add_{vector}")
        for i, v in _cells(plan):
            cell = f"c{i}_{v}"
            factor = f"({vector})({rows[i]})" if plan.lanes > 1 else rows[i]
            writer.line(f"{cell} = {multiply_add}({factor}, {columns[v]}, {cell});")
    _write_results(writer, plan)
    return sizes


def _vector(plan: Contraction) -> str:
    c_type = C_TYPES[plan.total.dtype]
    return f"{c_type}{plan.lanes}" if plan.lanes > 1 else c_type


def _cells(plan: Contraction) -> list[tuple[int, int]]:
    """The vectors of a block: (row, number in the row)."""
    return [(i, v) for i in range(plan.height) for v in range(plan.vectors)]


def _open_blocks(writer: Writer, plan: Contraction) -> Sizes:
    """Defines the axes that are not blocked, and where the block begins."""
    others = [a for a in writer.kernel.axes if a not in (plan.rows, plan.columns)]
    cpu = writer.traits.cpu
    counts: list[int] = []
    # On a CPU the items that share columns follow each other: they stay in its cache.
    # On a GPU neighbours read neighbouring columns.
    named = [("m", plan.rows, plan.height), ("n", plan.columns, plan.width)]
    for dimension, (letter, axis, extent) in enumerate(named if cpu else named[::-1]):
        size = axis_of(axis).size
        writer.line(f"const int {letter}_from = get_global_id({dimension}) * {extent};")
        if not cpu:
            writer.line(f"if ({letter}_from >= {size}) return;")
        last = size - extent
        at = f"{letter}_from < {last} ? {letter}_from : {last}"
        writer.line(f"const int {letter}_at = {at};")
        counts.append(-(-size // extent))
    counts.append(prod(axis_of(axis).size for axis in others))
    writer.unflatten("get_global_id(2)", others)
    if cpu:
        return tuple(counts), (1, 1, 1)
    local = (min(counts[0], 8), min(counts[1], 8), 1)
    padded = [-(-n // width) * width for n, width in zip(counts, local, strict=True)]
    return tuple(padded), local


def _column_vectors(
    writer: Writer, plan: Contraction, given: dict[Node, str], vector: str
) -> list[str]:
    """The elements of y in the block, as vectors."""
    y = plan.y
    form = writer.forms.get(y.src[1]) if y.op is load_p and len(y.src) == 2 else None
    if form is not None and form.terms.get(plan.columns) == 1 and plan.lanes > 1:
        start = {**given, plan.columns: "n_at"}
        at = writer.values_below([y.src[1]], start)[y.src[1]]
        names: list[str] = []
        for v in range(plan.vectors):
            names.append(writer.fresh("y"))
            offset = f"{at} + {v * plan.lanes}" if v else at
            load = f"load_{vector}(b{y.src[0].arg} + {offset})"
            writer.line(f"const {vector} {names[-1]} = {load};")
        writer.used.add(f"load_{vector}")
        return names
    array = writer.fresh("y")
    writer.line(f"{vector} {array}[{plan.vectors}];")
    elements = f"((__private {C_TYPES[y.dtype]} *){array})"
    _fill(writer, y, plan.columns, "n_at", plan.width, elements, given)
    return [f"{array}[{v}]" for v in range(plan.vectors)]


def _row_values(writer: Writer, plan: Contraction, given: dict[Node, str]) -> list[str]:
    """The elements of x in the block, as scalars."""
    if len(toposort([plan.x])) > UNROLLED:
        array = writer.fresh("x")
        writer.line(f"{C_TYPES[plan.x.dtype]} {array}[{plan.height}];")
        _fill(writer, plan.x, plan.rows, "m_at", plan.height, array, given)
        return [f"{array}[{i}]" for i in range(plan.height)]
    values: list[str] = []
    for i in range(plan.height):
        start = {**given, plan.rows: f"(m_at + {i})" if i else "m_at"}
        values.append(writer.values_below([plan.x], start)[plan.x])
    return values


def _fill(
    writer: Writer,
    value: Node,
    axis: Node,
    start: str,
    count: int,
    array: str,
    given: dict[Node, str],
) -> None:
    """Computes `value` at `count` positions of an axis into an array."""
    j = writer.fresh("j")
    writer.line("#pragma unroll")
    with writer.braces(f"for (int {j} = 0; {j} < {count}; ++{j})"):
        position = writer.fresh("p")
        writer.line(f"const int {position} = {start} + {j};")
        found = writer.values_below([value], {**given, axis: position})
        writer.line(f"{array}[{j}] = {found[value]};")


def _write_results(writer: Writer, plan: Contraction) -> None:
    """What follows the sum, and the stores, for each result of the block."""
    c_type = C_TYPES[plan.total.dtype]
    cells = ", ".join(f"c{i}_{v}" for i, v in _cells(plan))
    writer.line(f"{_vector(plan)} out[{plan.height * plan.vectors}] = {{{cells}}};")
    m, n = writer.range_name(plan.rows), writer.range_name(plan.columns)
    with (
        writer.braces(f"for (int i = m_from - m_at; i < {plan.height}; ++i)"),
        writer.braces(f"for (int j = n_from - n_at; j < {plan.width}; ++j)"),
    ):
        writer.line(f"const int {m} = m_at + i, {n} = n_at + j;")
        element = f"((__private {c_type} *)out)[i * {plan.width} + j]"
        writer.line(f"const {c_type} sum = {element};")
        given = {**writer.names, plan.total: "sum"}
        kernel, outer = writer.kernel, writer.names
        writer.names = writer.values_below(kernel.roots, given)
        for store in kernel.stores:
            writer.store(store)
        writer.names = outer

"""Which products are convolutions with channels last, and the blocks they run in.

A product is one where axes of its rows are windows with axes of its sum: each number of
the left operand meets several rows of the right one. What is found here is emitted by
`convolution/nhwc.py`, or, of channels that do not lie side by side,
`convolution/depthwise_nchw.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ftrace.devices.llvm.contraction.find import Contraction
from ftrace.devices.llvm.contraction.find_windows import Window, find_windows
from ftrace.devices.llvm.convolution.nchw_plan import (
    fill_cost,
    is_sum_of_products,
    step_sizes,
)
from ftrace.devices.llvm.schedule.index_facts import Facts
from ftrace.devices.llvm.schedule.tiling_ir import size_of
from ftrace.devices.llvm.target import Target
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import Kernel, axis_of
from ftrace.trace.graph import Node

#: Vectors of a block of channels side by side that do not mix, from the best on.
_ABREAST = (3, 2)
#: Pixels of a block at least, where there are more than cores need.
_FEW_PIXELS = 64
#: Images of fewer pixels share the weights of a block.
_MANY_PIXELS = 128
#: Vectors in a row of a block of columns; where such blocks are not alike.
_VECTORS, _EVEN_VECTORS = 12, 16
#: Times that each pixel is read at least, where vectors need no spreading.
_LEAST_TAPS = 4.0


@dataclass(frozen=True, eq=False)
class SlidingRows:
    """How a contraction is a convolution with channels last.

    Attributes:
      plan: the contraction.
      windows: each with another axis of the rows.
      left, right: the operands.
      outer: axes around the blocks.
      lines: axes of the rows that are in a block, the one that is cut first.
      pixel: the innermost axis of the rows, of which tiles are made.
      others: what is summed over beside the taps.
      size: how many values of the first of `lines` (or of `pixel`) a block has.
      groups: columns are groups and their places (see `convolution/grouped.py`); the
        panel of the left operand has a vector where it would have a number.
      vectors: of groups in a block, for each of which one stands in that panel.
    """

    plan: Contraction
    windows: tuple[Window, ...]
    left: Node
    right: Node
    outer: tuple[Node, ...]
    lines: tuple[Node, ...]
    pixel: Node
    others: tuple[Node, ...]
    size: int
    groups: bool = False
    vectors: int = 1


def find_sliding_rows(
    kernel: Kernel, plan: Contraction, facts: Facts, target: Target
) -> SlidingRows | None:
    """The contraction as a convolution with channels last, if it is one."""
    if len(plan.rows) < 2 or len(plan.columns) != 1:
        return None
    if not is_sum_of_products(kernel, plan):
        return None
    (right,), (column,) = plan.right, plan.columns
    vectors = -(-size_of(column) * right.dtype.itemsize // target.vector_bytes)
    found = as_rows(plan, facts, target, column_blocks(vectors), _MANY_PIXELS)
    if found is None or not found.others or size_of(found.pixel) < 4:
        return None
    if fill_cost(found.left, found.others[-1], facts, 16) is None:
        return None
    return None if size_of(column) * right.dtype.itemsize < 32 else found


def column_blocks(vectors: int) -> int:
    """In how many blocks columns are: of blocks that are alike no panel is needed."""
    blocks = -(-vectors // _VECTORS)
    fewer = -(-vectors // _EVEN_VECTORS)
    return fewer if vectors % blocks and vectors % fewer == 0 else blocks


def find_grouped_rows(
    plan: Contraction, facts: Facts, target: Target
) -> SlidingRows | None:
    """The product of groups as a convolution, if it is one."""
    found = as_rows(plan, facts, target, group_vectors(plan, target))
    if found is None or size_of(found.pixel) < 2:
        return None
    found = replace(found, groups=True)
    if found.others or len(plan.columns) > 1:
        return in_cache(found, target)
    # Its vectors lie as they should, and could be read where they stand.
    if taps_of_pixel(found) < _LEAST_TAPS:
        return None
    whole = group_vectors(plan, target)
    for vectors in _ABREAST:
        beside = replace(found, vectors=vectors)
        if whole % vectors == 0 and _spread_bytes(beside, target) <= target.l2 // 2:
            return beside
    return in_cache(found, target)


def group_vectors(plan: Contraction, target: Target) -> int:
    """Vectors of columns that are groups."""
    lanes = target.vector_bytes // plan.reduces[0].dtype.itemsize
    return -(-prod(map(size_of, plan.columns)) // lanes)


def taps_of_pixel(found: SlidingRows) -> float:
    """How often a pixel of a panel is read, about."""
    axes = (*found.lines, found.pixel)
    taps = prod(w.taps for w in found.windows)
    whole = replace(found, size=size_of(axes[0]))
    return taps * prod(map(size_of, axes)) / _pixels_seen(whole)


def in_cache(found: SlidingRows, target: Target) -> SlidingRows | None:
    """The same in blocks whose panels fit into the second cache, or nearly."""
    while found.size > 1 and found.lines and _spread_bytes(found, target) > target.l2:
        found = replace(found, size=-(-found.size // 2))
    return found if _spread_bytes(found, target) <= 2 * target.l2 else None


def _spread_bytes(sliding: SlidingRows, target: Target) -> int:
    """Of the panel with a vector for each number, of a block."""
    each = sliding.vectors * target.vector_bytes
    return prod(size_of(r) for r in sliding.others) * each * _pixels_seen(sliding)


def _pixels_seen(sliding: SlidingRows) -> int:
    """Pixels that a block sees."""
    s = sliding
    first, *rest = (*s.lines, s.pixel)
    windows = {w.column: w for w in s.windows}
    found = 1
    for axis, size in ((first, s.size), *((a, size_of(a)) for a in rest)):
        window = windows.get(axis)
        found *= size if window is None else _lines(window, size)
    return found


def _lines(window: Window, size: int) -> int:
    """Lines of all classes of a window for so many of its column."""
    return sum(count * (size + window.halo(n)) for _, count, n in window.groups)


def as_rows(
    plan: Contraction,
    facts: Facts,
    target: Target,
    columns: int = 1,
    enough: int = 0,
) -> SlidingRows | None:
    """The contraction with windows among its rows, and so many blocks of columns.

    Args:
      enough: an image of fewer pixels is not a block for itself.
    """
    (left,), (right,) = plan.left, plan.right
    windows = _of_different_taps(find_windows(left, plan.rows, plan.ranges, facts))
    if not windows:
        return None
    taps = [w.tap for w in windows]
    others = [r for r in plan.ranges if r not in taps]
    walk = step_sizes(left, others, facts)
    others.sort(key=lambda r: -walk[r])
    at = min(plan.rows.index(w.column) for w in windows)
    if at and prod(map(size_of, plan.rows[at:])) < enough:
        at -= 1
    *lines, pixel = plan.rows[at:]
    first = (*lines, pixel)[0]
    outer = (*plan.outer, *plan.rows[:at])
    units = columns * prod(size_of(a) for a in outer)
    inside = prod(map(size_of, (*lines, pixel))) // size_of(first)
    size = axis_of(first).size
    if first is not pixel:
        while units * -(-axis_of(first).size // size) < 4 * target.cores:
            if size * inside <= _FEW_PIXELS or size == 1:
                break
            size = -(-size // 2)
    return SlidingRows(
        plan, tuple(windows), left, right, outer, tuple(lines), pixel, tuple(others),
        size,
    )  # fmt: skip


def _of_different_taps(windows: Sequence[Window]) -> list[Window]:
    """One window for each axis of taps."""
    found: dict[Node, Window] = {}
    for window in windows:
        found.setdefault(window.tap, window)
    return list(found.values())

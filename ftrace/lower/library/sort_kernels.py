"""Sorting as kernels, without Python: NumPy's vector code under an order of our own.

    sort(x)            ->  order[sort](x)
    sort(short x)      ->  order[short](x)
    sort(long x)       ->  order[merged](order[runs](x), x)
    argsort(a, b)      ->  order[positions](a, order[positions](b))
    argsort(short a)   ->  order[short_positions](a)
    argsort(long a)    ->  order[merged_positions](order[position_runs](a))
    top_k(x)           ->  order[top](x)
    places(mask)       ->  order[places](mask); of long rows
                           order[places](order[counts](mask), mask)
    partition(x)       ->  number(partition(key(x))), by the host; of several rows, or
                           where there is a faster sort, as sort(x)

Numbers become integers in the same order, their *keys*; where positions are wanted,
these stand below the keys, in one integer of 64 bits,

    key · 2³² + position

so that all differ, and any sort of them is stable. Keys of 64 bits count as two.

Rows are the units that threads share; short ones are sorted side by side, a row in
each lane of a vector: 4 to 50 times as quickly as one by one. A long row is cut in
runs, whose number its length tells; pairs of them are merged until one is left, each
piece of the result by itself. After every run stands the greatest key, so that a merge
need not ask where the run ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import log2, prod
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import Kernel
from ftrace.lower.register_loops.register_loop import buffers_of, kernel_step
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.library import sorting, sorting as partition
from ftrace.trace.primitives.library.sorting import has_sorters
from ftrace.trace.primitives.movement import move_axis, shrink_axis
from ftrace.trace.primitives.primitive import items
from ftrace.trace.primitives.sources import const_like, iota

#: What `config.disabled_rules` can switch off here.
DECISIONS = {
    "native_sort": "a sort is a kernel, without Python",
    "native_nonzero": "positions of what is true are found by a kernel",
    "partition_keys": "a partition of a long row is one of integers, not a sort",
    "sort_rows_in_lanes": "short rows are sorted together, one in each lane",
    "merge_sort": "a long row is sorted in runs, which are merged",
}

#: So many rows keep threads busy, and are not cut: with 64 or 4 no row differs.
_MANY_ROWS = 16
#: A row of so many elements has two runs; of eight times as many, twice as many. With
#: 2¹⁹ 1M is sorted in two kernels, not three, with 2¹⁵ 100,000 in two, not one.
LONG = 1 << 17
#: Elements of a row at the most that is sorted in a lane, and rows at the least. With
#: 128 rows of 40 are, with 8 those of 16 are not; with 32 rows 8 are not, with 2 4 are.
SHORT, SEVERAL = 32, 8
#: So many positions `top` finds at the most: it collects them on the stack. With 4096
#: 3000 of 1M are two kernels and 24 KB, not four and 21 MB, with 256 1000 are four.
_MOST_WANTED = 1 << 10
#: Of a row they are this part at most; of more the row is sorted.
_PART_WANTED = 8
_NARROW = 1 << 31  # positions have 31 bits


@dataclass(frozen=True)
class Ordering(Kernel):
    """A kernel that orders the elements of rows.

    Attributes:
      axes, stores: none.
      routine: what it does; `backends/llvm/library/sort/kernel.py` has a function for
        each.
      rows, size: how many rows, of how many elements.
      run, runs: of how many elements the runs of a row are, and how many it has; of a
        merge those before it.
      merge_zeros: -0.0 and 0.0 are equal.
      descending: the greatest key comes first; of equal ones the first.
      half: which half of keys of 64 bits: 1 the upper, 2 the lower one; else 0.
      k: of `top` and `places`, how many positions of a row are wanted.
    """

    routine: str = "sort"
    rows: int = 1
    size: int = 1
    run: int = 1
    runs: int = 1
    merge_zeros: bool = False
    descending: bool = False
    half: int = 0
    k: int = 0

    @property
    def operations(self) -> int:
        """Operations in one run, about."""
        passes = self.routine.startswith(("merge", "counts", "places"))
        each = 2 if passes else max(1, round(log2(max(self.run, 2)) / 2))
        return self.rows * self.size * each

    @property
    def final(self) -> bool:
        """Does a merge leave one run?"""
        return self.runs == 2

    def __str__(self) -> str:
        runs = f" in {self.runs} runs of {self.run}" if self.runs > 1 else ""
        return f"{self.routine} of {self.rows} rows of {self.size}{runs}"


def by_kernels(node: Node, read: Collection[int]) -> Sequence[Node] | None:
    """The result of a sort by kernels; None where the host is asked."""
    if not has_sorters() or not _has_sorter(node):
        return None
    return [SORTS[node.op](node)]


def _has_sorter(node: Node) -> bool:
    """Real numbers, no more than can be counted."""
    if node.op is sorting.positions_p:
        if not settings.decides("native_nonzero"):
            return False
        axis = node.src[0].ndim - 1
    elif node.op in (sorting.sort_p, sorting.argsort_p):
        axis = int(node.arg)
    else:
        axis = int(node.arg.axis)
    return all(
        s.shape[axis] < _NARROW and dtypes.kind(s.dtype) in "biuf" for s in node.src
    )


def runs_of(rows: int, size: int) -> int:
    """Into how many runs each row is cut: a power of two."""
    if size < LONG or rows >= _MANY_ROWS or not settings.decides("merge_sort"):
        return 1
    runs = 2
    while size >= LONG * runs**3:
        runs *= 2
    return runs


def are_short(rows: int, size: int) -> bool:
    """Are rows sorted side by side?"""
    few = 1 < size <= SHORT and rows >= SEVERAL
    return few and settings.decides("sort_rows_in_lanes")


class _Rows:
    """The sorting of rows, which are the last axis of the operands."""

    def __init__(self, node: Node, shape: Sequence[int]) -> None:
        self.node = node
        self.shape = tuple(shape)
        self.size = self.shape[-1]
        self.rows = prod(self.shape[:-1])

    def kernel(
        self,
        routine: str,
        operands: Sequence[Node],
        results: Sequence[ShapedArray],
        **facts: Any,
    ) -> Node:
        """The first result of a kernel."""
        facts.setdefault("run", self.size)
        kernel = Ordering(
            (), (), buffers_of(results, operands), routine=routine, rows=self.rows,
            size=self.size, **facts,
        )  # fmt: skip
        return kernel_step(
            kernel, kernel.operations, self.node, operands, results, routine
        )[0]

    def runs(
        self, routine: str, operands: Sequence[Node], dtype: np.dtype[Any],
        **facts: Any,
    ) -> tuple[Node, int, int]:  # fmt: skip
        """Sorted runs, merged until two are left; how many there are, and how long."""
        runs = runs_of(self.rows, self.size)
        run = -(-self.size // runs)

        def room(runs: int, run: int) -> ShapedArray:
            return ShapedArray.of((self.rows * runs * (run + 1),), dtype)

        keys = self.kernel(
            routine, operands, [room(runs, run)], run=run, runs=runs, **facts
        )
        while runs > 2:
            after = room(runs // 2, 2 * run)
            keys = self.kernel("merge", [keys], [after], run=run, runs=runs)
            runs, run = runs // 2, 2 * run
        return keys, runs, run

    def positions(self, key: Node, places: Node | None, **facts: Any) -> Node:
        """The positions that bring a key into order, of those at `places`."""
        operands = [key] if places is None else [key, places]
        result = ShapedArray.of(self.shape, dtypes.int32)
        if places is None and are_short(self.rows, self.size):
            return self.kernel("short_positions", operands, [result], **facts)
        if runs_of(self.rows, self.size) == 1:
            return self.kernel("positions", operands, [result], **facts)
        packed, runs, run = self.runs("position_runs", operands, dtypes.int64, **facts)
        return self.kernel(
            "merged_positions", [packed, *operands[1:]], [result], run=run, runs=runs
        )


def key_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The integers that stand for numbers of a dtype, in the same order."""
    match dtypes.kind(dtype):
        case "b":
            return dtypes.uint8
        case "f":
            return np.dtype(f"i{dtype.itemsize}")
        case _:
            return dtype


def _sort(node: Node) -> Node:
    (x,) = node.src
    last = x.ndim - 1
    x = move_axis(x, node.arg, last)
    rows, integer = _Rows(node, x.shape), key_dtype(x.dtype)
    if are_short(rows.rows, rows.size):
        return move_axis(rows.kernel("short", [x], [x.aval]), last, node.arg)
    # Short integers take less time than the merge of their runs.
    if integer.itemsize <= 2 or runs_of(rows.rows, rows.size) == 1:
        return move_axis(rows.kernel("sort", [x], [x.aval]), last, node.arg)
    keys, runs, run = rows.runs("runs", [x], integer)
    result = rows.kernel("merged", [keys, x], [x.aval], run=run, runs=runs)
    return move_axis(result, last, node.arg)


def _argsort(node: Node) -> Node:
    axis, last = node.arg, node.src[0].ndim - 1
    keys = [move_axis(x, axis, last) for x in node.src]
    found = _by_keys(_Rows(node, keys[0].shape), keys, merge_zeros=True)
    return move_axis(found, last, axis)


def _by_keys(rows: _Rows, keys: Sequence[Node], **facts: Any) -> Node:
    places: Node | None = None
    for key in reversed(keys):
        for half in (2, 1) if key.dtype.itemsize == 8 else (0,):
            places = rows.positions(key, places, half=half, **facts)
    assert places is not None
    return places


def _top_k(node: Node) -> Node:
    (x,) = node.src
    arg: sorting.TopK = node.arg
    last = x.ndim - 1
    x = move_axis(x, arg.axis, last)
    rows = _Rows(node, x.shape)
    facts = {"merge_zeros": False, "descending": arg.largest}
    if x.dtype.itemsize < 8 and arg.k <= min(_MOST_WANTED, rows.size // _PART_WANTED):
        aval = ShapedArray.of((*x.shape[:-1], arg.k), dtypes.int32)
        found = rows.kernel("top", [x], [aval], k=arg.k, **facts)
    else:
        found = shrink_axis(_by_keys(rows, [x], **facts), last, 0, arg.k)
    return move_axis(found, last, arg.axis)


# Positions of what is true.

#: Elements of a run of a mask at the least, and runs at the most; a run is whole words.
#: With 2¹⁷ masks of 100,000 are counted at once, with 2¹³ they are 12 runs, not three;
#: with 256 runs one of 4M is 128, not 64, with 16 it is 16.
_LEAST_RUN, _MOST_MASKS, _WORD = 1 << 15, 64, 64


def _positions(node: Node) -> Node:
    (mask,) = node.src
    rows = _Rows(node, mask.shape)
    runs = 1 if rows.rows >= _MANY_ROWS else rows.size // _LEAST_RUN
    runs = max(1, min(runs, _MOST_MASKS))
    run = -(-rows.size // (runs * _WORD)) * _WORD
    runs = -(-rows.size // run)
    facts = {"run": run, "runs": runs}
    operands = [mask]
    if runs > 1:
        counts = ShapedArray.of((rows.rows, runs), dtypes.int32)
        operands.insert(0, rows.kernel("counts", [mask], [counts], **facts))
    result = items(node)[0].aval
    return rows.kernel("places", operands, [result], k=node.arg, **facts)


# Partitions.

#: So many rows, which the host takes one by one, are not sorted by as many threads.
#: One of 1M is partitioned in a third of the time of its sort. With 16 16 rows of
#: 100,000 are the host's, with 1 3 of 2¹⁸ are sorted.
_FEW_ROWS = 4


def _is_partitioned(x: Node, axis: int) -> bool:
    few = prod(x.shape) <= _FEW_ROWS * x.shape[axis]
    return few and x.dtype.itemsize > 1 and settings.decides("partition_keys")


def _partition(node: Node) -> Node:
    """NumPy has faster code for integers than for floats, and takes -0.0 for 0.0."""
    (x,) = node.src
    arg: partition.Partition = node.arg
    if not _is_partitioned(x, arg.axis):
        return _sort(sorting.sort_p(x, arg=arg.axis))
    if dtypes.kind(x.dtype) != "f":
        return partition.partition_p.results(x, arg=arg)[0]
    (found,) = partition.partition_p.results(_float_key(x), arg=arg)
    return p.bitcast(_order_bits(found), arg=x.dtype)


def _argpartition(node: Node) -> Node:
    """Of numbers of 32 bits and their positions in one integer."""
    (x,) = node.src
    arg: partition.Partition = node.arg
    if not _is_partitioned(x, arg.axis):
        return _argsort(sorting.argsort_p(x, arg=arg.axis))
    if x.dtype.itemsize > 4:
        return partition.argpartition_p.results(x, arg=arg)[0]
    if dtypes.kind(x.dtype) == "f":
        x = _float_key(x)
    elif x.dtype == dtypes.uint32:
        x = p.bitcast(p.bit_xor(x, const_like(x, 1 << 31)), arg=dtypes.int32)
    key = p.cast(x, dtypes.int64)
    place = iota(dtypes.int64, x.shape, arg.axis)
    packed = p.add(p.shift_left(key, const_like(key, 32)), place)
    (found,) = partition.partition_p.results(packed, arg=arg)
    return p.cast(found, dtypes.int32)  # the lower half


def _float_key(x: Node) -> Node:
    """As `Keys` of the kernels: all bits but the sign turned where that is set."""
    integer = key_dtype(x.dtype)
    key = _order_bits(p.bitcast(x, arg=integer))
    return p.select(p.ne(x, x), const_like(key, np.iinfo(integer).max), key)


def _order_bits(bits: Node) -> Node:
    width = 8 * bits.dtype.itemsize
    sign = p.shift_right_arithmetic(bits, const_like(bits, width - 1))
    turn = p.bit_and(sign, const_like(bits, np.iinfo(bits.dtype).max))
    return p.bit_xor(bits, turn)


SORTS: dict[Any, Callable[[Node], Node]] = {
    sorting.sort_p: _sort,
    sorting.argsort_p: _argsort,
    sorting.top_k_p: _top_k,
    partition.partition_p: _partition,
    partition.argpartition_p: _argpartition,
    sorting.positions_p: _positions,
}

"""Memory that is asked for before it is needed.

In kernels that pass over rows (`prefetches`):

    for rows i:
      pass 1 over the row: it comes from memory
      pass 2 over the row: it is in the cache, and memory rests

In the later passes the next row is asked for, and before the last one the lines that
it will write. The processor does the same by itself where one loop runs on and on, but
not from pass to pass. Without what is asked for before it is written, a softmax of
4096×1000 takes 1.14 times as long, a layer norm of 2048² 1.10 times (AMD EPYC).

In squares of registers that are transposed the rows of the next square are asked for
(`far_rows`): each is another line, and no processor guesses where it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ftrace.backends.llvm.schedule.index_facts import Facts, index_of
from ftrace.backends.llvm.schedule.loop_tiling import (
    Prefetch,
    Tiling,
    range_of,
    size_of,
)
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.kernel.affine_index import index_of_atom
from ftrace.lower.kernel.ir import Kernel, Store, axis_of, bytes_of, load_p
from ftrace.lower.kernel.loop_tree import Let, Loop, ReduceLoop
from ftrace.trace.graph import Node, toposort
from ftrace.trace.symbolic import upper_bound

#: Rows of one unit: the next row of the last one may be another thread's. With 16 no
#: softmax of the benchmarks asks ahead, with 1 the cross-entropy does, too.
_ROWS = 4
#: Vectors of a row that are asked for in a pass, at most.
_STREAMS = 6


class _Rows(NamedTuple):
    """Passes over rows: `last` is the loop that stores them, if they are stored."""

    axis: Node
    passes: list[ReduceLoop]
    last: Loop | None


def prefetches(
    kernel: Kernel, facts: Facts, tiling: Tiling, rows_loop: Loop, together: int,
    target: Target,
) -> dict[ReduceLoop | Loop, list[Prefetch]]:  # fmt: skip
    """What each pass of a kernel asks for.

    Args:
      rows_loop: the last of the loops that threads share.
      together: tiles of it in a unit.
    """
    if kernel.is_dynamic or not target.decides("prefetch"):
        return {}
    if (kernel.ordered and kernel.scatters) or bytes_of(kernel.buffers) <= target.l2:
        return {}
    rows = _rows(tiling, rows_loop, together)
    if rows is None:
        return {}
    *_, before = rows.passes
    later = rows.last if len(rows.passes) < 2 else before
    found: dict[ReduceLoop | Loop, list[Prefetch]] = {}
    if later is not None:
        found[later] = _reads(rows, later, facts, target)
    if rows.last is not None:
        written = _writes(rows, rows.last, range_of(before), facts, target)
        found.setdefault(before, []).extend(written)
    return {loop: some for loop, some in found.items() if 0 < len(some) <= _STREAMS}


def _rows(tiling: Tiling, loop: Loop, together: int) -> _Rows | None:
    """The passes over each row of a kernel, in vectors along the row."""
    inside = [s for s in loop.body if not isinstance(s, Let)]
    if len(inside) == 1 and isinstance(inside[0], Loop):  # a block of rows is a unit
        loop = inside[0]
        together = size_of(loop.axis)
    if together < _ROWS or tiling.of(loop.axis).lanes or tiling.columns is not None:
        return None
    passes = [s for s in loop.body if isinstance(s, ReduceLoop)]
    others = [s for s in loop.body if isinstance(s, Loop)]
    every = (*passes, *others)
    simple = all(isinstance(s, Let | Store) for each in every for s in each.body)
    if not passes or not simple or len(others) > 1:
        return None
    vectors = [range_of(each) for each in every]
    alike = len({axis_of(r).size for r in vectors}) == 1
    if not alike or not all(tiling.of(r).lanes for r in vectors):
        return None
    return _Rows(loop.axis, passes, others[0] if others else None)


def is_far(node: Node, target: Target) -> bool:
    """Is it a load from beyond the second cache, nowhere masked, to be asked for?"""
    if node.op is not load_p or node.src[2:] or not target.decides("prefetch"):
        return False
    return upper_bound(prod(node.src[0].shape)) * node.dtype.itemsize > target.l2


def far_rows(
    loads: Sequence[Node], row: Node, facts: Facts, target: Target
) -> list[Node]:
    """Those from beyond the second cache whose rows are lines of their own."""
    far = [n for n in loads if is_far(n, target)]
    terms = [(n, facts.affine[index_of(n)].terms) for n in far]
    steps = [(n, abs(t.get(row, 0)) * n.dtype.itemsize) for n, t in terms]
    return [n for n, step in steps if step >= target.cache_line]


def loads_along(values: Sequence[Node], vector: Node, facts: Facts) -> list[Node]:
    """Loads in expressions that are whole vectors, nowhere masked."""
    loads = [n for n in toposort(values) if n.op is load_p and len(n.src) == 2]
    return [n for n in loads if facts.affine[index_of(n)].terms.get(vector) == 1]


def prefetch_along(
    loads: Sequence[Node], along: Node, steps: int, facts: Facts
) -> tuple[Node, list[Prefetch]]:
    """Loads that are asked for with each vector, as they are some steps later.

    They go to the second cache: rows far apart often share a set of the first.
    """
    forms = [(node, facts.affine[index_of(node)]) for node in loads]
    moving = [(node, form) for node, form in forms if along in form.terms]
    return along, [Prefetch.of(n, f + steps * f.terms[along]) for n, f in moving]


def _reads(
    rows: _Rows, where: ReduceLoop | Loop, facts: Facts, target: Target
) -> list[Prefetch]:
    """The next row of what the first pass reads."""
    first = rows.passes[0]
    own, other = range_of(first), range_of(where)
    found: dict[object, Prefetch] = {}
    if len(first.ranges) > 1:
        return []
    for statement in first.body:
        node = statement.node if isinstance(statement, Let) else None
        if node is None or node.op is not load_p or len(node.src) != 2:
            continue
        form = facts.affine[index_of(node)]
        step = form.terms.get(rows.axis, 0)
        nbytes = size_of(own) * node.dtype.itemsize
        if step <= 0 or form.terms.get(own) != 1 or nbytes > target.l2 // 4:
            continue
        moved = (form + step).over({own: index_of_atom(other)})
        asked = Prefetch.of(node, moved, nbytes <= target.l1 // 4)
        found[asked.buffer, frozenset(moved.terms.items()), moved.constant] = asked
    return list(found.values())


def _writes(
    rows: _Rows, loop: Loop, other: Node, facts: Facts, target: Target
) -> list[Prefetch]:
    """The lines that the last pass writes, but those that all rows are added to."""
    found: list[Prefetch] = []
    for store in loop.body:
        if not isinstance(store, Store) or store.valid is not None or store.combine:
            continue
        size = store.value.dtype.itemsize
        form = facts.affine[store.index]
        nbytes = size_of(loop.axis) * size
        if not form.terms.get(rows.axis):
            continue
        if form.terms.get(loop.axis) == 1 and nbytes <= target.l1 // 4:
            moved = form.over({loop.axis: index_of_atom(other)})
            found.append(Prefetch(store.buffer, moved, size, True, True))
    return found

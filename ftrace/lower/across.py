"""Does a reduce that runs beside the work on its rows walk down columns of memory?

    softmax(x, axis=1)     its rows are rows of memory: maximum, sum and quotient of a
                           row are computed while it is in the cache
    softmax(x.T, axis=1)   its rows are columns: each element is on a line of its own,
                           and three walks down a column take longer than three kernels
                           of which each reads whole lines

Asked before it is decided, so that the answer depends on what the reduce adds up alone:
on how it reads the values that surely lie in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from ftrace.lower.drafts import Context
from ftrace.lower.index import (
    Atom,
    Index,
    flatten_index,
    range_index,
    source_index,
)
from ftrace.lower.values import is_contraction, is_step, reduced_axes
from ftrace.trace.dims import same_size
from ftrace.trace.graph import Node
from ftrace.trace.primitives.source import is_variable
from ftrace.trace.sizes import sample

_NEAR = 64  # nodes that are looked at
_FAR = 1 << 20  # numbers of ranges that no kernel has


def reduces_columns(node: Node, context: Context, stored: frozenset[Node]) -> bool:
    """Does a reduce in a kernel add up columns of memory?

    Args:
      node: the reduce.
      context: where a kernel needs it: its rows are the ranges of the indices.
      stored: values that are stored, whatever is decided.
    """
    inner = list(context.indices)
    for number, axis in enumerate(reduced_axes(node)):
        inner[axis] = range_index(_FAR + number, node.src[0].shape[axis], True)
    within = Context(context.kernel, tuple(inner), context.valid)
    return are_columns(node.src[0], within, context.ranges, stored)


def are_columns(
    node: Node, context: Context, rows: Set[Atom], stored: frozenset[Node]
) -> bool:
    """Are the rows of a value columns of all the arrays that it is made of?

    Args:
      rows: of the ranges of the context those that go from row to row.
    """
    size = sample(node.size)
    found = False
    for array, indices in _arrays(node, context, stored):
        if 2 * sample(array.size) < size:
            continue  # a value per row or per column
        position = flatten_index(indices, array.shape)
        if not any(same_size(abs(c), 1) and atom in rows for atom, c in position.terms):
            return False
        found = True
    return found


def _arrays(
    node: Node, context: Context, stored: frozenset[Node]
) -> Iterator[tuple[Node, tuple[Index, ...]]]:
    """What a value is made of in memory, and where that is read."""
    pending = [(node, context.indices, 0)]
    numbers = {context.indices: 0}  # indices are deep
    seen = {(node, 0)}
    while pending:
        node, indices, number = pending.pop()
        if node in stored or is_variable(node) or is_contraction(node):
            yield node, indices
            continue
        family = node.op.family
        if is_step(node) or family in ("indexing", "reduction", "source"):
            continue
        if family == "movement":
            indices, valid = source_index(node, indices, context.valid)
            if valid is None:
                continue
            number = numbers.setdefault(indices, len(numbers))
        for source in node.src:
            if len(seen) < _NEAR and (source, number) not in seen:
                seen.add((source, number))
                pending.append((source, indices, number))

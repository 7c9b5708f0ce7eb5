"""How the elements of arrays lie in memory: here always row by row."""

from __future__ import annotations

from typing import Any

from ftrace.trace.pytree import tree
from ftrace.trace.tracing.tracer import aval_of
from ftrace.transforms.shardings import Format as Format, Layout as Layout, check_rows

__all__ = ["Format", "Layout", "with_layout_constraint"]


def with_layout_constraint(x: Any, layouts: Any) -> Any:
    """The arrays of a tree, which lie in the order of their axes.

    Raises:
      ValueRangeError: another order is asked for.
    """
    found = tree.broadcast_prefix(layouts, x, "with_layout_constraint")
    for layout, leaf in zip(found, tree.leaves(x), strict=True):
        check_rows("with_layout_constraint", layout, aval_of(leaf).ndim)
    return x

"""How the elements of arrays lie in memory: here always row by row."""

from __future__ import annotations

from typing import Any

from ftrace.errors import ValueRangeError
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.tracer import aval_of
from ftrace.transforms.shardings import Format as Format, Layout as Layout

__all__ = ["Format", "Layout", "with_layout_constraint"]


def with_layout_constraint(x: Any, layouts: Any) -> Any:
    """The arrays of a tree, which lie in the order of their axes.

    Raises:
      ValueRangeError: another order is asked for.
    """
    found = tree.broadcast_prefix(layouts, x, "with_layout_constraint")
    for layout, leaf in zip(found, tree.leaves(x), strict=True):
        order = tuple(range(aval_of(leaf).ndim))
        if layout is not None and tuple(layout.major_to_minor) != order:
            raise ValueRangeError(
                f"with_layout_constraint: arrays lie row by row, {order}, got "
                f"{layout.major_to_minor}; transpose what is to lie in another order"
            )
    return x

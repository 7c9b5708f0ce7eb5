"""optimization_barrier: values that exist only once all of them do."""

from __future__ import annotations

from typing import Any

from ftrace.trace import tree
from ftrace.trace.operations import bind_compound
from ftrace.trace.primitives.barrier import barrier_p
from ftrace.transforms.arguments import flatten_values


def optimization_barrier(operand: Any) -> Any:
    """The arrays of a tree, none of which can be used before all have been computed.

    What is computed of the results is not merged with what is computed of `operand`.

    Raises:
      ArgumentError: a leaf is no array.
    """
    values, treedef = flatten_values(operand, "optimization_barrier: the operand ")
    if not values:
        return operand
    return tree.unflatten(treedef, bind_compound(barrier_p, *values))


__all__ = ["optimization_barrier"]

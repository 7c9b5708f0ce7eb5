"""barrier: values that exist only once all of them do.

    barrier_p(*operands, arg) -> *operands

What needs one of the results is not computed before every operand has been, and is not
merged with what needs the operands themselves. It costs nothing: the results are the
memory of the operands. `lax.optimization_barrier` is this; `checkpoint` puts it around
what it computes again, so that the second pass cannot become the first one.

Where `arg` is `IN_LOOPS` it stands in the bodies of loops only, and vanishes elsewhere:
what does not depend on the iteration before it would be computed for all at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives.primitive import Compound, Results

IN_LOOPS = "in loops"
Where = str | None


def _infer(arg: Where, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
    return avals


def _value(avals: Sequence[ShapedArray], arg: Where, *operands: Any) -> Sequence[Any]:
    return operands


def _through(node: Node, values: Results) -> Results:
    """Of what is known, tangents or cotangents: a barrier of their own."""
    known = barrier([v for v in values if v is not None], node.arg)
    rest = iter(known)
    return [None if v is None else next(rest) for v in values]


barrier_p = Compound(
    "barrier", "barrier", _infer, _value,
    lambda node, src, batched, size: (barrier(src, node.arg), list(batched)),
    jvp=_through, transpose=lambda node, cotangents, linear: _through(node, cotangents),
    doc="its operands, once all of them exist",
)  # fmt: skip


def barrier(nodes: Sequence[Node], where: Where = None) -> list[Node]:
    """The nodes, none of which exists before all of them do."""
    return barrier_p.results(*nodes, arg=where) if nodes else []

"""Which reduction a function of two values stands for.

`reduce(x, 0.0, lambda a, b: a + b, (0,))` gives the function, not its name: it is
traced on two scalars, and one operation on both of them is a reduction we have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import FtraceError
from ftrace.records import NamedTuple
from ftrace.tables import memo
from ftrace.trace.avals import ShapedArray
from ftrace.trace.eager import Eager
from ftrace.trace.graph import Op
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.broadcast import reduce_sum_p
from ftrace.trace.primitives.record import Primitive
from ftrace.trace.primitives.reduction import reduce_max_p, reduce_min_p, reduce_prod_p
from ftrace.trace.tracing import trace


class Monoid(NamedTuple):
    """A reduction and the operation of two values that it repeats."""

    reduction: Primitive
    combine: Primitive


SUM = Monoid(reduce_sum_p, p.add)
PRODUCT = Monoid(reduce_prod_p, p.mul)
MAXIMUM = Monoid(reduce_max_p, p.maximum)
MINIMUM = Monoid(reduce_min_p, p.minimum)

_BY_OPERATION: dict[Op, Monoid] = {
    m.combine: m for m in (SUM, PRODUCT, MAXIMUM, MINIMUM)
}
_OF_BOOLS: dict[Op, Monoid] = {p.bit_and: MINIMUM, p.bit_or: MAXIMUM}


def recognise(computation: Callable[..., Any], dtype: np.dtype[Any]) -> Monoid | None:
    """The reduction of this dtype that repeats the function; None if it is another."""
    if type(computation) is Eager:  # a public one, which is always the same
        return _recognised(computation, dtype)
    return _traced(computation, dtype)


def _traced(computation: Callable[..., Any], dtype: np.dtype[Any]) -> Monoid | None:
    scalar = ShapedArray.of((), dtype)

    def combined(a: Any, b: Any) -> list[Any]:
        return [computation(a, b)]

    try:
        graph = trace("reduce", combined, [scalar, scalar])
    except (FtraceError, TypeError, ValueError):
        return None  # it takes something else than two scalars
    (result,) = graph.outputs
    if set(result.src) != set(graph.inputs) or len(graph.inputs) != 2:
        return None
    if dtype == dtypes.bool_ and result.op in _OF_BOOLS:
        return _OF_BOOLS[result.op]
    return _BY_OPERATION.get(result.op)


_recognised = memo(256)(_traced)

"""The derivative of a running maximum or minimum, as kernels where no elements tie.

    y = cummax(x); ȳ -> x̄        an element that is the maximum for a while gets the
                                 cotangents of that while, and the others get zero

    y     = running maximum of x
    tied  = x[i] == y[i-1] somewhere, or NaN
    x̄     = select(x == y, sums of ȳ up to the next element with x == y, 0)     not tied
            the host's walk over pairs, which divides shares as JAX does            tied

The sums run backwards over (does a new maximum come next?, cotangent).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from ftrace import dtypes, settings
from ftrace.lower.running import Operator, as_it_is, make_running, running_step
from ftrace.lower.running import by_kernels as running_by_kernels
from ftrace.trace.body import close
from ftrace.trace.control.branch import Branches, cond_p
from ftrace.trace.dims import any_dynamic
from ftrace.trace.graph import Node
from ftrace.trace.primitives.elementwise import (
    add,
    bit_and,
    bit_or,
    cast,
    eq,
    gt,
    lt,
    maximum,
    ne,
    select,
)
from ftrace.trace.primitives.host.cumulative import (
    Running,
    Share,
    cumulate_p,
    extremum_tangent_p,
    shifted,
)
from ftrace.trace.primitives.movement import reshape
from ftrace.trace.primitives.record import items
from ftrace.trace.primitives.reduction import reduce, reduce_max_p
from ftrace.trace.primitives.source import const_like, iota, variable, zeros_like

#: What `config.disabled_rules` can switch off here.
DECISIONS = {
    "extremum_tangent_in_kernels": "a running extremum without ties has its derivative "
    "from kernels, not from the host",
}

#: Fewer elements are not worth several kernels.
_LEAST = 1 << 12
_DEPTH = -41


def by_kernels(node: Node, read: Collection[int]) -> Node | None:
    """A choice between kernels and the host; None: it is the host's."""
    (x, t), arg = node.src, node.arg
    if arg.ties or any_dynamic(x.shape) or x.size < _LEAST:
        return None
    off = (*DECISIONS, "running_in_registers")
    if not settings.current().disabled_rules.isdisjoint(off):
        return None
    if not (dtypes.is_float(x.dtype) and dtypes.is_float(t.dtype)):
        return None
    run = Running(arg.kind, arg.axis, arg.reverse)
    cumulated = cumulate_p(x, arg=run)
    y = items(running_by_kernels(cumulated, ()) or cumulated)[0]
    operands = [x, y, t]
    names = [variable(n.aval, _DEPTH, i) for i, n in enumerate(operands)]
    kernels = _collected(names, arg) if arg.transposed else _handed_on(names, arg)
    by_host = extremum_tangent_p.results(
        names[0], names[2], arg=arg._replace(ties=True)
    )
    bodies = (close(names, kernels), close(names, by_host))
    return cond_p(_is_tied(x, y, arg), *operands, arg=Branches(bodies))


def _is_tied(x: Node, y: Node, arg: Share) -> Node:
    """1 if an element equals the extremum of those before it, or is NaN; else 0."""
    place = iota(dtypes.int32, x.shape, arg.axis)
    first = x.shape[arg.axis] - 1 if arg.reverse else 0
    later = ne(place, const_like(place, first))
    same = bit_and(eq(x, shifted(y, arg.axis, arg.reverse)), later)
    tied = cast(bit_or(same, ne(x, x)), np.dtype(np.int32))
    return reshape(reduce(reduce_max_p, tied, tuple(range(x.ndim))), ())


def _handed_on(names: Sequence[Node], arg: Share) -> list[Node]:
    """The tangents of the elements that are the extrema."""
    x, _, t = names
    before = gt if arg.kind == "max" else lt

    def combine(left: Sequence[Node], right: Sequence[Node]) -> Sequence[Node]:
        (p, s), (q, u) = left, right
        first = before(p, q)
        return [select(first, p, q), select(first, s, u)]

    kernel = make_running(
        [x, t], (1,), Operator(combine, as_it_is), arg.axis, arg.reverse
    )
    return items(running_step("extremum_tangent", [x, t], kernel, (t.aval,)))


def _collected(names: Sequence[Node], arg: Share) -> list[Node]:
    """The cotangents added up at the elements from which the extrema came."""
    x, y, t = names
    here = eq(x, y)
    new = cast(here, np.dtype(np.uint8))
    ends = shifted(new, arg.axis, not arg.reverse)

    def combine(left: Sequence[Node], right: Sequence[Node]) -> Sequence[Node]:
        (behind, s), (end, u) = left, right
        ended = ne(end, const_like(end, 0))
        return [maximum(behind, end), select(ended, u, add(s, u))]

    kernel = make_running([ends, t], (1,), Operator(combine), arg.axis, not arg.reverse)
    (sums,) = items(running_step("extremum_cotangent", [ends, t], kernel, (t.aval,)))
    return [select(here, sums, zeros_like(sums))]

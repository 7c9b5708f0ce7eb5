"""What processes send each other, as native code sends it.

    sum of x along a: 2 processes    send x; get result; result = x + result
    gather                           send x to each; get rows of result; x -> its row
    all_to_all                       the same with row i of x, which the i-th one gets
    permute                          a row for each: to and from whom is in tables

All is sent before anything is got: a process may read a long message out of the
memory of the other one as soon as it asks for it, and what it had to send would wait
that long (16 MB between two: 3.2 ms, one after the other, or 1.7, at once).

Python does the same (`Group._send_to_each`, `sending`) where native code cannot: the
first time, as all processes must be there to become a group, and where it is observed.
"""

from __future__ import annotations

from ftrace import dtypes
from ftrace.backends.llvm.runtime.records import MessageRow
from ftrace.backends.llvm.runtime.ufunc_loops import NotLoops, loop_of
from ftrace.ground import process_groups, processes
from ftrace.lower.program import RunExchange
from ftrace.trace.primitives.exchange import UFUNCS

#: The greatest number of elements that a message has here.
_MOST = (1 << 31) - 1


def messages_of(
    step: RunExchange, mpi: processes.Native
) -> tuple[list[MessageRow], tuple[int, ...]] | None:
    """The messages of an exchange, and what its record has of them; see there.

    None where it is not one exchange from beginning to end in which each sends to each,
    or where elements of more than two are combined, or in a wider dtype.
    """
    (node, *more), arg = step.nodes, step.nodes[0].arg
    place, x = arg.ranks.rank, node.src[0].aval
    known = arg.kind in (*UFUNCS, "gather", "scatter", "all_to_all", "permute")
    if more or step.phase != "whole" or place is None or not known:
        return None
    kind, unit = process_groups.kind_of(x.dtype)
    size = x.dtype.itemsize
    if x.size * size > _MOST * unit:
        return None
    operand, (result,) = step.operands[0], step.results
    if arg.kind == "permute":
        rows = _rows(step, mpi, place, x.size * size, unit)
        return rows, (kind, operand, result, *[0] * 8)
    ways = process_groups.pairwise(
        arg.kind, place, arg.ranks.size, x.size, x.size * size
    )
    if not ways:
        return None
    way = next(iter(ways.values()))
    count = way.length * size // unit
    rows = [
        MessageRow(mpi.send, operand, way.sent * size, count, other, 0)
        for other, way in ways.items()
    ]
    rows += [
        MessageRow(mpi.receive, result, way.into * size, count, other, 0)
        for other, way in ways.items()
    ]
    if way.retained >= 0:
        own = way.own * size, way.retained * size, way.length * size
        return rows, (kind, operand, result, *own, *[0] * 5)
    if dtypes.widen(x.dtype) != x.dtype:
        return None
    try:
        loop = loop_of(UFUNCS.get(arg.kind, UFUNCS["sum"]), 3 * x.dtype.char)
    except NotLoops:
        return None
    own = way.own * size, 0, 0
    return rows, (kind, operand, result, *own, *loop, way.length, size, int(not place))


def _rows(
    step: RunExchange, mpi: processes.Native, place: int, nbytes: int, unit: int
) -> list[MessageRow]:
    """What goes, then what comes: of each lane a row."""
    operand, source, target = step.operands
    lanes = step.nodes[0].src[1].aval.size
    size = nbytes // lanes
    comes = [
        MessageRow(
            mpi.receive, step.results[0], i * size, size // unit, 0, place * lanes + i,
            source, i, lanes, size,
        )
        for i in range(lanes)
    ]  # fmt: skip
    goes = [
        MessageRow(mpi.send, operand, i * size, size // unit, 0, -1, target, i, lanes)
        for i in range(lanes)
    ]
    return [*goes, *comes]

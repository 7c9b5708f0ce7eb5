"""What a process holds: nodes, and what tables keep."""

from __future__ import annotations

# It counts what nobody else may touch.
# pyright: reportPrivateUsage=false
from ftrace.ground.tables import _budget
from ftrace.trace.graph import _nodes


def interned_count() -> int:
    """How many nodes are alive in the process."""
    return len(_nodes)


def held_bytes() -> int:
    """What all entries of all tables weigh."""
    return sum(table.nbytes for table in _budget.tables())

"""Where ftrace differs from JAX on purpose.

A row has the functions (a pattern of their full names), what is different (see
`Difference`), the cases of which it holds, the reason, and where users read of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tests.differential.cases import Case
from tests.differential.outcomes import Difference

PORTING = "docs/coming-from-jax.md"


@dataclass(frozen=True)
class Purpose:
    """A difference that is meant."""

    names: str
    what: str
    reason: str
    when: Callable[[Case, Difference], bool] = lambda case, difference: True
    documented: str = PORTING


PURPOSES: tuple[Purpose, ...] = ()


def purpose_of(case: Case, difference: Difference) -> Purpose | None:
    """The row that a difference belongs to; None where it is a fault."""
    for row in PURPOSES:
        if (
            difference.what in row.what.split()
            and re.fullmatch(row.names, case.row.name)
            and row.when(case, difference)
        ):
            return row
    return None

"""Where a result differs on purpose, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.fuzz.judge import Failure
from tests.fuzz.program import Program


@dataclass(frozen=True)
class Purpose:
    """A rule over shrunk failures: ways, kinds, and what stands in a statement."""

    reason: str
    text: str
    ways: tuple[str, ...] = ("peer",)
    kinds: tuple[str, ...] = ("value",)

    def explains(self, program: Program, failure: Failure) -> bool:
        if failure.way not in self.ways or failure.kind not in self.kinds:
            return False
        return any(re.search(self.text, s.text) for s in program.statements)


PURPOSES: tuple[Purpose, ...] = ()


def purpose(program: Program, failure: Failure) -> str | None:
    """Why the failure is none, if it is none."""
    for row in PURPOSES:
        if row.explains(program, failure):
            return row.reason
    return None

"""The names that `config.disabled_rules` may hold: of all rules and decisions."""

from __future__ import annotations

import difflib

from ftrace.backends.llvm.codegen_options import DECISIONS
from ftrace.errors import ArgumentError
from ftrace.lower.pipeline import PIPELINE
from ftrace.trace.rewrite import RULE_NAMES


def rule_names() -> set[str]:
    """Those of lowering, whose rules the pipeline loads, and of the code of the CPU.

    Rules of users count once they are made.
    """
    return RULE_NAMES.union(DECISIONS, *[stage.decisions for stage in PIPELINE])


def check_disabled_rules(names: frozenset[str]) -> None:
    """Raises ArgumentError for a name that is no rule's."""
    for name in sorted(names - rule_names()):
        close = difflib.get_close_matches(name, rule_names(), 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ArgumentError(f"disabled_rules: there is no rule {name!r}{hint}")

"""The names that `config.disabled_rules` may hold: of all rules and decisions."""

from __future__ import annotations

import difflib

from ftrace.backends.llvm.codegen_options import DECISIONS
from ftrace.errors import ArgumentError
from ftrace.lower.pipeline import PIPELINE
from ftrace.trace.rewrite import RULE_NAMES, PatternMatcher


def rule_names() -> set[str]:
    """Those of lowering, whose rules the pipeline loads, and of the code of the CPU.

    Rules of users count once they are made.
    """
    return RULE_NAMES.union(DECISIONS, *[stage.decisions for stage in PIPELINE])


def check_disabled_rules(names: frozenset[str]) -> None:
    """Raises ArgumentError for a name that is no rule's."""
    for name in sorted(names - rule_names()):
        raise ArgumentError(f"disabled_rules: {_describe(name)}")


def _describe(name: str) -> str:
    """What a name is that is no rule's."""
    rules = _rules_of_stages().get(name)
    if rules is None:
        close = difflib.get_close_matches(name, rule_names(), 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        return f"there is no rule {name!r}{hint}"
    has = f"with these rules: {', '.join(rules)}" if rules else "without rules"
    return f"{name!r} is no rule but a stage of lowering {has}"


def _rules_of_stages() -> dict[str, list[str]]:
    """By stages their rules and decisions, each in the first one that has it."""
    found, seen = dict[str, list[str]](), set[str]()
    for stage in PIPELINE:
        made = stage.make if isinstance(stage.make, PatternMatcher) else ()
        names = [*stage.decisions, *(rule.name for rule in made)]
        found[stage.name] = [name for name in names if name not in seen]
        seen.update(names)
    return found

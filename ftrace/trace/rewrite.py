"""The one engine for rewrites: named rules, patterns, a walk to the fixed point.

    fold_neg_neg = Rule(
        "fold_neg_neg",
        Pat(neg, Pat(neg, Pat(name="x"))),
        lambda x: x,  # neg(neg(x)) -> x
    )

Patterns are compiled to closures once and indexed by the op of their root. A node is
visited again only when one of its sources changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ftrace import config
from ftrace.errors import GraphError
from ftrace.trace.graph import Node, inherited_origin, rebuild, toposort

Captures = dict[str, Node]
Match = Callable[[Node, Captures], bool]


class Pat:
    """A pattern of nodes.

    Args:
      op: a primitive, or several of which one must be the node's; None takes any.
      src: patterns of all sources, in order; none at all takes any sources.
      name: under which the rule's function gets the node.
      where: a further condition on the node.
      commutes: two sources may also stand the other way round.
    """

    __slots__ = ("commutes", "name", "ops", "src", "where")

    def __init__(
        self,
        op: Any = None,
        *src: Pat,
        name: str | None = None,
        where: Callable[[Node], bool] | None = None,
        commutes: bool = False,
    ) -> None:
        self.ops = None if op is None else tuple(op) if isinstance(op, (tuple, list, set, frozenset)) else (op,)
        self.src = src
        self.name = name
        self.where = where
        self.commutes = commutes

    def compile(self) -> Match:
        """A function that says whether a node matches, and fills in the names."""
        ops = None if self.ops is None else frozenset(self.ops)
        where, name = self.where, self.name
        parts = [p.compile() for p in self.src]
        arity = len(parts)
        orders = [tuple(range(arity))]
        if self.commutes and arity == 2:
            orders.append((1, 0))

        def match_sources(node: Node, found: Captures) -> bool:
            if len(node.src) != arity:
                return False
            for order in orders:
                trial = dict(found)
                if all(parts[k](node.src[i], trial) for k, i in enumerate(order)):
                    found.update(trial)
                    return True
            return False

        def match(node: Node, found: Captures) -> bool:
            if ops is not None and node.op not in ops:
                return False
            if where is not None and not where(node):
                return False
            if name is not None:
                known = found.setdefault(name, node)
                if known is not node:
                    return False
            return not arity or match_sources(node, found)

        return match


@dataclass(frozen=True)
class Rule:
    """A named rewrite: where the pattern matches, `function(**captures)` replaces.

    The function is pure and returns None for "not mine". The replacement has the
    shape and dtype of what it replaces.
    """

    name: str
    pattern: Pat
    function: Callable[..., Node | None]


class PatternMatcher:
    """A list of rules, tried in order; lists are joined with `+`."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        names = [rule.name for rule in rules]
        if len(set(names)) != len(names):
            raise GraphError(f"two rules share a name: {sorted(names)}")
        self.rules = tuple(rules)
        self._compiled = [(rule, rule.pattern.compile()) for rule in rules]
        self._anywhere = [c for c in self._compiled if c[0].pattern.ops is None]
        self._by_op: dict[Any, list[tuple[Rule, Match]]] = {}
        ops = {op for rule in rules for op in rule.pattern.ops or ()}
        for op in ops:
            self._by_op[op] = [
                c for c in self._compiled if c[0].pattern.ops is None or op in c[0].pattern.ops
            ]

    def __add__(self, other: PatternMatcher) -> PatternMatcher:
        return PatternMatcher(self.rules + other.rules)

    def __iter__(self) -> Any:
        return iter(self.rules)

    def apply(self, node: Node, disabled: frozenset[str] = frozenset()) -> Node | None:
        """The first replacement that a rule gives, or None."""
        for rule, match in self._by_op.get(node.op, self._anywhere):
            if rule.name in disabled:
                continue
            found: Captures = {}
            if match(node, found):
                new = rule.function(**found)
                if new is not None and new is not node:
                    if new.aval.shape != node.aval.shape or new.dtype != node.dtype:
                        raise GraphError(
                            f"rule {rule.name} turned {node!r} into {new!r}"
                        )
                    return new
        return None


_LIMIT = 1000  # replacements of one node; a pair of rules that undo each other ends


def rewrite(outputs: Sequence[Node], matcher: PatternMatcher) -> list[Node]:
    """The outputs after the rules have been applied wherever they match.

    Raises:
      GraphError: the rules do not come to an end.
    """
    disabled = config.current().disabled_rules
    done: dict[Node, Node] = {}
    became: dict[Node, Node] = {}
    steps: dict[Node, int] = {}
    with inherited_origin() as take:
        for start in toposort(outputs):
            pending = [start]
            while pending:
                node = pending[-1]
                if node in done:
                    pending.pop()
                    continue
                target = became.get(node)
                if target is None:
                    missing = [s for s in node.src if s not in done]
                    if missing:
                        pending.extend(missing)
                        continue
                    take(node)
                    target = rebuild(node, tuple(done[s] for s in node.src))
                    if target is node:
                        replacement = matcher.apply(node, disabled)
                        if replacement is None:
                            done[node] = node
                            pending.pop()
                            continue
                        target = replacement
                    became[node] = target
                    steps[target] = steps.get(node, 0) + 1
                    if steps[target] > _LIMIT:
                        raise GraphError(f"the rules do not end at {node!r}")
                if target in done:
                    done[node] = done[target]
                    pending.pop()
                else:
                    pending.append(target)
    return [done[node] for node in outputs]


@dataclass(frozen=True)
class Spec:
    """What a graph may contain after a pass: each node matches one of the patterns."""

    name: str
    patterns: tuple[Pat, ...]

    def check(self, outputs: Iterable[Node]) -> None:
        """Raises GraphError naming the first node that no pattern allows."""
        compiled = [p.compile() for p in self.patterns]
        for node in toposort(outputs):
            if not any(match(node, {}) for match in compiled):
                raise GraphError(f"{self.name}: {node!r} is not allowed")

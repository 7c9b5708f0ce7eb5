"""The one engine for rewrites: named rules, patterns, a walk to the fixed point.

    fold_neg_neg = Rule(
        "fold_neg_neg",
        Pat(neg, Pat(neg, Pat(name="x"))),
        lambda x: x,  # neg(neg(x)) -> x
    )

Patterns are compiled to closures once. Which rules can match at all is looked up by
the op of a node and the ops of its sources; most nodes have none. A node is looked at
before its sources (a movement runs down a chain of 50,000 nodes in as many steps) and
once more if one of them changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ftrace import config
from ftrace.errors import GraphError
from ftrace.trace.graph import Node, inherited_origin, rebuild, toposort

Captures = dict[str, Node]
Match = Callable[[Node, Captures], bool]
MatchSources = Callable[[tuple[Node, ...], Captures], bool]


class Pat:
    """A pattern of nodes.

    Args:
      op: a primitive, or several of which one must be the node's; None takes any.
      src: patterns of all sources, in order; none at all takes any sources.
      name: under which the rule's function gets the node; two parts of a pattern
        with one name match the same node.
      where: a further condition on the node.
      commutes: two sources may also stand the other way round.
      every: what each source must match, however many there are.
      some: what one source at least must match; it is the first that does.
    """

    __slots__ = ("commutes", "every", "name", "ops", "some", "src", "where")

    def __init__(
        self,
        op: Any = None,
        *src: Pat,
        name: str | None = None,
        where: Callable[[Node], bool] | None = None,
        commutes: bool = False,
        every: Pat | None = None,
        some: Pat | None = None,
    ) -> None:
        several = isinstance(op, (tuple, list, set, frozenset))
        listed: Iterable[Any] = op if several else (op,)  # type: ignore[assignment]
        self.ops = None if op is None else frozenset(listed)
        self.src = src
        self.name = name
        self.where = where
        self.commutes = commutes and len(src) == 2
        self.every = every
        self.some = some

    @property
    def orders(self) -> tuple[tuple[Pat, ...], ...]:
        """The patterns of the sources, in each order in which they may stand."""
        return (self.src, self.src[::-1]) if self.commutes else (self.src,)

    def allows(self, op: Any, source_ops: Sequence[Any]) -> bool:
        """Can a node of that op over sources of those ops match?"""
        if not self.takes(op):
            return False
        every, some = self.every, self.some
        if every is not None and not all(every.takes(s) for s in source_ops):
            return False
        if some is not None and not any(some.takes(s) for s in source_ops):
            return False
        if not self.src:
            return True
        return len(self.src) == len(source_ops) and any(
            all(p.takes(s) for p, s in zip(order, source_ops, strict=True))
            for order in self.orders
        )

    def takes(self, op: Any) -> bool:
        return self.ops is None or op in self.ops

    def compile(self) -> Match:
        """A function that says whether a node matches, and fills in the names."""
        ops, where, name = self.ops, self.where, self.name
        match_sources = self._compile_sources()

        def match(node: Node, found: Captures) -> bool:
            if ops is not None and node.op not in ops:
                return False
            if name is not None and found.setdefault(name, node) is not node:
                return False
            if match_sources is not None and not match_sources(node.src, found):
                return False
            return where is None or where(node)

        return match

    def _compile_sources(self) -> MatchSources | None:
        if self.every is not None:
            return _all_of(self.every.compile())
        if self.some is not None:
            return _first_of(self.some.compile())
        if not self.src:
            return None
        first, *others = [tuple(p.compile() for p in order) for order in self.orders]
        arity = len(first)

        def match_in_order(src: tuple[Node, ...], found: Captures) -> bool:
            if len(src) != arity:
                return False
            for part, source in zip(first, src, strict=True):
                if not part(source, found):
                    return False
            return True

        if not others:
            return match_in_order
        left, right = others[0]

        def match_either_way(src: tuple[Node, ...], found: Captures) -> bool:
            before = found.copy()
            if match_in_order(src, found):
                return True
            found.clear()
            found.update(before)
            return len(src) == 2 and left(src[0], found) and right(src[1], found)

        return match_either_way


def _all_of(match: Match) -> MatchSources:
    return lambda src, found: all(match(source, found) for source in src)


def _first_of(match: Match) -> MatchSources:
    def match_first(src: tuple[Node, ...], found: Captures) -> bool:
        for source in src:
            trial = found.copy()
            if match(source, trial):
                found.update(trial)
                return True
        return False

    return match_first


@dataclass(frozen=True)
class Rule:
    """A named rewrite: where the pattern matches, `function(**captures)` replaces.

    The function is pure and returns None for "not mine". The replacement has the
    shape and dtype of what it replaces.

    Attributes:
      single_use: the name of a capture that nothing but the match may use, so that
        the rule does not double its work.
    """

    name: str
    pattern: Pat
    function: Callable[..., Node | None]
    single_use: str | None = None


_Candidates = tuple[tuple[Rule, Match], ...]


class PatternMatcher:
    """A list of rules, tried in order; lists are joined with `+`."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        names = [rule.name for rule in rules]
        if len(set(names)) != len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise GraphError(f"several rules share a name: {', '.join(twice)}")
        self.rules = tuple(rules)
        self.counts_uses = any(rule.single_use for rule in rules)
        self._compiled = tuple((rule, rule.pattern.compile()) for rule in rules)
        # For each set of disabled rules: (op, ops of the sources) -> the rules.
        self._tables: dict[frozenset[str], dict[tuple[Any, ...], _Candidates]] = {}

    def __add__(self, other: PatternMatcher) -> PatternMatcher:
        return PatternMatcher(self.rules + other.rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def candidates(self, node: Node, disabled: frozenset[str]) -> _Candidates:
        """The rules that the ops of a node and of its sources allow."""
        table = self._tables.get(disabled)
        if table is None:
            table = self._tables.setdefault(disabled, {})
        key = (node.op, *[source.op for source in node.src])
        found = table.get(key)
        if found is None:
            found = table[key] = tuple(
                (rule, match)
                for rule, match in self._compiled
                if rule.name not in disabled and rule.pattern.allows(key[0], key[1:])
            )
        return found

    def apply(
        self,
        node: Node,
        disabled: frozenset[str] = frozenset(),
        uses: Mapping[Node, int] | None = None,
    ) -> Node | None:
        """The first replacement that a rule gives, or None."""
        for rule, match in self.candidates(node, disabled):
            found: Captures = {}
            if not match(node, found):
                continue
            if rule.single_use and uses and uses.get(found[rule.single_use], 1) > 1:
                continue
            new = rule.function(**found)
            if new is None or new is node:
                continue
            if new.aval.shape != node.aval.shape or new.dtype != node.dtype:
                raise GraphError(f"rule {rule.name} turned {node!r} into {new!r}")
            return new
        return None


_LIMIT = 1000  # replacements per node of the graph, after which rules do not end


def rewrite(outputs: Sequence[Node], matcher: PatternMatcher) -> list[Node]:
    """The outputs after the rules have been applied wherever they match.

    Raises:
      GraphError: the rules do not come to an end.
    """
    disabled = config.current().disabled_rules
    users = _Users(outputs) if matcher.counts_uses else None
    counts = None if users is None else users.counts
    candidates, apply = matcher.candidates, matcher.apply
    done: dict[Node, Node] = {}
    became: dict[Node, Node | None] = {}  # None: it waits for its sources
    limit = _LIMIT * len(toposort(outputs))
    pending = list(outputs)
    with inherited_origin() as take:
        while pending:
            node = pending[-1]
            if node in done:
                pending.pop()
                continue
            if node in became:
                target = became[node]
            else:
                target = None
                if candidates(node, disabled):
                    take(node)
                    target = apply(node, disabled, counts)
                became[node] = target
                if target is not None:
                    limit -= 1
                    if users is not None:
                        users.replace(node, target, became)
            if target is None:
                missing = [s for s in node.src if s not in done]
                if missing:
                    _check_ends(missing, became, limit)
                    pending.extend(missing)
                    continue
                sources = tuple([done[s] for s in node.src])
                if sources == node.src:
                    done[node] = node
                    pending.pop()
                    continue
                take(node)
                became[node] = target = rebuild(node, sources)
                if users is not None:
                    users.move(node, target)
            if target in done:
                done[node] = done[target]
                pending.pop()
            else:
                _check_ends((target,), became, limit)
                pending.append(target)
    return [done[node] for node in outputs]


def _check_ends(
    nodes: Sequence[Node], became: Mapping[Node, Node | None], limit: int
) -> None:
    """A node that waits for itself, or work without end, is a fault of the rules."""
    for node in nodes:
        if node in became:
            raise GraphError(f"the rules lead from {node!r} back to it")
    if limit < 0:
        raise GraphError(f"the rules do not end at {nodes[0]!r}")


class _Users:
    """How many nodes use each node, outputs counted too, while a graph is rewritten."""

    def __init__(self, outputs: Sequence[Node]) -> None:
        self.counts: dict[Node, int] = {}
        for node in outputs:
            self.counts[node] = self.counts.get(node, 0) + 1
        for node in toposort(outputs):
            self._acquire(node)

    def _acquire(self, node: Node) -> None:
        self.counts.setdefault(node, 0)
        for source in set(node.src):
            self.counts[source] = self.counts.get(source, 0) + 1

    def move(self, node: Node, target: Node) -> None:
        """`target` takes the place of `node`."""
        self.counts[target] = self.counts.get(target, 0) + self.counts.get(node, 1)
        self.counts[node] = 0

    def replace(
        self, node: Node, target: Node, became: Mapping[Node, Node | None]
    ) -> None:
        """The same, where nodes of `target` are new and sources of `node` go."""
        fresh = [target]
        while fresh:
            new = fresh.pop()
            if new not in self.counts:
                fresh.extend(s for s in new.src if s not in self.counts)
                self._acquire(new)
        self.move(node, target)
        gone = [node]
        while gone:
            for source in set(gone.pop().src):
                left = _current(source, became)
                self.counts[left] = self.counts.get(left, 1) - 1
                if self.counts[left] == 0:
                    gone.append(left)


def _current(node: Node, became: Mapping[Node, Node | None]) -> Node:
    """What a node became so far."""
    while (target := became.get(node)) is not None:
        node = target
    return node


@dataclass(frozen=True)
class Spec:
    """What a graph may contain after a pass: each node matches one of the patterns."""

    name: str
    patterns: tuple[Pat, ...]

    def check(self, outputs: Iterable[Node]) -> None:
        """Raises GraphError naming the first node that no pattern allows."""
        matcher = PatternMatcher(
            [Rule(str(i), pattern, _itself) for i, pattern in enumerate(self.patterns)]
        )
        for node in toposort(outputs):
            candidates = matcher.candidates(node, frozenset())
            if not any(match(node, {}) for _, match in candidates):
                raise GraphError(f"{self.name}: {node!r} is not allowed")


def _itself(**captures: Node) -> None:
    return None

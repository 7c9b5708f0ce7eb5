"""The one engine for rewrites: named rules, patterns, a walk to the fixed point.

    fold_neg_neg = Rule(
        "fold_neg_neg",
        Pat(neg, Pat(neg, Pat(name="x"))),
        lambda x: x,  # neg(neg(x)) -> x
    )

Patterns are compiled to closures once. Which rules can match at all is looked up by
the op of a node and the ops of its sources; most nodes have none. A node is looked at
before its sources, so that a movement runs down a chain of 50,000 nodes in as many
steps, and once more if one of them changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, cast

from ftrace.errors import DynamicDimensionError, GraphError
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.ground.fork_safe import cached_property
from ftrace.ground.tables import on_limit
from ftrace.trace.graph import (
    Node,
    Op,
    inherited_origin,
    nodes_of,
    provenance,
    rebuild,
    toposort,
)
from ftrace.trace.symbolic import same_size

Captures = dict[str, Node]
#: Told of each replacement: the name of the rule, the node, and what replaces it. The
#: name is empty where only operands have been replaced.
Fired = Callable[[str, Node, Node], None]
#: Of a rule: takes the captures by name, and returns None for "not mine".
Function = (
    Callable[[Node], "Node | None"]
    | Callable[[Node, Node], "Node | None"]
    | Callable[[Node, Node, Node], "Node | None"]
    | Callable[[Node, Node, Node, Node], "Node | None"]
)
Test = Callable[[Node], bool]
Path = tuple[int, ...]


class Pat:
    """A pattern of nodes.

    Args:
      op: a primitive, or a tuple of which one must be the node's; None takes any.
      src: patterns of all sources, in order; none at all takes any sources.
      name: under which the rule's function gets the node; two parts of a pattern
        with one name match the same node.
      where: a further condition on the node.
      aval: a condition on its shape and dtype alone: asked once for all nodes that
        have the same ones.
      commutes: two sources may also stand the other way round.
    """

    __slots__ = ("aval", "commutes", "name", "ops", "src", "where")

    def __init__(
        self,
        op: Any = None,
        *src: Pat,
        name: str | None = None,
        where: Test | None = None,
        aval: Test | None = None,
        commutes: bool = False,
    ) -> None:
        self.ops = _as_set(op)
        self.src = src
        self.name = name
        self.where = where
        self.aval = aval
        self.commutes = commutes and len(src) == 2

    def takes(self, op: Any) -> bool:
        return self.ops is None or op in self.ops

    @property
    def is_leaf(self) -> bool:
        """Does it take constants and other leaves alone?"""
        return self.ops is not None and all(op.family == "source" for op in self.ops)


def _as_set(op: Any) -> frozenset[Any] | None:
    if op is None:
        return None
    return frozenset(cast(Any, op) if isinstance(op, tuple) else (op,))


# A pattern becomes variants, one per order of the sources: plain tests in a row.


class _Variant(NamedTuple):
    """A pattern in which nothing commutes any more.

    Attributes:
      root: its root, whose op and number of sources the table has checked.
      src: the sources of the root; the table has checked their ops.
      fixed: conditions that hold for all nodes alike or for none, where those have one
        op, type, and sources of one kind: the ops of these, leaves themselves.
      tests: conditions on the root that remain.
      captures: names, and how to get at the node from the root.
    """

    root: Pat
    src: tuple[Pat, ...]
    fixed: tuple[Test, ...]
    tests: tuple[Test, ...]
    captures: tuple[tuple[str, Callable[[Node], Node]], ...]

    def allows(self, source_ops: Sequence[Any]) -> bool:
        """Can a node of the root's op over sources of those ops match?"""
        if not self.src:
            return True
        return len(self.src) == len(source_ops) and all(
            p.takes(s) for p, s in zip(self.src, source_ops, strict=True)
        )

    def fits(self, node: Node) -> bool:
        """May nodes match that are alike in what `fixed` asks for?"""
        return all(_surely(holds, node) for holds in self.fixed)

    def match(self, node: Node) -> Captures | None:
        for holds in self.tests:
            if not holds(node):
                return None
        return {name: get(node) for name, get in self.captures}


def _surely(holds: Test, node: Node) -> bool:
    try:
        return holds(node)
    except DynamicDimensionError:
        return False  # whether it does depends on a size that is not known


def _variants(pattern: Pat) -> list[_Variant]:
    return [_variant(parts) for parts in _order(pattern, ())]


def _order(pattern: Pat, path: Path) -> list[dict[Path, Pat]]:
    """The parts of a pattern by where they stand, root first, for every order."""
    orders = [pattern.src, pattern.src[::-1]] if pattern.commutes else [pattern.src]
    found: list[dict[Path, Pat]] = []
    for order in orders:
        alternatives = [{path: pattern}]
        for i, part in enumerate(order):
            below = _order(part, (*path, i))
            alternatives = [above | more for above in alternatives for more in below]
        found += alternatives
    return found


def _variant(parts: Mapping[Path, Pat]) -> _Variant:
    fixed: list[Test] = []
    shape: list[Test] = []
    conditions: list[Test] = []
    captures: dict[str, Callable[[Node], Node]] = {}
    for path, part in parts.items():
        if len(path) > 1 and part.ops is not None:
            shape.append(_has_op(path, part.ops))
        if len(path) > 0 and part.src:
            shape.append(_at(path, _has_sources(len(part.src))))
        is_leaf = len(path) == 1 and part.is_leaf
        if part.aval is not None:
            held = fixed if is_leaf or not path else conditions
            held.append(_at(path, part.aval))
        if part.where is not None:
            (fixed if is_leaf else conditions).append(_at(path, part.where))
        if part.name is not None:
            get = _getter(path)
            if part.name in captures:
                shape.append(_is_same(captures[part.name], get))
            captures.setdefault(part.name, get)
    root = parts[()]
    src = tuple(parts[(i,)] for i in range(len(root.src)))
    tests = (*shape, *conditions)
    return _Variant(root, src, tuple(fixed), tests, tuple(captures.items()))


def _getter(path: Path) -> Callable[[Node], Node]:
    if not path:
        return lambda node: node
    if len(path) == 1:
        (i,) = path
        return lambda node: node.src[i]
    outer, last = _getter(path[:-1]), path[-1]
    return lambda node: outer(node).src[last]


def _at(path: Path, test: Test) -> Test:
    if not path:
        return test
    if len(path) == 1:
        (i,) = path
        return lambda node: test(node.src[i])
    get = _getter(path)
    return lambda node: test(get(node))


def _has_op(path: Path, ops: frozenset[Any]) -> Test:
    get, last = _getter(path[:-1]), path[-1]
    if len(path) == 2:
        first = path[0]
        return lambda node: node.src[first].src[last].op in ops
    return lambda node: get(node).src[last].op in ops


def _has_sources(count: int) -> Test:
    return lambda node: len(node.src) == count


def _is_same(x: Callable[[Node], Node], y: Callable[[Node], Node]) -> Test:
    return lambda node: x(node) is y(node)


@dataclass(frozen=True)
class Rule:
    """A named rewrite: where the pattern matches, `function(**captures)` replaces.

    The function is pure and returns None for "not mine". The replacement has the
    shape and dtype of what it replaces.

    Attributes:
      pattern: one, or alternatives of which the first that matches counts.
      single_use: names of captures, parted by spaces, that nothing but the match may
        use, so that the rule does not double their work.
      passes: the name of a capture that the rule moves something past, and for which
        the replacement stands. It is not passed any more after the 8th time:
        otherwise a long chain would be passed by all that stands above it.
    """

    name: str
    pattern: Pat | tuple[Pat, ...]
    function: Function
    single_use: str = ""
    passes: str | None = None

    @property
    def patterns(self) -> tuple[Pat, ...]:
        return self.pattern if isinstance(self.pattern, tuple) else (self.pattern,)

    @cached_property
    def single_uses(self) -> tuple[str, ...]:
        return tuple(self.single_use.split())


class _Candidate(NamedTuple):
    rule: Rule
    match: Callable[[Node], Captures | None]


class _Table:
    """The rules that may match a node, looked up by what it has in common with others.

    By its op and those of its sources for all graphs; for one graph by its type and by
    the leaves that it uses as well: most nodes have none then.
    """

    def __init__(self, rules: Iterable[tuple[Rule, list[_Variant]]]) -> None:
        self._rules = [
            (_Candidate(rule, v.match), v) for rule, variants in rules for v in variants
        ]
        self._by_op: dict[Any, list[tuple[_Candidate, _Variant]]] = {}
        self._by_ops: dict[Any, list[tuple[_Candidate, _Variant]]] = {}

    def for_graph(self) -> Callable[[Node], Sequence[_Candidate]]:
        """What gives the rules for each node of a graph."""
        known: dict[Any, list[_Candidate]] = {}

        def candidates(node: Node) -> Sequence[_Candidate]:
            key = (node.op, node.aval, *[s.op if s.src else s for s in node.src])
            found = known.get(key)
            if found is None:
                found = known[key] = [
                    c for c, v in self._candidates_for(node) if v.fits(node)
                ]
            return found

        return candidates

    def _candidates_for(self, node: Node) -> list[tuple[_Candidate, _Variant]]:
        op, ops = node.op, [s.op for s in node.src]
        found = self._by_ops.get((op, *ops))
        if found is None:
            found = [(c, v) for c, v in self._of(op) if v.allows(ops)]
            self._by_ops[(op, *ops)] = found
        return found

    def _of(self, op: Op) -> list[tuple[_Candidate, _Variant]]:
        found = self._by_op.get(op)
        if found is None:
            found = [(c, v) for c, v in self._rules if v.root.takes(op)]
            self._by_op[op] = found
        return found


#: Of all rules that stand in a list, which may be switched off.
RULE_NAMES: set[str] = set()


class PatternMatcher:
    """A list of rules, tried in order; lists are joined with `+`."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        names = [rule.name for rule in rules]
        if len(set(names)) != len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise GraphError(f"several rules share a name: {', '.join(twice)}")
        RULE_NAMES.update(names)
        self.rules = tuple(rules)
        self.counts_uses = any(rule.single_use for rule in rules)
        self._variants = [
            (rule, [v for p in rule.patterns for v in _variants(p)]) for rule in rules
        ]
        self._tables: dict[frozenset[str], _Table] = {}
        # Users disable any set of rules, and have operations of their own.
        on_limit(self._tables.clear)

    def __add__(self, other: PatternMatcher) -> PatternMatcher:
        return PatternMatcher(self.rules + other.rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def candidates(self, disabled: frozenset[str] = frozenset()) -> _Table:
        """By the ops of a node and of its sources, the rules that may match it."""
        table = self._tables.get(disabled)
        if table is None:
            enabled = [v for v in self._variants if v[0].name not in disabled]
            table = self._tables.setdefault(disabled, _Table(enabled))
        return table


def _first_replacement(
    node: Node,
    candidates: Iterable[_Candidate],
    users: _Users | None,
    fired: Fired | None,
) -> Node | None:
    for rule, match in candidates:
        try:
            found = match(node)
            if found is None:
                continue
            if users is not None and not users.allow(rule, found):
                users.refused.add(node)
                continue
            function: Any = rule.function
            new: Node | None = function(**found)
        except DynamicDimensionError:
            continue  # whether it applies depends on a size that is not known
        if new is None or new is node:
            continue
        old, made = node.aval, new.aval
        if made is not old and not (
            made.dtype == old.dtype and same_size(made.shape, old.shape)
        ):
            raise GraphError(f"rule {rule.name} turned {node!r} into {new!r}")
        if users is not None:
            users.replace(node, new)
            if rule.passes is not None:
                users.passed[new] = users.passed.get(found[rule.passes], 0) + 1
        if new.op is not node.op and new.origin is node.origin:
            _keep_line(node, new)
        if fired is not None:
            fired(rule.name, node, new)
        return new
    return None


def _keep_line(node: Node, new: Node) -> None:
    """What a view was moved past keeps its line: it is the same operation."""
    for source in node.src:
        if source.op is new.op:
            new.origin = source.origin
            return


_LIMIT = 1000  # replacements per node of the graph, after which rules do not end
_PASSES = 8  # how often a node is passed


def rewrite(
    outputs: Sequence[Node], matcher: PatternMatcher, fired: Fired | None = None
) -> list[Node]:
    """The outputs after the rules have been applied wherever they match.

    Args:
      fired: told of each replacement, in their order.

    Raises:
      GraphError: the rules do not come to an end.
    """
    candidates = matcher.candidates(settings.current().disabled_rules).for_graph()
    nodes = nodes_of(outputs)
    done: dict[Node, Node] = {}
    limit = _LIMIT * len(nodes)
    became: dict[Node, Node | None] = {}  # None: it waits for its sources
    users = _Users(outputs, nodes, became) if matcher.counts_uses else None
    refused = users.refused if users is not None else ()
    seen = became.keys()
    pending = list(outputs)
    with inherited_origin():
        while pending:
            node = pending[-1]
            if node in done:
                pending.pop()
                continue
            target = became.get(node)
            if target is None:
                missing: list[Node] = []
                changed = False
                for source in node.src:
                    if source not in done:
                        missing.append(source)
                    elif done[source] is not source:
                        changed = True
                # A rule never sees a source that was replaced. One refused because
                # of users gets a second chance: they may be gone by then.
                if not changed and (node not in became or node in refused):
                    found = candidates(node)
                    if found:
                        provenance.origin = node.origin
                        target = _first_replacement(node, found, users, fired)
                        limit -= target is not None
                if target is None:
                    became[node] = None
                    if missing:
                        if not seen.isdisjoint(missing):
                            raise _circle(next(n for n in missing if n in seen))
                        pending.extend(missing)
                        continue
                    if not changed:
                        done[node] = node
                        pending.pop()
                        continue
                    provenance.origin = node.origin
                    target = rebuild(node, tuple([done[s] for s in node.src]))
                    if users is not None:
                        users.note_rebuilt(node, target)
                    if fired is not None:
                        fired("", node, target)
                    if target not in seen and not candidates(target):
                        done[target] = target  # its sources are at their ends
                became[node] = target
            if target in done:
                done[node] = done[target]
                pending.pop()
            else:
                if target in seen:
                    raise _circle(target)
                if limit < 0:
                    raise GraphError(f"the rules do not end at {target!r}")
                pending.append(target)
    return [done[node] for node in outputs]


def _circle(node: Node) -> GraphError:
    """A node that waits for itself is a fault of the rules."""
    return GraphError(f"the rules lead from {node!r} back to it")


class _Users:
    """How many nodes use each node, outputs counted too, while a graph is rewritten.

    Two ways in which one node uses another count once.

    Attributes:
      counts: for each node its users.
      passed: how often something was moved past what a node stands for.
      refused: nodes that a rule did not get because of users.
    """

    def __init__(
        self,
        outputs: Sequence[Node],
        nodes: Iterable[Node],
        became: Mapping[Node, Node | None],
    ) -> None:
        self.counts = Counter(outputs)
        used = [n.src if len(n.src) < 2 else set(n.src) for n in nodes]
        self.counts.update(chain.from_iterable(used))
        self.passed: dict[Node, int] = {}
        self.refused: set[Node] = set()
        self._became = became

    def _retain(self, node: Node) -> None:
        """One more user; a node without any was not there, nor what it uses."""
        counts, pending = self.counts, [node]
        while pending:
            used = self._current(pending.pop())
            before = counts.get(used, 0)
            counts[used] = before + 1
            if before == 0:
                src = used.src
                pending.extend(set(src) if len(src) > 1 else src)

    def _release(self, node: Node) -> None:
        counts, pending = self.counts, [node]
        while pending:
            used = self._current(pending.pop())
            counts[used] = left = counts.get(used, 1) - 1
            if left == 0:
                pending.extend(set(used.src))

    def allow(self, rule: Rule, found: Captures) -> bool:
        """Are the rule's conditions on users met by what the captures became?"""
        for name in rule.single_uses:
            if self.counts.get(self._current(found[name]), 1) > 1:
                return False
        if rule.passes is None:
            return True
        return self.passed.get(found[rule.passes], 0) < _PASSES

    def _current(self, node: Node) -> Node:
        """What a node became so far."""
        while (target := self._became.get(node)) is not None:
            node = target
        return node

    def replace(self, node: Node, target: Node) -> None:
        """`target` stands where `node` stood; call it before `became` knows."""
        users = self.counts.pop(node, 0)
        if users:
            self._retain(target)
            self.counts[self._current(target)] += users - 1
            for source in set(node.src):
                self._release(source)

    def note_rebuilt(self, node: Node, target: Node) -> None:
        """`target` is `node` over what its sources became."""
        if node in self.passed:
            self.passed[target] = self.passed[node]
        users = self.counts.pop(node, 0)
        known = self.counts.get(target, 0)
        self.counts[target] = known + users
        if known:
            for source in set(node.src):
                self._release(source)


@dataclass(frozen=True)
class Spec:
    """What a graph may contain after a pass: each node matches one of the patterns."""

    name: str
    patterns: tuple[Pat, ...]

    def check(self, outputs: Iterable[Node]) -> None:
        """Raises GraphError naming the first node that no pattern allows."""
        rule = Rule(self.name, self.patterns, lambda node: None)
        candidates = PatternMatcher([rule]).candidates().for_graph()
        for node in toposort(outputs):
            if all(match(node) is None for _, match in candidates(node)):
                raise GraphError(f"{self.name}: {node!r} is not allowed")

"""Where each expression of a kernel is computed: a tree of loops.

    block     = statement, …
    statement = Let(node)              compute it here, once per iteration
              | Loop(axis, block)      an axis of the kernel
              | ReduceLoop(ranges, reduces, block)
              | store

An expression stands in the innermost loop over one of its ranges, and no deeper: what
does not change in a loop is computed before it. Reduces over the same ranges run in
one loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from ftrace.errors import GraphError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel import ir
from ftrace.trace.graph import Node, walk, with_line


@dataclass(eq=False)
class Let:
    """Compute `node` here."""

    node: Node


@dataclass(eq=False)
class Loop:
    """Run the body for each value of an axis of the kernel."""

    axis: Node
    body: list[Statement] = field(default_factory=list["Statement"])


@dataclass(eq=False)
class ReduceLoop:
    """Run the body over all values of `ranges`, outermost first.

    After it the values of `reduces` are known. The body computes the value that each
    of them combines (`reduce.src[0]`).
    """

    ranges: tuple[Node, ...]
    reduces: list[Node] = field(default_factory=list[Node])
    body: list[Statement] = field(default_factory=list["Statement"])


Statement = Let | Loop | ReduceLoop | ir.Store
Scope = Loop | ReduceLoop | None  # None is the kernel's outermost block


def build_loops(kernel: ir.Kernel) -> list[Statement]:
    """The loops of a kernel with every expression in its place.

    Raises:
      GraphError: an expression needs two loops of which neither contains the other.
    """
    placed = _Placement(kernel)
    return placed.block


class _Placement:
    """The state of one call of `build_loops`: which scope each node and range is in."""

    def __init__(self, kernel: ir.Kernel) -> None:
        self.kernel = kernel
        self.free = ir.free_ranges(kernel.roots)
        self.parent: dict[Scope, Scope] = {None: None}
        self.depth: dict[Scope, int] = {None: 0}
        self.opened: dict[Node, Scope] = {}
        self.home: dict[Node, Scope] = {}
        self.members: dict[Scope, list[Node | ir.Store]] = {None: []}
        self.reduce_loop: dict[Node, ReduceLoop] = {}
        self.block: list[Statement] = []
        self._open_axes()
        self._find_homes()
        self._order()

    def _open(self, scope: Scope, parent: Scope) -> None:
        self.parent[scope] = parent
        self.depth[scope] = self.depth[parent] + 1
        self.members[scope] = []

    def _open_axes(self) -> None:
        outer: Scope = None
        for axis in self.kernel.axes:
            loop = Loop(axis)
            self._open(loop, outer)
            self.opened[axis] = outer = loop

    def _innermost(self, ranges: Iterable[Node]) -> Scope:
        deepest: Scope = None
        scopes = [self.opened[r] for r in ranges]
        for scope in scopes:
            if self.depth[scope] > self.depth[deepest]:
                deepest = scope
        enclosing = set(self._path(deepest))
        if not enclosing.issuperset(scopes):
            raise GraphError("a kernel's expression needs two loops side by side")
        return deepest

    def _path(self, scope: Scope) -> list[Scope]:
        """The scope and all scopes around it, innermost first."""
        path: list[Scope] = [scope]
        while scope is not None:
            scope = self.parent[scope]
            path.append(scope)
        return path

    def _find_homes(self) -> None:
        """Outer reduces first, so that the loops inside them find theirs open."""
        kernel_nodes = self.kernel.nodes
        waiting = [n for n in kernel_nodes if n.op is ir.reduce_p]
        sharing = self._share_loops(kernel_nodes)
        while waiting:
            ready = [
                n for n in waiting if all(r in self.opened for r in sharing[n.src[1:]])
            ]
            if not ready:
                raise GraphError("the reduces of a kernel need each other's ranges")
            for node in ready:
                ranges = node.src[1:]
                loop = self.opened.get(ranges[0])
                home = self._innermost(sharing[ranges])
                if not isinstance(loop, ReduceLoop):
                    loop = ReduceLoop(ranges)
                    self._open(loop, home)
                    for r in ranges:
                        self.opened[r] = loop
                elif loop.ranges != ranges or self.parent[loop] is not home:
                    raise GraphError("two reduces share some of their ranges only")
                loop.reduces.append(node)
                self.reduce_loop[node] = loop
            waiting = [n for n in waiting if n not in self.reduce_loop]
        homes: dict[frozenset[Node], Scope] = {}  # most nodes share their ranges
        for node in kernel_nodes:
            if node.op in (ir.range_p, ir.param_p):
                continue
            ranges = self.free[node]
            if ranges not in homes:
                homes[ranges] = self._innermost(ranges)
            self.home[node] = home = homes[ranges]
            self.members[home].append(node)
        for store in self.kernel.stores:
            ranges = frozenset[Node]().union(*[self.free[e] for e in store.expressions])
            if store.combine:  # it counts once per iteration, whatever it depends on
                ranges |= self.kernel.ordered_axes
            self.members[self._innermost(ranges)].append(store)

    def _share_loops(
        self, kernel_nodes: list[Node]
    ) -> dict[tuple[Node, ...], frozenset[Node]]:
        """Reduces in one loop stand where the innermost of them has to.

        So do all that use them: they are taken to depend on the ranges around it.
        """
        while True:
            sharing: dict[tuple[Node, ...], frozenset[Node]] = {}
            for node in kernel_nodes:
                if node.op is ir.reduce_p:
                    ranges = node.src[1:]
                    sharing[ranges] = sharing.get(ranges, frozenset()) | self.free[node]
            if not sharing:
                return sharing
            changed = False
            for node in kernel_nodes:
                if node.op is ir.range_p or not node.src:
                    continue
                found = frozenset[Node]().union(*[self.free[s] for s in node.src])
                if node.op is ir.reduce_p:
                    found = found.difference(node.src[1:]) | sharing[node.src[1:]]
                if found != self.free[node]:
                    self.free[node] = found
                    changed = True
            if not changed:
                return sharing

    def _order(self) -> None:
        """Fills the blocks: what a statement needs stands before it."""
        children: dict[Scope, list[Loop | ReduceLoop]] = {}
        for scope, parent in self.parent.items():
            if scope is not None:
                children.setdefault(parent, []).append(scope)
        for scope, members in self.members.items():
            block = self.block if scope is None else scope.body
            self._fill(block, scope, members, children.get(scope, []))

    def _fill(
        self,
        block: list[Statement],
        scope: Scope,
        members: list[Node | ir.Store],
        inner: list[Loop | ReduceLoop],
    ) -> None:
        """Statements in order of need; an axis loop and the stores come last."""
        reduces = [loop for loop in inner if isinstance(loop, ReduceLoop)]
        needs = {loop: self._outside_needs(loop, scope) for loop in reduces}
        done: set[Node | ReduceLoop] = set()
        pending: list[Node | ReduceLoop] = [
            n for n in reversed(members) if isinstance(n, Node)
        ]
        while pending:
            unit = pending[-1]
            if unit in done:
                pending.pop()
                continue
            if isinstance(unit, ReduceLoop):
                before: Iterable[Node | ReduceLoop] = needs[unit]
            elif unit.op is ir.reduce_p:
                before = (self.reduce_loop[unit],)
            else:
                before = [s for s in unit.src if self.home.get(s, self) is scope]
            missing = [b for b in before if b not in done]
            if missing:
                pending.extend(missing)
                continue
            pending.pop()
            done.add(unit)
            if isinstance(unit, ReduceLoop):
                block.append(unit)
            elif unit.op is not ir.reduce_p:
                block.append(Let(unit))
        block.extend(member for member in members if isinstance(member, ir.Store))
        block.extend(loop for loop in inner if isinstance(loop, Loop))

    def _outside_needs(self, loop: ReduceLoop, scope: Scope) -> list[Node]:
        """What the loop's body, at any depth, takes from the block around it."""
        found: dict[Node, None] = {}
        for inside, members in self.members.items():
            if loop not in self._path(inside):
                continue
            for member in members:
                parts = member.src if isinstance(member, Node) else member.expressions
                for part in parts:
                    if self.home.get(part, self) is scope:
                        found[part] = None
        for reduce_node in loop.reduces:
            if self.home.get(reduce_node.src[0], self) is scope:
                found[reduce_node.src[0]] = None
        return list(found)


def statements_in(block: Sequence[Statement]) -> Iterator[Statement]:
    """All statements of a block, and of the loops in it."""
    return walk(block, lambda s: s.body if isinstance(s, Loop | ReduceLoop) else ())


def reduce_loop(kernel: ir.Kernel, block: Sequence[Statement]) -> ReduceLoop | None:
    """The reduce loop of a kernel, if there is one, inside all of its axes."""
    if kernel.ordered or any(store.combine for store in kernel.stores):
        return None
    while True:
        inner = [s for s in block if not isinstance(s, Let)]
        if len(inner) != 1 or not isinstance(inner[0], Loop):
            break
        block = inner[0].body
    loops = [s for s in block if isinstance(s, ReduceLoop)]
    if len(loops) != 1 or any(isinstance(s, Loop) for s in block):
        return None
    (loop,) = loops
    simple = all(isinstance(s, Let) for s in loop.body)
    return loop if simple and all(ir.axis_of(r).size for r in loop.ranges) else None


def render_tree(kernel: ir.Kernel, lines: ir.Lines = ir.NO_LINES) -> str:
    """The loops of a kernel as text, each statement where it is computed.

    Args:
      lines: the user's lines that expressions compute, to be told behind them.
    """
    rows, count = ir.kernel_lines(kernel), len(kernel.stores)
    texts: dict[Node | ir.Store, str] = {}
    texts |= {node: text for text, node in rows[: len(rows) - count]}
    texts |= dict(zip(kernel.stores, [t for t, _ in rows[-count:]], strict=True))

    def loop(range_: Node) -> str:
        axis = ir.axis_of(range_)
        kind = "r" if axis.reduced else "i"
        return f"for {kind}{axis.number} in range({axis.size}):"

    def block(inside: Iterable[Statement], indent: str) -> list[str]:
        found: list[str] = []
        for each in inside:
            if isinstance(each, Loop):
                found += [indent + loop(each.axis), *block(each.body, indent + "  ")]
            elif isinstance(each, ReduceLoop):
                around = [indent + "  " * i for i in range(len(each.ranges) + 1)]
                found += [
                    a + loop(r) for a, r in zip(around, each.ranges, strict=False)
                ]
                found += block(each.body, around[-1])
                found += [describe(reduce, indent) for reduce in each.reduces]
            elif isinstance(each, Let):
                found += [describe(each.node, indent)] if each.node in texts else []
            else:
                found.append(describe(each, indent))
        return found

    def describe(of: Node | ir.Store, indent: str) -> str:
        line = lines.get(of.value if isinstance(of, ir.Store) else of)
        return with_line(indent + texts[of], line)

    return "\n".join(block(build_loops(kernel), ""))

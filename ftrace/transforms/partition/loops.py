"""Loops and branches around `shard_map` over several processes: all stays in parts.

    loop(x), c -> 0.5 * whole(f(shard(c)))  ->  whole(loop(shard(x))), c -> 0.5 * f(c)
    cond(i, x), c -> whole(f(shard(c))) or c  ->  whole(cond(i, shard(x))), f(c) or c

The part of elementwise work is that work on parts, and `shard(whole(x))` is x. What the
body or a test reads whole is gathered there in each turn, as it was before; what a
branch reads so, where that is chosen.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from ftrace.trace import graph as g
from ftrace.trace.control.conditional import Branches, While, cond_p, while_p
from ftrace.trace.control.scan import Scan, scan_p
from ftrace.trace.graph_map import convert
from ftrace.trace.primitives.broadcast import expand, expand_p
from ftrace.trace.primitives.exchange import Spread, shard_p, whole_p
from ftrace.trace.primitives.primitive import ELEMENTWISE, item_p, items
from ftrace.trace.primitives.sources import const_p, scope_and_position, variable
from ftrace.trace.symbolic import same_size


def shard_loops(outputs: Sequence[g.Node]) -> list[g.Node]:
    """Nodes, of which loops and branches take parts where their bodies make these."""
    return convert(outputs, {scan_p: _loop, while_p: _loop, cond_p: _choice})


def whole_of(node: g.Node) -> g.Node | None:
    """The operation that a node is the result of, if it is a whole."""
    known = node.op is item_p and node.src[0].op is whole_p
    return node.src[0] if known else None


def shard_of_whole(node: g.Node, read: Collection[int]) -> list[g.Node]:
    # shard(whole(x)) -> x, for the same division
    inner = whole_of(node.src[0])
    same = inner is not None and inner.arg == node.arg
    return [inner.src[0]] if inner is not None and same else items(node)


def _loop(node: g.Node, read: Collection[int]) -> list[g.Node]:
    arg: Scan | While = node.arg
    bodies = [g.Body(b.inputs, tuple(shard_loops(b.outputs))) for b in g.bodies_of(arg)]
    *tests, body = bodies
    if not g.has_any(body.outputs, (whole_p,)):
        return items(g.rebuild_with(node, node.src, bodies))
    ends = [_spread_of(out) for out in body.outputs]
    if not isinstance(arg, Scan) or arg.length is None:  # the others are stacks
        ends[arg.carry :] = [None] * (len(ends) - arg.carry)
    ways = [*[None] * arg.consts, *ends[: arg.carry]]
    ways += [None] * (len(body.inputs) - len(ways))
    made = [_over_shards(test, ways, [None]) for test in tests]
    made.append(_over_shards(body, ways, ends))
    rows = zip(node.src, ways, strict=True)
    src = [x if way is None else _shard(x, way) for x, way in rows]
    results = items(node.op(*src, arg=g.with_bodies(arg, made)))
    ends[arg.carry :] = [way and _of_rows(way) for way in ends[arg.carry :]]
    rows = zip(results, ends, strict=True)
    return [x if way is None else _gather(x, way) for x, way in rows]


def _choice(node: g.Node, read: Collection[int]) -> list[g.Node]:
    arg: Branches = node.arg
    bodies = [g.Body(b.inputs, tuple(shard_loops(b.outputs))) for b in arg.bodies]
    ends = _firsts([list(map(_spread_of, body.outputs)) for body in bodies])
    ways = _firsts([_ways_of(body, ends) for body in bodies])
    index, *operands = node.src
    rows = zip(operands, ways, strict=True)
    src = [x if way is None else _shard(x, way) for x, way in rows]
    made = tuple([_over_shards(body, ways, ends) for body in bodies])
    rows = zip(items(cond_p(index, *src, arg=Branches(made))), ends, strict=True)
    return [x if way is None else _gather(x, way) for x, way in rows]


def _firsts(rows: Sequence[Sequence[Spread | None]]) -> list[Spread | None]:
    """Of each column the first one that there is."""
    columns = zip(*rows, strict=True)
    return [next((way for way in column if way), None) for column in columns]


def _ways_of(body: g.Body, ends: Sequence[Spread | None]) -> list[Spread | None]:
    """How the inputs are divided that are read in parts, or become parts of outputs."""
    known = {n.src[0]: n.arg for n in g.toposort(body.outputs) if n.op is shard_p}

    def below(row: tuple[g.Node, Any]) -> list[tuple[g.Node, Any]]:
        node, way = row
        alike = [s for s in _operands(node) if same_size(s.shape, node.shape)]
        return [(s, way) for s in alike]

    ways = [row for row in zip(body.outputs, ends, strict=True) if row[1]]
    for node, way in g.walk(ways, below):
        known.setdefault(node, way)
    return [known.get(name) for name in body.inputs]


def _spread_of(out: g.Node) -> Spread | None:
    """How the whole is divided that elementwise work has made a value of."""
    alike = (n for n in g.walk([out], _operands) if same_size(n.shape, out.shape))
    return next((whole.arg for whole in map(whole_of, alike) if whole), None)


def _operands(node: g.Node) -> tuple[g.Node, ...]:
    """Those of elementwise work."""
    return node.src if node.op.family in ELEMENTWISE else ()


def _shard(x: g.Node, spread: Spread) -> g.Node:
    return shard_p.results(x, arg=spread)[0]


def _gather(x: g.Node, spread: Spread) -> g.Node:
    return whole_p.results(x, arg=spread)[0]


def _of_rows(spread: Spread) -> Spread:
    """That of an array with a leading axis more."""
    return replace(spread, spec=(None, *spread.spec), factors=((), *spread.factors))


def _over_shards(
    body: g.Body, ways: Sequence[Spread | None], ends: Sequence[Spread | None]
) -> g.Body:
    """A body of which some inputs and outputs are parts."""
    inputs = list(body.inputs)
    mapping: dict[g.Node, g.Node] = {}
    for i, (name, way) in enumerate(zip(inputs, ways, strict=True)):
        if way is not None:
            aval = name.aval.with_shape(way.of_process(name.shape))
            inputs[i] = variable(aval, *scope_and_position(name))
            mapping[name] = _gather(inputs[i], way)
    found = g.substitute(body.outputs, mapping)
    rows = zip(found, ends, strict=True)
    outputs = [x if spread is None else _cut(x, spread) for x, spread in rows]
    return g.Body(tuple(inputs), tuple(convert(outputs, {shard_p: shard_of_whole})))


def _cut(out: g.Node, spread: Spread) -> g.Node:
    """The part of a value, of which elementwise work is done on parts."""
    known: dict[g.Node, g.Node] = {}

    def local(x: g.Node) -> g.Node:
        shape = spread.of_process(x.shape)
        if x in known:
            return known[x]
        if x.op is const_p:
            return g.make_node(const_p, x.aval.with_shape(shape), (), x.arg)
        if x.op is expand_p and same_size(x.src[0].size, 1):
            return expand(x.src[0], shape)
        return _shard(x, spread)

    for node in g.toposort([out]):
        whole = whole_of(node)
        if whole is not None and whole.arg == spread:
            known[node] = whole.src[0]
        elif any(s in known for s in _operands(node)):
            known[node] = node.op(*map(local, node.src), arg=node.arg)
    return local(out)

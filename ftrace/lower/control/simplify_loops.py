"""Rewrites of loops and branches as a whole, before their bodies are lowered.

    merge     operations that run the same loop or branch become one with all results
    fuse      a loop over what another one makes joins it, iteration by iteration
    prune     results, carries and operands that nobody needs vanish
    hoist     what is the same in each iteration is computed before the loop
    split     products that need no iteration are done for all at once

Forward and reverse mode rely on these: a derivative makes a second loop beside the
first, which also returns what must be remembered (merge); the tangent loop over that
becomes part of it again, so that nothing is remembered in forward mode (fuse, prune).

Products are done outside of a scan in two places:

    before   a product of elements and constants (x @ w in a recurrent cell) is done
             for all elements at once, and the scan runs over the result
    after    a sum of products that is only carried (a weight's gradient) is one
             product over all iterations, of factors that the scan gives out

Both turn many small products into one large one. What they store grows with the
length; they are left alone where that is much more than the scan has anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.limits import Limits
from ftrace.lower.analysis import is_contraction, weight
from ftrace.trace.avals import Stack
from ftrace.trace.batching import batch_nodes
from ftrace.trace.body import apply_body, close, depends_on
from ftrace.trace.control.conditional import (
    Branches,
    While,
    cond_p,
    merge_control,
    while_p,
)
from ftrace.trace.control.scan import Scan, scan_p
from ftrace.trace.graph import Body, Node, nodes_of, substitute, toposort, walk
from ftrace.trace.graph_map import convert, exchange
from ftrace.trace.primitives.broadcast import reduce_sum
from ftrace.trace.primitives.elementwise import add
from ftrace.trace.primitives.movement import reshape
from ftrace.trace.primitives.primitive import compound_of, item_p, items
from ftrace.trace.primitives.sources import (
    const,
    const_p,
    is_variable,
    stand_ins,
    variable,
)
from ftrace.trace.symbolic import same_size

#: What may be stored: so many times what the scan runs over, and so many elements: a
#: bound of memory, which no row of an RNN comes near.
_MOST_STORED = 4
_ALLOWANCE = 1 << 20


def split_scan(node: Node, read: Collection[int]) -> Node | Sequence[Node] | None:
    """The results of a scan whose products are done outside; None if it has none."""
    arg: Scan = node.arg
    if arg.length is None or arg.length < 2:
        return None
    early = _early(arg)
    if early:
        node = _before(node, early)
    sums = _sums(node.arg, node.src)
    return _after(node, sums) if sums else node if early else None


Operands = tuple[Sequence[Node], Sequence[Node], Sequence[Node]]


def _split(arg: Scan | While, values: Sequence[Node]) -> Operands:
    """Constants, carry and elements, of the operands of a loop or of its body."""
    first, border = arg.consts, arg.consts + arg.carry
    return values[:first], values[first:border], values[border:]


def _remake(
    arg: Scan | While,
    inputs: Sequence[Node],
    given: Sequence[Node],
    outputs: Sequence[Node],
    counts: tuple[int, int],
) -> Scan | While:
    """A loop like another one, of other inputs, by which that one's are `given`.

    Args:
      counts: of its constants and of its carry.
    """
    body = close(inputs, outputs)
    if isinstance(arg, While):
        return While(close(inputs, apply_body(arg.cond, given)), body, counts[0])
    return replace(arg, body=body, consts=counts[0], carry=counts[1])


# Before the scan.


def _early(arg: Scan) -> list[Node]:
    """Values of elements and constants that a product leads to, as far as possible."""
    body = arg.body
    _, carry, elements = _split(arg, body.inputs)
    late = depends_on(body.outputs, carry)
    of_elements = depends_on(body.outputs, elements)
    ordered = toposort(body.outputs)
    heavy: set[Node] = set()
    for node in ordered:
        if compound_of(node) is not None or node.op.family == "item":
            late.add(node)
        if node in late or not late.isdisjoint(node.src):
            late.add(node)
        elif node in of_elements and (
            is_contraction(node) or not heavy.isdisjoint(node.src)
        ):
            heavy.add(node)
    found: dict[Node, None] = {}
    for node in ordered:
        if node in late:
            found.update(dict.fromkeys(s for s in node.src if s in heavy))
    found.update(dict.fromkeys(n for n in body.outputs[: arg.carry] if n in heavy))
    limit = _MOST_STORED * sum(n.size for n in elements)
    limit += _ALLOWANCE // (arg.length or 1)
    return list(found) if sum(n.size for n in found) <= limit else []


def _before(node: Node, early: Sequence[Node]) -> Node:
    arg: Scan = node.arg
    assert arg.length is not None
    names_of_consts, _, names_of_xs = _split(arg, arg.body.inputs)
    consts, _, xs = _split(arg, node.src)
    whole = stand_ins(xs, "split")
    wide = dict(zip(names_of_xs, whole, strict=True))
    batched = batch_nodes(early, wide, arg.length)
    known = dict(zip([*names_of_consts, *whole], [*consts, *xs], strict=True))
    values = substitute([made for made, _ in batched], known)
    names = stand_ins(early, "split")
    outputs = substitute(arg.body.outputs, dict(zip(early, names, strict=True)))
    body = close([*arg.body.inputs, *names], outputs)
    return node.op(*node.src, *values, arg=replace(arg, body=body))


# After the scan.


@dataclass(frozen=True)
class _Sum:
    """A carry that only adds up a product.

    Attributes:
      carry: its number.
      product: what is added in each iteration.
      factors: the values of the body that the product is made of.
    """

    carry: int
    product: Node
    factors: tuple[Node, ...]


def _sums(arg: Scan, src: Sequence[Node]) -> list[_Sum]:
    body = arg.body
    uses: dict[Node, int] = {}
    for node in toposort(body.outputs):
        for source in node.src:
            uses[source] = uses.get(source, 0) + 1
    for node in body.outputs:
        uses[node] = uses.get(node, 0) + 1
    found: list[_Sum] = []
    for k in range(arg.carry):
        before, after = body.inputs[arg.consts + k], body.outputs[k]
        if after.op is not add or before not in after.src or uses.get(before) != 1:
            continue
        product = after.src[after.src[0] is before]
        factors = _factors(product)
        if factors and product not in body.inputs:
            found.append(_Sum(k, product, factors))
    assert arg.length is not None
    stored = {f for s in found for f in s.factors if not is_variable(f)}
    size = sum(f.size for f in stored) * arg.length
    limit = _MOST_STORED * sum(s.size for s in _split(arg, src)[2]) + _ALLOWANCE
    return found if size <= limit else []


def _factors(product: Node) -> tuple[Node, ...]:
    """What a product is made of; empty if it is none."""
    node = product
    while node.op.family in ("movement", "cast"):
        node = node.src[0]
    if not is_contraction(node):
        return ()
    (terms,) = node.src

    def below(part: Node) -> tuple[Node, ...]:
        inner = part.op.family in ("movement", "cast") or part is terms
        return part.src if inner and part.op.family != "source" else ()

    return tuple(part for part in walk([terms], below) if not below(part))


def _after(node: Node, sums: Sequence[_Sum]) -> list[Node]:
    """The scan without these carries, and their sums as products over its results."""
    arg: Scan = node.arg
    body = arg.body
    assert arg.length is not None
    gone = {s.carry for s in sums}
    kept = [k for k in range(arg.carry) if k not in gone]
    names_of_consts, _, names_of_xs = _split(arg, body.inputs)
    consts, carry, xs = _split(arg, node.src)
    given = dict(zip(names_of_xs, xs, strict=True))
    known = dict(zip(names_of_consts, consts, strict=True))
    factors = dict.fromkeys(f for s in sums for f in s.factors)
    extra = [f for f in factors if f not in given and f not in known]

    def smaller(values: Sequence[Node]) -> list[Node]:
        consts, carry, xs = _split(arg, values)
        return [*consts, *(carry[k] for k in kept), *xs]

    outputs = [*(body.outputs[k] for k in kept), *body.outputs[arg.carry :], *extra]
    inner = close(smaller(body.inputs), outputs)
    new = replace(arg, body=inner, carry=len(kept))
    results = items(node.op(*smaller(node.src), arg=new))
    ys = len(body.outputs) - arg.carry
    stacked = given | dict(zip(extra, results[len(kept) + ys :], strict=True))
    answer = dict(zip(kept, results, strict=False))
    for total in sums:
        whole = _sum_factors(total, stacked, known, arg.length)
        answer[total.carry] = add(carry[total.carry], whole)
    carries = [answer[k] for k in range(arg.carry)]
    return [*carries, *results[len(kept) : len(kept) + ys]]


def _sum_factors(
    total: _Sum, stacked: dict[Node, Node], known: dict[Node, Node], length: int
) -> Node:
    """The sum over all iterations of a product of stacked factors."""
    wide = {
        f: variable(stacked[f].aval, "split", i)
        for i, f in enumerate(total.factors)
        if f in stacked
    }
    ((made, batched),) = batch_nodes([total.product], wide, length)
    assert batched
    values = known | {name: stacked[f] for f, name in wide.items()}
    (whole,) = substitute([made], values)
    return reshape(reduce_sum(whole, (0,)), total.product.shape)


#: What `config.disabled_rules` can switch off here.
DECISIONS = {
    "merge_loops": "operations that run the same loop or branch become one",
    "fuse_loops": "a loop over what another one makes joins it",
    "prune_loops": "results and carries of a loop that nobody needs vanish",
    "hoist_invariants": "what is the same in each iteration is computed before it",
    "distribute_products": "products that need no iteration are done for all at once",
}

LOOPS = (scan_p, while_p)
CONTROL = (*LOOPS, cond_p)

#: An invariant of more elements per element that it is made of is computed again: a
#: bound of memory, too. So few elements are kept, whatever they are made of: with 0 or
#: 2¹⁴ no row differs.
_GROWTH = 4
_SMALL = 64


def simplify_loops(outputs: Sequence[Node], limits: Limits) -> list[Node]:
    """The outputs after all rewrites of loops and branches."""
    nodes = list(outputs)
    passes: tuple[tuple[str, Callable[[list[Node]], list[Node]]], ...] = (
        ("merge_loops", merge_control),
        ("fuse_loops", _fuse),
        ("prune_loops", _prune),
        ("hoist_invariants", partial(convert, table=dict.fromkeys(LOOPS, _hoist))),
        ("distribute_products", partial(convert, table={scan_p: split_scan})),
    )
    for name, function in passes:
        if settings.decides(name):
            nodes = function(nodes)
    return nodes


# Fuse.


def _fuse(outputs: list[Node]) -> list[Node]:
    nodes = list(outputs)
    for _ in range(len(nodes_of(outputs))):
        pair = _fusible(nodes)
        if pair is None:
            return nodes
        nodes = _fuse_pair(nodes, *pair)
    return nodes


def _fusible(outputs: Sequence[Node]) -> tuple[Node, Node] | None:
    """A loop, and a scan over some of what it makes and nothing that needs its end."""
    ordered = toposort(outputs)
    for second in ordered:
        if second.op is not scan_p:
            continue
        arg: Scan = second.arg
        _, _, elements = _split(arg, second.src)
        makers = dict.fromkeys(x.src[0] for x in elements if x.op is item_p)
        for first in makers:
            if not _in_step(first, arg):
                continue
            others = [x for x in second.src if not _is_made_by(x, first)]
            if first not in depends_on([*others, first], [first]).difference(
                [first]
            ) and (first not in nodes_of(others)):
                return first, second
    return None


def _in_step(first: Node, arg: Scan) -> bool:
    """Does the loop take as many steps as a scan, in the same order?"""
    other = first.arg
    if isinstance(other, While):
        return arg.length is None and not arg.reverse
    if not isinstance(other, Scan) or (other.carry == 0 and arg.carry > 0):
        return False
    return same_size(other.length, arg.length) and other.reverse == arg.reverse


def _is_made_by(node: Node, loop: Node) -> bool:
    """Is it one of the elements that a loop makes, not its last carry?"""
    carry: int = loop.arg.carry if not isinstance(loop.arg, Branches) else 0
    if node.op is not item_p or node.src[0] is not loop:
        return False
    number: int = node.arg
    return number >= carry


def _fuse_pair(outputs: Sequence[Node], first: Node, second: Node) -> list[Node]:
    a, b = first.arg, second.arg
    assert isinstance(b, Scan)
    own = stand_ins(a.body.inputs, "first")
    more = stand_ins(b.body.inputs, "second")
    made = apply_body(a.body, own)
    border = b.consts + b.carry
    given: list[Node] = []
    extra: list[int] = []  # elements of the second that the first does not make
    for i, source in enumerate(second.src):
        if i >= border and _is_made_by(source, first):
            number: int = source.arg
            given.append(made[number])
        else:
            given.append(more[i])
            if i >= border:
                extra.append(i)
    found = apply_body(b.body, given)

    def join(mine: Sequence[Node], others: Sequence[Node]) -> list[Node]:
        consts, carry, xs = _split(a, mine)
        more_consts, more_carry, _ = _split(b, others)
        more_xs = [others[i] for i in extra]
        return [*consts, *more_consts, *carry, *more_carry, *xs, *more_xs]

    outputs_of_both = [
        *made[: a.carry], *found[: b.carry], *made[a.carry :], *found[b.carry :]
    ]  # fmt: skip
    counts = a.consts + b.consts, a.carry + b.carry
    arg = _remake(a, join(own, more), own, outputs_of_both, counts)
    whole = first.op(*join(first.src, second.src), arg=arg)
    results = items(whole)
    count = len(made)
    start = a.carry + b.carry
    of_first = [*results[: a.carry], *results[start : start + count - a.carry]]
    of_second = [*results[a.carry : start], *results[start + count - a.carry :]]
    replaced = dict(zip(items(first), of_first, strict=True))
    replaced |= dict(zip(items(second), of_second, strict=True))
    return substitute(outputs, replaced)


# Prune.


def _prune(outputs: list[Node]) -> list[Node]:
    live = set(outputs)
    kept: dict[Node, list[int]] = {}  # of a control operation: results that are used
    inputs: dict[Node, list[int]] = {}  # and operands
    for node in reversed(toposort(outputs)):
        if node.op in CONTROL:
            used = [i for i, r in enumerate(items(node)) if r in live]
            kept[node], inputs[node] = _find_needed(node, used)
            live.update(node.src[i] for i in inputs[node])
        elif node in live and not (node.op is item_p and node.src[0].op in CONTROL):
            live.update(node.src)

    def change(node: Node, src: tuple[Node, ...]) -> Sequence[Node] | None:
        if node.op not in CONTROL:
            return None
        if not kept[node]:  # nobody looks at them
            return _fillers(node)
        if isinstance(node.arg, Scan) and same_size(node.arg.length, 0):
            _, carry, _ = _split(node.arg, src)
            empty = node.aval.items[len(carry) :]
            return [*carry, *(const(0, a.dtype, a.shape) for a in empty)]
        if node.op is cond_p:
            return _prune_branches(node, src, kept[node], inputs[node])
        return _prune_loop(node, src, kept[node], inputs[node])

    return exchange(outputs, change)


def _find_needed(node: Node, used: Sequence[int]) -> tuple[list[int], list[int]]:
    """Which results, and which operands, an operation needs for some results."""
    arg = node.arg
    if isinstance(arg, Branches):
        read: set[Node] = set()
        for body in arg.bodies:
            read.update(nodes_of([body.outputs[k] for k in used]))
        names = arg.bodies[0].inputs
        return list(used), [0, *(i + 1 for i, n in enumerate(names) if n in read)]
    if not used:
        return [], []
    body: Body = arg.body
    needed = set(used)
    roots = list(arg.cond.outputs) if isinstance(arg, While) else []
    while True:
        read = nodes_of([*roots, *(body.outputs[k] for k in needed)])
        before = len(needed)
        needed |= {k for k in range(arg.carry) if body.inputs[arg.consts + k] in read}
        if len(needed) == before:
            break
    wanted = [
        i
        for i, n in enumerate(body.inputs)
        if n in read or i - arg.consts in needed.intersection(range(arg.carry))
    ]
    if isinstance(arg, Scan) and arg.length is None:
        stacks = [i for i, s in enumerate(node.src) if isinstance(s.aval, Stack)]
        if not any(i in wanted for i in stacks):
            wanted = sorted([*wanted, stacks[0]])
    return sorted(needed), wanted


def _prune_branches(
    node: Node, src: tuple[Node, ...], kept: Sequence[int], inputs: Sequence[int]
) -> Sequence[Node]:
    bodies: tuple[Body, ...] = node.arg.bodies
    if src[0].op is const_p:
        chosen = int.from_bytes(src[0].arg, "little", signed=True)
        return apply_body(bodies[chosen], src[1:])
    places = [i - 1 for i in inputs[1:]]
    filled = [_with_constants(body, src[1:], places) for body in bodies]
    pruned = tuple(
        close([inner[i] for i in variable_places], [outputs[k] for k in kept])
        for inner, outputs, variable_places in filled
    )
    rest = filled[0][2]
    results = cond_p.results(src[0], *(src[i + 1] for i in rest), arg=Branches(pruned))
    return _scatter(results, kept, node)


def _with_constants(
    body: Body, operands: Sequence[Node], places: Sequence[int]
) -> tuple[tuple[Node, ...], list[Node], list[int]]:
    """A body that knows which inputs are constants or one: (inputs, outputs, rest)."""
    first = {operands[i]: i for i in reversed(places)}
    given = [
        x if x.op is const_p else body.inputs[first.get(x, i)]
        for i, x in enumerate(operands)
    ]
    outputs = apply_body(body, given)
    return body.inputs, outputs, [i for i in places if given[i] is body.inputs[i]]


def _scatter(results: Sequence[Node], places: Sequence[int], node: Node) -> list[Node]:
    found = _fillers(node)  # in the places of what nobody looks at
    for place, result in zip(places, results, strict=True):
        found[place] = result
    return found


def _prune_loop(
    node: Node, src: tuple[Node, ...], kept: Sequence[int], inputs: Sequence[int]
) -> Sequence[Node]:
    """A loop without what is not needed; carries that do not change are constants."""
    arg = node.arg
    body: Body = arg.body
    border = arg.consts + arg.carry
    fixed = [
        k
        for k in kept
        if k < arg.carry and body.outputs[k] is body.inputs[arg.consts + k]
    ]
    known = {
        body.inputs[i]: src[i]
        for i in inputs
        if src[i].op is const_p and (i < arg.consts or i - arg.consts in fixed)
    }
    consts = [i for i in inputs if i < arg.consts or i - arg.consts in fixed]
    consts = [i for i in consts if body.inputs[i] not in known]
    carry = [
        i for i in inputs if arg.consts <= i < border and i - arg.consts not in fixed
    ]
    xs = [i for i in inputs if i >= border]
    order = [*consts, *carry, *xs]
    results = [k for k in kept if k not in fixed]
    given = [known.get(n, n) for n in body.inputs]
    outputs = apply_body(body, given)
    new = _remake(
        arg,
        [body.inputs[i] for i in order],
        given,
        [outputs[k] for k in results],
        (len(consts), len(carry)),
    )
    found = items(node.op(*(src[i] for i in order), arg=new))
    answer = _scatter(found, results, node)
    for k in fixed:
        answer[k] = src[arg.consts + k]
    return answer


def _fillers(node: Node) -> list[Node]:
    """For results that nobody needs; what is made of them must still fit."""
    return [const(0, a.dtype, a.shape) for a in node.aval.items]


# Hoist.


def _hoist(node: Node, read: Collection[int]) -> Node | None:
    arg = node.arg
    body: Body = arg.body
    found = _invariants(body, arg.consts)
    if not found:
        return None
    names = stand_ins(found, "first")
    mapping = dict(zip(found, names, strict=True))
    inputs = [*names, *body.inputs]
    consts = body.inputs[: arg.consts]
    values = apply_body(Body(consts, tuple(found)), node.src[: arg.consts])
    outputs = substitute(body.outputs, mapping)
    counts = arg.consts + len(found), arg.carry
    new = _remake(arg, inputs, body.inputs, outputs, counts)
    return node.op(*values, *node.src, arg=new)


def _invariants(body: Body, consts: int) -> list[Node]:
    """Values of a body that cost something and are the same in each iteration."""
    ordered = toposort(body.outputs)
    moving = depends_on(body.outputs, body.inputs[consts:])
    work: dict[Node, int] = {}
    size: dict[Node, int] = {}
    for node in ordered:
        if node in moving:
            continue
        own = 0 if node.op is item_p else weight(node)
        if compound_of(node) is not None:
            own = 1
        work[node] = own + sum(work[s] for s in node.src)
        size[node] = node.size if not node.src else sum({size[s] for s in node.src})
    found: dict[Node, None] = {}
    for node in ordered:
        if node not in moving:
            continue
        for source in node.src:
            if source in moving or not work[source]:
                continue
            small = source.size <= _GROWTH * max(size[source], _SMALL)
            value = compound_of(source) is None and not isinstance(source.aval, Stack)
            if small and value:
                found[source] = None
    for node in body.outputs:
        if node not in moving and work[node]:
            found[node] = None
    return list(found)

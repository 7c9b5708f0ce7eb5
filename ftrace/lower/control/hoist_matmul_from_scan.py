"""Stage 0: products that a scan need not compute one iteration at a time.

    before   a product of elements and constants (x @ w in a recurrent cell) is done
             for all elements at once, and the scan runs over the result
    after    a sum of products that is only carried (a weight's gradient) is one
             product over all iterations, of factors that the scan gives out

Both turn many small products into one large one. What they store grows with the
length; they are left alone where that is much more than the scan has anyway.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.analysis.cost import is_contraction
from ftrace.trace.batching import batch_nodes
from ftrace.trace.body import close, depends_on
from ftrace.trace.control.scan import Scan
from ftrace.trace.graph import Node, substitute, toposort
from ftrace.trace.primitives.broadcast import reduce_sum
from ftrace.trace.primitives.elementwise import add
from ftrace.trace.primitives.movement import reshape
from ftrace.trace.primitives.primitive import compound_of, items
from ftrace.trace.primitives.sources import is_variable, variable

_NEW_DEPTH = -11
#: What may be stored: so many times what the scan runs over, and so many elements.
_GROWTH = 4
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


def _budget(arg: Scan, src: Sequence[Node]) -> int:
    elements = sum(s.size for s in src[arg.consts + arg.carry :])
    return _GROWTH * elements + _ALLOWANCE


# Before the scan.


def _early(arg: Scan) -> list[Node]:
    """Values of elements and constants that a product leads to, as far as possible."""
    body = arg.body
    first = arg.consts + arg.carry
    late = depends_on(body.outputs, body.inputs[arg.consts : first])
    of_elements = depends_on(body.outputs, body.inputs[first:])
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
    limit = sum(n.size for n in body.inputs[first:]) * _GROWTH + _ALLOWANCE // (
        arg.length or 1
    )
    return list(found) if sum(n.size for n in found) <= limit else []


def _before(node: Node, early: Sequence[Node]) -> Node:
    arg: Scan = node.arg
    src = node.src
    assert arg.length is not None
    first = arg.consts + arg.carry
    wide = {
        name: variable(whole.aval, _NEW_DEPTH, i)
        for i, (name, whole) in enumerate(
            zip(arg.body.inputs[first:], src[first:], strict=True)
        )
    }
    batched = batch_nodes(early, wide, arg.length)
    known = dict(zip(arg.body.inputs[: arg.consts], src[: arg.consts], strict=True))
    known |= dict(zip(wide.values(), src[first:], strict=True))
    values = substitute([made for made, _ in batched], known)
    names = [variable(n.aval, _NEW_DEPTH, i) for i, n in enumerate(early)]
    outputs = substitute(arg.body.outputs, dict(zip(early, names, strict=True)))
    body = close([*arg.body.inputs, *names], outputs)
    return node.op(*src, *values, arg=replace(arg, body=body))


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
    return found if size <= _budget(arg, src) else []


def _factors(product: Node) -> tuple[Node, ...]:
    """What a product is made of; empty if it is none."""
    node = product
    while node.op.family in ("movement", "cast"):
        node = node.src[0]
    if not is_contraction(node):
        return ()
    factors: dict[Node, None] = {}
    pending = list(node.src)
    while pending:
        part = pending.pop()
        inner = part.op.family in ("movement", "cast") or part is node.src[0]
        if inner and part.op.family != "source":
            pending.extend(part.src)
        else:
            factors[part] = None
    return tuple(factors)


def _after(node: Node, sums: Sequence[_Sum]) -> list[Node]:
    """The scan without these carries, and their sums as products over its results."""
    arg: Scan = node.arg
    src = node.src
    body = arg.body
    assert arg.length is not None
    first = arg.consts + arg.carry
    gone = {s.carry for s in sums}
    kept = [k for k in range(arg.carry) if k not in gone]
    given = dict(zip(body.inputs[first:], src[first:], strict=True))
    constant = set(body.inputs[: arg.consts])
    extra = list(
        dict.fromkeys(
            f for s in sums for f in s.factors if f not in given and f not in constant
        )
    )
    inputs = [
        *body.inputs[: arg.consts],
        *(body.inputs[arg.consts + k] for k in kept),
        *body.inputs[first:],
    ]
    outputs = [*(body.outputs[k] for k in kept), *body.outputs[arg.carry :], *extra]
    smaller = replace(arg, body=close(inputs, outputs), carry=len(kept))
    operands = [
        *src[: arg.consts], *(src[arg.consts + k] for k in kept), *src[first:],
    ]  # fmt: skip
    results = items(node.op(*operands, arg=smaller))
    ys = len(body.outputs) - arg.carry
    stacked = given | dict(zip(extra, results[len(kept) + ys :], strict=True))
    answer = dict(zip(kept, results, strict=False))
    known = dict(zip(body.inputs[: arg.consts], src[: arg.consts], strict=True))
    for total in sums:
        answer[total.carry] = add(
            src[arg.consts + total.carry], _summed(total, stacked, known, arg.length)
        )
    carries = [answer[k] for k in range(arg.carry)]
    return [*carries, *results[len(kept) : len(kept) + ys]]


def _summed(
    total: _Sum, stacked: dict[Node, Node], known: dict[Node, Node], length: int
) -> Node:
    """The sum over all iterations of a product of stacked factors."""
    wide = {
        f: variable(stacked[f].aval, _NEW_DEPTH, i)
        for i, f in enumerate(total.factors)
        if f in stacked
    }
    ((made, batched),) = batch_nodes([total.product], wide, length)
    assert batched
    values = known | {name: stacked[f] for f, name in wide.items()}
    (whole,) = substitute([made], values)
    return reshape(reduce_sum(whole, (0,)), total.product.shape)

"""From users' functions to the operands and argument of a control-flow operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import DtypeError, Origin, ShapeError, TreeError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.avals import ShapedArray
from ftrace.trace.body import BodyDraft, trace_body
from ftrace.trace.calls.varying import SAME, vary, varying_here
from ftrace.trace.flatten_arguments import Output
from ftrace.trace.graph import Node, toposort, walk
from ftrace.trace.primitives.elementwise import cast_p
from ftrace.trace.primitives.primitive import Compound
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic import same_size
from ftrace.trace.tracing.scopes import current_scope, scope_of
from ftrace.trace.tracing.trace import lift_as, match_aval, record_compound, trace
from ftrace.trace.tracing.tracer import Function, Tracer, Value, aval_of
from ftrace.trace.tracing.weak_constants import WIDE, is_exact, is_narrow
from ftrace.transforms.jit.compiled_graph import apply_graph


@dataclass(frozen=True)
class TracedBody:
    """A function traced as a body, with the structure of what it returned."""

    draft: BodyDraft
    output: Output

    @property
    def treedef(self) -> tree.TreeDef:
        return self.output.structure


def trace_function(
    what: str,
    fun: Function,
    treedef: tree.TreeDef,
    avals: Sequence[ShapedArray],
    given: Sequence[Value] = (),
    types: Sequence[ShapedArray] = (),
    meant: Sequence[Value] = (),
) -> TracedBody:
    """The body of `fun`, called with arguments of a structure and these types.

    Args:
      given: what the arguments stand for, if they are the same each time.
      types: of the results: numbers of Python's are converted with all their bits.
      meant: what the arguments stand for at first.
    """
    output = Output.of_leaves(fun, treedef, what)

    def type_results(*tracers: Value) -> list[Value]:
        scope = current_scope()
        assert scope is not None
        pairs = zip(output(*tracers), types, strict=True)
        return [scope.wrap(lift_as(scope, x, aval)) for x, aval in pairs]

    body = type_results if types else output
    return TracedBody(trace_body(what, body, avals, given, meant), output)


# Types that go around a loop.


def with_wide(avals: Sequence[ShapedArray], wide: Iterable[int]) -> list[ShapedArray]:
    """The types, those of some weak scalars with all bits."""
    found = list(avals)
    for i in wide:
        if i < len(found):
            found[i] = found[i].with_dtype(WIDE[found[i].dtype], True)
    return found


def next_types(
    what: str,
    before: Sequence[ShapedArray],
    after: Sequence[Node],
    names: Callable[[], Sequence[str]],
) -> list[ShapedArray]:
    """The types that a carry must have, given what one iteration made of it.

    A weak type gives way to another dtype that it becomes, and is strong then; beside
    a type of its own dtype it stays, and so does the strong one beside a weak result.
    As in JAX.

    Raises:
      ShapeError, DtypeError: a leaf changes its shape or dtype.
    """
    found: list[ShapedArray] = []
    wrong: list[DtypeError] = []
    for number, (aval, node) in enumerate(zip(before, after, strict=True)):
        new = node.aval
        if not same_size(new.shape, aval.shape):
            name = names()[number]
            raise ShapeError(
                f"{what}: the carry must keep its shape, but {name} of type {aval!r} "
                f"became {new!r}; return an array of shape {aval.shape}",
                node.origin,
            )
        exact = is_exact(aval) and is_narrow(new) and WIDE[new.dtype] == aval.dtype
        if new.dtype == aval.dtype or exact:
            found.append(aval)
            continue
        pair = (aval.dtype, aval.weak_type), (new.dtype, new.weak_type)
        wanted, weak = dtypes.promote(*pair) if aval.weak_type else pair[0]
        # What has more bits than weak types have is a number of NumPy's alone.
        weak = weak and wanted != dtypes.default_dtype(dtypes.kind(wanted))
        found.append(aval.with_dtype(wanted, weak))
        if wanted != new.dtype:
            name = names()[number]
            error = DtypeError(
                f"{what}: the carry must keep its dtype, but {name} of type {aval!r} "
                f"became {new!r}; convert it with .astype, or begin with {new.dtype}",
                _line_of_change(node, aval.dtype),
            )
            wrong.append(error)
    # While another leaf gives way, this one may become what it was: two may swap.
    if wrong and found == list(before):
        raise wrong[0]
    return found


def vary_carry(
    values: Sequence[Value], body: TracedBody, meant: Sequence[Value],
    test: TracedBody | None = None,
) -> list[Value] | None:  # fmt: skip
    """The first carry, each of which differs between devices where a later one does.

    Args:
      values: the first carry.
      body: what a step does, `test` whether there is one.
      meant: what their arguments stand for at first.

    Returns:
      None where it is these values, as it is outside of `shard_map`.
    """
    along = varying_here()
    if along is None:
        return None

    def names_of(traced: TracedBody) -> list[Any]:
        draft = traced.draft
        inputs = (*draft.arguments, *draft.free)
        names = map(along.of, (*meant, *draft.values))
        return along.of_nodes(draft.outputs, dict(zip(inputs, names, strict=True)))

    going = SAME.union(*names_of(test)) if test else SAME
    more = [
        (names | going) - along.of(x)
        for names, x in zip(names_of(body), values, strict=False)
    ]
    if not any(more):
        return None
    return [
        vary(x, along.axes_named(names)) for x, names in zip(values, more, strict=True)
    ]


def _line_of_change(node: Node, before: np.dtype[Any]) -> Origin | None:
    """The user's line where a value of that dtype got the dtype of the node."""
    return (_conversion(node, before) or node).origin


def _conversion(node: Node, before: np.dtype[Any]) -> Node | None:
    """The first conversion from a dtype, of those that gave the node its own."""
    chain = {*walk([node], lambda x: [s for s in x.src if s.dtype == node.dtype])}
    for x in toposort([node]):
        if x in chain and x.op is cast_p and x.src[0].dtype == before:
            return x
    return None


def check_structure(what: str, wanted: tree.TreeDef, got: tree.TreeDef) -> None:
    """Raises TreeError where what a body returned is not built like its carry."""
    if wanted == got:
        return
    before, after = (
        {
            "carry" + "".join(f"[{entry!r}]" for entry in path)
            for path in treedef.paths()
        }
        for treedef in (wanted, got)
    )
    found = [f"{name} is missing" for name in sorted(before - after)]
    found += [f"{name} is new" for name in sorted(after - before)]
    diff = "; ".join(found[:4]) or f"{wanted} became {got}"
    raise TreeError(
        f"{what}: the carry must keep its structure, but {diff}; return a carry built "
        "like the one that came in"
    )


def leaf_names(what: str, value: Any) -> Callable[[], list[str]]:
    """For messages: gives the place of each leaf."""
    return lambda: [
        what + tree.keystr(path) for path, _ in tree.leaves_with_path(value)
    ]


def common_types(
    what: str, branches: Sequence[Sequence[Node]], names: Sequence[str]
) -> list[ShapedArray]:
    """The types of the results of several branches; weak types give way.

    Of one dtype it is weak where that of the first branch is, as in JAX.

    Raises:
      ShapeError, DtypeError: two branches return different types.
    """
    found: list[ShapedArray] = []
    for position, nodes in enumerate(zip(*branches, strict=True)):
        aval = nodes[0].aval
        for number, node in enumerate(nodes[1:], 1):
            new = node.aval
            text = (
                f"{what}: all branches must return the same types, but {names[0]} "
                f"returns {nodes[0].aval!r} and {names[number]} {new!r} as result "
                f"{position}"
            )
            if not same_size(new.shape, aval.shape):
                raise ShapeError(f"{text}; reshape or broadcast one", node.origin)
            if new.dtype == aval.dtype:
                continue
            pair = (aval.dtype, aval.weak_type), (new.dtype, new.weak_type)
            dtype, weak = dtypes.promote(*pair)
            kept = [d for d, is_weak in pair if not is_weak]
            alike = dtypes.kind(new.dtype) == dtypes.kind(aval.dtype)
            if any(d != dtype for d in kept) or not (kept or alike):
                where = _conversion(nodes[0], new.dtype)
                origin = where.origin if where else _line_of_change(node, aval.dtype)
                raise DtypeError(f"{text}; convert one with .astype", origin)
            aval = ShapedArray.of(aval.shape, dtype, weak)
        found.append(aval)
    return found


def match_all(nodes: Sequence[Node], avals: Sequence[ShapedArray]) -> list[Node]:
    """The nodes in these types, which differ from theirs in dtype and weakness only."""
    return [match_aval(n, a) for n, a in zip(nodes, avals, strict=True)]


def last_carry(nodes: Sequence[Node], carry: Sequence[ShapedArray]) -> list[Node]:
    """The last carry, as weak as the body makes it; `match_all` where dtypes differ."""
    pairs = zip(nodes, carry, strict=True)
    return [n if n.dtype == a.dtype else match_aval(n, a) for n, a in pairs]


# Applying an operation to values.


def apply_compound(
    what: str,
    op: Compound,
    arg: Any,
    values: Sequence[Value],
    operands: Callable[[Sequence[Node]], list[Node]],
    token: int = -1,
) -> list[Any]:
    """The results of an operation: recorded where something is traced, else run.

    Args:
      what: the name for messages.
      op, arg: the operation.
      values: what its operands are made of.
      operands: from the nodes of `values` to those of the operands.
      token: at which operand the token of effects stands; -1 if there are none.

    Returns:
      The results, but for the token.
    """
    scope = current_scope() if token >= 0 else scope_of(values) or current_scope()
    if scope is None:
        avals = [aval_of(x) for x in values]
        graph = trace(
            what,
            lambda *xs: apply_compound(what, op, arg, xs, operands, token),
            avals,
            exact=True,
        )
        return apply_graph(graph, values)
    nodes = operands([scope.lift(x) for x in values])
    return record_compound(scope, op, nodes, arg, token)


def distinct(groups: Sequence[Sequence[Value]]) -> tuple[list[Value], list[list[int]]]:
    """The different values of all groups, and for each group their positions."""
    found: dict[Any, int] = {}
    values: list[Value] = []
    places: list[list[int]] = []
    for group in groups:
        mine: list[int] = []
        for value in group:
            key = value.node if isinstance(value, Tracer) else id(value)
            if key not in found:
                found[key] = len(values)
                values.append(value)
            mine.append(found[key])
        places.append(mine)
    return values, places

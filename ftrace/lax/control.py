"""Loops and branches inside of traced functions: JAX's names, arguments, meanings."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import numpy as np

from ftrace import dtypes, errors
from ftrace.ground import settings
from ftrace.numpy.axes import as_value, cast, scalar_type, static_int
from ftrace.numpy.joining import concatenate, stack
from ftrace.trace import references
from ftrace.trace.avals import TOKEN, ShapedArray
from ftrace.trace.body import close
from ftrace.trace.control.conditional import Branches, While, cond_p, while_p
from ftrace.trace.control.scan import Scan, scan_p
from ftrace.trace.flatten_arguments import NOT_GIVEN, flatten_values, name_of
from ftrace.trace.graph import Node
from ftrace.trace.primitives.elementwise import add, cast as cast_node
from ftrace.trace.primitives.sources import const, iota, variable
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic import is_dynamic
from ftrace.trace.tracing.tracer import Function, Tracer, Value, aval_of
from ftrace.trace.tracing.weak_constants import is_exact, is_narrow
from ftrace.transforms import trace_body as bodies
from ftrace.transforms.trace_body import TracedBody
from ftrace.transforms.vmap import vmap
from ftrace.typing import ArrayLike

__all__ = ["cond", "fori_loop", "map", "scan", "switch", "while_loop"]

#: The carry of a loop, and what an iteration returns beside it.
C = TypeVar("C")
Y = TypeVar("Y")


# Branches.


def cond(
    pred: ArrayLike,
    true_fun: Function | Any,
    false_fun: Function | Any,
    *operands: Any,
    operand: Any = NOT_GIVEN,
) -> Any:
    """`true_fun(*operands)` if the predicate holds, else `false_fun(*operands)`.

    Only the chosen one runs, also where the predicate differs between the lanes of a
    vmap. JAX's older order, `cond(pred, x, true_fun, y, false_fun)`, is understood.

    Args:
      pred: a scalar bool; a number counts as true where it is not zero.
      true_fun, false_fun: return results of the same structure, shapes and dtypes.
      operands: arrays, or pytrees of them.
      operand: one operand, by name; it may be None, and is not given by default.

    Returns:
      What the chosen branch returns.

    Raises:
      ArgumentError: `pred` is no scalar, or a branch no function.
      TreeError, ShapeError, DtypeError: the branches return different types.

    Example:
      >>> lax.cond(True, lambda x: x + 1, lambda x: x - 1, 10.0)
      Array(11., dtype=float32, weak_type=True)
      >>> ft.vmap(lambda p, x: lax.cond(p, fnp.sin, fnp.negative, x))(
      ...     fnp.array([True, False]), fnp.array([0.0, 3.0]))
      Array([ 0., -3.], dtype=float32)
    """
    if operand is not NOT_GIVEN:
        operands = (operand,)
    names = _distinct_names([false_fun, true_fun], ("false_fun", "true_fun"))
    branches: list[Function] = [false_fun, true_fun]
    older = len(operands) == 2 and not callable(true_fun)
    if older and callable(false_fun) and callable(operands[1]):
        (first, f), (second, g) = (true_fun, false_fun), operands
        operands, names = (first, second), [name_of(g), name_of(f)]
        branches = [lambda *xs: g(xs[1]), lambda *xs: f(xs[0])]
    for branch in branches:
        tree.check_callable(branch, "cond")
    aval = _scalar("cond: the predicate", pred)
    if dtypes.is_complex(aval.dtype):
        raise errors.DtypeError(f"cond: the predicate must be a bool, got {aval!r}")
    if _in_python(pred):
        return branches[bool(pred)](*operands)
    index = as_value(pred)
    if aval.dtype != dtypes.bool_:
        index = index != 0
    return _branch("cond", index, branches, operands, names)


def switch(
    index: ArrayLike,
    branches: Sequence[Function],
    *operands: Any,
    operand: Any = NOT_GIVEN,
) -> Any:
    """`branches[index](*operands)`; an index out of bounds is moved inside.

    Args:
      index: a scalar integer.
      branches: functions that return results of the same structure and types.
      operands: arrays, or pytrees of them.
      operand: one operand, by name; it may be None, and is not given by default.

    Returns:
      What that branch returns.

    Raises:
      ArgumentError: no scalar integer, no branches, or a branch no function.
      TreeError, ShapeError, DtypeError: the branches return different types.

    Example:
      >>> branches = [lambda x: x, lambda x: x**2, lambda x: x**3]
      >>> lax.switch(1, branches, 3), lax.switch(7, branches, 3)
      (Array(9, dtype=int32, weak_type=True), Array(27, dtype=int32, weak_type=True))
    """
    if not np.iterable(branches):
        raise errors.ArgumentError(
            f"switch takes a sequence of functions, got {branches!r:.60}"
        )
    branches = list(branches)
    if operand is not NOT_GIVEN:
        operands = (operand,)
    if not branches:
        raise errors.ArgumentError("switch takes at least one branch, got none")
    for branch in branches:
        tree.check_callable(branch, "switch")
    aval = _scalar("switch: the index", index)
    if not dtypes.is_integer(aval.dtype):
        raise errors.DtypeError(f"switch: the index must be an integer, got {aval!r}")
    places = [f"branch {i}" for i in range(len(branches))]
    names = _distinct_names(branches, places)
    if len(branches) == 1:
        return branches[0](*operands)
    if _in_python(index):
        return branches[min(max(int(as_value(index)), 0), len(branches) - 1)](*operands)
    index = as_value(index).clip(0, len(branches) - 1)
    return _branch("switch", index, branches, operands, names)


def _distinct_names(functions: Sequence[Any], roles: Sequence[str]) -> list[str]:
    """What messages call functions; those of one name, as lambdas, by their role."""
    names = [name_of(f) for f in functions]
    return [
        f"{name} ({role})" if names.count(name) > 1 else name
        for role, name in zip(roles, names, strict=True)
    ]


def _in_python(*values: Any) -> bool:
    """Whether to branch and loop in Python, for a look at the values on their way."""
    if not settings.current().disable_jit:
        return False
    return not any(isinstance(x, Tracer) for x in tree.leaves(values))


def _scalar(what: str, value: Value) -> ShapedArray:
    instead = "; reduce it with .all() or .any(), or choose elementwise with where"
    return scalar_type(value, what, instead)


def _branch(
    what: str,
    index: Value,
    branches: Sequence[Function],
    operands: tuple[Any, ...],
    names: Sequence[str],
) -> Any:
    values, treedef = flatten_values(operands, f"{what}: the operand ")
    avals = [aval_of(x) for x in values]
    try:
        traced = _trace_all(what, branches, treedef, avals, values)
    except references.Written as written:

        def again(refs: Sequence[references.Ref]) -> Any:
            inner = [references.thread(b, refs) for b in branches]
            return _branch(
                what, index, inner, (references.read_all(refs), *operands), names
            )

        return written.answer(what, again)
    first = traced[0].treedef
    for name, other in zip(names[1:], traced[1:], strict=True):
        if other.treedef != first:
            raise errors.TreeError(
                f"{what} branch outputs must have the same pytree structure, but "
                f"{names[0]} returns {tree.readable(first)} and {name} "
                f"{tree.readable(other.treedef)}"
            )
    types = bodies.common_types(what, [t.draft.outputs for t in traced], names)
    if any(is_exact(t) for t in types):
        traced = _trace_all(what, branches, treedef, avals, values, types)
    free, places = bodies.distinct([t.draft.values for t in traced])
    effects = any(t.draft.effects for t in traced)
    closed: list[Any] = []
    for t, mine in zip(traced, places, strict=True):
        consts, before, after = close_over(t, mine, free, effects)
        outputs = [*after, *bodies.match_all(t.draft.outputs, types)]
        closed.append(close([*before, *t.draft.arguments, *consts], outputs))

    def operands_of(nodes: Sequence[Node]) -> list[Node]:
        return [cast_node(nodes[0], dtypes.int32), *nodes[1:]]

    arg, given = Branches(tuple(closed)), [index, *values, *free]
    token = 1 if effects else -1
    results = bodies.apply_compound(what, cond_p, arg, given, operands_of, token)
    found = [dict(zip(t.draft.arguments, values, strict=True)) for t in traced]
    results = list(results)
    for k, result in enumerate(results):
        sources = [
            f.get(t.draft.outputs[k]) for f, t in zip(found, traced, strict=True)
        ]
        if all(source is sources[0] for source in sources):
            results[k] = _restore(result, sources[0])
    return tree.unflatten(first, results)


def _trace_all(what: str, branches: Sequence[Function], *args: Any) -> list[TracedBody]:
    """Each of them traced; one that is given twice is traced once."""
    once = {id(b): b for b in branches}
    made = {key: bodies.trace_function(what, b, *args) for key, b in once.items()}
    return [made[id(b)] for b in branches]


def _restore(result: Any, source: Any) -> Any:
    """What a traced body only hands on is the value that it was given."""
    if source is None or not isinstance(result, Tracer):
        return result
    return as_value(source) if aval_of(source) == aval_of(result) else result


def close_over(
    traced: TracedBody, places: Sequence[int], free: Sequence[Value], effects: bool
) -> tuple[list[Node], list[Node], list[Node]]:
    """Inputs for all that any body uses from outside; the token, before and after."""
    draft = traced.draft
    mine = dict(zip(places, draft.free, strict=True))
    consts = [mine.get(i, variable(aval_of(x), _UNUSED, i)) for i, x in enumerate(free)]
    if not effects:
        return consts, [], []
    before, after = draft.effects or (variable(TOKEN, _UNUSED, -1),) * 2
    return consts, [before], [after]


#: The depth of variables that no function uses.
_UNUSED = -8


# Loops.


def while_loop(
    cond_fun: Callable[[C], Any], body_fun: Callable[[C], C], init_val: C
) -> C:
    """`body_fun` again and again, as long as `cond_fun` of its result holds.

    Unlike in JAX it has a gradient: what reverse mode needs of each iteration is saved
    on stacks that grow with the number of iterations (see docs/control_flow.md).

    Args:
      cond_fun: carry -> a scalar bool.
      body_fun: carry -> carry, of the same structure, shapes and dtypes.
      init_val: the first carry: a pytree of arrays.

    Returns:
      The first carry for which `cond_fun` does not hold.

    Raises:
      TreeError, ShapeError, DtypeError: the carry changes its structure or type, or
        the predicate is no scalar bool.

    Example:
      >>> lax.while_loop(lambda x: x < 100, lambda x: 2 * x, 3)
      Array(192, dtype=int32, weak_type=True)
      >>> def root(a):  # Newton's steps, until they no longer change much
      ...     def improves(x):
      ...         return abs(x * x - a) > 1e-5 * a
      ...     return lax.while_loop(improves, lambda x: (x + a / x) / 2, a)
      >>> float(root(9.0)), float(ft.grad(root)(9.0))
      (3.0, 0.1666666567325592)
    """
    tree.check_callable(cond_fun, "while_loop")
    tree.check_callable(body_fun, "while_loop")
    if _in_python(init_val):
        with suppress(errors.ConcretizationTypeError):  # of a predicate that is traced
            value = init_val
            while cond_fun(value):
                value = body_fun(value)
            return value
    values, treedef = flatten_values((init_val,), "while_loop: the initial value ")
    wanted = tree.structure(init_val)
    names = bodies.leaf_names("carry", init_val)
    avals = [aval_of(x) for x in values]

    def trace(f: Function, avals: Sequence[ShapedArray]) -> TracedBody:
        return bodies.trace_function("while_loop", f, treedef, avals, meant=values)

    def body_of(avals: Sequence[ShapedArray]) -> TracedBody:
        body = trace(body_fun, avals)
        bodies.check_structure("while_loop", wanted, body.treedef)
        return body

    test_of = partial(trace, cond_fun)
    try:
        found = _settle("while_loop", avals, names, body_of, test_of)
    except references.Written as written:
        again = partial(_while_with_refs, cond_fun, body_fun, init_val)
        return written.answer("while_loop", again)
    (body, test), first, avals = found
    predicate = _predicate(test, cond_fun)
    carried = bodies.vary_carry(values, body, values, test)
    if carried is not None:
        return while_loop(cond_fun, body_fun, tree.unflatten(wanted, carried))
    if test.draft.effects:
        return _while_with_effects(cond_fun, body_fun, init_val)
    free, (of_test, of_body) = bodies.distinct([test.draft.values, body.draft.values])
    count, effects = len(free), bool(body.draft.effects)
    consts, before, _ = close_over(test, of_test, free, effects)
    test_body = close([*consts, *before, *test.draft.arguments], [predicate])
    consts, before, after = close_over(body, of_body, free, effects)
    outputs = [*after, *bodies.last_carry(body.draft.outputs, avals)]
    loop_body = close([*consts, *before, *body.draft.arguments], outputs)
    results = bodies.apply_compound(
        "while_loop",
        while_p,
        While(test_body, loop_body, count),
        [*free, *_as_first(values, avals)],
        lambda nodes: [*nodes[:count], *bodies.match_all(nodes[count:], avals)],
        count if effects else -1,
    )
    return tree.unflatten(wanted, _as_last(results, first, body, values))


def _as_first(values: Sequence[Value], avals: Sequence[ShapedArray]) -> list[Value]:
    """The first carry in the types that it has in the loop: of numbers all bits."""
    pairs = zip(values, avals, strict=True)
    return [cast(x, a.dtype, a.weak_type) if is_exact(a) else x for x, a in pairs]


def _round_weak(node: Node) -> Node:
    """What a weak scalar is outside of the loop."""
    if not is_exact(node.aval):
        return node
    narrow = dtypes.default_dtype(dtypes.kind(node.dtype))
    return cast_node(node, narrow, True)


def _settle(
    what: str,
    avals: list[ShapedArray],
    names: Callable[[], Sequence[str]],
    body_of: Callable[[Sequence[ShapedArray]], TracedBody],
    *others: Callable[[Sequence[ShapedArray]], TracedBody],
) -> tuple[list[TracedBody], list[ShapedArray], list[ShapedArray]]:
    """Bodies of a loop, traced with types that the carry keeps; and the types.

    Returns:
      the bodies; the types that come out of the loop; those that go around in it.
    """
    first = avals
    while True:
        traced = [body_of(avals)]
        outputs = traced[0].draft.outputs[: len(avals)]
        types = bodies.next_types(what, avals, outputs, names)
        if types != avals:
            rows = zip(first, avals, types, strict=True)
            first, avals = [f if old == new else new for f, old, new in rows], types
            continue
        traced += [trace(avals) for trace in others]
        types = bodies.with_wide(avals, [i for body in traced for i in body.draft.wide])
        if types == avals:
            return traced, first, avals
        avals = types


def _as_last(
    results: Sequence[Value],
    first: Sequence[ShapedArray],
    body: TracedBody,
    values: Sequence[Value],
) -> list[Value]:
    """The last carry, and what else comes out; weak scalars in their first types."""
    found = list(results)
    # Behind the carry stand elements, and what else comes out.
    rows = zip(body.draft.arguments, body.draft.outputs, values, strict=False)
    for k, (given, returned, value) in enumerate(rows):
        if given is returned:
            found[k] = _restore(found[k], value)
    for i, aval in enumerate(first):
        if is_narrow(aval) and is_exact(aval_of(found[i])):
            found[i] = cast(found[i], aval.dtype, True)
    return found


def _while_with_effects(cond_fun: Function, body_fun: Function, init_val: Any) -> Any:
    """A loop whose predicate calls back: an iteration ends with the next predicate."""

    def step(state: Any) -> Any:
        value = body_fun(state[0])
        return value, cond_fun(value)

    step.__name__ = name_of(body_fun)
    first = cond_fun(init_val)
    return while_loop(operator.itemgetter(1), step, (init_val, first))[0]


def _while_with_refs(
    cond_fun: Function,
    body_fun: Function,
    init_val: Any,
    refs: Sequence[references.Ref],
) -> Any:
    """A loop that writes references, whose values go around with the carry."""
    test, body = (references.thread(f, refs) for f in (cond_fun, body_fun))
    return while_loop(
        lambda state: test(state[1], state[0])[0],
        lambda state: body(state[1], state[0]),
        (init_val, references.read_all(refs)),
    )


_LEAF = tree.structure(0)


def _predicate(traced: TracedBody, fun: Function) -> Node:
    outputs = traced.draft.outputs
    one = traced.treedef == _LEAF
    if not one or outputs[0].shape != () or outputs[0].dtype != dtypes.bool_:
        got = ", ".join(repr(n.aval) for n in outputs) or "nothing"
        if outputs and not one:
            got = f"the tree {tree.readable(traced.treedef)} of {got}"
        raise errors.DtypeError(
            f"while_loop: {name_of(fun)} must return a scalar bool, got {got}; "
            "compare, or reduce with .all() or .any()",
            outputs[0].origin if outputs else None,
        )
    return outputs[0]


def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body_fun: Function,
    init_val: Any,
    *,
    unroll: Any = None,
) -> Any:
    """`for i in range(lower, upper): val = body_fun(i, val)`.

    Args:
      lower, upper: integers; known ones, or traced. Floats may be both: known ones
        count as integers do, without what stands behind the point.
      body_fun: (i, carry) -> carry.
      init_val: the first carry: a pytree of arrays.
      unroll: accepted for JAX's sake, where the bounds are known.

    Returns:
      The last carry; `init_val` where upper <= lower.

    Raises:
      DtypeError: the bounds are of other kinds. Others as of `scan`.
      ArgumentError: a bound is infinite, or NaN; `unroll` beside a traced one.

    Example:
      >>> lax.fori_loop(0, 5, lambda i, total: total + i, 0)
      Array(10, dtype=int32, weak_type=True)
      >>> lax.fori_loop(1, 4, lambda i, x: x.at[i].set(2 * x[i - 1]), fnp.ones(4))
      Array([1., 2., 4., 8.], dtype=float32)
    """
    tree.check_callable(body_fun, "fori_loop")
    bounds = [_scalar("fori_loop: a bound", x) for x in (lower, upper)]
    kinds = {dtypes.kind(a.dtype) for a in bounds}
    if not kinds <= {"i", "u"} and kinds not in ({"f"}, {"b"}):
        raise errors.DtypeError(
            "fori_loop: the bounds must be integers, or both floats, got "
            f"{bounds[0]!r} and {bounds[1]!r}"
        )
    if isinstance(lower, Tracer) or isinstance(upper, Tracer):
        if unroll not in (None, False, 1):
            raise errors.ArgumentError(
                f"fori_loop: unroll={unroll} takes known bounds, got {lower!r} and "
                f"{upper!r}"
            )

        def cond_fun(carry: Any) -> Any:
            return carry[0] < carry[1]

        def body(carry: Any) -> Any:
            i, last, value = carry
            return i + 1, last, body_fun(i, value)

        counter, first, last = _counter(bounds), as_value(lower), as_value(upper)
        if not counter.weak_type:
            first, last = (x.astype(counter.dtype) for x in (first, last))
        return while_loop(cond_fun, body, (first, last, init_val))[2]
    start, stop = _int(lower), _int(upper)
    counter = _counter([aval_of(start), aval_of(stop)])
    if _in_python(init_val):
        for i in range(start, stop):
            count = cast(i, counter.dtype, counter.weak_type)
            init_val = body_fun(count, init_val)
        return init_val

    def step(carry: Any, i: Value) -> Any:
        return body_fun(i, carry), None

    count = max(stop - start, 0)
    step.__name__ = name_of(body_fun)
    return _scan("fori_loop", step, init_val, None, count, False, (start, counter))[0]


def _counter(bounds: Sequence[ShapedArray]) -> ShapedArray:
    """Of known bounds it counts as Python's numbers do, whatever their dtypes are."""
    return ShapedArray.of(
        (), *dtypes.promote(*[(a.dtype, a.weak_type) for a in bounds])
    )


def _int(value: Any) -> Any:
    if is_dynamic(value):
        return value
    try:
        return int(value if isinstance(value, int) else np.asarray(value).item())
    except (OverflowError, ValueError):
        raise errors.ArgumentError(
            f"fori_loop: a bound must be finite, got {value}"
        ) from None


def scan(
    f: Callable[[C, Any], tuple[C, Y]],
    init: C,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[C, Y]:
    """`f` for each element along the leading axis of `xs`, with a carry.

    Args:
      f: (carry, x) -> (carry, y).
      init: the first carry: a pytree of arrays.
      xs: a pytree of arrays with a common leading axis; None for none.
      length: of that axis; required without `xs`.
      reverse: from the last element to the first; ys are in the order of xs.
      unroll: accepted for JAX's sake: an iteration costs nanoseconds anyway.
      _split_transpose: accepted, without effect.

    Returns:
      (last carry, ys), where ys has the y of each element along a leading axis.

    Raises:
      ArgumentError: `xs` and `length` do not tell one length.
      TreeError, ShapeError, DtypeError: the carry changes its structure or type.

    Example:
      >>> def step(total, x):
      ...     total = total + x
      ...     return total, total * total
      >>> lax.scan(step, 0.0, fnp.array([1.0, 2.0, 3.0]))
      (Array(6., dtype=float32), Array([ 1.,  9., 36.], dtype=float32))
      >>> lax.scan(lambda pair, _: ((pair[1], sum(pair)), pair[0]), (0, 1), length=8)[1]
      Array([ 0,  1,  1,  2,  3,  5,  8, 13], dtype=int32, weak_type=True)
    """
    tree.check_callable(f, "scan")
    if unroll < 0:
        raise errors.ArgumentError(f"scan: unroll must not be negative, got {unroll}")
    leaves, treedef = tree.flatten((xs,))
    places = [i for i, x in enumerate(leaves) if type(x) is references.Ref]
    if not places:
        return _scan("scan", f, init, xs, _length(xs, length), bool(reverse), None)

    # Each iteration has a reference to its element of those that are run over.
    def step(carry: Any, x: Any) -> Any:
        (carry, y), last = references.with_parameters(
            partial(f, carry), places, treedef
        )(*x)
        return carry, (y, last)

    def run(values: Sequence[Any], others: Sequence[Any]) -> Any:
        carry, (ys, last) = scan(step, init, (values, others), length, reverse)
        return (carry, ys), last

    others = [x for x in leaves if type(x) is not references.Ref]
    return references.lend([leaves[i] for i in places], run, others)


def _length(xs: Any, length: int | None) -> int:
    values, _ = flatten_values(xs, "scan: xs")
    sizes: dict[int, ShapedArray | None] = {}
    for value in values:
        aval = aval_of(value)
        if aval.ndim == 0:
            raise errors.AxisError(
                f"scan runs over the leading axis of xs, got the scalar {aval!r}"
            )
        sizes.setdefault(aval.shape[0], aval)
    if length is not None:
        sizes.setdefault(static_int(length, "scan: length"), None)
    if len(sizes) != 1:
        listed = ", ".join(
            f"{n} (length)" if a is None else f"{n} of {a!r}" for n, a in sizes.items()
        )
        raise errors.ArgumentError(
            f"scan: xs and length must agree in one length, got {listed or 'none'}"
        )
    (count,) = sizes
    if count < 0:
        raise errors.ArgumentError(
            f"scan: the length must not be negative, got {count}"
        )
    return count


def _scan(
    what: str,
    f: Function,
    init: Any,
    xs: Any,
    length: int,
    reverse: bool,
    counter: tuple[int, ShapedArray] | None,
) -> Any:
    """A scan over `xs`, or over a counter: its first value and type."""
    if length and counter is None and _in_python(init, xs):
        return _scan_in_python(f, init, xs, length, reverse)
    values, _ = flatten_values(init, f"{what}: the initial carry ")
    wanted = tree.structure(init)
    names = bodies.leaf_names("carry", init)
    elements, _ = flatten_values(xs, f"{what}: xs")
    of_elements = [aval_of(x) for x in elements]
    of_elements = [a.with_shape(a.shape[1:]) for a in of_elements]
    example: Any = xs
    if counter is not None:
        of_elements = [counter[1]]
        example = 0
    treedef = tree.structure((init, example))
    meant = [*values, *(elements if counter is None else [0])]

    def body_of(avals: Sequence[ShapedArray]) -> TracedBody:
        types = [*avals, *of_elements]
        body = bodies.trace_function(what, f, treedef, types, meant=meant)
        _check_pair(what, f, wanted, body)
        return body

    begin = [aval_of(x) for x in values]
    try:
        (body,), first, avals = _settle(what, begin, names, body_of)
    except references.Written as written:
        rest = xs, length, reverse, counter
        again = partial(_scan_with_refs, what, f, init, rest)
        return written.answer(what, again)
    draft = body.draft
    carried = bodies.vary_carry(values, body, meant)
    if carried is not None:
        init = tree.unflatten(wanted, carried)
        return _scan(what, f, init, xs, length, reverse, counter)
    arg = _close_scan(body, avals, avals != first, length, reverse)
    free, end = len(draft.free), len(draft.free) + len(avals)

    def operands(nodes: Sequence[Node]) -> list[Node]:
        consts, carry, rest = nodes[:free], nodes[free:end], list(nodes[end:])
        if counter is not None:
            start, dtype = counter[0], counter[1].dtype
            rest = [add(iota(dtype, (length,), 0), const(start, dtype, (length,)))]
        return [*consts, *bodies.match_all(carry, avals), *rest]

    results = bodies.apply_compound(
        what, scan_p, arg, [*draft.values, *_as_first(values, avals), *elements],
        operands, free if draft.effects else -1,
    )  # fmt: skip
    return tree.unflatten(body.treedef, _as_last(results, first, body, values))


def _close_scan(
    body: TracedBody, avals: list[ShapedArray], wide: bool, length: int, reverse: bool
) -> Scan:
    """The body with inputs for all that it uses.

    Args:
      wide: the carry has all bits of weak scalars, and what is put out is rounded.
    """
    draft, count = body.draft, len(avals)
    outputs = [*bodies.last_carry(draft.outputs[:count], avals), *draft.outputs[count:]]
    if wide:
        outputs[count:] = [_round_weak(n) for n in outputs[count:]]
    inputs = [*draft.free, *draft.effects[:1], *draft.arguments]
    closed = close(inputs, [*draft.effects[1:], *outputs])
    effects = bool(draft.effects)
    return Scan(closed, length, reverse, len(draft.free), count + effects)


def _scan_in_python(f: Function, init: Any, xs: Any, length: int, reverse: bool) -> Any:
    carry, ys = init, [None] * length
    for i in reversed(range(length)) if reverse else range(length):
        carry, ys[i] = f(carry, tree.map(lambda x, i=i: as_value(x)[i], xs))
    return carry, tree.map(_stack, *ys)


def _scan_with_refs(
    what: str, f: Function, init: Any, rest: Any, refs: Sequence[references.Ref]
) -> Any:
    """A scan that writes references, whose values go around with the carry."""
    body = references.thread(f, refs)

    def step(state: Any, x: Any) -> Any:
        (carry, y), last = body(state[1], state[0], x)
        return (carry, last), y

    (carry, last), ys = _scan(what, step, (init, references.read_all(refs)), *rest)
    return (carry, ys), last


def _stack(*values: Value) -> Any:
    return stack(values)


def _check_pair(what: str, f: Function, wanted: tree.TreeDef, body: TracedBody) -> None:
    """Raises where a body did not return (carry, y) with a carry like the first."""
    children = body.treedef.children()
    if body.treedef.type not in (tuple, list) or len(children) != 2:
        raise errors.TreeError(
            f"{what}: {name_of(f)} must return a pair (carry, y), got the structure "
            f"{tree.readable(body.treedef)}; return (carry, None) if there is no y"
        )
    bodies.check_structure(what, wanted, children[0])


def map(f: Function, xs: Any, *, batch_size: int | None = None) -> Any:
    """`f` for each element along the leading axis, one after the other.

    Args:
      f: a function of one element.
      xs: a pytree of arrays with a common leading axis.
      batch_size: so many elements at a time, by vmap; 0 means all of them.

    Returns:
      The results along a leading axis.

    Raises:
      ArgumentError: the leaves have no common leading axis.

    Example:
      >>> lax.map(lambda row: fnp.sort(row)[0], fnp.array([[3, 1, 2], [6, 5, 4]]))
      Array([1, 4], dtype=int32)
    """
    tree.check_callable(f, "map")

    def step(carry: Any, x: Any) -> Any:
        return carry, f(x)

    step.__name__ = name_of(f)
    if batch_size is None:
        return scan(step, (), xs)[1]
    count = _length(xs, None)
    size = static_int(batch_size, "map: batch_size", 0) or count or 1
    whole = count - count % size

    def batches(x: Any) -> Any:
        x = as_value(x)
        return x[:whole].reshape(whole // size, size, *x.shape[1:])

    wide = vmap(f)
    parts: list[Any] = []
    if whole:
        found = map(wide, tree.map(batches, xs))
        parts.append(tree.map(lambda y: y.reshape(whole, *y.shape[2:]), found))
    if count % size or not whole:
        parts.append(wide(tree.map(lambda x: as_value(x)[whole:], xs)))
    if len(parts) == 1:
        return parts[0]
    return tree.map(lambda a, b: concatenate([a, b]), *parts)

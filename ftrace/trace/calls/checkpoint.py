"""checkpoint: a function whose derivative computes it again.

    checkpoint_p(*operands, arg=Checkpoint) -> *results

Its tangents are another such call, of the operands, of the values that the policy
keeps, and of the tangents: linear in these. What lies between is not remembered. The
transpose of that call computes it again behind a barrier: not before the cotangents
exist, and never merged with the first time.

A policy is asked about each value that the derivative needs and that is no argument: to
keep it, or to compute it again from what it is made of. Users may give any function

    policy(primitive, *avals, **params) -> bool

that is told the primitive (`primitive.name`), the types of its operands, and what else
it has: `arg`; of a name the `name`; of a contraction, which is called `dot_general`,
the `dimension_numbers`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, overload

from ftrace.errors import ArgumentError, NestingError, StaticArgumentError
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.trace import autodiff, body as bodies, flatten_arguments as flat
from ftrace.trace.avals import TOKEN, Shape, Stack
from ftrace.trace.bind import bind
from ftrace.trace.calls.rule_graphs import Call, bind_call, call_compound, trace_call
from ftrace.trace.flatten_arguments import P, R
from ftrace.trace.graph import Body, Flags, Node, Nodes, nodes_of, substitute
from ftrace.trace.primitives import elementwise as p, primitive as prim
from ftrace.trace.primitives.sources import const_p, variable
from ftrace.trace.pytree import tree
from ftrace.trace.references import Ref, Written
from ftrace.trace.symbolic import same_size
from ftrace.trace.tracing.scopes import asarray, round_result, with_all_bits
from ftrace.trace.tracing.trace import trace
from ftrace.trace.tracing.tracer import Value, aval_of
from ftrace.trace.tracing.weak_constants import COUNTING

# Names.


name_p = p.identity(
    "name", jvp=lambda node, tangents: tangents[0],
    doc="the same value, with a name for policies of checkpoint",
)  # fmt: skip


# Policies.

#: (primitive, *avals, **params) -> is the value saved?
Policy = Callable[..., Any]


@dataclass(frozen=True)
class Asked:
    """A policy of ours: equal ones ask the same.

    Attributes:
      function: (*given, primitive, params) -> is the value kept?
    """

    function: Callable[..., bool]
    given: tuple[Any, ...]

    def __call__(self, primitive: Any, *avals: Any, **params: Any) -> bool:
        return self.function(*self.given, primitive, avals, params)

    def __repr__(self) -> str:
        return f"{self.function.__name__.strip('_')}{self.given}"


def _constantly(answer: bool, primitive: Any, avals: Any, params: Any) -> bool:
    return answer


def _dots(batched: bool, primitive: Any, avals: Any, params: Any) -> bool:
    """The results of contractions, and of those that have batch axes if so said."""
    if primitive.name != DOT_GENERAL.name:
        return False
    _, (batch, _) = params["dimension_numbers"]
    return batched or not batch


def _names(
    names: Any, named: bool, unnamed: bool, primitive: Any, avals: Any, params: Any
) -> bool:
    """By the names of `checkpoint_name`: are these saved, others, or the nameless?"""
    if primitive.name != name_p.name:
        return unnamed
    return (params["name"] in names) == named


def _either(
    first: Policy, second: Policy, primitive: Any, avals: Any, params: Any
) -> bool:
    return any(bool(p(primitive, *avals, **params)) for p in (first, second))


def _by_names(names: Sequence[str], named: bool, unnamed: bool = False) -> Policy:
    for name in names:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentError(f"a policy by names takes strings, got {name!r:.60}")
    return Asked(_names, (frozenset(names), named, unnamed))


def policy_of(policy: Any) -> Policy:
    """The policy that a user gave: None keeps nothing.

    Raises:
      ArgumentError: it is no function.
    """
    if policy is None:
        return nothing_saveable
    if not callable(policy):
        raise ArgumentError(
            "checkpoint: policy must be one of ftrace.checkpoint_policies or a "
            f"function of (primitive, *avals, **params), got {policy!r:.60}"
        )
    return policy


everything_saveable, nothing_saveable = (
    Asked(_constantly, (answer,)) for answer in (True, False)
)
dots_saveable, dots_with_no_batch_dims_saveable = (
    Asked(_dots, (batched,)) for batched in (True, False)
)


def save_only_these_names(*names_which_can_be_saved: str) -> Policy:
    """Keeps the values that have one of these names."""
    return _by_names(names_which_can_be_saved, named=True)


def save_any_names_but_these(*names_not_to_save: str) -> Policy:
    """Keeps the values that have a name, other than these."""
    return _by_names(names_not_to_save, named=False)


def save_anything_except_these_names(*names_not_to_save: str) -> Policy:
    """Keeps all values but those with one of these names."""
    return _by_names(names_not_to_save, named=False, unnamed=True)


def save_from_both_policies(policy_1: Policy, policy_2: Policy) -> Policy:
    """Keeps what one of the policies keeps."""
    return Asked(_either, (policy_of(policy_1), policy_of(policy_2)))


def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Policy:
    """Keeps contractions without batch axes, where they are.

    There is one memory: nothing is moved from `offload_src` to `offload_dst`.
    """
    return dots_with_no_batch_dims_saveable


def save_and_offload_only_these_names(
    *,
    names_which_can_be_saved: Sequence[str],
    names_which_can_be_offloaded: Sequence[str],
    offload_src: str,
    offload_dst: str,
) -> Policy:
    """Keeps the values that have one of all these names, where they are.

    There is one memory: nothing is moved from `offload_src` to `offload_dst`.
    """
    both = (*names_which_can_be_saved, *names_which_can_be_offloaded)
    return _by_names(both, named=True)


#: JAX's names of the policies.
checkpoint_policies = SimpleNamespace(
    everything_saveable=everything_saveable,
    nothing_saveable=nothing_saveable,
    dots_saveable=dots_saveable,
    checkpoint_dots=dots_saveable,
    dots_with_no_batch_dims_saveable=dots_with_no_batch_dims_saveable,
    checkpoint_dots_with_no_batch_dims=dots_with_no_batch_dims_saveable,
    offload_dot_with_no_batch_dims=offload_dot_with_no_batch_dims,
    save_anything_except_these_names=save_anything_except_these_names,
    save_any_names_but_these=save_any_names_but_these,
    save_only_these_names=save_only_these_names,
    save_from_both_policies=save_from_both_policies,
    save_and_offload_only_these_names=save_and_offload_only_these_names,
)


@dataclass(frozen=True)
class Pseudo:
    """What a policy sees of an operation that is several nodes."""

    name: str

    def __str__(self) -> str:
        return self.name


DOT_GENERAL = Pseudo("dot_general")


def keeps(policy: Policy, node: Node) -> bool:
    """Asks a policy about a value that is an array of its own."""
    product = _dot_general(node)
    if product is not None:
        factors = [x.aval for x in product.operands]
        numbers = product.contracting, product.batch
        return bool(policy(DOT_GENERAL, *factors, dimension_numbers=numbers))
    bundle = node.src[0] if node.op is prim.item_p else node
    avals = [s.aval for s in bundle.src]
    if node.op is name_p:
        return bool(policy(name_p, *avals, name=node.arg))
    return bool(policy(bundle.op, *avals, arg=bundle.arg))


def _dot_general(node: Node) -> DotGeneral | None:
    """The product that a value is, also where the sum or its terms are cast."""
    if node.op is p.cast_p:
        node = node.src[0]
    product = p.product_of_contraction(node)
    return None if product is None else dot_general_of(product, node.arg)


def saved_nodes(residuals: list[Node], inputs: set[Node], policy: Policy) -> list[Node]:
    """What is saved, so that the residuals can be computed from it and the inputs."""
    saved: dict[Node, None] = {}
    seen = set(inputs)
    pending = list(reversed(residuals))
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if _must_keep(node) or (_can_keep(node) and keeps(policy, node)):
            saved[node] = None
        else:
            pending.extend(reversed(node.src))
    return list(saved)


def _can_keep(node: Node) -> bool:
    """An array of its own: no view, no constant, no stack, no part of a compound."""
    if node.op.family in ("movement", "source") or isinstance(node.aval, Stack):
        return False
    return len(node.aval.items) == 1 and (
        node.op is prim.item_p or isinstance(node.op, prim.Primitive)
    )


def _must_keep(node: Node) -> bool:
    """Is it the result of an effect, which happens once?"""
    return node.op is prim.item_p and any(a is TOKEN for a in node.src[0].aval.items)


# The call.


@dataclass(frozen=True)
class Checkpoint(Call):
    """The argument.

    Attributes:
      policy: what its derivative keeps.
      barrier: keep what is computed again apart from the first time; False: in the
        bodies of loops only.
      again: there is something that is computed again.
    """

    policy: Policy
    barrier: bool
    again: bool = True

    def __str__(self) -> str:
        return getattr(self.policy, "__name__", repr(self.policy))


def _jvp(node: Node, tangents: prim.Results) -> prim.Results:
    arg: Checkpoint = node.arg
    inputs = arg.body.inputs
    found = bodies.linearize(arg.body, tuple(t is not None for t in tangents))
    names, outputs = found.names, found.moved
    if not outputs:
        return [None] * len(found.outputs)
    saved = saved_nodes(autodiff.split_known(outputs, names), set(inputs), arg.policy)
    mapping = {n: variable(n.aval, "saved", i) for i, n in enumerate(saved)}
    outputs = substitute(outputs, mapping)
    used = nodes_of(outputs)
    needed = [i for i, name in enumerate(inputs) if name in used]
    body = bodies.close(
        [*(inputs[i] for i in needed), *mapping.values(), *names], outputs
    )
    operands = [
        *(node.src[i] for i in needed),
        *bodies.apply_body(Body(inputs, tuple(saved)), node.src),
        *bodies.select(tangents, found.moving),
    ]
    again = arg.policy != everything_saveable
    linear = replace(arg, body=body, effects=False, again=again)
    results = checkpoint_p.results(*operands, arg=linear)
    return bodies.spread_results(len(found.outputs), found.wanted, results)


def _transpose(node: Node, cotangents: prim.Results, linear: Flags) -> prim.Results:
    arg: Checkpoint = node.arg
    inputs = arg.body.inputs
    outputs = bodies.select(arg.body.outputs, [ct is not None for ct in cotangents])
    given = [variable(n.aval.strong(), "cotangent", i) for i, n in enumerate(outputs)]
    wanted = [i for i, flag in enumerate(linear) if flag]
    constant = [i for i, flag in enumerate(linear) if not flag]
    found = autodiff.transpose_nodes(outputs, [inputs[i] for i in wanted], given)
    parts = {
        i: p.cast(ct, inputs[i].dtype)
        for i, ct in zip(wanted, found, strict=True)
        if ct is not None
    }
    used = nodes_of(parts.values())
    constant = [i for i in constant if inputs[i] in used]
    body = bodies.close([*(inputs[i] for i in constant), *given], list(parts.values()))
    operands = [
        *(node.src[i] for i in constant),
        *(ct for ct in cotangents if ct is not None),
    ]
    barred = arg.again and bool(constant)
    where = None if arg.barrier else prim.IN_LOOPS
    if barred:
        operands = _behind_barrier(operands, where)
    results = checkpoint_p.results(*operands, arg=replace(arg, body=body))
    if barred:  # what was computed again is done with before others begin
        results = prim.barrier(results, where)
    return bodies.spread_results(len(node.src), parts, results)


def _behind_barrier(operands: list[Node], where: prim.Where) -> list[Node]:
    """The operands behind a barrier; constants take no memory and stay."""
    behind = iter(prim.barrier([n for n in operands if n.op is not const_p], where))
    return [n if n.op is const_p else next(behind) for n in operands]


def _batch(node: Node, src: Nodes, batched: Flags, size: int) -> prim.Batched:
    arg: Checkpoint = node.arg
    body, has = bodies.batch_body(arg.body, batched, size)
    return checkpoint_p.results(*src, arg=replace(arg, body=body)), has


checkpoint_p = call_compound(
    "checkpoint", "a function whose derivative computes it again", _batch,
    jvp=_jvp, transpose=_transpose,
)  # fmt: skip


# The function.


@overload
def checkpoint(
    fun: Callable[P, R], *, prevent_cse: bool | Sequence[bool] = True,
    policy: Policy | None = None, static_argnums: int | tuple[int, ...] = (),
    static_argnames: str | Iterable[str] = (), concrete: Any = None,
) -> Callable[P, R]: ...  # fmt: skip
@overload
def checkpoint(
    fun: None = None,
    *,
    prevent_cse: bool | Sequence[bool] = True,
    policy: Policy | None = None,
    static_argnums: int | tuple[int, ...] = (),
    static_argnames: str | Iterable[str] = (),
    concrete: Any = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def checkpoint(
    fun: Callable[..., Any] | None = None,
    *,
    prevent_cse: bool | Sequence[bool] = True,
    policy: Policy | None = None,
    static_argnums: int | tuple[int, ...] = (),
    static_argnames: str | Iterable[str] = (),
    concrete: Any = None,
) -> Callable[..., Any]:
    """`fun`, whose derivative computes again what lies between arguments and results.

    Args:
      fun: a function of arrays.
      prevent_cse: keep the second computation apart from the first. Without it equal
        parts are computed once and saved; that is right inside of `scan`, where the two
        are in different loops anyway, and saves a little there.
      policy: which values are saved all the same: one of `checkpoint_policies`, or a
        function (primitive, *avals, **params) -> bool. None keeps none.
      static_argnums, static_argnames: arguments that are Python values.
      concrete: accepted; where an argument has a value, Python may ask for it.

    Returns:
      The function, of the same value. Its derivative keeps the arguments (and what
      `policy` says) instead of everything between, and takes about as much longer as
      `fun` takes.

    Raises:
      ArgumentError: `policy` is no function.
      StaticArgumentError: there is no such argument.

    Example:
      >>> @ft.checkpoint
      ... def block(x):
      ...     return fnp.sin(fnp.sin(x))
      >>> ft.grad(block)(0.0)
      Array(1., dtype=float32, weak_type=True)
      >>> dots = ft.checkpoint(lambda x, w: fnp.tanh(x @ w),
      ...                      policy=ft.checkpoint_policies.dots_saveable)
    """
    again = partial(
        checkpoint, prevent_cse=prevent_cse, policy=policy,
        static_argnums=static_argnums, static_argnames=static_argnames,
    )  # fmt: skip
    if fun is None:
        return again
    tree.check_callable(fun, "checkpoint")
    chosen = policy_of(policy)
    numbers = flat.read_argnums("checkpoint", "static_argnums", static_argnums)
    barrier = prevent_cse if isinstance(prevent_cse, bool) else any(prevent_cse)
    one = isinstance(static_argnames, str)
    names = {static_argnames} if one else {*static_argnames}

    @flat.wraps(fun, "checkpoint")
    def apply(*args: Any, **kwargs: Any) -> Any:
        fixed = _fixed_positions(numbers, args, flat.name_of(fun))
        dynamic = [x for i, x in enumerate(args) if i not in fixed]
        static = {k: v for k, v in kwargs.items() if k in names}
        named = {k: v for k, v in kwargs.items() if k not in names}
        what = f"checkpoint: the argument of {flat.name_of(fun)} "
        values, treedef = flat.flatten_values((dynamic, named), what)

        def call(*inner: Any, **others: Any) -> Any:
            rest = iter(inner)
            full = [x if i in fixed else next(rest) for i, x in enumerate(args)]
            return fun(*full, **others, **static)

        call.__name__ = flat.name_of(fun)
        output = flat.Output.of_leaves(call, treedef, "checkpoint", keywords=True)
        try:
            found = trace_call("checkpoint", output, values, [])
        except Written as written:
            return written.differentiate(
                "checkpoint", lambda f: again(f)(*args, **kwargs), fun, False
            )[0]
        if found is None:
            return _run_now(call, values, treedef)
        arg = Checkpoint(found.body, found.effects, chosen, barrier)
        return output.build(bind_call(checkpoint_p, found, arg))

    return apply


def _run_now(
    call: Callable[..., Any], values: Sequence[Value], treedef: tree.TreeDef
) -> Any:
    """The result where nothing is traced: there is nothing to compute again."""
    counting = any(aval_of(x).dtype in COUNTING for x in values)
    wide = list(map(with_all_bits, values)) if counting else values
    inner, others = tree.unflatten(treedef, list(map(asarray, wide)))
    try:
        result = call(*inner, **others)
        widened = any(x is not y for x, y in zip(values, wide, strict=True))
        return tree.map(round_result, result) if widened else result
    except NestingError:
        raise
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> NestingError:
    return NestingError(
        "functions under checkpoint stand in each other deeper than Python can call "
        f"({sys.getrecursionlimit()}); does one call itself without end? Wrap the "
        "whole, or each part by itself"
    )


def _fixed_positions(
    numbers: Sequence[int], args: Sequence[Any], name: str
) -> set[int]:
    """Those of static arguments, and of references."""
    count = len(args)
    if not all(-count <= i < count for i in numbers):
        raise StaticArgumentError(
            f"checkpoint: static_argnums={numbers!r} does not fit the {count} "
            f"positional arguments that {name} was called with"
        )
    refs = [i for i, x in enumerate(args) if type(x) is Ref]
    return {*[i % count for i in numbers], *refs}


def checkpoint_name(x: Any, name: str) -> Any:
    """The arrays of a tree, with a name for the policies of `checkpoint`.

    Args:
      x: a pytree of arrays.
      name: the name.

    Raises:
      ArgumentError: the name is no string.

    Example:
      >>> from ftrace.ad_checkpoint import checkpoint_name
      >>> names = ft.checkpoint_policies.save_only_these_names("hidden")
      >>> f = ft.checkpoint(lambda x: fnp.cos(checkpoint_name(fnp.sin(x), "hidden")),
      ...                   policy=names)
      >>> ft.grad(f)(0.0)
      Array(0., dtype=float32, weak_type=True)
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentError(f"checkpoint_name: a string is required, got {name!r:.60}")
    return tree.map(lambda leaf: bind(name_p, leaf, arg=name), x)


class Residual(NamedTuple):
    """A value that the derivative of a function keeps.

    Attributes:
      aval: its type.
      what: the operation that makes it, and the user's line.
    """

    aval: Any
    what: str

    def __str__(self) -> str:
        return f"{self.aval!r} {self.what}"


def saved_residuals(
    fun: Callable[..., Any], *args: Any, **kwargs: Any
) -> list[Residual]:
    """What the derivative of `fun` keeps of the first computation.

    Args:
      fun: a function of arrays.
      args, kwargs: its arguments.
    """
    tree.check_callable(fun, "saved_residuals")
    values, treedef = flat.flatten_values(
        (args, kwargs), "saved_residuals: the argument "
    )
    output = flat.Output.of_leaves(fun, treedef, "saved_residuals", keywords=True)
    graph = trace("saved_residuals", output, [aval_of(x) for x in values], values)
    tangents = autodiff.tangents_of_leaves(graph.inputs[: len(values)])
    found = [t for t in autodiff.jvp_nodes(graph.outputs, tangents) if t is not None]
    names = flat.Parameters.of(fun).positional
    names = [*names, *["of *args"] * len(args)]
    parts = [*zip(names, args, strict=False), *sorted(kwargs.items())]
    places = [
        f"from the argument {name}{tree.keystr(path)}"
        for name, part in parts
        for path, _ in tree.leaves_with_path(part)
    ]
    given = dict(zip(graph.inputs, places, strict=False))

    def what(n: Node) -> str:
        if not n.src:
            return given.get(n, "from a constant")
        op = n.src[0].op if n.op.name == "item" else n.op
        made = f"named {n.arg!r}" if op is name_p else f"output of {op}"
        return f"{made} from {n.origin}"

    kept = autodiff.split_known(found, list(tangents.values()))
    return [Residual(n.aval, what(n)) for n in kept]


def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Prints what the derivative of `f` keeps of the first computation.

    Args:
      f: a function of arrays.
      args, kwargs: its arguments.
    """
    for residual in saved_residuals(f, *args, **kwargs):
        print(residual)  # noqa: T201


# Sums of products that are contractions: what `dot_general` says of its operands.
#
#     reduce_sum[axes](mul(view of x, view of y))  ->  dot_general(x, y)
#
# Along each axis of the product at least one operand varies; where both do, it is
# summed (contracted) or kept (a batch axis), where one does, it is kept.


Axes = tuple[int, ...]


class DotGeneral(NamedTuple):
    """A product of two arrays.

    Attributes:
      operands: the arrays.
      contracting, batch: of each operand the axes, in the same order.
      shape: of the product: batch axes, then those of each operand.
      order: the axes of the result in these.
    """

    operands: tuple[Node, Node]
    contracting: tuple[Axes, Axes]
    batch: tuple[Axes, Axes]
    shape: Shape
    order: Axes


def dot_general_of(product: Node, summed: Axes) -> DotGeneral | None:
    """What a sum of a product along these axes is; None if it is none."""
    left, right = map(_view_of, product.src)
    if left is None or right is None:
        return None
    (x, of_x), (y, of_y) = left, right
    both = [a for a in range(product.ndim) if a in of_x and a in of_y]
    if any(a not in both for a in summed) or not summed:
        return None
    kept = [a for a in range(product.ndim) if a not in summed]
    if any(a not in of_x and a not in of_y for a in kept):
        return None
    batch = [a for a in kept if a in both]
    own = [[a for a in kept if a in of and a not in both] for of in (of_x, of_y)]
    for of, operand, mine in ((of_x, x, own[0]), (of_y, y, own[1])):
        mine.sort(key=lambda a, of=of: of[a])
        if len(of) != operand.ndim:  # an axis of the operand is no axis of the product
            return None
    made = [*batch, *own[0], *own[1]]
    return DotGeneral(
        (x, y),
        (tuple(of_x[a] for a in summed), tuple(of_y[a] for a in summed)),
        (tuple(of_x[a] for a in batch), tuple(of_y[a] for a in batch)),
        tuple(product.shape[a] for a in made),
        tuple(made.index(a) for a in kept),
    )


def _view_of(node: Node) -> tuple[Node, dict[int, int]] | None:
    """What an operand is a view of, and which axes of it the axes of the view are."""
    axes: list[Any] = list(range(node.ndim))  # of the product's axes, those of `node`
    while True:
        if node.op.name == "expand":
            (x,) = node.src
            same = list(map(same_size, x.shape, node.shape))
            axes = [None if a is None or not same[a] else a for a in axes]
            node = x
        elif node.op.name == "reshape":
            (x,) = node.src
            places = _match_axes(x.shape, node.shape)
            if places is None:
                break
            axes = [None if a is None else places.get(a) for a in axes]
            node = x
        elif node.op.name == "permute" and any(a is None for a in axes):
            axes = [None if a is None else node.arg[a] for a in axes]
            (node,) = node.src
        else:
            break
    found = {i: a for i, a in enumerate(axes) if a is not None}
    return (node, found) if len({*found.values()}) == len(found) else None


def _match_axes(short: Shape, long: Shape) -> dict[int, int] | None:
    """Of a reshape that inserts axes of size 1: axis after -> axis before."""
    found: dict[int, int] = {}
    i = 0
    for k, size in enumerate(long):
        if i < len(short) and short[i] == size:
            found[k] = i
            i += 1
        elif size != 1:
            return None
    return found if i == len(short) else None

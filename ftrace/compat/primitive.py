"""Primitives with JAX's face, to which libraries give rules piece by piece.

    p = Primitive("name")
    p.def_impl(f); p.def_abstract_eval(g)
    jvps[p] = ...; transposes[p] = ...; batchers[p] = ...; lowerings[p] = ...

Bound to traced values such a primitive is one node of the graph; its rules are called
when a transform comes to that node. They are functions of arrays, as those of
`extend.primitive` are; what JAX's rules say beside (which tangents are `Zero`, which
results are batched) is remembered with their graphs.
"""

# What rows and rules take and return is Any, and so are the parameters of lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from ftrace import dtypes, errors
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.avals import ShapedArray
from ftrace.trace.body import apply_body, placed
from ftrace.trace.calls.custom_call import SymbolicZero, zeros_of
from ftrace.trace.calls.rule_graphs import Rule
from ftrace.trace.calls.user_primitive import UserArg, UserRecord
from ftrace.trace.effects import Same
from ftrace.trace.flatten_arguments import type_of
from ftrace.trace.graph import Body, Flags, Node, Nodes, substitute
from ftrace.trace.primitives.elementwise import cast
from ftrace.trace.primitives.movement import move_axis
from ftrace.trace.primitives.primitive import (
    COMPOUNDS,
    PRIMITIVES,
    Batched,
    Compound,
    Results,
    items,
)
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.scopes import asarray, outside_scopes, scope_of
from ftrace.trace.tracing.tracer import Tracer, Value, aval_of
from ftrace.transforms.custom.callbacks import pure_callback
from ftrace.transforms.jit.structs import ShapeDtypeStruct


class Zero:
    """A tangent or cotangent that is zero.

    Attributes:
      aval: its type.
    """

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    @staticmethod
    def from_primal_value(value: Any) -> Zero:
        """The tangent of a value that does not vary."""
        return Zero(type_of(value).to_tangent_aval())

    def instantiate(self) -> Any:
        """The zeros as an array."""
        return zeros_of(self.aval)

    def __repr__(self) -> str:
        return f"Zero({self.aval!r})"


@dataclass(frozen=True)
class UndefinedPrimal:
    """An operand in which an operation is linear, while its transpose is asked for."""

    aval: ShapedArray


def is_undefined_primal(value: Any) -> bool:
    """Is its cotangent asked for?"""
    return type(value) is UndefinedPrimal


def instantiate_zeros(value: Any) -> Any:
    """The value; of a `Zero` the zeros as an array."""
    symbolic = isinstance(value, (Zero, SymbolicZero))
    return value.instantiate() if symbolic else value


def add_tangents(x: Any, y: Any) -> Any:
    """The sum of two tangents, either of which may be a `Zero`."""
    if isinstance(x, Zero):
        return y
    return x if isinstance(y, Zero) else x + y


for _kind in (Zero, UndefinedPrimal):
    tree.register_pytree_node(
        _kind, lambda x: ((), x.aval), lambda aval, _, kind=_kind: kind(aval)
    )


Function = Callable[..., Any]
_SEVERAL: tuple[type[Any], ...] = (tuple, list)

#: The rules of libraries, by primitive: what `jax.interpreters` has registries of.
jvps: dict[Primitive, Function] = {}
transposes: dict[Primitive, Function] = {}
batchers: dict[Primitive, Function] = {}
axis_batchers: dict[Primitive, Function] = {}
fancy_batchers: dict[Primitive, Function] = {}
lowerings: dict[Primitive, Function] = {}


class Primitive:
    """An operation of a library, or one of JAX's that libraries name.

    Attributes:
      name: shown in jaxprs.
      multiple_results: `bind` returns a list.
    """

    multiple_results = False
    call_primitive = False
    map_primitive = False
    ref_primitive = False

    def __init__(self, name: str) -> None:
        self.name = name
        self._abstract: Function | None = None
        self._impl: Function | None = None
        self._compound: Compound | None = None

    def def_impl(self, impl: Function) -> Function:
        """Sets what the primitive computes of arrays; also under `jit`."""
        self._impl = impl
        return impl

    def def_abstract_eval(self, abstract_eval: Function) -> Function:
        """Sets the rule from the types of the operands to those of the results."""
        self._abstract = abstract_eval
        return abstract_eval

    def def_effectful_abstract_eval(self, abstract_eval: Function) -> Function:
        """`def_abstract_eval`, of a rule that returns effects beside the types."""
        self._abstract = lambda *avals, **params: abstract_eval(*avals, **params)[0]
        return abstract_eval

    def def_bind_with_trace(self, bind: Function) -> Function:
        raise errors.MissingRuleError(
            f"{self.name}: ftrace has no traces that a primitive could be bound with; "
            "define impl, abstract_eval and rules"
        )

    def impl(self, *args: Any, **params: Any) -> Any:
        """The results for arrays."""
        if self._impl is None:
            raise errors.MissingRuleError(
                f"Evaluation rule for {self.name!r} not implemented"
            )
        return self._impl(*args, **params)

    def abstract_eval(self, *avals: ShapedArray, **params: Any) -> Any:
        """(types of the results, effects), for types of the operands."""
        if self._abstract is None:
            raise errors.MissingRuleError(
                f"Abstract evaluation for {self.name!r} not implemented"
            )
        return self._abstract(*avals, **params), frozenset[Any]()

    def bind(self, *args: Value, **params: Any) -> Any:
        """The results: recorded where an operand is traced, else computed at once."""
        scope = scope_of([x for x in args if isinstance(x, Tracer)])
        if scope is None:
            return self.impl(*args, **params)
        arg = UserArg(_record(self), _frozen(params))
        nodes = self.compound.results(*[scope.lift(x) for x in args], arg=arg)
        results = [Tracer(node, scope) for node in nodes]
        return results if self.multiple_results else results[0]

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """The parameters of an equation as `bind` takes them."""
        return dict(params)

    @property
    def compound(self) -> Compound:
        """The record of the graph for it."""
        if self._compound is None:
            name, number = self.name, 1
            while name in PRIMITIVES or name in COMPOUNDS:
                number += 1
                name = f"{self.name}_{number}"
            self._compound = Compound(
                name, "call", _infer, _value, _batch, jvp=_jvp, transpose=_transpose,
                show=str, doc=f"a primitive of a library: {self.name}",
            )  # fmt: skip
        return self._compound

    def __repr__(self) -> str:
        return self.name


class CallPrimitive(Primitive):
    """A primitive that calls a function, whose equations stand in its place."""

    multiple_results = True
    call_primitive = True

    def bind(self, *args: Any, subfuns: Sequence[Any] = (), **params: Any) -> Any:
        fun, *operands = (*subfuns, *args)
        return fun.call_wrapped(*operands)


# Parameters. They are part of the identity of a node; what cannot be hashed equals
# itself alone.


def _frozen(params: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, _hashable(value)) for name, value in sorted(params.items()))


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return Same.of(value)
    return value


def params_of(arg: UserArg) -> dict[str, Any]:
    """The parameters that a primitive was bound with."""
    return {
        name: value.value if isinstance(value, Same) else value
        for name, value in arg.params
    }


@dataclass(frozen=True)
class _Rules(UserRecord):
    """What a graph knows of a library's primitive.

    Attributes:
      asked: graphs of rules, and what these have said beside, by what was asked.
    """

    primitive: Any = None
    asked: Any = field(compare=False, default=None)


_records: dict[Primitive, _Rules] = {}


def _record(primitive: Primitive) -> _Rules:
    found = _records.get(primitive)
    if found is None:
        found = _records[primitive] = _Rules(
            primitive.name, _no_rule, _no_rule, lower=_lowered(primitive),
            primitive=primitive, asked={},
        )  # fmt: skip
    return found


def _no_rule(*_: Any, **__: Any) -> Any:
    raise errors.MissingRuleError("a primitive of a library has its own rules")


def primitive_of(arg: Any) -> Primitive | None:
    """The primitive of a node with this argument; None if it is no library's."""
    record = arg.record if isinstance(arg, UserArg) else None
    return record.primitive if isinstance(record, _Rules) else None


def _ask(
    arg: UserArg, what: str, rule: Function, nodes: Sequence[Node], *details: Any
) -> tuple[Body, Any]:
    """The graph of a rule for operands of these types, and its note.

    Args:
      rule: (tracers, params, *details) -> (flat results, note)
    """
    record: Any = arg.record
    avals = tuple([n.aval for n in nodes])
    key = what, arg.params, avals, details
    if key not in record.asked:
        note: list[Any] = []

        def flat(*given: Any) -> Sequence[Value]:
            *asked, tracers = given
            results, said = rule(tracers, params_of(arg), *asked)
            note.append(said)
            return results

        body = Rule(record.name, key, flat, ()).trace(what, avals, *details)
        record.asked[key] = body, note[0]
    return record.asked[key]


def _listed(primitive: Primitive, results: Any) -> list[Any]:
    return list(results) if primitive.multiple_results else [results]


def _types(primitive: Primitive, avals: Sequence[ShapedArray], params: Any) -> Any:
    found, _ = primitive.abstract_eval(*avals, **params)
    return [type_of(t) for t in _listed(primitive, found)]


def _infer(arg: UserArg, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
    primitive = primitive_of(arg)
    assert primitive is not None
    return tuple(_types(primitive, avals, params_of(arg)))


def _value(avals: Any, arg: UserArg, *arrays: Any) -> list[Any]:
    primitive = primitive_of(arg)
    assert primitive is not None
    with outside_scopes():
        found = primitive.impl(*map(asarray, arrays), **params_of(arg))
    return [np.asarray(x) for x in _listed(primitive, found)]


def _lowered(primitive: Primitive) -> Function:
    """What runs on devices: the lowering, or what the primitive computes of arrays."""

    def lower(tracers: Sequence[Value], params: Any) -> list[Value]:
        given = {k: v.value if isinstance(v, Same) else v for k, v in params.items()}
        rule = lowerings.get(primitive, primitive.impl)
        types = _types(primitive, [aval_of(x) for x in tracers], given)
        try:
            found = _listed(primitive, rule(*tracers, **given))
        except (errors.TracerArrayConversionError, errors.ConcretizationTypeError):
            structs = [ShapeDtypeStruct(a.shape, a.dtype) for a in types]

            def on_host(*arrays: Any) -> list[Any]:
                return [*map(np.asarray, _listed(primitive, rule(*arrays, **given)))]

            found = pure_callback(on_host, structs, *tracers)
        return [_settled(x, a) for x, a in zip(found, types, strict=True)]

    return lower


def _settled(value: Value, aval: ShapedArray) -> Value:
    if not isinstance(value, Tracer) or value.aval is aval:
        return value
    return Tracer(cast(value.node, aval.dtype, aval.weak_type), value.scope)


# Derivatives.


def _tangent_zero(aval: ShapedArray) -> Zero:
    return Zero(aval.to_tangent_aval())


def _jvp(node: Node, tangents: Results) -> Results:
    arg: UserArg = node.arg
    primitive = primitive_of(arg)
    rule = jvps.get(primitive)  # type: ignore[arg-type]
    if primitive is None or rule is None:
        raise errors.MissingRuleError(
            f"Differentiation rule for {node.op.name!r} not implemented"
        )
    results = items(node)
    count = len(node.src)

    def flat(tracers: Sequence[Value], params: Any, mask: Flags) -> Any:
        primals, given = list(tracers[:count]), iter(tracers[count:])
        moving = [
            next(given) if has else _tangent_zero(aval_of(x))
            for x, has in zip(primals, mask, strict=True)
        ]
        found, moved = rule(tuple(primals), tuple(moving), **params)
        found, moved = _listed(primitive, found), _listed(primitive, moved)
        known = [_is_array(t) for t in moved]
        return [*found, *[t for t in moved if _is_array(t)]], known

    mask = tuple(t is not None for t in tangents)
    operands = [*node.src, *[t for t in tangents if t is not None]]
    body, known = _ask(arg, "jvp", flat, operands, mask)
    # The rule computes the results once more: they are those of the node.
    own = dict(zip(body.inputs, operands, strict=True))
    again = zip(body.outputs, results, strict=False)
    same = {new: old for new, old in again if new not in own and new.aval is old.aval}
    found = substitute(body.outputs[len(results) :], {**same, **own})
    places = [k for k, has in enumerate(known) if has]
    moved = placed(len(results), places, found)
    return [
        cast(t, r.dtype) if t is not None and dtypes.is_inexact(r.dtype) else None
        for t, r in zip(moved, results, strict=True)
    ]


def _is_array(tangent: Any) -> bool:
    if tangent is None or isinstance(tangent, Zero):
        return False
    return getattr(tangent, "dtype", None) != dtypes.float0


def _transpose(node: Node, cotangents: Results, linear: Flags) -> Results:
    arg: UserArg = node.arg
    primitive = primitive_of(arg)
    rule = transposes.get(primitive)  # type: ignore[arg-type]
    if primitive is None or rule is None:
        raise errors.MissingRuleError(
            f"Transpose rule (for reverse-mode differentiation) for {node.op.name!r} "
            "not implemented"
        )
    results = items(node)
    types = [n.aval for n in node.src]

    def flat(tracers: Sequence[Value], params: Any, mask: Flags, flags: Flags) -> Any:
        given = iter(tracers)
        operands = [
            UndefinedPrimal(aval.strong()) if flag else next(given)
            for flag, aval in zip(flags, types, strict=True)
        ]
        cts = [
            next(given) if has else _tangent_zero(r.aval)
            for has, r in zip(mask, results, strict=True)
        ]
        ct = cts if primitive.multiple_results else cts[0]
        found = rule(ct, *operands, **params)
        found = [None] * len(types) if found is None else list(found)
        known = [_is_array(x) and flag for x, flag in zip(found, flags, strict=True)]
        return [x for x, has in zip(found, known, strict=True) if has], known

    mask = tuple(ct is not None for ct in cotangents)
    constant = [n for n, flag in zip(node.src, linear, strict=True) if not flag]
    operands = [*constant, *[ct for ct in cotangents if ct is not None]]
    body, known = _ask(arg, "transpose", flat, operands, mask, linear)
    found = apply_body(body, operands)
    places = [i for i, has in enumerate(known) if has]
    moved = placed(len(types), places, found)
    return [
        None if t is None else cast(t, n.dtype)
        for t, n in zip(moved, node.src, strict=True)
    ]


# Batching.


@dataclass(frozen=True)
class AxisData:
    """The axis that `vmap` adds, as rules in `fancy_primitive_batchers` see it."""

    name: Any
    size: int
    spmd_name: Any = None
    explicit_mesh_axis: Any = None


def _batch(node: Node, src: Nodes, batched: Flags, size: int) -> Batched:
    arg: UserArg = node.arg
    primitive = primitive_of(arg)
    assert primitive is not None
    rule = _batch_rule(primitive)

    def flat(tracers: Sequence[Value], params: Any, size: int, flags: Flags) -> Any:
        dims = tuple(0 if flag else None for flag in flags)
        found, axes = rule(size, tuple(tracers), dims, params)
        if not primitive.multiple_results:
            found, axes = [found], [axes]
        elif not isinstance(axes, _SEVERAL):
            axes = [axes] * len(found)
        return list(found), list(axes)

    body, axes = _ask(arg, "batch", flat, src, size, batched)
    results = apply_body(body, src)
    return (
        [move_axis(n, d, 0) if d else n for n, d in zip(results, axes, strict=True)],
        [d is not None for d in axes],
    )


def _batch_rule(primitive: Primitive) -> Function:
    """(size, operands, axes, params) -> (results, axes)."""
    fancy, axis = fancy_batchers.get(primitive), axis_batchers.get(primitive)
    plain = batchers.get(primitive)
    if fancy is not None:
        return lambda n, xs, ds, ps: fancy(AxisData(None, n), xs, ds, **ps)
    if axis is not None:
        return lambda n, xs, ds, ps: axis(n, None, None, xs, ds, **ps)
    if plain is not None:
        return lambda n, xs, ds, ps: plain(xs, ds, **ps)
    raise errors.MissingRuleError(
        f"Batching rule for {primitive.name!r} not implemented"
    )

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

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ftrace import dtypes, errors
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.fork_safe import cached_property
from ftrace.trace.avals import ShapedArray
from ftrace.trace.calls.custom_call import SymbolicZero, zeros_of
from ftrace.trace.calls.user_primitive import UserArg, UserRecord
from ftrace.trace.flatten_arguments import type_of
from ftrace.trace.graph import Flags
from ftrace.trace.primitives import elementwise as p, primitive as prim
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.scopes import asarray, outside_scopes, scope_of
from ftrace.trace.tracing.tracer import Function, Tracer, Value, aval_of
from ftrace.transforms.custom.callbacks import pure_callback
from ftrace.transforms.structs import ShapeDtypeStruct


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
        """The zeros as an array: integers, where the type is no tangent's."""
        aval = self.aval
        if dtypes.is_inexact(aval.dtype) or aval.dtype == dtypes.float0:
            return zeros_of(aval)
        return asarray(np.zeros(aval.shape, aval.dtype))

    def __repr__(self) -> str:
        return f"Zero({self.aval!r})"


@dataclass(frozen=True)
class UndefinedPrimal:
    """An operand in which an operation is linear, while its transpose is asked for."""

    aval: ShapedArray


def is_undefined_primal(x: Any) -> bool:
    """Is its cotangent asked for?"""
    return type(x) is UndefinedPrimal


def instantiate_zeros(tangent: Any) -> Any:
    """The tangent; of a `Zero` the zeros as an array."""
    symbolic = isinstance(tangent, (Zero, SymbolicZero))
    return tangent.instantiate() if symbolic else tangent


def add_tangents(x: Any, y: Any) -> Any:
    """The sum of two tangents, either of which may be a `Zero`."""
    if isinstance(x, Zero):
        return y
    return x if isinstance(y, Zero) else x + y


for _kind in (Zero, UndefinedPrimal):
    tree.register_pytree_node(
        _kind, lambda x: ((), x.aval), lambda aval, _, kind=_kind: kind(aval)
    )


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
        arg = UserArg.of(self.record, params)
        nodes = self.compound.results(*[scope.lift(x) for x in args], arg=arg)
        results = [Tracer(node, scope) for node in nodes]
        return results if self.multiple_results else results[0]

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """The parameters of an equation as `bind` takes them."""
        return dict(params)

    @cached_property
    def record(self) -> _Record:
        """What a graph knows of it."""
        rules = {
            name: partial(rule, self)
            for name, rule in (
                ("jvp", _jvp), ("transpose", _transpose), ("batch", _batch),
                ("lower", _lower),
            )
        }  # fmt: skip
        infer, value = partial(_types, self), partial(_value, self)
        return _Record(self.name, infer, value, None, rules, primitive=self)

    @cached_property
    def compound(self) -> prim.Compound:
        """The record of the graph for it."""
        name, number = self.name, 1
        while name in prim.PRIMITIVES or name in prim.COMPOUNDS:
            number += 1
            name = f"{self.name}_{number}"
        return self.record.compound(name, doc=f"a primitive of a library: {self.name}")

    def __repr__(self) -> str:
        return self.name


class CallPrimitive(Primitive):
    """A primitive that calls a function, whose equations stand in its place."""

    multiple_results = True
    call_primitive = True

    def bind(self, *args: Any, subfuns: Sequence[Any] = (), **params: Any) -> Any:
        fun, *operands = (*subfuns, *args)
        return fun.call_wrapped(*operands)


@dataclass(frozen=True)
class _Record(UserRecord):
    """What a graph knows of a library's primitive."""

    primitive: Any = None


def primitive_of(arg: Any) -> Primitive | None:
    """The primitive of a node with this argument; None if it is no library's."""
    record = arg.record if isinstance(arg, UserArg) else None
    return record.primitive if isinstance(record, _Record) else None


# The rules of a library, on flat values.


def _as_list(primitive: Primitive, results: Any) -> list[Any]:
    return list(results) if primitive.multiple_results else [results]


def _types(primitive: Primitive, *avals: ShapedArray, **params: Any) -> Any:
    found, _ = primitive.abstract_eval(*avals, **params)
    return [type_of(t) for t in _as_list(primitive, found)]


def _value(primitive: Primitive, avals: Any, *arrays: Any, **params: Any) -> list[Any]:
    with outside_scopes():
        found = primitive.impl(*map(asarray, arrays), **params)
    return [np.asarray(x) for x in _as_list(primitive, found)]


def _lower(primitive: Primitive, tracers: Sequence[Value], params: Any) -> Any:
    """What runs on devices: the lowering, or what the primitive computes of arrays."""
    rule = lowerings.get(primitive, primitive.impl)
    types = _types(primitive, *[aval_of(x) for x in tracers], **params)
    try:
        found = _as_list(primitive, rule(*tracers, **params))
    except (errors.TracerArrayConversionError, errors.ConcretizationTypeError):
        structs = [ShapeDtypeStruct(a.shape, a.dtype) for a in types]

        def on_host(*arrays: Any) -> list[Any]:
            return [*map(np.asarray, _as_list(primitive, rule(*arrays, **params)))]

        found = pure_callback(on_host, structs, *tracers)
    return [_settle(x, a) for x, a in zip(found, types, strict=True)], None


def _settle(value: Value, aval: ShapedArray) -> Value:
    if not isinstance(value, Tracer) or value.aval is aval:
        return value
    return Tracer(p.cast(value.node, aval.dtype, aval.weak_type), value.scope)


def _rule(rules: dict[Primitive, Function], primitive: Primitive, what: str) -> Any:
    if primitive not in rules:
        raise errors.MissingRuleError(f"{what} for {primitive.name!r} not implemented")
    return rules[primitive]


def _tangent_zero(aval: ShapedArray) -> Zero:
    return Zero(aval.to_tangent_aval())


def _jvp(
    primitive: Primitive, tracers: Sequence[Value], params: Any, mask: Flags
) -> tuple[list[Any], list[bool]]:
    rule = _rule(jvps, primitive, "Differentiation rule")
    count, given = len(mask), iter(tracers[len(tracers) - sum(mask) :])
    primals = tracers[:count]
    moving = [
        next(given) if has else _tangent_zero(aval_of(x))
        for x, has in zip(primals, mask, strict=True)
    ]
    found, moved = rule(tuple(primals), tuple(moving), **params)
    moved = _as_list(primitive, moved)
    known = [*map(_is_array, moved)]
    return [*filter(_is_array, moved), *_as_list(primitive, found)], known


def _is_array(tangent: Any) -> bool:
    if tangent is None or isinstance(tangent, Zero):
        return False
    return getattr(tangent, "dtype", None) != dtypes.float0


def _transpose(
    primitive: Primitive, tracers: Sequence[Value], params: Any, linear: Flags,
    mask: Flags, types: Sequence[ShapedArray], results: Sequence[ShapedArray],
) -> tuple[list[Any], list[bool]]:  # fmt: skip
    rule = _rule(
        transposes, primitive, "Transpose rule (for reverse-mode differentiation)"
    )
    given = iter(tracers)
    operands = [
        UndefinedPrimal(aval.strong()) if flag else next(given)
        for flag, aval in zip(linear, types, strict=True)
    ]
    pairs = zip(mask, results, strict=True)
    cts = [next(given) if has else _tangent_zero(aval) for has, aval in pairs]
    found = rule(cts if primitive.multiple_results else cts[0], *operands, **params)
    found = [None] * len(types) if found is None else list(found)
    known = [_is_array(x) and flag for x, flag in zip(found, linear, strict=True)]
    return [x for x, has in zip(found, known, strict=True) if has], known


# Batching.


@dataclass(frozen=True)
class AxisData:
    """The axis that `vmap` adds, as rules in `fancy_primitive_batchers` see it."""

    name: Any
    size: int
    spmd_name: Any = None
    explicit_mesh_axis: Any = None


def _batch(
    primitive: Primitive, tracers: Sequence[Value], params: Any, size: int, flags: Flags
) -> tuple[list[Any], list[Any]]:
    given = tuple(tracers), tuple(0 if flag else None for flag in flags)
    fancy, axis = fancy_batchers.get(primitive), axis_batchers.get(primitive)
    if fancy is not None:
        found, axes = fancy(AxisData(None, size), *given, **params)
    elif axis is not None:
        found, axes = axis(size, None, None, *given, **params)
    else:
        found, axes = _rule(batchers, primitive, "Batching rule")(*given, **params)
    if not primitive.multiple_results:
        found, axes = [found], [axes]
    elif not isinstance(axes, tree.SEQUENCES):
        axes = [axes] * len(found)
    return list(found), list(axes)

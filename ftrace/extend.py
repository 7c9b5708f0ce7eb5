"""The door for primitives of your own; docs/primitives_own.md is the recipe.

elementwise   a function of one or two scalars, with code for kernels
primitive     any operation: by other operations, or by NumPy on the host
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ftrace import dtypes as types_of, errors
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.missing_names import tell_missing
from ftrace.lower.kernel.ir import OF_USERS
from ftrace.lower.legalize.legalize import DECOMPOSITIONS
from ftrace.lower.legalize.term import Term, eq, fma, ne, number, select
from ftrace.trace.avals import ShapedArray
from ftrace.trace.bind import bind_compound, elementwise as bind_elementwise
from ftrace.trace.body import apply_body
from ftrace.trace.calls import custom_call
from ftrace.trace.calls.rule_graphs import Rule
from ftrace.trace.calls.user_primitive import Flat, UserArg, UserRecord
from ftrace.trace.eager.function_objects import set_name
from ftrace.trace.flatten_arguments import type_of
from ftrace.trace.graph import Node
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.primitive import COMPOUNDS, PRIMITIVES, Primitive
from ftrace.trace.primitives.sources import const
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic import same_size
from ftrace.trace.tracing.scopes import current_scope
from ftrace.trace.tracing.tracer import Function, Value, aval_of
from ftrace.transforms.structs import ShapeDtypeStruct


def _of_terms(op: Primitive) -> Callable[[Term], Term]:
    def apply(x: Term) -> Term:
        return Term(op(x.node))

    return set_name(apply, op.name, op.doc)


#: What formulas of kernels are made of, beside `+ - * /` and `< <= > >=`: `eq`, `ne`,
#: `select`, `fma`, and every elementwise primitive of one float.
kernel_functions = SimpleNamespace(
    eq=eq, ne=ne, select=select, fma=fma, number=number,
    **{
        name: _of_terms(op) for name, op in PRIMITIVES.items()
        if op.family == "unary" and "f" in op.dtypes and op is not p.bitcast
    },
)  # fmt: skip


def elementwise(
    name: str,
    *,
    numpy: Function,
    kernel: Callable[..., Term],
    derivatives: Sequence[Function] | None,
    operands: int = 1,
    dtypes: str = "f",
    zero_at_zero: bool = False,
    doc: str = "",
) -> Function:
    """A new elementwise primitive of one or two operands.

    It fuses with what is around it, as the built-in ones do. 16-bit floats are
    computed in float32.

    Args:
      name: shown in graphs; no other primitive has it.
      numpy: the meaning: arrays of one shape and dtype -> an array like them.
      kernel: the code for devices: a formula of `Term`s, with Python's operators and
        the functions of `kernel_functions`; of one scalar, float32 or float64.
      derivatives: for each operand the factor of its tangent, a function of arrays
        (*operands, result). () is constant almost everywhere; None has no derivative.
      operands: how many, 1 or 2; they are promoted and broadcast.
      dtypes: kinds of dtype: "f" float, "i" signed, "u" unsigned integer.
      zero_at_zero: the function of zeros is zero.
      doc: one line.

    Raises:
      PrimitiveError: a rule is missing, or the name is taken.
    """
    _check_rules(name, numpy=numpy, kernel=kernel)
    if operands not in (1, 2):
        raise errors.PrimitiveError(
            f"extend.elementwise: {name!r} must have 1 or 2 operands, got {operands}; "
            "use extend.primitive with lower= for more"
        )
    if derivatives is not None and len(derivatives) not in (0, operands):
        raise errors.PrimitiveError(
            f"extend.elementwise: {name!r} has {operands} operands and "
            f"{len(derivatives)} derivatives; give one for each, or () for none"
        )
    if set(dtypes) - set("fiu"):
        raise errors.PrimitiveError(
            f"extend.elementwise: dtypes must be of 'f', 'i' and 'u', got {dtypes!r}"
        )
    factors = [_array_rule(name, i, f) for i, f in enumerate(derivatives or ())]
    rules = _ElementwiseRules(name, dtypes, numpy, kernel, factors)
    op = Primitive(
        name, "unary" if operands == 1 else "binary", rules.infer, rules.meaning,
        p.batch_elementwise, jvp=None if derivatives is None else rules.jvp,
        no_derivative="" if derivatives is not None else "its record gives none",
        zero_at_zero=zero_at_zero, dtypes=dtypes, doc=doc,
    )  # fmt: skip
    DECOMPOSITIONS[name] = rules.formula
    OF_USERS.add(name)

    def call(*values: Value) -> Any:
        if len(values) != operands:
            raise errors.ArgumentError(
                f"{name} takes {operands} operands, got {len(values)}"
            )
        return bind_elementwise(op, *values, inexact=dtypes == "f")

    return set_name(call, name, doc)


@dataclass(frozen=True)
class _ElementwiseRules:
    """The rules of an elementwise record, as a user's functions say them.

    Attributes:
      kinds: of the dtypes that it takes.
      factors: of the tangents of its operands; none at all: it is constant.
    """

    name: str
    kinds: str
    numpy: Function
    kernel: Callable[..., Term]
    factors: Sequence[Callable[[Node], Node]]

    def infer(self, arg: Any, *avals: ShapedArray) -> ShapedArray:
        first, name = avals[0], self.name
        for aval in avals:
            if aval.shape != first.shape or aval.dtype != first.dtype:
                raise errors.ShapeError(
                    f"{name}: the operands differ: {first!r} and {aval!r}"
                )
        types_of.require_kind(name, self.kinds, first.dtype)
        weak = all(aval.weak_type for aval in avals)
        return ShapedArray.of(first.shape, first.dtype, weak)

    def meaning(self, aval: ShapedArray, arg: Any, *arrays: Any) -> Any:
        found = np.asarray(self.numpy(*map(_read_only, arrays)))
        if found.shape != arrays[0].shape:
            raise errors.ShapeError(
                f"{self.name}: numpy returned shape {found.shape} for operands of "
                f"shape {arrays[0].shape}; use extend.primitive for what is not "
                "elementwise"
            )
        return found

    def jvp(self, node: Node, tangents: Sequence[Node | None]) -> Node | None:
        pairs = zip(tangents, self.factors, strict=False)
        return p.total(t and p.scale(t, factor(node)) for t, factor in pairs)

    def formula(self, node: Node) -> Node:
        found: Any = self.kernel(*map(Term, node.src))
        if not isinstance(found, Term):
            raise errors.PrimitiveError(
                f"the kernel rule of {self.name} must return a term made of its "
                f"operands, got {type(found).__name__}: {found!r:.60}",
                custom_call.origin_of(self.kernel),
            )
        return found.node


def _array_rule(name: str, number_: int, function: Function) -> Callable[[Node], Node]:
    """A function of arrays (*operands, result) as one of a node."""

    def apply(operands: Sequence[Value]) -> list[Value]:
        return [function(*operands)]

    rule = Rule(name, (name, number_), apply, ())

    def factor(node: Node) -> Node:
        operands = [*node.src, node]
        body = rule.trace("derivative", [n.aval for n in operands])
        (found,) = apply_body(body, operands)
        return p.cast(found, node.dtype)

    return factor


def primitive(
    name: str,
    *,
    infer: Function,
    numpy: Function,
    jvp: Function | None = None,
    transpose: Function | None = None,
    linear: Sequence[int] = (),
    batch: Function | None = None,
    lower: Function | None = None,
    no_derivative: str = "",
    doc: str = "",
) -> Function:
    """A new primitive.

    Rules are functions of arrays; each gets the static parameters of the call by name.

    Args:
      name: shown in graphs; no other primitive has it.
      infer: (*types, **params) -> the type of the result, or a tuple of types: what
        has `shape` and `dtype`. Raises where the operands do not fit.
      numpy: (*arrays, **params) -> the result, or a tuple: the meaning, in NumPy. It
        is also what devices do, on the host, where there is no `lower`.
      jvp: (primals, results, tangents, **params) -> the tangent of the result, or a
        tuple of them. All three are tuples; a tangent is None where an operand does
        not vary.
      transpose: (cotangents, operands, **params) -> a tuple with a cotangent per
        operand. Operands that are asked for are None; the cotangents of the others
        are ignored and may be None.
      linear: the operands in which it is linear; it then needs `transpose`, no `jvp`.
      batch: (axis_size, in_batched, *operands, **params) -> the results, all with a
        leading axis of that size; operands have one where `in_batched` says so.
        Without it, `vmap` calls the primitive for one example after the other.
      lower: (*operands, **params) -> the results, by other functions of arrays: what
        runs on devices, fused with what is around it.
      no_derivative: why it has none; instead of `jvp`.
      doc: one line.

    Returns:
      The function: (*operands, **params) -> an array, or a tuple of arrays.

    Raises:
      PrimitiveError: a rule is missing, or the name is taken.
    """
    _check_rules(name, infer=infer, numpy=numpy)
    if linear and transpose is None:
        raise errors.PrimitiveError(
            f"the record of primitive {name!r} lacks transpose (it is linear)"
        )
    if any(i < 0 for i in linear):
        raise errors.PrimitiveError(
            f"the record of primitive {name!r}: linear counts operands from 0, got "
            f"{tuple(linear)}"
        )

    def call(*operands: Value, **params: Any) -> Any:
        for key, value in params.items():
            try:
                hash(value)
            except TypeError:
                raise errors.ArgumentError(
                    f"{name}: the parameter {key} must be hashable, got "
                    f"{type(value).__name__}; pass arrays by position"
                ) from None
        results = bind_compound(op, *operands, arg=UserArg.of(record, params))
        several = rules.several(*[aval_of(x) for x in operands], **params)
        return tuple(results) if several else results[0]

    if jvp is None and linear:
        jvp = _linear_jvp(name, call, tuple(linear))
    given = {
        "infer": infer, "numpy": numpy, "jvp": jvp, "transpose": transpose,
        "batch": batch, "lower": lower,
    }  # fmt: skip
    rules = _Rules(name, tuple(linear), {n: f for n, f in given.items() if f})
    record = UserRecord(
        name, rules.types, rules.values, rules.linear, rules.on_flat_values()
    )
    op = record.compound(name, no_derivative=no_derivative, doc=doc)
    return set_name(call, name, doc)


def _linear_jvp(name: str, call: Function, linear: tuple[int, ...]) -> Function:
    """The tangent of what is linear in some operands, all together."""

    def jvp(primals: Any, results: Any, tangents: Any, **params: Any) -> Any:
        moved = list(primals)
        for i, tangent in enumerate(tangents):
            if i in linear:
                moved[i] = _zeros(aval_of(primals[i])) if tangent is None else tangent
            elif tangent is not None:
                raise errors.DerivativeError(
                    f"{name} is linear in its operands {linear}, and has no jvp that "
                    f"tells of operand {i}"
                )
        return call(*moved, **params)

    return jvp


def _zeros(aval: ShapedArray) -> Value:
    """Zeros, in the rule that is being traced."""
    scope = current_scope()
    assert scope is not None
    return scope.wrap(const(0, aval.dtype, aval.shape))


def _check_rules(name: Any, **rules: Any) -> None:
    if not isinstance(name, str):
        raise errors.PrimitiveError(
            f"the name of a primitive must be a string, got {name!r:.60}"
        )
    if name in PRIMITIVES or name in COMPOUNDS:
        raise errors.PrimitiveError(f"there is a primitive named {name!r} already")
    missing = [key for key, rule in rules.items() if not callable(rule)]
    if missing:
        raise errors.PrimitiveError(
            f"the record of primitive {name!r} lacks {', '.join(missing)}"
        )


@dataclass(frozen=True)
class _Rules:
    """A user's rules on flat values."""

    name: str
    linear: tuple[int, ...]
    given: dict[str, Function]

    def on_flat_values(self) -> dict[str, Flat]:
        """The rules that the user gave."""
        known: dict[str, Flat] = {
            "jvp": self.tangents, "transpose": self.cotangents, "batch": self.lanes,
            "lower": self.lower,
        }  # fmt: skip
        return {name: flat for name, flat in known.items() if name in self.given}

    def several(self, *avals: ShapedArray, **params: Any) -> bool:
        """Is the result a tuple?"""
        return isinstance(self._infer(avals, params), tree.SEQUENCES)

    def _infer(self, avals: Sequence[ShapedArray], params: Any) -> Any:
        structs = [ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
        return self.given["infer"](*structs, **params)

    def types(self, *avals: ShapedArray, **params: Any) -> list[ShapedArray]:
        if any(i >= len(avals) for i in self.linear):
            raise errors.PrimitiveError(
                f"{self.name} is linear in its operands {self.linear}, but was called "
                f"with {len(avals)}"
            )
        return [self._type(t) for t in _tuple(self._infer(avals, params))]

    def _type(self, found: Any) -> ShapedArray:
        if not (hasattr(found, "shape") and hasattr(found, "dtype")):
            raise errors.PrimitiveError(
                f"the infer rule of {self.name} must return a type, or a tuple of "
                "types, with shape and dtype: ftrace.ShapeDtypeStruct(shape, dtype), "
                f"got {found!r:.60}",
                custom_call.origin_of(self.given["infer"]),
            )
        return type_of(found)

    def values(
        self, avals: Sequence[ShapedArray], *arrays: Any, **params: Any
    ) -> list[Any]:
        answer = _tuple(self.given["numpy"](*map(_read_only, arrays), **params))
        found = [np.asarray(x) for x in answer]
        if len(found) != len(avals):
            raise errors.PrimitiveError(
                f"{self.name}: numpy returned {len(found)} results, but infer promised "
                f"{len(avals)}"
            )
        for value, aval in zip(found, avals, strict=True):
            if not same_size(tuple(value.shape), aval.shape):
                raise errors.ShapeError(
                    f"{self.name}: numpy returned shape {tuple(value.shape)}, but "
                    f"infer promised {aval!r}"
                )
            got, promised = value.dtype, aval.dtype
            # It may lose precision only.
            wide = types_of.is_complex(promised) or not types_of.is_complex(got)
            if got != promised and not (types_of.is_inexact(promised) and wide):
                raise errors.DtypeError(
                    f"{self.name}: numpy returned {value.dtype}, but infer promised "
                    f"{aval!r}"
                )
        return found

    def tangents(
        self, flat: Sequence[Value], params: Any, mask: Any
    ) -> tuple[list[Value], list[bool]]:
        count = len(mask)
        size = len(flat) - count - sum(mask)
        given = iter(flat[count + size :])
        primals, results = tuple(flat[:count]), tuple(flat[count : count + size])
        moving = tuple(next(given) if flag else None for flag in mask)
        found = self.given["jvp"](primals, results, moving, **params)
        leaves = self._check("jvp", found, results, tangents=True)
        return [x for x in leaves if x is not None], [x is not None for x in leaves]

    def cotangents(
        self, flat: Sequence[Value], params: Any, linear: Any, mask: Any, types: Any,
        results: Any,
    ) -> tuple[list[Value], Any]:  # fmt: skip
        given = iter(flat)
        operands = tuple(None if flag else next(given) for flag in linear)
        pairs = zip(results, mask, strict=True)
        cotangents = tuple(next(given) if has else _zeros(a) for a, has in pairs)
        found = self.given["transpose"](cotangents, operands, **params)
        leaves = None
        if isinstance(found, tree.SEQUENCES):
            leaves = custom_call.align(tuple(range(len(linear))), found)
        if leaves is None:
            raise errors.PrimitiveError(
                f"the transpose of {self.name} must return a tuple with a cotangent "
                f"per operand, or None, got {found!r:.80}",
                custom_call.origin_of(self.given["transpose"]),
            )
        rows = [row for row in zip(leaves, types, linear, strict=True) if row[2]]
        filled = [custom_call.zeros_of(a) if x is None else x for x, a, _ in rows]
        like = [ShapeDtypeStruct(a.shape, a.dtype) for _, a, _ in rows]
        return self._check("transpose", tuple(filled), like), linear

    def lanes(
        self, flat: Sequence[Value], params: Any, size: int, flags: Any
    ) -> tuple[list[Value], list[int]]:
        found = self.given["batch"](size, list(flags), *flat, **params)
        avals = [aval_of(x) for x in flat]
        pairs = zip(avals, flags, strict=True)
        single = [a.with_shape(a.shape[1:]) if has else a for a, has in pairs]
        types = self.types(*single, **params)
        like = [ShapeDtypeStruct((size, *a.shape), a.dtype) for a in types]
        return self._check("batch", found, like), [0] * len(like)

    def lower(self, flat: Sequence[Value], params: Any) -> tuple[list[Value], None]:
        like = self.types(*[aval_of(x) for x in flat], **params)
        return self._check("lower", self.given["lower"](*flat, **params), like), None

    def _check(
        self, what: str, found: Any, like: Sequence[Any], tangents: bool = False
    ) -> list[Any]:
        got = _tuple(found)
        avals = [type_of(x) for x in like]
        if tangents:  # None is zero
            zeros = [*map(custom_call.zeros_of, avals), *got[len(avals) :]]
            got = tuple(z if x is None else x for x, z in zip(got, zeros, strict=False))
        treedef = tree.structure(tuple(avals))
        promise = custom_call.Promise(
            f"what the {what} rule of {self.name} returned", "its record",
            self.given[what], treedef, avals,
        )  # fmt: skip
        return promise.check(promise.structure(got), tangents)


def _read_only(array: Any) -> Any:
    """A view that cannot be written: arrays of users are immutable."""
    view: np.ndarray[Any, Any] = np.asarray(array)[...]
    view.flags.writeable = False
    return view


def _tuple(found: Any) -> tuple[Any, ...]:
    """Several results, or one."""
    return tuple(found) if isinstance(found, tree.SEQUENCES) else (found,)


__all__ = ["Term", "elementwise", "kernel_functions", "primitive"]


tell_missing(__name__)

"""custom_jvp and custom_vjp: functions whose derivative the user writes.

Called with arrays, such a function just runs. In a function that is being traced it
becomes a call that remembers its rules; these are traced when a derivative is taken.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial, update_wrapper
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.array import Array
from ftrace.errors import ArgumentError, StaticArgumentError, TreeError
from ftrace.trace import tree
from ftrace.trace.avals import ShapedArray
from ftrace.trace.callback import Same, Static
from ftrace.trace.calls.closures import closed_over
from ftrace.trace.calls.custom import CustomJvp, CustomVjp, custom_jvp_p, custom_vjp_p
from ftrace.trace.calls.rules import Called, Rule, bind_call, called, later_values
from ftrace.trace.tracer import Tracer, Value, aval_of
from ftrace.transforms.arguments import Output, check_callable, flatten_values, name_of
from ftrace.transforms.custom_check import (
    Promise,
    SymbolicZero,
    aligned,
    pair_of,
    place_of,
    zeros_of,
)

Function = Callable[..., Any]


class Invocation:
    """One call of a function that has rules.

    Attributes:
      name: of the function.
      args: all positional arguments, defaults included.
      fixed: the positions of those that are no part of derivatives.
      values, treedef: the leaves and the structure of the tuple of the others.
      output: calls the function on such leaves.
    """

    def __init__(
        self, fun: Function, kind: str, args: Sequence[Any], fixed: Sequence[int]
    ) -> None:
        self.name = name_of(fun)
        self.args = list(args)
        self.fixed = sorted({i % len(args) for i in fixed}) if args else []
        chosen = tuple(x for i, x in enumerate(args) if i not in self.fixed)
        what = f"{kind}: the argument of {self.name} "
        self.values, self.treedef = flatten_values(chosen, what)
        self.avals = [aval_of(x) for x in self.values]
        self.output = Output(lambda *xs: fun(*self.joined(xs)), kind, False)
        self.output.function.__name__ = self.name

    @property
    def constants(self) -> list[Any]:
        """The arguments that are no part of derivatives."""
        return [self.args[i] for i in self.fixed]

    def key(self, values: tuple[Any, ...], *functions: Any) -> Any:
        """Tells the rules of this call from others.

        What Python decides by values is good for these values only.
        """
        fixed, structure = tree.flatten(self.constants)
        static = tuple(_static(x) for x in fixed)
        alone = object() if values else None
        structures = _hashable((structure, self.treedef))
        return (*map(Same.of, functions), static, structures, alone)

    def separated(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments that take part in derivatives, with other leaves."""
        return tree.unflatten(self.treedef, leaves)

    def joined(self, leaves: Sequence[Any]) -> list[Any]:
        """All arguments, with other leaves."""
        rest = iter(self.separated(leaves))
        return [x if i in self.fixed else next(rest) for i, x in enumerate(self.args)]

    def results(self) -> Any:
        """A tree in the structure of the result."""
        assert self.output.treedef is not None
        return tree.unflatten(self.output.treedef, range(self.output.count))


def _static(value: Any) -> Static:
    return Static(value, (id(value),)) if isinstance(value, Array) else Static.of(value)


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:  # static data of a user's container
        return object()
    return value


def resolved(
    fun: Function, kind: str, args: Sequence[Any], kwargs: dict[str, Any]
) -> list[Any]:
    """All arguments by position, defaults included.

    Raises:
      ArgumentError: an argument has no position.
    """
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):
        signature = None
    if signature is None:
        rest = kwargs
    else:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{kind}: {name_of(fun)}: {error}") from None
        bound.apply_defaults()
        args, rest = bound.args, bound.kwargs
    if rest:
        raise ArgumentError(
            f"{kind}: the rules of {name_of(fun)} take positional arguments, and "
            f"{', '.join(rest)} can be given by name only; make it positional, or "
            "bind it with functools.partial"
        )
    return list(args)


def fixed_positions(
    fun: Function, kind: str, numbers: Any, names: str | Iterable[str]
) -> tuple[int, ...]:
    """Positions of the arguments that take no part in derivatives."""
    listed = numbers if isinstance(numbers, (tuple, list)) else (numbers,)
    found = [operator.index(i) for i in listed]
    for name in [names] if isinstance(names, str) else names:
        parameters = list(inspect.signature(fun).parameters)
        if name not in parameters:
            raise StaticArgumentError(
                f"{kind}: nondiff_argnames names {name!r}, but {name_of(fun)} takes "
                f"{', '.join(parameters)}"
            )
        found.append(parameters.index(name))
    return tuple(found)


class _WithRules:
    """A function with rules; `fun` is the function itself."""

    kind = ""

    def __init__(
        self,
        fun: Function,
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Iterable[str] = (),
    ) -> None:
        check_callable(fun, self.kind)
        update_wrapper(self, fun)
        self.fun = fun
        self.nondiff_argnums = fixed_positions(
            fun, self.kind, nondiff_argnums, nondiff_argnames
        )

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Methods: the instance is the first argument."""
        return self if instance is None else partial(self, instance)

    def _invoke(
        self, rules: Sequence[Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[Invocation, Called | None]:
        full = resolved(self.fun, self.kind, args, kwargs)
        call = Invocation(self.fun, self.kind, full, self.nondiff_argnums)
        others = closed_over([*rules, *call.constants])
        return call, called(self.kind, call.output, call.values, others)

    def __repr__(self) -> str:
        return f"<{self.kind} of {name_of(self.fun)}>"


def operand_types(found: Called) -> tuple[ShapedArray, ...]:
    """The types of the operands of a call, without its token."""
    return tuple(aval_of(x) for x in found.operands if x is not None)


class custom_jvp(_WithRules):
    """A function with a rule for forward mode, from which reverse mode follows.

        @ft.custom_jvp
        def f(x, y): ...

        @f.defjvp
        def f_jvp(primals, tangents):
            x, y = primals
            return f(x, y), ...

    Args:
      fun: a function of arrays.
      nondiff_argnums, nondiff_argnames: arguments that the rule gets as they are,
        before primals and tangents: functions, numbers of steps.
    """

    kind = "custom_jvp"
    jvp: Function | None = None
    symbolic_zeros = False

    def defjvp(self, jvp: Function, symbolic_zeros: bool = False) -> Function:
        """Sets the rule: jvp(*nondiff, primals, tangents) -> (result, tangent).

        Args:
          jvp: its tangent is linear in `tangents`, in the structure of the result.
          symbolic_zeros: tangents that are zero are `SymbolicZero` instead of arrays.
        """
        check_callable(jvp, "defjvp")
        self.jvp = jvp
        self.symbolic_zeros = symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Function | None) -> None:
        """Sets a rule per argument: jvp(tangent, result, *primals) -> tangent.

        None is an argument that the result does not vary with.
        """
        if self.nondiff_argnums:
            raise ArgumentError(
                f"defjvps cannot be used with nondiff_argnums; give "
                f"{name_of(self.fun)} one rule with defjvp"
            )

        def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
            result = self(*primals)
            parts = [
                rule(tangent, result, *primals)
                for rule, tangent in zip(jvps, tangents, strict=True)
                if rule is not None
            ]
            if not parts:
                return result, tree.map(lambda x: zeros_of(aval_of(x)), result)
            total = parts[0]
            for part in parts[1:]:
                total = tree.map(lambda a, b: a + b, total, part)
            return result, total

        self.jvp = jvp
        self.symbolic_zeros = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call, found = self._invoke([self.jvp], args, kwargs)
        if found is None:
            return self.fun(*call.args)
        rule: Rule | None = None
        if self.jvp is not None:
            function = _JvpRule(call, self.jvp, self.symbolic_zeros, found)
            values = later_values(found.operands)
            key = (call.key(values, self.fun, self.jvp), self.symbolic_zeros)
            closed = found.operands[: found.closed]
            rule = Rule(call.name, key, function, closed, values)
        arg = CustomJvp(
            call.name, found.body, operand_types(found), found.closed, found.effects,
            rule,
        )  # fmt: skip
        return call.output.build(bind_call(custom_jvp_p, found, arg))


def result_types(found: Called) -> list[ShapedArray]:
    """The types of the results of a call."""
    outputs = found.body.outputs
    return [n.aval for n in (outputs[:-1] if found.effects else outputs)]


class _JvpRule:
    """The user's jvp on flat values: (mask, args and tangents) -> results, tangents."""

    def __init__(
        self, call: Invocation, jvp: Function, symbolic: bool, found: Called
    ) -> None:
        self.call = call
        self.jvp = jvp
        self.symbolic = symbolic
        self.types = result_types(found)

    def __call__(self, mask: Sequence[bool], flat: Sequence[Value]) -> list[Value]:
        call, name = self.call, self.call.name
        count = len(call.avals)
        given = iter(flat[count:])
        tangents = [
            next(given) if present else self._zero(aval)
            for present, aval in zip(mask, call.avals, strict=True)
        ]
        answer = self.jvp(
            *call.constants, call.separated(flat[:count]), call.separated(tangents)
        )
        what = f"the jvp rule of {name} must return a pair (result, tangent)"
        result, tangent = pair_of(answer, what, self.jvp)
        like = f"the results of {name}"
        promises = [
            Promise(f"the {part} of the jvp rule of {name}", like, self.jvp,
                    call.results(), self.types)
            for part in ("results", "tangents")
        ]  # fmt: skip
        results = promises[0].check(promises[0].structure(result))
        moved = promises[1].check(promises[1].structure(tangent), tangents=True)
        return [*results, *(t for t in moved if t is not None)]

    def _zero(self, aval: ShapedArray) -> Any:
        return SymbolicZero(aval) if self.symbolic else zeros_of(aval)


@dataclass(frozen=True)
class CustomVJPPrimal:
    """An argument of a forward rule with symbolic_zeros.

    Attributes:
      value: the argument.
      perturbed: whether it is being differentiated.
    """

    value: Any
    perturbed: bool


def custom_vjp_primal_tree_values(values: Any) -> Any:
    """The values of the `CustomVJPPrimal`s in a tree."""
    return tree.map(lambda x: x.value if isinstance(x, CustomVJPPrimal) else x, values)


class custom_vjp(_WithRules):
    """A function with a rule for reverse mode.

        @ft.custom_vjp
        def f(x, y): ...

        def f_fwd(x, y):
            return f(x, y), residuals

        def f_bwd(residuals, cotangent):
            return cotangent_of_x, cotangent_of_y

        f.defvjp(f_fwd, f_bwd)

    Args:
      fun: a function of arrays.
      nondiff_argnums, nondiff_argnames: arguments that take no part in derivatives;
        `f_fwd` gets them in their places, `f_bwd` before the residuals.
    """

    kind = "custom_vjp"
    fwd: Function | None = None
    bwd: Function | None = None
    symbolic_zeros = False

    def defvjp(
        self,
        fwd: Function,
        bwd: Function,
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Sets the rules.

        Args:
          fwd: (*args) -> (result, residuals); residuals are any tree. Leaves that are
            no arrays are passed on as they are.
          bwd: (*nondiff, residuals, cotangent) -> a tuple with a cotangent per
            argument; None is zero, also for a part of a tree.
          symbolic_zeros: `fwd` gets `CustomVJPPrimal`s, and cotangents that are zero
            are `SymbolicZero`.
          optimize_remat: accepted; what a forward rule computes and nobody needs is
            never computed.
        """
        check_callable(fwd, "defvjp")
        check_callable(bwd, "defvjp")
        self.fwd, self.bwd = fwd, bwd
        self.symbolic_zeros = symbolic_zeros

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call, found = self._invoke([self.fwd, self.bwd], args, kwargs)
        if found is None:
            return self.fun(*call.args)
        fwd: Rule | None = None
        bwd: Rule | None = None
        if self.fwd is not None and self.bwd is not None:
            rules = _VjpRules(call, self.fwd, self.bwd, self.symbolic_zeros, found)
            values = later_values(found.operands)
            key = (call.key(values, self.fun, self.fwd, self.bwd), self.symbolic_zeros)
            closed = found.operands[: found.closed]
            fwd = Rule(call.name, (key, "fwd"), rules.forward, closed, values)
            bwd = Rule(call.name, (key, "bwd"), rules.backward, closed, values)
        arg = CustomVjp(
            call.name, found.body, operand_types(found), found.closed, found.effects,
            fwd, bwd,
        )  # fmt: skip
        return call.output.build(bind_call(custom_vjp_p, found, arg))


class _VjpRules:
    """The user's rules on flat values."""

    def __init__(
        self, call: Invocation, fwd: Function, bwd: Function, symbolic: bool,
        found: Called,
    ) -> None:  # fmt: skip
        self.call = call
        self.fwd = fwd
        self.bwd = bwd
        self.symbolic = symbolic
        self.types = result_types(found)
        # Of the residuals, for each choice of arguments that are differentiated:
        # their structure, and the leaves that are no arrays.
        self.residuals: dict[Any, tuple[tree.TreeDef, list[Any]]] = {}

    def forward(self, mask: tuple[bool, ...], flat: Sequence[Value]) -> list[Value]:
        """args -> results, and the residuals that are arrays."""
        call, name = self.call, self.call.name
        leaves: Sequence[Any] = flat
        if self.symbolic:
            leaves = [CustomVJPPrimal(x, m) for x, m in zip(flat, mask, strict=True)]
        what = f"the fwd rule of {name} must return a pair (result, residuals)"
        result, residuals = pair_of(self.fwd(*call.joined(leaves)), what, self.fwd)
        promise = Promise(
            f"the results of the fwd rule of {name}", f"the results of {name}",
            self.fwd, call.results(), self.types,
        )  # fmt: skip
        results = promise.check(promise.structure(result))
        kept, structure = tree.flatten(residuals)
        static = [None if _is_array(x) else (x,) for x in kept]
        self.residuals[mask] = (structure, static)
        return [*results, *(x for x in kept if _is_array(x))]

    def backward(
        self, mask: tuple[bool, ...], present: tuple[bool, ...], flat: Sequence[Value]
    ) -> list[Value]:
        """residuals and cotangents -> cotangents of the args in `mask`."""
        call = self.call
        structure, static = self.residuals[mask]
        given = iter(flat)
        kept = [next(given) if x is None else x[0] for x in static]
        wanted = iter(present)
        cotangents = [
            next(given)
            if dtypes.is_inexact(aval.dtype) and next(wanted)
            else self._zero(aval)
            for aval in self.types
        ]
        answer = self.bwd(
            *call.constants,
            tree.unflatten(structure, kept),
            call.output.build(cotangents),
        )
        leaves = self._cotangents(answer)
        return [
            zeros_of(aval) if ct is None else ct
            for ct, aval, flag in zip(leaves, call.avals, mask, strict=True)
            if flag
        ]

    def _zero(self, aval: ShapedArray) -> Any:
        return SymbolicZero(aval) if self.symbolic else zeros_of(aval)

    def _cotangents(self, answer: Any) -> list[Any]:
        """A cotangent per leaf of the arguments; None is zero."""
        call, name = self.call, self.call.name
        example = call.separated(range(len(call.avals)))
        got = tuple(answer) if isinstance(answer, list) else answer
        leaves = None if got is None else aligned(example, got)
        if leaves is None:
            raise TreeError(
                f"the bwd rule of {name} must return a tuple with a cotangent per "
                f"argument, in its structure, or None for zero: expected "
                f"{tree.structure(example)}, got {tree.structure(got)}",
                place_of(self.bwd),
            )
        promise = Promise(
            f"the cotangents of the bwd rule of {name}", f"the arguments of {name}",
            self.bwd, example, [a.strong() for a in call.avals],
        )  # fmt: skip
        zero = [SymbolicZero(a) if x is None else x
                for x, a in zip(leaves, call.avals, strict=True)]  # fmt: skip
        return promise.check(zero, tangents=True)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (Tracer, Array, np.ndarray, np.generic))

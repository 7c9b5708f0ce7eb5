"""custom_jvp and custom_vjp: functions whose derivative the user writes.

Called with arrays, such a function just runs. In a function that is being traced it
becomes a call that remembers its rules; these are traced when a derivative is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.arrays.array import ArrayLike
from ftrace.errors import ArgumentError, TreeError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.avals import ShapedArray
from ftrace.trace.calls import custom_derivative
from ftrace.trace.calls.rule_graphs import Called, Rule
from ftrace.trace.graph import Node, dependents, substitute
from ftrace.trace.primitives.elementwise import cast
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.scopes import Scope, all_bits
from ftrace.trace.tracing.tracer import Tracer, Value, aval_of
from ftrace.trace.tracing.weak_constants import default_bits, is_narrow
from ftrace.transforms.custom import custom_call
from ftrace.transforms.custom.custom_call import (
    Invocation,
    Promise,
    SymbolicZero,
    aligned,
    as_tuple,
    pair_of,
    place_of,
    zeros_of,
)
from ftrace.transforms.custom.rules_on_values import Level
from ftrace.transforms.flatten_arguments import name_of

Function = Callable[..., Any]


def _called_at(
    level: Level, function: Function, call: Invocation, rules: _JvpRule | _VjpRules
) -> Any:
    """A call whose arguments have values: its rules run now, with these."""
    tangents = level.tangents(call.values)
    values = level.around(call.values)
    call.forget()
    if all(t is None for t in tangents):
        return function(*call.joined(values))
    return call.output.build(rules.run(level, values, tangents))


class custom_jvp(custom_call.WithRules):
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
        tree.check_callable(jvp, "defjvp")
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
            if len(jvps) != len(primals):
                raise ArgumentError(
                    f"defjvps: {name_of(self.fun)} was called with {len(primals)} "
                    f"arguments and has {len(jvps)} rules; give one for each, None "
                    "where the result does not vary"
                )
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
        call, found, level = self.invoke([self.jvp], args, kwargs)
        if level is not None and self.jvp is not None:
            now = _JvpRule(call, self.jvp, self.symbolic_zeros, None)
            return _called_at(level, self, call, now)
        if found is None:
            return call.run()
        rules: tuple[Rule, ...] = ()
        if self.jvp is not None:
            key = (call.key(self.fun, self.jvp), self.symbolic_zeros)
            function = _JvpRule(call, self.jvp, self.symbolic_zeros, found)
            closed = found.operands[: found.closed]

            def make(key: Any, values: tuple[Any, ...]) -> tuple[Rule, ...]:
                return (Rule(call.name, key, function, closed, values, found.exact),)

            rules = self.shared(key, call, found, make)
        return custom_call.record(
            custom_derivative.custom_jvp_p, call, found, found.closed, rules
        )


class _JvpRule:
    """The user's jvp on flat values: (mask, args and tangents) -> results, tangents."""

    def __init__(
        self, call: Invocation, jvp: Function, symbolic: bool, found: Called | None
    ) -> None:
        self.call = call
        self.jvp = jvp
        self.symbolic = symbolic
        self.types = custom_call.result_types(found)

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
        if call.output.treedef is None:
            self.types = [default_bits(aval_of(x)) for x in call.output.accept(result)]
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

    def run(
        self, level: Level, values: Sequence[Value], tangents: Sequence[Node | None]
    ) -> list[Tracer]:
        """The results of a call, by the rule, with the values of the level around."""
        mask = tuple([t is not None for t in tangents])
        present = [t for t in tangents if t is not None]
        name = self.call.name
        if level.scope.along:  # of jvp: tangents have values, too
            flat = self(mask, [*values, *level.values_of(present)])
            count = len(self.types)
            found = [level.enter(t, aval_of(t).strong()) for t in flat[count:]]
            results = level.settle(flat[:count], name)
        else:
            with Scope(f"the jvp rule of {name}") as scope:
                inner = [scope.input(t.aval) for t in present]
                nodes = [scope.lift(x) for x in self(mask, [*values, *inner])]
            count = len(self.types)
            given = dict(zip(scope.inputs, present, strict=False))
            if dependents(nodes[:count], [*given]):
                raise custom_derivative.tangent_error(name)
            rest = zip(scope.inputs[len(given) :], scope.captured, strict=True)
            given |= {n: level.scope.capture(x) for n, x in rest}
            nodes = substitute(nodes, given)
            found = nodes[count:]
            outer = [level.scope.wrap(n) for n in nodes[:count]]
            results = level.settle(outer, name)
        moved = iter(found)
        out = [
            cast(next(moved), a.dtype) if dtypes.is_inexact(a.dtype) else None
            for a in self.types
        ]
        return level.results(results, self.types, out)


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


class custom_vjp(custom_call.WithRules):
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
        tree.check_callable(fwd, "defvjp")
        tree.check_callable(bwd, "defvjp")
        self.fwd, self.bwd = fwd, bwd
        self.symbolic_zeros = symbolic_zeros

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call, found, level = self.invoke([self.fwd, self.bwd], args, kwargs)
        if level is not None and self.fwd is not None and self.bwd is not None:
            rules = _VjpRules(call, self.fwd, self.bwd, self.symbolic_zeros, None)
            return _called_at(level, self, call, rules)
        if found is None:
            return call.run()
        both: tuple[Rule, ...] = ()
        if self.fwd is not None and self.bwd is not None:
            rules = _VjpRules(call, self.fwd, self.bwd, self.symbolic_zeros, found)
            key = (call.key(self.fun, self.fwd, self.bwd), self.symbolic_zeros)
            closed = found.operands[: found.closed]

            def make(key: Any, values: tuple[Any, ...]) -> tuple[Rule, ...]:
                return (
                    Rule(call.name, (key, "fwd"), rules.forward, closed, values,
                         found.exact),
                    Rule(call.name, (key, "bwd"), rules.backward, closed, values),
                )  # fmt: skip

            both = self.shared(key, call, found, make)
        return custom_call.record(
            custom_derivative.custom_vjp_p, call, found, found.closed, both
        )


class _VjpRules:
    """The user's rules on flat values."""

    def __init__(
        self, call: Invocation, fwd: Function, bwd: Function, symbolic: bool,
        found: Called | None,
    ) -> None:  # fmt: skip
        self.call = call
        self.fwd = fwd
        self.bwd = bwd
        self.symbolic = symbolic
        self.types = custom_call.result_types(found)
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
        if call.output.treedef is None:
            self.types = [default_bits(aval_of(x)) for x in call.output.accept(result)]
        promise = Promise(
            f"the results of the fwd rule of {name}", f"the results of {name}",
            self.fwd, call.results(), self.types,
        )  # fmt: skip
        results = promise.check(promise.structure(result))
        kept, structure = tree.flatten(residuals)
        static = [None if _is_array(x) else (x,) for x in kept]
        self.residuals[mask] = (structure, static)
        return [*results, *(_with_bits(x) for x in kept if _is_array(x))]

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

    def run(
        self, level: Level, values: Sequence[Value], tangents: Sequence[Node | None]
    ) -> list[Tracer]:
        """The results of a call, by the rules, with the values of the level around."""
        call, mask = self.call, tuple([t is not None for t in tangents])
        flat = self.forward(mask, values)
        count = len(self.types)
        results = level.settle(flat[:count], call.name)
        residuals = level.around(flat[count:])
        moving = [a.strong() for a, flag in zip(call.avals, mask, strict=True) if flag]

        def backward(
            level: Level, present: tuple[bool, ...], cts: Sequence[Node]
        ) -> list[Node]:
            with level.running():
                given = [*residuals, *level.values_of(cts)]
                found = level.around(self.backward(mask, present, given))
            return [level.enter(x, a) for x, a in zip(found, moving, strict=True)]

        wanted = [a.strong() for a in self.types if dtypes.is_inexact(a.dtype)]
        later = level.later(backward)
        arg = custom_derivative.VjpTangent(
            call.name, later, (), mask, tuple(wanted), ()
        )
        known = [t for t in tangents if t is not None]
        moved = iter(
            custom_derivative.vjp_tangent_p.results(*known, arg=arg) if wanted else ()
        )
        out = [next(moved) if dtypes.is_inexact(a.dtype) else None for a in self.types]
        return level.results(results, self.types, out)

    def _cotangents(self, answer: Any) -> list[Any]:
        """A cotangent per leaf of the arguments; None is zero."""
        call, name = self.call, self.call.name
        example = call.separated(range(len(call.avals)))
        got = as_tuple(answer)
        leaves = None if got is None else aligned(example, got)
        if leaves is None:
            raise TreeError(
                f"the bwd rule of {name} must return a tuple with a cotangent per "
                f"argument, in its structure, or None for zero: expected "
                f"{tree.readable(tree.structure(example))}, got "
                f"{tree.readable(tree.structure(got))}",
                place_of(self.bwd),
            )
        promise = Promise(
            f"the cotangents of the bwd rule of {name}", f"the arguments of {name}",
            self.bwd, example, [a.strong() for a in call.avals],
        )  # fmt: skip
        zero = [SymbolicZero(a) if x is None else x
                for x, a in zip(leaves, call.avals, strict=True)]  # fmt: skip
        return promise.check(zero, tangents=True)


def _with_bits(value: Value) -> Value:
    """A residual; a number of Python's with all its bits."""
    if type(value) is Tracer and is_narrow(value.aval):
        found = all_bits(value.node)
        return value if found is None else Tracer(found, value.scope)
    return value


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (ArrayLike, np.ndarray, np.generic))

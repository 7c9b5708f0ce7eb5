"""custom_jvp and custom_vjp: functions whose derivative the user writes.

Called with arrays, such a function just runs. In a function that is being traced it
becomes a call that remembers its rules; these are traced when a derivative is taken.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from functools import partial, update_wrapper
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import ArgumentError, TreeError
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.numpy import axes as ax
from ftrace.trace.arrays.array import ArrayLike
from ftrace.trace.avals import ShapedArray
from ftrace.trace.calls import custom_call, custom_derivative, rule_graphs
from ftrace.trace.calls.custom_call import Invocation, Promise, SymbolicZero
from ftrace.trace.calls.rule_graphs import Called, Rule
from ftrace.trace.flatten_arguments import P, R, name_of
from ftrace.trace.graph import Flags, Node, dependents, nodes_of, substitute
from ftrace.trace.primitives.elementwise import cast
from ftrace.trace.primitives.primitive import Compound
from ftrace.trace.primitives.sources import is_variable
from ftrace.trace.pytree import tree
from ftrace.trace.references import Ref, live
from ftrace.trace.tracing import scopes as tracing, tracer
from ftrace.trace.tracing.tracer import Function
from ftrace.trace.tracing.weak_constants import default_bits, is_narrow
from ftrace.transforms.custom.reference_rules import call_with_references
from ftrace.transforms.custom.rules_on_values import Level, level_of


class _OnLeaves(ABC):
    """The user's rules for a call, as functions of flat values.

    Attributes:
      call: of the function.
      types: of its results; of one whose rules run now they will tell.
      symbolic: what is zero is given as `SymbolicZero`.
      rules: of the user. What a graph has as a `Rule` is the method of that name.
    """

    def __init__(
        self, call: Invocation, found: Called | None, symbolic: bool,
        rules: Sequence[Function],
    ) -> None:  # fmt: skip
        self.call = call
        self.symbolic = symbolic
        self.rules = rules
        self.types = custom_call.result_types(found)

    @abstractmethod
    def run(
        self,
        level: Level,
        values: Sequence[tracer.Value],
        tangents: Sequence[Node | None],
    ) -> list[tracer.Tracer]:
        """The results of a call, by the rules, with the values of the level around."""

    def zero(self, aval: ShapedArray) -> Any:
        return SymbolicZero(aval) if self.symbolic else custom_call.zeros_of(aval)

    def promise(self, what: str, rule: Function) -> Promise:
        """What a rule must return that returns something like the results."""
        name = self.call.name
        like = f"the results of {name}"
        what = f"the {what} rule of {name}"
        return Promise(what, like, rule, self.call.output.structure, self.types)

    def parts(
        self, kind: str, rule: Function, answer: Any, other: str
    ) -> tuple[list[tracer.Value], Any]:
        """The flat results in what a rule returned, and the other part of it."""
        call = self.call
        what = f"the {kind} rule of {call.name} must return a pair (result, {other})"
        result, rest = custom_call.pair_of(answer, what, rule)
        if call.output.treedef is None:
            self.types = [
                default_bits(tracer.aval_of(x)) for x in call.output.accept(result)
            ]
        return self.promise(f"results of the {kind}", rule).leaves(result), rest

    def enter(
        self, level: Level, results: Sequence[tracer.Value], moved: Sequence[Node],
        zeros: Collection[int] = (),
    ) -> list[tracer.Tracer]:  # fmt: skip
        """The results, and the tangents of those that have any, as traced values."""
        rest = iter(moved)
        tangents: list[Node | None] = []
        for i, aval in enumerate(self.types):
            tangent = next(rest) if dtypes.is_inexact(aval.dtype) else None
            if i in zeros or tangent is None:
                tangents.append(None)
            else:
                tangents.append(cast(tangent, aval.dtype))
        return level.results(results, self.types, tangents)


class _JvpRule(_OnLeaves):
    """The user's jvp.

    Attributes:
      zeros: the results that it has said to have no tangents, when it was run.
    """

    zeros: Collection[int] = ()

    def jvp(
        self, mask: Sequence[bool], flat: Sequence[tracer.Value]
    ) -> list[tracer.Value]:
        """args and the tangents of those in `mask` -> results, and their tangents."""
        call, (rule,) = self.call, self.rules
        count = len(call.avals)
        given = iter(flat[count:])
        tangents = [
            next(given) if present else self.zero(aval)
            for present, aval in zip(mask, call.avals, strict=True)
        ]
        answer = rule(
            *call.constants,
            call.without_fixed(flat[:count]),
            call.without_fixed(tangents),
        )
        results, tangent = self.parts("jvp", rule, answer, "tangent")
        promise = self.promise("tangents of the jvp", rule)
        given = promise.structure(tangent)
        self.zeros = {i for i, t in enumerate(given) if isinstance(t, SymbolicZero)}
        moved = promise.check(given, tangents=True)
        return [*results, *(t for t in moved if t is not None)]

    def run(
        self,
        level: Level,
        values: Sequence[tracer.Value],
        tangents: Sequence[Node | None],
    ) -> list[tracer.Tracer]:
        mask = tuple([t is not None for t in tangents])
        present = [t for t in tangents if t is not None]
        name = self.call.name
        if level.scope.along:  # of jvp: tangents have values, too
            given = [*values, *level.values_of(present)]
            flat = self.jvp(mask, given)
            count = len(self.types)
            found = level.move_out(flat[count:])
            moved = [level.enter(t, tracer.aval_of(t).strong()) for t in found]
            results = level.settle(flat[:count], name)
            return self.enter(level, results, moved, self.zeros)
        with tracing.Scope(f"the jvp rule of {name}") as scope:
            scope.bound = True  # the primals have values
            inner = [scope.input(t.aval) for t in present]
            nodes = [scope.lift(x) for x in self.jvp(mask, [*values, *inner])]
        count = len(self.types)
        given = dict(zip(scope.inputs, present, strict=False))
        if dependents(nodes[:count], [*given]):
            raise custom_derivative.tangent_error(name)
        rest = zip(scope.inputs[len(given) :], scope.captured, strict=True)
        given |= {n: level.scope.capture(x) for n, x in rest}
        nodes = substitute(nodes, given)
        results = level.settle([level.scope.wrap(n) for n in nodes[:count]], name)
        return self.enter(level, results, nodes[count:], self.zeros)


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


class _VjpRules(_OnLeaves):
    """The user's forward and backward rule."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # Of the residuals, for each choice of arguments that are differentiated:
        # their structure, and the leaves that are no arrays.
        self.residuals: dict[Any, tuple[tree.TreeDef, list[Any]]] = {}

    def fwd(
        self, bwd: Rule, mask: Flags, flat: Sequence[tracer.Value]
    ) -> list[tracer.Value]:
        """args and tangents -> results, and what stands for their tangents."""
        scope, count = tracing.current_scope(), len(self.call.avals)
        assert scope is not None
        found = self.forward(mask, flat[:count])
        size = len(self.types)
        kept = [scope.lift(x) for x in (*bwd.closed, *found[size:])]
        wanted, constants = self.wanted, tuple([n.aval for n in kept])
        arg = custom_derivative.VjpTangent(
            self.call.name, bwd, constants, mask, wanted, ()
        )
        operands = [*kept, *[scope.lift(t) for t in flat[count:]]]
        moved = custom_derivative.vjp_tangent_p.results(*operands, arg=arg)
        return [*found[:size], *map(scope.wrap, moved if wanted else ())]

    @property
    def wanted(self) -> tuple[ShapedArray, ...]:
        """The types of the tangents of the results."""
        return tuple(a.strong() for a in self.types if dtypes.is_inexact(a.dtype))

    def forward(self, mask: Flags, flat: Sequence[tracer.Value]) -> list[tracer.Value]:
        """args -> results, and the residuals that are arrays."""
        leaves: Sequence[Any] = flat
        if self.symbolic:
            leaves = [CustomVJPPrimal(x, m) for x, m in zip(flat, mask, strict=True)]
        rule = self.rules[0]
        answer = rule(*self.call.with_fixed(leaves))
        results, residuals = self.parts("fwd", rule, answer, "residuals")
        kept, structure = tree.flatten(residuals)
        static = [None if _is_array(x) else (x,) for x in kept]
        self.residuals[mask] = (structure, static)
        return [*results, *(_with_bits(x) for x in kept if _is_array(x))]

    def bwd(
        self, mask: Flags, present: Flags, flat: Sequence[tracer.Value]
    ) -> list[tracer.Value]:
        """residuals and cotangents -> cotangents of the args in `mask`."""
        call = self.call
        structure, static = self.residuals[mask]
        given = iter(flat)
        kept = [next(given) if x is None else x[0] for x in static]
        wanted = iter(present)
        cotangents = [
            next(given)
            if dtypes.is_inexact(aval.dtype) and next(wanted)
            else self.zero(aval)
            for aval in self.types
        ]
        answer = self.rules[1](
            *call.constants,
            tree.unflatten(structure, kept),
            call.output.build(cotangents),
        )
        leaves = self._cotangents(answer)
        return [
            custom_call.zeros_of(aval) if ct is None else ct
            for ct, aval, flag in zip(leaves, call.avals, mask, strict=True)
            if flag
        ]

    def run(
        self,
        level: Level,
        values: Sequence[tracer.Value],
        tangents: Sequence[Node | None],
    ) -> list[tracer.Tracer]:
        call, mask = self.call, tuple([t is not None for t in tangents])
        flat = self.forward(mask, values)
        count = len(self.types)
        results = level.settle(flat[:count], call.name)
        residuals = level.move_out(flat[count:])
        moving = [a.strong() for a, flag in zip(call.avals, mask, strict=True) if flag]

        def backward(level: Level, present: Flags, cts: Sequence[Node]) -> list[Node]:
            with level.running():
                given = [*residuals, *level.values_of(cts)]
                found = level.move_out(self.bwd(mask, present, given))
            return [level.enter(x, a) for x, a in zip(found, moving, strict=True)]

        later, wanted = level.later(backward), self.wanted
        arg = custom_derivative.VjpTangent(call.name, later, (), mask, wanted, ())
        known = [t for t in tangents if t is not None]
        op = custom_derivative.vjp_tangent_p
        return self.enter(level, results, op.results(*known, arg=arg) if wanted else ())

    def _cotangents(self, answer: Any) -> list[Any]:
        """A cotangent per leaf of the arguments; None is zero."""
        call, name = self.call, self.call.name
        example = call.without_fixed(range(len(call.avals)))
        got = custom_call.as_tuple(answer)
        leaves = custom_call.align(example, got) if type(got) is tuple else None
        if leaves is None:
            raise TreeError(
                f"the bwd rule of {name} must return a tuple with a cotangent per "
                f"argument, in its structure, or None for zero: expected "
                f"{tree.readable(tree.structure(example))}, got "
                f"{tree.readable(tree.structure(got))}",
                custom_call.origin_of(self.rules[1]),
            )
        promise = Promise(
            f"the cotangents of the bwd rule of {name}", f"the arguments of {name}",
            self.rules[1], tree.structure(example), [a.strong() for a in call.avals],
        )  # fmt: skip
        pairs = zip(leaves, call.avals, strict=True)
        return promise.check([_as_cotangent(x, a) for x, a in pairs], tangents=True)


def _as_cotangent(leaf: Any, aval: ShapedArray) -> Any:
    """What a bwd rule gave; floats of another width in that of the argument."""
    if leaf is None:
        return SymbolicZero(aval)
    if not tracer.is_value(leaf) or not dtypes.is_inexact(aval.dtype):
        return leaf
    found, wanted = (dtypes.narrow(t) for t in (tracer.aval_of(leaf).dtype, aval.dtype))
    narrower = dtypes.kind(found) == "c" and dtypes.kind(wanted) != "c"
    if found == wanted or narrower or not dtypes.is_inexact(found):
        return leaf
    return ax.cast(leaf, aval.dtype)


def _with_bits(value: tracer.Value) -> tracer.Value:
    """A residual; a number of Python's that the rule has got with all its bits."""
    if (
        type(value) is tracer.Tracer
        and is_narrow(value.node.aval)
        and value.scope is tracing.current_scope()
    ):
        found = tracing.all_bits(value.node)
        return value if found is None else tracer.Tracer(found, value.scope)
    return value


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (ArrayLike, np.ndarray, np.generic))


class WithDerivative(custom_call.WithRules[P, R]):
    """A function with rules for its derivative.

    Attributes:
      op: what a call of it is in a graph.
      names: of its rules.
      setter: how it is given them.
      on_leaves: these as functions of flat values.
      symbolic_zeros: tangents and cotangents that are zero are `SymbolicZero`.
      optimize_remat: in a checkpoint, values are the function's, not a rule's.
    """

    op: Compound
    names: tuple[str, ...]
    setter: str
    on_leaves: type[_OnLeaves]
    symbolic_zeros = False
    optimize_remat = False
    _made: tuple[weakref.ref[tracing.Scope], dict[Any, tuple[Rule, ...]]] | None = None

    @property
    def rules(self) -> list[Any]:
        """The user's rules; None for one that was not given."""
        return [getattr(self, name) for name in self.names]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_made": None}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if any(rule is None for rule in self.rules):
            raise custom_call.no_rule(self.fun, self.kind, "derivative", self.setter)
        scopes = tracing.open_scopes()
        leaves = tree.leaves((args, kwargs)) if live else ()
        if Ref in map(type, leaves):
            full = custom_call.resolve_arguments(
                self.fun, self._signature, self.kind, args, kwargs
            )
            return call_with_references(self, full, custom_vjp_primal_tree_values)
        call = self.invocation(args, kwargs)
        if not scopes:
            return call.run()
        level = level_of(call.values)
        if level is not None and not self._reaches_within(level, call):
            return self._call_at(level, call)
        for result in _without_rules(call, scopes):
            return result
        others = rule_graphs.captured_by_rules([*self.rules, *call.constants])
        found = rule_graphs.trace_call(self.kind, call.output, call.values, others)
        if found is None:
            return call.run()
        call.forget()
        rules = self._rules_of(call, found)
        spared = self.optimize_remat
        return custom_call.record(self.op, call, found, found.closed, rules, spared)

    def _reaches_within(self, level: Level, call: Invocation) -> bool:
        """Do the rules use what is traced in a scope within the level's, as of vmap?"""
        if tracing.open_scopes()[-1] is level.scope:
            return False
        used = rule_graphs.captured_arrays([self.fun, *self.rules, *call.constants])
        depth = level.scope.depth
        return any(x.scope.depth > depth for x in _tracers(used))

    def _call_at(self, level: Level, call: Invocation) -> Any:
        """A call whose arguments have values: its rules run now, with these."""
        tangents = level.tangents(call.values)
        with level.running():
            values = level.move_out(call.values)
            call.forget()
            if all(t is None for t in tangents):
                again: Any = self
                return again(*call.with_fixed(values))
            rules = self.on_leaves(call, None, self.symbolic_zeros, self.rules)
            results = rules.run(level, values, tangents)
        return call.output.build(results)

    def _rules_of(self, call: Invocation, found: Called) -> tuple[Rule, ...]:
        """The rules for a call, once for equal calls of a trace.

        Calls are equal if they close over nothing.
        """
        own = call.key(self.fun, *self.rules)
        key = (own, self.symbolic_zeros, settings.current().trace_key)
        if found.closed:
            return self._make_rules(call, found, key)
        scope = tracing.open_scopes()[0]
        last = self._made
        if last is None or last[0]() is not scope:
            last = self._made = (weakref.ref(scope), {})
        full = (key, tuple(call.avals))
        made = last[1].get(full)
        if made is None:
            made = last[1][full] = self._make_rules(call, found, full)
        return made

    def _make_rules(
        self, call: Invocation, found: Called, key: Any
    ) -> tuple[Rule, ...]:
        closed = found.operands[: found.closed]
        leaves = self.on_leaves(call, found, self.symbolic_zeros, self.rules)
        rules: tuple[Rule, ...] = ()
        for name in reversed(self.names):  # each is given those after it
            function = getattr(leaves, name)
            given = update_wrapper(partial(function, *rules), function)
            rule = Rule(call.name, (key, name), given, closed, found.exact)
            rules = (rule, *rules)
        return rules


def _without_rules(call: Invocation, scopes: Sequence[tracing.Scope]) -> Iterator[Any]:
    """The result, where nothing takes derivatives of it, as where values are known.

    Most close over nothing that is traced, and what they do is done once: its results
    are of the arguments' scope. Around that are vmaps alone, whose graphs run at once.
    """
    own = tracing.scope_of(call.values) if _tracers(call.values) else None
    if own is None:
        runs = all(s.bound and not s.isolated for s in scopes)
    else:
        runs = all(
            s.transform in tracer.IN_LANES for s in scopes if s.depth <= own.depth
        )
    if runs:
        result = call.run()
        found = _tracers(rule_graphs.captured_arrays([result]))
        if all(x.scope is own or _is_constant(x) for x in found):
            yield result


def _is_constant(x: tracer.Tracer) -> bool:
    """Was it made of numbers of Python's alone?"""
    return not any(map(is_variable, nodes_of([x.node])))


def _tracers(values: Sequence[Any]) -> list[tracer.Tracer]:
    return [x for x in values if isinstance(x, tracer.Tracer)]


class custom_jvp(WithDerivative[P, R]):
    """A function with a rule for forward mode, from which reverse mode follows.

        @ft.custom_jvp
        def f(x, y): ...

        @f.defjvp
        def f_jvp(primals, tangents):
            x, y = primals
            return f(x, y), ...

    The rule must be linear in the tangents: reverse mode is its transpose. Write
    `custom_vjp` where that is not possible. `f.defjvps(a, b)` takes a function per
    argument, (tangent, output, *primals) -> the tangent it adds, or None for none.

    Args:
      fun: a function of arrays.
      nondiff_argnums, nondiff_argnames: arguments that the rule gets as they are,
        before primals and tangents: functions, numbers of steps.

    Raises:
      NoCustomRuleError: it is called before it was given a rule.
      TreeError, ShapeError, DtypeError: the rule returned something else than
        (output, tangent of its structure, shapes and dtypes).

    Example:
      >>> @ft.custom_jvp
      ... def log1pexp(x):
      ...     return fnp.log(1 + fnp.exp(x))
      >>> @log1pexp.defjvp
      ... def rule(primals, tangents):
      ...     (x,), (t,) = primals, tangents
      ...     return log1pexp(x), t * (1 - 1 / (1 + fnp.exp(x)))
      >>> ft.grad(log1pexp)(100.0)  # without the rule it is inf / inf
      Array(1., dtype=float32, weak_type=True)
    """

    kind = "custom_jvp"
    op = custom_derivative.custom_jvp_p
    names = ("jvp",)
    setter = "defjvp"
    on_leaves = _JvpRule
    jvp: Function | None = None

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
        call: Any = self

        def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
            if len(jvps) != len(primals):
                raise ArgumentError(
                    f"defjvps: {name_of(self.fun)} was called with {len(primals)} "
                    f"arguments and has {len(jvps)} rules; give one for each, None "
                    "where the result does not vary"
                )
            result = call(*primals)
            parts = [
                rule(tangent, result, *primals)
                for rule, tangent in zip(jvps, tangents, strict=True)
                if rule is not None
            ]
            if not parts:
                return result, tree.map(
                    lambda x: custom_call.zeros_of(tracer.aval_of(x)), result
                )
            total = parts[0]
            for part in parts[1:]:
                total = tree.map(lambda a, b: a + b, total, part)
            return result, total

        self.jvp = jvp
        self.symbolic_zeros = False


class custom_vjp(WithDerivative[P, R]):
    """A function with a rule for reverse mode.

        @ft.custom_vjp
        def f(x, y): ...

        def f_fwd(x, y):
            return f(x, y), residuals

        def f_bwd(residuals, cotangent):
            return cotangent_of_x, cotangent_of_y

        f.defvjp(f_fwd, f_bwd)

    Residuals are any pytree. A cotangent of an argument may be None for zero. Forward
    mode of such a function is refused, as in JAX.

    Args:
      fun: a function of arrays.
      nondiff_argnums, nondiff_argnames: arguments that take no part in derivatives;
        `f_fwd` gets them in their places, `f_bwd` before the residuals.

    Raises:
      NoCustomRuleError: it is called before it was given rules.
      TreeError, ShapeError, DtypeError: a rule returned something else than what is
        asked.
      DerivativeError: forward mode is taken.

    Example:
      >>> @ft.custom_vjp
      ... def clip_gradient(x, limit):
      ...     return x
      >>> clip_gradient.defvjp(
      ...     lambda x, limit: (x, limit),
      ...     lambda limit, ct: (fnp.clip(ct, -limit, limit), None))
      >>> ft.grad(lambda x: 5 * clip_gradient(x, 1.0))(2.0)
      Array(1., dtype=float32, weak_type=True)
    """

    kind = "custom_vjp"
    op = custom_derivative.custom_vjp_p
    names = ("fwd", "bwd")
    setter = "defvjp(fwd, bwd)"
    on_leaves = _VjpRules
    fwd: Function | None = None
    bwd: Function | None = None

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
          optimize_remat: under `checkpoint`, which drops residuals, values are
            computed by the function alone, not by `fwd`.
        """
        tree.check_callable(fwd, "defvjp")
        tree.check_callable(bwd, "defvjp")
        self.fwd, self.bwd = fwd, bwd
        self.symbolic_zeros = symbolic_zeros
        self.optimize_remat = optimize_remat

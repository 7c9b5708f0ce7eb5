"""custom_vmap: functions whose batching the user writes.

    custom_vmap_p(*closed, *args, token?, arg=CustomVmap) -> *results, token?

The rule stays with the derivatives of the function: the tangents are a call whose rule
is the derivative of the rule, and so is the transpose of that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from ftrace.errors import ArgumentError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace import body as bodies
from ftrace.trace.avals import ShapedArray
from ftrace.trace.batching import of_each, sum_lanes
from ftrace.trace.calls import custom_call, rule_graphs
from ftrace.trace.calls.custom_call import Invocation, Promise, origin_of, pair_of
from ftrace.trace.calls.rule_graphs import Call, Rule
from ftrace.trace.control.scan import map_lanes
from ftrace.trace.flatten_arguments import P, R
from ftrace.trace.graph import Body, Flags, Node, Nodes, substitute
from ftrace.trace.primitives.primitive import Batched, Results
from ftrace.trace.primitives.sources import variable
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.scopes import asarray, open_scopes
from ftrace.trace.tracing.tracer import Value, is_value


class Batcher(ABC):
    """Makes the function of a batch. Equal ones make equal functions."""

    @abstractmethod
    def batch(
        self, avals: Sequence[ShapedArray], size: int, flags: Flags
    ) -> tuple[Body, list[bool]]:
        """The function for operands of these types, of which some have lanes.

        Returns:
          A body whose inputs have one more leading axis where the flag is set, and
          which of its outputs have it.
        """


@dataclass(frozen=True)
class CustomVmap(Call):
    """The argument.

    Attributes:
      name: of the function.
      closed: how many operands it closes over.
      rule: makes the function of a batch; None: one lane is done after the other.
    """

    name: str
    closed: int
    rule: Batcher | None

    def __str__(self) -> str:
        return self.name


def _batch(node: Node, src: Nodes, batched: Flags, size: int) -> Batched:
    arg: CustomVmap = node.arg
    if arg.rule is None:
        return map_lanes(node, src, batched, size)
    if any(batched[: arg.closed]):
        body, has = bodies.batch_body(arg.body, batched, size)
    else:
        avals = [n.aval for n in arg.body.inputs]
        body, has = arg.rule.batch(avals, size, batched)
        src = of_each(src, batched)
    return bodies.apply_body(body, src), has


# Derivatives.


def _jvp(node: Node, tangents: Results) -> Results:
    arg: CustomVmap = node.arg
    mask = tuple(t is not None for t in tangents)
    found = bodies.linearize(arg.body, mask)
    if not found.wanted:
        return [None] * len(found.outputs)
    body = bodies.close([*arg.body.inputs, *found.names], found.moved)
    rule = arg.rule and _TangentBatcher(arg.rule, found.moving, found.wanted)
    linear = CustomVmap(body, False, arg.name, arg.closed, rule)
    present = bodies.select(tangents, found.moving)
    results = custom_vmap_p.results(*node.src, *present, arg=linear)
    return bodies.spread_results(len(found.outputs), found.wanted, results)


@dataclass(frozen=True)
class _TangentBatcher(Batcher):
    """The derivative of a rule.

    Attributes:
      rule: of the function.
      mask: which of its operands have tangents.
      wanted: the results whose tangents are asked for.
    """

    rule: Batcher
    mask: Flags
    wanted: tuple[int, ...]

    def batch(
        self, avals: Sequence[ShapedArray], size: int, flags: Flags
    ) -> tuple[Body, list[bool]]:
        count = len(self.mask)
        moving = [i for i, moves in enumerate(self.mask) if moves]
        moved = dict(zip(moving, flags[count:], strict=True))
        if not any(flags[i] and moved.get(i, True) for i in range(count)):
            # Nothing has lanes together with its tangent: the rule is asked for none.
            body, has = self.rule.batch(avals[:count], size, (False,) * count)
            if not any(has):
                return bodies.batch_body(self._tangents(body), flags, size)
        wide = [flags[i] or moved.get(i, False) for i in range(count)]
        body, has = self.rule.batch(avals[:count], size, tuple(wide))
        plain = self._tangents(body)
        types = bodies.batched_types(avals, flags, size)
        inputs = [variable(a, "outer", i) for i, a in enumerate(types)]
        want = [*wide, *[wide[i] for i in moved]]
        rows = zip(plain.inputs, inputs, flags, want, strict=True)
        mapping = {n: bodies.with_lanes(x, had, w, size) for n, x, had, w in rows}
        outputs = substitute(plain.outputs, mapping)
        return bodies.close(inputs, outputs), [has[k] for k in self.wanted]

    def _tangents(self, body: Body) -> Body:
        """Operands and tangents -> the tangents of the results that are wanted."""
        found = bodies.linearize(body, self.mask)
        pairs = [(found.outputs[k], body.outputs[k]) for k in self.wanted]
        outputs = [bodies.or_zeros(t, n) for t, n in pairs]
        return bodies.close([*body.inputs, *found.names], outputs)


def _transpose(node: Node, cotangents: Results, linear: Flags) -> Results:
    arg: CustomVmap = node.arg
    known = tuple(ct is not None for ct in cotangents)
    body = bodies.transpose_body(arg.body, linear, known)
    avals = tuple(n.aval for n in arg.body.inputs)
    rule = arg.rule and _TransposeBatcher(arg.rule, avals, linear, known)
    closed = sum(not flag for flag in linear[: arg.closed])
    backward = CustomVmap(body, False, arg.name, closed, rule)
    given = bodies.transposed_operands(node.src, linear, cotangents)
    return bodies.spread(linear, custom_vmap_p.results(*given, arg=backward))


@dataclass(frozen=True)
class _TransposeBatcher(Batcher):
    """The transpose of a rule: all of the cotangents that it returns have lanes.

    Attributes:
      rule: of the linear function.
      avals: the types of its operands.
      linear: in which of them it is linear.
      known: which of its results have cotangents.
    """

    rule: Batcher
    avals: tuple[ShapedArray, ...]
    linear: Flags
    known: Flags

    def batch(
        self, avals: Sequence[ShapedArray], size: int, flags: Flags
    ) -> tuple[Body, list[bool]]:
        rest = iter(flags)
        full = tuple(flag or next(rest) for flag in self.linear)
        of_cotangents = list(rest)
        body, has = self.rule.batch(self.avals, size, full)
        plain = bodies.transpose_body(body, self.linear, self.known)
        asked = bodies.select(has, self.known)
        inputs = list(plain.inputs)
        mapping: dict[Node, Node] = {}
        places = range(len(inputs) - len(asked), len(inputs))
        for i, had, mine in zip(places, asked, of_cotangents, strict=True):
            if had == mine:
                continue
            name = inputs[i]
            aval = avals[i] if had else bodies.with_axis(name.aval, size)
            inputs[i] = given = variable(aval, "outer", i)
            mapping[name] = bodies.with_lanes(given, mine, had, size)
            if not had:  # the sum of all lanes is meant
                mapping[name] = sum_lanes(given)
        outputs = substitute(plain.outputs, mapping)
        return bodies.close(inputs, outputs), [True] * len(outputs)


custom_vmap_p = rule_graphs.call_compound(
    "custom_vmap", "a function with a rule for batching", _batch,
    jvp=_jvp, transpose=_transpose,
)  # fmt: skip


# The function, and the user's rule.


class custom_vmap(custom_call.WithRules[P, R]):
    """A function with a rule for `vmap`.

        @custom_vmap
        def f(x, y): ...

        @f.def_vmap
        def f_vmap(axis_size, in_batched, x, y):
            return result, out_batched

    Derivatives of the function are batched by the derivative of the rule.

    Args:
      fun: a function of arrays.

    Raises:
      NoCustomRuleError: it is called before it was given a rule.

    Example:
      >>> from ftrace.custom_batching import custom_vmap
      >>> @custom_vmap
      ... def total(x):
      ...     return fnp.sum(x)
      >>> @total.def_vmap
      ... def rule(axis_size, in_batched, x):
      ...     return fnp.sum(x, axis=1), True
      >>> ft.vmap(total)(fnp.array([[1, 2], [3, 4]]))
      Array([3, 7], dtype=int32)
    """

    kind = "custom_vmap"
    vmap_rule: Callable[..., tuple[Any, Any]] | None = None
    sequential = False

    def __init__(self, fun: Callable[P, R]) -> None:
        super().__init__(fun)

    def def_vmap(
        self, vmap_rule: Callable[..., tuple[Any, Any]]
    ) -> Callable[..., tuple[Any, Any]]:
        """Sets the rule: (axis_size, in_batched, *args) -> (result, out_batched).

        Args:
          vmap_rule: `in_batched` has a tree of bools per argument; where it is True
            the leaf has one more leading axis, of size `axis_size`. `out_batched` says
            the same of the result: a tree of bools of its structure.
        """
        tree.check_callable(vmap_rule, "def_vmap")
        self.vmap_rule = vmap_rule
        return vmap_rule

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.vmap_rule is None and not self.sequential:
            raise custom_call.no_rule(self.fun, self.kind, "batching", "def_vmap(rule)")
        call = self.invocation(args, kwargs)
        rules = [self.vmap_rule] if open_scopes() else []
        others = rule_graphs.captured_by_rules(rules)
        found = rule_graphs.trace_call("custom_vmap", call.output, call.values, others)
        if found is None:
            plain: Callable[..., Any] = self.fun
            return tree.map(_as_array, plain(*call.args))
        batcher: Batcher | None = None
        if self.vmap_rule is not None:
            function = _VmapRule(call, self.vmap_rule, custom_call.result_types(found))
            key = (call.key(self.fun, self.vmap_rule), found.body)
            closed = found.operands[: found.closed]
            batcher = _UserBatcher(Rule(call.name, key, function, closed))
        arg = CustomVmap(found.body, found.effects, call.name, found.closed, batcher)
        return call.output.build(rule_graphs.bind_call(custom_vmap_p, found, arg))


def _as_array(x: Any) -> Any:
    """A number that Python has computed as the array that a graph would give."""
    return asarray(x) if is_value(x) else x


def sequential_vmap(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f`; under `vmap` it is called for one example after the other."""
    made = custom_vmap(f)
    made.sequential = True
    return made


@dataclass(frozen=True)
class _UserBatcher(Batcher):
    rule: Rule

    def batch(
        self, avals: Sequence[ShapedArray], size: int, flags: Flags
    ) -> tuple[Body, list[bool]]:
        wide = bodies.batched_types(avals, flags, size)
        body = self.rule.trace("vmap", wide, size, flags)
        function: Any = self.rule.function
        return body, function.batched[size, flags]


class _VmapRule:
    """The user's rule on flat values.

    Attributes:
      batched: for each size and choice of operands with lanes, which results have them.
    """

    def __init__(
        self, call: Invocation, rule: Callable[..., Any], types: Sequence[ShapedArray]
    ) -> None:
        self.call = call
        self.rule = rule
        self.types = types
        self.batched: dict[Any, list[bool]] = {}

    def __call__(self, size: int, flags: Flags, flat: Sequence[Value]) -> list[Value]:
        call, name = self.call, self.call.name
        mine = flags[len(flags) - len(flat) :]
        in_batched = list(call.without_fixed(mine))
        what = f"the vmap rule of {name} must return a pair (result, out_batched)"
        result, out_batched = pair_of(
            self.rule(size, in_batched, *call.without_fixed(flat)), what, self.rule
        )
        has = self._flags(out_batched)
        types = bodies.batched_types(self.types, has, size)
        promise = Promise(
            f"the results of the vmap rule of {name}",
            f"the results of {name}, with an axis of size {size} where out_batched "
            "says so",
            self.rule, call.output.structure, types,
        )  # fmt: skip
        self.batched[size, flags] = has
        return promise.leaves(result)

    def _flags(self, out_batched: Any) -> list[bool]:
        """A bool per leaf of the result."""
        name, expected = self.call.name, self.call.output.structure
        what, like = f"the vmap rule of {name}: out_batched", f"the results of {name}"
        leaves = Promise(what, like, self.rule, expected, ()).structure(out_batched)
        for leaf in leaves:
            if not isinstance(leaf, bool):
                raise ArgumentError(
                    f"the vmap rule of {name}: out_batched must hold bools, got "
                    f"{leaf!r:.60}",
                    origin_of(self.rule),
                )
        return leaves

"""custom_vmap: functions whose batching the user writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ftrace.errors import ArgumentError, TreeError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.avals import ShapedArray
from ftrace.trace.calls import custom_batching
from ftrace.trace.calls.rule_graphs import Rule, bind_call, called, closed_over
from ftrace.trace.graph import Body, Flags
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.scopes import open_scopes
from ftrace.trace.tracing.tracer import Value
from ftrace.transforms.custom import custom_call
from ftrace.transforms.custom.custom_call import Invocation, Promise, pair_of, place_of


class custom_vmap(custom_call.WithRules):
    """A function with a rule for `vmap`.

        @custom_vmap
        def f(x, y): ...

        @f.def_vmap
        def f_vmap(axis_size, in_batched, x, y):
            return result, out_batched

    Derivatives of the function are batched by the derivative of the rule.
    """

    kind = "custom_vmap"
    vmap_rule: Callable[..., tuple[Any, Any]] | None = None
    sequential = False

    def __init__(self, fun: Callable[..., Any]) -> None:
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

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = self.invocation(args, kwargs)
        others = closed_over([self.vmap_rule]) if open_scopes() else []
        found = called("custom_vmap", call.output, call.values, others)
        if found is None:
            return self.fun(*call.args)
        batcher: custom_batching.Batcher | None = None
        if self.sequential:
            batcher = custom_batching.SequentialBatcher(found.body)
        elif self.vmap_rule is not None:
            function = _VmapRule(call, self.vmap_rule, custom_call.result_types(found))
            key = (call.key(self.fun, self.vmap_rule), found.body)
            closed = found.operands[: found.closed]
            batcher = _UserBatcher(Rule(call.name, key, function, closed))
        arg = custom_batching.CustomVmap(
            found.body, found.effects, call.name, found.closed, batcher
        )
        return call.output.build(bind_call(custom_batching.custom_vmap_p, found, arg))


def sequential_vmap(fun: Callable[..., Any]) -> Callable[..., Any]:
    """`fun`; under `vmap` it is called for one example after the other."""
    made = custom_vmap(fun)
    made.sequential = True
    return made


@dataclass(frozen=True)
class _UserBatcher(custom_batching.Batcher):
    rule: Rule

    def batched(
        self, avals: Sequence[ShapedArray], size: int, flags: Flags
    ) -> tuple[Body, list[bool]]:
        wide = [
            a.with_shape((size, *a.shape)) if has else a
            for a, has in zip(avals, flags, strict=True)
        ]
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
        in_batched = list(call.separated(mine))
        what = f"the vmap rule of {name} must return a pair (result, out_batched)"
        result, out_batched = pair_of(
            self.rule(size, in_batched, *call.separated(flat)), what, self.rule
        )
        has = self._flags(out_batched)
        types = [
            a.with_shape((size, *a.shape)) if flag else a
            for a, flag in zip(self.types, has, strict=True)
        ]
        promise = Promise(
            f"the results of the vmap rule of {name}",
            f"the results of {name}, with an axis of size {size} where out_batched "
            "says so",
            self.rule, call.results(), types,
        )  # fmt: skip
        self.batched[size, flags] = has
        return promise.leaves(result)

    def _flags(self, out_batched: Any) -> list[bool]:
        """A bool per leaf of the result."""
        name, example = self.call.name, self.call.results()
        leaves, treedef = tree.flatten(out_batched)
        if treedef != tree.structure(example):
            raise TreeError(
                f"the vmap rule of {name}: out_batched must have the structure of the "
                f"results of {name}, {tree.readable(tree.structure(example))}, got "
                f"{tree.readable(treedef)}",
                place_of(self.rule),
            )
        for leaf in leaves:
            if not isinstance(leaf, bool):
                raise ArgumentError(
                    f"the vmap rule of {name}: out_batched must hold bools, got "
                    f"{leaf!r:.60}",
                    place_of(self.rule),
                )
        return leaves

"""Numbers in the state: hyperparameters that may change there, and what is measured."""

# Functions of arrays within are of any type.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUntypedNamedTuple=false

from __future__ import annotations

import inspect
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import ftrace.numpy as fnp
from ftrace.errors import ArgumentError
from ftrace.optim import base, scaling, tree
from ftrace.optim.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    Schedule,
    Tree,
    with_extra_args_support,
)
from ftrace.trace.arrays.array import ArrayLike

__all__ = [
    "InjectHyperparamsState", "InjectStatefulHyperparamsState", "MonitorState",
    "SnapshotState", "WrappedSchedule", "inject_hyperparams",
    "inject_stateful_hyperparams", "measure_with_ema", "monitor", "snapshot",
]  # fmt: skip

#: The number of steps, the hyperparameters, and the state of the optimizer.
InjectHyperparamsState = namedtuple(
    "InjectHyperparamsState", "count hyperparams hyperparams_states inner_state"
)


InjectStatefulHyperparamsState = InjectHyperparamsState

#: The number of steps that a schedule is at.
WrappedScheduleState = namedtuple("WrappedScheduleState", "count")


class WrappedSchedule:
    """A schedule as one with a state, which is the number of steps.

    Such a one has `init() -> state`, `update(state, **extra) -> state`, and gives its
    value when it is called with a state; it may look at what `update` of the optimizer
    is given beside the gradients.
    """

    def __init__(self, schedule_fn: Schedule) -> None:
        self.schedule_fn = schedule_fn

    def init(self) -> WrappedScheduleState:
        return WrappedScheduleState(base.zero())

    def update(self, state: Any, **extra_args: Any) -> WrappedScheduleState:
        return WrappedScheduleState(base.increment(state.count))

    def __call__(self, state: Any, **extra_args: Any) -> Any:
        return self.schedule_fn(state.count)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, ArrayLike)) or hasattr(value, "__array__")


def inject_hyperparams(
    inner_factory: Callable[..., GradientTransformation],
    static_args: Any = (),
    hyperparam_dtype: Any = None,
) -> Callable[..., GradientTransformationExtraArgs]:
    """`inject_hyperparams(adam)(0.1)`: its numbers are in the state, to be changed.

    Args:
      inner_factory: makes the optimizer.
      static_args: names of arguments that are no numbers of this kind.
      hyperparam_dtype: of the numbers, by default that of the parameters.

    Returns:
      A function with the arguments of `inner_factory`. Numbers are in
      `state.hyperparams`, by name; schedules, also those with a state (see
      `WrappedSchedule`), are evaluated there in each step.

    Raises:
      ArgumentError: the factory has no argument of a name in `static_args`.
    """
    static = {static_args} if isinstance(static_args, str) else set(static_args)
    signature = inspect.signature(inner_factory)
    if unknown := static - set(signature.parameters):
        raise ArgumentError(
            f"inject_hyperparams: {inner_factory!r:.60} has no arguments "
            f"{sorted(unknown)}; it has {list(signature.parameters)}"
        )

    def make(*args: Any, **kwargs: Any) -> GradientTransformationExtraArgs:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        numbers: dict[str, Any] = {}
        schedules: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            if name in static or isinstance(value, bool):
                continue
            if callable(value):
                stateful = hasattr(value, "init") and hasattr(value, "update")
                schedules[name] = value if stateful else WrappedSchedule(value)
            elif _is_number(value):
                numbers[name] = value

        def converted(value: Any, params: Tree) -> Any:
            array = fnp.asarray(value)
            strong = hasattr(value, "dtype") and not getattr(value, "weak_type", False)
            if strong or not fnp.issubdtype(array.dtype, fnp.floating):
                return array
            return array.astype(hyperparam_dtype or tree.dtype(params, "highest"))

        def build(values: dict[str, Any]) -> Any:
            again = signature.bind(*args, **kwargs)
            again.apply_defaults()
            again.arguments.update(values)
            return with_extra_args_support(inner_factory(*again.args, **again.kwargs))

        def at(states: Any, params: Tree, **extra: Any) -> dict[str, Any]:
            found = {name: f(states[name], **extra) for name, f in schedules.items()}
            return {name: converted(x, params) for name, x in found.items()}

        def init(params: Tree) -> Any:
            states = {name: f.init() for name, f in schedules.items()}
            values = {name: converted(x, params) for name, x in numbers.items()}
            values |= at(states, params)
            own = build(values).init(params)
            return InjectHyperparamsState(base.zero(), values, states, own)

        def update(updates: Tree, state: Any, params: Any = None, **extra: Any) -> Any:
            base.check_state("inject_hyperparams", state, InjectHyperparamsState)
            like = updates if params is None else params
            values = {n: converted(x, like) for n, x in state.hyperparams.items()}
            states = state.hyperparams_states
            values |= at(states, like, **extra)
            made, own = build(values).update(
                updates, state.inner_state, params, **extra
            )
            states = {n: f.update(states[n], **extra) for n, f in schedules.items()}
            count = base.increment(state.count)
            return made, InjectHyperparamsState(count, values, states, own)

        return GradientTransformationExtraArgs(init, update)

    return make


inject_stateful_hyperparams = inject_hyperparams

#: What was measured last, by its name.
SnapshotState = namedtuple("SnapshotState", "measurement")


def snapshot(
    measure_name: str, measure: Callable[[Tree], Tree]
) -> GradientTransformation:
    """Leaves the updates; the state has `measure(updates)`, under a name."""

    def update(updates: Tree, state: Tree, params: Tree | None = None) -> Any:
        return updates, SnapshotState({measure_name: measure(updates)})

    return GradientTransformation(
        lambda params: SnapshotState({measure_name: measure(params)}), update
    )


#: What was measured last, by name, and the states of the measures.
MonitorState = namedtuple("MonitorState", "measurements measure_states")


def monitor(measures: dict[str, Any]) -> GradientTransformationExtraArgs:
    """Leaves the updates; the state has what several measures make of them.

    Args:
      measures: name -> function of the updates, or transformation of them.
    """
    ways = {
        name: with_extra_args_support(
            base.stateless(lambda g, _, f=f: f(g)) if callable(f) else f
        )
        for name, f in measures.items()
    }

    def init(params: Tree) -> Any:
        return MonitorState({}, tuple([way.init(params) for way in ways.values()]))

    def update(updates: Tree, state: Any, params: Any = None, **extra: Any) -> Any:
        rows = zip(ways.values(), state.measure_states, strict=True)
        found = [way.update(updates, own, params, **extra) for way, own in rows]
        values = {name: made for name, (made, _) in zip(ways, found, strict=True)}
        return updates, MonitorState(values, tuple([own for _, own in found]))

    return GradientTransformationExtraArgs(init, update)


def measure_with_ema(
    measure: Callable[[Tree], Tree],
    decay: Any,
    debias: bool = True,
    accumulator_dtype: Any = None,
) -> GradientTransformationExtraArgs:
    """The running mean of what is measured, for `monitor`; see `ema`."""
    init, update = scaling.ema(decay, debias, accumulator_dtype)
    mean = GradientTransformation(lambda params: init(measure(params)), update)
    return base.chain(base.stateless(lambda updates, _: measure(updates)), mean)

"""Schedules: a value as a function of the number of steps done.

An optimizer whose hyperparameters follow schedules may have them in its state, where
they may also be changed: `inject_hyperparams`.
"""

# Functions of arrays within are of any type.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUntypedNamedTuple=false

from __future__ import annotations

import inspect
import math
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

import ftrace.numpy as fnp
from ftrace.errors import ArgumentError, ValueRangeError, one_of
from ftrace.optim import base, tree as trees
from ftrace.optim.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    Scalar,
    Schedule,
    Tree,
    with_extra_args_support,
)
from ftrace.trace.arrays.array import ArrayLike

__all__ = [
    "InjectHyperparamsState", "InjectStatefulHyperparamsState", "WrappedSchedule",
    "constant_schedule", "cosine_decay_schedule", "cosine_onecycle_schedule",
    "exponential_decay", "inject_hyperparams", "inject_stateful_hyperparams",
    "join_schedules", "linear_onecycle_schedule", "linear_schedule",
    "piecewise_constant_schedule", "piecewise_interpolate_schedule",
    "polynomial_schedule", "sgdr_schedule", "warmup_constant_schedule",
    "warmup_cosine_decay_schedule", "warmup_exponential_decay_schedule",
]  # fmt: skip


def constant_schedule(value: Scalar) -> Schedule:
    """Always the same value.

    Args:
      value: a number.

    Returns:
      A function of a count of steps.

    Example:
      >>> ft.optim.constant_schedule(0.1)(100)
      0.1
    """
    return lambda count: value


def polynomial_schedule(
    init_value: Scalar,
    end_value: Scalar,
    power: Scalar,
    transition_steps: Scalar,
    transition_begin: Scalar = 0,
) -> Schedule:
    """From one value to another along a power of the part that is left.

    Args:
      init_value, end_value: the values before and after.
      power: 1 is a straight line.
      transition_steps: how many steps it takes; without any it stays `init_value`.
      transition_begin: how many steps to wait.

    Returns:
      A function of a count of steps:
      (init_value - end_value)·(1 - step/transition_steps)^power + end_value.

    Example:
      >>> from ftrace import optim
      >>> rate = optim.polynomial_schedule(1.0, 0.0, power=2, transition_steps=4)
      >>> [float(rate(step)) for step in (0, 2, 4)]
      [1.0, 0.25, 0.0]
    """
    if transition_steps <= 0:
        return constant_schedule(init_value)
    begin = max(transition_begin, 0)

    def schedule(count: Any) -> Any:
        left = 1 - fnp.clip(count - begin, 0, transition_steps) / transition_steps
        return (init_value - end_value) * left**power + end_value

    return schedule


def linear_schedule(
    init_value: Scalar,
    end_value: Scalar,
    transition_steps: Scalar,
    transition_begin: Scalar = 0,
) -> Schedule:
    """From one value to another in a straight line.

    Args:
      init_value, end_value: the values before and after.
      transition_steps: how many steps it takes.
      transition_begin: how many steps to wait.

    Returns:
      A function of a count of steps.

    Example:
      >>> from ftrace import optim
      >>> rate = optim.linear_schedule(1.0, 0.0, transition_steps=4)
      >>> [float(rate(step)) for step in (0, 1, 4, 9)]
      [1.0, 0.75, 0.0, 0.0]
    """
    return polynomial_schedule(
        init_value, end_value, 1, transition_steps, transition_begin
    )


def piecewise_constant_schedule(
    init_value: Scalar, boundaries_and_scales: dict[int, float] | None = None
) -> Schedule:
    """A value that is multiplied by a factor at each of some numbers of steps.

    Args:
      init_value: before the first of them.
      boundaries_and_scales: number of steps -> factor.

    Returns:
      A function of a count of steps.

    Raises:
      ValueRangeError: a factor is negative.

    Example:
      >>> from ftrace import optim
      >>> rate = optim.piecewise_constant_schedule(1.0, {10: 0.5, 20: 0.5})
      >>> [float(rate(step)) for step in (0, 15, 25)]
      [1.0, 0.5, 0.25]
    """
    table = _factors("piecewise_constant_schedule", boundaries_and_scales)

    def schedule(count: Any) -> Any:
        value: Any = init_value
        for boundary, factor in table:
            value = fnp.where(count < boundary, value, factor * value)
        return value

    return schedule


def exponential_decay(
    init_value: Scalar,
    transition_steps: Scalar,
    decay_rate: Scalar,
    transition_begin: Scalar = 0,
    staircase: bool = False,
    end_value: Scalar | None = None,
) -> Schedule:
    """A value that is multiplied by `decay_rate` every `transition_steps` steps.

    Args:
      init_value: at the begin.
      transition_steps: without any it stays `init_value`; so for a rate of 0.
      decay_rate: the factor.
      transition_begin: how many steps to wait.
      staircase: change only at whole multiples of `transition_steps`.
      end_value: where to stop; for a rate below 1 the least, else the greatest value.

    Returns:
      A function of a count of steps: init_value·decay_rate^(step/transition_steps).

    Example:
      >>> from ftrace import optim
      >>> rate = optim.exponential_decay(1.0, transition_steps=10, decay_rate=0.5)
      >>> [float(rate(step)) for step in (0, 10, 20)]
      [1.0, 0.5, 0.25]
    """
    if transition_steps <= 0 or decay_rate == 0:
        return constant_schedule(init_value)
    begin = max(transition_begin, 0)
    bound = fnp.maximum if decay_rate < 1.0 else fnp.minimum

    def schedule(count: Any) -> Any:
        elapsed = count - begin
        periods = fnp.asarray(elapsed / transition_steps)
        if staircase:
            periods = fnp.floor(periods)
        value = init_value * fnp.power(decay_rate, periods)
        value = fnp.where(elapsed <= 0, init_value, value)
        return value if end_value is None else bound(value, end_value)

    return schedule


def cosine_decay_schedule(
    init_value: Scalar, decay_steps: Scalar, alpha: Scalar = 0.0, exponent: Scalar = 1.0
) -> Schedule:
    """Half a cosine wave, from `init_value` to `alpha * init_value`.

    Source: I. Loshchilov, F. Hutter, "SGDR", 2017.

    Args:
      init_value: at the begin.
      decay_steps: how many steps it takes.
      alpha: the part of it that is left at the end.
      exponent: of the wave, which goes from 1 to 0.

    Returns:
      A function of a count of steps.

    Raises:
      ValueRangeError: `decay_steps` is not positive.

    Example:
      >>> from ftrace import optim
      >>> rate = optim.cosine_decay_schedule(1.0, decay_steps=100)
      >>> [round(float(rate(step)), 4) for step in (0, 50, 100)]
      [1.0, 0.5, 0.0]
    """
    _positive("cosine_decay_schedule: decay_steps", decay_steps)

    def schedule(count: Any) -> Any:
        part = fnp.minimum(count, decay_steps) / float(decay_steps)
        wave = 0.5 * (1 + fnp.cos(math.pi * part))
        return init_value * ((1 - alpha) * wave**exponent + alpha)

    return schedule


def join_schedules(
    schedules: Sequence[Schedule], boundaries: Sequence[int]
) -> Schedule:
    """Schedules one after the other; each counts from where it begins.

    Args:
      schedules: one more than there are boundaries.
      boundaries: the numbers of steps at which the next one begins.

    Returns:
      A function of a count of steps.

    Raises:
      ValueRangeError: the numbers of schedules and boundaries do not fit.

    Example:
      >>> from ftrace import optim
      >>> warmup = optim.linear_schedule(0.0, 1.0, 2)
      >>> rate = optim.join_schedules([warmup, optim.constant_schedule(0.5)], [2])
      >>> [float(rate(step)) for step in (0, 1, 2, 9)]
      [0.0, 0.5, 0.5, 0.5]
    """
    if len(schedules) != len(boundaries) + 1:
        raise ValueRangeError(
            f"join_schedules: {len(schedules)} schedules take {len(schedules) - 1} "
            f"boundaries, got {len(boundaries)}"
        )

    for schedule in schedules:
        base.check_scalar("join_schedules", "each of them", schedule, "Schedule")
    for boundary in boundaries:
        base.check_scalar("join_schedules", "each boundary", boundary)

    def schedule_at(step: Any) -> Any:
        value = schedules[0](step)
        for boundary, schedule in zip(boundaries, schedules[1:], strict=True):
            value = fnp.where(step < boundary, value, schedule(step - boundary))
        return value

    return schedule_at


def warmup_cosine_decay_schedule(
    init_value: Scalar,
    peak_value: Scalar,
    warmup_steps: Scalar,
    decay_steps: Scalar,
    end_value: Scalar = 0.0,
    exponent: Scalar = 1.0,
) -> Schedule:
    """A straight line up to `peak_value`, then half a cosine wave down.

    Args:
      init_value, peak_value, end_value: at the begin, after the warmup, at the end.
      warmup_steps: of the line.
      decay_steps: of both together.
      exponent: of the wave.

    Returns:
      A function of a count of steps.

    Raises:
      ValueRangeError: `decay_steps` is not more than `warmup_steps`.

    Example:
      >>> from ftrace import optim
      >>> rate = optim.warmup_cosine_decay_schedule(0.0, 1.0, 10, 110)
      >>> [round(float(rate(step)), 4) for step in (0, 5, 10, 60, 110)]
      [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    alpha = 0.0 if peak_value == 0.0 else end_value / peak_value
    warmup = linear_schedule(init_value, peak_value, warmup_steps)
    decay = cosine_decay_schedule(
        peak_value, decay_steps - warmup_steps, alpha, exponent
    )
    return join_schedules([warmup, decay], [warmup_steps])


def warmup_constant_schedule(
    init_value: Scalar, peak_value: Scalar, warmup_steps: Scalar
) -> Schedule:
    """A straight line up to `peak_value`, which stays.

    Args:
      init_value, peak_value: at the begin, and after the warmup.
      warmup_steps: of the line.

    Returns:
      A function of a count of steps.

    Example:
      >>> rate = ft.optim.warmup_constant_schedule(0.0, 1.0, 10)
      >>> float(rate(5)), float(rate(50))
      (0.5, 1.0)
    """
    return linear_schedule(init_value, peak_value, warmup_steps)


def warmup_exponential_decay_schedule(
    init_value: Scalar,
    peak_value: Scalar,
    warmup_steps: Scalar,
    transition_steps: Scalar,
    decay_rate: Scalar,
    transition_begin: Scalar = 0,
    staircase: bool = False,
    end_value: Scalar | None = None,
) -> Schedule:
    """A straight line up to `peak_value`, then `exponential_decay`.

    Args:
      init_value, peak_value: at the begin, and after the warmup.
      warmup_steps: of the line.
      transition_steps, decay_rate, transition_begin, staircase, end_value: as of
        `exponential_decay`, which counts from the end of the line.

    Returns:
      A function of a count of steps.

    Example:
      >>> rate = ft.optim.warmup_exponential_decay_schedule(0.0, 1.0, 10, 10, 0.5)
      >>> float(rate(10)), float(rate(20))
      (1.0, 0.5)
    """
    warmup = linear_schedule(init_value, peak_value, warmup_steps)
    decay = exponential_decay(
        peak_value, transition_steps, decay_rate, transition_begin, staircase, end_value
    )
    return join_schedules([warmup, decay], [warmup_steps])


def sgdr_schedule(cosine_kwargs: Sequence[dict[str, Any]]) -> Schedule:
    """Warmups and cosine waves one after the other (Loshchilov, Hutter, 2017).

    Args:
      cosine_kwargs: for each of them the arguments of `warmup_cosine_decay_schedule`.
    """
    rows = list(cosine_kwargs)
    ends = [sum(row["decay_steps"] for row in rows[: i + 1]) for i in range(len(rows))]
    return join_schedules([warmup_cosine_decay_schedule(**r) for r in rows], ends[:-1])


def piecewise_interpolate_schedule(
    interpolate_type: str,
    init_value: Scalar,
    boundaries_and_scales: dict[int, float] | None = None,
) -> Schedule:
    """A value that is multiplied by factors, and goes from one to the next.

    Args:
      interpolate_type: along a "linear" line, or half a "cosine" wave.
      init_value: at the begin.
      boundaries_and_scales: number of steps -> factor.

    Raises:
      ValueRangeError: a factor is negative, or there is no such type.

    Example:
      >>> rate = ft.optim.piecewise_interpolate_schedule("linear", 1.0, {10: 0.5})
      >>> float(rate(5))
      0.75
    """
    one_of(
        "piecewise_interpolate_schedule: interpolate_type",
        interpolate_type, ("linear", "cosine"),
    )  # fmt: skip
    table = _factors("piecewise_interpolate_schedule", boundaries_and_scales)

    def schedule(count: Any) -> Any:
        begin, value = 0, init_value
        found: Any = value
        for end, factor in table:
            part = (count - begin) / max(end - begin, 1)
            if interpolate_type == "cosine":
                part = (1 - fnp.cos(math.pi * part)) / 2
            line = value + (value * factor - value) * part
            found = fnp.where(count >= begin, line, found)
            begin, value = end, value * factor
        return fnp.where(count >= begin, value, found)

    return schedule


def _positive(name: str, steps: Any) -> None:
    if not steps > 0:
        raise ValueRangeError(f"{name} must be positive, got {steps}")


def _factors(name: str, table: dict[int, float] | None) -> list[tuple[int, float]]:
    """The boundaries and their factors in order.

    Raises:
      ValueRangeError: a factor is negative.
    """
    for boundary, factor in (table or {}).items():
        base.check_scalar(name, "each boundary", boundary)
        base.check_scalar(name, "each factor", factor)
    rows = sorted((table or {}).items())
    if any(factor < 0 for _, factor in rows):
        raise ValueRangeError(f"{name}: factors must not be negative, got {rows}")
    return rows


def linear_onecycle_schedule(
    transition_steps: Scalar,
    peak_value: Scalar,
    pct_start: Scalar = 0.3,
    pct_final: Scalar = 0.85,
    div_factor: Scalar = 25.0,
    final_div_factor: Scalar = 1e4,
) -> Schedule:
    """Up to `peak_value`, back, and on down, in straight lines (Smith, Topin, 2018).

    Args:
      transition_steps: of the whole.
      peak_value: the greatest one.
      pct_start, pct_final: the parts of the steps up to it, and back.
      div_factor: it over the value at the begin.
      final_div_factor: that over the value at the end.

    Raises:
      ValueRangeError: the number of steps is not positive.

    Example:
      >>> rate = ft.optim.linear_onecycle_schedule(100, 1.0)
      >>> float(rate(30))
      1.0
    """
    _positive("linear_onecycle_schedule: transition_steps", transition_steps)
    table = {
        int(pct_start * transition_steps): div_factor,
        int(pct_final * transition_steps): 1.0 / div_factor,
        transition_steps: 1.0 / final_div_factor,
    }
    return piecewise_interpolate_schedule("linear", peak_value / div_factor, table)


def cosine_onecycle_schedule(
    transition_steps: Scalar,
    peak_value: Scalar,
    pct_start: Scalar = 0.3,
    div_factor: Scalar = 25.0,
    final_div_factor: Scalar = 1e4,
) -> Schedule:
    """Up to `peak_value` and down, in half cosine waves (Smith, Topin, 2018).

    Args:
      transition_steps, peak_value, pct_start, div_factor, final_div_factor: as those of
        `linear_onecycle_schedule`.

    Raises:
      ValueRangeError: the number of steps is not positive.

    Example:
      >>> rate = ft.optim.cosine_onecycle_schedule(100, 1.0)
      >>> float(rate(30))
      1.0
    """
    _positive("cosine_onecycle_schedule: transition_steps", transition_steps)
    table = {
        int(pct_start * transition_steps): div_factor,
        int(transition_steps): 1.0 / (div_factor * final_div_factor),
    }
    return piecewise_interpolate_schedule("cosine", peak_value / div_factor, table)


# Hyperparameters in the state.

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

    Example:
      >>> from ftrace import optim
      >>> tx = optim.inject_hyperparams(optim.sgd)(learning_rate=0.1)
      >>> state = tx.init(fnp.zeros(1))
      >>> state.hyperparams["learning_rate"] = fnp.array(10.0)
      >>> tx.update(fnp.ones(1), state)[0]
      Array([-10.], dtype=float32)
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
        numbers, schedules = _hyperparams(
            {n: x for n, x in bound.arguments.items() if n not in static}
        )

        def build(values: dict[str, Any]) -> Any:
            again = inspect.BoundArguments(signature, bound.arguments | values)
            return with_extra_args_support(inner_factory(*again.args, **again.kwargs))

        def at(values: Any, states: Any, like: Tree, **extra: Any) -> dict[str, Any]:
            found = {n: f(states[n], **extra) for n, f in schedules.items()}
            both = values | found
            return {n: _as_array(x, hyperparam_dtype, like) for n, x in both.items()}

        def init(params: Tree) -> Any:
            states = {name: f.init() for name, f in schedules.items()}
            values = at(numbers, states, params)
            own = build(values).init(params)
            return InjectHyperparamsState(base.zero(), values, states, own)

        def update(updates: Tree, state: Any, params: Any = None, **extra: Any) -> Any:
            base.check_state("inject_hyperparams", state, InjectHyperparamsState)
            like = updates if params is None else params
            states = state.hyperparams_states
            values = at(state.hyperparams, states, like, **extra)
            step = build(values).update
            made, own = step(updates, state.inner_state, params, **extra)
            states = {n: f.update(states[n], **extra) for n, f in schedules.items()}
            count = base.increment(state.count)
            return made, InjectHyperparamsState(count, values, states, own)

        return GradientTransformationExtraArgs(init, update)

    return make


def _hyperparams(given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of arguments the numbers, and the schedules with a state."""
    numbers: dict[str, Any] = {}
    schedules: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, bool):
            continue
        if callable(value):
            stateful = hasattr(value, "init") and hasattr(value, "update")
            schedules[name] = value if stateful else WrappedSchedule(value)
        elif isinstance(value, (int, float, ArrayLike)) or hasattr(value, "__array__"):
            numbers[name] = value
    return numbers, schedules


def _as_array(value: Any, dtype: Any, like: Tree) -> Any:
    """A number; a float without a dtype of its own in that dtype, or that of `like`."""
    array = fnp.asarray(value)
    strong = hasattr(value, "dtype") and not getattr(value, "weak_type", False)
    if strong or not fnp.issubdtype(array.dtype, fnp.floating):
        return array
    return array.astype(dtype or trees.dtype(like, "highest"))


inject_stateful_hyperparams = inject_hyperparams


base.check_hyperparameters(__name__)

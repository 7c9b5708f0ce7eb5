"""Optimizers, and the transformations that they are chains of.

These scale updates: by a number, a schedule, or running moments; each is one formula.
"""

# pyright: reportUntypedNamedTuple=false

# Functions of arrays within are of any type.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import inspect
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import ftrace.numpy as fnp
from ftrace.errors import one_of
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.optim import base, tree as trees
from ftrace.optim.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    Scalar,
    ScalarOrSchedule,
    Schedule,
    Tree,
)
from ftrace.trace.eager.function_objects import member

__all__ = [
    "adagrad", "adam", "adamw", "add_decayed_weights", "clip", "clip_by_global_norm",
    "global_norm", "lion", "momentum", "rmsprop", "scale", "scale_by_adam",
    "scale_by_learning_rate", "scale_by_lion", "scale_by_rms", "scale_by_rss",
    "scale_by_schedule", "scale_by_stddev", "sgd", "trace",
]  # fmt: skip

#: The number of steps done.
CountState = namedtuple("CountState", "count")

#: The sum of past updates, each decayed by its age.
TraceState = namedtuple("TraceState", "trace")


class MomentState(NamedTuple):
    """Running means of updates and of their squares, where they are needed.

    Attributes:
      count: the number of steps done, for the correction of the bias of means that
        began at zero.
      mu: the mean of updates.
      nu: the mean of their squares.
    """

    count: Any = None
    mu: Tree = None
    nu: Tree = None


#: The sum of the squares of all updates.
RssState = namedtuple("RssState", "sum_of_squares")

#: The number of steps, and the running mean of updates.
LionState = namedtuple("LionState", "count mu")


# Numbers and schedules.


def scale(step_size: Scalar) -> GradientTransformation:
    """Updates times a number.

    Args:
      step_size: the number; negative for descent.

    Example:
      >>> from ftrace import optim
      >>> tx = optim.scale(-0.5)
      >>> tx.update(fnp.array([2.0, 4.0]), tx.init(None))[0]
      Array([-1., -2.], dtype=float32)
    """
    return base.of_each(lambda update: step_size * update)


def scale_by_schedule(step_size_fn: Schedule) -> GradientTransformation:
    """Updates times `step_size_fn(number of steps done)`.

    Args:
      step_size_fn: a function of a count of steps, which is 0 at first.

    Example:
      >>> from ftrace import optim
      >>> tx = optim.scale_by_schedule(lambda count: 1.0 / (1 + count))
      >>> first, state = tx.update(fnp.ones(1), tx.init(None))
      >>> first, tx.update(fnp.ones(1), state)[0]
      (Array([1.], dtype=float32), Array([0.5], dtype=float32))
    """

    def rule(count: Any) -> Any:
        size = fnp.asarray(step_size_fn(count - 1))
        return lambda update: (size.astype(update.dtype) * update,)

    return base.running("scale_by_schedule", CountState, rule)


def scale_by_learning_rate(
    learning_rate: ScalarOrSchedule | None = None, *, flip_sign: bool = True
) -> GradientTransformation:
    """Updates times minus the learning rate.

    Args:
      learning_rate: a number or a schedule; None is 1.
      flip_sign: False leaves out the minus.

    Example:
      >>> tx, w = ft.optim.scale_by_learning_rate(0.1), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([-0.05,  0.01], dtype=float32)
    """
    if learning_rate is None:
        return base.identity()
    sign = -1 if flip_sign else 1
    if callable(learning_rate):
        schedule: Schedule = learning_rate
        return scale_by_schedule(lambda count: sign * schedule(count))
    return scale(sign * learning_rate)


def add_decayed_weights(
    weight_decay: ScalarOrSchedule = 0.0, mask: Any = None
) -> GradientTransformation:
    """Updates plus the parameters times `weight_decay`, a number or a schedule.

    Args:
      weight_decay: a number or a schedule.
      mask: which parameters decay: a tree of bools, or a function that makes one.

    Raises:
      ArgumentError: `update` is called without the parameters.

    Example:
      >>> from ftrace import optim
      >>> tx = optim.add_decayed_weights(0.1, mask={"w": True, "b": False})
      >>> params = {"w": fnp.array([5.0]), "b": fnp.array([5.0])}
      >>> tx.update(params, tx.init(params), params)[0]
      {'w': Array([5.5], dtype=float32), 'b': Array([5.], dtype=float32)}
    """
    name = "add_decayed_weights"
    if callable(weight_decay):
        schedule: Schedule = weight_decay

        def rule(count: Any) -> Any:
            decay = schedule(count - 1)
            return lambda update, param: (update + decay * param,)

        made = base.running(name, CountState, rule, params="needed")
    else:
        made = base.with_params(name, lambda u, param: u + weight_decay * param)
    return made if mask is None else base.masked(made, mask)


# Moments.


def square_of(x: Any) -> Any:
    """|x|²."""
    return fnp.real(fnp.conj(x) * x) if fnp.iscomplexobj(x) else fnp.square(x)


def mix(update: Any, mean: Any, decay: Any) -> Any:
    """The running mean after another update."""
    return (1 - decay) * update + decay * mean


def bias_weight(decay: Any, count: Any) -> Any:
    """What a running mean that began at zero is divided by."""
    # A power of a float: one of an integer would be multiplied out, value by value.
    return 1 - decay ** fnp.asarray(count).astype(float)


def remove_bias(mean: Any, weight: Any) -> Any:
    """A running mean as if it had begun at the first value; None leaves it."""
    return mean if weight is None else mean / weight.astype(mean.dtype)


def over(mean: Any, square: Any, eps: Any, eps_root: Any = 0.0) -> Any:
    """The mean over the root of the square."""
    return mean / (fnp.sqrt(square + eps_root) + eps)


def of_moments(
    name: str,
    b1: Any,
    b2: Any,
    eps: Any,
    eps_root: Any = 0.0,
    mu_dtype: Any = None,
    nesterov: bool = False,
    square: Callable[[Any, Any, Any], Any] | None = None,
    begin: Any = 0,
    finish: Callable[[Any, Any, Any], Any] = lambda count, mean, made: made,
) -> GradientTransformation:
    """Means over roots of means of squares: Adam and its kin.

    Args:
      name: of the transformation.
      b1, b2: decays of the two.
      eps, eps_root: added outside and inside the root.
      mu_dtype: of the mean.
      nesterov: look one step ahead (Dozat, 2016).
      square: (update, mean, mean of squares) -> the next mean of squares.
      begin: what the means are at first.
      finish: (number of steps, unbiased mean, what is made of it) -> the update.
    """

    def rule(count: Any) -> Any:
        weight, of_square = bias_weight(b1, count), bias_weight(b2, count)
        later = bias_weight(b1, base.increment(count)) if nesterov else weight

        def divide(update: Any, mu: Any, nu: Any) -> tuple[Any, ...]:
            mean = mix(update, mu, b1)
            plain = mix(square_of(update), nu, b2)
            squares = plain if square is None else square(update, mean, nu)
            made = remove_bias(mean, later)
            if nesterov:
                made = mix(remove_bias(update, weight), made, b1)
            full = over(made, remove_bias(squares, of_square), eps, eps_root)
            kept = as_dtype(mean, mu_dtype), squares.astype(nu.dtype)
            return finish(count, made, full), *kept

        return divide

    mu, nu = (begin, mu_dtype), (begin, None)
    return base.running(name, MomentState, rule, mu=mu, nu=nu)


def as_dtype(x: Any, dtype: Any) -> Any:
    return x if dtype is None else x.astype(dtype)


def trace(
    decay: Scalar, nesterov: bool = False, accumulator_dtype: Any = None
) -> GradientTransformation:
    """The sum of past updates, decayed by `decay` per step: momentum.

    Args:
      decay: the factor per step.
      nesterov: look one step ahead (Nesterov, 1983; Sutskever et al., 2013).
      accumulator_dtype: of the sum, by default that of the parameters.

    Example:
      >>> from ftrace import optim
      >>> tx = optim.trace(0.5)
      >>> first, state = tx.update(fnp.ones(1), tx.init(fnp.zeros(1)))
      >>> first, tx.update(fnp.ones(1), state)[0]
      (Array([1.], dtype=float32), Array([1.5], dtype=float32))
    """

    def add(update: Any, before: Any) -> tuple[Any, Any]:
        total = update + decay * before
        made = update + decay * total if nesterov else total
        return made, as_dtype(total, accumulator_dtype)

    return base.running("trace", TraceState, add, trace=(0, accumulator_dtype))


def scale_by_adam(
    b1: Scalar = 0.9,
    b2: Scalar = 0.999,
    eps: Scalar = 1e-8,
    eps_root: Scalar = 0.0,
    mu_dtype: Any = None,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """Mean over root mean square of past updates (Kingma, Ba: Adam, 2015).

    Args:
      b1, b2: decays of the means of updates and of their squares.
      eps, eps_root: added outside and inside the root.
      mu_dtype: of the mean of updates, by default that of the parameters.
      nesterov: look one step ahead (Dozat, 2016).

    Example:
      >>> from ftrace import optim
      >>> tx = optim.chain(optim.scale_by_adam(), optim.scale(-0.1))  # is adam(0.1)
      >>> params = fnp.zeros(2)
      >>> tx.update(fnp.array([1e-3, -50.0]), tx.init(params), params)[0]
      Array([-0.09999833,  0.09999934], dtype=float32)
    """
    return of_moments("scale_by_adam", b1, b2, eps, eps_root, mu_dtype, nesterov)


def _over_deviation(name: str, centered: bool):
    """Updates over the root of their mean square, or of their variance."""

    def over_deviation(
        decay: Scalar = 0.9,
        eps: Scalar = 1e-8,
        initial_scale: Scalar = 0.0,
        eps_in_sqrt: bool = True,
        bias_correction: bool = False,
    ) -> GradientTransformation:
        def rule(count: Any) -> Any:
            weight = bias_weight(decay, count) if bias_correction else None

            def divide(update: Any, nu: Any, *mu: Any) -> tuple[Any, ...]:
                means = [mix(update, mean, decay) for mean in mu]
                square = mix(square_of(update), nu, decay)
                spread = remove_bias(square, weight)
                for mean in means:
                    spread = spread - square_of(remove_bias(mean, weight))
                if eps_in_sqrt:
                    return update / fnp.sqrt(spread + eps), square, *means
                return update / (fnp.sqrt(spread) + eps), square, *means

            return divide

        return base.running(
            name, MomentState, rule, "nu mu" if centered else "nu", bias_correction,
            nu=(initial_scale, None),
        )  # fmt: skip

    return over_deviation


@member(_over_deviation, centered=False)
def scale_by_rms():
    """Updates over the root of the running mean of their squares (Hinton, 2012).

    Args:
      decay: of the mean.
      eps: keeps the divisor from zero; `eps_in_sqrt` adds it inside the root.
      initial_scale: of the mean.
      eps_in_sqrt: see `eps`.
      bias_correction: of the mean, as Adam does.

    Example:
      >>> tx, w = ft.optim.scale_by_rms(), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([ 3.162277, -3.162262], dtype=float32)
    """


@member(_over_deviation, centered=True)
def scale_by_stddev():
    """Updates over their running standard deviation (Graves, 2013).

    Args:
      decay: of the means.
      eps: keeps the divisor from zero; `eps_in_sqrt` adds it inside the root.
      initial_scale: of the mean of squares.
      eps_in_sqrt: see `eps`.
      bias_correction: of the means, as Adam does.

    Example:
      >>> tx, w = ft.optim.scale_by_stddev(), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([ 3.3333325, -3.333315 ], dtype=float32)
    """


def scale_by_rss(
    initial_accumulator_value: Scalar = 0.1, eps: Scalar = 1e-7
) -> GradientTransformation:
    """Updates over the root of the sum of all their squares (Duchi et al., 2011).

    Args:
      initial_accumulator_value: with what the sum begins.
      eps: added to the sum before the root.

    Example:
      >>> tx, w = ft.optim.scale_by_rss(), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([ 0.84515417, -0.30151123], dtype=float32)
    """

    def divide(update: Any, before: Any) -> tuple[Any, Any]:
        total = square_of(update) + before
        known = total > 0
        root = fnp.sqrt(fnp.where(known, total + eps, 1))
        return fnp.where(known, update / root, 0), total

    begin = (initial_accumulator_value, None)
    return base.running("scale_by_rss", RssState, divide, sum_of_squares=begin)


def scale_by_lion(
    b1: Scalar = 0.9,
    b2: Scalar = 0.99,
    mu_dtype: Any = None,
    *,
    mode: str = "hard",
    smooth_beta: Scalar = 1.0,
) -> GradientTransformation:
    """The sign of the update mixed with the mean of past ones (Chen et al., 2023).

    Args:
      b1, b2: decays of past updates, in the update and in the state.
      mu_dtype: of the mean of updates, by default that of the parameters.
      mode: "hard"; "smooth", which is tanh(smooth_beta·x); or "refined", which is x
        between -1 and 1.
      smooth_beta: see there.

    Raises:
      ValueRangeError: there is no such mode.

    Example:
      >>> tx, w = ft.optim.scale_by_lion(), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([ 1., -1.], dtype=float32)
    """
    one_of("scale_by_lion: mode", mode, ("hard", "smooth", "refined"))

    def direction(x: Any) -> Any:
        if mode == "smooth":
            return fnp.tanh(smooth_beta * x)
        return fnp.sign(x) if mode == "hard" else fnp.clip(x, -1, 1)

    def signs(update: Any, mu: Any) -> tuple[Any, Any]:
        mean = as_dtype(mix(update, mu, b2), mu_dtype)
        return direction(mix(update, mu, b1)), mean

    return base.running("scale_by_lion", LionState, lambda _: signs, mu=(0, mu_dtype))


# Updates kept small: each element, or the length of all of them together.


def clip(max_delta: Scalar) -> GradientTransformation:
    """Every element of the updates, moved into [-max_delta, max_delta].

    Args:
      max_delta: the bound.

    Example:
      >>> from ftrace import optim
      >>> tx = optim.clip(1.0)
      >>> tx.update(fnp.array([-3.0, 0.5, 2.0]), tx.init(None))[0]
      Array([-1. ,  0.5,  1. ], dtype=float32)
    """
    return base.of_each(lambda update: fnp.clip(update, -max_delta, max_delta))


def global_norm(updates: Tree) -> Any:
    """The root of the sum of the squares of all elements of all arrays.

    Args:
      updates: a tree of arrays.

    Returns:
      A scalar.

    Example:
      >>> from ftrace import optim
      >>> optim.global_norm({"w": fnp.array([3.0]), "b": fnp.array([4.0])})
      Array(5., dtype=float32)
    """
    return trees.norm(updates)


def clip_by_global_norm(max_norm: Scalar) -> GradientTransformation:
    """All updates scaled down together where their global norm exceeds `max_norm`.

    Args:
      max_norm: the bound of the norm, which is that of all arrays together.

    Source: R. Pascanu, T. Mikolov, Y. Bengio, "On the difficulty of training
    recurrent neural networks", 2013.

    Example:
      >>> from ftrace import optim
      >>> tx = optim.clip_by_global_norm(1.0)
      >>> tx.update({"w": fnp.array([3.0]), "b": fnp.array([4.0])}, tx.init(None))[0]
      {'w': Array([0.6], dtype=float32), 'b': Array([0.8], dtype=float32)}
    """

    def shorten(updates: Tree, _: Tree | None) -> Tree:
        norm = global_norm(updates)
        small = norm < max_norm
        return base.each(
            lambda x: fnp.where(small, x, x / norm.astype(x.dtype) * max_norm), updates
        )

    return base.stateless(shorten)


# Optimizers: chains of these, ending in minus the learning rate.


def optimizer_of(
    name: str,
    scaled: Callable[..., GradientTransformation],
    without: str = "",
    decay: float | None = None,
    after: Callable[[], GradientTransformation] = base.identity,
    **defaults: Any,
):
    """An optimizer with the arguments of a transformation, after the learning rate.

    Args:
      name: of the optimizer.
      scaled: makes the transformation.
      without: names of its arguments that are not offered.
      decay: the default of `weight_decay`, if the optimizer has that and `mask`.
      after: makes what comes between those weights and the learning rate.
      defaults: of arguments that have others than in `scaled`.
    """
    own = [
        p.replace(default=defaults.get(p.name, p.default))
        for p in inspect.signature(scaled).parameters.values()
        if p.name not in without.split()
    ]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD

    def argument(name: str, annotation: str, default: Any) -> inspect.Parameter:
        return inspect.Parameter(name, kind, default=default, annotation=annotation)

    decays = [
        argument("weight_decay", "ScalarOrSchedule", decay),
        argument("mask", "Any", None),
    ]
    rate = argument("learning_rate", "ScalarOrSchedule", inspect.Parameter.empty)
    first = [p for p in own if p.kind is kind]
    rest = [p for p in own if p.kind is not kind]
    every = [rate, *first, *([] if decay is None else decays), *rest]
    made = GradientTransformationExtraArgs
    shape = inspect.Signature(every, return_annotation=made)

    def optimizer(*args: Any, **kwargs: Any) -> GradientTransformationExtraArgs:
        given = shape.bind(*args, **kwargs)
        given.apply_defaults()
        values = given.arguments
        parts = [scaled(**{p.name: values[p.name] for p in own})]
        if decay is not None:
            parts.append(add_decayed_weights(values["weight_decay"], values["mask"]))
        if after is not base.identity:
            parts.append(after())
        return base.chain(*parts, scale_by_learning_rate(values["learning_rate"]))

    shown: Any = optimizer
    shown.__signature__ = shape
    shown.__annotations__ = {p.name: p.annotation for p in shape.parameters.values()}
    return optimizer


def sgd(
    learning_rate: ScalarOrSchedule,
    momentum: Scalar | None = None,
    nesterov: bool = False,
    accumulator_dtype: Any = None,
) -> GradientTransformation:
    """Gradient descent, with momentum where `momentum` is a number.

    Args:
      learning_rate: a number or a schedule.
      momentum: the decay of past updates per step.
      nesterov: look one step ahead.
      accumulator_dtype: of the momentum, by default that of the parameters.

    Returns:
      A pair (init, update), as all optimizers: update(gradients, state, params) ->
      (updates, state), to be added by `apply_updates`.

    Example:
      >>> from ftrace import optim
      >>> tx = optim.sgd(0.1, momentum=0.9)
      >>> params = {"w": fnp.array([1.0, 2.0])}
      >>> state = tx.init(params)
      >>> for step in range(2):
      ...     grads = ft.grad(lambda p: fnp.sum(p["w"] ** 2))(params)
      ...     updates, state = tx.update(grads, state, params)
      ...     params = optim.apply_updates(params, updates)
      >>> params
      {'w': Array([0.46, 0.92], dtype=float32)}
    """
    rate = scale_by_learning_rate(learning_rate)
    if momentum is None:
        return base.chain(base.identity(), rate)
    return base.chain(trace(momentum, nesterov, accumulator_dtype), rate)


def momentum(
    learning_rate: ScalarOrSchedule, decay: Scalar = 0.9, nesterov: bool = False
) -> GradientTransformation:
    """Gradient descent with momentum: `sgd(learning_rate, decay, nesterov)`.

    Args:
      learning_rate: a number or a schedule.
      decay: of past updates per step.
      nesterov: look one step ahead.

    Example:
      >>> tx, w = ft.optim.momentum(0.1), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([-0.05,  0.01], dtype=float32)
    """
    return sgd(learning_rate, decay, nesterov)


@member(optimizer_of, scale_by_adam)
def adam():
    """Adam (Kingma, Ba, 2015).

    With the gradient g of step t, from m = v = 0:

        m ← b1·m + (1 - b1)·g        m̂ = m / (1 - b1^t)
        v ← b2·v + (1 - b2)·g²       v̂ = v / (1 - b2^t)
        update = -learning_rate·m̂ / (√(v̂ + eps_root) + eps)

    Args:
      learning_rate: a number or a schedule.
      b1, b2: decays of the means of gradients and of their squares.
      eps, eps_root: added outside and inside the root.
      mu_dtype: of the mean of gradients, by default that of the parameters.
      nesterov: look one step ahead (Dozat, 2016).

    Example:
      >>> from ftrace import optim
      >>> tx = optim.adam(0.1)
      >>> params = fnp.array([1.0, -200.0])
      >>> updates, state = tx.update(fnp.array([1e-3, 500.0]), tx.init(params), params)
      >>> updates  # the first step is as long as the learning rate
      Array([-0.09999833, -0.09999933], dtype=float32)
    """


@member(optimizer_of, scale_by_adam, decay=1e-4)
def adamw():
    """Adam with decoupled weight decay (Loshchilov, Hutter, 2019).

    Args:
      learning_rate: a number or a schedule.
      b1, b2: decays of the means of gradients and of their squares.
      eps, eps_root: added outside and inside the root.
      mu_dtype: of the mean of gradients, by default that of the parameters.
      weight_decay: the part of a parameter taken off per step, times the learning
        rate; a number or a schedule.
      mask: which parameters decay: a tree of bools, or a function that makes one.
      nesterov: look one step ahead.

    Raises:
      ArgumentError: `update` is called without the parameters, which decay needs.

    Example:
      >>> from ftrace import optim
      >>> tx = optim.adamw(0.1, weight_decay=0.5)
      >>> params = fnp.array([2.0])
      >>> tx.update(fnp.zeros(1), tx.init(params), params)[0]  # -0.1·0.5·2
      Array([-0.1], dtype=float32)
    """


def rmsprop(
    learning_rate: ScalarOrSchedule,
    decay: Scalar = 0.9,
    eps: Scalar = 1e-8,
    initial_scale: Scalar = 0.0,
    eps_in_sqrt: bool = True,
    centered: bool = False,
    momentum: Scalar | None = None,
    nesterov: bool = False,
    bias_correction: bool = False,
) -> GradientTransformation:
    """RMSProp (Hinton, 2012).

    Args:
      learning_rate: a number or a schedule.
      decay: of the mean of squared gradients.
      eps: keeps the divisor from zero; `eps_in_sqrt` adds it inside the root.
      initial_scale: of that mean.
      eps_in_sqrt: see `eps`.
      centered: divide by the standard deviation instead (Graves, 2013).
      momentum: the decay of past updates per step, or None.
      nesterov: look one step ahead with the momentum.
      bias_correction: of the means, as Adam does.

    Example:
      >>> from ftrace import optim
      >>> tx = optim.rmsprop(0.1, decay=0.75)
      >>> params = fnp.zeros(2)
      >>> tx.update(fnp.array([4.0, -1.0]), tx.init(params), params)[0]  # g / √(g²/4)
      Array([-0.2,  0.2], dtype=float32)
    """
    make = scale_by_stddev if centered else scale_by_rms
    return base.chain(
        make(decay, eps, initial_scale, eps_in_sqrt, bias_correction),
        scale_by_learning_rate(learning_rate),
        base.identity() if momentum is None else trace(momentum, nesterov),
    )


@member(optimizer_of, scale_by_rss)
def adagrad():
    """AdaGrad (Duchi, Hazan, Singer, 2011): see `scale_by_rss`.

    Args:
      learning_rate: a number or a schedule.
      initial_accumulator_value: with what the sum of squares begins.
      eps: added to it before the root.

    Example:
      >>> from ftrace import optim
      >>> tx = optim.adagrad(0.1, initial_accumulator_value=0.0)
      >>> params = fnp.zeros(1)
      >>> first, state = tx.update(fnp.array([3.0]), tx.init(params), params)
      >>> second, state = tx.update(fnp.array([4.0]), state, params)
      >>> first, fnp.round(second, 5)  # 3/3, then 4/√(3² + 4²)
      (Array([-0.1], dtype=float32), Array([-0.08], dtype=float32))
    """


@member(optimizer_of, scale_by_lion, "mode smooth_beta", decay=1e-3)
def lion():
    """Lion (Chen et al., 2023).

    Args:
      learning_rate: a number or a schedule.
      b1, b2: decays of past gradients, in the update and in the state.
      mu_dtype: of the mean of gradients, by default that of the parameters.
      weight_decay: a number or a schedule.
      mask: which parameters decay: a tree of bools, or a function that makes one.

    Example:
      >>> from ftrace import optim
      >>> tx = optim.lion(0.1, weight_decay=0.0)
      >>> params = fnp.zeros(3)
      >>> tx.update(fnp.array([1e-3, -50.0, 0.0]), tx.init(params), params)[0]
      Array([-0.1,  0.1, -0. ], dtype=float32)
    """


base.check_hyperparameters(__name__)

"""More transformations that scale updates: each is one formula, with its source.

`base.running` makes those of values that run along with each parameter.
"""

# Functions of arrays within are of any type.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUntypedNamedTuple=false

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import ftrace.numpy as fnp
from ftrace.custom_derivatives import custom_vjp
from ftrace.errors import ArgumentError, one_of
from ftrace.optim import base, optimizers as basic, tree as trees
from ftrace.optim.base import GradientTransformation, Scalar, Tree
from ftrace.optim.optimizers import MomentState, mix, over

__all__ = [
    "apply_every", "centralize", "ema", "normalize_by_update_norm", "safe_norm",
    "safe_root_mean_squares", "scale_gradient", "scale_by_adadelta",
    "scale_by_adamax", "scale_by_adan", "scale_by_amsgrad", "scale_by_belief",
    "scale_by_distance_over_gradients", "scale_by_factored_rms", "scale_by_novograd",
    "scale_by_optimistic_gradient", "scale_by_param_block_norm",
    "scale_by_param_block_rms", "scale_by_polyak", "scale_by_radam", "scale_by_rprop",
    "scale_by_sign", "scale_by_sm3", "scale_by_trust_ratio", "scale_by_yogi",
]  # fmt: skip

#: Running means, and the greatest mean of squares.
AmsgradState = namedtuple("AmsgradState", "count mu nu nu_max")

#: Means of updates, of their differences, of squares; the last update.
AdanState = namedtuple("AdanState", "m v n g t")

#: Running means of the squares of gradients and of steps.
AdaDeltaState = namedtuple("AdaDeltaState", "e_g e_x")

#: The number of steps, and the running mean.
EmaState = namedtuple("EmaState", "count ema")

#: The step of each element, and what was done last.
RpropState = namedtuple("RpropState", "step_sizes prev_updates")

#: The number of steps since the last one that counted, and the sum since.
ApplyEveryState = namedtuple("ApplyEveryState", "count grad_acc")

#: Bounds of squares along each axis, and the running mean.
SM3State = namedtuple("SM3State", "mu nu")

#: Is it the first step? And the last update.
OptimisticState = namedtuple("OptimisticState", "is_initial_step previous_gradient")

#: How far parameters have gone, the sum of squares, and where they began.
DistanceState = namedtuple("DistanceState", "max_dist grad_sum_of_squares init_params")

#: Means of squares by row and by column, or of all of them.
FactoredState = namedtuple("FactoredState", "count v_row v_col v")


def scale_by_amsgrad(
    b1: Scalar = 0.9,
    b2: Scalar = 0.999,
    eps: Scalar = 1e-8,
    eps_root: Scalar = 0.0,
    mu_dtype: Any = None,
    bias_correction_mu: bool = True,
    bias_correction_nu: bool = True,
) -> GradientTransformation:
    """Adam with the greatest mean of squares so far (Reddi, Kale, Kumar, 2018).

    Args:
      b1, b2: decays of the means of updates and of their squares.
      eps, eps_root: added outside and inside the root.
      mu_dtype: of the mean of updates, by default that of the parameters.
      bias_correction_mu, bias_correction_nu: correct the two means as Adam does.

    Example:
      >>> tx, w = ft.optim.scale_by_amsgrad(), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([ 0.9999933, -0.9999933], dtype=float32)
    """

    def rule(count: Any) -> Any:
        of_mean = basic.bias_weight(b1, count) if bias_correction_mu else None
        of_square = basic.bias_weight(b2, count) if bias_correction_nu else None

        def divide(update: Any, mu: Any, nu: Any, most: Any) -> tuple[Any, ...]:
            mean, square = mix(update, mu, b1), mix(basic.square_of(update), nu, b2)
            most = fnp.maximum(most, basic.remove_bias(square, of_square))
            made = over(basic.remove_bias(mean, of_mean), most, eps, eps_root)
            return made, basic.as_dtype(mean, mu_dtype), square, most

        return divide

    return base.running("scale_by_amsgrad", AmsgradState, rule, mu=(0, mu_dtype))


def scale_by_adamax(
    b1: Scalar = 0.9, b2: Scalar = 0.999, eps: Scalar = 1e-8
) -> GradientTransformation:
    """Mean over decayed maximum of past updates (Kingma, Ba, 2015, section 7).

    Args:
      b1: the decay of the mean of updates.
      b2: the decay of the maximum of their absolute values.
      eps: keeps the divisor from zero.

    Example:
      >>> tx, w = ft.optim.scale_by_adamax(), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([ 0.99999976, -0.99999976], dtype=float32)
    """

    def rule(count: Any) -> Any:
        weight = basic.bias_weight(b1, count)

        def divide(update: Any, mu: Any, nu: Any) -> tuple[Any, ...]:
            mean, most = mix(update, mu, b1), fnp.maximum(abs(update) + eps, b2 * nu)
            return basic.remove_bias(mean, weight) / most, mean, most

        return divide

    return base.running("scale_by_adamax", MomentState, rule)


def scale_by_belief(
    b1: Scalar = 0.9,
    b2: Scalar = 0.999,
    eps: Scalar = 1e-16,
    eps_root: Scalar = 1e-16,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """Adam with squares of what the mean did not foresee (Zhuang et al., 2020).

    Args:
      b1, b2: decays of the means of updates, and of the squares of what these did not
        foresee.
      eps, eps_root: added outside and inside the root.
      nesterov: look one step ahead (Dozat, 2016).

    Example:
      >>> tx, w = ft.optim.scale_by_belief(), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([ 1.1111037, -1.1111038], dtype=float32)
    """

    def square(update: Any, mean: Any, nu: Any) -> Any:
        return mix(basic.square_of(update - mean), nu, b2) + eps_root

    return basic.of_moments(
        "scale_by_belief", b1, b2, eps, nesterov=nesterov, square=square
    )


def scale_by_yogi(
    b1: Scalar = 0.9,
    b2: Scalar = 0.999,
    eps: Scalar = 1e-3,
    eps_root: Scalar = 0.0,
    initial_accumulator_value: Scalar = 1e-6,
) -> GradientTransformation:
    """Adam whose squares move by steps of their sign (Zaheer et al., 2018).

    Args:
      b1, b2: decays of the means of updates and of their squares.
      eps, eps_root: added outside and inside the root.
      initial_accumulator_value: what both means are at first.

    Example:
      >>> tx, w = ft.optim.scale_by_yogi(), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([ 0.9960292, -0.9443663], dtype=float32)
    """

    def square(update: Any, mean: Any, nu: Any) -> Any:
        now = basic.square_of(update)
        return nu - (1 - b2) * fnp.sign(nu - now) * now

    begin = initial_accumulator_value
    return basic.of_moments(
        "scale_by_yogi", b1, b2, eps, eps_root, square=square, begin=begin
    )


def scale_by_radam(
    b1: Scalar = 0.9,
    b2: Scalar = 0.999,
    eps: Scalar = 1e-8,
    eps_root: Scalar = 0.0,
    threshold: Scalar = 5.0,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """Adam that rectifies the variance of its first steps (Liu et al., 2020).

    Args:
      b1, b2: decays of the means of updates and of their squares.
      eps, eps_root: added outside and inside the root.
      threshold: of the length of the approximated average, below which the mean alone
        is taken.
      nesterov: look one step ahead (Dozat, 2016).

    Example:
      >>> tx, w = ft.optim.scale_by_radam(), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([ 0.49999988, -0.09999999], dtype=float32)
    """
    most = 2.0 / (1.0 - b2) - 1.0

    def rectify(count: Any, mean: Any, made: Any) -> Any:
        # The length of the average that has the variance of the mean of squares.
        decayed = 1 - basic.bias_weight(b2, count)
        length = most - 2 * count * decayed / (1 - decayed)
        ratio = (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)
        enough = length >= threshold
        ratio = fnp.sqrt(fnp.where(enough, ratio, 1))
        return fnp.where(enough, ratio.astype(made.dtype) * made, mean)

    return basic.of_moments(
        "scale_by_radam", b1, b2, eps, eps_root, nesterov=nesterov, finish=rectify
    )  # fmt: skip


def scale_by_adadelta(rho: Scalar = 0.9, eps: Scalar = 1e-6) -> GradientTransformation:
    """Updates in the scale of past steps (Zeiler, 2012).

    Args:
      rho: the decay of the means of squares, of updates and of steps.
      eps: added to both before the root.

    Example:
      >>> tx, w = ft.optim.scale_by_adadelta(), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([ 0.00316221, -0.0031607 ], dtype=float32)
    """

    def divide(update: Any, e_g: Any, e_x: Any) -> tuple[Any, ...]:
        square = mix(update**2, e_g, rho)
        made = fnp.sqrt(e_x + eps) / fnp.sqrt(square + eps) * update
        return made, square, mix(made**2, e_x, rho)

    return base.running("scale_by_adadelta", AdaDeltaState, divide)


def scale_by_adan(
    b1: Scalar = 0.98,
    b2: Scalar = 0.92,
    b3: Scalar = 0.99,
    eps: Scalar = 1e-8,
    eps_root: Scalar = 0.0,
) -> GradientTransformation:
    """Adaptive Nesterov momentum (Xie et al., 2022).

    Args:
      b1, b2, b3: decays of the means of updates, of their differences, and of squares.
      eps, eps_root: added outside and inside the root.

    Example:
      >>> tx, w = ft.optim.scale_by_adan(), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([ 1.0000005, -1.0000004], dtype=float32)
    """

    def rule(count: Any) -> Any:
        weights = [basic.bias_weight(b, count) for b in (b1, b2, b3)]

        def divide(update: Any, m: Any, v: Any, n: Any, g: Any) -> tuple[Any, ...]:
            change = fnp.where(count == 1, 0, update - g)
            m, v = mix(update, m, b1), mix(change, v, b2)
            n = mix(basic.square_of(update + (1 - b2) * change), n, b3)
            means = map(basic.remove_bias, (m, v, n), weights)
            mean, slope, square = means
            made = over(mean + (1 - b2) * slope, square, eps, eps_root)
            return made, m, v, n, update

        return divide

    return base.running("scale_by_adan", AdanState, rule)


def ema(
    decay: Scalar, debias: bool = True, accumulator_dtype: Any = None
) -> GradientTransformation:
    """The running mean of updates.

    Args:
      decay: the weight of the past per step.
      debias: divide by the sum of the weights.
      accumulator_dtype: of the mean, by default that of the parameters.

    Example:
      >>> from ftrace import optim
      >>> tx = optim.ema(0.5)
      >>> first, state = tx.update(fnp.array([2.0]), tx.init(fnp.zeros(1)))
      >>> first, tx.update(fnp.array([8.0]), state)[0]
      (Array([2.], dtype=float32), Array([6.], dtype=float32))
    """

    def rule(count: Any) -> Any:
        weight = basic.bias_weight(decay, count) if debias else None

        def average(update: Any, mean: Any) -> tuple[Any, Any]:
            mean = mix(update, mean, decay)
            return basic.remove_bias(mean, weight), basic.as_dtype(
                mean, accumulator_dtype
            )

        return average

    return base.running("ema", EmaState, rule, ema=(0, accumulator_dtype))


def scale_by_rprop(
    learning_rate: Scalar,
    eta_minus: Scalar = 0.5,
    eta_plus: Scalar = 1.2,
    min_step_size: Scalar = 1e-6,
    max_step_size: Scalar = 50.0,
) -> GradientTransformation:
    """Steps that grow while signs stay, and shrink where they turn (Riedmiller, 1993).

    As in optax each is taken one update later than it is made.

    Args:
      learning_rate: the first step of each element.
      eta_minus, eta_plus: factors of steps where signs turn, and where they stay.
      min_step_size, max_step_size: bounds of steps.

    Example:
      >>> tx, w = ft.optim.scale_by_rprop(0.1), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([0., 0.], dtype=float32)
    """

    def step(update: Any, size: Any, before: Any) -> tuple[Any, ...]:
        same = update * before
        factor = fnp.where(same > 0, eta_plus, eta_minus)
        moved = fnp.clip(size * factor, min_step_size, max_step_size)
        size = fnp.where(same == 0, size, moved)
        last = fnp.where(same < 0, 0, size * fnp.sign(update))
        return fnp.where(same < 0, 0, before), size, last

    begin = (learning_rate, None)
    return base.running("scale_by_rprop", RpropState, step, step_sizes=begin)


def apply_every(k: Scalar = 1) -> GradientTransformation:
    """Every k-th update is the sum of the last k, the others are 0.

    Args:
      k: the number of steps.

    Example:
      >>> from ftrace import optim
      >>> tx = optim.apply_every(2)
      >>> first, state = tx.update(fnp.array([1.0]), tx.init(fnp.zeros(1)))
      >>> first, tx.update(fnp.array([3.0]), state)[0]
      (Array([0.], dtype=float32), Array([4.], dtype=float32))
    """

    def init(params: Tree) -> Any:
        return ApplyEveryState(fnp.zeros((), "int32"), trees.zeros_like(params))

    def update(updates: Tree, state: Any, params: Tree | None = None) -> Any:
        base.check_state("apply_every", state, ApplyEveryState)
        place = state.count % k
        total = base.each(lambda g, t: (place != 0) * t + g, updates, state.grad_acc)
        made = base.each(lambda t: (place == k - 1) * t, total)
        return made, ApplyEveryState(base.increment(state.count) % k, total)

    return GradientTransformation(init, update)


# Without a state.


def scale_by_sign() -> GradientTransformation:
    """The signs of updates.

    Example:
      >>> tx, w = ft.optim.scale_by_sign(), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([ 1., -1.], dtype=float32)
    """
    return base.of_each(fnp.sign)


def centralize() -> GradientTransformation:
    """Arrays of several axes less their means over all but the first (Yong, 2020).

    Example:
      >>> tx, w = ft.optim.centralize(), fnp.ones((1, 2))
      >>> updates, state = tx.update(fnp.array([[1.0, 3.0]]), tx.init(w), w)
      >>> updates
      Array([[-1.,  1.]], dtype=float32)
    """

    def subtract(g: Any) -> Any:
        axes = tuple(range(1, g.ndim))
        return g - g.mean(axes, keepdims=True) if axes else g

    return base.of_each(subtract)


def normalize_by_update_norm(
    scale_factor: Scalar = 1.0, eps: Scalar = 1e-6
) -> GradientTransformation:
    """All updates over their global norm, times `scale_factor`.

    Args:
      scale_factor: the norm afterwards.
      eps: added to the norm.

    Example:
      >>> tx, w = ft.optim.normalize_by_update_norm(), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([ 0.9805787 , -0.19611575], dtype=float32)
    """

    def divide(updates: Tree, _: Tree | None) -> Tree:
        norm = (trees.norm(updates) + eps) / scale_factor
        return base.each(lambda g: g / norm, updates)

    return base.stateless(divide)


def safe_norm(
    x: Any, min_norm: Any, ord: Any = None, axis: Any = None, keepdims: bool = False
) -> Any:
    """The norm, at least `min_norm`, where its slope is 0; see `linalg.norm`.

    Args:
      x: an array.
      min_norm: the bound.
      ord, axis, keepdims: as those of `linalg.norm`.

    Example:
      >>> ft.optim.safe_norm(fnp.zeros(2), 0.5)
      Array(0.5, dtype=float32)
    """
    norm = partial(fnp.linalg.norm, ord=ord, axis=axis)
    small = norm(x, keepdims=True) <= min_norm
    made = norm(fnp.where(small, 1, x), keepdims=keepdims)
    return fnp.where(small.reshape(made.shape), min_norm, made)


def safe_root_mean_squares(x: Any, min_rms: Any) -> Any:
    """The root mean square, at least `min_rms`, where its slope is 0.

    Args:
      x: an array.
      min_rms: the bound.

    Returns:
      A scalar.

    Example:
      >>> ft.optim.safe_root_mean_squares(fnp.array([3.0, 4.0]), 0.1)
      Array(3.535534, dtype=float32)
    """
    root = math.sqrt(max(fnp.size(x), 1))
    return safe_norm(fnp.ravel(x), min_rms * root) / root


def scale_gradient(inputs: Tree, scale: Any) -> Tree:
    """The same values; gradients are scaled.

    Args:
      inputs: a tree of arrays.
      scale: a number: 0 stops the gradient, -1 reverses it.

    Example:
      >>> from ftrace import optim
      >>> ft.grad(lambda x: optim.scale_gradient(x, -1.0) ** 2)(3.0)
      Array(-6., dtype=float32, weak_type=True)
    """
    if isinstance(scale, (int, float)) and scale == 1:
        return inputs
    return _scale_gradient(inputs, scale)


@custom_vjp
def _scale_gradient(inputs: Tree, scale: Any) -> Tree:
    return inputs


_scale_gradient.defvjp(
    lambda inputs, scale: (inputs, scale),
    lambda scale, cotangents: (trees.scale(scale, cotangents), None),
)


def scale_by_trust_ratio(
    min_norm: Scalar = 0.0, trust_coefficient: Scalar = 1.0, eps: Scalar = 0.0
) -> GradientTransformation:
    """Each array times its parameter's norm over its own (You et al., 2017).

    Args:
      min_norm: the least that both norms are taken for.
      trust_coefficient: a factor of the ratio.
      eps: added to the norm of the update.

    Raises:
      ArgumentError: `update` is called without the parameters.

    Example:
      >>> tx, w = ft.optim.scale_by_trust_ratio(), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([ 2.192645, -0.438529], dtype=float32)
    """

    def scale(update: Any, param: Any) -> Any:
        of_param, of_update = safe_norm(param, min_norm), safe_norm(update, min_norm)
        nothing = (of_param == 0) | (of_update == 0)
        ratio = trust_coefficient * of_param / (of_update + eps)
        return update * fnp.where(nothing, fnp.ones((), param.dtype), ratio)

    return base.with_params("scale_by_trust_ratio", scale)


def scale_by_param_block_norm(min_scale: Scalar = 1e-3) -> GradientTransformation:
    """Each array times the norm of its parameter, or `min_scale`.

    Args:
      min_scale: the least factor.

    Raises:
      ArgumentError: `update` is called without the parameters.

    Example:
      >>> tx, w = ft.optim.scale_by_param_block_norm(), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([ 1.118034  , -0.22360681], dtype=float32)
    """
    return base.with_params(
        "scale_by_param_block_norm", lambda u, p: u * safe_norm(p, min_scale)
    )


def scale_by_param_block_rms(min_scale: Scalar = 1e-3) -> GradientTransformation:
    """Each array times the root mean square of its parameter, or `min_scale`.

    Args:
      min_scale: the least factor.

    Raises:
      ArgumentError: `update` is called without the parameters.

    Example:
      >>> tx, w = ft.optim.scale_by_param_block_rms(), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([ 0.7905694 , -0.15811388], dtype=float32)
    """
    return base.with_params(
        "scale_by_param_block_rms",
        lambda u, p: u * safe_root_mean_squares(p, min_scale),
    )


# Of whole arrays.


def scale_by_novograd(
    b1: Scalar = 0.9,
    b2: Scalar = 0.25,
    eps: Scalar = 1e-8,
    eps_root: Scalar = 0.0,
    weight_decay: Scalar = 0.0,
    mu_dtype: Any = None,
) -> GradientTransformation:
    """Updates over the norm of their whole array, with momentum (Ginsburg, 2019).

    Args:
      b1, b2: decays of the momentum and of the means of squared norms.
      eps, eps_root: added outside and inside the root.
      weight_decay: the part of the parameters that is added.
      mu_dtype: of the momentum, by default that of the parameters.

    Example:
      >>> tx, w = ft.optim.scale_by_novograd(), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([ 0.9805807 , -0.19611615], dtype=float32)
    """

    def rule(count: Any) -> Any:
        first = count == 1

        def divide(g: Any, mu: Any, nu: Any, *param: Any) -> tuple[Any, ...]:
            now = fnp.sum(basic.square_of(g)).astype(nu.dtype)
            nu = fnp.where(first, now, mix(now, nu, b2))
            made = over(g, nu, eps, eps_root)
            made = made + weight_decay * param[0] if param else made
            mu = basic.as_dtype(fnp.where(first, made, b1 * mu + made), mu_dtype)
            return mu, mu, nu

        return divide

    return base.running(
        "scale_by_novograd", MomentState, rule, params="given", mu=(0, mu_dtype),
        nu=lambda p: fnp.zeros((), p.dtype),
    )  # fmt: skip


def scale_by_optimistic_gradient(
    alpha: Scalar = 1.0, beta: Scalar = 1.0
) -> GradientTransformation:
    """(alpha + beta) times an update less beta times the last (Mokhtari, 2019).

    Args:
      alpha, beta: the two factors.

    Example:
      >>> tx, w = ft.optim.scale_by_optimistic_gradient(), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([ 0.5, -0.1], dtype=float32)
    """

    def init(params: Tree) -> Any:
        return OptimisticState(fnp.asarray(True), trees.zeros_like(params))

    def update(updates: Tree, state: Any, params: Tree | None = None) -> Any:
        base.check_state("scale_by_optimistic_gradient", state, OptimisticState)

        def step(g: Any, before: Any) -> Any:
            before = fnp.where(state.is_initial_step, g, before)
            return (alpha + beta) * g - beta * before

        made = base.each(step, updates, state.previous_gradient)
        return made, OptimisticState(fnp.asarray(False), updates)

    return GradientTransformation(init, update)


def scale_by_sm3(
    b1: Scalar = 0.9, b2: Scalar = 1.0, eps: Scalar = 1e-8
) -> GradientTransformation:
    """AdaGrad with bounds of squares along axes (Anil et al., 2019).

    Args:
      b1: the decay of the mean of updates.
      b2: the decay of the sums of squares.
      eps: added to the sum before the root.

    Example:
      >>> tx, w = ft.optim.scale_by_sm3(), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([ 0.1       , -0.09999995], dtype=float32)
    """

    def divide(g: Any, bounds: Any, before: Any) -> tuple[Any, ...]:
        axes = range(g.ndim)
        others = [[b for b in axes if b != a] for a in axes]
        rows = map(fnp.expand_dims, bounds, others)
        least = reduce(fnp.minimum, rows) if bounds else 0.0
        square = (1.0 - b2 if b2 != 1.0 else 1.0) * g**2 + b2 * least
        some = square > 0
        made = fnp.where(some, g / fnp.sqrt(fnp.where(some, square + eps, 1)), 0)
        mean = mix(made, before, b1)
        return mean, [fnp.max(square, rest) for rest in others], mean

    return base.running(
        "scale_by_sm3", SM3State, divide,
        mu=lambda p: [fnp.zeros((size,), p.dtype) for size in p.shape],
    )  # fmt: skip


def scale_by_distance_over_gradients(
    reps_rel: Scalar = 1e-6,
    eps: Scalar = 1e-8,
    param_dtype: Any = "float32",
    global_scale: Scalar = 1.0,
) -> GradientTransformation:
    """The way that was gone over the root of the sum of squares (Ivgi et al., 2023).

    Args:
      reps_rel: the first distance, relative to 1 plus the norm of the parameters.
      eps: added to the sum before the root.
      param_dtype: of the state.
      global_scale: a factor of the steps.

    Raises:
      ArgumentError: `update` is called without the parameters.

    Example:
      >>> tx, w = ft.optim.scale_by_distance_over_gradients(), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([ 3.1732259e-06, -6.3464518e-07], dtype=float32)
    """

    def length(x: Any, y: Any = 0.0) -> Any:
        return fnp.sqrt(fnp.sum(fnp.square(x - y)))

    def step(g: Any, far: Any, total: Any, begin: Any, param: Any) -> tuple[Any, ...]:
        far = fnp.maximum(far, length(param, begin))
        total = total + fnp.sum(fnp.square(g))
        return global_scale * (far / fnp.sqrt(total + eps)) * g, far, total, begin

    return base.running(
        "scale_by_distance_over_gradients", DistanceState, step, params="needed",
        max_dist=lambda x: reps_rel * (1 + length(x)),
        grad_sum_of_squares=lambda x: fnp.zeros(()),
        init_params=lambda x: x.astype(param_dtype),
    )  # fmt: skip


def scale_by_polyak(
    f_min: Scalar = 0.0,
    max_learning_rate: Scalar = 1.0,
    eps: Scalar = 0.0,
    variant: str = "sps",
) -> base.GradientTransformationExtraArgs:
    """Updates times the gap to the least value over their square (Polyak, 1987).

    `update` takes the value of the function as `value=`. With `variant="sps+"` a gap
    below zero is zero (Loizou et al., 2021).

    Args:
      f_min: the least value.
      max_learning_rate: the greatest factor.
      eps: added to the squared norm.
      variant: "sps" or "sps+".
    """
    one_of("scale_by_polyak: variant", variant, ("sps", "sps+"))

    def update(
        updates: Tree, state: Tree, params: Any = None, *, value: Any, **_: Any
    ) -> Any:
        square = trees.norm(updates, squared=True)
        gap = fnp.asarray(value - f_min).astype(square.dtype)
        gap = fnp.maximum(gap, 0) if variant == "sps+" else gap
        small = square + eps <= fnp.finfo("float32").eps
        step = fnp.minimum(gap / fnp.where(small, 1, square + eps), max_learning_rate)
        return trees.scale(fnp.where(small, 0.0, step), updates), state

    return base.GradientTransformationExtraArgs(base.init_empty, update)


def _rate_of_power(step: Any, exponent: Any) -> Any:
    return 1.0 - fnp.asarray(step + 1, "float32") ** -exponent


def scale_by_factored_rms(
    factored: bool = True,
    decay_rate: Scalar = 0.8,
    step_offset: int = 0,
    min_dim_size_to_factor: int = 128,
    epsilon: Scalar = 1e-30,
    decay_rate_fn: Callable[[Any, Any], Any] = _rate_of_power,
) -> GradientTransformation:
    """Updates over root mean squares that are kept by row and column.

    Args:
      factored: keep means of rows and columns of arrays of two and more axes.
      decay_rate: given to `decay_rate_fn`.
      step_offset: the number of the first step.
      min_dim_size_to_factor: the second largest size of an array that is factored.
      epsilon: added to squares.
      decay_rate_fn: the weight of the past, of the number of the step and `decay_rate`.

    Source: N. Shazeer, M. Stern, "Adafactor", 2018.

    Example:
      >>> tx, w = ft.optim.scale_by_factored_rms(), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([ 1.        , -0.99999994], dtype=float32)
    """

    def axes_of(shape: tuple[int, ...]) -> tuple[int, int] | None:
        if not factored or len(shape) < 2:
            return None
        *_, second, first = sorted(range(len(shape)), key=shape.__getitem__)
        return (second, first) if shape[second] >= min_dim_size_to_factor else None

    def first(index: int, p: Any) -> Any:
        """Of rows, of columns, or of all: those that are not used have one element."""
        axes = axes_of(p.shape)
        if (axes is None) != (index == 2):
            return fnp.zeros((1,), p.dtype)
        return fnp.zeros_like(p if axes is None else fnp.sum(p, axes[1 - index]))

    def rule(count: Any) -> Any:
        decay = decay_rate_fn(count - 1 - step_offset, decay_rate)

        def divide(
            g: Any, rows: Any, columns: Any, every: Any, _: Any
        ) -> tuple[Any, ...]:
            square = basic.square_of(g) + epsilon
            axes = axes_of(g.shape)
            if axes is None:
                mean = mix(square, every, decay).astype(every.dtype)
                return g * mean**-0.5, rows, columns, mean
            second, first = axes
            rows = mix(square.mean(first), rows, decay).astype(rows.dtype)
            columns = mix(square.mean(second), columns, decay).astype(columns.dtype)
            left = second - 1 if second > first else second
            of_row = (rows / rows.mean(left, keepdims=True)) ** -0.5
            of_column = columns**-0.5
            of_row = fnp.expand_dims(of_row, first)
            return g * of_row * fnp.expand_dims(of_column, second), rows, columns, every

        return divide

    if decay_rate_fn is not _rate_of_power and not callable(decay_rate_fn):
        raise ArgumentError(
            f"scale_by_factored_rms: decay_rate_fn must be a function, got "
            f"{decay_rate_fn!r:.60}"
        )
    return base.running(
        "scale_by_factored_rms", FactoredState, rule, params="needed",
        v_row=partial(first, 0), v_col=partial(first, 1), v=partial(first, 2),
    )  # fmt: skip


base.check_hyperparameters(__name__)

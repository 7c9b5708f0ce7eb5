"""More optimizers: chains of transformations that end in minus the learning rate."""

# Functions of arrays within are of any type.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from functools import partial
from typing import Any

from ftrace.optim import base, optimizers as basic, scaling
from ftrace.optim.base import (
    GradientTransformationExtraArgs as Optimizer,
    Scalar,
    ScalarOrSchedule,
)
from ftrace.optim.wrappers import add_noise, clip_by_block_rms
from ftrace.trace.eager.function_objects import member

__all__ = [
    "adabelief", "adadelta", "adafactor", "adamax", "adamaxw", "adan", "amsgrad",
    "fromage", "lamb", "lars", "nadam", "nadamw", "noisy_sgd", "novograd",
    "optimistic_adam", "optimistic_adam_v2", "optimistic_gradient_descent",
    "polyak_sgd", "radam", "rprop", "sign_sgd", "signum", "sm3", "yogi",
]  # fmt: skip


#: `adam` and `adamw` that look one step ahead (Dozat, 2016).
nadam: Any = partial(basic.adam, nesterov=True)
nadamw: Any = partial(basic.adamw, nesterov=True)


@member(basic.optimizer_of, scaling.scale_by_belief)
def adabelief():
    """AdaBelief (Zhuang et al., 2020).

    Args:
      learning_rate: a number or a schedule.
      b1, b2, eps, eps_root, nesterov: see `scale_by_belief`.
    """


def adadelta(
    learning_rate: ScalarOrSchedule | None = None, rho: Scalar = 0.9,
    eps: Scalar = 1e-6, weight_decay: ScalarOrSchedule = 0.0,
    weight_decay_mask: Any = None,
) -> Optimizer:  # fmt: skip
    """AdaDelta (Zeiler, 2012).

    Args:
      learning_rate: a number or a schedule; None is 1.
      rho, eps: see `scale_by_adadelta`.
      weight_decay, weight_decay_mask: see `add_decayed_weights`.

    Example:
      >>> tx, w = ft.optim.adadelta(0.1), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([-0.00031622,  0.00031607], dtype=float32)
    """
    return base.chain(
        basic.add_decayed_weights(weight_decay, weight_decay_mask),
        scaling.scale_by_adadelta(rho, eps),
        basic.scale_by_learning_rate(learning_rate),
    )


def adafactor(
    learning_rate: ScalarOrSchedule | None = None, min_dim_size_to_factor: int = 128,
    decay_rate: Scalar = 0.8, decay_offset: int = 0,
    multiply_by_parameter_scale: bool = True, clipping_threshold: Scalar | None = 1.0,
    momentum: Scalar | None = None, dtype_momentum: Any = "float32",
    weight_decay_rate: ScalarOrSchedule | None = None, eps: Scalar = 1e-30,
    factored: bool = True, weight_decay_mask: Any = None,
) -> Optimizer:  # fmt: skip
    """Adafactor (Shazeer, Stern, 2018), which keeps squares by row and column.

    Args:
      learning_rate: a number or a schedule; None is 1.
      min_dim_size_to_factor, decay_rate, decay_offset, eps, factored: see
        `scale_by_factored_rms`.
      multiply_by_parameter_scale: updates are relative to the size of parameters.
      clipping_threshold: of the root mean square of an array's update, or None.
      momentum, dtype_momentum: of the mean of updates, or None.
      weight_decay_rate, weight_decay_mask: see `add_decayed_weights`.

    Example:
      >>> tx, w = ft.optim.adafactor(0.1), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([-0.15811388,  0.15811388], dtype=float32)
    """
    parts = [
        scaling.scale_by_factored_rms(
            factored, decay_rate, decay_offset, min_dim_size_to_factor, eps
        )
    ]
    if clipping_threshold is not None:
        parts.append(clip_by_block_rms(clipping_threshold))
    if learning_rate is not None:
        parts.append(basic.scale_by_learning_rate(learning_rate, flip_sign=False))
    if multiply_by_parameter_scale:
        parts.append(scaling.scale_by_param_block_rms())
    if momentum is not None:
        parts.append(scaling.ema(momentum, False, dtype_momentum))
    if weight_decay_rate is not None:
        parts.append(basic.add_decayed_weights(weight_decay_rate, weight_decay_mask))
    return base.chain(*parts, basic.scale(-1))


@member(basic.optimizer_of, scaling.scale_by_adamax)
def adamax():
    """AdaMax (Kingma, Ba, 2015).

    Args:
      learning_rate: a number or a schedule.
      b1, b2, eps: see `scale_by_adamax`.
    """


@member(basic.optimizer_of, scaling.scale_by_adamax, decay=1e-4)
def adamaxw():
    """AdaMax with decoupled weight decay.

    Args:
      learning_rate: a number or a schedule.
      b1, b2, eps: see `scale_by_adamax`.
      weight_decay, mask: see `add_decayed_weights`.
    """


@member(basic.optimizer_of, scaling.scale_by_adan, decay=0.0, eps_root=1e-8)
def adan():
    """Adan (Xie et al., 2022).

    Args:
      learning_rate: a number or a schedule.
      b1, b2, b3, eps, eps_root: see `scale_by_adan`.
      weight_decay, mask: see `add_decayed_weights`.
    """


@member(basic.optimizer_of, scaling.scale_by_amsgrad)
def amsgrad():
    """AMSGrad (Reddi, Kale, Kumar, 2018).

    Args:
      learning_rate: a number or a schedule.
      b1, b2, eps, eps_root, mu_dtype, bias_correction_mu, bias_correction_nu: see
        `scale_by_amsgrad`.
    """


def fromage(learning_rate: ScalarOrSchedule, min_norm: Scalar = 1e-6) -> Optimizer:
    """Frobenius matched gradient descent (Bernstein et al., 2020).

    Args:
      learning_rate: a number or a schedule.
      min_norm: see `scale_by_trust_ratio`.

    Example:
      >>> tx, w = ft.optim.fromage(0.1), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([-0.22313915,  0.03370965], dtype=float32)
    """

    def shrunk(rate: Any) -> Any:
        return 1 / (1 + rate**2) ** 0.5

    if callable(learning_rate):
        schedule = learning_rate
        rate: Any = lambda count: shrunk(schedule(count)) * schedule(count)  # noqa: E731
        decay: Any = lambda count: shrunk(schedule(count)) - 1  # noqa: E731
    else:
        rate = shrunk(learning_rate) * learning_rate
        decay = shrunk(learning_rate) - 1
    return base.chain(
        scaling.scale_by_trust_ratio(min_norm),
        basic.scale_by_learning_rate(rate),
        basic.add_decayed_weights(decay),
    )


def lars(
    learning_rate: ScalarOrSchedule, weight_decay: ScalarOrSchedule = 0.0,
    weight_decay_mask: Any = True, trust_coefficient: Scalar = 0.001,
    eps: Scalar = 0.0, trust_ratio_mask: Any = True, momentum: Scalar = 0.9,
    nesterov: bool = False,
) -> Optimizer:  # fmt: skip
    """Layer-wise rates (You, Gitman, Ginsburg, 2017).

    Args:
      learning_rate: a number or a schedule.
      weight_decay, weight_decay_mask: see `add_decayed_weights`.
      trust_coefficient, eps: see `scale_by_trust_ratio`.
      trust_ratio_mask: where that is applied.
      momentum: the decay of past updates per step.
      nesterov: look one step ahead.

    Example:
      >>> tx, w = ft.optim.lars(0.1), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([-2.1926452e-04,  4.3852906e-05], dtype=float32)
    """
    ratio = scaling.scale_by_trust_ratio(0.0, trust_coefficient, eps)
    return base.chain(
        basic.add_decayed_weights(weight_decay, weight_decay_mask),
        base.masked(ratio, trust_ratio_mask),
        basic.scale_by_learning_rate(learning_rate),
        basic.trace(momentum, nesterov),
    )


@member(
    basic.optimizer_of, basic.scale_by_adam, "mu_dtype nesterov", 0.0,
    scaling.scale_by_trust_ratio, eps=1e-6,
)  # fmt: skip
def lamb():
    """Adam with layer-wise rates (You et al., 2020).

    Args:
      learning_rate: a number or a schedule.
      b1, b2, eps, eps_root: see `scale_by_adam`.
      weight_decay, mask: see `add_decayed_weights`.
    """


@member(basic.optimizer_of, add_noise, eta=0.01, gamma=0.55)
def noisy_sgd():
    """Gradient descent with noise that fades (Neelakantan et al., 2015).

    Args:
      learning_rate: a number or a schedule.
      eta, gamma, key, seed: see `add_noise`.
    """


@member(basic.optimizer_of, scaling.scale_by_sign)
def sign_sgd():
    """Steps of one size (Bernstein et al., 2018).

    Args:
      learning_rate: a number or a schedule.
    """


def signum(
    learning_rate: ScalarOrSchedule, beta: Scalar = 0.9, accumulator_dtype: Any = None
) -> Optimizer:
    """Steps of one size in the direction of the mean (Bernstein et al., 2018).

    Args:
      learning_rate: a number or a schedule.
      beta: the decay of the mean.
      accumulator_dtype: of the mean, by default that of the parameters.

    Example:
      >>> tx, w = ft.optim.signum(0.1), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([-0.1,  0.1], dtype=float32)
    """
    mean = scaling.ema(beta, False, accumulator_dtype)
    return base.chain(mean, sign_sgd(learning_rate))


@member(basic.optimizer_of, scaling.scale_by_novograd, "mu_dtype", eps=1e-6)
def novograd():
    """NovoGrad (Ginsburg et al., 2019).

    Args:
      learning_rate: a number or a schedule.
      b1, b2, eps, eps_root, weight_decay: see `scale_by_novograd`.
    """


@member(basic.optimizer_of, scaling.scale_by_optimistic_gradient)
def optimistic_gradient_descent():
    """Gradient descent that expects the last change again (Mokhtari et al., 2019).

    Args:
      learning_rate: a number or a schedule.
      alpha, beta: see `scale_by_optimistic_gradient`.
    """


def optimistic_adam_v2(
    learning_rate: ScalarOrSchedule, *, alpha: Scalar = 1.0, beta: Scalar = 1.0,
    b1: Scalar = 0.9, b2: Scalar = 0.999, eps: Scalar = 1e-8, eps_root: Scalar = 0.0,
    mu_dtype: Any = None, nesterov: bool = True,
) -> Optimizer:  # fmt: skip
    """Adam that expects the last change again (Daskalakis et al., 2017).

    Args:
      learning_rate: a number or a schedule.
      alpha, beta: see `scale_by_optimistic_gradient`.
      b1, b2, eps, eps_root, mu_dtype, nesterov: see `scale_by_adam`.

    Example:
      >>> tx, w = ft.optim.optimistic_adam_v2(0.1), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([-0.14736743,  0.14736742], dtype=float32)
    """
    return base.chain(
        basic.scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
        scaling.scale_by_optimistic_gradient(alpha, beta),
        basic.scale_by_learning_rate(learning_rate),
    )


@member(basic.optimizer_of, scaling.scale_by_radam)
def radam():
    """Rectified Adam (Liu et al., 2020).

    Args:
      learning_rate: a number or a schedule.
      b1, b2, eps, eps_root, threshold, nesterov: see `scale_by_radam`.
    """


def optimistic_adam(
    learning_rate: Scalar, optimism: Scalar | None = None, b1: Scalar = 0.9,
    b2: Scalar = 0.999, eps: Scalar = 1e-8, eps_root: Scalar = 0.0,
    mu_dtype: Any = None, *, nesterov: bool = True,
) -> Optimizer:  # fmt: skip
    """`optimistic_adam_v2` with the rates of its two parts.

    Args:
      learning_rate: of the last update.
      optimism: of the change before it, by default the learning rate.
      b1, b2, eps, eps_root, mu_dtype, nesterov: see `scale_by_adam`.

    Example:
      >>> tx, w = ft.optim.optimistic_adam(0.1), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([-0.14736743,  0.14736742], dtype=float32)
    """
    beta = learning_rate if optimism is None else optimism
    return optimistic_adam_v2(
        1.0, alpha=learning_rate, beta=beta, b1=b1, b2=b2, eps=eps, eps_root=eps_root,
        mu_dtype=mu_dtype, nesterov=nesterov,
    )  # fmt: skip


def sm3(learning_rate: Scalar, momentum: Scalar = 0.9) -> Optimizer:
    """SM3 (Anil et al., 2019).

    Args:
      learning_rate: a number.
      momentum: the decay of past updates per step.

    Example:
      >>> tx, w = ft.optim.sm3(0.1), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([-0.01,  0.01], dtype=float32)
    """
    return base.chain(scaling.scale_by_sm3(momentum), basic.scale(-learning_rate))


@member(basic.optimizer_of, scaling.scale_by_yogi, "eps_root initial_accumulator_value")
def yogi():
    """Yogi (Zaheer et al., 2018).

    Args:
      learning_rate: a number or a schedule.
      b1, b2, eps: see `scale_by_yogi`.
    """


def rprop(
    learning_rate: Scalar, eta_minus: Scalar = 0.5, eta_plus: Scalar = 1.2,
    min_step_size: Scalar = 1e-6, max_step_size: Scalar = 50.0,
) -> Optimizer:  # fmt: skip
    """Resilient propagation (Riedmiller, Braun, 1993).

    Args:
      learning_rate, eta_minus, eta_plus, min_step_size, max_step_size: see
        `scale_by_rprop`.

    Example:
      >>> tx, w = ft.optim.rprop(0.1), fnp.array([1.0, 2.0])
      >>> updates, state = tx.update(fnp.array([0.5, -0.1]), tx.init(w), w)
      >>> updates
      Array([-0., -0.], dtype=float32)
    """
    steps = scaling.scale_by_rprop(
        learning_rate, eta_minus, eta_plus, min_step_size, max_step_size
    )
    return base.chain(steps, basic.scale(-1.0))


def polyak_sgd(
    max_learning_rate: Scalar = 1.0, scaling: ScalarOrSchedule = 1.0,
    f_min: Scalar = 0.0, eps: Scalar = 0.0, variant: str = "sps",
) -> Optimizer:  # fmt: skip
    """Gradient descent with Polyak's step; `update` takes the loss as `value=`.

    Args:
      max_learning_rate, f_min, eps, variant: see `scale_by_polyak`.
      scaling: a factor of the steps, a number or a schedule.
    """
    step = _scale_by_polyak(f_min, max_learning_rate, eps, variant)
    return base.chain(basic.sgd(scaling), step)


_scale_by_polyak = scaling.scale_by_polyak

base.check_hyperparameters(__name__)

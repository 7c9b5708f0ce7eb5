"""The optimizers: chains of scalings, ending in minus the learning rate."""

from __future__ import annotations

from typing import Any

from ftrace.optim import base, scaling
from ftrace.optim.base import GradientTransformation, Scalar, ScalarOrSchedule
from ftrace.optim.scaling import add_decayed_weights, scale_by_learning_rate

__all__ = ["adagrad", "adam", "adamw", "lion", "momentum", "rmsprop", "sgd"]


@base.hyperparameters
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
    """
    first = (
        base.identity()
        if momentum is None
        else scaling.trace(momentum, nesterov, accumulator_dtype)
    )
    return base.chain(first, scale_by_learning_rate(learning_rate))


@base.hyperparameters
def momentum(
    learning_rate: ScalarOrSchedule, decay: Scalar = 0.9, nesterov: bool = False
) -> GradientTransformation:
    """Gradient descent with momentum: `sgd(learning_rate, decay, nesterov)`."""
    return sgd(learning_rate, decay, nesterov)


@base.hyperparameters
def adam(
    learning_rate: ScalarOrSchedule,
    b1: Scalar = 0.9,
    b2: Scalar = 0.999,
    eps: Scalar = 1e-8,
    eps_root: Scalar = 0.0,
    mu_dtype: Any = None,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """Adam (Kingma, Ba, 2015).

    Args:
      learning_rate: a number or a schedule.
      b1, b2: decays of the means of gradients and of their squares.
      eps, eps_root: added outside and inside the root.
      mu_dtype: of the mean of gradients, by default that of the parameters.
      nesterov: look one step ahead (Dozat, 2016).
    """
    moments = scaling.scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov)
    return base.chain(moments, scale_by_learning_rate(learning_rate))


@base.hyperparameters
def adamw(
    learning_rate: ScalarOrSchedule,
    b1: Scalar = 0.9,
    b2: Scalar = 0.999,
    eps: Scalar = 1e-8,
    eps_root: Scalar = 0.0,
    mu_dtype: Any = None,
    weight_decay: ScalarOrSchedule = 1e-4,
    mask: Any = None,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
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
    """
    return base.chain(
        scaling.scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


@base.hyperparameters
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
    """
    make = scaling.scale_by_stddev if centered else scaling.scale_by_rms
    return base.chain(
        make(decay, eps, initial_scale, eps_in_sqrt, bias_correction),
        scale_by_learning_rate(learning_rate),
        base.identity() if momentum is None else scaling.trace(momentum, nesterov),
    )


@base.hyperparameters
def adagrad(
    learning_rate: ScalarOrSchedule,
    initial_accumulator_value: Scalar = 0.1,
    eps: Scalar = 1e-7,
) -> GradientTransformation:
    """AdaGrad (Duchi, Hazan, Singer, 2011)."""
    return base.chain(
        scaling.scale_by_rss(initial_accumulator_value, eps),
        scale_by_learning_rate(learning_rate),
    )


@base.hyperparameters
def lion(
    learning_rate: ScalarOrSchedule,
    b1: Scalar = 0.9,
    b2: Scalar = 0.99,
    mu_dtype: Any = None,
    weight_decay: ScalarOrSchedule = 1e-3,
    mask: Any = None,
) -> GradientTransformation:
    """Lion (Chen et al., 2023).

    Args:
      learning_rate: a number or a schedule.
      b1, b2: decays of past gradients, in the update and in the state.
      mu_dtype: of the mean of gradients, by default that of the parameters.
      weight_decay: a number or a schedule.
      mask: which parameters decay: a tree of bools, or a function that makes one.
    """
    return base.chain(
        scaling.scale_by_lion(b1, b2, mu_dtype),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )

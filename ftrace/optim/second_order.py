"""Second derivatives of losses `loss(params, inputs, targets)`."""

# Functions of arrays within are of any type.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ftrace.numpy as fnp
from ftrace.flatten_util import ravel_pytree
from ftrace.transforms.grad import grad, jvp
from ftrace.transforms.vmap import vmap

Loss = Callable[[Any, Any, Any], Any]


def hvp(loss: Loss, v: Any, params: Any, inputs: Any, targets: Any) -> Any:
    """The Hessian times a vector, which is raveled parameters.

    Args:
      loss: a function of (params, inputs, targets).
      v: a vector, as long as all parameters together.
      params: a tree of arrays.
      inputs, targets: what `loss` is given beside.

    Returns:
      H·v, a vector.
    """
    direction = ravel_pytree(params)[1](v)

    def of_params(p: Any) -> Any:
        return loss(p, inputs, targets)

    return jvp(grad(of_params), (params,), (direction,))[1]


def hessian_diag(loss: Loss, params: Any, inputs: Any, targets: Any) -> Any:
    """The diagonal of the Hessian.

    Args:
      loss: a function of (params, inputs, targets).
      params: a tree of arrays.
      inputs, targets: what `loss` is given beside.

    Returns:
      A vector, as long as all parameters together.
    """

    def entry(v: Any) -> Any:
        return fnp.vdot(v, ravel_pytree(hvp(loss, v, params, inputs, targets))[0])

    return vmap(entry)(fnp.eye(ravel_pytree(params)[0].size))


def fisher_diag(
    negative_log_likelihood: Loss, params: Any, inputs: Any, targets: Any
) -> Any:
    """The squares of the slopes: the diagonal of the observed Fisher matrix.

    Args:
      negative_log_likelihood: a function of (params, inputs, targets).
      params: a tree of arrays.
      inputs, targets: what it is given beside.

    Returns:
      A vector, as long as all parameters together.
    """
    slopes = grad(negative_log_likelihood)(params, inputs, targets)
    return fnp.square(ravel_pytree(slopes)[0])

"""Activation functions. Derivatives at their corners are those of `jax.nn`.

With them functions along axes: softmax, logsumexp, standardize, one_hot.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import ShapeError, one_of
from ftrace.numpy import axes as ax
from ftrace.numpy import reductions
from ftrace.numpy.axes import Axis
from ftrace.numpy.elementwise import values_together
from ftrace.numpy.reductions import log_softmax, logsumexp, softmax
from ftrace.trace.bind import bind, elementwise
from ftrace.trace.eager.composite import run_fused
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.broadcast import reduce_sum_p
from ftrace.trace.tracing.tracer import Value

__all__ = [
    "celu", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu", "hard_swish",
    "hard_tanh", "identity", "leaky_relu", "log1mexp", "log_sigmoid", "log_softmax",
    "logmeanexp", "logsumexp", "mish", "one_hot", "relu", "relu6", "selu", "sigmoid",
    "silu", "soft_sign", "softmax", "softplus", "sparse_plus", "sparse_sigmoid",
    "squareplus", "standardize", "swish", "tanh",
]  # fmt: skip


def _activation(function: Callable[..., Any], weak: bool = False) -> Callable[..., Any]:
    """Runs the composition as one graph in eager code; integers become floats.

    Args:
      function: the composition.
      weak: integers become what they are beside a Python float.
    """

    @wraps(function)
    def call(x: Value, *parameters: Any, **named: Any) -> Any:
        x = ax.as_value(x)
        if not dtypes.is_inexact(x.dtype):
            bare = weak or x.dtype == dtypes.bool_
            dtype = dtypes.default_dtype("f") if bare else dtypes.to_inexact(x.dtype)
            x = ax.cast(x, dtype, bare or x.weak_type)
        given = (*parameters, *named.values())
        if all(isinstance(value, (bool, int, float)) for value in given):
            names = function.__code__.co_varnames[1 : 1 + len(parameters)]
            named = dict(zip(names, parameters, strict=True)) | named
            return run_fused(function, [x], **named)
        return function(x, *parameters, **named)

    return call


_beside_floats = partial(_activation, weak=True)


# Corners: max(x, 0) and its like.


def relu(x: Value) -> Any:
    """max(x, 0). Its derivative at 0 is 0."""
    x = ax.as_value(x)
    if dtypes.is_complex(x.dtype):
        return fnp.maximum(x, 0)
    zero = elementwise(p.mul, x, 0) if x.dtype == dtypes.bool_ else 0
    return fnp.where(elementwise(p.le, x, zero), zero, x)


@_beside_floats
def relu6(x: Any) -> Any:
    """min(max(x, 0), 6), with a derivative of 0 at both ends."""
    return fnp.where(x >= 6, 6, relu(x))


def leaky_relu(x: Value, negative_slope: Value = 1e-2) -> Any:
    """x where it is not negative, `negative_slope`·x elsewhere."""
    x, slope = values_together([x, negative_slope])
    return fnp.where(x >= 0, x, x * slope)


@_activation
def hard_tanh(x: Any) -> Any:
    """x between -1 and 1, and these bounds beyond."""
    return fnp.where(x > 1, 1, fnp.where(x < -1, -1, x))


@_beside_floats
def hard_sigmoid(x: Any) -> Any:
    """relu6(x + 3) / 6."""
    return relu6(x + 3) / 6


@_beside_floats
def hard_silu(x: Any) -> Any:
    """x·hard_sigmoid(x)."""
    return x * hard_sigmoid(x)


hard_swish = hard_silu


@_beside_floats
def sparse_plus(x: Any) -> Any:
    """0 up to -1, x from 1 on, and the parabola (x + 1)²/4 between."""
    middle = fnp.square(x + 1) / 4
    return fnp.where(x <= -1, 0, fnp.where(x >= 1, x, middle))


@_beside_floats
def sparse_sigmoid(x: Any) -> Any:
    """(x + 1)/2, between 0 and 1."""
    return fnp.clip((x + 1) / 2, 0, 1)


# Exponentials. An exponent that a branch does not use is made harmless first.


@_beside_floats
def elu(x: Any, alpha: Any = 1.0) -> Any:
    """x where it is positive, alpha·(exp(x) - 1) elsewhere."""
    below = fnp.where(x > 0, 0, x)
    return fnp.where(x > 0, x, alpha * fnp.expm1(below))


@_beside_floats
def selu(x: Any) -> Any:
    """`elu`, scaled so that it keeps mean 0 and variance 1 (Klambauer et al., 2017)."""
    return 1.0507009873554804934193349852946 * elu(x, 1.6732632423543772848170429916717)


@_beside_floats
def celu(x: Any, alpha: Any = 1.0) -> Any:
    """x where it is positive, alpha·(exp(x/alpha) - 1) elsewhere."""
    below = fnp.where(x > 0, 0, x)
    return fnp.where(x > 0, x, alpha * fnp.expm1(below / alpha))


@_activation
def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return bind(p.logistic, x)


@_activation
def silu(x: Any) -> Any:
    """x·sigmoid(x)."""
    return x * bind(p.logistic, x)


swish = silu


@_activation
def softplus(x: Any) -> Any:
    """log(1 + exp(x))."""
    # By log1p of the power that cannot overflow; smooth at 0.
    if x.dtype.kind == "c":
        return fnp.logaddexp(x, 0)
    positive = x > 0
    tail = fnp.log1p(fnp.exp(fnp.where(positive, -x, x)))
    return fnp.where(positive, x + tail, tail)


@_activation
def log_sigmoid(x: Any) -> Any:
    """log(sigmoid(x)) = -softplus(-x)."""
    return -softplus(-x)


@_activation
def mish(x: Any) -> Any:
    """x·tanh(softplus(x))."""
    return x * fnp.tanh(softplus(x))


@_activation
def log1mexp(x: Any) -> Any:
    """log(1 - exp(-x)) of positive x, exact near 0 and far away (Mächler, 2012)."""
    near = x < math.log(2)
    small, large = fnp.where(near, x, 1), fnp.where(near, 1, x)
    return fnp.where(near, fnp.log(-fnp.expm1(-small)), fnp.log1p(-fnp.exp(-large)))


@_activation
def gelu(x: Any, approximate: bool = True) -> Any:
    """x·Φ(x), with the distribution Φ of the standard normal (Hendrycks, 2016).

    Args:
      x: the array.
      approximate: through tanh; else through erf. The former is written by a sigmoid:
        (1 + tanh(u))/2 = sigmoid(2u), which is exact also where tanh is near -1.
    """
    if approximate:
        cubic = x * (1 + 0.044715 * (x * x))
        return x * bind(p.logistic, 2 * math.sqrt(2 / math.pi) * cubic)
    return 0.5 * x * bind(p.erfc, -x * math.sqrt(0.5))


# The rest.


@_activation
def soft_sign(x: Any) -> Any:
    """x / (1 + |x|)."""
    return x / (1 + fnp.abs(x))


@_activation
def squareplus(x: Any, b: Any = 4) -> Any:
    """(x + √(x² + b)) / 2."""
    root = fnp.sqrt(fnp.square(x) + b)
    # The sum of both is b/4 times the reciprocal of their difference.
    below = x < 0
    far = fnp.where(below, root - x, 1)
    return fnp.where(below, b / 2 / far, (x + root) / 2)


@_activation
def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    return bind(p.tanh, x)


def identity(x: Value) -> Any:
    """x itself."""
    return ax.as_value(x)


def glu(x: Value, axis: int = -1) -> Any:
    """The first half along `axis`, times the sigmoid of the second.

    Raises:
      ShapeError: the axis has an odd size.
    """
    x = ax.as_value(x)
    place = ax.canonical_axis(axis, x.ndim, "glu")
    size = x.shape[place]
    if size % 2:
        raise ShapeError(f"glu: axis {place} of {x.shape} must have an even size")
    gate = ax.shrink_axis(x, place, size // 2, size)
    return ax.shrink_axis(x, place, 0, size // 2) * elementwise(p.logistic, gate)


# Along axes.


def logmeanexp(
    x: Value, axis: Axis = None, where: Value | None = None, keepdims: bool = False
) -> Any:
    """log(mean(exp(x))) along `axis`; arguments as in `logsumexp`."""
    x = ax.as_value(x)
    total = logsumexp(x, axis, keepdims=keepdims, where=where)
    axes = ax.canonical_axes(axis, x.ndim, "logmeanexp")
    if where is None:
        return total - math.log(math.prod(x.shape[a] for a in axes) or math.nan)
    hits = ax.cast(reductions.check_where("logmeanexp", where, x.shape), total.dtype)
    return total - fnp.log(reductions.reduced(reduce_sum_p, hits, axes, keepdims))


def standardize(
    x: Value,
    axis: Axis = -1,
    mean: Value | None = None,
    variance: Value | None = None,
    epsilon: Value = 1e-5,
    where: Value | None = None,
    *,
    algorithm: str = "fast",
) -> Any:
    """`x` less its mean, divided by its standard deviation.

    Args:
      x: the array.
      axis: along which the mean and the variance are taken.
      mean, variance: if they are known.
      epsilon: added to the variance.
      where: a mask of the elements that count.
      algorithm: JAX's "fast" or "stable"; both take two passes here, which the
        compiler joins.

    Raises:
      ValueRangeError: the algorithm is unknown.
    """
    one_of("standardize: algorithm", algorithm, ("fast", "stable"))
    x = ax.as_value(x)
    if mean is None:
        mean = fnp.mean(x, axis, keepdims=True, where=where)
    centered = x - mean
    if variance is None:
        squares = fnp.square(centered)
        variance = fnp.mean(squares, axis, keepdims=True, where=where)
    return centered * bind(p.rsqrt, ax.as_value(variance + epsilon))


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: int = -1) -> Any:
    """1 at the index that `x` holds, 0 elsewhere, along a new axis.

    Args:
      x: integers; those outside of 0 … num_classes - 1 give zeros.
      num_classes: the size of the new axis.
      dtype: of the result, by default float32.
      axis: where the result has the new axis.
    """
    x = fnp.asarray(x)
    count = ax.check_count(num_classes, "one_hot: num_classes")
    place = ax.canonical_axis(axis, x.ndim + 1, "one_hot")
    shape = (*x.shape[:place], count, *x.shape[place:])
    kind = dtypes.default_dtype("f") if dtype is None else dtypes.as_dtype(dtype)
    wide = x if x.dtype.itemsize >= 4 else ax.cast(x, dtypes.int32)
    classes = ax.iota(wide.dtype, shape, place)
    hits = bind(p.eq, ax.expand(ax.insert_axes(wide, (place,)), shape), classes)
    return ax.cast(hits, dtypes.canonicalize(kind))

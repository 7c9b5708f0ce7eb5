"""Activation functions. Derivatives at their corners are those of `jax.nn`.

With them functions along axes: softmax, logsumexp, standardize, one_hot; and attention,
a composition of a product, a softmax and another product.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce, wraps
from typing import Any

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import DtypeError, ShapeError, ValueRangeError, one_of
from ftrace.numpy import axes as ax, elementwise as ew, reductions
from ftrace.numpy.linear import contract
from ftrace.numpy.reductions import log_softmax, log_sum_exp, logsumexp, softmax
from ftrace.trace.bind import bind, elementwise
from ftrace.trace.eager.composite import run_fused
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.tracing.tracer import Value

__all__ = [
    "celu", "dot_product_attention", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu",
    "hard_swish", "hard_tanh", "identity", "leaky_relu", "log1mexp", "log_sigmoid",
    "log_softmax", "logmeanexp", "logsumexp", "mish", "one_hot", "relu", "relu6",
    "selu", "sigmoid", "silu", "soft_sign", "softmax", "softplus", "sparse_plus",
    "sparse_sigmoid", "squareplus", "standardize", "swish", "tanh",
]  # fmt: skip


def _activation(function: Callable[..., Any], weak: bool = False) -> Callable[..., Any]:
    """Runs the composition as one graph in eager code; integers become floats.

    Args:
      function: the composition.
      weak: integers become what they are beside a Python float.
    """
    names = function.__code__.co_varnames[1 : function.__code__.co_argcount]

    @wraps(function)
    def call(x: Value, *parameters: Any, **named: Any) -> Any:
        rest = names[len(parameters) :]
        if len(parameters) > len(names) or not named.keys() <= {*rest}:
            return function(x, *parameters, **named)  # Python says what is wrong
        x = ax.as_value(x)
        if not dtypes.is_inexact(x.dtype):
            bare = weak or x.dtype == dtypes.bool_
            dtype = dtypes.default_dtype("f") if bare else dtypes.to_inexact(x.dtype)
            x = ax.cast(x, dtype, bare or x.weak_type)
        given = dict(zip(names, parameters, strict=False)) | named
        arrays = [k for k, v in given.items() if not isinstance(v, (bool, int, float))]
        if not arrays:
            return run_fused(function, [x], **given)
        return function(x, **given | {k: ax.as_value(given[k]) for k in arrays})

    return call


_with_floats = partial(_activation, weak=True)


# Corners: max(x, 0) and its like.


def relu(x: Value) -> Any:
    """max(x, 0). Its derivative at 0 is 0.

    Args:
      x: an array of numbers; integers stay what they are.

    Returns:
      Of the shape and dtype of x; of bools int32.

    Example:
      >>> nn.relu(fnp.array([-2.0, 0.0, 3.0]))
      Array([0., 0., 3.], dtype=float32)
      >>> ft.vmap(ft.grad(nn.relu))(fnp.array([-2.0, 0.0, 3.0]))
      Array([0., 0., 1.], dtype=float32)
    """
    x = ax.as_value(x)
    if dtypes.is_complex(x.dtype):
        return fnp.maximum(x, 0)
    zero = elementwise(p.mul, x, 0) if x.dtype == dtypes.bool_ else 0
    return fnp.where(elementwise(p.le, x, zero), zero, x)


@_with_floats
def relu6(x: Value) -> Any:
    """min(max(x, 0), 6), with a derivative of 0 at both ends.

    Args:
      x: an array of real numbers; integers become floats.

    Returns:
      Of the shape of x, elementwise.

    Example:
      >>> nn.relu6(fnp.array([-1.0, 3.0, 9.0]))
      Array([0., 3., 6.], dtype=float32)
    """
    return fnp.where(x >= 6, 6, relu(x))


def leaky_relu(x: Value, negative_slope: Value = 1e-2) -> Any:
    """x where it is not negative, `negative_slope`·x elsewhere.

    Args:
      x: an array of real numbers; integers become floats.
      negative_slope: a number, or an array that broadcasts with x.

    Returns:
      Of the shape of x, elementwise.

    Example:
      >>> nn.leaky_relu(fnp.array([-2.0, 3.0]), 0.1)
      Array([-0.2,  3. ], dtype=float32)
    """
    x, slope = ew.values_together([x, negative_slope])
    return fnp.where(x >= 0, x, x * slope)


@_activation
def hard_tanh(x: Value) -> Any:
    """x between -1 and 1, and these bounds beyond.

    Args:
      x: an array of real numbers; integers become floats.

    Returns:
      Of the shape of x, elementwise. The derivative at the bounds is 1.

    Example:
      >>> nn.hard_tanh(fnp.array([-3.0, 0.5, 2.0]))
      Array([-1. ,  0.5,  1. ], dtype=float32)
    """
    return fnp.where(x > 1, 1, fnp.where(x < -1, -1, x))


@_with_floats
def hard_sigmoid(x: Value) -> Any:
    """relu6(x + 3) / 6: a straight line from 0 at -3 to 1 at 3.

    Args:
      x: an array of real numbers; integers become floats.

    Returns:
      Of the shape of x, elementwise.

    Example:
      >>> nn.hard_sigmoid(fnp.array([-4.0, 0.0, 1.5]))
      Array([0.  , 0.5 , 0.75], dtype=float32)
    """
    return relu6(x + 3) / 6


@_with_floats
def hard_silu(x: Value) -> Any:
    """x·hard_sigmoid(x); another name is `hard_swish`.

    Args:
      x: an array of real numbers; integers become floats.

    Returns:
      Of the shape of x, elementwise.

    Example:
      >>> nn.hard_silu(fnp.array([-4.0, 1.5, 4.0]))
      Array([-0.   ,  1.125,  4.   ], dtype=float32)
    """
    return x * hard_sigmoid(x)


hard_swish = hard_silu


@_with_floats
def sparse_plus(x: Value) -> Any:
    """0 up to -1, x from 1 on, and the parabola (x + 1)²/4 between.

    Args:
      x: an array of real numbers; integers become floats.

    Returns:
      Of the shape of x, elementwise; its derivative is `sparse_sigmoid`.

    Example:
      >>> nn.sparse_plus(fnp.array([-2.0, 0.0, 2.0]))
      Array([0.  , 0.25, 2.  ], dtype=float32)
    """
    middle = fnp.square(x + 1) / 4
    return fnp.where(x <= -1, 0, fnp.where(x >= 1, x, middle))


@_with_floats
def sparse_sigmoid(x: Value) -> Any:
    """(x + 1)/2, between 0 and 1.

    Args:
      x: an array of real numbers; integers become floats.

    Returns:
      Of the shape of x, elementwise.

    Example:
      >>> nn.sparse_sigmoid(fnp.array([-2.0, 0.0, 2.0]))
      Array([0. , 0.5, 1. ], dtype=float32)
    """
    return fnp.clip((x + 1) / 2, 0, 1)


# Exponentials. An exponent that a branch does not use is made harmless first.


@_with_floats
def elu(x: Value, alpha: Value = 1.0) -> Any:
    """x where it is positive, alpha·(exp(x) - 1) elsewhere.

    Args:
      x: an array of real numbers; integers become floats.
      alpha: a number, or an array that broadcasts with x.

    Returns:
      Of the shape of x, elementwise.

    Example:
      >>> nn.elu(fnp.array([-50.0, 2.0]))
      Array([-1.,  2.], dtype=float32)
    """
    below = fnp.where(x > 0, 0, x)
    return fnp.where(x > 0, x, alpha * fnp.expm1(below))


@_with_floats
def selu(x: Value) -> Any:
    """`elu`, scaled so that it keeps mean 0 and variance 1 (Klambauer et al., 2017).

        1.0507·x where it is positive, 1.0507·1.6733·(exp(x) - 1) elsewhere

    Args:
      x: an array of real numbers; integers become floats.

    Returns:
      Of the shape of x, elementwise.

    Example:
      >>> nn.selu(fnp.array([-50.0, 0.0, 2.0]))
      Array([-1.7580993,  0.       ,  2.101402 ], dtype=float32)
    """
    return 1.0507009873554804934193349852946 * elu(x, 1.6732632423543772848170429916717)


@_with_floats
def celu(x: Value, alpha: Value = 1.0) -> Any:
    """x where it is positive, alpha·(exp(x/alpha) - 1) elsewhere.

    Unlike `elu` it has the slope 1 at 0 for every alpha.

    Args:
      x: an array of real numbers; integers become floats.
      alpha: a number, or an array that broadcasts with x.

    Returns:
      Of the shape of x, elementwise.

    Example:
      >>> nn.celu(fnp.array([-50.0, 2.0]), 0.5)
      Array([-0.5,  2. ], dtype=float32)
    """
    return fnp.maximum(x, 0) + alpha * fnp.expm1(fnp.minimum(x, 0) / alpha)


@_activation
def sigmoid(x: Value) -> Any:
    """1 / (1 + exp(-x)), exact to the last places on both sides.

    Args:
      x: an array of floats or complex numbers; integers become floats.

    Returns:
      Of the shape of x, elementwise.

    Example:
      >>> nn.sigmoid(fnp.array([-200.0, 0.0, 2.0]))
      Array([0.      , 0.5     , 0.880797], dtype=float32)
    """
    return bind(p.logistic, x)


@_activation
def silu(x: Value) -> Any:
    """x·sigmoid(x); another name is `swish`.

    Args:
      x: an array of floats or complex numbers; integers become floats.

    Returns:
      Of the shape of x, elementwise.

    Example:
      >>> nn.silu(fnp.array([-1.0, 0.0, 1.0]))
      Array([-0.2689414,  0.       ,  0.7310586], dtype=float32)
    """
    return x * bind(p.logistic, x)


swish = silu


@_activation
def softplus(x: Value) -> Any:
    """log(1 + exp(x)), without overflow.

    Args:
      x: an array of floats or complex numbers; integers become floats.

    Returns:
      Of the shape of x, elementwise; its derivative is `sigmoid`.

    Example:
      >>> nn.softplus(fnp.array([-1.0, 0.0, 1000.0]))
      Array([3.1326163e-01, 6.9314718e-01, 1.0000000e+03], dtype=float32)
    """
    # By log1p of the power that cannot overflow; smooth at 0.
    if x.dtype.kind == "c":
        return fnp.logaddexp(x, 0)
    positive = x > 0
    tail = fnp.log1p(fnp.exp(fnp.where(positive, -x, x)))
    return fnp.where(positive, x + tail, tail)


@_activation
def log_sigmoid(x: Value) -> Any:
    """log(sigmoid(x)) = -softplus(-x), exact where sigmoid underflows.

    Args:
      x: an array of floats or complex numbers; integers become floats.

    Returns:
      Of the shape of x, elementwise.

    Example:
      >>> nn.log_sigmoid(fnp.array([-1000.0, 0.0]))
      Array([-1.000000e+03, -6.931472e-01], dtype=float32)
    """
    return -softplus(-x)


@_activation
def mish(x: Value) -> Any:
    """x·tanh(softplus(x)) (Misra, 2019).

    Args:
      x: an array of real numbers; integers become floats.

    Returns:
      Of the shape of x, elementwise.

    Example:
      >>> nn.mish(fnp.array([-1.0, 0.0, 1.0]))
      Array([-0.3034014,  0.       ,  0.8650984], dtype=float32)
    """
    return x * fnp.tanh(softplus(x))


@_activation
def log1mexp(x: Value) -> Any:
    """log(1 - exp(-x)), exact near 0 and far away (Mächler, 2012).

    Args:
      x: an array of real numbers; integers become floats. -inf at 0, NaN below.

    Returns:
      Of the shape of x, elementwise.

    Example:
      >>> nn.log1mexp(fnp.array([1e-6, 1.0, 50.0]))
      Array([-1.3815511e+01, -4.5867509e-01, -1.9287499e-22], dtype=float32)
    """
    near = x < math.log(2)
    small, large = fnp.where(near, x, 1), fnp.where(near, 1, x)
    return fnp.where(near, fnp.log(-fnp.expm1(-small)), fnp.log1p(-fnp.exp(-large)))


@_activation
def gelu(x: Value, approximate: bool = True) -> Any:
    """x·Φ(x), with the distribution Φ of the standard normal (Hendrycks, 2016).

        approximate   x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))/2
        else          x·erfc(-x/√2)/2

    Args:
      x: an array of real numbers; integers become floats.
      approximate: which of the two, the former by default as in JAX (PyTorch's default
        is the other one). It is written by a sigmoid: (1 + tanh(u))/2 = sigmoid(2u),
        which is exact also where tanh is near -1.

    Returns:
      Of the shape of x, elementwise.

    Example:
      >>> nn.gelu(fnp.array([-1.0, 0.0, 1.0]))
      Array([-0.158808,  0.      ,  0.841192], dtype=float32)
      >>> nn.gelu(fnp.array([-1.0, 0.0, 1.0]), approximate=False)
      Array([-0.15865526,  0.        ,  0.8413447 ], dtype=float32)
    """
    if approximate:
        cubic = x * (1 + 0.044715 * (x * x))
        return x * bind(p.logistic, 2 * math.sqrt(2 / math.pi) * cubic)
    return 0.5 * x * bind(p.erfc, -x * math.sqrt(0.5))


# The rest.


@_activation
def soft_sign(x: Value) -> Any:
    """x / (1 + |x|).

    Args:
      x: an array of real numbers; integers become floats.

    Returns:
      Of the shape of x, elementwise.

    Example:
      >>> nn.soft_sign(fnp.array([-3.0, 0.0, 1.0]))
      Array([-0.75,  0.  ,  0.5 ], dtype=float32)
    """
    return x / (1 + fnp.abs(x))


@_activation
def squareplus(x: Value, b: Value = 4) -> Any:
    """(x + √(x² + b)) / 2: like softplus, without exponentials.

    Args:
      x: an array of real numbers; integers become floats.
      b: how smooth it is at 0: a number, or an array that broadcasts with x.

    Returns:
      Of the shape of x, elementwise.

    Example:
      >>> nn.squareplus(fnp.array([0.0, 1.5]))
      Array([1., 2.], dtype=float32)
    """
    root = fnp.sqrt(fnp.square(x) + b)
    # The sum of both is b/4 times the reciprocal of their difference.
    below = x < 0
    far = fnp.where(below, root - x, 1)
    return fnp.where(below, fnp.divide(b, 2) / far, (x + root) / 2)


@_activation
def tanh(x: Value, /) -> Any:
    """The hyperbolic tangent.

    Args:
      x: an array of floats or complex numbers; integers become floats.

    Returns:
      Of the shape of x, elementwise.

    Example:
      >>> nn.tanh(fnp.array([-0.5, 0.0, 100.0]))
      Array([-0.4621172,  0.       ,  1.       ], dtype=float32)
    """
    return bind(p.tanh, x)


def identity(x: Value) -> Any:
    """x itself, as an array.

    Args:
      x: an array or a number.

    Example:
      >>> nn.identity(2)
      Array(2, dtype=int32, weak_type=True)
    """
    return ax.as_value(x)


def glu(x: Value, axis: int = -1) -> Any:
    """The first half along `axis`, times the sigmoid of the second (Dauphin, 2017).

    Args:
      x: an array of real numbers, of even size along the axis.
      axis: the axis.

    Returns:
      Of half the size along the axis.

    Raises:
      ShapeError: the axis has an odd size.

    Example:
      >>> nn.glu(fnp.array([1.0, 2.0, 0.0, 100.0]))
      Array([0.5, 2. ], dtype=float32)
    """
    x, place = ax.along(x, axis, "glu")
    size = x.shape[place]
    if size % 2:
        raise ShapeError(f"glu: axis {place} of {x.shape} must have an even size")
    gate = ax.shrink_axis(x, place, size // 2, size)
    return ax.shrink_axis(x, place, 0, size // 2) * elementwise(p.logistic, gate)


# Along axes.


@ax.takes_names
def logmeanexp(
    x: Value, axis: ax.Axis = None, where: Value | None = None, keepdims: bool = False
) -> Any:
    """log(mean(exp(x))) along `axis`, without overflow.

    Args:
      x: an array of floats.
      axis: an axis, several, or None for all.
      where: a mask of the elements that count, in the mean as well.
      keepdims: the reduced axes stay, with size 1.

    Example:
      >>> nn.logmeanexp(fnp.array([1000.0, 1000.0]))
      Array(1000., dtype=float32)
    """
    x = ax.as_value(x)
    total = logsumexp(x, axis, keepdims=keepdims, where=where)
    axes = ax.canonical_axes(axis, x.ndim, "logmeanexp")
    if where is None:
        return total - math.log(math.prod(x.shape[a] for a in axes) or math.nan)
    hits = ax.cast(reductions.check_where("logmeanexp", where, x.shape), total.dtype)
    return total - fnp.log(reductions.add_along(hits, axes, keepdims))


def standardize(
    x: Value,
    axis: ax.Axis = -1,
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

    Returns:
      (x - mean)/√(variance + epsilon), of the shape of x.

    Raises:
      ValueRangeError: the algorithm is unknown.

    Example:
      >>> nn.standardize(fnp.array([[1.0, 3.0], [10.0, 30.0]]), epsilon=0.0)
      Array([[-1.,  1.],
             [-1.,  1.]], dtype=float32)
    """
    one_of("standardize: algorithm", algorithm, ("fast", "stable"))
    x = ax.as_value(x)
    if mean is None:
        mean = fnp.mean(x, axis, keepdims=True, where=where)
    centered = fnp.subtract(x, mean)
    if variance is None:
        squares = fnp.square(centered)
        variance = fnp.mean(squares, axis, keepdims=True, where=where)
    return centered * bind(p.rsqrt, fnp.add(variance, epsilon))


def one_hot(x: Value, num_classes: int, *, dtype: Any = None, axis: int = -1) -> Any:
    """1 at the index that `x` holds, 0 elsewhere, along a new axis.

    Args:
      x: integers; those outside of 0 … num_classes - 1 give zeros.
      num_classes: the size of the new axis.
      dtype: of the result, by default float32.
      axis: where the result has the new axis.

    Returns:
      The shape of x with one more axis.

    Example:
      >>> nn.one_hot(fnp.array([2, 0, 7]), 3)
      Array([[0., 0., 1.],
             [1., 0., 0.],
             [0., 0., 0.]], dtype=float32)
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


# Attention.


def dot_product_attention(
    query: Value,
    key: Value,
    value: Value,
    bias: Value | None = None,
    mask: Value | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Value | None = None,
    key_value_seq_lengths: Value | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """softmax(query·keyᵀ·scale + bias)·value, per head.

    Args:
      query: (batch, T, heads, features); without a batch, (T, heads, features).
      key: (batch, S, K, features); K divides the number of heads, and each of its
        heads serves heads/K of the query.
      value: as `key`.
      bias: added to the logits; (batch, heads, T, S), or 1 instead of any.
      mask: of bools; where it is false, the logit counts as least. Shape as `bias`.
      scale: by default 1/√features.
      is_causal: a query sees no key after it.
      query_seq_lengths, key_value_seq_lengths: (batch,) int32; what is beyond them is
        left out.
      local_window_size: how many keys before and after its own a query sees.
      implementation: JAX's choice of a library; without effect.
      return_residual: also return the logsumexp of the logits, (batch, T, heads).

    Returns:
      An array of the shape of `query`. The softmax is computed in float32.

    Raises:
      ShapeError: the shapes do not fit each other.
      DtypeError: the dtypes differ, or the mask is not of bools.

    Example:
      >>> q = k = v = fnp.ones((2, 5, 4, 8))  # 2 sequences of 5, 4 heads of 8
      >>> nn.dot_product_attention(q, k, v, is_causal=True).shape
      (2, 5, 4, 8)
      >>> equal, v = fnp.zeros((2, 1, 1)), fnp.array([[[1.0]], [[3.0]]])
      >>> nn.dot_product_attention(equal, equal, v, is_causal=True)[:, 0, 0]
      Array([1., 2.], dtype=float32)
    """
    one_of("dot_product_attention: implementation", implementation, _LIBRARIES)
    shape = ax.as_value(query).shape
    q, k, v = (_with_four_axes(x) for x in (query, key, value))
    _check(q, k, v)
    batch, length, heads, features = q.shape
    keys = k.shape[1]
    full_shape = (batch, heads, length, keys)
    if bias is not None:
        bias = _like_logits("bias", bias, full_shape)
    given = None if mask is None else _mask_like(mask, full_shape)
    q_length, k_length = (
        None if x is None else _lengths(x, batch)
        for x in (query_seq_lengths, key_value_seq_lengths)
    )
    window = local_window_size
    window = (window, window) if isinstance(window, int) else window
    seen = _visible_keys(given, is_causal, window, q_length, k_length, (length, keys))
    scale = float(1 / math.sqrt(features) if scale is None else scale)
    logits = _logits(q, k, scale, bias, seen)
    weights = softmax(logits, -1).astype(k.dtype)
    result = _per_head("bnts", "btnh", weights, v)
    if q_length is not None:
        rows = ax.iota(dtypes.int32, (1, length, 1, 1), 1)
        result = fnp.where(rows < q_length, result, 0)
    result = ax.reshape(result, shape)
    if not return_residual:
        return result
    residual = fnp.matrix_transpose(log_sum_exp(logits, (3,))[..., 0]).astype(k.dtype)
    return result, ax.reshape(bind(p.stop_gradient, residual), shape[:-1])


_LIBRARIES = (None, "xla", "cudnn")


def _with_four_axes(x: Value) -> Any:
    x = ax.as_value(x)
    return ax.insert_axes(x, range(max(4 - x.ndim, 0)))


def _check(q: Any, k: Any, v: Any) -> None:
    fits = q.ndim == k.ndim == 4 and k.shape == v.shape
    fits = fits and q.shape[0] == k.shape[0] and q.shape[3] == k.shape[3]
    if not fits:
        raise ShapeError(
            "dot_product_attention: query (batch, T, heads, features), key and value "
            f"(batch, S, K, features) are required, got {q.shape}, {k.shape} and "
            f"{v.shape}"
        )
    if k.shape[2] == 0 or q.shape[2] % k.shape[2]:
        raise ValueRangeError(
            f"dot_product_attention: {q.shape[2]} heads of the query are not a "
            f"multiple of the {k.shape[2]} of the key"
        )
    if not q.dtype == k.dtype == v.dtype:
        raise DtypeError(
            "dot_product_attention: query, key and value must have one dtype, got "
            f"{q.dtype.name}, {k.dtype.name} and {v.dtype.name}"
        )


def _like_logits(name: str, x: Value, shape: tuple[int, ...]) -> Any:
    x = _with_four_axes(x)
    if any(n not in (1, m) for n, m in zip(x.shape, shape, strict=True)):
        raise ShapeError(
            f"dot_product_attention: {name} must broadcast to (batch, heads, T, S) = "
            f"{shape}, got {x.shape}"
        )
    return x


def _mask_like(mask: Value, shape: tuple[int, ...]) -> Any:
    given = _like_logits("mask", mask, shape)
    if given.dtype != dtypes.bool_:
        raise DtypeError(
            f"dot_product_attention: mask must be of bools, got {given.dtype}; write "
            "mask.astype(bool), or give it as bias"
        )
    return given


def _lengths(x: Value, batch: int) -> Any:
    x = ax.as_value(x)
    if x.shape != (batch,) or not dtypes.is_integer(x.dtype):
        raise ShapeError(
            f"dot_product_attention: sequence lengths must be integers of shape "
            f"({batch},), got {x.dtype.name} of shape {x.shape}"
        )
    return ax.reshape(x, (batch, 1, 1, 1))


def _visible_keys(
    mask: Any,
    causal: bool,
    window: tuple[int, int] | None,
    q_length: Any,
    k_length: Any,
    sizes: tuple[int, int],
) -> Any:
    """Which keys a query sees, broadcast to (batch, heads, T, S); None is all."""
    rows, columns = (ax.iota(dtypes.int32, (1, 1, *sizes), axis) for axis in (2, 3))
    seen: list[Any] = [] if mask is None else [mask]
    if causal:
        seen.append(rows >= columns)
    if window is not None:
        seen += [rows <= columns + window[0], rows >= columns - window[1]]
    if q_length is not None:
        seen.append(rows < q_length)
    if k_length is not None:
        seen.append(columns < k_length)
    return reduce(fnp.bitwise_and, seen) if seen else None


def _logits(q: Any, k: Any, scale: float, bias: Any, seen: Any) -> Any:
    """query·keyᵀ·scale + bias, where a query sees the key, in float32."""
    # In float32 at least.
    wide, _ = dtypes.promote((dtypes.widen(q.dtype), False), (dtypes.float32, False))
    logits = _per_head("btnh", "bnts", q.astype(wide), k.astype(wide)) * scale
    if bias is not None:
        logits = (logits + bias).astype(wide)
    if seen is not None:
        # Finite, so that a row that sees nothing gives no NaN.
        logits = fnp.where(seen, logits, -0.7 * 3.4028234663852886e38)
    return logits.astype(dtypes.float32)


def _per_head(left: str, result: str, x: Any, y: Any) -> Any:
    """A product for each head of x; one of y serves several of them, in groups."""
    right = "bsnh"
    at, heads = left.index("n"), y.shape[2]
    group = x.shape[at] // heads
    if group == 1:
        return contract("attention", x, y, left, right, result)
    x = ax.reshape(x, (*x.shape[:at], heads, group, *x.shape[at + 1 :]))
    labels = [label.replace("n", "ng") for label in (left, result)]
    found = contract("attention", x, y, labels[0], right, labels[1])
    at = result.index("n")
    return ax.reshape(found, (*found.shape[:at], heads * group, *found.shape[at + 2 :]))

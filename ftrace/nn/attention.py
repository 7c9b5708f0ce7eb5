"""Attention, as a composition: product, softmax, product."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import DtypeError, ShapeError, ValueRangeError
from ftrace.numpy import axes as ax
from ftrace.numpy.linear import contract
from ftrace.numpy.reductions import log_sum_exp, softmax
from ftrace.trace.bind import bind
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.tracing.tracer import Value

__all__ = ["dot_product_attention"]


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
    """
    shape = ax.as_value(query).shape
    q, k, v = (_with_four_axes(x) for x in (query, key, value))
    _check(q, k, v)
    batch, length, heads, features = q.shape
    keys = k.shape[1]
    full_shape = (batch, heads, length, keys)
    if bias is not None:
        bias = _like_logits("bias", bias, full_shape)
    given = None if mask is None else _like_logits("mask", mask, full_shape)
    if given is not None and given.dtype != dtypes.bool_:
        raise DtypeError(
            f"dot_product_attention: mask must be of bools, got {given.dtype}; write "
            "mask.astype(bool), or give it as bias"
        )
    q_length, k_length = (
        None if x is None else _lengths(x, batch)
        for x in (query_seq_lengths, key_value_seq_lengths)
    )
    window = local_window_size
    window = (window, window) if isinstance(window, int) else window
    seen = _seen(given, is_causal, window, q_length, k_length, (length, keys))
    scale = float(1 / math.sqrt(features) if scale is None else scale)
    # In float32 at least.
    wide, _ = dtypes.promote((q.dtype, False), (dtypes.float32, False))
    logits = _per_head("btnh", "bsnh", "bnts", q.astype(wide), k.astype(wide)) * scale
    if bias is not None:
        logits = (logits + bias).astype(wide)
    if seen is not None:
        # Finite, so that a row that sees nothing gives no NaN.
        logits = fnp.where(seen, logits, -0.7 * 3.4028234663852886e38)
    logits = logits.astype(dtypes.float32)
    weights = softmax(logits, -1).astype(k.dtype)
    result = _per_head("bnts", "bsnh", "btnh", weights, v)
    if q_length is not None:
        rows = ax.iota(dtypes.int32, (1, length, 1, 1), 1)
        result = fnp.where(rows < q_length, result, 0)
    result = ax.reshape(result, shape)
    if not return_residual:
        return result
    residual = fnp.matrix_transpose(log_sum_exp(logits, (3,))[..., 0]).astype(k.dtype)
    return result, ax.reshape(bind(p.stop_gradient, residual), shape[:-1])


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


def _lengths(x: Value, batch: int) -> Any:
    x = ax.as_value(x)
    if x.shape != (batch,) or not dtypes.is_integer(x.dtype):
        raise ShapeError(
            f"dot_product_attention: sequence lengths must be integers of shape "
            f"({batch},), got {x.dtype.name} of shape {x.shape}"
        )
    return ax.reshape(x, (batch, 1, 1, 1))


def _seen(
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


def _per_head(left: str, right: str, result: str, x: Any, y: Any) -> Any:
    """A product for each head of x; one of y serves several of them, in groups."""
    at, heads = left.index("n"), y.shape[2]
    group = x.shape[at] // heads
    if group == 1:
        return contract("attention", x, y, left, right, result)
    x = ax.reshape(x, (*x.shape[:at], heads, group, *x.shape[at + 1 :]))
    labels = [label.replace("n", "ng") for label in (left, result)]
    found = contract("attention", x, y, labels[0], right, labels[1])
    at = result.index("n")
    return ax.reshape(found, (*found.shape[:at], heads * group, *found.shape[at + 2 :]))

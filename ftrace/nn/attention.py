"""Attention, as a composition: product, softmax, product."""

from __future__ import annotations

import math
from typing import Any

from ftrace import dtypes
from ftrace.errors import DtypeError, ShapeError, ValueRangeError
from ftrace.numpy import axes as ax
from ftrace.numpy.linear import contract
from ftrace.numpy.reductions import log_sum_exp, softmax
from ftrace.trace.bind import bind, elementwise
from ftrace.trace.eager.composite import run_fused
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
    keys, kv_heads = k.shape[1:3]
    group = heads // kv_heads
    full_shape = (batch, heads, length, keys)
    extra: list[Any] = []
    if bias is not None:
        extra.append(_like_logits("bias", bias, full_shape))
    if mask is not None:
        given = _like_logits("mask", mask, full_shape)
        if given.dtype != dtypes.bool_:
            raise DtypeError(
                f"dot_product_attention: mask must be of bools, got {given.dtype}; "
                "write mask.astype(bool), or give it as bias"
            )
        extra.append(given)
    lengths = (query_seq_lengths, key_value_seq_lengths)
    extra += [_lengths(x, batch) for x in lengths if x is not None]
    if isinstance(local_window_size, int):
        local_window_size = (local_window_size, local_window_size)
    options: dict[str, Any] = {
        "scale": float(1 / math.sqrt(features) if scale is None else scale),
        "causal": bool(is_causal),
        "window": None if local_window_size is None else tuple(local_window_size),
        "group": group,
        "has": (bias is not None, mask is not None, *(x is not None for x in lengths)),
    }
    result = run_fused(_attend, [q, k, v, *extra], **options)
    result = ax.reshape(result, shape)
    if not return_residual:
        return result
    residual = run_fused(_residual, [q, k, *extra], **options)
    return result, ax.reshape(residual, shape[:-1])


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
    return x


def _logits(
    q: Any,
    k: Any,
    *extra: Any,
    scale: float,
    causal: bool,
    window: tuple[int, int] | None,
    group: int,
    has: tuple[bool, ...],
) -> Any:
    """(batch, heads, T, S) in float32 at least, masked."""
    has_bias, has_mask, has_q, has_k = has
    parts = iter(extra)
    bias = next(parts) if has_bias else None
    mask = next(parts) if has_mask else None
    q_length = next(parts) if has_q else None
    k_length = next(parts) if has_k else None
    batch, length, heads, features = q.shape
    wide, _ = dtypes.promote((q.dtype, False), (dtypes.float32, False))
    q, k = ax.cast(q, wide), ax.cast(k, wide)
    if group == 1:
        logits = contract("attention", q, k, "btnh", "bsnh", "bnts")
    else:
        q = ax.reshape(q, (batch, length, heads // group, group, features))
        logits = contract("attention", q, k, "btngh", "bsnh", "bngts")
        logits = ax.reshape(logits, (batch, heads, length, k.shape[1]))
    logits = elementwise(p.mul, logits, scale)
    if bias is not None:
        logits = ax.cast(elementwise(p.add, logits, bias), wide)
    rows = ax.iota(dtypes.int32, (1, 1, *logits.shape[2:]), 2)
    columns = ax.iota(dtypes.int32, (1, 1, *logits.shape[2:]), 3)
    seen: list[Any] = [] if mask is None else [mask]
    if causal:
        seen.append(bind(p.ge, rows, columns))
    if window is not None:
        before, after = window
        seen.append(bind(p.le, rows, elementwise(p.add, columns, before)))
        seen.append(bind(p.ge, rows, elementwise(p.sub, columns, after)))
    if q_length is not None:
        seen.append(elementwise(p.lt, rows, ax.reshape(q_length, (batch, 1, 1, 1))))
    if k_length is not None:
        seen.append(elementwise(p.lt, columns, ax.reshape(k_length, (batch, 1, 1, 1))))
    if not seen:
        return logits
    everything = seen[0]
    for condition in seen[1:]:
        everything = elementwise(p.bit_and, everything, condition)
    # Finite, so that a row that sees nothing gives no NaN.
    least = ax.full((), -0.7 * 3.4028234663852886e38, wide)
    return ax.choose(ax.broadcast_to(everything, logits.shape), logits, least)


def _attend(q: Any, k: Any, v: Any, *extra: Any, **options: Any) -> Any:
    group, has = options["group"], options["has"]
    logits = ax.cast(_logits(q, k, *extra, **options), dtypes.float32)
    weights = ax.cast(softmax(logits, -1), k.dtype)
    batch, length, heads, features = q.shape
    if group == 1:
        result = contract("attention", weights, v, "bnts", "bsnh", "btnh")
    else:
        weights = ax.reshape(
            weights, (batch, heads // group, group, length, k.shape[1])
        )
        result = contract("attention", weights, v, "bngts", "bsnh", "btngh")
        result = ax.reshape(result, (batch, length, heads, features))
    if has[2]:
        lengths = extra[sum(has[:2])]
        rows = ax.iota(dtypes.int32, (1, length, 1, 1), 1)
        inside = elementwise(p.lt, rows, ax.reshape(lengths, (batch, 1, 1, 1)))
        result = ax.choose(inside, result, ax.full((), 0, result.dtype))
    return result


def _residual(q: Any, k: Any, *extra: Any, **options: Any) -> Any:
    logits = ax.cast(_logits(q, k, *extra, **options), dtypes.float32)
    total = ax.reshape(log_sum_exp(logits, (3,)), logits.shape[:3])
    return bind(p.stop_gradient, ax.cast(ax.permute(total, (0, 2, 1)), k.dtype))

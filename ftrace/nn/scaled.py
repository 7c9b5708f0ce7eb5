"""Products of numbers of few bits, in blocks that share a scale.

Formats: B. Rouhani and others, "Microscaling data formats for deep learning" (2023),
and the OCP MX specification: mxfp8 has elements of 4 bits of exponent and 3 of mantissa
in blocks of 32, with a power of two as scale; nvfp4 elements of 2 and 1 bits in blocks
of 16, whose scales are numbers of 4 and 3 bits. Numbers are rounded to those formats,
and computed with in float32, which holds them exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import ml_dtypes

import ftrace.numpy as fnp
from ftrace import dtypes, lax
from ftrace.errors import DtypeError, ShapeError, one_of
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lax.products import DotDimensionNumbers
from ftrace.numpy import axes as ax
from ftrace.numpy.linear import contract
from ftrace.trace.tracing.tracer import Value
from ftrace.transforms.custom.custom_derivatives import custom_vjp

__all__ = [
    "get_scaled_dot_general_config", "scaled_dot_general", "scaled_matmul",
]  # fmt: skip


def scaled_matmul(
    lhs: Value,
    rhs: Value,
    lhs_scales: Value,
    rhs_scales: Value,
    preferred_element_type: Any = dtypes.float32,
) -> Any:
    """The product of stacks of matrices whose blocks have scales, over the last axes.

    Args:
      lhs: (batch, m, k).
      rhs: (batch, n, k).
      lhs_scales, rhs_scales: (batch, m, blocks) and (batch, n, blocks): a factor for
        each block of k / blocks elements.
      preferred_element_type: in which it is computed.

    Returns:
      (batch, m, n).

    Raises:
      ShapeError: the shapes do not fit.
    """
    kind = dtypes.as_dtype(preferred_element_type)
    x, y, s, t = (ax.cast(v, kind) for v in (lhs, rhs, lhs_scales, rhs_scales))
    fits = x.ndim == y.ndim == s.ndim == t.ndim == 3
    fits = fits and (*x.shape[:2], *y.shape[:2]) == (*s.shape[:2], *t.shape[:2])
    fits = fits and x.shape[::2] == y.shape[::2] and s.shape[2] == t.shape[2]
    if not fits or not s.shape[2] or x.shape[2] % s.shape[2]:
        raise ShapeError(
            "scaled_matmul: (batch, m, k), (batch, n, k), (batch, m, blocks) and "
            "(batch, n, blocks) are required, k a multiple of blocks; got the shapes "
            f"{x.shape}, {y.shape}, {s.shape} and {t.shape}"
        )
    x, y = (_in_blocks(v, f.shape[2]) * f[..., None] for v, f in ((x, s), (y, t)))
    return contract("scaled_matmul", x, y, "bmcj", "bncj", "bmn")


def _in_blocks(x: Any, count: int) -> Any:
    return ax.reshape(x, (*x.shape[:-1], count, x.shape[-1] // count))


class BlockScaleConfig(NamedTuple):
    """How an operand is rounded.

    Attributes:
      mode: "mxfp8" or "nvfp4".
      block_size: how many elements share a scale.
      data_type, scale_type: the formats of elements and scales.
      global_scale: by which all is divided before; None in mxfp8.
      infer_only: without a meaning here.
    """

    mode: str
    block_size: int
    data_type: Any
    scale_type: Any
    global_scale: Any
    infer_only: bool


def get_scaled_dot_general_config(
    mode: str, global_scale: Value | None = None
) -> BlockScaleConfig:
    """How `scaled_dot_general` rounds an operand.

    Args:
      mode: "mxfp8" or "nvfp4".
      global_scale: of nvfp4, by default 1.

    Raises:
      ValueRangeError: there is no such mode.
    """
    one_of("get_scaled_dot_general_config: mode", mode, ("nvfp4", "mxfp8"))
    narrow = dtypes.NARROW
    if mode == "mxfp8":
        formats = narrow["float8_e4m3fn"], narrow["float8_e8m0fnu"]
        return BlockScaleConfig(mode, 32, *formats, None, False)
    formats = narrow["float4_e2m1fn"], narrow["float8_e4m3fn"]
    scale = fnp.ones((1,), dtypes.float32) if global_scale is None else global_scale
    return BlockScaleConfig(mode, 16, *formats, scale, False)


def scaled_dot_general(
    lhs: Value,
    rhs: Value,
    dimension_numbers: DotDimensionNumbers,
    preferred_element_type: Any = dtypes.float32,
    configs: Sequence[BlockScaleConfig] | None = None,
    implementation: str | None = None,
) -> Any:
    """`lax.dot_general` of operands that are rounded to few bits, in blocks.

    Derivatives pass the rounding as if it were not there. Those of mxfp8 round their
    own factors; those of nvfp4 are 0 where an operand is beyond its format.

    Args:
      lhs, rhs: the arrays.
      dimension_numbers: as in `dot_general`.
      preferred_element_type: of the result: float32, bfloat16 or float16.
      configs: of `lhs`, `rhs` and the cotangent; None rounds nothing.
      implementation: accepted, without effect.

    Raises:
      ShapeError: what is summed over is no multiple of the size of blocks.
      DtypeError: the result is to have another dtype.
    """
    if configs is None:
        return lax.dot_general(
            lhs, rhs, dimension_numbers, preferred_element_type=preferred_element_type
        )
    final = dtypes.as_dtype(preferred_element_type)
    if final not in (dtypes.float32, dtypes.bfloat16, dtypes.float16):
        raise DtypeError(
            "scaled_dot_general: preferred_element_type must be float32, bfloat16 or "
            f"float16, got {final}"
        )
    x, y = ax.as_value(lhs), ax.as_value(rhs)
    (of_x, of_y), (batch_x, batch_y) = dimension_numbers
    (left, kept_x), (right, kept_y) = (
        _flat(v, axes, batch)
        for v, axes, batch in ((x, of_x, batch_x), (y, of_y, batch_y))
    )
    result = _dot(left, right, tuple(configs))
    shape = (*(x.shape[i] for i in batch_x), *kept_x, *kept_y)
    return ax.cast(ax.reshape(result, shape), final)


def _flat(x: Any, summed: Sequence[int], batch: Sequence[int]) -> tuple[Any, Any]:
    """(batch, kept, summed), and the sizes of the axes that are kept."""
    kept = [i for i in range(x.ndim) if i not in (*summed, *batch)]
    groups = [[x.shape[i] for i in axes] for axes in (batch, kept, summed)]
    turned = ax.permute(x, (*batch, *kept, *summed))
    return ax.reshape(turned, tuple(map(prod, groups))), groups[1]


def _dot(x: Any, y: Any, configs: Sequence[BlockScaleConfig]) -> Any:
    """(batch, m, k), (batch, n, k) -> (batch, m, n)."""
    scales = [c.global_scale for c in configs]

    @custom_vjp
    def dot(x: Any, y: Any, scales: Any) -> Any:
        return _rounded_dot(x, y, *_with(configs, scales)[:2])

    def forward(x: Any, y: Any, scales: Any) -> tuple[Any, Any]:
        return dot(x, y, scales), (x, y, scales)

    def backward(kept: Any, cotangent: Any) -> tuple[Any, Any, Any]:
        x, y, scales = kept
        of_x, of_y, of_result = _with(configs, scales)
        turned = cotangent.swapaxes(1, 2)
        pairs = ((cotangent, y, of_y, x, of_x), (turned, x, of_x, y, of_y))
        found = [
            _beyond(mine, config, _slope(g, other, of_result, of_other)).astype(
                mine.dtype
            )
            for g, other, of_other, mine, config in pairs
        ]
        return found[0], found[1], None

    dot.defvjp(forward, backward)
    return dot(x, y, scales)


def _with(
    configs: Sequence[BlockScaleConfig], scales: Sequence[Any]
) -> list[BlockScaleConfig]:
    pairs = zip(configs, scales, strict=True)
    return [c._replace(global_scale=s) for c, s in pairs]


def _slope(
    g: Any, other: Any, of_g: BlockScaleConfig, of_other: BlockScaleConfig
) -> Any:
    """(batch, m, n) with (batch, n, k), summed over n."""
    if of_g.mode == "nvfp4":
        return fnp.matmul(g, other)
    return _rounded_dot(g, other.swapaxes(1, 2), of_g, of_other)


def _beyond(x: Any, config: BlockScaleConfig, slope: Any) -> Any:
    """The slope, and 0 where x is beyond what nvfp4 can hold."""
    if config.mode != "nvfp4":
        return slope
    most = config.global_scale * _most(config.data_type) * _most(config.scale_type)
    return fnp.where(abs(x) <= most, slope, 0)


def _rounded_dot(x: Any, y: Any, of_x: BlockScaleConfig, of_y: BlockScaleConfig) -> Any:
    parts = [_rounded(v, config) for v, config in ((x, of_x), (y, of_y))]
    (x, s), (y, t) = parts
    result = scaled_matmul(x, y, s, t)
    if of_x.mode == "nvfp4":
        result = result * (of_x.global_scale * of_y.global_scale)
    return result


def _rounded(x: Any, config: BlockScaleConfig) -> tuple[Any, Any]:
    """The elements and the scales of the blocks of the last axis, in float32."""
    if x.shape[-1] % config.block_size or not x.shape[-1]:
        raise ShapeError(
            f"scaled_dot_general: what is summed over has {x.shape[-1]} elements; "
            f"{config.mode} requires a multiple of {config.block_size}"
        )
    most = _most(config.data_type)
    blocks = _in_blocks(x.astype(dtypes.float32), x.shape[-1] // config.block_size)
    if config.mode == "nvfp4":
        blocks = blocks / config.global_scale
    scales = abs(blocks).max(-1) / most
    if config.mode == "mxfp8":
        fraction, exponent = fnp.frexp(scales)
        exponent = exponent - (fraction == 0.5)
        scales = fnp.ldexp(fnp.ones_like(scales), fnp.clip(exponent, -127, 127))
    else:
        scales = _to_format(scales, config.scale_type)
    known = fnp.where(scales == 0, 1, scales)[..., None]
    return _to_format(blocks / known, config.data_type).reshape(x.shape), scales


def _to_format(x: Any, kind: Any) -> Any:
    """The nearest number of a narrow format, of ties the even one; it saturates."""
    x = fnp.clip(x, -_most(kind), _most(kind))
    return x.astype(kind).astype(dtypes.float32)


def _most(kind: Any) -> float:
    return float(_limits(kind).max)


#: Of any float dtype.
_limits: Callable[[Any], Any] = ml_dtypes.finfo

"""Products: dot, dot_general, products of groups, and of blocks that share a scale.

Groups are rows that belong together and meet a matrix of their own. The divided axis of
the left operand holds them one after the other; of what lies beyond the last of them
nothing is used.

Blocks of numbers of few bits: B. Rouhani and others, "Microscaling data formats for
deep learning" (2023), and the OCP MX specification: mxfp8 has elements of 4 bits of
exponent and 3 of mantissa in blocks of 32, with a power of two as scale; nvfp4 elements
of 2 and 1 bits in blocks of 16, whose scales are numbers of 4 and 3 bits. Numbers are
rounded to those formats, and computed with in float32, which holds them exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import ArgumentError, DtypeError, ShapeError, one_of
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lax.elementwise import check_dtypes
from ftrace.numpy import axes as ax
from ftrace.numpy.creation import astype
from ftrace.numpy.cumulative import cumsum
from ftrace.numpy.linear import contract, dot_axes, finish, promote
from ftrace.trace.eager.precision import (
    DotAlgorithm,
    DotAlgorithmPreset,
    Precision,
    PrecisionLike,
    check_precision,
)
from ftrace.trace.eager.result_memory import place_result
from ftrace.trace.tracing.tracer import Value, aval_of
from ftrace.transforms.custom.custom_derivatives import custom_vjp

__all__ = [
    "DotAlgorithm", "DotAlgorithmPreset", "DotDimensionNumbers", "Precision",
    "PrecisionLike", "RaggedDotDimensionNumbers", "batch_matmul", "dot", "dot_general",
    "ragged_dot", "ragged_dot_general", "scaled_dot",
]  # fmt: skip

#: ((axes of lhs, axes of rhs) to sum over, (axes of lhs, axes of rhs) of the batch)
DotDimensionNumbers = tuple[
    tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]
]


class RaggedDotDimensionNumbers(NamedTuple):
    """The axes of a product whose groups have sizes of their own.

    Attributes:
      dot_dimension_numbers: as `dot_general` takes them.
      lhs_ragged_dimensions: the one axis of the left operand that is divided in groups.
      rhs_group_dimensions: the axis of the right operand that numbers the groups, if
        the divided axis is neither summed over nor of the batch; else none.
    """

    dot_dimension_numbers: DotDimensionNumbers
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]


# Of pairs of axes.


def dot_general(
    lhs: Value,
    rhs: Value,
    dimension_numbers: DotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Any:
    """The product over pairs of axes, with further pairs as batch.

    Args:
      lhs, rhs: the arrays.
      dimension_numbers: ((axes of lhs, axes of rhs) to sum over, (axes of lhs, axes
        of rhs) of the batch).
      precision: accepted, without effect.
      preferred_element_type: dtype of the result, and of the sum if it holds more.

    Returns:
      The axes of the batch, then those left of lhs, then those left of rhs.

    Raises:
      ShapeError: the axes of a pair differ in size, or are not given in pairs.

    Example:
      >>> x, y = fnp.ones((8, 2, 3)), fnp.ones((8, 3, 4))  # eight products of matrices
      >>> lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,)))).shape
      (8, 2, 4)
      >>> few = fnp.array([100, 100], np.int8)
      >>> axes = ((0,), (0,)), ((), ())
      >>> lax.dot_general(few, few, axes, preferred_element_type=np.int32)
      Array(20000, dtype=int32)
    """
    x, y = ax.as_value(lhs), ax.as_value(rhs)
    check_precision("lax.dot_general", precision)
    try:
        (of_x, of_y), (batch_x, batch_y) = dimension_numbers
    except (TypeError, ValueError):
        raise ArgumentError(
            "lax.dot_general: dimension_numbers must be ((lhs axes, rhs axes), (lhs "
            f"batch, rhs batch)), got {dimension_numbers!r}"
        ) from None
    name = "lax.dot_general"
    x_axes, x_batch = _axes(name, x, of_x, batch_x)
    y_axes, y_batch = _axes(name, y, of_y, batch_y)
    summed, batch = (x_axes, y_axes), (x_batch, y_batch)
    for what, (left, right) in (("contracting", summed), ("batch", batch)):
        if [x.shape[a] for a in left] != [y.shape[a] for a in right]:
            raise ShapeError(
                f"{name}: the {what} axes {left} of {x.shape} and {right} of {y.shape} "
                "must pair up, with one size each"
            )
    if x.dtype != y.dtype:  # the one that holds more, where `promote` may take a third
        most = max(x.dtype, y.dtype, key=_capacity)
        preferred_element_type = preferred_element_type or most
        x, y = [ax.cast(v, dtypes.widen(most)) for v in (x, y)]
    (x, y), final = promote(x, y, preferred_element_type=preferred_element_type)
    return finish(dot_axes(name, x, y, summed, batch), final)


def _capacity(dtype: np.dtype[Any]) -> tuple[int, ...]:
    """By what XLA's HigherPrecisionType compares: range, then digits, then signs."""
    real, kind = dtypes.real_dtype(dtype), dtypes.kind(dtype)
    info = dtypes.finfo(real) if kind in "fc" else None
    most, digits = (info.maxexp, info.nmant) if info else (-1, -1)
    return kind == "c", most, digits, dtypes.bits_of(real), "bui".find(kind)


def _axes(
    name: str, x: Any, axes: Sequence[int], batch: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Those to sum over and those of the batch, all different; one may be an int."""
    summed, shared = (tuple(a) if np.iterable(a) else (a,) for a in (axes, batch))
    found = ax.canonical_axes((*summed, *shared), x.ndim, name)
    return found[: len(summed)], found[len(summed) :]


def dot(
    lhs: Value,
    rhs: Value,
    *,
    dimension_numbers: DotDimensionNumbers | None = None,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Any:
    """The product of vectors and matrices; `dot_general` where axes are given.

    Args:
      lhs: (m, k) or (k,).
      rhs: (k, n) or (k,).
      dimension_numbers: as in `dot_general`; then operands may have any axes.
      precision: accepted, without effect.
      preferred_element_type: dtype of the result, and of the sum if it holds more.

    Returns:
      (m, n), without the axis that an operand of one axis lacks.

    Raises:
      ShapeError: an operand has not one axis or two, or the sizes differ.

    Example:
      >>> lax.dot(fnp.array([[1, 2], [3, 4]]), fnp.array([1, 10]))
      Array([21, 43], dtype=int32)
    """
    x, y = aval_of(lhs), aval_of(rhs)
    if dimension_numbers is None:
        if not (1 <= x.ndim <= 2 and 1 <= y.ndim <= 2) or x.shape[-1] != y.shape[0]:
            raise ShapeError(
                f"lax.dot: the shapes {x.shape} and {y.shape} do not fit: vectors and "
                "matrices are required, the last axis of one the first of the other"
            )
        dimension_numbers = (((x.ndim - 1,), (0,)), ((), ()))
    return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs: Value, rhs: Value, precision: PrecisionLike = None) -> Any:
    """Stacks of matrices multiplied pair by pair.

    Args:
      lhs: (…, m, k).
      rhs: (…, k, n), with the same leading axes and dtype: nothing broadcasts.
      precision: accepted, without effect.

    Returns:
      (…, m, n).

    Raises:
      ShapeError: they have not the same leading axes, or fewer than two axes.
      DtypeError: the dtypes differ.

    Example:
      >>> lax.batch_matmul(fnp.ones((5, 2, 3)), fnp.ones((5, 3, 4))).shape
      (5, 2, 4)
    """
    x, y = aval_of(lhs), aval_of(rhs)
    check_dtypes("batch_matmul", lhs, rhs)
    if min(x.ndim, y.ndim) < 2 or x.shape[:-2] != y.shape[:-2]:
        raise ShapeError(
            f"lax.batch_matmul: the shapes {x.shape} and {y.shape} must agree in all "
            "axes but the last two"
        )
    batch = tuple(range(x.ndim - 2))
    axes = (((x.ndim - 1,), (x.ndim - 2,)), (batch, batch))
    return dot_general(lhs, rhs, axes, precision)


# Of groups.

_ROWS = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))


def ragged_dot(
    lhs: Value,
    rhs: Value,
    group_sizes: Value,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    group_offset: None = None,
    out_sharding: Any = None,
) -> Any:
    """Row r of the left matrix times the matrix of the group to which r belongs.

    Args:
      lhs: (m, k).
      rhs: (groups, k, n).
      group_sizes: (groups,) integers, how many rows each has; rows after them are 0.
      precision: accepted, without effect.
      preferred_element_type: dtype of the result, and of the sum if it holds more.
      group_offset: not supported.
      out_sharding: where the result is, as `device_put` takes it.

    Returns:
      (m, n).

    Raises:
      ShapeError: the shapes do not fit.
      DtypeError: the sizes are not integers.

    Example:
      >>> rows = fnp.array([[1.0], [2.0], [3.0]])
      >>> experts = fnp.array([[[1.0]], [[10.0]]])  # the first has one row
      >>> lax.ragged_dot(rows, experts, fnp.array([1, 2]))
      Array([[ 1.],
             [20.],
             [30.]], dtype=float32)
    """
    return ragged_dot_general(
        lhs, rhs, group_sizes, _ROWS, precision, preferred_element_type, group_offset,
        out_sharding,
    )  # fmt: skip


def ragged_dot_general(
    lhs: Value,
    rhs: Value,
    group_sizes: Value,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    group_offset: None = None,
    out_sharding: Any = None,
) -> Any:
    """`dot_general`, one axis of which is divided into groups.

    Args:
      lhs, rhs: the arrays.
      group_sizes: (groups,) integers, or with the axes before it that the divided axis
        has of its kind: those of the batch, then others.
      ragged_dot_dimension_numbers: the axes. Where the divided axis is kept, each group
        meets its own part of `rhs`; where it is summed over, the result has a leading
        axis of groups; where it is of the batch, the sizes change nothing.
      precision: accepted, without effect.
      preferred_element_type: dtype of the result, and of the sum if it holds more.
      group_offset: not supported.
      out_sharding: where the result is, as `device_put` takes it.

    Raises:
      ShapeError: the shapes or the axes do not fit.
      DtypeError: the sizes are not integers.

    Example:
      >>> lhs, rhs = fnp.ones((3, 2)), fnp.ones((2, 2, 1))
      >>> dims = lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0])
      >>> lax.ragged_dot_general(lhs, rhs, fnp.array([1, 2]), dims)
      Array([[2.],
             [2.],
             [2.]], dtype=float32)
    """
    name = "lax.ragged_dot_general"
    if group_offset is not None:
        raise ArgumentError(f"{name}: group_offset is not supported")
    x, y = ax.as_value(lhs), ax.as_value(rhs)
    sizes = ax.integers(group_sizes, f"{name}: group_sizes")
    ax.need_axes(name, sizes, 1, "group_sizes")
    numbers, ragged, of_groups = ragged_dot_dimension_numbers
    (of_x, of_y), (batch_x, batch_y) = [[[*side] for side in pair] for pair in numbers]
    if len(ragged) != 1:
        raise ShapeError(f"{name}: one axis of lhs is divided, got {tuple(ragged)}")
    (divided,) = ax.canonical_axes(tuple(ragged), x.ndim, name)
    kept = [i for i in range(x.ndim) if i not in (*of_x, *batch_x)]
    wanted = 1 if divided in kept else 0
    if len(of_groups) != wanted:
        raise ShapeError(
            f"{name}: rhs must have {wanted} axes of groups where the divided axis of "
            f"lhs is {'kept' if wanted else 'summed over or of the batch'}, got "
            f"{tuple(of_groups)}"
        )
    if divided in batch_x:
        summed, batch = (of_x, of_y), (batch_x, batch_y)
    elif divided in kept:
        if y.shape[of_groups[0]] != sizes.shape[-1]:
            raise ShapeError(
                f"{name}: {sizes.shape[-1]} group_sizes, but {y.shape[of_groups[0]]} "
                "groups in rhs"
            )
        before = [*batch_x, *kept[: kept.index(divided)]]
        x = _mask(name, x, divided, before, sizes)
        summed = [0, *_after(of_x)], [*of_groups, *of_y]
        batch = _after(batch_x), batch_y
    else:
        at = of_x.index(divided)
        x = _mask(name, x, divided, [*batch_x, *of_x[:at]], sizes)
        y = _mask(name, y, of_y[at], [*batch_y, *of_y[:at]], sizes)
        summed = _after(of_x), _after(of_y)
        batch = [0, *_after(batch_x)], [0, *_after(batch_y)]
    result = dot_general(x, y, (summed, batch), precision, preferred_element_type)
    return place_result(result, out_sharding)


def _after(axes: Sequence[int]) -> list[int]:
    """The axes, when a new one stands before all."""
    return [axis + 1 for axis in axes]


def _mask(name: str, x: Any, axis: int, before: Sequence[int], sizes: Any) -> Any:
    """(groups, …): for each group x where it holds that group, and 0 elsewhere."""
    count, given = sizes.shape[-1], tuple(x.shape[i] for i in before)
    if sizes.ndim > 1 and sizes.shape[:-1] != given:
        raise ShapeError(
            f"{name}: group_sizes must have the shape ({count},) or {(*given, count)}, "
            f"got {sizes.shape}"
        )
    ends = cumsum(sizes, -1)
    shape = [1] * x.ndim
    if sizes.ndim > 1:
        for i in before:
            shape[i] = x.shape[i]
        # The sizes have their axes in the order of `before`.
        order = sorted(range(len(before)), key=before.__getitem__)
        places = (len(before), *order)
        ends, sizes = ax.permute(ends, places), ax.permute(sizes, places)
    ends, sizes = (ax.reshape(v, (count, *shape)) for v in (ends, sizes))
    position = astype(ax.iota(dtypes.int32, x.shape, axis), sizes.dtype)
    mine = (position >= ends - sizes) & (position < ends)
    return ax.choose(mine, x, ax.full((), 0, x.dtype, x.weak_type))


# Of blocks that share a scale.


def scaled_dot(
    lhs: Value,
    rhs: Value,
    *,
    lhs_scale: Value | None = None,
    rhs_scale: Value | None = None,
    dimension_numbers: DotDimensionNumbers | None = None,
    preferred_element_type: Any = None,
) -> Any:
    """The product of arrays whose blocks have scales, rounded to bfloat16 before.

    Args:
      lhs, rhs: the arrays.
      lhs_scale, rhs_scale: a factor for each block of elements that are summed over:
        the shape of the operand, whose summed axes are divided.
      dimension_numbers: as in `dot_general`; by default the last axis of `lhs` with the
        last but one of `rhs`, and all before them as batch.
      preferred_element_type: dtype of the result, by default bfloat16.

    Raises:
      ShapeError: the shapes do not fit.

    Example:
      >>> x = fnp.ones((2, 32), "float8_e4m3fn")
      >>> lax.scaled_dot(x, x.T)
      Array([[32, 32],
             [32, 32]], dtype=bfloat16)
    """
    x, y = ax.as_value(lhs), ax.as_value(rhs)
    if dimension_numbers is None:
        if min(x.ndim, y.ndim) < 2:
            raise ShapeError("lax.scaled_dot: the operands must have two axes at least")
        batch = tuple(range(x.ndim - 2))
        dimension_numbers = (((x.ndim - 1,), (x.ndim - 2,)), (batch, batch))
    of_x, of_y = dimension_numbers[0]
    pairs = ((x, lhs_scale, of_x), (y, rhs_scale, of_y))
    x, y = (_scale(operand, scale, axes) for operand, scale, axes in pairs)
    kind = preferred_element_type or dtypes.bfloat16
    return dot_general(x, y, dimension_numbers, preferred_element_type=kind)


def _scale(x: Any, scale: Any, axes: Sequence[int]) -> Any:
    x = astype(x, dtypes.bfloat16)
    if scale is None:
        return x
    factors = astype(ax.as_value(scale), dtypes.bfloat16)
    blocks: list[int] = []
    wide: list[int] = []
    for axis, (n, m) in enumerate(zip(x.shape, factors.shape, strict=False)):
        if n != m and (axis not in axes or m == 0 or n % m):
            break
        blocks += [m, n // m] if n != m else [m]
        wide += [m, 1] if n != m else [m]
    else:
        if x.ndim == factors.ndim:
            scaled = ax.reshape(x, tuple(blocks)) * ax.reshape(factors, tuple(wide))
            return ax.reshape(scaled, x.shape)
    raise ShapeError(
        f"lax.scaled_dot: a scale of shape {factors.shape} does not divide the axes "
        f"{tuple(axes)} of an operand of shape {x.shape} into blocks"
    )


# Those of `ftrace.nn`.


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

    Example:
      >>> x = fnp.ones((1, 2, 32), "float8_e4m3fn")
      >>> s = fnp.ones((1, 2, 1), "float8_e8m0fnu")
      >>> nn.scaled_matmul(x, x, s, s)
      Array([[[32., 32.],
              [32., 32.]]], dtype=float32)
    """
    kind = dtypes.as_dtype(preferred_element_type)
    x, y, s, t = (ax.cast(v, kind) for v in (lhs, rhs, lhs_scales, rhs_scales))
    fits = x.ndim == y.ndim == s.ndim == t.ndim == 3
    fits = fits and (*x.shape[:2], *y.shape[:2]) == (*s.shape[:2], *t.shape[:2])
    fits = fits and x.shape[::2] == y.shape[::2] and s.shape[2] == t.shape[2]
    if not fits or not s.shape[2] or x.shape[2] % s.shape[2]:
        raise ShapeError(
            "scaled_matmul: (batch, m, k), (batch, n, k), (batch, m, blocks) and "
            "(batch, n, blocks) are required, k a multiple of blocks; got shapes "
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

    Example:
      >>> nn.get_scaled_dot_general_config("mxfp8").block_size
      32
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

    Example:
      >>> x = fnp.ones((1, 2, 32))
      >>> configs = [nn.get_scaled_dot_general_config("mxfp8")] * 3
      >>> dims = (((2,), (2,)), ((0,), (0,)))
      >>> nn.scaled_dot_general(x, x, dims, configs=configs)
      Array([[[32., 32.],
              [32., 32.]]], dtype=float32)
    """
    if configs is None:
        return dot_general(
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
        _flatten(v, axes, batch)
        for v, axes, batch in ((x, of_x, batch_x), (y, of_y, batch_y))
    )
    result = _dot(left, right, tuple(configs))
    shape = (*(x.shape[i] for i in batch_x), *kept_x, *kept_y)
    return ax.cast(ax.reshape(result, shape), final)


def _flatten(x: Any, summed: Sequence[int], batch: Sequence[int]) -> tuple[Any, Any]:
    """(batch, kept, summed), and the sizes of the axes that are kept."""
    kept = [i for i in range(x.ndim) if i not in (*summed, *batch)]
    return ax.merge_axes(x, batch, kept, summed), [x.shape[i] for i in kept]


def _dot(x: Any, y: Any, configs: Sequence[BlockScaleConfig]) -> Any:
    """(batch, m, k), (batch, n, k) -> (batch, m, n)."""
    scales = [c.global_scale for c in configs]

    @custom_vjp
    def dot(x: Any, y: Any, scales: Any) -> Any:
        return _dot_rounded(x, y, *_with(configs, scales)[:2])

    def forward(x: Any, y: Any, scales: Any) -> tuple[Any, Any]:
        return dot(x, y, scales), (x, y, scales)

    def backward(residuals: Any, cotangent: Any) -> tuple[Any, Any, Any]:
        x, y, scales = residuals
        of_x, of_y, of_result = _with(configs, scales)
        transposed = cotangent.swapaxes(1, 2)
        pairs = ((cotangent, y, of_y, x, of_x), (transposed, x, of_x, y, of_y))
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
    return _dot_rounded(g, other.swapaxes(1, 2), of_g, of_other)


def _beyond(x: Any, config: BlockScaleConfig, slope: Any) -> Any:
    """The slope, and 0 where x is beyond what nvfp4 can hold."""
    if config.mode != "nvfp4":
        return slope
    most = config.global_scale * _most(config.data_type) * _most(config.scale_type)
    return fnp.where(abs(x) <= most, slope, 0)


def _dot_rounded(x: Any, y: Any, of_x: BlockScaleConfig, of_y: BlockScaleConfig) -> Any:
    parts = [_round(v, config) for v, config in ((x, of_x), (y, of_y))]
    (x, s), (y, t) = parts
    result = scaled_matmul(x, y, s, t)
    if of_x.mode == "nvfp4":
        result = result * (of_x.global_scale * of_y.global_scale)
    return result


def _round(x: Any, config: BlockScaleConfig) -> tuple[Any, Any]:
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

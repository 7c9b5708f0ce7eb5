"""Convolutions: a window that slides, a product, a sum.

    out[n, o, p…] = sum over i, k… of  in[n, i, p·stride + k·dilation …] · w[o, i, k…]

Padding and the spreading of the input are `pad`, the window is a view of the padded
input, and the rest is a contraction: nothing like "im2col" is stored on a device.
Groups are one more axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ftrace.errors import ArgumentError, ShapeError, ValueRangeError, one_of
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lax import reductions
from ftrace.lax.products import dot_general
from ftrace.numpy import axes as ax
from ftrace.numpy.linear import contract, finish, promote
from ftrace.numpy.shape import swapaxes
from ftrace.trace.eager.composite import run_fused
from ftrace.trace.eager.precision import PrecisionLike, check_precision
from ftrace.trace.eager.result_memory import place_result
from ftrace.trace.tracing.tracer import Value

__all__ = [
    "ConvDimensionNumbers", "ConvGeneralDilatedDimensionNumbers", "conv",
    "conv_dimension_numbers", "conv_general_dilated", "conv_general_dilated_local",
    "conv_general_dilated_patches", "conv_general_permutations",
    "conv_general_shape_tuple", "conv_shape_tuple", "conv_transpose",
    "conv_transpose_shape_tuple", "conv_with_general_padding",
]  # fmt: skip


# Which axis is what.


class ConvDimensionNumbers(NamedTuple):
    """Where the operands of a convolution hold what.

    Attributes:
      lhs_spec: the axes of batch, feature and space of the input.
      rhs_spec: the axes of output feature, input feature and space of the kernel.
      out_spec: the axes of batch, feature and space of the result.
    """

    lhs_spec: Sequence[int]
    rhs_spec: Sequence[int]
    out_spec: Sequence[int]


ConvGeneralDilatedDimensionNumbers = (
    None | ConvDimensionNumbers | tuple[str | None, str | None, str | None]
)


def conv_general_permutations(
    dimension_numbers: Sequence[str],
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The axes of each operand in the order batch (or out), feature (or in), space.

    Args:
      dimension_numbers: three strings such as ("NCHW", "OIHW", "NCHW").

    Raises:
      ValueRangeError: they are not three, a letter is missing or stands twice, or
        the axes differ.

    Example:
      >>> lax.conv_general_permutations(("NHWC", "HWIO", "NHWC"))
      ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    if len(dimension_numbers) != 3:
        raise ValueRangeError(
            "convolution: dimension_numbers must be three strings such as "
            f"('NCHW', 'OIHW', 'NCHW'), got {dimension_numbers!r}"
        )
    lhs, rhs, out = dimension_numbers
    roles = (("N", "C"), ("O", "I"), ("N", "C"))
    for spec, pair in zip((lhs, rhs, out), roles, strict=True):
        if len(set(spec)) != len(spec) or not set(pair) <= set(spec):
            raise ValueRangeError(
                f"convolution: {spec!r} must hold {pair[0]!r} and {pair[1]!r} and a "
                "letter for each spatial axis, each once"
            )
    space = [c for c in rhs if c not in "OI"]
    for spec in (lhs, out):
        if set(spec) - {"N", "C"} != set(space):
            raise ValueRangeError(
                f"convolution: {lhs!r}, {rhs!r} and {out!r} must name the same spatial "
                "axes"
            )
    in_axes, filter_axes, out_axes = (
        tuple(spec.index(c) for c in (*pair, *space))
        for spec, pair in zip((lhs, rhs, out), roles, strict=True)
    )
    return in_axes, filter_axes, out_axes


def conv_dimension_numbers(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    dimension_numbers: ConvGeneralDilatedDimensionNumbers,
) -> ConvDimensionNumbers:
    """The axes of a convolution; None stands for "NC…", "OI…", "NC…".

    Args:
      lhs_shape, rhs_shape: the shapes of input and kernel.
      dimension_numbers: three strings, the axes themselves, or None.

    Raises:
      ShapeError: the operands differ in their number of axes, or from the strings.
      ArgumentError: `dimension_numbers` is neither three strings nor axes.

    Example:
      >>> lax.conv_dimension_numbers((1, 3, 8), (4, 3, 5), ("NCH", "OIH", "NCH"))
      ConvDimensionNumbers(lhs_spec=(0, 1, 2), rhs_spec=(0, 1, 2), out_spec=(0, 1, 2))
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    ndim = len(lhs_shape)
    if ndim != len(rhs_shape):
        raise ShapeError(
            f"convolution: lhs and rhs must have as many axes, got shapes "
            f"{tuple(lhs_shape)} and {tuple(rhs_shape)}"
        )
    if dimension_numbers is None:
        order = tuple(range(ndim))
        return ConvDimensionNumbers(order, order, order)
    specs: tuple[Any, ...] = tuple(dimension_numbers)
    if len(specs) != 3 or not all(isinstance(spec, str) for spec in specs):
        raise ArgumentError(
            "convolution: dimension_numbers must be three strings such as ('NHWC', "
            f"'HWIO', 'NHWC'), ConvDimensionNumbers or None; got {dimension_numbers!r}"
        )
    if any(len(spec) != ndim for spec in specs):
        raise ShapeError(
            f"convolution: each of {specs} must have a letter for each axis of "
            f"{tuple(lhs_shape)}"
        )
    return ConvDimensionNumbers(*conv_general_permutations(specs))


# Convolution.


def conv_general_dilated(
    lhs: Value,
    rhs: Value,
    window_strides: Sequence[int],
    padding: reductions.Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The convolution of an input with a kernel, over any number of spatial axes.

    Args:
      lhs: the input; by default (batch, feature, space…).
      rhs: the kernel; by default (output feature, input feature, space…).
      window_strides: how far each output moves the window, per spatial axis.
      padding: "SAME", "SAME_LOWER", "VALID", or (before, after) per spatial axis.
      lhs_dilation: how far the elements of the input are spread.
      rhs_dilation: how far the elements of the kernel are apart.
      dimension_numbers: the axes, as in ("NHWC", "HWIO", "NHWC").
      feature_group_count: so many groups of features that do not mix.
      batch_group_count: so many groups of the batch, each with its output features.
      precision: accepted, without effect.
      preferred_element_type: dtype of the result, and of the sum if it holds more.
      out_sharding: where the result is, as `device_put` takes it.

    Returns:
      By default (batch, output feature, places…). As in all of deep learning the kernel
      is not flipped: out[n, o, p] = Σ lhs[n, i, p·stride + t·dilation - before]·rhs[o,
      i, t].

    Raises:
      ShapeError: the shapes do not fit each other.
      ValueRangeError: the padding is malformed, or a string for a spread input.

    Example:
      >>> x = fnp.array([1.0, 2.0, 3.0, 4.0]).reshape(1, 1, 4)
      >>> kernel = fnp.array([1.0, 10.0]).reshape(1, 1, 2)
      >>> lax.conv_general_dilated(x, kernel, (1,), "VALID")
      Array([[[21., 32., 43.]]], dtype=float32)
      >>> image, filters = fnp.ones((8, 32, 32, 3)), fnp.ones((5, 5, 3, 16))
      >>> lax.conv_general_dilated(image, filters, (2, 2), "SAME",
      ...                          dimension_numbers=("NHWC", "HWIO", "NHWC")).shape
      (8, 16, 16, 16)
    """
    name = "lax.conv_general_dilated"
    check_precision(name, precision)
    (x, w), final = promote(lhs, rhs, preferred_element_type=preferred_element_type)
    axes = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    x, w = ax.permute(x, tuple(axes.lhs_spec)), ax.permute(w, tuple(axes.rhs_spec))
    if isinstance(padding, str) and set(lhs_dilation or ()) - {1}:
        raise ValueRangeError(
            f"{name}: with lhs_dilation, write the padding in numbers, or use "
            "lax.conv_transpose"
        )
    windows = reductions.windows_of(
        name, x.shape[2:], w.shape[2:], padding, window_strides=window_strides,
        lhs_dilation=lhs_dilation, rhs_dilation=rhs_dilation,
    )  # fmt: skip
    groups = (feature_group_count, batch_group_count)
    _check_channels(name, x.shape, w.shape, groups)
    result = run_fused(_convolve, [x, w], windows=windows, groups=groups)
    result = finish(ax.permute(result, ax.inverse(axes.out_spec)), final)
    return place_result(result, out_sharding)


def _check_channels(
    name: str, x: tuple[int, ...], w: tuple[int, ...], groups: tuple[int, int]
) -> None:
    features, batches = groups
    if min(groups) < 1 or (features > 1 and batches > 1):
        raise ShapeError(
            f"{name}: feature_group_count and batch_group_count must be positive, and "
            f"one of them 1; got {groups}"
        )
    if x[1] != w[1] * features:
        raise ShapeError(
            f"{name}: the input has {x[1]} features; the kernel takes {w[1]} in each "
            f"of {features} groups"
        )
    if w[0] % features or w[0] % batches or x[0] % batches:
        raise ShapeError(
            f"{name}: {w[0]} output features and a batch of {x[0]} cannot be divided "
            f"into {features} groups of features and {batches} of the batch"
        )


def _convolve(
    x: Any, w: Any, windows: tuple[ax.Window, ...], groups: tuple[int, int]
) -> Any:
    """(batch, feature, space…) with (out, in, space…): (batch, out, space…)."""
    features, batches = groups
    batch, _, *space = x.shape
    out = w.shape[0]
    places = [window.outputs(n) for window, n in zip(windows, space, strict=True)]
    if 0 in places or 0 in x.shape or 0 in w.shape:
        return ax.as_value(np.zeros((batch // batches, out, *places), x.dtype))
    names = [f"p{i}" for i in range(len(space))]
    taps = [f"k{i}" for i in range(len(space))]
    seen = ax.slide_all(x, (ax.Window(1), ax.Window(1), *windows))
    wide = [k for k, window in zip(taps, windows, strict=True) if window.size > 1]
    x_labels = [*wide, "n", "i", *names]
    w_labels = ["o", "i", *taps]
    count = max(groups)
    if count > 1:
        at = len(wide) + (features > 1)
        shape = (count, seen.shape[at] // count)
        seen = ax.reshape(seen, (*seen.shape[:at], *shape, *seen.shape[at + 1 :]))
        x_labels.insert(at, "g")
        w = ax.reshape(w, (count, out // count, *w.shape[1:]))
        w_labels.insert(0, "g")
    result_labels = ["n", *(["g"] if count > 1 else []), "o", *names]
    result = contract("convolution", seen, w, x_labels, w_labels, result_labels)
    return ax.reshape(result, (batch // batches, out, *places))


def conv(
    lhs: Value,
    rhs: Value,
    window_strides: Sequence[int],
    padding: str,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Any:
    """`conv_general_dilated` with the default axes, without groups and dilation.

    Args:
      lhs: (batch, feature, space…).
      rhs: (output feature, input feature, space…).
      window_strides: how far each output moves the window, per spatial axis.
      padding: "SAME", "SAME_LOWER" or "VALID".
      precision: accepted, without effect.
      preferred_element_type: dtype of the result, and of the sum if it holds more.

    Raises:
      ShapeError: the shapes do not fit each other.
      ValueRangeError: the padding is malformed.

    Example:
      >>> lax.conv(fnp.ones((1, 2, 5)), fnp.ones((1, 2, 3)), (1,), "SAME")
      Array([[[4., 6., 6., 6., 4.]]], dtype=float32)
    """
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, precision=precision,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


def conv_with_general_padding(
    lhs: Value,
    rhs: Value,
    window_strides: Sequence[int],
    padding: reductions.Padding,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Any:
    """`conv_general_dilated` with the default axes and without groups.

    Args:
      lhs: (batch, feature, space…).
      rhs: (output feature, input feature, space…).
      window_strides: how far each output moves the window, per spatial axis.
      padding: "SAME", "SAME_LOWER", "VALID", or (before, after) per spatial axis.
      lhs_dilation: how far the elements of the input are spread, or None.
      rhs_dilation: how far the elements of the kernel are apart, or None.
      precision: accepted, without effect.
      preferred_element_type: dtype of the result, and of the sum if it holds more.

    Raises:
      ShapeError: the shapes do not fit each other.
      ValueRangeError: the padding is malformed.

    Example:
      >>> x, w = fnp.ones((1, 1, 4)), fnp.ones((1, 1, 3))
      >>> lax.conv_with_general_padding(x, w, (1,), ((1, 1),), None, None)
      Array([[[2., 3., 3., 2.]]], dtype=float32)
    """
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation,
        precision=precision, preferred_element_type=preferred_element_type,
    )  # fmt: skip


_TRANSPOSED_DEFAULTS = {
    2: ("NC", "IO", "NC"),
    3: ("NHC", "HIO", "NHC"),
    4: ("NHWC", "HWIO", "NHWC"),
    5: ("NHWDC", "HWDIO", "NHWDC"),
}


def conv_transpose(
    lhs: Value,
    rhs: Value,
    strides: Sequence[int],
    padding: reductions.Padding,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    transpose_kernel: bool = False,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    use_consistent_padding: bool = False,
) -> Any:
    """A convolution whose strides make the result larger.

    Args:
      lhs: the input; by default (batch, space…, feature).
      rhs: the kernel; by default (space…, input feature, output feature).
      strides: how far the elements of the input are spread.
      padding: "SAME" (size·stride), "VALID", or (before, after) per spatial axis of
        the spread input.
      rhs_dilation: how far the elements of the kernel are apart.
      dimension_numbers: the axes, as in ("NHWC", "HWIO", "NHWC").
      transpose_kernel: flip the kernel in space and exchange its features, so that it
        is the gradient of the convolution with that kernel.
      precision: accepted, without effect.
      preferred_element_type: dtype of the result.
      use_consistent_padding: pairs of padding are those of the convolution whose
        gradient this is.

    Raises:
      ShapeError: the shapes do not fit each other.
      ValueRangeError: the padding is malformed.

    Example:
      >>> x = fnp.array([1.0, 2.0]).reshape(1, 2, 1)
      >>> kernel = fnp.array([1.0, 10.0]).reshape(2, 1, 1)
      >>> lax.conv_transpose(x, kernel, (2,), "VALID")[0, :, 0]
      Array([10.,  1., 20.,  2.], dtype=float32)
    """
    x, w = ax.as_value(lhs), ax.as_value(rhs)
    numbers = dimension_numbers or _TRANSPOSED_DEFAULTS.get(x.ndim)
    if numbers is None:
        raise ShapeError(f"conv_transpose: give dimension_numbers for {x.ndim} axes")
    axes = conv_dimension_numbers(x.shape, w.shape, numbers)
    space = tuple(axes.rhs_spec)[2:]
    name = "lax.conv_transpose"
    steps = reductions.check_counts(name, "strides", strides, len(space))
    dilation = reductions.check_counts(name, "rhs_dilation", rhs_dilation, len(space))
    reaches = [(w.shape[a] - 1) * d + 1 for a, d in zip(space, dilation, strict=True)]
    pads = _transpose_pads(name, reaches, steps, padding)
    if use_consistent_padding and not isinstance(padding, str):
        rows = zip(reaches, pads, strict=True)
        pads = [(k - lo - 1, k - hi - 1) for k, (lo, hi) in rows]
    if transpose_kernel:
        w = swapaxes(ax.flip(w, space), *axes.rhs_spec[:2])
    return conv_general_dilated(
        x, w, (1,) * len(space), pads, steps, dilation, axes, precision=precision,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


def _transpose_pads(
    name: str, reaches: Sequence[int], steps: Sequence[int], padding: reductions.Padding
) -> list[tuple[int, int]]:
    """So that the result has size·step elements ("SAME"), or all that there are."""
    if not isinstance(padding, str):
        return reductions.check_padding(name, padding, len(reaches))
    kind = padding.upper()
    one_of(f"{name}: {reductions.WITHOUT_PAIRS}", kind, ("SAME", "VALID"))
    pads: list[tuple[int, int]] = []
    for reach, step in zip(reaches, steps, strict=True):
        total, before = reach + step - 2, reach - 1
        if kind == "VALID":
            total += max(reach - step, 0)
        elif step < reach:
            before = -(-total // 2)
        pads.append((before, total - before))
    return pads


def conv_general_dilated_patches(
    lhs: Value,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: reductions.Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Any:
    """The patches that a convolution sees, as features: input feature, then space.

    Args:
      lhs: the input; by default (batch, feature, space…).
      filter_shape: the size of the window along each spatial axis.
      window_strides, padding, lhs_dilation, rhs_dilation: as of `conv_general_dilated`.
      dimension_numbers, precision, preferred_element_type: likewise.

    Returns:
      By default (batch, input feature · window, places…).

    Raises:
      ShapeError: the shapes do not fit each other.
      ValueRangeError: the padding is malformed.

    Example:
      >>> x = fnp.arange(5.0).reshape(1, 1, 5)
      >>> lax.conv_general_dilated_patches(x, (3,), (1,), "VALID")
      Array([[[0., 1., 2.],
              [1., 2., 3.],
              [2., 3., 4.]]], dtype=float32)
    """
    x = ax.as_value(lhs)
    shape = tuple(filter_shape)
    axes = conv_dimension_numbers(x.shape, (1, 1, *shape), dimension_numbers)
    count = int(np.prod(shape))
    channels = x.shape[axes.lhs_spec[1]]
    # A kernel that is an identity picks each element of the window.
    identity: Any = np.eye(count, dtype=x.dtype)
    identity = identity.reshape((count, 1, *shape))
    kernel: Any = np.tile(identity, (channels, *[1] * (len(shape) + 1)))
    places = np.argsort(axes.rhs_spec)
    return conv_general_dilated(
        x, kernel.transpose(places), window_strides, padding, lhs_dilation,
        rhs_dilation, axes, channels, 1, precision, preferred_element_type,
    )  # fmt: skip


def conv_general_dilated_local(
    lhs: Value,
    rhs: Value,
    window_strides: Sequence[int],
    padding: reductions.Padding,
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    precision: PrecisionLike = None,
) -> Any:
    """A convolution with another kernel at each place.

    Args:
      lhs: the input; by default (batch, feature, space…).
      rhs: the kernels; by default (output feature, input feature · window, places…).
      filter_shape: the sizes of the window.
      window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, precision:
        as of `conv_general_dilated`.

    Raises:
      ShapeError: the shapes do not fit each other.
      ValueRangeError: the padding is malformed.

    Example:
      >>> x, w = fnp.ones((1, 1, 4)), fnp.ones((1, 3, 2))
      >>> lax.conv_general_dilated_local(x, w, (1,), "VALID", (3,))
      Array([[[3., 3.]]], dtype=float32)
    """
    x, w = ax.as_value(lhs), ax.as_value(rhs)
    axes = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    seen = conv_general_dilated_patches(
        ax.permute(x, tuple(axes.lhs_spec)), filter_shape, window_strides, padding,
        lhs_dilation, rhs_dilation,
    )  # fmt: skip
    w = ax.permute(w, tuple(axes.rhs_spec))
    what = "lax.conv_general_dilated_local: kernels (out, features · window, places…)"
    ax.need_shape(w, what, (w.shape[0], *seen.shape[1:]))
    batch = tuple(range(2, w.ndim))
    result = dot_general(w, seen, (((1,), (1,)), (batch, batch)), precision)
    places = tuple(range(w.ndim - 2))  # (places…, out, batch)
    result = ax.permute(result, (w.ndim - 1, w.ndim - 2, *places))
    return ax.permute(result, ax.inverse(axes.out_spec))


# Shapes of results.


def conv_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    strides: Sequence[int],
    pads: reductions.Padding,
    batch_group_count: int = 1,
) -> tuple[int, ...]:
    """The shape of a convolution of (batch, feature, space…) and (out, in, space…).

    Args:
      lhs_shape, rhs_shape: the shapes of input and kernel.
      strides, pads, batch_group_count: as of `conv_general_dilated`.

    Example:
      >>> lax.conv_shape_tuple((8, 3, 32, 32), (16, 3, 5, 5), (2, 2), "SAME")
      (8, 16, 16, 16)
    """
    space, sizes = tuple(lhs_shape)[2:], tuple(rhs_shape)[2:]
    windows = reductions.windows_of(
        "lax.conv_shape_tuple", space, sizes, pads, window_strides=strides,
        lhs_dilation=None, rhs_dilation=None,
    )  # fmt: skip
    places = [window.outputs(n) for window, n in zip(windows, space, strict=True)]
    return lhs_shape[0] // batch_group_count, rhs_shape[0], *places


def conv_general_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: reductions.Padding,
    dimension_numbers: Sequence[str],
) -> tuple[int, ...]:
    """The shape of a convolution whose axes are named, as in ("NHWC", "HWIO", …).

    Args:
      lhs_shape, rhs_shape: the shapes of input and kernel.
      window_strides, padding, dimension_numbers: as of `conv_general_dilated`.

    Example:
      >>> dims = ("NCH", "OIH", "NCH")
      >>> lax.conv_general_shape_tuple((1, 3, 8), (4, 3, 5), (1,), "VALID", dims)
      (1, 4, 4)
    """
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    found = conv_shape_tuple(
        [lhs_shape[i] for i in lhs], [rhs_shape[i] for i in rhs], window_strides,
        padding,
    )  # fmt: skip
    return tuple(found[i] for i in ax.inverse(out))


def conv_transpose_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: reductions.Padding,
    dimension_numbers: Sequence[str],
) -> tuple[int, ...]:
    """The shape of `conv_transpose`, whose kernel has its output feature at "O".

    Args:
      lhs_shape, rhs_shape: the shapes of input and kernel.
      window_strides, padding, dimension_numbers: as of `conv_transpose`.

    Example:
      >>> dims = ("NCH", "OIH", "NCH")
      >>> lax.conv_transpose_shape_tuple((1, 3, 8), (4, 3, 5), (2,), "VALID", dims)
      (1, 4, 19)
    """
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    batch, _, *space = (lhs_shape[i] for i in lhs)
    features, _, *sizes = (rhs_shape[i] for i in rhs)
    steps = tuple(window_strides)
    pads = _transpose_pads("lax.conv_transpose_shape_tuple", sizes, steps, padding)
    found = [
        (n - 1) * s - k + 2 + lo + hi
        for n, k, s, (lo, hi) in zip(space, sizes, steps, pads, strict=True)
    ]
    shape = (batch, features, *found)
    return tuple(shape[i] for i in ax.inverse(out))

"""The one form of every product of arrays: expand, multiply, sum.

There is no matmul primitive. Both operands are brought to common axes, the ones that
are summed last, by reshape and expand; then they are multiplied and added up. Devices
recognise this, and never store the product.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import ShapeError
from ftrace.numpy.axes import as_value, cast, drop_axes, expand, insert_axes, permute
from ftrace.trace.avals import pairs_of
from ftrace.trace.fused import run_fused
from ftrace.trace.operations import bind
from ftrace.trace.primitives.broadcast import reduce_sum_p
from ftrace.trace.primitives.elementwise import mul
from ftrace.trace.tracer import Value, aval_of

Labels = Sequence[Hashable]


def promoted(
    *operands: Value, preferred_element_type: Any = None
) -> tuple[list[Any], np.dtype[Any] | None]:
    """The factors of a product in one dtype, and the dtype to convert the sum to.

    A preferred dtype that holds more than the operands' is taken before multiplying.
    """
    avals = [aval_of(x) for x in operands]
    dtype, weak = dtypes.promote(*pairs_of(avals))
    if preferred_element_type is None:
        return [cast(x, dtype, weak) for x in operands], None
    final = dtypes.canonicalize(dtypes.as_dtype(preferred_element_type))
    joined, _ = dtypes.promote((dtype, False), (final, False))
    return [cast(x, joined) for x in operands], final


def finished(result: Any, dtype: np.dtype[Any] | None) -> Any:
    """A product in the dtype that was preferred for it."""
    return result if dtype is None else cast(result, dtype)


def contract(
    name: str,
    x: Any,
    y: Any,
    x_labels: Labels,
    y_labels: Labels,
    out: Labels,
    repeats: bool = False,
) -> Any:
    """The sum of x·y over the labels that `out` does not have.

    Args:
      name: for messages.
      x, y: values of one dtype.
      x_labels, y_labels: a name for each axis; axes of one name run together, and
        where they stay a size of 1 repeats.
      out: the names of the axes of the result, in order.
      repeats: whether a size of 1 repeats where axes are summed, too.

    Raises:
      ShapeError: two axes of one name differ in size.
    """
    sizes: dict[Hashable, int] = {}
    for operand, labels in ((x, x_labels), (y, y_labels)):
        for label, size in zip(labels, operand.shape, strict=True):
            if sizes.setdefault(label, size) != size:
                fits = (repeats or label in out) and 1 in (size, sizes[label])
                if not fits:
                    axis = (
                        f"axis {label!r}"
                        if repeats and str(label).isascii()
                        else "axis"
                    )
                    raise ShapeError(
                        f"{name}: the shapes {x.shape} and {y.shape} do not fit: sizes "
                        f"{sizes[label]} and {size} of the {axis} that they share "
                        "differ; transpose or reshape one of them"
                    )
                sizes[label] = size if sizes[label] == 1 else sizes[label]
    order = (*out, *[label for label in sizes if label not in out])
    shape = tuple(sizes[label] for label in order)
    return run_fused(
        _multiply_sum, [x, y], shape=shape, kept=len(out),
        x_axes=tuple(order.index(label) for label in x_labels),
        y_axes=tuple(order.index(label) for label in y_labels),
    )  # fmt: skip


def _multiply_sum(
    x: Any,
    y: Any,
    shape: tuple[int, ...],
    kept: int,
    x_axes: tuple[int, ...],
    y_axes: tuple[int, ...],
) -> Any:
    """The sum over all axes but the first `kept`; `x_axes` says where those of x go."""
    is_bool = x.dtype == dtypes.bool_
    if is_bool and kept < len(shape):
        x, y = cast(x, dtypes.int32), cast(y, dtypes.int32)
    product = bind(mul, _placed(x, x_axes, shape), _placed(y, y_axes, shape))
    axes = tuple(range(kept, len(shape)))
    if not axes:
        return product
    result = drop_axes(bind(reduce_sum_p, product, arg=axes), axes)
    return cast(result, dtypes.bool_) if is_bool else result


def _placed(x: Any, axes: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """`x` with its axes at the positions `axes` of `shape`; it repeats elsewhere."""
    x = permute(x, tuple(sorted(range(len(axes)), key=axes.__getitem__)))
    missing = [a for a in range(len(shape)) if a not in axes]
    return expand(insert_axes(x, missing), shape)


def dot_axes(
    name: str,
    x: Value,
    y: Value,
    axes: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> Any:
    """The product over pairs of axes: the axes of batch, then the rest of x, then of y.

    Args:
      name: for messages.
      x, y: values of one dtype.
      axes: the axes of x and of y to sum over, pair by pair.
      batch: the axes of x and of y that run together.
    """
    x, y = as_value(x), as_value(y)
    x_labels: list[Hashable] = [("x", a) for a in range(x.ndim)]
    y_labels: list[Hashable] = [("y", a) for a in range(y.ndim)]
    shared: list[Hashable] = []
    for a, b in zip(batch[0], batch[1], strict=True):
        shared.append(x_labels[a])
        y_labels[b] = x_labels[a]
    for a, b in zip(axes[0], axes[1], strict=True):
        y_labels[b] = x_labels[a]
    gone = {x_labels[a] for a in axes[0]}
    used = {*gone, *shared}
    out = [label for label in (*x_labels, *y_labels) if label not in used]
    return contract(name, x, y, x_labels, y_labels, [*shared, *out])

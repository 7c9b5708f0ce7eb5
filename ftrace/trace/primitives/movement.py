"""Movement: where elements go. Linear, and free until a kernel's index arithmetic.

    reshape  (2, 3) -> (6,)                 same elements, row-major
    permute  axes in another order
    pad      zeros before, after and between, per axis: (before, after, between)
    shrink   a slice per axis: (start, stop)
    stride   every n-th element; a negative n also flips
    shear    y[o, k] = z[o·s + k·d, k]      a window slides: convolution, pooling
    unshear  z[i, k] = y[(i - k·d)/s, k]    its transpose; zero where there is none

`expand` stands with its adjoint, the sum, in `broadcast.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from operator import getitem
from typing import Any

import numpy as np

from ftrace.errors import AxisError, ShapeError
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.trace.avals import Shape, ShapedArray
from ftrace.trace.graph import Flags, Node, Nodes, make_node
from ftrace.trace.primitives.primitive import Array, Direct, Primitive
from ftrace.trace.primitives.sources import const_p
from ftrace.trace.symbolic import same_size

Pads = tuple[tuple[int, int, int], ...]
Bounds = tuple[tuple[int, int], ...]


class Shear(NamedTuple):
    """The argument of shear and unshear.

    Attributes:
      axis: the axis that slides.
      window: the axis that holds the position in the window.
      stride: how far one output moves the window.
      dilation: how far two elements of the window are apart.
      size: the size of `axis` in the result.
    """

    axis: int
    window: int
    stride: int
    dilation: int
    size: int


_reshaped: Any = vars(np.ndarray)["reshape"]
_permuted: Any = vars(np.ndarray)["transpose"]


def _movement(
    name: str,
    infer: Callable[[Any, ShapedArray], ShapedArray],
    numpy: Callable[[ShapedArray, Any, Any], Any],
    transpose: Callable[[Node, Node], Node],
    batched_arg: Callable[[Any, int], Any],
    doc: str,
    direct: Direct | None = None,
) -> Primitive:
    """A linear primitive of one operand; `batched_arg(arg, n)` adds a leading axis."""

    def batch(node: Node, src: Nodes, batched: Flags) -> Node:
        return record(src[0], arg=batched_arg(node.arg, src[0].shape[0]))

    record = Primitive(
        name, "movement", infer, numpy, batch, linear=True, exact=True,
        zero_at_zero=True, transpose=lambda node, ct, i: transpose(node, ct), doc=doc,
        direct=direct,
    )  # fmt: skip
    return record


# reshape


def _infer_reshape(shape: Shape, x: ShapedArray) -> ShapedArray:
    if not same_size(prod(shape), x.size) or any(n < 0 for n in shape):
        raise ShapeError(
            f"reshape: cannot reshape array of shape {x.shape} (size {x.size}) into "
            f"shape {shape} (size {prod(shape)})"
        )
    return x.with_shape(shape)


reshape_p = _movement(
    "reshape", _infer_reshape, lambda aval, shape, x: x.reshape(shape),
    lambda node, ct: reshape(ct, node.src[0].shape), lambda shape, n: (n, *shape),
    "the same elements, row-major, in another shape",
    lambda aval, shape: (_reshaped, (shape,)),
)  # fmt: skip


def reshape(x: Node, shape: Shape) -> Node:
    if same_size(x.shape, shape):
        return x
    if x.op is const_p:
        return make_node(const_p, _infer_reshape(shape, x.aval), (), x.arg)
    return reshape_p(x, arg=shape)


# permute


def _infer_permute(axes: tuple[int, ...], x: ShapedArray) -> ShapedArray:
    if sorted(axes) != list(range(x.ndim)):
        raise AxisError(
            f"transpose: {axes} is not a permutation of the {x.ndim} axes of {x!r}"
        )
    return x.with_shape(tuple([x.shape[a] for a in axes]))


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes another one; of other numbers, their ranks."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


permute_p = _movement(
    "permute", _infer_permute, lambda aval, axes, x: x.transpose(axes),
    lambda node, ct: permute(ct, inverse(node.arg)),
    lambda axes, n: (0, *(a + 1 for a in axes)), "the axes in another order",
    lambda aval, axes: (_permuted, (axes,)),
)  # fmt: skip


def permute(x: Node, axes: tuple[int, ...]) -> Node:
    return x if axes == tuple(range(x.ndim)) else permute_p(x, arg=axes)


def move_axis(x: Node, source: int, destination: int) -> Node:
    """Takes out one axis and puts it elsewhere."""
    axes = [a for a in range(x.ndim) if a != source]
    axes.insert(destination, source)
    return permute(x, tuple(axes))


def split_shape(shape: Shape, axis: int, count: int) -> Shape:
    """A shape with the outer part of an axis, of this size, as an axis before it."""
    return (*shape[:axis], count, shape[axis] // count, *shape[axis + 1 :])


def merge_shape(shape: Shape, axis: int) -> Shape:
    """`split_shape` back."""
    return (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])


# pad


def padded_size(size: int, before: int, after: int, between: int) -> int:
    return before + after + size + max(size - 1, 0) * between


def _infer_pad(pads: Pads, x: ShapedArray) -> ShapedArray:
    assert all(min(p) >= 0 for p in pads), (pads, x)
    sizes = zip(x.shape, pads, strict=True)
    return x.with_shape(tuple([padded_size(n, *p) for n, p in sizes]))


def _pad_value(aval: ShapedArray, pads: Pads, x: Array) -> Array:
    result = np.zeros(aval.shape, aval.dtype)
    if x.size:
        result[_inner(aval.shape, pads)] = x
    return result


def _inner(shape: Shape, pads: Pads) -> tuple[slice, ...]:
    """Where the elements are that were there before the padding."""
    sizes = zip(shape, pads, strict=True)
    return tuple(slice(lo, n - hi, gap + 1) for n, (lo, hi, gap) in sizes)


def _transpose_pad(node: Node, ct: Node) -> Node:
    pads: Pads = node.arg
    sizes = zip(node.shape, pads, strict=True)
    inner = tuple((before, size - after) for size, (before, after, _) in sizes)
    if same_size(node.src[0].size, 0):
        return shrink(ct, tuple((0, size) for size in node.src[0].shape))
    return stride(shrink(ct, inner), tuple(gap + 1 for _, _, gap in pads))


pad_p = _movement(
    "pad", _infer_pad, _pad_value, _transpose_pad, lambda pads, n: ((0, 0, 0), *pads),
    "zeros (before, after, between) per axis",
)  # fmt: skip


def pad(x: Node, pads: Pads) -> Node:
    return pad_p(x, arg=pads) if any(map(any, pads)) else x


# shrink


def _infer_shrink(bounds: Bounds, x: ShapedArray) -> ShapedArray:
    if len(bounds) != x.ndim:
        raise ShapeError(
            f"slice: {x!r} needs a start and a stop for each axis, got {bounds}"
        )
    for axis, ((lo, hi), size) in enumerate(zip(bounds, x.shape, strict=True)):
        if not 0 <= lo <= hi <= size:
            raise ShapeError(
                f"slice: axis {axis} of {x!r} needs 0 <= start <= stop <= {size}, got "
                f"start {lo} and stop {hi}"
            )
    return x.with_shape(tuple([hi - lo for lo, hi in bounds]))


def _transpose_shrink(node: Node, ct: Node) -> Node:
    bounds: Bounds = node.arg
    sizes = zip(bounds, node.src[0].shape, strict=True)
    return pad(ct, tuple((lo, size - hi, 0) for (lo, hi), size in sizes))


shrink_p = _movement(
    "shrink", _infer_shrink,
    lambda aval, bounds, x: x[tuple(slice(lo, hi) for lo, hi in bounds)],
    _transpose_shrink, lambda bounds, n: ((0, n), *bounds),
    "a slice (start, stop) per axis",
    lambda aval, bounds: (getitem, (tuple(slice(lo, hi) for lo, hi in bounds),)),
)  # fmt: skip


def shrink(x: Node, bounds: Bounds) -> Node:
    full = tuple((0, size) for size in x.shape)
    return x if same_size(bounds, full) else shrink_p(x, arg=bounds)


def shrink_axis(x: Node, axis: int, start: int, stop: int) -> Node:
    """A slice along one axis."""
    bounds = [(0, size) for size in x.shape]
    bounds[axis] = (start, stop)
    return shrink(x, tuple(bounds))


def shift_axis(x: Node, axis: int, by: int) -> Node:
    """The elements one place further on (1) or back (-1); a zero comes in."""
    size = x.shape[axis]
    if same_size(size, 0):
        return x
    pads = [(0, 0, 0)] * x.ndim
    pads[axis] = (1, 0, 0) if by > 0 else (0, 1, 0)
    start = 0 if by > 0 else 1
    return pad(shrink_axis(x, axis, start, start + size - 1), tuple(pads))


# stride


def _infer_stride(steps: tuple[int, ...], x: ShapedArray) -> ShapedArray:
    assert 0 not in steps, (steps, x)
    sizes = zip(x.shape, steps, strict=True)
    return x.with_shape(tuple([-(-size // abs(step)) for size, step in sizes]))


def _transpose_stride(node: Node, ct: Node) -> Node:
    steps: tuple[int, ...] = node.arg
    flips = tuple(1 if step > 0 else -1 for step in steps)
    pads: list[tuple[int, int, int]] = []
    for step, size, full in zip(steps, ct.shape, node.src[0].shape, strict=True):
        after = full - padded_size(size, 0, 0, abs(step) - 1)
        pads.append((0, after, abs(step) - 1) if step > 0 else (after, 0, -step - 1))
    return pad(stride(ct, flips), tuple(pads))


stride_p = _movement(
    "stride", _infer_stride,
    lambda aval, steps, x: x[tuple(slice(None, None, step) for step in steps)],
    _transpose_stride, lambda steps, n: (1, *steps),
    "every n-th element per axis; negative flips",
    lambda aval, steps: (getitem, (tuple(slice(None, None, n) for n in steps),)),
)  # fmt: skip


def stride(x: Node, steps: tuple[int, ...]) -> Node:
    sizes = zip(x.shape, steps, strict=True)
    useful = tuple([1 if same_size(n, 1) else step for n, step in sizes])
    return x if set(useful) <= {1} else stride_p(x, arg=useful)


def flip(x: Node, axes: tuple[int, ...]) -> Node:
    """The elements along the axes in reverse order."""
    return stride(x, tuple(-1 if a in axes else 1 for a in range(x.ndim)))


# shear and unshear


def _infer_shear(arg: Shear, x: ShapedArray) -> ShapedArray:
    axis, window, step, dilation, size = arg
    assert axis != window, arg
    assert min(step, dilation) > 0, arg
    return x.with_shape((*x.shape[:axis], size, *x.shape[axis + 1 :]))


def _overlap(arg: Shear, outputs: int, inputs: int, k: int) -> tuple[slice, slice]:
    """(slice of outputs, slice of inputs) that element k of the window connects."""
    first = k * arg.dilation
    count = max(0, min(outputs, -(-(inputs - first) // arg.stride)))
    return slice(0, count), slice(first, first + count * arg.stride, arg.stride)


def _shear_value(aval: ShapedArray, arg: Shear, x: Array, back: bool = False) -> Array:
    result = np.zeros(aval.shape, aval.dtype)
    to, x = _sliding_first(result, arg), _sliding_first(x, arg)
    for k in range(x.shape[1]):
        y, z = (x, to) if back else (to, x)
        places = _overlap(arg, y.shape[0], z.shape[0], k)
        new, old = places[::-1] if back else places
        to[new, k] = x[old, k]
    return result


def _sliding_first(x: Array, arg: Shear) -> Array:
    return np.moveaxis(x, (arg.axis, arg.window), (0, 1))


def _transposed_arg(node: Node) -> Shear:
    """The argument of the transpose of a shear or unshear."""
    arg: Shear = node.arg
    return arg._replace(size=node.src[0].shape[arg.axis])


def _batched_shear(arg: Shear, n: int) -> Shear:
    axis, window, step, dilation, size = arg
    return Shear(axis + 1, window + 1, step, dilation, size)


def _transpose_shear(node: Node, ct: Node) -> Node:
    return unshear_p(ct, arg=_transposed_arg(node))


shear_p = _movement(
    "shear", _infer_shear, _shear_value, _transpose_shear, _batched_shear,
    "y[o, k] = z[o·stride + k·dilation, k], zero outside",
)  # fmt: skip

unshear_p = _movement(
    "unshear", _infer_shear, lambda aval, arg, y: _shear_value(aval, arg, y, True),
    lambda node, ct: shear_p(ct, arg=_transposed_arg(node)), _batched_shear,
    "z[i, k] = y[(i - k·dilation)/stride, k], zero where that is no index",
)  # fmt: skip


#: Movements whose results have zeros beside elements of the operand.
PADDING = (pad_p, shear_p, unshear_p)

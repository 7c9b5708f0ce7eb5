"""Windows that slide over an array: what pooling, convolution and cumsum share.

    y[k, …, o, …] = x[…, o·stride + k·dilation, …]

The window is a new leading axis. It is a view (`shear`), until a kernel reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ftrace import dtypes
from ftrace.errors import ShapeError
from ftrace.numpy.axes import (
    as_value,
    choose,
    expand,
    full,
    insert_axes,
    pad,
    shrink,
    stride,
)
from ftrace.records import NamedTuple
from ftrace.trace.operations import bind
from ftrace.trace.primitives.movement import Shear, shear_p


class Window(NamedTuple):
    """How a window slides along one axis.

    Attributes:
      size: how many elements it sees.
      stride: how far each output moves it.
      dilation: how far two of its elements are apart.
      before, after: elements added around the axis; a negative number takes away.
      between: elements added between two of the axis.
    """

    size: int
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0
    between: int = 0

    @property
    def reach(self) -> int:
        """From the first element that it sees to the last, both counted."""
        return (self.size - 1) * self.dilation + 1 if self.size else 0

    def outputs(self, size: int) -> int:
        """How many places it takes along an axis of this size."""
        full_size = self.before + self.after + size + max(size - 1, 0) * self.between
        return max((full_size - self.reach) // self.stride + 1, 0)


def slide(x: Any, axis: int, window: Window) -> Any:
    """`x` with a leading axis for the window; `axis` then counts its places.

    The padding has been done.
    """
    outputs = (x.shape[axis] - window.reach) // window.stride + 1
    x = insert_axes(x, (0,))
    x = expand(x, (window.size, *x.shape[1:]))
    arg = Shear(axis + 1, 0, window.stride, window.dilation, outputs)
    return bind(shear_p, x, arg=arg)


def slide_all(x: Any, windows: Sequence[Window], fill: Any = 0) -> Any:
    """A window per axis: leading axes for the windows of more than one element.

    Args:
      x: a value.
      windows: one for each axis.
      fill: what padding holds: a number, or a scalar value of the dtype of x.

    Returns:
      The windows' axes in the order of the axes, then an axis of places for each.
    """
    x = padded(x, windows, fill)
    wide = [a for a, w in enumerate(windows) if w.size > 1]
    for done, axis in enumerate(reversed(wide)):
        x = slide(x, axis + done, windows[axis])
    for axis, window in enumerate(windows):
        if window.size <= 1 and window.stride > 1:
            steps = [1] * x.ndim
            steps[axis + len(wide)] = window.stride
            x = stride(x, tuple(steps))
    return x


def padded(x: Any, windows: Sequence[Window], fill: Any = 0) -> Any:
    """`x` with what the windows add around and between its elements.

    Raises:
      ShapeError: more is taken away than there is.
    """
    x = as_value(x)
    grown = tuple((max(w.before, 0), max(w.after, 0), w.between) for w in windows)
    result = pad(x, grown)
    is_zero = isinstance(fill, (bool, int, float)) and fill == 0
    if not is_zero and any(map(any, grown)):
        inside = pad(full(x.shape, True, dtypes.bool_), grown)
        result = choose(inside, result, fill)
    bounds = tuple(
        (max(-w.before, 0), n - max(-w.after, 0))
        for w, n in zip(windows, result.shape, strict=True)
    )
    if any(low > high for low, high in bounds):
        raise ShapeError(
            f"padding {[(w.before, w.after) for w in windows]} takes away more than "
            f"{x.shape} has"
        )
    return shrink(result, bounds)

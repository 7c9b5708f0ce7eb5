"""Convolutions by a row of a table, in both layouts: what their tests share.

A row holds the shapes of images and filters, in their layout; strides, padding,
dilation, and the number of groups.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ftrace as ft
import ftrace.numpy as fnp

Row = tuple[Any, ...]
Array = np.ndarray[Any, Any]

#: What `form` makes of a convolution.
FORMS = ("forward", "fused", "by the image", "by the filters")


def normal(*shape: int, seed: int = 0, dtype: Any = np.float64) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def _numbers(dimensions: int, last: bool) -> tuple[str, str, str] | None:
    space = "HWD"[:dimensions]
    return (f"N{space}C", f"{space}IO", f"N{space}C") if last else None


def strided(row: Row, last: bool = False) -> Any:
    """The convolution of a row; `last`: channels are the last axis."""
    _, _, strides, pads, dilation, groups = row

    def run(x: Any, w: Any) -> Any:
        return ft.lax.conv_general_dilated(
            x, w, strides, pads, rhs_dilation=dilation, feature_group_count=groups,
            dimension_numbers=_numbers(len(strides), last),
        )  # fmt: skip

    return run


def spread(row: Row, last: bool = False) -> Any:
    """Strides are of the image: so many places less one between its elements."""
    _, _, spreads, pads, dilation, groups = row

    def run(x: Any, w: Any) -> Any:
        ones, numbers = (1,) * len(spreads), _numbers(len(spreads), last)
        return ft.lax.conv_general_dilated(
            x, w, ones, pads, spreads, dilation, numbers, groups
        )

    return run


def gradient(function: Any, operand: int) -> Any:
    """(x, w, cotangent) -> the cotangent of one operand of a function of x and w."""

    def run(x: Any, w: Any, y: Any) -> Any:
        return ft.vjp(function, x, w)[1](y)[operand]

    return run


def form(
    function: Any, name: str, before: Callable[[Any], Any] = lambda x: x
) -> Callable[..., Any]:
    """A convolution as one of `FORMS`, of images, filters, and an array of results.

    Args:
      before: done to the images in the fused one.
    """

    def fused(x: Any, w: Any, y: Any) -> Any:
        return fnp.maximum(function(before(x), w) + y[0, ..., :1], 0) * y

    if name == "forward":
        return lambda x, w, y: function(x, w)
    return fused if name == "fused" else gradient(function, FORMS.index(name) - 2)


def check_form(row: Row, function: Any, program: Any, dtype: Any) -> None:
    """A form has the results of the interpreter, whatever the number of threads."""
    x, w = normal(*row[0], dtype=dtype), normal(*row[1], seed=1, dtype=dtype)
    y = normal(*ft.eval_shape(function, x, w).shape, seed=2, dtype=dtype)
    arrays = (x, w, y)
    found = np.asarray(ft.jit(program)(*arrays))
    with ft.config(device="interpreter"):
        wanted = np.asarray(ft.jit(program)(*(v.astype(np.float64) for v in arrays)))
    bound = float(np.finfo(dtype).eps) * 100 * float(np.abs(wanted).max())
    np.testing.assert_allclose(found, wanted, rtol=0, atol=bound)
    with ft.set_threads(5):
        np.testing.assert_array_equal(ft.jit(program)(*arrays), found)

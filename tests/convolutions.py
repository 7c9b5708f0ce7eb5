"""Convolutions by a row of a table, in both layouts: what their tests share.

A row holds the shapes of images and filters, channels first; strides, padding,
dilation, and the number of groups.
"""

from __future__ import annotations

from typing import Any

import ftrace as ft

Row = tuple[Any, ...]


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

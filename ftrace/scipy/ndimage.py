"""Interpolation in arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product
from typing import Any

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import ShapeError, UnsupportedError, one_of
from ftrace.ground.missing_names import tell_missing
from ftrace.lax.elementwise import round as round_away
from ftrace.numpy.axes import as_value, cast, choose
from ftrace.typing import ArrayLike

__all__ = ["map_coordinates"]


def map_coordinates(
    input: ArrayLike,
    coordinates: Sequence[ArrayLike],
    order: int,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
) -> Any:
    """The values of an array between its elements.

    Args:
      input: the array.
      coordinates: one array per axis of `input`: where along it to look.
      order: 0 takes the nearest element, 1 interpolates linearly.
      mode: what there is outside: "constant", `cval`; "nearest", the last element;
        "wrap", the array again (SciPy's "grid-wrap"); "mirror" and "reflect", the array
        mirrored at the middle of its last element and at its edge.
      cval: the value outside, for "constant" (SciPy's "grid-constant").

    Returns:
      Of the shape of each array of coordinates, and the dtype of `input`.

    Raises:
      ShapeError: there is not one array of coordinates per axis.
      UnsupportedError: the order or the mode is another.

    Example:
      >>> x = fnp.array([[0.0, 1.0], [10.0, 11.0]])
      >>> at = [fnp.array([0.5, 1.0]), fnp.array([0.5, 0.25])]
      >>> ft.scipy.ndimage.map_coordinates(x, at, order=1)
      Array([ 5.5 , 10.25], dtype=float32)
    """
    x = as_value(input)
    places = [as_value(c) for c in coordinates]
    if len(places) != x.ndim or not places:
        raise ShapeError(
            "map_coordinates: one array of coordinates per axis is required, got "
            f"{len(places)} for an input of shape {x.shape}"
        )
    modes = ("constant", "nearest", "wrap", "mirror", "reflect")
    one_of("map_coordinates: mode", mode, modes, UnsupportedError)
    one_of("map_coordinates: order", order, (0, 1), UnsupportedError)
    outside = cast(cval, x.dtype)
    corners = product(*map(_nearest if order == 0 else _neighbours, places))
    result: Any = None
    for corner in corners:
        rows = [(index, n) for (index, _), n in zip(corner, x.shape, strict=True)]
        value = x[tuple([_inside(index, n, mode) for index, n in rows])]
        if mode == "constant":
            known = [fnp.logical_and(index >= 0, index < n) for index, n in rows]
            value = choose(reduce(fnp.logical_and, known), value, outside)
        for _, weight in corner:
            value = value if weight is None else weight * value
        result = value if result is None else result + value
    if not dtypes.is_inexact(x.dtype) and dtypes.is_inexact(result.dtype):
        result = round_away(result)
    return cast(result, x.dtype)


def _nearest(places: Any) -> list[tuple[Any, Any]]:
    """The nearest position, without a weight."""
    if dtypes.is_inexact(places.dtype):
        places = round_away(places)
    return [(cast(places, dtypes.int32), None)]


def _neighbours(places: Any) -> list[tuple[Any, Any]]:
    """The positions below and above, with their weights."""
    if not dtypes.is_inexact(places.dtype):
        return _nearest(places)
    below = fnp.floor(places)
    above_weight = places - below
    index = cast(below, dtypes.int32)
    return [(index, 1 - above_weight), (index + 1, above_weight)]


def _inside(index: Any, n: int, mode: str) -> Any:
    """The position in an axis of n elements that a position anywhere stands for."""
    if mode == "wrap":
        return fnp.remainder(index, n)
    if mode == "mirror" and n > 1:
        period = 2 * (n - 1)
        return fnp.abs(fnp.remainder(index + (n - 1), period) - (n - 1))
    if mode == "reflect":
        folded = fnp.remainder(index, 2 * n)
        return fnp.minimum(folded, 2 * n - 1 - folded)
    return fnp.clip(index, 0, n - 1)


tell_missing(__name__)

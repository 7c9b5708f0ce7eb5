"""Interpolation on grids."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial, reduce
from itertools import product
from operator import add, mul
from typing import Any

import numpy as np

from ftrace import dtypes, numpy as fnp
from ftrace.errors import DtypeError, ShapeError, ValueRangeError, one_of
from ftrace.ground.missing_names import tell_missing
from ftrace.numpy.axes import as_value, cast
from ftrace.trace.tracing.tracer import Value
from ftrace.tree_util import register_dataclass

__all__ = ["RegularGridInterpolator"]


@partial(
    register_dataclass, data_fields=("grid", "values", "fill_value"),
    meta_fields=("method", "bounds_error"),
)  # fmt: skip
class RegularGridInterpolator:
    """A function that is known on a grid, elsewhere.

    Args:
      points: for each axis of the grid its coordinates, which increase.
      values: at the grid's points; it may have further axes.
      method: "linear" or "nearest".
      bounds_error: points outside are an error. Their values must be known then: not
        under `jit`.
      fill_value: the value outside; None extrapolates.

    Raises:
      ShapeError: there are more coordinates than axes of `values`.
      ValueRangeError: the method is unknown.
      DtypeError: `fill_value` does not fit `values`.

    Example:
      >>> grid = fnp.array([0.0, 1.0]), fnp.array([0.0, 10.0])
      >>> f = ft.scipy.interpolate.RegularGridInterpolator(
      ...     grid, fnp.array([[0.0, 1.0], [2.0, 3.0]]))
      >>> f(fnp.array([[0.5, 5.0], [1.0, 10.0]]))
      Array([1.5, 3. ], dtype=float32)
    """

    def __init__(
        self, points: Sequence[Value], values: Value, method: str = "linear",
        bounds_error: bool = False, fill_value: Any = math.nan,
    ) -> None:  # fmt: skip
        one_of("RegularGridInterpolator: method", method, ("linear", "nearest"))
        self.method = method
        self.bounds_error = bounds_error
        self.grid = tuple([fnp.asarray(p) for p in points])
        self.values = as_value(values)
        self.values = cast(self.values, dtypes.to_inexact(self.values.dtype))
        if len(self.grid) > self.values.ndim:
            raise ShapeError(
                f"RegularGridInterpolator: {len(self.grid)} axes need values with as "
                f"many, got shape {self.values.shape}"
            )
        if fill_value is not None:
            fill_value = fnp.asarray(fill_value)
            if not np.can_cast(fill_value.dtype, self.values.dtype, "same_kind"):
                raise DtypeError(
                    "RegularGridInterpolator: fill_value must be None or of the kind "
                    f"of values, {self.values.dtype}, got {fill_value.dtype}"
                )
        self.fill_value = fill_value

    def __call__(self, xi: Any, method: str | None = None) -> Any:
        """The values at points.

        Args:
          xi: (…, axes), or a tuple with an array per axis.
          method: instead of the interpolator's.

        Returns:
          (…, further axes of `values`).

        Raises:
          ShapeError: the last axis of `xi` is not that of the coordinates.
          ValueRangeError: a point lies outside, with `bounds_error`.
        """
        method = self.method if method is None else method
        one_of("RegularGridInterpolator: method", method, ("linear", "nearest"))
        count = len(self.grid)
        if isinstance(xi, tuple):
            places: Any = fnp.stack(fnp.broadcast_arrays(*xi), -1)  # pyright: ignore[reportUnknownArgumentType]
        else:
            places = as_value(xi)
            if places.ndim == 1:
                places = places.reshape(-1, count)
        if places.ndim == 0 or places.shape[-1] != count:
            raise ShapeError(
                f"RegularGridInterpolator: points of {count} coordinates are required, "
                f"got shape {places.shape}"
            )
        outside: Any = False
        cells: list[tuple[Any, Any]] = []
        for k, grid in enumerate(self.grid):
            x = places[..., k]
            cell = fnp.clip(fnp.searchsorted(grid, x) - 1, 0, max(grid.size - 2, 0))
            low = grid[cell]
            cells.append((cell, (x - low) / (grid[cell + 1] - low)))
            outside = outside | (x < grid[0]) | (x > grid[-1])
        if self.bounds_error and outside.any():
            raise ValueRangeError(
                "RegularGridInterpolator: a point lies outside of the grid; leave out "
                "bounds_error to have fill_value there"
            )
        further: Any = (...,) + (None,) * (self.values.ndim - count)
        if method == "nearest":
            nearest = [fnp.where(part > 0.5, cell + 1, cell) for cell, part in cells]
            found = self.values[tuple(nearest)]
        else:
            corners = product((0, 1), repeat=count)
            found = reduce(add, [self._corner(cells, up, further) for up in corners])
        if self.bounds_error or self.fill_value is None:
            return found
        return fnp.where(outside[further], self.fill_value, found)

    def _corner(self, cells: Any, up: Sequence[int], further: Any) -> Any:
        """The values at one corner of each cell, with their weights."""
        rows = [*zip(cells, up, strict=True)]
        parts = [part if high else 1 - part for (_, part), high in rows]
        weight: Any = reduce(mul, parts)
        return self.values[tuple([c + high for (c, _), high in rows])] * weight[further]


tell_missing(__name__)

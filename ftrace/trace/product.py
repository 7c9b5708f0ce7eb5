"""A matrix product that is a whole plan: often `np.matmul` of the very operands.

    reshape, permute, expand -> sum of products -> permute, reshape

Whether the views around the product change anything depends on the operands' strides.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ftrace.trace.evaluate import Plan, apply

Shape = tuple[int, ...]

_Way = Callable[[Any, Any], Any]
_View = Callable[[Any], Any]
#: Strides of operands for which a way is kept.
_WAYS_KEPT = 16


class PlannedProduct:
    """What a plan gives for two operands, in NumPy."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._ways: dict[Any, _Way] = {}

    @staticmethod
    def of(plan: Plan, operands: int) -> PlannedProduct | None:
        """None if there is more in the plan than a product and movement."""
        steps = plan.steps()
        products = [step for step in steps if step[1] is not None]
        moves = [step for step in steps if step[0].op.family == "movement"]
        if operands != 2 or plan.constants or len(products) != 1:
            return None
        return PlannedProduct(plan) if len(moves) + 1 == len(steps) else None

    @property
    def adds_all(self) -> bool:
        """Is it multiply and add, whatever the strides?"""
        sums: Any = [step[1] for step in self._plan.steps() if step[1] is not None]
        return all(contraction.adds_all for contraction in sums)

    def __call__(self, x: Any, y: Any) -> Any:
        key = x.strides, y.strides
        way = self._ways.get(key)
        if way is None:
            if len(self._ways) >= _WAYS_KEPT:
                self._ways.clear()
            way = self._ways[key] = self._way(x, y)
        return way(x, y)

    def _whole(self, x: Any, y: Any) -> Any:
        return self._plan.told([x, y])[0]

    def _multiplied(self, x: Any, y: Any, contraction: Any, given: Any) -> _Way:
        """Multiply and add up, where nothing else happens, else the whole plan."""
        left, right = given
        whole: Any = left.shape == right.shape == contraction.product_shape
        if not whole or not contraction.is_no_matrix_product(left, right):
            return self._whole
        views = _view_of(x, left), _view_of(y, right)
        result = self._whole(x, y)
        if None in views or result.size * left.size == 0:
            return self._whole
        found = partial(_sum_of_views, *views, contraction, result.shape)
        again: Any = found(x, y)
        same = again.dtype == result.dtype and again.tobytes() == result.tobytes()
        return found if same else self._whole

    def _way(self, x: Any, y: Any) -> _Way:
        """The product alone where nothing else happens, else the whole plan."""
        values: dict[int, Any] = {0: x, 1: y}
        operands: list[Any] = []
        product: Any = None
        for node, contraction, sources, slot in self._plan.steps():
            given = [values[i] for i in sources]
            if contraction is None:
                values[slot] = apply(node, given)
                continue
            views = contraction.views(*given)
            if views is None:
                return self._multiplied(x, y, contraction, given)
            left, right, last = views
            operands = [left(given[0]), right(given[1])]
            product = np.matmul(*operands)
            values[slot] = last(product)
        result = values[self._plan.output]
        if not _is_seen_as(_as(product, result.shape), result):
            return self._whole
        for swapped in (False, True):
            first, second = (y, x) if swapped else (x, y)
            left, right = operands
            views = _view_of(first, left), _view_of(second, right)
            if None in views:
                continue
            shapes = left.shape, right.shape, result.shape
            if not swapped and shapes == _shapes_of_matmul(x.shape, y.shape):
                return np.matmul
            return partial(_product_of_views, *views, result.shape, swapped)
        return self._whole


def _sum_of_views(
    left: _View, right: _View, contraction: Any, shape: Shape, x: Any, y: Any
) -> Any:
    return _as(contraction.multiplied(left(x), right(y)), shape)


def _shapes_of_matmul(x: Shape, y: Shape) -> tuple[Shape, Shape, Shape] | None:
    """The matrices that `np.matmul` multiplies, and the shape of its result."""
    if not x or not y or max(len(x), len(y)) > 2:
        return None
    left = x if len(x) == 2 else (1, *x)
    right = y if len(y) == 2 else (*y, 1)
    return left, right, (*x[:-1], *y[1:])


def _as(x: Any, shape: tuple[int, ...]) -> Any:
    return x if x.shape == shape else x.reshape(shape)


def _view_of(x: Any, target: Any) -> _View | None:
    """What makes of an array its view `target`."""
    if _is_seen_as(x, target):
        return _same
    if _is_seen_as(_as(x, target.shape), target):
        return partial(_as, shape=target.shape)
    return np.transpose if _is_seen_as(x.T, target) else None


def _same(x: Any) -> Any:
    return x


def _product_of_views(
    left: _View, right: _View, result: Shape, swapped: bool, x: Any, y: Any
) -> Any:
    first, second = (y, x) if swapped else (x, y)
    return _as(np.matmul(left(first), right(second)), result)


def _is_seen_as(x: Any, y: Any) -> bool:
    """Are these arrays the same memory, looked at in the same way?"""
    if x.shape != y.shape or x.dtype != y.dtype or not x.size:
        return False
    steps = zip(x.shape, x.strides, y.strides, strict=True)
    same = all(size == 1 or one == other for size, one, other in steps)
    return same and x.ctypes.data == y.ctypes.data

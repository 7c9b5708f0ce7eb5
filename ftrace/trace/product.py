"""A matrix product that is a whole plan: often `np.matmul` of the very operands.

    reshape, permute, expand -> sum of products -> permute, reshape

Whether the views around the product change anything depends on the operands' strides.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ftrace.records import NamedTuple
from ftrace.trace.contract import product_of
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

    def _way(self, x: Any, y: Any) -> _Way:
        """The product alone where nothing else happens, else what is around it, too."""
        seen = {0: _Seen(0, x, ()), 1: _Seen(1, y, ())}
        factors: list[_Seen] = []
        multiply: Any = None
        multiplied: Any = None
        for node, contraction, sources, slot in self._plan.steps():
            given = [seen[i] for i in sources]
            if contraction is None:
                seen[slot] = given[0].followed(*_movement(node))
                continue
            if {one.root for one in given} != {0, 1}:
                return self._whole
            operands = [one.value for one in given]
            multiply, last = contraction.least_work(*operands), _same
            views = contraction.views(*operands)
            if views is not None:
                pairs = zip(given, views[:2], strict=True)
                given = [one.followed(view) for one, view in pairs]
                multiply = product_of(given[0].value, given[1].value)
                last = views[2]
            product = _Seen(2, multiply(*[one.value for one in given]), ())
            seen[slot] = product.followed(last)
            factors, multiplied = given, product.value
        result = seen[self._plan.output]
        swapped = factors[0].root == 1
        first, second = (y, x) if swapped else (x, y)
        ways: Any = factors[0].way_from(first), factors[1].way_from(second)
        last = result.way_from(multiplied)
        if multiply is np.matmul and not swapped:
            only_shaped = all(_is_shaping(way) for way in (*ways, last))
            shapes = *[one.value.shape for one in factors], result.value.shape
            if only_shaped and shapes == _shapes_of_matmul(x.shape, y.shape):
                return np.matmul
        if ways == (_same, _same) and not swapped:
            return multiply if last is _same else partial(_product, multiply, last)
        return partial(_product_of_views, *ways, multiply, last, swapped)


class _Seen(NamedTuple):
    """A value on the way to a product, or from one.

    Attributes:
      root: of which operand it is made.
      value: the array.
      steps: the functions that make it, and what they take besides.
    """

    root: int
    value: Any
    steps: tuple[tuple[Any, tuple[Any, ...]], ...]

    def followed(self, function: Any, more: tuple[Any, ...] = ()) -> _Seen:
        """After one more step, if that changes anything."""
        made = function(self.value, *more)
        if _is_seen_as(self.value, made):
            return self
        return _Seen(self.root, made, (*self.steps, (function, more)))

    def way_from(self, x: Any) -> _View:
        """What makes it of such an array."""
        return _view_of(x, self.value) or partial(_along, self.steps)


def _along(steps: Any, x: Any) -> Any:
    for function, more in steps:
        x = function(x, *more)
    return x


def _movement(node: Any) -> tuple[Any, tuple[Any, ...]]:
    """A movement of elements as a function of NumPy's."""
    op = node.op
    direct = None if op.direct is None else op.direct(node.aval, node.arg)
    return direct or (partial(_applied, node), ())


def _applied(node: Any, x: Any) -> Any:
    return apply(node, (x,))


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
    if x.size != target.size:
        return None
    if _is_seen_as(_as(x, target.shape), target):
        return partial(_reshaped, target.shape)
    return np.transpose if _is_seen_as(x.T, target) else None


def _is_shaping(view: Any) -> bool:
    """Does it leave all elements in their order?"""
    return view is _same or (type(view) is partial and view.func is _reshaped)


def _reshaped(shape: Shape, x: Any) -> Any:
    return x.reshape(shape)


def _same(x: Any) -> Any:
    return x


def _product(multiply: Any, last: _View, x: Any, y: Any) -> Any:
    return last(multiply(x, y))


def _product_of_views(
    left: _View, right: _View, multiply: Any, last: _View, swapped: bool, x: Any, y: Any
) -> Any:
    first, second = (y, x) if swapped else (x, y)
    return last(multiply(left(first), right(second)))


def _is_seen_as(x: Any, y: Any) -> bool:
    """Are these arrays the same memory, looked at in the same way?"""
    if x.shape != y.shape or x.dtype != y.dtype or not x.size:
        return False
    steps = zip(x.shape, x.strides, y.strides, strict=True)
    same = all(size == 1 or one == other for size, one, other in steps)
    return same and x.ctypes.data == y.ctypes.data

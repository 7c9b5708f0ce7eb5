"""The greater and the lesser of two numbers in NumPy, as IEEE 754-2019 has them.

`np.maximum` says of NaN what we want, that it wins. Of +0 and -0 it returns either one:
which, depends on the operands' order, on where in an array they stand and on the
processor. Here -0 is less than +0, so that the order of operands does not matter, on
any device.

A zero is the greatest only of numbers that are not above zero. Those have a sign, but
for +0: the greatest is -0 where all have one. Likewise the least is -0 where any has.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

Array = Any  # numpy.ndarray: the stubs know nothing of ml_dtypes

_np: Any = np


class Extremum:
    """`np.maximum` or `np.minimum`, with as much of a ufunc as is asked of it."""

    def __init__(self, ufunc: np.ufunc, signs: np.ufunc) -> None:
        self._ufunc: Any = ufunc
        #: Of the signs of numbers whose extremum is zero, whether that has one.
        self._signs: Any = signs

    def __call__(self, x: Array, y: Array, dtype: Any = None) -> Any:
        found = self._ufunc(x, y, dtype=dtype)
        if _has_no_zero(found):
            return found
        return _with_signs(found, self._signs(_np.signbit(x), _np.signbit(y)))

    def reduce(
        self,
        x: Array,
        axis: Any = 0,
        dtype: Any = None,
        keepdims: bool = False,
        **initial: Any,
    ) -> Any:
        """The extremum along axes; `initial` stands for an empty one."""
        found = self._ufunc.reduce(x, axis, dtype, None, keepdims, **initial)
        if _has_no_zero(found):
            return found
        signs = self._signs.reduce(_np.signbit(x), axis, keepdims=keepdims)
        return _with_signs(found, signs)

    def accumulate(self, x: Array, axis: int = 0, dtype: Any = None) -> Any:
        """The extremum of each element and all before it."""
        found = self._ufunc.accumulate(x, axis, dtype)
        if _has_no_zero(found):
            return found
        return _with_signs(found, self._signs.accumulate(_np.signbit(x), axis))

    def at(self, x: Array, index: Any, values: Array) -> None:
        """Puts the extremum of itself and of all its `values` at each index of x."""
        if x.dtype.kind in "biu":
            self._ufunc.at(x, index, values)
            return
        signs = _np.signbit(x)
        self._ufunc.at(x, index, values)
        if (x[index] == 0).any():
            self._signs.at(signs, index, _np.signbit(values))
            _with_signs(x, signs)


def _has_no_zero(found: Array) -> bool:
    """Or one that has no sign."""
    return found.dtype.kind in "biu" or np.count_nonzero(found) == found.size


def _with_signs(found: Array, sign: Array) -> Array:
    """`found`, changed where it lies: its zeros are negative where `sign` holds."""
    wrong = _np.signbit(found)
    if not isinstance(found, np.ndarray):  # an operation on numbers alone
        return -found if found == 0 and sign != wrong else found
    wrong ^= sign
    wrong &= found == 0
    return _np.negative(found, out=found, where=wrong)


maximum: Final = Extremum(np.maximum, np.logical_and)
minimum: Final = Extremum(np.minimum, np.logical_or)

"""The arguments of a call that is learned, taken apart as native code does it."""

from __future__ import annotations

from typing import Any
from typing import cast as cast_to

import numpy as np

from ftrace.array import Array
from ftrace.devices.llvm.calling.keys import BY_PLACE, BY_VALUE

#: What an index by place is made of.
_PLACES = frozenset((int, slice, type(None), type(...)))


class Arguments:
    """The arguments of a call, taken apart as `keys` does it.

    Args:
      mode: what numbers are: see `keys`.

    Attributes:
      given: the leaves among them: what the steps are done with.
      fresh: an object of its own for each of these.
      fixed: all other objects.
      renewed: the arguments with these objects.
    """

    def __init__(self, args: tuple[Any, ...], mode: int) -> None:
        self._operands = mode not in (BY_VALUE, BY_PLACE)
        self.given: list[Any] = []
        self.fresh: list[Any] = []
        self.fixed: list[Any] = []
        if mode == BY_PLACE and is_by_place(args[1]):
            self.fixed.append(args[1])
            self.renewed = [self._renew(args[0]), self._leaf(args[1], args[1])]
        else:
            self.renewed = [self._renew(x) for x in args]

    def _renew(self, x: Any) -> Any:
        if type(x) in (list, tuple):
            self.fixed.append(type(x))
            return type(x)([self._renew(item) for item in x])
        if type(x) is Array:
            x.numpy()  # all of them see it
            return self._leaf(x, _shown_again(x))
        if self._operands:
            if type(x) is float:
                return self._leaf(x, x * 1.0)
            if type(x) is np.ndarray:
                self.fixed.append(x.dtype)
                array: Any = x
                return self._leaf(x, array.view())
            if type(x) in SCALARS:
                return self._leaf(x, type(x)(x))
        self.fixed.append(x)
        return x

    def own(self, result: Any) -> Any:
        """A result; where it is an argument, that argument."""
        pairs = zip(self.given, self.fresh, strict=True)
        return next((given for given, fresh in pairs if result is fresh), result)

    def number_of(self, fresh: Any) -> int:
        """The number of a leaf."""
        return next(i for i, x in enumerate(self.fresh) if x is fresh)

    def _leaf(self, given: Any, fresh: Any) -> Any:
        self.given.append(given)
        self.fresh.append(fresh)
        return fresh


#: Numbers of NumPy that are operands, as floats are.
SCALARS: list[type[Any]] = [np.float32, np.float64, np.float16]


def is_by_place(index: Any) -> bool:
    """Is it made of integers, slices and the like? Then integers only say where."""
    if type(index) is tuple:
        parts = cast_to(tuple[Any, ...], index)
        return all(type(part) in _PLACES for part in parts)
    return type(index) is int


def _shown_again(x: Array) -> Array:
    """Another Array of the same values."""
    return Array(x.shape, x.dtype, x.weak_type, x.stored, x.numpy())

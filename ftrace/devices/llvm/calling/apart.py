"""The arguments of a call that is learned, taken apart as native code does it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ftrace.array import Array
from ftrace.devices.llvm.calling.keys import BY_PLACE, BY_VALUE, OPERANDS, UPDATES
from ftrace.devices.llvm.calling.surface import SCALARS
from ftrace.trace.eager import is_by_place


class Arguments:
    """The arguments of a call, taken apart as `keys` does it.

    Args:
      mode: what numbers are: see `keys`.

    Attributes:
      given: the leaves among them: what the steps are done with.
      fresh: an object of its own for each of these.
      fixed: all other objects.
      renewed: the arguments with these objects.
      places: the numbers of the leaves that are indices by place.
    """

    def __init__(self, args: tuple[Any, ...], mode: int) -> None:
        self._operands = False
        self.places: list[int] = []
        self.given: list[Any] = []
        self.fresh: list[Any] = []
        self.fixed: list[Any] = []
        self.renewed = [
            self._argument(x, mode_at(mode, number)) for number, x in enumerate(args)
        ]

    def _argument(self, x: Any, mode: int) -> Any:
        self._operands = mode == OPERANDS
        if mode == BY_PLACE and is_by_place(x):
            self.fixed.append(x)
            self.places.append(len(self.given))
            return self._leaf(x, x)
        if mode == BY_PLACE and type(x) is np.ndarray:
            self._operands = True
        return self._renew(x)

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
                array: Any = x
                self.fixed.append(array.dtype)
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


def mode_at(mode: int, number: int) -> int:
    """The mode of the argument of that number, as native code has it."""
    if mode < BY_PLACE:
        return mode
    place = 2 if mode == UPDATES else 1
    if number == place:
        return BY_PLACE
    return OPERANDS if mode == UPDATES and number < place else BY_VALUE


def _shown_again(x: Array) -> Array:
    """Another Array of the same values."""
    return Array(x.shape, x.dtype, x.weak_type, x.stored, x.numpy())

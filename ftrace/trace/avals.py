"""What is known of a value before it exists: its shape, dtype and weakness."""

from __future__ import annotations

import threading
from math import prod
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ftrace import dtypes

Shape = tuple[int, ...]


class ShapedArray:
    """Shape and dtype of an array; interned, so that equal ones are one object.

    Make them with `ShapedArray.of(shape, dtype, weak_type)`. A weak type is that of
    a Python scalar and of what was computed from Python scalars alone.
    """

    __slots__ = ("__weakref__", "dtype", "shape", "size", "weak_type")

    shape: Shape
    dtype: np.dtype[Any]
    weak_type: bool
    size: int

    @staticmethod
    def of(shape: Shape, dtype: np.dtype[Any], weak_type: bool = False) -> ShapedArray:
        key = (shape, dtype, weak_type)
        found = _interned.get(key)
        if found is None:
            with _lock:
                found = _interned.get(key)
                if found is None:
                    found = object.__new__(ShapedArray)
                    found.shape = shape
                    found.dtype = dtype
                    found.weak_type = weak_type
                    found.size = prod(shape)
                    _interned[key] = found
        return found

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def with_shape(self, shape: Shape) -> ShapedArray:
        return ShapedArray.of(shape, self.dtype, self.weak_type)

    def with_dtype(self, dtype: np.dtype[Any], weak_type: bool = False) -> ShapedArray:
        return ShapedArray.of(self.shape, dtype, weak_type)

    def strong(self) -> ShapedArray:
        """The same without the weak type."""
        return ShapedArray.of(self.shape, self.dtype)

    def __repr__(self) -> str:
        dims = ",".join(map(str, self.shape))
        weak = "~" if self.weak_type else ""
        return f"{dtypes.SHORT[self.dtype]}{weak}[{dims}]"


_interned: WeakValueDictionary[Any, ShapedArray] = WeakValueDictionary()
_lock = threading.Lock()

"""Types of arrays that need not exist, as users write and read them."""

from __future__ import annotations

import operator
from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import ArgumentError, DtypeError, ShapeError
from ftrace.ground.fast_dataclasses import Keyed
from ftrace.trace.arrays.array import given_sharding
from ftrace.trace.avals import ShapedArray
from ftrace.trace.flatten_arguments import type_of
from ftrace.trace.symbolic import is_dynamic


class ShapeDtypeStruct(Keyed):
    """Shape and dtype of an array that need not exist.

    Args:
      shape: its shape.
      dtype: its dtype.
      sharding: how it would lie on devices; None for one device.
      weak_type: it is the type of a Python number.
      manual_axis_type, is_ref: accepted for JAX's sake.

    Raises:
      ArgumentError: the shape is no sequence of integers, the dtype no dtype.
      ShapeError: a size is negative.

    Example:
      >>> struct = ft.ShapeDtypeStruct((2, 3), np.int32)
      >>> struct, struct.size, struct.ndim
      (ShapeDtypeStruct(shape=(2, 3), dtype=int32), 6, 2)
    """

    __slots__ = (
        "dtype", "is_ref", "manual_axis_type", "shape", "sharding", "weak_type",
    )  # fmt: skip

    def __init__(
        self, shape: Any, dtype: Any, *, sharding: Any = None, weak_type: bool = False,
        manual_axis_type: Any = None, is_ref: bool = False,
    ) -> None:  # fmt: skip
        try:
            sizes = [n if is_dynamic(n) else operator.index(n) for n in shape]
        except TypeError:
            raise ArgumentError(
                "ShapeDtypeStruct: the shape must be a sequence of integers, got "
                f"{shape!r}"
            ) from None
        if any(n < 0 for n in sizes):
            raise ShapeError(f"ShapeDtypeStruct: {tuple(sizes)} has a negative size")
        if dtype is None:
            raise ArgumentError("ShapeDtypeStruct: the dtype is missing")
        self.shape: tuple[int, ...] = tuple(sizes)
        self.dtype: Any = _dtype(dtype)
        self.sharding = sharding
        self.weak_type = weak_type
        self.manual_axis_type, self.is_ref = manual_axis_type, is_ref

    @classmethod
    def like(cls, x: Any) -> ShapeDtypeStruct:
        """The type of an array, or of another struct."""
        known = getattr(x, "committed", isinstance(x, ShapeDtypeStruct))
        return cls.of(type_of(x), x.sharding if known else None)

    @classmethod
    def of(cls, aval: ShapedArray, sharding: Any = None) -> ShapeDtypeStruct:
        """A type as traces know it."""
        weak = aval.weak_type
        return cls(aval.shape, aval.dtype, sharding=sharding, weak_type=weak)

    def update(self, **kwargs: Any) -> ShapeDtypeStruct:
        """The struct with other attributes."""
        own = {name: getattr(self, name) for name in self.__slots__}
        return ShapeDtypeStruct(**{**own, **kwargs})

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.shape, self.dtype, self.sharding, self.weak_type

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentError("len() of a type without axes")
        return self.shape[0]

    def __repr__(self) -> str:
        text = f"shape={self.shape}, dtype={dtypes.name_of(self.dtype)}"
        if self.sharding is not None:
            text += f", sharding={self.sharding!r}"
        return f"ShapeDtypeStruct({text}{', weak_type=True' if self.weak_type else ''})"

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)


def _dtype(dtype: Any) -> Any:
    """A dtype of ours by its name; another one of NumPy's as it is."""
    try:
        return dtypes.named_dtype(dtype)
    except DtypeError:
        return np.dtype(dtype)


def mesh_sharding(value: Any) -> Any:
    """The sharding over a mesh of an array or a struct; None if it has none."""
    is_struct = type(value) is ShapeDtypeStruct
    found = value.sharding if is_struct else given_sharding(value)
    return found if hasattr(found, "mesh") else None

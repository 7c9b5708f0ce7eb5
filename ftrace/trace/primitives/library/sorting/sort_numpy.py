"""The order of numbers in NumPy: sorted values, stable permutations, greatest k.

In this order -0.0 equals 0.0, NaN stands behind all numbers and equals NaN, complex
numbers go by their real parts, then by the imaginary ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ftrace import dtypes

Array = Any  # numpy.ndarray

#: So many elements are looked through faster than a part of them is found.
FEW = 1 << 10
_SIGNED = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
#: Integers with the bits of floats of a width, and the bits of -0.0 as one of them.
_LEAST = {width: (of, -1 << (8 * width - 1)) for width, of in _SIGNED.items()}
_PLAIN = frozenset(np.dtype(char) for char in "?bBhHiIlLqQefd")


def sort_values(x: Array, axis: int) -> Array:
    """`x` in ascending order along `axis`; equal elements keep their order."""
    if dtypes.is_complex(x.dtype):
        places = argsort([x], axis)
        return x[places] if x.ndim == 1 else np.take_along_axis(x, places, axis)
    if not dtypes.is_float(x.dtype):
        return np.sort(x, axis, kind="stable" if x.dtype.itemsize <= 2 else None)
    half = x.dtype.itemsize == 2
    result = x.astype(np.float32) if half else x.copy()
    result.sort(axis)
    if has_negative_zero(x):
        # NumPy may have exchanged it with a zero, or made it one
        return np.take_along_axis(x, argsort([x], axis), axis)
    return result.astype(x.dtype) if half else result


def has_negative_zero(x: Array) -> bool:
    """Is one of these floats -0.0, whose bits are the least integer?"""
    if not x.size:
        return False
    integer, least = _LEAST[x.dtype.itemsize]
    return bool(x.view(integer).min() == least)


def argsort(keys: Sequence[Array], axis: int) -> Array:
    """Positions along `axis` that bring the keys into order, the first one counts most.

    Args:
      keys: arrays of one shape.
      axis: counted from the front.

    Returns:
      int32, or int64 where the axis has more positions than int32 has numbers.
    """
    parts = [part for key in keys for part in _parts(key)]
    if len(parts) > 1:
        found = _by_keys(*parts, axis=axis)
    else:
        found = parts[0].argsort(axis, "stable")
    return found.astype(np.int32 if found.shape[axis] < 1 << 31 else np.int64)


_positions: Any = vars(np.ndarray)["argsort"]


def direct_argsort(axis: int, *keys: Array) -> tuple[Any, tuple[Any, ...]] | None:
    """The function of NumPy's that does it, if there is one.

    Args:
      keys: arrays, or what has their dtypes and sizes.
    """
    if not _PLAIN.issuperset([key.dtype for key in keys]):
        return None
    if len(keys) > 1:
        return partial(_by_keys, axis=axis), ()
    return _positions, (axis, "stable")


def _by_keys(*keys: Array, axis: int) -> Array:
    return np.lexsort(keys[::-1], axis)


def _parts(x: Array) -> list[Array]:
    """A key as such that NumPy can sort: a complex one as two."""
    if dtypes.is_complex(x.dtype):
        return [x.real, x.imag]
    return [x if x.dtype in _PLAIN else _widened(x)]


def _widened(x: Array) -> Array:
    """The same numbers in a dtype of 32 bits or more."""
    if x.dtype.itemsize > 2:
        return x
    return x.astype(np.float32 if dtypes.is_float(x.dtype) else np.int32)


def float_key(x: Array) -> Array:
    """A signed integer per float of 32 or 64 bits that is in the same order.

    That of -0.0 is less than that of 0.0, and that of NaN is the greatest integer.
    """
    integer = np.dtype(_SIGNED[x.dtype.itemsize])
    greatest = np.iinfo(integer).max
    bits = x.view(integer)
    key = bits ^ ((bits >> (8 * integer.itemsize - 1)) & greatest)
    missing = x != x
    if missing.any():
        key[missing] = greatest
    return key


def key_value(key: Array, dtype: np.dtype[Any]) -> Array:
    """The floats of such keys."""
    greatest = np.iinfo(key.dtype).max
    return (key ^ ((key >> (8 * key.dtype.itemsize - 1)) & greatest)).view(dtype)


def top_positions(x: Array, k: int, axis: int, largest: bool) -> Array:
    """The positions of the k greatest (least) along `axis`, the greatest first.

    Of equal elements the first comes first. Here -0.0 is less than 0.0; NaN is greater
    than all numbers.
    """
    key = _widened(x)
    if dtypes.is_float(key.dtype):
        key = float_key(key)
    places = (~key if largest else key).argsort(axis, "stable")
    return places[(slice(None),) * axis + (slice(k),)].astype(np.int32)

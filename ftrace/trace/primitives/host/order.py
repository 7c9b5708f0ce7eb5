"""The order of numbers in NumPy: sorted values, stable permutations, greatest k.

In this order -0.0 equals 0.0, NaN stands behind all numbers and equals NaN, complex
numbers go by their real parts, then by the imaginary ones.

NumPy's sorts of plain values use vector instructions, its stable sorts of positions do
not, and take ten times as long. So a key of at most 32 bits is packed into one integer
with its position,

    key · 2³² + position

and these, which are all different, are sorted as plain values.
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
_GREATEST = np.iinfo(np.int32).max
_SIGNED = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
#: Integers with the bits of floats of a width, and the bits of -0.0 as one of them.
_LEAST = {width: (of, -1 << (8 * width - 1)) for width, of in _SIGNED.items()}
_PLAIN = frozenset(np.dtype(char) for char in "?bBhHiIlLqQefd")


def sort_values(x: Array, axis: int) -> Array:
    """`x` in ascending order along `axis`; equal elements keep their order."""
    if x.size <= FEW and x.dtype.char in "fd":
        result = x.copy()
        result.sort(axis)
        if not has_negative_zero(x):
            return result
    if dtypes.is_complex(x.dtype):
        places = argsort([x], axis)
        return x[places] if x.ndim == 1 else np.take_along_axis(x, places, axis)
    if not dtypes.is_float(x.dtype):
        return np.sort(x, axis, kind="stable" if x.dtype.itemsize <= 2 else None)
    half = x.dtype.itemsize == 2
    result = x.astype(np.float32) if half else x.copy()
    result.sort(axis)
    if _may_have_zeros(result, axis) and has_negative_zero(x):
        # NumPy may have exchanged it with a zero, or made it one
        return np.take_along_axis(x, argsort([x], axis), axis)
    return result.astype(x.dtype) if half else result


def _may_have_zeros(ordered: Array, axis: int) -> bool:
    """False where a look into one long sorted row finds no zero."""
    if ordered.size <= FEW or ordered.size != ordered.shape[axis]:
        return True
    row = ordered.reshape(-1)
    zero = row.dtype.type(0)
    return bool(row.searchsorted(zero) < row.searchsorted(zero, "right"))


def has_negative_zero(x: Array) -> bool:
    """Is one of these floats -0.0, whose bits are the least integer?"""
    if not x.size:
        return False
    integer, least = _LEAST[x.dtype.itemsize]
    bits = x.view(integer)
    if x.size > FEW:
        return bool(bits.min() == least)
    return bits.item(bits.argmin()) == least


def argsort(keys: Sequence[Array], axis: int) -> Array:
    """Positions along `axis` that bring the keys into order, the first one counts most.

    Args:
      keys: arrays of one shape.
      axis: counted from the front.

    Returns:
      int32, or int64 where the axis has more positions than int32 has numbers.
    """
    direct = direct_argsort(axis, *keys)
    if direct is not None:
        function, more = direct
        first, *others = keys
        return function(first, *others, *more).astype(np.int32)
    in_place = axis == keys[0].ndim - 1
    moved_keys = keys if in_place else [key.swapaxes(axis, -1) for key in keys]
    parts = [part for key in moved_keys for part in _parts(key)]
    if len(parts) > 1 and 0 < parts[0].size <= FEW and _known_to_numpy(parts):
        found: Any = _by_keys(*parts, axis=-1).astype(np.int32)
        return found if in_place else found.swapaxes(-1, axis)
    places: Any = _stable_positions(parts[-1])
    for part in reversed(parts[:-1]):
        if part.ndim == 1:
            places = places[_stable_positions(part[places])]
            continue
        moved = np.take_along_axis(part, places, -1)
        places = np.take_along_axis(places, _stable_positions(moved), -1)
    return places if in_place else places.swapaxes(-1, axis)


_positions: Any = vars(np.ndarray)["argsort"]


def direct_argsort(axis: int, *keys: Array) -> tuple[Any, tuple[Any, ...]] | None:
    """The function of NumPy's that does it for few elements, if there is one.

    Args:
      keys: arrays, or what has their dtypes and sizes.
    """
    first, *others = keys
    if not 0 < first.size <= FEW or not _known_to_numpy(keys):
        return None
    if others:
        return partial(_by_keys, axis=axis), ()
    return _positions, (axis, "stable")


def places_in_order(x: Array) -> Array:
    """`argsort` of one vector, in integers of any width."""
    direct = direct_argsort(0, x)
    return argsort([x], 0) if direct is None else direct[0](x, *direct[1])


def _by_keys(*keys: Array, axis: int) -> Array:
    return np.lexsort(keys[::-1], axis)


def _known_to_numpy(parts: Sequence[Array]) -> bool:
    """Has NumPy sorts of its own for all of these dtypes?"""
    return _PLAIN.issuperset([part.dtype for part in parts])


def _parts(x: Array) -> list[Array]:
    """A complex key as two; any other as it is."""
    return [x.real, x.imag] if dtypes.is_complex(x.dtype) else [x]


def _is_short(x: Array) -> bool:
    """Is there nothing to gain by packing keys and positions?"""
    return x.size <= FEW and x.dtype.itemsize >= 4


def _stable_positions(x: Array) -> Array:
    """The positions that sort the last axis."""
    if _is_short(x):
        return x.argsort(-1, "stable").astype(np.int32)
    if x.dtype.itemsize > 4 or x.shape[-1] >= 1 << 31:
        return _wide_positions(x)
    packed = _packed(_narrow_key(x, merge_zeros=True))
    packed.sort(axis=-1)
    return packed.astype(np.int32)


def _wide_positions(x: Array) -> Array:
    """Of 64-bit values: the fast sort, unless elements are equal."""
    integer = np.int32 if x.shape[-1] < 1 << 31 else np.int64
    places = np.argsort(x, -1)
    ordered = np.take_along_axis(x, places, -1)
    distinct = (ordered[..., 1:] > ordered[..., :-1]).all()
    if not distinct:  # or one of them is NaN
        places = np.argsort(x, -1, kind="stable")
    return places.astype(integer)


def _narrow_key(x: Array, merge_zeros: bool) -> Array:
    """An integer of at most 32 bits per element that is in the same order."""
    match dtypes.kind(x.dtype):
        case "b":
            return x.view(np.uint8)
        case "u":
            return (
                (x ^ np.array(1 << 31, x.dtype)).view(np.int32)
                if (x.dtype.itemsize == 4)
                else x
            )
        case "i":
            return x
        case _:
            return float_key(x.astype(np.float32), merge_zeros)


def float_key(x: Array, merge_zeros: bool) -> Array:
    """A signed integer per float of 32 or 64 bits that is in the same order.

    With `merge_zeros` those of -0.0 and 0.0 are equal; else that of -0.0 is less. That
    of NaN is the greatest integer.
    """
    integer = np.dtype(_SIGNED[x.dtype.itemsize])
    greatest = np.iinfo(integer).max
    plain: Array = x + x.dtype.type(0) if merge_zeros else x
    bits = plain.view(integer)
    key = bits ^ ((bits >> (8 * integer.itemsize - 1)) & greatest)
    missing = x != x
    if missing.any():
        key[missing] = greatest
    return key


def key_value(key: Array, dtype: np.dtype[Any]) -> Array:
    """The floats of keys, where zeros were not merged."""
    greatest = np.iinfo(key.dtype).max
    return (key ^ ((key >> (8 * key.dtype.itemsize - 1)) & greatest)).view(dtype)


def _packed(key: Array) -> Array:
    packed = key.astype(np.int64)
    packed <<= 32
    packed |= np.arange(key.shape[-1], dtype=np.int64)
    return packed


def top_positions(x: Array, k: int, axis: int, largest: bool) -> Array:
    """The positions of the k greatest (least) along `axis`, the greatest first.

    Of equal elements the first comes first. Here -0.0 is less than 0.0; NaN is greater
    than all numbers.
    """
    in_place = axis == x.ndim - 1
    if not in_place:
        x = x.swapaxes(axis, -1)
    places = _top_positions(x, k, largest)
    return places if in_place else places.swapaxes(-1, axis)


def _top_positions(x: Array, k: int, largest: bool) -> Array:
    """Those along the last axis."""
    is_float = x.dtype.kind == "f"
    is_known = x.dtype in _PLAIN and x.dtype != np.float16
    if 0 < x.size <= FEW and is_known and not (is_float and _has_special(x)):
        key = x if not largest else -x if is_float else ~x
        if x.size > _SHORT and x.ndim == 1 and 0 < k <= x.size >> 3:
            return _least_of_row(key, k)
        return key.argsort(-1, "stable")[..., :k].astype(np.int32)
    if x.ndim == 1 and x.size <= FEW and x.dtype.itemsize == 4:
        return _first_positions(x, k, largest)
    if x.dtype.itemsize > 4 or x.shape[-1] >= 1 << 31:
        key = float_key(x, False) if dtypes.is_float(x.dtype) else x
        return _wide_positions(~key if largest else key)[..., :k]
    key = _narrow_key(x, merge_zeros=False).astype(np.int32)
    return _least_positions(~key if largest else key, k)


def _has_special(x: Array) -> bool:
    """Is there what a stable sort of `x`, or of -x, puts elsewhere: NaN, or -0.0?"""
    flat = x if x.ndim == 1 else x.reshape(-1)
    squares = flat.dot(flat)
    if squares != squares:
        return True
    return np.count_nonzero(x) < x.size and has_negative_zero(x)


def _first_positions(x: Array, k: int, largest: bool) -> Array:
    """`top_positions` of one short row of 32 bits."""
    if x.dtype == np.float32:
        bits = x.view(np.int32)
        key = bits ^ ((bits >> 31) & _GREATEST)  # as `float_key`
        squares = x.dot(x)
        if squares != squares:
            key[np.isnan(x)] = _GREATEST
    else:
        key = _narrow_key(x, merge_zeros=False)
    # Unsigned numbers come back as signed ones in the same order.
    return (~key if largest else key).argsort(-1, "stable")[:k].astype(np.int32)


#: Rows of more elements are searched for the k least before any are sorted: one alone,
#: or several.
_SHORT, _LONG = 1 << 7, 1 << 12


def _least_positions(key: Array, k: int) -> Array:
    """The positions of the k least integers of the last axis, in their order."""
    size = key.shape[-1]
    if size < _LONG or k > size // 8 or k == 0:
        packed = _packed(key)
        if 0 < k < size:
            packed = np.partition(packed, k - 1, -1)[..., :k]
        packed.sort(axis=-1)
        return packed[..., :k].astype(np.int32)
    rows = key.reshape(-1, size)
    places: Any = np.zeros((*key.shape[:-1], k), np.int32)
    for row, result in zip(rows, places.reshape(-1, k), strict=True):
        result[:] = _least_of_row(row, k)
    return places


def _least_of_row(row: Array, k: int) -> Array:
    """The positions of the k least of one row, without NaN, in their order."""
    ordered = row.copy()
    ordered.partition(k - 1)
    (found,) = (row <= ordered[k - 1]).nonzero()
    return found[row[found].argsort(-1, "stable")[:k]].astype(np.int32)

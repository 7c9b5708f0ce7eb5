"""Casts in NumPy, with one meaning everywhere: the reference of every device.

Float to integer truncates and saturates, NaN becomes 0; complex to real takes the real
part; anything to bool asks whether it is not zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.trace.primitives.reference import square_bound

_astype: Any = vars(np.ndarray)["astype"]


def convert(x: Any, dtype: np.dtype[Any]) -> Any:
    """`x.astype(dtype)`, where that has the one meaning; else what has it."""
    x = np.asarray(x)
    source, target = dtypes.kind(x.dtype), dtypes.kind(dtype)
    if x.dtype == dtype:
        return x
    if target == "b":
        return x != 0
    if source == "c" and target != "c":
        x, source = x.real, "f"
    with np.errstate(all="ignore"):
        if source == "f" and target in "iu":
            integers = _saturated if dtype.itemsize <= 4 else _saturated_wide
            return integers(x, dtype)
        if dtype.itemsize == 2 and target == "f" and x.dtype != np.float32:
            x = x.astype(np.float32)
        return x.astype(dtype)


def converter(source: np.dtype[Any], target: np.dtype[Any]) -> Callable[..., Any]:
    """A function of (array of this dtype, target) that does what `convert` does."""
    kinds = source.kind, target.kind
    wide = target.itemsize > 2 or source == np.float32
    if kinds[0] == "f" and kinds[1] in "iu" and target.itemsize <= 4:
        return _saturated
    if kinds in (("f", "c"), ("c", "c")) or (kinds[0] in "biu" and kinds[1] in "iuc"):
        return _astype
    return _astype if kinds[0] in "biuf" and kinds[1] == "f" and wide else convert


def _saturated(x: Any, dtype: np.dtype[Any]) -> Any:
    """Floats as integers of up to 32 bits, all of which are numbers of float64."""
    if _is_surely_inside(x, dtype):
        return x.astype(dtype)
    low, high = dtypes.limits(dtype)
    wide = x.astype(np.float64)
    inside = np.minimum(np.maximum(wide, low), high)
    return np.where(wide == wide, inside, 0).astype(dtype)


def _saturated_wide(x: Any, dtype: np.dtype[Any]) -> Any:
    """Floats as 64-bit integers, the greatest of which is no number of float64."""
    low, high = dtypes.limits(dtype)
    wide = x.astype(np.float64)
    whole = np.trunc(np.where(np.isnan(wide), 0, wide))
    inside = (whole >= low) & (whole < float(high))
    kept = np.where(inside, whole, 0).astype(dtype)
    least, greatest = np.array(low, dtype), np.array(high, dtype)
    return np.where(inside, kept, np.where(whole < low, least, greatest))


def _is_surely_inside(x: Any, dtype: np.dtype[Any]) -> bool:
    """Is no float NaN or beyond a signed integer? False where none can tell."""
    if dtype.kind != "i":
        return False
    return bool(square_bound(x) < 2.0 ** (16 * dtype.itemsize - 4))

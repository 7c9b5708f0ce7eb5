"""Questions about dtypes, as NumPy and JAX ask them."""

from __future__ import annotations

from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from ftrace import dtypes
from ftrace.arrays.array import ArrayLike
from ftrace.errors import ArgumentError, ValueRangeError, one_of
from ftrace.trace.tracing.tracer import Value, aval_of, is_value

__all__ = [
    "can_cast", "character", "complexfloating", "dtype", "finfo", "flexible",
    "floating", "generic", "iinfo", "inexact", "integer", "iscomplexobj", "isdtype",
    "isrealobj", "isscalar", "issubdtype", "ndim", "number", "promote_types",
    "result_type", "shape", "signedinteger", "size", "unsignedinteger",
]  # fmt: skip

dtype = np.dtype
generic = np.generic
number = np.number
inexact = np.inexact
floating = np.floating
complexfloating = np.complexfloating
integer = np.integer
signedinteger = np.signedinteger
unsignedinteger = np.unsignedinteger
flexible = np.flexible
character = np.character

#: The categories of `isdtype`, as the kinds of dtype that belong to them.
_CATEGORIES = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}

_BFLOAT16_CLASSES = (floating, inexact, number, generic)
_ABSTRACT = (
    *_BFLOAT16_CLASSES, complexfloating, integer, signedinteger, unsignedinteger,
    flexible, character,
)  # fmt: skip


def finfo(dtype: Any) -> Any:
    """The limits of a float dtype: eps, max, min, tiny, bits and more."""
    found = dtypes.as_dtype(dtype)
    limits: Any = ml_dtypes.finfo if found == dtypes.bfloat16 else np.finfo
    return limits(found)


def iinfo(int_type: Any) -> Any:
    """The limits of an integer dtype: max, min, bits."""
    return np.iinfo(dtypes.as_dtype(int_type))


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Is the first dtype the second, or below it in NumPy's hierarchy?"""
    first, second = _plain(arg1), _plain(arg2)
    if first is dtypes.bfloat16:
        return second is first or any(second is c for c in _BFLOAT16_CLASSES)
    return bool(np.issubdtype(first, second))


def _plain(kind: Any) -> Any:
    """A dtype, or one of NumPy's abstract classes."""
    if any(kind is abstract for abstract in _ABSTRACT):
        return kind
    ours = kind not in (bool, int, float, complex)
    return dtypes.as_dtype(kind) if ours else np.dtype(kind)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Is it of this kind: a dtype, "bool", "integral", "real floating", …, a tuple?

    Raises:
      ValueRangeError: there is no kind of that name.
    """
    found = dtypes.as_dtype(dtype)
    kinds: Any = kind if is_sequence(kind) else (kind,)
    for one in kinds:
        if isinstance(one, str):
            one_of("isdtype: kind", one, _CATEGORIES)
    return any(
        dtypes.kind(found) in _CATEGORIES[one]
        if isinstance(one, str)
        else dtypes.as_dtype(one) == found
        for one in kinds
    )


def _type_of(x: Any) -> tuple[np.dtype[Any], bool]:
    if is_value(x):
        aval = aval_of(x)
        return aval.dtype, aval.weak_type
    return dtypes.as_dtype(x), x in (int, float, complex)


def result_type(*args: Any) -> np.dtype[Any]:
    """The dtype to which arrays, numbers and dtypes promote together.

    Raises:
      ArgumentError: nothing is given.
    """
    if not args:
        raise ArgumentError("result_type takes at least one array, number or dtype")
    return dtypes.canonicalize(dtypes.promote(*map(_type_of, args))[0])


def promote_types(a: Any, b: Any) -> np.dtype[Any]:
    """The least dtype to which both can be promoted."""
    return result_type(a, b)


def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """May values of one dtype be converted to another under NumPy's casting rule?"""
    source = _type_of(from_)[0]
    return bool(np.can_cast(source, dtypes.as_dtype(to), casting))


def iscomplexobj(x: Any) -> bool:
    """Is its dtype complex?"""
    return dtypes.is_complex(_array_type(x))


def isrealobj(x: Any) -> bool:
    """Is its dtype not complex?"""
    return not iscomplexobj(x)


def _array_type(x: Any) -> np.dtype[Any]:
    return aval_of(x).dtype if is_value(x) else np.asarray(x).dtype


def isscalar(element: Any) -> bool:
    """Is it a number, or an array without axes?"""
    if isinstance(element, (ArrayLike, np.ndarray)):
        return element.ndim == 0
    return bool(np.isscalar(element))


def shape(a: Value) -> tuple[int, ...]:
    """The sizes of the axes."""
    return aval_of(a).shape if is_value(a) else np.asarray(a).shape


def ndim(a: Value) -> int:
    """The number of axes."""
    return len(shape(a))


def size(a: Value, axis: int | tuple[int, ...] | None = None) -> int:
    """The number of elements, or the size of an axis or the product of several."""
    sizes = shape(a)
    axes = range(len(sizes)) if axis is None else np.atleast_1d(axis)
    for i in axes:
        if not -len(sizes) <= i < len(sizes):
            raise ValueRangeError(f"size: axis {i} does not fit the shape {sizes}")
    return prod(sizes[i] for i in axes)


def is_sequence(x: Any) -> bool:
    """Is it a list or a tuple? A bool, so that what is in it stays untyped."""
    return isinstance(x, (list, tuple))

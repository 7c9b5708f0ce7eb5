"""Sorting, partitions, and where something holds: one operation each.

    sort           x -> x in ascending order along an axis, stable
    argsort        keys… -> the positions that bring them into order, stable
    top_k          x -> the positions of the k greatest or least
    partition      x -> x with an element at its place along an axis, the lesser ones
                   before it, the others behind
    argpartition   x -> the positions that bring x into such an order
    places         mask -> the positions along the last axis of what is true, in order

In the order -0.0 equals 0.0, NaN stands behind all numbers and equals NaN, complex
numbers go by their real parts, then by the imaginary ones. What follows from positions
is a gather, with its derivative; so only the values of a plain sort and of a partition
need a rule of their own. What stands on one side of a partition has no order, and may
differ between devices: a sorted row is a partition of itself.

Compiled code may call the sorts of NumPy too: `sorter` says where they are.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import AxisError, DtypeError, ShapeError
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.trace.avals import Shape, ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives.indexing import gather
from ftrace.trace.primitives.library.library_op import along
from ftrace.trace.primitives.primitive import Array, CompiledFrom, Results
from ftrace.trace.primitives.sources import iota
from ftrace.trace.symbolic import same_size

# The order of numbers in NumPy.


_SIGNED = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
#: Integers with the bits of floats of a width, and the bits of -0.0 as one of them.
_NEGATIVE_ZEROS = {width: (of, -1 << (8 * width - 1)) for width, of in _SIGNED.items()}
_SORTED_BY_NUMPY = frozenset(np.dtype(char) for char in "?bBhHiIlLqQefd")


def position_dtype(size: int) -> np.dtype[Any]:
    return dtypes.int32 if size < 1 << 31 else dtypes.int64


def sort_values(axis: int, x: Array) -> Array:
    """`x` in ascending order along `axis`; equal elements keep their order."""
    if dtypes.is_complex(x.dtype):
        places = argsort(axis, x)
        return x[places] if x.ndim == 1 else np.take_along_axis(x, places, axis)
    if not dtypes.is_float(x.dtype):
        return np.sort(x, axis, kind="stable" if x.dtype.itemsize <= 2 else None)
    half = x.dtype.itemsize == 2
    result = x.astype(np.float32) if half else x.copy()
    result.sort(axis)
    if has_negative_zero(x):
        # NumPy may have exchanged it with a zero, or made it one
        return np.take_along_axis(x, argsort(axis, x), axis)
    return result.astype(x.dtype) if half else result


def has_negative_zero(x: Array) -> bool:
    """Is one of these floats -0.0, whose bits are the least integer?"""
    if not x.size:
        return False
    integer, least = _NEGATIVE_ZEROS[x.dtype.itemsize]
    return bool(x.view(integer).min() == least)


def argsort(axis: int, *keys: Array) -> Array:
    """Positions along `axis` that bring the keys into order, the first one counts most.

    Args:
      axis: counted from the front.
      keys: arrays of one shape.

    Returns:
      int32, or int64 where the axis has more positions than int32 has numbers.
    """
    parts = [part for key in keys for part in _split_at_kth(key)]
    if len(parts) > 1:
        found = np.lexsort(parts[::-1], axis)
    else:
        found = parts[0].argsort(axis, "stable")
    return found.astype(position_dtype(found.shape[axis]))


def _split_at_kth(x: Array) -> list[Array]:
    """A key as such that NumPy can sort: a complex one as two."""
    if dtypes.is_complex(x.dtype):
        return [x.real, x.imag]
    return [x if x.dtype in _SORTED_BY_NUMPY else _widen(x)]


def _widen(x: Array) -> Array:
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


def top_positions(arg: TopK, x: Array) -> Array:
    """The positions of the k greatest (least) along `axis`, the greatest first.

    Of equal elements the first comes first. Here -0.0 is less than 0.0; NaN is greater
    than all numbers.
    """
    key = _widen(x)
    if dtypes.is_float(key.dtype):
        key = float_key(key)
    places = (~key if arg.largest else key).argsort(arg.axis, "stable")
    return places[(slice(None),) * arg.axis + (slice(arg.k),)].astype(np.int32)


# The operations.


def _check_axis(name: str, axis: int, x: ShapedArray) -> None:
    if not 0 <= axis < x.ndim:
        raise AxisError(f"{name}: axis {axis} does not fit {x!r}")
    dtypes.require_numbers(x.dtype)


def take_along(x: Node, index: Node, axis: int) -> Node:
    """Along `axis` the elements at positions, which are in bounds."""
    own = [
        index if a == axis else iota(index.dtype, index.shape, a) for a in range(x.ndim)
    ]
    return gather(x, own, tuple(range(x.ndim)))


# sort


def _infer_sort(axis: int, x: ShapedArray) -> ShapedArray:
    _check_axis("sort", axis, x)
    return x


def _sort_tangent(node: Node, tangents: Results) -> Results:
    axis: int = node.arg
    (t,) = tangents
    assert t is not None
    (places,) = argsort_p.results(node.src[0], arg=axis)
    return [take_along(t, places, axis)]


sort_p = along(
    "sort", _infer_sort, sort_values,
    jvp=_sort_tangent, compiled_from=CompiledFrom(1 << 16, calls=2),
    doc="ascending order along an axis",
)  # fmt: skip


# argsort


def _infer_argsort(axis: int, *keys: ShapedArray) -> ShapedArray:
    first = keys[0]
    _check_axis("argsort", axis, first)
    if any(not same_size(key.shape, first.shape) for key in keys):
        raise ShapeError(f"argsort: the keys differ in shape: {keys}")
    return ShapedArray.of(first.shape, position_dtype(first.shape[axis]))


argsort_p = along(
    "argsort", _infer_argsort, argsort, compiled_from=CompiledFrom(1 << 13, calls=4),
    doc="positions along an axis that bring keys into order, the first key counts most",
)  # fmt: skip


# top_k


class TopK(NamedTuple):
    """The argument of top_k: how many, along which axis, the greatest or the least."""

    k: int
    axis: int
    largest: bool = True


def _infer_top_k(arg: TopK, x: ShapedArray) -> ShapedArray:
    _check_axis("top_k", arg.axis, x)
    if not 0 <= arg.k <= x.shape[arg.axis]:
        raise ShapeError(f"top_k: there are no {arg.k} along axis {arg.axis} of {x!r}")
    if dtypes.is_complex(x.dtype):
        raise DtypeError(f"top_k: complex numbers have no greatest one, got {x!r}")
    shape: Shape = (*x.shape[: arg.axis], arg.k, *x.shape[arg.axis + 1 :])
    return ShapedArray.of(shape, position_dtype(x.shape[arg.axis]))


top_k_p = along(
    "top_k", _infer_top_k, top_positions, dtypes="biuf",
    compiled_from=CompiledFrom(1 << 12, calls=4),
    doc="positions of the k greatest or least along an axis, in their order",
)  # fmt: skip


# Partitions.


class Partition(NamedTuple):
    """The argument of a partition: which place is right, along which axis."""

    kth: int
    axis: int


def _check_partition(name: str, arg: Partition, x: ShapedArray) -> None:
    _check_axis(name, arg.axis, x)
    if not 0 <= arg.kth < x.shape[arg.axis]:
        raise ShapeError(f"{name}: axis {arg.axis} of {x!r} has no place {arg.kth}")
    if dtypes.is_complex(x.dtype):
        raise DtypeError(f"{name}: real numbers are required, got {x!r}")


# partition


def _infer_partition(arg: Partition, x: ShapedArray) -> ShapedArray:
    _check_partition("partition", arg, x)
    return x


def _partition_value(arg: Partition, x: Array) -> Array:
    place, axis = arg
    if x.dtype.itemsize == 1:  # there is a sort without comparisons
        return sort_values(axis, x)
    if not dtypes.is_float(x.dtype):
        return np.partition(x, place, axis)
    # Of floats NumPy may exchange -0.0 with a zero, or make it one.
    wide = _widen(x)
    found = key_value(np.partition(float_key(wide), place, axis), wide.dtype)
    return found.astype(x.dtype, copy=False)


def _partition_tangent(node: Node, tangents: Results) -> Results:
    """What moves with the elements: each is found in x and in the result by its rank.

    So it does not matter which partition a device has made.
    """
    (x,), (t,), axis = node.src, tangents, node.arg.axis
    assert t is not None
    (result,) = partition_p.results(x, arg=node.arg)
    (of_x,) = argsort_p.results(x, arg=axis)
    (of_result,) = argsort_p.results(result, arg=axis)
    (ranks,) = argsort_p.results(of_result, arg=axis)
    return [take_along(take_along(t, of_x, axis), ranks, axis)]


partition_p = along(
    "partition", _infer_partition, _partition_value,
    jvp=_partition_tangent, dtypes="biuf",
    doc="lesser elements before a place, others behind it",
)  # fmt: skip


# argpartition


def _infer_argpartition(arg: Partition, x: ShapedArray) -> ShapedArray:
    _check_partition("argpartition", arg, x)
    return ShapedArray.of(x.shape, position_dtype(x.shape[arg.axis]))


def _argpartition_value(arg: Partition, x: Array) -> Array:
    place, axis = arg
    if x.dtype.itemsize == 1:
        return argsort(axis, x)
    found = np.argpartition(_widen(x), place, axis)
    return found.astype(position_dtype(x.shape[axis]))


argpartition_p = along(
    "argpartition", _infer_argpartition, _argpartition_value, dtypes="biuf",
    doc="positions of lesser elements before a place, of others behind it",
)  # fmt: skip


# Places of what is true.


def _infer_nonzero(count: int, mask: ShapedArray) -> ShapedArray:
    if mask.ndim < 1 or mask.dtype != dtypes.bool_ or count < 0:
        raise ShapeError(f"places: bool[…, n] and a count are required, got {mask!r}")
    shape = (*mask.shape[:-1], count)
    return ShapedArray.of(shape, position_dtype(mask.shape[-1]))


def _nonzero(count: int, mask: Array) -> Array:
    """The length of the axis, which is no position, stands for those there are not."""
    size = mask.shape[-1]
    result = np.full((*mask.shape[:-1], count), size, position_dtype(size))
    corners: Any = np.ndindex(*mask.shape[:-1])
    for index in corners:
        found = np.flatnonzero(mask[index])[:count]
        result[index][: len(found)] = found
    return result


def _batch_nonzero(
    node: Node, src: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> tuple[list[Node], list[bool]]:
    return positions_p.results(*src, arg=node.arg), [batched[0]]


positions_p = along(
    "places", _infer_nonzero, _nonzero, batch=_batch_nonzero, dtypes="b", core=1,
    doc="positions of what is true along the last axis, in order",
)  # fmt: skip


# NumPy's sorts of plain values as addresses, for code that is not Python.
#
# NumPy offers the functions of its dtypes to other compiled modules: a table of
# addresses, of which one gives the functions of a dtype (NumPy's C API,
# `PyDataType_GetArrFuncs`). The sorts among them use the vector instructions of the
# processor, take `(values, count, unused)`, and need no lock.

#: The entries of NumPy's table: the version of its binary interface, and the functions
#: of a dtype.
_VERSION, _FUNCTIONS = 0, 365
#: The versions from this one to below the other have these entries.
_FIRST, _BEYOND = 0x2000000, 0x3000000
#: Among the functions of a dtype: the sorts, fastest first, stable last.
_FASTEST, _STABLE = 33, 35
#: Processors for which NumPy has vector code for values of 16 bits.
_SHORT_VECTORS = ("AVX512_ICL", "ASIMD")


@cache
def sorter(dtype: np.dtype[Any]) -> int | None:
    """Where NumPy's sort of integers is; None where it cannot be told."""
    functions = _functions(dtype)
    if functions is None:
        return None
    short = dtype.itemsize == 2 and any(map(_features().get, _SHORT_VECTORS))
    fastest = short or dtype.itemsize > 2
    place = _FASTEST if fastest else _STABLE
    entry = ctypes.sizeof(ctypes.c_void_p)
    return ctypes.c_void_p.from_address(functions + place * entry).value


def has_sorters() -> bool:
    """Are there sorts for integers of all widths, of both kinds?"""
    return all(
        sorter(np.dtype(f"{k}{n}")) is not None for k in "iu" for n in (1, 2, 4, 8)
    )


def _module() -> Any:
    return import_module("numpy._core._multiarray_umath")


def _features() -> dict[str, bool]:
    return getattr(_module(), "__cpu_features__", {})


@cache
def _functions(dtype: np.dtype[Any]) -> int | None:
    """Where the table of a dtype's functions begins."""
    if sys.implementation.name != "cpython":
        return None
    try:
        table: Any = _module()._ARRAY_API  # NumPy's name for what it offers
    except (ImportError, AttributeError):
        return None
    pointer_of: Any = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype = ctypes.c_void_p
    pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
    entries = ctypes.cast(pointer_of(table, None), ctypes.POINTER(ctypes.c_void_p))
    version = ctypes.CFUNCTYPE(ctypes.c_uint)(entries[_VERSION] or 0)()
    if not _FIRST <= version < _BEYOND:
        return None
    make = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)
    found: int | None = make(entries[_FUNCTIONS] or 0)(dtype)
    return found

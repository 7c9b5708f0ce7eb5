"""Arrays from numbers, sequences, other arrays and files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import IO, Any

import numpy as np

from ftrace import dtypes, errors
from ftrace.ground.errstate import ignore_errors, restore_errors
from ftrace.numpy import axes as ax
from ftrace.numpy.joining import concatenate, stack
from ftrace.trace.arrays.array import Array, ArrayLike, is_array
from ftrace.trace.arrays.buffer import copy_aligned
from ftrace.trace.avals import Shape
from ftrace.trace.eager.result_memory import place_result
from ftrace.trace.primitives.reference import convert
from ftrace.trace.symbolic import is_dynamic
from ftrace.trace.tracing import tracer
from ftrace.trace.tracing.scopes import asarray as shared

__all__ = [
    "array", "asarray", "astype", "copy", "from_dlpack", "frombuffer", "fromfile",
    "fromiter", "fromstring", "load", "save", "savez",
]  # fmt: skip

Dtype = Any


def dtype_or(dtype: Dtype, default: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype that is meant, or a default where none is given."""
    return default if dtype is None else dtypes.as_dtype(dtype)


# Conversions.


def array(
    object: Any,
    dtype: Dtype = None,
    copy: bool = True,
    order: str | None = "K",
    ndmin: int = 0,
) -> Any:
    """An array of a number, an array, or nested sequences of them.

    Args:
      object: a number, an array of any library, or lists and tuples of them.
      dtype: of the elements; None is what they promote to: Python's ints become int32,
        floats float32. NumPy's arrays keep their dtype.
      copy: False shares the memory of a NumPy array.
      order: accepted, without effect.
      ndmin: at least so many axes; new ones stand in front.

    Raises:
      ArgumentError: it holds something that is no number and no array.
      ShapeError: the sequences are not rectangular.

    Example:
      >>> fnp.array([[1, 2], [3, 4]])
      Array([[1, 2],
             [3, 4]], dtype=int32)
      >>> fnp.array([1, 2], dtype=float)
      Array([1., 2.], dtype=float32)
      >>> fnp.array(np.arange(3))
      Array([0, 1, 2], dtype=int64)
    """
    errors.one_of("array: order", order, (None, "K", "C", "A"))
    ndmin = ax.static_int(ndmin, "array: ndmin")
    known = _of_numbers(object, dtype) if type(object) in _SEQUENCES else None
    result = _convert(object, dtype, copy) if known is None else known
    if result.ndim < ndmin:
        result = ax.insert_axes(result, range(ndmin - result.ndim))
    return result


def asarray(
    a: Any, dtype: Dtype = None, order: str | None = None, *, copy: bool | None = None
) -> Any:
    """As `array`, but sharing the memory of a NumPy array unless `copy` is True.

    Args:
      a: a number, an array of any library, or lists and tuples of them.
      dtype: of the elements; None is what they promote to.
      order: accepted, without effect.
      copy: True makes a copy in any case.

    Raises:
      ArgumentError: it holds something that is no number and no array.
      ShapeError: the sequences are not rectangular.

    Example:
      >>> fnp.asarray([1.5, 2])
      Array([1.5, 2. ], dtype=float32)
    """
    return array(a, dtype, bool(copy), order)


def _of_numbers(value: Any, dtype: Dtype) -> Array | None:
    """Python's numbers in sequences, which surely fit; else None."""
    kinds = _kinds_in(value)
    if not kinds or not kinds <= _KINDS.keys():
        return None
    common = dtypes.default_dtype(
        max((_KINDS[kind] for kind in kinds), key="bif".index)
    )
    target = common if dtype is None else dtypes.as_dtype(dtype)
    if target != common and int in kinds and target not in _WIDE_FLOATS:
        return None  # each has to fit
    exact = target == common or dtypes.is_inexact(target)
    token = ignore_errors()
    try:
        made = np.array(value, target if exact else common)
    except (OverflowError, ValueError, RecursionError):
        return None  # the ordinary way has a message
    finally:
        restore_errors(token)
    return ax.constant(Array.of(made if exact else convert(made, target)))


_SEQUENCES = frozenset((list, tuple, range))
_WIDE_FLOATS = frozenset(map(np.dtype, ("float32", "float64")))
_KINDS = {bool: "b", int: "i", float: "f"}


#: Lists that stand in each other: beyond it one is taken to contain itself.
_DEPTH = 64


def _kinds_in(value: Any, depth: int = 1) -> set[type[Any]]:
    """The types of what nested lists and tuples hold."""
    found = set(map(type, value))
    if (list in found or tuple in found) and depth < _DEPTH:
        found -= {list, tuple}
        for part in value:
            if type(part) in (list, tuple):
                found |= _kinds_in(part, depth + 1)
    return found


def _convert(value: Any, dtype: Dtype, copy: bool) -> Any:
    for name in ("__ftrace_array__", "__jax_array__"):
        if hasattr(value, name):
            value = getattr(value, name)()
    if isinstance(value, ArrayLike):
        result = value if dtype is None else ax.cast(value, dtypes.as_dtype(dtype))
        # Arrays are immutable, but who donates one does not give up its copies.
        if copy and is_array(value) and result is value:
            return value.__deepcopy__({})
        return result
    if isinstance(value, np.generic):
        return ax.cast(value, dtype_or(dtype, tracer.aval_of(value).dtype))
    if isinstance(value, (bool, int, float, complex)):
        return from_number(value, dtype)
    if is_dynamic(value):
        return ax.cast(ax.as_value(value), dtype_or(dtype, tracer.aval_of(value).dtype))
    if ax.is_sequence(value):
        return _from_sequence(value, dtype)
    if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        tracer.check_unmasked(value)
        return _from_numpy(np.asarray(value), dtype, copy)
    if hasattr(value, "__dlpack__"):
        return _from_numpy(np.from_dlpack(value), dtype, copy)
    if type(value) in (memoryview, bytearray):
        return _from_numpy(np.asarray(memoryview(value)), dtype, copy)
    if _is_sequence_of_its_own(value):
        return _from_sequence(list(value), dtype)  # a range, a user's own sequence
    raise errors.ArgumentError(
        f"array: {value!r:.60} of type {type(value).__name__} is no number, no array "
        "and no sequence of them"
    )


def _is_sequence_of_its_own(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def from_number(value: complex, dtype: Dtype, shape: Shape = ()) -> Any:
    """A Python number at every place."""
    if dtype is None:
        aval = tracer.aval_of(value)
        return ax.full(shape, value, aval.dtype, aval.weak_type)
    target = dtypes.as_dtype(dtype)
    return ax.full(shape, number_for(value, target), target)


def number_for(value: complex, target: np.dtype[Any]) -> complex:
    """A Python number in a form that surely becomes one of this dtype.

    A float becomes an integer as everywhere: cut, saturated, NaN as 0. Integers of few
    bits wrap, as in JAX.

    Raises:
      DtypeOverflowError: it is an int that does not fit.
      ArgumentError: it is complex, and the dtype is real.
    """
    if isinstance(value, complex) and dtypes.kind(target) not in "cb":
        raise errors.ArgumentError(
            f"{value} is complex, and {target} holds real numbers; write its .real, "
            "or take a complex dtype"
        )
    changes = isinstance(value, float) or dtypes.is_narrow(target)
    if changes and dtypes.is_integer(target):
        return convert(np.asarray(value), target).item()
    tracer.check_fits(value, target)
    if not isinstance(value, int) or dtypes.is_integer(target):
        return value
    try:
        return bool(value) if target == dtypes.bool_ else float(value)
    except OverflowError:
        raise errors.DtypeOverflowError(
            f"array: a Python int of {value.bit_length()} bits is beyond {target}"
        ) from None


def _from_numpy(values: np.ndarray[Any, Any], dtype: Dtype, copy: bool) -> Array:
    if values.dtype.kind in "OSUMm":
        raise errors.ArgumentError(
            f"array: a NumPy array of dtype {values.dtype} holds no numbers; convert "
            "it with .astype, or make its parts one shape"
        )
    given: Any = values.dtype
    native: np.dtype[Any] = given if given.isnative else given.newbyteorder("=")
    target = dtype_or(dtype, dtypes.canonicalize(native))
    dtypes.kind(target)
    if native != target:
        return Array.of(convert(values.astype(native, copy=False), target))
    if copy or native is not given:
        return Array.of(copy_aligned(values, native))
    return shared(values)  # a copy in what outlives its trace


_NUMBERS = {bool, int, float, complex}
#: Of which not every value is one of every dtype.
_ASKED = {int, complex}
#: What is stacked step by step, so that native code can do it again.
_RECORDED = {Array, bool, int, float}


def _from_sequence(value: Sequence[Any], dtype: Dtype) -> Any:
    leaves: list[Any] = []
    shape = _rectangle(value, leaves)
    target = None if dtype is None else dtypes.as_dtype(dtype)
    types = _leaf_types(leaves, target)
    weak_float = dtypes.default_dtype("f"), True
    common = dtypes.strong_dtype(*dtypes.promote(*types or [weak_float]))
    if target is None:
        target = common
    elif dtypes.is_inexact(target) or set(map(type, leaves)) == {int}:
        common = target
    leaves = [number_for(x, target) if type(x) in _ASKED else x for x in leaves]
    kinds = set(map(type, leaves))
    if np.int64 in kinds:  # as Python's ints
        for x in leaves:
            tracer.check_fits(x, target)
    if kinds <= _NUMBERS:
        return ax.reshape(Array.of(convert(np.asarray(leaves, common), target)), shape)
    if tracer.Tracer in kinds or (Array in kinds and kinds <= _RECORDED):
        parts = [ax.cast(x, target) for x in leaves]
        if any(x.shape != parts[0].shape for x in parts):
            return ax.reshape(
                concatenate([ax.reshape(x, (x.size,)) for x in parts]), shape
            )
        return ax.reshape(stack(parts), shape)
    rows = [convert(np.ravel(x), target) for x in leaves]
    return ax.reshape(Array.of(np.concatenate(rows)), shape)


def _leaf_types(
    leaves: Sequence[Any], target: np.dtype[Any] | None
) -> list[tuple[np.dtype[Any], bool]]:
    """The distinct (dtype, weak_type) of the leaves.

    Of ints the extremes count, but where they become floats: any size is good there.
    """
    integers = [x for x in leaves if type(x) is int]
    types = set(map(type, leaves))
    chosen = [x for x in leaves if type(x) not in _NUMBERS]
    chosen += [kind(0) for kind in (bool, float, complex) if kind in types]
    avals = [tracer.aval_of(x) for x in chosen]
    others = [a.dtype for a in avals] if target is None else [target]
    if target is not None or any(dtypes.kind(t) in "bfc" for t in others):
        integers = integers and [0]
    avals += [tracer.aval_of(limit(integers)) for limit in (min, max) if integers]
    return list({(a.dtype, a.weak_type): None for a in avals})


def _rectangle(value: Sequence[Any], leaves: list[Any], depth: int = 0) -> Shape:
    """The shape of nested sequences; their arrays and numbers go into `leaves`."""
    first: Shape | None = None
    if depth == _DEPTH:
        raise errors.NestingError(
            f"array: lists are nested deeper than {_DEPTH}, or one contains itself"
        )
    for item in map(dtypes.as_number, value):
        if ax.is_sequence(item) or type(item) is range:
            shape = _rectangle(item, leaves, depth + 1)
        elif type(item) in _NUMBERS:
            leaves.append(item)
            shape = ()
        else:
            known = tracer.is_value(item) and tracer.stands_for(item) is None
            leaf = item if known else _convert(item, None, copy=False)
            leaves.append(leaf)
            shape = tracer.aval_of(leaf).shape
        if first is None:
            first = shape
        elif shape != first:
            raise errors.ShapeError(
                f"array: the sequence is not rectangular: parts of shape {first} and "
                f"{shape} stand beside each other"
            )
    return (len(value), *(first or ()))


def astype(x: tracer.Value, /, dtype: Dtype, copy: bool = False) -> Any:
    """`x` in another dtype; floats become integers by truncation, saturating.

    Args:
      x: the array.
      dtype: of the result; None is the default float.
      copy: make another array also where it has the dtype.

    Example:
      >>> fnp.astype(fnp.array([1.7, -1.7]), int)
      Array([ 1, -1], dtype=int32)
      >>> fnp.array([300.0]).astype(fnp.uint8)
      Array([255], dtype=uint8)
    """
    if copy and is_array(x):
        x = array(x)
    return ax.cast(x, dtype_or(dtype, dtypes.default_dtype("f")))


def copy(a: Any, order: str | None = None) -> Any:
    """A copy of an array.

    Args:
      a: an array, a number, or nested sequences of them.
      order: accepted, without effect.

    Example:
      >>> fnp.copy(fnp.array([1, 2]))
      Array([1, 2], dtype=int32)
    """
    return array(a, order=order)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """An array that shares the memory of any array with `__dlpack__`.

    Args:
      x: an array of any library.
      device: where the array is put.
      copy: make a copy.

    Raises:
      ArgumentError: `x` has no `__dlpack__`, as traced arrays have none.

    Example:
      >>> fnp.from_dlpack(np.ones(2))
      Array([1., 1.], dtype=float64)
    """
    if not hasattr(x, "__dlpack__"):
        raise errors.ArgumentError(
            f"from_dlpack takes an array with __dlpack__, got {type(x).__name__}"
        )
    # NumPy has no bfloat16 there.
    source = x.numpy() if type(x) is Array else np.from_dlpack(x)
    return place_result(_from_numpy(source, None, bool(copy)), device)


def frombuffer(
    buffer: Any, dtype: Dtype = float, count: int = -1, offset: int = 0
) -> Any:
    """The bytes of a buffer as an array of one axis.

    Args:
      buffer: bytes, or anything else with a buffer.
      dtype: of the elements.
      count: how many; -1 for all.
      offset: bytes before the first one.

    Raises:
      ArgumentError: the bytes are no whole elements, or too few.

    Example:
      >>> fnp.frombuffer(bytes([1, 2, 3]), dtype=fnp.uint8)
      Array([1, 2, 3], dtype=uint8)
    """
    try:
        found = np.frombuffer(buffer, dtypes.as_dtype(dtype), count, offset)
    except (TypeError, ValueError) as error:
        raise errors.ArgumentError(f"frombuffer: {error}") from None
    return Array.of(found)


# Files, and text, as NumPy writes and reads them.

save = np.save
savez = np.savez

File = IO[bytes] | str | os.PathLike[Any]


def load(file: File, *args: Any, **kwargs: Any) -> Any:
    """What `save` or `savez` wrote: an array, or NumPy's dictionary of arrays.

    NumPy has no name for bfloat16, and so writes two bytes without a meaning: they are
    read as bfloat16.

    Args:
      file: a file, or its name.
      *args, **kwargs: those of `numpy.load`.

    Example:
      >>> import io
      >>> file = io.BytesIO()
      >>> fnp.save(file, fnp.array([1, 2]))
      >>> _ = file.seek(0)
      >>> fnp.load(file)
      Array([1, 2], dtype=int32)
    """
    found: Any = np.load(file, *args, **kwargs)
    if not hasattr(found, "dtype"):
        return found
    return asarray(found.view(dtypes.bfloat16) if found.dtype == "V2" else found)


def fromfile(
    file: File, dtype: Dtype = float, count: int = -1, sep: str = "", offset: int = 0
) -> Any:
    """The numbers in a file, as bytes or, with a separator, as text.

    It is read now: in a traced function once, when that is traced.

    Args:
      file: a file, or its name.
      dtype: of the elements.
      count: how many; -1 for all.
      sep: what stands between numbers in a text; "" for bytes.
      offset: bytes before the first one.

    Example:
      >>> import tempfile
      >>> with tempfile.NamedTemporaryFile() as file:
      ...     np.array([1, 2], np.int32).tofile(file.name)
      ...     print(fnp.fromfile(file.name, dtype=int))
      [1 2]
    """
    return asarray(np.fromfile(file, dtypes.as_dtype(dtype), count, sep, offset))


def fromiter(iter: Iterable[Any], dtype: Dtype = float, count: int = -1) -> Any:
    """A vector of what an iterator gives, all of it or `count` elements.

    It is asked now: in a traced function once, when that is traced.

    Args:
      iter: what gives numbers.
      dtype: of the elements.
      count: how many; -1 for all.

    Example:
      >>> fnp.fromiter((n * n for n in range(4)), dtype=int)
      Array([0, 1, 4, 9], dtype=int32)
    """
    return asarray(np.fromiter(iter, dtypes.as_dtype(dtype), count))


def fromstring(string: str, dtype: Dtype = float, count: int = -1, *, sep: str) -> Any:
    """The numbers in a text, which a separator divides.

    Args:
      string: the text.
      dtype: of the elements.
      count: how many; -1 for all.
      sep: what stands between them.

    Example:
      >>> fnp.fromstring("1, 2, 3", dtype=int, sep=",")
      Array([1, 2, 3], dtype=int32)
    """
    return asarray(np.fromstring(string, dtypes.as_dtype(dtype), count, sep=sep))

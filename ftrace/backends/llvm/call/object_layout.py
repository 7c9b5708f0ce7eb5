"""Does this interpreter lay its objects out as the native code expects?

Nothing is taken from a version alone: each place is looked for in an object whose
contents are known. An interpreter that was not tried is taken to be of another kind.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from ftrace.backends.llvm.runtime.records import word
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.trace.arrays.array import HOST, Array
from ftrace.trace.arrays.buffer import Buffer

#: Versions of CPython whose objects and functions were tried.
VERSIONS = ((3, 10), (3, 11), (3, 12), (3, 13), (3, 14))

# Places of all objects and of some classes of the interpreter and of NumPy, in bytes.
TYPE = 8
SIZE = 16  # of tuples, lists and dicts
ITEMS = 32 if sys.version_info >= (3, 14) else 24  # of a tuple, whose hash may precede
LISTED = 24  # of a list a pointer to its items
KEYS = 32  # of a dict a pointer to the table of its entries
DATA, NDIM, SHAPE, DTYPE, FLAGS = 16, 24, 32, 56, 64  # of NumPy's arrays
NUMBER = 16  # of NumPy's scalars
DEALLOC = 48  # of a class

_SLOT_OF_DEALLOC = 52  # in CPython's `typeslots.h`
_HAS_CYCLES = 1 << 14  # the flag of classes whose objects the collector looks at
#: Of NumPy's flags: row-major and aligned.
ORDERLY = 0x101


class Offsets(NamedTuple):
    """Where the slots of Arrays and of the host's buffers are, in bytes."""

    aval: int
    buffer: int
    dtype: int
    host: int
    shape: int
    weak_type: int
    references: int
    device: int
    memory: int


def _half(address: int) -> int:
    return ctypes.c_int32.from_address(address).value


def offset_of(instance: Any, slot: str) -> int:
    """Where a class keeps a slot; the instance gets another value there.

    Raises:
      LookupError: it is not found.
    """
    mark = object()
    setattr(instance, slot, mark)
    for offset in range(16, type(instance).__basicsize__, 8):
        if word(id(instance) + offset) == id(mark):
            return offset
    raise LookupError(slot)


def offsets() -> Offsets | None:
    """The places of slots; None if this interpreter is not one that is known."""
    if not _is_known() or not _objects_are_known() or not _numpy_is_known():
        return None
    try:
        return _offsets()
    except LookupError:
        return None


def _is_known() -> bool:
    return (
        sys.implementation.name == "cpython"
        and sys.version_info[:2] in VERSIONS
        and sys.byteorder == "little"
        and ctypes.sizeof(ctypes.c_void_p) == 8
        and not hasattr(sys, "gettotalrefcount")  # a debug build
        and not hasattr(sys, "getobjects")
        and "free-threading" not in sys.version
    )


def _objects_are_known() -> bool:
    thing, number = object(), 1 << 70
    before = word(id(thing))
    again = [thing, thing]
    if word(id(thing)) != before + 2 or word(id(thing) + TYPE) != id(object):
        return False
    pair: Any = (thing, number)
    table = {"a": thing, "b": number, "c": thing}
    first_of_list = word(id(again) + LISTED)
    return (
        word(id(pair) + SIZE) == 2
        and word(id(pair) + ITEMS) == id(thing)
        and word(id(pair) + ITEMS + 8) == id(number)
        and word(id(again) + SIZE) == 2
        and word(first_of_list + 8) == id(thing)
        and word(id(table) + SIZE) == 3
    )


def _numpy_is_known() -> bool:
    sample = np.zeros((2, 3, 5), np.float32)
    start, sizes = id(sample), word(id(sample) + SHAPE)
    transposed: Any = np.asfortranarray(sample)
    return (
        word(start + DATA) == sample.ctypes.data
        and _half(start + NDIM) == 3
        and [word(sizes + 8 * i) for i in range(3)] == [2, 3, 5]
        and word(start + DTYPE) == id(np.dtype(np.float32))
        and _half(start + FLAGS) == sample.flags.num
        and _half(start + FLAGS) & ORDERLY == ORDERLY
        and word(id(np.int64(1 << 40)) + NUMBER) == 1 << 40
        and _half(id(transposed) + FLAGS) & ORDERLY != ORDERLY
    )


def _offsets() -> Offsets | None:
    array, buffer = Array((), np.dtype(np.float32)), Buffer(HOST, None, 0)
    references = int(getattr(Array, "__weakrefoffset__", 0))
    if not references or word(id(array) + references):
        return None
    reference = weakref.ref(array)
    if word(id(array) + references) != id(reference):
        return None
    del reference
    get_slot: Any = ctypes.pythonapi.PyType_GetSlot
    get_slot.restype = ctypes.c_void_p
    get_slot.argtypes = (ctypes.py_object, ctypes.c_int)
    if get_slot(Array, _SLOT_OF_DEALLOC) != word(id(Array) + DEALLOC):
        return None
    if not Array.__flags__ & _HAS_CYCLES:
        return None
    names = ("_aval", "_buffer", "_dtype", "_host", "_shape", "weak_type")
    slots = [offset_of(array, name) for name in names]
    more = [offset_of(buffer, name) for name in ("device", "memory")]
    return Offsets._make([*slots, references, *more])


def template_of(keys: Sequence[Any]) -> tuple[dict[Any, Any], Sequence[int]]:
    """A dict of keys, and where copies of it have their values.

    A copy has the same table of entries. That is looked for the values of the template
    and of a copy: where they do not lie alike, there are no places.

    Returns:
      The dict, whose values are objects that the collector of garbage follows, so that
      it follows copies; and per key the bytes from what stands at `KEYS` of a copy.
    """
    template: dict[Any, Any] = {key: [] for key in keys}
    places = _values_of(template, template)
    if places is None or places != _values_of(template.copy(), template):
        return template, ()
    return template, tuple(places)


def _values_of(table: dict[Any, Any], template: dict[Any, Any]) -> list[int] | None:
    """Where the values of a template lie in a dict that has them; None if elsewhere."""
    size = table.__sizeof__() - dict.__basicsize__
    words = (ctypes.c_size_t * (size // 8)).from_address(word(id(table) + KEYS))
    expected = [id(value) for value in template.values()]
    found = [i for i, held in enumerate(words) if held in expected]
    if [words[i] for i in found] != expected:
        return None
    return [8 * i for i in found]

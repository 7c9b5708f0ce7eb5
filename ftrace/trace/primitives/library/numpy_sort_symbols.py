"""NumPy's sorts of plain values as addresses, for code that is not Python.

NumPy offers the functions of its dtypes to other compiled modules: a table of
addresses, of which one gives the functions of a dtype (NumPy's C API,
`PyDataType_GetArrFuncs`). The sorts among them use the vector instructions of the
processor, take `(values, count, unused)`, and need no lock.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

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

"""Native code as functions of Python: CPython's `PyMethodDef`."""

from __future__ import annotations

import ctypes
from typing import Any

#: How a function takes its arguments: METH_FASTCALL, METH_KEYWORDS.
FASTCALL, KEYWORDS = 0x80, 0x02


class Method(ctypes.Structure):
    """A `PyMethodDef`; it must outlive the functions that are made of it."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def builtin(method: Method, owner: Any = None) -> Any:
    """A function of Python; native code is given `owner`, NULL for None, before all."""
    make: Any = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    place = None if owner is None else id(owner)
    return make(ctypes.addressof(method), place, None)

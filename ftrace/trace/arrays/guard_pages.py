"""Memory that ends at a page which nobody may touch: FTRACE_FENCE=1.

    | no access | …unused… | the bytes of a buffer | no access |       end
    | no access | the bytes of a buffer | …unused… | no access |       front

A kernel that reads or writes one element too far faults at once, where it stands, in
place of changing what lies beside it. The first byte has no alignment but that of the
elements. What nobody has written yet is NaN, or -1.
"""

from __future__ import annotations

import ctypes
import sys
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

import numpy as np

from ftrace.errors import DeviceError
from ftrace.ground import settings

#: Are buffers fenced? It is a setting of the process.
ON: Final = bool(settings.current().fence)
_AT_FRONT: Final = settings.current().fence == "front"

_UNWRITTEN: Final = 0xFF


def fenced(nbytes: int) -> Any:
    """An array of so many bytes beside a page that is not there.

    Raises:
      MemoryError: the system has no more memory, or no more maps.
    """
    mmap: Any = import_module("mmap")  # only behind a fence
    page: int = mmap.PAGESIZE
    room = -(-nbytes // page) * page
    try:
        whole: Any = np.frombuffer(mmap.mmap(-1, room + 2 * page), np.uint8)
    except OSError:
        raise MemoryError from None
    first = whole.ctypes.data
    whole[page : page + room] = _UNWRITTEN
    for fence in (first, first + page + room):
        if _protect()(fence, page, 0):
            raise MemoryError
    start = page if _AT_FRONT else page + room - nbytes
    return whole[start : start + nbytes]


def fenced_copy(array: Any) -> Any:
    """The elements of an array, one after the other, in fenced memory."""
    memory = fenced(array.nbytes).view(array.dtype)
    memory.reshape(array.shape)[...] = array
    return memory


@lru_cache(maxsize=1)
def _protect() -> Any:
    """`mprotect` of the C library."""
    if sys.platform == "win32":
        raise DeviceError("FTRACE_FENCE needs a system with mprotect; do not set it")
    found = ctypes.CDLL(None, use_errno=True).mprotect
    found.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return found

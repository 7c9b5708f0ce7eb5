"""The loops in C of NumPy's ufuncs, called without what NumPy does around them."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ftrace.backends.llvm.runtime.records import word
from ftrace.ground.tables import memo

#: The lower half of a word.
_HALF = (1 << 32) - 1


class NotLoops(Exception):
    """Something is done that is no loop."""


#: (operands, count, strides, data)
_C_LOOP = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)


@memo(1024)
def loop_of(ufunc: Any, kinds: str) -> tuple[int, int]:
    """The address of a ufunc's loop for some kinds of elements, and of its data.

    Raises:
      NotLoops: there is none, or it does something else in a sample.
    """
    types = f"{kinds[: ufunc.nin]}->{kinds[ufunc.nin :]}"
    if ufunc.signature or types not in ufunc.types:
        raise NotLoops
    place = 8 * ufunc.types.index(types)
    address, data = [word(table + place) for table in _tables(ufunc)]
    arrays = [np.arange(1, 8).astype(kind) for kind in kinds]
    words = [[x.ctypes.data for x in arrays], [7], [x.itemsize for x in arrays]]
    given: list[Any] = [np.array(row, np.int64) for row in words]
    with np.errstate(all="ignore"):
        expected = ufunc(*arrays[: ufunc.nin])
    if not address:
        raise NotLoops
    _C_LOOP(address)(*[row.ctypes.data for row in given], data)
    if arrays[-1].tobytes() != expected.tobytes():
        raise NotLoops
    return address, data


def _tables(ufunc: Any) -> tuple[int, int]:
    """The addresses of the tables of a ufunc: of its loops, and of their data.

    They stand behind the numbers of its operands (`PyUFuncObject` of NumPy's interface
    for C), which are looked at; its name goes behind them.
    """
    words = [word(id(ufunc) + 8 * i) for i in range(2, 8)]
    name = ctypes.string_at(words[5]).decode()
    numbers = words[0] & _HALF, words[0] >> 32, words[1] & _HALF, words[4] & _HALF
    expected = ufunc.nin, ufunc.nout, ufunc.nargs, ufunc.ntypes
    if numbers != expected or name != ufunc.__name__:
        raise NotLoops
    return words[2], words[3]

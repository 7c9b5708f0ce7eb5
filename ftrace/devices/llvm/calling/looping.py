"""Which steps of a record are a loop of our own: see `loops`."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace.devices.llvm.calling.loops import (
    ARRAY,
    CONSTANT,
    FLOAT32,
    FLOAT64,
    LANES,
    MOST,
    Loop,
    Operand,
    compares,
    loop_names,
)
from ftrace.devices.llvm.runner.records import Block

#: `PyArray_NewFromDescr` and the version in the table of NumPy's C functions, and the
#: versions of which that is known.
_NEW, _VERSION, _VERSIONS = 94, 0, (0x01000009, 0x02000000)


def _operations() -> dict[tuple[Any, np.dtype[Any]], str]:
    """The loops, by the function of NumPy and the dtype of the operands."""
    found: dict[tuple[Any, np.dtype[Any]], str] = {}
    for name in loop_names():
        function, _, dtype = name.rpartition("_")
        found[getattr(np, function), np.dtype(dtype)] = name
    return found


_OPERATIONS = _operations()


class Place:
    """Where the value of that number comes."""

    def __init__(self, number: int) -> None:
        self.number = number


class Call:
    """A step with places for values."""

    def __init__(self, function: Any, operands: Sequence[Any], dtype: Any) -> None:
        self.function = function
        self.operands = operands
        self.dtype = dtype


def new_ndarray() -> int:
    """The address of what makes an array of NumPy's; 0 where it is not known."""
    core: Any = getattr(np, "_core", None) or getattr(np, "core", None)
    capsule = getattr(getattr(core, "multiarray", None), "_ARRAY_API", None)
    if capsule is None:
        return 0
    pointer: Any = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = (
        ctypes.c_void_p,
        (ctypes.py_object, ctypes.c_char_p),
    )
    table = (ctypes.c_void_p * (_NEW + 1)).from_address(pointer(capsule, None))
    version = ctypes.CFUNCTYPE(ctypes.c_uint)(table[_VERSION] or 0)()
    return table[_NEW] or 0 if version in _VERSIONS else 0


class Looping:
    """Makes the loops of records.

    Args:
      address: of each loop by its name.
    """

    def __init__(self, address: Callable[[str], int]) -> None:
        self._address = address

    def loop(
        self, steps: Sequence[Call], avals: Sequence[Any], result: Any, block: Block
    ) -> tuple[Any, Sequence[Any]]:
        """The `Loop` that does the steps and what it refers to; 0 if there is none.

        Args:
          steps: what a record does.
          avals: the types of its arguments; None for floats.
          result: the type of the result.
          block: where it is put.
        """
        *before, last = steps
        name = self._named(last, avals, result)
        if name is None or not 0 < len(last.operands) <= 2:
            return 0, ()
        converted: dict[int, int] = {}
        operand = _dtype_of(last, avals)
        for number, step in enumerate(before, len(avals)):
            if step.function is not operand.type or len(step.operands) != 1:
                return 0, ()
            (x,) = step.operands
            if type(x) is not Place or x.number >= len(avals) or avals[x.number]:
                return 0, ()
            converted[number] = x.number
        rows: list[Any] = []
        for x in last.operands:
            row = _operand(x, avals, converted, operand, result.shape, block)
            if row is None:
                return 0, ()
            rows.append(block.add(*row))
        dtype, count = np.dtype(result.dtype), math.prod(result.shape)
        sizes = block.add(*result.shape or (0,))
        ndim, address = len(result.shape), self._address(name)
        found = Loop(
            address, count, id(operand), id(dtype), ndim, sizes, rows[0], rows[-1]
        )
        return block.add(*found), (operand, dtype)

    @staticmethod
    def _named(step: Call, avals: Sequence[Any], result: Any) -> str | None:
        if math.prod(result.shape) > MOST or step.dtype != result.dtype:
            return None
        if not isinstance(step.function, np.ufunc):
            return None
        dtype = _dtype_of(step, avals)
        name = _OPERATIONS.get((step.function, dtype))
        if name is None or len(step.operands) != step.function.nin:
            return None
        made = np.dtype(np.bool_) if compares(name) else dtype
        return name if made == result.dtype else None


def _dtype_of(step: Call, avals: Sequence[Any]) -> Any:
    """Of the first array among the operands."""
    for x in step.operands:
        if type(x) is Place and x.number < len(avals) and avals[x.number]:
            return np.dtype(avals[x.number].dtype)
    return None


def _operand(
    x: Any,
    avals: Sequence[Any],
    converted: dict[int, int],
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    block: Block,
) -> Operand | None:
    if type(x) is not Place:
        if type(x) is not dtype.type:
            return None
        copies: Any = np.full(LANES, x, dtype)
        copies = copies.view(np.int64).tolist()
        return Operand(CONSTANT, 0, block.add(*copies), 0)
    if x.number in converted:
        kind = FLOAT32 if dtype == np.float32 else FLOAT64
        return Operand(kind, converted[x.number], 0, 0)
    aval = avals[x.number] if x.number < len(avals) else None
    if aval is None or aval.shape != shape or aval.dtype != dtype:
        return None
    return Operand(ARRAY, x.number, 0, 1)

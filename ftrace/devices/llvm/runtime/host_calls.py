"""What a program calls on the host: NumPy's meaning of an operation, on its memory."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ftrace.errors import ShapeError
from ftrace.lower.program.ir import CallHost
from ftrace.trace.avals import ShapedArray
from ftrace.trace.evaluate import settle
from ftrace.trace.primitives.primitive import Compound

Array = Any  # of NumPy, whose stubs leave too much unknown

#: Operations that call a user's function, which may keep what it is given.
USER_CALLBACKS = frozenset({"callback", "pure_callback"})


class HostCall:
    """A step that the host computes; the runner calls it on the address of a frame.

    The operands are read-only and show the program's memory, which is theirs during
    the call only; a user's function gets copies.

    Raises:
      ShapeError: a result has another shape than its type says.
      Exception: whatever the operation raises, with a note that names it.
    """

    def __init__(self, step: CallHost) -> None:
        assert isinstance(step.node.op, Compound)
        self.node = step.node
        self.op = step.node.op
        self._copies = self.op.name in USER_CALLBACKS
        types = step.node.aval.items
        self._operands = [
            _SlotArray(slot, node.aval)
            for slot, node in zip(step.operands, step.node.src, strict=True)
        ]
        self._results = [
            _SlotArray(slot, aval)
            for slot, aval in zip(step.results, types, strict=True)
        ]

    def __call__(self, frame: int) -> None:
        try:
            self._compute(frame)
        except BaseException as error:
            self._add_note(error)
            raise

    def _add_note(self, error: Any) -> None:
        """Names the user's line, where Python has notes (3.11 and later).

        A callback of a user has named it already.
        """
        origin = self.node.origin
        if origin is not None and hasattr(error, "add_note") and not self._copies:
            error.add_note(f"in {self.op.name}, called at {origin.describe()}")

    def _compute(self, frame: int) -> None:
        operands = [operand.view(frame) for operand in self._operands]
        if self._copies:
            operands = [np.array(operand) for operand in operands]
        for operand in operands:
            operand.flags.writeable = False
        if self.op.into is not None:
            results = [result.view(frame) for result in self._results]
            self.op.into(self.node.arg, results, *operands)
            return
        types = self.node.aval.items
        values = self.op.numpy(types, self.node.arg, *operands)
        for result, value in zip(self._results, values, strict=True):
            array = settle(value, result.aval.dtype)
            if array.shape != result.aval.shape:
                raise ShapeError(
                    f"{self.op.name} must give an array of shape {result.aval.shape} "
                    f"here; it gave one of shape {array.shape}",
                    self.node.origin,
                )
            result.view(frame)[...] = array


class _SlotArray:
    """An array that lies in a slot of a program."""

    def __init__(self, slot: int, aval: ShapedArray) -> None:
        self.aval = aval
        self._at = slot * ctypes.sizeof(ctypes.c_size_t)
        self._bytes = ctypes.c_byte * (aval.size * aval.dtype.itemsize)

    def view(self, frame: int) -> Array:
        """The array in this frame; writable."""
        address = ctypes.c_size_t.from_address(frame + self._at).value
        memory: Any = self._bytes.from_address(address)
        return np.ndarray(self.aval.shape, self.aval.dtype, memory)

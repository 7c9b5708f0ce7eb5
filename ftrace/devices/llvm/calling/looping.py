"""Which steps of a record are a loop of our own: see `loops`."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace.array import Array
from ftrace.devices.llvm.calling.element_loops import ARITY
from ftrace.devices.llvm.calling.elements import CODES
from ftrace.devices.llvm.calling.lanes import LANES
from ftrace.devices.llvm.calling.loops import (
    ARRAY,
    CONSTANT,
    FLOAT32,
    FLOAT64,
    MOST,
    MOST_SUMMED,
    ONE8,
    ONE32,
    ONE64,
    ORDERED,
    Loop,
    Operand,
)
from ftrace.devices.llvm.calling.operations import loop_of
from ftrace.devices.llvm.calling.sum_loops import (
    COLUMNS,
    KINDS,
    ROOM,
    ROWS,
    RUNNING,
    SumLoops,
)
from ftrace.devices.llvm.runner.records import Block
from ftrace.records import NamedTuple
from ftrace.trace.lacking import address_of
from ftrace.trace.primitives import meanings
from ftrace.trace.primitives.broadcast import reduce_sum_p
from ftrace.trace.primitives.host.running import running_sum
from ftrace.trace.primitives.sums import Cut, cut_of, seen_along

#: `PyArray_NewFromDescr` and the version in the table of NumPy's C functions, and the
#: versions of which that is known.
NEW, _VERSION, _VERSIONS = 94, 0, (0x01000009, 0x02000000)
#: `PyArray_NewCopy` there.
_COPY = 85


class Place:
    """Where the value of that number comes."""

    def __init__(self, number: int) -> None:
        self.number = number


class Meaning(NamedTuple):
    """The primitive that a step is.

    Attributes:
      op, arg: the primitive.
      operands: the dtypes and shapes of those that are arrays or numbers.
      dtype, shape: of the result.
    """

    op: Any
    arg: Any
    operands: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class Call:
    """A step with places for values.

    Attributes:
      dtype, shape: of an array that it makes; None where it makes something else, or
        the shape is not known.
      meaning: the primitive that it is.
    """

    def __init__(
        self,
        function: Any,
        operands: Sequence[Any],
        dtype: Any,
        shape: tuple[int, ...] | None = None,
        meaning: Meaning | None = None,
    ) -> None:
        self.function = function
        self.operands = operands
        self.dtype = dtype
        self.shape = shape
        self.meaning: Any = meaning


def new_ndarray() -> int:
    """The address of what makes an array of NumPy's; 0 where it is not known."""
    return numpy_function(NEW)


def new_copy() -> int:
    """The address of what makes a row-major copy; 0 where it is not known, or fails."""
    address = numpy_function(_COPY)
    if not address:
        return 0
    turned: Any = np.arange(6.0)
    turned = turned.reshape(2, 3).T
    copy = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_int)(address)
    made: Any = copy(turned, 0)
    same = type(made) is np.ndarray and made.tolist() == turned.tolist()
    return address if same and made.flags.c_contiguous else 0


def numpy_function(number: int) -> int:
    """The address of a C function of NumPy by its number; 0 where it is not known."""
    core: Any = getattr(np, "_core", None) or getattr(np, "core", None)
    capsule = getattr(getattr(core, "multiarray", None), "_ARRAY_API", None)
    if capsule is None:
        return 0
    pointer: Any = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = (
        ctypes.c_void_p,
        (ctypes.py_object, ctypes.c_char_p),
    )
    table = (ctypes.c_void_p * (number + 1)).from_address(pointer(capsule, None))
    version = ctypes.CFUNCTYPE(ctypes.c_uint)(table[_VERSION] or 0)()
    return table[number] or 0 if version in _VERSIONS else 0


class Known(NamedTuple):
    """What is known of a value of a record before it is there.

    Attributes:
      dtype, shape: of an array; None of something else.
      number: of a number in the dtype of arrays: which argument, a float, it is.
    """

    dtype: Any
    shape: tuple[int, ...] | None
    number: int = -1


_NOTHING = Known(None, None)


def known_values(steps: Sequence[Call], given: Sequence[Any]) -> list[Known]:
    """Of all values of a record.

    Args:
      steps: what it does.
      given: the arguments that they are done with.
    """
    found = [
        Known(np.dtype(x.dtype), x.shape)
        if type(x) in (Array, np.ndarray)
        else _NOTHING
        for x in given
    ]
    for step in steps:
        of = step.operands
        if step.dtype is not None:
            found.append(Known(np.dtype(step.dtype), step.shape))
        elif (
            step.function in (np.float32, np.float64)
            and type(of[0]) is Place
            and of[0].number < len(given)
        ):
            found.append(Known(np.dtype(step.function), None, of[0].number))
        else:
            found.append(_NOTHING)
    return found


class Looping:
    """Makes the loops of records.

    Args:
      address: of each loop by its name.

    Attributes:
      views: can views be made?
    """

    views: bool = False

    def __init__(self, address: Callable[[str], int]) -> None:
        self._address = address
        self._sums = SumLoops()

    def loop(
        self, steps: Sequence[Call], known: Sequence[Known], block: Block
    ) -> tuple[Any, Sequence[Any]]:
        """The `Loop` that does all steps and what it refers to; 0 if there is none.

        Args:
          steps: what a record does.
          known: its values.
          block: where it is put.
        """
        *before, last = steps
        numbers = known[len(known) - len(steps) : len(known) - 1]
        if all(value.number >= 0 for value in numbers) or not before:
            return self.step_loop(last, known, block)
        return 0, ()

    def step_loop(
        self, step: Call, known: Sequence[Known], block: Block
    ) -> tuple[Any, Sequence[Any]]:
        """The `Loop` that does one step, likewise."""
        shape = step.shape
        if shape is None or step.dtype is None:
            return 0, ()
        if (cut := _cut(step, known)) is not None:
            return self._sum_loop(step, *cut, block)
        if math.prod(shape) > MOST:
            return 0, ()
        kinds = [_dtype_of(x, known) for x in step.operands]
        exponent = _exponent(step, known, kinds)
        if exponent:  # the loop is for one of them
            name = f"half_power_{kinds[0].name}"
        else:
            name = loop_of(step.function, kinds, np.dtype(step.dtype))
        own = address_of(step.function) if name is None else 0
        if name is None and not own:
            return 0, ()
        arity = 1 if name is None else len(CODES[name].operands)
        rows: list[Operand] = []
        keeps: list[Any] = [np.dtype(step.dtype)]
        for x, dtype in zip(step.operands[:arity], kinds, strict=False):
            row = _operand(x, known, dtype, shape, block, keeps)
            if row is None:
                return 0, ()
            rows.append(row)
        if not any(row.step for row in rows) and shape:
            return 0, ()
        places = [block.add(*row) for row in rows]
        places += places[-1:] * (ARITY - len(places))
        sizes = block.add(*shape or (0,))
        address = own if name is None else self._address(name)
        count = math.prod(shape)
        made = id(keeps[0]), len(shape), sizes
        found = Loop(address, count, *made, *places, exponent=exponent)
        return block.add(*found), keeps

    def _sum_loop(
        self, step: Call, loop: str, cut: Cut, block: Block
    ) -> tuple[Any, Sequence[Any]]:
        dtype, shape = np.dtype(step.dtype), step.shape or ()
        address = self._sums.address(loop, dtype)
        if not address:
            return 0, ()
        plan = block.add(*self._sums.plan(cut))
        array = block.add(*Operand(ORDERED, step.operands[0].number, 0, 1, id(dtype)))
        other = block.add(*Operand(CONSTANT, 0, plan, 0, id(dtype)))
        made = id(dtype), len(shape), block.add(*shape or (0,))
        found = Loop(address, cut.outer, *made, array, other, other)
        return block.add(*found), (dtype, self._sums)


def _cut(step: Call, known: Sequence[Known]) -> tuple[str, Cut] | None:
    """The loop of `sum_loops` that a step is, and how it cuts; None if it is none."""
    x = step.operands[0] if step.operands else None
    if type(x) is not Place:
        return None
    shape, dtype = known[x.number].shape, known[x.number].dtype
    if shape is None or dtype != step.dtype or dtype.name not in KINDS:
        return None
    if not dtype.isnative or math.prod(shape) > MOST_SUMMED:
        return None
    if step.function is running_sum:
        cut = seen_along(shape, (step.operands[1],))
        return None if cut is None else (RUNNING, cut)
    if step.meaning is None or step.meaning.op is not reduce_sum_p:
        return None
    cut = cut_of(shape, step.meaning.arg, dtype)
    if cut is None or cut.parts * cut.inner * dtype.itemsize > ROOM:
        return None
    if cut.inner > 1:
        return COLUMNS, cut
    # Of integers NumPy adds many at a time, for the order decides nothing.
    quick = dtype.kind in "iu" and cut.terms > MOST
    return None if quick else (ROWS, cut)


_FLOATS = ("float32", "float64")


def _exponent(step: Call, known: Sequence[Known], kinds: Sequence[Any]) -> int:
    """Of a power of an array: after how many arguments its exponent comes; else 0."""
    if step.function is not meanings.power or len(kinds) != 2:
        return 0
    base, exponent = step.operands
    if type(base) is not Place or type(exponent) is not Place or kinds[0] is None:
        return 0
    if kinds[0].name not in _FLOATS or known[base.number].shape != step.shape:
        return 0
    return known[exponent.number].number + 1


def _dtype_of(x: Any, known: Sequence[Known]) -> Any:
    """The dtype of an operand, if it is an array or a number of NumPy's."""
    if type(x) is Place:
        return known[x.number].dtype
    constant: Any = x
    return constant.dtype if isinstance(x, (np.ndarray, np.generic)) else None


def _operand(
    x: Any,
    known: Sequence[Known],
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    block: Block,
    keeps: list[Any],
) -> Operand | None:
    keeps.append(dtype)
    if type(x) is not Place:
        return _constant(x, dtype, shape, block, keeps)
    value = known[x.number]
    if value.number >= 0:
        kind = FLOAT32 if dtype == np.float32 else FLOAT64
        return Operand(kind, value.number, 0, 0, id(dtype))
    if value.shape == shape:
        return Operand(ARRAY, x.number, 0, 1, id(dtype))
    if (
        value.shape is None
        or math.prod(value.shape) != 1
        or len(value.shape) > len(shape)
    ):
        return None
    one = {1: ONE8, 4: ONE32, 8: ONE64}[dtype.itemsize]
    return Operand(one, x.number, 0, 0, id(dtype))


def _constant(
    x: Any, dtype: np.dtype[Any], shape: tuple[int, ...], block: Block, keeps: list[Any]
) -> Operand | None:
    if x.size == 1 and x.ndim <= len(shape):
        copies: Any = np.full(LANES, x, dtype)
        return Operand(
            CONSTANT, 0, block.add(*copies.view(np.int64).tolist()), 0, id(dtype)
        )
    if x.shape != shape or not x.flags.c_contiguous or not x.flags.aligned:
        return None
    keeps.append(x)
    return Operand(CONSTANT, 0, x.ctypes.data, 1, id(dtype))

"""Inner loops of NumPy's ufuncs, called without what NumPy does around them.

    x * 2.0       multiply of float32: new array <- x, one 2.0 again and again
    m + row       add, for each row of m
    sum(m, 1)     add, for each row: total <- total, x

A step of a record that is one ufunc has an array made for it, and its loop is run over
that: the code of NumPy on the same elements in the same order, so the bits are those
of NumPy. An operand that is not as the record has it leaves the call to others.

    plan      which steps are such loops, and over what
    run_loop  the array of one
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, cast

import numpy as np

from ftrace.devices.llvm.call.cpython.object_ir import ObjectFunction
from ftrace.devices.llvm.call.cpython.object_layout import DATA, DTYPE, FLAGS, ORDERLY
from ftrace.devices.llvm.ir.function_builder import Function
from ftrace.devices.llvm.runtime.vm.records import Block, Word
from ftrace.devices.llvm.runtime.vm.records import Place as Address
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.ground.tables import memo
from ftrace.trace.primitives.broadcast import reduce_sum_p

#: Elements of a result, or terms of all sums, at the most: NumPy lets other threads run
#: meanwhile, and above this its own work hardly counts.
MOST = 1 << 14
#: Operands, and axes of loops around each other.
_ARITY, _DEPTH = 4, 3
#: Of operands: elements that never change, a value of the record, a number of NumPy's,
#: one of Python's that is rounded to float32, and the result.
CONSTANT, VALUE, NUMBER, ROUNDED, RESULT = range(5)
_READ = VALUE, NUMBER, ROUNDED
#: Where numbers of Python's and of NumPy's have their value.
_NUMBER = 16


class Loop(NamedTuple):
    """One loop.

    Attributes:
      function, data: of NumPy.
      outer, times, elements: loops around each other; the innermost is NumPy's.
      inner, next, over: bytes from one element of each operand to the next in these,
        where the one inside has moved on already.
      arity, operands: `Operand`s, the result among them.
      zeroed: bytes of the result that are 0 at first.
      dtype, ndim, sizes: of the result.
    """

    function: Word
    data: Word
    outer: Word
    times: Word
    elements: Word
    inner: Word
    next: Word
    over: Word
    arity: Word
    operands: Word
    zeroed: Word
    dtype: Word
    ndim: Word
    sizes: Word


class Operand(NamedTuple):
    """What a loop reads or writes: its kind, the number of the value, or an address."""

    kind: Word
    number: Word
    data: Word
    dtype: Word


# Code.


def ufunc_loops_ir() -> str:
    """The functions that run loops."""
    return _operand().text + _run_loop().text


def _operand() -> Function:
    """Where an operand is; null if it is not as expected."""
    parameters = ("ptr %operand", "ptr %values", "ptr %result", "ptr %room")
    f = ObjectFunction("operand", "ptr", *parameters)
    operand = f.view("%operand", Operand)
    kind = operand.number("kind")
    with f.when(f.equal("i64", kind, RESULT)):
        f.give(f.at("%result", DATA))
    with f.when(f.equal("i64", kind, CONSTANT)):
        f.give(operand.pointer("data"))
    thing = f.slot("%values", operand.number("number"))
    with f.when(f.equal("i64", kind, NUMBER)):
        f.give(f.beyond(thing, _NUMBER))
    with f.when(f.equal("i64", kind, ROUNDED)):
        number = f.load("double", f.beyond(thing, _NUMBER))
        f.store("float", f.let(f"fptrunc double {number} to float"), "%room")
        f.give("%room")
    with f.when(f.differ("ptr", f.type_of(thing), f.state().pointer("ndarray"))):
        f.give("null")
    with f.when(f.differ("ptr", f.at(thing, DTYPE), operand.pointer("dtype"))):
        f.give("null")
    flags = f.load("i32", f.beyond(thing, FLAGS))
    with f.when(f.differ("i32", f.let(f"and i32 {flags}, {ORDERLY}"), ORDERLY)):
        f.give("null")
    f.give(f.at(thing, DATA))
    return f


def _run_loop() -> Function:
    """An array of NumPy's; or null, where NumPy shall do it: then nothing is raised."""
    f = ObjectFunction("run_loop", "ptr", "ptr %loop", "ptr %values")
    loop = f.view("%loop", Loop)
    host = _new_ndarray(f)
    with f.when(f.equal("ptr", host, "null")):
        f.do("call void @PyErr_Clear()")  # no memory: NumPy will say so
        f.give("null")
    places, rooms = f.place("ptr", _ARITY), f.place("i64", _ARITY)
    arity = loop.number("arity")
    with f.repeat(arity) as i:
        operand = f.view(loop.pointer("operands"), Operand, i)
        given = f"ptr {operand.address}, ptr %values, ptr {host}, ptr"
        data = f.let(f"call ptr @operand({given} {f.word(rooms, i)})")
        with f.when(f.equal("ptr", data, "null")):
            f.let_go(host)
            f.give("null")
        f.set_slot(places, i, data)
    zeroed = f"i8 0, i64 {loop.number('zeroed')}, i1 false"
    f.do(f"call void @llvm.memset.p0.i64(ptr {f.at(host, DATA)}, {zeroed})")
    inner = f"ptr {loop.pointer('inner')}, ptr {loop.pointer('data')}"
    call = f"ptr {places}, ptr {loop.at('elements')}, {inner}"

    def move(field: str) -> None:
        with f.repeat(arity) as i:
            stride = f.load("i64", f.word(loop.pointer(field), i))
            f.set_slot(places, i, f.beyond(f.slot(places, i), stride))

    with f.repeat(loop.number("outer")):
        with f.repeat(loop.number("times")):
            f.do(f"call void {loop.pointer('function')}({call})")
            move("next")
        move("over")
    raised = f.let("call ptr @PyErr_Occurred()")  # as of integers' negative powers
    with f.when(f.differ("ptr", raised, "null")):
        f.let_go(host)
        f.do("call void @PyErr_Clear()")
        f.give("null")
    f.give(host)
    return f


def _new_ndarray(f: ObjectFunction) -> str:
    """An array of NumPy's of a loop's dtype and sizes; null without memory."""
    loop, state = f.view("%loop", Loop), f.state()
    dtype = loop.pointer("dtype")
    f.do(f"call void @Py_IncRef(ptr {dtype})")  # the array takes it over
    ndim = f.let(f"trunc i64 {loop.number('ndim')} to i32")
    operands = (
        f"ptr {state.pointer('ndarray')}, ptr {dtype}, i32 {ndim}, "
        f"ptr {loop.pointer('sizes')}, ptr null, ptr null, i32 0, ptr null"
    )
    return f.let(f"call ptr {state.pointer('new_ndarray')}({operands})")


# Which steps are loops.


#: `PyArray_NewFromDescr` and the version in the table of NumPy's C functions, and the
#: version of which that is known.
_NEW, _VERSION, _KNOWN = 94, 0, 0x02000000


def new_ndarray() -> int:
    """The address of what makes an array of NumPy's; 0 where it is not known."""
    core: Any = getattr(np, "_core", None)
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
    return table[_NEW] or 0 if version == _KNOWN else 0


class _Ufunc(ctypes.Structure):
    """The beginning of `PyUFuncObject`."""

    _fields_ = (
        ("head", ctypes.c_ssize_t * 2),
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
    )


@memo(1024)
def inner_loop(ufunc: Any, types: str) -> tuple[int, int] | None:
    """The loop of a ufunc for such types, as `ufunc.types` has them, and its data.

    None where there is none, or where it does not do what the ufunc does.
    """
    known: list[str] = list(ufunc.types)
    if types not in known or ufunc.nout != 1 or ufunc.nargs > _ARITY:
        return None
    if not new_ndarray():
        return None
    seen = _Ufunc.from_address(id(ufunc))
    if (seen.nin, seen.nargs, seen.ntypes) != (ufunc.nin, ufunc.nargs, ufunc.ntypes):
        return None
    place = known.index(types)
    function, data = seen.functions[place] or 0, seen.data[place] or 0
    works = function and _does_the_same(ufunc, types, function, data)
    return (function, data) if works else None


def _does_the_same(ufunc: Any, types: str, function: int, data: int) -> bool:
    count = 19
    given = [np.linspace(-1.5, 7, count).astype(t) for t in types.partition("->")[0]]
    try:
        with np.errstate(all="ignore"):
            expected: Any = ufunc(*given)
    except ValueError:  # of some numbers there is no such result
        return False
    found = np.zeros_like(expected)
    arrays: list[Any] = [*given, found]
    places = (ctypes.c_void_p * len(arrays))(*[x.ctypes.data for x in arrays])
    steps = (ctypes.c_ssize_t * len(arrays))(*[x.itemsize for x in arrays])
    sizes = (ctypes.c_ssize_t * 1)(count)
    run = ctypes.PYFUNCTYPE(None, *[ctypes.c_void_p] * 4)(function)
    run(places, sizes, steps, data or None)
    return found.dtype.char == types[-1] and found.tobytes() == expected.tobytes()


class Place:
    """Where the value of that number comes."""

    def __init__(self, number: int) -> None:
        self.number = number


#: Operations that leave every element what it is, at its place in row-major order.
_SAME = frozenset(("reshape", "copy", "stop_gradient"))


class Call:
    """A step with places for values.

    Attributes:
      dtype, shape: of an array that it makes; None where it makes something else, or
        the shape is not known.
      op, arg: the primitive that it is, if it is one.
    """

    def __init__(
        self,
        function: Any,
        operands: Sequence[Any],
        dtype: Any,
        shape: tuple[int, ...] | None = None,
        op: Any = None,
        arg: Any = None,
    ) -> None:
        self.function = function
        self.operands = operands
        self.dtype = dtype
        self.shape = shape
        self.op = op
        self.arg = arg

    @property
    def is_same(self) -> bool:
        """Is every element of the result that of the operand, in row-major order?"""
        return self.op is not None and self.op.name in _SAME

    @property
    def rounds(self) -> bool:
        """Does it only give a number a dtype?"""
        return isinstance(self.function, type) and self.dtype is None


class Read(NamedTuple):
    """An operand of a loop: the value of that number, or a constant, or the result.

    Attributes:
      shape: as it is seen by the loop.
    """

    kind: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    number: int = 0
    constant: Any = None


class Plan:
    """A step as a loop.

    Attributes:
      numbers: of the values that it reads.
    """

    def __init__(
        self,
        call: Call,
        code: tuple[int, int],
        reads: Sequence[Read],
        axes: Sequence[tuple[int, Sequence[int]]],
        zeroed: int = 0,
    ) -> None:
        self.numbers = [x.number for x in reads if x.kind in _READ]
        self._reads = reads
        self._call = call
        self._code = code
        self._axes = [(1, [0] * len(reads))] * (_DEPTH - len(axes)) + list(axes)
        self._zeroed = zeroed

    def lay(self, block: Block, numbers: Mapping[int, int], kept: list[Any]) -> Address:
        """The `Loop` in memory.

        Args:
          numbers: the new numbers of values.
          kept: what has to stay is put here.
        """
        shape, dtype = self._call.shape or (), np.dtype(self._call.dtype)
        (outer, over), (times, following), (count, inner) = self._axes
        over = [far - times * near for far, near in zip(over, following, strict=True)]
        rows = [
            Operand(
                read.kind,
                numbers[read.number] if read.kind in _READ else 0,
                0 if read.constant is None else read.constant.ctypes.data,
                id(read.dtype),
            )
            for read in self._reads
        ]
        kept += [dtype, self._reads]
        return block.add(
            *Loop(
                *self._code,
                outer, times, count,
                block.add(*inner), block.add(*following), block.add(*over),
                *block.rows(rows),
                self._zeroed, id(dtype), len(shape), block.add(*shape or (0,)),
            )
        )  # fmt: skip


def _source_of(x: Place, calls: Sequence[Call], leaves: int) -> Place:
    """The value whose elements these are, in the same order."""
    while x.number >= leaves and calls[x.number - leaves].is_same:
        source = calls[x.number - leaves].operands[0]
        if type(source) is not Place:
            break
        x = source
    return x


def plan(number: int, calls: Sequence[Call], given: Sequence[Any]) -> Plan | None:
    """A step as a loop; None if it is none.

    Args:
      number: of the step.
      calls: all steps.
      given: the arguments that they are done with, the first values.
    """
    call = calls[number]
    shape = call.shape
    if shape is None or call.dtype is None:
        return None
    if call.op is reduce_sum_p:
        return _sum_plan(call, calls, given)
    ufunc = call.function
    if not isinstance(ufunc, np.ufunc) or not 0 < math.prod(shape) <= MOST:
        return None
    reads = [_read(x, calls, given) for x in call.operands]
    if any(read is None for read in reads) or len(reads) != ufunc.nin:
        return None
    known = [read for read in reads if read is not None]
    result = Read(RESULT, np.dtype(call.dtype), shape)
    types = "".join(x.dtype.char for x in known) + "->" + result.dtype.char
    code = inner_loop(ufunc, types)
    axes = _axes([*known, result], shape)
    depth = _DEPTH if call.op is not None and call.op.name in _ALONE else 1
    if code is None or len(axes) > depth:
        return None
    return Plan(call, code, [*known, result], axes)


#: Primitives that make the same of an element wherever it stands.
_ALONE = frozenset(("add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge"))


def _sum_plan(call: Call, calls: Sequence[Call], given: Sequence[Any]) -> Plan | None:
    """Sums as NumPy does them: of neighbours each for itself, else row after row."""
    array, dtype = call.operands[0], np.dtype(call.dtype)
    read = _read(array, calls, given, exactly=True)
    add: Any = np.add
    if read is None or read.dtype != dtype or call.function != add.reduce:
        return None
    if call.operands[2] != dtype or not 0 < math.prod(read.shape) <= MOST:
        return None
    seen = _seen_along(read.shape, call.arg)
    code = inner_loop(add, f"{dtype.char}{dtype.char}->{dtype.char}")
    if seen is None or code is None:
        return None
    outer, terms, inner = seen
    total = Read(RESULT, dtype, call.shape or ())
    item = dtype.itemsize
    row = item * inner
    far = outer, [row, row * terms, row]
    if inner == 1:
        axes = [far, (terms, [0, item, 0])]
    else:
        axes = [far, (terms, [0, row, 0]), (inner, [item, item, item])]
    return Plan(call, code, [total, read, total], axes, row * outer)


def _seen_along(
    shape: tuple[int, ...], axes: tuple[int, ...]
) -> tuple[int, int, int] | None:
    """A row-major array as x[outer, terms, inner]; None where axes are apart."""
    sides = [(n, a in axes) for a, n in enumerate(shape) if n != 1]
    merged = [
        (math.prod(n for n, _ in group), is_added)
        for is_added, group in groupby(sides, key=lambda side: side[1])
    ]
    places = [i for i, (_, is_added) in enumerate(merged) if is_added]
    if len(places) != 1:
        return None
    (place,) = places
    before, after = merged[:place], merged[place + 1 :]
    sizes = [math.prod(n for n, _ in side) for side in (before, after)]
    return sizes[0], merged[place][0], sizes[1]


def _read(
    x: Any, calls: Sequence[Call], given: Sequence[Any], exactly: bool = False
) -> Read | None:
    """An operand; None where it is no array or number of a known dtype.

    Args:
      exactly: not what only has its elements.
    """
    if type(x) is not Place:
        if not isinstance(x, (np.ndarray, np.generic)):
            return None
        constant = cast(Any, x)
        array: Any = np.ascontiguousarray(constant)
        return Read(CONSTANT, array.dtype, constant.shape, constant=array)
    leaves = len(given)
    shape = _shape_of(x.number, calls, given)
    source = x if exactly else _source_of(x, calls, leaves)
    if source.number >= leaves:
        call = calls[source.number - leaves]
        if call.rounds:
            return _read_number(call, given)
        dtype = call.dtype
    else:
        dtype = getattr(given[source.number], "dtype", None)
    if dtype is None or shape is None:
        return None
    return Read(VALUE, np.dtype(dtype), shape, source.number)


def _read_number(call: Call, given: Sequence[Any]) -> Read | None:
    """A number among the arguments, in the dtype in which it is used."""
    (place,) = call.operands
    if type(place) is not Place or place.number >= len(given):
        return None
    number, dtype = given[place.number], np.dtype(call.function)
    if type(number) is call.function or (type(number), dtype.char) == (float, "d"):
        return Read(NUMBER, dtype, (), place.number)
    if (type(number), dtype.char) == (float, "f"):
        return Read(ROUNDED, dtype, (), place.number)
    return None


def _shape_of(number: int, calls: Sequence[Call], given: Sequence[Any]) -> Any:
    if number < len(given):
        return getattr(given[number], "shape", None)
    return calls[number - len(given)].shape


def _axes(
    reads: Sequence[Read], shape: tuple[int, ...]
) -> list[tuple[int, Sequence[int]]]:
    """The axes of operands that are broadcast, outermost first: size and strides."""
    strides = [_strides(read, shape) for read in reads]
    axes: list[tuple[int, Sequence[int]]] = []
    for size, steps in zip(shape, zip(*strides, strict=True), strict=True):
        if size == 1:
            continue
        if axes and all(f == s * size for f, s in zip(axes[-1][1], steps, strict=True)):
            axes[-1] = axes[-1][0] * size, steps
        else:
            axes.append((size, steps))
    return axes


def _strides(read: Read, shape: tuple[int, ...]) -> list[int]:
    """Bytes from one element to the next, along all axes of the result."""
    found: list[int] = []
    step = read.dtype.itemsize
    for size in reversed(read.shape):
        found.insert(0, step if size != 1 else 0)
        step *= size
    return [0] * (len(shape) - len(found)) + found

"""Steps that only look at an array in another way, without a call of NumPy.

Reshapes, slices at known places, transposes and repeated axes of a row-major array are
views whose place, shape and strides are known beforehand: they are looked up once, at
an array of the same shape.

    view_of   the `View` that a step is, if it is one
    viewed    the array of a `View`
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Sequence
from functools import partial
from typing import Any
from typing import cast as cast_to

import numpy as np

from ftrace.devices.llvm.calling.looping import NEW, Call, Known, Place, numpy_function
from ftrace.devices.llvm.calling.objects import ObjectFunction
from ftrace.devices.llvm.calling.probe import DATA, FLAGS
from ftrace.devices.llvm.runner.records import Block, Word
from ftrace.records import NamedTuple
from ftrace.trace.eager import is_by_place
from ftrace.trace.primitives.broadcast import expand_p
from ftrace.trace.primitives.movement import (
    permute_p,
    reshape_p,
    shrink_p,
    stride_p,
)
from ftrace.trace.room import FEW

#: `PyArray_SetBaseObject` in the table of NumPy's C functions.
_SET_BASE = 282
_WRITEABLE = 0x400
_METHODS = tuple(vars(np.ndarray)[name] for name in ("reshape", "transpose"))
_MEANINGS = tuple(
    op.numpy for op in (expand_p, permute_p, reshape_p, shrink_p, stride_p)
)


class View(NamedTuple):
    """A view of a row-major array.

    Attributes:
      number: of the value that is looked at.
      dtype: of NumPy, of it and of the view.
      offset: bytes from its first element.
      ndim, sizes, strides: of the view; strides in bytes.
      flags: whether it may be written to.
      copied: bytes of an element that is no view of its array but a copy, as NumPy's
        numbers are: it keeps no other one in memory; else 0.
    """

    number: Word
    dtype: Word
    offset: Word
    ndim: Word
    sizes: Word
    strides: Word
    flags: Word
    copied: Word = 0


def set_base() -> int:
    """The address of what makes an array keep another one; 0 if it does not work."""
    address, new = numpy_function(_SET_BASE), numpy_function(NEW)
    if not address or not new:
        return 0
    owner = np.arange(6.0)
    dtype = np.dtype(np.float64)
    make = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.py_object, ctypes.py_object, ctypes.c_int,
        *[ctypes.c_void_p] * 3, ctypes.c_int, ctypes.c_void_p,
    )(new)  # fmt: skip
    numbers = (ctypes.c_int64 * 2)(2, 16)
    start = ctypes.addressof(numbers)
    for taken in (dtype, owner):  # the one keeps the dtype, the other its base
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(taken))
    view = make(np.ndarray, dtype, 1, start, start + 8, owner.ctypes.data + 8, 0, None)
    keep = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.py_object)(address)
    status = keep(view, owner)
    works = status == 0 and view.base is owner and view.tolist() == [1.0, 3.0]
    return address if works and not view.flags.writeable else 0


def view_of(step: Call, known: Sequence[Known], block: Block) -> tuple[Any, Any]:
    """The `View` that a step is and what it refers to; 0 if it is none."""
    found = _place_of(step)
    if found is None or step.dtype is None:
        return 0, ()
    source = known[found]
    if source.dtype is None or source.shape is None or source.dtype != step.dtype:
        return 0, ()
    template: Any = np.zeros(source.shape, source.dtype)
    if not 0 < template.size < FEW:
        return 0, ()
    view: Any = step.function(template, *step.operands[1:])
    copied = isinstance(view, np.generic)
    if copied:  # an element
        (index,) = step.operands[1:]
        parts = cast_to(Any, index) if type(index) is tuple else (index,)
        view = template[(*parts, ...)]
    if type(view) is not np.ndarray or view.dtype != template.dtype or not view.size:
        return 0, ()
    if not np.may_share_memory(view, template):
        return 0, ()
    sizes, strides = block.add(*view.shape or (0,)), block.add(*view.strides or (0,))
    row = View(
        found, id(source.dtype), view.ctypes.data - template.ctypes.data, view.ndim,
        sizes, strides, _WRITEABLE if view.flags.writeable else 0,
        view.itemsize if copied else 0,
    )  # fmt: skip
    return block.add(*row), [source.dtype]


def _place_of(step: Call) -> int | None:
    """The number of the only value that is looked at; None if the step does more."""
    if not step.operands or type(step.operands[0]) is not Place:
        return None
    if any(type(x) is Place for x in step.operands[1:]):
        return None
    function: Any = step.function
    if isinstance(function, partial):
        function = function.func
        if not any(function is meaning for meaning in _MEANINGS):
            return None
    elif function is operator.getitem:
        if not _is_fixed(step.operands[1]):
            return None
    elif not any(function is method for method in _METHODS):
        return None
    return step.operands[0].number


def _is_fixed(index: Any) -> bool:
    """Is an index one of a view?"""
    return is_by_place(index) or type(index) is slice


def viewed_ir(immortal: bool) -> str:
    """The function that makes views."""
    f = ObjectFunction("viewed", "ptr", "ptr %view", "ptr %values", immortal=immortal)
    view, state = f.view("%view", View), f.state()
    thing = f.slot("%values", view.number("number"))
    dtype = view.pointer("dtype")
    data = f.let(f"call ptr @host_data(ptr {thing}, ptr {dtype})")
    with f.when(f.equal("ptr", data, "null")):
        f.give("null")
    flags = f.load("i32", f.beyond(thing, FLAGS))
    allowed = f.let(f"trunc i64 {view.number('flags')} to i32")
    writeable = f.let(f"and i32 {flags}, {allowed}")
    f.hold(dtype)  # the array takes it over
    begin = f.beyond(data, view.number("offset"))
    copied = view.number("copied")
    with f.when(f.differ("i64", copied, 0)):
        operands = (
            f"ptr {state.pointer('ndarray')}, ptr {dtype}, i32 0, ptr null, ptr null, "
            "ptr null, i32 0, ptr null"
        )
        made = f.let(f"call ptr {state.pointer('new_ndarray')}({operands})")
        with f.when(f.equal("ptr", made, "null")):
            f.do("call void @PyErr_Clear()")
            f.give("null")
        target = f.at(made, DATA)
        for size, kind in ((1, "i8"), (4, "i32"), (8, "i64")):
            with f.when(f.equal("i64", copied, size)):
                f.store(kind, f.load(kind, begin), target)
                f.give(made)
        f.copy(target, begin, copied)
        f.give(made)
    ndim = f.let(f"trunc i64 {view.number('ndim')} to i32")
    operands = (
        f"ptr {state.pointer('ndarray')}, ptr {dtype}, i32 {ndim}, "
        f"ptr {view.pointer('sizes')}, ptr {view.pointer('strides')}, ptr {begin}, "
        f"i32 {writeable}, ptr null"
    )
    made = f.let(f"call ptr {state.pointer('new_ndarray')}({operands})")
    with f.when(f.equal("ptr", made, "null")):
        f.do("call void @PyErr_Clear()")
        f.give("null")
    f.hold(thing)  # it takes that over as well
    pair = f"ptr {made}, ptr {thing}"
    status = f.let(f"call i32 {state.pointer('set_base')}({pair})")
    with f.when(f.differ("i32", status, 0)):
        f.let_go(made)
        f.do("call void @PyErr_Clear()")
        f.give("null")
    f.give(made)
    return f.text

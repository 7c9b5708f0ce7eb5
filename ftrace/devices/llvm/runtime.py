"""The native runner: a whole program is one call.

    run(program, objects, threads)

`program` is a table that stays as it is after compilation; `objects` are this call's
arrays, as Python objects: the runner reads each one's data pointer itself, which costs
a nanosecond where Python needs half a microsecond.

    program   = steps: i64, first step: ptr, most buffers of a step: i64
    step      = kernel: ptr, first reference: ptr, references, units, grain: i64
    reference = object: i64, offset in bytes: i64
    kernel    = void (buffers: ptr to ptrs, begin: i64, end: i64)
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from string import Template
from typing import Any

import numpy as np

from ftrace.devices.llvm.compile import emit_object, link
from ftrace.devices.llvm.pool import pool_ir

#: Copies of less are not worth a second thread.
COPY_GRAIN = 1 << 18

_STEP_BYTES = 5 * 8
_REFERENCE_BYTES = 2 * 8

_RUN = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define void @run(ptr %program, ptr %objects, i64 %threads) {
entry:
  %steps = load i64, ptr %program
  %first_at = getelementptr i8, ptr %program, i64 8
  %first = load ptr, ptr %first_at
  %most_at = getelementptr i8, ptr %program, i64 16
  %most = load i64, ptr %most_at
  %buffers = alloca ptr, i64 %most, align 64
  br label %next
next:
  %number = phi i64 [ 0, %entry ], [ %following, %ran ]
  %more = icmp ult i64 %number, %steps
  br i1 %more, label %step, label %out
step:
  %at = getelementptr [5 x i64], ptr %first, i64 %number
  %kernel = load ptr, ptr %at
  %references_at = getelementptr i8, ptr %at, i64 8
  %references = load ptr, ptr %references_at
  %count_at = getelementptr i8, ptr %at, i64 16
  %count = load i64, ptr %count_at
  %units_at = getelementptr i8, ptr %at, i64 24
  %units = load i64, ptr %units_at
  %grain_at = getelementptr i8, ptr %at, i64 32
  %grain = load i64, ptr %grain_at
  br label %look
look:
  %position = phi i64 [ 0, %step ], [ %after, %resolve ]
  %left = icmp ult i64 %position, %count
  br i1 %left, label %resolve, label %go
resolve:
  %reference = getelementptr [2 x i64], ptr %references, i64 %position
  %index = load i64, ptr %reference
  %offset_at = getelementptr i8, ptr %reference, i64 8
  %offset = load i64, ptr %offset_at
  %object_at = getelementptr ptr, ptr %objects, i64 %index
  %object = load ptr, ptr %object_at
  %data_at = getelementptr i8, ptr %object, i64 $data
  %data = load ptr, ptr %data_at
  %pointer = getelementptr i8, ptr %data, i64 %offset
  %target = getelementptr ptr, ptr %buffers, i64 %position
  store ptr %pointer, ptr %target
  %after = add i64 %position, 1
  br label %look
go:
  call void @parallel(ptr %kernel, ptr %buffers, i64 %units, i64 %grain, i64 %threads)
  br label %ran
ran:
  %following = add i64 %number, 1
  br label %next
out:
  ret void
}

define void @copy(ptr %buffers, i64 %begin, i64 %end) {
  %source = load ptr, ptr %buffers
  %target_at = getelementptr ptr, ptr %buffers, i64 1
  %target = load ptr, ptr %target_at
  %from = getelementptr i8, ptr %source, i64 %begin
  %to = getelementptr i8, ptr %target, i64 %begin
  %bytes = sub i64 %end, %begin
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  ret void
}
"""


@dataclass(frozen=True)
class NativeStep:
    """One call of a kernel.

    Attributes:
      kernel: its address.
      references: for each of its buffers (number of the object, offset in bytes).
      units: it is called on pieces of [0, units).
      grain: the least number of units that are worth a thread's while.
    """

    kernel: int
    references: tuple[tuple[int, int], ...]
    units: int
    grain: int


class Table:
    """A program's table in memory, and the tables of its steps one by one.

    Attributes:
      address: what `run` takes.
    """

    def __init__(self, steps: Sequence[NativeStep]) -> None:
        references = [pair for step in steps for pair in step.references]
        self._references = np.zeros((len(references), 2), np.int64)
        if references:
            self._references[:] = references
        at: int = self._references.ctypes.data
        rows: list[tuple[int, ...]] = []
        for step in steps:
            count = len(step.references)
            rows.append((step.kernel, at, count, step.units, step.grain))
            at += count * _REFERENCE_BYTES
        self._steps = np.zeros((len(steps), 5), np.int64)
        if rows:
            self._steps[:] = rows
        self._most = max((len(step.references) for step in steps), default=0)
        self._header = self._make_header(0, len(steps))
        self.address: int = self._header.ctypes.data

    def _make_header(self, start: int, count: int) -> np.ndarray[Any, Any]:
        first = self._steps.ctypes.data + start * _STEP_BYTES
        return np.array([count, first, self._most], np.int64)

    def only(self, step: int) -> np.ndarray[Any, Any]:
        """A table that runs this step alone; for profiles."""
        return self._make_header(step, 1)


class Runtime:
    """The compiled runner of this process.

    Attributes:
      run: `run(table address, packed objects, threads)`, without the GIL.
      run_briefly: the same with the GIL held: releasing it for less than a
        microsecond costs more than it gives.
      parallel: `parallel(kernel, pointers, units, grain, threads)`; for tests.
      reset: forgets the workers; a forked child has none of them.
      workers: how many threads were started.
      copy: the address of the kernel that copies bytes.
    """

    def __init__(self) -> None:
        head = object.__basicsize__
        probe = np.zeros(1)
        # The data pointer stands first in NumPy's array, after the object's head: part
        # of NumPy's C interface since its beginning.
        assert ctypes.c_size_t.from_address(id(probe) + head).value == probe.ctypes.data
        text = pool_ir() + Template(_RUN).substitute(data=head)
        names = ("run", "copy", "parallel", "pool_reset", "pool_workers")
        self._code = link(emit_object(text), names)
        address = self._code.address

        def function(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
            return ctypes.CFUNCTYPE(result, *arguments)(address(name))

        run = (None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64)
        i64, pointer = ctypes.c_int64, ctypes.c_void_p
        self.run = ctypes.CFUNCTYPE(*run)(address("run"))
        self.run_briefly = ctypes.PYFUNCTYPE(*run)(address("run"))
        self.parallel = function("parallel", None, pointer, pointer, i64, i64, i64)
        self.reset = function("pool_reset", None)
        self.workers = function("pool_workers", i64)
        self.copy: int = address("copy")
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_anew)

    def _begin_anew(self) -> None:  # as a method it keeps the code in memory
        self.reset()


@lru_cache(maxsize=1)
def runtime() -> Runtime:
    """The runner; compiled at the first call."""
    return Runtime()

"""The text of all native code of calls, which is seldom made: it is kept on disk."""

from __future__ import annotations

from collections.abc import Sequence

from ftrace.devices.llvm.call.cpython.buffer_objects import arrays_ir, memory_ir
from ftrace.devices.llvm.call.cpython.object_ir import objects_ir
from ftrace.devices.llvm.call.cpython.object_layout import Offsets
from ftrace.devices.llvm.call.eager.lookup import lookup_ir
from ftrace.devices.llvm.call.eager.ufunc_loops import ufunc_loops_ir
from ftrace.devices.llvm.call.jit.build_results import results_ir
from ftrace.devices.llvm.call.jit.entry import entry_ir
from ftrace.devices.llvm.call.jit.match_arguments import arguments_ir


def native_ir(
    places: Offsets, immortal: bool, methods: Sequence[str], operators: Sequence[str]
) -> str:
    """The text of all of it, for an interpreter's layout.

    Args:
      places: of the slots of Arrays and buffers.
      immortal: the interpreter has objects whose references are not counted.
      methods, operators: names of those that native code stands before.
    """
    getitem = methods.index("__getitem__")
    return "".join((
        objects_ir(immortal),
        memory_ir(),
        arrays_ir(places, immortal),
        arguments_ir(places),
        results_ir(immortal),
        entry_ir(places, immortal),
        ufunc_loops_ir(),
        lookup_ir(places, immortal, len(methods), len(operators), getitem),
    ))  # fmt: skip

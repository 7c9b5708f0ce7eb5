"""What stands between a kernel and its code: legal operations, then the writer for it.

It needs all renderers, so that it is loaded with the first kernel that is not on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ftrace.devices.llvm.emit.called_functions import called_in
from ftrace.devices.llvm.emit.rendered import Rendered
from ftrace.devices.llvm.kernels.compile_kernels import FUNCTION
from ftrace.devices.llvm.library.fft.kernel import render_transform
from ftrace.devices.llvm.library.lapack.render import render_factor
from ftrace.devices.llvm.library.sort.kernel import render_ordering
from ftrace.devices.llvm.register_loops.render import render_recurrence
from ftrace.devices.llvm.register_loops.scan_kernel import render_running
from ftrace.devices.llvm.render.select_strategy import render
from ftrace.devices.llvm.scalar.ops import operations_of
from ftrace.devices.llvm.target import Target
from ftrace.lower.kernel.ir import Kernel
from ftrace.lower.legalize.legalize import legalize
from ftrace.lower.library.fft_kernels import Transform
from ftrace.lower.library.lapack_kernels import Factor
from ftrace.lower.library.scan_kernels import Running
from ftrace.lower.library.sort_kernels import Ordering
from ftrace.lower.register_loops.register_loop import (
    Recurrence,
    RegisterKernel,
    legalize_registers,
)

#: What writes kernels of a kind.
_WRITERS: dict[type[Kernel], Callable[[Any, Target, str], Rendered]] = {
    Kernel: render,
    Recurrence: render_recurrence,
    Running: render_running,
    Factor: render_factor,
    Transform: render_transform,
    Ordering: render_ordering,
}


def rendered(kernel: Kernel, target: Target) -> Rendered:
    """The code of a kernel in operations that a processor has."""
    write = _WRITERS[type(kernel)]
    if isinstance(kernel, RegisterKernel):
        kernel = legalize_registers(kernel, operations_of(target))
    elif write is render:
        kernel = legalize(kernel, operations_of(target) | called_in(kernel))
    return write(kernel, target, FUNCTION)

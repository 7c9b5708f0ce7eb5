"""What stands between a kernel and its code: legal operations, then the writer for it.

It needs all renderers, so that it is loaded with the first kernel that is not on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ftrace.devices.llvm.compiling.kernels import FUNCTION
from ftrace.devices.llvm.fourier.kernel import render_transform
from ftrace.devices.llvm.ir.formulas import called_in
from ftrace.devices.llvm.ir.scalar import operations_of
from ftrace.devices.llvm.lapack.factorise import render_factor
from ftrace.devices.llvm.loops.rendered import Rendered
from ftrace.devices.llvm.ordering.kernel import render_ordering
from ftrace.devices.llvm.recurrences.recurrence import render_recurrence
from ftrace.devices.llvm.recurrences.running import render_running
from ftrace.devices.llvm.render import render
from ftrace.devices.llvm.target import Target
from ftrace.lower.fft_kernels import Transform
from ftrace.lower.kernel import Kernel
from ftrace.lower.lapack_kernels import Factor
from ftrace.lower.legalize import legalize
from ftrace.lower.ordering import Ordering
from ftrace.lower.recurrence import Recurrence, RegisterKernel, legalize_registers
from ftrace.lower.scan_kernels import Running

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

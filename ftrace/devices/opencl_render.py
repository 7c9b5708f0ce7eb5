"""Kernels as OpenCL C."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from ftrace import dtypes
from ftrace.devices.opencl_contract import find_contraction, write_contraction
from ftrace.devices.opencl_helpers import helper_source
from ftrace.devices.opencl_launch import Traits
from ftrace.devices.opencl_loops import write_loops
from ftrace.devices.opencl_types import C_TYPES
from ftrace.devices.opencl_writer import Writer
from ftrace.errors import DeviceError
from ftrace.lower.kernel import Kernel
from ftrace.records import dataclass


@dataclass(frozen=True)
class Rendered:
    """The source of a kernel and how it is launched.

    Attributes:
      name: of the C function: made of a hash of its text.
      function: its text.
      helpers: names of the functions that it calls.
      global_size, local_size: work-items in all, and in a group; None leaves the
        groups to the driver.
      dims: sizes that are known at calls only, which the function takes as the
        elements of its last parameter. `global_size` may hold such sizes, too.
    """

    name: str
    function: str
    helpers: frozenset[str]
    global_size: tuple[Any, ...]
    local_size: tuple[int, ...] | None
    dims: tuple[Any, ...] = ()


def program_source(kernels: Sequence[Rendered], traits: Traits) -> str:
    """One source text with several kernels and the helpers of all of them."""
    helpers = sorted({name for kernel in kernels for name in kernel.helpers})
    functions = [helper_source(name, traits.clang) for name in helpers]
    parts = ["#pragma OPENCL FP_CONTRACT OFF\n", *functions]
    return "\n".join([*parts, *dict.fromkeys(kernel.function for kernel in kernels)])


def render(kernel: Kernel, traits: Traits) -> Rendered:
    """The OpenCL C of a kernel.

    Args:
      kernel: legalised: it holds operations of `opencl_scalars.SUPPORTED` only.
      traits: of the device.

    Raises:
      DeviceError: the kernel computes in float64 and the device does not.
    """
    if not traits.doubles and any(n.dtype == dtypes.float64 for n in kernel.nodes):
        raise DeviceError(
            "this OpenCL device has no float64 (cl_khr_fp64); convert the arrays with "
            ".astype('float32')"
        )
    writer = Writer(kernel, traits)
    contraction = find_contraction(kernel, writer.block, writer.forms, traits)
    if contraction is not None:
        sizes = write_contraction(writer, contraction)
    else:
        sizes = write_loops(writer)
    return _finish(writer, *sizes)


def _finish(
    writer: Writer, global_size: tuple[Any, ...], local_size: tuple[int, ...] | None
) -> Rendered:
    listed = [
        f"__global {'' if spec.written else 'const '}{C_TYPES[spec.dtype]} *b{number}"
        for number, spec in enumerate(writer.kernel.buffers)
    ]
    if writer.dims:
        listed.append("__global const long *dims")
    parameters = ", ".join(listed)
    local = [f"  {declaration}" for declaration in writer.local]
    body = "\n".join([*local, *writer.head(), *writer.lines])
    text = f"({parameters}) {{\n{body}\n}}\n"
    digest = hashlib.sha256(f"{text}{global_size}{local_size}".encode()).hexdigest()
    name = f"k{digest[:12]}"
    return Rendered(
        name,
        f"__kernel void {name}{text}",
        frozenset(writer.used),
        global_size,
        local_size,
        tuple(writer.dims),
    )

"""GPUs, and whatever else has an OpenCL driver; PoCL runs it on the CPU.

    pip install "ftrace[opencl]"      pyopencl, and PoCL where PyPI has it

A device is one context and one queue that runs commands in order. Because of that
order memory may be given back, and given out again, while commands that use it are
still waiting. Calls return at once; `copy_out` and `synchronize` wait.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ftrace.buffer import Buffer, LRUAllocator
from ftrace.devices.base import Device, Executable, timed
from ftrace.devices.opencl_launch import Traits
from ftrace.devices.opencl_render import Rendered, program_source, render
from ftrace.devices.opencl_scalars import SUPPORTED
from ftrace.devices.pocl import name_processor
from ftrace.errors import DeviceError, MissingExtraError, OutOfMemoryError
from ftrace.lower.kernel import Kernel
from ftrace.lower.legalize import legalize
from ftrace.lower.program import CopySlot, Program

Array = Any  # of NumPy, whose stubs leave too much unknown

#: Smaller arrays are copied on the host first, so that the caller need not wait.
_QUEUED_COPY = 1 << 20

_INSTALL = (
    'pip install "ftrace[opencl]" installs pyopencl and, on Linux, PoCL, which runs '
    "OpenCL on the CPU"
)


def _pyopencl() -> Any:
    try:
        import pyopencl
    except ImportError as error:
        raise MissingExtraError(
            f"the device 'opencl' needs pyopencl, which is missing: {_INSTALL}"
        ) from error
    return pyopencl


def _choose_device(cl: Any) -> Any:
    """The first GPU, else the first accelerator, else the first device."""
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:
        raise DeviceError(f"there is no OpenCL driver ({error}): {_INSTALL}") from error
    devices: list[Any] = []
    for platform in platforms:
        try:
            devices += platform.get_devices()
        except cl.Error:
            continue  # a driver without a device
    devices = [d for d in devices if d.available and d.compiler_available]
    if not devices:
        raise DeviceError(f"no OpenCL driver has a device: {_INSTALL}")
    kinds = (cl.device_type.GPU, cl.device_type.ACCELERATOR)
    return min(devices, key=lambda d: [not d.type & kind for kind in kinds])


def _traits(cl: Any, device: Any) -> Traits:
    return Traits(
        cpu=bool(device.type & cl.device_type.CPU),
        units=device.max_compute_units,
        max_group=device.max_work_group_size,
        vector=device.native_vector_width_float,
        doubles="cl_khr_fp64" in device.extensions,
        clang="PoCL" in device.version,
    )


class Memory:
    """A piece of device memory, and the parts of it that kernels have been given."""

    def __init__(self, whole: Any) -> None:
        self.whole = whole
        self.parts: dict[tuple[int, int], Any] = {}

    def part(self, first: int, nbytes: int) -> Any:
        """A buffer of OpenCL over `nbytes` bytes from byte `first` on."""
        found = self.parts.get((first, nbytes))
        if found is None:
            found = self.whole.get_sub_region(first, nbytes)
            self.parts[first, nbytes] = found
        return found


class DeviceAllocator(LRUAllocator):
    """Buffers of OpenCL, kept for reuse."""

    def __init__(self, device: OpenCL, limit: int = 1 << 30) -> None:
        super().__init__(device, limit)
        self.cl = device.cl
        self.context = device.context

    def _obtain(self, nbytes: int) -> Any:
        try:
            return Memory(
                self.cl.Buffer(self.context, self.cl.mem_flags.READ_WRITE, nbytes)
            )
        except (self.cl.MemoryError, self.cl.LogicError) as error:
            # LogicError: larger than the largest buffer that the device allows.
            raise MemoryError(str(error)) from None

    def _reusable(self, memory: Any) -> bool:
        return True


class OpenCL(Device):
    """One OpenCL device.

    Raises:
      MissingExtraError: pyopencl is not installed.
      DeviceError: there is no driver, or it has no device.
    """

    name = "opencl"
    host = False

    def __init__(self) -> None:
        super().__init__()
        cl = self.cl = _pyopencl()
        self.handle = _choose_device(cl)
        name_processor(self.handle)
        with self.errors():
            self.context = cl.Context([self.handle])
            self.queue = cl.CommandQueue(self.context, self.handle)
        self.traits = _traits(cl, self.handle)
        self.allocator = DeviceAllocator(self)
        # Each parameter is a pointer; a few bytes are left to the driver.
        self.max_buffers = min(self.handle.max_parameter_size // 8 - 4, 120)
        self.divides_memory = self.handle.mem_base_addr_align <= 8 * 128
        self.options = ["-w"]
        exact = getattr(cl.device_fp_config, "CORRECTLY_ROUNDED_DIVIDE_SQRT", 0)
        if self.handle.single_fp_config & exact:
            self.options.append("-cl-fp32-correctly-rounded-divide-sqrt")
        self._kernels: dict[Kernel, CompiledKernel] = {}
        self.lock = threading.RLock()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """A block in which errors of the driver become ours."""
        try:
            yield
        except self.cl.MemoryError as error:
            raise OutOfMemoryError(
                f"{self.name} has no memory left: {error}"
            ) from error
        except self.cl.Error as error:
            raise DeviceError(f"{self.name} failed: {error}") from error

    def copy_in(self, array: Array) -> Buffer:
        buffer = self.allocate(array.nbytes)
        if array.nbytes:
            wait = array.nbytes > _QUEUED_COPY
            host = np.ascontiguousarray(array) if wait else np.array(array, order="C")
            target = buffer.memory.whole
            self._with_memory(
                self.cl.enqueue_copy, self.queue, target, _raw(host), is_blocking=wait
            )
        return buffer

    def copy_out(self, buffer: Buffer, dtype: np.dtype[Any], size: int) -> Array:
        result = np.empty(size, dtype)
        if result.nbytes:
            source = buffer.memory.whole
            self._with_memory(
                self.cl.enqueue_copy, self.queue, _raw(result), source, is_blocking=True
            )
        return result

    def synchronize(self) -> None:
        with self.errors():
            self.queue.finish()

    def _with_memory(self, call: Any, *args: Any, **options: Any) -> None:
        """Calls the driver; where memory ran out, again without what is kept."""
        try:
            call(*args, **options)
        except self.cl.MemoryError:
            with self.errors():
                self.queue.finish()
                self.allocator.trim()
                call(*args, **options)
        except self.cl.Error as error:
            raise DeviceError(f"{self.name} failed: {error}") from error

    # Programs.

    def compile(self, program: Program) -> Executable:
        with self.lock, timed(self.counters, "compile_seconds"):
            kernels = list(dict.fromkeys(step.kernel for step in program.kernels))
            missing = [k for k in kernels if k not in self._kernels]
            self._build(missing)
            self.counters.kernels_compiled += len(missing)
            self.counters.kernels_cached += len(program.kernels) - len(missing)
        compiled = [self._kernels[step.kernel] for step in program.kernels]
        return CompiledProgram(self, program, compiled)

    def _build(self, kernels: Sequence[Kernel]) -> None:
        """Builds kernels in one go: the driver's compiler is slow to start."""
        if not kernels:
            return
        rendered = [render(legalize(k, SUPPORTED), self.traits) for k in kernels]
        source = program_source(rendered, self.traits)
        with self.errors():
            built = self.cl.Program(self.context, source).build(
                options=self.options, cache_dir=False
            )
            for kernel, text in zip(kernels, rendered, strict=True):
                function = getattr(built, text.name)
                self._kernels[kernel] = CompiledKernel(function, text)


class CompiledKernel:
    """A function of a built program, and its launch."""

    def __init__(self, function: Any, rendered: Rendered) -> None:
        self.function = function
        self.rendered = rendered
        self.global_size = rendered.global_size
        self.local_size = rendered.local_size


class CompiledProgram(Executable):
    """A program whose steps are enqueued one after the other."""

    def __init__(
        self, device: OpenCL, program: Program, kernels: Sequence[CompiledKernel]
    ) -> None:
        self.device = device
        self.program = program
        self.kernels = kernels
        self.sources = tuple(
            program_source([kernel.rendered], device.traits) for kernel in kernels
        )
        self.temporaries = [
            number for number, slot in enumerate(program.slots) if slot.place == "arena"
        ]

    def __call__(self, inputs: Sequence[Buffer]) -> list[Buffer]:
        program, device = self.program, self.device
        owners: dict[int, Buffer] = dict(zip(program.inputs, inputs, strict=True))
        for number in program.outputs:
            if number not in owners:
                owners[number] = device.allocate(program.slots[number].nbytes)
        handles = {number: buffer.memory.whole for number, buffer in owners.items()}
        held = self._place_temporaries(handles)
        with timed(device.counters, "run_seconds"), device.lock:
            self._enqueue(handles)
        del held
        return [owners[number] for number in program.outputs]

    def _place_temporaries(self, handles: dict[int, Any]) -> list[Buffer]:
        """Finds memory for the arena; the buffers must be held while steps are enqueued.

        Where the device cannot divide a buffer at our offsets, each slot is one.
        """
        device, slots = self.device, self.program.slots
        if not self.temporaries:
            return []
        if device.divides_memory:
            arena = device.allocate(self.program.arena)
            for number in self.temporaries:
                slot = slots[number]
                handles[number] = arena.memory.part(slot.position, max(slot.nbytes, 1))
            return [arena]
        held = [device.allocate(slots[number].nbytes) for number in self.temporaries]
        for number, buffer in zip(self.temporaries, held, strict=True):
            handles[number] = buffer.memory.whole
        return held

    def _enqueue(self, handles: dict[int, Any]) -> None:
        device = self.device
        counters = device.counters
        kernels = iter(self.kernels)
        for step in self.program.steps:
            if isinstance(step, CopySlot):
                self._copy(step, handles)
                continue
            kernel = next(kernels)
            if 0 not in kernel.global_size:
                arguments = [handles[number] for number in step.slots]
                device._with_memory(
                    kernel.function, device.queue, kernel.global_size,
                    kernel.local_size, *arguments,
                )  # fmt: skip
            counters.kernels_run += 1
            counters.operations += step.info.operations
            counters.bytes += step.info.bytes

    def _copy(self, step: CopySlot, handles: dict[int, Any]) -> None:
        nbytes = self.program.slots[step.source].nbytes
        if nbytes:
            device = self.device
            device._with_memory(
                device.cl.enqueue_copy, device.queue, handles[step.target],
                handles[step.source], byte_count=nbytes,
            )  # fmt: skip


def _raw(array: Array) -> Array:
    """The bytes of an array; the driver's buffers know no dtypes."""
    return array.reshape(-1).view(np.uint8)

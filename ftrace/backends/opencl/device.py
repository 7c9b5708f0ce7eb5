"""GPUs, and whatever else has an OpenCL driver; PoCL runs it on the CPU.

    pip install "ftrace[opencl]"      pyopencl, and PoCL where PyPI has it

A device is one context and one queue that runs commands in order. Because of that
order memory may be given back, and given out again, while commands that use it are
still waiting. Calls return at once; `copy_out` and `synchronize` wait.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import threading
import time
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from ftrace.backends.base import Device, Executable, executable_of, time_block
from ftrace.backends.debug_report import report_compiled
from ftrace.backends.host_executor import DrivenProgram, Driver
from ftrace.backends.opencl.render import program_source, render
from ftrace.backends.opencl.scalar_ops import SUPPORTED
from ftrace.backends.opencl.writer import Traits
from ftrace.errors import DeviceError, MissingExtraError, OutOfMemoryError
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.ground.fork_safe import fresh_after_fork
from ftrace.ground.limits import Limits
from ftrace.ground.spans import in_span
from ftrace.ground.tables import Table
from ftrace.lower.kernel.ir import Kernel
from ftrace.lower.legalize.legalize import legalize
from ftrace.lower.program import ALIGNMENT, Program, RunKernel
from ftrace.trace.arrays.buffer import LARGE_ALLOCATION, Allocator, Buffer, free_memory
from ftrace.trace.symbolic import Sizes, evaluate_shape

Array = Any  # of NumPy, whose stubs leave too much unknown

#: Built kernels that are cached for the next program that has them.
KERNELS_CACHED = 4096
#: What a built kernel weighs in the driver, roughly, beside its source.
KERNEL_BYTES = 16 << 10

#: Smaller arrays are copied on the host first, so that the caller need not wait.
QUEUED_COPY = 1 << 20

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


def _drivers_devices(cl: Any) -> list[Any]:
    """All devices of all drivers: GPUs first, then accelerators."""
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:
        raise MissingExtraError(
            f"there is no OpenCL driver ({error}): {_INSTALL}"
        ) from error
    devices: list[Any] = []
    for driver in platforms:
        try:
            devices += driver.get_devices()
        except cl.Error:
            continue  # a driver without a device
    devices = [d for d in devices if d.available and d.compiler_available]
    if not devices:
        raise MissingExtraError(f"no OpenCL driver has a device: {_INSTALL}")
    kinds = (cl.device_type.GPU, cl.device_type.ACCELERATOR)
    return sorted(devices, key=lambda d: [not d.type & kind for kind in kinds])


def device_count() -> int:
    """How many devices the drivers have."""
    return len(_drivers_devices(_pyopencl()))


class Memory:
    """A piece of device memory, and the parts of it that kernels have been given."""

    def __init__(self, whole: Any) -> None:
        self.whole = whole
        self.parts: dict[tuple[int, int], Any] = {}

    def sub_buffer(self, first: int, nbytes: int) -> Any:
        """A buffer of OpenCL over `nbytes` bytes from byte `first` on."""
        found = self.parts.get((first, nbytes))
        if found is None:
            found = self.whole.get_sub_region(first, nbytes)
            self.parts[first, nbytes] = found
        return found


class DeviceAllocator(Allocator):
    """Buffers of OpenCL, cached for reuse."""

    def __init__(self, device: OpenCL) -> None:
        super().__init__(device, 1 << 30)
        self.cl = device.cl
        self.context = device.context
        self._most = device.most_memory
        self._unasked = 0  # bytes that were taken without asking

    def _obtain(self, nbytes: int) -> Any:
        self._unasked += nbytes  # drivers take what is not there
        if self._most is not None:
            if nbytes > self._most:
                raise MemoryError
        elif self._unasked >= LARGE_ALLOCATION:
            if max(nbytes, LARGE_ALLOCATION) > free_memory():
                raise MemoryError
            self._unasked = 0
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
    """One OpenCL device: a context, and a queue that runs commands in order.

    Raises:
      MissingExtraError: pyopencl is not installed, or there is no driver, or none has a
        device.
    """

    name = "opencl"
    host = False

    def __init__(self, number: int = 0) -> None:
        super().__init__(number)
        cl = self.cl = _pyopencl()
        self.handle = _drivers_devices(cl)[number]
        self.options = _build_options(cl, self.handle)
        if processor := name_processor(self.handle):
            self.options.append(f"-Dtarget_{processor.replace('-', '_')}")
        with self.errors():
            self.context = cl.Context([self.handle])
            self.queue = cl.CommandQueue(self.context, self.handle)
        self.traits = Traits(
            units=self.handle.max_compute_units,
            max_group=self.handle.max_work_group_size,
            doubles="cl_khr_fp64" in self.handle.extensions,
        )
        own = not self.handle.type & cl.device_type.CPU
        self.most_memory: int | None = self.handle.global_mem_size if own else None
        self.allocator = DeviceAllocator(self)
        # PoCL makes a kernel's code when it first runs, in a thread of its own that
        # starts the linker with the environment of the process. Where this thread
        # changes that meanwhile (`os.environ`), the linker does not start, and PoCL
        # ends the process.
        self.finishes_code = "PoCL" in self.handle.version
        # Each parameter is a pointer; a few bytes are left to the driver.
        buffers = min(self.handle.max_parameter_size // 8 - 4, 120)
        self.limits = Limits(max_buffers=buffers)
        self.divides_memory = self.handle.mem_base_addr_align <= 8 * ALIGNMENT
        self.lock = fresh_after_fork(threading.RLock())
        self._kernels: Table[Kernel, BuiltKernel] = Table(KERNELS_CACHED)
        self._uploads: deque[Any] = deque()

    @contextmanager
    def errors(self) -> Generator[None]:
        """A block in which errors of the driver become ours."""
        try:
            yield
        except self.cl.MemoryError as error:
            raise OutOfMemoryError(
                f"{self.name} has no memory left: {error}"
            ) from error
        except self.cl.Error as error:
            raise DeviceError(f"{self.name} failed: {error}") from error

    def enqueue(self, call: Any, *args: Any, **options: Any) -> Any:
        """Calls the driver; where memory ran out, again without what is cached.

        Drivers may take memory only when a command first needs it.
        """
        try:
            return call(*args, **options)
        except self.cl.MemoryError:
            with self.errors():
                self.queue.finish()
                self.allocator.trim()
                return call(*args, **options)
        except self.cl.Error as error:
            raise DeviceError(f"{self.name} failed: {error}") from error

    def copy(self, target: Any, source: Any, **options: Any) -> Any:
        """Enqueues a copy between buffers of OpenCL, or arrays of bytes; its event."""
        copy = self.cl.enqueue_copy
        return self.enqueue(copy, self.queue, target, source, **options)

    @in_span("copy", "to opencl")
    def copy_in(self, array: Array) -> Buffer:
        buffer = self.allocate(array.nbytes)
        if array.nbytes:
            wait = array.nbytes > QUEUED_COPY
            host = np.ascontiguousarray(array) if wait else np.array(array, order="C")
            event = self.copy(buffer.memory.whole, _raw(host), is_blocking=wait)
            if not wait:
                self._keep(event)
        return buffer

    def _keep(self, event: Any) -> None:
        """Holds the event of an upload: one that is dropped waits for its end."""
        uploads = self._uploads
        uploads.append(event)
        done = self.cl.command_execution_status.COMPLETE
        while uploads and uploads[0].command_execution_status == done:
            uploads.popleft()

    def copy_out(self, buffer: Buffer, dtype: np.dtype[Any], size: int) -> Array:
        return self.download(buffer.memory.whole, dtype, size)

    @in_span("copy", "from opencl")
    def download(self, handle: Any, dtype: np.dtype[Any], size: int) -> Array:
        """The first elements of a buffer of OpenCL."""
        result = np.empty(size, dtype)
        if result.nbytes:
            self.copy(_raw(result), handle, is_blocking=True)
        return result

    def synchronize(self) -> None:
        with self.errors():
            self.queue.finish()
        self._uploads.clear()

    def clear_cache(self) -> None:
        with self.lock:
            self._kernels.clear()

    def compile(self, program: Program) -> Executable:
        steps = program.kernels
        with time_block(self.counters, "compile_seconds"), self.lock:
            kernels: dict[Kernel, BuiltKernel] = {}
            missing: dict[Kernel, RunKernel] = {}
            for step in steps:
                known = self._kernels.get(step.kernel)
                if known is None:
                    missing.setdefault(step.kernel, step)
                else:
                    kernels[step.kernel] = known
            if missing:
                kernels |= self._build(list(missing.values()))
            self.counters.kernels_compiled += len(missing)
            self.counters.kernels_cached += len(steps) - len(missing)
            built = [kernels[step.kernel] for step in steps]

        make = partial(EnqueuedProgram, self, built)
        return executable_of(make, program, partial(_texts, built))

    @in_span("codegen", "kernels for opencl")
    def _build(self, steps: Sequence[RunKernel]) -> dict[Kernel, BuiltKernel]:
        """Builds kernels in one go: the driver's compiler is slow to start."""
        start = time.perf_counter()
        rendered = [render(legalize(s.kernel, SUPPORTED), self.traits) for s in steps]
        with self.errors():
            built = self.cl.Program(self.context, program_source(rendered)).build(
                options=self.options, cache_dir=False
            )
            # Kernels that differ may be the same text once they are legalized.
            functions = {n: getattr(built, n) for n in {t.name: 0 for t in rendered}}
            found: dict[Kernel, BuiltKernel] = {}
            for step, text in zip(steps, rendered, strict=True):
                source = program_source([text])
                function = functions[text.name]
                kernel = found[step.kernel] = BuiltKernel(
                    function, text.global_size, text.local_size, source, text.dims
                )
                self._kernels.put(step.kernel, kernel, KERNEL_BYTES + len(source))
        each = (time.perf_counter() - start) / len(steps)
        for step in steps:
            report_compiled(self.name, step, each, found[step.kernel].source)
        return found


class BuiltKernel(NamedTuple):
    """A function of a built program, how it is launched, and its source.

    `dims` are the dynamic sizes that it takes in its last parameter, and `sizes` holds
    their values.
    """

    function: Any
    global_size: tuple[Any, ...]
    local_size: tuple[int, ...]
    source: str
    dims: tuple[Any, ...] = ()
    sizes: Buffer | None = None


def _texts(kernels: Sequence[BuiltKernel]) -> list[str]:
    return [kernel.source for kernel in kernels]


def _specialize(device: OpenCL, kernel: BuiltKernel, sizes: Sizes) -> BuiltKernel:
    """A kernel with its launch, and with the values of its dynamic sizes."""
    kernel = kernel._replace(global_size=evaluate_shape(kernel.global_size, sizes))
    if not kernel.dims:
        return kernel
    values = np.array(evaluate_shape(kernel.dims, sizes), np.int64)
    return kernel._replace(sizes=device.copy_in(values))


class EnqueuedProgram(DrivenProgram):
    """A program whose steps are enqueued one after the other.

    Args:
      device: where it runs.
      program: without dynamic dimensions: for certain sizes of them.
      kernels: the functions of its kernels.
      sizes: those sizes.
    """

    def __init__(
        self,
        device: OpenCL,
        kernels: Sequence[BuiltKernel],
        program: Program,
        sizes: Sizes,
    ) -> None:
        specialized = [_specialize(device, kernel, sizes) for kernel in kernels]
        found = dict(zip(program.kernels, specialized, strict=True))
        unfinished = set(program.kernels if device.finishes_code else ())
        super().__init__(device, program, _Enqueuer(device, found, unfinished))
        self.texts = partial(_texts, kernels)
        self.most_memory = device.most_memory
        self._lock = device.lock

    def memory_of(self, buffer: Buffer, nbytes: int) -> SubBuffer:
        return SubBuffer(buffer.memory.whole, buffer)

    def __call__(self, inputs: Sequence[Buffer]) -> list[Buffer]:
        with self._lock:
            return super().__call__(inputs)


class SubBuffer(NamedTuple):
    """A buffer of OpenCL, and the buffer of ours that keeps its memory.

    What was enqueued runs before anything that gets the memory next.
    """

    handle: Any
    buffer: Buffer


class _Enqueuer(Driver):
    """Memories are `SubBuffer`s; first runs of kernels in `unfinished` are awaited."""

    name = "opencl"

    def __init__(
        self,
        device: OpenCL,
        kernels: dict[RunKernel, BuiltKernel],
        unfinished: set[RunKernel],
    ) -> None:
        super().__init__()
        self.device = device
        self.counters = device.counters
        self.kernels = kernels
        self.unfinished = unfinished

    def run_kernel(self, step: RunKernel, memories: list[SubBuffer]) -> None:
        kernel, device = self.kernels[step], self.device
        if 0 not in kernel.global_size:
            handles = [memories[slot].handle for slot in step.slots]
            if kernel.sizes is not None:
                handles.append(kernel.sizes.memory.whole)
            device.enqueue(
                kernel.function, device.queue, kernel.global_size, kernel.local_size,
                *handles,
            )  # fmt: skip
            if step in self.unfinished:
                device.synchronize()
                self.unfinished.discard(step)

    def copy(
        self, source: SubBuffer, first: int, target: SubBuffer, to: int, nbytes: int
    ) -> None:
        if nbytes:
            self.device.copy(
                target.handle, source.handle,
                src_offset=first, dst_offset=to, byte_count=nbytes,
            )  # fmt: skip

    def read(self, memory: SubBuffer, dtype: np.dtype[Any], size: int) -> Array:
        return self.device.download(memory.handle, dtype, size)

    def write(self, memory: SubBuffer, array: Array) -> None:
        if array.nbytes:
            self.device.copy(memory.handle, _raw(array), is_blocking=True)

    def allocate(self, nbytes: int) -> SubBuffer:
        buffer = self.device.allocate(nbytes)
        return SubBuffer(buffer.memory.whole, buffer)

    def place_arena(self, program: Program) -> tuple[dict[int, SubBuffer], Any]:
        """Parts of one buffer; a buffer each where the device cannot divide it so."""
        numbers = program.in_arena
        if not numbers:
            return {}, None
        if not self.device.divides_memory:
            return {n: self.allocate(program.slots[n].nbytes) for n in numbers}, None
        arena = self.device.allocate(program.arena)
        found: dict[int, SubBuffer] = {}
        for number in numbers:
            slot = program.slots[number]
            handle = arena.memory.sub_buffer(slot.position, max(slot.nbytes, 1))
            found[number] = SubBuffer(handle, arena)
        return found, arena

    def synchronize(self) -> None:
        self.device.synchronize()


def _build_options(cl: Any, device: Any) -> list[str]:
    """No warnings, and division and roots rounded correctly where that exists."""
    options = ["-w"]
    exact = getattr(cl.device_fp_config, "CORRECTLY_ROUNDED_DIVIDE_SQRT", 0)
    if device.single_fp_config & exact:
        options.append("-cl-fp32-correctly-rounded-divide-sqrt")
    return options


def _raw(array: Array) -> Array:
    """The bytes of an array; the driver's buffers know no dtypes."""
    return array.reshape(-1).view(np.uint8)


# A fault of PoCL 3.0, the last one on PyPI, worked around.
#
# Its LLVM 14 does not know processors that came after it: it calls them "generic",
# which its own compiler then refuses ("unknown target CPU 'generic'", PoCL's issue
# 1049), so that no kernel can be built. No option or environment variable of that
# version names another one (`POCL_LLVM_CPU_NAME` came later). What is left is to change
# the name where the library keeps it: in the record of the device, behind the handle
# that OpenCL gives out, the name stands as a pointer right after that of the target's
# triple.
#
# It is done only for that library, only where the name is "generic", only if exactly
# one pair of pointers in the record fits, and before the first build.

#: So much of the record is looked at.
_RECORD_BYTES = 4096
#: The name given to each device, by its handle. PoCL keeps pointers to these texts.
_names: dict[int, Any] = {}


def name_processor(device: Any) -> str:
    """Gives PoCL a processor that its LLVM knows, if it found none itself.

    Args:
      device: of pyopencl.

    Returns:
      the name that was given, or nothing where there was no need. PoCL's cache of
      compiled kernels does not know of it: a build option must tell it.

    Raises:
      DeviceError: the name must be changed, and this build of PoCL is unknown.
    """
    if "PoCL" not in device.version or not device.version.endswith("-generic"):
        return ""
    if device.int_ptr in _names:
        return _names[device.int_ptr].value.decode()
    if platform.machine() != "x86_64" or not os.path.exists("/proc/self/mem"):
        raise _refusal(device)
    field = _find_name(device.int_ptr)
    if field is None:
        raise _refusal(device)
    name = _instruction_set()
    text = _names[device.int_ptr] = ctypes.create_string_buffer(name.encode())
    ctypes.c_void_p.from_address(field).value = ctypes.addressof(text)
    return name


def _refusal(device: Any) -> DeviceError:
    return DeviceError(
        f"{device.version.strip()} does not know this processor and cannot compile for "
        "it; install a newer PoCL, or another OpenCL driver"
    )


def _find_name(record: int) -> int | None:
    """The address of the pointer to "generic" in the record of a device."""
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        words = _read(memory, record, _RECORD_BYTES)
        pointers = struct.unpack(f"{len(words) // 8}Q", words[: len(words) // 8 * 8])
        found = [
            number
            for number in range(1, len(pointers))
            if _text(memory, pointers[number]) == b"generic"
            and _text(memory, pointers[number - 1]).startswith(b"x86_64-")
        ]
    finally:
        os.close(memory)
    return record + 8 * found[0] if len(found) == 1 else None


def _read(memory: int, address: int, count: int) -> bytes:
    """Bytes of this process; fewer, or none, where nothing is mapped."""
    if not 4096 <= address < 1 << 47:
        return b""
    try:
        return os.pread(memory, count, address)
    except OSError:
        return b""


def _text(memory: int, address: int) -> bytes:
    return _read(memory, address, 64).partition(b"\0")[0]


def _instruction_set() -> str:
    """The x86-64 level of this machine, as LLVM names it."""
    with open("/proc/cpuinfo") as file:
        line = next((line for line in file if line.startswith("flags")), "")
    flags = set(line.split())
    if flags >= {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}:
        return "x86-64-v4"
    if flags >= {"avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}:
        return "x86-64-v3"
    return "x86-64"

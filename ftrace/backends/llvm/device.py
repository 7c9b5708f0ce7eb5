"""The CPU: kernels as vector code of this machine, a program as one native call.

What makes code of kernels, and what makes calls native, is loaded by the functions that
need it: a program that is on disk needs neither for its first call.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ftrace.backends import base, out_of_memory
from ftrace.backends.debug_report import report_compiled, report_run
from ftrace.backends.llvm.codegen_options import DECISIONS
from ftrace.backends.llvm.compile import cache_key, object_cache
from ftrace.backends.llvm.kernels import cached_kernel
from ftrace.backends.llvm.runtime.program_table import NativeKernel, Table
from ftrace.backends.llvm.runtime.records import NO_MEMORY
from ftrace.backends.llvm.runtime.runtime import WarmAllocator, prepare_runtime, runtime
from ftrace.backends.llvm.runtime.step_log import StepLog
from ftrace.backends.llvm.target import (
    Target,
    available_cores,
    has_threads,
    host_caches,
    host_target,
)
from ftrace.errors import OutOfMemoryError
from ftrace.ground import process_groups, settings
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.ground.fork_safe import cached_property, free_after_fork
from ftrace.ground.limits import Limits
from ftrace.ground.spans import in_span
from ftrace.ground.tables import Shared
from ftrace.lower.kernel.ir import Kernel
from ftrace.lower.program import Program, RunKernel
from ftrace.trace.arrays.buffer import FENCED, LARGE_ALLOCATION, Buffer
from ftrace.trace.eager.function_objects import Record
from ftrace.trace.python_limits import importing, without_collection
from ftrace.trace.symbolic import Sizes, evaluate, evaluate_shape

if TYPE_CHECKING:
    from ftrace.backends.llvm.call.install import Native
    from ftrace.backends.llvm.emit.module import Rendered

#: Kernels cached for programs to come; those of living programs stay in any case.
KERNELS_CACHED = 64
#: Bytes of a kernel besides its machine code, and of each of its nodes, roughly.
KERNEL_BYTES, NODE_BYTES = 2000, 300


@cache
def _renderer() -> Callable[[Kernel, Target], Rendered]:
    def load() -> Callable[[Kernel, Target], Rendered]:
        from ftrace.backends.llvm import render

        return render.render_kernel

    return importing(load)


def render_kernel(kernel: Kernel, target: Target | None = None) -> Rendered:
    """The code of a kernel in operations that a processor has: by default this one."""
    return _renderer()(kernel, target or host_target())


class Codegen(NamedTuple):
    """What the settings say about the code of kernels.

    Attributes:
      tune: schedules are tried.
      without: decisions about the code that are switched off.
    """

    tune: bool
    without: tuple[str, ...]

    @staticmethod
    def current() -> Codegen:
        """The current settings."""
        now = settings.current()
        return Codegen(now.tune, tuple(sorted(now.disabled_rules & DECISIONS.keys())))

    def target(self) -> Target | None:
        """The processor that code is written for, if not just this one."""
        return replace(host_target(), without=self.without) if self.without else None


class CPU(base.Device):
    """The host's cores, through LLVM.

    Attributes:
      memory: the allocator.
    """

    name = "cpu"
    host = True
    keeps_programs = True

    def __init__(self, number: int = 0) -> None:
        super().__init__(number)
        self.host = not number
        self.memory = self.allocator = WarmAllocator(self, _forget_chunks)
        # By kernel, without its numbers where it loads them, and how it is scheduled.
        self._kernels: Shared[tuple[Kernel, Codegen], cached_kernel.CompiledKernel]
        self._kernels = Shared(KERNELS_CACHED)
        # One that forks takes them in the order in which calls do: the last one first.
        free_after_fork(self.memory.lock)
        self._lock = free_after_fork(threading.RLock())
        self._native: Native | None = None
        self.cores = available_cores()

    @property
    def limits(self) -> Limits:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What it can do; the cache is the one that a core has for itself."""
        return Limits(recurrences=True, cache=host_caches()[1])

    @property
    def threads(self) -> int:
        """How many threads a kernel may use now: no more than there are cores."""
        return self.threads_for(settings.current())

    def threads_for(self, chosen: settings.Config) -> int:
        """The same with these settings."""
        return min(chosen.threads or self.cores, self.cores)

    def copy_in(self, array: np.ndarray[Any, Any]) -> Buffer:
        if array.flags.c_contiguous and array.flags.aligned:
            source: Any = array
            memory = source.reshape(-1)
            return Buffer(self, memory, memory.nbytes)
        buffer = self.allocate(array.nbytes)
        memory = self.copy_out(buffer, array.dtype, array.size)
        memory.reshape(array.shape)[...] = array
        return buffer

    def copy_out(self, buffer: Buffer, dtype: np.dtype[Any], size: int) -> Any:
        memory = buffer.memory
        if not dtype.itemsize:  # of float0, which NumPy cannot view
            return np.zeros(size, dtype)
        return memory.view(np.uint8)[: size * dtype.itemsize].view(dtype)

    @without_collection
    def compile(self, program: Program) -> base.Executable:
        with base.time_block(self.counters, "compile_seconds"), self._lock:
            kernels = self._compile_kernels(program.kernels)

        make = partial(CPUExecutable, self, kernels)
        known = partial(_texts, kernels), _code_bytes(kernels)
        return base.executable_of(make, program, *known)

    def prepare(self) -> None:
        prepare_runtime()

    @without_collection
    def load(self, identity: str) -> base.Executable | None:
        if settings.current().tune:  # what is cached was made by the default schedules
            return None
        with base.time_block(self.counters, "compile_seconds"), self._lock:
            whole = object_cache.load("program", *cache_key(identity))
            found = (
                None
                if whole is None
                else cached_kernel.unpack_program(whole, _sources())
            )
            if found is None:
                return None
            program, kernels = found
            self.counters.kernels_cached += len(kernels)
            return CPUExecutable(self, kernels, program)

    def keep(self, identity: str, executable: base.Executable) -> None:
        chosen = settings.current()
        if chosen.tune or not chosen.cache_size:
            return
        if not isinstance(executable, CPUExecutable):
            return
        whole = cached_kernel.pack_program(executable.program, executable.kernels)
        if whole is not None:
            object_cache.store(whole, "program", *cache_key(identity))

    def clear_cache(self) -> None:
        with self._lock:
            self._kernels.clear()
        object_cache.clear()

    def _compile_kernels(
        self, steps: Sequence[RunKernel]
    ) -> list[cached_kernel.CompiledKernel]:
        """The code of each step's kernel, as cached or as compiled now.

        Those that differ in numbers alone share it, but for those that are tuned.
        """
        from ftrace.backends.llvm.kernels.compile_kernels import general_kernels

        way = Codegen.current()
        tuned = way.tune and not way.without
        kernels = {step.kernel for step in steps}
        same: dict[Kernel, Any] = {kernel: (kernel, None) for kernel in kernels}
        general = same if tuned else general_kernels(kernels)
        pairs = [general[step.kernel] for step in steps]
        users = {kernel: step for (kernel, _), step in zip(pairs, steps, strict=True)}
        known = {kernel: self._kernels.get((kernel, way)) for kernel in users}
        missing = {k: users[k] for k, code in known.items() if code is None}
        codes = self._compile_missing(missing, way, tuned) if missing else []
        for kernel, code in zip(missing, codes, strict=True):
            weight = KERNEL_BYTES + NODE_BYTES * len(kernel.nodes) + code.code.nbytes
            known[kernel] = self._kernels.put((kernel, way), code, weight)
        self.counters.kernels_compiled += len(missing)
        self.counters.kernels_cached += len(steps) - len(missing)
        found = [(known[kernel], numbers) for kernel, numbers in pairs]
        return [_with_numbers(code, n) for code, n in found if code is not None]

    @in_span("codegen", "kernels")
    def _compile_missing(
        self, missing: dict[Kernel, RunKernel], way: Codegen, tuned: bool
    ) -> list[cached_kernel.CompiledKernel]:
        start = time.perf_counter()
        if tuned:
            from ftrace.backends.llvm.kernels.autotune import compile_tuned
            from ftrace.backends.llvm.render import renderers_for

            infos = {kernel: step.info for kernel, step in missing.items()}
            codes = compile_tuned(infos, renderers_for, self.threads, self.allocate)
        else:
            from ftrace.backends.llvm.kernels.compile_kernels import compile_kernels

            target = way.target()
            render = partial(render_kernel, target=target)
            codes = compile_kernels(list(missing), render, self.threads, target)
        if settings.current().debug >= 1:
            each = (time.perf_counter() - start) / len(missing)
            for step, code in zip(missing.values(), codes, strict=True):
                report_compiled(self.name, step, each, code.source())
        return codes

    def schedule_of(self, kernel: Any) -> str:
        rendered = render_kernel(kernel, Codegen.current().target())
        return "\n".join(map(str, rendered.schedules))

    def assembly_of(self, source: str) -> str:
        from ftrace.backends.llvm.compile import shared_compiler

        return shared_compiler().assembly(source, host_target())

    def reuses(self, buffer: Buffer) -> bool:
        native = self._native
        return native is None or isinstance(buffer, native.buffer)

    def make_native(self) -> None:
        self.native()

    def native(self) -> Native | None:
        """The native code of calls; compiled when needed. The first device has it."""
        first = not self.local_hardware_id
        if self._native is None and first and not FENCED:  # it reuses memory
            self._native = self._native_calls()
        return self._native

    @without_collection
    def _native_calls(self) -> Native | None:
        from ftrace.backends.llvm.call.install import count_natively, native_for

        found = native_for(self)
        if found is not None:
            count_natively(found)
        return found


class CPUExecutable(base.Executable):
    """A program whose call is one native call, loops and branches included.

    A loop of unknown length counts as one iteration in the device's counters, and a
    branch as the one with the most operations.

    Args:
      device: where it runs.
      program: without dynamic dimensions: for certain sizes of them.
      kernels: the code of each of its kernels.
      sizes: those sizes.

    Attributes:
      entry: what `run` takes.
      made: (bytes, size class) of the buffers that a call makes: results, the arena.
      results: the numbers of the objects that are the results.
      work: what one run does.
      dims: the sizes that its kernels take: objects behind the others.
    """

    def __init__(
        self,
        device: CPU,
        kernels: Sequence[cached_kernel.CompiledKernel],
        program: Program,
        sizes: Sizes = MappingProxyType({}),
    ) -> None:
        self.device = device
        self.program = program
        self.code_bytes = _code_bytes(kernels)
        self.kernels = tuple(kernels)  # they keep the machine code and the numbers
        self.texts = partial(_texts, kernels)

        number_of, made, arena = _objects_of(program)
        self.results = [number_of[slot] for slot in program.outputs]
        size_class = device.memory.size_class
        self.made = [(nbytes, size_class(nbytes)) for nbytes in made]
        self._large = out_of_memory.footprint(program) >= LARGE_ALLOCATION
        objects = len(program.inputs) + len(made)
        specialized, self.dims = _specialize_kernels(kernels, objects, sizes)
        self._pack = struct.Struct(f"{objects + len(self.dims)}P").pack

        native = runtime()
        self._run = native.run
        places = [
            (number_of[i], slot.position if number_of[i] == arena else 0)
            for i, slot in enumerate(program.slots)
        ]
        self._table = Table(program, specialized, places, native.handlers)
        self.entry = self._table.entry
        self.work = self._table.work

    def __call__(self, inputs: Sequence[Buffer]) -> list[Buffer]:
        """Runs the program.

        Raises:
          OutOfMemoryError: there is no memory for its results, for what is between
            them, or for a stack that a loop pushes on.
          Exception: whatever a host call has raised, or a signal during a long loop.
        """
        device = self.device
        chosen = settings.current()
        inputs = self.receive(inputs)
        if self._large:
            out_of_memory.require_memory(device.name, device.memory, self.program)
        try:
            buffers = [*inputs, *device.memory.allocate_all(self.made)]
        except OutOfMemoryError:
            raise out_of_memory.shortage(device.name, self.program) from None
        memories = [id(buffer.memory) for buffer in buffers]
        if self.dims:
            memories += [id(array) for array in self.dims]
        objects = self._pack(*memories)
        threads = device.threads
        start = time.perf_counter()
        try:
            status = self._run_as(chosen, objects, threads)
        except BaseException as error:
            process_groups.settle(error, buffers)
            raise
        if status == NO_MEMORY:
            raise out_of_memory.no_working_memory(self.program)
        spent, work = time.perf_counter() - start, self.work
        device.counters.ran(work.kernels, work.operations, work.bytes, spent)
        return [buffers[number] for number in self.results]

    def _run_as(self, chosen: settings.Config, objects: bytes, threads: int) -> int:
        if chosen.debug >= 2 or (chosen.observed and not has_threads()):
            return self._run_step_by_step(objects, threads)
        if not chosen.observed:
            return self._run(self.entry, objects, threads)
        entry, log, _ = self._observed
        with log.fill():
            return self._run(entry, objects, threads)

    def record(self, signature: base.Signature) -> Record | None:
        device, chosen = self.device, signature.config
        if chosen.debug >= 2 or chosen.observed or not chosen.native_calls:
            return None
        if self._large:  # it is asked first whether there is memory
            return None
        native = device.native()
        if native is None:
            return None
        from ftrace.backends.llvm.call import record_jitted

        try:
            return record_jitted.RecordedCall(native, signature, self)
        except record_jitted.NotNative:
            return None

    @cached_property
    def _observed(self) -> tuple[int, StepLog, Any]:
        """What `run` takes to note when each step ran, where to, and its memory."""
        log = StepLog(self.program, self.device.name, self.lined)
        entry, memory = self._table.observe(log)
        return entry, log, memory

    def _run_step_by_step(self, objects: bytes, threads: int) -> int:
        """The same, telling of each step; a loop is one step."""
        steps, device = iter(self.program.steps), self.device.name
        before = time.perf_counter()

        def tell(_: int) -> None:
            nonlocal before
            now = time.perf_counter()
            report_run(device, next(steps), before, now)
            before = time.perf_counter()

        entry, _memory = self._table.telling(tell)
        return self._run(entry, objects, threads)


def _sources() -> cached_kernel.SourceOf:
    """Gives the LLVM IR of steps that came from disk: with these settings."""
    target = Codegen.current().target()
    return lambda step, numbers: partial(_render_again, target, step, numbers)


def _render_again(target: Target | None, step: RunKernel, numbers: Any) -> str:
    from ftrace.backends.llvm.kernels.compile_kernels import without_numbers

    forms = [without_numbers(step.kernel, alike) for alike in (False, True)]
    for kernel, own in forms:
        if own is not None and np.array_equal(own, numbers):
            return render_kernel(kernel, target).text
    return render_kernel(step.kernel, target).text


def _with_numbers(
    code: cached_kernel.CompiledKernel, numbers: Any
) -> cached_kernel.CompiledKernel:
    return code if numbers is None else replace(code, numbers=numbers, like=code)


def _texts(kernels: Iterable[cached_kernel.CompiledKernel]) -> list[str]:
    """The LLVM IR of each kernel."""
    return [kernel.source() for kernel in kernels]


def _objects_of(program: Program) -> tuple[dict[int, int], list[int], int]:
    """The objects of a call: the inputs, the outputs that it makes, the arena.

    Returns:
      the object of each slot; the bytes of those that a call makes; the object that is
      the arena, or -1.
    """
    number_of = {slot: i for i, slot in enumerate(program.inputs)}
    made: list[int] = []
    temporary = program.in_arena
    for slot in (*program.outputs, *(temporary if FENCED else ())):
        if slot not in number_of:
            number_of[slot] = len(program.inputs) + len(made)
            made.append(program.slots[slot].nbytes)
    if FENCED or not temporary:  # each for itself, and not in an arena
        return number_of, made, -1
    arena = len(program.inputs) + len(made)
    number_of.update(dict.fromkeys(temporary, arena))
    return number_of, [*made, program.arena], arena


def _specialize_kernels(
    kernels: Sequence[cached_kernel.CompiledKernel], objects: int, sizes: Sizes
) -> tuple[list[NativeKernel], list[np.ndarray[Any, Any]]]:
    """The kernels at these sizes, and those that they take: the last of the objects."""
    specialized: list[NativeKernel] = []
    dims: list[np.ndarray[Any, Any]] = []
    for kernel in kernels:
        made = kernel.made
        place = objects + len(dims) if made.dims else -1
        if made.dims:
            dims.append(np.array(evaluate_shape(made.dims, sizes), np.int64))
        numbers = 0 if kernel.numbers is None else kernel.numbers.ctypes.data
        units = evaluate(made.units, sizes)
        specialized.append(
            NativeKernel(kernel.address, units, made.grain, place, numbers)
        )
    return specialized, dims


def _code_bytes(kernels: Iterable[cached_kernel.CompiledKernel]) -> int:
    return sum(code.nbytes for code in {kernel.code for kernel in kernels})


def _forget_chunks() -> None:
    runtime().forget_chunks()

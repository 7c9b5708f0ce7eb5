"""What a device is: memory, and a compiler for programs.

A device is one class with `allocate`, `copy_in`, `copy_out` and `compile`. Devices are
made at their first use: importing ftrace loads no driver.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ftrace.errors import DeviceError, GraphError
from ftrace.ground import processes, settings
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.fork_safe import cached_property, fresh_after_fork
from ftrace.ground.limits import ANY_DEVICE, Limits
from ftrace.ground.settings import Config
from ftrace.trace.arrays.array import Array
from ftrace.trace.arrays.buffer import FENCED, Allocator, Buffer, fenced_copy
from ftrace.trace.avals import ShapedArray
from ftrace.trace.eager.function_objects import Record
from ftrace.trace.pytree.structure_cache import LayoutNode
from ftrace.trace.symbolic import Sizes

if TYPE_CHECKING:
    from ftrace.lower.program import Program


def _of_runs(place: int, unit: float = 1) -> Any:
    """A property: one of the numbers of what has run, in a unit."""

    def get(self: Counters) -> Any:
        return self.runs[place] * unit

    def put(self: Counters, value: Any) -> None:
        self.runs[place] = round(value / unit)

    return property(get, put)


class Counters:
    """What has been done since the process began, or since `reset`.

    Attributes:
      kernels_compiled: kernels that were rendered and compiled.
      kernels_cached: kernels that were found in the cache instead.
      kernels_run: kernels that ran.
      operations: arithmetic operations in the kernels that ran.
      bytes: bytes that those kernels read and wrote, each element once per kernel.
      compile_seconds, run_seconds: time spent in each.
      runs: the numbers of what has run, to which native code adds.
    """

    kernels_run = _of_runs(0)
    operations = _of_runs(1)
    bytes = _of_runs(2)
    run_seconds = _of_runs(3, 1e-9)

    def __init__(self) -> None:
        self.runs = np.zeros(4, np.int64).data
        self.reset()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "runs": [*self.runs]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy has the numbers as they are now."""
        vars(self).update(state, runs=np.array(state["runs"], np.int64).data)

    def reset(self) -> None:
        self.kernels_compiled = self.kernels_cached = 0
        self.compile_seconds = 0.0
        for place in range(len(self.runs)):
            self.runs[place] = 0

    def ran(self, kernels: int, operations: int, nbytes: int, seconds: float) -> None:
        """Adds what one run of a program did."""
        runs = self.runs
        runs[0] += kernels
        runs[1] += operations
        runs[2] += nbytes
        runs[3] += round(seconds * 1e9)

    def __repr__(self) -> str:
        names = (
            "kernels_compiled", "kernels_cached", "kernels_run", "operations", "bytes",
            "compile_seconds", "run_seconds",
        )  # fmt: skip
        listed = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"Counters({listed})"


# A device is told of a jitted call what the arguments are, what runs, and what is made
# of the results: if it can do such calls without Python's code it gives a `Record`.


@dataclass(frozen=True)
class Fixed:
    """A static argument: this value.

    Attributes:
      constant: the very object, which never changes, whatever its class.
    """

    value: Any
    constant: bool = False


Expected: TypeAlias = LayoutNode | Fixed


@dataclass(frozen=True, eq=False)
class Signature:
    """A kind of calls.

    Attributes:
      config: the configuration under which they are made.
      positional, named: what each argument is, in the order of the call.
      leaves: the class and the type of each leaf, by its number.
      captured: arrays that the function closed over: inputs behind the leaves.
      donated: the numbers of the leaves that are arrays which the caller gives up.
      overwritten: the numbers of the inputs that the program writes.
      result: the layout of the result, of leaves of the types `avals`; None of what is
        no Array.
    """

    config: Config
    positional: tuple[Expected, ...]
    named: dict[str, Expected]
    leaves: tuple[tuple[type[Any], ShapedArray], ...]
    captured: tuple[Array, ...]
    donated: tuple[int, ...]
    overwritten: tuple[int, ...]
    result: LayoutNode
    avals: tuple[ShapedArray | None, ...]


#: Memory that an allocator gave.
_BYTES = np.dtype(np.uint8)


def _behind_fence(buffer: Buffer) -> Buffer:
    """A buffer in fenced memory of the host: a copy if it came from NumPy."""
    if buffer.allocator is not None or not buffer.device.host:
        return buffer
    device: Any = buffer.device
    return Buffer(device, fenced_copy(buffer.memory), buffer.nbytes)


class Executable(ABC):
    """A compiled program: call it on one buffer per input.

    Attributes:
      program: what it was compiled from.
      texts: gives the source text of each kernel, in the order of `program.kernels`.
      code_bytes: what its machine code takes in this process.
      lined: gives the same program with the user's lines; one from disk has none.
    """

    code_bytes = 0
    lined: Callable[[], Program] | None = None
    program: Program
    texts: Callable[[], Iterable[str]]

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The source text of each kernel; some are rendered when asked for."""
        return tuple(self.texts())

    @cached_property
    def _expected_inputs(self) -> list[tuple[int, np.dtype[Any]]]:
        slots = self.program.slots
        return [(slots[i].nbytes, slots[i].dtype) for i in self.program.inputs]

    def receive(self, inputs: Sequence[Buffer]) -> Sequence[Buffer]:
        """The inputs, which are what the program was compiled for; fenced if need be.

        Raises:
          DeviceError: one is not, and would be read as something else.
        """
        for buffer, (nbytes, dtype) in zip(inputs, self._expected_inputs, strict=True):
            # A driver's handle has no dtype.
            kind: Any = getattr(buffer.memory, "dtype", _BYTES)
            if buffer.nbytes != nbytes or kind not in (dtype, _BYTES):
                place = list(inputs).index(buffer)
                raise DeviceError(
                    f"internal error: input {place} of a program must be {nbytes} "
                    f"bytes of {dtype}, and is {buffer.nbytes} of {kind}; "
                    "please report it with the call that was made"
                )
        return list(map(_behind_fence, inputs)) if FENCED else inputs

    @abstractmethod
    def __call__(self, inputs: Sequence[Buffer]) -> list[Buffer]:
        """Runs all steps; the result is a buffer per output of the program.

        An output that is an input handed through is that input's own buffer.
        """

    def at(self, sizes: Sizes) -> Executable:
        """The same for these sizes of the program's dynamic dimensions."""
        return self

    def record(self, signature: Signature) -> Record | None:
        """Calls of this signature without Python's code; None if it cannot do them."""
        return None


class DynamicProgram(Executable):
    """A program with dynamic dimensions, which is run `at` the sizes of a call."""

    def __init__(
        self,
        program: Program,
        make: Callable[[Program, Sizes], Executable],
        texts: Callable[[], Iterable[str]],
        code_bytes: int,
    ) -> None:
        self.program = program
        self.texts = texts
        self.code_bytes = code_bytes
        self._make = make

    def __call__(self, inputs: Sequence[Buffer]) -> list[Buffer]:
        raise GraphError("a program with dynamic dimensions runs `at` their sizes")

    def at(self, sizes: Sizes) -> Executable:
        return self._make(self.program.at(sizes), sizes)


def executable_of(
    make: Callable[[Program, Sizes], Executable],
    program: Program,
    texts: Callable[[], Iterable[str]],
    code_bytes: int = 0,
) -> Executable:
    """A program, made when the sizes of its dynamic dimensions are known."""
    if program.is_dynamic:
        return DynamicProgram(program, make, texts, code_bytes)
    return make(program, {})


class Device(ABC):
    """A place where arrays live and programs run.

    Attributes:
      name: "cpu", "interpreter", "opencl"; of further ones with a number: "cpu:1".
      id: its number on its platform, among the devices of all processes.
      process_index: the number of the process that has it.
      host: its memory is the host's: a buffer's `memory` is a NumPy array. Arrays that
        nobody has put on a device are there.
      allocator: where its buffers come from.
      limits: what it can do.
      keeps_programs: it keeps what graphs have become, for other processes.
      cores: how many this process may use.
    """

    name: str
    host: bool
    allocator: Allocator
    limits: Limits = ANY_DEVICE
    keeps_programs: bool = False
    cores: int = 1

    def __init__(self, number: int = 0) -> None:
        self.counters = Counters()
        self.platform = self.device_kind = self.name
        self.id = self.local_hardware_id = number
        self.process_index = processes.index()
        self.name = _name_of(self.platform, number)

    @property
    def host_id(self) -> int:
        """The number of the process: older names of JAX's."""
        return self.process_index

    task_id = host_id

    @property
    def client(self) -> Device:
        """What has the device: itself."""
        return self

    def memory_stats(self) -> dict[str, int] | None:
        """What is known of its memory: nothing, as of JAX's CPU."""
        return None

    @abstractmethod
    def compile(self, program: Program) -> Executable:
        """Renders and compiles the kernels that are not in the cache."""

    def load(self, identity: str) -> Executable | None:
        """What was cached of a graph, by any process; None if nothing was."""
        return None

    def keep(self, identity: str, executable: Executable) -> None:  # noqa: B027
        """Keeps what a graph became for `load`, where the device can."""

    def prepare(self) -> None:  # noqa: B027
        """A graph will be lowered: what a program of it needs can be made meanwhile."""

    def make_native(self) -> None:  # noqa: B027
        """Lets eager calls on its arrays be native, where the device can."""

    def allocate(self, nbytes: int) -> Buffer:
        """Uninitialised memory, 64-byte aligned on the host."""
        return self.allocator.allocate(nbytes)

    @abstractmethod
    def copy_in(self, array: np.ndarray[Any, Any]) -> Buffer:
        """A buffer with the array's contents, row-major; shared where it can be."""

    @abstractmethod
    def copy_out(self, buffer: Buffer, dtype: np.dtype[Any], size: int) -> Any:
        """A one-dimensional NumPy array of `size` elements; shared where it can be."""

    def reuses(self, buffer: Buffer) -> bool:
        """Is it one that the allocator would give out today?"""
        return True

    def schedule_of(self, kernel: Any) -> str:
        """How the loops of a kernel run, as text; empty where nothing is chosen."""
        return ""

    def assembly_of(self, source: str) -> str:
        """The machine code of a kernel's source, as text; empty where it has none."""
        return ""

    def synchronize(self) -> None:  # noqa: B027  (a device that runs at once has none)
        """Waits until everything that was enqueued has run."""

    def clear_cache(self) -> None:  # noqa: B027  (what keeps nothing forgets nothing)
        """Forgets compiled kernels, in memory and on disk; what runs keeps its own."""

    def __repr__(self) -> str:
        return f"<device {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return get_device, (self.name,)


def _one() -> int:
    return 1


_Platform: TypeAlias = tuple[Callable[[int], Device], Callable[[], int]]
_platforms: dict[str, _Platform] = {}
devices_in_use: dict[str, Device] = {}
_lock = fresh_after_fork(threading.RLock())


def register_platform(
    name: str, factory: Callable[[int], Device], count: Callable[[], int] = _one
) -> None:
    """Adds a kind of devices.

    Args:
      factory: makes the device of a number, at its first use.
      count: how many there are; asked where more than the first is.
    """
    _platforms[name] = factory, count


def platform_names() -> list[str]:
    return list(_platforms)


def _name_of(platform: str, number: int) -> str:
    return f"{platform}:{number}" if number else platform


def _read_name(name: str) -> tuple[str, int]:
    """The platform and the number of a device.

    Raises:
      DeviceError: there is none of that name.
    """
    platform, colon, digits = name.partition(":")
    number = int(digits) if digits.isdecimal() else -1 if colon else 0
    if platform not in _platforms or number < 0:
        known = ", ".join(_platforms)
        raise DeviceError(
            f"Unknown backend: there is no device {name!r}; the devices are {known}"
        )
    if number and number >= (count := _platforms[platform][1]()):
        more = "; FTRACE_CPU_DEVICES sets how many" if platform == "cpu" else ""
        raise DeviceError(
            f"there is no device {name!r}: {platform} has {count}, from 0 on{more}"
        )
    return platform, number


def _check_unused(count: Any) -> None:
    """Raises where devices have been used, whose number can then not be set."""
    if devices_in_use:
        raise DeviceError(
            "jax_num_cpu_devices config should be updated before backends are "
            f"initialized: {', '.join(devices_in_use)} has been used, and {count} "
            "devices are asked for; set it after `import jax`, or FTRACE_CPU_DEVICES"
        )


settings.name_checks["device"] = _read_name
settings.name_checks["jax_num_cpu_devices"] = _check_unused


def get_device(name: str | Device | None = None) -> Device:
    """The device of that name, or the default one.

    Raises:
      DeviceError: there is no such device, or its driver is missing.
    """
    if isinstance(name, Device):
        return name
    name = name or settings.current().device
    found = devices_in_use.get(name)
    if found is not None:
        return found
    with _lock:
        platform, number = _read_name(name)
        name = _name_of(platform, number)
        if name not in devices_in_use:
            devices_in_use[name] = _platforms[platform][0](number)
        return devices_in_use[name]


def devices_of(backend: str | Device | None = None) -> list[Device]:
    """All devices of a platform: the default one's, or that of a device or a name.

    Those of other processes are among them, by the numbers of the processes.
    """
    platform = get_device(backend).platform
    return list(_systems.get(platform) or own_devices(platform))


def own_devices(platform: str) -> list[Device]:
    """The devices of a platform that this process has."""
    count = _platforms[platform][1]()
    return [get_device(_name_of(platform, number)) for number in range(count)]


class RemoteDevice(Device):
    """A device of another process: programs may be over it, and run there."""

    host = False

    def __init__(self, platform: str, number: int, process: int) -> None:
        self.name = platform
        super().__init__(number)
        self.process_index = process
        self.name = f"{self.name}@{process}"

    def _refuse(self) -> DeviceError:
        return DeviceError(
            f"{self.name} is a device of process {self.process_index}, and is not "
            f"addressable from process {processes.index()}; give a sharding over the "
            "devices of all, or one of local_devices()"
        )

    def compile(self, program: Program) -> Executable:
        raise self._refuse()

    def allocate(self, nbytes: int) -> Buffer:
        raise self._refuse()

    def copy_in(self, array: np.ndarray[Any, Any]) -> Buffer:
        raise self._refuse()

    def copy_out(self, buffer: Buffer, dtype: np.dtype[Any], size: int) -> Any:
        raise self._refuse()

    def __reduce__(self) -> tuple[Any, ...]:
        return _in_system, (self.platform, self.id)


#: The devices of all processes, by platform, where there are several processes.
_systems: dict[str, list[Device]] = {}


def _in_system(platform: str, number: int) -> Device:
    return devices_of(platform)[number]


def set_system(counts: dict[str, Sequence[int]]) -> None:
    """Numbers the devices of all processes.

    Args:
      counts: for a platform how many each process has; {} is one process by itself.
    """
    for platform, system in _systems.items():
        for number, device in enumerate(own_devices(platform)):
            if device in system:
                device.id, device.process_index = number, 0
    _systems.clear()
    for platform, each in counts.items():
        found: list[Device] = []
        for process, count in enumerate(each):
            own = process == processes.index()
            local = own_devices(platform) if own else ()
            found += local or [RemoteDevice(platform, i, process) for i in range(count)]
        for number, device in enumerate(found):
            device.id = number
            if not isinstance(device, RemoteDevice):
                device.process_index = processes.index()
        _systems[platform] = found


def live_devices() -> list[Device]:
    """The devices that have been used in this process."""
    return list(devices_in_use.values())


@contextmanager
def time_block(counters: Counters, name: str) -> Generator[None]:
    """Adds the seconds that a block takes to one field of a device's counters."""
    start = time.perf_counter()
    try:
        yield
    finally:
        spent = time.perf_counter() - start
        setattr(counters, name, getattr(counters, name) + spent)

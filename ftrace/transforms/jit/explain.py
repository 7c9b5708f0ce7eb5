"""What runs when a function is called, and how far from the machine's limits it is.

    print(ft.explain(step)(params, x))

    step on cpu, 2 threads: 5 steps, 104 M operations, 3.67 MB in 679 µs
      step                        time  share  operations   bytes  of the limit
      0 reduce_sum_mul_512x128  300 µs    44%      50.3 M  918 kB  84% of arithmetic
      …                                                            and the lines
    memory: arguments 656 kB, results 132 kB, between steps 786 kB
      float32[512,128] 262 kB of step 1, until step 2
    limits of this machine: 39.3 GB/s, 198 G operations/s

What is printed is a value: `.kernels[0]` is a kernel with its statements, its schedule,
and its code; `.graph` and `.passes` are the graph as it was traced and after each pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import cache
from statistics import median
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.backends.base import Device, get_device
from ftrace.errors import Origin
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.ground.spans import steps_of_programs
from ftrace.lower.lowering import passes_of
from ftrace.lower.program import (
    CallHost,
    Program,
    RunKernel,
    Slot,
    Step,
    describe,
    programs_of,
)
from ftrace.trace.arrays.array import Array
from ftrace.trace.calls.carry_keys import carry_keys
from ftrace.trace.calls.inline import ready_graph
from ftrace.trace.control.conditional import closed_graph
from ftrace.trace.flatten_arguments import name_of, wraps
from ftrace.trace.graph import Graph
from ftrace.trace.primitives.primitive import compound_of
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.scopes import asarray
from ftrace.transforms.jit.compiled_graph import CompiledGraph, compile_graph
from ftrace.transforms.jit.jit import Jitted, make_graph
from ftrace.transforms.jit.stages import inputs_of
from ftrace.transforms.jit.structs import ShapeDtypeStruct

#: Runs that are timed, and of which the median is told.
_RUNS = 5
#: Values between kernels that are told, the largest ones.
_LARGEST = 3
#: Elements of the array, and side of the matrices, with which limits are measured: more
#: than the caches hold, and enough work for all cores in few enough milliseconds that
#: other programs leave some runs alone.
_LONG, _SIDE = 1 << 24, 512


class Roofline(NamedTuple):
    """What a machine does at the most: bytes and operations in a second.

    They are measured: those of `x + 1` over 64 MB, and of a product of 512² matrices,
    with the threads that are set.
    """

    bandwidth: float
    peak: float

    def __str__(self) -> str:
        return f"{self.bandwidth / 1e9:.3g} GB/s, {self.peak / 1e9:.3g} G operations/s"


@cache
def roofline(device: Device, threads: int | None) -> Roofline:
    """The limits of a device with so many threads."""
    x, m = np.ones(_LONG, np.float32), np.ones((_SIDE, _SIDE), np.float32)
    with settings.config(threads=threads, device=device.name):
        stream, product = _measured(_stream, x), _measured(fnp.matmul, m, m)
    return Roofline(2 * x.nbytes / stream, 2 * _SIDE**3 / product)


def _stream(x: Any) -> Any:
    return x + 1


def _measured(fun: Callable[..., Any], *args: Any) -> float:
    """Seconds of a run of one kernel, at the least."""
    graph = ready_graph(make_graph(fun)(*args))
    runs = _timed_runs(compile_graph(graph, get_device()), inputs_of(graph, args))
    return min(sum(run) for run in runs)


def _timed_runs(compiled: CompiledGraph, arrays: Sequence[Array]) -> list[list[float]]:
    """Seconds of each step, in some runs."""
    runs: list[list[float]] = []
    for _ in range(_RUNS + 1):
        with steps_of_programs() as steps:
            compiled(arrays)
        runs.append([step.end - step.start for step in steps])
    return runs[1:]


@dataclass(frozen=True, eq=False)
class Part:
    """A step of a program: a kernel, a loop, a branch, or work of the host.

    Attributes:
      name: what it does.
      origins: the user's lines that it computes.
      operations, nbytes: what it does in one run; 0 where that is not known.
      seconds: of a run; None where none was timed.
      step: as the program has it.
      device: that runs it.
      source: the text of its code, if it is a kernel.
      inner: the steps of its body, or of its branches.
    """

    name: str
    origins: tuple[Origin, ...]
    operations: int
    nbytes: int
    seconds: float | None
    step: Step
    device: Device
    source: str = ""
    inner: list[Part] = field(default_factory=list[Any])

    @property
    def schedule(self) -> str:
        """How its loops run: what threads share, vectors, tiles; empty if not known."""
        kernel = getattr(self.step, "kernel", None)
        return "" if kernel is None else self.device.schedule_of(kernel)

    @property
    def assembly(self) -> str:
        """Its machine code as text; empty where the device shows none."""
        return self.device.assembly_of(self.source) if self.source else ""

    def limit(self, most: Roofline) -> str:
        """What part of the machine's limit it reaches, and of which."""
        if not self.seconds or not (self.operations or self.nbytes):
            return ""
        memory = self.nbytes / most.bandwidth
        arithmetic = self.operations / most.peak
        what = "memory" if memory >= arithmetic else "arithmetic"
        return f"{max(memory, arithmetic) / self.seconds:.0%} of {what}"

    def __str__(self) -> str:
        lines = [f"  {origin.describe()}" for origin in self.origins]
        kernel = getattr(self.step, "kernel", None)
        texts = [] if kernel is None else [str(kernel)]
        texts += [self.schedule] if self.schedule else []
        return "\n".join([self.name, *lines, *texts])


@dataclass(frozen=True, eq=False)
class Explanation:
    """What a function became for some arguments; see the module.

    Attributes:
      name: of the function.
      device: where it runs.
      threads: that it has there.
      graph: as it was traced.
      leaves: what the user calls its inputs, one after the other.
      program: what the device runs.
      kernels: its steps in order.
      arguments, results: bytes.
      most: the machine's limits; None where nothing was run.
    """

    name: str
    device: Device
    threads: int
    graph: Graph
    leaves: list[str]
    program: Program
    kernels: list[Part] = field(default_factory=list[Part])
    arguments: int = 0
    results: int = 0
    most: Roofline | None = None

    @property
    def closed(self) -> Graph:
        """The graph as it is lowered: effects are outputs, keys are numbers."""
        return carry_keys(closed_graph(self.graph))

    @property
    def passes(self) -> list[tuple[str, Graph]]:
        """The graph after each pass of lowering that changed it, by the pass's name."""
        found = passes_of(self.closed, self.device.limits)
        return [(each.stage.name, each.graph) for each in found]

    @property
    def seconds(self) -> float | None:
        """Of a run, its steps one after the other."""
        timed = [part.seconds for part in self.kernels if part.seconds is not None]
        return sum(timed) if timed else None

    def __str__(self) -> str:
        most = "" if self.most is None else f"limits of this machine: {self.most}"
        lines = [self._head(), *self._rows(), *self._memory(), most]
        return "\n".join(filter(None, lines))

    def _head(self) -> str:
        count = len(self.kernels)
        operations = _amount(sum(part.operations for part in self.kernels))
        moved = _bytes(sum(part.nbytes for part in self.kernels))
        time = "" if self.seconds is None else f" in {_time(self.seconds)}"
        steps = f"{count} step{'s' * (count != 1)}"
        threads = f"{self.threads} thread{'s' * (self.threads != 1)}"
        return (
            f"{self.name} on {self.device.name}, {threads}: {steps}, "
            f"{operations} operations, {moved}{time}"
        )

    def _rows(self) -> list[str]:
        whole = self.seconds
        rows = [("step", "time", "share", "operations", "bytes", "of the limit", "")]
        for number, part in enumerate(self.kernels):
            share = part.seconds / whole if part.seconds and whole else None
            rows.append((
                f"{number} {part.name}",
                "" if part.seconds is None else _time(part.seconds),
                "" if share is None else f"{share:.0%}",
                _amount(part.operations) if part.operations else "",
                _bytes(part.nbytes) if part.nbytes else "",
                "" if self.most is None else part.limit(self.most),
                ", ".join(map(str, part.origins)),
            ))  # fmt: skip
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        numbers = range(1, 5)
        return [
            "  "
            + "  ".join(
                cell.rjust(width) if i in numbers else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]

    def _memory(self) -> list[str]:
        arena = _bytes(self.program.arena)
        lines = [
            f"memory: arguments {_bytes(self.arguments)}, results "
            f"{_bytes(self.results)}, between steps {arena}"
        ]
        placed = [slot for slot in self.program.slots if slot.place == "arena"]
        lives = list(zip(placed, self.program.lifetimes, strict=True))
        lives.sort(key=lambda pair: -pair[1].nbytes)
        for slot, life in lives[:_LARGEST]:
            lines.append(
                f"  {_type(slot)} {_bytes(life.nbytes)} of step {life.first}, "
                f"until step {life.last}"
            )
        return lines


def _type(slot: Slot) -> str:
    sizes = ",".join(map(str, slot.shape))
    return f"{slot.dtype}[{sizes}]"


def _time(seconds: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e6:.3g} µs"


def _amount(count: float) -> str:
    for unit, name in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if count >= unit:
            return f"{count / unit:.3g}{name}"
    return f"{count:.3g}"


def _bytes(count: float) -> str:
    return f"{_amount(count)}{'' if count >= 1e3 else ' '}B"


def explain(fun: Callable[..., Any]) -> Callable[..., Explanation]:
    """A function that says what runs when `fun` is called: print what it returns.

    Args:
      fun: a function of arrays, under `jit` or not.

    Returns:
      A function of the same arguments, or of `ShapeDtypeStruct`s. With arrays the
      program is run a few times, step by step, to tell the time of each; not so where
      it has effects, as printing.
    """
    tree.check_callable(fun, "explain")

    @wraps(fun)
    def explained(*args: Any, **kwargs: Any) -> Explanation:
        jitted = fun if isinstance(fun, Jitted) else Jitted(fun)
        lowered = jitted.lower(*args, **kwargs)
        graph = ready_graph(lowered.graph)
        leaves = jitted.leaves(args, kwargs)
        concrete = not any(isinstance(x, ShapeDtypeStruct) for x in leaves)
        device = jitted.target([asarray(x) for x in leaves] if concrete else ())
        compiled = compile_graph(graph, device)
        pure = all(op is None or op.pure for op in map(compound_of, graph.nodes))
        runs = list[list[float]]()
        if concrete and pure and not compiled.program.is_dynamic:
            runs = _timed_runs(compiled, inputs_of(graph, leaves))
        steps = compiled.program.steps
        told = bool(runs) and all(len(run) == len(steps) for run in runs)
        seconds = [median(row) for row in zip(*runs, strict=True)] if told else None
        threads = settings.current().threads
        sources = iter(compiled.executable.sources)
        return Explanation(
            name_of(jitted), device, _threads(device), graph,
            jitted.leaf_names(args, kwargs), compiled.program,
            _parts(compiled.program, sources, device, seconds),
            sum(n.size * n.dtype.itemsize for n in lowered.graph.inputs),
            sum(aval.size * aval.dtype.itemsize for aval in lowered.out_avals),
            roofline(device, threads) if told else None,
        )  # fmt: skip

    return explained


def _threads(device: Device) -> int:
    return settings.current().threads or getattr(device, "cores", 1)


def _parts(
    program: Program,
    sources: Iterator[str],
    device: Device,
    seconds: Sequence[float] | None = None,
) -> list[Part]:
    """The steps of a program, of which `sources` are those of the kernels in order."""
    found: list[Part] = []
    for number, step in enumerate(program.steps):
        took = None if seconds is None else seconds[number]
        if isinstance(step, RunKernel):
            info = step.info
            known = info.name, info.origins, info.operations, info.bytes
            found.append(Part(*known, took, step, device, next(sources)))
            continue
        inner = [p for each in programs_of(step) for p in _parts(each, sources, device)]
        origins = [origin for part in inner for origin in part.origins]
        if isinstance(step, CallHost) and step.node.origin is not None:
            origins.append(step.node.origin)
        lines = tuple(dict.fromkeys(origins))
        name = describe(step)
        found.append(Part(name, lines, 0, 0, took, step, device, inner=inner))
    return found

"""What runs when a function is called, and how far from the machine's limits it is.

    print(ft.explain(step)(params, x))

    step on cpu, 2 threads: 5 steps, 104 M operations, 3.67 MB in 679 µs
      step                        time  share  operations   bytes  of the limit
      0 reduce_sum_mul_512x128  300 µs    44%      50.3 M  918 kB  84% of arithmetic
      …                                                            and the lines
    memory: arguments 656 kB, results 132 kB, between steps 786 kB; at step 1 most
      value                bytes  of step  until step
      float32[512,128]    262 kB        0           2              step.py:7 (loss)
    limits of this machine: 39.3 GB/s, 198 G operations/s

What is printed is a value: `.kernels[0]` is a kernel with its statements and loops, its
schedule, and its code; `.graph` and `.passes` are the graph as it was traced and after
each pass, `.outline` the graph as it was written, with a line for each `matmul`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from html import escape
from time import perf_counter
from typing import Any

import numpy as np

from ftrace.backends.base import Device, get_device
from ftrace.backends.llvm.compile import cache_key, object_cache
from ftrace.backends.llvm.runtime.peak import peak
from ftrace.backends.llvm.runtime.work_estimate import work_of_step
from ftrace.backends.opencl.render import program_source, render
from ftrace.backends.opencl.scalar_ops import SUPPORTED
from ftrace.backends.opencl.writer import Traits
from ftrace.errors import Origin
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.ground.spans import Span, steps_of_programs
from ftrace.ground.text_tables import Section, Shown, Tables, time_text
from ftrace.lower import program as prog
from ftrace.lower.build import build_kernel as build
from ftrace.lower.kernel.ir import NO_LINES, Kernel, Lines, kernel_text
from ftrace.lower.kernel.loop_tree import render_tree
from ftrace.lower.legalize.legalize import legalize
from ftrace.lower.lowering import passes_of
from ftrace.lower.register_loops.register_loop import Recurrence
from ftrace.trace.arrays.array import Array
from ftrace.trace.calls.carry_keys import carry_keys
from ftrace.trace.calls.inline import ready_graph
from ftrace.trace.control.conditional import closed_graph
from ftrace.trace.flatten_arguments import P, display_name, names_of_captured, wraps
from ftrace.trace.graph import Graph, Node, with_line
from ftrace.trace.primitives.primitive import compound_of
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic import any_dynamic, is_dynamic
from ftrace.trace.tracing.tracer import Tracer
from ftrace.transforms.jit.compiled_graph import (
    CompiledGraph,
    compile_graph,
    is_divided,
)
from ftrace.transforms.jit.jit import Jitted, make_graph
from ftrace.transforms.jit.stages import Lowered, check_closed, inputs_of
from ftrace.transforms.partition import spanning
from ftrace.transforms.partition.collectives import Collective
from ftrace.transforms.shardings import Placed
from ftrace.transforms.structs import ShapeDtypeStruct
from ftrace.transforms.viz.explain_sharding import Divided, divided_graph
from ftrace.transforms.viz.regions import Region, html_of, outline, regions_of

#: Runs that are timed, and of which the median is told; seconds after which there are
#: no more; seconds in which a limit is looked for.
_RUNS, _PATIENCE, _WINDOW = 5, 5.0, 0.2
#: Values between kernels that are told, the largest ones.
_LARGEST = 5
#: Steps that the table has at the most: those that take longest.
_STEPS = 50
#: For which OpenCL C is shown: any GPU.
_GPU = Traits(units=64, max_group=256, doubles=True)
#: Elements of the array with which the limit of memory is measured: more than the
#: caches hold; multiply-adds with which that of arithmetic is, off the processor.
_LONG, _DEEP = 1 << 24, 256


class Roofline(NamedTuple):
    """What a machine does at the most: bytes and operations of float32 in a second.

    They are measured, with the threads that are set: the bytes of `x + 1` over 64 MB,
    and multiply-adds that stay in registers.
    """

    bandwidth: float
    peak: float

    def __str__(self) -> str:
        return f"{self.bandwidth / 1e9:.3g} GB/s, {self.peak / 1e9:.3g} G operations/s"


#: Limits that were measured, or found on disk.
_known: dict[Any, Roofline] = {}


def roofline(device: Device, threads: int, done: float = 0.0) -> Roofline:
    """The limits of a device with so many threads, measured once for a machine.

    Args:
      done: operations in a second that were done there: a limit below was measured
        while other programs took the cores, and is measured again.
    """
    name = "roofline", device.platform, f"{threads}", *cache_key("")
    found = _known.get(name)
    if found is None and (kept := object_cache.load(*name)):
        found = Roofline(*json.loads(kept))
    if found is None or done > found.peak:
        found = Roofline(
            *map(max, _measure_limits(device, threads), found or (0.0, 0.0))
        )
        object_cache.store(json.dumps(found).encode(), *name)
    _known[name] = found
    return found


def _measure_limits(device: Device, threads: int) -> Roofline:
    x = np.ones(_LONG, np.float32)
    with settings.config(threads=threads, device=device.name):
        bandwidth = 2 * x.nbytes / _measure(_stream, x)
        if device.platform in ("cpu", "interpreter"):
            return Roofline(bandwidth, peak(threads))
        return Roofline(bandwidth, 2 * _DEEP * x.size / _measure(_chain, x))


def _stream(x: Any) -> Any:
    return x + 1


def _chain(x: Any) -> Any:
    for _ in range(_DEEP):
        x = x * 0.5 + 1
    return x


def _measure(fun: Callable[..., Any], *args: Any) -> float:
    """Seconds of a run of one kernel, at the least."""
    graph = ready_graph(make_graph(fun)(*args))
    compiled, arrays = compile_graph(graph, get_device()), inputs_of(graph, args)
    runs = _timed_runs(compiled, arrays, _WINDOW)
    return min(sum(each.end - each.start for each in run) for run in runs)


def _timed_runs(
    compiled: CompiledGraph, arrays: Sequence[Array], window: float = 0.0
) -> list[list[Span]]:
    """When steps ran, in some runs, and in as many as the window takes."""
    runs: list[list[Span]] = []
    begin = perf_counter()
    while not runs or perf_counter() - begin < (
        _PATIENCE if len(runs) <= _RUNS else window
    ):
        with steps_of_programs() as steps:
            compiled(arrays)
        runs.append(steps)
    return runs[1:] or runs


class Timing(NamedTuple):
    """How long a step takes, as measured.

    Attributes:
      runs: how often it runs in one of the program: in a loop as often as that goes
        around, of a branch as often as it is chosen.
      each: seconds of one of these, on the average.
      threads: on how many of them these are done, where that is at the same time.
    """

    runs: float
    each: float
    threads: int = 1

    @property
    def seconds(self) -> float:
        """Of a run of the program."""
        return self.runs * self.each / self.threads


def _timings(program: prog.Program, runs: Sequence[Sequence[Span]]) -> Iterator[Timing]:
    """How long each of `steps_of(program)` takes, in the run that is the median."""
    tables: list[dict[Any, list[Span]]] = []
    for run in runs:
        spans: dict[Any, list[Span]] = {}
        for each in run:
            spans.setdefault(each.step, []).append(each)
        tables.append(spans)
    for step in program.steps:
        found = [[*_timings_of(step, spans)] for spans in tables]
        found.sort(key=lambda row: row[0].seconds)
        yield from found[len(found) // 2]


def _timings_of(
    step: prog.Step, spans: Mapping[Any, Sequence[Span]], scale: float = 1
) -> Iterator[Timing]:
    """The same of a step, and of those that it runs.

    Args:
      scale: how often something runs for each time that was noted: of long loops these
        are the first ones.
    """
    own = spans.get(step, ())
    runs, threads = scale * len(own), len({each.thread for each in own})
    total = sum(each.end - each.start for each in own)
    yield Timing(runs, total / max(len(own), 1), max(threads, 1))
    inner = [each for program in prog.programs_of(step) for each in program.steps]
    if isinstance(step, prog.RunLoop) and step.length is not None:
        noted = max([len(spans.get(each, ())) for each in inner], default=0)
        scale = runs * step.length / max(noted, 1)
    for each in inner:
        yield from _timings_of(each, spans, scale)


@dataclass(frozen=True, eq=False, repr=False)
class StepReport(Shown):
    """A step of a program: a kernel, a loop, a branch, or work of the host.

    Its texts are empty where there is nothing to tell.

    Attributes:
      name: what it does.
      origins: the user's lines that it computes.
      operations, nbytes: what it does in one run: of a loop its iterations, or one
        where their number is not known, of branches the one that does most; 0 of work
        of the host.
      timing: how often it runs, and how long that takes; None where none was timed.
      step: as the program has it.
      device: that runs it.
      source: the text of its code, if it is a kernel.
      inner: the steps of a loop or a branch.
      nodes: what it computes, of the graph after all passes.
      built: what it was made of.
      body: of an inner step, the number of the body that it is in.
    """

    name: str
    origins: tuple[Origin, ...]
    operations: int
    nbytes: int
    timing: Timing | None
    step: prog.Step
    device: Device
    source: str = ""
    inner: list[StepReport] = field(default_factory=list[Any])
    nodes: Sequence[Node] = ()
    built: build.BuiltKernel | build.BuiltStep | None = None
    body: int = 0

    @property
    def seconds(self) -> float | None:
        """Of all its runs in one of the program; None where it did not run."""
        return (self.timing and self.timing.seconds) or None

    @property
    def kernel(self) -> Kernel | None:
        """What it runs; None of a loop, a branch, or work of the host."""
        return self.step.kernel if isinstance(self.step, prog.RunKernel) else None

    @property
    def statements(self) -> str:
        """What it computes, a line for each expression, with the user's lines."""
        kernel, lines = self.kernel, self._lines
        if type(kernel) is Kernel:
            return kernel_text(kernel, lines)
        if not isinstance(kernel, Recurrence):
            return str(kernel or "")
        head, rows = str(kernel).splitlines()[0], kernel.lines
        texts = [with_line(text, node and lines.get(node)) for text, node in rows]
        return "\n".join([head, *texts])

    @property
    def bodies(self) -> list[Graph]:
        """What the bodies of a loop or a branch are after all passes."""
        built = self.built
        if not isinstance(built, build.BuiltStep):
            return []
        return [body.graph for body in built.bodies]

    @property
    def loops(self) -> str:
        """The same in its loops: where each expression is computed."""
        kernel = self.kernel
        return render_tree(kernel, self._lines) if type(kernel) is Kernel else ""

    @property
    def opencl(self) -> str:
        """What it is in OpenCL C, for a GPU, whatever the device."""
        kernel = self.kernel
        if type(kernel) is not Kernel:
            return ""
        return program_source([render(legalize(kernel, SUPPORTED), _GPU)])

    @property
    def schedule(self) -> str:
        """How its loops run: what threads share, vectors, tiles."""
        return "" if self.kernel is None else self.device.schedule_of(self.kernel)

    @property
    def assembly(self) -> str:
        """Its machine code as text."""
        return self.device.assembly_of(self.source) if self.source else ""

    @property
    def _lines(self) -> Lines:
        """The lines of its expressions."""
        if not isinstance(self.built, build.BuiltKernel):
            return NO_LINES
        return build.lines_of_expressions(self.built)

    def limit(self, most: Roofline) -> str:
        """What part of the machine's limit it reaches, and of which.

        What comes faster than memory gives it was in the caches: then it is arithmetic.
        """
        work = self.operations, self.nbytes
        known = work_of_step(self.step).bounded and not _has_branch(self.step)
        seconds, runs = self.seconds, self.timing and self.timing.runs
        if not (seconds and runs and known and any(work)) or any_dynamic(work):
            return ""
        memory = runs * self.nbytes / most.bandwidth / seconds
        arithmetic = runs * self.operations / most.peak / seconds
        if arithmetic <= memory <= 1:
            return f"{memory:.0%} of memory"
        return f"{arithmetic:.0%} of arithmetic"

    def __repr__(self) -> str:
        return f"<step {self.name}>"

    def __str__(self) -> str:
        lines = [f"  {origin.describe()}" for origin in self.origins]
        texts = [self.statements, self.schedule, *map(str, self.inner)]
        return "\n".join([self.name, *lines, *filter(None, texts)])


def _has_branch(step: prog.Step) -> bool:
    """Does what it computes depend on a value?"""
    inner = [s for program in prog.programs_of(step) for s in program.steps]
    return isinstance(step, prog.RunBranch) or any(map(_has_branch, inner))


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Tables):
    """What a function became for some arguments; see the module.

    Attributes:
      name: of the function.
      device: where it runs.
      threads: that it has there.
      graph: as it was traced; over a mesh what becomes of it for each device.
      closed: as it is lowered: effects are outputs, keys are numbers, and collectives
        are exchanges with others.
      leaves: what the user calls its inputs, one after the other, and then what the
        function closes over.
      built: what the device runs, and how it came about.
      kernels: its steps in order.
      arguments, results: bytes.
      most: the machine's limits; None where nothing was run.
      divided: how it is divided over a mesh, if it is; then all else is about the
        program of one of its devices, and the parts of arrays that this has.
    """

    name: str
    device: Device
    threads: int
    graph: Graph
    closed: Graph
    leaves: list[str]
    built: build.BuiltProgram
    kernels: list[StepReport] = field(default_factory=list[StepReport])
    arguments: int = 0
    results: int = 0
    most: Roofline | None = None
    divided: Divided | None = None

    @property
    def program(self) -> prog.Program:
        """What the device runs."""
        return self.built.program

    @property
    def passes(self) -> list[tuple[str, Graph]]:
        """The graph after each pass of lowering that changed it, by the pass's name."""
        found = passes_of(self.closed, self.device.limits)
        return [(each.stage.name, each.graph) for each in found]

    @property
    def seconds(self) -> float | None:
        """Of a run, its steps one after the other."""
        timed = [part.seconds for part in self.kernels if part.seconds]
        return sum(timed) if timed else None

    @property
    def regions(self) -> list[Region]:
        """The graph in parts: what each call of a function made. Print one of them."""
        return regions_of(self.graph)

    @property
    def outline(self) -> str:
        """The graph as text with a line for each of its regions, such as `matmul`."""
        return outline(self.graph)

    @property
    def collectives(self) -> Sequence[Collective]:
        """What the devices of a mesh tell each other."""
        return () if self.divided is None else self.divided.ledger

    @property
    def peak(self) -> Peak:
        """When most memory is taken between steps, and by what."""
        return peak_of(self.program)

    def sections(self) -> list[Section]:
        most = "" if self.most is None else f"limits of this machine: {self.most}"
        limits = [Section(most)] if most else []
        collectives = [] if self.divided is None else [self._collectives(self.divided)]
        return [self._steps(), self._memory(), *collectives, *limits]

    def _repr_html_(self) -> str:
        graph = f"<details><summary>graph</summary>{html_of(self.graph)}</details>"
        kernels = "".join(
            f"<details><summary>{number} {escape(part.name)}</summary>"
            f"<pre>{escape(str(part))}</pre></details>"
            for number, part in enumerate(self.kernels)
        )
        return super()._repr_html_() + graph + kernels

    def _head(self) -> str:
        count = len(self.kernels)
        operations = _amount(sum(part.operations for part in self.kernels))
        moved = _bytes(sum(part.nbytes for part in self.kernels))
        time = "" if self.seconds is None else f" in {time_text(self.seconds)}"
        steps = f"{count} step{'s' * (count != 1)}"
        threads = f"{self.threads} thread{'s' * (self.threads != 1)}"
        over = self.divided
        one = "" if over is None else f", a {over.runner} of {over.mesh}"
        return (
            f"{self.name} on {self.device.name}, {threads}{one}: {steps}, "
            f"{operations} operations, {moved}{time}"
        )

    def _steps(self) -> Section:
        shown, left = _longest(self.kernels)
        seconds = sum(part.seconds or 0.0 for part in left)
        time = f", {time_text(seconds)}; all are in .kernels" if seconds else ""
        notes = [f"{len(left):,} shorter ones{time}"] if left else []
        heads = "step", "time", "share", "operations", "bytes", "of the limit", ""
        return Section(
            self._head(), heads, list(self._rows(shown)), range(1, 5), notes,
            optional=(2, 3, 4, 5),
        )  # fmt: skip

    def _rows(
        self, parts: Iterable[tuple[int, StepReport]], front: str = ""
    ) -> Iterator[Sequence[str]]:
        """A row for each step, and behind it those of what it runs, set in."""
        for number, part in parts:
            whole, seconds, timing = self.seconds, part.seconds, part.timing
            runs = timing.runs if timing else 1
            often = f", {runs:,.0f} × {time_text(timing.each)}" if timing else ""
            yield (
                f"{front}{number} {part.name}{often if front and runs else ''}",
                "" if seconds is None else time_text(seconds),
                f"{seconds / whole:.0%}" if seconds and whole else "",
                _amount(runs * part.operations) if part.operations else "",
                _bytes(runs * part.nbytes) if part.nbytes else "",
                "" if self.most is None else part.limit(self.most),
                ", ".join(dict.fromkeys(map(str, part.origins))),
            )
            yield from self._rows(enumerate(part.inner), f"  {front}{number}.")

    def _collectives(self, divided: Divided) -> Section:
        entries = divided.ledger
        total = _bytes(sum(entry.nbytes * entry.times for entry in entries))
        rows = [
            (f"{entry.kind} over {entry.axis!r}", repr(entry.aval), entry.operation,
             _bytes(entry.nbytes), str(entry.times), str(entry.origin or ""))
            for entry in entries
        ]  # fmt: skip
        title = f"collectives: {len(rows)}; the {divided.runner} receives {total}"
        heads = "collective", "of", "for", "bytes", "times", ""
        return Section(title, heads, rows, range(3, 5), optional=(2, 4, 1))

    def _memory(self) -> Section:
        peak = self.peak
        title = (
            f"memory: arguments {_bytes(self.arguments)}, results "
            f"{_bytes(self.results)}, between steps {_bytes(self.program.arena)}"
        )
        title += f"; at step {peak.step} most" if peak.parts else ""
        return peak.table(title)


def _longest(parts: Sequence[StepReport]) -> tuple[list[Any], list[StepReport]]:
    """The steps that take longest, numbered, in order; and the others."""

    def cost(pair: tuple[int, StepReport]) -> tuple[float, float]:
        return pair[1].seconds or 0.0, pair[1].operations + pair[1].nbytes

    shown = sorted(sorted(enumerate(parts), key=cost, reverse=True)[:_STEPS])
    kept = {number for number, _ in shown}
    return shown, [part for number, part in enumerate(parts) if number not in kept]


class LiveValue(NamedTuple):
    """A value that is live between steps.

    Attributes:
      type: its dtype and shape; of what a loop or branch has for itself "scratch".
      nbytes: that it takes.
      first, last: the steps from which, and until which.
      origin: the user's line that made it.
    """

    type: str
    nbytes: int
    first: int
    last: int
    origin: Origin | None


@dataclass(frozen=True, eq=False, repr=False)
class Peak(Shown):
    """Where most memory is taken between steps.

    Attributes:
      step: its number.
      parts: what is live then, the largest first.
    """

    step: int
    parts: list[LiveValue]

    @property
    def nbytes(self) -> int:
        """What they take together."""
        return sum(held.nbytes for held in self.parts)

    def table(self, title: str) -> Section:
        """The largest parts, each with the line that made it."""
        rows = [
            (held.type, _bytes(held.nbytes), str(held.first), str(held.last),
             str(held.origin or ""))
            for held in self.parts[:_LARGEST]
        ]  # fmt: skip
        more = self.parts[_LARGEST:]
        rest = f"{len(more)} more, {_bytes(sum(held.nbytes for held in more))}"
        heads = "value", "bytes", "of step", "until step", ""
        notes = [rest] if more else []
        return Section(title, heads, rows, range(1, 4), notes, optional=(2, 3))

    def __str__(self) -> str:
        return str(
            self.table(f"{_bytes(self.nbytes)} between steps at step {self.step}")
        )


def peak_of(program: prog.Program) -> Peak:
    """The peak of a program."""
    lines = [prog.lines_of_results(step) for step in program.steps]
    nested = (prog.RunBranch, prog.RunLoop)
    scratch = {step.scratch for step in program.steps if isinstance(step, nested)}
    held: list[LiveValue] = []
    for number, life in zip(program.in_arena, program.lifetimes, strict=True):
        made = [own[number] for own in lines[life.first :] if number in own]
        of_step = prog.lines_of(program.steps[life.first]) if not made else ()
        origin = next(iter((*made, *of_step)), None)
        text = "scratch" if number in scratch else _type(program.slots[number])
        held.append(LiveValue(text, life.nbytes, life.first, life.last, origin))

    def at(step: int) -> list[LiveValue]:
        return [held for held in held if held.first <= step <= held.last]

    peaks = [Peak(i, at(i)) for i in range(len(program.steps))]
    if not peaks or any_dynamic(held.nbytes for held in held):
        return Peak(0, held)
    found = max(peaks, key=lambda peak: peak.nbytes)
    return Peak(found.step, sorted(found.parts, key=lambda held: -held.nbytes))


def _type(slot: prog.Slot) -> str:
    sizes = ",".join(map(str, slot.shape))
    return f"{slot.dtype}[{sizes}]"


def _amount(count: float) -> str:
    if is_dynamic(count):
        return str(count)
    for unit, name in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if count >= unit:
            return f"{count / unit:.3g}{name}"
    return f"{count:.3g}"


def _bytes(count: float) -> str:
    near = is_dynamic(count) or count < 1e3
    return f"{_amount(count)}{' ' if near else ''}B"


def explain(fun: Callable[P, Any]) -> Callable[P, Explanation]:
    """A function that says what runs when `fun` is called: print what it returns.

    Args:
      fun: a function of arrays, under `jit` or not.

    Returns:
      A function of the same arguments, or of `ShapeDtypeStruct`s. With arrays the
      program is run a few times, step by step, to tell the time of each; not so where
      it has effects, as printing, or where the arguments are traced. Where it is
      divided over a mesh, it says what one of the devices runs, of parts of arrays, and
      what they tell each other; nobody is waited for when it is timed.

    Example:
      >>> told = ft.explain(lambda x: fnp.sum(x * x))(fnp.ones(1000))
      >>> len(told.kernels), told.arguments  # the kernels, bytes that are read
      (1, 4000)
    """
    tree.check_callable(fun, "explain")

    @wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Explanation:
        jitted = fun if isinstance(fun, Jitted) else Jitted(fun)
        lowered = jitted.lower(*args, **kwargs)
        check_closed("explain", lowered.graph)
        graph = program = ready_graph(lowered.graph)
        leaves = jitted.leaves(args, kwargs)
        unknown = (ShapeDtypeStruct, Tracer)
        concrete = not any(isinstance(x, unknown) for x in (*leaves, *graph.captured))
        names = jitted.leaf_names(args, kwargs)
        # References are inputs, too, which no argument is.
        if len(graph.inputs) - len(graph.captured) != len(names):
            concrete, names = False, [f"input {i}" for i in range(len(graph.inputs))]
        else:
            names += names_of_captured(jitted, graph.captured)
        arrays, divided = inputs_of(graph, leaves) if concrete else [], None
        if any(lowered.places) or is_divided(lowered.graph, ()):
            graph, program, divided = _divide(lowered)
            if divided is not None and divided.made is None:
                concrete = False  # the others would have to run it as well
            arrays = [*map(_first_shard, arrays, program.inputs)]
        device = jitted.target(arrays)
        compiled = compile_graph(program, device)
        pure = all(op is None or op.pure for op in map(compound_of, graph.nodes))
        runs = list[list[Span]]()
        if concrete and pure and not compiled.program.is_dynamic:
            runs = _timed_runs(compiled, arrays)
        known = compiled.executable.program
        timings = _timings(known, runs) if runs else None
        sources = iter(compiled.executable.sources)
        built, threads = compiled.build_again(), _threads(device)
        parts = _parts(built, sources, device, timings)
        rates = [part.operations / part.seconds for part in parts if part.seconds]
        done = max(rates, default=0.0)
        return Explanation(
            display_name(jitted), device, threads, graph,
            carry_keys(closed_graph(program)), names, built, parts,
            _nbytes(program.inputs), _nbytes(program.outputs),
            roofline(device, threads, done) if runs else None, divided,
        )  # fmt: skip

    return call


def _divide(lowered: Lowered) -> tuple[Graph, Graph, Divided | None]:
    """A program over a mesh as a device has it, what that runs, and how it is divided.

    What `shard_map` does over processes is divided already: a process runs its parts.
    """
    found = divided_graph(lowered.graph, lowered.places)
    if found is None or found.mesh.size < 2:
        alone = ready_graph(lowered.graph)
        return alone, alone, None
    if found.made is None:
        return found.graph, ready_graph(found.graph), found
    return found.made.graph, spanning.program_of_device(found.made), found


def _first_shard(array: Any, node: Node) -> Array:
    """What the first device has of an array."""
    own = array.local if type(array) is spanning.Spanning else array
    own = own.bare if type(own) is Placed else own
    return own[tuple(map(slice, node.shape))]


def _nbytes(nodes: Sequence[Node]) -> int:
    return sum(n.size * n.dtype.itemsize for n in nodes)


def _threads(device: Device) -> int:
    return settings.current().threads or device.cores


def _parts(
    whole: build.BuiltProgram,
    sources: Iterator[str],
    device: Device,
    timings: Iterator[Timing] | None,
    body: int = 0,
) -> list[StepReport]:
    """The steps of a program.

    Args:
      sources: of the kernels, in order.
      timings: of the steps, each before those that it runs.
    """
    found: list[StepReport] = []
    rows = zip(whole.program.steps, whole.members(), strict=True)
    for step, (nodes, built) in rows:
        sent = isinstance(step, prog.RunExchange)  # which nobody else does here
        took = None if timings is None else next(timings)
        took = None if sent else took
        if isinstance(step, prog.RunKernel):
            info, source, inner = step.info, next(sources), list[StepReport]()
            known = info.name, info.origins, info.operations, info.bytes
        else:
            bodies = built.bodies if isinstance(built, build.BuiltStep) else ()
            source, inner = "", list[StepReport]()
            for i, each in enumerate(bodies):
                inner += _parts(each, sources, device, timings, i)
            work = work_of_step(step)
            name = prog.name_of(step).partition(" (")[0]  # without its slots
            known = name, prog.lines_of(step), work.operations, work.bytes
        found.append(
            StepReport(*known, took, step, device, source, inner, nodes, built, body)
        )
    return found

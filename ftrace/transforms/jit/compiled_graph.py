"""Graphs: compiled once per device, then called; and what becomes of them.

A graph's nodes are interned and its variables are canonical, so that the same function
traced again for the same types is the same graph: the cache of compiled graphs is
keyed by identity.
"""

# This is the path of every call: the properties of an Array would cost as much again.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ftrace.backends import base, identity_of, lowering, size_of
from ftrace.errors import OutOfMemoryError, TracingError
from ftrace.ground import process_groups, processes, settings
from ftrace.ground.fork_safe import cached_property
from ftrace.ground.spans import span
from ftrace.ground.tables import Shared, clear_tables
from ftrace.trace import graph as g, tiering
from ftrace.trace.arrays.array import HOST, Array, given_sharding, put_somewhere
from ftrace.trace.arrays.buffer import Buffer
from ftrace.trace.avals import ShapedArray
from ftrace.trace.backend import backend
from ftrace.trace.calls.carry_keys import carry_keys
from ftrace.trace.calls.inline import ready_graph
from ftrace.trace.control.conditional import closed_graph
from ftrace.trace.eager.dispatch import calls, signature
from ftrace.trace.eager.function_objects import recorded_callables
from ftrace.trace.eager.nonfinite import check_program
from ftrace.trace.eager.result_memory import own_array
from ftrace.trace.effects import inspections
from ftrace.trace.evaluate import evaluate_graph
from ftrace.trace.graph import substitute
from ftrace.trace.primitives.elementwise import constraint_p
from ftrace.trace.primitives.exchange import Between, shard_p, whole_p
from ftrace.trace.symbolic import Sizes, evaluate_shape
from ftrace.trace.tiering import Tally
from ftrace.trace.tracing.scopes import Scope, as_input, scope_of
from ftrace.trace.tracing.trace import inline, lift_as, outer_scope
from ftrace.trace.tracing.tracer import Tracer, Value
from ftrace.transforms.jit.misses import check_allowed

if TYPE_CHECKING:
    from ftrace.ground.limits import Limits
    from ftrace.lower.build.build_kernel import BuiltProgram
    from ftrace.lower.program import Program

#: Compiled graphs that are cached when nobody has them: a function that is made anew at
#: each call finds its program.
LATEST = 32
#: What a node of a graph takes with all that it becomes, and a kernel, in bytes of
#: memory besides machine code. Measured: 13 KB for eight nodes in one kernel.
NODE_BYTES, KERNEL_BYTES = 1500, 6000
#: Bytes that a node of a graph takes alone, with what keeps it apart from others.
GRAPH_BYTES = 600


def _lower(
    graph: g.Graph, given: list[g.Node], limits: Limits
) -> tuple[g.Graph, Program]:
    """The graph after the rewrites, and its program."""
    found = lowering()(graph, limits, given)
    return found.simplified, found.program  # the plan would be half of what is cached


def _program_of(lower: Callable[[], tuple[g.Graph, Program]]) -> Program:
    return lower()[1]


class CompiledGraph:
    """A graph compiled for a device: call it on arrays.

    Attributes:
      avals: the types of the outputs.
      executable: what the device made of the program.
      shares_inputs: an output is the memory of an input.
      overwritten: positions of the inputs that the program writes: donated ones.
      nbytes: what it takes in memory, roughly.
      lowered_in: seconds that the rewrites took; 0 where the program is from disk.
    """

    lowered_in = 0.0

    def __init__(
        self, graph: g.Graph, device: base.Device, donated: tuple[int, ...] = ()
    ) -> None:
        self.device = device
        with base.time_block(device.counters, "compile_seconds"):
            closed = carry_keys(closed_graph(graph))
            # Others find the program by its graph: it holds no array of this one.
            closed = g.Graph(closed.inputs, closed.outputs, (), closed.effects)
            given = [closed.inputs[i] for i in donated]
            limits = device.limits
            self._lower = partial(_lower, closed, given, limits)
            nodes = size_of(closed)
            identity = self._identity(closed, nodes, given, limits)
        with span("disk", "load"):
            found = None if identity is None else device.load(identity)
        if found is None:
            device.prepare()
            start = perf_counter()
            with base.time_block(device.counters, "compile_seconds"):
                program = self.program
            self.lowered_in = perf_counter() - start
            found = device.compile(program)
            if identity is not None:
                with span("disk", "keep"):
                    device.keep(identity, found)
        else:
            found.lined = partial(_program_of, self._lower)
        self.executable: base.Executable = found
        program = found.program
        if processes.count() > 1 and (members := _processes_of(closed)):
            text = partial(g.render_graph, closed, source_lines=False)
            self.executable = _Agreed(found, members, text)
        places = [program.slots[i].storage for i in program.outputs]
        kernels = len(program.kernels)
        self.nbytes = NODE_BYTES * nodes + KERNEL_BYTES * kernels + found.code_bytes
        self.shares_inputs = "input" in places
        written = program.written_slots
        self.overwritten = tuple(
            i for i, slot in enumerate(program.inputs) if slot in written
        )
        self.avals = [n.aval for n in graph.outputs]
        self._whole: CompiledGraph | None = None

    @property
    def simplified(self) -> g.Graph:
        """The graph after the rewrites of lowering."""
        return self._lowered[0]

    def build_again(self) -> BuiltProgram:
        """The program with what each kernel computes, and the latest lines of that.

        Who compiled the same graph before may have written it elsewhere.
        """
        graph, given, limits = self._lower.args
        return lowering()(graph, limits, given).built

    @property
    def program(self) -> Program:
        """The program; that of `executable` may be from disk, and know no lines."""
        return self._lowered[1]

    @cached_property
    def _lowered(self) -> tuple[g.Graph, Program]:
        return self._lower()

    def _identity(
        self, graph: g.Graph, nodes: int, given: list[g.Node], limits: Limits
    ) -> str | None:
        """The name under which the device may keep what becomes of a large graph."""
        chosen, device = settings.current(), self.device
        plain = not (chosen.debug or chosen.check_specs)
        if not (plain and chosen.cache_size and device.keeps_programs):
            return None
        few = nodes < tiering.STORED_NODES
        if _first_ones.reaches(tiering.STORED_FIRST) and few:
            return None
        places = tuple(map(graph.inputs.index, given))
        disabled = tuple(sorted(chosen.disabled_rules))
        return identity_of(graph, places, limits, disabled)

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """The outputs for one array per input of the graph, on any device."""
        checks = settings.current().checks_calls
        if checks and settings.current().no_execution:
            raise TracingError("a program was to run, and 'no_execution' is set")
        if self.overwritten:
            arrays = list(arrays)
            for i in self.overwritten:
                arrays[i] = self._take_over(arrays[i])
        device = self.device
        near = (device, HOST) if device.host else (device,)
        buffers: list[Buffer] = []
        for array in arrays:
            buffer = array._buffer
            if buffer is None or buffer.device not in near:
                buffer = self.to_device(array)
            buffers.append(buffer)
        try:
            results = self.executable(buffers)
        except OutOfMemoryError as error:
            # A program from disk does not know the lines that made its arrays.
            if self._whole is None and error.reported_for is not None:
                raise error.reported_for(self.program) from None
            raise
        # A token after effects is no result: map leaves it out.
        made = list(map(Array.of_type, self.avals, results))
        if checks:
            self._check(arrays, made)
        return made

    def _check(self, arrays: Sequence[Array], results: Sequence[Array]) -> None:
        """Looks at the numbers; the program is run once more where it can be."""
        repeats = self._whole is None and not self.overwritten
        operands = [array.numpy() for array in arrays] if repeats else []
        graph: g.Graph = self._lower.args[0]
        check_program(graph, operands, [result.numpy() for result in results])

    def _take_over(self, array: Array) -> Array:
        """The array's memory to be overwritten: a copy where anyone else sees it."""
        shape, dtype = array.shape, array.dtype
        buffer = self.to_device(array)
        if (
            buffer.device is not self.device
            or not self.device.reuses(buffer)
            or not array.is_held_alone(buffer)
        ):
            buffer = array.copy_to(self.device)
        array.delete()
        return Array(shape, dtype, False, buffer)

    def at(self, sizes: Sizes) -> CompiledGraph:
        """The same for sizes of the dynamic dimensions: nothing compiles."""
        found = copy(self)
        found._whole = self  # which others find as long as this one lives
        found.executable = self.executable.at(sizes)
        found.nbytes = KERNEL_BYTES * len(found.executable.program.kernels)
        found.avals = [
            ShapedArray.of(evaluate_shape(a.shape, sizes), a.dtype, a.weak_type)
            for a in self.avals
        ]
        return found

    def to_device(self, array: Array) -> Buffer:
        """The array's buffer, copied if it is on another device."""
        memory = array.memory
        if memory is self.device or (memory.host and self.device.host):
            return array.buffer
        return array.buffer_on(self.device)


def _processes_of(graph: g.Graph) -> set[int]:
    """The processes that do something together in a graph."""
    args = g.arguments_in(graph)
    return {i for arg in args if isinstance(arg, Between) for i in arg.processes}


class _Agreed(base.Executable):
    """A program of several processes, which have made sure that it is one.

    They compare its graph, with its constants; not what was captured, which are inputs.
    """

    def __init__(
        self, inner: base.Executable, members: set[int], text: Callable[[], str]
    ) -> None:
        self.inner, self.program, self.texts = inner, inner.program, inner.texts
        self.code_bytes = inner.code_bytes
        self._unknown: tuple[list[int], Callable[[], str]] | None
        self._unknown = sorted(members), text

    def __call__(self, inputs: Sequence[Buffer]) -> list[Buffer]:
        if self._unknown is not None:
            members, text = self._unknown
            process_groups.group(members).agree("a program", text)
            self._unknown = None
        try:
            return self.inner(inputs)
        except BaseException as error:
            process_groups.settle(error)  # nobody waits any more for what was started
            raise

    def at(self, sizes: Sizes) -> base.Executable:
        return self.inner.at(sizes)

    def record(self, signature: Any) -> Any:
        return None if self.program.overlaps else self.inner.record(signature)


_first_ones = Tally()

_cache: Shared[Any, CompiledGraph] = Shared(LATEST)


def compile_graph(
    graph: g.Graph, device: base.Device, donated: tuple[int, ...] = ()
) -> CompiledGraph:
    """The graph compiled for the device, or as anybody has it already.

    Args:
      donated: positions of inputs whose memory may be overwritten.
    """
    chosen = settings.current()
    key = (
        graph.inputs,
        graph.outputs,
        graph.effects,
        device.name,
        chosen.compile_key,
        donated,
    )
    found = _cache.get(key)
    if found is None:
        check_allowed(partial(_would_compile, graph, device))
        with span("compile", f"a graph for {device.name}", None):
            compiled = CompiledGraph(graph, device, donated)
        found = _cache.put(key, compiled, compiled.nbytes)
    return found


def _would_compile(graph: g.Graph, device: base.Device) -> str:
    """What is said of a graph that must not be compiled."""
    given = graph.inputs[: len(graph.inputs) - len(graph.captured)]
    types = ", ".join([repr(node.aval) for node in given])
    made = next((n.origin for n in graph.outputs if n.origin is not None), None)
    by = f", with its result from {made}," if made else ""
    return f"a program of ({types}){by} would be compiled for {device.name}"


def clear_caches() -> None:
    """Forgets all that was traced and compiled, and what eager calls have learnt.

    Jitted functions are traced anew at their next call. What is on disk stays: see
    `cache_clear`.

    Example:
      >>> f = ft.jit(lambda x: x + 1)
      >>> y = f(1.0)
      >>> ft.clear_caches()
      >>> y = f(1.0)
      >>> f.trace_count
      2
    """
    _cache.clear()
    clear_tables()
    for function in list(recorded_callables):
        function.forget_records()
    g.bury()


def cache_clear() -> None:
    """Forgets all that was ever compiled, on disk, too: see `clear_caches`."""
    clear_caches()
    for device in {base.get_device("cpu"), *base.live_devices()}:
        device.clear_cache()


def weight_of(graph: g.Graph) -> int:
    """What its nodes weigh, in bytes, if nobody else has them."""
    return GRAPH_BYTES * sum(g.operations_of(graph.outputs).values())


def device_for(
    arrays: Sequence[Array], graph: g.Graph | None = None, places: Sequence[Any] = ()
) -> Any:
    """Where a program on these arrays runs.

    That is the device of those that were put on one, or else the default. Over several
    processes it runs where an array is, or a sharding that the program itself names.

    Raises:
      ShardingError: they are on several devices, or over others.
    """
    named = [s.mesh for s in places if s is not None]
    if graph is not None and processes.count() > 1:
        meshes = import_module("ftrace.transforms.meshes")
        named = [*named, *meshes.meshes_in(graph)]
        arrays = [*arrays, *graph.captured]
    found = put_somewhere(arrays)
    for mesh in named:
        if not getattr(mesh, "is_multi_process", False):
            continue
        spanning = import_module("ftrace.transforms.partition.spanning")
        return spanning.device_over(mesh, found)
    return base.get_device() if found is None else backend().device_of(found)


def run_graph(graph: g.Graph, arrays: Sequence[Array]) -> list[Array]:
    """The outputs of a graph for concrete arguments: `graph.captured` is added."""
    whole, given, graph = graph, arrays, ready_graph(graph)
    arrays = [*arrays, *graph.captured]
    if settings.current().disable_jit:
        for array in arrays:
            array.note_read()
        own = [array.numpy() for array in arrays]  # random keys are among them
        plain = closed_graph(graph)
        values = evaluate_graph(g.Graph(plain.inputs, plain.outputs), *own)
        if settings.current().checks_calls:
            check_program(plain, own, values)
        return [
            Array.of(np.asarray(v), n.aval.weak_type)
            for v, n in zip(values, graph.outputs)  # noqa: B905
        ]
    device: Any = device_for(arrays, whole)
    if not isinstance(device, base.Device):  # arrays over several processes
        return device.run(whole, given, _run_here)
    return compile_graph(graph, device)(arrays)


def _run_here(graph: g.Graph, arrays: Sequence[Array]) -> list[Array]:
    """The outputs of what this process does of a program over several."""
    return compile_graph(graph, device_for(arrays))(arrays)


def has_compiled() -> bool:
    """Has this process compiled anything?"""
    return len(_cache) > 0


def make_native() -> None:
    """Eager calls like earlier ones need no code of Python's from now on."""
    if settings.current().native_calls:
        base.get_device("cpu").make_native()
    else:
        tiering.operations.spent = 0  # perhaps later


def apply_graph(
    graph: g.Graph, operands: Sequence[Value], closed: bool = False
) -> list[Any]:
    """The outputs of a graph: recorded where a tracer is involved, else computed.

    Args:
      closed: it is known to have no free variables.
    """
    scope = scope_of(operands) if closed else outer_scope(graph, operands)
    if scope is not None:
        return list(_inline_again(graph, operands, scope))
    inputs = zip(operands, graph.inputs)  # noqa: B905
    arrays = [as_input(x, node.aval) for x, node in inputs]
    given = [
        array
        for value, array in zip(operands, arrays, strict=True)
        if isinstance(value, np.ndarray)
    ]
    results = unalias(run_graph(graph, arrays), [*given, *graph.captured])
    if Array.any_placed and is_divided(graph, operands):
        return place_results(graph, operands, results)
    return results


def is_divided(graph: g.Graph, operands: Sequence[Value]) -> bool:
    """Is an operand or a value of the graph divided over devices, or does it ask?"""
    if g.has_any(graph.outputs, (constraint_p, shard_p, whole_p)) or inspections(graph):
        return True
    return any(map(given_sharding, (*operands, *graph.captured)))


def place_results(
    graph: g.Graph, operands: Sequence[Value], results: Sequence[Array],
    device: str | None = None,
) -> list[Any]:  # fmt: skip
    """The results, which know how they are divided; else they are on the device."""
    if any(map(given_sharding, results)):
        return list(results)  # those of several processes do
    late = import_module("ftrace.transforms.placed_results")
    return late.with_shardings(graph, operands, results, device)


def _inline_again(graph: g.Graph, operands: Sequence[Value], scope: Scope) -> list[Any]:
    """`inline`, or the nodes that it has made of these operands before."""
    if graph.effects or not scope.recalls:
        return inline(graph, operands, scope)
    pairs = zip(graph.inputs, (*operands, *graph.captured), strict=True)
    mapping = {node: lift_as(scope, value, node.aval) for node, value in pairs}
    ends = *mapping, *mapping.values(), *graph.outputs
    key = signature("inlined", len(mapping), *[node.serial for node in ends])
    nodes = [reference() for reference in calls.get(key) or ()]
    if not nodes or None in nodes:
        nodes = substitute(graph.outputs, mapping)
        calls.put(key, list(map(weakref.ref, nodes)))
    return [Tracer(node, scope) for node in nodes if node is not None]


def unalias(results: Sequence[Any], others: Sequence[Array]) -> list[Any]:
    """The results, copied where they are memory of NumPy's that one of `others` shares.

    What a function closes over may share it, as `asarray` and `reshape` do; NumPy may
    change it later. Of integers tangents are NumPy's: they have no memory.
    """
    foreign = [x._host for x in others if x._host is not None]
    if not foreign:
        return list(results)
    return [own_array(x, foreign) if type(x) is Array else x for x in results]

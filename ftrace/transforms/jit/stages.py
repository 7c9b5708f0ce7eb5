"""A jitted function for one signature: traced, lowered, compiled, and ready to run.

traced = jit(f).trace(x)      its graph; `.jaxpr`
lowered = traced.lower()      its program, kernels and sources
compiled = lowered.compile()  what runs: compiled(x)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ftrace import dtypes, errors
from ftrace.backends.base import Device, Expected, Fixed, Signature, get_device
from ftrace.ground.fast_dataclasses import OfProcess, dataclass
from ftrace.ground.fork_safe import cached_property
from ftrace.ground.settings import Config
from ftrace.trace.arrays.array import Array, given_sharding, is_array
from ftrace.trace.avals import ShapedArray
from ftrace.trace.backend import backend
from ftrace.trace.calls.inline import ready_graph
from ftrace.trace.eager.function_objects import Record
from ftrace.trace.eager.result_memory import own_array
from ftrace.trace.flatten_arguments import Output
from ftrace.trace.graph import Graph, Node, toposort
from ftrace.trace.pytree import tree
from ftrace.trace.pytree.structure_cache import Container, layout_of
from ftrace.trace.pytree.treedef import PyTreeDef
from ftrace.trace.symbolic import Sizes, same_size
from ftrace.trace.tiering import Tally
from ftrace.trace.tracing.scopes import as_input, asarray
from ftrace.trace.tracing.trace import has_free_variables
from ftrace.trace.tracing.tracer import Tracer, aval_of
from ftrace.trace.tracing.weak_constants import is_exact
from ftrace.transforms.jit import argument_kinds as arguments, compiled_graph
from ftrace.transforms.jit.compiled_graph import CompiledGraph, compile_graph
from ftrace.transforms.jit.misses import Miss
from ftrace.transforms.structs import ShapeDtypeStruct


@dataclass(eq=False)
class OneTrace(OfProcess):
    """A function traced for one signature.

    Attributes:
      graph: what it computes.
      output: the structure of its result.
      closed: it uses no tracers of transforms around it.
      nbytes: what it weighs without its programs.
      programs: what runs it, by device and settings of compilation.
      whole, sizes: what it is one choice of sizes of, if of anything, and these.
      miss: the call that it was traced for.
    """

    graph: Graph
    output: Output
    closed: bool
    nbytes: int = 0
    programs: dict[Any, Ready] = field(default_factory=dict[Any, Any])
    whole: OneTrace | None = None
    sizes: Sizes = field(default_factory=dict[str, int])
    miss: Miss | None = None


@dataclass(eq=False)
class Ready:
    """What runs for one signature.

    Attributes:
      compiled: the program.
      captured: the arrays that it takes besides the leaves.
      output: how the result is built.
      donated: the numbers of the leaves that the caller gives up.
      exact: of leaves that the program takes at 64 bits, number and type.
      hollow: the results of dtype float0, which are arrays of NumPy, as in `grad`.
      unrecorded: calls in Python, before those like them become native; None where no
        more of them do.
      records: of native calls, one for each kind of leaves.
    """

    compiled: CompiledGraph
    captured: tuple[Array, ...]
    output: Output
    donated: tuple[int, ...]
    exact: tuple[tuple[int, ShapedArray], ...]
    hollow: tuple[int, ...] = ()
    unrecorded: Tally | None = None
    records: list[Record] = field(default_factory=list[Record])

    @staticmethod
    def of(
        graph: Graph, device: Device, donated: tuple[int, ...], output: Output
    ) -> Ready:
        """A graph, ready to be compiled, compiled for a device."""
        if donated:
            _tell_of_useless(graph, [graph.inputs[i] for i in donated])
        compiled = compile_graph(graph, device, donated)
        leaves = graph.inputs[: len(graph.inputs) - len(graph.captured)]
        captured = tuple(graph.captured)
        exact = tuple([(i, n.aval) for i, n in enumerate(leaves) if is_exact(n.aval)])
        hollow = [i for i, a in enumerate(compiled.avals) if a.dtype == dtypes.float0]
        return Ready(compiled, captured, output, donated, exact, (*hollow,), Tally())

    def arrays(self, values: Sequence[Any]) -> list[Array]:
        """The leaves as the program takes them."""
        exact = dict(self.exact)
        return [
            as_input(x, exact[i]) if i in exact else asarray(x)
            for i, x in enumerate(values)
        ]

    def at(self, sizes: Sizes) -> Ready:
        """The same for sizes of the dynamic dimensions."""
        compiled = self.compiled.at(sizes)
        return replace(self, compiled=compiled, unrecorded=Tally(), records=[])

    def run(
        self,
        values: Sequence[Any],
        place: Callable[[Sequence[Array]], list[Any]] | None = None,
    ) -> Any:
        """The function's result for the leaves; donated arrays are deleted.

        Args:
          place: tells results how they are divided over devices.
        """
        given = self.arrays(values)
        if self.compiled.shares_inputs:  # NumPy may change what a result would share
            theirs: Any = np.ndarray
            given = [
                own_array(a, [x]) if isinstance(x, theirs) else a
                for x, a in zip(values, given, strict=True)
            ]
        for i in self.donated:  # one that is given twice is copied
            if any(x is given[i] for k, x in enumerate(given) if k != i):
                given[i] = Array.of(np.array(given[i].numpy()), given[i].weak_type)
        try:
            results: list[Any] = self.compiled([*given, *self.captured])
            results = results if place is None else place(results)
        finally:
            _delete(values, self.donated)
        for i in self.hollow:
            results[i] = results[i].numpy()
        return self.output.build(results)

    def record(
        self,
        config: Config,
        static: Any,
        treedef: tree.TreeDef,
        leaves: Sequence[Any],
        names: Sequence[str],
    ) -> Record | None:
        """Calls like this one without Python's code, where the device can do them.

        Args:
          static, treedef, leaves: the arguments of the call.
          names: of those that are given by name, in this order.
        """
        assert self.output.treedef is not None
        result, root = layout_of(self.output.treedef), layout_of(treedef)
        if result is None or not isinstance(root, Container) or self.hollow:
            return None
        rest, others = cast(Any, root).children
        by_name: dict[str, Expected] = dict(zip(others.keys, others.children))  # noqa: B905
        if static is not None:
            count, fixed = static
            static = count, [(place, kind, Fixed(x)) for place, kind, x in fixed]
        positional, parts = arguments.join((rest.children, by_name), static)
        kinds: list[type[Any]] = [x.__class__ for x in leaves]
        avals = [aval_of(x) for x in leaves]
        for i, aval in self.exact:
            avals[i] = aval
        signature = Signature(
            config,
            tuple(positional),
            {name: parts[name] for name in names},
            tuple(zip(kinds, avals, strict=True)),
            self.captured,
            tuple([i for i in self.donated if kinds[i] is Array]),
            self.compiled.overwritten,
            result,
            tuple(self.compiled.avals),
        )
        return self.compiled.executable.record(signature)


def run_across(
    traced: OneTrace, own: Sequence[Any], values: Sequence[Any], donated: Sequence[int]
) -> Any:
    """The function's result over several processes; donated arrays are deleted.

    Args:
      own: the leaves of the call, as the program takes them.
      values: as they were given.
      donated: the numbers of those that the caller gives up.
    """
    try:
        results = compiled_graph.apply_graph(traced.graph, own, closed=True)
    finally:
        _delete(values, donated)
    return traced.output.build(results)


def _delete(values: Sequence[Any], donated: Sequence[int]) -> None:
    for i in donated:
        if is_array(values[i]):
            values[i].delete()


def inputs_of(graph: Graph, leaves: Sequence[Any]) -> list[Array]:
    """The leaves of a call as programs of a graph take them, and what it captured."""
    rows = zip(graph.inputs, leaves, strict=False)
    given = [as_input(x, n.aval) if is_exact(n.aval) else asarray(x) for n, x in rows]
    return [*given, *graph.captured]


def concrete_inputs(what: str, graph: Graph, leaves: Sequence[Any]) -> list[Array]:
    """The same for what needs their values.

    Args:
      what: needs them, for the message.

    Raises:
      ArgumentError: one is a shape, or traced.
    """
    for leaf in (*leaves, *graph.captured):
        if isinstance(leaf, ShapeDtypeStruct):
            raise errors.ArgumentError(
                f"{what}: values are needed, got shapes; give arrays"
            )
        if isinstance(leaf, Tracer):
            raise errors.ArgumentError(
                f"{what}: values are needed, got a traced {leaf.aval!r}; call it "
                "outside of the function that is traced"
            )
    check_closed(what, graph)
    return inputs_of(graph, leaves)


def check_closed(what: str, graph: Graph) -> None:
    """Raises where a graph that stands for itself uses a value of a trace around it.

    Raises:
      ArgumentError: it does.
    """
    if has_free_variables(graph):
        raise errors.ArgumentError(
            f"{what}: the function closes over a traced value of a function around it; "
            "give it as an argument"
        )


def _tell_of_useless(graph: Graph, donated: Sequence[Node]) -> None:
    """Warns of donated leaves that are used, and that no result is as large as."""
    given = Counter([n.aval.strong() for n in toposort(graph.outputs) if n in donated])
    useless = given - Counter([n.aval.strong() for n in graph.outputs])
    if useless:
        errors.warn_user(
            f"Some donated buffers were not usable: {[*useless.elements()]}. No result "
            "of this shape and dtype is left to take them; do not donate them"
        )


if TYPE_CHECKING:
    from ftrace.backends.base import Device
    from ftrace.lower.program import Program


@dataclass(frozen=True)
class ArgInfo:
    """What is known of an argument: its type, and whether the caller gives it up."""

    _aval: ShapedArray
    donated: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return self._aval.shape

    @property
    def dtype(self) -> Any:
        return self._aval.dtype


@dataclass(frozen=True, eq=False)
class Call(OfProcess):
    """A signature of a function, as its stages hand it on.

    Attributes:
      name: of the function.
      traced: its graph.
      in_tree: the structure of the arguments that are arrays: (args, kwargs).
      types: of their leaves.
      donated: the numbers of those that the caller gives up.
      device: where it runs, of one process or of several together.
      dynamic: what calls it, where sizes are known at calls only.
      places: of the leaves those that are divided over a mesh: its shardings, or None.
    """

    name: str
    traced: OneTrace
    in_tree: tree.TreeDef
    types: Sequence[ShapedArray]
    donated: tuple[int, ...]
    device: Any
    dynamic: Callable[..., Any] | None = None
    places: tuple[Any, ...] = ()

    @property
    def is_across(self) -> bool:
        """Do several processes run it together?"""
        return not isinstance(self.device, Device)


class _Stage(OfProcess):
    """What all stages tell."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def __repr__(self) -> str:
        taken = ", ".join(map(repr, self._call.types))
        return f"<{type(self).__name__} of {self._call.name}({taken})>"

    @property
    def graph(self) -> Graph:
        """As it was traced."""
        return self._call.traced.graph

    @property
    def in_tree(self) -> PyTreeDef:
        """The structure of the arguments, (args, kwargs), without the static ones."""
        return PyTreeDef(self._call.in_tree)

    @property
    def in_avals(self) -> Any:
        """Their types, in that structure."""
        return tree.unflatten(self._call.in_tree, list(self._call.types))

    @property
    def args_info(self) -> Any:
        """Their types and whether they are given up, in that structure."""
        rows = enumerate(self._call.types)
        infos = [ArgInfo(aval, i in self._call.donated) for i, aval in rows]
        return tree.unflatten(self._call.in_tree, infos)

    @property
    def places(self) -> tuple[Any, ...]:
        """Of the leaves of the arguments the shardings over a mesh, or None."""
        return self._call.places

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The numbers of the leaves that the caller gives up."""
        return self._call.donated

    @property
    def out_tree(self) -> PyTreeDef:
        """The structure of the result."""
        return PyTreeDef(self._call.traced.output.structure)

    @property
    def out_avals(self) -> list[ShapedArray]:
        """The types of its leaves."""
        return [n.aval for n in self.graph.outputs]

    @property
    def out_info(self) -> Any:
        """Shapes and dtypes of the result."""
        structs = [ShapeDtypeStruct.of(aval) for aval in self.out_avals]
        return self._call.traced.output.build(structs)


class Traced(_Stage):
    """A function for one signature: its graph."""

    @property
    def fun_name(self) -> str:
        return self._call.name

    @property
    def jaxpr(self) -> Any:
        """The graph as a jaxpr, with JAX's classes and in JAX's grammar."""
        return backend().jaxpr_of(self.graph)

    def called_by(self, function: Callable[..., Any]) -> Traced:
        """The same, of which the compiled function calls this one."""
        return Traced(replace(self._call, dynamic=function))

    def lower(self, *, lowering_platforms: Any = None, **_: Any) -> Lowered:
        """Its program for a device."""
        return Lowered(self._call)


class _HasProgram(_Stage):
    """A stage that knows what the device runs."""

    @cached_property
    def _program_of_graph(self) -> compiled_graph.CompiledGraph:
        call = self._call
        check_closed(f"the program of {call.name}", call.traced.graph)
        graph = call.traced.graph
        if call.is_across:
            graph, _ = call.device.program(graph, call.places)
            return compiled_graph.compile_graph(graph, get_device())
        graph = ready_graph(graph)
        return compiled_graph.compile_graph(graph, call.device, call.donated)

    @property
    def simplified(self) -> Graph:
        """The graph after the rewrites of lowering."""
        return self._program_of_graph.simplified

    @property
    def program(self) -> Program:
        """Buffers and steps."""
        return self._program_of_graph.program

    @property
    def kernels(self) -> list[Any]:
        """The kernels in the order in which they run."""
        return [step.kernel for step in self.program.kernels]

    @property
    def sources(self) -> tuple[str, ...]:
        """The source text of each kernel on its device."""
        return self._program_of_graph.executable.sources

    def cost_analysis(self) -> dict[str, float]:
        """What the kernels do in one run: arithmetic operations, bytes."""
        infos = [step.info for step in self.program.kernels]
        return {
            "flops": float(sum(info.operations for info in infos)),
            "bytes accessed": float(sum(info.bytes for info in infos)),
        }

    def __str__(self) -> str:
        return self.as_text()

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The graph, the program, and the kernels, as text.

        Args:
          dialect: "graph" or "program" for one of them alone.
          debug_info: accepted for JAX's sake.

        Raises:
          ValueRangeError: the dialect is another one.
        """
        if dialect is not None:
            return str(self.compiler_ir(dialect))
        parts = [str(self.graph), str(self.program), *map(str, self.kernels)]
        return "\n\n".join(parts)

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """What the compiler has: "program", the default, or "graph".

        Raises:
          ValueRangeError: the dialect is another one.
        """
        if dialect in (None, "program"):
            return self.program
        if dialect == "graph":
            return self.simplified
        raise errors.ValueRangeError(
            f"unknown dialect: {dialect}; what ftrace compiles is a 'graph', and a "
            "'program' of kernels"
        )


def check_options(options: Mapping[str, Any] | None) -> None:
    """Raises for what is no option of XLA's; those have no effect."""
    for name in options or ():
        if not name.startswith("xla_"):
            raise errors.DeviceError(
                f"No such compile option: {name!r}; those of XLA begin with 'xla_', "
                "and have no effect here"
            )


class Lowered(_HasProgram):
    """A function for one signature: graph, kernels, source, program."""

    def compile(self, compiler_options: Any = None, **_: Any) -> Compiled:
        """The function for exactly this signature, compiled ahead."""
        check_options(compiler_options)
        return Compiled(self._call)


@dataclass(frozen=True)
class MemoryStats:
    """What a program takes, in bytes of one device.

    Devices of one process have one memory for the time of a run; each counts its share.
    """

    argument_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int
    temp_size_in_bytes: int
    generated_code_size_in_bytes: int


class Compiled(_HasProgram):
    """A function for one signature, ready to run: call it on such arguments."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._ready: Ready | None = None
        if call.is_across:
            assert self.program  # ahead of calls, which find it
            return
        graph = ready_graph(call.traced.graph)
        output = call.traced.output
        self._ready = Ready.of(graph, call.device, call.donated, output)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result; static arguments are not given again.

        Raises:
          TreeError: the arguments have another structure.
          DtypeError: one has another shape or dtype.
        """
        if self._call.dynamic is not None:
            return self._call.dynamic(*args, **kwargs)
        values, treedef = tree.flatten((args, kwargs))
        if treedef != self._structure:
            raise errors.TreeError(
                "Function compiled with input pytree does not match the input pytree "
                f"it was called with: {self._call.name} was compiled for arguments of "
                f"structure {tree.readable(self._structure)}, and was called with "
                f"{tree.readable(treedef)}"
            )
        for i, (value, aval) in enumerate(zip(values, self._call.types, strict=True)):
            got = aval_of(value)
            if got.dtype != aval.dtype or not same_size(got.shape, aval.shape):
                raise errors.DtypeError(
                    "Argument types differ from the types for which this computation "
                    f"was compiled: argument number {i} of {self._call.name} was "
                    f"compiled with {aval!r} and was called with {got!r}"
                )
        traced = self._call.traced
        if Tracer in map(type, values):
            return traced.output.build(compiled_graph.apply_graph(traced.graph, values))
        place = None
        if Array.any_placed:
            self._check_places(values)
        if self._ready is None:
            rows = zip(values, self._shardings[0], strict=True)
            own = [self._call.device.cut(x, wanted) for x, wanted in rows]
            return run_across(traced, own, values, self._call.donated)
        if Array.any_placed and compiled_graph.is_divided(traced.graph, values):
            place = partial(compiled_graph.place_results, traced.graph, values)
        return self._ready.run(values, place)

    def _check_places(self, values: Sequence[Any]) -> None:
        """Raises where an argument was put elsewhere than it is compiled for."""
        rows = zip(values, self._shardings[0], strict=True)
        for i, (value, wanted) in enumerate(rows):
            given = given_sharding(value)
            if given is not None and not given.is_equivalent_to(wanted, value.ndim):
                raise errors.ShardingError(
                    "Computation was compiled for input shardings that disagree with "
                    f"the shardings of arguments passed to it: argument number {i} of "
                    f"{self._call.name} was compiled for {wanted}, and was called with "
                    f"one that lies as {given}; move it with device_put(x, sharding)"
                )

    @cached_property
    def _structure(self) -> tree.TreeDef:
        args, kwargs = tree.unflatten(self._call.in_tree, [0] * len(self._call.types))
        return tree.structure((tuple(args), kwargs))

    def memory_analysis(self) -> MemoryStats:
        """What a run of it takes."""

        def sizes(avals: Sequence[ShapedArray], places: Sequence[Any]) -> list[int]:
            rows = zip(avals, places, strict=True)
            return [prod(s.shard_shape(a.shape)) * a.dtype.itemsize for a, s in rows]

        compiled, (ins, outs) = self._program_of_graph, self._shardings
        devices = max([len(s.addressable_devices) for s in (*ins, *outs)], default=1)
        given = sizes(self._call.types, ins)
        return MemoryStats(
            sum(given), sum(sizes(self.out_avals, outs)),
            sum([given[i] for i in compiled.overwritten]),
            -(-self.program.arena // devices), compiled.executable.code_bytes,
        )  # fmt: skip

    @property
    def input_shardings(self) -> Any:
        """How the arguments lie: over a mesh, or each on the device."""
        args, kwargs = tree.unflatten(self._call.in_tree, self._shardings[0])
        return tuple(args), kwargs

    @property
    def output_shardings(self) -> Any:
        """How the result lies, likewise."""
        return self._call.traced.output.build(self._shardings[1])

    @cached_property
    def _shardings(self) -> tuple[list[Any], list[Any]]:
        """Those of the leaves of the arguments, and of the results."""
        call = self._call
        graph, places = call.traced.graph, call.places
        across = call.device.program(graph, places)[1] if call.is_across else None
        if across or any(places) or compiled_graph.is_divided(graph, ()):
            results = import_module("ftrace.transforms.placed_results")
            found = results.shardings_of(graph, places, across)
            if found is not None:
                return found
        shardings = import_module("ftrace.transforms.shardings")
        whole = shardings.SingleDeviceSharding(call.device)
        return [whole] * len(call.types), [whole] * len(self.out_avals)

    @property
    def input_formats(self) -> Any:
        """How the elements of the arguments lie: row-major, where they are."""
        leaves = self._formats(self._call.types, self._shardings[0])
        args, kwargs = tree.unflatten(self._call.in_tree, leaves)
        return tuple(args), kwargs

    @property
    def output_formats(self) -> Any:
        """How those of the result lie."""
        leaves = self._formats(self.out_avals, self._shardings[1])
        return self._call.traced.output.build(leaves)

    def _formats(self, avals: Sequence[ShapedArray], places: Sequence[Any]) -> Any:
        shardings = import_module("ftrace.transforms.shardings")
        rows = zip(avals, places, strict=True)
        return [shardings.row_major(aval.ndim, place) for aval, place in rows]

    def runtime_executable(self) -> Any:
        """What the device runs."""
        return self._program_of_graph.executable

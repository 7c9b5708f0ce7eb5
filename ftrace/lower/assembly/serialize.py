"""Programs, kernels and graphs as text: the same in every process.

    program  = JSON: [kernels, infos, program], where a step says the number of its
               kernel, and of what people are told of it; then the kernels, a line each
    kernel   = [buffers, is its length bounded?]; its line = JSON: [nodes, kernel]
    identity = [bodies, nodes, kernel or graph]; body = [its number, nodes, body]
    node     = [op, type, argument, sources], in the order of their numbers
    type     = [dtype, shape, is it weak?]
    part     = number, text, null | [its kind, its parts …]

No address, no serial number and no order of a set goes into a text. That of a program
is read back, so that another process need not lower it again. A kernel stays text
until somebody looks at it: to run a program takes its code and its buffers alone. What
people are told of a kernel but its lines is in it. Of what the host computes it has the
operation, its argument and the types of its operands.

An identity is what a cache on disk is keyed by: equal kernels have equal ones, others
have not. It need not be read back, so that more has one. `str(kernel)` is for people:
it leaves out dtypes, for example.

What calls a function of the user has no text: another process may have another function
of that name. Nor have dynamic dimensions.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import Any, cast

import numpy as np

from ftrace import dtypes
from ftrace.errors import GraphError
from ftrace.ground.fork_safe import cached_property
from ftrace.lower.kernel import ir
from ftrace.lower.program import CallHost, Program, RunKernel
from ftrace.trace import graph as g
from ftrace.trace.avals import Bundle, ShapedArray
from ftrace.trace.graph import make_node
from ftrace.trace.primitives.primitive import COMPOUNDS, PRIMITIVES
from ftrace.trace.primitives.sources import variable

#: Kinds of parts by the names that they have in a text, and where they are: those of
#: kernels are loaded when a text has one.
_HOMES = {
    "ftrace.lower.library.lapack_kernels": "Factor",
    "ftrace.lower.library.fft_kernels": "Form Transform",
    "ftrace.lower.kernel.ir": "Axis BufferSpec Kernel KernelInfo Store",
    "ftrace.lower.library.sort_kernels": "Ordering",
    "ftrace.lower.program": "Carry Lifetime Program RunBranch RunLoop Slot",
    "ftrace.lower.register_loops.register_loop": "Assign Recurrence Repeat Scan",
}
_HOST_HOMES = {
    "ftrace.trace.primitives.library.scan": "Along Running Share",
    "ftrace.trace.primitives.library.fft": "Fourier",
    "ftrace.trace.primitives.library.sorting": "TopK",
    "ftrace.trace.primitives.library.systems": "Op Triangular",
}
_KINDS = {
    f"{mark}{name}": (home, name)
    for mark, homes in (("", _HOMES), ("host ", _HOST_HOMES))
    for home, names in homes.items()
    for name in names.split()
}
_NAMES = {place: name for name, place in _KINDS.items()}
_OPS: dict[str, g.Op] = {
    op.name: op for op in (ir.param_p, ir.range_p, ir.load_p, ir.reduce_p, ir.fma_p)
}
#: What `isinstance` is asked for, so that the parts stay untyped.
_LIST: tuple[type[Any], ...] = (list,)
_ATOMS = frozenset((type(None), bool, int, float, str))
_set = object.__setattr__


class _NoTextError(Exception):
    """A part of a program has no text."""


#: What reading a text of another form raises.
_OTHER_FORM = (ValueError, TypeError, KeyError, IndexError, AttributeError)


class _StoredKernel:
    """A kernel as text."""

    def __init__(
        self, text: str, buffers: tuple[ir.BufferSpec, ...], bounded: bool
    ) -> None:
        self._text = text
        self.buffers = buffers
        self.bounded = bounded

    @cached_property
    def kernel(self) -> ir.Kernel:
        try:
            nodes, whole = json.loads(self._text)
            found = _Reader(nodes=nodes).decode(whole)
        except _OTHER_FORM as error:
            raise GraphError(
                "the text of a kernel in the disk cache is none"
            ) from error
        assert isinstance(found, ir.Kernel)
        return found


class RunStored(RunKernel):
    """Run a kernel whose code is there; what it computes is read when asked for."""

    def __init__(
        self, stored: _StoredKernel, slots: tuple[int, ...], info: ir.KernelInfo
    ) -> None:
        _set(self, "stored", stored)
        _set(self, "slots", slots)
        _set(self, "info", info)

    @property
    def kernel(self) -> ir.Kernel:  # pyright: ignore[reportIncompatibleVariableOverride]
        return vars(self)["stored"].kernel

    @property
    def buffers(self) -> tuple[ir.BufferSpec, ...]:
        return vars(self)["stored"].buffers

    @property
    def bounded(self) -> bool:
        return vars(self)["stored"].bounded


def program_text(program: Program) -> str | None:
    """The text of a program; None if it has none."""
    writer = _Writer(readable=True)
    try:
        whole = writer.encode(program)
    except _NoTextError:
        return None
    head = _dump([writer.kernels, writer.infos, whole])
    return "\n".join([head, *writer.texts])


def program_of(text: str) -> Program | None:
    """The program that `program_text` wrote; None for any other text."""
    try:
        head, *texts = text.split("\n")
        kernels, infos, whole = json.loads(head)
        found = _Reader(kernels, texts, infos).decode(whole)
    except _OTHER_FORM:
        return None
    return found if isinstance(found, Program) else None


def kernel_identity(kernel: ir.Kernel) -> str | None:
    """The identity of a kernel; None if it has none."""
    return _identity(kernel)


def graph_identity(graph: g.Graph, *settings: Any) -> str | None:
    """The identity of a graph without calls, and of what else decides its lowering.

    None if it has effects or dynamic dimensions, or holds functions.
    """
    if graph.effects:
        return None
    whole = graph.inputs, graph.outputs, settings
    return _identity(whole, g.toposort(graph.outputs))


def _identity(value: Any, nodes: Iterable[g.Node] = ()) -> str | None:
    writer = _Writer(readable=False)
    try:
        writer.write(nodes)
        whole = writer.encode(value)
    except _NoTextError:
        return None
    # In half the time of JSON; this form has no references and no interned names.
    found = [list(writer.bodies.values()), writer.nodes, whole]
    return marshal.dumps(found, 2).decode("latin-1")


def size_of_graph(graph: g.Graph) -> int:
    """How many nodes it has, those of bodies included."""
    graphs = g.graphs_within(graph.outputs)
    return sum(sum(g.operations_of(outputs).values()) for outputs in graphs)


def _dump(whole: Any) -> str:
    return json.dumps(whole, separators=(",", ":"), check_circular=False)


def _op_of(name: str) -> g.Op | None:
    return _OPS[name] if name in _OPS else PRIMITIVES.get(name)


@cache
def _from_parts(name: str) -> Callable[[list[Any]], Any]:
    """What makes a value of the kind of that name from its parts, as pickle does.

    Constructors would be written first: 0.2 ms of a warm start, of a loop.

    Raises:
      KeyError: there is none.
    """
    home, own = _KINDS[name]
    kind: Any = getattr(import_module(home), own)
    if issubclass(kind, tuple):
        return lambda parts: cast("Any", kind(*parts))
    names = [field.name for field in fields(kind)]

    def make(parts: list[Any]) -> Any:
        made: object = object.__new__(kind)
        for field_name, part in zip(names, parts, strict=True):
            _set(made, field_name, part)  # without a dict of its own
        return made

    return make


@cache
def _form(
    kind: type[Any], readable: bool
) -> tuple[str, Callable[[Any], tuple[Any, ...]]] | None:
    """The name of a kind of parts, and what gives the parts of one."""
    name = _NAMES.get((kind.__module__, kind.__qualname__))
    if name is None and not readable and kind.__module__.startswith("ftrace."):
        name = kind.__name__
    if name is None:
        return None
    if issubclass(kind, tuple):
        return name, tuple
    if not is_dataclass(kind):
        return None
    names = [field.name for field in fields(kind)]
    if len(names) > 1:
        return name, attrgetter(*names)
    return name, lambda value: tuple([getattr(value, own) for own in names])


class _Writer:
    """Writes one program, or one kernel or graph: what these are made of are nodes.

    Args:
      readable: only what a `_Reader` reads.
    """

    def __init__(self, readable: bool, bodies: dict[g.Body, Any] | None = None) -> None:
        self.nodes: list[Any] = []
        self.kernels: list[Any] = []
        self.texts: list[str] = []
        self.infos: list[Any] = []
        self.bodies: dict[g.Body, Any] = {} if bodies is None else bodies
        self._readable = readable
        self._numbers: dict[g.Node, int] = {}
        self._types: dict[ShapedArray, Any] = {}
        self._kernel_numbers: dict[ir.Kernel, int] = {}
        self._info_numbers: dict[ir.KernelInfo, int] = {}

    def encode(self, value: Any) -> Any:
        kind: type[Any] = value.__class__
        if kind in _ATOMS:
            return value
        if kind is tuple:
            return ["(", *self._encode_all(value)]
        if kind is g.Node:
            return ["%", self._number(value)]
        if kind is g.Body and not self._readable:
            return ["body", self._body(value)]
        form = _form(kind, self._readable)
        if form is not None:
            name, parts_of = form
            return [name, *self._encode_all(parts_of(value))]
        if kind is frozenset:
            return ["{", *sorted(self._encode_all(value), key=_dump)]
        if kind is bytes:
            return ["b", value.hex()]
        if isinstance(value, np.dtype):
            return ["d", dtypes.name_of(cast("np.dtype[Any]", value))]
        if kind is CallHost:
            return self._call(value)
        if isinstance(value, RunKernel):
            number = self._kernel(value.kernel), self._info(value.info)
            return ["run", *number, self.encode(value.slots)]
        raise _NoTextError

    def _encode_all(self, values: Iterable[Any]) -> list[Any]:
        return [v if v.__class__ in _ATOMS else self.encode(v) for v in values]

    def _info(self, info: ir.KernelInfo) -> int:
        """The number of what people are told of a kernel, but for its lines."""
        told = ir.KernelInfo(info.name, (), info.operations, info.bytes, info.nodes)
        number = self._info_numbers.get(told)
        if number is None:
            number = self._info_numbers[told] = len(self.infos)
            self.infos.append(self.encode(told))
        return number

    def _kernel(self, kernel: ir.Kernel) -> int:
        """The number of a kernel; equal ones have one."""
        number = self._kernel_numbers.get(kernel)
        if number is None:
            number = self._kernel_numbers[kernel] = len(self.kernels)
            writer = _Writer(readable=True)
            whole = writer.encode(kernel)
            self.texts.append(_dump([writer.nodes, whole]))
            self.kernels.append([self.encode(kernel.buffers), kernel.bounded])
        return number

    def _call(self, step: CallHost) -> list[Any]:
        """An operation and the types of its operands; the slots say where they are."""
        node = step.node
        if COMPOUNDS.get(node.op.name) is not node.op:
            raise _NoTextError
        types = [self._type(operand.aval) for operand in node.src]
        slots = self.encode(step.operands), self.encode(step.results)
        return ["host", node.op.name, self.encode(node.arg), types, *slots]

    def _body(self, body: g.Body) -> int:
        """The number of a body; it has nodes of its own."""
        if body not in self.bodies:
            inner = _Writer(False, self.bodies)
            inner.write(g.toposort(body.outputs))
            whole = inner.encode((body.inputs, body.outputs))
            self.bodies[body] = [len(self.bodies), inner.nodes, whole]
        return self.bodies[body][0]

    def _number(self, node: g.Node) -> int:
        if node not in self._numbers:
            self.write(g.toposort((node,), self._numbers))
        return self._numbers[node]

    def write(self, nodes: Iterable[g.Node]) -> None:
        """Writes nodes, sources first, none of which is written."""
        for node in nodes:
            self.nodes.append(self._row(node))
            self._numbers[node] = len(self._numbers)

    def _row(self, node: g.Node) -> Any:
        op = node.op
        if (self._readable and _op_of(op.name) is not op) or op.name in ir.OF_USERS:
            raise _NoTextError
        sources = [self._numbers[s] for s in node.src]
        return [op.name, self._type(node.aval), self.encode(node.arg), sources]

    def _type(self, aval: ShapedArray) -> Any:
        if aval not in self._types:
            self._types[aval] = self._new_type(aval)
        return self._types[aval]

    def _new_type(self, aval: ShapedArray) -> Any:
        if type(aval) is ShapedArray:
            dtype, shape = dtypes.name_of(aval.dtype), self.encode(aval.shape)
            return [dtype, shape, int(aval.weak_type)]
        if self._readable:
            raise _NoTextError
        if type(aval) is Bundle:
            return [self._type(item) for item in aval.items]
        return [type(aval).__name__, repr(aval)]  # of what people do not see: a token


class _Reader:
    """Reads what a `_Writer` has written."""

    def __init__(
        self,
        kernels: Sequence[Any] = (),
        texts: Sequence[str] = (),
        infos: Sequence[Any] = (),
        nodes: Sequence[Any] = (),
    ) -> None:
        self._nodes: list[g.Node] = []
        for row in nodes:
            self._nodes.append(self._node(*row))
        self._kernels = [
            _StoredKernel(text, self.decode(specs), bounded)
            for text, (specs, bounded) in zip(texts, kernels, strict=True)
        ]
        self._infos: list[ir.KernelInfo] = [self.decode(info) for info in infos]

    def _node(self, name: str, kind: Any, argument: Any, sources: list[int]) -> g.Node:
        op, src = _op_of(name), tuple([self._nodes[s] for s in sources])
        if op is None:
            raise KeyError(name)
        return make_node(op, self._type(kind), src, self.decode(argument))

    def _type(self, kind: Any) -> ShapedArray:
        dtype, shape, weak = kind
        return ShapedArray.of(self.decode(shape), _dtype(dtype), bool(weak))

    def decode(self, value: Any) -> Any:
        if not isinstance(value, _LIST):
            return value
        kind: str = value[0]
        parts: list[Any] = value[1:]
        if kind == "%":
            number: int = parts[0]
            return self._nodes[number]
        if kind == "run":
            kernel: int = parts[0]
            info: int = parts[1]
            slots = self.decode(parts[2])
            return RunStored(self._kernels[kernel], slots, self._infos[info])
        if kind == "host":
            return self._call(*parts)
        if kind == "b":
            return bytes.fromhex(parts[0])
        if kind == "d":
            return _dtype(parts[0])
        # Most parts are plain: a call for each would take longer than all else.
        found = [self.decode(p) if isinstance(p, _LIST) else p for p in parts]
        if kind == "(":
            return tuple(found)
        if kind == "{":
            return frozenset(found)
        return _from_parts(kind)(found)

    def _call(
        self, name: str, argument: Any, types: list[Any], operands: Any, results: Any
    ) -> CallHost:
        values = [variable(self._type(t), 0, n) for n, t in enumerate(types)]
        node = COMPOUNDS[name](*values, arg=self.decode(argument))
        return CallHost(node, self.decode(operands), self.decode(results))


@cache
def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(name)

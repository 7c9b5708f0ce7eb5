"""Programs as text and back, so that another process need not lower them again.

    text   = JSON: [kernels, infos, program], where a step says the number of its
             kernel, and of what people are told of it
    kernel = [text, buffers, is its length bounded?]; text = JSON: [nodes, kernel]
    node   = [op, dtype, shape, argument, sources], in the order of their numbers
    part   = number, text, null | [its kind, its parts …]

A kernel stays text until somebody looks at it: to run a program takes its code and
its buffers alone.

Programs have a text but those that call a function of the user: another process may
have another function of that name. What people are told of a kernel but its lines is
in it. Of what the host computes it has the operation, its argument and the types of
its operands.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import Any, cast

import numpy as np

from ftrace import dtypes
from ftrace.errors import GraphError
from ftrace.locks import cached_property
from ftrace.lower.kernel import (
    BufferSpec,
    Kernel,
    KernelInfo,
    fma_p,
    load_p,
    param_p,
    range_p,
    reduce_p,
)
from ftrace.lower.program import CallHost, Program, RunKernel
from ftrace.lower.users import OF_USERS
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node, Op, make_node
from ftrace.trace.primitives.record import COMPOUNDS, PRIMITIVES
from ftrace.trace.primitives.source import variable

#: Kinds of parts by the names that they have in a text, and where they are: those of
#: kernels are loaded when a text has one.
_HOMES = {
    "ftrace.lower.factors": "Factor",
    "ftrace.lower.fourier_kernel": "Form Transform",
    "ftrace.lower.kernel": "Axis BufferSpec Kernel KernelInfo Store",
    "ftrace.lower.memory": "Lifetime",
    "ftrace.lower.ordering": "Ordering",
    "ftrace.lower.program": "Carry CopySlot Program RunBranch RunLoop Slot",
    "ftrace.lower.recurrence": "Assign Recurrence Repeat",
    "ftrace.lower.running": "Running",
}
_HOST_HOMES = {
    "ftrace.trace.primitives.host.cumulative": "Along Running Share",
    "ftrace.trace.primitives.host.fourier": "Fourier",
    "ftrace.trace.primitives.host.lu": "Op",
    "ftrace.trace.primitives.host.sorting": "TopK",
    "ftrace.trace.primitives.host.triangular": "Triangular",
}
_KINDS = {
    f"{mark}{name}": (home, name)
    for mark, homes in (("", _HOMES), ("host ", _HOST_HOMES))
    for home, names in homes.items()
    for name in names.split()
}
_NAMES = {place: name for name, place in _KINDS.items()}
_OPS: dict[str, Op] = {
    op.name: op for op in (param_p, range_p, load_p, reduce_p, fma_p)
}
#: What `isinstance` is asked for, so that the parts stay untyped.
_LIST: tuple[type[Any], ...] = (list,)
_PLAIN = frozenset((type(None), bool, int, float, str))


class _NoTextError(Exception):
    """A part of a program has no text."""


#: What reading a text of another form raises.
_OTHER_FORM = (ValueError, TypeError, KeyError, IndexError, AttributeError)


class _KeptKernel:
    """A kernel as text."""

    def __init__(
        self, text: str, buffers: tuple[BufferSpec, ...], bounded: bool
    ) -> None:
        self._text = text
        self.buffers = buffers
        self.bounded = bounded

    @cached_property
    def kernel(self) -> Kernel:
        try:
            nodes, whole = json.loads(self._text)
            found = _Reader(nodes=nodes).part(whole)
        except _OTHER_FORM as error:
            raise GraphError(
                "the text of a kernel in the disk cache is none"
            ) from error
        assert isinstance(found, Kernel)
        return found


class RunStored(RunKernel):
    """Run a kernel whose code is there; what it computes is read when asked for."""

    def __init__(
        self, kept: _KeptKernel, slots: tuple[int, ...], info: KernelInfo
    ) -> None:
        vars(self).update(kept=kept, slots=slots, info=info)

    @property
    def kernel(self) -> Kernel:  # pyright: ignore[reportIncompatibleVariableOverride]
        return vars(self)["kept"].kernel

    @property
    def buffers(self) -> tuple[BufferSpec, ...]:
        return vars(self)["kept"].buffers

    @property
    def bounded(self) -> bool:
        return vars(self)["kept"].bounded


def program_text(program: Program) -> str | None:
    """The text of a program; None if it has none."""
    writer = _Writer()
    try:
        whole = writer.part(program)
    except _NoTextError:
        return None
    return _dumped([writer.kernels, writer.infos, whole])


def program_of(text: str) -> Program | None:
    """The program that `program_text` wrote; None for any other text."""
    try:
        kernels, infos, whole = json.loads(text)
        found = _Reader(kernels, infos).part(whole)
    except _OTHER_FORM:
        return None
    return found if isinstance(found, Program) else None


def _dumped(whole: Any) -> str:
    return json.dumps(whole, separators=(",", ":"))


def _op_of(name: str) -> Op:
    if name in OF_USERS:
        raise _NoTextError  # a user's function: another process may have another
    return _OPS[name] if name in _OPS else PRIMITIVES[name]


@cache
def _kind(name: str) -> type[Any]:
    """The class of that name.

    Raises:
      KeyError: there is none.
    """
    home, own = _KINDS[name]
    return getattr(import_module(home), own)


@cache
def _form(kind: type[Any]) -> tuple[str, Callable[[Any], tuple[Any, ...]]] | None:
    """The name of a kind of parts, and what gives the parts of one."""
    name = _NAMES.get((kind.__module__, kind.__qualname__))
    if name is None:
        return None
    if issubclass(kind, tuple):
        return name, tuple
    names = [field.name for field in fields(kind)]
    get = attrgetter(*names)
    return name, (lambda value: (get(value),)) if len(names) == 1 else get


class _Writer:
    """Writes one program, or one kernel: what a kernel is made of are nodes."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.kernels: list[Any] = []
        self.infos: list[Any] = []
        self._numbers: dict[Node, int] = {}
        self._kernel_numbers: dict[Kernel, int] = {}
        self._info_numbers: dict[KernelInfo, int] = {}

    def part(self, value: Any) -> Any:
        kind = cast("type[Any]", type(value))
        if kind in _PLAIN:
            return value
        form = _form(kind)
        if form is not None:
            name, parts_of = form
            return [name, *self._parts(parts_of(value))]
        if kind is Node:
            return ["%", self._number(value)]
        if kind is tuple:
            return ["(", *self._parts(value)]
        if kind is frozenset:
            parts = [self.part(v) for v in value]
            if not all(isinstance(p, int) for p in parts):
                raise _NoTextError
            return ["{", *sorted(parts)]
        if kind is bytes:
            return ["b", value.hex()]
        if isinstance(value, np.dtype):
            return ["d", dtypes.name_of(cast("np.dtype[Any]", value))]
        if kind is CallHost:
            return self._call(value)
        if isinstance(value, RunKernel):
            number = self._kernel(value.kernel), self._info(value.info)
            return ["run", *number, self.part(value.slots)]
        raise _NoTextError

    def _parts(self, values: Iterable[Any]) -> list[Any]:
        return [v if v.__class__ in _PLAIN else self.part(v) for v in values]

    def _info(self, info: KernelInfo) -> int:
        """The number of what people are told of a kernel, but for its lines."""
        told = KernelInfo(info.name, (), info.operations, info.bytes, info.nodes)
        number = self._info_numbers.get(told)
        if number is None:
            number = self._info_numbers[told] = len(self.infos)
            self.infos.append(self.part(told))
        return number

    def _kernel(self, kernel: Kernel) -> int:
        """The number of a kernel; equal ones have one."""
        number = self._kernel_numbers.get(kernel)
        if number is None:
            number = self._kernel_numbers[kernel] = len(self.kernels)
            writer = _Writer()
            whole = writer.part(kernel)
            text = _dumped([writer.nodes, whole])
            self.kernels.append([text, self.part(kernel.buffers), kernel.bounded])
        return number

    def _call(self, step: CallHost) -> list[Any]:
        """An operation and the types of its operands; the slots say where they are."""
        node = step.node
        if COMPOUNDS.get(node.op.name) is not node.op:
            raise _NoTextError
        types: list[Any] = []
        for aval in [operand.aval for operand in node.src]:
            if type(aval) is not ShapedArray:
                raise _NoTextError
            types.append(
                [dtypes.name_of(aval.dtype), self.part(aval.shape), aval.weak_type]
            )
        slots = self.part(step.operands), self.part(step.results)
        return ["host", node.op.name, self.part(node.arg), types, *slots]

    def _number(self, node: Node) -> int:
        pending = [node]
        while pending:
            last = pending[-1]
            missing = [s for s in last.src if s not in self._numbers]
            if missing:
                pending.extend(missing)
                continue
            pending.pop()
            if last not in self._numbers:
                self.nodes.append(self._row(last))
                self._numbers[last] = len(self._numbers)
        return self._numbers[node]

    def _row(self, node: Node) -> Any:
        aval, op = node.aval, node.op
        try:
            known = _op_of(op.name) is op
        except KeyError:
            known = False
        if not known or aval != ShapedArray.of(aval.shape, aval.dtype):
            raise _NoTextError
        shape = self.part(aval.shape)
        sources = [self._numbers[s] for s in node.src]
        return [
            op.name,
            dtypes.name_of(aval.dtype),
            shape,
            self.part(node.arg),
            sources,
        ]


class _Reader:
    """Reads what a `_Writer` has written."""

    def __init__(
        self,
        kernels: Sequence[Any] = (),
        infos: Sequence[Any] = (),
        nodes: Sequence[Any] = (),
    ) -> None:
        self._nodes: list[Node] = []
        for row in nodes:
            self._nodes.append(self._node(*row))
        self._kernels = [
            _KeptKernel(text, self.part(specs), bounded)
            for text, specs, bounded in kernels
        ]
        self._infos: list[KernelInfo] = [self.part(info) for info in infos]

    def _node(
        self, name: str, dtype: str, shape: Any, argument: Any, sources: list[int]
    ) -> Node:
        aval = ShapedArray.of(self.part(shape), _dtype(dtype))
        src = tuple([self._nodes[s] for s in sources])
        return make_node(_op_of(name), aval, src, self.part(argument))

    def part(self, value: Any) -> Any:
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
            slots = self.part(parts[2])
            return RunStored(self._kernels[kernel], slots, self._infos[info])
        if kind == "host":
            return self._call(*parts)
        if kind == "b":
            return bytes.fromhex(parts[0])
        if kind == "d":
            return _dtype(parts[0])
        found: list[Any] = [self.part(p) for p in parts]
        if kind == "(":
            return tuple(found)
        if kind == "{":
            return frozenset(found)
        return _kind(kind)(*found)

    def _call(
        self, name: str, argument: Any, types: list[Any], operands: Any, results: Any
    ) -> CallHost:
        avals = [
            ShapedArray.of(self.part(shape), _dtype(dtype), weak)
            for dtype, shape, weak in types
        ]
        values = [variable(aval, 0, number) for number, aval in enumerate(avals)]
        node = COMPOUNDS[name](*values, arg=self.part(argument))
        return CallHost(node, self.part(operands), self.part(results))


@cache
def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(name)

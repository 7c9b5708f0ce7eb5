"""The kernel: scalar expressions over ranges, and what they store.

The grammar (every expression is an interned `Node` with a scalar aval):

    kernel = axes, stores, buffers
    store  = buffer[index] (combine)= value   where valid
    value  = const
           | elementwise(value, …)            the primitives of trace/primitives
           | load(param, index[, valid])      zero where valid is false, no access
           | reduce[op](value, range, …)      over all values of its ranges
           | index                            int64 arithmetic on ranges
    index  = const | dim | range | add | sub | mul | div | rem | select | load | …

An axis of the kernel is a range that its loops run over, outermost first; a range of
a reduce is closed by that reduce. Where an expression uses no range of a loop it does
not change in that loop: `loop_tree.place` computes it outside. Two reduces that share
their ranges share their loops.

Index arithmetic is on numbers that are not negative where the access is valid, so
that `div` and `rem` are the floor division and its remainder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from math import prod
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from ftrace import dtypes
from ftrace.errors import Origin
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.ground.fork_safe import cached_property
from ftrace.trace import graph as g
from ftrace.trace.avals import ShapedArray
from ftrace.trace.primitives.elementwise import cast_p, mul
from ftrace.trace.primitives.sources import dim_p
from ftrace.trace.symbolic import any_dynamic


@dataclass(frozen=True, eq=False, repr=False)
class KernelOp(g.Op):
    """An operation that exists in kernels only."""

    family: str = "kernel"

    def __call__(self, *src: g.Node, arg: Any = None) -> g.Node:
        return g.make_node(self, src[0].aval, src, arg)


class Axis(NamedTuple):
    """The argument of a range node.

    Attributes:
      number: tells ranges of one kernel apart; canonical, so that equal kernels are
        equal objects.
      size: the range runs over 0 … size - 1.
      reduced: closed by a reduce; else an axis of the kernel.
    """

    number: int
    size: int
    reduced: bool


param_p = KernelOp("param")
range_p = KernelOp("range")
load_p = KernelOp("load")
reduce_p = KernelOp("reduce")
#: a·b + c, rounded once; made by `lower/legalize/term.py` for devices that have
#: it.
fma_p = KernelOp("fma")
#: Two products of bfloat16, whose factors are the halves of two float32; in a sum only.
pairs_p = KernelOp("pairs")
#: The same of two int16 in the halves of an int32, and of four numbers of 8 bits, of
#: which those of the first factor have no sign; the sum wraps.
word_pairs_p = KernelOp("word_pairs")
byte_quads_p = KernelOp("byte_quads")

#: Names of operations, of this process, whose formula a user has given
#: (`extend.elementwise`). Nothing that is computed by one is cached on disk: another
#: process may have another function of that name.
OF_USERS: Final[set[str]] = set()

#: The user's lines that expressions of a kernel compute.
Lines = Mapping[g.Node, Origin]
NO_LINES: Final[Lines] = MappingProxyType({})

INDEX = dtypes.int64
INDEX_AVAL = ShapedArray.of((), INDEX)


def rebuild(node: g.Node, src: tuple[g.Node, ...]) -> g.Node:
    """An operation of a kernel over other sources: its type stays."""
    return node if src == node.src else g.make_node(node.op, node.aval, src, node.arg)


def param(number: int, dtype: np.dtype[Any], size: int) -> g.Node:
    """Buffer `number` of the kernel: `size` elements of `dtype`."""
    return g.make_node(param_p, ShapedArray.of((size,), dtype), (), number)


def make_range(number: int, size: int, reduced: bool) -> g.Node:
    return g.make_node(range_p, INDEX_AVAL, (), Axis(number, size, reduced))


def load(buffer: g.Node, index: g.Node, valid: g.Node | None = None) -> g.Node:
    """The element of a buffer at an index; zero where `valid` is false."""
    src = (buffer, index) if valid is None else (buffer, index, valid)
    return g.make_node(load_p, ShapedArray.of((), buffer.dtype), src)


def is_masked(value: g.Node) -> bool:
    """Is it zero already where the access is not valid?"""
    while value.op is cast_p:
        value = value.src[0]
    return value.op is load_p and len(value.src) == 3


def reduce(op: str, value: g.Node, ranges: tuple[g.Node, ...]) -> g.Node:
    """`value` combined over the ranges by "add", "mul", "max" or "min"."""
    aval = ShapedArray.of((), value.dtype)
    return g.make_node(reduce_p, aval, (value, *ranges), op)


def product_of(total: g.Node, like: Collection[g.Op] = (mul,)) -> g.Node | None:
    """The product that a reduce is the sum of; None where it is another one."""
    found = total.op is reduce_p and total.arg == "add" and total.src[0].op in like
    return total.src[0] if found else None


def axis_of(node: g.Node) -> Axis:
    """The axis of a range node."""
    axis = node.arg
    assert isinstance(axis, Axis)
    return axis


@dataclass(frozen=True)
class Store:
    """`buffer[index] = value` at every position of the ranges that they use.

    Attributes:
      buffer: the number of the kernel's buffer.
      index, value: scalar expressions.
      valid: where it is false nothing is stored; None is everywhere.
      combine: "" to set; "add", "mul", "max", "min" to combine with what is there.
        Such stores may hit one element many times: the kernel's loops over
        `ordered` axes run one after the other, in order.
    """

    buffer: int
    index: g.Node
    value: g.Node
    valid: g.Node | None = None
    combine: str = ""

    @property
    def expressions(self) -> tuple[g.Node, ...]:
        parts = (self.index, self.value)
        return parts if self.valid is None else (*parts, self.valid)

    def over(self, new: Mapping[g.Node, g.Node]) -> Store:
        """The store with other expressions in the place of its own."""
        valid = None if self.valid is None else new[self.valid]
        return Store(self.buffer, new[self.index], new[self.value], valid, self.combine)


@dataclass(frozen=True)
class BufferSpec:
    """A buffer that a kernel takes: `size` elements of `dtype`."""

    dtype: np.dtype[Any]
    size: int
    written: bool


def bytes_of(buffers: Iterable[BufferSpec]) -> int:
    """Bytes of some buffers, each once."""
    return sum(spec.size * spec.dtype.itemsize for spec in buffers)


@dataclass(frozen=True)
class Kernel:
    """One pass of loops over memory. Equal kernels are compiled once.

    Attributes:
      axes: the ranges of its loops, outermost first.
      stores: what is written.
      buffers: what it reads and writes, in the order of its parameters.
      ordered: numbers of the axes whose iterations must run in order, on one
        thread; every other axis may run in any order and in parallel.
    """

    axes: tuple[g.Node, ...]
    stores: tuple[Store, ...]
    buffers: tuple[BufferSpec, ...]
    ordered: frozenset[int] = frozenset()

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.axes, self.stores, self.buffers, self.ordered))

    @cached_property
    def nodes(self) -> list[g.Node]:
        """All expressions, sources first."""
        return g.toposort(self.roots)

    @property
    def roots(self) -> list[g.Node]:
        """The expressions of its stores."""
        return [e for store in self.stores for e in store.expressions]

    def over(self, new: Mapping[g.Node, g.Node]) -> Kernel:
        """The kernel with other expressions in the place of those of its stores."""
        return replace(self, stores=tuple([store.over(new) for store in self.stores]))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis_of(axis).size for axis in self.axes)

    @property
    def ordered_axes(self) -> set[g.Node]:
        """The axes in `ordered`: a store that combines stands in all of their loops."""
        return {axis for axis in self.axes if axis_of(axis).number in self.ordered}

    @property
    def nbytes(self) -> int:
        """Bytes of what it reads and writes in one run, each element once.

        An index takes at the most as many places as its ranges have positions: what
        reads a row of a matrix does not read the matrix.
        """
        if self.is_dynamic:
            return bytes_of(self.buffers)
        reads = {(n.src[0].arg, n.src[1]) for n in self.nodes if n.op is load_p}
        places = reads | {(store.buffer, store.index) for store in self.stores}
        free = free_ranges([index for _, index in places])
        touched = [0] * len(self.buffers)
        for buffer, index in places:
            touched[buffer] += prod(axis_of(axis).size for axis in free[index])
        return bytes_of(
            replace(spec, size=min(spec.size, count))
            for spec, count in zip(self.buffers, touched, strict=True)
        )

    @cached_property
    def is_dynamic(self) -> bool:
        """Does it run over sizes that only a call knows, or read one?"""
        sizes = [*self.shape, *[spec.size for spec in self.buffers]]
        sizes += [axis_of(n).size for n in self.nodes if n.op is range_p]
        return any_dynamic(sizes) or any(n.op is dim_p for n in self.nodes)

    @property
    def bounded(self) -> bool:
        """Is it known how long it runs at the most?"""
        return True

    @cached_property
    def scatters(self) -> bool:
        """Is anything stored where an array says?"""
        return any(n.op is load_p for n in g.toposort([s.index for s in self.stores]))

    def __str__(self) -> str:
        return kernel_text(self)


@dataclass(frozen=True)
class KernelInfo:
    """What people are told of a kernel; not part of its identity.

    Attributes:
      name: made of its outstanding operations and shape: `softmax_512x1000`.
      origins: the user's lines that it computes, each once.
      operations: arithmetic operations in one run.
      bytes: bytes read and written in one run, each element once.
      nodes: names of the graph's operations that were fused.
      stored: of each buffer that it writes, in order, the line of the value.
    """

    name: str
    origins: tuple[Origin, ...]
    operations: int
    bytes: int
    nodes: tuple[str, ...] = ()
    stored: tuple[Origin | None, ...] = ()


def free_ranges(
    roots: list[g.Node],
    given: Mapping[g.Node, frozenset[g.Node]] = MappingProxyType({}),
) -> dict[g.Node, frozenset[g.Node]]:
    """For each node below the roots, the ranges on which its value depends.

    Args:
      given: the same for some of them.
    """
    free = dict(given)
    add_free_ranges(free, g.toposort(roots))
    return free


def add_free_ranges(
    free: dict[g.Node, frozenset[g.Node]], nodes: Iterable[g.Node]
) -> None:
    """Finds them for nodes, sources first, that are not in `free`."""
    empty: frozenset[g.Node] = frozenset()
    for node in nodes:
        if node in free:
            continue
        if node.op is range_p:
            free[node] = frozenset((node,))
        elif node.op is reduce_p:
            free[node] = free[node.src[0]].difference(node.src[1:])
        else:
            parts = {free[s] for s in node.src}
            free[node] = next(iter(parts)) if len(parts) == 1 else empty.union(*parts)


def kernel_lines(kernel: Kernel) -> list[tuple[str, g.Node]]:
    """The kernel's statements as text, each with what it computes or stores."""
    names: dict[g.Node, str] = {}
    lines: list[tuple[str, g.Node]] = []
    for node in kernel.nodes:
        if node.op is range_p:
            axis = axis_of(node)
            names[node] = f"{'r' if axis.reduced else 'i'}{axis.number}"
        elif node.op is param_p:
            names[node] = f"buffer{node.arg}"
        elif node.op.name == "const":
            names[node] = str(g.constant_value(node))
        elif node.op is dim_p:
            names[node] = f"[{node.arg}]"
        else:
            names[node] = f"v{len(lines)}"
            operands = " ".join(names[s] for s in node.src)
            text = f"{names[node]} = {node.op.render(node)} {operands}"
            lines.append((text, node))
    for store in kernel.stores:
        where = f" where {names[store.valid]}" if store.valid is not None else ""
        target = f"buffer{store.buffer}[{names[store.index]}]"
        text = f"{target} {store.combine}= {names[store.value]}{where}"
        lines.append((text, store.value))
    return lines


def kernel_text(kernel: Kernel, lines: Lines = NO_LINES) -> str:
    """The kernel as text, a line per statement.

    Args:
      lines: the user's lines that expressions compute, to be told behind them.
    """
    loops = ", ".join(f"i{a.number}<{a.size}" for a in map(axis_of, kernel.axes))
    rows = kernel_lines(kernel)
    texts = [g.with_line(f"  {text}", lines.get(node)) for text, node in rows]
    return "\n".join([f"kernel ({loops}):", *texts])

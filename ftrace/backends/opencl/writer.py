"""The text of a kernel in OpenCL C: values, ranges and stores, line by line.

Index arithmetic is done in int where every value fits, in long elsewhere.

The loops are spread over work-items by their roles:

    item    one work-item per iteration
    group   one work-group per iteration
    lane    the work-items of a group take turns
    serial  a loop in each work-item

A kernel without inner rows is all `item`. Where reduces stand between axes (softmax,
layer norm) the axes around them are rows: a row is a group, whose lanes reduce it
together and then share the axes inside; short rows are one item each.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

from ftrace import dtypes
from ftrace.backends.opencl.scalar_ops import combine, expression, literal, value_type
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel import loop_tree
from ftrace.lower.kernel.affine_index import Index, affine_forms, is_affine
from ftrace.lower.kernel.integer_bounds import intervals
from ftrace.lower.kernel.ir import INDEX, Kernel, Store, axis_of, load_p, param_p
from ftrace.lower.kernel.loop_tree import Let, Loop, ReduceLoop, Statement
from ftrace.trace.graph import Node, constant_value, toposort
from ftrace.trace.primitives.sources import dim_p
from ftrace.trace.symbolic import is_dynamic, same_size, sample, upper_bound


@dataclass(frozen=True)
class Traits:
    """What the renderer knows of a device.

    Attributes:
      units: how many groups run at one time.
      max_group: the most work-items of a group.
      doubles: it computes in float64.
    """

    units: int
    max_group: int
    doubles: bool


#: Lanes of a group that works on one row; a row of fewer elements than `SHORT_ROW` is
#: done by one lane.
GROUP, SHORT_ROW = 128, 32
#: Work-items that keep a unit of the device busy.
ENOUGH = 1024


@dataclass(frozen=True)
class Launch:
    """How a kernel is spread.

    Attributes:
      roles: of each axis.
      lanes: work-items of a group that works on a row; 0 without groups.
    """

    roles: dict[Node, str]
    lanes: int = 0

    def axes(self, role: str) -> tuple[Node, ...]:
        return tuple(axis for axis, given in self.roles.items() if given == role)


def choose_launch(
    kernel: Kernel, block: Sequence[Statement], forms: dict[Node, Index], traits: Traits
) -> Launch:
    """The roles of the axes of a kernel whose statements are `block`."""
    axes = kernel.axes
    if 0 in kernel.shape:
        return Launch(dict.fromkeys(axes, "serial"))
    if kernel.ordered:
        ordered = dict.fromkeys(kernel.ordered_axes, "serial")
        return Launch(dict.fromkeys(axes, "item") | ordered)
    loops = reduce_loops(block)
    depth = max((d for d, _ in loops if d < len(axes)), default=None)
    if depth is not None:
        return _launch_rows(kernel, depth, traits)
    points = sample(prod(kernel.shape))
    sizes = [prod(axis_of(r).size for r in loop.ranges) for _, loop in loops]
    longest = max(map(sample, sizes), default=0)
    along = any(_runs_along_memory(loop, axes, forms) for _, loop in loops)
    if longest >= SHORT_ROW and (points < traits.units * ENOUGH or along):
        return Launch(dict.fromkeys(axes, "group"), _lanes(longest, traits))
    return Launch(dict.fromkeys(axes, "item"))


def _launch_rows(kernel: Kernel, depth: int, traits: Traits) -> Launch:
    rows, inside = kernel.axes[:depth], kernel.axes[depth:]
    length = sample(prod(axis_of(axis).size for axis in inside))
    count = sample(prod(axis_of(axis).size for axis in rows))
    if length < SHORT_ROW and count >= traits.units:
        roles = dict.fromkeys(rows, "item") | dict.fromkeys(inside, "serial")
        return Launch(roles)
    roles = dict.fromkeys(rows, "group") | dict.fromkeys(inside, "lane")
    return Launch(roles, _lanes(length, traits))


def _lanes(length: int, traits: Traits) -> int:
    """A power of two, at most the length."""
    return 1 << max(min(GROUP, traits.max_group, length).bit_length() - 1, 0)


def reduce_loops(block: Sequence[Statement]) -> list[tuple[int, ReduceLoop]]:
    """The outermost reduce loops, each with the number of axes around it."""
    found: list[tuple[int, ReduceLoop]] = []
    depth = 0
    while True:
        found += [(depth, s) for s in block if isinstance(s, ReduceLoop)]
        inner = [s for s in block if isinstance(s, Loop)]
        if not inner:
            return found
        block = inner[0].body
        depth += 1


def _runs_along_memory(
    loop: ReduceLoop, axes: tuple[Node, ...], forms: dict[Node, Index]
) -> bool:
    """Do more loads run along memory with the reduce than with the innermost axis?"""
    loads = [
        forms[s.node.src[1]].terms
        for s in loop.body
        if isinstance(s, Let) and s.node.op is load_p and s.node.src[1] in forms
    ]
    reduced = sum(abs(terms.get(loop.ranges[-1], 0)) == 1 for terms in loads)
    across = sum(abs(terms.get(axes[-1], 0)) == 1 for terms in loads) if axes else 0
    return reduced > across


#: Indices below it are an `int`, all others a `long`.
_INT_LIMIT = 1 << 31
#: Work-items in all and in a group, for each dimension.
Sizes = tuple[tuple[Any, ...], tuple[int, ...]]


class Writer:
    """The text of one kernel while it is written.

    Attributes:
      names: how each value that has been computed is written.
      dims: the sizes that are known at calls only, and the names of their variables.
      used: the helper functions that were called.
      local: declarations of local memory.
    """

    def __init__(self, kernel: Kernel, traits: Traits) -> None:
        self.kernel = kernel
        self.traits = traits
        self.block = loop_tree.build_loops(kernel)
        nodes = kernel.nodes
        forms = affine_forms(nodes)
        self.forms = {node: f for node, f in forms.items() if is_affine(f)}
        self.ints = {
            node
            for node, found in intervals(nodes).items()
            if node.dtype is INDEX and found is not None
            if found[0] > -_INT_LIMIT and found[1] < _INT_LIMIT
        }
        self.names: dict[Node, str] = {}
        self.dims: dict[Any, str] = {}
        self.used: set[str] = set()
        self.local: list[str] = []
        self.lines: list[str] = []
        self.indent = 1
        self.counter = 0

    # Text.

    def line(self, text: str) -> None:
        self.lines.append("  " * self.indent + text)

    @contextmanager
    def braces(self, *heads: str) -> Generator[None]:
        """Blocks `head { … }`, each inside the one before."""
        for head in heads:
            self.line(f"{head} {{" if head else "{")
            self.indent += 1
        yield
        for _ in heads:
            self.indent -= 1
            self.line("}")

    def fresh(self, prefix: str = "v") -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def number(self, size: Any) -> str:
        """A size as text: a dynamic one is a variable of the function."""
        if not is_dynamic(size):
            return str(size)
        return self.dims.setdefault(size, f"d{len(self.dims)}")

    def head(self) -> list[str]:
        """The declarations of dynamic sizes, which the last parameter holds."""
        return [
            f"  const {'int' if upper_bound(size) < _INT_LIMIT else 'long'} {name} = "
            f"dims[{place}];"
            for place, (size, name) in enumerate(self.dims.items())
        ]

    # Values.

    def c_type(self, node: Node) -> str:
        return "int" if node in self.ints else value_type(node.dtype)

    def let(self, node: Node) -> None:
        """Computes a node into a variable; a constant is written where it is used."""
        if node.op.name == "const":
            value = constant_value(node)
            as_int = node in self.ints
            self.names[node] = literal(value, dtypes.int32 if as_int else node.dtype)
            return
        if node.op is dim_p:
            self.names[node] = self.number(node.arg)
            return
        text = self.load(node) if node.op is load_p else self.compute(node)
        name = self.fresh()
        self.line(f"const {self.c_type(node)} {name} = {text};")
        self.names[node] = name

    def compute(self, node: Node) -> str:
        operands: list[str] = []
        plain = node in self.ints or node.op.family in ("compare", "cast")
        for source in node.src:
            name = self.names[source]
            widened = source in self.ints and not plain
            operands.append(f"(long){name}" if widened else name)
        as_int = dtypes.int32 if node in self.ints else None
        return expression(node, operands, self.used, as_int)

    def load(self, node: Node) -> str:
        number = node.src[0].arg
        element = f"b{number}[{self.names[node.src[1]]}]"
        if len(node.src) == 2:
            return element
        return f"{self.names[node.src[2]]} ? {element} : {literal(0, node.dtype)}"

    def values_below(
        self, roots: Iterable[Node], given: dict[Node, str]
    ) -> dict[Node, str]:
        """Computes the roots and what they need here, with names given for some."""
        outer = self.names
        self.names = dict(given)
        for node in toposort(roots, given):
            if node.op is not param_p:
                self.let(node)
        found, self.names = self.names, outer
        return found

    # Ranges and stores.

    def unflatten(self, position: str, axes: Sequence[Node]) -> None:
        """Defines the axes by one number that runs over all of them, row-major."""
        sizes = [axis_of(axis).size for axis in axes]
        if not axes:
            return
        if len(axes) == 1:
            self.define(axes[0], position)
            return
        kind = "int" if upper_bound(prod(sizes)) < _INT_LIMIT else "long"
        whole = self.fresh("g")
        self.line(f"const {kind} {whole} = {position};")
        below: Any = 1
        for number in reversed(range(len(axes))):
            divided = not same_size(below, 1)
            text = f"{whole} / {self.number(below)}" if divided else whole
            if number:
                size = self.number(sizes[number])
                text = f"({text}) % {size}" if divided else f"{text} % {size}"
            self.define(axes[number], text)
            below *= max(sizes[number], 1)

    def define(self, axis: Node, text: str) -> None:
        """Names a range; `text` is its value."""
        name = self.range_name(axis)
        self.line(f"const {self.c_type(axis)} {name} = {text};")

    def range_name(self, axis: Node) -> str:
        given = axis_of(axis)
        name = f"{'r' if given.reduced else 'i'}{given.number}"
        self.names[axis] = name
        if upper_bound(given.size) < _INT_LIMIT:
            self.ints.add(axis)
        return name

    def for_loop(self, axis: Node, start: str = "0", stop: str = "") -> str:
        name = self.range_name(axis)
        stop = stop or self.number(axis_of(axis).size)
        return f"for ({self.c_type(axis)} {name} = {start}; {name} < {stop}; ++{name})"

    def store(self, store: Store) -> None:
        value = self.names[store.value]
        target = f"b{store.buffer}[{self.names[store.index]}]"
        if store.combine:
            dtype = self.kernel.buffers[store.buffer].dtype
            value = combine(store.combine, dtype, target, value, self.used)
        text = f"{target} = {value};"
        if store.valid is not None:
            text = f"if ({self.names[store.valid]}) {text}"
        self.line(text)

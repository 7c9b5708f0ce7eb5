"""Recurrences: loops of small bodies as one kernel that keeps the carry in registers.

    block  = statement, …
    statement = Assign(stores)                    all values are read, then all stored
              | Repeat(times, predicate, block)   again and again

A recurrence is a kernel whose stores stand in blocks. Its *registers* are buffers of
one scalar, numbered from `FIRST_REGISTER` on: what goes around a loop is loaded from
and stored to them, which costs nothing. Everything else is as in any kernel, and
so is what makes it legal for a machine.

With an axis the block runs for each *lane* by itself, and registers belong to a lane:
the iterations of a loop without a carry, or the rows of a carry that never meet.

A *scan* carries along an axis of arrays what an associative operator makes of all
elements so far. Its block is one step, in three assignments:

    enter    right registers = f(elements)
    combine  left registers = left ∘ right       of the first element: right
    leave    elements = g(left registers)

with the registers of the right operand first. Because the operator is associative a
device may combine neighbours before it combines the groups, in an order that the shape
fixes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from math import log2, prod
from typing import Any

from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.ground.fork_safe import cached_property
from ftrace.lower.analysis import weight
from ftrace.lower.build.build_kernel import BuiltKernel
from ftrace.lower.kernel import ir
from ftrace.lower.legalize.legalize import legalize
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Body, Node, toposort
from ftrace.trace.primitives.primitive import Compound, items

#: The number of the first register: larger than that of any buffer.
FIRST_REGISTER = 1 << 20
#: How often a loop is taken to run whose length nobody knows: often enough that others
#: may run meanwhile. With 40,000 or 2500 no kernel differs but in what it says.
GUESSED_LENGTH = 10_000
#: Lanes of a vector, where only the amount of work is asked for.
_LIKELY_LANES = 8


@dataclass(frozen=True)
class Assign:
    """Stores to registers and buffers: every value is that from before all of them."""

    stores: tuple[ir.Store, ...]


@dataclass(frozen=True)
class Repeat:
    """A block, again and again.

    Attributes:
      times: the range that counts the iterations; None where the predicate tells.
      predicate: the register of a bool: is there another iteration, the first one
        included? -1 where the range tells.
      block: what one iteration does.
    """

    times: Node | None
    predicate: int
    block: tuple[Statement, ...]


Statement = Assign | Repeat


class Scan(NamedTuple):
    """How the elements of arrays are combined, each with all before it.

    Attributes:
      outer, size, inner: the shape of every array; it runs along `size`.
      reverse: from the last element to the first.
      started: the last buffers hold, for each row, the left operand of its first
        element: one of the type of each left register.
      start: what each register of that operand is, where it is so for all rows.
    """

    outer: int
    size: int
    inner: int
    reverse: bool
    started: bool
    start: float | None


@dataclass(frozen=True)
class Recurrence(ir.Kernel):
    """A kernel of loops that carry registers. Equal ones are compiled once.

    Attributes:
      axes: none, or the range of the lanes, or of all elements of a scan: the block is
        what is done for each.
      stores: none: they stand in the block.
      block: what it does.
      registers: their types, from number `FIRST_REGISTER` on.
      scan: the loop, where the order of an associative operator leaves it open.
    """

    block: tuple[Statement, ...] = ()
    registers: tuple[ir.BufferSpec, ...] = ()
    scan: Scan | None = None

    @cached_property
    def nodes(self) -> list[Node]:
        """All expressions, sources first."""
        parts = [s for a in assigns(self.block) for s in a.stores]
        return toposort([e for store in parts for e in store.expressions])

    @property
    def operations(self) -> int:
        """Arithmetic operations in one run, of all lanes; a guess for a while."""
        each = operations_of(self.block)
        if self.scan is not None:  # combined with its neighbours, step by step
            steps = 1 if self.scan.inner > 1 else log2(_LIKELY_LANES)
            each = max(1, round(each + steps / 2 * self.operations_of_operator))
        return prod(self.shape) * each

    @property
    def operations_of_operator(self) -> int:
        """Of combining two elements of a scan."""
        return operations_of(self.block[1:2])

    @property
    def bounded(self) -> bool:
        blocks = [self.block]
        for block in blocks:
            blocks += [s.block for s in block if isinstance(s, Repeat)]
        repeats = [s for block in blocks for s in block if isinstance(s, Repeat)]
        return all(repeat.times is not None for repeat in repeats)

    def __str__(self) -> str:
        head = f"recurrence of {len(self.registers)} registers, {self.shape} lanes:"
        if self.scan is not None:
            outer, size, inner, reverse, *_ = self.scan
            way = "backwards" if reverse else "forwards"
            head = f"running {way} along {outer}x[{size}]x{inner}:"
        return "\n".join([head, *[text for text, _ in self.lines]])

    @property
    def lines(self) -> list[tuple[str, Node | None]]:
        """Its lines for people, each with what it computes or stores."""
        return [*lines_of_block(self.block, self.axes)]


def assigns(block: Sequence[Statement]) -> Iterator[Assign]:
    """All assignments of a block, in order, those of the loops in it included."""
    for statement in block:
        if isinstance(statement, Assign):
            yield statement
        else:
            yield from assigns(statement.block)


def cost(node: Node) -> int:
    """Operations of one expression: index arithmetic and leaves are free."""
    free = node.op.family in ("source", "kernel") and node.op is not ir.fma_p
    return 0 if free or node.dtype is ir.INDEX else max(1, weight(node))


def operations_of(block: Sequence[Statement]) -> int:
    """Operations of a block: a guess where a loop ends when its predicate says so."""
    total = 0
    for statement in block:
        if isinstance(statement, Repeat):
            times = statement.times
            length = GUESSED_LENGTH if times is None else ir.axis_of(times).size
            total += length * operations_of(statement.block)
        else:
            total += sum(map(cost, toposort([s.value for s in statement.stores])))
    return total


def lines_of_block(
    block: Sequence[Statement], axes: tuple[Node, ...], indent: str = "  "
) -> Iterator[tuple[str, Node | None]]:
    """The lines of a block for people, each with what it computes or stores."""
    for statement in block:
        if isinstance(statement, Assign):
            rows = ir.kernel_lines(ir.Kernel(axes, statement.stores, ()))
            yield from ((f"{indent}  {text}", node) for text, node in rows)
        else:
            while_ = f"while buffer{statement.predicate}"
            times = statement.times
            text = while_ if times is None else (
                f"for r{ir.axis_of(times).number}<{ir.axis_of(times).size}"
            )  # fmt: skip
            yield indent + text, None
            yield from lines_of_block(statement.block, axes, indent + "  ")


def legalize_registers(kernel: Recurrence, supported: Collection[str]) -> Recurrence:
    """As `legalize`, assignment by assignment.

    Raises:
      GraphError: a complex value is combined in a way that pairs cannot express.
    """
    specs = (*kernel.buffers, *kernel.registers)
    legal = specs

    def block_of(block: tuple[Statement, ...]) -> tuple[Statement, ...]:
        nonlocal legal
        found: list[Statement] = []
        for statement in block:
            if isinstance(statement, Repeat):
                found.append(replace(statement, block=block_of(statement.block)))
                continue
            part = legalize(ir.Kernel((), statement.stores, specs), supported)
            legal = part.buffers
            found.append(Assign(part.stores))
        return tuple(found)

    block = block_of(kernel.block)
    count = len(kernel.buffers)
    return replace(kernel, block=block, buffers=legal[:count], registers=legal[count:])


# As an operation of the graph.


@dataclass(frozen=True)
class Step:
    """The argument of a kernel in a graph; its operands are what it loads.

    Attributes:
      kernel: its buffers are the results, then the operands.
      info: for people.
      results: their types.
      body: of a loop, what each iteration computes.
      expressions: what was built of each value in it.
    """

    kernel: ir.Kernel
    info: ir.KernelInfo
    results: tuple[ShapedArray, ...]
    body: Body | None = field(default=None, compare=False)
    expressions: Mapping[tuple[Node, Any], Node] = field(
        default_factory=dict[tuple[Node, Any], Node], compare=False
    )

    def __str__(self) -> str:
        return self.info.name


def _infer(arg: Step, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
    return arg.results


def _refuse_to_evaluate(*_: Any) -> Any:
    raise AssertionError("a recurrence exists in lowered programs only")


register_loop_p = Compound(
    "register_loop", "loop", _infer, _refuse_to_evaluate,
    _refuse_to_evaluate,
    no_derivative="it exists in lowered programs only", show=str,
    doc="a loop that keeps its carry in registers",
)  # fmt: skip


def buffers_of(
    results: Sequence[ShapedArray], operands: Sequence[Node]
) -> tuple[ir.BufferSpec, ...]:
    """The buffers of a kernel in a graph."""
    written = [ir.BufferSpec(x.dtype, x.size, True) for x in results]
    return (*written, *[ir.BufferSpec(x.dtype, x.size, False) for x in operands])


def kernel_step(
    kernel: ir.Kernel,
    operations: int,
    of: Node,
    operands: Sequence[Node],
    results: Sequence[ShapedArray],
    name: str = "",
) -> list[Node]:
    """The results of a kernel that does what an operation of a graph does, or a part.

    Args:
      kernel: its buffers are the `buffers_of` the results and operands.
      operations: in one run, about.
      of: the operation.
      operands: what the kernel loads.
      results: the types of what it stores.
      name: for people; else it is that of the operation.
    """
    info = ir.KernelInfo(
        f"{name or of.op.name}_{'x'.join(map(str, operands[0].shape))}",
        () if of.origin is None else (of.origin,),
        operations,
        ir.bytes_of(kernel.buffers),
        (of.op.name,),
    )
    return items(register_loop_p(*operands, arg=Step(kernel, info, tuple(results))))


def build_recurrence(node: Node, root_of: Callable[[Node], Node]) -> BuiltKernel:
    """The kernel of a recurrence in a graph, and the values in its buffers."""
    step: Step = node.arg
    results = items(node)
    loads = {i: root_of(s) for i, s in enumerate(node.src, len(results))}
    stores = dict(enumerate(results))
    return BuiltKernel(step.kernel, step.info, stores, loads, step.expressions)

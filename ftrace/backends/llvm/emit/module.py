"""The module of a kernel: its functions, and what threads that share it have to know.

Non-temporal stores (`schedule/nontemporal_stores.py`) need aligned memory, which is
known at run time only: the module of a kernel with them has both kinds of code.

Loops of kernels that may run for long ask from time to time whether to stop:

    left -= operations of an iteration
    if left < 0:                        seldom
        if ftrace_poll(buffers): return
        left = LONG

A kernel that stops leaves its results unfinished: the call that it is part of raises.
Recurrences do this by themselves, since nobody knows how long they run. In other
kernels the lengths of loops are known: `PollingWriter` polls in those that take long,
if one unit of the kernel does; between units the pool looks.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from ftrace.backends.llvm.ir.function_builder import Function
from ftrace.backends.llvm.ir.symbols import POLL
from ftrace.backends.llvm.ir.writer import ARGUMENTS, Constant, OpenLoop, Writer
from ftrace.backends.llvm.runtime.work_estimate import LASTING, WORTH_A_THREAD
from ftrace.backends.llvm.schedule.schedule_tree import Schedule
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.lower.kernel.ir import axis_of
from ftrace.lower.register_loops.register_loop import Assign, Repeat, Statement, cost
from ftrace.trace.graph import toposort
from ftrace.trace.symbolic import sample

#: What a kernel is called that has a module for itself.
ALONE: Final = "kernel"


class Written(NamedTuple):
    """The function of a kernel, when it has been written.

    Attributes:
      units: how many it has.
      dims: sizes that calls tell.
    """

    writer: Writer
    units: Any
    dims: tuple[Any, ...] = ()


Build = Callable[[frozenset[int]], Written]
#: Gives the text of a function of the kernel of that name: its own begins with it.
Write = Callable[[str], str]


class Module(NamedTuple):
    """The functions of a kernel, and what they need before them.

    Attributes:
      declared: lines, and whole functions of other names; beside each the function of
        `kernels/function_library.py` that it declares, if it does.
      functions: what writes each.
      defines: does it define names that do not begin with that of the kernel?
    """

    declared: dict[str, str]
    functions: tuple[Write, ...] = ()
    defines: bool = False

    @property
    def text(self) -> str:
        return text_of([self], [ALONE])

    @property
    def calls(self) -> tuple[str, ...]:
        """The functions of `kernels/function_library.py` that it calls."""
        return tuple([symbol for symbol in self.declared.values() if symbol])


def text_of(modules: Sequence[Module], names: Sequence[str]) -> str:
    """The one module of kernels of these names."""
    declared = dict.fromkeys([line for one in modules for line in one.declared])
    pairs = zip(modules, names, strict=True)
    return "\n".join([*declared, *[f(n) for one, n in pairs for f in one.functions]])


def module_for(
    target: Target, declared: dict[str, str], *functions: Write, defines: bool = False
) -> Module:
    head = f'target triple = "{target.triple}"'
    return Module({head: "", **declared}, functions, defines)


@dataclass(frozen=True)
class Rendered:
    """The code of a kernel.

    Attributes:
      module: LLVM IR.
      parallel: how many units its domain has.
      grain: how many units are worth a thread's while.
      dims: sizes that are known at calls only, which the code finds as int64 in a
        buffer behind the kernel's own. Then `parallel` may be one, too.
      schedules: how its parts run, as far as that is chosen.
    """

    module: Module
    parallel: int
    grain: int
    dims: tuple[Any, ...] = ()
    schedules: tuple[Schedule, ...] = ()

    @property
    def text(self) -> str:
        return self.module.text

    @staticmethod
    def of(
        module: Module,
        units: Any,
        operations: Any,
        worth: int = WORTH_A_THREAD,
        dims: tuple[Any, ...] = (),
    ) -> Rendered:
        """The code of so many operations in all its units.

        Args:
          worth: operations that pay for waking another thread.
        """
        grain = max(-(-worth * sample(units) // operations), 1)
        return Rendered(module, units, grain, dims)


# Functions.


class KernelFunction(Function):
    """The function of a kernel, written by hand."""

    def __init__(self, name: str, visible: bool = True) -> None:
        super().__init__(name, "void", *ARGUMENTS.split(", "), visible=visible)


class LibraryFunction(KernelFunction):
    """Writes the function of a kernel of a library's operation.

    Attributes:
      target: the processor that it is written for.
      parts: the texts of functions of its own that it calls.
    """

    def __init__(self, target: Target) -> None:
        super().__init__(ALONE)
        self.target = target
        self.parts: dict[str, str] = {}
        self._constants = False

    def constant(self, name: str, value: str) -> str:
        """One of the module; returns its name."""
        self.declare(f"{name} = internal constant {value}")
        self._constants = True
        return name

    def divide(self, x: str, divisor: int) -> tuple[str, str]:
        """The quotient and the rest."""
        if divisor == 1:
            return x, "0"
        quotient = self.let(f"udiv i64 {x}, {divisor}")
        return quotient, self.let(f"urem i64 {x}, {divisor}")

    def use(self, *functions: Function) -> None:
        """Functions of the module, each of which stands there once."""
        for function in functions:
            self.declared.update(function.declared)
            self.parts[function.text] = ""

    def finish(self, units: int, operations: int) -> Rendered:
        """The code of so many units, of so many operations each."""
        self.ret()
        defines = bool(self.parts) or self._constants
        declared = self.declared | self.parts
        module = module_for(self.target, declared, self.text_as, defines=defines)
        return Rendered.of(module, units, units * max(operations, 1))


def write_function(
    target: Target, nontemporal: frozenset[int], build: Build, part: str = ""
) -> tuple[Module, Written]:
    """The function of a kernel, with those that it calls: as a module, and as written.

    Args:
      nontemporal: buffers that may have non-temporal stores.
      build: writes the function, given the buffers for which that is done.
      part: what its name ends with if it is part of a kernel, whose module calls it.
    """
    written = build(frozenset())
    plain = fast = written.writer
    if nontemporal:
        fast = build(nontemporal).writer
    functions: list[Write] = [lambda name: plain.function(name + part, bool(part))]
    if fast.nontemporal:
        fast.declare("declare void @llvm.x86.sse.sfence()")
        functions = [
            lambda name: fast.function(f"{name}{part}.nontemporal", internal=True),
            lambda name: plain.function(f"{name}{part}.plain", internal=True),
            lambda name: _choose(name + part, target, nontemporal, not part),
        ]
    declared = plain.declared | fast.declared
    return module_for(target, declared, *functions), written


def _choose(
    name: str, target: Target, nontemporal: frozenset[int], visible: bool
) -> str:
    """A function that calls the one with non-temporal stores if memory is aligned."""
    f = KernelFunction(name, visible)
    bits = "0"
    for number in sorted(nontemporal):
        address = f.let(f"ptrtoint ptr {f.slot('%buffers', number)} to i64")
        bits = f.let(f"or i64 {bits}, {address}")
    low = f.let(f"and i64 {bits}, {target.vector_bytes - 1}")
    with f.when(f.let(f"icmp eq i64 {low}, 0")):
        f.do(f"call void @{name}.nontemporal({ARGUMENTS})")
        f.do("call void @llvm.x86.sse.sfence()")
        f.ret()
    f.do(f"call void @{name}.plain({ARGUMENTS})")
    f.ret()
    return f.text


def write_in_step(parts: Sequence[Module], units: Sequence[int]) -> Module:
    """A function of which each unit is as large a share of each part of a kernel.

    They may differ in what a unit costs, so that one after the other threads would not
    get equal work.

    Args:
      parts: functions whose names end with `.0`, `.1`, ….
      units: how many each has; it has as many as that which has the most.
    """
    declared = {k: symbol for part in parts for k, symbol in part.declared.items()}
    functions = [write for part in parts for write in part.functions]
    return Module(declared, (*functions, partial(_call_in_step, units)))


def _call_in_step(parts: Sequence[int], name: str) -> str:
    f, most = KernelFunction(name), max(parts)
    for part, units in enumerate(parts):
        begin, end = (
            f.let(f"udiv i64 {f.let(f'mul i64 {x}, {units}')}, {most}")
            for x in ("%begin", "%end")
        )
        with f.when(f.let(f"icmp ult i64 {begin}, {end}")):
            f.do(f"call void @{name}.{part}(ptr %buffers, i64 {begin}, i64 {end})")
    f.ret()
    return f.text


# Polls.

#: Operations between two polls, each of which looks at the clock: about 0.1 ms.
LONG = 1 << 17


def lasting(block: Sequence[Statement]) -> int:
    """Operations of a block at least: loops of unknown length run once."""
    total = 1
    for statement in block:
        if isinstance(statement, Assign):
            total += sum(map(cost, toposort([s.value for s in statement.stores])))
        else:
            times = statement.times
            length = 1 if times is None else axis_of(times).size
            total += length * lasting(statement.block)
    return total


def may_be_long(loop: Repeat) -> bool:
    """May a loop run for longer than a user waits?"""
    if loop.times is None:
        return True
    return axis_of(loop.times).size * lasting(loop.block) > LONG


def poll(writer: Writer, left: str, operations: int) -> str:
    """What is left of the operations until the next poll, after so many more.

    Stands at the beginning of an iteration, where few values are in registers.
    """
    after = writer.here(f"sub i64 {left}, {operations}")
    over = writer.here(f"icmp slt i64 {after}, 0")
    (rest,) = _ask(writer, over, [("i64", str(LONG), after)])
    return rest


def _ask(
    writer: Writer, condition: str, results: Sequence[tuple[str, str, str]] = ()
) -> list[str]:
    """Returns from the function if the condition holds and the kernel shall stop."""
    branch = writer.open_branch()
    call = writer.call("i1", f"@{POLL}", ("ptr", "%buffers"), symbol=POLL)
    writer.return_if(writer.here(call))
    return writer.close_branch(branch, condition, results)


def writer_for(operations: int) -> Writer:
    """The writer of a kernel of which one unit takes so many operations."""
    return PollingWriter(operations) if operations > LASTING else Writer()


class PollingWriter(Writer):
    """Polls in loops that take long, as far as their lengths are numbers.

    Args:
      operations: of what is written.
    """

    def __init__(self, operations: int) -> None:
        super().__init__()
        self._operations = operations  # of one run of the innermost loop that is open

    @contextmanager
    def fold(
        self,
        start: str,
        stop: str,
        step: int,
        firsts: Sequence[tuple[str, str]],
        guarded: bool = False,
        entry: str = "",
    ) -> Generator[OpenLoop, None, None]:
        whole = self._operations
        with super().fold(start, stop, step, firsts, guarded, entry) as loop:
            ends = [end for end in (start, stop) if isinstance(end, Constant)]
            if whole > LONG and len(ends) == 2:
                size = ends[1].value - ends[0].value
                self._operations //= max(-(-size // step), 1)
                self._poll(loop.index, step)
            yield loop
        self._operations = whole

    def _poll(self, index: str, step: int) -> None:
        """Once in about `LONG` operations, at the beginning of an iteration."""
        every = max(LONG // max(self._operations, 1), 1)
        window = 1 << (step * every - 1).bit_length()
        low = self.here(f"and i64 {index}, {window - 1}")
        _ask(self, self.here(f"icmp ult i64 {low}, {step}"))

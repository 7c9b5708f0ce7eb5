"""Which one is wrong? The first operation of a program that differs, and why it does.

    print(ft.bisect(f, x))

    bisect f: on cpu 1 of 2 results differs from NumPy's, operation by operation
    first: log f32[8], of f32[8]
      at File "train.py", line 12, in f …
      3 of 8 elements differ, most at [2]: 0.7 (actual) is not 0.69 (desired), …
      units in the last place apart: 0 of 5, 64-127 of 3
    cause: the pass 'simplify'; without the rule 'fold_log' it agrees
    program: bisect_f.py, of 1 operation

Every part of a program is a program by itself: its inputs are what NumPy computed
before it. Of a program that differs one half does, or what spans both; so it goes on,
and each step compiles half as much as the one before. No rounding adds up on the way.
At the end rules are switched off, halves of them as well, and what is left is written
as a program of Python.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.backends.base import Device, Executable, get_device
from ftrace.backends.interpreter import InterpreterDriver, KernelPlan
from ftrace.errors import ArgumentError, FtraceError, Origin
from ftrace.ground import VERSION, settings
from ftrace.lower.kernel import ir
from ftrace.lower.kernel.ir import OF_USERS
from ftrace.lower.lowering import passes_of, rule_names
from ftrace.lower.program import Program, RunKernel, Slot
from ftrace.testing.close import Limits, Tolerance, compare, ulps_between
from ftrace.testing.graph_text import NoTextError, array_text, function_text
from ftrace.trace.arrays.array import Array
from ftrace.trace.avals import ShapedArray
from ftrace.trace.calls.carry_keys import carry_keys
from ftrace.trace.calls.inline import ready_graph
from ftrace.trace.control.conditional import Branches, While
from ftrace.trace.control.scan import Scan
from ftrace.trace.effects import rehearsal
from ftrace.trace.evaluate import NumpyPlan, nbytes_of
from ftrace.trace.flatten_arguments import name_of
from ftrace.trace.graph import Body, Graph, Node, substitute, toposort
from ftrace.trace.primitives.primitive import compound_of, item_p
from ftrace.trace.primitives.sources import is_variable, variable
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic import any_dynamic
from ftrace.transforms.jit.compiled_graph import CompiledGraph
from ftrace.transforms.jit.jit import Jitted
from ftrace.transforms.jit.stages import inputs_of
from ftrace.transforms.jit.structs import ShapeDtypeStruct

Values = Any  # an array of NumPy's, whose stubs leave too much unknown

#: Bytes of all values of a program up to which they are kept, and not computed again.
_KEPT = 1 << 28
#: How often a kernel of a loop is compared, and how many iterations are looked into.
_VISITS, _ITERATIONS = 3, 1000
#: Bytes of inputs up to which a program is written.
_WRITTEN = 1 << 25
#: Operations that are left of the part that differs, up to which each is tried alone.
_FEW = 256


@dataclass(frozen=True, eq=False)
class Difference:
    """What an operation computes on a device, beside what NumPy does.

    Attributes:
      name: of the operation.
      type: of its result, and `operands` those of what it is computed of.
      origin: the user's line, and `sources` those that made the operands.
      text: how many elements differ, and the worst of them.
      ulps: how many elements are how many units in the last place apart, by ranges.
      inside: the loop or branch in which it stands; "" for none.
    """

    name: str
    type: str
    operands: tuple[str, ...]
    origin: Origin | None
    sources: tuple[Origin, ...]
    text: str
    ulps: dict[str, int]
    inside: str = ""

    def __str__(self) -> str:
        of = f", of {', '.join(self.operands)}" if self.operands else ""
        lines = [f"first: {self.name} {self.type}{of}{self.inside}"]
        lines += [] if self.origin is None else [f"  at {self.origin.describe()}"]
        told = {str(self.origin)}
        for source in self.sources:
            if str(source) not in told:
                lines.append(f"  from {source.describe()}")
            told.add(str(source))
        lines.append(f"  {self.text}")
        if self.ulps:
            rows = ", ".join([f"{units} of {n}" for units, n in self.ulps.items()])
            lines.append(f"  units in the last place apart: {rows}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Bisection:
    """What `bisect` has found; print it.

    Attributes:
      name: of the function, and `device` where it ran.
      agrees: nothing differs.
      operations, kernels: how many were compared.
      largest: units in the last place that results are apart, at the most.
      difference: the first operation that differs.
      kernel: the name of the first kernel whose code differs from its meaning.
      stage: the first pass of lowering after which the graph means something else.
      rules: what to switch off for both to agree, by names for `disabled_rules`.
      program: a program of Python that shows it; "" where it has no text.
      path: the file that it was written to; None where it was not.
      notes: what else is to be said.
    """

    name: str
    device: str
    operations: int
    kernels: int
    largest: int
    wrong: str = ""
    difference: Difference | None = None
    kernel: str = ""
    stage: str = ""
    rules: tuple[str, ...] = ()
    program: str = ""
    path: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        return not self.wrong

    @property
    def cause(self) -> str:
        """In one line."""
        parts: list[str] = []
        if self.stage:
            parts.append(f"the pass {self.stage!r} of lowering")
        elif self.kernel:
            parts.append(
                f"the code of the kernel {self.kernel}, which NumPy computes otherwise"
            )
        if self.rules:
            names = ", ".join(map(repr, self.rules))
            parts.append(
                f"without {names} it agrees: ft.config(disabled_rules={{{names}}})"
            )
        if not parts:
            parts.append(
                "no rule alone, and no single kernel; its results differ from NumPy's "
                "only as a whole, as rounding does that adds up"
            )
        return "; ".join(parts)

    def __str__(self) -> str:
        head = f"bisect {self.name}: on {self.device} "
        counts = f"{self.operations} operations, {self.kernels} kernels"
        if self.agrees:
            return (
                f"{head}no difference: {counts}, "
                f"{self.largest} units in the last place at the most"
            )
        lines = [f"{head}{self.wrong} ({counts})"]
        lines += [] if self.difference is None else [str(self.difference)]
        lines += [f"cause: {self.cause}"]
        if self.path is not None:
            lines.append(f"program: {self.path}")
        return "\n".join([*lines, *self.notes])


def bisect(
    f: Callable[..., Any],
    *args: Any,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    ulps: int | None = None,
    device: str | Device | None = None,
    path: str | os.PathLike[str] | None = "",
) -> Bisection:
    """Finds what of a function's program computes something else than NumPy does.

    Results are compared with those of NumPy, operation by operation, and kernels with
    what NumPy makes of them. Effects, as printing, do not happen.

    Args:
      f: a function of arrays, under `jit` or not.
      args: its arguments.
      rtol, atol, ulps: how far apart elements may be, as of `testing.assert_close`. By
        default eps^¾ of the largest element of an array.
      device: where it runs; by default where the arguments are.
      path: the file for the program that shows the difference; by default
        `bisect_NAME.py` in the current folder. None writes none.

    Returns:
      What was found: print it. `.agrees` where nothing was.

    Raises:
      ArgumentError: a size is dynamic, or a result depends on an effect.
      FtraceError: whatever the function raises when it is traced or compiled.
    """
    tree.check_callable(f, "bisect")
    jitted = f if isinstance(f, Jitted) else Jitted(f)
    graph = ready_graph(jitted.trace(*args).graph)
    leaves = jitted.leaves(args, {})
    if any(isinstance(x, ShapeDtypeStruct) for x in leaves):
        raise ArgumentError("bisect: values are needed, got shapes; give arrays")
    arrays = inputs_of(graph, leaves)
    place = jitted.target(arrays) if device is None else get_device(device)
    scaled = rtol is None and atol is None and ulps is None
    limits = Limits(rtol, atol, ulps, scaled)
    name = name_of(jitted)
    search = _Search(_numbers_of(graph), list(map(_as_numbers, arrays)), place, limits)
    found = search.run(name)
    return found if path is None else _write(found, path or f"bisect_{_word(name)}.py")


def _numbers_of(graph: Graph) -> Graph:
    """The graph over plain numbers, without effects."""
    outputs = graph.outputs
    if graph.effects:
        outputs = tuple(substitute(outputs, {graph.effects[0]: rehearsal()}))
    for node in toposort(outputs):
        if any_dynamic(node.shape):
            raise ArgumentError(
                f"bisect: sizes must be known, got {node!r}; give the function without "
                "dynamic=",
                node.origin,
            )
        compound = compound_of(node)
        if compound is not None and not compound.pure and node.arg.results:
            raise ArgumentError(
                f"bisect: a result depends on {node.arg}, an effect, which is not done "
                "twice; give its value as an argument",
                node.origin,
            )
    return carry_keys(Graph(graph.inputs, outputs))


def _as_numbers(array: Array) -> Values:
    found: Values = array.numpy()
    kind = found.dtype
    return found.view(dtypes.carrier(kind)) if dtypes.is_carried(kind) else found


def _word(name: str) -> str:
    return "".join([c for c in name if c.isalnum() or c == "_"]) or "function"


def _write(found: Bisection, path: str | os.PathLike[str]) -> Bisection:
    """Writes the program, where it can be written."""
    if not found.program:
        return found
    changes: dict[str, Any] = {"path": os.fspath(path)}
    try:
        Path(path).write_text(found.program, encoding="utf-8")
    except OSError as error:
        note = f"program: not written to {path}: {error.strerror}; it is in .program"
        changes = {"notes": (*found.notes, note)}
    return Bisection(**{**vars(found), **changes})


# Parts of a program.


@dataclass(frozen=True, eq=False)
class _Part:
    """Some operations of a program, as a program by itself.

    Attributes:
      graph: its inputs are what it reads of the rest.
      arrays: their values.
      inside: the operations, and `wanted` those among them that are its outputs.
    """

    graph: Graph
    arrays: Sequence[Values]
    inside: Sequence[Node]
    wanted: Sequence[Node]

    @property
    def expected(self) -> list[Values]:
        """Its outputs as NumPy computes them."""
        return NumpyPlan(self.graph.outputs, self.graph.inputs)(self.arrays)


def _is_plain(node: Node) -> bool:
    """May a program have it as an input, and as an output?"""
    plain = type(node.aval) is ShapedArray
    return plain and node.size > 0 and node.dtype != dtypes.float0


@dataclass(eq=False)
class _Search:
    """The search in one graph.

    Attributes:
      graph, arrays: what is computed, of what.
      device, limits: where, and how far apart elements may be.
      largest: units in the last place seen so far.
    """

    graph: Graph
    arrays: Sequence[Values]
    device: Device
    limits: Limits
    largest: int = 0
    kernels: int = 0
    fixed: set[Node] = field(default_factory=set[Node])
    known: dict[Node, Values] = field(default_factory=dict[Node, Any])

    def __post_init__(self) -> None:
        self.order: list[Node] = []
        for node in toposort(self.graph.outputs):
            if is_variable(node):
                continue
            if all(s in self.fixed for s in node.src):
                self.fixed.add(node)  # of constants alone: rules look at these
            else:
                self.order.append(node)
        position = {node: i for i, node in enumerate(self.order)}
        self.last_use = dict.fromkeys(self.order, -1)
        for i, node in enumerate(self.order):
            for s in node.src:
                if s in position:
                    self.last_use[s] = i
        self.last_use.update(
            {n: len(self.order) for n in self.graph.outputs if n in position}
        )
        self.known.update(zip(self.graph.inputs, self.arrays, strict=True))

    def run(self, name: str) -> Bisection:
        given = self.graph.inputs, self.graph.outputs
        whole = _Part(Graph(*given), self.arrays, self.order, given[1])
        expected = whole.expected
        compiled = CompiledGraph(whole.graph, self.device)
        results = _results(compiled, self.arrays)
        wrong = self._wrong(results, expected)
        kernel = self._first_kernel(compiled.program, self.arrays)
        program = compiled.program
        known = name, self.device.name, len(self.order), len(program.kernels)
        if not wrong and not kernel:
            return Bisection(*known, self.largest)
        told = f"{len(wrong)} of {len(results)} results differ from NumPy's"
        if not wrong:
            told = f"results agree with NumPy's, but not those of the kernel {kernel}"
            return Bisection(*known, self.largest, told, kernel=kernel)
        with settings.config(cache_size=0):
            if not self.differing(whole):
                note = "compiled anew it agrees: the disk cache has other code of it"
                return Bisection(*known, self.largest, told, notes=(note,))
            part, search, inside = self._smallest()
            return search._explained(part, known, told, inside)

    # What differs.

    def _wrong(
        self, results: Sequence[Values], expected: Sequence[Values]
    ) -> list[tuple[int, str]]:
        """The outputs that differ, by their numbers, and what is to be said of each."""
        found: list[tuple[int, str]] = []
        for i, (x, y) in enumerate(zip(results, expected, strict=True)):
            self.largest = max(self.largest, *_ulps(x, y).ravel().tolist(), 0)
            if said := compare(x, y, self.limits):
                found.append((i, said))
        return found

    def differing(self, part: _Part) -> list[int]:
        """The numbers of the outputs of a part that differ."""
        try:
            results = _results(CompiledGraph(part.graph, self.device), part.arrays)
        except FtraceError:
            return []  # it shows something else
        return [i for i, _ in self._wrong(results, part.expected)]

    # Parts.

    def part(self, inside: Collection[Node], wanted: Collection[Node]) -> _Part:
        """These operations as a program, and of what is wanted what it can give."""
        taken = {n for n in inside if n.op is not item_p or n.src[0] in inside}
        taken |= {n for n in inside if n.op is item_p and not _is_plain(n)}
        pending = list(taken)
        for node in pending:  # which grows: stacks and tokens are no inputs
            for s in node.src:
                if not (s in taken or s in self.fixed or _is_plain(s)):
                    if not is_variable(s):
                        taken.add(s)
                        pending.append(s)
        ordered = [n for n in self.order if n in taken]
        reads = [s for n in ordered for s in n.src]
        inputs = dict.fromkeys(s for s in reads if s not in taken | self.fixed)
        values = self._values(list(inputs))
        mapping = {n: variable(n.aval, 0, i) for i, n in enumerate(inputs)}
        ends = [n for n in ordered if n in wanted and _is_plain(n)]
        outputs = tuple(substitute(ends, mapping))
        return _Part(Graph(tuple(mapping.values()), outputs), values, ordered, ends)

    def _values(self, nodes: Sequence[Node]) -> list[Values]:
        """What NumPy computes for some nodes of the graph."""
        missing = [n for n in nodes if n not in self.known]
        if missing:
            plain = [n for n in self.order if _is_plain(n)]
            few = sum(nbytes_of(n.aval) for n in plain) <= _KEPT
            missing = plain if few else missing
            found = NumpyPlan(missing, self.graph.inputs)(self.arrays)
            self.known.update(zip(missing, found, strict=True))
        return [self.known[n] for n in nodes]

    def window(self, first: int, last: int) -> _Part:
        """The operations from number `first` to `last` - 1, and what others read."""
        inside = set(self.order[first:last])
        wanted = {n for n in inside if self.last_use[n] >= last}
        return self.part(inside, wanted)

    def _smallest(self) -> tuple[_Part, _Search, str]:
        """A part that differs and has no smaller one, where it stands, and in what."""
        first, last = self._halved()
        part = self.window(first, last)
        part = self._of_one_output(part)
        part = self._without_others(part)
        return self._looked_into(part)

    def _halved(self) -> tuple[int, int]:
        def differs(first: int, last: int) -> bool:
            return bool(self.differing(self.window(first, last)))

        first, last = 0, len(self.order)
        while last - first > 1:
            middle = (first + last) // 2
            if differs(first, middle):
                last = middle
            elif differs(middle, last):
                first = middle
            else:
                break
        if last - first > 1:  # what differs stands on both sides
            middle = (first + last) // 2
            last = _edge(middle, last, partial(differs, first))
            first = _edge(middle, first, lambda start: differs(start, last))
        return first, last

    def _of_one_output(self, part: _Part) -> _Part:
        """A part with one of the outputs that differ, and what it needs."""
        for i in self.differing(part)[:_VISITS]:
            end = part.wanted[i]
            needed = [n for n in toposort((end,)) if n in part.inside]
            smaller = self.part(needed, (end,))
            if self.differing(smaller):
                return smaller
        return part

    def _without_others(self, part: _Part) -> _Part:
        """A part in which nothing is left out, with values in its place."""
        if len(part.inside) > _FEW:
            return part
        size = len(part.inside) // 2
        while size:
            inside, start = list(part.inside), 0
            while start < len(inside):
                rest = [*inside[:start], *inside[start + size :]]
                ends = [n for n in part.wanted if n in rest]
                smaller = self.part(self._needed(ends, rest), ends) if ends else part
                fewer = len(smaller.inside) < len(part.inside)
                if fewer and self.differing(smaller):
                    part, inside = smaller, list(smaller.inside)
                else:
                    start += size
            size //= 2
        return part

    def _needed(self, ends: Sequence[Node], inside: Collection[Node]) -> list[Node]:
        """The nodes inside on which the ends depend by nodes inside."""
        kept = set(inside)
        outside = {s for n in inside for s in n.src if s not in kept}
        return [n for n in toposort(ends, outside) if n in kept]

    def _looked_into(self, part: _Part) -> tuple[_Part, _Search, str]:
        """In a loop or a branch: the first iteration that differs by itself."""
        node, *rest = part.inside
        if any(n.op is not item_p for n in rest):
            return part, self, ""
        steps = islice(_iterations(node, self._operands(node)), _ITERATIONS)
        for number, (body, operands) in enumerate(steps):
            inner = Graph(body.inputs, body.outputs)
            search = _Search(inner, operands, self.device, self.limits, self.largest)
            whole = _Part(inner, operands, search.order, body.outputs)
            if search.order and search.differing(whole):
                found, where, deeper = search._smallest()
                return found, where, f"{deeper}, in {node.op.name} at step {number}"
        return part, self, ""

    def _operands(self, node: Node) -> list[Values]:
        """What NumPy computes for the operands of a node."""
        constant = [n for n in node.src if n in self.fixed]
        found = dict(zip(constant, NumpyPlan(constant, ())(()), strict=True))
        others = [n for n in node.src if n not in found and _is_plain(n)]
        found.update(zip(others, self._values(others), strict=True))
        return [found.get(n) for n in node.src]

    # Why.

    def _explained(
        self, part: _Part, known: tuple[Any, ...], told: str, inside: str
    ) -> Bisection:
        compiled = CompiledGraph(part.graph, self.device)
        results, expected = _results(compiled, part.arrays), part.expected
        number, text = self._wrong(results, expected)[0]
        kernel = self._first_kernel(compiled.program, part.arrays)
        stage = self._first_stage(part)
        rules = self._rules(part)
        units = _histogram(results[number], expected[number])
        difference = self._difference(part.wanted[number], text, units, inside)
        program, notes = "", ()
        try:
            program = self._program(part, difference)
        except NoTextError as error:
            notes = (f"program: none is written, as {error.message}",)
        return Bisection(
            *known, self.largest, told, difference, "" if stage else kernel, stage,
            rules, program, None, notes,
        )  # fmt: skip

    def _first_kernel(self, program: Program, arrays: Sequence[Values]) -> str:
        """The name of the first kernel whose results differ from its meaning."""
        if any(slot.stacks for slot in program.slots) or program.is_dynamic:
            return ""
        return _KernelWalk(self, program).first(arrays)

    def _first_stage(self, part: _Part) -> str:
        """The first pass of lowering after which NumPy computes something else."""
        expected = part.expected
        for stage, graph in passes_of(part.graph, self.device.limits):
            try:
                found = NumpyPlan(graph.outputs, graph.inputs)(part.arrays)
            except (FtraceError, AssertionError):
                return ""  # what devices have, and NumPy has not
            if self._wrong(found, expected):
                return stage
        return ""

    def _rules(self, part: _Part) -> tuple[str, ...]:
        """The fewest rules and decisions without which a part agrees; () for none."""
        off = settings.current().disabled_rules

        def agrees(names: Collection[str]) -> bool:
            try:
                with settings.config(disabled_rules=off.union(names)):
                    compiled = CompiledGraph(part.graph, self.device)
                    results = _results(compiled, part.arrays)
            except FtraceError:
                return False
            return not self._wrong(results, part.expected)

        names, needed = sorted(rule_names() - off), list[str]()
        if not agrees(names):
            return next(((name,) for name in names if agrees((name,))), ())
        while not agrees(needed):
            last = _edge(0, len(names), lambda n: agrees([*needed, *names[:n]]))
            needed.append(names[last - 1])
            names = names[: last - 1]
        return tuple(needed)

    def _difference(
        self, node: Node, text: str, ulps: dict[str, int], inside: str
    ) -> Difference:
        made = node.src[0] if node.op is item_p else node
        traced = [s for s in made.src if s.origin and s in self.last_use]
        return Difference(
            made.op.name, repr(node.aval), tuple([repr(s.aval) for s in made.src]),
            made.origin, tuple([s.origin for s in traced if s.origin]), text, ulps,
            inside,
        )  # fmt: skip

    # A program of it.

    def _inputs(self, part: _Part) -> list[str]:
        """Code for inputs; of few words, where the part differs with these too."""
        builtin = all(x.dtype.isbuiltin == 1 for x in part.arrays)
        for make, text in _SIMPLE if builtin else ():
            arrays = [make(x.shape).astype(x.dtype) for x in part.arrays]
            if self.differing(_Part(part.graph, arrays, part.inside, part.wanted)):
                return [text.format(shape=x.shape, dtype=x.dtype) for x in arrays]
        if sum(x.nbytes for x in part.arrays) > _WRITTEN:
            raise NoTextError(f"its inputs are of more than {_WRITTEN >> 20} MB")
        return list(map(array_text, part.arrays))

    def _program(self, part: _Part, difference: Difference) -> str:
        options = {"rtol": self.limits.rtol, "atol": self.limits.atol}
        options |= {"ulps": self.limits.ulps}
        given = [f"{k}={v!r}" for k, v in options.items() if v is not None]
        off = sorted(settings.current().disabled_rules)
        own = sorted({n.op.name for n in part.inside} & OF_USERS)
        needs = "".join([f"# Import the module that makes {name!r}.\n" for name in own])
        return _PROGRAM.format(
            difference=str(difference).replace("\\", "\\\\").replace('"""', "'''"),
            version=VERSION,
            function=needs + function_text(part.graph),
            arguments="".join([f"    {text},\n" for text in self._inputs(part)]),
            settings=f"device={self.device.name!r}"
            + (f", disabled_rules={off!r}" if off else ""),
            options=", ".join(["path=None", *given]),
        )


_PROGRAM = '''"""What a device computes here is not what NumPy does.

{difference}

Written by ft.bisect of ftrace {version}. Run it: it compares again, and ends with status
1 as long as there is a difference.
"""

import numpy as np

import ftrace as ft
from ftrace.testing.graph_text import numbers, operation  # noqa: F401


{function}


ARGUMENTS = (
{arguments})

if __name__ == "__main__":
    with ft.config({settings}):
        found = ft.bisect(program, *ARGUMENTS, {options})
    print(found)
    raise SystemExit(not found.agrees)
'''

#: Inputs that are tried in the place of those that there were, and code for them.
_SIMPLE: tuple[tuple[Callable[[tuple[int, ...]], Values], str], ...] = (
    (np.ones, 'np.ones({shape}, "{dtype}")'),
    (
        lambda shape: (np.arange(int(np.prod(shape))) % 7 + 1).reshape(shape),
        '(np.arange(int(np.prod({shape}))) % 7 + 1).reshape({shape}).astype("{dtype}")',
    ),
)


def _results(compiled: CompiledGraph, arrays: Sequence[Values]) -> list[Values]:
    return [x.numpy() for x in compiled([Array.of(np.asarray(x)) for x in arrays])]


def _edge(good: int, bad: int, differs: Callable[[int], bool]) -> int:
    """The number next to `good` for which it differs, as it does for `bad`."""
    while abs(bad - good) > 1:
        middle = (good + bad) // 2
        good, bad = (good, middle) if differs(middle) else (middle, bad)
    return bad


def _ulps(x: Values, y: Values) -> Values:
    """Units in the last place between elements that are numbers in both."""
    if x.shape != y.shape or x.dtype != y.dtype or not dtypes.is_inexact(x.dtype):
        return np.zeros(0, np.uint64)
    numbers = np.isfinite(x) & np.isfinite(y)
    return ulps_between(x[numbers], y[numbers])


def _histogram(x: Values, y: Values) -> dict[str, int]:
    """How many elements are how far apart: 0, 1, 2-3, 4-7 and so on."""
    found = Counter([int(n).bit_length() for n in _ulps(x, y).ravel().tolist()])
    ranges = {
        ("0", "1")[k] if k < 2 else f"{1 << (k - 1)}-{(1 << k) - 1}": found[k]
        for k in sorted(found)
    }
    apart = x.size - sum(found.values())
    return ranges | ({"NaN or infinity": apart} if ranges and apart else {})


def _iterations(
    node: Node, operands: Sequence[Values]
) -> Generator[tuple[Body, list[Values]]]:
    """The bodies that a loop or a branch runs, with what they are given."""
    arg = node.arg
    if isinstance(arg, Branches):
        index, *rest = operands
        chosen = min(max(int(index), 0), len(arg.bodies) - 1)
        yield arg.bodies[chosen], rest
    elif isinstance(arg, While):
        consts, carry = list(operands[: arg.consts]), list(operands[arg.consts :])
        while True:
            yield arg.cond, [*consts, *carry]
            if not _run(arg.cond, [*consts, *carry])[0]:
                break
            yield arg.body, [*consts, *carry]
            carry = _run(arg.body, [*consts, *carry])[: len(carry)]
    elif isinstance(arg, Scan) and arg.length is not None:
        first = arg.consts + arg.carry
        carry = list(operands[arg.consts : first])
        for t in range(arg.length)[:: -1 if arg.reverse else 1]:
            given = [*operands[: arg.consts], *carry, *[x[t] for x in operands[first:]]]
            yield arg.body, given
            carry = _run(arg.body, given)[: arg.carry]


def _run(body: Body, operands: Sequence[Values]) -> list[Values]:
    return NumpyPlan(body.outputs, body.inputs)(operands)


# Kernels.


class _KernelWalk(InterpreterDriver):
    """Runs a program in NumPy, and each of its kernels on a device as well."""

    def __init__(self, search: _Search, program: Program) -> None:
        steps = program.kernels
        plain = [s for s in steps if type(s.kernel) is ir.Kernel]
        host: Any = get_device("interpreter")
        super().__init__(host, {s: KernelPlan(s.kernel) for s in plain}, {})
        self.program = program
        self.search = search
        self.visits = Counter[RunKernel]()
        self.compiled: dict[RunKernel, Executable] = {}
        self.name = ""

    def first(self, arrays: Sequence[Values]) -> str:
        slots, program = self.program.slots, self.program
        inputs = [_bytes(np.array(x, order="C")) for x in arrays]
        outputs = [np.zeros(slots[n].nbytes, np.uint8) for n in program.outputs]
        self.run(program, inputs, outputs)
        return self.name

    def run_kernel(self, step: RunKernel, memories: list[Any]) -> None:
        self.visits[step] += 1
        special = step not in self.plans
        if self.name or (self.visits[step] > _VISITS and not special):
            return super().run_kernel(step, memories) if not special else None
        copies = self._on_device(step, memories)
        if special:  # a library's, whose meaning is its operation's
            for slot, copy in copies.items():
                memories[slot][...] = copy
            return None
        super().run_kernel(step, memories)
        for slot, spec in zip(step.slots, step.buffers, strict=True):
            if spec.written:
                size = spec.size * spec.dtype.itemsize
                pair = [x[:size].view(spec.dtype) for x in
                        (copies[slot], memories[slot])]  # fmt: skip
                if self.search._wrong(pair[:1], pair[1:]):
                    self.name = step.info.name
        return None

    def _on_device(self, step: RunKernel, memories: list[Any]) -> dict[int, Values]:
        """What the slots of a kernel hold after it has run on the device."""
        device, slots = self.search.device, list(dict.fromkeys(step.slots))
        if step not in self.compiled:
            self.compiled[step] = device.compile(_alone(step, slots, memories))
        written = {s for s, b in zip(step.slots, step.buffers, strict=True) if b.written}
        given = [device.copy_in(_aligned(memories[s])) for s in slots]
        found = self.compiled[step](given)
        ends = [s for s in slots if s in written]
        return {
            s: device.copy_out(x, np.dtype(np.uint8), memories[s].size)
            for s, x in zip(ends, found, strict=True)
        }


def _alone(step: RunKernel, slots: Sequence[int], memories: list[Any]) -> Program:
    """A program of one kernel, which writes its inputs."""
    place = {s: i for i, s in enumerate(slots)}
    kind = np.dtype(np.uint8)
    given = [Slot(kind, (memories[s].size,), "input", i) for s, i in place.items()]
    run = RunKernel(step.kernel, tuple([place[s] for s in step.slots]), step.info)
    pairs = zip(step.slots, step.buffers, strict=True)
    written = {place[s] for s, spec in pairs if spec.written}
    return Program(
        tuple(given), (run,), tuple(range(len(given))), tuple(sorted(written)), 0
    )  # fmt: skip


def _bytes(array: Values) -> Values:
    return array.reshape(-1).view(np.uint8)


def _aligned(memory: Values) -> Values:
    """A copy of some bytes where a device may write."""
    room = np.empty(memory.size + 128, np.uint8)
    start = -room.ctypes.data % 128
    found = room[start : start + memory.size]
    found[...] = memory
    return found

"""Which one is wrong? The first operation of a program that differs, and why it does.

    print(ft.bisect(f, x))

    bisect f: on cpu 1 of 2 results differs from NumPy's, operation by operation
    first: log f32[8], of f32[8]
      at File "train.py", line 12, in f …
      3 of 8 elements differ, most at [2]: 0.7 (actual) is not 0.69 (desired), …
      units in the last place apart: 0 of 5, 64-127 of 3
    cause: the pass 'simplify' of lowering; without 'fold_log' it agrees: …
    program: bisect_f.py

The part that differs is made as small as it gets (`program_parts.py`). Then NumPy
computes what each pass of lowering left of it, kernels are compared, and rules are
switched off, half of them at a time. It is written as a program of Python
(`graph_text.py`).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.backends.base import Device, get_device
from ftrace.backends.rule_names import rule_names
from ftrace.errors import ArgumentError, FileFormatError, FtraceError, Origin
from ftrace.ground import VERSION, settings
from ftrace.ground.text_tables import Shown
from ftrace.lower.kernel.ir import OF_USERS
from ftrace.lower.lowering import passes_of
from ftrace.testing import program_parts as pp
from ftrace.testing.close import Limits, Tolerance, check_tolerances
from ftrace.testing.graph_text import NoTextError, array_text, function_text
from ftrace.trace.arrays.array import Array
from ftrace.trace.calls.carry_keys import carry_keys
from ftrace.trace.effects import rehearsal
from ftrace.trace.evaluate import NumpyPlan, observe
from ftrace.trace.flatten_arguments import display_name
from ftrace.trace.graph import Graph, Node, substitute, toposort
from ftrace.trace.primitives.primitive import compound_of, item_p
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic import any_dynamic
from ftrace.transforms.array_files import read_path, replacing
from ftrace.transforms.jit.compiled_graph import CompiledGraph
from ftrace.transforms.jit.jit import Jitted, operations_at

Values = Any  # an array of NumPy's, whose stubs leave too much unknown

#: Bytes of inputs up to which a program is written.
_WRITTEN = 1 << 25
#: Bytes of a value by which two runs of NumPy are compared.
_COMPARED = 1 << 16


@dataclass(frozen=True, eq=False, repr=False)
class Difference(Shown):
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


@dataclass(frozen=True, eq=False, repr=False)
class Bisection(Shown):
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
      allowed: how far apart results may be.
      rounding: where results are farther apart, but no farther than rounding takes
        them: which ones, and the worst of them.
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
    allowed: str = ""
    rounding: str = ""

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
                f"the code of the kernel {self.kernel} for {self.device}: NumPy "
                "computes another result of it"
            )
        else:
            parts.append(
                "no pass, and no kernel that NumPy can compute: where values lie, the "
                "order of steps, or an operation of a library"
            )
        if self.rules:
            names = ", ".join(map(repr, self.rules))
            parts.append(
                f"without {names} it agrees: ft.config(disabled_rules={{{names}}})"
            )
        return "; ".join(parts)

    def __str__(self) -> str:
        head = f"bisect {self.name}: on {self.device} "
        numbers = {"operation": self.operations, "kernel": self.kernels}
        several = [f"{n} {what}{'s' * (n != 1)}" for what, n in numbers.items()]
        counts = ", ".join(several)
        if self.agrees:
            most = f"{self.largest} units in the last place at the most"
            text = "no difference but rounding" if self.rounding else "no difference"
            lines = [f"{head}{text}: {counts}, {most}; allowed: {self.allowed}"]
            lines += [self.rounding] if self.rounding else []
            return "\n".join([*lines, *self.notes])
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
      ArgumentError: a size is dynamic; a result depends on an effect, or on a function
        of the user's that is not the same from run to run; the arguments are shapes, or
        traced; `path` is no name of a file.
      ValueRangeError: `ulps` and other tolerances are given, or one is negative.
      FtraceError: whatever the function raises when it is traced or compiled.

    Example:
      >>> found = ft.bisect(lambda x: fnp.exp(x).sum(), fnp.ones(100), path=None)
      >>> found.agrees
      True
    """
    tree.check_callable(f, "bisect")
    check_tolerances("bisect", rtol, atol, ulps)
    if path is not None:
        read_path("bisect", path, "bisect(f, *args, path='program.py')")
    jitted = f if isinstance(f, Jitted) else Jitted(f)
    graph, arrays, _ = operations_at("bisect", f, args, {})
    place = jitted.target(arrays) if device is None else get_device(device)
    scaled = rtol is None and atol is None and ulps is None
    limits = Limits(rtol, atol, ulps, scaled)
    name = display_name(jitted)
    search = pp.Search(
        _numbers_of(graph), list(map(_as_numbers, arrays)), place, limits
    )
    found = _compare(search, name)
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
    name = name.replace(" ", "_").replace(".", "_")
    return "".join([c for c in name if c.isalnum() or c == "_"]) or "function"


def _write(found: Bisection, path: str | os.PathLike[str]) -> Bisection:
    """Writes the program, where it can be written."""
    if not found.program:
        return found
    changes: dict[str, Any] = {"path": os.fspath(path)}
    try:
        with replacing(Path(path)) as file:
            file.write(found.program.encode())
    except FileFormatError as error:
        note = f"program: not written to {error.message}; it is in .program"
        changes = {"notes": (*found.notes, note)}
    return replace(found, **changes)


def _compare(search: pp.Search, name: str) -> Bisection:
    """The whole program first, and then what of it differs."""
    graph, device = search.graph, search.device
    whole = pp.Subprogram(graph, search.arrays, search.order, graph.outputs)
    compiled = CompiledGraph(graph, device)
    results = pp.results_of(compiled, search.arrays)
    wrong = search.find_different(results, whole.expected)
    kernel = _wrong_kernel(search, compiled, search.arrays)
    counts = len(search.order), len(compiled.program.kernels)
    known = name, device.name, *counts, search.largest
    allowed = search.limits.describe()
    if not wrong and not kernel:
        return Bisection(*known, allowed=allowed)
    if wrong:
        _check_repeats(whole)
    if not wrong:
        text = f"results agree with NumPy's, but not what the kernel {kernel} computes"
        return Bisection(*known, text, kernel=kernel)
    text = f"{len(wrong)} of {len(results)} results differ from NumPy's"
    with settings.config(cache_size=0):
        anew = pp.results_of(CompiledGraph(graph, device), search.arrays)
        if not search.find_different(anew, whole.expected):
            note = "compiled anew it agrees: the disk cache has other code of it"
            return Bisection(*known, text, notes=(note,))
        smallest = search.smallest()
        if smallest is None:
            rounding = (
                f"{text} by more, but no part of it more than rounding of its "
                "inputs does"
            )
            if search.left:
                rounding += f"; {search.left} parts were not looked at"
            rounding += f"\n{_describe_worst(graph, results, whole.expected, wrong)}"
            return Bisection(*known, allowed=allowed, rounding=rounding)
        found = _explain(*smallest)
        return replace(
            found, name=name, device=device.name, operations=counts[0],
            kernels=counts[1], largest=search.largest, wrong=text,
        )  # fmt: skip


def _check_repeats(part: pp.Subprogram) -> None:
    """Raises where NumPy itself computes something else the second time."""
    runs: list[list[tuple[Node, bytes]]] = []

    def note(node: Node, _: Any, value: Values) -> None:
        if compound_of(node) is None:
            runs[-1].append((node, np.asarray(value).tobytes()[:_COMPARED]))

    for _ in range(2):
        runs.append([])
        with observe(note):
            _ = part.expected
    for (node, first), (_, second) in zip(*runs, strict=False):
        if first != second:
            name = (node.src[0] if node.op is item_p else node).op.name
            raise ArgumentError(
                f"bisect: {name} is not the same from run to run, so nothing can be "
                "compared; give its value as an argument",
                node.origin,
            )


def _describe_worst(
    graph: Graph, results: Sequence[Values], expected: Sequence[Values],
    wrong: Sequence[tuple[int, str]],
) -> str:  # fmt: skip
    """Of results that differ the one that is the most units apart, and its line."""

    def units(item: tuple[int, str]) -> int:
        return max(
            pp.ulps_of(results[item[0]], expected[item[0]]).ravel().tolist() or [0]
        )

    number, text = max(wrong, key=units)
    node = graph.outputs[number]
    made = node.src[0] if node.op is item_p else node
    at = "" if node.origin is None else f"\n  at {node.origin.describe()}"
    where = text.partition("\n")[0]
    return f"most: {made.op.name} {node.aval!r}{at}\n  {where}"


# Why.


def _explain(part: pp.Subprogram, search: pp.Search, inside: str) -> Bisection:
    """What differs in a part, and why."""
    compiled = CompiledGraph(part.graph, search.device)
    results, expected = pp.results_of(compiled, part.arrays), part.expected
    number, text = search.wrong(results, expected, part.again)[0]
    stage = _wrong_stage(search, part)
    kernel = "" if stage else _wrong_kernel(search, compiled, part.arrays)
    units = _histogram(results[number], expected[number])
    difference = _difference(search, part.wanted[number], text, units, inside)
    found = Bisection(
        "", "", 0, 0, 0, "", difference, kernel, stage, _rules(search, part)
    )  # fmt: skip
    try:
        return replace(found, program=_program(search, part, difference))
    except NoTextError as error:
        return replace(found, notes=(f"program: none is written, as {error.message}",))


def _wrong_kernel(
    search: pp.Search, compiled: CompiledGraph, arrays: Sequence[Values]
) -> str:
    return pp.first_wrong_kernel(compiled.program, arrays, search.device, search.wrong)


def _wrong_stage(search: pp.Search, part: pp.Subprogram) -> str:
    """The first pass of lowering after which NumPy computes something else."""
    expected = part.expected
    for stage, graph, *_ in passes_of(part.graph, search.device.limits):
        try:
            found = NumpyPlan(graph.outputs, graph.inputs)(part.arrays)
        except (FtraceError, AssertionError):
            return ""  # what devices have, and NumPy has not
        if search.wrong(found, expected, part.again):
            return stage.name
    return ""


def _rules(search: pp.Search, part: pp.Subprogram) -> tuple[str, ...]:
    """The fewest rules and decisions without which a part agrees; () for none."""
    off, expected = settings.current().disabled_rules, part.expected

    def agrees(names: Collection[str]) -> bool:
        try:
            with settings.config(disabled_rules=off.union(names)):
                compiled = CompiledGraph(part.graph, search.device)
                results = pp.results_of(compiled, part.arrays)
                return not search.wrong(results, expected, part.again)
        except FtraceError:
            return False

    names, needed = sorted(rule_names() - off), list[str]()
    if not agrees(names):
        return next(((name,) for name in names if agrees((name,))), ())
    last = len(names)
    while not agrees(needed):  # the last one of the fewest first ones that it takes
        last = pp.edge(0, last, lambda n: agrees([*needed, *names[:n]])) - 1
        needed.append(names[last])
    return tuple(needed)


def _difference(
    search: pp.Search, node: Node, text: str, ulps: dict[str, int], inside: str
) -> Difference:
    made = node.src[0] if node.op is item_p else node
    traced = [s for s in made.src if s in search.last_use]
    return Difference(
        made.op.name, repr(node.aval), tuple([repr(s.aval) for s in made.src]),
        made.origin, tuple([s.origin for s in traced if s.origin]), text, ulps, inside,
    )  # fmt: skip


def _histogram(x: Values, y: Values) -> dict[str, int]:
    """How many elements are how far apart: 0, 1, 2-3, 4-7 and so on."""
    found = Counter([int(n).bit_length() for n in pp.ulps_of(x, y).ravel().tolist()])
    ranges = {
        ("0", "1")[k] if k < 2 else f"{1 << (k - 1)}-{(1 << k) - 1}": found[k]
        for k in sorted(found)
    }
    apart = x.size - sum(found.values())
    return ranges | ({"NaN or infinity": apart} if ranges and apart else {})


# A program of it.


def _program(search: pp.Search, part: pp.Subprogram, difference: Difference) -> str:
    limits = search.limits
    options = {"rtol": limits.rtol, "atol": limits.atol, "ulps": limits.ulps}
    given = [f"{k}={v!r}" for k, v in options.items() if v is not None]
    chosen = [f"device={search.device.name!r}"]
    if off := sorted(settings.current().disabled_rules):
        chosen.append(f"disabled_rules={off!r}")
    own = sorted({n.op.name for n in part.inside} & OF_USERS)
    needs = "".join([f"# Import the module that makes {name!r}.\n" for name in own])
    return _PROGRAM.format(
        difference=str(difference).replace("\\", "\\\\").replace('"""', "'''"),
        version=VERSION,
        function=needs + function_text(part.graph),
        arguments="".join([f"    {text},\n" for text in _inputs(search, part)]),
        settings=", ".join(chosen),
        options=", ".join(["path=None", *given]),
    )


def _inputs(search: pp.Search, part: pp.Subprogram) -> list[str]:
    """Code for inputs; of few words, where the part differs with these too."""
    builtin = all(x.dtype.isbuiltin == 1 for x in part.arrays)
    for make, text in _SIMPLE if builtin else ():
        arrays = [make(x.shape).astype(x.dtype) for x in part.arrays]
        if search.differing(replace(part, arrays=arrays)):
            return [text.format(shape=x.shape, dtype=x.dtype) for x in arrays]
    if sum(x.nbytes for x in part.arrays) > _WRITTEN:
        raise NoTextError(f"its inputs are of more than {_WRITTEN >> 20} MB")
    return list(map(array_text, part.arrays))


def _ramp(shape: tuple[int, ...]) -> Values:
    found: Values = np.arange(prod(shape)) % 7 + 1
    return found.reshape(shape)


_PROGRAM = '''"""What a device computes here is not what NumPy does.

{difference}

Written by ft.bisect of ftrace {version}. Run it: it compares again, and ends with
status 1 as long as there is a difference.
"""

from math import prod

import numpy as np

import ftrace as ft
from ftrace.testing.graph_text import numbers, operation


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
    (_ramp, '(np.arange(prod({shape})) % 7 + 1).reshape({shape}).astype("{dtype}")'),
)

"""Programs in files, run again elsewhere: which kernels are others, and which results?

    ft.record("step.npz", step, params, x)
    print(ft.replay("step.npz"))        # with another version, on another machine

    replay step of ftrace 0.1.0: on cpu 3 kernels, 1 of them changed; results: the same
    changed: reduce_sum_exp_2
      - v3 = exp v2
      + v3 = exp2 v2

A file has the graph as it was traced, its inputs, its results, and the kernels that it
became: what they compute, and their code. To replay it is to lower the graph anew.
"""

from __future__ import annotations

import difflib
import json
import os
import platform
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ftrace.backends.base import Device, get_device
from ftrace.backends.llvm.target import host_target
from ftrace.backends.rule_names import rule_names
from ftrace.errors import ArgumentError, FileFormatError, FtraceError
from ftrace.ground import VERSION, settings
from ftrace.ground.text_tables import Shown
from ftrace.lower.assembly.serialize import kernel_identity
from ftrace.testing.close import Limits, compare
from ftrace.testing.graph_text import NoTextError, graph_of, graph_rows
from ftrace.testing.program_parts import results_of, ulps_of
from ftrace.trace.calls.inline import ready_graph
from ftrace.trace.flatten_arguments import display_name
from ftrace.trace.graph import Graph
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic import any_dynamic
from ftrace.transforms import array_files
from ftrace.transforms.jit.compiled_graph import CompiledGraph
from ftrace.transforms.jit.jit import Jitted
from ftrace.transforms.jit.stages import concrete_inputs

#: Of what a file has. Those of another form are refused.
FORM = 1
#: What `isinstance` is asked for, so that the parts stay untyped.
_DICT: tuple[type[Any], ...] = (dict,)
#: What a file says of a kernel, all of it text.
_SECTIONS = ("name", "text", "identity", "code", "lines")
#: Lines of a difference that are shown.
_LINES = 12


def record(path: array_files.PathLike, f: Callable[..., Any], *args: Any) -> None:
    """Writes the program of a function, with its inputs and results, for `replay`.

    Args:
      path: a file that ends in `.npz` or `.safetensors`.
      f: a function of arrays, under `jit` or not.
      args: its arguments.

    Raises:
      ArgumentError: the function has effects or dynamic sizes, or calls back; its
        arguments are shapes, or traced.
      ValueRangeError: the name has another ending.
      FileFormatError: it cannot be written.

    Example:
      >>> import os, tempfile
      >>> path = os.path.join(tempfile.mkdtemp(), "step.npz")
      >>> ft.record(path, lambda x: fnp.tanh(x).sum(), fnp.ones(8))
      >>> ft.replay(path).same_bits
      True
    """
    array_files.check_file(
        "record", array_files.read_path("record", path, "record('f.npz', f, *args)")
    )
    tree.check_callable(f, "record")
    jitted = f if isinstance(f, Jitted) else Jitted(f)
    graph = ready_graph(jitted.trace(*args).graph)
    arrays = concrete_inputs("record", graph, jitted.leaves(args, {}))
    if graph.effects or any(any_dynamic(n.shape) for n in graph.nodes):
        raise ArgumentError(
            "record: a program with effects or dynamic sizes is not recorded; leave "
            "out debug.print and callbacks, and dynamic="
        )
    device = jitted.target(arrays)
    try:
        rows = graph_rows(graph.inputs, graph.outputs)
    except NoTextError as error:
        raise ArgumentError(
            f"record: {error.message}; leave it out, or record what it is given and "
            "what comes after it"
        ) from None
    inputs = [x.numpy() for x in arrays]
    kernels, results = _run(Graph(graph.inputs, graph.outputs), inputs, device)
    note = {
        "form": FORM, "version": VERSION, "name": display_name(jitted),
        "device": device.name, "machine": _machine(device), "kernels": kernels,
        "disabled_rules": sorted(settings.current().disabled_rules), "graph": rows,
    }  # fmt: skip
    packed = np.frombuffer(zlib.compress(json.dumps(note).encode()), np.uint8)
    array_files.write(path, {"record": packed, "inputs": inputs, "results": results})


def _run(
    graph: Graph, inputs: Sequence[Any], device: Device
) -> tuple[list[dict[str, str]], list[Any]]:
    """The kernels that a graph becomes, and its results."""
    with settings.config(cache_size=0):
        compiled = CompiledGraph(graph, device)
        results = results_of(compiled, inputs)
    steps, sources = compiled.program.kernels, compiled.executable.sources
    kernels: list[dict[str, str]] = []
    for step, code in zip(steps, sources, strict=True):
        text, lines = str(step.kernel), ", ".join(map(str, step.info.origins))
        identity = kernel_identity(step.kernel) or text
        parts = step.info.name, text, identity, code, lines
        kernels.append(dict(zip(_SECTIONS, parts, strict=True)))
    return kernels, results


def _machine(device: Device) -> str:
    """What code depends on: where it differs, code is not compared."""
    return repr(host_target()) if device.platform == "cpu" else platform.platform()


@dataclass(frozen=True, repr=False)
class KernelChange(Shown):
    """A kernel that is another one than when it was recorded.

    Attributes:
      name: of the kernel.
      kind: "changed", "new", "gone", or "code" for other code of the same kernel.
      lines: of the user that it computes.
      difference: of its text, or of its code, line by line.
    """

    name: str
    kind: str
    lines: str
    difference: str

    def __str__(self) -> str:
        kind = "other code" if self.kind == "code" else self.kind
        head = f"{kind}: {self.name}" + (f" of {self.lines}" if self.lines else "")
        rows = self.difference.splitlines()
        more = [f"… {len(rows) - _LINES} more lines"] if len(rows) > _LINES else []
        return "\n".join([head, *[f"  {row}" for row in [*rows[:_LINES], *more]]])


@dataclass(frozen=True, eq=False, repr=False)
class Replay(Shown):
    """What became of a recorded program; print it.

    Attributes:
      name: of the function.
      version: of ftrace that recorded it.
      device: where it ran now.
      kernels: how many there are now.
      changes: those that are others.
      results: how they differ; "" where they are close enough.
      ulps: units in the last place that they are apart, at the most.
      same_bits: they are the same.
      other_machine: it was recorded for another one, and code is not compared.
    """

    name: str
    version: str
    device: str
    kernels: int
    changes: tuple[KernelChange, ...]
    results: str
    ulps: int
    same_bits: bool
    other_machine: bool

    @property
    def agrees(self) -> bool:
        """Are the results those that were recorded?"""
        return not self.results

    def __str__(self) -> str:
        found = "the same" if self.same_bits else f"within {self.ulps} ULPs"
        lines = [
            f"replay {self.name} of ftrace {self.version}: on {self.device} "
            f"{self.kernels} kernel{'s' * (self.kernels != 1)}, "
            f"{len(self.changes) or 'none'} changed; results: "
            f"{found if self.agrees else 'others'}"
        ]
        lines += [f"  {line}" for line in self.results.splitlines()]
        lines += map(str, self.changes)
        if self.other_machine:
            lines.append("recorded for another processor: code is not compared")
        return "\n".join(lines)


def replay(
    path: str | os.PathLike[str], *, device: str | Device | None = None
) -> Replay:
    """Runs what `record` wrote, with the kernels of today.

    Args:
      path: of the file.
      device: where; by default on a device of the kind that it was recorded on.

    Returns:
      Which kernels are others, and whether results are: print it.

    Raises:
      FileFormatError: the file is missing, damaged, cut off or no record; or it was
        recorded by a version with operations that this one has not.
      DeviceError: the device is not there.
    """
    whole, note = _read(Path(path))
    place = get_device(device or note["device"])
    off = rule_names().intersection(note["disabled_rules"])
    with settings.config(disabled_rules=off):
        graph = _graph(Path(path), note)
        kernels, results = _run(graph, whole["inputs"], place)
    compared = [place.name, _machine(place)] == [note["device"], note["machine"]]
    limits, ulps, wrong = Limits(scaled=True), 0, list[str]()
    for i, (x, y) in enumerate(zip(results, whole["results"], strict=True)):
        ulps = max(ulps, *ulps_of(x, y).ravel().tolist(), 0)
        if said := compare(x, y, limits):
            wrong.append(f"result {i}: {said}".splitlines()[0])
    pairs = zip(results, whole["results"], strict=True)
    return Replay(
        note["name"], note["version"], place.name, len(kernels),
        tuple(_changes(note["kernels"], kernels, compared)), "\n".join(wrong), ulps,
        all(x.tobytes() == y.tobytes() for x, y in pairs), not compared,
    )  # fmt: skip


def _read(path: Path) -> tuple[Any, Any]:
    whole: Any = array_files.read(path)
    with array_files.reading(path):
        if not isinstance(whole, _DICT) or "record" not in whole:
            raise array_files.bad(
                path, "it is no program that ftrace.record has written"
            )
        packed: Any = whole["record"]
        note: Any = json.loads(zlib.decompress(packed.tobytes()))
        if note["form"] != FORM:
            raise FileFormatError(
                f"{path}: it was recorded by ftrace {note['version']} in form "
                f"{note['form']}, and ftrace {VERSION} reads form {FORM}; record it "
                "anew"
            )
        for kernel in note["kernels"]:
            "".join([kernel[part] for part in _SECTIONS])
    return whole, note


#: What reading a graph of another form raises.
_OTHER_FORM = (
    FtraceError, ImportError, AttributeError, LookupError, TypeError, ValueError,
)  # fmt: skip


def _graph(path: Path, note: Any) -> Graph:
    try:
        return graph_of(note["graph"])
    except _OTHER_FORM as error:
        raise FileFormatError(
            f"{path}: it was recorded by ftrace {note['version']}, and holds what "
            f"ftrace {VERSION} has not: {error}; record it anew"
        ) from error


def _changes(
    before: Sequence[dict[str, str]], after: Sequence[dict[str, str]], with_code: bool
) -> list[KernelChange]:
    """The kernels that are others, in their order."""
    names = [[kernel["identity"] for kernel in kernels] for kernels in (before, after)]
    matcher = difflib.SequenceMatcher(None, *names, autojunk=False)
    found: list[KernelChange] = []
    for kind, first, last, start, stop in matcher.get_opcodes():
        old, new = list(before[first:last]), list(after[start:stop])
        pairs = list(zip(old, new, strict=False))
        if kind == "equal":
            found += [
                _change("code", x, y, "code")
                for x, y in pairs
                if with_code and x["code"] != y["code"]
            ]
            continue
        found += [_change("changed", x, y, "text") for x, y in pairs]
        found += [_change("gone", x, {}, "text") for x in old[len(pairs) :]]
        found += [_change("new", {}, x, "text") for x in new[len(pairs) :]]
    return found


def _change(kind: str, x: dict[str, str], y: dict[str, str], what: str) -> KernelChange:
    old, new = [kernel.get(what, "").splitlines() for kernel in (x, y)]
    rows = list(difflib.unified_diff(old, new, lineterm="", n=0))[2:]
    changes = [row for row in rows if not row.startswith("@@")]
    shown = y or x
    return KernelChange(shown["name"], kind, shown["lines"], "\n".join(changes))

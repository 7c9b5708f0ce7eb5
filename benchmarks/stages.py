"""What compiling costs per node of the graph, stage by stage.

The stages are those of `ftrace/lower`; this file is the only one here that looks
inside the package. The budgets are those that the design sets at 2,000 nodes. What it
adds to tracing to note the user's line of each node is measured in turn with tracing
where one line stands for all.
"""

from __future__ import annotations

import gc
import re
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import ftrace as ft
import ftrace.numpy as fnp
from benchmarks.inputs import normal, weights
from benchmarks.machine import python_seconds
from benchmarks.timing import FULL, Effort
from ftrace import errors
from ftrace.backends.llvm.compile import generate
from ftrace.backends.llvm.device import render_kernel
from ftrace.backends.llvm.kernels.compile_kernels import (
    general_kernels,
    group_kernels,
    in_one_module,
)
from ftrace.lower import simplify_graph
from ftrace.lower.analysis import root_of
from ftrace.lower.assembly.assemble import Sharing, assemble, ordered_steps
from ftrace.lower.build.build_kernel import build_kernels
from ftrace.lower.fusion.plan_fusion import plan_fusion
from ftrace.trace.graph import Graph, toposort

TITLE = "compile time/per node"
SIZES = (500, 2000)
#: Measured once each, and not in a hurry: what is not linear shows here.
LARGE_SIZES = (10_000, 50_000)
STAGES = (
    "trace", "transform", "simplify", "fusion", "build", "assemble", "render",
    "codegen",
)  # fmt: skip
#: Microseconds per node; those from simplify to assemble together are 60, of
#: rendering and code generation 30.
BUDGET = {"trace": 10.0, "transform": 15.0, "lowering": 60.0, "code": 30.0}
#: What noting lines may add to tracing.
MOST_FOR_LINES = 0.1


@dataclass(frozen=True)
class StageTimes:
    """One program.

    Attributes:
      program: its name.
      size: how many nodes were asked for.
      nodes: of the graph that is lowered.
      kernels: how many came out, and how many of them differ.
      microseconds: per node, by stage.
      python: seconds of a piece of Python in turn with it.
      lines: what it adds to tracing to note the user's lines, as a part of it.
    """

    program: str
    size: int
    nodes: int
    kernels: tuple[int, int]
    microseconds: dict[str, float]
    python: float
    lines: float = 0.0


def is_wanted(pattern: str) -> bool:
    """Whether this table is among the rows that were asked for."""
    return re.search(pattern, TITLE, re.IGNORECASE) is not None


def measure_stages(effort: Effort) -> list[StageTimes]:
    """All programs at all sizes; of each stage the best of several runs."""
    repetitions = max(2, effort.rounds // 3)
    large = LARGE_SIZES if effort.rounds >= FULL.rounds else ()
    return [
        measure_program(name, make, size, repetitions if size in SIZES else 1)
        for name, make in PROGRAMS.items()
        for size in (*SIZES, *large)
    ]


def measure_program(
    name: str, make: Callable[[int], Any], size: int, repetitions: int
) -> StageTimes:
    """Times a program whose gradient has about `size` nodes."""
    depth = _depth_for(make, size)
    runs = [_run(*make(depth)) for _ in range(repetitions)]
    times = {stage: min(run.microseconds[stage] for run in runs) for stage in STAGES}
    python = min(run.python for run in runs)
    loss, arguments = make(depth)
    lines = cost_of_lines(loss, arguments, 3 * repetitions)
    return StageTimes(name, size, runs[0].nodes, runs[0].kernels, times, python, lines)


def _depth_for(make: Callable[[int], Any], size: int) -> int:
    """How many layers bring the gradient nearest to `size` nodes."""

    def nodes(depth: int) -> int:
        loss, arguments = make(depth)
        return len(toposort(ft.make_graph(ft.grad(loss))(*arguments).outputs))

    fixed, grown = nodes(2), nodes(4)
    each = (grown - fixed) / 2
    return max(1, round(2 + (size - fixed) / each))


def _run(loss: Any, arguments: tuple[Any, ...]) -> StageTimes:
    ft.clear_caches()  # among others, of derivatives
    clock = _Clock()
    forward = clock.time("trace", lambda: ft.make_graph(loss)(*arguments))
    traced = len(toposort(forward.outputs))
    graph = clock.time("transform", lambda: ft.make_graph(ft.grad(loss))(*arguments))
    nodes = len(toposort(graph.outputs))
    simplified = clock.time("simplify", lambda: simplify_graph(graph.outputs))
    roots = [root_of(n) for n in simplified if root_of(n).size]
    plan = clock.time("fusion", lambda: plan_fusion(roots, set()))
    built = clock.time("build", lambda: dict(build_kernels(plan)))
    program = clock.time("assemble", lambda: _assembled(graph, simplified, plan, built))
    general = general_kernels(dict.fromkeys(step.kernel for step in program.kernels))
    kernels = list(dict.fromkeys(kernel for kernel, _ in general.values()))
    rendered = clock.time("render", lambda: [render_kernel(k) for k in kernels])

    def generate_all() -> None:
        for group in group_kernels(rendered):
            text, _ = in_one_module([one.module for one in group])
            generate(text)

    clock.time("codegen", generate_all)
    spent = clock.seconds
    # Differentiating traces the function once more; that part is no transform.
    spent["transform"] = max(spent["transform"] - spent["trace"], 0.0)
    per = {stage: traced if stage == "trace" else nodes for stage in STAGES}
    times = {stage: spent[stage] / per[stage] * 1e6 for stage in STAGES}
    found = len(program.kernels), len(kernels)
    return StageTimes("", nodes, nodes, found, times, python_seconds())


def cost_of_lines(loss: Any, arguments: tuple[Any, ...], rounds: int) -> float:
    """What noting the user's lines adds to tracing: the best of turns with and without.

    Args:
      loss, arguments: a program.
      rounds: how many turns each has.
    """
    least = dict.fromkeys((nullcontext, one_line_for_all), float("inf"))
    for _ in range(rounds):
        for way in least:
            ft.clear_caches()
            clock = _Clock()
            with way():
                clock.time("trace", lambda: ft.make_graph(loss)(*arguments))
            least[way] = min(least[way], clock.seconds["trace"])
    return least[nullcontext] / least[one_line_for_all] - 1


@contextmanager
def one_line_for_all() -> Generator[None]:
    """A block in which no frame is looked at: all nodes are of one line."""
    known, line = errors.user_origin, errors.user_origin()

    def same(called: str = "", above: int = 1) -> Any:
        return line

    loaded = [module for name, module in sys.modules.items() if name[:6] == "ftrace"]
    asking = [m for m in loaded if vars(m).get(known.__name__) is known]
    for module in asking:
        setattr(module, known.__name__, same)
    try:
        yield
    finally:
        for module in asking:
            setattr(module, known.__name__, known)


def _assembled(graph: Graph, simplified: Any, plan: Any, built: Any) -> Any:
    steps = ordered_steps(plan, Sharing(), built)
    return assemble(Graph(graph.inputs, tuple(simplified)), steps, Sharing())


class _Clock:
    """Seconds by stage: those of this process, whatever else the machine has to do."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def time(self, stage: str, work: Callable[[], Any]) -> Any:
        gc.collect()
        start = time.process_time()
        result = work()
        self.seconds[stage] = time.process_time() - start
        return result


def elementwise_program(depth: int) -> tuple[Any, tuple[Any, ...]]:
    """Elementwise operations alone: few and large kernels."""

    def loss(x: Any) -> Any:
        y = x
        for i in range(depth):
            y = fnp.sin(y) * x + fnp.tanh(y) / (i + 2)
        return fnp.sum(y)

    return loss, (normal(1000),)


def layered_program(depth: int) -> tuple[Any, tuple[Any, ...]]:
    """Normalised dense layers with residuals: many kernels."""

    def loss(layers: Any, x: Any) -> Any:
        for w, b in layers:
            mean = fnp.mean(x, axis=-1, keepdims=True)
            spread = fnp.std(x, axis=-1, keepdims=True) + 1e-3
            x = x + ft.nn.gelu((x - mean) / spread @ w + b)
        return fnp.mean(x**2)

    layers = [(weights(32, 32, seed=i), normal(32, seed=i)) for i in range(depth)]
    return loss, (layers, normal(16, 32))


PROGRAMS: dict[str, Callable[[int], Any]] = {
    "elementwise chain": elementwise_program,
    "dense layers": layered_program,
}

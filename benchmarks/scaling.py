"""How steps of training would scale: a model of the program that each process runs.

    python -m benchmarks.scaling                    8 to 4,096 ranks of a cluster
    python -m benchmarks.scaling --cluster here     of machines like the one measured

The program of one process is made as it would be run, for as many processes as the
table says, and its list of steps is walked through. A kernel takes as long as its
operations or its bytes do, whichever is longer; what is sent takes what LogGP says of
the messages that it is made of (Alexandrov et al., SPAA 1995); what was started is done
beside the kernels that come before the wait. So an efficiency is about the program: how
much of it waits. Nothing is known of switches that are shared, of noise, or of kernels
that are slower for smaller parts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.backends.base import set_system
from ftrace.ground import process_groups
from ftrace.ground.limits import Limits
from ftrace.lower import lower
from ftrace.lower.program import (
    Program,
    RunBranch,
    RunExchange,
    RunKernel,
    RunLoop,
    Step,
    programs_of,
)
from ftrace.sharding import AxisType, NamedSharding, PartitionSpec as P
from ftrace.trace.calls.inline import ready_graph
from ftrace.trace.control.conditional import closed_graph
from ftrace.trace.graph import Graph
from ftrace.transforms.partition.spanning import localize_graph

RANKS = (8, 64, 512, 4096)
#: Below this the table says which exchange it is.
POOR = 0.9


@dataclass(frozen=True)
class Cluster:
    """What a model knows of a cluster, in seconds and per second.

    Attributes:
      latency, overhead, gap, per_byte: L, o, g and G of LogGP.
      operations, memory: of the kernels of one rank.
      source: where the figures are from.
    """

    latency: float
    overhead: float
    gap: float
    per_byte: float
    operations: float
    memory: float
    source: str

    def kernel(self, step: RunKernel) -> float:
        info = step.info
        return max(info.operations / self.operations, info.bytes / self.memory)

    def messages(self, count: int, nbytes: float) -> float:
        """From the first of so many, each of so many bytes, to the end of the last."""
        each = max(self.gap, self.overhead)
        total = count * nbytes * self.per_byte
        return 2 * self.overhead + self.latency + max(count - 1, 0) * each + total

    def gather(self, ranks: int, nbytes: float) -> float:
        """As `Group.gathering` does: each sends to each, or few bytes go in rounds.

        The first is what Open MPI does for MPI_Iallgather (`nbc_iallgather.c`), which
        alone can be waited for with an eye on the time. MPICH and the blocking calls of
        both have rounds for few bytes as well, and a ring for many, which sends no less
        (Thakur, Rabenseifner and Gropp, IJHPCA 19, 2005).
        """
        others = ranks - 1
        if ranks < process_groups.MANY or nbytes > process_groups.SHORT:
            return self.messages(others, nbytes)
        rounds = others.bit_length() * self.messages(1, 0)
        copied = 2 * ranks * nbytes / self.memory
        return rounds + others * nbytes * self.per_byte + copied

    def exchange(self, kind: str, ranks: int, nbytes: int) -> float:
        """What an exchange takes, of so many bytes that each process has before it."""
        others = ranks - 1
        every = self.gather(ranks, nbytes)
        fold = (1 + ranks) * nbytes / ranks / self.memory
        part = self.messages(others, nbytes / ranks)
        if kind in ("sum", "max", "min"):
            if ranks == 2:
                return self.messages(1, nbytes) + 3 * nbytes / self.memory
            if nbytes <= process_groups.FEW_BYTES:
                return every + ranks * nbytes / self.memory
            return part + fold + self.gather(ranks, nbytes / ranks)
        if kind == "gather":
            return every
        if kind == "scatter":
            return part + fold
        if kind == "all_to_all":
            return part
        if kind == "permute":
            return self.messages(1, nbytes)
        rounds = max(ranks - 1, 1).bit_length()  # first: a tree
        return rounds * self.messages(1, nbytes)


CLUSTERS = {
    "100 Gb/s": Cluster(
        2.5e-6, 1.5e-6, 1e-6, 1 / 12.5e9, 1e12, 1e11,
        "L, o and g: the defaults of LogGOPSim (https://github.com/spcl/LogGOPSim); G: "
        "the rate of the wire; a rank is a node of 32 cores that does 1 T operations "
        "of float32 and moves 100 GB per second",
    ),
    "here": Cluster(
        1.0e-6, 1.5e-6, 1.5e-6, 1 / 10e9, 5e10, 1e10,
        "`python -m benchmarks.processes`: two processes in shared memory, one thread",
    ),
}  # fmt: skip


def received(kind: str, ranks: int, nbytes: int) -> int:
    """Bytes that each process receives at the least, as `explain_sharding` counts."""
    times = 1 if kind in ("scatter", "all_to_all") else 2
    whole = {"gather": (ranks - 1) * nbytes, "permute": nbytes, "first": nbytes}
    return whole.get(kind, times * nbytes * (ranks - 1) // ranks)


@dataclass
class Run:
    """A walk through the steps of a program.

    Attributes:
      now, free: when the kernels are done, and when what is sent is.
      nbytes: what was received.
      waits: seconds in which nothing was computed, by exchange and line.
    """

    cluster: Cluster
    now: float = 0.0
    free: float = 0.0
    nbytes: int = 0
    waits: dict[str, float] = field(default_factory=dict)
    _ends: dict[Any, float] = field(default_factory=dict)

    def walk(self, program: Program, times: int = 1) -> None:
        """The steps, as often as that."""
        for step in program.steps:
            self._step(program, step, times)

    def _step(self, program: Program, step: Step, times: int) -> None:
        if isinstance(step, RunKernel):
            self.now += times * self.cluster.kernel(step)
        elif isinstance(step, RunExchange):
            self._exchange(program, step, times)
        elif isinstance(step, RunLoop):
            self.walk(step.body, times * (step.length or 1))
        elif isinstance(step, RunBranch):
            self.walk(max(programs_of(step), key=lambda p: len(p.steps)), times)

    def _exchange(self, program: Program, step: RunExchange, times: int) -> None:
        arg = step.nodes[0].arg
        if step.phase != "wait":
            slots = [row[0] for row in step.split(step.operands)]
            nbytes = sum(program.slots[s].nbytes for s in slots)
            self.nbytes += times * received(arg.kind, arg.ranks.size, nbytes)
            took = self.cluster.exchange(arg.kind, arg.ranks.size, nbytes)
            self.free = max(self.now, self.free) + times * took
            self._ends[step.nodes] = self.free
        if step.phase != "start":
            waited = max(self._ends[step.nodes] - self.now, 0.0)
            self.now += waited
            line = str(step.nodes[0].origin or "")
            more = f" and {len(step.nodes) - 1} more" if len(step.nodes) > 1 else ""
            name = f"{arg.kind} over {arg.ranks.name!r}{more}  # {line}".rstrip(" #")
            self.waits[name] = self.waits.get(name, 0.0) + waited


def program_of(fun: Callable[..., Any], *args: Any) -> Program:
    """What each process runs of a function of arrays over a mesh.

    Args:
      fun: a function.
      args: arrays, or `ShapeDtypeStruct`s with shardings.
    """
    traced = ft.jit(fun).trace(*args)
    graph = ready_graph(traced.graph, lambda constraint: True)
    given = [*traced.places, *[None] * len(graph.captured)]
    if any(s is not None and not s.is_fully_addressable for s in given):
        graph, _ = localize_graph(graph, given)
    closed = closed_graph(ready_graph(graph))
    limits = Limits(recurrences=True, cache=1 << 20)
    return lower(Graph(closed.inputs, closed.outputs), limits).program


# The steps.

#: Layers, and their width; the batch of a rank, and that of all together.
LAYERS, WIDTH, BATCH, TOTAL = 6, 4096, 256, 1 << 17


def _loss(params: Any, x: Any) -> Any:
    for up, down in params:
        x = x + fnp.tanh(x @ up) @ down
    return (x**2).mean()


def train_step(params: Any, x: Any) -> Any:
    """Gradient descent on layers with a residual; sums of gradients are collectives."""
    loss, grads = ft.value_and_grad(_loss)(params, x)
    return loss, ft.tree.map(lambda p, g: p - 0.1 * g, params, grads)


#: Of each arrangement: how many ranks share a layer, and how the two weights of a layer
#: are divided; the batch is always divided between the others.
ARRANGEMENTS: dict[str, tuple[int, Any, Any]] = {
    "data parallel": (1, P(), P()),
    "weights divided": (1, P("data"), P("data")),
    "tensor parallel of 8": (8, P(None, "model"), P("model")),
}


def arguments(name: str, ranks: int, batch: int) -> tuple[Any, ...]:
    """The types of a step's arguments over the mesh of so many ranks."""
    model, up, down = ARRANGEMENTS[name]
    axes = (AxisType.Auto,) * 2
    mesh = ft.make_mesh((ranks // model, model), ("data", "model"), axis_types=axes)

    def struct(shape: tuple[int, ...], spec: Any) -> Any:
        sharding = NamedSharding(mesh, spec)
        return ft.ShapeDtypeStruct(shape, np.float32, sharding=sharding)

    hidden = 2 * WIDTH
    layer = struct((WIDTH, hidden), up), struct((hidden, WIDTH), down)
    return [layer] * LAYERS, struct((batch, WIDTH), P("data"))


def run_of(name: str, ranks: int, batch: int, cluster: Cluster) -> Run:
    """A step in a system of so many ranks, of which this process is the first."""
    run = Run(cluster)
    set_system({"cpu": [1] * ranks})
    try:
        run.walk(program_of(train_step, *arguments(name, ranks, batch)))
    finally:
        set_system({})
    return run


def efficiency(
    name: str, ranks: int, weak: bool, cluster: Cluster
) -> tuple[float, Run]:
    """Against the least number of ranks that share a layer: 1 is as if none waited."""
    least = ARRANGEMENTS[name][0]
    batch = BATCH * ranks // least if weak else TOTAL
    run = run_of(name, ranks, batch, cluster)
    alone = run_of(name, least, BATCH if weak else TOTAL, cluster)
    return alone.now / run.now / (1 if weak else ranks / least), run


def report(cluster: Cluster, ranks: tuple[int, ...] = RANKS) -> str:
    """The table of all arrangements."""
    lines = [cluster.source, ""]
    for name in ARRANGEMENTS:
        for weak in (True, False):
            size = f"{BATCH} rows per rank" if weak else f"{TOTAL} rows in all"
            lines.append(f"{name}, {size}")
            for n in ranks:
                share, run = efficiency(name, n, weak, cluster)
                megabytes = run.nbytes / 1e6
                text = f"  {n:>5} ranks {run.now * 1e3:9.2f} ms {share:7.1%}"
                text += f" {megabytes:9.1f} MB received"
                if share < POOR and run.waits:
                    worst = max(run.waits, key=lambda k: run.waits[k])
                    text += f"  {run.waits[worst] * 1e3:.2f} ms: {worst}"
                lines.append(text)
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Models how steps would scale.")
    parser.add_argument("--cluster", choices=CLUSTERS, default="100 Gb/s")
    print(report(CLUSTERS[parser.parse_args().cluster]))
    return 0


if __name__ == "__main__":
    sys.exit(main())

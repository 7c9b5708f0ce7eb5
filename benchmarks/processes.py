"""Two processes: what they send each other, and a step of training, in turn.

    python -m benchmarks.processes            starts two processes with mpirun
    python -m benchmarks.processes --quick    less, and less exactly

Three tables: jitted collectives against the calls of mpi4py that do the same; a step of
training on two processes, with twice the rows, against one process, one thread each;
and that step with and without kernels that run while gradients are
sent. Each line has its turns one after the other, round by round; of the rounds the
median is shown, and the best one, which says more on a machine that does something else
as well: two processes that wait for each other suffer most from a third.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.sharding import NamedSharding, PartitionSpec as P
from ftrace.trace.bind import bind_compound
from ftrace.trace.primitives.exchange import Exchange, Ranks, exchange_p

KB = 1 << 10
SIZES = tuple(KB << k for k in range(0, 17, 2))
#: Layers of the step, their width, and the rows of one process.
LAYERS, WIDTH, ROWS = 6, 1024, 1024


def start(options: argparse.Namespace) -> int:
    """The same in two processes."""
    beside = str(Path(sys.executable).parent)
    mpirun = shutil.which("mpirun", path=os.pathsep.join([beside, os.environ["PATH"]]))
    if mpirun is None or importlib.util.find_spec("mpi4py") is None:
        print("mpirun or mpi4py is missing: pip install 'ftrace[mpi]'")
        return 1
    words = ["-n", "2", "--oversubscribe", "--allow-run-as-root", "--bind-to", "core"]
    python = [sys.executable, "-m", "benchmarks.processes", "--inside"]
    more = ["--quick"] if options.quick else []
    return subprocess.call([mpirun, *words, *python, *more])


class Pair:
    """Both processes: they measure together, and the slower one counts."""

    def __init__(self, rounds: int) -> None:
        from mpi4py import MPI

        self.mpi, self.world, self.rounds = MPI, MPI.COMM_WORLD, rounds
        self.rank = self.world.Get_rank()

    def say(self, text: str) -> None:
        if self.rank == 0:
            print(text, flush=True)

    def wait(self) -> None:
        """Until the other one is here, without using the processor."""
        request = self.world.Ibarrier()
        while not request.Test():
            time.sleep(1e-3)

    def in_turn(
        self, calls: dict[str, Callable[[], Any]], count: int, alone: str = ""
    ) -> dict[str, tuple[float, float]]:
        """The seconds of each call: the median of the rounds, and the best one.

        Args:
          alone: the call that the first process makes by itself.
        """
        found: dict[str, list[float]] = {name: [] for name in calls}
        for number in range(self.rounds + 1):
            for name in [*calls][:: 1 if number % 2 else -1]:
                self.wait()
                begin, call = time.perf_counter(), calls[name]
                if name != alone or self.rank == 0:
                    for _ in range(count):
                        call()
                spent = (time.perf_counter() - begin) / count
                self.wait()
                if number:  # the first time is to get warm
                    found[name].append(self.world.allreduce(spent, self.mpi.MAX))
        return {k: (statistics.median(v), min(v)) for k, v in found.items()}


def step_of(kind: str, ranks: Ranks, rank: int) -> Callable[[Any], Any]:
    """A jitted program of one step: an exchange."""
    other = np.array([1 - rank], np.int32)  # to and from it
    tables = [other, other] if kind == "permute" else []
    arg = Exchange(kind, ranks)
    return ft.jit(lambda x: bind_compound(exchange_p, x, *tables, arg=arg)[0])


def collectives(pair: Pair) -> None:
    """A program of one step, and mpi4py's call on as much memory."""
    ranks, world, byte = Ranks("x", ((0, 1),)), pair.world, pair.mpi.BYTE
    other = 1 - pair.rank

    def row(kind: str, x: Any, theirs: Callable[[], Any]) -> None:
        step, own = step_of(kind, ranks, pair.rank), fnp.array(x)
        for _ in range(4):  # it is compiled, becomes native, and what it needs is warm
            step(own)
        count = max(2, min(500, (8 << 20) // x.nbytes))
        found = pair.in_turn({"ftrace": lambda: step(own), "mpi4py": theirs}, count)
        (ours, best), (his, least) = found["ftrace"], found["mpi4py"]
        pair.say(
            f"  {kind:10} {x.nbytes // KB:>6} KB {ours * 1e6:10.1f} {his * 1e6:10.1f}"
            f" {ours / his:6.2f} {best * 1e6:10.1f} {least * 1e6:10.1f}"
            f" {best / least:6.2f}"
        )

    pair.say("µs:                      ftrace     mpi4py  ratio  best: ftrace, mpi4py")
    for size in SIZES:
        x = np.ones((2, size // 8), np.float32)
        y, whole, part = np.empty_like(x), np.empty((2, *x.shape), "f"), x[0].copy()
        row("sum", x, lambda a=x, b=y: world.Allreduce(a, b))
        row("gather", x, lambda a=x, b=whole: world.Allgather(a, b))
        row("scatter", x, lambda a=x, b=part: world.Reduce_scatter_block(a, b))
        row("all_to_all", x, lambda a=x, b=y: world.Alltoall([a, byte], [b, byte]))
        x = x.reshape(1, -1)
        row("permute", x, lambda a=x, b=y: world.Sendrecv(a, other, 0, b, other, 0))


def loss(params: Any, x: Any) -> Any:
    for w, b in params:
        x = fnp.tanh(x @ w + b)
    return (x**2).mean()


def step(params: Any, x: Any) -> Any:
    value, grads = ft.value_and_grad(loss)(params, x)
    return value, ft.tree.map(lambda p, g: p - 0.1 * g, params, grads)


def training(pair: Pair) -> None:
    """Two processes with twice the rows, and one; with overlap, and without."""
    mesh = ft.make_mesh((2,), ("data",))
    random = np.random.default_rng(0)
    w = random.normal(size=(LAYERS, WIDTH, WIDTH)).astype(np.float32) / WIDTH**0.5
    params = [(fnp.array(row), fnp.zeros(WIDTH)) for row in w]
    rows = random.normal(size=(2 * ROWS, WIDTH)).astype(np.float32)
    here, own = (
        ft.device_put(rows, NamedSharding(mesh, P("data"))),
        fnp.array(rows[:ROWS]),
    )

    def wait(done: Any) -> None:
        ft.block_until_ready(done)

    def without(params: Any, x: Any) -> Any:
        return step(params, x)

    two, one, plain = ft.jit(step), ft.jit(step), ft.jit(without)
    with ft.config(disabled_rules={"overlap_exchanges"}):
        wait(plain(params, here))
    wait(two(params, here))

    def in_one_piece() -> None:
        with ft.config(disabled_rules={"overlap_exchanges"}):
            wait(plain(params, here))

    calls = {
        "two": lambda: wait(two(params, here)),
        "one": lambda: wait(one(params, own)),
        "without overlap": in_one_piece,
    }
    found = pair.in_turn(calls, 3, alone="one")
    pair.say(f"ms of a step of {LAYERS} layers of {WIDTH}², {ROWS} rows per process")
    for name, (middle, best) in found.items():
        pair.say(f"  {name:16} {middle * 1e3:10.1f}  best {best * 1e3:10.1f}")
    for place, what in enumerate(("median", "best")):
        gain = 2 * found["one"][place] / found["two"][place]
        pair.say(f"  two do {gain:.2f} times the work of one ({what})")


def log_gp(pair: Pair) -> None:
    """The parameters of `benchmarks.scaling` for this machine."""
    world, other = pair.world, 1 - pair.rank

    def there_and_back(x: Any) -> None:
        if pair.rank == 0:
            world.Send(x, other)
            world.Recv(x, other)
        else:
            world.Recv(x, other)
            world.Send(x, other)

    small, large = np.zeros(8, np.uint8), np.zeros(4 << 20, np.uint8)
    sizes = pair.in_turn({"small": lambda: there_and_back(small)}, 500)
    big = pair.in_turn({"large": lambda: there_and_back(large)}, 10)
    begin = time.perf_counter()
    into = np.empty_like(small)
    for _ in range(1000):
        request = world.Isend(small, other, 1)
        world.Recv(into, other, 1)
        request.Wait()
    each = (time.perf_counter() - begin) / 1000
    whole = sizes["small"][1] / 2
    pair.say(
        f"LogGP: L + 2o {whole * 1e6:.2f} µs, g {each * 1e6:.2f} µs, "
        f"1/G {large.nbytes / (big['large'][1] / 2 - whole) / 1e9:.1f} GB/s"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Times two processes.")
    parser.add_argument("--quick", action="store_true", help="few rounds")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.inside:
        return start(options)
    ft.config.update("threads", 1)
    ft.distributed.initialize()
    pair = Pair(3 if options.quick else 15)
    log_gp(pair)
    collectives(pair)
    training(pair)
    return 0


if __name__ == "__main__":
    sys.exit(main())

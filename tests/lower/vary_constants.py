"""Which benchmark rows hang on a number that steers lowering or the CPU back end.

`python -m tests.lower.vary_constants` halves and doubles each of these numbers, one at
a time, and prints the rows (those of the benchmarks, and a program for each form of
code) whose kernels become others: where a number comes from, and what to measure before
it is changed. With names, `contraction.block_sizes costs.fill`, only those.

    contraction.block_sizes._RIGHT = 0.5
      half:   matmul 2048³
      double: matmul 1024³, matmul 2048³, bilinear einsum 256×(64·64→128)

A number of which nothing hangs is part of a model, or guards what no row has: memory,
the time to compile, sizes far beyond those of the rows; or it decides on what is no
code of a kernel: how threads share it, and calls without jit.
"""

from __future__ import annotations

import dataclasses
import pkgutil
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any
from unittest import mock

import ftrace as ft
from ftrace import lower as lowering
from ftrace.backends import llvm
from ftrace.backends.llvm.device import render_kernel
from ftrace.backends.llvm.kernels.compile_kernels import without_numbers
from ftrace.backends.llvm.target import Costs, Target
from ftrace.ground.limits import Limits
from ftrace.ground.tables import clear_tables
from ftrace.lower import lower
from ftrace.lower.kernel.ir import Kernel
from ftrace.trace import tiering
from ftrace.trace.primitives.primitive import COMPOUNDS
from tests.lower.test_golden_kernels import CACHES, CODES, PROCESSORS, ROWS
from tests.support.kernel_texts import digest

#: Where numbers are coefficients, formats and layouts rather than decisions.
NO_DECISIONS = {
    "lower.legalize", "call", "compile_threads", "elf_loader", "ir", "object_cache",
    "scalar",
}  # fmt: skip
Number = tuple[str, float, Callable[[float], Any]]


def modules() -> Iterator[tuple[str, ModuleType]]:
    """The files, each by its name: `trace.tiering`, `lower.analysis`, `emit.module`."""
    yield "trace.tiering", tiering
    for floor, prefix in ((lowering, "lower."), (llvm, "")):
        start = f"{floor.__name__}."
        for found in pkgutil.walk_packages(floor.__path__, start):
            place = prefix + found.name.removeprefix(start)
            parts = place.split(".")
            rooms = {".".join(parts[:k]) for k in range(len(parts) + 1)}
            if not found.ispkg and rooms.isdisjoint(NO_DECISIONS):
                yield place, import_module(found.name)


def numbers() -> Iterator[Number]:
    """Name, value, and a context in which it is another one."""
    for place, module in modules():
        for name, value in vars(module).items():
            if not name.lstrip("_").isupper():
                continue
            if type(value) in (int, float):
                yield (
                    f"{place}.{name}", value,
                    lambda v, m=module, n=name: mock.patch.object(m, n, v),
                )  # fmt: skip
            elif type(value) is tuple and all(type(v) in (int, float) for v in value):
                for k, one in enumerate(value):
                    yield (
                        f"{place}.{name}[{k}]", one,
                        lambda v, m=module, n=name, k=k, whole=value: mock.patch.object(
                            m, n, (*whole[:k], v, *whole[k + 1 :])
                        ),
                    )  # fmt: skip
    for op in COMPOUNDS.values():
        least: Any = op.compiled_from
        for name, value in () if least is None else least._asdict().items():
            yield (
                f"{op.name}.compiled_from.{name}", value,
                lambda v, op=op, new=least, n=name: record_changed(
                    op, "compiled_from", new._replace(**{n: v})
                ),
            )  # fmt: skip
    for field in dataclasses.fields(Costs):
        yield (
            f"costs.{field.name}", field.default,
            lambda v, n=field.name: changed_targets(
                lambda t: dataclasses.replace(
                    t, costs=dataclasses.replace(t.costs, **{n: v})
                )
            ),
        )  # fmt: skip
    for name in ("l1_ways", "from_l3", "from_memory", "look_ahead"):
        value = getattr(next(iter(PROCESSORS.values())), name)
        yield (
            name, value,
            lambda v, n=name: changed_targets(
                lambda t: dataclasses.replace(t, **{n: v})
            ),
        )  # fmt: skip


@contextmanager
def record_changed(record: Any, name: str, value: Any) -> Generator[None]:
    """A record, which is frozen, with another value for a while."""
    before = getattr(record, name)
    object.__setattr__(record, name, value)
    try:
        yield
    finally:
        object.__setattr__(record, name, before)


def changed_targets(change: Callable[[Target], Target]) -> Any:
    return mock.patch.dict(PROCESSORS, {n: change(t) for n, t in PROCESSORS.items()})


def kernels() -> dict[str, list[Kernel]]:
    """Those of each row."""
    clear_tables()
    found: dict[str, list[Kernel]] = {}
    for family, name in ROWS:
        function, arguments = CODES[family][name]()
        graph = ft.make_graph(function)(*arguments)
        steps = lower(graph, Limits(recurrences=True, cache=CACHES[1])).program.kernels
        found[name] = [without_numbers(step.kernel)[0] for step in steps]
    return found


def codes(rows: dict[str, list[Kernel]]) -> dict[str, str]:
    clear_tables()
    return {
        name: " ".join(
            f"{c.parallel} {c.grain} {digest(c.text)}"
            for kernel in found
            for c in (render_kernel(kernel, t) for t in PROCESSORS.values())
        )
        for name, found in rows.items()
    }


def main() -> None:
    wanted = sys.argv[1:]
    rows = kernels()
    before = codes(rows)
    for name, value, change in numbers():
        if wanted and not any(name.startswith(w) for w in wanted):
            continue
        print(f"{name} = {value}", flush=True)
        lowers = name.startswith(("lower.", "trace."))  # others: the same kernels
        for word, factor in (("half:  ", 0.5), ("double:", 2)):
            with change(type(value)(value * factor)):
                try:
                    after = codes(kernels() if lowers else rows)
                except Exception as error:
                    print(f"  {word} fails: {error}")
                    continue
            hang = [row for row in rows if after[row] != before[row]]
            print(f"  {word} {', '.join(hang) or '–'}", flush=True)
    clear_tables()


if __name__ == "__main__":
    main()

"""Rows picked and added by integer arrays; random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.inputs import integers, normal
from benchmarks.row import Family

FAMILY = Family("indexing")
WIDTH = 256
PICKED = 8192


def table_and_rows() -> tuple[Any, ...]:
    return normal(50_000, WIDTH), integers(PICKED, high=50_000, seed=1)


@FAMILY.row("gather 8,192 rows of 256", table_and_rows, bytes=2 * 4 * PICKED * WIDTH)
def gather(_: Any) -> Any:
    return lambda table, rows: table[rows]


@gather.peer("torch", "numpy")
def _(_: Any) -> Any:
    return lambda table, rows: table[rows]


@FAMILY.row(
    "100,000 lookups in a table of 16",
    lambda: (normal(16), integers(100_000, high=16, seed=1)),
    bytes=True,
)
def look_up(_: Any) -> Any:
    return lambda table, places: table[places]


@look_up.peer("torch", "numpy")
def _(_: Any) -> Any:
    return lambda table, places: table[places]


def updates_and_rows() -> tuple[Any, ...]:
    return (
        normal(4096, WIDTH),
        integers(PICKED, high=4096, seed=1),
        normal(PICKED, WIDTH, seed=2),
    )


@FAMILY.row("scatter-add 8,192 rows of 256", updates_and_rows, bytes=True)
def scatter_add(_: Any) -> Any:
    return lambda table, rows, updates: table.at[rows].add(updates)


@scatter_add.peer("torch")
def _(_: Any) -> Any:
    return lambda table, rows, updates: table.index_add(0, rows, updates)


@scatter_add.peer("numpy")
def _(np: Any) -> Any:
    def added(table: Any, rows: Any, updates: Any) -> Any:
        out = table.copy()
        np.add.at(out, rows, updates)
        return out

    return added


#: The key, as data: ftrace and JAX draw the same numbers from it, the others do not.
KEY = np.array([0, 42], np.uint32)


@FAMILY.row("random normals 1M", lambda: (KEY,), compare=("jax",))
def normals(lib: Any) -> Any:
    return lambda key: lib.random.normal(key, (1 << 20,))


@normals.peer("torch")
def _(torch: Any) -> Any:
    return lambda _: torch.randn(1 << 20)


@normals.peer("numpy")
def _(np: Any) -> Any:
    generator = np.random.default_rng(0)
    return lambda _: generator.standard_normal(1 << 20, np.float32)

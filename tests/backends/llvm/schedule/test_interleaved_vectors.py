"""Several vectors at once: the same numbers, and only where it pays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import dtypes, lax
from ftrace.backends.llvm.render import render
from ftrace.backends.llvm.scalar.ops import operations_of
from ftrace.backends.llvm.schedule.index_facts import facts_of
from ftrace.backends.llvm.schedule.vector_cost import (
    count_interleaved,
    cycles,
    usual,
)
from ftrace.backends.llvm.target import Target
from ftrace.lower.kernel.ir import BufferSpec, Kernel, Store, load, make_range, param
from ftrace.lower.kernel.loop_tree import Loop, build_loops
from ftrace.lower.legalize.legalize import legalize
from ftrace.trace.graph import Node
from ftrace.trace.primitives import elementwise as ew

Function = Callable[..., Any]

AVX512 = Target.of("x86_64-unknown-linux-gnu", "x86-64-v4", cores=2)
TARGETS = {
    "avx512": AVX512,
    "avx2": Target.of("x86_64-unknown-linux-gnu", "x86-64-v3", cores=2),
    "sse2": Target.of("x86_64-unknown-linux-gnu", "x86-64", cores=2),
    "neon": Target.of("aarch64-unknown-linux-gnu", "generic", cores=2),
}


def black_scholes(spot: Any, strike: Any, years: Any) -> Any:
    deviation = 0.3 * fnp.sqrt(years)
    d1 = (fnp.log(spot / strike) + 0.065 * years) / deviation
    owed = strike * fnp.exp(-0.02 * years)
    call = spot * lax.erf(d1) - owed * lax.erf(d1 - deviation)
    return call, call + owed - spot


def rows(x: Any, y: Any, z: Any) -> Any:
    return (fnp.tanh(x) * fnp.log(abs(y) + 1)).reshape(-1, 5)[:, 1:] + z[0]


CHAINS: dict[str, Function] = {
    "two results": black_scholes,
    "rare": lambda x, y, z: fnp.sin(x * 1e9) + fnp.cos(y),  # beyond what is usual
    "float64": lambda x, y, z: fnp.exp(x.astype("float64")) * fnp.log(y),
    "narrow": lambda x, y, z: fnp.tanh(x.astype("float16")) * fnp.exp(-z),
    "rows": rows,
    "comparison": lambda x, y, z: fnp.arctan2(x, y) > lax.erf_inv(z - 0.5),
    "sum": lambda x, y, z: (fnp.log(abs(x) + 1) * fnp.tanh(y)).sum(),
    "column": lambda x, y, z: fnp.exp(fnp.sin(x[:, None]) * fnp.tanh(y[None, :37])),
    "turned back": lambda x, y, z: fnp.exp(fnp.tanh(x[::-1])) + fnp.log(z),
}


def operands(size: int) -> list[Any]:
    random = np.random.default_rng(size)
    x, y, z = random.uniform(0.1, 0.9, (3, size)).astype(np.float32)
    x[:: max(size // 7, 1)] = 1e20
    z[size // 2 :: 999] = np.nan
    return [x, y, z]


def bits(results: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in ft.tree.leaves(results)]


@pytest.mark.parametrize("size", [65535, 65540, 40005])
@pytest.mark.parametrize("name", CHAINS)
def test_interleaved_vectors_have_the_bits_of_vectors_alone(
    name: str, size: int
) -> None:
    if name == "rows":
        size -= size % 5
    given = operands(size)
    together = bits(ft.jit(CHAINS[name])(*given))
    with ft.config(disabled_rules={"interleave_vectors"}):
        alone = bits(ft.jit(CHAINS[name])(*given))
    with ft.set_threads(1):
        by_one = bits(ft.jit(CHAINS[name])(*given))
    assert together == alone == by_one


def chain(length: int, size: int, wide: bool = False) -> Kernel:
    """A kernel of so many additions to the square of an element, in a chain or not."""
    axis = make_range(0, size, False)
    found: list[Node] = [load(param(0, dtypes.float32, size), axis)]
    for _ in range(length):
        found.append(ew.mul(found[0 if wide else -1], found[0]))
    total = found[-1]
    if wide:
        while len(found) > 1:
            pairs = zip(found[::2], found[1::2], strict=False)
            found = [ew.sub(a, b) for a, b in pairs] + found[len(found) & ~1 :]
        total = found[0]
    specs = tuple(BufferSpec(dtypes.float32, size, k == 1) for k in range(2))
    return Kernel((axis,), (Store(1, axis, total),), specs)


def decided(kernel: Kernel, target: Target = AVX512) -> int:
    (loop,) = build_loops(kernel)
    assert isinstance(loop, Loop)
    facts = facts_of(kernel)
    lanes = target.vector_bytes // 4
    return count_interleaved(kernel, loop, lanes, facts, target)


@pytest.mark.parametrize("name", TARGETS)
def test_vectors_are_interleaved_in_long_chains_only(name: str) -> None:
    target = TARGETS[name]
    assert decided(chain(60, 1 << 16), target) == 4
    assert decided(chain(500, 1 << 16), target) == 2  # else the code is too long
    assert decided(chain(1000, 1 << 16), target) == 1
    assert decided(chain(60, 1 << 11), target) == 1  # few elements
    assert decided(chain(3, 1 << 24), target) == 1  # memory is slower
    assert (
        decided(chain(60, 1 << 16), replace(target, without=("interleave_vectors",)))
        == 1
    )


def test_a_chain_is_long_by_its_latency() -> None:
    (loop,) = build_loops(chain(8, 1 << 16))
    assert isinstance(loop, Loop)
    latency, busy = cycles(usual(loop.body))
    assert (latency, busy) == (7 + 8 * 4, 9 * 0.5)


@pytest.mark.parametrize("name", TARGETS)
def test_each_step_is_done_for_all_vectors_before_the_next(name: str) -> None:
    target = TARGETS[name]
    kernel = legalize(chain(60, 1 << 16), operations_of(target))
    text = render(kernel, target).text
    steps = [line for line in text.splitlines() if " fmul " in line]
    assert len(steps) == 4 * 60
    sources = [line.split()[-2].strip(",") for line in steps]
    results = [line.split()[0] for line in steps]
    assert sources[4:] == results[:-4]
    apart = replace(target, without=("interleave_vectors",))
    text = render(kernel, apart).text
    assert sum(" fmul " in line for line in text.splitlines()) < 3 * 60

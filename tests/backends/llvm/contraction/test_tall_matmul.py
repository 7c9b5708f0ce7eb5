"""Products of very many rows, which come from slow memory and go back to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ftrace.backends.llvm.render import render
from ftrace.backends.llvm.target import Target, host_target
from ftrace.lower.kernel.ir import (
    Kernel,
    Store,
    load,
    make_range,
    reduce,
)
from ftrace.trace.primitives import elementwise as ew
from ftrace.trace.primitives.sources import const
from tests.support.run_llvm_kernel import at, buffer, check, make_kernel

Array = np.ndarray[Any, Any]


def _product(
    m: int, k: int, n: int, apart: int = 0, dtype: Any = "f4"
) -> tuple[Kernel, list[Array], Array]:
    """max(a @ b, 0); rows of a are `apart` elements longer than what is read."""
    rng = np.random.default_rng(0)
    a: Array = rng.integers(-4, 5, (m, k + apart)).astype(dtype)
    b: Array = rng.integers(-4, 5, (k, n)).astype(dtype)
    i, j, r = make_range(0, m, False), make_range(1, n, False), make_range(10, k, True)
    left = load(buffer(0, a), at((i, k + apart), (r, 1)))
    right = load(buffer(1, b), at((r, n), (j, 1)))
    total = reduce("add", ew.mul(left, right), (r,))
    value = ew.maximum(total, const(0, total.dtype))
    store = Store(2, at((i, n), (j, 1)), value)
    arrays = [a, b, _aligned(m * n, a.dtype)]
    found = make_kernel((i, j), (store,), arrays)
    wanted = a[:, :k].astype("f8") @ b.astype("f8")
    return found, arrays, np.maximum(wanted, 0).ravel()


def _aligned(size: int, dtype: Any) -> Array:
    """Memory that begins with a line of the cache."""
    item = np.dtype(dtype).itemsize
    whole: Array = np.empty(size * item + 64, np.uint8)
    start = -whole.ctypes.data % 64
    found: Any = whole[start : start + size * item]
    return found.view(dtype)


def _small() -> Target:
    """This processor with small caches: what is large takes no time to test."""
    return replace(host_target(), l1=32 << 10, l2=16 << 10, l3=64 << 10)


@pytest.mark.parametrize(
    ("sizes", "apart"),
    [
        ((2000, 30, 40), 0),
        ((1999, 33, 70), 0),
        ((2003, 16, 64), 5),
        ((900, 130, 33), 2),
    ],
)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
def test_tall_products_are_numpys(
    sizes: tuple[int, int, int], apart: int, dtype: str
) -> None:
    kernel, arrays, wanted = _product(*sizes, apart=apart, dtype=dtype)
    for without in ((), ("nontemporal_stores",)):
        check(kernel, arrays, wanted, replace(_small(), without=without), 3)


def test_tall_products_run_on_every_processor() -> None:
    kernel, arrays, wanted = _product(2000, 30, 40)
    here = host_target()
    if not here.triple.startswith("x86_64"):
        pytest.skip("of this architecture there is one kind")
    for cpu in ("x86-64", "x86-64-v3"):
        target = replace(Target.of(here.triple, cpu), l2=16 << 10, l3=64 << 10)
        if target.fma <= here.fma:
            check(kernel, arrays, wanted, target, 3)


@pytest.mark.parametrize("columns", [64, 50])
def test_large_results_of_products_go_past_the_caches(columns: int) -> None:
    """Where rows are whole lines of the cache."""
    if not host_target().triple.startswith("x86_64"):
        pytest.skip("only there are such stores")
    kernel, arrays, wanted = _product(300, 50, columns)
    check(kernel, arrays, wanted, _small(), 3)
    text = render(kernel, _small()).text
    assert ("!nontemporal" in text) is (columns == 64)
    kept = replace(_small(), without=("nontemporal_stores",))
    assert "!nontemporal" not in render(kernel, kept).text
    assert "!nontemporal" not in render(kernel, host_target()).text

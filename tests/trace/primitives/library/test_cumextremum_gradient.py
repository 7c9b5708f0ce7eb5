"""Derivatives of running extrema: kernels where no elements tie, else the host."""

from __future__ import annotations

from typing import Any

import numpy as np

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.lower.program import RunBranch
from tests.support.covering import covering

RULE = "native_extremum_tangent"
SHAPES = [((8192,), 0), ((64, 101), 1), ((101, 64), 0), ((5, 40, 33), 1)]


def distinct(shape: tuple[int, ...], dtype: str) -> Any:
    rng = np.random.default_rng(len(shape))
    size = int(np.prod(shape))
    many = 1 if dtype in ("float32", "float64") else 64  # short floats are few
    whole: Any = rng.permutation(size) // many
    return whole.reshape(shape).astype(np.float64) - size // 3


def derivatives(name: str, axis: int, reverse: bool) -> list[Any]:
    def running(x: Any) -> Any:
        return getattr(lax, name)(x, axis=axis, reverse=reverse)

    def backward(x: Any, t: Any) -> Any:
        return ft.grad(lambda x: fnp.sum(running(x) * t))(x)

    def forward(x: Any, t: Any) -> Any:
        return ft.jvp(running, (x,), (t,))[1]

    return [forward, backward]


@covering(
    2,
    {("shape", "axis"): SHAPES},
    name=["cummax", "cummin"],
    reverse=[False, True],
    dtype=["float32", "float64", "bfloat16"],
    special=["distinct", "tied", "nan", "infinite"],
)
def test_derivatives_are_those_of_the_host(
    shape: tuple[int, ...],
    axis: int,
    name: str,
    reverse: bool,
    dtype: str,
    special: str,
) -> None:
    x = distinct(shape, dtype)
    x.flat[3:9] = x.flat[2] if special == "tied" else x.flat[3:9]
    x.flat[77] = {"nan": np.nan, "infinite": np.inf}.get(special, x.flat[77])
    t: Any = np.random.default_rng(1).standard_normal(shape)
    x, t = (fnp.asarray(z).astype(dtype) for z in (x, t))
    for f in derivatives(name, axis, reverse):
        got = np.asarray(ft.jit(f)(x, t)).astype(np.float64)
        with ft.config(disabled_rules={RULE}):
            want = np.asarray(ft.jit(f)(x, t)).astype(np.float64)
        tolerance = 2e-2 if dtype == "bfloat16" else 1e-5
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def chooses(x: Any) -> bool:
    program = ft.jit(derivatives("cummax", 0, False)[1]).lower(x, x).program
    return any(isinstance(step, RunBranch) for step in program.steps)


def test_only_large_arrays_are_worth_the_choice() -> None:
    large, small = np.ones(1 << 12, np.float32), np.ones(1 << 11, np.float32)
    assert chooses(large)
    assert not chooses(small)
    with ft.config(disabled_rules={RULE}):
        assert not chooses(large)
    with ft.config(disabled_rules={"native_scan"}):
        assert not chooses(large)


def test_derivatives_inside_of_loops_and_under_vmap() -> None:
    x: Any = distinct((4, 5000), "float32").astype(np.float32)
    _, backward = derivatives("cummax", 0, False)
    one_by_one = np.stack([np.asarray(ft.jit(backward)(row, row)) for row in x])
    together = np.asarray(ft.jit(ft.vmap(backward))(x, x))
    in_turn = np.asarray(ft.jit(lambda x: lax.map(lambda r: backward(r, r), x))(x))
    np.testing.assert_allclose(together, one_by_one, rtol=1e-6)
    np.testing.assert_allclose(in_turn, one_by_one, rtol=1e-6)


def test_threads_do_not_change_a_bit_of_the_derivative() -> None:
    x: Any = distinct((300, 700), "float32").astype(np.float32)
    t: Any = np.random.default_rng(2).standard_normal(x.shape).astype(np.float32)
    for axis in (0, 1):
        for f in derivatives("cummax", axis, False):
            found = []
            for threads in (1, 2, 5):
                with ft.config(threads=threads):
                    found.append(np.asarray(ft.jit(f)(x, t)).tobytes())
            assert len(set(found)) == 1

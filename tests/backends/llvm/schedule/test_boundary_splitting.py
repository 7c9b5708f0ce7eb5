"""Kernels that are cut at the borders inside of them, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.backends.llvm.device import render_kernel
from ftrace.backends.llvm.schedule import known_positions
from ftrace.lower import lower
from tests.support.covering import covering

SHAPES = [(20_000,), (90, 131), (3, 4099), (4099, 3), (30, 21, 40), (1, 9000)]


def masked(f: Callable[..., Any], *arrays: Any) -> list[bool]:
    """Per kernel: does its code ask in a loop where it is?"""
    program = lower(ft.make_graph(f)(*arrays)).program
    texts = [render_kernel(step.kernel).text for step in program.kernels]
    return ["select <" in text or "select i1" in text for text in texts]


def inside(shape: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(1, -1) if n > 2 else slice(None) for n in shape)


@pytest.mark.filterwarnings("ignore:scatter inputs:FutureWarning")
@covering(1, dtype=[np.float32, np.int8, np.float64, np.bool_], shape=SHAPES)
def test_pieces_are_put_together_as_numpy_does(
    shape: tuple[int, ...], dtype: Any
) -> None:
    rng = np.random.default_rng(0)
    x, y = ((rng.standard_normal(shape) * 10).astype(dtype) for _ in range(2))
    last = len(shape) - 1
    for axis in {0, last}:

        def both(m: Any, a: Any, b: Any, axis: int = axis) -> Any:
            joined = m.concatenate([a, m.flip(b, axis), a], axis)
            return (
                joined,
                m.roll(a, 5, axis),
                m.roll(b, -1, axis),
                m.stack([a, b], axis),
            )

        got = ft.jit(lambda a, b, f=both: f(fnp, a, b))(x, y)
        with ft.config(threads=1):
            alone = ft.jit(lambda a, b, f=both: f(fnp, a, b))(x, y)
        for one, other, want in zip(got, alone, both(np, x, y), strict=True):
            np.testing.assert_array_equal(np.asarray(one), want)
            np.testing.assert_array_equal(np.asarray(other), want)
    padded = ft.jit(lambda a: fnp.pad(a, 3))(x)
    np.testing.assert_array_equal(np.asarray(padded), np.pad(x, 3))
    want = x.copy()
    want[inside(shape)] = 1
    changed = ft.jit(lambda a: a.at[inside(shape)].set(1))(x)
    np.testing.assert_array_equal(np.asarray(changed), want)


def test_a_stencil_is_asked_at_its_edges_only() -> None:
    u = np.random.default_rng(0).standard_normal((200, 300)).astype(np.float32)

    def step(u: Any) -> Any:
        around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        return u.at[1:-1, 1:-1].add(0.1 * (around - 4 * u[1:-1, 1:-1]))

    want = u.copy()
    inner = u[1:-1, 1:-1]
    around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
    want[1:-1, 1:-1] += np.float32(0.1) * (around - 4 * inner)
    np.testing.assert_allclose(np.asarray(ft.jit(step)(u)), want, rtol=2e-6, atol=1e-6)


def test_cut_where_and_only_where_a_border_is_and_the_array_is_large() -> None:
    large, small = np.ones((64, 512), np.float32), np.ones((4, 512), np.float32)

    def join(a: Any, b: Any) -> Any:
        return fnp.concatenate([a, b * 2], 1)

    assert masked(join, large, large) == [False]
    assert masked(join, small, small) == [True]
    assert masked(lambda a, b: fnp.where(a > 0, b, 1.0), large, large) == [True]


@pytest.mark.parametrize("count", [8, 16, 24])
def test_many_narrow_parts_stand_beside_each_other(count: int) -> None:
    x = np.random.default_rng(0).standard_normal((count, 70, 37)).astype(np.float32)

    def join(x: Any) -> Any:
        return fnp.concatenate([x[n] * n for n in range(count)], 1)

    want = np.concatenate([x[n] * np.float32(n) for n in range(count)], 1)
    np.testing.assert_array_equal(np.asarray(ft.jit(join)(x)), want)


def test_pieces_that_are_too_many_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def moved(x: Any) -> Any:
        return sum(fnp.pad(x, ((k, 60 - k), (0, 0))) * k for k in range(1, 60))

    made, piece = [], known_positions._piece
    monkeypatch.setattr(
        known_positions, "_piece", lambda *args: made.append(0) or piece(*args)
    )
    assert masked(moved, np.ones((100, 100), np.float32)) == [True]
    assert len(made) <= known_positions._PIECES

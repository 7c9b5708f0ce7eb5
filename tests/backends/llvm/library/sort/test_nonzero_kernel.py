"""The positions of what is true, in order: by a kernel, and by the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.backends.llvm.device import render_kernel
from ftrace.backends.llvm.target import Target
from ftrace.lower.library.sort_kernels import Ordering
from ftrace.lower.program import CallHost, RunKernel
from pytest_ftrace import DEVICES
from tests.support.covering import covering

SHAPES = [
    (1,),
    (63,),
    (64,),
    (65,),
    (1000,),
    (70_001,),
    (200_000,),
    (300, 401),
    (5, 6, 7),
]


def wanted(mask: Any, size: int, fill: int) -> list[Any]:
    rows: list[Any] = []
    for places in np.nonzero(mask):
        row = np.full(size, fill, np.int32)
        row[: len(places[:size])] = places[:size]
        rows.append(row)
    return rows


@covering(2, shape=SHAPES, part=[0.0, 0.01, 0.5, 1.0], device=DEVICES)
def test_positions_are_those_of_numpy(
    shape: tuple[int, ...], part: float, device: Any
) -> None:
    mask = np.random.default_rng(len(shape)).random(shape) < part
    count = int(mask.sum())
    sizes = sorted({0, 1, count // 2, count, count + 70})

    def positions(mask: Any) -> list[Any]:
        return [fnp.nonzero(mask, size=size, fill_value=-1) for size in sizes]

    for size, found in zip(sizes, ft.jit(positions)(mask), strict=True):
        for one, other in zip(found, wanted(mask, size, -1), strict=True):
            assert one.dtype == np.int32
            np.testing.assert_array_equal(one, other)


@given(st.integers(0, 1000), st.integers(1, 300), st.integers(0, 320))
def test_positions_of_any_mask(seed: int, length: int, size: int) -> None:
    mask = np.random.default_rng(seed).integers(0, 2, length).astype(bool)
    (found,) = ft.jit(lambda m: fnp.nonzero(m, size=size, fill_value=7))(mask)
    np.testing.assert_array_equal(found, wanted(mask, size, 7)[0])


@pytest.mark.parametrize("lanes", [2, 20])
@pytest.mark.parametrize("length", [40, 70_000])
def test_lanes_of_vmap_are_rows(lanes: int, length: int) -> None:
    masks = np.random.default_rng(0).random((lanes, length)) < 0.3
    size = length // 3

    def one(mask: Any) -> Any:
        return fnp.flatnonzero(mask, size=size, fill_value=length)

    found = ft.jit(ft.vmap(one))(masks)
    for row, mask in zip(np.asarray(found), masks, strict=True):
        np.testing.assert_array_equal(row, wanted(mask, size, length)[0])
    alone = ft.vmap(lambda m, x: x[one(m)], in_axes=(None, 0))(masks[0], masks)
    assert alone.shape == (lanes, size)


def kernels_of(function: Any, *arrays: Any) -> list[Ordering]:
    steps = ft.jit(lambda *a: function(*a)).lower(*arrays).program.steps
    assert not any(isinstance(step, CallHost) for step in steps)
    kernels = [step.kernel for step in steps if isinstance(step, RunKernel)]
    return [kernel for kernel in kernels if isinstance(kernel, Ordering)]


def test_long_masks_are_counted_in_runs_first() -> None:
    def f(mask: Any) -> Any:
        return fnp.flatnonzero(mask, size=100)

    def routines(length: int) -> list[str]:
        return [kernel.routine for kernel in kernels_of(f, np.zeros(length, bool))]

    assert routines(1000) == ["places"]
    assert routines(1 << 20) == ["counts", "places"]


def test_rule_can_be_switched_off() -> None:
    mask = np.random.default_rng(1).random(500) < 0.5

    def f(mask: Any) -> Any:
        return fnp.flatnonzero(mask, size=100)

    with ft.config(disabled_rules={"native_nonzero"}):
        steps = ft.jit(lambda m: f(m)).lower(mask).program.steps
        assert any(isinstance(step, CallHost) for step in steps)
        by_host = ft.jit(lambda m: f(m))(mask)
    np.testing.assert_array_equal(ft.jit(f)(mask), by_host)


def test_positions_have_no_derivative_and_gathers_by_them_do() -> None:
    x = np.array([3.0, -1.0, 2.0, -5.0, 4.0], np.float32)

    def f(x: Any) -> Any:
        return fnp.sum(x[fnp.flatnonzero(x > 0, size=2)] ** 2)

    np.testing.assert_array_equal(ft.jit(ft.grad(f))(x), [6, 0, 4, 0, 0])


@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v3", "generic"])
def test_code_for_other_processors_is_accepted(cpu: str) -> None:
    llvm: Any = pytest.importorskip("llvmlite.binding")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = "aarch64" if cpu == "generic" else "x86_64"
    target = Target.of(f"{triple}-unknown-linux-gnu", cpu)
    machine = llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=1
    )
    mask = np.zeros(1 << 18, bool)
    for kernel in kernels_of(lambda m: fnp.flatnonzero(m, size=9), mask):
        machine.emit_object(llvm.parse_assembly(render_kernel(kernel, target).text))

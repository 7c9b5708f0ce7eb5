"""Kernels in phases: no zero between elements is multiplied, and none goes missing."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import ftrace as ft
from ftrace.backends.llvm.convolution.split_strides import phases
from ftrace.backends.llvm.device import render_kernel
from ftrace.backends.llvm.schedule.index_facts import facts_of
from ftrace.backends.llvm.target import Target
from ftrace.lower.kernel.ir import Kernel, axis_of, range_p
from tests.support.convolutions import gradient, spread, strided
from tests.support.covering import covering
from tests.support.run_llvm_kernel import legal_kernels

Array = np.ndarray[Any, Any]


def normal(*shape: int, seed: int = 0, dtype: Any = np.float64) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def parts_of(function: Any, *arrays: Any) -> list[list[Kernel]]:
    """Each kernel of a program in its phases."""
    return [phases(k, facts_of(k)) for k in legal_kernels(function, *arrays)]


def work_of(kernel: Kernel) -> int:
    """Positions of all ranges."""
    ranges = [n for n in kernel.nodes if n.op is range_p]
    return prod(axis_of(r).size for r in ranges)


# Images, filters, strides or spreads, padding, dilation, groups.
_CASES: list[tuple[Any, ...]] = [
    ((2, 8, 14, 14), (16, 8, 3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 1),
    ((2, 8, 13, 15), (16, 8, 4, 4), (2, 2), ((2, 2), (1, 2)), (1, 1), 1),
    ((2, 6, 17, 12), (12, 6, 5, 3), (3, 2), ((2, 2), (0, 1)), (1, 1), 1),
    ((2, 6, 21, 19), (12, 3, 5, 3), (2, 1), ((2, 2), (1, 1)), (1, 1), 2),
    ((2, 6, 21, 19), (12, 6, 3, 3), (2, 2), ((2, 2), (2, 2)), (3, 3), 1),
    ((2, 6, 21, 19), (12, 6, 3, 3), (2, 2), ((2, 2), (2, 2)), (2, 2), 1),
    ((1, 3, 27, 31), (8, 3, 7, 11), (4, 4), ((3, 3), (2, 2)), (1, 1), 1),
    ((1, 8, 9, 9), (8, 8, 2, 2), (3, 3), ((0, 0), (0, 0)), (1, 1), 1),
    ((1, 8, 9, 9), (8, 8, 1, 1), (2, 2), ((0, 0), (0, 0)), (1, 1), 1),
    ((2, 24, 12, 13), (24, 1, 3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 24),
    ((2, 24, 28, 28), (24, 1, 3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 24),
    ((3, 4, 100), (6, 4, 5), (2,), ((2, 2),), (1,), 1),
    ((1, 4, 7, 8, 9), (6, 4, 3, 3, 3), (2, 2, 2), ((1, 1),) * 3, (1, 1, 1), 1),
    ((1, 4, 7, 8, 9), (6, 4, 3, 4, 3), (2, 1, 3), ((1, 1),) * 3, (1, 1, 1), 1),
]


@covering(1, case=_CASES, make=[strided, spread], last=[False, True])
def test_gradients_are_those_of_the_interpreter(
    case: Any, make: Any, last: bool
) -> None:
    x, w = normal(*case[0]), normal(*case[1], seed=1)
    if last:
        x, w = np.moveaxis(x, 1, -1), np.moveaxis(w, (0, 1), (-1, -2))
    x, w = np.ascontiguousarray(x), np.ascontiguousarray(w)
    function = make(case, last)
    y = normal(*ft.eval_shape(function, x, w).shape, seed=2)
    for by in (0, 1):
        slope = ft.jit(gradient(function, by))
        found = np.asarray(slope(x, w, y))
        with ft.config(device="interpreter"):
            wanted = np.asarray(slope(x, w, y))
        scale = np.abs(wanted).max()
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * scale)
        with ft.set_threads(5):
            np.testing.assert_array_equal(slope(x, w, y), found)
    with ft.config(device="interpreter"):
        value = np.asarray(ft.jit(function)(x, w))
    forward = np.asarray(ft.jit(function)(x, w))
    np.testing.assert_allclose(forward, value, rtol=0, atol=1e-12 * np.abs(value).max())


@pytest.mark.parametrize("case", _CASES[:4], ids=str)
def test_the_gradient_by_the_image_multiplies_no_zeros(case: Any) -> None:
    """One kernel; its phases have the products of the convolution, and few more."""
    images, filters, strides, *_ = case
    x, w = normal(*images), normal(*filters, seed=1)
    function = strided(case)
    y = normal(*ft.eval_shape(function, x, w).shape, seed=2)

    (parts,) = parts_of(gradient(function, 0), x, w, y)
    assert len(parts) == prod(strides)
    assert not any(n.op.name in ("rem", "div") for k in parts for n in k.nodes)
    products = y.size * prod(filters[1:])
    assert sum(map(work_of, parts)) < 1.7 * products


def test_a_stride_that_divides_the_dilation_leaves_one_place_in_many() -> None:
    """The axis is split before it comes here; all taps meet the same places."""
    case = ((2, 8, 14, 28), (16, 8, 3, 3), (2, 2), ((2, 2), (2, 2)), (2, 2), 1)
    x, w = normal(*case[0]), normal(*case[1], seed=1)
    y = normal(2, 16, 7, 14, seed=2)

    def gradient(x: Any, w: Any, y: Any) -> Any:
        return ft.vjp(strided(case), x, w)[1](y)[0]

    (parts,) = parts_of(gradient, x, w, y)
    assert len(parts) == 4
    assert not any(n.op.name == "eq" for k in parts for n in k.nodes)
    products = y.size * prod(case[1][1:])
    assert sum(map(work_of, parts)) < 1.2 * products
    found = np.asarray(ft.jit(gradient)(x, w, y))
    assert (found[:, :, 1::2] == 0).all()
    assert not np.signbit(found[:, :, 1::2]).any()


@pytest.mark.parametrize("last", [False, True])
def test_remainders_of_few_taps_are_apart(last: bool) -> None:
    """Even and odd places of two axes: four parts, wherever channels lie."""
    case = ((2, 24, 28, 28), (24, 1, 3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 24)
    x, w, y = normal(*case[0]), normal(*case[1]), normal(2, 24, 14, 14)
    if last:
        x, y = np.moveaxis(x, 1, -1), np.moveaxis(y, 1, -1)
        w = np.moveaxis(w, (0, 1), (-1, -2))

    def gradient(x: Any, w: Any, y: Any) -> Any:
        return ft.vjp(strided(case, last), x, w)[1](y)[0]

    (kernel,) = ft.jit(gradient).lower(x, w, y).kernels
    text = render_kernel(
        kernel, Target.of("x86_64-unknown-linux-gnu", "x86-64-v4")
    ).text
    assert ".3(" in text


def test_a_place_that_is_chosen_after_the_sum_is_no_phase() -> None:
    def chosen(x: Any, y: Any) -> Any:
        total = ft.numpy.sum(x[:, :, None] * y[:, None, :], axis=0)
        first = ft.numpy.arange(total.shape[0])[:, None] == 0
        return ft.numpy.where(first, total, 1.0)

    x, y = normal(8, 4), normal(8, 16, seed=1)
    (parts,) = parts_of(chosen, x, y)
    assert len(parts) == 1
    wanted = np.ones((4, 16))
    wanted[0] = np.einsum("k,kj->j", x[:, 0], y)
    np.testing.assert_allclose(ft.jit(chosen)(x, y), wanted, rtol=0, atol=1e-12)


def test_a_spread_image_meets_few_taps() -> None:
    case = ((2, 8, 14, 14), (16, 8, 4, 4), (2, 2), ((2, 2), (2, 2)), (1, 1), 1)
    x, w = normal(*case[0]), normal(*case[1], seed=1)
    (parts,) = parts_of(spread(case), x, w)
    assert len(parts) == 4
    places = prod(ft.eval_shape(spread(case), x, w).shape)
    assert sum(map(work_of, parts)) == places * 8 * 2 * 2


def test_remainders_without_taps_are_zeros() -> None:
    case = ((1, 8, 9, 9), (8, 8, 1, 1), (2, 2), ((0, 0), (0, 0)), (1, 1), 1)
    x, w = normal(*case[0]), normal(*case[1], seed=1)
    found = np.asarray(ft.jit(spread(case))(x, w))
    assert (found[:, :, 1::2] == 0).all()
    assert not np.signbit(found[:, :, 1::2]).any()
    np.testing.assert_allclose(
        found[:, :, ::2, ::2], np.einsum("ncpq,oc->nopq", x, w[:, :, 0, 0]), rtol=1e-12
    )


def test_a_plain_convolution_is_whole() -> None:
    case = ((2, 8, 14, 14), (16, 8, 3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 1)
    x, w = normal(*case[0]), normal(*case[1], seed=1)
    (parts,) = parts_of(strided(case), x, w)
    assert len(parts) == 1


def test_a_greatest_element_needs_all_places() -> None:
    """The zeros between elements count for a maximum: nothing is left out."""

    def greatest(x: Any) -> Any:
        wide = ft.lax.pad(x, 0.0, [(0, 0, 0), (1, 1, 1)])
        return ft.lax.reduce_window(wide, -np.inf, ft.lax.max, (1, 3), (1, 1), "VALID")

    x = -1 - np.abs(normal(4, 40))
    wide = np.zeros((4, 81))
    wide[:, 1:-1:2] = x
    wanted = np.lib.stride_tricks.sliding_window_view(wide, 3, 1).max(-1)
    np.testing.assert_array_equal(ft.jit(greatest)(x), wanted)


def test_large_gradients_know_the_place_in_the_window() -> None:
    """Windows side by side along one axis, and not along the other; no small sizes."""
    case = ((16, 16, 56, 56), (24, 16, 3, 7), (3, 3), ((1, 1), (3, 3)), (1, 1), 1)
    x, w = normal(*case[0]), normal(*case[1], seed=1)
    function = strided(case)
    y = normal(*ft.eval_shape(function, x, w).shape, seed=2)

    found = np.asarray(ft.jit(gradient(function, 0))(x, w, y))
    value = np.vdot(np.asarray(ft.jit(function)(x, w)), y)
    assert np.vdot(x, found) == pytest.approx(value, rel=1e-10)

"""Convolutions in generated code: windows are found, and their panels are right."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import ftrace as ft
from ftrace.backends.llvm.convolution.find import Window, find_windows
from ftrace.backends.llvm.convolution.strategies import schedule_nchw, schedule_nhwc
from ftrace.backends.llvm.render import render
from ftrace.backends.llvm.schedule.index_facts import facts_of
from ftrace.backends.llvm.schedule.known_positions import without_short_axes
from ftrace.backends.llvm.schedule.schedule_tree import Schedule
from ftrace.backends.llvm.target import Costs, Target, host_target
from ftrace.lower.kernel.ir import (
    INDEX,
    BufferSpec,
    Kernel,
    Store,
    load,
    make_range,
    param,
)
from ftrace.trace.primitives.elementwise import add, mul
from ftrace.trace.primitives.sources import const
from tests.support.covering import covering
from tests.support.run_llvm_kernel import behind_fence, kernel_of, linked, plan_of

Array = np.ndarray[Any, Any]
_strategies = import_module("ftrace.backends.llvm.convolution.strategies")


pytestmark = pytest.mark.usefixtures("private_cache")


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def convolution(strides: Any, pads: Any, dilation: Any, groups: int = 1) -> Any:
    def run(x: Any, w: Any) -> Any:
        return ft.lax.conv_general_dilated(
            x, w, strides, pads, rhs_dilation=dilation, feature_group_count=groups
        )

    return run


def expected(
    x: Array, w: Array, strides: Any, pads: Any, dilation: Any, groups: int = 1
) -> Array:
    """By sliding windows, in float64."""
    space = tuple(range(2, x.ndim))
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), *pads))
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilation, strict=True)]
    seen = np.lib.stride_tricks.sliding_window_view(padded, reach, space)
    steps = [slice(None, None, s) for s in (*strides, *dilation)]
    seen = seen[(slice(None), slice(None), *steps)]
    n, c, *rest = seen.shape
    seen = seen.reshape(n, groups, c // groups, *rest)
    parts = w.astype(np.float64).reshape(groups, w.shape[0] // groups, *w.shape[1:])
    p, k = "xyz"[: len(space)], "uvw"[: len(space)]
    found = np.einsum(f"ngc{p}{k},goc{k}->ngo{p}", seen, parts, optimize=True)
    return found.reshape(n, w.shape[0], *found.shape[3:])


def windows_of(kernel: Kernel) -> list[Window]:
    plan, facts = plan_of(kernel)
    (right,) = plan.right
    return find_windows(right, plan.columns, plan.ranges, facts)


def sliding_of(kernel: Kernel, target: Target | None = None) -> Schedule | None:
    plan, facts = plan_of(kernel)
    return next(schedule_nchw(kernel, plan, facts, target or host_target()), None)


def nhwc_schedule_of(kernel: Kernel) -> Schedule | None:
    plan, facts = plan_of(kernel)
    return next(schedule_nhwc(kernel, plan, facts, host_target()), None)


def run(
    kernel: Kernel, arrays: Sequence[Array], pieces: int, target: Target | None = None
) -> Array:
    """The result of a kernel that writes its first buffer, its domain cut in pieces."""
    function, units = linked(kernel, target)
    spec = kernel.buffers[0]
    guard = 64
    whole: Array = np.full(spec.size + 2 * guard, 7, spec.dtype)
    out: Array = whole[guard:-guard]
    copies = behind_fence([out, *arrays])
    for places in (copies, [out, *arrays]):
        pointers = (ctypes.c_void_p * len(places))(*[a.ctypes.data for a in places])
        count = min(pieces, units)
        for n in range(count):
            function(pointers, units * n // count, units * (n + 1) // count)
    np.testing.assert_array_equal(copies[0], out)
    assert (whole[:guard] == 7).all()
    assert (whole[-guard:] == 7).all()
    return out


# Images, filters, strides, paddings, dilations, groups.
_CASES: list[tuple[Any, ...]] = [
    ((2, 8, 14, 14), (16, 8, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((1, 5, 17, 13), (7, 5, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((2, 6, 40, 37), (9, 6, 5, 4), (1, 1), ((2, 2), (0, 3)), (1, 1), 1),
    ((2, 8, 28, 28), (16, 8, 3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 1),
    ((1, 3, 64, 64), (8, 3, 7, 7), (2, 2), ((3, 3), (3, 3)), (1, 1), 1),
    ((2, 8, 40, 40), (8, 8, 7, 3), (3, 1), ((0, 0), (1, 1)), (1, 1), 1),
    ((2, 8, 28, 28), (8, 8, 3, 3), (1, 1), ((2, 2), (2, 2)), (2, 2), 1),
    ((2, 8, 40, 40), (8, 8, 5, 3), (3, 2), ((4, 4), (0, 0)), (2, 3), 1),
    ((2, 8, 40, 30), (8, 8, 5, 3), (2, 2), ((4, 4), (0, 0)), (2, 2), 1),
    ((1, 130, 10, 20), (12, 130, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((2, 16, 28, 28), (24, 4, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 4),
    ((7, 16, 7, 7), (24, 16, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((11, 16, 9, 7), (24, 16, 3, 5), (2, 1), ((1, 1), (2, 2)), (1, 1), 1),
    ((8, 16, 7, 7), (24, 16, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((4, 8, 13, 14), (16, 8, 5, 5), (2, 2), ((2, 2), (2, 2)), (1, 1), 1),
    ((4, 1, 33, 25), (6, 1, 5, 1), (3, 1), ((0, 0), (0, 0)), (1, 1), 1),
    ((3, 6, 100), (10, 6, 5), (1,), ((2, 2),), (1,), 1),
    ((3, 6, 100), (10, 6, 5), (2,), ((2, 2),), (1,), 1),
    ((1, 4, 10, 12, 9), (8, 4, 3, 3, 3), (1, 1, 1), ((1, 1),) * 3, (1, 1, 1), 1),
    ((1, 4, 10, 12, 9), (8, 4, 3, 2, 3), (2, 1, 2), ((1, 1),) * 3, (1, 2, 1), 1),
]


@covering(1, case=_CASES, dtype=[np.float32, np.float64])
def test_a_convolution_is_what_windows_give(case: Any, dtype: Any) -> None:
    images, filters, *rest = case
    x = normal(*images, dtype=dtype)
    w = normal(*filters, seed=1, dtype=dtype)
    kernel = kernel_of(convolution(*rest), x, w)
    wanted = expected(x, w, *rest)
    bound = 1e-5 if dtype is np.float32 else 1e-13
    once = run(kernel, [x, w], 1)
    np.testing.assert_allclose(
        once.reshape(wanted.shape), wanted, rtol=0, atol=bound * np.abs(wanted).max()
    )
    np.testing.assert_array_equal(once, run(kernel, [x, w], 5))


@pytest.mark.parametrize("case", _CASES, ids=str)
def test_blocks_change_nothing_but_rounding(
    case: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums in several parts, lines in several blocks, of which the last is short."""
    monkeypatch.setattr(_strategies, "DEPTH", 20)
    small = Target.of(
        host_target().triple, host_target().cpu, host_target().features,
        caches=(16 << 10, 96 << 10, 1 << 20), cores=7,
    )  # fmt: skip
    small = replace(small, costs=Costs(begin_block=0.0))
    images, filters, *rest = case
    x, w = normal(*images), normal(*filters, seed=1)
    kernel = kernel_of(convolution(*rest), x, w)
    wanted = expected(x, w, *rest)
    found = run(kernel, [x, w], 3, small).reshape(wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def channels_last(function: Any, ndim: int, filters: str) -> Any:
    """The same with channels last, of arrays that are."""
    space = "HWD"[:ndim]
    images = f"N{space}C"
    weights = f"{space}IO" if filters == "last" else f"OI{space}"

    def run(x: Any, w: Any) -> Any:
        return function(x, w, (images, weights, images))

    return run


@pytest.mark.parametrize("case", _CASES, ids=str)
@pytest.mark.parametrize(("filters", "deep"), [("last", False), ("first", True)])
def test_channels_may_be_last(
    case: Any, filters: str, deep: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The image is the left operand; sums of several parts are put aside."""
    if deep:
        monkeypatch.setattr(_strategies, "DEPTH", 20)
    images, weights, strides, pads, dilation, groups = case
    x, w = normal(*images), normal(*weights, seed=1)
    wanted = expected(x, w, *case[2:])

    def last(x: Any, w: Any, numbers: Any) -> Any:
        return ft.lax.conv_general_dilated(
            x, w, strides, pads, rhs_dilation=dilation, dimension_numbers=numbers,
            feature_group_count=groups,
        )  # fmt: skip

    function = channels_last(last, len(strides), filters)
    x = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    if filters == "last":
        w = np.ascontiguousarray(np.moveaxis(w, (0, 1), (-1, -2)))
    kernel = kernel_of(function, x, w)
    assert groups > 1 or weights[0] < 8 or nhwc_schedule_of(kernel) is not None
    found = run(kernel, [x, w], 3)
    shape = (wanted.shape[0], *wanted.shape[2:], wanted.shape[1])
    found = np.moveaxis(found.reshape(shape), -1, 1)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


@covering(1, case=[c for c in _CASES if c[5] == 1], last=[False, True])
def test_gradients_are_transposes(case: Any, last: bool) -> None:
    """⟨conv(x, w), y⟩ = ⟨x, its gradient by x⟩ = ⟨w, its gradient by w⟩."""
    images, filters, strides, pads, dilation, _ = case
    space = "HWD"[: len(strides)]
    numbers = (f"N{space}C", f"{space}IO", f"N{space}C") if last else None
    x, w = normal(*images, dtype=np.float64), normal(*filters, seed=1, dtype=np.float64)
    if last:
        x, w = np.moveaxis(x, 1, -1), np.moveaxis(w, (0, 1), (-1, -2))

    def convolve(x: Any, w: Any) -> Any:
        return ft.lax.conv_general_dilated(
            x, w, strides, pads, rhs_dilation=dilation, dimension_numbers=numbers
        )

    def inner(x: Any, w: Any, y: Any) -> Any:
        return ft.numpy.sum(convolve(x, w) * y)

    shape = ft.eval_shape(convolve, x, w).shape
    y = normal(*shape, seed=2, dtype=np.float64)
    by_x, by_w = ft.jit(ft.grad(inner, argnums=(0, 1)))(x, w, y)
    value = float(ft.jit(inner)(x, w, y))
    size = np.abs(x).sum()
    assert np.vdot(x, by_x) == pytest.approx(value, abs=1e-12 * size)
    assert np.vdot(w, by_w) == pytest.approx(value, abs=1e-12 * size)


def test_the_gradient_by_the_image_is_one_convolution() -> None:
    """Its taps count the other way."""
    rest = ((1, 1), ((1, 1), (1, 1)), (1, 1))
    x, w, y = normal(2, 8, 20, 20), normal(16, 8, 3, 3), normal(2, 16, 20, 20)

    def gradient(x: Any, w: Any, y: Any) -> Any:
        return ft.vjp(lambda x: convolution(*rest)(x, w), x)[1](y)[0]

    kernel = kernel_of(gradient, x, w, y)
    rows, columns = windows_of(kernel)
    assert rows.reversed
    assert columns.reversed
    assert sliding_of(kernel) is not None


def test_sums_of_short_floats_are_made_of_long_ones() -> None:
    """The filters are widened once, into a panel."""
    rest = ((1, 1), ((1, 1), (1, 1)), (1, 1))
    x, w = normal(3, 16, 14, 14), normal(24, 16, 3, 3, seed=1)
    short = [ft.numpy.asarray(a).astype(ft.numpy.bfloat16) for a in (x, w)]
    kernel = kernel_of(convolution(*rest), *short)
    assert sliding_of(kernel) is not None
    wide = [np.asarray(a.astype(np.float32)) for a in short]
    wanted = expected(wide[0], wide[1], *rest)
    found = np.asarray(ft.jit(convolution(*rest))(*short).astype(np.float32))
    np.testing.assert_allclose(found, wanted, rtol=1 / 128, atol=1e-5)


def test_windows_are_found_in_a_masked_load() -> None:
    x, w = normal(2, 8, 28, 30), normal(16, 8, 3, 5)
    rest = ((1, 1), ((1, 1), (2, 2)), (1, 1))
    rows, columns = windows_of(kernel_of(convolution(*rest), x, w))
    assert (rows.stride, rows.dilation, rows.taps) == (1, 1, 3)
    assert (columns.stride, columns.dilation, columns.taps) == (1, 1, 5)
    assert rows.groups == [(0, 1, 3, 1)]
    assert rows.share(28) == 30 / 84


def test_taps_of_strided_windows_fall_into_classes() -> None:
    x, w = normal(2, 8, 28, 28), normal(16, 8, 3, 3)
    rest = ((2, 2), ((1, 1), (1, 1)), (1, 1))
    rows, _ = windows_of(kernel_of(convolution(*rest), x, w))
    assert (rows.stride, rows.dilation) == (2, 1)
    assert rows.groups == [(0, 1, 2, 2), (1, 1, 1, 2)]


def test_a_product_has_no_windows() -> None:
    x, w = normal(70, 80), normal(80, 90)

    def product(a: Any, b: Any) -> Any:
        return a @ b

    assert windows_of(kernel_of(product, x, w)) == []


def test_steps_without_overlap_are_no_windows() -> None:
    """Patches side by side: each element belongs to one of them."""
    x, w = normal(2, 8, 32, 32), normal(16, 8, 4, 4)
    rest = ((4, 4), ((0, 0), (0, 0)), (1, 1))
    assert windows_of(kernel_of(convolution(*rest), x, w)) == []


@pytest.mark.parametrize("case", _CASES[:2], ids=str)
def test_a_convolution_slides(case: Any) -> None:
    images, filters, *rest = case
    kernel = kernel_of(convolution(*rest), normal(*images), normal(*filters))
    assert sliding_of(kernel) is not None


def test_infinities_stay_where_they_are() -> None:
    """Padding multiplies nothing: neither with infinity nor with NaN."""
    x, w = normal(1, 8, 20, 20), normal(16, 8, 3, 3, seed=1)
    x[0, 3, 7, 0] = np.inf
    x[0, 4, 19, 19] = np.nan
    rest = ((1, 1), ((1, 1), (1, 1)), (1, 1))
    kernel = kernel_of(convolution(*rest), x, w)
    assert sliding_of(kernel) is not None
    wanted = expected(x, w, *rest)
    found = run(kernel, [x, w], 2).reshape(wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_work_before_and_after_joins_a_convolution() -> None:
    x, w, b = normal(2, 8, 20, 20), normal(16, 8, 3, 3, seed=1), normal(16, seed=2)
    rest = ((1, 1), ((1, 1), (1, 1)), (1, 1))

    def layer(x: Any, w: Any, b: Any) -> Any:
        y = convolution(*rest)(ft.numpy.maximum(x, 0), w)
        return ft.numpy.tanh(y + b[:, None, None])

    wanted = np.tanh(expected(np.maximum(x, 0), w, *rest) + b[:, None, None])
    found = ft.jit(layer)(x, w, b)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


_TARGETS = [
    Target.of("x86_64-unknown-linux-gnu", "x86-64"),
    Target.of("x86_64-unknown-linux-gnu", "x86-64-v3"),
    Target.of("x86_64-unknown-linux-gnu", "x86-64-v4"),
    Target.of("aarch64-unknown-linux-gnu", "generic"),
]


@covering(1, target=_TARGETS, case=_CASES[::3])
def test_convolutions_on_other_processors(target: Target, case: Any) -> None:
    """The code is accepted; where this processor can run it, it is right."""
    llvm = pytest.importorskip("llvmlite.binding")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    images, filters, *rest = case
    x, w = normal(*images), normal(*filters, seed=1)
    kernel = kernel_of(convolution(*rest), x, w)
    machine = llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=1
    )
    module = llvm.parse_assembly(render(kernel, target).text)
    module.verify()
    assert machine.emit_object(module)
    here = host_target()
    if here.triple[:6] != target.triple[:6] or here.vector_bytes < target.vector_bytes:
        return
    wanted = expected(x, w, *rest)
    found = run(kernel, [x, w], 2, target).reshape(wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("shape", [(2, 3, 16, 16), (1, 2, 37, 41), (3, 2, 8, 70)])
@pytest.mark.parametrize("window", [2, 3])
def test_the_gradient_of_pooling_goes_to_the_greatest(shape: Any, window: int) -> None:
    """Windows side by side; what is left over belongs to none."""
    x = normal(*shape)
    places = tuple(n // window for n in shape[2:])
    y = normal(*shape[:2], *places, seed=1)

    def gradient(x: Any, y: Any) -> Any:
        sizes = (1, 1, window, window)

        def pooled(x: Any) -> Any:
            return ft.lax.reduce_window(x, -np.inf, ft.lax.max, sizes, sizes, "VALID")

        return ft.vjp(pooled, x)[1](y)[0]

    wanted = np.zeros_like(x)
    for at in np.ndindex(y.shape):
        corner = (at[0], at[1], at[2] * window, at[3] * window)
        part = x[at[0], at[1], corner[2] : corner[2] + window]
        part = part[:, corner[3] : corner[3] + window]
        row, column = np.unravel_index(part.argmax(), part.shape)
        wanted[at[0], at[1], corner[2] + row, corner[3] + column] = y[at]
    np.testing.assert_array_equal(ft.jit(gradient)(x, y), wanted)


def test_results_in_turn_are_pairs_of_stores() -> None:
    x, y = normal(40, 16), normal(40, 16, seed=1)

    def turns(x: Any, y: Any) -> Any:
        return ft.numpy.stack([x * 2, y + 1], -1).reshape(40, 32)

    def spread(x: Any) -> Any:
        found = ft.numpy.broadcast_to(ft.numpy.sqrt(x * x + 1)[:, :, None], (40, 16, 2))
        return found.reshape(40, 32) * ft.numpy.arange(1280.0).reshape(40, 32)

    wanted = np.stack([x * 2, y + 1], -1).reshape(40, 32)
    np.testing.assert_array_equal(ft.jit(turns)(x, y), wanted)
    ramp = np.arange(1280, dtype=np.float32).reshape(40, 32)
    wanted = np.repeat(np.sqrt(x * x + 1), 2, axis=1) * ramp
    np.testing.assert_allclose(ft.jit(spread)(x), wanted, rtol=1e-6)


def test_pairs_are_found_where_two_places_take_turns() -> None:
    x = normal(40, 32)

    def kernel(shape: tuple[int, ...]) -> Kernel:
        i, *rest = (make_range(n, size, False) for n, size in enumerate(shape))
        index = const(0, INDEX)
        weight = 1
        for axis, size in zip((i, *rest)[::-1], shape[::-1], strict=True):
            index = add(index, mul(axis, const(weight, INDEX)))
            weight *= size
        specs = tuple(BufferSpec(x.dtype, weight, n == 1) for n in range(2))
        value = load(param(0, x.dtype, weight), index)
        return Kernel((i, *rest), (Store(1, index, value),), specs)

    cases = [((40, 16, 2), 2), ((40, 4, 2), 1), ((40, 16, 8), 8), ((40, 16, 13), 1)]
    for shape, count in cases:
        found = kernel(shape)
        facts = facts_of(found)
        assert len(without_short_axes(found, facts, host_target()).stores) == count


@pytest.mark.parametrize("batch", [1, 3, 4, 8])
def test_channels_on_their_own_are_shared_out(batch: int) -> None:
    """Images that share a filter are a tile; there is work for all threads inside."""
    x, w = normal(batch, 24, 20, 18), normal(24, 1, 3, 3, seed=1)
    rest = ((1, 1), ((1, 1), (1, 1)), (1, 1), 24)
    kernel = kernel_of(convolution(*rest), x, w)
    cores = min(host_target().cores, 4)
    assert render(kernel, host_target()).parallel >= 2 * cores
    wanted = expected(x, w, *rest)
    found = run(kernel, [x, w], 5).reshape(wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("last", [False, True])
def test_a_weight_that_sees_padding_alone_makes_nan_all_the_same(last: bool) -> None:
    x, w = normal(2, 32, 28, 28), normal(32, 32, 3, 3)
    w[3, 0, 0, 0] = np.inf
    layout = ("NCHW", "OIHW", "NCHW")
    if last:
        x, w = np.moveaxis(x, 1, -1), np.moveaxis(w, (0, 1), (-1, -2))
        layout = ("NHWC", "HWIO", "NHWC")

    def convolve(x: Any, w: Any) -> Any:
        return ft.lax.conv_general_dilated(
            x, w, (1, 1), [(6, 6)] * 2, rhs_dilation=(6, 6), dimension_numbers=layout
        )

    found = np.asarray(ft.jit(convolve)(x, w))
    line = found[:, 0, :, 3] if last else found[:, 3, 0]
    assert np.isnan(line).all()

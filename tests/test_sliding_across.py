"""Depthwise convolutions with channels first: pixels are turned, lanes are channels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.devices.llvm.facts import Facts
from ftrace.devices.llvm.scalar import operations_of
from ftrace.devices.llvm.sliding_across import find_across, find_channels
from ftrace.devices.llvm.target import Target
from ftrace.lower.legalize import legalize
from ftrace.lower.place import place

Array = np.ndarray[Any, Any]

WIDE = Target.of("x86_64-unknown-linux-gnu", "x86-64-v4")

# Images, taps, strides, padding, dilation; each channel has its own filter.
_CASES: list[tuple[Any, ...]] = [
    ((3, 32, 7, 7), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    ((2, 40, 7, 7), (7, 7), (1, 1), ((3, 3), (3, 3)), (1, 1)),
    ((2, 13, 14, 14), (5, 5), (1, 1), ((2, 2), (2, 2)), (1, 1)),
    ((1, 21, 30, 17), (3, 5), (1, 1), ((1, 0), (2, 3)), (1, 1)),
    ((2, 24, 19, 23), (5, 5), (2, 2), ((2, 2), (2, 2)), (1, 1)),
    ((2, 16, 19, 20), (3, 3), (1, 1), ((2, 2), (2, 2)), (2, 2)),
    ((3, 70, 9, 12), (5, 3), (2, 1), ((2, 2), (1, 1)), (1, 1)),
    ((1, 33, 70, 90), (5, 5), (1, 1), ((2, 2), (2, 2)), (1, 1)),
    ((2, 20, 100), (9,), (1,), ((4, 4),), (1,)),
    ((2, 18, 6, 7, 8), (3, 3, 3), (1, 1, 1), ((1, 1),) * 3, (1, 1, 1)),
]


def normal(*shape: int, seed: int = 0, dtype: Any = np.float64) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def convolution(case: Any) -> Any:
    shape, _, strides, pads, dilation = case

    def run(x: Any, w: Any) -> Any:
        return ft.lax.conv_general_dilated(
            x, w, strides, pads, rhs_dilation=dilation, feature_group_count=shape[1]
        )

    return run


def operands(case: Any, dtype: Any) -> tuple[Array, Array, Array]:
    shape, taps, *_ = case
    x, w = normal(*shape, dtype=dtype), normal(shape[1], 1, *taps, seed=1, dtype=dtype)
    out = ft.eval_shape(convolution(case), x, w).shape
    return x, w, normal(*out, seed=2, dtype=dtype)


def program_of(case: Any, name: str) -> Any:
    function = convolution(case)

    def run(x: Any, w: Any, y: Any) -> Any:
        if name == "forward":
            return function(x, w)
        if name == "fused":
            return fnp.maximum(function(fnp.tanh(x), w) + y[0, ..., :1], 0) * y
        return ft.vjp(function, x, w)[1](y)[name == "by the filters"]

    return run


@pytest.mark.parametrize(
    ("case", "dtype"),
    [(c, np.float32) for c in _CASES] + [(c, np.float64) for c in _CASES[:7:3]],
    ids=str,
)
@pytest.mark.parametrize("name", ["forward", "fused", "by the image", "by the filters"])
def test_results_are_those_of_the_interpreter(case: Any, name: str, dtype: Any) -> None:
    arrays = operands(case, dtype)
    program = program_of(case, name)
    found = np.asarray(ft.jit(program)(*arrays))
    with ft.config(device="interpreter"):
        wanted = np.asarray(ft.jit(program)(*(v.astype(np.float64) for v in arrays)))
    bound = float(np.finfo(dtype).eps) * 100 * float(np.abs(wanted).max())
    np.testing.assert_allclose(found, wanted, rtol=0, atol=bound)
    with ft.set_threads(5):
        np.testing.assert_array_equal(ft.jit(program)(*arrays), found)


def test_what_is_not_a_number_stays_in_its_channel() -> None:
    case = _CASES[0]
    x, w, _ = operands(case, np.float32)
    x[1, 4, 5, 5] = np.nan
    wrong = np.isnan(np.asarray(ft.jit(convolution(case))(x, w)))
    assert wrong[1, 4, 4:7, 4:7].all()
    assert wrong.sum() == 9


def test_sums_of_zeros_are_zero_without_a_sign() -> None:
    case = _CASES[0]
    x, w, _ = operands(case, np.float32)
    found = np.asarray(ft.jit(convolution(case))(x * -0.0, np.abs(w)))
    assert not np.signbit(found[:, :, 0, 0]).any()  # padding is +0


def across_of(function: Any, *arrays: Array) -> Any:
    (kernel,) = ft.jit(function).lower(*arrays).kernels
    legal = legalize(kernel, operations_of(WIDE))
    roots = [e for store in legal.stores for e in store.expressions]
    facts = Facts([*roots, *legal.axes])
    plan = find_channels(legal, place(legal), facts, WIDE)
    return plan and find_across(plan, facts, WIDE)


@pytest.mark.parametrize("case", _CASES[:4], ids=str)
def test_depthwise_convolutions_are_found(case: Any) -> None:
    x, w, _ = operands(case, np.float32)
    found = across_of(convolution(case), x, w)
    assert [r.arg.size for r in found.plan.columns] == [case[0][1]]
    assert len(found.windows) == 2


@pytest.mark.parametrize(
    "case",
    [
        ((2, 5, 14, 14), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),  # few channels
        ((2, 32, 14, 14), (3, 3), (3, 3), ((1, 1), (1, 1)), (1, 1)),  # few taps
        ((2, 32, 14, 14), (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1)),  # one
    ],
    ids=str,
)
def test_others_are_not(case: Any) -> None:
    x, w, _ = operands(case, np.float32)
    assert across_of(convolution(case), x, w) is None


def test_channels_that_mix_are_not_found() -> None:
    x, w = (
        normal(2, 32, 14, 14, dtype=np.float32),
        normal(32, 4, 3, 3, dtype=np.float32),
    )

    def grouped(x: Any, w: Any) -> Any:
        return ft.lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=8)

    assert across_of(grouped, x, w) is None


def test_the_form_can_be_switched_off() -> None:
    case = _CASES[0]
    x, w, _ = operands(case, np.float32)
    found = np.asarray(ft.jit(convolution(case))(x, w))
    with ft.config(disabled_rules={"channels_across"}):
        other = np.asarray(ft.jit(convolution(case))(x, w))
    np.testing.assert_allclose(found, other, rtol=0, atol=1e-5)

"""Convolutions whose channels mix in groups, or not at all, in both layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from tests.support.convolutions import FORMS, check_form, form, normal, strided
from tests.support.covering import covering

# Images, filters (of all output channels), strides, padding, dilation, groups.
_LAST: list[tuple[Any, ...]] = [
    ((2, 9, 11, 32), (3, 3, 4, 32), (1, 1), ((1, 1), (1, 1)), (1, 1), 8),
    ((2, 9, 11, 40), (3, 2, 5, 48), (1, 1), ((1, 1), (0, 1)), (1, 1), 8),
    ((2, 12, 13, 64), (3, 3, 8, 16), (1, 1), ((2, 2), (2, 2)), (2, 2), 8),
    ((3, 9, 12, 70), (3, 3, 1, 70), (2, 2), ((1, 1), (1, 1)), (1, 1), 70),
    ((3, 9, 12, 24), (3, 3, 1, 48), (1, 1), ((1, 1), (1, 1)), (1, 1), 24),
    ((2, 40, 32), (3, 4, 32), (1,), ((1, 1),), (1,), 8),
    ((2, 9, 11, 33), (3, 3, 1, 198), (1, 1), ((1, 1), (1, 1)), (1, 1), 33),
    ((2, 9, 11, 12), (3, 3, 4, 15), (1, 1), ((1, 1), (1, 1)), (1, 1), 3),
    ((2, 15, 14, 128), (3, 3, 4, 128), (2, 2), ((1, 1), (1, 1)), (1, 1), 32),
    ((2, 14, 15, 20), (5, 5, 1, 20), (1, 1), ((2, 2), (2, 2)), (1, 1), 20),
    ((2, 28, 29, 48), (5, 4, 1, 48), (2, 2), ((2, 2), (1, 2)), (1, 1), 48),
    ((3, 17, 18, 3), (5, 5, 1, 3), (1, 1), ((2, 2), (2, 2)), (1, 1), 3),
    ((1, 5000, 20), (31, 1, 20), (1,), ((15, 15),), (1,), 20),
]
_FIRST: list[tuple[Any, ...]] = [
    ((2, 40, 7, 7), (40, 1, 7, 7), (1, 1), ((3, 3), (3, 3)), (1, 1), 40),
    ((1, 21, 30, 17), (21, 1, 3, 5), (1, 1), ((1, 0), (2, 3)), (1, 1), 21),
    ((2, 16, 19, 20), (16, 1, 3, 3), (1, 1), ((2, 2), (2, 2)), (2, 2), 16),
    ((3, 24, 9, 12), (24, 1, 5, 3), (2, 1), ((2, 2), (1, 1)), (1, 1), 24),
    ((2, 20, 100), (20, 1, 9), (1,), ((4, 4),), (1,), 20),
    ((1, 20, 5000), (20, 1, 31), (1,), ((15, 15),), (1,), 20),
    ((2, 16, 27, 30), (16, 1, 7, 5), (1, 2), ((3, 3), (2, 2)), (1, 1), 16),
    ((2, 64, 14, 14), (64, 1, 5, 5), (2, 2), ((1, 2), (1, 2)), (1, 1), 64),
    ((4, 5, 17, 8), (5, 1, 5, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 5),
    ((1, 16, 5, 8, 9), (32, 1, 5, 5, 2), (3, 3, 1), ((2, 2),) * 3, (1, 1, 1), 16),
]
_CASES = [(case, True) for case in _LAST] + [(case, False) for case in _FIRST]


@covering(1, case=_CASES, name=FORMS, dtype=[np.float32, np.float64])
def test_results_are_those_of_the_interpreter(case: Any, name: str, dtype: Any) -> None:
    row, last = case
    function = strided(row, last)
    check_form(row, function, form(function, name, fnp.tanh), dtype)


def test_a_channel_that_is_not_a_number_stays_in_its_group() -> None:
    case = _LAST[0]
    x, w = normal(*case[0]), normal(*case[1], seed=1)
    x[0, 4, 5, 6] = np.nan
    wrong = np.isnan(np.asarray(ft.jit(strided(case, True))(x, w)))
    assert wrong[0, 3:6, 4:7, 4:8].all()
    assert wrong.sum() == 3 * 3 * 4


@pytest.mark.parametrize("groups", [8, 32])
def test_groups_of_integers_are_added_up_as_integers(groups: int) -> None:
    x = np.arange(2 * 9 * 11 * 32, dtype=np.int32).reshape(2, 9, 11, 32)
    w = np.arange(9 * 32 // groups * 32, dtype=np.int32).reshape(3, 3, -1, 32)
    case = (x.shape, w.shape, (1, 1), ((1, 1), (1, 1)), (1, 1), groups)
    found = np.asarray(ft.jit(strided(case, True))(x, w))
    with ft.config(device="interpreter"):
        np.testing.assert_array_equal(found, ft.jit(strided(case, True))(x, w))


def test_sums_of_zeros_are_zero_without_a_sign() -> None:
    case = _FIRST[0]
    x, w = normal(*case[0]), normal(*case[1], seed=1)
    found = np.asarray(ft.jit(strided(case))(x * -0.0, np.abs(w)))
    assert not np.signbit(found[:, :, 0, 0]).any()  # padding is +0

"""assert_close and assert_same_bits: what passes, and what is said of what does not."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import TracerArrayConversionError, ValueRangeError
from ftrace.testing import (
    assert_close,
    assert_same_bits,
    default_tolerance,
    ulps_between,
)

FLOATS = [*dtypes.FLOAT, *[d for d in dtypes.NARROW.values() if dtypes.is_float(d)]]


def said(actual: Any, desired: Any, compare: Any = assert_close, **options: Any) -> str:
    """What the comparison says, as its lines are."""
    with pytest.raises(AssertionError) as caught:
        compare(actual, desired, **options)
    return str(caught.value)


def first_line(*args: Any, **options: Any) -> str:
    return said(*args, **options).split("\n")[0]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_tolerance_is_the_edge_between_close_and_not(dtype: Any) -> None:
    one, eps = np.ones((), dtype), float(fnp.finfo(dtype).eps)
    assert default_tolerance(dtype) == pytest.approx(eps**0.75)
    near, far = one, (one.astype(np.float64) * 2).astype(dtype)
    assert_close(near, one)
    # rtol and atol are both the tolerance: twice of it passes, four times does not.
    if default_tolerance(dtype) < 0.2:
        wide = np.float64(1)
        given = {"check_dtypes": False}
        assert_close(one, wide * (1 + 1.9 * default_tolerance(dtype)), **given)
        assert "allowed" in said(one, wide + 4 * default_tolerance(dtype), **given)
        assert "is not" in first_line(near, far)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64], ids=str)
def test_ulps_are_the_numbers_in_between_as_numpy_counts_them(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(500).astype(dtype)
    y = (x * (1 + 40 * np.finfo(dtype).eps * rng.standard_normal(500))).astype(dtype)
    wanted = [
        int(np.testing.assert_array_max_ulp(a, b, 1000).item())
        for a, b in zip(x, y, strict=True)
    ]
    np.testing.assert_array_equal(ulps_between(x, y), wanted)
    least, most = np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max
    ends = np.array([[0.0, -0.0], [-least, least], [most, np.inf], [1, 1]], dtype)
    np.testing.assert_array_equal(ulps_between(*ends.T), [0, 2, 1, 0])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_ulps_of_all_dtypes_count_steps(dtype: Any) -> None:
    x = np.array([1, 2], dtype)
    steps = round(1 / float(fnp.finfo(dtype).eps))
    assert ulps_between(x, x[::-1].copy()).tolist() == [steps, steps]


def test_ulps_span_the_whole_range() -> None:
    most = np.finfo(np.float64).max
    assert ulps_between(np.array([most]), np.array([-most]))[0] == 2 * int(
        np.array(most).view(np.int64)
    )
    z = np.array([1 + 1j], np.complex64)
    assert ulps_between(z, z * (1 + 0j) + np.complex64(np.spacing(np.float32(1)) * 3j))
    for x, y in ((z, z.real), (np.arange(3), np.arange(3)), (z, np.stack([z, z]))):
        with pytest.raises(ValueRangeError, match="ulps_between needs arrays of one"):
            ulps_between(x, y)


def test_the_first_line_names_the_worst_element() -> None:
    x = np.ones((2, 3), np.float32)
    y = x.copy()
    y[1, 2], y[0, 1] = 1.5, 1.25
    assert first_line(fnp.asarray(x), y) == (
        "assert_close: 2 of 6 elements differ, most at [1, 2]: 1.0 (actual) is not 1.5 "
        "(desired), 4194304 ULPs of float32 apart: 0.5; 1.6e-05 allowed"
    )
    text = said({"a": 1, "b": [x]}, {"a": 1, "b": [y]}, err_msg="step 3")
    assert text.startswith("step 3: ['b'][0]: 2 of 6 elements differ, most at [1, 2]")
    assert "rtol=6.42e-06, atol=6.42e-06" in text
    assert "actual: [[1., 1., 1.]" in text
    assert first_line(np.float16(1), np.float16(1.01), ulps=9) == (
        "assert_close: 1.0 (actual) is not 1.01 (desired), 10 ULPs of float16 "
        "apart; 9 allowed"
    )
    assert_close(np.float16(1), np.float16(1.01), ulps=10)


ONES = np.ones(3, np.float32)
KEYS = [ft.random.key(n) for n in (0, 1)]
DIFFERENCES: dict[str, tuple[Any, Any, str]] = {
    "structures": ({"a": 1}, {"b": 1}, r"trees differ in structure: {'a': \*} and"),
    "lengths": ((1, 2), (1, 2, 3), "trees differ in structure"),
    "shapes": (ONES, ONES[:2], r"shapes differ: \(3,\) is not \(2,\)"),
    "a number for an array": (ONES, 1.0, r"shapes differ: \(3,\) is not \(\)"),
    "dtypes": (ONES, ONES.astype(float), "float32 is not float64; check_dtypes=False"),
    "NaN": (ONES, ONES * np.nan, r"3 of 3 .*\[0\]: 1.0 \(actual\) is not nan"),
    "infinity": (ONES, ONES * np.inf, "is not inf"),
    "signs of infinities": (ONES * np.inf, -ONES * np.inf, "inf .* is not -inf"),
    "huge integers": (np.array(2**62 + 1), np.array(2**62), "1 apart"),
    "bools": (np.array([True]), np.array([False]), "True .* is not False"),
    "complex": (ONES + 0j, ONES + 1e-3j, "ULPs of complex64 apart"),
    "a complex infinity": (np.array(1j), np.array(complex(0, np.inf)), "is not infj"),
    "keys": (KEYS[0], KEYS[1], r"\[1\]: 0 \(actual\) is not 1"),
    "text": ({"a": "x"}, {"a": "y"}, "'x' is not 'y'"),
    "an array for a dict": (ONES, {"a": ONES}, "is not"),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_what_differs_is_in_the_first_line(name: str) -> None:
    actual, desired, message = DIFFERENCES[name]
    for compare in (assert_close, assert_same_bits):
        with pytest.raises(AssertionError) as caught:
            compare(actual, desired)
        line = str(caught.value).split("\n")[0]
        assert line.startswith(compare.__name__)
        if compare is assert_close:
            assert re.search(message, line), line
    for same in (actual, desired):
        assert_close(same, same)
        assert_same_bits(same, same)


def test_numbers_and_lists_of_python_have_no_dtype() -> None:
    assert_close(fnp.ones(3), [1, 1.0, 1])
    assert_close(fnp.ones((), "bfloat16"), 1)
    assert_close(fnp.arange(3), [0, 1, 2])
    assert_close((1.0, None, np.float32(2)), (1, None, 2.0))
    assert_close(fnp.ones(3), np.ones(3), check_dtypes=False)
    assert "1 of 3" in said(fnp.arange(3), [0, 1, 3])


def test_tolerances_are_what_is_given() -> None:
    x, y = np.array([1.0, 1e10]), np.array([1.001, 1e10])
    assert_close(x, y, rtol=1e-3)
    assert_close(x, y, atol=1.1e-3)
    assert_close(x, y, rtol={"float64": 1e-2, "float32": 0.0})
    assert_close(x, y, rtol=1e-12, scaled=True)
    assert_close(np.array([7]), np.array([8]), atol=1)
    for options in ({}, {"rtol": 1e-4}, {"atol": 1e-4}, {"rtol": {"float32": 1}}):
        assert "1 of 2" in said(x, y, **options)
    # Of small numbers the usual atol is a part of the largest; beside 0 it is all.
    assert "1 of 1" in said(np.array([1e-15]), np.array([2e-15]))
    assert_close(np.array([1e-15]), np.array([0.0]))
    wide = np.array([1.0], np.float32)
    assert_close(wide, np.array([1 + 1e-6]), check_dtypes=False)


def test_bits_are_the_same_but_for_which_nan() -> None:
    quiet = np.array([0x7FC00001], np.uint32).view(np.float32)
    assert_same_bits(quiet, np.array([np.nan], np.float32))
    zero = np.zeros(1, np.float32)
    assert "0.0 (actual) is not -0.0 (desired)" in said(
        zero, -zero, compare=assert_same_bits
    )
    assert_close(zero, -zero)
    assert_close(zero, -zero, ulps=0)
    near = np.nextafter(np.float32(1), np.float32(2))
    text = said(np.float32(1), near, compare=assert_same_bits)
    assert "1 ULPs of float32 apart; 0 allowed" in text
    z = np.array([complex(0, -0.0)])
    assert "is not" in said(z, z.conj(), compare=assert_same_bits)
    weak, strong = fnp.asarray(1.0), fnp.ones(())
    assert_same_bits(weak, strong)
    assert "weak float32 is not float32" in said(
        weak, strong, compare=assert_same_bits, check_weak_type=True
    )


def test_nan_is_no_number_where_it_is_asked_for() -> None:
    x = np.array([np.nan, 1.0])
    assert_close(x, x)
    text = said(x, x, equal_nan=False)
    assert "1 of 2" in text
    assert "NaN" not in text.split("\n")[1]  # they are at the same places


def test_a_complex_number_is_nan_where_either_part_is() -> None:
    x, y = np.array([complex(1, np.nan)]), np.array([complex(np.nan, np.nan)])
    assert_close(x, y)
    assert "1 of 1" in said(x, y, compare=assert_same_bits)
    assert "1 of 1" in said(x, np.array([1 + 1j]))


def test_few_bits_are_compared_too() -> None:
    x = np.array([1, 2], ml_dtypes.int4)
    assert_close(x, x)
    assert "1 of 2" in said(x, np.array([1, 3], ml_dtypes.int4))


def test_wrong_uses_are_errors_of_ours() -> None:
    with pytest.raises(ValueRangeError, match="give ulps, or rtol and atol, not both"):
        assert_close(1.0, 1.0, ulps=1, rtol=1e-3)
    for limits in ({"rtol": -1.0}, {"ulps": -1}, {"atol": {"float32": np.nan}}):
        with pytest.raises(ValueRangeError, match="must be 0 or more"):
            assert_close(1.0, 1.0, **limits)
    with pytest.raises(TracerArrayConversionError):
        ft.jit(lambda x: assert_close(x, x))(1.0)

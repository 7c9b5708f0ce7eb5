"""Strategies: what they draw is of the dtype, within bounds, special on request."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import find, given, settings, strategies as st

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import ValueRangeError
from ftrace.testing import strategies as fst

#: Something is looked for among so many; most often it is among the first ten.
MANY = settings(max_examples=2000, deadline=None)
KINDS = fst.scalar_dtypes()


def parts(x: Any) -> Any:
    """Real numbers in float64."""
    wide = x.astype(np.complex128)
    return np.stack([wide.real, wide.imag])


@given(fst.arrays(KINDS))
def test_numbers_are_normal_by_default(x: Any) -> None:
    assert x.dtype in dtypes.ALL
    assert (fnp.asarray(x).shape, fnp.asarray(x).dtype) == (x.shape, x.dtype)
    if dtypes.is_inexact(x.dtype):
        every = parts(x)
        least = float(fnp.finfo(x.dtype).smallest_normal)
        assert np.isfinite(every).all()
        assert not (np.signbit(every) & (every == 0)).any()
        assert ((np.abs(every) >= least) | (every == 0)).all()


SPECIAL = {
    "NaN": np.isnan,
    "infinity": np.isinf,
    "negative zero": lambda x: (x == 0) & np.signbit(x),
    "denormal number": lambda x: (x != 0) & (np.abs(x) < 1.1e-38),
}


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.complex64])
@pytest.mark.parametrize("name", SPECIAL)
def test_special_numbers_come_on_request(name: str, dtype: Any) -> None:
    def has(x: Any) -> bool:
        return bool(SPECIAL[name](parts(x)[0]).any())

    found = find(fst.arrays(dtype, 3, special=True), has, settings=MANY)
    assert found.dtype == dtype
    ends = find(
        fst.arrays(np.int8, 2, special=True), lambda x: -128 in x, settings=MANY
    )
    assert ends.dtype == np.int8


@given(st.data(), fst.scalar_dtypes("iufc"))
def test_bounds_hold(data: Any, dtype: Any) -> None:
    low, high = (1, 9) if dtypes.is_integer(dtype) else (0.1, 0.9)
    bounds = {"min_value": low, "max_value": high, "special": True}
    x = data.draw(fst.arrays(dtype, (4,), **bounds))
    every = parts(x) if dtypes.is_complex(dtype) else x.astype(np.float64)
    assert ((every >= low) & (every <= high)).all()


@given(fst.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=4))
def test_broadcastable_shapes_broadcast(found: Any) -> None:
    x, y = (fnp.zeros(shape) for shape in found.input_shapes)
    assert (x + y).shape == found.result_shape


@given(fst.trees(fst.arrays(fst.scalar_dtypes("if"), (2,)), max_leaves=4))
def test_trees_hold_their_leaves(tree: Any) -> None:
    leaves = ft.tree.leaves(tree)
    assert all(x.shape == (2,) for x in leaves)


def test_shapes_have_empty_ones_and_scalars() -> None:
    for shape in ((), (3, 0)):
        assert (
            find(fst.array_shapes(), lambda s, shape=shape: s == shape, settings=MANY)
            == shape
        )
    elements = fst.arrays(np.float32, 4, elements=st.just(np.float32(2)))
    assert find(elements, lambda _: True).tolist() == [2] * 4
    unique = fst.arrays(np.int8, 5, unique=True)
    assert len({*find(unique, lambda _: True).tolist()}) == 5


def test_unknown_kinds_are_named() -> None:
    for kinds in ("x", "fx", ""):
        with pytest.raises(ValueRangeError, match="each of kinds must be 'b'"):
            fst.scalar_dtypes(kinds)


def test_without_hypothesis_the_extra_is_named() -> None:
    program = """
import sys
sys.modules["hypothesis"] = None
import ftrace.testing
assert ftrace.testing.assert_close and "pytest" not in sys.modules
try:
    import ftrace.testing.strategies
except ImportError as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert "MissingExtraError" in done.stdout, done.stderr
    assert "pip install 'ftrace[testing]'" in done.stdout

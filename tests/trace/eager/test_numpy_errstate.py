"""Eager operations are silent, and leave NumPy's error state as they found it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import ftrace.numpy as fnp
from ftrace.errors import ShapeError
from ftrace.ground import errstate


@pytest.mark.parametrize("name", ["quick", "slow"])
def test_silence_begins_and_ends(name: str) -> None:
    if name == "quick":
        ignore_errors, restore_errors = errstate.ignore_errors, errstate.restore_errors
    else:
        ignore_errors, restore_errors = (
            errstate._ignore_slowly,
            errstate._restore_slowly,
        )
    with np.errstate(divide="raise", over="warn"):
        before = np.geterr()
        token = ignore_errors()
        assert set(np.geterr().values()) == {"ignore"}
        inner = ignore_errors()
        restore_errors(inner)
        assert set(np.geterr().values()) == {"ignore"}
        restore_errors(token)
        assert np.geterr() == before


def test_this_numpy_has_the_quick_way() -> None:
    assert errstate.ignore_errors is not errstate._ignore_slowly


@pytest.mark.parametrize("what", ["raise", "warn"])
def test_eager_operations_neither_raise_nor_warn(what: str) -> None:
    big = fnp.asarray(np.float32([3e38, 0.0, -1.0]))
    with warnings.catch_warnings(), np.errstate(all=what):
        warnings.simplefilter("error")
        before = np.geterr()
        np.testing.assert_array_equal(big + big, [np.inf, 0, -2])
        np.testing.assert_allclose(1.0 / big * big, [1, np.nan, 1], rtol=1e-6)
        assert np.isnan(fnp.log(big)[2])
        assert np.isinf(fnp.prod(big + 1e30))
        with pytest.raises(ShapeError):
            big + fnp.ones(2)
        assert np.geterr() == before

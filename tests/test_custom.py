"""Functions with rules of their own: custom_jvp, custom_vjp, custom_vmap and kin."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.errors import (
    ArgumentError,
    DerivativeError,
    DtypeError,
    ShapeError,
    StaticArgumentError,
    TreeError,
    UnexpectedTracerError,
)
from ftrace.test_util import check_grads

DATA = Path(__file__).parent / "data"
sys.path.insert(0, str(DATA))

from custom_cases import CASES, LOOPS, product, scaled  # noqa: E402

#: Values of JAX: see data/record_custom.py.
RECORDED: dict[str, Any] = dict(np.load(DATA / "custom.npz"))


@pytest.fixture(params=["cpu", "interpreter"])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    with ft.config(device=request.param):
        yield request.param


def assert_recorded(name: str) -> None:
    leaves = ft.tree.leaves(CASES[name](ft, fnp, lax))
    expected = [RECORDED[f"{name}.{i}"] for i in range(len(leaves))]
    assert f"{name}.{len(leaves)}" not in RECORDED
    for i, (leaf, value) in enumerate(zip(leaves, expected, strict=True)):
        got = np.asarray(leaf)
        assert got.shape == value.shape, (name, i)
        np.testing.assert_allclose(
            got, value, rtol=2e-5, atol=2e-6, err_msg=f"{name}, leaf {i}"
        )


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_jax(name: str, device: str) -> None:
    assert_recorded(name)


@pytest.mark.parametrize("name", sorted(set(CASES) - LOOPS))
def test_values_without_programs_are_those_of_jax(name: str) -> None:
    with ft.config(disable_jit=True):
        assert_recorded(name)

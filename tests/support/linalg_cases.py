"""Evaluates the expressions of data/linalg_cases.py and holds them to JAX's values."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.errors import FtraceError
from ftrace.scipy import linalg
from ftrace.trace.pytree import tree
from tests.data import linalg_cases as cases

INPUTS, RECORDED = cases.recorded()

#: Values of one dtype agree to this much, relative to the greatest of them.
TOLERANCE = {"float32": 2e-5, "complex64": 2e-5, "float16": 2e-3}


def scope() -> dict[str, Any]:
    """The names that an expression may use."""
    arrays = {name: fnp.asarray(value) for name, value in INPUTS.items()}
    return {
        "jnp": fnp,
        "lax": lax,
        "sl": linalg,
        "grad": ft.grad,
        "vmap": ft.vmap,
        **arrays,
    }


def check(expression: str) -> None:
    """The expression has JAX's value, or raises where JAX raises."""
    expected = RECORDED[expression]
    with ft.config(enable_x64=True), warnings.catch_warnings():
        warnings.simplefilter("error")
        if expected is None:
            with pytest.raises((FtraceError, TypeError)):
                eval(expression, scope())
            return
        found = [np.asarray(x) for x in tree.leaves(eval(expression, scope()))]
    if "schur(C" in expression:
        # The phase of a complex Schur vector is LAPACK's choice, and differs from
        # processor to processor; that Z·T·Zᴴ is the matrix, other tests say.
        found, expected = (
            [np.abs(x) + 0j for x in found],
            [np.abs(x) + 0j for x in expected],
        )
    assert len(found) == len(expected), expression
    for got, want in zip(found, expected, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape), expression
        tolerance = TOLERANCE.get(want.dtype.name, 1e-9)
        finite = np.abs(want[np.isfinite(want)])
        scale = max(1.0, float(finite.max(initial=0)))
        np.testing.assert_allclose(got, want, tolerance, tolerance * scale)

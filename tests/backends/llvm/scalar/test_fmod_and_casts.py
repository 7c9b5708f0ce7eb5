"""Remainders and conversions of floats: every lane as NumPy's number, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp

SPECIAL = [
    0.0, -0.0, 1.0, -1.0, 0.5, -1.5, 3.0, 7.25, np.inf, -np.inf, np.nan, 1e-40, -1e-45,
    1e-38, 16777215.0, 16777216.0, 8388607.5, 8388608.0, 3e38, -3e38, 1e30, 0.1, 1 / 3,
]  # fmt: skip


def pairs(dtype: str) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    bits = random.integers(0, 1 << 32, (2, 40_000), dtype=np.uint32)
    x, y = bits.view(np.float32).astype(dtype)
    near = random.integers(1, 1 << 23, 40_000).astype(dtype)
    tenths = near * np.asarray(0.1, dtype)
    a, b = (m.ravel() for m in np.meshgrid(*[np.array(SPECIAL, dtype)] * 2))
    part = random.standard_normal(40_000).astype(dtype)
    whole = np.concatenate([x, a, tenths * near % 1e6, near * part, part * 1e3])
    return whole, np.concatenate([y, b, tenths, part, np.abs(part) + 1])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_remainder_is_exact_for_all_kinds_of_floats(dtype: str) -> None:
    x, y = pairs(dtype)
    with ft.config(enable_x64=True):
        found = np.asarray(ft.jit(fnp.fmod)(x, y))
        few = np.asarray(ft.jit(fnp.fmod)(x[-3:], y[-3:]))
    wanted = np.fmod(x, y)
    np.testing.assert_array_equal(found, wanted)
    number = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[number]), np.signbit(x[number]))
    np.testing.assert_array_equal(few, wanted[-3:])


@pytest.mark.parametrize("source", ["float32", "float64", "float16"])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("kind", ["int", "uint"])
def test_floats_become_the_nearest_integers_that_there_are(
    source: str, bits: int, kind: str
) -> None:
    """Truncated; beyond the limits the limit, and 0 for NaN."""
    powers = [2.0**n for n in (7, 8, 15, 16, 31, 32, 63, 64)]
    near = [p + d for p in powers for d in (-1, -0.5, 0, 0.5, 1)]
    with np.errstate(over="ignore"):
        values = np.array([*SPECIAL, *near, *[-n for n in near]]).astype(source)
    limits = np.iinfo(f"{kind}{bits}")
    low, high = int(limits.min), int(limits.max)
    wanted: list[int] = []
    for value in values.astype(np.float64):
        inside = np.isfinite(value)
        whole = int(value) if inside else (high if value > 0 else low)
        wanted.append(0 if np.isnan(value) else min(max(whole, low), high))
    with ft.config(enable_x64=True):
        found = ft.jit(lambda x: x.astype(f"{kind}{bits}"))(values)
    assert np.asarray(found).tolist() == wanted

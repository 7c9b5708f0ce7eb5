"""Scatters of many updates to few places: private copies that are added up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.lower.blocking.privatize_scatters import (
    FEWEST_COPIES,
    MANY,
    MOST_COPIES,
    copy_count,
)
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives.indexing import scatter
from ftrace.trace.primitives.sources import const, variable

SIZES = (MANY, MANY + 1, 2 * MANY - 1)
KINDS: dict[str, Any] = {"add": np.add, "min": np.minimum, "max": np.maximum}


def numbers(size: int, places: int) -> np.ndarray[Any, Any]:
    """Some are out of bounds."""
    return np.random.default_rng(size).integers(-2, places + 2, size, np.int32)


def crowd(updates: int, places: int) -> Node:
    index = variable(ShapedArray.of((updates,), np.dtype(np.int32)), 0, 0)
    values = variable(ShapedArray.of((updates,), np.dtype(np.float32)), 0, 1)
    board = const(0, np.dtype(np.float32), (places,))
    return scatter(board, values, [index], (0,), "add")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("places", [1, 7, 300])
def test_bincount_counts_as_numpy_does(size: int, places: int) -> None:
    x = numbers(size, places)
    counts = ft.jit(lambda x: fnp.bincount(x, length=places))(x)
    wanted = np.bincount(np.maximum(x, 0), minlength=places)[:places]
    np.testing.assert_array_equal(counts, wanted)


def test_bincount_counts_weights_that_are_bools() -> None:
    x, w = np.array([0, 0, 1]), np.array([True, True, False])
    for bincount in (fnp.bincount, ft.jit(fnp.bincount, static_argnames="length")):
        counts = bincount(x, w, length=2)
        assert counts.dtype == np.int32
        assert counts.tolist() == [2, 0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [(), (2,), (2, 3)])
def test_private_copies_combine_as_numpy_does(
    kind: str, width: tuple[int, ...]
) -> None:
    size, places = SIZES[1], 5
    x = numbers(size, places)
    u = np.random.default_rng(1).integers(-9, 9, (size, *width)).astype(np.float32)
    start = 0.0 if kind == "add" else 3.0

    def combined(x: Any, u: Any) -> Any:
        at = fnp.full((places, *width), start, np.float32).at[x]
        return getattr(at, kind)(u, mode="drop")

    wanted = np.full((places, *width), start, np.float32)
    inside = x < places
    KINDS[kind].at(wanted, x[inside], u[inside])
    np.testing.assert_array_equal(ft.jit(combined)(x, u), wanted)


def test_missing_and_infinite_updates_stay_at_their_places() -> None:
    x = numbers(MANY, 4)
    u = np.ones(MANY, np.float32)
    u[np.flatnonzero(x == 1)[-1]] = np.nan
    u[np.flatnonzero(x == 2)[0]] = np.inf
    found = np.asarray(ft.jit(lambda u, x: ft.ops.segment_sum(u, x, 4))(u, x))
    assert np.isfinite(found).tolist() == [True, False, False, True]
    assert np.isnan(found[1])
    assert found[2] == np.inf


def test_results_are_the_same_for_any_number_of_threads() -> None:
    x = numbers(SIZES[2], 33)
    u = np.random.default_rng(2).standard_normal(x.size).astype(np.float32)
    found: list[bytes] = []
    for threads in (1, 2):
        with ft.config(threads=threads):
            result = ft.jit(lambda u, x: ft.ops.segment_sum(u, x, 33))(u, x)
            found.append(np.asarray(result).tobytes())
    assert found[0] == found[1]


def test_private_copies_cost_less_than_the_updates() -> None:
    for updates in SIZES:
        for places in (1, 100, 1000, 10_000):
            count = copy_count(crowd(updates, places))
            assert count == 0 or FEWEST_COPIES <= count <= MOST_COPIES
            assert 4 * count * places <= updates
    assert copy_count(crowd(MANY, 10))
    assert not copy_count(crowd(MANY, MANY))


def test_rule_can_be_switched_off() -> None:
    x = numbers(MANY, 9)
    with ft.config(disabled_rules={"privatize_scatter"}):
        counts = ft.jit(lambda x: fnp.bincount(x, length=9))(x)
    wanted = np.bincount(np.maximum(x, 0), minlength=9)[:9]
    np.testing.assert_array_equal(counts, wanted)

"""Calls of jitted functions: native ones and Python's give the same, and never crash.

Every test runs twice: with native calls, where this interpreter has them, and without.
"""

from __future__ import annotations

import ctypes
import gc
import os
import random
import re
import subprocess
import sys
import threading
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.array import Array
from ftrace.devices.base import get_device
from ftrace.devices.llvm.calling import probe
from ftrace.devices.llvm.calling.native import native_ir
from ftrace.transforms.known import CALLS_BEFORE

ROOT = Path(__file__).parents[1]
#: The first is traced, some are found again, then one is bound, and two are native.
CALLS = CALLS_BEFORE + 4


@pytest.fixture(params=["native", "plain"], autouse=True)
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    with ft.config(native_calls=request.param == "native", device="cpu"):
        yield request.param


def is_native(jitted: Any) -> bool:
    """Has it calls that are native?"""
    return bool(jitted._bound)


def expects_native(mode: str) -> bool:
    forced = os.environ.get("FTRACE_NATIVE_CALLS") == "0"
    return mode == "native" and not forced and probe.offsets() is not None


def array(*values: float, dtype: Any = np.float32) -> Array:
    return fnp.asarray(np.array(values, dtype))


class Pair(NamedTuple):
    left: Any
    right: Any


class Checked(NamedTuple("Checked", [("value", Any)])):
    def __new__(cls, value: Any) -> Checked:
        made = super().__new__(cls, value)
        SEEN.append(type(value).__name__)
        return made


SEEN: list[str] = []


# What is given, and what comes back.

TREES: dict[str, Any] = {
    "one": array(1, 2),
    "dict": {"b": array(1, 2), "a": array(3)},
    "nested": {"z": {"w": array(1), "b": [array(2), (array(3), None)]}, "y": ()},
    "namedtuple": Pair(array(1), Pair([array(2)], None)),
    "list": [array(1), array(2), [], {}],
    "ints as keys": {3: array(1), 1: array(2)},
    "scalar and empty": (array(1).reshape(()), array()),
    "many": {f"k{i}": [array(i), array(i, i)] for i in range(100)},
    "text of its own": {"".join(["lay", str(i)]): array(i) for i in range(9)},
}


@pytest.mark.parametrize("name", TREES)
def test_trees_come_back_in_their_containers(name: str, mode: str) -> None:
    given = TREES[name]
    step = ft.jit(lambda t: ft.tree.map(lambda x: x + 1, t))
    want = ft.tree.map(lambda x: np.asarray(x) + 1, given)
    for _ in range(CALLS):
        got = step(given)
        assert ft.tree.structure(got) == ft.tree.structure(given)
        assert str(got) == str(step(given))
        for one, other in zip(ft.tree.leaves(got), ft.tree.leaves(want), strict=True):
            assert type(one) is Array
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
    assert is_native(step) == expects_native(mode)
    assert step.trace_count == 1


@pytest.mark.parametrize("name", TREES)
def test_results_are_given_again(name: str) -> None:
    step, value = ft.jit(lambda t: ft.tree.map(lambda x: x * 2, t)), TREES[name]
    for _ in range(CALLS):
        value = step(value)
    want = ft.tree.map(lambda x: np.asarray(x) * 2**CALLS, TREES[name])
    for one, other in zip(ft.tree.leaves(value), ft.tree.leaves(want), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_order_of_keys_is_that_of_the_function() -> None:
    step = ft.jit(lambda t: {"z": t["a"], "a": t["b"], "m": t["a"] + t["b"]})
    one, other = {"a": array(1), "b": array(2)}, {"b": array(2), "a": array(1)}
    for given in [one, other] * CALLS:
        got = step(given)
        assert list(got) == ["z", "a", "m"]
        assert [x.tolist() for x in got.values()] == [[1], [2], [3]]
    assert step.trace_count == 1


def test_arguments_by_name_and_static_ones(mode: str) -> None:
    step = ft.jit(
        lambda x, n, *, scale, kind: x * scale + n if kind == "a" else x - n,
        static_argnums=1,
        static_argnames="kind",
    )
    x = array(1, 2)
    for n in (1, 2) * CALLS:
        for kind in ("a", "b"):
            want = np.array([1, 2]) * 3 + n if kind == "a" else np.array([1, 2]) - n
            got = step(x, n, scale=array(3), kind=kind)
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(step(x, n, kind=kind, scale=array(3)), want)
    assert step.trace_count == 4
    assert is_native(step) == expects_native(mode)


def test_a_static_argument_that_equals_an_earlier_one_is_found() -> None:
    class Size:
        def __init__(self, n: int) -> None:
            self.n = n

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Size) and self.n == other.n

        def __hash__(self) -> int:
            return hash(self.n)

    step = ft.jit(lambda x, size: x * size.n, static_argnums=1)
    for _ in range(CALLS):
        assert step(array(2), Size(3)).tolist() == [6]
    same = Size(3)
    for _ in range(CALLS):
        assert step(array(2), same).tolist() == [6]
    same.n = 5  # it lies about its hash, but is asked for it each time
    assert step(array(2), same).tolist() == [10]


NUMBERS: list[Any] = [0.5, -0.0, float("inf"), 7, -3, True, False, 1e300 * 0 + 2.25]


@pytest.mark.parametrize("value", NUMBERS, ids=repr)
def test_numbers_of_python(value: Any, mode: str) -> None:
    step = ft.jit(lambda x, y: (x * y, y))
    want = ft.jit(lambda x, y: (x * y, y))(array(2, 3), value)
    for _ in range(CALLS):
        got = step(array(2, 3), value)
        for one, other in zip(got, want, strict=True):
            assert (one.dtype, one.weak_type) == (other.dtype, other.weak_type)
            assert one.tobytes() == other.tobytes()


def test_numbers_that_change_their_kind() -> None:
    step = ft.jit(lambda x, y: x + y)
    x = array(1)
    for value in [1, 2.5, True, 3, -4.5, 2, False, 1 << 20] * 3:
        assert float(step(x, value)[0]) == 1 + value


def test_numbers_that_do_not_fit_take_the_long_way() -> None:
    step = ft.jit(lambda x, y: x + y)
    for _ in range(CALLS):
        step(array(1), 5)
        step(array(1), 5.0)
    large = step(array(1), 1 << 40)
    assert float(large[0]) == pytest.approx(float(1 << 40))
    with pytest.raises(ft.errors.FtraceError):
        step(array(1), 1 << 200)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1", "?", "c8"])
def test_arrays_of_numpy(dtype: str, mode: str) -> None:
    step = ft.jit(lambda x: x + x)
    given = np.arange(6).reshape(2, 3).astype(dtype)
    shapes = [given, np.asfortranarray(given), given[::-1], given.copy(), given[:, :2]]
    for _ in range(CALLS):
        for one in shapes:
            np.testing.assert_array_equal(step(one), one + one)
    assert is_native(step) == expects_native(mode)


def test_what_numpy_changes_afterwards_does_not_change_a_result() -> None:
    step = ft.jit(lambda x, y: (x, x + y))
    given = np.ones(4, np.float32)
    kept = [step(given, array(1, 1, 1, 1)) for _ in range(CALLS)]
    given[:] = 9
    for same, more in kept:
        assert same.tolist() == [1] * 4
        assert more.tolist() == [2] * 4


def test_an_argument_handed_through() -> None:
    step = ft.jit(lambda x, y: (x, y + 1, x))
    x = array(1, 2)
    for _ in range(CALLS):
        one, other, again = step(x, x)
        assert one.tolist() == again.tolist() == [1, 2]
        assert other.tolist() == [2, 3]
    one.delete()
    assert again.tolist() == [1, 2]
    assert step(x, x)[0].tolist() == [1, 2]


def test_captured_arrays() -> None:
    held = array(5)
    step = ft.jit(lambda x: x + held)
    for _ in range(CALLS):
        assert step(array(1)).tolist() == [6]
    held.delete()
    with pytest.raises(ft.errors.DeletedArrayError):
        step(array(1))


def test_no_arguments_and_no_results() -> None:
    nothing, constant = ft.jit(lambda: None), ft.jit(lambda: {"a": fnp.ones(2)})
    for _ in range(CALLS):
        assert nothing() is None
        assert constant()["a"].tolist() == [1, 1]


# What is not as expected.


def _first_line(raised: pytest.ExceptionInfo[Exception]) -> str:
    return str(raised.value).split("\n")[0]


def test_wrong_arguments_have_pythons_messages() -> None:
    def add(t: Any) -> Any:
        return t["a"] + t["b"]

    step = ft.jit(add)
    good = {"a": array(1), "b": array(2)}
    bad: list[Any] = [
        None, 3, {}, {"a": array(1)}, {"a": array(1), "c": array(2)}, [array(1)],
        {"a": "text", "b": array(1)}, {"a": object(), "b": array(1)},
        {"a": None, "b": array(1)}, {"a": {"a": array(1)}, "b": array(2)},
    ]  # fmt: skip
    for one in bad:
        with pytest.raises(Exception) as first:
            ft.jit(add)(one)
        for _ in range(CALLS):
            assert step(good).tolist() == [3]
        with pytest.raises(type(first.value)) as second:
            step(one)
        assert _first_line(first) == _first_line(second)
    with pytest.raises(TypeError):
        step()
    with pytest.raises(TypeError):
        step(good, good)
    with pytest.raises(TypeError):
        step(good, other=1)


def test_other_shapes_dtypes_and_containers_are_traced_anew() -> None:
    step = ft.jit(lambda t: ft.tree.map(lambda x: x + 1, t))
    kinds: list[Any] = [
        {"a": array(1)},
        {"a": array(1, 2)},
        {"a": array(1, dtype=np.int32)},
        {"a": fnp.asarray(1.0)},
        {"a": 1.0},
        OrderedDict(a=array(1)),
        defaultdict(list, a=array(1)),
        [array(1)],
        (array(1),),
        Pair(array(1), None),
        {"a": np.ones(1, np.float32)},
        {1: array(1)},
    ]
    for _ in range(CALLS):
        for one in kinds:
            got = step(one)
            assert type(got) is type(one)
            for x, y in zip(ft.tree.leaves(got), ft.tree.leaves(one), strict=True):
                np.testing.assert_array_equal(x, np.asarray(y) + 1)
    traced = step.trace_count
    for one in kinds:
        step(one)
    assert step.trace_count == traced


def test_more_signatures_than_are_kept() -> None:
    step = ft.jit(lambda x: x * 2)
    for _ in range(CALLS):
        for n in range(1, 40):
            assert step(fnp.ones(n)).tolist() == [2] * n
    assert step.trace_count == 39


def test_deleted_arrays_are_refused() -> None:
    step, x = ft.jit(lambda x: x + 1), array(1)
    for _ in range(CALLS):
        x = step(x)
    x.delete()
    with pytest.raises(ft.errors.DeletedArrayError):
        step(x)
    assert step(array(1)).tolist() == [2]


def test_traced_arguments_are_recorded() -> None:
    step, x = ft.jit(lambda x, y: x * y), array(2, 3)
    for _ in range(CALLS):
        step(x, x)
    assert ft.grad(lambda v: step(v, v).sum())(x).tolist() == [4, 6]
    assert ft.vmap(lambda v: step(v, x[0]))(x).tolist() == [4, 6]
    outer = ft.jit(lambda v: step(v, x) + step(x, x))
    for _ in range(CALLS):
        assert outer(x).tolist() == [8, 18]


def test_subclasses_are_taken_for_what_they_are() -> None:
    class Mine(dict[str, Any]):
        def __iter__(self) -> Any:
            raise AssertionError("iterated")

    class Better(Array):
        __slots__ = ()

    step = ft.jit(lambda t: t["a"] + 1)
    for _ in range(CALLS):
        step({"a": array(1)})
    with pytest.raises((ft.errors.FtraceError, TypeError)):
        step(Mine(a=array(1)))
    better = Better((1,), np.dtype(np.float32), False, None, np.ones(1, np.float32))
    for _ in range(CALLS):
        assert step({"a": better}).tolist() == [2]


def test_keys_that_raise_do_no_harm() -> None:
    class Odd(str):
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("compared")

        __hash__ = str.__hash__

    step = ft.jit(lambda t: t["a"] + 1)
    for _ in range(CALLS):
        step({"a": array(1)})
    with suppress(RuntimeError, KeyError):  # or none of them: there is no crash
        step({Odd("a"): array(1)})
    assert step({"a": array(1)}).tolist() == [2]


def test_registered_containers_and_namedtuples_with_code() -> None:
    class Box:
        def __init__(self, value: Any) -> None:
            self.value = value

    ft.tree_util.register_pytree_node(
        Box, lambda b: ((b.value,), None), lambda _, c: Box(*c)
    )
    step = ft.jit(lambda b: Box(b.value + 1))
    for _ in range(CALLS):
        assert step(Box(array(1))).value.tolist() == [2]
    made = ft.jit(lambda x: Checked(x + 1))
    for _ in range(CALLS):
        before = len(SEEN)
        assert made(array(1)).value.tolist() == [2]
        assert "Array" in SEEN[before:]


def test_deep_trees() -> None:
    value: Any = array(1)
    for _ in range(200):
        value = [value]
    step = ft.jit(lambda t: ft.tree.leaves(t)[0] + 1)
    for _ in range(CALLS):
        assert step(value).tolist() == [2]
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    with pytest.raises(RecursionError):
        step(cyclic)


def test_very_many_leaves() -> None:
    given = [array(i) for i in range(3000)]
    step = ft.jit(lambda t: t[0] + t[-1])
    for _ in range(CALLS):
        assert step(given).tolist() == [2999]


# Donation.


def test_donated_arrays_give_their_memory_and_are_deleted(mode: str) -> None:
    step = ft.jit(lambda p, g: {"w": p["w"] - 0.5 * g}, donate_argnums=0)
    value, change = {"w": fnp.ones((30, 100))}, fnp.full((30, 100), 2.0)
    places: set[int] = set()
    for i in range(2 * CALLS):
        before = value
        value = step(value, change)
        assert before["w"].is_deleted()
        assert not change.is_deleted()
        if i > CALLS:
            places.add(value["w"].stored.memory.ctypes.data)
    assert value["w"][0, 0] == 1 - 2 * CALLS
    assert len(places) == 1
    assert is_native(step) == expects_native(mode)
    with pytest.raises(ft.errors.DeletedArrayError):
        step(before, change)


def test_donated_arrays_that_others_see_are_copied() -> None:
    step = ft.jit(lambda t: t * 2, donate_argnums=0)
    value = ft.jit(lambda: fnp.ones(1000))()
    for i in range(2 * CALLS):
        view = value.numpy()
        value = step(value)
        assert view.tolist() == [2.0**i] * 1000
    for _ in range(CALLS):
        hidden = value.stored
        value, last = step(value), value
        assert last.is_deleted()
        memory = hidden.memory.view(np.float32)[:1000]
        assert memory.tolist() == [float(value[0]) / 2] * 1000


def test_an_array_donated_and_given_again_is_right() -> None:
    step = ft.jit(lambda a, b: (a * 2 + b, b), donate_argnums=0)
    both = ft.jit(lambda a, b: (a * 2 + b, b * 3), donate_argnums=(0, 1))
    fresh = ft.jit(lambda x: x + 1)
    for _ in range(2 * CALLS):
        apart = step(fresh(fnp.ones(1000)), fnp.ones(1000))
        assert (float(apart[0][0]), float(apart[1][0])) == (5, 1)
        one = fresh(fnp.ones(1000))
        again = step(one, one)
        assert one.is_deleted()
        assert (float(again[0][0]), float(again[1][0])) == (6, 2)
        apart = both(fresh(fnp.ones(1000)), fresh(fnp.zeros(1000)))
        assert (float(apart[0][0]), float(apart[1][0])) == (5, 3)
        two = fresh(fnp.ones(1000))
        again = both(two, two)
        assert two.is_deleted()
        assert (float(again[0][0]), float(again[1][0])) == (6, 6)


def test_what_was_donated_is_gone_also_if_the_call_fails() -> None:
    def host(x: Any) -> Any:
        if fail:
            raise ValueError("failed")
        return np.asarray(x)

    def program(x: Any) -> Any:
        return ft.pure_callback(host, ft.ShapeDtypeStruct((9,), np.float32), x) + x

    fail, step = False, ft.jit(program, donate_argnums=0)
    fresh = ft.jit(lambda: fnp.ones(9))
    for _ in range(CALLS):
        assert step(fresh()).tolist() == [2] * 9
    fail, given = True, fresh()
    with pytest.raises(ValueError, match="failed"):
        step(given)
    assert given.is_deleted()


# What happens around calls.


def test_a_result_is_an_array_like_any_other() -> None:
    step = ft.jit(lambda x: x + 1)
    for _ in range(CALLS):
        got = step(array(1, 2))
    seen = weakref.ref(got)
    view = got.numpy()
    assert seen() is got
    del got
    gc.collect()
    assert seen() is None
    others = [step(array(3, 4)) for _ in range(100)]
    assert view.tolist() == [2, 3]
    assert all(x.tolist() == [4, 5] for x in others)


def test_nothing_leaks() -> None:
    step = ft.jit(lambda x, t, *, s: ({"a": x + s}, [t["b"], x * 2]))
    x, t = array(1, 2), {"b": array(3)}
    values = [x, t, t["b"], x.shape, x.dtype, array, "b", step]
    for _ in range(CALLS):
        step(x, t, s=1.5)
    allocator = get_device("cpu").allocator
    gc.collect()
    before = [sys.getrefcount(v) for v in values]
    used = allocator.in_use
    for _ in range(1000):
        step(x, t, s=1.5)
    gc.collect()
    assert [sys.getrefcount(v) for v in values] == before
    assert allocator.in_use == used


def test_the_allocator_counts_native_buffers() -> None:
    step = ft.jit(lambda x: (x + 1, x * 2))
    x = fnp.ones(1000)
    for _ in range(CALLS):
        step(x)
    allocator = get_device("cpu").allocator
    used, size = allocator.in_use, allocator.size_class(4000)
    kept = [step(x) for _ in range(10)]
    assert allocator.in_use == used + 20 * size
    assert allocator.peak >= allocator.in_use
    del kept
    assert allocator.in_use == used
    assert allocator.kept >= 20 * size
    allocator.trim()
    assert allocator.kept == 0
    assert step(x)[1].tolist() == [2] * 1000


def test_the_counters_count_native_calls() -> None:
    step = ft.jit(lambda x: x + 1)
    x = fnp.ones(100)
    for _ in range(CALLS):
        step(x)
    counters = get_device("cpu").counters
    counters.reset()
    for _ in range(5):
        step(x)
    assert (counters.kernels_run, counters.operations) == (5, 500)
    assert counters.bytes == 5 * 800
    assert counters.run_seconds > 0
    counters.reset()
    assert counters.kernels_run == 0


def test_settings_are_seen_by_the_next_call() -> None:
    step = ft.jit(lambda x: x + 1)
    x = array(1)
    for _ in range(CALLS):
        step(x)
    with ft.config(disable_jit=True):
        assert step(x).tolist() == [2]
    for _ in range(3):
        with ft.config(threads=1):
            for _ in range(CALLS):
                assert step(x).tolist() == [2]
        assert step(x).tolist() == [2]
    with ft.config(device="interpreter"):
        got = step(x)
        assert got.memory.name == "interpreter"
    with ft.config(enable_x64=True):
        for _ in range(CALLS):
            assert step(1.0).dtype == np.float64
    for _ in range(CALLS):
        assert step(1.0).dtype == np.float32


def test_another_context_has_its_own_settings() -> None:
    step = ft.jit(lambda x: x + 1)
    for _ in range(CALLS):
        step(1.0)
    found: list[Any] = []

    def other() -> None:
        with ft.config(enable_x64=True):
            for _ in range(CALLS):
                found.append(step(1.0).dtype)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert found == [np.float64] * CALLS
    assert step(1.0).dtype == np.float32


def test_clear_cache_traces_anew() -> None:
    step, x = ft.jit(lambda x: x + 1), array(1)
    for _ in range(CALLS):
        step(x)
    step.clear_cache()
    assert step(x).tolist() == [2]
    assert step.trace_count == 2


def test_methods_and_attributes_stay() -> None:
    class Model:
        scale = 3

        @ft.jit
        def run(self_or_x: Any, y: Any) -> Any:
            """Runs."""
            return self_or_x * y

    step = ft.jit(lambda x: x + 1)
    for _ in range(CALLS):
        step(array(1))
    assert step.__wrapped__ is not None
    assert Model.run.__name__ == "run"
    assert Model.run.__doc__ == "Runs."
    assert callable(step)
    assert "jit" in repr(step)
    assert step.lower(array(1)).kernels
    step.note = "kept"
    assert step.note == "kept"
    assert weakref.ref(step)() is step
    with pytest.raises((TypeError, AttributeError)):  # native code's, or Python's
        type(step).__call__(3)


def test_callbacks_raise_and_run_in_order() -> None:
    seen: list[float] = []

    def host(x: Any) -> Any:
        if float(x[0]) < 0:
            raise ValueError("negative")
        seen.append(float(x[0]))
        return np.asarray(x) * 2

    def program(x: Any) -> Any:
        return ft.pure_callback(host, ft.ShapeDtypeStruct((1,), np.float32), x) + 1

    step = ft.jit(program)
    for i in range(CALLS):
        assert step(array(i)).tolist() == [2 * i + 1]
    used = get_device("cpu").allocator.in_use
    for _ in range(CALLS):
        with pytest.raises(ValueError, match="negative"):
            step(array(-1))
    assert get_device("cpu").allocator.in_use == used
    assert step(array(4)).tolist() == [9]
    assert seen == [*range(CALLS), 4]


def test_a_callback_may_call_and_clear_the_function_it_is_in() -> None:
    given = {"a": array(1, 2)}

    def host(x: Any) -> Any:
        if float(x[0]) < 3:
            step({"a": array(*(np.asarray(x) + 1))})
        given.clear()
        step.clear_cache()
        gc.collect()
        return np.asarray(x)

    step = ft.jit(
        lambda t: (
            ft.pure_callback(host, ft.ShapeDtypeStruct((2,), np.float32), t["a"])
            + t["a"]
        )
    )
    for _ in range(CALLS):
        given["a"] = array(1, 2)
        assert step(given).tolist() == [2, 4]


def test_an_argument_deleted_while_the_program_runs_stays_until_its_end() -> None:
    x = fnp.ones(1000)

    def host(value: Any) -> Any:
        x.delete()
        gc.collect()
        return np.asarray(value)

    step = ft.jit(
        lambda v: (
            ft.pure_callback(host, ft.ShapeDtypeStruct((1000,), np.float32), v) + v * 2
        )
    )
    for _ in range(CALLS):
        x = ft.jit(lambda v: v + 1)(fnp.zeros(1000))
        assert step(x).tolist() == [3] * 1000


def test_many_threads_call_at_once() -> None:
    step = ft.jit(lambda t: {"a": t["a"] + t["b"], "b": t["b"] * 2})
    failed: list[Any] = []

    def work(seed: int) -> None:
        value = {"a": array(seed), "b": array(1)}
        for i in range(300):
            got = step({"a": value["a"], "b": array(1)})
            if got["a"].tolist() != [seed + i + 1] or got["b"].tolist() != [2]:
                failed.append((seed, i, got))
            value = got

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_records_come_and_go_while_threads_call() -> None:
    step = ft.jit(lambda x, y: x + y)
    stop, failed = threading.Event(), list[Any]()

    def work(seed: int) -> None:
        chance = random.Random(seed)
        while not stop.is_set():
            n = chance.randrange(1, 24)
            got = step(fnp.ones(n), chance.choice([1.0, 1, fnp.ones(n)]))
            if got.tolist() != [2] * n:
                failed.append(got)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        for n in range(1, 24):
            step(fnp.ones(n), 1.0)
        step.clear_cache()
        gc.collect()
    stop.set()
    for thread in threads:
        thread.join()
    assert not failed


def test_random_trees_agree_with_the_function_itself() -> None:
    chance = random.Random(5)

    def tree(depth: int) -> Any:
        kind = chance.randrange(9 if depth else 4)
        if kind < 3:
            return array(*[chance.random() for _ in range(chance.randrange(4))])
        if kind == 3:
            return chance.choice(
                [1.5, 2, True, None, np.ones((2, 1), np.float32), np.float32(3)]
            )
        children = [tree(depth - 1) for _ in range(chance.randrange(4))]
        if kind == 4:
            return tuple(children)
        if kind == 5:
            return Pair(children, tuple(children))
        if kind == 6:
            return children
        return {f"k{chance.randrange(5)}": child for child in children}

    def twice(t: Any) -> Any:
        return ft.tree.map(lambda x: x + x, t)

    step = ft.jit(twice)
    trees = [tree(3) for _ in range(40)]
    for _ in range(CALLS):
        for one in trees:
            got, want = step(one), twice(ft.tree.map(fnp.asarray, one))
            assert ft.tree.structure(got) == ft.tree.structure(want)
            for x, y in zip(ft.tree.leaves(got), ft.tree.leaves(want), strict=True):
                np.testing.assert_array_equal(x, y)


# Processes of their own.


def run(program: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


PROGRAM = """
import os, sys, threading
import numpy as np
import ftrace as ft
step = ft.jit(lambda t: {"a": t["a"] + 1, "b": [t["a"] * 2]})
value = {"a": ft.numpy.ones(5)}
for _ in range(12):
    got = step(value)
"""


@pytest.mark.parametrize("native", ["0", "1"])
def test_objects_live_to_the_end_of_the_process(native: str) -> None:
    text = PROGRAM + (
        "class Late:\n"
        "    def __del__(self):\n"
        "        self.kept = None\n"
        "late = Late(); late.kept = step(value); sys.late = late\n"
        "print(got['b'][0].tolist(), bool(step._bound))\n"
    )
    out = run(text, FTRACE_NATIVE_CALLS=native)
    native_there = native == "1" and probe.offsets() is not None
    assert out == f"[2.0, 2.0, 2.0, 2.0, 2.0] {native_there}\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_calls_natively() -> None:
    text = PROGRAM + (
        "child = os.fork()\n"
        "for _ in range(100):\n"
        "    got = step(got | {'a': got['a']}) if False else step({'a': got['a']})\n"
        "if child == 0:\n"
        "    os._exit(0 if got['a'].tolist() == [102.0] * 5 else 1)\n"
        "print(os.waitpid(child, 0)[1], got['a'].tolist())\n"
    )
    assert run(text, FTRACE_THREADS="1") == "0 [102.0, 102.0, 102.0, 102.0, 102.0]\n"


def test_importing_loads_no_compiler() -> None:
    text = "import sys, ftrace, ftrace.numpy\nprint('llvmlite' in sys.modules)"
    assert run(text) == "False\n"


def test_an_unknown_interpreter_has_no_native_calls() -> None:
    text = (
        "from ftrace.devices.llvm.calling import probe\n"
        "probe.VERSIONS = ()\n" + PROGRAM + "print(bool(step._bound), got['a'][0])\n"
    )
    assert run(text) == "False 2.0\n"


@pytest.mark.parametrize("filter", ["default", "error"])
def test_native_code_that_cannot_be_made_is_told_once(filter: str) -> None:
    if probe.offsets() is None:
        pytest.skip("no native calls")
    text = (
        "import warnings\n"
        f"warnings.simplefilter({filter!r})\n"
        "from ftrace.devices.llvm.calling import native\n"
        "native._EXPORTED += ('no_such_function',)\n" + PROGRAM +
        "print(bool(step._bound), got['a'][0])\n"
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True,
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stdout == "False 2.0\n"
    told = 1 if filter == "default" else 0
    assert done.stderr.count("NativeCallsWarning: calls cannot be native") == told
    assert done.stderr.count("no_such_function") >= told


def test_native_code_names_functions_that_every_version_has() -> None:
    places = probe.offsets()
    if places is None:
        pytest.skip("no native calls")
    for immortal in (False, True):
        text = native_ir(places, immortal)
        named = set(re.findall(r"declare [^@]*@(_?Py\w+)\(", text))
        assert "PyObject_VectorcallMethod" in named
        # Private ones come and go: this one is what the public macro Py_DECREF calls.
        assert {name for name in named if name.startswith("_")} == {"_Py_Dealloc"}
        assert all(hasattr(ctypes.pythonapi, name) for name in named)


def test_the_probe_sees_objects_that_lie_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("ITEMS", "DATA", "SHAPE", "DTYPE", "FLAGS", "DEALLOC"):
        with monkeypatch.context() as patch:
            patch.setattr(probe, name, getattr(probe, name) + 8)
            assert probe.offsets() is None


@pytest.mark.parametrize(
    "keys", [["a"], ["b", "a"], [1, 2], [f"k{i}" for i in range(99)]]
)
def test_dicts_of_results_are_their_own(keys: list[Any]) -> None:
    @ft.jit
    def function(x: Any) -> Any:
        return {key: x + i for i, key in enumerate(keys)}

    kept = [function(fnp.asarray(np.float32(n))) for n in range(CALLS)]
    for n, result in enumerate(kept):
        assert list(result) == keys
        assert [float(x) for x in result.values()] == [n + i for i in range(len(keys))]
        assert gc.is_tracked(result)
        result[keys[0]] = None
        result["more"] = 1
        assert len(result) == len(keys) + 1
    assert list(function(fnp.asarray(np.float32(0)))) == keys


def test_dicts_of_results_let_go_of_cycles() -> None:
    function = ft.jit(lambda x: {"x": x + 1})
    held: list[weakref.ref[Any]] = []
    for n in range(CALLS):
        result = function(fnp.asarray(np.float32(n)))
        held.append(weakref.ref(result["x"]))
        result["itself"] = result
    del result
    gc.collect()
    assert all(reference() is None for reference in held)


def test_templates_have_values_where_copies_have_them() -> None:
    if probe.offsets() is None:
        pytest.skip("no native calls")
    for keys in (["a", "b"], [1, "x"], [f"k{i}" for i in range(60)]):
        template, slots = probe.template_of(keys)
        assert len(slots) == len(keys)
        copied = template.copy()
        start = probe.word(id(copied) + probe.KEYS)
        for key, slot in zip(keys, slots, strict=True):
            assert probe.word(start + slot) == id(copied[key])
    assert probe.template_of([]) == ({}, ())

"""What calls do to what is around them: memory that is donated, settings, threads."""

from __future__ import annotations

import gc
import random
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.backends.base import get_device
from tests.support.call_samples import (
    CALLS,
    Pair,
    array,
    expects_native,
    is_native,
)

pytestmark = pytest.mark.usefixtures("calling")

# Donation.


def test_donated_arrays_give_their_memory_and_are_deleted(calling: str) -> None:
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
    assert is_native(step) == expects_native(calling)
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
    # Not "b": all that names it in this process counts.
    values = [x, t, t["b"], x.shape, x.dtype, array, step]
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
    assert allocator.cached >= 20 * size
    allocator.trim()
    assert allocator.cached == 0
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
    assert "of <function" in repr(step)
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
    for _ in range(8):
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

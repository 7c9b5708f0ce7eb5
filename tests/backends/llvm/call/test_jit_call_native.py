"""Calls of jitted functions: native ones and Python's give the same, and never crash.

Every test runs twice: with native calls, where this interpreter has them, and without.
"""

from __future__ import annotations

import gc
import weakref
from collections import OrderedDict, defaultdict
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.backends.llvm.call import object_layout
from ftrace.trace import tiering
from ftrace.trace.arrays.array import Array
from tests.support.call_samples import (
    CALLS,
    SEEN,
    WITH_CODE,
    Checked,
    Pair,
    array,
    expects_native,
    is_native,
)

pytestmark = pytest.mark.usefixtures("calling")

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
def test_trees_come_back_in_their_containers(name: str, calling: str) -> None:
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
    assert is_native(step) == expects_native(calling)
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


def test_arguments_by_name_and_static_ones(calling: str) -> None:
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
    assert is_native(step) == expects_native(calling)


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
def test_numbers_of_python(value: Any, calling: str) -> None:
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
def test_arrays_of_numpy(dtype: str, calling: str) -> None:
    step = ft.jit(lambda x: x + x)
    given = np.arange(6).reshape(2, 3).astype(dtype)
    shapes = [given, np.asfortranarray(given), given[::-1], given.copy(), given[:, :2]]
    for _ in range(CALLS):
        for one in shapes:
            np.testing.assert_array_equal(step(one), one + one)
    assert is_native(step) == expects_native(calling)


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


@pytest.mark.parametrize("kind", WITH_CODE)
def test_code_in_a_container_sees_values_only(kind: Any) -> None:
    given = kind(array(1), array(2))
    parts, doubled = ft.jit(lambda t: tuple(t)), ft.jit(lambda x: kind(x, x * 2))
    found = [[x.tolist() for x in parts(given)] for _ in range(CALLS)]
    assert found == found[:1] * CALLS
    made = [doubled(array(1)) for _ in range(CALLS)]
    assert {type(x) for x in made} == {kind}
    assert [[x.tolist() for x in t] for t in made] == [list(map(list, made[0]))] * CALLS
    assert type(ft.vmap(lambda t: t)(given)) is kind


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


# Results in dicts.


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
    if object_layout.offsets() is None:
        pytest.skip("no native calls")
    for keys in (["a", "b"], [1, "x"], [f"k{i}" for i in range(60)]):
        template, slots = object_layout.template_of(keys)
        assert len(slots) == len(keys)
        copied = template.copy()
        start = object_layout.word(id(copied) + object_layout.KEYS)
        for key, slot in zip(keys, slots, strict=True):
            assert object_layout.word(start + slot) == id(copied[key])
    assert object_layout.template_of([]) == ({}, ())


def test_results_of_eager_calls_are_given_to_native_ones(
    calling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, x = ft.jit(lambda x, y: (x * 2, y)), array(1, 2, 3)
    turned = fnp.stack([x, x + 1, x * 3]).T
    for _ in range(CALLS + tiering.CALLS_BEFORE_RECORD):
        for given in (x + x, turned * 2, turned):
            got, same = step(given, given)
            np.testing.assert_array_equal(got, np.asarray(given) * 2)
            np.testing.assert_array_equal(same, given)
    outer = np.arange(3, dtype=np.float32) * np.ones((2, 1), np.float32)
    seen = fnp.asarray(outer)
    views = ft.jit(lambda x, y: (x.reshape(3, 2), x[None], seen[:, None], y.view("i4")))
    for _ in range(CALLS + tiering.CALLS_BEFORE_RECORD):
        given = seen + seen
        wanted = given.reshape(3, 2), given[None], seen[:, None], given.view("i4")
        for got, value in zip(views(given, given), wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(got), np.asarray(value))
            assert np.shape(np.asarray(got)) == got.shape == value.shape
    if expects_native(calling):
        eager = x + x
        monkeypatch.setattr(type(step), "plain_call", None)
        np.testing.assert_array_equal(step(eager, eager)[0], eager + eager)

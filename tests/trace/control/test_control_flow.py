"""Loops and branches: JAX's values, finite differences, Python's own loops."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.errors import (
    ArgumentError,
    AxisError,
    DtypeError,
    ShapeError,
    TreeError,
    ValueRangeError,
)
from ftrace.lower.program import RunLoop
from ftrace.test_util import check_grads
from tests.data.control_cases import CASES, XS, W, X
from tests.support.control_programs import Compiled, Program, Unrolled, programs
from tests.support.covering import covering

RECORDED = np.load(Path(__file__).parents[2] / "data" / "control.npz")
DEVICES = ("cpu", "interpreter", "opencl")


@covering(1, name=CASES, device=DEVICES)
def test_values_are_jaxs(name: str, device: Any) -> None:
    leaves = ft.tree.leaves(CASES[name](ft))
    wanted = [v for k, v in RECORDED.items() if k.rsplit("/", 1)[0] == name]
    assert len(leaves) == len(wanted)
    for got, want in zip(leaves, wanted, strict=True):
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", CASES)
def test_evaluation_without_a_program_agrees(name: str) -> None:
    with ft.config(disable_jit=True):
        leaves = ft.tree.leaves(CASES[name](ft))
    wanted = [v for k, v in RECORDED.items() if k.rsplit("/", 1)[0] == name]
    for got, want in zip(leaves, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)


# Random programs, three deep, against Python's own loops.

WEIGHTS = np.array([1.0, 2.0, 3.0], np.float32)
STARTS = ([0.3, -0.6, 0.8], [1.2, 0.1, -0.4], [0.0, 0.9, 0.5])


def head(program: Program, names: Any) -> Callable[[Any], Any]:
    f = program(names)
    return lambda x: fnp.sum(f(x) * WEIGHTS)


@settings(max_examples=4, suppress_health_check=list(HealthCheck))
@given(program=programs(3), start=st.sampled_from(STARTS))
def test_random_programs(program: Program, start: list[float]) -> None:
    x = fnp.array(start)
    want = program(Unrolled)(x)
    slope = ft.grad(head(program, Unrolled))(x)
    for device in DEVICES:
        with ft.config(device=device):
            f = head(program, Compiled)
            got = ft.jit(program(Compiled))(start_of(x))
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)
            gradient = ft.jit(ft.grad(f))(start_of(x))
            np.testing.assert_allclose(gradient, slope, rtol=2e-3, atol=2e-4)
            _, along = ft.jit(lambda x: ft.jvp(f, (x,), (fnp.ones(3),)))(start_of(x))  # noqa: B023
            np.testing.assert_allclose(along, np.sum(slope), rtol=2e-3, atol=2e-3)


def start_of(x: Any) -> Any:
    return np.asarray(x)


@pytest.mark.parametrize("lanes", [False, True])
def test_values_that_loops_remember_have_several_cotangents(lanes: bool) -> None:
    """The third derivative of a while adds cotangents of stacks, lane by lane, too."""

    def derived(k: Any) -> Any:
        def run(x: Any) -> Any:
            return k.while_loop(
                lambda s: (s[0] < 4) & (fnp.sum(s[1] * s[1]) < 3.0),
                lambda s: (s[0] + 1, fnp.sin(s[1] * 0.5) * 0.7 + x * 0.5),
                (0, x),
            )[1]

        def total(x: Any) -> Any:
            return fnp.sum(run(x) * WEIGHTS)

        third = ft.grad(
            lambda x: fnp.sum(ft.grad(lambda y: fnp.sum(ft.grad(total)(y)))(x))
        )
        return k.vmap(third) if lanes else third

    x = fnp.array([[0.3, -0.6, 0.8], [1.2, 0.1, -0.4]] if lanes else [0.3, -0.6, 0.8])
    want = derived(Unrolled)(x)
    assert np.abs(want).max() > 0.01
    for function in (derived(Compiled), ft.jit(derived(Compiled))):
        np.testing.assert_allclose(function(x), want, rtol=1e-4, atol=1e-6)


# Finite differences, in both modes and twice.

SMOOTH: dict[str, Callable[[Any, Any], Any]] = {
    "scan": lambda x, w: lax.scan(
        lambda c, e: (fnp.tanh(c @ w + e), c * e), x, fnp.stack([x, x * 2, -x])
    ),
    "fori": lambda x, w: lax.fori_loop(0, 3, lambda i, c: fnp.sin(c @ w) * x, x),
    "while": lambda x, w: lax.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, fnp.sin(s[1] @ w) + x), (0, x)
    )[1],
    "cond": lambda x, w: lax.cond(
        x[0] > 0, lambda: fnp.sin(x) @ w, lambda: fnp.cos(x) * x[1]
    ),
    "switch": lambda x, w: lax.switch(
        1, [lambda y: y, lambda y: fnp.exp(y * 0.1) @ w, lambda y: y * y], x
    ),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_finite_differences(name: str) -> None:
    with ft.config(enable_x64=True):
        arguments = (X.astype(np.float64), W.astype(np.float64))
        check_grads(SMOOTH[name], arguments, order=2, modes=("fwd", "rev"))


def test_reverse_mode_of_a_long_while() -> None:
    def f(x: Any) -> Any:
        step = lambda s: (s[0] + 1, s[1] * x)  # noqa: E731
        return lax.while_loop(lambda s: s[0] < 20_000, step, (0, 1.0))[1]

    x = 1.0001
    want = 20_000 * x**19_999
    np.testing.assert_allclose(ft.grad(f)(x), want, rtol=5e-3)


def test_the_condition_of_a_while_may_hold_loops() -> None:
    def root(n: Any) -> Any:
        found = lax.while_loop(lambda c: c * c < n, lambda c: c + 1, 0)
        return lax.fori_loop(0, 3, lambda i, x: x + 0 * i, found)

    def first(n: Any) -> Any:
        return lax.while_loop(lambda c: root(c) < n, lambda c: c + 1, 0)

    assert [int(ft.jit(first)(n)) for n in (4, 5)] == [10, 17]


def test_derivatives_of_whiles_in_lanes_of_lanes_are_those_of_each() -> None:
    """The stacks of lanes, which end apart, are read as they were written."""
    ys = np.linspace(-1, 1, 2 * 3 * 2 * 4, dtype=np.float32).reshape(2, 3, 2, 4)
    w = np.linspace(0.2, 1, 4, dtype=np.float32)

    def until(w: Any, y: Any) -> Any:
        holds = lambda c: (c**2).sum() < 40  # noqa: E731
        return lax.while_loop(holds, lambda c: c * 1.3 + w + y, w + y).sum()

    every = grad = ft.grad(until, (0, 1))
    for _ in range(3):
        every = ft.vmap(every, (None, 0))
    for found, i in ((found, i) for found in (every, ft.jit(every)) for i in (0, 1)):
        got = found(w, ys)[i]
        for place in np.ndindex(2, 3, 2):
            wanted = grad(w, ys[place])[i]
            np.testing.assert_allclose(got[place], wanted, rtol=1e-5)


def test_a_function_from_vjp_pulls_back_through_a_while() -> None:
    def f(x: Any) -> Any:
        step = lambda s: (s[0] + 1, fnp.sin(s[1] * x))  # noqa: E731
        return lax.while_loop(lambda s: s[0] < 4, step, (0, x))[1]

    y, pull = ft.vjp(f, X)
    np.testing.assert_allclose(y, f(X), rtol=1e-6)
    np.testing.assert_allclose(
        pull(np.ones(3, np.float32))[0], ft.grad(lambda x: f(x).sum())(X), rtol=1e-5
    )


# What runs, and how often.


def test_only_the_chosen_branch_runs() -> None:
    ran: list[str] = []

    def noted(name: str) -> Callable[[], Any]:
        def branch() -> Any:
            ft.debug.callback(lambda: ran.append(name))
            return 1.0

        return branch

    choose = ft.jit(lambda p: lax.cond(p, noted("yes"), noted("no")))
    choose(True), choose(False), choose(False)
    assert ran == ["yes", "no", "no"]
    ran.clear()
    ft.vmap(choose)(np.array([True, False, True]))
    assert ran == ["yes", "no", "yes"]


@pytest.mark.parametrize("device", DEVICES)
def test_a_lane_that_would_never_end_is_not_asked_to(device: str) -> None:
    def f(x: Any) -> Any:
        halved = lambda: lax.while_loop(lambda y: y > 1, lambda y: y / 2, x)  # noqa: E731
        return lax.cond(fnp.isfinite(x), halved, lambda: x)

    with ft.config(device=device):
        got = ft.vmap(f)(np.array([8.0, np.inf, 3.0], np.float32))
    np.testing.assert_array_equal(got, [1.0, np.inf, 0.75])


@pytest.mark.parametrize("device", DEVICES)
def test_a_branch_that_divides_by_zero_does_not_hurt(device: str) -> None:
    def f(x: Any) -> Any:
        return lax.cond(x == 0, lambda: 0.0, lambda: fnp.sqrt(x) / x)

    def g(n: Any) -> Any:
        return lax.cond(n == 0, lambda: 7, lambda: 100 // n)

    x = np.array([0.0, 4.0, 0.25], np.float32)
    with ft.config(device=device):
        np.testing.assert_array_equal(ft.vmap(f)(x), [0.0, 0.5, 2.0])
        slopes = ft.vmap(ft.grad(f))(x)
        np.testing.assert_array_equal(ft.vmap(g)(np.array([0, 3, 50])), [7, 33, 2])
    np.testing.assert_allclose(slopes, [0.0, -0.0625, -4.0], rtol=1e-5)


def test_what_is_the_same_in_each_iteration_is_stored_once() -> None:
    big = np.ones((128, 128), np.float32)

    def loss(w: Any, x: Any) -> Any:
        step = lambda c, _: (fnp.sin(c @ fnp.exp(w)), None)  # noqa: E731
        return lax.scan(step, x, None, length=50)[0].sum()

    program = ft.jit(ft.grad(loss)).lower(big, big[:4]).program
    # Fifty states of four rows, the few arrays of the size of w, and no fifty of these.
    assert program.arena < 50 * 4 * 128 * 4 * 6 + 8 * big.nbytes


def test_checkpoint_in_a_scan_keeps_the_carry_only() -> None:
    def loss(wrap: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            for _ in range(6):
                c = fnp.sin(c * x) + fnp.cos(c)
            return c, None

        return lambda c, xs: lax.scan(wrap(step), c, xs)[0].sum()

    xs = np.ones((64, 1000), np.float32)
    arenas = [
        ft.jit(ft.grad(loss(wrap))).lower(xs[0], xs).program.arena
        for wrap in (lambda f: f, ft.checkpoint)
    ]
    assert arenas[1] < arenas[0] / 4


def test_forward_mode_stores_nothing() -> None:
    def f(x: Any) -> Any:
        step = lambda c, _: (fnp.sin(c * x), None)  # noqa: E731
        return lax.scan(step, x, None, length=1000)[0]

    x = np.ones(1000, np.float32)
    program = ft.jit(lambda x: ft.jvp(f, (x,), (x,))).lower(x).program
    assert sum(isinstance(s, RunLoop) for s in program.steps) <= 1
    assert program.arena < 100 * x.nbytes


def test_a_loop_is_traced_once() -> None:
    count = 0

    def step(i: Any, c: Any) -> Any:
        nonlocal count
        count += 1
        return c * 0.5 + i

    f = ft.jit(lambda x: lax.fori_loop(0, 1000, step, x))
    f(X), f(X), f(-X)
    assert count == 1


def test_the_text_of_a_graph_shows_the_bodies() -> None:
    text = str(ft.make_graph(lambda x: lax.fori_loop(0, 9, lambda i, c: c * x, x))(X))
    assert "scan[length=9" in text
    assert "mul" in text


# Mistakes.


def _scan(f: Any, init: Any = X, **kw: Any) -> Any:
    return lax.scan(f, init, XS, **kw)


MISTAKES: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "carry loses a leaf": (
        TreeError, r"structure, but carry is missing",
        lambda: _scan(lambda c, x: ((), x)),
    ),
    "carry gets another leaf": (
        TreeError, r"carry\['b'\] is missing; carry\['c'\]\[0\] is new",
        lambda: _scan(lambda c, x: ({"a": x, "c": [x]}, x), {"a": X, "b": X}),
    ),
    "no pair": (TreeError, r"must return a pair", lambda: _scan(lambda c, x: c)),
    "carry changes its shape": (
        ShapeError, r"carry\['h'\] of type f32\[3\] became f32\[\]",
        lambda: _scan(lambda c, x: ({"h": x.sum()}, x), {"h": X}),
    ),
    "carry changes its dtype": (
        DtypeError, r"carry of type f32\[3\] became i32\[3\]",
        lambda: _scan(lambda c, x: (c.astype(int), x)),
    ),
    "lengths differ": (
        ArgumentError, r"3 \(length\)", lambda: _scan(lambda c, x: (c, x), length=3),
    ),
    "no length": (
        ArgumentError, r"got none", lambda: lax.scan(lambda c, x: (c, x), X),
    ),
    "scan over a scalar": (
        AxisError, r"leading axis", lambda: lax.scan(lambda c, x: (c, x), X, 1.0),
    ),
    "length is traced": (
        ft.errors.ConcretizationTypeError, r"not known while tracing",
        lambda: ft.jit(lambda n: lax.scan(lambda c, x: (c, x), X, None, n))(3),
    ),
    "while changes its carry": (
        ShapeError, r"carry\[1\] of type f32\[3\] became f32\[6\]",
        lambda: lax.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, fnp.tile(c[1], 2)), (0, X)
        ),
    ),
    "predicate is a vector": (
        DtypeError, r"scalar bool, got bool\[3\]",
        lambda: lax.while_loop(lambda c: c > 0, lambda c: c, X),
    ),
    "predicate is a number": (
        DtypeError, r"scalar bool, got f32\[\]",
        lambda: lax.while_loop(lambda c: c.sum(), lambda c: c, X),
    ),
    "pred of cond is a vector": (
        ShapeError, r"must be a scalar, got bool\[3\]",
        lambda: lax.cond(X > 0, lambda: 1, lambda: 2),
    ),
    "branches of different structure": (
        TreeError, r"same structure", lambda: lax.cond(True, lambda: X, lambda: (X, X)),
    ),
    "branches of different shapes": (
        ShapeError, r"f32\[3\]", lambda: lax.cond(True, lambda: X, lambda: X[:2]),
    ),
    "branches of different dtypes": (
        DtypeError, r"i32\[3\]",
        lambda: lax.cond(True, lambda: X, lambda: fnp.zeros(3, "int32")),
    ),
    "no branches": (ArgumentError, r"at least one", lambda: lax.switch(0, [])),
    "index is a float": (
        DtypeError, r"must be an integer",
        lambda: lax.switch(1.5, [lambda: 1, lambda: 2]),
    ),
    "bounds of two kinds": (
        DtypeError, r"integers, or both floats, got i32~\[\] and f32~",
        lambda: lax.fori_loop(0, 2.5, lambda i, c: c, X),
    ),
    "bound is infinite": (
        ArgumentError, r"finite, got inf",
        lambda: lax.fori_loop(0.0, np.inf, lambda i, c: c, X),
    ),
    "no function": (ArgumentError, r"function", lambda: lax.cond(True, 1, 2)),
    "batch size of zero": (
        ValueRangeError, r"least 0", lambda: lax.map(lambda x: x, XS, batch_size=-1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_name_what_and_where(name: str) -> None:
    error, pattern, call = MISTAKES[name]
    with pytest.raises(error) as info:
        call()
    assert re.search(pattern, str(info.value)), str(info.value)
    assert Path(__file__).name in str(info.value)


def test_python_may_not_ask_for_a_value_in_a_body() -> None:
    with pytest.raises(ft.errors.TracerBoolConversionError, match="scan"):
        lax.scan(lambda c, x: (c if x[0] > 0 else -c, x), X, XS)


def test_a_value_of_a_body_must_not_escape() -> None:
    kept: list[Any] = []

    def step(c: Any, x: Any) -> Any:
        kept.append(c)
        return c + x, x

    lax.scan(step, X, XS)
    with pytest.raises(ft.errors.UnexpectedTracerError, match="scan"):
        kept[0] + 1


# Arguments as JAX takes them.


def test_operands_by_name_and_in_the_older_order() -> None:
    yes, no = (lambda x: (1, x)), (lambda x: (2, x))
    assert lax.cond(True, yes, no, operand=None) == (1, None)
    assert lax.cond(pred=False, true_fun=yes, false_fun=no, operand=3) == (2, 3)
    assert lax.switch(1, [yes, no], operand=None) == (2, None)
    with pytest.raises(ArgumentError, match="ellipsis"):
        lax.cond(True, yes, no, operand=...)
    assert lax.cond(True, 5.0, yes, 6.0, no) == (1, 5.0)
    assert lax.cond(False, 5.0, yes, 6.0, no) == (2, 6.0)
    assert lax.scan(lambda c, x: [c + x, None], 0.0, X)[1] is None


@pytest.mark.parametrize("dtype", ["int8", "uint16", "bfloat16"])
def test_a_counter_of_python_numbers_takes_any_dtype(dtype: str) -> None:
    zeros = fnp.zeros(2, dtype)
    add = lambda i, c: c + i  # noqa: E731
    assert lax.fori_loop(0, 5, add, zeros).dtype == dtype
    assert ft.jit(lambda n: lax.fori_loop(0, n, add, zeros))(5).dtype == dtype
    assert lax.fori_loop(np.int32(0), np.int32(5), add, zeros).dtype == dtype
    with pytest.raises(DtypeError, match="keep its dtype"):
        ft.jit(lambda n: lax.fori_loop(0, n, add, fnp.zeros(2, "int8")))(np.int32(5))


def test_float_bounds_count_as_in_jax() -> None:
    add = lambda i, c: c + i  # noqa: E731
    for lower, upper, known, traced in (0.0, 3.0, 4.0, 4.0), (0.5, 3.0, 4.0, 5.5):
        assert lax.fori_loop(lower, upper, add, 1.0) == known
        assert ft.jit(lambda n, m: lax.fori_loop(n, m, add, 1.0))(lower, upper) == (
            traced
        )
    assert lax.fori_loop(np.float32(0), np.float16(3), lambda i, c: i, 0).dtype == "i4"


def test_a_negative_unroll_is_refused() -> None:
    with pytest.raises(ArgumentError, match="unroll must not be negative, got -1"):
        lax.scan(lambda c, x: (c + x, c), 0.0, X, unroll=-1)


@pytest.mark.parametrize("device", DEVICES)
def test_the_gradient_of_gradients_of_lanes_that_differ_in_length(device: str) -> None:
    def head(x: Any) -> Any:
        step = lambda c: fnp.sin(c) * c + c  # noqa: E731
        return lax.while_loop(lambda c: (c**2).sum() < 9, step, x).sum()

    def squares(x: Any) -> Any:
        return (ft.grad(head)(x) ** 2).sum()

    xs = np.stack([X, X * 0.4, X * 9])
    with ft.config(device=device):
        want = np.stack([ft.grad(squares)(x) for x in xs])
        whole = lambda xs: (ft.vmap(ft.grad(head))(xs) ** 2).sum()  # noqa: E731
        np.testing.assert_allclose(ft.jit(ft.grad(whole))(xs), want, rtol=1e-4)


def test_loops_and_branches_are_of_python_under_disable_jit() -> None:
    seen: list[float] = []

    def step(c: Any, x: Any) -> tuple[Any, Any]:
        seen.append(float(c))  # a value, not a tracer
        return c + x, c * x

    def programs() -> list[Any]:
        x = fnp.arange(4.0)
        return [
            lax.map(lambda x: x * 2, x),
            lax.fori_loop(1, 4, lambda i, v: v.at[i].set(i * v[i - 1]), x + 1),
            lax.while_loop(lambda v: v[0] < 10, lambda v: (v[0] * 2, v[1] + 1), (1, 0)),
            lax.switch(7, [fnp.sin, fnp.cos], 2.0),
            lax.cond(x[1] > 0, fnp.sin, fnp.cos, 2.0),
            # What is traced stays a loop of the graph.
            ft.grad(lambda y: lax.fori_loop(0, 3, lambda i, v: v * y, y))(2.0),
            ft.grad(lambda y: lax.while_loop(lambda v: v < y, lambda v: v + y, y))(2.0),
            ft.vmap(lambda p, y: lax.cond(p, fnp.sin, fnp.cos, y))(x > 1, x),
        ]

    want = programs()
    with ft.disable_jit():
        for a, b in zip(want, programs(), strict=True):
            ft.tree.map(partial(np.testing.assert_allclose, rtol=1e-6), a, b)
        carry, ys = lax.scan(step, 1.0, fnp.arange(4.0), reverse=True)
        count = len(seen)
        lax.cond(True, lambda: seen.append(0.0), lambda: seen.append(1.0))
        assert lax.scan(lambda c, x: (c, x), 1.0, fnp.zeros(0))[1].shape == (0,)
    assert float(carry) == 7
    assert ys.tolist() == [0, 6, 8, 3]
    assert (seen, count) == ([1.0, 4.0, 6.0, 7.0, 0.0], 4)


def test_a_map_in_batches_of_0_is_one_vmap() -> None:
    for n in (0, 3):
        found = lax.map(fnp.sin, fnp.arange(float(n)), batch_size=0)
        np.testing.assert_array_equal(found, np.sin(np.arange(float(n), dtype="f")))


@pytest.mark.parametrize("run", [lambda f: f, ft.jit])
def test_bodies_see_the_values_of_what_is_known_around_them(run: Any) -> None:
    def count_to(x: Any, most: Any) -> Any:
        def step(c: Any) -> Any:
            assert most > 0
            return c + int(most)

        return lax.while_loop(lambda c: c < 5, step, x)

    repeat = ft.jit(fnp.repeat, static_argnums=1)
    twice = run(lambda x: ft.vmap(repeat, (0, None))(x, 2))(fnp.eye(2))
    assert twice.shape == (2, 4)
    many = run(lambda x: ft.vmap(count_to, (0, None))(x, 8))
    assert many(fnp.arange(7)).tolist() == [8, 9, 10, 11, 12, 5, 6]
    with pytest.raises(ft.errors.TracerBoolConversionError):
        ft.jit(count_to)(0, 8)
    with pytest.raises(ft.errors.TracerBoolConversionError):
        ft.vmap(count_to)(fnp.arange(2), fnp.arange(2))


def test_a_body_takes_equal_constants_once() -> None:
    @ft.jit
    def f(x: Any) -> Any:
        a, b = fnp.zeros(3), fnp.zeros(3)
        step = lambda c: c + 1 + a * c + b.at[0].set(2.0) * c  # noqa: E731
        return lax.while_loop(lambda c: c.sum() < 5, step, x)

    assert f(fnp.ones(3)).tolist() == [4, 2, 2]

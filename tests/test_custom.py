"""Functions with rules of their own: custom_jvp, custom_vjp, custom_vmap and kin."""

from __future__ import annotations

import gc
import re
import sys
import threading
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
from ftrace.trace.graph import interned_count
from ftrace.trace.tracer import Tracer

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


# What JAX refuses, or has no value for.


def test_forward_over_reverse_needs_no_rule_for_values_that_are_not_used() -> None:
    """JAX refuses these where the forward rule calls the function itself."""
    f = scaled(ft, fnp)
    x, y = fnp.arange(3.0), fnp.linspace(1.0, 2.0, 3)
    forward = ft.jacfwd(ft.jacrev(f, 1), 1)(x, y)
    np.testing.assert_allclose(forward, np.diag(-3 * x * np.sin(y)), rtol=1e-5)
    _, moved = ft.jvp(ft.grad(f), (x, y), (x, y))
    np.testing.assert_allclose(moved, 2 * np.cos(y) * np.asarray(y), rtol=1e-5)


def test_rules_may_use_values_of_a_function_that_has_returned(device: str) -> None:
    def outer(x: Any, a: Any) -> Any:
        b = a * 2

        @ft.custom_jvp
        def f(x: Any) -> Any:
            return b * x

        f.defjvp(lambda p, t: (f(p[0]), 7 * b * t[0]))

        @ft.custom_vjp
        def g(x: Any) -> Any:
            return fnp.sin(x)

        g.defvjp(lambda x: (g(x), x), lambda r, ct: (ct * b * r,))
        return g(f(x))

    expected = 6.0 * 3.0 * 42.0
    assert float(ft.grad(outer)(0.5, 3.0)) == expected
    assert float(ft.jit(ft.grad(outer))(0.5, 3.0)) == expected
    lanes = ft.vmap(ft.grad(outer), (None, 0))(0.5, fnp.array([3.0, 1.0]))
    np.testing.assert_allclose(lanes, [expected, 2.0 * 1.0 * 14.0])


def test_derivatives_of_a_rule_reach_what_it_closes_over() -> None:
    def outer(a: Any) -> Any:
        @ft.custom_jvp
        def f(x: Any) -> Any:
            return fnp.sin(x)

        f.defjvp(lambda p, t: (f(p[0]), a * a * t[0]))
        return ft.grad(f)(1.0)

    assert float(ft.grad(outer)(3.0)) == 6.0


def test_rules_may_use_methods_and_attributes() -> None:
    class Model:
        def __init__(self, scale: Any) -> None:
            self.scale = scale

        @partial(ft.custom_vjp, nondiff_argnums=(0,))
        def apply(self, x: Any) -> Any:
            return self.scale * x

        def forward(self, x: Any) -> Any:
            return self.apply(x), None

        def backward(self, _: Any, ct: Any) -> Any:
            return (ct * self.scale * 10,)

        apply.defvjp(forward, backward)

    assert float(ft.grad(Model(fnp.array(3.0)).apply)(2.0)) == 30.0
    traced = ft.grad(lambda s, x: Model(ft.lax.stop_gradient(s)).apply(x), 1)
    assert float(traced(4.0, 2.0)) == 40.0
    assert float(ft.jit(traced)(4.0, 2.0)) == 40.0


def test_residuals_may_be_any_values() -> None:
    @ft.custom_vjp
    def f(x: Any) -> Any:
        return x.sum()

    f.defvjp(
        lambda x: (f(x), ("sum", x.shape, 2)),
        lambda r, ct: (fnp.full(r[1], ct * r[2]) if r[0] == "sum" else None,),
    )
    np.testing.assert_array_equal(ft.grad(f)(fnp.ones(3)), [2, 2, 2])


def test_python_may_ask_for_values_in_the_function() -> None:
    @ft.custom_jvp
    def f(x: Any) -> Any:
        return x * 2 if x > 0 else x * 3

    f.defjvp(lambda p, t: (f(p[0]), t[0] * 5))
    assert float(ft.grad(f)(-1.0)) == 5.0
    assert float(ft.value_and_grad(f)(-1.0)[0]) == -3.0

    kept = ft.checkpoint(lambda x: x * 2 if x > 0 else x * 3)
    assert float(ft.grad(kept)(-1.0)) == 3.0


def test_arrays_that_rules_use_are_not_traced_again() -> None:
    """A rule over a new array each time does not compile each time."""
    from ftrace.transforms import execute

    def gradient(scale: float) -> float:
        weights = fnp.full(3, scale)

        @ft.custom_vjp
        def f(x: Any) -> Any:
            return x.sum()

        f.defvjp(lambda x: (f(x), None), lambda _, ct: (ct * weights,))
        return float(ft.grad(f)(fnp.ones(3))[0])

    assert gradient(2.0) == 2.0
    before = len(execute._cache)  # pyright: ignore[reportPrivateUsage]
    assert [gradient(3.0), gradient(4.0)] == [3.0, 4.0]
    assert len(execute._cache) == before  # pyright: ignore[reportPrivateUsage]


def test_arrays_held_in_the_bodies_of_loops(device: str) -> None:
    where: dict[str, Any] = {"weights": fnp.arange(1.0, 4.0)}

    @ft.custom_vjp
    def f(x: Any) -> Any:
        return fnp.sin(x)

    def backward(x: Any, ct: Any) -> Any:
        return (ct * fnp.cos(x) * ft.tree.leaves(where)[0],)

    f.defvjp(lambda x: (f(x), x), backward)

    def scanned(x: Any) -> Any:
        return lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0].sum()

    def branched(x: Any) -> Any:
        return lax.cond(x[0] > 0, f, lambda v: v, x).sum()

    x = np.array([0.5, 0.6, 0.7])
    w = np.arange(1.0, 4.0)
    expected = w * np.cos(np.sin(x)) * w * np.cos(x)
    np.testing.assert_allclose(ft.grad(scanned)(fnp.array(x)), expected, rtol=1e-5)
    np.testing.assert_allclose(
        ft.grad(branched)(fnp.array(x)), w * np.cos(x), rtol=1e-5
    )


def test_effects_in_functions_and_rules(capsys: pytest.CaptureFixture[str]) -> None:
    @ft.custom_vjp
    def f(x: Any) -> Any:
        ft.debug.print("function {}", x)
        return x * 2

    def forward(x: Any) -> Any:
        ft.debug.print("forward {}", x)
        return x * 2, None

    def backward(_: Any, ct: Any) -> Any:
        ft.debug.print("backward {}", ct)
        return (ct * 3,)

    f.defvjp(forward, backward)
    ft.jit(f)(1.0)
    assert capsys.readouterr().out.split("\n")[0] == "function 1.0"
    ft.jit(ft.value_and_grad(lambda x: f(x) ** 2))(1.0)
    assert capsys.readouterr().out.split("\n")[:-1] == ["forward 1.0", "backward 4.0"]


def test_a_function_without_a_rule_runs_but_has_no_derivative() -> None:
    f = ft.custom_jvp(lambda x: x * 2)
    g = ft.custom_vjp(lambda x: x * 2)
    assert float(f(2.0)) == float(ft.jit(g)(2.0)) == 4.0
    with pytest.raises(DerivativeError, match=r"without a rule.*defjvp"):
        ft.grad(f)(1.0)
    with pytest.raises(DerivativeError, match=r"without a rule.*defvjp\(fwd, bwd\)"):
        ft.grad(g)(1.0)


@pytest.mark.parametrize("kind", [ft.custom_jvp, ft.custom_vjp])
@pytest.mark.parametrize("inner", [lambda f: f, ft.jit])
@pytest.mark.parametrize(
    "derivative",
    [
        lambda f: ft.grad(f)(1.0),
        lambda f: ft.jit(ft.grad(f))(1.0),
        lambda f: ft.vjp(f, 1.0),
        lambda f: ft.jvp(f, (1.0,), (1.0,)),
        lambda f: ft.linearize(f, 1.0),
        lambda f: ft.jacrev(f)(1.0),
    ],
)
def test_a_function_without_a_rule_is_refused_in_a_derivative_of_others(
    kind: Any, inner: Any, derivative: Any
) -> None:
    f = kind(lambda x: x * 2)
    with pytest.raises(DerivativeError, match="without a rule"):
        derivative(lambda x: x * inner(f)(3.0))


def test_forward_mode_of_a_vjp_rule_says_so() -> None:
    f = scaled(ft, fnp)
    x = fnp.ones(3)
    for attempt in (
        lambda: ft.jvp(f, (x, x), (x, x)),
        lambda: ft.jacfwd(f)(x, x),
        lambda: ft.jit(lambda x: ft.jvp(f, (x, x), (x, x))[1])(x),
        lambda: ft.linearize(f, x, x)[1](x, x),
    ):
        with pytest.raises(DerivativeError, match="reverse mode only"):
            attempt()


def test_what_a_function_closes_over_has_no_derivative() -> None:
    def outer(a: Any) -> Any:
        f = ft.custom_jvp(lambda x: a * x)
        f.defjvp(lambda p, t: (f(p[0]), a * t[0]))
        return f(1.0)

    with pytest.raises(DerivativeError, match=r"closes over.*argument"):
        ft.grad(outer)(2.0)


def test_a_traced_value_that_is_not_found_is_named() -> None:
    hidden: Any = None

    class Slotted:
        __slots__ = ("value",)

    def outer(x: Any) -> Any:
        nonlocal hidden
        hidden = Slotted()
        hidden.value = x * 2
        f = ft.custom_jvp(lambda x: x)
        f.defjvp(lambda p, t: (p[0], t[0] * hidden.value))
        return f(x)

    assert float(ft.grad(outer)(2.0)) == 4.0  # the rule runs at once
    with pytest.raises(UnexpectedTracerError):
        ft.jit(ft.grad(outer))(2.0)


# Rules that return something else.


def jvp_returning(answer: Any, wrap: Any = lambda f: f) -> Any:
    f = ft.custom_jvp(lambda x: {"a": fnp.sin(x), "b": x})
    f.defjvp(lambda p, t: answer(p[0], t[0]))
    return wrap(lambda: ft.jvp(f, (fnp.ones(3),), (fnp.ones(3),)))


def test_results_of_a_jvp_rule_are_checked() -> None:
    x = fnp.ones(3)
    with pytest.raises(ArgumentError, match="must return a pair"):
        jvp_returning(lambda x, t: {"a": x, "b": x})()
    with pytest.raises(TreeError, match=r"results of the jvp rule.*expected.*'a'.*got"):
        jvp_returning(lambda x, t: (x, t), ft.jit)()
    with pytest.raises(TreeError, match="tangents of the jvp rule"):
        jvp_returning(lambda x, t: ({"a": x, "b": x}, t))()
    with pytest.raises(ShapeError) as caught:
        jvp_returning(lambda x, t: ({"a": x, "b": x}, {"a": t, "b": t.sum()}))()
    message = str(caught.value)
    assert "['b']" in message
    assert "expected f32[3]" in message
    assert "got f32[]" in message
    assert "test_custom.py" in message
    with pytest.raises(DtypeError, match=r"\['a'\]: expected f32\[3\].*got i32"):
        jvp_returning(
            lambda x, t: ({"a": x.astype(int), "b": x}, {"a": t, "b": t}), ft.jit
        )()
    with pytest.raises(DerivativeError, match="depends on the tangents"):
        jvp_returning(lambda x, t: ({"a": x * t, "b": x}, {"a": t, "b": t}), ft.jit)()
    jvp_returning(lambda x, t: ({"a": x, "b": x}, {"a": t, "b": t}))()
    del x


def vjp_returning(forward: Any, backward: Any, wrap: Any = lambda f: f) -> Any:
    f = ft.custom_vjp(lambda x, y: (x * y["k"]).sum())
    f.defvjp(forward, backward)
    return lambda: wrap(ft.grad(f, (0, 1)))(fnp.ones(3), {"k": fnp.ones(3)})


def test_results_of_a_vjp_rule_are_checked() -> None:
    def good(x: Any, y: Any) -> Any:
        return (x * y["k"]).sum(), None

    vjp_returning(good, lambda r, ct: (ct * fnp.ones(3), {"k": ct * fnp.ones(3)}))()
    vjp_returning(good, lambda r, ct: [None, {"k": None}])()
    vjp_returning(good, lambda r, ct: (None, None))()
    with pytest.raises(ArgumentError, match=r"fwd rule.*must return a pair"):
        vjp_returning(lambda x, y: x.sum(), lambda r, ct: (None, None))()
    with pytest.raises(ShapeError, match=r"fwd rule.*expected f32\[\].*got f32\[3\]"):
        vjp_returning(lambda x, y: (x, None), lambda r, ct: (None, None), ft.jit)()
    for wrong in (
        lambda r, ct: ct,
        lambda r, ct: None,
        lambda r, ct: (ct,),
        lambda r, ct: (fnp.ones(3), {"j": fnp.ones(3)}),
        lambda r, ct: (fnp.ones(3), fnp.ones(3)),
    ):
        with pytest.raises(TreeError, match=r"bwd rule.*a cotangent per argument"):
            vjp_returning(good, wrong)()
    with pytest.raises(ShapeError) as caught:
        vjp_returning(good, lambda r, ct: (ct * fnp.ones(3), {"k": fnp.ones(2)}))()
    message = str(caught.value)
    assert "[1]['k']" in message
    assert "expected f32[3]" in message
    assert "got f32[2]" in message
    assert "test_custom.py" in message
    with pytest.raises(DtypeError, match=r"\[0\]: expected f32\[3\].*got i32"):
        vjp_returning(good, lambda r, ct: (fnp.arange(3), None))()


def test_results_of_a_vmap_rule_are_checked() -> None:
    def f_with(rule: Any) -> Any:
        f = ft.custom_batching.custom_vmap(lambda x: (x, x * 2))
        f.def_vmap(rule)
        return lambda: ft.vmap(f)(fnp.ones(3))

    f_with(lambda n, b, x: ((x, x), (True, True)))()
    with pytest.raises(ArgumentError, match="must return a pair"):
        f_with(lambda n, b, x: x)()
    with pytest.raises(TreeError, match="out_batched must have the structure"):
        f_with(lambda n, b, x: ((x, x), True))()
    with pytest.raises(ArgumentError, match="must hold bools"):
        f_with(lambda n, b, x: ((x, x), (True, 0)))()
    with pytest.raises(ShapeError, match=r"\[1\]: expected f32\[3\].*got f32\[\]"):
        f_with(lambda n, b, x: ((x, x.sum()), (True, True)))()


def test_arguments_are_checked() -> None:
    with pytest.raises(ArgumentError, match="takes a function"):
        ft.custom_jvp(3)
    with pytest.raises(ArgumentError, match="takes a function"):
        ft.custom_vjp(lambda x: x).defvjp(lambda x: x, None)
    with pytest.raises(StaticArgumentError, match="names 'z'"):
        ft.custom_jvp(lambda x: x, nondiff_argnames=("z",))
    with pytest.raises(ArgumentError, match="k can be given by name only"):
        ft.custom_jvp(lambda x, *, k=1: x * k)(1.0, k=2)
    f = ft.custom_jvp(lambda x: x)
    with pytest.raises(ArgumentError, match="missing"):
        f()
    with pytest.raises(ArgumentError, match="must be an array or a number"):
        f("x")
    with pytest.raises(ArgumentError, match="defjvps cannot be used"):
        ft.custom_jvp(lambda g, x: x, nondiff_argnums=0).defjvps(None)
    product = ft.custom_jvp(lambda x, y: x * y)
    product.defjvps(lambda t, result, x, y: t * y)
    with pytest.raises(ArgumentError, match="with 2 arguments and has 1 rules"):
        ft.grad(product)(1.0, 2.0)
    with pytest.raises(StaticArgumentError, match="the argument 3 of"):
        ft.custom_vjp(lambda x: x, nondiff_argnums=(3,))(1.0)
    with pytest.raises(ArgumentError, match="must be an int or a tuple of ints"):
        ft.custom_vjp(lambda x: x, nondiff_argnums="x")


def test_structures_are_shown_as_they_are_written() -> None:
    f = ft.custom_vjp(lambda x, y: x["a"] * y)
    f.defvjp(lambda x, y: (x["a"] * y, None), lambda residuals, ct: ct)
    expected = re.escape("expected ({'a': *}, *), got *")
    with pytest.raises(TreeError, match=expected + r"\n"):
        ft.grad(f)({"a": 1.0}, 2.0)


# Laws.


def test_linear_calls_batch_and_transpose_again() -> None:
    linear_call = ft.custom_derivatives.linear_call

    def call(r: Any, x: Any) -> Any:
        return linear_call(lambda r, x: r * x, lambda r, ct: r * ct, r, x)

    r, x = fnp.arange(6.0).reshape(2, 3), fnp.ones((2, 3))
    for axes, args in (
        ((0, 0), (r, x)),
        ((None, 0), (r[0], x)),
        ((0, None), (r, x[0])),
    ):

        def loss(*args: Any, axes: Any = axes) -> Any:
            return (ft.vmap(call, axes)(*args) ** 2).sum()

        check_grads(loss, args, order=2, modes=["fwd", "rev"])


def test_the_derivative_of_a_batching_rule_is_used() -> None:
    @ft.custom_batching.custom_vmap
    def f(x: Any, y: Any) -> Any:
        return fnp.sin(x) * y

    @f.def_vmap
    def f_vmap(axis_size: int, in_batched: Any, x: Any, y: Any) -> Any:
        return 10 * fnp.sin(x) * y * fnp.ones(axis_size), True

    x = fnp.array([0.5, 1.0, 1.5])
    np.testing.assert_allclose(
        ft.vmap(ft.grad(f), (0, None))(x, 2.0), 20 * np.cos(x), rtol=1e-5
    )
    np.testing.assert_allclose(
        ft.grad(lambda x: ft.vmap(f, (0, None))(x, 2.0).sum())(x),
        20 * np.cos(x), rtol=1e-5,
    )  # fmt: skip
    np.testing.assert_allclose(
        ft.vmap(lambda a, t: ft.jvp(f, (a, 2.0), (t, 0.0))[1], (0, None))(x, 1.0),
        20 * np.cos(x), rtol=1e-5,
    )  # fmt: skip
    np.testing.assert_allclose(
        ft.vmap(lambda ct: ft.vjp(f, 0.5, 2.0)[1](ct)[0])(x),
        20 * np.cos(0.5) * np.asarray(x), rtol=1e-5,
    )  # fmt: skip


def test_calls_of_equal_functions_are_one_graph() -> None:
    f = product(ft, fnp)
    graph = ft.make_graph(lambda x: f(x, 2.0) + f(x, 2.0))(1.0)
    assert sum(n.op.name == "custom_jvp" for n in graph.nodes) == 1
    f = ft.jit(lambda x: f_of(x) + fnp.sin(x) * 2)

    @ft.custom_jvp
    def f_of(x: Any) -> Any:
        return fnp.sin(x) * 2

    lowered = f.lower(1.0).simplified
    assert sum(n.op.name == "sin" for n in lowered.nodes) == 1


def test_sequential_batching_has_derivatives() -> None:
    @ft.custom_batching.sequential_vmap
    def f(x: Any, y: Any) -> Any:
        return fnp.sin(x).sum() * y

    x, y = fnp.arange(6.0).reshape(3, 2) / 6, fnp.arange(3.0)
    with ft.config(device="interpreter"):
        check_grads(lambda x, y: ft.vmap(f)(x, y), (x, y), order=1)


def test_effects_of_rules_in_loops(
    device: str, capsys: pytest.CaptureFixture[str]
) -> None:
    @ft.custom_vjp
    def f(x: Any) -> Any:
        return x * 2

    def backward(_: Any, ct: Any) -> Any:
        ft.debug.print("backward {}", ct)
        return (ct * 3,)

    f.defvjp(lambda x: (f(x), None), backward)

    def scanned(x: Any) -> Any:
        return lax.scan(lambda c, _: (f(fnp.sin(c)), None), x, None, length=2)[0]

    ft.jit(ft.grad(scanned))(0.0)
    assert capsys.readouterr().out.split("\n")[:-1] == ["backward 1.0", "backward 3.0"]


def test_gradients_taken_again_leave_nothing_behind() -> None:
    weights = fnp.arange(1.0, 4.0, dtype=np.float32)

    @ft.custom_vjp
    def f(x: Any) -> Any:
        return fnp.sin(x) * weights

    f.defvjp(lambda x: (f(x), x), lambda r, ct: (ct * fnp.cos(r) * weights,))

    @ft.checkpoint
    def step(c: Any) -> Any:
        return f(c) * 2

    def loss(x: Any) -> Any:
        last, _ = lax.scan(lambda c, _: (step(f(c)), None), x, None, length=3)
        return (last + f(step(x))).sum()

    counts: list[int] = []
    for _ in range(3):
        for _ in range(3):
            ft.grad(loss)(fnp.ones(3, np.float32))
        gc.collect()
        counts.append(interned_count())
    # What earlier tests left may go meanwhile; nothing may come.
    assert counts[0] >= counts[1] >= counts[2]


def test_a_jitted_function_is_traced_once() -> None:
    f = scaled(ft, fnp)
    gradient = ft.jit(ft.grad(f))
    for _ in range(3):
        gradient(fnp.ones(3), fnp.ones(3))
    assert gradient.trace_count == 1


def test_equal_calls_of_a_trace_trace_their_rule_once() -> None:
    traced: list[int] = []

    @ft.custom_jvp
    def f(x: Any) -> Any:
        return fnp.sin(x)

    @f.defjvp
    def f_jvp(primals: Any, tangents: Any) -> Any:
        traced.append(1)
        return f(primals[0]), fnp.cos(primals[0]) * tangents[0]

    ft.jit(ft.grad(lambda x: f(f(f(x)))))(1.0)
    assert len(traced) == 1
    ft.jit(ft.grad(lambda x: f(f(x))))(1.0)
    assert len(traced) <= 2  # once more, unless the first graph is still alive


def test_nothing_is_computed_twice() -> None:
    """Value and residuals come from the forward rule: one loop there, one back."""

    @ft.custom_vjp
    def f(x: Any) -> Any:
        return lax.scan(lambda c, _: (fnp.sin(c) * 2, None), x, None, length=4)[0]

    def forward(x: Any) -> Any:
        return lax.scan(lambda c, _: (fnp.sin(c) * 2, c), x, None, length=4)

    def backward(kept: Any, ct: Any) -> Any:
        def step(g: Any, c: Any) -> Any:
            return g * 2 * fnp.cos(c), None

        return (lax.scan(step, ct, kept, reverse=True)[0],)

    f.defvjp(forward, backward)
    x = fnp.full(8, 0.3)
    gradient = ft.jit(ft.value_and_grad(lambda x: f(x).sum()))
    graph = gradient.lower(x).simplified
    assert sum(n.op.name == "loop" for n in graph.nodes) == 2
    expected = ft.value_and_grad(lambda x: f.fun(x).sum())(x)
    for a, b in zip(gradient(x), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


# In a derivative that is not jitted rules run with values, and what they store is good.


class Notes:
    """What rules wrote down."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def values(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k != "log"}


def noted_vjp(notes: Any) -> Any:
    @ft.custom_vjp
    def g(x: Any) -> Any:
        return fnp.sin(x) * 2

    def forward(x: Any) -> Any:
        notes.log.append("fwd")
        notes.x, notes.y = x, fnp.cos(x)
        return fnp.sin(x) * 2, (x, notes.y)

    def backward(residuals: Any, ct: Any) -> Any:
        notes.log.append("bwd")
        notes.ct, notes.r = ct, residuals[1] * ct
        return (2 * residuals[1] * ct,)

    g.defvjp(forward, backward)
    return g


def noted_jvp(notes: Any) -> Any:
    @ft.custom_jvp
    def g(x: Any) -> Any:
        return fnp.sin(x) * 2

    def rule(primals: Any, tangents: Any) -> Any:
        ((x,), (t,)) = primals, tangents
        notes.log.append("jvp")
        notes.x, notes.y = x, fnp.cos(x)
        return fnp.sin(x) * 2, 2 * notes.y * t

    g.defjvp(rule)
    return g


def plain(notes: Any) -> Any:
    return lambda x: fnp.sin(x) * 2


X = np.float32(0.5)
V = np.array([0.1, 0.2, 0.3], np.float32)
DERIVATIVES: dict[str, Any] = {
    "grad": lambda g: ft.grad(lambda x: g(x * 2) * 3)(X),
    "itself": lambda g: ft.grad(g)(X),
    "number": lambda g: ft.grad(g)(0.5),
    "vector": lambda g: ft.grad(lambda x: g(x * 2).sum() * 3)(V),
    "value": lambda g: ft.value_and_grad(lambda x: g(x * 2) * x)(X),
    "chain": lambda g: ft.grad(lambda x: g(g(g(x))) + g(x) * x)(X),
    "branch": lambda g: ft.grad(lambda x: g(x) * (2 if g(x) > 0 else 3))(X),
    "vjp": lambda g: ft.vjp(lambda x: g(x * 2) * 3, X)[1](np.float32(2)),
    "jacrev": lambda g: ft.jacrev(lambda x: g(x * 2) * 3)(V),
    "unused": lambda g: ft.grad(lambda x: (g(x), x * 2)[1])(X),
    "stopped": lambda g: ft.grad(lambda x: g(lax.stop_gradient(x)) * x)(X),
    "aux": lambda g: ft.grad(lambda x: (g(x), g(x) * 2), has_aux=True)(X),
    "twice": lambda g: ft.grad(ft.grad(lambda x: g(x * x)))(X),
    "thrice": lambda g: ft.grad(ft.grad(ft.grad(lambda x: g(x * x))))(X),
    "around": lambda g: ft.grad(lambda y: ft.grad(lambda x: g(x * y))(1.0))(X),
    "jacobians": lambda g: ft.jacrev(ft.jacrev(lambda x: g(x * 2).sum()))(V),
    "lanes": lambda g: ft.vmap(ft.grad(lambda x: g(x) * x))(V),
    "inner lanes": lambda g: ft.grad(lambda x: ft.vmap(g)(x).sum())(V),
    "jit": lambda g: ft.jit(ft.grad(lambda x: g(x) * x))(X),
    "inner jit": lambda g: ft.grad(lambda x: ft.jit(g)(x) * x)(X),
    "checkpoint": lambda g: ft.grad(lambda x: ft.checkpoint(g)(g(x)))(X),
    "scan": lambda g: ft.grad(
        lambda x: lax.scan(lambda c, _: (g(c), None), g(x), None, length=3)[0]
    )(X),
}
#: In these a rule runs with traced values, as in JAX.
TRACED = (
    "jacrev", "twice", "thrice", "around", "jacobians", "lanes", "inner lanes", "jit",
          "inner jit", "checkpoint", "scan",
)  # fmt: skip


@pytest.mark.parametrize("made", [noted_vjp, noted_jvp])
@pytest.mark.parametrize("name", DERIVATIVES)
def test_rules_run_with_the_values_of_the_level_around(made: Any, name: str) -> None:
    for _ in range(7):
        notes = Notes()
        got = DERIVATIVES[name](made(notes))
        want = DERIVATIVES[name](plain(notes))
        pairs = zip(ft.tree.leaves(got), ft.tree.leaves(want), strict=True)
        for mine, yours in pairs:
            np.testing.assert_allclose(mine, yours, rtol=2e-5, atol=1e-6)
        if name not in TRACED:
            assert all(type(v) is ft.Array for v in notes.values().values())
            assert all(np.all(np.isfinite(v + 0)) for v in notes.values().values())


@pytest.mark.parametrize("made", [noted_vjp, noted_jvp])
def test_what_a_rule_stores_is_good_within_the_same_derivative(made: Any) -> None:
    notes = Notes()
    g = made(notes)
    got = ft.grad(lambda x: g(x) + notes.y * x + notes.x)(X)
    np.testing.assert_allclose(got, 3 * np.cos(X), rtol=1e-6)
    # Within the derivative around it is a value of that.
    got = ft.grad(lambda y: ft.grad(lambda x: g(x * y))(y) * notes.y)(X)
    want = ft.grad(lambda y: ft.grad(lambda x: 2 * fnp.sin(x * y))(y) * fnp.cos(y * y))
    np.testing.assert_allclose(got, want(X), rtol=1e-5)


@pytest.mark.parametrize("made", [noted_vjp, noted_jvp])
def test_what_a_rule_has_stored_does_no_harm_to_later_calls(made: Any) -> None:
    class Layer:
        """The function and its rules are methods, which refer to what is stored."""

        def __init__(self) -> None:
            self.f = ft.custom_vjp(self.forward)
            self.f.defvjp(self.fwd, self.bwd)
            if made is noted_jvp:
                self.f = ft.custom_jvp(self.forward)
                self.f.defjvp(self.jvp)

        def forward(self, x: Any) -> Any:
            return x * 2

        def fwd(self, x: Any) -> Any:
            self.last = x
            return self.forward(x), None

        def bwd(self, _: Any, ct: Any) -> Any:
            self.slope = ct
            return (ct * 2,)

        def jvp(self, primals: Any, tangents: Any) -> Any:
            self.last, self.slope = primals[0], tangents[0]
            return self.forward(*primals), self.slope * 2

    f = Layer().f
    over = ft.grad(
        lambda x: ft.lax.scan(
            lambda c, y: (f(c) + y, None), x, x * np.ones(3, np.float32)
        )[0]
    )
    derivatives = [
        ft.grad(f), ft.jit(ft.grad(f)), ft.vmap(ft.grad(f)), ft.grad(ft.checkpoint(f)),
        ft.grad(lambda x: ft.lax.cond(x > 0, f, f, x)), ft.jit(ft.vmap(ft.grad(f))),
    ]  # fmt: skip
    for _ in range(2):
        for number, g in enumerate(derivatives):
            x = np.ones((2, 3)[: number in (2, 5)], np.float32)
            np.testing.assert_allclose(g(x), 2 * np.ones_like(x))
        np.testing.assert_allclose(over(np.float32(1)), 15)
    sums = ft.jit(ft.grad(lambda x: f(x).sum()))
    for size in (4, 4, 3):
        np.testing.assert_allclose(sums(np.ones(size, np.float32)), 2)


def test_rules_run_where_and_as_often_as_their_derivative_is_taken() -> None:
    notes = Notes()
    g = noted_vjp(notes)
    _, pull = ft.vjp(lambda x: g(x) * 3, X)
    assert notes.log == ["fwd"]
    for k in (1.0, 2.0, 5.0):
        (got,) = pull(np.float32(k))
        np.testing.assert_allclose(got, 6 * k * np.cos(X), rtol=1e-6)
        np.testing.assert_allclose(notes.ct, 3 * k)
    assert notes.log == ["fwd", "bwd", "bwd", "bwd"]
    notes.log.clear()
    for _ in range(9):
        ft.grad(g)(X)
    assert notes.log == ["fwd", "bwd"] * 9


def test_a_backward_rule_may_ask_for_the_cotangent() -> None:
    f = ft.custom_vjp(lambda x: x * 2)
    f.defvjp(lambda x: (x * 2, x), lambda x, ct: (ct * 7 if ct > x else ct,))
    for k, want in ((1.0, 7.0), (0.1, 0.1)):
        got = ft.grad(lambda x, k=k: f(x) * k)(X)
        np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("wrap", [lambda f: f, ft.jit])
def test_rules_may_close_over_what_is_no_tree(wrap: Any) -> None:
    holder: Any = Notes()
    holder.table = {1: fnp.float32(2), "a": None, None: {2.5: 1, "b": 2}}
    f = ft.custom_jvp(lambda x: x)
    f.defjvp(lambda p, t: (p[0], t[0] * holder.table[1]))
    g = ft.custom_vjp(lambda x: x)
    g.defvjp(lambda x: (x, None), lambda _, ct: (ct * holder.table[1],))
    for each in (f, g):
        assert float(wrap(ft.grad(each))(3.0)) == 2.0
        assert float(ft.vmap(ft.grad(each))(fnp.ones(2))[1]) == 2.0


def test_a_pullback_runs_its_rules_at_each_call_and_derives_once() -> None:
    seen: list[float] = []

    @ft.custom_vjp
    def f(x):
        return x * x

    def bwd(x, ct):
        if not isinstance(ct, Tracer):
            seen.append(float(ct.sum()))
        return (ct * x * (1 if seen[-1] < 5 else 10),)

    f.defvjp(lambda x: (f(x), x), bwd)
    x = fnp.arange(3.0)
    for g in (lambda x: f(fnp.sin(f(x))), lambda x: f(x) + f(x + 1)):
        _, pull = ft.vjp(g, x)
        _, again = ft.vjp(g, x)
        for scale in (1.0, 2.0, 1.0, 7.0, 1.0):
            seen.clear()
            (found,) = pull(fnp.ones(3) * scale)
            assert seen[0] == 3 * scale
            assert len(seen) == 2
            seen.clear()
            (wanted,) = ft.vjp(g, x)[1](fnp.ones(3) * scale)
            np.testing.assert_array_equal(found, wanted)
        (other,) = ft.vmap(again)(fnp.ones((2, 3)))
        np.testing.assert_array_equal(other[0], pull(fnp.ones(3))[0])
        (weak,) = pull(np.ones(3, np.float32))
        np.testing.assert_array_equal(weak, other[0])


def test_threads_may_call_one_pullback() -> None:
    @ft.custom_vjp
    def f(x):
        return fnp.maximum(x, 0)

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (fnp.where(x > 0, ct, 0),))
    _, pull = ft.vjp(lambda x: f(f(x) * 2), fnp.ones(3))
    wrong: list[Any] = []

    def work(k: int) -> None:
        for _ in range(200):
            try:
                found = np.asarray(pull(fnp.full(3, float(k)))[0])
            except Exception as error:
                wrong.append(error)
            else:
                wrong.extend([found] if np.any(found != 2 * k) else [])

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(k,)) for k in (1, 2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not wrong


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_the_function_does_not_run_where_its_rules_do(kind: str) -> None:
    """What it stores on objects would be a traced value of a trace that has ended."""
    stored: dict[str, Any] = {"x": fnp.float32(0.0)}

    def body(x: Any) -> Any:
        stored["x"] = x * 2
        return fnp.sin(x)

    f = getattr(ft, kind)(body)
    if kind == "custom_jvp":
        f.defjvp(lambda p, t: (fnp.sin(p[0]), t[0] * fnp.cos(p[0])))
    else:
        f.defvjp(lambda x: (fnp.sin(x), x), lambda x, g: (g * fnp.cos(x),))
    x = fnp.float32(0.5)
    assert ft.grad(f)(x) == ft.value_and_grad(f)(x)[1] == fnp.cos(x)
    assert ft.vjp(f, x)[1](x)[0] == ft.linearize(lambda x: ft.grad(f)(x) * x, x)[0]
    assert float(stored["x"]) == 0.0
    assert ft.grad(lambda a: f(x) * a)(x) == fnp.sin(x)
    assert float(stored["x"]) == 1.0  # of a call that does not vary


class Holder:
    """An object that holds what cannot be sorted."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __getitem__(self, key: Any) -> Any:
        return self.table[key]


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
@pytest.mark.parametrize("make", [dict, Holder])
@pytest.mark.parametrize("factor", [3.0, 5.0])
def test_dictionaries_whose_keys_have_no_order_are_arguments(
    kind: str, make: Any, factor: float
) -> None:
    def body(x: Any, table: Any) -> Any:
        return fnp.sin(x) * table["a"]

    f = getattr(ft, kind)(body, nondiff_argnums=(1,))
    if kind == "custom_jvp":
        f.defjvp(lambda a, p, t: (body(p[0], a), t[0] * fnp.cos(p[0]) * a["a"]))
    else:
        f.defvjp(
            lambda x, a: (body(x, a), x), lambda a, x, g: (g * fnp.cos(x) * a["a"],)
        )
    x = fnp.float32(0.5)
    table = make({1: 2.0, "a": factor})
    slope = ft.grad(f)
    for transform in (lambda g: g, ft.jit):
        value = transform(lambda x: f(x, table))
        np.testing.assert_allclose(value(x), factor * np.sin(0.5), rtol=1e-6)
        lanes = transform(ft.vmap(lambda x: slope(x, table)))(fnp.full(2, x))
        for got in (transform(lambda x: slope(x, table))(x), ft.grad(value)(x), lanes):
            np.testing.assert_allclose(got, factor * np.cos(0.5), rtol=1e-6)


@pytest.mark.parametrize("transform", [ft.grad, ft.value_and_grad, ft.jacfwd])
def test_a_call_whose_operands_are_known_runs_once(transform: Any) -> None:
    runs: list[str] = []

    @ft.custom_jvp
    def sine(x: Any) -> Any:
        runs.append("sine")
        return fnp.sin(x)

    sine.defjvp(lambda p, t: (fnp.sin(p[0]), t[0] * 100))
    derivative = transform(lambda x: x * sine(np.float32(2.0)))
    for n in range(1, 11):
        derivative(1.0)
        assert len(runs) == n


def test_a_call_that_closes_over_what_is_traced_is_refused_by_its_name() -> None:
    class Model:
        weight: Any = None

    model = Model()

    @ft.custom_jvp
    def scaled(x: Any) -> Any:
        return x * model.weight

    scaled.defjvp(lambda p, t: (p[0] * model.weight, t[0]))

    def loss(weight: Any) -> Any:
        model.weight = weight
        return scaled(np.float32(2.0))

    with pytest.raises(ft.errors.DerivativeError, match="scaled is differentiated"):
        ft.grad(loss)(3.0)

"""Functions with rules of their own: custom_jvp, custom_vjp, custom_vmap and kin."""

from __future__ import annotations

import gc
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
from ftrace.errors import ArgumentError, DerivativeError, UnexpectedTracerError
from ftrace.test_util import check_grads
from tests.support.alive import interned_count
from tests.support.covering import covering

DATA = Path(__file__).parents[2] / "data"
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


@covering(1, name=CASES, device=["cpu", "interpreter"])
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
    from ftrace.transforms.jit import compiled_graph

    def gradient(scale: float) -> float:
        weights = fnp.full(3, scale)

        @ft.custom_vjp
        def f(x: Any) -> Any:
            return x.sum()

        f.defvjp(lambda x: (f(x), None), lambda _, ct: (ct * weights,))
        return float(ft.grad(f)(fnp.ones(3))[0])

    assert gradient(2.0) == 2.0
    before = len(compiled_graph._cache)  # pyright: ignore[reportPrivateUsage]
    assert [gradient(3.0), gradient(4.0)] == [3.0, 4.0]
    assert len(compiled_graph._cache) == before  # pyright: ignore[reportPrivateUsage]


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


def test_a_jvp_rule_prints_tangents(capsys: pytest.CaptureFixture[str]) -> None:
    """Where they have values: reverse mode prints what does not tell of them."""
    f = ft.custom_jvp(fnp.sin)

    @f.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        ft.debug.print("at {}", primals[0])
        ft.debug.print("along {}", tangents[0])
        return f(*primals), 2 * tangents[0]

    x = fnp.ones(1)
    for g in (f, ft.jit(f), ft.jit(lambda x: f(x[0])), ft.vmap(ft.jit(f))):
        assert ft.jvp(g, (x,), (x * 3,))[1] == 6
        told = capsys.readouterr().out.replace("[", "").replace(".]", ".0")
        assert told == "at 1.0\nalong 3.0\n"
        assert ft.grad(lambda x, g=g: g(x).sum())(x) == 2
        assert "along" not in capsys.readouterr().out


def test_a_function_is_given_its_rule_before_it_is_called() -> None:
    for kind, setter in (
        (ft.custom_jvp, "defjvp"),
        (ft.custom_vjp, r"defvjp\(fwd, bwd\)"),
        (ft.custom_batching.custom_vmap, r"def_vmap\(rule\)"),
    ):
        f = kind(lambda x: x * 2)
        for call in (f, ft.jit(f), lambda x, f=f: ft.grad(lambda x: x * f(3.0))(x)):
            with pytest.raises(AttributeError, match=f"without a rule.*{setter}"):
                call(2.0)


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

    with pytest.raises(UnexpectedTracerError, match=r"closes over.*argument"):
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


# Laws.


def test_a_linear_call_gets_and_gives_arrays_of_the_common_dtype() -> None:
    def doubled(x: Any) -> Any:
        call = ft.custom_derivatives.linear_call
        return call(lambda r, x: x * r, lambda r, ct: ct * r, 2.0, x)

    for x in (
        np.asarray(1.5, fnp.bfloat16),
        np.float16(1.5),
        fnp.ones(3, fnp.bfloat16),
    ):
        assert doubled(x).dtype == ft.jit(doubled)(x).dtype == x.dtype
    assert isinstance(doubled(1.5), ft.Array)
    assert doubled(1.5) == 3


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

    f_of.defjvps(lambda t, y, x: t * y)
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


def test_rules_of_several_kinds_are_given_to_the_outer_function() -> None:
    @ft.custom_vjp
    @ft.custom_batching.custom_vmap
    def f(x: Any, y: Any) -> Any:
        return x * y

    f.def_vmap(lambda size, batched, x, y: (x + y, True))
    f.defvjp(lambda x, y: (f(x, y), (x, y)), lambda r, ct: (7 * ct, ct))
    assert ft.vmap(f)(fnp.arange(2.0), fnp.ones(2)).tolist() == [1, 2]
    assert ft.grad(f)(1.0, 2.0) == 7
    with pytest.raises(AttributeError, match="defjvp"):
        _ = f.defjvp


def test_a_default_that_only_a_name_gives_is_left_to_the_function() -> None:
    f = ft.custom_jvp(partial(lambda x, y, a: x + y * a, a=0.5))
    f.defjvp(lambda primals, tangents: ft.jvp(f.fun, primals, tangents))
    assert ft.grad(f, (0, 1))(1.0, 2.0) == (1.0, 0.5)
    with pytest.raises(ArgumentError, match="a can be given by name only"):
        f(1.0, 2.0, a=0.1)


def test_a_rule_closes_over_an_argument_that_was_a_number() -> None:
    def g(y: Any) -> Any:
        f = ft.custom_vjp(lambda x: x)
        f.defvjp(lambda x: (x, y), lambda y, ct: (y * ct,))
        return ft.grad(f)(1.0)

    assert ft.jit(g)(0.5) == ft.grad(lambda y: g(y) * y)(0.25) == 0.5

"""In a derivative that is not jitted rules run with values; what they store is good."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.compat.jax.interpreters import ad
from ftrace.trace.tracing.tracer import Tracer


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

    with pytest.raises(ft.errors.UnexpectedTracerError, match="scaled is diff"):
        ft.grad(loss)(3.0)


@ft.custom_jvp
def softplus(x: Any) -> Any:
    return fnp.log(1.0 + fnp.exp(x))


@softplus.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return softplus(x), (1 - 1 / (1 + fnp.exp(x))) * t


def test_what_rules_call_and_close_over_has_values() -> None:
    """Also beside arrays of the function's own, and of a derivative further in."""
    table = fnp.arange(6.0).reshape(2, 3)
    compiled = ft.jit(lambda x, y: (table @ x * y).sum())

    @ft.custom_vjp
    def inner(x: Any, y: Any) -> Any:
        return fnp.asarray(np.sin(np.asarray(compiled(x, y))))

    inner.defvjp(lambda x, y: (inner(x, y), (x, y)), lambda r, c: (c * r[0], c))
    outer = ft.custom_vjp(inner.__wrapped__)
    outer.defvjp(lambda x, y: (inner(x, y), (x, y)), lambda r, c: (c * r[0], c))
    np.testing.assert_array_equal(ft.grad(outer)(fnp.ones(3), 2.0), np.ones(3))

    def bounded(x: Any) -> Any:
        low = lax.stop_gradient(fnp.max(x))
        solve = ft.custom_vjp(lambda x: x * low)
        solve.defvjp(lambda x: (solve(x), (x, solve(x))), lambda r, c: (c * r[1],))
        return solve(x)

    for function in (bounded, lambda x: ft.value_and_grad(bounded)(x)[0]):
        assert float(ft.grad(function)(3.0)) == 9.0


class Computed:
    """A container that computes with what it holds when it is made."""

    def __init__(self, x: Any) -> None:
        self.x, self.square = x, x * x


ft.tree_util.register_pytree_node(
    Computed, lambda c: ((c.x,), None), lambda _, children: Computed(*children)
)


def test_results_are_containers_that_compute_when_they_are_made() -> None:
    f = ft.custom_vjp(lambda x: Computed(x + 1))
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct.x * x,))
    assert float(ft.grad(lambda x: f(x).square)(2.0)) == 12.0


@ft.custom_vjp
def sine(x: Any) -> Any:
    return fnp.sin(x)


sine.defvjp(lambda x: (sine(x), x), lambda x, ct: (ct * fnp.cos(x),))


@ft.custom_gradient
def cube(x: Any) -> Any:
    return x**3, lambda ct: ct * 3 * x**2


@pytest.mark.parametrize("function", [softplus, sine, cube])
def test_a_number_of_pythons_leaves_rules_in_the_dtype_that_jit_gives(
    function: Any,
) -> None:
    def all_of(x: Any) -> Any:
        value, pull = ft.vjp(function, x)
        pair = ft.grad(lambda x: (function(x), function(x) * 2), has_aux=True)(x)
        return value, pull(1.0), pair, ft.value_and_grad(function)(x)

    wanted = ft.tree.leaves(ft.jit(all_of)(3.0))
    for _ in range(3):
        for got, leaf in zip(ft.tree.leaves(all_of(3.0)), wanted, strict=True):
            assert (got.dtype, got.weak_type) == (np.float32, True)
            np.testing.assert_allclose(got, leaf, rtol=1e-6)


@pytest.mark.parametrize("around", [lambda f: f, ft.jit, ft.vmap])
def test_results_whose_tangents_a_rule_says_to_be_zero_do_not_vary(around: Any) -> None:
    @ft.custom_jvp
    def pair(x: Any, y: Any) -> Any:
        return x * 1, y * 1

    pair.defjvp(lambda primals, ts: (pair(*primals), ts), symbolic_zeros=True)

    @ft.custom_jvp
    def look(x: Any) -> Any:
        return x

    @look.defjvp
    def refuse(primals: Any, tangents: Any) -> Any:
        raise AssertionError("it does not vary")

    def f(x: Any) -> Any:
        varying, constant = pair(x, 2.0)
        assert isinstance(varying, ad.JVPTracer)
        assert not isinstance(constant, ad.JVPTracer)
        return varying * look(constant)

    x = fnp.ones(3)
    derivatives = [ft.grad(lambda x: f(x).sum()), lambda x: ft.jvp(f, (x,), (x,))[1]]
    for derivative in derivatives:
        np.testing.assert_array_equal(around(derivative)(x), [2, 2, 2])


def test_a_function_without_jit_is_called_once_and_so_are_its_effects(
    capsys: Any,
) -> None:
    @ft.custom_jvp
    def f(x: Any) -> Any:
        ft.debug.print("f of {}", x)
        return fnp.sin(x)

    @f.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        ft.debug.print("rule of {}", primals[0])
        result = f(*primals)
        ft.debug.print("tangent {}", tangents[0])  # which has no value
        return result, fnp.cos(primals[0]) * tangents[0]

    for order, g in enumerate((f, ft.grad(f), ft.grad(ft.grad(f)))):
        g(1.0)
        assert capsys.readouterr().out == "rule of 1.0\n" * order + "f of 1.0\n"
    ft.grad(lambda x: x * f(1.0))(1.0)
    assert capsys.readouterr().out == "f of 1.0\n"

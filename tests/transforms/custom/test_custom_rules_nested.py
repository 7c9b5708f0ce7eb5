"""Rules within rules, loops and transforms, held against plain functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from tests.support.covering import covering

Function = Callable[[Any, Any], Any]


def with_jvp(f: Function) -> Function:
    made = ft.custom_jvp(f)
    made.defjvp(lambda primals, tangents: ft.jvp(f, primals, tangents))
    return made


def with_vjp(f: Function) -> Function:
    made = ft.custom_vjp(f)

    def forward(x: Any, y: Any) -> Any:
        return f(x, y), {"at": (x, y)}

    def backward(kept: Any, ct: Any) -> Any:
        return ft.vjp(f, *kept["at"])[1](ct)

    made.defvjp(forward, backward)
    return made


def with_vmap(f: Function) -> Function:
    made = ft.custom_batching.custom_vmap(f)

    @made.def_vmap
    def rule(size: int, batched: Any, x: Any, y: Any) -> Any:
        axes = tuple(0 if has else None for has in batched)
        return ft.vmap(f, axes, axis_size=size)(x, y), True

    return made


WRAPS: dict[str, Callable[[Function], Function]] = {
    "jvp": with_jvp,
    "vjp": with_vjp,
    "vmap": with_vmap,
    "sequential": ft.custom_batching.sequential_vmap,
    "checkpoint": ft.checkpoint,
    "jit": ft.jit,
}


def plain(f: Function) -> Function:
    return f


def in_scan(f: Function) -> Function:
    def looped(x: Any, y: Any) -> Any:
        last, all_ = lax.scan(lambda c, t: (f(c, y * t), c * t), x, fnp.arange(3.0))
        return last + all_.sum(0)

    return looped


def in_branch(f: Function) -> Function:
    return lambda x, y: lax.cond(x.sum() > 0.5, f, lambda x, y: f(y, x) * 2, x, y)


def in_while(f: Function) -> Function:
    def looped(x: Any, y: Any) -> Any:
        def step(state: Any) -> Any:
            i, c = state
            return i + 1, f(c, y)

        return lax.while_loop(lambda s: s[0] < 2, step, (0, x))[1]

    return looped


LOOPS = {"none": plain, "scan": in_scan, "cond": in_branch, "while": in_while}


def base(x: Any, y: Any) -> Any:
    return fnp.sin(x) * y + fnp.cos(y * x)


X = np.array([[0.3, 0.5], [0.1, -0.4], [0.2, 0.6]])
Y = np.array([[0.2, 0.1], [0.4, 0.3], [-0.2, 0.7]])


def answers(f: Function, forward: bool) -> list[Any]:
    """Values and derivatives of a function in every order of transforms."""

    def loss(x: Any, y: Any) -> Any:
        return (f(x, y) ** 2).sum()

    def of_lanes(x: Any, y: Any) -> Any:
        return ft.vmap(loss)(x, y).sum() + ft.vmap(loss, (0, None))(x, y[0]).sum()

    found = [
        loss(X[0], Y[0]),
        ft.grad(loss, (0, 1))(X[0], Y[0]),
        ft.vmap(ft.grad(loss, (0, 1)))(X, Y),
        ft.vmap(ft.grad(loss, (0, 1)), (None, 0))(X[0], Y),
        ft.grad(of_lanes, (0, 1))(X, Y),
        ft.jacrev(ft.grad(loss))(X[0], Y[0]),
    ]
    if forward:
        found += [
            ft.jvp(f, (X[0], Y[0]), (Y[1], X[1])),
            ft.hessian(loss)(X[0], Y[0]),
            ft.vmap(lambda x, y: ft.jvp(f, (x, y), (y, x)))(X, Y),
        ]
    return ft.tree.leaves(found)


@functools.cache
def plain(loop: str) -> list[Any]:
    return answers(LOOPS[loop](base), True)


def check(function: Function, loop: str, forward: bool) -> None:
    found, expected = answers(function, forward), plain(loop)
    assert forward == (len(found) == len(expected))
    for i, (a, b) in enumerate(zip(found, expected, strict=forward)):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11, err_msg=f"{i}")


@covering(2, loop=LOOPS, outer=WRAPS, inner=WRAPS)
def test_nested_rules_are_the_plain_function(outer: str, loop: str, inner: str) -> None:
    wrapped = WRAPS[outer](LOOPS[loop](WRAPS[inner](base)))
    with ft.config(disable_jit=True):
        check(wrapped, loop, forward="vjp" not in (outer, inner))


@covering(1, loop=LOOPS, wrap=WRAPS)
def test_rules_in_programs_are_the_plain_function(wrap: str, loop: str) -> None:
    wrapped = LOOPS[loop](WRAPS[wrap](base))

    def gradients(f: Function) -> Any:
        def loss(x: Any, y: Any) -> Any:
            return (f(x, y) ** 2).sum()

        return ft.jit(lambda x, y: (
            ft.value_and_grad(loss, (0, 1))(x[0], y[0]),
            ft.grad(lambda x: ft.vmap(loss)(x, y).sum())(x),
        ))  # fmt: skip

    found = gradients(wrapped)(X, Y)
    expected = gradients(LOOPS[loop](base))(X, Y)
    for a, b in zip(ft.tree.leaves(found), ft.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


@ft.custom_jvp
def _hundredfold(x: Any) -> Any:
    return x * 1


@_hundredfold.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return _hundredfold(primals[0]), 100 * tangents[0]


_NESTED: dict[str, tuple[Callable[..., Any], float]] = {
    "vmap(grad)": (ft.vmap(ft.grad(_hundredfold)), 100),
    "vmap(vmap(grad))": (
        lambda x: ft.vmap(ft.vmap(ft.grad(_hundredfold)))(x[None])[0], 100
    ),
    "grad(vmap)": (ft.grad(lambda x: ft.vmap(_hundredfold)(x).sum()), 100),
    "vmap(grad(vmap))": (
        ft.vmap(ft.grad(lambda x: ft.vmap(_hundredfold)(x[None])[0])), 100
    ),
    "vmap(jvp)": (
        ft.vmap(lambda x: ft.jvp(_hundredfold, (x,), (fnp.ones_like(x),))[1]), 100
    ),
    "jacfwd(vmap)": (lambda x: ft.jacfwd(ft.vmap(_hundredfold))(x).sum(0), 100),
    "jacrev(vmap)": (lambda x: ft.jacrev(ft.vmap(_hundredfold))(x).sum(0), 100),
    "linearize(vmap)": (
        lambda x: ft.linearize(ft.vmap(_hundredfold), x)[1](fnp.ones_like(x)), 100
    ),
    "vmap, then grad": (
        ft.grad(lambda x: _hundredfold(ft.vmap(_hundredfold)(x)).sum()), 10_000
    ),
    "grad within vmap of what is around": (
        ft.vmap(lambda x: ft.grad(lambda w: _hundredfold(x) * w)(2.0) / x), 1
    ),
    "scan within vmap": (
        ft.vmap(ft.grad(
            lambda x: ft.lax.scan(lambda c, _: (_hundredfold(c), None), x, None, 2)[0]
        )), 10_000,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _NESTED)
def test_rule_holds_wherever_vmap_stands(name: str) -> None:
    function, slope = _NESTED[name]
    x = fnp.array([1.0, 2.0, 3.0])
    for f in (function, ft.jit(function)):
        assert np.asarray(f(x)).tolist() == [slope] * 3


def test_what_a_rule_makes_of_constants_stays_good_when_the_function_has_returned() -> (
    None
):
    @ft.custom_jvp
    def f(x: Any) -> Any:
        return fnp.sin(x)

    @f.defjvp
    def f_jvp(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return f(x), fnp.full_like(x, 3) * fnp.remainder(x, 4) * t

    x = np.array([0.5, 2.0, 3.0], np.float32)

    def forward(g: Any) -> Any:
        return lambda v: ft.jvp(g, (v,), (x,))[1]

    def backward(g: Any) -> Any:
        return lambda v: ft.vjp(g, v)[1](x)[0]

    for outer in (forward, backward):
        np.testing.assert_allclose(outer(f)(x), 3 * x * x, rtol=1e-6)
        for inner in (forward, backward):
            np.testing.assert_allclose(outer(inner(f))(x), 3 * x * x, rtol=1e-6)


# Rules that take derivatives, loop, and call functions with rules.


@functools.partial(ft.custom_vjp, nondiff_argnums=(0,))
def fixed_point(f: Any, a: Any, guess: Any) -> Any:
    def differs(pair: Any) -> Any:
        return fnp.abs(pair[0] - pair[1]) > 1e-6

    def step(pair: Any) -> Any:
        return pair[1], f(a, pair[1])

    return lax.while_loop(differs, step, (guess, f(a, guess)))[1]


def _fixed_forward(f: Any, a: Any, guess: Any) -> Any:
    found = fixed_point(f, a, guess)
    return found, (a, found)


def _fixed_backward(f: Any, kept: Any, ct: Any) -> Any:
    a, found = kept
    pull = ft.vjp(lambda a: f(a, found), a)[1]
    return pull(fixed_point(functools.partial(_adjoint, f), (*kept, ct), ct))[0], None


def _adjoint(f: Any, packed: Any, u: Any) -> Any:
    a, x, ct = packed
    return ct + ft.vjp(lambda x: f(a, x), x)[1](u)[0]


fixed_point.defvjp(_fixed_forward, _fixed_backward)


@ft.custom_jvp
def telltale(x: Any) -> Any:
    return fnp.sin(x)


@telltale.defjvp
def _(primals: Any, tangents: Any) -> Any:  # twice what it is, to be told apart
    return telltale(*primals), 2 * fnp.cos(primals[0]) * tangents[0]


@ft.custom_jvp
def asks(x: Any) -> Any:
    return x * x


@asks.defjvp
def _(primals: Any, tangents: Any) -> Any:
    three = lax.while_loop(lambda c: c < 3.0, lambda c: c + 1.0, 0.0)
    return asks(*primals), three * ft.jvp(telltale, primals, tangents)[1]


@pytest.mark.parametrize("wrap", [lambda f: f, ft.jit], ids=["eager", "jit"])
def test_rules_may_differentiate_and_loop_at_every_order(wrap: Any) -> None:
    def root(a: Any) -> Any:
        return fixed_point(lambda a, x: 0.5 * (x + a / x), a, a)

    first, second = ft.grad(root), ft.grad(ft.grad(root))
    for a in (2.0, fnp.float32(2.0)):
        np.testing.assert_allclose(wrap(first)(a), 2**-1.5, rtol=1e-5)
        np.testing.assert_allclose(wrap(second)(a), -(2**-3.5), rtol=1e-5)
    x = fnp.float32(0.7)
    slope = 6 * np.cos(x)

    def along(f: Any) -> Any:
        return lambda x: ft.jvp(f, (x,), (fnp.ones_like(x),))[1]

    for outer, inner in ((along, along), (ft.grad, along), (along, ft.grad)):
        np.testing.assert_allclose(wrap(inner(asks))(x), slope, rtol=1e-5)
        found = wrap(outer(inner(asks)))(x)
        np.testing.assert_allclose(found, -6 * np.sin(x), rtol=1e-5)


def test_a_rule_is_asked_for_no_lanes_that_its_tangents_do_not_share() -> None:
    """As JAX does: of a linear function the tangents stay the same for all lanes."""
    asked: list[bool] = []

    @ft.custom_batching.custom_vmap
    def f(x: Any) -> Any:
        return 7 * x

    @f.def_vmap
    def _(size: int, in_batched: Any, x: Any) -> Any:
        asked.append(in_batched[0])
        return 11 * x, in_batched[0]

    def pushed(x: Any, t: Any) -> Any:
        return ft.jvp(f, (x,), (t,))

    x = np.arange(3, dtype=np.float32)
    value, tangent = ft.vmap(pushed, (0, None), (0, None))(x, np.float32(4))
    np.testing.assert_array_equal(value, 11 * x)
    assert tangent == 44
    assert asked == [True, False]
    asked.clear()
    np.testing.assert_array_equal(ft.jacfwd(f)(x), 11 * np.eye(3))
    assert asked == [False]


def test_what_a_rule_makes_the_same_for_all_lanes_stays_it() -> None:
    """As a value, behind sorts and calls, and as a residual of a custom_vjp."""
    wide: list[Any] = []

    @ft.custom_batching.custom_vmap
    def common(x: Any) -> Any:
        return fnp.stack([x, -x])

    @common.def_vmap
    def _(size: int, in_batched: Any, x: Any) -> Any:
        return fnp.stack([x.max(), -x.max()]), False

    @ft.custom_batching.custom_vmap
    def alone(x: Any) -> Any:
        return x

    @alone.def_vmap
    def _(size: int, in_batched: Any, x: Any) -> Any:
        wide.append(in_batched)
        return x, in_batched[0]

    @ft.custom_vjp
    def double(x: Any) -> Any:
        return 2 * x, fnp.argsort(common(x))

    def forward(x: Any) -> Any:
        return double(x), fnp.sort(common(x))

    def backward(kept: Any, cts: Any) -> Any:
        return (alone(kept)[0] + cts[0],)

    double.defvjp(forward, backward)

    def f(x: Any) -> Any:
        found, order = double(x)
        return found + alone(order)[0]

    x = np.arange(3.0)
    for transform in (lambda f: f, ft.jit):
        np.testing.assert_array_equal(transform(ft.vmap(f))(x), 2 * x + 1)
        np.testing.assert_array_equal(transform(ft.vmap(ft.grad(f)))(x), [-1.0] * 3)
        total = ft.grad(lambda x: ft.vmap(f)(x).sum())
        np.testing.assert_array_equal(transform(total)(x), [-1.0] * 3)
    assert not wide


def test_rules_may_close_over_a_lane_within_the_derivative() -> None:
    def total(z: Any) -> Any:
        def lane(x: Any) -> Any:
            @ft.custom_jvp
            def g(y: Any) -> Any:
                return x * y

            @g.defjvp
            def _(primals: Any, tangents: Any) -> Any:
                return x * primals[0], 2 * x * tangents[0]

            return g(z)

        return ft.vmap(lane)(fnp.arange(3.0)).sum()

    assert float(ft.grad(total)(3.0)) == float(ft.jit(ft.grad(total))(3.0)) == 6.0


def test_a_rule_forward_is_traced_under_the_settings_of_its_call() -> None:
    seen: list[str] = []

    @ft.custom_jvp
    def f(x: Any) -> Any:
        return x * 2

    @f.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        seen.append(ft.config.numpy_dtype_promotion)
        return f(*primals), tangents[0] * 2

    def loss(x: Any) -> Any:
        with ft.config(numpy_dtype_promotion="strict"):
            y = f(x)
        return y * f(x)

    assert ft.grad(loss)(1.5) == ft.jit(ft.grad(loss))(1.5) == 12
    assert ft.vmap(ft.grad(loss))(np.ones(2, "float32")).tolist() == [8, 8]
    assert [seen.count(x) for x in ("strict", "standard")] == [3, 3]

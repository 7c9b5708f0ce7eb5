"""Functions with rules of their own, written once for JAX and for ftrace.

Each case is a function of (ft, np, lax), which are `jax`, `jax.numpy` and `jax.lax`, or
their counterparts, and returns a tree of arrays. record_custom.py writes what JAX
computes; tests/transforms/custom/test_custom_derivatives.py holds ftrace against it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

CASES: dict[str, Callable[[Any, Any, Any], Any]] = {}
#: Cases with loops.
LOOPS: set[str] = set()


def case(function: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    CASES[function.__name__] = function
    return function


def loop(function: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    LOOPS.add(function.__name__)
    return case(function)


def product(ft: Any, np: Any) -> Any:
    """sin(x)·y, whose derivative is ten times what it should be: rules are seen."""

    @ft.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return np.sin(x) * y

    @f.defjvp
    def f_jvp(primals: Any, tangents: Any) -> Any:
        x, y = primals
        tx, ty = tangents
        return f(x, y), 10 * np.cos(x) * tx * y + np.sin(x) * ty

    return f


@case
def jvp_rule_in_both_modes(ft: Any, np: Any, lax: Any) -> Any:
    f = product(ft, np)
    return [
        f(0.5, 2.0),
        ft.grad(f, (0, 1))(0.5, 2.0),
        ft.jvp(f, (0.5, 2.0), (1.0, 3.0)),
        ft.jit(ft.value_and_grad(f))(0.5, 2.0),
        ft.vjp(f, 0.5, 2.0)[1](3.0),
        ft.linearize(f, 0.5, 2.0)[1](1.0, 1.0),
    ]


@case
def jvp_rule_of_higher_order(ft: Any, np: Any, lax: Any) -> Any:
    f = product(ft, np)
    return [
        ft.grad(ft.grad(f))(0.5, 2.0),
        ft.grad(ft.grad(ft.grad(f)))(0.5, 2.0),
        ft.hessian(f, (0, 1))(0.5, 2.0),
        ft.jacfwd(ft.jacrev(f))(0.5, 2.0),
    ]


@case
def jvp_rule_under_vmap(ft: Any, np: Any, lax: Any) -> Any:
    f = product(ft, np)
    x, y = np.arange(3.0), np.linspace(1.0, 2.0, 3)
    return [
        ft.vmap(f)(x, y),
        ft.vmap(f, (None, 0))(0.5, y),
        ft.vmap(ft.grad(f))(x, y),
        ft.grad(lambda a: ft.vmap(f, (None, 0))(a, y).sum())(0.5),
        ft.grad(lambda a: ft.vmap(f, (0, None))(x, a).sum())(0.5),
        ft.vmap(ft.vmap(ft.grad(f), (None, 0)), (0, None))(x, y),
        ft.jacfwd(lambda a: ft.vmap(f)(a, y))(x),
        ft.grad(lambda a: ft.vmap(ft.vmap(f, (None, 0)), (0, None))(a, y).sum())(x),
    ]


@loop
def jvp_rule_in_loops(ft: Any, np: Any, lax: Any) -> Any:
    f = product(ft, np)

    def scanned(x: Any) -> Any:
        return lax.scan(lambda c, y: (f(c, y), f(y, c)), x, np.arange(1.0, 4.0))

    def branched(x: Any) -> Any:
        return lax.cond(x > 0, lambda v: f(v, 2.0), lambda v: f(2.0, v), x)

    def repeated(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, c: f(c, 1.5), x)

    return [
        ft.grad(lambda x: scanned(x)[0] + scanned(x)[1].sum())(0.5),
        ft.jvp(scanned, (0.5,), (1.0,)),
        ft.grad(branched)(0.5),
        ft.grad(branched)(-0.5),
        ft.jvp(repeated, (0.5,), (1.0,)),
        ft.vmap(ft.grad(lambda x: scanned(x)[0]))(np.arange(3.0)),
    ]


@case
def defjvps_with_none(ft: Any, np: Any, lax: Any) -> Any:
    @ft.custom_jvp
    def f(x: Any, y: Any, z: Any) -> Any:
        return x * y * z

    f.defjvps(
        lambda t, ans, x, y, z: 2 * t * ans, None, lambda t, ans, x, y, z: 3 * t * x
    )
    return [
        ft.grad(f, (0, 1, 2))(2.0, 3.0, 4.0),
        ft.jvp(f, (2.0, 3.0, 4.0), (1.0, 1.0, 1.0)),
    ]


@case
def jvp_rule_of_trees(ft: Any, np: Any, lax: Any) -> Any:
    @ft.custom_jvp
    def f(p: Any, x: Any) -> Any:
        return {"a": p["w"] * x, "b": (np.sin(p["v"]),)}

    @f.defjvp
    def f_jvp(primals: Any, tangents: Any) -> Any:
        p, x = primals
        tp, tx = tangents
        out = {"a": 3 * tp["w"] * x + p["w"] * tx, "b": (5 * tp["v"],)}
        return f(p, x), out

    p = {"w": np.arange(2.0), "v": 0.5}
    return [
        ft.grad(lambda p: f(p, 2.0)["a"].sum() + f(p, 2.0)["b"][0])(p),
        ft.vmap(f, ({"w": 0, "v": None}, None))(p, 3.0),
    ]


@case
def nondiff_arguments(ft: Any, np: Any, lax: Any) -> Any:
    @partial(ft.custom_jvp, nondiff_argnums=(0, 2))
    def apply(g: Any, x: Any, n: Any) -> Any:
        return g(x) * n

    @apply.defjvp
    def apply_jvp(g: Any, n: Any, primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return apply(g, x, n), n * 7.0 * g(x) * t

    @partial(ft.custom_vjp, nondiff_argnums=(0,))
    def other(g: Any, x: Any) -> Any:
        return g(x)

    other.defvjp(lambda g, x: (other(g, x), x), lambda g, x, ct: (ct * g(x) * 11.0,))

    @partial(ft.custom_jvp, nondiff_argnames=("n",))
    def named(x: Any, n: Any = 3) -> Any:
        return x**n

    named.defjvp(lambda n, p, t: (named(p[0], n), n * t[0]))
    return [
        ft.grad(lambda x: apply(np.sin, x, 3))(0.5),
        ft.jit(ft.grad(lambda x: apply(np.sin, x, 3)))(0.5),
        ft.grad(lambda x: other(np.cos, x))(0.5),
        ft.grad(lambda x: named(x, n=2))(0.5),
        ft.grad(named)(0.5),
    ]


@case
def keyword_arguments(ft: Any, np: Any, lax: Any) -> Any:
    @ft.custom_vjp
    def f(x: Any, y: Any = 2.0, z: Any = 3.0) -> Any:
        return x * y + z

    f.defvjp(
        lambda x, y, z: (f(x, y, z), (x, y)),
        lambda r, ct: (ct * r[1] * 5, ct * r[0], None),
    )
    return [
        f(1.0, z=4.0),
        ft.grad(lambda x: f(x, z=4.0))(1.0),
        ft.grad(lambda y: f(z=1.0, y=y, x=7.0))(1.0),
        ft.grad(lambda z: f(1.0, z=z))(1.0),
    ]


def scaled(ft: Any, np: Any) -> Any:
    """(x·y).sum() with a rule that scales by what it has kept."""

    @ft.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return (x * np.sin(y)).sum()

    def fwd(x: Any, y: Any) -> Any:
        return f(x, y), (x, np.sin(y), np.cos(y))

    def bwd(residuals: Any, ct: Any) -> Any:
        x, s, c = residuals
        return 2 * ct * s, 3 * ct * x * c

    f.defvjp(fwd, bwd)
    return f


@case
def vjp_rule(ft: Any, np: Any, lax: Any) -> Any:
    f = scaled(ft, np)
    x, y = np.arange(3.0), np.linspace(1.0, 2.0, 3)
    return [
        f(x, y),
        ft.grad(f, (0, 1))(x, y),
        ft.jit(ft.value_and_grad(f, (0, 1)))(x, y),
        ft.vjp(f, x, y)[1](2.0),
        ft.jacrev(f)(x, y),
        ft.vjp(lambda y: f(x, y), y)[1](2.0),
    ]


@case
def vjp_rule_of_higher_order(ft: Any, np: Any, lax: Any) -> Any:
    f = scaled(ft, np)
    x, y = np.arange(3.0), np.linspace(1.0, 2.0, 3)
    return [
        ft.grad(lambda y: (ft.grad(f, 1)(x, y) ** 2).sum())(y),
        ft.jacrev(ft.jacrev(f, (0, 1)), (0, 1))(x, y),
    ]


@case
def vjp_rule_under_vmap(ft: Any, np: Any, lax: Any) -> Any:
    f = scaled(ft, np)
    x, y = np.arange(6.0).reshape(2, 3), np.linspace(1.0, 2.0, 6).reshape(2, 3)
    return [
        ft.vmap(f)(x, y),
        ft.vmap(ft.grad(f, (0, 1)))(x, y),
        ft.vmap(ft.grad(f, (0, 1)), (None, 0))(x[0], y),
        ft.grad(lambda a: ft.vmap(f, (None, 0))(a, y).sum())(x[0]),
        ft.grad(lambda a: ft.vmap(f, (0, None))(x, a).sum())(y[0]),
        ft.grad(lambda a: ft.vmap(ft.vmap(f, (None, 0)), (0, None))(a, y).sum())(x),
        ft.vmap(ft.vjp(ft.vmap(f), x, y)[1])(np.arange(6.0).reshape(3, 2)),
    ]


@loop
def vjp_rule_in_loops(ft: Any, np: Any, lax: Any) -> Any:
    f = scaled(ft, np)
    y = np.linspace(1.0, 2.0, 3)

    def scanned(x: Any) -> Any:
        def step(c: Any, t: Any) -> Any:
            value = f(c, y * t)
            return c * 0.5 + value, value

        last, values = lax.scan(step, x, np.arange(1.0, 4.0))
        return last.sum() + values.sum()

    def branched(x: Any) -> Any:
        return lax.cond(x.sum() > 0, lambda v: f(v, y), lambda v: f(y, v), x)

    x = np.arange(3.0)
    return [
        scanned(x),
        ft.grad(scanned)(x),
        ft.jit(ft.grad(scanned))(x),
        ft.grad(branched)(x),
        ft.grad(branched)(-x),
        ft.vmap(ft.grad(scanned))(np.arange(6.0).reshape(2, 3)),
        ft.grad(lambda x: ft.vmap(scanned)(x).sum())(np.arange(6.0).reshape(2, 3)),
    ]


@case
def vjp_rule_of_trees_and_none(ft: Any, np: Any, lax: Any) -> Any:
    @ft.custom_vjp
    def f(p: Any, x: Any) -> Any:
        return {"a": p["w"] * x, "b": np.sin(p["v"])}, x

    def fwd(p: Any, x: Any) -> Any:
        return f(p, x), {"p": p, "x": [x]}

    def bwd(kept: Any, ct: Any) -> Any:
        first, second = ct
        p, (x,) = kept["p"], kept["x"]
        return {"w": 2 * first["a"] * x, "v": None}, second + (p["w"] * first["a"])

    f.defvjp(fwd, bwd)
    p = {"w": np.arange(2.0), "v": np.array(0.5)}
    x = np.array([3.0, 4.0])

    def loss(p: Any, x: Any) -> Any:
        out, same = f(p, x)
        return out["a"].sum() + out["b"] + (same**2).sum()

    return [ft.grad(loss, (0, 1))(p, x), ft.jit(ft.grad(loss, (0, 1)))(p, x)]


@case
def forward_rule_computes_the_value(ft: Any, np: Any, lax: Any) -> Any:
    @ft.custom_vjp
    def f(x: Any) -> Any:
        return np.sin(x)

    f.defvjp(lambda x: (np.sin(x) + 100.0, None), lambda _, ct: (ct,))

    @ft.custom_jvp
    def g(x: Any) -> Any:
        return np.sin(x)

    g.defjvp(lambda p, t: (np.sin(p[0]) + 100.0, 2 * t[0]))
    return [
        f(0.5),
        ft.value_and_grad(f)(0.5),
        ft.value_and_grad(lambda x: f(x) ** 2)(0.5),
        ft.vjp(f, 0.5)[0],
        ft.jvp(g, (0.5,), (1.0,)),
        ft.value_and_grad(lambda x: g(x) * g(x))(0.5),
        ft.vmap(ft.value_and_grad(f))(np.arange(3.0)),
        ft.grad(ft.grad(f))(0.5),
        ft.grad(ft.grad(g))(0.5),
    ]


@case
def integer_arguments_and_results(ft: Any, np: Any, lax: Any) -> Any:
    @ft.custom_vjp
    def f(x: Any, i: Any) -> Any:
        return x[i] * 2, i + 1

    f.defvjp(
        lambda x, i: (f(x, i), (x.shape[0], i)),
        lambda r, ct: (np.zeros(3).at[r[1]].set(ct[0] * 5), None),
    )

    @ft.custom_jvp
    def g(x: Any, n: Any) -> Any:
        return x * n, n

    @g.defjvp
    def g_jvp(primals: Any, tangents: Any) -> Any:
        (x, n), (t, tn) = primals, tangents
        return g(x, n), (t * n * 3, tn)

    x = np.arange(3.0)
    return [
        ft.grad(lambda x: f(x, 1)[0])(x),
        ft.grad(lambda x: g(x, 4)[0])(2.0),
        ft.jit(ft.grad(lambda x, i: f(x, i)[0]))(x, 2),
    ]


@case
def complex_values(ft: Any, np: Any, lax: Any) -> Any:
    @ft.custom_jvp
    def f(z: Any) -> Any:
        return z * z

    f.defjvp(lambda p, t: (f(p[0]), 4 * p[0] * t[0]))
    return [
        ft.grad(f, holomorphic=True)(1.0 + 2.0j),
        ft.jvp(f, (1.0 + 2.0j,), (1.0j,)),
        ft.grad(lambda x: f(x * (1.0 + 1.0j)).real)(0.5),
    ]


@case
def rules_that_call_each_other(ft: Any, np: Any, lax: Any) -> Any:
    f = product(ft, np)
    g = scaled(ft, np)

    @ft.custom_vjp
    def h(x: Any, y: Any) -> Any:
        return f(x.sum(), y.sum()) + g(x, y)

    def fwd(x: Any, y: Any) -> Any:
        value, pull = ft.vjp(lambda x: g(x, y), x)
        return f(x.sum(), y.sum()) + value, (pull(1.0)[0], x, y)

    h.defvjp(fwd, lambda r, ct: (ct * r[0] * 2, ct * ft.grad(g, 1)(r[1], r[2])))
    x, y = np.arange(3.0), np.linspace(1.0, 2.0, 3)
    return [h(x, y), ft.grad(h, (0, 1))(x, y), ft.jacrev(ft.jacrev(h))(x, y)]


@case
def symbolic_zeros(ft: Any, np: Any, lax: Any) -> Any:
    seen: list[Any] = []
    zero = ft.custom_derivatives.SymbolicZero

    @ft.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return x * y

    def f_jvp(primals: Any, tangents: Any) -> Any:
        (x, y), (t, u) = primals, tangents
        seen.append([isinstance(t, zero), isinstance(u, zero), u.shape == y.shape])
        out = zero_or(t, zero, lambda: t * y) + zero_or(u, zero, lambda: u * x * 9)
        return f(x, y), out

    f.defjvp(f_jvp, symbolic_zeros=True)

    @ft.custom_vjp
    def g(x: Any, y: Any) -> Any:
        return x * 2, y * 3

    def fwd(x: Any, y: Any) -> Any:
        seen.append([x.perturbed, y.perturbed])
        return g(x.value, y.value), None

    def bwd(_: Any, cts: Any) -> Any:
        seen.append([isinstance(ct, zero) for ct in cts])
        ct = cts[0]
        return zero_or(ct, zero, lambda: ct * 7) + 0.0 * np.ones(2), np.zeros(2)

    g.defvjp(fwd, bwd, symbolic_zeros=True)
    x = np.arange(2.0)
    found = [
        ft.grad(lambda x: f(x, np.array(3.0)))(2.0),
        ft.grad(lambda x: g(x, x * 0 + 1)[0].sum())(x),
        ft.grad(lambda x: g(x, np.ones(2))[0].sum())(x),
    ]
    return [found, np.array([bool(v) for row in seen for v in row])]


def zero_or(value: Any, zero: Any, otherwise: Any) -> Any:
    return 0.0 if isinstance(value, zero) else otherwise()


@case
def closures_over_outer_values(ft: Any, np: Any, lax: Any) -> Any:
    def outer(a: Any) -> Any:
        @ft.custom_jvp
        def f(x: Any) -> Any:
            return a * x

        f.defjvp(lambda p, t: (f(p[0]), 7 * a * t[0]))
        return ft.grad(f)(1.0) + f(2.0)

    constant = np.arange(3.0)

    @ft.custom_vjp
    def g(x: Any) -> Any:
        return (x * constant).sum()

    g.defvjp(lambda x: (g(x), None), lambda _, ct: (ct * constant * 2,))
    return [
        outer(3.0),
        ft.jit(outer)(3.0),
        ft.vmap(outer)(np.arange(3.0)),
        ft.grad(g)(constant),
        ft.jit(ft.grad(g))(constant),
        ft.jit(ft.vmap(ft.grad(g)))(np.ones((2, 3))),
    ]


@case
def converted_closures(ft: Any, np: Any, lax: Any) -> Any:
    def adjusted(a: Any, b: Any) -> Any:
        c = np.sin(b)

        def inner(x: Any) -> Any:
            return a * x + c

        converted, values = ft.closure_convert(inner, 1.0)

        @partial(ft.custom_vjp, nondiff_argnums=(0,))
        def apply(g: Any, x: Any, *consts: Any) -> Any:
            return g(x, *consts)

        apply.defvjp(
            lambda g, x, *consts: (g(x, *consts), (x, consts)),
            lambda g, r, ct: tuple(
                2 * v for v in ft.vjp(lambda x, *c: g(x, *c), r[0], *r[1])[1](ct)
            ),
        )
        return apply(converted, 2.0, *values)

    return [
        ft.grad(adjusted, (0, 1))(3.0, 0.5),
        ft.jit(ft.grad(adjusted, (0, 1)))(3.0, 0.5),
    ]


@case
def gradients_instead_of_rules(ft: Any, np: Any, lax: Any) -> Any:
    @ft.custom_gradient
    def f(x: Any) -> Any:
        return x**2, lambda g: (g * x * 5,)

    @ft.custom_gradient
    def h(x: Any, y: Any) -> Any:
        s = np.sin(x)
        return x * y, lambda g: (y * s, x + g)

    return [
        f(3.0),
        ft.grad(f)(3.0),
        ft.grad(h, (0, 1))(3.0, 2.0),
        ft.vmap(ft.grad(f))(np.arange(3.0)),
        ft.jit(ft.grad(h, (0, 1)))(3.0, 2.0),
        ft.grad(ft.grad(f))(3.0),
    ]


@case
def linear_calls(ft: Any, np: Any, lax: Any) -> Any:
    def f(r: Any, x: Any) -> Any:
        return r * x

    def transposed(r: Any, ct: Any) -> Any:
        return 3 * r * ct

    def call(r: Any, x: Any) -> Any:
        return ft.custom_derivatives.linear_call(f, transposed, r, x)

    x = np.arange(3.0)
    return [
        call(2.0, x),
        ft.jit(call)(2.0, x),
        ft.grad(lambda x: call(2.0, x).sum())(x),
        ft.jvp(lambda x: call(2.0, x), (x,), (x,)),
        ft.linear_transpose(lambda x: call(2.0, x), x)(x),
    ]


@case
def batching_by_a_rule(ft: Any, np: Any, lax: Any) -> Any:
    seen: list[Any] = []

    @ft.custom_batching.custom_vmap
    def f(x: Any, y: Any) -> Any:
        return np.sin(x) * y

    @f.def_vmap
    def f_vmap(axis_size: Any, in_batched: Any, x: Any, y: Any) -> Any:
        seen.append([axis_size, *in_batched])
        return 10 * np.sin(x) * y, True

    @ft.custom_batching.custom_vmap
    def g(p: Any) -> Any:
        return {"a": p[0] + p[1], "b": p[1]}

    @g.def_vmap
    def g_vmap(axis_size: Any, in_batched: Any, p: Any) -> Any:
        (pair,) = in_batched
        seen.append([axis_size, *pair])
        return {"a": 2 * p[0] + p[1], "b": p[1]}, {"a": True, "b": pair[1]}

    x = np.arange(3.0)
    found = [
        f(1.0, 2.0),
        ft.vmap(f)(x, x),
        ft.vmap(f, (0, None))(x, 2.0),
        ft.jit(ft.vmap(f, (None, 0)))(2.0, x),
        ft.vmap(lambda a: f(a, 1.0) * f(2.0, 3.0))(x),
        ft.vmap(g, ((0, None),))((x, 5.0)),
    ]
    return [found, np.array([int(v) for row in seen for v in row])]


@case
def derivatives_of_batching_rules(ft: Any, np: Any, lax: Any) -> Any:
    @ft.custom_batching.custom_vmap
    def f(x: Any, y: Any) -> Any:
        return np.sin(x) * y

    @f.def_vmap
    def f_vmap(axis_size: Any, in_batched: Any, x: Any, y: Any) -> Any:
        return 10 * np.sin(x) * y * np.ones(axis_size), True

    x = np.arange(3.0)

    def moved(a: Any, t: Any) -> Any:
        return ft.jvp(f, (a, 2.0), (t, 1.0))

    return [
        ft.jvp(f, (1.0, 2.0), (3.0, 4.0)),
        ft.jvp(ft.vmap(f), (x, x), (x, x)),
        ft.vmap(moved)(x, x),
    ]


@loop
def sequential_batching(ft: Any, np: Any, lax: Any) -> Any:
    @ft.custom_batching.sequential_vmap
    def f(x: Any, y: Any) -> Any:
        return np.sin(x).sum() * y

    x, y = np.arange(6.0).reshape(3, 2), np.arange(3.0)
    return [
        f(x[0], 2.0),
        ft.vmap(f)(x, y),
        ft.vmap(f, (0, None))(x, 2.0),
        ft.jit(ft.vmap(f, (None, 0)))(x[1], y),
    ]


@case
def checkpointed_derivatives(ft: Any, np: Any, lax: Any) -> Any:
    @ft.checkpoint
    def f(x: Any, w: Any) -> Any:
        return np.sin(np.sin(x @ w) @ w)

    x, w = np.arange(4.0).reshape(2, 2) / 4, np.arange(4.0).reshape(2, 2) / 5

    def loss(x: Any, w: Any) -> Any:
        return (f(f(x, w), w) ** 2).sum()

    named = partial(ft.checkpoint, static_argnums=(1,))(
        lambda x, n, y: np.sin(x) ** n * y
    )
    return [
        f(x, w),
        ft.grad(loss, (0, 1))(x, w),
        ft.jit(ft.value_and_grad(loss, (0, 1)))(x, w),
        ft.jvp(loss, (x, w), (w, x)),
        ft.grad(lambda x: (ft.grad(loss)(x, w) ** 2).sum())(x),
        ft.vmap(ft.grad(loss), (0, None))(np.stack([x, w]), w),
        ft.grad(named)(0.5, 3, 2.0),
    ]


@loop
def checkpointed_loops(ft: Any, np: Any, lax: Any) -> Any:
    x, w = np.arange(4.0) / 4, np.arange(16.0).reshape(4, 4) / 50

    def loss(x: Any, w: Any) -> Any:
        @partial(ft.checkpoint, prevent_cse=False)
        def step(c: Any, t: Any) -> Any:
            c = np.sin(c @ w) + t
            return c, c.sum()

        last, sums = lax.scan(step, x, np.arange(3.0))
        return last.sum() + sums[1]

    inner = ft.checkpoint(
        lambda x: lax.scan(lambda c, t: (np.sin(c) * t, c), x, np.arange(3.0))[1]
    )
    return [
        loss(x, w),
        ft.grad(loss, (0, 1))(x, w),
        ft.vmap(ft.grad(loss), (0, None))(np.stack([x, 2 * x]), w),
        ft.grad(lambda x: inner(x).sum())(x),
        ft.jacfwd(lambda x: inner(x).sum())(x),
    ]


@case
def rules_inside_checkpoint(ft: Any, np: Any, lax: Any) -> Any:
    f = product(ft, np)
    g = scaled(ft, np)
    x, y = np.arange(3.0), np.linspace(1.0, 2.0, 3)

    @ft.checkpoint
    def both(x: Any, y: Any) -> Any:
        return g(np.sin(x), y) + f(x.sum(), y.sum())

    return [
        ft.grad(both, (0, 1))(x, y),
        ft.grad(lambda x: ft.checkpoint(both)(x * 2, y))(x),
    ]

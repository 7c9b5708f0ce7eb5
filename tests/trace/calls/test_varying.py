"""Which values differ between devices: derivatives within `shard_map`, and its check.

The gradient that a function takes of itself within `shard_map` is held to the one that
is taken outside, of a function of all devices' values that is a function of lanes then
and knows nothing of devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors, lax
from ftrace.sharding import PartitionSpec as P

BOTH = ("x", "y")
W = np.linspace(0.2, 1, 8, dtype=np.float32)
V = np.linspace(-1, 1, 16, dtype=np.float32)
X = (np.arange(128, dtype=np.float32).reshape(16, 8) % 13) / 7 - 0.5
IN = (P(), P("x"), P(BOTH))
SIZES = {"x": 2, "y": 4}


@pytest.fixture(autouse=True)
def eight() -> Iterator[None]:
    with ft.config(cpu_devices=8):
        yield


def over(f: Any, into: Any, out: Any, **options: Any) -> Any:
    mesh = ft.make_mesh((2, 4), BOTH)
    return ft.shard_map(f, mesh=mesh, in_specs=into, out_specs=out, **options)


def each(x: Any) -> Any:
    return lax.pcast(x, BOTH, to="varying")


def ring(x: Any) -> Any:
    return lax.ppermute(x, "y", [(i, (i + 1) % 4) for i in range(4)])


def gathered(w: Any, x: Any, to: str) -> Any:
    rows = lax.all_gather(dense(w, x), BOTH, to=to)
    return (rows * fnp.arange(16).reshape(8, 2)).sum()


def dense(w: Any, x: Any) -> Any:
    return fnp.tanh(x @ w)


# Functions with rules, and what they are without.


@ft.custom_jvp
def softplus(a: Any) -> Any:
    return fnp.log1p(fnp.exp(a))


@softplus.defjvp
def _softplus_jvp(primals: Any, tangents: Any) -> Any:
    (a,), (t,) = primals, tangents
    return softplus(a), t / (1 + fnp.exp(-a))


@ft.custom_jvp
def affine(w: Any, x: Any) -> Any:
    return w * x.sum()


@affine.defjvp
def _affine_jvp(primals: Any, tangents: Any) -> Any:
    (w, x), (dw, dx) = primals, tangents
    return affine(w, x), dw * x.sum() + w * dx.sum()


@ft.custom_vjp
def rows(w: Any, x: Any) -> Any:
    return (x * w).sum(-1)


rows.defvjp(
    lambda w, x: (rows(w, x), (w, x)),
    lambda r, ct: (lax.psum((ct[:, None] * r[1]).sum(0), BOTH), ct[:, None] * r[0]),
)


@ft.custom_vjp
def total(w: Any, x: Any) -> Any:
    return lax.psum((x @ w).sum(), BOTH)


total.defvjp(
    lambda w, x: (total(w, x), (w, x)),
    lambda r, ct: (lax.psum(ct * r[1].sum(0), BOTH), each(ct * r[0] + 0 * r[1])),
)


def recurrence(w: Any, v: Any, x: Any) -> Any:
    def step(c: Any, r: Any) -> Any:
        return c * 0.5 + fnp.tanh(r @ w), (c * w).sum()

    c, ys = lax.scan(step, 0.0, x)
    return c + ys.sum()


def training(w: Any, v: Any, x: Any) -> Any:
    """What goes around is the same on all devices."""

    def step(c: Any, r: Any) -> Any:
        c = c - 0.1 * ft.grad(lambda c: fnp.tanh((c * r).sum()) + c[0])(c)
        return c, (c * r).sum()

    c, ys = lax.scan(step, w, x)
    return c.sum() + ys.sum()


def training_by_hand(w: Any, v: Any, x: Any) -> Any:
    def step(c: Any, r: Any) -> Any:
        g = ft.grad(lambda c: fnp.tanh((c * r).sum()) + c[0])(c)
        c = c - 0.1 * lax.psum(g, BOTH)
        return c, (c * r).sum()

    c, ys = lax.scan(step, w, x)
    return c.sum() + ys.sum()


def descent(w: Any, v: Any, x: Any) -> Any:
    def step(c: Any, r: Any) -> Any:
        c = c - 0.1 * lax.psum(fnp.cos(c * r.sum()), BOTH)
        return c, (c * r).sum()

    c, ys = lax.scan(step, w, x)
    return c.sum() + ys.sum()


def branches(w: Any, v: Any, x: Any) -> Any:
    def one(w: Any, x: Any) -> Any:
        return lax.psum((fnp.sin(w) * x).sum(), BOTH) + w[0]

    def two(w: Any, x: Any) -> Any:
        return lax.psum((w + x).sum() * w[2], BOTH)

    return lax.cond(w[0] > 0, one, two, w, x) * w[3]


def choice(w: Any, v: Any, x: Any) -> Any:
    """Each device takes a branch of its own."""
    taken = lambda w, x: (w * x).sum()  # noqa: E731
    other = lambda w, x: (w + x).sum()  # noqa: E731
    return lax.cond(x.sum() > 10, taken, other, w, x)


def layers(w: Any, v: Any, x: Any) -> Any:
    def layer(w: Any, x: Any) -> Any:
        return fnp.sin(lax.psum(dense(w, x).sum(), "x") * w + x)

    again: Any = ft.checkpoint(layer)
    return again(w, again(w, x)).sum()


def steps_with_rules(w: Any, v: Any, x: Any) -> Any:
    @ft.checkpoint
    def step(c: Any, r: Any) -> Any:
        return c + softplus(w * r).sum(), rows(w, x).sum() * c

    c, ys = lax.scan(step, 0.0, x)
    return c + ys.sum()


def steps_without(w: Any, v: Any, x: Any) -> Any:
    def step(c: Any, r: Any) -> Any:
        return c + fnp.log1p(fnp.exp(w * r)).sum(), (x * w).sum() * c

    c, ys = lax.scan(step, 0.0, x)
    return c + ys.sum()


def until(w: Any, v: Any, x: Any) -> Any:
    """Each device iterates until its own has grown."""
    found = lax.while_loop(lambda c: (c**2).sum() < 40, lambda c: c * 1.3 + w, w + x[0])
    return found.sum()


def until_all(w: Any, v: Any, x: Any) -> Any:
    def grows(c: Any) -> Any:
        return c * 1.3 + w * lax.psum(fnp.sin(c * x[0]).sum(), "y") / 8

    def goes_on(c: Any) -> Any:
        return lax.psum((c**2).sum(), BOTH) < 400

    return lax.while_loop(goes_on, grows, w + x[0]).sum()


def inner_jvp(w: Any, v: Any, x: Any) -> Any:
    value, tangent = ft.jvp(lambda w: (fnp.sin(w) + x).sum(), (w,), (w * 0.5,))
    return value * tangent


def inner_vjp(w: Any, v: Any, x: Any, sums: Any = lambda x, names: x) -> Any:
    value, pull = ft.vjp(lambda w: fnp.sin(w * x), w)
    return (sums(pull(value)[0], BOTH) * w).sum()


def inner_grad(w: Any, v: Any, x: Any, sums: Any = lambda x, names: x) -> Any:
    own = ft.grad(lambda v: (w * v[:8] * x[0]).sum())(v)
    shared = ft.grad(lambda w: (dense(w, x) ** 2).sum())(w)
    return (sums(own, "y") ** 2).sum() + (sums(shared, BOTH) * w).sum()


def inner_jit(w: Any, v: Any, x: Any, sums: Any = lambda x, names: x) -> Any:
    """One jitted function, of values that differ along other axes each time."""
    g: Any = ft.jit(ft.grad(lambda w, x: (w * x).sum() ** 2))
    shared = sums(g(w, x[0]), BOTH)
    return (g(w, w) * w).sum() + (shared * v[0]).sum() + (g(x[0], w) * x).sum()


def lanes(w: Any, v: Any, x: Any) -> Any:
    def one(a: Any, r: Any) -> Any:
        return a * r.sum() + lax.psum(a * r[0], "x") + lax.psum(a * r[1], "lane") * a

    return ft.vmap(one, in_axes=(0, 1), axis_name="lane")(w, x).sum()


def rooted(w: Any, v: Any, x: Any) -> Any:
    """Of a function that closes over what devices share; what solves it has its own."""
    shared = lax.psum((x * w) ** 2, BOTH).sum(0) + 1

    def f(y: Any) -> Any:
        return y * y - shared

    def solve(g: Any, y: Any) -> Any:
        return y / g(fnp.ones_like(y))

    root = lax.custom_root(f, w, lambda f, y: fnp.sqrt(shared), solve)
    halved = lax.custom_linear_solve(
        lambda y: y * (shared + w), root * x[0], solve, symmetric=True
    )
    return (root * w).sum() + (halved * x).sum()


Loss = Callable[[Any, Any, Any], Any]

#: f(w, v, x) of a w that is the same on all devices, a v for each along x, an x for
#: each: the value of a device, or one for all. After it, where it means something else
#: without the check, what it means with it.
LOSSES: dict[str, tuple[Loss, ...]] = {
    "dense": (lambda w, v, x: (dense(w, x) * v[:2]).sum(),),
    "psum": (lambda w, v, x: lax.psum((dense(w, x) ** 2).sum(), BOTH),),
    "pmean": (lambda w, v, x: lax.pmean((dense(w, x) ** 2).sum(), BOTH),),
    "psum along one": (lambda w, v, x: lax.psum(dense(w, x).sum() * v[0], "y"),),
    "psum within": (
        lambda w, v, x: (fnp.sin(lax.psum(x.T @ dense(w, x), "x")) * w).sum(),
    ),
    "psum of the same": (lambda w, v, x: (lax.psum(w, "x") * x).sum() + (w**2).sum(),),
    "the same alone": (lambda w, v, x: (w**3).sum(),),
    "a sum alone": (lambda w, v, x: (w + x).sum(),),
    "pmax": (lambda w, v, x: lax.pmax((x @ w).sum(), BOTH) * w[0],),
    "pmin": (lambda w, v, x: lax.pmin((x * v[0]).sum(), "y"),),
    "all_gather": (lambda w, v, x: (lax.all_gather(x @ w, "y") ** 2).sum() * w[0],),
    "all_gather tiled": (
        lambda w, v, x: (
            lax.all_gather(dense(w, x), BOTH, tiled=True) * fnp.arange(16)
        ).sum(),
    ),
    "all_gather to one": (
        lambda w, v, x: gathered(w, x, "invarying"),
        lambda w, v, x: gathered(w, x, "varying"),
    ),
    "psum_scatter": (
        lambda w, v, x: fnp.sin(
            lax.psum_scatter(x * w, "y", scatter_dimension=1, tiled=True) * v[:2]
        ).sum(),
    ),
    "psum_scatter of the same": (
        lambda w, v, x: fnp.sin(lax.psum_scatter(w, "y", tiled=True)).sum(),
    ),
    "ppermute": (lambda w, v, x: (ring(x @ w) ** 2).sum() + (ring(w) * w).sum(),),
    "ppermute along two": (
        lambda w, v, x: (w * lax.ppermute(x, BOTH, [(0, 7), (3, 1), (7, 0)])).sum(),
    ),
    "all_to_all": (
        lambda w, v, x: fnp.cos(lax.all_to_all(x * w, "y", 1, 0, tiled=True)).sum(),
    ),
    "axis_index": (lambda w, v, x: (w * (1 + lax.axis_index("x"))).sum() * x.sum(),),
    "pcast": (lambda w, v, x: (lax.pcast(w, "x", to="varying") * x * w).sum(),),
    "scan": (recurrence,),
    "scan of the same": (
        lambda w, v, x: lax.fori_loop(0, 3, lambda i, c: c * w, w).sum() * x.sum(),
    ),
    "training in scan": (training, training_by_hand),
    "descent in scan": (descent,),
    "cond": (branches,),
    "cond of each": (choice,),
    "while of each": (until,),
    "while of all": (until_all,),
    "checkpoint": (layers,),
    "custom_jvp": (
        lambda w, v, x: softplus(x @ w).sum() * w[1] + affine(w[0], x) * v[0],
    ),
    "custom_vjp": (
        lambda w, v, x: fnp.sin(rows(w, x)).sum(),
        lambda w, v, x: fnp.sin((x * w).sum(-1)).sum(),
    ),
    "custom_vjp of a psum": (
        lambda w, v, x: fnp.sin(total(w, x)) * (w * x[0]).sum(),
        lambda w, v, x: fnp.sin(lax.psum((x @ w).sum(), BOTH)) * (w * x[0]).sum(),
    ),
    "rules in a loop": (steps_with_rules, steps_without),
    "jit": (lambda w, v, x: ft.jit(dense)(w, x).sum() + ft.jit(lambda w: w @ w)(w),),
    "vmap": (lanes,),
    "grad of grad": (inner_grad, partial(inner_grad, sums=lax.psum)),
    "grad that is constant": (
        lambda w, v, x: (ft.grad(lambda v: v.sum())(v)[:8] * w).sum(),
    ),
    "jvp": (inner_jvp,),
    "vjp": (inner_vjp, partial(inner_vjp, sums=lax.psum)),
    "jit of grad": (inner_jit, partial(inner_jit, sums=lax.psum)),
    "update": (
        lambda w, v, x: (x.at[0].set(w) * x).sum() + w.at[0].set(x[0, 0]).sum(),
    ),
    "concatenate": (lambda w, v, x: fnp.sin(fnp.concatenate([w, v])).sum() * w[0],),
    "where": (
        lambda w, v, x: fnp.where(x > 0, w, w * 2).sum() + fnp.maximum(w, x).sum(),
    ),
    "sort": (lambda w, v, x: (fnp.sort(w + x[0]) * fnp.arange(8)).sum(),),
    "solvers": (rooted,),
}  # fmt: skip


def from_outside(loss: Loss) -> Any:
    """What each device's value of each argument adds to the sum of all losses."""

    def summed(*copies: Any) -> Any:
        def one(*parts: Any) -> Any:
            return loss(*[x[0] for x in parts])[None]

        return over(one, P(BOTH), P(BOTH), check_vma=False)(*copies).sum()

    w = np.broadcast_to(W, (8, 8))
    v = np.repeat(V.reshape(2, 8), 4, axis=0)
    return ft.jit(ft.grad(summed, (0, 1, 2)))(w, v, X.reshape(8, 2, 8))


@pytest.mark.parametrize("name", LOSSES)
def test_a_gradient_within_is_the_one_from_outside(name: str) -> None:
    loss, plain = LOSSES[name][0], LOSSES[name][-1]
    types: list[Any] = []

    def within(*args: Any) -> Any:
        value, found = ft.value_and_grad(loss, (0, 1, 2))(*args)
        types.append([ft.typeof(x).mat.varying for x in (value, *found)])
        return [x[None] for x in found]

    outside = from_outside(plain)
    once = over(within, IN, P(BOTH))
    found = ft.jit(once)(W, V, X), once(W, V, X)
    varying, *of_gradients = types[0]
    assert of_gradients == [frozenset(), frozenset("x"), frozenset(BOTH)]
    same = np.prod([n for axis, n in SIZES.items() if axis not in varying])
    for way in found:
        for x, per_device, axes in zip(way, outside, [(0, 1), (1,), ()], strict=True):
            parts = per_device.reshape(2, 4, *per_device.shape[1:]) / same
            wanted = np.broadcast_to(np.sum(parts, axes, keepdims=True), parts.shape)
            got = np.reshape(x, parts.shape)
            np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    "name", ["custom_vjp", "rules in a loop", "while of each", "solvers"]
)
def test_a_second_derivative_goes_through_rules_and_loops(name: str) -> None:
    def slopes(loss: Loss, w: Any) -> Any:
        def total(w: Any) -> Any:
            return over(lambda v, x: lax.psum(loss(w, v, x), BOTH), IN[1:], P())(V, X)

        return ft.grad(total)(w)

    loss, plain = LOSSES[name][0], LOSSES[name][-1]

    def within(w: Any, v: Any, x: Any) -> Any:
        return ft.grad(lambda w: (ft.grad(loss)(w, v, x) ** 2).sum())(w)

    found = ft.jit(over(within, IN, P()))(W, V, X)
    wanted = ft.jit(ft.grad(lambda w: (slopes(plain, w) ** 2).sum()))(W)
    np.testing.assert_allclose(found, wanted, rtol=1e-3)


@pytest.mark.parametrize("name", [n for n, row in LOSSES.items() if len(row) == 1])
def test_without_the_check_a_gradient_is_that_of_the_sum_in_each_device(
    name: str,
) -> None:
    (loss,) = LOSSES[name]

    def within(*args: Any) -> Any:
        return [x[None] for x in ft.grad(loss, (0, 1, 2))(*args)]

    found = ft.jit(over(within, IN, P(BOTH), check_vma=False))(W, V, X)
    for got, wanted in zip(found, from_outside(loss), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-5)


def test_one_gradient_of_data_in_parts_is_that_of_the_whole() -> None:
    """Whatever the axes, and however deep: what a user does first."""

    def loss(params: Any, x: Any) -> Any:
        return (fnp.tanh(x @ params["w"] + params["b"]) ** 2).sum()

    params = {"w": W, "b": np.float32(0.5)}
    wanted = ft.grad(loss)(params, X)

    def nested(params: Any, x: Any) -> Any:
        into, out = (P(), P("y")), P()
        mesh = ft.make_mesh((2, 4), BOTH)
        inner = ft.shard_map(
            ft.grad(loss), mesh=mesh, in_specs=into, out_specs=out, axis_names={"y"}
        )
        return inner(params, x)

    def transposed(params: Any, x: Any) -> Any:
        value, push = ft.linearize(lambda p: loss(p, x), params)
        (found,) = ft.linear_transpose(push, params)(fnp.ones_like(value))
        return found

    def pulled(params: Any, x: Any) -> Any:
        return ft.vjp(lambda p: loss(p, x), params)[1](fnp.ones(()))[0]

    ways = [
        over(ft.grad(loss), (P(), P(BOTH)), P()),
        over(ft.jacrev(loss), (P(), P("y")), P()),
        over(nested, (P(), P("x")), P(), axis_names={"x"}),
        over(transposed, (P(), P("x")), P()),
        over(pulled, (P(), P("x")), P()),
    ]
    for way in [*ways, *map(ft.jit, ways)]:
        found = way(params, X)
        for got, exact in zip(
            ft.tree.leaves(found), ft.tree.leaves(wanted), strict=True
        ):
            np.testing.assert_allclose(got, exact, rtol=1e-5)


def test_second_derivatives_and_columns_are_those_of_the_whole() -> None:
    def within(w: Any, x: Any) -> Any:
        return lax.psum(fnp.sin(x @ w).sum(), BOTH)

    def whole(w: Any) -> Any:
        return fnp.sin(X @ w).sum()

    for transform in (ft.hessian, ft.jacfwd, lambda f: ft.jacfwd(ft.grad(f))):
        found = over(transform(within), (P(), P(BOTH)), P())(W, X)
        np.testing.assert_allclose(found, transform(whole)(W), rtol=1e-4, atol=1e-5)


def test_a_loop_carries_what_comes_to_differ() -> None:
    """Also along axes of which the first carry knows nothing."""

    def step(c: Any) -> Any:
        assert ft.typeof(c).mat.varying <= {"x"}
        return c + x_sum[0]

    x_sum: list[Any] = []

    def until(x: Any) -> Any:
        x_sum[:] = [lax.psum(x.sum(), "y")]
        count = lax.fori_loop(0, 2, lambda i, c: c + 1, 0)
        found = lax.while_loop(lambda c: c.sum() < 5, step, fnp.zeros(2))
        assert ft.typeof(found).vma == {"x"}
        assert not ft.typeof(count).vma
        return found[None], count

    found, count = over(until, P(BOTH), (P("x"), P()))(abs(X))
    assert count == 2
    for got, part in zip(found, np.split(abs(X), 2), strict=True):
        total = np.zeros(2, np.float32)
        while total.sum() < 5:
            total = total + part.sum()
        np.testing.assert_allclose(got, total, rtol=1e-5)


def test_what_devices_share_stays_shared_through_rules_and_closures() -> None:
    shared = P(), P("x")
    ruled = over(lambda w, x: softplus(w) + lax.psum(x, "x").sum(0), shared, P())
    np.testing.assert_allclose(ruled(W, X), softplus(W) + X.sum(0), rtol=1e-5)
    slope = ft.grad(lambda w: ruled(w, X).sum())(W)
    np.testing.assert_allclose(slope, 1 / (1 + np.exp(-W)), rtol=1e-5)

    def around(w: Any) -> Any:
        return over(lambda x: w * lax.psum(x, "x").sum(0), P("x"), P())(X)

    ft.make_jaxpr(around)(W)
    loop = ft.jit(lambda w: lax.fori_loop(0, 2, lambda i, c: around(c), w))
    np.testing.assert_allclose(loop(W), W * X.sum(0) ** 2, rtol=1e-5)
    slope = ft.grad(lambda w: loop(w).sum())(W)
    np.testing.assert_allclose(slope, X.sum(0) ** 2, rtol=1e-5)


def test_devices_draw_alike_from_one_key() -> None:
    def draw(key: Any, a: Any) -> Any:
        return ft.random.gamma(lax.pcast(key, "x", to="varying"), a)

    key = ft.random.key(3)
    found = over(draw, (P(), P("x")), P("x"))(key, np.ones(6, np.float32))
    np.testing.assert_array_equal(found[:3], found[3:])
    np.testing.assert_array_equal(found[:3], ft.random.gamma(key, np.ones(3)))


def test_smap_maps_one_axis_after_the_other() -> None:
    @ft.smap(axis_name="x", in_axes=0, out_axes=0)
    def f(x: Any) -> Any:
        @ft.smap(axis_name="y", in_axes=0, out_axes=None)
        def g(x: Any) -> Any:
            assert ft.typeof(x).vma == set(BOTH)
            return lax.psum(x, "y")

        found = g(x)
        assert ft.typeof(found).vma == {"x"}
        return found

    with ft.set_mesh(ft.make_mesh((2, 4), BOTH)):
        found = f(V)
    np.testing.assert_allclose(found, V.reshape(2, 4, 2).sum(1).ravel(), rtol=1e-5)


def test_types_tell_where_values_differ() -> None:
    seen: list[Any] = []

    def f(w: Any, x: Any) -> Any:
        here = [
            w, x, w * x, lax.psum(x, "x"), lax.pmax(x, BOTH), lax.axis_index("y"),
            lax.all_gather(x, "x"), lax.all_gather(x, "x", to="invarying"),
            lax.pcast(w, "y", to="varying"), 1.0, W, fnp.zeros_like(x),
            ft.jit(lambda v: v.sum())(x), lax.cond(x[0] > 0, lambda: w, lambda: w),
        ]  # fmt: skip
        seen[:] = ["".join(sorted(ft.typeof(value).vma)) for value in here]
        return repr(ft.typeof(w * x)) == "f32[4]{V:x}"

    assert over(lambda w, x: fnp.where(f(w[0], x), 1, 0), (P(), P("x")), P())(W, V[:8])
    assert seen == ["", "x", "x", "", "", "y", "x", "", "y", "", "", "", "x", "x"]
    assert ft.typeof(W).mat.varying == frozenset() == ft.typeof(W).vma
    assert ft.typeof(W).manual_axis_type == ft.typeof(W).mat


def test_what_differs_where_it_must_not_is_an_error() -> None:
    @ft.custom_vjp
    def forgets(w: Any, x: Any) -> Any:
        return (w * x).sum()

    forgets.defvjp(
        lambda w, x: (forgets(w, x), (w, x)),
        lambda r, ct: ((ct * r[1]).sum(0), ct * r[0] + 0 * r[1]),
    )
    with pytest.raises(errors.DerivativeError, match="of devices 'x', along"):
        over(ft.grad(forgets), (P(), P("x")), P())(W, X)
    with pytest.raises(errors.ValueRangeError, match="was given out_specs"):
        over(lambda x: x, P("x", "y"), P("x"))(X)
    with pytest.raises(errors.ValueRangeError, match="Unsupported pcast"):
        over(lambda x: lax.pcast(x, "x", to="varying"), P("x"), P("x"))(X)
    with pytest.raises(errors.ValueRangeError, match=r"differ along {y}"):
        over(lambda x: lax.all_gather(x, "y"), P("y"), P())(X)
    same = over(
        lambda x: lax.all_gather(x, "y", tiled=True), P("y"), P(), check_vma=False
    )
    np.testing.assert_array_equal(same(X), X)

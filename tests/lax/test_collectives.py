"""Collectives along named axes, held to what they mean on the whole batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors, lax
from ftrace.errors import AxisNameError, DerivativeError, ShapeError, ValueRangeError
from ftrace.lax import parallel
from ftrace.testing import check_grads

N = 4
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, N, 3))
SWAP = [(0, 2), (2, 1), (1, 0)]


def sent(x: Any, perm: Any) -> Any:
    result = np.zeros_like(x)
    for a, b in perm:
        result[b] = x[a]
    return result


def same(x: Any) -> Any:
    return np.broadcast_to(x, (N, *np.shape(x)))


def tiles(x: Any, split: int, concat: int) -> Any:
    """What `all_to_all(tiled=True)` is, of instances that are rows of x."""
    parts = [np.split(row, N, split) for row in x]
    return np.stack([np.concatenate(list(row), concat) for row in zip(*parts)])  # noqa: B905


GROUPS = [[2, 0], [1, 3]]
GROUP_OF = [0, 1, 0, 1]
#: Name -> (what an instance does, what that is on the batch, it is linear).
CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], bool]] = {
    "psum": (lambda x: lax.psum(x, "i"), lambda x: same(x.sum(0)), True),
    "pmean": (lambda x: lax.pmean(x, "i"), lambda x: same(x.mean(0)), True),
    "pmax": (lambda x: lax.pmax(x, "i"), lambda x: same(x.max(0)), False),
    "pmin": (lambda x: lax.pmin(x, "i"), lambda x: same(x.min(0)), False),
    "psum of an axis": (
        lambda x: lax.psum(x, (1, "i")), lambda x: same(x.sum((0, 2))), True),
    "psum in groups": (
        lambda x: lax.psum(x, "i", axis_index_groups=GROUPS),
        lambda x: np.stack([x[GROUPS[g]].sum(0) for g in GROUP_OF]), True),
    "all_gather": (lambda x: lax.all_gather(x, "i"), same, True),
    "all_gather last": (
        lambda x: lax.all_gather(x, "i", axis=-1),
        lambda x: same(np.moveaxis(x, 0, -1)), True),
    "all_gather tiled": (
        lambda x: lax.all_gather(x, "i", axis=1, tiled=True),
        lambda x: same(np.concatenate(list(x), 1)), True),
    "all_gather in groups": (
        lambda x: lax.all_gather(x, "i", axis_index_groups=GROUPS),
        lambda x: np.stack([x[GROUPS[g]] for g in GROUP_OF]), True),
    "psum_scatter": (
        lambda x: lax.psum_scatter(x, "i"), lambda x: x.sum(0), True),
    "psum_scatter tiled": (
        lambda x: lax.psum_scatter(x, "i", tiled=True),
        lambda x: x.sum(0)[:, None], True),
    "psum_scatter in groups": (
        lambda x: lax.psum_scatter(x[:2], "i", axis_index_groups=GROUPS),
        lambda x: np.stack([
            x[GROUPS[g]].sum(0)[GROUPS[g].index(i)] for i, g in enumerate(GROUP_OF)
        ]), True),
    "all_to_all": (
        lambda x: lax.all_to_all(x, "i", 0, 1),
        lambda x: np.moveaxis(x.swapaxes(0, 1), 1, 2), True),
    "all_to_all tiled": (
        lambda x: lax.all_to_all(x, "i", 0, 1, tiled=True),
        lambda x: tiles(x, 0, 1), True),
    "all_to_all in groups": (
        lambda x: lax.all_to_all(x[:2], "i", 0, 0, axis_index_groups=GROUPS),
        lambda x: np.stack([
            x[GROUPS[g], GROUPS[g].index(i)] for i, g in enumerate(GROUP_OF)
        ]), True),
    "pswapaxes": (
        lambda x: lax.pswapaxes(x, "i", 0), lambda x: x.swapaxes(0, 1), True),
    "ppermute": (
        lambda x: lax.ppermute(x, "i", SWAP), lambda x: sent(x, SWAP), True),
    "pshuffle": (
        lambda x: lax.pshuffle(x, "i", [3, 1, 0, 2]), lambda x: x[[3, 1, 0, 2]], True),
    "pbroadcast": (
        lambda x: lax.pbroadcast(x, "i", 2), lambda x: same(x[2]), True),
    "axis_index": (
        lambda x: x * (lax.axis_index("i") + lax.axis_size("i")),
        lambda x: x * (np.arange(N) + N)[:, None, None], True),
}  # fmt: skip


def checked(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return ft.checkpoint(f)


def in_scan(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: lax.scan(lambda c, _: (c, f(c)), x, None, length=2)[1][1]


def in_cond(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: lax.cond(lax.axis_index("i") >= 0, f, lambda x: f(x) * 0, x)


def in_while(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: lax.fori_loop(0, 2, lambda i, y: f(x), f(x))


@pytest.mark.parametrize("name", CASES)
def test_a_collective_is_what_it_is_on_the_batch(name: str) -> None:
    one, whole, linear = CASES[name]
    batched = ft.vmap(one, axis_name="i")
    wanted = whole(X)
    np.testing.assert_allclose(batched(X), wanted, rtol=1e-12)
    for way in (ft.jit, checked, in_scan, in_cond, in_while):
        found = ft.vmap(way(one), axis_name="i")(X)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, err_msg=str(way))
    # Another axis, inside and outside; out_axes and in_axes.
    inner = ft.vmap(ft.vmap(one, axis_name="i"), in_axes=3, out_axes=-1)
    outer = ft.vmap(ft.vmap(one, in_axes=2, out_axes=-1), axis_name="i")
    twice = np.stack([X, 2 * X], -1)
    both = np.stack([wanted, whole(2 * X)], -1)
    for f in (inner, outer):
        np.testing.assert_allclose(f(twice), both, rtol=1e-12)
    # What all instances share.
    shared = ft.vmap(one, None, axis_name="i", axis_size=N)(X[0])
    np.testing.assert_allclose(shared, whole(same(X[0]).copy()), rtol=1e-12)
    # Derivatives of the whole, and of each instance: they are each other's.
    ct = RNG.normal(size=wanted.shape)
    step = RNG.normal(size=X.shape)
    value, tangent = ft.jvp(batched, (X,), (step,))
    eps = 1e-6
    slope = (whole(X + eps * step) - whole(X - eps * step)) / (2 * eps)
    np.testing.assert_allclose(tangent, slope, atol=1e-8)
    assert value.dtype == tangent.dtype == np.float64

    def pulled(x: Any, ct: Any) -> Any:
        return ft.vjp(one, x)[1](ct)[0]

    (outside,) = ft.vjp(batched, X)[1](ct)
    np.testing.assert_allclose((outside * step).sum(), (tangent * ct).sum())
    inside = ft.vmap(pulled, axis_name="i")(X, ct)
    np.testing.assert_allclose(inside, outside, rtol=1e-12)
    if linear:
        (transposed,) = ft.linear_transpose(batched, X)(ct)
        np.testing.assert_allclose(transposed, outside, rtol=1e-12)


def test_numbers_and_arrays_that_are_known_are_not_traced() -> None:
    def f(x: Any) -> Any:
        assert lax.psum(1, "i") == N
        assert type(lax.psum(1, "i")) is int
        assert lax.psum(2.5, ("i",)) == 2.5 * N
        assert lax.pmax(7, "i") == 7
        np.testing.assert_array_equal(lax.psum(np.arange(3), "i"), N * np.arange(3))
        return x

    ft.vmap(f, axis_name="i")(X)
    assert ft.vmap(lambda x: lax.psum(x > 0, "i"), axis_name="i")(X).dtype == np.int32
    assert ft.vmap(lambda x: lax.psum(x, "i"), out_axes=None, axis_name="i")(
        X
    ).shape == (N, 3)
    tree = ft.vmap(lambda x: lax.psum({"a": x, "b": (x, 1)}, "i"), axis_name="i")(X)
    np.testing.assert_array_equal(tree["b"][1], [N] * N)


def test_axes_nest_and_the_inner_one_hides_the_outer() -> None:
    x = np.arange(6.0).reshape(2, 3)

    def f(x: Any) -> Any:
        names = ("i", "j")
        return lax.psum(x, names), lax.axis_index(names), lax.all_gather(x, names)

    total, index, all_ = ft.vmap(ft.vmap(f, axis_name="j"), axis_name="i")(x)
    np.testing.assert_array_equal(total, np.full((2, 3), 15))
    np.testing.assert_array_equal(index, np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(all_, np.broadcast_to(x.ravel(), (2, 3, 6)))
    hidden = ft.vmap(ft.vmap(lambda x: lax.psum(x, "i"), axis_name="i"), axis_name="i")(
        x
    )
    np.testing.assert_array_equal(hidden, np.broadcast_to(x.sum(1)[:, None], (2, 3)))


def test_the_place_of_an_extremum_is_the_first_one() -> None:
    x = np.array([3.0, 1, 1, 3])
    for op, place in ((parallel.pargmax, 0), (parallel.pargmin, 1)):
        found = ft.vmap(lambda x, op=op: op(x, "i"), axis_name="i")(x)
        np.testing.assert_array_equal(found, [place] * N)


def test_lanes_that_act_together_go_in_step() -> None:
    x = np.arange(4.0)

    def step(c: Any) -> Any:
        return 2 * c[0] + 1, c[1] + lax.psum(c[0], "i")

    def loop(x: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < 5, step, (x, x * 0))

    found = ft.vmap(loop, axis_name="i")(x)
    np.testing.assert_array_equal(found[0], [7, 7, 5, 7])
    np.testing.assert_array_equal(found[1], [44, 22, 6, 6])

    def branch(x: Any) -> Any:
        return lax.cond(x > 1, lambda x: lax.psum(x, "i"), lambda x: -x, x)

    np.testing.assert_array_equal(ft.vmap(branch, axis_name="i")(x), [0, -1, 6, 6])
    slope = ft.grad(lambda x: ft.vmap(branch, axis_name="i")(x).sum())(x)
    np.testing.assert_array_equal(slope, [1, 1, 2, 2])
    y, eps = x + 0.1, 1e-3
    _, (_, slope) = ft.jvp(ft.vmap(loop, axis_name="i"), (y,), (np.ones(4),))
    after, before = (ft.vmap(loop, axis_name="i")(y + e)[1] for e in (eps, -eps))
    np.testing.assert_allclose(slope, (after - before) / (2 * eps), rtol=1e-6)
    with pytest.raises(DerivativeError, match="different iterations"):
        ft.vmap(lambda x: ft.jvp(loop, (x,), (x,)), axis_name="i")(x)


def test_what_lanes_add_counts_whichever_branch_they_take() -> None:
    def branch(x: Any) -> Any:
        one, other = (lambda x: lax.psum(fnp.sin(x), "i")), (lambda x: x * 2)
        return lax.cond(x > 1, one, lambda x: lax.pmean(x, "i") * other(x), x)

    x, step, eps = np.linspace(0.3, 1.7, 4), RNG.normal(size=4), 1e-6
    whole = ft.vmap(branch, axis_name="i")
    outside = ft.grad(lambda x: whole(x).sum())(x)
    np.testing.assert_allclose(ft.vmap(ft.grad(branch), axis_name="i")(x), outside)
    both = [whole(x + e * step) for e in (eps, -eps)]
    slope = (both[0] - both[1]) / (2 * eps)
    np.testing.assert_allclose((outside * step).sum(), slope.sum(), rtol=1e-6)
    found = ft.vmap(lambda x, t: ft.jvp(branch, (x,), (t,))[1], axis_name="i")(x, step)
    np.testing.assert_allclose(found, slope, rtol=1e-6)


@ft.custom_vjp
def gathering(x: Any) -> Any:
    return lax.psum(fnp.sin(x), "i")


gathering.defvjp(
    lambda x: (gathering(x), x),
    lambda x, ct: (10 * lax.psum(ct, "i") * x + lax.axis_index("i"),),
)


def test_rules_of_users_act_along_the_axes_around_the_call() -> None:
    for n in (3, 4):  # the rule is traced for each size
        x = np.linspace(0.1, 1, n)
        inside = ft.vmap(ft.grad(gathering), axis_name="i")(x)
        total = lambda x: ft.vmap(gathering, axis_name="i")(x).sum()  # noqa: E731
        np.testing.assert_allclose(inside, 10 * n * x + np.arange(n))
        np.testing.assert_allclose(ft.grad(total)(x), 10 * n * x + np.arange(n))
        np.testing.assert_allclose(ft.jit(ft.grad(total))(x), ft.grad(total)(x))


def test_a_jitted_function_is_traced_for_each_size() -> None:
    f = ft.jit(lambda x: x / lax.axis_size("i"))
    for n in (2, 5, 2):
        found = ft.vmap(f, axis_name="i")(np.ones(n))
        np.testing.assert_array_equal(found, np.full(n, 1 / n))
    with pytest.raises(AxisNameError):
        f(1.0)


def test_what_is_no_array_passes_through() -> None:
    marker = object()

    def f(what: Any, x: Any, *, flag: Any) -> Any:
        assert what[0] is marker
        return x + what[1] + flag

    found = ft.vmap(f, in_axes=(None, 0))(
        (marker, 1.0), np.arange(3.0), flag=np.ones(3)
    )
    np.testing.assert_array_equal(found, [2, 3, 4])
    with pytest.raises(ft.errors.ArgumentError, match="must be an array"):
        ft.vmap(f, in_axes=(0, 0))((marker, 1.0), np.arange(3.0), flag=np.ones(3))


def test_reductions_take_names_of_axes_as_their_own_axis() -> None:
    x = np.sin(np.arange(12, dtype=np.float32).reshape(3, 4))
    names = "sum prod max min any all mean var nansum nanmax ptp count_nonzero"
    cases: list[Any] = [getattr(fnp, name) for name in names.split()]
    for f in (*cases, ft.nn.logsumexp, ft.nn.logmeanexp):
        for axis, whole in (("i", 0), (("i",), 0), ((0, "i"), None)):
            got = ft.vmap(lambda v, f=f, a=axis: f(v, a), axis_name="i")(x)
            for row in got:
                np.testing.assert_allclose(row, f(x, whole), rtol=1e-5)
        kept = ft.vmap(lambda v, f=f: f(v, ("i", 0), keepdims=True), axis_name="i")(x)
        np.testing.assert_allclose(kept[1], f(x, keepdims=True)[0], rtol=1e-5)
    for f in (ft.nn.softmax, ft.nn.log_softmax, ft.nn.standardize):

        def named(x: Any, f: Any = f) -> Any:
            return ft.vmap(lambda v: f(v, "i"), axis_name="i")(x)

        np.testing.assert_allclose(named(x), f(x, 0), rtol=1e-4, atol=1e-6)
        slope = ft.grad(lambda x, f=named: (f(x) ** 3).sum())(x)
        wanted = ft.grad(lambda x, f=f: (f(x, 0) ** 3).sum())(x)
        np.testing.assert_allclose(slope, wanted, rtol=1e-3, atol=1e-4)
    masked = ft.vmap(lambda v: v.sum("i", where=v > 0), axis_name="i")(x)
    np.testing.assert_allclose(masked[0], np.sum(x, 0, where=x > 0), rtol=1e-5)
    with pytest.raises(AxisNameError, match="sum: unbound axis name: k"):
        ft.vmap(lambda v: fnp.sum(v, "k"), axis_name="i")(x)
    with pytest.raises(ValueError, match="duplicate"):
        ft.vmap(lambda v: fnp.sum(v, ("i", "i")), axis_name="i")(x)


def test_wrong_axes_and_operands_are_named() -> None:
    for f in (lax.psum, lax.axis_index, lax.axis_size):
        with pytest.raises(NameError, match="unbound axis name: k"):
            f(*(["k"] if f is not lax.psum else [X, "k"]))

    def under(f: Any) -> None:
        ft.vmap(f, axis_name="i")(X)

    with pytest.raises(AxisNameError, match="The axes here are 'i'"):
        under(lambda x: lax.pmean(x, "j"))
    with pytest.raises(ShapeError, match="the size of axis 1 must be 4"):
        under(lambda x: lax.all_to_all(x, "i", 1, 0))
    with pytest.raises(ValueRangeError, match="once at most"):
        under(lambda x: lax.ppermute(x, "i", [(0, 1), (2, 1)]))
    with pytest.raises(ValueRangeError, match="permutation"):
        under(lambda x: lax.pshuffle(x, "i", [0, 1]))
    with pytest.raises(ValueRangeError, match="of one length"):
        under(lambda x: lax.all_gather(x, "i", axis_index_groups=[[0], [1, 2, 3]]))
    with pytest.raises(AxisNameError):
        lax.psum(X, "i")  # out of scope again, also after an error


@pytest.mark.parametrize("tiled", [False, True])
def test_what_no_instance_has_is_scattered_and_exchanged(tiled: bool) -> None:
    none = np.zeros((0, 0, 3), np.float32)
    for function in (
        lambda x: lax.psum_scatter(x, "i", tiled=tiled),
        lambda x: lax.all_to_all(x, "i", 0, 0, tiled=tiled),
    ):
        found = ft.vmap(function, axis_name="i")(none)
        assert found.size == 0
        assert found.dtype == np.float32
    with pytest.raises(ShapeError, match=r"must be (a multiple of )?0"):
        ft.vmap(lambda x: lax.psum_scatter(x, "i", tiled=tiled), axis_name="i")(
            np.zeros((0, 2))
        )


def ragged(x: Any, output: Any, *vectors: Any, groups: Any = None) -> Any:
    def of_lane(*lane: Any) -> Any:
        return lax.ragged_all_to_all(*lane, axis_name="i", axis_index_groups=groups)

    return ft.vmap(of_lane, axis_name="i")(x, output, *vectors)


def ragged_in_numpy(x: Any, output: Any, starts: Any, sizes: Any, places: Any) -> Any:
    result = output.copy()
    for sender, lane in enumerate(x):
        for receiver in range(len(x)):
            start, size = starts[sender, receiver], sizes[sender, receiver]
            place = places[sender, receiver]
            result[receiver, place : place + size] = lane[start : start + size]
    return result


@pytest.mark.parametrize("shape", [(), (2,)])
def test_ragged_all_to_all_moves_rows(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 4, (3, 3))
    starts = np.cumsum(sizes, 1) - sizes
    places = np.cumsum(sizes, 0) - sizes
    x = rng.normal(size=(3, 9, *shape))
    output = rng.normal(size=(3, 12, *shape))
    wanted = ragged_in_numpy(x, output, starts, sizes, places)
    for f in (ragged, ft.jit(ragged)):
        got = f(x, output, starts, sizes, places, sizes.T)
        np.testing.assert_array_equal(np.asarray(got), wanted)
    check_grads(
        lambda x, y: ragged(x, y, starts, sizes, places, sizes.T), (x, output), 2
    )


def test_ragged_all_to_all_in_groups_is_that_of_each() -> None:
    x, output = np.arange(12.0).reshape(4, 3), np.zeros((4, 4))
    one = np.array([[0, 1], [0, 1]]), np.array([[1, 2], [1, 1]])
    places, received = np.array([[0, 0], [1, 2]]), np.array([[1, 1], [2, 1]])
    vectors = [np.concatenate([v, v]) for v in (*one, places, received)]
    got = ragged(x, output, *vectors, groups=[[0, 1], [2, 3]])
    halves = [ragged(x[i], output[i], *one, places, received)
              for i in (slice(2), slice(2, 4))]  # fmt: skip
    np.testing.assert_array_equal(np.asarray(got), np.concatenate(halves))


def test_ragged_all_to_all_refuses_what_does_not_fit() -> None:
    x, output, v = np.ones((2, 3)), np.zeros((2, 4)), np.zeros((2, 2), int)
    with pytest.raises(errors.DtypeError, match="must be integers"):
        ragged(x, output, v * 1.0, v, v, v)
    with pytest.raises(errors.DtypeError, match="one dtype"):
        ragged(x, output.astype("float32"), v, v, v, v)
    with pytest.raises(errors.ShapeError, match="vectors with an element"):
        ragged(x, output, v[:, :1], v, v, v)
    with pytest.raises(errors.ShapeError, match="rows of one shape"):
        ragged(x, np.zeros((2, 4, 2)), v, v, v, v)

"""The host as several devices: meshes, parts of arrays, `pmap` and `shard_map`."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors, lax
from ftrace.experimental.layout import Format, Layout
from ftrace.sharding import (
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec as P,
    SingleDeviceSharding,
)

X = np.arange(64, dtype=np.float32).reshape(8, 8)
SPECS = [
    P(), P("x"), P(None, "y"), P("x", "y"), P("y", "x"), P(("x", "y")),
    P(None, ("y", "x")),
]  # fmt: skip


@pytest.fixture(autouse=True)
def eight() -> Iterator[None]:
    with ft.config(cpu_devices=8):
        yield


def mesh() -> Any:
    return ft.make_mesh((2, 4), ("x", "y"))


def over(f: Any, into: Any, out: Any, **options: Any) -> Any:
    return ft.shard_map(f, mesh=mesh(), in_specs=into, out_specs=out, **options)


def test_the_host_is_seen_as_devices_with_numbers() -> None:
    devices = ft.devices()
    assert [d.id for d in devices] == list(range(8)) == [d.id for d in ft.devices()]
    assert [d.name for d in devices[:3]] == ["cpu", "cpu:1", "cpu:2"]
    assert {d.platform for d in devices} == {"cpu"}
    assert ft.device_count() == ft.local_device_count("cpu") == 8
    assert ft.devices("interpreter")[0].id == 0
    assert pickle.loads(pickle.dumps(devices[3])) is devices[3]
    with pytest.raises(errors.DeviceError, match="cpu has 8, from 0 on"):
        ft.device_put(1.0, "cpu:8")
    for name in ("cpu:x", "cpu:-1", "gpu:0", "cpu:"):
        with pytest.raises(errors.DeviceError, match="there is no device"):
            ft.device_put(1.0, name)
    with pytest.raises(ValueError, match="cpu_devices must be from 1"):
        ft.config.update("cpu_devices", 0)
    with ft.config(cpu_devices=None):
        assert ft.device_count() == 1


def test_what_is_computed_of_an_array_is_where_the_array_is() -> None:
    third = ft.devices()[3]
    x = ft.device_put(np.arange(5.0, dtype=np.float32), third)
    loop = ft.jit(lambda a: lax.scan(lambda c, y: (c + y, c), 0.0, a)[1])
    made = [
        x + 1, ft.jit(fnp.sin)(x), fnp.sort(x), x[1], x.at[1].set(3), loop(x),
        ft.grad(lambda a: (a**3).sum())(x), ft.vmap(fnp.exp)(x), x.T @ x,
    ]  # fmt: skip
    assert {y.device for y in made} == {third}
    np.testing.assert_array_equal(made[0], np.arange(5) + 1)
    with ft.default_device(third):
        assert ft.jit(lambda: fnp.ones(2) + 1)().device is third
    with pytest.raises(errors.DeviceError, match=r"on cpu:3, and .* on cpu:2"):
        ft.jit(fnp.add)(x, ft.device_put(x, "cpu:2"))


@pytest.mark.parametrize(
    ("function", "spec"),
    [
        (lambda x: fnp.pad(x, 1), P("i")),
        (lambda x: fnp.pad(x, 1, mode="edge"), P()),
        (lambda x: fnp.concatenate([x, x], 1), P("i")),
        (lambda x: lax.associative_scan(fnp.add, x), P()),
        (lambda x: fnp.apply_along_axis(fnp.cumsum, 0, x), P("i")),
        (lambda x: fnp.piecewise(x, [x > 0], [fnp.sin, 0.0]), P("i")),
        (lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 1)), P()),
        (lambda x: lax.reduce(x, 0.0, lax.add, (0,)), P()),
        (lambda x: x.at[3].get(), P()),
        (lambda x: x[x > 2], P()),
        (lambda x: fnp.nonzero(x)[0], P()),
    ],
)
def test_whatever_is_done_at_once_is_over_the_mesh(function: Any, spec: P) -> None:
    """Where a call is not known as one of types, each operation of it is."""
    mesh = Mesh(ft.devices()[:2], ("i",))
    x = np.arange(64, dtype=np.float32).reshape(16, 4)
    found = function(ft.device_put(x, ft.NamedSharding(mesh, P("i"))))
    assert found.sharding == ft.NamedSharding(mesh, spec)
    np.testing.assert_array_equal(found, function(fnp.array(x)))


def test_eager_results_are_on_the_default_device() -> None:
    third = ft.devices()[3]
    for place in ("cpu:3", third):
        with ft.default_device(place):
            made = [fnp.ones(3), fnp.ones(3) + 1, fnp.sin(np.ones(3)), fnp.asarray(2.0)]
            elsewhere = ft.device_put(X, "cpu:2") + 1
        assert {x.device for x in made} == {third}
        assert elsewhere.device is ft.devices()[2]
    assert (fnp.ones(3) + 1).device is ft.devices()[0]


def test_what_nobody_put_on_the_default_device_goes_where_others_are() -> None:
    third, other = ft.devices()[3], ft.device_put(X[0], "cpu:2")
    divided = ft.device_put(X[0], NamedSharding(mesh(), P("x")))
    with ft.default_device(third):
        made = [
            fnp.ones(8), fnp.asarray(X[0]), ft.device_put(X[0]), fnp.ones(8) * 2,
            ft.jit(lambda x: x + 1)(X[0]), ft.random.normal(ft.random.key(0), (8,)),
            copy.deepcopy(fnp.ones(8)),
        ]  # fmt: skip
    for x in made:
        assert (x.committed, x.device) == (False, third)
        for f in (fnp.add, ft.jit(fnp.add), ft.grad(lambda a, b: (a * b).sum())):
            assert f(x, other).device is f(other, x).device is other.device
            assert f(x, divided).sharding == divided.sharding
            assert f(x, X[0]).device is ft.devices()[0]  # as nobody says where
    assert ft.jit(lambda x: x, device=third)(X[0]).committed
    with ft.default_device(third):
        first = ft.device_put(X[0], "cpu:0")
        assert (first + 1).device is fnp.zeros_like(first).device is ft.devices()[0]


def test_eager_results_are_over_a_mesh_without_the_first_device() -> None:
    half = NamedSharding(Mesh(np.array(ft.devices()[4:]), ("i",)), P("i"))
    y = ft.device_put(X[0], half) + 1
    assert y.sharding == half
    np.testing.assert_array_equal(y, X[0] + 1)


def test_the_setting_of_a_default_device_is_enough_by_itself() -> None:
    done = in_new_process(
        """
        import ftrace as ft, ftrace.numpy as fnp
        ft.config.update("jax_num_cpu_devices", 4)
        ft.config.update("jax_default_device", ft.devices()[2])
        print((fnp.ones(3) + 1).device, ft.jit(fnp.sin)(fnp.ones(3)).device)
        ft.config.update("jax_default_device", None)
        print(fnp.ones(3).device)
        """
    )
    assert done == "<device cpu:2> <device cpu:2>\n<device cpu>\n"


GROUPS = [[0, 2, 1], [3, 4, 5, 6, 7]]


@pytest.mark.parametrize(
    ("op", "wanted"),
    [
        (lax.psum, [3] * 3 + [25] * 5), (lax.pmax, [2] * 3 + [7] * 5),
        (lax.pmin, [0] * 3 + [3] * 5), (lax.pmean, [1] * 3 + [5] * 5),
    ],
)  # fmt: skip
def test_groups_of_sums_may_have_several_sizes(op: Any, wanted: Any) -> None:
    def f(x: Any) -> Any:
        return op(x, "i", axis_index_groups=GROUPS)

    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(ft.pmap(f, axis_name="i")(x), wanted)
    with pytest.raises(errors.ValueRangeError, match="of one length"):
        ft.pmap(lambda x: lax.all_gather(x, "i", axis_index_groups=GROUPS), "i")(x)


def test_pmaps_in_each_other_need_the_devices_of_both() -> None:
    twice = ft.pmap(ft.pmap(lambda x: x * 2))
    np.testing.assert_array_equal(twice(np.ones((2, 4))), np.full((2, 4), 2))
    with pytest.raises(errors.ShardingError, match="requires 16 logical devices"):
        twice(np.ones((4, 4)))


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_parts_of_an_array_lie_where_its_sharding_says(spec: P) -> None:
    sharding = NamedSharding(mesh(), spec)
    placed = ft.device_put(X, sharding)
    assert (placed.sharding, len(placed.devices())) == (sharding, 8)
    assert placed.is_fully_replicated is (spec == P())
    parts = placed.addressable_shards
    assert [p.device for p in parts] == ft.devices()
    copies: dict[str, list[int]] = {}
    for part in parts:
        copies.setdefault(str(part.index), []).append(part.replica_id)
    assert all(ids == [*range(8 // len(copies))] for ids in copies.values())
    again = np.full_like(X, np.nan)
    for part in parts:
        assert part.data.device is part.device
        again[part.index] = part.data
    np.testing.assert_array_equal(again, X)
    for made in (
        ft.make_array_from_callback(X.shape, sharding, X.__getitem__),
        ft.make_array_from_single_device_arrays(
            X.shape, sharding, [p.data for p in parts[::-1]]
        ),
    ):
        np.testing.assert_array_equal(made, X)
        assert made.sharding == sharding


@pytest.mark.parametrize("into", SPECS, ids=str)
def test_parts_and_results_are_cut_and_joined_by_their_specs(into: P) -> None:
    """Against NumPy, which does it device by device."""
    names = {n for e in into for n in (e if isinstance(e, tuple) else (e,)) if n}
    for function in (
        over(lambda v: v * 2, into, into),
        ft.jit(over(lambda v: v * 2, into, into)),
    ):
        np.testing.assert_array_equal(function(X), X * 2)
    parts = NamedSharding(mesh(), into)
    places = parts.devices_indices_map(X.shape)
    grid = {d: i for i, d in zip(np.ndindex(2, 4), mesh().devices.flat, strict=True)}
    for axis, name in enumerate("xy"):
        lanes: dict[int, Any] = {}
        for device, index in places.items():
            other = grid[device][1 - axis]
            lanes[other] = lanes.get(other, 0) + X[index]
        left = names - {name}
        out = P(*left) if left else P()
        whole = over(lambda v, n=name: lax.psum(v, n), into, out, check_vma=False)(X)
        sums = [lanes[i] for i in sorted(lanes)] if left else [lanes[0]]
        np.testing.assert_array_equal(whole, np.concatenate(sums))
    count = over(lambda v: lax.psum(1.0 + 0 * v.sum(), ("x", "y")), into, P())(X)
    assert count == 8


def test_collectives_act_between_devices() -> None:
    def ring(v: Any) -> Any:
        return lax.ppermute(v, "y", [(i, (i + 1) % 4) for i in range(4)])

    np.testing.assert_array_equal(over(ring, P("y"), P("y"))(X), np.roll(X, 2, 0))

    def gather(v: Any) -> Any:
        return lax.all_gather(v, "y", tiled=True, to="invarying")

    np.testing.assert_array_equal(over(gather, P("y"), P())(X), X)
    product_ = over(lambda a, b: lax.psum(a @ b, "y"), (P("x", "y"), P("y")), P("x"))
    np.testing.assert_array_equal(ft.jit(product_)(X, X), X @ X)
    scattered = over(
        lambda v: lax.psum_scatter(v, "y", tiled=True), P(None, "x"), P("y", "x")
    )
    np.testing.assert_array_equal(scattered(X), X * 4)
    place = over(lambda: lax.axis_index("y")[None], (), P("y"))()
    np.testing.assert_array_equal(place, np.arange(4))
    assert place.sharding.spec == P("y")


def test_derivatives_and_transforms_go_through_shard_map() -> None:
    def loss(w: Any, x: Any) -> Any:
        def part(w: Any, x: Any) -> Any:
            return lax.pmean(((x @ w) ** 2).mean(), ("x", "y"))

        return over(part, (P(), P(("x", "y"))), P())(w, x)

    w = np.linspace(-1, 1, 8, dtype=np.float32)

    def plain(w: Any, x: Any) -> Any:
        return ((x @ w) ** 2).mean()

    for transform in (ft.grad, ft.hessian, ft.jacfwd):
        wanted = transform(plain)(w, X)
        for way in (transform(loss), ft.jit(transform(loss))):
            np.testing.assert_allclose(way(w, X), wanted, rtol=1e-5)
    many = ft.vmap(over(lambda v: lax.psum(v, "x"), P("x"), P()))(X[:, :, None])
    np.testing.assert_array_equal(many[:, :, 0], X[:, :4] + X[:, 4:])
    step = over(lambda v: v - lax.pmean(v, "y"), P("y"), P("y"))
    looped = ft.jit(lambda a: lax.fori_loop(0, 3, lambda _, c: step(c), a))
    np.testing.assert_allclose(looped(X), step(X), atol=1e-5)
    own = over(ft.grad(lambda v: (v**2).sum()), P("x"), P("x"), check_vma=False)
    np.testing.assert_array_equal(own(X), 2 * X)


def test_pmap_has_a_device_for_each_element() -> None:
    total = ft.pmap(lambda v, n: lax.psum(v, "i") + n, "i", in_axes=(0, None))(X, 1)
    np.testing.assert_array_equal(total, np.broadcast_to(X.sum(0) + 1, X.shape))
    assert total.sharding.num_devices == 8
    four = ft.pmap(lambda v: v + 1, devices=ft.devices()[4:], out_axes=1)(X[:4])
    np.testing.assert_array_equal(four, X[:4].T + 1)
    assert {d.id for d in four.devices()} == {4, 5, 6, 7}
    same = ft.pmap(lambda v: lax.pmax(v, "i"), "i", out_axes=None)(X)
    np.testing.assert_array_equal(same, X[-1])
    step = ft.pmap(
        lambda p, x: lax.pmean(ft.grad(lambda p: (p * x).sum())(p), "i"), "i",
        in_axes=(None, 0),
    )  # fmt: skip
    np.testing.assert_array_equal(step(2.0, X), np.full(8, X.sum() / 8))
    with pytest.raises(errors.DeviceError, match="requires 9 logical devices, but 8"):
        ft.pmap(lambda v: v)(np.ones(9))
    with pytest.raises(errors.DeviceError, match="requires 3 logical devices, but 2"):
        ft.pmap(lambda v: v, devices=ft.devices()[:2])(np.ones(3))


def test_a_drawing_shows_which_devices_have_a_part(capsys: Any) -> None:
    for spec, drawn in (
        (P("x"), "│CPU 0,1,2,3│\n├───────────┤\n│CPU 4,5,6,7│"),
        (P(None, "y"), "│CPU 0,4│CPU 1,5│CPU 2,6│CPU 3,7│"),
        (P("y", "x"), "│ CPU 0 │ CPU 4 │\n├───────┼───────┤\n│ CPU 1 │ CPU 5 │"),
    ):
        ft.debug.visualize_array_sharding(ft.device_put(X, NamedSharding(mesh(), spec)))
        assert drawn in capsys.readouterr().out
    with pytest.raises(errors.ShapeError, match="1 and 2 dimensions"):
        ft.debug.visualize_sharding((2, 2, 2), NamedSharding(mesh(), P()))


def test_how_a_traced_value_lies_is_told_when_a_program_is_made(capsys: Any) -> None:
    told: list[Any] = []

    def f(x: Any) -> Any:
        ft.debug.inspect_array_sharding(x.T, callback=told.append)
        return x * 2

    auto = ft.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    ways = (
        ft.jit, lambda f: f, lambda f: ft.jit(ft.grad(lambda x: f(x).sum())),
        lambda f: ft.jit(lambda x: lax.fori_loop(0, 2, lambda i, c: f(c), x)),
        lambda f: ft.jit(lambda x: lax.cond(x.sum() > 0, f, lambda x: x, x)),
    )  # fmt: skip
    for given, of_turned in ((P("x", "y"), P("y", "x")), (P(None, "x"), P("x"))):
        x = ft.device_put(X, NamedSharding(auto, given))
        for way in ways:
            run = way(f)
            run(x)
            assert told.pop() == NamedSharding(auto, of_turned)
            assert not told
    ft.jit(f)(X)
    assert told.pop() == SingleDeviceSharding(ft.devices()[0])
    second = ft.device_put(X, "cpu:2")
    jitted = ft.jit(f)
    for _ in range(2):
        jitted(second)
    assert told == [second.sharding]
    assert not [step for step in ft.explain(f)(X).kernels if "callback" in step.name]
    ft.jit(lambda x: (ft.debug.visualize_array_sharding(x + 1), x)[1])(x)
    assert "CPU 0,1,2,3│" in capsys.readouterr().out


def test_wrong_meshes_and_specs_say_what_is_wrong() -> None:
    def same(v: Any) -> Any:
        return v

    for into, out, message in (
        (P("z"), P(), "refers to 'z'"), (P(), P("z"), "refers to 'z'"),
        (P("x", "x"), P(), "duplicate entries"), (P("x"), P(), "require replication"),
        (P(None, None, "x"), P(), "too long"), (P(), P(None, None, "x"), "too long"),
        (P("y"), P("y"), "evenly divisible"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            over(same, into, out)(X[:6])
    np.testing.assert_array_equal(over(same, P("x"), P(), check_vma=False)(X), X[:4])
    with pytest.raises(ValueError, match="Number of devices 8 must be >="):
        ft.make_mesh((3, 4), ("x", "y"))
    with pytest.raises(ValueError, match="cannot be divided"):
        ft.device_put(X[:3], NamedSharding(mesh(), P("x")))
    whole = NamedSharding(mesh(), P())
    with pytest.raises(ValueError, match="which is no device of"):
        ft.make_array_from_single_device_arrays(
            X.shape, NamedSharding(Mesh(ft.devices()[:2], "x"), P()),
            [ft.device_put(X, "cpu:5"), ft.device_put(X, "cpu:6")],
        )  # fmt: skip
    with pytest.raises(errors.ShapeError, match="a part must have shape"):
        ft.make_array_from_callback((8, 8), whole, lambda _: X[:1])


def test_what_is_wrong_is_told_in_the_words_of_what_was_called() -> None:
    """`shard_map` and `pmap`, and not the `vmap` that they are made of."""
    wrong: list[tuple[Any, str, str]] = [
        (lambda v: v if v[0, 0] > 0 else -v, "under shard_map.*close over it", ""),
        (lambda v: v[: v[0, 0].astype(int)], "under shard_map.*Let the function", ""),
        (lambda v: "s", "the result of <lambda> must be an array", ""),
        (lambda v: lax.psum(v, "q"), "axes here are 'x', 'y'; those of shard_map", ""),
        (lambda v: lax.with_sharding_constraint(v, NamedSharding(mesh(), P("x"))),
         "P.'x',. contains a manual axes {x}", ""),
        (lambda v: v, "in_specs is 'x', of type str", "x"),
    ]  # fmt: skip
    for f, message, into in wrong:
        with pytest.raises(Exception, match=message) as caught:
            over(f, into or P("x"), P("x"))(X)
        assert isinstance(caught.value, errors.FtraceError)
        assert "vmap" not in str(caught.value)
    for f, message, args in (
        (lambda v: v if v[0] > 0 else -v, "under pmap.*name it in static_broad", (X,)),
        (lambda v, w: v + w, "pmap got inconsistent sizes .* 8 of .* 4 of", (X, X[:4])),
        (lambda v: v, "with a mapped axis, got a scalar, which has no axis", (3.0,)),
        (lambda v: lax.psum(v, "q"), "axis_name='q' of vmap or pmap", (X,)),
    ):
        with pytest.raises(errors.FtraceError, match=message):
            ft.pmap(f)(*args)
    for axes, kind, message in (
        ("a", TypeError, "pmap: in_axes must be an int, None or a tuple .* got 'a'"),
        (3, IndexError, r"pmap: the argument of type f32\[8,8\] has no axis 3"),
    ):
        with pytest.raises(kind, match=message):
            ft.pmap(lambda v: v, in_axes=axes)(X)
    with pytest.raises(TypeError, match=r"pmap: the argument .* got str: 's'"):
        ft.pmap(lambda v: v)("s")
    with pytest.raises(ValueError, match="shard_map needs a mesh with axes, got 'm'"):
        ft.shard_map(lambda v: v, mesh="m", in_specs=P(), out_specs=P())(X)
    with pytest.raises(ValueError, match="mapped axis, got none"):
        ft.pmap(lambda v: v, in_axes=None)(X)
    with pytest.raises(
        ValueError, match=r"context mesh cannot be empty.*give it mesh="
    ):
        ft.shard_map(lambda v: v, in_specs=P(), out_specs=P())(X)


def test_a_shard_map_within_another_is_over_the_same_mesh() -> None:
    def outer(v: Any) -> Any:
        inner: Any = ft.shard_map(
            lambda w: w + lax.psum(w, "y"), in_specs=P("y"), out_specs=P("y")
        )
        return inner(v)

    run = over(outer, P("x"), P("x"), axis_names={"x"})
    wanted = X + np.tile(X.reshape(2, 4, 8).sum(1, keepdims=True), (1, 4, 1)).reshape(
        8, 8
    )
    for f in (run, ft.jit(run)):
        np.testing.assert_array_equal(f(X), wanted)


def test_equal_meshes_and_specs_are_one_object() -> None:
    assert (
        mesh() is mesh() is copy.deepcopy(mesh()) is pickle.loads(pickle.dumps(mesh()))
    )
    assert P("x", ()) is P(("x",), None) is pickle.loads(pickle.dumps(P("x", None)))
    spec = P("x", None, unreduced={"y"})
    assert pickle.loads(pickle.dumps(spec)) is spec is not P("x", None)
    assert mesh().abstract_mesh is mesh().abstract_mesh.update()
    assert mesh() != ft.make_mesh((2, 4), ("x", "y"), (AxisType.Auto,) * 2)
    assert str(mesh()) == "Mesh('x': 2, 'y': 4, axis_types=(Explicit, Explicit))"
    assert str(ft.sharding.get_mesh()) == "Mesh()"
    seen: list[Any] = []
    within = mesh()

    def other() -> None:
        with within:
            seen.append(ft.sharding.get_mesh())

    with within, within:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert seen == [within]
    assert ft.sharding.get_mesh().empty


def test_specs_are_added_with_what_is_unreduced() -> None:
    assert P("x", unreduced={"z"}) + P("a", unreduced={"b"}) == P(
        "x", "a", unreduced={"z", "b"}
    )
    assert (P("x") + (None,), ("y",) + P("x")) == (P("x", None), P("y", "x"))
    for wrong, message in (
        (lambda: P("x", unreduced={"z"}) + ("y",), "`__add__`"),
        (lambda: ("y",) + P("x", reduced={"z"}), "`__radd__`"),
        (lambda: P("x", unreduced={"x"}), "cannot overlap"),
        (lambda: P("x", unreduced={None}), "cannot contain None"),
        (lambda: P("x", ("y", ("z",))), "nested tuple"),
        (lambda: type("Q", (P,), {}), "prohibited"),
    ):  # fmt: skip
        with pytest.raises((ValueError, TypeError), match=message):
            wrong()


def test_wrong_meshes_raise_when_they_are_made() -> None:
    auto, places = AxisType.Auto, np.array(ft.devices()).reshape(2, 4)
    whole = NamedSharding(mesh(), P())
    for wrong, message in (
        (lambda: Mesh(places, ("x", None)), "cannot be None"),
        (lambda: Mesh(places, ("x",)), "Mesh requires the ndim"),
        (lambda: Mesh(places, ("x", "x")), "all of them different"),
        (lambda: Mesh(places, ("x", "y"), auto), "Number of axis names"),
        (lambda: Mesh(places, ("x", "y"), ("Auto", auto)), "must be of type AxisType"),
        (lambda: ft.make_mesh((2, 0), ("x", "y")), "whole numbers from 1 on"),
        (lambda: ft.make_mesh((2, 1.5), ("x", "y")), "whole numbers from 1 on"),
        (lambda: NamedSharding(mesh(), ("x",)), "takes a mesh and a PartitionSpec"),
        (lambda: NamedSharding(P("x"), mesh()), r"this order, got P\('x',\) and Mesh"),
        (lambda: NamedSharding(mesh(), P(unreduced={"z"})), "not found in mesh"),
        (
            lambda: NamedSharding(Mesh(places, ("x", "y")), P(unreduced={"x"})),
            "of type Explicit",
        ),
        (lambda: whole.with_memory_kind("drum"), "invalid memory kind"),
        (lambda: ft.pmap(fnp.sin, devices=[]), "must be non-empty"),
        (lambda: ft.debug.visualize_array_sharding(X), "array on devices is required"),
        (lambda: ft.device_put(X, Format(Layout((0,)), whole)), "Length of major_to"),
        (lambda: ft.device_put(X, Format(Layout((1, 0)), whole)), "lie row by row"),
        (lambda: ft.device_put(X, mesh()), "only accepts a device"),
        (lambda: ft.device_put(X, 5), "only accepts a device"),
    ):  # fmt: skip
        with pytest.raises((ValueError, TypeError), match=message):
            wrong()


def test_formats_are_places_of_rows() -> None:
    places = NamedSharding(mesh(), P("x"))
    for layout in (None, Layout.AUTO, Layout((0, 1))):
        x = ft.device_put(X, Format(layout, places))
        assert x.format == Format(Layout((0, 1)), places)
        made = ft.make_array_from_callback((8, 8), x.format, X.__getitem__)
        assert made.sharding == places


def test_shardings_are_equivalent_where_their_parts_are() -> None:
    one = Mesh(ft.devices()[:1], "x")
    alone = SingleDeviceSharding(ft.devices()[0])
    assert NamedSharding(one, P("x")).is_equivalent_to(alone, 2)
    assert NamedSharding(mesh(), P("x")).is_equivalent_to(
        NamedSharding(mesh(), P("x", None)), 2
    )
    assert not NamedSharding(mesh(), P("x")).is_equivalent_to(alone, 2)
    assert not NamedSharding(mesh(), P()).is_equivalent_to(
        NamedSharding(mesh(), P(), "pinned_host"), 2
    )
    abstract = NamedSharding(mesh().abstract_mesh, P("x"))
    assert abstract.is_equivalent_to(NamedSharding(mesh().abstract_mesh, P("x")), 2)
    assert not abstract.is_equivalent_to(NamedSharding(mesh().abstract_mesh, P("y")), 2)
    assert (abstract.num_devices, abstract.memory_kind) == (8, None)


def test_arrays_stay_where_they_were_put() -> None:
    first, third, fifth = (ft.devices()[i] for i in (0, 3, 5))
    places = NamedSharding(mesh(), P("x", "y"))
    for place in (first, third, places):
        x = ft.device_put(X, place)
        copies = [
            fnp.zeros_like(x), fnp.full_like(x, 2), lax.full_like(x, 2), x.copy(),
            fnp.array(x), copy.deepcopy(x), ft.device_put(x), ft.device_put(x, None),
        ]  # fmt: skip
        assert x.committed
        assert [y.device for y in copies] == [place] * len(copies)
        assert all(y.committed for y in copies)
        for other in (first, fifth, places):
            assert ft.device_put(x, other).device == other
        assert ft.ShapeDtypeStruct.like(x).sharding == x.sharding
        assert x.platform() == "cpu"
    assert ft.device_put(x, places) is x
    gone = x.copy()
    gone.delete()
    for place in (places, NamedSharding(mesh(), P())):
        with pytest.raises(errors.DeletedArrayError):
            ft.device_put(gone, place)
    assert not fnp.zeros_like(x, shape=(3,)).committed
    assert ft.ShapeDtypeStruct.like(fnp.ones(3)).sharding is None
    assert lax.full((8, 8), 1.0, sharding=places).sharding == places
    assert fnp.zeros((8, 8), out_sharding=places).sharding == places
    with pytest.raises(errors.ArgumentError, match="addressable_shards"):
        x.unsafe_buffer_pointer()


def test_arrays_put_on_different_devices_do_not_meet() -> None:
    on = [ft.device_put(X, d) for d in (*ft.devices()[:3], NamedSharding(mesh(), P()))]
    for x in on:  # nor do their results
        for y in (x + 1, fnp.concatenate([x, X]), ft.jit(fnp.sin)(x), x[1:].T):
            assert (y.committed, y.devices()) == (True, x.devices())
            assert {z.committed for z in fnp.split(y[:4], 2)} == {True}
    for i, x in enumerate(on):
        for function in (fnp.add, ft.jit(fnp.add), ft.jit(fnp.matmul)):
            np.testing.assert_array_equal(function(x, X), function(X, X))
            np.testing.assert_array_equal(function(x, x), function(X, X))
            for y in on[:i] + on[i + 1 :]:
                with pytest.raises(ValueError, match="incompatible devices"):
                    function(x, y)


def shard(mesh: Mesh) -> Any:
    return ft.shard_map(lambda x: x + 1, mesh=mesh, in_specs=P("i"), out_specs=P("i"))


def constrain(place: Any) -> Any:
    return lambda x: lax.with_sharding_constraint(x, place)


def test_arrays_and_shardings_are_over_the_devices_of_a_program() -> None:
    devices = np.array(ft.devices())
    every, four, back = (Mesh(d, ("i",)) for d in (devices, devices[:4], devices[::-1]))
    second, third = (SingleDeviceSharding(d) for d in devices[1:3])
    along = NamedSharding(every, P("i"))
    x, on_second = ft.device_put(X[0], along), ft.device_put(X[0], second)
    calls: list[Any] = []
    for mesh in (four, back):
        functions = shard(mesh), constrain(NamedSharding(mesh, P("i")))
        calls += [partial(run, x) for f in functions for run in (f, ft.jit(f))]
        calls.append(partial(ft.grad(lambda x, f=functions[0]: f(x).sum()), x))
    for f in (shard(every), constrain(along)):
        calls += [partial(run, on_second) for run in (f, ft.jit(f))]
    for options in (
        {"in_shardings": (along, second)},
        {"in_shardings": along, "out_shardings": second},
        {"in_shardings": second, "out_shardings": third},
        {"in_shardings": along, "out_shardings": NamedSharding(back, P("i"))},
    ):  # fmt: skip
        calls.append(partial(ft.jit, fnp.add, **options))
    calls.append(partial(ft.jit(fnp.add, in_shardings=(along, None)), X[0], on_second))
    for call in calls:
        with pytest.raises(ValueError, match="incompatible devices"):
            call()
    square = NamedSharding(Mesh(devices.reshape(4, 2), ("i", "j")), P("i"))
    np.testing.assert_array_equal(shard(square.mesh)(x), X[0] + 1)
    for options in ({"in_shardings": third}, {"device": devices[2]}):
        moved = ft.jit(lambda x: x + 1, **options)(on_second)
        assert (moved.device, moved.committed) == (devices[2], True)


def test_a_device_has_one_part() -> None:
    twice = Mesh(np.array(ft.devices()[:1] * 2), ("i",))
    place = NamedSharding(twice, P("i"))
    for call in (
        lambda: ft.device_put(X, place), lambda: shard(twice)(X),
        lambda: ft.jit(constrain(place))(X),
    ):  # fmt: skip
        with pytest.raises(errors.ShardingError, match="has one twice"):
            call()


def test_arrays_are_made_of_parts_on_distinct_devices() -> None:
    places = NamedSharding(mesh(), P("x"))
    make: Any = ft.make_array_from_single_device_arrays
    parts = [ft.device_put(X[:4], d) for d in ft.devices()]
    np.testing.assert_array_equal(make((8, 8), places, tuple(parts))[4:], X[:4])
    for arrays, options, message in (
        ([X[:4]] * 8, {}, "parts are arrays on devices"),
        ([parts[0]] * 8, {}, "distinct devices"),
        (ft.device_put(X, places), {}, "must be a list or tuple"),
        ([ft.device_put(X, places)] * 8, {}, "must be on one device"),
        (parts[:7], {}, "has 8 devices .* got 7"),
        (parts, {"dtype": "int32"}, "must match the dtype"),
    ):  # fmt: skip
        with pytest.raises((ValueError, TypeError), match=message):
            make((8, 8), places, arrays, **options)
    call: Any = ft.make_array_from_callback
    with pytest.raises(ValueError, match="must match the dtype"):
        call((8, 8), places, lambda i: X[i], dtype="int32")
    with pytest.raises(errors.UnexpectedTracerError, match="within a traced context"):
        ft.jit(lambda x: call((8, 8), places, lambda i: x[i]))(X)


def test_the_number_of_devices_is_jaxs_until_they_are_used() -> None:
    script = """
        import os
        os.environ["XLA_FLAGS"] = "--one --xla_force_host_platform_device_count=8 --two"
        import jax
        {first}
        print(jax.device_count())
        try:
            jax.config.update("jax_num_cpu_devices", 4)
        except RuntimeError as error:
            print("should be updated before" in str(error))
    """
    for first, printed in (
        ("", "8\nTrue\n"), ("jax.config.update('jax_num_cpu_devices', 4)", "4\n"),
    ):  # fmt: skip
        assert in_new_process(script.format(first=first)) == printed


def in_new_process(script: str) -> str:
    """What a program has written, of an environment that says nothing of devices."""
    environment = {**os.environ, "FTRACE_AS_JAX": "1"}
    environment.pop("FTRACE_CPU_DEVICES", None)
    return subprocess.run(
        [sys.executable, "-c", "import ftrace\n" + textwrap.dedent(script)],
        env=environment, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


def test_draws_are_where_out_sharding_says() -> None:
    places, key = NamedSharding(mesh(), P("x")), ft.random.key(3)
    logits = np.ones((4, 3), np.float32)
    for function, *rest in (
        (ft.random.uniform, (4,)), (ft.random.gamma, 2.0, (4,)),
        (ft.random.permutation, 4), (ft.random.categorical, logits),
    ):  # fmt: skip
        got = function(key, *rest, out_sharding=places)
        assert got.sharding == places
        np.testing.assert_array_equal(got, function(key, *rest))


def test_functions_without_types_give_results_where_they_are_wanted() -> None:
    explicit = ft.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    auto = ft.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    divided = NamedSharding(explicit, P("x", "y"))
    with ft.set_mesh(explicit):
        doubled = ft.sharding.auto_axes(lambda x: x * 2)
        said = ft.sharding.auto_axes(out_sharding=P("x", "y"))(lambda x: x * 2)
        for f in (lambda x: doubled(x, out_sharding=P("x", "y")), said, ft.jit(said)):
            got = f(X)
            assert got.sharding == divided
            np.testing.assert_array_equal(got, 2 * X)
        seen = ft.sharding.explicit_axes(lambda x, y: (x.sharding, x + y))
        place, total = seen(X, X, in_sharding=(P("x", "y"), P()))
        assert place == divided
        np.testing.assert_array_equal(total, 2 * X)
        with pytest.raises(errors.ArgumentError, match="needs out_sharding"):
            doubled(X)
        with pytest.raises(errors.ArgumentError, match="needs in_sharding"):
            seen(X, X)
    with ft.set_mesh(auto):
        assert doubled(fnp.asarray(X), out_sharding=P("x")).sharding != divided
    np.testing.assert_array_equal(said(X), 2 * X)


X2, W2 = np.arange(128.0).reshape(16, 8), np.ones((8, 4))
IDS = np.arange(16) // 2
PLACED: dict[str, Any] = {
    "matmul": lambda p: fnp.matmul(X2, W2, out_sharding=p),
    "dot": lambda p: fnp.dot(X2, W2, out_sharding=p),
    "einsum": lambda p: fnp.einsum("ij,jk", X2, W2, out_sharding=p),
    "tensordot": lambda p: fnp.tensordot(X2, W2, 1, out_sharding=p),
    "bincount": lambda p: fnp.bincount(IDS, length=8, out_sharding=p),
    "at.get": lambda p: fnp.asarray(X2).at[:8].get(out_sharding=p),
    "lax.dot": lambda p: lax.dot(X2, W2, out_sharding=p),
    "dot_general": lambda p: lax.dot_general(
        X2, W2, (((1,), (0,)), ((), ())), out_sharding=p
    ),
    "ragged_dot": lambda p: lax.ragged_dot(
        X2, np.ones((2, 8, 4)), fnp.asarray([8, 8]), out_sharding=p
    ),
    "reduce_sum": lambda p: lax.reduce_sum(X2, (1,), out_sharding=p),
    "broadcast": lambda p: lax.broadcast(X2, (8,), out_sharding=p),
    "broadcast_in_dim": lambda p: lax.broadcast_in_dim(
        X2, (16, 8, 2), (0, 1), out_sharding=p
    ),
    "reshape": lambda p: lax.reshape(X2, (8, 16), out_sharding=p),
    "conv": lambda p: lax.conv_general_dilated(
        np.ones((8, 2, 5)), np.ones((3, 2, 3)), (1,), "SAME", out_sharding=p
    ),
    "segment_sum": lambda p: ft.ops.segment_sum(X2, IDS, 8, out_sharding=p),
}


@pytest.mark.parametrize("name", PLACED)
def test_results_are_where_out_sharding_says(name: str) -> None:
    call = PLACED[name]
    expected = np.asarray(call(None))
    compiled = ft.jit(lambda: call(P("x")))  # once more for each mesh
    for sizes in ((2, 4), (4, 2)):
        around = ft.make_mesh(sizes, ("x", "y"))
        wanted = NamedSharding(around, P("x"))
        with ft.set_mesh(around):
            for got in (call(P("x")), call(wanted), compiled()):
                assert got.sharding.is_equivalent_to(wanted, got.ndim)
                np.testing.assert_array_equal(got, expected)


def test_what_is_jitted_under_a_mesh_is_not_what_is_under_another() -> None:
    f = ft.jit(lambda x: lax.with_sharding_constraint(x, P("x")))
    g = ft.jit(lambda: len(ft.sharding.get_mesh().axis_names))
    assert g() == 0
    for sizes in ((2, 4), (4, 2), (2, 4), (8, 1)):
        around = ft.make_mesh(sizes, ("x", "y"))
        for _ in range(8):  # also in native code
            with ft.set_mesh(around):
                assert f(X).sharding.mesh == around
                assert g() == 2
            assert g() == 0
        with around:
            assert f(X).sharding.mesh == around


def test_a_mesh_for_good_is_that_of_blocks_and_settings_within() -> None:
    before, around = ft.config.mesh, ft.make_mesh((2, 4), ("x", "y"))
    try:
        ft.set_mesh(around)
        with ft.config(enable_x64=True):
            assert ft.sharding.get_mesh() == around
        ft.config.update("debug_nans", True)
        assert ft.config.debug_nans
        with ft.set_mesh(ft.make_mesh((8,), ("z",))):
            assert ft.sharding.get_mesh().axis_names == ("z",)
        assert ft.sharding.get_mesh() == around
    finally:
        ft.config.update("debug_nans", False)
        ft.set_mesh(before)
    with pytest.raises(errors.ArgumentError, match="a mesh, or None"):
        ft.config(mesh=3).__enter__()


def test_new_arrays_are_where_out_sharding_says() -> None:
    places = NamedSharding(mesh(), P("x"))
    for function, *rest in (
        (fnp.arange, 8), (fnp.full, (8, 2), 3.0), (fnp.zeros, 8), (fnp.ones, (4, 1)),
        (fnp.asarray, [1, 2, 3, 4]), (fnp.reshape, X, (-1,)), (fnp.zeros_like, X),
    ):  # fmt: skip
        got = function(*rest, out_sharding=places)
        assert got.sharding == places
        np.testing.assert_array_equal(got, function(*rest))


def test_the_sharding_of_a_type_outside_of_meshes_says_nothing() -> None:
    """optax passes that of its parameters on, whatever they are."""
    nowhere = ft.typeof(fnp.ones(3)).sharding
    key = ft.random.key(0)
    assert fnp.zeros(3, device=nowhere).sharding == fnp.zeros(3).sharding
    assert fnp.arange(3, out_sharding=nowhere).sharding == fnp.zeros(3).sharding
    drawn = ft.random.normal(key, (3,), out_sharding=nowhere)
    np.testing.assert_array_equal(drawn, ft.random.normal(key, (3,)))
    with pytest.raises(errors.DeviceError, match="an empty NamedSharding"):
        ft.device_put(X, nowhere)
    with pytest.raises(errors.DeviceError, match="an empty NamedSharding"):
        ft.lax.with_sharding_constraint(X, nowhere)


@pytest.mark.parametrize("way", ["shard_map", "pmap"])
def test_debug_nans_names_the_line_of_a_derivative(way: str) -> None:
    def f(x: Any) -> Any:
        return fnp.arctan2(x, x)  # its derivative is 0/0 at 0

    over = {"mesh": ft.make_mesh((8,), ("i",)), "in_specs": P("i"), "out_specs": P("i")}
    run = ft.pmap(f) if way == "pmap" else ft.shard_map(f, **over)
    grad, x = ft.grad(lambda x: run(x).sum()), np.arange(8, dtype=np.float32)
    with ft.config(debug_nans=True):
        for call in (grad, ft.jit(grad)):
            with pytest.raises(FloatingPointError, match="made nan") as caught:
                call(x)
            assert "its derivative is 0/0 at 0" in str(caught.value)


def test_a_rule_that_sends_cotangents_is_asked_from_outside() -> None:
    both, ring = ("x", "y"), [(i, (i + 1) % 8) for i in range(8)]
    sends = (
        lambda ct: lax.ppermute(ct, both, ring),
        lambda ct: lax.pshuffle(ct, both, [7, *range(7)]),
    )
    for send in sends:
        f = ft.custom_vjp(lambda x: x)
        f.defvjp(lambda x: (x, None), lambda _, ct, send=send: (send(ct),))
        grad = ft.grad(
            lambda x, g=f: over(lambda x: g(x) ** 2, P(both), P(both))(x).sum()
        )
        for run in (grad, ft.jit(grad)):
            np.testing.assert_array_equal(run(X[0]), np.roll(2 * X[0], 1))


@pytest.mark.parametrize(
    ("names", "into", "out", "kind", "match"),
    [
        ({"x"}, P("y"), P(), ValueError, "in_specs .* manual .{x}.*refers to {y}"),
        ({"x"}, P(), P(None, "y"), ValueError, "out_specs .*manual .*refers to {y}"),
        ({"q", "x"}, P("x"), P("x"), ValueError, "axis_names={q,x} .*has no {q}"),
        ("x", P("x"), P("x"), TypeError, r"a set of names.*got 'x': .*={\"x\"}"),
        (("x",), P("x"), P("x"), TypeError, "axis_names must be a set"),
        (None, P("x"), P("x"), TypeError, "axis_names must be a set"),
    ],
)
def test_axes_that_are_not_manual_are_in_no_spec(
    names: Any, into: Any, out: Any, kind: Any, match: str
) -> None:
    for wrap in (lambda f: f, ft.jit):
        with pytest.raises(kind, match=match):
            wrap(lambda x: over(lambda x: x, into, out, axis_names=names)(x))(X)
    some = over(lambda x: lax.psum(x, "x"), P("x"), P(), axis_names={"x"})
    np.testing.assert_array_equal(some(X), X[:4] + X[4:])
    with pytest.raises(errors.AxisNameError, match="axes of its mesh, in axis_names"):
        over(lambda x: lax.psum(x, "y"), P("x"), P(), axis_names={"x"})(X)


def by(spec: P) -> Any:
    return lambda x: lax.with_sharding_constraint(x, spec)


#: Of (8, 8) arrays over P("x", "y"): what they become, and how that and a gradient lie
#: with JAX 0.10.2.
XY = P("x", "y")
PARTLY: list[Any] = [
    (lambda x: x * 2, P("x", None), X * 2, XY, XY),
    (lambda x: lax.psum(x, "x"), P(), X[:4] + X[4:], P(None, "y"), XY),
    (
        lambda x: x @ x.T,
        P("x"),
        np.vstack([x @ x.T for x in (X[:4], X[4:])]),
        P("x"),
        XY,
    ),
    (lambda x: x.sum(1), P("x"), X.sum(1), P("x"), P("x")),
    (lambda x: x.T, P(None, "x"), np.hstack([X[:4].T, X[4:].T]), P("y", "x"), XY),
    (by(P("y")), P("x"), X, P(("x", "y")), P(("x", "y"))),
    (by(P(None, None)), P("x"), X, P("x"), P("x")),
]


@pytest.mark.parametrize(("f", "out", "wanted", "spec", "of_gradient"), PARTLY)
def test_axes_that_are_not_manual_divide_what_they_did(
    f: Any, out: P, wanted: Any, spec: P, of_gradient: P
) -> None:
    auto = ft.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    x = ft.device_put(X, NamedSharding(auto, XY))
    run = ft.shard_map(f, mesh=auto, in_specs=P("x"), out_specs=out, axis_names={"x"})
    for made in (run(x), ft.jit(run)(x)):
        assert made.sharding.spec == spec
        np.testing.assert_array_equal(made, wanted)
    assert ft.grad(lambda x: (run(x) ** 2).sum())(x).sharding.spec == of_gradient
    gathered = ft.shard_map(f, mesh=auto, in_specs=P(), out_specs=P(), axis_names={"x"})
    assert "x" not in str(gathered(x).sharding.spec)


@pytest.mark.parametrize("scalar", [np.int64(3), np.float64(2), np.complex128(1j)])
def test_a_scalar_that_is_put_is_an_array_of_its_dtype(scalar: Any) -> None:
    places = (None, "cpu:1", ft.devices()[0], ft.NamedSharding(mesh(), P()))
    for place in places:
        (found,) = ft.device_put([scalar], place)
        assert (found.weak_type, found.dtype) == (False, scalar.dtype)
    with ft.config(jax_enable_x64=True):
        for made in (ft.device_put(scalar), ft.jit(lambda x: x)(scalar)):
            assert (made.weak_type, made.dtype) == (False, scalar.dtype)
    assert ft.device_put(3).weak_type


def test_a_rule_that_adds_up_what_all_share_is_not_added_up_again() -> None:
    def scaled(psum: bool) -> Any:
        g = ft.custom_vjp(lambda w, x: w * x)

        def backward(known: Any, ct: Any) -> Any:
            of_w = (ct * known[1]).sum()
            return lax.psum(of_w, "x") if psum else of_w, known[0] * ct

        g.defvjp(lambda w, x: (w * x, (w, x)), backward)
        return over(g, (P(), P("x")), P("x"))

    x = np.arange(8, dtype=np.float32)
    for psum in (True, False):
        run = scaled(psum)
        assert ft.grad(lambda w, run=run: run(w, x).sum())(np.float32(3)) == x.sum()


def test_keys_are_sent_as_their_numbers_are() -> None:
    keys = ft.random.split(ft.random.key(3), 64)
    both, ring = ("x", "y"), [(i, (i + 1) % 8) for i in range(7)]
    for send in (
        lambda v: lax.ppermute(v, both, ring),
        lambda v: lax.pshuffle(v, both, [*range(1, 8), 0]),
        lambda v: lax.all_gather(v, both).reshape(-1, *v.shape[1:])[8:16],
        lambda v: lax.all_gather(v, both, tiled=True)[8:16],
        lambda v: lax.all_to_all(v, both, 0, 0, tiled=True),
    ):
        run = over(send, P(both), P(both))
        wanted = run(ft.random.key_data(keys))
        for way in (run, ft.jit(run)):
            found = way(keys)
            assert found.dtype == keys.dtype
            np.testing.assert_array_equal(ft.random.key_data(found), wanted)


def test_spmd_axis_name_divides_the_axis_of_vmap() -> None:
    x = fnp.arange(32.0).reshape(4, 8)
    plain = over(lambda v: v * lax.psum(v.sum(), "x"), P("x"), P("x"))
    wanted = ft.vmap(plain)(x)

    def constrained(v: Any) -> Any:
        return lax.with_sharding_constraint(v * 2, ft.NamedSharding(mesh(), P("x")))

    def loop(v: Any) -> Any:
        return lax.scan(lambda c, _: (constrained(c), None), v, length=2)[0]

    for run in (plain, ft.grad(lambda v: plain(v).sum())):
        for around in (lambda f: f, ft.jit):
            found = around(ft.vmap(run, spmd_axis_name="y"))(x)
            np.testing.assert_array_equal(found, ft.vmap(run)(x))
            assert found.sharding.spec[0] == "y"
            assert ft.vmap(run)(x).sharding.spec[0] is None  # not that of the other
    np.testing.assert_array_equal(ft.vmap(plain, spmd_axis_name="y")(x), wanted)
    for run, times in ((constrained, 2), (loop, 4)):
        found = ft.jit(ft.vmap(run, spmd_axis_name=("y",)))(x)
        np.testing.assert_array_equal(found, times * x)
        if run is constrained:  # what a loop gives lies as it is read
            assert found.sharding.spec == P("y", "x")
    pair = over(lambda v: v + 1, P(), P())
    found = ft.vmap(pair, spmd_axis_name=("x", "y"))(fnp.arange(16.0).reshape(8, 2))
    assert found.sharding.spec == P(("x", "y"))
    assert ft.vmap(fnp.sin, spmd_axis_name="q")(x).shape == x.shape  # as in JAX


def test_spmd_axis_name_that_cannot_divide_is_refused() -> None:
    plain = over(lambda v: v * 2, P("x"), P("x"))
    for name, size, kind, match in (
        ("x", 4, errors.ValueRangeError, "cannot appear in shard_map in_specs"),
        (("y", "x"), 8, errors.ValueRangeError, "cannot appear in shard_map in_specs"),
        ("z", 4, errors.ValueRangeError, "must be axes of the mesh"),
        (3, 4, errors.ValueRangeError, "must be axes of the mesh"),
        ("y", 3, errors.ShapeError, "3 lanes cannot be divided"),
    ):
        with pytest.raises(kind, match=match):
            ft.vmap(plain, spmd_axis_name=name)(fnp.ones((size, 4)))


def test_shard_map_takes_no_sums_that_are_still_to_be_taken() -> None:
    kinds = (ft.sharding.AxisType.Auto, ft.sharding.AxisType.Explicit)
    auto, explicit = [ft.make_mesh((2, 4), ("x", "y"), (k, k)) for k in kinds]
    for word in ("unreduced", "reduced"):
        spec = P(**{word: {"x"}})
        for into, out, what in ((spec, P(), "in_specs"), (P(), spec, "out_specs")):
            run = ft.shard_map(lambda v: v, mesh=auto, in_specs=into, out_specs=out)
            with pytest.raises(ValueError, match=f"{word} in {what}.*type `Explicit`"):
                run(fnp.ones(4))
            run = ft.shard_map(lambda v: v, mesh=explicit, in_specs=into, out_specs=out)
            if word == "reduced":  # it differs in derivatives alone, which are the same
                np.testing.assert_array_equal(run(fnp.ones(4)), np.ones(4))
                continue
            with pytest.raises(NotImplementedError, match=r"write lax\.psum within"):
                run(fnp.ones(4))

"""Meshes, specs and shardings as data; functions mapped over a mesh of one device."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import distributed, errors, lax, memory, profiler
from ftrace.experimental import layout, pjit, shard_map
from ftrace.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    SingleDeviceSharding,
    get_abstract_mesh,
    get_mesh,
)

P = ft.P
DEVICE = ft.devices()[0]
ONE = Mesh(np.array([DEVICE]), ("x",))
WIDE = AbstractMesh((2, 3), ("a", "b"))
X = fnp.arange(24.0).reshape(4, 6)


def test_specs_are_values() -> None:
    assert P("x", None) == P("x", None) != P("x")
    assert hash(P("x")) == hash(P("x"))
    assert P(("x",)) == P("x")
    assert P("x")[0] == "x"
    assert [*P("x", ("y", "z"))] == ["x", ("y", "z")]
    assert len(P("a") + P(None)) == 2
    assert P("a") != ("a",)
    assert repr(P("x", None)) == "P('x', None)"
    assert repr(P("x")) == "P('x',)"
    assert pickle.loads(pickle.dumps(P("x", "y"))) == P("x", "y")
    assert ft.tree.leaves({"a": P("x", "y")}) == [P("x", "y")]


def test_meshes_know_their_axes() -> None:
    assert dict(ONE.shape) == {"x": 1}
    assert (WIDE.size, WIDE.axis_names, WIDE.axis_sizes) == (6, ("a", "b"), (2, 3))
    assert Mesh([DEVICE], "x") == ONE
    assert Mesh([DEVICE], "y") != ONE
    assert ONE.abstract_mesh.update(abstract_device=None) is AbstractMesh((1,), "x")
    assert ONE.abstract_mesh.abstract_device.platform == "cpu"
    assert ft.make_mesh((1, 1), ("a", "b")).axis_types == (AxisType.Explicit,) * 2
    assert copy.deepcopy(ONE) is ONE
    assert get_mesh().empty
    assert get_abstract_mesh().empty
    with ft.set_mesh(ONE):
        assert get_mesh() == ONE
        assert get_abstract_mesh() == ONE.abstract_mesh
    with ONE:
        assert get_mesh() is ONE
    assert get_mesh().empty
    with pytest.raises(ValueError, match="Number of devices 1 must be >="):
        ft.make_mesh((2,), ("x",))
    with pytest.raises(ValueError, match="equal the number of its axis_names"):
        Mesh([DEVICE], ("x", "y"))


def test_shardings_divide_shapes_as_they_say() -> None:
    rows = [
        (P(), (4, 6)), (P("a"), (2, 6)), (P(None, "b"), (4, 2)), (P("a", "b"), (2, 2)),
        (P(None, ("a", "b")), (4, 1)),
    ]  # fmt: skip
    for spec, shape in rows:
        sharding = NamedSharding(WIDE, spec)
        assert sharding.shard_shape((4, 6)) == shape
        assert sharding.is_fully_replicated == (spec == P())
    with pytest.raises(ValueError, match="axis 0 of size 3"):
        NamedSharding(WIDE, P("a")).shard_shape((3,))
    with pytest.raises(ValueError, match="rank at least 2"):
        NamedSharding(WIDE, P("a", "b")).shard_shape((4,))
    with pytest.raises(ValueError, match="is not found in mesh"):
        NamedSharding(ONE, P("y"))
    with pytest.raises(ValueError, match="duplicate"):
        NamedSharding(ONE, P("x", "x"))
    with pytest.raises(errors.DeviceError, match="no devices"):
        ft.device_put(X, NamedSharding(WIDE, P("a")))
    # Where the parts are, on a mesh of things that stand for devices.
    names = [f"d{i}" for i in range(6)]
    mesh = Mesh(np.array(names, object).reshape(2, 3), ("a", "b"))
    where = NamedSharding(mesh, P("b", "a")).devices_indices_map((6, 4))
    assert where["d0"] == (slice(0, 2), slice(0, 2))
    assert where["d5"] == (slice(4, 6), slice(2, 4))
    whole = np.zeros((6, 4), int)
    for index in where.values():
        whole[index] += 1
    assert (whole == 1).all()
    both = [NamedSharding(mesh, s) for s in (P("a"), P("a", None))]
    assert both[0].is_equivalent_to(both[1], 2)
    assert not both[0].is_equivalent_to(NamedSharding(mesh, P("b")), 2)


def test_arrays_say_how_they_lie() -> None:
    assert X.sharding == SingleDeviceSharding(DEVICE)
    (shard,) = X.addressable_shards
    assert (shard.device, shard.replica_id) == (DEVICE, 0)
    assert shard.index == (slice(None),) * 2
    assert X.is_fully_addressable
    assert X.is_fully_replicated
    assert not X.committed
    assert X.on_device_size_in_bytes() == X.nbytes
    assert X.unsafe_buffer_pointer() == np.asarray(X).ctypes.data
    assert X.aval is ft.typeof(X)
    assert X.format == layout.Format(layout.Layout((0, 1)), X.sharding)
    assert layout.with_layout_constraint(X, layout.Layout((0, 1))) is X
    with pytest.raises(ValueError, match="row by row"):
        layout.with_layout_constraint(X, layout.Layout((1, 0)))
    assert repr(ft.typeof(1.0)) == "f32~[]"
    assert ft.typeof(ft.ShapeDtypeStruct((2,), "f4")) is ft.typeof(np.ones(2, "f4"))
    sharding = NamedSharding(ONE, P("x"))
    for put in (ft.device_put, lax.with_sharding_constraint, ft.reshard):
        placed = put({"a": X}, sharding)["a"]
        assert placed.sharding == sharding
        assert placed.committed
        np.testing.assert_array_equal(placed + 1, X + 1)
        np.testing.assert_array_equal(ft.jit(lambda x: x * 2)(placed), X * 2)
        np.testing.assert_array_equal(ft.grad(lambda x: (x**2).sum())(placed), X * 2)
        assert isinstance(placed, ft.Array)
    a, b = ft.device_put((X, 1.0), (sharding, None))
    assert (a.sharding, b.sharding) == (sharding, SingleDeviceSharding(DEVICE))
    with ft.set_mesh(ONE):
        assert ft.device_put(X, P("x")).sharding == sharding
        without = NamedSharding(ft.sharding.get_abstract_mesh(), P("x"))
        assert lax.with_sharding_constraint(X, without).sharding == sharding
    with pytest.raises(RuntimeError, match="non-empty mesh"):
        lax.with_sharding_constraint(X, P("x"))
    f = ft.jit(lambda x: lax.with_sharding_constraint(x * 2, sharding))
    np.testing.assert_array_equal(f(X), X * 2)
    parts = [
        ft.make_array_from_callback((4, 6), sharding, lambda i: np.asarray(X)[i]),
        ft.make_array_from_process_local_data(sharding, np.asarray(X)),
        ft.make_array_from_single_device_arrays((4, 6), sharding, [X]),
    ]
    for made in parts:
        assert made.sharding == sharding
        np.testing.assert_array_equal(made, X)
    made = ft.make_array_from_process_local_data(ft.devices()[0], np.asarray(X))
    assert made.devices() == {ft.devices()[0]}
    np.testing.assert_array_equal(made, X)
    with pytest.raises(errors.ShapeError, match=r"must have shape \(4, 6\)"):
        ft.make_array_from_callback((4, 6), sharding, lambda i: np.zeros((4, 5)))


def test_pmap_and_shard_map_run_on_one_device() -> None:
    x = np.ones((1, 3))

    def f(x: Any, y: Any) -> Any:
        return lax.psum(x, "i") + y, lax.axis_index("i")

    total, index = ft.pmap(f, "i", in_axes=(0, None))(x, 2.0)
    np.testing.assert_array_equal(total, x + 2)
    assert index.shape == (1,)
    scaled = ft.pmap(lambda x, n: x * n, static_broadcasted_argnums=1)
    np.testing.assert_array_equal(scaled(x, 3), x * 3)
    np.testing.assert_array_equal(ft.pmap(lambda x: x, out_axes=None, axis_size=1,
                                          in_axes=None)(x), x)  # fmt: skip
    both = ft.pmap(lambda x: (x, x + 1), out_axes=(None, 0))(x)
    assert [y.shape for y in both] == [(3,), (1, 3)]
    for many in (
        ft.device_put_replicated({"a": x[0]}, [DEVICE]),
        ft.device_put_sharded([{"a": x[0]}], [DEVICE]),
    ):
        np.testing.assert_array_equal(many["a"], x)
    with pytest.raises(ValueError, match="as many trees as devices"):
        ft.device_put_sharded([x, x], [DEVICE])
    with pytest.raises(errors.DeviceError, match="requires 2 logical devices"):
        ft.pmap(lambda x: x)(np.ones((2, 3)))
    with pytest.raises(ValueError, match="at least one argument with a mapped axis"):
        ft.pmap(lambda x: x, in_axes=None)(x)
    with pytest.raises(ValueError, match="got a scalar, which has no axis"):
        ft.pmap(lambda x, n: x * n)(x, 2.0)
    assert ft.typeof(x).sharding.is_fully_replicated

    def g(x: Any) -> Any:
        total = lax.psum(x.sum(), "x")
        return lax.psum(x, "x") * (1 + lax.axis_index("x")), total

    specs = {"in_specs": P("x"), "out_specs": (P("x"), P())}
    mapped = ft.shard_map(g, mesh=ONE, **specs)
    for way in (mapped, ft.jit(mapped)):
        np.testing.assert_array_equal(way(X)[0], X)
        assert way(X)[1] == np.sum(X)
    slope = ft.grad(lambda x: mapped(x)[0].sum())(X)
    np.testing.assert_array_equal(slope, np.ones_like(X))
    with ft.set_mesh(ONE):
        np.testing.assert_array_equal(ft.shard_map(**specs)(g)(X)[0], X)
        ft.smap(lambda x: lax.pmean(x, "x"), in_axes=0, out_axes=0, axis_name="x")(X)
    old = shard_map.shard_map(g, mesh=ONE, check_rep=False, **specs)
    np.testing.assert_array_equal(pjit.pjit(old, in_shardings=None)(X)[0], X)
    with pytest.raises(ValueError, match="refers to 'z'"):
        ft.shard_map(g, mesh=ONE, in_specs=P("z"), out_specs=P())(X)
    with pytest.raises(ValueError, match="too long"):
        ft.shard_map(lambda x: x.sum(), mesh=ONE, in_specs=P(), out_specs=P("x"))(X)
    with pytest.raises(ValueError, match="mesh with axes"):
        ft.shard_map(g, in_specs=P(), out_specs=P())(X)


def test_there_is_one_process_with_its_devices(capsys: Any) -> None:
    assert ft.default_backend() == DEVICE.platform == "cpu"
    assert ft.local_devices() == ft.devices() == [DEVICE]
    assert (ft.device_count(), ft.local_device_count()) == (1, 1)
    assert (ft.process_index(), ft.process_count(), ft.process_indices()) == (0, 1, [0])
    assert (DEVICE.id, DEVICE.process_index) == (0, 0)
    mine = fnp.ones(3) + 1
    assert any(x is mine for x in ft.live_arrays())
    assert ft.copy_to_host_async({"a": mine})["a"] is mine
    assert "numpy: " in (ft.print_environment_info(return_string=True) or "")
    ft.print_environment_info()
    assert "cores: " in capsys.readouterr().out
    assert not distributed.is_initialized()
    distributed.initialize(num_processes=1, process_id=0)
    assert distributed.is_initialized()
    distributed.shutdown()
    with pytest.raises(errors.DeviceError, match="mpirun -n 2"):
        distributed.initialize("10.0.0.1:1", 2, 0)
    assert ft.device_put(mine, memory.Space.Host) is not None
    with profiler.TraceAnnotation("a"), profiler.StepTraceAnnotation("b", step_num=1):
        assert profiler.annotate_function(lambda x: x + 1, name="c")(1) == 2


def test_what_is_known_is_computed_while_a_function_is_traced() -> None:
    def f(x: Any) -> Any:
        with ft.ensure_compile_time_eval():
            total = fnp.arange(4).sum()
            assert type(total) is ft.Array
            if total > 3:
                return x * total
        return x

    assert ft.jit(f)(2.0) == ft.vmap(f)(fnp.full(2, 2.0))[0] == 12


def test_a_branch_takes_as_inputs_what_is_traced_beside_what_is_known() -> None:
    """A value from around the branch, used in it while what is known is computed."""

    def f(x: Any) -> Any:
        around = x * 2

        def branch(y: Any) -> Any:
            with ft.ensure_compile_time_eval():
                return fnp.where(y > 1, around, y) + around

        return ft.lax.cond(x.sum() > 0, branch, lambda y: y, x * 3)

    x = np.float32([1.0, 0.25])
    expected = np.where(3 * x > 1, 2 * x, 3 * x) + 2 * x
    np.testing.assert_allclose(ft.jit(f)(x), expected)
    rows = ft.jit(ft.vmap(ft.grad(lambda x: f(x).sum())))(np.stack([x, -x]))
    np.testing.assert_allclose(rows, [[4, 5], [3, 3]])

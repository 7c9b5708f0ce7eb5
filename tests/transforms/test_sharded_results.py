"""Results of programs and calls on arrays that are divided over a mesh.

The shardings are those that JAX 0.10.2 gives on eight devices of the host, for meshes
of `Auto` axes; the numbers are bitwise those of one device.
"""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors, lax, nn, optim
from ftrace.sharding import AxisType, NamedSharding, PartitionSpec as P

A = np.arange(128, dtype=np.float32).reshape(8, 16)
B = np.arange(192, dtype=np.float32).reshape(16, 12)


@pytest.fixture(autouse=True)
def eight() -> Iterator[None]:
    with ft.config(cpu_devices=8):
        yield


def mesh(kind: AxisType = AxisType.Auto) -> Any:
    return ft.make_mesh((2, 4), ("x", "y"), axis_types=(kind,) * 2)


def put(x: Any, *spec: Any, kind: AxisType = AxisType.Auto) -> Any:
    return ft.device_put(x, NamedSharding(mesh(kind), P(*spec)))


def two() -> Any:
    return ft.make_mesh((2,), ("z",), devices=ft.devices()[:2])


def over(*spec: Any) -> Any:
    return NamedSharding(mesh(), P(*spec))


def powers(x: Any) -> Any:
    """A carry that the body of the loop leaves divided less."""
    return lax.scan(lambda c, _: (c @ (c.T @ c) / 1e4, c), x, None, length=3)


#: a function of A, divided (x, y), and the spec of its result
ONE: list[tuple[Callable[..., Any], Any]] = [
    (lambda x: x + 1, P("x", "y")), (lambda x: x.T, P("y", "x")),
    (lambda x: x.sum(), P()), (lambda x: x.sum(0), P("y")),
    (lambda x: x.astype("int32"), P("x", "y")), (lambda x: x[0], P("y")),
    (lambda x: x.reshape(8, 4, 4), P("x", "y")), (lambda x: x @ x.T, P("x")),
    (lambda x: -x, P("x", "y")), (lambda x: x * np.ones(16, "f"), P("x", "y")),
    (lambda x: x + fnp.ones((8, 16)), P("x", "y")), (lambda x: x[0, 0], P()),
    (lambda x: fnp.concatenate([x, x]), P("x", "y")), (lambda x: x.ravel(), P("x")),
    (lambda x: fnp.sort(x, 1), P("x", "y")), (lambda x: x.copy(), P("x", "y")),
    (lambda x: fnp.where(x > 3, x, 0), P("x", "y")), (lambda x: x[2:4], P("x", "y")),
    (lambda x: ft.grad(lambda x: (x**2).sum())(x), P("x", "y")),
    (lambda x: ft.vmap(lambda row: row * 2)(x), P("x", "y")),
    (lambda x: x.mean(-1, keepdims=True), P("x")),
    (lambda x: nn.softmax(x), P("x", "y")), (lambda x: x.at[0].set(1), P("x", "y")),
    (lambda x: powers(x)[0], P("x", "y")), (lambda x: powers(x)[1], P(None, "x", "y")),
    (lambda x: ft.grad(lambda x: (powers(x)[0] ** 2).sum())(x), P("x", "y")),
    (lambda x: lax.fori_loop(0, 2, lambda i, c: c + (c @ c.T) @ x, x), P("x", "y")),
]  # fmt: skip


def check(found: Any, wanted: Any, spec: Any) -> None:
    assert found.sharding == NamedSharding(mesh(), spec)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("f", "spec"), ONE)
def test_results_are_divided_as_in_jax(f: Any, spec: Any) -> None:
    x = put(A, "x", "y")
    check(f(x), f(fnp.asarray(A)), spec)
    jitted = ft.jit(f)
    for _ in range(20):  # native calls come after some
        check(jitted(x), jitted(A), spec)
        assert not hasattr(jitted(A), "given_sharding")


def test_operands_of_two_shardings_meet() -> None:
    x, w = put(A, "x"), put(B, None, "y")
    check(ft.jit(fnp.matmul)(x, w), ft.jit(fnp.matmul)(A, B), P("x", "y"))
    assert (x @ w).sharding.spec == P("x", "y")


def test_results_that_are_arguments_are_as_they_were() -> None:
    w = put(B, None, "y")
    same, three = ft.jit(lambda w: (w, 3))(w)
    assert same.sharding == w.sharding
    assert three.sharding == over()


def test_zeros_lie_as_the_array_that_they_are_like() -> None:
    x = put(A, "x", "y")
    for like in (fnp.zeros_like, fnp.ones_like):
        assert like(x).sharding == x.sharding
        assert ft.jit(like)(x).sharding.num_devices == 1


def test_arrays_from_around_a_function_are_divided_too() -> None:
    w = put(B, None, "y")
    f = ft.jit(lambda x: x @ w)
    check(f(A), ft.jit(lambda x: x @ B)(A), P(None, "y"))


def test_copies_keep_what_a_device_alone_does_not() -> None:
    x = put(A, "x", "y")
    for same in (copy.copy(x), copy.deepcopy(x), ft.device_put(x)):
        assert same.sharding == x.sharding
    assert ft.device_put(x, ft.devices()[0]).sharding.num_devices == 1


def test_explicit_axes_name_all_axes_of_a_value() -> None:
    x = put(A, "x", "y", kind=AxisType.Explicit)
    assert x.reshape(8, 4, 4).sharding.spec == P("x", "y", None)
    assert x.mean(1, keepdims=True).sharding.spec == P("x", None)
    assert x.sum().sharding.spec == P()


# What users say.


def test_jit_puts_arguments_and_results_where_it_is_told() -> None:
    def double(x: Any) -> Any:
        return x * 2

    given = ft.jit(double, in_shardings=over("y"))
    told = ft.jit(double, out_shardings=over("y"))
    for f in (given, told):
        for _ in range(20):
            check(f(A), A * 2, P("y"))
    check(told(put(A, "x")), A * 2, P("y"))

    @ft.jit(out_shardings=(None, over("x")), static_argnums=1)
    def pair(x: Any, n: int) -> Any:
        return x * n, x + n

    first, second = pair(put(A, "y"), 3)
    assert (first.sharding.spec, second.sharding.spec) == (P("y"), P("x"))
    first, second = pair(A, 3)
    assert (first.sharding.spec, second.sharding.spec) == (P(), P("x"))


def test_arguments_that_were_put_elsewhere_are_refused() -> None:
    f, x = ft.jit(fnp.negative, in_shardings=over("y")), put(A, "x")
    compiled = ft.jit(fnp.negative).lower(x).compile()
    for given in (put(A, "y"), A, fnp.asarray(A)):
        check(f(given), -A, P("y"))
    check(compiled(x), -A, P("x"))
    for run, given in (
        (f, x), (f, ft.device_put(A, ft.devices()[0])), (compiled, put(A, "y")),
        (ft.jit(fnp.negative).lower(A).compile(), x),
    ):  # fmt: skip
        with pytest.raises(errors.ShardingError, match=r"device_put\(x, sharding\)"):
            run(given)


def test_static_arguments_have_no_shardings() -> None:
    def scale(x: Any, by: int, *, up: bool = True) -> Any:
        return x * by if up else x / by

    f = ft.jit(scale, in_shardings=(over("x"),), static_argnums=1, static_argnames="up")
    check(f(A, 2, up=True), A * 2, P("x"))


def test_compiled_functions_tell_where_arguments_and_results_are() -> None:
    f = ft.jit(lambda x, y: (x.T, y + 1), in_shardings=(over("x"), None))
    compiled = f.lower(A, put(A, None, "y")).compile()
    assert compiled.input_shardings == ((over("x"), over(None, "y")), {})
    assert compiled.output_shardings == (over(None, "x"), over(None, "y"))
    transposed, _ = compiled(A, put(A, None, "y"))
    assert transposed.sharding == over(None, "x")
    alone = ft.jit(abs).lower(A).compile()
    assert alone.output_shardings.num_devices == 1


def test_a_spec_is_meant_along_the_mesh_of_the_context() -> None:
    with ft.set_mesh(mesh()):
        f = ft.jit(lambda x: x + 1, out_shardings=P("x"))
        assert f(A).sharding.spec == P("x")
        g = ft.jit(lambda x: lax.with_sharding_constraint(x, P(None, "y")) + 1)
        assert g(A).sharding.spec == P(None, "y")


def test_a_constraint_is_kept_by_transforms() -> None:
    def f(x: Any) -> Any:
        return lax.with_sharding_constraint(x * 2, over("y"))

    x = put(A, "x", "y")
    check(ft.jit(f)(x), A * 2, P("y"))
    check(ft.jit(f)(A), A * 2, P("y"))
    assert ft.jit(ft.vmap(f))(x).sharding.spec == P("x", "y")
    assert ft.jit(ft.grad(lambda x: f(x).sum()))(x).sharding.spec == P("y")
    assert ft.grad(lambda x: f(x).sum())(x).sharding.spec == P("y")
    _, tangent = ft.jit(lambda x: ft.jvp(f, (x,), (x,)))(A)
    assert tangent.sharding.spec == P("y")
    np.testing.assert_array_equal(ft.jit(ft.vmap(f))(A), A * 2)


def test_a_constraint_stands_in_loops_and_in_functions_of_their_own() -> None:
    @ft.jit
    def inner(x: Any) -> Any:
        return lax.with_sharding_constraint(x, over("x"))

    def step(c: Any, _: Any) -> Any:
        return lax.with_sharding_constraint(c + 1, over("x", "y")), None

    def f(x: Any) -> Any:
        return inner(lax.scan(step, x, None, length=3)[0])

    check(ft.jit(f)(A), A + 3, P("x"))
    check(ft.jit(lambda x: inner(x) * 2)(A), A * 2, P("x"))


def test_unconstrained_axes_are_as_they_come() -> None:
    free = P.UNCONSTRAINED

    @ft.jit
    def f(x: Any) -> Any:
        return lax.with_sharding_constraint(x, over(free, None))

    assert f(put(A, "x", "y")).sharding.spec == P("x")


def test_a_constraint_that_does_not_divide_says_nothing() -> None:
    f = ft.jit(lambda x: lax.with_sharding_constraint(x, over("y")))
    assert f(A[:6]).sharding.spec == P()


def test_donated_arguments_may_be_divided() -> None:
    f = ft.jit(lambda x: x + 1, donate_argnums=0)
    x = put(A, "x", "y")
    check(f(x), A + 1, P("x", "y"))
    with pytest.raises(RuntimeError):
        x.numpy()
    memory = f.lower(put(A, "x", "y")).compile().memory_analysis()
    assert memory.argument_size_in_bytes == A.nbytes // 8
    assert memory.output_size_in_bytes == A.nbytes // 8


WRONG: list[tuple[str, Callable[[], Any]]] = [
    ("cannot be divided", lambda: ft.jit(abs, out_shardings=over(None, "y"))(A[:, :6])),
    ("cannot be divided", lambda: ft.jit(abs, in_shardings=over(None, "y"))(A[:, :6])),
    ("rank at least 1", lambda: ft.jit(fnp.sum, out_shardings=over("y"))(A)),
    ("rank at least 1", lambda: ft.jit(abs, in_shardings=over("y"))(3.0)),
    (
        "rank at least 1",
        lambda: ft.jit(lambda x: lax.with_sharding_constraint(x, over("x")))(1.0),
    ),
    ("z of .* not found in mesh", lambda: over("z")),
    ("non-empty mesh", lambda: ft.jit(abs, out_shardings=P("x"))(A)),
    ("positional", lambda: ft.jit(lambda x: x, in_shardings=over("x"))(x=A)),
    ("prefix", lambda: ft.jit(lambda x: (x, x), out_shardings=(over("x"),) * 3)(A)),
    ("prefix", lambda: ft.jit(fnp.add, in_shardings=(over("x"),))(A, A)),
    (
        "incompatible devices",
        lambda: put(A, "x") + ft.device_put(A, NamedSharding(two(), P("z"))),
    ),
    ("no argument is divided", lambda: ft.explain_sharding(fnp.sin)(A)),
]  # fmt: skip


@pytest.mark.parametrize(("message", "call"), WRONG)
def test_what_cannot_be_is_said_at_once(message: str, call: Any) -> None:
    with pytest.raises(errors.FtraceError, match=message):
        call()


def test_meshes_of_the_same_devices_meet() -> None:
    other = NamedSharding(ft.make_mesh((8,), ("z",)), P("z"))
    assert (put(A, "x").sum() + ft.device_put(A[:, 0], other)).shape == (8,)


# explain_sharding


def layer(x: Any, w: Any) -> Any:
    return fnp.sort(fnp.tanh(x @ w), axis=0).mean()


TEXT = r"""over Mesh\('x': 2, 'y': 4\)
graph \(a:f32\[8@x,16@y\] b:f32\[16@y,12\]\):
  c:f32\[8@x,1,16@y\] = reshape\[\(8, 1, 16\)\] a +# test_sharded\w+.py:\d+ \(layer\)
.*
  return \w+
collectives: 3; each device receives 484 bytes
  psum over 'y' of f32\[4,12\] for reduce_sum: 288 bytes +# .*\(layer\)
  all_gather over 'x' of f32\[4,12\] for sort: 192 bytes +# .*\(layer\)
  psum over 'x' of f32\[\] for reduce_sum: 4 bytes +# .*\(layer\)"""


def test_a_program_is_explained_value_by_value() -> None:
    x, w = put(A, "x", "y"), put(B, "y")
    struct = ft.ShapeDtypeStruct((8, 16), "float32", sharding=x.sharding)
    for text in (
        ft.explain_sharding(layer)(x, w), ft.explain_sharding(ft.jit(layer))(struct, w),
    ):  # fmt: skip
        assert re.fullmatch(TEXT, text, re.DOTALL), text


def test_loops_are_explained_with_their_bodies() -> None:
    def f(x: Any) -> Any:
        return lax.scan(lambda c, r: (c + r.sum(), r), 0.0, x)

    text = ft.explain_sharding(f)(put(A, None, "y"))
    assert "b:f32[16@y]" in text
    assert "psum over 'y' of f32[] for reduce_sum: 6 bytes x 8" in text


def by_rows(f: Any, *out: Any) -> Any:
    return ft.shard_map(f, mesh=mesh(), in_specs=P("x"), out_specs=P(*out))


def test_a_shard_map_under_jit_is_divided_as_its_specs_say() -> None:
    f = ft.jit(lambda x: by_rows(lambda x: x * 2, "x")(x) + 1)
    for x in (A, put(A, "x"), put(A, None, "x")):
        assert f(x).sharding == over("x")
        np.testing.assert_array_equal(f(x), A * 2 + 1)
    assert ft.jit(by_rows(lambda x: lax.psum(x, "x")))(A).sharding == over()


def test_collectives_of_a_shard_map_are_explained() -> None:
    def loss(w: Any, x: Any) -> Any:
        def one(x: Any) -> Any:
            return lax.psum(((x @ w) ** 2).sum(), "x")

        return by_rows(one)(x)

    told = ft.explain_sharding(loss)(B, A).partition("collectives: 1; ")[2]
    assert "psum over 'x' of f32[] for reduce_sum: 4 bytes" in told
    assert "(one)" in told
    told = ft.explain_sharding(ft.grad(loss))(B, A)
    assert "psum over 'x' of f32[16,12] for reduce_sum: 768 bytes" in told, told


def entries(told: Any) -> list[str]:
    return [str(entry) for entry in told.collectives]


def test_explain_tells_what_one_device_runs() -> None:
    x, w = put(A, "x", "y"), put(B, "y")
    told, text = ft.explain(layer)(x, w), ft.explain_sharding(layer)(x, w)
    assert "layer on cpu" in str(told)
    assert "a device of Mesh('x': 2, 'y': 4" in str(told)
    assert all(entry in text for entry in entries(told))
    assert len(told.collectives) == 3
    assert re.search(r"psum over 'y' +f32\[4,12\] .* 288 B +1  test_sharded", str(told))
    # Its part of the arguments, and all of the mean; the arrays are as they were.
    assert (told.arguments, told.results) == (4 * (4 * 4 + 4 * 12), 4)
    assert [n.shape for n in told.graph.inputs[:2]] == [(4, 4), (4, 12)]
    sent = [part for part in told.kernels if part.name.startswith("whole ")]
    assert len(sent) == 3
    assert all(part.seconds is None and part.origins for part in sent)
    kernels = [part for part in told.kernels if part.kernel is not None]
    assert all(part.seconds for part in kernels)
    assert kernels[0].operations == 2 * 4 * 12 * 4
    np.testing.assert_array_equal(x, A)


def test_explain_tells_of_one_device_within_shard_map() -> None:
    def one(x: Any, w: Any) -> Any:
        return lax.psum(((x @ w) ** 2).sum(), "x")

    f = ft.shard_map(one, mesh=mesh(), in_specs=(P("x"), P()), out_specs=P())
    told = ft.explain(ft.grad(f, 1))(put(A, "x"), B)
    (entry,) = entries(told)
    assert entry.startswith("psum over 'x' of f32[16,12] for ")
    assert entry.endswith(": 768 bytes")
    assert told.graph.inputs[0].shape == (4, 16)
    assert "(one)" in str(told.kernels[0])
    assert "device of Mesh" in str(told)


def test_loops_of_one_device_are_explained() -> None:
    def f(x: Any) -> Any:
        return lax.scan(lambda c, r: (c + r.sum(), r), 0.0, x)

    told = ft.explain(f)(put(A, None, "y"))
    assert entries(told) == ["psum over 'y' of f32[] for reduce_sum: 6 bytes x 8"]
    (loop,) = [part for part in told.kernels if part.inner]
    assert any("sum along y: 4 processes" in part.name for part in loop.inner)


def test_explain_of_shapes_over_a_mesh_runs_nothing() -> None:
    x = put(A, "x", "y")
    struct = ft.ShapeDtypeStruct((8, 16), "float32", sharding=x.sharding)
    told = ft.explain(layer)(struct, put(B, "y"))
    assert told.seconds is None
    assert "limits" not in str(told)
    assert len(told.collectives) == 3


def test_all_that_devices_tell_each_other_can_be_explained() -> None:
    """Also what goes to some, by tables; keys and effects are parts of programs."""

    def windows(x: Any) -> Any:
        return x[2:] + x[:-2], fnp.sort(x, 0), x.T

    for fun, args in (
        (windows, (put(A, "x"),)),
        (lambda x: fnp.cumsum(x, 0), (put(A, ("x", "y")),)),
        (
            lambda k, x: ft.random.normal(k, x.shape) + x,
            (ft.random.key(0), put(A, "x")),
        ),
        (
            lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, x),
            (put(A, "x"),),
        ),
    ):
        told = ft.explain(fun)(*args)
        assert told.seconds is not None
        assert entries(told) or fun is not windows
    assert told.kernels[-1].name == "while loop"


def test_explain_tells_what_a_device_makes_of_no_argument() -> None:
    f = ft.jit(lambda: fnp.arange(64.0) * 2, out_shardings=over("x"))
    told = ft.explain(f)()
    assert told.results * f().sharding.mesh.shape["x"] == f().nbytes


def test_over_one_device_nothing_is_divided() -> None:
    place = NamedSharding(ft.make_mesh((1,), ("z",)), P("z"))
    told = ft.explain(fnp.sin)(ft.device_put(A, place))
    assert told.divided is None
    assert told.collectives == ()
    assert "Mesh" not in str(told)
    elsewhere = ft.device_put(A, NamedSharding(two(), P("z")))
    with pytest.raises(errors.ShardingError, match="incompatible devices"):
        ft.explain(fnp.add)(put(A, "x"), elsewhere)


def test_the_cotangent_of_what_is_put_may_lie_anywhere() -> None:
    def gradient(place: Any) -> Any:
        made = ft.grad(lambda x: (place(x * 2, over("x")) * x.sum()).sum())
        return str(ft.make_jaxpr(made)(A)).count("sharding_constraint")

    assert gradient(ft.device_put) == 1
    assert gradient(lax.with_sharding_constraint) == 2


def test_equal_shardings_are_one_object() -> None:
    sharding = over("x", None)
    assert sharding is over("x", None)
    for same in (copy.deepcopy(sharding), pickle.loads(pickle.dumps(sharding.spec))):
        assert same in (sharding, sharding.spec)
    assert sharding != over("x")
    assert sharding.with_memory_kind("pinned_host") != sharding


def test_constraints_over_two_meshes_of_the_same_devices_meet() -> None:
    other = NamedSharding(ft.make_mesh((8,), ("z",)), P("z"))
    twice = by_rows(lambda x: x * 2, "x")
    f = ft.jit(lambda x: twice(lax.with_sharding_constraint(x, other)))
    found = f(put(A, "x"))
    assert found.sharding.mesh in (mesh(), other.mesh)
    np.testing.assert_array_equal(found, A * 2)
    # Each is divided as it says, though none says it of all.
    line = NamedSharding(ft.make_mesh((8, 1), ("z", "one")), P(None, "z"))
    wishes = [over("y", "x"), other, line]
    for order in (wishes, wishes[::-1]):
        f = ft.jit(
            lambda x, order=order: [
                lax.with_sharding_constraint(x * i, s) for i, s in enumerate(order)
            ]
        )
        for i, (found, wish) in enumerate(zip(f(A), order, strict=True)):
            assert found.sharding == wish
            np.testing.assert_array_equal(found, A * i)
        wished = ft.jit(lambda x: [x] * 3, out_shardings=order)(A)
        assert [x.sharding for x in wished] == order


def test_constants_carry_no_sharding_from_one_reader_to_another() -> None:
    def loss(x: Any, y: Any) -> Any:
        return (x**2).mean() + (y**2).mean()

    found = ft.jit(ft.grad(loss, (0, 1)))(put(A, "x"), put(A, "y"))
    assert [g.sharding for g in found] == [over("x"), over("y")]  # as in JAX
    told = ft.explain_sharding(ft.grad(loss, (0, 1)))(put(A, "x"), put(A, "y"))
    assert "collectives: 0" in told


# Types.


def test_types_over_explicit_axes_say_which_they_divide() -> None:
    kind = AxisType.Explicit
    for spec, text in (
        (P("x"), "f32[8@x,16]"), (P(None, "y"), "f32[8,16@y]"),
        (P(("x", "y")), "f32[8@(x,y),16]"), (P(), "f32[8,16]"),
    ):  # fmt: skip
        found = ft.typeof(put(A, *spec, kind=kind))
        assert repr(found) == text
        assert found.str_short() == text.replace("f32", "float32")
        assert found.sharding.spec == P(*spec, *[None] * (2 - len(spec)))
        assert found.sharding.mesh == mesh(kind).abstract_mesh
        assert pickle.loads(pickle.dumps(found)) is found
        assert (found.shape, found.dtype) == ((8, 16), np.float32)
    assert ft.typeof(put(A, "x")) is ft.typeof(A)
    types = {"y": AxisType.Auto}
    mixed = NamedSharding(mesh(kind).update_axis_types(types), P(("x", "y")))
    assert mixed.mesh.axis_types == (kind, AxisType.Auto)
    assert repr(ft.typeof(A).update(sharding=mixed)) == "f32[8@x,16]"


def test_within_shard_map_the_mesh_is_manual_and_types_vary() -> None:
    def one(x: Any) -> Any:
        found = ft.sharding.get_abstract_mesh()
        assert found.manual_axes == ("x",)
        assert found.auto_axes == ("y",)
        assert (x.aval.vma, lax.psum(x, "x").aval.vma) == ({"x"}, frozenset())
        assert repr(x.aval) == "f32[4,16]{V:x}"
        with pytest.raises(ValueError, match=r"contains a manual axes {x}"):
            lax.with_sharding_constraint(x, over("x"))
        return lax.with_sharding_constraint(x, over(None, "y"))

    f = ft.shard_map(one, mesh=mesh(), in_specs=P("x"), out_specs=P("x"),
                     axis_names={"x"})  # fmt: skip
    np.testing.assert_array_equal(ft.jit(f)(A), A)
    assert ft.sharding.get_abstract_mesh().empty


@pytest.mark.parametrize("rows", [16, 256])
def test_moments_stay_where_their_weights_are(rows: int) -> None:
    """Also of a batch so small that it moves instead of the weights."""
    line = ft.make_mesh((8,), ("d",), axis_types=(AxisType.Auto,))
    divided, optimizer = NamedSharding(line, P("d")), optim.adam(1e-2)

    def loss(p: Any, x: Any) -> Any:
        return ((fnp.tanh(x @ p["w"]) @ p["v"]) ** 2).mean()

    def step(p: Any, state: Any, x: Any) -> Any:
        updates, state = optimizer.update(ft.grad(loss)(p, x), state, p)
        return optim.apply_updates(p, updates), state

    weights = {"w": np.ones((16, 32), np.float32), "v": np.ones((32, 8), np.float32)}
    params, x = ft.device_put((weights, np.ones((rows, 16), np.float32)), divided)
    made = ft.jit(step)(params, ft.jit(optimizer.init)(params), x)
    assert {m.sharding.spec for m in ft.tree.leaves(made) if m.ndim} == {P("d")}

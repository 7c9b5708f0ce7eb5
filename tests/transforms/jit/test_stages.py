"""A jitted function stage by stage, and the types of arrays that need not exist."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors, lax, stages
from ftrace.sharding import Mesh, NamedSharding, SingleDeviceSharding

DEVICE = ft.devices()[0]
X = fnp.ones((4, 2))
P = ft.P


def scale(x: Any, n: int, *, by: Any) -> Any:
    return {"y": (x @ x.T) * n, "z": by}


def test_a_jitted_function_shows_what_it_was_made_of() -> None:
    f = ft.jit(scale)
    assert inspect.signature(f, follow_wrapped=False) == inspect.signature(scale)
    assert repr(f).startswith("<CompiledFunction of <function scale")
    assert not hasattr(f, "nothing")


def test_equations_know_the_names_around_them() -> None:
    @ft.named_call
    def inner(x: Any) -> Any:
        return x * 2

    def named(x: Any) -> Any:
        with ft.named_scope("outer"):
            return inner(x + 1) - 1

    names = [e.source_info.name_stack for e in ft.make_jaxpr(named)(X).eqns]
    assert names == ["outer", "outer/inner", "outer"]


def test_a_branch_that_is_given_twice_is_traced_once() -> None:
    calls: list[Any] = []

    def branch(x: Any) -> Any:
        calls.append(x)
        return x + 1

    assert lax.switch(1, [branch, lambda x: x, branch], 2.0) == 2
    assert len(calls) == 1


def test_each_stage_knows_its_signature() -> None:
    f = ft.jit(scale, static_argnums=1, donate_argnames="by")
    traced = f.trace(X, 3, by=1.0)
    lowered = traced.lower()
    compiled = lowered.compile()
    kinds = stages.Traced, stages.Lowered, stages.Compiled
    assert isinstance(f, stages.Wrapped)
    for stage, kind in zip((traced, lowered, compiled), kinds, strict=True):
        assert isinstance(stage, kind)
        (info,), named = stage.args_info
        assert (info.shape, info.dtype, info.donated) == ((4, 2), np.float32, False)
        assert named["by"].donated
        assert stage.donate_argnums == (1,)
        assert stage.in_avals[0] == [X.aval] or stage.in_avals[0] == (X.aval,)
        assert stage.out_info["y"] == ft.ShapeDtypeStruct((4, 4), "float32")
        assert stage.out_info["z"].weak_type
        assert stage.out_tree == ft.tree.structure({"y": 0, "z": 0})
        assert stage.in_tree.num_leaves == 2
    assert traced.fun_name == "scale"
    assert "dot_general" in str(traced.jaxpr)
    assert lowered.cost_analysis()["flops"] >= 64
    assert lowered.cost_analysis()["bytes accessed"] > 0
    assert lowered.as_text() == str(lowered)
    assert lowered.compiler_ir() is lowered.program
    assert lowered.as_text("graph") == str(lowered.simplified)
    with pytest.raises(ValueError, match="unknown dialect: hlo"):
        lowered.compiler_ir("hlo")
    memory = compiled.memory_analysis()
    assert memory.argument_size_in_bytes == 4 * 8 + 4
    assert memory.output_size_in_bytes == 4 * 16 + 4
    assert memory.generated_code_size_in_bytes > 0
    sharding = SingleDeviceSharding(DEVICE)
    assert compiled.input_shardings[0] == (sharding,)
    assert compiled.output_shardings == {"y": sharding, "z": sharding}
    assert compiled.output_formats["y"] == fnp.ones((4, 4)).format
    assert compiled.runtime_executable() is not None
    np.testing.assert_array_equal(compiled(X, by=2.0)["y"], 6 * np.ones((4, 4)))


def test_what_is_compiled_takes_its_own_signature_alone() -> None:
    f = ft.jit(lambda x: x * 2)
    compiled = f.lower(ft.ShapeDtypeStruct((3,), "float32")).compile()
    count = f.trace_count
    np.testing.assert_array_equal(compiled(np.ones(3, np.float32)), np.full(3, 2))
    total = ft.grad(lambda x: compiled(x).sum())(fnp.ones(3))
    np.testing.assert_array_equal(total, np.full(3, 2))
    assert f.trace_count == count
    for wrong in (np.ones(4, np.float32), np.ones(3, np.int32)):
        with pytest.raises(TypeError, match="types for which this computation was"):
            compiled(wrong)
    with pytest.raises(TypeError, match="does not match the input pytree"):
        compiled(X, X)


def test_where_a_function_runs_is_said_in_several_ways() -> None:
    mesh = Mesh([DEVICE], "x")
    options = [
        {"backend": "interpreter"}, {"device": "interpreter"},
        {"in_shardings": SingleDeviceSharding(ft.devices("interpreter")[0])},
        {"out_shardings": {"y": NamedSharding(mesh, P("x")), "z": None}},
        {"compiler_options": {"xla_dump_to": ""}, "keep_unused": True, "inline": True},
    ]  # fmt: skip
    for each in options:
        f = ft.jit(lambda x: {"y": x + 1, "z": x}, **each)  # type: ignore[call-overload]
        np.testing.assert_array_equal(f(X)["y"], np.full((4, 2), 2))
        assert f.target(()).name == ("cpu" if each in options[3:] else "interpreter")
    with pytest.raises(RuntimeError, match="no device 'gpu'"):
        ft.jit(lambda x: x, backend="gpu")
    with pytest.raises(RuntimeError, match="No such compile option: 'fast'"):
        ft.jit(lambda x: x).lower(X).compile({"fast": True})
    with pytest.raises(errors.ArgumentError, match="device or backend"):
        ft.jit(lambda x: x, backend="cpu", device="cpu")
    two = Mesh(np.array([DEVICE, ft.devices("interpreter")[0]]), "x")
    with pytest.raises(errors.DeviceError, match="over 2 devices"):
        ft.jit(lambda x: x, in_shardings=NamedSharding(two, P("x")))


def test_structs_are_values() -> None:
    struct = ft.ShapeDtypeStruct((2, 3), "float32")
    assert (
        struct == ft.ShapeDtypeStruct([2, 3], np.float32) != struct.update(shape=(2,))
    )
    assert hash(struct) == hash(ft.ShapeDtypeStruct((2, 3), np.float32))
    assert struct != struct.update(weak_type=True)
    assert (struct.ndim, struct.size, len(struct), struct.sharding) == (2, 6, 2, None)
    assert ft.ShapeDtypeStruct.like(X) == ft.ShapeDtypeStruct((4, 2), "float32")
    sharding = NamedSharding(Mesh([DEVICE], "x"), P("x"))
    placed = ft.ShapeDtypeStruct.like(ft.device_put(X, sharding))
    assert placed.sharding == sharding
    assert repr(struct) == "ShapeDtypeStruct(shape=(2, 3), dtype=float32)"
    assert repr(struct.update(weak_type=True)).endswith("weak_type=True)")
    assert copy.copy(struct) is struct
    found = ft.eval_shape(lambda x: (x, 1.0), placed)
    assert found == (ft.ShapeDtypeStruct((4, 2), "float32"),
                     ft.ShapeDtypeStruct((), "float32", weak_type=True))  # fmt: skip


def test_passes_are_two_functions() -> None:
    def f(x: Any, y: Any) -> Any:
        return fnp.sin(x) * y, y

    fwd, bwd = ft.fwd_and_bwd(f, (0, 1), has_aux=True)
    value, residuals, aux = fwd(X, 3.0)
    np.testing.assert_allclose(value, 3 * np.sin(1.0) * np.ones((4, 2)), rtol=1e-6)
    assert aux == 3
    dx, dy = bwd(residuals, value * 0 + 1)
    np.testing.assert_allclose(dx, np.full((4, 2), 3 * np.cos(1.0)), rtol=1e-6)
    np.testing.assert_allclose(dy, 8 * np.sin(1.0), rtol=1e-6)
    fwd, bwd = ft.fwd_and_bwd(lambda x, y: f(x, y)[0].sum(), 0)
    np.testing.assert_allclose(bwd(fwd(X, 3.0)[1], 1.0), dx)


def test_linear_functions_are_taken_and_returned_by_programs() -> None:
    def f(x: Any) -> Any:
        return fnp.sin(x) * x

    forward = ft.jit(lambda x: ft.vjp(f, x))
    backward = ft.jit(lambda pull, ct: pull(ct))
    for k in (1.0, 2.0, 3.0):
        x = np.full(3, k)
        pull = forward(x)[1]
        wanted = np.cos(k) * x + np.sin(k)
        for found in (backward(pull, np.ones(3)), pull(np.ones(3))):
            np.testing.assert_allclose(found[0], wanted)
    assert (forward.trace_count, backward.trace_count) == (1, 1)
    push = ft.jit(lambda x: ft.linearize(f, x)[1])(2.0)
    np.testing.assert_allclose(push(1.0), 2 * np.cos(2) + np.sin(2), rtol=1e-6)
    turned = ft.jit(lambda a: ft.linear_transpose(lambda x: a * x, 1.0))(3.0)
    assert turned(2.0)[0] == 6
    assert ft.jit(lambda pull: pull(2.0))(turned)[0] == 6
    pulls = ft.vmap(lambda x: ft.vjp(f, x)[1])(np.arange(3.0))
    found = ft.vmap(lambda pull, ct: pull(ct))(pulls, np.ones(3))
    np.testing.assert_allclose(
        found[0], np.arange(3) * np.cos(np.arange(3.0)) + np.sin(np.arange(3.0))
    )


class Holder:
    """What stands for an array, as JAX's protocol has it."""

    def __jax_array__(self) -> Any:
        return X


class TracedHolder:
    """What stands for an array, which may be traced, and looks like one to NumPy."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __jax_array__(self) -> Any:
        return self.array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.array)


@pytest.mark.parametrize("transform", [ft.jit, ft.vmap, ft.jacfwd])
def test_what_stands_for_a_traced_array_is_an_operand(transform: Any) -> None:
    ones = fnp.ones(3)
    xs = fnp.arange(9.0).reshape(3, 3)

    def found(hold: Any) -> Any:
        def function(x: Any) -> Any:
            row = fnp.ravel(x)[:3]
            products = ones @ hold(row), fnp.dot(b=hold(row), a=ones)
            return fnp.hstack([*products, fnp.sin(hold(row)), hold(row)])

        return transform(function)(xs)

    np.testing.assert_array_equal(found(TracedHolder), found(lambda x: x))


def test_a_cotangent_may_stand_for_a_container_of_one_leaf() -> None:
    f = ft.custom_vjp(lambda x: x["a"][0] ** 2)
    f.defvjp(lambda x: (f(x), x["a"][0]), lambda x, ct: ({"a": 2 * x * ct},))
    assert ft.grad(f)({"a": [3.0]}) == {"a": [6.0]}


def test_what_stands_for_an_array_is_taken_for_it() -> None:
    for found in (X + Holder(), Holder() + X, fnp.add(Holder(), X)):
        np.testing.assert_array_equal(found, 2 * X)
    np.testing.assert_array_equal(ft.jit(lambda x: x * 2)(Holder()), 2 * X)
    np.testing.assert_array_equal(ft.vmap(lambda x: x * 2)(Holder()), 2 * X)

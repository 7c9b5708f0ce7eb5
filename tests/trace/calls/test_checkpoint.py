"""checkpoint: what a derivative keeps, in bytes; and that nothing else changes."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.ad_checkpoint import (
    checkpoint_name,
    print_saved_residuals,
    saved_residuals,
)
from ftrace.backends.base import get_device
from ftrace.errors import ArgumentError, StaticArgumentError
from ftrace.lower.program import room_for
from ftrace.test_util import check_grads
from tests.support.covering import covering

POLICIES = ft.checkpoint_policies
LAYERS = 16
SIZE = 64
#: Bytes of the activations of a layer.
UNIT = SIZE * SIZE * 4

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


def layer(x: Any, w: Any) -> Any:
    y = checkpoint_name(x @ w, "product")
    return fnp.tanh(fnp.sin(y) * 2 + y)


def python_loop(wrap: Wrap) -> Callable[..., Any]:
    def loss(weights: Any, x: Any) -> Any:
        for i in range(LAYERS):
            x = wrap(layer)(x, weights[i])
        return (x**2).sum()

    return loss


def scan_loop(wrap: Wrap) -> Callable[..., Any]:
    def loss(weights: Any, x: Any) -> Any:
        def step(x: Any, w: Any) -> Any:
            return wrap(layer)(x, w), None

        return (lax.scan(step, x, weights)[0] ** 2).sum()

    return loss


LOOPS = {"python": python_loop, "scan": scan_loop}


def policy(chosen: Any, **options: Any) -> Wrap:
    return partial(ft.checkpoint, policy=chosen, **options)


WRAPS: dict[str, Wrap] = {
    "plain": lambda f: f,
    "checkpoint": ft.checkpoint,
    "nothing": policy(POLICIES.nothing_saveable),
    "everything": policy(POLICIES.everything_saveable),
    "dots": policy(POLICIES.dots_saveable),
    "checkpoint_dots": policy(POLICIES.checkpoint_dots),
    "dots without batch": policy(POLICIES.dots_with_no_batch_dims_saveable),
    "this name": policy(POLICIES.save_only_these_names("product")),
    "another name": policy(POLICIES.save_only_these_names("other")),
    "not this name": policy(POLICIES.save_any_names_but_these("product")),
    "not another name": policy(POLICIES.save_any_names_but_these("other")),
    "anything but this name": policy(
        POLICIES.save_anything_except_these_names("product")
    ),
    "both": policy(
        POLICIES.save_from_both_policies(
            POLICIES.save_only_these_names("other"), POLICIES.dots_saveable
        )
    ),
    "offloaded": policy(
        POLICIES.save_and_offload_only_these_names(
            names_which_can_be_saved=["other"],
            names_which_can_be_offloaded=["product"],
            offload_src="device",
            offload_dst="pinned_host",
        )
    ),
    "offloaded dots": policy(
        POLICIES.offload_dot_with_no_batch_dims("device", "pinned_host")
    ),
    "function": policy(lambda prim, *_, **__: prim.name == "dot_general"),
    "merged": partial(ft.checkpoint, prevent_cse=False),
}


def arguments() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(LAYERS, SIZE, SIZE)).astype(np.float32) / SIZE
    x = rng.normal(size=(SIZE, SIZE)).astype(np.float32)
    return fnp.array(weights), fnp.array(x)


def kept(loop: str, wrap: str) -> float:
    """The arena of value and gradient, in activations of a layer."""
    gradient = ft.jit(ft.grad(LOOPS[loop](WRAPS[wrap])))
    return gradient.lower(*arguments()).program.arena / UNIT


@covering(1, loop=LOOPS, wrap=WRAPS)
def test_gradients_are_the_same(loop: str, wrap: str) -> None:
    args = arguments()
    expected = ft.jit(ft.value_and_grad(python_loop(lambda f: f), (0, 1)))(*args)
    found = ft.jit(ft.value_and_grad(LOOPS[loop](WRAPS[wrap]), (0, 1)))(*args)
    for a, b in zip(ft.tree.leaves(found), ft.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("loop", LOOPS)
def test_checkpoint_keeps_the_inputs_of_layers(loop: str) -> None:
    plain, less = kept(loop, "plain"), kept(loop, "checkpoint")
    assert less <= room_for(LAYERS * UNIT) / UNIT + 4
    assert plain >= less + LAYERS - 4


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    "wrap", ["nothing", "another name", "not this name"]
)  # fmt: skip
def test_policies_that_keep_nothing_are_as_without(loop: str, wrap: str) -> None:
    assert kept(loop, wrap) == kept(loop, "checkpoint")


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    "wrap",
    ["dots", "checkpoint_dots", "dots without batch", "this name", "not another name",
     "both", "offloaded", "offloaded dots", "function"],
)  # fmt: skip
def test_policies_keep_products(loop: str, wrap: str) -> None:
    assert LAYERS - 2 <= kept(loop, wrap) - kept(loop, "checkpoint") <= LAYERS + 1


@pytest.mark.parametrize("loop", LOOPS)
def test_a_policy_that_keeps_everything_is_as_no_checkpoint(loop: str) -> None:
    assert kept(loop, "everything") == kept(loop, "plain")


def test_what_may_be_merged_is_computed_once() -> None:
    assert kept("python", "merged") == kept("python", "plain")
    steps = {
        wrap: len(
            ft.jit(ft.grad(python_loop(WRAPS[wrap]))).lower(*arguments()).program.steps
        )
        for wrap in ("plain", "merged", "checkpoint")
    }
    assert steps["merged"] == steps["plain"] < steps["checkpoint"]


def test_a_scan_does_not_need_a_barrier() -> None:
    wrap = partial(ft.checkpoint, prevent_cse=False)

    def whole(weights: Any, x: Any) -> Any:
        step = wrap(lambda x, w: (layer(x, w), None))
        return (lax.scan(step, x, weights)[0] ** 2).sum()

    arena = ft.jit(ft.grad(whole)).lower(*arguments()).program.arena / UNIT
    assert arena <= LAYERS + 5


def test_the_allocator_sees_less() -> None:
    device = get_device("cpu")
    peaks: dict[str, int] = {}
    args = arguments()
    for wrap in ("plain", "checkpoint"):
        gradient = ft.jit(ft.grad(python_loop(WRAPS[wrap]), 1), device="cpu")
        gradient(*args)  # compiles
        gc.collect()
        device.allocator.peak = device.allocator.in_use
        before = device.allocator.in_use
        gradient(*args)
        peaks[wrap] = device.allocator.peak - before
    assert peaks["checkpoint"] <= 0.65 * peaks["plain"]


def test_nested_checkpoints_keep_less_in_all() -> None:
    """Square roots: 4 blocks of 4 layers keep about 4 + 4 inputs."""

    def loss(wrap: Wrap) -> Callable[..., Any]:
        def block(x: Any, weights: Any) -> Any:
            for w in weights:
                x = wrap(layer)(x, w)
            return x

        def whole(weights: Any, x: Any) -> Any:
            for i in range(0, LAYERS, 4):
                x = ft.checkpoint(block)(x, list(weights[i : i + 4]))
            return (x**2).sum()

        return whole

    weights, x = arguments()
    listed = [w + 0 for w in weights]
    nested = ft.jit(ft.grad(loss(ft.checkpoint), 1)).lower(listed, x).program.arena
    flat = ft.jit(ft.grad(python_loop(ft.checkpoint), 1)).lower(listed, x).program.arena
    assert nested / UNIT <= 14 < flat / UNIT
    np.testing.assert_allclose(
        ft.jit(ft.grad(loss(ft.checkpoint), 1))(listed, x),
        ft.jit(ft.grad(python_loop(lambda f: f), 1))(listed, x),
        rtol=1e-4, atol=1e-5,
    )  # fmt: skip


# Which values a derivative keeps, one by one.


def shapes(fun: Callable[..., Any], *args: Any) -> list[tuple[int, ...]]:
    return sorted(r.aval.shape for r in saved_residuals(fun, *args))


def test_batched_products_are_told_from_others() -> None:
    def f(x: Any, y: Any) -> Any:
        z = fnp.sin(fnp.einsum("bij,bjk->bik", x, x))
        return fnp.sin(fnp.sin(z.sum(0) @ y) @ y).sum()

    x, y = fnp.ones((2, 3, 3)), fnp.ones((3, 5 - 2))
    without = shapes(ft.checkpoint(f, policy=POLICIES.nothing_saveable), x, y)
    assert without == [(2, 3, 3), (3, 3)]
    some = shapes(
        ft.checkpoint(f, policy=POLICIES.dots_with_no_batch_dims_saveable), x, y
    )
    every = shapes(ft.checkpoint(f, policy=POLICIES.dots_saveable), x, y)
    elements = [sum(int(np.prod(s)) for s in found) for found in (without, some, every)]
    assert elements == [27, 27 + 18, 27 + 18 + 18]


def test_policies_are_told_what_they_are_asked_about() -> None:
    asked: list[Any] = []

    def choose(primitive: Any, *avals: Any, **params: Any) -> bool:
        asked.append((str(primitive), [a.shape for a in avals], params))
        return False

    def f(x: Any, w: Any) -> Any:
        return fnp.sin(checkpoint_name(fnp.sin(x @ w), "middle")).sum()

    ft.grad(ft.checkpoint(f, policy=choose))(fnp.ones((2, 3)), fnp.ones((3, 4)))
    names = [name for name, _, _ in asked]
    assert {"name", "sin", "dot_general"} <= set(names)
    assert asked[names.index("name")][2] == {"name": "middle"}
    numbers = asked[names.index("dot_general")][2]["dimension_numbers"]
    (contracted, _), (batch, _) = numbers
    assert len(contracted) == 1
    assert batch == ()


def test_saved_residuals_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    f = ft.checkpoint(
        lambda x: fnp.sin(checkpoint_name(fnp.sin(x), "a")).sum(),
        policy=POLICIES.save_only_these_names("a"),
    )
    print_saved_residuals(f, fnp.ones(3))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "from the argument x" in lines[0] + lines[1]
    assert "named 'a' from test_checkpoint.py" in lines[0] + lines[1]


def test_values_with_names_are_the_values() -> None:
    x = fnp.arange(3.0)
    np.testing.assert_array_equal(checkpoint_name(x, "a"), x)
    tree = checkpoint_name({"a": x, "b": 2.0}, "a")
    assert float(tree["b"]) == 2.0
    check_grads(lambda x: checkpoint_name(fnp.sin(x), "a"), (x,), order=2)
    np.testing.assert_array_equal(
        ft.jit(ft.vmap(lambda x: checkpoint_name(x, "a")))(x), x
    )


# Laws.


def test_derivatives_of_every_order_and_mode() -> None:
    @ft.checkpoint
    def f(x: Any, y: Any) -> Any:
        return fnp.sin(fnp.sin(x) * y).sum()

    x = fnp.array([0.1, 0.5, 0.9])
    check_grads(f, (x, x), order=2, modes=["fwd", "rev"])
    hessian = ft.hessian(f)(x, x)
    plain = ft.hessian(lambda x, y: fnp.sin(fnp.sin(x) * y).sum())(x, x)
    np.testing.assert_allclose(hessian, plain, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        ft.linearize(f, x, x)[1](x, x), ft.jvp(f, (x, x), (x, x))[1]
    )


def test_effects_happen_once(capsys: pytest.CaptureFixture[str]) -> None:
    @ft.checkpoint
    def f(x: Any) -> Any:
        ft.debug.print("{}", x)
        return fnp.sin(fnp.sin(x))

    ft.jit(ft.grad(f))(0.5)
    assert capsys.readouterr().out == "0.5\n"


def test_results_of_effects_are_kept() -> None:
    calls: list[float] = []

    def double(x: Any) -> Any:
        calls.append(float(x))
        return np.float32(2 * x)

    @ft.checkpoint
    def f(x: Any) -> Any:
        spec = ft.ShapeDtypeStruct((), np.float32)
        factor = ft.io_callback(double, spec, lax.stop_gradient(x))
        return fnp.sin(x * factor)

    gradient = float(ft.jit(ft.grad(f))(0.5))
    assert calls == [0.5]
    assert abs(gradient - np.cos(0.5)) < 1e-6


def test_static_and_named_arguments() -> None:
    f = ft.checkpoint(lambda x, n, *, k: fnp.sin(x) ** n * k, static_argnums=1)
    assert abs(float(ft.grad(lambda x: f(x, 2, k=3.0))(0.5)) - 3 * np.sin(1.0)) < 1e-5
    g = ft.checkpoint(
        lambda x, *, mode: fnp.sin(x) if mode == "sin" else x, static_argnames="mode"
    )
    assert float(ft.grad(lambda x: g(x, mode="id"))(0.5)) == 1.0
    decorated = ft.checkpoint(policy=POLICIES.dots_saveable)(fnp.sin)
    assert abs(float(ft.grad(decorated)(0.5)) - np.cos(0.5)) < 1e-6


def test_trees_and_integers() -> None:
    @ft.checkpoint
    def f(p: Any, i: Any) -> Any:
        return {"a": fnp.sin(p["x"])[i], "i": i + 1}

    p = {"x": fnp.arange(3.0)}
    found = ft.jit(ft.grad(lambda p: f(p, 2)["a"]))(p)
    np.testing.assert_allclose(found["x"], [0, 0, np.cos(2.0)], rtol=1e-6)
    assert int(f(p, 2)["i"]) == 3


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ArgumentError, match="takes a function"):
        ft.checkpoint(3)
    with pytest.raises(ArgumentError, match="policy must be one of"):
        ft.checkpoint(fnp.sin, policy="dots")
    with pytest.raises(StaticArgumentError, match="static_argnums=3"):
        ft.checkpoint(fnp.sin, static_argnums=3)(1.0)
    with pytest.raises(ArgumentError, match="a string is required"):
        checkpoint_name(1.0, 2)
    with pytest.raises(ArgumentError, match="takes strings"):
        POLICIES.save_only_these_names(["a"])
    with pytest.raises(ArgumentError, match="must be an array or a number"):
        ft.checkpoint(lambda x: x)("x")


# The barrier by itself.


def test_a_barrier_gives_on_its_operands() -> None:
    tree = {"a": fnp.arange(3.0), "b": (fnp.ones(2), 2.0)}
    for call in (lax.optimization_barrier, ft.jit(lax.optimization_barrier)):
        found = call(tree)
        np.testing.assert_array_equal(found["a"], tree["a"])
        assert float(found["b"][1]) == 2.0
    assert lax.optimization_barrier(()) == ()


def test_a_barrier_keeps_equal_work_apart() -> None:
    def twice(x: Any) -> Any:
        return fnp.sin(x).sum() + fnp.sin(lax.optimization_barrier(x)).sum()

    def count(f: Any) -> int:
        nodes = ft.jit(f).lower(fnp.ones(3)).simplified.nodes
        return sum(n.op.name == "sin" for n in nodes)

    assert count(twice) == 2
    assert count(lambda x: fnp.sin(x).sum() + fnp.sin(x).sum()) == 1


def test_arguments_are_arrays_but_for_the_static_ones() -> None:
    def f(flag: Any, x: Any, static: Any) -> Any:
        assert isinstance(flag, ft.Array)
        assert isinstance(x, ft.Array)
        assert static is True
        return fnp.sin(x) if flag else x

    g = ft.checkpoint(f, static_argnums=2)
    assert float(g(True, 1.0, True)) == float(g(np.bool_(True), 1.0, True))


def test_numbers_have_all_bits_beside_float64_and_the_types_of_jit() -> None:
    x = np.array([0.3, 0.7])

    def f(x: Any, y: Any) -> Any:
        return x * y, y, y * 2

    for given in (x, x.astype(np.float32)):
        results = ft.checkpoint(f)(given, 0.1)
        types = [(r.dtype, r.weak_type) for r in results]
        assert types == [(r.dtype, r.weak_type) for r in ft.jit(f)(given, 0.1)]
    assert (ft.checkpoint(f)(x, 0.1)[0] == x * 0.1).all()


def test_derivatives_and_lanes_pass_a_barrier() -> None:
    def f(x: Any, y: Any) -> Any:
        a, b = lax.optimization_barrier((fnp.sin(x), y * x))
        return a * b

    x, y = fnp.array([0.1, 0.5]), fnp.array([0.7, 0.9])
    check_grads(f, (x, y), order=2, modes=["fwd", "rev"])
    np.testing.assert_allclose(ft.vmap(f)(x, y), f(x, y), rtol=1e-6)
    np.testing.assert_allclose(
        ft.vmap(ft.grad(f), (0, None))(x, 2.0),
        2 * np.cos(x) * x + 2 * np.sin(x), rtol=1e-5,
    )  # fmt: skip


def test_optimize_remat_spares_the_forward_rule_in_a_checkpoint() -> None:
    """Where residuals are dropped, values are the function's; else the rule's."""

    @ft.custom_vjp
    def f(x: Any) -> Any:
        return fnp.tan(x)

    def backward(x: Any, ct: Any) -> Any:
        return (fnp.cos(x) * ct,)

    x, loop = (
        np.float32(0.5),
        lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, length=1)[0],
    )
    for optimize, expected in ((True, np.tan(x)), (False, np.sin(x))):
        f.defvjp(lambda x: (fnp.sin(x), x), backward, optimize_remat=optimize)
        for g in (ft.checkpoint(f), ft.checkpoint(ft.jit(f)), ft.checkpoint(loop(f))):
            value, grad = ft.value_and_grad(g)(x)
            np.testing.assert_allclose(value, expected, 1e-6)
            np.testing.assert_allclose(grad, np.cos(x), 1e-6)
        np.testing.assert_allclose(ft.value_and_grad(f)(x)[0], np.sin(x), 1e-6)

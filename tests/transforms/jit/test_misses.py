"""A trace of a jitted function is told with what was new, and can be forbidden."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial, wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.errors import TracingError
from ftrace.trace.flatten_arguments import display_name

W = fnp.ones((3, 4))


def step(params: Any, batch: Any, mode: str = "a") -> Any:
    return (params["w"] @ batch["x"].T).sum() + batch.get("y", 0)


def batch(n: int, **more: Any) -> dict[str, Any]:
    return {"x": fnp.ones((n, 4)), **more}


CALLS: list[tuple[Any, dict[str, Any], str]] = [
    ((batch(8),), {}, "batch['x'] is f32[8,4] and was f32[7,4]"),
    ((batch(7, y=1),), {}, "batch['y'] is new"),
    ((), {"batch": {"x": np.ones((7, 4))}}, "batch['x'] is f64[7,4] and was f32[7,4]"),
    ((batch(7), "b"), {}, "the static argument mode is 'b' and was 'a'"),
    ((batch(7),), {}, "the static argument mode is no more"),
    (([fnp.ones((7, 4))],), {}, "batch[0] is new; batch['x'] is no more"),
]


def test_static_arguments_that_are_equal_but_for_their_type_are_told_apart() -> None:
    power = ft.jit(lambda x, n: x**n, static_argnums=1)
    for n in (1, True, 1.0):
        power(2.0, n)
    _, second, third = power.misses
    assert second.why == "the static argument n is True and was 1"
    assert third.why == "the static argument n is 1.0 and was True"


@pytest.mark.parametrize(("args", "kwargs", "why"), CALLS)
def test_what_was_new_is_told(args: Any, kwargs: dict[str, Any], why: str) -> None:
    def of_first(params: Any, batch: Any, mode: str = "a") -> Any:
        first = batch[0] if isinstance(batch, list) else batch["x"]
        return (params["w"] @ first.T).sum()

    f = ft.jit(of_first, static_argnames="mode")
    given = () if "batch" in kwargs or len(args) == 2 else ("a",)
    f({"w": W}, batch(7), "a")
    if not given and len(args) < 2:
        f({"w": W}, batch(7))
    f({"w": W}, *args, *(() if "no more" in why and "mode" in why else given), **kwargs)
    first, *_, last = f.misses
    assert first.why.startswith("it is called for the first time")
    assert why in last.why
    assert str(last).startswith(f"{last.origin}: of_first was traced in ")
    assert last.origin is not None
    assert last.origin.function == "test_what_was_new_is_told"
    assert last.traced > 0
    assert last.compiled > 0


def test_the_nearest_call_is_compared() -> None:
    f = ft.jit(lambda x, y, z: x.sum() + y.sum() + z.sum())
    sizes = [(2, 3, 4), (5, 6, 7), (2, 3, 8)]
    for x, y, z in sizes:
        f(fnp.ones(x), fnp.ones(y), fnp.ones(z))
    assert f.misses[-1].why == "z is f32[8] and was f32[4]"
    f(fnp.ones(1), fnp.ones((1, 2)), fnp.ones((3, 1)))
    assert f.misses[-1].why.count(" and was ") == 3


def test_nearer_in_rank_axes_or_static_arguments_is_nearer() -> None:
    f = ft.jit(lambda x: x.sum())
    for shape in ((4, 3), (4,), (5, 3)):
        f(fnp.ones(shape))
    assert f.misses[-1].why == "x is f32[5,3] and was f32[4,3]"
    f(fnp.ones((5, 7)))
    f(fnp.ones((4, 8)))
    f(fnp.ones((5, 8)))
    assert f.misses[-1].why == "x is f32[5,8] and was f32[4,8]"
    s = ft.jit(lambda x, n, mode="a": x * n, static_argnames=("n", "mode"))
    s(W, 1)
    s(W, 2)
    s(W, 2, mode="b")
    s(W, 3)
    assert s.misses[-1].why == "the static argument n is 3 and was 2"


def test_how_an_argument_is_passed_is_told() -> None:
    f = ft.jit(lambda a, b: a + b["x"])
    f(1.0, {"x": 2.0})
    f(1.0, b={"x": 2.0})
    assert f.misses[-1].why == "b is passed by keyword and was by position"
    s = ft.jit(lambda x, n: x * n, static_argnames="n")
    s(W, n=2)
    s(W, 2)
    assert s.misses[-1].why == "n is passed by position and was by keyword"


def test_a_function_that_is_made_anew_is_told() -> None:
    whys: list[str] = []
    for _ in range(3):
        f = ft.jit(lambda x: x + 4)
        f(1.0)
        whys += [miss.why for miss in f.misses]
    others = [ft.jit(lambda x: x), ft.jit(lambda y: y)]  # two functions of one line
    for other in others:
        other(1.0)
        assert other.misses[0].why == "it is called for the first time"
    assert whys[0] == "it is called for the first time"
    assert "and another function made by the same line came before" in whys[1]
    assert "and 2 other functions made by the same line came before" in whys[2]


def test_a_method_has_the_misses_of_its_function() -> None:
    class Model:
        @partial(ft.jit, static_argnums=0)
        def double(self, x: Any) -> Any:
            return 2 * x

    model = Model()
    assert model.double(3) == 6
    assert model.double(x=4) == 8
    assert model.double.misses == Model.double.misses
    assert model.double.misses[-1].why == "x is passed by keyword and was by position"
    assert model.double.trace_count == 2


def test_a_program_for_another_device_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    f = ft.jit(lambda x: fnp.sin(x) * 5)
    f(W)
    before = f.misses[0].compiled
    with ft.default_device("interpreter"), ft.config(explain_misses=True):
        f(W)
        f(W)
    first, second = f.misses
    assert first.compiled == before
    assert (first.traced > 0, second.traced) == (True, 0)
    assert second.why == "it runs on interpreter and ran on cpu"
    assert capsys.readouterr().err.count("is compiled again: it runs on") == 1
    assert f.trace_count == 1


def test_many_differences_are_counted() -> None:
    f = ft.jit(lambda d: sum(leaf.sum() for leaf in d.values()))
    f({f"k{i}": fnp.ones(2) for i in range(9)})
    f({f"k{i}": fnp.ones(3) for i in range(9)})
    assert f.misses[-1].why.endswith("d['k3'] is f32[3] and was f32[2], and 5 more")


@pytest.mark.parametrize(
    "clear", [lambda f: f.clear_cache(), lambda _: ft.clear_caches()]
)
def test_what_was_cleared_is_told(clear: Any) -> None:
    f = ft.jit(lambda x: x + 1)
    f(W)
    with ft.enable_x64(True):
        f(W)
    clear(f)
    f(W)
    assert f.misses[-1].why == "it was traced before, and the cache was cleared"
    assert f.cache_info()[:3] == (3, 1, 1)
    assert f.cache_info().nbytes > 0
    f(W[:2])  # that was not
    assert f.misses[-1].why == "x is f32[2,4] and was f32[3,4]"


def test_what_was_forgotten_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ftrace.transforms.jit.jit.SIGNATURES_CACHED", 1)
    f = ft.jit(lambda x: x + 1)
    f(1.0)
    with ft.config(cache_memory=1):
        f(W)
    f(1.0)
    assert f.misses[-1].why == "it was traced before, and forgotten: see cache_memory"


def test_what_depends_on_traced_values_is_told() -> None:
    told: list[str] = []

    def outer(x: Any) -> Any:
        inner = ft.jit(lambda y: x + y)
        total = inner(1.0) + inner(1.0)
        told.extend(miss.why for miss in inner.misses)
        return total

    assert ft.jit(outer)(1.0) == 4
    _, again = told
    assert again == "it was traced before, but with traced values that it captures"


def _loss(w: Any) -> Any:
    return fnp.sum(w**2)


class _Net:
    @partial(ft.jit, static_argnums=0)
    def step(self, x: Any) -> Any:
        return x * 2


def _decorated(f: Any) -> Any:
    @wraps(f)
    def around(*args: Any) -> Any:
        return f(*args)

    return around


TOLD: list[tuple[Any, str]] = [
    (_loss, "_loss"),
    (ft.jit(_loss), "_loss"),
    (ft.jit(ft.grad(_loss)), "grad of _loss"),
    (ft.grad(ft.grad(_loss)), "grad of grad of _loss"),
    (ft.vmap(ft.value_and_grad(ft.jit(_loss))), "vmap of value_and_grad of _loss"),
    (ft.hessian(_loss), "hessian of _loss"),
    (ft.jacrev(ft.checkpoint(_loss)), "jacrev of checkpoint of _loss"),
    (_decorated(ft.grad(_loss)), "grad of _loss"),
    (_Net().step, "_Net.step"),
    (ft.grad(lambda x: x), "grad of <lambda>"),
    (ft.grad(partial(_loss)), "grad of partial"),
]


@pytest.mark.parametrize(("function", "name"), TOLD)
def test_a_function_is_told_with_its_transforms(function: Any, name: str) -> None:
    assert display_name(function) == name


def test_a_gradient_is_told_apart_from_its_function(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    gradient = ft.jit(ft.grad(_loss))
    with ft.config(explain_misses=True):
        gradient(W)
    assert "grad of _loss is traced" in capsys.readouterr().err
    assert gradient.misses[0].function == "grad of _loss"
    assert gradient.__name__ == "_loss"  # as with JAX
    assert ft.explain(gradient)(W).name == "grad of _loss"
    assert ft.bisect(gradient, W, path=None).name == "grad of _loss"
    assert ft.viz(gradient, tmp_path, show=False)(W).path.name == "grad_of__loss.html"


def test_all_misses_are_counted() -> None:
    f = ft.jit(lambda x: x * 2)
    f(W)
    with ft.config(device="interpreter"):
        f(W)
    assert f.cache_info().misses == len(f.misses) == 2
    assert f.trace_count == 1


def test_the_call_that_differs_in_the_fewest_leaves_is_compared() -> None:
    @ft.jit
    def total(*args: Any, **kwargs: Any) -> Any:
        return sum(args) + sum(kwargs.values())

    total(1.0, 2.0, 3.0)
    total(1.0, a=2.0)
    total(1.0, a=2.0, b=3.0)
    assert total.misses[-1].why == "b is new"
    total(1.0, 2.0, W)
    assert total.misses[-1].why == "args[2] is f32[3,4] and was f32~[]"


SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"enable_x64": True}, "enable_x64 is True and was None"),
    ({"numpy_rank_promotion": "raise"}, "numpy_rank_promotion is 'raise' and was 'all"),
    ({"check_static_indices": False}, "check_static_indices is False and was T"),
]


@pytest.mark.parametrize(("changes", "why"), SETTINGS)
def test_a_setting_is_told_by_its_name(changes: dict[str, Any], why: str) -> None:
    f = ft.jit(lambda x: x * 2.0)
    f(W)
    with ft.config(**changes):
        f(W)
    assert f.misses[-1].why.startswith(why)
    f(W)
    assert f.trace_count == 2


@ft.tree_util.register_dataclass
@dataclass
class _Layer:
    w: Any
    size: int = field(metadata={"static": True}, default=1)


@ft.tree_util.register_pytree_node_class
class _Named:
    def __init__(self, x: Any, name: str) -> None:
        self.x, self.name = x, name

    def tree_flatten(self) -> tuple[Any, Any]:
        return (self.x,), self.name

    @classmethod
    def tree_unflatten(cls, name: str, children: Any) -> Any:
        return cls(*children, name)


TREES: list[tuple[Any, Any, str]] = [
    (_Layer(W, 1), _Layer(W, 2), "p.size is 2 and was 1"),
    ([_Layer(W, 1)], [_Layer(W, 2)], "p[0].size is 2 and was 1"),
    ((W, _Named(W, "a")), (W, _Named(W, "b")), "p[1]'s static data is 'b' and was 'a'"),
    ({"a": W, "b": []}, {"a": W, "b": ()}, "the container p['b'] is tuple and was lis"),
    ([W], [W, ()], "the container p[1] is new"),
]


@pytest.mark.parametrize(("before", "now", "why"), TREES)
def test_what_is_static_in_a_tree_is_told(before: Any, now: Any, why: str) -> None:
    f = ft.jit(lambda k, p: ft.tree.leaves(p)[0] * k)
    f(1.0, before)
    f(1.0, now)
    assert f.misses[-1].why.startswith(why)
    fixed = ft.jit(lambda k, p: ft.tree.leaves(p)[0], static_argnums=0)
    fixed(1, p=before)
    fixed(1, p=now)
    assert fixed.misses[-1].why.startswith(why)


def test_stages_that_did_not_come_took_no_time() -> None:
    f = ft.jit(lambda x: fnp.sin(x) * 3)
    f.trace(fnp.ones(11))
    assert f.misses[0].compiled == f.misses[0].lowered == 0
    f(fnp.ones(11))
    assert f.misses[0].compiled > 0
    assert len(f.misses) == 1


def test_compiling_is_forbidden() -> None:
    f = ft.jit(step, static_argnames="mode")
    f({"w": W}, batch(7))
    with ft.no_compiles():
        assert f({"w": W}, batch(7)) == 84
        with pytest.raises(
            TracingError, match=r"step would be traced: batch\['x'\] is"
        ):
            f({"w": W}, batch(6))
    assert f({"w": W}, batch(6)) == 72  # nothing is left of what was refused
    assert len(f.misses) == 2


def test_programs_of_transforms_are_forbidden_too() -> None:
    def loss(x: Any) -> Any:
        return (x * x * 5 - x).sum()

    g = ft.jit(ft.grad(loss))
    traced = g.trace(fnp.ones(19))
    with ft.no_compiles(), pytest.raises(TracingError, match="would be compiled"):
        traced.lower().compile()


def test_a_program_that_is_forbidden_is_named_by_types_and_line() -> None:
    def scaled(w: Any, x: Any) -> Any:
        return fnp.tanh(w @ x) * 7

    told = (
        r"of \(f32\[2,3,4\], f32\[2,4\]\), .*test_misses.py:.*scaled\).* compiled for"
    )
    with ft.no_compiles(), pytest.raises(TracingError, match=told):
        ft.vmap(scaled)(fnp.ones((2, 3, 4)), fnp.ones((2, 4)))


def test_misses_are_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    f = ft.jit(lambda x: x + 1)
    with ft.config(explain_misses=True):
        f(W)
    with ft.explain_cache_misses():  # JAX's name
        f(W[:2])
    told = capsys.readouterr().err
    assert "is traced: it is called for the first time" in told
    assert "is traced: x is f32[2,4] and was f32[3,4]" in told


def test_arguments_without_leaves_and_classes_without_text_are_told() -> None:
    of_any = ft.jit(lambda *args: args[3] + 1)
    of_any({}, {}, (), fnp.ones(2))
    of_any({}, {}, (), fnp.ones(3))
    assert of_any.misses[-1].why == "args[3] is f32[3] and was f32[2]"

    class Mute:
        def __repr__(self) -> str:
            raise RuntimeError("not this one")

    f = ft.jit(lambda x, s: x, static_argnums=1)
    f(1.0, Mute())
    assert f(1.0, Mute()) == 1
    assert f.misses[-1].why == "the static argument s is <Mute> and was <Mute>"
    f(1.0, "long" * 1000)
    assert len(f.misses[-1].why) < 200

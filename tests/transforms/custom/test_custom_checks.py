"""What rules return, and what functions with rules are given, is checked."""

from __future__ import annotations

import re
from typing import Any

import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.errors import (
    ArgumentError,
    DerivativeError,
    DtypeError,
    ShapeError,
    StaticArgumentError,
    TreeError,
)


def jvp_returning(answer: Any, wrap: Any = lambda f: f) -> Any:
    f = ft.custom_jvp(lambda x: {"a": fnp.sin(x), "b": x})
    f.defjvp(lambda p, t: answer(p[0], t[0]))
    return wrap(lambda: ft.jvp(f, (fnp.ones(3),), (fnp.ones(3),)))


def test_results_of_a_jvp_rule_are_checked() -> None:
    x = fnp.ones(3)
    with pytest.raises(ArgumentError, match="must return a pair"):
        jvp_returning(lambda x, t: {"a": x, "b": x})()
    with pytest.raises(TreeError, match=r"results of the jvp rule.*expected.*'a'.*got"):
        jvp_returning(lambda x, t: (x, t), ft.jit)()
    with pytest.raises(TreeError, match="tangents of the jvp rule"):
        jvp_returning(lambda x, t: ({"a": x, "b": x}, t))()
    with pytest.raises(ShapeError) as caught:
        jvp_returning(lambda x, t: ({"a": x, "b": x}, {"a": t, "b": t.sum()}))()
    message = str(caught.value)
    assert "['b']" in message
    assert "expected f32[3]" in message
    assert "got f32[]" in message
    assert "test_custom_checks.py" in message
    with pytest.raises(DtypeError, match=r"\['a'\]: expected f32\[3\].*got i32"):
        jvp_returning(
            lambda x, t: ({"a": x.astype(int), "b": x}, {"a": t, "b": t}), ft.jit
        )()
    with pytest.raises(DerivativeError, match="depends on the tangents"):
        jvp_returning(lambda x, t: ({"a": x * t, "b": x}, {"a": t, "b": t}), ft.jit)()
    jvp_returning(lambda x, t: ({"a": x, "b": x}, {"a": t, "b": t}))()
    del x


TANGENTS: dict[str, Any] = {
    "jvp": lambda f: ft.jvp(f, (fnp.ones(3),), (fnp.ones(3),))[1],
    "grad": lambda f: ft.grad(lambda x: f(x).sum())(fnp.ones(3)),
    "jit(grad)": lambda f: ft.jit(ft.grad(lambda x: f(x).sum()))(fnp.ones(3)),
    "vjp": lambda f: ft.vjp(f, fnp.ones(3))[1](fnp.ones(3)),
    "linearize": lambda f: ft.linearize(f, fnp.ones(3))[1](fnp.ones(3)),
    "vmap(grad)": lambda f: ft.vmap(ft.grad(f))(fnp.ones(3)),
}


@pytest.mark.parametrize("way", TANGENTS)
@pytest.mark.parametrize("dtype", ["float16", "int32"])
def test_a_tangent_of_another_dtype_is_refused_in_every_transform(
    way: str, dtype: str
) -> None:
    f = ft.custom_jvp(lambda x: x * 2)
    f.defjvp(lambda p, t: (p[0] * 2, t[0] * 2))
    assert fnp.all(fnp.asarray(TANGENTS[way](f)) == 2)
    f.defjvp(lambda p, t: (p[0] * 2, (t[0] * 2).astype(dtype)))
    with pytest.raises(DtypeError, match="the tangents of the jvp rule of <lambda>"):
        TANGENTS[way](f)


def vjp_returning(forward: Any, backward: Any, wrap: Any = lambda f: f) -> Any:
    f = ft.custom_vjp(lambda x, y: (x * y["k"]).sum())
    f.defvjp(forward, backward)
    return lambda: wrap(ft.grad(f, (0, 1)))(fnp.ones(3), {"k": fnp.ones(3)})


def test_results_of_a_vjp_rule_are_checked() -> None:
    def good(x: Any, y: Any) -> Any:
        return (x * y["k"]).sum(), None

    vjp_returning(good, lambda r, ct: (ct * fnp.ones(3), {"k": ct * fnp.ones(3)}))()
    vjp_returning(good, lambda r, ct: [None, {"k": None}])()
    vjp_returning(good, lambda r, ct: (None, None))()
    with pytest.raises(ArgumentError, match=r"fwd rule.*must return a pair"):
        vjp_returning(lambda x, y: x.sum(), lambda r, ct: (None, None))()
    with pytest.raises(ShapeError, match=r"fwd rule.*expected f32\[\].*got f32\[3\]"):
        vjp_returning(lambda x, y: (x, None), lambda r, ct: (None, None), ft.jit)()
    for wrong in (
        lambda r, ct: ct,
        lambda r, ct: None,
        lambda r, ct: (ct,),
        lambda r, ct: (fnp.ones(3), {"j": fnp.ones(3)}),
    ):
        with pytest.raises(TreeError, match=r"bwd rule.*a cotangent per argument"):
            vjp_returning(good, wrong)()
    with pytest.raises(ShapeError) as caught:
        vjp_returning(good, lambda r, ct: (ct * fnp.ones(3), {"k": fnp.ones(2)}))()
    message = str(caught.value)
    assert "[1]['k']" in message
    assert "expected f32[3]" in message
    assert "got f32[2]" in message
    assert "test_custom_checks.py" in message
    with pytest.raises(DtypeError, match=r"\[0\]: expected f32\[3\].*got i32"):
        vjp_returning(good, lambda r, ct: (fnp.arange(3), None))()


def test_a_cotangent_of_another_width_takes_that_of_its_argument() -> None:
    for given, wanted in (("float32", "bfloat16"), ("float16", "float32")):
        f = ft.custom_vjp(lambda x: x.astype("float32").sum())
        f.defvjp(
            lambda x: (x.astype("float32").sum(), None),
            lambda _, ct, to=given: ((ct * fnp.arange(3.0)).astype(to),),
        )
        found = ft.grad(f)(fnp.ones(3, wanted))
        assert found.dtype == wanted
        assert found.tolist() == [0, 1, 2]


def test_results_of_a_vmap_rule_are_checked() -> None:
    def f_with(rule: Any) -> Any:
        f = ft.custom_batching.custom_vmap(lambda x: (x, x * 2))
        f.def_vmap(rule)
        return lambda: ft.vmap(f)(fnp.ones(3))

    f_with(lambda n, b, x: ((x, x), (True, True)))()
    with pytest.raises(ArgumentError, match="must return a pair"):
        f_with(lambda n, b, x: x)()
    with pytest.raises(TreeError, match="out_batched must have the structure"):
        f_with(lambda n, b, x: ((x, x), True))()
    with pytest.raises(ArgumentError, match="must hold bools"):
        f_with(lambda n, b, x: ((x, x), (True, 0)))()
    with pytest.raises(ShapeError, match=r"\[1\]: expected f32\[3\].*got f32\[\]"):
        f_with(lambda n, b, x: ((x, x.sum()), (True, True)))()


def test_arguments_are_checked() -> None:
    with pytest.raises(ArgumentError, match="takes a function"):
        ft.custom_jvp(3)
    with pytest.raises(ArgumentError, match="takes a function"):
        ft.custom_vjp(lambda x: x).defvjp(lambda x: x, None)
    with pytest.raises(StaticArgumentError, match="names 'z'"):
        ft.custom_jvp(lambda x: x, nondiff_argnames=("z",))
    g = ft.custom_jvp(lambda x, *, k=1: x * k)
    with pytest.raises(AttributeError, match="without a rule for its derivative"):
        g(1.0, k=2)
    g.defjvps(None)
    with pytest.raises(ArgumentError, match="k can be given by name only"):
        g(1.0, k=2)
    f = ft.custom_jvp(lambda x: x)
    f.defjvps(None)
    with pytest.raises(ArgumentError, match="missing"):
        f()
    with pytest.raises(ArgumentError, match="must be an array or a number"):
        f("x")
    with pytest.raises(ArgumentError, match="defjvps cannot be used"):
        ft.custom_jvp(lambda g, x: x, nondiff_argnums=0).defjvps(None)
    product = ft.custom_jvp(lambda x, y: x * y)
    product.defjvps(lambda t, result, x, y: t * y)
    with pytest.raises(ArgumentError, match="with 2 arguments and has 1 rules"):
        ft.grad(product)(1.0, 2.0)
    h = ft.custom_vjp(lambda x: x, nondiff_argnums=(3,))
    h.defvjp(lambda x: (x, None), lambda residuals, ct: (ct,))
    with pytest.raises(StaticArgumentError, match="the argument 3 of"):
        h(1.0)
    with pytest.raises(ArgumentError, match="must be an int or a tuple of ints"):
        ft.custom_vjp(lambda x: x, nondiff_argnums="x")


def test_structures_are_shown_as_they_are_written() -> None:
    f = ft.custom_vjp(lambda x, y: x["a"] * y)
    f.defvjp(lambda x, y: (x["a"] * y, None), lambda residuals, ct: ct)
    expected = re.escape("expected ({'a': *}, *), got *")
    with pytest.raises(TreeError, match=expected + r"\n"):
        ft.grad(f)({"a": 1.0}, 2.0)

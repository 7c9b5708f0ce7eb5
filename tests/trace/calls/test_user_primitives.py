"""Primitives of users, through the one door: ftrace.extend."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.errors import (
    ArgumentError,
    DerivativeError,
    DtypeError,
    PrimitiveError,
    ShapeError,
    TreeError,
)
from ftrace.extend import elementwise, kernel_functions, primitive
from ftrace.test_util import check_grads
from ftrace.trace import bind
from ftrace.trace.primitives.primitive import PRIMITIVES

pytestmark = pytest.mark.usefixtures("own_primitives")

K = kernel_functions
_numbers = itertools.count()


def fresh(name: str) -> str:
    return f"{name}_{next(_numbers)}"


@pytest.fixture(params=["cpu", "interpreter", "opencl"])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "opencl":
        pytest.importorskip("pyopencl")
    with ft.config(device=request.param):
        yield request.param


def softsign() -> Any:
    return elementwise(
        fresh("softsign"),
        numpy=lambda x: x / (1 + np.abs(x)),
        kernel=lambda x: x / (K.abs(x) + 1),
        derivatives=[lambda x, y: (1 - fnp.abs(y)) ** 2],
        zero_at_zero=True,
        doc="x / (1 + |x|)",
    )


def logaddexp2() -> Any:
    return elementwise(
        fresh("logaddexp2"),
        numpy=np.logaddexp2,
        kernel=lambda x, y: K.select(
            x > y,
            x + K.log2(K.exp2(y - x) + 1),
            y + K.log2(K.exp2(x - y) + 1),
        ),
        derivatives=[
            lambda x, y, z: fnp.exp2(x - z), lambda x, y, z: fnp.exp2(y - z),
        ],
        operands=2,
    )  # fmt: skip


X = np.array([[-2.0, -0.5, 0.0], [0.25, 1.0, 30.0]], np.float32)


def test_elementwise_has_the_meaning_of_numpy_on_every_device(device: str) -> None:
    f, g = softsign(), logaddexp2()
    expected = X / (1 + np.abs(X))
    np.testing.assert_allclose(f(X), expected, rtol=1e-6)
    np.testing.assert_allclose(ft.jit(f)(X), expected, rtol=1e-6)
    pair = ft.jit(lambda x: g(x, x[0] * 2))(X)
    np.testing.assert_allclose(pair, np.logaddexp2(X, X[0] * 2), rtol=2e-6)
    half = ft.jit(f)(X.astype(np.float16))
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, expected, rtol=1e-3)


#: Of one float; `is_finite` is a bool.
UNARY = sorted(vars(K).keys() & PRIMITIVES.keys() - {"eq", "ne", "select", "is_finite"})


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_kernels_are_those_of_graphs(name: str) -> None:
    x, op = np.linspace(0.1, 0.9, 5), PRIMITIVES[name]
    made = elementwise(
        fresh(name), numpy=np.abs, kernel=getattr(K, name), derivatives=None
    )
    known = ft.jit(lambda x: bind.elementwise(op, x))(x)
    np.testing.assert_array_equal(ft.jit(made)(x), known)


def test_elementwise_fuses_with_what_is_around_it() -> None:
    f = softsign()
    lowered = ft.jit(lambda x: (f(fnp.sin(x)) * 2 + 1).sum()).lower(X)
    assert len(lowered.kernels) == 1
    assert any(n.op.name.startswith("softsign") for n in lowered.graph.nodes)


def test_elementwise_derivatives_and_batching() -> None:
    f, g = softsign(), logaddexp2()
    x = X[1] / 10
    check_grads(f, (x,), order=2, modes=["fwd", "rev"])
    check_grads(g, (x, x[::-1].copy()), order=2, modes=["fwd", "rev"])
    np.testing.assert_allclose(ft.vmap(f)(X), f(X), rtol=1e-6)
    np.testing.assert_allclose(
        ft.vmap(g, (0, None))(X, X[0]), np.logaddexp2(X, X[0]), rtol=1e-6
    )


def test_elementwise_in_loops_and_with_specs_checked() -> None:
    f = softsign()
    with ft.config(device="interpreter", check_specs=True):
        found = ft.jit(
            lambda x: lax.scan(lambda c, _: (f(c) + 1, c), x, None, length=3)[0]
        )(X)
    expected = X
    for _ in range(3):
        expected = expected / (1 + np.abs(expected)) + 1
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_constant_almost_everywhere_and_no_derivative() -> None:
    step = elementwise(
        fresh("step"), numpy=lambda x: np.heaviside(x, np.ones_like(x)),
        kernel=lambda x: K.select(x < 0, x * 0, x * 0 + 1), derivatives=(),
    )  # fmt: skip
    assert float(ft.grad(lambda x: step(x) * x)(2.0)) == 1.0
    without = elementwise(
        fresh("without"), numpy=np.abs, kernel=K.abs, derivatives=None
    )
    assert float(ft.jit(without)(-2.0)) == 2.0
    with pytest.raises(DerivativeError, match="has no derivative"):
        ft.grad(without)(2.0)


# Primitives of several operands.


def rolled_with(**rules: Any) -> Any:
    return primitive(
        fresh("roll"),
        infer=lambda x, *, shift: x,
        numpy=lambda x, *, shift: np.roll(x, shift, -1),
        linear=(0,),
        transpose=lambda cts, operands, *, shift: (np_roll(cts[0], -shift),),
        **rules,
    )


def np_roll(x: Any, shift: int) -> Any:
    return fnp.roll(x, shift, -1)


BATCH = {"batch": lambda size, batched, x, *, shift: np_roll(x, shift)}
LOWER = {"lower": lambda x, *, shift: np_roll(x, shift)}


@pytest.mark.parametrize("rules", [{}, BATCH, LOWER, {**BATCH, **LOWER}])
def test_a_linear_primitive(rules: Any, device: str) -> None:
    roll = rolled_with(**rules)
    expected = np.roll(X, 1, -1)
    np.testing.assert_array_equal(roll(X, shift=1), expected)
    np.testing.assert_array_equal(ft.jit(lambda x: roll(x, shift=1))(X), expected)
    np.testing.assert_array_equal(ft.vmap(lambda x: roll(x, shift=1))(X), expected)
    weights = np.arange(3.0, dtype=np.float32)
    gradient = ft.grad(lambda x: (roll(x, shift=1) * weights).sum())(X[0])
    np.testing.assert_array_equal(gradient, np.roll(weights, -1))
    many = ft.vmap(ft.grad(lambda x: (roll(x, shift=1) ** 2).sum()))(X)
    np.testing.assert_allclose(many, 2 * X)
    check_grads(lambda x: roll(fnp.sin(x), shift=2), (X[0],), order=2)
    transposed = ft.linear_transpose(lambda x: roll(x, shift=1), X)(X)
    np.testing.assert_array_equal(transposed[0], np.roll(X, -1, -1))


def moments(**rules: Any) -> Any:
    def jvp(primals: Any, results: Any, tangents: Any) -> Any:
        x, w = primals
        mean, _ = results
        t, u = tangents
        first = 0.0 if t is None else (w * t).sum()
        second = 0.0 if t is None else (2 * w * x * t).sum()
        if u is not None:
            first, second = first + (u * x).sum(), second + (u * x * x).sum()
        return fnp.zeros_like(mean) + first, fnp.zeros_like(mean) + second

    return primitive(
        fresh("moments"),
        infer=lambda x, w: (scalar_like(x), scalar_like(x)),
        numpy=lambda x, w: ((w * x).sum(), (w * x * x).sum()),
        jvp=jvp,
        **rules,
    )


def scalar_like(x: Any) -> Any:
    return ft.ShapeDtypeStruct((), x.dtype)


@pytest.mark.parametrize(
    "rules", [{}, {"lower": lambda x, w: ((w * x).sum(), (w * x * x).sum())}]
)
def test_several_operands_and_results(rules: Any, device: str) -> None:
    f = moments(**rules)
    x, w = X[1] / 10, X[0] + 3
    expected = ((w * x).sum(), (w * x * x).sum())
    for call in (f, ft.jit(f)):
        np.testing.assert_allclose(call(x, w), expected, rtol=1e-5)

    def loss(x: Any, w: Any) -> Any:
        a, b = f(x, w)
        return fnp.sin(a) * b

    check_grads(loss, (x, w), order=2, modes=["fwd", "rev"])
    many = ft.vmap(ft.grad(loss), (None, 0))(x, np.stack([w, w]))
    np.testing.assert_allclose(many[1], ft.grad(loss)(x, w), rtol=1e-5)


def test_decompositions_fuse_and_host_calls_do_not() -> None:
    lowered = ft.jit(lambda x: rolled_with(**LOWER)(x * 2, shift=1) + 1).lower(X)
    assert len(lowered.kernels) == len(lowered.program.steps)
    host = ft.jit(lambda x: rolled_with()(x * 2, shift=1) + 1).lower(X)
    assert len(host.program.steps) == len(host.kernels) + 1


def test_rules_may_use_arrays_around_them() -> None:
    table = fnp.arange(3.0)
    f = primitive(
        fresh("table"), infer=lambda x: x, numpy=lambda x: x * np.arange(3.0),
        jvp=lambda primals, results, tangents: tangents[0] * table,
        lower=lambda x: x * table,
    )  # fmt: skip
    np.testing.assert_array_equal(ft.jit(f)(X[0]), X[0] * np.arange(3.0))
    found = ft.jit(ft.grad(lambda x: f(x).sum()))(X[0])
    np.testing.assert_array_equal(found, [0, 1, 2])


def test_checkpoint_and_custom_rules_hold_primitives() -> None:
    f = softsign()
    kept = ft.checkpoint(lambda x: f(f(x)).sum())
    np.testing.assert_allclose(
        ft.jit(ft.grad(kept))(X), ft.grad(lambda x: f(f(x)).sum())(X), rtol=1e-6
    )


# What is wrong.


def test_records_that_lack_a_rule_are_refused() -> None:
    with pytest.raises(PrimitiveError, match="lacks kernel"):
        elementwise(fresh("f"), numpy=np.abs, kernel=None, derivatives=())  # type: ignore[arg-type]
    with pytest.raises(PrimitiveError, match="lacks jvp"):
        primitive(fresh("f"), infer=lambda x: x, numpy=np.abs)
    with pytest.raises(PrimitiveError, match="lacks transpose"):
        primitive(fresh("f"), infer=lambda x: x, numpy=np.abs, linear=(0,))
    with pytest.raises(PrimitiveError, match="1 or 2 operands, got 3"):
        elementwise(fresh("f"), numpy=np.abs, kernel=K.abs, derivatives=(), operands=3)
    with pytest.raises(PrimitiveError, match="2 operands and 1 derivatives"):
        elementwise(
            fresh("f"), numpy=np.add, kernel=K.abs, operands=2,
            derivatives=[lambda x, y, z: x],
        )  # fmt: skip
    with pytest.raises(PrimitiveError, match="named 'exp' already"):
        elementwise("exp", numpy=np.exp, kernel=K.exp, derivatives=())
    with pytest.raises(PrimitiveError, match="dtypes must be"):
        elementwise(fresh("f"), numpy=np.abs, kernel=K.abs, derivatives=(), dtypes="c")
    with pytest.raises(PrimitiveError, match="must be a string, got 3"):
        primitive(3, infer=lambda x: x, numpy=np.abs, no_derivative="")  # type: ignore[arg-type]
    with pytest.raises(PrimitiveError, match="counts operands from 0"):
        primitive(
            fresh("f"), infer=lambda x: x, numpy=np.abs, linear=(-1,),
            transpose=lambda cotangents, operands: cotangents,
        )  # fmt: skip


def test_operands_are_checked() -> None:
    f = softsign()
    with pytest.raises(ArgumentError, match="takes 1 operands, got 2"):
        f(X, X)
    with pytest.raises(DtypeError, match="is not defined for complex64; take"):
        f(X.astype(np.complex64))
    with pytest.raises(ArgumentError, match="shift must be hashable"):
        rolled_with()(X, shift=[1])


def test_what_rules_return_is_checked() -> None:
    def f_with(**rules: Any) -> Any:
        return primitive(
            fresh("f"), infer=lambda x: x, numpy=lambda x: x + 0, **rules
        )  # fmt: skip

    same = {"jvp": lambda primals, results, tangents: tangents[0]}
    with pytest.raises(ShapeError, match=r"jvp rule.*expected f32\[3\].*got f32\[\]"):
        ft.grad(lambda x: f_with(jvp=lambda p, r, t: t[0].sum())(x).sum())(X[0])
    with pytest.raises(TreeError, match="jvp rule"):
        ft.grad(lambda x: f_with(jvp=lambda p, r, t: (t[0], t[0]))(x).sum())(X[0])
    with pytest.raises(ShapeError, match=r"lower rule.*expected f32\[2,3\]"):
        ft.jit(f_with(lower=lambda x: x.sum(), **same))(X)
    with pytest.raises(ShapeError, match=r"batch rule.*expected f32\[2,3\]"):
        ft.vmap(f_with(batch=lambda n, b, x: x[0], **same))(X)
    wrong = primitive(
        fresh("f"),
        infer=lambda x: x,
        numpy=lambda x: x[:1],
        no_derivative="it is wrong",
    )
    with pytest.raises(ShapeError, match="numpy returned shape"):
        wrong(X)
    with pytest.raises(DerivativeError, match="it is wrong"):
        ft.grad(lambda x: f_without_derivative()(x).sum())(X)
    linear = f_with(linear=(0,), transpose=lambda cts, operands: cts[0].sum())
    with pytest.raises(PrimitiveError, match="must return a tuple"):
        ft.grad(lambda x: linear(x).sum())(X)


@pytest.mark.parametrize("wrap", [lambda f: f, ft.jit], ids=["eager", "jit"])
def test_what_numpy_and_infer_return_is_checked(wrap: Any) -> None:
    def of(infer: Any, numpy: Any) -> Any:
        return wrap(
            primitive(fresh("f"), infer=infer, numpy=numpy, no_derivative="none")
        )

    with pytest.raises(PrimitiveError, match="returned 1 results, but"):
        of(lambda x: (x, x), lambda x: (x,))(X)
    with pytest.raises(PrimitiveError, match="returned 3 results, but"):
        of(lambda x: (x, x), lambda x: (x, x, x))(X)
    with pytest.raises(DtypeError, match="numpy returned complex64"):
        of(lambda x: x, lambda x: x * np.complex64(1j))(X)
    with pytest.raises(PrimitiveError, match="must return a type"):
        of(lambda x: None, lambda x: x)(X)
    with pytest.raises(PrimitiveError, match="must return a type"):
        of(lambda x: x.shape, lambda x: x)(X)
    assert of(lambda x: x, lambda x: x.astype(np.float64))(X).dtype == np.float32


def test_formulas_of_kernels_are_checked() -> None:
    def of(kernel: Any, numpy: Any = np.abs) -> Any:
        return elementwise(fresh("f"), numpy=numpy, kernel=kernel, derivatives=())

    with pytest.raises(PrimitiveError, match="cannot branch on a term"):
        ft.jit(of(lambda x: x if x > 0 else -x))(X)
    with pytest.raises(PrimitiveError, match="must return a term made of"):
        ft.jit(of(lambda x: 1.0))(X)
    with pytest.raises(ShapeError, match="not elementwise"):
        of(K.abs, numpy=np.sum)(X)
    x = fnp.asarray(X)
    with pytest.raises(ValueError, match="read-only"):
        of(K.abs, numpy=lambda x: np.abs(x, out=x))(x)
    np.testing.assert_array_equal(x, X)


@pytest.mark.parametrize("wrap", [lambda f: f, ft.jit], ids=["eager", "jit"])
def test_numpy_cannot_write_into_arrays_of_users(wrap: Any) -> None:
    def doubled(x: Any) -> Any:
        x *= 2
        return x

    f = primitive(fresh("f"), infer=lambda x: x, numpy=doubled, no_derivative="none")
    x = fnp.asarray(X)
    with pytest.raises(ValueError, match="read-only"):
        wrap(f)(x)
    np.testing.assert_array_equal(x, X)


def test_a_linear_operand_that_is_not_given_is_named() -> None:
    def none(cotangents: Any, operands: Any) -> Any:
        return cotangents

    f = primitive(
        fresh("f"), infer=lambda x: x, numpy=lambda x: x, linear=(1,), transpose=none
    )
    with pytest.raises(PrimitiveError, match=r"operands \(1,\), but was called with 1"):
        f(X)


def f_without_derivative() -> Any:
    return primitive(
        fresh("f"), infer=lambda x: x, numpy=lambda x: x, no_derivative="it is wrong"
    )

"""Derivatives of programs: against formulas, finite differences, and each other."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.errors import (
    ArgumentError,
    DerivativeError,
    DtypeError,
    ShapeError,
    TreeError,
)


def close(got: Any, want: Any, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(np.asarray(got), want, rtol=tolerance, atol=tolerance)


def test_grad_of_a_scalar_function_to_the_fifth_order() -> None:
    f: Any = lambda x: fnp.sin(x) * fnp.exp(0.5 * x)  # noqa: E731
    # d/dx of sin(x)·exp(x/2) multiplies the complex amplitude by (1/2 + i).
    x = np.float64(0.7)
    derivative = f
    for order in range(1, 6):
        derivative = ft.grad(derivative)
        amplitude = (0.5 + 1j) ** order * np.exp((0.5 + 1j) * x)
        close(derivative(x), amplitude.imag, 1e-12)
        close(ft.jit(derivative)(x), amplitude.imag, 1e-12)


def test_grad_over_a_pytree_has_its_structure() -> None:
    class Pair(NamedTuple):
        a: Any
        b: Any

    params = {"w": [fnp.ones(3), None], "p": Pair(fnp.array(2.0), (fnp.array(3.0),))}

    def loss(p: Any) -> Any:
        return fnp.sum(p["w"][0] ** 2) * p["p"].a + p["p"].b[0] ** 3

    grads = ft.grad(loss)(params)
    assert isinstance(grads["p"], Pair)
    assert grads["w"][1] is None
    close(grads["w"][0], 4 * np.ones(3))
    close(grads["p"].a, 3.0)
    close(grads["p"].b[0], 27.0)


def test_argnums_and_aux() -> None:
    def f(x: Any, y: Any, *, scale: float) -> Any:
        return scale * x * y, {"sum": x + y, "name": "kept"}

    (value, aux), (dx, dy) = ft.value_and_grad(f, argnums=(0, -1), has_aux=True)(
        3.0, 5.0, scale=2.0
    )
    assert (float(value), float(dx), float(dy)) == (30.0, 10.0, 6.0)
    assert aux["name"] == "kept"
    assert float(aux["sum"]) == 8.0
    gradient, aux = ft.grad(f, has_aux=True)(3.0, 5.0, scale=1.0)
    assert float(gradient) == 5.0


def test_python_control_flow_sees_values_in_transforms_that_are_not_jitted() -> None:
    seen: list[float] = []

    def f(x: Any) -> Any:
        seen.append(float(ft.lax.stop_gradient(x)))
        total = x
        while total < 10:
            total = total * x
        if total > 20:
            return -total
        return total

    assert float(ft.grad(f)(3.0)) == -27.0
    assert float(ft.grad(f)(2.0)) == 32.0
    assert float(ft.jvp(f, (3.0,), (1.0,))[1]) == -27.0
    assert float(ft.vjp(f, 3.0)[1](1.0)[0]) == -27.0
    assert float(ft.grad(ft.grad(f))(3.0)) == -18.0
    assert seen == [3.0, 2.0, 3.0, 3.0, 3.0]


def test_nested_derivatives_do_not_confuse_their_perturbations() -> None:
    # d/dx (x · d/dy (x + y)) = 1, not 2.
    assert float(ft.grad(lambda x: x * ft.grad(lambda y: x + y)(1.0))(1.0)) == 1.0
    f = ft.grad(lambda x: ft.jvp(lambda y: x * y * y, (x,), (1.0,))[1])
    assert float(f(3.0)) == 12.0  # d/dx 2x² = 4x


@pytest.mark.parametrize("wrap", [lambda f: f, ft.jit], ids=["plain", "jit"])
def test_forward_over_reverse_equals_reverse_over_forward(wrap: Any) -> None:
    a = np.random.default_rng(0).normal(size=(4, 4))

    def f(x: Any) -> Any:
        return fnp.sum(fnp.tanh(a @ x) ** 2)

    x = np.arange(4.0) / 4
    one = wrap(ft.jacfwd(ft.jacrev(f)))(x)
    two = wrap(ft.jacrev(ft.jacfwd(f)))(x)
    three = wrap(ft.jacrev(ft.jacrev(f)))(x)
    close(one, two, 1e-10)
    close(one, three, 1e-10)
    close(one, np.asarray(ft.hessian(f)(x)), 1e-10)
    close(one, np.asarray(one).T, 1e-10)


def test_jacobians_of_trees() -> None:
    def f(p: Any) -> Any:
        return {"u": p["x"] * p["y"], "v": fnp.sum(p["x"])}

    p = {"x": fnp.arange(3.0), "y": fnp.array([1.0, 2.0, 3.0])}
    for jacobian in (ft.jacfwd(f)(p), ft.jacrev(f)(p)):
        close(jacobian["u"]["x"], np.diag([1.0, 2.0, 3.0]))
        close(jacobian["u"]["y"], np.diag([0.0, 1.0, 2.0]))
        close(jacobian["v"]["x"], np.ones(3))
        close(jacobian["v"]["y"], np.zeros(3))


def test_linearize_and_vjp_compute_the_residuals_once() -> None:
    calls: list[int] = []

    def f(x: Any) -> Any:
        calls.append(1)
        return fnp.sin(x) * x

    x = np.linspace(0, 1, 5)
    out, push = ft.linearize(f, x)
    close(push(np.ones(5)), np.cos(x) * x + np.sin(x))
    close(push(2 * np.ones(5)), 2 * (np.cos(x) * x + np.sin(x)))
    out, pull = ft.vjp(f, x)
    close(out, np.sin(x) * x)
    close(pull(np.ones(5))[0], np.cos(x) * x + np.sin(x))
    assert len(calls) == 2


def test_linear_transpose_of_a_matrix_is_its_transpose() -> None:
    a = np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32)
    back = ft.linear_transpose(lambda x: a @ x, ft.ShapeDtypeStruct((5,), np.float32))
    y = np.arange(3, dtype=np.float32)
    close(back(y)[0], a.T @ y)
    with pytest.raises(DerivativeError, match="not linear"):
        ft.linear_transpose(lambda x: x * x, np.float32(1.0))


def test_closed_over_arrays_and_tracers() -> None:
    w = fnp.arange(4.0)

    def outer(x: Any) -> Any:
        def inner(y: Any) -> Any:
            return fnp.sum(w * x * y)

        return ft.grad(inner)(2.0) * x

    close(ft.grad(outer)(3.0), 2 * 6 * 3.0)


def test_the_gradient_of_a_python_number_is_weak() -> None:
    gradient = ft.grad(lambda x: x * x)(3.0)
    assert gradient.weak_type
    assert (fnp.ones(3, "float16") * gradient).dtype == np.float16


def test_what_numpy_changes_later_does_not_reach_a_derivative() -> None:
    x, w = np.ones(4), np.ones(4)
    _, pull = ft.vjp(lambda v: v * v * w, x)
    _, push = ft.linearize(lambda v: v * v * w, x)
    x[0] = w[0] = 7.0
    close(pull(np.ones(4))[0], 2 * np.ones(4))
    close(push(np.ones(4)), 2 * np.ones(4))


def test_lgamma_has_derivatives_of_every_order() -> None:
    # polygamma(1), (2) and (3), from SciPy; below zero by its recurrence.
    wanted = {
        2.5: (0.4903577561002349, -0.23620405164172736, 0.2239058488172521),
        -0.7: (14.28618087263834, -69.44163279863852, 768.1313523268525),
    }
    for x, values in wanted.items():
        derivative = ft.grad(ft.lax.lgamma)
        for value in values:
            derivative = ft.grad(derivative)
            np.testing.assert_allclose(derivative(np.float64(x)), value, rtol=1e-10)


def test_stop_gradient_is_constant() -> None:
    assert float(ft.grad(lambda x: x * ft.lax.stop_gradient(x))(3.0)) == 3.0


def test_gradients_of_integers() -> None:
    with pytest.raises(DerivativeError, match="float dtype"):
        ft.grad(lambda x: x * 1.0)(3)
    gradient = ft.grad(lambda n, x: n * x, argnums=(0, 1), allow_int=True)(3, 2.0)
    assert gradient[0].dtype == ft.float0
    assert float(gradient[1]) == 3.0


def test_holomorphic_derivatives() -> None:
    z = np.complex128(0.3 + 0.4j)
    f = ft.grad(lambda z: fnp.sin(z) * z, holomorphic=True)
    close(f(z), np.cos(z) * z + np.sin(z), 1e-12)
    # A real function of a complex argument: JAX's convention conjugates nothing.
    g = ft.grad(lambda z: fnp.real(z) ** 2 + 3 * fnp.imag(z))(z)
    close(g, 0.6 - 3j, 1e-12)
    with pytest.raises(DerivativeError, match="complex"):
        ft.grad(lambda x: x, holomorphic=True)(1.0)


EDGES: dict[str, tuple[Any, float, float]] = {
    "abs at 0": (lambda x: fnp.abs(x), 0.0, 1.0),
    "relu6 at 0": (lambda x: ft.nn.relu6(x), 0.0, 0.0),
    "relu6 at 6": (lambda x: ft.nn.relu6(x), 6.0, 0.0),
    "cbrt at 0": (lambda x: fnp.cbrt(x), 0.0, math.inf),
    "sqrt at 0": (lambda x: fnp.sqrt(x), 0.0, math.inf),
    "relu at 0": (lambda x: ft.nn.relu(x), 0.0, 0.0),
    "maximum at a tie": (lambda x: fnp.maximum(x, 0.0), 0.0, 0.5),
    "square at 0": (lambda x: x**2, 0.0, 0.0),
    "cube root of a square": (lambda x: x**3, 0.0, 0.0),
    "power of 0": (lambda x: x ** fnp.array(2.0), 0.0, 0.0),
    "where, log not taken": (lambda x: fnp.where(x > 0, fnp.log(x), 0.0), 0.0, 0.0),
    "where, division not taken": (lambda x: fnp.where(x != 0, 1 / x, 0.0), 0.0, 0.0),
    "where, x·log(x)": (lambda x: fnp.where(x > 0, x * fnp.log(x), 0.0), 0.0, 0.0),
    "where, sqrt not taken": (lambda x: fnp.where(x > 0, fnp.sqrt(x), 0.0), 0.0, 0.0),
    "where, exp overflows": (
        lambda x: fnp.where(x < 100, fnp.exp(fnp.where(x < 100, x, 0)), 0.0), 1e4, 0.0
    ),
    "where, exp overflows not taken": (
        lambda x: fnp.where(x < 100, fnp.exp(x), 1.0), 1e4, 0.0
    ),
    "norm at 0": (lambda x: fnp.sqrt(x**2 + x**2), 0.0, 0.0),
}  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("wrap", [lambda f: f, ft.jit], ids=["plain", "jit"])
def test_derivative_at_an_edge(name: str, wrap: Any) -> None:
    f, x, want = EDGES[name]
    assert float(wrap(ft.grad(f))(np.float32(x))) == want


def test_norm_of_zeros_has_a_zero_gradient() -> None:
    f = ft.grad(lambda x: fnp.sqrt(fnp.sum(x * x)))
    np.testing.assert_array_equal(np.asarray(f(np.zeros(3))), np.zeros(3))


def test_ties_of_a_maximum_share_the_gradient() -> None:
    close(ft.grad(lambda x: fnp.max(x))(np.array([1.0, 3, 3, 0])), [0, 0.5, 0.5, 0])


def test_bad_arguments_say_what_to_do() -> None:
    with pytest.raises(ShapeError, match="must return a scalar"):
        ft.grad(lambda x: x)(np.ones(3))
    with pytest.raises(ArgumentError, match="takes a function"):
        ft.grad(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="at least 2 positional"):
        ft.grad(lambda x: x, argnums=1)(1.0)
    with pytest.raises(TreeError, match="differ in structure"):
        ft.jvp(lambda x: x, (1.0,), (1.0, 2.0))
    with pytest.raises(ShapeError, match=r"f64\[3\] is required, got f64\[4\]"):
        ft.jvp(lambda x: x, (np.ones(3),), (np.ones(4),))
    with pytest.raises(DtypeError, match="float0"):
        ft.jvp(lambda x: x, (3,), (1.0,))
    with pytest.raises(ArgumentError, match="pair"):
        ft.grad(lambda x: x, has_aux=True)(1.0)
    _, pull = ft.vjp(lambda x: (x, x), 1.0)
    with pytest.raises(TreeError, match="structure must be"):
        pull(1.0)
    with pytest.raises(ArgumentError, match="must be an array"):
        ft.grad(lambda x: 1.0)("text")


def test_an_error_names_the_line_of_the_user() -> None:
    def broken(x: Any) -> Any:
        return fnp.sum(x + fnp.ones(5))  # the line

    with pytest.raises(
        ShapeError, match=r"fnp\.sum\(x \+ fnp\.ones\(5\)\)  # the line"
    ):
        ft.grad(broken)(np.ones(3))


# What is given as a tangent or cotangent is a value like any other, not its bytes.

#: Each in a form that calls it with one (co)tangent of x, of x's shape and dtype.
LINEAR_MAPS: dict[str, Any] = {
    "jvp": lambda f, x, t: ft.jvp(f, (x,), (t,))[1],
    "linearize": lambda f, x, t: ft.linearize(f, x)[1](t),
    "vjp": lambda f, x, t: ft.vjp(f, x)[1](t)[0],
    "linear_transpose": lambda f, x, t: ft.linear_transpose(f, x)(t)[0],
    "jvp of a jit": lambda f, x, t: ft.jvp(ft.jit(f), (x,), (t,))[1],
    "vjp in a jit": lambda f, x, t: ft.jit(lambda y, u: ft.vjp(f, y)[1](u)[0])(x, t),
}
PRIMALS: list[Any] = [
    2.0, 2j, np.float32(2), np.float64(2), np.float16(2), np.array(2.0), np.ones(3),
    np.ones(3, "f4"), np.ones(3, "f2"), fnp.ones(3, "bfloat16"), np.ones(3, "c8"),
    fnp.asarray(2.0), np.ones(3, "c16"),
]  # fmt: skip
TANGENTS: list[Any] = [
    1.0, 1, True, 1j, np.float32(1), np.float64(1), np.float16(1), np.int32(1),
    np.array(1.0), np.array(1.0, "f4"), fnp.asarray(1.0), fnp.asarray(1),
    np.full(3, 0.5), np.full(3, 0.5, "f4"), np.full(3, 0.5, "f2"), np.ones(3, "i4"),
    fnp.full(3, 0.5), fnp.full(3, 0.5, "bfloat16"), np.full(3, 0.5j, "c8"),
    np.full(3, 0.5j), np.full((3, 1), 0.5, "f4"),
]  # fmt: skip


def _narrowed(x: Any) -> Any:
    """Shape and dtype, 64 bits as 32."""
    x = fnp.asarray(x)
    narrow = {"float64": "float32", "complex128": "complex64", "int64": "int32"}
    return x.shape, narrow.get(str(x.dtype), str(x.dtype))


@pytest.mark.parametrize("name", LINEAR_MAPS)
def test_a_tangent_is_converted_or_refused(name: str) -> None:
    for x in PRIMALS:
        dtype = fnp.asarray(x).dtype
        for t in TANGENTS:
            call = LINEAR_MAPS[name]
            if _narrowed(x) != _narrowed(t):
                with pytest.raises((ShapeError, DtypeError), match="is required, got"):
                    call(lambda y: y * 2, x, t)
                continue
            for _ in range(7):  # native in the end
                got = call(lambda y: y * 2, x, t)
                assert got.dtype == dtype
                np.testing.assert_array_equal(got, np.asarray(t) * 2)


def test_a_large_tangent_of_another_width_reads_no_foreign_memory() -> None:
    size = 1 << 16
    _, pull = ft.vjp(lambda x: x * 3, np.ones(size))
    for _ in range(8):
        np.testing.assert_array_equal(pull(fnp.full(size, 1.0))[0], np.full(size, 3.0))


def test_a_derivative_is_weak_where_value_and_tangent_are() -> None:
    strong = np.float32(1)
    assert ft.jvp(lambda x: x * 2, (3.0,), (strong,))[1].weak_type
    for name in ("linearize", "vjp", "linear_transpose"):
        call = LINEAR_MAPS[name]
        assert call(lambda x: x * 2, 3.0, 1.0).weak_type
        assert not call(lambda x: x * 2, 3.0, strong).weak_type
        assert not call(lambda x: x * 2, strong, 1.0).weak_type
    for name in ("grad", "jacfwd", "jacrev", "hessian"):
        assert getattr(ft, name)(lambda x: x * x)(3.0).weak_type
        assert getattr(ft, name)(lambda x: x * 0 + 1.0)(3.0).weak_type
    assert ft.grad(lambda x: 1.0)(3.0).weak_type


@pytest.mark.parametrize("wrap", [lambda f: f, ft.jit])
def test_derivatives_of_integers_hold_nothing(wrap: Any) -> None:
    nothing = np.zeros(3, ft.float0)
    whole = np.ones(3, "i4")

    def is_nothing(x: Any) -> bool:
        return x.dtype == ft.float0 and x.shape == (3,) and isinstance(x, np.ndarray)

    def f(n: Any) -> Any:
        return n * 2

    assert is_nothing(wrap(lambda n: ft.jvp(f, (n,), (nothing,))[1])(whole))
    assert is_nothing(wrap(lambda n: ft.linearize(f, n)[1](nothing))(whole))
    assert is_nothing(wrap(lambda n: ft.vjp(f, n)[1](nothing)[0])(whole))
    assert is_nothing(wrap(lambda n: ft.vjp(f, n)[1](np.ones(3))[0])(whole))
    mixed = wrap(lambda x: ft.jvp(lambda a: (a, a > 0), (x,), (x,))[1])(np.ones(3, "f"))
    assert not is_nothing(mixed[0])
    assert is_nothing(mixed[1])
    lanes = ft.vmap(ft.grad(lambda n: fnp.sum(n * 1.0), allow_int=True))
    assert is_nothing(wrap(lanes)(whole))
    assert ft.vmap(lambda n: nothing, out_axes=-1)(whole).shape == (3, 3)
    for given in (1.0, whole, np.zeros(2, ft.float0)):
        with pytest.raises((ShapeError, DtypeError), match=r"float0\[3\] is required"):
            ft.jvp(f, (whole,), (given,))
        with pytest.raises((ShapeError, DtypeError), match=r"float0\[3\] is required"):
            ft.linearize(f, whole)[1](given)


def test_linear_transpose_of_integers_is_of_integers() -> None:
    for _ in range(7):
        (got,) = ft.linear_transpose(lambda n: n * 3, np.ones(2, "i4"))(np.arange(2))
        assert got.dtype == np.int32
        np.testing.assert_array_equal(got, [0, 3])
    for x in (np.ones(2, bool), np.ones(2, "i4")):
        with pytest.raises(DerivativeError, match="all integers, got"):
            ft.linear_transpose(lambda n: n * 2.0, x)


@pytest.mark.parametrize(
    "argnums", [(0, 0), (0, -2), (-1, 1), (0, 1, 0), (), [], "0", 1.0, None, (0, "a")]
)
@pytest.mark.parametrize(
    "transform", [ft.grad, ft.value_and_grad, ft.jacfwd, ft.jacrev, ft.hessian]
)
def test_argnums_name_each_argument_once(transform: Any, argnums: Any) -> None:
    with pytest.raises(ArgumentError, match="argnums"):
        transform(lambda x, y: x * y, argnums=argnums)(1.0, 2.0)


@pytest.mark.parametrize("argnums", [np.int32(1), np.array(1), 1, -1])
def test_argnums_are_what_python_takes_as_an_index(argnums: Any) -> None:
    assert float(ft.grad(lambda x, y: x * y, argnums=argnums)(3.0, 2.0)) == 3.0
    many = range(2), [0, 1], np.arange(2), (i for i in (0, 1))
    for several in many:
        got = ft.jacrev(lambda x, y: x * y, argnums=several)(3.0, 2.0)
        assert [float(x) for x in got] == [2.0, 3.0]


@pytest.mark.parametrize("pack", [lambda x: (x,), lambda x: [x], lambda x: {"a": x}])
@pytest.mark.parametrize("wrap", [lambda f: f, ft.jit])
def test_a_gradient_is_that_of_a_scalar_and_of_no_tree(pack: Any, wrap: Any) -> None:
    for transform in (ft.grad, ft.value_and_grad):
        with pytest.raises(ArgumentError, match="must return one scalar"):
            wrap(transform(pack))(1.0)
        with pytest.raises(ArgumentError, match="must return one scalar"):
            wrap(transform(lambda x: (pack(x), x), has_aux=True))(1.0)


def test_tangents_have_the_structure_of_what_they_belong_to() -> None:
    for primals, tangents in (
        ([1.0], (1.0,)),
        ((1.0,), [1.0]),
        (((1.0,),), ([1.0],)),
        (({"a": 1.0},), ({"b": 1.0},)),
        ((1.0, None), (1.0, 1.0)),
    ):
        with pytest.raises(TreeError, match="differ in structure"):
            ft.jvp(lambda *a: ft.tree.leaves(a)[0], primals, tangents)
    for pull in (ft.vjp(lambda x: (x, x), 1.0)[1],
                 ft.linear_transpose(lambda x: (x, x), 1.0)):  # fmt: skip
        with pytest.raises(ArgumentError, match="takes one argument"):
            pull(1.0, 1.0)


@pytest.mark.parametrize("wrap", [lambda f: f, ft.jit])
def test_a_jacobian_is_that_of_real_floats(wrap: Any) -> None:
    for output in (lambda x: x > 0, lambda x: (x, x > 0), lambda x: True):
        for transform in (ft.jacfwd, ft.jacrev, ft.hessian):
            with pytest.raises(DerivativeError, match="needs results of a real float"):
                wrap(transform(output))(1.0)
    for output in (lambda x: 1, fnp.argmax, lambda x: (x, 1), lambda x: x * 1j):
        with pytest.raises(DerivativeError, match="needs results of a real float"):
            wrap(ft.jacrev(output))(1.0)
    for transform in (ft.jacfwd, ft.jacrev, ft.hessian):
        for x in (1, True, np.ones(2, "i4")):
            with pytest.raises(DerivativeError, match="of a float dtype"):
                wrap(transform(lambda x: x * 1.0))(x)
    with pytest.raises(DerivativeError, match="needs real inputs"):
        wrap(ft.jacfwd(fnp.abs))(1j)
    got = wrap(ft.jacfwd(lambda x: x.astype("i4")))(np.ones(3, "f4"))
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, np.zeros((3, 3)))
    got = wrap(ft.jacrev(lambda n: fnp.sum(n * 1.0), allow_int=True))(np.ones(3, "i4"))
    assert got.dtype == np.int32


@pytest.mark.parametrize(
    "name", ["grad", "value_and_grad", "jacfwd", "jacrev", "hessian"]
)
def test_errors_name_the_transform_that_was_called(name: str) -> None:
    transform, x = getattr(ft, name), fnp.ones(3)
    for argnums in ((0, 0), (), "a"):
        with pytest.raises(ArgumentError, match=rf"^{name}: argnums"):
            transform(fnp.sum, argnums)
    with pytest.raises(ArgumentError, match=rf"^{name}: argnums=2 needs"):
        transform(fnp.sum, 2)(x)
    with pytest.raises(ArgumentError, match=rf"^{name} takes a function"):
        transform(3)
    with pytest.raises(DerivativeError, match=rf"^{name} needs inputs of a float"):
        transform(fnp.sum)(fnp.arange(3))


def test_a_cotangent_of_zero_is_as_weak_as_its_argument() -> None:
    def through_integers(x: Any) -> Any:
        return fnp.asarray(x).astype(int).astype(float) * 1.0

    for x, weak in ((0.5, True), (fnp.float32(0.5), False)):
        for ct in (1.0, fnp.float32(1)):
            (found,) = ft.vjp(through_integers, x)[1](ct)
            assert (found.dtype, found.weak_type) == (np.float32, weak)
        assert ft.jacrev(through_integers)(x).weak_type is weak


def test_numbers_as_tangents_keep_all_their_bits() -> None:
    x = np.array(1.0)
    triple = lambda x: x * 3.0  # noqa: E731
    found = [
        ft.jvp(triple, (x,), (0.1,))[1],
        ft.jit(lambda x: ft.jvp(triple, (x,), (0.1,))[1])(x),
        ft.linearize(triple, x)[1](0.1),
        *ft.vjp(triple, x)[1](0.1),
        *ft.linear_transpose(triple, x)(0.1),
    ]
    assert [float(value) for value in found] == [0.1 * 3.0] * len(found)
    (complex_ct,) = ft.vjp(triple, np.array(1j))[1](0.1j)
    assert complex(complex_ct) == 0.1j * 3.0


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "jacfwd", "jacrev"])
def test_what_aux_must_be_is_told_under_the_name_that_was_called(name: str) -> None:
    for result in (lambda x: x.sum(), lambda x: (x, x, x)):
        for called in (name, "hessian"):
            with pytest.raises(
                ft.errors.ArgumentError, match=f"^{called} with has_aux"
            ):
                getattr(ft, called)(result, has_aux=True)(np.ones(3))


def test_numbers_that_would_lose_their_derivative_are_refused() -> None:
    def stored(x: Any) -> Any:
        a = np.zeros(3)
        a[0] = x
        return a.sum() * x

    for f in (stored, lambda x: float(x) * x, lambda x: np.asarray(x).sum() * x):
        for transform in (ft.grad, lambda f: lambda x: ft.jvp(f, (x,), (1.0,))):
            with pytest.raises((ValueError, TypeError)):
                transform(f)(2.0)
    with pytest.raises(ft.errors.ConcretizationTypeError, match="lose its derivative"):
        ft.grad(lambda x: sum(x.tolist()) * x.sum())(np.ones(2))
    constant = ft.lax.stop_gradient
    for f in (
        lambda x: x * float(constant(x)), lambda x: x * np.asarray(constant(x * 1)),
        lambda x: x * float(fnp.floor(x)), lambda x: x * int(x), lambda x: x * 2,
        lambda x: x * x.item(),
    ):  # fmt: skip
        assert ft.grad(f)(2.0) == 2

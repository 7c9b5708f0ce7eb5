"""Numbers of Python's have 64 bits until they meet a type: eagerly and in traces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax, nn
from ftrace.scipy import special, stats

X = np.array([0.3, 0.7, 1.9])
Y = 0.1


def product(x: Any, y: Any) -> Any:
    return x * y


def total(x: Any, y: Any) -> Any:
    return (x * y).sum()


@ft.custom_jvp
def with_jvp(x: Any, y: Any) -> Any:
    return x * y


with_jvp.defjvp(lambda p, t: (p[0] * p[1], t[0] * p[1] + p[0] * t[1]))


@ft.custom_vjp
def with_vjp(x: Any, y: Any) -> Any:
    return x * y


with_vjp.defvjp(lambda x, y: (x * y, (x, y)), lambda r, g: (g * r[1], (g * r[0]).sum()))

#: Ways to X·Y, each of x and y.
PRODUCTS: dict[str, Any] = {
    "jit": ft.jit(product),
    "pytree": lambda x, y: ft.jit(lambda d: d["x"] * d["y"])({"x": x, "y": y}),
    "nested": ft.jit(lambda x, y: ft.jit(product)(x, y)),
    "number": ft.jit(lambda x, y: ft.jit(product)(x, Y)),
    "vmap": ft.vmap(product, (0, None)),
    "jit of vmap": ft.jit(ft.vmap(product, (0, None))),
    "jvp": lambda x, y: ft.jvp(product, (x, y), (x, 0.0))[0],
    "tangent": lambda x, y: ft.jvp(product, (x, y), (x, 0.0))[1],
    "vjp": lambda x, y: ft.vjp(product, x, y)[0],
    "cotangent": lambda x, y: ft.vjp(product, x, y)[1](x)[0],
    "linearize": lambda x, y: ft.linearize(product, x, y)[0],
    "linearized": lambda x, y: ft.linearize(product, x, y)[1](x, 0.0),
    "grad": lambda x, y: x * ft.grad(total)(x, y),
    "grad in both": lambda x, y: x * ft.grad(total, (0, 1))(x, y)[0],
    "jit of grad": lambda x, y: x * ft.jit(ft.grad(total, (0, 1)))(x, y)[0],
    "grad of jit": lambda x, y: x * ft.grad(ft.jit(total), (0, 1))(x, y)[0],
    "grad of grad": lambda x, y: (
        x * ft.grad(lambda a, b: ft.grad(total, (0, 1))(a, b)[0] @ a, (0, 1))(x, y)[0]
    ),
    "jacfwd": lambda x, y: fnp.diag(ft.jacfwd(product)(x, y)) * x,
    "jacrev": lambda x, y: fnp.diag(ft.jacrev(product)(x, y)) * x,
    "checkpoint": ft.checkpoint(product),
    "cond": lambda x, y: lax.cond(True, product, lambda x, y: x, x, y),
    "cond in jit": ft.jit(lambda x, y: lax.cond(x[0] < 1, product, product, x, y)),
    "closure": ft.jit(lambda x, y: lax.cond(x[0] < 1, lambda a: a * y, abs, x)),
    "switch": lambda x, y: lax.switch(1, [lambda x, y: x, product], x, y),
    "scan": lambda x, y: lax.scan(lambda c, e: (c, e * c), y, x)[1],
    "carry": lambda x, y: lax.scan(
        lambda c, _: ((c[0] * c[1], c[1]), None), (x, y), None, length=1
    )[0][0],
    "while": lambda x, y: lax.while_loop(
        lambda c: c[2] < 1, lambda c: (c[0] * c[1], c[1], c[2] + 1), (x, y, 0)
    )[0],
    "fori": ft.jit(lambda x, y: lax.fori_loop(0, 1, lambda i, c: c * y, x)),
    "custom_jvp": ft.jit(with_jvp),
    "custom_vjp": ft.jit(with_vjp),
}
for _name, _rules in {"custom_jvp": with_jvp, "custom_vjp": with_vjp}.items():
    for _jit in (lambda f: f, ft.jit):
        for _which in (0, (0, 1)):
            PRODUCTS[f"grad of {_name}, {_which}, {_jit.__name__}"] = (
                lambda x, y, f=_rules, jit=_jit, n=_which: (
                    x
                    * fnp.reshape(
                        ft.tree.leaves(
                            jit(ft.grad(lambda a, b: f(a, b).sum(), n))(x, y)
                        )[0],
                        3,
                    )
                )
            )


@pytest.mark.parametrize("way", PRODUCTS)
def test_a_number_beside_float64_keeps_its_bits(way: str) -> None:
    for _ in range(8):
        result = PRODUCTS[way](X, Y)
        assert result.dtype == np.float64
        np.testing.assert_allclose(result, X * Y, rtol=4e-16)


@pytest.mark.parametrize("way", PRODUCTS)
def test_a_number_beside_float32_is_one(way: str) -> None:
    x = X.astype(np.float32)
    for _ in range(8):
        result = PRODUCTS[way](x, Y)
        assert result.dtype == np.float32
        np.testing.assert_allclose(result, x * np.float32(Y), rtol=2e-7)
    assert (ft.jit(product)(x, Y) == x * np.float32(Y)).all()


#: Of x and y, in the names of NumPy's.
FUNCTIONS = """
logaddexp(x, y); logaddexp2(x, y); hypot(x, y); arctan2(x, y); power(x, y)
float_power(x, y); fmod(x, y); remainder(x, y); heaviside(x * 0, y); copysign(x, y)
nextafter(x, y); floor_divide(x, y); divmod(x, y)[1]; where(x > 5, x, y); append(x, y)
full_like(x, y); stack([x[0], y]); clip(x, None, y); interp(y, x, x); outer(x, y)
pad(x, 1, constant_values=y); insert(x, 0, y); quantile(x, y); percentile(x, y)
linspace(x[0], y, 5); geomspace(x[0], y, 5); polyval(x, y); inner(x, y); kron(x, y)
tensordot(x, y, 0); select([x > 1], [x], y); nan_to_num(x * np.inf, posinf=y)
trapezoid(x, dx=y); gradient(x, y); choose(np.array([0, 1, 0]), [x, y])
einsum("i,->i", x, y); fmin(x, y); maximum(x, y); diff(x, append=y); unwrap(x, period=y)
isclose(x, x + y, rtol=y); average(x, weights=x * y); x - y; y / x; x * (1 - y)
x * (y * 0.3); x * (y**2 + 3); x + -y; hstack([x, y]); concatenate([x, np.stack([x[0], y])])
""".replace("\n", ";")  # noqa: E501


@pytest.mark.parametrize("text", [t.strip() for t in FUNCTIONS.split(";") if t.strip()])
def test_functions_of_float64_and_a_number_are_those_of_numpy(text: str) -> None:
    names = {n: getattr(fnp, n) for n in dir(fnp) if n[0] != "_"}
    run = eval(f"lambda x, y: {text}", {**names, "np": np, "divmod": fnp.divmod})
    numpys = {n: getattr(np, n) for n in dir(np) if n[0] != "_"}
    wanted = eval(text, {**numpys, "np": np, "x": X, "y": Y})
    for function, *more in ((run, Y), (ft.jit(run), Y), (ft.jit(lambda x: run(x, Y)),)):
        for _ in range(8):
            got = function(fnp.asarray(X), *more)
            np.testing.assert_allclose(got, wanted, rtol=1e-13, atol=1e-15)


def test_functions_of_scipy_keep_the_bits() -> None:
    xlogy = X * np.log(Y)
    density = np.exp(-0.5 * ((X - Y) / Y) ** 2) / (Y * np.sqrt(2 * np.pi))
    for function, wanted in ((special.xlogy, xlogy), (density_of, density)):
        for run in (function, ft.jit(function)):
            np.testing.assert_allclose(run(X, Y), wanted, rtol=1e-12)


def density_of(x: Any, y: Any) -> Any:
    return stats.norm.pdf(x, y, y)


def test_large_arrays_and_a_number() -> None:
    x = np.linspace(0, 1, 1 << 18)
    for _ in range(12):
        assert (np.asarray(fnp.asarray(x) * Y) == x * Y).all()


def test_a_number_alone_is_a_weak_float32() -> None:
    for result in (
        ft.jit(lambda y: y)(Y),
        ft.vmap(lambda _, y: y, (0, None), None)(X, Y),
    ):
        assert (result.dtype, result.weak_type) == (np.float32, True)
        assert float(result) == np.float32(Y)
    triple = ft.jit(lambda y: y * 3)(Y)
    assert triple == np.float32(Y) * np.float32(3)
    _, both = ft.jit(lambda x, y: (x * y, y))(X, Y)
    assert (both.dtype, both.weak_type) == (np.float32, True)


def test_the_derivative_in_a_number_is_a_float32() -> None:
    for transform in (lambda f: f, ft.jit):
        gradient = transform(ft.grad(lambda x, y: (x * y * y).sum(), 1))(X, Y)
        assert gradient.dtype == np.float32
        np.testing.assert_allclose(gradient, 2 * Y * X.sum(), rtol=1e-6)


def test_numbers_that_float32_does_not_hold() -> None:
    with np.errstate(over="ignore"):
        for y in (1e300, 1e-300, float("inf"), -0.0):
            for _ in range(8):
                assert (ft.jit(product)(X, y) == X * y).all()
            assert (ft.grad(total, (0, 1))(X, y)[0] == y).all()


def test_complex_numbers_keep_their_bits() -> None:
    for x, y in ((X + 0j, Y), (X + 0j, Y + 0.3j), (X, Y + 0.3j)):
        for _ in range(8):
            assert (np.asarray(ft.jit(product)(x, y)) == x * y).all()


def test_integers_do_not_wrap_before_they_meet_int64() -> None:
    x = np.arange(3)
    assert (ft.jit(lambda x, n: x * (n * 4))(x, 2**30) == x * 2**32).all()
    assert (ft.jit(lambda x, n: x * n)(x, 2**40) == x * 2**40).all()
    assert (ft.jit(lambda x, n: x * (n * 4))(x + 0.5, 2**30) == (x + 0.5) * 2**32).all()


def test_one_program_serves_numbers_and_weak_arrays() -> None:
    # A function of its own: what is jitted of `product` shares the traces of others.
    run, weak = ft.jit(lambda x, y: product(x, y)), fnp.sin(Y)
    for _ in range(8):
        assert (run(X, Y) == X * Y).all()
        assert (run(X, weak) == X * float(weak)).all()
    assert run.trace_count == 1


@pytest.mark.parametrize("x64", [True, False])
def test_under_jaxs_own_modes_nothing_changes(x64: bool) -> None:
    with ft.config(enable_x64=x64):
        result = ft.jit(lambda x, y: x * (1 - y))(fnp.asarray(X), Y)
        assert result.dtype == (np.float64 if x64 else np.float32)
        np.testing.assert_allclose(result, X * 0.9, rtol=1e-15 if x64 else 3e-7)


@pytest.mark.parametrize("dtype", ["float64", "complex128", "float32", "float16"])
@pytest.mark.parametrize("value", [[Y], [[Y, 1]], [Y, True, 2], (Y, 0.3), [[Y], [2.5]]])
def test_numbers_in_lists_are_rounded_once(value: Any, dtype: str) -> None:
    wanted = np.array(value, dtype)
    for make in (fnp.array, fnp.asarray):
        for run in (make, lambda v, d, make=make: ft.jit(lambda: make(v, d))()):
            got = np.asarray(run(value, dtype))
            assert got.dtype == wanted.dtype
            assert (got == wanted).all()


@pytest.mark.parametrize(
    "method", ["set", "add", "multiply", "divide", "min", "max", "power", "apply"]
)
def test_what_is_put_into_float64_keeps_its_bits(method: str) -> None:
    for index in (1, slice(1, 3), np.array([0, 2]), X.mean() < X):

        def put(x: Any, y: Any, index: Any = index) -> Any:
            value = (lambda old: old * y) if method == "apply" else y
            return getattr(x.at[index], method)(value)

        numpys = {"set": lambda a, b: b, "min": np.minimum, "max": np.maximum}
        ufunc = numpys.get(method) or getattr(np, method.replace("apply", "multiply"))
        wanted = X.copy()
        wanted[index] = ufunc(X[index], Y)
        for _ in range(8):
            np.testing.assert_allclose(put(fnp.asarray(X), Y), wanted, rtol=4e-16)
        np.testing.assert_allclose(ft.jit(put)(X, Y), wanted, rtol=4e-16)


def test_factors_of_a_log_of_sums_keep_their_bits() -> None:
    wanted = np.log(np.exp(X).sum() * Y)
    for run in (nn.logsumexp, ft.jit(nn.logsumexp)):
        np.testing.assert_allclose(run(X, None, Y), wanted, rtol=0, atol=2e-15)


def test_literals_beside_weak_scalars_keep_their_bits_in_derivatives() -> None:
    def f(y: Any) -> Any:
        return X * (y * 0.1)

    wanted, slope = X * (0.7 * 0.1), X * 0.1
    found = [
        ft.jvp(f, (0.7,), (1.0,)),
        (ft.vjp(f, 0.7)[0], ft.jacfwd(f)(0.7)),
        (ft.linearize(f, 0.7)[0], ft.linearize(f, 0.7)[1](1.0)),
    ]
    for value, tangent in found:
        np.testing.assert_allclose(value, wanted, rtol=1e-15)
        np.testing.assert_allclose(tangent, slope, rtol=1e-15)
    value, gradient = ft.value_and_grad(lambda x, y: (x * (y * 0.1)).sum())(X, 0.7)
    np.testing.assert_allclose(value, wanted.sum(), rtol=1e-15)
    np.testing.assert_allclose(gradient, np.full(3, 0.7 * 0.1), rtol=1e-15)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: fnp.where(True, y, x),
        lambda x, y: fnp.where(np.ones(3) > 0, y, x),
        lambda x, y: fnp.maximum(x, y * 1j + 20),
        lambda x, y: fnp.fmin(x, y * 1j - 20),
        lambda x, y: lax.reduce_window(x * 0, y, lax.add, (1,), (1,), "SAME"),
    ],
)
def test_what_is_chosen_beside_64_bits_keeps_its_bits(f: Any) -> None:
    wanted = np.asarray(f(X, np.array(Y)))
    for _ in range(8):
        np.testing.assert_array_equal(f(X, Y), wanted)
    np.testing.assert_array_equal(ft.jit(f)(X, Y), wanted)
    np.testing.assert_array_equal(ft.jit(lambda x: f(x, Y))(X), wanted)


def test_a_number_is_equal_to_an_array_of_its_bits() -> None:
    for equal in fnp.array_equal, fnp.array_equiv:
        assert equal(np.array(Y), Y)
        assert ft.jit(equal)(np.array(Y), Y)
        assert not equal(np.array(Y), np.float32(Y))


def test_examples_of_closures_tell_no_values() -> None:
    """What a converted function computes of its arguments, it does of those given."""

    def f(x: Any) -> Any:
        converted, consts = ft.closure_convert(lambda y: -x * y, fnp.asarray(1.0))
        return converted(fnp.asarray(2.0), *consts)

    def g(x: Any) -> Any:
        @ft.custom_gradient
        def h(y: Any) -> Any:
            return y * x, lambda ct: ct * x

        return ft.vjp(h, fnp.asarray(3.0))[1](fnp.asarray(2.0))[0]

    for x in (0.25, np.float64(0.25), np.float32(0.25)):
        for transform in (lambda f: f, ft.jit):
            assert transform(f)(x) == -0.5
            assert transform(g)(x) == 0.5

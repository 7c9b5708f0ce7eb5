"""Incomplete, exponential and hypergeometric functions: SciPy's values, derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.errors import DtypeError, ShapeError
from ftrace.scipy import special

scipy_special = pytest.importorskip("scipy.special")

SIZES = np.array([1e-8, 1e-3, 0.04, 0.3, 0.7, 1.0, 1.4, 2.5, 6.0, 12.5, 30.0, 110.0])
SIGNED = np.concatenate([-SIZES[::-1], [0.0], SIZES])
ENDS = np.array([np.inf, np.nan])


def mesh(*grids: Any) -> list[Any]:
    return [x.ravel() for x in np.meshgrid(*grids)]


#: The arguments, the tolerances in float64, and where values of zero size begin.
VALUES: dict[str, tuple[list[Any], float, float]] = {
    "gammainc": (mesh(SIZES, np.append(SIZES, [0.0, np.inf, -1.0])), 3e-13, 1e-300),
    "gammaincc": (mesh(SIZES, np.append(SIZES, [0.0, np.inf, -1.0])), 3e-13, 1e-300),
    "betainc": (
        mesh(SIZES[2:], SIZES[2:], [0.0, 1e-5, 0.2, 0.5, 0.93, 1.0, 1.5]),
        1e-9, 1e-300,
    ),
    "expi": ([np.append(SIGNED, ENDS)], 3e-14, 1e-16),
    "exp1": ([np.append(SIGNED, ENDS)], 3e-14, 1e-300),
    "expn": (mesh([0, 1, 2, 7, 20], np.append(SIZES, 0.0)), 1e-13, 1e-300),
    "sici": ([np.append(SIGNED, ENDS)], 3e-14, 1e-15),
    "fresnel": ([np.append(SIGNED[3:-3], ENDS)], 1e-12, 1e-15),
    "dawsn": ([SIGNED], 3e-13, 1e-300),
    "erfcx": ([np.append(SIGNED, ENDS)], 1e-13, 1e-300),
    "spence": ([np.append(SIGNED, 2.0)], 1e-14, 1e-16),
    "owens_t": (mesh(SIGNED[::3], SIGNED[::2]), 1e-9, 1e-290),
    "hyp1f1": (mesh([-2.0, 0.0, 0.3, 1.0, 4.0], [0.4, 1.0, 3.0], SIGNED), 1e-11, 1e-12),
    "hyp2f1": (
        mesh(
            [-2.0, 0.3, 1.0], [-0.4, 0.5, 2.0], [0.7, 1.0, 3.0],
            [-30.0, -1.0, -0.2, 0.0, 0.4, 0.85, 0.97, 1.0],
        ), 1e-11, 1e-12,
    ),
    "comb": (mesh([0.0, 1.0, 7.0, 30.5], [-1.0, 0.0, 1.0, 3.0, 9.0]), 1e-13, 0.0),
}  # fmt: skip
#: Where our values are a limit, SciPy's NaN or of another branch.
ELSEWHERE = {"spence": lambda x: x == np.inf, "sici": lambda x: x == -np.inf}


def parts(values: Any) -> list[Any]:
    return list(values) if isinstance(values, tuple) else [values]


@pytest.mark.parametrize("name", VALUES)
def test_values_are_those_of_scipy(name: str) -> None:
    arguments, tolerance, least = VALUES[name]
    function, reference = getattr(special, name), getattr(scipy_special, name)
    for kind in (np.float64, np.float32):
        given = [np.asarray(x, kind) for x in arguments]
        limits = np.finfo(kind)
        with np.errstate(all="ignore"):
            wanted = reference(*[x.astype(np.float64) for x in given])
        single = kind == np.float32
        relative = 3e-4 if single else tolerance
        absolute = max(1e-6 if name in ("hyp1f1", "hyp2f1") else 4e-8, least)
        for got, value in zip(parts(function(*given)), parts(wanted), strict=True):
            assert got.dtype == kind
            with np.errstate(over="ignore"):
                value = np.asarray(value).astype(kind)
            got = np.asarray(got)
            huge = np.abs(value) > limits.max / 1e3
            got, value = got[~huge], value[~huge]
            np.testing.assert_allclose(
                got, value, rtol=relative, atol=absolute if single else least
            )


@pytest.mark.parametrize("name", VALUES)
def test_derivatives_are_differences(name: str) -> None:
    points = {
        "gammainc": ([0.6, 3.0, 30.0, 5.0], [1.2, 2.0, 28.0, 20.0]),
        "betainc": ([0.7, 3.0, 30.0], [1.2, 2.0, 25.0], [0.3, 0.9, 0.5]),
        "expn": (None, [0.4, 2.0]),
        "sici": ([0.5, -2.0, 7.0],), "fresnel": ([0.5, -1.5, 3.0],),
        "owens_t": ([0.5, -1.0, 2.0], [0.3, 2.0, -1.5]),
        "hyp1f1": ([0.4, 2.0], [1.3, 3.0], [0.7, -2.0]),
        "hyp2f1": (
            [0.4, 2.0, 0.3], [1.3, 0.2, 0.6], [1.6, 3.0, 1.9], [0.7, -2.0, 0.95],
        ),
        "comb": ([5.5, 9.0], [2.2, 4.0]),
        "expi": ([0.5, -2.0, 50.0],),
    }  # fmt: skip
    points["gammaincc"] = points["gammainc"]
    given = points.get(name, ([0.3, 1.2, 4.0],))
    orders = np.array([1.0, 3.0])
    x = [orders if v is None else np.array(v) for v in given]
    function = getattr(special, name)
    for number, values in enumerate(given):
        if values is None:
            continue

        def total(*xs: Any) -> Any:
            return sum(fnp.sum(v) for v in parts(function(*xs)))

        slope = ft.grad(total, number)(*x)
        step = 1e-5 * np.abs(x[number])
        above, below = list(x), list(x)
        above[number], below[number] = x[number] + step, x[number] - step
        ends = [sum(map(np.asarray, parts(function(*v)))) for v in (above, below)]
        wanted = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(slope, wanted, rtol=1e-5, atol=1e-9)


def test_incomplete_gamma_functions_have_all_second_derivatives() -> None:
    a, x = np.array([0.4, 2.0, 30.0]), np.array([1.3, 1.0, 28.0])
    for first in (0, 1):
        slope = ft.jit(ft.grad(lambda *v: fnp.sum(special.gammainc(*v)), first))
        for second in (0, 1):
            got = ft.grad(lambda *v, f=slope: fnp.sum(f(*v)), second)(a, x)
            step = 1e-5 * (x if second else a)
            moved = [slope(a + (not second) * h, x + second * h) for h in (step, -step)]
            wanted = (np.asarray(moved[0]) - moved[1]) / (2 * step)
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-9)
    tangent = ft.jvp(
        lambda a: ft.jvp(lambda a: lax.igamma(a, x), (a,), (a,))[1], (a,), (a,)
    )[1]
    step = 1e-4 * a
    values = [scipy_special.gammainc(a + h, x) for h in (step, 0, -step)]
    wanted = a * a * (values[0] - 2 * values[1] + values[2]) / step**2
    wanted = wanted + a * (values[0] - values[2]) / (2 * step)
    np.testing.assert_allclose(tangent, wanted, rtol=1e-4)


def test_samples_of_the_gamma_distribution_move_with_their_shape() -> None:
    a = np.array([1e-2, 0.05, 0.9, 5.0, 11.9, 12.1, 300.0, 1e5])
    for probability in (0.1, 0.5, 0.9):
        x = scipy_special.gammaincinv(a, probability)
        got = lax.random_gamma_grad(a, x)
        step = 1e-5 * a
        ends = [scipy_special.gammaincinv(a + h, probability) for h in (step, -step)]
        wanted = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(got, wanted, rtol=2e-6)
        slope = lax.igamma_grad_a(a, x)
        density = np.exp((a - 1) * np.log(x) - x - scipy_special.gammaln(a))
        np.testing.assert_allclose(slope, -density * np.asarray(got), rtol=1e-6)


def test_functions_of_lax_promote_and_broadcast_nothing() -> None:
    one, two = np.ones(3, np.float32), np.ones(3, np.float64)
    with pytest.raises(DtypeError, match="one dtype"):
        lax.igamma(one, two)
    with pytest.raises(DtypeError, match="takes floats"):
        lax.betainc(1, 1, 1)
    with pytest.raises(ShapeError, match="number of axes"):
        lax.zeta(one, one[:, None])
    assert lax.igammac(one, np.float32(2)).dtype == np.float32
    wanted = scipy_special.polygamma(2, 1)
    np.testing.assert_allclose(lax.polygamma(2 * two, two), wanted)
    np.testing.assert_allclose(lax.bessel_i1e(two), scipy_special.i1e(1))


def test_wofz_is_that_of_scipy_in_all_quadrants() -> None:
    generator = np.random.default_rng(0)
    size = 10 ** generator.uniform(-3, 1.5, 300)
    z = size * np.exp(1j * generator.uniform(0, 2 * np.pi, 300))
    z = np.append(z, [0.0, 1e9, 7.8 + 1e-3j, 3.0, -2.0])
    with np.errstate(all="ignore"):
        wanted = scipy_special.wofz(z)
    small = np.abs(wanted) < 1e30
    z, wanted = z[small], wanted[small]
    for kind, bound in ((np.complex128, 1e-12), (np.complex64, 2e-4)):
        exact = scipy_special.wofz(z.astype(kind).astype(np.complex128))
        got = np.asarray(special.wofz(z.astype(kind)))
        assert got.dtype == kind
        np.testing.assert_array_less(np.abs(got - exact), bound * np.abs(exact) + 1e-30)
    np.testing.assert_allclose(special.erfcx(z), scipy_special.erfcx(z), rtol=1e-11)
    assert special.wofz(np.float32(1)).dtype == np.complex64


def test_legendre_functions_are_harmonics_along_a_meridian() -> None:
    angle = np.linspace(0.1, 3, 7)
    z = np.cos(angle)
    degree = np.arange(7)[None, :, None]
    made = special.lpmn_values(6, 6, z, True)
    wanted = scipy_special.sph_harm_y(degree, degree.reshape(-1, 1, 1), angle, 0.0).real
    np.testing.assert_allclose(made, wanted, atol=1e-14)
    values, slopes = ft.jit(special.lpmn, static_argnums=(0, 1))(6, 6, z)
    assert values[2, 4] == pytest.approx(7.5 * (7 * z**2 - 1) * (1 - z**2))
    assert slopes[2, 4] == pytest.approx(30 * z * (4 - 7 * z**2))
    ends = special.lpmn(2, 2, np.array([-1.0, 1.0]))[1]
    assert np.asarray(ends)[::2, 2] == pytest.approx(np.array([[-3, 3], [6, -6]]))
    for wrong in ((2, 3, z), (2, 2, z[None]), (-1, -1, z)):
        with pytest.raises(ValueError, match="lpmn: "):
            special.lpmn(*wrong)


def test_bessel_functions_harmonics_and_bernoulli_numbers() -> None:
    z = np.linspace(-20, 20, 41)
    got = special.bessel_jn(z.reshape(41, 1), v=4)
    assert got.shape == (5, 41, 1)
    wanted = np.stack([scipy_special.jv(k, z) for k in range(5)])
    np.testing.assert_allclose(got[..., 0], wanted, atol=1e-13)
    n, m = mesh(np.arange(7), np.arange(-7, 8))
    theta, phi = np.linspace(-2, np.pi, n.size), np.linspace(0, 6, n.size)
    harmonics = special.sph_harm_y(n, m, theta, phi)
    wanted = scipy_special.sph_harm_y(n, m, theta, phi)
    np.testing.assert_allclose(harmonics, wanted, atol=1e-14)
    compiled = ft.jit(lambda *v: special.sph_harm_y(*v, n_max=6))(n, m, theta, phi)
    np.testing.assert_allclose(compiled, wanted, atol=1e-14)
    with ft.config(enable_x64=True):
        wanted = scipy_special.bernoulli(40)
        np.testing.assert_allclose(special.bernoulli(40), wanted, rtol=1e-11)
        assert special.bernoulli(0).shape == (1,)


def test_16_bit_floats_are_computed_in_float32() -> None:
    x = np.linspace(0.1, 3, 50).astype(np.float16)
    for name in ("gammainc", "hyp1f1", "owens_t", "dawsn", "expi"):
        function, count = getattr(special, name), {"gammainc": 2, "owens_t": 2}
        xs = [x] * (3 if name == "hyp1f1" else count.get(name, 1))
        wanted = np.asarray(function(*[v.astype(np.float32) for v in xs]))
        np.testing.assert_array_equal(function(*xs), wanted.astype(np.float16))


def test_the_gamma_function_of_complex_numbers_has_its_principal_branch() -> None:
    generator = np.random.default_rng(0)
    z = generator.normal(0, 10, 200) + 1j * generator.normal(0, 10, 200)
    z = np.append(z, [-2.5 + 1e-12j, -2.5 - 1e-12j, 3.0, 1e-9j, 200 + 3j])
    for kind, near in ((np.complex128, 1e-13), (np.complex64, 2e-5)):
        given = z.astype(kind)
        wanted = scipy_special.loggamma(given.astype(np.complex128))
        got = special.loggamma(given)
        assert got.dtype == kind
        np.testing.assert_allclose(got, wanted, rtol=near, atol=near)
    np.testing.assert_allclose(special.gamma(z), scipy_special.gamma(z), rtol=1e-12)
    assert np.isnan(special.gamma(np.array([0j, -1 + 0j]))).all()
    np.testing.assert_array_equal(
        special.loggamma(np.array([-1.5, 0.0, 2.0])), [np.nan, np.nan, 0.0]
    )


def test_multigammaln_of_no_rows_has_the_shape_of_a() -> None:
    np.testing.assert_array_equal(special.multigammaln(np.ones(3), 0), np.zeros(3))
    with pytest.raises(DtypeError, match="entr is not defined for complex"):
        special.entr(1j)


def test_a_nan_beside_zero_stays() -> None:
    for function in (special.xlogy, special.xlog1py):
        got = function(np.array([0.0, 0.0, np.nan]), np.array([np.nan, -5.0, 2.0]))
        np.testing.assert_array_equal(got, [np.nan, 0.0, np.nan])
        slopes = ft.grad(function, (0, 1))(0.0, 3.0)
        np.testing.assert_allclose(slopes[1], 0.0)


def test_numbers_without_a_value_are_as_in_scipy() -> None:
    edges = np.array([np.nan, -1.0, 0.0, 1.0, np.inf])
    for name in ("kl_div", "xlogy", "xlog1py"):
        x, y = np.meshgrid(edges, edges)
        wanted = getattr(scipy_special, name)(x, y)
        if name == "kl_div":
            wanted[(x == np.inf) & (y == 1)] = np.inf  # its limit
            wanted[(x == np.inf) & (y < 1)] = np.nan  # as in JAX
        np.testing.assert_allclose(getattr(special, name)(x, y), wanted, err_msg=name)
    assert ft.grad(special.kl_div)(0.0, 1.0) == -1
    assert np.isnan(ft.nn.celu(np.array([0.5, -0.5, 0]), np.nan)).all()


def test_beta_of_a_negative_number_beside_a_large_one() -> None:
    a, b = np.array([-2.5, -0.5, -89.5, -20.5]), np.array([1e10, 1e10, 100.0, 31.0])
    wanted = scipy_special.beta(a, b)
    np.testing.assert_allclose(special.beta(a, b), wanted, rtol=1e-12)
    np.testing.assert_allclose(special.beta(*np.float32([a, b])), wanted, rtol=1e-4)


def test_lists_are_taken_where_jax_takes_them() -> None:
    row = [1.0, 0.6]
    for name, count in (("expn", 2), ("hyp1f1", 3), ("ndtr", 1), ("spence", 1)):
        function = getattr(special, name)
        arrays = [np.asarray(row, np.float32)] * count
        np.testing.assert_array_equal(function(*[row] * count), function(*arrays))
    with pytest.raises(TypeError, match="got list"):
        special.erf(row)

"""Programs written for autograd: its operators, its containers, its rules."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import numpy as onp
import pytest
from scipy import special as scipy_special

from ftrace.compat import autograd
from ftrace.compat.autograd import core, grad, numpy as np, scipy
from ftrace.compat.autograd.builtins import isinstance as isinstance_of
from ftrace.compat.autograd.core import defjvp, defvjp, getval, isbox, primitive, vspace
from ftrace.compat.autograd.misc import flatten, optimizers
from ftrace.compat.autograd.misc.fixed_points import fixed_point
from ftrace.compat.autograd.test_util import check_grads

X = onp.array([1.0, 2.0, 0.5])


def test_outside_of_derivatives_it_is_numpy() -> None:
    for found in (
        np.sin(X),
        np.linalg.inv(onp.eye(2)),
        np.fft.fft(X),
        np.array([1, 2]),
    ):
        assert type(found) is onp.ndarray
    assert type(np.sum(X)) is onp.float64
    assert np.pi == onp.pi
    assert np.random.RandomState(0).randn(2).shape == (2,)


def test_gradients_are_numpys_arrays_of_float64() -> None:
    def loss(x: Any) -> Any:
        assert isbox(x)
        assert isinstance_of(x, onp.ndarray)
        assert type(getval(x)) is onp.ndarray
        return np.sum(np.sin(x) * X) if x[0] > 0 else np.sum(x)

    found = grad(loss)(X)
    assert type(found) is onp.ndarray
    assert found.flags.writeable
    onp.testing.assert_allclose(found, onp.cos(X) * X, 1e-15)
    assert type(grad(np.tanh)(1.0)) is onp.float64
    picked = grad(lambda x: np.sum(x[[0, 1, 0]]))(X)  # a list is an index, as in NumPy
    assert picked.tolist() == [2, 1, 0]
    with pytest.raises(TypeError, match="scalar-output"):
        grad(np.sin)(X)
    with pytest.warns(UserWarning, match="independent"):
        assert grad(lambda x: 3.0)(1.0) == 0


def test_operators_give_what_their_names_say() -> None:
    def cube(x: Any) -> Any:
        return np.sum(x**3)

    onp.testing.assert_allclose(autograd.hessian(cube)(X), onp.diag(6 * X))
    onp.testing.assert_allclose(autograd.jacobian(lambda x: x**2)(X), onp.diag(2 * X))
    onp.testing.assert_allclose(autograd.make_hvp(cube)(X)[0](X), 6 * X**2)
    onp.testing.assert_allclose(autograd.hessian_vector_product(cube)(X, X), 6 * X**2)
    product = autograd.tensor_jacobian_product(lambda x: x**2)
    onp.testing.assert_allclose(product(X, X), 2 * X**2)
    onp.testing.assert_allclose(autograd.make_ggnvp(lambda x: x**2)(X)(X), 4 * X**3)
    onp.testing.assert_allclose(autograd.make_jvp(np.sin)(X)(X)[1], onp.cos(X) * X)
    onp.testing.assert_allclose(autograd.elementwise_grad(np.sin)(X), onp.cos(X))
    assert autograd.deriv(np.sin)(0.0) == autograd.grad_named(cube, "x")(1.0) / 3 == 1
    assert autograd.holomorphic_grad(lambda z: z**2)(1 + 2j) == 2 + 4j
    assert autograd.value_and_grad(cube)(2.0) == (8, 12)
    assert autograd.grad_and_aux(lambda x: (x**2, x + 1))(3.0) == (6, 4)
    assert grad(lambda x, y: x * y, (0, 1))(2.0, 3.0) == (3, 2)
    assert grad(autograd.checkpoint(lambda x, y: x * y**2), 1)(2.0, 3.0) == 12
    found = autograd.multigrad_dict(lambda x, y=2.0: x * y**2)(3.0)
    assert found == {"x": 4, "y": 12}


def test_containers_have_gradients_like_themselves() -> None:
    x = {"w": X, "b": [1.0, (2.0, onp.ones((2, 1)))], "name": "layer"}
    found = grad(lambda p: np.dot(p["w"], X) * p["b"][0] + np.sum(p["b"][1][1]))(x)
    onp.testing.assert_array_equal(found["w"], X)
    assert found["b"][0] == onp.dot(X, X)
    assert found["b"][1][0] == 0
    assert found["name"] == "layer"
    assert found["b"][1][1].tolist() == [[1], [1]]
    assert vspace(x) == vspace(found)
    assert vspace(x).size == 7
    check_grads(lambda p: [np.sin(p["w"]) * p["b"][0], p["b"][1]])(x)


def test_functions_have_the_derivatives_that_are_given() -> None:
    @primitive
    def solve(x: Any, scale: float = 1.0) -> Any:
        assert type(x) is onp.ndarray  # the user's own code sees values
        return onp.array([scale * v**2 for v in x.tolist()])

    with pytest.raises(NotImplementedError, match="VJP of solve wrt argnums"):
        grad(lambda x: np.sum(solve(x)))(X)
    defvjp(solve, lambda ans, x, scale=1.0: lambda g: 2 * scale * x * g)
    defjvp(solve, lambda g, ans, x, scale=1.0: 2 * scale * x * g)
    check_grads(lambda x: solve(x, scale=3.0) * np.sin(x))(X)
    onp.testing.assert_allclose(
        autograd.hessian(lambda x: np.sum(solve(x)))(X), 2 * onp.eye(3)
    )
    root = grad(lambda a: fixed_point(
        lambda a: lambda x: 0.5 * (x + a / x), a, 1.0, lambda x, y: abs(x - y), 1e-12
    ))(2.0)  # fmt: skip
    assert abs(root - 0.5 / onp.sqrt(2)) < 1e-9


@pytest.mark.parametrize("kind", [core.VJPNode, core.JVPNode])
def test_a_function_that_is_registered_so_has_no_derivative(kind: Any) -> None:
    steps = primitive(onp.floor)
    core.register_notrace(kind, steps)
    derive = grad if kind is core.VJPNode else autograd.deriv
    assert derive(lambda x: x * steps(x))(2.5) == 2


def test_scipy_has_derivatives() -> None:
    special, signal = scipy.special, scipy.signal
    for name in ("j0", "y1", "gammaln", "erf", "logsumexp", "expit", "psi", "rgamma"):
        check_grads(getattr(special, name), modes=["rev"])(X + 0.25)
    check_grads(lambda x: special.iv(1.5, x) + special.jn(2, x))(X)
    assert special.jn(2, 1.5) == scipy_special.jn(2, 1.5)
    image, kernel = onp.arange(24.0).reshape(2, 3, 4) ** 2, onp.ones((3, 2, 2)) + X[0]
    found = signal.convolve(image, kernel, ([2], [2]), ([1], [0]), "valid")
    wanted = sum(
        image[:, i, None, k : 3 + k] * kernel[i, :, 1 - k, None]
        for i in range(3) for k in range(2)
    )  # fmt: skip
    onp.testing.assert_allclose(found, wanted)
    for mode in ("full", "same", "valid"):
        found = signal.convolve(X, image[0, 0], mode=mode)
        if mode != "same":
            onp.testing.assert_allclose(found, onp.convolve(X, image[0, 0], mode))
        check_grads(lambda x: signal.convolve(x, X[:2], mode=mode), order=1)(X)  # noqa: B023

    # The third direction has no variance: a point outside has no density.
    normal, flat = scipy.stats.multivariate_normal, onp.diag([2.0, 1.0, 0.0])
    for shift, slope in (0.0, onp.array([0.25, -0.5, 0.0])), (1.0, onp.zeros(3)):
        at = X - onp.array([0.5, -0.5, shift])
        found = grad(lambda x: normal.logpdf(x, X, flat, allow_singular=True))(at)
        onp.testing.assert_allclose(found, slope)
    check_grads(lambda y: normal.pdf(y, cov=onp.eye(3)), modes=["rev"])(X)

    def solve(y: Any, a: Any) -> Any:
        times = onp.array([0.0, 0.3, 0.5])
        return np.sum(scipy.integrate.odeint(lambda y, t, a: -a * y, y, times, (a,)))

    exact = onp.exp(-2 * onp.array([0, 0.3, 0.5]))
    by_y, by_a = grad(solve, (0, 1))(onp.ones(1), 2.0)
    onp.testing.assert_allclose(by_y, [exact.sum()], 1e-6)
    onp.testing.assert_allclose(by_a, -(exact * [0, 0.3, 0.5]).sum(), 1e-6)


def test_the_distribution_functions_of_students_t_have_slopes() -> None:
    for f in (scipy.stats.t.cdf, scipy.stats.t.logcdf):
        check_grads(lambda x, m: f(x, 2.5, m, 1.3), modes=["rev"], order=1)(X, X[:1])  # noqa: B023


def test_whole_numbers_of_a_box_are_those_of_its_value() -> None:
    matrix = onp.array([[3.0, 1.0], [4.0, 1.5]])
    found = grad(lambda x: np.sum(x[np.int64(x[:, 1])]))(matrix)
    onp.testing.assert_array_equal(found, [[0, 0], [2, 2]])
    assert np.int32(2.5).dtype == np.int32


def test_where_autograd_has_conventions_of_its_own() -> None:
    assert grad(np.abs)(0.0) == 0
    assert grad(lambda x: np.mean([x, x + 2]))(0.0) == 1
    matrix = onp.array([[2.0, 9.0], [1.0, 3.0]])  # the lower triangle counts
    slope = grad(lambda a: np.sum(np.linalg.eigvalsh(a)))(matrix)
    onp.testing.assert_allclose(slope, onp.eye(2), atol=1e-14)
    check_grads(lambda x: np.r_[x, 1.0, x], order=1)(X)
    with pytest.raises(NotImplementedError, match=r"VJP of numpy\.random"):
        grad(lambda x: np.random.normal(x))(1.0)


@pytest.mark.parametrize("name", ["sgd", "rmsprop", "adam"])
def test_optimizers_go_down(name: str) -> None:
    start = {"a": X, "b": 2.0}
    seen: list[int] = []

    def loss(p: Any, i: int) -> Any:
        return np.sum((p["a"] - 1) ** 2) + p["b"] ** 2

    optimize = getattr(optimizers, name)
    end = optimize(grad(loss), start, lambda p, i, g: seen.append(i), 60, 0.05)
    assert seen == list(range(60))
    assert loss(end, 0) < 0.3 * loss(start, 0)
    flat, unflatten = flatten(start)
    assert flat.tolist() == [1, 2, 0.5, 2]
    assert unflatten(flat)["b"] == 2


def test_a_program_runs_unmodified() -> None:
    program = """
import warnings; warnings.simplefilter("error")
from ftrace.compat import install_as_autograd
install_as_autograd(); install_as_autograd()
import autograd.numpy as np
import autograd.scipy.stats.norm as norm
from autograd.scipy.stats import multivariate_normal as mvn
from autograd import grad
from autograd.misc.optimizers import adam
from autograd.numpy.linalg import solve
print(round(grad(norm.logpdf)(1.0, 0.0, 1.0), 3), np.__name__)
assert grad(lambda x: np.sum(x[[0, 0]]))(np.ones(2)).tolist() == [2, 0]  # NumPy's
try:
    import autograd.nothing
except ModuleNotFoundError as error:
    assert "from-autograd.md" in str(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "-1.0 ftrace.compat.autograd.numpy\n"


def test_nothing_warns_without_reason() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        autograd.hessian(lambda x: np.sum(x) * x[0])(X)

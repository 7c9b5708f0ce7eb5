"""Linear algebra on the host: laws of each operation, JAX's values, programs."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors, lax
from ftrace.scipy import linalg, signal
from ftrace.test_util import check_grads
from ftrace.trace.bind import bind_compound
from ftrace.trace.primitives.library import lapack_numpy
from ftrace.trace.primitives.library.factors import eig_p
from ftrace.trace.primitives.primitive import Compound
from tests.data.linalg_cases import expressions
from tests.support.covering import covering
from tests.support.library_op_samples import MODULES, SAMPLES, Sample
from tests.support.linalg_cases import check
from tests.support.refusals import refuses

CASES = [
    pytest.param(sample, kind == "c", id=f"{sample.name}-{kind}-{i}")
    for i, sample in enumerate(SAMPLES)
    for kind in sample.kinds
]
#: Rules without which factorisations in programs are calls of the host.
BY_HOST = {"call_lapack", "factor_small"}
#: One sample per operation and dtype.
FIRST = list({(c.values[0].op, c.values[1]): c for c in reversed(CASES)}.values())


def apply(sample: Sample, *operands: Any) -> list[Any]:
    return bind_compound(sample.op, *sample.prepare(*operands), arg=sample.arg)


def operands_of(sample: Sample, is_complex: bool, *lead: int) -> list[Any]:
    return sample.operands(np.random.default_rng(7), lead, is_complex)


def needs(sample: Sample) -> None:
    if sample.scipy:
        pytest.importorskip("scipy")


def test_every_operation_has_a_sample() -> None:
    ours = {
        value
        for module in MODULES
        for value in vars(module).values()
        if isinstance(value, Compound) and value.family == "host"
    }
    assert ours == {sample.op for sample in SAMPLES}


# Laws.


@pytest.mark.parametrize(("sample", "is_complex"), CASES)
@pytest.mark.parametrize("lead", [(), (2,), (2, 1)], ids=str)
def test_results_are_what_they_mean(
    sample: Sample, is_complex: bool, lead: tuple[int, ...]
) -> None:
    needs(sample)
    operands = operands_of(sample, is_complex, *lead)
    results = apply(sample, *operands)
    for difference in sample.meaning(*operands, *results):
        np.testing.assert_allclose(difference, 0, atol=1e-9)


@pytest.mark.parametrize(("sample", "is_complex"), CASES)
def test_derivatives_are_differences(sample: Sample, is_complex: bool) -> None:
    if sample.seen is None:
        assert sample.op.no_derivative
        return
    needs(sample)
    seen = sample.seen
    with ft.disable_jit():  # the rules; that a program gives the same is asked below
        check_grads(
            lambda *x: seen(*apply(sample, *x)),
            tuple(operands_of(sample, is_complex, 2)),
            sample.order,
            atol=2e-5,
            rtol=2e-5,
        )


@pytest.mark.parametrize(("sample", "is_complex"), FIRST)
def test_what_has_no_derivative_says_so(sample: Sample, is_complex: bool) -> None:
    operands = operands_of(sample, is_complex)
    inexact = [i for i, x in enumerate(operands) if x.dtype.kind in "fc"]
    if not sample.op.no_derivative or not inexact:
        return
    needs(sample)
    with pytest.raises(errors.DerivativeError, match=sample.op.name):
        ft.jvp(lambda *x: apply(sample, *x), tuple(operands), tuple(operands))


@pytest.mark.parametrize(("sample", "is_complex"), CASES)
def test_vmap_is_a_loop(sample: Sample, is_complex: bool) -> None:
    needs(sample)
    batched = operands_of(sample, is_complex, 3)
    for flags in itertools.product((False, True), repeat=len(batched)):
        if not any(flags):
            continue
        operands = [x if f else x[0] for x, f in zip(batched, flags, strict=True)]
        in_axes = tuple(0 if f else None for f in flags)
        got = ft.vmap(lambda *x: apply(sample, *x), in_axes)(*operands)
        for i in range(3):
            lane = [x[i] if f else x for x, f in zip(operands, flags, strict=True)]
            for result, want in zip(got, apply(sample, *lane), strict=True):
                np.testing.assert_allclose(result[i], want, rtol=1e-8, atol=1e-10)


@covering(
    1,
    {
        ("sample", "is_complex"): [row.values for row in FIRST],
        ("device", "wide"): [
            ("cpu", False), ("cpu", True), ("interpreter", True), ("cpu", False),
            ("cpu", True), ("opencl", False),
        ],
    },
)  # fmt: skip
def test_a_program_gives_what_the_operation_gives(
    sample: Sample, is_complex: bool, wide: bool, device: Any
) -> None:
    """In the middle of a program, with work before and after it."""
    needs(sample)
    operands = [
        x if x.dtype.kind == "i" or wide else x.astype("c8" if is_complex else "f4")
        for x in operands_of(sample, is_complex, 2)
    ]
    full = [np.asarray(x) for x in sample.prepare(*operands)]

    def function(*x: Any) -> list[Any]:
        doubled = [y * 2 if y.dtype.kind in "fc" else y for y in x]
        results = bind_compound(sample.op, *doubled, arg=sample.arg)
        return [*results, *(r + 1 for r in results)]

    with ft.disable_jit():
        want = function(*full)
    got = ft.jit(function)(*full)
    tolerance = 1e-9 if wide else 1e-3
    for result, expected in zip(got, want, strict=True):
        assert result.dtype == expected.dtype
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("sample", "is_complex"), FIRST)
def test_the_gradient_is_a_program(sample: Sample, is_complex: bool) -> None:
    if sample.seen is None:
        return
    needs(sample)
    seen = sample.seen
    operands = operands_of(sample, is_complex, 2)

    def loss(*x: Any) -> Any:
        return sum(fnp.sum(fnp.abs(y) ** 2) for y in seen(*apply(sample, *x)))

    gradient = ft.grad(loss, argnums=tuple(range(len(operands))))
    with ft.disable_jit():
        want = gradient(*operands)
    for got, expected in zip(ft.jit(gradient)(*operands), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("sample", "is_complex"), FIRST)
def test_gradient_in_single_precision(sample: Sample, is_complex: bool) -> None:
    if sample.seen is None:
        return
    needs(sample)
    seen = sample.seen
    wide = operands_of(sample, is_complex, 2)
    narrow = [x.astype("c8" if is_complex else "f4") for x in wide]

    def loss(*x: Any) -> Any:
        return sum(fnp.sum(fnp.abs(y) ** 2) for y in seen(*apply(sample, *x)))

    gradient = ft.grad(loss, argnums=tuple(range(len(wide))))
    with ft.disable_jit():
        wanted = gradient(*wide)
    for got, expected in zip(gradient(*narrow), wanted, strict=True):
        assert got.dtype == ("complex64" if is_complex else "float32")
        scale = 1 + float(np.abs(expected).max())
        np.testing.assert_allclose(got, expected, rtol=1e-2, atol=1e-3 * scale)


@pytest.mark.parametrize(("sample", "is_complex"), CASES)
def test_numpy_alone_gives_the_same(
    sample: Sample, is_complex: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    operands = operands_of(sample, is_complex, 2)
    if not sample.scipy:
        want = apply(sample, *operands)
    monkeypatch.setattr(lapack_numpy, "scipy_linalg", lambda: None)
    if sample.scipy:
        with pytest.raises(errors.MissingExtraError, match=r"ftrace\[scipy\]"):
            apply(sample, *operands)
        return
    found = apply(sample, *operands)
    for difference in sample.meaning(*operands, *found):
        np.testing.assert_allclose(difference, 0, atol=1e-9)
    for result, expected in zip(found, want, strict=True):
        if sample.op is eig_p:  # LAPACK leaves open the sign of a vector
            result, expected = abs(result), abs(expected)
        np.testing.assert_allclose(result, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("sample", "is_complex"), CASES)
@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_no_value_raises(sample: Sample, is_complex: bool, value: float) -> None:
    """NaN, infinity and zeros: what cannot be factorised is not finite, or is zero."""
    needs(sample)
    operands = sample.prepare(*operands_of(sample, is_complex, 2))
    bad = [
        np.asarray(x) if np.asarray(x).dtype.kind == "i" else np.full_like(x, value)
        for x in operands
    ]
    results = bind_compound(sample.op, *bad, arg=sample.arg)
    if np.isnan(value) and sample.op.name not in ("permutation", "householder_factor"):
        assert any(np.isnan(np.asarray(r)).any() for r in results)


@pytest.mark.parametrize(("sample", "is_complex"), CASES)
def test_a_batch_of_none_has_no_results(sample: Sample, is_complex: bool) -> None:
    needs(sample)
    operands = operands_of(sample, is_complex, 0)
    few = apply(sample, *operands_of(sample, is_complex, 1))
    for result, one in zip(apply(sample, *operands), few, strict=True):
        assert result.shape == (0, *one.shape[1:])
        assert result.dtype == one.dtype


@pytest.mark.parametrize(("sample", "is_complex"), FIRST)
def test_dtypes_that_lapack_lacks_are_named(sample: Sample, is_complex: bool) -> None:
    operands = sample.prepare(*operands_of(sample, is_complex, 2))
    narrow = [fnp.asarray(np.asarray(x).real.astype("f2")) for x in operands]
    with pytest.raises((errors.DtypeError, errors.ShapeError), match=r"float32|int32"):
        bind_compound(sample.op, *narrow, arg=sample.arg)


# Values of JAX.


@pytest.mark.parametrize("section", ["numpy", "lax", "scipy", "derivatives"])
def test_values_are_those_of_jax(section: str) -> None:
    pytest.importorskip("scipy")
    wrong: list[str] = []
    for expression in expressions(section):
        try:
            check(expression)
        except (AssertionError, errors.FtraceError, pytest.fail.Exception) as error:
            wrong.append(f"{expression}: {error}"[:400])
    assert not wrong, "\n".join(wrong)


# Programs.


def gaussian_process(x: Any, y: Any, length: Any) -> Any:
    """The logarithm of the marginal likelihood."""
    gaps = x[:, None] - x[None, :]
    kernel = fnp.exp(-(gaps**2) / (2 * length**2)) + 0.1 * np.eye(x.shape[0])
    factor = linalg.cholesky(kernel, lower=True)
    weights = linalg.cho_solve((factor, True), y)
    return -0.5 * y @ weights - fnp.sum(fnp.log(fnp.diagonal(factor)))


def test_gaussian_process_and_its_gradient(device: Any) -> None:
    x = np.linspace(0, 3, 12)
    y = np.sin(x)
    value, slope = ft.jit(ft.value_and_grad(gaussian_process, argnums=2))(
        x, y, np.float64(0.7)
    )
    kernel = np.exp(-((x[:, None] - x) ** 2) / (2 * 0.7**2)) + 0.1 * np.eye(12)
    sign, size = np.linalg.slogdet(kernel)
    want = -0.5 * y @ np.linalg.solve(kernel, y) - 0.5 * size
    assert sign == 1
    np.testing.assert_allclose(value, want, rtol=1e-9)
    higher, lower = (gaussian_process(x, y, 0.7 + e) for e in (1e-6, -1e-6))
    np.testing.assert_allclose(slope, (higher - lower) / 2e-6, rtol=1e-5)


def test_factorisation_inside_a_loop(device: Any) -> None:
    """Newton's iteration for the square root of a matrix."""
    a = np.array([[4.0, 1, 0], [1, 3, 1], [0, 1, 5]])

    def step(_: Any, x: Any) -> Any:
        return (x + fnp.linalg.solve(x, a)) / 2

    root = ft.jit(lambda x: lax.fori_loop(0, 20, step, x))(np.eye(3))
    np.testing.assert_allclose(root @ root, a, atol=1e-10)


def test_gradient_through_a_scan_of_factorisations() -> None:
    """A Kalman filter: derivatives through a solve per step, against differences."""
    rng = np.random.default_rng(0)
    turn, noise = rng.standard_normal((3, 3)) * 0.5, np.eye(3)
    seen = rng.standard_normal((4, 3))

    def likelihood(turn: Any) -> Any:
        def step(carry: Any, y: Any) -> Any:
            mean, cov = carry
            mean, cov = turn @ mean, turn @ cov @ turn.T + noise
            total = cov + noise
            gain = fnp.linalg.solve(total, cov).T
            rest = y - mean
            score = rest @ fnp.linalg.solve(total, rest) + fnp.linalg.slogdet(total)[1]
            return (mean + gain @ rest, cov - gain @ cov), score

        _, scores = lax.scan(step, (np.zeros(3), np.eye(3)), seen)
        return fnp.sum(scores)

    check_grads(likelihood, (turn,), 1)
    compiled = ft.jit(ft.grad(likelihood))(turn)
    np.testing.assert_allclose(compiled, ft.grad(likelihood)(turn), rtol=1e-9)


def test_branch_with_a_factorisation(device: Any) -> None:
    a = np.array([[4.0, 1], [1, 3]])
    function = ft.jit(
        lambda flag, x: lax.cond(flag, fnp.linalg.cholesky, fnp.linalg.inv, x)
    )
    np.testing.assert_allclose(function(True, a), np.linalg.cholesky(a), rtol=1e-12)
    np.testing.assert_allclose(function(False, a), np.linalg.inv(a), rtol=1e-12)


def test_solve_uses_one_factorisation_for_value_and_gradient() -> None:
    counted: list[int] = []
    original = lapack_numpy.lu

    def counting(a: Any) -> Any:
        counted.append(1)
        return original(a)

    def loss(a: Any, b: Any) -> Any:
        return fnp.sum(fnp.linalg.solve(a, b) ** 2)

    a, b = np.eye(3) + 0.1, np.ones(3)
    function = ft.jit(ft.value_and_grad(loss, argnums=(0, 1)))
    kernels = function.lower(a, b).program.kernels
    assert [step.info.name for step in kernels].count("lu_3x3") == 1
    with pytest.MonkeyPatch.context() as patch, ft.config(disabled_rules=BY_HOST):
        patch.setattr(lapack_numpy, "lu", counting)
        function(a, b)
    assert len(counted) == 1


def test_one_matrix_solves_for_all_lanes_at_once() -> None:
    calls: list[tuple[int, ...]] = []
    original = lapack_numpy.solve_lu

    def counting(factors: Any, order: Any, b: Any, *flags: bool) -> Any:
        calls.append(b.shape)
        return original(factors, order, b, *flags)

    a, b = np.eye(3) + 0.1, np.arange(30.0).reshape(10, 3)
    with pytest.MonkeyPatch.context() as patch, ft.config(disabled_rules=BY_HOST):
        patch.setattr(lapack_numpy, "solve_lu", counting)
        got = ft.vmap(lambda b: fnp.linalg.solve(a, b))(b)
    np.testing.assert_allclose(got, np.linalg.solve(a, b.T).T)
    assert calls == [(3, 10)]


def test_a_matrix_that_fails_leaves_the_others(device: Any) -> None:
    stack = np.stack([np.eye(3), -np.eye(3), 4 * np.eye(3)])
    got = np.asarray(ft.jit(fnp.linalg.cholesky)(stack))
    np.testing.assert_array_equal(got[[0, 2]], np.linalg.cholesky(stack[[0, 2]]))
    assert np.isnan(np.diagonal(got[1])).all()
    assert (np.triu(got[1], 1) == 0).all()


def test_overflow_in_a_program_is_no_warning(device: Any) -> None:
    assert ft.jit(fnp.linalg.det)(1e200 * np.eye(5)) == np.inf


@pytest.mark.parametrize("scale", [0.1, 1, 10, 100])
def test_exponential_in_both_precisions(scale: float) -> None:
    """Of a rotation, to as many digits as the norm leaves."""
    angle = np.array([[0, -scale, 0], [scale, 0, 0], [0, 0, -1]])
    c, s = np.cos(scale), np.sin(scale)
    want = np.array([[c, -s, 0], [s, c, 0], [0, 0, np.exp(-1)]])
    for dtype in (np.float32, np.float64):
        got = linalg.expm(angle.astype(dtype))
        tolerance = 20 * max(scale, 1) * np.finfo(dtype).eps
        assert got.dtype == dtype
        np.testing.assert_allclose(got, want, atol=tolerance)


def test_singular_systems_are_not_finite() -> None:
    singular = np.array([[1.0, 2], [2, 4]])
    assert not np.isfinite(fnp.linalg.solve(singular, np.array([1.0, 3]))).any()
    assert not np.isfinite(fnp.linalg.inv(singular)).any()
    assert fnp.linalg.det(singular) == 0
    sign, size = fnp.linalg.slogdet(np.zeros((3, 3)))
    assert (sign, size) == (0, -np.inf)


def test_determinant_of_a_singular_matrix_has_a_gradient() -> None:
    a = np.diag([1.0, 2, 3, 0])
    np.testing.assert_allclose(ft.grad(fnp.linalg.det)(a), np.diag([0.0, 0, 0, 6]))
    np.testing.assert_allclose(ft.grad(fnp.linalg.det)(np.zeros((4, 4))), 0)


@pytest.mark.parametrize("gap", [0.0, 1e-17, 1e-12, 1e-6, 1.0])
def test_gradient_of_a_determinant_is_exact_near_singular_matrices(gap: float) -> None:
    a = np.array([[1.0, 2, 3], [2, 4, 6 + gap], [1, 1, 5]])
    minors = [
        [
            (-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1))
            for j in range(3)
        ]
        for i in range(3)
    ]
    found = ft.jit(ft.grad(fnp.linalg.det))(a)
    np.testing.assert_allclose(found, minors, rtol=1e-12, atol=1e-12)
    batch = ft.grad(lambda x: fnp.linalg.det(x).sum())(np.stack([a, np.zeros_like(a)]))
    np.testing.assert_allclose(batch, [minors, np.zeros((3, 3))], atol=1e-12)


def test_factors_of_matrices_that_are_not_square() -> None:
    a = np.arange(6.0).reshape(3, 2)
    factors, pivots = ft.scipy.linalg.lu_factor(a)
    np.testing.assert_allclose(factors, [[4, 5], [0, 1], [0.5, 0.5]])
    assert pivots.tolist() == [2, 2]


def test_namedtuples_have_jaxs_fields() -> None:
    a = np.eye(2)
    found = {
        "eigh": fnp.linalg.eigh(a),
        "eig": fnp.linalg.eig(a),
        "qr": fnp.linalg.qr(a),
        "slogdet": fnp.linalg.slogdet(a),
        "svd": fnp.linalg.svd(a),
    }
    assert {name: value._fields for name, value in found.items()} == {
        "eigh": ("eigenvalues", "eigenvectors"),
        "eig": ("eigenvalues", "eigenvectors"),
        "qr": ("Q", "R"),
        "slogdet": ("sign", "logabsdet"),
        "svd": ("U", "S", "Vh"),
    }


def test_generalised_eigenvalues() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 3, 3))
    a, b = a + a.T, b @ b.T + np.eye(3)
    products = {1: lambda v: b @ v, 2: lambda v: v, 3: lambda v: v}
    images = {1: lambda v: a @ v, 2: lambda v: a @ b @ v, 3: lambda v: b @ a @ v}
    for kind in (1, 2, 3):
        w, v = linalg.eigh(a, b, type=kind)
        v = np.asarray(v)
        np.testing.assert_allclose(images[kind](v), products[kind](v) * np.asarray(w))
    check_grads(lambda a, b: linalg.eigh((a + a.T) / 2, b @ b.T)[0], (a, b), 1)


@pytest.mark.parametrize("order", ["fro", "nuc", 2, -2, 1, -1, np.inf, -np.inf])
def test_norms_of_matrices_have_derivatives(order: Any) -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 4))
    got = fnp.linalg.norm(x, order, axis=(1, 2))
    np.testing.assert_allclose(got, np.linalg.norm(x, order, axis=(1, 2)), rtol=1e-12)
    check_grads(lambda x: fnp.linalg.norm(x, order, axis=(1, 2)), (x,), 2)


def test_derivatives_of_second_order_in_a_batch(device: Any) -> None:
    """The Hessian of log|det| is -a⁻¹ ⊗ a⁻¹."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((2, 3, 3)) + 3 * np.eye(3)
    hessian = ft.hessian(lambda a: fnp.linalg.slogdet(a)[1])
    inverse = np.linalg.inv(a)
    want = -np.einsum("bjk,bli->bijkl", inverse, inverse)
    np.testing.assert_allclose(ft.jit(ft.vmap(hessian))(a), want, rtol=1e-8, atol=1e-9)


def test_lanes_factorise_as_long_as_they_need(device: Any) -> None:
    """A loop of systems, in which each lane has its own number of steps."""
    stack = np.stack([np.eye(3) * scale for scale in (1.5, 20, 3)])

    def shrink(x: Any) -> Any:
        halve = lambda x: fnp.linalg.solve(2 * np.eye(3), x)  # noqa: E731
        return lax.while_loop(lambda x: fnp.linalg.norm(x, 2) > 1, halve, x)

    got = ft.jit(ft.vmap(shrink))(stack)
    want = [np.eye(3) * scale for scale in (0.75, 0.625, 0.75)]
    np.testing.assert_allclose(got, want)


# Bad input.


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: fnp.linalg.cholesky(x), errors.ShapeError, "square matrices"),
        (lambda x: fnp.linalg.cholesky(x[0]), errors.ShapeError, "last two axes"),
        (lambda x: fnp.linalg.qr(x, "q"), errors.ValueRangeError, "'reduced'"),
        (lambda x: fnp.linalg.svd(x, subset_by_index=(0, 1)), errors.ValueRangeError,
         "full_matrices=False"),
        (lambda x: fnp.linalg.svd(x, False, subset_by_index=(1, 5)),
         errors.ValueRangeError, "within the 2 singular values"),
        (lambda x: fnp.linalg.eigh(x, "X"), errors.ValueRangeError, "'L' or 'U'"),
        (lambda x: fnp.linalg.solve(x[:, :2], x.T), errors.ShapeError, "b must be"),
        (lambda x: fnp.linalg.cond(x[:0]), errors.ShapeError, "empty"),
        (lambda x: fnp.linalg.lstsq(x[None], x), errors.ShapeError, "vmap"),
        (lambda x: fnp.linalg.pinv(x, 0.1, rcond=0.1), errors.ValueRangeError, "one"),
        (lambda x: fnp.linalg.pinv(fnp.asarray(x, "bfloat16")), errors.DtypeError,
         "float32"),
        (lambda x: fnp.linalg.slogdet(x[:, :2], method="x"), errors.ValueRangeError,
         "'lu' or 'qr'"),
        (lambda x: fnp.linalg.tensorinv(x, ind=0), errors.ValueRangeError, "least 1"),
        (lambda x: fnp.linalg.tensorsolve(x, x), errors.ShapeError, "product"),
        (lambda x: lax.linalg.triangular_solve(x, x), errors.ShapeError, "square"),
        (lambda x: lax.linalg.triangular_solve(x[:, :2], x.astype("f4")),
         errors.DtypeError, "differ in dtype"),
        (lambda x: lax.linalg.schur(x, sort_eig_vals=True), NotImplementedError,
         "sorted"),
        (lambda x: linalg.solve(x, x, assume_a="x"), errors.ValueRangeError, "'her'"),
        (lambda x: linalg.solve_triangular(x[:, :2], x, trans=3),
         errors.ValueRangeError, "'T'"),
        (lambda x: linalg.hadamard(3), errors.ValueRangeError, "power of two"),
        (lambda x: ft.linear_transpose(fnp.linalg.inv, x[:, :2])(x[:, :2]),
         errors.DerivativeError, "not linear"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call: Any, error: type[Exception], message: str) -> None:
    with refuses(error, message):
        call(np.ones((2, 3)))


@pytest.mark.parametrize("scipy", [True, False], ids=["scipy", "numpy"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (2, 3, 7, 7), (40, 40)])
def test_both_kinds_of_eigenvectors_belong_to_the_values(
    shape: tuple[int, ...], dtype: str, scipy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not scipy:
        monkeypatch.setattr(lapack_numpy, "scipy_linalg", lambda: None)
    random = np.random.default_rng(0)
    a = random.standard_normal(shape) + 1j * random.standard_normal(shape)
    a = (a if dtype.startswith("complex") else a.real).astype(dtype)
    with ft.config(enable_x64=True):
        found = [np.asarray(part) for part in eig_p_of(a)]
    values, left, right = found
    assert {part.dtype for part in found} == {np.result_type(dtype, np.complex64)}
    tolerance = 1e-3 if values.dtype == np.complex64 else 1e-9
    for matrix, vectors, w in (
        (a, right, values),
        (a.conj().swapaxes(-1, -2), left, values.conj()),
    ):
        scaled = vectors * w[..., None, :]
        np.testing.assert_allclose(matrix @ vectors, scaled, atol=tolerance)
        lengths = np.linalg.norm(vectors, axis=-2)
        np.testing.assert_allclose(lengths, np.ones(lengths.shape), atol=1e-5)


def test_eigenvectors_of_what_is_not_finite_are_nan() -> None:
    a = np.random.default_rng(0).standard_normal((2, 4, 4)).astype(np.float32)
    a[0, 1, 2] = np.nan
    for part in eig_p_of(a):
        assert np.isnan(np.asarray(part)[0]).all()
        assert np.isfinite(np.asarray(part)[1]).all()


def eig_p_of(a: Any) -> Any:
    return bind_compound(eig_p, fnp.asarray(a))


@covering(
    1,
    {
        ("m", "n", "k"): [
            (5000, 20, 1), (4097, 20, 30), (700, 30, 2), (40, 20, 3), (10, 20, 3),
            (2, 1, 0),
        ],
    },
    dtype=["float32", "float64", "complex64", "complex128"],
)  # fmt: skip
def test_least_squares_of_tall_matrices(dtype: str, m: int, n: int, k: int) -> None:
    """By blocks of rows, by squares in 64 bits or by singular vectors: the same."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((m, n)).astype(dtype)
    if dtype.startswith("complex"):
        a = (a + 1j * rng.standard_normal((m, n))).astype(dtype)
    b = rng.standard_normal((m, k)).astype(dtype)
    same = np.array(a)
    same[:, -1] = 2 * same[:, 0]  # of a lower rank, if there are two columns
    eps = float(np.finfo(dtype).eps)
    jitted = ft.jit(fnp.linalg.lstsq)
    for x in (a, same):
        wide = x.astype(np.result_type(x, np.float64))
        want = np.linalg.lstsq(wide, b, rcond=max(m, n) * eps)
        with ft.config(enable_x64=True):
            for function in (fnp.linalg.lstsq, jitted):
                found, _, rank, values = map(np.asarray, function(x, b))
                assert found.dtype == a.dtype
                assert rank == want[2]
                np.testing.assert_allclose(found, want[0], rtol=0, atol=500 * eps)
                error = 30 * eps * want[3].max()
                np.testing.assert_allclose(values, want[3], rtol=0, atol=error)


@pytest.mark.parametrize("condition", [1e3, 1e6])
def test_least_squares_of_nearly_dependent_columns(condition: float) -> None:
    """Squares lose half of the digits: 64 bits of them are more than 32 bits hold."""
    rng = np.random.default_rng(1)
    q, _ = np.linalg.qr(rng.standard_normal((600, 5)))
    p, _ = np.linalg.qr(rng.standard_normal((5, 5)))
    a = (q * np.geomspace(1, 1 / condition, 5)) @ p
    a = a.astype(np.float32)
    b = (a.astype(np.float64) @ np.ones(5)).astype(np.float32)
    want = np.linalg.lstsq(a.astype(np.float64), b.astype(np.float64))[0]
    found, _, rank, values = fnp.linalg.lstsq(a, b, rcond=1e-7)
    assert int(rank) == 5
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-8 * condition)
    exact = np.linalg.svd(a.astype(np.float64), compute_uv=False)
    np.testing.assert_allclose(values, exact, rtol=0, atol=1e-7)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_least_squares_of_what_is_not_finite_is_nan(value: float, dtype: str) -> None:
    a = np.random.default_rng(2).standard_normal((600, 4)).astype(dtype)
    a[300, 2] = value
    with ft.config(enable_x64=True):
        found, _, _, values = fnp.linalg.lstsq(a, np.ones(600, dtype))
    assert np.isnan(found).all()
    assert np.isnan(values).all()


def test_a_trace_adds_in_the_dtype_asked_for_as_a_sum() -> None:
    x = np.array([[0.5, 1.0], [1.0, -0.5]], np.float32)
    for dtype in (None, bool, "int8", "float16"):
        wanted = fnp.sum(fnp.asarray(np.diagonal(x)), dtype=dtype)
        for function in (fnp.trace, fnp.linalg.trace):
            trace = partial(function, dtype=dtype)
            for found in (trace(x), ft.jit(trace)(x)):
                assert (found.dtype, found.item()) == (wanted.dtype, wanted.item())


def test_elements_that_are_moved_do_not_spread_nan() -> None:
    below = np.array([np.nan, np.inf])
    found = np.array(ft.scipy.linalg.leslie(np.ones(3), below))
    np.testing.assert_array_equal(found[1:], [[np.nan, 0, 0], [0, np.inf, 0]])


def test_a_factor_takes_in_a_vector_with_all_its_parts() -> None:
    r, w = np.eye(3, dtype=np.float32) * 2, np.array([1j, 0, 1], np.complex64)
    s = np.asarray(lax.linalg.cholesky_update(r, w))
    assert np.allclose(s.conj().T @ s, r.T @ r + np.outer(w, w.conj()))


def test_matrices_of_no_elements_have_none() -> None:
    none, three = np.zeros(0, np.float32), np.ones(3, np.float32)
    for call in (lambda f: f, ft.jit):
        assert call(linalg.circulant)(none).shape == (0, 0)
        assert call(linalg.hankel)(none).shape == (0, 0)
        assert call(linalg.hankel)(three, none).shape == (3, 0)
        assert call(linalg.hankel)(none, three).shape == (0, 3)
    right = np.zeros((0, 1), np.float32)
    solve = lax.linalg.tridiagonal_solve
    for made in ft.jvp(solve, (none, none, none, right), (none, none, none, right)):
        assert made.shape == (0, 1)
    gradients = ft.grad(lambda *a: solve(*a).sum(), argnums=(0, 3))(
        none, none, none, right
    )
    assert [g.shape for g in gradients] == [(0,), (0, 1)]


@pytest.mark.parametrize("is_complex", [False, True])
def test_products_of_reflections_are_those_of_their_matrices(is_complex: bool) -> None:
    rng = np.random.default_rng(3)
    a, taus, c = (
        rng.normal(size=shape) + 1j * is_complex * rng.normal(size=shape)
        for shape in ((2, 5, 3), (2, 3), (2, 5, 2))
    )
    taus[1, 1] = 0
    with ft.enable_x64():
        a, taus, c = (x if is_complex else x.real for x in (a, taus, c))
        for i in range(2):
            q = np.eye(5)
            for k in range(3):
                v = np.r_[np.zeros(k), 1, a[i, k + 1 :, k]]
                q = q @ (np.eye(5) - taus[i, k] * np.outer(v, v.conj()))
            first = lax.linalg.householder_product(a, taus)[i]
            np.testing.assert_allclose(first, q[:, :3], atol=1e-13)
            for way, op in ((False, q), (True, q.conj().T)):
                found = lax.linalg.ormqr(a, taus, c, transpose=way)[i]
                np.testing.assert_allclose(found, op @ c[i], atol=1e-13)
                row = c.swapaxes(1, 2)
                found = lax.linalg.ormqr(a, taus, row, left=False, transpose=way)[i]
                np.testing.assert_allclose(found, row[i] @ op, atol=1e-13)
        check_grads(lax.linalg.ormqr, (a, taus + 1, c), order=2)
    with pytest.raises(errors.ShapeError, match="m >= n"):
        lax.linalg.householder_product(c.swapaxes(1, 2), taus)


@pytest.mark.parametrize("rows", [130, 200])
def test_many_reflections_are_those_of_lapack(rows: int) -> None:
    """More than one block of them, and taus that are fewer than columns."""
    rng = np.random.default_rng(4)
    a = rng.normal(size=(rows, 130)).astype("f")
    h, taus = ft.jit(lambda a: fnp.linalg.qr(a, mode="raw"))(a)
    for found, expected in zip((h, taus), np.linalg.qr(a, mode="raw"), strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-4)
    q = lax.linalg.householder_product(h.mT, taus)
    np.testing.assert_allclose(q @ fnp.triu(h.mT)[:130], a, atol=1e-4)
    whole = lax.linalg.ormqr(h.mT, taus, fnp.eye(rows))
    np.testing.assert_allclose(whole[:, :130], q, atol=1e-5)
    back = lax.linalg.ormqr(h.mT, taus, whole, transpose=True)
    np.testing.assert_allclose(back, np.eye(rows), atol=1e-4)
    # A reflection that is left out is the last.
    fewer = lax.linalg.ormqr(h.mT, taus[:100], fnp.eye(rows))
    none = lax.linalg.ormqr(h.mT, taus.at[100:].set(0), fnp.eye(rows))
    np.testing.assert_allclose(fewer, none, atol=1e-6)


def test_functions_that_take_lists_in_jax_take_lists() -> None:
    m, v = [[4, 1], [1, 3]], [1, 2]
    for function, given in (
        (linalg.cho_factor, (m,)), (linalg.cholesky, (m,)), (linalg.eigh, (m, m)),
        (linalg.expm_frechet, (m, m)), (linalg.lu, (m,)), (linalg.lu_factor, (m,)),
        (linalg.polar, (m,)), (linalg.qr_multiply, (m, v)), (linalg.svd, (m,)),
        (linalg.solve_triangular, (m, v)), (linalg.rsf2csf, (m, m)),
        (signal.detrend, (v,)), (fnp.fft.ihfft, (v,)),
    ):  # fmt: skip
        found = ft.tree.leaves(function(*given))
        wanted = ft.tree.leaves(function(*map(np.array, given)))
        for x, y in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(x, y)

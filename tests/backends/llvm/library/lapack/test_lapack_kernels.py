"""Factorisations as kernels: their values are those of the host, and no Python runs."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.lax as lax
import ftrace.numpy as fnp
from ftrace import tree_util
from ftrace.backends.llvm.library.lapack import symbols
from ftrace.backends.llvm.library.lapack.render import render_factor
from ftrace.backends.llvm.target import Target
from ftrace.lower.library.lapack_kernels import SMALL, Factor
from ftrace.lower.program import CallHost, RunKernel
from ftrace.trace.primitives.library import lapack_numpy
from tests.support.covering import covering

pytest.importorskip("scipy")

RULES = {"call_lapack", "factor_small"}
DTYPES = ("float32", "float64", "complex64", "complex128")
SIZES = (1, 6, 7, SMALL + 1)


def sample(*shape: int, dtype: str = "float32") -> Any:
    rng = np.random.default_rng(sum(shape) + len(shape))
    x: Any = rng.standard_normal(shape)
    if "complex" in dtype:
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def positive(*shape: int, dtype: str = "float32") -> Any:
    a = sample(*shape, dtype=dtype)
    eye = np.eye(shape[-1], dtype=dtype)
    return a @ a.conj().swapaxes(-1, -2) + shape[-1] * eye


def steps_of(function: Callable[..., Any], *arrays: Any) -> Any:
    return ft.jit(lambda *a: function(*a)).lower(*arrays).program.steps


def host_calls(function: Callable[..., Any], *arrays: Any) -> list[str]:
    found = steps_of(function, *arrays)
    return [step.node.op.name for step in found if isinstance(step, CallHost)]


def assert_as_on_host(function: Callable[..., Any], *arrays: Any) -> None:
    """With the rules and without them: the same values, and no call of the host."""
    with ft.config(enable_x64=True):
        assert host_calls(function, *arrays) == []
        found = tree_util.tree_leaves(ft.jit(lambda *a: function(*a))(*arrays))
        with ft.config(disabled_rules=RULES):
            assert host_calls(function, *arrays) != []
            wanted = tree_util.tree_leaves(ft.jit(lambda *a: function(*a))(*arrays))
    for one, other in zip(found, wanted, strict=True):
        x, y = np.asarray(one), np.asarray(other)
        assert x.dtype == y.dtype
        assert x.shape == y.shape
        tolerance = 3e-5 if x.dtype.itemsize <= 8 and x.dtype != np.float64 else 1e-11
        scale = max(1.0, float(np.max(np.abs(y[np.isfinite(y)]), initial=0)))
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * scale)


@covering(2, dtype=DTYPES, n=SIZES, lead=[(), (2, 20)])
def test_factors_are_those_of_the_host(
    lead: tuple[int, ...], n: int, dtype: str
) -> None:
    a, b = sample(*lead, n, n, dtype=dtype), sample(*lead, n, 5, dtype=dtype)
    matrix = positive(*lead, n, n, dtype=dtype)
    assert_as_on_host(lambda x: lax.linalg.cholesky(x), matrix)
    for other in (a, sample(*lead, n, n + 3, dtype=dtype), b):
        assert_as_on_host(lambda x: lax.linalg.lu(x), other)
    assert_as_on_host(lambda x, y: fnp.linalg.solve(x, y), a, b)
    assert_as_on_host(lambda x, y: fnp.linalg.solve(x, y), a, b[..., :1])


@covering(2, dtype=DTYPES, n=[5, SMALL + 4], columns=[1, 3])
def test_triangular_systems_are_those_of_the_host(
    columns: int, n: int, dtype: str
) -> None:
    a, b = sample(2, n, n, dtype=dtype), sample(2, n, columns, dtype=dtype)
    for number in range(32):
        left, lower, turned, conjugate, ones = (bool(number >> k & 1) for k in range(5))
        matrix = a / n if ones else a + 3 * n * np.eye(n, dtype=dtype)
        right = b if left else np.ascontiguousarray(b.swapaxes(-1, -2))

        def f(x: Any, y: Any) -> Any:
            return lax.linalg.triangular_solve(
                x, y, left_side=left, lower=lower, transpose_a=turned,  # noqa: B023
                conjugate_a=conjugate, unit_diagonal=ones,  # noqa: B023
            )  # fmt: skip

        if "complex" in dtype and conjugate and not turned:
            with ft.config(enable_x64=True):  # BLAS has no such routine
                assert host_calls(f, matrix, right) == ["triangular_solve"]
            continue
        assert_as_on_host(f, matrix, right)


@pytest.mark.parametrize("n", [4, 12, 40])
def test_gradients_of_solutions_are_those_of_the_host(n: int) -> None:
    def loss(a: Any, b: Any) -> Any:
        return fnp.sum(fnp.linalg.solve(a, b) ** 2)

    a = sample(n, n, dtype="float64") + 3 * np.eye(n)
    gradient = ft.grad(loss, argnums=(0, 1))
    assert_as_on_host(gradient, a, sample(n, 3, dtype="float64"))


def assert_near(x: Any, y: Any) -> None:
    tolerance = 2e-4 if x.dtype in (np.float32, np.complex64) else 1e-10
    np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def assert_columns_are_orthonormal(x: Any) -> None:
    product = x.conj().swapaxes(-1, -2) @ x
    assert_near(product, np.broadcast_to(np.eye(x.shape[-1]), product.shape))


@covering(
    2,
    dtype=DTYPES,
    full=[False, True],
    shape=[(1, 1), (3, 7, 4), (2, 4, 7), (20, 20), (33, 20)],
)
def test_decompositions_multiply_to_the_matrix(
    shape: tuple[int, ...], full: bool, dtype: str
) -> None:
    a, least = sample(*shape, dtype=dtype), min(shape[-2:])

    def f(x: Any) -> Any:
        q, r = lax.linalg.qr(x, full_matrices=full)
        u, s, vh = lax.linalg.svd(x, full_matrices=full)
        return q, r, u, s, vh, lax.linalg.svd(x, compute_uv=False)

    with ft.config(enable_x64=True):
        assert host_calls(f, a) == []
        q, r, u, s, vh, values = (np.asarray(x) for x in ft.jit(f)(a))
    assert q.dtype == u.dtype == a.dtype
    assert (np.tril(r, -1) == 0).all()
    assert_near(q @ r, a)
    for columns in (q, u, vh.conj().swapaxes(-1, -2)):
        assert_columns_are_orthonormal(columns)
    assert_near((u[..., :least] * s[..., None, :]) @ vh[..., :least, :], a)
    assert_near(values, np.linalg.svd(a, compute_uv=False))
    assert_near(values, s)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (3, 4, 4), (20, 20)])
def test_eigenvectors_multiply_to_the_matrix(
    shape: tuple[int, ...], lower: bool, dtype: str
) -> None:
    a = sample(*shape, dtype=dtype)
    a = a + a.conj().swapaxes(-1, -2)
    other = np.triu(a, 1) if lower else np.tril(a, -1)

    def f(x: Any) -> Any:  # the other triangle is not read
        return lax.linalg.eigh(x, lower=lower, symmetrize_input=False)

    with ft.config(enable_x64=True):
        assert host_calls(f, a) == []
        vectors, values = (np.asarray(x) for x in ft.jit(f)(a + other))
    assert_columns_are_orthonormal(vectors)
    assert_near((vectors * values[..., None, :]) @ vectors.conj().swapaxes(-1, -2), a)
    assert_near(values, np.linalg.eigvalsh(a))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lower", [True, False])
def test_eigenvalues_alone_are_those_beside_vectors(lower: bool, dtype: str) -> None:
    a = sample(3, 20, 20, dtype=dtype)
    a = a + a.conj().swapaxes(-1, -2)
    triangle = np.tril(a) if lower else np.triu(a)  # the other one is not read

    def f(x: Any) -> Any:
        return lax.linalg.eigh(x, lower=lower, symmetrize_input=False)

    def kernel_of(function: Any) -> Any:
        (kernel,) = [
            k for k in ft.jit(function).lower(a).kernels if isinstance(k, Factor)
        ]
        return kernel

    with ft.config(enable_x64=True):
        assert host_calls(lambda x: f(x)[1], triangle) == []
        assert kernel_of(f).flags == (lower, True)
        assert kernel_of(lambda x: f(x)[1]).flags == (lower, False)
        alone = np.asarray(ft.jit(lambda x: f(x)[1])(triangle))
        beside = np.asarray(ft.jit(f)(triangle)[1])
    assert_near(alone, beside)
    triangle[1, 2, 2] = np.nan
    alone = np.asarray(ft.jit(lambda x: f(x)[1])(triangle))
    assert np.isnan(alone).all(-1).tolist() == [False, True, False]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(4, 4), (5, 7, 7), (30, 30)])
def test_determinants_are_those_of_the_host(shape: tuple[int, ...], dtype: str) -> None:
    a = sample(*shape, dtype=dtype)
    singular, unknown = a.copy(), a.copy()
    singular[..., 0] = 0
    unknown[..., 0, 0] = np.nan
    for matrix in (a, singular):
        assert_as_on_host(lambda x: fnp.linalg.slogdet(x), matrix)
        assert_as_on_host(lambda x: fnp.linalg.det(x), matrix)
    with ft.config(enable_x64=True):
        assert np.isnan(np.asarray(ft.jit(fnp.linalg.det)(unknown))).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (5, 6, 6), (2, 1, 30, 30)])
def test_spectra_of_general_matrices_are_those_of_the_host(
    shape: tuple[int, ...], dtype: str
) -> None:
    """Vectors of one side alone, of both, and none."""
    a = sample(*shape, dtype=dtype)

    def both(x: Any) -> Any:
        return lax.linalg.eig(x)

    for function in (both, lambda x: both(x)[1], lambda x: both(x)[2]):
        assert_as_on_host(function, a)
    with ft.config(enable_x64=True):
        assert host_calls(fnp.linalg.eigvals, a) == []
        alone = np.asarray(ft.jit(fnp.linalg.eigvals)(a))
        values, vectors = map(np.asarray, ft.jit(fnp.linalg.eig)(a))
    assert_near(a @ vectors, vectors * values[..., None, :])
    assert_near(np.sort_complex(alone), np.sort_complex(values))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (6, 4), (3, 4, 7), (2, 1, 20, 20)])
@pytest.mark.parametrize("full", [True, False])
def test_pivoted_columns_are_those_of_the_host(
    shape: tuple[int, ...], full: bool, dtype: str
) -> None:
    a = sample(*shape, dtype=dtype)

    def f(x: Any) -> Any:
        return lax.linalg.qr(x, pivoting=True, full_matrices=full)

    assert_as_on_host(f, a)
    with ft.config(enable_x64=True):
        q, r, order = map(np.asarray, ft.jit(f)(a))
    assert order.dtype == np.int32
    moved = np.take_along_axis(a, order[..., None, :], -1)
    assert_near(q @ r, moved)


@pytest.mark.parametrize("dtype", DTYPES)
def test_spectra_of_matrices_that_are_not_finite_are_nan(dtype: str) -> None:
    a = sample(3, 8, 8, dtype=dtype)
    a[1, 3, 3], a[2, 7, 7] = np.nan, np.inf
    for result in (*ft.jit(lax.linalg.eig)(a), ft.jit(fnp.linalg.eigvals)(a)):
        assert np.isfinite(np.asarray(result)[0]).all()
        assert np.isnan(np.asarray(result)[1:]).all()


@pytest.mark.parametrize("name", ["svd", "eigh"])
def test_decompositions_of_nan_are_nan(name: str) -> None:
    a = positive(2, 20, 20)
    a[1, 3, 3] = np.nan
    for result in ft.jit(getattr(lax.linalg, name))(a):
        assert np.isfinite(np.asarray(result)[0]).all()
        assert np.isnan(np.asarray(result)[1]).all()


@pytest.mark.parametrize("columns", [256, 192, 131])
def test_right_sides_in_parts_are_solved_as_one(columns: int) -> None:
    a = sample(200, 200, dtype="float64") + 60 * np.eye(200)
    b = sample(200, columns, dtype="float64")

    def f(a: Any, b: Any) -> Any:
        x = fnp.linalg.solve(a, b)
        left = lax.linalg.triangular_solve(a, b, left_side=True, lower=True)
        turned = fnp.linalg.solve(a.T, b)
        right = lax.linalg.triangular_solve(a, b.T, left_side=False, transpose_a=True)
        return x, left, turned, right

    assert_as_on_host(f, a, b)
    found: list[Any] = []
    for threads in (1, 2):
        with ft.config(threads=threads, enable_x64=True):
            found.append([np.asarray(x) for x in ft.jit(f)(a, b)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("n", [3, 12, 40])
def test_a_matrix_without_a_factor_is_nan_and_the_others_are_not(n: int) -> None:
    good = positive(n, n)
    negative, unknown = good.copy(), good.copy()
    negative[n // 2, n // 2] = -1
    unknown[n - 1, 0] = unknown[0, n - 1] = np.nan
    found = np.asarray(ft.jit(fnp.linalg.cholesky)(np.stack([negative, good, unknown])))
    np.testing.assert_allclose(found[1], np.linalg.cholesky(good), rtol=1e-4, atol=1e-5)
    lower = np.tril_indices(n)
    assert np.isnan(found[0][lower]).all()
    assert np.isnan(found[2][n - 1, n - 1])
    assert (np.triu(found[0], 1) == 0).all()


@pytest.mark.parametrize("n", [3, 40])
def test_a_zero_on_a_diagonal_gives_no_finite_solution(n: int) -> None:
    a = np.tril(sample(n, n)) + n * np.eye(n, dtype=np.float32)
    a[n // 2, n // 2] = 0

    def f(a: Any, b: Any) -> Any:
        return lax.linalg.triangular_solve(a, b, left_side=True, lower=True)

    found = np.asarray(ft.jit(f)(a, np.ones((n, 1), np.float32)))
    assert np.isfinite(found[: n // 2]).all()
    assert not np.isfinite(found[n // 2 :]).any()


def test_a_column_of_zeros_stays() -> None:
    for n in (4, 30):
        a = sample(n, n)
        a[:, 1] = 0
        assert_as_on_host(lambda x: lax.linalg.lu(x), a)
        assert_as_on_host(lambda x: lax.linalg.lu(x), np.zeros((n, n)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (16, 16), (9, 12), (20, 20), (30, 17)])
def test_what_is_not_finite_is_factorised_in_one_way(
    shape: tuple[int, int], dtype: str
) -> None:
    a = sample(*shape, dtype=dtype)
    for place, bad in [(0, np.nan), (7, np.inf), (4, -np.inf), (a.size - 1, np.nan)]:
        a = a.copy()
        a.flat[place] = bad
        eager, jitted = lax.linalg.lu(a), ft.jit(lambda a: lax.linalg.lu(a))(a)
        if "complex" not in dtype:  # the largest, by LAPACK's choice
            for one, other in zip(eager[1:], jitted[1:], strict=True):
                np.testing.assert_array_equal(one, other)
            assert sorted(eager[2].tolist()) == list(range(shape[0]))
        # Of a complex number either part, or both, may be what is not finite.
        finite = np.isfinite(eager[0])
        np.testing.assert_array_equal(finite, np.isfinite(jitted[0]))
        one, other = (np.where(finite, x[0], 0) for x in (eager, jitted))
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
        if "complex" not in dtype:
            np.testing.assert_array_equal(np.isnan(eager[0]), np.isnan(jitted[0]))


def test_each_rule_can_be_switched_off() -> None:
    small, large = positive(4, 4), positive(40, 40)

    def factor(x: Any) -> Any:
        return lax.linalg.cholesky(x, symmetrize_input=False)

    with ft.config(disabled_rules=("factor_small",)):
        (step,) = steps_of(factor, small)
        assert step.kernel.routine == "cholesky"
    with ft.config(disabled_rules=("call_lapack",)):
        (step,) = steps_of(factor, small)
        assert step.kernel.routine == "small_cholesky"
        assert host_calls(fnp.linalg.cholesky, large) == ["cholesky"]


def test_without_scipy_the_host_computes_what_is_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lapack_numpy, "scipy_linalg", lambda: None)
    monkeypatch.setattr(lapack_numpy, "has_scipy", lambda: False)
    # Of sizes that no other test has lowered.
    assert host_calls(fnp.linalg.cholesky, positive(43, 43)) == ["cholesky"]
    assert host_calls(fnp.linalg.cholesky, positive(15, 15)) == []


def test_transposes_vanish_between_a_factorisation_and_its_solution() -> None:
    a, b = sample(40, 40), sample(40, 3)
    kernels = [s for s in steps_of(fnp.linalg.solve, a, b) if isinstance(s, RunKernel)]
    factors = [s for s in kernels if isinstance(s.kernel, Factor)]
    assert [s.kernel.routine for s in factors] == ["lu", "solve"]
    assert len(kernels) == 3  # and the transpose before them


def test_factorisations_in_loops_and_batches_have_the_bits_of_one() -> None:
    stack = positive(64, 20, 20)
    one = ft.jit(fnp.linalg.cholesky)
    each = np.stack([np.asarray(one(a)) for a in stack])
    mapped = np.asarray(ft.jit(lambda x: lax.map(fnp.linalg.cholesky, x))(stack))
    np.testing.assert_array_equal(mapped, each)
    for threads in (1, 2, 3):
        with ft.config(threads=threads):
            found = np.asarray(ft.jit(ft.vmap(fnp.linalg.cholesky))(stack))
            np.testing.assert_array_equal(found, each)


def test_routines_are_found_without_the_packages_around_them() -> None:
    """And whoever imports these later finds the same module in its place."""
    program = """
        import sys
        import numpy as np
        import ftrace as ft, ftrace.numpy as fnp
        from ftrace.backends.llvm.library.lapack import symbols as blas
        found = ft.jit(fnp.linalg.cholesky)(np.eye(40, dtype=np.float32) * 4)
        assert (np.asarray(found) == 2 * np.eye(40)).all()
        print("scipy.linalg" in sys.modules)
        import scipy.linalg.cython_lapack
        name = "scipy.linalg.cython_lapack"
        assert scipy.linalg.cython_lapack is sys.modules[name]
        again = scipy.linalg.cython_lapack.__pyx_capi__["dpotrf"]
        address = blas.routine_address(blas.ROUTINE + "dpotrf")
        print(address == blas._pointer(again))
        assert (scipy.linalg.cholesky(np.eye(3)) == np.eye(3)).all()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True, text=True, timeout=60, check=True,
        cwd=Path(__file__).parents[5],
    )  # fmt: skip
    assert done.stdout == "False\nTrue\n"


def test_a_module_that_cannot_stand_alone_is_imported_as_usual(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "scipy.linalg.cython_blas"
    assert symbols._alone("scipy.linalg.nothing") is None  # pyright: ignore[reportPrivateUsage]
    assert symbols._alone("scipy.linalg.basic") is None  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(symbols, "_alone", lambda name: None)
    monkeypatch.delitem(sys.modules, name, raising=False)
    found = symbols._module.__wrapped__(name)  # pyright: ignore[reportPrivateUsage]
    assert "dgemm" in found.__pyx_capi__


def test_the_library_has_its_threads_back() -> None:
    functions = symbols._thread_functions()  # pyright: ignore[reportPrivateUsage]
    if functions is None:
        pytest.skip("this BLAS does not tell of its threads")
    get = ctypes.CFUNCTYPE(ctypes.c_int)(functions[0])
    put = ctypes.CFUNCTYPE(None, ctypes.c_int)(functions[1])
    alone, together = (
        ctypes.CFUNCTYPE(None)(symbols.routine_address(name))
        for name in (symbols.ALONE, symbols.TOGETHER)
    )
    before = get()
    try:
        put(2)
        alone()
        alone()
        assert get() == 1
        together()
        assert get() == 1
        together()
        assert get() == 2
        ft.jit(fnp.linalg.cholesky)(positive(40, 40))
        assert get() == 2
    finally:
        put(before)


def test_a_factorisation_can_be_read() -> None:
    step = steps_of(lambda x: lax.linalg.lu(x), sample(30, 20))[1]
    assert str(step.kernel) == "lu of 1 matrices of float32: 30 20"


_TARGETS = [
    Target.of("x86_64-unknown-linux-gnu", "x86-64"),
    Target.of("aarch64-unknown-linux-gnu", "generic"),
]


@pytest.mark.parametrize("target", _TARGETS, ids=lambda t: t.triple[:7])
@pytest.mark.parametrize("n", [4, 12, 40])
def test_code_for_other_processors_is_accepted(n: int, target: Target) -> None:
    llvm: Any = pytest.importorskip("llvmlite.binding")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=1
    )

    def f(a: Any, b: Any) -> Any:
        return fnp.linalg.cholesky(a), fnp.linalg.solve(a, b)

    for step in steps_of(f, positive(3, n, n), sample(3, n, 2)):
        if isinstance(step.kernel, Factor):
            module = llvm.parse_assembly(render_factor(step.kernel, target).text)
            module.verify()
            assert machine.emit_object(module)


@pytest.mark.parametrize("dtype", DTYPES)
def test_large_matrices_are_factorised_by_scipy_as_by_numpy(dtype: str) -> None:
    good = positive(150, 150, dtype=dtype)
    bad = good.copy()
    bad[3, 3] = -1
    found = np.tril(lapack_numpy.cholesky(np.stack([good, bad])))
    tolerance = 1e-4 if dtype in ("float32", "complex64") else 1e-11
    want = np.linalg.cholesky(good)
    np.testing.assert_allclose(found[0], want, rtol=tolerance, atol=tolerance)
    assert np.isnan(found[1][np.tril_indices(150)]).all()

"""COO, CSR, CSC and BCSR are other ways to write a BCOO; `sparsify` reads functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors, lax
from ftrace.experimental import sparse
from ftrace.experimental.sparse import linalg
from tests.support.refusals import refuses

M = np.array([[0, 1, 0, 2], [0, 0, 0, 0], [3, 0, 4, 0]], np.float32)
V, U = np.arange(1, 5, dtype=np.float32), np.arange(1, 4, dtype=np.float32)
FORMATS = {"coo": sparse.COO, "csr": sparse.CSR, "csc": sparse.CSC,
           "bcsr": sparse.BCSR}  # fmt: skip


def _equal(got: Any, wanted: Any) -> None:
    np.testing.assert_allclose(np.asarray(sparse.todense(got)), wanted, rtol=1e-6)


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_told_only_what_it_knows(name: str) -> None:
    parts = tuple(ft.tree.leaves(FORMATS[name].fromdense(M)))
    with pytest.raises(TypeError, match=r"keywords shape.*got \['sorted'\]"):
        FORMATS[name](parts, shape=M.shape, sorted=True)


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_what_its_bcoo_is(name: str) -> None:
    kind = FORMATS[name]
    mat = kind.fromdense(M)
    assert repr(mat) == f"{kind.__name__}(float32[3, 4], nse=4)"
    for made in (mat, kind.fromdense(M, nse=6), kind.from_bcoo(mat.to_bcoo())):
        _equal(made, M)
        _equal(made @ V, M @ V)
        _equal(made @ M.T, M @ M.T)
        _equal(U @ made, U @ M)
        _equal(made.T, M.T)
        _equal(-(made + made) / 4, -M / 2)
    assert type(mat * 2) is kind
    _equal(ft.jit(lambda x: kind.fromdense(x, nse=5) @ V)(M), M @ V)

    def loss(data: Any, v: Any) -> Any:
        parts = [data, *ft.tree.leaves(mat)[1:]]
        return ((kind(tuple(parts), shape=M.shape) @ v) ** 2).sum()

    of_data, of_v = ft.jit(ft.grad(loss, (0, 1)))(mat.data, V)
    whole, of_dense = ft.grad(lambda m, v: ((m @ v) ** 2).sum(), (0, 1))(M, V)
    _equal(kind((of_data, *ft.tree.leaves(mat)[1:]), shape=M.shape), whole * (M != 0))
    _equal(of_v, of_dense)
    for k in (-1, 0, 1):
        _equal(sparse.eye(3, 4, k, sparse_format=name), np.eye(3, 4, k))
    _equal(sparse.empty((3, 4), sparse_format=name), np.zeros((3, 4)))
    with refuses(errors.ShapeError, "do not fit an array of shape"):
        kind(tuple(ft.tree.leaves(mat)), shape=(3, 4, 5, 6))


def test_functions_of_matrices_are_methods_by_other_names() -> None:
    for prefix in ("coo", "csr"):
        named = {n: getattr(sparse, f"{prefix}_{n}")
                 for n in ("fromdense", "todense", "matvec", "matmat")}  # fmt: skip
        assert named["matvec"].__name__ == f"{prefix}_matvec"
        mat = named["fromdense"](M, nse=5)
        _equal(named["todense"](mat), M)
        _equal(named["matvec"](mat, V), M @ V)
        _equal(named["matvec"](mat, U, transpose=True), M.T @ U)
        _equal(named["matmat"](mat, M.T), M @ M.T)
        with refuses(errors.ShapeError, "1 axes are required"):
            named["matvec"](mat, M.T)


def test_batches_and_dense_axes_of_bcsr() -> None:
    lanes, dense = np.stack([M, M * 2 + np.eye(3, 4, dtype="f4")]), np.stack([M, M], -1)
    batched = sparse.bcsr_fromdense(lanes, n_batch=1)
    assert (batched.n_batch, batched.n_sparse, batched.nse) == (1, 2, 6)
    _equal(batched, lanes)
    _equal(ft.vmap(lambda x: x.todense())(batched), lanes)
    _equal(ft.vmap(lambda x: sparse.BCSR.fromdense(x, nse=7))(lanes), lanes)
    _equal(ft.jit(sparse.bcsr_todense)(sparse.bcsr_fromdense(dense, n_dense=1)), dense)
    two = sparse.bcoo_fromdense(np.stack([lanes, -lanes, lanes]), n_batch=2)
    for x in (two, sparse.BCSR.from_bcoo(two)):
        _equal(ft.vmap(lambda x: x.todense(), in_axes=1)(x), np.moveaxis(
            np.asarray(x.todense()), 1, 0))  # fmt: skip

    def joined(x: Any) -> Any:
        return fnp.concatenate([x, x], 1)[:, ::-1]

    _equal(sparse.sparsify(joined)(two), joined(two.todense()))
    numbers = (([2], [1]), ([0], [0]))
    ones = np.ones((2, 4, 2), np.float32)
    found = sparse.bcsr_dot_general(batched, ones, dimension_numbers=numbers)
    _equal(found, lanes @ ones)
    mat = sparse.BCSR.fromdense(M)
    _equal(sparse.bcsr_concatenate([mat, mat], dimension=1), np.concatenate([M, M], 1))
    other = sparse.BCSR.fromdense(np.ascontiguousarray(M.T))
    both = sparse.bcsr_dot_general(mat, other, dimension_numbers=(([1], [0]), ([], [])))
    assert isinstance(both, sparse.BCSR)
    _equal(both, M @ M.T)
    wide = sparse.bcsr_broadcast_in_dim(
        mat, shape=(2, 3, 4), broadcast_dimensions=(1, 2)
    )
    _equal(wide, np.stack([M, M]))
    data = sparse.bcsr_extract(mat.indices, mat.indptr, fnp.arange(12.0).reshape(3, 4))
    assert data.tolist() == [1, 3, 8, 10]
    twice = sparse.BCSR.from_bcoo(mat.to_bcoo() + mat.to_bcoo())
    assert twice.nse == 8
    assert sparse.bcsr_sum_duplicates(twice).nse == 4
    _equal(twice.sum_duplicates(), 2 * M)


_twice = ft.custom_jvp(lambda m: 2 * m)
_twice.defjvp(lambda xs, ts: (_twice(xs[0]), 3 * ts[0] * xs[0]))

#: Of a sparse matrix: functions that give sparse arrays, or dense ones.
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "product": lambda m: 2 * (m.T @ U) + 1,
    "sum": lambda m: (m * V).sum(),
    "axis": lambda m: fnp.sum(m * V, axis=0),
    "add": lambda m: (m + m - 3 * m).reshape(2, 6),
    "index": lambda m: m[2, 1:3],
    "concatenate": lambda m: fnp.concatenate([m, 2 * m]),
    "unary": lambda m: -fnp.abs(fnp.sin(m + m)) / 2,
    "einsum": lambda m: fnp.einsum("ij,kj->ik", m, m),
    "power": lambda m: m**2 + fnp.square(m),
    "axes": lambda m: lax.rev(m, (0,))[:, None, :],
    "cond": lambda m: lax.cond(V[0] > 0, lambda m: m @ V, lambda m: m @ (V + 1), m),
    "while": lambda m: lax.while_loop(
        lambda c: c[0] < 2, lambda c: (c[0] + 1, m @ (V + c[1][0])), (0, U)
    )[1],
    "scan": lambda m: lax.fori_loop(0, 2, lambda i, u: m @ (V + u[0] + i), U),
    "todense": lambda m: sparse.todense(m) + 1,
    "custom_jvp": _twice,
    "custom gradient": ft.grad(lambda m: _twice(m).sum()),
    "checkpoint": ft.checkpoint(fnp.sin),
}


def test_functions_of_dense_arrays_take_sparse_ones() -> None:
    mat = sparse.BCOO.fromdense(M)
    dense = [f(M) for f in map(_on_arrays, FUNCTIONS.values())]

    def all_of(m: Any) -> list[Any]:
        return [f(m) for f in FUNCTIONS.values()]

    for found in (sparse.sparsify(all_of)(mat), ft.jit(sparse.sparsify(all_of))(mat)):
        for name, got, wanted in zip(FUNCTIONS, found, dense, strict=True):
            gone = "product", "sum", "cond", "while", "scan", "todense"
            kept = name not in gone
            assert isinstance(got, sparse.BCOO) == kept, name
            _equal(got, wanted)

    def loss(data: Any) -> Any:
        m = sparse.BCOO((data, mat.indices), shape=M.shape)
        return (sparse.sparsify(lambda m: fnp.sin(m) @ V)(m) ** 2).sum()

    slope = ft.grad(lambda m: ((fnp.sin(m) @ V) ** 2).sum())(M)
    _equal(sparse.BCOO((ft.grad(loss)(mat.data), mat.indices), shape=M.shape),
           slope * (M != 0))  # fmt: skip
    with refuses(errors.MissingRuleError, "sparse rule for cos"):
        sparse.sparsify(fnp.cos)(mat)


def _on_arrays(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda m: function(fnp.asarray(m))


def test_lobpcg_finds_the_greatest_eigenvalues() -> None:
    drawn = np.random.default_rng(0).normal(size=(40, 40)).astype(np.float32)
    start = drawn[:, :3]
    for matrix in (drawn @ drawn.T, np.diag(np.arange(-40, 0)).astype(np.float32)):
        values, vectors, count = linalg.lobpcg_standard(matrix, start)
        wanted = np.linalg.eigvalsh(matrix)[::-1][:3]
        np.testing.assert_allclose(values, wanted, rtol=2e-3)
        rest = matrix @ vectors - vectors * values
        assert np.abs(rest).max() < 2e-3 * np.abs(matrix).max()
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(3), atol=1e-4)
        assert 0 < int(count) <= 100
    same = linalg.lobpcg_standard(lambda v: 2 * v, start)
    np.testing.assert_allclose(same[0], [2, 2, 2], rtol=1e-6)
    assert int(same[2]) == 0
    for wrong in (start[:, :0], drawn[:, :8]):
        with refuses(errors.ShapeError, "0 < 5 k < n"):
            linalg.lobpcg_standard(drawn, wrong)


def test_spsolve_solves_and_has_derivatives() -> None:
    pytest.importorskip("scipy")
    square = M[:, :3] + 5 * np.eye(3, dtype=np.float32)
    mat = sparse.CSR.fromdense(square)
    parts = (mat.indices, mat.indptr)

    def loss(data: Any, b: Any) -> Any:
        return (linalg.spsolve(data, *parts, b) ** 2).sum()

    of_data, of_b = ft.jit(ft.grad(loss, (0, 1)))(mat.data, U)
    whole, wanted = ft.grad(
        lambda m, b: (fnp.linalg.solve(m, b) ** 2).sum(), (0, 1)
    )(square, U)  # fmt: skip
    np.testing.assert_allclose(of_b, wanted, rtol=1e-5)
    found = sparse.CSR((of_data, *parts), shape=(3, 3)).todense()
    np.testing.assert_allclose(found, whole * (square != 0), rtol=1e-5, atol=1e-7)
    with pytest.raises(ValueError, match="reorder must be 0, 1, 2 or 3"):
        linalg.spsolve(mat.data, *parts, U, reorder=4)


#: Shape of the array, of the starts, dimension numbers, sizes of the windows.
WINDOWS = [
    ((5, 4), (3, 1), ((1,), (0,), (0,)), (1, 4)),
    ((5, 4), (3, 1), ((0,), (1,), (1,)), (5, 1)),
    ((5, 4), (2, 3, 2), ((), (0, 1), (0, 1)), (1, 1)),
    ((5, 4), (3, 2), ((1, 2), (), (0, 1)), (2, 3)),
    ((5, 4), (3, 2), ((0, 2), (), (1, 0)), (2, 3)),
    ((5, 4, 3), (1,), ((0, 1), (0,), (0,)), (1, 2, 3)),
    ((5, 4, 3), (5, 1), ((1,), (1,), (1,), (0,), (0,)), (1, 1, 3)),
]


@pytest.mark.parametrize("layout", [(0, 0), (1, 0), (0, 1)])
@pytest.mark.parametrize("row", WINDOWS)
def test_windows_of_a_sparse_array_are_those_of_the_dense_one(
    row: Any, layout: tuple[int, int]
) -> None:
    shape, starting, fields, sizes = row
    numbers = lax.GatherDimensionNumbers(*fields)
    drawn = np.random.default_rng(0)
    x = drawn.random(shape, np.float32)
    x[x < 0.5] = 0
    starts = drawn.integers(-1, 5, starting, np.int32)
    mat = sparse.BCOO.fromdense(x, n_batch=layout[0], n_dense=layout[1])
    want = lax.gather(x, starts, numbers, sizes, mode="clip")

    def windows(data: Any, starts: Any) -> Any:
        own = sparse.BCOO((data, mat.indices), shape=shape)
        found = sparse.bcoo_gather(own, starts, numbers, sizes)
        assert found.shape == want.shape
        return found.todense()

    _equal(windows(mat.data, starts), want)
    _equal(ft.jit(windows)(mat.data, starts), want)
    lanes = ft.vmap(windows, (None, 0))(mat.data, np.stack([starts, starts * 0]))
    _equal(lanes[0], want)
    _equal(lanes[1], lax.gather(x, starts * 0, numbers, sizes))
    slope = ft.grad(lambda data: (windows(data, starts) ** 2).sum())(mat.data)
    dense = ft.grad(lambda x: (lax.gather(x, starts, numbers, sizes) ** 2).sum())(x)
    _equal(sparse.BCOO((slope, mat.indices), shape=shape), np.where(x, dense, 0))


def test_windows_that_fill_are_refused_and_sparsify_reads_indices() -> None:
    mat = sparse.BCOO.fromdense(M)
    numbers = lax.GatherDimensionNumbers((1,), (0,), (0,))
    with refuses(NotImplementedError, "promise_in_bounds or clip"):
        sparse.bcoo_gather(mat, np.zeros((1, 1), int), numbers, (1, 4), mode="fill")
    with refuses(errors.ShapeError, "slice_sizes"):
        sparse.bcoo_gather(mat, np.zeros((1, 1), int), numbers, (2, 4))
    _equal(sparse.sparsify(lambda m: m[np.array([2, 0])])(mat), M[[2, 0]])
    for sizes in ((1, 5), (1,)):
        with refuses(errors.ShapeError, "do not fit the shape"):
            sparse.bcoo_dynamic_slice(mat, (0, 0), sizes)

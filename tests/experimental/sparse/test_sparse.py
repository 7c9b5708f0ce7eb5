"""Sparse arrays: whatever they do, the dense array does, too."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors, lax
from ftrace.experimental import sparse
from ftrace.experimental.sparse import BCOO
from ftrace.test_util import check_grads

RNG = np.random.default_rng(0)
SHAPE = (2, 3, 4)
#: Numbers of axes of the batch, and dense ones.
LAYOUTS = [(0, 0), (1, 0), (0, 1), (1, 1), (2, 1), (3, 0), (0, 3)]


def dense(*shape: int) -> Any:
    x = RNG.normal(size=shape)
    return np.where(RNG.random(shape) < 0.5, x, 0)


def sparse_of(x: Any, n_batch: int = 0, n_dense: int = 0) -> BCOO:
    """It has an element twice, one out of bounds, and no order."""
    made = BCOO.fromdense(x, n_batch=n_batch, n_dense=n_dense)
    if not made.n_sparse:
        return made
    data, indices = np.asarray(made.data), np.asarray(made.indices)
    first = [np.take(a, [0], n_batch) for a in (data, indices)]
    outside = np.broadcast_to(made.sparse_shape, first[1].shape)
    data = np.concatenate([0.5 * first[0], first[0], data], n_batch)
    indices = np.concatenate([first[1], outside, indices], n_batch)
    return BCOO((data, indices), shape=x.shape)


def close(found: Any, wanted: Any, rtol: float = 1e-12) -> None:
    if isinstance(found, BCOO):
        assert found.shape == np.shape(wanted)
        found = found.todense()
    assert np.shape(found) == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, rtol, rtol)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sparse_arrays_do_what_dense_ones_do(layout: tuple[int, int]) -> None:
    first = dense(*SHAPE)
    x = sparse_of(first, *layout)
    m: Any = np.asarray(x.todense())
    close(BCOO.fromdense(m, n_batch=layout[0], n_dense=layout[1]), m)
    close(x.sum_duplicates(), m)
    close(x.sum_duplicates(nse=x.nse + 2, remove_zeros=False), m)
    close(x.sort_indices(), m)
    for other in LAYOUTS:
        names = dict(zip(("n_batch", "n_dense"), other, strict=True))
        close(x.update_layout(**names, on_inefficient=None), m)
    for axes in ((0,), (1,), (2,), (0, 2), (0, 1, 2)):
        close(sparse.bcoo_reduce_sum(x, axes=axes), m.sum(axes))
    for shape in ((6, 4), (2, 12), (24,), (3, 2, 4), (2, 3, 2, 2), (4, 6)):
        close(x.reshape(shape), m.reshape(shape))
    for index in (1, -1, np.s_[:, 1:], np.s_[..., ::2], np.s_[::-1, :, 3:0:-2],
                  np.s_[0, 1], np.s_[None, ..., 2], np.s_[:, None, 1, None],
                  np.s_[:, 3:, :]):  # fmt: skip
        close(x[index], m[index])
    close(ft.jit(lambda x, i: x[:, i, ::-2])(x, 2), m[:, 2, ::-2])
    close(ft.jit(lambda x, i: x[:, i])(x, -1), m[:, -1])
    for axes in ((0,), (1, 2), (2,)):
        close(sparse.bcoo_rev(x, axes), np.flip(m, axes))
    v = RNG.normal(size=SHAPE)
    for other in (v, v[:1], v[0, 0], v[:, :, :1], 3.0):
        close(x * other, m * other)
        close(x / other, m / other)
    y = sparse_of(dense(*SHAPE), *layout)
    n = np.asarray(y.todense())
    close(x + y, m + n)
    close(x - y, m - n)
    close(-x * y, -m * n)
    close(abs(x), abs(m))
    close(x**2, m**2)
    close(sparse.bcoo_extract(x, m), np.where(m != 0, m, 0))
    for axis in range(3):
        close(sparse.bcoo_concatenate([x, y], dimension=axis),
              np.concatenate([m, n], axis))  # fmt: skip
    close(ft.jit(lambda x: x.todense())(x), m)
    assert str(x).startswith("BCOO(float64[2, 3, 4], nse=")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sparse_products_are_those_of_dense_arrays(layout: tuple[int, int]) -> None:
    x = sparse_of(dense(*SHAPE), *layout)
    m = np.asarray(x.todense())
    numbers = [
        ((4, 5), (([2], [0]), ([], []))),
        ((2, 4, 5), (([2], [1]), ([0], [0]))),
        ((3, 2), (([0, 1], [1, 0]), ([], []))),
        ((5,), (([], []), ([], []))),
        ((3, 4, 2), (([1, 2, 0], [0, 1, 2]), ([], []))),
    ]
    for shape, dimension_numbers in numbers:
        v = RNG.normal(size=shape)
        dot = partial(sparse.bcoo_dot_general, dimension_numbers=dimension_numbers)
        wanted = lax.dot_general(m, v, dimension_numbers)
        close(dot(x, v), wanted)
        close(dot(x, BCOO.fromdense(v)), wanted)
        swapped = tuple(pair[::-1] for pair in dimension_numbers)
        close(sparse.bcoo_dot_general(v, x, dimension_numbers=swapped),
              lax.dot_general(v, m, swapped))  # fmt: skip
    for v in (RNG.normal(size=4), RNG.normal(size=(4, 2)), RNG.normal(size=(2, 4, 2))):
        close(x @ v, m @ v)
        close(x @ BCOO.fromdense(v), m @ v)
    for v in (RNG.normal(size=3), RNG.normal(size=(5, 3)), RNG.normal(size=(2, 5, 3))):
        close(v @ x, v @ m)
        close(fnp.asarray(v) @ x, v @ m)

    def loss(data: Any, v: Any) -> Any:
        made = BCOO((data, x.indices), shape=x.shape)
        return fnp.sin(made @ v).sum() + (made * made).sum()

    check_grads(ft.jit(loss), (x.data, RNG.normal(size=(4, 2))), 1)


def test_products_are_sampled_at_sparse_indices() -> None:
    a, b = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(2, 4, 5))
    indices = RNG.integers(0, 3, (2, 6, 2))
    batched = (([2], [1]), ([0], [0]))
    found = sparse.bcoo_dot_general_sampled(a, b, indices, dimension_numbers=batched)
    whole = a @ b
    for k in range(2):
        close(found[k], whole[k][tuple(indices[k].T)])
        one = sparse.bcoo_dot_general_sampled(
            a[k], b[k], indices[k], dimension_numbers=(([1], [0]), ([], []))
        )
        close(one, found[k])
    rows = RNG.integers(0, 3, (3, 6, 1))  # of a product without batches
    found = sparse.bcoo_dot_general_sampled(
        a[0], b[0], rows, dimension_numbers=(([1], [0]), ([], []))
    )
    close(found, np.take_along_axis(whole[0], rows[..., 0], 1))
    assert isinstance(BCOO.fromdense(a[0]).sum(), ft.Array)


def test_convolutions_of_sparse_signals_are_those_of_dense_ones() -> None:
    x, y = dense(1, 1, 9), dense(1, 1, 4)
    for padding in ("SAME", "VALID", [(3, 2)], [(0, -1)]):
        wanted = lax.conv_general_dilated(x, y, (1,), padding)
        for a, b in ((BCOO.fromdense(x), y), (x, BCOO.fromdense(y, n_batch=2))):
            found = sparse.bcoo_conv_general_dilated(
                a, b, window_strides=(1,), padding=padding
            )
            close(found, wanted)
    with pytest.raises(errors.MissingRuleError, match="steps of 1"):
        sparse.bcoo_conv_general_dilated(x, y, window_strides=(2,), padding="SAME")


def test_a_tree_of_the_structure_of_a_sparse_array_holds_anything() -> None:
    x = BCOO.fromdense(dense(2, 3, 4), n_batch=1)
    named = ft.tree.map(lambda _: "name", x)
    assert ft.tree.leaves(named) == ["name", "name"]
    assert ft.tree.structure(named) == ft.tree.structure(x)


def test_sparse_transposes_keep_their_parts() -> None:
    m = dense(2, 3, 4, 5)
    x = sparse_of(m, 1, 1)
    close(x.transpose((0, 2, 1, 3)), np.asarray(x.todense()).transpose(0, 2, 1, 3))
    close(sparse_of(m[0, 0]).T, np.asarray(sparse_of(m[0, 0]).T.todense()))
    with pytest.raises(errors.ValueRangeError):
        x.transpose((1, 0, 2, 3))
    with pytest.raises(sparse.SparseEfficiencyError):
        x.update_layout(n_batch=2)


def test_vmap_takes_batches_of_sparse_arrays() -> None:
    m = dense(3, 4, 5)
    x, v = BCOO.fromdense(m, n_batch=1), RNG.normal(size=(3, 5))
    close(ft.vmap(lambda x, v: x @ v)(x, v), np.einsum("bij,bj->bi", m, v))
    close(ft.vmap(lambda x: x * 2)(x), m * 2)
    close(ft.vmap(lambda v: x.todense()[0] @ v)(v), v @ m[0].T)


def test_derivatives_by_sparse_arguments_are_sparse() -> None:
    m = dense(3, 4)
    x, v = BCOO.fromdense(m), RNG.normal(size=4)

    def loss(x: Any, v: Any) -> Any:
        return ((x @ v) ** 2).sum()

    value, (gx, gv) = sparse.value_and_grad(loss, (0, 1))(x, v)
    wanted = 2 * np.outer(m @ v, v)
    close(gx, np.where(m != 0, wanted, 0))
    close(gv, 2 * m.T @ (m @ v))
    close(value, ((m @ v) ** 2).sum())
    rows = sparse.jacrev(lambda x: x @ v)(x)
    close(rows, np.where(m != 0, np.eye(3)[:, :, None] * v, 0))
    close(sparse.jacfwd(lambda x: x @ v)(x), rows.todense())
    solved = ft.scipy.sparse.linalg.cg(BCOO.fromdense(m @ m.T + np.eye(3)), np.ones(3))
    close(solved[0], np.linalg.solve(m @ m.T + np.eye(3), np.ones(3)), 1e-4)


def test_sparse_arrays_are_made() -> None:
    for size in ((3, None, 0), (3, 5, 1), (4, 2, -1), (2, 2, 5)):
        close(sparse.eye(*size), np.eye(*size))
    close(sparse.empty((2, 3), nse=2), np.zeros((2, 3)))
    close(sparse.eye(3, n_batch=1), np.eye(3))
    key = ft.random.PRNGKey(0)
    for layout, unique in itertools.product(LAYOUTS[:4], (True, False)):
        names = dict(zip(("n_batch", "n_dense"), layout, strict=True))
        made = sparse.random_bcoo(key, (4, 5, 6), nse=0.3, unique_indices=unique,
                                  sorted_indices=True, **names)  # fmt: skip
        close(made.sum_duplicates(), made.todense(), 1e-6)
    scipy_sparse = pytest.importorskip("scipy.sparse")
    m = dense(3, 4)
    close(BCOO.from_scipy_sparse(scipy_sparse.csr_matrix(m)), m)
    with pytest.raises(errors.ValueRangeError):
        sparse.eye(3, sparse_format="dia")


def test_strict_settings_are_not_for_what_methods_are_composed_of() -> None:
    m = dense(3, 4).astype("float32")
    strict = {"numpy_dtype_promotion": "strict", "numpy_rank_promotion": "raise"}
    with ft.config(**strict):
        x = BCOO.fromdense(m, n_batch=1)
        assert x.indices_sorted
        x.indices_sorted = False  # not known any more
        others = (
            sparse.CSC.fromdense(m),
            sparse.BCSR.fromdense(m),
            BCOO.fromdense(m).T.T,
        )
        for made in (x.sort_indices(), x.update_layout(n_batch=0), *others):
            np.testing.assert_array_equal(made.todense(), m)
        np.testing.assert_array_equal(BCOO.fromdense(m[0, 0]).todense(), m[0, 0])


REFUSED: list[tuple[Callable[[Any], Any], type[Exception]]] = [
    (lambda x: x + np.ones(x.shape), errors.UnsupportedError),
    (lambda x: x * np.ones((2, *x.shape)), errors.ShapeError),
    (lambda x: x @ np.ones(9), errors.ShapeError),
    (lambda x: x[9], errors.IndexBoundsError),
    (lambda x: x[np.array([0, 1])], errors.ArgumentError),
    (lambda x: x**-1, errors.MissingRuleError),
    (lambda x: BCOO((x.data, x.indices), shape=(2,)), errors.ShapeError),
    (lambda x: ft.jit(lambda m: BCOO.fromdense(m))(x.todense()),
     errors.ConcretizationTypeError),
]  # fmt: skip


def test_sparse_arrays_refuse_what_they_cannot() -> None:
    x = BCOO.fromdense(dense(3, 4))
    for function, kind in REFUSED:
        with pytest.raises(kind):
            function(x)

"""Sparse arrays that are made, and derivatives with respect to them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

import numpy as np

from ftrace import numpy as fnp, random
from ftrace.errors import one_of
from ftrace.experimental.sparse.bcoo import BCOO, JAXSparse, bcoo_fromdense, replaced
from ftrace.experimental.sparse.compressed import FORMATS
from ftrace.numpy.axes import check_shape
from ftrace.trace.eager.checked_calls import unchecked
from ftrace.trace.pytree import tree
from ftrace.transforms import grad as transforms, jacobian
from ftrace.transforms.vmap import vmap


def todense(arr: Any) -> Any:
    """The dense array of a sparse one; a dense one as it is."""
    return arr.todense() if isinstance(arr, JAXSparse) else arr


@unchecked
def empty(
    shape: Sequence[int], dtype: Any = None, index_dtype: Any = "int32",
    sparse_format: str = "bcoo", n_batch: int = 0, n_dense: int = 0, nse: int = 0,
) -> Any:  # fmt: skip
    """A sparse array of zeros.

    Args:
      sparse_format: "bcoo", "bcsr", "coo", "csr" or "csc".
      n_batch, n_dense: its axes of the batch, and dense ones.
      nse: how many elements it stores.
    """
    sizes = check_shape(tuple(shape), "sparse.empty")
    last = len(sizes) - n_dense
    lead = (*sizes[:n_batch], nse)
    limits = np.array(sizes[n_batch:last], np.int64)
    data = fnp.zeros((*lead, *sizes[last:]), dtype)
    indices = fnp.broadcast_to(fnp.asarray(limits.astype(index_dtype)),
                               (*lead, len(limits)))  # fmt: skip
    made = BCOO((data, indices), shape=sizes, indices_sorted=True, unique_indices=True)
    return _in_format("empty", sparse_format, made)


@unchecked
def eye(
    N: int, M: int | None = None, k: int = 0, dtype: Any = None,
    index_dtype: Any = "int32", sparse_format: str = "bcoo", n_batch: int = 0,
    n_dense: int = 0,
) -> Any:  # fmt: skip
    """A sparse matrix of ones on the k-th diagonal."""
    columns = N if M is None else M
    if n_batch or n_dense:
        ones = fnp.eye(N, columns, k, dtype)
        nse = 1 if n_batch + n_dense < 2 and not n_dense else None
        made = bcoo_fromdense(ones, n_batch=n_batch, n_dense=n_dense, nse=nse,
                              index_dtype=index_dtype)  # fmt: skip
        return _in_format("eye", sparse_format, made)
    count = max(min(N, columns - k) if k > 0 else min(N + k, columns), 0)
    places = np.arange(count, dtype=index_dtype)
    indices = np.stack([places - min(k, 0), places + max(k, 0)], -1)
    data = fnp.ones(count, dtype)
    made = BCOO((data, indices.astype(index_dtype)), shape=(N, columns),
                indices_sorted=True, unique_indices=True)  # fmt: skip
    return _in_format("eye", sparse_format, made)


def _in_format(name: str, sparse_format: str, made: BCOO) -> Any:
    one_of(f"sparse.{name}: sparse_format", sparse_format, FORMATS)
    kind = FORMATS[sparse_format]
    return made if kind is BCOO else kind.from_bcoo(made)


@unchecked
def random_bcoo(
    key: Any, shape: Sequence[int], *, dtype: Any = "float32",
    indices_dtype: Any = None, nse: float = 0.2, n_batch: int = 0, n_dense: int = 0,
    unique_indices: bool = True, sorted_indices: bool = False,
    generator: Callable[..., Any] = random.uniform, **kwds: Any,
) -> BCOO:  # fmt: skip
    """A sparse array at random indices.

    Args:
      key: of the draws.
      shape: of the array.
      nse: how many elements to store for each batch; below 1 a part of all.
      n_batch, n_dense: its axes of the batch, and dense ones.
      unique_indices, sorted_indices: none is there twice; they are in order.
      generator: (key, shape, dtype, **kwds) -> the elements.
    """
    sizes = check_shape(tuple(shape), "random_bcoo")
    last = len(sizes) - n_dense
    batch, sparse, dense = sizes[:n_batch], sizes[n_batch:last], sizes[last:]
    total = math.prod(sparse)
    count = math.ceil(nse * total) if 0 < nse < 1 else int(nse)
    keys = random.split(key)

    def places(key: Any) -> Any:
        draw = partial(random.choice, key, total, (count,), replace=not unique_indices)
        flat = draw() if total and count else fnp.zeros(count, np.int32)
        flat = fnp.sort(flat) if sorted_indices else flat
        rows = fnp.unravel_index(flat, sparse) if sparse else ()
        found = fnp.stack(rows, -1) if rows else fnp.zeros((count, 0), np.int32)
        return found.astype(indices_dtype or np.int32)

    lanes = random.split(keys[0], math.prod(batch))
    indices = vmap(places)(lanes).reshape(*batch, count, len(sparse))
    data = generator(keys[1], (*batch, count, *dense), dtype, **kwds)
    return BCOO((data, indices), shape=sizes, indices_sorted=sorted_indices,
                unique_indices=unique_indices)  # fmt: skip


# Derivatives: those of the data, at the same indices.


def _is_sparse(x: Any) -> bool:
    return isinstance(x, BCOO)


def _of_data(transform: Callable[..., Any], of_results: bool, pair: bool) -> Any:
    """A transform of functions whose arguments are sparse, too.

    Args:
      of_results: the derivative has the axes of the result before those of the data.
      pair: it returns a value beside the derivative.
    """

    def sparse_transform(
        fun: Callable[..., Any], argnums: Any = 0, **kwargs: Any
    ) -> Any:
        @wraps(fun)
        def derivative(*args: Any, **given: Any) -> Any:
            numbers = [argnums] if isinstance(argnums, int) else list(argnums)
            flat: dict[int, Any] = {}
            for i in numbers:
                flat[i % len(args)] = tree.flatten(args[i], is_leaf=_is_sparse)

            def of_data(*parts: Any) -> Any:
                whole = list(args)
                for (i, (leaves, treedef)), data in zip(
                    flat.items(), parts, strict=True
                ):
                    whole[i] = tree.unflatten(treedef, [
                        replaced(x, d) if _is_sparse(x) else d
                        for x, d in zip(leaves, data, strict=True)
                    ])  # fmt: skip
                return fun(*whole, **given)

            parts = [[x.data if _is_sparse(x) else x for x in leaves]
                     for leaves, _ in flat.values()]  # fmt: skip
            made = transform(of_data, tuple(range(len(parts))), **kwargs)(*parts)
            value, found = made if pair else (None, made)
            aux: Any = None
            if kwargs.get("has_aux") and not pair:
                found, aux = found
            rows = [
                tree.unflatten(treedef, [
                    _like(x, d, of_results) for x, d in zip(leaves, data, strict=True)
                ])
                for (leaves, treedef), data in zip(flat.values(), found, strict=True)
            ]  # fmt: skip
            answer = rows[0] if isinstance(argnums, int) else tuple(rows)
            if pair:
                return value, answer
            return (answer, aux) if kwargs.get("has_aux") else answer

        return derivative

    return sparse_transform


def _like(x: Any, data: Any, of_results: bool) -> Any:
    """A derivative in the form of its argument."""
    if not _is_sparse(x):
        return data
    if not of_results:
        return replaced(x, data)
    lead = data.shape[: data.ndim - x.data.ndim]
    indices = fnp.broadcast_to(x.indices, (*lead, *x.indices.shape))
    return BCOO((data, indices), shape=(*lead, *x.shape))


#: `ft.grad` and its like, whose results for sparse arguments are sparse.
value_and_grad = _of_data(transforms.value_and_grad, False, True)
grad = _of_data(transforms.grad, False, False)
jacfwd = _of_data(jacobian.jacfwd, True, False)
jacrev = _of_data(jacobian.jacrev, True, False)

"""Matrices in other formats, and arrays that are made in any of them; derivatives.

Each format is another way to write the indices of a BCOO.

    COO     data, row, col           one row and one column for each element
    CSR     data, indices, indptr    columns; row i is indptr[i] … indptr[i + 1]
    CSC     data, indices, indptr    the same of the transposed matrix
    BCSR    data, indices, indptr    CSR of batches, whose elements may be dense arrays

A format says how its parts become a BCOO and how they are made of one; all else is what
BCOO does. Elements out of bounds do not count: they stand behind the last row.
"""

from __future__ import annotations

import math
import operator
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, ParamSpec

import numpy as np
from typing_extensions import Self

from ftrace import dtypes, numpy as fnp, random
from ftrace.errors import ArgumentError, DtypeError, ShapeError, ValueRangeError, one_of
from ftrace.experimental.sparse import bcoo
from ftrace.experimental.sparse.bcoo import BCOO, JAXSparse
from ftrace.experimental.sparse.movement import bcoo_broadcast_in_dim, bcoo_concatenate
from ftrace.experimental.sparse.products import bcoo_dot_general
from ftrace.numpy.axes import check_shape
from ftrace.trace.calls.checkpoint import checkpoint_name
from ftrace.trace.eager.checked_calls import uncheck
from ftrace.trace.eager.function_objects import member, set_name
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.tracer import Tracer, Value
from ftrace.transforms import grad as transforms, jacobian as jacobians
from ftrace.transforms.vmap import vmap
from ftrace.tree_util import register_pytree_node_class

__all__ = [
    "BCSR", "COO", "CSC", "CSR", "bcsr_broadcast_in_dim", "bcsr_concatenate",
    "bcsr_dot_general", "bcsr_extract", "bcsr_fromdense", "bcsr_sum_duplicates",
    "bcsr_todense", "coo_fromdense", "coo_matmat", "coo_matvec", "coo_todense",
    "csr_fromdense", "csr_matmat", "csr_matvec", "csr_todense", "empty", "eye",
    "grad", "jacfwd", "jacobian", "jacrev", "random_bcoo", "todense",
    "value_and_grad",
]  # fmt: skip


P = ParamSpec("P")


class Format(JAXSparse):
    """The base of the formats."""

    components = ("data", "indices", "indptr")
    #: What may be said of the indices.
    flags: tuple[str, ...] = ()

    def __init__(
        self, args: tuple[Value, Value, Value], *, shape: Sequence[int], **known: bool
    ) -> None:
        for name, part in zip(self.components, args, strict=True):
            setattr(self, name, fnp.asarray(part))
        self.shape = tuple([operator.index(n) for n in shape])
        self.known = known
        if unknown := sorted(known.keys() - {*self.flags}):
            taken = ", ".join(("shape", *self.flags))
            raise ArgumentError(
                f"{type(self).__name__} takes the keywords {taken}; got {unknown}"
            )
        kinds = [getattr(self, name).dtype for name in self.components[1:]]
        if not all(map(dtypes.is_integer, kinds)):
            raise DtypeError(
                f"{type(self).__name__}: indices must be integers, got "
                f"{' and '.join(map(str, kinds))}"
            )
        if not self._fits():
            shapes = {name: getattr(self, name).shape for name in self.components}
            raise ShapeError(
                f"{type(self).__name__}: parts of the shapes {shapes} do not fit an "
                f"array of shape {self.shape}; see the module "
                "ftrace.experimental.sparse.compressed"
            )

    def _fits(self) -> bool:
        return len(self.shape) == 2

    @abstractmethod
    def to_bcoo(self) -> BCOO:
        """The same array as a BCOO."""

    @classmethod
    @abstractmethod
    def from_bcoo(cls, arr: BCOO) -> Self:
        """The same array in this format, of two sparse axes."""

    @classmethod
    def fromdense(cls, mat: Value, *, nse: int | None = None,
                  index_dtype: Any = np.int32, **layout: int) -> Self:  # fmt: skip
        """The elements of a dense array that are not zero: see `bcoo_fromdense`."""
        found = bcoo.bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype, **layout)
        return cls.from_bcoo(found)

    @classmethod
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: Any = None,
                          n_dense: int = 0, n_batch: int = 0) -> Self:  # fmt: skip
        """A matrix of `scipy.sparse`."""
        return cls.from_bcoo(BCOO.from_scipy_sparse(
            mat, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
        ))  # fmt: skip

    def operate(self, name: str, *args: Any) -> Any:
        """What BCOO's operator does, in the format again where it is a matrix."""
        found = self.to_bcoo().operate(name, *map(as_bcoo, args))
        return _from_bcoo(type(self), found)

    @property
    def nse(self) -> int:
        return getattr(self, self.components[1]).shape[-1]

    def todense(self) -> Any:
        """The dense array."""
        return self.to_bcoo().todense()


@register_pytree_node_class
class COO(Format):
    """A sparse matrix of (data, row, col): see the module."""

    components = ("data", "row", "col")
    flags = ("rows_sorted", "cols_sorted")
    row: Any
    col: Any

    def to_bcoo(self) -> BCOO:
        indices = fnp.stack([self.row, self.col], -1)
        rows_sorted = bool(self.known.get("rows_sorted"))
        return BCOO((self.data, indices), shape=self.shape, indices_sorted=rows_sorted)

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> Self:
        row, col = (arr.indices[..., i] for i in range(2))
        return cls((arr.data, row, col), shape=arr.shape,
                   rows_sorted=arr.indices_sorted)  # fmt: skip


class _Compressed(Format):
    indices: Any
    indptr: Any

    def _fits(self) -> bool:
        k = self.n_batch = self.indices.ndim - 1
        return (
            self.n_dense >= 0
            and self.indptr.shape[k:] == (self.shape[k] + 1,)
            and self.data.shape[k:] == (self.nse, *self.shape[k + 2 :])
        )

    @property
    def n_dense(self) -> int:
        return self.ndim - self.n_batch - 2

    def to_bcoo(self) -> BCOO:
        def places(indices: Any, pointers: Any) -> Any:
            count = fnp.arange(self.nse, dtype=pointers.dtype)
            rows = fnp.searchsorted(pointers, count, side="right") - 1
            return fnp.stack([rows.astype(pointers.dtype), indices], -1)

        found = bcoo.batch(places, self.n_batch)(self.indices, self.indptr)
        return BCOO((self.data, found), shape=self.shape, **self.known)

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> Self:
        if arr.n_sparse != 2:
            raise ValueRangeError(
                f"{cls.__name__}.from_bcoo: two sparse axes are required, got {arr!r}"
            )
        arr = arr if arr.indices_sorted else arr.sort_indices()
        numbers = fnp.arange(arr.sparse_shape[0] + 1, dtype=arr.indices.dtype)

        def begins(indices: Any) -> Any:
            return fnp.searchsorted(indices[:, 0], numbers).astype(indices.dtype)

        pointers = bcoo.batch(begins, arr.n_batch)(arr.indices)
        parts = (arr.data, arr.indices[..., 1], pointers)
        return cls(parts, shape=arr.shape, **cls._known_of(arr))

    @classmethod
    def _known_of(cls, arr: BCOO) -> dict[str, bool]:
        return {}


class _Matrix(_Compressed):
    """Of two axes: the transposed one is in the other format, of the same parts."""

    def transpose(self, axes: Sequence[int] | None = None) -> Any:
        name, kind = type(self).__name__, CSC if isinstance(self, CSR) else CSR
        if axes is not None:
            raise ArgumentError(f"{name}.transpose takes no axes, got {axes!r}")
        return kind((self.data, self.indices, self.indptr), shape=self.shape[::-1])


@register_pytree_node_class
class CSR(_Matrix):
    """A sparse matrix of (data, indices, indptr), row by row: see the module."""


@register_pytree_node_class
class CSC(_Matrix):
    """A sparse matrix of (data, indices, indptr), column by column: see the module."""

    def _fits(self) -> bool:
        return self.ndim == 2 and self.indptr.shape == (self.shape[1] + 1,)

    def to_bcoo(self) -> BCOO:
        transposed = self.transpose().to_bcoo()
        return transposed.transpose()

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> Any:
        return CSR.from_bcoo(arr.transpose()).transpose()


@register_pytree_node_class
class BCSR(_Compressed):
    """A sparse array of (data, indices, indptr) in batches: see the module."""

    flags = ("indices_sorted", "unique_indices")

    @classmethod
    def _known_of(cls, arr: BCOO) -> dict[str, bool]:
        return {"indices_sorted": True, "unique_indices": arr.unique_indices}

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
        """Each index once, in order, and no zeros: see `BCOO.sum_duplicates`."""
        return BCSR.from_bcoo(self.to_bcoo().sum_duplicates(nse, remove_zeros))


# Functions of matrices: the methods under other names.


def _of_bcsr(name: str, function: Callable[P, Any]) -> Callable[P, Any]:
    """A function of BCOO that takes and gives BCSR."""
    given: Any = function

    def through(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tree.map(as_bcoo, (args, kwargs), is_leaf=_is_format)
        return _from_bcoo(BCSR, given(*args, **kwargs))

    return set_name(wraps(function)(through), name, function.__doc__)


def _is_format(x: Any) -> bool:
    return isinstance(x, Format)


def as_bcoo(x: Any) -> Any:
    return x.to_bcoo() if isinstance(x, Format) else x


def _from_bcoo(kind: type[Format], found: Any) -> Any:
    """The result in the format, where it is a matrix."""
    back = isinstance(found, BCOO) and found.n_sparse == 2
    return kind.from_bcoo(found) if back else found


bcsr_broadcast_in_dim = _of_bcsr("bcsr_broadcast_in_dim", bcoo_broadcast_in_dim)
bcsr_concatenate = _of_bcsr("bcsr_concatenate", bcoo_concatenate)
bcsr_dot_general = _of_bcsr("bcsr_dot_general", bcoo_dot_general)
bcsr_fromdense = _of_bcsr("bcsr_fromdense", bcoo.bcoo_fromdense)
bcsr_sum_duplicates = _of_bcsr("bcsr_sum_duplicates", bcoo.bcoo_sum_duplicates)
bcsr_todense = _of_bcsr("bcsr_todense", bcoo.bcoo_todense)


def _functions(kind: type[Any], prefix: str) -> tuple[Callable[..., Any], ...]:
    """The functions of matrices in a format."""

    def fromdense(
        mat: Value, *, nse: int | None = None, index_dtype: Any = np.int32
    ) -> Any:
        """The elements of a dense matrix that are not zero.

        Args:
          mat: (n, m), dense.
          nse: how many elements to store; by default as many as needed, which must be
            known: not under `jit`.
          index_dtype: of the indices.

        Returns:
          A sparse matrix in the format.
        """
        return kind.fromdense(mat, nse=nse, index_dtype=index_dtype)

    def todense(mat: Any) -> Any:
        """The dense matrix.

        Args:
          mat: a sparse matrix in the format.
        """
        return mat.todense()

    def matvec(mat: Any, v: Value, transpose: bool = False) -> Any:
        """The product of a matrix, maybe transposed, and a vector.

        Args:
          mat: (n, m), sparse.
          v: (m,), or (n,) for the transposed matrix.
          transpose: multiply by the transposed matrix.

        Returns:
          A dense vector.

        Raises:
          ShapeError: the factor is no vector, or does not fit.
        """
        return _product(mat, v, transpose, 1)

    def matmat(mat: Any, B: Value, *, transpose: bool = False) -> Any:
        """The product of a matrix, maybe transposed, and a dense matrix.

        Args:
          mat: (n, m), sparse.
          B: (m, k), or (n, k) for the transposed matrix.
          transpose: multiply by the transposed matrix.

        Returns:
          A dense matrix.

        Raises:
          ShapeError: the factor is no matrix, or does not fit.
        """
        return _product(mat, B, transpose, 2)

    made = (fromdense, todense, matvec, matmat)
    for function in made:
        function.__name__ = function.__qualname__ = f"{prefix}_{function.__name__}"
    return made


def _product(mat: Format, v: Value, transpose: bool, ndim: int) -> Any:
    x = fnp.asarray(v)
    if x.ndim != ndim:
        raise ShapeError(f"{ndim} axes are required of the factor, got {x.shape}")
    found = mat.to_bcoo()
    return (found.transpose() if transpose else found) @ x


coo_fromdense, coo_todense, coo_matvec, coo_matmat = _functions(COO, "coo")
csr_fromdense, csr_todense, csr_matvec, csr_matmat = _functions(CSR, "csr")


def bcsr_extract(indices: Value, indptr: Value, mat: Value) -> Any:
    """The elements of a dense array at the indices of a BCSR: its data.

    Args:
      indices: of the columns, (…, nse).
      indptr: where each row begins, (…, rows + 1).
      mat: the dense array.
    """
    x, columns = fnp.asarray(mat), fnp.asarray(indices)
    dense = x.shape[columns.ndim + 1 :]
    zeros = fnp.zeros((*columns.shape, *dense), x.dtype)
    where = BCSR((zeros, columns, indptr), shape=x.shape).to_bcoo()
    return bcoo.bcoo_extract(where, x, assume_unique=True).data


#: The formats by the names that `empty` and `eye` take.
FORMATS: dict[str, Any] = {
    "bcoo": BCOO, "bcsr": BCSR, "coo": COO, "csr": CSR, "csc": CSC,
}  # fmt: skip


#: The name of a value that stands for what `todense` makes of a sparse one.
TO_DENSE = "todense"


def todense(arr: Any) -> Any:
    """The dense array of a sparse one; a dense one as it is.

    Args:
      arr: an array, sparse or dense.
    """
    if isinstance(arr, Tracer):
        return checkpoint_name(arr, TO_DENSE)
    return arr.todense() if isinstance(arr, JAXSparse) else arr


def empty(
    shape: Sequence[int], dtype: Any = None, index_dtype: Any = "int32",
    sparse_format: str = "bcoo", n_batch: int = 0, n_dense: int = 0, nse: int = 0,
) -> Any:  # fmt: skip
    """A sparse array of zeros.

    Args:
      shape: of the array.
      dtype: of the elements; None is float32.
      index_dtype: of the indices.
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


def eye(
    N: int, M: int | None = None, k: int = 0, dtype: Any = None,
    index_dtype: Any = "int32", sparse_format: str = "bcoo", n_batch: int = 0,
    n_dense: int = 0,
) -> Any:  # fmt: skip
    """A sparse matrix of ones on the k-th diagonal.

    Args:
      N: how many rows.
      M: how many columns; None is N.
      k: which diagonal; negative ones are below.
      dtype: of the elements; None is float32.
      index_dtype: of the indices.
      sparse_format: "bcoo", "bcsr", "coo", "csr" or "csc".
      n_batch, n_dense: its axes of the batch, and dense ones.

    Example:
      >>> from ftrace.experimental import sparse
      >>> sparse.eye(2) @ fnp.array([3.0, 4.0])
      Array([3., 4.], dtype=float32)
    """
    columns = N if M is None else M
    if n_batch or n_dense:
        ones = fnp.eye(N, columns, k, dtype)
        nse = 1 if n_batch + n_dense < 2 and not n_dense else None
        made = bcoo.bcoo_fromdense(ones, n_batch=n_batch, n_dense=n_dense, nse=nse,
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
      dtype: of the elements.
      indices_dtype: of the indices; None is int32.
      nse: how many elements to store for each batch; below 1 a part of all.
      n_batch, n_dense: its axes of the batch, and dense ones.
      unique_indices, sorted_indices: none is there twice; they are in order.
      generator: (key, shape, dtype, **kwds) -> the elements.
      **kwds: passed to the generator.
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


def _of_data(name: str, transform: Callable[..., Any], of_results: bool, pair: bool):
    """A transform of functions whose arguments are sparse, too.

    Args:
      of_results: the derivative has the axes of the result before those of the data.
      pair: it returns a value beside the derivative.
    """

    def sparse_transform(
        fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, **kwargs: Any
    ) -> Any:
        """A transform of functions whose arguments are sparse, too.

        Args:
          fun: a function of arrays, sparse or dense.
          argnums: by which of them: an int or several.
          has_aux: `fun` returns (value, something else), and so does the function made.
          **kwargs: further arguments of the transform.

        Returns:
          A function of the arguments of `fun`.
        """

        @wraps(fun)
        def derivative(*args: Any, **given: Any) -> Any:
            def of_data(*parts: Any) -> Any:
                made = tree.map(_with_data, args, parts, is_leaf=_is_sparse)
                return fun(*made, **given)

            parts = tree.map(
                lambda x: x.data if _is_sparse(x) else x, args, is_leaf=_is_sparse
            )
            more = {"has_aux": True} if has_aux else {}
            found = transform(of_data, argnums, **more, **kwargs)(*parts)
            aux: Any = None
            if pair:
                aux, found = found
            elif has_aux:
                found, aux = found
            one = isinstance(argnums, int)
            chosen = args[argnums] if one else tuple([args[i] for i in argnums])
            like = partial(_like, of_results=of_results)
            answer = tree.map(like, chosen, found, is_leaf=_is_sparse)
            if pair:
                return aux, answer
            return (answer, aux) if has_aux else answer

        return derivative

    return sparse_transform


def _with_data(x: Any, data: Any) -> Any:
    return bcoo.replace(x, data) if _is_sparse(x) else data


def _like(x: Any, data: Any, of_results: bool) -> Any:
    """A derivative in the form of its argument."""
    if not (of_results and _is_sparse(x)):
        return _with_data(x, data)
    lead = data.shape[: data.ndim - x.data.ndim]
    indices = fnp.broadcast_to(x.indices, (*lead, *x.indices.shape))
    return BCOO((data, indices), shape=(*lead, *x.shape))


@member(_of_data, transforms.value_and_grad, False, True)
def value_and_grad():
    """`ft.value_and_grad`; gradients by sparse arguments are as sparse as these."""


@member(_of_data, transforms.grad, False, False)
def grad():
    """`ft.grad`; gradients by sparse arguments are as sparse as these."""


@member(_of_data, jacobians.jacfwd, True, False)
def jacfwd():
    """`ft.jacfwd`; Jacobians by sparse arguments are as sparse as these."""


@member(_of_data, jacobians.jacrev, True, False)
def jacrev():
    """`ft.jacrev`; Jacobians by sparse arguments are as sparse as these."""


jacobian = jacrev
uncheck(__name__)

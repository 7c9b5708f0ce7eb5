"""Arrays of which only some elements are stored, with their indices (BCOO).

    shape    batch + sparse + dense
    data     batch + (nse,) + dense       what is stored: nse elements for each batch
    indices  batch + (nse, n_sparse)      where along the sparse axes each stands

Elements of equal indices are meant to be added; those whose indices are out of bounds
do not count. Data and indices may have size 1 along an axis of the batch: it is the
same for all. All is made of gathers, scatters and sorts of dense arrays: derivatives
with respect to the data, `jit` and `vmap` follow.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from typing_extensions import Self

from ftrace import dtypes, errors, numpy as fnp
from ftrace.numpy.axes import cast
from ftrace.trace.avals import Shape
from ftrace.trace.eager.checked_calls import uncheck
from ftrace.trace.tracing.tracer import Tracer, Value
from ftrace.transforms.vmap import vmap
from ftrace.tree_util import register_pytree_node_class

__all__ = [
    "BCOO", "CuSparseEfficiencyWarning", "JAXSparse", "SparseEfficiencyError",
    "SparseEfficiencyWarning", "bcoo_eliminate_zeros", "bcoo_extract",
    "bcoo_fromdense", "bcoo_sort_indices", "bcoo_sum_duplicates", "bcoo_todense",
    "bcoo_update_layout",
]  # fmt: skip


#: What operators of sparse arrays do: it stands in `products.py`.
OPERATORS: dict[str, Callable[..., Any]] = {}


def operator_of(name: str) -> Callable[..., Any]:
    """A method: the operator of this name, as the class of the array does it."""

    def apply(self: JAXSparse, *args: Any) -> Any:
        return self.operate(name, *args)

    return apply


class SparseEfficiencyError(errors.ValueRangeError):
    """A layout would store far more than the array does now."""


class SparseEfficiencyWarning(UserWarning):
    """A layout stores far more than the array did."""


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """JAX's, of products that cuSPARSE has not: never given here."""


def _flag(name: str) -> Any:
    """What is known of the indices, which may be said later too."""

    def get(mat: JAXSparse) -> bool:
        return mat.known.get(name, False)

    def put(mat: JAXSparse, value: bool) -> None:
        mat.known[name] = value

    return property(get, put)


class JAXSparse(ABC):
    """The base of sparse arrays.

    Attributes:
      data: what is stored.
      shape: of the array.
      components: the names of the arrays that it is made of, data first.
      index_axes: of the second of them, beside those of the batch.
      known: what is known of the indices.
    """

    data: Any
    shape: Shape
    n_batch: Any = 0
    n_sparse: Any = 2
    n_dense: Any = 0
    components: tuple[str, ...] = ("data", "indices")
    index_axes = 1
    known: dict[str, bool]
    indices_sorted, unique_indices = _flag("indices_sorted"), _flag("unique_indices")
    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 100

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.data.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def batch_shape(self) -> Shape:
        return self.shape[: self.n_batch]

    @property
    def dense_shape(self) -> Shape:
        return self.shape[self.n_batch + self.n_sparse :]

    @property
    @abstractmethod
    def nse(self) -> int:
        """How many elements are stored, for each batch."""

    def transpose(self, axes: Sequence[int] | None = None) -> Any:
        """The array with its axes in another order: batch, sparse, dense stay apart."""
        order = range(self.ndim)[::-1] if axes is None else axes
        return self.operate("transpose", tuple(order))

    @abstractmethod
    def todense(self) -> Any:
        """The dense array."""

    def operate(self, name: str, *args: Any) -> Any:
        """What an operator does to the array and these others."""
        return OPERATORS[name](self, *args)

    @property
    def T(self) -> Any:
        return self.transpose()

    def __repr__(self) -> str:
        name = type(self).__name__
        try:
            parts = [f"{self.dtype}{[*self.shape]}", f"nse={self.nse}"]
            more = {"n_batch": self.n_batch, "n_dense": self.n_dense}
        except (AttributeError, IndexError):  # of leaves that are no arrays
            return f"{name}(<invalid>)"
        parts += [f"{key}={n}" for key, n in more.items() if n]
        text = f"{name}({', '.join(parts)})"
        return f"Tracer[{text}]" if isinstance(self.data, Tracer) else text

    def __len__(self) -> int:
        return self.shape[0]

    def block_until_ready(self) -> Any:
        return self

    __matmul__, __rmatmul__ = operator_of("matmul"), operator_of("rmatmul")
    __mul__, __rmul__ = operator_of("mul"), operator_of("rmul")
    __add__, __radd__ = operator_of("add"), operator_of("radd")
    __sub__, __rsub__ = operator_of("sub"), operator_of("rsub")
    __truediv__, __pow__ = operator_of("truediv"), operator_of("pow")
    __neg__, __abs__ = operator_of("neg"), operator_of("abs")
    __getitem__ = operator_of("getitem")

    def __pos__(self) -> Any:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def sum(self, axis: Any = None) -> Any:
        """The sums along axes, a sparse array; along all, the default, a scalar."""
        return self.operate("sum", axis)

    def reshape(self, *shape: Any) -> Any:
        """The array in another shape."""
        return self.operate("reshape", *shape)

    def tree_flatten(self) -> tuple[Any, Any]:
        known = (self.shape, self.n_batch, tuple(self.known.items()))
        return tuple([getattr(self, name) for name in self.components]), known

    @classmethod
    def tree_unflatten(cls, aux: Any, children: Any) -> Self:
        made = object.__new__(cls)
        for name, part in zip(cls.components, children, strict=True):
            setattr(made, name, part)
        made.shape, n_batch, known = aux
        made.known = dict(known)
        # A tree may hold other things than arrays.
        axes = getattr(children[1], "ndim", n_batch + cls.index_axes)
        made.n_batch = axes - cls.index_axes
        if made.n_batch != n_batch and made.n_batch >= 0:  # by vmap
            parts = [part for part in children if hasattr(part, "shape")]
            leads = [part.shape[: made.n_batch] for part in parts]
            made.shape = (*np.broadcast_shapes(*leads), *made.shape[n_batch:])
        return made


def replace(mat: BCOO, data: Any) -> BCOO:
    """The array with other data at the same indices."""
    return BCOO((data, mat.indices), shape=mat.shape, **mat.known)


def check_sparse(name: str, mat: Any) -> BCOO:
    if not isinstance(mat, BCOO):
        raise errors.ArgumentError(f"{name} takes a BCOO, got {type(mat).__name__}")
    return mat


# One batch at a time.


def full_batch(mat: BCOO) -> tuple[Any, Any]:
    """Data and indices, of which no batch shares any."""
    k, batch = mat.n_batch, mat.batch_shape
    data = fnp.broadcast_to(mat.data, (*batch, *mat.data.shape[k:]))
    return data, fnp.broadcast_to(mat.indices, (*batch, *mat.indices.shape[k:]))


def batch(function: Callable[..., Any], n_batch: int) -> Callable[..., Any]:
    for _ in range(n_batch):
        function = vmap(function)
    return function


def each_batch(function: Callable[..., Any], mat: BCOO, *others: Any) -> Any:
    """What a function of data and indices, and of others, gives for each batch."""
    return batch(function, mat.n_batch)(*full_batch(mat), *others)


def columns(indices: Any) -> tuple[Any, ...]:
    return tuple([indices[..., k] for k in range(indices.shape[-1])])


def inside(indices: Any, shape: Sequence[int]) -> Any:
    """Which of the indices are in bounds."""
    if not len(shape):
        return fnp.ones(indices.shape[:-1], bool)
    return (indices < cast(np.array(shape), indices.dtype)).all(-1)


def limit(indices: Any, keep: Any, shape: Sequence[int]) -> Any:
    """The indices, out of bounds where they do not count."""
    limits = cast(np.array(shape, np.int64), indices.dtype)
    return fnp.where(keep[..., None], indices, limits)


def stack(rows: Sequence[Any], keep: Any, shape: Sequence[int], dtype: Any) -> Any:
    """The indices of these columns, out of bounds where they do not count."""
    rows = [fnp.broadcast_to(row, keep.shape) for row in rows]
    empty = fnp.zeros((*keep.shape, 0), dtype)
    indices = fnp.stack(rows, -1).astype(dtype) if rows else empty
    return limit(indices, keep, shape)


def mask(data: Any, keep: Any) -> Any:
    """The data, zero where they do not count."""
    more = data.ndim - keep.ndim
    return fnp.where(keep.reshape(*keep.shape, *(1,) * more), data, 0).astype(
        data.dtype
    )


def scatter(data: Any, places: tuple[Any, ...], shape: Sequence[int]) -> Any:
    """The sums of data at places; what is out of bounds is dropped."""
    if not places:
        return data.sum(0, dtype=data.dtype)
    zeros = fnp.zeros(tuple(shape), data.dtype)
    return zeros if 0 in shape else zeros.at[places].add(data, mode="drop")


def gather(x: Any, places: tuple[Any, ...]) -> Any:
    """The elements at places; zero out of bounds."""
    count = len(places)
    if 0 in x.shape[:count]:
        return fnp.zeros((*places[0].shape, *x.shape[count:]), x.dtype)
    return x.at[places].get(mode="fill", fill_value=0)


def bcoo_todense(mat: BCOO) -> Any:
    """The dense array.

    Args:
      mat: the sparse array.
    """
    shape = (*mat.sparse_shape, *mat.dense_shape)

    def densify(data: Any, indices: Any) -> Any:
        return scatter(data, columns(indices), shape)

    return each_batch(densify, check_sparse("bcoo_todense", mat))


def bcoo_fromdense(
    mat: Value, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0,
    index_dtype: Any = np.int32,
) -> BCOO:  # fmt: skip
    """The elements of a dense array that are not zero.

    Args:
      mat: the array.
      nse: how many elements to store for each batch; by default as many as needed,
        which must be known: not under `jit`.
      n_batch, n_dense: how many of the first axes are of the batch, and of the last
        ones dense.
      index_dtype: of the indices.

    Raises:
      ValueRangeError: the array has not so many axes.

    Example:
      >>> from ftrace.experimental import sparse
      >>> x = sparse.bcoo_fromdense(fnp.array([[0, 3], [4, 0]]))
      >>> x.data
      Array([3, 4], dtype=int32)
      >>> x.indices
      Array([[0, 1],
             [1, 0]], dtype=int32)
    """
    x = fnp.asarray(mat)
    n_sparse = _count_sparse("bcoo_fromdense", x, n_batch, n_dense)
    last = tuple(range(n_batch + n_sparse, x.ndim))
    mask = (x != 0).any(last)
    if nse is None:
        counts = mask.sum(tuple(range(n_batch, mask.ndim)))
        nse = int(counts.max()) if counts.size else 0
    count, shape = operator.index(nse), x.shape[n_batch : n_batch + n_sparse]

    def store(x: Any, mask: Any) -> Any:
        if not n_sparse:
            first = (fnp.arange(count) == 0).reshape(-1, *(1,) * x.ndim)
            return x * first, fnp.zeros((count, 0), index_dtype)
        flat = fnp.nonzero(mask.ravel(), size=count, fill_value=mask.size)[0]
        places = fnp.unravel_index(fnp.minimum(flat, max(mask.size - 1, 0)), shape)
        found = flat < mask.size
        indices = stack(places, found, shape, index_dtype)
        return gather(x, columns(indices)), indices

    data, indices = batch(store, n_batch)(x, mask)
    return BCOO((data.astype(x.dtype), indices), shape=x.shape,
                indices_sorted=True, unique_indices=True)  # fmt: skip


def _count_sparse(what: str, x: Any, n_batch: int, n_dense: int) -> int:
    n_sparse = x.ndim - n_batch - n_dense
    if min(n_batch, n_dense, n_sparse) < 0:
        raise errors.ValueRangeError(
            f"{what}: n_batch={n_batch} and n_dense={n_dense} do not fit an array of "
            f"shape {x.shape}"
        )
    return n_sparse


def bcoo_extract(sparr: BCOO, arr: Value, *, assume_unique: bool | None = None) -> BCOO:
    """The elements of a dense array at the indices of a sparse one.

    Args:
      sparr: a BCOO.
      arr: a dense array of its shape.
      assume_unique: no index is there twice; by default what `sparr` knows. Otherwise
        the first of equal ones gets the element.

    Raises:
      ShapeError: the shapes differ.
    """
    x = fnp.asarray(arr)
    if x.shape != sparr.shape:
        raise errors.ShapeError(
            f"bcoo_extract: arrays of one shape are required, got {sparr.shape} and "
            f"{x.shape}"
        )
    unique = sparr.unique_indices if assume_unique is None else assume_unique

    def elements(data: Any, indices: Any, x: Any) -> Any:
        if sparr.n_sparse:
            found = gather(x, columns(indices))
        else:
            found = fnp.broadcast_to(x, (indices.shape[0], *x.shape))
        if unique:
            return found
        order, _, new, _ = _segments(indices, sparr.sparse_shape)
        return mask(found, fnp.zeros_like(new).at[order].set(new))

    return replace(sparr, each_batch(elements, sparr, x))


# Order and duplicates.


def _segments(indices: Any, shape: Shape) -> tuple[Any, Any, Any, Any]:
    """The order of the indices of one batch.

    Returns:
      It; and in it the segment of each index, whether it begins one, and the indices.
      Those out of bounds are last, and equal.
    """
    indices = limit(indices, inside(indices, shape), shape)
    count = indices.shape[0]
    if not shape or not count:
        order = fnp.arange(count)
        new = fnp.arange(count) == 0
    else:
        order = fnp.lexsort(columns(indices)[::-1])
        indices = indices[order]
        new = (indices[1:] != indices[:-1]).any(-1)
        new = fnp.concatenate([fnp.ones(1, bool), new])
    return order, fnp.cumsum(new) - 1, new, indices


def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """The elements in the order of their indices.

    Args:
      mat: the sparse array.
    """

    def order_by(data: Any, indices: Any) -> Any:
        order, _, _, indices = _segments(indices, mat.sparse_shape)
        return data[order], indices

    return BCOO(each_batch(order_by, check_sparse("bcoo_sort_indices", mat)),
                shape=mat.shape, indices_sorted=True,
                unique_indices=mat.unique_indices)  # fmt: skip


def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None) -> BCOO:
    """Each index once, in order; the elements of equal ones are added.

    Args:
      mat: the sparse array.
      nse: how many elements to store; by default as many as needed, which must be
        known: not under `jit`. What is more is lost.
    """
    shape = mat.sparse_shape

    def count(data: Any, indices: Any) -> Any:
        _, _, new, indices = _segments(indices, shape)
        return (new & inside(indices, shape)).sum()

    if nse is None:
        counts = each_batch(count, mat)
        nse = int(counts.max()) if counts.size else 0
    size = operator.index(nse)

    def add_up(data: Any, indices: Any) -> Any:
        order, segment, _, indices = _segments(indices, shape)
        data = mask(data[order], inside(indices, shape))
        limits = fnp.broadcast_to(cast(np.array(shape, np.int64), indices.dtype),
                                  (size, len(shape)))  # fmt: skip
        if not size or not indices.shape[0]:
            return fnp.zeros((size, *data.shape[1:]), data.dtype), limits
        found = scatter(data, (segment,), (size, *data.shape[1:]))
        return found, limits.at[segment].set(indices, mode="drop")

    return BCOO(each_batch(add_up, mat), shape=mat.shape, indices_sorted=True,
                unique_indices=True)  # fmt: skip


def bcoo_eliminate_zeros(mat: BCOO, nse: int | None = None) -> BCOO:
    """`bcoo_sum_duplicates` of the elements that are not zero.

    Args:
      mat: the sparse array.
      nse: how many elements to store; by default as many as needed, which must be
        known: not under `jit`. What is more is lost.
    """
    data, indices = full_batch(mat)
    some = (data != 0).any(tuple(range(mat.n_batch + 1, data.ndim)))
    indices = limit(indices, some, mat.sparse_shape)
    return bcoo_sum_duplicates(BCOO((data, indices), shape=mat.shape), nse)


# Layouts.


def bcoo_update_layout(
    mat: BCOO, *, n_batch: int | None = None, n_dense: int | None = None,
    on_inefficient: str | None = "error",
) -> BCOO:  # fmt: skip
    """The array with other numbers of axes of the batch and of dense ones.

    Args:
      mat: the sparse array.
      n_batch, n_dense: how many; None are as many as now.
      on_inefficient: "error", "warn" or None: what to do where an axis of more than one
        element becomes one of the batch or dense: zeros are stored for it.

    Raises:
      SparseEfficiencyError: an axis would store zeros.
      ValueRangeError: the array has not so many axes.
    """
    errors.one_of(
        "bcoo_update_layout: on_inefficient", on_inefficient, ("error", "warn", None)
    )
    batch = mat.n_batch if n_batch is None else operator.index(n_batch)
    dense = mat.n_dense if n_dense is None else operator.index(n_dense)
    _count_sparse("bcoo_update_layout", mat, batch, dense)
    grown = [*mat.shape[mat.n_batch : batch]]
    grown += mat.shape[mat.ndim - dense : mat.ndim - mat.n_dense]
    if on_inefficient and any(n > 1 for n in grown):
        text = (
            f"the layout n_batch={batch}, n_dense={dense} of an array of shape "
            f"{mat.shape} stores zeros; say on_inefficient=None to have it"
        )
        if on_inefficient == "error":
            raise SparseEfficiencyError(f"bcoo_update_layout: {text}")
        errors.warn_user(text, SparseEfficiencyWarning)
    if batch < mat.n_batch or dense < mat.n_dense:
        less = mat.n_batch - batch, mat.n_dense - dense
        mat = _to_sparse(mat, *[max(n, 0) for n in less])
    if (batch, dense) == (mat.n_batch, mat.n_dense):
        return mat
    return _from_sparse(mat, batch - mat.n_batch, dense - mat.n_dense)


def _to_sparse(mat: BCOO, batch: int, dense: int) -> BCOO:
    """The last axes of the batch and the first dense ones become sparse."""
    k, last, sizes = mat.n_batch - batch, mat.n_batch + 1, mat.dense_shape[:dense]
    data, indices = full_batch(mat)
    indices = fnp.expand_dims(indices, tuple(range(last, last + dense)))
    keep = inside(indices, mat.sparse_shape)
    keep = fnp.broadcast_to(keep, (*keep.shape[:last], *sizes))
    grid = np.indices((*mat.batch_shape[k:], 1, *sizes), sparse=True)
    rows = [*grid[:batch], *columns(indices), *grid[batch + 1 :]]
    indices = stack(rows, keep, mat.shape[k : k + len(rows)], mat.indices.dtype)
    lead = (*keep.shape[:k], math.prod(keep.shape[k:]))
    data = data.reshape(*lead, *data.shape[keep.ndim :])
    return BCOO((data, indices.reshape(*lead, len(rows))), shape=mat.shape)


def _from_sparse(mat: BCOO, batch: int, dense: int) -> BCOO:
    """The first sparse axes become ones of the batch, the last ones dense."""
    last = mat.n_sparse - dense
    sizes = mat.sparse_shape[:batch]

    def spread_out(data: Any, indices: Any) -> Any:
        first, rest = indices[:, :batch], indices[:, batch:last]
        places = (*columns(first), fnp.arange(mat.nse), *columns(indices[:, last:]))
        shape = (*sizes, mat.nse, *mat.sparse_shape[last:], *data.shape[1:])
        rest = fnp.broadcast_to(rest, (*sizes, *rest.shape))
        return scatter(data, places, shape), rest

    return BCOO(each_batch(spread_out, mat), shape=mat.shape)


def all_sparse(mat: BCOO) -> BCOO:
    """The array without axes of the batch and without dense ones."""
    return bcoo_update_layout(mat, n_batch=0, n_dense=0)


uncheck(__name__)  # also for the class, whose methods they are


@register_pytree_node_class
class BCOO(JAXSparse):
    """A sparse array: see the module.

    Args:
      args: (data, indices).
      shape: of the array.
      indices_sorted, unique_indices: what is known of the indices.

    Raises:
      ShapeError, DtypeError: they do not fit together.
    """

    indices: Any
    index_axes = 2

    def __init__(
        self, args: tuple[Value, Value], *, shape: Sequence[int],
        indices_sorted: bool = False, unique_indices: bool = False,
    ) -> None:  # fmt: skip
        self.data, self.indices = (fnp.asarray(x) for x in args)
        self.shape = tuple([operator.index(n) for n in shape])
        known = (("indices_sorted", indices_sorted), ("unique_indices", unique_indices))
        self.known = dict(known)
        if not dtypes.is_integer(self.indices.dtype) or self.indices.ndim < 2:
            raise errors.DtypeError(
                "BCOO: indices must be integers of two axes or more, got "
                f"{self.indices.dtype} of shape {self.indices.shape}"
            )
        self.n_batch = self.indices.ndim - 2
        batch, dense = self.batch_shape, self.dense_shape
        fits = self.data.ndim - 1 + self.n_sparse == len(self.shape)
        for part in (self.data.shape, self.indices.shape):
            part = part[: self.n_batch]
            fits = fits and len(part) == len(batch)
            fits = fits and all(n in (1, m) for n, m in zip(part, batch, strict=True))
        if not fits or self.data.shape[self.n_batch :] != (self.nse, *dense):
            raise errors.ShapeError(
                f"BCOO: data {self.data.shape} and indices {self.indices.shape} do not "
                f"fit an array of shape {self.shape}; see the shapes that the module "
                "ftrace.experimental.sparse.bcoo tells"
            )

    @property
    def nse(self) -> int:
        return self.indices.shape[-2]

    @property
    def n_sparse(self) -> int:
        return self.indices.shape[-1]

    @property
    def n_dense(self) -> int:
        return self.data.ndim - 1 - self.n_batch

    @property
    def sparse_shape(self) -> Shape:
        return self.shape[self.n_batch : self.n_batch + self.n_sparse]

    fromdense = staticmethod(bcoo_fromdense)

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCOO:
        """A matrix of `scipy.sparse`."""
        if n_dense or n_batch:
            raise errors.ValueRangeError(
                "from_scipy_sparse: n_dense and n_batch must be 0"
            )
        found = mat.tocoo()
        indices = np.stack([found.row, found.col], -1).astype(index_dtype or np.int32)
        return cls((fnp.asarray(found.data), indices), shape=found.shape)

    sort_indices, update_layout = bcoo_sort_indices, bcoo_update_layout

    def todense(self) -> Any:
        """The dense array."""
        return bcoo_todense(self)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
        """Each index once, in order, and no zeros.

        Args:
          nse: how many elements to store; by default as many as there are, which must
            be known: not under `jit`.
          remove_zeros: False keeps elements that are zero.
        """
        if remove_zeros:
            return bcoo_eliminate_zeros(self, nse)
        return bcoo_sum_duplicates(self, nse)

    def astype(self, dtype: Any) -> BCOO:
        return replace(self, self.data.astype(dtype))

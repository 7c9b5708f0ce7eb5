"""Products of vectors and matrices: dot, matmul, tensordot, outer, kron, cross, trace.

All are `contract` with names for the axes. `precision` is checked and has
no effect: products are always computed in full precision. `preferred_element_type` is
the dtype of the result, and of the sum if it holds more than that of the operands.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import update_wrapper
from inspect import Parameter, signature
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import ArgumentError, DtypeError, ShapeError
from ftrace.numpy import axes as ax, elementwise as ew
from ftrace.numpy.joining import concatenate
from ftrace.numpy.reductions import sum as add_up
from ftrace.numpy.shape import broadcast_arrays
from ftrace.trace.bind import bind, elementwise
from ftrace.trace.eager.composite import run_fused
from ftrace.trace.eager.function_objects import member
from ftrace.trace.eager.precision import check_precision
from ftrace.trace.primitives import broadcast as bc, elementwise as p
from ftrace.trace.tracing.tracer import Value, aval_of

__all__ = [
    "cross", "dot", "inner", "kron", "matmul", "matrix_transpose", "matvec", "outer",
    "tensordot", "trace", "vdot", "vecdot", "vecmat",
]  # fmt: skip

# The one form of every product of arrays: expand, multiply, sum.
#
# There is no matmul primitive. Both operands are brought to common axes, the ones that
# are summed last, by reshape and expand; then they are multiplied and added up. Devices
# recognise this, and never store the product.

Labels = Sequence[Hashable]


def alike(*operands: Value) -> list[Any]:
    """The operands in one dtype."""
    dtype, weak = ew.common_type(*operands)
    return [ax.cast(x, dtype, weak) for x in operands]


def promote(
    *operands: Value, preferred_element_type: Any = None
) -> tuple[list[Any], np.dtype[Any] | None]:
    """The factors of a product in one dtype, and the dtype to convert the sum to.

    A preferred dtype that holds more than the operands' is taken before multiplying;
    numbers of few bits are multiplied and added in a wide one.
    """
    kinds = [aval_of(x).dtype for x in operands]
    given: Sequence[Value] = operands
    if any(map(dtypes.is_narrow, kinds)):
        preferred_element_type = preferred_element_type or ew.common_type(*operands)[0]
        given = [ax.cast(ax.as_value(x), dtypes.widen(d))
                 for x, d in zip(operands, kinds, strict=True)]  # fmt: skip
    if preferred_element_type is None:
        return alike(*given), None
    dtype, _ = ew.common_type(*given)
    final = dtypes.as_dtype(preferred_element_type)
    joined, _ = dtypes.promote((dtype, False), (dtypes.widen(final), False))
    return [ax.cast(x, joined) for x in given], final


def finish(result: Any, dtype: np.dtype[Any] | None) -> Any:
    """A product in the dtype that was preferred for it."""
    return result if dtype is None else ax.cast(result, dtype)


def contract(
    name: str,
    x: Any,
    y: Any,
    x_labels: Labels,
    y_labels: Labels,
    out: Labels,
    repeats: bool = False,
) -> Any:
    """The sum of x·y over the labels that `out` does not have.

    Args:
      name: for messages.
      x, y: values of one dtype.
      x_labels, y_labels: a name for each axis; axes of one name run together, and
        where they stay a size of 1 repeats.
      out: the names of the axes of the result, in order.
      repeats: whether a size of 1 repeats where axes are summed, too.

    Raises:
      ShapeError: two axes of one name differ in size.
    """
    terms = (x_labels, y_labels)
    sizes = label_sizes(name, [x.shape, y.shape], terms, out, repeats)
    order = (*out, *[label for label in sizes if label not in out])
    shape = tuple(sizes[label] for label in order)
    return run_fused(
        _multiply_sum, [x, y], shape=shape, kept=len(out),
        x_axes=tuple(order.index(label) for label in x_labels),
        y_axes=tuple(order.index(label) for label in y_labels),
    )  # fmt: skip


def label_sizes(
    name: str,
    shapes: Sequence[tuple[int, ...]],
    terms: Sequence[Labels],
    out: Labels,
    repeats: bool = False,
) -> dict[Hashable, int]:
    """The size of each label of a product.

    Args:
      shapes, terms: of each operand its sizes and their labels.
      name, out, repeats: see `contract`.

    Raises:
      ShapeError: two axes of one name differ in size.
    """
    sizes: dict[Hashable, int] = {}
    for shape, labels in zip(shapes, terms, strict=True):
        for label, size in zip(labels, shape, strict=True):
            if (known := sizes.setdefault(label, size)) == size:
                continue
            if 1 not in (size, known) or not (repeats or label in out):
                letter = f" {label!r}" if repeats and str(label).isascii() else ""
                pairs = zip(shapes, terms, strict=True)
                listed = " and ".join([f"{s}" for s, t in pairs if label in t])
                raise ShapeError(
                    f"{name}: the shapes {listed} do not fit: sizes {known} and {size} "
                    f"of the axis{letter} that they share differ; transpose or reshape "
                    "one of them"
                )
            sizes[label] = size if known == 1 else known
    return sizes


def _multiply_sum(
    x: Any,
    y: Any,
    shape: tuple[int, ...],
    kept: int,
    x_axes: tuple[int, ...],
    y_axes: tuple[int, ...],
) -> Any:
    """The sum over all axes but the first `kept`; `x_axes` says where those of x go."""
    is_bool = x.dtype == dtypes.bool_
    if is_bool and kept < len(shape):
        x, y = ax.cast(x, dtypes.int32), ax.cast(y, dtypes.int32)
    product = bind(p.mul, _align_axes(x, x_axes, shape), _align_axes(y, y_axes, shape))
    axes = tuple(range(kept, len(shape)))
    if not axes:
        return product
    result = ax.drop_axes(bind(bc.reduce_sum_p, product, arg=axes), axes)
    return ax.cast(result, dtypes.bool_) if is_bool else result


def _align_axes(x: Any, axes: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """`x` with its axes at the positions `axes` of `shape`; it repeats elsewhere."""
    x = ax.permute(x, ax.inverse(axes))
    missing = [a for a in range(len(shape)) if a not in axes]
    return ax.expand(ax.insert_axes(x, missing), shape)


def dot_axes(
    name: str,
    x: Value,
    y: Value,
    axes: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> Any:
    """The product over pairs of axes: the axes of batch, then the rest of x, then of y.

    Args:
      name: for messages.
      x, y: values of one dtype.
      axes: the axes of x and of y to sum over, pair by pair.
      batch: the axes of x and of y that run together.
    """
    x, y = ax.as_value(x), ax.as_value(y)
    x_labels: list[Hashable] = [("x", a) for a in range(x.ndim)]
    y_labels: list[Hashable] = [("y", a) for a in range(y.ndim)]
    shared: list[Hashable] = []
    for a, b in zip(batch[0], batch[1], strict=True):
        shared.append(x_labels[a])
        y_labels[b] = x_labels[a]
    for a, b in zip(axes[0], axes[1], strict=True):
        y_labels[b] = x_labels[a]
    gone = {x_labels[a] for a in axes[0]}
    used = {*gone, *shared}
    out = [label for label in (*x_labels, *y_labels) if label not in used]
    return contract(name, x, y, x_labels, y_labels, [*shared, *out])


# Products.


Dtype = Any


def product(core: Callable[..., Any]) -> Callable[..., Any]:
    """A product of two arrays of one dtype, as of any two, as users call it.

    Further arguments are `precision`, which is checked, and `preferred_element_type`.
    """

    def call(
        a: Value, b: Value, *args: Any, precision: Any = None,
        preferred_element_type: Dtype = None, **options: Any,
    ) -> Any:  # fmt: skip
        check_precision(core.__name__, precision)
        (x, y), final = promote(a, b, preferred_element_type=preferred_element_type)
        return finish(core(x, y, *args, **options), final)

    made, kind = update_wrapper(call, core), Parameter.KEYWORD_ONLY
    types = {"precision": "Any", "preferred_element_type": "Dtype"}
    more = [Parameter(n, kind, default=None, annotation=t) for n, t in types.items()]
    known = signature(core)
    given = [
        x.replace(annotation="Value") if i < 2 else x
        for i, x in enumerate(known.parameters.values())
    ]
    vars(made)["__signature__"] = known.replace(parameters=[*given, *more])
    return made


@product
def dot(a: Any, b: Any) -> Any:
    """The product over the last axis of a and the second to last (or only) one of b.

        dot(a, b)[i, j, k, m] = Σₙ a[i, j, n]·b[k, n, m]

    Args:
      a, b: arrays or numbers; their dtypes promote. Beside a number it is `multiply`.
      precision: accepted, without effect.
      preferred_element_type: dtype of the result, and of the sum if it holds more.

    Returns:
      The other axes of a, then those of b. float16 and bfloat16 are added in float32.

    Raises:
      ShapeError: these axes differ in size.

    Example:
      >>> fnp.dot(fnp.array([1, 2]), fnp.array([3, 4]))
      Array(11, dtype=int32)
      >>> fnp.dot(fnp.array([[1, 2], [3, 4]]), fnp.array([1, 10]))
      Array([21, 43], dtype=int32)
    """
    return _along_last("dot", a, b, 2)


def _along_last(name: str, x: Any, y: Any, back: int) -> Any:
    if x.ndim == 0 or y.ndim == 0:
        return elementwise(p.mul, x, y)
    axes = ((x.ndim - 1,), (max(y.ndim - back, 0),))
    return dot_axes(name, x, y, axes)


@product
def matmul(a: Any, b: Any) -> Any:
    """The matrix product over the last two axes; the axes before them broadcast.

        matmul(a, b)[…, i, j] = Σₖ a[…, i, k]·b[…, k, j]

    Args:
      a: (…, m, k), or (k,).
      b: (…, k, n), or (k,).
      precision: accepted, without effect.
      preferred_element_type: dtype of the result.

    Returns:
      (…, m, n), without the axis that an operand of one axis lacks.

    Raises:
      ShapeError: the sizes k differ, an operand is a scalar, or the other axes do not
        broadcast.

    Example:
      >>> x = fnp.array([[1, 2], [3, 4]])
      >>> fnp.matmul(x, x)
      Array([[ 7, 10],
             [15, 22]], dtype=int32)
      >>> x @ fnp.array([1, 10])
      Array([21, 43], dtype=int32)
      >>> (fnp.ones((5, 2, 3)) @ fnp.ones((3, 4))).shape
      (5, 2, 4)
    """
    a_core = "mk" if a.ndim > 1 else "k"
    b_core = "kn" if b.ndim > 1 else "k"
    return _batch("matmul", a, b, a_core, b_core)


def _check_axes(name: str, x: Any, of_x: int, y: Any, of_y: int) -> None:
    for value, count, which in ((x, of_x, "first"), (y, of_y, "second")):
        instead = "reshape it, or use multiply for scalars"
        ax.need_axes(name, value, count, f"{which} operand", instead)


def _batch(name: str, x: Any, y: Any, x_core: str, y_core: str) -> Any:
    """A product over "k" of the last axes; the others broadcast as NumPy's do."""
    _check_axes(name, x, len(x_core), y, len(y_core))
    depth = max(x.ndim - len(x_core), y.ndim - len(y_core))

    def labels(ndim: int, core: str) -> list[Any]:
        return [*range(depth - (ndim - len(core)), depth), *core]

    core = [label for label in x_core + y_core if label != "k"]
    out = [*range(depth), *core]
    return contract(name, x, y, labels(x.ndim, x_core), labels(y.ndim, y_core), out)


def _matrix_and_vector(name: str, x_core: str, y_core: str):
    def product(x1: Value, x2: Value, /) -> Any:
        """A product of matrices and vectors.

        Args:
          x1, x2: arrays; the axes before those of the product broadcast, and the dtypes
            promote.

        Raises:
          ShapeError: the shapes do not fit.
        """
        (x, y), final = promote(x1, x2)
        x = ew.conjugate(x) if x_core == "k" else x
        return finish(_batch(name, x, y, x_core, y_core), final)

    return product


@member(_matrix_and_vector, "mk", "k")
def matvec():
    """(…, m, k) times (…, k): matrices and vectors; the axes before broadcast.

    Example:
      >>> fnp.matvec(fnp.array([[1, 2], [3, 4]]), fnp.array([1, 10]))
      Array([21, 43], dtype=int32)
    """


@member(_matrix_and_vector, "k", "kn")
def vecmat():
    """Conjugated (…, k) times (…, k, n): vectors and matrices; the rest broadcasts.

    Example:
      >>> fnp.vecmat(fnp.array([1, 10]), fnp.array([[1, 2], [3, 4]]))
      Array([31, 42], dtype=int32)
    """


@product
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The dot product along `axis` of conjugated x1 and x2; the other axes broadcast.

    Args:
      x1, x2: arrays; their dtypes promote.
      axis: along which to add, counted in each array.
      precision: accepted, without effect.
      preferred_element_type: dtype of the result.

    Raises:
      ShapeError: the shapes do not fit.

    Example:
      >>> fnp.vecdot(fnp.array([[1, 2], [3, 4]]), fnp.array([1, 10]))
      Array([21, 43], dtype=int32)
    """
    _check_axes("vecdot", x1, 1, x2, 1)
    x, y = (
        ax.move_axis(v, ax.canonical_axis(axis, v.ndim, "vecdot"), v.ndim - 1)
        for v in (x1, x2)
    )
    return _batch("vecdot", ew.conjugate(x), y, "k", "k")


@product
def vdot(a: Any, b: Any) -> Any:
    """The dot product of conjugated a and b, both flattened.

    Args:
      a, b: arrays of as many elements; their dtypes promote.
      precision: accepted, without effect.
      preferred_element_type: dtype of the result.

    Returns:
      A scalar.

    Raises:
      ShapeError: they differ in their number of elements.

    Example:
      >>> fnp.vdot(fnp.array([1, 2j]), fnp.array([3, 4j]))
      Array(11.+0.j, dtype=complex64)
    """
    x, y = ax.reshape(ew.conjugate(a), (a.size,)), ax.reshape(b, (b.size,))
    return dot_axes("vdot", x, y, ((0,), (0,)))


@product
def inner(a: Any, b: Any) -> Any:
    """The product over the last axis of both.

        inner(a, b)[i, j] = Σₖ a[i, k]·b[j, k]

    Args:
      a, b: arrays or numbers; their dtypes promote. Beside a number it is `multiply`.
      precision: accepted, without effect.
      preferred_element_type: dtype of the result.

    Returns:
      The other axes of a, then those of b.

    Raises:
      ShapeError: these axes differ in size.

    Example:
      >>> fnp.inner(fnp.array([[1, 2], [3, 4]]), fnp.array([1, 10]))
      Array([21, 43], dtype=int32)
    """
    return _along_last("inner", a, b, 1)


@product
def tensordot(a: Any, b: Any, axes: int | Sequence[Any] = 2) -> Any:
    """The product over pairs of axes; the other axes of a, then those of b, stay.

    Args:
      a, b: the arrays; their dtypes promote.
      axes: how many axes, the last of a with the first of b; or the axes of a and
        the axes of b.
      precision: accepted, without effect.
      preferred_element_type: dtype of the result.

    Raises:
      ShapeError: the axes of a pair differ in size, or are not given in pairs.
      ValueRangeError: there are not so many axes.

    Example:
      >>> a, b = fnp.ones((2, 3, 4)), fnp.ones((4, 3, 5))
      >>> fnp.tensordot(a, b, axes=1).shape
      (2, 3, 3, 5)
      >>> fnp.tensordot(a, b, axes=((1, 2), (1, 0))).shape
      (2, 5)
    """
    pair: Any = ax.entries(axes)
    if pair is None:
        most = min(a.ndim, b.ndim)
        count = ax.static_int(axes, "tensordot: the number of axes", 0, most)
        pair = range(a.ndim - count, a.ndim), range(count)
    if len(pair) != 2:
        raise ArgumentError(
            "tensordot: axes must be a number, or the axes of a and the axes of b: "
            f"axes=((1, 2), (0, 1)); got {axes!r}"
        )
    of_a = ax.canonical_axes(pair[0], a.ndim, "tensordot")
    of_b = ax.canonical_axes(pair[1], b.ndim, "tensordot")
    if [a.shape[i] for i in of_a] != [b.shape[i] for i in of_b]:
        raise ShapeError(
            f"tensordot: the shapes {a.shape} and {b.shape} differ along the axes "
            f"{of_a} and {of_b}; each pair must have one size"
        )
    return dot_axes("tensordot", a, b, (of_a, of_b))


def outer(a: Value, b: Value, out: None = None) -> Any:
    """Every element of a times every element of b.

    Args:
      a, b: arrays, which are flattened; their dtypes promote.
      out: not supported.

    Returns:
      (a.size, b.size).

    Example:
      >>> fnp.outer(fnp.array([1, 2]), fnp.array([1, 10, 100]))
      Array([[  1,  10, 100],
             [  2,  20, 200]], dtype=int32)
    """
    ax.no_out("outer", out)
    x, y = alike(a, b)
    return elementwise(p.mul, ax.reshape(x, (x.size, 1)), ax.reshape(y, (1, y.size)))


def kron(a: Value, b: Value) -> Any:
    """The Kronecker product: b scaled by each element of a, as blocks.

    Args:
      a, b: the arrays; their dtypes promote. New axes stand in front of the one that
        has fewer.

    Returns:
      An array whose sizes are the products of theirs.

    Example:
      >>> fnp.kron(fnp.array([1, 10]), fnp.array([1, 2]))
      Array([ 1,  2, 10, 20], dtype=int32)
    """
    x, y = alike(a, b)
    ndim = max(x.ndim, y.ndim)
    x = ax.insert_axes(x, range(ndim - x.ndim))
    y = ax.insert_axes(y, range(ndim - y.ndim))
    shape = tuple(n * m for n, m in zip(x.shape, y.shape, strict=True))
    blocks = ax.insert_axes(x, range(1, 2 * ndim, 2))
    inside = ax.insert_axes(y, range(0, 2 * ndim, 2))
    return ax.reshape(elementwise(p.mul, blocks, inside), shape)


def cross(
    a: Value,
    b: Value,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Any:
    """The cross product of vectors of 2 or 3 components.

    Args:
      a, b: vectors along `axisa` and `axisb`; the other axes broadcast.
      axisa, axisb, axisc: the axes of the components of a, b and the result.
      axis: all three at once.

    Returns:
      3 components along `axisc`; of two vectors of 2 components, the third alone.

    Raises:
      ShapeError: there are neither 2 nor 3 components.
      DtypeError: the vectors hold bools.

    Example:
      >>> fnp.cross(fnp.array([1, 0, 0]), fnp.array([0, 1, 0]))
      Array([0, 0, 1], dtype=int32)
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = alike(a, b)
    if x.dtype == dtypes.bool_:
        raise DtypeError("cross: bools have no differences; cast them to integers")
    x = ax.move_axis(x, ax.canonical_axis(axisa, x.ndim, "cross"), x.ndim - 1)
    y = ax.move_axis(y, ax.canonical_axis(axisb, y.ndim, "cross"), y.ndim - 1)
    if x.shape[-1] not in (2, 3) or y.shape[-1] not in (2, 3):
        raise ShapeError(
            "cross: vectors must have 2 or 3 components, got "
            f"{x.shape[-1]} along axis {axisa} and {y.shape[-1]} along axis {axisb}"
        )
    planar = x.shape[-1] == y.shape[-1] == 2
    x0, x1, x2 = _components(x)
    y0, y1, y2 = _components(y)
    third = x0 * y1 - x1 * y0
    if planar:
        return ax.drop_axes(third, (third.ndim - 1,))
    parts = [x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, third]
    last = third.ndim - 1
    place = ax.canonical_axis(axisc, last + 1, "cross")
    return ax.move_axis(concatenate(broadcast_arrays(*parts), last), last, place)


def _components(x: Any) -> list[Any]:
    """Three of them: the last is 0 where there are two."""
    x = ax.pad_axis(x, x.ndim - 1, 0, 3 - x.shape[-1])
    return [x[..., i : i + 1] for i in range(3)]


def matrix_transpose(x: Value, /) -> Any:
    """The last two axes exchanged.

    Args:
      x: (…, m, n).

    Returns:
      (…, n, m).

    Raises:
      ShapeError: there are fewer than two.

    Example:
      >>> fnp.matrix_transpose(fnp.array([[1, 2], [3, 4]]))
      Array([[1, 3],
             [2, 4]], dtype=int32)
    """
    x = ax.need_axes("matrix_transpose", x, 2)
    last = x.ndim - 1
    return ax.permute(x, (*range(last - 1), last, last - 1))


def diagonal_of(x: Any, axis1: int, axis2: int, offset: int = 0) -> Any:
    """The diagonal of two axes, as a new last axis: movement alone.

    In row-major order it is one element of each row and one more.
    """
    order = [a for a in range(x.ndim) if a not in (axis1, axis2)]
    x = ax.permute(x, (*order, axis1, axis2))
    *rest, rows, columns = x.shape
    top, left = max(-offset, 0), max(offset, 0)
    size = max(min(rows - top, columns - left), 0)
    keep = [(0, n) for n in rest]
    if size == 0:
        return ax.reshape(ax.shrink(x, (*keep, (0, 0), (0, 0))), (*rest, 0))
    flat = ax.reshape(x, (*rest, rows * columns))
    first, step = top * columns + left, columns + 1
    part = ax.shrink(flat, (*keep, (first, first + (size - 1) * step + 1)))
    return ax.stride(part, (*[1] * len(rest), step))


def check_diagonal(name: str, a: Value, offset: int, axis1: int, axis2: int) -> Any:
    """The diagonal of two axes that are to be there, and to differ."""
    x = ax.need_axes(name, a, 2)
    rows, columns = (ax.canonical_axis(i, x.ndim, name) for i in (axis1, axis2))
    if rows == columns:
        raise ShapeError(f"{name}: axis1 and axis2 are both {rows}; they must differ")
    return diagonal_of(x, rows, columns, ax.static_int(offset, f"{name}: offset"))


def trace(
    a: Value,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: Dtype = None,
    out: None = None,
) -> Any:
    """The sum of a diagonal of two axes.

    Args:
      a: the array.
      offset: above (positive) or below (negative) the main diagonal.
      axis1, axis2: rows and columns.
      dtype: in which to add.
      out: not supported.

    Returns:
      An array without the two axes.

    Raises:
      ShapeError: there are fewer than two axes, or axis1 is axis2.

    Example:
      >>> fnp.trace(fnp.array([[1, 2], [3, 4]]))
      Array(5, dtype=int32)
      >>> fnp.trace(fnp.array([[1, 2], [3, 4]]), offset=1)
      Array(2, dtype=int32)
    """
    ax.no_out("trace", out)
    return add_up(check_diagonal("trace", a, offset, axis1, axis2), -1, dtype)

"""Products of arrays under JAX's `lax` names: dot, dot_general, batch_matmul."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ftrace.errors import ArgumentError, ShapeError
from ftrace.lax.elementwise import check_dtypes
from ftrace.lax.options import DotDimensionNumbers, PrecisionLike
from ftrace.numpy.axes import as_value, canonical_axes
from ftrace.numpy.contraction import dot_axes, finished, promoted
from ftrace.trace.tracer import Value, aval_of

__all__ = ["batch_matmul", "dot", "dot_general"]


def dot_general(
    lhs: Value,
    rhs: Value,
    dimension_numbers: DotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """The product over pairs of axes, with further pairs as batch.

    Args:
      lhs, rhs: the arrays.
      dimension_numbers: ((axes of lhs, axes of rhs) to sum over, (axes of lhs, axes
        of rhs) of the batch).
      precision: accepted, without effect.
      preferred_element_type: dtype of the result, and of the sum if it holds more.
      out_sharding: accepted, without effect.

    Returns:
      The axes of the batch, then those left of lhs, then those left of rhs.

    Raises:
      ShapeError: the axes of a pair differ in size, or are not given in pairs.
    """
    x, y = as_value(lhs), as_value(rhs)
    try:
        (of_x, of_y), (batch_x, batch_y) = dimension_numbers
    except (TypeError, ValueError):
        raise ArgumentError(
            "lax.dot_general: dimension_numbers must be ((lhs axes, rhs axes), (lhs "
            f"batch, rhs batch)), got {dimension_numbers!r}"
        ) from None
    name = "lax.dot_general"
    x_axes = canonical_axes(tuple(of_x), x.ndim, name)
    y_axes = canonical_axes(tuple(of_y), y.ndim, name)
    x_batch = canonical_axes(tuple(batch_x), x.ndim, name)
    y_batch = canonical_axes(tuple(batch_y), y.ndim, name)
    canonical_axes(x_axes + x_batch, x.ndim, name)
    canonical_axes(y_axes + y_batch, y.ndim, name)
    _check_pairs("contracting", x.shape, y.shape, x_axes, y_axes)
    _check_pairs("batch", x.shape, y.shape, x_batch, y_batch)
    (x, y), final = promoted(x, y, preferred_element_type=preferred_element_type)
    return finished(dot_axes(name, x, y, (x_axes, y_axes), (x_batch, y_batch)), final)


def _check_pairs(
    what: str,
    x_shape: tuple[int, ...],
    y_shape: tuple[int, ...],
    x_axes: Sequence[int],
    y_axes: Sequence[int],
) -> None:
    if [x_shape[a] for a in x_axes] != [y_shape[a] for a in y_axes]:
        raise ShapeError(
            f"lax.dot_general: the {what} axes {x_axes} of {x_shape} and {y_axes} of "
            f"{y_shape} must pair up, with one size each"
        )


def dot(
    lhs: Value,
    rhs: Value,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    *,
    dimension_numbers: DotDimensionNumbers | None = None,
    out_sharding: Any = None,
) -> Any:
    """The product of vectors and matrices; `dot_general` where axes are given.

    Raises:
      ShapeError: an operand has not one axis or two, or the sizes differ.
      DtypeError: the dtypes differ.
    """
    x, y = aval_of(lhs), aval_of(rhs)
    check_dtypes("dot", lhs, rhs)
    if dimension_numbers is None:
        if not (1 <= x.ndim <= 2 and 1 <= y.ndim <= 2) or x.shape[-1] != y.shape[0]:
            raise ShapeError(
                f"lax.dot: the shapes {x.shape} and {y.shape} do not fit: vectors and "
                "matrices are required, the last axis of one the first of the other"
            )
        dimension_numbers = (((x.ndim - 1,), (0,)), ((), ()))
    return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs: Value, rhs: Value, precision: PrecisionLike = None) -> Any:
    """Stacks of matrices multiplied pair by pair.

    Raises:
      ShapeError: they have not the same leading axes, or fewer than two axes.
      DtypeError: the dtypes differ.
    """
    x, y = aval_of(lhs), aval_of(rhs)
    check_dtypes("batch_matmul", lhs, rhs)
    if min(x.ndim, y.ndim) < 2 or x.shape[:-2] != y.shape[:-2]:
        raise ShapeError(
            f"lax.batch_matmul: the shapes {x.shape} and {y.shape} must agree in all "
            "axes but the last two"
        )
    batch = tuple(range(x.ndim - 2))
    axes = (((x.ndim - 1,), (x.ndim - 2,)), (batch, batch))
    return dot_general(lhs, rhs, axes, precision)

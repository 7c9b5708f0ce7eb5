"""A tree of arrays as one vector, and back."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import DtypeError, ShapeError
from ftrace.ground.missing_names import tell_missing
from ftrace.numpy.axes import cast
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.tracer import aval_of


def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """All leaves joined into a vector, and the function that takes it apart again.

    Args:
      pytree: of arrays and numbers.

    Returns:
      The vector, in the dtype to which those of the leaves promote, and
      `unravel(vector)`: a tree of the same structure, shapes and dtypes. `unravel`
      raises a ShapeError or DtypeError for a vector of another size or dtype.
    """
    leaves, treedef = tree.flatten(pytree)
    if not leaves:
        empty = fnp.zeros((0,), dtypes.default_dtype("f"))
        return empty, lambda vector: tree.unflatten(treedef, [])
    avals = [aval_of(leaf) for leaf in leaves]
    dtype, weak = dtypes.promote(*[(aval.dtype, aval.weak_type) for aval in avals])
    ends = list(accumulate(aval.size for aval in avals))
    parts = [cast(fnp.ravel(leaf), dtype, weak) for leaf in leaves]

    def unravel(vector: Any) -> Any:
        found = aval_of(vector)
        if found.shape != (ends[-1],):
            raise ShapeError(
                f"unravel: required is a vector of {ends[-1]} elements, got {found!r}"
            )
        if found.dtype != dtype:
            raise DtypeError(
                f"unravel: required is a vector of dtype {dtype}, got {found!r}; "
                "convert it with .astype"
            )
        pieces: list[Any] = []
        for aval, end in zip(avals, ends, strict=True):
            piece = fnp.reshape(vector[end - aval.size : end], aval.shape)
            pieces.append(cast(piece, aval.dtype, found.weak_type and aval.weak_type))
        return tree.unflatten(treedef, pieces)

    return fnp.concatenate(parts), unravel


tell_missing(__name__)

"""A tree of arrays as one vector, and back."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import DtypeError, ShapeError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.missing_names import tell_missing
from ftrace.numpy.axes import cast
from ftrace.trace.avals import ShapedArray
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.tracer import aval_of

__all__ = ["ravel_pytree"]


@dataclass(frozen=True)
class _Unravel:
    """A tree of what `ravel_pytree` joined; equal ones are one static argument."""

    treedef: tree.TreeDef
    avals: tuple[ShapedArray, ...]
    dtype: np.dtype[Any]

    def __call__(self, vector: Any) -> Any:
        found, ends = aval_of(vector), [*accumulate(aval.size for aval in self.avals)]
        if self.avals and found.shape != (ends[-1],):
            raise ShapeError(
                f"unravel: required is a vector of {ends[-1]} elements, got {found!r}"
            )
        one = {aval.dtype for aval in self.avals} == {self.dtype}
        if found.dtype != self.dtype and self.avals and not one:
            raise DtypeError(
                f"unravel: required is a vector of dtype {self.dtype}, got {found!r}; "
                "convert it with .astype"
            )
        pieces: list[Any] = []
        for aval, end in zip(self.avals, ends, strict=True):
            piece = fnp.reshape(vector[end - aval.size : end], aval.shape)
            dtype = found.dtype if one else aval.dtype
            pieces.append(cast(piece, dtype, found.weak_type and aval.weak_type))
        return tree.unflatten(self.treedef, pieces)


def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """All leaves joined into a vector, and the function that takes it apart again.

    Args:
      pytree: of arrays and numbers.

    Returns:
      The vector, in the dtype to which those of the leaves promote, float32 among them
      for a Python float, and
      `unravel(vector)`: a tree of the same structure, shapes and dtypes; where the
      leaves have one dtype, in that of the vector. `unravel` raises a ShapeError or
      DtypeError for a vector of another size or dtype.

    Example:
      >>> from ftrace.flatten_util import ravel_pytree
      >>> tree = {"a": fnp.array([1.0, 2.0]), "b": fnp.array(3.0)}
      >>> vector, unravel = ravel_pytree(tree)
      >>> vector
      Array([1., 2., 3.], dtype=float32)
      >>> unravel(2 * vector)
      {'a': Array([2., 4.], dtype=float32), 'b': Array(6., dtype=float32)}
    """
    leaves, treedef = tree.flatten(pytree)
    if not leaves:
        empty = fnp.zeros((0,), dtypes.default_dtype("f"))
        return empty, _Unravel(treedef, (), empty.dtype)
    avals = tuple([aval_of(leaf) for leaf in leaves])
    dtype, _ = dtypes.promote(*[(aval.dtype, False) for aval in avals])
    weak = {(aval.dtype, aval.weak_type) for aval in avals} == {(dtype, True)}
    parts = [cast(fnp.ravel(leaf), dtype, weak) for leaf in leaves]
    return fnp.concatenate(parts), _Unravel(treedef, avals, dtype)


tell_missing(__name__)

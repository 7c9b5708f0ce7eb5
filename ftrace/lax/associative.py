"""associative_scan: running combinations by any associative function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ftrace.errors import ArgumentError, ShapeError, TreeError
from ftrace.numpy.axes import as_value, canonical_axis, flip
from ftrace.numpy.cumulative import combine_axis
from ftrace.trace import tree

__all__ = ["associative_scan"]


def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """Each element combined with all before it, by pairs: O(n) calls' worth of work.

    Args:
      fn: an associative function fn(a, b) of two trees like `elems`, whose leaves are
        slices of any length along the axis; it acts on them element by element.
      elems: an array, or a tree of arrays that have one size along the axis.
      reverse: combine each element with all behind it: of [x, y, z] the first result
        is fn(fn(z, y), x).
      axis: along which to combine.

    Returns:
      A tree like `elems`.

    Raises:
      ArgumentError: `fn` is no function.
      ShapeError: the sizes along the axis differ.
      TreeError: `fn` returns a tree of another structure.
    """
    if not callable(fn):
        raise ArgumentError(f"lax.associative_scan: fn must be callable, got {fn!r}")
    leaves, treedef = tree.flatten(elems)
    values = [as_value(x) for x in leaves]
    if not values:
        return elems
    axes = [canonical_axis(axis, x.ndim, "lax.associative_scan") for x in values]
    sizes = {x.shape[a] for x, a in zip(values, axes, strict=True)}
    if len(sizes) != 1 or len(set(axes)) != 1:
        raise ShapeError(
            f"lax.associative_scan: all arrays must have one size along axis {axis}, "
            f"counted alike; got shapes {[x.shape for x in values]}"
        )
    place = axes[0]

    def combine(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        result = fn(tree.unflatten(treedef, left), tree.unflatten(treedef, right))
        found, structure = tree.flatten(result)
        if structure != treedef:
            raise TreeError(
                f"lax.associative_scan: fn must return a tree like its arguments, "
                f"{tree.readable(treedef)}; got {tree.readable(structure)}"
            )
        return [as_value(x) for x in found]

    if reverse:
        values = [flip(x, (place,)) for x in values]
    results = combine_axis(combine, values, place)
    if reverse:
        results = [flip(x, (place,)) for x in results]
    return tree.unflatten(treedef, results)

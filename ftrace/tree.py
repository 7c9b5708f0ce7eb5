"""Pytrees under JAX's short names: `ftrace.tree.map(f, params, grads)`."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ftrace.ground.missing_names import tell_missing
from ftrace.tree_util import (
    tree_all as all,
    tree_broadcast as broadcast,
    tree_flatten as flatten,
    tree_flatten_with_path as flatten_with_path,
    tree_leaves as leaves,
    tree_leaves_with_path as leaves_with_path,
    tree_map as map,
    tree_map_with_path as map_with_path,
    tree_reduce as reduce,
    tree_reduce_associative as reduce_associative,
    tree_structure as structure,
    tree_transpose as transpose,
    tree_unflatten as unflatten,
)

__all__ = [
    "all", "broadcast", "flatten", "flatten_with_path", "leaves", "leaves_with_path",
    "map", "map_with_path", "reduce", "reduce_associative", "static", "structure",
    "transpose", "unflatten",
]  # fmt: skip


def static(*, metadata: Mapping[str, Any] | None = None, **options: Any) -> Any:
    """`dataclasses.field` that `register_dataclass` takes as part of the structure.

    Args:
      metadata: more of it for the field.
      options: the others of `dataclasses.field`.

    Example:
      >>> import dataclasses
      >>> @ft.tree_util.register_dataclass
      ... @dataclasses.dataclass
      ... class Layer:
      ...     w: object
      ...     name: str = ft.tree.static(default="dense")
      >>> ft.tree.leaves(Layer(w=3))
      [3]
    """
    return dataclasses.field(metadata={"static": True, **(metadata or {})}, **options)


tell_missing(__name__)

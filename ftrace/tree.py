"""Pytrees under JAX's short names: `ftrace.tree.map(f, params, grads)`."""

from ftrace.tree_util import tree_all as all
from ftrace.tree_util import tree_broadcast as broadcast
from ftrace.tree_util import tree_flatten as flatten
from ftrace.tree_util import tree_flatten_with_path as flatten_with_path
from ftrace.tree_util import tree_leaves as leaves
from ftrace.tree_util import tree_leaves_with_path as leaves_with_path
from ftrace.tree_util import tree_map as map
from ftrace.tree_util import tree_map_with_path as map_with_path
from ftrace.tree_util import tree_reduce as reduce
from ftrace.tree_util import tree_reduce_associative as reduce_associative
from ftrace.tree_util import tree_structure as structure
from ftrace.tree_util import tree_transpose as transpose
from ftrace.tree_util import tree_unflatten as unflatten

__all__ = [
    "all", "broadcast", "flatten", "flatten_with_path", "leaves", "leaves_with_path",
    "map", "map_with_path", "reduce", "reduce_associative", "structure", "transpose",
    "unflatten",
]  # fmt: skip

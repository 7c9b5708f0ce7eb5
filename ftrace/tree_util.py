"""Pytrees under JAX's long names: `tree_map`, `tree_flatten`, `register_…`, paths."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ftrace.errors import ArgumentError, TreeError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.missing_names import tell_missing
from ftrace.trace.flatten_arguments import NOT_GIVEN
from ftrace.trace.pytree import tree as _tree
from ftrace.trace.pytree.tree import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    IsLeaf,
    KeyEntry,
    KeyPath,
    SequenceKey,
    keystr,
)
from ftrace.trace.pytree.treedef import PyTreeDef, join_structures, spec_of

T = TypeVar("T")

__all__ = [
    "all_leaves", "flatten_one_level", "flatten_one_level_with_keys", "is_tree_node",
    "tree_all", "tree_broadcast", "tree_flatten", "tree_leaves", "tree_map",
    "tree_reduce", "tree_reduce_associative", "tree_structure", "tree_transpose",
    "tree_unflatten",
    "tree_flatten_with_path", "tree_leaves_with_path", "tree_map_with_path",
    "DictKey", "FlattenedIndexKey", "GetAttrKey", "KeyEntry", "KeyPath", "SequenceKey",
    "keystr",
    "PyTreeDef", "treedef_children", "treedef_is_leaf", "treedef_tuple",
    "PyTreeRegistry", "default_registry",
    "Partial", "register_dataclass", "register_pytree_node",
    "register_pytree_node_class", "register_pytree_with_keys",
    "register_pytree_with_keys_class", "register_static",
]  # fmt: skip

tree_leaves = _tree.leaves
tree_map = _tree.map


def tree_flatten(
    tree: Any, is_leaf: IsLeaf | None = None
) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a tree, and its structure.

    Args:
      tree: any tree.
      is_leaf: stops at what it holds for, and takes that for a leaf.

    Returns:
      (leaves, treedef); `tree.unflatten(treedef, leaves)` is the tree again.

    Raises:
      TreeError: the keys of a dictionary cannot be sorted.

    Example:
      >>> leaves, treedef = ft.tree.flatten({"b": [1, 2], "a": 3})
      >>> leaves, treedef
      ([3, 1, 2], PyTreeDef({'a': *, 'b': [*, *]}))
    """
    found, spec = _tree.flatten(tree, is_leaf)
    return found, PyTreeDef(spec)


def tree_structure(tree: Any, is_leaf: IsLeaf | None = None) -> PyTreeDef:
    """The structure of a tree: compares, hashes, and unflattens leaves.

    Args:
      tree: any tree.
      is_leaf: stops at what it holds for, and takes that for a leaf.

    Raises:
      TreeError: the keys of a dictionary cannot be sorted.

    Example:
      >>> ft.tree.structure((1, [2, None]))
      PyTreeDef((*, [*, None]))
      >>> ft.tree.structure([1, 2]) == ft.tree.structure((1, 2))
      False
    """
    return PyTreeDef(_tree.structure(tree, is_leaf))


def tree_all(tree: Any, *, is_leaf: IsLeaf | None = None) -> bool:
    """Are all leaves true?

    Args:
      tree: any tree of bools, or of what has a truth value.
      is_leaf: stops at what it holds for, and takes that for a leaf.

    Example:
      >>> ft.tree.all({"a": True, "b": [1, 0]})
      False
    """
    return all(tree_leaves(tree, is_leaf))


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The tree of that structure with these leaves.

    Args:
      treedef: a structure.
      leaves: as many leaves as it has, in order.

    Raises:
      ArgumentError: the first is no structure, the second nothing to iterate over.
      TreeError: the number of leaves is not that of the structure.

    Example:
      >>> treedef = ft.tree.structure({"a": 0, "b": (0, 0)})
      >>> ft.tree.unflatten(treedef, [1, 2, 3])
      {'a': 1, 'b': (2, 3)}
    """
    spec_of("tree.unflatten", treedef)
    return treedef.unflatten(leaves)


def tree_reduce(
    function: Callable[[T, Any], T],
    tree: Any,
    initializer: T = NOT_GIVEN,
    is_leaf: IsLeaf | None = None,
) -> T:
    """The leaves combined from left to right, as by `functools.reduce`.

    Args:
      function: of what has been combined, and the next leaf.
      tree: any tree.
      initializer: with what to begin; by default with the first leaf.
      is_leaf: stops at what it holds for, and takes that for a leaf.

    Raises:
      ArgumentError: there are no leaves and no initializer.

    Example:
      >>> params = {"w": np.ones((2, 3)), "b": np.ones(3)}
      >>> ft.tree.reduce(lambda total, x: total + x.size, params, 0)
      9
    """
    found = tree_leaves(tree, is_leaf)
    if initializer is not NOT_GIVEN:
        return functools.reduce(function, found, initializer)
    if not found:
        raise ArgumentError("tree.reduce: a tree without leaves needs an initializer")
    return functools.reduce(function, found)


def tree_reduce_associative(
    operation: Callable[[T, T], T],
    tree: Any,
    *,
    identity: T = NOT_GIVEN,
    is_leaf: IsLeaf | None = None,
) -> T:
    """The leaves combined in pairs, the pairs in pairs, and so on.

    Args:
      operation: an associative function of two leaves.
      tree: any tree.
      identity: what is returned where there are no leaves.
      is_leaf: stops at what it holds for, and takes that for a leaf.

    Raises:
      ArgumentError: there are no leaves and no identity.

    Example:
      >>> ft.tree.reduce_associative(lambda x, y: f"({x} {y})", ["a", "b", "c", "d"])
      '((a b) (c d))'
    """
    found = tree_leaves(tree, is_leaf)
    if not found:
        if identity is NOT_GIVEN:
            raise ArgumentError("tree.reduce_associative: no leaves, and no identity")
        return identity
    while len(found) > 1:
        odd = found[-1:] if len(found) % 2 else []
        pairs = zip(found[::2], found[1::2], strict=False)
        found = [operation(x, y) for x, y in pairs] + odd
    return found[0]


def tree_transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any
) -> Any:
    """A tree of trees, with the inner structure outside.

    Args:
      outer_treedef: the structure of the given tree down to the inner trees.
      inner_treedef: that of each inner tree; None takes the first one's.
      pytree_to_transpose: the tree.

    Raises:
      TreeError: the tree is not of the outer structure composed with the inner.

    Example:
      >>> outer, inner = ft.tree.structure({"a": 0, "b": 0}), ft.tree.structure((0, 0))
      >>> ft.tree.transpose(outer, inner, {"a": (1, 2), "b": (3, 4)})
      ({'a': 1, 'b': 3}, {'a': 2, 'b': 4})
    """
    outer = spec_of("tree.transpose", outer_treedef)
    inner = None if inner_treedef is None else spec_of("tree.transpose", inner_treedef)
    rows = _tree.flatten_up_to(outer, pytree_to_transpose, "tree.transpose")
    if inner is None and rows:
        inner = _tree.structure(rows[0])
    if inner is None:
        raise TreeError("tree.transpose: an empty tree needs the inner structure")
    table: list[list[Any]] = []
    for row in rows:
        found, spec = _tree.flatten(row)
        if spec != inner:
            raise TreeError(
                "tree.transpose: an inner tree has the structure "
                f"{_tree.readable(spec)}, required is {_tree.readable(inner)}"
            )
        table.append(found)
    columns = zip(*table, strict=True) if table else [()] * inner.num_leaves
    return _tree.unflatten(inner, [_tree.unflatten(outer, c) for c in columns])


def tree_broadcast(
    prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None
) -> Any:
    """`full_tree` with each leaf replaced by the leaf of `prefix_tree` above it.

    Args:
      prefix_tree: a tree that begins as `full_tree` does.
      full_tree: any tree.
      is_leaf: stops at what it holds for in `prefix_tree`.

    Raises:
      TreeError: `prefix_tree` is not the beginning of the structure of `full_tree`.

    Example:
      >>> ft.tree.broadcast([1, 2], [{"x": "a", "y": "b"}, "c"])
      [{'x': 1, 'y': 1}, 2]
    """
    found, prefix = _tree.flatten(prefix_tree, is_leaf)
    subtrees = _tree.flatten_up_to(prefix, full_tree, "tree.broadcast")
    spread: list[Any] = []
    for leaf, subtree in zip(found, subtrees, strict=True):
        spread.extend([leaf] * len(tree_leaves(subtree)))
    return _tree.unflatten(_tree.structure(full_tree), spread)


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf | None = None) -> bool:
    """Is each element a leaf?

    Args:
      iterable: of anything.
      is_leaf: takes what it holds for as a leaf.

    Example:
      >>> ft.tree_util.all_leaves([1, 2.0]), ft.tree_util.all_leaves([1, (2,)])
      (True, False)
    """
    return all(
        not _tree.is_node(x) or (is_leaf is not None and is_leaf(x)) for x in iterable
    )


def is_tree_node(typ: type) -> bool:
    """Are the instances of this class containers?

    Args:
      typ: a class.

    Example:
      >>> ft.tree_util.is_tree_node(dict), ft.tree_util.is_tree_node(int)
      (True, False)
    """
    return _tree.is_registered(typ)


def flatten_one_level(tree: Any) -> tuple[list[Any], Any]:
    """The children of a container, and its static data.

    Args:
      tree: a container.

    Raises:
      TreeError: it is a leaf.

    Example:
      >>> ft.tree_util.flatten_one_level({"a": 1, "b": (2, 3)})
      ([1, (2, 3)], ('a', 'b'))
    """
    pairs, data = _tree.flatten_one_level_with_keys(tree)
    return [child for _, child in pairs], data


flatten_one_level_with_keys = _tree.flatten_one_level_with_keys


# Paths.


def tree_flatten_with_path(
    tree: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """(path, leaf) for every leaf, and the structure.

    Args:
      tree: any tree.
      is_leaf: stops at what it holds for.
      is_leaf_takes_path: `is_leaf` is called with the path and the subtree.

    Example:
      >>> leaves, treedef = ft.tree.flatten_with_path({"w": [5]})
      >>> leaves
      [((DictKey(key='w'), SequenceKey(idx=0)), 5)]
    """
    pairs, spec = _tree.flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    return pairs, PyTreeDef(spec)


def tree_leaves_with_path(
    tree: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> list[tuple[KeyPath, Any]]:
    """(path, leaf) for every leaf.

    Args:
      tree: any tree.
      is_leaf: stops at what it holds for.
      is_leaf_takes_path: `is_leaf` is called with the path and the subtree.

    Returns:
      A list of pairs; `tree_util.keystr(path)` is the path as text.

    Example:
      >>> from ftrace.tree_util import keystr
      >>> leaves = ft.tree.leaves_with_path({"w": [1, 2]})
      >>> [(keystr(path), leaf) for path, leaf in leaves]
      [("['w'][0]", 1), ("['w'][1]", 2)]
    """
    return _tree.flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def tree_map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """`f(path, leaf, *others)` of each leaf and what stands there in `rest`.

    Args:
      f: a function of the path, the leaf, and a subtree of each tree of `rest`.
      tree: any tree.
      rest: trees that begin with its structure.
      is_leaf: stops at what it holds for.
      is_leaf_takes_path: `is_leaf` is called with the path and the subtree.

    Raises:
      TreeError: a tree of `rest` does not have the structure of `tree`.

    Example:
      >>> from ftrace.tree_util import keystr
      >>> tree = {"a": 1, "b": [2]}
      >>> ft.tree.map_with_path(lambda path, x: f"{keystr(path)} = {x}", tree)
      {'a': "['a'] = 1", 'b': ["['b'][0] = 2"]}
    """
    pairs, treedef = _tree.flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    others = [_tree.flatten_up_to(treedef, x, "tree.map_with_path") for x in rest]
    rows = zip(pairs, *others, strict=True)
    return _tree.unflatten(treedef, [f(*pair, *row) for pair, *row in rows])


# Structures.


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Is it the structure of a leaf?

    Args:
      treedef: a structure.

    Example:
      >>> ft.tree_util.treedef_is_leaf(ft.tree.structure(1.0))
      True
    """
    return treedef.num_nodes == 1 and treedef.num_leaves == 1


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the immediate children.

    Args:
      treedef: a structure.

    Example:
      >>> ft.tree_util.treedef_children(ft.tree.structure([1, (2, 3)]))
      [PyTreeDef(*), PyTreeDef((*, *))]
    """
    return treedef.children()


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple of trees of these structures.

    Args:
      treedefs: structures.

    Example:
      >>> ft.tree_util.treedef_tuple([ft.tree.structure(1), ft.tree.structure([2, 3])])
      PyTreeDef((*, [*, *]))
    """
    specs = [spec_of("treedef_tuple", treedef) for treedef in treedefs]
    return PyTreeDef(join_structures(tuple, None, specs))


# Containers of the user.


register_pytree_node = _tree.register_pytree_node
register_dataclass = _tree.register_dataclass


def register_pytree_with_keys(
    nodetype: type[Any],
    flatten_with_keys: _tree.Flatten,
    unflatten_func: Callable[[Any, Any], Any],
    flatten_func: _tree.Flatten | None = None,
) -> None:
    """Makes a class a container that names its children.

    Args:
      nodetype: the class; subclasses are not included.
      flatten_with_keys: `(x) -> ([(key, child), …], aux)`. `aux` is a part of the
        structure: it must be hashable.
      unflatten_func: `(aux, children) -> x`.
      flatten_func: `(x) -> (children, aux)`, where that is quicker without keys.

    Raises:
      TreeError: the class is a container already.
    """
    del flatten_func  # one way to flatten is enough
    _tree.register_pytree_node(
        nodetype, flatten_with_keys, unflatten_func, flatten_with_keys
    )


def register_pytree_node_class(cls: type[T]) -> type[T]:
    """Makes a class with `tree_flatten` and `tree_unflatten` a container.

    Args:
      cls: a class with a method tree_flatten() -> (children, aux), and a class method
        tree_unflatten(aux, children). `aux` is part of the structure: hashable.

    Returns:
      The class.

    Raises:
      TreeError: the class is a container already.

    Example:
      >>> @ft.tree_util.register_pytree_node_class
      ... class Line:
      ...     def __init__(self, slope, offset):
      ...         self.slope, self.offset = slope, offset
      ...     def tree_flatten(self):
      ...         return (self.slope, self.offset), None
      ...     @classmethod
      ...     def tree_unflatten(cls, aux, children):
      ...         return cls(*children)
      >>> ft.tree.leaves(Line(2.0, 1.0))
      [2.0, 1.0]
    """
    made: Any = cls
    _tree.register_pytree_node(cls, made.tree_flatten, made.tree_unflatten)
    return cls


def register_pytree_with_keys_class(cls: type[T]) -> type[T]:
    """Makes a class with `tree_flatten_with_keys` and `tree_unflatten` a container.

    Args:
      cls: a class with a method tree_flatten_with_keys() -> ([(key, child), …], aux),
        and a class method tree_unflatten(aux, children).

    Returns:
      The class.
    """
    made: Any = cls
    flatten = made.tree_flatten_with_keys
    _tree.register_pytree_node(cls, flatten, made.tree_unflatten, flatten)
    return cls


def register_static(cls: type[T]) -> type[T]:
    """Makes a class a container without leaves: its instances are static.

    Args:
      cls: a class whose instances compare and hash.

    Returns:
      The class.

    Example:
      >>> @ft.tree_util.register_static
      ... class Name(str):
      ...     pass
      >>> ft.tree.leaves((Name("x"), 2))
      [2]
    """
    _tree.register_pytree_node(cls, lambda x: ((), x), lambda x, _: x)
    return cls


@dataclass(frozen=True, eq=False)
class _Whole:
    """Hides that a function is a partial, so that Python does not merge the two."""

    function: Callable[..., Any]

    def __eq__(self, other: object) -> bool:
        return self.function == (other.function if type(other) is _Whole else other)

    def __hash__(self) -> int:
        return hash(self.function)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.function(*args, **keywords)


class Partial(functools.partial[Any]):
    """`functools.partial` as a container: the arguments are leaves, `func` static.

    Example:
      >>> f = ft.tree_util.Partial(fnp.power, 2.0)
      >>> ft.jit(lambda f, x: f(x))(f, 3.0)  # f is an argument of a jitted function
      Array(8., dtype=float32, weak_type=True)
    """

    def __new__(cls, func: Callable[..., Any], /, *args: Any, **keywords: Any) -> Any:
        if issubclass(type(func), functools.partial):
            func = _Whole(func)
        return super().__new__(cls, func, *args, **keywords)


_tree.register_pytree_node(
    Partial,
    lambda p: ((p.args, p.keywords), p.func),
    lambda func, children: Partial(func, *children[0], **children[1]),
)


# The registry as an object.


class PyTreeRegistry:
    """Which classes are containers: all that are registered by this module."""

    flatten = staticmethod(tree_flatten)
    flatten_with_path = staticmethod(tree_flatten_with_path)
    is_node = staticmethod(is_tree_node)

    @staticmethod
    def flatten_one_level(tree: Any) -> tuple[list[Any], Any] | None:
        """The children of a container, and its static data; None of a leaf."""
        return flatten_one_level(tree) if is_tree_node(tree.__class__) else None

    @staticmethod
    def flatten_one_level_with_keys(tree: Any) -> Any:
        """(key, child) for every child, and the static data; None of a leaf."""
        known = is_tree_node(tree.__class__)
        return flatten_one_level_with_keys(tree) if known else None

    @staticmethod
    def register_node(
        nodetype: type[Any],
        to_iterable: Callable[[Any], tuple[Any, Any]],
        from_iterable: Callable[[Any, Any], Any],
        to_iterable_with_keys: _tree.Flatten | None = None,
    ) -> None:
        """Makes a class a container: see `register_pytree_with_keys`."""
        if to_iterable_with_keys is None:
            register_pytree_node(nodetype, to_iterable, from_iterable)
        else:
            register_pytree_with_keys(
                nodetype, to_iterable_with_keys, from_iterable, to_iterable
            )

    @staticmethod
    def register_dataclass_node(
        nodetype: type[Any], data_fields: Any, meta_fields: Any, /
    ) -> None:
        """Makes a dataclass a container: see `register_dataclass`."""
        register_dataclass(nodetype, data_fields, meta_fields)


default_registry = PyTreeRegistry()


tell_missing(__name__)

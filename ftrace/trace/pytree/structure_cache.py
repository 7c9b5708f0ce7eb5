"""Layouts: the containers of one structure, as native code takes them apart.

optree finds out what a tree is, at half a microsecond a leaf. A function that is called
again is given the same tree again: its layout says what to expect, so that the leaves
are found, and results are built, with a few steps per container.

    root = Container(dict, ("b", "w"), (Leaf(0), Leaf(1)))

A layout holds dicts (with keys that are texts and ints), lists, tuples, namedtuples and
None. Trees with other containers have none, nor have those with namedtuples that have a
constructor of their own.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.pytree import tree
from ftrace.trace.pytree.tree import TreeDef

#: Containers within containers; deeper trees have no layout.
DEEPEST = 32


@dataclass(frozen=True)
class Leaf:
    """A leaf.

    Attributes:
      number: its place in the order of `tree.flatten`.
    """

    number: int


@dataclass(frozen=True)
class Nothing:
    """None, which holds no leaf."""


@dataclass(frozen=True, eq=False)
class Container:
    """A dict, list, tuple or namedtuple.

    Attributes:
      kind: its class, exactly.
      keys: of a dict, in its own order; None for a sequence.
      children: in the order in which the container holds them.
    """

    kind: type[Any]
    keys: list[Any] | None
    children: tuple[LayoutNode, ...]


LayoutNode: TypeAlias = Leaf | Nothing | Container


def layout_of(treedef: TreeDef) -> LayoutNode | None:
    """The layout of the trees of a structure; None if they have none."""
    # First: what a user's container makes of numbers is anything.
    kinds = (node.type for node in tree.nodes_of(treedef))
    if not all(kind in _OTHERS or _is_known(kind) for kind in kinds):
        return None
    return _layout_node(tree.unflatten(treedef, range(treedef.num_leaves)), 0)


def _layout_node(value: Any, depth: int) -> LayoutNode | None:
    kind: type[Any] = value.__class__
    if kind is int:
        return Leaf(value)
    if value is None:
        return Nothing()
    if depth >= DEEPEST:
        return None
    keys = list(value) if kind is dict else None
    if keys is not None and not all(type(key) in (str, int) for key in keys):
        return None
    children: list[LayoutNode] = []
    for child in value if keys is None else value.values():
        part = _layout_node(child, depth + 1)
        if part is None:
            return None
        children.append(part)
    return Container(kind, keys, tuple(children))


#: The types of the structures of a leaf and of None.
_OTHERS = (None, type(None))


def _is_known(kind: type[Any]) -> bool:
    if kind in (dict, list, tuple):
        return True
    return tree.is_namedtuple(kind) and is_generated(kind)


def is_generated(kind: type[Any]) -> bool:
    """Is the constructor of a namedtuple the one that Python wrote?"""
    module = str(getattr(kind.__new__, "__globals__", {}).get("__name__"))
    return module.startswith("namedtuple_") and kind.__init__ is object.__init__

"""Layouts: the containers of one structure, taken apart and put together quickly.

optree finds out what a tree is, at half a microsecond a leaf. A function that is called
again is given the same tree again: its layout says what to expect, so that the leaves
are found, and results are built, with a few steps per container.

    root = Container(dict, ("b", "w"), (Leaf(0), Leaf(1)))

A layout holds dicts (with keys that are texts and ints), lists, tuples, namedtuples and
None. Trees with other containers have none, nor have those with namedtuples that have a
constructor of their own.
"""

from __future__ import annotations

from dataclasses import field
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
      plain: all of them are leaves.
      first: the number of the first leaf, if the children are all leaves and these
        are numbered one after the other; else -1.
    """

    kind: type[Any]
    keys: list[Any] | None
    children: tuple[Part, ...]
    plain: bool = field(init=False)
    first: int = field(init=False)

    def __post_init__(self) -> None:
        leaves = [child.number for child in self.children if isinstance(child, Leaf)]
        plain = len(leaves) == len(self.children)
        first = leaves[0] if leaves else 0
        following = leaves == list(range(first, first + len(leaves)))
        object.__setattr__(self, "plain", plain)
        object.__setattr__(self, "first", first if plain and following else -1)


Part: TypeAlias = Leaf | Nothing | Container


def layout_of(treedef: TreeDef) -> Part | None:
    """The layout of the trees of a structure; None if they have none."""
    pending = [treedef]
    while pending:  # first: what a user's container makes of numbers is anything
        node = pending.pop()
        if node.type not in _OTHERS and not _is_known(node.type):
            return None
        pending.extend(node.children())
    return _part(tree.unflatten(treedef, range(treedef.num_leaves)), 0)


def _part(value: Any, depth: int) -> Part | None:
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
    children: list[Part] = []
    for child in value if keys is None else value.values():
        part = _part(child, depth + 1)
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


class Finder:
    """Finds the leaves of trees of one layout.

    Two orders of the keys of a dict are two layouts.
    """

    def __init__(self, root: Container) -> None:
        self.root = root
        numbers: list[int] = []
        _collect(root, numbers)
        self.count = len(numbers)
        ordered = numbers == list(range(self.count))
        order = sorted(range(self.count), key=numbers.__getitem__)
        self._order = None if ordered else order
        self._pair: Any = root.children

    def leaves(self, value: Any) -> list[Any] | None:
        """The leaves in the order of `tree.flatten`; None for another layout."""
        found: list[Any] = []
        try:
            if not _take(self.root, value, found):
                return None
        except Exception:  # a key of the user's that cannot be compared
            return None
        if self._order is None:
            return found
        return [found[place] for place in self._order]

    def arguments(self, args: tuple[Any, ...], kwargs: Any) -> list[Any] | None:
        """`leaves` of (args, kwargs), for a layout of such pairs."""
        found: list[Any] = []
        positional, named = self._pair
        try:
            if not _take(positional, args, found):
                return None
            if (kwargs or named.keys) and not _take(named, kwargs, found):
                return None
        except Exception:  # as in `leaves`
            return None
        if self._order is None:
            return found
        return [found[place] for place in self._order]


def _collect(part: Part, numbers: list[int]) -> None:
    if isinstance(part, Leaf):
        numbers.append(part.number)
    elif isinstance(part, Container):
        for child in part.children:
            _collect(child, numbers)


def _take(part: Container, value: Any, found: list[Any]) -> bool:
    """Appends the leaves of a container; False if it is not what is expected."""
    if type(value) is not part.kind:
        return False
    if part.keys is not None:
        if list(value) != part.keys:
            return False
        value = list(value.values())
    children = part.children
    if len(value) != len(children):
        return False
    if part.plain:
        found += value
        return True
    for child, inner in zip(children, value, strict=True):
        if type(child) is Leaf:
            found.append(inner)
        elif type(child) is Container:
            if not _take(child, inner, found):
                return False
        elif inner is not None:
            return False
    return True


def build(part: Part, leaves: list[Any]) -> Any:
    """The tree of a layout with these leaves, in the order of `tree.flatten`."""
    if isinstance(part, Leaf):
        return leaves[part.number]
    if isinstance(part, Nothing):
        return None
    if part.first >= 0:
        children = leaves[part.first : part.first + len(part.children)]
    else:
        children = [build(child, leaves) for child in part.children]
    if part.keys is not None:
        return dict(zip(part.keys, children, strict=True))
    if part.kind is list:
        return children
    return tuple(children) if part.kind is tuple else part.kind(*children)

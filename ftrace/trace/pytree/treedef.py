"""Structures as users hold them: JAX's `PyTreeDef` around optree's object.

Transforms keep optree's own: it is wrapped where a public function gives it out, and
taken out again (`spec_of`) where one takes it in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ftrace.errors import ArgumentError
from ftrace.trace.pytree import tree
from ftrace.trace.pytree.tree import TreeDef


class PyTreeDef:
    """The structure of a tree: what is left of it without its leaves.

    `tree.structure` and `tree.flatten` give them. They compare and hash by what they
    hold, and can be pickled where their classes can.

    Attributes:
      spec: optree's object.
    """

    __slots__ = ("__weakref__", "spec")

    def __init__(self, spec: TreeDef) -> None:
        self.spec = spec

    @property
    def num_leaves(self) -> int:
        """The number of leaves."""
        return self.spec.num_leaves

    @property
    def num_nodes(self) -> int:
        """The number of containers and leaves."""
        return self.spec.num_nodes

    def __repr__(self) -> str:
        return f"PyTreeDef({tree.readable(self.spec)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PyTreeDef) and self.spec == other.spec

    def __hash__(self) -> int:
        return hash(self.spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return PyTreeDef, (self.spec,)

    def unflatten(self, leaves: Iterable[Any], /) -> Any:
        """The tree of this structure with these leaves.

        Raises:
          ArgumentError: they are nothing to iterate over.
          TreeError: their number is not that of the structure.
        """
        if not isinstance(leaves, Iterable):
            raise ArgumentError(
                f"tree.unflatten: the leaves must be a list, got {leaves!r}"
            )
        return tree.unflatten(self.spec, leaves)

    def flatten_up_to(self, xs: Any, /) -> list[Any]:
        """The subtrees of `xs` at the places of the leaves.

        Raises:
          TreeError: `xs` does not begin with this structure.
        """
        return tree.flatten_up_to(self.spec, xs, "PyTreeDef.flatten_up_to")

    def compose(self, inner: PyTreeDef, /) -> PyTreeDef:
        """This structure with `inner` in the place of each leaf."""
        return PyTreeDef(self.spec.compose(spec_of("PyTreeDef.compose", inner)))

    def children(self) -> list[PyTreeDef]:
        """The structures of the immediate children."""
        return [*map(PyTreeDef, self.spec.children())]

    def node_data(self) -> tuple[type[Any], Any] | None:
        """The class of the outermost container and its static data; None of a leaf."""
        level = self.spec.one_level()
        if level is None:
            return None
        kind, data = level.walk([None] * level.num_leaves, _kind_and_data, None)
        return kind, None if data is kind else data  # the class of a namedtuple

    @staticmethod
    def from_node_data_and_children(
        registry: Any, node_data: tuple[type[Any], Any] | None,
        children: Iterable[PyTreeDef],
    ) -> PyTreeDef:  # fmt: skip
        """The structure of which `node_data()` and `children()` are these.

        Args:
          registry: `tree_util.default_registry`; there is no other.
          node_data: the class of the outermost container and its static data.
          children: the structures of its children.

        Raises:
          ArgumentError: the class is no container, or has not that many children.
        """
        del registry
        where = "PyTreeDef.from_node_data_and_children"
        specs = [spec_of(where, child) for child in children]
        if node_data is not None:
            return PyTreeDef(join_structures(*node_data, specs))
        if specs:
            raise ArgumentError(f"{where}: a leaf has no children, got {len(specs)}")
        return PyTreeDef(tree.structure(0))

    def walk(
        self, f_node: Callable[[tuple[Any, ...], Any], Any],
        f_leaf: Callable[[Any], Any] | None, leaves: Iterable[Any], /,
    ) -> Any:  # fmt: skip
        """Replaces leaves, then containers from the inside out.

        Args:
          f_node: takes what its children became, and the static data.
          f_leaf: takes a leaf; None keeps them.
          leaves: as many as the structure has.
        """

        def of_node(kind: Any, data: Any, children: tuple[Any, ...]) -> Any:
            return f_node(children, tree.static_data(kind, data))

        return self.spec.walk(leaves, of_node, f_leaf)


def _kind_and_data(kind: type[Any], data: Any, _: Any) -> tuple[type[Any], Any]:
    return kind, tree.static_data(kind, data)


def spec_of(what: str, treedef: Any) -> TreeDef:
    """optree's object of a user's structure; `what` names the function in messages.

    Raises:
      ArgumentError: it is no structure.
    """
    if isinstance(treedef, PyTreeDef):
        return treedef.spec
    raise ArgumentError(
        f"{what}: a structure is required, as tree.structure(tree) and "
        f"tree.flatten(tree)[1] give it; got {treedef!r:.60}"
    )


def join_structures(kind: Any, data: Any, children: list[TreeDef]) -> TreeDef:
    """The structure of a container of that class, static data and children.

    Raises:
      ArgumentError: the class is no container, or has no such data and children.
    """
    if not (isinstance(kind, type) and tree.is_registered(kind)):
        raise ArgumentError(f"{kind!r} is no container of a pytree; register it first")
    parts = [tree.unflatten(child, [0] * child.num_leaves) for child in children]
    try:
        found = tree.structure(tree.unflatten_func(kind)(data, parts))
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"a {kind.__name__} with the static data {data!r} cannot have "
            f"{len(children)} children: {error}"
        ) from None
    if found.children() != children:
        raise ArgumentError(
            f"a {kind.__name__} with the static data {data!r} has the structure "
            f"{tree.readable(found)}, not {len(children)} children"
        )
    return found

"""Layouts: the containers of a structure, for native code."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from typing import Any, NamedTuple

import pytest

import ftrace as ft
from ftrace.trace.pytree import tree
from ftrace.trace.pytree.structure_cache import Container, Leaf, Nothing, layout_of


class Pair(NamedTuple):
    left: Any
    right: Any


Old = namedtuple("Old", "b a")

TREES: dict[str, Any] = {
    "flat dict": {"b": 1, "a": 2},
    "nested": {"z": {"w": 1, "b": 2}, "a": [3, (4, None)]},
    "ints as keys": {3: 1, 1: 2},
    "namedtuples": Pair(Old(1, 2), {"x": Pair(3, 4)}),
    "empty": ([], {}, (), None, {"a": {}}),
    "alone": (1,),
}
NO_LAYOUT: dict[str, Any] = {
    "ordered": OrderedDict(a=1),
    "tuples as keys": {(1, 2): 1},
}


def deep(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def filled(part: Any, leaves: list[Any]) -> Any:
    """The tree of a layout with these leaves."""
    if isinstance(part, Leaf):
        return leaves[part.number]
    if isinstance(part, Nothing):
        return None
    children = [filled(child, leaves) for child in part.children]
    if part.keys is not None:
        return dict(zip(part.keys, children, strict=True))
    if part.kind in (list, tuple):
        return part.kind(children)
    return part.kind(*children)


@pytest.mark.parametrize("name", TREES)
def test_a_layout_says_where_the_leaves_are(name: str) -> None:
    leaves, treedef = tree.flatten(TREES[name])
    rebuilt = filled(layout_of(treedef), leaves)
    assert rebuilt == TREES[name]
    assert repr(rebuilt) == repr(TREES[name])


@pytest.mark.parametrize("name", NO_LAYOUT)
def test_other_containers_have_no_layout(name: str) -> None:
    assert layout_of(tree.structure([NO_LAYOUT[name]])) is None


def test_a_deep_tree_has_no_layout() -> None:
    assert layout_of(tree.structure(deep(10))) is not None
    assert layout_of(tree.structure(deep(100))) is None


def test_registered_namedtuples_have_no_layout() -> None:
    class Special(NamedTuple):
        value: Any

    tree.register_pytree_node(
        Special, lambda x: ((x.value,), None), lambda _, c: Special(*c)
    )
    assert layout_of(tree.structure([Special(1)])) is None


def test_the_order_of_keys_is_part_of_a_layout() -> None:
    for keys in ("ab", "ba"):
        root = layout_of(tree.structure(dict.fromkeys(keys, 1)))
        assert isinstance(root, Container)
        assert root.keys == [*keys]


def test_both_orders_of_keys_are_kept() -> None:
    step = ft.jit(lambda t: t["a"] - t["b"])
    x, y = ft.numpy.asarray([5.0]), ft.numpy.asarray([3.0])
    for _ in range(20):
        assert step({"a": x, "b": y}).tolist() == [2]
        assert step({"b": y, "a": x}).tolist() == [2]
    assert step.trace_count == 1

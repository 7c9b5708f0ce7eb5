"""Layouts: what optree finds and builds, found and built without it."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from typing import Any, NamedTuple

import pytest

import ftrace as ft
from ftrace.trace.pytree import tree
from ftrace.trace.pytree.structure_cache import Container, Finder, build, layout_of


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


@pytest.mark.parametrize("name", TREES)
def test_a_layout_finds_and_builds_what_optree_does(name: str) -> None:
    leaves, treedef = tree.flatten(TREES[name])
    root = layout_of(treedef)
    assert isinstance(root, Container)
    assert Finder(root).leaves(TREES[name]) == leaves
    rebuilt = build(root, leaves)
    assert rebuilt == TREES[name]
    assert repr(rebuilt) == repr(tree.unflatten(treedef, leaves))


@pytest.mark.parametrize("name", TREES)
def test_a_layout_takes_no_other_tree(name: str) -> None:
    root = layout_of(tree.structure(TREES[name]))
    assert isinstance(root, Container)
    finder = Finder(root)
    own = Finder(root).leaves(TREES[name])
    for other in TREES.values():
        if other is not TREES[name]:
            assert finder.leaves(other) is None
    assert finder.leaves(1) is None
    assert own is not None


@pytest.mark.parametrize("name", NO_LAYOUT)
def test_other_containers_have_no_layout(name: str) -> None:
    assert layout_of(tree.structure([NO_LAYOUT[name]])) is None


def test_a_deep_tree_has_no_layout() -> None:
    assert layout_of(tree.structure(deep(10))) is not None
    assert layout_of(tree.structure(deep(100))) is None


def test_registered_namedtuples_have_no_layout() -> None:
    class Special(NamedTuple):
        value: Any

    with pytest.warns(UserWarning, match="namedtuple"):
        tree.register_node(
            Special, lambda x: ((x.value,), None), lambda _, c: Special(*c)
        )
    assert layout_of(tree.structure([Special(1)])) is None


def test_the_order_of_keys_is_part_of_a_layout() -> None:
    root = layout_of(tree.structure({"a": 1, "b": 2}))
    assert isinstance(root, Container)
    assert Finder(root).leaves({"a": 5, "b": 6}) == [5, 6]
    assert Finder(root).leaves({"b": 6, "a": 5}) is None


def test_subclasses_are_no_containers_of_a_layout() -> None:
    class Mine(dict[str, int]):
        pass

    root = layout_of(tree.structure({"a": 1}))
    assert isinstance(root, Container)
    assert Finder(root).leaves(Mine(a=1)) is None


def test_keys_that_cannot_be_compared_are_another_layout() -> None:
    class Odd:
        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("compared")

    root = layout_of(tree.structure({"a": 1}))
    assert isinstance(root, Container)
    assert Finder(root).leaves({Odd(): 1}) is None


def test_a_second_call_needs_no_optree(monkeypatch: pytest.MonkeyPatch) -> None:
    step = ft.jit(lambda t: {"y": t["a"] + t["b"][0]})
    x = ft.numpy.ones(3)
    step({"a": x, "b": [x]})

    def refused(*_: Any) -> Any:
        raise AssertionError("flattened")

    monkeypatch.setattr(tree, "flatten", refused)
    monkeypatch.setattr(tree, "unflatten", refused)
    assert step({"a": x, "b": [x]})["y"].tolist() == [2, 2, 2]
    with pytest.raises(AssertionError, match="flattened"):
        step({"b": [x], "a": x})


def test_both_orders_of_keys_are_kept() -> None:
    step = ft.jit(lambda t: t["a"] - t["b"])
    x, y = ft.numpy.asarray([5.0]), ft.numpy.asarray([3.0])
    for _ in range(3):
        assert step({"a": x, "b": y}).tolist() == [2]
        assert step({"b": y, "a": x}).tolist() == [2]
    assert step.trace_count == 1

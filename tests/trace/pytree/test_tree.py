"""Pytrees: structures, paths, registered classes, under JAX's names."""

from __future__ import annotations

import functools
import inspect
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import ftrace as ft
from ftrace import tree, tree_util
from ftrace.errors import ArgumentError, DtypeError, ShapeError, TreeError
from ftrace.flatten_util import ravel_pytree
from ftrace.testing import strategies as fst
from ftrace.tree_util import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey

Point = namedtuple("Point", ["x", "y"])

SAMPLES: list[Any] = [
    1,
    None,
    (),
    [1, (2, None), {}],
    {"b": 1, "a": [2, 3]},
    {2: "two", 1: "one"},
    Point(1, [2, 3]),
    OrderedDict(z=1, a=2),
    defaultdict(list, q=[1]),
    deque([1, 2]),
    tree_util.Partial(max, 1, key=3),
]

trees = fst.trees(st.integers() | st.none(), max_leaves=12)


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_unflatten_undoes_flatten(sample: Any) -> None:
    leaves, treedef = tree.flatten(sample)
    again = tree.unflatten(treedef, leaves)
    assert type(again) is type(sample)
    assert tree.leaves(again) == leaves
    assert tree.structure(again) == treedef
    assert hash(tree.structure(again)) == hash(treedef)


@given(trees)
def test_unflatten_undoes_flatten_of_any_tree(sample: Any) -> None:
    leaves, treedef = tree.flatten(sample)
    assert tree.unflatten(treedef, leaves) == sample
    assert treedef.num_leaves == len(leaves)


@given(trees)
def test_paths_lead_to_their_leaves(sample: Any) -> None:
    pairs, treedef = tree.flatten_with_path(sample)
    assert treedef == tree.structure(sample)
    for path, leaf in pairs:
        found = sample
        for key in path:
            found = found[key.idx if isinstance(key, SequenceKey) else key.key]
        assert found == leaf


def test_none_is_an_empty_container() -> None:
    assert tree.leaves([None, 1, None]) == [1]
    assert tree.map(lambda x: x + 1, {"a": None, "b": 1}) == {"a": None, "b": 2}
    assert tree.leaves(None, is_leaf=lambda x: x is None) == [None]


def test_dictionaries_are_flattened_by_sorted_key() -> None:
    assert tree.leaves({"b": 1, "a": 2}) == [2, 1]
    assert tree.leaves(OrderedDict(b=1, a=2)) == [1, 2]
    assert tree.structure({"b": 1, "a": 2}) == tree.structure({"a": 1, "b": 2})


@pytest.mark.parametrize("keys", [(1, "a"), (1j, 2j), (object(), object())])
def test_keys_without_an_order_are_refused(keys: tuple[Any, Any]) -> None:
    for _ in range(2):
        with pytest.raises(TreeError, match=r"must be sortable.*OrderedDict"):
            tree.flatten({"outer": dict.fromkeys(keys, 0)})
    assert tree.leaves(OrderedDict.fromkeys(keys, 0)) == [0, 0]


def test_map_takes_several_trees() -> None:
    x, y = {"a": [1, 2], "b": 3}, {"a": [10, 20], "b": 30}
    assert tree.map(lambda a, b: a + b, x, y) == {"a": [11, 22], "b": 33}
    assert tree.map(lambda a, rest: len(rest), [0, 0], [(1, 2), {}]) == [2, 0]


def test_map_stops_at_what_is_a_leaf() -> None:
    assert tree.map(sum, [(1, 2), (3, 4)], is_leaf=lambda x: isinstance(x, tuple)) == [
        3,
        7,
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([1, 2], [1]),
        ([1], (1,)),
        ({"a": 1}, {"b": 1}),
        ([1, [2]], [1, 2]),
        ([None], [1]),
    ],
)
def test_map_of_different_structures_is_refused(first: Any, second: Any) -> None:
    with pytest.raises(TreeError, match="differ in structure"):
        tree.map(lambda x, y: x, first, second)


def test_a_wrong_number_of_leaves_is_refused() -> None:
    with pytest.raises(TreeError, match="takes 2 leaves, got 3"):
        tree.unflatten(tree.structure([0, 0]), [1, 2, 3])


@pytest.mark.parametrize("structure", [3, None, "a", [1]])
def test_what_is_no_structure_is_refused(structure: Any) -> None:
    with pytest.raises(ArgumentError, match="a structure is required"):
        tree_util.tree_unflatten(structure, [1])
    if structure is not None:
        with pytest.raises(ArgumentError, match="a structure is required"):
            tree_util.tree_transpose(structure, None, [1])
    with pytest.raises(ArgumentError, match="must be a list"):
        tree_util.tree_unflatten(tree_util.tree_structure([1]), 3)


def test_reductions() -> None:
    sample = {"a": [1, 2], "b": (3, None)}
    assert tree.reduce(lambda x, y: x * 10 + y, sample) == 123
    assert tree.reduce(lambda x, y: x + [y], sample, []) == [1, 2, 3]
    assert tree.reduce_associative(lambda x, y: f"({x}{y})", list("abcde")) == (
        "(((ab)(cd))e)"
    )
    assert tree.reduce_associative(max, [], identity=0) == 0
    assert tree.all([True, 1, None])
    assert not tree.all({"a": 0})
    with pytest.raises(ArgumentError, match="needs an initializer"):
        tree.reduce(max, [])


def test_transpose_exchanges_inside_and_outside() -> None:
    sample = [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    outer, inner = tree.structure([0, 0]), tree.structure({"a": 0, "b": 0})
    expected = {"a": [1, 3], "b": [2, 4]}
    assert tree.transpose(outer, inner, sample) == expected
    assert tree.transpose(outer, None, sample) == expected
    with pytest.raises(TreeError, match="structure"):
        tree.transpose(outer, inner, [{"a": 1, "b": 2}, {"a": 3}])
    with pytest.raises(TreeError, match="differ in structure"):
        tree.transpose(tree.structure((0, 0)), inner, sample)


def test_broadcast_spreads_a_prefix() -> None:
    assert tree.broadcast([1, {"a": 2}], [(0, 0), {"a": [0]}]) == [(1, 1), {"a": [2]}]
    with pytest.raises(TreeError):
        tree.broadcast([1, 2], [0])


# Paths.


def test_keys_name_what_they_index() -> None:
    sample = {"a": [0], "p": Point(0, 0), "q": tree_util.Partial(max, 0)}
    paths = [path for path, _ in tree.leaves_with_path(sample)]
    assert paths == [
        (DictKey("a"), SequenceKey(0)),
        (DictKey("p"), GetAttrKey("x")),
        (DictKey("p"), GetAttrKey("y")),
        (DictKey("q"), FlattenedIndexKey(0), SequenceKey(0)),
    ]
    assert [tree_util.keystr(path) for path in paths] == [
        "['a'][0]", "['p'].x", "['p'].y", "['q'][<flat index 0>][0]",
    ]  # fmt: skip
    assert tree_util.keystr(paths[1], simple=True, separator="/") == "p/x"


def test_map_with_path() -> None:
    def name(path: Any, x: int, y: int) -> str:
        return f"{tree_util.keystr(path)}:{x + y}"

    sample = {"a": [1, 2]}
    assert tree.map_with_path(name, sample, sample) == {
        "a": ["['a'][0]:2", "['a'][1]:4"]
    }


def test_is_leaf_may_take_the_path() -> None:
    sample = {"a": {"b": [1]}, "c": {"b": [2]}}
    found = tree.leaves_with_path(
        sample, lambda path, _: path == (DictKey("a"),), is_leaf_takes_path=True
    )
    assert found == [
        ((DictKey("a"),), {"b": [1]}),
        ((DictKey("c"), DictKey("b"), SequenceKey(0)), 2),
    ]


# Structures.


def test_structures_have_children() -> None:
    treedef = tree.structure([1, {"a": 2}])
    assert tree_util.treedef_children(treedef) == [
        tree.structure(0),
        tree.structure({"a": 0}),
    ]
    pair = tree_util.treedef_tuple([treedef, tree.structure(0)])
    assert pair == tree.structure(([1, {"a": 2}], 3))
    assert tree_util.treedef_is_leaf(tree.structure(0))
    assert not tree_util.treedef_is_leaf(tree.structure(None))
    assert not tree_util.treedef_is_leaf(tree.structure([0]))


def test_leaves_and_nodes_are_told_apart() -> None:
    assert tree_util.all_leaves([1, "a"])
    assert not tree_util.all_leaves([1, []])
    assert not tree_util.all_leaves([None])
    assert tree_util.is_tree_node(dict)
    assert tree_util.is_tree_node(Point)
    assert tree_util.is_tree_node(type(None))
    assert not tree_util.is_tree_node(int)
    assert tree_util.flatten_one_level([1, [2]])[0] == [1, [2]]
    keyed, _ = tree_util.flatten_one_level_with_keys({"a": [1]})
    assert keyed == [(DictKey("a"), [1])]
    with pytest.raises(TreeError, match="no container"):
        tree_util.flatten_one_level(3)


# Classes of the user.


class Pair:
    def __init__(self, left: Any, right: Any, name: str) -> None:
        self.left, self.right, self.name = left, right, name


tree_util.register_pytree_node(
    Pair,
    lambda p: ((p.left, p.right), p.name),
    lambda name, children: Pair(*children, name),
)


@tree_util.register_pytree_with_keys_class
class Named:
    def __init__(self, value: Any) -> None:
        self.value = value

    def tree_flatten_with_keys(self) -> Any:
        return ((GetAttrKey("value"), self.value),), None

    @classmethod
    def tree_unflatten(cls, aux: Any, children: Any) -> Named:
        return cls(*children)


@tree_util.register_pytree_node_class
class Plain:
    def __init__(self, value: Any) -> None:
        self.value = value

    def tree_flatten(self) -> Any:
        return (self.value,), None

    @classmethod
    def tree_unflatten(cls, aux: Any, children: Any) -> Plain:
        return cls(*children)


@tree_util.register_dataclass
@dataclass
class Model:
    weight: Any
    name: str = field(metadata={"static": True}, default="")


@functools.partial(
    tree_util.register_dataclass,
    data_fields=["x"],
    meta_fields=[],
    drop_fields=["memo"],
)
@dataclass(frozen=True)
class Frozen:
    x: Any
    memo: Any = field(default_factory=dict)


@tree_util.register_static
@dataclass(frozen=True)
class Mode:
    training: bool


def test_registered_classes_are_containers() -> None:
    pair = tree.map(lambda x: x + 1, Pair(1, [2], "p"))
    assert (pair.left, pair.right, pair.name) == (2, [3], "p")
    assert tree.structure(pair) != tree.structure(Pair(1, [2], "q"))
    assert tree.map(lambda x: -x, Named(1)).value == -1
    assert tree.map(lambda x: -x, Plain(1)).value == -1
    made: Any = tree_util.register_pytree_node(
        type("Empty", (), {}), lambda x: ((), None), lambda x, _: None
    )
    assert made is None  # nothing that a notebook would show


def test_registered_dataclasses_are_containers() -> None:
    model = tree.map(lambda x: x * 2, Model([1, 2], "m"))
    assert model == Model([2, 4], "m")
    assert tree.structure(model) != tree.structure(Model([1, 2], "n"))
    frozen = tree.map(lambda x: x * 2, Frozen(3, {"old": 1}))
    assert frozen == Frozen(6, {})

    class Named:  # no dataclass: its fields are told
        def __init__(self, x: int, name: str) -> None:
            self.x, self.name = x, name

    tree_util.register_dataclass(Named, ["x"], ["name"])
    assert vars(tree.map(lambda x: x * 2, Named(1, "n"))) == {"x": 2, "name": "n"}


def test_static_classes_have_no_leaves() -> None:
    assert tree.leaves([Mode(True), 1]) == [1]
    assert tree.structure(Mode(True)) != tree.structure(Mode(False))
    assert tree.map(lambda x: x, Mode(True)) == Mode(True)


def test_paths_use_the_names_of_the_class() -> None:
    sample = [Pair(0, 0, ""), Named(0), Plain(0), Model(0)]
    paths = [tree_util.keystr(path[1:]) for path, _ in tree.leaves_with_path(sample)]
    assert paths == [
        "[<flat index 0>]", "[<flat index 1>]", ".value", "[<flat index 0>]", ".weight",
    ]  # fmt: skip


def test_functions_of_trees_bear_their_public_names() -> None:
    for name in tree_util.__all__:
        found = getattr(tree_util, name)
        if inspect.isfunction(found):
            assert found.__name__.removeprefix("tree_") == name.removeprefix("tree_")
            assert " object at 0x" not in str(inspect.signature(found))


def test_registering_badly_is_refused() -> None:
    with pytest.raises(TreeError, match="already registered"):
        tree_util.register_pytree_node_class(Plain)
    with pytest.raises(ArgumentError, match="not a dataclass"):
        tree_util.register_dataclass(Pair)
    with pytest.raises(ArgumentError, match="must name each of them once"):
        tree_util.register_dataclass(dataclass(type("D", (), {})), ["x"], [])


def test_partial_is_a_function_and_a_container() -> None:
    add = tree_util.Partial(lambda x, y, scale: (x + y) * scale, 1, scale=3)
    assert add(2) == 9
    assert tree.leaves(add) == [1, 3]
    assert tree.map(lambda x: x * 10, add)(2) == (10 + 2) * 30
    nested = tree_util.Partial(add, 5)
    assert nested() == 18
    assert tree.leaves(nested) == [5]
    assert tree.structure(nested) == tree.structure(tree_util.Partial(add, 6))
    assert nested.func == add
    assert add == nested.func
    assert hash(nested.func) == hash(add)


# A tree as one vector.


def test_unravel_undoes_ravel() -> None:
    sample = {
        "w": np.arange(6, dtype=np.float32).reshape(2, 3),
        "n": [np.int32([7, 8]), None],
        "s": np.float16(0.5),
        "e": np.zeros((0, 2), np.float32),
    }
    vector, unravel = ravel_pytree(sample)
    assert vector.dtype == np.float32
    np.testing.assert_array_equal(np.asarray(vector), [7, 8, 0.5, *range(6)])
    again = unravel(vector)
    assert tree.structure(again) == tree.structure(sample)
    for x, y in zip(tree.leaves(again), tree.leaves(sample), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(np.asarray(x), y)


def test_unravel_is_a_pure_function() -> None:
    sample = [np.ones((2, 2), np.float32), np.ones(3, np.float32)]
    vector, unravel = ravel_pytree(sample)

    def weighted(v: Any) -> Any:
        x, y = unravel(v)
        return (2 * x).sum() + (3 * y).sum()

    np.testing.assert_array_equal(
        np.asarray(ft.grad(weighted)(vector)), [2] * 4 + [3] * 3
    )
    rows = ft.vmap(unravel)(np.ones((5, 7), np.float32))
    assert [x.shape for x in rows] == [(5, 2, 2), (5, 3)]


def test_the_vector_of_nothing_is_empty() -> None:
    vector, unravel = ravel_pytree([None, {}])
    assert vector.shape == (0,)
    assert unravel(vector) == [None, {}]


def test_unravel_checks_the_vector() -> None:
    _, unravel = ravel_pytree([np.ones(2, np.float32), np.ones(1, np.float16)])
    with pytest.raises(ShapeError, match="a vector of 3 elements"):
        unravel(np.ones(4, np.float32))
    with pytest.raises(DtypeError, match="dtype float32"):
        unravel(np.ones(3, np.float64))


def test_unravel_of_one_dtype_keeps_that_of_the_vector_and_is_one_argument() -> None:
    x = [np.ones(3, np.float32)]
    (flat, unravel), (_, again) = ravel_pytree(x), ravel_pytree(x)
    assert unravel(flat > 2)[0].dtype == bool
    take_apart = ft.jit(lambda v, back: back(v), static_argnums=1)
    assert take_apart(flat, unravel)[0].tolist() == [1, 1, 1]
    take_apart(flat, again)
    assert take_apart.trace_count == 1

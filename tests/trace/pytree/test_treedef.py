"""Structures as users hold them: JAX's text, parts, walks; every giver gives them."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any

import pytest

import ftrace as ft
from ftrace import tree, tree_util
from ftrace.compat.jax import api_util
from ftrace.compat.jax.extend import linear_util as lu
from ftrace.errors import ArgumentError, TreeError
from ftrace.tree_util import PyTreeDef, default_registry

Point = namedtuple("Point", ["x", "y"])


@tree_util.register_pytree_node_class
class Pair:
    """Two children, and a name."""

    def __init__(self, first: Any, second: Any, name: str = "p") -> None:
        self.children = first, second
        self.name = name

    def __repr__(self) -> str:  # which names tests
        return f"Pair{(*self.children, self.name)}"

    def tree_flatten(self) -> tuple[Any, Any]:
        return self.children, (self.name, 2)

    @classmethod
    def tree_unflatten(cls, data: Any, children: Any) -> Pair:
        return cls(*children, data[0])


#: As JAX 0.10.2 prints them, and the classes and data that it tells of them.
ROWS: list[tuple[Any, str, Any]] = [
    (1, "*", None),
    (None, "None", (type(None), None)),
    ((), "()", (tuple, None)),
    ((1,), "(*,)", (tuple, None)),
    ((1, (2, None)), "(*, (*, None))", (tuple, None)),
    ([1, [2, 3]], "[*, [*, *]]", (list, None)),
    ({}, "{}", (dict, [])),
    ({"b": 1, "a": (2,)}, "{'a': (*,), 'b': *}", (dict, ["a", "b"])),
    ({2: 1, 1: 2}, "{1: *, 2: *}", (dict, [1, 2])),
    (
        OrderedDict(b=1, a=2), "CustomNode(OrderedDict[('b', 'a')], [*, *])",
        (OrderedDict, ("b", "a")),
    ),
    (
        defaultdict(int, b=1, a=2),
        "CustomNode(defaultdict[(<class 'int'>, ('a', 'b'))], [*, *])",
        (defaultdict, (int, ("a", "b"))),
    ),
    (Point(1, (2, 3)), "CustomNode(namedtuple[Point], [*, (*, *)])", (Point, None)),
    (Pair(1, None), "CustomNode(Pair[('p', 2)], [*, None])", (Pair, ("p", 2))),
    (
        [{"a": Pair(Point(1, 2), 3)}],
        "[{'a': CustomNode(Pair[('p', 2)], [CustomNode(namedtuple[Point], [*, *]), "
        "*])}]",
        (list, None),
    ),
]  # fmt: skip
SAMPLES = [*[row[0] for row in ROWS], deque([1, (2, 3)], maxlen=3)]


@pytest.mark.parametrize(("sample", "text", "data"), ROWS, ids=[r[1] for r in ROWS])
def test_structures_print_and_tell_their_data_as_jax(
    sample: Any, text: str, data: Any
) -> None:
    treedef = tree.structure(sample)
    assert str(treedef) == repr(treedef) == f"PyTreeDef({text})"
    assert treedef.node_data() == data


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_a_structure_is_its_data_and_its_children(sample: Any) -> None:
    treedef = tree.structure(sample)
    children = treedef.children()
    made = PyTreeDef.from_node_data_and_children(
        default_registry, treedef.node_data(), children
    )
    assert made == treedef
    assert hash(made) == hash(treedef)
    assert (sum(c.num_nodes for c in children) + 1) == treedef.num_nodes


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_structures_are_kept_by_copies_and_pickles(sample: Any) -> None:
    treedef = tree.structure(sample)
    for again in (copy.copy(treedef), copy.deepcopy(treedef)):
        assert again == treedef
    assert pickle.loads(pickle.dumps(treedef)) == treedef


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_composition_is_a_tree_of_trees(sample: Any) -> None:
    outer, inner = tree.structure(sample), tree.structure((0, {"a": None}))
    whole = outer.unflatten([(0, {"a": None})] * outer.num_leaves)
    assert outer.compose(inner) == tree.structure(whole)


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_subtrees_of_a_prefix_are_its_leaves(sample: Any) -> None:
    treedef = tree.structure(sample)
    subtrees: list[Any] = [(i, [i]) for i in range(treedef.num_leaves)]
    assert treedef.flatten_up_to(treedef.unflatten(iter(subtrees))) == subtrees


def test_walk_goes_from_the_inside_out_in_the_order_of_leaves() -> None:
    treedef = tree.structure({"b": 1, "a": (2, None), "p": Point(3, Pair(4, 5))})
    seen: list[Any] = []
    result = treedef.walk(
        lambda children, data: seen.append((children, data)) or "node",
        lambda leaf: seen.append(leaf) or -leaf,
        iter(range(5)),
    )
    assert result == "node"
    assert seen == [  # as JAX's
        0, ((), None), ((0, "node"), None), 1, 2, 3, 4, ((-3, -4), ("p", 2)),
        ((-2, "node"), Point), (("node", -1, "node"), ["a", "b", "p"]),
    ]  # fmt: skip
    assert treedef.walk(lambda xs, _: sum(x or 0 for x in xs), None, range(5)) == 10


def test_a_structure_equals_structures_alone() -> None:
    treedef = tree.structure((1, 2))
    assert treedef == tree.structure((3, 4))
    assert treedef != tree.structure([3, 4])
    assert treedef != (1, 2)
    assert treedef != treedef.spec
    assert {treedef: 1}[tree.structure(("a", "b"))] == 1
    assert tree.leaves(treedef) == [treedef]


def test_every_function_gives_and_takes_the_same_class() -> None:
    sample = {"a": 1.0, "b": (2.0, None)}
    expected = tree.structure(sample)
    lowered = ft.jit(lambda x: x).lower(sample)
    stored = api_util.flatten_fun(
        lu.wrap_init(lambda x: x), tree.structure(((sample,), {}))
    )
    assert stored[0].call_wrapped(1.0, 2.0) == [1.0, 2.0]
    found = [
        tree.flatten(sample)[1], tree.flatten_with_path(sample)[1],
        tree_util.tree_structure(sample), default_registry.flatten(sample)[1],
        default_registry.flatten_with_path(sample)[1], lowered.out_tree,
        lowered.compile().out_tree, ft.jit(lambda x: x).trace(sample).out_tree,
        lowered.in_tree.children()[0].children()[0], stored[1](),
    ]  # fmt: skip
    for treedef in found:
        assert isinstance(treedef, PyTreeDef)
        assert treedef == expected
        assert tree.unflatten(treedef, [1.0, 2.0]) == sample
    assert api_util.flatten_axes("f", expected, {"a": 0, "b": 1}) == [0, 1]


def test_a_structure_is_a_static_argument() -> None:
    rebuild = ft.jit(lambda d, x: tree.unflatten(d, [x, 2 * x]), static_argnums=0)
    assert rebuild(tree.structure((0, [0])), 3.0) == (3.0, [6.0])


def test_wrong_uses_are_refused() -> None:
    treedef, leaf = tree.structure((0, 0)), tree.structure(0)
    make = PyTreeDef.from_node_data_and_children
    with pytest.raises(TreeError, match="takes 2 leaves, got 1"):
        treedef.unflatten([1])
    with pytest.raises(ArgumentError, match="must be a list"):
        treedef.unflatten(3)  # type: ignore[arg-type]
    with pytest.raises(TreeError, match="differ in structure"):
        treedef.flatten_up_to([1, 2])
    with pytest.raises(ArgumentError, match="a structure is required"):
        treedef.compose((0, 0))  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="a leaf has no children"):
        make(default_registry, None, [leaf])
    with pytest.raises(ArgumentError, match="is no container"):
        make(default_registry, (int, None), [leaf])
    with pytest.raises(ArgumentError, match="cannot have 2 children"):
        make(default_registry, (dict, ["a"]), [leaf, leaf])
    with pytest.raises(ArgumentError, match="not 2 children"):
        make(default_registry, (deque, 1), [leaf, leaf])

"""Pytrees: nested containers of leaves, on optree.

None is an empty container, as in JAX. Dictionaries are flattened by sorted key.
Dataclasses and other classes take part once they are registered.
"""

from __future__ import annotations

import atexit
import dataclasses
import functools
import inspect
import sys
import time
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from threading import get_ident
from typing import Any, TypeVar, cast

import optree

from ftrace.errors import ArgumentError, NestingError, TreeError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.arrays.array import Array

# Where a leaf stands: a path is a tuple of keys, from the root down.
#
#     {"w": [1, 2]}   ->   (DictKey("w"), SequenceKey(0)),  printed as ['w'][0]
#
# The classes are those of JAX.


KeyEntry = Any  # one of the classes below, or what a user's container names
KeyPath = tuple[KeyEntry, ...]

#: What is taken for several values. Its type is loose, so that asking narrows nothing.
SEQUENCES: tuple[type[Any], ...] = (tuple, list)


@dataclass(frozen=True)
class SequenceKey:
    """A position in a list, tuple or deque."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@dataclass(frozen=True)
class DictKey:
    """A key of a dictionary."""

    key: Hashable

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclass(frozen=True)
class GetAttrKey:
    """A field of a namedtuple, a dataclass or another object."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@dataclass(frozen=True)
class FlattenedIndexKey:
    """A child, by position, of a container that does not name its children."""

    key: int

    def __str__(self) -> str:
        return f"[<flat index {self.key!r}>]"


class NamedEntry(optree.FlattenedEntry):
    """Marks children whose keys the container gives itself."""


def key_of(entry: Any) -> KeyEntry:
    """The key for an entry of optree."""
    kind: Any = entry.__class__
    if kind is NamedEntry:
        return entry.entry
    if issubclass(kind, (optree.NamedTupleEntry, optree.StructSequenceEntry)):
        return GetAttrKey(entry.field)
    if issubclass(kind, optree.MappingEntry):
        return DictKey(entry.entry)
    if issubclass(kind, optree.SequenceEntry):
        return SequenceKey(entry.entry)
    return FlattenedIndexKey(entry.entry)


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """A path as text: `['w'][0]`, or `w/0` with `simple=True, separator="/"`.

    Args:
      keys: a path, as of `leaves_with_path`.
      simple: write the keys alone.
      separator: what stands between keys.

    Example:
      >>> (path, leaf), = ft.tree_util.tree_leaves_with_path({"a": [5]})
      >>> keystr = ft.tree_util.keystr
      >>> keystr(path), keystr(path, simple=True, separator="/")
      ("['a'][0]", 'a/0')
    """
    return separator.join(_simple(key) if simple else str(key) for key in keys)


def _simple(key: KeyEntry) -> str:
    for kind, name in _CONTENT:
        if isinstance(key, kind):
            return str(getattr(key, name))
    return str(key)


_CONTENT = (
    (SequenceKey, "idx"),
    (DictKey, "key"),
    (GetAttrKey, "name"),
    (FlattenedIndexKey, "key"),
)


T = TypeVar("T")
TreeDef = optree.PyTreeSpec
IsLeaf = Callable[[Any], bool]
#: Of `map`: takes a leaf of each tree.
Leafwise = (
    Callable[[Any], Any] | Callable[[Any, Any], Any] | Callable[[Any, Any, Any], Any]
)

NAMESPACE = "ftrace"
#: What calls it is in `_CALLERS`. Of its functions the stubs do not say enough.
_optree: Any = optree


# Structures. The keys of dictionaries must have an order, else two equal dictionaries
# could be flattened differently; each structure is looked at once. Of those that were
# there is only a number, which keeps no class alive.

_checked: set[tuple[int, int]] = set()
#: A bound of memory: of more, all are looked at once again.
_CHECKED_LIMIT = 4096


def nodes_of(treedef: TreeDef) -> Iterator[TreeDef]:
    """The structure, and those of all containers and leaves within it."""
    pending = [treedef]
    while pending:
        yield (node := pending.pop())
        pending.extend(node.children())


def classes_of(treedef: TreeDef) -> set[Any]:
    """The classes of containers that are kept alive by a structure."""
    found: set[Any] = {node.type for node in nodes_of(treedef)}
    return found - {None, tuple, list, dict}


def _check_order(treedef: TreeDef) -> None:
    try:
        number = hash(treedef), treedef.num_nodes
        if number in _checked:
            return
        if len(_checked) >= _CHECKED_LIMIT:
            _checked.clear()
    except TypeError:  # static data of a user's container cannot be hashed
        number = None
    for node in nodes_of(treedef):
        if isinstance(node.type, type) and issubclass(node.type, dict):
            _check_sortable(node)
    if number is not None:
        _checked.add(number)


def _check_sortable(node: TreeDef) -> None:
    if node.type is OrderedDict:
        return
    keys = node.entries()
    try:
        sorted(keys)
    except TypeError:
        raise TreeError(
            "the keys of a dictionary in a pytree must be sortable, got "
            f"{keys!r}; use keys of one type, or an OrderedDict"
        ) from None


def check_callable(function: Any, what: str) -> None:
    """Raises if a transform gets something else than a function.

    Raises:
      ArgumentError: it cannot be called, or yields.
    """
    yields = inspect.isgeneratorfunction(function)
    if not callable(function) or yields:
        kind = "generator function" if yields else type(function).__name__
        raise ArgumentError(f"{what} takes a function, got {kind}: {function!r}")


def flatten(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], TreeDef]:
    """The leaves of a tree, and its structure.

    Raises:
      TreeError: the keys of a dictionary cannot be sorted.
    """
    if tree.__class__ is Array and is_leaf is None:
        return [tree], _LEAF
    try:
        found, treedef = _optree.tree_flatten(tree, is_leaf, namespace=NAMESPACE)
    except RecursionError as error:
        raise NestingError(
            "the containers of a pytree are nested deeper than 1,000; make it flatter: "
            "a list of what is nested now"
        ) from error
    _check_order(treedef)
    return found, treedef


#: The structure of an array.
_LEAF: TreeDef = _optree.tree_structure(0, namespace=NAMESPACE)


def unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """The tree of that structure with these leaves.

    Raises:
      TreeError: their number is not that of the structure.
    """
    leaves = list(leaves)
    if len(leaves) != treedef.num_leaves:
        raise TreeError(
            f"tree.unflatten: the structure {readable(treedef)} takes "
            f"{treedef.num_leaves} leaves, got {len(leaves)}"
        )
    return _optree.tree_unflatten(treedef, leaves)


def structure(tree: Any, is_leaf: IsLeaf | None = None) -> TreeDef:
    """The structure of a tree: compares, hashes, and unflattens leaves."""
    return flatten(tree, is_leaf)[1]


def leaves(tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """The leaves of a tree, in order: those of a dict in that of its sorted keys.

    Args:
      tree: any tree.
      is_leaf: stops at what it holds for, and takes that for a leaf.

    Raises:
      TreeError: the keys of a dictionary cannot be sorted.

    Example:
      >>> ft.tree.leaves({"b": [1, 2], "a": (3, None)})
      [3, 1, 2]
    """
    return flatten(tree, is_leaf)[0]


def flatten_up_to(treedef: TreeDef, tree: Any, what: str) -> list[Any]:
    """The subtrees of `tree` at the places of the leaves of `treedef`.

    Raises:
      TreeError: `tree` does not begin with that structure.
    """
    try:
        return treedef.flatten_up_to(tree)
    except (ValueError, TypeError):
        raise TreeError(
            f"{what}: the trees differ in structure: {readable(treedef)} and "
            f"{readable(structure(tree))}"
        ) from None


def readable(treedef: TreeDef) -> str:
    """A structure as in `(*, {'a': *})`: the text of JAX's."""
    return treedef.walk(["*"] * treedef.num_leaves, _text_of_node, None)


def _text_of_node(kind: type[Any], data: Any, parts: tuple[str, ...]) -> str:
    inner = ", ".join(parts)
    if kind is type(None):
        return "None"
    if kind is tuple:
        return f"({inner},)" if len(parts) == 1 else f"({inner})"
    if kind is list:
        return f"[{inner}]"
    if kind is dict:
        items = zip(data, parts, strict=True)
        return f"{{{', '.join([f'{key!r}: {part}' for key, part in items])}}}"
    if is_namedtuple(kind):
        return f"CustomNode(namedtuple[{kind.__name__}], [{inner}])"
    return f"CustomNode({kind.__name__}[{static_data(kind, data)}], [{inner}])"


def static_data(kind: type[Any], data: Any) -> Any:
    """The static data of a container, as JAX has it, for what optree has."""
    if kind is OrderedDict:
        return tuple(data)
    return (data[0], tuple(data[1])) if kind is defaultdict else data


def map(f: Leafwise, tree: Any, *rest: Any, is_leaf: IsLeaf | None = None) -> Any:
    """`f` of each leaf, and of what stands at the same place in `rest`.

    Args:
      f: a function of a leaf of `tree`, and of a subtree of each tree of `rest`.
      tree: any tree: lists, tuples, dicts, None, namedtuples, registered classes.
      rest: trees that begin with its structure.
      is_leaf: stops at what it holds for, and takes that for a leaf.

    Returns:
      A tree of the structure of `tree`, whose leaves are what `f` returned. None is a
      tree without leaves: `f` does not see it.

    Raises:
      TreeError: a tree of `rest` does not have the structure of `tree`.

    Example:
      >>> tree = {"a": 1, "b": (2, 3)}
      >>> ft.tree.map(lambda x, y: x + 10 * y, tree, tree)
      {'a': 11, 'b': (22, 33)}
      >>> ft.tree.map(type, [1, None], is_leaf=lambda x: x is None)
      [<class 'int'>, <class 'NoneType'>]
    """
    if tree.__class__ is Array and is_leaf is None:
        return f(tree, *rest)
    return _map(f, *flatten(tree, is_leaf), rest, "tree.map")


def map_with_none(what: str, f: Leafwise, tree: Any, *rest: Any) -> Any:
    """`map`, where None is a leaf of the first tree; `what` names it in messages."""
    found, treedef = _optree.tree_flatten(tree, none_is_leaf=True, namespace=NAMESPACE)
    _check_order(treedef)
    return _map(f, found, treedef, rest, what)


def _map(
    f: Leafwise, first: Any, treedef: TreeDef, rest: Sequence[Any], what: str
) -> Any:
    check_callable(f, what)
    columns = [first, *[flatten_up_to(treedef, x, what) for x in rest]]
    made = [f(*column) for column in zip(*columns, strict=True)]
    return _unflatten(treedef, made)


def _unflatten(treedef: TreeDef, leaves: list[Any]) -> Any:
    return _optree.tree_unflatten(treedef, leaves)


def broadcast_prefix(prefix: Any, tree: Any, what: str) -> list[Any]:
    """One leaf of `prefix` per leaf of `tree`; None in the prefix is a leaf.

    Raises:
      TreeError: `prefix` is not the beginning of the structure of `tree`.
    """
    try:
        pairs = prefix_pairs(prefix, tree)
    except (ValueError, TypeError):
        treedef = structure(tree)
        raise TreeError(
            f"{what}: {prefix!r} is not a prefix of the structure "
            f"{readable(treedef)}{_mismatch(prefix, treedef)}"
        ) from None
    return [leaf for leaf, part in pairs for _ in leaves(part)]


def map_prefix(
    function: Callable[[Any, Any], Any], tree: Any, prefix: Any, what: str
) -> Any:
    """`function(leaf, part of the prefix)` for each leaf: see `broadcast_prefix`."""
    found, treedef = flatten(tree)
    rows = zip(found, broadcast_prefix(prefix, tree, what), strict=True)
    return unflatten(treedef, [function(leaf, part) for leaf, part in rows])


class _Leaf:
    """In the place of a leaf whose value does not matter."""

    def __repr__(self) -> str:
        return "*"


def _mismatch(prefix: Any, treedef: TreeDef) -> str:
    """What optree says of a prefix that is none, without the values of leaves."""
    try:
        prefix_pairs(prefix, _unflatten(treedef, [_Leaf()] * treedef.num_leaves))
    except Exception as error:  # also one of a class that wants other values
        return f"; {error}"
    return ""


def prefix_pairs(prefix: Any, tree: Any) -> list[tuple[Any, Any]]:
    """(leaf of `prefix`, what stands in its place in `tree`); None is a leaf.

    Raises:
      ValueError, TypeError: `prefix` is not the beginning of the structure of `tree`.
    """
    found, treedef = _optree.tree_flatten(
        prefix, none_is_leaf=True, namespace=NAMESPACE
    )
    return list(zip(found, treedef.flatten_up_to(tree), strict=True))


# Paths.


def leaves_with_path(tree: Any) -> list[tuple[KeyPath, Any]]:
    """(path, leaf) for every leaf."""
    return flatten_with_path(tree)[0]


def flatten_with_path(
    tree: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> tuple[list[tuple[KeyPath, Any]], TreeDef]:
    """(path, leaf) for every leaf, and the structure.

    Args:
      tree: any tree.
      is_leaf: stops at what it holds for.
      is_leaf_takes_path: `is_leaf` is called with the path and the subtree.
    """
    if is_leaf_takes_path and is_leaf is not None:
        verdicts = iter(_verdicts(tree, is_leaf))
        is_leaf = functools.partial(_next, verdicts)
    accessors, found, treedef = _optree.tree_flatten_with_accessor(
        tree, is_leaf, namespace=NAMESPACE
    )
    _check_order(treedef)
    return list(zip(map(_path, accessors), found, strict=True)), treedef


def _path(accessor: Any) -> KeyPath:
    return tuple([key_of(entry) for entry in accessor])


def paths(treedef: TreeDef) -> list[KeyPath]:
    """The path of every leaf of a structure."""
    return [*map(_path, treedef.accessors())]


def static_fields(treedef: TreeDef) -> dict[str, Any]:
    """What is static in the outermost container, by what is written behind its name.

    Of a dataclass by field, of other classes of users all at once.
    """
    if treedef.kind != optree.PyTreeKind.CUSTOM:
        return {}
    level: Any = treedef.one_level()
    if dataclasses.is_dataclass(treedef.type):
        children = [path[0] for path in paths(level)]
        made = unflatten(treedef, [None] * treedef.num_leaves)
        keys = [GetAttrKey(field.name) for field in dataclasses.fields(made)]
        return {str(k): getattr(made, k.name, None) for k in keys if k not in children}
    return {"'s static data": level.walk([None] * level.num_leaves, _data_of, None)}


def _data_of(_: Any, data: Any, __: Any) -> Any:
    """Of a container: what `walk` gives of it beside its class and children."""
    return data


def _next(verdicts: Iterator[bool], _: Any) -> bool:
    return next(verdicts)


def _verdicts(tree: Any, is_leaf: Callable[[KeyPath, Any], bool]) -> list[bool]:
    """What `is_leaf` says of each subtree that is reached, in optree's order."""
    verdicts: list[bool] = []
    pending: list[tuple[KeyPath, Any]] = [((), tree)]
    while pending:
        path, node = pending.pop()
        verdicts.append(bool(is_leaf(path, node)))
        if verdicts[-1] or not is_node(node):
            continue
        children, _ = flatten_one_level_with_keys(node)
        pending.extend([((*path, key), child) for key, child in children][::-1])
    return verdicts


def is_node(tree: Any) -> bool:
    """Is it a container (also an empty one), and no leaf?"""
    return not _optree.tree_is_leaf(tree, namespace=NAMESPACE)


def is_registered(cls: type) -> bool:
    """Are the instances of this class containers?"""
    return _optree.register_pytree_node.get(cls, namespace=NAMESPACE) is not None


def unflatten_func(cls: type) -> Callable[[Any, list[Any]], Any]:
    """What builds an instance of a container of static data and children."""
    entry = _optree.register_pytree_node.get(cls, namespace=NAMESPACE)
    data_is_class = is_namedtuple(cls)
    return lambda data, xs: entry.unflatten_func(cls if data_is_class else data, xs)


def is_namedtuple(cls: type) -> bool:
    """Are the instances of this class taken apart as namedtuples?"""
    if not _optree.is_namedtuple_class(cls):
        return False
    entry = _optree.register_pytree_node.get(cls, namespace=NAMESPACE)
    return entry is None or entry.type is not cls  # else the user has made it another


def flatten_one_level_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """(key, child) for every child of a container, and its static data.

    Args:
      tree: a container.

    Raises:
      TreeError: it is a leaf.
    """
    if not is_node(tree):
        raise TreeError(
            f"{type(tree).__name__} is no container of a pytree: {tree!r:.60}"
        )
    children, data, _, _ = _optree.tree_flatten_one_level(tree, namespace=NAMESPACE)
    is_child: IsLeaf = lambda x: x is not tree  # noqa: E731
    accessors = _optree.tree_accessors(
        tree, is_child, none_is_leaf=True, namespace=NAMESPACE
    )
    keys = [key_of(accessor[0]) for accessor in accessors if len(accessor)]
    if isinstance(data, list):  # the keys of a dict
        data = tuple(cast("list[Any]", data))
    return list(zip(keys, children, strict=True)), data


# Containers of the user.

Flatten = Callable[[Any], tuple[Iterable[Any], Any]]


def register_pytree_node(
    nodetype: type[T],
    flatten_func: Flatten,
    unflatten_func: Callable[[Any, Any], T],
    flatten_with_keys_func: Flatten | None = None,
) -> None:
    """Makes a class a container.

    Args:
      nodetype: the class; subclasses are not included.
      flatten_func: `flatten_func(x) -> (children, aux)`. `aux` is a part of the
        structure: it must be hashable.
      unflatten_func: `unflatten_func(aux, children) -> x`.
      flatten_with_keys_func: `(x) -> ([(key, child), …], aux)`, to name the children.

    Raises:
      TreeError: the class is a container already.

    Example:
      >>> class Pair:
      ...     def __init__(self, x, y):
      ...         self.x, self.y = x, y
      >>> ft.tree_util.register_pytree_node(
      ...     Pair, lambda p: ((p.x, p.y), None), lambda _, children: Pair(*children))
      >>> ft.grad(lambda p: p.x * p.y)(Pair(2.0, 3.0)).x
      Array(3., dtype=float32, weak_type=True)
    """

    def flatten_named(x: T) -> tuple[list[Any], Any, tuple[Any, ...]]:
        assert flatten_with_keys_func is not None
        pairs, data = flatten_with_keys_func(x)
        pairs = list(pairs)
        return [child for _, child in pairs], data, tuple([key for key, _ in pairs])

    named = flatten_with_keys_func is not None
    try:
        with warnings.catch_warnings():  # of a named tuple that is made another one
            warnings.simplefilter("ignore", UserWarning)
            _optree.register_pytree_node(
                nodetype,
                flatten_named if named else flatten_func,
                unflatten_func,
                path_entry_type=NamedEntry if named else optree.FlattenedEntry,
                namespace=NAMESPACE,
            )
    except ValueError as error:
        raise TreeError(f"{nodetype!r} cannot be made a container: {error}") from None
    except TypeError as error:
        raise ArgumentError(
            f"{nodetype!r} cannot be made a container: {error}"
        ) from None


def register_dataclass(
    nodetype: type[T],
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> type[T]:
    """Makes a dataclass a container of its fields, as a decorator or a call.

    Args:
      nodetype: the dataclass, or any class if all fields are named.
      data_fields: names of fields that hold arrays or trees; by default all fields
        that are not in `meta_fields` and not marked `metadata={"static": True}`.
      meta_fields: names of static fields; hashable, part of the structure.
      drop_fields: names of fields that are left out, and take their default.

    Raises:
      ArgumentError: it is no dataclass, or a field is not named once.

    Example:
      >>> import dataclasses
      >>> @ft.tree_util.register_dataclass
      ... @dataclasses.dataclass
      ... class Layer:
      ...     w: object
      ...     name: str = dataclasses.field(metadata={"static": True})
      >>> ft.tree.map(lambda x: 2 * x, Layer(fnp.ones(2), "first"))
      Layer(w=Array([2., 2.], dtype=float32), name='first')
    """
    known = dataclasses.is_dataclass(nodetype)
    if not known and (data_fields is None or meta_fields is None):
        raise ArgumentError(
            f"register_dataclass: {nodetype} is not a dataclass; name its data_fields "
            "and its meta_fields"
        )
    every = dataclasses.fields(nodetype) if dataclasses.is_dataclass(nodetype) else ()
    fields = [f for f in every if f.init and f.name not in drop_fields]
    names = [f.name for f in fields]
    if meta_fields is None:
        meta_fields = [f.name for f in fields if f.metadata.get("static")]
    if data_fields is None:
        data_fields = [name for name in names if name not in meta_fields]
    data, meta = tuple(data_fields), tuple(meta_fields)
    if known and sorted(data + meta) != sorted(names):
        raise ArgumentError(
            f"register_dataclass: {nodetype.__name__} has the fields {names}; "
            f"data_fields {data} and meta_fields {meta} must name each of them once"
        )
    keys = tuple([GetAttrKey(name) for name in data])

    def static(x: Any) -> tuple[Hashable, ...]:
        return tuple([getattr(x, name) for name in meta])

    def flatten_fields(x: Any) -> tuple[list[Any], Any]:
        return [getattr(x, name) for name in data], static(x)

    def flatten_with_keys(x: Any) -> tuple[list[Any], Any]:
        return [(key, getattr(x, key.name)) for key in keys], static(x)

    def build(aux: Any, children: Iterable[Any]) -> Any:
        made = object.__new__(nodetype)
        for name in drop_fields if known else ():
            object.__setattr__(made, name, _default(nodetype, name))
        for name, value in zip(data, children, strict=True):
            object.__setattr__(made, name, value)
        for name, value in zip(meta, aux, strict=True):
            object.__setattr__(made, name, value)
        return made

    register_pytree_node(nodetype, flatten_fields, build, flatten_with_keys)
    return nodetype


def _default(cls: Any, name: str) -> Any:
    field = next(f for f in dataclasses.fields(cls) if f.name == name)
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None if field.default is dataclasses.MISSING else field.default


# The end of the process. A daemon thread that runs when Python ends is ended where it
# next waits for the interpreter. Within optree, which is C++, that aborts the process.


class _Ending:
    """optree for the thread that ends the process; any other one ends at a call."""

    def __init__(self) -> None:
        self._thread = get_ident()

    def __getattr__(self, name: str) -> Any:
        if get_ident() != self._thread:
            raise SystemExit  # it lets go of its locks, and nobody is told
        return getattr(optree, name)


#: The functions here that call optree.
_CALLERS = frozenset(
    f.__code__
    for f in (
        flatten, unflatten, map_with_none, _unflatten, prefix_pairs,
        flatten_with_path, flatten_up_to, is_node, is_registered, is_namedtuple,
        flatten_one_level_with_keys, readable,
    )
)  # fmt: skip
#: Seconds that a thread has to come back from optree.
_PATIENCE = 1.0


def _end() -> None:
    """Keeps other threads out of optree from now on; waits for those within."""
    global _optree
    _optree = _Ending()
    last = time.monotonic() + _PATIENCE
    while _is_called_elsewhere() and time.monotonic() < last:
        time.sleep(0.001)


def _is_called_elsewhere() -> bool:
    """Is another thread within a call of optree?"""
    for thread, innermost in getattr(sys, "_current_frames", dict[int, Any])().items():
        frame = None if thread == get_ident() else innermost
        while frame is not None:
            if frame.f_code in _CALLERS:
                return True
            frame = frame.f_back
    return False


atexit.register(_end)

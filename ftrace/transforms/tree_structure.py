"""Trees as text: what JSON can say of a pytree, whose leaves have names.

    {"layers": [{"w": w, "b": None}], "state": State(step=n)}

    {"dict": [["layers", {"list": [{"dict": [["w", "layers/0/w"], ["b", null]]}]}],
              ["state", {"class": ["train:State", null, ["state/step"]]}]]}

A leaf is the path that leads to it, and null is None. A class is one that the program
has already: text of a file never imports anything but parts of ftrace.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, cast

import optree as _optree

from ftrace.errors import FileFormatError, TreeError
from ftrace.trace.pytree import tree as trees

optree: Any = _optree  # whose types are unknown in part
Leaves = dict[str, Any]


class _NotPlain(Exception):
    """Static data that JSON does not know."""


def describe(tree: Any) -> tuple[Any, Leaves]:
    """The structure of a tree, and its leaves by name.

    Raises:
      TreeError: a key of a dict is no text, or two leaves have the same name.
    """
    leaves: Leaves = {}
    return _describe(tree, (), leaves), leaves


def _describe(tree: Any, path: tuple[str, ...], leaves: Leaves) -> Any:
    if tree is None:
        return None
    if not trees.is_node(tree):
        name = name_of(path)
        if name in leaves:
            raise TreeError(
                f"save: two leaves have the path {name!r}; rename a key of one"
            )
        leaves[name] = tree
        return name
    kind: Any = tree.__class__
    if kind is dict:
        items = cast("dict[Any, Any]", tree).items()
        for key, _ in items:
            if not isinstance(key, str):
                raise TreeError(
                    f"save: keys of dicts must be text, got {key!r} {at_path(path)}"
                )
        return {"dict": [[k, _describe(v, (*path, k), leaves)] for k, v in items]}
    pairs, data = trees.flatten_one_level_with_keys(tree)
    names = [trees.keystr((key,), simple=True) for key, _ in pairs]
    parts = [
        _describe(child, (*path, name), leaves)
        for name, (_, child) in zip(names, pairs, strict=True)
    ]
    if kind in trees.SEQUENCES:
        return {kind.__name__: parts}
    static = None if trees.is_namedtuple(kind) else _as_json(data)
    return {"class": [f"{kind.__module__}:{kind.__qualname__}", static, parts]}


def _as_json(value: Any) -> Any:
    """Static data of a class as JSON; what JSON does not know is a mark of that."""
    try:
        return {"static": _encode(value)}
    except _NotPlain:
        return {"unknown": f"{value!r:.60}"}


def _encode(value: Any) -> Any:
    if type(value) in (bool, int, float, str, type(None)):
        return value
    if type(value) in trees.SEQUENCES:
        return {type(value).__name__: [_encode(v) for v in value]}
    raise _NotPlain


def _decode(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, parts),) = cast(dict[str, Any], value).items()
    return {"list": list, "tuple": tuple}[kind]([_decode(v) for v in parts])


def rebuild(structure: Any, leaves: Mapping[str, Any], where: str) -> Any:
    """`describe` back; `where` is the file that it is from.

    Raises:
      FileFormatError: the program does not have a class of it.
    """
    if structure is None:
        return None
    if isinstance(structure, str):
        return leaves[structure]
    ((kind, parts),) = structure.items()
    if kind == "dict":
        return {key: rebuild(value, leaves, where) for key, value in parts}
    make: Any = {"list": list, "tuple": tuple}.get(kind)
    if make is None:
        name, static, parts = parts
        make = _maker(name, static, where)
    return make([rebuild(value, leaves, where) for value in parts])


def _maker(name: str, static: Any, where: str) -> Callable[[list[Any]], Any]:
    """What makes an instance of a class of its children."""
    module, _, path = name.partition(":")
    own = module.startswith("ftrace.") and module.replace(".", "").isidentifier()
    kind: Any = import_module(module) if own else sys.modules.get(module)
    for part in path.split("."):
        kind = getattr(kind, part, None)
    if isinstance(kind, type):
        if static is None and trees.is_namedtuple(kind):
            return lambda children: cast(Any, kind)(*children)
        entry = optree.register_pytree_node.get(kind, namespace=trees.NAMESPACE)
        if entry is not None and static and "static" in static:
            data = _decode(static["static"])
            return lambda children: entry.unflatten_func(data, children)
    why = f"of {static['unknown']}" if static and "unknown" in static else "here"
    raise FileFormatError(
        f"{where}: the tree has a {path} of the module {module!r}, which cannot be "
        f"made {why}: import and register the class before the file is "
        "loaded, or give like=, a tree of the same arrays"
    )


def name_of(path: tuple[str, ...]) -> str:
    """Unique: a slash in a key is written ~1, as in JSON pointers (RFC 6901)."""
    parts = [key.replace("~", "~0").replace("/", "~1") for key in path]
    return "/".join(parts) if path else "array"


def at_path(path: tuple[str, ...]) -> str:
    return f"at {'/'.join(path)!r}" if path else "at the top"

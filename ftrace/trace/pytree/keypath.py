"""Where a leaf stands in a pytree: a path is a tuple of keys, from the root down.

    {"w": [1, 2]}   ->   (DictKey("w"), SequenceKey(0)),  printed as ['w'][0]

The classes are those of JAX.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import optree

from ftrace.ground.fast_dataclasses import dataclass

KeyEntry = Any  # one of the classes below, or what a user's container names
KeyPath = tuple[KeyEntry, ...]


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
    """A path as text: `['w'][0]`, or `w/0` with `simple=True, separator="/"`."""
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

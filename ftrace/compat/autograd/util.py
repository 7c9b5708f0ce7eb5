"""Tuples with other values in some places."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def subvals(x: Sequence[Any], ivs: Iterable[tuple[int, Any]]) -> tuple[Any, ...]:
    """`x` with other values in some places."""
    found = list(x)
    for place, value in ivs:
        found[place] = value
    return tuple(found)


def subval(x: Sequence[Any], i: int, v: Any) -> tuple[Any, ...]:
    """`x` with another value in one place."""
    return subvals(x, [(i, v)])

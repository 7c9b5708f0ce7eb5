"""The functions of `optim.tree` by their longer names: `tree_add` is `tree.add`."""

from __future__ import annotations

from typing import Any

from ftrace.optim import tree as trees


def __getattr__(name: str) -> Any:
    if name.startswith("tree_") and hasattr(trees, name[5:]):
        return getattr(trees, name[5:])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)

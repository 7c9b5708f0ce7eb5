"""The arrays and traced values that a Python function closes over.

A rule runs when the function around it has returned. The values of that function which
it uses become operands of the call: they are looked for in the cells, defaults, bound
arguments and globals of the rule, in the functions that it closes over, and in trees.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from types import FunctionType, MethodType
from typing import Any

from ftrace.arrays.array import ArrayLike
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.tracer import has_ended

#: How many values are looked at; what lies deeper is not found.
_LIMIT = 4096
_OURS = "ftrace."
_PARTIAL: Any = functools.partial


def closed_over(values: Iterable[Any]) -> list[ArrayLike]:
    """The arrays among these values and in what they refer to, each once.

    What a rule has stored is there, too, when the function around it has returned: that
    counts when it is used.
    """
    found: dict[int, ArrayLike] = {}
    seen: set[int] = set()
    pending = list(values)
    while pending and len(seen) < _LIMIT:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, ArrayLike):
            if not has_ended(value):  # else it is an error to use it, not to have it
                found[id(value)] = value
        elif not isinstance(value, (str, bytes, int, float, type)):
            pending.extend(_parts(value))
    return list(found.values())


def _parts(value: Any) -> list[Any]:
    """What a function, an object or a container refers to."""
    if isinstance(value, FunctionType):
        cells = [_content(cell) for cell in value.__closure__ or ()]
        defaults = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        known = value.__globals__
        named = [known.get(name) for name in value.__code__.co_names]
        return [*cells, *defaults, *(x for x in named if isinstance(x, ArrayLike))]
    if isinstance(value, MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, _PARTIAL):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, dict):  # also one that is no tree: its keys have no order
        return [*value.values()]
    if tree.is_node(value):
        return [child for _, child in tree.flatten_one_level(value)[0]]
    attributes: dict[str, Any] = getattr(value, "__dict__", {})
    if value.__class__.__module__.startswith(_OURS):  # of jit, say: no caches
        return [x for x in attributes.values() if isinstance(x, FunctionType)]
    return list(attributes.values()) if _is_plain(value) else []


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _is_plain(value: Any) -> bool:
    """An object of Python: no module, and nothing that is written in C."""
    kind: Any = value.__class__
    return hasattr(value, "__dict__") and hasattr(kind, "__weakref__")

"""Python's own, of boxes too: containers of boxes are Python's containers here."""

from __future__ import annotations

import builtins
from typing import Any

from ftrace.compat.autograd.core import getval

tuple, list, dict = builtins.tuple, builtins.list, builtins.dict


def isinstance(x: Any, types: Any) -> bool:
    """Is the value that x stands for an instance?"""
    return builtins.isinstance(getval(x), types)


def type(x: Any) -> Any:
    """The type of the value that x stands for."""
    found: Any = getval(x)
    return builtins.type(found)  # pyright: ignore[reportUnknownVariableType]

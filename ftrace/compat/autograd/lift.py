"""Namespaces of functions: NumPy's and SciPy's own until a box is among arguments.

lifted("numpy", "sin", fnp.sin)(x)   np.sin(x), or fnp.sin(x) of a box
"""

# What users give and get is of any type.
# pyright: basic

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import update_wrapper
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.compat.autograd.core import getval, holds_box, notrace_primitive
from ftrace.errors import MissingRuleError

#: Of a box they tell what its value tells, and have no derivative.
_TELLING = (
    "shape",
    "ndim",
    "size",
    "iscomplexobj",
    "isrealobj",
    "result_type",
    "isscalar",
)

#: Functions of lists of arrays.
_OF_ARRAYS = (
    "array", "asarray", "atleast_1d", "atleast_2d", "atleast_3d", "block",
    "broadcast_arrays", "choose", "column_stack", "concatenate", "concat", "dstack",
    "einsum", "hstack", "meshgrid", "multi_dot", "piecewise", "select", "stack",
    "vstack",
)  # fmt: skip


def _as_array(x: Any) -> Any:
    return fnp.array(x) if isinstance(x, (list, tuple)) and holds_box(x) else x


def lift(home: str, name: str, plain: Any, ours: Any) -> Any:
    """A function, or what is no function as it is."""
    if isinstance(plain, type) and issubclass(plain, np.integer):
        # Whole numbers have no derivative: those of a box are of its value.
        return type(name, (plain,), {"__new__": lambda _, *x: plain(*map(getval, x))})
    if not callable(plain) or isinstance(plain, type):
        return plain
    if home == "numpy" and name in _TELLING:
        return notrace_primitive(plain)

    def function(*args: Any, **kwargs: Any) -> Any:
        if not (any(map(holds_box, args)) or holds_box(kwargs)):
            return plain(*args, **kwargs)
        if ours is None:
            raise MissingRuleError(f"VJP of {home}.{name} not defined")
        if name not in _OF_ARRAYS:  # a list of boxes is one array
            args = tuple([_as_array(x) for x in args])
        return ours(*args, **kwargs)

    return update_wrapper(function, plain)


def namespace(
    module: str, home: str, ours: str, own: dict[str, Any] | None = None
) -> Callable[[str], Any]:
    """`__getattr__` of a module: its functions, made when they are asked for.

    Args:
      module: the name of the module.
      home: where the functions of values are; a module, or an object in one.
      ours: where those of boxes are.
      own: functions that are given instead.
    """

    def find(name: str) -> Any:
        if own is not None and name in own:
            return own[name]
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        plain = getattr(_at(home), name)
        found = lift(home, name, plain, getattr(_at(ours), name, None))
        setattr(sys.modules[module], name, found)
        return found

    return find


def _at(path: str) -> Any:
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        if error.name not in (path, path.rpartition(".")[0]) or "." not in path:
            raise
    around, _, name = path.rpartition(".")
    return getattr(import_module(around), name, None)


def submodule(
    module: str, home: str, ours: str, own: dict[str, Any] | None = None
) -> ModuleType:
    """A module of such functions, importable by its name."""
    made = ModuleType(module, f"The functions of {home}, of boxes too.")
    made.__spec__ = ModuleSpec(module, None)
    made.__getattr__ = namespace(module, home, ours, own)  # type: ignore[method-assign]
    sys.modules[module] = made
    return made

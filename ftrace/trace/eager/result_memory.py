"""Results: in memory of their own, and where the caller asked for them.

NumPy may change the arrays that a call was given.

    roll(x, 0)       NumPy's x is copied: roll(x, 1) shares no memory with it either
    reshape(x, ...)  shares its memory always: the function shows its operand

Whether memory is shared must not hang on a size or a value, or a program that works on
two rows goes wrong on one. What an Array of ours holds nobody changes.
"""

# This is the path of every call: the properties of an Array would cost as much again.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType
from typing import Any

import numpy as np

from ftrace.trace.arrays.array import Array, is_array, is_away
from ftrace.trace.backend import backend
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.tracer import Tracer

#: Classes of arguments that hold no memory of NumPy's.
UNCHANGING = frozenset((Array, Tracer, int, float, complex, bool, str, NoneType, slice))


def is_plain(args: Any, kwargs: Any) -> bool:
    """Is no argument of a class of its own, and none a container?"""
    return UNCHANGING.issuperset(map(type, (*args, *kwargs.values())))


def own(result: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a call; copies stand for Arrays that show what NumPy may change."""
    if is_plain(args, kwargs):
        return result
    leaves: list[Any] = tree.leaves((args, kwargs))
    given: list[Any] = [x for x in leaves if isinstance(x, np.ndarray)]
    if not given:
        return result
    if type(result) is Array:
        return own_array(result, given)
    leaves, treedef = tree.flatten(result)
    owned = [own_array(x, given) if type(x) is Array else x for x in leaves]
    if all(x is y for x, y in zip(leaves, owned, strict=True)):
        return result
    return tree.unflatten(treedef, owned)


def own_array(array: Array, given: Sequence[np.ndarray[Any, Any]]) -> Array:
    """The array; a copy where it is in the memory of one of those given."""
    memory = array._host
    if memory is None:
        buffer = array._buffer
        if buffer is None or not buffer.device.host:
            return array
        memory = buffer.memory
    made_for_it = memory.base is None
    for x in given:
        if memory is x or (not made_for_it and np.may_share_memory(memory, x)):
            return array.__deepcopy__({})
    return array


def place_result(x: Any, device: Any) -> Any:
    """An array on the device that a caller named.

    Args:
      device: None names none, nor does the sharding of a type outside of any mesh.
    """
    if device is None or getattr(getattr(device, "mesh", None), "empty", False):
        return x
    return backend().device_put(x, device)


def place_like(x: Any, like: Any) -> Any:
    """An array where another was put."""
    away = is_array(like) and like.committed and is_away([like])
    return place_result(x, like.memory if away else None)

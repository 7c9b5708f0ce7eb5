"""Results that own their elements: NumPy may change the arrays that a call was given.

    roll(x, 0)       NumPy's x is copied: roll(x, 1) shares no memory with it either
    reshape(x, ...)  shares its memory always: the function shows its operand

Whether memory is shared must not hang on a size or a value, or a program that works on
two rows goes wrong on one. What an Array of ours holds nobody changes.
"""

# This is the path of every call: the properties of an Array would cost as much again.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from types import NoneType
from typing import Any, cast as cast_to

import numpy as np

from ftrace.trace.arrays.array import Array
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.tracer import Tracer

#: Classes of arguments that hold no memory of NumPy's.
UNCHANGING = frozenset((Array, Tracer, int, float, complex, bool, str, NoneType, slice))


def own(result: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a call; copies stand for Arrays that show what NumPy may change."""
    for x in (*args, *kwargs.values()) if kwargs else args:
        if x.__class__ not in UNCHANGING:
            break
    else:
        return result
    given = _arrays_of_numpy([*args, *kwargs.values()])
    if not given:
        return result
    if type(result) is Array:
        return own_array(result, given)
    leaves, treedef = tree.flatten(result)
    owned = [own_array(x, given) if type(x) is Array else x for x in leaves]
    if all(x is y for x, y in zip(leaves, owned, strict=True)):
        return result
    return tree.unflatten(treedef, owned)


def _arrays_of_numpy(pending: list[Any]) -> list[np.ndarray[Any, Any]]:
    """Those among arguments, and in what these contain."""
    found: list[np.ndarray[Any, Any]] = []
    while pending:
        x = pending.pop()
        if x.__class__ in UNCHANGING:
            continue
        if isinstance(x, np.ndarray):
            found.append(cast_to(Any, x))
        elif isinstance(x, (list, tuple)):
            pending.extend(cast_to("Sequence[Any]", x))
        elif isinstance(x, dict):
            pending.extend(cast_to("dict[Any, Any]", x).values())
    return found


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


def owning(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, whose results share no memory with NumPy's arrays among its operands.

    For functions that do not recognise their calls; the others see to it themselves:
    see `dispatch.recalling`.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        return own(function(*args, **kwargs), args, kwargs)

    return update_wrapper(call, function)

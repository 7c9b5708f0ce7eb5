"""Functions of NumPy that look at values, as steps of a record.

    whole      how many elements the results have depends on the values
    decided    Python's code goes on as the values say; a record holds as long as they
               say the same

What else looks at values is never repeated: see `tape.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import getitem
from typing import Any
from typing import cast as cast_to

import numpy as np

from ftrace.array import Array
from ftrace.trace.quiet import hush, unhush
from ftrace.trace.room import FEW
from ftrace.trace.tape import Otherwise, Value, recording


def hosts(operands: Sequence[Any]) -> list[Any] | None:
    """The operands in NumPy, where all are Arrays of the host, and not large.

    Numbers of NumPy's are what they are.
    """
    values: list[Any] = []
    for x in operands:
        if isinstance(x, np.generic):
            values.append(x)
            continue
        if type(x) is not Array or not x.memory.host or x.size >= FEW:
            return None
        values.append(x.numpy())
    return values


def whole(
    function: Callable[..., Any],
    *operands: Any,
    weak: bool = False,
    more: tuple[Any, ...] = (),
) -> Any:
    """`function(*operands, *more)` in NumPy: an Array, or a tuple of Arrays.

    None where an operand is no Array of the host or is large: then somebody else has to
    do it. What it returns must be what its caller returns, with nothing beside it.

    Args:
      function: of arrays of NumPy's; it returns one or a tuple, of known dtypes.
      weak: the result is weakly typed; of several the first, which has the elements.
    """
    values = hosts(operands)
    if values is None:
        return None
    token = hush()
    try:
        found = _opened(function, weak, *values, *more)
    finally:
        unhush(token)
    tape = recording.tape
    if tape is not None:
        step = partial(_opened, function, weak)
        if type(found) is tuple:
            together = Value(None, 0)
            tape.note_open(step, [*operands, *more], together)
            parts: tuple[Any, ...] = tuple(cast_to(Any, found))
            for place, made in enumerate(parts):
                tape.note_open(getitem, [together, place], made)
        else:
            tape.note_open(step, [*operands, *more], found)
    result: Any = cast_to(Any, found)
    return result


def _opened(function: Callable[..., Any], weak: bool, *operands: Any) -> Any:
    found = function(*operands)
    if type(found) is tuple:
        first, *others = cast_to(Any, found)
        return (Array.of(first, weak), *[Array.of(x) for x in others])
    return Array.of(found, weak)


def decided(
    function: Callable[..., Any], *operands: Any, more: tuple[Any, ...] = ()
) -> Any:
    """`function(*operands, *more)` in NumPy: a value that decides what Python does.

    None where an operand is no Array of the host or is large.
    """
    values = hosts(operands)
    if values is None:
        return None
    found = function(*values, *more)
    if recording.tape is not None:
        check = partial(_as_before, function, found)
        recording.tape.note_guard(check, [*operands, *more])
    return found


def _as_before(function: Callable[..., Any], expected: Any, *operands: Any) -> None:
    if function(*operands) != expected:
        raise Otherwise

"""Functions of NumPy that look at values: how many elements the results have.

Calls of them are never repeated by a record: see `call_recorder.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from typing import cast as cast_to

import numpy as np

from ftrace.arrays.array import Array
from ftrace.ground.errstate import hush, unhush
from ftrace.trace.eager.call_recorder import recording
from ftrace.trace.memory_check import FEW


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
    if recording.tape is not None:
        recording.tape.refuse()
    token = hush()
    try:
        found = function(*values, *more)
    finally:
        unhush(token)
    if type(found) is tuple:
        first, *others = cast_to(Any, found)
        return (Array.of(first, weak), *[Array.of(x) for x in others])
    return Array.of(found, weak)

"""Updates of arrays of the host at indices that are known: NumPy does them.

Integers of an index say where and decide nothing else: eager calls with others are
repeated, as are those with other arrays of indices.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ftrace.array import Array
from ftrace.numpy.indexing import (
    arrays_of,
    filled,
    index_parts,
    numpy_index,
    with_gaps,
)
from ftrace.trace.eager import integer_classes, is_by_place
from ftrace.trace.primitives import extrema
from ftrace.trace.primitives.conversion import convert
from ftrace.trace.primitives.indexing import COMBINE_AT
from ftrace.trace.room import require_room
from ftrace.trace.scopes import asarray
from ftrace.trace.tape import recording
from ftrace.trace.tracer import aval_of

#: NumPy for indices that are known: without its stubs, which ask for dtypes.
_host: Any = np
_BASIC = frozenset((int, slice, type(Ellipsis), *integer_classes))
_UFUNCS: dict[str, Any] = {
    "add": np.add,
    "mul": np.multiply,
    "min": extrema.minimum,
    "max": extrema.maximum,
}


def update_now(x: Array, index: Any, values: Any, kind: str) -> Array | None:
    """The update of an array of the host by NumPy; None where it raises."""
    found = numpy_index(tuple([_shown(part) for part in index_parts(index)]))
    if found is None:
        return None
    require_room("at", aval_of(x))
    new = convert(asarray(values).numpy(), x.dtype)
    try:
        with np.errstate(all="ignore"):
            result = _updated(kind, x.numpy(), new, found)
    except (IndexError, OverflowError, TypeError, ValueError):
        return None
    made = Array.of(result, x.weak_type)
    if (tape := recording.tape) is not None:
        operands = [x, tape.converted(values, x.dtype)]
        if is_by_place(index) or type(index) is slice:
            # Such an index repeats no element.
            function = _set_now if kind == "set" else partial(_met_now, _UFUNCS[kind])
            tape.note(function, [*operands, index], made)
        elif (places := with_gaps(index, "iub")) is not None:
            function = partial(_updated_places, kind, places)
            tape.note(function, [*operands, *arrays_of(index)], made)
    return made


def _shown(part: Any) -> Any:
    """A mask as NumPy has it: its values decide nothing but where."""
    if type(part) is Array and part.ndim and part.dtype.kind == "b":
        return part.numpy()
    return part


def _updated(kind: str, x: Any, new: Any, index: Any) -> Any:
    """A copy of an array that is changed at an index."""
    result = _host.array(x)
    if kind == "set":
        result[index] = new
    elif all(part is None or type(part) in _BASIC for part in index_parts(index)):
        result[index] = _UFUNCS[kind](result[index], new)
    else:
        COMBINE_AT[kind](result, index, new)
    return result


def _set_now(x: Any, new: Any, index: Any) -> Any:
    result = x.copy()
    result[index] = new
    return result


def _met_now(function: Any, x: Any, new: Any, index: Any) -> Any:
    result = x.copy()
    result[index] = function(result[index], new)
    return result


def _updated_places(
    kind: str, places: tuple[Any, ...], x: Any, new: Any, *arrays: Any
) -> Any:
    return _updated(kind, x, new, filled(places, arrays))

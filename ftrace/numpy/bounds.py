"""Indices and slices along one axis, and what happens out of its bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import (
    ConcretizationTypeError,
    DtypeError,
    IndexBoundsError,
    ValueRangeError,
)
from ftrace.numpy.axes import as_value, cast, choose
from ftrace.numpy.elementwise import add, bitwise_and, greater_equal, less
from ftrace.numpy.selection import maximum, minimum
from ftrace.records import dataclass
from ftrace.trace.dims import any_dynamic, is_dynamic
from ftrace.trace.evaluate import evaluate
from ftrace.trace.graph import Node
from ftrace.trace.primitives.source import dim_p, is_variable
from ftrace.trace.sizes import upper_bound
from ftrace.trace.slices import dynamic_slice_bounds
from ftrace.trace.tracer import Tracer

#: NumPy for indices that are known: without its stubs, which ask for dtypes.
_host: Any = np

MODES = ("fill", "drop", "clip", "promise_in_bounds")


def is_known(values: Any) -> bool:
    """Are these indices a NumPy array?"""
    return isinstance(values, np.ndarray)


def signed(values: Any) -> Any:
    """Indices as NumPy takes them: it reads the upper half of uint64 as negative."""
    if values.dtype != np.uint64:
        return values
    inside = _host.minimum(values, np.iinfo(np.int64).max)
    return _host.asarray(inside, np.int64)


def slice_bounds(part: slice, size: int) -> tuple[tuple[int, int], int]:
    """((start, stop), step) of a slice; the stop is next to the last element."""
    if any_dynamic((size, part.start, part.stop, part.step)):
        return dynamic_slice_bounds(part, size)
    try:
        start, stop, step = part.indices(size)
    except ConcretizationTypeError as error:
        raise IndexBoundsError(
            f"the bounds of a slice must be known while tracing, got {part}; write "
            "lax.dynamic_slice(x, starts, sizes), or mark them in static_argnums"
        ) from error
    except ValueError:
        raise ValueRangeError("the step of a slice must not be 0") from None
    except TypeError:
        raise DtypeError(
            f"the bounds of a slice must be integers, got {part}"
        ) from None
    reached = range(start, stop, step)
    if not reached:
        return (0, 0), 1
    low, high = sorted((reached[0], reached[-1]))
    return (low, high + 1), step if len(reached) > 1 else 1


def check_mode(name: str, mode: Any) -> str | None:
    """A mode as a string.

    Raises:
      ValueRangeError: there is no such mode.
    """
    if mode is None:
        return None
    text = str(getattr(mode, "name", mode)).lower()
    text = {"fill_or_drop": "fill"}.get(text, text)
    if text not in MODES:
        raise ValueRangeError(f"{name}: the modes are {', '.join(MODES)}; got {mode!r}")
    return text


def default_fill(dtype: np.dtype[Any]) -> Any:
    """What is read out of bounds: NaN, the least integer, the greatest, or True."""
    kind = dtypes.kind(dtype)
    low, high = dtypes.limits(dtype)
    return np.nan if kind in "fc" else low if kind == "i" else high


@dataclass(frozen=True)
class Position:
    """Indices along one axis, negative ones counted from the front.

    Attributes:
      values: the indices.
      size: the size of the axis.
      known: all of them are in bounds, so that nothing has to be done.
    """

    values: Any
    size: int
    known: bool

    @staticmethod
    def of(values: Any, size: int, wrap: bool = True) -> Position:
        found = values if is_known(values) else _constant_values(values)
        if is_dynamic(size):
            values, found = as_value(values), None
        if found is not None:
            found = signed(found).astype(np.int64)
            wrapped = _host.where(found < 0, found + size, found) if wrap else found
            known = bool(((wrapped >= 0) & (wrapped < size)).all())
            if isinstance(values, Tracer) and bool((wrapped == found).all()):
                return Position(widened(values, size), size, known)
            return Position(as_value(_index_array(wrapped, size)), size, known)
        values = widened(values, size)
        if wrap and dtypes.kind(values.dtype) == "i":
            values = choose(less(values, 0), add(values, size), values)
        return Position(values, size, False)

    def inside(self) -> Any:
        below = less(self.values, self.size)
        if dtypes.kind(self.values.dtype) == "u":
            return below
        return bitwise_and(below, greater_equal(self.values, 0))

    def clamped(self) -> Any:
        if self.known:
            return self.values
        low = minimum(self.values, self.size - 1)
        return low if dtypes.kind(self.values.dtype) == "u" else maximum(low, 0)


def widened(values: Any, size: int) -> Any:
    """Index values in a dtype that holds the size of the axis."""
    most = upper_bound(size)
    limit = dtypes.limits(values.dtype)[1]
    if limit > most or (is_dynamic(size) and limit == most):
        return cast(values, values.dtype)
    return cast(values, dtypes.int32 if most < 2**31 else dtypes.int64)


def _index_array(values: np.ndarray[Any, Any], size: int) -> Any:
    limits = np.iinfo(np.int32)
    fits = values.size == 0 or (
        values.min() >= limits.min and values.max() <= limits.max
    )
    return values.astype(np.int32) if fits and size < 2**31 else values.astype(np.int64)


#: How large an index without variables may be for its values to be computed at once.
_CONSTANT_NODES = 32
_CONSTANT_SIZE = 65536


def _constant_values(tracer: Tracer) -> Any:
    """The values of a small traced index that depends on no argument, else None."""
    if is_dynamic(tracer.node.size) or tracer.node.size > _CONSTANT_SIZE:
        return None
    seen: set[Node] = {tracer.node}
    pending = [tracer.node]
    while pending:
        node = pending.pop()
        if is_variable(node) or len(seen) > _CONSTANT_NODES or node.op is dim_p:
            return None
        for source in node.src:
            if source not in seen:
                seen.add(source)
                pending.append(source)
    return evaluate([tracer.node], {})[0]

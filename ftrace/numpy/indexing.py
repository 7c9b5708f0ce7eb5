"""Indexing: from what stands in the brackets to slices, gathers and fills.

    x[1:, None, i]  =  slices, then a gather, then axes in NumPy's places

An index is parsed once into an `Index`; reading uses it here, `at.py` for updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import getitem as read_place
from typing import Any, cast as cast_to

import numpy as np

from ftrace import dtypes, errors
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.fork_safe import cached_property
from ftrace.numpy import axes as ax, elementwise as ew, logic
from ftrace.numpy.creation import array
from ftrace.trace import symbolic as sym
from ftrace.trace.arrays.array import Array, is_array, recording
from ftrace.trace.avals import Shape
from ftrace.trace.bind import bind, broadcast_shapes
from ftrace.trace.eager.composite import Made
from ftrace.trace.evaluate import evaluate, require_memory
from ftrace.trace.graph import Node
from ftrace.trace.primitives.indexing import gather_p
from ftrace.trace.primitives.sources import dim_p, is_variable
from ftrace.trace.tiering import ASKED
from ftrace.trace.tracing.scopes import tell_of_indices
from ftrace.trace.tracing.tracer import Tracer, Value, aval_of, concrete

__all__ = [
    "getitem",
]  # fmt: skip

# Indices and slices along one axis, and what happens out of its bounds.

#: NumPy for indices that are known: without its stubs, which ask for dtypes.
_host: Any = np

MODES = ("fill", "drop", "clip", "promise_in_bounds")


def is_known(values: Any) -> bool:
    """Are these indices a NumPy array?"""
    return isinstance(values, np.ndarray)


def as_signed(values: Any) -> Any:
    """Indices as NumPy takes them: it reads the upper half of uint64 as negative."""
    if values.dtype != np.uint64:
        return values
    inside = _host.minimum(values, np.iinfo(np.int64).max)
    return _host.asarray(inside, np.int64)


def slice_bounds(part: slice, size: int) -> tuple[tuple[int, int], int]:
    """((start, stop), step) of a slice; the stop is next to the last element."""
    if sym.any_dynamic((size, part.start, part.stop, part.step)):
        return sym.dynamic_slice_bounds(part, size)
    try:
        start, stop, step = part.indices(size)
    except errors.ConcretizationTypeError as error:
        raise errors.IndexBoundsError(
            f"the bounds of a slice must be known while tracing, got {part}; write "
            "lax.dynamic_slice(x, starts, sizes), or mark them in static_argnums"
        ) from error
    except ValueError:
        raise errors.ValueRangeError("the step of a slice must not be 0") from None
    except TypeError:
        raise errors.DtypeError(
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
    errors.one_of(f"{name}: mode", text, MODES)
    return text


def default_fill(dtype: np.dtype[Any]) -> Any:
    """What is read out of bounds: NaN, the least integer, the greatest, or True.

    Of a random key that is the one whose words are the greatest.
    """
    kind = dtypes.kind(dtype)
    if kind == "k":
        return dtypes.limits(dtypes.uint32)[1]
    low, high = dtypes.limits(dtype)
    return np.nan if kind in "fc" else low if kind == "i" else high


def _from_front(values: Any, size: int, wrap: bool) -> tuple[Any, bool]:
    """Indices along an axis counted from its front, and whether all are in bounds."""
    found = values if is_known(values) else _constant_values(values)
    if sym.is_dynamic(size):
        values, found = ax.as_value(values), None
    if found is not None:
        found = as_signed(found).astype(np.int64)
        wrapped = _host.where(found < 0, found + size, found) if wrap else found
        known = bool(((wrapped >= 0) & (wrapped < size)).all())
        if isinstance(values, Tracer) and bool((wrapped == found).all()):
            return widen(values, size), known
        return ax.as_value(_index_array(wrapped, size)), known
    values = widen(values, size)
    if wrap and dtypes.kind(values.dtype) == "i":
        values = ax.choose(logic.less(values, 0), ew.add(values, size), values)
    return values, False


def widen(values: Any, size: int) -> Any:
    """Index values in a dtype that holds the size of the axis."""
    most = sym.upper_bound(size)
    limit = dtypes.limits(values.dtype)[1]
    if limit > most or (sym.is_dynamic(size) and limit == most):
        return ax.cast(values, values.dtype)
    return ax.cast(values, dtypes.int32 if most < 2**31 else dtypes.int64)


def _index_array(values: np.ndarray[Any, Any], size: int) -> Any:
    short = values.astype(np.int32)
    fits = size < 2**31 and bool((short == values).all())
    return short if fits else values.astype(np.int64)


#: How large an index without variables may be for its values to be computed at once.
_CONSTANT_NODES = 32
_CONSTANT_SIZE = 65536


def _constant_values(tracer: Tracer) -> Any:
    """The values of a small traced index that depends on no argument, else None."""
    if sym.is_dynamic(tracer.node.size) or tracer.node.size > _CONSTANT_SIZE:
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


# The index.


@dataclass(frozen=True, eq=False)
class Index:
    """An index of an array of one shape, taken apart.

    Attributes:
      shape: the shape that is indexed.
      bounds: the part of each axis that the slices and integers reach.
      steps: the step of each slice.
      gathered: the axes that arrays index, in order.
      arrays: their indices: NumPy arrays where known, else tracers.
      batch: the shape that the arrays have together; None without arrays.
      order: what the parts give: an axis, None, Ellipsis, "integer" or "array".
    """

    shape: Shape
    bounds: tuple[tuple[int, int], ...]
    steps: tuple[int, ...]
    gathered: tuple[int, ...]
    arrays: tuple[Any, ...]
    batch: Shape | None
    order: tuple[Any, ...]

    @cached_property
    def _sizes(self) -> Shape:
        rows = zip(self.bounds, self.steps, strict=True)
        return tuple([sym.steps_between(lo, hi, abs(s)) for (lo, hi), s in rows])

    @property
    def rest(self) -> Shape:
        """The sizes of the axes that are not gathered; those of integers are 1."""
        return tuple(n for a, n in enumerate(self._sizes) if a not in self.gathered)

    @property
    def laid(self) -> Shape:
        """The same without the integers' axes and with those that None adds."""
        axes = [part for part in self.order if part is None or type(part) is int]
        return tuple([1 if axis is None else self._sizes[axis] for axis in axes])

    @property
    def slot(self) -> int:
        """Where in `laid` the axes of the arrays stand: NumPy's rule.

        It is where the arrays stand if they stand together, else in front.
        """
        found = [i for i, part in enumerate(self.order) if isinstance(part, str)]
        if not found or not self.batch or found[-1] - found[0] + 1 != len(found):
            return 0
        return sum(part is not Ellipsis for part in self.order[: found[0]])

    @property
    def result_shape(self) -> Shape:
        return (*self.laid[: self.slot], *(self.batch or ()), *self.laid[self.slot :])


def parse_index(
    shape: Shape,
    index: Any,
    mode: str | None,
    wrap: bool,
    together: bool = False,
) -> Index:
    """Takes an index apart.

    Args:
      shape: of what is indexed.
      index: what stands in the brackets.
      mode: with one, integers out of bounds are kept, as an array of no axes is.
      wrap: negative integers count from the end.
      together: integers beside traced indices are arrays of no axes, too: what is
        updated there stays whole, and may be updated in place.

    Raises:
      IndexBoundsError: it has too many parts, or an integer is out of bounds.
      DtypeError: a part is neither integer nor bool.
      NonConcreteBooleanIndexError: a mask is traced.
    """
    if recording.tape is not None:
        recording.tape.refuse()  # what stands in the index decides
    bounds = [(0, n) for n in shape]
    steps = [1] * len(shape)
    gathered: list[int] = []
    arrays: list[Any] = []
    batch_shapes: list[Shape] = []
    order: list[Any] = []
    axis = 0
    parts = _without_ellipsis(shape, [_resolve_part(p) for p in index_entries(index)])
    joined = together and any(isinstance(part, Tracer) for part in parts)
    for part in parts:
        if joined and type(part) is int and not sym.is_dynamic(shape[axis]):
            known = part if mode else _check_integer(part, axis, shape, wrap)
            part = cast_to(Any, np.asarray(known))
        if part is None or part is Ellipsis:
            order.append(part)
        elif type(part) is slice:
            bounds[axis], steps[axis] = slice_bounds(part, shape[axis])
            order.append(axis)
            axis += 1
        elif _is_place(part, shape, axis, mode, wrap):
            at = _check_integer(part, axis, shape, wrap)
            bounds[axis] = (at, at + 1)
            order.append("integer")
            axis += 1
        else:
            each = np.asarray(part) if type(part) is int else part
            found = _by_axis(each, axis, shape)
            batch_shapes += [v.shape for v in found] or [(int(part),)]
            gathered += range(axis, axis + len(found))
            arrays += found
            order.append("array")
            axis += len(found)
    batch = broadcast_shapes("index", batch_shapes) if batch_shapes else None
    axes = tuple(gathered), tuple(arrays)
    return Index(shape, tuple(bounds), tuple(steps), *axes, batch, tuple(order))


def index_entries(index: Any) -> Any:
    """What stands between the commas.

    Raises:
      DtypeError: it is a list, and indices are JAX's (`check_static_indices`).
    """
    is_list = isinstance(index, list)  # named, so that its parts stay untyped
    if bool(is_list) and not settings.current().check_static_indices:
        raise errors.DtypeError(
            f"a list is no index, got {index!r:.60}; write a tuple for one place, or "
            "np.array(list) for several"
        )
    is_tuple = isinstance(index, tuple)  # likewise
    return index if bool(is_tuple) else (index,)


def _resolve_part(part: Any) -> Any:
    """A part of an index: None, Ellipsis, slice, int, NumPy array or tracer."""
    if part is None or part is Ellipsis or type(part) in (int, slice, sym.Dim):
        return part
    if isinstance(part, Tracer):
        if dtypes.kind(part.dtype) not in "biu":
            raise errors.DtypeError(
                f"an index must be an integer or bool, got {part.aval!r}"
            )
        if part.dtype != dtypes.bool_:
            return part
        if not ax.is_unknown(part):
            return concrete(part)
        raise errors.NonConcreteBooleanIndexError(
            f"the shape of x[mask] depends on the values of the mask, a traced value "
            f"of type {part.aval!r}; write where(mask, x, other) instead, or "
            "x.at[mask].set(value), or nonzero(mask, size=n)"
        )
    if isinstance(part, str):
        raise errors.DtypeError(f"an index must be an integer or bool, got {part!r}")
    if ax.is_sequence(part) and any(isinstance(p, Tracer) for p in part):
        return _resolve_part(array(part))
    if type(part) is Array and part.dtype.kind in "iu":
        return as_signed(part.numpy())  # NumPy, or `parse_index`, looks at them
    values = ax.host_array(part, "an index")
    if values.size == 0 and ax.is_sequence(part):
        values = values.astype(np.int32)
    if dtypes.is_narrow(values.dtype) and dtypes.is_integer(values.dtype):
        values = values.astype(np.int32)
    if values.dtype.kind not in "biu":
        raise errors.DtypeError(
            f"an index must be an integer or bool, got {part!r:.60} of dtype "
            f"{values.dtype}; convert it with .astype(int)"
        )
    if values.ndim == 0 and values.dtype.kind in "iu":
        return int(values)
    return as_signed(values)


def _is_mask(part: Any) -> bool:
    return is_known(part) and part.dtype == np.bool_


def _without_ellipsis(shape: Shape, parts: list[Any]) -> list[Any]:
    """The parts with a slice for every axis that the index does not name."""
    used = 0
    for part in parts:
        if _is_mask(part):
            used += part.ndim
        elif part is not None and part is not Ellipsis:
            used += 1
    places = [i for i, part in enumerate(parts) if part is Ellipsis]
    if len(places) > 1:
        raise errors.IndexBoundsError("an index can hold only one Ellipsis (...)")
    if used > len(shape):
        raise errors.IndexBoundsError(
            f"too many indices: an array of shape {shape} has {len(shape)} axes, "
            f"but {used} were indexed"
        )
    missing: list[Any] = [slice(None)] * (len(shape) - used)
    if not places:
        return parts + missing
    # An Ellipsis of no axes stays, since it parts the arrays on its sides.
    missing = missing or [Ellipsis]
    return parts[: places[0]] + missing + parts[places[0] + 1 :]


def _is_place(part: Any, shape: Shape, axis: int, mode: str | None, wrap: bool) -> bool:
    """Is it an integer that is no array of no axes?"""
    if type(part) is not int:
        return sym.is_dynamic(part)
    size = shape[axis]
    return mode is None or sym.is_dynamic(size) or _is_inside(part, size, wrap)


def _is_inside(value: int, size: int, wrap: bool) -> bool:
    return (-size if wrap else 0) <= value < size


def _check_integer(value: int, axis: int, shape: Shape, wrap: bool) -> int:
    size = shape[axis]
    if not _is_inside(value, size, wrap):
        place = value + size if wrap and value < 0 else value
        clips = not settings.current().check_static_indices
        if size and (tell_of_indices([(place, axis, size)], shape) or clips):
            return min(max(place, 0), size - 1)
        raise errors.IndexBoundsError(
            f"index {value} is out of bounds for axis {axis} of size {size} of an "
            f"array of shape {shape}"
        )
    return value % size


def check_mask(mask: Shape, axis: int, shape: Shape) -> None:
    """Raises where the shape of a mask is not that of the axes that begin at `axis`."""
    for place, n in enumerate(mask, axis):
        size = shape[place]
        if not sym.same_size(n, size):
            raise errors.IndexBoundsError(
                f"a mask of shape {mask} does not fit axis {place} of size {size} of "
                f"an array of shape {shape}"
            )


def _by_axis(part: Any, axis: int, shape: Shape) -> list[Any]:
    """Integers, or the positions that a mask holds per axis: none for True or False."""
    if not _is_mask(part):
        return [part]
    check_mask(part.shape, axis, shape)
    return [p.astype(np.int32) for p in np.nonzero(part)] if part.ndim else []


# Reading.


def getitem(x: Value, index: Any) -> Any:
    """`x[index]`, as NumPy has it. Traced indices are clamped to the array.

    Args:
      x: the array.
      index: an integer, a slice, None, Ellipsis, an array of integers or bools, or a
        tuple of these.

    Raises:
      IndexBoundsError: an index that is known is out of bounds.
      NonConcreteBooleanIndexError: a mask is traced.

    Example:
      >>> x = fnp.array([[1, 2, 3], [4, 5, 6]])
      >>> x[1, ::-1]
      Array([6, 5, 4], dtype=int32)
      >>> x[x > 2]
      Array([3, 4, 5, 6], dtype=int32)
    """
    return read_at(x, index)


def numpy_index(index: Any) -> Any:
    """A concrete index as NumPy takes it; None if a part of it is traced."""
    if type(index) in (int, slice):
        return index
    parts = [_resolve_part(part) for part in index_entries(index)]
    return None if any(isinstance(part, Tracer) for part in parts) else tuple(parts)


def _together(*parts: Any) -> Any:
    return parts


#: Classes of NumPy's integers, and of the parts of an index that never change.
integer_classes: list[type[Any]] = [
    np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
]  # fmt: skip
_FIXED = frozenset((int, slice, type(None), type(...), *integer_classes))


def parts_to_repeat(index: Any) -> Sequence[Any] | None:
    """The parts of an index, if NumPy takes each as it is."""

    def is_taken(part: Any) -> bool:
        held = type(part) is Array and part.dtype != dtypes.uint64
        return held or type(part) in _FIXED

    parts = cast_to(Any, index) if type(index) is tuple else (index,)
    return parts if all(map(is_taken, parts)) else None


def _read_now(x: Array, found: Any, index: Any) -> Array:
    if found.__class__ is tuple:
        most = x.size
        for part in found:
            if is_known(part) and part.dtype != np.bool_:
                most *= part.size
        if most >= ASKED and most > x.size:
            shape = parse_and_check(x.shape, index).result_shape
            require_memory("indexing", aval_of(x).with_shape(shape))
    try:
        result = x.numpy()[found]
    except (IndexError, OverflowError, TypeError, ValueError):
        parsed = parse_and_check(x.shape, index)  # says what is wrong in our words
        if not settings.current().check_static_indices:
            return read(x, parsed)
        raise
    made = Array.of(np.asarray(result), x.weak_type)
    if (tape := recording.tape) is not None:
        parts = parts_to_repeat(index)
        if parts is not None and type(index) is tuple:
            index = Made(None, 0)
            tape.note(_together, parts, index)
        if parts is not None:
            tape.note(read_place, [x, index], made)
    return made


#: What larger indices count as.
_LAST = (1 << 63) - 1


def parse_and_check(shape: Shape, index: Any, wrap: bool = True) -> Index:
    """`parse_index`; indices of arrays that are known must be in bounds, too."""
    parsed = parse_index(shape, index, None, wrap)
    if not settings.current().check_static_indices:
        return parsed
    for axis, values in zip(parsed.gathered, parsed.arrays, strict=True):
        if is_known(values):
            size = shape[axis]
            outside = (values < (-size if wrap else 0)) | (values >= size)
            if outside.any():
                first = int(values[outside].flat[0])
                more = " or more" if first == _LAST else ""
                raise errors.IndexBoundsError(
                    f"index {first}{more} is out of bounds for axis {axis} of size "
                    f"{size} of an array of shape {shape}; give a mode to clip, drop "
                    "or fill"
                )
    return parsed


def read(
    x: Value,
    index: Index,
    mode: str | None = None,
    fill_value: Any = None,
    wrap: bool = True,
) -> Any:
    """The elements at an index.

    Args:
      x: the array.
      index: parsed for its shape.
      mode: what traced indices out of bounds read: "clip" (the default) the nearest
        element, "fill" or "drop" the fill value.
      fill_value: by default NaN, or the least integer (the greatest if unsigned).
      wrap: negative indices count from the end.
    """
    region = slice_of(x, index)
    if index.batch is None:
        return ax.reshape(region, index.laid)
    if not index.gathered:
        found = ax.broadcast_to(region, (*index.batch, *index.rest))
    else:
        found = _gather(region, index, mode, fill_value, wrap)
    found = ax.reshape(found, (*index.batch, *index.laid))
    return ax.permute(found, placement(index))


def placement(index: Index) -> tuple[int, ...]:
    """The permutation that takes the leading axes of the arrays to their place."""
    assert index.batch is not None
    front = len(index.batch)
    before = range(front, front + index.slot)
    after = range(front + index.slot, front + len(index.laid))
    return (*before, *range(front), *after)


def slice_of(x: Value, index: Index) -> Any:
    """The part of x that the slices and integers of an index reach."""
    return ax.stride(ax.shrink(x, index.bounds), index.steps)


def positions(
    index: Index, wrap: bool, *, clamp: bool, ask: bool
) -> tuple[list[Any], Any]:
    """Where the arrays of an index point along each axis, in the shape of the batch.

    Args:
      index: with arrays.
      wrap: negative indices count from the end.
      clamp: what is out of bounds becomes the nearest place that there is.
      ask: return a mask, too, of what is in bounds; None where all surely is.
    """
    found: list[Any] = []
    unknown: list[tuple[Any, int, int]] = []
    inside: Any = None
    for values, axis in zip(index.arrays, index.gathered, strict=True):
        size = index.shape[axis]
        at, known = _from_front(values, size, wrap)
        if not known:
            unknown.append((at, axis, size))
        unsigned = dtypes.kind(at.dtype) == "u"
        if ask and not known:
            here = logic.less(at, size)
            if not unsigned:
                here = ew.bitwise_and(here, logic.greater_equal(at, 0))
            inside = here if inside is None else ew.bitwise_and(inside, here)
        if clamp and not known:
            at = logic.minimum(at, size - 1)
            at = at if unsigned else logic.maximum(at, 0)
        found.append(ax.broadcast_to(at, index.batch or ()))
    if unknown:
        tell_of_indices(unknown, index.shape)
    common = max((i.dtype for i in found), key=lambda d: d.itemsize)
    return [ax.cast(i, common) for i in found], inside


def _gather(
    region: Any, index: Index, mode: str | None, fill_value: Any, wrap: bool
) -> Any:
    """The elements that the arrays of an index point at: batch, then the rest."""
    assert index.batch is not None
    shape = (*index.batch, *index.rest)
    if 0 in shape:
        return ax.full(shape, 0, region.dtype)
    if 0 in [index.shape[a] for a in index.gathered]:
        raise errors.IndexBoundsError(
            f"an axis of size 0 has no elements to index: array of shape {index.shape}"
        )
    filled = check_mode("gather", mode) in ("fill", "drop")
    safe, inside = positions(index, wrap, clamp=True, ask=filled)
    found = bind(gather_p, region, *safe, arg=index.gathered)
    if inside is None:
        return found
    mask = ax.broadcast_to(inside, index.batch)
    mask = ax.reshape(mask, (*index.batch, *(1 for _ in index.rest)))
    if fill_value is None:
        value = ax.full((), default_fill(region.dtype), region.dtype)
    else:
        value = ax.cast(fill_value, region.dtype)
    return ax.choose(mask, found, value)


def read_at(
    x: Value,
    index: Any,
    mode: str | None = None,
    fill_value: Any = None,
    wrap: bool = True,
) -> Any:
    """`x[index]` with a mode for indices out of bounds.

    Raises:
      IndexBoundsError: no mode is given, and all is known, and it is out of bounds.
    """
    x = ax.as_value(x)
    known = numpy_index(index) if mode is None and is_array(x) else None
    if known is not None and wrap and x.memory.host:
        return _read_now(x, known, index)
    if known is None:
        parsed = parse_index(x.shape, index, mode, wrap)
    else:
        parsed = parse_and_check(x.shape, index, wrap)
    return read(x, parsed, mode, fill_value, wrap)

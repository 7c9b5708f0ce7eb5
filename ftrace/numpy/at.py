"""`x.at[index].set(y)` and the like: copies of an array with some elements changed.

region = the part that slices and integers reach
new    = the region itself, or scattered into where arrays index
result = where(in the region, new put back by padding, x)

Where array and index are known NumPy does it, at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast as cast_to

import numpy as np

from ftrace import dtypes, errors
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.numpy import axes as ax, elementwise as ew, indexing, logic
from ftrace.numpy.arithmetic import power
from ftrace.numpy.creation import array
from ftrace.numpy.indexing import Index, integer_classes
from ftrace.trace.arrays.array import Array, ArrayLike, is_array, recording
from ftrace.trace.backend import backend
from ftrace.trace.bind import bind
from ftrace.trace.eager.checked_calls import check_types
from ftrace.trace.eager.composite import Made, Tape
from ftrace.trace.eager.dispatch import call_placed
from ftrace.trace.eager.function_objects import Eager
from ftrace.trace.eager.result_memory import place_result
from ftrace.trace.evaluate import require_memory
from ftrace.trace.primitives.indexing import COMBINE_AT, UFUNCS, scatter_p
from ftrace.trace.primitives.reference import convert
from ftrace.trace.tracing import tracer
from ftrace.trace.tracing.scopes import asarray
from ftrace.trace.tracing.weak_constants import counts_bits

__all__ = ["at"]

#: How the kinds of scatter combine what stands in the array with an update.
_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "set": lambda x, y: y,
    "add": ew.add,
    "mul": ew.multiply,
    "min": logic.minimum,
    "max": logic.maximum,
}
#: Whole numbers up to this are the same as integers and as floats of any width that
#: numbers have.
_WHOLE = 1 << 24
#: NumPy for indices that are known: without its stubs, which ask for dtypes.
_host: Any = np


class At:
    """What `x.at` is: indexing it names the place to change."""

    __slots__ = ("array",)

    def __init__(self, array: tracer.Value) -> None:
        self.array = ax.as_value(array)

    def __repr__(self) -> str:
        return f"x.at of an array of shape {self.array.shape}; x.at[index] is a place"

    def __getitem__(self, index: Any) -> IndexedArray:
        return IndexedArray(self.array, index)


class IndexedArray:
    """A place in an array. Every method returns a changed copy of the array.

    All methods take `mode`, for indices out of bounds: "drop" (the default of updates),
    "clip" (the default of `get`), "fill" or "promise_in_bounds". Without a mode, an
    index that is known to be out of bounds is an IndexBoundsError.
    `indices_are_sorted` and `unique_indices` are accepted, and change nothing, as is
    `out_sharding` of updates; that of `get` says where the result is. With
    `wrap_negative_indices=False` a negative index is out of bounds.
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Any, index: Any) -> None:
        self.array = array
        self.index = index

    def __repr__(self) -> str:
        return f"x.at[{self.index!r}] of an array of shape {self.array.shape}"

    def get(
        self,
        *,
        mode: Any = None,
        fill_value: Any = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """The elements at the place, as `x[index]`, with a mode.

        Args:
          mode: for indices out of bounds: "clip" (the default), "fill", or
            "promise_in_bounds".
          fill_value: for "fill"; by default NaN, the least integer, the greatest (if
            unsigned), True.
          indices_are_sorted, unique_indices: accepted, without effect.
          out_sharding: where the result is, as `device_put` takes it.
          wrap_negative_indices: negative indices count from the end.

        Raises:
          IndexBoundsError: without a mode, for an index that is known to be out of
            bounds.
        """
        mode = indexing.check_mode("at[].get", mode)
        given = self.array, self.index, mode, fill_value, wrap_negative_indices
        return place_result(_do_where_it_is(indexing.read_at, *given), out_sharding)

    def set(self, values: tracer.Value, **options: Any) -> Array:
        """A copy of the array with `values` at the place.

        Args:
          values: a number, an array, or nested lists of numbers, of a shape that
            broadcasts to the place; they take the dtype of the array.
          options: `mode`, `indices_are_sorted`, `unique_indices`,
            `wrap_negative_indices`, `out_sharding`: see the class.

        Returns:
          An array of the same shape and dtype. Under `jit` nothing is copied where the
            old array
          is not used any more.

        Raises:
          ShapeError: the values do not fit the place.
          IndexBoundsError: without a mode, for an index that is known to be out of
            bounds.
        """
        return self._update("set", values, **options)

    def add(self, values: tracer.Value, **options: Any) -> Array:
        """A copy with `values` added at the place, as often as an index is repeated.

        Args:
          values: a number or an array that broadcasts to the place.
          options: as of `set`.
        """
        return self._update("add", values, **options)

    def subtract(self, values: tracer.Value, **options: Any) -> Array:
        """`values` subtracted at the place, as often as an index is repeated."""
        fitting = _fitting(_operand("subtract", values), self.array)
        return self._update("add", ew.negative(fitting), **options)

    def multiply(self, values: tracer.Value, **options: Any) -> Array:
        """Multiplied by `values` at the place, as often as an index is repeated."""
        return self._update("mul", values, **options)

    mul = multiply

    def divide(self, values: tracer.Value, **options: Any) -> Array:
        """Divided by `values` at the place, as often as an index is repeated."""
        return ew.divide(self.array, self._factors("divide", values, **options))

    def power(self, values: tracer.Value, **options: Any) -> Array:
        """Raised to the power of `values` at the place."""
        return power(self.array, self._factors("power", values, **options))

    def _factors(self, name: str, values: Any, **options: Any) -> Any:
        """1 everywhere, times `values` at the place."""
        values = _operand(name, values)
        dtype, _ = ew.common_type(self.array, values)
        ones = ax.full(self.array.shape, 1, dtype)
        return IndexedArray(ones, self.index)._update("mul", values, **options)

    def min(self, values: tracer.Value, **options: Any) -> Array:
        """The lesser of what is there and `values`, at the place."""
        return self._update("min", values, **options)

    def max(self, values: tracer.Value, **options: Any) -> Array:
        """The greater of what is there and `values`, at the place."""
        return self._update("max", values, **options)

    def apply(self, func: Callable[[Any], Any], **options: Any) -> Array:
        """`func` of the elements at the place, as often as an index is repeated.

        With `unique_indices=True` it is applied once.
        """
        mode = indexing.check_mode("at[].apply", options.get("mode"))
        mask = _traced_mask(self.array, self.index)
        if mask is not None:
            new = ax.cast(func(self.array), self.array.dtype)
            return ax.choose(mask, new, self.array)
        wrap = options.get("wrap_negative_indices", True)
        place = IndexedArray(self.array, self.index)
        old = place.get(mode=mode, wrap_negative_indices=wrap)
        repeats: Any = np.ones((), np.int32)
        if not options.get("unique_indices"):
            repeats = _repeats(self.array, self.index, mode, wrap)
        new = apply_repeatedly("at[].apply", func, old, repeats)
        return place._update("set", new, **options)

    def _update(
        self,
        kind: str,
        values: tracer.Value,
        *,
        mode: Any = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        out_sharding: None = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        checked, x = indexing.check_mode("at[]", mode), self.array
        given = kind, checked, wrap_negative_indices
        values = _operand(kind, values)
        if type(values) is int and is_array(x):  # those of native calls are places
            exact = dtypes.is_inexact(x.dtype) and abs(values) <= _WHOLE
            values = float(values) if exact else _fitting(values, x)
            tracer.aval_of(values)  # which native code asks for
        index = _with_bounds(self.index)
        return _do_where_it_is(_update_at, x, index, values, *given)


def _do_where_it_is(function: Callable[..., Any], *given: Any) -> Any:
    """A call, in which an array may be divided over devices."""
    placed = call_placed(function, given, {}) if Array.any_placed else NotImplemented
    return function(*given) if placed is NotImplemented else placed


def _operand(name: str, values: Any) -> tracer.Value:
    """What is put into a place: of nested lists of numbers their array, as in JAX."""
    if isinstance(values, (ArrayLike, int, float)) or tracer.is_value(values):
        return values
    try:
        return array(values)
    except (errors.ArgumentError, errors.ShapeError) as error:
        text = error.message.removeprefix("array: ")
        raise type(error)(f"at[].{name}: {text}", error.origin) from None


def _fitting(values: tracer.Value, x: Any) -> Any:
    """What is put into `x`; a number wraps to its dtype."""
    values = tracer.wrap_integer(values, x.dtype)
    if type(values) is int and dtypes.is_integer(x.dtype):
        return asarray(np.asarray(values, x.dtype))
    dtype, _ = ew.common_type(x, values)
    if counts_bits(tracer.aval_of(values), dtype):
        return ax.cast(values, dtype)
    return ax.as_value(values)


def update(
    x: Any, index: Any, values: Any, kind: str, mode: str | None, wrap: bool = True
) -> Any:
    """`x` with values set, added, … at an index.

    Raises:
      ShapeError: the values do not broadcast to the place.
      IndexBoundsError: an index that is known is out of bounds.
    """
    check_types((x, values))
    dtype, _ = ew.common_type(x, values)
    if dtype != x.dtype:  # computed in the common dtype, as without an index
        cut = dtype.itemsize < 8 or dtypes.kind(dtype) != dtypes.kind(x.dtype)
        if cut or settings.current().enable_x64 is not None:
            errors.warn_user(
                "scatter inputs have incompatible types: what is put into an array of "
                f"{x.dtype.name} is cut to it, got {values.dtype.name}; write .astype",
                FutureWarning,
            )
        wide = update(ax.cast(x, dtype), index, values, kind, mode, wrap)
        return ax.cast(wide, x.dtype, x.weak_type)
    if (masked := _mask_update(x, index, values, kind)) is not None:
        return masked
    eager = mode is None and is_array(x) and is_array(values)
    known = indexing.numpy_index(index) if eager else None
    if known is not None and wrap and x.memory.host:
        found = _update_now(x, known, values, kind, index)
        if found is not None:
            return found
    if mode is None and not settings.current().check_static_indices:
        known, mode = None, "drop"
    if known is not None:
        parsed = indexing.parse_and_check(x.shape, index, wrap)
    else:
        parsed = indexing.parse_index(x.shape, index, mode, wrap, together=True)
    values = fit(values, parsed.result_shape, f"at[].{kind}")
    values = ax.cast(values, x.dtype)
    region = indexing.slice_of(x, parsed)
    if parsed.gathered:
        new = _scatter(region, parsed, values, kind, mode, wrap)
    elif 0 in (parsed.batch or ()):
        return x
    else:
        new = _COMBINE[kind](region, ax.reshape(values, region.shape))
    return put_back(x, ax.cast(new, x.dtype), parsed)


class _Bounds(NamedTuple):
    """A slice, as what has integers in it."""

    start: Any
    stop: Any
    step: Any


def _with_bounds(index: Any) -> Any:
    if type(index) is tuple:
        return tuple([_with_bounds(part) for part in cast_to(Any, index)])
    is_slice = type(index) is slice
    return _Bounds(index.start, index.stop, index.step) if is_slice else index


def _without_bounds(index: Any) -> Any:
    if type(index) is tuple:
        return tuple([_without_bounds(part) for part in cast_to(Any, index)])
    return slice(*index) if type(index) is _Bounds else index


def _update_fitting(x: Any, index: Any, values: Any, *options: Any) -> Any:
    return update(x, _without_bounds(index), _fitting(values, x), *options)


#: Integers say where, and floats are put there; they decide nothing else.
_update_at = Eager(_update_fitting, (int, float), __name__)


def fit(values: Any, shape: tuple[int, ...], name: str) -> Any:
    """Values broadcast to a place; leading axes of size 1 are dropped as in NumPy."""
    extra = values.ndim - len(shape)
    if extra > 0 and set(values.shape[:extra]) == {1}:
        values = ax.reshape(values, values.shape[extra:])
    try:
        return ax.broadcast_to(values, shape)
    except errors.ShapeError:
        raise errors.ShapeError(
            f"{name}: values of shape {values.shape} do not broadcast to the place, "
            f"which has shape {shape}"
        ) from None


def _traced_mask(x: Any, index: Any) -> Any:
    """A traced mask, if the index is one and fits, with axes to broadcast to x."""
    parts = indexing.index_entries(index)
    mask: Any = parts[0] if len(parts) == 1 else None
    if not ax.is_unknown(mask) or mask.dtype != dtypes.bool_ or mask.ndim > x.ndim:
        return None
    indexing.check_mask(mask.shape, 0, x.shape)
    return ax.reshape(mask, mask.shape + (1,) * (x.ndim - mask.ndim))


def _mask_update(x: Any, index: Any, values: Any, kind: str) -> Any:
    """The update through a traced mask, where the values do not depend on its count."""
    here = _traced_mask(x, index)
    if here is None:
        return None
    rest = x.shape[indexing.index_entries(index)[0].ndim :]
    extra = max(values.ndim - len(rest), 0)
    if any(n != 1 for n in values.shape[:extra]):
        return None
    values = fit(values, rest, f"at[].{kind}")
    return ax.choose(here, ax.cast(_COMBINE[kind](x, values), x.dtype), x)


def _repeats(x: Any, index: Any, mode: str | None, wrap: bool) -> Any:
    """How often each element of a place is named in it, of NumPy where that is known.

    The array broadcasts to the shape of the place.
    """
    parsed = indexing.parse_index(x.shape, index, mode, wrap)
    if not parsed.gathered or not parsed.batch:
        return np.ones((), np.int32)
    counts = asarray(np.zeros(x.shape, np.int32))
    named = update(counts, index, asarray(np.int32(1)), "add", mode, wrap)
    found = IndexedArray(named, index).get(mode=mode, wrap_negative_indices=wrap)
    return np.asarray(found) if is_array(found) else found


def apply_repeatedly(
    name: str, func: Callable[[Any], Any], x: Any, repeats: Any
) -> Any:
    """`func` applied to each element as often as `repeats`, which broadcast to x, say.

    Raises:
      ShapeError: the function changes the shape.
    """

    def once_more(done: Any, old: Any) -> Any:
        new = ax.need_shape(func(old), f"{name}: the function's result", old.shape)
        return ax.choose(repeats > done, ax.cast(new, old.dtype), old)

    if isinstance(repeats, tracer.Tracer):
        most = repeats.max()

        def cond_fun(state: Any) -> Any:
            return state[0] < most

        def step(state: Any) -> Any:
            return state[0] + 1, once_more(*state)

        return backend().while_loop(cond_fun, step, (0, ax.cast(x, x.dtype)))[1]
    for done in range(np.asarray(repeats).max(initial=1)):
        x = once_more(done, x)
    return x


def _scatter(
    region: Any, index: Index, values: Any, kind: str, mode: str | None, wrap: bool
) -> Any:
    assert index.batch is not None
    # From the shape of the result to batch + rest, which a scatter takes.
    values = ax.permute(values, ax.inverse(indexing.placement(index)))
    values = ax.reshape(values, (*index.batch, *index.rest))
    if 0 in values.shape or 0 in region.shape:
        return region
    indices, _ = indexing.positions(index, wrap, clamp=mode == "clip", ask=False)
    strong = ax.cast(region, region.dtype)
    return bind(scatter_p, strong, values, *indices, arg=(index.gathered, kind))


def put_back(x: Any, new: Any, index: Index) -> Any:
    """`x` with its region (see `slice_of`) replaced."""
    if 0 in new.shape:
        return x
    pads: list[tuple[int, int, int]] = []
    flipped: list[int] = []
    for axis, step in enumerate(index.steps):
        low, _ = index.bounds[axis]
        reached = low + (new.shape[axis] - 1) * abs(step) + 1
        pads.append((low, x.shape[axis] - reached, abs(step) - 1))
        if step < 0:
            flipped.append(axis)
    if not any(map(any, pads)):
        return ax.cast(ax.flip(new, flipped), x.dtype, x.weak_type)
    inside = ax.pad(ax.full(new.shape, True, dtypes.bool_), tuple(pads))
    return ax.choose(inside, ax.pad(ax.flip(new, flipped), tuple(pads)), x)


def at(x: tracer.Value) -> At:
    """`at(x)[index].set(y)`: what `x.at` calls.

    Args:
      x: the array.

    Returns:
      What is indexed with a place, whose methods return a changed copy: `set`, `add`,
      `subtract`, `multiply`, `divide`, `power`, `min`, `max`, `apply`; `get` reads it.

    Example:
      >>> x = fnp.array([1, 2, 3])
      >>> x.at[0].set(9)
      Array([9, 2, 3], dtype=int32)
      >>> x.at[fnp.array([1, 1])].add(10)
      Array([ 1, 22,  3], dtype=int32)
    """
    return At(x)


# Arrays and indices that are known.

_BASIC = frozenset((int, slice, type(Ellipsis), *integer_classes))


def _update_now(
    x: Array, known: Any, values: Any, kind: str, index: Any
) -> Array | None:
    """The update of an array of the host by NumPy; None where it raises.

    Args:
      known: the index, as NumPy takes it.
    """
    require_memory("at[]", tracer.aval_of(x))
    new = convert(asarray(values).numpy(), x.dtype)
    try:
        with np.errstate(all="ignore"):
            result = _update(kind, x.numpy(), new, *indexing.index_entries(known))
    except (IndexError, OverflowError, TypeError, ValueError):
        return None
    made = Array.of(result, x.weak_type)
    parts = indexing.parts_to_repeat(index)
    if (tape := recording.tape) is not None and parts is not None:
        places = [_note_slice(tape, part) for part in parts]
        operands = [x, tape.convert(values, x.dtype), *places]
        tape.note(partial(_update, kind), operands, made)
    return made


def _note_slice(tape: Tape, part: Any) -> Any:
    """What stands for a part of an index in steps; a slice is made in one."""
    if type(part) is not slice:
        return part
    made = Made(None, 0)
    tape.note(slice, [part.start, part.stop, part.step], made)
    return made


def _update(kind: str, x: Any, new: Any, *index: Any) -> Any:
    """A copy of an array of NumPy's, changed at an index."""
    result = _host.array(x)
    if kind == "set":
        result[index] = new
    elif all(part is None or type(part) in _BASIC for part in index):
        result[index] = UFUNCS[kind](result[index], new)
    else:
        COMBINE_AT[kind](result, index, new)
    return result

"""Axes and shapes of values: checked arguments, and movement of arrays and tracers.

The functions of the surface are compositions; this is the movement they are made of,
for anything that can be an operand. Each returns its operand where nothing changes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from inspect import Signature, signature
from itertools import chain
from math import prod
from typing import Any, TypeVar

import numpy as np

from ftrace import dtypes, errors
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.ground.tables import memo
from ftrace.trace.arrays.array import Array, ArrayLike, recording
from ftrace.trace.avals import Shape, ShapedArray, pairs_of
from ftrace.trace.bind import bind, bind_compound, broadcast_shapes, do_now
from ftrace.trace.eager.composite import Number
from ftrace.trace.evaluate import no_memory, require_memory
from ftrace.trace.graph import constant_bits
from ftrace.trace.primitives import (
    broadcast as bc,
    elementwise as p,
    movement as mv,
    reduction as red,
)
from ftrace.trace.primitives.sources import const, iota as iota_node, iota_p
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic import is_dynamic, lower_bound, same_size
from ftrace.trace.tracing import scopes, tracer
from ftrace.trace.tracing.weak_constants import WIDE, counts_bits

Axis = int | str | Sequence[int | str] | None


# Arguments.


def bind_names(
    function: Callable[..., Any],
    parameters: Signature,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> dict[str, Any]:
    """The arguments of a call by name; `parameters` are those of the function.

    Raises:
      TypeError: they do not fit; in the words of Python, which name the function.
    """
    try:
        return parameters.bind(*args, **kwargs).arguments
    except TypeError:
        pass
    return function(*args, **kwargs)


def static_int(
    value: Any, what: str, low: float = -math.inf, high: float = math.inf
) -> int:
    """A Python integer; `what` names the argument in the message.

    A bool counts as 0 or 1, also one of NumPy's: they are what comparisons give.

    Raises:
      ArgumentError: it is no integer.
      ValueRangeError: it is not from `low` to `high`.
    """
    if getattr(value, "dtype", None) == dtypes.bool_ and value.shape == ():
        value = bool(value)
    value = static_index(value, what)
    if not low <= value <= high:
        bounds = f"at least {low}" if high == math.inf else f"from {low} to {high}"
        raise errors.ValueRangeError(f"{what} must be {bounds}, got {value}")
    return value


def static_index(value: Any, what: str) -> int:
    """A Python integer; no bool of NumPy's: it is no axis, position or size."""
    if type(value) is int:
        return value
    try:
        if type(value) is np.bool_:  # an old NumPy takes it, with a warning
            raise TypeError
        return operator.index(value)
    except errors.ConcretizationTypeError:
        raise
    except TypeError:
        raise errors.ArgumentError(
            f"{what} must be an integer, got {value!r}"
        ) from None


def canonical_axis(axis: Any, ndim: int, name: str) -> int:
    """`axis` counted from the front.

    Raises:
      AxisError: there is no such axis.
    """
    index = static_index(axis, f"{name}: axis")
    if not -ndim <= index < ndim:
        allowed = f"from {-ndim} to {ndim - 1}" if ndim else "none: it has no axes"
        raise errors.AxisError(
            f"{name}: axis {index} is out of bounds for an array of {ndim} "
            f"dimensions; the axes are {allowed}"
        )
    return index % ndim


def along(x: tracer.Value, axis: Any, name: str) -> tuple[Any, int]:
    """The value, and its axis counted from the front.

    Raises:
      AxisError: there is no such axis.
    """
    x = as_value(x)
    return x, canonical_axis(axis, x.ndim, name)


def flatten(x: tracer.Value, axis: Any, name: str) -> tuple[Any, int]:
    """The value, and the axis from the front; flattened where the axis is None."""
    if axis is None:
        x = as_value(x)
        return reshape(x, (x.size,)), 0
    return along(x, axis, name)


def merge_axes(x: Any, *groups: Sequence[int]) -> Any:
    """An array with one axis for each group of axes, in this order."""
    shape = [prod(x.shape[i] for i in axes) for axes in groups]
    return reshape(permute(x, tuple(chain(*groups))), tuple(shape))


def vector(x: tracer.Value, what: str) -> Any:
    """A value of one axis; `what` names it in the message.

    Raises:
      ShapeError: it has more axes, or none.
    """
    x = as_value(x)
    if x.ndim != 1:
        raise errors.ShapeError(f"{what} must be a vector, got shape {x.shape}")
    return x


def need_axes(
    name: str, x: tracer.Value, count: int, what: str = "array", instead: str = ""
) -> Any:
    """A value of at least so many axes.

    Args:
      what, instead: which operand it is, and what may be done, in the message.

    Raises:
      ShapeError: it has fewer.
    """
    x = as_value(x)
    if x.ndim < count:
        raise errors.ShapeError(
            f"{name}: the {what} must have at least {count} "
            f"{'axis' if count == 1 else 'axes'}, got shape {x.shape}; "
            f"{instead or 'reshape it'}"
        )
    return x


def need_shape(x: tracer.Value, what: str, shape: Shape) -> Any:
    """A value of one shape; `what` names it in the message.

    Raises:
      ShapeError: it has another one.
    """
    x = as_value(x)
    if not same_size(x.shape, shape):
        raise errors.ShapeError(f"{what} must have the shape {shape}, got {x.shape}")
    return x


def host_array(x: Any, what: str) -> np.ndarray[Any, Any]:
    """NumPy's array of known values or lists; `what` names it in the message.

    Raises:
      ShapeError: the lists are not rectangular.
    """
    try:
        return np.asarray(x)
    except ValueError:
        if not is_sequence(x):
            raise
        raise errors.ShapeError(
            f"{what} must be rectangular, with lists of one length beside each other, "
            f"got {x!r:.60}"
        ) from None


def need_known(x: tracer.Value, what: str, instead: str) -> None:
    """Raises where something depends on values, and these are not known."""
    if is_unknown(x):
        raise errors.ConcretizationTypeError(
            f"{what} depends on the values of a traced array of type "
            f"{tracer.aval_of(x)!r}; {instead}"
        )


def scalar_type(x: tracer.Value, what: str, instead: str = "") -> ShapedArray:
    """The type of a value without axes; `what` names it in the message.

    Raises:
      ArgumentError: it is no value.
      ShapeError: it has axes.
    """
    if not tracer.is_value(x):
        raise errors.ArgumentError(f"{what} must be a scalar, got {x!r:.60}")
    aval = tracer.aval_of(x)
    if aval.shape != ():
        raise errors.ShapeError(f"{what} must be a scalar, got {aval!r}{instead}")
    return aval


def one_shape(name: str, values: Sequence[tracer.Value]) -> Shape:
    """The shape that all values have.

    Raises:
      ShapeError: they have several.
    """
    shapes = [shape_of(x) for x in values]
    if any(shape != shapes[0] for shape in shapes):
        raise errors.ShapeError(f"{name}: all shapes must be equal, got {shapes}")
    return shapes[0]


def integers(x: tracer.Value, what: str) -> Any:
    """A value of integers; `what` names it in the message.

    Raises:
      DtypeError: it is of another dtype.
    """
    x = as_value(x)
    if not dtypes.is_integer(x.dtype):
        raise errors.DtypeError(f"{what} must be integers, got {tracer.aval_of(x)!r}")
    return x


def canonical_axes(axis: Any, ndim: int, name: str) -> tuple[int, ...]:
    """One axis, several, or None for all, counted from the front, in their order.

    Raises:
      AxisError: there is no such axis, or it is named twice.
    """
    if axis is None:
        return tuple(range(ndim))
    several = entries(axis)
    if several is None:
        return (canonical_axis(axis, ndim, name),)
    axes = tuple(canonical_axis(a, ndim, name) for a in several)
    if len(set(axes)) != len(axes):
        raise errors.AxisError(f"{name}: duplicate value in 'axis': {several}")
    return axes


#: Elements of an array: positions are 64-bit integers.
_MOST = 1 << 63


def check_shape(shape: Any, name: str) -> Shape:
    """A shape as a tuple of Python integers; one integer is a shape of one axis.

    Raises:
      ArgumentError: it is neither.
    """
    sizes = entries(shape)
    if sizes is None:
        return (checked_size(shape, f"{name}: shape, where it is no tuple,"),)
    found = tuple(checked_size(n, f"{name}: each size") for n in sizes)
    if lower_bound(prod(found)) >= _MOST:
        raise errors.ShapeError(
            f"{name}: an array of shape {found} has 2**63 elements or more, which no "
            "memory holds and no index counts"
        )
    return found


def check_sizes(shape: Any, name: str) -> Shape:
    """The shape of an array to be made: `check_shape`, and nothing negative.

    Raises:
      ArgumentError: it is neither an integer nor a sequence of them.
      ShapeError: a size is negative.
    """
    found = check_shape(shape, name)
    if any(n < 0 for n in found):
        raise errors.ShapeError(f"{name}: sizes must not be negative, got {found}")
    return found


def check_count(value: Any, what: str) -> Any:
    """How many elements a result has: an integer from 0, or a dynamic dimension.

    Raises:
      ArgumentError: it is no integer.
      ValueRangeError: it is negative.
    """
    count = value if is_dynamic(value) else static_int(value, what)
    if count < 0:
        raise errors.ValueRangeError(f"{what} must not be negative, got {count}")
    return count


def checked_size(value: Any, what: str) -> Any:
    """A Python integer or a dynamic dimension."""
    return value if is_dynamic(value) else static_index(value, what)


def entries(x: Any) -> tuple[Any, ...] | None:
    """The entries of a sequence or a vector; None for a single value."""
    return tuple(x) if getattr(x, "ndim", 1) and np.iterable(x) else None


def several(x: Any, what: str) -> tuple[Any, ...]:
    """The entries of a sequence or a vector; `what` names it in the message.

    Raises:
      ArgumentError: it is a single value.
    """
    found = entries(x)
    if found is None:
        raise errors.ArgumentError(f"{what} must be a sequence such as (0,), got {x!r}")
    return found


def is_sequence(x: Any) -> bool:
    """Is it a list or a tuple? A bool, so that what is in it stays untyped."""
    return isinstance(x, (list, tuple))


def no_out(name: str, out: Any) -> None:
    """Raises where NumPy's `out=` is given: arrays are immutable."""
    if out is not None:
        raise errors.UnsupportedError(
            f"{name}: the argument 'out' is not supported, since arrays are "
            "immutable; use the result instead"
        )


# Values.


def as_value(x: tracer.Value) -> Any:
    """`x` as an Array or a Tracer; inside a trace a scalar is a constant."""
    if isinstance(x, ArrayLike):
        return x
    scope = scopes.current_scope()
    if scope is None or isinstance(x, np.ndarray):
        made = scopes.asarray(x)
        if (tape := recording.tape) is not None:
            if isinstance(dtypes.as_number(x), int):
                tape.note_constant(made)
            elif isinstance(x, float) and not isinstance(x, np.generic):
                tape.note(np.asarray, [Number(x, made.dtype)], made)
            elif isinstance(x, (np.ndarray, np.generic)) and made.dtype == x.dtype:  # pyright: ignore[reportUnknownMemberType]
                tape.note(np.asarray, [x], made)
        return made
    return scope.wrap(scope.lift(x))


def is_unknown(x: Any) -> bool:
    """Is it traced, and depends on what is known at calls only?"""
    return isinstance(x, tracer.Tracer) and tracer.unbound_variable(x.node) is not None


def shape_of(x: tracer.Value) -> Shape:
    return tracer.aval_of(x).shape


def with_size(shape: tuple[Any, ...], axis: int, size: Any) -> tuple[Any, ...]:
    """A shape with another size of one axis."""
    return (*shape[:axis], size, *shape[axis + 1 :])


def line(ndim: int, axis: int, size: int) -> Shape:
    """The shape of a vector along one of several axes."""
    return with_size((1,) * ndim, axis, size)


def full(shape: Shape, value: Any, dtype: np.dtype[Any], weak: bool = False) -> Any:
    """One Python scalar at every position."""
    scope = scopes.current_scope()
    if scope is not None:
        return scope.wrap(const(value, dtype, shape, weak))
    repeated = _repeat_element(constant_bits(value, dtype), dtype, shape)
    return constant(Array.of(repeated, weak))


#: Bytes up to which the elements lie side by side, as compiled code has them.
_DENSE = 1 << 12


@memo(256)
def _repeat_element(bits: bytes, dtype: np.dtype[Any], shape: Shape) -> Any:
    """One element at every position; nobody can write to it."""
    repeated: Any = np.ndarray(shape, dtype, bits, 0, (0,) * len(shape))
    if repeated.nbytes > _DENSE:
        return repeated
    dense = repeated.copy()
    dense.flags.writeable = False
    return dense


def constant(array: Array) -> Array:
    """An Array that depends on no other one."""
    if recording.tape is not None:
        recording.tape.note_constant(array)
    return array


def iota(dtype: np.dtype[Any], shape: Shape, axis: int) -> Any:
    """The position along `axis`, at every position of `shape`."""
    scope = scopes.current_scope()
    if scope is not None:
        return scope.wrap(iota_node(dtype, shape, axis))
    aval = ShapedArray.of(shape, dtype)
    require_memory("iota", aval)
    try:
        return constant(Array.of(iota_p.numpy(aval, axis)))
    except MemoryError:
        raise no_memory("iota", aval) from None


def cast(x: tracer.Value, dtype: np.dtype[Any], weak: bool = False) -> Any:
    """`x` in another dtype."""
    x = tracer.wrap_integer(x, dtype)
    aval = tracer.aval_of(x)
    if counts_bits(aval, dtype):
        x = _with_all_bits(x, aval)
        aval = tracer.aval_of(x)
    if aval.dtype == dtype and aval.weak_type == weak:
        return as_value(x)
    return bind(p.cast_p, as_value(x), arg=(dtype, weak))


def _with_all_bits(x: tracer.Value, aval: ShapedArray) -> tracer.Value:
    """A weak scalar at 64 bits, as far as they are known."""
    if type(x) in (float, complex):
        scope, dtype = scopes.current_scope(), WIDE[aval.dtype]
        if scope is not None:
            return scope.wrap(const(x, dtype, (), True))
        made = Array.of(np.asarray(x, dtype), True)
        if (tape := recording.tape) is not None:
            tape.note(np.asarray, [Number(x, dtype)], made)
        return made
    if isinstance(x, tracer.Tracer) and not x.scope.closed:
        found = scopes.all_bits(x.node)
        return x if found is None else tracer.Tracer(found, x.scope)
    return x


def strong(x: tracer.Value) -> Any:
    """`x` without the weak type."""
    x = as_value(x)
    return cast(x, dtypes.strong_dtype(x.dtype, x.weak_type))


def choose(mask: tracer.Value, x: tracer.Value, y: tracer.Value) -> Any:
    """`x` where the mask of bools holds, `y` elsewhere; promoted and broadcast."""
    operands = (mask, x, y)
    c, a, b = map(tracer.aval_of, operands)
    dtype, weak = dtypes.promote(*pairs_of([a, b]))
    shape = broadcast_shapes("where", [c.shape, a.shape, b.shape])
    scope = scopes.scope_of(operands)
    if scope is not None:
        nodes = [scope.lift_to(v, dtype, shape, weak) for v in (x, y)]
        chosen = scope.lift_to(mask, dtypes.bool_, shape)
        return tracer.Tracer(p.select(chosen, *nodes), scope)
    values = cast(mask, dtypes.bool_), cast(x, dtype, weak), cast(y, dtype, weak)
    require_memory("where", a.with_dtype(dtype, weak).with_shape(shape))
    found = do_now(np.where, *values, dtype=dtype, weak=weak)
    if found is not None:
        return found
    return bind(p.select, *[broadcast_to(v, shape) for v in values])


# Movement.


def reshape(x: tracer.Value, shape: Shape) -> Any:
    x = as_value(x)
    return x if same_size(x.shape, shape) else bind(mv.reshape_p, x, arg=shape)


def permute(x: tracer.Value, axes: tuple[int, ...]) -> Any:
    x = as_value(x)
    return x if axes == tuple(range(x.ndim)) else bind(mv.permute_p, x, arg=axes)


inverse = mv.inverse


def move_axis(x: tracer.Value, source: int, destination: int) -> Any:
    """Takes out one axis and puts it elsewhere; both count from the front."""
    axes = [a for a in range(len(shape_of(x))) if a != source]
    axes.insert(destination, source)
    return permute(x, tuple(axes))


def insert_axes(x: tracer.Value, axes: Iterable[int]) -> Any:
    """Axes of size 1 where the result has the `axes`."""
    x = as_value(x)
    added = set(axes)
    sizes = iter(x.shape)
    ndim = x.ndim + len(added)
    return reshape(x, tuple(1 if a in added else next(sizes) for a in range(ndim)))


def drop_axes(x: tracer.Value, axes: Iterable[int]) -> Any:
    """`x` without axes that have size 1."""
    x = as_value(x)
    dropped = set(axes)
    return reshape(x, tuple(n for a, n in enumerate(x.shape) if a not in dropped))


def expand(x: tracer.Value, shape: Shape) -> Any:
    """`x` repeated along its axes of size 1, to a shape of the same rank."""
    x = as_value(x)
    return x if same_size(x.shape, shape) else bind(bc.expand_p, x, arg=shape)


def broadcast_to(x: tracer.Value, shape: Shape, name: str = "broadcast_to") -> Any:
    """`x` to a shape by NumPy's rules.

    Raises:
      ShapeError: an axis of another size than 1 would have to change.
    """
    x = as_value(x)
    if same_size(x.shape, shape):
        return x
    missing = len(shape) - x.ndim
    pairs = zip(x.shape, shape[max(missing, 0) :], strict=False)
    if missing < 0 or not all(same_size(n, 1) or same_size(n, m) for n, m in pairs):
        raise errors.ShapeError(
            f"{name}: shape {x.shape} does not broadcast to {shape}: aligned at the "
            "end, each size must be equal or 1; reshape it first"
        )
    return expand(reshape(x, (1,) * missing + x.shape), shape)


def pad(x: tracer.Value, pads: tuple[tuple[int, int, int], ...]) -> Any:
    """Zeros (before, after, between) per axis; none of them negative."""
    return bind(mv.pad_p, x, arg=pads) if any(map(any, pads)) else as_value(x)


def pad_axis(x: tracer.Value, axis: int, before: int, after: int) -> Any:
    """Zeros around one axis."""
    none = ((0, 0, 0),) * len(shape_of(x))
    return pad(x, with_size(none, axis, (before, after, 0)))


def shrink(x: tracer.Value, bounds: tuple[tuple[int, int], ...]) -> Any:
    """A slice (start, stop) per axis."""
    x = as_value(x)
    if all(same_size(b, (0, n)) for b, n in zip(bounds, x.shape, strict=True)):
        return x
    return bind(mv.shrink_p, x, arg=bounds)


def shrink_axis(x: tracer.Value, axis: int, start: int, stop: int) -> Any:
    """A slice along one axis."""
    bounds = tuple((0, n) for n in shape_of(x))
    return shrink(x, with_size(bounds, axis, (start, stop)))


def stride(x: tracer.Value, steps: tuple[int, ...]) -> Any:
    """Every n-th element per axis; a negative n also reverses."""
    return bind(mv.stride_p, x, arg=steps) if set(steps) - {1} else as_value(x)


def flip(x: tracer.Value, axes: Sequence[int]) -> Any:
    """The elements along the axes in reverse order."""
    return stride(x, tuple(-1 if a in axes else 1 for a in range(len(shape_of(x)))))


# Windows that slide over an array: what pooling, convolution and cumsum share.
#
#     y[k, …, o, …] = x[…, o·stride + k·dilation, …]
#
# The window is a new leading axis. It is a view (`shear`), until a kernel reads it.


class Window(NamedTuple):
    """How a window slides along one axis.

    Attributes:
      size: how many elements it sees.
      stride: how far each output moves it.
      dilation: how far two of its elements are apart.
      before, after: elements added around the axis; a negative number takes away.
      between: elements added between two of the axis.
    """

    size: int
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0
    between: int = 0

    @property
    def reach(self) -> int:
        """From the first element that it sees to the last, both counted."""
        return (self.size - 1) * self.dilation + 1 if self.size else 0

    def outputs(self, size: int) -> int:
        """How many places it takes along an axis of this size."""
        full_size = self.before + self.after + size + max(size - 1, 0) * self.between
        return max((full_size - self.reach) // self.stride + 1, 0)


def slide(x: Any, axis: int, window: Window) -> Any:
    """`x` with a leading axis for the window; `axis` then counts its places.

    The padding has been done.
    """
    outputs = (x.shape[axis] - window.reach) // window.stride + 1
    x = insert_axes(x, (0,))
    x = expand(x, (window.size, *x.shape[1:]))
    arg = mv.Shear(axis + 1, 0, window.stride, window.dilation, outputs)
    return bind(mv.shear_p, x, arg=arg)


def slide_all(x: Any, windows: Sequence[Window], fill: Any = 0) -> Any:
    """A window per axis: leading axes for the windows of more than one element.

    Args:
      x: a value.
      windows: one for each axis.
      fill: what padding holds: a number, or a scalar value of the dtype of x.

    Returns:
      The windows' axes in the order of the axes, then an axis of places for each.
    """
    x = pad_windows(x, windows, fill)
    wide = [a for a, w in enumerate(windows) if w.size > 1]
    for done, axis in enumerate(reversed(wide)):
        x = slide(x, axis + done, windows[axis])
    steps = [1 if w.size > 1 else w.stride for w in windows]
    return stride(x, (*[1] * len(wide), *steps))


def pad_windows(x: Any, windows: Sequence[Window], fill: Any = 0) -> Any:
    """`x` with what the windows add around and between its elements.

    Raises:
      ShapeError: more is taken away than there is.
    """
    x = as_value(x)
    grown = tuple((max(w.before, 0), max(w.after, 0), w.between) for w in windows)
    result = pad(x, grown)
    zeros = ("0", "0.0", "False")
    is_zero = isinstance(fill, (bool, int, float)) and str(fill) in zeros
    if not is_zero and any(map(any, grown)):
        inside = pad(full(x.shape, True, dtypes.bool_), grown)
        result = choose(inside, result, fill)
    bounds = tuple(
        (max(-w.before, 0), n - max(-w.after, 0))
        for w, n in zip(windows, result.shape, strict=True)
    )
    if any(low > high for low, high in bounds):
        raise errors.ShapeError(
            f"padding {[(w.before, w.after) for w in windows]} takes away more than "
            f"{x.shape} has"
        )
    return shrink(result, bounds)


# Axes that `vmap` has named, beside those that arrays have. The values of all instances
# are an array with one axis more, which is reduced as any other: who is batched has it
# at hand.


F = TypeVar("F", bound=Callable[..., Any])


def takes_names(function: F) -> F:
    """A function of an array and `axis`, which may be the name of an axis, or hold it.

    It is given the values of all instances, along leading axes; of a result that has
    them too, as that of a softmax, an instance has its own part.
    """
    parameters = signature(function)
    array = next(iter(parameters.parameters))

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        axis: Any = kwargs.get("axis", args[1] if len(args) > 1 else None)
        several: Any = axis if isinstance(axis, tree.SEQUENCES) else (axis,)
        name = call.__name__
        axes = {a: tracer.axis_of(a, name) for a in several if isinstance(a, str)}
        if not axes:
            return function(*args, **kwargs)
        bound = parameters.bind(*args, **kwargs)
        given = bound.arguments
        shape = shape_of(given[array])
        for key in {array, "where", "b"} & given.keys():
            if given[key] is not None:
                x = broadcast_to(as_value(given[key]), shape, name)
                for each in reversed(axes.values()):
                    arg = red.NamedAxis(each.name, each.size)
                    (x,) = bind_compound(red.all_gather_p, x, each.index, arg=arg)
                given[key] = x
        order = [*axes, *range(len(shape))]
        own = [a if a in axes else canonical_axis(a, len(shape), name) for a in several]
        given["axis"] = tuple(map(order.index, own))
        result = function(*bound.args, **bound.kwargs)
        whole = "keepdims" not in parameters.parameters
        if not whole and not given.get("keepdims"):
            return result
        place = tuple(each.index if whole else 0 for each in axes.values())
        return tree.map(lambda x: x[place], result)

    made: Any = call
    return made

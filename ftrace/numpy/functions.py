"""Functions of functions: of slices, of elements and of places; NumPy's ufuncs.

`ufunc` is a function of elements as an object, with NumPy's methods:

    add.reduce(x)            the sum along the first axis
    add.accumulate(x)        the running sum
    add.outer(x, y)          each element of x with each of y
    add.at(x, i, y, inplace=False)
    add.reduceat(x, starts)  the sums of parts

Where a function of `ftrace.numpy` does the same, a row of `METHODS` names it; else the
elements are combined one after the other, by a scan.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from functools import wraps
from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import ArgumentError, ImmutableError, ShapeError, ValueRangeError
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.numpy import axes as ax, cumulative, logic, reductions
from ftrace.numpy.at import at as at_of
from ftrace.numpy.creation import asarray
from ftrace.numpy.indexing import getitem
from ftrace.numpy.joining import concatenate
from ftrace.trace.avals import Shape
from ftrace.trace.backend import backend
from ftrace.trace.bind import broadcast_shapes
from ftrace.trace.eager.checked_calls import check_ranks
from ftrace.trace.eager.dispatch import owning
from ftrace.trace.eager.function_objects import Eager
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.tracer import Value, aval_of

__all__ = [
    "apply_along_axis", "apply_over_axes", "frompyfunc", "piecewise", "select", "ufunc",
    "vectorize",
]  # fmt: skip


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: Value, *args: Any, **kwargs: Any
) -> Any:
    """`func1d(vector, *args, **kwargs)` of every vector along an axis.

    The function is traced once, for all vectors, by `vmap`.

    Args:
      func1d: of a vector.
      axis: along which the vectors lie.
      arr: the array.
      *args, **kwargs: passed to the function.

    Returns:
      An array, or what the function returns: its axes stand where the axis was.

    Raises:
      AxisError: there is no such axis.

    Example:
      >>> x = fnp.array([[3, 1, 2], [4, 6, 5]])
      >>> fnp.apply_along_axis(lambda v: v[-1] - v[0], 1, x)
      Array([-1,  1], dtype=int32)
    """
    tree.check_callable(func1d, "apply_along_axis")
    x, axis = ax.along(arr, axis, "apply_along_axis")
    lanes = ax.move_axis(x, axis, x.ndim - 1)
    outer = lanes.shape[:-1]
    flat = ax.reshape(lanes, (prod(outer), lanes.shape[-1]))

    def lane(vector: Any) -> Any:
        return func1d(vector, *args, **kwargs)

    results = backend().vmap(lane)(flat)

    def place(result: Any) -> Any:
        inner = result.ndim - 1
        result = ax.reshape(result, (*outer, *result.shape[1:]))
        for i in range(inner):  # the axes of one result stand where the axis was
            result = ax.move_axis(result, len(outer) + i, axis + i)
        return result

    return tree.map(place, results)


def apply_over_axes(
    func: Callable[[Any, int], Any], a: Value, axes: int | Sequence[int]
) -> Any:
    """`func(a, axis)` over one axis after the other; axes it drops stay with size 1.

    Args:
      func: of an array and an axis, as `sum`.
      a: the array.
      axes: an axis, or several.

    Raises:
      ShapeError: `func` changes the number of axes by more than one.

    Example:
      >>> fnp.apply_over_axes(fnp.sum, fnp.array([[1, 2], [3, 4]]), (0, 1))
      Array([[10]], dtype=int32)
    """
    tree.check_callable(func, "apply_over_axes")
    x = ax.as_value(a)
    several = ax.entries(axes)
    places = (axes,) if several is None else several
    for axis in places:
        place = ax.canonical_axis(axis, x.ndim, "apply_over_axes")
        result = func(x, place)
        if result.ndim == x.ndim - 1:
            result = ax.insert_axes(result, (place,))
        if result.ndim != x.ndim:
            raise ShapeError(
                f"apply_over_axes: the function made shape {result.shape} of "
                f"{x.shape}; it must keep the number of axes or drop one"
            )
        x = result
    return x


def select(
    condlist: Sequence[Value], choicelist: Sequence[Value], default: Value = 0
) -> Any:
    """From `choicelist`, the value whose condition is the first that holds.

    Args:
      condlist: arrays of bools.
      choicelist: as many values; all broadcast together, and the dtypes promote.
      default: the value where no condition holds.

    Raises:
      ArgumentError: an argument is no list.
      ValueRangeError: the lists differ in length, or are empty.

    Example:
      >>> x = fnp.array([-2, 0, 3])
      >>> fnp.select([x < 0, x > 0], [-x, 10 * x], default=1)
      Array([ 2,  1, 30], dtype=int32)
    """
    if not ax.is_sequence(condlist) or not ax.is_sequence(choicelist):
        raise ArgumentError(
            "select takes a list of conditions and a list of choices, got "
            f"{condlist!r:.60} and {choicelist!r:.60}"
        )
    if len(condlist) != len(choicelist) or not condlist:
        raise ValueRangeError(
            f"select takes as many conditions as choices, and at least one; got "
            f"{len(condlist)} and {len(choicelist)}"
        )
    result = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = ax.choose(condition, choice, result)
    return result


def piecewise(
    x: Value,
    condlist: Value | Sequence[Value],
    funclist: Sequence[Value | Callable[..., Any]],
    *args: Any,
    **kw: Any,
) -> Any:
    """The function of the last condition that holds, of x; one more is the default.

    All functions are computed everywhere, and chosen from.

    Args:
      x: the array.
      condlist: arrays of bools of its shape.
      funclist: as many functions, or numbers; one more for where no condition holds,
        0 by default.
      *args, **kw: passed to the functions.

    Returns:
      An array of the shape and dtype of `x`.

    Raises:
      ArgumentError: `funclist` is no list.
      ValueRangeError: the lists do not fit.

    Example:
      >>> x = fnp.array([-2, 0, 3])
      >>> fnp.piecewise(x, [x < 0, x > 0], [lambda v: -v, lambda v: 10 * v, 1])
      Array([ 2,  1, 30], dtype=int32)
    """
    x = ax.as_value(x)
    many = ax.is_sequence(condlist) or aval_of(condlist).ndim > x.ndim
    conditions: list[Any] = list(condlist) if many else [condlist]
    if not hasattr(funclist, "__iter__"):
        raise ArgumentError(
            f"piecewise takes a list of functions, got {funclist!r:.60}"
        )
    functions = list(funclist)
    if len(functions) == len(conditions):
        functions.append(0)
    if len(functions) != len(conditions) + 1:
        raise ValueRangeError(
            f"piecewise: {len(conditions)} conditions take as many functions, or one "
            f"more for the default; got {len(functions)}"
        )
    dtype = dtypes.strong_dtype(x.dtype, x.weak_type)
    values = [
        ax.cast(f(x, *args, **kw) if callable(f) else f, dtype) for f in functions
    ]
    return select(conditions[::-1], values[-2::-1], values[-1])


# vectorize

Core = tuple[str, ...]


def vectorize(
    pyfunc: Callable[..., Any],
    *,
    excluded: Collection[int | str] = frozenset(),
    signature: str | None = None,
) -> Callable[..., Any]:
    """`pyfunc` of scalars, or of arrays as the signature says, for arrays of them.

    Unlike NumPy's it is no loop: the function is traced once, by `vmap`. Arguments that
    are None are passed as they are.

    Args:
      pyfunc: the function.
      excluded: positions and names of arguments that are passed as they are.
      signature: core shapes such as "(m,n),(n)->(m)"; without one all are scalars.

    Returns:
      A function of arrays, whose other axes broadcast.

    Raises:
      ValueRangeError: the signature cannot be read, or an excluded position is
        negative.
      ArgumentError: what is excluded is neither a position nor a name.
      ShapeError: the arguments do not fit the signature.

    Example:
      >>> f = fnp.vectorize(lambda x, y: fnp.where(x > y, x - y, x + y))
      >>> f(fnp.array([1, 2, 3]), 2)
      Array([3, 4, 1], dtype=int32)
      >>> norm = fnp.vectorize(fnp.linalg.norm, signature="(n)->()")
      >>> norm(fnp.array([[3, 4], [6, 8]]))
      Array([ 5., 10.], dtype=float32)
    """
    tree.check_callable(pyfunc, "vectorize")
    left_out = set(excluded)
    if any(not isinstance(x, (int, str)) for x in left_out):
        raise ArgumentError(
            f"vectorize: positions and names may be excluded, got {excluded!r}"
        )
    if any(isinstance(x, int) and x < 0 for x in left_out):
        raise ValueRangeError(
            f"vectorize: excluded positions count from the front, got {excluded!r}"
        )
    cores = _parse_signature(signature) if signature is not None else None

    @wraps(pyfunc, updated=())
    def apply(*args: Any, **kwargs: Any) -> Any:
        named = [i for i in range(len(args)) if i not in left_out]
        places = [i for i in named if args[i] is not None]
        inner = cores and (_without_none([args[i] for i in named], cores[0]), cores[1])
        names = [name for name in kwargs if name not in left_out]

        def call(*values: Any) -> Any:
            full = list(args)
            for i, value in zip(places, values, strict=False):
                full[i] = value
            rest = dict(zip(names, values[len(places) :], strict=True))
            return pyfunc(*full, **{**kwargs, **rest})

        operands = [args[i] for i in places] + [kwargs[name] for name in names]
        operands = [
            asarray(x) if ax.is_sequence(x) else ax.as_value(x) for x in operands
        ]
        return _map_cores(call, operands, inner)

    return owning(apply)


def _without_none(args: list[Any], cores: list[Core]) -> list[Core]:
    """The core shapes of what is no None."""
    for arg, core in zip(args, cores, strict=False):
        if arg is None and core:
            raise ArgumentError(f"vectorize: None has no core {core}")
    return [c for k, c in enumerate(cores) if k >= len(args) or args[k] is not None]


def _map_cores(function: Callable[..., Any], operands: list[Any], cores: Any) -> Any:
    inputs, outputs = cores or ([()] * len(operands), None)
    if len(inputs) != len(operands):
        raise ArgumentError(
            f"vectorize: the signature has {len(inputs)} arguments, got {len(operands)}"
        )
    sizes: dict[str, int] = {}
    pairs = zip(operands, inputs, strict=True)
    loops = [_check_core(operand.shape, core, sizes) for operand, core in pairs]
    check_ranks("vectorize", loops)
    loop = broadcast_shapes("vectorize", loops) if loops else ()
    ndim = len(loop)
    padded = [
        ax.insert_axes(x, range(ndim - len(shape)))
        for x, shape in zip(operands, loops, strict=True)
    ]
    mapped = _check(function, outputs, sizes)
    for depth in reversed(range(ndim)):
        mapped = _map_axis(mapped, [x.shape[depth] for x in padded], loop[depth])
    return mapped(*padded)


def _map_axis(
    function: Callable[..., Any], sizes: list[int], size: int
) -> Callable[..., Any]:
    """Maps the leading axis; operands of size 1 are passed whole, without it."""
    axes = tuple(None if n == 1 and size != 1 else 0 for n in sizes)

    def call_mapped(*values: Any) -> Any:
        ready = [
            ax.reshape(v, v.shape[1:]) if axis is None else v
            for v, axis in zip(values, axes, strict=True)
        ]
        if all(axis is None for axis in axes):
            return function(*ready)
        return backend().vmap(function, axes, 0)(*ready)

    return call_mapped


def _check(
    function: Callable[..., Any], outputs: Any, sizes: dict[str, int]
) -> Callable[..., Any]:
    """The function; its results are held to the signature."""

    def call(*values: Any) -> Any:
        results = function(*values)
        if outputs is None:
            return tree.map(ax.as_value, results)
        many: Any = results if ax.is_sequence(results) else (results,)
        if len(many) != len(outputs):
            raise ArgumentError(
                f"vectorize: the signature has {len(outputs)} results, got {len(many)}"
            )
        many = tuple([ax.as_value(result) for result in many])
        for result, core in zip(many, outputs, strict=True):
            if _check_core(result.shape, core, sizes) != ():
                raise ShapeError(
                    f"vectorize: a result of shape {result.shape} for {core}"
                )
        return many if isinstance(results, tuple) else many[0]

    return call


def _check_core(shape: Shape, core: tuple[str, ...], sizes: dict[str, int]) -> Shape:
    """The loop axes of a shape; its last axes are the core."""
    if len(shape) < len(core):
        raise ShapeError(f"vectorize: an array of shape {shape} has no core {core}")
    split = len(shape) - len(core)
    for name, n in zip(core, shape[split:], strict=True):
        wanted = int(name) if name.isdigit() else sizes.setdefault(name, n)
        if wanted != n:
            raise ShapeError(
                f"vectorize: the axis {name} of the signature has the sizes {wanted} "
                f"and {n}"
            )
    return shape[:split]


_CORE = r"\(\s*(?:\w+\s*(?:,\s*\w+\s*)*)?\)"
_CORES = rf"{_CORE}(?:\s*,\s*{_CORE})*"
_SIGNATURE = re.compile(rf"^\s*({_CORES})?\s*->\s*({_CORES})\s*$")


def _parse_signature(text: str) -> tuple[list[Core], list[Core]]:
    found = _SIGNATURE.match(text)
    if found is None:
        raise ValueRangeError(
            f'vectorize: a signature reads like "(m,n),(n)->(m)", got {text!r}'
        )
    sides = [
        [tuple(re.findall(r"\w+", core)) for core in re.findall(_CORE, side or "")]
        for side in found.groups()
    ]
    return sides[0], sides[1]


# Functions of elements as objects.

Dtype = Any


class Methods(NamedTuple):
    """What is known of a function of elements.

    Attributes:
      nin: how many operands it has.
      identity: what changes nothing as an operand; None if there is nothing.
      reduce: (array, axis, dtype, keepdims, initial, where) -> the reduction.
      accumulate: (array, axis, dtype) -> the running one.
      update: the method of `x.at[i]` that does the same.
      any_order: elements may be combined in any order.
      nout: how many results it has.
    """

    nin: int = 2
    identity: Any = None
    reduce: Callable[..., Any] | None = None
    accumulate: Callable[..., Any] | None = None
    update: str | None = None
    any_order: bool = False
    nout: int = 1


def _extreme(extreme: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(a: Value, axis: Any, dtype: Dtype, out: None, *options: Any) -> Any:
        x = a if dtype is None else ax.cast(a, dtypes.as_dtype(dtype))
        return extreme(x, axis, out, *options)

    return reduce


def _running(kind: str) -> Callable[..., Any]:
    def accumulate(a: Value, axis: Any, dtype: Dtype) -> Any:
        x, place = ax.along(a, axis, "accumulate")
        x = x if dtype is None else ax.cast(x, dtypes.as_dtype(dtype))
        return cumulative.scan_with(x, kind, place, False)

    return accumulate


METHODS = {
    "add": Methods(2, 0, reductions.sum, cumulative.cumsum, "add"),
    "multiply": Methods(2, 1, reductions.prod, cumulative.cumprod, "multiply"),
    "subtract": Methods(update="subtract"),
    "maximum": Methods(2, None, _extreme(reductions.max), _running("max"), "max"),
    "minimum": Methods(2, None, _extreme(reductions.min), _running("min"), "min"),
    "logical_and": Methods(2, True, any_order=True),
    "logical_or": Methods(2, False, any_order=True),
    "logical_xor": Methods(2, False, any_order=True),
    "bitwise_and": Methods(2, -1, any_order=True),
    "bitwise_or": Methods(2, 0, any_order=True),
    "bitwise_xor": Methods(2, 0, any_order=True),
    "logaddexp": Methods(2, -math.inf, any_order=True),
    "logaddexp2": Methods(2, -math.inf, any_order=True),
    "negative": Methods(1),
}


class ufunc:
    """A function of elements, applied to arrays of one shape, after broadcasting.

    Args:
      func: of `nin` scalars; it returns `nout` of them.
      nin, nout: how many.
      name: by default that of the function.
      identity: what changes nothing as an operand.

    Example:
      >>> fnp.add.reduce(fnp.array([[1, 2], [3, 4]]))
      Array([4, 6], dtype=int32)
      >>> fnp.multiply.outer(fnp.array([1, 2]), fnp.array([1, 10]))
      Array([[ 1, 10],
             [ 2, 20]], dtype=int32)
      >>> fnp.add.at(fnp.array([0, 0]), fnp.array([1, 1]), 5, inplace=False)
      Array([ 0, 10], dtype=int32)
    """

    _methods: Methods
    _function: Callable[..., Any]

    def __init__(
        self,
        func: Callable[..., Any],
        /,
        nin: int,
        nout: int,
        *,
        name: str | None = None,
        identity: Any = None,
    ) -> None:
        tree.check_callable(func, "frompyfunc")
        counts = [ax.static_int(n, "frompyfunc: nin and nout") for n in (nin, nout)]
        self.__name__ = name or getattr(func, "__name__", type(func).__name__)
        known = Methods(counts[0], identity, nout=counts[1])
        self._keep(known, func)
        self._call = vectorize(func)

    def _keep(self, methods: Methods, func: Callable[..., Any]) -> None:
        vars(self).update(_methods=methods, _function=func)

    def __call__(self, *args: Value) -> Any:
        if len(args) != self.nin:
            raise ArgumentError(
                f"{self.__name__} takes {self.nin} arguments, got {len(args)}"
            )
        return self._call(*args)

    nin = property(lambda self: self._methods.nin, doc="How many operands it has.")
    nargs = nin
    nout = property(lambda self: self._methods.nout, doc="How many results it has.")
    identity = property(
        lambda self: self._methods.identity, doc="What changes nothing, or None."
    )
    _func = property(lambda self: self._function)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ufunc) and self._state() == other._state()

    def __hash__(self) -> int:
        return hash(self._state())

    def _state(self) -> tuple[Any, ...]:
        return self._func, self.__name__, self.nin, self.nout, self.identity

    def __repr__(self) -> str:
        return f"<ufunc {self.__name__!r}>"

    def _binary(self, method: str, out: Any = None) -> str:
        """The name for messages, of a method of functions of two operands."""
        name = f"{self.__name__}.{method}"
        if self.nin != 2 or self.nout != 1:
            raise ValueRangeError(
                f"{name}: only a function of two operands and one result has it; this "
                f"one has {self.nin} and {self.nout}"
            )
        ax.no_out(name, out)
        return name

    def reduce(
        self,
        a: Value,
        axis: int | tuple[int, ...] | None = 0,
        dtype: Dtype = None,
        out: None = None,
        keepdims: bool = False,
        initial: Value | None = None,
        where: Value | None = None,
    ) -> Any:
        """The elements along an axis combined, one after the other.

        Args:
          a: the array.
          axis: along which; None for all elements.
          dtype: of the result; by default that of the function.
          out: not supported.
          keepdims: the axis stays, with size 1.
          initial: a scalar to begin with; by default the identity, where there is one.
          where: a mask of the elements that count.

        Raises:
          ValueRangeError: the function has not two operands and one result; there are
            no elements, or there is a mask, and nothing to begin with.
        """
        name = self._binary("reduce", out)
        if where is not None and initial is None and self.identity is None:
            raise ValueRangeError(
                f"{name} has no identity, so that a mask needs initial="
            )
        known = self._methods.reduce
        if known is not None:
            return known(a, axis, dtype, out, keepdims, initial, where)
        x = ax.as_value(a)
        axes = ax.canonical_axes(axis, x.ndim, name)
        rest = [(i,) for i in range(x.ndim) if i not in axes]
        mask = reductions.check_where(name, where, x.shape)
        operands = [x] if mask is None else [x, mask]
        rows = [ax.merge_axes(v, axes, *rest) for v in operands]
        kind = self._result_type(x, dtype)
        start = self.identity if initial is None else initial
        fold = self._fold_halves if self._methods.any_order else self._fold
        result = fold(name, rows, kind, start)
        return ax.insert_axes(result, axes) if keepdims else result

    def _fold(self, name: str, rows: list[Any], kind: Any, start: Any) -> Any:
        """The rows of an array combined, from the first to the last."""
        if start is None:
            if not rows[0].shape[0]:
                raise ValueRangeError(f"{name}: no elements, and no identity")
            start, rows = getitem(rows[0], 0), [rows[0][1:]]
        total = ax.broadcast_to(ax.cast(start, kind), rows[0].shape[1:], name)

        def step(total: Any, row: list[Any]) -> tuple[Any, None]:
            x, *mask = row
            combined = ax.cast(self(total, ax.cast(x, kind)), kind)
            return (ax.choose(mask[0], combined, total) if mask else combined), None

        return backend().scan(step, total, rows)[0]

    def _fold_halves(self, name: str, rows: list[Any], kind: Any, start: Any) -> Any:
        """The rows combined in pairs, until one is left."""
        x, *mask = rows
        nothing = ax.cast(np.asarray(self.identity), kind)
        x = logic.truth(x) if kind == dtypes.bool_ else ax.cast(x, kind)
        if mask:
            x = ax.choose(mask[0], x, nothing)
        return backend().reduce(x, ax.cast(start, kind), self, (0,))

    def _result_type(self, x: Any, dtype: Dtype) -> Any:
        if dtype is not None:
            return dtypes.as_dtype(dtype)
        one = ax.full((), 1, x.dtype)
        return self(one, one).dtype

    def accumulate(
        self, a: Value, axis: int = 0, dtype: Dtype = None, out: None = None
    ) -> Any:
        """What `reduce` gives of the elements up to each one, along an axis.

        Raises:
          ValueRangeError: the function has not two operands and one result.
        """
        name = self._binary("accumulate", out)
        if self._methods.accumulate is not None:
            return self._methods.accumulate(a, axis, dtype)
        x, axis = ax.along(a, axis, name)
        kind = self._result_type(x, dtype)
        rows = ax.cast(ax.move_axis(x, axis, 0), kind)
        if not rows.shape[0]:
            return ax.cast(x, kind)

        def step(total: Any, row: Any) -> tuple[Any, Any]:
            combined = ax.cast(self(total, row), kind)
            return combined, combined

        rest = backend().scan(step, rows[0], rows[1:])[1]
        found = concatenate([rows[:1], rest])
        return ax.move_axis(found, 0, axis)

    def outer(self, A: Value, B: Value, /) -> Any:
        """The function of each element of A with each of B, in a shape of both.

        Raises:
          ValueRangeError: the function has not two operands and one result.
        """
        self._binary("outer")
        x, y = ax.as_value(A), ax.as_value(B)
        wide = ax.insert_axes(x, range(x.ndim, x.ndim + y.ndim))
        return self(wide, ax.insert_axes(y, range(x.ndim)))

    def at(
        self, a: Value, indices: Any, b: Value | None = None, /, *, inplace: bool = True
    ) -> Any:
        """A copy of `a` with f(a[i], b) at each index, also where one is repeated.

        Args:
          a: the array.
          indices: integers, slices, arrays, or a tuple of them.
          b: the second operand, of functions of two.
          inplace: must be False: arrays do not change.

        Raises:
          ImmutableError: `inplace` is not False.
        """
        name = f"{self.__name__}.at"
        if inplace:
            raise ImmutableError(
                f"{name}: arrays are immutable; write y = {name}(x, i, …, "
                "inplace=False)"
            )
        update = self._methods.update
        x = ax.as_value(a)
        operands = [] if b is None else [b]
        if update is not None and operands:
            return getattr(at_of(x)[indices], update)(b)
        numbers = ax.reshape(ax.iota(dtypes.int32, (x.size,), 0), x.shape)
        places = getitem(numbers, indices)
        if not ax.as_value(places).size:
            return x
        values = [ax.broadcast_to(v, places.shape, name) for v in operands]
        kind = self(*[ax.full((), 1, y.dtype) for y in (x, *values)]).dtype
        flat = ax.reshape(ax.cast(x, kind), (x.size,))
        rows = [ax.reshape(v, (places.size,)) for v in (places, *values)]

        def step(total: Any, row: Any) -> tuple[Any, None]:
            place, *rest = row
            return at_of(total)[place].set(self(getitem(total, place), *rest)), None

        return ax.reshape(backend().scan(step, flat, rows)[0], x.shape)

    def reduceat(
        self,
        a: Value,
        indices: Value,
        axis: int = 0,
        dtype: Dtype = None,
        out: None = None,
    ) -> Any:
        """What `reduce` gives of the parts that begin at the indices.

        Args:
          a: the array.
          indices: integers; part k ends where part k + 1 begins. Where that is not
            later, the part is one element.
          axis: along which.
          dtype: of the result; by default that of `a`.
          out: not supported.

        Raises:
          ShapeError: the indices are no vector.
          ValueRangeError: the function has not two operands and one result.
        """
        name = self._binary("reduceat", out)
        x, axis = ax.along(a, axis, name)
        starts = ax.integers(ax.vector(indices, f"{name}: the indices"), name)
        rows = ax.move_axis(x, axis, 0)
        rows = rows if dtype is None else ax.cast(rows, dtypes.as_dtype(dtype))
        if not starts.shape[0]:
            return ax.move_axis(rows[:0], 0, axis)
        size = ax.full((1,), rows.shape[0], starts.dtype)
        ends = concatenate([starts[1:], size])
        wide = (starts.shape[0], *[1] * (rows.ndim - 1))
        first, last = (ax.reshape(v, wide) for v in (starts, ends))

        def step(total: Any, row: Any) -> tuple[Any, None]:
            place, x = row
            counts = (place > first) & (place < last)
            x = ax.broadcast_to(x, total.shape)
            combined = ax.cast(self(total, x), total.dtype)
            return ax.choose(counts, combined, total), None

        places = ax.iota(starts.dtype, (rows.shape[0],), 0)
        found = backend().scan(step, getitem(rows, starts), (places, rows))[0]
        return ax.move_axis(found, 0, axis)


class PublishedUfunc(Eager, ufunc):
    """A function of `ftrace.numpy` with these methods; it is called as any other."""

    def __init__(
        self, function: Callable[..., Any], numbers: Collection[type[Any]], place: str
    ) -> None:
        Eager.__init__(self, function, numbers, place)
        self._keep(METHODS[self.__name__], self.behind)


def frompyfunc(
    func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None
) -> ufunc:
    """A function of scalars as a function of arrays, with the methods of `ufunc`.

    Args:
      func: of `nin` scalars; it returns `nout` of them, in a tuple if they are several.
      nin, nout: how many.
      identity: what changes nothing as an operand, for reductions.

    Returns:
      A `ufunc`.

    Example:
      >>> f = fnp.frompyfunc(lambda x, y: x * y + 1, 2, 1)
      >>> f(fnp.array([1, 2]), 3)
      Array([4, 7], dtype=int32)
      >>> f.reduce(fnp.array([2, 3, 4]))
      Array(29, dtype=int32)
    """
    return ufunc(func, nin, nout, identity=identity)

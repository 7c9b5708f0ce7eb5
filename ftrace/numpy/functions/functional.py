"""Functions of slices, of elements and of places where something holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import wraps
from math import prod
from typing import Any

from ftrace import dtypes
from ftrace.errors import ArgumentError, ShapeError, ValueRangeError
from ftrace.numpy import axes as ax
from ftrace.numpy.creation import asarray
from ftrace.trace.arrays.array import surface
from ftrace.trace.avals import Shape
from ftrace.trace.bind import broadcast_shapes
from ftrace.trace.eager.checked_calls import check_ranks
from ftrace.trace.eager.dispatch import owning
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.tracer import Value, aval_of

__all__ = [
    "apply_along_axis", "apply_over_axes", "piecewise", "select", "vectorize",
]  # fmt: skip

# `vmap` stands above this floor; it enters itself into the table of the surface.


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: Value, *args: Any, **kwargs: Any
) -> Any:
    """`func1d(vector, *args, **kwargs)` of every vector along an axis."""
    tree.check_callable(func1d, "apply_along_axis")
    x, axis = ax.along(arr, axis, "apply_along_axis")
    lanes = ax.move_axis(x, axis, x.ndim - 1)
    outer = lanes.shape[:-1]
    flat = ax.reshape(lanes, (prod(outer), lanes.shape[-1]))

    def lane(vector: Any) -> Any:
        return func1d(vector, *args, **kwargs)

    results = surface["vmap"](lane)(flat)

    def placed(result: Any) -> Any:
        inner = result.ndim - 1
        result = ax.reshape(result, (*outer, *result.shape[1:]))
        for i in range(inner):  # the axes of one result stand where the axis was
            result = ax.move_axis(result, len(outer) + i, axis + i)
        return result

    return tree.map(placed, results)


def apply_over_axes(
    func: Callable[[Any, int], Any], a: Value, axes: int | Sequence[int]
) -> Any:
    """`func(a, axis)` over one axis after the other; axes it drops stay with size 1.

    Raises:
      ShapeError: `func` changes the number of axes by more than one.
    """
    tree.check_callable(func, "apply_over_axes")
    x = ax.as_value(a)
    places: Any = axes if ax.is_sequence(axes) else (axes,)
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

    Raises:
      ValueRangeError: the lists differ in length, or are empty.
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

    Raises:
      ValueRangeError: the lists do not fit.
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
    dtype = dtypes.settled(x.dtype, x.weak_type)
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

    Args:
      pyfunc: the function.
      excluded: positions and names of arguments that are passed as they are.
      signature: core shapes such as "(m,n),(n)->(m)"; without one all are scalars.

    Arguments that are None are passed as they are, too.

    Raises:
      ValueRangeError: the signature cannot be read, or an excluded position is
        negative.
      ArgumentError: what is excluded is neither a position nor a name.
      ShapeError: the arguments do not fit the signature.
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
    def mapped(*args: Any, **kwargs: Any) -> Any:
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

    return owning(mapped)


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

    def mapped(*values: Any) -> Any:
        ready = [
            ax.reshape(v, v.shape[1:]) if axis is None else v
            for v, axis in zip(values, axes, strict=True)
        ]
        if all(axis is None for axis in axes):
            return function(*ready)
        return surface["vmap"](function, axes, 0)(*ready)

    return mapped


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

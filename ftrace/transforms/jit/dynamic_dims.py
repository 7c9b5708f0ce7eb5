"""`jit(f, dynamic=...)`: which axes of which arguments have sizes known at calls only.

    dynamic = {argument: spec, …}            by name or position
    spec    = {axis: "batch" or Dim, …}      for all arrays of the argument
            | a prefix of the argument's pytree, with such dicts and None at its leaves

A call gives each named dimension one size. Sizes 0 and 1 are compiled apart, as if the
axis were not dynamic: an axis of size 1 broadcasts, and one of size 0 has no elements.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ftrace.errors import ArgumentError, AxisError, ShapeError, ValueRangeError
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.trace.avals import ShapedArray
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic.dim import Dim, same_size, symbol_of
from ftrace.trace.symbolic.polynomial import Symbol
from ftrace.transforms.flatten_arguments import name_of

# What `isinstance` is asked for, so that the entries stay untyped.
_MAPPING: tuple[type[Any], ...] = (Mapping,)
_SEQUENCE: tuple[type[Any], ...] = (tuple, list)

#: Sizes below this are compiled apart.
_LEAST = 2
#: Types of arguments that are remembered.
_KEPT = 1024


class _Leaf:
    """The dynamic axes of arrays, as a leaf of a prefix tree."""

    def __init__(self, axes: dict[int, Symbol]) -> None:
        self.axes = axes


class Resolved(NamedTuple):
    """The types of the arguments of one call, and the sizes that they leave open."""

    types: tuple[ShapedArray, ...]
    sizes: dict[str, int] | None


class Dynamic:
    """The checked value of `dynamic=`.

    Args:
      fun: the function that is compiled.
      given: the value.

    Attributes:
      given: the same.

    Raises:
      ArgumentError: it is malformed, or names what is no argument.
      ValueRangeError: a name is given two ranges.
    """

    def __init__(self, fun: Callable[..., Any], given: Any) -> None:
        self.given = given
        self._fun = fun
        self._symbols: dict[str, Symbol] = {}
        self._resolved: dict[Any, Resolved] = {}
        if not isinstance(given, _MAPPING):
            raise ArgumentError(
                "jit: dynamic must be a dict {argument: {axis: name}}, as in "
                f'dynamic={{"x": {{0: "batch"}}}}, got {given!r}'
            )
        self._names = _positional_names(fun)
        self._specs: dict[str, Any] = {}
        for key, spec in given.items():
            self._specs[self._argument(key)] = self._checked(spec, key)

    def _argument(self, key: Any) -> str:
        names, known = self._names
        if isinstance(key, int) and -len(names) <= key < len(names):
            return names[key]
        if isinstance(key, str) and (known is None or key in known):
            return key
        listed = ", ".join(sorted(known or ()))
        raise ArgumentError(
            f"jit: dynamic names the argument {key!r}, but {name_of(self._fun)} takes "
            f"{listed}"
        )

    def _checked(self, spec: Any, key: Any) -> Any:
        """The spec with `_Leaf` in the place of each dict of axes."""
        if spec is None:
            return None
        if isinstance(spec, _MAPPING):
            if all(isinstance(axis, int) for axis in spec):
                return _Leaf({a: self._symbol(d) for a, d in spec.items()})
            return {k: self._checked(part, key) for k, part in spec.items()}
        if isinstance(spec, _SEQUENCE):
            parts: list[Any] = [self._checked(part, key) for part in spec]
            return parts if isinstance(spec, list) else tuple(parts)
        raise ArgumentError(
            f"jit: dynamic[{key!r}] must hold dicts {{axis: name}}, or None for what "
            f"is not dynamic, got {spec!r}"
        )

    def _symbol(self, given: Any) -> Symbol:
        dim = Dim(given) if isinstance(given, str) else given
        if type(dim) is not Dim or dim != _named(dim):
            raise ArgumentError(
                "jit: a dynamic dimension is given by its name or as ftrace.Dim(name, "
                f"min=…, max=…), got {given!r}"
            )
        symbol = symbol_of(dim)
        known = self._symbols.setdefault(symbol.name, symbol)
        if known != symbol:
            if isinstance(given, str):  # the name alone: the range stands elsewhere
                return known
            if known == symbol_of(Dim(symbol.name)):
                self._symbols[symbol.name] = symbol
                return symbol
            raise ValueRangeError(
                f"jit: the dimension {symbol.name!r} is given two ranges, "
                f"{known.min}..{known.max} and {symbol.min}..{symbol.max}"
            )
        return symbol

    def resolve(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        treedef: Any,
        traced: Any,
        static: tuple[tuple[int, ...], frozenset[str]],
        types: Sequence[ShapedArray],
    ) -> Resolved:
        """The types with dynamic dimensions in them, and the sizes of these.

        Args:
          args, kwargs: of the call.
          treedef, traced: the arguments that are traced, and their structure.
          static: positions and names of the others.
          types: of the leaves.

        Raises:
          AxisError: an array has no such axis.
          ShapeError: a name is given two sizes.
          ValueRangeError: a size is out of its range.
        """
        key = (treedef, tuple(types))
        found = self._resolved.get(key)
        if found is None:
            leaves = self._flat(args, kwargs, traced, static)
            found = self._resolve(leaves, types)
            if len(self._resolved) >= _KEPT:
                self._resolved.clear()
            self._resolved[key] = found
        return found

    def _resolve(
        self, leaves: Sequence[_Leaf | None], types: Sequence[ShapedArray]
    ) -> Resolved:
        sizes: dict[str, int] = {}
        found = list(types)
        for number, leaf in enumerate(leaves):
            if leaf is not None:
                self._measure(leaf, types[number], sizes)
        dims = {
            name: Dim(
                name, max(self._symbols[name].min, _LEAST), self._symbols[name].max
            )
            for name, size in sizes.items()
            if size >= _LEAST
        }
        for number, leaf in enumerate(leaves):
            if leaf is None:
                continue
            shape: list[int] = list(types[number].shape)
            for axis, symbol in leaf.axes.items():
                shape[axis] = dims.get(symbol.name, shape[axis])
            found[number] = types[number].with_shape(tuple(shape))
        open_sizes = {name: sizes[name] for name in dims}
        return Resolved(tuple(found), open_sizes or None)

    def _flat(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        traced: Any,
        static: tuple[tuple[int, ...], frozenset[str]],
    ) -> list[_Leaf | None]:
        """The dynamic axes of each leaf."""
        positions, names = static
        known = self._names[0]
        by_position = [
            self._specs.get(known[i]) if i < len(known) else None
            for i in range(len(args))
            if i not in positions
        ]
        by_name = {k: self._specs.get(k) for k in kwargs if k not in names}
        return tree.broadcast_prefix(
            (tuple(by_position), by_name), traced, "jit: dynamic"
        )

    def _measure(self, leaf: _Leaf, aval: ShapedArray, sizes: dict[str, int]) -> None:
        for axis, symbol in leaf.axes.items():
            if not -aval.ndim <= axis < aval.ndim:
                raise AxisError(
                    f"jit: dynamic names axis {axis} of an argument of "
                    f"{name_of(self._fun)} of type {aval!r}, which has {aval.ndim}"
                )
            symbol = self._symbols[symbol.name]
            size = aval.shape[axis]
            if not same_size(sizes.setdefault(symbol.name, size), size):
                raise ShapeError(
                    f"jit: the dynamic dimension {symbol.name!r} of "
                    f"{name_of(self._fun)} has size {sizes[symbol.name]} in one "
                    f"argument and {size} in another; give them different names in "
                    "`dynamic` if they may differ"
                )
            if not symbol.min <= size <= symbol.max:
                raise ValueRangeError(
                    f"jit: the dynamic dimension {symbol.name!r} of "
                    f"{name_of(self._fun)} was given the range "
                    f"{symbol.min}..{symbol.max}, and got the size {size}; widen the "
                    "range of its ftrace.Dim"
                )


def _named(dim: Dim) -> Any:
    """The named dimension with the first name in `dim`."""
    try:
        symbol = symbol_of(dim)
        return Dim(*symbol)
    except (TypeError, ValueError):
        return None


def _positional_names(
    fun: Callable[..., Any],
) -> tuple[list[str], frozenset[str] | None]:
    """The names of positional parameters; and all names, None for any name."""
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return [], None
    positional = [
        p.name
        for p in parameters
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return positional, None
    return positional, frozenset(p.name for p in parameters)

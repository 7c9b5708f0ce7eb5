"""Which arguments of a jitted function are what: static, given up, of dynamic sizes.

`jit` is told by position and by name; each gives the other where the signature of the
function tells. A call is cut in two: the arguments that are traced, and a hashable key
of those that are static.

    f(x, 3, mode="a")   ->   ((x,), {}), (2, ((1, int, 3), ("mode", str, "a")))

`jit(f, dynamic=...)` says which axes of which arguments have sizes known at calls only:

    dynamic = {argument: spec, …}            by name or position
    spec    = {axis: "batch" or Dim, …}      for all arrays of the argument
            | a prefix of the argument's pytree, with such dicts and None at its leaves

A call gives each named dimension one size. Sizes 0 and 1 are compiled apart, as if the
axis were not dynamic: an axis of size 1 broadcasts, and one of size 0 has no elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ftrace import errors
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.trace.avals import ShapedArray
from ftrace.trace.flatten_arguments import Parameters, name_of, read_argnums
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic import Dim, Symbol, same_size, symbol_of
from ftrace.trace.tracing.tracer import Tracer, unbound_variable

# What `isinstance` is asked for, so that the entries stay untyped.
_MAPPING: tuple[type[Any], ...] = (Mapping,)


#: Sizes below this are compiled apart.
_LEAST_OPEN = 2


class Chosen(NamedTuple):
    """Some arguments of a function, by position and by name.

    Attributes:
      numbers: negative ones count from the last argument of a call, where the
        function takes any number of them.
    """

    numbers: tuple[int, ...] = ()
    names: frozenset[str] = frozenset()

    def positions(self, count: int) -> tuple[int, ...]:
        """Those of a call with so many positional arguments."""
        found = {n + count if n < 0 else n for n in self.numbers}
        return tuple(sorted([n for n in found if 0 <= n < count]))


def choose(fun: Any, kind: str, argnums: Any, argnames: Any) -> Chosen:
    """The arguments that `jit` is told of.

    The name of a number is looked up, and the number of a name, unless both are given:
    then they are what they say, and may disagree.

    Args:
      fun: the function.
      kind: "static" or "donate", for messages.
      argnums, argnames: as `jit` takes them.

    Raises:
      StaticArgumentError: the function has no such argument, or does not tell which
        it has, where one is given up by name alone.
    """
    both = argnums is not None and argnames is not None
    argnums = () if argnums is None else argnums
    numbers = list(read_argnums("jit", f"{kind}_argnums", argnums))
    names = [argnames] if isinstance(argnames, str) else list(argnames or ())
    if not numbers and not names:
        return Chosen()
    positional, known, variadic, open_names, seen, nameless = Parameters.of(fun)
    if not seen:
        if kind == "donate" and names and not numbers:  # given by position it is kept
            raise errors.StaticArgumentError(
                f"jit: Getting the signature of function {name_of(fun)} failed. Pass "
                "donate_argnums instead of donate_argnames."
            )
        return Chosen(tuple(numbers), frozenset(names))
    for name in names:
        if name in nameless or (name not in known and not open_names):
            raise errors.StaticArgumentError(
                f"jit: {kind}_argnames names {name!r}, but {name_of(fun)} takes by "
                f"name {', '.join(sorted(known - nameless))}"
            )
    for number in numbers:
        if not variadic and not -len(positional) <= number < len(positional):
            raise errors.StaticArgumentError(
                f"jit: {kind}_argnums has {number}, but {name_of(fun)} takes "
                f"{len(positional)} positional arguments"
            )
    if not variadic:
        numbers = [n % len(positional) for n in numbers]
    if not both:
        named = [positional[n] for n in numbers if 0 <= n < len(positional)]
        numbers += [positional.index(n) for n in names if n in positional]
        names += named
    return Chosen(tuple(sorted({*numbers})), frozenset(names))


def check_disjoint(fun: Any, static: Chosen, donated: Chosen) -> None:
    """Raises if an argument is static and donated: it is no array to be given up."""
    both = [*{*static.numbers} & {*donated.numbers}, *static.names & donated.names]
    if both:
        raise errors.StaticArgumentError(
            f"jit: the argument {both[-1]!r} of {name_of(fun)} is named as static and "
            "as donated; only an array can be donated, so drop one of the two"
        )


def _as_number(x: Any) -> Any:
    """The number that stands for all instances of a `vmap`; others as they are."""
    if type(x) is not Tracer or x.shape or not (x.weak_type or x.dtype == bool):
        return x
    known = x.dtype.kind in "bi" and unbound_variable(x.node) is None
    return x.item() if known else x


def split(
    fun: Any, static: Chosen, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Any, Any]:
    """The arguments that are traced, and the static ones as a key: None without any.

    Raises:
      StaticArgumentError: a static argument cannot be hashed.
    """
    if not any(static):
        return (args, kwargs), None
    fixed = [(i, _as_number(args[i])) for i in static.positions(len(args))]
    named = [(n, _as_number(kwargs[n])) for n in sorted(static.names) if n in kwargs]
    for name, value in (*fixed, *named):
        try:
            hash(value)
        except TypeError:
            raise errors.StaticArgumentError(
                f"jit: the static argument {name!r} of {name_of(fun)} must "
                f"be hashable, got {type(value).__name__}; pass a tuple instead of "
                f"a list, or do not make it static"
            ) from None
    positions = {i for i, _ in fixed}
    rest = tuple(x for i, x in enumerate(args) if i not in positions)
    others = {k: v for k, v in kwargs.items() if k not in static.names}
    typed = tuple((k, v.__class__, v) for k, v in (*fixed, *named))
    return (rest, others), (len(args), typed)


def join(traced: Any, key: Any) -> tuple[list[Any], dict[str, Any]]:
    """The inverse of `split`."""
    rest, others = traced
    if key is None:
        return list(rest), dict(others)
    count, typed = key
    fixed = {k: v for k, _, v in typed if isinstance(k, int)}
    named = {k: v for k, _, v in typed if isinstance(k, str)}
    remaining = iter(rest)
    args = [fixed[i] if i in fixed else next(remaining) for i in range(count)]
    return args, {**others, **named}


def leaves_of(donated: Chosen, traced: Any, key: Any) -> tuple[int, ...]:
    """The positions, among the leaves that are traced, of those of some arguments."""
    if not any(donated):
        return ()
    args, kwargs = traced
    count = len(args) if key is None else key[0]
    fixed = {k for k, _, _ in key[1]} if key is not None else set[Any]()
    given_up = donated.positions(count)
    flags = [i in given_up for i in range(count) if i not in fixed]
    marks = [
        *(
            tree.map(lambda _, f=flag: f, arg)
            for arg, flag in zip(args, flags, strict=True)
        ),
        {k: tree.map(lambda _, f=k in donated.names: f, v) for k, v in kwargs.items()},
    ]
    return tuple(i for i, flag in enumerate(tree.leaves(marks)) if flag)


# Dynamic sizes.


class _Leaf:
    """The dynamic axes of arrays, as a leaf of a prefix tree."""

    def __init__(self, axes: dict[int, Symbol]) -> None:
        self.axes = axes


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
        if not isinstance(given, _MAPPING):
            raise errors.ArgumentError(
                "jit: dynamic must be a dict {argument: {axis: name}}, as in "
                f'dynamic={{"x": {{0: "batch"}}}}, got {given!r}'
            )
        self._parameters = Parameters.of(fun)
        self._specs: dict[str, Any] = {}
        for key, spec in given.items():
            self._specs[self._argument(key)] = self._check_spec(spec, key)

    def __reduce__(self) -> tuple[Any, ...]:
        return Dynamic, (self._fun, self.given)

    def _argument(self, key: Any) -> str:
        names, known, _, open_names, *_ = self._parameters
        if isinstance(key, int) and -len(names) <= key < len(names):
            return names[key]
        if isinstance(key, str) and (open_names or key in known):
            return key
        listed = "" if open_names else ", ".join(sorted(known))
        raise errors.ArgumentError(
            f"jit: dynamic names the argument {key!r}, but {name_of(self._fun)} takes "
            f"{listed}"
        )

    def _check_spec(self, spec: Any, key: Any) -> Any:
        """The spec with `_Leaf` in the place of each dict of axes."""
        if spec is None:
            return None
        if isinstance(spec, _MAPPING):
            if all(isinstance(axis, int) for axis in spec):
                return _Leaf({a: self._symbol(d) for a, d in spec.items()})
            return {k: self._check_spec(part, key) for k, part in spec.items()}
        if isinstance(spec, tree.SEQUENCES):
            parts: list[Any] = [self._check_spec(part, key) for part in spec]
            return parts if isinstance(spec, list) else tuple(parts)
        raise errors.ArgumentError(
            f"jit: dynamic[{key!r}] must hold dicts {{axis: name}}, or None for what "
            f"is not dynamic, got {spec!r}"
        )

    def _symbol(self, given: Any) -> Symbol:
        dim = Dim(given) if isinstance(given, str) else given
        if type(dim) is not Dim or dim != _find_named(dim):
            raise errors.ArgumentError(
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
            raise errors.ValueRangeError(
                f"jit: the dimension {symbol.name!r} is given two ranges, "
                f"{known.min}..{known.max} and {symbol.min}..{symbol.max}"
            )
        return symbol

    def resolve(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        traced: Any,
        static: Chosen,
        types: Sequence[ShapedArray],
    ) -> tuple[tuple[ShapedArray, ...], dict[str, int]]:
        """The types with dynamic dimensions in them, and the sizes of these.

        Args:
          args, kwargs: of the call.
          traced: the arguments that are traced.
          static: which the others are.
          types: of the leaves.

        Raises:
          AxisError: an array has no such axis.
          ShapeError: a name is given two sizes.
          ValueRangeError: a size is out of its range.
        """
        leaves = self._flatten(args, kwargs, traced, static)
        sizes: dict[str, int] = {}
        found = list(types)
        for number, leaf in enumerate(leaves):
            if leaf is not None:
                self._measure(leaf, types[number], sizes)
        dims = {
            name: Dim(
                name, max(self._symbols[name].min, _LEAST_OPEN), self._symbols[name].max
            )
            for name, size in sizes.items()
            if size >= _LEAST_OPEN
        }
        for number, leaf in enumerate(leaves):
            if leaf is None:
                continue
            shape: list[int] = list(types[number].shape)
            for axis, symbol in leaf.axes.items():
                shape[axis] = dims.get(symbol.name, shape[axis])
            found[number] = types[number].with_shape(tuple(shape))
        return tuple(found), {name: sizes[name] for name in dims}

    def _flatten(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        traced: Any,
        static: Chosen,
    ) -> list[_Leaf | None]:
        """The dynamic axes of each leaf."""
        positions, names = static.positions(len(args)), static.names
        known = self._parameters.positional
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
                raise errors.AxisError(
                    f"jit: dynamic names axis {axis} of an argument of "
                    f"{name_of(self._fun)} of type {aval!r}, which has {aval.ndim}"
                )
            symbol = self._symbols[symbol.name]
            size = aval.shape[axis]
            if not same_size(sizes.setdefault(symbol.name, size), size):
                raise errors.ShapeError(
                    f"jit: the dynamic dimension {symbol.name!r} of "
                    f"{name_of(self._fun)} has size {sizes[symbol.name]} in one "
                    f"argument and {size} in another; give them different names in "
                    "`dynamic` if they may differ"
                )
            if not symbol.min <= size <= symbol.max:
                raise errors.ValueRangeError(
                    f"jit: the dynamic dimension {symbol.name!r} of "
                    f"{name_of(self._fun)} was given the range "
                    f"{symbol.min}..{symbol.max}, and got the size {size}; widen the "
                    "range of its ftrace.Dim"
                )


def _find_named(dim: Dim) -> Any:
    """The named dimension with the first name in `dim`."""
    try:
        symbol = symbol_of(dim)
        return Dim(*symbol)
    except (TypeError, ValueError):
        return None

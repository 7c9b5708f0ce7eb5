"""The border to user functions: arguments and results as flat lists of values.

Functions of ours that stand for a user's are pickled and copied as Python's are. One
that stands in a module under its name, as `@ft.jit def step(x)` does, goes by that
name; another one, as `self.step = ft.jit(step)`, by what it is made of.
"""

from __future__ import annotations

import inspect
import operator
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import WRAPPER_ASSIGNMENTS, partial, update_wrapper
from operator import attrgetter
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from ftrace import dtypes
from ftrace.errors import ArgumentError
from ftrace.ground.fast_dataclasses import Immutable, NamedTuple
from ftrace.trace.avals import ShapedArray
from ftrace.trace.pytree import tree
from ftrace.trace.pytree.tree import TreeDef
from ftrace.trace.references import Frame, Ref, running
from ftrace.trace.tracing.tracer import Value, aval_of, is_value, stack

#: The parameters of a function, and what it returns: what is made of it keeps them.
P = ParamSpec("P")
R = TypeVar("R")
#: What it returns beside its result.
A = TypeVar("A")
C = TypeVar("C", bound=Callable[..., Any])


class _NotGiven:
    def __repr__(self) -> str:
        return "<not given>"


#: The default of an argument that may be None, or anything else.
NOT_GIVEN: Any = _NotGiven()
_NUMBERS = (bool, int, float, complex)
_getframe: Callable[[int], FrameType] = sys._getframe  # pyright: ignore[reportPrivateUsage]


def name_of(function: Any) -> str:
    name = getattr(function, "__name__", None)
    return name if isinstance(name, str) else type(function).__name__


def display_name(function: Any) -> str:
    """What people call a function: loss, Net.step, grad of loss.

    Its `__name__` is that of the innermost one, as with JAX.
    """
    transforms: list[str] = []
    while hasattr(function, "__wrapped__"):
        name, code = getattr(function, "__dict__", {}).get(_TRANSFORM, ("", None))
        if code is not None and code is getattr(function, "__code__", None):
            transforms.append(name)
        function = function.__wrapped__
    name = name_of(function)
    whole = f"{getattr(function, '__qualname__', '')}".rpartition("<locals>.")[2]
    own = whole if whole.rpartition(".")[2] == name else name
    return " of ".join([*transforms, own])


#: Values that are looked at to find what a function closes over.
_MOST_LOOKED_AT = 5000


def names_of_captured(function: Any, values: Sequence[Any]) -> list[str]:
    """What a function calls values that it closes over: w, self.w, params['w'].

    Those that are found in its cells, in the globals that its code names, or in what
    they hold; the others are "captured 0".
    """
    wanted = {_identity_of(value): i for i, value in enumerate(values)}
    names = [f"captured {i}" for i in range(len(values))]
    pending, seen = [("", inspect.unwrap(function))], set[int]()
    for name, value in pending:  # which grows
        if not wanted or len(pending) > _MOST_LOOKED_AT:
            break
        with suppress(Exception):  # of attributes of any object, which may be code
            if (place := _identity_of(value)) in wanted:
                names[wanted.pop(place)] = name
            elif id(value) not in seen:
                seen.add(id(value))
                pending += _held_by(name, value)
    return names


def _identity_of(value: Any) -> tuple[str, int]:
    """What a value has in common with its views: of a matrix products capture one."""
    host = getattr(value, "_host", value)
    if isinstance(host, np.ndarray):
        return "memory", host.__array_interface__["data"][0]
    return "value", id(value)


def _held_by(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """What a value holds, with the names by which code reaches it."""
    if isinstance(value, dict):
        known = cast(dict[Any, Any], value)
        yield from ((f"{name}[{key!r}]", one) for key, one in known.items())
    elif isinstance(value, (list, tuple)):
        members = cast(Sequence[Any], value)
        yield from ((f"{name}[{i}]", one) for i, one in enumerate(members))
    elif isinstance(value, MethodType):
        yield from (("self", value.__self__), ("", value.__func__))
    elif isinstance(value, partial):
        yield "", cast(Any, value).func
    elif isinstance(value, FunctionType):
        code = [value.__code__]
        for each in code:
            code += [c for c in each.co_consts if isinstance(c, CodeType)]
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        for free, cell in cells:
            with suppress(ValueError):  # it is empty
                yield free, cell.cell_contents
        for used in dict.fromkeys(n for each in code for n in each.co_names):
            if used in value.__globals__:
                yield used, value.__globals__[used]
    elif not isinstance(value, (ModuleType, type)) and not hasattr(value, "dtype"):
        own = getattr(value, "__dict__", {})
        yield from ((f"{name}.{key}" if name else key, x) for key, x in own.items())


#: The attribute that tells which transform a function is of. It has its code, too: what
#: stands around it may have copied its attributes.
_TRANSFORM = "__ftrace_transform__"


def wraps(function: Any, transform: str = "") -> Callable[[Any], Any]:
    """`functools.wraps`, of any callable: of its names and notes what can be set.

    Args:
      transform: what the wrapper is of `function`, for `display_name`: "grad".
    """

    def dress(wrapper: Any) -> Any:
        for name in WRAPPER_ASSIGNMENTS:
            with suppress(AttributeError, TypeError):
                setattr(wrapper, name, getattr(function, name))
        update_wrapper(wrapper, function, ())
        if transform:
            setattr(wrapper, _TRANSFORM, (transform, wrapper.__code__))
        return wrapper

    return dress


def flatten_values(value: Any, what: str) -> tuple[list[Value], TreeDef]:
    """The leaves of a tree all of which are arrays or numbers.

    Raises:
      ArgumentError: a leaf is something else; the message names its place.
    """
    leaves, treedef = tree.flatten(value)
    for leaf in leaves:
        if not is_value(leaf):
            for path, found in tree.leaves_with_path(value):
                if found is leaf:
                    place = f"{what}{tree.keystr(path)}".rstrip()
                    raise ArgumentError(f"{place} {_wrong(leaf)}")
    return leaves, treedef


def _wrong(leaf: Any) -> str:
    return f"must be an array or a number, got {type(leaf).__name__}: {leaf!r:.60}"


def check_arguments(
    fun: Any, args: Sequence[Any], kwargs: dict[str, Any], static: Collection[Any]
) -> None:
    """Raises if an argument of a jitted function holds no array and no number.

    Args:
      static: positions and names of those that are static.

    Raises:
      ArgumentError: names the parameter, and says how it can be static.
    """
    names = [*Parameters.of(fun).positional, *[""] * len(args)]
    given = [*zip(range(len(args)), args, strict=True), *kwargs.items()]
    for place, value in given:
        if place in static:
            continue
        for path, leaf in tree.leaves_with_path(value):
            if is_value(leaf):
                continue
            name = place if isinstance(place, str) else names[place]
            argument = f"{name!r}{tree.keystr(path)}" if name else f"{place}"
            ways = [f"static_argnums={place}"] if isinstance(place, int) else []
            ways += [f"static_argnames={name!r}"] if name else []
            advice = " or ".join(f"jit(…, {way})" for way in ways)
            raise ArgumentError(
                f"jit: the argument {argument} of {name_of(fun)} {_wrong(leaf)}; for a "
                f"Python value write {advice}"
            ) from None


class Parameters(NamedTuple):
    """The parameters of a function, as far as they can be seen.

    Attributes:
      positional: the names of those that may be given by position.
      names: all names.
      variadic: it takes any number of arguments.
      open_names: it takes arguments of any name.
      seen: it has a signature.
      nameless: the names of those that cannot be given by name.
    """

    positional: list[str]
    names: frozenset[str]
    variadic: bool = True
    open_names: bool = True
    seen: bool = True
    nameless: frozenset[str] = frozenset()

    @staticmethod
    def of(fun: Any) -> Parameters:
        try:
            found = list(inspect.signature(fun).parameters.values())
        except (TypeError, ValueError):
            return Parameters([], frozenset(), seen=False)
        by_position = (
            inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
        )
        return Parameters(
            [p.name for p in found if p.kind in by_position],
            frozenset(p.name for p in found),
            any(p.kind is p.VAR_POSITIONAL for p in found),
            any(p.kind is p.VAR_KEYWORD for p in found),
            nameless=frozenset(
                p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)
            ),
        )


def read_argnums(transform: str, name: str, value: Any) -> tuple[int, ...]:
    """Positions of arguments as users write them: an int, or several.

    Args:
      transform, name: for messages: "jit", "static_argnums".

    Raises:
      ArgumentError: there is something else.
    """
    try:
        listed: Any = (value,) if is_int(value) else value
        return tuple([operator.index(i) for i in listed])
    except TypeError:
        raise ArgumentError(
            f"{transform}: {name} must be an int or a tuple of ints, got {value!r:.60}"
        ) from None


def is_int(value: Any) -> bool:
    """Does Python take it as an index?"""
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


class Argnums:
    """The arguments that a derivative is taken for.

    Attributes:
      numbers: their positions; negative ones count from the last argument.
      single: one was given as an int: the derivative is no tuple.

    Raises:
      ArgumentError: there are none, or no ints, or one of them twice.
    """

    def __init__(self, transform: str, argnums: Any) -> None:
        self.transform = transform
        self.numbers = read_argnums(transform, "argnums", argnums)
        self.single = is_int(argnums)
        if not self.numbers:
            raise ArgumentError(
                f"{transform}: argnums must name an argument to differentiate, got "
                f"{argnums!r:.60}"
            )
        self._check_unequal(self.numbers)

    def positions(self, args: Sequence[Any]) -> list[int]:
        """The same for these arguments, none of them negative.

        Raises:
          ArgumentError: there are not so many, or one is named twice.
        """
        for number in self.numbers:
            if not -len(args) <= number < len(args):
                raise ArgumentError(
                    f"{self.transform}: argnums={self} needs at least "
                    f"{number + 1 if number >= 0 else -number} positional arguments, "
                    f"got {len(args)}"
                )
        positions = [number % len(args) for number in self.numbers]
        self._check_unequal(positions)
        return positions

    def _check_unequal(self, numbers: Sequence[int]) -> None:
        if len({*numbers}) < len(numbers):
            raise ArgumentError(
                f"{self.transform}: argnums={self} names an argument twice; name each "
                "once, and take its part of the result as often as needed"
            )

    def __repr__(self) -> str:
        return repr(self.numbers[0] if self.single else self.numbers)


def decorator(transform: C) -> C:
    """A transform that, given options alone, waits for its function."""

    def wait(fun: Any = None, /, **options: Any) -> Any:
        if fun is not None:
            return transform(fun, **options)
        inspect.signature(transform).bind(**options)  # raises for what is none
        return partial(wait, **options)

    return cast(C, update_wrapper(wait, transform))


def put(values: Iterable[Any], places: Iterable[int], found: Iterable[Any]) -> Any:
    """A list of the values, but these in their places."""
    full = list(values)
    for place, value in zip(places, found, strict=True):
        full[place] = value
    return full


def of_arguments(
    fun: Callable[..., Any], argnums: Argnums, args: Sequence[Any], kwargs: Any
) -> tuple[list[Value], TreeDef, Callable[..., Any]]:
    """The chosen arguments as flat values, and `fun` as a function of these."""
    positions = argnums.positions(args)
    chosen = tuple(args[i] for i in positions)
    what = f"{argnums.transform}: the argument "
    values, treedef = flatten_values(chosen, what)
    fixed = [x for i, x in enumerate(args) if i not in positions] + [*kwargs.values()]

    def call(*flat: Value) -> Any:
        if fixed and stack.scopes:
            stack.scopes[-1].fixed = fixed
        return fun(*put(args, positions, tree.unflatten(treedef, flat)), **kwargs)

    call.__name__ = name_of(fun)
    return values, treedef, call


class Output:
    """Calls a function and remembers the structure of what it returned.

    Attributes:
      treedef: the structure of the result, known after the call.
      aux: the second part of the result under `has_aux`: leaves that are not arrays
        are kept as they are; the others are outputs of the graph.
      reads: references from around it that it has read, and what they held.
      numbers: Python's numbers among the values, the first of them those of the result.
    """

    def __init__(
        self, function: Callable[..., Any], transform: str, has_aux: bool
    ) -> None:
        self.function = function
        self.transform = transform
        self.has_aux = has_aux
        self.treedef: TreeDef | None = None
        self.aux_treedef: TreeDef | None = None
        self.aux_static: list[Any] = []
        self.count = 0
        self.numbers: dict[int, Any] = {}
        self.reads: dict[Ref, Value] = {}

    @staticmethod
    def of_leaves(
        fun: Callable[..., Any],
        treedef: TreeDef,
        transform: str,
        has_aux: bool = False,
        keywords: bool = False,
    ) -> Output:
        """A function as one of the leaves of its arguments; of what follows it not.

        Args:
          treedef: of the tuple of its arguments; with `keywords` of (args, kwargs).
        """
        count = treedef.num_leaves

        def call(*leaves: Value) -> Any:
            given = tree.unflatten(treedef, leaves[:count])
            return fun(*given[0], **given[1]) if keywords else fun(*given)

        call.__name__ = name_of(fun)
        return Output(call, transform, has_aux)

    def forget(self) -> None:
        """Lets go of the function, which need not be called again."""
        self.function = tuple

    def __call__(self, *args: Any, **kwargs: Any) -> list[Value]:
        """The values of the result, then those of aux."""
        with running(self.transform) as frame:
            result = self.function(*args, **kwargs)
        self.reads = frame.touched if isinstance(frame, Frame) else {}
        aux_values: list[Value] = []
        if self.has_aux:
            if not isinstance(result, tree.SEQUENCES) or len(result) != 2:
                raise ArgumentError(
                    f"{self.transform} with has_aux=True: {name_of(self.function)} "
                    f"must return a pair (output, aux), got {type(result).__name__}"
                )
            result, aux = result
            leaves, self.aux_treedef = tree.flatten(aux)
            self.aux_static = [None if is_value(x) else (x,) for x in leaves]
            aux_values = [x for x in leaves if is_value(x)]
        values = self.accept(result) + aux_values
        self.numbers = {i: x for i, x in enumerate(values) if type(x) in _NUMBERS}
        return values

    def accept(self, result: Any) -> list[Value]:
        """The values of a result, which is the function's."""
        what = f"the result of {name_of(self.function)}"
        values, self.treedef = flatten_values(result, what)
        self.count = len(values)
        return values

    @property
    def structure(self) -> TreeDef:
        """`treedef`, once the function has been called."""
        assert self.treedef is not None
        return self.treedef

    def build(self, values: Sequence[Value]) -> Any:
        return tree.unflatten(self.structure, values)

    def restore_numbers(self, values: Sequence[Any]) -> list[Any]:
        """The values of a call without `jit`: Python's numbers are what they were."""
        return [self.numbers.get(i, x) for i, x in enumerate(values)]

    def answer(self, results: Sequence[Any], other: Any) -> tuple[Any, ...]:
        """(result, other), and aux under `has_aux`, of the values of a call."""
        results = self.restore_numbers(results)
        answer = (self.build(results[: self.count]), other)
        if not self.has_aux:
            return answer
        return (*answer, self.build_aux(results[self.count :]))

    def build_aux(self, values: Sequence[Value]) -> Any:
        assert self.aux_treedef is not None
        rest = iter(values)
        leaves = [next(rest) if x is None else x[0] for x in self.aux_static]
        return tree.unflatten(self.aux_treedef, leaves)


def type_of(value: Any) -> ShapedArray:
    """Shape and dtype of an array, or of anything that has these attributes.

    A scalar of NumPy's may be weak, as where it is an operand.
    """
    typed = hasattr(value, "shape") and hasattr(value, "dtype")
    if typed and not isinstance(value, np.generic):
        weak = bool(getattr(value, "weak_type", False))
        return ShapedArray.of(tuple(value.shape), dtypes.as_dtype(value.dtype), weak)
    return aval_of(value)


class Travels(Immutable):
    """What stands for a function of the user's, whose name it has."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: Any) -> Any:
        name, module = getattr(self, "__qualname__", ""), self.__module__
        if module != "__main__" or not _pickles_functions(_getframe(1)):
            try:
                if attrgetter(name)(sys.modules[module]) is self:
                    return name
            except (AttributeError, KeyError):
                pass
        return self.reduce_for_pickle(protocol)

    def reduce_for_pickle(self, protocol: Any) -> Any:
        """What pickle makes it of, where it cannot be found by its name."""
        return object.__reduce_ex__(self, protocol)


def _pickles_functions(caller: FrameType) -> bool:
    """Is it cloudpickle that asks, or a copy of it as other packages have one?

    It sends functions of `__main__` whole, for those who read them have another one.
    """
    return "cloudpickle" in caller.f_globals.get("__name__", "")

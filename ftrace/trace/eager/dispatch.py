"""Public functions of arrays, as objects whose calls can become native.

    exp = Eager(exp)      # what it does depends on the types of its arrays alone

Called in Python it is the function. A device may put its own code into the place of
`Eager.__call__`, and does what is known without Python's code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import update_wrapper
from importlib import import_module
from inspect import unwrap
from types import FunctionType
from typing import Any, Concatenate, ParamSpec, TypeVar
from typing import cast as cast_to

import numpy as np

from ftrace.trace.eager.call_cache import takes_functions

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")

#: Classes whose objects never change; a call is told apart from others by them.
constant_classes: list[type[Any]] = []


#: Classes of NumPy's integers: in an index they say where, as those of Python do.
integer_classes: list[type[Any]] = [
    np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
]  # fmt: skip
_PLACES = frozenset((int, slice, type(None), type(...), *integer_classes))
_PARTS = _PLACES - {slice, type(None), type(...)}


def is_by_place(index: Any) -> bool:
    """Is it made of integers, slices and the like? Then integers only say where."""
    if type(index) is tuple:
        return all(type(part) in _PLACES for part in cast_to(Any, index))
    return type(index) in _PARTS


def named(function: F, name: str, doc: str | None) -> F:
    """A function that another one made, by its own name and with its own docstring."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def member(
    construct: Callable[Concatenate[str, P], F], *args: P.args, **kwargs: P.kwargs
) -> Callable[[Callable[[], None]], F]:
    '''A function of a family, in the place of one that has its name and docstring.

        @member(_segments, "add")
        def segment_sum():
            """The sums of the rows of each segment."""

    Args:
      construct: is given the name, then `args` and `kwargs`; makes a function with the
        parameters that all of the family have. Its own return type is not written but
        inferred, so that those who call a member are shown these parameters.
      args, kwargs: in what the functions differ.
    '''

    def made(said: Callable[[], None]) -> F:
        function = construct(said.__name__, *args, **kwargs)
        return named(function, said.__name__, said.__doc__)

    return made


class Eager:
    """A function whose work depends on the types of its arrays alone.

    Other arguments may decide by their values: integers, texts, tuples and the like.

    Args:
      function: the function.
      numbers: floats are operands of it, which decide nothing.
      place: the module in which the object is found.
      indexed: its second argument, or the third where numbers are operands, is an
        index: if that is made of integers, slices and the like, the integers decide
        nothing. What comes after it may.
    """

    # Native code finds the function, and the records of its calls, through slots, which
    # have fixed places.
    __slots__ = (
        "__dict__", "__weakref__", "_links", "_place", "behind", "indexed", "numbers",
    )  # fmt: skip

    def __init__(
        self,
        function: Callable[..., Any],
        numbers: bool,
        place: str,
        indexed: bool = False,
    ) -> None:
        update_wrapper(self, function)
        self.behind = function
        self.numbers = numbers
        self.indexed = indexed
        self._place = self.__module__ = place

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.behind(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<function {self._place}.{self.behind.__name__}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _found, (self._place, self.behind.__name__)


# Given to a function that takes functions, it is always the same one.
constant_classes.append(Eager)


def _found(place: str, name: str) -> Any:
    return getattr(import_module(place), name)


def make_all_eager(module: str) -> None:
    """Likewise all public functions of a module; floats may decide what they do.

    Those that take functions do not take part.
    """
    namespace = vars(sys.modules[module])
    names = namespace.get("__all__") or [n for n in namespace if n[0] != "_"]
    plain = {n: unwrap(x) for n in names if type(x := namespace[n]) is FunctionType}
    chosen = [
        name
        for name, function in plain.items()
        if function.__module__.startswith("ftrace.") and not takes_functions(function)
    ]
    make_eager(namespace, chosen)


def make_eager(
    namespace: dict[str, Any],
    names: Iterable[str],
    numbers: bool = False,
    indexed: bool = False,
) -> None:
    """Puts the functions of these names in a module into such objects."""
    made: dict[Any, Eager] = {}
    for name in names:
        function = namespace[name]
        if type(function) is FunctionType:
            if function not in made:
                place = namespace["__name__"]
                made[function] = Eager(function, numbers, place, indexed)
            namespace[name] = made[function]

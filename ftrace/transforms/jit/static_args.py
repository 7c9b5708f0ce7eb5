"""Which arguments of a jitted function are Python values, and which are given up.

`jit` is told by position and by name; each gives the other where the signature of the
function tells. A call is cut in two: the arguments that are traced, and a hashable key
of those that are static.

    f(x, 3, mode="a")   ->   ((x,), {}), (2, ((1, int, 3), ("mode", str, "a")))
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from ftrace.errors import StaticArgumentError
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.trace.pytree import tree
from ftrace.transforms.flatten_arguments import name_of, read_argnums


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


def chosen_arguments(fun: Any, kind: str, argnums: Any, argnames: Any) -> Chosen:
    """The arguments that `jit` is told of.

    Args:
      fun: the function.
      kind: "static" or "donate", for messages.
      argnums, argnames: as `jit` takes them.

    Raises:
      StaticArgumentError: the function has no such argument.
    """
    argnums = () if argnums is None else argnums
    numbers = list(read_argnums("jit", f"{kind}_argnums", argnums))
    names = [argnames] if isinstance(argnames, str) else list(argnames or ())
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return Chosen(tuple(numbers), frozenset(names))
    positional = [
        p.name
        for p in parameters
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    known = {p.name for p in parameters}
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    open_names = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for name in names:
        if name not in known and not open_names:
            raise StaticArgumentError(
                f"jit: {kind}_argnames names {name!r}, but {name_of(fun)} takes "
                f"{', '.join(sorted(known))}"
            )
    for number in numbers:
        if not variadic and not -len(positional) <= number < len(positional):
            raise StaticArgumentError(
                f"jit: {kind}_argnums has {number}, but {name_of(fun)} takes "
                f"{len(positional)} positional arguments"
            )
    if not variadic:
        numbers = [n % len(positional) for n in numbers]
    from_names = [positional.index(n) for n in names if n in positional]
    from_numbers = [positional[n] for n in numbers if 0 <= n < len(positional)]
    return Chosen(
        tuple(sorted({*numbers, *from_names})), frozenset([*names, *from_numbers])
    )


def check_disjoint(fun: Any, static: Chosen, donated: Chosen) -> None:
    """Raises if an argument is static and donated: it is no array to be given up."""
    both = [*{*static.numbers} & {*donated.numbers}, *static.names & donated.names]
    if both:
        raise StaticArgumentError(
            f"jit: the argument {both[-1]!r} of {name_of(fun)} is named as static and "
            "as donated; only an array can be donated, so drop one of the two"
        )


def split(
    fun: Any, static: Chosen, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Any, Any]:
    """The arguments that are traced, and the static ones as a key: None without any.

    Raises:
      StaticArgumentError: a static argument cannot be hashed.
    """
    if not any(static):
        return (args, kwargs), None
    fixed = [(i, args[i]) for i in static.positions(len(args))]
    named = [(n, kwargs[n]) for n in sorted(static.names) if n in kwargs]
    for name, value in (*fixed, *named):
        try:
            hash(value)
        except TypeError:
            raise StaticArgumentError(
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

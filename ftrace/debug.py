"""Printing and calling back while a function runs, where its values are known.

ft.debug.print("loss {}", loss)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import Any

from ftrace.array import Array
from ftrace.errors import ArgumentError, ConcretizationTypeError
from ftrace.trace import tree
from ftrace.trace.tracer import (
    Tracer,
    check_open,
    concrete,
    current_scope,
    unbound_variable,
)

__all__ = ["callback", "print"]


def print(fmt: str, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Prints `fmt.format(*args, **kwargs)`, also inside un-jitted grad, jvp and vjp.

    Args:
      fmt: a format string, not an f-string.
      args, kwargs: what its braces stand for: arrays, or pytrees of them.
      ordered: accepted, without effect: what runs at once runs in order.

    Raises:
      ConcretizationTypeError: called under jit, vmap or the like.
      ArgumentError: an argument is missing in the format, or not used by it.
    """
    values, named = _known("debug.print", args, kwargs)
    sys.stdout.write(_StrictFormatter().vformat(fmt, values, named) + "\n")


def callback(
    callback: Callable[..., Any], *args: Any, ordered: bool = False, **kwargs: Any
) -> None:
    """Calls a function of arrays, also inside un-jitted grad, jvp and vjp.

    Args:
      callback: gets the arguments as arrays with values; what it returns is dropped.
      args, kwargs: its arguments: arrays, or pytrees of them.
      ordered: accepted, without effect: what runs at once runs in order.

    Raises:
      ConcretizationTypeError: called under jit, vmap or the like.
      ArgumentError: `callback` is not callable.
    """
    if not callable(callback):
        raise ArgumentError(f"debug.callback: a function is required, got {callback!r}")
    values, named = _known("debug.callback", args, kwargs)
    callback(*values, **named)


def _known(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with arrays in place of tracers."""
    for leaf in tree.leaves((args, kwargs)):
        if isinstance(leaf, Tracer):
            check_open(leaf)
    # Under jit all calls are refused, also those of known values: they would run once,
    # while tracing, and never again.
    scope = current_scope()
    for node in scope.inputs if scope is not None else ():
        found = unbound_variable(node)
        if found is not None:
            raise ConcretizationTypeError(
                f"{name} was called under {found[0].transform}, where values are not "
                "known; from compiled programs it works only with callbacks, which "
                "come with a later version. Return the value and look at it outside, "
                "or run the function under ftrace.disable_jit()"
            )
    return tree.map(_valued, (args, kwargs))


def _valued(leaf: Any) -> Any:
    if isinstance(leaf, Tracer):
        return Array.of(concrete(leaf), leaf.weak_type)
    return leaf


class _StrictFormatter(Formatter):
    """str.format that raises where an argument is missing or left over."""

    def get_value(
        self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        try:
            return args[key] if isinstance(key, int) else kwargs[key]
        except (IndexError, KeyError):
            raise ArgumentError(
                f"debug.print: the format asks for the argument {key!r}, which was not "
                "given; write {{ and }} for braces"
            ) from None

    def check_unused_args(
        self,
        used_args: set[int | str],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> None:
        unused = ({*range(len(args))} | {*kwargs}) - used_args
        if unused:
            raise ArgumentError(
                f"debug.print: the format does not use {sorted(map(str, unused))}; "
                "write a {} or a {name} for each argument"
            )

"""Printing and calling back while a function runs, also from compiled programs.

    ft.debug.print("loss {}", loss)

Both are effects: they happen once each time the function runs, in the order of the
program, under jit, vmap, derivatives, and inside of loops.
"""

from __future__ import annotations

import logging
import sys
from code import interact
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from string import Formatter
from typing import Any

import numpy as np

from ftrace.errors import ArgumentError, FormatError, ShapeError
from ftrace.ground.missing_names import tell_missing
from ftrace.trace.arrays.array import is_array
from ftrace.trace.control.conditional import closed_graph
from ftrace.trace.eager.function_objects import member
from ftrace.trace.eager.nonfinite import NonFinite, first_nonfinite
from ftrace.trace.effects import INSPECTED, Inspection, call_back
from ftrace.trace.flatten_arguments import P
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.tracer import Tracer, aval_of, is_value
from ftrace.transforms.jit.jit import operations_at

__all__ = [
    "breakpoint", "callback", "inspect_array_sharding", "log", "nan_origin", "print",
    "visualize_array_sharding", "visualize_sharding",
]  # fmt: skip


def _writing(name: str, emit: Callable[[str], Any]):
    def write(
        fmt: str | None = None,
        *args: Any,
        ordered: bool = False,
        partitioned: bool = False,
        skip_format_check: bool = False,
        **kwargs: Any,
    ) -> Callable[..., None] | None:
        """Writes a text.

        Args:
          fmt: a format string, not an f-string. Without it, the function that takes it
            and its arguments is returned, `debug.print()("{ordered}", ordered=x)`:
            there no name is an option.
          args, kwargs: what its braces stand for: arrays, pytrees of them, and anything
            else. Arrays are printed as NumPy prints them.
          ordered: accepted, without effect: all prints are in the order of the program.
          partitioned: accepted, without effect: there is one device.
          skip_format_check: finds mistakes in `fmt` when it prints, not when it is
            called.

        Raises:
          FormatError: an argument that the format asks for was not given.
          ArgumentError: one is not used by the format, or cannot be printed with the
            specification that it has there.
        """
        return _write(f"debug.{name}", emit, fmt, args, kwargs, skip_format_check)

    return write


def _to_output(text: str) -> None:
    sys.stdout.write(text + "\n")


@member(_writing, _to_output)
def print():
    """Prints `fmt.format(*args, **kwargs)` when the function runs.

    Under vmap it prints once per lane, one after the other; in a derivative the values
    of the function itself, once.

    Example:
      >>> @ft.jit
      ... def f(x):
      ...     ft.debug.print("x = {x}, twice that {}", 2 * x, x=x)
      ...     return fnp.sqrt(x)
      >>> y = f(4.0)
      x = 4.0, twice that 8.0
    """


@member(_writing, logging.getLogger("ftrace.debug").info)
def log():
    """Logs what `print` would print, to the logger "ftrace.debug" at the level INFO."""


def _later(call: Callable[[Any, Any, Any], Any]) -> Callable[..., None]:
    """A call whose options are known, as a function of the rest."""

    def take(what: Any, *args: Any, **kwargs: Any) -> None:
        call(what, args, kwargs)

    return take


def _write(
    name: str,
    emit: Callable[[str], Any],
    fmt: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    unchecked: bool,
) -> Callable[..., None] | None:
    if fmt is None and not args and not kwargs:
        return _later(lambda f, a, k: _write(name, emit, f, a, k, unchecked))
    if not isinstance(fmt, str):
        raise ArgumentError(
            f"{name}: the first argument is the format, got {type(fmt).__name__}: "
            f'{fmt!r:.60}; write {name}("{{}}", x)'
        )
    if not unchecked:
        _check(name, fmt, args, kwargs)
    write = _writer(fmt, _options(), emit)
    call_back(name, write, None, args, kwargs, static_numbers=True)
    return None


def callback(
    callback: Callable[..., Any] | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Callable[..., None] | None:
    """Calls a function of arrays when the function runs; what it returns is dropped.

    Under vmap it is called once per lane, one after the other; in a derivative with
    the values of the function itself, once.

    Args:
      callback: gets the arguments as arrays with values. It may call functions of
        ftrace, jitted ones too. What it raises reaches the caller of the program.
        Without it, the function that takes it and its arguments is returned.
      args, kwargs: its arguments: arrays and numbers, pytrees of them; other leaves
        (strings, objects) are passed on as they are.
      ordered: accepted, without effect: all calls are in the order of the program.
      partitioned: accepted, without effect: there is one device.

    Raises:
      ArgumentError: `callback` is not callable.

    Example:
      >>> @ft.jit
      ... def f(x):
      ...     ft.debug.callback(lambda v: print("seen", v.shape), x)
      ...     return x.sum()
      >>> y = f(fnp.ones((2, 3)))
      seen (2, 3)
    """
    name = "debug.callback"
    if callback is None and not args and not kwargs:
        return _later(lambda f, a, k: call_back(name, f, None, a, k))
    function: Any = callback
    call_back(name, function, None, args, kwargs)
    return None


def breakpoint(
    *,
    backend: str | None = None,
    filter_frames: bool = True,
    num_frames: int | None = None,
    ordered: bool = False,
    token: Any = None,
    **kwargs: Any,
) -> None:
    """Stops when the function runs: an interactive console with the caller's variables.

    They have values, also those that were traced. End the input to go on (Ctrl-D).

    Args:
      backend, filter_frames, num_frames, ordered, token: accepted, without effect.
      kwargs: further variables.
    """
    caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    code = caller.f_code
    names = {k: v for k, v in caller.f_locals.items() if _has_values(v)} | kwargs
    place = f"{code.co_filename}:{caller.f_lineno}, in {code.co_name}"

    def stop(values: dict[str, Any]) -> None:
        _console(place, values)

    call_back("debug.breakpoint", stop, None, (names,), {}, static_numbers=True)


def nan_origin(fun: Callable[P, Any]) -> Callable[P, NonFinite | None]:
    """A function that says where the NaNs or infinities in results of `fun` come from.

        print(ft.nan_origin(ft.grad(loss))(params, batch))

        log made -inf of 0.0 at element (3,) of its result, f32[8]
          at File "train.py", line 12, in loss …

    It evaluates the operations one by one, in NumPy, those of loops and branches too.

    Returns:
      The first operation that made a NaN of numbers, or of infinities; or else an
      infinity of numbers: its line, and those of its operands; of a step of a
      derivative what it is the derivative of, and the line that takes it; in loops the
      number of the iteration, from 0. Where an argument holds
      it already, which one, and the first operation that met it. None where all results
      are finite.

    Raises:
      ArgumentError: the arguments are shapes, or traced.

    Example:
      >>> where = ft.nan_origin(lambda x: fnp.sum(fnp.log(x)))
      >>> print(where(fnp.array([1.0, -2.0])))
      log made nan of -2.0 at element (1,) ...
    """
    tree.check_callable(fun, "nan_origin")

    def origin_of(*args: Any, **kwargs: Any) -> NonFinite | None:
        graph, arrays, names = operations_at("nan_origin", fun, args, kwargs)
        return first_nonfinite(closed_graph(graph), [x.numpy() for x in arrays], names)

    return origin_of


def _has_values(value: Any) -> bool:
    """Is it an array, a number or a tree of them?"""
    return all(is_value(leaf) for leaf in tree.leaves(value))


def _console(place: str, values: dict[str, Any]) -> None:
    interact(f"{place}\nvariables: {', '.join(values)}", local=values, exitmsg="")


_DEFAULT = np.get_printoptions()


def _options() -> tuple[tuple[str, Any], ...]:
    """NumPy's options of printing where they are others: they are those of the call."""
    options = np.get_printoptions()
    if options == _DEFAULT:
        return ()
    changed = [(k, v) for k, v in options.items() if v != _DEFAULT[k]]
    return tuple([x for x in changed if isinstance(x[1], Hashable)])


def _format_strictly(
    fmt: str, options: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> str:
    with np.printoptions(**dict(options)):
        return _StrictFormatter().vformat(fmt, args, kwargs)


class Writer:
    """The function that writes in a format, with options of printing."""

    def __init__(self, fmt: str, options: Any, emit: Callable[[str], Any]) -> None:
        self.fmt, self.options, self._emit = fmt, options, emit
        self.__name__ = repr(fmt)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self._emit(_format_strictly(self.fmt, self.options, args, kwargs))


#: The same object for the same arguments.
_writer = lru_cache(maxsize=1024)(Writer)


# Formats.


def _check(name: str, fmt: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises where the arguments, whatever their values, do not fit the format."""
    values, named = tree.map(_stand_in, (args, kwargs))
    try:
        _StrictFormatter().vformat(fmt, values, named)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(
            f"{name}: the format {fmt!r} does not fit its arguments: {error}; a "
            "specification is for a scalar: write {} for an array, and set "
            "numpy.set_printoptions"
        ) from None


def _stand_in(leaf: Any) -> Any:
    """For a trial of the format: an array of ones, in the memory of one."""
    if not hasattr(leaf, "dtype"):
        return leaf
    aval = aval_of(leaf)
    sizes = [n if type(n) is int else 1 for n in aval.shape]  # not of each it is known
    return np.broadcast_to(np.ones((), aval.dtype), sizes)


class _StrictFormatter(Formatter):
    """str.format that raises where an argument is missing or left over."""

    def get_value(
        self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        try:
            return args[key] if isinstance(key, int) else kwargs[key]
        except (IndexError, KeyError):
            raise FormatError(
                f"debug: the format asks for the argument {key!r}, which was not "
                "given; write {{ and }} for braces"
            ) from None

    def check_unused_args(
        self, used_args: set[int | str], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        unused = ({*range(len(args))} | {*kwargs}) - used_args
        if unused:
            raise ArgumentError(
                f"debug: the format does not use {sorted(map(str, unused))}; "
                "write a {} or a {name} for each argument"
            )


# Where arrays are.


def visualize_sharding(
    shape: Sequence[int], sharding: Any, *, use_color: bool = True, scale: float = 1.0,
    min_width: int = 9, max_width: int = 80, color_map: Any = None,
) -> None:  # fmt: skip
    """Draws which part of an array is on which devices.

    Args:
      shape: of the array, with one axis or two.
      sharding: how it is divided.
      min_width: of the drawing of a part, in characters.
      use_color, scale, max_width, color_map: accepted; parts are drawn in one size.

    Raises:
      ShapeError: an array has one axis or two.
    """
    if len(shape) not in (1, 2):
        raise ShapeError(
            "`visualize_sharding` only works for shapes with 1 and 2 dimensions, got "
            f"{tuple(shape)}"
        )
    parts: dict[tuple[int, ...], list[str]] = {}
    platform = ""
    for device, index in sharding.devices_indices_map(tuple(shape)).items():
        platform = device.platform.upper()
        place = (0, *[part.start or 0 for part in index])[-2:]
        parts.setdefault(place, []).append(f"{device.id}")
    rows, columns = (sorted({*starts}) for starts in zip(*parts, strict=True))
    texts = {place: f"{platform} {','.join(ids)}" for place, ids in parts.items()}
    width = max(min_width - 2, *map(len, texts.values()))
    bar = "─" * width
    lines = [f"├{'┼'.join([bar] * len(columns))}┤"] * (2 * len(rows) + 1)
    lines[0] = f"┌{'┬'.join([bar] * len(columns))}┐"
    lines[-1] = f"└{'┴'.join([bar] * len(columns))}┘"
    for i, row in enumerate(rows):
        cells = "│".join([texts[row, column].center(width) for column in columns])
        lines[2 * i + 1] = f"│{cells}│"
    _to_output("\n".join(lines))


def visualize_array_sharding(arr: Any, **kwargs: Any) -> None:
    """`visualize_sharding` of an array: which part of it is on which devices.

    Args:
      arr: the array; a traced one is drawn as `inspect_array_sharding` tells of it.
      kwargs: the options of `visualize_sharding`.

    Raises:
      ArgumentError: it is no array on devices.
    """
    shape = getattr(arr, "shape", ())
    inspect_array_sharding(
        arr, callback=lambda sharding: visualize_sharding(shape, sharding, **kwargs)
    )


def inspect_array_sharding(value: Any, *, callback: Callable[[Any], Any]) -> None:
    """Calls a function of how a value lies on devices: of an array at once.

    Of a traced value it is called with what `jit` has found, when a program first runs
    on arguments that lie so; of one in a loop once.

    Args:
      value: an array.
      callback: gets its sharding.

    Raises:
      ArgumentError: it is no array on devices.

    Example:
      >>> @ft.jit
      ... def f(x):
      ...     y = x * 2
      ...     ft.debug.inspect_array_sharding(y, callback=lambda s: print(s.device_set))
      ...     return y
      >>> y = f(fnp.ones(2))
      {<device cpu>}
    """
    if is_array(value):
        callback(value.sharding)
    elif not isinstance(value, Tracer):
        raise ArgumentError(
            f"an array on devices is required, got {type(value).__name__}; "
            "visualize_sharding takes a shape and a sharding"
        )
    else:
        call_back(INSPECTED, Inspection(callback), None, (value,), {})


tell_missing(__name__)

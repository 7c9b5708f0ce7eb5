"""Every exception that ftrace raises, and what to do about it.

Each class also inherits the built-in exception that a NumPy or JAX user would catch.
A message says what was required, what was got, and what to write instead; the user's
line is appended when the exception is made: `user_origin` finds it on the Python stack.

An `Origin` is a code object and an instruction offset: two references, so that
noting it costs well under a microsecond. File, line and source text are looked up
only when somebody reads them.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Hashable
from types import CodeType, FrameType
from typing import Any


class FtraceError(Exception):
    """Base of all exceptions of ftrace.

    Args:
      message: what was required, what was got, what to write instead.
      origin: the place to name; by default the user's innermost frame.

    Attributes:
      operands: of an operation that was traced, lines that say what was given to it and
        where that was made.
    """

    #: Is it about the types of operands, so that their lines say more?
    of_operands = False
    #: Is it about arguments, so that the function is named that the user has called?
    of_arguments = False
    operands: tuple[str, ...] = ()

    def __init__(self, message: str, origin: Origin | None = None) -> None:
        self.message = name_called(message) if self.of_arguments else message
        self.origin = origin if origin is not None else user_origin()
        super().__init__(self.message)

    def __str__(self) -> str:
        places = [] if self.origin is None else [f"at {self.origin.describe()}"]
        return "\n  ".join([self.message, *places, *self.operands])


# JAX's names of groups of exceptions: what is raised is one of the classes below.


class JAXTypeError(TypeError):
    """A traced value was used where values are needed, or after its function."""


class JAXIndexError(IndexError):
    """An index whose result would have a shape that depends on values."""


class JaxRuntimeError(RuntimeError):
    """A device failed, or has no memory left."""


class JaxprTypeError(TypeError):
    """A graph breaks its specification."""


class InconclusiveDimensionOperation(Exception):
    """The number of a dynamic dimension is needed."""


# JAX raises now a TypeError and now a ValueError for what is wrong with an argument,
# NumPy others: whoever waits for either gets these.


class ShapeError(FtraceError, ValueError, TypeError):
    """Shapes do not fit the operation. Reshape, transpose or broadcast first."""

    of_operands = of_arguments = True


class AxisError(FtraceError, ValueError, IndexError, TypeError):
    """An axis is out of range or named twice. Axes run from -ndim to ndim - 1."""

    of_operands = of_arguments = True


class AxisNameError(FtraceError, NameError):
    """No axis has this name here. Name one with `vmap(…, axis_name=…)`."""

    of_arguments = True


class DtypeError(FtraceError, TypeError, ValueError):
    """The operation is not defined for this dtype. Convert with `.astype`."""

    of_operands = of_arguments = True


class UnsupportedDtypeError(DtypeError, NotImplementedError):
    """An operation that others have for this dtype, and that is not there."""


class TypePromotionError(DtypeError):
    """Two dtypes meet, and the settings want them to be converted by hand."""


class NonFiniteError(FtraceError, FloatingPointError):
    """A NaN or an infinity was computed, and `debug_nans` or `debug_infs` is set."""


class TracingError(FtraceError, RuntimeError):
    """Against `no_tracing` or `no_execution`, or traced values that outlive a trace."""


class ArgumentError(FtraceError, TypeError, ValueError):
    """An argument is of the wrong kind: not an array, not a function, unknown name."""

    of_arguments = True


class FormatError(ArgumentError, KeyError, IndexError):
    """A format asks for an argument that was not given."""

    __str__ = FtraceError.__str__


class UnknownSettingError(ArgumentError, AttributeError):
    """There is no setting of this name."""


class ValueRangeError(FtraceError, ValueError, TypeError):
    """An argument is of the right kind but has a value that is not allowed."""

    of_arguments = True


class ZeroStepError(ValueRangeError, ZeroDivisionError):
    """The step of a range is 0. Leave it out, or give one that leads on."""


class ImmutableError(FtraceError, TypeError, ValueError, NotImplementedError):
    """Arrays are immutable. Write `x = x.at[i].set(y)` instead of `x[i] = y`."""


class IndexBoundsError(FtraceError, IndexError):
    """An index is out of bounds or not a valid index."""

    of_operands = of_arguments = True


class NonConcreteBooleanIndexError(FtraceError, JAXIndexError):
    """The shape of `x[mask]` depends on the mask's values. Use `where(mask, x, y)`."""


class ConcretizationTypeError(FtraceError, JAXTypeError):
    """A traced value was needed as a concrete one (`if`, `int`, `float`, `range`)."""

    of_arguments = True


class DynamicDimensionError(ConcretizationTypeError, InconclusiveDimensionOperation):
    """A dynamic dimension was used where its number is needed; see docs/dynamic.md."""


class TracerBoolConversionError(ConcretizationTypeError):
    """`bool()` of a traced value. Use `where` or `static_argnums`."""


class TracerIntegerConversionError(ConcretizationTypeError):
    """A traced value used as a Python integer. Use `static_argnums`."""


class TracerArrayConversionError(ConcretizationTypeError):
    """A traced value given to NumPy. Call the function of `ftrace.numpy` instead."""


class UnexpectedTracerError(FtraceError, JAXTypeError, RuntimeError):
    """A traced value escaped from its function and was used. Return it instead."""


class DeletedArrayError(FtraceError, RuntimeError):
    """An array was used after `delete`, or after it had been a donated argument.

    Use the result of the call instead, or do not donate the array.
    """


class StaticArgumentError(FtraceError, ValueError):
    """A static argument is not hashable, or its position does not exist."""


class TreeError(FtraceError, ValueError, TypeError):
    """Two pytrees that must have the same structure do not."""


class NestingError(FtraceError, RecursionError):
    """Functions or containers are nested too deep. Write a loop, or a flat tree."""


class BatchSizeError(FtraceError, ValueError):
    """`vmap` got arguments whose mapped axes differ in size, or no mapped axis."""


class DerivativeError(FtraceError, TypeError, ValueError):
    """A derivative was asked of a function or dtype that has none."""


class GradientCheckError(FtraceError, AssertionError):
    """`check_grads` found a derivative that is not the finite difference."""


class PrimitiveError(FtraceError, ValueError):
    """A primitive's record lacks a rule."""


class UnsupportedError(ValueRangeError, NotImplementedError):
    """A choice that others have, and that is not there: splines of order 3."""


class MissingRuleError(FtraceError, NotImplementedError):
    """A primitive of a library has no rule for what is asked of it."""


class NoCustomRuleError(FtraceError, AttributeError):
    """A function under `custom_jvp`, `custom_vjp` or `custom_vmap` has no rule yet."""


class CallbackError(ShapeError, TreeError, JaxRuntimeError):
    """A callback did not return what was promised for it."""


class GraphError(FtraceError, JaxprTypeError, RuntimeError):
    """A graph breaks its specification: a bug in a rule, or a cycle of kernels."""


class DeviceError(FtraceError, JaxRuntimeError):
    """A device is unknown, missing its driver, or failed."""


class ShardingError(DeviceError, ValueError):
    """Devices of a mesh, of a sharding or of arrays do not meet, or are too few."""


class ProcessError(FtraceError, JaxRuntimeError):
    """Another process of the program has ended, does something else, or came not."""


class UnaddressableError(FtraceError, JaxRuntimeError):
    """The whole of an array is asked for of which other processes have parts."""


class MissingExtraError(DeviceError, ImportError):
    """A driver or a dependency is missing; the message names what to install."""


class MissingNameError(FtraceError, ImportError):
    """`from … import` of a name of JAX's that is not there; the message says why."""


class AliasError(FtraceError, ImportError):
    """ftrace was to stand for a package that this process has imported already."""


class OutOfMemoryError(FtraceError, MemoryError, JaxRuntimeError):
    """The device has no memory left for an allocation.

    Attributes:
      reported_for: the same shortage with the lines of another program of the graph.
    """

    reported_for: Callable[[Any], OutOfMemoryError] | None = None


class FileFormatError(FtraceError, ValueError, OSError):
    """A file could not be read: missing, damaged, or of another format."""


class CacheWarning(UserWarning):
    """Compiled code could not be kept on disk; said once in a process."""


class NativeCallsWarning(UserWarning):
    """Calls could not be made native on this known interpreter; said once."""


class DtypeOverflowError(FtraceError, OverflowError):
    """A Python integer does not fit the dtype it must take."""


def one_of(
    what: str,
    value: Any,
    choices: Collection[Any],
    error: type[FtraceError] = ValueRangeError,
) -> None:
    """Raises where an argument is none of those that there are.

    Args:
      what: the function and its argument, for the message: "qr: mode".
      value: the argument.
      choices: those that there are.
      error: the class of what is raised.

    Raises:
      ValueRangeError: it is another.
    """
    if not isinstance(value, Hashable) or value not in choices:
        *names, last = map(repr, choices)
        listed = f"{', '.join(names)} or {last}" if names else last
        raise error(f"{what} must be {listed}, got {value!r}")


# The user's line: where in the user's program something happened.

#: Of files met so far: is their code ours, or of a library between the user and us?
is_internal_file: dict[str, bool] = {}


# Between the user's line and ours stand frames of contextlib, functools, threading,
# and of the packages that call functions for us, or of which the user calls one.
_LIBRARY = os.path.dirname(os.__file__)
_OURS = os.path.dirname(__file__)
_INTERNAL = ("numpy", "optree", "opt_einsum", "scipy")
_PACKAGES = ("site-packages", "dist-packages")


class _BlockNames(threading.local):
    """What stands around what is traced now.

    Attributes:
      joined: the names of the blocks, joined by slashes.
      trace: the number of the outermost trace; 0 outside of jit, where a function is
        traced at each call and gets what was made of it before, lines included.
    """

    joined = ""
    trace = 0


block_names = _BlockNames()
#: As many entries as such blocks are open in all threads: a look costs less.
open_blocks: list[None] = []


class Origin:
    """A place in the user's source: `file`, `line`, `function`, `text`.

    Attributes:
      name_stack: the names of the blocks around it, joined by slashes.
      called: the name of the public function that was called there, where it is known.
      trace: the number of the trace in which it was met.
      derived_at: of a step of a derivative, the line where that was taken.
      source: of such a step, the function's.
    """

    derived_at: Origin | None = None
    source: Origin | None = None
    __slots__ = (
        "_backward", "_derivative", "called", "code", "name_stack", "offset", "trace",
    )  # fmt: skip

    def __init__(self, code: CodeType, offset: int) -> None:
        self.code = code
        self.offset = offset
        self.name_stack = block_names.joined if open_blocks else ""
        self.trace = block_names.trace
        self.called = ""

    @property
    def file(self) -> str:
        return self.code.co_filename

    @property
    def line(self) -> int:
        line = self.code.co_firstlineno
        for start, end, number in self.code.co_lines():
            if start <= self.offset < end and number is not None:
                return number
        return line

    @property
    def function(self) -> str:
        return self.code.co_name

    @property
    def text(self) -> str:
        return linecache.getline(self.file, self.line).strip()

    @property
    def call(self) -> Origin:
        """One object for all that a call made: of a derivative's steps the call's."""
        return self.source or self

    @property
    def backward(self) -> Origin:
        """The same of what a derivative does backwards: one for a call, as this is."""
        if not self.called:
            return self
        call = self.source or self
        try:
            return call._backward
        except AttributeError:
            made = _DerivativeOrigin(self, self.derived_at or self)
            made.called = f"{self.called}_backward"
            call._backward = made._backward = made.source = made
            return made

    def derivative(self, place: Origin) -> Origin:
        """The same of a step of the derivative that is taken at a place."""
        if not self.called or self.derived_at is not None:
            return self
        try:
            known = self._derivative
            taken: Any = known.derived_at
            if taken.code is place.code and taken.offset == place.offset:
                return known
            del self._backward  # it is of that other place
        except AttributeError:
            pass
        made = self._derivative = _DerivativeOrigin(self, place)
        return made

    def __repr__(self) -> str:
        return f"<the line {self}>"

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line} ({self.function})"

    def describe(self) -> str:
        """The line as a traceback would show it."""
        where = f'File "{self.file}", line {self.line}, in {self.function}'
        return f"{where}\n    {self.text}" if self.text else where

    def __reduce__(self) -> tuple[Any, ...]:
        return origin_elsewhere, (self.file, self.line, self.function, self.text)


class _DerivativeOrigin(Origin):
    """That of a step of a derivative, made of the function's step."""

    __slots__ = ("derived_at", "source")

    def __init__(self, origin: Origin, place: Origin) -> None:
        self.code, self.offset = origin.code, origin.offset
        self.name_stack, self.trace = origin.name_stack, origin.trace
        self.called = origin.called
        self.source, self.derived_at = origin, place


class _RemoteOrigin(Origin):
    """A place of another process, where its source may not be."""

    __slots__ = ("_text",)

    @property
    def text(self) -> str:
        return self._text


def origin_elsewhere(file: str, line: int, function: str, text: str = "") -> Origin:
    """A line of another process, of which nothing is read from here.

    Args:
      file, line, function: where it is.
      text: of the line.
    """
    code = origin_elsewhere.__code__.replace(
        co_filename=file, co_firstlineno=line, co_name=function
    )
    place = _RemoteOrigin(code, -1)  # before its first instruction
    place._text = text  # pyright: ignore[reportPrivateUsage]
    return place


def is_ours(frame: FrameType) -> bool:
    """Does this frame run code of ftrace?"""
    return frame.f_code.co_filename.startswith(_OURS + os.sep)


def is_internal(code: CodeType) -> bool:
    """Is this code of ours, or of a library between the user and us?"""
    name = code.co_filename
    known = is_internal_file.get(name)
    if known is None:
        known = is_internal_file[name] = _decide_internal(name)
    return known


def _decide_internal(name: str) -> bool:
    if name.startswith((_OURS + os.sep, "<frozen ")):
        return True
    for package in _INTERNAL:  # one whose frame this is has been imported
        file = getattr(sys.modules.get(package), "__file__", None)
        if file and name.startswith(os.path.dirname(file) + os.sep):
            return True
    if name.startswith(_LIBRARY + os.sep):
        return not name[len(_LIBRARY) + 1 :].startswith(_PACKAGES)
    return name == "<string>"  # generated code: of a dataclass, a namedtuple


_getframe = sys._getframe  # pyright: ignore[reportPrivateUsage]
_new_origin = object.__new__


def user_origin(called: str = "", above: int = 1) -> Origin | None:
    """The innermost frame of the user's own code, or None when there is none.

    Args:
      called: the public function that is called there.
      above: frames from here on that are no user's.
    """
    # Every operation that is traced asks: this is `is_internal`, and Origin, inline.
    frame: FrameType | None = _getframe(above)
    while frame is not None:
        code = frame.f_code
        try:
            internal = is_internal_file[code.co_filename]
        except KeyError:
            internal = is_internal(code)
        if not internal:
            origin = _new_origin(Origin)
            origin.code = code
            origin.offset = frame.f_lasti
            origin.name_stack = block_names.joined if open_blocks else ""
            origin.trace = block_names.trace
            origin.called = called
            return origin
        frame = frame.f_back
    frame = _generated_frame()
    return None if frame is None else Origin(frame.f_code, frame.f_lasti)


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """A warning about the user's own line, shown as often as Python is told to.

    Args:
      text: of the warning.
      category: its class.
    """
    frame: FrameType | None = _getframe(1)
    while frame is not None and is_internal(frame.f_code):
        frame = frame.f_back
    frame = frame or _generated_frame()
    if frame is None:  # `python -m ftrace`, a thread of ours
        warnings.warn_explicit(text, category, "ftrace", 1)
        return
    space = frame.f_globals
    warnings.warn_explicit(
        text,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        space.get("__name__"),
        space.setdefault("__warningregistry__", {}),
    )


def _generated_frame() -> FrameType | None:
    """The innermost frame of generated code: `python -c` runs under this name too."""
    frame: FrameType | None = _getframe(1)
    while frame is not None and frame.f_code.co_filename != "<string>":
        frame = frame.f_back
    return frame


#: The names of public functions, which messages begin with.
public_names: set[str] = set()
#: How a message begins that names one.
_NAMED = re.compile(r"(?:\w+\.)*(\w+)(?=: | takes | has no | needs | is not defined)")


def name_called(message: str) -> str:
    """A message in which the public function is named that the user has called.

    What that function calls in its turn does not concern the user, who has written no
    name where an array is indexed.
    """
    called = called_function()
    if called in ("", "getitem") or re.search(
        rf"\b{called}\b", message.partition(": ")[0]
    ):
        return message
    begin = _NAMED.match(message)
    if begin is None or begin[1] not in public_names:
        return f"{called}: {message}"
    return called + message[begin.end() :]


#: Where public functions stand behind others, which have them in a variable.
_AROUND = os.path.join(_OURS, "trace", "eager", "dispatch.py")


def called_function(otherwise: str = "") -> str:
    """The name of the public function that the user's line has called, if it is known.

    For messages: it looks at all frames up to the user's.

    Args:
      otherwise: what it is called where that is not known.
    """
    name = otherwise
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and is_internal(frame.f_code):
        code = frame.f_code
        if code.co_name == "call" and code.co_filename == _AROUND:
            called = getattr(frame.f_locals.get("function"), "__name__", "_")
            name = name if called.startswith("_") else called
        frame = frame.f_back
    return name

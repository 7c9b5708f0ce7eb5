"""Every exception that ftrace raises, and what to do about it.

Each class also inherits the built-in exception that a NumPy or JAX user would catch.
A message says what was required, what was got, and what to write instead; the user's
line is appended when the exception is made: `user_line` finds it on the Python stack.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ftrace.errors.user_line import Origin, user_origin


class FtraceError(Exception):
    """Base of all exceptions of ftrace.

    Args:
      message: what was required, what was got, what to write instead.
      origin: the place to name; by default the user's innermost frame.
    """

    def __init__(self, message: str, origin: Origin | None = None) -> None:
        self.message = message
        self.origin = origin if origin is not None else user_origin()
        super().__init__(message)

    def __str__(self) -> str:
        if self.origin is None:
            return self.message
        return f"{self.message}\n  at {self.origin.describe()}"


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


class AxisError(FtraceError, ValueError, IndexError, TypeError):
    """An axis is out of range or named twice. Axes run from -ndim to ndim - 1."""


class AxisNameError(FtraceError, NameError):
    """No axis has this name here. Name one with `vmap(…, axis_name=…)`."""


class DtypeError(FtraceError, TypeError, ValueError):
    """The operation is not defined for this dtype. Convert with `.astype`."""


class TypePromotionError(DtypeError):
    """Two dtypes meet, and the settings want them to be converted by hand."""


class NonFiniteError(FtraceError, FloatingPointError):
    """A NaN or an infinity was computed, and `debug_nans` or `debug_infs` is set."""


class TracingError(FtraceError, RuntimeError):
    """Against `no_tracing` or `no_execution`, or traced values that outlive a trace."""


class ArgumentError(FtraceError, TypeError, ValueError):
    """An argument is of the wrong kind: not an array, not a function, unknown name."""


class FormatError(ArgumentError, KeyError, IndexError):
    """A format asks for an argument that was not given."""

    __str__ = FtraceError.__str__


class UnknownSettingError(ArgumentError, AttributeError):
    """There is no setting of this name."""


class ValueRangeError(FtraceError, ValueError, TypeError):
    """An argument is of the right kind but has a value that is not allowed."""


class ImmutableError(FtraceError, TypeError):
    """Arrays are immutable. Write `x = x.at[i].set(y)` instead of `x[i] = y`."""


class IndexBoundsError(FtraceError, IndexError):
    """An index is out of bounds or not a valid index."""


class NonConcreteBooleanIndexError(FtraceError, JAXIndexError):
    """The shape of `x[mask]` depends on the mask's values. Use `where(mask, x, y)`."""


class ConcretizationTypeError(FtraceError, JAXTypeError):
    """A traced value was needed as a concrete one (`if`, `int`, `float`, `range`)."""


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


class MissingExtraError(FtraceError, ImportError):
    """An optional dependency is missing; the message names the extra to install."""


class AliasError(FtraceError, ImportError):
    """ftrace was to stand for a package that this process has imported already."""


class OutOfMemoryError(FtraceError, MemoryError, JaxRuntimeError):
    """The device has no memory left for an allocation.

    Attributes:
      told_for: the same shortage with the lines of another program of the same graph.
    """

    told_for: Callable[[Any], OutOfMemoryError] | None = None


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
      error: the class of what is raised.

    Raises:
      ValueRangeError: it is another.
    """
    if value not in choices:
        *names, last = map(repr, choices)
        listed = f"{', '.join(names)} or {last}" if names else last
        raise error(f"{what} must be {listed}, got {value!r}")

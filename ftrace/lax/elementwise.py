"""Elementwise operations under JAX's `lax` names, and with its strictness.

Operands have one dtype. They have one shape, or are scalars, or have axes of size 1
where the others are longer; their number of axes is not changed implicitly.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import DtypeError, ShapeError, ValueRangeError, one_of
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lax.conversions import convert_element_type
from ftrace.numpy import axes as ax, elementwise as ew, logic
from ftrace.numpy.arithmetic import integer_power
from ftrace.trace.arrays.array import Array, recording
from ftrace.trace.bind import bind, elementwise as apply_elementwise
from ftrace.trace.eager.function_objects import set_name
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.primitive import Primitive
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.tracer import Value, aval_of

__all__ = [
    "AccuracyMode", "RoundingMethod", "Tolerance", "abs", "add", "atan2", "clamp",
    "clz", "conj", "integer_pow", "max", "min", "mul", "mulhi", "pow", "reciprocal",
    "round", "select", "select_n", "square", "stop_gradient",
]  # fmt: skip


class RoundingMethod(enum.IntEnum):
    """Where `round` takes a number half way between two integers."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


# Functions always are as exact as their dtype: what follows is taken, without effect.


class AccuracyMode(enum.Enum):
    """How exact a function is to be."""

    HIGHEST = 1
    DEFAULT = 2


class Tolerance(NamedTuple):
    """How far from the exact value a function may be.

    Attributes:
      atol, rtol: the absolute and the relative error.
      ulps: units in the last place.
    """

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0


def check_dtypes(name: str, *operands: Value) -> np.dtype[Any]:
    """The one dtype of the operands; a Python number takes any dtype of its kind.

    Raises:
      DtypeError: they have several.
    """
    if not operands:
        raise ValueRangeError(f"lax.{name} requires at least one operand")
    avals = [aval_of(x) for x in operands]
    strong = [aval.dtype for aval in avals if not aval.weak_type] or [avals[0].dtype]
    dtype = strong[0]
    same = all(other == dtype for other in strong)
    if not same or any(_kind(a.dtype) != _kind(dtype) for a in avals if a.weak_type):
        names = ", ".join(f"{aval.dtype}" for aval in avals)
        raise DtypeError(
            f"lax.{name} requires operands of one dtype, got {names}; convert one of "
            "them, or use the function of ftrace.numpy, which promotes"
        )
    return dtype


def _kind(dtype: np.dtype[Any]) -> str:
    kind = dtypes.kind(dtype)
    return "i" if kind == "u" else kind


def check_ranks(name: str, *operands: Value) -> None:
    shapes = [aval_of(x).shape for x in operands]
    ranks = {len(shape) for shape in shapes if shape}
    if len(ranks) > 1:
        listed = " and ".join(map(str, shapes))
        raise ShapeError(
            f"lax.{name} requires operands with the same number of axes, or scalars, "
            f"got shapes {listed}; use lax.broadcast_in_dim or reshape"
        )


_KINDS = {"b": "bools", "i": "integers", "f": "floats", "c": "complex numbers"}


def _set_name(
    function: Any, name: str, op: Primitive, example: str, kinds: str = ""
) -> Any:
    """The function of a primitive, whose docstring says what and of which numbers."""
    of = " or ".join(_KINDS[k] for k in "bifc" if k in (kinds or op.dtypes))
    given, result = example.split(" -> ")
    kind = "float32" if "." in result else "int32"
    kind = "complex64" if "j" in result else kind
    kind = "bool" if result in ("True", "False") else f"{kind}, weak_type=True"
    shown = f">>> lax.{name}({given})\n          Array({result}, dtype={kind})"
    return set_name(function, name, (function.__doc__ or "").format(op.doc, of, shown))


def _unary(name: str, op: Primitive, example: str) -> Callable[..., Any]:
    def function(x: Value) -> Any:
        """Elementwise {0}.

        Args:
          x: an array of {1}; nothing is promoted.

        Returns:
          Of the shape of x.

        Raises:
          DtypeError: x is of another dtype.

        Example:
          {2}
        """
        return apply_elementwise(op, x)

    return _set_name(function, name, op, example)


def _approximated(name: str, op: Primitive, example: str) -> Callable[..., Any]:
    def function(x: Value, *, accuracy: Any = None) -> Any:
        """Elementwise {0}.

        Args:
          x: an array of {1}; nothing is promoted.
          accuracy: accepted, without effect.

        Returns:
          Of the shape of x.

        Raises:
          DtypeError: x is of another dtype.

        Example:
          {2}
        """
        return apply_elementwise(op, x)

    return _set_name(function, name, op, example)


def _binary(
    name: str,
    op: Primitive,
    example: str,
    kinds: str = "",
    of_complex: Callable[[Value, Value], Any] | None = None,
) -> Callable[[Value, Value], Any]:
    """`kinds` restricts the dtypes that the primitive takes."""

    def function(x: Value, y: Value) -> Any:
        """Elementwise {0}.

        Args:
          x, y: arrays of {1}, both of one dtype: nothing is promoted. They have one
            number of axes, or are scalars; an axis of size 1 repeats.

        Returns:
          Of the dtype of both; of comparisons bools.

        Raises:
          DtypeError: the dtypes differ, or are others.
          ShapeError: the shapes do not fit.

        Example:
          {2}
        """
        dtype = check_dtypes(name, x, y)
        if kinds:
            dtypes.require_kind(name, kinds, dtype)
        check_ranks(name, x, y)
        if of_complex is not None and dtypes.is_complex(dtype):
            return of_complex(x, y)
        return (logic.compare if op in p.COMPARES else apply_elementwise)(op, x, y)

    return _set_name(function, name, op, example, kinds)


# One primitive each, which has that name, or another one: an example of each.

_OF_ONE = {
    "acos": "0.5 -> 1.0471976", "acosh": "2.0 -> 1.316958", "asin": "0.5 -> 0.5235988",
    "asinh": "0.5 -> 0.4812118", "atan": "0.5 -> 0.4636476",
    "atanh": "0.5 -> 0.54930615", "bitwise_not": "5 -> -6", "ceil": "1.2 -> 2.",
    "cosh": "0.5 -> 1.1276261", "digamma": "2.0 -> 0.42278433",
    "erf": "0.5 -> 0.5204999", "erf_inv": "0.5 -> 0.47693628",
    "erfc": "0.5 -> 0.47950011", "floor": "1.8 -> 1.", "imag": "1+2j -> 2.",
    "is_finite": "np.inf -> False", "lgamma": "5.0 -> 3.1780539", "neg": "2.0 -> -2.",
    "population_count": "7 -> 3", "real": "1+2j -> 1.", "sign": "-2.0 -> -1.",
    "sinh": "0.5 -> 0.5210953",
}  # fmt: skip
_APPROXIMATED = {
    "cbrt": "8.0 -> 2.", "cos": "0.5 -> 0.87758255", "exp": "1.0 -> 2.718282",
    "exp2": "3.0 -> 8.", "expm1": "0.5 -> 0.6487213", "log": "2.0 -> 0.6931472",
    "log1p": "0.5 -> 0.40546513", "logistic": "1.0 -> 0.7310586", "rsqrt": "4.0 -> 0.5",
    "sin": "0.5 -> 0.47942555", "sqrt": "2.0 -> 1.4142135", "tan": "0.5 -> 0.5463025",
    "tanh": "0.5 -> 0.4621172",
}  # fmt: skip
_OF_TWO = {
    "bitwise_and": "6, 3 -> 2", "bitwise_or": "6, 1 -> 7", "bitwise_xor": "6, 3 -> 5",
    "complex": "1.0, 2.0 -> 1.+2.j", "div": "7, 2 -> 3", "eq": "2, 2 -> True",
    "ge": "2, 3 -> False", "gt": "2, 3 -> False", "le": "2, 3 -> True",
    "lt": "2, 3 -> True", "ne": "2, 3 -> True", "nextafter": "1.0, 2.0 -> 1.0000001",
    "rem": "-7, 3 -> -1", "shift_left": "1, 4 -> 16",
    "shift_right_arithmetic": "-8, 1 -> -4", "shift_right_logical": "8, 1 -> 4",
    "sub": "3, 5 -> -2",
}  # fmt: skip
_NAMES = {
    "bitwise_and": "bit_and", "bitwise_not": "bit_not", "bitwise_or": "bit_or",
    "bitwise_xor": "bit_xor", "complex": "make_complex", "population_count": "popcount",
}  # fmt: skip
_tables = (_unary, _OF_ONE), (_approximated, _APPROXIMATED), (_binary, _OF_TWO)
for _make, _names in _tables:
    globals().update(
        {n: _make(n, getattr(p, _NAMES.get(n, n)), x) for n, x in _names.items()}
    )
globals()["__all__"] += [*_OF_ONE, *_APPROXIMATED, *_OF_TWO]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


add = _binary("add", p.add, "2, 3 -> 5", "iufc")
max = _binary("max", p.maximum, "2, 3 -> 3", of_complex=logic.maximum)
min = _binary("min", p.minimum, "2, 3 -> 2", of_complex=logic.minimum)
_mul = _binary("mul", p.mul, "2, 3 -> 6", "iufc")


def mul(x: Value, y: Value, *, out_dtype: Any = None) -> Any:
    """Elementwise x·y, of numbers of one dtype.

    Args:
      x, y: arrays of numbers of one dtype, and of one number of axes, or scalars; an
        axis of size 1 repeats.
      out_dtype: in which it is computed.

    Raises:
      DtypeError: the dtypes differ: nothing is promoted, unlike in `fnp.multiply`.
      ShapeError: the shapes do not fit.

    Example:
      >>> lax.mul(fnp.array([1, 2]), 3)
      Array([3, 6], dtype=int32)
      >>> few = fnp.array([200], np.uint8)
      >>> lax.mul(few, few), lax.mul(few, few, out_dtype=np.int32)
      (Array([64], dtype=uint8), Array([40000], dtype=int32))
    """
    if out_dtype is not None:
        x, y = (convert_element_type(v, out_dtype) for v in (x, y))
    return _mul(x, y)


# Compositions.


def abs(x: Value) -> Any:
    """Elementwise |x|; an unsigned value is its own.

    Args:
      x: an array of numbers.

    Returns:
      Of the shape and dtype of x; of complex numbers floats of half their width.

    Raises:
      DtypeError: x is of bools.

    Example:
      >>> lax.abs(fnp.array([-3, 2])), lax.abs(3 - 4j)
      (Array([3, 2], dtype=int32), Array(5., dtype=float32, weak_type=True))
    """
    unsigned = dtypes.kind(aval_of(x).dtype) == "u"
    return ax.as_value(x) if unsigned else apply_elementwise(p.absolute, x)


def conj(x: Value) -> Any:
    """Elementwise complex conjugate, of a complex dtype also for real x.

    Args:
      x: an array of floats or complex numbers.

    Example:
      >>> lax.conj(fnp.array([1 + 2j]))
      Array([1.-2.j], dtype=complex64)
    """
    x = ax.as_value(x)
    if not dtypes.is_complex(x.dtype):
        return ax.cast(x, dtypes.complex_dtype(x.dtype), x.weak_type)
    return bind(p.conj, x)


def square(x: Value) -> Any:
    """Elementwise x·x, in the dtype of x.

    Args:
      x: an array of numbers.

    Example:
      >>> lax.square(fnp.array([-3.0, 2.0]))
      Array([9., 4.], dtype=float32)
    """
    return apply_elementwise(p.mul, x, x)


def atan2(x: Value, y: Value) -> Any:
    """Elementwise the angle of the point (y, x), in radians, in (-π, π].

    Args:
      x: the first argument, the ordinate: it is `atan2(y, x)` in the usual letters.
      y: the abscissa; of the dtype of the first.

    Returns:
      Of the dtype of the arguments; of complex numbers what its formula gives.

    Raises:
      DtypeError: the dtypes differ.
      ShapeError: the shapes do not fit.

    Example:
      >>> lax.atan2(fnp.array([1.0, 0.0]), fnp.array([0.0, -1.0]))
      Array([1.5707964, 3.1415927], dtype=float32)
    """
    check_dtypes("atan2", x, y)
    check_ranks("atan2", x, y)
    return ew.arctan2(x, y)


def reciprocal(x: Value) -> Any:
    """Elementwise 1/x.

    Args:
      x: an array of floats or complex numbers.

    Raises:
      DtypeError: x is of integers.

    Example:
      >>> lax.reciprocal(fnp.array([2.0, 0.0]))
      Array([0.5, inf], dtype=float32)
    """
    return integer_pow(x, -1)


def integer_pow(x: Value, y: int) -> Any:
    """Elementwise x to the power of a Python integer, by repeated squaring.

    Args:
      x: an array of numbers.
      y: an int of Python's; of integers not negative.

    Returns:
      Of the shape and dtype of x.

    Raises:
      DtypeError: y is negative and x an integer.

    Example:
      >>> lax.integer_pow(fnp.array([2, 3]), 5)
      Array([ 32, 243], dtype=int32)
    """
    x = ax.as_value(x)
    power = ax.static_int(y, "lax.integer_pow: y")
    if power < 0 and not dtypes.is_inexact(x.dtype):
        raise DtypeError(
            f"lax.integer_pow: integers of {x.dtype.name} have no negative power "
            f"{power}; convert to a float first"
        )
    return integer_power(x, power)


def pow(x: Value, y: Value) -> Any:
    """Elementwise x to the power y.

    Args:
      x: an array of floats or complex numbers.
      y: of its dtype, or of integers; of one shape with x, or a scalar.

    Returns:
      Of the dtype of x; NaN for a negative x and a y that is not whole.

    Raises:
      DtypeError: the dtypes do not fit.

    Example:
      >>> lax.pow(fnp.array([4.0, -8.0]), fnp.array([0.5, 2.0]))
      Array([ 2., 64.], dtype=float32)
    """
    base, exponent = aval_of(x), aval_of(y)
    if not dtypes.is_inexact(base.dtype):
        raise DtypeError(
            f"lax.pow requires a float or complex base, got {base.dtype}; convert "
            "it, or use ftrace.numpy.power"
        )
    if dtypes.is_integer(exponent.dtype):
        y = ax.cast(y, base.dtype, exponent.weak_type)
    check_dtypes("pow", x, y)
    check_ranks("pow", x, y)
    return apply_elementwise(p.power, x, y)


def round(
    x: Value, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO
) -> Any:
    """Elementwise the nearest integer, as a float; the method decides at one half.

    Args:
      x: an array of floats.
      rounding_method: `AWAY_FROM_ZERO`, the default as in JAX, or `TO_NEAREST_EVEN`,
        which is what `fnp.round` does.

    Raises:
      ValueRangeError: there is no such method.

    Example:
      >>> x = fnp.array([0.5, 1.5, -2.5])
      >>> lax.round(x)
      Array([ 1.,  2., -3.], dtype=float32)
      >>> lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
      Array([ 0.,  2., -2.], dtype=float32)
    """
    if rounding_method == RoundingMethod.TO_NEAREST_EVEN:
        return apply_elementwise(p.round_even, x)
    one_of("lax.round: rounding_method", rounding_method, (*RoundingMethod,))
    x = ax.as_value(x)
    whole = apply_elementwise(p.truncate, x)
    rest = apply_elementwise(p.absolute, bind(p.sub, x, whole))
    further = apply_elementwise(p.ge, rest, 0.5)
    away = bind(p.add, whole, bind(p.sign, x))
    return ax.choose(further, away, whole)


def mulhi(x: Value, y: Value, /) -> Any:
    """Elementwise the upper half of x·y, an integer of twice the width.

    Source: H. Warren, "Hacker's Delight", section 8-2, for 64 bits.

    Args:
      x, y: arrays of integers of one dtype; of one shape, or scalars.

    Returns:
      Of their dtype.

    Raises:
      DtypeError: the operands are not integers of one dtype.

    Example:
      >>> lax.mulhi(fnp.array([200], np.uint8), fnp.array([2], np.uint8))  # 400 // 256
      Array([1], dtype=uint8)
    """
    dtype = check_dtypes("mulhi", x, y)
    x, y = (ax.integers(v, "lax.mulhi: the operands") for v in (x, y))
    check_ranks("mulhi", x, y)
    width = 8 * dtype.itemsize
    wide = dtypes.int64 if dtypes.kind(dtype) == "i" else dtypes.uint64
    a, b = ax.cast(x, wide), ax.cast(y, wide)
    if width < 64:
        return ax.cast((a * b) >> width, dtype)
    low = 2**32 - 1
    (a1, a0), (b1, b0) = (a >> 32, a & low), (b >> 32, b & low)
    middle = a1 * b0 + (apply_elementwise(p.shift_right_logical, a0 * b0, 32))
    return a1 * b1 + (middle >> 32) + ((a0 * b1 + (middle & low)) >> 32)


def clz(x: Value) -> Any:
    """Elementwise the number of leading bits that are zero.

    Args:
      x: an array of integers.

    Raises:
      DtypeError: x is of another kind.

    Example:
      >>> lax.clz(fnp.array([0, 1, 8, -1]))
      Array([32, 31, 28,  0], dtype=int32)
    """
    x = ax.integers(x, "lax.clz: the operand")
    width = 8 * x.dtype.itemsize
    filled, shift = x, 1
    while shift < width:  # every bit below the highest one is set
        below = apply_elementwise(p.shift_right_logical, filled, shift)
        filled, shift = bind(p.bit_or, filled, below), 2 * shift
    return bind(p.popcount, bind(p.bit_not, filled))


def clamp(min: Value, x: Value, max: Value) -> Any:
    """Elementwise x, not less than `min` and not more than `max`.

    `max` wins where the bounds cross; NaN stays. At a bound the derivative is 0.

    Args:
      min, max: of the dtype of x; scalars, or of its shape.
      x: the array. Note the order, which is not that of `fnp.clip`.

    Raises:
      ShapeError: a bound has another shape.
      DtypeError: the dtypes differ.

    Example:
      >>> lax.clamp(0.0, fnp.array([-1.0, 0.5, 3.0]), 1.0)
      Array([0. , 0.5, 1. ], dtype=float32)
    """
    check_dtypes("clamp", min, x, max)
    x = ax.as_value(x)
    for name, bound in (("min", min), ("max", max)):
        if aval_of(bound).shape not in ((), x.shape):
            raise ShapeError(
                f"lax.clamp: {name} must be a scalar or have the shape {x.shape} of x, "
                f"got {aval_of(bound).shape}"
            )
    raised = ax.choose(_beyond(p.le, x, min), min, x)
    return ax.choose(_beyond(p.ge, raised, max), max, raised)


def _beyond(compare: Any, x: Any, bound: Any) -> Any:
    """Where the bound is taken: also where it is NaN."""
    beyond = apply_elementwise(compare, x, bound)
    plain = isinstance(bound, (int, float)) and bound == bound
    if plain or not dtypes.is_float(x.dtype):
        return beyond
    return apply_elementwise(p.bit_or, beyond, apply_elementwise(p.ne, bound, bound))


def select(pred: Value, on_true: Value, on_false: Value) -> Any:
    """Elementwise `on_true` where the predicate holds, `on_false` elsewhere.

    Both cases are computed; `lax.cond` runs one alone.

    Args:
      pred: bools, of the shape of the cases or a scalar.
      on_true, on_false: arrays of one shape and dtype: nothing broadcasts, unlike in
        `fnp.where`.

    Raises:
      ShapeError: the shapes differ; the predicate may be a scalar.
      DtypeError: the dtypes of the cases differ, or the predicate is not bool.

    Example:
      >>> lax.select(fnp.array([True, False]), fnp.array([1, 2]), fnp.array([10, 20]))
      Array([ 1, 20], dtype=int32)
    """
    return select_n(pred, on_false, on_true)


def select_n(which: Value, *cases: Value) -> Any:
    """Elementwise the case whose number `which` holds; of two cases, also by bool.

    Args:
      which: integers or, of two cases, bools (False is the first); a scalar, or of
        their shape.
      cases: arrays of one shape and dtype.

    Returns:
      Of the shape and dtype of the cases. A number that no case has takes the first.

    Raises:
      ShapeError: the shapes of the cases differ, or that of `which` from them.
      DtypeError: the dtypes of the cases differ, or `which` is of another kind.

    Example:
      >>> cases = [fnp.array([1, 2, 3]) * factor for factor in (1, 10, 100)]
      >>> lax.select_n(fnp.array([2, 0, 1]), *cases)
      Array([100,   2,  30], dtype=int32)
    """
    if not cases:
        raise ValueRangeError("lax.select_n requires at least one case")
    check_dtypes("select", *cases)
    number = ax.as_value(which)
    first = ax.one_shape("lax.select", cases)
    if number.shape not in ((), first):
        raise ShapeError(
            f"lax.select: the predicate must be a scalar or have the shape {first} of "
            f"the cases, got {number.shape}"
        )
    by_bool = number.dtype == dtypes.bool_
    if by_bool and len(cases) == 1:
        return ax.as_value(cases[0])
    if by_bool and len(cases) == 2:
        return ax.choose(number, cases[1], cases[0])
    if not dtypes.is_integer(number.dtype):
        raise DtypeError(
            f"lax.select: with {len(cases)} cases the selector must be an integer"
            f"{' or bool' * (len(cases) <= 2)}, got {number.dtype.name}"
        )
    if number.dtype.itemsize < 4:  # the number of a case may not fit
        number = ax.cast(number, dtypes.int32)
    result = ax.as_value(cases[0])
    for i, case in enumerate(cases[1:], 1):
        result = ax.choose(apply_elementwise(p.eq, number, i), case, result)
    return result


def stop_gradient(x: Any) -> Any:
    """The same values, constant to derivatives.

    Args:
      x: an array, or a pytree of them.

    Returns:
      What it was given; derivatives with respect to it are 0.

    Example:
      >>> ft.grad(lambda x: x * lax.stop_gradient(x))(3.0)  # and not 6
      Array(3., dtype=float32, weak_type=True)
    """

    def stop(leaf: Any) -> Any:
        if type(leaf) is Array and recording.tape is None:
            return leaf  # nothing is differentiated
        inexact = dtypes.is_inexact(aval_of(leaf).dtype)
        return bind(p.stop_gradient, ax.as_value(leaf)) if inexact else leaf

    return tree.map(stop, x)

"""Division with remainder, powers, rounding, and the whole numbers' gcd and lcm."""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import DtypeError, UnsupportedDtypeError, ValueRangeError
from ftrace.numpy import axes as ax, elementwise as ew, logic
from ftrace.trace.arrays.array import is_array, recording
from ftrace.trace.bind import bind, bind_compound, broadcast_shapes, do_now, elementwise
from ftrace.trace.body import close
from ftrace.trace.control.conditional import While, while_p
from ftrace.trace.control.scan import Scan, scan_p
from ftrace.trace.eager.function_objects import member
from ftrace.trace.graph import Node
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.sources import const_like, variables
from ftrace.trace.tracing.scopes import asarray
from ftrace.trace.tracing.tracer import Tracer, Value, aval_of

__all__ = [
    "around", "ceil", "divmod", "fix", "float_power", "floor", "floor_divide",
    "fmod", "gcd", "lcm", "mod", "modf", "pow", "power", "remainder", "rint",
    "round", "trunc",
]  # fmt: skip

# Division with remainder.


def _divisible(name: str, x1: Value, x2: Value) -> list[Any]:
    """Two real operands in their common dtype, which is not bool."""
    ew.refuse_complex(name, x1, x2)
    dtype, weak = ew.common_type(x1, x2)
    if dtype == dtypes.bool_:
        dtype = dtypes.int32
    return [ax.cast(x, dtype, weak) for x in (x1, x2)]


def fmod(x1: Value, x2: Value, /) -> Any:
    """The remainder with the sign of x1; 0 for a whole x2 = 0.

    Args:
      x1, x2: real arrays or numbers; their shapes broadcast, and their dtypes promote.

    Returns:
      An array of the common shape, in the common dtype; int32 for bools.

    Raises:
      DtypeError: an operand is complex.

    Example:
      >>> fnp.fmod(fnp.array([7, -7]), 3)
      Array([ 1, -1], dtype=int32)
    """
    x1, x2 = _divisible("fmod", x1, x2)
    return _remainder(x1, x2)


def _remainder(x1: Any, x2: Any) -> Any:
    result = elementwise(p.rem, x1, x2)
    return result if dtypes.is_float(x1.dtype) else ax.choose(x2 == 0, 0, result)


def remainder(x1: Value, x2: Value, /) -> Any:
    """The remainder with the sign of x2: x1 - x2·floor(x1 / x2); 0 for a whole x2 = 0.

    Args:
      x1, x2: real arrays or numbers; their shapes broadcast, and their dtypes promote.

    Returns:
      An array of the common shape, in the common dtype; int32 for bools.

    Raises:
      DtypeError: an operand is complex.

    Example:
      >>> fnp.mod(fnp.array([7, -7]), 3)
      Array([1, 2], dtype=int32)
      >>> fnp.array([7, -7]) % -3
      Array([-2, -1], dtype=int32)
    """
    x1, x2 = _divisible("remainder", x1, x2)
    rest = _remainder(x1, x2)
    if dtypes.kind(rest.dtype) == "u":
        return rest
    if dtypes.is_float(rest.dtype):  # zeros have the sign of x2 as well
        rest = ax.choose(x2 < 0, -(0 - rest), rest + 0)
    return ax.choose(_differs(rest, x2), rest + x2, rest)


mod = remainder


def _differs(rest: Any, x2: Any) -> Any:
    """Where the remainder is not zero and has not the sign of x2."""
    return (rest != 0) & ((rest < 0) != (x2 < 0))


def floor_divide(x1: Value, x2: Value, /) -> Any:
    """x1 / x2 rounded down, in the dtype of the operands; infinities stay.

    Args:
      x1, x2: real arrays or numbers; their shapes broadcast, and their dtypes promote.

    Returns:
      An array of the common shape, in the common dtype; int32 for bools.

    Raises:
      DtypeError: an operand is complex.

    Example:
      >>> fnp.floor_divide(fnp.array([7, -7]), 2)
      Array([ 3, -4], dtype=int32)
      >>> fnp.array([7.5]) // 2
      Array([3.], dtype=float32)
    """
    x1, x2 = _divisible("floor_divide", x1, x2)
    rest = elementwise(p.rem, x1, x2)
    if dtypes.is_integer(x1.dtype):
        quotient = elementwise(p.div, x1, x2)
        if dtypes.kind(x1.dtype) == "u":
            return quotient
        inexact = (rest != 0) & (ew.sign(x1) != ew.sign(x2))
        return quotient - ax.cast(inexact, quotient.dtype, quotient.weak_type)
    # There is no remainder of an infinity, and none for a divisor of zero; a quotient
    # of zero has the sign of x1 / x2.
    whole = logic.copysign(x1 - ax.choose(rest == rest, rest, 0), x1)
    quotient = whole / x2
    # A step: its derivative is zero.
    return ew.round_values(ax.choose(_differs(rest, x2), quotient - 1, quotient))


def divmod(x1: Value, x2: Value, /) -> tuple[Any, Any]:
    """The pair (floor_divide, remainder).

    Args:
      x1, x2: real arrays or numbers; their shapes broadcast, and their dtypes promote.

    Returns:
      (quotient, remainder) with x1 = quotient·x2 + remainder.

    Raises:
      DtypeError: an operand is complex.

    Example:
      >>> fnp.divmod(fnp.array([7, -7]), 3)
      (Array([ 2, -3], dtype=int32), Array([1, 2], dtype=int32))
    """
    return floor_divide(x1, x2), remainder(x1, x2)


# Powers.


def power(x1: Value, x2: Value, /) -> Any:
    """x1 to the power x2; by multiplication where x2 is one whole number.

    Args:
      x1: the base.
      x2: the exponent; the shapes broadcast, and the dtypes promote.

    Returns:
      An array of the common shape, in the common dtype; int32 for bools. Integers wrap.

    Raises:
      DtypeError: integers to a negative power that is known.

    Example:
      >>> fnp.power(fnp.array([1, 2, 3]), 2)
      Array([1, 4, 9], dtype=int32)
      >>> fnp.power(2.0, fnp.array([-1, 0, 3]))
      Array([0.5, 1. , 8. ], dtype=float32, weak_type=True)
    """
    if type(x2) is int and ew.kind_of(x1) != "b":
        return integer_power(ax.as_value(x1), x2)
    exponent = _known_integer(x2)
    dtype, weak = ew.common_type(x1, x2)
    if dtype == dtypes.bool_:
        dtype = dtypes.int32
    weak = weak and ew.kind_of(x1) != "b"
    if exponent is not None:
        return integer_power(ax.cast(x1, dtype, weak), exponent)
    if dtypes.is_integer(dtype):
        x2 = ax.cast(x2, dtype, weak and ew.kind_of(x2) != "b")
        return _integer_powers(x1, ax.cast(x1, dtype, weak), x2)
    return elementwise(p.power, x1, x2)


pow = power


def _known_integer(x: Value) -> int | None:
    if type(x) is int:
        return x
    known = is_array(x) or isinstance(x, np.generic)
    if not known or x.shape or ew.kind_of(x) not in "iu":
        return None
    if recording.tape is not None:  # it decides what is done
        recording.tape.refuse()
    return int(asarray(x).numpy())


def integer_power(x: Any, exponent: int) -> Any:
    """`x` multiplied by itself: in 2·log2(exponent) multiplications.

    16-bit floats are multiplied in float32 and rounded once.

    Raises:
      DtypeError: integers to a negative power.
    """
    if exponent < 0 and dtypes.is_integer(x.dtype):
        raise DtypeError(
            f"integers cannot be raised to a negative power: power of "
            f"{x.dtype.name} and {exponent}; write a float, x ** {exponent}.0"
        )
    if exponent < -1 and isinstance(x, Tracer) and dtypes.is_float(x.dtype):
        # The slope of 1 divided by a product is lost where that is 0 or infinite.
        return elementwise(p.power, x, float(exponent))
    if dtypes.is_float(x.dtype) and x.dtype.itemsize < 4 and abs(exponent) > 1:
        wide = integer_power(ax.cast(x, dtypes.float32), exponent)
        return ax.cast(wide, x.dtype, x.weak_type)
    if exponent < 0:
        return _inverse(x, -exponent)
    if exponent == 0:
        return ax.full(x.shape, 1, x.dtype, x.weak_type)
    return by_squaring(operator.mul, x, exponent)


def by_squaring(times: Callable[[Any, Any], Any], x: Any, exponent: int) -> Any:
    """`x` multiplied by itself, for an exponent from 1."""
    result = None
    while True:
        if exponent & 1:
            result = x if result is None else times(result, x)
        exponent >>= 1
        if not exponent:
            return result
        x = times(x, x)


def _inverse(x: Any, exponent: int) -> Any:
    """1 / xⁿ; also where that is denormal, and xⁿ is too large for a float.

    Large powers are scaled by a power of two, and so is the 1 that they divide.
    """
    if exponent == 1 or not dtypes.is_float(x.dtype):
        return 1 / integer_power(x, exponent)
    half = integer_power(x, exponent // 2)
    rest = half * x if exponent & 1 else half
    bits = int(np.finfo(x.dtype).maxexp)
    large = abs(rest) >= 2.0 ** (bits // 2 - 4)
    one = ax.full((), 1, x.dtype, x.weak_type)
    scale = ax.choose(large, one * 2.0 ** -(bits // 4), one)
    return scale / (half * scale * rest)


def _integer_powers(original: Value, x: Any, exponents: Any) -> Any:
    """Integers to integer powers, by squaring; 0 for negative powers, but of ±1.

    Each is squared as often as its own exponent asks for: most are small, and a step
    for each bit of their dtype takes ten times as long.
    """
    if type(original) is int and original == 2:
        return ew.left_shift(1, exponents)
    start = ax.full((), 1, x.dtype)
    if dtypes.kind(exponents.dtype) == "i":
        inverse = ax.choose(abs(x) == 1, ax.choose(exponents & 1 != 0, x, 1), 0)
        start = ax.choose(exponents < 0, inverse, start)
        exponents = ax.choose(exponents < 0, 0, exponents)
    one = ax.full(exponents.shape, 1, x.dtype)
    return start * _loop_over("power", np.power, _square_once, one, x, exponents)


def _square_once(result: Node, square: Node, rest: Node) -> tuple[Node, list[Node]]:
    """Result·square where the exponent is odd; square²; exponent/2."""
    zero, one = const_like(rest, 0), const_like(rest, 1)
    odd = p.ne(p.bit_and(rest, one), zero)
    factor = p.select(odd, square, const_like(square, 1))
    halved = p.shift_right_arithmetic(rest, one)
    values = [p.mul(result, factor), p.mul(square, square), halved]
    return p.lt(zero, rest), values


def _loop_over(
    name: str, ufunc: Any, step: Callable[..., tuple[Node, list[Node]]], *first: Any
) -> Any:
    """The first of some values after steps, as many as each element asks for.

    Args:
      ufunc: NumPy's function of the last two of them, which does the same.
      step: (*values) -> (whether to take it, what the values are then).
      first: the values to begin with.
    """
    shape = broadcast_shapes(name, [x.shape for x in first])
    carry = [ax.broadcast_to(x, shape) for x in first]
    x, y = carry[-2:]
    weak = x.weak_type and y.weak_type
    found = do_now(ufunc, x, y, dtype=x.dtype, weak=weak)
    if found is not None:
        return found
    avals = [aval_of(x).with_shape(()) for x in carry]
    names = variables(avals, "body")
    more, values = step(*names)
    loop = While(close(names, [more]), close(names, values), 0)
    last = while_p.results(*names, arg=loop)[:1]
    size = prod(carry[0].shape)
    arg = Scan(close(names, last), size, False, 0, 0)
    rows = [ax.reshape(x, (size,)) for x in carry]
    return ax.reshape(bind_compound(scan_p, *rows, arg=arg)[0], carry[0].shape)


def float_power(x1: Value, x2: Value, /) -> Any:
    """x1 to the power x2, as floats.

    Args:
      x1: the base.
      x2: the exponent; the shapes broadcast, and the dtypes promote.

    Returns:
      An array of the common shape: float32 for integers, where NumPy has float64.

    Example:
      >>> fnp.float_power(fnp.array([1, 2, 4]), -1)
      Array([1.  , 0.5 , 0.25], dtype=float32)
    """
    return power(*ew.promote_inexact(x1, x2))


# Rounding.


def _rounding(name: str, by: Callable[[Any], Any]):
    def function(x: Value, /) -> Any:
        """A whole number near each element.

        Args:
          x: an array of any shape, or a number; real.

        Returns:
          An array of the shape and dtype of `x`. Its derivative is 0.
        """
        return ax.as_value(x) if ew.kind_of(x) in "biu" else by(x)

    return function


@member(_rounding, ew.floor_values)
def floor():
    """Rounded down; integers stay.

    Example:
      >>> fnp.floor(fnp.array([-1.5, 0.5, 2.0]))
      Array([-2.,  0.,  2.], dtype=float32)
    """


@member(_rounding, lambda x: elementwise(p.ceil, x))
def ceil():
    """Rounded up; integers stay.

    Example:
      >>> fnp.ceil(fnp.array([-1.5, 0.5, 2.0]))
      Array([-1.,  1.,  2.], dtype=float32)
    """


def trunc(x: Value) -> Any:
    """Rounded toward 0; integers stay.

    Args:
      x: an array of any shape, or a number; real.

    Returns:
      An array of the shape and dtype of `x`. Its derivative is 0.

    Example:
      >>> fnp.trunc(fnp.array([-1.5, 0.5, 2.0]))
      Array([-1.,  0.,  2.], dtype=float32)
    """
    return ax.as_value(x) if ew.kind_of(x) in "biu" else ew.truncate_values(x)


fix = trunc


def rint(x: Value, /) -> Any:
    """Rounded to the nearest whole number, ties to even, as a float.

    Args:
      x: an array of any shape, or a number.

    Returns:
      An array of the shape of `x`; float32 for integers. Of complex numbers both parts
      are rounded.

    Example:
      >>> fnp.rint(fnp.array([0.5, 1.5, 1.7]))
      Array([0., 2., 2.], dtype=float32)
    """
    if ew.kind_of(x) not in "fc":
        x = ax.cast(x, dtypes.default_dtype("f"))
    return _round_parts(ax.as_value(x))


def _round_parts(x: Any) -> Any:
    if ew.kind_of(x) != "c":
        return ew.round_values(x)
    return bind(
        p.make_complex, ew.round_values(ew.real(x)), ew.round_values(ew.imag(x))
    )


def round(a: Value, decimals: int = 0, out: None = None) -> Any:
    """Rounded to decimals, ties to even; negative ones are places before the point.

    Args:
      a: an array of any shape, or a number.
      decimals: how many places behind the point stay; a Python integer.
      out: not supported.

    Returns:
      An array of the shape and dtype of `a`.

    Raises:
      DtypeError: bools or integers to negative decimals.

    Example:
      >>> fnp.round(fnp.array([0.5, 1.5, 2.6]))
      Array([0., 2., 3.], dtype=float32)
      >>> fnp.round(fnp.array([3.14159, 2.71828]), 2)
      Array([3.14, 2.72], dtype=float32)
      >>> fnp.round(fnp.array([314.0, 271.0]), -2)
      Array([300., 300.], dtype=float32)
    """
    ax.no_out("round", out)
    a = ax.as_value(a)
    decimals = ax.static_int(decimals, "round: decimals")
    if dtypes.kind(a.dtype) in "biu":
        if decimals < 0:
            raise UnsupportedDtypeError(
                f"round: {a.dtype.name} cannot be rounded to {decimals} decimals; "
                "convert it to a float first"
            )
        return a
    if decimals == 0:
        return _round_parts(a)
    # 16-bit floats would overflow or lose the decimals on the way.
    wide = ax.cast(a, dtypes.float32) if a.dtype.itemsize == 2 else a
    factor = 10.0 ** abs(decimals)
    if decimals > 0:
        rounded = _round_parts(wide * factor) / factor
    else:
        rounded = _round_parts(wide / factor) * factor
    return ax.cast(rounded, a.dtype, a.weak_type)


around = round


def modf(x: Value, /, out: None = None) -> tuple[Any, Any]:
    """The fraction and the whole part of x, both with its sign.

    Args:
      x: an array of any shape, or a number; real.
      out: not supported.

    Returns:
      (fraction, whole part): floats of the shape of `x`.

    Example:
      >>> fnp.modf(fnp.array([1.5, -2.25]))
      (Array([ 0.5 , -0.25], dtype=float32), Array([ 1., -2.], dtype=float32))
    """
    ax.no_out("modf", out)
    (x,) = ew.promote_inexact(x)
    whole = ew.truncate_values(x)
    # Of negative numbers the other way round and negated: their zeros are −0.
    negative = logic.signbit(x)
    size = ax.choose(negative, whole - x, x - whole)
    size = ax.choose(logic.isinf(x), 0.0, size)
    return ax.choose(negative, size * -1, size), whole


# Divisors and multiples.


def _promote_integers(name: str, x1: Value, x2: Value) -> list[Any]:
    x1, x2 = ew.promote_together(x1, x2)
    if not dtypes.is_integer(x1.dtype):
        raise ValueRangeError(f"{name} takes integers, got {x1.dtype.name}")
    return [x1, x2]


def gcd(x1: Value, x2: Value) -> Any:
    """The greatest common divisor, from 0.

    Args:
      x1, x2: integers; their shapes broadcast, and their dtypes promote.

    Returns:
      An array of the common shape, in the common dtype.

    Raises:
      ValueRangeError: an operand is no integer.

    Example:
      >>> fnp.gcd(fnp.array([12, 7, 0]), 8)
      Array([4, 1, 8], dtype=int32)
    """
    x1, x2 = map(abs, _promote_integers("gcd", x1, x2))
    # The least number of a dtype is its own absolute value, and leaves its sign behind.
    return abs(_loop_over("gcd", np.gcd, _divide_once, x1, x2))


def _divide_once(x: Node, y: Node) -> tuple[Node, list[Node]]:
    """(y, x mod y) where y is not zero; where it is, x is the divisor."""
    return p.ne(y, const_like(y, 0)), [y, p.rem(x, y)]


def lcm(x1: Value, x2: Value) -> Any:
    """The least common multiple, from 0.

    Args:
      x1, x2: integers; their shapes broadcast, and their dtypes promote.

    Returns:
      An array of the common shape, in the common dtype.

    Raises:
      ValueRangeError: an operand is no integer.

    Example:
      >>> fnp.lcm(fnp.array([4, 6]), 10)
      Array([20, 30], dtype=int32)
    """
    x1, x2 = map(abs, _promote_integers("lcm", x1, x2))
    divisor = gcd(x1, x2)
    safe = ax.choose(divisor == 0, 1, divisor)
    return elementwise(p.div, x1, safe) * x2

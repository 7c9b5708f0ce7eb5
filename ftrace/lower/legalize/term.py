"""Formulas over nodes: a `Term` is a node with Python's operators.

A number in a formula becomes a constant of the other operand's dtype and shape, so
that one formula serves scalars of a kernel and whole arrays of a graph. Nodes are
interned: a subexpression that is written twice is computed once.

Behind them the parts of floating-point numbers, and sums and products without rounding
error. In float32 and float64 (IEEE 754): a sign bit, the exponent with a bias, the
fraction.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from ftrace import dtypes
from ftrace.errors import GraphError, PrimitiveError
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.kernel.ir import KernelOp, fma_p
from ftrace.trace.avals import Shape, ShapedArray
from ftrace.trace.graph import Node, Op, make_node
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.sources import const_p

Number = int | float
T = TypeVar("T")

#: y·2ⁿ, rounded once, for an integral float n. A device that has an instruction for
#: it (AVX-512's scalef) says so by its name; for the others it is decomposed.
ldexp_p = KernelOp("ldexp")

#: The two parts of a number that is not negative, x = mantissa·2^exponent with the
#: mantissa in [3/4, 3/2) and the exponent a float: 1·2^-∞ is 0 and 1·2^∞ is ∞. NaN has
#: the mantissa NaN, and so has a number less than 0. Devices have instructions for
#: them, or they are decomposed, as `ldexp`.
mantissa_p = KernelOp("mantissa")
exponent_p = KernelOp("exponent")

#: `arg` of an fma whose product may be rounded: polynomials do not need it exact.
RELAXED: Final = "relaxed"

#: `arg` of a select whose first value is seldom taken and much dearer than the second:
#: a device may branch around it where no lane takes it. The meaning is that of select.
RARE: Final = "rare"

_FORMATS: Final = {
    dtypes.float32: "=f", dtypes.float64: "=d", dtypes.int32: "=i", dtypes.int64: "=q",
    dtypes.uint32: "=I", dtypes.uint64: "=Q", dtypes.bool_: "=?",
    dtypes.int16: "=h", dtypes.uint16: "=H", dtypes.int8: "=b", dtypes.uint8: "=B",
}  # fmt: skip


def _operator(op: p.Primitive) -> Callable[[Term, Operand], Term]:
    return lambda x, y: _same(op, x, y)


def _reflect(op: p.Primitive) -> Callable[[Term, Number], Term]:
    return lambda x, y: _same(op, number(y, x), x)


def _comparison(op: p.Primitive) -> Callable[[Term, Operand], Term]:
    return lambda x, y: _compare(op, x, y)


def _function(op: Op) -> Callable[..., Term]:
    """Of terms of one type, which is that of the result, too."""
    return lambda *terms: apply(op, *terms)


class Term:
    """A node in a formula. Comparisons give bool terms; `==` is the function `eq`."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.node.aval.dtype

    @property
    def single(self) -> bool:
        """Is it float32? The formulas know it and float64."""
        return self.node.aval.dtype == dtypes.float32

    def either(self, values: tuple[T, T]) -> T:
        """Of two values the first one for float32, the second for float64."""
        return values[not self.single]

    def __bool__(self) -> bool:
        raise PrimitiveError(
            "a kernel's formula cannot branch on a term, which has no value yet: use "
            "select(condition, x, y) instead of if, and, or, min and max"
        )

    __add__ = _operator(p.add)
    __radd__ = _reflect(p.add)
    __sub__ = _operator(p.sub)
    __rsub__ = _reflect(p.sub)
    __mul__ = _operator(p.mul)
    __rmul__ = _reflect(p.mul)
    __truediv__ = _operator(p.div)
    __rtruediv__ = _reflect(p.div)
    __and__ = _operator(p.bit_and)
    __or__ = _operator(p.bit_or)
    __xor__ = _operator(p.bit_xor)
    __lshift__ = _operator(p.shift_left)
    __neg__ = _function(p.neg)
    __abs__ = _function(p.absolute)
    __invert__ = _function(p.bit_not)
    __lt__ = _comparison(p.lt)
    __le__ = _comparison(p.le)
    __gt__ = _comparison(p.gt)
    __ge__ = _comparison(p.ge)

    def __rshift__(self, other: Operand) -> Term:
        """Filled with the sign for signed integers, with 0 for unsigned ones."""
        signed = self.dtype in dtypes.SIGNED
        shift = p.shift_right_arithmetic if signed else p.shift_right_logical
        return _same(shift, self, other)


Operand = Term | int | float


def number(value: Number, like: Term) -> Term:
    """A constant of the dtype and shape of `like`."""
    return number_of(value, like.dtype, like.node.shape)


def number_of(value: Number, dtype: np.dtype[Any], shape: Shape) -> Term:
    """A constant of a dtype and shape."""
    bits = struct.pack(_FORMATS[dtype], value)
    return Term(make_node(const_p, ShapedArray.of(shape, dtype), (), bits))


def _term(operand: Operand, like: Term) -> Term:
    return operand if isinstance(operand, Term) else number(operand, like)


def _same(op: p.Primitive, x: Term, other: Operand) -> Term:
    y = _term(other, x)
    assert x.dtype == y.dtype, (op, x.node, y.node)
    return Term(make_node(op, x.node.aval, (x.node, y.node)))


def _compare(op: p.Primitive, x: Term, other: Operand) -> Term:
    y = _term(other, x)
    assert x.dtype == y.dtype, (op, x.node, y.node)
    aval = ShapedArray.of(x.node.aval.shape, dtypes.bool_)
    return Term(make_node(op, aval, (x.node, y.node)))


eq = _comparison(p.eq)
ne = _comparison(p.ne)


def select(chosen: Term, x: Operand, y: Operand, arg: str | None = None) -> Term:
    """x where `chosen` holds, y elsewhere; one of them at least is a term."""
    if not isinstance(x, Term):
        if not isinstance(y, Term):
            raise GraphError("a select of two numbers has no dtype")
        x = number(x, y)
    other = _term(y, x)
    src = (chosen.node, x.node, other.node)
    return Term(make_node(p.select, x.node.aval, src, arg))


def fma(a: Operand, b: Operand, c: Operand) -> Term:
    """a·b + c, rounded once."""
    return _fma(a, b, c, None)


def mul_add(a: Operand, b: Operand, c: Operand) -> Term:
    """a·b + c, where a device without fma may round the product too."""
    return _fma(a, b, c, RELAXED)


def _fma(a: Operand, b: Operand, c: Operand, arg: str | None) -> Term:
    like = next(x for x in (a, b, c) if isinstance(x, Term))
    src = (_term(a, like).node, _term(b, like).node, _term(c, like).node)
    return Term(make_node(fma_p, like.node.aval, src, arg))


def polynomial(x: Term, coefficients: Sequence[float]) -> Term:
    """Horner's rule, highest power first."""
    value: Operand = coefficients[0]
    for coefficient in coefficients[1:]:
        value = mul_add(value, x, coefficient)
    assert isinstance(value, Term)
    return value


def apply(op: Op, *terms: Term) -> Term:
    """An operation whose result has the type of its operands."""
    return Term(make_node(op, terms[0].node.aval, tuple(t.node for t in terms)))


sqrt = _function(p.sqrt)
trunc = _function(p.truncate)
round_even = _function(p.round_even)
#: x·2ⁿ rounded once, for an integral float |n| ≤ 2·bias.
ldexp = _function(ldexp_p)
#: x/2^k in [3/4, 3/2); see `mantissa_p`. And k, a float.
mantissa, exponent = _function(mantissa_p), _function(exponent_p)


def cast(x: Term, dtype: np.dtype[Any]) -> Term:
    return Term(p.cast(x.node, dtype))


def bitcast(x: Term, dtype: np.dtype[Any]) -> Term:
    aval = ShapedArray.of(x.node.aval.shape, dtype)
    return Term(make_node(p.bitcast, aval, (x.node,), dtype))


INFINITY: Final = float("inf")
NAN: Final = float("nan")


class Format(NamedTuple):
    """The layout of a floating-point dtype.

    Attributes:
      bits: the signed integer dtype of the same width.
      fraction: the number of fraction bits.
      bias: of the exponent.
      sign: the sign bit, as a signed integer.
      magic: 1.5·2^fraction: x + magic has round(x) in its lowest bits.
      tiny: the least positive normal number.
    """

    bits: np.dtype[Any]
    fraction: int
    bias: int
    sign: int
    magic: float
    tiny: float


SINGLE: Final = Format(dtypes.int32, 23, 127, -(2**31), 1.5 * 2.0**23, 2.0**-126)
DOUBLE: Final = Format(dtypes.int64, 52, 1023, -(2**63), 1.5 * 2.0**52, 2.0**-1022)


def bits_of_number(value: float, single: bool) -> int:
    """The bits of a constant, as a signed integer."""
    float_format, integer_format = ("=f", "=i") if single else ("=d", "=q")
    (bits,) = struct.unpack(integer_format, struct.pack(float_format, value))
    return int(bits)


def format_of(x: Term) -> Format:
    """The layout of a float32 or float64 term."""
    return SINGLE if x.single else DOUBLE


def bits_of(x: Term) -> Term:
    """The bits of a float as a signed integer."""
    return bitcast(x, format_of(x).bits)


def float_of(bits: Term) -> Term:
    """The float with these bits."""
    single = bits.dtype.itemsize == 4
    return bitcast(bits, dtypes.float32 if single else dtypes.float64)


def sign_bit(x: Term) -> Term:
    return bits_of(x) & format_of(x).sign


def copy_sign(magnitude: Term, x: Term) -> Term:
    """A number that is not negative with the sign of x."""
    return float_of(bits_of(magnitude) | sign_bit(x))


def is_negative(x: Term) -> Term:
    """Is the sign bit set? True for -0."""
    return bits_of(x) < 0


def clamp(x: Term, low: float | None, high: float | None) -> Term:
    """x within bounds; NaN stays."""
    if high is not None:
        x = select(x > high, high, x)
    if low is not None:
        x = select(x < low, low, x)
    return x


def nearest(x: Term, factor: float | None = None) -> tuple[Term, Term]:
    """The integer nearest to x·factor, and x·factor + magic, whose low bits hold it.

    For |x·factor| < 2^(fraction - 2). Two operations; no conversion to integers.
    """
    magic = format_of(x).magic
    shifted = x + magic if factor is None else mul_add(x, factor, magic)
    return shifted - magic, shifted


def power_of_two(shifted: Term, offset: int = 0) -> Term:
    """2^(n + offset) where `shifted` is n + magic and the result is normal."""
    layout = format_of(shifted)
    exponent = bits_of(shifted) + (layout.bias + offset)
    return float_of(exponent << layout.fraction)


def integer_to_float(i: Term) -> Term:
    """A small int32 or int64 as a float of the same width, exactly.

    Few machines convert int64 in vectors: there it is two operations on the bits.
    """
    if i.dtype.itemsize == 4:
        return cast(i, dtypes.float32)
    return float_of(i + bits_of_number(DOUBLE.magic, single=False)) - DOUBLE.magic


# Error-free transformations (T. J. Dekker 1971; D. E. Knuth; with fma for products).

Pair = tuple[Term, Term]


def fast_two_sum(a: Term, b: Operand) -> Pair:
    """a + b = sum + error exactly, if |a| ≥ |b| or a is a multiple of b's last bit."""
    total = a + b
    return total, (b - (total - a))


def two_sum(a: Term, b: Term) -> Pair:
    """a + b = sum + error exactly."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: Term, b: Operand) -> Pair:
    """a·b = product + error exactly."""
    product = a * b
    return product, fma(a, b, -product)

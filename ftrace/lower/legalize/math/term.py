"""Formulas over nodes: a `Term` is a node with Python's operators.

A number in a formula becomes a constant of the other operand's dtype and shape, so
that one formula serves scalars of a kernel and whole arrays of a graph. Nodes are
interned: a subexpression that is written twice is computed once.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ftrace import dtypes
from ftrace.errors import GraphError, PrimitiveError
from ftrace.lower.kernel.ir import KernelOp, fma_p
from ftrace.trace.avals import Shape, ShapedArray
from ftrace.trace.graph import Node, make_node
from ftrace.trace.primitives import elementwise as ew
from ftrace.trace.primitives.sources import const_p

Number = int | float

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

    def __bool__(self) -> bool:
        raise PrimitiveError(
            "a kernel's formula cannot branch on a term, which has no value yet: use "
            "select(condition, x, y) instead of if, and, or, min and max"
        )

    def __add__(self, other: Operand) -> Term:
        return _same(ew.add, self, other)

    def __radd__(self, other: Number) -> Term:
        return _same(ew.add, number(other, self), self)

    def __sub__(self, other: Operand) -> Term:
        return _same(ew.sub, self, other)

    def __rsub__(self, other: Number) -> Term:
        return _same(ew.sub, number(other, self), self)

    def __mul__(self, other: Operand) -> Term:
        return _same(ew.mul, self, other)

    def __rmul__(self, other: Number) -> Term:
        return _same(ew.mul, number(other, self), self)

    def __truediv__(self, other: Operand) -> Term:
        return _same(ew.div, self, other)

    def __rtruediv__(self, other: Number) -> Term:
        return _same(ew.div, number(other, self), self)

    def __neg__(self) -> Term:
        return _unary(ew.neg, self)

    def __abs__(self) -> Term:
        return _unary(ew.absolute, self)

    def __invert__(self) -> Term:
        return _unary(ew.bit_not, self)

    def __and__(self, other: Operand) -> Term:
        return _same(ew.bit_and, self, other)

    def __or__(self, other: Operand) -> Term:
        return _same(ew.bit_or, self, other)

    def __xor__(self, other: Operand) -> Term:
        return _same(ew.bit_xor, self, other)

    def __lshift__(self, other: Operand) -> Term:
        return _same(ew.shift_left, self, other)

    def __rshift__(self, other: Operand) -> Term:
        """Filled with the sign for signed integers, with 0 for unsigned ones."""
        signed = self.dtype in dtypes.SIGNED
        shift = ew.shift_right_arithmetic if signed else ew.shift_right_logical
        return _same(shift, self, other)

    def __lt__(self, other: Operand) -> Term:
        return _compare(ew.lt, self, other)

    def __le__(self, other: Operand) -> Term:
        return _compare(ew.le, self, other)

    def __gt__(self, other: Operand) -> Term:
        return _compare(ew.gt, self, other)

    def __ge__(self, other: Operand) -> Term:
        return _compare(ew.ge, self, other)


Operand = Term | int | float


def number(value: Number, like: Term) -> Term:
    """A constant of the dtype and shape of `like`."""
    aval = like.node.aval
    bits = struct.pack(_FORMATS[aval.dtype], value)
    return Term(make_node(const_p, ShapedArray.of(aval.shape, aval.dtype), (), bits))


def number_of(value: Number, dtype: np.dtype[Any], shape: Shape) -> Term:
    """A constant of a dtype and shape."""
    bits = struct.pack(_FORMATS[dtype], value)
    return Term(make_node(const_p, ShapedArray.of(shape, dtype), (), bits))


def _term(operand: Operand, like: Term) -> Term:
    return operand if isinstance(operand, Term) else number(operand, like)


def _unary(op: ew.Primitive, x: Term) -> Term:
    return Term(make_node(op, x.node.aval, (x.node,)))


def _same(op: ew.Primitive, x: Term, other: Operand) -> Term:
    y = _term(other, x)
    assert x.dtype == y.dtype, (op, x.node, y.node)
    return Term(make_node(op, x.node.aval, (x.node, y.node)))


def _compare(op: ew.Primitive, x: Term, other: Operand) -> Term:
    y = _term(other, x)
    assert x.dtype == y.dtype, (op, x.node, y.node)
    aval = ShapedArray.of(x.node.aval.shape, dtypes.bool_)
    return Term(make_node(op, aval, (x.node, y.node)))


def eq(x: Term, y: Operand) -> Term:
    return _compare(ew.eq, x, y)


def ne(x: Term, y: Operand) -> Term:
    return _compare(ew.ne, x, y)


def select(chosen: Term, x: Operand, y: Operand, arg: str | None = None) -> Term:
    """x where `chosen` holds, y elsewhere; one of them at least is a term."""
    if not isinstance(x, Term):
        if not isinstance(y, Term):
            raise GraphError("a select of two numbers has no dtype")
        x = number(x, y)
    other = _term(y, x)
    src = (chosen.node, x.node, other.node)
    return Term(make_node(ew.select, x.node.aval, src, arg))


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


def sqrt(x: Term) -> Term:
    return _unary(ew.sqrt, x)


def floor(x: Term) -> Term:
    return _unary(ew.floor, x)


def trunc(x: Term) -> Term:
    return _unary(ew.truncate, x)


def round_even(x: Term) -> Term:
    return _unary(ew.round_even, x)


def apply(op: ew.Primitive, *terms: Term) -> Term:
    """Another primitive whose result has the type of its operands."""
    return Term(make_node(op, terms[0].node.aval, tuple(t.node for t in terms)))


def cast(x: Term, dtype: np.dtype[Any]) -> Term:
    return Term(ew.cast(x.node, dtype))


def bitcast(x: Term, dtype: np.dtype[Any]) -> Term:
    aval = ShapedArray.of(x.node.aval.shape, dtype)
    return Term(make_node(ew.bitcast, aval, (x.node,), dtype))


def ldexp(x: Term, n: Term) -> Term:
    """x·2ⁿ rounded once, for an integral float |n| ≤ 2·bias."""
    return Term(make_node(ldexp_p, x.node.aval, (x.node, n.node)))


def mantissa(x: Term) -> Term:
    """x/2^k in [3/4, 3/2); see `mantissa_p`."""
    return Term(make_node(mantissa_p, x.node.aval, (x.node,)))


def exponent(x: Term) -> Term:
    """The k of `mantissa`, a float."""
    return Term(make_node(exponent_p, x.node.aval, (x.node,)))


def lookup(table: KernelOp, x: Term) -> Term:
    """What a table has for the leading bits of x; see `table_functions.py`."""
    return Term(make_node(table, x.node.aval, (x.node,)))

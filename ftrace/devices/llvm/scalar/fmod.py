"""Remainders of floats, a vector at a time: exact, as C's fmod.

With q = trunc(x / y), for x, y > 0 and q < 2^p of p bits of fraction:

- a quotient that is m or more is not rounded to less than m, so that q is at most one
  too large and never too small;
- r = x - q·y by one fma is exact: a multiple of the last place of x or y, whichever is
  less, and below y in size;
- where r < 0, q was one too large, and r + y is the remainder, which is a float.

Larger quotients are seldom: a branch divides them number by number.
"""

from __future__ import annotations

from typing import Protocol

from ftrace.devices.llvm.ir.types import Type
from ftrace.devices.llvm.scalar.casts import Instructions


class Arithmetic(Instructions, Protocol):
    """What a remainder is made of; `scalar.Operations` has it."""

    def call(self, name: str, t: Type, *x: str, extra: str = "") -> str: ...


def float_remainder(o: Arithmetic, t: Type, x: str, y: str) -> str:
    """x - trunc(x / y)·y with the sign of x."""
    if not t.lanes or not o.target.fma:
        return o.binary("frem", t, x, y)
    dividend, divisor = o.call("fabs", t, x), o.call("fabs", t, y)
    quotient = o.call("trunc", t, o.binary("fdiv", t, dividend, divisor))
    less = o.pure(f"fneg {t} {quotient}", quotient)
    rest = o.call("fma", t, less, divisor, dividend)
    negative = o.binary("fcmp olt", t, rest, t.zero)
    rest = o.select(negative, t, o.binary("fadd", t, rest, divisor), rest)
    none = o.binary("fcmp oeq", t, quotient, t.zero)  # also where y is infinite
    usual = o.call("copysign", t, o.select(none, t, dividend, rest), x)
    limit = t.constant(2.0 ** (23 if t.bits == 32 else 52))
    far = o.binary("fcmp oge", t, quotient, limit)
    return _where_far(o, t, far, x, y, usual)


def _where_far(o: Arithmetic, t: Type, far: str, x: str, y: str, usual: str) -> str:
    writer, lanes = o.writer, t.lanes
    bits = writer.pure(f"bitcast <{lanes} x i1> {far} to i{lanes}", far)
    taken = writer.pure(f"icmp ne i{lanes} {bits}, 0", bits)
    branch = writer.open_branch()
    exact = o.select(far, t, o.binary("frem", t, x, y), usual)
    (found,) = writer.close_branch(branch, taken, [(t.text, exact, usual)])
    return found

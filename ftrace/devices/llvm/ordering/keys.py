"""Numbers as integers in the same order, their keys, and back, in LLVM IR.

    enter   numbers -> their keys            leave   keys -> numbers
    pack    numbers -> key · 2³² + position  unpack  the positions

Keys of floats are signed integers: the bits, those but the sign inverted where the
number is negative. NaN is one key, greater than that of infinity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.devices.llvm.ir.symbols import SORT
from ftrace.records import dataclass

#: Elements that a loop treats at once.
LANES = 16

_INFINITY = {
    dtypes.float16: 0x7C00,
    dtypes.bfloat16: 0x7F80,
    dtypes.float32: 0x7F800000,
    dtypes.float64: 0x7FF0 << 48,
}
_NAN = {
    dtypes.float16: 0x7E00,
    dtypes.bfloat16: 0x7FC0,
    dtypes.float32: 0x7FC00000,
    dtypes.float64: 0x7FF8 << 48,
}


def sort_symbol(dtype: np.dtype[Any]) -> str:
    """The function that sorts integers of a dtype."""
    return f"{SORT}{dtype.kind}{8 * dtype.itemsize}"


class Code:
    """Straight code over scalars, or over vectors.

    Args:
      lanes: of the vectors; 0 is a scalar.
      prefix: of the names.
    """

    def __init__(self, lanes: int, prefix: str) -> None:
        self.lanes = lanes
        self.lines: list[str] = []
        self._prefix = prefix

    def type(self, bits: int) -> str:
        return f"<{self.lanes} x i{bits}>" if self.lanes else f"i{bits}"

    def number(self, bits: int, value: int) -> str:
        """A constant."""
        value &= (1 << bits) - 1
        value -= (value >> (bits - 1)) << bits
        return f"splat (i{bits} {value})" if self.lanes else str(value)

    def let(self, instruction: str) -> str:
        name = f"%{self._prefix}{len(self.lines)}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def at(self, base: str, index: str, bits: int) -> str:
        """The address of an element."""
        return self.let(f"getelementptr i{bits}, ptr {base}, i64 {index}")

    def load(self, base: str, index: str, bits: int) -> str:
        place = self.at(base, index, bits)
        return self.let(f"load {self.type(bits)}, ptr {place}, align {bits // 8}")

    def store(self, value: str, base: str, index: str, bits: int) -> None:
        place = self.at(base, index, bits)
        self.lines.append(
            f"  store {self.type(bits)} {value}, ptr {place}, align {bits // 8}"
        )

    def positions(self, first: str) -> str:
        """The numbers from `first` on, of 64 bits."""
        if not self.lanes:
            return first
        t = self.type(64)
        one = self.let(f"insertelement {t} poison, i64 {first}, i64 0")
        same = self.let(
            f"shufflevector {t} {one}, {t} poison, <{self.lanes} x i32> zeroinitializer"
        )
        own = ", ".join(f"i64 {n}" for n in range(self.lanes))
        return self.let(f"add {t} {same}, <{own}>")


@dataclass(frozen=True)
class Keys:
    """How numbers become keys.

    Attributes:
      dtype: of the numbers.
      merge_zeros, descending, half: see `lower/ordering.py`.
    """

    dtype: np.dtype[Any]
    merge_zeros: bool = False
    descending: bool = False
    half: int = 0

    @property
    def bits(self) -> int:
        return 8 * self.dtype.itemsize

    @property
    def is_float(self) -> bool:
        return dtypes.kind(self.dtype) == "f"

    @property
    def is_signed(self) -> bool:
        return dtypes.kind(self.dtype) in "if"

    def of(self, code: Code, x: str) -> str:
        """The keys of numbers, given as their bits."""
        if not self.is_float:
            return x
        bits, t = self.bits, code.type(self.bits)
        mask = code.type(1)
        size = code.let(f"and {t} {x}, {code.number(bits, (1 << (bits - 1)) - 1)}")
        key = self._turned(code, x)
        infinity = code.number(bits, _INFINITY[self.dtype])
        missing = code.let(f"icmp ugt {t} {size}, {infinity}")
        nan = code.number(bits, _NAN[self.dtype])
        key = code.let(f"select {mask} {missing}, {t} {nan}, {t} {key}")
        if self.merge_zeros:
            zero = code.number(bits, 0)
            none = code.let(f"icmp eq {t} {size}, {zero}")
            key = code.let(f"select {mask} {none}, {t} {zero}, {t} {key}")
        return key

    def back(self, code: Code, key: str) -> str:
        """The numbers of keys of floats."""
        return self._turned(code, key)

    def _turned(self, code: Code, x: str) -> str:
        """All bits but the sign inverted where that is set."""
        bits, t = self.bits, code.type(self.bits)
        sign = code.let(f"ashr {t} {x}, {code.number(bits, bits - 1)}")
        turn = code.let(f"and {t} {sign}, {code.number(bits, (1 << (bits - 1)) - 1)}")
        return code.let(f"xor {t} {x}, {turn}")

    def wide(self, code: Code, x: str) -> str:
        """The keys of numbers as signed integers of 64 bits, of which 32 count."""
        key, bits, t, long = self.of(code, x), self.bits, code.type(self.bits), ""
        long = code.type(64)
        top = code.number(64, 1 << 63)
        if self.half:
            if self.half == 2:
                key = code.let(f"shl {t} {key}, {code.number(64, 32)}")
            else:
                key = code.let(f"and {t} {key}, {code.number(64, -1 << 32)}")
            if self.half == 2 or not self.is_signed:
                key = code.let(f"xor {t} {key}, {top}")
        else:
            verb = "sext" if self.is_signed else "zext"
            if bits == 32 and not self.is_signed:
                key = code.let(f"xor {t} {key}, {code.number(32, 1 << 31)}")
                verb = "sext"
            key = code.let(f"{verb} {t} {key} to {long}")
            key = code.let(f"shl {long} {key}, {code.number(64, 32)}")
        if self.descending:
            key = code.let(f"xor {long} {key}, {code.number(64, -1 << 32)}")
        return key


def loop(
    name: str,
    parameters: str,
    body: Callable[[Code, str], None],
    lanes: int = LANES,
) -> str:
    """A function that does something for each index below `%n`, the last parameter.

    Args:
      body: writes the code for one index, or for `lanes` from one on.
      lanes: 0 if there are no vectors.
    """
    one, many = Code(0, "s"), Code(lanes, "v")
    body(one, "%j")
    if lanes:
        body(many, "%i")
    whole = f"and i64 %n, {-lanes}" if lanes else "and i64 %n, 0"
    vectors = f"""vectors:
  %i = phi i64 [ 0, %entry ], [ %i.next, %vectors ]
{chr(10).join(many.lines)}
  %i.next = add i64 %i, {lanes}
  %i.more = icmp ult i64 %i.next, %whole
  br i1 %i.more, label %vectors, label %rest
"""
    return f"""define internal void @{name}({parameters}, i64 %n) nounwind {{
entry:
  %whole = {whole}
  %any = icmp ne i64 %whole, 0
  br i1 %any, label %{"vectors" if lanes else "rest"}, label %rest
{vectors if lanes else ""}rest:
  %left = icmp ult i64 %whole, %n
  br i1 %left, label %singly, label %out
singly:
  %j = phi i64 [ %whole, %rest ], [ %j.next, %singly ]
{chr(10).join(one.lines)}
  %j.next = add i64 %j, 1
  %j.more = icmp ult i64 %j.next, %n
  br i1 %j.more, label %singly, label %out
out:
  ret void
}}
"""


def enter(keys: Keys) -> str:
    """`@enter(to, of, n)`: the keys of numbers."""

    def body(code: Code, i: str) -> None:
        found = keys.of(code, code.load("%of", i, keys.bits))
        code.store(found, "%to", i, keys.bits)

    return loop("enter", "ptr %to, ptr %of", body)


def leave(keys: Keys) -> str:
    """`@leave(to, n)`: the numbers of keys, in their place."""

    def body(code: Code, i: str) -> None:
        found = keys.back(code, code.load("%to", i, keys.bits))
        code.store(found, "%to", i, keys.bits)

    return loop("leave", "ptr %to", body)


def pack(keys: Keys, through: bool) -> str:
    """`@pack(to, row, places, first, n)`: keys and positions, from `first` on.

    The keys are those of the numbers at these positions of the row, or `through` the
    places that stand there.
    """

    def body(code: Code, i: str) -> None:
        at = code.let(f"add i64 %first, {i}")
        place = at
        if through:
            place = code.let(f"sext i32 {code.load('%places', at, 32)} to i64")
        key = keys.wide(code, code.load("%row", place, keys.bits))
        t = code.type(64)
        both = code.let(f"or {t} {key}, {code.positions(at)}")
        code.store(both, "%to", i, 64)

    parameters = "ptr %to, ptr %row, ptr %places, i64 %first"
    return loop("pack", parameters, body, 0 if through else LANES)


def unpack(through: bool) -> str:
    """`@unpack(to, of, places, n)`: the positions, or what stands there."""

    def body(code: Code, i: str) -> None:
        place = code.let(
            f"trunc {code.type(64)} {code.load('%of', i, 64)} to {code.type(32)}"
        )
        if through:
            place = code.load("%places", code.let(f"sext i32 {place} to i64"), 32)
        code.store(place, "%to", i, 32)

    return loop(
        "unpack", "ptr %to, ptr %of, ptr %places", body, 0 if through else LANES
    )

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
from ftrace.devices.llvm.emit.rendered import LibraryFunction
from ftrace.devices.llvm.ir.function_builder import Function
from ftrace.devices.llvm.ir.symbols import SORT
from ftrace.devices.llvm.target import Target
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.library.sort_kernels import Ordering

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
    """Straight code over scalars, or over vectors, in a function.

    Args:
      lanes: of the vectors; 0 is a scalar.
    """

    def __init__(self, f: Function, lanes: int = 0) -> None:
        self.lanes = lanes
        self.let = f.let
        self._do = f.do

    def type(self, bits: int) -> str:
        return f"<{self.lanes} x i{bits}>" if self.lanes else f"i{bits}"

    def number(self, bits: int, value: int) -> str:
        """A constant."""
        value &= (1 << bits) - 1
        value -= (value >> (bits - 1)) << bits
        return f"splat (i{bits} {value})" if self.lanes else str(value)

    def at(self, base: str, index: str, bits: int) -> str:
        """The address of an element."""
        return self.let(f"getelementptr i{bits}, ptr {base}, i64 {index}")

    def load(self, base: str, index: str, bits: int) -> str:
        place = self.at(base, index, bits)
        return self.let(f"load {self.type(bits)}, ptr {place}, align {bits // 8}")

    def store(self, value: str, base: str, index: str, bits: int) -> None:
        place = self.at(base, index, bits)
        self._do(f"store {self.type(bits)} {value}, ptr {place}, align {bits // 8}")

    def splat(self, value: str, bits: int) -> str:
        """A number in all lanes."""
        if not self.lanes:
            return value
        t = self.type(bits)
        one = self.let(f"insertelement {t} poison, i{bits} {value}, i64 0")
        zeros = f"<{self.lanes} x i32> zeroinitializer"
        return self.let(f"shufflevector {t} {one}, {t} poison, {zeros}")

    def positions(self, first: str) -> str:
        """The numbers from `first` on, of 64 bits."""
        if not self.lanes:
            return first
        own = ", ".join(f"i64 {n}" for n in range(self.lanes))
        return self.let(f"add {self.type(64)} {self.splat(first, 64)}, <{own}>")


@dataclass(frozen=True)
class Keys:
    """How numbers become keys.

    Attributes:
      dtype: of the numbers.
      merge_zeros, descending, half: see `lower/library/sort_kernels.py`.
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
    f, whole = Function(name, "void", parameters, "i64 %n"), "0"
    if lanes:
        count = f.let(f"udiv i64 %n, {lanes}")
        with f.repeat(count) as part:
            body(Code(f, lanes), f.let(f"mul i64 {part}, {lanes}"))
        whole = f.let(f"mul i64 {count}, {lanes}")
    with f.repeat("%n", whole) as i:
        body(Code(f), i)
    f.give()
    return f.text


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


class Sorting(LibraryFunction):
    """Writes the function of a kernel that sorts.

    Attributes:
      kernel: what it does.
      keys: of its numbers.
    """

    def __init__(self, kernel: Ordering, target: Target, name: str) -> None:
        super().__init__(target, name)
        self.kernel = kernel
        self.declare("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
        written = sum(spec.written for spec in kernel.buffers)
        self.operand = kernel.buffers[written]  # the first one
        self.first_operand = written
        self.keys = Keys(
            self.operand.dtype, kernel.merge_zeros, kernel.descending, kernel.half
        )

    @property
    def through(self) -> bool:
        """Is there an operand that tells the positions so far?"""
        return len(self.kernel.buffers) > self.first_operand + 1

    def base(self, number: int, offset: str) -> str:
        """The address of an element of a buffer."""
        size = self.kernel.buffers[number].dtype.itemsize
        nbytes = self.let(f"mul i64 {offset}, {size}")
        return self.beyond(self.slot("%buffers", number), nbytes)

    def row(self, number: int, row: str, length: int | None = None) -> str:
        """Where a row of a buffer begins."""
        size = self.kernel.size if length is None else length
        return self.base(number, self.let(f"mul i64 {row}, {size}"))

    def use(self, part: str) -> None:
        self.parts.append(part)

    def sort(self, symbol: str, at: str, count: str | int) -> None:
        self.let(f"call i32 @{symbol}(ptr {at}, i64 {count}, ptr null)")

    def use_sort(self, symbol: str) -> None:
        self.declare(f"declare i32 @{symbol}(ptr, i64, ptr)")

"""Numbers as integers in the same order, their keys, and what is done with keys.

    enter   numbers -> their keys            leave   keys -> numbers
    pack    numbers -> key · 2³² + position  unpack  the positions
    below   how many of sorted keys are less than one
    zeros   the zeros of a row in their order
    split   how many of the first k merged elements are of the left run
    merge   a part of the result of merging two runs
    top     the least keys of a row, by a bound that falls

Each is a function of LLVM IR that kernels of sorting call. Keys of floats are signed
integers: the bits, those but the sign inverted where the number is negative. NaN is one
key, greater than that of infinity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.backends.llvm.ir.function_builder import Function
from ftrace.backends.llvm.ir.symbols import SORT
from ftrace.backends.llvm.scalar.instructions import Vectors
from ftrace.ground.fast_dataclasses import dataclass

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


def sort(f: Function, dtype: np.dtype[Any], at: str, count: str | int) -> None:
    """Sorts so many integers of a dtype."""
    f.outside(f"i32 {sort_symbol(dtype)}(ptr, i64, ptr)", at, count, "null")


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

    def of(self, v: Vectors, x: str) -> str:
        """The keys of numbers, given as their bits."""
        if not self.is_float:
            return x
        t = v.type(self.bits)
        size = v.binary("and", t, x, (1 << (self.bits - 1)) - 1)
        missing = v.binary("icmp ugt", t, size, _INFINITY[self.dtype])
        key = v.select(missing, t, _NAN[self.dtype], self.back(v, x))
        if self.merge_zeros:
            key = v.select(v.binary("icmp eq", t, size, 0), t, 0, key)
        return key

    def back(self, v: Vectors, key: str) -> str:
        """The numbers of keys of floats: bits but the sign are turned where it is set.

        So are the keys of numbers.
        """
        t = v.type(self.bits)
        sign = v.binary("ashr", t, key, self.bits - 1)
        turn = v.binary("and", t, sign, (1 << (self.bits - 1)) - 1)
        return v.binary("xor", t, key, turn)

    def wide(self, v: Vectors, x: str) -> str:
        """The keys of numbers as signed integers of 64 bits, of which 32 count."""
        key, t, long = self.of(v, x), v.type(self.bits), v.type(64)
        if self.half:
            if self.half == 2:
                key = v.binary("shl", t, key, 32)
            else:
                key = v.binary("and", t, key, -1 << 32)
            if self.half == 2 or not self.is_signed:
                key = v.binary("xor", t, key, 1 << 63)
        else:
            verb = "sext" if self.is_signed else "zext"
            if self.bits == 32 and not self.is_signed:
                key, verb = v.binary("xor", t, key, 1 << 31), "sext"
            key = v.binary("shl", long, v.convert(verb, t, long, key), 32)
        return v.binary("xor", long, key, -1 << 32) if self.descending else key


def loop(
    name: str, parameters: str, body: Callable[[Vectors, str], None], lanes: int = LANES
) -> Function:
    """A function that does something for each index below `%n`, the last parameter.

    Args:
      body: writes the code for one index, or for `lanes` from one on.
      lanes: 0 if there are no vectors.
    """
    f, whole = Function(name, "void", parameters, "i64 %n"), "0"
    if lanes:
        count = f.let(f"udiv i64 %n, {lanes}")
        with f.repeat(count) as part:
            body(Vectors(f, lanes), f.let(f"mul i64 {part}, {lanes}"))
        whole = f.let(f"mul i64 {count}, {lanes}")
    with f.repeat("%n", whole) as i:
        body(Vectors(f), i)
    f.ret()
    return f


def enter(keys: Keys) -> Function:
    """`@enter(to, of, n)`: the keys of numbers."""

    def body(v: Vectors, i: str) -> None:
        t = v.type(keys.bits)
        v.put(t, keys.of(v, v.take(t, "%of", i)), "%to", i)

    return loop("enter", "ptr %to, ptr %of", body)


def leave(keys: Keys) -> Function:
    """`@leave(to, n)`: the numbers of keys, in their place."""

    def body(v: Vectors, i: str) -> None:
        t = v.type(keys.bits)
        v.put(t, keys.back(v, v.take(t, "%to", i)), "%to", i)

    return loop("leave", "ptr %to", body)


def pack(keys: Keys, through: bool) -> Function:
    """`@pack(to, row, places, first, n)`: keys and positions, from `first` on.

    The keys are those of the numbers at these positions of the row, or `through` the
    places that stand there.
    """

    def body(v: Vectors, i: str) -> None:
        at = place = v.f.sum("%first", i)
        narrow, long = v.type(32), v.type(64)
        if through:
            place = v.convert("sext", narrow, long, v.take(narrow, "%places", at))
        key = keys.wide(v, v.take(v.type(keys.bits), "%row", place))
        v.put(long, v.binary("or", long, key, v.positions(at)), "%to", i)

    parameters = "ptr %to, ptr %row, ptr %places, i64 %first"
    return loop("pack", parameters, body, 0 if through else LANES)


def put_position(v: Vectors, key: str, at: str, through: bool) -> None:
    """Puts the position that a key has below, or what stands there, at `%to`."""
    narrow, long = v.type(32), v.type(64)
    place = v.convert("trunc", long, narrow, key)
    if through:
        place = v.take(narrow, "%places", v.convert("sext", narrow, long, place))
    v.put(narrow, place, "%to", at)


def unpack(through: bool) -> Function:
    """`@unpack(to, of, places, n)`: the positions, or what stands there."""

    def body(v: Vectors, i: str) -> None:
        put_position(v, v.take(v.type(64), "%of", i), i, through)

    return loop(
        "unpack", "ptr %to, ptr %of, ptr %places", body, 0 if through else LANES
    )


# Sorted keys.


#: Merges that run side by side in a piece: each waits for its last comparison. With 16
#: the code is twice as long, with 1 a quarter shorter.
CHAINS = 4


def _search(f: Function, low: str, high: str, goes_on: Callable[[str], str]) -> str:
    """The first place from `low` on, or `high`, for which a condition is false."""
    with f.fold(64, [("i64", low), ("i64", high)]) as fold:
        low, high = fold.values
        f.stop_if(f.let(f"icmp uge i64 {low}, {high}"))
        middle = f.let(f"lshr i64 {f.sum(low, high)}, 1")
        on, up = goes_on(middle), f.sum(middle, 1)
        fold.following = [
            f.let(f"select i1 {on}, i64 {up}, i64 {low}"),
            f.let(f"select i1 {on}, i64 {high}, i64 {middle}"),
        ]
    return fold.values[0]


def zeros(bits: int) -> list[Function]:
    """`@below(keys, n, key)`: how many of sorted keys are less than one.

    And `@zeros(row, to, first, begin, stop)`: the zeros of a row in their order, to its
    places from `first` on; only those from `begin` to below `stop` are written.
    """
    t = f"i{bits}"
    f = below = Function("below", "i64", "ptr %keys", "i64 %n", f"{t} %key")

    def less(place: str) -> str:
        return f.let(f"icmp slt {t} {f.load(t, f.item(t, '%keys', place))}, %key")

    f.ret(_search(f, "0", "%n", less))
    parameters = "ptr %row", "ptr %to", "i64 %first", "i64 %begin", "i64 %stop"
    f = Function("zeros", "void", *parameters)
    with f.fold(-1, [("i64", "%first")]) as fold:
        place = fold.values[0]
        f.stop_if(f.let(f"icmp uge i64 {place}, %stop"))
        x = f.load(t, f.item(t, "%row", fold.index))
        zero = f.let(f"icmp eq {t} {f.let(f'shl {t} {x}, 1')}, 0")
        reached = f.let(f"icmp uge i64 {place}, %begin")
        with f.when(f.let(f"and i1 {zero}, {reached}")):
            f.store(t, x, f.item(t, "%to", place))
        fold.following = [f.sum(place, f.let(f"zext i1 {zero} to i64"))]
    f.ret()
    return [below, f]


def _split(t: str, sign: str) -> Function:
    f = Function("split", "i64", "ptr %a", "i64 %n", "ptr %b", "i64 %m", "i64 %k")
    lack = f.let("sub i64 %k, %m")
    lacks = f.let(f"icmp sgt i64 {lack}, 0")

    def is_first(place: str) -> str:
        x = f.load(t, f.item(t, "%a", place))
        other = f.sum(f.let(f"sub i64 %k, {place}"), -1)
        y = f.load(t, f.item(t, "%b", other))
        return f.let(f"icmp {sign}le {t} {x}, {y}")

    least = f.let(f"select i1 {lacks}, i64 {lack}, i64 0")
    f.ret(_search(f, least, f.least("%k", "%n"), is_first))
    return f


def merge(
    integer: np.dtype[Any], leaves: Callable[[Vectors, str, str], None]
) -> list[Function]:
    """`@merge(a, n, b, m, to, places, begin, end)`: that part of two runs as one.

    Element n of `a` and m of `b` are the greatest key, which is chosen again and again
    where it is reached. Some parts of the part are merged side by side, one step of
    each at a time, for a step of a merge waits for the one before; what is left is
    merged singly.

    Args:
      integer: the dtype of the keys.
      leaves: writes a key to its place of the result.
    """
    bits, sign = 8 * integer.itemsize, "s" if integer.kind == "i" else "u"
    t, runs = f"i{bits}", ("ptr %a", "i64 %n", "ptr %b", "i64 %m")
    rest = "ptr %to", "ptr %places", "i64 %begin", "i64 %end"
    f = Function("merge", "void", *runs, *rest)
    v = Vectors(f)

    def start(at: str) -> tuple[str, str]:
        return "i64", f.let(f"call i64 @split({', '.join(runs)}, i64 {at})")

    def step(i: str, at: str) -> str:
        """The lesser of the two that are next in the runs; what is next on the left."""
        other = f.let(f"sub i64 {at}, {i}")
        x, y = (f.load(t, f.item(t, run, k)) for run, k in (("%a", i), ("%b", other)))
        less = f.let(f"icmp {sign}le {t} {x}, {y}")
        leaves(v, f.let(f"select i1 {less}, {t} {x}, {t} {y}"), at)
        return f.least(f.sum(i, f.let(f"zext i1 {less} to i64")), "%n")

    count = f.let("sub i64 %end, %begin")
    each = f.let(f"lshr i64 {count}, {CHAINS.bit_length() - 1}")
    firsts = ["%begin"]
    for _ in range(CHAINS - 1):
        firsts.append(f.sum(firsts[-1], each))
    with f.fold(each, [start(first) for first in firsts]) as fold:
        fold.following = [
            step(i, f.sum(first, fold.index))
            for i, first in zip(fold.values, firsts, strict=True)
        ]
    done = f.sum(firsts[-1], each)
    with f.fold("%end", [start(done)], done) as fold:
        fold.following = [step(fold.values[0], fold.index)]
    f.ret()
    return [_split(t, sign), f]


def top(keys: Keys) -> list[Function]:
    """`@top(row, buffer, k, full, n)`: the k least of a row, packed, in order.

    What is not above the bound is added to the buffer; when that is full, all but the
    k least are dropped, of which the last is the next bound.
    """
    f = appends = Function(
        "append", "void", "ptr %buffer", "i64 %count", "ptr %row", "i64 %i"
    )
    v = Vectors(f)
    key = keys.wide(v, v.take(v.type(keys.bits), "%row", "%i"))
    f.store("i64", f.let(f"or i64 {key}, %i"), f.word("%buffer", "%count"))
    f.ret()
    parameters = "ptr %row", "ptr %buffer", "i64 %k", "i64 %full", "i64 %n"
    f = Function("top", "void", *parameters)

    def append(held: str, i: str) -> None:
        f.do(f"call void @append(ptr %buffer, i64 {held}, ptr %row, i64 {i})")

    v, t = Vectors(f, LANES), f"i{LANES}"
    long = v.type(64)
    count, bound = f.variable("i64", 0), f.variable("i64", (1 << 63) - 1)
    parts = f.let(f"udiv i64 %n, {LANES}")
    with f.repeat(parts) as part:
        i = f.let(f"mul i64 {part}, {LANES}")
        key = keys.wide(v, v.take(v.type(keys.bits), "%row", i))
        limit = v.splat(f.load("i64", bound), long)
        near = v.binary("icmp sle", long, key, limit)
        found = f.let(f"bitcast {long.mask()} {near} to {t}")
        with f.when(f.let(f"icmp ne {t} {found}, 0")):
            before = f.load("i64", count)
            with f.fold(LANES, [(t, found)]) as take:
                bits = take.values[0]
                f.stop_if(f.let(f"icmp eq {t} {bits}, 0"))
                lane = f.outside(f"{t} llvm.cttz.{t}({t}, i1)", bits, "true")
                at = f.sum(i, f.let(f"zext {t} {lane} to i64"))
                append(f.sum(before, take.index), at)
                less = f.let(f"sub {t} {bits}, 1")
                take.following = [f.let(f"and {t} {bits}, {less}")]
            held = f.sum(before, take.index)
            f.store("i64", held, count)
            with f.when(f.let(f"icmp uge i64 {held}, %full")):
                sort(f, dtypes.int64, "%buffer", held)
                worst = f.load("i64", f.word("%buffer", f.sum("%k", -1)))
                # a later one of the same key comes behind it
                worst_key = f.let(f"and i64 {worst}, {-1 << 32}")
                f.store("i64", f.sum(worst_key, -1), bound)
                f.store("i64", "%k", count)
    with f.repeat("%n", f.let(f"mul i64 {parts}, {LANES}")) as i:
        held = f.load("i64", count)
        append(held, i)
        f.store("i64", f.sum(held, 1), count)
    sort(f, dtypes.int64, "%buffer", f.load("i64", count))
    f.ret()
    return [appends, f]

"""The functions of LLVM IR that kernels of sorting call.

below   how many of sorted keys are less than one
zeros   the zeros of a row in their order
split   how many of the first k merged elements are of the left run
merge   a part of the result of merging two runs
top     the least keys of a row, by a bound that falls
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.devices.llvm.ir.function_builder import Function
from ftrace.devices.llvm.library.sort.sort_keys import LANES, Code, Keys, sort_symbol

#: Merges that run side by side in a piece.
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


def zeros(bits: int) -> str:
    """`@below(keys, n, key)`: how many of sorted keys are less than one.

    And `@zeros(row, to, first, begin, stop)`: the zeros of a row in their order, to its
    places from `first` on; only those from `begin` to below `stop` are written.
    """
    t = f"i{bits}"
    f = Function("below", "i64", "ptr %keys", "i64 %n", f"{t} %key")

    def less(place: str) -> str:
        return f.let(f"icmp slt {t} {f.load(t, f.item(t, '%keys', place))}, %key")

    f.give(_search(f, "0", "%n", less))
    below = f.text
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
    f.give()
    return below + f.text


def _split(t: str, sign: str) -> str:
    f = Function("split", "i64", "ptr %a", "i64 %n", "ptr %b", "i64 %m", "i64 %k")
    lack = f.let("sub i64 %k, %m")
    lacks = f.let(f"icmp sgt i64 {lack}, 0")

    def is_first(place: str) -> str:
        x = f.load(t, f.item(t, "%a", place))
        other = f.sum(f.let(f"sub i64 %k, {place}"), -1)
        y = f.load(t, f.item(t, "%b", other))
        return f.let(f"icmp {sign}le {t} {x}, {y}")

    least = f.let(f"select i1 {lacks}, i64 {lack}, i64 0")
    f.give(_search(f, least, f.least("%k", "%n"), is_first))
    return f.text


def merge(integer: np.dtype[Any], leaves: Callable[[Code, str, str], None]) -> str:
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
    code = Code(f)

    def start(at: str) -> tuple[str, str]:
        return "i64", f.let(f"call i64 @split({', '.join(runs)}, i64 {at})")

    def step(i: str, at: str) -> str:
        """The lesser of the two that are next in the runs; what is next on the left."""
        other = f.let(f"sub i64 {at}, {i}")
        x, y = (code.load(run, k, bits) for run, k in (("%a", i), ("%b", other)))
        less = f.let(f"icmp {sign}le {t} {x}, {y}")
        leaves(code, f.let(f"select i1 {less}, {t} {x}, {t} {y}"), at)
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
    f.give()
    return _split(t, sign) + f.text


def counting_sort(dtype: np.dtype[Any]) -> str:
    """The sort of integers of 8 bits, under the name that NumPy's would have.

    Each value is counted, in four tables, so that a count need not wait for the one
    before.
    """
    f = Function(sort_symbol(dtype), "i32", "ptr %x", "i64 %n", "ptr %unused")
    tables = f.place("i64", 4 << 8)

    def fill(at: str, byte: str, count: str | int) -> None:
        f.do(f"call void @llvm.memset.p0.i64(ptr {at}, i8 {byte}, i64 {count}, i1 0)")

    fill(tables, "0", 8 * 4 << 8)
    with f.repeat("%n") as i:
        value = f.let(f"zext i8 {f.load('i8', f.beyond('%x', i))} to i64")
        table = f.let(f"shl i64 {f.let(f'and i64 {i}, 3')}, 8")
        at = f.word(tables, f.sum(table, value))
        f.store("i64", f.sum(f.load("i64", at), 1), at)
    with f.fold(256, [("i64", "0")]) as fold:
        done = fold.values[0]
        number = f.let(f"xor i64 {fold.index}, {128 if dtype.kind == 'i' else 0}")
        places = [f.word(tables, f.sum(number, n << 8)) for n in range(4)]
        count = reduce(f.sum, [f.load("i64", place) for place in places])
        fill(f.beyond("%x", done), f.let(f"trunc i64 {number} to i8"), count)
        fold.following = [f.sum(done, count)]
    f.give(0)
    return "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n" + f.text


def top(keys: Keys) -> str:
    """`@top(row, buffer, k, full, n)`: the k least of a row, packed, in order.

    What is not above the bound is added to the buffer; when that is full, all but the
    k least are dropped, of which the last is the next bound.
    """
    f = Function("append", "void", "ptr %buffer", "i64 %count", "ptr %row", "i64 %i")
    code = Code(f)
    key = keys.wide(code, code.load("%row", "%i", keys.bits))
    code.store(f.let(f"or i64 {key}, %i"), "%buffer", "%count", 64)
    f.give()
    appends, cttz = f.text, f"i{LANES} @llvm.cttz.i{LANES}"
    parameters = "ptr %row", "ptr %buffer", "i64 %k", "i64 %full", "i64 %n"
    f = Function("top", "void", *parameters)

    def append(held: str, i: str) -> None:
        f.do(f"call void @append(ptr %buffer, i64 {held}, ptr %row, i64 {i})")

    def sort(held: str) -> None:
        f.do(f"call i32 @{symbol}(ptr %buffer, i64 {held}, ptr null)")

    code, t, symbol = Code(f, LANES), f"i{LANES}", sort_symbol(dtypes.int64)
    count, bound = f.variable("i64", 0), f.variable("i64", (1 << 63) - 1)
    parts = f.let(f"udiv i64 %n, {LANES}")
    with f.repeat(parts) as part:
        i = f.let(f"mul i64 {part}, {LANES}")
        key = keys.wide(code, code.load("%row", i, keys.bits))
        limit = code.splat(f.load("i64", bound), 64)
        near = f.let(f"icmp sle {code.type(64)} {key}, {limit}")
        found = f.let(f"bitcast {code.type(1)} {near} to {t}")
        with f.when(f.let(f"icmp ne {t} {found}, 0")):
            before = f.load("i64", count)
            with f.fold(LANES, [(t, found)]) as take:
                bits = take.values[0]
                f.stop_if(f.let(f"icmp eq {t} {bits}, 0"))
                lane = f.let(f"call {cttz}({t} {bits}, i1 true)")
                at = f.sum(i, f.let(f"zext {t} {lane} to i64"))
                append(f.sum(before, take.index), at)
                less = f.let(f"sub {t} {bits}, 1")
                take.following = [f.let(f"and {t} {bits}, {less}")]
            held = f.sum(before, take.index)
            f.store("i64", held, count)
            with f.when(f.let(f"icmp uge i64 {held}, %full")):
                sort(held)
                worst = f.load("i64", f.word("%buffer", f.sum("%k", -1)))
                # a later one of the same key comes behind it
                worst_key = f.let(f"and i64 {worst}, {-1 << 32}")
                f.store("i64", f.sum(worst_key, -1), bound)
                f.store("i64", "%k", count)
    with f.repeat("%n", f.let(f"mul i64 {parts}, {LANES}")) as i:
        held = f.load("i64", count)
        append(held, i)
        f.store("i64", f.sum(held, 1), count)
    sort(f.load("i64", count))
    f.give()
    return f"declare {cttz}({t}, i1)\n" + appends + f.text

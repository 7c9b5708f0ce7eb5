"""The positions of what is true, in LLVM IR.

Of each run of a mask the true elements are counted. Then each run knows where its
positions begin in the result, and writes them; the runs share what is left to fill.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from ftrace.devices.llvm.ir.function_builder import Function
from ftrace.devices.llvm.library.sort.sort_keys import Sorting

#: Elements that one number tells of.
WORD = 64

_BITS = """
declare i64 @llvm.ctpop.i64(i64)
declare i64 @llvm.cttz.i64(i64, i1)
"""


def _word() -> str:
    """`@word(at, count)`: so many bytes, each 0 or 1, as bits; no more than `WORD`."""
    f = Function("word", "i64", "ptr %at", "i64 %count")
    with f.when(f.let(f"icmp uge i64 %count, {WORD}")):
        bytes_ = f.let(f"load <{WORD} x i8>, ptr %at, align 1")
        flags = f.let(f"icmp ne <{WORD} x i8> {bytes_}, zeroinitializer")
        f.give(f.let(f"bitcast <{WORD} x i1> {flags} to i{WORD}"))
    with f.fold("%count", [("i64", "0")]) as fold:
        byte = f.load("i8", f.beyond("%at", fold.index))
        bit = f.let(f"shl i64 {f.let(f'zext i8 {byte} to i64')}, {fold.index}")
        fold.following = [f.let(f"or i64 {fold.values[0]}, {bit}")]
    f.give(fold.values[0])
    return _BITS + f.text


def _spread() -> str:
    """`@spread(to, word, base, count)`: positions of the lowest bits that are set."""
    parameters = "ptr %to", "i64 %word", "i64 %base", "i64 %count"
    f = Function("spread", "void", *parameters)
    with f.fold("%count", [("i64", "%word")]) as fold:
        bits = fold.values[0]
        lowest = f.let(f"call i64 @llvm.cttz.i64(i64 {bits}, i1 true)")
        position = f.let(f"trunc i64 {f.sum('%base', lowest)} to i32")
        f.store("i32", position, f.item("i32", "%to", fold.index))
        fold.following = [f.let(f"and i64 {bits}, {f.sum(bits, -1)}")]
    f.give()
    return f.text


def _words(f: Sorting, unit: str) -> tuple[str, str, str, str]:
    """The row and the position of a run of a mask, its address, and its length."""
    kernel = f.kernel
    row, number = f.divided(unit, kernel.runs)
    begin = f.let(f"mul i64 {number}, {kernel.run}")
    count = f.least(f.let(f"sub i64 {kernel.size}, {begin}"), str(kernel.run))
    mask = len(kernel.buffers) - 1
    offset = f.let(f"mul i64 {row}, {kernel.size}")
    return row, begin, f.base(mask, f.let(f"add i64 {offset}, {begin}")), count


@contextmanager
def _each_word(f: Sorting, at: str, count: str) -> Generator[tuple[str, str]]:
    """The bits of so many elements of a mask, number by number, and where they are."""
    words = f.let(f"lshr i64 {f.let(f'add i64 {count}, {WORD - 1}')}, 6")
    with f.repeat(words) as i:
        place = f.let(f"mul i64 {i}, {WORD}")
        left = f.let(f"sub i64 {count}, {place}")
        yield f.let(f"call i64 @word(ptr {f.beyond(at, place)}, i64 {left})"), place


def _counts(f: Sorting) -> int:
    """How many elements of each run are true."""
    f.use(_word())
    with f.repeat("%end", "%begin") as unit:
        _, _, at, count = _words(f, unit)
        total = f.variable("i64", 0)
        with _each_word(f, at, count) as (bits, _):
            found = f.let(f"call i64 @llvm.ctpop.i64(i64 {bits})")
            f.store("i64", f.sum(f.load("i64", total), found), total)
        narrow = f.let(f"trunc i64 {f.load('i64', total)} to i32")
        f.store("i32", narrow, f.base(0, unit))
    return f.kernel.rows * f.kernel.runs


def _places(f: Sorting) -> int:
    """The positions in a run, after those of the runs before; a part of the rest."""
    kernel, k = f.kernel, f.kernel.k
    f.use(_word() + _spread())
    with f.repeat("%end", "%begin") as unit:
        row, begin, at, count = _words(f, unit)
        to = f.row(0, row, k)
        first, total = f.variable("i64", 0), f.variable("i64", 0)
        own = "0"
        if kernel.runs > 1:
            own = f.let(f"udiv i64 {begin}, {kernel.run}")
            counts = f.row(1, row, kernel.runs)
            with f.repeat(kernel.runs) as i:
                at_count = f.item("i32", counts, i)
                found = f.let(f"zext i32 {f.load('i32', at_count)} to i64")
                before = f.let(f"icmp ult i64 {i}, {own}")
                with f.when(before):
                    f.store("i64", f.sum(f.load("i64", first), found), first)
                f.store("i64", f.sum(f.load("i64", total), found), total)
        with _each_word(f, at, count) as (bits, place):
            done = f.least(f.load("i64", first), str(k))
            found = f.let(f"call i64 @llvm.ctpop.i64(i64 {bits})")
            kept = f.least(found, f.let(f"sub i64 {k}, {done}"))
            goal = f.item("i32", to, done)
            base = f.sum(begin, place)
            f.do(f"call void @spread(ptr {goal}, i64 {bits}, i64 {base}, i64 {kept})")
            f.store("i64", f.sum(f.load("i64", first), found), first)
        if kernel.runs == 1:
            _fill(f, to, f.load("i64", first), str(k))
        else:
            share = -(-k // kernel.runs)
            start = f.let(f"mul i64 {own}, {share}")
            stop = f.least(f.sum(start, str(share)), str(k))
            _fill(f, to, f.most(f.load("i64", total), start), stop)
    return kernel.rows * kernel.runs


def _fill(f: Sorting, to: str, start: str, stop: str) -> None:
    """The length of the row for what there is not."""
    with f.repeat(stop, start) as i:
        f.store("i32", f.kernel.size, f.item("i32", to, i))


PLACES: dict[str, Callable[[Sorting], int]] = {"counts": _counts, "places": _places}

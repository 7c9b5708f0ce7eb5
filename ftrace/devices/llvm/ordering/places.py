"""The positions of what is true, in LLVM IR.

Of each run of a mask the true elements are counted. Then each run knows where its
positions begin in the result, and writes them; the runs share what is left to fill.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from string import Template

from ftrace.devices.llvm.ordering.sorting import Sorting

#: Elements that one number tells of.
WORD = 64

#: `@word(at, count)`: so many bytes, each 0 or 1, as bits; no more than `WORD`.
_WORD = Template("""
declare i64 @llvm.ctpop.i64(i64)
declare i64 @llvm.cttz.i64(i64, i1)

define internal i64 @word(ptr %at, i64 %count) nounwind {
entry:
  %all = icmp uge i64 %count, $lanes
  br i1 %all, label %together, label %singly
together:
  %v = load <$lanes x i8>, ptr %at, align 1
  %set = icmp ne <$lanes x i8> %v, zeroinitializer
  %bits = bitcast <$lanes x i1> %set to i$lanes
  ret i64 %bits
singly:
  %j = phi i64 [ 0, %entry ], [ %j.next, %singly ]
  %word = phi i64 [ 0, %entry ], [ %word.next, %singly ]
  %place = getelementptr i8, ptr %at, i64 %j
  %byte = load i8, ptr %place
  %wide = zext i8 %byte to i64
  %bit = shl i64 %wide, %j
  %word.next = or i64 %word, %bit
  %j.next = add i64 %j, 1
  %more = icmp ult i64 %j.next, %count
  br i1 %more, label %singly, label %out
out:
  ret i64 %word.next
}
""")

#: `@spread(to, word, base, count)`: positions of the lowest bits that are set.
_SPREAD = """
define internal void @spread(ptr %to, i64 %word, i64 %base, i64 %count) nounwind {
entry:
  %any = icmp ne i64 %count, 0
  br i1 %any, label %loop, label %out
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]
  %w = phi i64 [ %word, %entry ], [ %w.next, %loop ]
  %bit = call i64 @llvm.cttz.i64(i64 %w, i1 true)
  %position = add i64 %base, %bit
  %narrow = trunc i64 %position to i32
  %at = getelementptr i32, ptr %to, i64 %i
  store i32 %narrow, ptr %at
  %less = sub i64 %w, 1
  %w.next = and i64 %w, %less
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %count
  br i1 %more, label %loop, label %out
out:
  ret void
}
"""


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
    f.use(_WORD.substitute(lanes=WORD))
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
    f.use(_WORD.substitute(lanes=WORD) + _SPREAD)
    with f.repeat("%end", "%begin") as unit:
        row, begin, at, count = _words(f, unit)
        to = f.row(0, row, k)
        first, total = f.variable("i64", 0), f.variable("i64", 0)
        own = "0"
        if kernel.runs > 1:
            own = f.let(f"udiv i64 {begin}, {kernel.run}")
            counts = f.row(1, row, kernel.runs)
            with f.repeat(kernel.runs) as i:
                at_count = f.let(f"getelementptr i32, ptr {counts}, i64 {i}")
                found = f.let(f"zext i32 {f.load('i32', at_count)} to i64")
                before = f.let(f"icmp ult i64 {i}, {own}")
                with f.when(before):
                    f.store("i64", f.sum(f.load("i64", first), found), first)
                f.store("i64", f.sum(f.load("i64", total), found), total)
        with _each_word(f, at, count) as (bits, place):
            done = f.least(f.load("i64", first), str(k))
            found = f.let(f"call i64 @llvm.ctpop.i64(i64 {bits})")
            kept = f.least(found, f.let(f"sub i64 {k}, {done}"))
            goal = f.let(f"getelementptr i32, ptr {to}, i64 {done}")
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
        at = f.let(f"getelementptr i32, ptr {to}, i64 {i}")
        f.store("i32", f.kernel.size, at)


PLACES: dict[str, Callable[[Sorting], int]] = {"counts": _counts, "places": _places}

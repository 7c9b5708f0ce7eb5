"""The functions of LLVM IR that kernels of sorting call, as text.

below   how many of sorted keys are less than one
zeros   the zeros of a row in their order
split   how many of the first k merged elements are of the left run
merge   a part of the result of merging two runs
top     the least keys of a row, by a bound that falls
"""

from __future__ import annotations

from collections.abc import Callable
from string import Template
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.devices.llvm.ordering.keys import LANES, Code, Keys, sort_symbol

#: Merges that run side by side in a piece.
CHAINS = 4

#: `@below(keys, n, key)`: how many of sorted keys are less than one.
_BELOW = Template("""
define internal i64 @below(ptr %keys, i64 %n, $t %key) nounwind {
entry:
  br label %head
head:
  %low = phi i64 [ 0, %entry ], [ %low.next, %body ]
  %high = phi i64 [ %n, %entry ], [ %high.next, %body ]
  %more = icmp ult i64 %low, %high
  br i1 %more, label %body, label %out
body:
  %sum = add i64 %low, %high
  %mid = lshr i64 %sum, 1
  %at = getelementptr $t, ptr %keys, i64 %mid
  %x = load $t, ptr %at
  %less = icmp slt $t %x, %key
  %up = add i64 %mid, 1
  %low.next = select i1 %less, i64 %up, i64 %low
  %high.next = select i1 %less, i64 %high, i64 %mid
  br label %head
out:
  ret i64 %low
}
""")

#: `@zeros(row, to, first, begin, stop)`: the zeros of a row in their order, to its
#: places from `first` on; only those from `begin` to below `stop` are written.
_ZEROS = Template("""
define internal void @zeros(ptr %row, ptr %to, i64 %first, i64 %begin,
                            i64 %stop) nounwind {
entry:
  br label %walk
walk:
  %i = phi i64 [ 0, %entry ], [ %i.next, %on ]
  %place = phi i64 [ %first, %entry ], [ %place.next, %on ]
  %at = getelementptr $t, ptr %row, i64 %i
  %x = load $t, ptr %at
  %twice = shl $t %x, 1
  %zero = icmp eq $t %twice, 0
  %reached = icmp uge i64 %place, %begin
  %writes = and i1 %zero, %reached
  br i1 %writes, label %write, label %on
write:
  %goal = getelementptr $t, ptr %to, i64 %place
  store $t %x, ptr %goal
  br label %on
on:
  %i.next = add i64 %i, 1
  %step = zext i1 %zero to i64
  %place.next = add i64 %place, %step
  %more = icmp ult i64 %place.next, %stop
  br i1 %more, label %walk, label %out
out:
  ret void
}
""")


def zeros(bits: int) -> str:
    """`@below` and `@zeros`, see above."""
    return "".join(part.substitute(t=f"i{bits}") for part in (_BELOW, _ZEROS))


_SPLIT = Template("""
define internal i64 @split(ptr %a, i64 %n, ptr %b, i64 %m, i64 %k) nounwind {
entry:
  %lack = sub i64 %k, %m
  %lacks = icmp sgt i64 %lack, 0
  %least = select i1 %lacks, i64 %lack, i64 0
  %short = icmp slt i64 %k, %n
  %most = select i1 %short, i64 %k, i64 %n
  br label %head
head:
  %low = phi i64 [ %least, %entry ], [ %low.next, %body ]
  %high = phi i64 [ %most, %entry ], [ %high.next, %body ]
  %more = icmp slt i64 %low, %high
  br i1 %more, label %body, label %out
body:
  %sum = add i64 %low, %high
  %mid = lshr i64 %sum, 1
  %a.at = getelementptr $t, ptr %a, i64 %mid
  %x = load $t, ptr %a.at
  %other = sub i64 %k, %mid
  %before = sub i64 %other, 1
  %b.at = getelementptr $t, ptr %b, i64 %before
  %y = load $t, ptr %b.at
  %first = icmp ${sign}le $t %x, %y
  %up = add i64 %mid, 1
  %low.next = select i1 %first, i64 %up, i64 %low
  %high.next = select i1 %first, i64 %high, i64 %mid
  br label %head
out:
  ret i64 %low
}
""")


#: `@merge(a, n, b, m, to, places, begin, end)`: that part of two runs as one. Its own
#: parts are merged together, one step of each at a time, and what is left singly.
_MERGE = Template("""
define internal void @merge(ptr %a, i64 %n, ptr %b, i64 %m, ptr %to, ptr %places, \
i64 %begin, i64 %end) nounwind {
entry:
  %count = sub i64 %end, %begin
  %each = lshr i64 %count, $shift
$starts
  %several = icmp ne i64 %each, 0
  br i1 %several, label %together, label %rest
together:
  %k = phi i64 [ 0, %entry ], [ %k.next, %together ]
$places
$steps
  %k.next = add i64 %k, 1
  %k.more = icmp ult i64 %k.next, %each
  br i1 %k.more, label %together, label %rest
rest:
  %done = add i64 $last, %each
  %start = call i64 @split(ptr %a, i64 %n, ptr %b, i64 %m, i64 %done)
  %left = icmp ult i64 %done, %end
  br i1 %left, label %singly, label %out
singly:
  %l = phi i64 [ %done, %rest ], [ %l.next, %singly ]
  %ir = phi i64 [ %start, %rest ], [ %ir.next, %singly ]
$step
  %l.next = add i64 %l, 1
  %l.more = icmp ult i64 %l.next, %end
  br i1 %l.more, label %singly, label %out
out:
  ret void
}
""")


def merge(integer: np.dtype[Any], leaves: Callable[[Code, str, str], None]) -> str:
    """`@merge(a, n, b, m, to, places, begin, end)`: that part of two runs as one.

    Element n of `a` and m of `b` are the greatest key, which is chosen again and again
    where it is reached. Some parts of the part are merged side by side: a step of a
    merge waits for the one before.

    Args:
      integer: the dtype of the keys.
      leaves: writes a key to its place of the result.
    """
    bits, sign = 8 * integer.itemsize, "s" if integer.kind == "i" else "u"
    first = ["%begin", *[f"%first{chain}" for chain in range(1, CHAINS)]]
    starts: list[str] = []
    places: list[str] = []
    steps: list[str] = []
    for chain in range(CHAINS):
        if chain:
            starts.append(f"  {first[chain]} = add i64 {first[chain - 1]}, %each")
        runs = f"ptr %a, i64 %n, ptr %b, i64 %m, i64 {first[chain]}"
        starts.append(f"  %start{chain} = call i64 @split({runs})")
        ways = f"[ %start{chain}, %entry ], [ %i{chain}.next, %together ]"
        places.append(f"  %i{chain} = phi i64 {ways}")
        steps += _merge_step(bits, sign, leaves, str(chain), (first[chain], "%k"))
    return _SPLIT.substitute(t=f"i{bits}", sign=sign) + _MERGE.substitute(
        shift=CHAINS.bit_length() - 1,
        starts="\n".join(starts),
        places="\n".join(places),
        steps="\n".join(steps),
        last=first[-1],
        step="\n".join(_merge_step(bits, sign, leaves, "r", ("%l", "0"))),
    )


def _merge_step(
    bits: int,
    sign: str,
    leaves: Callable[[Code, str, str], None],
    chain: str,
    place: tuple[str, str],
) -> list[str]:
    """One element of the result: the lesser of the two that are next in the runs.

    Args:
      chain: `%i{chain}` is the next element of the left run.
      place: of the result, as two numbers that are added.
    """
    code, i = Code(0, f"c{chain}."), f"%i{chain}"
    at = code.let(f"add i64 {place[0]}, {place[1]}")
    other = code.let(f"sub i64 {at}, {i}")
    x, y = (code.load(run, k, bits) for run, k in (("%a", i), ("%b", other)))
    less = code.let(f"icmp {sign}le i{bits} {x}, {y}")
    leaves(code, code.let(f"select i1 {less}, i{bits} {x}, i{bits} {y}"), at)
    on = code.let(f"add i64 {i}, {code.let(f'zext i1 {less} to i64')}")
    inside = code.let(f"icmp ult i64 {on}, %n")
    code.lines.append(f"  {i}.next = select i1 {inside}, i64 {on}, i64 %n")
    return code.lines


#: Of integers of 8 bits each value is counted: four tables, so that a count need not
#: wait for the one before.
_COUNT = Template("""
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal i32 @$name(ptr %x, i64 %n, ptr %unused) nounwind {
entry:
  %tables = alloca [1024 x i64], align 64
  call void @llvm.memset.p0.i64(ptr %tables, i8 0, i64 8192, i1 0)
  %some = icmp ne i64 %n, 0
  br i1 %some, label %count, label %write
count:
  %i = phi i64 [ 0, %entry ], [ %i.next, %count ]
  %at = getelementptr i8, ptr %x, i64 %i
  %value = load i8, ptr %at
  %place = zext i8 %value to i64
  %turn = and i64 %i, 3
  %table = shl i64 %turn, 8
  %entry.number = or i64 %table, %place
  %entry.at = getelementptr i64, ptr %tables, i64 %entry.number
  %old = load i64, ptr %entry.at
  %new = add i64 %old, 1
  store i64 %new, ptr %entry.at
  %i.next = add i64 %i, 1
  %i.more = icmp ult i64 %i.next, %n
  br i1 %i.more, label %count, label %write
write:
  %v = phi i64 [ 0, %entry ], [ 0, %count ], [ %v.next, %write ]
  %done = phi i64 [ 0, %entry ], [ 0, %count ], [ %done.next, %write ]
  %number = xor i64 %v, $first
$adds
  %to = getelementptr i8, ptr %x, i64 %done
  %byte = trunc i64 %number to i8
  call void @llvm.memset.p0.i64(ptr %to, i8 %byte, i64 %t3, i1 0)
  %done.next = add i64 %done, %t3
  %v.next = add i64 %v, 1
  %v.more = icmp ult i64 %v.next, 256
  br i1 %v.more, label %write, label %out
out:
  ret i32 0
}
""")


def counting_sort(dtype: np.dtype[Any]) -> str:
    """The sort of integers of 8 bits, under the name that NumPy's would have."""
    lines: list[str] = []
    for n in range(4):
        lines += [
            f"  %n{n} = or i64 %number, {256 * n}",
            f"  %p{n} = getelementptr i64, ptr %tables, i64 %n{n}",
            f"  %q{n} = load i64, ptr %p{n}",
            f"  %t{n} = add i64 %q{n}, {f'%t{n - 1}' if n else 0}",
        ]
    return _COUNT.substitute(
        name=sort_symbol(dtype), first=128 if dtype.kind == "i" else 0,
        adds="\n".join(lines),
    )  # fmt: skip


_TOP = Template("""
declare i$lanes @llvm.cttz.i$lanes(i$lanes, i1)

define internal void @append(ptr %buffer, i64 %count, ptr %row, i64 %i) nounwind {
$one
  %goal = getelementptr i64, ptr %buffer, i64 %count
  store i64 %packed, ptr %goal
  ret void
}
define internal void @top(ptr %row, ptr %buffer, i64 %k, i64 %full, i64 %n) nounwind {
entry:
  %whole = and i64 %n, -$lanes
  %any = icmp ne i64 %whole, 0
  br i1 %any, label %look, label %rest
look:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %count = phi i64 [ 0, %entry ], [ %count.next, %next ]
  %bound = phi i64 [ $greatest, %entry ], [ %bound.next, %next ]
$many
  %v.one = insertelement <$lanes x i64> poison, i64 %bound, i64 0
  %v.bound = shufflevector <$lanes x i64> %v.one, <$lanes x i64> poison,
             <$lanes x i32> zeroinitializer
  %v.less = icmp sle <$lanes x i64> $wide, %v.bound
  %found = bitcast <$lanes x i1> %v.less to i$lanes
  %hit = icmp ne i$lanes %found, 0
  br i1 %hit, label %take, label %next
take:
  %bits = phi i$lanes [ %found, %look ], [ %bits.next, %take ]
  %held = phi i64 [ %count, %look ], [ %held.next, %take ]
  %lane = call i$lanes @llvm.cttz.i$lanes(i$lanes %bits, i1 true)
  %lane.wide = zext i$lanes %lane to i64
  %from = add i64 %i, %lane.wide
  call void @append(ptr %buffer, i64 %held, ptr %row, i64 %from)
  %held.next = add i64 %held, 1
  %less.one = sub i$lanes %bits, 1
  %bits.next = and i$lanes %bits, %less.one
  %bits.more = icmp ne i$lanes %bits.next, 0
  br i1 %bits.more, label %take, label %taken
taken:
  %crowded = icmp uge i64 %held.next, %full
  br i1 %crowded, label %thin, label %next
thin:
  %rc = call i32 @$sort(ptr %buffer, i64 %held.next, ptr null)
  %last = sub i64 %k, 1
  %last.at = getelementptr i64, ptr %buffer, i64 %last
  %worst = load i64, ptr %last.at
  ; a later one of the same key comes behind it
  %worst.key = and i64 %worst, $high
  %worst.less = sub i64 %worst.key, 1
  br label %next
next:
  %count.next = phi i64 [ %count, %look ], [ %held.next, %taken ], [ %k, %thin ]
  %bound.next = phi i64 [ %bound, %look ], [ %bound, %taken ], [ %worst.less, %thin ]
  %i.next = add i64 %i, $lanes
  %i.more = icmp ult i64 %i.next, %whole
  br i1 %i.more, label %look, label %rest
rest:
  %kept = phi i64 [ 0, %entry ], [ %count.next, %next ]
  %left = icmp ult i64 %whole, %n
  br i1 %left, label %singly, label %out
singly:
  %j = phi i64 [ %whole, %rest ], [ %j.next, %singly ]
  %total = phi i64 [ %kept, %rest ], [ %total.next, %singly ]
  call void @append(ptr %buffer, i64 %total, ptr %row, i64 %j)
  %total.next = add i64 %total, 1
  %j.next = add i64 %j, 1
  %j.more = icmp ult i64 %j.next, %n
  br i1 %j.more, label %singly, label %out
out:
  %all = phi i64 [ %kept, %rest ], [ %total.next, %singly ]
  %rc.last = call i32 @$sort(ptr %buffer, i64 %all, ptr null)
  ret void
}
""")


def top(keys: Keys) -> str:
    """`@top(row, buffer, k, full, n)`: the k least of a row, packed, in order.

    What is not above the bound is added to the buffer; when that is full, all but the
    k least are dropped, of which the last is the next bound.
    """
    one, many = Code(0, "s"), Code(LANES, "v")
    key = keys.wide(one, one.load("%row", "%i", keys.bits))
    one.lines.append(f"  %packed = or i64 {key}, %i")
    wide = keys.wide(many, many.load("%row", "%i", keys.bits))
    return _TOP.substitute(
        lanes=LANES, one="\n".join(one.lines), many="\n".join(many.lines), wide=wide,
        sort=sort_symbol(dtypes.int64), greatest=(1 << 63) - 1, high=-1 << 32,
    )  # fmt: skip

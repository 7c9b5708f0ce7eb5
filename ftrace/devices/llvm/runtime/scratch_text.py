"""The text of what keeps scratch memory: see `scratch.py`."""

from __future__ import annotations

import mmap
import sys
from string import Template

from ftrace.devices.llvm.ir.symbols import GIVE, TAKE

#: Blocks that are kept: about as many as threads run kernels at the same time.
PLACES = 64
#: Blocks are made of whole huge pages.
PAGE = 2 << 20

_ADVISE = "  %advised = call i32 @madvise(ptr %block, i64 %size, i32 14)\n"

_TEXT = Template("""
@places = internal global [$places x ptr] zeroinitializer, align 128

declare ptr @malloc(i64)
declare void @free(ptr)
declare i32 @madvise(ptr, i64, i32)

define ptr @$take(i64 %bytes) nounwind {
entry:
  %needed = add i64 %bytes, 128
  br label %look
look:
  %n = phi i64 [ 0, %entry ], [ %after, %next ]
  %place = getelementptr ptr, ptr @places, i64 %n
  %seen = load atomic ptr, ptr %place monotonic, align 8
  %empty = icmp eq ptr %seen, null
  br i1 %empty, label %next, label %grab
grab:
  %kept = atomicrmw xchg ptr %place, ptr null acquire
  %gone = icmp eq ptr %kept, null
  br i1 %gone, label %next, label %measure
measure:
  %length = load i64, ptr %kept
  %fits = icmp uge i64 %length, %needed
  br i1 %fits, label %found, label %small
small:
  %origin = getelementptr i64, ptr %kept, i64 1
  %raw.old = load ptr, ptr %origin
  call void @free(ptr %raw.old)
  br label %next
next:
  %after = add i64 %n, 1
  %more = icmp ult i64 %after, $places
  br i1 %more, label %look, label %make
make:
  %up = add i64 %needed, ${page_less_one}
  %size = and i64 %up, -$page
  %room = add i64 %size, $page
  %raw = call ptr @malloc(i64 %room)
  %none = icmp eq ptr %raw, null
  br i1 %none, label %short, label %begin
short:
  ret ptr null
begin:
  %start = ptrtoint ptr %raw to i64
  %beyond = add i64 %start, ${page_less_one}
  %aligned = and i64 %beyond, -$page
  %block = inttoptr i64 %aligned to ptr
$advise  store i64 %size, ptr %block
  %home = getelementptr i64, ptr %block, i64 1
  store ptr %raw, ptr %home
  br label %found
found:
  %ours = phi ptr [ %kept, %measure ], [ %block, %begin ]
  %result = getelementptr i8, ptr %ours, i64 128
  ret ptr %result
}

define void @$give(ptr %memory) nounwind {
entry:
  %block = getelementptr i8, ptr %memory, i64 -128
  br label %look
look:
  %n = phi i64 [ 0, %entry ], [ %after, %next ]
  %place = getelementptr ptr, ptr @places, i64 %n
  %seen = load atomic ptr, ptr %place monotonic, align 8
  %empty = icmp eq ptr %seen, null
  br i1 %empty, label %put, label %next
put:
  %tried = cmpxchg ptr %place, ptr null, ptr %block release monotonic
  %done = extractvalue { ptr, i1 } %tried, 1
  br i1 %done, label %out, label %next
next:
  %after = add i64 %n, 1
  %more = icmp ult i64 %after, $places
  br i1 %more, label %look, label %full
full:
  %home = getelementptr i64, ptr %block, i64 1
  %raw = load ptr, ptr %home
  call void @free(ptr %raw)
  ret void
out:
  ret void
}
""")

_FENCED = Template("""
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @mprotect(ptr, i64, i32)

define ptr @$take(i64 %bytes) nounwind {
entry:
  %up = add i64 %bytes, 127
  %used = and i64 %up, -128
  %over = add i64 %used, $small_less_one
  %room = and i64 %over, -$small
  %total = add i64 %room, ${small_twice}
  %raw = call ptr @mmap(ptr null, i64 %total, i32 3, i32 $anonymous, i32 -1, i64 0)
  %start = ptrtoint ptr %raw to i64
  %failed = icmp eq i64 %start, -1
  br i1 %failed, label %short, label %begin
short:
  ret ptr null
begin:
  store i64 %total, ptr %raw
  %last = sub i64 %total, $small
  %fence = getelementptr i8, ptr %raw, i64 %last
  %done = call i32 @mprotect(ptr %fence, i64 $small, i32 0)
  %back = sub i64 0, %used
  %result = getelementptr i8, ptr %fence, i64 %back
  ret ptr %result
}

define void @$give(ptr %memory) nounwind {
  %at = ptrtoint ptr %memory to i64
  %page = and i64 %at, -$small
  %before = sub i64 %page, $small
  %raw = inttoptr i64 %before to ptr
  %total = load i64, ptr %raw
  %done = call i32 @munmap(ptr %raw, i64 %total)
  ret void
}
""")


def fenced_scratch_ir() -> str:
    """The same for blocks that end at a page which is not there."""
    small = mmap.PAGESIZE
    return _FENCED.substitute(
        take=TAKE, give=GIVE, small=small, small_less_one=small - 1,
        small_twice=2 * small, anonymous=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS,
    )  # fmt: skip


def scratch_ir() -> str:
    """The text of both functions, for this system."""
    linux = sys.platform.startswith("linux")
    return _TEXT.substitute(
        take=TAKE, give=GIVE, places=PLACES, page=PAGE, page_less_one=PAGE - 1,
        advise=_ADVISE if linux else "",
    )  # fmt: skip

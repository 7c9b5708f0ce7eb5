"""On which core a worker of the pool sits: LLVM IR.

    seat                       the core of this thread; -1 where that cannot be known
    leave_the_caller_alone     goes to another core than that of the caller

Two threads that spin on one core take turns of milliseconds. The system moves one of
them in the end; a worker that sees its caller's core under it goes at once: to any
other core that it may use, from where it may go on to all of them.
"""

from __future__ import annotations

#: On Linux.
SEATS = r"""
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)

define internal i64 @seat() alwaysinline {
  %cpu = call i32 @sched_getcpu()
  %wide = sext i32 %cpu to i64
  ret i64 %wide
}

define internal void @leave_the_caller_alone() {
entry:
  %all = alloca i1024, align 128
  %others = alloca i1024, align 128
  %mine = call i64 @seat()
  %noted = getelementptr i8, ptr @job, i64 40
  %callers = load atomic i64, ptr %noted monotonic, align 8
  %same = icmp eq i64 %mine, %callers
  %listed = icmp ult i64 %mine, 1024
  %crowded = and i1 %same, %listed
  br i1 %crowded, label %ask, label %out
ask:
  store i1024 0, ptr %all
  %known = call i32 @sched_getaffinity(i32 0, i64 128, ptr %all)
  %fine = icmp eq i32 %known, 0
  br i1 %fine, label %leave, label %out
leave:
  %place = zext i64 %mine to i1024
  %bit = shl i1024 1, %place
  %keep = xor i1024 %bit, -1
  %may = load i1024, ptr %all
  %rest = and i1024 %may, %keep
  %nowhere = icmp eq i1024 %rest, 0
  br i1 %nowhere, label %out, label %go
go:
  store i1024 %rest, ptr %others
  %there = call i32 @sched_setaffinity(i32 0, i64 128, ptr %others)
  %free = call i32 @sched_setaffinity(i32 0, i64 128, ptr %all)
  br label %out
out:
  ret void
}
"""

#: Where threads stay where they are put.
NO_SEATS = """
define internal i64 @seat() alwaysinline {
  ret i64 -1
}
define internal void @leave_the_caller_alone() alwaysinline {
  ret void
}
"""

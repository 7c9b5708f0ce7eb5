"""Stores that go past the caches, for results that do not fit in them.

Such a store does not read the line that it overwrites: a third of the traffic of an
addition. It needs aligned memory, which is known at run time only, so that the module
has both kinds of code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ftrace.devices.llvm.ir.writer import ARGUMENTS, Writer
from ftrace.devices.llvm.target import Target
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.kernel.ir import Kernel, load_p

#: The share of the last cache that a result takes at least.
_SHARE = 8

Build = Callable[[frozenset[int]], Writer]


def streamed_buffers(
    kernel: Kernel, target: Target, scattered: bool = False
) -> frozenset[int]:
    """Large buffers that are only written, in kernels whose data fit in no cache.

    Args:
      scattered: lines of many places are written in turn, which needs more room.
    """
    if not target.decides("past_caches"):
        return frozenset()
    if kernel.is_dynamic or (kernel.ordered and kernel.scatters):
        return frozenset()
    read = {n.src[0].arg for n in kernel.nodes if n.op is load_p}
    read |= {store.buffer for store in kernel.stores if store.combine}
    written = {store.buffer for store in kernel.stores} - read
    room = target.l3 * 3 // 4 if scattered else target.l3
    return large_results(kernel, written, target, room)


def large_results(
    kernel: Kernel, written: Iterable[int], target: Target, room: int | None = None
) -> frozenset[int]:
    """Those of some buffers that are worth it, if nothing is to stay in the caches.

    Args:
      room: for all buffers in the last cache; None is all of it.
    """
    sizes = [spec.size * spec.dtype.itemsize for spec in kernel.buffers]
    room = target.l3 if room is None else room
    if not target.triple.startswith("x86_64") or sum(sizes) <= room:
        return frozenset()
    return frozenset(n for n in written if sizes[n] * _SHARE >= target.l3)


class Code(NamedTuple):
    """Functions of a module, and the lines that they need before them."""

    declared: dict[str, None]
    functions: list[str]


def module(target: Target, name: str, streamed: frozenset[int], build: Build) -> str:
    """The text of a module with the function `name`: see `function`."""
    return joined(target, function(target, name, streamed, build))


def function(
    target: Target,
    name: str,
    streamed: frozenset[int],
    build: Build,
    internal: bool = False,
) -> Code:
    """The function `name`, with those that it calls.

    Args:
      streamed: buffers that may be stored to past the caches.
      build: writes the function, given the buffers for which that is done.
      internal: it is called in the same module only.
    """
    plain = build(frozenset())
    fast = build(streamed) if streamed else plain
    if not fast.streams:
        return Code(plain.declared, [plain.function(name, internal)])
    kind = "internal " if internal else ""
    lines = [f"define {kind}void @{name}({ARGUMENTS}) nounwind {{", "entry:"]
    bits = "0"
    for number in sorted(streamed):
        v = f"%b{number}"
        lines += [
            f"  {v}.place = getelementptr ptr, ptr %buffers, i64 {number}",
            f"  {v}.pointer = load ptr, ptr {v}.place, align 8",
            f"  {v}.address = ptrtoint ptr {v}.pointer to i64",
            f"  {v} = or i64 {bits}, {v}.address",
        ]
        bits = v
    lines += [
        f"  %low = and i64 {bits}, {target.vector_bytes - 1}",
        "  %aligned = icmp eq i64 %low, 0",
        "  br i1 %aligned, label %fast, label %plain",
        "fast:",
        f"  call void @{name}.streaming({ARGUMENTS})",
        "  call void @llvm.x86.sse.sfence()",
        "  ret void",
        "plain:",
        f"  call void @{name}.plain({ARGUMENTS})",
        "  ret void",
        "}",
        "",
    ]
    fast.declare("declare void @llvm.x86.sse.sfence()")
    functions = [
        fast.function(f"{name}.streaming", internal=True),
        plain.function(f"{name}.plain", internal=True),
        "\n".join(lines),
    ]
    return Code(plain.declared | fast.declared, functions)


def in_turn(name: str, parts: Sequence[tuple[str, int]]) -> Code:
    """A function whose units are those of other functions, one after the other.

    Args:
      parts: names of functions, and how many units each has.
    """
    lines = [f"define void @{name}({ARGUMENTS}) nounwind {{", "entry:"]
    first = 0
    for n, (part, units) in enumerate(parts):
        lines += [
            f"  %a{n} = sub i64 %begin, {first}",
            f"  %b{n} = call i64 @llvm.smax.i64(i64 %a{n}, i64 0)",
            f"  %c{n} = sub i64 %end, {first}",
            f"  %e{n} = call i64 @llvm.smin.i64(i64 %c{n}, i64 {units})",
            f"  %any{n} = icmp slt i64 %b{n}, %e{n}",
            f"  br i1 %any{n}, label %run{n}, label %over{n}",
            f"run{n}:",
            f"  call void @{part}(ptr %buffers, i64 %b{n}, i64 %e{n})",
            f"  br label %over{n}",
            f"over{n}:",
        ]
        first += units
    names = ("smin", "smax")
    declared = [f"declare i64 @llvm.{word}.i64(i64, i64)" for word in names]
    return Code(dict.fromkeys(declared), ["\n".join([*lines, "  ret void", "}", ""])])


def joined(target: Target, *codes: Code) -> str:
    """A module of all that is in `codes`."""
    declared = dict.fromkeys(line for code in codes for line in code.declared)
    functions = [text for code in codes for text in code.functions]
    return "\n".join([f'target triple = "{target.triple}"', *declared, *functions])

"""Stores that go past the caches, for results that do not fit in them.

Such a store does not read the line that it overwrites: a third of the traffic of an
addition. It needs aligned memory, which is known at run time only, so that the module
has both kinds of code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ftrace.devices.llvm.ir.function_builder import Function
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
    f = _function(name, not internal)
    bits = "0"
    for number in sorted(streamed):
        address = f.let(f"ptrtoint ptr {f.slot('%buffers', number)} to i64")
        bits = f.let(f"or i64 {bits}, {address}")
    low = f.let(f"and i64 {bits}, {target.vector_bytes - 1}")
    with f.when(f.let(f"icmp eq i64 {low}, 0")):
        f.do(f"call void @{name}.streaming({ARGUMENTS})")
        f.do("call void @llvm.x86.sse.sfence()")
        f.give()
    f.do(f"call void @{name}.plain({ARGUMENTS})")
    f.give()
    fast.declare("declare void @llvm.x86.sse.sfence()")
    functions = [
        fast.function(f"{name}.streaming", internal=True),
        plain.function(f"{name}.plain", internal=True),
        f.text,
    ]
    return Code(plain.declared | fast.declared, functions)


def _function(name: str, visible: bool) -> Function:
    return Function(name, "void", *ARGUMENTS.split(", "), visible=visible)


def in_turn(name: str, parts: Sequence[tuple[str, int]]) -> Code:
    """A function whose units are those of other functions, one after the other.

    Args:
      parts: names of functions, and how many units each has.
    """
    f, first = _function(name, True), 0
    for part, units in parts:
        begin, end = (f.let(f"sub i64 {x}, {first}") for x in ("%begin", "%end"))
        begin = f.let(f"call i64 @llvm.smax.i64(i64 {begin}, i64 0)")
        end = f.let(f"call i64 @llvm.smin.i64(i64 {end}, i64 {units})")
        with f.when(f.let(f"icmp slt i64 {begin}, {end}")):
            f.do(f"call void @{part}(ptr %buffers, i64 {begin}, i64 {end})")
        first += units
    f.give()
    declared = [f"declare i64 @llvm.{word}.i64(i64, i64)" for word in ("smin", "smax")]
    return Code(dict.fromkeys(declared), [f.text])


def joined(target: Target, *codes: Code) -> str:
    """A module of all that is in `codes`."""
    declared = dict.fromkeys(line for code in codes for line in code.declared)
    functions = [text for code in codes for text in code.functions]
    return "\n".join([f'target triple = "{target.triple}"', *declared, *functions])

"""Stores that go past the caches, for results that do not fit in them.

Such a store does not read the line that it overwrites: a third of the traffic of an
addition. It needs aligned memory, which is known at run time only, so that the module
has both kinds of code.
"""

from __future__ import annotations

from collections.abc import Callable

from ftrace.devices.llvm.target import Target
from ftrace.devices.llvm.writer import ARGUMENTS, Writer
from ftrace.lower.kernel import Kernel, load_p

#: The share of the last cache that a result takes at least.
_SHARE = 8

Build = Callable[[frozenset[int]], Writer]


def streamed_buffers(kernel: Kernel, target: Target) -> frozenset[int]:
    """Large buffers that are only written, in kernels whose data fit in no cache."""
    if kernel.is_dynamic:
        return frozenset()
    sizes = [spec.size * spec.dtype.itemsize for spec in kernel.buffers]
    if not target.triple.startswith("x86_64") or sum(sizes) <= target.l3:
        return frozenset()
    if kernel.ordered or any(store.combine for store in kernel.stores):
        return frozenset()
    read = {n.src[0].arg for n in kernel.nodes if n.op is load_p}
    return frozenset(
        store.buffer
        for store in kernel.stores
        if store.buffer not in read and sizes[store.buffer] * _SHARE >= target.l3
    )


def module(target: Target, name: str, streamed: frozenset[int], build: Build) -> str:
    """The text of a module with the function `name`.

    Args:
      streamed: buffers that may be stored to past the caches.
      build: writes the function, given the buffers for which that is done.
    """
    plain = build(frozenset())
    if not streamed:
        return _joined(target, [plain], plain.function(name))
    fast = build(streamed)
    if not any("!nontemporal" in line for line in fast.stack[0].lines):
        return _joined(target, [plain], plain.function(name))
    lines = [f"define void @{name}({ARGUMENTS}) nounwind {{", "entry:"]
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
    ]
    return _joined(target, [plain, fast], *functions, "\n".join(lines))


def _joined(target: Target, writers: list[Writer], *functions: str) -> str:
    declared = dict.fromkeys(line for writer in writers for line in writer.declared)
    head = [f'target triple = "{target.triple}"', *declared]
    return "\n".join([*head, *functions])

"""Kernels that are compiled together: several in one module of LLVM IR.

    define void @kernel(…)      define void @kernel(…)
    ->  define void @kernel0(…)  define void @kernel1(…)

LLVM takes as long to begin with a module as to compile a short kernel, so that a
module for each would cost a program of many kernels a sixth of its time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ftrace.devices.llvm.loops.access import ZEROS
from ftrace.devices.llvm.loops.rendered import Rendered

#: The name of the function in a kernel's own module. Functions that only it calls
#: have names that begin with this one.
FUNCTION: Final = "kernel"
#: Characters of a module; a kernel that is longer has one for itself. This is so much
#: that beginning is a tenth of the work, and so little that threads end together.
LENGTH: Final = 48_000

_DEFINED: Final = re.compile(r"^define .*?@([\w.]+)\(", re.MULTILINE)


def grouped(kernels: Iterable[Rendered]) -> Iterator[list[Rendered]]:
    """Kernels in order, those side by side that are to be one module.

    They are rendered while the groups before them are compiled.
    """
    group: list[Rendered] = []
    length = 0
    for kernel in kernels:
        size = len(kernel.text)
        if group and (length + size > LENGTH or not _can_be_joined(kernel)):
            yield group
            group, length = [], 0
        group.append(kernel)
        length += size
        if length > LENGTH or not _can_be_joined(kernel):
            yield group
            group, length = [], 0
    if group:
        yield group


def _can_be_joined(kernel: Rendered) -> bool:
    """Are its names its own but for what all kernels declare alike?"""
    if kernel.dims:  # what is dynamic is kept by its text
        return False
    head, _, _ = kernel.text.partition("\ndefine ")
    if any(line.startswith("@") and line != ZEROS for line in head.splitlines()):
        return False
    return all(name.startswith(FUNCTION) for name in _DEFINED.findall(kernel.text))


def in_one_module(texts: Sequence[str]) -> tuple[str, list[str]]:
    """The module of kernels that stand in modules of their own, and their names."""
    if len(texts) == 1:
        return texts[0], [FUNCTION]
    lines: dict[str, None] = {}
    bodies: list[str] = []
    names = [f"{FUNCTION}{number}" for number in range(len(texts))]
    for name, text in zip(names, texts, strict=True):
        head, define, body = text.partition("\ndefine ")
        lines |= dict.fromkeys(head.splitlines())
        bodies.append((define + body).replace(f"@{FUNCTION}", f"@{name}"))
    return "\n".join(lines) + "".join(bodies), names

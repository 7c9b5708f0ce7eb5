"""LLVM IR in a normal form, and as an outline that a person can read.

    %v12 = load float, ptr %p     ->     %4 = load float, ptr %2

In the normal form names are numbers in the order in which they occur, comments and
declarations are left out. The outline has a line for each loop, with what is done in it
but in no loop inside of it: `for 0..64 by 1: 16 fma f32x16, 2 load f32x16, 8 load f32`.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from ftrace.backends.llvm.target import Target

_NAME = re.compile(r"[%@][\w.]+")
_LABEL = re.compile(r"([\w.]+):")
_TARGET = re.compile(r"label (%[\w.]+)")
_TYPE = r"(<\d+ x \w+>|\w+)"
_OPERATION = re.compile(rf"  (?:%\S+ = )?(\w+) (?:(?:[a-z]+) )*?{_TYPE}[ ,]")
_STEP = re.compile(r"  (\S+) = phi i64 \[([^,]+), [^]]+\], \[([^,]+),")
#: Parts of the name of an intrinsic that say its type.
_SUFFIX = re.compile(r"x86|avx512|mask|v?\d*[pif]?\d+|p[sd]")


def library_functions_in(text: str) -> list[str]:
    """The functions of `kernels/function_library.py` that a module calls."""
    return re.findall(r"declare .* @(ftrace_\w+)\(", text)


def functions_of(text: str) -> Iterator[list[str]]:
    """The lines of each function, and of each global value, that a module defines."""
    lines: list[str] = []
    for line in text.splitlines():
        line = line.partition(" ;")[0].rstrip()
        if line.startswith("define"):
            lines = [line]
        elif lines:
            lines.append(line)
            if line == "}":
                yield lines
                lines = []
        elif line.startswith("@"):
            yield [line]


def normal_form(text: str) -> str:
    """A module in which only what it does can differ."""
    found: list[str] = []
    shared: dict[str, str] = {}  # names of functions and global values
    for lines in functions_of(text):
        own: dict[str, str] = {}

        def number(match: re.Match[str], own: dict[str, str] = own) -> str:
            name = match[0]
            if name.startswith("@llvm."):
                return name
            known = own if name[0] == "%" else shared
            return known.setdefault(name, f"{name[0]}{len(known)}")

        for line in lines:
            label = _LABEL.fullmatch(line)
            line = f"%{label[1]}:" if label else line
            found.append(_NAME.sub(number, line))
    return "\n".join(found) + "\n"


@cache
def _machine(target: Target) -> tuple[Any, Any]:
    llvm = pytest.importorskip("llvmlite.binding")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    found = llvm.Target.from_triple(target.triple)
    options = {"cpu": target.cpu, "features": target.features, "opt": 1}
    return llvm, found.create_target_machine(**options)


def assembly_of(text: str, target: Target) -> str:
    """What LLVM makes of a module for a processor, which need not be this one."""
    llvm, machine = _machine(target)
    module = llvm.parse_assembly(text)
    module.verify()
    assert machine.emit_object(module)
    return str(machine.emit_assembly(module))


def digest(text: str) -> str:
    return hashlib.sha256(normal_form(text).encode()).hexdigest()[:16]


def outline(text: str) -> list[str]:
    """A line for each function and for each loop, indented as they are nested."""
    return [
        f"{'  ' * depth}{line}"
        for lines in functions_of(text)
        if len(lines) > 1
        for depth, line in _outline_of(lines)
    ]


def _outline_of(lines: list[str]) -> Iterator[tuple[int, str]]:
    labels = {f"%{m[1]}": n for n, x in enumerate(lines) if (m := _LABEL.fullmatch(x))}
    ends: dict[int, int] = {}  # by the first line of a loop: its last one
    for n, line in enumerate(lines):
        for label in _TARGET.findall(line):
            if labels[label] <= n:
                ends[labels[label]] = n
    loops = [(0, len(lines)), *sorted(ends.items())]
    for k, (first, last) in enumerate(loops):
        inside = [(b, e) for b, e in loops[k + 1 :] if b <= last]
        own = Counter[str]()
        for n in range(first, last):
            if not any(b <= n <= e for b, e in inside):
                own.update(_operation(lines[n]))
        counts = ", ".join(f"{own[name]} {name}" for name in sorted(own, key=_place))
        depth = sum(b <= first <= e for b, e in loops[:k])
        yield depth, _head(lines, first, last) + (f": {counts}" if counts else "")


def _head(lines: list[str], first: int, last: int) -> str:
    if not first:
        return "function"
    for line in lines[first : last + 1]:
        if step := _STEP.match(line):
            name, start, following = step.groups()
            by = _found(lines, rf"  {re.escape(following)} = add i64 {name}, (\S+)")
            end = _found(lines, rf"icmp \w+ i64 {re.escape(following)}, (\S+)")
            return f"for {_number(start)}..{_number(end)} by {_number(by)}"
    return "loop"


def _found(lines: list[str], pattern: str) -> str:
    return next((m[1] for x in lines if (m := re.search(pattern, x))), "")


def _number(value: str) -> str:
    return value if re.fullmatch(r"-?\d+", value) else "?"


def _operation(line: str) -> Iterator[str]:
    """What a line does to numbers and vectors; addresses and counters are silent."""
    if bytes_of := re.search(r" = alloca \[(\d+) x i8\]", line):
        yield f"panel of {bytes_of[1]} bytes"
    elif call := re.search(rf"call (?:\w+ )*?{_TYPE} @([\w.]+)\(", line):
        kind, name = call.groups()
        if not name.startswith("llvm."):
            yield name if name.startswith("ftrace_") else "call"
            return
        words = [w for w in name.split(".")[1:] if not _SUFFIX.fullmatch(w)]
        if kind != "i64":
            vectors = kind[0] == "<" and words[0] in _NAMED
            yield f"{words[0]} {_short(kind)}" if vectors else ".".join(words)
    elif found := _OPERATION.match(line):
        name, kind = found.groups()
        if name in ("load", "store") and kind not in ("ptr", "i64"):
            stream = "!nontemporal" in line
            yield f"{'stream' if stream else name} {_short(kind)}"
        elif kind[0] == "<" or kind in _SHORT:
            yield "other"


#: What is counted with its type.
_NAMED = ("load", "store", "stream", "fma", "fmuladd")
_SHORT = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16"}


def _short(kind: str) -> str:
    """`f32x16` of <16 x float>."""
    vector = re.fullmatch(r"<(\d+) x (\w+)>", kind)
    element = vector[2] if vector else kind
    return _SHORT.get(element, element) + (f"x{vector[1]}" if vector else "")


def _place(name: str) -> tuple[bool, str]:
    return name == "other", name

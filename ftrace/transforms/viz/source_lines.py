"""The user's lines that a program comes from, and the code around them."""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterable
from types import CodeType
from typing import Any

from ftrace.errors import Origin

#: Lines around those of a module, which has no end that would be worth showing.
_AROUND = 2


class SourceLines:
    """The lines so far, by number."""

    def __init__(self) -> None:
        self._origins: list[Origin] = []
        self._numbers: dict[tuple[str, int], int] = {}
        self._known: dict[tuple[int, int], int] = {}

    def number(self, origin: Origin | None) -> int:
        """The number of a line; -1 where it is not known."""
        if origin is None:
            return -1
        place = id(origin.code), origin.offset  # to find its line takes long
        found = self._known.get(place)
        if found is None:
            key = origin.file, origin.line
            found = self._numbers.setdefault(key, len(self._numbers))
            self._known[place] = found
            if found == len(self._origins):
                self._origins.append(origin)
        return found

    def find(self, origin: Origin | None) -> int:
        """The number of a line that has one; else -1."""
        known = origin is not None and (origin.file, origin.line)
        return self._numbers.get(known, -1) if known else -1

    def as_data(self) -> dict[str, Any]:
        """The lines as [file, line, function], and of each file the code around them.

        A block of code is the number of its first line, and its lines.
        """
        files = list(dict.fromkeys([origin.file for origin in self._origins]))
        return {
            "lines": [[files.index(o.file), o.line, o.function] for o in self._origins],
            "files": [
                {"name": os.path.basename(file), "path": file, "blocks": _blocks(own)}
                for file in files
                for own in [[o for o in self._origins if o.file == file]]
            ],
        }


def _blocks(origins: Iterable[Origin]) -> list[tuple[int, list[str]]]:
    """The functions of one file in which the lines are, those that meet as one."""
    (*origins,) = origins
    lines = [line.rstrip("\n") for line in linecache.getlines(origins[0].file)]
    if not lines:  # a file of another machine, or none
        return [(origin.line, [origin.text]) for origin in origins]
    found: list[tuple[int, int]] = []
    for first, last in sorted(_extent(origin, lines) for origin in origins):
        if found and first <= found[-1][1] + 1:
            first, last = found[-1][0], max(found.pop()[1], last)
        found.append((first, last))
    return [(first, lines[first - 1 : last]) for first, last in found]


def _extent(origin: Origin, lines: list[str]) -> tuple[int, int]:
    """The first and the last line of the function that a line is in."""
    line, count = origin.line, len(lines)
    if origin.function == "<module>":
        return max(line - _AROUND, 1), min(line + _AROUND, count)
    first, last = min(origin.code.co_firstlineno, line), max(_last(origin.code), line)
    while last < count and lines[last].lstrip()[:1] in (")", "]", "}"):
        last += 1
    return first, min(last, count)


def _last(code: CodeType) -> int:
    """The last line of a function, and of those that are written in it."""
    inner = [_last(c) for c in code.co_consts if isinstance(c, CodeType)]
    return max([n for _, _, n in code.co_lines() if n is not None] + inner, default=1)

"""Docstrings as Sphinx takes them.

Ours are written to be read in a terminal: code stands in single backticks, formulas and
diagrams in indented blocks, and a star is a star. reStructuredText has other signs for
these. The sections (Args, Returns, Raises) are left to `sphinx.ext.napoleon`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

SECTION = re.compile(
    r"(Args|Arguments|Attributes|Examples?|Notes?|Raises|Returns|Yields|References):$"
)
#: Code in backticks, one or two, which may go on in the next line.
CODE = re.compile(r"(``[^`]+``|`[^`]+`)")
MARKS = re.compile(r"([*|\\]|(?<=\w)_(?=\W|$))")


def marked(text: str) -> str:
    """Prose with code in double backticks, and no other sign that means anything."""
    parts = CODE.split(text)
    for i, part in enumerate(parts):
        if i % 2:
            parts[i] = f"``{' '.join(part.strip('`').split())}``"
        else:
            glued = i > 0 and part[:1].isalnum()  # the s of a plural
            parts[i] = "\\ " * glued + MARKS.sub(r"\\\1", part)
    return "".join(parts)


def blocks_of(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """("code" or "prose", lines): what is indented without a section around it."""
    kind, block, in_section = "prose", list[str](), False
    for line in lines:
        if line and not line.startswith(" "):
            in_section = SECTION.match(line) is not None
        inside = line.startswith("  ") and not in_section
        now = "code" if inside or (not line and kind == "code") else "prose"
        if line.lstrip().startswith(">>>") or (kind == "doctest" and line.strip()):
            now = "doctest"
        if now != kind:
            yield kind, block
            kind, block = now, []
        block.append(line)
    yield kind, block


def as_restructured_text(lines: list[str]) -> list[str]:
    """The lines of a docstring with the signs of reStructuredText."""
    found: list[str] = []
    for kind, block in blocks_of(lines):
        if kind == "prose":
            found += marked("\n".join(block)).split("\n") if block else []
        elif kind == "code":
            found += ["", "::", "", *block, ""]
        else:
            found += ["", *block, ""]
    return found


def process(app: Any, what: str, name: str, obj: Any, options: Any, lines: Any) -> None:
    if what in ("property", "attribute") and lines:
        # What stands before a colon would be taken for its type.
        lines[:1] = re.sub(r": +", ":\n", lines[0], count=1).split("\n")
    lines[:] = as_restructured_text(lines)


def skip(app: Any, what: str, name: str, obj: Any, skipped: bool, options: Any) -> Any:
    """Fields of named tuples and records: their class tells of them."""
    kind = type(obj).__name__
    return True if kind in ("_tuplegetter", "member_descriptor") else None

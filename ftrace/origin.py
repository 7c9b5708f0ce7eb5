"""Where in the user's program something happened.

An `Origin` is a code object and an instruction offset: two references, so that
noting it costs well under a microsecond. File, line and source text are looked up
only when somebody reads them.
"""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from types import CodeType, FrameType

PACKAGE = str(Path(__file__).parent)
_internal: dict[str, bool] = {}


class Origin:
    """A place in the user's source: `file`, `line`, `function`, `text`."""

    __slots__ = ("code", "offset")

    def __init__(self, code: CodeType, offset: int) -> None:
        self.code = code
        self.offset = offset

    @property
    def file(self) -> str:
        return self.code.co_filename

    @property
    def line(self) -> int:
        line = self.code.co_firstlineno
        for start, end, number in self.code.co_lines():
            if start <= self.offset < end and number is not None:
                return number
        return line

    @property
    def function(self) -> str:
        return self.code.co_name

    @property
    def text(self) -> str:
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line} ({self.function})"

    def describe(self) -> str:
        """The line as a traceback would show it."""
        where = f'File "{self.file}", line {self.line}, in {self.function}'
        return f"{where}\n    {self.text}" if self.text else where


def is_internal(frame: FrameType) -> bool:
    """Does this frame run code of the package itself?"""
    name = frame.f_code.co_filename
    known = _internal.get(name)
    if known is None:
        known = _internal[name] = name.startswith(PACKAGE)
    return known


def user_origin() -> Origin | None:
    """The innermost frame outside the package, or None when there is none."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if not is_internal(frame):
            return Origin(frame.f_code, frame.f_lasti)
        frame = frame.f_back
    return None

"""Where in the user's program something happened.

An `Origin` is a code object and an instruction offset: two references, so that
noting it costs well under a microsecond. File, line and source text are looked up
only when somebody reads them.
"""

from __future__ import annotations

import linecache
import os
import sys
import threading
import warnings
from importlib.util import find_spec
from types import CodeType, FrameType
from typing import Any

#: Of files met so far: is their code ours, or of a library between the user and us?
is_internal_file: dict[str, bool] = {}


def _folder_of(package: str) -> str:
    spec = find_spec(package)
    return os.path.dirname(spec.origin or "") if spec is not None else ""


# Between the user's line and ours stand frames of contextlib, functools, threading,
# and of the packages that call functions for us.
_LIBRARY = os.path.dirname(os.__file__)
_OURS = os.path.dirname(os.path.dirname(__file__))
_INTERNAL = tuple(
    folder + os.sep
    for folder in (_OURS, _folder_of("numpy"), _folder_of("optree"))
    if folder
)
_PACKAGES = ("site-packages", "dist-packages")


class _Names(threading.local):
    """The names that stand around what is traced now, joined by slashes."""

    joined = ""


names = _Names()


class Origin:
    """A place in the user's source: `file`, `line`, `function`, `text`.

    Attributes:
      name_stack: the names of the blocks around it, joined by slashes.
    """

    __slots__ = ("code", "name_stack", "offset")

    def __init__(self, code: CodeType, offset: int) -> None:
        self.code = code
        self.offset = offset
        self.name_stack = names.joined

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
        return f"{os.path.basename(self.file)}:{self.line} ({self.function})"

    def describe(self) -> str:
        """The line as a traceback would show it."""
        where = f'File "{self.file}", line {self.line}, in {self.function}'
        return f"{where}\n    {self.text}" if self.text else where

    def __reduce__(self) -> tuple[Any, ...]:
        return _place, (self.file, self.line, self.function, self.text)


class _Place(Origin):
    """A place of another process, where its source may not be."""

    __slots__ = ("_text",)

    @property
    def text(self) -> str:
        return self._text


def _place(file: str, line: int, function: str, text: str) -> Origin:
    code = _place.__code__.replace(
        co_filename=file, co_firstlineno=line, co_name=function
    )
    place = _Place(code, -1)  # before its first instruction
    place._text = text  # pyright: ignore[reportPrivateUsage]
    return place


def is_internal(frame: FrameType) -> bool:
    """Does this frame run code of ours, or of a library between the user and us?"""
    name = frame.f_code.co_filename
    known = is_internal_file.get(name)
    if known is None:
        known = is_internal_file[name] = _decide_internal(name)
    return known


def _decide_internal(name: str) -> bool:
    if name.startswith(_INTERNAL) or name.startswith("<frozen "):
        return True
    if name.startswith(_LIBRARY + os.sep):
        return not name[len(_LIBRARY) + 1 :].startswith(_PACKAGES)
    return name == "<string>"  # generated code: of a dataclass, a namedtuple


def user_origin() -> Origin | None:
    """The innermost frame of the user's own code, or None when there is none."""
    # Some eight frames are ours, for every operation: this is `is_internal`, inline.
    known = is_internal_file.get
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        code = frame.f_code
        internal = known(code.co_filename)
        if internal is None:
            internal = is_internal(frame)
        if not internal:
            return Origin(code, frame.f_lasti)
        frame = frame.f_back
    return _generated_origin()


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """A warning about the user's own line."""
    origin = user_origin()
    place = ("<unknown>", 1) if origin is None else (origin.file, origin.line)
    warnings.warn_explicit(text, category, *place)


def _generated_origin() -> Origin | None:
    """The innermost frame of generated code: `python -c` runs under this name too."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if frame.f_code.co_filename == "<string>":
            return Origin(frame.f_code, frame.f_lasti)
        frame = frame.f_back
    return None


#: Where public functions stand behind others, which have them in a variable.
_AROUND = os.path.join(_OURS, "trace", "eager", "dispatch.py")


def called_function() -> str:
    """The name of the public function that the user's line has called, if it is known.

    Empty if it is not. For messages: it looks at all frames up to the user's.
    """
    name = ""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and is_internal(frame):
        code = frame.f_code
        if code.co_name == "call" and code.co_filename == _AROUND:
            name = getattr(frame.f_locals.get("function"), "__name__", "")
        frame = frame.f_back
    return name

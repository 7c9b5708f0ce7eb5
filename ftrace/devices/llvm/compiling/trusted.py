"""Files whose content may be run: nobody but the user, or root, can have written them.

What is read from the disk cache is machine code. So a folder and a file in it are only
taken where both are owned by the user of this process or by root, and nobody else may
write them; the file is a regular one and no link. Elsewhere than on POSIX there are no
such facts, and everything is taken.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
from contextlib import suppress
from io import FileIO

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
#: A link is refused, and a pipe with no writer is no reason to wait.
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)


class UntrustedError(Exception):
    """Others may have written it; the message says what to do."""


def make_folder(path: str) -> None:
    """Makes a folder, and those above it that are missing, for this user alone."""
    missing: list[str] = []
    while path and not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        with suppress(FileExistsError):  # another process was first
            os.mkdir(folder, 0o700)


def check_folder(folder: str) -> None:
    """Refuses a folder in which others can put files.

    Raises:
      UntrustedError: that is so.
      OSError: there is no such folder.
    """
    facts = os.stat(folder)
    if not stat.S_ISDIR(facts.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)
    if not hasattr(os, "geteuid"):
        return
    writable = facts.st_mode & _OTHERS_WRITE
    if _is_owned(facts) and not writable:
        return
    if not _is_owned(facts):
        reason = f"belongs to user {facts.st_uid}"
    else:
        reason = "can be written by other users"
    place = os.path.abspath(folder)
    own = os.path.join(place, f"ftrace-{os.geteuid()}")
    mend = f"export FTRACE_CACHE_DIR={shlex.quote(own)}"
    if facts.st_uid == os.geteuid() and not facts.st_mode & stat.S_ISVTX:
        if all(".ftrace" in name for name in os.listdir(folder)):
            mend = f"chmod go-w {shlex.quote(place)}"
        else:  # who has put other things there may need to
            mend = "export FTRACE_CACHE_DIR=~/.cache/ftrace"
    raise UntrustedError(f"the folder {folder} {reason}: {mend}")


def read_trusted(path: str, limit: int) -> bytes | None:
    """The content of a file; None if it has more bytes than the limit.

    Raises:
      UntrustedError: others can have written it.
      OSError: it cannot be read.
    """
    _check_file(path, os.lstat(path))
    # In one step of Python's: no exception comes between the handle and who closes it.
    (file,) = map(FileIO, map(os.open, (path,), (_FLAGS,)))
    with file:
        facts = os.fstat(file.fileno())
        _check_file(path, facts)
        return None if facts.st_size > limit else file.read(facts.st_size)


def _check_file(path: str, facts: os.stat_result) -> None:
    reason = ""
    if stat.S_ISLNK(facts.st_mode):
        reason = "is a link"
    elif not stat.S_ISREG(facts.st_mode):
        reason = "is no regular file"
    elif hasattr(os, "geteuid"):
        if not _is_owned(facts):
            reason = f"belongs to user {facts.st_uid}"
        elif facts.st_mode & _OTHERS_WRITE:
            reason = "can be written by other users"
    if reason:
        where = shlex.quote(os.path.abspath(path))
        raise UntrustedError(f"{path} {reason}: rm -r {where}")


def _is_owned(facts: os.stat_result) -> bool:
    return facts.st_uid in (os.geteuid(), 0)

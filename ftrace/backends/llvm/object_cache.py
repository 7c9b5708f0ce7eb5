"""Files of the disk cache, so that the next process need not compile.

    <folder>/<digest of a key: everything that determines the content>.ftrace.o
    file = magic, digest of its name's digest and the content, content

    content                                    its format is in
    object code, of the runtime                `compile.py`
    object code, of modules of kernels         `kernels/cached_kernel.py`
    a kernel: which function of which module   the same
    a program: its steps and kernels           the same, `lower/assembly/serialize.py`
    the choice of `tune` for a kernel          `kernels/autotune.py`
    what this machine is, what sources are     this file

Files appear whole (written beside, then renamed), so several processes at once do no
harm. Whatever is wrong with a file or the folder is a miss: nothing here raises. The
first thing that is wrong and that a person can mend is told of, once: a file cannot be
written, or others may have written it. The files read longest ago go when the folder
grows too large.

Most of what is read is machine code. So a folder and a file in it are only taken where
both are owned by the user of this process or by root, and nobody else may write them;
the file is a regular one and no link. Elsewhere than on POSIX there are no such facts,
and everything is taken.

Besides its text this machine, its LLVM and our own sources determine the code:

    stamps of files, what Linux says of the processor  ->  the facts, on disk

LLVM says what the processor is called and what it has, and to load LLVM takes as long
as all else at the start of a process. So what it said is cached: as long as the files
of llvmlite and the processor look the same, it would say the same again. In the same
way the digest of our sources is cached by their sizes and times.
"""

from __future__ import annotations

import errno
import json
import os
import shlex
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from io import FileIO
from typing import Any

from ftrace.backends.llvm.compile_threads import is_main, shield
from ftrace.errors import CacheWarning, user_origin, warn_user
from ftrace.ground import VERSION, settings
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.ground.fork_safe import Once

try:  # that of hashlib brings OpenSSL with it, 4 ms of a warm start
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

#: The folder is measured at one write in so many, whichever processes make them: its
#: name decides; and more often where that many files are more than a part of the limit.
#: To measure a folder of 20,000 files takes 0.1 s, more than most programs take to
#: compile.
WRITES_BETWEEN_SWEEPS = 1000
_EXCESS = 16
#: Seconds after which a file that was never renamed belongs to no living process.
ABANDONED = 3600.0

_MAGIC = b"ftrace object 3\n"
_DIGEST_BYTES = 32
_HEADER_BYTES = len(_MAGIC) + _DIGEST_BYTES
_SUFFIX = ".ftrace.o"
_UNFINISHED = ".ftrace-"


def default_folder() -> str:
    """The platform's folder for caches, below it ours."""
    if not sys.platform.startswith("linux") or "ANDROID_ROOT" in os.environ:
        with suppress(ImportError):
            import platformdirs

            return platformdirs.user_cache_dir("ftrace", appauthor=False)
    # What it says on Linux, without its import of 10 ms.
    base = os.environ.get("XDG_CACHE_HOME", "").strip()
    home = base or os.path.join(os.path.expanduser("~"), ".cache")
    if not os.path.isabs(home):
        raise OSError(f"no folder for caches is known: neither {home} nor a home is")
    return os.path.join(home, "ftrace")


class ObjectCache:
    """The disk cache in one folder.

    Args:
      folder: where; None for `config.cache_dir` or else the platform's own, looked up
        at every use.
      limit: bytes that it may hold; None for `config.cache_size`, or none at all where
        `config.cache_dir` is /dev/null.

    Attributes:
      hits, misses: how often `load` found something, and how often not.
      reported: has it been said what is wrong with the folder?
    """

    def __init__(
        self, folder: os.PathLike[str] | None = None, limit: int | None = None
    ) -> None:
        self._given = None if folder is None else os.fspath(folder)
        self._limit = limit
        self.hits = 0
        self.misses = 0
        self.reported = False
        self._unreported: str | None = None

    @property
    def limit(self) -> int:
        if self._limit is not None:
            return self._limit
        chosen = settings.current()
        return 0 if chosen.cache_dir == os.devnull else chosen.cache_size

    @property
    def folder(self) -> str:
        if self._given is not None:
            return self._given
        return settings.current().cache_dir or default_folder()

    def load(self, *key: str) -> bytes | None:
        """What is stored under the parts of this key, or None."""
        self.tell()
        found = self._read(_digest(key))
        if found is None:
            self.misses += 1
        else:
            self.hits += 1
        return found

    def store(self, content: bytes, *key: str) -> None:
        """Keeps a content for later processes, where the folder allows it."""
        if _HEADER_BYTES + len(content) > self.limit:
            return
        try:
            folder = self.folder
            make_folder(folder)
            check_folder(folder)
            name = _digest(key)
            shield(self._write, folder, name, content)  # whole or not at all
        except UntrustedError as error:
            self._tell(_of_others(error))
            return
        except (OSError, ValueError, RuntimeError) as error:  # no home: RuntimeError
            self._tell(
                f"compiled code cannot be kept on disk ({error}), so that every "
                "process compiles anew: set FTRACE_CACHE_DIR to a folder that can be "
                "written, or FTRACE_CACHE_SIZE to 0 for no disk cache"
            )
            return
        few = self.limit // _EXCESS // (_HEADER_BYTES + len(content))
        if int(name[:8], 16) % max(min(WRITES_BETWEEN_SWEEPS, few), 1) == 0:
            self.sweep()

    def clear(self) -> None:
        """Removes all that is cached; files of others stay."""
        for _, _, path in list(self._files()):
            with suppress(OSError):
                os.unlink(path)

    def content(self) -> tuple[int, int]:
        """How many files are cached, and how many bytes they have."""
        sizes = [size for _, size, _ in self._files()]
        return len(sizes), sum(sizes)

    def tell(self) -> None:
        """Warns of what went wrong in a thread that knows no line of the user's."""
        if self._unreported is not None:
            self._tell(self._unreported)

    def _tell(self, message: str) -> None:
        if self.reported:
            return
        if user_origin() is None and not is_main():
            self._unreported = message  # one of ours: said at the user's next line
            return
        self.reported, self._unreported = True, None
        with suppress(CacheWarning):  # where warnings are errors: nothing here raises
            warn_user(message, CacheWarning)

    def sweep(self) -> None:
        """Removes the files read longest ago until the rest fits the limit."""
        files = list(self._files())
        excess = sum(size for _, size, _ in files) - self.limit
        for _, size, path in sorted(files):
            if excess <= 0:
                break
            with suppress(OSError):
                os.unlink(path)
            excess -= size

    def _files(self) -> Iterator[tuple[float, int, str]]:
        """When each file was read last, its size and path; abandoned ones are removed.

        Another process may remove any of them at any time.
        """
        now = time.time()
        with suppress(OSError, ValueError, RuntimeError), os.scandir(self.folder) as it:
            for entry in it:
                with suppress(OSError):
                    facts = entry.stat(follow_symlinks=False)
                    if entry.name.endswith(_SUFFIX):
                        yield facts.st_mtime, facts.st_size, entry.path
                    elif entry.name.startswith(_UNFINISHED) and (
                        now - facts.st_mtime > ABANDONED
                    ):
                        os.unlink(entry.path)

    def _read(self, name: str) -> bytes | None:
        if not self.limit:
            return None
        try:
            folder = self.folder
            path = os.path.join(folder, name + _SUFFIX)
            check_folder(folder)
            whole = read_trusted(path, self.limit)
        except UntrustedError as error:
            self._tell(_of_others(error))
            return None
        except (OSError, ValueError, RuntimeError):
            return None
        content = whole[_HEADER_BYTES:] if whole is not None else b""
        if whole is None or whole[:_HEADER_BYTES] != _header(name, content):
            return None  # damaged, or another file's
        with suppress(OSError):
            os.utime(path)  # "read just now", for the sweep
        return content

    @staticmethod
    def _write(folder: str, name: str, content: bytes) -> None:
        import tempfile  # takes 3 ms, and seldom is there anything to write

        handle, temporary = tempfile.mkstemp(prefix=_UNFINISHED, dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_header(name, content) + content)
            os.replace(temporary, os.path.join(folder, name + _SUFFIX))
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise


def digest_of(*parts: bytes) -> bytes:
    """The digest of the parts, one after the other."""
    return blake2b(b"".join(parts), digest_size=_DIGEST_BYTES).digest()


def _of_others(error: UntrustedError) -> str:
    return (
        "compiled code is not read from where others may have put it: "
        f"{error}    (what the disk cache trusts: docs/configuration.md)"
    )


def _header(name: str, content: bytes) -> bytes:
    """What a file begins with; it also says which name it was stored under."""
    return _MAGIC + digest_of(bytes.fromhex(name), content)


def _digest(key: tuple[str, ...]) -> str:
    """One name for all parts; a part cannot run into the next."""
    parts = [sys.byteorder.encode()]
    for part in key:
        encoded = part.encode()
        parts += (b"%d:" % len(encoded), encoded)
    return digest_of(*parts).hex()


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
    reason = _doubt(facts)
    if not reason:
        return
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
    if stat.S_ISLNK(facts.st_mode):
        reason = "is a link"
    elif not stat.S_ISREG(facts.st_mode):
        reason = "is no regular file"
    else:
        reason = _doubt(facts)
    if reason:
        where = shlex.quote(os.path.abspath(path))
        raise UntrustedError(f"{path} {reason}: rm -r {where}")


def _doubt(facts: os.stat_result) -> str:
    """Why others may have written it; empty where they cannot, or nobody knows."""
    if not hasattr(os, "geteuid"):
        return ""
    if facts.st_uid not in (os.geteuid(), 0):
        return f"belongs to user {facts.st_uid}"
    return "can be written by other users" if facts.st_mode & _OTHERS_WRITE else ""


# What decides the code besides its text.

#: What decides of which kernels a program is made, and how they are written: all that
#: the device of LLVM imports.
SOURCES = "backends", "lower", "trace", "errors.py", "dtypes.py", "ground"
_PACKAGE = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 2))
#: Lines of `/proc/cpuinfo` that change from one moment to the next.
_FLEETING = (b"cpu MHz", b"bogomips", b"BogoMIPS", b"apicid", b"initial apicid")
#: Of `/proc/cpuinfo`: more than the lines of one processor.
_LINES_OF_ONE = 1 << 14


class Machine(NamedTuple):
    """What the code hangs on besides its text and our sources.

    Attributes:
      llvm: the versions of llvmlite and of LLVM.
      triple, cpu, features: what LLVM calls this processor.
    """

    llvm: str
    triple: str
    cpu: str
    features: str


#: In the same folder as object code, whose owner tells of files that cannot be written.
_cache = ObjectCache()
_cache.reported = True


def _remember(name: str, stamp: str | None, ask: Callable[[], str]) -> str:
    """What is answered; from disk where it was for the same stamp."""
    if stamp is None:
        return ask()
    key = name, VERSION, stamp
    found = _cache.load(*key)
    if found is not None:
        return found.decode("ascii", "replace")
    answer = ask()
    _cache.store(answer.encode(), *key)
    return answer


def _machine() -> Machine:
    name = " ".join(("machine", *Machine._fields))
    text = _remember(name, _stamp_of_machine(), lambda: json.dumps(shield(_ask_llvm)))
    return Machine(*json.loads(text))


#: The facts of this process; where they are not on disk LLVM is loaded.
machine = Once(_machine)


def _ask_llvm() -> Machine:
    """The facts as LLVM tells them."""
    llvmlite: Any = import_module("llvmlite")
    llvm: Any = import_module("llvmlite.binding")
    version = ".".join(map(str, llvm.llvm_version_info))
    features: dict[str, bool] = dict(llvm.get_host_cpu_features())
    return Machine(
        f"{llvmlite.__version__} {version}",
        llvm.get_process_triple(),
        llvm.get_host_cpu_name(),
        ",".join(f"{'+' if on else '-'}{f}" for f, on in sorted(features.items())),
    )


def digest_of_sources() -> str:
    """A digest of the files that decide the code: a version may lie while they change.

    Empty where there are no such files, as in an archive.
    """
    contents: list[bytes] = []
    try:
        for path, _ in _own_files():
            with open(path, "rb", buffering=0) as source:
                contents.append(source.read())
    except OSError:
        return ""
    return digest_of(*contents).hex()


def _sources() -> str:
    try:
        stamps = [_stamp_of(path, facts) for path, facts in _own_files()]
    except OSError:
        return ""
    return _remember("sources", "\n".join(stamps), lambda: digest_of_sources())


#: The digest of our sources in this process.
sources = Once(_sources)


def _stamp_of_machine() -> str | None:
    """What the facts depend on, seen from outside; None if that cannot be seen."""
    llvmlite = find_spec("llvmlite")
    processor = _processor()
    if llvmlite is None or llvmlite.origin is None or processor is None:
        return None
    home = os.path.dirname(llvmlite.origin)
    parts: list[str] = [processor]
    try:
        for folder in (home, os.path.join(home, "binding")):
            with os.scandir(folder) as entries:
                parts += sorted(_stamp_of(e.path, e.stat()) for e in entries)
    except OSError:
        return None
    return "\n".join(parts)


def _stamp_of(path: str, facts: os.stat_result) -> str:
    return f"{path} {facts.st_size} {facts.st_mtime_ns}"


def _processor() -> str | None:
    """What Linux says of the first processor; None elsewhere."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            first, end, _ = file.read(_LINES_OF_ONE).partition(b"\n\n")
    except OSError:
        return None
    lines = [line for line in first.split(b"\n") if not line.startswith(_FLEETING)]
    return b"\n".join(lines).decode("ascii", "replace") if end else None


def _own_files() -> Iterator[tuple[str, os.stat_result]]:
    """The files of `SOURCES`, those in folders below them too, in order."""
    for name in SOURCES:
        place = os.path.join(_PACKAGE, name)
        if name.endswith(".py"):
            yield place, os.stat(place)
        else:
            yield from _python_files(place)


def _python_files(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.name.endswith(".py"):
            yield entry.path, entry.stat()
        elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
            yield from _python_files(entry.path)

"""What decides the code besides its text: this machine, its LLVM, our own sources.

    stamps of files, what Linux says of the processor  ->  the facts, on disk

LLVM says what the processor is called and what it has, and to load LLVM takes as long
as all else at the start of a process. So what it said is kept: as long as the files of
llvmlite and the processor look the same, it would say the same again. In the same way
the digest of our sources is kept by their sizes and times.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ftrace.backends.llvm.compile_threads import apart
from ftrace.backends.llvm.object_cache import ObjectCache, digest_of
from ftrace.ground import VERSION
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.ground.fork_safe import Once

#: What decides of which kernels a program is made, and how they are written: all that
#: the device of LLVM imports.
SOURCES = "backends", "lower", "trace", "errors.py", "dtypes.py", "ground"
_PACKAGE = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 2))
#: Lines of `/proc/cpuinfo` that change from one moment to the next.
_FLEETING = (b"cpu MHz", b"bogomips", b"BogoMIPS", b"apicid", b"initial apicid")
#: Of `/proc/cpuinfo`: more than the lines of one processor.
_LINES_OF_ONE = 1 << 14


class Machine(NamedTuple):
    """The facts.

    Attributes:
      llvm: the versions of llvmlite and of LLVM.
      triple, cpu, features: what LLVM calls this processor.
    """

    llvm: str
    triple: str
    cpu: str
    features: str


#: In the folder of the object code, whose owner tells of files that cannot be written.
_cache = ObjectCache()
_cache.told = True


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
    text = _remember(name, _stamp_of_machine(), lambda: json.dumps(apart(_ask_llvm)))
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

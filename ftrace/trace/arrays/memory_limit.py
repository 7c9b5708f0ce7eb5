"""How much memory there is, asked before much of it is taken.

Linux gives out memory that it does not have, and ends the process that uses it: what
is large is compared with what is free, and refused.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final, Protocol

from ftrace.ground.weak_tables import WeakValues

#: The part of the machine's memory that nobody asks for before taking it.
UNASKED = 64

_MEMINFO = "/proc/meminfo"
_GROUP = "/sys/fs/cgroup"  # of a container, with control groups version 2


def machine_memory() -> int:
    """Bytes of memory, or what the container may take of it (cgroup v2)."""
    sizes = [4 << 30]
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", ()):
        sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    with suppress(OSError, ValueError):  # no container, or "max"
        sizes.append(int(_of_group("memory.max")))
    return min(sizes)


def free_memory() -> int:
    """Bytes that this process can still take; very many where nobody can say."""
    sizes = [1 << 62]
    with suppress(OSError, ValueError, KeyError):
        facts = _table(_read(_MEMINFO), ":")
        sizes.append((facts["MemAvailable"] + facts.get("SwapFree", 0)) << 10)
    with suppress(OSError, ValueError):
        most = int(_of_group("memory.max"))
        used = int(_of_group("memory.current"))
        facts = _table(_of_group("memory.stat"), " ")
        cached = facts.get("inactive_file", 0) + facts.get("active_file", 0)
        sizes.append(most - used + cached)
    return max(min(sizes), 0)


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()


def _of_group(name: str) -> str:
    return _read(os.path.join(_GROUP, name))


def _table(text: str, mark: str) -> dict[str, int]:
    """The lines `name, mark, number` of a file of the kernel's."""
    rows = (line.partition(mark) for line in text.splitlines())
    return {name: int(rest.split()[0]) for name, _, rest in rows if rest.strip()}


#: From so many bytes on it is asked whether they are there.
LARGE = machine_memory() // UNASKED


class Keeper(Protocol):
    """What keeps freed memory for reuse."""

    def trim(self) -> None: ...


#: Those of this process: they give up what they keep before anything is refused.
keepers: Final[WeakValues[int, Keeper]] = WeakValues()


def has_room(nbytes: int) -> bool:
    """Is there memory for so much, also without what is kept for reuse?"""
    if nbytes < LARGE or nbytes <= free_memory():
        return True
    for keeper in keepers.values():
        keeper.trim()
    return nbytes <= free_memory()

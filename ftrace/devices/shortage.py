"""Calls that need more memory than there is: refused before any of it is touched.

Linux gives out memory that it does not have, and ends the process that uses it. So a
call that needs much is compared with what is free; the exception names what takes most.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ftrace.buffer import Allocator
from ftrace.errors import OutOfMemoryError
from ftrace.lower.program import (
    CallHost,
    Program,
    RunKernel,
    RunLoop,
    Slot,
    Step,
    programs_of,
)

#: How many of the largest arrays a message names.
NAMED = 4
#: The part of the machine's memory that nobody asks for before taking it.
UNASKED = 64

_MEMINFO = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")  # of a container, with control groups version 2


def machine_memory() -> int:
    """Bytes of memory, or what the container may take of it (cgroup v2)."""
    sizes = [4 << 30]
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", ()):
        sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    with suppress(OSError, ValueError):  # no container, or "max"
        sizes.append(int((_GROUP / "memory.max").read_text()))
    return min(sizes)


#: From so many bytes on it is asked whether they are there.
LARGE = machine_memory() // UNASKED


def free_memory() -> int:
    """Bytes that this process can still take; very many where nobody can say."""
    sizes = [1 << 62]
    with suppress(OSError, ValueError, KeyError):
        facts = _table(_MEMINFO, ":")
        sizes.append((facts["MemAvailable"] + facts.get("SwapFree", 0)) << 10)
    with suppress(OSError, ValueError):
        most = int((_GROUP / "memory.max").read_text())
        used = int((_GROUP / "memory.current").read_text())
        facts = _table(_GROUP / "memory.stat", " ")
        cached = facts.get("inactive_file", 0) + facts.get("active_file", 0)
        sizes.append(most - used + cached)
    return max(min(sizes), 0)


def _table(path: Path, mark: str) -> dict[str, int]:
    """The lines `name, mark, number` of a file of the kernel's."""
    rows = (line.partition(mark) for line in path.read_text().splitlines())
    return {name: int(rest.split()[0]) for name, _, rest in rows if rest.strip()}


def needed(program: Program) -> int:
    """Bytes of the outputs and the arena of a program."""
    slots = {program.slots[n] for n in program.outputs}
    return program.arena + sum(s.nbytes for s in slots if s.place == "output")


def require_memory(
    name: str, allocator: Allocator, program: Program, most: int | None = None
) -> None:
    """Refuses a call if there is no memory for it, also without what is kept.

    Args:
      name: of the device.
      allocator: gives back what it keeps.
      program: what is called.
      most: bytes that the device has at all, if they are its own.

    Raises:
      OutOfMemoryError: it names the largest arrays of the program.
    """
    wanted = needed(program)
    if wanted < LARGE or wanted <= (free_memory() if most is None else most):
        return
    allocator.trim()
    free = free_memory() if most is None else most
    if wanted > free:
        raise shortage(name, program, free)


def shortage(name: str, program: Program, free: int | None = None) -> OutOfMemoryError:
    """The exception for a call that found no memory for its program."""
    results = needed(program) - program.arena
    have = "" if free is None else f", and {_size(free)} are free"
    lines = [
        f"{name} has no memory for this call: it needs {_size(needed(program))}{have}. "
        f"Its results take {_size(results)}, what is between them "
        f"{_size(program.arena)}; the largest are",
        *largest(program),
        "compute it in parts, in a smaller dtype, or use checkpoint for derivatives",
    ]
    return OutOfMemoryError("\n  ".join(lines))


def no_stack_memory(program: Program | None = None) -> OutOfMemoryError:
    """The exception for a loop that found no memory for what it remembers."""
    lines = ["there is no memory left for what this loop remembers of its iterations"]
    pushed = sorted(_pushed(program), key=lambda r: -r[0]) if program else []
    if pushed:
        lines[0] += "; in each of them:"
        lines += [text for _, text in pushed[:NAMED]]
    lines.append("run fewer of them, or use `checkpoint`")
    return OutOfMemoryError("\n  ".join(lines))


def _pushed(program: Program) -> Iterator[tuple[int, str]]:
    """What each loop of unknown length keeps of an iteration."""
    for step in program.steps:
        for inner in programs_of(step):
            yield from _pushed(inner)
        if isinstance(step, RunLoop):
            known = dict(pair for own in step.body.steps for pair in _lines_of(own))
            written = step.body.outputs[len(step.carry) :]
            for slot, outer in zip(written, step.ys, strict=False):
                if program.slots[outer].stacks:
                    yield _row(step.body.slots[slot], known.get(slot, ""))


def largest(program: Program) -> list[str]:
    """A line for each of the largest arrays that a program makes, the largest first."""
    made = sorted(_made(program), key=lambda row: -row[0])
    return [text for size, text in made[:NAMED] if size * 100 >= made[0][0]]


def _made(program: Program) -> Iterator[tuple[int, str]]:
    """What each array takes that is not an input; for a loop's body one iteration."""
    lines: dict[int, str] = {}
    bodies: set[int] = set()
    for step in program.steps:
        for inner in programs_of(step):
            yield from _made(inner)
            bodies.add(getattr(step, "scratch", -1))
        for slot, line in _lines_of(step):
            lines.setdefault(slot, line)
    for number, slot in enumerate(program.slots):
        if slot.place == "input" or number in bodies or slot.stacks:
            continue
        yield _row(slot, lines.get(number, ""))


def _row(slot: Slot, line: str) -> tuple[int, str]:
    nbytes = slot.size * slot.dtype.itemsize
    sizes = ",".join(map(str, slot.shape))
    text = f"{_size(nbytes)}: {slot.dtype}[{sizes}]"
    return nbytes, f"{text}, {line}" if line else f"{text} ({slot.value})"


def _lines_of(step: Step) -> Iterator[tuple[int, str]]:
    """The slots that a step writes, and the user's line that makes them."""
    if isinstance(step, RunKernel):
        line = step.info.origins[-1].describe() if step.info.origins else ""
        pairs = zip(step.slots, step.kernel.buffers, strict=True)
        yield from ((slot, line) for slot, spec in pairs if spec.written)
    elif isinstance(step, CallHost):
        origin = step.node.origin
        line = "" if origin is None else origin.describe()
        yield from ((slot, line) for slot in step.results)
    elif isinstance(step, RunLoop):
        inner = dict(pair for own in step.body.steps for pair in _lines_of(own))
        written = step.body.outputs[len(step.carry) :]
        yield from (
            (outer, inner.get(slot, ""))
            for slot, outer in zip(written, step.ys, strict=False)
        )


def _size(nbytes: int) -> str:
    """Bytes for people."""
    size, unit = float(nbytes), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB", "EB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.3g} {unit}" if size < 1000 else f"{size:.0f} {unit}"

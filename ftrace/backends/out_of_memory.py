"""Calls that need more memory than there is: refused before any of it is touched.

Linux gives out memory that it does not have, and ends the process that uses it. So a
call that needs much is compared with what is free; the exception names what takes most.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ftrace.errors import Origin, OutOfMemoryError
from ftrace.lower import program as prog
from ftrace.trace.arrays.buffer import LARGE_ALLOCATION, Allocator, free_memory

#: How many of the largest arrays a message names.
NAMED = 4


def footprint(program: prog.Program) -> int:
    """Bytes of the outputs and the arena of a program."""
    slots = {program.slots[n] for n in program.outputs}
    return program.arena + sum(s.nbytes for s in slots if s.storage == "output")


def require_memory(
    name: str, allocator: Allocator, program: prog.Program, most: int | None = None
) -> None:
    """Refuses a call if there is no memory for it, also without what is cached.

    Args:
      name: of the device.
      allocator: gives back what it keeps.
      program: what is called.
      most: bytes that the device has at all, if they are its own.

    Raises:
      OutOfMemoryError: it names the largest arrays of the program.
    """
    wanted = footprint(program)
    if wanted < LARGE_ALLOCATION or wanted <= (free_memory() if most is None else most):
        return
    allocator.trim()
    free = free_memory() if most is None else most
    if wanted > free:
        raise shortage(name, program, free)


def shortage(
    name: str, program: prog.Program, free: int | None = None
) -> OutOfMemoryError:
    """The exception for a call that found no memory for its program."""
    results = footprint(program) - program.arena
    have = "" if free is None else f", and {_size(free)} are free"
    lines = [
        f"{name} has no memory for this call: it needs {_size(footprint(program))}"
        f"{have}. Its results take {_size(results)}, what is between them "
        f"{_size(program.arena)}; the largest are",
        *largest(program),
        "compute it in parts, in a smaller dtype, or use checkpoint for derivatives",
    ]
    error = OutOfMemoryError("\n  ".join(lines))
    error.reported_for = partial(shortage, name, free=free)
    return error


def no_working_memory(program: prog.Program | None = None) -> OutOfMemoryError:
    """The exception for a call that found no memory while it ran.

    Loops ask for what they remember of their iterations, and kernels for the few
    megabytes that they work in.
    """
    first = "there is no memory left for what this call works in"
    pushed = sorted(_list_pushed(program), key=lambda r: -r[0]) if program else []
    if not pushed:
        return OutOfMemoryError(f"{first}; free some, or run with fewer threads")
    lines = [f"{first}, or for what its loops remember; of each iteration:"]
    lines += [text for _, text in pushed[:NAMED]]
    lines.append("run fewer of them, or use `checkpoint`")
    error = OutOfMemoryError("\n  ".join(lines))
    error.reported_for = no_working_memory
    return error


def _list_pushed(program: prog.Program) -> Iterator[tuple[int, str]]:
    """What each loop of unknown length keeps of an iteration."""
    for step in program.steps:
        for inner in prog.programs_of(step):
            yield from _list_pushed(inner)
        if isinstance(step, prog.RunLoop):
            lines, pushed = prog.lines_of_results(step), step.body.outputs
            pairs = zip(step.ys, pushed[len(step.carry) :], strict=False)
            for outer, slot in pairs:
                if program.slots[outer].stacks:
                    yield _row(step.body.slots[slot], lines.get(outer))


def largest(program: prog.Program) -> list[str]:
    """A line for each of the largest arrays that a program makes, the largest first."""
    made = sorted(_list_made(program), key=lambda row: -row[0])
    return [text for size, text in made[:NAMED] if size * 100 >= made[0][0]]


def _list_made(program: prog.Program) -> Iterator[tuple[int, str]]:
    """What each array takes that is not an input; for a loop's body one iteration."""
    lines: dict[int, Origin] = {}
    bodies: set[int] = set()
    for step in program.steps:
        for inner in prog.programs_of(step):
            yield from _list_made(inner)
        if isinstance(step, (prog.RunBranch, prog.RunLoop)):
            bodies.add(step.scratch)
        for slot, line in prog.lines_of_results(step).items():
            lines.setdefault(slot, line)
    for number, slot in enumerate(program.slots):
        if slot.storage == "input" or number in bodies or slot.stacks:
            continue
        yield _row(slot, lines.get(number))


def _row(slot: prog.Slot, line: Origin | None) -> tuple[int, str]:
    nbytes = slot.size * slot.dtype.itemsize
    sizes = ",".join(map(str, slot.shape))
    text = f"{_size(nbytes)}: {slot.dtype}[{sizes}]"
    return nbytes, f"{text}, {line.describe()}" if line else f"{text} ({slot.value})"


def _size(nbytes: int) -> str:
    """Bytes for people."""
    size, unit = float(nbytes), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB", "EB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.3g} {unit}" if size < 1000 else f"{size:.0f} {unit}"

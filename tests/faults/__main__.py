"""`python -m tests.faults [--full] [--every N]`: faults, and what they broke."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from tests.faults import children, files, interrupts, memory, together


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


Job = tuple[Callable[..., list[str]], tuple[Any, ...]]


def _done(jobs: Sequence[Job]) -> int:
    """How many of them broke something."""
    wrong = 0
    for job, arguments in jobs:
        found = job(*arguments)
        wrong += bool(found)
        for one in found:
            _say(one)
    return wrong


def _shared(jobs: Sequence[Job], processes: int) -> list[int]:
    """The same in processes side by side; those of one that ends early are broken."""
    ends: list[int] = []
    for number in range(processes):
        reader, writer = os.pipe()
        share = jobs[number::processes]
        if os.fork() == 0:
            status = 1
            try:
                os.write(writer, str(_done(share)).encode())
                status = 0
            finally:
                os._exit(status)
        os.close(writer)
        ends.append(reader)
    wrong: list[int] = []
    for number, reader in enumerate(ends):
        with os.fdopen(reader) as pipe:
            wrong.append(int(pipe.read() or len(jobs[number::processes])))
    for _ in ends:
        os.wait()
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("--full", action="store_true", help="all, not a sample")
    parser.add_argument("--every", type=int, default=0, help="only each n-th fault")
    chosen = parser.parse_args()
    every = chosen.every or (1 if chosen.full else 50)
    children.warm()
    begin = time.monotonic()
    places = interrupts.places()
    last = files.operations()
    jobs: list[Job] = [(interrupts.interrupt, (place,)) for place in places[::every]]
    jobs += [
        (files.fail, (n, fault))
        for fault in files.FAULTS
        for n in range(1, last + 1, max(1, every // 10))
    ]
    jobs += [(memory.fail, (n,)) for n in range(1, 40, max(1, every // 10))]
    _say(f"{len(places)} places, {last} file operations: {len(jobs) + 1} faults")
    wrong = sum(_shared(jobs, len(os.sched_getaffinity(0))))
    wrong += _done([(together.work, ())])
    seconds = time.monotonic() - begin
    _say(f"{len(jobs) + 1} faults, {wrong} of them broke something, {seconds:.0f} s")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

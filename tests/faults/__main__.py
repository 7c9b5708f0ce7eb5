"""`python -m tests.faults [--full] [--every N]`: faults, and what they broke."""

from __future__ import annotations

import argparse
import sys
import time

from tests.faults import children, files, interrupts, memory, together


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("--full", action="store_true", help="all, not a sample")
    parser.add_argument("--every", type=int, default=0, help="only each n-th fault")
    chosen = parser.parse_args()
    every = chosen.every or (1 if chosen.full else 50)
    children.warm()
    begin, wrong, count = time.monotonic(), 0, 0
    places = interrupts.places()
    last = files.operations()
    jobs = [(interrupts.interrupt, (place,)) for place in places[::every]]
    jobs += [
        (files.fail, (n, fault))
        for fault in files.FAULTS
        for n in range(1, last + 1, max(1, every // 10))
    ]
    jobs += [(together.work, ())]
    jobs += [(memory.fail, (n,)) for n in range(1, 40, max(1, every // 10))]
    _say(f"{len(places)} places, {last} file operations: {len(jobs)} faults")
    for job, arguments in jobs:
        found = job(*arguments)
        count += 1
        wrong += bool(found)
        for one in found:
            _say(one)
    seconds = time.monotonic() - begin
    _say(f"{count} faults, {wrong} of them broke something, {seconds:.0f} s")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

"""Timings: calls in a loop, libraries in turn, medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

#: Seconds between two libraries' turns, at least. The idle threads of a library spin
#: for a while (those of OpenBLAS for 0.1 s) and would slow down whoever comes next.
#: A system may count the time of a running thread in steps of 10 ms.
PAUSE = 0.012
#: So long they are waited for, at most.
PATIENCE = 0.5
#: Seconds at the beginning of a turn that do not count: threads and cores wake up.
WAKING = 0.01


@dataclass(frozen=True)
class Effort:
    """How long to measure.

    Attributes:
      rounds: how often each library has its turn.
      least: how many rounds there are in any case.
      seconds: the least that one timing lasts; short calls are repeated.
      budget: seconds of one row after which no further round begins.
    """

    rounds: int
    least: int
    seconds: float
    budget: float


FULL = Effort(rounds=11, least=3, seconds=0.02, budget=12.0)
QUICK = Effort(rounds=3, least=1, seconds=0.002, budget=1.5)


def loop(call: Callable[[], Any], wait: Callable[[Any], Any], count: int) -> float:
    """Seconds per call; every call is waited for."""
    start = time.perf_counter()
    for _ in range(count):
        wait(call())
    return (time.perf_counter() - start) / count


def loop_waiting_once(
    call: Callable[[], Any], wait: Callable[[Any], Any], count: int
) -> float:
    """Seconds per call, when only the last one is waited for."""
    result: Any = None
    start = time.perf_counter()
    for _ in range(count):
        result = call()
    wait(result)
    return (time.perf_counter() - start) / count


def clock_of(
    call: Callable[[], Any], wait: Callable[[Any], Any], seconds: float, each: bool
) -> Callable[[], float]:
    """A clock for a call that has run before, repeated as often as needed."""
    timed = loop if each else loop_waiting_once
    count, spent = 1, 0.0

    def lasts() -> bool:
        nonlocal spent
        spent = timed(call, wait, count) * count
        return spent >= seconds

    while not (lasts() and lasts()):  # twice: one call more may have compiled something
        count = max(2 * count, min(10 * count, int(seconds / max(spent, 1e-9) * count)))

    def measured() -> float:
        end = time.perf_counter() + WAKING
        while time.perf_counter() < end:
            wait(call())
        return timed(call, wait, count)

    return measured


def rest() -> None:
    """Sleeps until no thread of this process computes."""
    end = time.perf_counter() + PATIENCE
    while time.perf_counter() < end:
        start, spent = time.perf_counter(), time.process_time()
        time.sleep(PAUSE)
        passed = time.perf_counter() - start
        if time.process_time() - spent < passed / 4:
            return


def in_turn(
    clocks: Mapping[str, Callable[[], float]], effort: Effort
) -> dict[str, list[float]]:
    """The seconds of each clock in each round.

    The order is reversed from round to round, so that no library always comes first.
    """
    measured: dict[str, list[float]] = {name: [] for name in clocks}
    begin = time.perf_counter()
    for number in range(effort.rounds):
        names = list(clocks) if number % 2 == 0 else list(clocks)[::-1]
        for name in names:
            rest()
            measured[name].append(clocks[name]())
        enough = number + 1 >= effort.least
        if enough and time.perf_counter() - begin > effort.budget:
            break
    return measured


def median(seconds: list[float]) -> float:
    return statistics.median(seconds)

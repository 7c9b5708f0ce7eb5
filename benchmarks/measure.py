"""One row in all libraries: prepared, compared, then timed in turn."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.libraries import Library, leaves
from benchmarks.machine import ARITHMETIC, MEMORY, PYTHON, READING, reference
from benchmarks.row import Row
from benchmarks.timing import Effort, clock_of, in_turn, median

#: A row that reads this many times what it writes is held to pure reading too.
MOSTLY_READS = 16


@dataclass
class Outcome:
    """What came of a row.

    Attributes:
      rounds: the seconds of each round by library; none where it failed.
      problems: what went wrong, by library.
      nbytes: what a memory-bound row has to move, or None.
      limits: by limit of the machine, the seconds per byte, or per operation, that
        its own loop needed in each round of this row; for a row without one the
        seconds of a piece of Python.
    """

    row: Row
    rounds: dict[str, list[float]] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    nbytes: int | None = None
    limits: dict[str, list[float]] = field(default_factory=dict)

    def seconds(self, library: str = "ftrace") -> float | None:
        """The median of a library, or None."""
        found = self.rounds.get(library)
        return median(found) if found else None

    def share(self, limit: str) -> float | None:
        """What part of a limit's rate ftrace reaches, both as medians; or None."""
        own, found = self.seconds(), self.limits.get(limit)
        amount = self.row.flops if limit == ARITHMETIC else self.nbytes
        return amount * median(found) / own if own and found and amount else None

    def ratio(self, peer: str) -> float | None:
        """The peer's median over ours: above 1 ftrace is faster."""
        own, other = self.seconds(), self.seconds(peer)
        return other / own if own and other else None

    def best_ratio(self, peers: Sequence[str]) -> float | None:
        """That of the fastest peer."""
        found = [ratio for ratio in map(self.ratio, peers) if ratio is not None]
        return min(found, default=None)


def measure(row: Row, libraries: Sequence[Library], effort: Effort) -> Outcome:
    """Times a row in every library that it serves; ftrace comes first."""
    outcome = Outcome(row)
    clocks: dict[str, Callable[[], float]] = {}
    expected: list[Any] | None = None
    inputs = row.inputs()
    for library in libraries:
        if not _is_served(row, library):
            continue
        try:
            if row.clock is not None:
                clocks[library.name] = _in_session(library, row.clock(library))
                continue
            with library.session():
                call = prepare(row, library, inputs)
                result = library.wait(call())
                found = [library.get(x) for x in leaves(result)]
                if library.name == "ftrace":
                    expected = found
                elif expected is not None and library.dialect in row.compare:
                    compare(found, expected, row.tolerance)
                clock = clock_of(call, library.wait, effort.seconds, row.wait == "each")
                clocks[library.name] = _in_session(library, clock)
        except Exception as error:  # a row that fails must not end the run
            outcome.problems[library.name] = first_line(error)
    if row.bytes is True and expected is not None:
        outcome.nbytes = sum(x.nbytes for x in (*leaves(inputs), *expected))
    elif row.bytes is not None and row.bytes is not True:
        outcome.nbytes = row.bytes
    limits = _limits_of(outcome, expected)
    machine = {limit: reference(limit, effort.seconds) for limit in limits}
    gc.collect()
    try:
        rounds = in_turn({**clocks, **machine}, effort)
    except Exception as error:  # only rows that time themselves can fail here
        outcome.problems["timing"] = first_line(error)
    else:
        outcome.limits = {limit: rounds.pop(limit) for limit in limits}
        outcome.rounds = rounds
    return outcome


def _limits_of(outcome: Outcome, results: Sequence[Any] | None) -> list[str]:
    """What takes its turn with a row: the limits of the machine that it is held to."""
    if outcome.nbytes is None:
        return [PYTHON] if outcome.row.flops is None else [ARITHMETIC]
    written = sum(x.nbytes for x in results or ())
    reads = results is not None and written * MOSTLY_READS < outcome.nbytes
    return [MEMORY, READING] if reads else [MEMORY]


def _is_served(row: Row, library: Library) -> bool:
    """A compiler has nothing to say where functions run as they are."""
    compiles_another = library.written_as is not None
    if compiles_another and (row.clock is not None or not row.jit):
        return False
    return row.serves(library.dialect)


def prepare(row: Row, library: Library, inputs: Any) -> Callable[[], Any]:
    """The row's function in a library, on its arguments."""
    shared = row.peers.get(library.dialect, row.build)
    build = row.peers.get(library.name, shared)  # its own form, where it needs one
    assert build is not None
    function = build(library.api)
    if row.jit and library.jit is not None:
        function = library.jit(function)
    arguments = library.arguments(inputs)
    return lambda: function(*arguments)


class DisagreementError(Exception):
    """Two libraries computed different results."""


def compare(found: Sequence[Any], expected: Sequence[Any], tolerance: float) -> None:
    """Checks the results of a peer against ours.

    Raises:
      DisagreementError: they differ in number, shape, or by more than `tolerance`.
    """
    if len(found) != len(expected):
        raise DisagreementError(f"{len(found)} results, ftrace has {len(expected)}")
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one.shape != other.shape:
            raise DisagreementError(
                f"result {number} has shape {one.shape}, of ftrace {other.shape}"
            )
        if one.size == 0:
            continue
        one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
        scale = np.max(np.abs(other)) + 1e-30
        worst = float(np.max(np.abs(one - other)) / scale)
        if not worst <= tolerance:  # NaN is a difference too
            raise DisagreementError(
                f"result {number} differs from ftrace's by {worst:.2g} of its largest "
                f"element; {tolerance:.2g} is allowed"
            )


def first_line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"[:160]


def _in_session(library: Library, clock: Callable[[], float]) -> Callable[[], float]:
    def timed() -> float:
        with library.session():
            return clock()

    return timed

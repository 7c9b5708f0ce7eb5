"""The table of a run: in colour where rich is installed, as plain text otherwise."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from benchmarks.libraries import Library
from benchmarks.machine import ARITHMETIC, LIMITS, MEMORY, READING, describe
from benchmarks.measure import Outcome
from benchmarks.options import THREADS
from benchmarks.stages import BUDGET, MOST_FOR_LINES, STAGES, StageTimes
from benchmarks.timing import median

NOTHING = "–"
#: The load average from which a machine has other things to do.
BUSY = 0.7


@dataclass(frozen=True)
class Report:
    """All that a run measured.

    Attributes:
      load: how many other programs were running when it began.
    """

    libraries: Sequence[Library]
    outcomes: Sequence[Outcome]
    stages: Sequence[StageTimes]
    load: float = 0.0

    @property
    def peers(self) -> list[str]:
        return [library.name for library in self.libraries[1:]]

    def print(self) -> None:
        if self.outcomes:
            show(self._title(), self._header(), self._lines())
        if self.stages:
            show("Compile time, µs per node", *_stage_table(self.stages))
        for line in self._closing():
            print(line)

    def _title(self) -> str:
        names = ", ".join(f"{x.name} {x.version}" for x in self.libraries)
        return f"{names}; {THREADS} threads"

    def _header(self) -> list[str]:
        columns = [name for peer in self.peers for name in (peer, f"{peer}/ftrace")]
        best = ["best/ftrace"] if len(self.peers) > 1 else []
        return ["row", "ftrace", "rate", "of limit", *columns, *best]

    def _lines(self) -> list[list[str]]:
        lines: list[list[str]] = []
        family = ""
        for outcome in self.outcomes:
            if outcome.row.family != family:
                family = outcome.row.family
                lines.append([family.upper()])
            lines.append(self._line(outcome))
        means = [_times(mean_of(self.ratios(peer))) for peer in self.peers]
        if means and len(self.outcomes) > 1:
            cells = [cell for mean in means for cell in ("", mean)]
            if len(means) > 1:
                cells.append(_times(mean_of(self.best_ratios())))
            lines += [
                ["ALL ROWS"],
                ["geometric mean of the ratios", "", "", "", *cells],
            ]
        return lines

    def _line(self, outcome: Outcome) -> list[str]:
        seconds = outcome.seconds()
        cells = [outcome.row.name, duration(seconds), *self._rate(outcome, seconds)]
        for peer in self.peers:
            cells += [duration(outcome.seconds(peer)), _times(outcome.ratio(peer))]
        if len(self.peers) > 1:
            cells.append(_times(outcome.best_ratio(self.peers)))
        return cells

    def _rate(self, outcome: Outcome, seconds: float | None) -> list[str]:
        """Bytes or operations per second, and the share of what the machine can do."""
        share = self.share_of_limit(outcome)
        if not seconds or share is None:
            return ["", ""]
        if outcome.nbytes is not None:
            rate = f"{outcome.nbytes / seconds / 1e9:.1f} GB/s"
        else:
            rate = f"{(outcome.row.flops or 0) / seconds / 1e9:.1f} GFLOP/s"
        return [rate, f"{share:.0%}"]

    def share_of_limit(self, outcome: Outcome) -> float | None:
        """What part of the measured bandwidth or peak a row reaches."""
        return outcome.share(ARITHMETIC if outcome.nbytes is None else MEMORY)

    def limit_rates(self, limit: str) -> list[float]:
        """Bytes, or operations, per second, by row: medians of its rounds."""
        found = [outcome.limits.get(limit) for outcome in self.outcomes]
        return [1 / median(rounds) for rounds in found if rounds]

    def ratios(self, peer: str) -> list[float]:
        found = [outcome.ratio(peer) for outcome in self.outcomes]
        return [ratio for ratio in found if ratio is not None]

    def best_ratios(self) -> list[float]:
        """Of each row that of the fastest peer."""
        found = [outcome.best_ratio(self.peers) for outcome in self.outcomes]
        return [ratio for ratio in found if ratio is not None]

    def _closing(self) -> list[str]:
        lines = self._limits()
        compared = {peer: self.ratios(peer) for peer in self.peers}
        if len(compared) > 1:
            compared["the fastest peer of each row"] = self.best_ratios()
        for peer, ratios in compared.items():
            behind = sum(ratio < 1 for ratio in ratios)
            if ratios:
                lines.append(
                    f"{peer}: ftrace is slower in {behind} of {len(ratios)} rows"
                )
        if self.load > BUSY:
            lines.append(
                f"this machine was busy (load {self.load:.1f} at the start): the "
                "figures are disturbed, those on several threads most"
            )
        for outcome in self.outcomes:
            for library, problem in outcome.problems.items():
                lines.append(f"FAILED {outcome.row.title} in {library}: {problem}")
        return lines

    def _limits(self) -> list[str]:
        """What the loops of the limits reached, and shares of pure reading."""
        lines: list[str] = []
        units = {MEMORY: "GB/s from and to memory", READING: "GB/s of pure reading"}
        for limit in LIMITS:
            rates = [rate / 1e9 for rate in self.limit_rates(limit)]
            if rates:
                lines.append(
                    f"limit in turn with {len(rates)} rows, {THREADS} threads: "
                    f"{median(rates):.1f} (row by row {min(rates):.1f} to "
                    f"{max(rates):.1f}) {units.get(limit, 'GFLOP/s in float32')}"
                )
        shares = [(x.row.name, x.share(READING)) for x in self.outcomes]
        named = [f"{name} {share:.0%}" for name, share in shares if share is not None]
        if named:
            lines.append(f"of pure reading reach: {', '.join(named)}")
        return lines


def mean_of(ratios: Collection[float]) -> float | None:
    """The geometric mean, or None of nothing."""
    if not ratios:
        return None
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _times(ratio: float | None) -> str:
    return NOTHING if ratio is None else f"{ratio:.2f}×"


def duration(seconds: float | None) -> str:
    """Three digits and a unit."""
    if seconds is None:
        return NOTHING
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return (
                f"{seconds / size:.3g} {unit}"
                if seconds < 1000 * size
                else (f"{seconds / size:.0f} {unit}")
            )
    return f"{seconds * 1e9:.0f} ns"


def _stage_table(stages: Sequence[StageTimes]) -> tuple[list[str], list[list[str]]]:
    header = ["program", "nodes", "kernels", *STAGES, "lines add to trace"]
    lines = [
        [
            times.program,
            str(times.nodes),
            f"{times.kernels[0]} ({times.kernels[1]} differ)",
            *[f"{times.microseconds[stage]:.1f}" for stage in STAGES],
            f"{times.lines:.1%}",
        ]
        for times in stages
    ]
    together = {"lowering": "simplify", "code": "render"}
    budget = {together.get(part, part): f"≤ {us:g}" for part, us in BUDGET.items()}
    stages_of_budget = [budget.get(stage, "″") for stage in STAGES]
    most = f"≤ {MOST_FOR_LINES:.0%}"
    lines.append(["budget", "2000", "", *stages_of_budget, most])
    return header, lines


def show(title: str, header: list[str], lines: list[list[str]]) -> None:
    """Prints a table; a line of one cell is a heading."""
    (_show_rich if find_spec("rich") else _show_plain)(title, header, lines)


def _show_plain(title: str, header: list[str], lines: list[list[str]]) -> None:
    widths = [len(name) for name in header]
    for line in lines:
        for i, cell in enumerate(line if len(line) > 1 else []):
            widths[i] = max(widths[i], len(cell))
    print(f"\n{title}\n")
    for line in [header, *lines]:
        if len(line) == 1:
            print(f"\n{line[0]}")
            continue
        first, *rest = zip(line, widths, strict=True)
        cells = [first[0].ljust(first[1]), *[cell.rjust(width) for cell, width in rest]]
        print("  ".join(cells).rstrip())
    print()


def _show_rich(title: str, header: list[str], lines: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title)
    for i, name in enumerate(header):
        table.add_column(name, justify="right" if i else "left", no_wrap=True)
    for line in lines:
        if len(line) == 1:
            table.add_section()
            table.add_row(f"[bold]{line[0]}[/bold]")
        else:
            table.add_row(*map(_coloured, line))
    console = Console()
    if not console.is_terminal:
        # In a file nothing is cut off: the table is as wide as it needs to be.
        console = Console(width=1000)
        console.width = max(console.measure(table).maximum, 40)
    console.print(table)


def _coloured(cell: str) -> str:
    """Ratios in green where ftrace is faster, in red where it is slower."""
    if not cell.endswith("×"):
        return cell
    colour = "green" if float(cell[:-1]) >= 1 else "red"
    return f"[{colour}]{cell}[/{colour}]"


def as_json(report: Report) -> dict[str, Any]:
    """Everything that was measured, for programs to read; times in seconds."""
    return {
        "libraries": {x.name: x.version for x in report.libraries},
        "machine": describe(),
        "threads": THREADS,
        "load": report.load,
        "limits": {limit: report.limit_rates(limit) for limit in LIMITS},
        "rows": [
            {
                "family": outcome.row.family,
                "name": outcome.row.name,
                "bytes": outcome.nbytes,
                "flops": outcome.row.flops,
                "rounds": outcome.rounds,
                "limits": outcome.limits,
                "median": {name: outcome.seconds(name) for name in outcome.rounds},
                "ratio": {peer: outcome.ratio(peer) for peer in report.peers},
                "share of limit": report.share_of_limit(outcome),
                "problems": outcome.problems,
            }
            for outcome in report.outcomes
        ],
        "geometric mean": {peer: mean_of(report.ratios(peer)) for peer in report.peers},
        "compile time": [vars(times) for times in report.stages],
    }

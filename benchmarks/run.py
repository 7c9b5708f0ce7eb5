"""A whole run: the rows that were asked for, one after the other, then the report."""

from __future__ import annotations

import json
import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from datetime import date

from benchmarks import against, stages
from benchmarks.libraries import Library, MissingPeerError, load_library
from benchmarks.machine import load_average
from benchmarks.measure import Outcome, measure
from benchmarks.report import Report, as_json
from benchmarks.row import Row
from benchmarks.rows import FAMILIES
from benchmarks.timing import FULL, QUICK, Effort
from ftrace.errors import DeviceError


def select(pattern: str) -> list[Row]:
    """The rows whose title matches, all of them for an empty pattern."""
    search = re.compile(pattern, re.IGNORECASE).search
    return [row for family in FAMILIES for row in family.rows if search(row.title)]


def load_libraries(peers: Sequence[str], device: str) -> list[Library]:
    """ftrace, then the peers, each once."""
    names = ["ftrace", *dict.fromkeys(peers)]
    return [load_library(name, device) for name in names]


def measure_rows(
    rows: Sequence[Row], libraries: Sequence[Library], effort: Effort
) -> list[Outcome]:
    """All rows, or those before Ctrl-C; the error stream says which one it is at."""
    outcomes: list[Outcome] = []
    try:
        for number, row in enumerate(rows, 1):
            _progress(f"[{number}/{len(rows)}] {row.title}")
            outcomes.append(measure(row, libraries, effort))
    except KeyboardInterrupt:
        _progress(f"interrupted after {len(outcomes)} of {len(rows)} rows")
    else:
        _progress("")
    return outcomes


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
    elif text:
        sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def run(options: Namespace) -> int:
    """Does what the command line says; returns the exit status."""
    try:
        rows = select(options.rows)
    except re.error as error:
        return _refuse(f"--rows {options.rows!r} is no regular expression: {error}")
    with_stages = stages.is_wanted(options.rows)
    if not rows and not with_stages:
        return _refuse(f"no row matches {options.rows!r}; --list names them all")
    if options.list:
        print("\n".join([*[row.title for row in rows], *[stages.TITLE] * with_stages]))
        return 0
    try:
        libraries = load_libraries(options.peer, options.device)
    except (MissingPeerError, DeviceError) as error:
        return _refuse(str(error))
    if options.save is not None and not options.save.absolute().parent.is_dir():
        return _refuse(f"--save {options.save}: the folder does not exist")
    try:
        before = None if options.against is None else against.read(options.against)
    except (OSError, ValueError) as error:
        return _refuse(f"--against {options.against}: {error}")
    effort = QUICK if options.quick else FULL
    load = load_average()
    outcomes = measure_rows(rows, libraries, effort)
    compile_times = stages.measure_stages(effort) if with_stages else []
    report = Report(libraries, outcomes, compile_times, load)
    report.print()
    figures = as_json(report)
    figures["date"] = date.today().isoformat()
    figures["effort"] = "quick" if options.quick else "full"
    if before is not None:
        against.print_comparison(before, figures)
    if options.save is not None:
        options.save.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return 1 if any(outcome.problems for outcome in outcomes) else 0


def _refuse(message: str) -> int:
    print(f"benchmarks: {message}", file=sys.stderr)
    return 2

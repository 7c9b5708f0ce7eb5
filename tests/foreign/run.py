"""pytest over a checkout of somebody else's: counts, and the causes of failures."""

from __future__ import annotations

import json
import re
import signal
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.foreign import jax_private
from tests.foreign.left_out import ERRORS, JAXPR, TEXT, reason

#: Failures that say nothing about what is public, and why.
_EXCUSED = tuple(
    (re.compile(f"^E +{pattern}", re.MULTILINE), said)
    for pattern, said in (
        # An exception of the right class in words of our own.
        (r"AssertionError: \"[\s\S]*?\" does not match \"", ERRORS),
        ("AssertionError: Exception message does not match", ERRORS),
        (
            "AssertionError: (Expected warning|DeprecationWarning) not .*Deprecation",
            "warnings of what JAX will drop",
        ),
        (
            r"AttributeError: (.* has no attribute ')?_[a-z]\w*'?",
            "private: attributes",
        ),
        ("TypeError: .* unexpected keyword argument 'committed'", "private: ArrayImpl"),
        ("AssertionError: .*jax_private.Private object", "private: names"),
        ("AssertionError: ('stablehlo|'custom_call|Regex didn't match: 'algo)", TEXT),
        ("ftrace.errors.ValueRangeError: unknown dialect", TEXT),
        ("AssertionError: .*[Pp]recision.* HIGHEST", JAXPR),
        (
            "TypeError: memoryview: a bytes-like object is required, not 'Array'",
            "memoryview asks an array of ours from Python 3.12 on",
        ),
        # Names of primitives, which are long.
        (
            r"AssertionError: (Lists differ: )?\['?[a-z_]{3}.* (not found in|!=) \[+'?",
            JAXPR,
        ),
    )
)

#: Seconds that a test may take.
LIMIT = 120


class Counts:
    """A plugin of pytest: leaves out, limits, counts, and says why tests fail."""

    def __init__(self, leave_out: bool) -> None:
        self.leave_out = leave_out
        self.outcomes: dict[str, Counter[str]] = {}
        self.causes: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.failed: dict[str, str] = {}
        self.excused: dict[str, str] = {}
        self.begin = time.time()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items if self.leave_out else ():
            if said := reason(item.nodeid):
                item.add_marker(pytest.mark.skip(reason=f"left out: {said}"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, Any, Any]:
        with _limit(LIMIT):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        jax_private.running = True
        try:
            return (yield)
        finally:
            jax_private.running = False

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._note(report.nodeid, "not imported", report)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.skipped:
            expected = hasattr(report, "wasxfail")
            why = report.wasxfail if expected else report.longrepr[-1]
            said = str(why).removeprefix("Skipped: ")
            kind, _, rest = said.partition(": ")
            left_out = kind in ("left out", "private", "backend")
            if left_out:
                self.reasons[said if kind != "left out" else rest] += 1
            self._count(report.nodeid, "left out" if left_out else "skipped")
        elif report.failed and self.leave_out and (said := _excuse(report)):
            self.reasons[said] += 1
            self.excused[report.nodeid] = f"{said}: {_cause(report)}"
            self._count(report.nodeid, "left out")
        elif report.failed:
            self._note(report.nodeid, "failed", report)
        elif report.when == "call":
            self._count(report.nodeid, "passed")

    def _count(self, test: str, outcome: str) -> None:
        self.outcomes.setdefault(test.split("::")[0], Counter())[outcome] += 1

    def _note(self, test: str, outcome: str, report: Any) -> None:
        self._count(test, outcome)
        self.failed[test] = cause = _cause(report)
        self.causes[cause] += 1

    def lines(self, most: int = 25) -> list[str]:
        """The counts of each file, and the most frequent causes."""
        lines: list[str] = []
        for file, counts in sorted(self.outcomes.items()):
            said = ", ".join(f"{n} {what}" for what, n in counts.most_common())
            lines.append(f"{file}: {said}")
        total = sum(self.outcomes.values(), Counter[str]())
        tried = total["passed"] + total["failed"] + total["not imported"]
        share = 100 * total["passed"] / max(1, tried)
        spent = time.time() - self.begin
        lines += [
            f"{total['passed']} of {tried} pass ({share:.1f} %), "
            f"{total['left out']} left out, {total['skipped']} skipped, {spent:.0f} s"
        ]
        lines += [f"{n:5} {cause}" for cause, n in self.causes.most_common(most)]
        if self.reasons:
            lines.append("left out:")
            lines += [f"{n:5} {said}" for said, n in self.reasons.most_common(most)]
        return lines


def _excuse(report: Any) -> str | None:
    """Why a failure is none."""
    text = str(report.longrepr)
    return next((said for find, said in _EXCUSED if find.search(text)), None)


def _cause(report: Any) -> str:
    """The last line of an error, without what differs from test to test."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash else str(report.longrepr).strip().split("\n")[-1]
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    first = next(iter(lines), "")
    if first.startswith("AssertionError") and len(lines) > 1:
        first = " ".join(lines[:3])
    first = re.sub(r"0x[0-9a-f]+", "0x…", first)
    return re.sub(r"-?\d+(\.\d+)?(e[-+]\d+)?", "#", first)[:160]


@contextmanager
def _limit(seconds: int) -> Generator[None, None, None]:
    """Raises in what takes longer; there are no alarms on Windows."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def stop(*_: Any) -> None:
        raise TimeoutError(f"the test took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run(
    checkout: Path,
    arguments: list[str],
    leave_out: bool,
    record: Path | None,
    conftest: bool,
) -> Counts:
    """Runs tests of a checkout, by its fixtures if `conftest`; pytest's arguments."""
    counts = Counts(leave_out)
    fixed = [
        "-q", "-s", "--no-header", "--tb=short", "-p", "no:cacheprovider",
        "--import-mode=importlib", "-c", "/dev/null", "--rootdir", str(checkout),
        "--disable-warnings", "-rN", "--continue-on-collection-errors",
    ]  # fmt: skip
    given = [] if conftest else ["--noconftest"]
    pytest.main([*fixed, *given, *arguments], plugins=[counts])
    if record is not None:
        before = json.loads(record.read_text()) if record.exists() else {}
        before.update({file: dict(c) for file, c in counts.outcomes.items()})
        record.write_text(json.dumps(dict(sorted(before.items())), indent=1) + "\n")
    return counts

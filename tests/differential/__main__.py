"""python -m tests.differential: the table against JAX, or against what was recorded."""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator

from tests.differential import record, watch
from tests.differential.cases import Case, cases_of, shares
from tests.differential.modes import EIGHT
from tests.differential.outcomes import Difference, Outcome
from tests.differential.purpose import purpose_of
from tests.differential.rows import Row
from tests.differential.table import ROWS

#: How JAX compiles quickly, and sees EIGHT devices.
QUICK = (
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_parallel_codegen_split_count=1",
    "--xla_cpu_multi_thread_eigen=false",
    f"--xla_force_host_platform_device_count={EIGHT}",
)
#: Cases without JAX, and with it.
CASES = {None: 3600, "jax": 20000}
#: What was asked of JAX is written down every so many seconds.
SAVED = 30
#: Programs of so many cases stay compiled: they share some, but take 3 MB each.
COMPILED = 500


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.differential", description=__doc__
    )
    parser.add_argument("--peer", choices=["jax"], help="compare with JAX itself")
    parser.add_argument("--cases", type=int, help="how many, of all functions together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--only", help="functions whose name contains this, or one case: name#number"
    )
    parser.add_argument(
        "--record",
        nargs="?",
        const=record.SAMPLE,
        help="write what JAX gives to a file; what the file has already is not asked",
    )
    parser.add_argument(
        "--against", nargs="+", help="compare with what was recorded in these files"
    )
    parser.add_argument(
        "--part", default="0/1", help="the i-th of n parts of the functions"
    )
    parser.add_argument(
        "--verbose", action="store_true", help="name each case before it runs"
    )
    options = parser.parse_args()
    faulthandler.enable()
    if (options.peer or options.record) and not options.against:
        if not watch.watched():
            return watch.watch(sys.argv[1:])
        # Code that is compiled for one call need not be fast.
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        os.environ.setdefault("XLA_FLAGS", " ".join(QUICK))
    return compare_all(options)


def compare_all(options: argparse.Namespace) -> int:
    name, _, number = (options.only or "").partition("#")
    part, parts = map(int, options.part.split("/"))
    rows = [row for row in ROWS if (name == row.title if number else name in row.title)]
    asks = bool(options.peer or options.record) and not options.against
    files = options.against or [options.record or record.SAMPLE]
    recorded = record.load(*files if options.record or not asks else [])
    of_row = shares(ROWS, options.cases or CASES["jax" if options.peer else None])
    report = Report(options, asks)
    for case in _chosen(rows[part::parts], of_row, options.seed, number):
        wanted = recorded.get(case)
        if wanted is None and not asks:
            report.counts["not recorded"] += 1
        else:
            report.take(case, wanted)
    watch.leave()
    return report.end()


class Report:
    """The cases so far: what JAX gave, and the differences, counted and told."""

    def __init__(self, options: argparse.Namespace, asks: bool) -> None:
        self.options, self.asks = options, asks
        self.counts: Counter[str] = Counter()
        self.on_purpose: Counter[str] = Counter()
        self.outcomes: dict[Case, Outcome] = {}
        self.started = self.saved = time.perf_counter()

    def take(self, case: Case, wanted: Outcome | None) -> None:
        from tests.differential.compare import compare

        if self.options.verbose:
            print(case, flush=True)
        self.counts["cases"] += 1
        if case.id in watch.left_out():
            self.tell(case, Difference("dies", "the process crashed, or took too long"))
            return
        watch.enter(case.id)
        found, wanted = compare(case, wanted)
        if wanted.error == "Missing":
            self.counts["not in JAX"] += 1
            return
        self.outcomes[case] = wanted
        if self.asks and len(self.outcomes) % COMPILED == 0:
            import jax

            jax.clear_caches()
        self.save()
        self.counts["errors in both"] += bool(wanted.error and not found)
        for difference in found:
            purpose = purpose_of(case, difference)
            if purpose:
                self.on_purpose[purpose.reason] += 1
            else:
                self.tell(case, difference)

    def tell(self, case: Case, difference: Difference) -> None:
        self.counts["differences"] += 1
        self.counts[difference.what] += 1
        print(f"{case}\n    {difference.what}: {difference.text}", flush=True)

    def save(self, last: bool = False) -> None:
        if not self.options.record:
            return
        if last or time.perf_counter() - self.saved > SAVED:
            record.save(self.options.record, self.outcomes)
            self.saved = time.perf_counter()

    def end(self) -> int:
        self.save(last=True)
        seconds = time.perf_counter() - self.started
        print(
            f"\nseed {self.options.seed}, {seconds:.0f} s, "
            + ", ".join(f"{v} {k}" for k, v in self.counts.items())
        )
        for reason, n in self.on_purpose.most_common():
            print(f"    on purpose {n}: {reason}")
        return 1 if self.counts["differences"] else 0


def _chosen(
    rows: list[Row], of_row: dict[str, int], seed: int, number: str
) -> Iterator[Case]:
    """The cases in rounds, one of each row, so that a part of them is of all rows."""
    drawn = {row.title: cases_of(row, seed) for row in rows}
    if number:
        for cases in drawn.values():
            yield next(itertools.islice(cases, int(number), None))
        return
    for turn in range(max(of_row.values())):
        for title, cases in drawn.items():
            if turn < of_row[title]:
                yield next(cases)


if __name__ == "__main__":
    sys.exit(main())

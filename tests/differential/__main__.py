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

from tests.differential import record
from tests.differential.cases import Case, cases_of, shares
from tests.differential.purpose import purpose_of
from tests.differential.rows import Row
from tests.differential.table import ROWS

#: How JAX compiles quickly.
QUICK = (
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_parallel_codegen_split_count=1",
    "--xla_cpu_multi_thread_eigen=false",
)
#: Cases without JAX, and with it.
CASES = {None: 3000, "jax": 20000}


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
        help="write what JAX gives to a file",
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
        # Code that is compiled for one call need not be fast.
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        os.environ.setdefault("XLA_FLAGS", " ".join(QUICK))
    return compare_all(options)


def compare_all(options: argparse.Namespace) -> int:
    from tests.differential.compare import compare

    name, _, number = (options.only or "").partition("#")
    part, parts = map(int, options.part.split("/"))
    rows = [row for row in ROWS if (name == row.title if number else name in row.title)]
    rows = rows[part::parts]
    recorded = None
    if options.against or not (options.peer or options.record):
        recorded = record.load(*options.against or [record.SAMPLE])
    count = options.cases or CASES["jax" if options.peer else None]
    of_row = shares(ROWS, count)
    counts: Counter[str] = Counter()
    on_purpose: Counter[str] = Counter()
    outcomes = {}
    started = time.perf_counter()
    for case in _chosen(rows, of_row, options.seed, number):
        wanted = None
        if recorded is not None:
            wanted = recorded.get(case)
            if wanted is None:
                counts["not recorded"] += 1
                continue
        if options.verbose:
            print(case, flush=True)
        counts["cases"] += 1
        found, wanted = compare(case, wanted)
        if wanted.error == "Missing":
            counts["not in JAX"] += 1
            continue
        outcomes[case] = wanted
        if options.record and len(outcomes) % 1000 == 0:
            record.save(options.record, outcomes)
        counts["errors in both"] += bool(wanted.error and not found)
        for difference in found:
            purpose = purpose_of(case, difference)
            if purpose:
                on_purpose[purpose.reason] += 1
            else:
                counts["differences"] += 1
                counts[difference.what] += 1
                print(f"{case}\n    {difference.what}: {difference.text}", flush=True)
    if options.record:
        record.save(options.record, outcomes)
    seconds = time.perf_counter() - started
    print(
        f"\nseed {options.seed}, {seconds:.0f} s, "
        + ", ".join(f"{v} {k}" for k, v in counts.items())
    )
    for reason, n in on_purpose.most_common():
        print(f"    on purpose {n}: {reason}")
    return 1 if counts["differences"] else 0


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

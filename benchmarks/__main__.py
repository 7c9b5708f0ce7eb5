"""`python -m benchmarks`: the arguments."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

THREADS = 2
PEERS = ("jax", "torch", "numpy")


def limit_threads() -> None:
    """Two threads for everybody; to be done before any library is imported."""
    if hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, allowed[:THREADS])
    for name in ("OMP", "OPENBLAS", "MKL", "VECLIB"):
        suffix = "MAXIMUM_THREADS" if name == "VECLIB" else "NUM_THREADS"
        os.environ.setdefault(f"{name}_{suffix}", str(THREADS))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Times ftrace next to other libraries, in turn, in one run.",
    )
    made.add_argument(
        "--peer",
        action="append",
        choices=PEERS,
        default=[],
        help="a library to compare with; may be given several times",
    )
    made.add_argument(
        "--rows",
        metavar="PATTERN",
        default="",
        help="only rows whose family/name matches this regular expression",
    )
    made.add_argument(
        "--device",
        choices=("cpu", "opencl", "interpreter"),
        default="cpu",
        help="where ftrace runs",
    )
    made.add_argument("--quick", action="store_true", help="few and short timings")
    made.add_argument(
        "--json", metavar="FILE", type=Path, help="also write all figures"
    )
    made.add_argument("--list", action="store_true", help="name the rows, time nothing")
    return made


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    limit_threads()
    # Imported only now: NumPy's and JAX's thread pools are as large as they find
    # the machine when they are loaded.
    from benchmarks.run import run

    return run(options)


if __name__ == "__main__":
    sys.exit(main())

"""The command line, and the threads: all that comes before any library is loaded."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

#: On a machine that does other work one thread is disturbed the least.
THREADS = int(os.environ.get("BENCHMARKS_THREADS", "2"))
PEERS = ("jax", "torch", "inductor", "numpy")


def limit_threads() -> None:
    """The same for everybody; libraries look at this when they are imported."""
    if hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, allowed[:THREADS])
    for name in ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "VECLIB_MAXIMUM"):
        os.environ.setdefault(f"{name}_THREADS", str(THREADS))


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
        help="where ftrace runs; the peers run on the CPU",
    )
    made.add_argument("--quick", action="store_true", help="few and short timings")
    made.add_argument(
        "--save", "--json", metavar="FILE", type=Path, help="also write all figures"
    )
    made.add_argument(
        "--against",
        metavar="FILE",
        type=Path,
        help="compare with figures that were saved",
    )
    made.add_argument("--list", action="store_true", help="name the rows, time nothing")
    return made

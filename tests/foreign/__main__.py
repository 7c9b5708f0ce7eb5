"""python -m tests.foreign: JAX's own tests, and those of libraries, on ftrace.

python -m tests.foreign jax --checkout PATH tests/nn_test.py -k softmax
python -m tests.foreign library --checkout PATH tests
python -m tests.foreign examples --checkouts FOLDER --against PYTHON rnn
"""

from __future__ import annotations

import argparse
import atexit
import os
import sys
from pathlib import Path

from ftrace.compat import install_as_jax
from tests.foreign import examples


def main() -> int:
    if sys.argv[1:2] == ["examples"]:
        return examples.main(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="python -m tests.foreign")
    parser.add_argument("whose", choices=["jax", "library"])
    parser.add_argument("--checkout", type=Path, required=True, help="their repository")
    parser.add_argument("--record", type=Path, help="write the counts to a JSON file")
    parser.add_argument("--failed", type=Path, help="write each failed test, its cause")
    parser.add_argument(
        "--all", action="store_true", help="run also what `left_out` names"
    )
    parser.add_argument(
        "--late", action="store_true", help="a missing name fails when it is used"
    )
    known, others = parser.parse_known_args()
    install_as_jax()
    from tests.foreign import jax_private, run

    checkout = known.checkout.resolve()
    if known.whose == "jax":
        jax_private.install(checkout)
    elif known.late:
        jax_private.tell_when_used()
    for name in ("record", "failed"):
        if (path := getattr(known, name)) is not None:
            setattr(known, name, path.resolve())
    os.chdir(checkout)
    # A test of chex runs what is left for the exit, which ends optree's containers.
    atexit._clear()  # pyright: ignore[reportPrivateUsage]
    del sys.modules["tests"]  # a package of the checkout may have this name
    leave_out = known.whose == "jax" and not known.all
    conftest = known.whose == "library"
    counts = run.run(checkout, others, leave_out, known.record, conftest)
    print("\n".join(counts.lines()))
    if known.failed is not None:
        told = [*counts.failed.items(), *counts.excused.items()]
        rows = [f"{test}\t{cause}\n" for test, cause in told]
        known.failed.write_text("".join(rows))
    return 1 if counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())

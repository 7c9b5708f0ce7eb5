"""What everything stands on: settings, records, locks, and caches.

From the ground up:

    errstate          Floating-point errors pass without a word:
                      `np.errstate(all="ignore")`, but quicker
    fast_dataclasses  `dataclass` and `NamedTuple`, as those of the standard library,
                      made in less time
    limits            What a device can do, as far as lowering asks
    settings          One frozen configuration, read from the environment once
    tracebacks        What a traceback shows: the user's lines, without the frames of
                      ftrace between them
    missing_names     JAX's names that are not there: what is said of them
    text_tables       What is shown in tables: as text, in a terminal through rich, in a
                      notebook as HTML
    weak_tables       What is known while anyone has it, without Python's code where it
                      dies
    fork_safe         Locks that a forked child finds free, and what a process makes
                      once
    spans             Spans of time, for whoever records where time goes
    progress          What takes more than a second shows how far it is
    tables            Caches, all of them within one limit of bytes
    processes         The processes of a program, from `join` to `leave`, over MPI
    process_groups    What processes do together: collectives, started and finished
"""

from typing import Final

#: The version of the package, as in pyproject.toml.
VERSION: Final = "0.1.0"

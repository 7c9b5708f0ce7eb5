"""When the next tier of a call pays: all thresholds, in one place.

Those of operations with several results stand in their records: `CompiledFrom`.

    NumPy, step by step   ->   a program        ->   a native record
    at once                    10 to 30 ms           4 ms, and once 400 ms for all

Last bits must not depend on how often a call came. What is rounded is therefore
compiled at its first call or never, and the sizes alone decide; what leaves no choice
(`eager/exact_subgraph.py`) waits until NumPy has spent as long as compiling takes.

Times are of November 2026, on two cores of a Zen 4 (EPYC) with Python 3.12 and an empty
disk cache; rows: `benchmarks`, without jit. µs of NumPy are by `numpy_time`.
"""

from __future__ import annotations

from ftrace.ground.fast_dataclasses import NamedTuple

#: Eager operations before there is native code for any: who does less shall not wait
#: for it.
CALLS_BEFORE_NATIVE = 2000
#: Calls of one kind, of a jitted function or of a derived program, before one makes the
#: record: who calls twice shall not wait for it.
CALLS_BEFORE_BOUND = 4
#: Of the eager calls of one kind that are not native, each so many-th is recorded.
CALLS_BEFORE_RECORD = 8
#: Calls with arrays of one shape by the kernel for all sizes, before they have one of
#: their own.
CALLS_OF_SHAPE = 64


class Tier(NamedTuple):
    """When calls of one kind are compiled.

    Attributes:
      rounds: µs of a call from which on one that rounds is compiled, at once.
      exact: µs of a call from which on one that leaves no choice is, later:
      spent: after so many µs in all.
    """

    rounds: int
    exact: int
    spent: int


#: A public function, by a kernel for arrays of all sizes, or by one for this shape,
#: which the next shape does not need.
ANY_SIZE, ONE_SHAPE = Tier(32, 8, 128), Tier(1000, 8, 2000)
#: µs from which on a call that leaves no choice takes the kernel for all sizes: to
#: reach it costs as much. Cheaper ones wait for a kernel of their own.
PAYS_ANY_SIZE = 100
#: Elements of an array from which on it is asked whether a call shall be compiled, and
#: from which on it never is.
LARGE, MOST = 1 << 10, 1 << 31

#: Samplers, which are many operations on few numbers. From so many elements on one that
#: rounds is compiled: NumPy needs longer for one call than other libraries for theirs,
#: and a program is compiled in the time of some 30.
DRAWS_LARGE = 1 << 8
#: From so many on every draw is compiled, at the first call.
DRAWS_HUGE = 1 << 19
#: µs that NumPy may take for one kind of draws before its exact part is compiled, and
#: for all of them before the compiler is loaded.
DRAWS_SPENT, DRAWS_SPENT_IN_ALL = 20_000, 250_000

#: Programs of graphs with fewer nodes are lowered sooner than they are read from disk,
#: once the passes are loaded.
STORED_NODES = 24
#: The first programs of a process, which are all on disk: where it finds them there it
#: never loads the passes.
STORED_FIRST = 32


def numpy_time(elements: int) -> int:
    """How many µs NumPy needs for an operation on so many elements, about."""
    return 2 + (elements >> 13)

"""When the next tier of a call pays: thresholds that are not one operation's.

Those of native calls, of functions on large arrays, of samplers, of programs on disk,
and of long rows of which one place is sorted are here. Those of sorts, Fourier
transforms, factorizations and triangular systems stand in their records, in
`primitives/library/`: `CompiledFrom`.

    NumPy, step by step   ->   a program        ->   a native record
    at once                    10 to 30 ms           4 ms, and once 400 ms for all

    who asks, at a call without a record             what it asks
    --------------------------------------------------------------------------------
    `eager_programs`, of a public function           `function_pays`
    `eager_programs`, of a sort, an FFT, a system    `pays_after`, by its record
    `random/draw`, of a sampler                      `draws_pay`
    `jit`, of a jitted function                      `Tally`: `JIT_CALLS_BEFORE_RECORD`
    `backends/llvm/call`, of eager calls of a kind   `Tally`: `CALLS_BEFORE_RECORD`
    `compiled_graph`, of a program on disk           `Tally`: `STORED_FIRST`
    `eager/composite`, of a composition in traces    `Tally`: `TRACED_BEFORE_GRAPH`

Last bits must not depend on how often a call came. What is rounded is therefore
compiled at its first call or never, and the sizes alone decide; what leaves no choice
(`eager/composite.py`) waits until NumPy has spent as long as compiling takes.

Times are of November 2026, on two cores of a Zen 4 (EPYC) with Python 3.12 and an empty
disk cache; rows: `benchmarks`, without jit. µs of NumPy are by `numpy_time`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ftrace import dtypes
from ftrace.trace.arrays.buffer import LARGE_ALLOCATION
from ftrace.trace.backend import backend
from ftrace.trace.graph import Graph, Node
from ftrace.trace.primitives.elementwise import cast_p, imag, real
from ftrace.trace.primitives.movement import pad_p
from ftrace.trace.primitives.primitive import Compound, Primitive


class Tally:
    """What calls of one kind have taken: so many of them, or so many µs.

    Threads that count at the same time may count a call too few: that does no harm.
    """

    __slots__ = ("spent",)

    def __init__(self) -> None:
        self.spent = 0

    def reaches(self, limit: int, price: int = 1) -> bool:
        """Does the next tier pay? If not, a call of this price is counted."""
        if self.spent >= limit:
            return True
        self.spent += price
        return False

    def doubles(self, first: int) -> bool:
        """Counts a call: is it that of this number, or of 2, 4, 8, … times it?"""
        self.spent = done = self.spent + 1
        often, rest = divmod(done, first)
        return not rest and not often & (often - 1)


#: Does a program do this call? Asked at each of one kind; if not, it is counted.
Pays = Callable[[], bool]


def pays_after(limit: int, price: int = 1) -> Pays:
    """A program does the calls of a kind once so much was spent, by this at each."""
    return partial(Tally().reaches, limit, price)


# Calls in native code.

#: Eager operations before there is native code for any: who does less shall not wait
#: for it. A page of the gallery does 425 at the most.
CALLS_BEFORE_NATIVE = 2000
#: Calls of one signature, of a jitted function or a derived program, before one makes
#: the record: who calls twice shall not wait for it.
JIT_CALLS_BEFORE_RECORD = 4
#: Kinds of calls of one signature of a jitted function that are native: with arrays of
#: NumPy's, numbers, dicts in another order. The others are not.
KINDS_RECORDED = 4
#: Of the eager calls of one kind that are not native, the first one that is recorded;
#: the next ones are the 16th, the 32nd, …
CALLS_BEFORE_RECORD = 8
#: Times that a composition is traced for types of operands before it is for a graph of
#: its own, which is recorded again: with 1 an RNN, whose two products have the same
#: types, waits 0.1 ms longer, with 0 an MLP does.
TRACED_BEFORE_GRAPH = 2
#: Kinds of calls of one function that are native, the latest; native code walks over
#: them.
RECORDS = 32
#: Leaves of a call that is recorded, and of its result, at the most. Public functions
#: have up to 6 and 4, but for those that join and split many.
LEAVES, RESULTS = 24, 512
#: Bytes of an array that a record keeps to copy it, at the most.
BYTES_RETAINED = 1 << 16
#: Elements, of any dtype, from which on it is asked whether there is memory for a
#: result: that is asked at each call, and so there is no record of it.
ASKED = LARGE_ALLOCATION // 16

# Calls on large arrays, compiled.

#: µs of NumPy from which on a call that rounds is compiled at once, for its shapes; and
#: one of elements alone, for which NumPy asks for pages and takes 5 times as long. Of
#: float32 that is 2²¹ for a sum, 2¹⁹ for softmax and var, 2¹⁸ for tanh, 2¹⁵ for gelu;
#: with half of it half as many.
ROUNDS, ELEMENTS_ROUND = 500, 60
#: µs from which on a call that leaves no choice is compiled, and after how many in all:
#: 200 calls of a + b of 2¹⁵. With 4 those of 2¹³ are, with 16 those of 2¹⁶.
EXACT, EXACT_SPENT = 8, 2000
#: Elements of an array from which on it is asked whether a call shall be compiled, as
#: `roll` and `concatenate` are worth it then, and from which on it never is.
LARGE_ARRAY, MOST_ELEMENTS = 1 << 10, 1 << 31

#: Samplers, which are many operations on few numbers. From so many elements on one that
#: rounds is compiled: NumPy needs longer for one call than other libraries for theirs,
#: and a program is compiled in the time of some 30.
DRAWS_LARGE = 1 << 8
#: From so many on every draw is compiled, at the first call.
DRAWS_HUGE = 1 << 19
#: µs that NumPy may take for one kind of draws before its exact part is compiled, and
#: for all of them before the compiler is loaded: some 60 and 700 calls for few numbers.
#: A page of the gallery takes 1630 at the most.
DRAWS_SPENT, DRAWS_SPENT_IN_ALL = 20_000, 250_000

#: Programs of graphs with fewer nodes are lowered sooner than they are read from disk,
#: once the passes are loaded. So have 56 of the 68 benchmark rows with golden code;
#: fewer than 12 have 33, fewer than 48 63.
STORED_NODES = 24
#: The first programs of a process, which are all on disk: where it finds them there it
#: never loads the passes. A page of the gallery has 17 at the most.
STORED_FIRST = 32

#: Elements of a row from which on one place of it alone is sorted, where that is asked
#: for: a sort takes several times as long.
LONG_ROW = 1 << 13

#: Eager operations that Python's code has done, and µs that NumPy took for draws.
operations, draws = Tally(), Tally()


def count_operation() -> None:
    """Counts an eager operation that Python's code does."""
    done = operations.spent = operations.spent + 1
    # Also where another thread counts on meanwhile.
    if done == CALLS_BEFORE_NATIVE:
        backend().make_native()


def draws_pay(graph: Graph, size: int) -> Pays:
    """When what is exact of a sampler is compiled.

    Args:
      graph: of the sampler.
      size: elements of its largest part.
    """
    price, of_kind = len(graph.nodes) * numpy_time(size), Tally()

    def pays() -> bool:
        loads = draws.reaches(DRAWS_SPENT_IN_ALL, price)
        enough = of_kind.reaches(DRAWS_SPENT, price)
        return enough and (loads or backend().has_compiled())

    return pays


# What NumPy needs for a graph.

#: How long that takes NumPy, in halves of an addition: see `Primitive.slow`.
#: Of 200,000 float32: int8 and int32 60 µs, int64 150, where an addition takes 18.
_FLOAT_TO_INTEGER = 10
#: Multiplications of a product of matrices that take as long as one element.
_OF_PRODUCT = 16
#: NumPy gives a view for these, in no time, and for the parts of complex numbers.
_VIEWS = ("movement", "source", "identity")
_PARTS = (real, imag)


def numpy_time(elements: int) -> int:
    """How many µs NumPy needs for an operation on so many elements, about."""
    return 2 + (elements >> 13)


def numpy_price(graph: Graph) -> int:
    """How many µs NumPy needs for a graph; 0 where it shall do it in any case."""
    given = {*graph.inputs, *(n for n in graph.outputs if not n.src)}
    if graph.effects or not given.isdisjoint(graph.outputs):
        return 0
    largest = max([n.size for n in (*graph.inputs, *graph.outputs)])
    if largest >= MOST_ELEMENTS:
        return 0
    return sum([_price(node, largest) for node in graph.nodes])


def _price(node: Node, largest: int) -> int:
    if node.op in _PARTS or (node.op.family in _VIEWS and node.op is not pad_p):
        return 0
    size = max(node.size, *[x.size for x in node.src])
    if size > 2 * largest:  # of a product of matrices, which is not stored
        size //= _OF_PRODUCT
    times = node.op.slow if isinstance(node.op, (Primitive, Compound)) else 2
    if node.op is cast_p and dtypes.is_inexact(node.src[0].dtype):
        times = _FLOAT_TO_INTEGER if dtypes.is_integer(node.dtype) else times
    return numpy_time(size * times)


def function_pays(graph: Graph, exact: bool) -> Pays | None:
    """When a public function on large arrays is compiled; None is never.

    Args:
      graph: of the function.
      exact: it leaves no choice.
    """
    price = numpy_price(graph)
    grows = all(x.size <= node.size for node in graph.nodes for x in node.src)
    rounds = ELEMENTS_ROUND if grows else ROUNDS
    if not price or price < (EXACT if exact else rounds):
        return None
    return pays_after(EXACT_SPENT if exact else 0, price)

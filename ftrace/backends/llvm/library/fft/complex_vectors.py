"""Vectors of complex numbers in LLVM IR, and where they come from or go to.

In registers their parts are apart. A side takes and puts a vector of numbers `at` a
place: the number of its first one for rows; for columns and batched rows that times the
lanes of a vector. Some sides stand before others:

    scale(f, Place, …)     a result that is multiplied by a constant
    chirp(Place, …)        numbers that end early, and are multiplied by a chirp
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ftrace import dtypes
from ftrace.backends.llvm.emit.module import LibraryFunction
from ftrace.backends.llvm.ir.writer import Type, mask_type
from ftrace.backends.llvm.library.fft.twiddles import roots_symbol
from ftrace.backends.llvm.scalar.instructions import Vectors
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.library.fft_kernels import Form, Transform
from ftrace.lower.library.fft_radices import power_within

#: Parts of complex numbers, in vectors.
Pair = tuple[str, str]

#: Forms whose vectors have numbers of as many columns or rows.
ACROSS = ("columns", "batch", "transposed")


def swap(x: Pair) -> Pair:
    """With the parts in the other order."""
    return x[1], x[0]


def _most_lanes(form: Form) -> int:
    """How many lanes a vector can fill.

    Batched rows are transposed in squares, of half as many numbers as rows.
    """
    if form.kind not in ACROSS:
        return max(form.size // 4, 1)
    if form.kind == "columns":
        return form.inner
    return min(form.inner, 2 * power_within(form.length or form.size))


class Waves(LibraryFunction):
    """Writes the function of a transform.

    Attributes:
      form: of the transform.
      nbytes: of the result and the operand.
      t: the type of a real number.
      lanes: of the vectors.
      total: numbers in a buffer; the imaginary parts stand `plane` after the real ones.
    """

    def __init__(self, kernel: Transform, target: Target) -> None:
        super().__init__(target)
        self.form = form = kernel.form
        self.nbytes = [spec.size * spec.dtype.itemsize for spec in kernel.buffers]
        double = kernel.buffers[0].dtype in (dtypes.float64, dtypes.complex128)
        self.t = Type.of(dtypes.float64 if double else dtypes.float32, 0)
        most = target.vector_bytes // self.t.bytes
        self.lanes = power_within(min(most, _most_lanes(form)))
        self.total = form.size * (self.lanes if form.kind in ACROSS else 1)
        self.plane = self.total + self.lanes
        self.v = Vectors(self, self.lanes)

    # Vectors.

    def type(self, lanes: int) -> Type:
        return self.t.with_lanes(lanes)

    def at(self, base: str, index: str | int) -> str:
        return self.v.at(self.t, base, index)

    def take(self, base: str, index: str | int, lanes: int, mask: str = "") -> str:
        """Zeros where the mask does not hold."""
        return self.v.take(self.type(lanes), base, index, mask)

    def put(
        self, value: str, base: str, index: str | int, lanes: int, mask: str = ""
    ) -> None:
        """Nothing where the mask does not hold."""
        self.v.put(self.type(lanes), value, base, index, mask)

    def shuffle(self, x: str, y: str, lanes: int, places: list[int]) -> str:
        """The elements of two vectors at these places."""
        return self.v.shuffle(self.type(lanes), x, y, places)

    def splat(self, base: str, index: str | int) -> str:
        """A number of memory in all lanes."""
        scalar = self.load(self.t.text, self.at(base, index))
        return self.v.splat(scalar, self.type(self.lanes))

    # Arithmetic.

    def arithmetic(self, verb: str, x: str, y: str) -> str:
        return self.v.binary(f"{verb} contract", self.type(self.lanes), x, y)

    def add(self, x: Pair, y: Pair) -> Pair:
        (a, b), (c, d) = x, y
        return self.arithmetic("fadd", a, c), self.arithmetic("fadd", b, d)

    def sub(self, x: Pair, y: Pair) -> Pair:
        (a, b), (c, d) = x, y
        return self.arithmetic("fsub", a, c), self.arithmetic("fsub", b, d)

    def times(self, x: Pair, y: Pair, *, conjugate: bool = False) -> Pair:
        """The product of x and y, or of x and y's conjugate."""
        (a, b), (c, d) = x, y
        ac, bd, bc, ad = (
            self.arithmetic("fmul", *factors)
            for factors in ((a, c), (b, d), (b, c), (a, d))
        )
        verbs = ("fadd", "fsub") if conjugate else ("fsub", "fadd")
        return self.arithmetic(verbs[0], ac, bd), self.arithmetic(verbs[1], bc, ad)

    def scale(self, x: Pair, factor: float) -> Pair:
        if factor == 1:
            return x
        return self.each(x, self.t.with_lanes(self.lanes).constant(factor))

    def each(self, x: Pair, factor: str) -> Pair:
        """Both parts, multiplied by a real number."""
        return self.arithmetic("fmul", x[0], factor), self.arithmetic(
            "fmul", x[1], factor
        )

    # Complex numbers side by side in memory.

    def split(self, both: str) -> Pair:
        """The real parts and the imaginary ones of numbers side by side."""
        n = self.lanes
        a, b = (
            self.shuffle(both, "poison", 2 * n, [2 * i + part for i in range(n)])
            for part in (0, 1)
        )
        return a, b

    def together(self, x: Pair) -> str:
        """Numbers side by side."""
        n = self.lanes
        return self.shuffle(*x, n, [i // 2 + (i % 2) * n for i in range(2 * n)])

    def roots(self, kind: str, *sizes: int) -> str:
        """The table of roots of unity."""
        symbol = roots_symbol("f64" if self.t.bytes == 8 else "f32", kind, *sizes)
        return self.outside(f"ptr {symbol}()")


# Where the numbers of a transform come from or go to.


class Side:
    """Where numbers come from or go to; most are for one of both.

    With a mask only numbers of some lanes are there: zeros stand for the others, and
    nothing is put.

    Args:
      take: (place, mask) -> numbers.
      put: (numbers, place, mask).
    """

    def __init__(
        self,
        take: Callable[[str, str], Pair] | None = None,
        put: Callable[[Pair, str, str], None] | None = None,
    ) -> None:
        self._take: Any = take
        self._put: Any = put

    def take(self, at: str, mask: str = "") -> Pair:
        return self._take(at, mask)

    def put(self, x: Pair, at: str, mask: str = "") -> None:
        self._put(x, at, mask)


class Interleaved(Side):
    """Complex numbers in memory, side by side.

    Args:
      base: of the row, or of the first column of the strip.
      inner: 0 for rows; else how many numbers a row of the matrix has.
    """

    def __init__(self, f: Waves, base: str, inner: int = 0) -> None:
        self._f, self._base, self._inner = f, base, inner

    def first(self) -> Pair:
        """The parts of the first number."""
        f = self._f
        a, b = (f.load(f.t.text, f.at(self._base, at)) for at in (0, 1))
        return a, b

    def set_first(self, x: Pair) -> None:
        for at, value in enumerate(x):
            self._f.store(self._f.t.text, value, self._f.at(self._base, at))

    def _index(self, at: str) -> str:
        f = self._f
        if self._inner:
            row = f.let(f"udiv i64 {at}, {f.lanes}")
            at = f.let(f"mul i64 {row}, {self._inner}")
        return f.let(f"shl i64 {at}, 1")

    def take(self, at: str, mask: str = "") -> Pair:
        f, index = self._f, self._index(at)
        return f.split(f.take(self._base, index, 2 * f.lanes, self._double(mask)))

    def put(self, x: Pair, at: str, mask: str = "") -> None:
        f, index = self._f, self._index(at)
        both = f.together(x)
        f.put(both, self._base, index, 2 * f.lanes, self._double(mask))

    def _double(self, mask: str) -> str:
        n = self._f.lanes
        places = [i // 2 for i in range(2 * n)]
        return mask and self._f.v.shuffle(mask_type(n), mask, "poison", places)


class Buffer(Side):
    """Numbers on the stack, the parts apart."""

    def __init__(self, f: Waves) -> None:
        self._f, self._base = f, f.allocate(f.t.text, 2 * f.plane)

    def take(self, at: str, mask: str = "") -> Pair:
        assert not mask
        f = self._f
        behind = f.let(f"add i64 {at}, {f.plane}")
        return f.take(self._base, at, f.lanes), f.take(self._base, behind, f.lanes)

    def put(self, x: Pair, at: str, mask: str = "") -> None:
        assert not mask
        f = self._f
        f.put(x[0], self._base, at, f.lanes)
        f.put(x[1], self._base, f.let(f"add i64 {at}, {f.plane}"), f.lanes)


# What stands before another side.


def exchange(side: Side) -> Side:
    """The parts of numbers in the other order."""
    return Side(
        lambda at, mask: swap(side.take(at, mask)),
        lambda x, at, mask: side.put(swap(x), at, mask),
    )


def scale(f: Waves, side: Side, factor: float) -> Side:
    """Numbers that are multiplied by a constant when they are put."""
    return Side(put=lambda x, at, mask: side.put(f.scale(x, factor), at, mask))


def twist(
    f: Waves, side: Side, sizes: tuple[int, int], find: Callable[[str], tuple[str, str]]
) -> Side:
    """Numbers that are multiplied by the roots of their places in a matrix, when put.

    Args:
      sizes: rows and columns of the matrix.
      find: tells the row of the matrix and the group of columns of what is put.
    """
    rows, columns = sizes
    each, count = rows * f.lanes, rows * -(-columns // f.lanes)
    table = f.roots("twist", *sizes, f.lanes)

    def put(x: Pair, at: str, mask: str) -> None:
        row, group = find(at)
        within = f.let(f"mul i64 {row}, {f.lanes}")
        start = f.let(f"add i64 {row}, {2 * each}")
        turn = f.let(f"add i64 {f.let(f'mul i64 {group}, {rows}')}, {start}")
        x = f.times(x, (
            f.take(table, within, f.lanes),
            f.take(table, f.let(f"add i64 {within}, {each}"), f.lanes),
        ))  # fmt: skip
        behind = f.let(f"add i64 {turn}, {count}")
        x = f.times(x, (f.splat(table, turn), f.splat(table, behind)))
        side.put(x, at, mask)

    return Side(put=put)


@dataclass(frozen=True)
class Numbers:
    """Which numbers of a transform stand where.

    Attributes:
      f: the function that asks.
      find: the number in the first lane.
      alike: do all lanes have the same number, of as many transforms?
    """

    f: Waves
    find: Callable[[str], str]
    alike: bool

    def roots(self, table: str, size: int, number: str, mask: str = "") -> Pair:
        """Of a table of so many roots, those of a vector, as far as the mask holds."""
        f = self.f
        places = number, f.let(f"add i64 {number}, {size}")
        if self.alike:
            a, b = (f.splat(table, place) for place in places)
        else:
            a, b = (f.take(table, place, f.lanes, mask) for place in places)
        return a, b

    def before(self, number: str, end: int) -> str:
        """The mask of the lanes whose numbers come before the end."""
        v = self.f.v
        return v.binary("icmp ult", v.type(64), v.positions(number), end)


def convolve(side: Side, sizes: tuple[int, int, int], numbers: Numbers) -> Side:
    """Numbers of a spectrum that are multiplied by a chirp's, and transformed back.

    Args:
      sizes: of the table: the transform's length, and the form of the spectrum.
    """
    f = numbers.f
    table = f.roots("spectrum", *sizes)

    def take(at: str, mask: str) -> Pair:
        root = numbers.roots(table, sizes[1] * sizes[2], numbers.find(at))
        return swap(f.times(side.take(at), root))

    return Side(take)


def chirp(side: Side, numbers: Numbers) -> Side:
    """Numbers that are multiplied by a chirp: those behind its end are zeros.

    What is put has its parts exchanged: it comes from a transform back.
    """
    f = numbers.f
    size = f.form.length
    table = f.roots("chirp", size)

    def take(at: str, mask: str) -> Pair:
        number = numbers.find(at)
        if not numbers.alike:
            mask = numbers.before(number, size)
            x = side.take(at, mask)
            return f.times(x, numbers.roots(table, size, number, mask))
        inside = f.let(f"icmp ult i64 {number}, {size}")
        number, at = (
            f.let(f"select i1 {inside}, i64 {v}, i64 0") for v in (number, at)
        )
        root = numbers.roots(table, size, number)
        kind = f.type(f.lanes)
        a, b = (
            f.let(f"select i1 {inside}, {kind} {v}, {kind} zeroinitializer")
            for v in f.times(side.take(at), root)
        )
        return a, b

    def put(x: Pair, at: str, mask: str) -> None:
        number = numbers.find(at)
        if not numbers.alike:
            mask = numbers.before(number, size)
            root = numbers.roots(table, size, number, mask)
            side.put(f.times(x, root, conjugate=True), at, mask)
            return
        with f.when(f.let(f"icmp ult i64 {number}, {size}")):
            root = numbers.roots(table, size, number)
            side.put(f.times(x, root, conjugate=True), at)

    return Side(take, put)


def turn(f: Waves, rows: str, buffer: Buffer, count: int, *, into: bool) -> None:
    """Brings rows of so many numbers to a buffer, or back.

    The parts of numbers are columns of a square. Numbers that fill no square begin
    earlier, and are moved twice.
    """
    lanes = f.lanes
    each = lanes // 2
    with f.repeat(-(-count // each)) as i:
        wanted = f.let(f"mul i64 {i}, {each}")
        first = f.least(wanted, count - each)
        at = f.let(f"shl i64 {first}, 1")
        places = [f.let(f"add i64 {at}, {2 * count * row}") for row in range(lanes)]
        start = f.let(f"mul i64 {first}, {lanes}")
        inner = [f.let(f"add i64 {start}, {k * lanes}") for k in range(each)]
        if into:
            given = [f.take(rows, place, lanes) for place in places]
            parts = f.v.transpose(f.type(lanes), given)
            for k, place in enumerate(inner):
                buffer.put((parts[2 * k], parts[2 * k + 1]), place)
        else:
            mixed = [part for place in inner for part in buffer.take(place)]
            transposed = f.v.transpose(f.type(lanes), mixed)
            for x, place in zip(transposed, places, strict=True):
                f.put(x, rows, place, lanes)

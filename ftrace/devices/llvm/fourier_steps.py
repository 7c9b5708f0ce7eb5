"""The steps of a Fourier transform in LLVM IR: Stockham's, which keep the order.

A step of radix 4 reads four vectors and writes four; with s numbers between two of one
sub-transform, of which there were n/l so far,

    x[q + s(p + m k)]  ->  y[q + s(4p + k)]        k = 0 … 3, m = l/4, p < m, q < s

so that reads are contiguous in j = q + s p, and writes where s fills a vector; before
that four vectors are exchanged with one another. Of columns, s begins with the lanes
of a vector. Other factors of the length, of columns, are steps like these. Between the
steps real and imaginary parts stand apart, in two buffers on the stack.

An inverse transform is one of numbers whose parts are exchanged.
"""

from __future__ import annotations

from math import cos, pi, sin

from ftrace import dtypes
from ftrace.devices.llvm.fourier_tables import roots_symbol, stage_offsets, stages_of
from ftrace.devices.llvm.runner.function import Function
from ftrace.devices.llvm.target import Target
from ftrace.devices.llvm.types import Type
from ftrace.devices.llvm.writer import ARGUMENTS
from ftrace.lower.fourier import Transform

#: Parts of complex numbers, in vectors.
Pair = tuple[str, str]


class Waves(Function):
    """Writes the function of a transform.

    Attributes:
      kernel: the transform.
      t: the type of a real number.
      lanes: of the vectors.
      total: numbers in a buffer; the imaginary parts stand `plane` after the real ones.
    """

    def __init__(self, kernel: Transform, target: Target, name: str) -> None:
        super().__init__(name, "void", *ARGUMENTS.split(", "), visible=True)
        self.kernel = kernel
        double = kernel.buffers[0].dtype in (dtypes.float64, dtypes.complex128)
        self.t = Type.of(dtypes.float64 if double else dtypes.float32, 0)
        most = max(target.vector_bytes // self.t.bytes, 1)
        columns = kernel.inner > 1 or kernel.abreast
        self.lanes = most if columns else max(1, min(most, kernel.size // 4))
        self.total = kernel.size * (self.lanes if columns else 1)
        self.plane = self.total + self.lanes
        self.declared: dict[str, None] = {}

    # Vectors.

    def type(self, lanes: int) -> str:
        return f"<{lanes} x {self.t}>"

    def at(self, base: str, index: str | int) -> str:
        return self.let(f"getelementptr {self.t}, ptr {base}, i64 {index}")

    def take(self, base: str, index: str | int, lanes: int) -> str:
        place = self.at(base, index)
        return self.let(f"load {self.type(lanes)}, ptr {place}, align {self.t.bytes}")

    def put(self, value: str, base: str, index: str | int, lanes: int) -> None:
        place = self.at(base, index)
        self.do(f"store {self.type(lanes)} {value}, ptr {place}, align {self.t.bytes}")

    def shuffle(self, x: str, y: str, lanes: int, places: list[int]) -> str:
        """The elements of two vectors at these places."""
        mask = ", ".join(f"i32 {p}" for p in places)
        t = self.type(lanes)
        return self.let(
            f"shufflevector {t} {x}, {t} {y}, <{len(places)} x i32> <{mask}>"
        )

    def arithmetic(self, verb: str, x: str, y: str, lanes: int = 0) -> str:
        return self.let(f"{verb} contract {self.type(lanes or self.lanes)} {x}, {y}")

    def add(self, x: Pair, y: Pair) -> Pair:
        (a, b), (c, d) = x, y
        return self.arithmetic("fadd", a, c), self.arithmetic("fadd", b, d)

    def sub(self, x: Pair, y: Pair) -> Pair:
        (a, b), (c, d) = x, y
        return self.arithmetic("fsub", a, c), self.arithmetic("fsub", b, d)

    def times(self, x: Pair, y: Pair) -> Pair:
        (a, b), (c, d) = x, y
        mul, add, sub = "fmul", "fadd", "fsub"
        return (
            self.arithmetic(
                sub, self.arithmetic(mul, a, c), self.arithmetic(mul, b, d)
            ),
            self.arithmetic(
                add, self.arithmetic(mul, a, d), self.arithmetic(mul, b, c)
            ),
        )

    def scaled(self, x: Pair, factor: float) -> Pair:
        if factor == 1:
            return x
        constant = self.t.with_lanes(self.lanes).constant(factor)
        a, b = (self.arithmetic("fmul", part, constant) for part in x)
        return a, b

    def splat(self, scalar: str) -> str:
        t = self.type(self.lanes)
        one = self.let(f"insertelement {t} poison, {self.t} {scalar}, i64 0")
        return self.shuffle(one, "poison", self.lanes, [0] * self.lanes)

    # Complex numbers side by side in memory.

    def take_pairs(self, base: str, index: str) -> Pair:
        """So many complex numbers, apart."""
        n = self.lanes
        both = self.take(base, self.let(f"shl i64 {index}, 1"), 2 * n)
        a, b = (
            self.shuffle(both, "poison", 2 * n, [2 * i + part for i in range(n)])
            for part in (0, 1)
        )
        return a, b

    def put_pairs(self, x: Pair, base: str, index: str) -> None:
        n = self.lanes
        mixed = [i // 2 + (i % 2) * n for i in range(2 * n)]
        both = self.shuffle(*x, n, mixed)
        self.put(both, base, self.let(f"shl i64 {index}, 1"), 2 * n)

    def roots(self, kind: str, size: str) -> str:
        """The table of roots of unity."""
        symbol = roots_symbol("f64" if self.t.bytes == 8 else "f32", kind, size)
        self.declared[f"declare ptr @{symbol}()"] = None
        return self.let(f"call ptr @{symbol}()")


class Place:
    """Where the numbers of a transform come from or go to.

    Args:
      base: of the row, or of the first column of the strip.
      inner: 0 for rows; else how many numbers a row of the matrix has.
      swapped: are the parts exchanged?
    """

    def __init__(self, f: Waves, base: str, inner: int, swapped: bool) -> None:
        self._f = f
        self._base = base
        self._inner = inner
        self._swapped = swapped

    def index(self, at: str) -> str:
        """Of a number of the transform in memory."""
        if not self._inner:
            return at
        row = self._f.let(f"udiv i64 {at}, {self._f.lanes}")
        return self._f.let(f"mul i64 {row}, {self._inner}")

    def take(self, at: str) -> Pair:
        a, b = self._f.take_pairs(self._base, self.index(at))
        return (b, a) if self._swapped else (a, b)

    def put(self, x: Pair, at: str) -> None:
        a, b = x
        self._f.put_pairs((b, a) if self._swapped else x, self._base, self.index(at))

    def first(self) -> Pair:
        """The parts of the first number."""
        f = self._f
        a, b = (f.load(f.t.text, f.at(self._base, at)) for at in (0, 1))
        return a, b

    def set_first(self, x: Pair) -> None:
        for value, at in zip(x, (0, 1), strict=True):
            self._f.store(self._f.t.text, value, self._f.at(self._base, at))


class Buffer:
    """Numbers on the stack, the parts apart."""

    def __init__(self, f: Waves) -> None:
        self._f = f
        self.base = f.place(f.t.text, 2 * f.plane)

    def take(self, at: str) -> Pair:
        f = self._f
        behind = f.let(f"add i64 {at}, {f.plane}")
        return f.take(self.base, at, f.lanes), f.take(self.base, behind, f.lanes)

    def put(self, x: Pair, at: str) -> None:
        f = self._f
        f.put(x[0], self.base, at, f.lanes)
        f.put(x[1], self.base, f.let(f"add i64 {at}, {f.plane}"), f.lanes)

    def first(self) -> Pair:
        """The parts of the first number."""
        f = self._f
        a, b = (f.load(f.t.text, f.at(self.base, at)) for at in (0, f.plane))
        return a, b

    def set_first(self, x: Pair) -> None:
        f = self._f
        for value, at in zip(x, (0, f.plane), strict=True):
            f.store(f.t.text, value, f.at(self.base, at))


class Swapped(Buffer):
    """A buffer that takes the parts of numbers exchanged."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer

    def put(self, x: Pair, at: str) -> None:
        self._buffer.put((x[1], x[0]), at)

    def set_first(self, x: Pair) -> None:
        self._buffer.set_first((x[1], x[0]))


Side = Place | Buffer


def _step(
    f: Waves, stage: int, source: Side, target: Side, roots: str, twist: str
) -> None:
    """One step of all numbers."""
    radix, done = stages_of(f.kernel.size)[stage]
    apart = done * (f.total // f.kernel.size)  # s
    m = f.kernel.size // done // radix
    quarter, lanes = f.total // radix, f.lanes
    with f.repeat(quarter // lanes) as i:
        j = f.let(f"mul i64 {i}, {lanes}")
        x = [
            source.take(j if not k else f.let(f"add i64 {j}, {k * quarter}"))
            for k in range(radix)
        ]
        y = _butterfly(f, x)
        p = f.let(f"udiv i64 {j}, {apart}")
        if m > 1:
            offset = stage_offsets(f.kernel.size)[stage]
            y[1:] = [
                f.times(v, _roots_at(f, roots, offset + 2 * k * m, m, p, apart))
                for k, v in enumerate(y[1:])
            ]
        if apart < lanes:
            _exchange(f, y, target, j, apart)
            return
        turns = f.let(f"mul i64 {p}, {(radix - 1) * apart}")
        first = f.let(f"add i64 {j}, {turns}")
        for k, v in enumerate(y):
            at = f.let(f"add i64 {first}, {k * apart}")
            if isinstance(target, Place):
                v = f.scaled(_twisted(f, v, twist, target, at), f.kernel.scale)
            target.put(v, at)


def _butterfly(f: Waves, x: list[Pair]) -> list[Pair]:
    """The transform of a few numbers."""
    if len(x) == 2:
        return [f.add(x[0], x[1]), f.sub(x[0], x[1])]
    if len(x) % 2:
        return _odd_butterfly(f, x)
    a, b, c, d = x
    even, odd = f.add(a, c), f.sub(a, c)
    sum_, (re, im) = f.add(b, d), f.sub(b, d)
    plus = f.arithmetic("fsub", odd[0], im), f.arithmetic("fadd", odd[1], re)
    minus = f.arithmetic("fadd", odd[0], im), f.arithmetic("fsub", odd[1], re)
    return [f.add(even, sum_), minus, f.sub(even, sum_), plus]


def _odd_butterfly(f: Waves, x: list[Pair]) -> list[Pair]:
    """The transform of an odd number of numbers: by pairs of what is mirrored."""
    radix = len(x)
    pairs = range(1, radix // 2 + 1)
    sums = [f.add(x[j], x[radix - j]) for j in pairs]
    differences = [f.sub(x[j], x[radix - j]) for j in pairs]
    first = x[0]
    for pair in sums:
        first = f.add(first, pair)
    y = [first] * radix
    for k in pairs:
        angles = [2 * pi * (j * k % radix) / radix for j in pairs]
        even, odd = x[0], None
        for s, d, angle in zip(sums, differences, angles, strict=True):
            even = f.add(even, f.scaled(s, cos(angle)))
            part = f.scaled(d, sin(angle))
            odd = part if odd is None else f.add(odd, part)
        assert odd is not None
        (a, b), (c, d) = even, odd
        y[k] = f.arithmetic("fadd", a, d), f.arithmetic("fsub", b, c)
        y[radix - k] = f.arithmetic("fsub", a, d), f.arithmetic("fadd", b, c)
    return y


def _roots_at(f: Waves, roots: str, offset: int, m: int, p: str, apart: int) -> Pair:
    """The roots for the numbers of a vector, of which `apart` have one each."""
    found: list[str] = []
    for part in (0, 1):
        index = f.let(f"add i64 {p}, {offset + part * m}")
        if apart >= f.lanes:
            found.append(f.splat(f.load(f.t.text, f.at(roots, index))))
            continue
        count = f.lanes // apart
        some = f.take(roots, index, count)
        each = [i // apart for i in range(f.lanes)]
        found.append(f.shuffle(some, "poison", count, each))
    return found[0], found[1]


def _exchange(f: Waves, y: list[Pair], target: Side, j: str, apart: int) -> None:
    """Stores four vectors whose numbers stand between one another."""
    assert isinstance(target, Buffer)
    lanes = f.lanes
    places = [0] * (4 * lanes)
    for k in range(4):
        for i in range(lanes):
            places[i % apart + apart * (4 * (i // apart) + k)] = k * lanes + i
    to = f.let(f"shl i64 {j}, 2")
    for quarter in range(4):
        wanted = places[quarter * lanes : (quarter + 1) * lanes]
        parts: list[str] = []
        for part in (0, 1):
            halves = [
                f.shuffle(y[k][part], y[k + 1][part], lanes, list(range(2 * lanes)))
                for k in (0, 2)
            ]
            parts.append(f.shuffle(halves[0], halves[1], 2 * lanes, wanted))
        at = f.let(f"add i64 {to}, {quarter * lanes}")
        target.put((parts[0], parts[1]), at)


def _twisted(f: Waves, x: Pair, twist: str, target: Place, at: str) -> Pair:
    """Multiplied by the roots of its places in the matrix."""
    if not twist:
        return x
    size = f.kernel.size * f.kernel.inner
    index = target.index(at)
    re = f.take(twist, index, f.lanes)
    im = f.take(twist, f.let(f"add i64 {index}, {size}"), f.lanes)
    return f.times(x, (re, im))


def transform(
    f: Waves, source: Side, target: Side, buffers: list[Buffer], roots: str, twist: str
) -> None:
    count = len(stages_of(f.kernel.size))
    for stage in range(count):
        to = target if stage == count - 1 else buffers[stage % 2]
        _step(f, stage, source, to, roots, twist)
        source = to

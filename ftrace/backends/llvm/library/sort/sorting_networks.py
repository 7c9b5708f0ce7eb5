"""Short rows sorted side by side: a row in each lane of a vector, in LLVM IR.

As many rows as a vector has lanes are loaded and transposed, so that vector `i` holds
their elements `i`. A network of comparisons that is the same for all rows brings these
in order, by the lesser and the greater of two vectors; nothing branches. Then they are
transposed back.

Source of the network: K. E. Batcher, "Sorting networks and their applications" (1968);
as D. Knuth, "The Art of Computer Programming" 3, 5.2.2, algorithm M.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ftrace.backends.llvm.ir.function_builder import Function
from ftrace.backends.llvm.library.sort.keys import Code, Keys

#: The least lanes of a vector, and the most.
_FEWEST, _MOST = 4, 16


def lanes_of(vector_bytes: int, itemsize: int) -> int:
    """How many rows are sorted side by side."""
    return max(_FEWEST, min(_MOST, vector_bytes // itemsize))


def comparisons(n: int) -> Iterator[tuple[int, int]]:
    """The places, of n elements, that are brought in order one after the other."""
    first = p = 1 << max((n - 1).bit_length() - 1, 0)
    while p and n > 1:
        q, rest, distance = first, 0, p
        while True:
            for i in range(n - distance):
                if i & p == rest:
                    yield i, i + distance
            if q == p:
                break
            distance, q, rest = q - p, q >> 1, p
        p >>= 1


class _Network:
    """Writes `@network(to, of, rows)`; see `sorted_rows` and `sorted_positions`.

    The vectors stand on the stack. What is done to each of them is a loop, and both
    ways are transposed by one function: only the network itself is unrolled, for the
    time it takes to compile is that of its instructions.
    """

    def __init__(self, keys: Keys, size: int, lanes: int) -> None:
        self.f = Function("network", "i1", "ptr %to", "ptr %of", "i64 %rows")
        self.code = Code(self.f, lanes)
        self.keys, self.size, self.lanes = keys, size, lanes
        self.parts = -(-size // lanes)
        self.declared: dict[str, None] = {}
        self.turns: dict[int, str] = {}  # by the bits of an element

    def room(self, bits: int) -> str:
        """Memory for vectors of all columns, whole squares of them."""
        return self.f.place(self.code.type(bits), self.parts * self.lanes)

    def at(self, base: str, index: str | int, bits: int) -> str:
        """Where a vector lies."""
        return self.f.let(
            f"getelementptr {self.code.type(bits)}, ptr {base}, i64 {index}"
        )

    def get(self, base: str, index: str | int, bits: int) -> str:
        return self.f.load(self.code.type(bits), self.at(base, index, bits))

    def put(self, x: str, base: str, index: str | int, bits: int) -> None:
        self.f.store(self.code.type(bits), x, self.at(base, index, bits))

    def call(self, name: str, bits: int, *operands: str) -> str:
        """An intrinsic function of vectors of one type."""
        t = self.code.type(bits)
        symbol = f"{t} @llvm.{name}.v{self.lanes}i{bits}"
        self.declared[f"declare {symbol}({', '.join([t] * len(operands))})"] = None
        return self.f.let(f"call {symbol}({', '.join(f'{t} {x}' for x in operands)})")

    def transpose(self, base: str, bits: int) -> None:
        """The columns for the rows, or the rows for the columns."""
        self.turns.setdefault(bits, _transposer(self.lanes, bits))
        for part in range(self.parts):
            square = self.at(base, part * self.lanes, bits)
            self.f.do(f"call void @transpose{bits}(ptr {square})")

    def _flags(self, part: int) -> str:
        """Which elements of the part of a row there are; "" if all."""
        used = min(self.lanes, self.size - part * self.lanes)
        flags = ", ".join(f"i1 {int(k < used)}" for k in range(self.lanes))
        return "" if used == self.lanes else f"<{self.lanes} x i1> <{flags}>"

    def load(self, base: str, bits: int) -> None:
        """All rows; the last one stands for those that there are not."""
        f, t, align = self.f, self.code.type(bits), bits // 8
        last = f.let("sub i64 %rows, 1")
        masked = f"{t} @llvm.masked.load.v{self.lanes}i{bits}.p0"
        with f.repeat(self.lanes) as row:
            there = f.let(f"icmp ult i64 {row}, {last}")
            place = f.let(f"select i1 {there}, i64 {row}, i64 {last}")
            first = f.let(f"mul i64 {place}, {self.size}")
            for part in range(self.parts):
                at = f.let(f"add i64 {first}, {part * self.lanes}")
                at, flags = self.code.at("%of", at, bits), self._flags(part)
                if flags:
                    line = f"declare {masked}(ptr, i32, <{self.lanes} x i1>, {t})"
                    self.declared[line] = None
                    operands = f"ptr {at}, i32 {align}, {flags}, {t} zeroinitializer"
                    x = f.let(f"call {masked}({operands})")
                else:
                    x = f.let(f"load {t}, ptr {at}, align {align}")
                place = f.let(f"add i64 {row}, {part * self.lanes}")
                self.put(x, base, place, bits)
        self.transpose(base, bits)

    def store(self, base: str, bits: int) -> None:
        """The rows that there are."""
        f, t, align = self.f, self.code.type(bits), bits // 8
        self.transpose(base, bits)
        masked = f"void @llvm.masked.store.v{self.lanes}i{bits}.p0"
        with f.repeat("%rows") as row:
            first = f.let(f"mul i64 {row}, {self.size}")
            for part in range(self.parts):
                place = f.let(f"add i64 {row}, {part * self.lanes}")
                x = self.get(base, place, bits)
                at = f.let(f"add i64 {first}, {part * self.lanes}")
                at, flags = self.code.at("%to", at, bits), self._flags(part)
                if flags:
                    line = f"declare {masked}({t}, ptr, i32, <{self.lanes} x i1>)"
                    self.declared[line] = None
                    f.do(f"call {masked}({t} {x}, ptr {at}, i32 {align}, {flags})")
                else:
                    f.do(f"store {t} {x}, ptr {at}, align {align}")

    def columns(self, base: str, bits: int) -> list[str]:
        return [self.get(base, i, bits) for i in range(self.size)]

    def extreme(self, name: str, columns: list[str], bits: int) -> str:
        """The least or the greatest of each lane."""
        found = columns[0]
        for x in columns[1:]:
            found = self.call(name, bits, found, x)
        return found

    def sort(self, columns: list[str], base: str, bits: int, signed: bool) -> None:
        """To memory."""
        sign = "s" if signed else "u"
        for i, j in comparisons(self.size):
            pair = columns[i], columns[j]
            columns[i], columns[j] = (
                self.call(sign + name, bits, *pair) for name in ("min", "max")
            )
        for i, x in enumerate(columns):
            self.put(x, base, i, bits)

    def text(self, result: str) -> str:
        self.f.give(result)
        return "\n".join([*self.declared, *self.turns.values(), self.f.text])


def _transposer(lanes: int, bits: int) -> str:
    """`@transpose(square)`: of as many vectors as each has lanes."""
    f = Function(f"transpose{bits}", "void", "ptr %square")
    t = f"<{lanes} x i{bits}>"
    places = [f.let(f"getelementptr {t}, ptr %square, i64 {i}") for i in range(lanes)]
    found, distance = [f.load(t, place) for place in places], lanes // 2
    while distance:
        for i in range(lanes):
            if i & distance:
                continue
            pair = f"{t} {found[i]}, {t} {found[i | distance]}"
            for place, side in ((i, 0), (i | distance, distance)):
                order = (
                    (p & ~distance | side) + (lanes if p & distance else 0)
                    for p in range(lanes)
                )
                mask = ", ".join(f"i32 {p}" for p in order)
                found[place] = f.let(f"shufflevector {pair}, <{lanes} x i32> <{mask}>")
        distance //= 2
    for x, place in zip(found, places, strict=True):
        f.store(t, x, place)
    f.give()
    return f.text


def sorted_rows(keys: Keys, size: int, lanes: int) -> str:
    """`@network(to, of, rows)`: as many rows sorted as a vector has lanes, or fewer.

    It tells whether a row has zeros of both signs: then their order is not that of
    the row, and nothing is written.
    """
    n, bits = _Network(keys, size, lanes), keys.bits
    f, code = n.f, n.code
    base = n.room(bits)
    n.load(base, bits)
    if not keys.is_float:
        n.sort(n.columns(base, bits), base, bits, keys.is_signed)
        n.store(base, bits)
        return n.text("false")
    # The keys of the zeros are -1 and 0, the greatest and the least without a sign.
    t, mask = code.type(bits), code.type(1)
    with f.repeat(size) as i:
        n.put(keys.of(code, n.get(base, i, bits)), base, i, bits)
    columns = n.columns(base, bits)
    plus, minus = (
        f.let(f"icmp eq {t} {n.extreme(name, columns, bits)}, {code.number(bits, key)}")
        for name, key in (("umin", 0), ("umax", -1))
    )
    both = f.let(f"and {mask} {plus}, {minus}")
    found = f.let(f"bitcast {mask} {both} to i{lanes}")
    with f.when(f.let(f"icmp ne i{lanes} {found}, 0")):
        f.give("true")
    n.sort(columns, base, bits, signed=True)
    with f.repeat(size) as i:
        n.put(keys.back(code, n.get(base, i, bits)), base, i, bits)
    n.store(base, bits)
    return n.text("false")


def sorted_positions(keys: Keys, size: int, lanes: int) -> str:
    """`@network(to, of, rows)`: the positions of the elements in their order."""
    n, bits = _Network(keys, size, lanes), keys.bits
    f, code = n.f, n.code
    values, packed, places = n.room(bits), n.room(64), n.room(32)
    long, narrow = code.type(64), code.type(32)
    n.load(values, bits)
    with f.repeat(size) as i:
        key = keys.wide(code, n.get(values, i, bits))
        n.put(f.let(f"or {long} {key}, {code.splat(i, 64)}"), packed, i, 64)
    n.sort(n.columns(packed, 64), packed, 64, signed=True)
    with f.repeat(size) as i:
        x = n.get(packed, i, 64)
        n.put(f.let(f"trunc {long} {x} to {narrow}"), places, i, 32)
    n.store(places, 32)
    return n.text("false")


NETWORKS: dict[str, Callable[[Keys, int, int], str]] = {
    "short": sorted_rows,
    "short_positions": sorted_positions,
}

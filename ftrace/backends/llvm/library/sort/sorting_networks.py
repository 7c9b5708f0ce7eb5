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
from ftrace.backends.llvm.ir.writer import first_lanes
from ftrace.backends.llvm.library.sort.keys import Keys
from ftrace.backends.llvm.scalar.instructions import Vectors

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
        self.v = Vectors(self.f, lanes)
        self.keys, self.size, self.lanes = keys, size, lanes
        self.parts = -(-size // lanes)
        self.turns: dict[int, str] = {}  # by the bits of an element

    def room(self, bits: int) -> str:
        """Memory for vectors of all columns, whole squares of them."""
        return self.f.place(self.v.type(bits).text, self.parts * self.lanes)

    def at(self, base: str, index: str | int, bits: int) -> str:
        """Where a vector lies."""
        return self.f.item(self.v.type(bits).text, base, index)

    def get(self, base: str, index: str | int, bits: int) -> str:
        return self.f.load(self.v.type(bits).text, self.at(base, index, bits))

    def put(self, x: str, base: str, index: str | int, bits: int) -> None:
        self.f.store(self.v.type(bits).text, x, self.at(base, index, bits))

    def transpose(self, base: str, bits: int) -> None:
        """The columns for the rows, or the rows for the columns."""
        self.turns.setdefault(bits, _transposer(self.lanes, bits))
        for part in range(self.parts):
            square = self.at(base, part * self.lanes, bits)
            self.f.do(f"call void @transpose{bits}(ptr {square})")

    def _flags(self, part: int) -> str:
        """Which elements of the part of a row there are; "" if all."""
        used = min(self.lanes, self.size - part * self.lanes)
        return "" if used == self.lanes else first_lanes(self.lanes, used)

    def load(self, base: str, bits: int) -> None:
        """All rows; the last one stands for those that there are not."""
        f = self.f
        last = f.let("sub i64 %rows, 1")
        with f.repeat(self.lanes) as row:
            first = f.let(f"mul i64 {f.least(row, last)}, {self.size}")
            for part in range(self.parts):
                at, flags = f.sum(first, part * self.lanes), self._flags(part)
                x = self.v.take(self.v.type(bits), "%of", at, flags)
                self.put(x, base, f.sum(row, part * self.lanes), bits)
        self.transpose(base, bits)

    def store(self, base: str, bits: int) -> None:
        """The rows that there are."""
        f = self.f
        self.transpose(base, bits)
        with f.repeat("%rows") as row:
            first = f.let(f"mul i64 {row}, {self.size}")
            for part in range(self.parts):
                x = self.get(base, f.sum(row, part * self.lanes), bits)
                at, flags = f.sum(first, part * self.lanes), self._flags(part)
                self.v.put(self.v.type(bits), x, "%to", at, flags)

    def columns(self, base: str, bits: int) -> list[str]:
        return [self.get(base, i, bits) for i in range(self.size)]

    def extreme(self, name: str, columns: list[str], bits: int) -> str:
        """The least or the greatest of each lane."""
        found = columns[0]
        for x in columns[1:]:
            found = self.v.call(name, self.v.type(bits), found, x)
        return found

    def sort(self, columns: list[str], base: str, bits: int, signed: bool) -> None:
        """To memory."""
        sign, t = "s" if signed else "u", self.v.type(bits)
        for i, j in comparisons(self.size):
            pair = columns[i], columns[j]
            columns[i], columns[j] = (
                self.v.call(sign + name, t, *pair) for name in ("min", "max")
            )
        for i, x in enumerate(columns):
            self.put(x, base, i, bits)

    def text(self, result: str) -> str:
        self.f.give(result)
        return "\n".join([*self.f.declared, *self.turns.values(), self.f.text])


def _transposer(lanes: int, bits: int) -> str:
    """`@transpose(square)`: of as many vectors as each has lanes."""
    f = Function(f"transpose{bits}", "void", "ptr %square")
    v = Vectors(f, lanes)
    t = v.type(bits)
    places = [f.item(t.text, "%square", i) for i in range(lanes)]
    columns = v.transpose(t, [f.load(t.text, place) for place in places])
    for x, place in zip(columns, places, strict=True):
        f.store(t.text, x, place)
    f.give()
    return f.text


def sorted_rows(keys: Keys, size: int, lanes: int) -> str:
    """`@network(to, of, rows)`: as many rows sorted as a vector has lanes, or fewer.

    It tells whether a row has zeros of both signs: then their order is not that of
    the row, and nothing is written.
    """
    n, bits = _Network(keys, size, lanes), keys.bits
    f, v = n.f, n.v
    base = n.room(bits)
    n.load(base, bits)
    if not keys.is_float:
        n.sort(n.columns(base, bits), base, bits, keys.is_signed)
        n.store(base, bits)
        return n.text("false")
    # The keys of the zeros are -1 and 0, the greatest and the least without a sign.
    t = v.type(bits)
    with f.repeat(size) as i:
        n.put(keys.of(v, n.get(base, i, bits)), base, i, bits)
    columns = n.columns(base, bits)
    plus, minus = (
        v.binary("icmp eq", t, n.extreme(name, columns, bits), key)
        for name, key in (("umin", 0), ("umax", -1))
    )
    both = v.binary("and", t.mask(), plus, minus)
    with f.when(v.any_lane(both, lanes)):
        f.give("true")
    n.sort(columns, base, bits, signed=True)
    with f.repeat(size) as i:
        n.put(keys.back(v, n.get(base, i, bits)), base, i, bits)
    n.store(base, bits)
    return n.text("false")


def sorted_positions(keys: Keys, size: int, lanes: int) -> str:
    """`@network(to, of, rows)`: the positions of the elements in their order."""
    n, bits = _Network(keys, size, lanes), keys.bits
    f, v = n.f, n.v
    values, packed, places = n.room(bits), n.room(64), n.room(32)
    long, narrow = v.type(64), v.type(32)
    n.load(values, bits)
    with f.repeat(size) as i:
        key = keys.wide(v, n.get(values, i, bits))
        n.put(v.binary("or", long, key, v.splat(i, long)), packed, i, 64)
    n.sort(n.columns(packed, 64), packed, 64, signed=True)
    with f.repeat(size) as i:
        n.put(v.convert("trunc", long, narrow, n.get(packed, i, 64)), places, i, 32)
    n.store(places, 32)
    return n.text("false")


NETWORKS: dict[str, Callable[[Keys, int, int], str]] = {
    "short": sorted_rows,
    "short_positions": sorted_positions,
}

"""Sorting as LLVM IR: the kernels of `lower/library/sort_kernels.py`.

Each unit is a row, a run of one, or a piece of what two runs are merged to. What they
call is in `keys.py`; the sorts of plain integers are NumPy's.

Short rows are sorted side by side, a row in each lane of a vector: as many rows as a
vector has lanes are loaded and transposed, so that vector `i` holds their elements `i`.
A network of comparisons that is the same for all rows brings these in order, by the
lesser and the greater of two vectors; nothing branches. Then they are transposed back.

Of the positions of what is true, the true elements of each run of a mask are counted.
Then each run knows where its positions begin in the result, and writes them; the runs
share what is left to fill.

Source of the network: K. E. Batcher, "Sorting networks and their applications" (1968);
as D. Knuth, "The Art of Computer Programming" 3, 5.2.2, algorithm M.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager

from ftrace import dtypes
from ftrace.backends.llvm.emit.module import LibraryFunction, Rendered
from ftrace.backends.llvm.ir.function_builder import Function
from ftrace.backends.llvm.ir.symbols import GIVE, STOP, TAKE
from ftrace.backends.llvm.ir.writer import first_lanes
from ftrace.backends.llvm.library.sort import keys
from ftrace.backends.llvm.library.sort.keys import Keys
from ftrace.backends.llvm.scalar.instructions import Vectors
from ftrace.backends.llvm.target import Target
from ftrace.lower.library.sort_kernels import Ordering, key_dtype

# Short rows side by side.

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
    """Writes `@network(to, of, rows)`; see `sort_rows` and `sort_positions`.

    The vectors stand on the stack. What is done to each of them is a loop, and both
    ways are transposed by one function: only the network itself is unrolled, for the
    time it takes to compile is that of its instructions.
    """

    def __init__(self, keys: Keys, size: int, lanes: int) -> None:
        self.f = Function("network", "i1", "ptr %to", "ptr %of", "i64 %rows")
        self.v = Vectors(self.f, lanes)
        self.keys, self.size, self.lanes = keys, size, lanes
        self.parts = -(-size // lanes)
        self.turns: dict[int, Function] = {}  # by the bits of an element

    def allocate(self, bits: int) -> str:
        """Memory for vectors of all columns, whole squares of them."""
        return self.f.allocate(self.v.type(bits).text, self.parts * self.lanes)

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

    def functions(self, result: str) -> list[Function]:
        self.f.ret(result)
        return [*self.turns.values(), self.f]


def _transposer(lanes: int, bits: int) -> Function:
    """`@transpose(square)`: of as many vectors as each has lanes."""
    f = Function(f"transpose{bits}", "void", "ptr %square")
    v = Vectors(f, lanes)
    t = v.type(bits)
    places = [f.item(t.text, "%square", i) for i in range(lanes)]
    columns = v.transpose(t, [f.load(t.text, place) for place in places])
    for x, place in zip(columns, places, strict=True):
        f.store(t.text, x, place)
    f.ret()
    return f


def sort_rows(keys: Keys, size: int, lanes: int) -> list[Function]:
    """`@network(to, of, rows)`: as many rows sorted as a vector has lanes, or fewer.

    It tells whether a row has zeros of both signs: then their order is not that of
    the row, and nothing is written.
    """
    n, bits = _Network(keys, size, lanes), keys.bits
    f, v = n.f, n.v
    base = n.allocate(bits)
    n.load(base, bits)
    if not keys.is_float:
        n.sort(n.columns(base, bits), base, bits, keys.is_signed)
        n.store(base, bits)
        return n.functions("false")
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
        f.ret("true")
    n.sort(columns, base, bits, signed=True)
    with f.repeat(size) as i:
        n.put(keys.back(v, n.get(base, i, bits)), base, i, bits)
    n.store(base, bits)
    return n.functions("false")


def sort_positions(keys: Keys, size: int, lanes: int) -> list[Function]:
    """`@network(to, of, rows)`: the positions of the elements in their order."""
    n, bits = _Network(keys, size, lanes), keys.bits
    f, v = n.f, n.v
    values, packed, places = n.allocate(bits), n.allocate(64), n.allocate(32)
    long, narrow = v.type(64), v.type(32)
    n.load(values, bits)
    with f.repeat(size) as i:
        key = keys.wide(v, n.get(values, i, bits))
        n.put(v.binary("or", long, key, v.splat(i, long)), packed, i, 64)
    n.sort(n.columns(packed, 64), packed, 64, signed=True)
    with f.repeat(size) as i:
        n.put(v.convert("trunc", long, narrow, n.get(packed, i, 64)), places, i, 32)
    n.store(places, 32)
    return n.functions("false")


NETWORKS: dict[str, Callable[[Keys, int, int], list[Function]]] = {
    "short": sort_rows,
    "short_positions": sort_positions,
}


# Rows, runs and merges.

#: Elements of the result of a merge that a unit writes. With 2¹⁷ that of 1M is 8 units,
#: not 32; with 2¹³ 128, of which three are worth a thread's while.
PIECE = 1 << 15
#: Positions and keys of rows up to this length stand on the stack: 64 KB of the 8 MB of
#: `runtime/thread_pool.py`. With a quarter or 4 times as many no row differs.
ON_STACK = 1 << 13
#: What `top` collects beyond three times the wanted elements before it drops some: for
#: few wanted ones. It changes nothing but a bound in the code.
_SCRATCH = 128


class Sorting(LibraryFunction):
    """Writes the function of a kernel that sorts.

    Attributes:
      kernel: what it does.
      keys: of its numbers.
    """

    def __init__(self, kernel: Ordering, target: Target) -> None:
        super().__init__(target)
        self.kernel = kernel
        written = sum(spec.written for spec in kernel.buffers)
        self.operand = kernel.buffers[written]  # the first one
        self.first_operand = written
        self.keys = keys.Keys(
            self.operand.dtype, kernel.merge_zeros, kernel.descending, kernel.half
        )

    @property
    def through(self) -> bool:
        """Is there an operand that tells the positions so far?"""
        return len(self.kernel.buffers) > self.first_operand + 1

    def base(self, number: int, offset: str) -> str:
        """The address of an element of a buffer."""
        size = self.kernel.buffers[number].dtype.itemsize
        nbytes = self.let(f"mul i64 {offset}, {size}")
        return self.beyond(self.slot("%buffers", number), nbytes)

    def row(self, number: int, row: str, length: int | None = None) -> str:
        """Where a row of a buffer begins."""
        size = self.kernel.size if length is None else length
        return self.base(number, self.let(f"mul i64 {row}, {size}"))


def _enter(f: Sorting, to: str, of: str, count: str | int) -> None:
    """Sorted keys of numbers."""
    integer = key_dtype(f.operand.dtype)
    if f.keys.is_float:
        f.use(keys.enter(f.keys))
        f.do(f"call void @enter(ptr {to}, ptr {of}, i64 {count})")
    else:
        size = integer.itemsize
        nbytes = count * size if isinstance(count, int) else None
        f.copy(to, of, f.let(f"mul i64 {count}, {size}") if nbytes is None else nbytes)
    keys.sort(f, integer, to, count)


def _sort(f: Sorting) -> int:
    with f.repeat("%end", "%begin") as row:
        _sort_row(f, f.row(0, row), f.row(1, row))
    return f.kernel.rows


def _sort_row(f: Sorting, to: str, of: str) -> None:
    n = f.kernel.size
    _enter(f, to, of, n)
    if not f.keys.is_float:
        return
    first, last, needed = _find_zeros(f, [(to, str(n))])
    f.use(keys.leave(f.keys))
    f.do(f"call void @leave(ptr {to}, i64 {n})")
    with f.when(needed):
        f.do(f"call void @zeros(ptr {of}, ptr {to}, i64 {first}, i64 0, i64 {last})")


def _short(f: Sorting) -> int:
    """Units are as many rows as a vector has lanes."""
    kernel, values = f.kernel, f.kernel.routine == "short"
    itemsize = f.operand.dtype.itemsize if values else 8
    lanes = lanes_of(f.target.vector_bytes, itemsize)
    again = values and f.keys.is_float  # rows with zeros of both signs
    f.use(*NETWORKS[kernel.routine](f.keys, kernel.size, lanes))
    with f.repeat("%end", "%begin") as unit:
        first = f.let(f"mul i64 {unit}, {lanes}")
        count = f.least(f.let(f"sub i64 {kernel.rows}, {first}"), str(lanes))
        to, of = f.row(0, first), f.row(1, first)
        call = f"call i1 @network(ptr {to}, ptr {of}, i64 {count})"
        mixed = f.let(call)
        if again:
            with f.when(mixed), f.repeat(count) as row:
                number = f.sum(first, row)
                _sort_row(f, f.row(0, number), f.row(1, number))
    return -(-kernel.rows // lanes)


def _find_zeros(f: Sorting, runs: Sequence[tuple[str, str]]) -> tuple[str, str, str]:
    """Of sorted keys of a row: where its zeros begin and end, and if both signs occur.

    Their keys are -1 and 0.
    """
    bits = 8 * f.operand.dtype.itemsize
    f.use(*keys.zeros(bits))
    t = f"i{bits}"
    places: list[str] = []
    for key in (-1, 0, 1):
        found = [
            f.let(f"call i64 @below(ptr {at}, i64 {count}, {t} {key})")
            for at, count in runs
        ]
        places.append(found[0] if len(found) == 1 else f.sum(*found))
    first, plus, last = places
    minus = f.let(f"icmp ult i64 {first}, {plus}")
    return (
        first,
        last,
        f.let(f"and i1 {minus}, {f.let(f'icmp ult i64 {plus}, {last}')}"),
    )


def _run(f: Sorting, unit: str) -> tuple[str, str, str, str]:
    """Row, position and length of a run, and where it lies among the padded runs."""
    kernel = f.kernel
    row, number = f.divide(unit, kernel.runs)
    begin = f.let(f"mul i64 {number}, {kernel.run}")
    left = f.let(f"sub i64 {kernel.size}, {begin}")
    to = f.base(0, f.let(f"mul i64 {unit}, {kernel.run + 1}"))
    return row, begin, f.least(left, str(kernel.run)), to


def _pad(f: Sorting, to: str, count: str) -> None:
    """The greatest key after a run."""
    integer = f.kernel.buffers[0].dtype
    bits = 8 * integer.itemsize
    greatest = (1 << (bits - 1)) - 1 if integer.kind == "i" else -1
    f.store(f"i{bits}", greatest, f.beyond(to, f.let(f"mul i64 {count}, {bits // 8}")))


def _runs(f: Sorting) -> int:
    """Sorted runs of keys, or of positions."""
    packs = f.kernel.routine == "position_runs"
    with f.repeat("%end", "%begin") as unit:
        row, begin, count, to = _run(f, unit)
        if packs:
            _pack(f, to, row, begin, count)
        else:
            offset = f.let(f"mul i64 {row}, {f.kernel.size}")
            of = f.base(f.first_operand, f.let(f"add i64 {offset}, {begin}"))
            _enter(f, to, of, count)
        _pad(f, to, count)
    return f.kernel.rows * f.kernel.runs


def _pack(f: Sorting, to: str, row: str, begin: str, count: str) -> str:
    """Keys and positions of a part of a row, sorted; -> the positions so far."""
    source = f.row(f.first_operand, row)
    places = f.row(f.first_operand + 1, row) if f.through else "null"
    operands = f"ptr {to}, ptr {source}, ptr {places}, i64 {begin}, i64 {count}"
    f.use(keys.pack(f.keys, f.through))
    f.do(f"call void @pack({operands})")
    keys.sort(f, dtypes.int64, to, count)
    return places


def _positions(f: Sorting) -> int:
    n = f.kernel.size
    f.use(keys.unpack(f.through))
    packed = _take_scratch(f, 8 * n)
    with f.repeat("%end", "%begin") as row:
        places = _pack(f, packed, row, "0", str(n))
        to = f.row(0, row)
        f.do(f"call void @unpack(ptr {to}, ptr {packed}, ptr {places}, i64 {n})")
    if n > ON_STACK:
        f.outside(f"void {GIVE}(ptr)", packed)
    return f.kernel.rows


def _take_scratch(f: Sorting, nbytes: int) -> str:
    """Memory for a row of positions and keys; without it the call is stopped."""
    if nbytes <= 8 * ON_STACK:
        return f.allocate("i64", nbytes // 8)
    taken = f.outside(f"ptr {TAKE}(i64)", nbytes)
    with f.when(f.let(f"icmp eq ptr {taken}, null")):
        f.outside(f"void {STOP}(ptr)", "%buffers")
        f.ret()
    return taken


def _merge(f: Sorting) -> int:
    """Pairs of runs as one, or as the row; -> how many pieces there are."""
    kernel, integer = f.kernel, f.operand.dtype
    positions = kernel.routine == "merged_positions"
    numbers = kernel.routine == "merged"
    f.use(*keys.merge(integer, _leaving(f, positions)))
    is_float = numbers and dtypes.kind(kernel.buffers[0].dtype) == "f"
    if is_float:
        f.use(keys.leave(keys.Keys(kernel.buffers[0].dtype)))
    run, pairs = kernel.run, kernel.runs // 2
    pieces = -(-min(2 * run, kernel.size) // PIECE)
    with f.repeat("%end", "%begin") as unit:
        pair, piece = f.divide(unit, pieces)
        row, number = f.divide(pair, pairs)
        base = f.let(f"mul i64 {number}, {2 * run}")
        left = f.let(f"sub i64 {kernel.size}, {base}")
        total = f.least(left, str(2 * run))
        begin = f.let(f"mul i64 {piece}, {PIECE}")
        with f.when(f.let(f"icmp ult i64 {begin}, {total}")):
            end = f.least(f.let(f"add i64 {begin}, {PIECE}"), total)
            n = f.least(total, str(run))
            m = f.let(f"sub i64 {total}, {n}")
            a = f.base(f.first_operand, f.let(f"mul i64 {pair}, {2 * (run + 1)}"))
            b = f.beyond(a, (run + 1) * integer.itemsize)
            if positions or numbers:
                to = f.row(0, row)
            else:
                to = f.base(0, f.let(f"mul i64 {pair}, {2 * run + 1}"))
            places = f.row(f.first_operand + 1, row) if f.through else "null"
            f.do(
                f"call void @merge(ptr {a}, i64 {n}, ptr {b}, i64 {m}, ptr {to}, "
                f"ptr {places}, i64 {begin}, i64 {end})"
            )
            if is_float:
                size = f.let(f"sub i64 {end}, {begin}")
                offset = f.let(f"mul i64 {begin}, {integer.itemsize}")
                f.do(f"call void @leave(ptr {f.beyond(to, offset)}, i64 {size})")
                first, last, needed = _find_zeros(f, [(a, n), (b, m)])
                stop = f.least(last, end)
                here = f.let(f"icmp ult i64 {f.most(first, begin)}, {stop}")
                with f.when(f.let(f"and i1 {needed}, {here}")):
                    f.do(
                        f"call void @zeros(ptr {places}, ptr {to}, i64 {first}, "
                        f"i64 {begin}, i64 {stop})"
                    )
            if not (positions or numbers):
                with f.when(f.let(f"icmp eq i64 {end}, {total}")):
                    _pad(f, to, total)
    return kernel.rows * pairs * pieces


def _leaving(f: Sorting, positions: bool) -> Callable[[Vectors, str, str], None]:
    bits = 8 * f.operand.dtype.itemsize

    def leaves(v: Vectors, key: str, at: str) -> None:
        if positions:
            keys.put_position(v, key, at, f.through)
        else:
            v.put(v.type(bits), key, "%to", at)

    return leaves


def _top(f: Sorting) -> int:
    n, k = f.kernel.size, f.kernel.k
    full = 3 * k + _SCRATCH
    f.use(*keys.top(f.keys), keys.unpack(False))
    buffer = f.allocate("i64", full + 2 * keys.LANES)
    with f.repeat("%end", "%begin") as row:
        of, to = f.row(1, row), f.row(0, row, k)
        f.do(f"call void @top(ptr {of}, ptr {buffer}, i64 {k}, i64 {full}, i64 {n})")
        f.do(f"call void @unpack(ptr {to}, ptr {buffer}, ptr null, i64 {k})")
    return f.kernel.rows


# The positions of what is true.


#: Elements that one number tells of.
WORD = 64


def _word() -> Function:
    """`@word(at, count)`: so many bytes, each 0 or 1, as bits; no more than `WORD`."""
    f = Function("word", "i64", "ptr %at", "i64 %count")
    with f.when(f.let(f"icmp uge i64 %count, {WORD}")):
        bytes_ = f.let(f"load <{WORD} x i8>, ptr %at, align 1")
        flags = f.let(f"icmp ne <{WORD} x i8> {bytes_}, zeroinitializer")
        f.ret(f.let(f"bitcast <{WORD} x i1> {flags} to i{WORD}"))
    with f.fold("%count", [("i64", "0")]) as fold:
        byte = f.load("i8", f.beyond("%at", fold.index))
        bit = f.let(f"shl i64 {f.let(f'zext i8 {byte} to i64')}, {fold.index}")
        fold.following = [f.let(f"or i64 {fold.values[0]}, {bit}")]
    f.ret(fold.values[0])
    return f


def _spread() -> Function:
    """`@spread(to, word, base, count)`: positions of the lowest bits that are set."""
    parameters = "ptr %to", "i64 %word", "i64 %base", "i64 %count"
    f = Function("spread", "void", *parameters)
    with f.fold("%count", [("i64", "%word")]) as fold:
        bits = fold.values[0]
        lowest = f.outside("i64 llvm.cttz.i64(i64, i1)", bits, "true")
        position = f.let(f"trunc i64 {f.sum('%base', lowest)} to i32")
        f.store("i32", position, f.item("i32", "%to", fold.index))
        fold.following = [f.let(f"and i64 {bits}, {f.sum(bits, -1)}")]
    f.ret()
    return f


def _words(f: Sorting, unit: str) -> tuple[str, str, str, str]:
    """The row and the position of a run of a mask, its address, and its length."""
    kernel = f.kernel
    row, number = f.divide(unit, kernel.runs)
    begin = f.let(f"mul i64 {number}, {kernel.run}")
    count = f.least(f.let(f"sub i64 {kernel.size}, {begin}"), str(kernel.run))
    mask = len(kernel.buffers) - 1
    offset = f.let(f"mul i64 {row}, {kernel.size}")
    return row, begin, f.base(mask, f.let(f"add i64 {offset}, {begin}")), count


@contextmanager
def _each_word(f: Sorting, at: str, count: str) -> Generator[tuple[str, str]]:
    """The bits of so many elements of a mask, number by number, and where they are."""
    words = f.let(f"lshr i64 {f.let(f'add i64 {count}, {WORD - 1}')}, 6")
    with f.repeat(words) as i:
        place = f.let(f"mul i64 {i}, {WORD}")
        left = f.let(f"sub i64 {count}, {place}")
        yield f.let(f"call i64 @word(ptr {f.beyond(at, place)}, i64 {left})"), place


def _counts(f: Sorting) -> int:
    """How many elements of each run are true."""
    f.use(_word())
    with f.repeat("%end", "%begin") as unit:
        _, _, at, count = _words(f, unit)
        total = f.variable("i64", 0)
        with _each_word(f, at, count) as (bits, _):
            found = f.outside("i64 llvm.ctpop.i64(i64)", bits)
            f.store("i64", f.sum(f.load("i64", total), found), total)
        narrow = f.let(f"trunc i64 {f.load('i64', total)} to i32")
        f.store("i32", narrow, f.base(0, unit))
    return f.kernel.rows * f.kernel.runs


def _find_positions(f: Sorting) -> int:
    """The positions in a run, after those of the runs before; a part of the rest."""
    kernel, k = f.kernel, f.kernel.k
    f.use(_word(), _spread())
    with f.repeat("%end", "%begin") as unit:
        row, begin, at, count = _words(f, unit)
        to = f.row(0, row, k)
        first, total = f.variable("i64", 0), f.variable("i64", 0)
        own = "0"
        if kernel.runs > 1:
            own = f.let(f"udiv i64 {begin}, {kernel.run}")
            counts = f.row(1, row, kernel.runs)
            with f.repeat(kernel.runs) as i:
                at_count = f.item("i32", counts, i)
                found = f.let(f"zext i32 {f.load('i32', at_count)} to i64")
                before = f.let(f"icmp ult i64 {i}, {own}")
                with f.when(before):
                    f.store("i64", f.sum(f.load("i64", first), found), first)
                f.store("i64", f.sum(f.load("i64", total), found), total)
        with _each_word(f, at, count) as (bits, place):
            done = f.least(f.load("i64", first), str(k))
            found = f.outside("i64 llvm.ctpop.i64(i64)", bits)
            kept = f.least(found, f.let(f"sub i64 {k}, {done}"))
            goal = f.item("i32", to, done)
            base = f.sum(begin, place)
            f.do(f"call void @spread(ptr {goal}, i64 {bits}, i64 {base}, i64 {kept})")
            f.store("i64", f.sum(f.load("i64", first), found), first)
        if kernel.runs == 1:
            _fill(f, to, f.load("i64", first), str(k))
        else:
            share = -(-k // kernel.runs)
            start = f.let(f"mul i64 {own}, {share}")
            stop = f.least(f.sum(start, str(share)), str(k))
            _fill(f, to, f.most(f.load("i64", total), start), stop)
    return kernel.rows * kernel.runs


def _fill(f: Sorting, to: str, start: str, stop: str) -> None:
    """The length of the row for what there is not."""
    with f.repeat(stop, start) as i:
        f.store("i32", f.kernel.size, f.item("i32", to, i))


_ROUTINES: dict[str, Callable[[Sorting], int]] = {
    "counts": _counts,
    "places": _find_positions,
    "sort": _sort,
    "short": _short,
    "short_positions": _short,
    "runs": _runs,
    "merge": _merge,
    "merged": _merge,
    "positions": _positions,
    "position_runs": _runs,
    "merged_positions": _merge,
    "top": _top,
}


def render_ordering(kernel: Ordering, target: Target) -> Rendered:
    """The code of a kernel that sorts."""
    f = Sorting(kernel, target)
    units = _ROUTINES[kernel.routine](f)
    return f.finish(units, kernel.operations // units)

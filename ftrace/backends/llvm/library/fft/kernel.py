"""Fourier transforms as LLVM IR: the kernels of `lower/library/fft_kernels.py`.

A unit is a row, a strip of columns, or as many rows as a vector has lanes: these are
transposed on their way to the stack, and are columns there. Strips, and numbers of a
row, that fill no vector begin earlier, and are computed twice.

The steps are Stockham's, which keep the order. One of radix 4 reads four vectors and
writes four; with s numbers between two of one sub-transform, of which there were n/l so
far,

    x[q + s(p + m k)]  ->  y[q + s(4p + k)]        k = 0 … 3, m = l/4, p < m, q < s

so that reads are contiguous in j = q + s p, and writes where s fills a vector; before
that four vectors are exchanged with one another. Of columns, s begins with the lanes
of a vector. Other factors of the length, of columns, are steps like these: the work of
odd ones, for each number, is as they are, and up to 61 less than by a convolution.
Between the steps real and imaginary parts stand apart, in two buffers on the stack.

An inverse transform is one of numbers whose parts are exchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from math import cos, pi, sin

from ftrace.backends.llvm.emit.module import Rendered
from ftrace.backends.llvm.library.fft import complex_vectors as cv
from ftrace.backends.llvm.library.fft.twiddles import stage_offsets
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.library.fft_kernels import Transform
from ftrace.lower.library.fft_radices import stages_of

# The steps.


#: Longer steps are loops over their results: the code of all takes long to make. With
#: 28 that of 1001 numbers is 2.3 times as long; with 1 that of 8 is a loop, too.
_WRITTEN = 7


def transform(
    f: cv.Waves, source: cv.Side, target: cv.Side, buffers: list[cv.Buffer]
) -> None:
    """All steps: the first writes to the first buffer, if it is not the last."""
    roots = f.roots("stages", f.form.size)
    count = len(stages_of(f.form.size))
    for stage in range(count):
        to = target if stage == count - 1 else buffers[stage % 2]
        _step(f, stage, source, to, roots)
        source = to


def _step(
    f: cv.Waves, stage: int, source: cv.Side, target: cv.Side, roots: str
) -> None:
    """One step of all numbers."""
    radix, done = stages_of(f.form.size)[stage]
    stride = done * (f.total // f.form.size)  # s
    part, lanes = f.total // radix, f.lanes
    with f.repeat(part // lanes) as i:
        j = f.let(f"mul i64 {i}, {lanes}")
        x = [
            source.take(j if not k else f.let(f"add i64 {j}, {k * part}"))
            for k in range(radix)
        ]
        p = f.let(f"udiv i64 {j}, {stride}")
        if stride < lanes:
            y = _butterfly(f, x)
            products = [_twiddle(f, stage, roots, v, k, p) for k, v in enumerate(y)]
            _exchange(f, products, target, j, stride)
            return
        turns = f.let(f"mul i64 {p}, {(radix - 1) * stride}")
        first = f.let(f"add i64 {j}, {turns}")

        def put(v: cv.Pair, k: int | str) -> None:
            v = _twiddle(f, stage, roots, v, k, p)
            behind = f.let(f"mul i64 {k}, {stride}")
            target.put(v, f.let(f"add i64 {first}, {behind}"))

        if radix > _WRITTEN:
            _mirror_sums(f, x, put)
            return
        for k, v in enumerate(_butterfly(f, x)):
            put(v, k)


def _twiddle(
    f: cv.Waves, stage: int, roots: str, x: cv.Pair, k: int | str, p: str
) -> cv.Pair:
    """Result k of a step, multiplied by the power k of its roots: those of place p."""
    radix, done = stages_of(f.form.size)[stage]
    m = f.form.size // done // radix
    if m == 1 or k == 0:
        return x
    offset = stage_offsets(f.form.size)[stage] - 2 * m
    start = f.let(f"add i64 {f.let(f'mul i64 {k}, {2 * m}')}, {offset}")
    re = f.let(f"add i64 {p}, {start}")
    stride = done * (f.total // f.form.size)
    return f.times(x, _roots_at(f, roots, (re, f.let(f"add i64 {re}, {m}")), stride))


def _butterfly(f: cv.Waves, x: list[cv.Pair]) -> list[cv.Pair]:
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


def _mirror(
    f: cv.Waves, x: list[cv.Pair]
) -> tuple[list[cv.Pair], list[cv.Pair], cv.Pair]:
    """Sums and differences of what is mirrored, and the sum of all."""
    pairs = [(x[j], x[-j]) for j in range(1, len(x) // 2 + 1)]
    sums = [f.add(*pair) for pair in pairs]
    whole = x[0]
    for pair in sums:
        whole = f.add(whole, pair)
    return sums, [f.sub(*pair) for pair in pairs], whole


def _odd_butterfly(f: cv.Waves, x: list[cv.Pair]) -> list[cv.Pair]:
    """The transform of an odd number of numbers: by pairs of what is mirrored."""
    radix = len(x)
    sums, differences, whole = _mirror(f, x)
    y = [whole] * radix
    for k in range(1, radix // 2 + 1):
        angles = [2 * pi * (j * k % radix) / radix for j in range(1, radix // 2 + 1)]
        even, odd = x[0], None
        for s, d, angle in zip(sums, differences, angles, strict=True):
            even = f.add(even, f.scale(s, cos(angle)))
            part = f.scale(d, sin(angle))
            odd = part if odd is None else f.add(odd, part)
        assert odd is not None
        y[k], y[radix - k] = _pair_of(f, even, odd)
    return y


def _pair_of(f: cv.Waves, even: cv.Pair, odd: cv.Pair) -> tuple[cv.Pair, cv.Pair]:
    """What is mirrored in the result: even - i·odd and even + i·odd."""
    (a, b), (c, d) = even, odd
    return (
        (f.arithmetic("fadd", a, d), f.arithmetic("fsub", b, c)),
        (f.arithmetic("fsub", a, d), f.arithmetic("fadd", b, c)),
    )


def _mirror_sums(
    f: cv.Waves, x: list[cv.Pair], put: Callable[[cv.Pair, int | str], None]
) -> None:
    """As `_odd_butterfly`, in a loop over the results, whose code is short."""
    half = len(x) // 2
    sums, differences, whole = _mirror(f, x)
    put(whole, 0)
    angles = f.roots("angles", len(x))
    with f.repeat(half + 1, 1) as k:
        row = f.let(f"mul i64 {k}, {2 * half}")
        even, odd = x[0], None
        for j, (s, d) in enumerate(zip(sums, differences, strict=True)):
            c, t = (
                f.splat(angles, f.let(f"add i64 {row}, {2 * (j - half) + part}"))
                for part in (0, 1)
            )
            even = f.add(even, f.each(s, c))
            odd = f.each(d, t) if odd is None else f.add(odd, f.each(d, t))
        assert odd is not None
        first, second = _pair_of(f, even, odd)
        put(first, k)
        put(second, f.let(f"sub i64 {len(x)}, {k}"))


def _roots_at(f: cv.Waves, roots: str, starts: tuple[str, str], stride: int) -> cv.Pair:
    """The roots for the numbers of a vector, of which `stride` have one each."""
    found: list[str] = []
    for start in starts:
        if stride >= f.lanes:
            found.append(f.splat(roots, start))
            continue
        count = f.lanes // stride
        some = f.take(roots, start, count)
        each = [i // stride for i in range(f.lanes)]
        found.append(f.shuffle(some, "poison", count, each))
    return found[0], found[1]


def _exchange(
    f: cv.Waves, y: list[cv.Pair], target: cv.Side, j: str, stride: int
) -> None:
    """Stores four vectors whose numbers stand between one another."""
    assert isinstance(target, cv.Buffer)
    lanes = f.lanes
    places = [0] * (4 * lanes)
    for k in range(4):
        for i in range(lanes):
            places[i % stride + stride * (4 * (i // stride) + k)] = k * lanes + i
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


# The kernels.


def _through(
    f: cv.Waves,
    source: cv.Side,
    target: cv.Side,
    buffers: list[cv.Buffer],
    numbers: cv.Numbers,
) -> None:
    """The transform, or the convolution; `source` may be the second buffer."""
    form = f.form
    if not form.convolved:
        transform(f, source, target, buffers)
        return
    last = (len(stages_of(form.size)) - 1) % 2
    transform(f, source, buffers[last], buffers)
    rows = 1 if form.padded else form.inner
    sizes = form.length, rows, form.size
    back = cv.convolve(buffers[last], sizes, numbers)
    transform(f, back, target, [buffers[1 - last], buffers[last]])


def _ends(
    f: cv.Waves, source: cv.Side, target: cv.Side, numbers: cv.Numbers
) -> tuple[cv.Side, cv.Side]:
    """The sides with what happens to numbers when they are read and written."""
    form = f.form
    if form.swaps[0]:
        source = cv.exchange(source)
    if form.swaps[1]:
        target = cv.exchange(target)
    if form.scale != 1:
        target = cv.scale(f, target, form.scale)
    if form.padded:
        source = cv.chirp(source, numbers)
    if form.cut:
        target = cv.chirp(target, numbers)
    return source, target


# Rows.


def _rows(f: cv.Waves) -> int:
    form = f.form
    buffers = [cv.Buffer(f), cv.Buffer(f)]
    with f.repeat("%end", "%begin") as unit:
        to, of = _row_bases(f, unit)
        row = f.let(f"urem i64 {unit}, {form.inner}")
        start = f.let(f"mul i64 {row}, {0 if form.padded else form.size}")
        numbers = cv.Numbers(f, lambda at: f.let(f"add i64 {at}, {start}"), alike=False)
        source, target = _ends(f, cv.Interleaved(f, of), cv.Interleaved(f, to), numbers)
        if form.twisted:
            sizes = form.inner, form.size
            target = cv.twist(
                f, target, sizes, lambda at: (row, f.let(f"udiv i64 {at}, {f.lanes}"))
            )
        _through(f, source, target, buffers, numbers)
    return form.outer * form.inner


def _row_bases(f: cv.Waves, row: str) -> list[str]:
    """Where a row of the result and of the operand begins."""
    rows = f.form.outer * f.form.inner
    bases: list[str] = []
    for number, nbytes in enumerate(f.nbytes):
        offset = f.let(f"mul i64 {row}, {nbytes // rows}")
        bases.append(f.beyond(f.slot("%buffers", number), offset))
    return bases


def _half_rows(f: cv.Waves) -> int:
    """Rows of the transforms of real rows from those of their pairs, or back."""
    half = f.roots("half", f.form.size)
    with f.repeat("%end", "%begin") as unit:
        to, of = _row_bases(f, unit)
        if f.form.kind == "half":
            real_from(f, cv.Interleaved(f, of), to, half)
        else:
            pairs_from(f, of, cv.Interleaved(f, to), half)
    return f.form.outer


# Columns, and batched rows.


def _strips(f: cv.Waves) -> int:
    """Columns of a matrix, or batched rows."""
    form = f.form
    write = _columns if form.kind == "columns" else _write_batch
    count = -(-form.inner // f.lanes)
    buffers = [cv.Buffer(f), cv.Buffer(f)]
    with f.repeat("%end", "%begin") as unit:
        matrix = f.let(f"udiv i64 {unit}, {count}")
        strip = f.let(f"urem i64 {unit}, {count}")
        first = f.least(f.let(f"mul i64 {strip}, {f.lanes}"), form.inner - f.lanes)
        bases = [
            f.beyond(f.slot("%buffers", number), f.let(f"mul i64 {matrix}, {nbytes}"))
            for number, nbytes in enumerate([n // form.outer for n in f.nbytes])
        ]
        write(f, buffers, bases, Strip(strip, first))
    return form.outer * count


class Strip(NamedTuple):
    """Some columns or rows of a matrix: which strip it is, and where it begins."""

    number: str
    first: str


def _columns(
    f: cv.Waves, buffers: list[cv.Buffer], bases: list[str], strip: Strip
) -> None:
    form = f.form
    starts = [f.at(base, f.let(f"shl i64 {strip.first}, 1")) for base in bases]
    to, of = (cv.Interleaved(f, start, form.inner) for start in starts)

    def row(at: str) -> str:
        return f.let(f"udiv i64 {at}, {f.lanes}")

    def number(at: str) -> str:
        start = f.let(f"mul i64 {row(at)}, {form.inner}")
        return f.let(f"add i64 {start}, {strip.first}")

    # The numbers of a long row are all those of a matrix.
    numbers = cv.Numbers(f, row if form.convolved else number, alike=form.convolved)
    source, target = _ends(f, of, to, numbers)
    if form.twisted:
        sizes = form.size, form.inner
        target = cv.twist(f, target, sizes, lambda at: (row(at), strip.number))
    _through(f, source, target, buffers, numbers)


def _write_batch(
    f: cv.Waves, buffers: list[cv.Buffer], bases: list[str], strip: Strip
) -> None:
    """Rows side by side, in the lanes of vectors."""
    form = f.form
    given = form.length if form.padded else form.size
    wanted = form.length if form.cut else form.size
    to, of = bases
    numbers = cv.Numbers(f, lambda at: f.let(f"udiv i64 {at}, {f.lanes}"), alike=True)
    cv.turn(f, _row_of(f, of, strip, given), buffers[1], given, into=True)
    if form.kind == "transposed":
        start = f.at(to, f.let(f"shl i64 {strip.first}, 1"))
        place = cv.Interleaved(f, start, form.inner)
        _through(f, *_ends(f, buffers[1], place, numbers), buffers, numbers)
        return
    steps = len(stages_of(form.size)) * (1 + form.convolved)
    last = buffers[(steps - 1) % 2]
    _through(f, *_ends(f, buffers[1], last, numbers), buffers, numbers)
    cv.turn(f, _row_of(f, to, strip, wanted), last, wanted, into=False)


def _row_of(f: cv.Waves, base: str, strip: Strip, size: int) -> str:
    """Where the first row of a strip begins."""
    return f.at(base, f.let(f"mul i64 {strip.first}, {2 * size}"))


_WRITERS = {
    "rows": _rows,
    "half": _half_rows,
    "pairs": _half_rows,
}


def render_transform(kernel: Transform, target: Target) -> Rendered:
    """The code of a Fourier transform."""
    f = cv.Waves(kernel, target)
    units = _WRITERS.get(kernel.form.kind, _strips)(f)
    together = f.lanes if kernel.form.kind in cv.ACROSS else 1
    return f.finish(units, kernel.form.work * together // 2)


def _take_reversed(f: cv.Waves, side: cv.Side, k: str) -> cv.Pair:
    """The numbers k, k - 1, … before the end."""
    last = f.let(f"sub i64 {f.form.size - f.lanes + 1}, {k}")
    back = list(range(f.lanes))[::-1]
    a, b = (f.shuffle(v, "poison", f.lanes, back) for v in side.take(last))
    return a, b


def _halves(f: cv.Waves, side: cv.Side, k: str) -> tuple[cv.Pair, cv.Pair]:
    """Halves of the sum and difference of numbers and conjugates of their mirrors."""
    (a, b), (c, d) = side.take(k), _take_reversed(f, side, k)
    even = f.arithmetic("fadd", a, c), f.arithmetic("fsub", b, d)
    odd = f.arithmetic("fsub", a, c), f.arithmetic("fadd", b, d)
    return f.scale(even, 0.5), f.scale(odd, 0.5)


def _half_roots(f: cv.Waves, half: str, k: str) -> cv.Pair:
    behind = f.let(f"add i64 {k}, {f.form.size}")
    return f.take(half, k, f.lanes), f.take(half, behind, f.lanes)


def real_from(f: cv.Waves, side: cv.Interleaved, target: str, half: str) -> None:
    """The transform of a real row from that of its pairs."""
    n, lanes = f.form.size, f.lanes
    place = cv.Interleaved(f, target)
    with f.repeat(-(-(n - 1) // lanes)) as i:
        wanted = f.let(f"add i64 {f.let(f'mul i64 {i}, {lanes}')}, 1")
        k = f.least(wanted, n - lanes)
        even, odd = _halves(f, side, k)
        re, im = f.times(odd, _half_roots(f, half, k))
        x = f.arithmetic("fadd", even[0], im), f.arithmetic("fsub", even[1], re)
        place.put(x, k)
    re, im = side.first()
    for at, verb in ((0, "fadd"), (2 * n, "fsub")):
        f.store(f.t.text, f.let(f"{verb} {f.t} {re}, {im}"), f.at(target, at))
        f.store(f.t.text, f.t.constant(0), f.at(target, at + 1))


def pairs_from(f: cv.Waves, source: str, side: cv.Interleaved, half: str) -> None:
    """What the pairs of a real row are transformed to."""
    n, lanes = f.form.size, f.lanes
    place = cv.Interleaved(f, source)
    with f.repeat(-(-n // lanes)) as i:
        k = f.least(f.let(f"mul i64 {i}, {lanes}"), n - lanes)
        even, odd = _halves(f, place, k)
        re, im = f.times(odd, _half_roots(f, half, k), conjugate=True)
        x = f.arithmetic("fsub", even[0], im), f.arithmetic("fadd", even[1], re)
        side.put(x, k)
    # The imaginary parts of the first and the last number do not count.
    first, last = (f.load(f.t.text, f.at(source, at)) for at in (0, 2 * n))
    parts = [
        f.let(
            f"fmul {f.t} {f.let(f'{verb} {f.t} {first}, {last}')}, {f.t.constant(0.5)}"
        )
        for verb in ("fadd", "fsub")
    ]
    side.set_first((parts[0], parts[1]))

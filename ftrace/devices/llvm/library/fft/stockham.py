"""The steps of a Fourier transform in LLVM IR: Stockham's, which keep the order.

A step of radix 4 reads four vectors and writes four; with s numbers between two of one
sub-transform, of which there were n/l so far,

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

from ftrace.devices.llvm.library.fft.complex_vectors import Pair, Waves
from ftrace.devices.llvm.library.fft.load_store import Buffer, Side
from ftrace.devices.llvm.library.fft.twiddles import stage_offsets
from ftrace.lower.library.fft_radices import stages_of

#: Longer steps are loops over their results: the code of all takes long to make.
_WRITTEN = 7


def transform(f: Waves, source: Side, target: Side, buffers: list[Buffer]) -> None:
    """All steps: the first writes to the first buffer, if it is not the last."""
    roots = f.roots("stages", f.form.size)
    count = len(stages_of(f.form.size))
    for stage in range(count):
        to = target if stage == count - 1 else buffers[stage % 2]
        _step(f, stage, source, to, roots)
        source = to


def _step(f: Waves, stage: int, source: Side, target: Side, roots: str) -> None:
    """One step of all numbers."""
    radix, done = stages_of(f.form.size)[stage]
    apart = done * (f.total // f.form.size)  # s
    part, lanes = f.total // radix, f.lanes
    with f.repeat(part // lanes) as i:
        j = f.let(f"mul i64 {i}, {lanes}")
        x = [
            source.take(j if not k else f.let(f"add i64 {j}, {k * part}"))
            for k in range(radix)
        ]
        p = f.let(f"udiv i64 {j}, {apart}")
        if apart < lanes:
            y = _butterfly(f, x)
            turned = [_turned(f, stage, roots, v, k, p) for k, v in enumerate(y)]
            _exchange(f, turned, target, j, apart)
            return
        turns = f.let(f"mul i64 {p}, {(radix - 1) * apart}")
        first = f.let(f"add i64 {j}, {turns}")

        def put(v: Pair, k: int | str) -> None:
            v = _turned(f, stage, roots, v, k, p)
            behind = f.let(f"mul i64 {k}, {apart}")
            target.put(v, f.let(f"add i64 {first}, {behind}"))

        if radix > _WRITTEN:
            _mirrored_sums(f, x, put)
            return
        for k, v in enumerate(_butterfly(f, x)):
            put(v, k)


def _turned(f: Waves, stage: int, roots: str, x: Pair, k: int | str, p: str) -> Pair:
    """Result k of a step, multiplied by the power k of its roots: those of place p."""
    radix, done = stages_of(f.form.size)[stage]
    m = f.form.size // done // radix
    if m == 1 or k == 0:
        return x
    offset = stage_offsets(f.form.size)[stage] - 2 * m
    start = f.let(f"add i64 {f.let(f'mul i64 {k}, {2 * m}')}, {offset}")
    re = f.let(f"add i64 {p}, {start}")
    apart = done * (f.total // f.form.size)
    return f.times(x, _roots_at(f, roots, (re, f.let(f"add i64 {re}, {m}")), apart))


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


def _mirror(f: Waves, x: list[Pair]) -> tuple[list[Pair], list[Pair], Pair]:
    """Sums and differences of what is mirrored, and the sum of all."""
    pairs = [(x[j], x[-j]) for j in range(1, len(x) // 2 + 1)]
    sums = [f.add(*pair) for pair in pairs]
    whole = x[0]
    for pair in sums:
        whole = f.add(whole, pair)
    return sums, [f.sub(*pair) for pair in pairs], whole


def _odd_butterfly(f: Waves, x: list[Pair]) -> list[Pair]:
    """The transform of an odd number of numbers: by pairs of what is mirrored."""
    radix = len(x)
    sums, differences, whole = _mirror(f, x)
    y = [whole] * radix
    for k in range(1, radix // 2 + 1):
        angles = [2 * pi * (j * k % radix) / radix for j in range(1, radix // 2 + 1)]
        even, odd = x[0], None
        for s, d, angle in zip(sums, differences, angles, strict=True):
            even = f.add(even, f.scaled(s, cos(angle)))
            part = f.scaled(d, sin(angle))
            odd = part if odd is None else f.add(odd, part)
        assert odd is not None
        y[k], y[radix - k] = _pair_of(f, even, odd)
    return y


def _pair_of(f: Waves, even: Pair, odd: Pair) -> tuple[Pair, Pair]:
    """What is mirrored in the result: even - i·odd and even + i·odd."""
    (a, b), (c, d) = even, odd
    return (
        (f.arithmetic("fadd", a, d), f.arithmetic("fsub", b, c)),
        (f.arithmetic("fsub", a, d), f.arithmetic("fadd", b, c)),
    )


def _mirrored_sums(
    f: Waves, x: list[Pair], put: Callable[[Pair, int | str], None]
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


def _roots_at(f: Waves, roots: str, starts: tuple[str, str], apart: int) -> Pair:
    """The roots for the numbers of a vector, of which `apart` have one each."""
    found: list[str] = []
    for start in starts:
        if apart >= f.lanes:
            found.append(f.splat(roots, start))
            continue
        count = f.lanes // apart
        some = f.take(roots, start, count)
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

"""The steps of a Fourier transform in LLVM IR: Stockham's, which keep the order.

A step of radix 4 reads four vectors and writes four; with s numbers between two of one
sub-transform, of which there were n/l so far,

    x[q + s(p + m k)]  ->  y[q + s(4p + k)]        k = 0 … 3, m = l/4, p < m, q < s

so that reads are contiguous in j = q + s p, and writes where s fills a vector; before
that four vectors are exchanged with one another. Of columns, s begins with the lanes
of a vector. Other factors of the length, of columns, are steps like these: the work of
odd ones, for each number, is as they are, and up to 31 less than by a convolution.
Between the steps real and imaginary parts stand apart, in two buffers on the stack.

An inverse transform is one of numbers whose parts are exchanged.
"""

from __future__ import annotations

from math import cos, pi, sin

from ftrace.devices.llvm.fourier_sides import Buffer, Side
from ftrace.devices.llvm.fourier_tables import stage_offsets
from ftrace.devices.llvm.fourier_waves import Pair, Waves
from ftrace.lower.fourier_lengths import stages_of


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
    size = f.form.size
    radix, done = stages_of(size)[stage]
    apart = done * (f.total // size)  # s
    m = size // done // radix
    part, lanes = f.total // radix, f.lanes
    with f.repeat(part // lanes) as i:
        j = f.let(f"mul i64 {i}, {lanes}")
        x = [
            source.take(j if not k else f.let(f"add i64 {j}, {k * part}"))
            for k in range(radix)
        ]
        y = _butterfly(f, x)
        p = f.let(f"udiv i64 {j}, {apart}")
        if m > 1:
            offset = stage_offsets(size)[stage]
            starts = [(offset + 2 * k * m, offset + (2 * k + 1) * m)
                      for k in range(radix - 1)]  # fmt: skip
            y[1:] = [
                f.times(v, _roots_at(f, roots, at, p, apart))
                for v, at in zip(y[1:], starts, strict=True)
            ]
        if apart < lanes:
            _exchange(f, y, target, j, apart)
            return
        turns = f.let(f"mul i64 {p}, {(radix - 1) * apart}")
        first = f.let(f"add i64 {j}, {turns}")
        for k, v in enumerate(y):
            target.put(v, f.let(f"add i64 {first}, {k * apart}"))


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


def _roots_at(
    f: Waves, roots: str, starts: tuple[int, int], p: str, apart: int
) -> Pair:
    """The roots for the numbers of a vector, of which `apart` have one each."""
    found: list[str] = []
    for start in starts:
        index = f.let(f"add i64 {p}, {start}")
        if apart >= f.lanes:
            found.append(f.splat(roots, index))
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

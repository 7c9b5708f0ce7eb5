"""Rows abreast: a square of numbers after the other, turned in registers."""

from __future__ import annotations

from ftrace.devices.llvm.fourier.sides import Buffer
from ftrace.devices.llvm.fourier.waves import Waves


def turn(f: Waves, rows: str, buffer: Buffer, count: int, *, into: bool) -> None:
    """Brings rows of so many numbers to a buffer, or back.

    The parts of numbers are columns of a square. Numbers that fill no square begin
    earlier, and are moved twice.
    """
    lanes = f.lanes
    each = lanes // 2
    with f.repeat(-(-count // each)) as i:
        wanted = f.let(f"mul i64 {i}, {each}")
        first = f.no_later(wanted, count - each)
        at = f.let(f"shl i64 {first}, 1")
        places = [f.let(f"add i64 {at}, {2 * count * row}") for row in range(lanes)]
        start = f.let(f"mul i64 {first}, {lanes}")
        inner = [f.let(f"add i64 {start}, {k * lanes}") for k in range(each)]
        if into:
            parts = _transposed(f, [f.take(rows, place, lanes) for place in places])
            for k, place in enumerate(inner):
                buffer.put((parts[2 * k], parts[2 * k + 1]), place)
        else:
            mixed = [part for place in inner for part in buffer.take(place)]
            for x, place in zip(_transposed(f, mixed), places, strict=True):
                f.put(x, rows, place, lanes)


def _transposed(f: Waves, rows: list[str]) -> list[str]:
    """A square of numbers, by exchanges of neighbours, of pairs, and so on."""
    lanes, apart = f.lanes, 1
    rows = list(rows)
    while apart < lanes:
        low = [k if not k & apart else lanes + k - apart for k in range(lanes)]
        high = [k + apart if not k & apart else lanes + k for k in range(lanes)]
        for i in range(lanes):
            if not i & apart:
                a, b = rows[i], rows[i + apart]
                rows[i] = f.shuffle(a, b, lanes, low)
                rows[i + apart] = f.shuffle(a, b, lanes, high)
        apart *= 2
    return rows

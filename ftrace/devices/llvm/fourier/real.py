"""Real rows and those of their pairs of numbers, as steps of Fourier transforms.

With e and o the transforms of the numbers at even and odd places, the pairs of a row of
2n numbers become e + i·o, and the row itself e + exp(-πi·k/n)·o. Of both, e and o are
told by the symmetry of transforms of real numbers.
"""

from __future__ import annotations

from ftrace.devices.llvm.fourier.sides import Buffer, Place, Side
from ftrace.devices.llvm.fourier.waves import Pair, Waves


def _mirrored(f: Waves, side: Side, k: str) -> Pair:
    """The numbers k, k - 1, … before the end."""
    last = f.let(f"sub i64 {f.form.size - f.lanes + 1}, {k}")
    back = list(range(f.lanes))[::-1]
    a, b = (f.shuffle(v, "poison", f.lanes, back) for v in side.take(last))
    return a, b


def _halves(f: Waves, side: Side, k: str) -> tuple[Pair, Pair]:
    """Halves of the sum and difference of numbers and conjugates of their mirrors."""
    (a, b), (c, d) = side.take(k), _mirrored(f, side, k)
    even = f.arithmetic("fadd", a, c), f.arithmetic("fsub", b, d)
    odd = f.arithmetic("fsub", a, c), f.arithmetic("fadd", b, d)
    return f.scaled(even, 0.5), f.scaled(odd, 0.5)


def _half_roots(f: Waves, half: str, k: str) -> Pair:
    behind = f.let(f"add i64 {k}, {f.form.size}")
    return f.take(half, k, f.lanes), f.take(half, behind, f.lanes)


def real_from(f: Waves, side: Place | Buffer, target: str, half: str) -> None:
    """The transform of a real row from that of its pairs."""
    n, lanes = f.form.size, f.lanes
    place = Place(f, target)
    with f.repeat(-(-(n - 1) // lanes)) as i:
        wanted = f.let(f"add i64 {f.let(f'mul i64 {i}, {lanes}')}, 1")
        k = f.no_later(wanted, n - lanes)
        even, odd = _halves(f, side, k)
        re, im = f.times(odd, _half_roots(f, half, k))
        x = f.arithmetic("fadd", even[0], im), f.arithmetic("fsub", even[1], re)
        place.put(x, k)
    re, im = side.first()
    for at, verb in ((0, "fadd"), (2 * n, "fsub")):
        f.store(f.t.text, f.let(f"{verb} {f.t} {re}, {im}"), f.at(target, at))
        f.store(f.t.text, f.t.constant(0), f.at(target, at + 1))


def pairs_from(f: Waves, source: str, side: Place | Buffer, half: str) -> None:
    """What the pairs of a real row are transformed to."""
    n, lanes = f.form.size, f.lanes
    place = Place(f, source)
    with f.repeat(-(-n // lanes)) as i:
        k = f.no_later(f.let(f"mul i64 {i}, {lanes}"), n - lanes)
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

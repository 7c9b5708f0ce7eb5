"""Fourier transforms as LLVM IR: the kernels of `lower/fourier.py`.

Each unit is a row, a strip of columns, or as many rows as a vector has lanes: these
are transposed on their way to the stack and back, and are columns there. The steps
are in `fourier_steps.py`.
"""

from __future__ import annotations

from ftrace.devices.llvm.fourier_steps import (
    Buffer,
    Pair,
    Place,
    Side,
    Swapped,
    Waves,
    transform,
)
from ftrace.devices.llvm.fourier_tables import stages_of
from ftrace.devices.llvm.render import Rendered
from ftrace.devices.llvm.target import Target
from ftrace.devices.llvm.work import WORTH_A_THREAD
from ftrace.lower.fourier import Transform

_COPY = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"


def _mirrored(f: Waves, side: Side, k: str) -> Pair:
    """The numbers k, k - 1, … before the end."""
    last = f.let(f"sub i64 {f.kernel.size - f.lanes + 1}, {k}")
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
    behind = f.let(f"add i64 {k}, {f.kernel.size}")
    return f.take(half, k, f.lanes), f.take(half, behind, f.lanes)


def _real_from(f: Waves, side: Side, target: str, half: str) -> None:
    """The transform of a real row from that of its pairs."""
    n, lanes = f.kernel.size, f.lanes
    place = Place(f, target, 0, swapped=False)
    with f.repeat(-(-(n - 1) // lanes)) as i:
        wanted = f.let(f"add i64 {f.let(f'mul i64 {i}, {lanes}')}, 1")
        k = _no_later(f, wanted, n - lanes)
        even, odd = _halves(f, side, k)
        re, im = f.times(odd, _half_roots(f, half, k))
        x = f.arithmetic("fadd", even[0], im), f.arithmetic("fsub", even[1], re)
        place.put(x, k)
    re, im = side.first()
    for at, verb in ((0, "fadd"), (2 * n, "fsub")):
        f.store(f.t.text, f.let(f"{verb} {f.t} {re}, {im}"), f.at(target, at))
        f.store(f.t.text, f.t.constant(0), f.at(target, at + 1))


def _pairs_from(f: Waves, source: str, side: Side, half: str) -> None:
    """What the pairs of a real row are transformed to."""
    n, lanes = f.kernel.size, f.lanes
    place = Place(f, source, 0, swapped=False)
    with f.repeat(-(-n // lanes)) as i:
        k = _no_later(f, f.let(f"mul i64 {i}, {lanes}"), n - lanes)
        even, odd = _halves(f, place, k)
        c, d = _half_roots(f, half, k)
        zero = f.t.with_lanes(lanes).constant(0)
        re, im = f.times(odd, (c, f.arithmetic("fsub", zero, d)))
        x = f.arithmetic("fsub", even[0], im), f.arithmetic("fadd", even[1], re)
        side.put(x, k)
    # The imaginary parts of the first and the last number do not count.
    first, last = (f.load(f.t.text, f.at(source, at)) for at in (0, 2 * n))
    parts = [
        f.let(f"fmul {f.t} {f.let(f'{verb} {f.t} {first}, {last}')}, {half_of(f)}")
        for verb in ("fadd", "fsub")
    ]
    side.set_first((parts[0], parts[1]))


def half_of(f: Waves) -> str:
    """The constant one half."""
    return f.t.constant(0.5)


def _no_later(f: Waves, k: str, most: int) -> str:
    """Numbers that fill no vector begin earlier, and are computed twice."""
    inside = f.let(f"icmp ult i64 {k}, {most}")
    return f.let(f"select i1 {inside}, i64 {k}, i64 {most}")


def _rows(f: Waves) -> int:
    kernel, n = f.kernel, f.kernel.size
    roots = f.roots("stages", str(n))
    buffers = [Buffer(f), Buffer(f)]
    half = "" if kernel.kind == "fft" else f.roots("half", str(n))
    with f.repeat("%end", "%begin") as unit:
        to, of = _row_bases(f, unit)
        source: Side = Place(f, of, 0, kernel.inverse)
        target: Side = Place(f, to, 0, kernel.inverse)
        if kernel.kind == "irfft":
            _pairs_from(f, of, Swapped(buffers[1]), half)
            source = buffers[1]
        if kernel.kind == "rfft":
            target = buffers[(len(stages_of(n)) - 1) % 2]
        transform(f, source, target, buffers, roots, "")
        if kernel.kind == "rfft":
            assert isinstance(target, Buffer)
            _real_from(f, target, to, half)
    return kernel.outer


def _row_bases(f: Waves, row: str) -> list[str]:
    """Where a row of the result and of the operand begins."""
    bases: list[str] = []
    for number, spec in enumerate(f.kernel.buffers):
        nbytes = spec.size // f.kernel.outer * spec.dtype.itemsize
        offset = f.let(f"mul i64 {row}, {nbytes}")
        bases.append(f.beyond(f.slot("%buffers", number), offset))
    return bases


def _half_rows(f: Waves) -> int:
    """Rows of the transforms of real rows from those of their pairs, or back."""
    half = f.roots("half", str(f.kernel.size))
    with f.repeat("%end", "%begin") as unit:
        to, of = _row_bases(f, unit)
        if f.kernel.kind == "half":
            _real_from(f, Place(f, of, 0, swapped=False), to, half)
        else:
            _pairs_from(f, of, Place(f, to, 0, swapped=False), half)
    return f.kernel.outer


def _view(f: Waves) -> int:
    """Rows as they are."""
    f.declared[_COPY] = None
    spec = f.kernel.buffers[0]
    with f.repeat("%end", "%begin") as unit:
        to, of = _row_bases(f, unit)
        f.copy(to, of, spec.size // f.kernel.outer * spec.dtype.itemsize)
    return f.kernel.outer


def _columns(f: Waves) -> int:
    kernel, inner = f.kernel, f.kernel.inner
    roots = f.roots("stages", str(kernel.size))
    twist = f.roots("twist", f"{kernel.size}x{inner}") if kernel.twisted else ""
    buffers = [Buffer(f), Buffer(f)]
    strips = -(-inner // f.lanes)
    with f.repeat("%end", "%begin") as unit:
        matrix = f.let(f"udiv i64 {unit}, {strips}")
        strip = f.let(f"urem i64 {unit}, {strips}")
        wanted = f.let(f"mul i64 {strip}, {f.lanes}")
        # Columns that fill no vector begin earlier, and are computed twice.
        inside = f.let(f"icmp ult i64 {wanted}, {inner - f.lanes}")
        column = f.let(f"select i1 {inside}, i64 {wanted}, i64 {inner - f.lanes}")
        start = f.let(f"mul i64 {matrix}, {kernel.size * inner}")
        first = f.let(f"add i64 {start}, {column}")
        offset = f.let(f"mul i64 {first}, {2 * f.t.bytes}")
        to, of = (f.beyond(f.slot("%buffers", n), offset) for n in (0, 1))
        source = Place(f, of, inner, kernel.inverse)
        target = Place(f, to, inner, kernel.inverse)
        own = f.at(twist, column) if twist else ""
        transform(f, source, target, buffers, roots, own)
    return kernel.outer * strips


def _abreast(f: Waves) -> int:
    """Rows side by side, in the lanes of vectors."""
    kernel, n = f.kernel, f.kernel.size
    roots = f.roots("stages", str(n))
    buffers = [Buffer(f), Buffer(f)]
    result = (len(stages_of(n)) - 1) % 2
    with f.repeat("%end", "%begin") as unit:
        wanted = f.let(f"mul i64 {unit}, {f.lanes}")
        inside = f.let(f"icmp ult i64 {wanted}, {kernel.outer - f.lanes}")
        row = f.let(f"select i1 {inside}, i64 {wanted}, i64 {kernel.outer - f.lanes}")
        offset = f.let(f"mul i64 {row}, {2 * n * f.t.bytes}")
        to, of = (f.beyond(f.slot("%buffers", k), offset) for k in (0, 1))
        _turn(f, of, buffers[1], into=True)
        transform(f, buffers[1], buffers[result], buffers, roots, "")
        _turn(f, to, buffers[result], into=False)
    return -(-kernel.outer // f.lanes)


def _turn(f: Waves, rows: str, buffer: Buffer, *, into: bool) -> None:
    """Brings rows to a buffer, or back: the parts of numbers are columns of a square.

    Numbers that fill no square begin earlier, and are moved twice.
    """
    n, lanes = f.kernel.size, f.lanes
    each = lanes // 2
    with f.repeat(-(-n // each)) as i:
        wanted = f.let(f"mul i64 {i}, {each}")
        inside = f.let(f"icmp ult i64 {wanted}, {n - each}")
        first = f.let(f"select i1 {inside}, i64 {wanted}, i64 {n - each}")
        at = f.let(f"shl i64 {first}, 1")
        places = [f.let(f"add i64 {at}, {2 * n * row}") for row in range(lanes)]
        start = f.let(f"mul i64 {first}, {lanes}")
        inner = [f.let(f"add i64 {start}, {k * lanes}") for k in range(each)]
        if into:
            parts = _transposed(f, [f.take(rows, place, lanes) for place in places])
            for k, place in enumerate(inner):
                a, b = parts[2 * k : 2 * k + 2]
                buffer.put((b, a) if f.kernel.inverse else (a, b), place)
        else:
            v: list[str] = []
            for place in inner:
                a, b = f.scaled(buffer.take(place), f.kernel.scale)
                v += [b, a] if f.kernel.inverse else [a, b]
            for x, place in zip(_transposed(f, v), places, strict=True):
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


_WRITERS = {"half": _half_rows, "pairs": _half_rows, "view": _view}


def render_transform(kernel: Transform, target: Target, name: str) -> Rendered:
    """The code of a Fourier transform, as function `name`."""
    f = Waves(kernel, target, name)
    write = _WRITERS.get(kernel.kind, _rows)
    if kernel.abreast:
        write = _abreast
    elif kernel.inner > 1:
        write = _columns
    units = write(f)
    f.give()
    text = "\n".join([f'target triple = "{target.triple}"', *f.declared, f.text])
    together = f.lanes if kernel.inner > 1 or kernel.abreast else 1
    each = kernel.work * together // 2
    return Rendered(text, units, -(-WORTH_A_THREAD // max(each, 1)))

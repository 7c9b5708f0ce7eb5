"""Roots of unity for Fourier transforms: tables that stay while code uses them.

    ftrace_roots_f32_stages_1024()         for each step of a transform of that length
    ftrace_roots_f32_angles_31()           for one step of that many numbers
    ftrace_roots_f32_half_1024()           exp(-πi·k/n): a real row of twice that length
    ftrace_roots_f32_twist_32x64x16()      exp(-2πi·i·k/n) for each place of a matrix
    ftrace_roots_f32_chirp_17()            exp(-πi·k²/n)
    ftrace_roots_f32_spectrum_17x6x8()     of the chirp's conjugate, as a matrix

Each is a function that tells where the table is: its real parts, then the imaginary
ones; of the stages, of each power of each stage; of the angles side by side. They are
computed in float64.

The roots of a matrix are products: those of the first `lanes` columns, row by row, and
for each such group of columns those by which they are turned.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy

from ftrace.backends.llvm.compile import Code, emit_object, link
from ftrace.backends.llvm.ir.function_builder import Function
from ftrace.backends.llvm.ir.symbols import ROOTS
from ftrace.ground.fork_safe import fresh_after_fork
from ftrace.ground.weak_tables import WeakValues
from ftrace.lower.library.fft_radices import stages_of

np: Any = numpy  # whose stubs leave too much unknown


_QUARTERS = np.array([1, -1j, -1, 1j])
_DTYPES = {"f32": np.float32, "f64": np.float64}
_lock = fresh_after_fork(threading.Lock())
_codes: WeakValues[str, Code] = WeakValues()


def roots_symbol(real: str, kind: str, *sizes: int) -> str:
    """The function of a table; `real` is f32 or f64."""
    return f"{ROOTS}{real}_{kind}_{'x'.join(map(str, sizes))}"


def stage_offsets(size: int) -> list[int]:
    """Where the roots of each step begin."""
    offsets = [0]
    for radix, done in stages_of(size):
        offsets.append(offsets[-1] + 2 * (radix - 1) * (size // done // radix))
    return offsets[:-1]


def roots_code(symbol: str) -> Code:
    """The function of a table, which goes with it."""
    with _lock:
        return _codes.get(symbol) or _codes.put(symbol, _make(symbol))


def _make(symbol: str) -> Code:
    table = _table(symbol)
    f = Function(symbol, "ptr", visible=True)
    f.ret(f"inttoptr (i64 {table.ctypes.data} to ptr)")
    code = link(emit_object(f.text), (symbol,))
    code.keep(table)
    return code


def _table(symbol: str) -> Any:
    real, kind, sizes = symbol.removeprefix(ROOTS).split("_")
    parts: list[Any] = _TABLES[kind](*map(int, sizes.split("x")))
    return np.concatenate([part.ravel() for part in parts]).astype(_DTYPES[real])


def _roots(numbers: Any, order: int) -> list[Any]:
    """The parts of exp(-2πi·k/order), by angles of an eighth of a turn at the most."""
    quarters, rest = np.divmod(4 * (numbers % order) + order // 2, order)
    angle = (rest - order // 2) * (np.pi / 2 / order)
    roots = (np.cos(angle) - 1j * np.sin(angle)) * _QUARTERS[quarters % 4]
    return [roots.real, roots.imag]


def _of_stages(size: int) -> list[Any]:
    parts: list[Any] = [np.zeros(0)]
    for radix, done in stages_of(size):
        length = size // done
        for k in range(1, radix):
            parts += _roots(k * np.arange(length // radix), length)
    return parts


def _of_angles(radix: int) -> list[Any]:
    """Cosine and sine of each multiple of each multiple, up to half a turn."""
    k = np.arange(1, radix // 2 + 1)
    cosines, sines = _roots(np.outer(k, k), radix)
    return [np.stack([cosines, -sines], axis=-1)]


def _of_half(size: int) -> list[Any]:
    return _roots(np.arange(size), 2 * size)


def _of_twist(rows: int, columns: int, lanes: int) -> list[Any]:
    """Of the columns that stand first in a vector, and within it."""
    first = np.minimum(np.arange(0, columns, lanes), columns - lanes)
    within = np.outer(np.arange(rows), np.arange(lanes))
    groups = np.outer(first, np.arange(rows))
    order = rows * columns
    return [*_roots(within, order), *_roots(groups, order)]


def _of_chirp(size: int) -> list[Any]:
    """The square exactly, and less than a turn."""
    k = np.arange(size, dtype=np.int64)
    return _roots(k * k, 2 * size)


def _of_spectrum(size: int, rows: int, columns: int) -> list[Any]:
    """As the numbers stand whose columns, and then rows, were transformed."""
    real, imaginary = _of_chirp(size)
    whole = np.zeros(rows * columns, np.complex128)
    whole[:size].real, whole[:size].imag = real, -imaginary
    whole[1 - size :] = whole[size - 1 : 0 : -1]
    spectrum = np.fft.fft(whole).reshape(columns, rows).T / whole.size
    return [spectrum.real, spectrum.imag]


_TABLES = {
    "stages": _of_stages,
    "angles": _of_angles,
    "half": _of_half,
    "twist": _of_twist,
    "chirp": _of_chirp,
    "spectrum": _of_spectrum,
}

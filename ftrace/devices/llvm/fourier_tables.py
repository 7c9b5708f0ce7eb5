"""Roots of unity for Fourier transforms: tables that are made once per process.

    ftrace_roots_f32_stages_1024()     for each step of a transform of that length
    ftrace_roots_f32_half_1024()       exp(-πi·k/n): a real row of twice that length
    ftrace_roots_f32_twist_32x64()     exp(-2πi·i·k/n) for each place of a matrix

Each is a function that tells where the table is: its real parts, then the imaginary
ones; of the stages, of each power of each stage. They are computed in float64.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

import numpy as np

from ftrace.devices.llvm.compile import Code, emit_object, link
from ftrace.lower.fourier import RADICES

#: How the functions are called.
ROOTS = "ftrace_roots_"

_DTYPES = {"f32": np.float32, "f64": np.float64}
_lock = threading.Lock()
_kept: dict[str, Any] = {}  # the tables; code knows their addresses


def roots_symbol(real: str, kind: str, size: str) -> str:
    """The function of a table; `real` is f32 or f64."""
    return f"{ROOTS}{real}_{kind}_{size}"


def stages_of(size: int) -> list[tuple[int, int]]:
    """The steps of a transform: by how many it divides, and what has been so far."""
    found: list[tuple[int, int]] = []
    done = 1
    while done < size:
        left = size // done
        radix = 4 if left % 4 == 0 else min(r for r in RADICES if left % r == 0)
        found.append((radix, done))
        done *= radix
    return found


def stage_offsets(size: int) -> list[int]:
    """Where the roots of each step begin."""
    offsets = [0]
    for radix, done in stages_of(size):
        offsets.append(offsets[-1] + 2 * (radix - 1) * (size // done // radix))
    return offsets[:-1]


def roots_address(symbol: str) -> int:
    """Where the function of a table is."""
    return _code_of(symbol).address(symbol)


@cache
def _code_of(symbol: str) -> Code:
    with _lock:
        if symbol not in _kept:
            _kept[symbol] = _table(symbol)
        address: int = _kept[symbol].ctypes.data
    text = f"define ptr @{symbol}() {{\n  ret ptr inttoptr (i64 {address} to ptr)\n}}\n"
    return link(emit_object(text), (symbol,))


def _table(symbol: str) -> Any:
    real, kind, size = symbol.removeprefix(ROOTS).split("_")
    return np.ascontiguousarray(_TABLES[kind](size), _DTYPES[real])


def _roots(numbers: Any, order: int) -> Any:
    """exp(-2πi·k/order) as two rows."""
    turn: Any = np.exp(-2j * np.pi * (np.asarray(numbers) % order) / order)
    parts: Any = [np.real(turn), np.imag(turn)]
    return np.stack(parts)


def _of_stages(size: str) -> Any:
    n = int(size)
    parts: list[Any] = [np.zeros(0)]
    for radix, done in stages_of(n):
        length = n // done
        for k in range(1, radix):
            parts.append(_roots(k * np.arange(length // radix), length).ravel())
    return np.concatenate(parts)


def _of_half(size: str) -> Any:
    n = int(size)
    return _roots(np.arange(n), 2 * n)


def _of_twist(size: str) -> Any:
    rows, columns = map(int, size.split("x"))
    return _roots(np.outer(np.arange(rows), np.arange(columns)), rows * columns)


_TABLES = {"stages": _of_stages, "half": _of_half, "twist": _of_twist}

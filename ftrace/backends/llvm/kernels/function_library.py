"""Functions of elements that kernels call, where they do not stand in the kernel.

    declare { <16 x i32>, … } @ftrace_far_angle_v16f32(<16 x float>)

`far_angle` is long and seldom needed. The others are those that a kernel uses many
times: its code would not fit into the processor's caches, and takes long to make.

A name tells the formula and the type of its operands, so that from the name alone the
function is made: once per process at the most, when a kernel that calls it is linked,
and mostly from the disk cache.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import cache

import numpy as np

from ftrace.backends.llvm.compile import Code, cache_key, generate, link, load_or_make
from ftrace.backends.llvm.ir.symbols import GIVE, POLL, ROOTS, ROUTINE, SORT, STOP, TAKE
from ftrace.backends.llvm.runtime.runtime import runtime
from ftrace.backends.llvm.target import host_target
from ftrace.ground.fork_safe import fresh_after_fork

_OF_RUNTIME = (TAKE, GIVE, POLL, STOP)
_lock = fresh_after_fork(threading.RLock())  # none is made twice; one may call another


def compile_module(text: str, calls: Iterable[str]) -> bytes:
    """The names of the functions that it calls, a line, and its object code."""
    return " ".join(calls).encode() + b"\n" + generate(text)


class Addresses(dict[str, int]):
    """Where functions are, as long as it lives.

    Attributes:
      codes: those of which some do not stay as long as the process.
    """

    def __init__(self) -> None:
        self.codes: list[Code] = []


def addresses(symbols: Iterable[str]) -> Addresses:
    """Where these functions are."""
    found = Addresses()
    for symbol in symbols:
        if symbol.startswith(ROUTINE):
            from ftrace.backends.llvm.library.lapack.symbols import routine_address

            found[symbol] = routine_address(symbol)
        elif symbol.startswith(SORT):
            found[symbol] = _sort_address(symbol)
        else:
            code = _code_of(symbol)
            found.codes.append(code)
            found[symbol] = code.address(symbol)
    return found


def _sort_address(symbol: str) -> int:
    from ftrace.trace.primitives.library.sorting import sorter

    kind, size = symbol[len(SORT)], int(symbol[len(SORT) + 1 :]) // 8
    address = sorter(np.dtype(f"{kind}{size}"))
    assert address is not None  # lowering has asked for it
    return address


def _code_of(symbol: str) -> Code:
    if symbol.startswith(ROOTS):
        from ftrace.backends.llvm.library.fft.twiddles import roots_code

        return roots_code(symbol)
    return runtime().code if symbol in _OF_RUNTIME else _load_locked(symbol)


def prepare(symbol: str) -> None:
    """Makes a function if it is a formula, beside the kernels that call it."""
    theirs = symbol.startswith((ROUTINE, SORT, ROOTS))
    if symbol not in _OF_RUNTIME and not theirs:
        _load_locked(symbol)


def _load_locked(symbol: str) -> Code:
    with _lock:
        return _load(symbol)


@cache
def _load(symbol: str) -> Code:
    def make() -> bytes:
        from ftrace.backends.llvm.emit.called_functions import write_called

        module = write_called(symbol, host_target())
        return compile_module(module.text, module.calls)

    whole = load_or_make(("library", *cache_key(symbol)), make)
    calls, _, code = whole.partition(b"\n")
    return link(code, (symbol,), addresses(calls.decode().split()))

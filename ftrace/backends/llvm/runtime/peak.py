"""What a processor computes at the most: multiply-adds that stay in registers.

    a0 <- a0 · ½ + 1        a1 <- a1 · ½ + 1        …  CHAINS vectors, step by step

No chain waits for another, and none for memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from time import perf_counter

from ftrace.backends.llvm.compile import emit_own, link
from ftrace.backends.llvm.ir.function_builder import Function, module_text
from ftrace.backends.llvm.target import host_target

#: Independent sums: more than latency × throughput, fewer than registers.
CHAINS = 12
#: Steps of a burst, about 0.1 ms; seconds in which the best of them is looked for.
_BURST, _WINDOW = 1 << 15, 0.3


def _text(lanes: int) -> str:
    vector, f = f"<{lanes} x float>", Function("chains", "void", "i64 %n", visible=True)
    rows = ", ".join(["float {0}"] * lanes)

    def constant(value: float) -> str:
        return "<" + rows.format(value) + ">"

    with f.fold("%n", [(vector, constant(float(k))) for k in range(CHAINS)]) as fold:
        function = f"{vector} llvm.fmuladd.v{lanes}f32({', '.join([vector] * 3)})"
        fold.following = [
            f.outside(function, value, constant(0.5), constant(1.0))
            for value in fold.values
        ]
    place = f.allocate(vector)
    for value in fold.values:
        f.do(f"store volatile {vector} {value}, ptr {place}, align 64")
    f.ret()
    return module_text("", [f])


@cache
def multiply_adds() -> tuple[Callable[[int], None], int]:
    """A loop of as many steps as it is told, and the float32 operations of a step."""
    lanes = host_target().vector_bytes // 4
    code = link(emit_own("peak", [lanes], lambda: _text(lanes)), ["chains"])
    call = ctypes.CFUNCTYPE(None, ctypes.c_int64)(code.address("chains"))

    def run(steps: int) -> None:
        call(steps)
        _ = code  # which stays as long as this

    return run, 2 * lanes * CHAINS


def peak(threads: int) -> float:
    """Operations of float32 in a second, at the most, of so many threads at a time.

    The best burst of each thread counts: other programs leave some of them alone.
    """
    run, operations = multiply_adds()

    def best(_: int) -> float:
        end, least = perf_counter() + _WINDOW, float("inf")
        while (begin := perf_counter()) < end:
            run(_BURST)
            least = min(least, perf_counter() - begin)
        return _BURST * operations / least

    if threads == 1:  # where there are no others
        return best(0)
    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(best, range(threads)))

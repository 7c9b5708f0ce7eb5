"""Which results of a kernel have non-temporal stores, past the caches.

These do not read the line that they overwrite, a third of the traffic of an addition.
They need aligned memory, which is known at run time only: `emit/module.py` has both
kinds of code.
"""

from __future__ import annotations

from collections.abc import Iterable

from ftrace.backends.llvm.target import Target
from ftrace.lower.kernel.ir import Kernel, bytes_of, load_p

#: The share of the last cache that a result takes at least. Of 32 MB, with 1 the 16 MB
#: of add 4M and of eleven rows more stay in it, with 2 the 8 MB of 8192 rows that are
#: gathered; with no such share the 16 KB of the sums of 4096² do not. With 4 or 64 no
#: row differs.
_SHARE = 8


def nontemporal_buffers(
    kernel: Kernel, target: Target, scattered: bool = False
) -> frozenset[int]:
    """Large buffers that are only written, in kernels whose data fit in no cache.

    Args:
      scattered: lines of many places are written in turn, which needs more room.
    """
    if kernel.is_dynamic or (kernel.ordered and kernel.scatters):
        return frozenset()
    read = {n.src[0].arg for n in kernel.nodes if n.op is load_p}
    read |= {store.buffer for store in kernel.stores if store.combine}
    written = {store.buffer for store in kernel.stores} - read
    budget = target.l3 * 3 // 4 if scattered else target.l3
    return large_results(kernel, written, target, budget)


def large_results(
    kernel: Kernel, written: Iterable[int], target: Target, budget: int
) -> frozenset[int]:
    """Those of some buffers that are worth it, if nothing is to stay in the caches.

    Args:
      budget: for all buffers in the last cache.
    """
    known = target.triple.startswith("x86_64") and target.decides("nontemporal_stores")
    if not known or bytes_of(kernel.buffers) <= budget:
        return frozenset()
    sizes = [spec.size * spec.dtype.itemsize for spec in kernel.buffers]
    return frozenset(n for n in written if sizes[n] * _SHARE >= target.l3)

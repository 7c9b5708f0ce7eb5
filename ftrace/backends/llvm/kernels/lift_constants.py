"""Numbers in a kernel that do not decide how it is written become data.

    Before: buffer0[i] = load(buffer1, i) * 0.3 + 1.7
    After:  buffer0[i] = load(buffer1, i) * load(buffer2, 0) + load(buffer2, 1)
            and the numbers 0.3, 1.7

Kernels that differ in such numbers alone are one: it is compiled once, and another
learning rate compiles nothing. What a compiler makes something special of stays: zero,
powers of two, infinities. So do the numbers of kernels that have many, which would take
up the registers.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.lower.kernel.ir import INDEX, BufferSpec, Kernel, load, param, reduce_p
from ftrace.trace.graph import Node, constant_value, substitute
from ftrace.trace.primitives.primitive import Primitive
from ftrace.trace.primitives.sources import const, const_p

#: Kernels with more numbers keep them.
MOST = 8


def without_numbers(kernel: Kernel) -> tuple[Kernel, np.ndarray[Any, Any] | None]:
    """The kernel that loads its numbers from one more buffer, and that buffer.

    None where it has none to load. Reduces keep theirs: what is known of constants
    decides how products are blocked.
    """
    if type(kernel) is not Kernel or kernel.is_dynamic:
        return kernel, None
    nodes = kernel.nodes
    if any(node.op is reduce_p for node in nodes):
        return kernel, None
    found = _numbers(kernel, nodes)
    if not 0 < len(found) <= MOST:
        return kernel, None
    dtype, number = found[0].dtype, len(kernel.buffers)
    buffer = param(number, dtype, len(found))
    loads = {n: load(buffer, const(k, INDEX)) for k, n in enumerate(found)}
    values = substitute([store.value for store in kernel.stores], loads)
    stores = tuple(
        replace(store, value=value)
        for store, value in zip(kernel.stores, values, strict=True)
    )
    specs = (*kernel.buffers, BufferSpec(dtype, len(found), False))
    general = replace(kernel, stores=stores, buffers=specs)
    return general, np.array([constant_value(n) for n in found], dtype)


def _numbers(kernel: Kernel, nodes: list[Node]) -> list[Node]:
    """The constants that may be loaded, all of one dtype, in the order of the nodes."""
    kept = set(kernel.roots)
    for node in nodes:
        if not (isinstance(node.op, Primitive) and node.op.takes_numbers):
            kept.update(node.src)
    found = [n for n in nodes if n.op is const_p and n not in kept and _is_plain(n)]
    return [n for n in found if n.dtype == found[0].dtype]


def _is_plain(node: Node) -> bool:
    """Is it a number like any other?"""
    if node.dtype not in (dtypes.float32, dtypes.float64) or node.shape:
        return False
    value = float(constant_value(node))
    return math.isfinite(value) and abs(math.frexp(value)[0]) not in (0.0, 0.5)

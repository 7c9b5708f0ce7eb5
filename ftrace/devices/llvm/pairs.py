"""Results that fill every second place in turn.

    out[2·i + j] = f(i, j)   j < 2    ->    out[2·i] = f(i, 0); out[2·i + 1] = f(i, 1)

Along i the places are two apart and along j there are only two of them. Two stores over
i alone make whole vectors: see `Elements.store_pair`.
"""

from __future__ import annotations

from ftrace.devices.llvm.facts import Facts
from ftrace.lower.kernel import INDEX, Kernel, Store, axis_of, reduce_p
from ftrace.trace.graph import substitute
from ftrace.trace.primitives.source import const

#: So many pairs make it worth while.
_LEAST = 8


def paired(kernel: Kernel, facts: Facts) -> Kernel:
    """The kernel with two stores for one, if its last axis is such a j."""
    if len(kernel.axes) < 2 or len(kernel.stores) != 1:
        return kernel
    if kernel.ordered or kernel.is_dynamic:
        return kernel
    axis, (store,) = kernel.axes[-1], kernel.stores
    if axis_of(axis).size != 2 or store.combine or store.valid is not None:
        return kernel
    terms = facts.affine[store.index].terms
    pairs = [a for a in kernel.axes[:-1] if terms.get(a) == 2]
    if terms.get(axis) != 1 or not pairs or axis_of(pairs[0]).size < _LEAST:
        return kernel
    if any(n.op is reduce_p for n in kernel.nodes):
        return kernel
    stores: list[Store] = []
    for place in range(2):
        moved = {axis: const(place, INDEX)}
        index, value = substitute([store.index, store.value], moved)
        stores.append(Store(store.buffer, index, value))
    return Kernel(kernel.axes[:-1], tuple(stores), kernel.buffers)

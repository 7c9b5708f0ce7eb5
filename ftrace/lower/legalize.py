"""Kernels in the operations and dtypes that a device has.

    split_complex   complex values become pairs of real ones
    widen_halves    16-bit floats are computed in float32, and rounded when stored
    decompose       functions become plain arithmetic (lower/math)

Each is a pure function from kernel to kernel.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from ftrace import dtypes
from ftrace.errors import GraphError
from ftrace.lower.complex import PARTS, REAL, Pair
from ftrace.lower.kernel import (
    INDEX,
    BufferSpec,
    Kernel,
    Store,
    load,
    load_p,
    param,
    param_p,
    range_p,
    reduce,
    reduce_p,
)
from ftrace.lower.math import decompose
from ftrace.lower.math.term import Term
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node, constant_value, inherited_origin, make_node
from ftrace.trace.primitives.elementwise import add, cast, mul, ne, real_dtype, select
from ftrace.trace.primitives.source import const, const_p

HALVES = (dtypes.float16, dtypes.bfloat16)
# What only moves bits, and keeps the dtype of a 16-bit float.
_MOVES = ("bitcast", "nextafter")


#: What a processor has instructions for.
PLAIN = frozenset(
    "add sub mul div rem max min neg abs floor ceil trunc round sqrt fma eq ne lt le gt "
    "ge and or xor not shl shr sar popcount select cast bitcast mul_zero is_finite "
    "copy stop_gradient".split()
)


def legalize(kernel: Kernel, supported: Collection[str] | None = None) -> Kernel:
    """The kernel in the operations of a device.

    Args:
      kernel: any kernel.
      supported: names of the elementwise operations that the device has; `PLAIN`
        by default.

    Returns:
      A kernel without complex values, with 16-bit floats in loads, stores and casts
      only, and with no other operations.
    """
    return _decomposed(widen_halves(split_complex(kernel)), frozenset(supported or PLAIN))


def _decomposed(kernel: Kernel, supported: frozenset[str]) -> Kernel:
    roots = [e for store in kernel.stores for e in store.expressions]
    done = dict(zip(roots, decompose(roots, supported), strict=True))
    return _with_stores(kernel, done, kernel.buffers)


def _with_stores(
    kernel: Kernel, new: dict[Node, Node], buffers: tuple[BufferSpec, ...]
) -> Kernel:
    stores = tuple(
        Store(
            s.buffer, new[s.index], new[s.value],
            None if s.valid is None else new[s.valid], s.combine,
        )
        for s in kernel.stores
    )  # fmt: skip
    return replace(kernel, stores=stores, buffers=buffers)


# Complex numbers.


def _is_complex(node: Node) -> bool:
    return dtypes.is_complex(node.dtype)


def split_complex(kernel: Kernel) -> Kernel:
    """Complex values become pairs.

    load c64[n], i          ->  load f32[2n], 2·i  and  load f32[2n], 2·i + 1
    exp(x + iy)             ->  exp(x)·cos(y)  and  exp(x)·sin(y)
    buffer[i] = x + iy      ->  buffer[2·i] = x;  buffer[2·i + 1] = y
    """
    if not any(dtypes.is_complex(b.dtype) for b in kernel.buffers) and not any(
        _is_complex(n) for n in kernel.nodes
    ):
        return kernel
    plain: dict[Node, Node] = {}
    pairs: dict[Node, Pair] = {}
    with inherited_origin() as take:
        for node in kernel.nodes:
            take(node)
            if node.op is param_p:
                continue
            if _is_complex(node):
                pairs[node] = _pair(node, plain, pairs)
            else:
                plain[node] = _real(node, plain, pairs)
        stores: list[Store] = []
        for store in kernel.stores:
            index = plain[store.index]
            valid = None if store.valid is None else plain[store.valid]
            if not _is_complex(store.value):
                value = plain[store.value]
                stores.append(Store(store.buffer, index, value, valid, store.combine))
                continue
            if store.combine not in ("", "add"):
                raise GraphError(f"scatter of complex numbers: {store.combine}")
            first = mul(index, const(2, INDEX))
            second = add(first, const(1, INDEX))
            pair = pairs[store.value]
            for at, part in zip((first, second), pair, strict=True):
                stores.append(Store(store.buffer, at, part.node, valid, store.combine))
    buffers = tuple(_real_spec(spec) for spec in kernel.buffers)
    return replace(kernel, stores=tuple(stores), buffers=buffers)


def _real_spec(spec: BufferSpec) -> BufferSpec:
    if not dtypes.is_complex(spec.dtype):
        return spec
    return BufferSpec(real_dtype(spec.dtype), 2 * spec.size, spec.written)


def _pair(node: Node, plain: dict[Node, Node], pairs: dict[Node, Pair]) -> Pair:
    """The parts of a complex expression."""
    part = real_dtype(node.dtype)
    op, src = node.op, node.src
    if op is const_p:
        value = constant_value(node)
        return Pair(Term(const(value.real, part)), Term(const(value.imag, part)))
    if op is load_p:
        buffer: Any = src[0].arg
        view = param(buffer, part, 2 * src[0].size)
        first = mul(plain[src[1]], const(2, INDEX))
        second = add(first, const(1, INDEX))
        valid = plain[src[2]] if len(src) == 3 else None
        return Pair(Term(load(view, first, valid)), Term(load(view, second, valid)))
    if op is reduce_p:
        if node.arg != "add":
            raise GraphError(f"a reduce of complex numbers by {node.arg}")
        x = pairs[src[0]]
        return Pair(*[Term(reduce("add", p.node, src[1:])) for p in x])
    if op.name == "complex":
        return Pair(Term(plain[src[0]]), Term(plain[src[1]]))
    if op.name == "select":
        chosen, x, y = plain[src[0]], pairs[src[1]], pairs[src[2]]
        parts = zip(x, y, strict=True)
        return Pair(*[Term(select(chosen, a.node, b.node)) for a, b in parts])
    if op.name == "cast":
        if src[0] in pairs:
            return Pair(*[Term(cast(p.node, part)) for p in pairs[src[0]]])
        return Pair(Term(cast(plain[src[0]], part)), Term(const(0, part)))
    formula = PARTS.get(op.name)
    if formula is None:
        raise GraphError(f"{op.name} of complex numbers")
    return formula(*[pairs[s] for s in src])


def _real(node: Node, plain: dict[Node, Node], pairs: dict[Node, Pair]) -> Node:
    """A real expression; of complex operands or not."""
    if not any(s in pairs for s in node.src):
        src = tuple(plain.get(s, s) for s in node.src)
        return make_node(node.op, node.aval, src, node.arg)
    if node.op.name == "cast":
        x = pairs[node.src[0]]
        if node.dtype != dtypes.bool_:
            return cast(x.re.node, node.dtype)
        zero = const(0, x.re.dtype)
        return (Term(ne(x.re.node, zero)) | Term(ne(x.im.node, zero))).node
    formula = REAL.get(node.op.name)
    if formula is None:
        raise GraphError(f"{node.op.name} of complex numbers")
    return formula(*[pairs[s] for s in node.src]).node


# 16-bit floats.


def widen_halves(kernel: Kernel) -> Kernel:
    """Arithmetic on 16-bit floats is done in float32.

    load bf16            ->  cast[f32](load bf16)
    add bf16 x y         ->  add f32 x y
    cast[bf16] x         ->  cast[f32](cast[bf16] x)     the user's cast rounds
    buffer[i] = bf16 x   ->  buffer[i] = cast[bf16] x

    A chain of operations is rounded once, when it is stored.
    """
    nodes = kernel.nodes
    if not any(n.dtype in HALVES for n in nodes):
        return kernel
    new: dict[Node, Node] = {}
    with inherited_origin() as take:
        for node in nodes:
            take(node)
            if node.op in (param_p, range_p):
                new[node] = node
            else:
                new[node] = _widened(node, tuple(new[s] for s in node.src))
        stored: dict[Node, Node] = {}
        for store in kernel.stores:
            for expression in store.expressions:
                stored[expression] = new[expression]
            stored[store.value] = _narrow(new[store.value], store.value.dtype)
    return _with_stores(kernel, stored, kernel.buffers)


def _narrow(node: Node, dtype: Any) -> Node:
    """`node` in `dtype`; to 16 bits through float32, which it is computed in."""
    if node.dtype == dtype:
        return node
    if dtype in HALVES and node.dtype == dtypes.float64:
        node = cast(node, dtypes.float32)
    if node.op.name == "cast" and node.src[0].dtype == dtype:
        return node.src[0]
    return cast(node, dtype)


def _widened(node: Node, src: tuple[Node, ...]) -> Node:
    half = node.dtype in HALVES
    name = node.op.name
    if node.op is load_p:
        made = make_node(load_p, node.aval, src)  # type: ignore[arg-type]
        return cast(made, dtypes.float32) if half else made
    if node.op is const_p:
        return const(constant_value(node), dtypes.float32) if half else node
    if name == "cast":
        if not half:
            return cast(src[0], node.dtype)
        rounded = _narrow(src[0], node.dtype)
        return cast(rounded, dtypes.float32)
    if name in _MOVES and (half or node.src[0].dtype in HALVES):
        pairs = zip(src, node.src, strict=True)
        narrow = tuple(_narrow(s, old.dtype) for s, old in pairs)
        made = make_node(node.op, node.aval, narrow, node.arg)
        return cast(made, dtypes.float32) if half else made
    aval = ShapedArray.of((), dtypes.float32) if half else node.aval
    return make_node(node.op, aval, src, node.arg)


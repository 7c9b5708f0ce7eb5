"""Kernels in the terms that machines have: reals of 32 or 64 bits, plain arithmetic.

    split_complex         complex values become pairs of reals, interleaved in memory
    widen_half            16-bit floats are computed in float32 and rounded when stored
    decompose             exp, sin, … become the arithmetic of the files beside

Each pass is a pure function from kernel to kernel, linear in its expressions. Nodes are
interned, so that what two expressions share is computed once.

Which functions are decomposed, and how exact they are then, says `FORMULAS`; before it
stand those of a few plain operations: signs, neighbours, and fma itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

import numpy as np

from ftrace import dtypes
from ftrace.errors import GraphError
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.kernel import ir
from ftrace.lower.legalize import exponential, special, term, trigonometry
from ftrace.lower.legalize.complex import COMPLEX, Complex, choose
from ftrace.trace import graph as g
from ftrace.trace.graph_map import exchange
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.sources import const, const_p


def sign(x: term.Term) -> term.Term:
    """-1, 0 or 1; ±0 and NaN are themselves."""
    category = dtypes.kind(x.dtype)
    if category == "u":
        return term.select(term.eq(x, 0), x, term.number(1, x))
    if category == "i":
        return term.select(x > 0, 1, term.select(x < 0, term.number(-1, x), x))
    return term.select(x > 0.0, 1.0, term.select(x < 0.0, term.number(-1.0, x), x))


def is_finite(x: term.Term) -> term.Term:
    """|x| < ∞: false for NaN."""
    return abs(x) < term.INFINITY


def rsqrt(x: term.Term) -> term.Term:
    """1/sqrt(x): two roundings."""
    return 1.0 / term.sqrt(x)


def nextafter(x: term.Term, y: term.Term) -> term.Term:
    """The next number toward y. Floats of one sign are ordered as their bits are.

    Any width, so that it serves 16-bit floats in their own dtype.
    """
    layout = np.dtype(f"i{x.dtype.itemsize}")
    bits, toward = term.bitcast(x, layout), term.bitcast(y, layout)
    width = 8 * x.dtype.itemsize
    sign_bit = -(2 ** (width - 1))
    magnitude = bits & ~sign_bit
    target = toward & ~sign_bit
    # The bits as integers in the order of the numbers: -0 and +0 are both 0.
    place = term.select(bits < 0, -magnitude, magnitude)
    aim = term.select(toward < 0, -target, target)
    step = place + term.select(place < aim, 1, term.number(-1, place))
    # Toward zero from the least number the sign stays.
    negative = term.select(term.eq(magnitude, 0), aim < 0, bits < 0)
    moved = term.select(step < 0, -step, step) | term.select(
        negative, term.number(sign_bit, bits), 0
    )
    result = term.select(term.eq(place, aim), toward, moved)
    result = term.select(_is_nan(target, x.dtype), toward, result)
    return term.bitcast(term.select(_is_nan(magnitude, x.dtype), bits, result), x.dtype)


def _is_nan(magnitude: term.Term, dtype: np.dtype[Any]) -> term.Term:
    infinity = int.from_bytes(g.constant_bits(term.INFINITY, dtype), sys.byteorder)
    return magnitude > infinity


def fused_multiply_add(node: g.Node) -> g.Node:
    """a·b + c where no fma exists.

    A relaxed one is a product and a sum. An exact one: float32 in float64 arithmetic,
    where the product is exact; float64 by Dekker's product. Where that or c is large
    all are scaled, so that no part overflows which a sum could bring back.
    """
    a, b, c = map(term.Term, node.src)
    if node.arg == term.RELAXED:
        return (a * b + c).node
    if a.single:
        wide = term.cast(a, dtypes.float64) * term.cast(b, dtypes.float64)
        return term.cast(wide + term.cast(c, dtypes.float64), dtypes.float32).node
    large = (abs(a * b) > 2.0**1000) | (abs(c) > 2.0**1000)
    large = large & (abs(a) < term.INFINITY) & (abs(b) < term.INFINITY)
    down = term.select(large, 2.0**-512, term.number(1.0, a))
    up = term.select(large, 2.0**512, term.number(1.0, a))
    return (_multiply_add_double(a * down, b * down, c * down * down) * up * up).node


def _multiply_add_double(a: term.Term, b: term.Term, c: term.Term) -> term.Term:
    product = a * b
    total, rest = term.two_sum(product, c)
    rest = rest + _product_error(a, b, product)
    value = total + rest
    # Of infinities the rest is NaN, and it is +0 beside a total of -0.
    usual = term.ne(rest, 0.0) & (abs(value) < term.INFINITY)
    return term.select(usual, value, total)


def _product_error(a: term.Term, b: term.Term, product: term.Term) -> term.Term:
    """a·b - product; exact below 2^1023."""
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    return a_low * b_low - (
        ((product - a_high * b_high) - a_low * b_high) - a_high * b_low
    )


def _halves(x: term.Term) -> tuple[term.Term, term.Term]:
    """x in two halves of 26 bits, the second with a sign.

    By its bits: Veltkamp's product with 2^27 + 1 could overflow. The first half is
    rounded, but for numbers that would be infinite: the second one has 27 bits there.
    """
    bits = term.bits_of(x)
    half = term.select(abs(x) < 2.0**1023, term.number(2**26, bits), 0)
    high = term.float_of((bits + half) & -(2**27))
    return high, x - high


Decomposition = Callable[[g.Node], g.Node]


def _formula(function: Callable[..., term.Term]) -> Decomposition:
    """A function of terms as a function of the node that it replaces."""
    return lambda node: function(*map(term.Term, node.src)).node


class Formula(NamedTuple):
    """What computes a function from simpler ones.

    Attributes:
      function: of terms.
      errors: how exact it is in float32 and in float64, in units in the last place,
        gradual underflow included: the greatest error seen, rounded up. float32: each
        61st of all numbers (pow and atan2: 10⁶ pairs), against float64. float64: 5·10⁶
        numbers, against 113 bits. Those of lgamma and digamma hold for positive
        arguments; for negative ones near a zero of the function the error is as many
        units of 1. Of what is exact, or a step of others, there are none.
    """

    function: Callable[..., term.Term]
    errors: Sequence[float]


FORMULAS: Final = {
    op.name: Formula(function, errors)
    for op, function, *errors in (
        (p.exp, exponential.exp, 0.9, 1.0), (p.exp2, exponential.exp2, 0.9, 1.0),
        (p.expm1, exponential.expm1, 1.4, 1.5), (p.log, exponential.log, 0.9, 0.9),
        (p.log2, exponential.log2, 1.0, 0.9), (p.log1p, exponential.log1p, 0.9, 0.9),
        (p.sin, trigonometry.sin, 1.2, 0.8), (p.cos, trigonometry.cos, 1.2, 0.8),
        (p.tan, trigonometry.tan, 1.0, 1.0), (p.asin, trigonometry.asin, 1.2, 1.2),
        (p.acos, trigonometry.acos, 1.2, 1.2), (p.atan, trigonometry.atan, 1.2, 1.9),
        (p.sinh, exponential.sinh, 1.7, 1.7), (p.cosh, exponential.cosh, 1.4, 1.4),
        (p.tanh, exponential.tanh, 1.4, 1.4), (p.asinh, exponential.asinh, 1.9, 1.8),
        (p.acosh, exponential.acosh, 1.9, 1.9), (p.atanh, exponential.atanh, 2.1, 2.0),
        (p.erf, special.erf, 1.1, 1.1), (p.erfc, special.erfc, 1.5, 1.6),
        (p.erf_inv, special.erf_inv, 2.8, 2.6), (p.lgamma, special.lgamma, 3.6, 3.8),
        (p.digamma, special.digamma, 3.4, 3.9), (p.cbrt, exponential.cbrt, 0.9, 0.8),
        (p.logistic, exponential.logistic, 2.4, 2.5), (p.rsqrt, rsqrt, 1.5, 1.5),
        (p.power, exponential.power, 1.0, 1.1),
        (p.atan2, trigonometry.atan2, 1.7, 2.0),
        (trigonometry.far_quadrant_p, trigonometry.far_quadrant),
        (trigonometry.far_remainder_p, trigonometry.far_remainder),
        (trigonometry.far_rest_p, trigonometry.far_rest),
        (term.ldexp_p, exponential.scale_by_power), (p.sign, sign),
        (term.mantissa_p, exponential.mantissa_by_bits), (p.nextafter, nextafter),
        (term.exponent_p, exponential.exponent_by_bits), (p.is_finite, is_finite),
    )
}  # fmt: skip

#: Those that a device takes instead which can look numbers up in the tables.
BY_TABLES: Final = {
    "tanh": special.tanh_in_pieces, "erf": special.erf_in_pieces,
    "erfc": special.erfc_in_pieces,
}  # fmt: skip

#: For each operation that a device may lack, what computes it from simpler ones; users
#: add more (`extend.py`), for one process.
DECOMPOSITIONS: Final[dict[str, Decomposition]] = {"fma": fused_multiply_add} | {
    name: _formula(row.function) for name, row in FORMULAS.items()
}


def formula(name: str, has: Collection[str]) -> Callable[..., term.Term]:
    """The function of terms that computes `name` for a device that has these."""
    return _by_tables(has).get(name, FORMULAS[name].function)


def _by_tables(has: Collection[str]) -> dict[str, Callable[..., term.Term]]:
    """Those for a device that has these which take tables."""
    return BY_TABLES if all(name in has for name in special.TABLES_OF_32) else {}


def decompose(roots: Sequence[g.Node], has: Collection[str]) -> list[g.Node]:
    """The roots with every operation decomposed that is not in `has`.

    Operations in neither `has` nor `DECOMPOSITIONS` stay. What they are decomposed to
    is decomposed in its turn.
    """
    better = {name: _formula(function) for name, function in _by_tables(has).items()}
    known = DECOMPOSITIONS | better
    found = list(roots)
    lacking = known.keys() - set(has)

    def change(node: g.Node, src: tuple[g.Node, ...]) -> g.Node | None:
        name = node.op.name
        return known[name](g.rebuild(node, src)) if name in lacking else None

    while any(node.op.name in lacking for node in g.toposort(found)):
        found = exchange(found, change)
    return found


# Kernels.


def legalize(kernel: ir.Kernel, supported: Collection[str]) -> ir.Kernel:
    """The kernel without complex numbers, 16-bit arithmetic and foreign functions.

    Args:
      kernel: as lowering made it.
      supported: names of the operations that the device has; others are decomposed
        where `DECOMPOSITIONS` has them.

    Raises:
      GraphError: a complex value is combined in a way that pairs cannot express.
    """
    kernel = widen_half(split_complex(kernel))
    roots = kernel.roots
    return kernel.over(dict(zip(roots, decompose(roots, supported), strict=True)))


# Complex numbers.


def split_complex(kernel: ir.Kernel) -> ir.Kernel:
    """Complex expressions as pairs; a complex buffer as a real one of twice the size.

    Before: buffer0:c64[i] = mul(load(buffer1:c64, i), z)
    After:  buffer0:f32[2i] = …; buffer0:f32[2i + 1] = …
    """
    nodes = kernel.nodes
    types = {n.dtype for n in nodes} | {spec.dtype for spec in kernel.buffers}
    if not any(map(dtypes.is_complex, types)):
        return kernel
    values: dict[g.Node, g.Node | Complex] = {}
    with g.inherited_origin() as take:
        for node in nodes:
            take(node)
            values[node] = _split(node, values)
        stores = [s for store in kernel.stores for s in _split_store(store, values)]
    buffers = tuple(map(_real_spec, kernel.buffers))
    return replace(kernel, stores=tuple(stores), buffers=buffers)


def _real_spec(spec: ir.BufferSpec) -> ir.BufferSpec:
    if not dtypes.is_complex(spec.dtype):
        return spec
    return replace(spec, dtype=dtypes.real_dtype(spec.dtype), size=2 * spec.size)


def _split(node: g.Node, values: Mapping[g.Node, g.Node | Complex]) -> g.Node | Complex:
    src = [values[s] for s in node.src]
    is_complex = dtypes.is_complex(node.dtype)
    if not is_complex and not any(isinstance(s, Complex) for s in src):
        plain = cast("tuple[g.Node, ...]", tuple(src))
        return ir.rebuild(node, plain)
    rule = _STRUCTURAL.get(node.op.name)
    if rule is not None:
        return rule(node, src)
    function = COMPLEX.get(node.op.name)
    if function is None:
        raise GraphError(f"{node!r} has no meaning on complex numbers", node.origin)
    result = function(*src)
    return result if isinstance(result, Complex) else result.node


def _split_const(node: g.Node, src: list[Any]) -> Complex:
    value = g.constant_value(node)
    real = dtypes.real_dtype(node.dtype)
    re, im = (const(part, real, node.shape) for part in (value.real, value.imag))
    return Complex(term.Term(re), term.Term(im))


def _split_load(node: g.Node, src: list[Any]) -> Complex:
    buffer, index, *valid = src
    parts = (ir.load(buffer, _part_index(index, part), *valid) for part in (0, 1))
    return Complex(*map(term.Term, parts))


def _part_index(index: g.Node, part: int) -> g.Node:
    """2·index + part."""
    if index.op is const_p:
        return const(2 * int(g.constant_value(index)) + part, ir.INDEX)
    doubled = term.Term(index) * 2
    return (doubled + part).node if part else doubled.node


def _split_reduce(node: g.Node, src: list[Any]) -> Complex:
    value, ranges = src[0], tuple(src[1:])
    if node.arg != "add":
        raise GraphError(f"complex numbers have no {node.arg}: {node!r}", node.origin)
    parts = (ir.reduce("add", part.node, ranges) for part in value)
    return Complex(*map(term.Term, parts))


def _split_cast(node: g.Node, src: list[Any]) -> g.Node | Complex:
    (x,), target = src, node.dtype
    if dtypes.is_complex(target):
        real = dtypes.real_dtype(target)
        if isinstance(x, Complex):
            return Complex(term.cast(x.re, real), term.cast(x.im, real))
        re = term.cast(term.Term(x), real)
        return Complex(re, term.number(0.0, re))
    if target == dtypes.bool_:
        return (term.ne(x.re, 0.0) | term.ne(x.im, 0.0)).node
    return term.cast(x.re, target).node


def _make_pair(node: g.Node, src: list[Any]) -> Complex:
    real = dtypes.real_dtype(node.dtype)
    return Complex(*(term.cast(term.Term(x), real) for x in src))


def _split_bitcast(node: g.Node, src: list[Any]) -> g.Node | Complex:
    """complex64 and 64 bits: the real part is the lower half."""
    (x,) = src
    if node.dtype == node.src[0].dtype:
        return x
    if isinstance(x, Complex):
        low, high = (
            term.cast(term.bitcast(part, dtypes.uint32), dtypes.uint64) for part in x
        )
        return term.bitcast((high << 32) | low, node.dtype).node
    bits = term.bitcast(term.Term(x), dtypes.uint64)
    halves = (bits, bits >> 32)
    parts = (term.cast(half & 0xFFFFFFFF, dtypes.uint32) for half in halves)
    return Complex(*(term.bitcast(part, dtypes.float32) for part in parts))


_STRUCTURAL: dict[str, Callable[[g.Node, list[Any]], g.Node | Complex]] = {
    "const": _split_const, "load": _split_load,
    "reduce": _split_reduce, "cast": _split_cast,
    "param": lambda node, src: ir.param(
        node.arg, dtypes.real_dtype(node.dtype), 2 * node.size
    ),
    "select": lambda node, src: choose(term.Term(src[0]), src[1], src[2]),
    "complex": _make_pair, "bitcast": _split_bitcast,
    "copy": lambda node, src: src[0], "stop_gradient": lambda node, src: src[0],
}  # fmt: skip


def _split_store(
    store: ir.Store, values: Mapping[g.Node, g.Node | Complex]
) -> list[ir.Store]:
    index, value = values[store.index], values[store.value]
    valid = None if store.valid is None else values[store.valid]
    assert isinstance(index, g.Node)
    assert valid is None or isinstance(valid, g.Node)
    if isinstance(value, g.Node):
        return [replace(store, index=index, value=value, valid=valid)]
    if store.combine not in ("", "add"):
        raise GraphError(
            f"complex numbers are combined in memory with {store.combine!r}; only "
            "a sum can be: reduce first, or scatter the logarithm",
            store.value.origin,
        )
    return [
        replace(store, index=_part_index(index, i), value=part.node, valid=valid)
        for i, part in enumerate(value)
    ]


# 16-bit floats.


def widen_half(kernel: ir.Kernel) -> ir.Kernel:
    """16-bit floats as float32: rounded by a cast in the user's program, and at stores.

    Before: buffer0:bf16[i] = exp(add(load(buffer1:bf16, i), x:bf16))
    After:  buffer0:bf16[i] = cast[bf16](exp(add(cast[f32](load …), x:f32)))

    Between two casts of the program a chain of operations is not rounded to 16 bits: it
    is more accurate than operation by operation, and as fast. But what decides is the
    number that would be stored: a maximum is one of the elements that it was taken of.
    What other kernels load is rounded where it is made, too:
    `build_kernel.rounds_operand`.
    """
    nodes = kernel.nodes
    if not any(dtypes.is_half(node.dtype) for node in nodes):
        return kernel
    values: dict[g.Node, g.Node] = {}
    with g.inherited_origin() as take:
        for node in nodes:
            take(node)
            values[node] = _widen(node, tuple(values[s] for s in node.src))
        stores: list[ir.Store] = []
        for store in kernel.stores:
            widened = store.over(values)
            dtype = store.value.dtype
            if dtypes.is_half(dtype):
                widened = replace(widened, value=_narrow(widened.value, dtype))
            stores.append(widened)
    return replace(kernel, stores=tuple(stores))


def _wide(node: g.Node) -> g.Node:
    return p.cast(node, dtypes.float32)


def _narrow(node: g.Node, dtype: np.dtype[Any]) -> g.Node:
    """A float32 in 16 bits; what was 16 bits wide before is itself."""
    if node.op is p.cast_p and node.src[0].dtype == dtype:
        return node.src[0]
    return p.cast(node, dtype)


def _widen(node: g.Node, src: tuple[g.Node, ...]) -> g.Node:
    """The node with float32 in place of 16 bits; `src` is widened."""
    dtype = node.dtype
    if node.op is ir.param_p or node.op is ir.range_p:
        return node
    if node.op is ir.load_p:
        new = ir.rebuild(node, src)
        return _wide(new) if dtypes.is_half(dtype) else new
    if node.op is const_p:
        return _wide(node) if dtypes.is_half(dtype) else node
    if node.op is p.cast_p:
        return _widen_cast(node, src[0])
    if node.op is p.bitcast:
        source = node.src[0].dtype
        x = _narrow(src[0], source) if dtypes.is_half(source) else src[0]
        new = p.bitcast(x, arg=dtype)
        return _wide(new) if dtypes.is_half(dtype) else new
    if node.op is p.nextafter and dtypes.is_half(dtype):
        x, y = (term.Term(_narrow(s, dtype)) for s in src)
        return _wide(nextafter(x, y).node)
    if src == node.src:
        return node
    if dtypes.is_half(dtype):
        return g.make_node(node.op, node.aval.with_dtype(dtypes.float32), src, node.arg)
    if dtype == dtypes.bool_:
        src = tuple(map(_round_as_before, src, node.src))
    return ir.rebuild(node, src)


def _round_as_before(x: g.Node, before: g.Node) -> g.Node:
    """The float32 that `x` is after 16 bits, if that is what it was before."""
    return _wide(_narrow(x, before.dtype)) if dtypes.is_half(before.dtype) else x


def _widen_cast(node: g.Node, x: g.Node) -> g.Node:
    """A cast to 16 bits goes through float32, as everywhere, and rounds."""
    if not dtypes.is_half(node.dtype):
        return p.cast(x, node.dtype)
    if node.src[0].dtype == node.dtype:
        return x
    return _wide(_narrow(_wide(x), node.dtype))

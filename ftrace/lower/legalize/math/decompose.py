"""Rewriting of the functions that a device lacks, until only known ones are left.

Before it how exact they are, and functions of a few plain operations: signs,
neighbours, bits, and fma itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import numpy as np

from ftrace import dtypes
from ftrace.lower.legalize.math import exponential, special, term, trigonometry
from ftrace.lower.legalize.math.term import Term
from ftrace.trace.graph import Node, constant_bits, inherited_origin, rebuild, toposort

#: For each function how exact it is in float32 and in float64, in units in the last
#: place, gradual underflow included: the greatest error seen, rounded up. float32: each
#: 61st of all numbers (pow and atan2: 10⁶ pairs), against float64. float64: 5·10⁶
#: numbers, against 113 bits. Those of lgamma and digamma hold for positive arguments;
#: for negative ones near a zero of the function the error is as many units of 1.
ACCURACY: Final[dict[str, tuple[float, float]]] = {
    "exp": (0.9, 1.0), "exp2": (0.9, 1.0), "expm1": (1.4, 1.5),
    "log": (0.9, 0.9), "log2": (1.0, 0.9), "log1p": (0.9, 0.9),
    "sin": (1.2, 0.8), "cos": (1.2, 0.8), "tan": (1.0, 1.0),
    "asin": (1.2, 1.2), "acos": (1.2, 1.2), "atan": (1.2, 1.9),
    "sinh": (1.7, 1.7), "cosh": (1.4, 1.4), "tanh": (1.4, 1.4),
    "asinh": (1.9, 1.8), "acosh": (1.9, 1.9), "atanh": (2.1, 2.0),
    "erf": (1.1, 1.1), "erfc": (1.5, 1.6), "erf_inv": (2.8, 2.6),
    "lgamma": (3.6, 3.8), "digamma": (3.4, 3.9), "logistic": (2.4, 2.5),
    "cbrt": (0.9, 0.8), "rsqrt": (1.5, 1.5), "pow": (1.0, 1.1), "atan2": (1.7, 2.0),
}  # fmt: skip


def sign(x: Term) -> Term:
    """-1, 0 or 1; ±0 and NaN are themselves."""
    category = dtypes.kind(x.dtype)
    if category == "u":
        return term.select(term.eq(x, 0), x, term.number(1, x))
    if category == "i":
        return term.select(x > 0, 1, term.select(x < 0, term.number(-1, x), x))
    return term.select(x > 0.0, 1.0, term.select(x < 0.0, term.number(-1.0, x), x))


def is_finite(x: Term) -> Term:
    """|x| < ∞: false for NaN."""
    return abs(x) < term.INFINITY


def mul_zero(x: Term, y: Term) -> Term:
    """x·y, and zero where either is zero."""
    zero = term.number(0, x)
    return term.select(term.eq(x, zero) | term.eq(y, zero), zero, x * y)


def rsqrt(x: Term) -> Term:
    """1/sqrt(x): two roundings."""
    return 1.0 / term.sqrt(x)


def nextafter(x: Term, y: Term) -> Term:
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


def _is_nan(magnitude: Term, dtype: np.dtype[Any]) -> Term:
    infinity = int.from_bytes(constant_bits(term.INFINITY, dtype), sys.byteorder)
    return magnitude > infinity


_MASKS = (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F)


def popcount(x: Term) -> Term:
    """The number of bits that are set: sums in fields of 2, 4, 8, … bits.

    Source: H. S. Warren, Hacker's Delight, figure 5-2.
    """
    width = 8 * x.dtype.itemsize
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    cut = 2**width - 1
    pairs, fours, eights = (mask & cut for mask in _MASKS)
    v = term.bitcast(x, unsigned)
    v = v - ((v >> 1) & pairs)
    v = (v & fours) + ((v >> 2) & fours)
    v = (v + (v >> 4)) & eights
    shift = 8
    while shift < width:
        v = v + (v >> shift)
        shift *= 2
    return term.bitcast(v & 0x7F, x.dtype)


def fused_multiply_add(node: Node) -> Node:
    """a·b + c where no fma exists.

    A relaxed one is a product and a sum. An exact one: float32 in float64 arithmetic,
    where the product is exact; float64 by Dekker's product (|a|, |b| < 2^996).
    """
    a, b, c = map(Term, node.src)
    if node.arg == term.RELAXED:
        return (a * b + c).node
    if a.single:
        wide = term.cast(a, dtypes.float64) * term.cast(b, dtypes.float64)
        return term.cast(wide + term.cast(c, dtypes.float64), dtypes.float32).node
    product = a * b
    error = _product_error(a, b, product)
    total, rest = term.two_sum(product, c)
    high, low = term.fast_two_sum(total, rest + error)
    return (high + low).node


def _product_error(a: Term, b: Term, product: Term) -> Term:
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    return a_low * b_low - (
        ((product - a_high * b_high) - a_low * b_high) - a_high * b_low
    )


def _split(x: Term) -> tuple[Term, Term]:
    """x in two halves of 26 bits (Veltkamp)."""
    scaled = x * 134217729.0
    high = scaled - (scaled - x)
    return high, x - high


Decomposition = Callable[[Node], Node]


def _formula(function: Callable[..., Term]) -> Decomposition:
    """A function of terms as a function of the node that it replaces."""

    def expand(node: Node) -> Node:
        return function(*map(Term, node.src)).node

    expand.__name__ = function.__name__
    expand.__doc__ = function.__doc__
    return expand


#: Each function, of terms.
FORMULAS: Final = {
    "exp": exponential.exp, "exp2": exponential.exp2, "expm1": exponential.expm1,
    "logistic": exponential.logistic, "sinh": exponential.sinh,
    "cosh": exponential.cosh, "tanh": exponential.tanh, "log": exponential.log,
    "log2": exponential.log2, "log1p": exponential.log1p, "asinh": exponential.asinh,
    "acosh": exponential.acosh, "atanh": exponential.atanh, "sin": trigonometry.sin,
    "cos": trigonometry.cos, "tan": trigonometry.tan, "asin": trigonometry.asin,
    "acos": trigonometry.acos, "atan": trigonometry.atan, "atan2": trigonometry.atan2,
    "cbrt": exponential.cbrt, "pow": exponential.power, "erf": special.erf,
    "erfc": special.erfc, "erf_inv": special.erf_inv, "lgamma": special.lgamma,
    "digamma": special.digamma, "far_quadrant": trigonometry.far_quadrant,
    "far_remainder": trigonometry.far_remainder, "far_rest": trigonometry.far_rest,
    "ldexp": exponential.scale_by_power, "mantissa": exponential.mantissa_by_bits,
    "exponent": exponential.exponent_by_bits, "rsqrt": rsqrt, "sign": sign,
    "nextafter": nextafter, "is_finite": is_finite, "mul_zero": mul_zero,
    "popcount": popcount,
}  # fmt: skip

#: Those that a device takes instead which can look numbers up in the tables.
BY_TABLES: Final = {
    "tanh": (special.tanh_in_pieces, special.TABLES_OF_32.keys()),
    "erf": (special.erf_in_pieces, special.TABLES_OF_32.keys()),
    "erfc": (special.erfc_in_pieces, special.TABLES_OF_32.keys()),
}

#: For each operation that a device may lack, what computes it from simpler ones; users
#: add more (`extend.py`), for one process.
DECOMPOSITIONS: Final[dict[str, Decomposition]] = {"fma": fused_multiply_add} | {
    name: _formula(function) for name, function in FORMULAS.items()
}


def formula(name: str, has: Collection[str]) -> Callable[..., Term]:
    """The function of terms that computes `name` for a device that has these."""
    return _by_tables(has).get(name, FORMULAS[name])


def _by_tables(has: Collection[str]) -> dict[str, Callable[..., Term]]:
    """Those for a device that has these which take tables."""
    rows = BY_TABLES.items()
    return {name: f for name, (f, needs) in rows if all(t in has for t in needs)}


def decompose(roots: Sequence[Node], has: Collection[str]) -> list[Node]:
    """The roots with every operation decomposed that is not in `has`.

    Operations in neither `has` nor `DECOMPOSITIONS` stay. What they are decomposed to
    is decomposed in its turn.
    """
    better = {name: _formula(function) for name, function in _by_tables(has).items()}
    known = DECOMPOSITIONS | better
    found = list(roots)
    while any(n.op.name in known and n.op.name not in has for n in toposort(found)):
        new: dict[Node, Node] = {}
        with inherited_origin() as take:
            for node in toposort(found):
                take(node)
                made = rebuild(node, tuple([new[s] for s in node.src]))
                name = made.op.name
                lacks = name in known and name not in has
                new[node] = known[name](made) if lacks else made
        found = [new[root] for root in found]
    return found

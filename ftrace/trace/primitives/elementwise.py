"""Elementwise primitives, a row each: name, meaning, derivative.

All operands have one shape. A derivative is written as the factor of the tangent, in
terms of the operands and the result; `scale` multiplies, and lets an exact zero win
over infinity and NaN, so that a branch not taken adds nothing to a gradient.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any, cast as cast_to

import numpy as np
from typing_extensions import Unpack

from ftrace import dtypes
from ftrace.errors import DtypeError, ShapeError, UnsupportedDtypeError, ValueRangeError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.tables import memo
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Flags, Node, Nodes, constant_value, views_over
from ftrace.trace.primitives import broadcast as bc, ranges, reference, sources
from ftrace.trace.primitives.primitive import Array, Direct, Primitive, PrimitiveFields
from ftrace.trace.primitives.reference import Ufunc, convert
from ftrace.trace.primitives.sources import const_like
from ftrace.trace.symbolic import same_size

Factor = Callable[[Node, Node], Node] | Callable[[Node, Node, Node], Node]
Result = Callable[[ShapedArray], np.dtype[Any]]

#: Types of results that each primitive remembers by those of its operands.
_TYPES_CACHED = 256


def _check(name: str, kinds: str, avals: tuple[ShapedArray, ...]) -> None:
    first = avals[0]
    for aval in avals:
        if not same_size(aval.shape, first.shape):
            shapes = " and ".join(map(repr, avals))
            raise ShapeError(f"{name}: the operands differ in shape: {shapes}")
        if aval.dtype != first.dtype:
            shapes = " and ".join(map(repr, avals))
            raise DtypeError(f"{name}: the operands differ in dtype: {shapes}")
    dtypes.require_kind(name, kinds, first.dtype)


def _unless_complex(ufunc: Ufunc, meaning: Ufunc) -> Direct:
    """`direct` of what NumPy does right for real numbers."""
    return lambda aval, arg: (meaning if dtypes.is_complex(aval.dtype) else ufunc, ())


def batch_elementwise(node: Node, src: Nodes, batched: Flags) -> Node:
    """Operands without the batch axis get it by broadcasting."""
    shape = next(s.shape for s, has in zip(src, batched, strict=True) if has)
    return node.op(*[bc.broadcast_leading(s, shape) for s in src], arg=node.arg)


def total(terms: Iterable[Node | None]) -> Node | None:
    """The sum of the terms that are there; None if none is."""
    there = [term for term in terms if term is not None]
    return reduce(add, there) if there else None


def _elementwise(
    family: str,
    name: str,
    kinds: str,
    numpy: Ufunc,
    *derivatives: Factor,
    result: Result | None = None,
    **facts: Unpack[PrimitiveFields],
) -> Primitive:
    """A primitive whose derivative is a factor per operand, `f(*operands, result)`.

    No derivatives at all make it constant almost everywhere: its tangent is zero.
    """
    arity = {"unary": 1, "compare": 2, "binary": 2}[family]

    @memo(_TYPES_CACHED)
    def infer(arg: Any, *avals: ShapedArray) -> ShapedArray:
        assert len(avals) == arity, (name, avals)
        _check(name, kinds, avals)
        weak = all(aval.weak_type for aval in avals)
        dtype = avals[0].dtype if result is None else result(avals[0])
        return ShapedArray.of(avals[0].shape, dtype, weak and dtype != dtypes.bool_)

    def jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
        return total(
            [
                scale(tangent, cast_to(Any, factor)(*node.src, node))
                for tangent, factor in zip(tangents, derivatives, strict=True)
                if tangent is not None
            ]
        )

    def meaning(aval: ShapedArray, arg: Any, *xs: Any) -> Any:
        return numpy(*xs)

    if not facts.get("linear") and "jvp" not in facts:
        jumps = not derivatives and "f" in kinds
        facts = {
            "jvp": jvp if derivatives else sources.no_tangent,
            "jumps": jumps,
            **facts,
        }
    facts.setdefault("direct", lambda aval, arg: (numpy, ()))
    return Primitive(
        name, family, infer, meaning, batch_elementwise, dtypes=kinds, **facts
    )


def _to_bool(aval: ShapedArray) -> np.dtype[Any]:
    return dtypes.bool_


def _real_part(aval: ShapedArray) -> np.dtype[Any]:
    return dtypes.real_dtype(aval.dtype)


unary = partial(_elementwise, "unary")
#: One that takes many instructions, and is NaN for NaN.
_function = partial(_elementwise, "unary", cost=10, called=True, keeps_nan=True)
binary = partial(_elementwise, "binary")
_compare = partial(
    _elementwise, "compare", result=_to_bool, exact=True, takes_numbers=True
)


# Multiplication, and what makes zero win.


def is_reused(node: Node) -> bool:
    """Does a movement chain show one element several times (an `expand` below)?"""
    return any(view.op is bc.expand_p for view in views_over(node))


def product_of_contraction(total: Node) -> Node | None:
    """The product, before any cast, that a contraction is the sum of; else None.

    A contraction is a sum of products of which both factors are used again, for others:
    matmul, convolution.
    """
    if total.op is not bc.reduce_sum_p:
        return None
    (product,) = total.src
    while product.op is cast_p:
        (product,) = product.src
    both = product.op in (mul, mul_zero) and all(map(is_reused, product.src))
    return product if both else None


def scale(tangent: Node, factor: Node) -> Node:
    """tangent · factor, where an exact zero on either side gives zero.

    In a contraction (both sides repeat their elements) it is a plain product: there
    the zeros are data, and a select per term would cost more than it tells.
    """
    if factor.op is sources.const_p or tangent.op is sources.const_p:
        sides = (factor, tangent), (tangent, factor)
        others = {
            _as_factor(a.dtype, a.arg): b for a, b in sides if a.op is sources.const_p
        }
        if 0 in others:
            return sources.zeros_like(others[0])
        if 1 in others:
            return others[1]
        if 2 in others:
            return mul(tangent, factor)
    if is_reused(tangent) and is_reused(factor):
        return mul(tangent, factor)
    return mul_zero(tangent, factor)


@memo(_TYPES_CACHED)
def _as_factor(dtype: np.dtype[Any], bits: bytes) -> int | None:
    """0, 1, or 2 for any other constant; None if it is not finite."""
    (value,) = np.frombuffer(bits, dtype)
    if not np.isfinite(value):
        return None
    return 0 if value == 0 else 1 if value == 1 else 2


def _transpose_product(node: Node, ct: Node, i: int) -> Node:
    return scale(ct, node.src[1 - i])


mul = binary(
    "mul", "biufc", reference.multiply, lambda x, y, z: y, lambda x, y, z: x,
    transpose=_transpose_product, zero_at_zero=True,
    direct=lambda aval, arg: (reference.multiplication(aval), ()), takes_numbers=True,
    keeps_nan=True, range=ranges.of_mul, doc="x·y",
)  # fmt: skip
mul_zero = binary(
    "mul_zero", "iufc", reference.mul_zero, lambda x, y, z: y, lambda x, y, z: x,
    transpose=_transpose_product, zero_at_zero=True,
    doc="x·y, and zero where either is zero, also beside infinity and NaN",
)  # fmt: skip
square: Primitive = unary(
    "square", "c", reference.square, lambda x, y: add(x, x),
    zero_at_zero=True, doc="x·x of complex numbers, without a difference of squares",
)  # fmt: skip


# Arithmetic.


def _pass_on(node: Node, ct: Node, i: int) -> Node:
    return ct


def _difference_tangent(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    t, u = tangents
    if u is None:
        return t
    return neg(u) if t is None else sub(t, u)


add = binary(
    "add", "biufc", np.add, transpose=_pass_on, linear=True, exact=True,
    jvp=lambda node, t: total(t), zero_at_zero=True, takes_numbers=True,
    keeps_nan=True, range=ranges.of_add, doc="x + y",
)  # fmt: skip
sub = binary(
    "sub", "iufc", np.subtract, linear=True, jvp=_difference_tangent,
    transpose=lambda node, ct, i: neg(ct) if i else ct, zero_at_zero=True, exact=True,
    takes_numbers=True, keeps_nan=True, range=ranges.of_sub, doc="x - y",
)  # fmt: skip
neg: Primitive = unary(
    "neg", "iufc", np.negative, transpose=lambda node, ct, i: neg(ct), linear=True,
    zero_at_zero=True, keeps_nan=True, range=ranges.of_neg, zero_for="zero", doc="-x",
)  # fmt: skip
div = binary(
    "div", "iufc", reference.divide, linear=(0,),
    transpose=lambda node, ct, i: scale(ct, reciprocal(node.src[1])),
    jvp=lambda node, t: _quotient_tangent(node, t),
    direct=lambda aval, arg: (reference.division(aval), ()), takes_numbers=True,
    keeps_nan=True, range=ranges.of_div,
    doc="x/y; integers truncate toward zero, and x/0 is -1",
)  # fmt: skip


def _quotient_tangent(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    y = node.src[1]
    t, u = tangents
    top = scale(t, reciprocal(y)) if t is not None else None
    if u is None:
        return top
    return total([top, neg(scale(u, div(node, y)))])


rem = binary(
    "rem", "iuf", reference.remainder, lambda x, y, z: const_like(x, 1),
    lambda x, y, z: neg(truncate(div(x, y))), slow=30,
    doc="the remainder with the sign of x; x for an integer y = 0",
)  # fmt: skip


power = binary(
    "pow", "fc", reference.power_of_any,
    lambda x, y, z: select(
        eq(y, sources.zeros_like(y)),
        _slope_at_zero(x, y),
        mul(y, power(x, sub(y, one_like(y)))),
    ),
    lambda x, y, z: mul_zero(log(select(_is_zero(x), one_like(x), x)), z),
    direct=_unless_complex(reference.power, reference.power_of_any),
    cost=20, called=True, slow=40, doc="x to the power y",
)  # fmt: skip


def _is_zero(x: Node) -> Node:
    """Where log(x) must not be asked: 0 to a power has no slope in the power."""
    return eq(x, sources.zeros_like(x))


def _slope_at_zero(x: Node, y: Node) -> Node:
    """Of x to the power 0 in x: 0, with the slope 1/x in the power."""
    return select(_is_zero(x), sources.zeros_like(x), div(y, x))


def one_like(x: Node) -> Node:
    return const_like(x, 1)


def reciprocal(x: Node) -> Node:
    return div(one_like(x), x)


def _ties(x: Node, y: Node, z: Node) -> Node:
    """1 where x is the result, 1/2 where y is too, 0 elsewhere: a tie is shared."""
    half = const_like(x, 0.5)
    share = select(eq(y, z), half, one_like(x))
    return select(eq(x, z), share, sources.zeros_like(x))


maximum = binary(
    "max", "biuf", reference.maximum, _ties, lambda x, y, z: _ties(y, x, z),
    zero_at_zero=True, slow=4, exact=True, takes_numbers=True, keeps_nan=True,
    range=ranges.of_max, doc="the greater, +0 of two zeros; NaN wins",
)  # fmt: skip
minimum = binary(
    "min", "biuf", reference.minimum, _ties, lambda x, y, z: _ties(y, x, z),
    zero_at_zero=True, slow=4, exact=True, takes_numbers=True, keeps_nan=True,
    range=ranges.of_min, doc="the lesser, -0 of two zeros; NaN wins",
)  # fmt: skip


def _absolute_tangent(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    (x,), (t,) = node.src, tangents
    assert t is not None  # a rule is asked where some operand varies
    if dtypes.is_complex(x.dtype):  # the real part of conj(x)·t / |x|
        unit = div(conj(x), cast(maximum(node, tiny_like(node)), x.dtype))
        return real(scale(t, unit))
    return select(ge(x, sources.zeros_like(x)), t, neg(t))


def tiny_like(x: Node) -> Node:
    """The least positive normal number."""
    return const_like(x, np.finfo(x.dtype).tiny)


absolute = unary(
    "abs", "iufc", np.absolute, jvp=_absolute_tangent, zero_at_zero=True,
    result=_real_part, keeps_nan=True, range=ranges.of_abs, zero_for="zero", doc="|x|",
)  # fmt: skip


sign = unary(
    "sign", "iufc", reference.sign, zero_at_zero=True, slow=10, keeps_nan=True,
    range=(-1.0, 1.0), zero_for="zero", doc="-1, 0 or 1; x/|x|",
)  # fmt: skip
floor = unary("floor", "f", np.floor, zero_at_zero=True, doc="rounded down")
ceil = unary("ceil", "f", np.ceil, zero_at_zero=True, doc="rounded up")
truncate = unary("trunc", "f", np.trunc, zero_at_zero=True, doc="rounded toward 0")
round_even = unary(
    "round", "f", np.rint, zero_at_zero=True, doc="rounded to the nearest, ties to even"
)

# Exponential, logarithm, roots.

exp = _function(
    "exp", "fc", np.exp, lambda x, y: y, called=False, range=ranges.of_exp,
    doc="e to the power x",
)  # fmt: skip
exp2 = _function(
    "exp2", "fc", np.exp2, lambda x, y: mul(y, const_like(y, math.log(2))),
    called=False, doc="2 to the power x",
)  # fmt: skip
expm1 = _function(
    "expm1", "fc", reference.expm1, lambda x, y: add(y, one_like(y)), zero_at_zero=True,
    direct=_unless_complex(np.expm1, reference.expm1), zero_for="zero",
    doc="exp(x) - 1, exact near 0",
)  # fmt: skip
log = _function(
    "log", "fc", np.log, lambda x, y: reciprocal(x), zero_for="finite",
    doc="natural logarithm",
)  # fmt: skip
log2 = _function(
    "log2", "fc", np.log2, lambda x, y: div(const_like(x, 1 / math.log(2)), x),
    doc="logarithm to base 2",
)  # fmt: skip
log1p = _function(
    "log1p", "fc", reference.log1p, lambda x, y: reciprocal(add(x, one_like(x))),
    zero_at_zero=True, direct=_unless_complex(np.log1p, reference.log1p),
    zero_for="zero", doc="log(1 + x), exact near 0",
)  # fmt: skip
sqrt = unary(
    "sqrt", "fc", np.sqrt, lambda x, y: div(const_like(y, 0.5), y), zero_at_zero=True,
    keeps_nan=True, range=ranges.of_sqrt, zero_for="zero", doc="square root",
)  # fmt: skip


rsqrt = unary(
    "rsqrt", "fc", reference.rsqrt, lambda x, y: mul(const_like(y, -0.5), div(y, x)),
    keeps_nan=True, range=ranges.of_rsqrt, doc="1/sqrt(x)",
)  # fmt: skip
cbrt = _function(
    "cbrt", "f", np.cbrt, lambda x, y: div(const_like(y, 1 / 3), _square(y)),
    zero_at_zero=True, zero_for="zero", doc="cube root",
)  # fmt: skip


logistic = _function(
    "logistic", "fc", reference.logistic, lambda x, y: mul(y, sub(one_like(y), y)),
    called=False, range=(0.0, 1.1), doc="1/(1 + exp(-x))",
)  # fmt: skip

# Trigonometric and hyperbolic functions.


def _square(x: Node) -> Node:
    return mul(x, x)


sin = _function(
    "sin", "fc", np.sin, lambda x, y: cos(x), zero_at_zero=True, range=ranges.of_wave,
    zero_for="finite", doc="sine",
)  # fmt: skip
cos: Primitive = _function(
    "cos", "fc", np.cos, lambda x, y: neg(sin(x)), range=ranges.of_wave, doc="cosine"
)
tan = _function(
    "tan", "fc", np.tan, lambda x, y: add(one_like(y), _square(y)), zero_at_zero=True,
    zero_for="finite", doc="tangent",
)  # fmt: skip
asin = _function(
    "asin", "fc", np.arcsin, lambda x, y: rsqrt(sub(one_like(x), _square(x))),
    zero_at_zero=True, zero_for="zero", doc="inverse sine",
)  # fmt: skip
acos = _function(
    "acos", "fc", np.arccos, lambda x, y: neg(rsqrt(sub(one_like(x), _square(x)))),
    doc="inverse cosine",
)  # fmt: skip
atan = _function(
    "atan", "fc", np.arctan, lambda x, y: reciprocal(add(one_like(x), _square(x))),
    zero_at_zero=True, range=(-1.6, 1.6), zero_for="zero", doc="inverse tangent",
)  # fmt: skip
sinh = _function(
    "sinh", "fc", np.sinh, lambda x, y: cosh(x), zero_at_zero=True, zero_for="zero",
    doc="hyperbolic sine",
)  # fmt: skip
cosh: Primitive = _function(
    "cosh", "fc", np.cosh, lambda x, y: sinh(x), called=False, doc="hyperbolic cosine"
)
tanh = _function(
    "tanh", "fc", np.tanh, lambda x, y: sub(one_like(y), _square(y)), zero_at_zero=True,
    range=(-1.1, 1.1), zero_for="zero", doc="hyperbolic tangent",
)  # fmt: skip
asinh = _function(
    "asinh", "fc", np.arcsinh, lambda x, y: rsqrt(add(_square(x), one_like(x))),
    zero_at_zero=True, zero_for="zero", doc="inverse hyperbolic sine",
)  # fmt: skip
acosh = _function(
    "acosh", "fc", np.arccosh,
    lambda x, y: mul(rsqrt(sub(x, one_like(x))), rsqrt(add(x, one_like(x)))),
    doc="inverse hyperbolic cosine",
)  # fmt: skip
atanh = _function(
    "atanh", "fc", np.arctanh, lambda x, y: reciprocal(sub(one_like(x), _square(x))),
    zero_at_zero=True, doc="inverse hyperbolic tangent",
)  # fmt: skip


def _atan2_norm(y: Node, x: Node) -> Node:
    return add(_square(x), _square(y))


atan2 = binary(
    "atan2", "f", np.arctan2, lambda y, x, z: div(x, _atan2_norm(y, x)),
    lambda y, x, z: neg(div(y, _atan2_norm(y, x))), cost=10, called=True,
    doc="the angle of the point (y, x)",
)  # fmt: skip

# Special functions.

_ERF_SLOPE = 2 / math.sqrt(math.pi)


def _gauss(x: Node, factor: float) -> Node:
    return mul(const_like(x, factor), exp(neg(_square(x))))


erf = _function(
    "erf", "f", reference.erf, lambda x, y: _gauss(x, _ERF_SLOPE), zero_at_zero=True,
    slow=400, range=(-1.1, 1.1), zero_for="zero", doc="error function",
)  # fmt: skip
erfc = _function(
    "erfc", "f", reference.erfc, lambda x, y: _gauss(x, -_ERF_SLOPE), slow=400,
    range=(0.0, 2.1), doc="1 - erf(x)",
)  # fmt: skip
erf_inv = _function(
    "erf_inv", "f", reference.erf_inv,
    lambda x, y: mul(const_like(y, 1 / _ERF_SLOPE), exp(_square(y))),
    zero_at_zero=True, cost=20, slow=200, doc="inverse of erf",
)  # fmt: skip
lgamma = _function(
    "lgamma", "f", reference.lgamma, lambda x, y: digamma(x), cost=20, slow=500,
    doc="log |gamma(x)|",
)  # fmt: skip


# B_2k of the asymptotic series of trigamma, 1/z + 1/2z² + Σ B_2k/z^(2k+1) (Abramowitz &
# Stegun 6.4.12); with the argument shifted to 10 or more the remainder is below 1e-16.
_TRIGAMMA = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
_SHIFTS = 10


def _trigamma(x: Node) -> Node:
    """The slope of digamma; below 1/2 by reflection: π²/sin²(πx) - trigamma(1 - x)."""
    one = one_like(x)
    low = lt(x, const_like(x, 0.5))
    z = select(low, sub(one, x), x)
    total = sources.zeros_like(x)
    for _ in range(_SHIFTS):
        total = add(total, reciprocal(_square(z)))
        z = add(z, one)
    square = reciprocal(_square(z))
    series = sources.zeros_like(x)
    for coefficient in reversed(_TRIGAMMA):
        series = mul(add(series, const_like(x, coefficient)), square)
    head = add(one, mul(const_like(x, 0.5), reciprocal(z)))
    total = add(total, mul(add(head, series), reciprocal(z)))
    wave = reciprocal(_square(sin(mul(const_like(x, math.pi), x))))
    return select(low, sub(mul(const_like(x, math.pi**2), wave), total), total)


digamma = _function(
    "digamma", "f", reference.digamma, lambda x, y: _trigamma(x), cost=20, slow=600,
    doc="derivative of lgamma",
)  # fmt: skip

# Complex numbers. A cotangent pairs with its value without conjugation, as in JAX.

conj: Primitive = unary(
    "conj", "c", np.conjugate, transpose=lambda node, ct, i: conj(ct), linear=True,
    zero_at_zero=True, doc="complex conjugate",
)  # fmt: skip
real = unary(
    "real", "c", np.real, result=_real_part, linear=True, zero_at_zero=True,
    transpose=lambda node, ct, i: make_complex(ct, sources.zeros_like(ct)),
    doc="real part",
)  # fmt: skip
imag = unary(
    "imag", "c", np.imag, result=_real_part, linear=True, zero_at_zero=True,
    transpose=lambda node, ct, i: make_complex(sources.zeros_like(ct), neg(ct)),
    doc="imaginary part",
)  # fmt: skip


make_complex: Primitive = binary(
    "complex", "f", reference.make_complex,
    result=lambda aval: dtypes.complex_dtype(aval.dtype),
    transpose=lambda node, ct, i: neg(imag(ct)) if i else real(ct), linear=True,
    zero_at_zero=True, doc="x + iy, of float32 or float64 parts",
)  # fmt: skip

# Comparisons.

eq = _compare("eq", "biufc", np.equal, doc="x = y")
ne = _compare("ne", "biufc", np.not_equal, doc="x ≠ y")
lt = _compare("lt", "biuf", np.less, doc="x < y")
le = _compare("le", "biuf", np.less_equal, doc="x ≤ y")
gt = _compare("gt", "biuf", np.greater, doc="x > y")
ge = _compare("ge", "biuf", np.greater_equal, doc="x ≥ y")
is_finite = unary(
    "is_finite", "fc", np.isfinite, result=_to_bool, doc="neither infinite nor NaN"
)

COMPARES = (eq, ne, lt, le, gt, ge)
#: Names of those whose results are truth values.
COMPARISONS = frozenset(p.name for p in (*COMPARES, is_finite))

# Bits.

bit_and = binary("and", "biu", np.bitwise_and, zero_at_zero=True, doc="x & y")
bit_or = binary("or", "biu", np.bitwise_or, zero_at_zero=True, doc="x | y")
bit_xor = binary("xor", "biu", np.bitwise_xor, zero_at_zero=True, doc="x ^ y")
bit_not = unary("not", "biu", np.invert, doc="every bit flipped; logical for bool")
shift_left = binary(
    "shl", "iu", reference.shift_left, zero_at_zero=True, slow=15, reads_width=True,
    doc="x << y",
)  # fmt: skip
shift_right_logical = binary(
    "shr", "iu", reference.shift_right_logical, zero_at_zero=True, slow=15,
    reads_width=True, doc="x >> y, filled with 0",
)  # fmt: skip
shift_right_arithmetic = binary(
    "sar", "iu", reference.shift_right_arithmetic, zero_at_zero=True, slow=15,
    reads_width=True, doc="x >> y, filled with the sign",
)  # fmt: skip


popcount = unary(
    "popcount", "iu", reference.popcount, zero_at_zero=True, reads_width=True,
    doc="the number of bits set",
)  # fmt: skip


nextafter = binary(
    "nextafter", "f", reference.nextafter, slow=10, doc="the next number toward y"
)

# Select, casts, identities.


def _infer_select(arg: Any, *avals: ShapedArray) -> ShapedArray:
    chosen, x, y = avals
    _check("select", "biufck", (x, y))
    if chosen.dtype != dtypes.bool_ or not same_size(chosen.shape, x.shape):
        raise ShapeError(
            f"select: the predicate must be bool of shape {x.shape}, got {chosen!r}"
        )
    return ShapedArray.of(x.shape, x.dtype, x.weak_type and y.weak_type)


def _select_tangent(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    _, t, u = tangents
    zero = sources.zeros_like(node)
    return select(node.src[0], t or zero, u or zero)


def _select_value(
    aval: ShapedArray, arg: Any, chosen: Array, x: Array, y: Array
) -> Array:
    return np.where(chosen, x, np.asarray(y))


select = Primitive(
    "select", "select", _infer_select, _select_value, batch_elementwise,
    jvp=_select_tangent, linear=(1, 2), transpose=lambda node, ct, i: _select_tangent(
        node, (None, ct, None) if i == 1 else (None, None, ct)
    ),
    direct=lambda aval, arg: (np.where, ()), slow=30, exact=True, takes_numbers=True,
    doc="x where the predicate holds, y elsewhere",
)  # fmt: skip


def _infer_cast(arg: tuple[np.dtype[Any], bool], x: ShapedArray) -> ShapedArray:
    if dtypes.is_key(x.dtype) != dtypes.is_key(arg[0]):
        raise UnsupportedDtypeError(
            f"{x!r} cannot be cast to {dtypes.name_of(arg[0])}: numbers become keys by "
            "random.wrap_key_data, and keys numbers by random.key_data"
        )
    return ShapedArray.of(x.shape, *arg)


def _cast_value(aval: ShapedArray, arg: Any, x: Any) -> Any:
    return convert(x, aval.dtype)


def _cast_tangent(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    (t,) = tangents
    if t is None or not dtypes.is_inexact(node.dtype):
        return None
    return cast(t, node.dtype)


cast_p = Primitive(
    "cast", "cast", _infer_cast, _cast_value, batch_elementwise, jvp=_cast_tangent,
    transpose=lambda node, ct, i: cast(ct, node.src[0].dtype), zero_at_zero=True,
    show=lambda arg: dtypes.SHORT[arg[0]], exact=True,
    doc="to another dtype; float to integer saturates",
)  # fmt: skip


def cast(x: Node, dtype: np.dtype[Any], weak: bool = False) -> Node:
    """`x` in another dtype; constants are converted at once."""
    if x.dtype == dtype and x.aval.weak_type == weak:
        return x
    if x.op is sources.const_p:
        return sources.const(convert(constant_value(x), dtype), dtype, x.shape, weak)
    return cast_p(x, arg=(dtype, weak))


def _infer_bitcast(dtype: np.dtype[Any], x: ShapedArray) -> ShapedArray:
    if dtypes.bits_of(x.dtype) != dtypes.bits_of(dtype):
        raise DtypeError(f"bitcast: {x!r} and {dtype} differ in width")
    return x.with_dtype(dtype)


def _bitcast_value(aval: ShapedArray, dtype: np.dtype[Any], x: Array) -> Array:
    flat: Array = np.ascontiguousarray(x)
    return flat.view(dtype).reshape(x.shape)


bitcast = Primitive(
    "bitcast", "unary", _infer_bitcast, _bitcast_value, batch_elementwise,
    jvp=sources.no_tangent, zero_at_zero=True, show=lambda arg: dtypes.SHORT[arg],
    exact=True, jumps=True, reads_width=True, moves=True,
    doc="the same bits in another dtype",
)  # fmt: skip


def _same_aval(arg: Any, x: ShapedArray) -> ShapedArray:
    return x


def _same_value(aval: ShapedArray, arg: Any, x: Any) -> Any:
    return x


def identity(name: str, **facts: Unpack[PrimitiveFields]) -> Primitive:
    """One that does nothing to its operand."""
    facts = {"zero_at_zero": True, "zero_for": "zero", **facts}
    return Primitive(
        name, "identity", _same_aval, _same_value, batch_elementwise, **facts
    )


copy = identity(
    "copy", transpose=_pass_on, linear=True, keeps_nan=True, range=ranges.of_operand,
    doc="the same value, stored",
)  # fmt: skip
stop_gradient = identity(
    "stop_gradient", jvp=sources.no_tangent, keeps_nan=True, range=ranges.of_operand,
    doc="the same value, constant to derivatives",
)  # fmt: skip


# Constraints. They say how a value is divided over the devices of a mesh; a program for
# one device has none (`calls/inline.py`).


@dataclass(frozen=True)
class Constraint:
    """The argument of a constraint.

    Attributes:
      mesh: over which devices.
      spec: for each axis of the value the axes of the mesh that divide it; None where
        the constraint says nothing of it.
      why: what said it. An "argument" lies so already if it was put anywhere; what is
        "put" was elsewhere before, and so may its cotangent be.
      free: axes of the mesh along which it says nothing of any axis.
    """

    mesh: Any
    spec: tuple[tuple[Any, ...] | None, ...]
    why: str = ""
    free: frozenset[Any] = frozenset()

    def __str__(self) -> str:
        return ", ".join(
            ["?" if s is None else "·".join(map(str, s)) or "-" for s in self.spec]
        )


class _Division(threading.local):
    """Along which axes of a mesh lanes are divided, where a walk gives them."""

    names: tuple[Any, ...] = ()


division = _Division()


def _batch_constraint(node: Node, src: Nodes, batched: Flags) -> Node:
    arg: Constraint = node.arg
    names = division.names
    if names:
        _check_division(arg, names, src[0].shape[0])
    return constraint_p(src[0], arg=replace(arg, spec=(names or None, *arg.spec)))


def _check_division(arg: Constraint, names: tuple[Any, ...], size: Any) -> None:
    axes, taken = arg.mesh.axis_names, {n for part in arg.spec for n in part or ()}
    if not {*names} <= {*axes}:
        raise ValueRangeError(
            f"vmap: spmd_axis_name {names} must be axes of the mesh, which has {axes}"
        )
    if {*names} & taken:
        raise ValueRangeError(
            f"vmap spmd_axis_name cannot appear in shard_map in_specs, out_specs or in "
            f"constraints: {names} are to divide the lanes, and {arg} divides values"
        )
    parts = math.prod([arg.mesh.shape[name] for name in names])
    if size % parts:
        raise ShapeError(
            f"vmap: {size} lanes cannot be divided along spmd_axis_name {names}, into "
            f"{parts} parts"
        )


def _transpose_constraint(node: Node, ct: Node, i: int) -> Node:
    return ct if node.arg.why == "put" else constraint_p(ct, arg=node.arg)


constraint_p = Primitive(
    "sharding_constraint", "identity", _same_aval, _same_value, _batch_constraint,
    transpose=_transpose_constraint, linear=True, zero_at_zero=True, zero_for="zero",
    exact=True, doc="the same value, divided so over devices",
)  # fmt: skip

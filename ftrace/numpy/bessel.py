"""Modified Bessel functions of the first kind, of orders 0 and 1.

    |x| < 4     the power series in (x/2)²: no term is negative, nothing cancels
    beyond      exp(|x|)/√|x| · P(1/|x|), a polynomial of nearly one value

float16 and bfloat16 are computed in float32 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ftrace import dtypes
from ftrace.errors import DtypeError
from ftrace.numpy.axes import cast, choose
from ftrace.numpy.elementwise import absolute, exp, promote_inexact, sqrt
from ftrace.trace.fused import run_fused
from ftrace.trace.tracer import Value, aval_of

__all__ = ["i0"]

#: Where the series ends; where, of float64, the second polynomial begins.
_NEAR, _FAR = 4.0, 10.0
#: Terms of the series: at 4 the first left out is below 2^-28, 2^-58 of the sum.
_TERMS_SINGLE, _TERMS_DOUBLE = 11, 18
# √x·exp(-x)·I(x) in 1/x less the middle of its range: by interpolation at the nodes of
# Chebyshev with 50 digits. float32: 2^-25.6 and 2^-26.2; float64: 2^-53.9.
_SINGLE_MIDDLE, _MIDDLE_MIDDLE, _FAR_MIDDLE = 0.125, 0.175, 0.05
_I0_SINGLE = (
    -29313.1074, -1969.76428, 1925.39844, 172.584534, -57.2931824, -9.37171459,
    0.415191531, 0.322389185, 0.0947521925, 0.0470597856, 0.058795467, 0.405686349,
)  # fmt: skip
_I0_MIDDLE = (
    -665999087975.5437, -31737445100.135433, 49501655601.42419, -5132403065.105808,
    -612045870.5653644, 238632490.3895607, -34670540.5171829, 380607.29935630923,
    1134386.2663130872, -257527.7969287623, 10433.82450650576, 7526.984146066933,
    -1640.4722776396056, -52.16396240819711, 70.24155731430892, -3.119493316415979,
    -2.92484311916278, -0.039013325294351184, 0.1385987288861728,
    0.06549500390920704, 0.06436421943608339, 0.4087575723203889,
)  # fmt: skip
_I0_FAR = (
    58646112188478.83, 436261479999237.6, 13543034229587.107, -7148738562024.446,
    -310847300473.96826, 50070240615.21907, 3310577485.297935, -145504610.34371322,
    -19804397.54203246, -476258.042853761, 30954.17881709527, 3861.5376648003216,
    324.46794224398775, 32.736278541678374, 4.556080138769077, 0.8726658672390516,
    0.226508822223992, 0.0806601178887852, 0.041216271608303975,
    0.033245309054998395, 0.05291771934372416, 0.4015097608312065,
)  # fmt: skip
_I1_SINGLE = (
    32071.1953, 1835.96094, -2126.61523, -168.058578, 65.2152176, 9.86050129,
    -0.58614558, -0.384333581, -0.12028265, -0.0720488653, -0.163891762, 0.379412264,
)  # fmt: skip
_I1_MIDDLE = (
    739555313576.5886, 20451860695.572353, -51328193924.9469, 5744468197.254791,
    549714681.6932617, -241703407.2946264, 37520806.618696444, -965609.5505321452,
    -1109836.0280530804, 275076.2825607956, -14939.2018147297, -7406.398669964536,
    1808.6465728697244, 23.8026125776381, -74.93935738501584, 4.733002054358102,
    3.198322888465361, -0.018209952621607014, -0.17801570262588082,
    -0.09536239903979513, -0.17218548171683792, 0.37102013052212485,
)  # fmt: skip
_I1_FAR = (
    -271488836659637.2, -454159781586108.7, -10421918535025.158, 7480846062938.127,
    294436493277.1986, -52933101399.25171, -3323385420.8812222, 158706214.44901913,
    20529199.915956307, 473312.05043313303, -33571.929519573554, -4112.181425776744,
    -348.03775099992293, -35.69035687454999, -5.075148758266504,
    -0.9982990547934871, -0.2684685957472357, -0.10070873966504085,
    -0.056098890504770633, -0.05392058653526989, -0.1546181025351189,
    0.39133972251206706,
)  # fmt: skip
_POLYNOMIALS = (
    (_I0_SINGLE, _I0_MIDDLE, _I0_FAR), (_I1_SINGLE, _I1_MIDDLE, _I1_FAR),
)  # fmt: skip


def i0(x: Value, /) -> Any:
    """The modified Bessel function of the first kind, of order 0."""
    return bessel("i0", x, 0, scaled=False)


def bessel(name: str, x: Value, order: int, *, scaled: bool) -> Any:
    """I₀(x) or I₁(x); `scaled`: times exp(-|x|).

    Raises:
      DtypeError: x is complex.
    """
    (x,) = promote_inexact(x)
    if dtypes.is_complex(aval_of(x).dtype):
        raise DtypeError(f"{name} is not defined for complex numbers")
    return run_fused(_bessel, [x], order=order, scaled=scaled)


def horner(coefficients: Sequence[float], x: Any) -> Any:
    """A polynomial, its highest power first."""
    value: Any = coefficients[0]
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value


def _bessel(given: Any, order: int, scaled: bool) -> Any:
    x = given if given.dtype.itemsize >= 4 else cast(given, dtypes.float32)
    size = absolute(x)
    small = size < _NEAR
    near = choose(small, x, 1.0)
    series = horner(_series(order, x.dtype == dtypes.float64), 0.25 * near * near)
    low = 0.5 * near * series if order else series
    beyond = choose(small, _NEAR, size)
    high = _asymptotic(_POLYNOMIALS[order], 1 / beyond) / sqrt(beyond)
    if scaled:  # the slope of |x| at 0 counts as 0
        low = low * exp(-choose(near == 0, 0.0, absolute(near)))
    else:  # a power in two factors overflows no sooner than the function
        limit = 700.0 if x.dtype == dtypes.float64 else 85.0
        most = choose(beyond < limit, beyond, limit)
        high = high * exp(most) * exp(beyond - most)
        high = choose(beyond == math.inf, math.inf, high)
    if order:
        high = choose(x < 0, -high, high)
    return cast(choose(small, low, high), given.dtype, given.weak_type)


def _series(order: int, double: bool) -> list[float]:
    """I₀(2√y), or I₁(2√y)/√y, in y."""
    terms = range(_TERMS_DOUBLE if double else _TERMS_SINGLE)
    factorial = math.factorial
    return [1 / (factorial(k) * factorial(k + order)) for k in reversed(terms)]


def _asymptotic(polynomials: tuple[Sequence[float], ...], inverse: Any) -> Any:
    single, middle, far = polynomials
    if inverse.dtype == dtypes.float32:
        return horner(single, inverse - _SINGLE_MIDDLE)
    is_far = inverse < 1 / _FAR
    return choose(
        is_far,
        horner(far, inverse - _FAR_MIDDLE),
        horner(middle, inverse - _MIDDLE_MIDDLE),
    )

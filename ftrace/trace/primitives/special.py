"""Special functions that NumPy lacks, for real arrays: the meaning of the primitives.

Exact to rounding through Python's `math` where it has the function; these are the
reference that the devices' polynomials are tested against, not a fast path.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any  # of NumPy, whose stubs leave too much unknown


def _elementwise(
    quick: Callable[[float], float], function: Callable[[float], float]
) -> Callable[[Array], Array]:
    """`quick` of each element; where it raises for one, `function` of each."""

    def apply(x: Array) -> Array:
        wide = np.asarray(x, np.float64)
        values = wide.ravel().tolist()
        found: Array
        try:
            found = np.fromiter(map(quick, values), np.float64, len(values))
        except (ValueError, OverflowError):
            found = np.fromiter(map(function, values), np.float64, len(values))
        return found.reshape(wide.shape).astype(x.dtype, copy=False)

    return apply


def _lgamma(x: float) -> float:
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


erf = _elementwise(math.erf, math.erf)
erfc = _elementwise(math.erfc, math.erfc)
lgamma = _elementwise(math.lgamma, _lgamma)

# Coefficients of the asymptotic series of digamma: B_2k / 2k (Abramowitz & Stegun
# 6.3.18); with the argument shifted to 10 or more the remainder is below 1e-16.
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


def digamma(x: Array) -> Array:
    """The logarithmic derivative of gamma; NaN at 0 and the negative integers."""
    z = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        reflected = z < 0.5
        y = np.where(reflected, 1 - z, z)
        total = np.zeros_like(y)
        for _ in range(10):
            small = y < 10
            total = np.where(small, total - 1 / np.where(small, y, 1), total)
            y = np.where(small, y + 1, y)
        square = 1 / (y * y)
        series = np.zeros_like(y)
        for coefficient in reversed(_DIGAMMA):
            series = (series + coefficient) * square
        value = total + np.log(y) - 0.5 / y - series
        fraction = z - np.round(z)
        value = np.where(reflected, value - np.pi / np.tan(np.pi * fraction), value)
        pole = (z <= 0) & (z == np.floor(z))
        value = np.where(pole, np.nan, value)
    return value.astype(x.dtype)


# The normal quantile, accurate to 1e-16: M. Wichura, "Algorithm AS 241", Applied
# Statistics 37 (1988), PPND16. Numerator and denominator, highest power first, for the
# centre, the tails up to 1e-11, and beyond.
CENTRE = (
    (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
     4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
     1.3314166789178437745e2, 3.3871328727963666080),
    (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
     2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
     4.2313330701600911252e1, 1.0),
)  # fmt: skip
TAIL = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
     1.27045825245236838258, 3.64784832476320460504, 5.76949722146069140550,
     4.63033784615654529590, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
     1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940,
     2.05319162663775882187, 1.0),
)  # fmt: skip
FAR_TAIL = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
     2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580,
     5.46378491116411436990, 6.65790464350110377720),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
     7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
     5.99832206555887937690e-1, 1.0),
)  # fmt: skip


def _ratio(coefficients: tuple[tuple[float, ...], ...], x: Array) -> Array:
    top, bottom = (_polynomial(c, x) for c in coefficients)
    return top / bottom


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    """Horner's rule, highest power first."""
    value = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value *= x
        value += coefficient
    return value


def erf_inv(x: Array) -> Array:
    """The inverse of erf; infinite at -1 and 1, NaN beyond."""
    y = np.ravel(np.asarray(x, np.float64))
    z = y / 2
    centre = np.abs(z) <= 0.425
    result = z * _ratio(CENTRE, 0.180625 - z * z)
    outside = y[~centre]
    if outside.size:
        with np.errstate(all="ignore"):
            # 1 - |y| is exact, and decides far from the centre.
            r = np.sqrt(-np.log((1 - np.abs(outside)) / 2))
            tail = _ratio(FAR_TAIL, r - 5)
            np.copyto(tail, _ratio(TAIL, r - 1.6), where=r <= 5)
            tail[np.isinf(r)] = np.inf
        result[~centre] = np.copysign(tail, outside)
    return (result / np.sqrt(2.0)).astype(x.dtype).reshape(x.shape)

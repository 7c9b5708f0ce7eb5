"""Functions that hardware lacks, as plain arithmetic.

term.py            nodes with Python's operators, for formulas
floats.py          the parts of floating-point numbers, exact sums and products
basic.py           sign, nextafter, popcount, …, fma
exponential.py     exp, exp2, expm1, logistic, sinh, cosh, tanh
logarithm.py       log, log2, log1p, asinh, acosh, atanh
power.py           pow, cbrt
reduction.py       the remainder modulo π/2
table_functions.py  tanh, erf and log2 (for pow) by tables in registers
trigonometry.py    sin, cos, tan
inverse.py         asin, acos, atan, atan2
error.py           erf, erfc, erf_inv
gamma.py           lgamma, digamma
complex.py         all of them on pairs of real numbers
decompose.py       the rewrite
accuracy.py        bounds of the errors
"""

from __future__ import annotations

from ftrace.lower.math.accuracy import ACCURACY
from ftrace.lower.math.decompose import DECOMPOSITIONS, decompose

__all__ = ["ACCURACY", "DECOMPOSITIONS", "decompose"]

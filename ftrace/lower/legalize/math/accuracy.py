"""How exact the decompositions are.

Units in the last place, gradual underflow included: the greatest error seen, rounded
up. float32: each 61st of all numbers (pow and atan2: 10⁶ pairs), against float64.
float64: 5·10⁶ numbers, against 113 bits.
"""

from __future__ import annotations

from typing import Final

#: For each function its bounds in float32 and float64. Those of lgamma and digamma
#: hold for positive arguments; for negative ones near a zero of the function the
#: error is as many units of 1.
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

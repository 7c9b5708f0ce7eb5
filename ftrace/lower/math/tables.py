"""Logarithms by tables of 16 numbers, for processors that keep those in registers.

A float32 to a power needs log2(x) to 34 bits. With t near 1/m, m the mantissa of x,

    log2(x) = k - log2(t) + log2(1 + r),   r = m·t - 1 in [-1/32, 1/16],

which float64 has in a short polynomial, without a division. Near 1, where k is 0, t is
1 and what is left keeps its relative error.
"""

from __future__ import annotations

import math
from typing import Final

from ftrace.lower.kernel import KernelOp
from ftrace.lower.math.term import (
    Term,
    exponent,
    fma,
    lookup,
    mantissa,
    polynomial,
)


def _inverse(place: int) -> float:
    """t for the mantissas in [3/4, 3/2) whose four leading bits are `place`."""
    middle = (1 + (place + 0.5) / 16) * (1.0 if place < 8 else 0.5)
    return 1.0 if place in (0, 15) else 1 / middle


_INVERSES: Final = tuple(_inverse(place) for place in range(16))

#: The tables, by the names of the operations that look a float64 up in them.
TABLES: Final = {
    "inverse_of_16": _INVERSES,
    "log2_of_16": tuple(-math.log2(t) for t in _INVERSES),
}
_inverse_p, _log2_p = (KernelOp(name) for name in TABLES)

# log2(1 + r)/r for r in [-1/32, 1/16]: 2^-34.4.
_LOG2: Final = (
    -0.22262792792779357, 0.2884969913202866, -0.36069863901293125, 0.48089856536785197,
    -0.7213475127524244, 1.4426950408615373,
)  # fmt: skip


def log2_by_tables(x: Term) -> Term:
    """log2(x) to 2^-34 of it, in float64, for a positive finite x."""
    m = mantissa(x)
    r = fma(m, lookup(_inverse_p, m), -1.0)
    return fma(r, polynomial(r, _LOG2), exponent(x) + lookup(_log2_p, m))

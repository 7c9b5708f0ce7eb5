"""Functions of elements that NumPy lacks, done at once by compiled code.

    erf(x)   ->   kernel(x)        where a device has compiled one
                  math.erf(...)    of one number after the other, elsewhere

Such a function is compiled at its first call, for its last bits must not depend on how
often it was called; the backend knows how.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace.trace.backend import backend
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.record import Primitive

#: The functions, each of one operand.
LACKING = frozenset((p.erf, p.erfc, p.lgamma, p.digamma))


#: What computes such a function for arrays of NumPy's.
Kernel = Callable[[Any], Any]


def kernel_of(op: Primitive, dtype: np.dtype[Any]) -> Kernel | None:
    """What computes a primitive at once, if it is one of these and can be compiled."""
    return backend.find_kernel(op, dtype) if op in LACKING else None

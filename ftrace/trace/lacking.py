"""Functions of elements that NumPy lacks, done at once by compiled code.

    erf(x)   ->   kernel(x)        where a device has compiled one
                  math.erf(...)    of one number after the other, elsewhere

Such a function is compiled at its first call, for its last bits must not depend on how
often it was called; the backend knows how.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ftrace.trace.backend import backend
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.record import Primitive

#: The functions, each of one operand.
LACKING = frozenset((p.erf, p.erfc, p.lgamma, p.digamma))


class Kernel(Protocol):
    """What computes such a function for arrays of NumPy's."""

    def __call__(self, x: Any) -> Any: ...

    def address(self) -> int:
        """Of code that does the same for elements in memory; 0 if there is none."""
        ...


def address_of(function: Any) -> int:
    """The same of any function that is a step."""
    found = getattr(function, "address", None)
    return 0 if found is None else found()


def kernel_of(op: Primitive, dtype: np.dtype[Any]) -> Kernel | None:
    """What computes a primitive at once, if it is one of these and can be compiled."""
    return backend.find_kernel(op, dtype) if op in LACKING else None

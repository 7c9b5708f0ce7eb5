"""Types for annotations: what a function takes as an array, and as a dtype."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np

from ftrace.ground.missing_names import tell_missing
from ftrace.trace.arrays.array import Array


class SupportsDType(Protocol):
    """What has a dtype: an array, a scalar type of ftrace.numpy."""

    @property
    def dtype(self) -> Any: ...


#: Numbers, as Python and NumPy have them.
Number: TypeAlias = np.bool_ | np.number | bool | int | float | complex

#: Arrays, traced or not, and numbers. `isinstance(x, ArrayLike)` works.
ArrayLike: TypeAlias = Array | np.ndarray | Number

#: A dtype by any way to write it: "float32", float, np.dtype("f4"), an array.
DTypeLike: TypeAlias = str | type[Any] | np.dtype | SupportsDType

__all__ = ["ArrayLike", "DTypeLike"]


tell_missing(__name__)

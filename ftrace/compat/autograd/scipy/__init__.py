"""SciPy's functions, of boxes too; SciPy itself computes the values of others."""

# What users give and get is of any type.
# pyright: basic

from __future__ import annotations

from typing import Any

import ftrace.numpy as fnp
from ftrace.compat.autograd.core import holds_box
from ftrace.compat.autograd.lift import submodule as _submodule
from ftrace.compat.autograd.scipy import (
    integrate as integrate,
    signal as signal,
    special as special,
    stats as stats,
)


def _solve_banded(l_and_u: tuple[int, int], ab: Any, b: Any, **options: Any) -> Any:
    """x with A·x = b, of the diagonals of A: `scipy.linalg.solve_banded`."""
    if not (holds_box(ab) or holds_box(b)):
        from scipy import linalg

        return linalg.solve_banded(l_and_u, ab, b, **options)
    low, high = l_and_u
    size = ab.shape[1]
    matrix: Any = 0.0
    for row, offset in enumerate(range(high, -low - 1, -1)):
        part = ab[row, max(offset, 0) : size + min(offset, 0)]
        matrix = matrix + fnp.diag(part, offset)
    return fnp.linalg.solve(matrix, b)


linalg = _submodule(
    f"{__name__}.linalg",
    "scipy.linalg",
    "ftrace.scipy.linalg",
    {"solve_banded": _solve_banded},
)

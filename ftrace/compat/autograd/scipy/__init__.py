"""SciPy's functions, of boxes too; SciPy itself computes the values of others."""

from ftrace.compat.autograd.lift import submodule as _submodule
from ftrace.compat.autograd.scipy import (
    integrate as integrate,
    signal as signal,
    special as special,
    stats as stats,
)
from ftrace.compat.autograd.scipy.banded import solve_banded as _solve_banded

linalg = _submodule(
    f"{__name__}.linalg",
    "scipy.linalg",
    "ftrace.scipy.linalg",
    {"solve_banded": _solve_banded},
)

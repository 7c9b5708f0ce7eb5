"""JAX's `scipy`: special functions, distributions, signals, matrices, minima.

What fewer programs need is imported when it is first named.
"""

from importlib import import_module as _import_module
from types import ModuleType as _Module
from typing import TYPE_CHECKING as _TYPE_CHECKING

from ftrace.ground.missing_names import (
    no_attribute as _no_attribute,
    tell_missing as _tell_missing,
)
from ftrace.scipy import (
    fft as fft,
    linalg as linalg,
    ndimage as ndimage,
    signal as signal,
    special as special,
)

if _TYPE_CHECKING:
    from ftrace.scipy import (
        cluster as cluster,
        integrate as integrate,
        interpolate as interpolate,
        optimize as optimize,
        sparse as sparse,
        spatial as spatial,
        stats as stats,
    )

_LATER = (
    "cluster", "integrate", "interpolate", "optimize", "sparse", "spatial", "stats",
)  # fmt: skip


def __getattr__(name: str) -> _Module:
    if name not in _LATER:
        raise _no_attribute(__name__, name)
    return _import_module(f"{__name__}.{name}")


_tell_missing(__name__, _LATER)

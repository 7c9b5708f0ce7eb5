"""JAX's `scipy`: special functions, distributions, signals, matrices, minima.

Each is imported when it is first named.
"""

from importlib import import_module as _import_module
from types import ModuleType as _Module

from ftrace.ground.missing_names import (
    no_attribute as _no_attribute,
    tell_missing as _tell_missing,
)

#: Type checkers read of them in `__init__.pyi`, which docs/stubs.py makes.
_LATER = (
    "cluster", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize",
    "signal", "sparse", "spatial", "special", "stats",
)  # fmt: skip


def __getattr__(name: str) -> _Module:
    if name not in _LATER:
        raise _no_attribute(__name__, name)
    return _import_module(f"{__name__}.{name}")


_tell_missing(__name__, _LATER)

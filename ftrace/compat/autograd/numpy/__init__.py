"""NumPy's functions, of boxes too: `import autograd.numpy as np`."""

from __future__ import annotations

from ftrace.compat.autograd.lift import namespace as _namespace, submodule as _submodule
from ftrace.compat.autograd.numpy.differing import (
    LINALG as _LINALG,
    NUMPY as _NUMPY,
    PUBLIC as _PUBLIC,
)

__all__ = _PUBLIC  # pyright: ignore[reportUnsupportedDunderAll]

linalg = _submodule(
    f"{__name__}.linalg", "numpy.linalg", "ftrace.numpy.linalg", _LINALG
)
fft = _submodule(f"{__name__}.fft", "numpy.fft", "ftrace.numpy.fft")
random = _submodule(f"{__name__}.random", "numpy.random", "ftrace.random.keys")

__getattr__ = _namespace(__name__, "numpy", "ftrace.numpy", _NUMPY)

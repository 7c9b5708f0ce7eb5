"""NumPy's functions, of boxes too: `import autograd.numpy as np`."""

# What users give and get is of any type.
# pyright: basic

from __future__ import annotations

from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.compat.autograd.core import getval, holds_box
from ftrace.compat.autograd.lift import lift, namespace, submodule
from ftrace.errors import MissingRuleError

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    name for name in np.__all__ if name not in ("linalg", "fft", "random")
]

# Functions of boxes that are not those of ftrace under the same name.


def _abs(x: Any) -> Any:
    """Its slope at 0 is 0."""
    return fnp.where(x == 0, 0.0, fnp.abs(x))


def _clip(a: Any, a_min: Any = None, a_max: Any = None, **_: Any) -> Any:
    return fnp.clip(a, a_min, a_max)


def _gradient(f: Any, *varargs: Any, **options: Any) -> Any:
    found = fnp.gradient(f, *varargs, **options)
    return tuple(found) if isinstance(found, list) else found


def _partition(a: Any, kth: Any, axis: int = -1) -> Any:
    """In the order of NumPy, which says nothing of what lies on either side."""
    places = np.argpartition(getval(a), kth, axis)
    return fnp.take_along_axis(fnp.asarray(a), places, axis)


def _real_if_close(a: Any, tol: float = 100) -> Any:
    real = np.isrealobj(np.real_if_close(getval(a), tol))
    return fnp.real(a) if real else a


def _where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None and y is None:
        return np.where(getval(condition))
    if isinstance(condition, bool) and not (hasattr(x, "dtype") or hasattr(y, "dtype")):
        return x if condition else y
    boxed = holds_box(condition) or holds_box(x) or holds_box(y)
    return (fnp.where if boxed else np.where)(condition, x, y)


def _make_diagonal(D: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Matrices with the last axis of D as their diagonals.

    Raises:
      MissingRuleError: they are not the main ones, or not of the last two axes.
    """
    if offset or ((axis1, axis2) != (-1, -2) and np.ndim(D) != 1):
        raise MissingRuleError("make_diagonal makes main diagonals of the last axes")
    module = fnp if holds_box(D) else np
    return module.eye(D.shape[-1]) * module.expand_dims(D, -1)


class _Joining:
    """`np.r_` and `np.c_`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getitem__(self, parts: Any) -> Any:
        return getattr(fnp if holds_box(parts) else np, self.name)[parts]


def _triangle(x: Any, UPLO: str) -> Any:
    """The Hermitian matrix whose lower or upper triangle is that of x."""
    half, rest = (fnp.tril, -1) if UPLO == "L" else (fnp.triu, 1)
    return half(x) + fnp.conj(fnp.swapaxes(half(x, rest), -1, -2))


def _eigh(a: Any, UPLO: str = "L") -> Any:
    return fnp.linalg.eigh(_triangle(a, UPLO), UPLO)


def _eigvalsh(a: Any, UPLO: str = "L") -> Any:
    return fnp.linalg.eigvalsh(_triangle(a, UPLO))


def _lift(home: Any, **functions: Any) -> dict[str, Any]:
    return {
        name: lift(home.__name__, name, getattr(home, name), ours)
        for name, ours in functions.items()
    }


#: Name -> what `autograd.numpy` has under it.
_NUMPY: dict[str, Any] = {
    **_lift(
        np, abs=_abs, absolute=_abs, fabs=_abs, clip=_clip, gradient=_gradient,
        partition=_partition, real_if_close=_real_if_close,
    ),
    "where": _where,
    "make_diagonal": _make_diagonal,
    "row_stack": lift("numpy", "vstack", np.vstack, fnp.vstack),
    "r_": _Joining("r_"),
    "c_": _Joining("c_"),
    "__version__": np.__version__,
    "numpy_version": np.__version__,
}  # fmt: skip
_LINALG = _lift(np.linalg, eigh=_eigh, eigvalsh=_eigvalsh)

linalg = submodule(f"{__name__}.linalg", "numpy.linalg", "ftrace.numpy.linalg", _LINALG)
fft = submodule(f"{__name__}.fft", "numpy.fft", "ftrace.numpy.fft")
random = submodule(f"{__name__}.random", "numpy.random", "ftrace.random.keys")

__getattr__ = namespace(__name__, "numpy", "ftrace.numpy", _NUMPY)

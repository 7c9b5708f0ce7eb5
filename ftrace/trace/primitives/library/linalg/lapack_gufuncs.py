"""NumPy's functions of stacked matrices: one that has no factorisation is NaN.

NumPy raises for all of a batch where one matrix fails; here the others have results.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any
from typing import cast as cast_to

import numpy

np: Any = numpy  # whose stubs leave too much unknown

Array = Any  # of NumPy, whose stubs leave too much unknown


def stacked(x: Array, core: int = 2) -> Array:
    """`x` with its leading axes as one."""
    lead = x.shape[: x.ndim - core]
    return x.reshape(prod(lead), *x.shape[x.ndim - core :])


def or_nan(function: Callable[[Array], Any], a: Array) -> tuple[Array, ...]:
    """The results of a batched function of NumPy; NaN for a matrix that fails."""
    try:
        return _several(function(a))
    except np.linalg.LinAlgError:
        pass
    lead, found = a.shape[:-2], list[Any]()
    for matrix in stacked(a):
        try:
            found.append(_several(function(matrix)))
        except np.linalg.LinAlgError:
            found.append(None)
    # A matrix that every factorisation takes has results of the right shapes.
    sample = _several(function(np.eye(*a.shape[-2:], dtype=a.dtype)))
    rows = [f or tuple(np.full_like(s, np.nan) for s in sample) for f in found]
    return tuple(
        np.stack(parts).reshape(*lead, *parts[0].shape)
        for parts in zip(*rows, strict=True)
    )


def _several(value: Any) -> tuple[Array, ...]:
    return tuple(cast_to(Any, value)) if isinstance(value, tuple) else (value,)


def _or_nan_of(function: Callable[..., Any]) -> Callable[..., tuple[Array, ...]]:
    """What a function gives for stacked matrices, NaN for those that fail: a tuple."""
    return partial(or_nan, function)


def _plus_complex_zero(name: str, x: Array) -> Any:
    """A function's results, complex in any case."""
    return tuple([y + 0j for y in _several(getattr(np.linalg, name)(x))])


#: Ascending eigenvalues and eigenvectors by the triangle that is read.
eigh = {uplo: _or_nan_of(partial(np.linalg.eigh, UPLO=uplo)) for uplo in "LU"}
#: The eigenvalues alone.
eigvalsh = {uplo: _or_nan_of(partial(np.linalg.eigvalsh, UPLO=uplo)) for uplo in "LU"}
#: U, the singular values and Vᴴ, all columns or those of singular values.
svd_full = _or_nan_of(np.linalg.svd)
svd_reduced = _or_nan_of(partial(np.linalg.svd, full_matrices=False))
svdvals = _or_nan_of(np.linalg.svdvals)
cholesky = _or_nan_of(np.linalg.cholesky)
det = _or_nan_of(np.linalg.det)
slogdet = _or_nan_of(np.linalg.slogdet)
inv = _or_nan_of(np.linalg.inv)
#: Complex eigenvalues of finite matrices, and those with right eigenvectors.
eigvals = _or_nan_of(partial(_plus_complex_zero, "eigvals"))
eig = _or_nan_of(partial(_plus_complex_zero, "eig"))

"""NumPy's loops over matrices, without the Python code in front of them.

`numpy.linalg` looks at its arguments, sets how errors are told, and calls a
generalised ufunc that computes in 64 bits. For one small matrix the first two take
longer than the third. Here the ufunc is called as NumPy calls it: the bits are the
same. A matrix that has no factorisation is NaN, the others of its batch are not.

NumPy does not offer these ufuncs to others. Where one is not as expected, the public
function is called.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from math import prod
from typing import Any
from typing import cast as cast_to

import numpy

from ftrace.records import NamedTuple

np: Any = numpy  # whose stubs leave too much unknown

Array = Any  # of NumPy, whose stubs leave too much unknown
Plain = Callable[..., Any]

#: What 64 bits become of operands in 32, by the letters of the signature.
_NARROW = {
    "d": np.dtype(np.float32),
    "D": np.dtype(np.complex64),
    "i": np.dtype(np.int32),
}


# Batches.


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


# Loops.


class _Way(NamedTuple):
    """How a ufunc is called for a dtype.

    Attributes:
      signature: the dtypes that it computes in.
      results: the dtypes of what is returned, where these are others.
    """

    signature: str
    results: tuple[Any, ...] | None


def matrix_loop(name: str, real: str, wide: str, plain: Plain) -> Plain:
    """What `plain` gives for stacked matrices, NaN for those that fail: a tuple.

    Floating-point errors are told as NumPy is set to tell them.

    Args:
      name: of the ufunc.
      real, wide: its signatures for real and for complex matrices.
      plain: the function of NumPy's that calls it; it may raise LinAlgError.
    """
    ufunc = _found(name, real, wide)
    if ufunc is None:

        def call_plain(x: Array, *more: Array) -> tuple[Array, ...]:
            return or_nan(lambda one: plain(one, *more), x)

        return call_plain
    ways = {kind: _way(kind, real, wide) for kind in "fdFD"}

    def call(x: Array, *more: Array) -> tuple[Array, ...]:
        signature, results = ways[x.dtype.char]
        found = _several(ufunc(x, *more, signature=signature))
        if results is None:
            return found
        pairs = zip(found, results, strict=True)
        return tuple([one.astype(dtype, copy=False) for one, dtype in pairs])

    return call


def _found(name: str, real: str, wide: str) -> Any:
    """The ufunc; None where it is not known, or raises for what it cannot do."""
    try:
        found: Any = getattr(import_module("numpy.linalg._umath_linalg"), name, None)
    except ImportError:
        return None
    known = isinstance(found, np.ufunc) and {real, wide} <= set(found.types)
    return found if known else None


def _way(kind: str, real: str, wide: str) -> _Way:
    signature = real if kind in "fd" else wide
    if kind in "dD":
        return _Way(signature, None)
    _, results = signature.split("->")
    return _Way(signature, tuple([_NARROW[letter] for letter in results]))


def _solve(a: Array, b: Array) -> Array:
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        return np.full(
            np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + b.shape[-2:],
            np.nan,
            b.dtype,
        )


def _plus_complex_zero(name: str, x: Array) -> Any:
    """A function's results, complex in any case."""
    return tuple([y + 0j for y in _several(getattr(np.linalg, name)(x))])


#: Ascending eigenvalues and eigenvectors by the triangle that is read.
eigh = {
    "L": matrix_loop("eigh_lo", "d->dd", "D->dD", partial(np.linalg.eigh, UPLO="L")),
    "U": matrix_loop("eigh_up", "d->dd", "D->dD", partial(np.linalg.eigh, UPLO="U")),
}
#: The eigenvalues alone.
eigvalsh = {
    "L": matrix_loop(
        "eigvalsh_lo", "d->d", "D->d", partial(np.linalg.eigvalsh, UPLO="L")
    ),
    "U": matrix_loop(
        "eigvalsh_up", "d->d", "D->d", partial(np.linalg.eigvalsh, UPLO="U")
    ),
}
#: U, the singular values and Vᴴ, all columns or those of singular values.
svd_full = matrix_loop("svd_f", "d->ddd", "D->DdD", np.linalg.svd)
svd_reduced = matrix_loop(
    "svd_s", "d->ddd", "D->DdD", partial(np.linalg.svd, full_matrices=False)
)
svdvals = matrix_loop("svd", "d->d", "D->d", np.linalg.svdvals)
cholesky = matrix_loop("cholesky_lo", "d->d", "D->D", np.linalg.cholesky)
det = matrix_loop("det", "d->d", "D->D", np.linalg.det)
slogdet = matrix_loop("slogdet", "d->dd", "D->Dd", np.linalg.slogdet)
inv = matrix_loop("inv", "d->d", "D->D", np.linalg.inv)
#: (a, b, limit) -> X with least |b - a·X|, its squares, the rank, the singular values.
lstsq = matrix_loop("lstsq", "ddd->ddid", "DDd->Ddid", np.linalg.lstsq)
#: X of a·X = b.
solve = matrix_loop("solve", "dd->d", "DD->D", _solve)
#: Complex eigenvalues of finite matrices, and those with right eigenvectors.
eigvals = matrix_loop("eigvals", "d->D", "D->D", partial(_plus_complex_zero, "eigvals"))
eig = matrix_loop("eig", "d->DD", "D->DD", partial(_plus_complex_zero, "eig"))

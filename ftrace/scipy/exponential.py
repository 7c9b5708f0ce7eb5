"""The exponential of matrices: an approximant of Padé, and squaring.

    s = the least for which A / 2ˢ is small enough, by its norm
    exp(A) ≈ the approximant at A / 2ˢ, squared s times

It is a program of products and one system of equations: it has derivatives of any
order, and batches. Small matrices at hand are computed by NumPy, by the same functions.

Source: N. Higham, "The scaling and squaring method for the matrix exponential
revisited" (2005), eqs. 3.3 and 3.4, table 2.3.
"""

from __future__ import annotations

from typing import Any

import numpy

import ftrace.numpy as fnp
from ftrace.errors import DtypeError, ShapeError
from ftrace.lax.control import while_loop
from ftrace.numpy.axes import cast, static_int
from ftrace.numpy.factorizations import square
from ftrace.numpy.systems import together
from ftrace.trace.fused import run_fused
from ftrace.trace.operations import do_now
from ftrace.trace.tracer import Value
from ftrace.transforms.derivatives import jvp

np: Any = numpy  # whose stubs leave too much unknown

__all__ = ["expm", "expm_frechet"]

#: Numerators of approximants of exp, and the norms up to which they are exact: to
#: single precision [7/7], to double precision [13/13].
_SINGLE = (17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1), 3.925724783138660
_DOUBLE = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800,
    129060195264000, 10559470521600, 670442572800, 33522128640, 1323241920, 40840800,
    960960, 16380, 182, 1,
), 5.371920351148152  # fmt: skip
#: Beyond so many squarings the result is NaN.
MAX_SQUARINGS = 16


def expm(
    A: Value, *, upper_triangular: bool = False, max_squarings: int = MAX_SQUARINGS
) -> Any:
    """The exponential of square matrices (…, n, n).

    Args:
      A: the matrices.
      upper_triangular: accepted, without effect.
      max_squarings: matrices whose norm would need more are NaN.

    Raises:
      ShapeError: the matrices are not square.
      DtypeError: the dtype is float16 or bfloat16.
    """
    most = static_int(max_squarings, "expm: max_squarings")
    a = square("expm", A)
    a = cast(a, a.dtype, False)
    if a.dtype.itemsize == 2:
        raise DtypeError(
            "expm: the dtype must be float32, float64, complex64 or complex128, got "
            f"{a.dtype.name}; convert with .astype('float32')"
        )
    if a.size == 0:
        return a
    found = do_now(_at_once, a, dtype=a.dtype, weak=False, more=(most,))
    return run_fused(_exponential, [a], most=most) if found is None else found


def expm_frechet(
    A: Value, E: Value, *, method: str | None = None, compute_expm: bool = True
) -> Any:
    """(exp A, its derivative along E), or the derivative alone.

    Args:
      A, E: (…, n, n).
      method: accepted, without effect.
      compute_expm: return exp A, too.

    Raises:
      ShapeError: the matrices are not square, or differ in shape.
    """
    a, e = together(square("expm_frechet", A), square("expm_frechet", E))
    if a.shape != e.shape:
        raise ShapeError(
            "expm_frechet: the direction has the shape of the matrices, got "
            f"{a.shape} and {e.shape}"
        )
    found = jvp(expm, (a,), (e,))
    return found if compute_expm else found[1]


def _exponential(a: Any, most: int) -> Any:
    """Of traced matrices."""
    start, count, good = _start(fnp, a, most)
    last = fnp.max(count)

    def is_left(state: tuple[Any, Any]) -> Any:
        return state[0] < last

    def squared(state: tuple[Any, Any]) -> tuple[Any, Any]:
        done, y = state
        return done + 1, _squared(fnp, y, count > done)

    _, result = while_loop(is_left, squared, (fnp.zeros_like(last), start))
    return fnp.where(good, result, fnp.nan)


def _at_once(a: Any, most: int) -> Any:
    """Of matrices of NumPy's.

    Raises:
      LinAlgError: the approximant of a matrix has no inverse.
    """
    result, count, good = _start(np, a, most)
    for done in range(int(count.max())):
        result = _squared(np, result, count > done)
    return np.where(good, result, np.nan)


def _start(of: Any, a: Any, most: int) -> tuple[Any, Any, Any]:
    """Before it is squared; how often it is; and where it is finite. `of` is NumPy."""
    numerator, bound = _SINGLE if np.finfo(a.dtype).bits == 32 else _DOUBLE
    norm = of.max(of.sum(of.abs(a), axis=-2), axis=-1)[..., None, None]
    good = of.isfinite(norm)
    _, exponent = of.frexp(of.where(good, norm, 0) / bound)
    count = of.maximum(exponent, 0)
    one = of.ones((), norm.dtype)
    y = _approximant(of, of.where(good, a, 0) * of.ldexp(one, -count), numerator)
    good = good & (count <= most + 1)  # one more than JAX scales by
    return y, of.where(good, count, 0), good


def _squared(of: Any, y: Any, where: Any) -> Any:
    """Of a batch, those matrices that need it."""
    return y @ y if y.ndim == 2 else of.where(where, y @ y, y)


def _approximant(of: Any, x: Any, b: tuple[int, ...]) -> Any:
    one = of.eye(x.shape[-1], dtype=x.dtype)
    x2 = x @ x
    x4 = x2 @ x2
    x6 = x4 @ x2
    # Scaled by b[0], so that single precision holds the coefficients.
    c = [np.asarray(i / b[0], x.real.dtype) for i in b]
    odd = c[7] * x6 + c[5] * x4 + c[3] * x2 + c[1] * one
    even = c[6] * x6 + c[4] * x4 + c[2] * x2 + c[0] * one
    if len(b) > 8:
        odd = odd + x6 @ (c[13] * x6 + c[11] * x4 + c[9] * x2)
        even = even + x6 @ (c[12] * x6 + c[10] * x4 + c[8] * x2)
    odd = x @ odd
    return of.linalg.solve(even - odd, even + odd)

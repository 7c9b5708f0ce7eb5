"""Special matrices: Toeplitz and its relatives, and those of a number alone."""

# What is passed on is of any type, and so are the parameters of lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import Any

import numpy

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import DtypeError, ShapeError, ValueRangeError, one_of
from ftrace.lax.control import fori_loop, while_loop
from ftrace.numpy import axes as ax, elementwise as ew
from ftrace.numpy.factorizations import square
from ftrace.numpy.floats import finfo
from ftrace.trace.bind import bind_compound, broadcast_shapes
from ftrace.trace.eager.dispatch import owning
from ftrace.trace.primitives.library import factors
from ftrace.trace.tracing.tracer import Tracer, Value
from ftrace.transforms.grad import jvp
from ftrace.typing import ArrayLike

__all__ = [
    "block_diag", "circulant", "companion", "convolution_matrix", "dft", "expm",
    "expm_frechet", "fiedler", "fiedler_companion", "hadamard", "hankel", "helmert",
    "hilbert", "invhilbert", "invpascal", "leslie", "pascal", "toeplitz",
]  # fmt: skip


np: Any = numpy  # whose stubs leave too much unknown


@owning
def block_diag(*arrs: Value) -> Any:
    """The matrices one after the other along the diagonal, zeros elsewhere.

    Args:
      arrs: matrices; a vector is a row, a scalar is a matrix of one element.

    Raises:
      ShapeError: an operand has more than two axes.

    Example:
      >>> ft.scipy.linalg.block_diag(fnp.ones((1, 2)), fnp.array([[3.0]]))
      Array([[1., 1., 0.],
             [0., 0., 3.]], dtype=float32)
    """
    given = ew.values_together(arrs or (fnp.zeros((1, 0)),))
    blocks = [fnp.atleast_2d(x) for x in given]
    for x in blocks:
        if x.ndim > 2:
            raise ShapeError(
                "block_diag: operands of at most two axes are required, got shape "
                f"{x.shape}"
            )
    width = sum(x.shape[1] for x in blocks)
    rows: list[Any] = []
    before = 0
    for x in blocks:
        after = width - before - x.shape[1]
        rows.append(ax.pad(x, ((0, 0, 0), (before, after, 0))))
        before += x.shape[1]
    return fnp.concatenate(rows)


def toeplitz(c: Value, r: Value | None = None) -> Any:
    """The matrices of equal diagonals, by their first column and their first row.

    Args:
      c: (..., n), the first column.
      r: (..., m), the first row, of which the first element is not looked at; by
        default the conjugate of `c`.

    Example:
      >>> ft.scipy.linalg.toeplitz(fnp.array([1, 2, 3]))
      Array([[1, 2, 3],
             [2, 1, 2],
             [3, 2, 1]], dtype=int32)
    """
    column, row = _column_and_row("toeplitz", c, r, fnp.conjugate)
    *batch, n = column.shape
    m, last = row.shape[-1], len(batch)
    if n == 0 or m == 0:
        return fnp.zeros((*batch, n, m), fnp.result_type(column, row))
    sides = [fnp.flip(column, -1), ax.shrink_axis(row, last, 1, m)]
    diagonals = ax.insert_axes(fnp.concatenate(sides, axis=-1), (last,))
    if n == 1:
        return diagonals
    # Row i starts one element before row i - 1. So does, in copies of the diagonals one
    # after the other, what follows every so many elements but one.
    count = n + m - 1
    copies = ax.broadcast_to(diagonals, (*batch, n, count), "toeplitz")
    flat = ax.reshape(copies, (*batch, n * count))
    flat = ax.shrink_axis(flat, last, n - 1, n - 1 + n * (count - 1))
    rows = ax.reshape(flat, (*batch, n, count - 1))
    return ax.shrink_axis(rows, last + 1, 0, m)


def _column_and_row(
    name: str, c: Value, r: Value | None, default: Callable[[Any], Any]
) -> tuple[Any, Any]:
    """Vectors of one batch; `default` makes the row of the column."""
    column, *rest = map(
        fnp.atleast_1d, ew.values_together([c] if r is None else [c, r])
    )
    row = rest[0] if rest else default(column)
    batch = broadcast_shapes(name, [column.shape[:-1], row.shape[:-1]])
    shapes = ((*batch, x.shape[-1]) for x in (column, row))
    column, row = map(ax.broadcast_to, (column, row), shapes)
    return column, row


def hilbert(n: int) -> Any:
    """The matrix 1/(i + j + 1) of n rows.

    Raises:
      ValueRangeError: n is negative.

    Example:
      >>> ft.scipy.linalg.hilbert(2)
      Array([[1.        , 0.5       ],
             [0.5       , 0.33333334]], dtype=float32)
    """
    size = ax.check_count(n, "hilbert: n")
    dtype = dtypes.default_dtype("f")
    rows = ax.iota(dtype, (size, size), 0)
    return ax.full((), 1, dtype) / (rows + ax.iota(dtype, (size, size), 1) + 1)


def _vector(name: str, x: Value, least: int) -> Any:
    """A vector, or vectors in the last axis, of so many elements at least."""
    value = fnp.atleast_1d(x)
    if value.shape[-1] < least:
        raise ShapeError(
            f"{name}: at least {least} elements are required, got shape {value.shape}"
        )
    return value


# Of vectors.


def circulant(c: Value) -> Any:
    """The matrices (…, n, n) whose columns are `c`, each turned by one more.

    Example:
      >>> ft.scipy.linalg.circulant(fnp.array([1, 2, 3]))
      Array([[1, 3, 2],
             [2, 1, 3],
             [3, 2, 1]], dtype=int32)
    """
    x = _vector("circulant", c, 0)
    n = x.shape[-1]
    rows = np.arange(n)
    return fnp.take(x, (rows[:, None] - rows) % n, axis=-1)


def hankel(c: Value, r: Value | None = None) -> Any:
    """The matrices of equal counterdiagonals, by their first column and last row.

    Args:
      c: (…, n), the first column.
      r: (…, m), the last row, of which the first element is not looked at; by default
        zeros.

    Example:
      >>> ft.scipy.linalg.hankel(fnp.array([1, 2, 3]))
      Array([[1, 2, 3],
             [2, 3, 0],
             [3, 0, 0]], dtype=int32)
    """
    column, row = _column_and_row("hankel", c, r, fnp.zeros_like)
    n, m = column.shape[-1], row.shape[-1]
    values = fnp.concatenate([column, row[..., 1:]], axis=-1)
    return fnp.take(values, np.arange(n)[:, None] + np.arange(m), axis=-1)


def companion(a: Value) -> Any:
    """The matrices (…, n-1, n-1) whose eigenvalues are the roots of polynomials.

    Args:
      a: (…, n), the coefficients, the highest power first.

    Raises:
      ShapeError: there are fewer than 2 coefficients.

    Example:
      >>> ft.scipy.linalg.companion(fnp.array([1.0, -3.0, 2.0]))
      Array([[ 3., -2.],
             [ 1.,  0.]], dtype=float32)
    """
    x = ew.inexact(_vector("companion", a, 2))
    row = -x[..., 1:] / x[..., :1]
    return _row_over_diagonal(row, fnp.ones((*x.shape[:-1], x.shape[-1] - 2), x.dtype))


def _row_over_diagonal(row: Any, below: Any) -> Any:
    """A first row (…, n), and (…, n - 1) below the diagonal."""
    n = row.shape[-1]
    here = fnp.eye(n - 1, n, dtype=bool)  # chosen: 0 times NaN is no 0
    rest = fnp.where(here, ax.insert_axes(below, (below.ndim,)), 0)
    return fnp.concatenate([ax.insert_axes(row, (row.ndim - 1,)), rest], axis=-2)


def leslie(f: Value, s: Value) -> Any:
    """Leslie's matrices: fecundities (…, n) in the first row, survival below it.

    Args:
      f: (…, n).
      s: (…, n - 1).

    Raises:
      ShapeError: `s` has not one element less than `f`.

    Example:
      >>> ft.scipy.linalg.leslie(fnp.array([0.5, 2.0]), fnp.array([0.3]))
      Array([[0.5, 2. ],
             [0.3, 0. ]], dtype=float32)
    """
    row, below = (fnp.atleast_1d(x) for x in (f, s))
    if row.shape[-1] != below.shape[-1] + 1 or row.shape[-1] < 2:
        raise ShapeError(
            "leslie: n >= 2 fecundities and n - 1 rates of survival are required, got "
            f"the shapes {row.shape} and {below.shape}"
        )
    dtype = fnp.result_type(row, below)
    return _row_over_diagonal(row.astype(dtype), below.astype(dtype))


def fiedler(a: Value) -> Any:
    """The matrices |aᵢ - aⱼ|.

    Args:
      a: (…, n).

    Example:
      >>> ft.scipy.linalg.fiedler(fnp.array([1, 4, 6]))
      Array([[0, 3, 5],
             [3, 0, 2],
             [5, 2, 0]], dtype=int32)
    """
    x = fnp.atleast_1d(a)
    return fnp.abs(ax.insert_axes(x, (x.ndim,)) - ax.insert_axes(x, (x.ndim - 1,)))


def fiedler_companion(a: Value) -> Any:
    """The five-diagonal matrix with the roots of a polynomial as eigenvalues.

    Args:
      a: (…, n), the coefficients, the highest power first.

    Raises:
      ShapeError: there are no coefficients.

    Example:
      >>> ft.scipy.linalg.fiedler_companion(fnp.array([1.0, -3.0, 2.0]))
      Array([[ 3., -2.],
             [ 1.,  0.]], dtype=float32)
    """
    x = ew.inexact(_vector("fiedler_companion", a, 1))
    *lead, n = x.shape
    n -= 1
    if n < 1:
        return ax.full((*lead, 0, 0), 0, x.dtype)
    if n == 1:
        return ax.reshape(-x[..., 1:] / x[..., :1], (*lead, 1, 1))
    c = x / x[..., :1]
    result = fnp.zeros((*lead, n, n), x.dtype)
    result = result.at[..., 0, 0].set(-c[..., 1]).at[..., 1, 0].set(1)
    for rows, columns, values in (
        (np.arange(0, n - 1, 2), np.arange(1, n, 2), -c[..., 2::2]),
        (np.arange(2, n, 2), np.arange(1, n - 1, 2), -c[..., 3::2]),
        (np.arange(0, n - 2, 2), np.arange(2, n, 2), 1),
        (np.arange(3, n, 2), np.arange(1, n - 2, 2), 1),
    ):
        result = result.at[..., rows, columns].set(values)
    return result


def convolution_matrix(a: Value, n: int, mode: str = "full") -> Any:
    """The matrices M of M·v = convolve(a, v, mode), for v of n elements.

    Args:
      a: (…, m).
      n: how many columns.
      mode: "full", "same" or "valid".

    Raises:
      ValueRangeError: n is not positive, or the mode unknown.

    Example:
      >>> ft.scipy.linalg.convolution_matrix(fnp.array([1, 2]), 3)
      Array([[1, 0, 0],
             [2, 1, 0],
             [0, 2, 1],
             [0, 0, 2]], dtype=int32)
    """
    one_of("convolution_matrix: mode", mode, ("full", "same", "valid"))
    size = ax.static_int(n, "convolution_matrix: n", 1)
    x = _vector("convolution_matrix", a, 1)
    m = x.shape[-1]
    zeros = fnp.zeros((*x.shape[:-1], size - 1), x.dtype)
    column, row = (fnp.concatenate([y, zeros], axis=-1) for y in (x, x[..., :1]))
    matrix = toeplitz(column, row)
    if mode == "full":
        return matrix
    least = min(m, size)
    before = (least - 1) // 2 if mode == "same" else least - 1
    after = least // 2 if mode == "same" else least - 1
    axis = matrix.ndim - 2
    return ax.shrink_axis(matrix, axis, before, matrix.shape[axis] - after)


# Of a number.


def dft(n: int, scale: str | None = None, *, dtype: Any = None) -> Any:
    """The matrix of the Fourier transform of n elements.

    Args:
      n: how many.
      scale: None, "sqrtn" or "n": what it is divided by.
      dtype: a complex one.

    Raises:
      ValueRangeError: the scale is unknown.
      DtypeError: the dtype is not complex.

    Example:
      >>> ft.scipy.linalg.dft(2).real
      Array([[ 1.,  1.],
             [ 1., -1.]], dtype=float32)
    """
    size = ax.check_count(n, "dft: n")
    count = max(size, 1)
    divisors = {None: 1.0, "sqrtn": float(count) ** 0.5, "n": float(count)}
    one_of("dft: scale", scale, divisors)
    target = dtypes.default_dtype("c") if dtype is None else dtypes.as_dtype(dtype)
    if not dtypes.is_complex(target):
        raise DtypeError(f"dft: dtype must be a complex one, got {target}")
    places = np.arange(size)
    turns = np.outer(places, places) % count / count
    return fnp.asarray((np.exp(-2j * np.pi * turns) / divisors[scale]).astype(target))


def hadamard(n: int, dtype: Any = int) -> Any:
    """The matrix of ±1 with orthogonal rows, for a power of two.

    Args:
      n: how many rows.
      dtype: of the result.

    Raises:
      ValueRangeError: n is no power of two.

    Example:
      >>> ft.scipy.linalg.hadamard(4)
      Array([[ 1,  1,  1,  1],
             [ 1, -1,  1, -1],
             [ 1,  1, -1, -1],
             [ 1, -1, -1,  1]], dtype=int32)
    """
    size = ax.check_count(n, "hadamard: n")
    if size < 1 or size & (size - 1):
        raise ValueRangeError(f"hadamard: n must be a power of two, got {size}")
    matrix = np.ones((1, 1), np.int8)
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return fnp.asarray(matrix.astype(dtypes.as_dtype(dtype)))


def helmert(n: int, full: bool = False) -> Any:
    """Helmert's orthonormal contrasts: n - 1 rows, or n if `full`.

    Args:
      n: how many columns.
      full: also a first row of equal numbers.

    Raises:
      ValueRangeError: n is not positive.

    Example:
      >>> ft.scipy.linalg.helmert(2)
      Array([[ 0.70710677, -0.70710677]], dtype=float32)
    """
    size = ax.static_int(n, "helmert: n", 1)
    rows = np.tril(np.ones((size, size)), -1) - np.diag(np.arange(size))
    rows[0] = 1
    rows /= np.sqrt((rows**2).sum(1, keepdims=True))
    chosen = rows if full else rows[1:]
    return fnp.asarray(chosen.astype(dtypes.default_dtype("f")))


def invhilbert(n: int) -> Any:
    """The inverse of the Hilbert matrix, computed in integers.

    Args:
      n: how many rows.

    Example:
      >>> ft.scipy.linalg.invhilbert(2)
      Array([[ 4., -6.],
             [-6., 12.]], dtype=float32)
    """
    size = ax.check_count(n, "invhilbert: n")
    rows = [
        [
            (-1) ** (i + j) * (i + j + 1) * comb(size + i, size - j - 1)
            * comb(size + j, size - i - 1) * comb(i + j, i) ** 2
            for j in range(size)
        ]
        for i in range(size)
    ]  # fmt: skip
    return _of_integers(rows, size)


def _of_integers(rows: Any, size: int, dtype: Any = None) -> Any:
    values = np.array(rows, np.float64).reshape(size, size)
    return fnp.asarray(values.astype(dtype or dtypes.default_dtype("f")))


_KINDS = ("symmetric", "lower", "upper")


def pascal(n: int, kind: str | None = None) -> Any:
    """Pascal's triangle as a float32 matrix.

    Args:
      n: how many rows.
      kind: "symmetric" (the default), "lower" or "upper".

    Raises:
      ValueRangeError: the kind is unknown.

    Example:
      >>> ft.scipy.linalg.pascal(3)
      Array([[1., 1., 1.],
             [1., 2., 3.],
             [1., 3., 6.]], dtype=float32)
    """
    size = ax.check_count(n, "pascal: n")
    one_of("pascal: kind", kind, (None, *_KINDS))
    if kind in (None, "symmetric"):
        rows = [[comb(i + j, i) for j in range(size)] for i in range(size)]
    else:
        rows = [[comb(i, j) for j in range(size)] for i in range(size)]
    result = _of_integers(rows, size, dtypes.float32)
    return fnp.matrix_transpose(result) if kind == "upper" else result


def invpascal(n: int, kind: str | None = None) -> Any:
    """The inverse of `pascal`, computed in integers.

    Args:
      n: how many rows.
      kind: "symmetric" (the default), "lower" or "upper".

    Raises:
      ValueRangeError: the kind is unknown.

    Example:
      >>> ft.scipy.linalg.invpascal(3)
      Array([[ 3., -3.,  1.],
             [-3.,  5., -2.],
             [ 1., -2.,  1.]], dtype=float32)
    """
    size = ax.check_count(n, "invpascal: n")
    one_of("invpascal: kind", kind, (None, *_KINDS))
    lower = [[(-1) ** (i + j) * comb(i, j) for j in range(size)] for i in range(size)]
    if kind in (None, "symmetric"):
        exact = np.array(lower, object).reshape(size, size)
        return _of_integers(exact.T.dot(exact) if size else exact, size)
    result = _of_integers(lower, size)
    return fnp.matrix_transpose(result) if kind == "upper" else result


# The exponential of matrices: an approximant of Padé, and squaring.
#
#     s = the least for which A / 2ˢ is small enough, by its norm
#     exp(A) ≈ the approximant at A / 2ˢ, squared s times
#
# It is a program of products and one system of equations: it has derivatives of any
# order, and batches.
#
# Source: N. Higham, "The scaling and squaring method for the matrix exponential
# revisited" (2005), eqs. 3.3 and 3.4, table 2.3.


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

    Example:
      >>> fnp.round(ft.scipy.linalg.expm(fnp.array([[0.0, -1.0], [1.0, 0.0]])), 4)
      Array([[ 0.5403, -0.8415],
             [ 0.8415,  0.5403]], dtype=float32)
    """
    most = ax.static_int(max_squarings, "expm: max_squarings")
    a = square("expm", A)
    a = ax.cast(a, a.dtype, False)
    if a.dtype.itemsize == 2:
        raise DtypeError(
            "expm: the dtype must be float32, float64, complex64 or complex128, got "
            f"{a.dtype.name}; convert with .astype('float32')"
        )
    if a.size == 0:
        return a
    numerator, bound = _SINGLE if fnp.finfo(a.dtype).bits == 32 else _DOUBLE
    norm = fnp.max(fnp.sum(fnp.abs(a), axis=-2), axis=-1)[..., None, None]
    good = fnp.isfinite(norm)
    count = fnp.maximum(fnp.frexp(fnp.where(good, norm, 0) / bound)[1], 0)
    small = fnp.where(good, a, 0) * fnp.ldexp(fnp.ones((), norm.dtype), -count)
    good = good & (count <= most + 1)  # one more than JAX scales by
    count = fnp.where(good, count, 0)
    last = fnp.max(count)

    def square_once(state: tuple[Any, Any]) -> tuple[Any, Any]:
        done, y = state
        twice = y @ y
        return done + 1, twice if a.ndim == 2 else fnp.where(count > done, twice, y)

    state = fnp.zeros_like(last), _approximant(small, numerator)
    if isinstance(last, Tracer):
        state = while_loop(lambda state: state[0] < last, square_once, state)
    else:
        for _ in range(int(last)):
            state = square_once(state)
    return fnp.where(good, state[1], fnp.nan)


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

    Example:
      >>> A, E = fnp.zeros((2, 2)), fnp.eye(2)
      >>> ft.scipy.linalg.expm_frechet(A, E, compute_expm=False)
      Array([[1., 0.],
             [0., 1.]], dtype=float32)
    """
    given = [square("expm_frechet", fnp.asarray(x)) for x in (A, E)]
    a, e = ew.promote_inexact(*given)
    if a.shape != e.shape:
        raise ShapeError(
            "expm_frechet: the direction has the shape of the matrices, got "
            f"{a.shape} and {e.shape}"
        )
    found = jvp(expm, (a,), (e,))
    return found if compute_expm else found[1]


def _approximant(x: Any, b: tuple[int, ...]) -> Any:
    one = fnp.eye(x.shape[-1], dtype=x.dtype)
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
    return fnp.linalg.solve(even - odd, even + odd)


def funm(A: ArrayLike, func: Callable[[Any], Any], disp: bool = True) -> Any:
    """A function of a matrix, by its Schur form. It needs SciPy; no derivative.

    Golub, Van Loan: Matrix Computations, 11.1 (the recurrence of Parlett). It loses as
    many digits as eigenvalues are close to each other.

    Args:
      A: (n, n).
      func: of arrays of complex numbers, elementwise.
      disp: False returns an estimate of the relative error, too.

    Returns:
      A complex matrix, and the estimate with `disp=False`.

    Raises:
      ShapeError: A is no square matrix.
      MissingExtraError: SciPy is not installed.

    Example:
      >>> ft.scipy.linalg.funm(fnp.diag(fnp.array([0.0, 1.0])), fnp.exp)
      Array([[1.       +0.j, 0.       +0.j],
             [0.       +0.j, 2.7182817+0.j]], dtype=complex64)
    """
    x = square("funm", A)
    if x.ndim != 2:
        raise ShapeError(f"funm: one square matrix is required, got shape {x.shape}")
    x = ax.cast(x, dtypes.complex_dtype(dtypes.real_dtype(x.dtype)))
    t, z = bind_compound(factors.schur_p, x)
    count = x.shape[-1]
    values = fnp.diagonal(t)
    gap = values[None, :] - values[:, None]
    distance = fnp.arange(count)[None, :] - fnp.arange(count)[:, None]
    safe = fnp.where(gap == 0, 1, gap)

    def above(k: Any, f: Any) -> Any:  # TF = FT, one diagonal after the other
        found = (fnp.matmul(t, f) - fnp.matmul(f, t)) / safe
        return fnp.where(distance == k, found, f)

    f = fori_loop(1, count, above, fnp.diag(ax.cast(func(values), t.dtype)))
    result = fnp.matmul(fnp.matmul(z, f), fnp.conj(z.T))
    if disp:
        return result
    eps = finfo(t.dtype).eps
    least = fnp.where(distance > 0, fnp.abs(gap), fnp.inf).min() if count > 1 else 1
    rest = fnp.abs(fnp.where(distance > 0, t, 0)).sum(0).max()
    error = fnp.minimum(1, fnp.maximum(eps, eps / least * rest))
    return result, fnp.where(
        fnp.isfinite(result).all(), fnp.where(least == 0, 1, error), fnp.inf
    )

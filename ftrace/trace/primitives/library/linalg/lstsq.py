"""Least squares.

least_squares_p(a, b, rtol) -> (x, s)    x = a⁺·b, and the singular values of a

A tall matrix is first made a small one of the same singular values. In 32 bits that is
aᴴ·a in 64: its eigenvalues are their squares, and have twice the digits. In 64 bits it
is R of a = Q·R, of some rows at a time, as long as these fit in a cache: beside a
stands b, which becomes Qᴴ·b.

Source: J. Demmel, L. Grigori, M. Hoemmen, J. Langou, "Communication-optimal parallel
and sequential QR and LU factorizations" (2012), section 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from ftrace.errors import ShapeError
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives.elementwise import add, sub
from ftrace.trace.primitives.library.library_op import host, need_matrices, real_of
from ftrace.trace.primitives.library.linalg import lapack_gufuncs
from ftrace.trace.primitives.library.linalg.matrix_nodes import (
    adjoint,
    diagonal,
    minus,
    product,
    real,
    total,
)
from ftrace.trace.primitives.library.linalg.svd import pinv_p, svd_p
from ftrace.trace.primitives.primitive import Array, Results
from ftrace.trace.symbolic.dim import same_size

np: Any = numpy  # whose stubs leave too much unknown

#: So many times as many rows as columns a tall matrix has.
_TALL = 2
#: Rows that are factorised together, for each column, and at the least.
_ROWS_OF_A_COLUMN, _LEAST_ROWS = 8, 256


def _infer(
    arg: None, a: ShapedArray, b: ShapedArray, rtol: ShapedArray
) -> tuple[ShapedArray, ...]:
    need_matrices("lstsq", a, b)
    *lead, m, n = a.shape
    if not same_size(b.shape[-2], m) or not same_size(rtol.shape, tuple(lead)):
        raise ShapeError(
            "lstsq: a (…, m, n), b (…, m, k) and one rtol per matrix are required, got "
            f"{a!r}, {b!r} and {rtol!r}"
        )
    x = ShapedArray.of((*lead, n, b.shape[-1]), a.dtype)
    return x, real_of(a, (*lead, min(m, n)))


def _least_squares(
    avals: Any, arg: None, a: Array, b: Array, rtol: Array
) -> Sequence[Array]:
    if not a.size:
        return [np.zeros(x.shape, x.dtype) for x in avals]
    return least_squares(a, b, rtol[..., None].astype(a.real.dtype))


def is_tall(m: int, n: int) -> bool:
    """Is a matrix of that many rows first made a small one?"""
    return m >= _TALL * n


def least_squares(a: Array, b: Array, limit: Array) -> tuple[Array, Array]:
    """The meaning, where `a` has elements and the limits an axis more."""
    m, n = a.shape[-2:]
    if not is_tall(m, n):
        return _by_vectors(a, b, limit)
    if a.real.dtype.itemsize == 4:
        return _by_squares(a, b, limit)
    if b.shape[-1] > n:
        return _by_vectors(a, b, limit)
    triangle = _triangle(np.concatenate([a, b], -1))[..., :n, :]
    return _by_vectors(triangle[..., :n], triangle[..., n:], limit)


def _by_vectors(a: Array, b: Array, limit: Array) -> tuple[Array, Array]:
    u, values, vh = lapack_gufuncs.svd_reduced(a)
    inverse = _inverse(values, values > limit * values[..., :1])
    return _adjoint(vh) @ (inverse * (_adjoint(u) @ b)), values


def _by_squares(a: Array, b: Array, limit: Array) -> tuple[Array, Array]:
    """In 64 bits, where the squares of 32 bits are numbers and have all their digits.

    What 32 bits tell from zero is 10⁻⁷ of the greatest singular value; its square is
    10⁻¹⁴ of that of the greatest, which 64 bits tell from zero.
    """
    wide = a.astype(np.result_type(a, np.float64))
    turned = _adjoint(wide)
    squares, v = lapack_gufuncs.eigh["L"](np.ascontiguousarray(turned @ wide))
    squares, v = squares[..., ::-1], v[..., ::-1]
    values = np.sqrt(np.maximum(squares, 0)).astype(a.real.dtype)
    inverse = _inverse(squares, values > limit * values[..., :1])
    x = v @ (inverse * (_adjoint(v) @ (turned @ b)))
    return x.astype(a.dtype), values


def _inverse(values: Array, large: Array) -> Array:
    """A column of inverses; zero where a value counts as zero."""
    if large.all():
        return np.reciprocal(values)[..., None]
    return np.where(large, 1 / np.where(large, values, 1), 0)[..., None]


def _adjoint(x: Array) -> Array:
    turned = x.swapaxes(-1, -2)
    return turned.conj() if x.dtype.kind == "c" else turned


def _triangle(x: Array) -> Array:
    """R of x = Q·R, first of blocks of rows, then of theirs."""
    m, width = x.shape[-2:]
    rows = max(_ROWS_OF_A_COLUMN * width, _LEAST_ROWS)
    count = m // rows
    if count > 1:
        lead = x.shape[:-2]
        blocks = x[..., : count * rows, :].reshape(*lead, count, rows, width)
        small = np.linalg.qr(blocks, "r").reshape(*lead, -1, width)
        x = np.concatenate([small, x[..., count * rows :, :]], -2)
    return np.linalg.qr(x, "r")


def _tangent(node: Node, tangents: Results) -> Results:
    """At constant rank, with P the pseudoinverse of a, and r = b - a·x what is left.

    x' = P·(b' - a'·x) + P·Pᴴ·a'ᴴ·r + (1 - P·a)·a'ᴴ·Pᴴ·x

    Source: as of `pinv_p`, of whose derivative this is the product with b.
    """
    a, b, rtol = node.src
    t, change, _ = tangents
    if t is None and change is None:
        return None, None
    (inverse,) = pinv_p.results(a, rtol, arg=False)
    if t is None:
        assert change is not None
        return product(inverse, change), None
    x = product(inverse, b)
    across = adjoint(t)
    rest = minus(change, product(t, x))
    assert rest is not None
    direct = product(inverse, rest)
    left = product(across, sub(b, product(a, x)))
    left = product(inverse, product(adjoint(inverse), left))
    right = product(across, product(adjoint(inverse), x))
    right = sub(right, product(inverse, product(a, right)))
    u, _, vh = svd_p.results(a, arg="reduced")
    values = real(diagonal(product(product(adjoint(u), t), adjoint(vh))))
    return total(direct, add(left, right)), values


least_squares_p = host(
    "least_squares", _infer, _least_squares, _tangent,
    doc="x with least |b - a·x|, and the singular values; up to rtol they are zero",
)  # fmt: skip

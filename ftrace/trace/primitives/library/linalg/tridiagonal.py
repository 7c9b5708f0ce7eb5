"""Hessenberg and tridiagonal forms, and systems with a tridiagonal matrix.

hessenberg_p(a) -> (H above reflections, taus)
tridiagonal_p(a, arg=lower) -> (T and reflections, diagonal, beside it, taus)
tridiagonal_solve_p(dl, d, du, b) -> X
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from ftrace.errors import ShapeError
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives.elementwise import mul
from ftrace.trace.primitives.library import library_op
from ftrace.trace.primitives.library.linalg import lapack_numpy
from ftrace.trace.primitives.library.linalg.matrix_nodes import (
    along_rows,
    minus,
    need_not_linear,
    total,
)
from ftrace.trace.primitives.movement import pad, shrink_axis
from ftrace.trace.primitives.primitive import Array, Results
from ftrace.trace.symbolic.dim import same_size

np: Any = numpy  # whose stubs leave too much unknown

#: Columns that LAPACK treats together, where it has the memory.
_MEMORY = 64

# Forms.


def _infer_hessenberg(arg: None, a: ShapedArray) -> tuple[ShapedArray, ...]:
    library_op.need_square("hessenberg", a)
    return a, a.with_shape((*a.shape[:-2], max(a.shape[-1] - 1, 0)))


def _hessenberg(avals: Any, arg: None, a: Array) -> Sequence[Array]:
    if a.shape[-1] < 2 or not a.size:
        return np.array(a), np.zeros(avals[1].shape, a.dtype)
    linalg = lapack_numpy.need_scipy("hessenberg")
    (gehrd,) = linalg.get_lapack_funcs(("gehrd",), (a,))

    def reduced(x: Array) -> Sequence[Array]:
        return gehrd(x, lwork=_MEMORY * len(x))[:2]

    return lapack_numpy.each(reduced, avals, a)


hessenberg_p = library_op.host(
    "hessenberg", _infer_hessenberg, _hessenberg,
    no_derivative="the reflections are not unique",
    doc="zeros below the first subdiagonal, by reflections on both sides",
)  # fmt: skip


def _infer_tridiagonal(lower: bool, a: ShapedArray) -> tuple[ShapedArray, ...]:
    library_op.need_square("tridiagonal", a)
    *lead, _, n = a.shape
    fewer = max(n - 1, 0)
    return (
        a,
        library_op.real_of(a, (*lead, n)),
        library_op.real_of(a, (*lead, fewer)),
        a.with_shape((*lead, fewer)),
    )


def _tridiagonal(avals: Any, lower: bool, a: Array) -> Sequence[Array]:
    if a.shape[-1] < 2 or not a.size:
        diagonal = np.diagonal(a.real, 0, -2, -1)
        return np.array(a), diagonal, *(np.zeros(x.shape, x.dtype) for x in avals[2:])
    linalg = lapack_numpy.need_scipy("tridiagonal")
    name = "hetrd" if np.iscomplexobj(a) else "sytrd"
    (trd,) = linalg.get_lapack_funcs((name,), (a,))

    def reduced(x: Array) -> Sequence[Array]:
        return trd(x, lower=int(lower), lwork=_MEMORY * len(x))[:4]

    return lapack_numpy.each(reduced, avals, a)


tridiagonal_p = library_op.host(
    "tridiagonal", _infer_tridiagonal, _tridiagonal,
    no_derivative="the reflections are not unique; use eigh",
    doc="a hermitian matrix, made tridiagonal by reflections on both sides",
)  # fmt: skip


# Systems.


def _infer_solve(
    arg: None, dl: ShapedArray, d: ShapedArray, du: ShapedArray, b: ShapedArray
) -> tuple[ShapedArray, ...]:
    library_op.need_lapack("tridiagonal_solve", dl, d, du, b)
    if (
        not same_size(dl.shape, d.shape)
        or not same_size(du.shape, d.shape)
        or not same_size(b.shape[:-1], d.shape)
    ):
        raise ShapeError(
            "tridiagonal_solve: three diagonals (…, n) and b (…, n, k) are required, "
            f"got {dl!r}, {d!r}, {du!r} and {b!r}"
        )
    return (ShapedArray.of(b.shape, b.dtype),)


def _solve(
    avals: Any, arg: None, dl: Array, d: Array, du: Array, b: Array
) -> Sequence[Array]:
    n = d.shape[-1]
    if not b.size:
        return (np.zeros(b.shape, b.dtype),)
    linalg = lapack_numpy.scipy_linalg()
    if linalg is None or n < 2:
        factors, pivots = lapack_numpy.lu(_dense(dl, d, du))
        order = lapack_numpy.permutation(pivots, n)
        return (lapack_numpy.solve_lu(factors, order, b, False, False),)
    (gtsv,) = linalg.get_lapack_funcs(("gtsv",), (d, b))
    result = np.empty(b.shape, b.dtype)
    for i in np.ndindex(*d.shape[:-1]):
        *_, x, info = gtsv(dl[i][1:], d[i], du[i][:-1], b[i])
        result[i] = x if info == 0 else np.nan
    return (result,)


def _dense(dl: Array, d: Array, du: Array) -> Array:
    rows = np.arange(d.shape[-1])
    matrix = np.zeros((*d.shape, len(rows)), d.dtype)
    matrix[..., rows, rows] = d
    matrix[..., rows[1:], rows[:-1]] = dl[..., 1:]
    matrix[..., rows[:-1], rows[1:]] = du[..., :-1]
    return matrix


def _times(dl: Node | None, d: Node | None, du: Node | None, x: Node) -> Node | None:
    """The tridiagonal matrix times x; None is zero."""
    rows = x.ndim - 2
    return total(
        None if dl is None else mul(along_rows(dl, x), _moved(x, rows, 1)),
        None if d is None else mul(along_rows(d, x), x),
        None if du is None else mul(along_rows(du, x), _moved(x, rows, -1)),
    )


def _moved(x: Node, axis: int, by: int) -> Node:
    """The elements one further on (1) or back (-1) along an axis; zero comes in."""
    n = x.shape[axis]
    if same_size(n, 0):
        return x
    pads = [(0, 0, 0)] * x.ndim
    pads[axis] = (1, 0, 0) if by > 0 else (0, 1, 0)
    kept = shrink_axis(x, axis, 0, n - 1) if by > 0 else shrink_axis(x, axis, 1, n)
    return pad(kept, tuple(pads))


def _solve_tangent(node: Node, tangents: Results) -> Results:
    dl, d, du, b = node.src
    (x,) = tridiagonal_solve_p.results(dl, d, du, b)
    change = _times(tangents[0], tangents[1], tangents[2], x)
    right = minus(tangents[3], change)
    assert right is not None
    return (tridiagonal_solve_p.results(dl, d, du, right)[0],)


def _solve_transpose(
    node: Node, cotangents: Results, linear: tuple[bool, ...]
) -> Results:
    need_not_linear("tridiagonal_solve", node, linear[:3])
    dl, d, du, _ = node.src
    (ct,) = cotangents
    if ct is None:
        return None, None, None, None
    last = d.ndim - 1
    turned = _moved(du, last, 1), d, _moved(dl, last, -1)
    return None, None, None, tridiagonal_solve_p.results(*turned, ct)[0]


tridiagonal_solve_p = library_op.host(
    "tridiagonal_solve", _infer_solve, _solve, _solve_tangent,
    transpose=_solve_transpose, doc="X of T·X = b, for T of three diagonals",
)  # fmt: skip

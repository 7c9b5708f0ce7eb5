"""cholesky, and systems with a triangular matrix.

cholesky_p(a) -> L                 a = L Lᴴ; the lower triangle of a is read
triangular_solve_p(a, b, arg=Triangular(…)) -> X     op(a) X = b or X op(a) = b
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from ftrace.errors import ShapeError
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives.elementwise import add, mul
from ftrace.trace.primitives.library import library_op
from ftrace.trace.primitives.library.library_op import Batched
from ftrace.trace.primitives.library.linalg import lapack_numpy
from ftrace.trace.primitives.library.linalg.matrix_nodes import (
    above,
    below,
    conj,
    diagonal_only,
    keep,
    minus,
    need_not_linear,
    product,
    transposed,
)
from ftrace.trace.primitives.movement import move_axis, reshape
from ftrace.trace.primitives.primitive import Array, Results
from ftrace.trace.primitives.sources import const_like
from ftrace.trace.symbolic.dim import same_size

np: Any = numpy  # whose stubs leave too much unknown

# Cholesky.


def _infer_cholesky(arg: None, a: ShapedArray) -> tuple[ShapedArray, ...]:
    library_op.need_square("cholesky", a)
    return (a,)


def _cholesky(avals: Any, arg: None, a: Array) -> Sequence[Array]:
    return (lapack_numpy.cholesky(a),)


def _cholesky_tangent(node: Node, tangents: Results) -> Results:
    """L' = L·Φ(L⁻¹ A' L⁻ᴴ), where Φ is the lower triangle with half the diagonal.

    Source: I. Murray, "Differentiation of the Cholesky decomposition" (2016), eq. 8.
    """
    (a,), (t,) = node.src, tangents
    assert t is not None
    (factor,) = cholesky_p.results(a)
    half = triangular_solve(factor, t, lower=True)
    inner = triangular_solve(
        factor, half, left_side=False, lower=True, transpose_a=True, conjugate_a=True
    )
    phi = keep(below(inner.shape, strict=True), inner)
    diagonal = mul(diagonal_only(inner), const_like(inner, 0.5))
    return (product(factor, add(phi, diagonal)),)


cholesky_p = library_op.host(
    "cholesky", _infer_cholesky, _cholesky, _cholesky_tangent,
    doc="the lower triangular L of a = L·Lᴴ; NaN where there is none",
)  # fmt: skip


# Triangular systems.


class Triangular(NamedTuple):
    """The argument of triangular_solve.

    Attributes:
      left_side: op(a) X = b; else X op(a) = b.
      lower: which triangle of `a` is read.
      transpose_a, conjugate_a: what op is.
      unit_diagonal: the diagonal is 1, whatever it holds.
    """

    left_side: bool = True
    lower: bool = False
    transpose_a: bool = False
    conjugate_a: bool = False
    unit_diagonal: bool = False


def triangular_solve(
    a: Node,
    b: Node,
    *,
    left_side: bool = True,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Node:
    """`triangular_solve_p` of nodes."""
    arg = Triangular(left_side, lower, transpose_a, conjugate_a, unit_diagonal)
    return triangular_solve_p.results(a, b, arg=arg)[0]


def _infer_solve(
    arg: Triangular, a: ShapedArray, b: ShapedArray
) -> tuple[ShapedArray, ...]:
    library_op.need_square("triangular_solve", a)
    library_op.need_matrices("triangular_solve", a, b)
    shared = b.shape[-2] if arg.left_side else b.shape[-1]
    if not same_size(a.shape[-1], shared):
        side = "(…, n, k)" if arg.left_side else "(…, k, n)"
        raise ShapeError(
            f"triangular_solve: a must be (…, n, n) and b {side}, got {a!r} and {b!r}"
        )
    return (ShapedArray.of(b.shape, b.dtype, a.weak_type and b.weak_type),)


def _solve(avals: Any, arg: Triangular, a: Array, b: Array) -> Sequence[Array]:
    if arg.left_side:
        x = lapack_numpy.solve_triangular(
            a, b, arg.lower, arg.transpose_a, arg.conjugate_a, arg.unit_diagonal
        )
        return (x,)
    x = lapack_numpy.solve_triangular(
        a,
        b.swapaxes(-1, -2),
        arg.lower,
        not arg.transpose_a,
        arg.conjugate_a,
        arg.unit_diagonal,
    )
    return (x.swapaxes(-1, -2),)


def _solve_tangent(node: Node, tangents: Results) -> Results:
    """op(a) X = b gives op(a) X' = b' - op(a') X."""
    (a, b), (t, u) = node.src, tangents
    arg: Triangular = node.arg
    change: Node | None = None
    if t is not None:
        (x,) = triangular_solve_p.results(a, b, arg=arg)
        shape = t.shape
        mask = (below if arg.lower else above)(shape, strict=arg.unit_diagonal)
        t = keep(mask, t)
        t = conj(t) if arg.conjugate_a else t
        t = transposed(t) if arg.transpose_a else t
        change = product(t, x) if arg.left_side else product(x, t)
    right = minus(u, change)
    assert right is not None
    return (triangular_solve_p.results(a, right, arg=arg)[0],)


def _solve_transpose(
    node: Node, cotangents: Results, linear: tuple[bool, ...]
) -> Results:
    need_not_linear("triangular_solve", node, linear[:1])
    (ct,) = cotangents
    if ct is None:
        return None, None
    arg: Triangular = node.arg
    turned = arg._replace(transpose_a=not arg.transpose_a)
    return None, triangular_solve_p.results(node.src[0], ct, arg=turned)[0]


def _batch_solve(
    node: Node, src: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> Batched:
    """One matrix for all lanes: their right sides become columns (rows) of one."""
    if batched[0]:
        return library_op.batch_leading(node, src, batched, size)
    a, b = src
    arg: Triangular = node.arg
    folded, unfold = fold_lanes(b, -1 if arg.left_side else -2)
    (x,) = triangular_solve_p.results(a, folded, arg=arg)
    return [unfold(x)], [True]


def fold_lanes(b: Node, axis: int) -> tuple[Node, Any]:
    """(lanes, …, n, k) -> (…, n, lanes·k), or the rows likewise; and the way back."""
    size, inner = b.shape[0], b.shape[axis]
    place = b.ndim + axis - 1  # where the lanes go, once they are taken out in front
    moved = move_axis(b, 0, place)
    shape = (*moved.shape[:place], size * inner, *moved.shape[place + 2 :])

    def unfold(x: Node) -> Node:
        return move_axis(reshape(x, moved.shape), place, 0)

    return reshape(moved, shape), unfold


triangular_solve_p = library_op.host(
    "triangular_solve", _infer_solve, _solve, _solve_tangent,
    transpose=_solve_transpose, batch=_batch_solve,
    doc="X of op(a)·X = b or X·op(a) = b, for triangular a",
)  # fmt: skip

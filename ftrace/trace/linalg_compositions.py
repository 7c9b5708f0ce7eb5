"""Operations of linear algebra that are others, put together.

    pinv_p(a, rtol, arg=hermitian) -> a⁺     V·diag(1/s)·Uᴴ of svd(a), or of eigh(a)
    least_squares_p(a, b, rtol) -> (x, s)    x = a⁺·b, and s of a; of tall matrices by
                                             what is small
    det_p(a) -> det a
    cofactors_p(a) -> its derivative         det(a)·a⁻ᵀ by lu(a); by svd(a) if a has no
                                             inverse

They are operations of their own for their derivatives. Their parts are their meaning,
in NumPy as in programs, where these become kernels.

For least squares a tall matrix is first made a small one of the same singular values.
In 32 bits that is aᴴ·a in 64: its eigenvalues are their squares, and have twice the
digits. In 64 bits it is R of a = Q·R, of some rows at a time, as long as these fit in a
cache: beside a stands b, which becomes Qᴴ·b.

Source: J. Demmel, L. Grigori, M. Hoemmen, J. Langou, "Communication-optimal parallel
and sequential QR and LU factorizations" (2012), section 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import ShapeError
from ftrace.trace.avals import ShapedArray
from ftrace.trace.control.conditional import Branches, cond_p
from ftrace.trace.eager.dispatch import calls, signature
from ftrace.trace.evaluate import NumpyPlan
from ftrace.trace.graph import Body, Node
from ftrace.trace.primitives import broadcast as bc, elementwise as p, reduction as red
from ftrace.trace.primitives.library import (
    lapack_numpy,
    library_op,
    matrix_nodes as mat,
    systems,
)
from ftrace.trace.primitives.library.factors import eigh_p, householder_factor_p, svd_p
from ftrace.trace.primitives.movement import flip, reshape
from ftrace.trace.primitives.primitive import Array, Compound, Results, items
from ftrace.trace.primitives.sources import (
    const_like,
    iota,
    stand_ins,
    variables,
    zeros_like,
)
from ftrace.trace.symbolic import same_size

#: The parts of an operation in the place of its results.
Composition = Callable[[Node], Sequence[Node]]
COMPOSITIONS: dict[Compound, Composition] = {}


def composition(
    name: str, infer: Callable[..., Any], parts: Composition, **facts: Any
) -> Compound:
    """The record of an operation that is others, put together.

    Args:
      name, infer: as of `Compound`.
      parts: its results, of a node with operands that have elements.
      facts: as of `library_op.host`.
    """

    def compute(avals: Any, arg: Any, *arrays: Array) -> Sequence[Array]:
        if not arrays[0].size:
            return [np.zeros(aval.shape, aval.dtype) for aval in avals]
        types = tuple([ShapedArray.of(x.shape, x.dtype) for x in arrays])
        key = signature("composition", op, arg, types)
        plan = calls.once(key, lambda: _plan(op, arg, types))
        return plan.run_with_errstate(arrays)

    op = library_op.host(name, infer, compute, **facts)
    COMPOSITIONS[op] = parts
    return op


def _plan(op: Compound, arg: Any, types: tuple[ShapedArray, ...]) -> NumpyPlan:
    names = variables(types, "body")
    return NumpyPlan(COMPOSITIONS[op](op(*names, arg=arg)), names)


# The pseudoinverse.


def _infer_pinv(
    hermitian: bool, a: ShapedArray, rtol: ShapedArray
) -> tuple[ShapedArray, ...]:
    library_op.need_matrices("pinv", a)
    *lead, m, n = a.shape
    if not same_size(rtol.shape, tuple(lead)):
        raise ShapeError(f"pinv: one rtol per matrix is required, got {rtol!r}")
    return (ShapedArray.of((*lead, n, m), a.dtype),)


def _pinv(whole: Node) -> Sequence[Node]:
    a, rtol = whole.src
    if whole.arg:
        u, values = eigh_p.results(a, arg=True)
        v = u
    else:
        u, values, vh = svd_p.results(a, arg="reduced")
        v = mat.adjoint(vh)
    inverse = mat.as_dtype_of(_inverse(values, rtol), a)
    return (mat.product(p.mul(v, mat.along_columns(inverse, v)), mat.adjoint(u)),)


def _inverse(values: Node, rtol: Node, squares: Node | None = None) -> Node:
    """1 over the values, or over their squares; zero for those that count as zero."""
    size = p.absolute(values)
    limit = bc.expand(reshape(p.cast(rtol, size.dtype), (*rtol.shape, 1)), size.shape)
    greatest = bc.expand(
        red.reduce(red.reduce_max_p, size, (size.ndim - 1,)), size.shape
    )
    large = p.gt(size, p.mul(limit, greatest))
    x = values if squares is None else squares
    inverse = p.reciprocal(p.select(large, x, const_like(x, 1)))
    return p.select(large, inverse, zeros_like(x))


def _pinv_tangent(node: Node, tangents: Results) -> Results:
    """At constant rank: P' = -P a' P + P Pᴴ a'ᴴ (1 - a P) + (1 - P a) a'ᴴ Pᴴ P.

    Source: G. Golub and V. Pereyra, "The differentiation of pseudo-inverses and
    nonlinear least squares problems whose variables separate" (1973), eq. 4.12.
    """
    (a, rtol), (t, _) = node.src, tangents
    if t is None:
        return (None,)
    (inverse,) = pinv_p.results(a, rtol, arg=node.arg)
    change = mat.adjoint(t)
    first = p.neg(mat.product(mat.product(inverse, t), inverse))
    left = mat.product(mat.product(inverse, mat.adjoint(inverse)), change)
    left = p.sub(left, mat.product(mat.product(left, a), inverse))
    right = mat.product(mat.product(change, mat.adjoint(inverse)), inverse)
    right = p.sub(right, mat.product(inverse, mat.product(a, right)))
    return (p.add(first, p.add(left, right)),)


pinv_p = composition(
    "pinv", _infer_pinv, _pinv, jvp=_pinv_tangent,
    doc="the pseudoinverse; singular values up to rtol times the greatest are zero",
)  # fmt: skip


# Least squares.


#: So many times as many rows as columns a tall matrix has.
_TALL = 2
#: Rows that are factorised together, for each column, and at the least.
_ROWS_OF_A_COLUMN, _LEAST_ROWS = 8, 256


def _infer_least_squares(
    arg: None, a: ShapedArray, b: ShapedArray, rtol: ShapedArray
) -> tuple[ShapedArray, ...]:
    library_op.need_matrices("lstsq", a, b)
    *lead, m, n = a.shape
    if not same_size(b.shape[-2], m) or not same_size(rtol.shape, tuple(lead)):
        raise ShapeError(
            "lstsq: a (…, m, n), b (…, m, k) and one rtol per matrix are required, got "
            f"{a!r}, {b!r} and {rtol!r}"
        )
    x = ShapedArray.of((*lead, n, b.shape[-1]), a.dtype)
    return x, library_op.real_of(a, (*lead, min(m, n)))


def _least_squares(whole: Node) -> Sequence[Node]:
    a, b, rtol = whole.src
    *_, m, n = a.shape
    if m < _TALL * n:
        return _by_vectors(a, b, rtol)
    if dtypes.real_dtype(a.dtype) == dtypes.float32:
        return _by_squares(a, b, rtol)
    if b.shape[-1] > n:
        return _by_vectors(a, b, rtol)
    small = _triangle(mat.concatenate(a, b, -1))
    rows, width = small.shape[-2:]
    right = mat.block(small, (0, rows), (n, width))
    return _by_vectors(mat.block(small, (0, rows), (0, n)), right, rtol)


def _by_vectors(a: Node, b: Node, rtol: Node) -> Sequence[Node]:
    u, values, vh = svd_p.results(a, arg="reduced")
    along = mat.product(mat.adjoint(u), b)
    inverse = mat.as_dtype_of(_inverse(values, rtol), a)
    return mat.product(
        mat.adjoint(vh), p.mul(mat.along_rows(inverse, along), along)
    ), values


def _by_squares(a: Node, b: Node, rtol: Node) -> Sequence[Node]:
    """In 64 bits, where the squares of 32 bits are numbers and have all their digits.

    What 32 bits tell from zero is 10⁻⁷ of the greatest singular value; its square is
    10⁻¹⁴ of that of the greatest, which 64 bits tell from zero.
    """
    is_complex = dtypes.is_complex(a.dtype)
    wide = p.cast(a, dtypes.complex128 if is_complex else dtypes.float64)
    adjoint = mat.adjoint(wide)
    vectors, squares = eigh_p.results(mat.product(adjoint, wide), arg=True)
    v = flip(vectors, (vectors.ndim - 1,))
    squares = flip(squares, (squares.ndim - 1,))
    values = p.cast(p.sqrt(p.maximum(squares, zeros_like(squares))), rtol.dtype)
    inverse = mat.as_dtype_of(_inverse(values, rtol, squares), v)
    along = mat.product(mat.adjoint(v), mat.product(adjoint, p.cast(b, wide.dtype)))
    x = mat.product(v, p.mul(mat.along_rows(inverse, along), along))
    return p.cast(x, a.dtype), values


def _triangle(x: Node) -> Node:
    """R of x = Q·R, first of blocks of rows, then of theirs."""
    *lead, m, width = x.shape
    rows = max(_ROWS_OF_A_COLUMN * width, _LEAST_ROWS)
    count = m // rows
    if count > 1:
        whole = mat.block(x, (0, count * rows), (0, width))
        small = _factor(reshape(whole, (*lead, count, rows, width)))
        small = reshape(small, (*lead, count * width, width))
        x = mat.concatenate(small, mat.block(x, (count * rows, m), (0, width)), -2)
    return _factor(x)


def _factor(x: Node) -> Node:
    """R, which LAPACK leaves over the reflections."""
    *_, m, width = x.shape
    factors, _ = householder_factor_p.results(x)
    return mat.upper(mat.block(factors, (0, min(m, width)), (0, width)))


def _least_squares_tangent(node: Node, tangents: Results) -> Results:
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
        return mat.product(inverse, change), None
    x = mat.product(inverse, b)
    across = mat.adjoint(t)
    rest = mat.minus(change, mat.product(t, x))
    assert rest is not None
    direct = mat.product(inverse, rest)
    left = mat.product(across, p.sub(b, mat.product(a, x)))
    left = mat.product(inverse, mat.product(mat.adjoint(inverse), left))
    right = mat.product(across, mat.product(mat.adjoint(inverse), x))
    right = p.sub(right, mat.product(inverse, mat.product(a, right)))
    u, _, vh = svd_p.results(a, arg="reduced")
    values = mat.real(
        mat.diagonal(mat.product(mat.product(mat.adjoint(u), t), mat.adjoint(vh)))
    )
    return p.total((direct, p.add(left, right))), values


least_squares_p = composition(
    "least_squares", _infer_least_squares, _least_squares, jvp=_least_squares_tangent,
    doc="x with least |b - a·x|, and the singular values; up to rtol they are zero",
)  # fmt: skip


# Determinants, and cofactors: their derivative.


def _det(avals: Any, arg: None, a: Array) -> Sequence[Array]:
    return lapack_numpy.or_nan(np.linalg.det, avals, a)


def _det_tangent(node: Node, a: Node, t: Node) -> Results:
    """The sum of a' over the cofactors: also where a has no inverse (Jacobi)."""
    (cofactors,) = cofactors_p.results(a)
    return (mat.sum_axis(mat.sum_axis(p.mul(cofactors, t), -1), -1),)


det_p = library_op.host(
    "det", library_op.of_square("det", systems.determinant_type), _det, _det_tangent,
    doc="the determinant",
)  # fmt: skip


def _cofactors(whole: Node) -> Sequence[Node]:
    """By the LU factors, of which no determinant of the batch may be zero."""
    (a,) = whole.src
    factors, pivots, order = systems.lu_p.results(a)
    size = _determinant(factors, pivots)
    good = p.bit_and(p.is_finite(size), p.ne(size, zeros_like(size)))
    count = p.cast(good, dtypes.int32)
    all_good = reshape(
        red.reduce(red.reduce_min_p, count, tuple(range(count.ndim))), ()
    )
    operands = a, factors, order, size
    names = stand_ins(operands, "body")
    bodies = tuple(
        Body(tuple(names), (by(*names),)) for by in (_by_singular_values, _by_factors)
    )
    return cond_p.results(all_good, *operands, arg=Branches(bodies))


def _determinant(factors: Node, pivots: Node) -> Node:
    """In 64 bits, where it seldom is too large or too small for a number."""
    is_complex = dtypes.is_complex(factors.dtype)
    wide = dtypes.complex128 if is_complex else dtypes.float64
    numbers = p.cast(mat.diagonal(factors), wide)
    moved = p.ne(pivots, iota(dtypes.int32, pivots.shape, pivots.ndim - 1))
    numbers = p.select(moved, p.neg(numbers), numbers)
    length = p.absolute(numbers)
    phases = p.div(numbers, p.cast(length, wide))
    last = (numbers.ndim - 1,)
    turn = red.reduce(red.reduce_prod_p, phases, last)
    size = p.mul(turn, p.cast(p.exp(bc.reduce_sum(p.log(length), last)), wide))
    return reshape(size, factors.shape[:-2])


def _by_factors(a: Node, factors: Node, order: Node, size: Node) -> Node:
    """det(a)·a⁻ᵀ, both by the same factors, so that their errors cancel."""
    eye = mat.identity(a, a.shape[-1])
    (inverse,) = systems.lu_solve_p.results(
        a, factors, order, eye, arg=systems.Op(transpose=True)
    )
    wide = p.cast(inverse, size.dtype)
    return p.cast(p.mul(mat.everywhere(size, wide), wide), a.dtype)


def _by_singular_values(a: Node, *_: Node) -> Node:
    """conj(U)·diag(∏ of the other s)·Vᵀ, times two signs. Nothing is divided."""
    u, s, vh = svd_p.results(a, arg="full")
    n = s.shape[-1]
    square = (*s.shape, n)
    each = mat.along_columns(s, zeros_like(a))
    others = p.select(mat.diagonal_mask(square), const_like(each, 1), each)
    others = reshape(red.reduce(red.reduce_prod_p, others, (len(square) - 1,)), s.shape)
    sign = p.mul(det_p.results(u)[0], det_p.results(vh)[0])
    columns = mat.along_columns(mat.as_dtype_of(others, a), u)
    result = mat.product(p.mul(mat.conj(u), columns), mat.conj(vh))
    return p.mul(mat.everywhere(sign, result), result)


def _cofactors_tangent(node: Node, a: Node, t: Node) -> Results:
    """C = det(a)·a⁻ᵀ gives C' = tr(a⁻¹a')·C - a⁻ᵀ a'ᵀ C."""
    (cofactors,) = items(node)
    change = p.mul(mat.everywhere(mat.trace(systems.solve(a, t)), cofactors), cofactors)
    solved = systems.solve(a, mat.product(mat.transpose(t), cofactors), transpose=True)
    return (p.sub(change, solved),)


cofactors_p = composition(
    "cofactors", library_op.of_square("det", ShapedArray.strong), _cofactors,
    tangent=_cofactors_tangent,
    doc="the cofactors of a square matrix: the derivative of its determinant",
)  # fmt: skip

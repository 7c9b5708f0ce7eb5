"""Operations of linear algebra that are others, put together.

    pinv(a, rtol)              ->  V·diag(1/s)·Uᴴ of svd(a), or of eigh(a)
    least_squares(a, b, rtol)  ->  the same times b; of tall matrices by what is small
    cofactors(a)               ->  det(a)·a⁻ᵀ by lu(a); by svd(a) if a has no inverse

They are operations of their own for their derivatives. Here these are known, and the
parts are kernels where the wholes would be calls of the host.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from ftrace import dtypes
from ftrace.trace.body import BODY_DEPTH
from ftrace.trace.control.cond import Branches, cond_p
from ftrace.trace.graph import Body, Node
from ftrace.trace.graph_map import Rule
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.broadcast import expand, reduce_sum
from ftrace.trace.primitives.library import matrix_nodes as mat
from ftrace.trace.primitives.library import orthogonal, systems
from ftrace.trace.primitives.library.eigen import eigh_p
from ftrace.trace.primitives.movement import flip, reshape
from ftrace.trace.primitives.primitive import items
from ftrace.trace.primitives.reduction import (
    reduce,
    reduce_max_p,
    reduce_min_p,
    reduce_prod_p,
)
from ftrace.trace.primitives.sources import const_like, iota, variable, zeros_like
from ftrace.trace.symbolic.dim import any_dynamic

#: What `config.disabled_rules` can switch off here.
DECISIONS = {
    "expand_compounds": "an operation of linear algebra is others, put together",
}


def _as_parts(whole: Node, read: Collection[int]) -> Sequence[Node] | None:
    """The parts of an operation in the place of its results."""
    shapes = [x.shape for x in (*whole.src, *items(whole))]
    if any(any_dynamic(shape) or 0 in shape for shape in shapes):
        return None
    return _COMPOUNDS[whole.op](whole)


# Pseudoinverses.


def _pinv(whole: Node) -> Sequence[Node]:
    a, rtol = whole.src
    if whole.arg:
        u, values = eigh_p.results(a, arg=True)
        v = u
    else:
        u, values, vh = orthogonal.svd_p.results(a, arg="reduced")
        v = mat.adjoint(vh)
    inverse = mat.as_dtype_of(_inverse(values, rtol), a)
    return (mat.product(p.mul(v, mat.along_columns(inverse, v)), mat.adjoint(u)),)


def _inverse(values: Node, rtol: Node, squares: Node | None = None) -> Node:
    """1 over the values, or over their squares; zero for those that count as zero."""
    size = p.absolute(values)
    limit = expand(reshape(p.cast(rtol, size.dtype), (*rtol.shape, 1)), size.shape)
    greatest = expand(reduce(reduce_max_p, size, (size.ndim - 1,)), size.shape)
    large = p.gt(size, p.mul(limit, greatest))
    x = values if squares is None else squares
    inverse = p.reciprocal(p.select(large, x, const_like(x, 1)))
    return p.select(large, inverse, zeros_like(x))


# Least squares.


def _least_squares(whole: Node) -> Sequence[Node] | None:
    a, b, rtol = whole.src
    *_, m, n = a.shape
    if not orthogonal.is_tall(m, n):
        return _by_vectors(a, b, rtol)
    single = dtypes.real_dtype(a.dtype) == dtypes.float32
    return _by_squares(a, b, rtol) if single else None


def _by_vectors(a: Node, b: Node, rtol: Node) -> Sequence[Node]:
    u, values, vh = orthogonal.svd_p.results(a, arg="reduced")
    along = mat.product(mat.adjoint(u), b)
    inverse = mat.as_dtype_of(_inverse(values, rtol), a)
    return mat.product(
        mat.adjoint(vh), p.mul(mat.along_rows(inverse, along), along)
    ), values


def _by_squares(a: Node, b: Node, rtol: Node) -> Sequence[Node]:
    """In 64 bits: see `trace/primitives/library/orthogonal.py`."""
    is_complex = dtypes.is_complex(a.dtype)
    wide = p.cast(a, dtypes.complex128 if is_complex else dtypes.float64)
    turned = mat.adjoint(wide)
    vectors, squares = eigh_p.results(mat.product(turned, wide), arg=True)
    v = flip(vectors, (vectors.ndim - 1,))
    squares = flip(squares, (squares.ndim - 1,))
    values = p.cast(p.sqrt(p.maximum(squares, zeros_like(squares))), rtol.dtype)
    inverse = mat.as_dtype_of(_inverse(values, rtol, squares), v)
    along = mat.product(mat.adjoint(v), mat.product(turned, p.cast(b, wide.dtype)))
    x = mat.product(v, p.mul(mat.along_rows(inverse, along), along))
    return p.cast(x, a.dtype), values


# Cofactors.


def _cofactors(whole: Node) -> Sequence[Node]:
    """By the LU factors, of which no determinant of the batch may be zero."""
    (a,) = whole.src
    factors, pivots, order = systems.lu_p.results(a)
    size = _determinant(factors, pivots)
    good = p.bit_and(p.is_finite(size), p.ne(size, zeros_like(size)))
    count = p.cast(good, dtypes.int32)
    all_good = reshape(reduce(reduce_min_p, count, tuple(range(count.ndim))), ())
    operands = a, factors, order, size
    names = [variable(x.aval, BODY_DEPTH, i) for i, x in enumerate(operands)]
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
    turn = reduce(reduce_prod_p, phases, last)
    size = p.mul(turn, p.cast(p.exp(reduce_sum(p.log(length), last)), wide))
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
    u, s, vh = orthogonal.svd_p.results(a, arg="full")
    n = s.shape[-1]
    square = (*s.shape, n)
    each = mat.along_columns(s, zeros_like(a))
    others = p.select(mat.diagonal_mask(square), const_like(each, 1), each)
    others = reshape(reduce(reduce_prod_p, others, (len(square) - 1,)), s.shape)
    sign = p.mul(systems.det_p.results(u)[0], systems.det_p.results(vh)[0])
    columns = mat.along_columns(mat.as_dtype_of(others, a), u)
    result = mat.product(p.mul(mat.conj(u), columns), mat.conj(vh))
    return p.mul(mat.everywhere(sign, result), result)


_COMPOUNDS: dict[Any, Callable[[Node], Sequence[Node] | None]] = {
    orthogonal.pinv_p: _pinv,
    orthogonal.least_squares_p: _least_squares,
    systems.cofactors_p: _cofactors,
}

#: The rule of each, for `convert`.
PARTS: dict[Any, Rule] = dict.fromkeys(_COMPOUNDS, _as_parts)

"""Matrices of nodes: what the derivatives of factorisations are written in.

All take (…, m, n) nodes; two operands have the same leading axes.
"""

from __future__ import annotations

from ftrace import dtypes
from ftrace.trace.avals import Shape
from ftrace.trace.graph import Node
from ftrace.trace.primitives import broadcast as bc, elementwise as p
from ftrace.trace.primitives.indexing import gather
from ftrace.trace.primitives.movement import pad, permute, reshape, shrink
from ftrace.trace.primitives.sources import const, const_like, iota, zeros_like


def conj(x: Node) -> Node:
    return p.conj(x) if dtypes.is_complex(x.dtype) else x


def real(x: Node) -> Node:
    return p.real(x) if dtypes.is_complex(x.dtype) else x


def imaginary_part(x: Node) -> Node:
    """i·Im x, of a complex x."""
    part = p.imag(x)
    return p.make_complex(zeros_like(part), part)


def transpose(x: Node) -> Node:
    last = x.ndim - 1
    return permute(x, (*range(last - 1), last, last - 1))


def adjoint(x: Node) -> Node:
    return conj(transpose(x))


def product(x: Node, y: Node) -> Node:
    """The matrix product, in the form that devices recognise."""
    *batch, m, k = x.shape
    n = y.shape[-1]
    full = (*batch, m, n, k)
    left = bc.expand(reshape(x, (*batch, m, 1, k)), full)
    right = bc.expand(reshape(transpose(y), (*batch, 1, n, k)), full)
    total = bc.reduce_sum(p.mul(left, right), (len(full) - 1,))
    return reshape(total, (*batch, m, n))


def minus(x: Node | None, y: Node | None) -> Node | None:
    """x - y, where None is zero."""
    if y is None:
        return x
    return p.neg(y) if x is None else p.sub(x, y)


# Patterns.


def diagonal_mask(shape: Shape) -> Node:
    """Which elements are on the diagonal."""
    return p.eq(_row(shape), _column(shape))


def below(shape: Shape, strict: bool = False) -> Node:
    """Which elements are on (unless strict) or below the diagonal."""
    return (p.gt if strict else p.ge)(_row(shape), _column(shape))


def above(shape: Shape, strict: bool = False) -> Node:
    """Which elements are on (unless strict) or above the diagonal."""
    return (p.gt if strict else p.ge)(_column(shape), _row(shape))


def _row(shape: Shape) -> Node:
    return iota(dtypes.int32, shape, len(shape) - 2)


def _column(shape: Shape) -> Node:
    return iota(dtypes.int32, shape, len(shape) - 1)


def keep(mask: Node, x: Node) -> Node:
    """`x` where the mask holds, zero elsewhere."""
    return p.select(mask, x, zeros_like(x))


def lower(x: Node, strict: bool = False) -> Node:
    return keep(below(x.shape, strict), x)


def upper(x: Node) -> Node:
    return keep(above(x.shape), x)


def identity(like: Node, size: int) -> Node:
    """Identity matrices with the leading axes and the dtype of another node."""
    shape = (*like.shape[:-2], size, size)
    zero, one = const(0, like.dtype, shape), const(1, like.dtype, shape)
    return p.select(diagonal_mask(shape), one, zero)


# Diagonals, rows, columns.


def diagonal(x: Node) -> Node:
    """The diagonal of square matrices: (…, n, n) -> (…, n)."""
    return sum_axis(keep(diagonal_mask(x.shape), x), -2)


def diagonal_only(x: Node) -> Node:
    return keep(diagonal_mask(x.shape), x)


def trace(x: Node) -> Node:
    return sum_axis(diagonal(x), -1)


def sum_axis(x: Node, axis: int) -> Node:
    """The sum along an axis, which goes."""
    place = axis % x.ndim
    shape = (*x.shape[:place], *x.shape[place + 1 :])
    return reshape(bc.reduce_sum(x, (place,)), shape)


def along_rows(d: Node, like: Node) -> Node:
    """(…, m) -> (…, m, n): one number per row."""
    column = reshape(d, (*d.shape, 1))
    return bc.expand(column, (*d.shape, like.shape[-1]))


def along_columns(d: Node, like: Node) -> Node:
    """(…, n) -> (…, m, n): one number per column."""
    row = reshape(d, (*d.shape[:-1], 1, d.shape[-1]))
    return bc.expand(row, (*d.shape[:-1], like.shape[-2], d.shape[-1]))


def everywhere(d: Node, like: Node) -> Node:
    """(…) -> (…, m, n): one number per matrix."""
    return bc.expand(reshape(d, (*d.shape, 1, 1)), like.shape)


def block(x: Node, rows: tuple[int, int], columns: tuple[int, int]) -> Node:
    """The rows and columns from … to …."""
    leading = tuple((0, n) for n in x.shape[:-2])
    return shrink(x, (*leading, rows, columns))


def extend(x: Node, rows: int, columns: int) -> Node:
    """So many rows and columns of zeros more, behind."""
    return pad(x, (*[(0, 0, 0)] * (x.ndim - 2), (0, rows, 0), (0, columns, 0)))


def concatenate(x: Node, y: Node, axis: int) -> Node:
    """Two matrices one after the other along an axis: -1 or -2."""
    place = axis % x.ndim
    before, after = ([(0, 0, 0)] * x.ndim for _ in range(2))
    before[place] = (x.shape[place], 0, 0)
    after[place] = (0, y.shape[place], 0)
    return p.add(pad(x, tuple(after)), pad(y, tuple(before)))


def take_rows(x: Node, rows: Node) -> Node:
    """The rows of (…, m, n) in the order (…, k) of row numbers."""
    depth = x.ndim - 2
    lanes = [iota(rows.dtype, rows.shape, a) for a in range(depth)]
    return gather(x, [*lanes, rows], tuple(range(depth + 1)))


def as_dtype_of(x: Node, like: Node) -> Node:
    """A real factor in the dtype, perhaps complex, of what it multiplies."""
    return p.cast(x, like.dtype)


def safe_inverse(x: Node) -> Node:
    """1/x, and zero where x is zero."""
    zero, one = zeros_like(x), const_like(x, 1)
    is_zero = p.eq(x, zero)
    return p.select(is_zero, zero, p.div(one, p.select(is_zero, one, x)))

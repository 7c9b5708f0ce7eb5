"""QR, eigenvalues, singular values and determinants by LAPACK, as parts of a graph.

    qr(a)        ->  permute(factor[geqrf, orgqr](permute(a))), …; geqp3 with pivots
    eigh(a)      ->  permute(factor[syevd](permute(a))), values; these alone if no
                     vector is needed, which takes a third of the time
    svd(a)       ->  permute(factor[gesdd](permute(a))), values, …
    eig(a)       ->  values and vectors of factor[geev](permute(a)), which are pairs of
                     real columns if the matrix is real; without vectors likewise
    slogdet(a)   ->  signs and logarithms of the diagonal of lu(a)

What LAPACK needs for its work are further results of the kernel, which nobody reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives.broadcast import reduce_sum
from ftrace.trace.primitives.elementwise import (
    absolute,
    add,
    bit_and,
    cast,
    eq,
    exp,
    imag,
    log,
    lt,
    make_complex,
    mul,
    ne,
    neg,
    select,
    sub,
)
from ftrace.trace.primitives.host.matrix import along_rows, block, diagonal, transposed
from ftrace.trace.primitives.movement import pad, permute_p, reshape
from ftrace.trace.primitives.record import items
from ftrace.trace.primitives.source import const_like, iota, zeros_like

#: Makes the kernel: node, routine, operands, results, sizes, flags, operations.
Make = Callable[..., list[Node]]

#: Columns that LAPACK treats together, where it has the memory.
_BLOCK = 64


def turned(x: Node) -> Node:
    """The transposed matrices; of transposed ones those that they are of."""
    last = x.ndim - 1
    if x.op is permute_p and x.arg == (*range(last - 1), last, last - 1):
        return x.src[0]
    return transposed(x)


def _turned_type(aval: ShapedArray) -> ShapedArray:
    *lead, m, n = aval.shape
    return aval.with_shape((*lead, n, m))


def _memory(a: Node, dtype: np.dtype[Any], size: int) -> ShapedArray:
    """Memory for each matrix of a batch."""
    return ShapedArray.of((*a.shape[:-2], size), dtype)


def qr(node: Node, make: Make) -> Sequence[Node]:
    """With pivots the third result is the order of the columns."""
    (a,) = node.src
    m, n = a.shape[-2:]
    first, second, *order = (item.aval for item in items(node))
    q, r = _turned_type(first), _turned_type(second)
    columns = q.shape[-2]
    length = _BLOCK * (max(n, columns) + 1) + 2 * n
    results = [q, r, _memory(a, a.dtype, min(m, n)), _memory(a, a.dtype, length)]
    results += order
    if order and dtypes.is_complex(a.dtype):
        results.append(_memory(a, dtypes.real_dtype(a.dtype), 2 * n))
    sizes, work = [m, n, columns, length], 4 * m * n * min(m, n)
    found = make(node, "qr", [turned(a)], results, sizes, [bool(order)], work)
    factors = transposed(found[0]), transposed(found[1])
    if not order:
        return factors
    return *factors, sub(found[4], const_like(found[4], 1))


def eigh(node: Node, make: Make, with_vectors: bool = True) -> Sequence[Node]:
    """Without vectors the first result is memory that LAPACK has used."""
    (a,) = node.src
    n = a.shape[-1]
    vectors, values = (item.aval for item in items(node))
    is_complex = dtypes.is_complex(a.dtype)
    length = 2 * n + n * n if is_complex else 1 + 6 * n + 2 * n * n
    length += _BLOCK * n
    real_length, integers = 1 + 5 * n + 2 * n * n, 3 + 5 * n
    results = [vectors, values, _memory(a, a.dtype, length)]
    if is_complex:
        results.append(_memory(a, dtypes.real_dtype(a.dtype), real_length))
    results.append(_memory(a, dtypes.int32, integers))
    sizes = [n, length, real_length, integers]
    flags, work = [node.arg, with_vectors], (9 if with_vectors else 2) * n**3
    found = make(node, "eigh", [turned(a)], results, sizes, flags, work)
    return transposed(found[0]), found[1]


def svd(node: Node, make: Make) -> Sequence[Node]:
    (a,) = node.src
    m, n = a.shape[-2:]
    least, most = min(m, n), max(m, n)
    types = [item.aval for item in items(node)]
    vectors = len(types) == 3
    rows = columns = 0
    results = types
    if vectors:
        rows, columns = types[0].shape[-1], types[2].shape[-2]
        results = [_turned_type(types[0]), types[1], _turned_type(types[2])]
    is_complex = dtypes.is_complex(a.dtype)
    length = 4 * least * least + 7 * least + most + _BLOCK * (m + n)
    results = [*results, _memory(a, a.dtype, m * n), _memory(a, a.dtype, length)]
    if is_complex:
        reals = max(5 * least * least + 7 * least, 2 * most * least)
        reals += 2 * least * least + least
        results.append(_memory(a, dtypes.real_dtype(a.dtype), reals))
    results.append(_memory(a, dtypes.int32, 8 * least))
    sizes, work = [m, n, rows, columns, length], 20 * m * n * least
    found = make(node, "svd", [turned(a)], results, sizes, [vectors], work)
    if not vectors:
        return found[:1]
    return transposed(found[0]), found[1], transposed(found[2])


# General matrices.


def eigvals(node: Node, make: Make) -> Sequence[Node]:
    (values, _) = _general(node, make, (False, False))
    return (values,)


def eig(node: Node, make: Make, sides: tuple[bool, bool]) -> Sequence[Node]:
    """Vectors of the sides that are asked for; the others are zeros."""
    values, packed = _general(node, make, sides)
    vectors: list[Node] = []
    for asked, item in zip(sides, items(node)[1:], strict=True):
        if not asked:
            vectors.append(zeros_like(item))
            continue
        rows = packed.pop(0)
        if not dtypes.is_complex(rows.dtype):
            rows = _unpacked(rows, values)
        vectors.append(transposed(rows))
    return values, *vectors


def _general(
    node: Node, make: Make, sides: tuple[bool, bool]
) -> tuple[Node, list[Node]]:
    """The values, complex, and LAPACK's columns as the rows of matrices."""
    (a,) = node.src
    n = a.shape[-1]
    is_complex = dtypes.is_complex(a.dtype)
    values = _memory(a, a.dtype, n)
    results = [values] * (1 if is_complex else 2)
    results += [a.aval.strong()] * (sum(sides) + 1)
    length = (2 * _BLOCK + 4) * n
    results.append(_memory(a, a.dtype, length))
    if is_complex:
        results.append(_memory(a, dtypes.real_dtype(a.dtype), 2 * n))
    work = (10 + 10 * any(sides)) * n**3
    found = make(node, "eig", [turned(a)], results, [n, length], sides, work)
    if is_complex:
        return found[0], found[1:]
    return make_complex(found[0], found[1]), found[2:]


def _unpacked(rows: Node, values: Node) -> Node:
    """LAPACK's pairs of real vectors (real, imaginary part) as conjugate ones."""
    zero = zeros_like(rows)
    turn = along_rows(imag(values), rows)
    first, second = lt(zero, turn), lt(turn, zero)
    before, after = (_moved(rows, by) for by in (1, -1))
    other = select(first, after, select(second, neg(rows), zero))
    return make_complex(select(second, before, rows), other)


def _moved(rows: Node, by: int) -> Node:
    """The rows one further down, or up; zeros come in."""
    *lead, n, width = rows.shape
    kept = block(rows, (max(-by, 0), n - max(by, 0)), (0, width))
    return pad(
        kept, (*[(0, 0, 0)] * len(lead), (max(by, 0), max(-by, 0), 0), (0, 0, 0))
    )


# Determinants, of real matrices.


def slogdet(node: Node, lu: Callable[[Node], Sequence[Node]]) -> Sequence[Node]:
    """The sign, and the logarithm of the size, by what `lu` makes of the matrices."""
    sign, logarithm = _sign_and_log(node, lu)
    dtype = node.src[0].dtype
    return cast(sign, dtype), cast(logarithm, dtype)


def det(node: Node, lu: Callable[[Node], Sequence[Node]]) -> Sequence[Node]:
    sign, logarithm = _sign_and_log(node, lu)
    return (cast(mul(sign, exp(logarithm)), node.src[0].dtype),)


def _sign_and_log(
    node: Node, lu: Callable[[Node], Sequence[Node]]
) -> tuple[Node, Node]:
    """In 64 bits; NaN does not change a sign, and a zero is one whatever else is."""
    factors, pivots, _ = lu(node)
    numbers = cast(diagonal(factors), dtypes.float64)
    zero = const_like(numbers, 0)
    place = iota(dtypes.int32, pivots.shape, pivots.ndim - 1)
    turns = add(_count(lt(numbers, zero)), _count(ne(pivots, place)))
    odd = bit_and(turns, const_like(turns, 1))
    zeros = _count(eq(numbers, zero))
    logarithm = _total(log(absolute(numbers)))
    singular = ne(zeros, const_like(zeros, 0))
    one = const_like(logarithm, 1)
    sign = select(eq(odd, const_like(odd, 0)), one, const_like(logarithm, -1))
    return (
        select(singular, const_like(logarithm, 0), sign),
        select(singular, const_like(logarithm, -np.inf), logarithm),
    )


def _count(x: Node) -> Node:
    return _total(cast(x, dtypes.int32))


def _total(x: Node) -> Node:
    """The sum along the last axis, which goes."""
    return reshape(reduce_sum(x, (x.ndim - 1,)), x.shape[:-1])

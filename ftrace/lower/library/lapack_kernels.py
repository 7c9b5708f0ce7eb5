"""Factorisations as kernels: LAPACK without Python, and loops for small matrices.

    cholesky(a)                  ->  factor[potrf](a)
    triangular_solve(a, b)       ->  factor[trsm](a, b)
    lu(a)                        ->  permute(factor[getrf](permute(a))), pivots, order
    lu_solve(a, lu, order, b)    ->  factor[getrs](permute(lu), order, b)
    tridiagonal_solve(…, b)      ->  permute(factor[gtsv](…, permute(b)))
    slogdet(a)                   ->  signs and logarithms of the diagonal of lu(a)

A row-major matrix is the transpose of a column-major one. Where a routine can be told
so, it gets our matrices as they are; where it cannot, the transposes stand in the
graph, where they vanish between two routines and fuse with their neighbours. Small
matrices of real numbers are computed by loops in the kernel: the calls of LAPACK take
longer than their arithmetic.

    qr(a)        ->  permute(factor[geqrf, orgqr](permute(a))), …; geqp3 with pivots
    householder_factor(a)  ->  permute(factor[geqrf](permute(a))), factors
    eigh(a)      ->  permute(factor[syevd](permute(a))), values; these alone if no
                     vector is needed, which takes a third of the time
    svd(a)       ->  permute(factor[gesdd](permute(a))), values, …
    eig(a)       ->  values and vectors of factor[geev](permute(a)), which are pairs of
                     real columns if the matrix is real; without vectors likewise

What LAPACK needs for its work are further results of the kernel, which nobody reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import Kernel
from ftrace.lower.register_loops.register_loop import buffers_of, kernel_step
from ftrace.trace import linalg_compositions as compositions
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives import broadcast as bc, elementwise as p, sources
from ftrace.trace.primitives.library import (
    factors,
    lapack_numpy,
    matrix_nodes as mat,
    systems,
)
from ftrace.trace.primitives.library.systems import Op
from ftrace.trace.primitives.movement import permute_p, reshape, shift_axis
from ftrace.trace.primitives.primitive import items

#: What `config.disabled_rules` can switch off here.
DECISIONS = {
    "call_lapack": "a factorisation is a kernel that calls LAPACK, without Python",
    "factor_small": "a factorisation of small matrices is a kernel of loops",
}

#: Rows and columns at the most of what loops of a kernel do. With 64 systems of 32 rows
#: are solved by two kernels, not three, with 4 those of 8 by three.
SMALL = 16
#: What a part of a right side has at least: BLAS prepares the matrix for each of them.
#: With 256 columns 200 of 500 rows are one part, not two, with 16 they are ten.
_BLOCK_COLUMNS = 64
#: With 2²³ 2000 columns of 64 rows are one part, not five, with 2¹⁹ 200 are two.
_BLOCK_WORK = 1 << 21
#: With 64 2000 columns of 500 rows are 25 parts, not 16, with 4 they are 4.
_MOST_BLOCKS = 16


@dataclass(frozen=True)
class Factor(Kernel):
    """A kernel that treats the matrices of a batch, each by itself.

    Attributes:
      axes, stores: none.
      routine: what it does; `backends/llvm/library/lapack/render.py` has a function for
        each.
      batch: how many matrices there are.
      sizes, flags: of each, as the routine wants them.
      work: operations for each of them, about.
    """

    routine: str = ""
    batch: int = 1
    sizes: tuple[int, ...] = ()
    flags: tuple[bool, ...] = ()
    work: int = 1

    @property
    def blocks(self) -> int:
        """Into how many each matrix is cut, for several threads."""
        return self.sizes[2] if self.routine in ("triangular", "solve") else 1

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.buffers[-1].dtype  # of the matrices; results may be real

    def __str__(self) -> str:
        words = " ".join(map(str, (*self.sizes, *self.flags)))
        return f"{self.routine} of {self.batch} matrices of {self.dtype}: {words}"


def by_kernels(node: Node, read: Collection[int]) -> Sequence[Node] | None:
    """The results of a factorisation by a kernel; None where the host is asked."""
    if node.op in _RULES:
        return _RULES[node.op](node)
    return _BY_LAPACK[node.op](node, read) if _has_lapack() else None


def _is_small(node: Node, *sizes: int) -> bool:
    """Do loops take less time than the calls of a library?"""
    small = max(sizes) <= SMALL and not dtypes.is_complex(node.src[0].dtype)
    return small and settings.decides("factor_small")


def _has_lapack() -> bool:
    return settings.decides("call_lapack") and lapack_numpy.has_scipy()


def _factor(
    node: Node,
    routine: str,
    operands: Sequence[Node],
    results: Sequence[ShapedArray],
    sizes: Sequence[int],
    flags: Sequence[bool],
    work: int,
) -> list[Node]:
    """The results of a kernel."""
    kernel = Factor(
        (), (), buffers_of(results, operands), routine=routine,
        batch=prod(node.src[-1].shape[:-2]), sizes=tuple(sizes), flags=tuple(flags),
        work=work,
    )  # fmt: skip
    return kernel_step(kernel, kernel.batch * work, node, operands, results)


def _cholesky(node: Node) -> Sequence[Node] | None:
    (a,) = node.src
    n, work = a.shape[-1], a.shape[-1] ** 3 // 3 + 1
    if _is_small(node, n):
        return _factor(node, "small_cholesky", [a], [a.aval], [n], [], work)
    if not _has_lapack():
        return None
    return _factor(node, "cholesky", [a], [a.aval], [n], [], work)


def _triangular(node: Node) -> Sequence[Node] | None:
    a, b = node.src
    arg: systems.Triangular = node.arg
    n = a.shape[-1]
    k = b.shape[-1] if arg.left_side else b.shape[-2]
    is_complex = dtypes.is_complex(a.dtype)
    conjugate = arg.conjugate_a and is_complex
    flags = (
        arg.left_side, arg.lower, arg.transpose_a, conjugate, arg.unit_diagonal,
    )  # fmt: skip
    work = n * n * k
    types = [items(node)[0].aval]
    if _is_small(node, n, k):
        return _factor(node, "small_triangular", [a, b], types, [n, k], flags, work)
    # BLAS sees the transposes: it can conjugate them only if it transposes them back.
    if (conjugate and not arg.transpose_a) or not _has_lapack():
        return None
    sizes = [n, k, _count_blocks(k, work)]
    return _factor(node, "triangular", [a, b], types, sizes, flags, work)


def _lu(node: Node) -> Sequence[Node] | None:
    (a,) = node.src
    m, n = a.shape[-2:]
    types = [item.aval for item in items(node)]
    work = max(m, n) * min(m, n) ** 2 + 1
    if _is_small(node, m, n):
        return _factor(node, "small_lu", [a], types, [m, n], [], work)
    if not _has_lapack():
        return None
    column_major = transpose(a)
    types[0] = column_major.aval
    factors, pivots, order = _factor(
        node, "lu", [column_major], types, [m, n], [], work
    )
    return mat.transpose(factors), pivots, order


def _count_blocks(columns: int, work: int) -> int:
    """Into how many equal parts the columns of a right side are cut."""
    most = min(columns // _BLOCK_COLUMNS, work // _BLOCK_WORK, _MOST_BLOCKS)
    return max((n for n in range(1, most + 1) if columns % n == 0), default=1)


def _solve(node: Node) -> Sequence[Node] | None:
    _, factors, order, b = node.src
    arg: Op = node.arg
    n, k = b.shape[-2:]
    aval = items(node)[0].aval
    is_complex = dtypes.is_complex(factors.dtype)
    work = 2 * n * n * k
    if _is_small(node, n, k):
        found = _factor(
            node, "small_solve", [factors, order, b], [aval, aval], [n, k],
            [arg.transpose], work,
        )  # fmt: skip
        return found[:1]
    if (arg.conjugate and is_complex) or not _has_lapack():
        return None
    operands = [transpose(factors), order, b]
    # The second result is memory for the rows in their other order.
    sizes = [n, k, _count_blocks(k, work)]
    found = _factor(node, "solve", operands, [aval, aval], sizes, [arg.transpose], work)
    return found[:1]


def _tridiagonal(node: Node) -> Sequence[Node] | None:
    dl, d, du, b = node.src
    n, k = b.shape[-2:]
    if n < 2 or not _has_lapack():
        return None
    columns = transpose(b)
    # LAPACK overwrites the diagonals: the results after the first are copies of them.
    types = [columns.aval, dl.aval, d.aval, du.aval]
    operands = [dl, d, du, columns]
    found = _factor(node, "tridiagonal", operands, types, [n, k], [], 10 * n * k)
    return (mat.transpose(found[0]),)


# By LAPACK.

#: Columns that LAPACK treats together, where it has the memory: as many as it asks for.
_BLOCK = 64


def transpose(x: Node) -> Node:
    """The transposed matrices; of transposed ones those that they are of."""
    last = x.ndim - 1
    if x.op is permute_p and x.arg == (*range(last - 1), last, last - 1):
        return x.src[0]
    return mat.transpose(x)


def _transposed_type(aval: ShapedArray) -> ShapedArray:
    *lead, m, n = aval.shape
    return aval.with_shape((*lead, n, m))


def _memory(a: Node, dtype: np.dtype[Any], size: int) -> ShapedArray:
    """Memory for each matrix of a batch."""
    return ShapedArray.of((*a.shape[:-2], size), dtype)


def _qr(node: Node, read: Collection[int]) -> Sequence[Node]:
    """With pivots the third result is the order of the columns."""
    (a,) = node.src
    m, n = a.shape[-2:]
    first, second, *order = (item.aval for item in items(node))
    q, r = _transposed_type(first), _transposed_type(second)
    columns = q.shape[-2]
    length = _BLOCK * (max(n, columns) + 1) + 2 * n
    results = [q, r, _memory(a, a.dtype, min(m, n)), _memory(a, a.dtype, length)]
    results += order
    if order and dtypes.is_complex(a.dtype):
        results.append(_memory(a, dtypes.real_dtype(a.dtype), 2 * n))
    sizes, work = [m, n, columns, length], 4 * m * n * min(m, n)
    found = _factor(node, "qr", [transpose(a)], results, sizes, [bool(order)], work)
    factors = mat.transpose(found[0]), mat.transpose(found[1])
    if not order:
        return factors
    return *factors, p.sub(found[4], sources.const_like(found[4], 1))


def _reflections(node: Node, read: Collection[int]) -> Sequence[Node]:
    """Those of `_qr`, with R over them."""
    (a,) = node.src
    m, n = a.shape[-2:]
    columns, taus = transpose(a), items(node)[1].aval
    length = _BLOCK * (n + 1)
    results = [columns.aval.strong(), taus, _memory(a, a.dtype, length)]
    work = 2 * m * n * min(m, n)
    found = _factor(node, "reflections", [columns], results, [m, n, length], [], work)
    return mat.transpose(found[0]), found[1]


def _eigh(node: Node, read: Collection[int]) -> Sequence[Node]:
    """Without vectors the first result is memory that LAPACK has used."""
    with_vectors = 0 in read
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
    found = _factor(node, "eigh", [transpose(a)], results, sizes, flags, work)
    return mat.transpose(found[0]), found[1]


def _svd(node: Node, read: Collection[int]) -> Sequence[Node]:
    (a,) = node.src
    m, n = a.shape[-2:]
    least, most = min(m, n), max(m, n)
    types = [item.aval for item in items(node)]
    vectors = len(types) == 3
    rows = columns = 0
    results = types
    if vectors:
        rows, columns = types[0].shape[-1], types[2].shape[-2]
        results = [_transposed_type(types[0]), types[1], _transposed_type(types[2])]
    is_complex = dtypes.is_complex(a.dtype)
    length = 4 * least * least + 7 * least + most + _BLOCK * (m + n)
    results = [*results, _memory(a, a.dtype, m * n), _memory(a, a.dtype, length)]
    if is_complex:
        reals = max(5 * least * least + 7 * least, 2 * most * least)
        reals += 2 * least * least + least
        results.append(_memory(a, dtypes.real_dtype(a.dtype), reals))
    results.append(_memory(a, dtypes.int32, 8 * least))
    sizes, work = [m, n, rows, columns, length], 20 * m * n * least
    found = _factor(node, "svd", [transpose(a)], results, sizes, [vectors], work)
    if not vectors:
        return found[:1]
    return mat.transpose(found[0]), found[1], mat.transpose(found[2])


# General matrices.


def _eigvals(node: Node, read: Collection[int]) -> Sequence[Node]:
    (values, _) = _general(node, (False, False))
    return (values,)


def _eig(node: Node, read: Collection[int]) -> Sequence[Node]:
    """Vectors of the sides that are asked for; the others are zeros."""
    sides = 1 in read, 2 in read
    values, packed = _general(node, sides)
    vectors: list[Node] = []
    for asked, item in zip(sides, items(node)[1:], strict=True):
        if not asked:
            vectors.append(sources.zeros_like(item))
            continue
        rows = packed.pop(0)
        if not dtypes.is_complex(rows.dtype):
            rows = _unpack(rows, values)
        vectors.append(mat.transpose(rows))
    return values, *vectors


def _general(node: Node, sides: tuple[bool, bool]) -> tuple[Node, list[Node]]:
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
    found = _factor(node, "eig", [transpose(a)], results, [n, length], sides, work)
    if is_complex:
        return found[0], found[1:]
    return p.make_complex(found[0], found[1]), found[2:]


def _unpack(rows: Node, values: Node) -> Node:
    """LAPACK's pairs of real vectors (real, imaginary part) as conjugate ones."""
    zero = sources.zeros_like(rows)
    turn = mat.along_rows(p.imag(values), rows)
    first, second = p.lt(zero, turn), p.lt(turn, zero)
    before, after = (shift_axis(rows, rows.ndim - 2, by) for by in (1, -1))
    other = p.select(first, after, p.select(second, p.neg(rows), zero))
    return p.make_complex(p.select(second, before, rows), other)


# Determinants, of real matrices.


def _slogdet(node: Node) -> Sequence[Node] | None:
    """The sign, and the logarithm of the size."""
    found = _sign_and_log(node)
    return found and [p.cast(x, node.src[0].dtype) for x in found]


def _det(node: Node) -> Sequence[Node] | None:
    found = _sign_and_log(node)
    return found and [p.cast(p.mul(found[0], p.exp(found[1])), node.src[0].dtype)]


def _sign_and_log(node: Node) -> tuple[Node, Node] | None:
    """In 64 bits; NaN does not change a sign, and a zero is one whatever else is."""
    (a,) = node.src
    found = None if dtypes.is_complex(a.dtype) else _lu(systems.lu_p(a))
    if found is None:
        return None
    factors, pivots, _ = found
    numbers = p.cast(mat.diagonal(factors), dtypes.float64)
    zero = sources.const_like(numbers, 0)
    place = sources.iota(dtypes.int32, pivots.shape, pivots.ndim - 1)
    turns = p.add(_count(p.lt(numbers, zero)), _count(p.ne(pivots, place)))
    odd = p.bit_and(turns, sources.const_like(turns, 1))
    zeros = _count(p.eq(numbers, zero))
    logarithm = _total(p.log(p.absolute(numbers)))
    singular = p.ne(zeros, sources.const_like(zeros, 0))
    one = sources.const_like(logarithm, 1)
    sign = p.select(
        p.eq(odd, sources.const_like(odd, 0)), one, sources.const_like(logarithm, -1)
    )
    return (
        p.select(singular, sources.const_like(logarithm, 0), sign),
        p.select(singular, sources.const_like(logarithm, -np.inf), logarithm),
    )


def _count(x: Node) -> Node:
    return _total(p.cast(x, dtypes.int32))


def _total(x: Node) -> Node:
    """The sum along the last axis, which goes."""
    return reshape(bc.reduce_sum(x, (x.ndim - 1,)), x.shape[:-1])


_Rule = Callable[[Node], "Sequence[Node] | None"]
_RULES: dict[Any, _Rule] = {
    systems.cholesky_p: _cholesky,
    systems.triangular_solve_p: _triangular,
    systems.lu_p: _lu,
    systems.lu_solve_p: _solve,
    systems.tridiagonal_solve_p: _tridiagonal,
    systems.slogdet_p: _slogdet,
    compositions.det_p: _det,
}
#: What needs LAPACK, and does less where not all of its results are read.
_BY_LAPACK: dict[Any, Callable[[Node, Collection[int]], Sequence[Node]]] = {
    factors.qr_p: _qr,
    factors.qr_pivoted_p: _qr,
    factors.householder_factor_p: _reflections,
    factors.eigh_p: _eigh,
    factors.svd_p: _svd,
    factors.eig_p: _eig,
    factors.eigvals_p: _eigvals,
}
FACTORS = (*_RULES, *_BY_LAPACK)


# Compositions: their derivatives are known here, and the parts are kernels where the
# wholes would be calls of the host.

COMPOSITION_DECISIONS = {
    "expand_compounds": "an operation of linear algebra is others, put together"
}


def expand_composition(whole: Node, read: Collection[int]) -> Sequence[Node] | None:
    """The parts of an operation in the place of its results."""
    op: Any = whole.op
    return compositions.COMPOSITIONS[op](whole)

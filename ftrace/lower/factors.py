"""Factorisations as kernels: LAPACK without Python, and loops for small matrices.

    cholesky(a)                  ->  factor[potrf](a)
    triangular_solve(a, b)       ->  factor[trsm](a, b)
    lu(a)                        ->  permute(factor[getrf](permute(a))), pivots, order
    lu_solve(a, lu, order, b)    ->  factor[getrs](permute(lu), order, b)
    tridiagonal_solve(…, b)      ->  permute(factor[gtsv](…, permute(b)))
    qr, svd, eigh, eig, det …    ->  see decompositions.py

A row-major matrix is the transpose of a column-major one. Where a routine can be told
so, it gets our matrices as they are; where it cannot, the transposes stand in the
graph, where they vanish between two routines and fuse with their neighbours. Small
matrices of real numbers are computed by loops in the kernel: the calls of LAPACK take
longer than their arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes, settings
from ftrace.lower import decompositions
from ftrace.lower.decompositions import turned
from ftrace.lower.kernel import BufferSpec, Kernel, KernelInfo
from ftrace.lower.recurrence import Step, register_loop_p
from ftrace.records import dataclass
from ftrace.trace.avals import ShapedArray
from ftrace.trace.dims import any_dynamic
from ftrace.trace.graph import Node
from ftrace.trace.primitives.host import lapack
from ftrace.trace.primitives.host.lu import Op, det_p, lu_p, lu_solve_p, slogdet_p
from ftrace.trace.primitives.host.matrix import transposed
from ftrace.trace.primitives.host.orthogonal import qr_p, qr_pivoted_p
from ftrace.trace.primitives.host.singular import svd_p
from ftrace.trace.primitives.host.spectral import eig_p, eigh_p, eigvals_p
from ftrace.trace.primitives.host.triangular import (
    Triangular,
    cholesky_p,
    triangular_solve_p,
)
from ftrace.trace.primitives.host.tridiagonal import tridiagonal_solve_p
from ftrace.trace.primitives.record import items

_MakeFactor = Callable[[Node], "Sequence[Node] | None"]

#: What `config.disabled_rules` can switch off here.
DECISIONS = {
    "call_lapack": "a factorisation is a kernel that calls LAPACK, without Python",
    "factor_small": "a factorisation of small matrices is a kernel of loops",
}

#: Rows and columns at the most of what loops of a kernel do.
SMALL = 16
#: What a part of a right side has at least: BLAS prepares the matrix for each of them.
_PART_COLUMNS = 64
_PART_WORK = 1 << 21
_MOST_PARTS = 16


@dataclass(frozen=True)
class Factor(Kernel):
    """A kernel that treats the matrices of a batch, each by itself.

    Attributes:
      axes, stores: none.
      routine: what it does; `devices/llvm/lapack/factorise.py` has a function for each.
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
    def parts(self) -> int:
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
    shapes = [s.shape for s in (*node.src, *items(node))]
    if any(any_dynamic(shape) or not prod(shape) for shape in shapes):
        return None
    if node.op is eigh_p and 0 not in read:
        return _eigenvalues(node)
    if node.op is eig_p:
        return _eig((1 in read, 2 in read))(node)
    return FACTORS[node.op](node)


def _is_small(node: Node, *sizes: int) -> bool:
    """Do loops take less time than the calls of a library?"""
    if "factor_small" in settings.current().disabled_rules:
        return False
    return max(sizes) <= SMALL and not dtypes.is_complex(node.src[0].dtype)


def _has_lapack() -> bool:
    off = "call_lapack" in settings.current().disabled_rules
    return not off and lapack.has_scipy()


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
    batch = prod(node.src[-1].shape[:-2])
    buffers = [BufferSpec(x.dtype, x.size, True) for x in results]
    buffers += [BufferSpec(x.dtype, x.size, False) for x in operands]
    kernel = Factor(
        (), (), tuple(buffers), routine=routine, batch=batch, sizes=tuple(sizes),
        flags=tuple(flags), work=work,
    )  # fmt: skip
    info = KernelInfo(
        f"{node.op.name}_{'x'.join(map(str, node.src[0].shape))}",
        () if node.origin is None else (node.origin,),
        batch * work,
        sum(spec.size * spec.dtype.itemsize for spec in buffers),
        (node.op.name,),
    )
    bundle = register_loop_p(*operands, arg=Step(kernel, info, tuple(results)))
    return items(bundle)


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
    arg: Triangular = node.arg
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
    sizes = [n, k, _parts(k, work)]
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
    column_major = turned(a)
    types[0] = column_major.aval
    factors, pivots, order = _factor(
        node, "lu", [column_major], types, [m, n], [], work
    )
    return transposed(factors), pivots, order


def _parts(columns: int, work: int) -> int:
    """Into how many equal parts the columns of a right side are cut."""
    most = min(columns // _PART_COLUMNS, work // _PART_WORK, _MOST_PARTS)
    return max((p for p in range(1, most + 1) if columns % p == 0), default=1)


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
    operands = [turned(factors), order, b]
    # The second result is memory for the rows in their other order.
    sizes = [n, k, _parts(k, work)]
    found = _factor(node, "solve", operands, [aval, aval], sizes, [arg.transpose], work)
    return found[:1]


def _tridiagonal(node: Node) -> Sequence[Node] | None:
    dl, d, du, b = node.src
    n, k = b.shape[-2:]
    if n < 2 or not _has_lapack():
        return None
    columns = turned(b)
    # LAPACK overwrites the diagonals: the results after the first are copies of them.
    types = [columns.aval, dl.aval, d.aval, du.aval]
    operands = [dl, d, du, columns]
    found = _factor(node, "tridiagonal", operands, types, [n, k], [], 10 * n * k)
    return (transposed(found[0]),)


def _by_lapack(
    make: Callable[[Node, decompositions.Make], Sequence[Node]],
) -> Callable[[Node], Sequence[Node] | None]:
    return lambda node: make(node, _factor) if _has_lapack() else None


def _eigenvalues(node: Node) -> Sequence[Node] | None:
    if not _has_lapack():
        return None
    return decompositions.eigh(node, _factor, with_vectors=False)


def _eig(sides: tuple[bool, bool]) -> _MakeFactor:
    """With the left and the right vectors, or some of them."""
    return _by_lapack(lambda node, make: decompositions.eig(node, make, sides))


def _determinant(node: Node) -> Sequence[Node] | None:
    return _of_factors(node, decompositions.det)


def _log_determinant(node: Node) -> Sequence[Node] | None:
    return _of_factors(node, decompositions.slogdet)


def _of_factors(
    node: Node, function: Callable[[Node, Callable[[Node], Any]], Sequence[Node]]
) -> Sequence[Node] | None:
    """What is told from an LU factorisation of real matrices."""
    (a,) = node.src
    known = _is_small(node, a.shape[-1]) or _has_lapack()
    if dtypes.is_complex(a.dtype) or not known:
        return None
    return function(node, lambda node: _lu(lu_p(node.src[0])))


FACTORS: dict[Any, _MakeFactor] = {
    cholesky_p: _cholesky,
    triangular_solve_p: _triangular,
    lu_p: _lu,
    lu_solve_p: _solve,
    tridiagonal_solve_p: _tridiagonal,
    qr_p: _by_lapack(decompositions.qr),
    qr_pivoted_p: _by_lapack(decompositions.qr),
    eigh_p: _by_lapack(decompositions.eigh),
    svd_p: _by_lapack(decompositions.svd),
    eig_p: _eig((True, True)),
    eigvals_p: _by_lapack(decompositions.eigvals),
    slogdet_p: _log_determinant,
    det_p: _determinant,
}

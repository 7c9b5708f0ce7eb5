"""Factorisations as kernels: LAPACK without Python, and loops for small matrices.

    cholesky(a)                  ->  factor[potrf](a)
    triangular_solve(a, b)       ->  factor[trsm](a, b)
    lu(a)                        ->  permute(factor[getrf](permute(a))), pivots, order
    lu_solve(a, lu, order, b)    ->  factor[getrs](permute(lu), order, b)

A row-major matrix is the transpose of a column-major one. Where a routine can be told
so, it gets our matrices as they are; where it cannot, the transposes stand in the
graph, where they vanish between two routines and fuse with their neighbours. Small
matrices of real numbers are computed by loops in the kernel: the calls of LAPACK take
longer than their arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ftrace import dtypes, settings
from ftrace.lower.kernel import BufferSpec, Kernel, KernelInfo
from ftrace.lower.recurrence import Step, register_loop_p
from ftrace.trace.avals import ShapedArray
from ftrace.trace.dims import any_dynamic
from ftrace.trace.graph import Node, inherited_origin, rebuild, toposort
from ftrace.trace.primitives.host import lapack
from ftrace.trace.primitives.host.lu import Op, lu_p, lu_solve_p
from ftrace.trace.primitives.host.matrix import transposed
from ftrace.trace.primitives.host.triangular import (
    Triangular,
    cholesky_p,
    triangular_solve_p,
)
from ftrace.trace.primitives.movement import permute_p
from ftrace.trace.primitives.record import item_p, items

#: What `config.disabled_rules` can switch off here.
DECISIONS = {
    "call_lapack": "a factorisation is a kernel that calls LAPACK, without Python",
    "factor_small": "a factorisation of small matrices is a kernel of loops",
}

#: Rows and columns at the most of what loops of a kernel do.
SMALL = 16


@dataclass(frozen=True)
class Factor(Kernel):
    """A kernel that treats the matrices of a batch, each by itself.

    Attributes:
      axes, stores: none.
      routine: what it does; `devices/llvm/factorise.py` has one function for each.
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
    def dtype(self) -> np.dtype[Any]:
        return self.buffers[0].dtype

    def __str__(self) -> str:
        words = " ".join(map(str, (*self.sizes, *self.flags)))
        return f"{self.routine} of {self.batch} matrices of {self.dtype}: {words}"


def factors_as_kernels(outputs: Sequence[Node]) -> list[Node]:
    """The outputs with factorisations as kernels."""
    order = toposort(outputs)
    if not any(node.op in _FACTORS for node in order):
        return list(outputs)
    done: dict[Node, Node] = {}
    replaced: dict[Node, Sequence[Node]] = {}
    with inherited_origin() as take:
        for node in order:
            take(node)
            if node.op is item_p and node.src[0] in replaced:
                done[node] = replaced[node.src[0]][node.arg]
                continue
            new = rebuild(node, tuple(done[s] for s in node.src))
            done[node] = new
            if node.op in _FACTORS:
                found = _found(new)
                if found is not None:
                    replaced[node] = found
    return [done[node] for node in outputs]


def _found(node: Node) -> Sequence[Node] | None:
    """The results of a factorisation by a kernel; None where the host is asked."""
    shapes = [s.shape for s in (*node.src, *items(node))]
    if any(any_dynamic(shape) or not prod(shape) for shape in shapes):
        return None
    return _FACTORS[node.op](node)


def _is_small(node: Node, *sizes: int) -> bool:
    """Do loops take less time than the calls of a library?"""
    if "factor_small" in settings.current().disabled_rules:
        return False
    return max(sizes) <= SMALL and not dtypes.is_complex(node.src[0].dtype)


def _has_lapack() -> bool:
    off = "call_lapack" in settings.current().disabled_rules
    return not off and lapack.scipy_linalg() is not None


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
    batch = prod(node.src[0].shape[:-2])
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


def _turned(x: Node) -> Node:
    """The transposed matrices; of transposed ones those that they are of."""
    last = x.ndim - 1
    if x.op is permute_p and x.arg == (*range(last - 1), last, last - 1):
        return x.src[0]
    return transposed(x)


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
    return _factor(node, "triangular", [a, b], types, [n, k], flags, work)


def _lu(node: Node) -> Sequence[Node] | None:
    (a,) = node.src
    m, n = a.shape[-2:]
    types = [item.aval for item in items(node)]
    work = max(m, n) * min(m, n) ** 2 + 1
    if _is_small(node, m, n):
        return _factor(node, "small_lu", [a], types, [m, n], [], work)
    if not _has_lapack():
        return None
    column_major = _turned(a)
    types[0] = column_major.aval
    factors, pivots, order = _factor(
        node, "lu", [column_major], types, [m, n], [], work
    )
    return transposed(factors), pivots, order


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
    operands = [_turned(factors), order, b]
    # The second result is memory for the rows in their other order.
    found = _factor(
        node, "solve", operands, [aval, aval], [n, k], [arg.transpose], work
    )
    return found[:1]


_FACTORS: dict[Any, Callable[[Node], Sequence[Node] | None]] = {
    cholesky_p: _cholesky,
    triangular_solve_p: _triangular,
    lu_p: _lu,
    lu_solve_p: _solve,
}

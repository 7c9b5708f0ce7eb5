"""Functions of matrices: square root, Sylvester's equation, Schur's form.

sqrtm_p(a) -> S                         S·S = a, complex
sylvester_p(a, b, c) -> X               a·X + X·b = c
schur_p(a) -> (T, Z)                    a = Z·T·Zᴴ
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from ftrace.errors import ShapeError
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives.library import library_op
from ftrace.trace.primitives.library.linalg import lapack_numpy
from ftrace.trace.primitives.library.linalg.matrix_nodes import (
    as_dtype_of,
    minus,
    need_not_linear,
    product,
    transposed,
)
from ftrace.trace.primitives.primitive import Array, Results
from ftrace.trace.symbolic.dim import same_size

as_strided: Any = numpy.lib.stride_tricks.as_strided
np: Any = numpy  # whose stubs leave too much unknown

# Sylvester's equation, and the square root.


def _infer_sylvester(
    arg: None, a: ShapedArray, b: ShapedArray, c: ShapedArray
) -> tuple[ShapedArray, ...]:
    library_op.need_square("sylvester", a)
    library_op.need_square("sylvester", b)
    library_op.need_matrices("sylvester", a, b, c)
    if not same_size(c.shape[-2:], (a.shape[-1], b.shape[-1])):
        raise ShapeError(
            "solve_sylvester: a (m, m), b (n, n) and c (m, n) are required, got "
            f"{a!r}, {b!r} and {c!r}"
        )
    return (ShapedArray.of(c.shape, c.dtype),)


def _sylvester(avals: Any, arg: None, a: Array, b: Array, c: Array) -> Sequence[Array]:
    linalg = lapack_numpy.scipy_linalg()

    def solved(a: Array, b: Array, c: Array) -> tuple[Array]:
        if not c.size or not all(np.isfinite(x).all() for x in (a, b, c)):
            return (np.full(c.shape, np.nan, c.dtype),)
        try:
            if linalg is not None:
                return (linalg.solve_sylvester(a, b, c),)
            # Row-major: vec(a·X + X·b) = (a ⊗ 1 + 1 ⊗ bᵀ)·vec X.
            m, n = c.shape
            matrix = np.kron(a, np.eye(n)) + np.kron(np.eye(m), b.T)
            return (np.linalg.solve(matrix, c.ravel()).reshape(m, n),)
        except np.linalg.LinAlgError:
            return (np.full(c.shape, np.nan, c.dtype),)

    return lapack_numpy.each(solved, avals, a, b, c)


def _sylvester_tangent(node: Node, tangents: Results) -> Results:
    """a·X' + X'·b = c' - a'·X - X·b'."""
    a, b, _ = node.src
    t, u, change = tangents
    if t is not None or u is not None:
        (x,) = sylvester_p.results(*node.src)
        if t is not None:
            change = minus(change, product(t, x))
        if u is not None:
            change = minus(change, product(x, u))
    assert change is not None
    return (sylvester_p.results(a, b, change)[0],)


def _sylvester_transpose(
    node: Node, cotangents: Results, linear: tuple[bool, ...]
) -> Results:
    need_not_linear("solve_sylvester", node, linear[:2])
    a, b, _ = node.src
    (ct,) = cotangents
    if ct is None:
        return None, None, None
    return None, None, sylvester_p.results(transposed(a), transposed(b), ct)[0]


sylvester_p = library_op.host(
    "sylvester", _infer_sylvester, _sylvester, _sylvester_tangent,
    transpose=_sylvester_transpose, doc="X of a·X + X·b = c",
)  # fmt: skip


def _infer_sqrtm(arg: None, a: ShapedArray) -> tuple[ShapedArray, ...]:
    library_op.need_square("sqrtm", a)
    return (library_op.complex_of(a, a.shape),)


def _sqrtm(avals: Any, arg: None, a: Array) -> Sequence[Array]:
    linalg = lapack_numpy.need_scipy("sqrtm")

    def root(x: Array) -> tuple[Array]:
        if not x.size or not np.isfinite(x).all():
            return (np.full(x.shape, np.nan, x.dtype),)
        triangle, turn = linalg.schur(x, output="complex")
        # NumPy's products are of another library: its threads would wait for those of
        # SciPy's, which spin for a while.
        (product,) = linalg.get_blas_funcs(("gemm",), (turn,))
        left = product(1, turn, _triangular_root(triangle))
        return (product(1, left, turn, trans_b=2),)

    return lapack_numpy.each(root, avals, a)


def _triangular_root(t: Array) -> Array:
    """Diagonal by diagonal, from the main one up: row d of `found` is the d-th.

    Source: A. Bjorck and S. Hammarling, "A Schur method for the square root of a
    matrix" (1983).
    """
    n = len(t)
    found = np.zeros_like(t)
    found[0] = np.sqrt(np.diagonal(t))
    down, across = found.strides
    for d in range(1, n):
        # The root of the row k to the right, times that of the column k further down.
        left = found[1:d, : n - d]
        right = as_strided(found[d - 1, 1:], left.shape, (across - down, across))
        rest = np.diagonal(t, d) - np.einsum("ki,ki->i", left, right)
        # Of a block of zeros any root will do, if there is one: zero.
        sums = np.where(rest == 0, 1, found[0, : n - d] + found[0, d:])
        found[d, : n - d] = rest / sums
    rows, columns = np.triu_indices(n)
    root = np.zeros_like(t)
    root[rows, columns] = found[columns - rows, rows]
    return root


def _sqrtm_tangent(node: Node, tangents: Results) -> Results:
    """S·S = a gives S·S' + S'·S = a'."""
    (a,), (t,) = node.src, tangents
    assert t is not None
    (root,) = sqrtm_p.results(a)
    return (sylvester_p.results(root, root, as_dtype_of(t, root))[0],)


sqrtm_p = library_op.host(
    "sqrtm", _infer_sqrtm, _sqrtm, _sqrtm_tangent,
    doc="the principal square root of a matrix, complex",
)  # fmt: skip


# Schur's form.


def _infer_schur(arg: None, a: ShapedArray) -> tuple[ShapedArray, ...]:
    library_op.need_square("schur", a)
    return a, a


def _schur(avals: Any, arg: None, a: Array) -> Sequence[Array]:
    linalg = lapack_numpy.need_scipy("schur")

    def decomposed(x: Array) -> tuple[Array, Array]:
        if not x.size or not np.isfinite(x).all():
            return np.full(x.shape, np.nan), np.full(x.shape, np.nan)
        return linalg.schur(x, output="complex" if np.iscomplexobj(x) else "real")

    return lapack_numpy.each(decomposed, avals, a)


schur_p = library_op.host(
    "schur", _infer_schur, _schur,
    no_derivative="the form of Schur is not unique; use eig",
    doc="a = Z·T·Zᴴ: unitary Z, upper triangular T (of blocks, if real)",
)  # fmt: skip

"""Functions of matrices: exponential, square root, Sylvester's equation, Schur's form.

expm_p(a, e₁, …, eₖ) -> the k-th derivative of exp at a along e₁, …, eₖ
sqrtm_p(a) -> S                         S·S = a, complex
sylvester_p(a, b, c) -> X               a·X + X·b = c
schur_p(a) -> (T, Z)                    a = Z·T·Zᴴ
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy

from ftrace.errors import ShapeError
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives.elementwise import add
from ftrace.trace.primitives.host import lapack
from ftrace.trace.primitives.host.family import (
    complex_of,
    host,
    need_matrices,
    need_square,
)
from ftrace.trace.primitives.host.matrix import (
    as_dtype_of,
    minus,
    need_not_linear,
    product,
    transposed,
)
from ftrace.trace.primitives.record import Array, Results

np: Any = numpy  # whose stubs leave too much unknown

# The exponential.

#: Numerators of Padé approximants of exp, and the norms up to which they are exact: to
#: single precision [7/7], to double precision [13/13].
#: Source: N. Higham, "The scaling and squaring method for the matrix exponential
#: revisited" (2005), eqs. 3.3 and 3.4, table 2.3.
_SINGLE = (17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1), 3.925724783138660
_DOUBLE = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800,
    129060195264000, 10559470521600, 670442572800, 33522128640, 1323241920, 40840800,
    960960, 16380, 182, 1,
), 5.371920351148152  # fmt: skip
#: Beyond so many squarings the result is NaN.
MAX_SQUARINGS = 16


def _infer_expm(squarings: int, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
    need_square("expm", avals[0])
    need_matrices("expm", *avals)
    if any(x.shape != avals[0].shape for x in avals):
        raise ShapeError(f"expm_frechet: the matrices differ in shape: {avals}")
    return (ShapedArray.of(avals[0].shape, avals[0].dtype),)


def _expm(avals: Any, squarings: int, a: Array, *directions: Array) -> Sequence[Array]:
    """exp of [[a, e], [0, a]] has the derivative along e in its upper right corner.

    Source: R. Mathias, "A chain rule for matrix functions and applications" (1996).
    """
    n = a.shape[-1]
    for i, direction in enumerate(directions):
        a = _block(a, _repeated(direction, 2**i))
    return (_exponential(a, squarings)[..., :n, a.shape[-1] - n :],)


def _block(a: Array, e: Array) -> Array:
    top = np.concatenate([a, e], -1)
    bottom = np.concatenate([np.zeros_like(a), a], -1)
    return np.concatenate([top, bottom], -2)


def _repeated(e: Array, count: int) -> Array:
    """`count` copies of a matrix along the diagonal."""
    n = e.shape[-1]
    result = np.zeros((*e.shape[:-2], n * count, n * count), e.dtype)
    for i in range(count):
        place = slice(i * n, (i + 1) * n)
        result[..., place, place] = e
    return result


def _exponential(a: Array, most: int) -> Array:
    """Scaling, a Padé approximant, and squaring, each matrix as often as it needs."""
    if a.size == 0:
        return np.array(a)
    numerator, bound = _SINGLE if np.finfo(a.dtype).bits == 32 else _DOUBLE
    norm = np.abs(a).sum(-2).max(-1)
    good = np.isfinite(norm)
    _, exponent = np.frexp(np.where(good, norm, 0) / bound)
    count = np.maximum(exponent, 0)
    scale = np.ldexp(np.ones((), a.real.dtype), -count)
    y = _approximant(
        np.where(good[..., None, None], a, 0) * scale[..., None, None], numerator
    )
    for i in range(min(int(count.max(initial=0)), most + 1)):
        more = (count > i)[..., None, None]
        y = np.where(more, y @ y, y)
    failed = ~good | (count > most + 1)  # one more than JAX scales by
    return np.where(failed[..., None, None], np.nan, y).astype(a.dtype)


def _approximant(x: Array, b: tuple[int, ...]) -> Array:
    one = np.eye(x.shape[-1], dtype=x.dtype)
    x2 = x @ x
    x4 = x2 @ x2
    x6 = x4 @ x2
    # Scaled by b[0], so that single precision holds the coefficients.
    c = [np.asarray(i / b[0], x.real.dtype) for i in b]
    odd = c[7] * x6 + c[5] * x4 + c[3] * x2 + c[1] * one
    even = c[6] * x6 + c[4] * x4 + c[2] * x2 + c[0] * one
    if len(b) > 8:
        odd = odd + x6 @ (c[13] * x6 + c[11] * x4 + c[9] * x2)
        even = even + x6 @ (c[12] * x6 + c[10] * x4 + c[8] * x2)
    odd = x @ odd
    return np.linalg.solve(even - odd, even + odd)


def _expm_tangent(node: Node, tangents: Results) -> Results:
    """One more direction for a change of a; it is linear in each direction."""
    src, arg = node.src, node.arg
    terms: list[Node] = []
    for i, t in enumerate(tangents):
        if t is not None:
            operands = (*src, t) if i == 0 else (*src[:i], t, *src[i + 1 :])
            terms += expm_p.results(*operands, arg=arg)
    return (reduce(add, terms),)


def _expm_transpose(
    node: Node, cotangents: Results, linear: tuple[bool, ...]
) -> Results:
    """In a direction it is linear: transposed matrices, with the cotangent for it."""
    (ct,) = cotangents
    need_not_linear("expm", node, (linear[0], sum(linear) > 1))
    answer: list[Node | None] = [None] * len(node.src)
    if ct is not None:
        i = linear.index(True)
        others = (transposed(s) for k, s in enumerate(node.src) if k != i)
        answer[i] = expm_p.results(*others, ct, arg=node.arg)[0]
    return answer


expm_p = host(
    "expm", _infer_expm, _expm, _expm_tangent, transpose=_expm_transpose,
    doc="the exponential of a matrix, or its derivative along directions",
)  # fmt: skip


# Sylvester's equation, and the square root.


def _infer_sylvester(
    arg: None, a: ShapedArray, b: ShapedArray, c: ShapedArray
) -> tuple[ShapedArray, ...]:
    need_square("sylvester", a)
    need_square("sylvester", b)
    need_matrices("sylvester", a, b, c)
    if c.shape[-2:] != (a.shape[-1], b.shape[-1]):
        raise ShapeError(
            "solve_sylvester: a (m, m), b (n, n) and c (m, n) are required, got "
            f"{a!r}, {b!r} and {c!r}"
        )
    return (ShapedArray.of(c.shape, c.dtype),)


def _sylvester(avals: Any, arg: None, a: Array, b: Array, c: Array) -> Sequence[Array]:
    linalg = lapack.scipy_linalg()

    def solved(a: Array, b: Array, c: Array) -> tuple[Array]:
        if c.size == 0 or not all(np.isfinite(x).all() for x in (a, b, c)):
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

    return lapack.each(solved, avals, a, b, c)


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


sylvester_p = host(
    "sylvester", _infer_sylvester, _sylvester, _sylvester_tangent,
    transpose=_sylvester_transpose, doc="X of a·X + X·b = c",
)  # fmt: skip


def _infer_sqrtm(arg: None, a: ShapedArray) -> tuple[ShapedArray, ...]:
    need_square("sqrtm", a)
    return (complex_of(a, a.shape),)


def _sqrtm(avals: Any, arg: None, a: Array) -> Sequence[Array]:
    linalg = lapack.need_scipy("sqrtm")

    def root(x: Array) -> tuple[Array]:
        if x.size == 0 or not np.isfinite(x).all():
            return (np.full(x.shape, np.nan, x.dtype),)
        triangle, turn = linalg.schur(x, output="complex")
        return (turn @ _triangular_root(triangle) @ turn.conj().T,)

    return lapack.each(root, avals, a)


def _triangular_root(t: Array) -> Array:
    """Column by column, from the diagonal up.

    Source: A. Bjorck and S. Hammarling, "A Schur method for the square root of a
    matrix" (1983).
    """
    root = np.diag(np.sqrt(np.diagonal(t)))
    for j in range(len(t)):
        for i in reversed(range(j)):
            rest = t[i, j] - root[i, i + 1 : j] @ root[i + 1 : j, j]
            # Of a block of zeros any root will do, if there is one: zero.
            root[i, j] = rest and rest / (root[i, i] + root[j, j])
    return root


def _sqrtm_tangent(node: Node, tangents: Results) -> Results:
    """S·S = a gives S·S' + S'·S = a'."""
    (a,), (t,) = node.src, tangents
    assert t is not None
    (root,) = sqrtm_p.results(a)
    return (sylvester_p.results(root, root, as_dtype_of(t, root))[0],)


sqrtm_p = host(
    "sqrtm", _infer_sqrtm, _sqrtm, _sqrtm_tangent,
    doc="the principal square root of a matrix, complex",
)  # fmt: skip


# Schur's form.


def _infer_schur(arg: None, a: ShapedArray) -> tuple[ShapedArray, ...]:
    need_square("schur", a)
    return a, a


def _schur(avals: Any, arg: None, a: Array) -> Sequence[Array]:
    linalg = lapack.need_scipy("schur")

    def decomposed(x: Array) -> tuple[Array, Array]:
        if x.size == 0 or not np.isfinite(x).all():
            return np.full(x.shape, np.nan), np.full(x.shape, np.nan)
        return linalg.schur(x, output="complex" if np.iscomplexobj(x) else "real")

    return lapack.each(decomposed, avals, a)


schur_p = host(
    "schur", _infer_schur, _schur,
    no_derivative="the form of Schur is not unique; use eig",
    doc="a = Z·T·Zᴴ: unitary Z, upper triangular T (of blocks, if real)",
)  # fmt: skip

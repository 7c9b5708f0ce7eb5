"""One row or more per operation of the host: what its laws are checked on.

`meaning` says what results are, by differences that are zero. `seen` picks what is
unique of them: its derivatives must be finite differences.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace import lax
from ftrace.trace import linalg_compositions as compositions
from ftrace.trace.bind import bind, bind_compound
from ftrace.trace.primitives.elementwise import stop_gradient
from ftrace.trace.primitives.library import factors, fft, systems
from ftrace.trace.primitives.library.fft import Fourier
from ftrace.trace.primitives.library.systems import Op, Triangular
from ftrace.trace.primitives.primitive import Compound

MODULES = (fft, compositions, factors, systems)


@dataclass(frozen=True)
class Sample:
    """An application of an operation.

    Attributes:
      op, arg: which.
      operands: (rng, lead, complex) -> arrays with these leading axes.
      prepare: of the operands, before the operation: what makes them valid.
      meaning: (*operands, *results) -> arrays that are zero; the operands are those
        before `prepare`.
      seen: results -> those whose derivatives are differences; None without one.
      order: up to which derivatives are checked.
      kinds: "f", "c" or both.
      scipy: without SciPy it raises.
    """

    op: Compound
    operands: Callable[..., list[Any]]
    meaning: Callable[..., list[Any]]
    arg: Any = None
    prepare: Callable[..., tuple[Any, ...]] = lambda *operands: operands
    seen: Callable[..., Any] | None = lambda *results: list(results)
    order: int = 2
    kinds: str = "fc"
    scipy: bool = False

    @property
    def name(self) -> str:
        return self.op.name if self.arg is None else f"{self.op.name}-{self.arg}"


def draw(
    rng: Any, lead: tuple[int, ...], shape: tuple[int, ...], is_complex: bool
) -> Any:
    x = rng.standard_normal((*lead, *shape))
    return x + 1j * rng.standard_normal(x.shape) if is_complex else x


def shaped(*shapes: tuple[int, ...], scale: float = 1.0, shift: float = 0.0) -> Any:
    """Operands of these shapes; square ones with more on the diagonal."""

    def operands(rng: Any, lead: tuple[int, ...], is_complex: bool) -> list[Any]:
        found: list[Any] = []
        for shape in shapes:
            x = scale * draw(rng, lead, shape, is_complex)
            if shift and len(shape) == 2 and shape[0] == shape[1]:
                x = x + shift * np.diag(np.arange(1, shape[0] + 1))
            found.append(x)
        return found

    return operands


def adjoint(x: Any) -> Any:
    return fnp.conj(fnp.matrix_transpose(x))


def hermitian(x: Any, *others: Any) -> tuple[Any, ...]:
    return (x + adjoint(x)) / 2, *others


def posdef(x: Any) -> tuple[Any]:
    return (x @ adjoint(x) + 2 * fnp.eye(x.shape[-1]),)


def columns(x: Any, d: Any) -> Any:
    return x * d[..., None, :]


def unitary(x: Any) -> Any:
    return adjoint(x) @ x - fnp.eye(x.shape[-1])


# Systems.


def _triangle(arg: Triangular, a: Any) -> Any:
    n = a.shape[-1]
    a = fnp.tril(a) if arg.lower else fnp.triu(a)
    if arg.unit_diagonal:
        a = fnp.where(fnp.eye(n, dtype=bool), 1, a)
    a = fnp.conj(a) if arg.conjugate_a else a
    return fnp.matrix_transpose(a) if arg.transpose_a else a


def _triangular(arg: Triangular) -> Sample:
    def meaning(a: Any, b: Any, x: Any) -> list[Any]:
        a = _triangle(arg, a)
        return [(a @ x if arg.left_side else x @ a) - b]

    shape = (3, 2) if arg.left_side else (2, 3)
    return Sample(
        systems.triangular_solve_p,
        shaped((3, 3), shape, shift=2),
        meaning,
        arg,
        kinds="c" if arg.conjugate_a else "fc",
    )


def _factored(a: Any, b: Any) -> tuple[Any, ...]:
    factors, _, order = bind_compound(systems.lu_p, bind(stop_gradient, a))
    return a, factors, order, b


def _lu_solve(arg: Op) -> Sample:
    def meaning(a: Any, b: Any, x: Any) -> list[Any]:
        a = fnp.conj(a) if arg.conjugate else a
        return [(fnp.matrix_transpose(a) if arg.transpose else a) @ x - b]

    return Sample(
        systems.lu_solve_p,
        shaped((3, 3), (3, 2), shift=1),
        meaning,
        arg,
        prepare=_factored,
    )


def _lu(m: int, n: int) -> Sample:
    k = min(m, n)

    def meaning(a: Any, factors: Any, pivots: Any, order: Any) -> list[Any]:
        left = fnp.tril(factors, -1)[..., :k] + fnp.eye(m, k)
        right = fnp.triu(factors)[..., :k, :]
        moved = fnp.take_along_axis(a, order[..., None], axis=-2)
        return [left @ right - moved]

    return Sample(
        systems.lu_p, shaped((m, n)), meaning, seen=lambda factors, *_: factors
    )


def _sign_and_size(a: Any, sign: Any, size: Any) -> list[Any]:
    return [sign * fnp.exp(size) - np.linalg.det(np.asarray(a))]


# Orthogonal factors.


def _qr(m: int, n: int, full: bool) -> Sample:
    k = min(m, n)

    def meaning(a: Any, q: Any, r: Any) -> list[Any]:
        return [q @ r - a, unitary(q), fnp.tril(r, -1)]

    def seen(q: Any, r: Any) -> list[Any]:
        rest = q[..., k:]
        return [q[..., :k], r, rest @ adjoint(rest)]

    return Sample(factors.qr_p, shaped((m, n)), meaning, full, seen=seen)


def _pivoted(m: int, n: int, full: bool) -> Sample:
    def meaning(a: Any, q: Any, r: Any, order: Any) -> list[Any]:
        moved = fnp.take_along_axis(a, order[..., None, :], axis=-1)
        return [q @ r - moved, unitary(q)]

    k = min(m, n)
    return Sample(
        factors.qr_pivoted_p, shaped((m, n)), meaning, full, scipy=True,
        seen=lambda q, r, order: [q[..., :k], r],
    )  # fmt: skip


def _of_reflections(a: Any, factors: Any, taus: Any) -> list[Any]:
    q = lax.linalg.householder_product(factors, taus)
    return [q @ fnp.triu(factors)[..., :3, :] - a]


# Spectra.


def _svd(m: int, n: int, arg: str) -> Sample:
    k = min(m, n)

    def meaning(a: Any, u: Any, s: Any, vh: Any) -> list[Any]:
        rebuilt = columns(u[..., :k], s) @ vh[..., :k, :]
        return [rebuilt - a, unitary(u), unitary(adjoint(vh))]

    def seen(u: Any, s: Any, vh: Any) -> list[Any]:
        left, right, rest = u[..., :k], vh[..., :k, :], u[..., k:]
        found = [
            s, columns(left, s) @ adjoint(left), columns(left, s**2) @ right,
            columns(adjoint(right), s) @ right, rest @ adjoint(rest),
        ]  # fmt: skip
        return found if u.dtype.kind == "c" else [*found, left, right]

    order = 2 if arg == "reduced" and m > n else 1
    return Sample(factors.svd_p, shaped((m, n)), meaning, arg, seen=seen, order=order)


def _values(a: Any, s: Any) -> list[Any]:
    return [s - np.linalg.svd(np.asarray(a), compute_uv=False)]


def _pseudoinverse(a: Any, rtol: Any, inverse: Any) -> list[Any]:
    product, other = a @ inverse, inverse @ a
    return [
        a @ inverse @ a - a, inverse @ a @ inverse - inverse,
        product - adjoint(product), other - adjoint(other),
    ]  # fmt: skip


def _deficient(rank: int, m: int, n: int) -> Any:
    """The operand of a pseudoinverse: a product of this rank, and a tolerance."""

    def operands(rng: Any, lead: tuple[int, ...], is_complex: bool) -> list[Any]:
        return [
            draw(rng, lead, (m, rank), is_complex),
            draw(rng, lead, (rank, n), is_complex),
        ]

    return operands


def _product(x: Any, y: Any) -> tuple[Any, Any]:
    return x @ y, fnp.full(x.shape[:-2], 1e-4, x.real.dtype)


def _of_product(x: Any, y: Any, inverse: Any) -> list[Any]:
    return _pseudoinverse(x @ y, None, inverse)


def _least(rank: int, m: int, n: int) -> Sample:
    """Least squares of a product of this rank; two right sides."""

    def operands(rng: Any, lead: tuple[int, ...], is_complex: bool) -> list[Any]:
        more = draw(rng, lead, (m, 2), is_complex)
        return [*_deficient(rank, m, n)(rng, lead, is_complex), more]

    def prepare(x: Any, y: Any, b: Any) -> tuple[Any, Any, Any]:
        a, limit = _product(x, y)
        return a, b, limit

    def meaning(x: Any, y: Any, b: Any, found: Any, values: Any) -> list[Any]:
        a, limit = _product(x, y)
        more = fnp.linalg.svdvals(a)[..., :rank] - values[..., :rank]
        return [fnp.linalg.pinv(a, limit) @ b - found, more]

    def seen(found: Any, values: Any) -> list[Any]:
        return [found, values[..., :rank]]

    return Sample(
        compositions.least_squares_p, operands, meaning, prepare=prepare, seen=seen
    )


def _hermitian_product(x: Any, y: Any) -> tuple[Any, Any]:
    return _product(x, adjoint(x))


def _of_hermitian_product(x: Any, y: Any, inverse: Any) -> list[Any]:
    return _pseudoinverse(x @ adjoint(x), None, inverse)


def _eigh(lower: bool) -> Sample:
    def meaning(a: Any, v: Any, w: Any) -> list[Any]:
        (a,) = hermitian(a)
        return [a @ v - columns(v, w), unitary(v)]

    def seen(v: Any, w: Any) -> list[Any]:
        found = [w, columns(v, w**2) @ adjoint(v), v[..., :1] @ adjoint(v[..., :1])]
        return found if v.dtype.kind == "c" else [*found, v]

    return Sample(
        factors.eigh_p, shaped((3, 3), scale=0.5, shift=2), meaning, lower,
        prepare=hermitian, seen=seen,
    )  # fmt: skip


def _eig(a: Any, w: Any, left: Any, right: Any) -> list[Any]:
    lengths = [fnp.linalg.norm(x, axis=-2) - 1 for x in (left, right)]
    rows = adjoint(left)
    return [a @ right - columns(right, w), rows @ a - w[..., None] * rows, *lengths]


# Functions.


def _fourier(kind: str, lengths: tuple[int, ...]) -> Sample:
    last = lengths[-1] // 2 + 1 if kind == "irfft" else lengths[-1]

    def meaning(x: Any, y: Any) -> list[Any]:
        axes = tuple(range(-len(lengths), 0))
        return [getattr(np.fft, f"{kind}n")(np.asarray(x), lengths, axes) - y]

    return Sample(
        fft.fft_p, shaped((*lengths[:-1], last)), meaning, Fourier(kind, lengths),
        kinds="f" if kind == "rfft" else "c",
    )  # fmt: skip


def _pivots(rng: Any, lead: tuple[int, ...], is_complex: bool) -> list[Any]:
    return [rng.integers(3, 5, (*lead, 3)).astype(np.int32)]


def _exchanged(pivots: Any, order: Any) -> list[Any]:
    want = np.empty(order.shape, np.int32)
    for index in np.ndindex(*order.shape[:-1]):
        rows = list(range(order.shape[-1]))
        for i, other in enumerate(np.asarray(pivots)[index]):
            rows[i], rows[other] = rows[other], rows[i]
        want[index] = rows
    return [order - want]


def _bands(dl: Any, d: Any, du: Any, b: Any, x: Any) -> list[Any]:
    above = fnp.zeros_like(x).at[..., :-1, :].set(x[..., 1:, :])
    below = fnp.zeros_like(x).at[..., 1:, :].set(x[..., :-1, :])
    parts = zip((dl, d, du), (below, x, above), strict=True)
    return [sum(band[..., None] * y for band, y in parts) - b]


def _tridiagonal(a: Any, packed: Any, d: Any, e: Any, taus: Any) -> list[Any]:
    d, e = np.asarray(d), np.asarray(e)
    rows = np.arange(d.shape[-1])
    matrix = d[..., None] * np.eye(len(rows))
    matrix[..., rows[1:], rows[:-1]] = matrix[..., rows[:-1], rows[1:]] = e
    (a,) = hermitian(a)
    return [np.linalg.eigvalsh(np.asarray(a)) - np.linalg.eigvalsh(matrix)]


def _hessenberg(a: Any, packed: Any, taus: Any) -> list[Any]:
    h = np.triu(np.asarray(packed), -1)
    traces = [np.trace(np.linalg.matrix_power(x, 3), 0, -2, -1) for x in (a, h)]
    return [traces[0] - traces[1]]


SAMPLES: list[Sample] = [
    Sample(
        systems.cholesky_p, shaped((3, 3)),
        lambda a, f: [f @ adjoint(f) - posdef(a)[0], fnp.triu(f, 1)], prepare=posdef,
    ),
    *(
        _triangular(Triangular(*flags))
        for flags in itertools.product((False, True), repeat=5)
        if sum(flags) % 2 == 0  # any four of the flags in each combination
    ),
    *(_lu(m, n) for m, n in ((3, 3), (4, 2), (2, 4))),
    *(_lu_solve(Op(t, c)) for t in (False, True) for c in (False, True)),
    Sample(systems.slogdet_p, shaped((3, 3)), _sign_and_size),
    Sample(
        compositions.det_p, shaped((4, 4)),
        lambda a, d: [np.linalg.det(np.asarray(a)) - d],
    ),
    Sample(
        compositions.cofactors_p, shaped((3, 3)),
        lambda a, c: [
            fnp.matrix_transpose(c) @ a
            - np.linalg.det(np.asarray(a))[..., None, None] * np.eye(3)
        ],
    ),
    Sample(
        systems.permutation_p, _pivots, _exchanged, 5, seen=None, kinds="f"
    ),
    *(
        _qr(m, n, full)
        for m, n in ((3, 3), (4, 2), (2, 4))
        for full in (False, True)
    ),
    *(_pivoted(m, n, full) for m, n in ((4, 2), (2, 4)) for full in (False, True)),
    Sample(
        factors.householder_factor_p, shaped((4, 3)), _of_reflections, seen=None
    ),
    *(
        _svd(m, n, arg)
        for m, n in ((3, 3), (4, 2), (2, 4))
        for arg in ("full", "reduced")
    ),
    Sample(factors.svd_p, shaped((4, 3)), _values, "values"),
    Sample(
        compositions.pinv_p, _deficient(2, 4, 3), _of_product, False, prepare=_product
    ),
    Sample(
        compositions.pinv_p, _deficient(3, 3, 3), _of_product, False, prepare=_product
    ),
    Sample(
        compositions.pinv_p, _deficient(2, 4, 3), _of_hermitian_product, True,
        prepare=_hermitian_product,
    ),
    *(_least(*sizes) for sizes in ((2, 4, 3), (3, 4, 3), (2, 5, 2), (2, 3, 4))),
    *(_eigh(lower) for lower in (False, True)),
    Sample(factors.eig_p, shaped((3, 3)), _eig),
    Sample(
        factors.eigvals_p, shaped((3, 3)),
        lambda a, w: [w.sum(-1) - fnp.trace(a, axis1=-2, axis2=-1)],
    ),
    Sample(
        factors.sylvester_p, shaped((3, 3), (2, 2), (3, 2), shift=2),
        lambda a, b, c, x: [a @ x + x @ b - c],
    ),
    Sample(
        factors.sqrtm_p, shaped((3, 3), scale=0.3, shift=2),
        lambda a, s: [s @ s - a], scipy=True,
    ),
    Sample(
        factors.schur_p, shaped((3, 3)),
        lambda a, t, z: [z @ t @ adjoint(z) - a, unitary(z)], seen=None, scipy=True,
    ),
    *(
        _fourier(kind, lengths)
        for kind in ("fft", "ifft", "rfft", "irfft")
        for lengths in ((5,), (3, 4))
    ),
    Sample(
        factors.hessenberg_p, shaped((4, 4)), _hessenberg, seen=None, scipy=True
    ),
    Sample(
        factors.tridiagonal_p, shaped((4, 4)), _tridiagonal, True, seen=None,
        prepare=hermitian, scipy=True,
    ),
    Sample(
        systems.tridiagonal_solve_p, shaped((4,), (4,), (4,), (4, 2)), _bands,
    ),
]  # fmt: skip

"""Factorisations as LLVM IR: calls of LAPACK for each matrix of a batch.

LAPACK is column-major: of a row-major matrix it sees the transpose, whose lower
triangle is our upper one. Matrices are the units that threads share.
"""

from __future__ import annotations

from collections.abc import Callable

from ftrace.devices.llvm.lapack.decompositions import DECOMPOSITIONS
from ftrace.devices.llvm.lapack.routines import Routines
from ftrace.devices.llvm.lapack.small_factors import (
    SMALL_ROUTINES,
    Triangle,
    eliminated,
    exchange,
    move_rows,
    substitute,
)
from ftrace.devices.llvm.loops.rendered import Rendered
from ftrace.devices.llvm.runtime.work import WORTH_A_THREAD
from ftrace.devices.llvm.target import Target
from ftrace.lower.lapack_kernels import Factor


def _cholesky(f: Routines, unit: str) -> None:
    """Our lower triangle is LAPACK's upper one."""
    (n,) = f.kernel.sizes
    result, a = f.buffer(0, unit), f.buffer(1, unit)
    with f.repeat(n) as i:
        count = f.let(f"add i64 {i}, 1")
        nbytes = f.let(f"mul i64 {count}, {f.size}")
        f.copy(f.address(result, (i, n)), f.address(a, (i, n)), nbytes)
        rest = f.let(f"sub i64 {n * f.size}, {nbytes}")
        f.clear(f.address(result, (i, n), (count, 1)), rest)
    info = f.variable("i32", 0)
    f.call("potrf", f.char("U"), f.integer(n), result, f.integer(n), info)
    with f.when(f.let(f"icmp ne i32 {f.load('i32', info)}, 0")), f.repeat(n) as i:
        f.fill_nan(f.address(result, (i, n)), f.let(f"add i64 {i}, 1"))


def _triangular(f: Routines, unit: str) -> None:
    """X is (n, k), or (k, n) if `op(a)` is on the right; a unit has some of the k."""
    n, k, parts = f.kernel.sizes
    left, lower, transpose, conjugate, ones = f.kernel.flags
    matrix, part = f.split(unit, parts)
    result, a, b = (f.buffer(number, matrix) for number in range(3))
    count = k // parts
    first = f.let(f"mul i64 {part}, {count}")
    if left:
        result, b = (f.address(x, (first, 1)) for x in (result, b))
        f.copy_rows(result, b, n, count, k)
    else:
        result, b = (f.address(x, (first, n)) for x in (result, b))
        f.copy(result, b, n * count * f.size)
    # op(a) X = b is Xᵀ op(a)ᵀ = bᵀ, and BLAS sees aᵀ, Xᵀ and bᵀ.
    trans = ("C" if conjugate else "T") if transpose else "N"
    facts = ("R" if left else "L", "U" if lower else "L", trans, "U" if ones else "N")
    f.solve_triangular(a, result, n, count, facts, k if left else n)
    if f.is_complex:
        return
    steps = (k, 1) if left else (1, n)
    forwards = lower != (transpose if left else not transpose)
    last = n - 1 if forwards else 0
    with f.when(_is_not_finite(f, result, last, count, steps)):
        # BLAS works in blocks, in which NaN spreads to rows that come before it.
        if left:
            f.copy_rows(result, b, n, count, k)
        else:
            f.copy(result, b, n * count * f.size)
        of = Triangle(lower, transpose if left else not transpose, ones)
        substitute(f, of, a, result, (n, count), steps)


def _is_not_finite(
    f: Routines, x: str, row: int, k: int, steps: tuple[int, int]
) -> str:
    """Is a number missing in the row that was computed last, as in all before it?

    What is infinite or NaN stays so: zeros do not make it finite again.
    """
    down, across = steps
    return f.any_not_finite(f.address(x, (row, down)), k, across)


def _spread_nan(f: Routines, factors: str, m: int, n: int) -> None:
    """What is computed from a pivot that is NaN is NaN, also where BLAS left it out."""
    t, least = f.real, min(m, n)
    first = f.variable("i64", least)
    with f.repeat(least) as j:
        at = f.let(f"sub i64 {least - 1}, {j}")
        pivot = f.load(t.text, f.address(factors, (at, m + 1)))
        with f.when(f.let(f"fcmp uno {t} {pivot}, {t.constant(0)}")):
            f.store("i64", at, first)
    begin = f.load("i64", first)
    with f.when(f.let(f"icmp ult i64 {begin}, {least}")), f.repeat(n, begin) as column:
        below = f.let(f"add i64 {begin}, 1")
        rest = f.let(f"sub i64 {m - 1}, {begin}")
        f.fill_nan(f.address(factors, (column, m), (below, 1)), rest)


def _lu(f: Routines, unit: str) -> None:
    """Of column-major matrices; rows are numbered from 0."""
    m, n = f.kernel.sizes
    factors, pivots, order, a = (f.buffer(number, unit) for number in range(4))
    f.copy(factors, a, m * n * f.size)
    info = f.variable("i32", 0)
    sizes = f.integer(m), f.integer(n), factors, f.integer(m)
    f.call("getrf", *sizes, pivots, info)
    if f.is_complex:
        _spread_nan(f, factors, m, n)
    else:
        with f.when(f.any_not_finite(factors, m * n)):
            # Which of several NaN is a pivot depends on BLAS's code for a processor.
            f.copy(factors, a, m * n * f.size)
            with eliminated(f, factors, m, n, (1, m)) as (j, place):
                at = f.let(f"getelementptr i32, ptr {pivots}, i64 {j}")
                chosen = f.let(f"trunc i64 {place} to i32")
                f.store("i32", f.let(f"add i32 {chosen}, 1"), at)
    with f.repeat(m) as i:
        at = f.let(f"getelementptr i32, ptr {order}, i64 {i}")
        f.store("i32", f.let(f"trunc i64 {i} to i32"), at)
    with f.repeat(min(m, n)) as i:
        at = f.let(f"getelementptr i32, ptr {pivots}, i64 {i}")
        chosen = f.let(f"sub i32 {f.load('i32', at)}, 1")
        f.store("i32", chosen, at)
        exchange(f, order, i, chosen)


def _solve(f: Routines, unit: str) -> None:
    """By column-major factors; the rows of X are BLAS's columns."""
    n, k, parts = f.kernel.sizes
    (transpose,) = f.kernel.flags
    matrix, part = f.split(unit, parts)
    buffers = [f.buffer(number, matrix) for number in range(5)]
    count = k // parts
    first = f.let(f"mul i64 {part}, {count}")
    factors, order = buffers[2:4]
    result, scratch, b = (f.address(buffers[i], (first, 1)) for i in (0, 1, 4))
    if not transpose:
        move_rows(f, result, b, order, (n, count, k), gather=True)
        f.solve_triangular(factors, result, n, count, ("R", "L", "T", "U"), k)
        f.solve_triangular(factors, result, n, count, ("R", "U", "T", "N"), k)
        if f.is_complex:
            return
        with f.when(_is_not_finite(f, result, 0, count, (k, 1))):
            move_rows(f, result, b, order, (n, count, k), gather=True)
            for lower in (True, False):  # of column-major factors: the transposes
                of = Triangle(not lower, True, lower)
                substitute(f, of, factors, result, (n, count), (k, 1))
        return
    f.copy_rows(scratch, b, n, count, k)
    f.solve_triangular(factors, scratch, n, count, ("R", "U", "N", "N"), k)
    f.solve_triangular(factors, scratch, n, count, ("R", "L", "N", "U"), k)
    if not f.is_complex:
        with f.when(_is_not_finite(f, scratch, 0, count, (k, 1))):
            f.copy_rows(scratch, b, n, count, k)
            for lower in (True, False):
                of = Triangle(lower, False, not lower)
                substitute(f, of, factors, scratch, (n, count), (k, 1))
    move_rows(f, result, scratch, order, (n, count, k), gather=False)


def _tridiagonal(f: Routines, unit: str) -> None:
    """X is column-major; the lower diagonal begins with a number that is not read."""
    n, k = f.kernel.sizes
    result, *copies = (f.buffer(number, unit) for number in range(4))
    *diagonals, b = (f.buffer(number, unit) for number in range(4, 8))
    f.copy(result, b, n * k * f.size)
    for to, of in zip(copies, diagonals, strict=True):
        f.copy(to, of, n * f.size)
    lower, middle, upper = copies
    info = f.variable("i32", 0)
    f.call(
        "gtsv", f.integer(n), f.integer(k), f.beyond(lower, f.size), middle, upper,
        result, f.integer(n), info,
    )  # fmt: skip
    with f.when(f.let(f"icmp ne i32 {f.load('i32', info)}, 0")):
        f.fill_nan(result, n * k)


_ROUTINES: dict[str, Callable[[Routines, str], None]] = {
    "cholesky": _cholesky,
    "triangular": _triangular,
    "lu": _lu,
    "solve": _solve,
    "tridiagonal": _tridiagonal,
    **DECOMPOSITIONS,
}


def render_factor(kernel: Factor, target: Target, name: str) -> Rendered:
    """The code of a factorisation, as function `name`."""
    f = Routines(kernel, name)
    f.declare("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    small = kernel.routine in SMALL_ROUTINES
    routine = (SMALL_ROUTINES if small else _ROUTINES)[kernel.routine]
    if not small:
        f.alone(True)
    with f.repeat("%end", "%begin") as unit:
        routine(f, unit)
    if not small:
        f.alone(False)
    f.give()
    head = [f'target triple = "{target.triple}"', *f.declared]
    text = "\n".join([*head, f.text])
    each = max(kernel.work // kernel.parts, 1)
    return Rendered(text, kernel.batch * kernel.parts, -(-WORTH_A_THREAD // each))

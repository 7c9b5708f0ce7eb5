"""Factorisations as LLVM IR: calls of LAPACK for each matrix of a batch.

LAPACK is column-major: of a row-major matrix it sees the transpose, whose lower
triangle is our upper one. Matrices are the units that threads share. Of QR, eigenvalues
and singular values the last buffers that are written are memory for the routines. Where
a routine finds no result, all of them are NaN.
"""

from __future__ import annotations

from collections.abc import Callable

from ftrace.backends.llvm.emit.module import Rendered
from ftrace.backends.llvm.library.lapack.small import (
    SMALL_ROUTINES,
    FactorFunction,
    Triangle,
    eliminate,
    exchange,
    move_rows,
    substitute,
)
from ftrace.backends.llvm.target import Target
from ftrace.lower.library.lapack_kernels import Factor


def _qr(f: FactorFunction, unit: str) -> None:
    """Q (m, kq) and R (kr, n): first the reflections, in the one that holds them.

    With pivots also the numbers of the columns, from 1 on.
    """
    m, n, columns, length = f.kernel.sizes
    (pivoted,) = f.kernel.flags
    parts = f.buffers(unit)
    q, r, tau, work, *pivots, a = parts
    k = min(m, n)
    in_r = columns == m  # R has as many rows as the matrix
    factor = r if in_r else q
    f.copy(factor, a, m * n * f.size)
    info = f.variable("i32", 0)
    memory = tau, work, f.integer(length), info
    sizes = f.integer(m), f.integer(n), factor, f.integer(m)
    if pivoted:
        order, *reals = pivots
        f.clear(order, 4 * n)  # no column has its place yet
        f.call_routine("geqp3", *sizes, order, *memory[:-1], *reals, info)
    else:
        f.call_routine("geqrf", *sizes, *memory)
    rows = m if in_r else k
    if in_r:
        f.copy(q, r, m * k * f.size)
    with f.repeat(n) as j:
        high = f.let(f"add i64 {j}, 1")
        over = f.let(f"icmp ugt i64 {high}, {rows}")
        kept = f.let(f"select i1 {over}, i64 {rows}, i64 {high}")
        nbytes = f.let(f"mul i64 {kept}, {f.size}")
        column = f.address(r, (j, rows))
        if not in_r:
            f.copy(column, f.address(q, (j, m)), nbytes)
        rest = f.let(f"sub i64 {rows * f.size}, {nbytes}")
        f.clear(f.beyond(column, nbytes), rest)
    name = "ungqr" if f.is_complex else "orgqr"
    sizes = f.integer(m), f.integer(columns), f.integer(k)
    f.call_routine(name, *sizes, q, f.integer(m), *memory)


def _reflections(f: FactorFunction, unit: str) -> None:
    m, n, length = f.kernel.sizes
    factor, tau, work, a = f.buffers(unit, 4)
    f.copy(factor, a, m * n * f.size)
    memory = tau, work, f.integer(length), f.variable("i32", 0)
    f.call_routine("geqrf", f.integer(m), f.integer(n), factor, f.integer(m), *memory)


def _eigh(f: FactorFunction, unit: str) -> None:
    n, length, real_length, integers = f.kernel.sizes
    lower, with_vectors = f.kernel.flags
    parts = f.buffers(unit)
    vectors, values, work, whole, a = parts[0], parts[1], parts[2], parts[-2], parts[-1]
    f.copy(vectors, a, n * n * f.size)
    info = f.variable("i32", 0)
    memory = [work, f.integer(length)]
    if f.is_complex:
        memory += [parts[3], f.integer(real_length)]
    memory += [whole, f.integer(integers), info]
    job = f.char("V" if with_vectors else "N")
    letters = job, f.char("L" if lower else "U")
    name = "heevd" if f.is_complex else "syevd"
    f.call_routine(name, *letters, f.integer(n), vectors, f.integer(n), values, *memory)
    t = f.real
    failed = f.variable("i1", f.is_set(info))
    with f.repeat(n) as i:
        value = f.load(t.text, f.item(t.text, values, i))
        unknown = f.let(f"fcmp uno {t} {value}, {value}")
        f.store("i1", f.let(f"or i1 {f.load('i1', failed)}, {unknown}"), failed)
    with f.when(f.load("i1", failed)):
        if with_vectors:
            f.fill_nan(vectors, n * n)
        f.fill_nan_reals(values, n)


def _svd(f: FactorFunction, unit: str) -> None:
    m, n, rows, columns, length = f.kernel.sizes
    (vectors,) = f.kernel.flags
    parts = f.buffers(unit)
    u, s, vh = parts[:3] if vectors else ("null", parts[0], "null")
    matrix, work, *others, whole, a = parts[3 if vectors else 1 :]
    f.copy(matrix, a, m * n * f.size)
    info = f.variable("i32", 0)
    job = "N" if not vectors else "A" if rows == m and columns == n else "S"
    f.call_routine(
        "gesdd", f.char(job), f.integer(m), f.integer(n), matrix, f.integer(m), s,
        u, f.integer(m), vh, f.integer(max(columns, 1)), work, f.integer(length),
        *others, whole, info,
    )  # fmt: skip
    with f.when(f.is_set(info)):
        f.fill_nan_reals(s, min(m, n))
        if vectors:
            f.fill_nan(u, m * rows)
            f.fill_nan(vh, columns * n)


def _eig(f: FactorFunction, unit: str) -> None:
    """Values (their parts, if the matrix is real), vectors, memory; the matrix."""
    n, length = f.kernel.sizes
    left, right = f.kernel.flags
    parts = f.buffers(unit)
    a = parts.pop()
    values = [parts.pop(0) for _ in range(1 if f.is_complex else 2)]
    u, v = (parts.pop(0) if asked else "null" for asked in (left, right))
    matrix, *memory = parts
    f.copy(matrix, a, n * n * f.size)
    info = f.variable("i32", 1)
    width = 2 if f.is_complex else 1
    with f.when(f.let(f"xor i1 {f.any_not_finite(a, n * n * width)}, true")):
        f.call_routine(
            "geev", f.char("V" if left else "N"), f.char("V" if right else "N"),
            f.integer(n), matrix, f.integer(n), *values, u, f.integer(n), v,
            f.integer(n), memory[0], f.integer(length), *memory[1:], info,
        )  # fmt: skip
    with f.when(f.is_set(info)):
        for part in values:
            f.fill_nan_reals(part, n * width)
        for asked, vectors in ((left, u), (right, v)):
            if asked:
                f.fill_nan_reals(vectors, n * n * width)


def _cholesky(f: FactorFunction, unit: str) -> None:
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
    f.call_routine("potrf", f.char("U"), f.integer(n), result, f.integer(n), info)
    with f.when(f.is_set(info)), f.repeat(n) as i:
        f.fill_nan(f.address(result, (i, n)), f.let(f"add i64 {i}, 1"))


def _triangular(f: FactorFunction, unit: str) -> None:
    """X is (n, k), or (k, n) if `op(a)` is on the right; a unit has some of the k."""
    n, k, parts = f.kernel.sizes
    left, lower, transpose, conjugate, ones = f.kernel.flags
    matrix, part = f.divide(unit, parts)
    result, a, b = f.buffers(matrix, 3)
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
    f: FactorFunction, x: str, row: int, k: int, steps: tuple[int, int]
) -> str:
    """Is a number missing in the row that was computed last, as in all before it?

    What is infinite or NaN stays so: zeros do not make it finite again.
    """
    down, across = steps
    return f.any_not_finite(f.address(x, (row, down)), k, across)


def _spread_nan(f: FactorFunction, factors: str, m: int, n: int) -> None:
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


def _lu(f: FactorFunction, unit: str) -> None:
    """Of column-major matrices; rows are numbered from 0."""
    m, n = f.kernel.sizes
    factors, pivots, order, a = f.buffers(unit, 4)
    f.copy(factors, a, m * n * f.size)
    info = f.variable("i32", 0)
    sizes = f.integer(m), f.integer(n), factors, f.integer(m)
    f.call_routine("getrf", *sizes, pivots, info)
    if f.is_complex:
        _spread_nan(f, factors, m, n)
    else:
        with f.when(f.any_not_finite(factors, m * n)):
            # Which of several NaN is a pivot depends on BLAS's code for a processor.
            f.copy(factors, a, m * n * f.size)
            with eliminate(f, factors, m, n, (1, m)) as (j, place):
                at = f.item("i32", pivots, j)
                chosen = f.let(f"trunc i64 {place} to i32")
                f.store("i32", f.let(f"add i32 {chosen}, 1"), at)
    with f.repeat(m) as i:
        at = f.item("i32", order, i)
        f.store("i32", f.let(f"trunc i64 {i} to i32"), at)
    with f.repeat(min(m, n)) as i:
        at = f.item("i32", pivots, i)
        chosen = f.let(f"sub i32 {f.load('i32', at)}, 1")
        f.store("i32", chosen, at)
        exchange(f, order, i, chosen)


def _solve(f: FactorFunction, unit: str) -> None:
    """By column-major factors; the rows of X are BLAS's columns."""
    n, k, parts = f.kernel.sizes
    (transpose,) = f.kernel.flags
    matrix, part = f.divide(unit, parts)
    buffers = f.buffers(matrix)
    count = k // parts
    first = f.let(f"mul i64 {part}, {count}")
    factors, order = buffers[2:4]
    result, scratch, b = (f.address(buffers[i], (first, 1)) for i in (0, 1, 4))
    sizes, x = (n, count, k), scratch if transpose else result

    def fill() -> None:
        if transpose:
            f.copy_rows(scratch, b, *sizes)
        else:
            move_rows(f, result, b, order, sizes, gather=True)

    fill()
    for lower in (not transpose, transpose):  # of column-major factors: the transposes
        trans, unit = "N" if transpose else "T", "U" if lower else "N"
        letters = ("R", "L" if lower else "U", trans, unit)
        f.solve_triangular(factors, x, n, count, letters, k)
    if not f.is_complex:
        with f.when(_is_not_finite(f, x, 0, count, (k, 1))):
            fill()
            for lower in (not transpose, transpose):
                of = Triangle(not lower, not transpose, lower)
                substitute(f, of, factors, x, (n, count), (k, 1))
    if transpose:
        move_rows(f, result, scratch, order, sizes, gather=False)


def _tridiagonal(f: FactorFunction, unit: str) -> None:
    """X is column-major; the lower diagonal begins with a number that is not read."""
    n, k = f.kernel.sizes
    result, *copies = f.buffers(unit, 4)
    *diagonals, b = (f.buffer(number, unit) for number in range(4, 8))
    f.copy(result, b, n * k * f.size)
    for to, of in zip(copies, diagonals, strict=True):
        f.copy(to, of, n * f.size)
    lower, middle, upper = copies
    info = f.variable("i32", 0)
    f.call_routine(
        "gtsv", f.integer(n), f.integer(k), f.beyond(lower, f.size), middle, upper,
        result, f.integer(n), info,
    )  # fmt: skip
    with f.when(f.is_set(info)):
        f.fill_nan(result, n * k)


_ROUTINES: dict[str, Callable[[FactorFunction, str], None]] = {
    "cholesky": _cholesky,
    "triangular": _triangular,
    "lu": _lu,
    "solve": _solve,
    "tridiagonal": _tridiagonal,
    "qr": _qr,
    "reflections": _reflections,
    "eigh": _eigh,
    "svd": _svd,
    "eig": _eig,
}


def render_factor(kernel: Factor, target: Target) -> Rendered:
    """The code of a factorisation."""
    f = FactorFunction(kernel, target)
    small = kernel.routine in SMALL_ROUTINES
    routine = (SMALL_ROUTINES if small else _ROUTINES)[kernel.routine]
    if not small:
        f.alone(True)
    with f.repeat("%end", "%begin") as unit:
        routine(f, unit)
    if not small:
        f.alone(False)
    return f.finish(kernel.batch * kernel.blocks, kernel.work // kernel.blocks)

"""QR, eigenvalues and singular values as LLVM IR: LAPACK on column-major matrices.

The last buffers that are written are memory for the routines. Where a routine finds no
result, all of them are NaN.
"""

from __future__ import annotations

from collections.abc import Callable

from ftrace.devices.llvm.lapack.routines import Routines


def _qr(f: Routines, unit: str) -> None:
    """Q (m, kq) and R (kr, n): first the reflections, in the one that holds them.

    With pivots also the numbers of the columns, from 1 on.
    """
    m, n, columns, length = f.kernel.sizes
    (pivoted,) = f.kernel.flags
    parts = [f.buffer(number, unit) for number in range(len(f.kernel.buffers))]
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
        f.call("geqp3", *sizes, order, *memory[:-1], *reals, info)
    else:
        f.call("geqrf", *sizes, *memory)
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
    f.call(name, *sizes, q, f.integer(m), *memory)


def _eigh(f: Routines, unit: str) -> None:
    n, length, real_length, integers = f.kernel.sizes
    lower, with_vectors = f.kernel.flags
    parts = [f.buffer(number, unit) for number in range(len(f.kernel.buffers))]
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
    f.call(name, *letters, f.integer(n), vectors, f.integer(n), values, *memory)
    t = f.real
    failed = f.variable("i1", f.let(f"icmp ne i32 {f.load('i32', info)}, 0"))
    with f.repeat(n) as i:
        value = f.load(t.text, f.let(f"getelementptr {t}, ptr {values}, i64 {i}"))
        unknown = f.let(f"fcmp uno {t} {value}, {value}")
        f.store("i1", f.let(f"or i1 {f.load('i1', failed)}, {unknown}"), failed)
    with f.when(f.load("i1", failed)):
        if with_vectors:
            f.fill_nan(vectors, n * n)
        f.fill_nan_reals(values, n)


def _svd(f: Routines, unit: str) -> None:
    m, n, rows, columns, length = f.kernel.sizes
    (vectors,) = f.kernel.flags
    parts = [f.buffer(number, unit) for number in range(len(f.kernel.buffers))]
    u, s, vh = parts[:3] if vectors else ("null", parts[0], "null")
    matrix, work, *others, whole, a = parts[3 if vectors else 1 :]
    f.copy(matrix, a, m * n * f.size)
    info = f.variable("i32", 0)
    job = "N" if not vectors else "A" if rows == m and columns == n else "S"
    f.call(
        "gesdd", f.char(job), f.integer(m), f.integer(n), matrix, f.integer(m), s,
        u, f.integer(m), vh, f.integer(max(columns, 1)), work, f.integer(length),
        *others, whole, info,
    )  # fmt: skip
    with f.when(f.let(f"icmp ne i32 {f.load('i32', info)}, 0")):
        f.fill_nan_reals(s, min(m, n))
        if vectors:
            f.fill_nan(u, m * rows)
            f.fill_nan(vh, columns * n)


def _eig(f: Routines, unit: str) -> None:
    """Values (their parts, if the matrix is real), vectors, memory; the matrix."""
    n, length = f.kernel.sizes
    left, right = f.kernel.flags
    parts = [f.buffer(number, unit) for number in range(len(f.kernel.buffers))]
    a = parts.pop()
    values = [parts.pop(0) for _ in range(1 if f.is_complex else 2)]
    u, v = (parts.pop(0) if asked else "null" for asked in (left, right))
    matrix, *memory = parts
    f.copy(matrix, a, n * n * f.size)
    info = f.variable("i32", 1)
    width = 2 if f.is_complex else 1
    with f.when(f.let(f"xor i1 {f.any_not_finite(a, n * n * width)}, true")):
        f.call(
            "geev", f.char("V" if left else "N"), f.char("V" if right else "N"),
            f.integer(n), matrix, f.integer(n), *values, u, f.integer(n), v,
            f.integer(n), memory[0], f.integer(length), *memory[1:], info,
        )  # fmt: skip
    with f.when(f.let(f"icmp ne i32 {f.load('i32', info)}, 0")):
        for part in values:
            f.fill_nan_reals(part, n * width)
        for asked, vectors in ((left, u), (right, v)):
            if asked:
                f.fill_nan_reals(vectors, n * n * width)


DECOMPOSITIONS: dict[str, Callable[[Routines, str], None]] = {
    "qr": _qr,
    "eigh": _eigh,
    "svd": _svd,
    "eig": _eig,
}

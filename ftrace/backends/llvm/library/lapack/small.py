"""A function that factorises the matrices of a batch, and its loops for small ones.

The loops are over scalars, row-major: of 3 and 4 rows, LAPACK takes 4 to 30 times as
long. They divide where LAPACK multiplies by a reciprocal, and never give up: where a
matrix has no factor, its results are NaN as LAPACK's are.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

import numpy as np

from ftrace import dtypes
from ftrace.backends.llvm.emit.module import LibraryFunction
from ftrace.backends.llvm.ir.function_builder import Function
from ftrace.backends.llvm.ir.writer import Type
from ftrace.backends.llvm.library.lapack.symbols import ALONE, ROUTINE, TOGETHER
from ftrace.backends.llvm.target import Target
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.library.lapack_kernels import Factor

_LETTERS = {
    dtypes.float32: "s",
    dtypes.float64: "d",
    dtypes.complex64: "c",
    dtypes.complex128: "z",
}
#: Operations of one matrix for which the library may use its own threads: they spin
#: for some 20 ms afterwards, and must have saved more than that. With 2³⁴ eigh of 1000²
#: is of one thread, with 2³⁰ cholesky of 2000² is not.
_WORTH_ITS_THREADS = 1 << 32


class FactorFunction(LibraryFunction):
    """Writes the function of a factorisation.

    Attributes:
      kernel: the factorisation.
      dtype: of its matrices.
    """

    def __init__(self, kernel: Factor, target: Target) -> None:
        super().__init__(target)
        self.kernel = kernel
        self.dtype = kernel.dtype
        self.size = kernel.dtype.itemsize

    @property
    def real(self) -> Type:
        """The type of a real number, or of a part of a complex one."""
        return Type.of(dtypes.real_dtype(self.dtype), 0)

    @property
    def is_complex(self) -> bool:
        return dtypes.is_complex(self.dtype)

    # Memory.

    def buffer(self, number: int, unit: str) -> str:
        """The part of a buffer that belongs to a matrix of the batch."""
        spec = self.kernel.buffers[number]
        each = spec.size // self.kernel.batch * spec.dtype.itemsize
        base = self.slot("%buffers", number)
        return self.beyond(base, self.let(f"mul i64 {unit}, {each}"))

    def buffers(self, unit: str, count: int | None = None) -> list[str]:
        """Those parts of all buffers, or of the first ones."""
        count = len(self.kernel.buffers) if count is None else count
        return [self.buffer(number, unit) for number in range(count)]

    def is_set(self, flag: str) -> str:
        """Is a 32-bit integer not zero?"""
        return self.let(f"icmp ne i32 {self.load('i32', flag)}, 0")

    def copy_rows(
        self, target: str, source: str, rows: int, count: int, step: int
    ) -> None:
        """Copies so many elements of each row; rows are `step` elements apart."""
        if count == step:
            self.copy(target, source, rows * count * self.size)
            return
        with self.repeat(rows) as i:
            to, of = (self.address(x, (i, step)) for x in (target, source))
            self.copy(to, of, count * self.size)

    def address(self, base: str, *terms: tuple[str | int, int]) -> str:
        """The address of an element: the sum of the terms, each index times step."""
        at = base
        for index, step in terms:
            if isinstance(index, int):
                offset = str(index * step * self.size)
            else:
                offset = self.let(f"mul i64 {index}, {step * self.size}")
            at = self.beyond(at, offset)
        return at

    def fill_nan(self, target: str, count: str | int) -> None:
        """Sets so many numbers to NaN; the imaginary part to zero."""
        t = self.real
        with self.repeat(count) as i:
            at = self.address(target, (i, 1))
            self.put(t.constant(np.nan), at)
            if self.is_complex:
                self.put(t.constant(0), self.beyond(at, t.bytes))

    def fill_nan_reals(self, target: str, count: int) -> None:
        """Sets so many real numbers to NaN."""
        with self.repeat(count) as i:
            at = self.item(self.real.text, target, i)
            self.put(self.real.constant(np.nan), at)

    def any_not_finite(self, x: str, count: int, step: int = 1) -> str:
        """Is one of so many real numbers, `step` apart, infinite or NaN?"""
        t = self.real
        found = self.variable("i1", "false")
        with self.repeat(count) as i:
            at = self.let(f"mul i64 {i}, {step * t.bytes}")
            value = self.load(t.text, self.beyond(x, at))
            difference = self.let(f"fsub {t} {value}, {value}")  # NaN, unless it is 0
            bad = self.let(f"fcmp uno {t} {difference}, {t.constant(0)}")
            bad = self.let(f"or i1 {self.load('i1', found)}, {bad}")
            self.store("i1", bad, found)
        return self.load("i1", found)

    # Real numbers of this dtype.

    def get(self, at: str) -> str:
        return self.load(self.real.text, at)

    def put(self, value: str, at: str) -> None:
        self.store(self.real.text, value, at)

    def apply(self, word: str, a: str, b: str) -> str:
        return self.let(f"{word} {self.real} {a}, {b}")

    def less_product(self, total: str, a: str, b: str) -> str:
        """total - a·b."""
        return self.apply("fsub", total, self.apply("fmul", a, b))

    def intrinsic(self, name: str, a: str) -> str:
        t = self.real
        return self.outside(f"{t} llvm.{name}.{t.suffix}({t})", a)

    # Calls.

    def char(self, letter: str) -> str:
        """The address of a letter."""
        return self._constant("i8", ord(letter))

    def integer(self, value: int) -> str:
        """The address of a 32-bit integer."""
        return self._constant("i32", value)

    def _constant(self, kind: str, value: int) -> str:
        """A constant of the module."""
        return self.constant(f"@{kind}_{value}", f"{kind} {value}")

    def one(self) -> str:
        """The address of the number 1."""
        t = self.real
        parts = [f"{t} {t.constant(v)}" for v in (1, 0)[: self.size // t.bytes]]
        kind = f"[{len(parts)} x {t}]"
        return self.constant("@one", f"{kind} [{', '.join(parts)}]")

    def call_routine(self, routine: str, *pointers: str) -> None:
        """Calls a routine of BLAS or LAPACK in this dtype."""
        name = ROUTINE + _LETTERS[self.dtype] + routine
        types = ", ".join(["ptr"] * len(pointers))
        self.outside(f"void {name}({types})", *pointers)

    def alone(self, begins: bool) -> None:
        """The library uses no threads of its own between this and the other call."""
        if self.kernel.batch == 1 and self.kernel.work >= _WORTH_ITS_THREADS:
            return
        self.outside(f"void {ALONE if begins else TOGETHER}()")

    def solve_triangular(
        self,
        matrix: str,
        x: str,
        n: int,
        k: int,
        facts: tuple[str, str, str, str],
        step: int,
    ) -> None:
        """BLAS's trsm in place, or trsv for one column; `facts` are its four letters.

        The matrices are column-major; `x` is (k, n) on the right side, else (n, k),
        and its columns are `step` elements apart.
        """
        side, uplo, trans, unit = facts
        letters = [self.char(letter) for letter in facts]
        if k == 1 and trans != "C" and (side == "L" or step == 1):
            # x op(M) = b for a row x is op(M)ᵀ xᵀ = bᵀ.
            if side == "R":
                trans = "N" if trans == "T" else "T"
            self.call_routine(
                "trsv", self.char(uplo), self.char(trans), self.char(unit),
                self.integer(n), matrix, self.integer(n), x, self.integer(1),
            )  # fmt: skip
            return
        rows, columns = (k, n) if side == "R" else (n, k)
        self.call_routine(
            "trsm", *letters, self.integer(rows), self.integer(columns), self.one(),
            matrix, self.integer(n), x, self.integer(step),
        )  # fmt: skip


# Small matrices.


def exchange(f: Function, order: str, i: str, chosen: str) -> None:
    """Exchanges two of the row numbers."""
    one = f.item("i32", order, i)
    other = f.let(f"getelementptr i32, ptr {order}, i32 {chosen}")
    a, b = f.load("i32", one), f.load("i32", other)
    f.store("i32", b, one)
    f.store("i32", a, other)


def move_rows(
    f: FactorFunction,
    target: str,
    source: str,
    order: str,
    sizes: tuple[int, int, int],
    *,
    gather: bool,
) -> None:
    """target[i] = source[order[i]], or target[order[i]] = source[i].

    Args:
      sizes: how many rows, elements of each, and from one to the next.
    """
    rows, count, step = sizes
    with f.repeat(rows) as i:
        at = f.item("i32", order, i)
        other = f.let(f"sext i32 {f.load('i32', at)} to i64")
        to, of = (i, other) if gather else (other, i)
        places = f.address(target, (to, step)), f.address(source, (of, step))
        f.copy(*places, count * f.size)


def _cholesky(f: FactorFunction, unit: str) -> None:
    """Row by row; where a number without a root stands under one, all of it is NaN."""
    (n,) = f.kernel.sizes
    result, a = f.buffer(0, unit), f.buffer(1, unit)
    f.clear(result, n * n * f.size)
    total = f.variable(f.real.text, f.real.constant(0))
    bad = f.variable("i1", "false")
    with f.repeat(n) as i:
        row = f.address(result, (i, n))
        with f.repeat(f.let(f"add i64 {i}, 1")) as j:
            other = f.address(result, (j, n))
            f.put(f.get(f.address(a, (i, n), (j, 1))), total)
            with f.repeat(j) as k:
                left, right = (f.get(f.address(x, (k, 1))) for x in (row, other))
                f.put(f.less_product(f.get(total), left, right), total)
            at = f.address(row, (j, 1))
            on_diagonal = f.let(f"icmp eq i64 {i}, {j}")
            with f.when(on_diagonal):
                under = f.get(total)
                f.put(f.intrinsic("sqrt", under), at)
                # NaN tells nothing: it spreads to what is computed from it.
                none = f.let(f"fcmp ole {f.real} {under}, {f.real.constant(0)}")
                worse = f.let(f"or i1 {f.load('i1', bad)}, {none}")
                f.store("i1", worse, bad)
            with f.when(f.let(f"xor i1 {on_diagonal}, true")):
                pivot = f.get(f.address(other, (j, 1)))
                f.put(f.apply("fdiv", f.get(total), pivot), at)
    with f.when(f.load("i1", bad)), f.repeat(n) as i:
        f.fill_nan(f.address(result, (i, n)), f.let(f"add i64 {i}, 1"))


def _triangular(f: FactorFunction, unit: str) -> None:
    """By substitution, row after row; X is (n, k), or (k, n) on the left side."""
    n, k = f.kernel.sizes
    left, lower, transpose, _, ones = f.kernel.flags
    result, a, b = f.buffers(unit, 3)
    f.copy(result, b, n * k * f.size)
    # X op(a) = b is op(a)ᵀ Xᵀ = bᵀ.
    steps = (k, 1) if left else (1, n)
    of = Triangle(lower, transpose if left else not transpose, ones)
    substitute(f, of, a, result, (n, k), steps)


class Triangle(NamedTuple):
    """What of a square matrix `a` is op(a).

    Attributes:
      lower: which triangle of `a` is read.
      transposed: op is the transpose.
      ones: the diagonal is 1, whatever it holds.
    """

    lower: bool
    transposed: bool
    ones: bool


def substitute(
    f: FactorFunction,
    of: Triangle,
    a: str,
    x: str,
    sizes: tuple[int, int],
    steps: tuple[int, int],
) -> None:
    """X of op(a) X = x, in place.

    Args:
      sizes: the rows of X, and its columns.
      steps: from one row of X to the next, and from one column to the next.
    """
    (n, k), (down, across) = sizes, steps
    of_row, of_column = (1, n) if of.transposed else (n, 1)
    forwards = of.lower != of.transposed
    with f.repeat(n) as step:
        row = step if forwards else f.let(f"sub i64 {n - 1}, {step}")
        with f.repeat(step) as known:
            other = known if forwards else f.let(f"sub i64 {n - 1}, {known}")
            factor = f.get(f.address(a, (row, of_row), (other, of_column)))
            with f.repeat(k) as c:
                at = f.address(x, (row, down), (c, across))
                value = f.get(f.address(x, (other, down), (c, across)))
                f.put(f.less_product(f.get(at), factor, value), at)
        if not of.ones:
            pivot = f.get(f.address(a, (row, n + 1)))
            with f.repeat(k) as c:
                at = f.address(x, (row, down), (c, across))
                f.put(f.apply("fdiv", f.get(at), pivot), at)


def _lu(f: FactorFunction, unit: str) -> None:
    m, n = f.kernel.sizes
    x, pivots, order, a = f.buffers(unit, 4)
    f.copy(x, a, m * n * f.size)
    with f.repeat(m) as i:
        at = f.item("i32", order, i)
        f.store("i32", f.let(f"trunc i64 {i} to i32"), at)
    with eliminate(f, x, m, n, (n, 1)) as (j, place):
        narrow = f.let(f"trunc i64 {place} to i32")
        f.store("i32", narrow, f.item("i32", pivots, j))
        exchange(f, order, j, narrow)


@contextmanager
def eliminate(
    f: FactorFunction, x: str, m: int, n: int, steps: tuple[int, int]
) -> Generator[tuple[str, str]]:
    """Gauss's elimination in place: column by column, as `lapack_numpy.eliminate` does.

    A pivot is the first of the largest, NaN the last choice. The block is run for each
    column, with its number and that of the row which is exchanged with it.

    Args:
      steps: from one row of `x` to the next, and from one column to the next.
    """
    t = f.real
    down, across = steps
    best, chosen = f.variable(t.text, t.constant(0)), f.variable("i64", 0)
    with f.repeat(min(m, n)) as j:
        f.put(t.constant(-1), best)
        f.store("i64", j, chosen)
        with f.repeat(m, j) as i:
            size = f.intrinsic("fabs", f.get(f.address(x, (i, down), (j, across))))
            with f.when(f.let(f"fcmp ogt {t} {size}, {f.get(best)}")):
                f.put(size, best)
                f.store("i64", i, chosen)
        place = f.load("i64", chosen)
        yield j, place
        row, other = f.address(x, (j, down)), f.address(x, (place, down))
        with f.repeat(n) as c:
            one, two = f.address(row, (c, across)), f.address(other, (c, across))
            left, right = f.get(one), f.get(two)
            f.put(right, one)
            f.put(left, two)
        pivot = f.get(f.address(row, (j, across)))
        # A column of zeros stays, as in LAPACK: dividing it would make it NaN.
        zero = f.let(f"fcmp oeq {t} {pivot}, {t.constant(0)}")
        divisor = f.let(f"select i1 {zero}, {t} {t.constant(1)}, {t} {pivot}")
        after = f.let(f"add i64 {j}, 1")
        with f.repeat(m, after) as i:
            lower = f.address(x, (i, down))
            at = f.address(lower, (j, across))
            factor = f.apply("fdiv", f.get(at), divisor)
            f.put(factor, at)
            with f.repeat(n, after) as c:
                to = f.address(lower, (c, across))
                value = f.get(f.address(row, (c, across)))
                f.put(f.less_product(f.get(to), factor, value), to)


def _solve(f: FactorFunction, unit: str) -> None:
    n, k = f.kernel.sizes
    (transpose,) = f.kernel.flags
    result, scratch, factors, order, b = f.buffers(unit, 5)

    def solve(x: str, lower: bool) -> None:
        substitute(f, Triangle(lower, transpose, lower), factors, x, (n, k), (k, 1))

    if not transpose:
        move_rows(f, result, b, order, (n, k, k), gather=True)
        solve(result, True)
        solve(result, False)
        return
    f.copy(scratch, b, n * k * f.size)
    solve(scratch, False)
    solve(scratch, True)
    move_rows(f, result, scratch, order, (n, k, k), gather=False)


SMALL_ROUTINES: dict[str, Callable[[FactorFunction, str], None]] = {
    "small_cholesky": _cholesky,
    "small_triangular": _triangular,
    "small_lu": _lu,
    "small_solve": _solve,
}

"""A function that factorises the matrices of a batch, while it is being written."""

from __future__ import annotations

import numpy as np

from ftrace import dtypes
from ftrace.devices.llvm.emit.rendered import LibraryFunction
from ftrace.devices.llvm.ir.types import Type
from ftrace.devices.llvm.library.lapack.symbols import ALONE, ROUTINE, TOGETHER
from ftrace.devices.llvm.target import Target
from ftrace.lower.library.lapack_kernels import Factor

_LETTERS = {
    dtypes.float32: "s",
    dtypes.float64: "d",
    dtypes.complex64: "c",
    dtypes.complex128: "z",
}
#: Operations of one matrix for which the library may use its own threads: they spin
#: for some 20 ms afterwards, and must have saved more than that.
_WORTH_ITS_THREADS = 1 << 32


class Routines(LibraryFunction):
    """Writes the function of a factorisation.

    Attributes:
      kernel: the factorisation.
      dtype: of its matrices.
    """

    def __init__(self, kernel: Factor, target: Target, name: str) -> None:
        super().__init__(target, name)
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

    def clear(self, target: str, nbytes: str | int) -> None:
        self.declare("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        self.do(
            f"call void @llvm.memset.p0.i64(ptr {target}, i8 0, i64 {nbytes}, i1 0)"
        )

    def fill_nan(self, target: str, count: str | int) -> None:
        """Sets so many numbers to NaN; the imaginary part to zero."""
        t, parts = self.real, self.size // self.real.bytes
        with self.repeat(count) as i:
            at = self.address(target, (i, 1))
            self.store(t.text, t.constant(np.nan), at)
            if parts > 1:
                self.store(t.text, t.constant(0), self.beyond(at, t.bytes))

    def fill_nan_reals(self, target: str, count: int) -> None:
        """Sets so many real numbers to NaN."""
        t = self.real
        with self.repeat(count) as i:
            at = self.let(f"getelementptr {t}, ptr {target}, i64 {i}")
            self.store(t.text, t.constant(np.nan), at)

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

    # Calls.

    def char(self, letter: str) -> str:
        """The address of a letter."""
        return self._constant("i8", ord(letter))

    def integer(self, value: int) -> str:
        """The address of a 32-bit integer."""
        return self._constant("i32", value)

    def _constant(self, kind: str, value: int) -> str:
        """A constant of the module."""
        name = f"@{kind}_{value}"
        self.declare(f"{name} = internal constant {kind} {value}")
        return name

    def one(self) -> str:
        """The address of the number 1."""
        t = self.real
        parts = [f"{t} {t.constant(v)}" for v in (1, 0)[: self.size // t.bytes]]
        kind = f"[{len(parts)} x {t}]"
        self.declare(f"@one = internal constant {kind} [{', '.join(parts)}]")
        return "@one"

    def call(self, routine: str, *pointers: str) -> None:
        """Calls a routine of BLAS or LAPACK in this dtype."""
        name = ROUTINE + _LETTERS[self.dtype] + routine
        types = ", ".join(["ptr"] * len(pointers))
        self.declare(f"declare void @{name}({types})")
        self.do(f"call void @{name}({', '.join('ptr ' + p for p in pointers)})")

    def alone(self, begins: bool) -> None:
        """The library uses no threads of its own between this and the other call."""
        if self.kernel.batch == 1 and self.kernel.work >= _WORTH_ITS_THREADS:
            return
        name = ALONE if begins else TOGETHER
        self.declare(f"declare void @{name}()")
        self.do(f"call void @{name}()")

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
            self.call(
                "trsv", self.char(uplo), self.char(trans), self.char(unit),
                self.integer(n), matrix, self.integer(n), x, self.integer(1),
            )  # fmt: skip
            return
        rows, columns = (k, n) if side == "R" else (n, k)
        self.call(
            "trsm", *letters, self.integer(rows), self.integer(columns), self.one(),
            matrix, self.integer(n), x, self.integer(step),
        )  # fmt: skip

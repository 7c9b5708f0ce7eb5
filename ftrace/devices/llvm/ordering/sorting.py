"""A function that orders the elements of rows, while it is being written."""

from __future__ import annotations

from ftrace.devices.llvm.ir.writer import ARGUMENTS
from ftrace.devices.llvm.ordering.keys import Keys
from ftrace.devices.llvm.runner.function import Function
from ftrace.devices.llvm.target import Target
from ftrace.lower.ordering import Ordering

_COPY = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"


class Sorting(Function):
    """Writes the function of a kernel that sorts.

    Attributes:
      kernel: what it does.
      declared: the functions of others that it calls.
      parts: its own ones.
    """

    def __init__(self, kernel: Ordering, target: Target, name: str) -> None:
        super().__init__(name, "void", *ARGUMENTS.split(", "), visible=True)
        self.kernel = kernel
        self.target = target
        self.declared = [_COPY]
        self.parts: list[str] = []
        written = sum(spec.written for spec in kernel.buffers)
        self.operand = kernel.buffers[written]  # the first one
        self.first_operand = written
        self.keys = Keys(
            self.operand.dtype, kernel.merge_zeros, kernel.descending, kernel.half
        )

    @property
    def through(self) -> bool:
        """Is there an operand that tells the positions so far?"""
        return len(self.kernel.buffers) > self.first_operand + 1

    def base(self, number: int, offset: str) -> str:
        """The address of an element of a buffer."""
        size = self.kernel.buffers[number].dtype.itemsize
        nbytes = self.let(f"mul i64 {offset}, {size}")
        return self.beyond(self.slot("%buffers", number), nbytes)

    def row(self, number: int, row: str, length: int | None = None) -> str:
        """Where a row of a buffer begins."""
        size = self.kernel.size if length is None else length
        return self.base(number, self.let(f"mul i64 {row}, {size}"))

    def divided(self, x: str, divisor: int) -> tuple[str, str]:
        """The quotient and the rest."""
        if divisor == 1:
            return x, "0"
        return self.let(f"udiv i64 {x}, {divisor}"), self.let(
            f"urem i64 {x}, {divisor}"
        )

    def use(self, part: str) -> None:
        self.parts.append(part)

    def sort(self, symbol: str, at: str, count: str | int) -> None:
        self.let(f"call i32 @{symbol}(ptr {at}, i64 {count}, ptr null)")

    def use_sort(self, symbol: str) -> None:
        self.declared.append(f"declare i32 @{symbol}(ptr, i64, ptr)")

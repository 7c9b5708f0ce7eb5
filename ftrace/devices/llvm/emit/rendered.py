"""The code of a kernel, and what threads that share it have to know."""

from __future__ import annotations

from typing import Any

from ftrace.devices.llvm.ir.function_builder import Function
from ftrace.devices.llvm.ir.writer import ARGUMENTS
from ftrace.devices.llvm.runtime.work_estimate import WORTH_A_THREAD
from ftrace.devices.llvm.target import Target
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.symbolic.bounds import sample


@dataclass(frozen=True)
class Rendered:
    """The code of a kernel.

    Attributes:
      text: LLVM IR.
      parallel: how many units its domain has.
      grain: how many units are worth a thread's while.
      dims: sizes that are known at calls only, which the code finds as int64 in a
        buffer behind the kernel's own. Then `parallel` may be one, too.
    """

    text: str
    parallel: int
    grain: int
    dims: tuple[Any, ...] = ()

    @staticmethod
    def of(
        text: str,
        units: Any,
        operations: Any,
        worth: int = WORTH_A_THREAD,
        dims: tuple[Any, ...] = (),
    ) -> Rendered:
        """The code of so many operations in all its units.

        Args:
          worth: operations that pay for waking another thread.
        """
        grain = max(-(-worth * sample(units) // operations), 1)
        return Rendered(text, units, grain, dims)


class LibraryFunction(Function):
    """Writes the function of a kernel of a library's operation.

    Attributes:
      target: the processor that it is written for.
      parts: functions of its own that it calls.
    """

    def __init__(self, target: Target, name: str) -> None:
        super().__init__(name, "void", *ARGUMENTS.split(", "), visible=True)
        self.target = target
        self.parts: list[str] = []
        self._declared: dict[str, None] = {}

    def declare(self, line: str) -> None:
        """A function of elsewhere that it calls, or a constant."""
        self._declared[line] = None

    def divided(self, x: str, divisor: int) -> tuple[str, str]:
        """The quotient and the rest."""
        if divisor == 1:
            return x, "0"
        quotient = self.let(f"udiv i64 {x}, {divisor}")
        return quotient, self.let(f"urem i64 {x}, {divisor}")

    def rendered(self, units: int, operations: int) -> Rendered:
        """The code of so many units, of so many operations each."""
        self.give()
        head = f'target triple = "{self.target.triple}"', *self._declared
        text = "\n".join([*head, *self.parts, self.text])
        return Rendered(text, units, -(-WORTH_A_THREAD // max(operations, 1)))

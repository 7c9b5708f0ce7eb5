"""The code of a kernel, and what threads that share it have to know."""

from __future__ import annotations

from typing import Any

from ftrace.devices.llvm.runtime.work import WORTH_A_THREAD
from ftrace.records import dataclass
from ftrace.trace.sizes import sample


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

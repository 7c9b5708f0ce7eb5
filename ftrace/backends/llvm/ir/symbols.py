"""Names of functions that the code of kernels calls and that stand elsewhere."""

from __future__ import annotations

from typing import Final

from ftrace.ground.fast_dataclasses import NamedTuple

#: What the names of all of them begin with.
PREFIX: Final = "ftrace_"
#: What long kernels call, of the runner: shall this one stop? It found no memory.
POLL: Final = f"{PREFIX}poll"
STOP: Final = f"{PREFIX}stop"
#: How names of routines begin; the rest is BLAS's or LAPACK's: `dgetrf`.
ROUTINE: Final = f"{PREFIX}blas_"
#: The same of tables of roots of unity.
ROOTS: Final = f"{PREFIX}roots_"
#: The same of NumPy's sorts; the rest is LLVM's name of a type, or that of an unsigned
#: one with a u: `ftrace_sort_u32`.
SORT: Final = f"{PREFIX}sort_"
#: Scratch memory: see `runtime/warm_memory.py`.
TAKE: Final = f"{PREFIX}take_scratch"
GIVE: Final = f"{PREFIX}give_scratch"


class Formula(NamedTuple):
    """A function of elements, `ftrace_far_angle_v16f32`: all that its name tells.

    Attributes:
      name: the formula.
      lanes: of vectors; 0 is a scalar.
      bits: of a float.
    """

    name: str
    lanes: int
    bits: int

    @property
    def symbol(self) -> str:
        lanes = f"v{self.lanes}" if self.lanes else ""
        return f"{PREFIX}{self.name}_{lanes}f{self.bits}"

    @staticmethod
    def of(symbol: str) -> Formula:
        """The formula of a symbol that one has given."""
        name, _, operands = symbol.removeprefix(PREFIX).rpartition("_")
        lanes, _, bits = operands.removeprefix("v").partition("f")
        return Formula(name, int(lanes or 0), int(bits))

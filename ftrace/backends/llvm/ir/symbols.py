"""Names of functions that the code of kernels calls and that stand elsewhere."""

from __future__ import annotations

from typing import Final

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
#: Scratch memory: see `runtime/scratch.py`.
TAKE: Final = f"{PREFIX}take_scratch"
GIVE: Final = f"{PREFIX}give_scratch"

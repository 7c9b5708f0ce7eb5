"""JAX's `scipy.linalg`: factorisations, systems, functions, and special matrices."""

# ruff: noqa: F403

from __future__ import annotations

from ftrace.scipy import matrices, spectra
from ftrace.scipy.matrices import *
from ftrace.scipy.spectra import *
from ftrace.trace.eager.dispatch import make_all_eager

__all__: list[str] = []
__all__ += matrices.__all__
__all__ += spectra.__all__

make_all_eager(__name__)

"""JAX's `scipy.linalg`: factorisations, systems, functions, and special matrices."""

# ruff: noqa: F403

from __future__ import annotations

from ftrace.scipy import exponential, matrices, spectra, systems
from ftrace.scipy.exponential import *
from ftrace.scipy.matrices import *
from ftrace.scipy.spectra import *
from ftrace.scipy.systems import *
from ftrace.trace.eager import make_all_eager

__all__: list[str] = []
__all__ += exponential.__all__
__all__ += matrices.__all__
__all__ += spectra.__all__
__all__ += systems.__all__

make_all_eager(__name__)

"""Functions that hardware lacks, as plain arithmetic."""
from __future__ import annotations

from ftrace.lower.math.decompose import DECOMPOSITIONS, decompose

__all__ = ["DECOMPOSITIONS", "decompose"]

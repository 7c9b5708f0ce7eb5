"""Functions that hardware lacks, as plain arithmetic.

From the ground up:

    term          Formulas over nodes: a `Term` is a node with Python's operators;
                  the parts of floating-point numbers
    complex       Complex numbers as pairs of real terms: each elementwise primitive
                  on pairs
    exponential   exp, log, powers and roots
    trigonometry  sin, cos and tan, and their inverses
    special       The error function, its complement and its inverse; lgamma and
                  digamma; by tables, for processors that keep those in registers
    decompose     Rewriting of the functions that a device lacks, until only known
                  ones are left
"""

from __future__ import annotations

from ftrace.lower.legalize.math.decompose import ACCURACY, DECOMPOSITIONS, decompose

__all__ = ["ACCURACY", "DECOMPOSITIONS", "decompose"]

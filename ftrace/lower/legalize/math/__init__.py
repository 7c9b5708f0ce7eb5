"""Functions that hardware lacks, as plain arithmetic.

From the ground up:

    accuracy            How exact the decompositions are
    term                Formulas over nodes: a `Term` is a node with Python's operators
    floats              The parts of floating-point numbers, and sums and products
                        without rounding error
    argument_reduction  Argument reduction of sin, cos and tan: x = q·π/2 + r with |r| ≤
                        π/4, for every x
    basic               Functions of a few plain operations: signs, neighbours, bits,
                        and fma itself
    complex             Complex numbers as pairs of real terms: each elementwise
                        primitive on pairs
    exponential         exp and its family: eˣ = 2ⁿ·eʳ with n = round(x/ln 2) and |r| ≤
                        ln 2 / 2
    inverse             asin, acos, atan and atan2
    logarithm           log and its family: x = 2ᵏ·(1 + f) with 1 + f in [3/4, 3/2)
    error               The error function, its complement and its inverse
    table_functions     Functions by tables, for processors that keep those in registers
    power               Powers and roots: pow and cbrt
    trigonometry        sin, cos and tan: polynomials on [-π/4, π/4], exchanged and
                        negated by quadrant
    gamma               lgamma and digamma
    decompose           Rewriting of the functions that a device lacks, until only known
                        ones are left
"""

from __future__ import annotations

from ftrace.lower.legalize.math.accuracy import ACCURACY
from ftrace.lower.legalize.math.decompose import DECOMPOSITIONS, decompose

__all__ = ["ACCURACY", "DECOMPOSITIONS", "decompose"]

"""What a device lacks is said in operations that it has.

From the ground up:

    term          Formulas over nodes: a `Term` is a node with Python's operators;
                  the parts of floating-point numbers
    complex       Complex numbers as pairs of real terms: each elementwise primitive
                  on pairs
    exponential   exp, log, powers and roots
    trigonometry  sin, cos and tan, and their inverses
    special       The error function, its complement and its inverse; lgamma and
                  digamma; by tables, for processors that keep those in registers
    legalize      Kernels in the terms that machines have: reals of 32 or 64 bits, plain
                  arithmetic; functions that a device lacks are decomposed
"""

"""The primitives, by family. Each file is one family and one idea.

From the ground up:

    blocked_sums  Sums along axes in NumPy, whose rounding errors do not grow with the
                  terms
    minmax        The greater and the lesser of two numbers in NumPy, as IEEE 754-2019
                  has them
    primitive     One record per primitive: everything the system knows about an
                  operation
    barrier       barrier: values that exist only once all of them do
    reference     What elementwise primitives mean in NumPy, where no function of it
                  says just that
    sources       Primitives without operands: constants, iota, and the variables of a
                  graph
    movement      Movement: where elements go. Linear, and free until a kernel's index
                  arithmetic
    broadcast     Expand and sum
    elementwise   Elementwise primitives, a row each: name, meaning, derivative
    indexing      Gather and scatter by integer arrays
    reduction     Reductions: along axes, and over the instances of a function along a
                  named axis
    library/      Operations that a library does: sorting, LAPACK and Fourier transforms
"""

"""The primitives, by family. Each file is one family and one idea.

From the ground up:

    ranges        Where the results of elementwise primitives are, of where their
                  operands are
    primitive     One record per primitive: everything the system knows about an
                  operation; barriers
    reference     What elementwise primitives mean in NumPy, where no function of it
                  says just that
    numpy_sums    Sums in NumPy: along axes, and of products, as products of matrices
    sources       Primitives without operands: constants, iota, and the variables of a
                  graph
    movement      Movement: where elements go. Linear, and free until a kernel's index
                  arithmetic
    broadcast     Expand and sum
    elementwise   Elementwise primitives, a row each: name, meaning, derivative
    indexing      Gather and scatter by integer arrays
    exchange      What the processes along an axis of a mesh do together
    reduction     Reductions: along axes, and over the instances of a function along a
                  named axis
    library/      Operations that a library does: sorting, LAPACK and Fourier transforms
"""

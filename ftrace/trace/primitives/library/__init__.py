"""Operations that a library does: sorting, LAPACK and Fourier transforms.

From the ground up:

    library_op  The family of what the host computes: types that are checked, and
                batching
    fft         Fourier transforms over the last axes, of NumPy where a device has none
    linalg/     Factorisations of matrices, with their derivatives
    scan/       Running sums, products and extrema
    sorting/    Sorting, ranks and partitions, and the positions of what is true

A factorisation of a matrix that has none is NaN, as in JAX; no exception leaves a
step. Each derivative is an identity of linear algebra, written in other primitives:
higher orders and the reverse mode follow.
"""

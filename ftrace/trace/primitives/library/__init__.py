"""Operations that a library does: sorting, LAPACK and Fourier transforms.

Lowering makes kernels of most (`lower/library/`). From the ground up:

    lapack_numpy  LAPACK by NumPy and SciPy, on arrays with any leading axes
    matrix_nodes  Matrices of nodes: what the derivatives of factorisations are
                  written in
    library_op    The family of what the host computes: types that are checked,
                  and batching
    scan          Running sums, products and extrema
    sorting       Sorting, partitions, and where something holds
    fft           Fourier transforms over the last axes
    systems       Systems of linear equations: triangular, by LU, tridiagonal;
                  determinants
    factors       Factors of matrices: QR, singular values, eigenvalues, and
                  functions of matrices

A factorisation of a matrix that has none is NaN, as in JAX; no exception leaves a
step. Each derivative is an identity of linear algebra, written in other primitives:
higher orders and the reverse mode follow.
"""

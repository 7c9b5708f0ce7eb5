"""Factorisations of matrices, with their derivatives.

From the ground up:

    lapack_gufuncs    NumPy's functions of stacked matrices: one that has no
                      factorisation is NaN
    lapack_numpy      The calls of NumPy and SciPy, on arrays with any leading axes
    matrix_nodes      Matrices of nodes: what the derivatives of factorisations are
                      written in
    matrix_functions  Functions of matrices: square root, Sylvester's equation, Schur's
                      form
    svd               The singular value decomposition
    lstsq             Least squares
    triangular        cholesky, and systems with a triangular matrix
    lu                LU with partial pivoting, systems that it solves, and determinants
    eig               Eigenvalues and eigenvectors
    qr                QR, and products of reflections
    tridiagonal       Hessenberg and tridiagonal forms, and systems with a tridiagonal
                      matrix
"""

"""Factorisations of matrices: calls of LAPACK, and loops for small ones.

From the ground up:

    symbols  BLAS and LAPACK as addresses: those that SciPy offers to other compiled
             modules
    small    A function that factorises the matrices of a batch, and its loops for small
             ones
    render   Factorisations as LLVM IR: calls of LAPACK for each matrix of a batch
"""

"""Factorisations of matrices: calls of LAPACK, and loops for small ones.

From the ground up:

    symbols                  BLAS and LAPACK as addresses: those that SciPy offers to
                             other compiled modules
    function                 A function that factorises the matrices of a batch, while
                             it is being written
    unrolled_factorizations  Factorisations of small matrices as LLVM IR: loops over
                             scalars, row-major
    render                   Factorisations as LLVM IR: calls of LAPACK for each matrix
                             of a batch
"""

"""Factorisations of matrices: calls of LAPACK, and loops for small ones.

factorise       calls of LAPACK for each matrix of a batch
small_factors   loops over scalars
routines        a function that factorises, while it is written
blas            BLAS and LAPACK as addresses
"""

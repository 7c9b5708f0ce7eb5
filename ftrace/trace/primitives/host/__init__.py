"""What the host computes: sorting, LAPACK and Fourier transforms as steps of a program.

family       the constructor of these records: types, batching
matrix       products, transposes and triangles of nodes, for the rules of derivatives
matrix_loops NumPy's factorisations of all matrices of a batch
lapack       the calls of NumPy and SciPy, matrix by matrix
triangular   cholesky, triangular_solve
lu           lu, lu_solve, determinants
orthogonal   qr, householder_product
spectral     eigh, eig
singular     svd
functions    sqrtm, sylvester, schur
fft          Fourier transforms over the last axes
sorting      sorting, ranks; cumulative: running sums, products, extrema

A factorisation of a matrix that has none is NaN, as in JAX; no exception leaves a
step. Each derivative is an identity of linear algebra, written in other primitives:
higher orders and the reverse mode follow.
"""

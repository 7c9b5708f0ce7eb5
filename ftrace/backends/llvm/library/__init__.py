"""Library operations as native code.

From the ground up:

    fft/     Fourier transforms of any length, in vectors of complex numbers
    lapack/  Factorisations of matrices: calls of LAPACK, and loops for small ones
    sort/    Sorting, and the positions of what is true
"""

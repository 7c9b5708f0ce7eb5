"""Fourier transforms of any length, in vectors of complex numbers.

From the ground up:

    twiddles         Roots of unity for Fourier transforms: tables that stay while code
                     uses them
    complex_vectors  Vectors of complex numbers in LLVM IR, their parts apart
    load_store       Where the numbers of a transform come from or go to, and what
                     happens on the way
    stockham         The steps of a Fourier transform in LLVM IR: Stockham's, which keep
                     the order
    kernel           Fourier transforms as LLVM IR: the kernels of
                     `lower/library/fft_kernels.py`
"""

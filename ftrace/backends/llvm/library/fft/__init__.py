"""Fourier transforms of any length, in vectors of complex numbers.

From the ground up:

    twiddles         Roots of unity for Fourier transforms: tables that stay while code
                     uses them
    complex_vectors  Vectors of complex numbers in LLVM IR, and where they come from or
                     go to
    kernel           Fourier transforms as LLVM IR: the kernels of
                     `lower/library/fft_kernels.py`
"""

"""Fourier transforms.

kernel          the kernels of `lower/fft_kernels.py`
waves           vectors of complex numbers
sides           where numbers come from and go to, and by what they are multiplied
steps           the transform itself
turns           rows to the stack and back
real            real rows
tables          roots of unity
"""

"""Fourier transforms.

kernel          the kernels of `lower/fft_kernels.py`; real rows
waves           vectors of complex numbers
sides           where numbers come from and go to, and by what they are multiplied;
rows to the stack and back
steps           the transform itself
tables          roots of unity
"""

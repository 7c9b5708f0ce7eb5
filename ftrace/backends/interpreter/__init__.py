"""Kernels in NumPy: the reference for the other devices.

From the ground up:

    kernel  A kernel evaluated in NumPy: the meaning of the loops, as directly as NumPy
            says it
    device  The interpreter: programs run kernel by kernel in NumPy, the second oracle
"""

"""Kernels in NumPy: the reference for the other devices.

From the ground up:

    plan    What the interpreter knows of a kernel before it runs it
    kernel  A kernel evaluated in NumPy: the meaning of the loops, as directly as NumPy
            says it
    device  The interpreter: programs run kernel by kernel in NumPy, the second oracle
"""

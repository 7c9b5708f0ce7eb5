"""What a device lacks is said in operations that it has.

From the ground up:

    math/     Functions that hardware lacks, as plain arithmetic
    legalize  Kernels in the terms that machines have: reals of 32 or 64 bits, plain
              arithmetic
"""

"""Convolutions and their gradients: contractions one of whose operands slides.

Which strategy a kernel takes is a row of `PRODUCTS` in `render`. From the ground up:

    find             Which kernels are convolutions, and what it costs to evaluate what
                     they read
    strategies       How convolutions and their gradients run: an operand slides along
                     the columns, along the rows, or along what is summed over
    split_strides    Kernels in phases: where only every u-th place of an axis meets an
                     element
"""

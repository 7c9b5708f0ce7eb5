"""Convolutions and their gradients: contractions one of whose operands slides.

Which strategy a kernel takes is a row of `PRODUCTS` in `render`. From the ground up:

    find             Which kernels are convolutions, and what it costs to evaluate what
                     they read
    nchw             Convolutions: products whose right operand slides along an axis of
                     the columns
    nhwc             Convolutions whose left operand slides along the rows: numbers of
                     pixels, or groups
    filter_gradient  Gradients of convolutions by their filters: the window is what is
                     left of the sum
    split_strides    Kernels in phases: where only every u-th place of an axis meets an
                     element
"""

"""Convolutions and their gradients: contractions one of whose operands slides.

From the ground up:

    grouped                    Convolutions in groups, channels last: lanes are the
                               places of several groups
    nchw_plan                  Which contractions are convolutions, and the blocks in
                               which they run best
    depthwise_filter_gradient  Gradients of convolutions by few filters: lanes run along
                               the pixels
    nhwc_plan                  Which products are convolutions with channels last, and
                               the blocks they run in
    skip_padding               Taps that see padding alone are left out
    emitter                    What emits convolutions and their gradients: sums in
                               tiles of registers
    filter_gradient            Gradients of convolutions by their filters: the window is
                               what is left of the sum
    nchw                       Convolutions: products whose right operand slides along
                               an axis of the columns
    nhwc                       Convolutions with channels last: products whose left
                               operand slides along the rows
    depthwise_nchw             Depthwise convolutions with channels first: lanes are
                               channels all the same
    split_strides              Kernels in phases: where only every u-th place of an axis
                               meets an element
"""

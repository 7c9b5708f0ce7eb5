"""Convolutions and their gradients: contractions one of whose operands slides.

From the ground up:

    find                       Which kernels are convolutions, and what it costs to
                               evaluate what slides
    skip_padding               Taps that see padding alone are left out
    schedule                   How a convolution, or a gradient of one, runs, as data
    still_operand              The operand that does not slide: read where it stands, or
                               from a panel
    nchw                       Convolutions: products whose right operand slides along
                               an axis of the columns
    nhwc                       Convolutions whose left operand slides along the rows:
                               numbers of pixels
    filter_gradient            Gradients of convolutions by their filters: the window is
                               what is left of the sum
    image                      The operand that slides, in a panel: evaluated once for
                               each line that is seen
    emitter                    Carries out the schedule of a convolution
    depthwise_filter_gradient  Gradients of convolutions by few filters: lanes run along
                               the pixels
    split_strides              Kernels in phases: where only every u-th place of an axis
                               meets an element
"""

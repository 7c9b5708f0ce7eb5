"""From a group of values to a kernel: movement becomes index arithmetic.

From the ground up:

    index_view      What a kernel computes of each node, and where, before anything is
                    built
    relax_mul_zero  Products of derivatives that need not look for zeros beside infinity
    build_kernel    From the draft of a kernel to the kernel: an expression for each
                    node and place
"""

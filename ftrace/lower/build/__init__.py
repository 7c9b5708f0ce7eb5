"""From a group of values to a kernel: movement becomes index arithmetic.

From the ground up:

    index_view      What a kernel computes of each node, and where, before anything is
                    built
    build_kernel    From a schedule's draft to a kernel: an expression for each node and
                    place
"""

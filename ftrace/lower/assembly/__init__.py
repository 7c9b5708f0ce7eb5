"""From kernels to a program: in what order, in whose memory, and as text on disk.

From the ground up:

    assemble   Which values share memory, slots for all values of a program, and its
               steps
    serialize  Programs, kernels and graphs as text: the same in every process
"""

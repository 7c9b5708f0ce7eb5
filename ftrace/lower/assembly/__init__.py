"""From kernels to a program: in what order, in whose memory, and as text on disk.

From the ground up:

    overlap    When what processes do together starts, and when it is waited for
    assemble   Which values share memory, slots for all values of a program, and its
               steps
    serialize  Programs, kernels and graphs as text: the same in every process
"""

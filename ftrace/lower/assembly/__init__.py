"""From kernels to a program: in what order, in whose memory, and as text on disk.

From the ground up:

    buffer_reuse  Which values take the memory of others instead of a copy of it
    assemble      Slots for all values of a program, and its steps
    serialize     Programs, kernels and graphs as text: the same in every process
"""

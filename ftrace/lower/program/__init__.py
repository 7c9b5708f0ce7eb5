"""Programs as data: steps, and the arena in which their values lie.

From the ground up:

    ir  The program: buffers, and the steps that fill them, in order
"""

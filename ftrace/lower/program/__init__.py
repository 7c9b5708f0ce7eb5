"""Programs as data: steps, and the arena in which their values lie.

From the ground up:

    arena_plan  The memory plan: which parts of one arena hold the values between
                kernels
    ir          The program: buffers, and the steps that fill them, in order
"""

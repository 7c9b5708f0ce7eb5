"""Small loops become one kernel whose carry stays in registers.

From the ground up:

    register_loop    Recurrences: loops of small bodies as one kernel that keeps the
                     carry in registers
    scalar_elements  Arrays as scalars: the elements of a graph's values as expressions
                     of a kernel
    promote_loops    Loops with small bodies become recurrences, which run in
                     registers
"""

"""Facts about graphs that several stages ask for.

From the ground up:

    cost            What a value is made of, and what it costs: questions that many
                    stages ask
    axis_alignment  Which axes of an operation and of its operands run in step, and the
                    same on slices
"""

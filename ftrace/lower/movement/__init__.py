"""Movement merges with itself, and goes where it costs nothing.

From the ground up:

    reorder              Movements merge with each other, vanish, and move through work,
                         into one order
    sliding_window_sums  Sums over windows that slide: the gradient of a convolution by
                         its input
"""

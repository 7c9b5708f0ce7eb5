"""Movement merges with itself, and goes where it costs nothing.

From the ground up:

    merge                Rules on movements next to each other: two of a kind merge,
                         idle ones vanish
    push_through         Rules that move movements through the work between them, and
                         into one order
    sliding_window_sums  Sums over windows that slide: the gradient of a convolution by
                         its input
"""

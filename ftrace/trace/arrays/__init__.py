"""Arrays, and the memory that they lie in.

From the ground up:

    buffer  Memory, wherever it is: how much there is, buffers, and the allocators that
            keep them for reuse
    array   Array: the immutable concrete value that users hold
"""

"""Arrays, and the memory that they lie in.

From the ground up:

    guard_pages   Memory that ends at a page which nobody may touch: FTRACE_FENCE=1
    memory_limit  How much memory there is, asked before much of it is taken
    buffer        Memory, wherever it is: buffers, and the allocators that keep them for
                  reuse
    array         Array: the immutable concrete value that users hold
"""

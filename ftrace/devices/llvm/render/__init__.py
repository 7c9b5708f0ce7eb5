"""Which strategy makes the code of a kernel.

From the ground up:

    select_strategy  A kernel as LLVM IR for a processor: `render`
    render           What stands between a kernel and its code: legal operations, then
                     the writer for it
"""

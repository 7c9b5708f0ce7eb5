"""The native runner: a program, control flow included, is one native call.

    records     what it walks over: steps and programs, as words in memory
    function    a helper that writes functions of LLVM IR
    steps       programs, kernels, branches, host calls, and the entry `run`
    loops       iterations: carry, elements, stacks, lanes
    stacks      what iterations of unknown number push
    chunks      the memory of these
    signals     how a call that takes long is interrupted

A program runs on a *frame*: an array of pointers, one per slot. At the top they point
into this call's objects; the frame of a branch or a body is made from the frame around
it. A step is a record that begins with the address of its handler,

    i32 handler(record, frame, context)

which gives 0 to go on; any other status ends all programs around it.
"""

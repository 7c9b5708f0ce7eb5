"""The loops of a kernel as LLVM IR: how memory is read, what registers hold.

From the ground up:

    addressing          Addresses, loads and stores
    module              The module of a kernel: its functions, what threads that share
                        it have to know, and when it asks whether to stop
    emit_values         The expressions of a kernel as values in registers
    emit_memory         Loads and stores of a kernel, and prefetches: which kind of
                        access serves each
    called_functions    Which functions a kernel calls, and of what they consist
    accumulators        The accumulators of reduces: what is combined in registers, and
                        in which order
    loop_nest           The loops of a kernel, as the tiling says: over axes, in them
                        reduces and stores
    staged_kernel       Parts of a kernel that run one after the other on a block that
                        fits in the cache
    blocked_ranges      The block of a cut that is open, panels of two blocks, and
                        images
    schedule_emitter    Carries schedules out, statement by statement
"""

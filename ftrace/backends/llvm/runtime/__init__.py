"""What a process has once: threads, warm memory, and the runner of programs.

From the ground up:

    records         What the runner walks over, word by word: written by Python, read by
                    native code
    ufunc_loops     The loops in C of NumPy's ufuncs, called without what NumPy does
                    around them
    warm_memory     Memory kept warm from one run to the next: stacks of loops, scratch
                    of kernels
    runner          The native runner: a program, control flow included, is one native
                    call
    work_estimate   How much a program does, as far as it is known before it runs
    messages        What processes send each other, as native code sends it
    step_log        When the steps of a program ran, as native code notes it
    program_table   Programs as the native runner reads them: records in memory
    peak            What a processor computes at the most: multiply-adds that stay in
                    registers
    thread_pool     The thread pool of the CPU: LLVM IR that is compiled once per
                    process
    runtime         What a process has once: the thread pool and the native runner; warm
                    memory
"""

"""What a process has once: threads, warm memory, and the runner of programs.

From the ground up:

    scratch         Scratch memory of kernels, kept warm from one run to the next
    vm/             The native runner: a program, control flow included, is one native
                    call
    warm_allocator  Warm host memory: fresh pages cost more than most of the work done
                    on them
    work_estimate   How much a program does, as far as it is known before it runs
    program_table   Programs as the native runner reads them: records in memory
    thread_pool     The thread pool of the CPU: LLVM IR that is compiled once per
                    process
    runtime         The runtime of this process: the thread pool and the native runner,
                    compiled
"""

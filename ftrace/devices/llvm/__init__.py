"""The CPU: kernels as vector code of this machine, and a program as one native call.

    device          the CPU: what it decides for a kernel, and what a program becomes
    target          what the generator knows of a processor
    render          a kernel as LLVM IR; rendering: legal operations, then the writer

Each folder has a map of its files:

    ir              functions of LLVM IR while they are written
    loops           the loops of a kernel
    products        contractions in blocks; sliding: convolutions
    recurrences     loops in registers, running reductions
    fourier         Fourier transforms; ordering: sorts; lapack: factorisations
    compiling       text to machine code, by way of the disk cache; tuning
    runtime         threads, memory, and what programs are run with
    runner          the native runner of programs
    calling         calls in native code, of jitted functions and eager ones
"""

"""The CPU: kernels as vector code of this machine, and a program as one native call.

From the ground up:

    codegen_options  What the CPU decides about the code of a kernel: names for
                     `config.disabled_rules`
    compile_threads  Threads that compile: no signal arrives in them
    ir/              LLVM IR while it is written: types, functions, lines
    object_cache     Object code on disk, so that the next process need not compile
    target           What is known of a processor: vectors, features, caches, and the
                     cores to use
    elf_loader       Object code into memory, without LLVM: for x86-64 on Linux
    compile          LLVM IR text to machine code in this process, by way of the disk
                     cache
    scalar/          Operations of elements in LLVM IR, a row for each
    runtime/         What a process has once: threads, warm memory, and the runner of
                     programs
    call/            Calls in native code, where the interpreter's layout is known
    schedule/        How the loops of a kernel run: tiles, vectors, units. No LLVM IR is
                     written
    emit/            The loops of a kernel as LLVM IR: how memory is read, what
                     registers hold
    contraction/     Contractions in blocks that fit in the caches, by tiles of sums in
                     registers
    convolution/     Convolutions and their gradients: contractions one of whose
                     operands slides
    register_loops   Loops whose steps need the one before: registers are phi nodes,
                     lanes a vector
    scan_loops       A running reduction as LLVM IR: a `Recurrence` that says how it
                     runs, as its `scan`
    library/         Library operations as native code
    kernels/         Compiled kernels and programs: how they are found, made and cached
    render           A kernel as LLVM IR for a processor: legal operations, then the
                     writer for its kind
    device           The CPU: kernels as vector code of this machine, a program as one
                     native call
"""
